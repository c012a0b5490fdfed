"""Serves a robot's raw parts to a Swarmbed world. One file for the robot: it needs Python 3.9 and msgpack.

    server = PartServer("dots1", key, {"motors": motors, "imu": imu, "ranges/tof": ring}, "udp://0.0.0.0:7400")
    server.run()

Parts are objects like those of `swarmbed_core.device`: `read()` returns a reading without blocking, a tuple
that begins with its stamp by this machine's monotonic clock; motors have `enable(on)` and
`drive(speeds, hold)`, and so on. If no set-points come for as long as the world said, the motors stop; they
also stop at SIGINT and SIGTERM. If this process dies, only `drive` itself can stop them after `hold`.

The protocol, version 1. Each datagram, over UDP or a Unix socket, is `SBP1`, a MessagePack array, and 16
bytes of BLAKE2b over both with a key. The array is `[kind, number, time, content]`: numbers rise in each
direction, time is the sender's clock in seconds.

| kind | from | key | content |
|---|---|---|---|
| 0 hello | world | shared | `{"name", "nonce", "rate", "lockstep"}`: starts a session |
| 1 welcome | robot | shared | `{"nonce", "answer", "boot", "parts", "lockstep"}`: names of parts |
| | | | `{"nonce", "busy": true}`: another world uses the robot |
| 2 set | world | session | `{"hold", "set": {part: set-point}, "time"}` |
| 3 read | robot | session | `{"read": {part: reading}, "heard": [time of newest set, its arrival], "time"}` |
| 4 bye | both | session | `{}` |

Readings also have `"failures": {part: error}` if parts raised errors.

A session's key is the BLAKE2b, with the shared key, of both nonces: the world's, and the robot's `answer`.
A session begins with the first set-points that are signed with its key, so that repeating old datagrams has
no effect. It replaces another one only if that is silent. `boot` changes when the robot starts anew, and with
it the travel of its wheels.

In lockstep, which only simulated parts offer, the robot's time stands. Set-points come with a `time`: they
apply from the robot's present on, its time advances to that one, and the readings with the same `time` are
the answer.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import math
import secrets
import select
import signal
import socket
import stat
import threading
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgpack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    class Stepped(Protocol):
        """Simulated parts whose time a world may advance."""

        def begin(self, *, lockstep: bool) -> Mapping[str, Any]:
            """Return the parts for a new session; those for lockstep are as new, and their time stands."""
            ...

        def time(self) -> float:
            """Return the time of the stamps."""
            ...

        def advance(self, to: float) -> None:
            """Advance the time in lockstep."""
            ...


MAGIC = b"SBP1"
TAG = 16
LARGEST = 60_000
"""Bytes of a datagram at most."""
HELLO, WELCOME, SET, READ, BYE = range(5)
LARGEST_READING = 20_000
"""Bytes of a part's reading at most."""
RATES = (1.0, 200.0)
"""Readings per second at least and at most."""
HOLD = 1.0
"""Seconds that set-points hold at most."""
SHORTEST_KEY, LONGEST_KEY = 16, blake2b.MAX_KEY_SIZE
MESSAGE = 200
"""Characters of a part's error that are sent."""
SILENT = 1.0
"""Seconds without set-points after which another world may use the robot."""
GONE = 5.0
"""Seconds without set-points after which a session ends; in lockstep it does not."""
RETRIED = 0.05
"""Seconds after which motors that did not stop are stopped again."""
DRAINED = 64
"""Datagrams that are handled between two readings."""


class WireError(Exception):
    """A datagram that is not valid."""


def checked_key(key: bytes) -> bytes:
    """Return a key.

    Raises:
        ValueError: it is too short or too long.
    """
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        msg = f"the key has {len(key)} bytes: expected {SHORTEST_KEY} to {LONGEST_KEY}"
        raise ValueError(msg)
    return key


def session_key(key: bytes, nonce: bytes, answer: bytes) -> bytes:
    """Return the key of a session."""
    return blake2b(nonce + answer, key=key, digest_size=32).digest()


def pack(key: bytes, kind: int, number: int, sent: float, content: Mapping[str, Any]) -> bytes:
    """Return a signed datagram."""
    packed: bytes = msgpack.packb([kind, number, sent, content], default=_plain)
    body = MAGIC + packed
    return body + blake2b(body, key=key, digest_size=TAG).digest()


