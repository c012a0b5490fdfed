"""The world's side of `part_server`: the parts of a robot in another process or on another machine."""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.device import (
    CompassReading,
    CornerReading,
    ImuReading,
    LifterReading,
    MotorReading,
    PowerReading,
    RadioPacket,
    RangeReading,
)

from swarmbed_reality import part_server as wire
from swarmbed_reality.clocks import ClockFilter
from swarmbed_reality.errors import RealityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from swarmbed_core.device import Clock
    from swarmbed_core.geometry import FloatArray

RATE = 100.0
"""Readings per second that a world asks for."""
HOLD = 0.3
"""Seconds that the robot's set-points hold after the newest datagram."""
LOST = 0.5
"""Seconds without readings after which a robot counts as lost."""
AGAIN = 0.5
"""Seconds between two attempts to reach a lost robot."""
DRAINED = 200
"""Datagrams that are handled in one cycle at most."""
KEPT = 1000
"""Readings of radios and cameras that are kept for who reads them."""


class Link:
    """A session with the part server of one robot. `read` and `write` never block.

    Attributes:
        name: of the robot.
        parts: names of the parts that the robot has; empty before the first session.
        there: whether readings come.
        losses: how often they ceased to come.
        refused: number of datagrams without a valid signature, or that were old or invalid.
        clock: filter of the robot's clock.
    """

    def __init__(
        self,
        name: str,
        key: bytes,
        address: str,
        *,
        rate: float = RATE,
        hold: float = HOLD,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open a socket; the session begins with the first `poll`.

        Raises:
            RealityError: key or address is not valid.
        """
        if len(key) < wire.SHORTEST_KEY:
            message = f"{name}: the key has {len(key)} bytes: expected at least {wire.SHORTEST_KEY}"
            raise RealityError(message)
        try:
            self._socket, self._target = wire.open_socket(address, serve=False)
        except (OSError, ValueError) as error:
            message = f"{name}: {error}"
            raise RealityError(message) from None
        self.name = name
        self.parts: tuple[str, ...] = ()
        self.there = False
        self.losses = 0
        self.refused = 0
        self.clock = ClockFilter()
        self._key, self._rate, self._hold, self._now = key, rate, hold, now
        self._nonce = b""
        self._session: bytes | None = None
        self._asked = self._heard = -math.inf
        self._number = 0
        self._newest = -1
        self._echoed = -math.inf
        self._set: dict[str, Any] = {}
        self._once: dict[str, list[bytes]] = {}
        self._readings: dict[str, Any] = {}
        self._queues: dict[str, list[Any]] = {}

    def poll(self) -> None:
        """Handle what has arrived; look for the robot if it is lost."""
        for _ in range(DRAINED):
            try:
                data = self._socket.recv(wire.LARGEST)
            except (BlockingIOError, ConnectionError):
                break
            self._handle(data)
        now = self._now()
        if self.there and now - self._heard > LOST:
            self.there = False
            self.losses += 1
            self._session = None
        if not self.there and now - self._asked > AGAIN:
            self._asked = now
            self._nonce = secrets.token_bytes(wire.TAG)
            hello = {"name": self.name, "nonce": self._nonce, "rate": self._rate}
            self._send(self._key, wire.HELLO, hello)

    def write(self, part: str, value: Any) -> None:
        """Change a part's set-point; it is sent with the next `flush`."""
        self._set[part] = value

    def send(self, radio: str, payload: bytes) -> None:
        """Send a payload by a radio with the next `flush`, once."""
        self._once.setdefault(radio, []).append(payload)

    def flush(self) -> None:
        """Send all set-points."""
        once, self._once = self._once, {}
        if self._session is not None:
            self._send(self._session, wire.SET, {"hold": self._hold, "set": {**self._set, **once}})

    def newest(self, part: str) -> Any:
        """Return the newest reading of a part, with a stamp of `now`; None if there is none."""
        return self._readings.get(part)

    def take(self, part: str) -> Any:
        """Return the newest reading of a part that was not taken yet; None if there is none."""
        return self._readings.pop(part, None)

    def queue(self, part: str) -> list[Any]:
        """Return the readings of a radio or of cameras since the last call."""
        return self._queues.pop(part, [])

    def close(self) -> None:
        """End the session: the robot stops."""
        if self._session is not None:
            self._send(self._session, wire.BYE, {})
        self._socket.close()

    def _send(self, key: bytes, kind: int, content: Mapping[str, Any]) -> None:
        self._number += 1
        data = wire.pack(key, kind, self._number, self._now(), content)
        if self._target is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto(data, self._target)

    def _handle(self, data: bytes) -> None:
        """Handle a datagram."""
        arrived = self._now()
        try:
            if self._session is not None and wire.is_signed(data, self._session):
                self._take_readings(data, arrived)
            elif wire.is_signed(data, self._key):
                self._begin(data)
            else:
                self.refused += 1
        except wire.WireError:
            self.refused += 1

    def _begin(self, data: bytes) -> None:
        """Start the session that the robot offers."""
        kind, _, _, content = wire.unpack(data)
        answer, parts = content.get("answer"), content.get("parts")
        own = kind == wire.WELCOME and content.get("nonce") == self._nonce
        if not (own and isinstance(answer, bytes) and len(answer) == wire.TAG and isinstance(parts, list)):
            message = "not an answer to the newest hello"
            raise wire.WireError(message)
        self._session = wire.session_key(self._key, self._nonce, answer)
        self._newest = -1
        self._echoed = -math.inf
        self.clock = ClockFilter()
        self.parts = tuple(str(part) for part in parts)
        # The robot switches over when it gets the first set-points.
        self.flush()

    def _take_readings(self, data: bytes, arrived: float) -> None:
        """Take a robot's readings."""
        kind, number, sent, content = wire.unpack(data)
        if kind == wire.BYE:
            self._heard = -math.inf
            return
        read, heard = content.get("read"), content.get("heard")
        if kind != wire.READ or number <= self._newest or not isinstance(read, dict):
            message = "older than the newest"
            raise wire.WireError(message)
        self._newest, self._heard, self.there = number, arrived, True
        self.clock.inward(sent, arrived)
        if isinstance(heard, list) and len(heard) == 2 and heard[0] != self._echoed:
            self._echoed = heard[0]
            self.clock.outward(*heard)
        for part, value in read.items():
            try:
                if part.startswith(("radios/", "cameras")):
                    kept = self._queues.setdefault(part, [])
                    kept += [self._stamped(part, item) for item in value]
                    del kept[:-KEPT]
                else:
                    self._readings[part] = self._stamped(part, value)
            except (TypeError, ValueError, KeyError):
                self.refused += 1

    def _stamped(self, part: str, value: Any) -> Any:
        """Return a reading with a stamp of our clock; NaN while the robot's clock is unknown."""
        stamp, *rest = value
        here = self.clock.here(float(stamp))
        return READINGS[part.partition("/")[0]](here, *rest)


def _array(values: Any) -> FloatArray:
    made: FloatArray = np.array(values, dtype=np.float64)
    if made.ndim != 1 or len(made) > KEPT:
        message = f"an array of shape {made.shape}"
        raise ValueError(message)
    return made


def _corners(stamp: float, camera: Any, ids: Any, corners: Any) -> CornerReading:
    numbers = np.array(ids, dtype=np.int64).reshape(-1)
    return CornerReading(
        stamp, str(camera), numbers, np.array(corners, np.float64).reshape(len(numbers), 4, 2)
    )


def _packet(
    stamp: float, sender: Any, payload: Any, rssi: float | None = None, distance: float | None = None
) -> RadioPacket:
    if not isinstance(payload, bytes):
        message = f"a payload of type {type(payload).__name__}"
        raise TypeError(message)
    return RadioPacket(stamp, str(sender), payload, rssi, distance)


READINGS: Mapping[str, Callable[..., Any]] = {
    "motors": lambda stamp, travel, speeds, effort=0.0: MotorReading(
        stamp, _array(travel), _array(speeds), float(effort)
    ),
    "imu": lambda stamp, gyro, accel: ImuReading(
        stamp, tuple(_array(gyro).tolist()), tuple(_array(accel).tolist())
    ),
    "compass": lambda stamp, heading: CompassReading(stamp, float(heading)),
    "ranges": lambda stamp, distances: RangeReading(stamp, _array(distances)),
    "lifter": lambda stamp, height: LifterReading(stamp, float(height)),
    "power": lambda stamp, cells, current: PowerReading(stamp, tuple(_array(cells).tolist()), float(current)),
    "cameras": _corners,
    "radios": _packet,
}


class _Part:
    """A remote part of a robot in a world."""

    def __init__(self, link: Link, part: str, clock: Clock, now: Callable[[], float]) -> None:
        self._link, self._part, self._clock, self._now = link, part, clock, now

    def _in_world(self, reading: Any) -> Any:
        """Return a reading with a stamp of the world's clock."""
        if reading is None:
            return None
        return reading._replace(stamp=self._clock.time - (self._now() - reading.stamp))


class RemoteMotors(_Part):
    """Wheels elsewhere. Reading them polls the link, driving them sends all set-points."""

    def __init__(self, link: Link, clock: Clock, wheels: int, now: Callable[[], float]) -> None:
        """Create the part; the wheels stand and are enabled."""
        super().__init__(link, "motors", clock, now)
        self._on, self._speeds = True, [0.0] * wheels

    def enable(self, on: bool) -> None:
        """Switch the drives on or off."""
        self._on = bool(on)

    def drive(self, speeds: FloatArray) -> None:
        """Set the wheel speeds, and send all set-points."""
        self._speeds = [float(speed) for speed in speeds]
        self._link.write("motors", [self._on, self._speeds])
        self._link.flush()

    def read(self) -> MotorReading:
        """Return the newest reading.

        Raises:
            RealityError: there is none yet.
        """
        self._link.poll()
        reading: MotorReading | None = self._in_world(self._link.newest("motors"))
        if reading is None or not math.isfinite(reading.stamp):
            message = f"{self._link.name}: no reading of its wheels yet"
            raise RealityError(message)
        return reading


class RemoteSense(_Part):
    """A sense elsewhere: IMU, compass, a ring of distance sensors, lifter, or battery."""

    def __init__(
        self, link: Link, part: str, clock: Clock, now: Callable[[], float], *, again: bool = False
    ) -> None:
        """Create the part; with `again`, it returns its newest reading repeatedly."""
        super().__init__(link, part, clock, now)
        self._again = again

    def read(self) -> Any:
        """Return the newest reading, None if there is nothing new.

        Raises:
            RealityError: there is none yet, of a part that always has one.
        """
        link, part = self._link, self._part
        reading = self._in_world(link.newest(part) if self._again else link.take(part))
        if reading is None and self._again:
            message = f"{link.name}: no reading of {part} yet"
            raise RealityError(message)
        return reading

    def move(self, height: float) -> None:
        """Set the height of a lifter."""
        self._link.write(self._part, float(height))

    def enable(self, on: bool) -> None:
        """Switch the supplies on or off."""
        self._link.write(self._part, bool(on))


class RemoteQueue(_Part):
    """Cameras or a radio elsewhere."""

    def read(self) -> Sequence[Any]:
        """Return the new readings, oldest first."""
        return [self._in_world(reading) for reading in self._link.queue(self._part)]

    def send(self, payload: bytes) -> bool:
        """Broadcast bytes; return whether the robot is there."""
        self._link.send(self._part, payload)
        return self._link.there


class RemoteLeds:
    """Lights elsewhere."""

    def __init__(self, link: Link) -> None:
        """Create the part."""
        self._link = link

    def show(self, colours: Sequence[int]) -> None:
        """Show one packed colour per light."""
        self._link.write("leds", [int(colour) for colour in colours])
