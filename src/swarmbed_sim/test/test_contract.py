"""The engines and worlds of this package, and robots in them, keep the contracts."""

from dataclasses import dataclass

import numpy as np
import pytest
from swarmbed_core.contract import RobotContract
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.world_contract import TaskWorldContract, scene_of
from swarmbed_sim.contract import PhysicsContract

from swarmbed_sim import contract, mujoco_world, planar_world


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


class TestPlanarPhysics(PhysicsContract):
    """Bodies in the plane."""

    DEVIATIONS = frozenset({contract.DISCS, contract.TALL})

    @pytest.fixture
    def engine(self, closing):
        return lambda scene: closing(planar_world.PlanarPhysics(scene))


class TestMujocoPhysics(PhysicsContract):
    """Bodies in three dimensions."""

    @pytest.fixture
    def engine(self, closing):
        return lambda scene: closing(mujoco_world.MujocoPhysics(scene))


def worlds_of(make, closing):
    """Return what makes the worlds of a plugin."""
    return lambda scene, seed=7: closing(make(scene, np.random.SeedSequence(seed)))


class TestPlanarWorld(TaskWorldContract):
    """The world planar."""

    @pytest.fixture
    def make_world(self, closing):
        return worlds_of(planar_world.make, closing)


class TestMujocoWorld(TaskWorldContract):
    """The world mujoco."""

    @pytest.fixture
    def make_world(self, closing):
        return worlds_of(mujoco_world.make, closing)


@dataclass
class SimRig:
    """One robot on an empty floor."""

    swarm: LocalSwarm

    @property
    def robot(self) -> LocalRobot:
        return self.swarm.robots[0]

    def advance(self, seconds: float) -> None:
        self.swarm.run(seconds)

    def truth(self):
        return self.swarm.world.truth()[0]


def rig_of(make, kind, closing):
    scene = scene_of([(kind, (0.0, 0.0, 0.0))], arena="empty", noise=True)
    return SimRig(LocalSwarm(closing(make(scene, np.random.SeedSequence(11)))))


class TestPlanarRobot(RobotContract):
    """In the plane."""

    @pytest.fixture(params=["dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
    def rig(self, request, closing):
        return rig_of(planar_world.make, request.param, closing)


class TestMujocoRobot(RobotContract):
    """In three dimensions: a round robot that goes anywhere, and a box on two wheels."""

    @pytest.fixture(params=["dots", "pioneer3dx"])
    def rig(self, request, closing):
        return rig_of(mujoco_world.make, request.param, closing)
