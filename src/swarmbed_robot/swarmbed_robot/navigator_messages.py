"""Conversions between ROS messages and `swarmbed_core.navigation`, for the navigator; they need no node.

In: goals, maps, collision maps, odometry and transforms. Out: the path to follow, feedback and results.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from builtin_interfaces.msg import Duration
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.floor_plan import FloorPlan
from swarmbed_core.geometry import compose
from swarmbed_core.navigation import Fault

from swarmbed_interfaces.action import FollowPath
from swarmbed_robot import wire
from swarmbed_robot.tf_relay import decode

try:
    from nav2_msgs.action import NavigateToPose
except ImportError:
    from swarmbed_interfaces.action import NavigateToPose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from geometry_msgs.msg import PoseStamped
    from nav_msgs.msg import OccupancyGrid, Odometry
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.navigation import Navigation
    from swarmbed_core.trajectory import Path

__all__ = [
    "GoalError",
    "NavigateToPose",  # from whichever package is installed
    "Request",
    "feedback_of",
    "odom_poses",
    "path_goal_of",
    "plan_of",
    "pose_of",
    "request_of",
    "result_of",
    "seconds_of",
    "seen_in",
]

_POSE = struct.Struct("<7d")


@dataclass(frozen=True, slots=True)
class Request:
    """A requested goal.

    Attributes:
        pose: x, y (m) and yaw (rad).
        frame: frame of the pose: map, odom or base_link.
    """

    pose: tuple[float, float, float]
    frame: str


class GoalError(SwarmbedError):
    """An invalid goal.

    Attributes:
        fault: kind of fault, for the result.
    """

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def request_of(sent: PoseStamped, robot: str) -> Request:
    """Return the goal in a message.

    Args:
        sent: the message; its frame may have the robot's prefix, and an empty frame stands for map.
        robot: name of the robot.

    Raises:
        GoalError: the goal is not finite, has no orientation, or is in an unknown frame.
    """
    p, q = sent.pose.position, sent.pose.orientation
    if not all(map(math.isfinite, (p.x, p.y, q.x, q.y, q.z, q.w))):
        numbers = f"({p.x:g}, {p.y:g}), orientation ({q.x:g}, {q.y:g}, {q.z:g}, {q.w:g})"
        raise GoalError(Fault.UNKNOWN, f"the goal is {numbers}: expected finite numbers")
    if math.hypot(q.x, q.y, q.z, q.w) < 1e-6:
        raise GoalError(Fault.UNKNOWN, "the goal's orientation is all zeros: set w to 1.0 for yaw 0")
    frame = sent.header.frame_id.lstrip("/").removeprefix(f"{robot}_") or "map"
    if frame not in {"map", "odom", "base_link"}:
        message = f"the goal is in frame '{sent.header.frame_id[:80]}': expected map, odom or base_link"
        raise GoalError(Fault.TF_ERROR, message)
    yaw = math.atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))
    return Request((p.x, p.y, yaw), frame)


def plan_of(grid: OccupancyGrid) -> FloorPlan | None:
    """Return a map as a floor plan; None if it is invalid, rotated, or not in frame map."""
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
    """Return the centres of the occupied cells of a robot's collision map, as rows of x, y in odom.

    Args:
        grid: the collision map, in base_link.
        pose_odom: the robot's pose at the time of the map.
        threshold: value of a cell, 0 to 1, from which it counts as occupied.
    """
    info = grid.info
    cells = np.array(grid.data, dtype=np.int8).reshape(info.height, info.width)
    rows, columns = np.nonzero(cells >= 100.0 * threshold)
    x = info.origin.position.x + (columns + 0.5) * info.resolution
    y = info.origin.position.y + (rows + 0.5) * info.resolution
    c, s = math.cos(pose_odom[2]), math.sin(pose_odom[2])
    return np.column_stack([pose_odom[0] + c * x - s * y, pose_odom[1] + s * x + c * y])


def pose_of(sent: Odometry) -> FloatArray | None:
    """Return the pose x, y, yaw in an odometry message; None if it is not finite."""
    p, q = sent.pose.pose.position, sent.pose.pose.orientation
    pose = np.array([p.x, p.y, 2.0 * math.atan2(q.z, q.w)])
    return pose if np.isfinite(pose).all() else None


def odom_poses(data: bytes, wanted: Mapping[bytes, str]) -> Iterator[tuple[str, FloatArray]]:
    """Yield the poses of robots' odom frames in map from a serialised TFMessage; nothing if it is malformed.

    Args:
        data: the message.
        wanted: names of the robots, by the names of their odom frames.

    Yields:
        The name of a robot, and the pose x, y, yaw of its odom frame in map.
    """
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
            yield robot, np.array([x, y, yaw])


def seconds_of(stamped: Any) -> float:
    """Return a message's stamp in seconds."""
    return float(stamped.header.stamp.sec) + 1e-9 * float(stamped.header.stamp.nanosec)


def path_goal_of(path: Path, now: float) -> FollowPath.Goal:
    """Return a path in odom as a goal of `follow_path`, stamped with a time in seconds."""
    goal = FollowPath.Goal(
        waypoints=[wire.waypoint_to_msg(point) for point in path.waypoints],
        max_speed=path.max_speed or 0.0,
        max_acceleration=path.max_acceleration or 0.0,
    )
    goal.header.frame_id = "odom"
    goal.header.stamp = wire.stamp_of(now)
    return goal


def feedback_of(
    navigation: Navigation,
    robot: str,
    pose: FloatArray,
    odom_map: FloatArray | None,
    now: float,
    begun: float,
) -> Any:
    """Return the feedback on a goal.

    Args:
        navigation: the robot's navigation.
        robot: name of the robot.
        pose: pose of the robot in odom.
        odom_map: pose of odom in map; None if it is unknown.
        now: present time of the robot's clock, in seconds.
        begun: time at which the navigation started.
    """
    made = NavigateToPose.Feedback()
    frame, place = (f"{robot}_odom", pose) if odom_map is None else ("map", compose(odom_map, pose))
    made.current_pose.header.frame_id = frame
    made.current_pose.header.stamp = wire.stamp_of(now)
    at = made.current_pose.pose
    at.position.x, at.position.y = float(place[0]), float(place[1])
    at.orientation.z, at.orientation.w = math.sin(place[2] / 2), math.cos(place[2] / 2)
    made.navigation_time = _duration(now - begun)
    left = navigation.distance_remaining
    if math.isfinite(left):
        made.distance_remaining = left
        made.estimated_time_remaining = _duration(left / navigation.speed)
    made.number_of_recoveries = navigation.recoveries
    return made


def result_of(fault: Fault, explanation: str) -> Any:
    """Return the result of a goal; the explanation is empty if it was reached."""
    result = NavigateToPose.Result()
    # The version of nav2_msgs decides which of these fields exist.
    for field, value in (("error_code", int(fault)), ("error_msg", explanation)):
        if hasattr(result, field):
            setattr(result, field, value)
    return result


def _duration(seconds: float) -> Duration:
    whole, rest = divmod(max(round(seconds * 1e9), 0), 1_000_000_000)
    return Duration(sec=int(min(whole, 2**31 - 1)), nanosec=int(rest))
