"""Robots in the worlds of this package keep the contract."""

from dataclasses import dataclass

import numpy as np
import pytest
from swarmbed_core.contract import RobotContract
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene

from swarmbed_sim import mujoco_world, planar_world


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


def rig_of(make, kind):
    scenario = {
        "version": 1,
        "title": "test",
        "arena": "empty",
        "time_limit": 10,
        "robots": [{"kind": kind, "place": {"poses": [(0.0, 0.0, 0.0)]}}],
        "controller": {"name": "random_walk"},
    }
    scene = make_scene(Scenario.model_validate(scenario))
    return SimRig(LocalSwarm(make(scene, np.random.SeedSequence(11))))


class TestPlanarRobot(RobotContract):
    """In the plane."""

    @pytest.fixture(params=["dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
    def rig(self, request):
        return rig_of(planar_world.make, request.param)


class TestMujocoRobot(RobotContract):
    """In three dimensions: a round robot that goes anywhere, and a box on two wheels."""

    @pytest.fixture(params=["dots", "pioneer3dx"])
    def rig(self, request):
        rig = rig_of(mujoco_world.make, request.param)
        yield rig
        rig.swarm.world.close()
