"""A robot's actions: a path to follow and the lifter to move, each with feedback, replacement and cancel.

A goal ends when the robot does: whatever else takes the robot over, another goal, `cmd_vel` or a program,
ends it with an outcome that says so.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.clock import Clock, ClockType
from rclpy.task import Future
from swarmbed_core.control import Mode
from swarmbed_core.errors import PathError
from swarmbed_core.geometry import between
from swarmbed_core.motion import Outcome
from swarmbed_core.robot import Command
from swarmbed_core.watchdog import Pace

from swarmbed_interfaces.action import FollowPath, Lift
from swarmbed_robot import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rclpy.action.server import ServerGoalHandle
    from rclpy.callback_groups import CallbackGroup
    from rclpy.node import Node

    from swarmbed_robot.api import RobotApi

FEEDBACK_RATE = 10.0
"""How often a goal's progress is told, in Hz."""
LIFT_PATIENCE = 2.0
"""A lifter that has not arrived after this many times its travel time is stuck."""
SETTLING = 2.0
"""Seconds that goals are given to end when their robot goes."""
FAREWELL = 1.0
"""Seconds, from the last result on, that those who sent goals are given to read how they ended."""
TURN = 0.01
RESTING = 0.01
"""Metres or radians a second below which a cancelled robot has come to rest."""


@dataclass
class _Goal:
    """A goal that is being worked on."""

    handle: ServerGoalHandle
    done: Future
    number: int
    since: float
    cancelled: bool = False


class OwnClock:
    """A node with a clock of its own: an executor complains where the timers of many servers share one."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clock = Clock(clock_type=ClockType.ROS_TIME)

    def get_clock(self) -> Clock:
        """Return the clock."""
        return self._clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


class _Server:
    """What both actions share: one goal at a time, a newer one replaces it.

    Attributes:
        told: when the last result went out, on this machine's clock; minus infinity before the first.
    """

    def __init__(self, api: RobotApi, kind: Any, topic: str, group: CallbackGroup) -> None:
        self._api = api
        self._kind = kind
        self._goal: _Goal | None = None
        self._results: dict[bytes, Future] = {}
        self._working = 0
        self.told = -math.inf
        self._feedback = Pace(FEEDBACK_RATE)
        self._server = ActionServer(
            OwnClock(api.node),
            kind,
            f"/{api.name}/{topic}",
            self._execute,
            callback_group=group,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._cancel,
        )

    async def _execute(self, handle: ServerGoalHandle) -> Any:
        """Return a goal's result when there is one."""
        result = await self._results.pop(bytes(handle.goal_id.uuid))
        # What follows, up to who asked for it, the executor does in the same turn.
        self._working -= 1
        self.told = time.monotonic()
        return result

    @property
    def settled(self) -> bool:
        """Return whether all goals that were taken have ended and told their results."""
        return self._working == 0

    def _begin(self, handle: ServerGoalHandle, number: int) -> _Goal:
        goal = _Goal(handle, Future(), number, self._now())
        self._results[bytes(handle.goal_id.uuid)] = goal.done
        self._working += 1
        handle.execute()
        return goal

    def _now(self) -> float:
        return float(self._api.onboard.device.clock.time)

    def _accepted(self, handle: ServerGoalHandle) -> None:
        raise NotImplementedError

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        goal = self._goal
        if goal is None or goal.handle.goal_id != handle.goal_id:
            return CancelResponse.REJECT
        goal.cancelled = True
        return CancelResponse.ACCEPT

    def close(self) -> None:
        """Take the action away."""
        self._server.destroy()


