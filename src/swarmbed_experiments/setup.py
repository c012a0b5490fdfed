from setuptools import find_packages, setup

PACKAGE = "swarmbed_experiments"

setup(
    name=PACKAGE,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    package_data={PACKAGE: ["py.typed", "templates/*"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="Swarmbed Developers",
    maintainer_email="developers@swarmbed.org",
    description="Scenarios, runs, sweeps, recordings, benchmarks and the swarmbed command.",
    license="Apache-2.0",
    extras_require={"test": ["pytest"]},
    entry_points={
        "console_scripts": [
            "swarmbed = swarmbed_experiments.cli:main",
            "trial = swarmbed_experiments.trial:main",
        ],
        "swarmbed.generators": [
            "radio_loss = swarmbed_experiments.generators:RadioLoss",
            "dead_sensor = swarmbed_experiments.generators:DeadSensor",
            "robot_death = swarmbed_experiments.generators:RobotDeath",
            "moved_carrier = swarmbed_experiments.generators:MovedCarrier",
            "wheel_slip = swarmbed_experiments.generators:WheelSlip",
            "motion_noise = swarmbed_experiments.generators:MotionNoise",
            "blocked_zone = swarmbed_experiments.generators:BlockedZone",
        ],
        "swarmbed.transducers": [
            "carriers = swarmbed_experiments.transducers:Carriers",
            "travel = swarmbed_experiments.transducers:Travel",
            "contacts = swarmbed_experiments.transducers:Contacts",
            "energy = swarmbed_experiments.transducers:Energy",
            "messages = swarmbed_experiments.transducers:Messages",
            "localisation = swarmbed_experiments.transducers:Localisation",
            "convoy = swarmbed_experiments.transducers:Convoy",
            "deliveries = swarmbed_experiments.deliveries:Deliveries",
            "formation = swarmbed_experiments.transducers:Formation",
            "readings = swarmbed_experiments.readings:ReadingsOf",
        ],
        "swarmbed.acceptors": [
            "retrieved = swarmbed_experiments.acceptors:Retrieved",
            "arrived = swarmbed_experiments.acceptors:Arrived",
            "elapsed = swarmbed_experiments.acceptors:Elapsed",
            "delivered = swarmbed_experiments.deliveries:Delivered",
            "agreed = swarmbed_experiments.agreement:Agreed",
            "coherent = swarmbed_experiments.acceptors:Coherent",
            "safe = swarmbed_experiments.acceptors:Safe",
        ],
    },
)
