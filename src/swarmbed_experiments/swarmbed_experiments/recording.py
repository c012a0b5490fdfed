"""What happened in a run, as a file that Foxglove, `ros2 bag` and rosbags open: recording.mcap.

The topics, types and frames are those the robots have on ROS 2, so that whatever shows a live robot shows
a recording. Time is the world's and starts at 0.

| topic | type | what |
|---|---|---|
| `/tf` | tf2_msgs/TFMessage | `map` -> `<robot>_odom` -> `<robot>_base_link` |
| `/<robot>/odom` | nav_msgs/Odometry | dead reckoning |
| `/<robot>/odometry/filtered` | nav_msgs/Odometry | the EKF, of robots that have found their pose in `map` |
| `/<robot>/sensor/scan` | sensor_msgs/PointCloud2 | the returns of the distance sensors |
| `/<robot>/collision_map` | nav_msgs/OccupancyGrid | what was seen around the robot lately |
| `/<robot>/tree` | std_msgs/String | JSON, when it changes: what it does, and its tree's nodes |
| `/scene` | visualization_msgs/MarkerArray | arena, obstacles and robots' bodies, once |
| `/carriers` | visualization_msgs/MarkerArray | the carriers, when they move |
| `/crowd` | geometry_msgs/PoseArray | of a crowd nothing but where everybody is |

`map` -> `<robot>_odom` is what the robot believes once it is localised, else it leads to where it truly is.

Messages are serialised once, by rosbags, with marks where numbers will change; from then on only those
numbers are written into the bytes. That is what makes a recording cost next to nothing.
"""

from __future__ import annotations

import json
import math
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from mcap.writer import CompressionType, Writer
from py_trees.behaviour import Behaviour
from rosbags.typesys import Stores, get_typestore
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.scene import legs_of
from swarmbed_core.watchdog import Pace

from swarmbed_behaviours import tree as trees
from swarmbed_experiments.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from swarmbed_core.arena import Arena
    from swarmbed_core.collision_map import CollisionMap
    from swarmbed_core.controller import Controller
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.heading import Area
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.robot import Senses
    from swarmbed_core.scene import Scene
    from swarmbed_core.spec import Carrier, RobotSpec
    from swarmbed_core.world import TaskWorld

RATE = 10.0
SCAN_RATE = 5.0
MAP_RATE = 2.0
CROWD_RATE = 2.0
"""How often poses, returns, collision maps with trees, and the poses of a crowd are recorded, in Hz."""
MAP_CELL = 0.06
"""Edge in metres of a recorded map's cells: coarser than the robot's own, which would cost the more."""
PLATE = 0.01
"""Metres that trays, zones and walls are drawn thick."""
STALE = 0.5
"""Seconds after which what a robot sensed is no longer recorded as what it senses."""
HAIR = 1e-4
"""Metres or radians by which a carrier has to move to be recorded again."""

# The bytes of a template where a number is to be written: no message has them by chance.
_SLOT = -1.2345678901234567e-300
_SLOT_BYTES = struct.pack("<d", _SLOT)
_SECONDS, _NANOSECONDS = 0x5EC05EC, 0x3A0A0A3
_STAMP_BYTES = struct.pack("<iI", _SECONDS, _NANOSECONDS)
_HEADER = 4  # bytes of CDR's own before the message; its alignment counts from behind them

_BODY_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_CUBE, _CYLINDER, _CUBE_LIST, _TEXT = 1, 3, 6, 9


@cache
def _types() -> Any:
    """Return the message types of ROS 2 Jazzy."""
    return get_typestore(Stores.ROS2_JAZZY)


