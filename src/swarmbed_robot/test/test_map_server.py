"""`/map` is the floor plan of what stands fast, again when that changes."""

from __future__ import annotations

import numpy as np
import pytest
from nav_msgs.msg import OccupancyGrid
from rclpy.serialization import deserialize_message
from swarmbed_core.floor_plan import floor_plan
from swarmbed_core.scenario import Scenario
from swarmbed_robot.map_server import MapServer, map_message
from swarmbed_robot.templates import Template
from swarmbed_robot.world import PlainWorld

from swarmbed_robot import qos


def stage(seed=1, **changes):
    case = {
        "version": 1,
        "title": "to be mapped",
        "world": "planar",
        "arena": "dots_arena",
        "time_limit": 10,
        "controller": {"name": "none"},
        "robots": [{"place": {"poses": [[0.0, 0.0, 0.0]]}}],
        "obstacles": [{"shape": "cylinder", "radius": 0.3, "pose": [1.0, 1.0, 0.0]}],
    }
    return PlainWorld(Scenario.model_validate(case | changes), "test", seed)


def at(grid, x, y):
    info = grid.info
    column = int((x - info.origin.position.x) / info.resolution)
    row = int((y - info.origin.position.y) / info.resolution)
    return grid.data[row * info.width + column]


def test_the_message_says_what_the_plan_says():
    plan = floor_plan(stage().scene.arena, stage().scene.obstacles, 0.1)
    grid = deserialize_message(bytes(Template(map_message(plan)).data), OccupancyGrid)
    assert grid.header.frame_id == "map"
    assert (grid.info.height, grid.info.width) == plan.cells.shape
    assert grid.info.resolution == pytest.approx(0.1)
    assert (np.array(grid.data).reshape(plan.cells.shape) == plan.cells).all()
    assert grid.info.origin.orientation.w == 1.0
    assert (at(grid, 1.0, 1.0), at(grid, 0.0, 0.0), at(grid, 2.5, 0.0)) == (100, 0, 100)


def test_who_comes_late_gets_it_and_it_follows_what_changes(ros):
    server = MapServer(ros.node("world"), 0.05)
    made = stage()
    server.begin(made.scene, made.world)
    got = []
    ros.node("outsider").create_subscription(OccupancyGrid, "/map", got.append, qos.LATCHED)
    ros.spin_until(lambda: got, "the map")
    assert (at(got[-1], 1.0, 1.0), at(got[-1], -1.0, 0.0)) == (100, 0)

    server.update()
    made.world.add_obstacle("gate", (-1.0, 0.0, 0.5), (0.4, 0.2))
    server.update()
    ros.spin_until(lambda: len(got) > 1, "the map with the box")
    assert at(got[-1], -1.0, 0.0) == 100
    made.world.remove_obstacle("gate")
    server.update()
    ros.spin_until(lambda: len(got) > 2, "the map without the box")
    assert at(got[-1], -1.0, 0.0) == 0

    # A reset: another world, with other things in it.
    other = stage(seed=2, obstacles=[])
    server.begin(other.scene, other.world)
    ros.spin_until(lambda: len(got) > 3, "the map of the next world")
    assert at(got[-1], 1.0, 1.0) == 0
    server.update()
    ros.spin_for(0.1)
    assert len(got) == 4, "nothing has changed: nothing is sent again"
    made.close()
    other.close()
