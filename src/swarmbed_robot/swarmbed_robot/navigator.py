"""Drives robots to poses, round what is in the way: `navigate_to_pose` and `goal_pose` of each.

It needs a robot's own topics alone (`odom`, `collision_map`, `info`, `tf`, the action `follow_path`), so it
works for real robots as well as for those of a world. Where there is a `/map`, it plans over it. It
subscribes to what it needs when a goal comes, and unsubscribes some time after the last one.

rviz2 sends goals with its tool "2D Goal Pose" (topic /<robot>/goal_pose) or its Nav2 panel (the action).
"""

from __future__ import annotations

import math
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.action import ActionClient
from rclpy.callback_groups import ReentrantCallbackGroup
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.floor_plan import FloorPlan
from swarmbed_core.geometry import compose, invert
from swarmbed_core.navigation import Fault, Navigation, NavigationParams, Status, warm_up

from swarmbed_interfaces.action import FollowPath
from swarmbed_interfaces.msg import RobotInfo, Waypoint
from swarmbed_robot import qos, wire
from swarmbed_robot.action_server import ActionServer
from swarmbed_robot.nodes import Spinner, check_name, run
from swarmbed_robot.options import Option
from swarmbed_robot.tf_relay import decode
from tf2_msgs.msg import TFMessage

try:
    from nav2_msgs.action import NavigateToPose
except ImportError:
    from swarmbed_interfaces.action import NavigateToPose

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.action.client import ClientGoalHandle
    from rclpy.node import Node
    from rclpy.subscription import Subscription
    from rclpy.task import Future
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.navigation import Order
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.trajectory import Path

    from swarmbed_robot.action_server import Goal

_USUAL = NavigationParams()
OPTIONS = (
    Option("robots", ["dots1"], "names of the robots to drive"),
    Option("speed", _USUAL.speed, "of the robots, m/s, within their own limits", 0.01, 10.0),
    Option("margin", _USUAL.margin, "metres that a robot keeps from everything at least", 0.0, 1.0),
    Option("radius", 0.0, "of the circle that holds a robot, in metres; 0: its body's", 0.0, 10.0),
    Option("memory", _USUAL.memory, "seconds for which what a robot saw counts as there", 0.1, 600.0),
    Option("recoveries", _USUAL.recoveries, "waits for a blocked way in a row before giving up", 0, 1000),
)
PERIOD = 0.2
"""Seconds of the robot's clock between two decisions."""
HISTORY = 64
"""Poses of the robot that are kept: a collision map is of a moment that has passed."""
READY = 10.0
"""Seconds of this machine in which a robot has to say where it is when a goal has come."""
MAP_READY = 2.0
"""Seconds that a published map is waited for."""
SILENT = 3.0
"""Seconds without odometry after which we look whether the robot is still there."""
LINGER = 10.0
"""Seconds after the last goal for which topics are still listened to."""
WATCH = 0.5
"""Seconds between two looks at whether the robot is there."""
_POSE = struct.Struct("<7d")


@dataclass(frozen=True, slots=True)
class Request:
    """A goal as it was sent: its pose, in a frame."""

    pose: tuple[float, float, float]
    frame: str


class GoalError(SwarmbedError):
    """A goal that no robot can have.

    Attributes:
        fault: which kind of fault it is.
    """

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def request_of(sent: PoseStamped, robot: str) -> Request:
    """Return the goal of a message.

    Raises:
        GoalError: it is none.
    """
    p, q = sent.pose.position, sent.pose.orientation
    if not all(map(math.isfinite, (p.x, p.y, q.x, q.y, q.z, q.w))):
        numbers = f"({p.x:g}, {p.y:g}), orientation ({q.x:g}, {q.y:g}, {q.z:g}, {q.w:g})"
        raise GoalError(Fault.UNKNOWN, f"the goal {numbers}: finite numbers are right")
    if math.hypot(q.x, q.y, q.z, q.w) < 1e-6:
        raise GoalError(Fault.UNKNOWN, "the goal's orientation is all zeros: w: 1.0 is straight ahead")
    frame = sent.header.frame_id.lstrip("/").removeprefix(f"{robot}_") or "map"
    if frame not in {"map", "odom", "base_link"}:
        message = f"the goal is in frame '{sent.header.frame_id[:80]}': map, odom or base_link are right"
        raise GoalError(Fault.TF_ERROR, message)
    yaw = math.atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))
    return Request((p.x, p.y, yaw), frame)