def message(name: str, /, **fields: Any) -> Any:
    """Return a ROS message; fields that are not given are zero, empty, or the unit quaternion.

    Args:
        name: such as `geometry_msgs/msg/Pose`.
        fields: some of the message's; numbers of an array may be any sequence.
    """
    made = {}
    for field, (kind, inner) in _types().fielddefs[name][1]:
        if field in fields:
            made[field] = _of_type(kind, inner, fields.pop(field))
        else:
            made[field] = _nothing(name, field, kind, inner)
    if fields:
        unknown = f"{name} has no field {', '.join(fields)}"
        raise TypeError(unknown)
    return _types().types[name](**made)


# How rosbags numbers the kinds of fields.
_BASIC, _NAMED, _ARRAY, _SEQUENCE = 1, 2, 3, 4
_DTYPES = {"float64": np.float64, "float32": np.float32, "uint8": np.uint8, "int8": np.int8}


def _of_type(kind: int, inner: Any, value: Any) -> Any:
    """Return a value as its field wants it: arrays of numbers are numpy's."""
    if kind in {_ARRAY, _SEQUENCE} and inner[0][0] == _BASIC and inner[0][1][0] in _DTYPES:
        return np.asarray(value, dtype=_DTYPES[inner[0][1][0]])
    return value


def _nothing(name: str, field: str, kind: int, inner: Any) -> Any:
    """Return what stands in a field that nobody has filled."""
    if kind == _NAMED:
        return message(inner)
    if kind == _ARRAY:
        return np.zeros(inner[1], _DTYPES[inner[0][1][0]])
    if kind == _SEQUENCE:
        return _of_type(kind, inner, [])
    if inner[0] == "string":
        return ""
    if inner[0] == "bool":
        return False
    if name.endswith("/Quaternion") and field == "w":
        return 1.0
    return 0.0 if inner[0].startswith("float") else 0


def stamped(frame: str) -> Any:
    """Return a header whose stamp a `Template` fills in."""
    stamp = message("builtin_interfaces/msg/Time", sec=_SECONDS, nanosec=_NANOSECONDS)
    return message("std_msgs/msg/Header", stamp=stamp, frame_id=frame)


def pose_slots(z: float = 0.0) -> Any:
    """Return a pose in the plane with slots for x, y, and the sine and cosine of half the yaw."""
    return message(
        "geometry_msgs/msg/Pose",
        position=message("geometry_msgs/msg/Point", x=_SLOT, y=_SLOT, z=z),
        orientation=message("geometry_msgs/msg/Quaternion", z=_SLOT, w=_SLOT),
    )


