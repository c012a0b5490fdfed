"""A robot's actions `follow_path` and `lift`, with feedback, replacement and cancellation.

A goal also ends when another goal, `cmd_vel` or a program takes over the robot; its outcome names the cause.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from swarmbed_core.control import Mode
from swarmbed_core.errors import PathError
from swarmbed_core.geometry import between
from swarmbed_core.motion import Outcome
from swarmbed_core.robot import Command
from swarmbed_core.watchdog import Pace

from swarmbed_interfaces.action import FollowPath, Lift
from swarmbed_robot import wire
from swarmbed_robot.action_server import FAREWELL
from swarmbed_robot.errors import RobotError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from swarmbed_robot.action_server import Goal
    from swarmbed_robot.api import RobotApi

FEEDBACK_RATE = 10.0
"""Rate of feedback, in Hz."""
LIFT_PATIENCE = 2.0
"""Multiple of the lifter's travel time after which an unfinished move counts as stuck."""
TURN = 0.01
"""Longest wait in one call of the executor while APIs shut down, in seconds."""
RESTING = 0.01
"""Speed below which a cancelled robot counts as at rest, in m/s or rad/s."""


@dataclass
class _Work:
    """An active goal."""

    handle: Goal
    number: int
    since: float
    cancelled: bool = False


class _Server:
    """Base of both actions: one goal at a time, replaced by a newer one."""

    def __init__(self, api: RobotApi, kind: Any, topic: str) -> None:
        self._api = api
        self._goal: _Work | None = None
        self._feedback = Pace(FEEDBACK_RATE)
        self._offered = api.actions.offer(api.node, kind, f"/{api.name}/{topic}", self)

    def _begin(self, handle: Goal, number: int) -> _Work:
        return _Work(handle, number, self._now())

    def _now(self) -> float:
        return float(self._api.onboard.device.clock.time)

    def accepted(self, goal: Goal) -> None:
        """Start a goal."""
        raise NotImplementedError

    def cancel(self, goal: Goal) -> bool:
        """Mark a goal as cancelled and return whether it is the active one; it ends once the robot rests."""
        if self._goal is None or self._goal.handle is not goal:
            return False
        self._goal.cancelled = True
        return True

    @property
    def told(self) -> float:
        """Return when the last result was sent, in seconds of `time.monotonic()`."""
        return self._offered.told


class PathServer(_Server):
    """The action `follow_path`."""

    def __init__(self, api: RobotApi) -> None:
        super().__init__(api, FollowPath, "follow_path")

    def accepted(self, goal: Goal) -> None:
        """Follow a path from now on; a path that cannot be followed has no effect."""
        api, request = self._api, goal.request
        motion = api.onboard.motion
        frame = request.header.frame_id.removeprefix(f"{api.name}_")
        try:
            api.check_free("follow_path")
            path = wire.path_of(frame, request.waypoints, request.max_speed, request.max_acceleration)
            before = self._goal
            api.robot.follow(path)
        except (wire.WireError, PathError, RobotError) as error:
            api.refuse("follow_path", str(error))
            self._finish(self._begin(goal, -1), FollowPath.Result.REFUSED, str(error))
            return
        if before is not None:
            self._finish(before, FollowPath.Result.REPLACED, "replaced by another path")
        api.taken_over()
        self._goal = self._begin(goal, motion.paths)

    def cancel(self, goal: Goal) -> bool:
        """Brake if the robot is following this goal's path."""
        work, accepted = self._goal, super().cancel(goal)
        motion = self._api.onboard.motion
        drives = work is not None and motion.paths == work.number and motion.outcome is Outcome.RUNNING
        if accepted and drives:
            self._api.robot.act(Command(cancel=True))
        return accepted

    def leave(self) -> None:
        """End the active goal because the robot is being removed."""
        if self._goal is not None:
            self._end(self._goal, FollowPath.Result.FAILED, "the robot was removed from the world")

    def cycle(self, now: float) -> None:
        """Publish the goal's feedback, and end the goal when the motion ends."""
        goal = self._goal
        if goal is None:
            return
        motion = self._api.onboard.motion
        kind = FollowPath.Result
        if motion.paths != goal.number:
            self._end(goal, kind.REPLACED, "replaced by another path")
        elif goal.cancelled or motion.outcome is Outcome.CANCELLED:
            if goal.cancelled and self._moves():
                return
            said = "cancelled" if goal.cancelled else f"another input took over: {motion.mode.value}"
            self._end(goal, kind.CANCELLED, said)
        elif motion.outcome is Outcome.SUCCEEDED:
            self._end(goal, kind.SUCCEEDED, "")
        elif motion.outcome is Outcome.FAILED:
            self._end(goal, kind.FAILED, "the robot did not reach the end of the path")
        elif self._feedback.due(now):
            goal.handle.publish_feedback(self._progress())

    def _moves(self) -> bool:
        """Return whether a cancelled robot is still braking."""
        motion = self._api.onboard.motion
        _, _, _, *twist = self._api.onboard.filter.odometry.numbers()
        return motion.mode is Mode.PATH or (motion.mode is Mode.IDLE and max(map(abs, twist)) > RESTING)

    def _progress(self) -> Any:
        onboard = self._api.onboard
        motion = onboard.motion
        setpoint = motion.player.setpoint
        x, y, yaw = between(onboard.path_frame, setpoint.pose).tolist()
        c, s = math.cos(onboard.path_frame[2]), math.sin(onboard.path_frame[2])
        vx, vy, omega = setpoint.velocity
        made = FollowPath.Feedback(
            waypoint=min(motion.waypoint, 2**32 - 1),
            progress=float(motion.progress),
            time_remaining=float(motion.player.time_remaining),
            distance_remaining=float(motion.distance_remaining),
        )
        point = made.setpoint
        point.x, point.y, point.yaw = x, y, yaw
        point.vx, point.vy, point.omega = c * vx + s * vy, c * vy - s * vx, omega
        return made

    def _end(self, goal: _Work, outcome: int, said: str) -> None:
        self._goal = None
        self._finish(goal, outcome, said)

    def _finish(self, goal: _Work, outcome: int, said: str) -> None:
        """Send a goal's result."""
        onboard = self._api.onboard
        x, y, yaw, *_ = onboard.filter.odometry.numbers()
        off, turned = math.nan, math.nan
        if goal.number == onboard.motion.paths:
            off, turned = onboard.motion.off_end((x, y, yaw))
        result = FollowPath.Result(
            outcome=outcome, message=said, position_error=float(off), yaw_error=float(turned)
        )
        if outcome == FollowPath.Result.SUCCEEDED:
            goal.handle.succeed(result)
        elif outcome == FollowPath.Result.CANCELLED and goal.handle.is_cancel_requested:
            goal.handle.canceled(result)
        else:
            goal.handle.abort(result)


