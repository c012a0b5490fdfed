"""Drives robots to poses and avoids obstacles: serves each robot's `navigate_to_pose` and `goal_pose`.

It needs only a robot's own topics (`odom`, `collision_map`, `info`, `tf`) and its action `follow_path`, so it
works for real robots as well as for those of a world. It plans over `/map` if that is available. It
subscribes when a goal arrives, and unsubscribes some time after the last one. The planning is in
`swarmbed_core.navigation`, the conversion of messages in `navigator_messages`.

rviz2 sends goals with its tool "2D Goal Pose" (topic /<robot>/goal_pose) or its Nav2 panel (the action).
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.action import ActionClient
from rclpy.callback_groups import ReentrantCallbackGroup
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.geometry import compose, invert
from swarmbed_core.navigation import Fault, Navigation, NavigationParams, Status, warm_up

from swarmbed_interfaces.action import FollowPath
from swarmbed_interfaces.msg import RobotInfo
from swarmbed_robot import qos, wire
from swarmbed_robot.action_server import ActionServer
from swarmbed_robot.navigator_messages import (
    GoalError,
    NavigateToPose,
    Request,
    feedback_of,
    odom_poses,
    path_goal_of,
    plan_of,
    pose_of,
    request_of,
    result_of,
    seconds_of,
    seen_in,
)
from swarmbed_robot.nodes import Spinner, check_name, run
from swarmbed_robot.options import Option
from tf2_msgs.msg import TFMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.action.client import ClientGoalHandle
    from rclpy.node import Node
    from rclpy.subscription import Subscription
    from rclpy.task import Future
    from swarmbed_core.floor_plan import FloorPlan
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.navigation import Order
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.trajectory import Path

    from swarmbed_robot.action_server import Goal

_USUAL = NavigationParams()
OPTIONS = (
    Option("robots", ["dots1"], "names of the robots to drive"),
    Option("speed", _USUAL.speed, "speed of the robots, m/s, within their own limits", 0.01, 10.0),
    Option(
        "margin", _USUAL.margin, "minimum distance that a robot keeps from obstacles, in metres", 0.0, 1.0
    ),
    Option("radius", 0.0, "radius of a robot's bounding circle, in metres; 0: its body's", 0.0, 10.0),
    Option("memory", _USUAL.memory, "seconds for which detected obstacles are remembered", 0.1, 600.0),
    Option(
        "recoveries", _USUAL.recoveries, "recoveries in a row before giving up on a blocked path", 0, 1000
    ),
)
PERIOD = 0.2
"""Seconds of the robot's clock between decisions."""
HISTORY = 64
"""Number of latest poses kept, to find the one at the time of a collision map, which arrives later."""
READY = 10.0
"""Wall-clock seconds after a goal's arrival in which the robot has to become ready."""
MAP_READY = 2.0
"""Wall-clock seconds to wait for a map that has a publisher."""
SILENT = 3.0
"""Wall-clock seconds without odometry after which to check whether the robot is gone."""
LINGER = 10.0
"""Wall-clock seconds after the last goal until the topics are unsubscribed."""
WATCH = 0.5
"""Wall-clock seconds between calls of `watch`."""


class Frames:
    """The poses of the robots' `odom` frames in `map`, from `/tf` and `/<robot>/tf`.

    Attributes:
        odom_map: latest pose x, y, yaw of each robot's `odom` in `map`.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._users: dict[str, Subscription] = {}
        self._shared: Subscription | None = None
        self.odom_map: dict[str, FloatArray] = {}

    def use(self, robot: str) -> None:
        """Subscribe for a robot."""
        if robot in self._users:
            return
        if self._shared is None:
            self._shared = self._node.create_subscription(TFMessage, "/tf", self._hear, qos.TF, raw=True)

        def hear_own(data: bytes) -> None:
            self._take(data, {b"odom": robot})

        topic = f"/{robot}/tf"
        self._users[robot] = self._node.create_subscription(TFMessage, topic, hear_own, qos.TF, raw=True)

    def drop(self, robot: str) -> None:
        """Unsubscribe for a robot."""
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
        self.odom_map.update(odom_poses(data, wanted))


class Maps:
    """The newest `/map`.

    Attributes:
        plan: the map as a floor plan; None without a usable one.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._users: set[str] = set()
        self._listening: Subscription | None = None
        self.plan: FloorPlan | None = None

    def use(self, robot: str) -> None:
        """Subscribe for a robot."""
        self._users.add(robot)
        if self._listening is None:
            self._listening = self._node.create_subscription(OccupancyGrid, "/map", self._hear, qos.LATCHED)

    def drop(self, robot: str) -> None:
        """Unsubscribe for a robot."""
        self._users.discard(robot)
        if not self._users and self._listening is not None:
            self._node.destroy_subscription(self._listening)
            self._listening = self.plan = None

    @property
    def awaited(self) -> bool:
        """Return whether a map is published but has not been received yet."""
        return self.plan is None and self._node.count_publishers("/map") > 0

    def _hear(self, grid: OccupancyGrid) -> None:
        plan = plan_of(grid)
        if plan is None:
            self._node.get_logger().warning("/map is ignored: expected a valid, unrotated map in frame map")
        self.plan = plan


