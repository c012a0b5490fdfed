from setuptools import find_packages, setup

PACKAGE = "swarmbed_experiments"

setup(
    name=PACKAGE,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    package_data={PACKAGE: ["py.typed", "tools/templates/*", "tools/templates/package/*"]},
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
            "trial = swarmbed_experiments.launching.trial:main",
        ],
        "swarmbed.studies": [
            "convoy = swarmbed_experiments.studies.convoy:STUDY",
            "epuck2 = swarmbed_experiments.studies.epuck2:STUDY",
            "transport = swarmbed_experiments.studies.transport:STUDY",
        ],
        "swarmbed.metrics": ["swarmbed_experiments = swarmbed_experiments.frame.metrics:METRICS"],
        "swarmbed.generators": [
            "radio_loss = swarmbed_experiments.frame.generators:RadioLoss",
            "dead_sensor = swarmbed_experiments.frame.generators:DeadSensor",
            "robot_death = swarmbed_experiments.frame.generators:RobotDeath",
            "moved_carrier = swarmbed_experiments.frame.generators:MovedCarrier",
            "wheel_slip = swarmbed_experiments.frame.generators:WheelSlip",
            "motion_noise = swarmbed_experiments.frame.generators:MotionNoise",
            "blocked_zone = swarmbed_experiments.frame.generators:BlockedZone",
        ],
        "swarmbed.transducers": [
            "carriers = swarmbed_experiments.frame.transducers:Carriers",
            "travel = swarmbed_experiments.frame.transducers:Travel",
            "contacts = swarmbed_experiments.frame.transducers:Contacts",
            "energy = swarmbed_experiments.frame.transducers:Energy",
            "messages = swarmbed_experiments.frame.transducers:Messages",
            "localisation = swarmbed_experiments.frame.transducers:Localisation",
            "convoy = swarmbed_experiments.frame.transducers:Convoy",
            "deliveries = swarmbed_experiments.frame.deliveries:Deliveries",
            "formation = swarmbed_experiments.frame.transducers:Formation",
            "readings = swarmbed_experiments.frame.readings:ReadingsOf",
            "tracking = swarmbed_experiments.frame.tracking:Tracking",
        ],
        "swarmbed.acceptors": [
            "retrieved = swarmbed_experiments.frame.acceptors:Retrieved",
            "arrived = swarmbed_experiments.frame.acceptors:Arrived",
            "elapsed = swarmbed_experiments.frame.acceptors:Elapsed",
            "delivered = swarmbed_experiments.frame.deliveries:Delivered",
            "agreed = swarmbed_experiments.frame.agreement:Agreed",
            "coherent = swarmbed_experiments.frame.acceptors:Coherent",
            "safe = swarmbed_experiments.frame.acceptors:Safe",
            "tracked = swarmbed_experiments.frame.tracking:Tracked",
        ],
    },
)