def plan_of(grid: OccupancyGrid) -> FloorPlan | None:
    """Return a map as a floor plan, None if it is none; a turned one is not understood."""
    info = grid.info
    cells = np.array(grid.data, dtype=np.int8)
    origin = info.origin
    straight = abs(origin.orientation.z) < 1e-6 and abs(origin.orientation.w) > 0.5
    finite = math.isfinite(origin.position.x) and math.isfinite(origin.position.y)
    if not (cells.size == info.width * info.height > 0 and 0.0 < info.resolution < math.inf):
        return None
    if not (straight and finite and grid.header.frame_id.lstrip("/") == "map"):
        return None
    corner = (float(origin.position.x), float(origin.position.y))
    return FloorPlan(cells.reshape(info.height, info.width), corner, float(info.resolution))


def seen_in(grid: OccupancyGrid, pose_odom: FloatArray, threshold: float) -> FloatArray:
    """Return the cells of a robot's collision map where something is, as rows of x, y in odom."""
    info = grid.info
    cells = np.array(grid.data, dtype=np.int8).reshape(info.height, info.width)
    rows, columns = np.nonzero(cells >= 100.0 * threshold)
    x = info.origin.position.x + (columns + 0.5) * info.resolution
    y = info.origin.position.y + (rows + 0.5) * info.resolution
    c, s = math.cos(pose_odom[2]), math.sin(pose_odom[2])
    return np.column_stack([pose_odom[0] + c * x - s * y, pose_odom[1] + s * x + c * y])


def seconds_of(stamped: Any) -> float:
    """Return the time of a message."""
    return float(stamped.header.stamp.sec) + 1e-9 * float(stamped.header.stamp.nanosec)


class Frames:
    """What `/tf` says of where `odom` of each robot is in `map`; listened to while somebody needs it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._users: dict[str, Subscription] = {}
        self._shared: Subscription | None = None
        self.odom_map: dict[str, FloatArray] = {}

    def use(self, robot: str) -> None:
        """Listen for a robot."""
        if robot in self._users:
            return
        if self._shared is None:
            self._shared = self._node.create_subscription(TFMessage, "/tf", self._hear, qos.TF, raw=True)

        def hear_own(data: bytes) -> None:
            self._take(data, {b"odom": robot})

        topic = f"/{robot}/tf"
        self._users[robot] = self._node.create_subscription(TFMessage, topic, hear_own, qos.TF, raw=True)

    def drop(self, robot: str) -> None:
        """Listen no more for a robot."""
        mine = self._users.pop(robot, None)
        if mine is not None:
            self._node.destroy_subscription(mine)
        self.odom_map.pop(robot, None)
        if not self._users and self._shared is not None:
            self._node.destroy_subscription(self._shared)
            self._shared = None

    def _hear(self, data: bytes) -> None:
        self._take(data, {f"{robot}_odom".encode(): robot for robot in self._users})

    def _take(self, data: bytes, wanted: dict[bytes, str]) -> None:
        try:
            transforms = decode(data)
        except ValueError:
            return
        for transform in transforms:
            robot = wanted.get(transform.child.lstrip(b"/"))
            if robot is None or transform.parent.lstrip(b"/") != b"map":
                continue
            x, y, _, qx, qy, qz, qw = _POSE.unpack(transform.pose)
            yaw = math.atan2(2.0 * (qw * qz + qx * qy), 1.0 - 2.0 * (qy * qy + qz * qz))
            if math.isfinite(x + y + yaw):
                self.odom_map[robot] = np.array([x, y, yaw])


class Maps:
    """The newest `/map`; listened to while somebody needs it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._users: set[str] = set()
        self._listening: Subscription | None = None
        self.plan: FloorPlan | None = None

    def use(self, robot: str) -> None:
        """Listen for a robot."""
        self._users.add(robot)
        if self._listening is None:
            self._listening = self._node.create_subscription(OccupancyGrid, "/map", self._hear, qos.LATCHED)

    def drop(self, robot: str) -> None:
        """Listen no more for a robot."""
        self._users.discard(robot)
        if not self._users and self._listening is not None:
            self._node.destroy_subscription(self._listening)
            self._listening = self.plan = None

    @property
    def awaited(self) -> bool:
        """Return whether there is a map that has not come yet."""
        return self.plan is None and self._node.count_publishers("/map") > 0

    def _hear(self, grid: OccupancyGrid) -> None:
        plan = plan_of(grid)
        if plan is None:
            self._node.get_logger().warning("/map is no map that can be used: it is ignored")
        self.plan = plan


