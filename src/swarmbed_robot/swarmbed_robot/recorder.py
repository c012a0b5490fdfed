"""Records topics unchanged to an MCAP file, for Foxglove, `ros2 bag` and rosbags.

Messages stay serialised, so hundreds of topics can be recorded. A topic is recorded from its discovery on,
with the quality of service that its publishers offer. Messages are stamped with the node's clock. With
`--ros-args -p use_sim_time:=true` this is the simulation's clock, from the first message of /clock on.

A pattern is a topic's name, a name with wildcards (`/dots*/odom`), or a regular expression
(`/dots[1-3]/(odom|tf)`). Without patterns, all topics except images are recorded. Hidden topics are never
recorded.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import re
from collections import deque
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from time import strftime
from typing import TYPE_CHECKING, Any

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from mcap.writer import CompressionType, Writer
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import LISTEN, Spinner, run
from swarmbed_robot.options import Option

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rclpy.duration import Duration
    from rclpy.node import Node
    from rclpy.subscription import Subscription
    from rclpy.topic_endpoint_info import TopicEndpointInfo

OPTIONS = (
    Option("out", "", "file, or directory (a name without .mcap); none: runs/recording-<time>.mcap"),
    Option("topics", [], "names or patterns of the topics; none: all except */image*"),
    Option("max_size_mb", 0.0, "maximum size of the file, in MB; 0: unlimited", low=0.0),
    Option("max_duration", 0.0, "maximum duration, in seconds of the node's clock; 0: unlimited", low=0.0),
    Option("rediscover", 1.0, "seconds between searches for new topics", low=0.05),
)

SUFFIX = ".mcap"
UNWANTED = "*/image*"
DEPTH = 100
"""Messages per topic that may be queued while a chunk is compressed."""
WORTH = 50_000
"""Pending bytes from which it is worth compressing them before deciding that the file is full."""
KEPT = 2.0
"""Interval in seconds at which recorded messages are flushed to disk."""
MB = 1_000_000

# Upper bounds of MCAP's overhead in bytes: per file, per message with its index, per channel with its schema
# except their texts, per chunk, and per channel in a chunk's index.
_FRAME, _MESSAGE, _CHANNEL, _CHUNK, _INDEX = 1000, 31 + 16, 150, 250, 25

_BUILT_IN = frozenset(
    {"bool", "byte", "char", "string", "wstring", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
_SEPARATOR = "=" * 80
EARLY_MAX = 1000
"""Maximum number of messages kept before the clock starts."""


def place(out: str) -> Path:
    """Return the file for a value of the option `out`."""
    path = Path(out or "runs")
    is_file = path.suffix == SUFFIX if not path.exists() else not path.is_dir()
    return path if is_file else path / f"recording-{strftime('%Y%m%d-%H%M%S')}{SUFFIX}"


def is_wanted(topic: str, patterns: Sequence[str]) -> bool:
    """Return whether to record a topic: hidden ones never, others by the patterns, or all except images."""
    if any(token.startswith("_") for token in topic.split("/")):
        return False
    if not patterns:
        return not fnmatchcase(topic, UNWANTED)
    return any(_matches(topic, pattern) or _matches(topic, f"/{pattern}") for pattern in patterns)


def _matches(topic: str, pattern: str) -> bool:
    if fnmatchcase(topic, pattern):
        return True
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False


def definition(kind: str) -> str | None:
    """Return the definition of a message type with all its parts; None if one of them is not installed.

    Args:
        kind: the type, such as `geometry_msgs/msg/Twist`.
    """
    texts: dict[str, str] = {}
    left = [kind]
    while left:
        name = left.pop(0)
        if name in texts:
            continue
        text = _text(name)
        if text is None:
            return None
        texts[name] = text
        left += _parts(name, text)
    pieces = [texts.pop(kind)]
    for name, text in texts.items():
        pieces.append(f"{_SEPARATOR}\nMSG: {name.replace('/msg/', '/')}\n{text}")
    return "".join(piece if piece.endswith("\n") else f"{piece}\n" for piece in pieces)


def _text(kind: str) -> str | None:
    """Return the content of a type's .msg file; None if it is not installed."""
    package, _, name = kind.partition("/msg/")
    try:
        folder = Path(get_package_share_directory(package))
        return (folder / "msg" / f"{name}.msg").read_text(encoding="utf-8")
    except (PackageNotFoundError, ValueError, OSError):
        return None


