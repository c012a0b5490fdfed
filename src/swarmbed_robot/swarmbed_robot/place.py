"""Publishes a robot's pose estimate: odometry, filtered pose, frames, and the path that it follows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.drift import Drift
from swarmbed_core.geometry import compose, invert

from swarmbed_robot.description import joints_of, model_of
from swarmbed_robot.eyes import transform_of
from swarmbed_robot.templates import OdometryTemplate, Template, path_bytes, transforms
from swarmbed_robot.topics import BODY
from tf2_msgs.msg import TFMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray

    from swarmbed_robot.api import RobotApi
    from swarmbed_robot.description import Joint

ROOT = "odom"


class PoseTopics:
    """The topics of one robot's pose.

    Attributes:
        fixed_frames: the transforms that never change.
        slide: parent and child frame of the lifting platform; None without one.
    """

    def __init__(self, api: RobotApi) -> None:
        self._api = api
        self._onboard = onboard = api.onboard
        name, base = api.name, f"{api.name}_{BODY}"
        self._odom = api.output("odom")
        self._odom_bytes = OdometryTemplate(ROOT, base, covariance=True, twist_covariance=True)
        self._drift = Drift(onboard.device.spec)
        # Compile or load the kernel now, so that it does not delay the robot's loop.
        none = [0.0, 0.0, 0.0]
        self._odom_bytes.fill(none, none, self._drift.covariance, onboard.filter.covariance, first=3)
        self._filtered = api.output("odometry/filtered")
        self._filtered_bytes = OdometryTemplate("map", base, covariance=True, twist_covariance=True)
        self._tf = api.output("tf")
        self._tf_bytes: Template | None = None
        self._tf_localised = False
        self._path = api.output("path")
        self._path_shown = 0
        self._lifter = onboard.device.spec.lifter
        self._slide: Joint | None = None
        self.slide: tuple[str, str] | None = None
        self.fixed_frames = []
        for joint in joints_of(model_of(onboard.device.spec)):
            parent, child = f"{name}_{joint.parent}", f"{name}_{joint.child}"
            if any(joint.axis):
                self._slide, self.slide = joint, (parent, child)
            else:
                self.fixed_frames.append(transform_of(parent, child, joint.translation, joint.rotation))
        static = api.output("tf_static")
        static.send(TFMessage(transforms=self.fixed_frames))

    def publish(self, now: float) -> None:
        """Publish odometry, filtered pose and frames, as far as they are due."""
        onboard = self._onboard
        odometry, localiser = onboard.filter.odometry, onboard.filter
        if self._drift.due(now):
            self._drift.update(now, odometry.pose)
        odom, filtered, tf = self._odom.due(now), self._filtered.due(now), self._tf.due(now)
        if not (odom or filtered or tf):
            return
        numbers = odometry.numbers()
        pose, twist = numbers[:3], numbers[3:]
        localised = localiser.localised
        # While the filter has only used wheels and gyro, its estimate equals the odometry.
        alike = filtered and not localised
        covariance = localiser.covariance if odom or filtered else None
        if odom or alike:
            said = self._bytes_of(self._odom_bytes, pose, twist, self._drift.covariance, covariance)
            if odom:
                self._odom.send(said)
            if alike:
                self._filtered.send(said)
        if filtered and localised:
            believed = localiser.pose.tolist()
            self._filtered.send(self._bytes_of(self._filtered_bytes, believed, twist, covariance, covariance))
        if tf:
            self._publish_frames(pose)

    def _bytes_of(
        self,
        made: OdometryTemplate,
        pose: Sequence[float],
        twist: Sequence[float],
        covariance: FloatArray | None,
        whole: FloatArray | None,
    ) -> bytes:
        """Return a serialised odometry message.

        `covariance` is that of the pose; `whole` is the filter's, which has the twist's from row 3 on.
        """
        made.fill(pose, twist, covariance, whole, first=3)
        made.template.stamp(*self._api.clock.now)
        return bytes(made.template.data)

    def _publish_frames(self, pose_odom: Sequence[float]) -> None:
        """Publish the robot's own tree; `map` is its root while the robot is localised by markers."""
        onboard = self._onboard
        localised = onboard.marker_map is not None and onboard.filter.localised
        if self._tf_bytes is None or localised != self._tf_localised:
            self._tf_localised = localised
            moving = [(ROOT, f"{self._api.name}_{BODY}")]
            moving += [self.slide] if self.slide is not None else []
            moving += [("map", ROOT)] if localised else []
            self._tf_bytes = Template(transforms(moving, flat=False))
            self._tf_values = np.zeros((len(moving), 7))
            self._tf_values[:, 6] = 1.0
        values = self._tf_values
        flat_pose(values[0], pose_odom)
        if self.slide is not None:
            self.place_platform(values[1])
        if localised:
            flat_pose(values[-1], compose(onboard.filter.pose, invert(pose_odom)).tolist())
        self._tf_bytes.fill(values)
        self._tf_bytes.stamp(*self._api.clock.now)
        self._tf.send(bytes(self._tf_bytes.data))

    def place_platform(self, row: FloatArray) -> None:
        """Write the transform of the lifting platform to a row: translation and quaternion."""
        joint = self._slide
        if joint is None:
            return
        (x, y, z), (ax, ay, az) = joint.translation, joint.axis
        lifter, height = self._lifter, self._onboard.lifter_height
        up = 0.0 if height is None or lifter is None else height - lifter.lowered
        row[:3] = x + ax * up, y + ay * up, z + az * up
        row[3:] = joint.rotation

    def show_path(self) -> None:
        """Publish a new path that the robot follows, once the topic has subscribers."""
        motion = self._onboard.motion
        if motion.paths == self._path_shown or motion.path is None or not self._path.wanted:
            return
        self._path_shown = motion.paths
        # With the robot's prefix, for rviz, where all robots are in one tree.
        frame, poses = f"{self._api.name}_{ROOT}", np.array([point.pose for point in motion.path.waypoints])
        self._path.send(path_bytes(frame, self._api.clock.now, poses))


def flat_pose(row: FloatArray, pose: Sequence[float]) -> None:
    """Write a pose x, y, yaw to a row of translation and quaternion; other elements are unchanged."""
    row[0], row[1] = pose[0], pose[1]
    row[5], row[6] = math.sin(pose[2] / 2), math.cos(pose[2] / 2)
