"""Recording of a run as recording.mcap, a file that Foxglove, `ros2 bag` and rosbags open.

Topics, types and frames are those of the robots on ROS 2, so that tools for live robots also show recordings.
Time is the world's and starts at 0.

| topic | type | content |
|---|---|---|
| `/tf` | tf2_msgs/TFMessage | `map` -> `<robot>_odom` -> `<robot>_base_link` |
| `/<robot>/odom` | nav_msgs/Odometry | dead reckoning |
| `/<robot>/odometry/filtered` | nav_msgs/Odometry | the EKF's estimate, of localised robots |
| `/<robot>/sensor/scan` | sensor_msgs/PointCloud2 | the returns of the distance sensors |
| `/<robot>/collision_map` | nav_msgs/OccupancyGrid | what the robot has recently seen around it |
| `/<robot>/tree` | std_msgs/String | JSON, on change: the robot's activity, and the nodes of its tree |
| `/scene` | visualization_msgs/MarkerArray | arena, obstacles, bodies; again when robots join or leave |
| `/carriers` | visualization_msgs/MarkerArray | the carriers, when they move |
| `/crowd` | geometry_msgs/PoseArray | the robots' poses; the only topic of a crowd's robots |
| `/<robot>/<camera>/image_tags/compressed` | sensor_msgs/CompressedImage | images with tags, on request |

`map` -> `<robot>_odom` is the robot's own estimate once it is localised. Until then it is chosen so that
`<robot>_base_link` is at the robot's true pose.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from mcap.writer import CompressionType, Writer
from py_trees.behaviour import Behaviour
from swarmbed_core.detector import Detector
from swarmbed_core.health import Health
from swarmbed_core.pictures import jpeg, with_tags
from swarmbed_core.scene import RobotPlacement
from swarmbed_core.watchdog import Pace
from swarmbed_robot.scenery import Carriers, scene_markers
from swarmbed_robot.templates import (
    OdometryTemplate,
    Template,
    message,
    packed_image,
    pose_slots,
    stamped,
    transforms,
    types,
)
from swarmbed_robot.topics import BODY, TOPICS, Owner, Quality, Sensed, encoders_of, topics_of

from swarmbed_behaviours import tree as trees
from swarmbed_experiments.errors import RunError, unwritable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from swarmbed_core.controller import Controller
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.robot import Senses
    from swarmbed_core.scene import Scene
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.world import TaskWorld
    from swarmbed_robot.topics import Topic

RATE = 10.0
TREE_RATE = 2.0
CROWD_RATE = 2.0
"""Recording rates in Hz: poses; trees; poses of a crowd. `swarmbed_robot.topics` has those of senses."""
MAP_CELL = 0.06
"""Cell size of recorded maps in metres: coarser than the robot's own, to keep recordings small."""
MARKERS = "visualization_msgs/msg/MarkerArray"
STALE = 0.5
"""Age in seconds from which a robot's senses are no longer recorded."""


class _Clock:
    """The time of the messages: the world's, from 0."""

    now = (0, 0)

    @staticmethod
    def at(seconds: float) -> tuple[int, int]:
        """Return a time in seconds and nanoseconds."""
        return divmod(max(round(seconds * 1e9), 0), 1_000_000_000)


