"""On the way to a goal: orders, waits and ends; robots are points that are where their paths end."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from swarmbed_core.floor_plan import FloorPlan
from swarmbed_core.geometry import compose, invert
from swarmbed_core.navigation import (
    STUCK,
    Fault,
    Navigation,
    NavigationParams,
    Status,
    waypoints_of,
)
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
PARAMS = NavigationParams()


def hall(*walls):
    """Six by four metres around the origin, with a rim."""
    cells = np.zeros((80, 120), np.int8)
    cells[[0, -1]] = cells[:, [0, -1]] = 100
    for x1, y1, x2, y2 in walls:
        rows = slice(round((y1 + 2) / 0.05), round((y2 + 2) / 0.05))
        cells[rows, round((x1 + 3) / 0.05) : round((x2 + 3) / 0.05)] = 100
    return FloorPlan(cells, (-3.0, -2.0), 0.05)


def bar(x, low=-2.0, high=2.0):
    """What is seen of something across the hall."""
    return np.column_stack([np.full(100, x), np.linspace(low, high, 100)])


@pytest.fixture
def navigation():
    made = Navigation(DOTS)
    made.start((2.0, 0.0, 1.0), "map")
    return made


STILL = (0.0, 0.0, 0.0)


def ends_of(path):
    return [point.pose for point in path.waypoints]


def test_without_a_goal_nothing_is_ordered():
    made = Navigation(DOTS)
    assert made.step(0.0, STILL) == made.step(1.0, STILL)
    assert made.step(0.0, STILL).path is None


def test_the_path_is_in_odom_wherever_that_is_in_the_map(navigation):
    pose_odom, pose_map = np.array([0.4, 0.5, 0.3]), np.array([-2.0, 1.0, -1.2])
    map_odom = compose(pose_odom, invert(pose_map))
    order = navigation.step(0.0, pose_odom, map_odom, hall())
    assert order.path.frame == "odom"
    assert ends_of(order.path)[-1] == pytest.approx(compose(map_odom, (2.0, 0.0, 1.0)))
    assert navigation.distance_remaining == pytest.approx(math.hypot(4.0, 1.0))
    assert (navigation.status, navigation.following) == (Status.RUNNING, True)
    assert navigation.step(0.2, pose_odom, map_odom, hall()).path is None, "the path is as it was"


def test_it_ends_where_the_goal_is_and_not_where_a_path_ends(navigation):
    plan = hall()
    navigation.step(0.0, STILL, STILL, plan)
    navigation.ended(arrived=True)
    order = navigation.step(5.0, (1.5, 0.0, 1.0), STILL, plan)
    assert order.path is not None
    navigation.ended(arrived=True)
    assert navigation.step(6.0, (2.01, 0.0, 1.05), STILL, plan).path is None
    assert navigation.status is Status.SUCCEEDED
    assert navigation.distance_remaining == 0.0


def test_when_localisation_moves_the_goal_the_path_follows(navigation):
    plan = hall()
    navigation.step(0.0, STILL, STILL, plan)
    order = navigation.step(0.2, STILL, (0.2, 0.0, 0.0), plan)
    assert ends_of(order.path)[-1][:2] == pytest.approx((2.2, 0.0))


def test_something_in_the_way_is_gone_round(navigation):
    plan = hall()
    navigation.step(0.0, STILL, STILL, plan)
    navigation.see(0.2, bar(1.0, -1.2, 1.2))
    order = navigation.step(0.2, STILL, STILL, plan)
    assert max(abs(y) for _, y, _ in ends_of(order.path)) > 1.3
    # It went away, and what was seen of it is forgotten after some time.
    navigation.see(0.2 + PARAMS.memory + 0.1, np.empty((0, 2)))
    order = navigation.step(0.2 + PARAMS.memory + 0.1, STILL, STILL, plan)
    assert len(order.path.waypoints) == 1


def test_where_all_is_blocked_it_brakes_waits_and_recovers_and_gives_up(navigation):
    plan = hall()
    navigation.step(0.0, STILL, STILL, plan)
    orders, now = [], 0.0
    while navigation.status is Status.RUNNING:
        now += 0.2
        navigation.see(now, bar(1.0))
        orders.append(navigation.step(now, STILL, STILL, plan))
        assert now < 60.0
    assert [order.brake for order in orders].count(True) == 1
    assert orders[0].brake
    assert not any(order.path for order in orders[1:])
    assert navigation.recoveries == PARAMS.recoveries
    assert (navigation.status, navigation.fault) == (Status.FAILED, Fault.NO_VALID_PATH)
    assert "(2.00, 0.00) in map is blocked, even after 5 recoveries" in navigation.message
    assert now == pytest.approx((PARAMS.recoveries + 1) * PARAMS.patience, rel=0.2)


def test_it_goes_on_when_the_way_is_free_again(navigation):
    plan = hall()
    navigation.see(0.0, bar(1.0))
    navigation.step(0.0, STILL, STILL, plan)
    assert not navigation.following
    order = navigation.step(PARAMS.memory + 0.2, STILL, STILL, plan)
    for k in range(20):
        if order.path:
            break
        order = navigation.step(PARAMS.memory + 0.2 + 0.2 * k, STILL, STILL, plan)
    assert order.path is not None
    assert navigation.recoveries >= 1


def test_who_does_not_come_on_is_stuck(navigation):
    plan = hall()
    now = 0.0
    while navigation.status is Status.RUNNING:
        navigation.step(now, STILL, STILL, plan)
        now += 0.5
        assert now < 200.0
    assert navigation.fault is Fault.NO_PROGRESS
    assert now > PARAMS.recoveries * STUCK


def test_paths_that_end_elsewhere_are_not_followed_for_ever(navigation):
    plan = hall()
    for k in range(20):
        navigation.step(0.2 * k, STILL, STILL, plan)
        navigation.ended(arrived=False)
    assert (navigation.status, navigation.fault) == (Status.FAILED, Fault.NO_PROGRESS)


@pytest.mark.parametrize(
    ("goal", "walls", "pose", "fault", "said"),
    [
        ((2.9, 0.0, 0.0), (), STILL, Fault.GOAL_OCCUPIED, "needs 0.17 m"),
        ((7.0, 0.0, 0.0), (), STILL, Fault.GOAL_OUTSIDE_MAP, r"\(7.00, 0.00\) in map is outside of /map"),
        ((1.0, 0.0, 0.0), (), (9.0, 0.0, 0.0), Fault.START_OUTSIDE_MAP, "the robot is outside"),
        ((2.0, 0.0, 0.0), ((1.0, -2.0, 1.1, 2.0),), STILL, Fault.NO_VALID_PATH, "no route to"),
    ],
)
def test_what_cannot_be_reached_is_told_at_once(goal, walls, pose, fault, said):
    made = Navigation(DOTS)
    made.start(goal, "map")
    assert made.step(0.0, pose, STILL, hall(*walls)).path is None
    assert (made.status, made.fault) == (Status.FAILED, fault)

    assert re.search(said, made.message), made.message


def test_a_goal_in_the_map_needs_a_robot_that_knows_its_place():
    made = Navigation(DOTS)
    made.start((1.0, 0.0, 0.0), "map")
    made.step(0.0, STILL, None, None)
    assert made.fault is Fault.TF_ERROR


def test_without_a_map_what_was_seen_is_all_there_is():
    made = Navigation(DOTS)
    made.start((3.0, 0.0, 0.0), "odom")
    made.see(0.0, bar(1.0, -0.5, 0.5))
    order = made.step(0.0, STILL)
    assert max(abs(y) for _, y, _ in ends_of(order.path)) > 0.6
    made.start((1e5, 0.0, 0.0), "odom")
    made.step(0.2, STILL)
    assert made.fault is Fault.GOAL_OUTSIDE_MAP


def test_stopping_brakes_once(navigation):
    navigation.step(0.0, STILL, STILL, hall())
    assert navigation.stop().brake
    assert not navigation.stop().brake
    assert navigation.status is Status.FAILED


def test_near_something_it_goes_slower(navigation):
    plan = hall()
    fast = navigation.step(0.0, STILL, STILL, plan).path.max_speed
    # A robot's width beside the way, at its begin.
    navigation.see(0.2, np.array([[0.3, 0.22], [0.3, -0.22]]))
    navigation.start((2.0, 0.0, 0.0), "map")
    slow = navigation.step(0.2, STILL, STILL, plan).path.max_speed
    assert slow == pytest.approx(fast / 2)


def test_corners_are_passed_as_fast_as_they_allow():
    way = np.array([(0.0, 0.0), (1.0, 0.0), (2.0, 0.2), (2.0, 1.0), (1.9, 0.0)])
    points = waypoints_of(way, 0.5, 0.4, 1.0, holonomic=True)
    assert [point.pose[:2] for point in points] == [tuple(place) for place in way[1:]]
    speeds = [math.hypot(*point.velocity[:2]) for point in points]
    assert 0.3 < speeds[0] < 0.4
    assert speeds[1] < 0.1
    assert speeds[2:] == [0.0, 0.0]
    assert points[-1].pose[2] == 0.5
    still = waypoints_of(way, 0.5, 0.4, 1.0, holonomic=False)
    assert all(point.velocity == (0.0, 0.0, 0.0) for point in still)
