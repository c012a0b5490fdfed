from setuptools import find_packages, setup

PACKAGE = "swarmbed_robot"
NODES = ("world", "onboard", "controller", "tf_relay", "recorder", "teleop", "detector", "navigator")

setup(
    name=PACKAGE,
    version="0.1.0",
    packages=find_packages(exclude=["test"]),
    package_data={PACKAGE: ["py.typed", "loopback.xml"]},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=False,
    maintainer="Swarmbed Developers",
    maintainer_email="developers@swarmbed.org",
    description="The robot API on ROS 2: nodes for worlds, robots and controllers.",
    license="Apache-2.0",
    extras_require={"test": ["pytest"]},
    entry_points={
        "console_scripts": [f"{node} = {PACKAGE}.{node}:main" for node in NODES],
        "swarmbed.devices": ["virtual = swarmbed_robot.virtual:Virtual"],
    },
)