def is_signed(data: bytes, key: bytes) -> bool:
    """Return whether a datagram was signed with a key."""
    body, tag = data[:-TAG], data[-TAG:]
    return hmac.compare_digest(blake2b(body, key=key, digest_size=TAG).digest(), tag)


def unpack(data: bytes) -> tuple[int, int, float, dict[str, Any]]:
    """Return kind, number, time and content of a datagram whose signature was checked.

    Raises:
        WireError: it is not valid.
    """
    try:
        kind, number, sent, content = msgpack.unpackb(data[len(MAGIC) : -TAG], strict_map_key=True)
        head = int(kind), int(number), float(sent)
    except Exception as error:  # noqa: BLE001 - anything may come from outside
        msg = f"not a valid datagram: {error}"
        raise WireError(msg) from None
    if not data.startswith(MAGIC) or not isinstance(content, dict):
        msg = "not a datagram of this protocol's version 1"
        raise WireError(msg)
    return *head, content


def open_socket(address: str, *, serve: bool) -> tuple[socket.socket, Any]:
    """Open a socket for an address such as `udp://0.0.0.0:7400` or `unix:///run/dots1.sock`.

    Returns:
        The socket, and the address to send to, None for a server.

    Raises:
        ValueError: the address is not valid.
        OSError: the socket cannot be opened.
    """
    parts = urlsplit(address)
    if parts.scheme == "unix" and parts.path:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # A client gets a name from the system, so that it can be answered.
        try:
            if serve:
                _remove_unused(parts.path)
            opened.bind(parts.path if serve else "")
        except OSError:
            opened.close()
            raise
        target: Any = None if serve else parts.path
    elif parts.scheme == "udp" and parts.hostname and parts.port is not None:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)[0]
        opened = socket.socket(found[0], socket.SOCK_DGRAM)
        if serve:
            try:
                opened.bind(found[4])
            except OSError:
                opened.close()
                raise
        target = None if serve else found[4]
    else:
        msg = f"'{address}': expected udp://HOST:PORT or unix:///PATH"
        raise ValueError(msg)
    opened.setblocking(False)
    return opened, target