@dataclass
class _Goal:
    """A goal that is being worked on; one from the topic has no handle."""

    request: Request
    since: float
    handle: Goal | None = None
    begun: float | None = None
    cancelled: bool = False


class Navigator:
    """One robot's `navigate_to_pose` and `goal_pose`.

    Attributes:
        name: of the robot.
        busy: whether it has a goal.
    """

    def __init__(self, node: Node, robot: str, frames: Frames, maps: Maps, options: dict[str, Any]) -> None:
        """Offer them.

        Args:
            node: that has the topics.
            robot: its name.
            frames: where its odometry is.
            maps: of the floor.
            options: values of `OPTIONS`.
        """
        self.name = robot
        self._node, self._frames, self._maps = node, frames, maps
        self._radius = float(options["radius"]) or None
        self._params = NavigationParams(
            speed=options["speed"],
            margin=options["margin"],
            memory=options["memory"],
            recoveries=options["recoveries"],
        )
        self._group = ReentrantCallbackGroup()
        self._spec: RobotSpec | None = None
        self._run: int | None = None
        self._navigation: Navigation | None = None
        self._goal: _Goal | None = None
        self._heard: list[Subscription] = []
        self._poses: deque[tuple[float, FloatArray]] = deque(maxlen=HISTORY)
        self._heard_at = self._freed_at = self._now = self._decided = -math.inf
        self._path: ClientGoalHandle | None = None
        self._number = 0
        self._waypoint = 0
        self._follow = ActionClient(node, FollowPath, f"/{robot}/follow_path", callback_group=self._group)
        self._server = ActionServer(node, NavigateToPose, f"/{robot}/navigate_to_pose")
        self._server.serve(self)
        node.create_subscription(PoseStamped, f"/{robot}/goal_pose", self._on_goal_pose, qos.COMMAND)
        node.create_subscription(RobotInfo, f"/{robot}/info", self._on_info, qos.LATCHED)

    @property
    def busy(self) -> bool:
        """Return whether there is a goal."""
        return self._goal is not None

    # Goals

    def accepted(self, goal: Goal) -> None:
        """Take a goal of the action; what is wrong with it is its result."""
        self._take(goal.request.pose, _Goal(Request((0.0, 0.0, 0.0), "map"), time.monotonic(), goal))

    def cancel(self, goal: Goal) -> bool:
        """Return whether a goal may be cancelled: it ends when the robot has come to rest."""
        mine = self._goal
        if mine is None or mine.handle is not goal:
            return False
        mine.cancelled = True
        return True

    def _on_goal_pose(self, sent: PoseStamped) -> None:
        self._take(sent, _Goal(Request((0.0, 0.0, 0.0), "map"), time.monotonic()))

    def _take(self, sent: PoseStamped, goal: _Goal) -> None:
        """Begin with a goal, in the place of the one before; one that makes no sense changes nothing."""
        try:
            goal.request = request_of(sent, self.name)
        except GoalError as error:
            self._finish(goal, error.fault, str(error))
            return
        before, self._goal = self._goal, goal
        if before is not None:
            self._finish(before, Fault.UNKNOWN, "another goal took its place")
        self._listen()

    def _finish(self, goal: _Goal, fault: Fault, explanation: str) -> None:
        """Tell how a goal ended."""
        log = self._node.get_logger()
        if goal.cancelled:
            log.info(f"{self.name}: cancelled")
        elif explanation:
            log.warning(f"{self.name}: {explanation}")
        elif goal.handle is None:
            log.info(f"{self.name}: at the goal")
        if goal is self._goal:
            self._goal = None
            self._freed_at = time.monotonic()
        if goal.handle is None:
            return
        result = NavigateToPose.Result()
        # Which of these there are depends on the version of nav2_msgs.
        for field, value in (("error_code", int(fault)), ("error_msg", explanation)):
            if hasattr(result, field):
                setattr(result, field, value)
        if not explanation:
            goal.handle.succeed(result)
        elif goal.handle.is_cancel_requested:
            goal.handle.canceled(result)
        else:
            goal.handle.abort(result)

    # What the robot says

    def _on_info(self, info: RobotInfo) -> None:
        try:
            self._spec = wire.spec_from_text(info.spec)
        except SwarmbedError as error:
            self._node.get_logger().warning(f"{self.name}: {error}")
            return
        begins_anew = self._run is not None and info.run != self._run
        self._run = int(info.run)
        self._navigation = Navigation(self._spec, self._params, self._radius)
        self._poses.clear()
        self._now = self._decided = -math.inf
        if begins_anew and self._goal is not None:
            self._path = None
            self._number += 1
            self._finish(self._goal, Fault.UNKNOWN, "the world was reset")

    def _listen(self) -> None:
        """Listen to what is needed on the way."""
        if self._heard:
            return
        node, name = self._node, self.name
        self._heard = [
            node.create_subscription(Odometry, f"/{name}/odom", self._on_odom, qos.SENSOR),
            node.create_subscription(
                OccupancyGrid, f"/{name}/collision_map", self._on_collision_map, qos.SENSOR
            ),
        ]
        self._frames.use(name)
        self._maps.use(name)
        self._heard_at = time.monotonic()

    def _rest(self) -> None:
        """Listen to nothing any more."""
        for subscription in self._heard:
            self._node.destroy_subscription(subscription)
        self._heard.clear()
        self._frames.drop(self.name)
        self._maps.drop(self.name)
        self._poses.clear()

    def _on_odom(self, sent: Odometry) -> None:
        p, q = sent.pose.pose.position, sent.pose.pose.orientation
        pose = np.array([p.x, p.y, 2.0 * math.atan2(q.z, q.w)])
        if not np.isfinite(pose).all():
            return
        self._now = seconds_of(sent)
        self._heard_at = time.monotonic()
        if self._poses and self._now < self._poses[-1][0]:
            self._poses.clear()
            self._decided = -math.inf
        self._poses.append((self._now, pose))
        # A collision map decides as it comes; a robot without one goes by what it was told.
        if self._now - self._decided >= 2 * PERIOD:
            self._decide()

    def _on_collision_map(self, sent: OccupancyGrid) -> None:
        navigation, stamp = self._navigation, seconds_of(sent)
        if navigation is None or not self._poses:
            return
        _, pose = min(self._poses, key=lambda known: abs(known[0] - stamp))
        navigation.see(stamp, seen_in(sent, pose, self._params.threshold))
        self._decide()

    # On the way

    def watch(self) -> None:
        """Look whether the robot is still there, and let go of what has not been needed for some time."""
        now, goal = time.monotonic(), self._goal
        if goal is None:
            if self._heard and now - self._freed_at > LINGER:
                self._rest()
            return
        if goal.cancelled:
            self._end_cancelled(goal)
            return
        if goal.begun is None:
            if now - goal.since > READY:
                self._give_up(*self._what_is_missing(goal))
        elif now - self._heard_at > SILENT and self._node.count_publishers(f"/{self.name}/odom") == 0:
            self._give_up(Fault.UNKNOWN, f"the robot {self.name} has gone")

    def _what_is_missing(self, goal: _Goal) -> tuple[Fault, str]:
        """Return why a goal could not be begun with."""
        if self._navigation is None:
            return Fault.UNKNOWN, f"nothing came on /{self.name}/info for {READY:g} s: is there such a robot?"
        if not self._follow.server_is_ready():
            return Fault.UNKNOWN, f"nobody offers the action /{self.name}/follow_path"
        if not self._poses:
            return Fault.UNKNOWN, f"nothing came on /{self.name}/odom for {READY:g} s: is the world paused?"
        if goal.request.frame == "map" and self.name not in self._frames.odom_map:
            message = f"no frame leads from map to {self.name}_odom: the robot does not know where it is"
            return Fault.TF_ERROR, f"{message}; odom and base_link need none"
        return Fault.UNKNOWN, "the robot was not ready"

    def _give_up(self, fault: Fault, explanation: str) -> None:
        goal, navigation = self._goal, self._navigation
        if navigation is not None:
            self._obey(navigation.stop())
        if goal is not None:
            self._finish(goal, fault, explanation)

    def _decide(self) -> None:
        """Take the robot on to its goal."""
        goal, navigation = self._goal, self._navigation
        self._decided = self._now
        if goal is None or navigation is None or not self._poses:
            return
        _, pose = self._poses[-1]
        odom_map = self._frames.odom_map.get(self.name)
        map_odom = None if odom_map is None else invert(odom_map)
        if goal.cancelled:
            self._end_cancelled(goal)
            return
        if goal.begun is None and not self._begin(goal, navigation, pose, map_odom):
            return
        self._obey(navigation.step(self._now, pose, map_odom, self._maps.plan, self._waypoint))
        if navigation.status is Status.RUNNING:
            self._tell(goal, navigation, pose, odom_map)
        else:
            self._finish(goal, navigation.fault, navigation.message)

    def _end_cancelled(self, goal: _Goal) -> None:
        """Brake, and end a cancelled goal when the robot has come to rest."""
        if self._navigation is not None:
            self._obey(self._navigation.stop())
        if self._path is None:
            self._finish(goal, Fault.NONE, "cancelled")

    def _begin(
        self, goal: _Goal, navigation: Navigation, pose: FloatArray, map_odom: FloatArray | None
    ) -> bool:
        """Begin with a goal, if all is known that it takes."""
        frame, target = goal.request.frame, goal.request.pose
        if self._maps.awaited and time.monotonic() - goal.since < MAP_READY:
            return False
        if not self._follow.server_is_ready():
            return False
        if frame == "map":
            if map_odom is None:
                return False
            navigation.start(target, "map")
        else:
            navigation.start(target if frame == "odom" else compose(pose, target).tolist(), "odom")
        goal.begun = self._now
        return True

    def _tell(
        self, goal: _Goal, navigation: Navigation, pose: FloatArray, odom_map: FloatArray | None
    ) -> None:
        """Send the feedback."""
        if goal.handle is None or goal.begun is None:
            return
        made = NavigateToPose.Feedback()
        frame, place = (f"{self.name}_odom", pose) if odom_map is None else ("map", compose(odom_map, pose))
        made.current_pose.header.frame_id = frame
        made.current_pose.header.stamp = wire.stamp_of(self._now)
        at = made.current_pose.pose
        at.position.x, at.position.y = float(place[0]), float(place[1])
        at.orientation.z, at.orientation.w = math.sin(place[2] / 2), math.cos(place[2] / 2)
        made.navigation_time = _duration(self._now - goal.begun)
        left = navigation.distance_remaining
        if math.isfinite(left):
            made.distance_remaining = left
            made.estimated_time_remaining = _duration(left / navigation.speed)
        made.number_of_recoveries = navigation.recoveries
        goal.handle.publish_feedback(made)

    # The path

    def _obey(self, order: Order) -> None:
        if order.path is not None:
            self._send(order.path)
        elif order.brake:
            # The path that is on its way there, too, is cancelled when it has been accepted.
            if self._path is not None:
                self._path.cancel_goal_async()
            self._number += 1

    def _send(self, path: Path) -> None:
        """Let the robot follow a path from now on."""
        self._number += 1
        number = self._number
        self._waypoint = 0
        goal = FollowPath.Goal(
            waypoints=[_waypoint(point.pose, point.velocity) for point in path.waypoints],
            max_speed=path.max_speed or 0.0,
            max_acceleration=path.max_acceleration or 0.0,
        )
        goal.header.frame_id = "odom"
        goal.header.stamp = wire.stamp_of(self._now)

        def feedback(told: Any) -> None:
            if number == self._number:
                self._waypoint = int(told.feedback.waypoint)

        def accepted(answer: Future) -> None:
            handle = answer.result()
            if handle is None or not handle.accepted:
                return
            if number != self._number and not self._is_replaced(number):
                handle.cancel_goal_async()
            elif number == self._number:
                self._path = handle
            handle.get_result_async().add_done_callback(lambda result: self._ended(number, result))

        self._follow.send_goal_async(goal, feedback_callback=feedback).add_done_callback(accepted)

    def _is_replaced(self, number: int) -> bool:
        """Return whether a newer path was sent after this one, so that it need not be cancelled."""
        navigation = self._navigation
        return navigation is not None and navigation.following and number < self._number

    def _ended(self, number: int, answer: Future) -> None:
        """Take note of how a path ended."""
        kind, goal, navigation = FollowPath.Result, self._goal, self._navigation
        result = answer.result().result
        if number != self._number:
            if goal is not None and goal.cancelled:
                self._path = None
                self._end_cancelled(goal)
            return
        self._path = None
        if goal is None or navigation is None:
            return
        if result.outcome in {kind.CANCELLED, kind.REPLACED}:
            navigation.ended(arrived=False)
            self._finish(goal, Fault.UNKNOWN, f"somebody else drives the robot: {result.message}")
            navigation.stop()
            return
        navigation.ended(arrived=result.outcome == kind.SUCCEEDED)
        self._decide()

    def close(self) -> None:
        """End the goal and take the action away."""
        if self._goal is not None:
            self._give_up(Fault.UNKNOWN, "the navigator ends")
        self._rest()
        self._server.close()
        self._follow.destroy()