def _parts(kind: str, text: str) -> Iterator[str]:
    """Yield the message types of a message's fields."""
    for line in text.splitlines():
        found = re.match(r"\s*([A-Za-z][\w/]*)", line)
        if found is None or found[1] in _BUILT_IN:
            continue
        package, _, name = found[1].rpartition("/")
        yield f"{package.removesuffix('/msg') or kind.partition('/')[0]}/msg/{name}"


def _offered(publishers: Sequence[TopicEndpointInfo]) -> str:
    """Return the QoS that publishers offer, in the format of ros2 bag: numbers of rmw's enumerations."""
    return "\n".join(_profile(publisher.qos_profile) for publisher in publishers)


def _profile(profile: QoSProfile) -> str:
    # Fast DDS does not announce the history, and ros2 bag play cannot offer an unknown one.
    latched = profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    known = profile.history in {HistoryPolicy.KEEP_LAST, HistoryPolicy.KEEP_ALL}
    history = profile.history if known else HistoryPolicy.KEEP_LAST
    depth = profile.depth or (1 if latched else 10)
    return (
        f"- {{history: {int(history)}, depth: {depth}, reliability: {int(profile.reliability)}, "
        f"durability: {int(profile.durability)}, deadline: {_span(profile.deadline)}, "
        f"lifespan: {_span(profile.lifespan)}, liveliness: {int(profile.liveliness)}, "
        f"liveliness_lease_duration: {_span(profile.liveliness_lease_duration)}, "
        f"avoid_ros_namespace_conventions: {str(profile.avoid_ros_namespace_conventions).lower()}}}"
    )


def _span(duration: Duration) -> str:
    seconds, nanoseconds = divmod(duration.nanoseconds, 10**9)
    return f"{{sec: {seconds}, nsec: {nanoseconds}}}"


class _Topic:
    """A recorded topic."""

    __slots__ = ("channel", "count", "kind", "name", "publishers", "subscription")

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = ""
        self.publishers: Sequence[TopicEndpointInfo] = ()
        self.subscription: Subscription | None = None
        self.channel = 0
        self.count = 0


