from setuptools import find_packages, setup

PACKAGE = "swarmbed_sim"

setup(
    name=PACKAGE,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    package_data={PACKAGE: ["py.typed"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="Swarmbed Developers",
    maintainer_email="developers@swarmbed.org",
    description="Worlds in this process: mujoco (3-D, lifting) and planar (thousands of robots).",
    license="Apache-2.0",
    extras_require={"test": ["pytest"]},
    entry_points={
        "swarmbed.worlds": [
            "mujoco = swarmbed_sim.mujoco_world:make",
            "planar = swarmbed_sim.planar_world:make",
        ],
        "swarmbed.crowd_readings": ["epuck2 = swarmbed_sim.epuck2:EPuck2Senses"],
    },
)
