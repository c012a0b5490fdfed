"""Publishes the markers that a robot's cameras detect, as tags and as frames.

As in ArUco, a marker's frame has z pointing out of the marker and y pointing up in it.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from geometry_msgs.msg import Point, TransformStamped
from swarmbed_core.camera import cameras_of
from swarmbed_core.device import WatchedCameras
from swarmbed_core.geometry import between
from swarmbed_core.health import Health
from swarmbed_core.markers import CarrierPoseSolver, alignment
from swarmbed_core.tag_pose import tag_pose

from dots_interfaces.msg import Tag, TagArray
from swarmbed_robot import wire
from swarmbed_robot.description import joints_of, model_of, quaternion
from swarmbed_robot.options import Option
from tf2_msgs.msg import TFMessage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from builtin_interfaces.msg import Time
    from swarmbed_core.camera import CameraCalibration
    from swarmbed_core.device import CornerReading
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import CarrierMarkers, MarkerMap
    from swarmbed_core.spec import RobotSpec

    from swarmbed_robot.api import Output, RobotApi

UNDERSIDE = 200
"""Tag id that stands for the whole marker map under a carrier."""
NO_TAGS = bytes((0, 1, 0, 0, 0, 0, 0, 0))
"""An empty TagArray, serialised."""
MOST_PENDING = 100
"""Maximum number of images with unpublished tags: more than arrive in one cycle, or before the first."""
WALLS_RATE = 10.0
"""Rate of wall markers' frames, in Hz: poses from four corners are costly, and walls do not move."""
TAG_STAMP = Option(
    "tag_stamp",
    "arrival",
    "stamp of tags' frames: arrival (detection, as on the real robots) or exposure (of the image)",
    choices=("arrival", "exposure"),
)


class Eyes:
    """Publishes the detections of one robot's cameras."""

    def __init__(self, api: RobotApi, walls: MarkerMap | None, tag_stamp: str) -> None:
        """Prepare the detection; it starts with the first subscriber.

        Args:
            api: the robot's API.
            walls: markers on the walls, if neither the robot nor its cameras know them.
            tag_stamp: see `TAG_STAMP`.
        """
        onboard, spec = api.onboard, api.onboard.device.spec
        self._api = api
        self._when_found = tag_stamp == "arrival"
        self._frames_to: list[Output] = []
        self._next = {camera.name: 0.0 for camera in spec.cameras}
        self._next_frames: dict[str, float] = {}
        self._next_walls: dict[str, float] = {}
        self._outputs = {camera.name: api.outputs[f"{camera.name}_tags"] for camera in spec.cameras}
        self._came: deque[CornerReading] = deque(maxlen=MOST_PENDING)
        self._watching = False
        cameras = onboard.device.cameras
        self._cameras = cameras if isinstance(cameras, WatchedCameras) else None
        if onboard.marker_map is not None:
            walls = onboard.marker_map
        elif self._cameras is not None:
            walls = self._cameras.walls()
        calibrations = onboard.device.calibrations
        # The Health is discarded: the robot itself already counts faulty markers in the same images.
        self._sights = Sights(api.name, spec, calibrations, onboard.carrier_markers, walls, Health())

    def watch(self) -> None:
        """Start or stop the detection, depending on whether its topics have subscribers."""
        self._frames_to = [output for output in (self._api.outputs["tf"], self._api.global_tf) if output]
        wanted = any(output.wanted for output in (*self._frames_to, *self._outputs.values()))
        if wanted != self._watching:
            self._watch(wanted=wanted)

    def _watch(self, *, wanted: bool) -> None:
        """Start or stop the detection."""
        self._watching = wanted
        if self._cameras is not None:
            self._cameras.watch(wanted)
        else:
            lookers = self._api.onboard.on_image
            if wanted:
                lookers.append(self._came.append)
            elif self._came.append in lookers:
                lookers.remove(self._came.append)

    def leave(self) -> None:
        """Stop the detection."""
        self._watch(wanted=False)

    def _look(self, reading: CornerReading, now: float) -> None:
        """Publish the content of one image: frames first, because subscribers of a tag look up its frame."""
        api, output = self._api, self._outputs.get(reading.camera)
        if output is None:
            return
        localiser, lifter = api.onboard.filter, api.onboard.lifter
        pose = localiser.pose if localiser.localised else None
        height = None if lifter is None else lifter.set_point
        listeners = self._listeners(reading.camera, now)
        walls = bool(listeners) and now >= self._next_walls.get(reading.camera, 0.0) - 1e-9
        if walls:
            self._next_walls[reading.camera] = now + 1.0 / WALLS_RATE
        tags, frames = self._sights.seen(
            reading, height, pose, alone=True, tagged=output.wanted, framed=bool(listeners), walls=walls
        )
        if frames:
            time = now if self._when_found else reading.stamp
            told = stamped_frames(frames, wire.stamp_of(api.epoch + time))
            for listener in listeners:
                listener.send(told)
        if output.wanted:
            # The latency of images varies: do not report an image as empty because it is a little late.
            self._next[reading.camera] = now + 2.0 / output.rate
            output.send(TagArray(data=tags))

    def _listeners(self, camera: str, now: float) -> list[Output]:
        """Return the outputs for the frames of one image; `/tf` alone gets them at its own rate at most."""
        listeners = [output for output in self._frames_to if output.wanted]
        if listeners and listeners[0] is self._api.global_tf:
            if now < self._next_frames.get(camera, 0.0) - 1e-9:
                return []
            self._next_frames[camera] = now + 1.0 / listeners[0].rate
        return listeners

    def cycle(self, now: float) -> None:
        """Publish the detections; for cameras that see nothing, publish empty arrays at the camera's rate."""
        if self._cameras is not None and self._watching:
            self._came.extend(self._cameras.sights())
        while self._came:
            self._look(self._came.popleft(), now)
        for camera, output in self._outputs.items():
            if output.wanted and now >= self._next[camera] - 1e-9:
                self._next[camera] = max(self._next[camera], now - 1.0 / output.rate) + 1.0 / output.rate
                output.send(NO_TAGS)


