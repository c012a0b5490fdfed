"""Republishes every robot's own tree of frames, from `/<robot>/tf` and `/<robot>/tf_static`, on `/tf`.

Frames get the prefix `<robot>_`, except `map`, names that already have the prefix, and the odometry frame
where it is the root of the robot's tree: map -> odom -> base_link becomes
map -> dots1_odom -> dots1_base_link; odom -> base_link alone becomes odom -> dots1_base_link.

Messages stay serialised. The frames of a topic's messages rarely change, so the layout of a message is
analysed once. After that only the bytes of the frame names are compared, and the message is sent unchanged,
or its stamps and poses are copied between the new names. CDR aligns numbers, so new names move everything
after them.

Unusable transforms are dropped, counted and logged once: transforms with empty names, of a frame to itself or
with numbers that are not finite, and malformed messages. Leading slashes are removed.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.exceptions import InvalidTopicNameException
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.validate_full_topic_name import validate_full_topic_name

from swarmbed_robot import qos
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import Spinner, run
from swarmbed_robot.options import Option
from tf2_msgs.msg import TFMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rclpy.node import Node
    from rclpy.publisher import Publisher

ROOTS = ("map", "odom")
OPTIONS = (
    Option("robots", [], "robots whose frames are relayed; none: all with a topic <robot>/tf"),
    Option("roots", list(ROOTS), "frames without a prefix where they are the root of a robot's tree"),
)

LOOK = 1.0
"""Seconds between searches for new robots."""
LAYOUTS = 64
"""Layouts kept per topic. Real robots have a handful; with more, messages are analysed again and again."""
STATIC = 10_000
"""Maximum number of static transforms per robot."""

TYPE = "tf2_msgs/msg/TFMessage"
MAP = b"map"

UNREADABLE = "malformed TFMessage"
NOTHING = "message without transforms"
NAMELESS = "transform with an empty frame name"
NO_TEXT = "transform with a frame name that is not valid text"
SLASH = "frame name with a leading slash, which is removed"
ITSELF = "transform of a frame to itself"
NOT_FINITE = "transform with numbers that are not finite"
TOO_MANY = f"static transform beyond the first {STATIC} of a robot"

# Layout of a message: the 4 bytes of the CDR header, from whose end alignment counts; the number of
# transforms; and for each the stamp, the two names (each with its length before it and a zero after it), and
# seven doubles.
_LITTLE_ENDIAN = b"\0\1"
_NUMBER = struct.Struct("<I")
_FIRST = 8
_STAMP = 8
_POSE = 56
_LEAST = _STAMP + 4 + 4 + _POSE
_FINITE = struct.Struct("<7d")


class Transform(NamedTuple):
    """One transform of a message, serialised."""

    stamp: bytes
    parent: bytes
    child: bytes
    pose: bytes


def decode(data: bytes) -> list[Transform]:
    """Return the transforms of a serialised TFMessage.

    Raises:
        ValueError: the message is malformed.
    """
    return [transform for _, transform in _walk(data)]


def encode(transforms: Iterable[Transform]) -> bytes:
    """Return a serialised TFMessage with the transforms."""
    return b"".join(_pieces(list(transforms)))


def _walk(data: bytes) -> list[tuple[int, Transform]]:
    """Return the transforms of a message, each with its offset."""
    if len(data) < _FIRST or data[:2] != _LITTLE_ENDIAN:
        raise ValueError(UNREADABLE)
    (count,) = _NUMBER.unpack_from(data, 4)
    if count * _LEAST > len(data) - _FIRST:
        raise ValueError(UNREADABLE)
    found = []
    at = _FIRST
    for _ in range(count):
        start = at
        parent, at = _name(data, start + _STAMP)
        child, at = _name(data, _aligned4(at))
        pose = _aligned8(at)
        at = pose + _POSE
        found.append((start, Transform(data[start : start + _STAMP], parent, child, data[pose:at])))
    if at > len(data):
        raise ValueError(UNREADABLE)
    return found


def _name(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the string at an offset, and the offset of its end."""
    if at + 4 > len(data):
        raise ValueError(UNREADABLE)
    (length,) = _NUMBER.unpack_from(data, at)
    end = at + 4 + length
    if end > len(data):
        raise ValueError(UNREADABLE)
    return data[at + 4 : end].removesuffix(b"\0"), end


