from setuptools import find_packages, setup

PACKAGE = "swarmbed_gazebo"

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
    description="The world gazebo: world files, and the proxy of a gzserver that runs in lock-step.",
    license="Apache-2.0",
    extras_require={"test": ["pytest"]},
    entry_points={
        "swarmbed.worlds": [
            "gazebo = swarmbed_gazebo.world:make",
            "gazebo11 = swarmbed_gazebo.world:make_gazebo11",
            "harmonic = swarmbed_gazebo.world:make_harmonic",
        ],
    },
)
