"""Robots in this process keep the contract, of every kind."""

from dataclasses import dataclass

import pytest
from swarmbed_core.arena import Arena
from swarmbed_core.contract import RobotContract
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement


@dataclass
class MemoryRig:
    """One robot on an empty floor in memory."""

    swarm: LocalSwarm

    @property
    def robot(self) -> LocalRobot:
        return self.swarm.robots[0]

    def advance(self, seconds: float) -> None:
        self.swarm.run(seconds)

    def truth(self):
        return self.swarm.world.truth()[0]


class TestMemoryRobot(RobotContract):
    """With slipping wheels and noisy sensors."""

    @pytest.fixture
    def rig(self, any_spec):
        return MemoryRig(LocalSwarm(MemoryWorld([Placement("a", any_spec)], Arena.load("empty"), seed=11)))


class TestPerfectMemoryRobot(RobotContract):
    """Without noise."""

    @pytest.fixture
    def rig(self, any_spec):
        world = MemoryWorld([Placement("a", any_spec)], Arena.load("empty"), noise=False)
        return MemoryRig(LocalSwarm(world))


def test_onboards_are_stepped_at_their_own_rate():
    world = MemoryWorld.of(["dots"], noise=False)
    world.timestep = 0.0025
    swarm = LocalSwarm(world)
    cycles = 0
    inner = swarm.robots[0].onboard.step

    def counted() -> None:
        nonlocal cycles
        cycles += 1
        inner()

    swarm.robots[0].onboard.step = counted
    swarm.run(1.0)
    assert cycles == 100
    assert swarm.robots[0].name == "dots1"


def test_a_world_whose_steps_are_too_long_is_told():
    world = MemoryWorld.of(["dots"])
    world.timestep = 0.05
    with pytest.raises(ConfigError, match="100 Hz, but the world steps at 20 Hz"):
        LocalSwarm(world)