def _aligned4(at: int) -> int:
    return at + -at % 4


def _aligned8(at: int) -> int:
    return at + -(at - 4) % 8


def _pieces(transforms: Sequence[Transform]) -> list[bytes]:
    """Return a message in pieces; those with an odd index are, alternately, stamps and poses."""
    pieces = [b"\0\1\0\0" + _NUMBER.pack(len(transforms))]
    at = _FIRST
    for stamp, parent, child, pose in transforms:
        names = bytearray(_NUMBER.pack(len(parent) + 1) + parent + b"\0")
        names.extend(bytes(-len(names) % 4))
        names += _NUMBER.pack(len(child) + 1) + child + b"\0"
        end = at + _STAMP + len(names)
        names.extend(bytes(_aligned8(end) - end))
        pieces += (stamp, bytes(names), pose, b"")
        at += _STAMP + len(names) + _POSE
    return pieces


class Tree:
    """The names of one robot's frames, and the possible roots of its tree.

    Attributes:
        prefix: prefix of all frames except the root.
        changed: whether a frame turned out not to be the root; reset by the user of the tree.
    """

    def __init__(self, robot: str, roots: Iterable[str] = ROOTS) -> None:
        """Start without frames.

        Args:
            robot: namespace of the robot.
            roots: names without a prefix where they are the tree's root.
        """
        self.prefix = f"{robot.strip('/').replace('/', '_')}_".encode()
        self.changed = False
        self._roots = {root.encode() for root in roots}

    def learn(self, child: bytes) -> None:
        """Record that a frame has a parent, so it is not the root."""
        name = child.removeprefix(self.prefix)
        if name in self._roots:
            self._roots.remove(name)
            self.changed = True

    def rename(self, frame: bytes) -> bytes:
        """Return the global name of one of the robot's frames."""
        if frame == MAP or frame in self._roots or frame.startswith(self.prefix):
            return frame
        return self.prefix + frame

    def renamed(self, transform: Transform) -> Transform:
        """Return a transform with the global names of its frames."""
        stamp, parent, child, pose = transform
        return Transform(stamp, self.rename(parent), self.rename(child), pose)


def cleaned(transform: Transform) -> tuple[Transform | None, str | None]:
    """Return a transform with clean names, None if they are unusable, and the fault, None without one."""
    stamp, parent, child, pose = transform
    fault = None
    if parent.startswith(b"/") or child.startswith(b"/"):
        parent, child, fault = parent.lstrip(b"/"), child.lstrip(b"/"), SLASH
    if not parent or not child:
        return None, NAMELESS
    if not (_is_text(parent) and _is_text(child)):
        return None, NO_TEXT
    if parent == child:
        return None, ITSELF
    return Transform(stamp, parent, child, pose), fault


def _is_text(name: bytes) -> bool:
    try:
        return "\0" not in name.decode()
    except UnicodeDecodeError:
        return False


def _is_finite(pose: bytes) -> bool:
    return all(map(math.isfinite, _FINITE.unpack(pose)))


class _Layout:
    """The translation of messages with the same frames in the same order."""

    __slots__ = ("_expected", "_names", "_numbers", "_pieces", "_places", "faults", "same")

    def __init__(self, data: bytes, walked: Sequence[tuple[int, Transform]], tree: Tree) -> None:
        names, numbers, places = ["<2s2x4s"], ["<"], ["<"]
        kept: list[Transform] = []
        self.faults: Counter[str] = Counter()
        self.same = True
        behind = 0
        for start, transform in walked:
            parent = 4 + _NUMBER.unpack_from(data, start + _STAMP)[0]
            second = _aligned4(start + _STAMP + parent)
            child = 4 + _NUMBER.unpack_from(data, second)[0]
            pose = _aligned8(second + child)
            pads = second - start - _STAMP - parent, pose - second - child
            names.append(f"{_STAMP}x{parent}s{pads[0]}x{child}s{pads[1]}x{_POSE}x")
            usable, fault = cleaned(transform)
            if usable is not None:
                new = tree.renamed(usable)
                if new.parent == new.child:
                    usable, fault = None, ITSELF
                else:
                    kept.append(new)
                    numbers.append(f"{pose - behind}x7d")
                    places.append(f"{start - behind}x{_STAMP}s{pose - start - _STAMP}x{_POSE}s")
                    behind = pose + _POSE
                    self.same = self.same and new == transform
            if fault is not None:
                self.faults[fault] += 1
        self.same = self.same and len(kept) == len(walked)
        self._names = struct.Struct("".join(names))
        self._expected = self._names.unpack_from(data)
        self._numbers = struct.Struct("".join(numbers))
        self._places = struct.Struct("".join(places))
        self._pieces = _pieces(kept)

    def fits(self, data: bytes) -> bool:
        """Return whether a message of the right length has these frames."""
        return self._names.unpack_from(data) == self._expected

    def finite(self, data: bytes) -> bool:
        """Return whether all numbers are finite; a finite sum shows it without a check of each number."""
        numbers = self._numbers.unpack_from(data)
        return math.isfinite(sum(numbers)) or all(map(math.isfinite, numbers))

    def renamed(self, data: bytes) -> bytes:
        """Return the message with new names; empty if none of its transforms is usable."""
        pieces = self._pieces
        if len(pieces) == 1:
            return b""
        pieces[1::2] = self._places.unpack_from(data)
        return b"".join(pieces)


