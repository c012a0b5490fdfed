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
def view_robot():
    """Return launch/view_robot.launch.py as a module."""
    spec = importlib.util.spec_from_file_location("view_robot", ROOT / "launch" / "view_robot.launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