class Sights:
    """Turns markers in images into tags and into frames below those of the cameras."""

    def __init__(
        self,
        robot: str,
        spec: RobotSpec,
        calibrations: Mapping[str, CameraCalibration],
        carriers: CarrierMarkers | None,
        walls: MarkerMap | None,
        health: Health,
    ) -> None:
        """Prepare the frames of a robot's cameras.

        Args:
            robot: name of the robot, the prefix of its frames.
            spec: the robot's kind, with its cameras.
            calibrations: calibrations, by camera; a camera without one is ideal.
            carriers: markers on carriers; None: they get no frames.
            walls: markers on walls; None: they get no frames.
            health: counts inconsistent markers.
        """
        self._robot = robot
        self._health = health
        self._lifter = spec.lifter
        self._lifted = {camera.name for camera in spec.cameras if camera.on_lifter}
        self._models = cameras_of(spec, calibrations)
        self._solver = None
        if spec.carrier is not None and carriers is not None:
            self._solver = CarrierPoseSolver(carriers, spec, self._models, health)
        joints = {joint.child: joint for joint in joints_of(model_of(spec))}
        self._cameras = {}
        for camera in spec.cameras:
            joint = joints[f"{camera.name}_link"]
            place, turn = np.array(joint.translation), _matrix(joint.rotation)
            if camera.on_lifter:
                place = place + np.array(joints[joint.parent].translation)
            self._cameras[camera.name] = (place, turn)
        self._walls = {} if walls is None else {marker.id: marker for marker in walls.markers}

    def seen(
        self,
        reading: CornerReading,
        height: float | None,
        pose: FloatArray | None,
        *,
        alone: bool = False,
        tagged: bool = True,
        framed: bool = True,
        walls: bool = True,
    ) -> tuple[list[Tag], list[TransformStamped]]:
        """Return the tags and the frames of one image.

        Args:
            reading: the markers in the image.
            height: height of the lifting platform, in metres; None if unknown.
            pose: the robot's pose in `map`, from which wall markers are placed; None if unknown.
            alone: without a pose, place each wall marker by its four corners.
            tagged: whether to return tags.
            framed: whether to return frames.
            walls: whether to return frames of wall markers.
        """
        ids, corners = reading.ids.tolist(), reading.corners
        if reading.camera in self._lifted:
            return self._seen_above(reading, height)
        tags = [_tag(number, corners[i]) for i, number in enumerate(ids)] if tagged else []
        heights = corners[:, :, 1]
        for i in np.flatnonzero(heights[:, :2].sum(axis=1) > heights[:, 2:].sum(axis=1)).tolist():
            problem = f"{reading.camera}: marker {ids[i]} is upside down"
            self._health.refuse("marker.upside_down", problem)
        twice = {number for number in ids if number in self._walls and ids.count(number) > 1}
        for number in sorted(twice):
            problem = f"{reading.camera}: wall marker {number} is in the image more than once"
            self._health.refuse("marker.twice", problem)
        frames: list[TransformStamped] = []
        if not framed:
            return tags, frames
        if self._solver is not None:
            rise = self._solver.clearance + self._solver.markers.sides.rise
            for sight in self._solver.side(reading):
                x, y, yaw = sight.pose_body.tolist()
                frames.append(self._frame(reading.camera, sight.id, (x, y, rise), _facing(yaw), height))
        for i, number in enumerate(ids if walls else ()):
            wall = self._walls.get(number)
            if wall is None or number in twice:
                continue
            if pose is not None:
                place, yaw = wall.position, wall.yaw
                x, y, turned = between(pose, (place[0], place[1], yaw)).tolist()
                frames.append(self._frame(reading.camera, number, (x, y, place[2]), _facing(turned), height))
            elif alone:
                found = tag_pose(self._models[reading.camera], corners[i], wall.size)
                if found is not None:
                    frames.append(self._below(reading.camera, number, found.position, found.axes))
        return tags, frames

    def _seen_above(
        self, reading: CornerReading, height: float | None
    ) -> tuple[list[Tag], list[TransformStamped]]:
        """Return the marker map under a carrier as one tag, a box around all its codes, and its frame."""
        solver = self._solver
        if solver is None or height is None or not len(reading.ids):
            return [], []
        sight = solver.underside(reading, height)
        if sight is None:
            return [], []
        low, high = reading.corners.reshape(-1, 2).min(axis=0), reading.corners.reshape(-1, 2).max(axis=0)
        around = np.array([low, (high[0], low[1]), high, (low[0], high[1])])
        x, y, yaw = sight.pose_body.tolist()
        c, s = math.cos(yaw), math.sin(yaw)
        down = np.array([[c, s, 0.0], [s, -c, 0.0], [0.0, 0.0, -1.0]])
        place = (x, y, max(solver.clearance, height))
        return [_tag(UNDERSIDE, around)], [self._frame(reading.camera, UNDERSIDE, place, down, height)]

    def _frame(
        self, camera: str, number: int, place: Sequence[float], turn: FloatArray, height: float | None
    ) -> TransformStamped:
        """Return a marker's frame below a camera's, from its place and axes in the robot's frame."""
        origin, axes = self._cameras[camera]
        if camera in self._lifted and self._lifter is not None and height is not None:
            origin = origin + np.array((0.0, 0.0, height - self._lifter.lowered))
        return self._below(camera, number, axes.T @ (np.array(place) - origin), axes.T @ turn)

    def _below(self, camera: str, number: int, place: FloatArray, turn: FloatArray) -> TransformStamped:
        """Return a marker's frame, from its place and axes in the camera's frame."""
        parent, child = f"{self._robot}_{camera}_link", f"{self._robot}_{camera}_fid{number:03d}"
        return transform_of(parent, child, place.tolist(), _quaternion_of(turn))