class _Robot:
    """The channels and templates of one robot."""

    def __init__(self, recorder: Recorder, name: str, spec: RobotSpec) -> None:
        self.name = name
        self.spec = spec
        self._recorder = recorder
        robot = Owner(name, spec, MAP_CELL)
        self._declared = topics_of(robot)
        # Frames have the robot's prefix, because a recording has all robots in one tree.
        body = f"{name}_{BODY}"
        self._odom = OdometryTemplate(f"{name}_odom", body, covariance=False)
        self._filtered = OdometryTemplate("map", body, covariance=True)
        self._encoders = encoders_of(robot, recorded=True)
        self._doing: str | None = None
        self._nodes: list[trees.NodeStatus] = []

    def write(self, topic: str, what: Any) -> None:
        """Write a message to one of the robot's topics."""
        declared, _ = self._declared[topic]
        self._recorder.write(f"/{self.name}/{topic}", declared.kind, what, quality=declared.quality)

    def odometry(self, senses: Senses) -> None:
        """Record the robot's odometry, and the EKF's estimate if it is localised."""
        twist = senses.twist_body.tolist()
        self._odom.fill(senses.pose_odom.tolist(), twist, None)
        self.write("odom", self._odom.template)
        if senses.pose_map is not None and senses.pose_covariance is not None:
            self._filtered.fill(senses.pose_map.tolist(), twist, np.ascontiguousarray(senses.pose_covariance))
            self.write("odometry/filtered", self._filtered.template)

    def senses(self, senses: Senses, due: Collection[Topic]) -> None:
        """Record the topics that are due."""
        known = Sensed(senses)
        for name, (topic, encode) in self._encoders.items():
            if topic in due and (made := encode(known, self._recorder.clock)) is not None:
                self.write(name, made)

    def tree(self, controller: Controller, *, looking: bool) -> None:
        """Record the program's activity and tree on change. The tree is compared only if `looking`."""
        same = controller.doing == self._doing
        if same and not looking:
            return
        root = getattr(controller, "root", None)
        nodes = trees.snapshot(root) if isinstance(root, Behaviour) else []
        if same and nodes == self._nodes:
            return
        self._doing, self._nodes = controller.doing, nodes
        status: dict[str, Any] = {"doing": controller.doing}
        if nodes:
            status["tree"] = nodes
        sent = message("std_msgs/msg/String", data=json.dumps(status))
        self._recorder.write(f"/{self.name}/tree", "std_msgs/msg/String", sent)


class Watched:
    """The cameras of one robot whose images are recorded."""

    def __init__(self, robot: LocalRobot, cameras: Sequence[str]) -> None:
        """Start rendering the cameras' images.

        Raises:
            RunError: the robot does not have the camera.
            SimError: this machine cannot render images.
        """
        device = robot.onboard.device
        there = {camera.name: camera for camera in device.spec.cameras} if device.images else {}
        strangers = [name for name in cameras if name not in there]
        if strangers or device.images is None:
            known = ", ".join(there) or "none"
            message = f"images of {robot.name}/{strangers[0]}: no such camera; its cameras are {known}"
            raise RunError(message)
        self._name = robot.name
        self._declared = topics_of(Owner(robot.name, device.spec))
        self._watcher = device.images.watcher()
        self._detectors = {
            name: Detector(there[name].width, there[name].height, Health(), name) for name in cameras
        }
        self._watcher.watch(cameras)

    def record(self, recorder: Recorder) -> None:
        """Record the newest image of each camera."""
        newest = {reading.camera: reading for reading in self._watcher.read()}
        for camera, reading in newest.items():
            picture = with_tags(reading.image, self._detectors[camera].detect(reading.image))
            made = packed_image(f"{self._name}_{camera}_optical_frame", jpeg(picture))
            topic = f"{camera}/image_tags/compressed"
            declared, _ = self._declared[topic]
            recorder.write(f"/{self._name}/{topic}", declared.kind, made, reading.stamp, declared.quality)


def watch(images: Sequence[str], robots: Sequence[LocalRobot]) -> list[Watched]:
    """Start rendering the images of cameras such as `dots1/cam0`.

    Raises:
        RunError: the robot or camera does not exist.
        SimError: this machine cannot render images.
    """
    known = {robot.name: robot for robot in robots}
    found: dict[str, list[str]] = {}
    for asked in images:
        robot, _, camera = asked.partition("/")
        if robot not in known or not camera:
            right = f"write ROBOT/CAMERA, such as {min(known)}/cam0" if known else "there are no robots"
            message = f"images of {asked}: no such camera; {right}"
            raise RunError(message)
        found.setdefault(robot, []).append(camera)
    return [Watched(known[robot], cameras) for robot, cameras in found.items()]


