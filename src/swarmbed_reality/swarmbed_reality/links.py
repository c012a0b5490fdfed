"""The world's side of `part_server`: the parts of a robot in another process or on another machine."""

from __future__ import annotations

import math
import secrets
import select
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.device import (
    SENSORS,
    CompassReading,
    CornerReading,
    ImuReading,
    LifterReading,
    MotorReading,
    PowerReading,
    RadioPacket,
    RangeReading,
    SensorReading,
)

from swarmbed_reality import part_server as wire
from swarmbed_reality.clocks import ClockFilter
from swarmbed_reality.errors import RealityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from swarmbed_core.device import Clock
    from swarmbed_core.geometry import FloatArray

RATE = 125.0
"""Readings per second that a world asks for: more than the on-board software's 100, so that none is old."""
HOLD = 0.3
"""Seconds that the robot's set-points hold after the newest datagram."""
LOST = 0.5
"""Seconds without readings after which a robot counts as lost."""
OLDEST = 1.0
"""Age in seconds from which readings are refused."""
AGAIN = 0.5
"""Seconds between two attempts to reach a lost robot."""
TIMEOUT = 5.0
"""Seconds that a world in lockstep waits for an answer; it repeats its question after `REPEATED`."""
REPEATED = 0.25
DRAINED = 200
"""Datagrams that are handled in one cycle at most."""
FAILURES = 50
"""Parts whose errors are kept at most."""
KEPT = 1000
"""Readings of radios and cameras that are kept for who reads them."""
GRACE = 0.1
"""Seconds that a link waits for the first reading once the robot's clock is known; radios may have none."""
SENT = 0.1
"""Seconds after which set-points are repeated."""
SENDABLE = 30_000
"""Bytes of radio payloads in a datagram at most."""
NAP = 0.002
"""Seconds between two looks while waiting for the first answer."""


@dataclass(frozen=True)
class Terms:
    """Times of a link, in seconds, and whether it is in lockstep.

    Attributes:
        rate: readings per second.
        hold: how long set-points hold after the newest datagram.
        lost: time without readings after which a robot counts as lost.
        oldest: age from which readings are refused.
        lockstep: whether the robot's time advances with the world's. `cycle` then waits for the answer.
        timeout: how long it waits.
    """

    rate: float = RATE
    hold: float = HOLD
    lost: float = LOST
    oldest: float = OLDEST
    lockstep: bool = False
    timeout: float = TIMEOUT


class Schedule:
    """How far a world in real time is ahead of this machine's clock.

    Its steps come late now and then, never early. What counts is by how much it is ahead when it is on time:
    the most of the last one to two seconds.
    """

    def __init__(self) -> None:
        """Start without notes."""
        self._bin = -math.inf
        self._most = (-math.inf, -math.inf)

    def note(self, now: float, world: float) -> None:
        """Note the world's time at a time of this machine."""
        ahead = world - now
        if now >= self._bin + 1.0:
            before = self._most[1] if now < self._bin + 2.0 else -math.inf
            self._bin, self._most = now, (before, ahead)
        elif ahead > self._most[1]:
            self._most = (self._most[0], ahead)

    @property
    def ahead(self) -> float:
        """Return by how many seconds the world is ahead."""
        return max(self._most)


