import math

import numpy as np
import pytest
from swarmbed_behaviours.wall_following import WallFollowing, WallFollowingParameters, along_wall, wall_at
from swarmbed_core.arena import Arena
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.raycast import box_segments
from swarmbed_core.spec import RobotSpec


def follow(kind, arena, start, seconds, seed=3, **parameters):
    """Return poses, distances of the body from the nearest wall, and what was done."""
    spec = RobotSpec.load(kind)
    world = MemoryWorld([Placement("robot1", spec, start)], arena, seed=seed)
    swarm = LocalSwarm(world)
    program = WallFollowing(
        swarm.robots[0], WallFollowingParameters(**parameters), np.random.default_rng(seed)
    )
    poses, doing = [], []
    for _ in range(round(seconds * 10)):
        program.tick()
        swarm.run(0.1)
        poses.append(world.truth()[0])
        doing.append(program.doing)
    made = np.array(poses)
    gaps = np.array([gap_to(world.segments, pose) for pose in made]) - spec.body.bounding_radius
    return made, gaps, doing


def gap_to(segments, pose):
    along = segments[:, 2:] - segments[:, :2]
    to = pose[:2] - segments[:, :2]
    share = np.clip((to * along).sum(1) / (along**2).sum(1), 0, 1)
    return np.hypot(*(to - share[:, None] * along).T).min()


def laps(poses):
    return np.ptp(np.unwrap(np.arctan2(poses[:, 1], poses[:, 0]))) / (2 * math.pi)


@pytest.mark.parametrize("hand", ["left", "right"])
def test_it_keeps_its_distance_for_a_lap_of_the_arena(hand):
    poses, gaps, doing = follow("dots", Arena.load("dots_arena"), (0.0, 0.0, 0.3), 75, hand=hand)
    there = 80 + next(k for k, what in enumerate(doing) if what == "follow wall")
    assert gaps[there:].min() > 0.22
    assert gaps[there:].max() < 0.38
    assert laps(poses[there:]) > 0.9
    turned = np.unwrap(np.arctan2(poses[there:, 1], poses[there:, 0]))
    assert (turned[-1] < turned[0]) == (hand == "left")
    assert doing[0] == "search a wall"


@pytest.mark.parametrize(("kind", "scale", "seconds"), [("dots", 1.0, 40), ("epuck2", 0.3, 40)])
def test_it_goes_round_outer_corners(kind, scale, seconds):
    box = box_segments(np.zeros(3), 0.8 * scale, 0.8 * scale)
    arena = Arena.model_validate({"version": 1, "title": "box", "walls": box.tolist()})
    start = (-1.2 * scale, 0.1 * scale, 0.0)
    poses, gaps, doing = follow(kind, arena, start, seconds, distance=None if kind == "epuck2" else 0.25)
    assert gaps[100:].min() > (0.005 if kind == "epuck2" else 0.15)
    assert gaps[100:].max() < (0.065 if kind == "epuck2" else 0.4)
    assert laps(poses[100:]) > 0.9
    assert "follow wall" in doing


def test_a_wall_that_ends_is_found_again():
    arena = Arena.model_validate({"version": 1, "title": "wall", "walls": [(-2.0, 0.6, 0.0, 0.6)]})
    poses, _, _ = follow("dots", arena, (-1.5, 0.1, 0.0), 30)
    # On the left hand it goes round the end to the other side of the wall.
    assert poses[:, 1].max() > 0.8
    assert poses[-1, 0] < 0.6


def test_the_nearest_thing_on_the_hand_is_the_wall():
    points = np.array([(0.0, 0.5), (0.1, 0.51), (-0.4, 0.0), (0.0, -0.3), (0.0, 1.0)])
    distance, direction = wall_at(points, 1.0)
    assert distance == pytest.approx(0.5)
    assert direction == pytest.approx(math.atan2(1.01, 0.1))
    assert wall_at(points, -1.0)[0] == pytest.approx(0.3)
    assert wall_at(np.array([(-0.4, 0.0)]), 1.0) is None
    assert wall_at(np.empty((0, 2)), 1.0) is None


def test_it_steers_towards_the_wall_when_too_far_and_away_when_too_near():
    for side in (1.0, -1.0):
        wall = side * math.pi / 2
        assert along_wall(0.4, wall, 0.4, side) == pytest.approx(0.0)
        assert side * along_wall(0.5, wall, 0.4, side) > 0.1
        assert side * along_wall(0.3, wall, 0.4, side) < -0.1


@pytest.mark.parametrize("kind", ["pera_swarm", "convoy_car"])
def test_who_sees_nothing_at_its_side_is_refused(kind):
    swarm = LocalSwarm(MemoryWorld.of([kind]))
    with pytest.raises(ConfigError, match=rf"'{kind}' has no distance sensor that looks to the left"):
        WallFollowing(swarm.robots[0], WallFollowingParameters(), np.random.default_rng(1))
