"""Serialised ROS messages with slots for the numbers that change.

A message is serialised once, by rosbags, with placeholders for the numbers that change; from then on only
these numbers are written into the bytes. Publishing or recording bytes costs a fraction of what Python
messages cost.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from rosbags.typesys import Stores, get_typestore
from swarmbed_core.kernel import kernel

from swarmbed_robot.cdr import LITTLE_ENDIAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray

    IntArray = NDArray[np.intp]

# Placeholder for a number; its bytes do not occur in messages by chance.
SLOT = -1.2345678901234567e-300
_SLOT_BYTES = struct.pack("<d", SLOT)
_SECONDS, _NANOSECONDS = 0x5EC05EC, 0x3A0A0A3
_STAMP_BYTES = struct.pack("<iI", _SECONDS, _NANOSECONDS)
_pack_stamp = struct.Struct("<iI").pack_into
FLAT = 1e-6
"""Variance of motions that are impossible on a floor (z, roll, pitch): many filters reject 0."""
_HEADER = len(LITTLE_ENDIAN)


@cache
def types() -> Any:
    """Return the message types of ROS 2 Jazzy."""
    return get_typestore(Stores.ROS2_JAZZY)


def message(name: str, /, **fields: Any) -> Any:
    """Return a ROS message; missing fields are zero, empty, or the unit quaternion.

    Args:
        name: type of the message, such as `geometry_msgs/msg/Pose`.
        fields: values of fields; an array of numbers may be any sequence.
    """
    made = {}
    for field, (kind, inner) in types().fielddefs[name][1]:
        if field in fields:
            made[field] = _of_type(kind, inner, fields.pop(field))
        else:
            made[field] = _nothing(name, field, kind, inner)
    if fields:
        unknown = f"{name} has no field {', '.join(fields)}"
        raise TypeError(unknown)
    return types().types[name](**made)


# How rosbags numbers the kinds of fields.
_BASIC, _NAMED, _ARRAY, _SEQUENCE = 1, 2, 3, 4
_DTYPES = {"float64": np.float64, "float32": np.float32, "uint8": np.uint8, "int8": np.int8}


def _of_type(kind: int, inner: Any, value: Any) -> Any:
    """Return a value in the type of its field: arrays of numbers become numpy arrays."""
    if kind in {_ARRAY, _SEQUENCE} and inner[0][0] == _BASIC and inner[0][1][0] in _DTYPES:
        return np.asarray(value, dtype=_DTYPES[inner[0][1][0]])
    return value


def _nothing(name: str, field: str, kind: int, inner: Any) -> Any:
    """Return the default value of a field."""
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
    """Return a header with a slot for its stamp."""
    stamp = message("builtin_interfaces/msg/Time", sec=_SECONDS, nanosec=_NANOSECONDS)
    return message("std_msgs/msg/Header", stamp=stamp, frame_id=frame)


def pose_slots(z: float = 0.0) -> Any:
    """Return a pose in the plane with slots for x, y, sin(yaw/2) and cos(yaw/2)."""
    return message(
        "geometry_msgs/msg/Pose",
        position=message("geometry_msgs/msg/Point", x=SLOT, y=SLOT, z=z),
        orientation=message("geometry_msgs/msg/Quaternion", z=SLOT, w=SLOT),
    )


class Template:
    """A serialised message with the positions of its stamps and slots.

    Attributes:
        data: the bytes, with the CDR header.
        doubles: the bytes after the header, as float64.
        places: indices of the slots in `doubles`.
        slots: offsets of the slots in `data`.
        stamps: offsets of the stamps in `data`.
    """

    __slots__ = ("data", "doubles", "places", "slots", "stamps")

    def __init__(self, made: Any) -> None:
        """Serialise a message with slots."""
        self.data = bytearray(types().serialize_cdr(made, made.__msgtype__))
        self.slots = _places(self.data, _SLOT_BYTES, 8)
        self.stamps = _places(self.data, _STAMP_BYTES, 4)
        room = len(self.data) - _HEADER
        self.doubles = np.ndarray(room // 8, "<f8", self.data, _HEADER)
        self.places = (np.array(self.slots, dtype=np.intp) - _HEADER) // 8

    def stamp(self, seconds: int, nanoseconds: int) -> None:
        """Write the stamp of every header."""
        for place in self.stamps:
            _pack_stamp(self.data, place, seconds, nanoseconds)

    def fill(self, values: FloatArray) -> None:
        """Write all slots, in their order."""
        if values.size != len(self.slots):
            message = f"{values.size} numbers: expected {len(self.slots)}, one per slot"
            raise ValueError(message)
        fill_k(self.doubles, self.places, values.reshape(-1))


@kernel
def fill_k(doubles: FloatArray, places: IntArray, values: FloatArray) -> None:
    """Write numbers to their slots."""
    for k in range(len(places)):
        doubles[places[k]] = values[k]


def _places(data: bytearray, mark: bytes, alignment: int) -> list[int]:
    """Return the offsets of a placeholder in serialised bytes."""
    found, at = [], data.find(mark)
    while at >= 0:
        if (at - _HEADER) % alignment == 0:
            found.append(at)
        at = data.find(mark, at + 1)
    return found


class OdometryTemplate:
    """A serialised nav_msgs/Odometry."""

    def __init__(self, frame: str, child: str, covariance: bool, twist_covariance: bool = False) -> None:
        pose = message("geometry_msgs/msg/PoseWithCovariance", pose=pose_slots())
        if covariance:
            pose.covariance = _covariance_slots(FLAT if twist_covariance else 0.0)
        twist = message(
            "geometry_msgs/msg/TwistWithCovariance",
            twist=message(
                "geometry_msgs/msg/Twist",
                linear=message("geometry_msgs/msg/Vector3", x=SLOT, y=SLOT),
                angular=message("geometry_msgs/msg/Vector3", z=SLOT),
            ),
        )
        if twist_covariance:
            twist.covariance = _covariance_slots(FLAT)
        self.template = Template(
            message(
                "nav_msgs/msg/Odometry", header=stamped(frame), child_frame_id=child, pose=pose, twist=twist
            )
        )
        self._none = np.empty((0, 0))

    def fill(
        self,
        pose: Sequence[float],
        twist: Sequence[float],
        covariance: FloatArray | None,
        twist_covariance: FloatArray | None = None,
        first: int = 0,
    ) -> None:
        """Write a pose and a twist, with their covariances if given.

        Args:
            pose: x, y (m) and yaw (rad).
            twist: vx, vy (m/s) and omega (rad/s) in the body's frame.
            covariance: matrix whose first three rows and columns are the pose's covariance.
            twist_covariance: matrix that contains the twist's covariance.
            first: index of the first row and column of the twist in `twist_covariance`.
        """
        x, y, yaw = pose
        vx, vy, omega = twist
        template, none = self.template, self._none
        pose_table = none if covariance is None else covariance
        twist_table = none if twist_covariance is None else twist_covariance
        odometry_k(
            template.doubles, template.places, x, y, yaw, vx, vy, omega, pose_table, twist_table, first
        )


@kernel
def odometry_k(
    doubles: FloatArray,
    places: IntArray,
    x: float,
    y: float,
    yaw: float,
    vx: float,
    vy: float,
    omega: float,
    covariance: FloatArray,
    twist_covariance: FloatArray,
    first: int,
) -> None:
    """Write the numbers of an odometry message to its slots; skip covariances without rows."""
    doubles[places[0]], doubles[places[1]] = x, y
    doubles[places[2]], doubles[places[3]] = math.sin(0.5 * yaw), math.cos(0.5 * yaw)
    at = 4
    if covariance.shape[0] > 0:
        for i in range(3):
            for j in range(3):
                doubles[places[at]] = covariance[i, j]
                at += 1
    doubles[places[at]], doubles[places[at + 1]], doubles[places[at + 2]] = vx, vy, omega
    at += 3
    if twist_covariance.shape[0] > 0:
        for i in range(3):
            for j in range(3):
                doubles[places[at]] = twist_covariance[first + i, first + j]
                at += 1


def _covariance_slots(rest: float) -> FloatArray:
    """Return a 6 x 6 matrix with slots for x, y and yaw, and the variance `rest` for z, roll and pitch."""
    table = np.diag(np.full(6, rest))
    table[np.ix_((0, 1, 5), (0, 1, 5))] = SLOT
    return table.reshape(-1)


def cloud(frame: str, count: int) -> Any:
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


@kernel
def returns_k(points: FloatArray, height: float, out: NDArray[np.float32]) -> int:
    """Write the finite points as x, y and z = `height`, and return their number."""
    count = 0
    for k in range(points.shape[0]):
        if math.isfinite(points[k, 0]):
            out[count, 0], out[count, 1], out[count, 2] = points[k, 0], points[k, 1], height
            count += 1
    return count


def laser_scan(frame: str, angles: FloatArray, edges: tuple[float, float], period: float) -> Any:
    """Return a LaserScan message; its ranges are followed only by the four bytes of the empty intensities.

    Args:
        frame: frame at whose origin all ranges start.
        angles: evenly spaced directions of the beams, in radians; a single beam has a full turn as increment.
        edges: least and greatest range, in metres.
        period: seconds between two sweeps.
    """
    return message(
        "sensor_msgs/msg/LaserScan",
        header=stamped(frame),
        angle_min=float(angles[0]),
        angle_max=float(angles[-1]),
        angle_increment=float(angles[1] - angles[0]) if len(angles) > 1 else 2.0 * math.pi,
        scan_time=period,
        range_min=edges[0],
        range_max=edges[1],
        ranges=np.full(len(angles), math.nan, np.float32),
    )


def grid_template(frame: str, size: int, cell: float) -> Any:
    """Return an empty OccupancyGrid message with the robot at its centre.

    Args:
        frame: frame of the map.
        size: number of cells along each side.
        cell: size of a cell, in metres.
    """
    edge = -size * cell / 2
    info = message(
        "nav_msgs/msg/MapMetaData",
        resolution=cell,
        width=size,
        height=size,
        origin=message("geometry_msgs/msg/Pose", position=message("geometry_msgs/msg/Point", x=edge, y=edge)),
    )
    return message(
        "nav_msgs/msg/OccupancyGrid", header=stamped(frame), info=info, data=np.zeros(size**2, np.int8)
    )


def path_bytes(frame: str, stamp: tuple[int, int], poses: FloatArray) -> bytes:
    """Return a serialised nav_msgs/Path with one frame and one stamp; the poses are rows x, y, yaw.

    All poses after the first have the same size: two are serialised, and copies of the second are appended.
    """
    count = len(poses)
    place = message("geometry_msgs/msg/PoseStamped", header=stamped(frame), pose=pose_slots())
    kind = "nav_msgs/msg/Path"
    few = Template(message(kind, header=stamped(frame), poses=[place] * min(count, 2)))
    few.stamp(*stamp)
    data = few.data
    if count > 2:
        stride = few.slots[4] - few.slots[0]
        data = data + data[-stride:] * (count - 2)
        # The number of poses is the last field of an empty path.
        at = len(Template(message(kind, header=stamped(frame), poses=[])).data) - 4
        struct.pack_into("<I", data, at, count)
    if count:
        values = np.column_stack([poses[:, :2], np.sin(poses[:, 2] / 2), np.cos(poses[:, 2] / 2)])
        stride = few.slots[4] - few.slots[0] if count > 1 else 0
        at_first = np.array(few.slots[:4], dtype=np.intp) - _HEADER
        places = (at_first + stride * np.arange(count)[:, None]) // 8
        np.ndarray((len(data) - _HEADER) // 8, "<f8", data, _HEADER)[places] = values
    return bytes(data)


def packed_image(frame: str, jpeg: bytes) -> Any:
    """Return a CompressedImage message with a JPEG."""
    kind = "sensor_msgs/msg/CompressedImage"
    return message(kind, header=stamped(frame), format="jpeg", data=np.frombuffer(jpeg, np.uint8))


def transforms(frames: Sequence[tuple[str, str]], *, flat: bool) -> Any:
    """Return a TFMessage with slots.

    Args:
        frames: parent and child of each transform.
        flat: whether only x, y and the rotation's z and w get slots; otherwise all seven numbers do.
    """
    made = []
    for parent, child in frames:
        z = 0.0 if flat else SLOT
        transform = message(
            "geometry_msgs/msg/Transform",
            translation=message("geometry_msgs/msg/Vector3", x=SLOT, y=SLOT, z=z),
            rotation=message("geometry_msgs/msg/Quaternion", x=z, y=z, z=SLOT, w=SLOT),
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
