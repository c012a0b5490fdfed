"""Simulated radios (III-A6): reach, signal strength, ranging and packet loss.

BLE modules advertise a little data and report the received signal strength (RSSI), which falls with the
logarithm of the distance. UWB modules measure the distance itself to about 0.1 m. Packet radios and
infrared links carry messages to all robots within range, and within a beam around the sender's heading.
One `RadioModel` is the medium that all robots of a world share; each robot has a `RadioPort` on it.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from swarmbed_core.device import RadioPacket
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import TAU
from swarmbed_core.health import Health
from swarmbed_core.kernel import kernel
from swarmbed_core.watchdog import TOLERANCE, Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from swarmbed_core.device import Clock
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Radio

    IntArray = NDArray[np.int64]

# Least distance between antennas, in metres; it keeps the logarithm finite.
CLOSEST: Final = 0.01
# Assumed: packets that a receiver keeps until they are read; beyond that the oldest are dropped.
QUEUE: Final = 64
BEACONS: Final = ("ble", "uwb")


@kernel
def mean_rssi(distance: float, rssi_at_1m: float, exponent: float) -> float:
    """Return the mean received power in dBm by the log-distance model of path loss."""
    return rssi_at_1m - 10.0 * exponent * math.log10(max(distance, CLOSEST))


@kernel
def mean_rssi_k(distances: FloatArray, rssi_at_1m: float, exponent: float, powers: FloatArray) -> None:
    """Write the mean received powers, in dBm, at some distances."""
    for i in range(distances.shape[0]):
        powers[i] = mean_rssi(distances[i], rssi_at_1m, exponent)


@kernel
def heard_distance(poses_map: FloatArray, sender: int, receiver: int, range_max: float, beam: float) -> float:
    """Return the distance between sender and receiver, or -1 if the receiver is out of reach.

    A robot never receives its own packets. A robot without a finite pose is off the air.

    Args:
        poses_map: one row (x, y, yaw) per robot.
        sender: row of the sender.
        receiver: row of the receiver.
        range_max: the radio's reach in metres, inclusive.
        beam: full angle, around the sender's heading, of the sector it reaches.
    """
    dx = poses_map[receiver, 0] - poses_map[sender, 0]
    dy = poses_map[receiver, 1] - poses_map[sender, 1]
    distance = math.hypot(dx, dy)
    yaw = poses_map[sender, 2]
    if sender == receiver or not distance <= range_max or not math.isfinite(yaw):
        return -1.0
    if beam >= TAU:
        return distance
    ahead = dx * math.cos(yaw) + dy * math.sin(yaw)
    return distance if ahead >= distance * math.cos(0.5 * beam) else -1.0


@kernel
def hearers_k(
    poses_map: FloatArray,
    range_max: float,
    beam: float,
    senders: IntArray,
    receivers: IntArray,
    distances: FloatArray,
) -> int:
    """Write all pairs of sender and receiver within reach, and their distances; return their number."""
    count = 0
    for sender in range(poses_map.shape[0]):
        if not math.isfinite(poses_map[sender, 0]):
            continue
        for receiver in range(poses_map.shape[0]):
            distance = heard_distance(poses_map, sender, receiver, range_max, beam)
            if distance >= 0.0:
                senders[count], receivers[count], distances[count] = sender, receiver, distance
                count += 1
    return count


@kernel
def hear(poses_map: FloatArray, sender: int, range_max: float, beam: float, distances: FloatArray) -> None:
    """Write the distance of every robot within reach of one sender, -1 for the others."""
    for receiver in range(poses_map.shape[0]):
        distances[receiver] = heard_distance(poses_map, sender, receiver, range_max, beam)


class RadioModel:
    """The medium that the robots of a world share: one kind of radio, one for each robot.

    BLE and UWB radios advertise periodically at the spec's rate. The others send on request, no more often
    than that rate; half a period of jitter is accepted.

    Attributes:
        sent: number of packets with a payload that were sent.
        heard: number of receptions of such packets.
        lost: number of receptions of such packets, within reach of the sender, that failed.
    """

    __slots__ = (
        "_distances",
        "_due",
        "_loaded",
        "_outbox",
        "_pace",
        "_pairs",
        "_queues",
        "_reach",
        "_rng",
        "_room",
        "_sent_at",
        "health",
        "heard",
        "loss",
        "lost",
        "names",
        "radio",
        "sent",
    )

    def __init__(
        self,
        radio: Radio,
        rng: np.random.Generator,
        names: Sequence[str],
        *,
        loss: float | None = None,
        queue: int = QUEUE,
        health: Health | None = None,
    ) -> None:
        """Give each robot a radio.

        Args:
            radio: the radio's data from the robot's spec.
            rng: random generator for losses and noise.
            names: names of the robots, in the order of the poses.
            loss: share of the receptions that fail; the spec's if None.
            queue: how many packets a robot keeps until it reads them.
            health: counters of refused inputs; a new one if None.

        Raises:
            ConfigError: two robots have the same name, or a number is out of bounds.
        """
        share = radio.loss if loss is None else loss
        if not 0 <= share <= 1:
            message = f"radio {radio.name}: loss {share} must be within 0..1"
            raise ConfigError(message)
        if queue < 1:
            message = f"radio {radio.name}: queue {queue} must be at least 1"
            raise ConfigError(message)
        if len(set(names)) != len(names):
            message = f"radio {radio.name}: two robots have the same name among {', '.join(names)}"
            raise ConfigError(message)
        self.radio = radio
        self.names: tuple[str, ...] = ()
        self.loss = share
        self.health = Health() if health is None else health
        self.sent = 0
        self.heard = 0
        self.lost = 0
        self._rng = rng
        self._pace = Pace(radio.rate)
        self._room = queue
        self._distances = np.empty(0)
        # Buffers for all pairs within reach.
        self._pairs = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        self._reach = np.empty(0)
        self._loaded = np.empty(0, dtype=np.bool_)
        self._queues: list[deque[RadioPacket]] = []
        self._outbox: list[list[bytes]] = []
        self._sent_at: list[float] = []
        self._due: list[float] = []
        self._add(names)

    def _add(self, names: Sequence[str]) -> None:
        count, beacon = len(names), self.radio.kind in BEACONS
        self.names += tuple(names)
        self._distances = np.empty(len(self.names))
        self._loaded = np.append(self._loaded, np.zeros(count, dtype=np.bool_))
        self._queues += [deque(maxlen=self._room) for _ in names]
        self._outbox += [[b""] if beacon else [] for _ in names]
        self._sent_at += [-math.inf] * count
        self._due += [-math.inf] * count

    def add(self, name: str) -> None:
        """Give one more robot a radio; its index is the last.

        Raises:
            ConfigError: a robot of this name already has one.
        """
        if name in self.names:
            message = f"radio {self.radio.name}: there is already a robot '{name}'; use another name"
            raise ConfigError(message)
        self._add([name])

    def remove(self, index: int) -> None:
        """Remove a robot's radio and its unsent packets; later indices decrease by one."""
        self.names = self.names[:index] + self.names[index + 1 :]
        self._distances = np.empty(len(self.names))
        self._loaded = np.delete(self._loaded, index)
        del self._queues[index], self._outbox[index], self._sent_at[index], self._due[index]

    def port(self, name: str, clock: Clock) -> RadioPort:
        """Return one robot's radio.

        Raises:
            ConfigError: there is no such robot.
        """
        if name not in self.names:
            message = f"radio {self.radio.name}: no robot '{name}' among {', '.join(self.names)}"
            raise ConfigError(message)
        return RadioPort(self, self.names.index(name), clock)

    def send(self, sender: int, payload: bytes | bytearray, now: float) -> bool:
        """Queue a payload for the next step; for a radio that advertises, replace its advertisement.

        Args:
            sender: the robot's index.
            payload: at most the spec's `payload_bytes`.
            now: the clock's time.

        Returns:
            Whether it will be sent; if not, the reason is counted in `health`.
        """
        if not isinstance(payload, (bytes, bytearray)):
            kind = type(payload).__name__
            self.health.refuse("radio.not_bytes", f"{self._whose(sender)}: found {kind}, expected bytes")
            return False
        if len(payload) > self.radio.payload_bytes:
            found, most = len(payload), self.radio.payload_bytes
            self.health.refuse("radio.too_long", f"{self._whose(sender)}: {found} bytes, at most {most} fit")
            return False
        if self.radio.kind in BEACONS:
            self._outbox[sender] = [bytes(payload)]
            self._loaded[sender] = len(payload) > 0
            return True
        if not self._is_in_time(sender, now):
            return False
        self._outbox[sender].append(bytes(payload))
        return True

    def step(self, now: float, poses_map: FloatArray) -> None:
        """Deliver queued packets and due advertisements to the robots in reach.

        Args:
            now: the clock's time, the stamp of the received packets.
            poses_map: one row (x, y, yaw) per robot; one with a NaN is off the air.
        """
        if not math.isfinite(now):
            self.health.refuse("radio.clock", f"time {now} must be finite")
            return
        poses = np.ascontiguousarray(poses_map, dtype=np.float64)
        if poses.shape != (len(self.names), 3):
            expected = f"expected {len(self.names)} x 3"
            self.health.refuse("radio.poses", f"found poses of shape {poses.shape}, {expected}")
            return
        if self.radio.kind not in BEACONS:
            for sender, payloads in enumerate(self._outbox):
                for payload in payloads:
                    self._transmit(now, poses, sender, payload)
                payloads.clear()
        elif self._pace.due(now):
            self._advertise(now, poses)

    def read(self, receiver: int) -> list[RadioPacket]:
        """Return the packets that a robot received and has not read, oldest first."""
        queue = self._queues[receiver]
        packets = list(queue)
        queue.clear()
        return packets

    def rssi(self, distances: FloatArray) -> FloatArray | None:
        """Return received powers in dBm with noise; None if this radio does not measure them."""
        at_1m, exponent = self.radio.rssi_at_1m, self.radio.path_loss_exponent
        if at_1m is None or exponent is None:
            return None
        powers = np.empty(len(distances))
        mean_rssi_k(distances, at_1m, exponent, powers)
        powers += self.radio.rssi_sigma * self._rng.standard_normal(len(powers))
        return powers

    def ranges(self, distances: FloatArray) -> FloatArray | None:
        """Return measured distances with noise, never negative; None if this radio does not range."""
        sigma = self.radio.range_sigma
        if sigma is None:
            return None
        measured: FloatArray = np.maximum(distances + sigma * self._rng.standard_normal(len(distances)), 0.0)
        return measured

    def _transmit(self, now: float, poses: FloatArray, sender: int, payload: bytes) -> None:
        hear(poses, sender, self.radio.range_max, self.radio.beam, self._distances)
        reached = np.flatnonzero(self._distances >= 0)
        kept = reached[self._rng.random(len(reached)) >= self.loss]
        if payload:
            self.sent += 1
            self.heard += len(kept)
            self.lost += len(reached) - len(kept)
        self._deliver(now, [sender] * len(kept), kept, self._distances[kept], payload)

    def _advertise(self, now: float, poses: FloatArray) -> None:
        """Deliver the advertisements of all robots."""
        there = np.isfinite(poses[:, 0])
        room = int(there.sum()) ** 2
        if room > len(self._reach):
            self._pairs = (np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64))
            self._reach = np.empty(room)
        senders, receivers = self._pairs
        count = hearers_k(poses, self.radio.range_max, self.radio.beam, senders, receivers, self._reach)
        kept = np.flatnonzero(self._rng.random(count) >= self.loss)
        if self._loaded.any():
            self.sent += int((there & self._loaded).sum())
            loaded = int(self._loaded[senders[:count]].sum())
            heard = int(self._loaded[senders[kept]].sum())
            self.heard += heard
            self.lost += loaded - heard
        self._deliver(now, senders[kept].tolist(), receivers[kept], self._reach[kept])

    def _deliver(
        self,
        now: float,
        senders: Sequence[int],
        receivers: IntArray,
        distances: FloatArray,
        payload: bytes | None = None,
    ) -> None:
        """Queue received packets; without a payload, each carries its sender's advertisement."""
        rssi, ranges = self.rssi(distances), self.ranges(distances)
        names, outbox, queues = self.names, self._outbox, self._queues
        nothing = [None] * len(senders)
        for sender, receiver, power, distance in zip(
            senders,
            receivers.tolist(),
            nothing if rssi is None else rssi.tolist(),
            nothing if ranges is None else ranges.tolist(),
            strict=True,
        ):
            queue = queues[receiver]
            if len(queue) == queue.maxlen:
                dropped = f"{self._whose(receiver)}: dropped the oldest of {queue.maxlen} packets unread"
                self.health.refuse("radio.queue_full", dropped)
            content = outbox[sender][0] if payload is None else payload
            queue.append(RadioPacket(now, names[sender], content, power, distance))

    def _is_in_time(self, sender: int, now: float) -> bool:
        """Return whether the rate allows another packet, and if so record it."""
        if not math.isfinite(now):
            self.health.refuse("radio.clock", f"{self._whose(sender)}: time {now} must be finite")
            return False
        if now < self._sent_at[sender]:
            went = f"time went from {self._sent_at[sender]} to {now}"
            self.health.refuse("radio.clock", f"{self._whose(sender)}: {went}")
            self._due[sender] = -math.inf
        period = 1.0 / self.radio.rate
        due = self._due[sender]
        if now < due - 0.5 * period - TOLERANCE:
            rate = self.radio.rate
            self.health.refuse("radio.too_often", f"{self._whose(sender)}: more than {rate} packets a second")
            return False
        self._sent_at[sender] = now
        self._due[sender] = max(due, now) + period
        return True

    def _whose(self, robot: int) -> str:
        return f"radio {self.radio.name} of {self.names[robot]}"


