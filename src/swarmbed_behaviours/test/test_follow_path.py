import math

import numpy as np
import pytest
from swarmbed_behaviours.follow_path import FollowPath, PathFile
from swarmbed_core.arena import Arena
from swarmbed_core.controller import find_controller
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.spec import RobotSpec


def follow(kind, path, seconds, *, localised, start=None, **parameters):
    """Let a robot follow a path; return its true track and what it did, in order."""
    file = PathFile.load(path)
    spec = RobotSpec.load(kind)
    arena = Arena.load("dots_arena")
    world = MemoryWorld([Placement("r1", spec, start or file.start)], arena, seed=3)
    swarm = LocalSwarm(world, arena.markers() if localised else None)
    found, checked = find_controller("follow_path", {"path": path, **parameters}, "test")
    controller = found(swarm.robots[0], checked, np.random.default_rng(0))
    track, done = [], []
    for _ in range(round(seconds * 10)):
        controller.tick()
        if not done or done[-1] != controller.doing:
            done.append(controller.doing)
        swarm.run(0.1)
        track.append(world.truth()[0, :3].copy())
    return np.array(track), done


@pytest.mark.parametrize(("path", "localised"), [("square", False), ("slalom", True)])
def test_a_path_is_driven_once(path, localised):
    file = PathFile.load(path)
    track, done = follow("dots", path, 32.0 if path == "square" else 20.0, localised=localised)
    assert done == ["stand", "drive", "arrived"]
    assert np.hypot(*(track[:15, :2] - file.start[:2]).T).max() < 0.01
    assert track[-1, :2] == pytest.approx(file.waypoints[-1].pose[:2], abs=0.06)
    for point in file.waypoints:
        assert np.hypot(*(track[:, :2] - point.pose[:2]).T).min() < 0.12
    assert np.abs(np.diff(track[-5:], axis=0)).max() < 0.005


def test_a_robot_that_knows_no_map_takes_its_place_for_the_start():
    start = (0.5, -0.2, math.pi / 2)
    track, done = follow("dots", "square", 32.0, localised=False, start=start, stand=0.5)
    assert done[-1] == "arrived"
    # The square to its left is now before it: from its corner, 1.6 m along y and along -x.
    assert track[:, 1].max() == pytest.approx(1.4, abs=0.1)
    assert track[:, 0].min() == pytest.approx(-1.1, abs=0.1)
    assert track[-1, :2] == pytest.approx(start[:2], abs=0.08)


def test_it_may_be_slower_than_the_file_says():
    slow, _ = follow("dots", "square", 8.0, localised=False, max_speed=0.2)
    assert np.hypot(*np.diff(slow[:, :2], axis=0).T).max() * 10 == pytest.approx(0.2, abs=0.03)


def test_robots_with_two_wheels_follow_paths_too():
    track, done = follow("pioneer3dx", "square", 12.0, localised=False)
    assert done == ["stand", "drive"]
    assert track[:, 0].max() == pytest.approx(0.8, abs=0.05)


def test_a_path_that_is_refused_fails(fake):
    # The senses never tell of a path that was begun.
    controller = FollowPath(fake, FollowPath.Parameters(), np.random.default_rng(0))
    for k in range(40):
        fake.set(time=0.1 * k)
        controller.tick()
    assert controller.doing == "failed"
    assert sum(command.path is not None for command in fake.commands) == 1


def test_a_path_that_does_not_exist_is_an_error_that_names_it(fake):
    with pytest.raises(ConfigError, match="nowhere"):
        FollowPath(fake, FollowPath.Parameters(path="nowhere"), np.random.default_rng(0))
