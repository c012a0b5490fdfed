from setuptools import find_packages, setup

PACKAGE = "swarmbed_reality"

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
    description="Robots that are partly or wholly outside the simulation: foreign clocks, remote parts.",
    license="Apache-2.0",
    extras_require={"test": ["pytest"]},
    entry_points={"swarmbed.devices": ["remote = swarmbed_reality.remote:Remote"]},
)
