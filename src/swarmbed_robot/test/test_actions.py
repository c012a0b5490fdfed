"""The actions of a robot: feedback, replacement, cancel, refusal; the body obeys its limits throughout."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from geometry_msgs.msg import Twist
from rclpy.action import ActionClient
from std_msgs.msg import Bool
from swarmbed_robot.action_server import FAREWELL
from swarmbed_robot.actions import see_off

from swarmbed_interfaces import msg
from swarmbed_interfaces.action import FollowPath, Lift

pytestmark = pytest.mark.slow


class Client:
    """An outsider's client of one action."""

    def __init__(self, rig, kind, topic):
        self.rig = rig
        self.client = ActionClient(rig.outsider, kind, f"/{rig.name}/{topic}")
        rig.ros.spin_until(self.client.server_is_ready, f"the action {topic}")

    def send(self, goal):
        return Sent(self.rig, self.client, goal)


class Sent:
    """A goal that was sent and accepted."""

    def __init__(self, rig, client, goal):
        self.rig = rig
        self.feedback = []
        sent = client.send_goal_async(goal, feedback_callback=lambda got: self.feedback.append(got.feedback))
        rig.ros.spin_until(sent.done, "the goal's acceptance")
        self.handle = sent.result()
        assert self.handle.accepted
        self.future = self.handle.get_result_async()

    def result(self, seconds=30.0):
        """Let the world go on until there is a result; return it and the goal's status."""
        self.rig.run_until(self.future.done, seconds)
        found = self.future.result()
        return found.result, found.status

    def cancel(self):
        cancelled = self.handle.cancel_goal_async()
        self.rig.ros.spin_until(cancelled.done, "the answer to the cancel")
        return cancelled.result().return_code


@pytest.fixture
def follow(dots):
    return Client(dots, FollowPath, "follow_path")


@pytest.fixture
def lift(dots):
    return Client(dots, Lift, "lift")


def goal(*points, frame="odom", speed=0.0):
    made = FollowPath.Goal(
        max_speed=speed, waypoints=[msg.Waypoint(x=x, y=y, yaw=yaw) for x, y, yaw in points]
    )
    made.header.frame_id = frame
    return made


def test_a_path_is_followed_with_feedback_and_a_result(dots, follow):
    sent = follow.send(goal((0.5, 0.0, 0.0), (0.5, 0.5, 1.0)))
    result, status = sent.result()
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert (result.outcome, result.message) == (FollowPath.Result.SUCCEEDED, "")
    assert result.position_error < 0.02
    assert result.yaw_error < 0.05
    assert dots.truth[:3] == pytest.approx([0.5, 0.5, 1.0], abs=0.05)
    progress = [step.progress for step in sent.feedback]
    assert len(progress) > 5
    assert progress == sorted(progress)
    left = [step.distance_remaining for step in sent.feedback]
    assert left[0] == pytest.approx(1.0, abs=0.1)
    assert left == sorted(left, reverse=True)
    assert {step.waypoint for step in sent.feedback} >= {0, 1}


@pytest.mark.parametrize("frame", ["base_link", "dots1_base_link"])
def test_a_path_in_the_robots_frame_starts_where_it_is(dots, follow, frame):
    follow.send(goal((0.4, 0.0, math.pi / 2))).result()
    sent = follow.send(goal((0.3, 0.0, 0.0), frame=frame))
    result, _ = sent.result()
    assert result.outcome == FollowPath.Result.SUCCEEDED
    assert dots.truth[:3] == pytest.approx([0.4, 0.3, math.pi / 2], abs=0.05)
    assert all(-0.01 < step.setpoint.y < 0.01 for step in sent.feedback)


def test_a_new_goal_replaces_the_old_and_a_cancel_brakes_within_the_limits(dots, follow):
    limits = dots.onboard.device.spec.limits
    first = follow.send(goal((3.0, 0.0, 0.0)))
    speeds = []

    def run(seconds):
        for _ in range(round(seconds / 0.01)):
            dots.run(0.01)
            x, y = dots.truth[3:5]
            c, s = math.cos(dots.truth[2]), math.sin(dots.truth[2])
            speeds.append((c * x - s * y, s * x + c * y))

    run(1.0)
    second = follow.send(goal((0.5, 1.0, 0.0)))
    result, status = first.result()
    assert (result.outcome, status) == (FollowPath.Result.REPLACED, GoalStatus.STATUS_ABORTED)
    run(0.6)
    assert second.cancel() == 0
    run(1.2)
    result, status = second.result()
    assert (result.outcome, status) == (FollowPath.Result.CANCELLED, GoalStatus.STATUS_CANCELED)
    assert dots.truth[3:] == pytest.approx([0, 0, 0], abs=0.02)
    velocity = np.array(speeds)
    assert np.hypot(*velocity.T).max() <= limits.speed * 1.05
    # Over a tenth of a second, so that slip and noise of single steps do not count.
    change = np.hypot(*(velocity[10:] - velocity[:-10]).T) / 0.1
    assert change.max() <= limits.acceleration_available * 1.1


