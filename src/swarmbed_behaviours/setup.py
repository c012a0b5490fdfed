from setuptools import find_packages, setup

PACKAGE = "swarmbed_behaviours"

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
    description="Controllers for robots, and the toolkit of behaviour trees that they are built from.",
    license="Apache-2.0",
    # xdevs is GPL-3.
    extras_require={"test": ["pytest"], "devs": ["xdevs>=3.0,<4"]},
    entry_points={
        "swarmbed.controllers": [
            "reference = swarmbed_behaviours.reference:Reference",
            "cooperative = swarmbed_behaviours.cooperative:Cooperative",
            "collective = swarmbed_behaviours.collective:Collective",
            "random_walk = swarmbed_behaviours.random_walk:RandomWalk",
            "wall_following = swarmbed_behaviours.wall_following:WallFollowing",
            "go_to_goal = swarmbed_behaviours.go_to_goal:GoToGoal",
            "aggregation = swarmbed_behaviours.aggregation:Aggregation",
            "dispersion = swarmbed_behaviours.dispersion:Dispersion",
            "convoy = swarmbed_behaviours.convoy:Convoy",
            "transport = swarmbed_behaviours.transport:Transport",
            "election = swarmbed_behaviours.election:Election",
            "epuck2_walk = swarmbed_behaviours.epuck2:Walk",
            "epuck2_wheels = swarmbed_behaviours.epuck2:Wheels",
            "follow_path = swarmbed_behaviours.follow_path:FollowPath",
            "devs = swarmbed_behaviours.devs:Devs",
        ],
        "swarmbed.metrics": ["swarmbed_behaviours = swarmbed_behaviours.metrics:METRICS"],
        "swarmbed.devs_models": ["convoy = swarmbed_behaviours.convoy_devs:ConvoyRobot"],
    },
)