class Link:
    """A session with the part server of one robot. Except in lockstep, nothing here blocks but `connect`.

    Attributes:
        robot: its name.
        parts: names of the parts that the robot has; empty before the first session.
        there: whether readings come.
        losses: how often they ceased to come.
        boots: how often the robot was started, as far as it is known.
        refused: number of datagrams without a valid signature, or that were old or invalid.
        stale: number of readings that were too old.
        failures: newest errors of the robot's parts, by their names.
        clock: filter of the robot's clock.
    """

    def __init__(
        self,
        robot: str,
        key: bytes,
        address: str,
        world: Clock,
        terms: Terms = Terms(),
        *,
        what: str = "parts",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open a socket; the session begins with the first `cycle`.

        Args:
            robot: its name.
            key: its secret.
            address: such as `udp://dots1.local:7400` or `unix:///run/dots1.sock`.
            world: the clock of the readings' stamps.
            terms: times.
            what: the parts that are used, for messages.
            now: this machine's clock.

        Raises:
            RealityError: key or address is not valid.
        """
        try:
            self._key = wire.checked_key(key)
            self._socket, self._target = wire.open_socket(address, serve=False)
        except ValueError as error:
            message = f"{robot}: {error}"
            raise RealityError(message) from None
        except OSError as error:
            message = f"{robot}: {address}: {error.strerror or error}"
            raise RealityError(message) from None
        self.robot = robot
        self.parts: tuple[str, ...] = ()
        self.there = False
        self.losses = self.boots = 0
        self.refused = 0
        self.stale = 0
        self.failures: dict[str, str] = {}
        self.clock = ClockFilter()
        self._name = f"{robot}: {what} at {address}"
        self._terms, self._world = terms, world
        self._now = now
        self._nonce = b""
        self._boot: Any = b""
        self._refusal = ""
        self._busy = False
        # When wheel speeds were set, and how long they hold.
        self._driven, self._held = -math.inf, 0.0
        self._session: bytes | None = None
        self._former: bytes | None = None
        self._asked = self._heard = self._sent = -math.inf
        self._number = 0
        self._newest = -1
        self._echoed = self._answered = self._cycle = -math.inf
        self._set: dict[str, Any] = {}
        self._once: dict[str, list[bytes]] = {}
        self._readings: dict[str, Any] = {}
        self._fresh: set[str] = set()
        self._queues: dict[str, list[Any]] = {}
        self._stamps: dict[str, float] = {}
        self._schedule = Schedule()

    # What diagnostics show

    @property
    def name(self) -> str:
        """Return what is connected, for messages."""
        return self._name

    @property
    def real(self) -> bool:
        """Return whether the parts run in real time."""
        return not self._terms.lockstep

    @property
    def state(self) -> Mapping[str, str]:
        """Return details for diagnostics."""
        made = {"refused datagrams": str(self.refused), "stale readings": str(self.stale)}
        made |= {f"failure of {part}": text for part, text in self.failures.items()}
        if self.real and self.clock.known:
            made["clock ahead"] = f"{self.clock.offset(self._now()):.6f} s"
            made["clock fast"] = f"{1e6 * self.clock.skew:.1f} ppm"
            made["clock set"] = f"{self.clock.steps} times"
        return made

    # The cycle

    def connect(self, patience: float) -> None:
        """Wait for the robot's first readings.

        Raises:
            RealityError: it does not answer in time, or its parts cannot be stepped.
        """
        end = time.monotonic() + patience
        self._schedule.note(self._now(), self._world.time)
        while not (self.there and (self.clock.known or self._terms.lockstep)):
            if self._terms.lockstep and self._session is not None:
                self._exchange(self._world.time)
            else:
                self.poll()
                self.flush()
            if self._refusal or time.monotonic() > end:
                nothing = f"no answer in {patience:g} s; start its part server, or correct address or key"
                reason = self._refusal or ("another world uses it" if self._busy else nothing)
                message = f"{self.name}: {reason}"
                raise RealityError(message)
            time.sleep(NAP)
        grace = time.monotonic() + GRACE
        while not self._readings and time.monotonic() < grace:
            self.poll()
            self.flush()
            time.sleep(NAP)

    def cycle(self) -> None:
        """Take what has come, once for each time of the world; in lockstep, advance the robot's time."""
        now = self._world.time
        if now == self._cycle:
            return
        self._cycle = now
        self._schedule.note(self._now(), now)
        if self._terms.lockstep and self._session is not None:
            self._exchange(now)
            return
        self.poll()
        if self._now() - self._sent > min(2.0 / self._terms.rate, SENT):
            # No motors send them each cycle.
            self.flush()

    def poll(self) -> None:
        """Handle what has arrived; look for the robot if it is lost."""
        for _ in range(DRAINED):
            try:
                data = self._socket.recv(wire.LARGEST)
            except (BlockingIOError, ConnectionError):
                break
            self._handle(data)
        now = self._now()
        if self.there and not self._terms.lockstep and now - self._heard > self._terms.lost:
            self._lose()
        if not self.there and now - self._asked > AGAIN:
            self._asked = now
            if self._former is not None:
                # If it still hears this world, it stops, and takes a new session.
                self._send(self._former, wire.BYE, {})
            self._nonce = secrets.token_bytes(wire.TAG)
            self._send(
                self._key,
                wire.HELLO,
                {
                    "name": self.robot,
                    "nonce": self._nonce,
                    "rate": self._terms.rate,
                    "lockstep": self._terms.lockstep,
                },
            )

    def _lose(self) -> None:
        self._former, self._session = self._session or self._former, None
        self.there = False
        self.losses += 1
        self._readings.clear()

    def _exchange(self, now: float) -> None:
        """Send the set-points, and wait until the robot's time is the world's."""
        content: dict[str, Any] = {**self._content(), "time": float(now)}
        end = time.monotonic() + self._terms.timeout
        while self._answered != now and self._session is not None:
            if not self._send(self._session, wire.SET, content):
                self._lose()
                return
            content["set"] = {part: value for part, value in content["set"].items() if part in self._set}
            again = time.monotonic() + REPEATED
            while self._answered != now and (left := again - time.monotonic()) > 0:
                if select.select([self._socket], [], [], left)[0]:
                    self.poll()
            if self._answered != now and time.monotonic() > end:
                self._lose()

    def write(self, part: str, value: Any) -> None:
        """Change a part's set-point; it is sent with the next `flush`."""
        self._set[part] = value

    def send(self, radio: str, payload: bytes) -> bool:
        """Send a payload by a radio with the next `flush`, once; return whether that is possible."""
        size = sum(len(kept) for payloads in self._once.values() for kept in payloads)
        if self._session is None or size + len(payload) > SENDABLE:
            return False
        self._once.setdefault(radio, []).append(payload)
        return self.there

    def drive(self, on: bool, speeds: Sequence[float], hold: float) -> None:
        """Set the wheel speeds, which hold as the terms say or shorter, and send all set-points."""
        self._driven, self._held = self._time(), min(hold, self._terms.hold)
        self.write("motors", [on, speeds])
        self.flush()

    def flush(self) -> None:
        """Send all set-points. In lockstep, `cycle` sends them."""
        if self._session is None or self._terms.lockstep:
            return
        self._sent = self._now()
        self._send(self._session, wire.SET, self._content())

    def _time(self) -> float:
        """Return the time for which speeds hold: in lockstep the robot's."""
        if not self._terms.lockstep:
            return self._now()
        return self._answered if math.isfinite(self._answered) else self._world.time

    def _content(self) -> dict[str, Any]:
        """Return all set-points. Repeating wheel speeds does not extend the time for which they hold."""
        once, self._once = self._once, {}
        wanted, hold = {**self._set, **once}, self._held - (self._time() - self._driven)
        if hold <= 0.0 and "motors" in wanted:
            on, speeds = wanted["motors"]
            wanted["motors"], hold = [on, [0.0] * len(speeds)], self._terms.hold
        return {"hold": min(hold, self._terms.hold), "set": wanted}

    def newest(self, part: str) -> Any:
        """Return the newest reading of a part.

        Raises:
            RealityError: there is none yet, or the robot is lost.
        """
        self.cycle()
        reading = self._readings.get(part)
        if reading is None:
            why = (
                "lost: it does not answer" if self.losses and not self.there else f"no reading of {part} yet"
            )
            message = f"{self.name}: {why}"
            raise RealityError(message)
        return reading

    def take(self, part: str) -> Any:
        """Return the newest reading of a part that was not taken yet; None if there is none."""
        self.cycle()
        if part not in self._fresh:
            return None
        self._fresh.discard(part)
        return self._readings.get(part)

    def queue(self, part: str) -> list[Any]:
        """Return the readings of a radio or of cameras since the last call."""
        self.cycle()
        return self._queues.pop(part, [])

    def close(self) -> None:
        """End the session: the robot stops."""
        session, self._session = self._session, None
        if session is not None:
            self._send(session, wire.BYE, {})
        self.there = False
        self._target = None
        self._socket.close()

    def _send(self, key: bytes, kind: int, content: Mapping[str, Any]) -> bool:
        """Send a datagram; return whether there is somebody at the address, as far as that is known."""
        self._number += 1
        data = wire.pack(key, kind, self._number, self._now(), content)
        if self._target is None:
            return False
        try:
            self._socket.sendto(data, self._target)
        except (ConnectionError, FileNotFoundError):
            return False
        except OSError:
            # A network that is gone or busy for a moment loses datagrams.
            pass
        return True

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
        own = kind == wire.WELCOME and self._nonce != b"" and content.get("nonce") == self._nonce
        if own and content.get("busy") is True:
            self._busy = True
            return
        if not (own and isinstance(answer, bytes) and len(answer) == wire.TAG and isinstance(parts, list)):
            message = "not an answer to the newest hello"
            raise wire.WireError(message)
        if self._terms.lockstep and content.get("lockstep") is not True:
            self._refusal = "its parts are real and cannot wait for the world; leave out lockstep"
            return
        self._asked = self._now()
        self._session = wire.session_key(self._key, self._nonce, answer)
        # An answer that is repeated starts nothing anew.
        self._nonce, self._busy, self._former = b"", False, None
        boot = content.get("boot")
        self.boots += boot != self._boot
        self._boot = boot
        self._newest = -1
        self._echoed = self._answered = -math.inf
        self.clock = ClockFilter()
        self.parts = tuple(str(part) for part in parts)
        # The robot switches over when it gets the first set-points.
        self.flush()

    def _take_readings(self, data: bytes, arrived: float) -> None:
        """Take a robot's readings."""
        kind, number, sent, content = wire.unpack(data)
        if kind == wire.BYE:
            self._lose()
            return
        read, heard = content.get("read"), content.get("heard")
        if kind != wire.READ or number <= self._newest or not isinstance(read, dict):
            message = "older than the newest"
            raise wire.WireError(message)
        self._newest, self._heard, self.there = number, arrived, True
        failures = content.get("failures")
        if isinstance(failures, dict) and failures != self.failures:
            self.failures = {
                str(part): str(text)[: wire.MESSAGE] for part, text in list(failures.items())[:FAILURES]
            }
        if self._terms.lockstep:
            at = content.get("time")
            self._answered = at if isinstance(at, float) else -math.inf
        else:
            self.clock.inward(sent, arrived)
            match heard:
                case [float(left), float(came)] if left != self._echoed:
                    self._echoed = left
                    self.clock.outward(left, came)
            if not self.clock.known:
                # Without it, nobody knows when the readings were true.
                return
        world = self._world.time
        for part, value in read.items():
            if part not in self.parts:
                self.refused += 1
                continue
            try:
                if part.startswith(("radios/", "cameras")):
                    kept = self._queues.setdefault(part, [])
                    kept += [made for item in value if (made := self._stamped(part, item, sent, world))]
                    del kept[:-KEPT]
                elif (made := self._stamped(part, value, sent, world)) is not None:
                    if made.stamp <= world:
                        # The schedule may shift; a part's stamps never step back.
                        stamp = self._stamps[part] = max(made.stamp, self._stamps.get(part, -math.inf))
                        made = made._replace(stamp=stamp)
                    self._readings[part] = made
                    self._fresh.add(part)
            except (TypeError, ValueError, KeyError, OverflowError):
                self.refused += 1

    def _stamped(self, part: str, value: Any, sent: float, world: float) -> Any:
        """Return a reading with a stamp of the world's clock, None if it is too old.

        Args:
            part: its name.
            value: what the robot sent.
            sent: when it sent it, by its clock.
            world: the world's time.
        """
        stamp, *rest = value
        stamp = float(stamp)
        if self._terms.lockstep:
            age = sent - stamp
            shown = world - age
        else:
            here = self.clock.here(stamp)
            age = self._now() - here
            shown = min(here + self._schedule.ahead, world) if age > 0 else world - age
        if not age <= self._terms.oldest:
            self.stale += 1
            return None
        return READINGS[part.partition("/")[0]](shown, *rest)


def _array(values: Any) -> FloatArray:
    made: FloatArray = np.array(values, dtype=np.float64)
    if made.ndim != 1 or len(made) > KEPT:
        message = f"an array of shape {made.shape}"
        raise ValueError(message)
    return made


def _finite(values: Any) -> FloatArray:
    made = _array(values)
    if not np.isfinite(made).all():
        message = f"values {made}"
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


def _sensor(stamp: float, values: Any) -> SensorReading:
    # Onboard checks the shape, but an empty list does not tell how many columns there would be.
    made: FloatArray = np.array(values, dtype=np.float64)
    if made.ndim > 2 or made.size > KEPT:
        message = f"an array of shape {made.shape}"
        raise ValueError(message)
    return SensorReading(stamp, made)


def _spots(stamp: float, values: Any) -> SensorReading:
    reading = _sensor(stamp, values)
    return reading if reading.values.size else SensorReading(stamp, np.empty((0, 5)))


READINGS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(SENSORS, _sensor),
    "spots": _spots,
    "motors": lambda stamp, travel, speeds, effort=0.0: MotorReading(
        stamp, _finite(travel), _finite(speeds), float(effort)
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


class RemoteMotors:
    """Wheels elsewhere. Driving them sends all set-points."""

    def __init__(self, link: Link, wheels: int) -> None:
        """Create the part; the wheels stand and are enabled."""
        self._link = link
        self._on, self._speeds = True, [0.0] * wheels
        # Of the readings since the robot's start, and metres rolled before.
        self._boots, self._rolled, self._before = 0, np.zeros(wheels), np.zeros(wheels)

    def enable(self, on: bool) -> None:
        """Switch the drives on or off."""
        self._on = bool(on)
        self._link.write("motors", [self._on, self._speeds])

    def drive(self, speeds: FloatArray, hold: float = HOLD) -> None:
        """Set the wheel speeds, and send all set-points."""
        self._speeds = [float(speed) for speed in speeds]
        self._link.drive(self._on, self._speeds, hold)

    def read(self) -> MotorReading:
        """Return the newest reading.

        Raises:
            RealityError: there is none.
        """
        reading: MotorReading = self._link.newest("motors")
        if not len(reading.travel) == len(reading.speeds) == len(self._speeds):
            message = f"{self._link.name}: {len(reading.travel)} wheels: expected {len(self._speeds)}"
            raise RealityError(message)
        if self._boots != self._link.boots:
            # The wheels of a robot that starts again count from zero.
            if self._boots:
                self._before = self._rolled - reading.travel
            self._boots = self._link.boots
        self._rolled = reading.travel + self._before
        return reading._replace(travel=self._rolled) if self._before.any() else reading


class RemoteSense:
    """A sense elsewhere that always has a reading: IMU, lifter, or battery."""

    def __init__(self, link: Link, part: str) -> None:
        """Create the part."""
        self._link, self._part = link, part

    def read(self) -> Any:
        """Return the newest reading.

        Raises:
            RealityError: there is none.
        """
        return self._link.newest(self._part)

    def move(self, height: float) -> None:
        """Set the height of a lifter."""
        self._link.write(self._part, float(height))

    def enable(self, on: bool) -> None:
        """Switch the supplies on or off."""
        self._link.write(self._part, bool(on))


class RemoteBeat:
    """A sense elsewhere with readings now and then: compass, or a ring of distance sensors."""

    def __init__(self, link: Link, part: str) -> None:
        """Create the part."""
        self._link, self._part = link, part

    def read(self) -> Any:
        """Return the newest reading, None if there is nothing new."""
        return self._link.take(self._part)


class RemoteQueue:
    """Cameras or a radio elsewhere."""

    def __init__(self, link: Link, part: str) -> None:
        """Create the part."""
        self._link, self._part = link, part

    def read(self) -> Sequence[Any]:
        """Return the new readings, oldest first."""
        return self._link.queue(self._part)

    def send(self, payload: bytes) -> bool:
        """Broadcast bytes; return whether the robot is there and can take them."""
        return self._link.send(self._part, payload)


class RemoteLeds:
    """Lights elsewhere."""

    def __init__(self, link: Link) -> None:
        """Create the part."""
        self._link = link

    def show(self, colours: Sequence[int]) -> None:
        """Show one packed colour per light."""
        self._link.write("leds", [int(colour) for colour in colours])
