"""The device maker `remote`: parts of a robot behind a part server, elsewhere or in a process of this run.

device: [{name: remote, parts: [motors], address: "udp://{name}.local:7400", key_file: "~/keys/{name}.key"}]
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from weakref import WeakKeyDictionary

from pydantic import Field, model_validator
from swarmbed_core.both import BothLeds, BothLifter, BothMotors, BothPower
from swarmbed_core.config import Part
from swarmbed_core.device import SENSORS, Device
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.spec import Positive

from swarmbed_reality import links, part_server
from swarmbed_reality.errors import RealityError
from swarmbed_reality.links import (
    Link,
    RemoteBeat,
    RemoteLeds,
    RemoteMotors,
    RemoteQueue,
    RemoteSense,
    Terms,
)
from swarmbed_reality.virtual_parts import expanded, filled, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from swarmbed_core.device import Clock
    from swarmbed_core.spec import RobotSpec

BOTH: Mapping[str, Any] = {"motors": BothMotors, "lifter": BothLifter, "power": BothPower, "leds": BothLeds}
"""Parts that can be real and virtual at once."""
FEWEST_READINGS = 3
"""Readings that a robot misses at least before it counts as lost."""
STARTED = 30.0
"""Seconds within which a process of simulated parts answers; it may have to compile."""


class RemoteParameters(Part):
    """Which parts are elsewhere, and how to reach them.

    Attributes:
        parts: names of the parts: `motors`, `imu`, `compass`, `lifter`, `power`, `leds`, `cameras`, `ranges`,
            `radios`, `position`, `ground`, `light`, `spots`; `ranges/tof` is a single ring.
        address: of the robot's part server, such as `udp://{name}.local:7400` or `unix:///run/{name}.sock`;
            `{name}` is the robot's name, `{number}` the number at its end. If not given, a process with
            simulated parts is started for the run.
        key_file: file with the robot's key, 16 to 64 bytes; `{name}` and `{number}` likewise.
        key_env: environment variable with the key, in place of `key_file`.
        hil: whether the motors, lifter, power and leds among the parts are virtual, too: the world's body
            moves as the remote wheels report.
        lockstep: whether the time of the parts advances with the world's; only simulated parts can. Then the
            run repeats, at any speed.
        rate: [Hz] readings per second.
        hold: [s] how long the robot's motors keep their speeds when nothing comes.
        lost: [s] time without readings after which the robot counts as lost.
        oldest: [s] age from which readings are refused.
        wait: [s] how long to wait for the robot at the start; 0 starts without it.
    """

    parts: Annotated[tuple[str, ...], Field(min_length=1)]
    address: str | None = None
    key_file: str | None = None
    key_env: str | None = None
    hil: bool = False
    lockstep: bool = False
    rate: Annotated[float, Field(ge=part_server.RATES[0], le=part_server.RATES[1])] = links.RATE
    hold: Annotated[float, Field(gt=0, le=part_server.HOLD)] = links.HOLD
    lost: Positive = links.LOST
    oldest: Positive = links.OLDEST
    wait: Annotated[float, Field(ge=0, le=600)] = 5.0

    @model_validator(mode="after")
    def _a_key_for_an_address(self) -> RemoteParameters:
        keys = sum(given is not None for given in (self.key_file, self.key_env))
        if keys != (self.address is not None):
            message = "give an address with one of key_file and key_env, or none of them"
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _readings_come_before_it_is_lost(self) -> RemoteParameters:
        if not self.lockstep and self.lost * self.rate < FEWEST_READINGS:
            message = (
                f"lost: {self.lost:g} s at {self.rate:g} Hz: expected at least {FEWEST_READINGS} readings "
                f"in this time, so {FEWEST_READINGS / self.rate:.3g} s or more"
            )
            raise ValueError(message)
        return self


class Remote:
    """Parts of a robot that are reached over UDP or a Unix socket."""

    Parameters: ClassVar[type[Part]] = RemoteParameters

    @staticmethod
    def is_real(parameters: RemoteParameters) -> bool:
        """Return whether the parts run in real time."""
        return not parameters.lockstep

    @staticmethod
    def make(
        name: str, spec: RobotSpec, device: Device | None, clock: Clock, parameters: RemoteParameters
    ) -> Device:
        """Return a robot's device with remote parts.

        Raises:
            RealityError: the robot does not answer, or has other parts; a key is missing; `hil` lacks a
                virtual part.
        """
        wanted = expanded(parameters.parts, names_of(spec), f"{name}, a {spec.kind},")
        if device is None and "motors" not in wanted:
            message = f"{name}: without virtual parts, `parts` needs motors"
            raise RealityError(message)
        with contextlib.ExitStack() as opened:
            if parameters.address is None:
                helper = helper_of(clock)
                address, key = helper.add(name, spec, wanted)
                opened.callback(helper.remove, address)
            else:
                address, key = filled(parameters.address, name), _key(parameters, name)
            terms = Terms(
                parameters.rate, parameters.hold, parameters.lost, parameters.oldest, parameters.lockstep
            )
            link = Link(name, key, address, clock, terms, what=", ".join(wanted))
            opened.callback(link.close)
            patience = STARTED if parameters.address is None else parameters.wait
            if patience:
                link.connect(patience)
                expanded(wanted, link.parts, f"{name} at {address}")
            made = _with(name, spec, device, clock, link, wanted)
            if parameters.hil:
                made = _both(name, made, device, wanted)
            made.opened.push(opened.pop_all())
        return replace(made, outside=(*made.outside, link))


def names_of(spec: RobotSpec) -> list[str]:
    """Return the names of the parts of a kind of robot."""
    found = [part for part in ("imu", "compass", "lifter", "leds", "cameras") if getattr(spec, part, None)]
    power = [] if spec.battery is None else ["power"]
    rings = [f"ranges/{ring.name}" for ring in spec.ranges]
    radios = [f"radios/{radio.name}" for radio in spec.radios]
    return ["motors", *found, *power, *rings, *radios, *(name.replace(".", "/", 1) for name in spec.sensors)]


def _key(parameters: RemoteParameters, name: str) -> bytes:
    """Return a robot's key."""
    if parameters.key_file is not None:
        return key_of(Path(filled(parameters.key_file, name)).expanduser())
    variable = filled(parameters.key_env or "", name)
    try:
        return part_server.checked_key(os.environ.get(variable, "").strip().encode())
    except ValueError as error:
        message = f"{name}: the environment variable {variable}: {error}"
        raise RealityError(message) from None