class RadioPort:
    """One robot's radio on the shared medium: a `RadioPart`."""

    __slots__ = ("_clock", "_index", "_model")

    def __init__(self, model: RadioModel, index: int, clock: Clock) -> None:
        """Connect a robot by its index; `RadioModel.port` does so by name."""
        self._model = model
        self._index = index
        self._clock = clock

    def send(self, payload: bytes) -> bool:
        """Broadcast bytes; return whether they will be sent."""
        return self._model.send(self._index, payload, self._clock.time)

    def read(self) -> Sequence[RadioPacket]:
        """Return the packets received since the last call, oldest first."""
        return self._model.read(self._index)


def distance_from_rssi(rssi: float, radio: Radio) -> float | None:
    """Return the distance with this mean RSSI, capped at the radio's reach.

    Noise in dB is a factor in metres: the median of the estimate is right, its mean is too large.
    None if the radio does not measure RSSI, or the value is not finite.
    """
    at_1m, exponent = radio.rssi_at_1m, radio.path_loss_exponent
    if at_1m is None or exponent is None or not math.isfinite(rssi):
        return None
    # Clip the exponent first: the power would overflow.
    decades = min(max((at_1m - rssi) / (10.0 * exponent), math.log10(CLOSEST)), math.log10(radio.range_max))
    return math.pow(10.0, decades)