class Renamer:
    """Renames the frames of one topic's messages."""

    def __init__(self, tree: Tree, refuse: Callable[[str, int], None]) -> None:
        """Prepare the renaming.

        Args:
            tree: the robot's frames.
            refuse: called with the reason and the number of rejected transforms.
        """
        self._tree = tree
        self._refuse = refuse
        self._layouts: dict[int, list[_Layout]] = {}
        self._known = 0

    def forget(self) -> None:
        """Drop all layouts, because names have changed."""
        self._layouts.clear()
        self._known = 0

    def rename(self, data: bytes) -> bytes:
        """Return a message with renamed frames and without unusable transforms; empty if none is left."""
        for layout in self._layouts.get(len(data), ()):
            if layout.fits(data):
                break
        else:
            new = self._new_layout(data)
            if new is None:
                return b""
            layout = new
        for fault, count in layout.faults.items():
            self._refuse(fault, count)
        if not layout.finite(data):
            return self._without_nan(data)
        return data if layout.same else layout.renamed(data)

    def _new_layout(self, data: bytes) -> _Layout | None:
        try:
            walked = _walk(data)
        except ValueError:
            self._refuse(UNREADABLE, 1)
            return None
        if not walked:
            self._refuse(NOTHING, 1)
            return None
        for _, transform in walked:
            usable, _ = cleaned(transform)
            if usable is not None:
                self._tree.learn(usable.child)
        if self._tree.changed or self._known >= LAYOUTS:
            self.forget()
        layout = _Layout(data, walked, self._tree)
        self._layouts.setdefault(len(data), []).append(layout)
        self._known += 1
        return layout

    def _without_nan(self, data: bytes) -> bytes:
        """Return a message without transforms that are not finite; other faults are already counted."""
        kept = []
        for transform in decode(data):
            usable, _ = cleaned(transform)
            if usable is None:
                continue
            new = self._tree.renamed(usable)
            if new.parent == new.child:
                continue
            if _is_finite(new.pose):
                kept.append(new)
            else:
                self._refuse(NOT_FINITE, 1)
        return encode(kept) if kept else b""


class _Robot:
    """The relayed topics of one robot."""

    def __init__(self, relay: Relay, namespace: str, roots: Iterable[str]) -> None:
        self.namespace = namespace
        self.tree = Tree(namespace, roots)
        self.static: dict[bytes, Transform] = {}
        self._relay = relay
        self._renamer = Renamer(self.tree, self._refused)

    def moving(self, data: bytes) -> None:
        """Relay a message of `tf`."""
        renamed = self._renamer.rename(data)
        if self.tree.changed:
            self.tree.changed = False
            self._relay.publish_static()
        if renamed:
            self._relay.publisher.publish(renamed)

    def fixed(self, data: bytes) -> None:
        """Relay a message of `tf_static`."""
        try:
            transforms = decode(data)
        except ValueError:
            self._refused(UNREADABLE, 1)
            return
        if not transforms:
            self._refused(NOTHING, 1)
        for transform in transforms:
            usable, fault = cleaned(transform)
            if usable is not None and not _is_finite(usable.pose):
                usable, fault = None, NOT_FINITE
            if usable is not None and len(self.static) >= STATIC and usable.child not in self.static:
                usable, fault = None, TOO_MANY
            if fault is not None:
                self._refused(fault, 1)
            if usable is not None:
                self.tree.learn(usable.child)
                self.static[usable.child] = usable
        if self.tree.changed:
            self.tree.changed = False
            self._renamer.forget()
        self._relay.publish_static()

    def _refused(self, reason: str, count: int) -> None:
        self._relay.refuse(self.namespace, reason, count)