def _remove_unused(path: str) -> None:
    """Remove the socket of a server that has ended without doing so.

    Raises:
        OSError: a server uses it.
    """
    try:
        if not stat.S_ISSOCK(Path(path).stat().st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            probe.connect(path)
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        Path(path).unlink()
        return
    raise OSError(errno.EADDRINUSE, "Address already in use", path)


class PartServer:
    """The robot's side.

    Attributes:
        refused: number of datagrams without a valid signature, or that were old or invalid.
        failures: the newest error of each part, by its name.
    """

    def __init__(
        self,
        name: str,
        key: bytes,
        parts: Mapping[str, Any],
        address: str,
        clock: Callable[[], float] = time.monotonic,
        stepped: Stepped | None = None,
    ) -> None:
        """Open the socket.

        Args:
            name: of the robot, as the world knows it.
            key: the robot's secret, shared with the world.
            parts: by name: `motors`, `imu`, `compass`, `lifter`, `power`, `leds`, `cameras`, `ranges/<ring>`,
                `radios/<radio>`.
            address: such as `udp://0.0.0.0:7400`.
            clock: of the stamps.
            stepped: simulated parts, in place of `parts` and `clock`.

        Raises:
            ValueError: the key is too short or too long, or the address is not valid.
            OSError: the address cannot be opened.
        """
        self.name = name
        self._stepped = stepped
        self.parts = dict(parts if stepped is None else stepped.begin(lockstep=False))
        self.refused = 0
        self.failures: dict[str, str] = {}
        self._key = checked_key(key)
        self._clock = clock if stepped is None else stepped.time
        # Time that also passes in lockstep.
        self._wall = clock if stepped is None else time.monotonic
        self._socket, _ = open_socket(address, serve=True)
        self._pending: tuple[bytes, float, bool] | None = None
        self._lockstep = False
        self._session: bytes | None = None
        self._boot = secrets.token_bytes(TAG)
        self._taken = -math.inf
        self._peer: Any = None
        self._period = 0.01
        self._next = 0.0
        self._sent = 0
        self._got = -1
        self._heard: tuple[float, float] | None = None
        self._until: float | None = None
        self._wheels = 0
        self._stopping = False

    @property
    def port(self) -> int:
        """Return the port of a UDP socket."""
        return int(self._socket.getsockname()[1])

    def run(self) -> None:
        """Serve until `stop`; in the main thread, also until SIGINT or SIGTERM."""
        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, lambda *_: self.stop())
        try:
            while not self._stopping:
                select.select([self], [], [], self.idle)
                self.step()
        finally:
            self.close()
            for ended, handler in before.items():
                signal.signal(ended, handler)

    def fileno(self) -> int:
        """Return the socket's number, for selectors."""
        return self._socket.fileno()

    @property
    def idle(self) -> float:
        """Return for how many seconds there is nothing to do unless a datagram arrives."""
        due = [] if self._until is None else [self._until]
        if self._session is not None and not self._lockstep:
            due.append(self._next)
        return min(max(min(due, default=math.inf) - self._clock(), 0.0), 0.2)

    def stop(self) -> None:
        """End `run`."""
        self._stopping = True

    def step(self) -> None:
        """Handle what has arrived; stop the motors if nobody drives them; send readings that are due."""
        for _ in range(DRAINED):
            try:
                data, peer = self._socket.recvfrom(LARGEST)
            except OSError:
                break
            self._handle(data, peer)
        now = self._clock()
        if self._until is not None and now >= self._until:
            self._stop_motors()
        if not self._lockstep and self._wall() - self._taken > GONE:
            self._session = None
        if self._session is not None and not self._lockstep and now >= self._next:
            self._next = max(self._next + self._period, now)
            self._send_readings({})

    def close(self) -> None:
        """Stop the motors, and close the socket."""
        self._stop_motors()
        if self._session is not None:
            self._send(self._session, BYE, {})
        name = self._socket.getsockname()
        self._socket.close()
        if isinstance(name, str) and name:
            with contextlib.suppress(OSError):
                Path(name).unlink()

    def _handle(self, data: bytes, peer: Any) -> None:
        """Handle a datagram."""
        try:
            if len(data) > TAG and self._session is not None and is_signed(data, self._session):
                self._take(data, peer)
            elif len(data) > TAG and self._pending is not None and is_signed(data, self._pending[0]):
                self._begin(*self._pending)
                self._take(data, peer)
            elif len(data) > TAG and is_signed(data, self._key):
                self._welcome(data, peer)
            else:
                self.refused += 1
        except WireError:
            self.refused += 1

    def _welcome(self, data: bytes, peer: Any) -> None:
        """Answer a hello with a session that begins with its first set-points."""
        kind, number, _, content = unpack(data)
        nonce, rate = content.get("nonce"), content.get("rate", 100.0)
        right = kind == HELLO and content.get("name") == self.name and isinstance(rate, (int, float))
        if not right or not rate > 0 or not isinstance(nonce, bytes) or len(nonce) != TAG:
            msg = "not a hello for this robot"
            raise WireError(msg)
        if self._session is not None and self._wall() - self._taken < SILENT:
            self._deliver(
                pack(self._key, WELCOME, number, self._clock(), {"nonce": nonce, "busy": True}), peer
            )
            return
        answer = secrets.token_bytes(TAG)
        period = 1.0 / min(max(float(rate), RATES[0]), RATES[1])
        lockstep = content.get("lockstep") is True and self._stepped is not None
        self._pending = (session_key(self._key, nonce, answer), period, lockstep)
        welcome = {
            "nonce": nonce,
            "answer": answer,
            "boot": secrets.token_bytes(TAG) if lockstep else self._boot,
            "parts": sorted(self.parts),
            "lockstep": lockstep,
        }
        self._deliver(pack(self._key, WELCOME, number, self._clock(), welcome), peer)

    def _begin(self, session: bytes, period: float, lockstep: bool) -> None:
        """Begin a session; its motors stand."""
        self._stop_motors()
        self._session, self._period, self._lockstep = session, period, lockstep
        self._pending, self._got, self._next, self._heard = None, -1, 0.0, None
        if self._stepped is not None:
            self.parts = dict(self._stepped.begin(lockstep=lockstep))
            self._until = None

    def _take(self, data: bytes, peer: Any) -> None:
        """Apply set-points of the session."""
        kind, number, sent, content = unpack(data)
        hold, wanted, to = content.get("hold"), content.get("set"), content.get("time")
        if number <= self._got or kind not in (SET, BYE):
            msg = "older than the newest, or not set-points"
            raise WireError(msg)
        if kind == BYE:
            self._session = None
            self._stop_motors()
            return
        if not isinstance(hold, (int, float)) or not isinstance(wanted, dict):
            msg = "not set-points"
            raise WireError(msg)
        if isinstance(to, float) is not self._lockstep:
            msg = "a time, if and only if the session is in lockstep, was expected"
            raise WireError(msg)
        self._got, self._peer, self._taken = number, peer, self._wall()
        # Not a number holds no time at all.
        hold = min(float(hold), HOLD) if hold > 0 else 0.0
        now = self._clock()
        self._heard = (sent, now)
        for part, value in wanted.items():
            if part in self.parts:
                self._guard(part, self._apply, part, value, hold)
        if isinstance(to, float) and self._stepped is not None:
            self._stepped.advance(to)
            self._send_readings({"time": to})

    def _apply(self, part: str, value: Any, hold: float) -> None:
        """Pass a set-point to a part."""
        target = self.parts[part]
        if part == "motors":
            on, speeds = value
            numbers = [_finite(speed) for speed in speeds]
            if not numbers:
                msg = "no speeds"
                raise ValueError(msg)
            # If this fails, they turn no longer than the last ones.
            until = self._clock() + hold
            self._until = until if self._until is None else self._until
            self._wheels = self._wheels or len(numbers)
            target.enable(bool(on))
            target.drive(numbers, hold)
            self._wheels, self._until = len(numbers), until
        elif part == "lifter":
            target.move(_finite(value))
        elif part == "leds":
            target.show([int(colour) for colour in value])
        elif part == "power":
            target.enable(bool(value))
        elif part.startswith("radios/"):
            for payload in value:
                if isinstance(payload, bytes):
                    target.send(payload)

    def _stop_motors(self) -> None:
        """Drive all wheels with speed 0; try again soon if that fails."""
        self._until = None
        if self._wheels and not self._guard("motors", self._rest):
            self._until = self._clock() + RETRIED

    def _rest(self) -> bool:
        self.parts["motors"].drive([0.0] * self._wheels, HOLD)
        return True

    def _send_readings(self, more: Mapping[str, Any]) -> None:
        """Read all parts, and send what is new."""
        read = {}
        for name in self.parts:
            reading = self._guard(name, self._read, name)
            if reading is not None:
                read[name] = reading
        failures = {"failures": self.failures} if self.failures else {}
        self._send(self._session or b"", READ, {"read": read, "heard": self._heard, **failures, **more})

    def _read(self, name: str) -> Any:
        """Return a part's reading, None if there is nothing new.

        Raises:
            Exception: the part fails, or its reading cannot be sent.
        """
        reader = getattr(self.parts[name], "read", None)
        reading = None if reader is None else reader()
        if reading is None or (name.startswith(("radios/", "cameras")) and not len(reading)):
            return None
        packed = msgpack.packb(reading, default=_plain)
        if len(packed) > LARGEST_READING:
            msg = f"a reading of {len(packed)} bytes: at most {LARGEST_READING} can be sent"
            raise ValueError(msg)
        return reading

    def _send(self, key: bytes, kind: int, content: Mapping[str, Any]) -> None:
        """Send a datagram to the peer of the session."""
        self._sent += 1
        if self._peer is not None:
            self._deliver(pack(key, kind, self._sent, self._clock(), content), self._peer)

    def _deliver(self, data: bytes, peer: Any) -> None:
        # A peer that is gone or cannot keep up loses datagrams, as on any network.
        with contextlib.suppress(OSError):
            self._socket.sendto(data, peer)

    def _guard(self, part: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a part; note its error instead of raising it."""
        try:
            return call(*arguments)
        except Exception as error:  # noqa: BLE001 - parts are drivers of others
            self.failures[part] = f"{type(error).__name__}: {error}"[:MESSAGE]
            return None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        msg = f"a set-point of {number}"
        raise ValueError(msg)
    return number


def _plain(value: Any) -> Any:
    """Return arrays as lists, and other numbers as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "__float__"):
        return float(value)
    msg = f"a {type(value).__name__} cannot be sent"
    raise TypeError(msg)
