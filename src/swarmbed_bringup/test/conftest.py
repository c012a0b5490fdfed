"""What the tests of the workspace share: its files, and the launch files as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from swarmbed_core.spec import RobotSpec

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car")


@pytest.fixture(params=KINDS)
def any_spec(request):
    """Return each kind of robot in turn."""
    return RobotSpec.load(request.param)


@pytest.fixture
def dots():
    """Return the DOTS robot."""
    return RobotSpec.load("dots")


@pytest.fixture(scope="session")
def root():
    """Return the root of the workspace."""
    return ROOT


@pytest.fixture(scope="session")
def module_of():
    """Return what makes a file a module."""

    def make(path):
        spec = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return make


@pytest.fixture(scope="session")
def view_robot(module_of):
    """Return launch/view_robot.launch.py as a module."""
    return module_of(ROOT / "launch" / "view_robot.launch.py")


@pytest.fixture(scope="session")
def launch_logs(tmp_path_factory):
    """Keep launch's logs out of the home directory: it takes one place for a whole process."""
    from launch.logging import launch_config

    launch_config.log_dir = str(tmp_path_factory.mktemp("log"))


@pytest.fixture
def domain(monkeypatch):
    """Enter a ROS domain that no other process uses."""
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    from swarmbed_robot.domains import own_domain

    with own_domain() as number:
        monkeypatch.setenv("ROS_DOMAIN_ID", str(number))
        yield number