class Relay:
    """The relay of all robots.

    Attributes:
        publisher: publisher of `/tf`.
        refused: number of rejected transforms, by reason.
    """

    def __init__(self, node: Node, robots: Sequence[str] = (), roots: Sequence[str] = ROOTS) -> None:
        """Start to relay.

        Args:
            node: node of the topics.
            robots: namespaces of the robots; empty: all that are found.
            roots: frames without a prefix where they are the root of a robot's tree.

        Raises:
            RobotError: a robot's name is invalid, or its topics are the relay's own outputs.
        """
        self.publisher: Publisher = node.create_publisher(TFMessage, "/tf", qos.TF)
        self.refused: Counter[str] = Counter()
        self._node = node
        self._roots = tuple(roots)
        self._robots: dict[str, _Robot] = {}
        self._static: Publisher = node.create_publisher(TFMessage, "/tf_static", qos.LATCHED)
        self._sent = b""
        self._outputs = {self.publisher.topic_name, self._static.topic_name}
        for robot in robots:
            self._add(robot)
        if not robots:
            self.look()
            node.create_timer(LOOK, self.look, clock=Clock(clock_type=ClockType.STEADY_TIME))

    @property
    def robots(self) -> list[str]:
        """Return the namespaces of the relayed robots."""
        return list(self._robots)

    def look(self) -> None:
        """Find new robots and relay their frames."""
        for topic, types in self._node.get_topic_names_and_types():
            namespace, slash, last = topic.rpartition("/")
            if slash and last == "tf" and namespace and namespace not in self._robots and TYPE in types:
                if self._outputs & {topic, f"{topic}_static"}:
                    continue
                self._add(namespace)
                self._node.get_logger().info(f"relaying the frames of {namespace.strip('/')}")

    def publish_static(self) -> None:
        """Publish all static transforms in one message, for late subscribers; do nothing if none is new."""
        merged: dict[bytes, Transform] = {}
        for robot in self._robots.values():
            for transform in robot.static.values():
                new = robot.tree.renamed(transform)
                if new.parent != new.child:
                    merged[new.child] = new
        data = encode(merged.values())
        if merged and data != self._sent:
            self._sent = data
            self._static.publish(data)

    def refuse(self, robot: str, reason: str, count: int) -> None:
        """Count rejected transforms, and log the first of each kind."""
        if not self.refused[reason]:
            self._node.get_logger().warning(f"{robot}: {reason}; further ones are only counted")
        self.refused[reason] += count

    def _add(self, name: str) -> None:
        namespace = f"/{name.strip('/')}"
        if namespace in self._robots:
            return
        topics = f"{namespace}/tf", f"{namespace}/tf_static"
        try:
            for topic in topics:
                validate_full_topic_name(topic)
            resolved = {self._node.resolve_topic_name(topic) for topic in topics}
            if self._outputs & resolved:
                problem = f"{topics[0]}: the relay's own output cannot be its input; name another robot"
                raise RobotError(problem)
            robot = _Robot(self, namespace, self._roots)
            fixed = QoSProfile(depth=qos.TF.depth, durability=DurabilityPolicy.TRANSIENT_LOCAL)
            self._node.create_subscription(TFMessage, topics[0], robot.moving, qos.TF, raw=True)
            self._node.create_subscription(TFMessage, topics[1], robot.fixed, fixed, raw=True)
        except InvalidTopicNameException:
            problem = f"'{name}' is not a valid robot name: expected letters, digits and _, such as dots1"
            raise RobotError(problem) from None
        self._robots[namespace] = robot


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> int | None:
    """Relay until the process is asked to end."""
    relay = Relay(node, options["robots"], options["roots"])
    spinner.spin()
    if relay.refused:
        told = ", ".join(f"{count} x {reason}" for reason, count in sorted(relay.refused.items()))
        node.get_logger().info(f"refused: {told}")
    return None


def main() -> int:
    """Run the node; return its exit status."""
    return run("tf_relay", __doc__, OPTIONS, start)
