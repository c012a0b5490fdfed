"""What the tests of core share: the kinds of robot there are."""

from __future__ import annotations

import pytest
from swarmbed_core.spec import RobotSpec

KINDS = ("dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car")


@pytest.fixture(params=KINDS)
def any_spec(request: pytest.FixtureRequest) -> RobotSpec:
    """Return each kind of robot in turn."""
    return RobotSpec.load(request.param)


@pytest.fixture
def dots() -> RobotSpec:
    """Return the DOTS robot."""
    return RobotSpec.load("dots")