class Recorder:
    """Writes received messages to a file.

    Attributes:
        file: the file.
        messages: number of messages written.
        ended: reason why recording has ended; None while it goes on.
    """

    def __init__(
        self,
        node: Node,
        file: Path,
        topics: Sequence[str] = (),
        max_size: float = 0.0,
        max_duration: float = 0.0,
        rediscover: float = 1.0,
    ) -> None:
        """Start to record.

        Args:
            node: node of the subscriptions.
            file: file to write; it must not exist.
            topics: patterns; empty: all topics except images.
            max_size: maximum size of the file, in bytes; 0: unlimited.
            max_duration: maximum duration, in seconds of the node's clock; 0: unlimited.
            rediscover: seconds between searches for new topics.

        Raises:
            RobotError: the file exists, or cannot be written.
        """
        self.file = file
        self.messages = 0
        self.ended: str | None = None
        self._node = node
        self._clock = node.get_clock()
        self._patterns = tuple(topics)
        self._max_size = max_size
        self._max_nanoseconds = int(max_duration * 1e9)
        self._begin: int | None = None
        self._topics: dict[str, _Topic] = {}
        self._unusable: set[str] = set()
        self._schemas: dict[str, int] = {}
        self._failure: OSError | None = None
        self._early: deque[tuple[_Topic, bytes]] = deque(maxlen=EARLY_MAX)
        # To estimate the size of the finished file: bytes of entries that are written twice, channels,
        # chunks, and messages pending since the last chunk, which ended at `_at`.
        self._entered = 0
        self._channels = 0
        self._chunks = 0
        self._pending = 0
        self._at = 0
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._stream = file.open("xb")
            # Tells `swarmbed mend` that the file is being written.
            with contextlib.suppress(OSError):
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileExistsError as error:
            what = "already exists" if file.exists() else f"cannot be written ({error.strerror})"
            problem = f"{file}: {what}"
            raise RobotError(problem) from None
        except OSError as error:
            raise self._failed(error) from None
        self._writer: Writer | None = Writer(self._stream, compression=CompressionType.ZSTD)
        self._writer.start(profile="ros2", library="swarmbed")
        self.look()
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(rediscover, self.look, clock=steady)
        node.create_timer(KEPT, self.keep, clock=steady)

    def look(self) -> None:
        """Subscribe to new topics, and end the recording when its maximum duration is over."""
        now = self._clock.now().nanoseconds
        if self.ended is not None:
            return
        if self._begin is None and now:
            self._begin = now
        if self._is_late(now):
            return
        for name, _ in self._node.get_topic_names_and_types():
            topic = self._topics.get(name)
            if topic is None:
                if not is_wanted(name, self._patterns):
                    continue
                topic = self._topics[name] = _Topic(name)
            self._follow(topic)

    def keep(self) -> None:
        """Flush the recording to disk, so that `swarmbed mend` can recover it if the process is killed."""
        if self._writer is None or self._failure is not None:
            return
        try:
            self._writer.flush()  # type: ignore[no-untyped-call]
        except OSError as error:
            self._failure = error
            self.ended = "the file cannot be written"

    def close(self) -> None:
        """Finish the file.

        Raises:
            RobotError: the file could not be written, now or earlier.
        """
        for topic in self._topics.values():
            if topic.subscription is not None:
                self._node.destroy_subscription(topic.subscription)
        self._topics.clear()
        if self._writer is not None:
            writer, self._writer = self._writer, None
            self.ended = self.ended or "closed"
            try:
                if self._failure is None:
                    writer.finish()  # type: ignore[no-untyped-call]
                    self._stream.close()
            except OSError as error:
                self._failure = error
        if self._failure is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
            raise self._failed(self._failure)

    def _failed(self, error: OSError) -> RobotError:
        return RobotError(f"{self.file}: cannot be written ({error.strerror or error})")

    def _follow(self, topic: _Topic) -> None:
        """Subscribe to a topic with a QoS that is compatible with all its publishers."""
        count = self._node.count_publishers(topic.name)
        if topic.kind in self._unusable or count in {0, len(topic.publishers)}:
            return
        publishers = self._node.get_publishers_info_by_topic(topic.name)
        if not publishers:
            return
        topic.publishers = publishers
        topic.kind = topic.kind or publishers[0].topic_type
        offers = [publisher.qos_profile for publisher in publishers]
        lossy = any(offer.reliability == ReliabilityPolicy.BEST_EFFORT for offer in offers)
        latched = all(offer.durability == DurabilityPolicy.TRANSIENT_LOCAL for offer in offers)
        wanted = QoSProfile(
            depth=DEPTH,
            reliability=ReliabilityPolicy.BEST_EFFORT if lossy else ReliabilityPolicy.RELIABLE,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
        )
        old = topic.subscription
        if old is not None:
            # A subscription that requests less than a publisher offers is compatible.
            has = old.qos_profile
            deaf = (lossy and has.reliability == ReliabilityPolicy.RELIABLE) or (
                not latched and has.durability == DurabilityPolicy.TRANSIENT_LOCAL
            )
            if not deaf:
                return
            self._node.destroy_subscription(old)
            topic.subscription = None
        kind = self._class(topic)
        if kind is not None:
            take = partial(self._take, topic)
            topic.subscription = self._node.create_subscription(kind, topic.name, take, wanted, raw=True)

    def _class(self, topic: _Topic) -> Any:
        """Return the class of a topic's messages; None if it is not installed."""
        package, _, name = topic.kind.partition("/msg/")
        try:
            return getattr(importlib.import_module(f"{package}.msg"), name)
        except (ImportError, AttributeError, ValueError):
            self._unusable.add(topic.kind)
            self._node.get_logger().warning(
                f"{topic.name} is not recorded: its type {topic.kind} is not installed"
            )
            return None

    def _take(self, topic: _Topic, data: bytes) -> None:
        """Write a message."""
        if self.ended is not None or self._writer is None:
            return
        now = self._clock.now().nanoseconds
        if now == 0:
            # The world has not started, or its clock has not been received yet.
            self._early.append((topic, data))
            return
        if self._begin is None:
            self._begin = now
        if self._is_late(now):
            return
        while self._early and self.ended is None:
            self._write(*self._early.popleft(), now)
        self._write(topic, data, now)

    def _write(self, topic: _Topic, data: bytes, now: int) -> None:
        if self.ended is not None or self._writer is None:
            return
        try:
            if topic.channel == 0:
                topic.channel = self._new_channel(self._writer, topic)
            size = len(data) + _MESSAGE
            if self._max_size and not self._has_room(self._writer, size):
                self.ended = f"the file has reached {self._max_size / MB:g} MB"
                return
            topic.count += 1
            self._writer.add_message(topic.channel, now, data, now, topic.count)
            self._pending += size
            self.messages += 1
        except OSError as error:
            self._failure = error
            self.ended = "the file cannot be written"

    def _is_late(self, now: int) -> bool:
        """Return whether the maximum duration is over; if so, end the recording."""
        if self._max_nanoseconds and self._begin is not None and now - self._begin > self._max_nanoseconds:
            self.ended = f"{self._max_nanoseconds / 1e9:g} s have passed"
            return True
        return False

    def _has_room(self, writer: Writer, size: int) -> bool:
        """Return whether the file stays within its maximum size with `size` more bytes."""
        if self._size() + size <= self._max_size:
            return True
        if self._pending < WORTH:
            return False
        writer.flush()  # type: ignore[no-untyped-call]
        return self._size() + size <= self._max_size

    def _size(self) -> int:
        """Return an upper bound of the file's size if it were finished now."""
        at = self._stream.tell()
        if at != self._at:
            self._at = at
            self._chunks += 1
            self._pending = 0
        chunks = (self._chunks + 1) * (_CHUNK + _INDEX * self._channels)
        # Incompressible data grows by less than 1 %.
        return _FRAME + at + self._pending + self._pending // 100 + self._entered + chunks

    def _new_channel(self, writer: Writer, topic: _Topic) -> int:
        """Register a topic, with the definition of its type and its QoS for ros2 bag play."""
        schema = self._schemas.get(topic.kind)
        if schema is None:
            text = definition(topic.kind)
            if text is None:
                self._node.get_logger().warning(
                    f"{topic.name}: the file lacks the definition of {topic.kind}, which is not installed"
                )
            data = (text or "").encode()
            schema = writer.register_schema(topic.kind, "ros2msg" if text is not None else "", data)
            self._schemas[topic.kind] = schema
            self._entered += 2 * len(data)
        metadata = {"offered_qos_profiles": _offered(topic.publishers)}
        code = str(topic.publishers[0].topic_type_hash)
        if code.startswith("RIHS"):
            metadata["topic_type_hash"] = code
        self._channels += 1
        self._entered += 2 * (_CHANNEL + len(topic.name) + len(topic.kind) + sum(map(len, metadata.values())))
        return writer.register_channel(topic.name, "cdr", schema, metadata)


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> int | None:
    """Record until the process is asked to end, or a limit is reached."""
    recorder = Recorder(
        node,
        place(options["out"]),
        options["topics"],
        options["max_size_mb"] * MB,
        options["max_duration"],
        options["rediscover"],
    )
    log = node.get_logger()
    log.info(f"recording to {recorder.file}")
    try:
        while not spinner.stopping and recorder.ended is None:
            spinner.once(LISTEN)
    finally:
        why = recorder.ended
        recorder.close()
    if why is not None:
        log.info(f"recording stops: {why}")
    size = recorder.file.stat().st_size / MB
    log.info(f"{recorder.messages} messages, {size:.3f} MB written to {recorder.file}")
    return None


def main() -> int:
    """Run the node; return its exit status."""
    return run("recorder", __doc__, OPTIONS, start)