class LiftServer(_Server):
    """The action `lift`, which succeeds when the platform has arrived."""

    def __init__(self, api: RobotApi) -> None:
        super().__init__(api, Lift, "lift")

    def accepted(self, goal: Goal) -> None:
        """Raise or lower the platform from now on."""
        try:
            self._api.check_free("lift")
        except RobotError as error:
            self._api.refuse("lift", str(error))
            self._finish(self._begin(goal, 0), str(error))
            return
        before, self._goal = self._goal, None
        if before is not None:
            self._finish(before, "replaced by another goal")
        self._api.robot.act(Command(lift=bool(goal.request.raised)))
        self._goal = self._begin(goal, 0)

    def cycle(self, now: float) -> None:
        """Publish the platform's height, and end the goal when the platform has arrived."""
        goal, lifter = self._goal, self._api.onboard.lifter
        if goal is None or lifter is None:
            return
        if goal.cancelled:
            # The platform stays where it is: its load is unknown.
            lifter.hold()
            self._end(goal, "cancelled")
        elif lifter.target == (lifter.lifter.lowered if goal.handle.request.raised else lifter.lifter.raised):
            self._end(goal, "another input moves the platform")
        elif lifter.at_top if goal.handle.request.raised else lifter.at_bottom:
            self._end(goal, "")
        elif now - goal.since > LIFT_PATIENCE * lifter.lifter.travel_time:
            self._end(goal, "the platform does not arrive: check for a heavy load and that power is on")
        elif self._feedback.due(now):
            goal.handle.publish_feedback(Lift.Feedback(height=self._height()))

    def leave(self) -> None:
        """End the active goal because the robot is being removed."""
        if self._goal is not None:
            self._end(self._goal, "the robot was removed from the world")

    def _height(self) -> float:
        height = self._api.onboard.lifter_height
        return math.nan if height is None else float(height)

    def _end(self, goal: _Work, said: str) -> None:
        self._goal = None
        self._finish(goal, said)

    def _finish(self, goal: _Work, said: str) -> None:
        result = Lift.Result(success=not said, message=said, height=self._height())
        if not said:
            goal.handle.succeed(result)
        elif goal.handle.is_cancel_requested:
            goal.handle.canceled(result)
        else:
            goal.handle.abort(result)


def see_off(apis: Sequence[RobotApi], once: Callable[[float], object]) -> None:
    """Close the APIs of an ending process, after giving clients time to read the results of their goals.

    Args:
        apis: the robots' APIs.
        once: spins the executor once, for at most the given number of seconds.
    """
    for api in apis:
        api.leave()
    end = max((api.told for api in apis), default=-math.inf) + FAREWELL
    while (left := end - time.monotonic()) > 0:
        once(min(left, TURN))
    for api in apis:
        api.close()