class Recorder:
    """Writes a run's recording. Use it as a context manager, so that the file is always finished."""

    def __init__(
        self,
        file: Path,
        scene: Scene,
        world: TaskWorld,
        robots: Sequence[LocalRobot],
        images: Sequence[Watched] = (),
        specs: Mapping[str, RobotSpec] | None = None,
    ) -> None:
        """Start a recording.

        Args:
            file: to write, such as recording.mcap.
            scene: the initial state.
            world: source of the true poses.
            robots: all robots with an Onboard; empty for a crowd.
            images: cameras whose images are recorded too.
            specs: of all robots by name, also of those that join; by default the scene's.

        Raises:
            RunError: the file cannot be written.
        """
        self._images = images
        self.file = file
        self._world = world
        try:
            self._stream = file.open("wb")
            # `swarmbed mend` refuses files that are locked.
            with contextlib.suppress(OSError):
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise unwritable(file, error) from None
        self._writer: Writer | None = Writer(self._stream, compression=CompressionType.ZSTD)
        self._writer.start(profile="ros2", library="swarmbed")
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self.clock = _Clock()
        self._now = 0
        self._crowd = scene.crowd
        self._pace = Pace(CROWD_RATE if scene.crowd else RATE)
        self._tree_pace = Pace(TREE_RATE)
        self._paces = {topic: Pace(topic.recorded) for topic in TOPICS if topic.recorded}
        self._scene = scene
        self._specs = {item.name: item.spec for item in scene.robots} if specs is None else specs
        self._robots: dict[str, _Robot] = {}
        self._seen: Sequence[str] = ()
        self._meet(robots)
        self._carriers = Carriers(scene) if scene.carriers else None

    def __enter__(self) -> Self:
        """Return this recording."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the file."""
        self.close()

    def tick(self, time: float, robots: Sequence[LocalRobot], controllers: Sequence[Controller]) -> None:
        """Record the current state, as far as it is due.

        Args:
            time: of the world's clock.
            robots: those whose programs run. Their latest senses are recorded; nothing is sensed anew.
            controllers: their programs, in the same order.

        Raises:
            RunError: the file cannot be written any more.
        """
        if self._writer is None or not self._pace.due(time):
            return
        self._now = round(time * 1e9)
        self.clock.now = self.clock.at(time)
        truth = self._world.truth()
        if self._world.names is not self._seen:
            self._meet(robots)
        if self._crowd:
            self._record_crowd(truth)
        else:
            latest = {robot.name: _fresh(robot.latest, time) for robot in robots}
            self._record_frames(truth, latest)
            looking = self._tree_pace.due(time)
            topics = {topic for topic, pace in self._paces.items() if pace.due(time)}
            for robot, controller in zip(robots, controllers, strict=True):
                recorded, senses = self._robots[robot.name], latest[robot.name]
                if senses is not None:
                    recorded.odometry(senses)
                    if topics:
                        recorded.senses(senses, topics)
                recorded.tree(controller, looking=looking)
            for cameras in self._images:
                cameras.record(self)
        self._record_carriers()

    def _meet(self, robots: Sequence[LocalRobot]) -> None:
        """Prepare for the robots that are there now, and show them in the scene."""
        again = bool(self._seen)
        names = self._seen = self._world.names
        specs = dict(self._specs)
        for robot in robots:
            specs[robot.name] = robot.spec
            known = self._robots.get(robot.name)
            # Another kind of robot may have the name of one that left.
            if known is None or known.spec is not robot.spec:
                self._robots[robot.name] = _Robot(self, robot.name, robot.spec)
        count = len(names)
        self._poses = np.empty((count if self._crowd else 2 * count, 4))
        self._places = Template(crowd_poses(count) if self._crowd else _frames(names))
        # The poses do not matter: the markers follow the robots' frames.
        there = tuple(RobotPlacement(name, specs[name], (0.0, 0.0, 0.0)) for name in names)
        scene = replace(self._scene, robots=there) if again else self._scene
        self.write("/scene", MARKERS, scene_markers(scene, again=again), quality=Quality.LATCHED)

    def write(
        self,
        topic: str,
        kind: str,
        what: Any,
        time: float | None = None,
        quality: Quality = Quality.OUTPUT,
    ) -> None:
        """Write one message with the current time.

        Args:
            topic: its topic on ROS.
            kind: its type, such as `std_msgs/msg/String`.
            what: a message or a filled `Template`, which is stamped here, or its bytes.
            time: for the stamps in its headers, if other than the current time.
            quality: quality of service that `ros2 bag play` offers.

        Raises:
            RunError: the file cannot be written any more.
        """
        if self._writer is None:
            return
        if isinstance(what, bytes):
            data = what
        else:
            template = what if isinstance(what, Template) else Template(what)
            template.stamp(*(self.clock.now if time is None else self.clock.at(time)))
            data = bytes(template.data)
        try:
            channel = self._channels.get(topic) or self._new_channel(topic, kind, quality)
            count = self._counts[topic] = self._counts[topic] + 1
            self._writer.add_message(channel, self._now, data, self._now, count)
        except OSError as error:
            raise self._failed(error) from None

    def flush(self) -> None:
        """Write the data so far to disk, where `swarmbed mend` finds it if the process is killed.

        Raises:
            RunError: the file cannot be written any more.
        """
        if self._writer is None:
            return
        try:
            self._writer.flush()  # type: ignore[no-untyped-call]
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Finish the file. It can be read from then on.

        Raises:
            RunError: the rest of the file cannot be written.
        """
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        try:
            with self._stream:
                writer.finish()  # type: ignore[no-untyped-call]
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> RunError:
        """Stop writing the file; return the error to raise."""
        self._writer = None
        return unwritable(self.file, error)

    def _new_channel(self, topic: str, kind: str, quality: Quality) -> int:
        """Register a topic, with its type's definition and the QoS that `ros2 bag play` offers."""
        if self._writer is None:
            raise AssertionError
        schema = self._schemas.get(kind)
        if schema is None:
            text, _ = types().generate_msgdef(kind, ros_version=2)
            schema = self._writer.register_schema(kind, "ros2msg", text.encode())
            self._schemas[kind] = schema
        metadata = {
            "offered_qos_profiles": _qos(quality),
            "topic_type_hash": types().hash_rihs01(kind),
        }
        self._counts[topic] = 0
        channel = self._channels[topic] = self._writer.register_channel(topic, "cdr", schema, metadata)
        return channel

    def _record_frames(self, truth: FloatArray, latest: Mapping[str, Senses | None]) -> None:
        """Record the transforms of all robots."""
        values = self._poses
        for k, name in enumerate(self._world.names):
            senses = latest.get(name)
            known = None if senses is None else senses.pose_map
            x, y, yaw = (truth[k, :3] if known is None else known).tolist()
            ox, oy, odom_yaw = (0.0, 0.0, 0.0) if senses is None else senses.pose_odom.tolist()
            turn = yaw - odom_yaw
            c, s = math.cos(turn), math.sin(turn)
            to_odom = (x - c * ox + s * oy, y - s * ox - c * oy)
            values[2 * k] = (*to_odom, math.sin(turn / 2), math.cos(turn / 2))
            values[2 * k + 1] = (ox, oy, math.sin(odom_yaw / 2), math.cos(odom_yaw / 2))
        self._places.fill(values)
        self.write("/tf", "tf2_msgs/msg/TFMessage", self._places)

    def _record_crowd(self, truth: FloatArray) -> None:
        """Record the poses of a crowd."""
        half = truth[:, 2] / 2
        self._poses[:, :2] = truth[:, :2]
        self._poses[:, 2] = np.sin(half)
        self._poses[:, 3] = np.cos(half)
        self._places.fill(self._poses)
        self.write("/crowd", "geometry_msgs/msg/PoseArray", self._places)

    def _record_carriers(self) -> None:
        """Record the carriers, if one has moved."""
        if self._carriers is None:
            return
        if self._carriers.moved(self._world.carriers()):
            self.write("/carriers", MARKERS, self._carriers.template, quality=Quality.LATCHED)