class PathServer(_Server):
    """`follow_path`."""

    def __init__(self, api: RobotApi, group: CallbackGroup) -> None:
        """Offer it."""
        super().__init__(api, FollowPath, "follow_path", group)

    def _accepted(self, handle: ServerGoalHandle) -> None:
        """Follow a path from now on; one that cannot be followed changes nothing."""
        api, request = self._api, handle.request
        motion = api.onboard.motion
        frame = request.header.frame_id.removeprefix(f"{api.name}_")
        try:
            path = wire.path_of(frame, request.waypoints, request.max_speed, request.max_acceleration)
            before = self._goal
            api.onboard.follow(path)
        except (wire.WireError, PathError) as error:
            api.refuse("follow_path", str(error))
            goal = self._begin(handle, -1)
            self._finish(goal, FollowPath.Result.REFUSED, str(error))
            return
        if before is not None:
            self._finish(before, FollowPath.Result.REPLACED, "another path took its place")
        api.taken_over()
        self._goal = self._begin(handle, motion.paths)

    def _cancel(self, handle: ServerGoalHandle) -> CancelResponse:
        goal, answer = self._goal, super()._cancel(handle)
        motion = self._api.onboard.motion
        drives = goal is not None and motion.paths == goal.number and motion.outcome is Outcome.RUNNING
        if answer is CancelResponse.ACCEPT and drives:
            self._api.onboard.act(Command(cancel=True))
        return answer

    def leave(self) -> None:
        """End what is being worked on: the robot is taken away."""
        if self._goal is not None:
            self._end(self._goal, FollowPath.Result.FAILED, "the robot has left this world")

    def cycle(self, now: float) -> None:
        """Tell how the goal goes, and end it when the robot does."""
        goal = self._goal
        if goal is None:
            return
        motion = self._api.onboard.motion
        kind = FollowPath.Result
        if motion.paths != goal.number:
            self._end(goal, kind.REPLACED, "another path took its place")
        elif goal.cancelled or motion.outcome is Outcome.CANCELLED:
            if goal.cancelled and self._moves():
                return
            said = "cancelled" if goal.cancelled else f"something else drives: {motion.mode.value}"
            self._end(goal, kind.CANCELLED, said)
        elif motion.outcome is Outcome.SUCCEEDED:
            self._end(goal, kind.SUCCEEDED, "")
        elif motion.outcome is Outcome.FAILED:
            self._end(goal, kind.FAILED, "the robot did not come to the end of the path")
        elif self._feedback.due(now):
            goal.handle.publish_feedback(self._progress())

    def _moves(self) -> bool:
        """Return whether a robot that was told to brake still does."""
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

    def _end(self, goal: _Goal, outcome: int, said: str) -> None:
        self._goal = None
        self._finish(goal, outcome, said)

    def _finish(self, goal: _Goal, outcome: int, said: str) -> None:
        """Give a goal its result."""
        onboard = self._api.onboard
        x, y, yaw, *_ = onboard.filter.odometry.numbers()
        off, turned = math.nan, math.nan
        if goal.number == onboard.motion.paths:
            off, turned = onboard.motion.off_end((x, y, yaw))
        result = FollowPath.Result(
            outcome=outcome, message=said, position_error=float(off), yaw_error=float(turned)
        )
        if outcome == FollowPath.Result.SUCCEEDED:
            goal.handle.succeed()
        elif outcome == FollowPath.Result.CANCELLED and goal.handle.is_cancel_requested:
            goal.handle.canceled()
        else:
            goal.handle.abort()
        goal.done.set_result(result)


class LiftServer(_Server):
    """`lift`: the lifter as an action, which says when the platform is there."""

    def __init__(self, api: RobotApi, group: CallbackGroup) -> None:
        """Offer it."""
        super().__init__(api, Lift, "lift", group)

    def _accepted(self, handle: ServerGoalHandle) -> None:
        before, self._goal = self._goal, None
        if before is not None:
            self._finish(before, "another goal took its place")
        self._api.onboard.act(Command(lift=bool(handle.request.raised)))
        self._goal = self._begin(handle, 0)

    def cycle(self, now: float) -> None:
        """Tell how high the platform is, and end the goal when it is there."""
        goal, lifter = self._goal, self._api.onboard.lifter
        if goal is None or lifter is None:
            return
        if goal.cancelled:
            # The platform stays where it is: nobody knows what is on it.
            lifter.hold()
            self._end(goal, "cancelled")
        elif lifter.target == (lifter.lifter.lowered if goal.handle.request.raised else lifter.lifter.raised):
            self._end(goal, "something else moves the platform")
        elif lifter.at_top if goal.handle.request.raised else lifter.at_bottom:
            self._end(goal, "")
        elif now - goal.since > LIFT_PATIENCE * lifter.lifter.travel_time:
            self._end(goal, "the platform does not get there: is the load too heavy, or power off?")
        elif self._feedback.due(now):
            goal.handle.publish_feedback(Lift.Feedback(height=self._height()))

    def leave(self) -> None:
        """End what is being worked on: the robot is taken away."""
        if self._goal is not None:
            self._end(self._goal, "the robot has left this world")

    def _height(self) -> float:
        height = self._api.onboard.lifter_height
        return math.nan if height is None else float(height)

    def _end(self, goal: _Goal, said: str) -> None:
        self._goal = None
        self._finish(goal, said)

    def _finish(self, goal: _Goal, said: str) -> None:
        result = Lift.Result(success=not said, message=said, height=self._height())
        if not said:
            goal.handle.succeed()
        elif goal.handle.is_cancel_requested:
            goal.handle.canceled()
        else:
            goal.handle.abort()
        goal.done.set_result(result)


def see_off(apis: Sequence[RobotApi], once: Callable[[float], object]) -> None:
    """End the goals of robots that go, let those who sent them hear of it, and take the APIs away.

    Args:
        apis: that have been told to leave, or are now.
        once: waits for something to do for so many seconds at most, and does it.
    """
    for api in apis:
        api.leave()
    end = time.monotonic() + SETTLING
    while not all(api.settled for api in apis) and time.monotonic() < end:
        once(TURN)
    # Whoever hears that a server is gone before it has read the answer forgets that.
    end = max((api.told for api in apis), default=-math.inf) + FAREWELL
    while (left := end - time.monotonic()) > 0:
        once(min(left, TURN))
    for api in apis:
        api.close()
