import math
from types import SimpleNamespace

import numpy as np
import pytest
from swarmbed_behaviours.random_walk import RandomWalk, RandomWalkParameters
from swarmbed_core.arena import Arena
from swarmbed_core.controller import find_controller
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.spec import RobotSpec


def walk(kind, side, seconds, seed=3, **parameters):
    """Return poses and what was done, of a robot in a square room."""
    arena = Arena.model_validate({"version": 1, "title": "room", "size": (side, side)})
    world = MemoryWorld([Placement("robot1", RobotSpec.load(kind), (0.0, 0.0, 0.4))], arena, seed=seed)
    swarm = LocalSwarm(world)
    program = RandomWalk(swarm.robots[0], RandomWalkParameters(**parameters), np.random.default_rng(seed))
    poses, doing = [], []
    for _ in range(round(seconds * 10)):
        program.tick()
        swarm.run(0.1)
        poses.append(world.truth()[0])
        doing.append(program.doing)
    return np.array(poses), doing


@pytest.mark.parametrize(
    ("kind", "side"), [("dots", 4.0), ("epuck2", 0.8), ("pera_swarm", 1.5), ("pioneer3dx", 6.0)]
)
def test_it_walks_all_over_the_room_and_hits_no_wall(kind, side):
    poses, doing = walk(kind, side, 40)
    spec = RobotSpec.load(kind)
    reach = np.abs(poses[:, :2]).max() + spec.body.bounding_radius
    assert reach < side / 2
    assert np.ptp(poses[:, :2], axis=0).max() > 0.4 * side
    assert np.hypot(poses[:, 3], poses[:, 4]).mean() > 0.4 * min(0.5, 0.8 * spec.limits.speed)
    assert set(doing) <= {"walk", "escape"}


def test_it_goes_straight_until_something_is_ahead():
    poses, _ = walk("dots", 10.0, 5)
    way = poses[-1, :2] - poses[0, :2]
    across = (poses[:, :2] - poses[0, :2]) @ np.array([-way[1], way[0]]) / np.hypot(*way)
    assert np.hypot(*way) > 2.0
    assert np.abs(across).max() < 0.05


def test_the_same_seed_walks_the_same_way_and_another_does_not():
    one, again, other = (walk("dots", 4.0, 3, seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.allclose(one, other, atol=0.05)


def test_where_no_way_is_free_it_creeps_out():
    poses, doing = walk("dots", 0.5, 5)
    assert "escape" in doing
    assert np.hypot(poses[:, 3], poses[:, 4]).max() < 0.3


def test_parameters_are_checked():
    found, parameters = find_controller("random_walk", {"speed": 0.2}, "file")
    assert found is RandomWalk
    assert parameters.speed == 0.2
    with pytest.raises(ConfigError, match=r"file: controller random_walk: speed"):
        find_controller("random_walk", {"speed": -1}, "file")


def test_there_is_a_form_for_crowds():
    spec = RobotSpec.load("dots")
    program = RandomWalk.crowd(spec, RandomWalkParameters(speed=0.3), 7, np.random.default_rng(1))
    ranges = np.full((7, spec.ranges[0].count), math.inf)
    # Something is close ahead of the last one.
    ranges[-1, 0] = 0.05
    v_body = np.zeros((7, 3))
    program.tick(SimpleNamespace(ranges=ranges, angles=np.array(spec.ranges[0].angles)), v_body)
    assert v_body[:-1] == pytest.approx(np.array([(0.3, 0.0, 0.0)] * 6))
    assert v_body[-1, 0] < 0.3
