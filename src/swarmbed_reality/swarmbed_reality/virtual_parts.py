"""Simulated parts of robots behind part servers, in a process of their own: robots for trying remote parts.

    swarmbed part-server --count 5 --key-file 'keys/{name}.key'

Each robot is alone in a `MemoryWorld`, with nothing in its way. Its time is this machine's, or in lockstep
the time of the world that uses it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import selectors
import signal
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from swarmbed_core.arena import Arena
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.spec import RobotSpec

from swarmbed_reality.errors import RealityError
from swarmbed_reality.part_server import LARGEST, PartServer, checked_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from swarmbed_core.device import Device

STEP = 0.01
"""Seconds of a step in lockstep: the on-board software's cycle."""
FINE_STEP = 0.005
"""Seconds of a step in real time, shorter than the period of the readings, so that each reading is new."""
LONGEST = 1.0
"""Seconds by which the time advances at once at most."""
ADDRESS = "udp://127.0.0.1:74{number:02}"
"""Default address of a server's robots."""
FIELD = re.compile(r"\{(name|number)(?::0(\d))?\}")
TRUE_PARTS = ("motors", "imu", "compass", "lifter", "power", "leds", "cameras")


def filled(pattern: str, name: str) -> str:
    """Return a text with a robot's name for `{name}`, and the number at its end for `{number}`.

    `{number:02}` has at least two digits.
    """
    digits = re.search(r"\d+$", name)
    number = digits[0] if digits else "0"

    def fill(match: re.Match[str]) -> str:
        return name if match[1] == "name" else str(int(number)).zfill(int(match[2] or 0))

    return FIELD.sub(fill, pattern)