def _with(
    name: str, spec: RobotSpec, device: Device | None, clock: Clock, link: Link, parts: Sequence[str]
) -> Device:
    """Return a device with the parts of a link."""
    motors = RemoteMotors(link, Kinematics.of(spec).count)
    made = device or Device(name=name, spec=spec, clock=clock, motors=motors)
    change: dict[str, Any] = {}
    for part in parts:
        group, _, which = part.partition("/")
        if part == "motors":
            change[part] = motors
        elif part == "leds":
            change[part] = RemoteLeds(link)
        elif part == "cameras":
            change |= {part: RemoteQueue(link, part), "images": None, "calibrations": {}}
        elif part == "compass" or (part in SENSORS and not which):
            change[part] = RemoteBeat(link, part)
        elif which:
            layer = RemoteQueue if group == "radios" else RemoteBeat
            change[group] = {**change.get(group, getattr(made, group)), which: layer(link, part)}
        else:
            change[part] = RemoteSense(link, part)
    return replace(made, **change)


def _both(name: str, made: Device, virtual: Device | None, parts: Sequence[str]) -> Device:
    """Return a device whose remote parts have virtual ones that follow them."""
    change = {}
    for part in BOTH.keys() & set(parts):
        own = None if virtual is None else getattr(virtual, part)
        if own is None:
            message = f"{name}: hil: there are no virtual {part} to follow the remote ones; leave out hil"
            raise RealityError(message)
        change[part] = BOTH[part](getattr(made, part), own)
    return replace(made, **change)


class Helper:
    """A process with simulated parts of one world's robots. It ends with the last one, or with its parent."""

    def __init__(self) -> None:
        """Start the process."""
        self._folder = tempfile.mkdtemp(prefix="swarmbed-parts-")
        self._addresses: set[str] = set()
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "swarmbed_reality.virtual_parts"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    @property
    def process(self) -> int:
        """Return the process's id."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Return whether it serves parts."""
        return self._process.poll() is None and self._process.stdin is not None

    def add(self, name: str, spec: RobotSpec, parts: Sequence[str]) -> tuple[str, bytes]:
        """Serve a robot's parts; return address and key.

        Raises:
            RealityError: the process cannot do it.
        """
        self._count += 1
        key, address = secrets.token_bytes(32), f"unix://{self._folder}/{self._count}.sock"
        order = {
            "add": name,
            "spec": spec.model_dump_json(),
            "key": key.hex(),
            "address": address,
            "parts": list(parts),
            "seed": zlib.crc32(name.encode()),
        }
        said = self._tell(order)
        if said != "\n":
            why = said.strip() or "it ended"
            message = f"{name}: the process of its simulated parts: {why}"
            raise RealityError(message)
        self._addresses.add(address)
        return address, key

    def _tell(self, order: Mapping[str, Any]) -> str:
        into, out = self._process.stdin, self._process.stdout
        if into is None or out is None:
            raise AssertionError
        try:
            into.write(json.dumps(order).encode() + b"\n")
            into.flush()
        except OSError:
            return ""
        return "\n" if "remove" in order else out.readline().decode()

    def remove(self, address: str) -> None:
        """Stop serving the parts at an address; end with the last one."""
        self._addresses.discard(address)
        if self._addresses:
            self._tell({"remove": address})
            return
        self._process.communicate()
        self._process.stdin = None
        shutil.rmtree(self._folder, ignore_errors=True)


_HELPERS: WeakKeyDictionary[Clock, Helper] = WeakKeyDictionary()


def helper_of(clock: Clock) -> Helper:
    """Return the process of the simulated parts of a world's robots; the first call starts it."""
    helper = _HELPERS.get(clock)
    if helper is None or not helper.runs:
        helper = _HELPERS[clock] = Helper()
    return helper
