"""Robots in this process keep the contract, of every kind."""

from dataclasses import dataclass

import pytest
from swarmbed_core.arena import Arena
from swarmbed_core.contract import RobotContract
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene


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
    swarm = LocalSwarm(world)
    swarm.remove("dots1")
    world.timestep = 0.05
    with pytest.raises(ConfigError, match="100 Hz, but the world steps at 20 Hz"):
        LocalSwarm(world)
    with pytest.raises(ConfigError, match="dots1 is controlled at 100 Hz"):
        swarm.add("dots1")
    assert swarm.robots == []


def test_onboards_come_and_go_in_the_world_s_order():
    world = MemoryWorld.of(["dots", "dots", "dots"], noise=False)
    arena = Arena.load("dots_arena")
    swarm = LocalSwarm(world, arena.markers(), localised={"dots1"})
    robots, first = swarm.robots, swarm.robots[0]
    assert [robot.onboard.marker_map is None for robot in robots] == [False, True, True]
    for name in ("dots3", "dots1"):
        swarm.remove(name)
    assert [robot.name for robot in robots] == ["dots2"]
    steps = []
    for robot in (first, robots[0]):
        robot.onboard.step = lambda robot=robot: steps.append(robot.name)
    swarm.run(0.1)
    assert set(steps) == {"dots2"}
    third = swarm.add("dots3")
    one = swarm.add("dots1", localised=True)
    assert swarm.robots is robots
    assert [robot.name for robot in robots] == ["dots1", "dots2", "dots3"]
    assert (robots[0], robots[2]) == (one, third)
    assert one is not first
    assert [robot.onboard.marker_map is None for robot in robots] == [False, True, True]
    one.act(Command(velocity_body=(0.2, 0.0, 0.0)))
    swarm.run(0.3)
    assert one.sense().pose_odom[0] > 0.02


def test_who_cannot_come_or_go_is_told():
    swarm = LocalSwarm(MemoryWorld.of(["dots"]))
    with pytest.raises(ConfigError, match="dots1 already has an Onboard"):
        swarm.add("dots1")
    with pytest.raises(ConfigError, match="no robot 'dots2'"):
        swarm.add("dots2")
    with pytest.raises(ConfigError, match="no Onboard of a robot 'dots2': there are dots1"):
        swarm.remove("dots2")
    assert [robot.name for robot in swarm.robots] == ["dots1"]


def scene_of(*robots, arena="dots_arena"):
    return make_scene(
        Scenario.model_validate(
            {
                "version": 1,
                "title": "some know where they are",
                "arena": arena,
                "time_limit": 1,
                "controller": {"name": "none"},
                "robots": list(robots),
            }
        )
    )


def swarm_of(scene):
    placements = [Placement(item.name, item.spec, item.pose) for item in scene.robots]
    return LocalSwarm.of_scene(scene, MemoryWorld(placements, scene.arena, noise=False))


LOCALISED = {"localised": True, "place": {"poses": [[0.5, -0.4, 1.0], [-1.0, 0.3, -2.0]]}}
LOST = {"kind": "epuck2", "place": {"poses": [[1.0, 1.0, 0.5]]}}


def test_robots_of_a_scene_know_where_they_are_if_it_says_so():
    swarm = swarm_of(scene_of(LOCALISED, LOST))
    one, two, lost = (robot.onboard for robot in swarm.robots)
    assert [robot.name for robot in swarm.robots] == ["dots1", "dots2", "epuck21"]
    assert [onboard.filter.localised for onboard in (one, two, lost)] == [True, True, False]
    assert one.filter.pose == pytest.approx([0.5, -0.4, 1.0], abs=1e-6)
    assert two.filter.pose == pytest.approx([-1.0, 0.3, -2.0], abs=1e-6)
    assert one.marker_map is two.marker_map
    assert len(one.marker_map.markers) == len(Arena.load("dots_arena").markers().markers)
    assert lost.marker_map is None
    swarm.run(0.5)
    assert lost.senses().pose_map is None
    assert one.senses().pose_map == pytest.approx(swarm.world.truth()[0, :3], abs=0.02)


def test_carriers_look_to_them_as_the_scene_says():
    scene = scene_of(LOST | {"kind": "dots"})
    swarm = swarm_of(scene)
    assert swarm.robots[0].onboard.carrier_markers is scene.markers


def test_where_nobody_is_localised_no_markers_are_looked_up(monkeypatch):
    scene = scene_of(LOST)

    def never(_):
        raise AssertionError

    monkeypatch.setattr(Arena, "markers", never)
    world = type("Empty", (), {"names": ()})()
    assert LocalSwarm.of_scene(scene, world).robots == []


def test_in_an_arena_without_markers_they_dead_reckon_from_where_they_were_put():
    swarm = swarm_of(scene_of(LOCALISED, arena="empty"))
    one = swarm.robots[0].onboard
    assert one.marker_map is None
    assert one.filter.pose == pytest.approx([0.5, -0.4, 1.0], abs=1e-6)
    one.act(Command(velocity_body=(0.2, 0.0, 0.0)))
    swarm.run(0.3)
    assert one.senses().pose_map == pytest.approx(swarm.world.truth()[0, :3], abs=0.01)