class Template:
    """A serialised message, and where in its bytes the stamps and the slots are."""

    __slots__ = ("_doubles", "_slots", "_stamps", "_words", "data", "slots", "stamps")

    def __init__(self, made: Any) -> None:
        """Serialise a message that has slots for what will change."""
        self.data = bytearray(_types().serialize_cdr(made, made.__msgtype__))
        self.slots = _places(self.data, _SLOT_BYTES, 8)
        self.stamps = _places(self.data, _STAMP_BYTES, 4)
        room = len(self.data) - _HEADER
        self._doubles = np.ndarray(room // 8, "<f8", self.data, _HEADER)
        self._words = np.ndarray(room // 4, "<u4", self.data, _HEADER)
        self._slots = (np.array(self.slots, dtype=np.intp) - _HEADER) // 8
        first = (np.array(self.stamps, dtype=np.intp) - _HEADER) // 4
        self._stamps = first[:, None] + (0, 1)

    def stamp(self, seconds: int, nanoseconds: int) -> None:
        """Write the time into every header."""
        if len(self.stamps) == 1:
            struct.pack_into("<iI", self.data, self.stamps[0], seconds, nanoseconds)
        else:
            self._words[self._stamps] = (seconds, nanoseconds)

    def fill(self, values: FloatArray) -> None:
        """Write all slots, in their order."""
        self._doubles[self._slots] = values.reshape(-1)


def _places(data: bytearray, mark: bytes, alignment: int) -> list[int]:
    """Return where a mark stands in serialised bytes."""
    found, at = [], data.find(mark)
    while at >= 0:
        if (at - _HEADER) % alignment == 0:
            found.append(at)
        at = data.find(mark, at + 1)
    return found


class _Odometry:
    """The bytes of one robot's nav_msgs/Odometry."""

    def __init__(self, frame: str, child: str, covariance: bool) -> None:
        pose = message("geometry_msgs/msg/PoseWithCovariance", pose=pose_slots())
        if covariance:
            # x, y and yaw of the 6 x 6 matrix.
            table = np.zeros((6, 6))
            table[np.ix_((0, 1, 5), (0, 1, 5))] = _SLOT
            pose.covariance = table.reshape(-1)
        twist = message(
            "geometry_msgs/msg/TwistWithCovariance",
            twist=message(
                "geometry_msgs/msg/Twist",
                linear=message("geometry_msgs/msg/Vector3", x=_SLOT, y=_SLOT),
                angular=message("geometry_msgs/msg/Vector3", z=_SLOT),
            ),
        )
        self.template = Template(
            message(
                "nav_msgs/msg/Odometry", header=stamped(frame), child_frame_id=child, pose=pose, twist=twist
            )
        )
        self._values = np.empty(16 if covariance else 7)

    def fill(
        self, pose: Sequence[float] | FloatArray, twist: FloatArray, covariance: FloatArray | None
    ) -> None:
        """Write a pose and a twist, and the pose's covariance where there is one."""
        values = self._values
        values[0], values[1] = pose[0], pose[1]
        values[2], values[3] = math.sin(pose[2] / 2), math.cos(pose[2] / 2)
        if covariance is not None:
            values[4:13] = covariance.reshape(-1)
        values[-3:] = twist
        self.template.fill(values)


class _Robot:
    """The channels and templates of one robot."""

    def __init__(self, recorder: Recorder, name: str, spec: RobotSpec) -> None:
        self.name = name
        self.frame = f"{name}_base_link"
        self._recorder = recorder
        self._height = spec.ranges[0].mount_height if spec.ranges else 0.0
        self._odom = _Odometry(f"{name}_odom", self.frame, covariance=False)
        self._filtered = _Odometry("map", self.frame, covariance=True)
        self._scans: dict[int, Template] = {}
        self._map: tuple[Template, int] | None = None
        self._doing: str | None = None
        self._nodes: list[trees.NodeStatus] = []

    def odometry(self, senses: Senses) -> None:
        """Record where the robot believes to be."""
        recorder, name = self._recorder, self.name
        self._odom.fill(senses.pose_odom.tolist(), senses.twist_body, None)
        recorder.write(f"/{name}/odom", "nav_msgs/msg/Odometry", self._odom.template)
        if senses.pose_map is not None and senses.pose_covariance is not None:
            self._filtered.fill(senses.pose_map.tolist(), senses.twist_body, senses.pose_covariance)
            recorder.write(f"/{name}/odometry/filtered", "nav_msgs/msg/Odometry", self._filtered.template)

    def scan(self, points_body: FloatArray) -> None:
        """Record the returns of the distance sensors; how many there are changes the bytes' layout."""
        count = len(points_body)
        template = self._scans.get(count)
        if template is None:
            template = self._scans[count] = Template(_cloud(self.frame, count))
        points = np.empty((count, 3), "<f4")
        points[:, :2] = points_body
        points[:, 2] = self._height
        # Behind the points comes only the flag that they are all finite.
        template.data[-1 - 12 * count : -1] = points.tobytes()
        self._recorder.write(f"/{self.name}/sensor/scan", "sensor_msgs/msg/PointCloud2", template)

    def map(self, collision_map: CollisionMap) -> None:
        """Record the collision map; its percentages are the last bytes of the message."""
        grid = collision_map.as_grid(MAP_CELL)
        if self._map is None or self._map[1] != grid.size:
            self._map = Template(_grid(self.frame, len(grid))), grid.size
        template = self._map[0]
        template.data[-grid.size :] = np.rint(100.0 * grid).astype(np.int8).tobytes()
        self._recorder.write(f"/{self.name}/collision_map", "nav_msgs/msg/OccupancyGrid", template)

    def tree(self, controller: Controller, *, looking: bool) -> None:
        """Record what the program does, if that has changed; its tree is only looked at now and then."""
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


class Recorder:
    """Writes a run's recording. Use it as a context, so that the file is whole whatever happens."""

    def __init__(self, file: Path, scene: Scene, world: TaskWorld, robots: Sequence[LocalRobot]) -> None:
        """Start a recording.

        Args:
            file: to write, such as recording.mcap.
            scene: where everything stands at the start.
            world: for the truth.
            robots: all that have Onboards; none for a crowd.

        Raises:
            RunError: the file cannot be written.
        """
        self.file = file
        self._world = world
        try:
            self._stream = file.open("wb")
        except OSError as error:
            problem = f"{file}: cannot be written ({error.strerror or error})"
            raise RunError(problem) from None
        self._writer: Writer | None = Writer(self._stream, compression=CompressionType.ZSTD)
        self._writer.start(profile="ros2", library="swarmbed")
        self._schemas: dict[str, int] = {}
        self._channels: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._now = (0, 0, 0)
        self._crowd = scene.crowd
        self._pace = Pace(CROWD_RATE if scene.crowd else RATE)
        self._scan_pace = Pace(SCAN_RATE)
        self._map_pace = Pace(MAP_RATE)
        count = len(scene.robots)
        self._robots = {robot.name: _Robot(self, robot.name, robot.spec) for robot in robots}
        self._poses = np.empty((count if scene.crowd else 2 * count, 4))
        self._places = Template(_crowd(count) if scene.crowd else _transforms(world.names))
        self._carriers = Template(_carriers(scene)) if scene.carriers else None
        self._carriers_at: FloatArray | None = None
        self._carrier_heights = np.array([_heights(item.carrier) for item in scene.carriers])
        self.write("/scene", "visualization_msgs/msg/MarkerArray", _scene(scene))

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
        """Record what there is now, as far as it is due.

        Args:
            time: of the world's clock.
            robots: those whose programs run; what they sensed last is recorded, they are not asked again.
            controllers: their programs, in the same order.

        Raises:
            RunError: the file cannot be written any more.
        """
        if self._writer is None or not self._pace.due(time):
            return
        nanoseconds = round(time * 1e9)
        self._now = (nanoseconds, *divmod(nanoseconds, 1_000_000_000))
        truth = self._world.truth()
        if self._crowd:
            self._record_crowd(truth)
        else:
            latest = {robot.name: _fresh(robot.latest, time) for robot in robots}
            self._record_frames(truth, latest)
            scans, maps = self._scan_pace.due(time), self._map_pace.due(time)
            for robot, controller in zip(robots, controllers, strict=True):
                recorded, senses = self._robots[robot.name], latest[robot.name]
                if senses is not None:
                    recorded.odometry(senses)
                    if scans and senses.points_body is not None:
                        recorded.scan(senses.points_body)
                    if maps and senses.collision_map is not None:
                        recorded.map(senses.collision_map)
                recorded.tree(controller, looking=maps)
        self._record_carriers()

    def write(self, topic: str, kind: str, what: Any) -> None:
        """Write one message, now.

        Args:
            topic: where it would be on ROS.
            kind: its type, such as `std_msgs/msg/String`.
            what: a message, or a filled `Template`, which is stamped here.

        Raises:
            RunError: the file cannot be written any more.
        """
        if self._writer is None:
            return
        nanoseconds, seconds, rest = self._now
        template = what if isinstance(what, Template) else Template(what)
        template.stamp(seconds, rest)
        try:
            channel = self._channels.get(topic) or self._new_channel(topic, kind)
            count = self._counts[topic] = self._counts[topic] + 1
            self._writer.add_message(channel, nanoseconds, bytes(template.data), nanoseconds, count)
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Finish the file; what is recorded can be read from then on.

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
        """Give up on the file; return what to say."""
        self._writer = None
        return RunError(f"{self.file}: cannot be written ({error.strerror or error})")

    def _new_channel(self, topic: str, kind: str) -> int:
        """Enter a topic, with its type's definition and the QoS that ros2 bag play offers it with."""
        if self._writer is None:
            raise AssertionError
        schema = self._schemas.get(kind)
        if schema is None:
            text, _ = _types().generate_msgdef(kind, ros_version=2)
            schema = self._writer.register_schema(kind, "ros2msg", text.encode())
            self._schemas[kind] = schema
        metadata = {
            "offered_qos_profiles": _qos(
                best_effort=topic.endswith("/scan"), latched=topic in {"/scene", "/carriers"}
            ),
            "topic_type_hash": _types().hash_rihs01(kind),
        }
        self._counts[topic] = 0
        channel = self._channels[topic] = self._writer.register_channel(topic, "cdr", schema, metadata)
        return channel

    def _record_frames(self, truth: FloatArray, latest: Mapping[str, Senses | None]) -> None:
        """Record all frames."""
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
        """Record where everybody is."""
        half = truth[:, 2] / 2
        self._poses[:, :2] = truth[:, :2]
        self._poses[:, 2] = np.sin(half)
        self._poses[:, 3] = np.cos(half)
        self._places.fill(self._poses)
        self.write("/crowd", "geometry_msgs/msg/PoseArray", self._places)

    def _record_carriers(self) -> None:
        """Record where the carriers are, if one has moved by more than a hair."""
        if self._carriers is None:
            return
        carriers = self._world.carriers()
        now = np.column_stack([carriers.poses, carriers.lifts])
        if self._carriers_at is not None and np.abs(now - self._carriers_at).max() < HAIR:
            return
        self._carriers_at = now
        values = np.empty((*self._carrier_heights.shape, 5))
        values[:, :, :2] = now[:, None, :2]
        values[:, :, 2] = self._carrier_heights + now[:, 3, None]
        values[:, :, 3] = np.sin(now[:, 2, None] / 2)
        values[:, :, 4] = np.cos(now[:, 2, None] / 2)
        self._carriers.fill(values)
        self.write("/carriers", "visualization_msgs/msg/MarkerArray", self._carriers)


def _fresh(senses: Senses | None, now: float) -> Senses | None:
    """Return what a robot sensed, unless it is dead and that was long ago."""
    return None if senses is None or now - senses.time > STALE else senses


def _qos(*, best_effort: bool, latched: bool) -> str:
    """Return the quality of service of a topic as ros2 bag writes it: numbers of rmw's enumerations."""
    infinite = "{sec: 9223372036, nsec: 854775807}"
    return (
        f"- {{history: 1, depth: {1 if latched else 10}, reliability: {2 if best_effort else 1}, "
        f"durability: {1 if latched else 2}, deadline: {infinite}, lifespan: {infinite}, liveliness: 1, "
        f"liveliness_lease_duration: {infinite}, avoid_ros_namespace_conventions: false}}"
    )


def _transforms(names: Sequence[str]) -> Any:
    """Return the frames of all robots, with slots."""
    made = []
    for name in names:
        for parent, child in (("map", f"{name}_odom"), (f"{name}_odom", f"{name}_base_link")):
            transform = message(
                "geometry_msgs/msg/Transform",
                translation=message("geometry_msgs/msg/Vector3", x=_SLOT, y=_SLOT),
                rotation=message("geometry_msgs/msg/Quaternion", z=_SLOT, w=_SLOT),
            )
            made.append(
                message(
                    "geometry_msgs/msg/TransformStamped",
                    header=stamped(parent),
                    child_frame_id=child,
                    transform=transform,
                )
            )
    return message("tf2_msgs/msg/TFMessage", transforms=made)


def _crowd(count: int) -> Any:
    """Return the poses of a crowd, with slots."""
    return message(
        "geometry_msgs/msg/PoseArray", header=stamped("map"), poses=[pose_slots() for _ in range(count)]
    )


def _cloud(frame: str, count: int) -> Any:
    """Return a point cloud of `count` points."""
    single = 7  # PointField.FLOAT32
    fields = [
        message("sensor_msgs/msg/PointField", name=axis, offset=4 * i, datatype=single, count=1)
        for i, axis in enumerate("xyz")
    ]
    return message(
        "sensor_msgs/msg/PointCloud2",
        header=stamped(frame),
        height=1,
        width=count,
        fields=fields,
        point_step=12,
        row_step=12 * count,
        data=np.zeros(12 * count, np.uint8),
        is_dense=True,
    )


def _grid(frame: str, size: int) -> Any:
    """Return an empty collision map of `size` cells along each side, its middle at the robot."""
    edge = -size * MAP_CELL / 2
    info = message(
        "nav_msgs/msg/MapMetaData",
        resolution=MAP_CELL,
        width=size,
        height=size,
        origin=message("geometry_msgs/msg/Pose", position=message("geometry_msgs/msg/Point", x=edge, y=edge)),
    )
    return message(
        "nav_msgs/msg/OccupancyGrid", header=stamped(frame), info=info, data=np.zeros(size**2, np.int8)
    )


def _colour(code: str, alpha: float = 1.0) -> Any:
    """Return a colour from its code, such as #0072B2."""
    r, g, b = (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return message("std_msgs/msg/ColorRGBA", r=r, g=g, b=b, a=alpha)


def _marker(
    namespace: str,
    number: int,
    shape: int,
    size: tuple[float, float, float],
    colour: Any,
    *,
    frame: str = "map",
    pose: Any = None,
    **fields: Any,
) -> Any:
    """Return one marker."""
    return message(
        "visualization_msgs/msg/Marker",
        header=stamped(frame),
        ns=namespace,
        id=number,
        type=shape,
        pose=message("geometry_msgs/msg/Pose") if pose is None else pose,
        scale=message("geometry_msgs/msg/Vector3", x=size[0], y=size[1], z=size[2]),
        color=colour,
        **fields,
    )


def _at(x: float, y: float, z: float, yaw: float = 0.0) -> Any:
    """Return a pose on the floor or above it."""
    return message(
        "geometry_msgs/msg/Pose",
        position=message("geometry_msgs/msg/Point", x=x, y=y, z=z),
        orientation=message("geometry_msgs/msg/Quaternion", z=math.sin(yaw / 2), w=math.cos(yaw / 2)),
    )


def _scene(scene: Scene) -> Any:
    """Return what does not move by itself: arena, obstacles, and bodies that follow their robots' frames."""
    made = [*_zones(scene.arena), *_walls(scene.arena)]
    grey = _colour("#7F7F7F")
    for k, item in enumerate(scene.obstacles):
        x, y, yaw = item.pose
        if isinstance(item, BoxObstacle):
            shape, size = _CUBE, (*item.size, item.height)
        else:
            shape, size = _CYLINDER, (2 * item.radius, 2 * item.radius, item.height)
        made.append(_marker("obstacles", k, shape, size, grey, pose=_at(x, y, item.height / 2, yaw)))
    if not scene.crowd:
        for k, placement in enumerate(scene.robots):
            made += _body(k, placement.name, placement.spec)
    return message("visualization_msgs/msg/MarkerArray", markers=made)


def _body(k: int, name: str, spec: RobotSpec) -> list[Any]:
    """Return a robot's body, a nose that shows where its front is, and its name."""
    body, frame = spec.body, f"{name}_base_link"
    colour = _colour(_BODY_COLOURS[k % len(_BODY_COLOURS)])
    middle = _at(0.0, 0.0, body.height / 2)
    if body.shape == "disc":
        reach = body.radius
        hull = _marker(
            "robots",
            k,
            _CYLINDER,
            (2 * reach, 2 * reach, body.height),
            colour,
            frame=frame,
            pose=middle,
            frame_locked=True,
        )
    else:
        reach = body.length / 2
        hull = _marker(
            "robots",
            k,
            _CUBE,
            (body.length, body.width, body.height),
            colour,
            frame=frame,
            pose=middle,
            frame_locked=True,
        )
    nose = _marker(
        "noses",
        k,
        _CUBE,
        (reach / 2, reach / 5, PLATE),
        _colour("#FFFFFF"),
        frame=frame,
        pose=_at(0.7 * reach, 0.0, body.height),
        frame_locked=True,
    )
    label = _marker(
        "names",
        k,
        _TEXT,
        (0.0, 0.0, 0.08),
        _colour("#000000"),
        frame=frame,
        pose=_at(0.0, 0.0, body.height + 0.15),
        frame_locked=True,
        text=name,
    )
    return [hull, nose, label]


def _zones(arena: Arena) -> list[Any]:
    """Return the task's zones as tinted floor, as far as the arena reaches."""
    if arena.zones is None or arena.size is None:
        return []
    made = []
    for k, (name, colour) in enumerate((("search", "#56B4E9"), ("drop", "#009E73"))):
        (left, right), (bottom, top) = bounds(getattr(arena.zones, name), arena.size)
        made.append(
            _marker(
                "zones",
                k,
                _CUBE,
                (right - left, top - bottom, PLATE / 10),
                _colour(colour, 0.25),
                pose=_at((left + right) / 2, (bottom + top) / 2, 0.0),
            )
        )
    return made


def bounds(area: Area, size: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the part of an area that is inside the outer walls, as its bounds along x and y."""
    (left, right), (bottom, top) = area.along_x, area.along_y
    return (max(left, -size[0] / 2), min(right, size[0] / 2)), (
        max(bottom, -size[1] / 2),
        min(top, size[1] / 2),
    )


def _walls(arena: Arena) -> list[Any]:
    """Return the walls."""
    made = []
    for k, (x1, y1, x2, y2) in enumerate(arena.segments().tolist()):
        size = (math.hypot(x2 - x1, y2 - y1), PLATE, arena.wall_height)
        place = _at((x1 + x2) / 2, (y1 + y2) / 2, arena.wall_height / 2, math.atan2(y2 - y1, x2 - x1))
        made.append(_marker("walls", k, _CUBE, size, _colour("#B0A090", 0.5), pose=place))
    return made


def _heights(carrier: Carrier) -> tuple[float, float, float]:
    """Return how high above its feet the tray, the legs and the label of a carrier are drawn."""
    return carrier.clearance + PLATE / 2, carrier.clearance / 2, carrier.clearance + 0.12


def _carriers(scene: Scene) -> Any:
    """Return the carriers: tray, legs and the id of their markers, with slots."""
    made = []
    for k, placement in enumerate(scene.carriers):
        carrier = placement.carrier
        leg = (2 * carrier.leg_radius, 2 * carrier.leg_radius, carrier.clearance)
        points = [message("geometry_msgs/msg/Point", x=x, y=y) for x, y in legs_of(carrier).tolist()]
        wood = _colour("#C8A165", 0.8)
        made += [
            _marker("trays", k, _CUBE, (carrier.length, carrier.width, PLATE), wood, pose=pose_slots(_SLOT)),
            _marker("legs", k, _CUBE_LIST, leg, wood, pose=pose_slots(_SLOT), points=points),
            _marker(
                "carriers",
                k,
                _TEXT,
                (0.0, 0.0, 0.08),
                _colour("#000000"),
                pose=pose_slots(_SLOT),
                text=str(placement.marker),
            ),
        ]
    return message("visualization_msgs/msg/MarkerArray", markers=made)
