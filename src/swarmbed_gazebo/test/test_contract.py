"""The simulators of Gazebo that are installed, and robots in them, keep the contracts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from swarmbed_core.contract import RobotContract
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.world_contract import HEIGHTS, TaskWorldContract, scene_of
from swarmbed_gazebo.place import missing
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC
from swarmbed_gazebo.world import GazeboPhysics, make
from swarmbed_sim.contract import PhysicsContract
from swarmbed_sim.led_contract import LedContract

pytestmark = pytest.mark.slow

ABSENT = {simulator: missing(simulator) for simulator in (GAZEBO11, HARMONIC)}
needs_gazebo11 = pytest.mark.skipif(bool(ABSENT[GAZEBO11]), reason=ABSENT[GAZEBO11])
needs_harmonic = pytest.mark.skipif(bool(ABSENT[HARMONIC]), reason=ABSENT[HARMONIC])


@pytest.fixture
def closing():
    """Return a function that closes what it is given after the test."""
    made = []

    def close_later(thing):
        made.append(thing)
        return thing

    yield close_later
    for thing in made:
        thing.close()


class Simulated:
    """Makes engines and worlds of one simulator."""

    KIND: str

    @pytest.fixture
    def engine(self, closing):
        return lambda scene: closing(GazeboPhysics(scene, 3, self.KIND))

    @pytest.fixture
    def make_world(self, closing):
        return lambda scene, seed=7: closing(make(scene, np.random.SeedSequence(seed), self.KIND))

    @pytest.fixture(params=["dots", "pioneer3dx"])
    def rig(self, request, make_world):
        scene = scene_of([(request.param, (0.0, 0.0, 0.0))], arena="empty", noise=True)
        return Rig(LocalSwarm(make_world(scene, 11)))


@dataclass
class Rig:
    """One robot on an empty floor."""

    swarm: LocalSwarm

    @property
    def robot(self) -> LocalRobot:
        return self.swarm.robots[0]

    def advance(self, seconds: float) -> None:
        self.swarm.run(seconds)

    def truth(self):
        return self.swarm.world.truth()[0]


@needs_gazebo11
class TestGazebo11Physics(Simulated, PhysicsContract):
    """Bodies in Gazebo 11."""

    KIND = GAZEBO11


@needs_gazebo11
class TestGazebo11World(Simulated, TaskWorldContract):
    """The world gazebo with Gazebo 11, which casts the rays of distance sensors itself."""

    KIND = GAZEBO11
    DEVIATIONS = frozenset({HEIGHTS})


@needs_gazebo11
class TestGazebo11LedBodies(Simulated, LedContract):
    """Led bodies in Gazebo 11."""

    KIND = GAZEBO11
    WALL = 0.15


@needs_gazebo11
class TestGazebo11Robot(Simulated, RobotContract):
    """Robots in Gazebo 11."""

    KIND = GAZEBO11


@needs_harmonic
class TestHarmonicPhysics(Simulated, PhysicsContract):
    """Bodies in gz-sim 8."""

    KIND = HARMONIC


@needs_harmonic
class TestHarmonicWorld(Simulated, TaskWorldContract):
    """The world gazebo with gz-sim 8."""

    KIND = HARMONIC


@needs_harmonic
class TestHarmonicLedBodies(Simulated, LedContract):
    """Led bodies in gz-sim 8."""

    KIND = HARMONIC
    WALL = 0.15


@needs_harmonic
class TestHarmonicRobot(Simulated, RobotContract):
    """Robots in gz-sim 8."""

    KIND = HARMONIC