def _waypoint(pose: tuple[float, float, float], velocity: tuple[float, float, float]) -> Waypoint:
    (x, y, yaw), (vx, vy, omega) = pose, velocity
    return Waypoint(x=x, y=y, yaw=yaw, vx=vx, vy=vy, omega=omega)


def _duration(seconds: float) -> Duration:
    whole, rest = divmod(max(round(seconds * 1e9), 0), 1_000_000_000)
    return Duration(sec=int(min(whole, 2**31 - 1)), nanosec=int(rest))


class Navigators:
    """Those of several robots, in one node."""

    def __init__(self, node: Node, options: dict[str, Any]) -> None:
        """Offer them.

        Raises:
            RobotError: a name is none.
        """
        for robot in options["robots"]:
            check_name(robot)
        frames, maps = Frames(node), Maps(node)
        self.robots = [Navigator(node, robot, frames, maps, options) for robot in options["robots"]]

    def watch(self) -> None:
        """Look after all of them."""
        for robot in self.robots:
            robot.watch()

    def close(self) -> None:
        """End all goals."""
        for robot in self.robots:
            robot.close()


def spin(spinner: Spinner, watch: Callable[[], None]) -> None:
    """Do what comes until the process shall end, and look after the robots now and then."""
    watched = -math.inf
    while not spinner.stopping:
        spinner.once(WATCH / 5)
        now = time.monotonic()
        if now - watched > WATCH:
            watched = now
            watch()


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> None:
    """Navigate until the process shall end."""
    # The first goal need not wait until all is compiled.
    warm_up()
    made = Navigators(node, options)
    node.get_logger().info(f"goals for {', '.join(options['robots'])}: goal_pose, navigate_to_pose")
    try:
        spin(spinner, made.watch)
    finally:
        made.close()


def main() -> int:
    """Run the node."""
    return run("navigator", __doc__, OPTIONS, start)


if __name__ == "__main__":
    sys.exit(main())
