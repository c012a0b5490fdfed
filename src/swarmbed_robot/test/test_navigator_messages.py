"""What the navigator reads from messages: goals, maps, obstacles, frames; and what it makes of a plan."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from nav_msgs.msg import OccupancyGrid, Odometry
from swarmbed_core.navigation import Fault
from swarmbed_core.trajectory import Path, Waypoint
from swarmbed_robot.navigator_messages import (
    GoalError,
    feedback_of,
    odom_poses,
    path_goal_of,
    plan_of,
    pose_of,
    request_of,
    result_of,
    seen_in,
)
from swarmbed_robot.tf_relay import Transform, encode


@pytest.mark.parametrize(("frame", "expected"), [("", "map"), ("/map", "map"), ("dots1_odom", "odom")])
def test_frames_of_goals(frame, expected, goal_at):
    assert request_of(goal_at(1.0, 2.0, 0.5, frame), "dots1").frame == expected
    assert request_of(goal_at(1.0, 2.0, 0.5, frame), "dots1").pose == pytest.approx((1.0, 2.0, 0.5))


def test_a_goal_in_another_robot_s_frame_is_refused(goal_at):
    with pytest.raises(GoalError, match="dots2_base_link"):
        request_of(goal_at(1.0, 2.0, 0.0, "dots2_base_link"), "dots1")


def test_maps_that_cannot_be_used_are_none():
    def grid(**changes):
        made = OccupancyGrid(data=[0, 100, -1, 0, 0, 0])
        made.header.frame_id = "map"
        made.info.width, made.info.height, made.info.resolution = 3, 2, 0.5
        made.info.origin.position.x = -1.0
        for name, value in changes.items():
            setattr(made.info, name, value)
        return made

    plan = plan_of(grid())
    assert plan.cells.tolist() == [[0, 100, -1], [0, 0, 0]]
    assert (plan.origin, plan.resolution) == ((-1.0, 0.0), 0.5)
    turned = grid()
    turned.info.origin.orientation.z, turned.info.origin.orientation.w = 0.7, 0.7
    elsewhere = grid()
    elsewhere.header.frame_id = "odom"
    for wrong in (grid(width=4), grid(resolution=0.0), grid(resolution=math.inf), turned, elsewhere):
        assert plan_of(wrong) is None


def test_what_a_collision_map_shows_is_put_where_the_robot_was():
    made = OccupancyGrid(data=[0, 0, 0, 0, 0, 90, 0, 20, 0])
    made.info.width = made.info.height = 3
    made.info.resolution = 0.1
    made.info.origin.position.x = made.info.origin.position.y = -0.15
    # 0.1 m ahead of a robot that looks to +y.
    points = seen_in(made, np.array([1.0, 2.0, math.pi / 2]), 0.3)
    assert points == pytest.approx(np.array([[1.0, 2.1]]))


def test_an_odometry_that_is_not_finite_has_no_pose():
    sent = Odometry()
    sent.pose.pose.position.x, sent.pose.pose.position.y = 1.0, -2.0
    sent.pose.pose.orientation.z, sent.pose.pose.orientation.w = math.sin(0.2), math.cos(0.2)
    assert pose_of(sent) == pytest.approx([1.0, -2.0, 0.4])
    sent.pose.pose.position.x = math.nan
    assert pose_of(sent) is None


def test_of_a_tf_message_only_finite_poses_of_wanted_frames_in_map_are_read():
    def transform(parent, child, x):
        pose = np.array([x, 2.0, 0.0, 0.0, 0.0, math.sin(0.3), math.cos(0.3)]).tobytes()
        return Transform(bytes(8), parent, child, pose)

    data = encode(
        [
            transform(b"map", b"/dots1_odom", 1.0),
            transform(b"map", b"dots2_odom", 1.0),
            transform(b"dots1_odom", b"dots1_base_link", 1.0),
            transform(b"map", b"dots3_odom", math.nan),
        ]
    )
    wanted = {b"dots1_odom": "dots1", b"dots1_base_link": "dots1", b"dots3_odom": "dots3"}
    [(robot, pose)] = odom_poses(data, wanted)
    assert robot == "dots1"
    assert pose == pytest.approx([1.0, 2.0, 0.6])
    assert list(odom_poses(b"\0\1", wanted)) == []


def test_a_path_without_limits_leaves_them_to_the_robot():
    points = (Waypoint((1.0, 2.0, 0.5), (0.1, 0.2, 0.3)), Waypoint((2.0, 2.0, 0.0)))
    goal = path_goal_of(Path(points, "odom"), 12.5)
    assert (goal.header.frame_id, goal.header.stamp.sec, goal.header.stamp.nanosec) == (
        "odom",
        12,
        500_000_000,
    )
    assert (goal.max_speed, goal.max_acceleration) == (0.0, 0.0)
    first = goal.waypoints[0]
    assert (first.x, first.y, first.yaw, first.vx, first.vy, first.omega) == (1.0, 2.0, 0.5, 0.1, 0.2, 0.3)
    assert path_goal_of(Path(points, "odom", 0.4, 1.5), 0.0).max_speed == 0.4


@pytest.mark.parametrize(
    ("odom_map", "frame", "x"), [(None, "dots1_odom", 1.0), (np.array([3.0, 0.0, 0.0]), "map", 4.0)]
)
def test_feedback_is_in_map_where_the_robot_knows_it(odom_map, frame, x):
    navigation = SimpleNamespace(distance_remaining=0.7, speed=0.35, recoveries=2)
    made = feedback_of(navigation, "dots1", np.array([1.0, 2.0, 0.0]), odom_map, 12.5, 10.0)
    assert made.current_pose.header.frame_id == frame
    assert made.current_pose.pose.position.x == pytest.approx(x)
    assert (made.navigation_time.sec, made.navigation_time.nanosec) == (2, 500_000_000)
    assert made.estimated_time_remaining.sec == 2
    assert made.distance_remaining == pytest.approx(0.7)
    assert made.number_of_recoveries == 2


def test_a_distance_that_is_not_known_is_left_out():
    navigation = SimpleNamespace(distance_remaining=math.nan, speed=0.35, recoveries=0)
    made = feedback_of(navigation, "dots1", np.zeros(3), None, 1.0, 1.0)
    assert (made.distance_remaining, made.estimated_time_remaining.sec) == (0.0, 0)


def test_a_result_has_its_fault_and_the_reason():
    made = result_of(Fault.GOAL_OCCUPIED, "too close")
    assert (made.error_code, made.error_msg) == (207, "too close")