@dataclass
class _Goal:
    """An active goal; a goal from the topic has no handle."""

    request: Request
    since: float
    handle: Goal | None = None
    begun: float | None = None
    cancelled: bool = False


class Navigator:
    """One robot's `navigate_to_pose` and `goal_pose`.

    Attributes:
        name: name of the robot.
    """

    def __init__(self, node: Node, robot: str, frames: Frames, maps: Maps, options: dict[str, Any]) -> None:
        """Create the action and the topic.

        Args:
            node: node of the topics.
            robot: name of the robot.
            frames: poses of the robots' odom frames in map.
            maps: map of the floor.
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
        """Return whether the robot has a goal."""
        return self._goal is not None

    # Goals

    def accepted(self, goal: Goal) -> None:
        """Start a goal of the action; an invalid one is aborted, with the reason in its result."""
        self._take(goal.request.pose, _Goal(Request((0.0, 0.0, 0.0), "map"), time.monotonic(), goal))

    def cancel(self, goal: Goal) -> bool:
        """Return whether a goal may be cancelled; it ends once the robot has come to rest."""
        mine = self._goal
        if mine is None or mine.handle is not goal:
            return False
        mine.cancelled = True
        return True

    def _on_goal_pose(self, sent: PoseStamped) -> None:
        self._take(sent, _Goal(Request((0.0, 0.0, 0.0), "map"), time.monotonic()))

    def _take(self, sent: PoseStamped, goal: _Goal) -> None:
        """Start a goal in place of the active one; an invalid goal leaves the active one unchanged."""
        try:
            goal.request = request_of(sent, self.name)
        except GoalError as error:
            self._finish(goal, error.fault, str(error))
            return
        before, self._goal = self._goal, goal
        if before is not None:
            self._finish(before, Fault.UNKNOWN, "replaced by another goal")
        self._listen()

    def _finish(self, goal: _Goal, fault: Fault, explanation: str) -> None:
        """End a goal, log it and send its result; an empty explanation means success."""
        log = self._node.get_logger()
        if goal.cancelled:
            log.info(f"{self.name}: cancelled")
        elif explanation:
            log.warning(f"{self.name}: {explanation}")
        elif goal.handle is None:
            log.info(f"{self.name}: goal reached")
        if goal is self._goal:
            self._goal = None
            self._freed_at = time.monotonic()
        if goal.handle is None:
            return
        result = result_of(fault, explanation)
        if not explanation:
            goal.handle.succeed(result)
        elif goal.handle.is_cancel_requested:
            goal.handle.canceled(result)
        else:
            goal.handle.abort(result)

    # Messages of the robot

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
        """Subscribe to the topics needed for a goal."""
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
        """Unsubscribe from the topics."""
        for subscription in self._heard:
            self._node.destroy_subscription(subscription)
        self._heard.clear()
        self._frames.drop(self.name)
        self._maps.drop(self.name)
        self._poses.clear()

    def _on_odom(self, sent: Odometry) -> None:
        pose = pose_of(sent)
        if pose is None:
            return
        self._now = seconds_of(sent)
        self._heard_at = time.monotonic()
        if self._poses and self._now < self._poses[-1][0]:
            self._poses.clear()
            self._decided = -math.inf
        self._poses.append((self._now, pose))
        # Collision maps trigger decisions; without them, odometry does at a lower rate.
        if self._now - self._decided >= 2 * PERIOD:
            self._decide()

    def _on_collision_map(self, sent: OccupancyGrid) -> None:
        navigation, stamp = self._navigation, seconds_of(sent)
        if navigation is None or not self._poses:
            return
        _, pose = min(self._poses, key=lambda known: abs(known[0] - stamp))
        navigation.see(stamp, seen_in(sent, pose, self._params.threshold))
        self._decide()

    # Execution

    def watch(self) -> None:
        """Check that the robot is still there; some time after the last goal, unsubscribe from its topics."""
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
            self._give_up(Fault.UNKNOWN, f"the robot {self.name} is gone: /{self.name}/odom has no publisher")

    def _what_is_missing(self, goal: _Goal) -> tuple[Fault, str]:
        """Return the fault and the reason why a goal could not be started."""
        if self._navigation is None:
            return Fault.UNKNOWN, f"no message on /{self.name}/info for {READY:g} s: check the robot's name"
        if not self._follow.server_is_ready():
            return Fault.UNKNOWN, f"no server for the action /{self.name}/follow_path: check the robot's node"
        if not self._poses:
            return Fault.UNKNOWN, f"no message on /{self.name}/odom for {READY:g} s: resume a paused world"
        if goal.request.frame == "map" and self.name not in self._frames.odom_map:
            message = f"no transform from map to {self.name}_odom: the robot is not localised"
            return Fault.TF_ERROR, f"{message}; send the goal in odom or base_link"
        return Fault.UNKNOWN, "the robot was not ready"

    def _give_up(self, fault: Fault, explanation: str) -> None:
        goal, navigation = self._goal, self._navigation
        if navigation is not None:
            self._obey(navigation.stop())
        if goal is not None:
            self._finish(goal, fault, explanation)

    def _decide(self) -> None:
        """Start the goal if possible, then let the navigation take its next step."""
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
        """Brake, and end a cancelled goal once the robot has come to rest."""
        if self._navigation is not None:
            self._obey(self._navigation.stop())
        if self._path is None:
            self._finish(goal, Fault.NONE, "cancelled")

    def _begin(
        self, goal: _Goal, navigation: Navigation, pose: FloatArray, map_odom: FloatArray | None
    ) -> bool:
        """Start a goal if everything that it needs is known; return whether it was started."""
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
        """Publish the feedback."""
        if goal.handle is None or goal.begun is None:
            return
        goal.handle.publish_feedback(
            feedback_of(navigation, self.name, pose, odom_map, self._now, goal.begun)
        )

    # The path

    def _obey(self, order: Order) -> None:
        if order.path is not None:
            self._send(order.path)
        elif order.brake:
            # A path whose acceptance is still pending is cancelled too, once it has been accepted.
            if self._path is not None:
                self._path.cancel_goal_async()
            self._number += 1

    def _send(self, path: Path) -> None:
        """Send a path to the robot."""
        self._number += 1
        number = self._number
        self._waypoint = 0
        goal = path_goal_of(path, self._now)

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
        """Return whether a newer path has replaced this one, so that it need not be cancelled."""
        navigation = self._navigation
        return navigation is not None and navigation.following and number < self._number

    def _ended(self, number: int, answer: Future) -> None:
        """Process the result of a path."""
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
            self._finish(goal, Fault.UNKNOWN, f"another input drives the robot: {result.message}")
            navigation.stop()
            return
        navigation.ended(arrived=result.outcome == kind.SUCCEEDED)
        self._decide()

    def close(self) -> None:
        """End the goal, and destroy the action and the subscriptions."""
        if self._goal is not None:
            self._give_up(Fault.UNKNOWN, "the navigator shuts down")
        self._rest()
        self._server.close()
        self._follow.destroy()


class Navigators:
    """The navigators of several robots, in one node.

    Attributes:
        robots: the navigators.
    """

    def __init__(self, node: Node, options: dict[str, Any]) -> None:
        """Create the navigators.

        Raises:
            RobotError: a robot's name is invalid.
        """
        for robot in options["robots"]:
            check_name(robot)
        frames, maps = Frames(node), Maps(node)
        self.robots = [Navigator(node, robot, frames, maps, options) for robot in options["robots"]]

    def watch(self) -> None:
        """Call `watch` of all robots."""
        for robot in self.robots:
            robot.watch()

    def close(self) -> None:
        """Close all navigators."""
        for robot in self.robots:
            robot.close()


def spin(spinner: Spinner, watch: Callable[[], None]) -> None:
    """Run callbacks until the process is asked to end, and call `watch` every `WATCH` seconds."""
    watched = -math.inf
    while not spinner.stopping:
        spinner.once(WATCH / 5)
        now = time.monotonic()
        if now - watched > WATCH:
            watched = now
            watch()


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> None:
    """Navigate until the process is asked to end."""
    # Compile first, so that the first goal does not have to wait.
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