class VirtualRobot:
    """One robot's simulated parts, with stamps of this machine's clock or, in lockstep, of a world's."""

    def __init__(
        self,
        name: str,
        spec: RobotSpec,
        parts: Sequence[str],
        *,
        seed: int = 1,
        noise: bool = True,
        machine: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a robot.

        Args:
            name: of the robot.
            spec: its kind.
            parts: names of the parts it has; `ranges` and `radios` for all of them.
            seed: of the noise of its sensors and wheels, for each robot another.
            noise: whether they have errors.
            machine: this machine's clock.

        Raises:
            RealityError: this kind has no such part.
        """
        self.name = name
        self._spec, self._wanted = spec, tuple(parts)
        self._seed, self._noise, self._machine = seed, noise, machine
        self._lockstep = False
        self._world: MemoryWorld | None = None
        self._base: float | None = None
        self._parts: Mapping[str, Any] = {}
        # Compile or load kernels now: a world in lockstep waits for the first answer.
        for part in self.begin(lockstep=False).values():
            if hasattr(part, "read"):
                part.read()
        self.advance(self._machine() + FINE_STEP)

    def begin(self, *, lockstep: bool) -> Mapping[str, Any]:
        """Return the parts for a session: new ones in lockstep, otherwise the same as before."""
        if self._world is None or lockstep or self._lockstep:
            self._lockstep = lockstep
            self._base = None if lockstep else self._machine()
            placement = Placement(self.name, self._spec)
            self._world = MemoryWorld(
                [placement],
                Arena.load("empty"),
                seed=self._seed,
                noise=self._noise,
                timestep=STEP if lockstep else FINE_STEP,
            )
            found = parts_of(self._world.device(self.name))
            wanted = expanded(self._wanted, found, f"{self.name}, a {self._spec.kind},")
            self._parts = {
                part: (_Read if hasattr(found[part], "read") else _Written)(found[part], self)
                for part in wanted
            }
        return self._parts

    def time(self) -> float:
        """Return the time of the stamps: this machine's, or that to which the world has advanced it."""
        if not self._lockstep:
            return self._machine()
        return 0.0 if self._world is None else self.offset + self._world.time

    @property
    def offset(self) -> float:
        """Return what has to be added to the simulation's times."""
        return self._base or 0.0

    def advance(self, to: float) -> None:
        """Advance the simulation to a time; the first one is its start."""
        if self._world is None or not math.isfinite(to):
            return
        if self._base is None:
            self._base = to
        left = to - self._base - self._world.time
        # Only whole steps, and no more than can be waited for.
        steps = math.floor(min(left, LONGEST) / self._world.timestep + 0.5 * self._lockstep + 1e-6)
        for _ in range(steps):
            self._world.step()
        if left > LONGEST and not self._lockstep:
            self._base += left - LONGEST

    def follow(self) -> None:
        """In real time, advance the simulation to the present."""
        if not self._lockstep:
            self.advance(self._machine())


class _Written:
    """A simulated part that takes set-points."""

    def __init__(self, part: Any, robot: VirtualRobot) -> None:
        self._part, self._robot = part, robot

    def __getattr__(self, name: str) -> Any:
        """Return a function of the part; what it sets applies from now on."""
        self._robot.follow()
        return getattr(self._part, name)


class _Read(_Written):
    """A simulated part with readings, which have stamps of the robot's clock."""

    def read(self) -> Any:
        """Return the part's reading or readings."""
        robot = self._robot
        robot.follow()
        found = self._part.read()
        if found is None or hasattr(found, "stamp"):
            return found and found._replace(stamp=found.stamp + robot.offset)
        return [reading._replace(stamp=reading.stamp + robot.offset) for reading in found]


def parts_of(device: Device) -> dict[str, Any]:
    """Return a device's parts by their names on the wire."""
    found = {part: getattr(device, part) for part in TRUE_PARTS if getattr(device, part) is not None}
    found |= {f"ranges/{name}": ring for name, ring in device.ranges.items()}
    found |= {f"radios/{name}": radio for name, radio in device.radios.items()}
    return found | {name.replace(".", "/", 1): sensor for name, sensor in device.sensors.items()}


def expanded(parts: Sequence[str], known: Sequence[str] | Mapping[str, Any], who: str) -> list[str]:
    """Return names of parts, with all rings for `ranges` and all radios for `radios`.

    Raises:
        RealityError: a part is not known.
    """
    made: dict[str, None] = {}
    for part in parts:
        found = [name for name in known if name == part or name.startswith(f"{part}/")]
        if not found:
            message = f"{who} has no part '{part}': it has {', '.join(known) or 'none'}"
            raise RealityError(message)
        made |= dict.fromkeys(found)
    return list(made)


def key_of(file: Path, *, create: bool = False) -> bytes:
    """Return the key in a file.

    Raises:
        RealityError: it cannot be read or created, everybody can read it, or it is too short or too long.
    """
    try:
        if create and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:  # noqa: PTH123 - with this mode from the start
                opened.write(secrets.token_hex(32) + "\n")
        public = file.stat().st_mode & stat.S_IROTH
        key = file.read_bytes().strip()
    except OSError as error:
        message = f"{file}: cannot be read as a robot's key ({error.strerror or error})"
        raise RealityError(message) from None
    if public:
        message = f"{file}: every user of this machine can read this key; run: chmod 600 {file}"
        raise RealityError(message)
    try:
        return checked_key(key)
    except ValueError as error:
        message = f"{file}: {error}"
        raise RealityError(message) from None


class Server:
    """Part servers of many robots in one process."""

    def __init__(self) -> None:
        """Start without robots."""
        self._robots: dict[str, PartServer] = {}
        self._selector = selectors.DefaultSelector()
        self._stopping = False

    def add(self, robot: VirtualRobot, key: bytes, address: str) -> None:
        """Serve a robot's parts at an address.

        Raises:
            RealityError: the address cannot be opened.
        """
        try:
            server = PartServer(robot.name, key, {}, address, stepped=robot)
        except (OSError, ValueError) as error:
            message = f"{robot.name}: {address}: {error}"
            raise RealityError(message) from None
        self._robots[address] = server
        self._selector.register(server, selectors.EVENT_READ, server.step)

    def remove(self, address: str) -> None:
        """Stop serving the parts at an address."""
        server = self._robots.pop(address, None)
        if server is not None:
            self._selector.unregister(server)
            server.close()

    def watch(self, file: int, call: Callable[[], object]) -> None:
        """Call a function when a file can be read."""
        self._selector.register(file, selectors.EVENT_READ, call)

    def run(self) -> None:
        """Serve until `stop`."""
        try:
            while not self._stopping:
                wait = min((server.idle for server in self._robots.values()), default=0.2)
                for ready, _ in self._selector.select(wait):
                    # One before it may have removed it.
                    if self._selector.get_map().get(ready.fd) is ready:
                        ready.data()
                for server in tuple(self._robots.values()):
                    if server.idle <= 0.0:
                        server.step()
        finally:
            self.close()

    def close(self) -> None:
        """Stop serving all parts."""
        for address in tuple(self._robots):
            self.remove(address)
        self._selector.close()

    def stop(self, *_: object) -> None:
        """End `run`."""
        self._stopping = True


def serve(
    kind: str,
    names: Sequence[str],
    *,
    address: str,
    key_file: str,
    parts: Sequence[str],
    say: Callable[[str], object] = print,
) -> None:
    """Serve simulated parts of robots until SIGINT or SIGTERM.

    Args:
        kind: of the robots.
        names: of the robots.
        address: of each robot, with placeholders as in `filled`.
        key_file: of each robot's key, likewise; a file that does not exist is created.
        parts: that the robots have.
        say: prints a line.

    Raises:
        SwarmbedError: kind, parts, addresses or keys are not valid.
    """
    spec = RobotSpec.load(kind)
    server = Server()
    before = {number: signal.signal(number, server.stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for seed, name in enumerate(names, start=1):
            robot, where = VirtualRobot(name, spec, parts, seed=seed), filled(address, name)
            server.add(robot, key_of(Path(filled(key_file, name)).expanduser(), create=True), where)
            say(f"{name}: {', '.join(parts)} at {where}, key in {filled(key_file, name)}")
        server.run()
    finally:
        server.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def serve_parent() -> None:
    """Serve the robots that the parent process names by lines of JSON on stdin; end when it closes it.

    `{"add": NAME, "spec": JSON, "key": HEX, "address", "parts", "seed"}` is answered by a line on stdout,
    empty or an error; `{"remove": ADDRESS}` is not.
    """
    # Ctrl-C goes to the whole group of processes; the parent still needs the parts while it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = Server()
    rest = bytearray()
    folders = set()

    def listen() -> None:
        data = os.read(0, LARGEST)
        if not data:
            server.stop()
        rest.extend(data)
        while b"\n" in rest:
            line, _, after = bytes(rest).partition(b"\n")
            rest[:] = after
            order = json.loads(line)
            if "remove" in order:
                server.remove(order["remove"])
                continue
            said = ""
            try:
                spec = RobotSpec.model_validate_json(order["spec"])
                robot = VirtualRobot(order["add"], spec, order["parts"], seed=order["seed"])
                server.add(robot, bytes.fromhex(order["key"]), order["address"])
                folders.add(Path(urlsplit(order["address"]).path).parent)
            except Exception as error:  # noqa: BLE001 - the parent reports it
                said = f"{type(error).__name__}: {error}".replace("\n", " ")
            print(said, flush=True)  # noqa: T201 - the answer

    server.watch(0, listen)
    server.run()
    for folder in folders:
        # A parent that was killed leaves it.
        with contextlib.suppress(OSError):
            folder.rmdir()


if __name__ == "__main__":
    serve_parent()