def test_what_cannot_be_followed_is_refused_and_the_path_before_goes_on(dots, follow):
    first = follow.send(goal((0.6, 0.0, 0.0)))
    dots.run(0.2)
    for bad, said in (
        (goal((math.nan, 0.0, 0.0)), "finite"),
        (goal((1.0, 0.0, 0.0), frame="moon"), "moon"),
        (goal((1.0, 0.0, 0.0), frame="map"), "does not know where it is"),
        (goal(), "0 waypoints"),
        (goal(*[(1.0, 0.0, 0.0)] * 1001), "1001 waypoints"),
        (goal((1.0, 0.0, 0.0), speed=-1.0), "max_speed"),
    ):
        result, status = follow.send(bad).result(1.0)
        assert (result.outcome, status) == (FollowPath.Result.REFUSED, GoalStatus.STATUS_ABORTED)
        assert said in result.message
    assert dots.refused["input.follow_path"] == 6
    result, _ = first.result()
    assert result.outcome == FollowPath.Result.SUCCEEDED
    assert dots.truth[0] == pytest.approx(0.6, abs=0.03)


def test_cmd_vel_takes_over_from_a_path(dots, follow):
    sent = follow.send(goal((2.0, 0.0, 0.0)))
    dots.run(0.5)
    twist = Twist()
    twist.linear.y = 0.2
    dots.say(dots.publisher("cmd_vel", Twist), twist)
    result, status = sent.result(1.0)
    assert (result.outcome, status) == (FollowPath.Result.CANCELLED, GoalStatus.STATUS_ABORTED)
    assert "velocity" in result.message


def test_the_lift_action_says_when_the_platform_is_there(dots, lift):
    sent = lift.send(Lift.Goal(raised=True))
    result, status = sent.result(3.0)
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.success
    assert result.height == pytest.approx(0.197, abs=0.002)
    heights = [step.height for step in sent.feedback]
    assert heights == sorted(heights)
    assert 0.9 < dots.world.time < 1.5


def test_a_cancelled_lift_stays_where_it_is(dots, lift):
    sent = lift.send(Lift.Goal(raised=True))
    dots.run(0.5)
    assert sent.cancel() == 0
    result, status = sent.result(1.0)
    assert status == GoalStatus.STATUS_CANCELED
    assert not result.success
    dots.run(1.0)
    assert dots.onboard.lifter_height == pytest.approx(result.height, abs=0.003)
    assert 0.15 < result.height < 0.19


def test_a_new_lift_goal_replaces_the_old(dots, lift):
    first = lift.send(Lift.Goal(raised=True))
    dots.run(0.3)
    second = lift.send(Lift.Goal(raised=False))
    result, status = first.result(1.0)
    assert status == GoalStatus.STATUS_ABORTED
    assert "another goal" in result.message
    assert second.result(3.0)[0].success


def test_a_lift_that_somebody_turns_round_is_told(dots, lift):
    sent = lift.send(Lift.Goal(raised=True))
    dots.run(0.3)
    dots.say(dots.publisher("lifter", Bool), Bool(data=False))
    result, status = sent.result(1.0)
    assert (status, result.success) == (GoalStatus.STATUS_ABORTED, False)
    assert result.message == "another input moves the platform"


def test_a_lifter_that_is_stuck_is_told(dots, lift):
    lowered = dots.onboard.device.lifter.read()
    stuck = SimpleNamespace(move=lambda _height: None, read=lambda: lowered)
    dots.onboard.device = replace(dots.onboard.device, lifter=stuck)
    result, status = lift.send(Lift.Goal(raised=True)).result(5.0)
    assert status == GoalStatus.STATUS_ABORTED
    assert "does not arrive" in result.message


def test_a_cancelled_goal_ends_though_somebody_else_drives_at_once(dots, follow):
    sent = follow.send(goal((2.0, 0.0, 0.0)))
    dots.run(0.5)
    drive = dots.publisher("cmd_vel", Twist)
    twist = Twist()
    twist.linear.y = 0.3
    assert sent.cancel() == 0
    for _ in range(8):
        dots.say(drive, twist)
        dots.run(0.1)
    assert sent.future.done()
    assert sent.future.result().status == GoalStatus.STATUS_CANCELED


def test_who_sent_a_goal_has_time_to_read_its_end_however_soon_that_was_told(dots, follow):
    sent = follow.send(goal((2.0, 0.0, 0.0)))
    began = time.monotonic()
    dots.api.leave()
    dots.ros.spin_until(sent.future.done, "the goal's end")
    see_off([dots.api], dots.ros.spinner.once)
    assert time.monotonic() - began >= FAREWELL


def test_a_robot_without_goals_goes_at_once(dots):
    began = time.monotonic()
    see_off([dots.api], dots.ros.spinner.once)
    assert time.monotonic() - began < FAREWELL