def stamped_frames(frames: list[TransformStamped], stamp: Time) -> TFMessage:
    """Return a message with the frames, all with the same stamp."""
    for frame in frames:
        frame.header.stamp = stamp
    return TFMessage(transforms=frames)


def _tag(number: int, quad: FloatArray) -> Tag:
    return Tag(
        id=int(number),
        alignment=float(alignment(quad)),
        points=[Point(x=float(u), y=float(v)) for u, v in quad],
    )


def _facing(yaw: float) -> FloatArray:
    """Return the axes of an upright marker that faces the direction `yaw`."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[-s, 0.0, c], [c, 0.0, s], [0.0, 1.0, 0.0]])


def _matrix(rotation: Sequence[float]) -> FloatArray:
    x, y, z, w = rotation
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def _quaternion_of(matrix: FloatArray) -> tuple[float, float, float, float]:
    """Return a rotation matrix as a quaternion x, y, z, w."""
    m = matrix
    pitch = math.asin(min(max(-float(m[2, 0]), -1.0), 1.0))
    if abs(float(m[2, 0])) < 1.0 - 1e-9:
        return quaternion(math.atan2(m[2, 1], m[2, 2]), pitch, math.atan2(m[1, 0], m[0, 0]))
    return quaternion(math.atan2(-m[1, 2], m[1, 1]), pitch, 0.0)


def transform_of(
    parent: str, child: str, translation: Sequence[float], rotation: Sequence[float]
) -> TransformStamped:
    """Return the transform of a child frame in its parent.

    Args:
        parent: name of the parent frame.
        child: name of the child frame.
        translation: x, y, z, in metres.
        rotation: quaternion x, y, z, w.
    """
    made = TransformStamped(child_frame_id=child)
    made.header.frame_id = parent
    t, q = made.transform.translation, made.transform.rotation
    t.x, t.y, t.z = (float(value) for value in translation)
    q.x, q.y, q.z, q.w = (float(value) for value in rotation)
    return made
