import math

import numpy as np
import pytest
from swarmbed_behaviours.go_to_goal import GoToGoal, GoToGoalParameters, first_direction, nearest_direction
from swarmbed_core.arena import Arena
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.raycast import box_segments
from swarmbed_core.spec import RobotSpec

BOX = box_segments(np.zeros(3), 0.6, 0.8).tolist()
POCKET = [(0.5, -0.8, 0.5, 0.8), (-0.3, 0.8, 0.5, 0.8), (-0.3, -0.8, 0.5, -0.8)]


def go(kind, start, walls=(), size=(5.0, 5.0), seconds=60, seed=2, arena=None, **parameters):
    """Return poses, smallest gap between body and walls, and what was done."""
    arena = arena or Arena.model_validate({"version": 1, "title": "room", "size": size, "walls": walls})
    spec = RobotSpec.load(kind)
    world = MemoryWorld([Placement("robot1", spec, start)], arena, seed=seed)
    swarm = LocalSwarm(world, arena.markers() if parameters.get("frame") == "map" else None)
    swarm.run(0.5)
    program = GoToGoal(swarm.robots[0], GoToGoalParameters(**parameters), np.random.default_rng(seed))
    poses, doing = [], []
    while len(poses) < seconds * 10 and doing[-40:] != ["arrived"] * 40:
        program.tick()
        swarm.run(0.1)
        poses.append(world.truth()[0])
        doing.append(program.doing)
    made = np.array(poses)
    along = world.segments[:, 2:] - world.segments[:, :2]
    to = made[:, None, :2] - world.segments[None, :, :2]
    share = np.clip((to * along).sum(2) / (along**2).sum(1), 0, 1)
    gap = np.hypot(*np.moveaxis(to - share[..., None] * along, 2, 0)).min()
    # Of a box, its sides: its corners stand out, but it goes along a wall with a side to it.
    gap -= spec.body.radius if spec.body.shape == "disc" else spec.body.width / 2
    return made, gap, doing


@pytest.mark.parametrize("kind", ["dots", "pioneer3dx"])
@pytest.mark.parametrize("walls", [(), BOX, POCKET], ids=["free", "box", "pocket"])
def test_it_reaches_the_goal_round_what_is_in_the_way(kind, walls):
    poses, gap, doing = go(kind, (-1.5, 0.0, 0.0), walls, goal=(3.0, 0.1, 0.0), frame="base_link")
    assert doing[-1] == "arrived"
    # Dead reckoning, over some metres.
    assert np.hypot(poses[-1, 0] - 1.5, poses[-1, 1] - 0.1) < 0.25
    assert gap > 0.02
    assert ("go round" in doing) == bool(walls)
    assert np.hypot(poses[-1, 3], poses[-1, 4]) < 0.02


def test_it_knows_the_arena_by_its_markers():
    poses, gap, doing = go(
        "dots", (-1.5, -1.5, 1.0), arena=Arena.load("dots_arena"), goal=(1.0, 1.2, -1.5), frame="map"
    )
    assert doing[-1] == "arrived"
    assert np.hypot(poses[-1, 0] - 1.0, poses[-1, 1] - 1.2) < 0.1
    assert gap > 0.5


def test_without_a_pose_it_waits():
    poses, _, doing = go("dots", (-1.0, 0.0, 0.0), seconds=2, goal=(1.0, 0.0, 0.0), frame="map")
    assert set(doing) == {"wait for a pose"}
    assert np.ptp(poses[:, 0]) < 0.01


def test_odom_is_where_the_robot_began():
    poses, _, doing = go("dots", (0.5, 0.0, math.pi / 2), goal=(1.0, 0.0, 1.0), frame="odom")
    assert doing[-1] == "arrived"
    assert poses[-1, :2] == pytest.approx((0.5, 1.0), abs=0.06)
    assert poses[-1, 2] == pytest.approx(math.pi / 2 + 1.0, abs=0.15)


def test_shut_in_it_stands():
    walls = box_segments(np.array([-1.5, 0.0, 0.0]), 0.36, 0.36).tolist()
    poses, _, doing = go("dots", (-1.5, 0.0, 0.0), walls, seconds=5, goal=(1.0, 0.0, 0.0))
    assert doing[-1] == "blocked"
    assert np.ptp(poses[:, :2], axis=0).max() < 0.05


def test_directions():
    free = np.array([0.5, -0.4, 3.0])
    assert nearest_direction(free, 0.0) == -0.4
    assert nearest_direction(free, -3.0) == 3.0
    assert first_direction(free, 0.0, 1.0) == 0.5
    assert first_direction(free, 0.0, -1.0) == -0.4
    assert first_direction(free, -0.5, -1.0) == 3.0