def _fresh(senses: Senses | None, now: float) -> Senses | None:
    """Return a robot's senses, None if they are stale because the robot is dead."""
    return None if senses is None or now - senses.time > STALE else senses


def _qos(quality: Quality) -> str:
    """Return the QoS profile of a topic as ros2 bag writes it, with the values of rmw's enums."""
    best_effort, latched = quality is Quality.SENSOR, quality is Quality.LATCHED
    infinite = "{sec: 9223372036, nsec: 854775807}"
    return (
        f"- {{history: 1, depth: {1 if latched else 10}, reliability: {2 if best_effort else 1}, "
        f"durability: {1 if latched else 2}, deadline: {infinite}, lifespan: {infinite}, liveliness: 1, "
        f"liveliness_lease_duration: {infinite}, avoid_ros_namespace_conventions: false}}"
    )


def crowd_poses(count: int) -> Any:
    """Return a message for the poses of a crowd, with slots to fill."""
    return message(
        "geometry_msgs/msg/PoseArray", header=stamped("map"), poses=[pose_slots() for _ in range(count)]
    )


def _frames(names: Sequence[str]) -> Any:
    """Return a message for the transforms of all robots, with slots to fill."""
    odom = ((("map", f"{name}_odom"), (f"{name}_odom", f"{name}_{BODY}")) for name in names)
    return transforms([pair for pairs in odom for pair in pairs], flat=True)
