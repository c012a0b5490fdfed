"""Orders: the only way in which anything outside a run changes it.

Any thread may put orders. The run takes them before its next step, in the order in which they came, and
writes them down with the number of that step: played back, they give the same run to the bit.
"""

from __future__ import annotations

import base64
import math
import re
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from swarmbed_core import config
from swarmbed_core.config import names
from swarmbed_core.errors import SwarmbedError, message_of
from swarmbed_core.led import Tellings
from swarmbed_core.robot import Command
from swarmbed_core.scenario import TrackedBody
from swarmbed_core.scene import RobotPlacement
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, Waypoint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

MOST_WAITING = 100_000
"""Most orders that wait for a run to take them."""
MOST_STEPS = 1_000_000
"""Most steps that one order allows a paused run."""


class OrderError(SwarmbedError):
    """An order that cannot be carried out."""


@dataclass(frozen=True, slots=True)
class Act:
    """Give a robot a command."""

    robot: str
    command: Command


@dataclass(frozen=True, slots=True)
class Follow:
    """Let a robot follow a path."""

    robot: str
    path: Path


@dataclass(frozen=True, slots=True)
class Halt:
    """Brake, and drop path and velocity, as when a robot's program has ended."""

    robot: str


@dataclass(frozen=True, slots=True)
class Enable:
    """Switch a robot's drives on again after somebody switched them off."""

    robot: str


@dataclass(frozen=True, slots=True)
class Say:
    """Report what a robot's program is doing: one that runs in another process."""

    robot: str
    doing: str


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Tell where led robots are. Invalid tellings raise nothing: the world counts them."""

    tellings: Tellings


@dataclass(frozen=True, slots=True)
class Join:
    """Add a robot where the floor is free.

    Attributes:
        kind: a name from config/robots, or a file.
        pose: x, y (m) and yaw (rad) in `map`.
        robot: its name; if empty, its kind and the next free number.
        localised: whether it finds its pose by the markers on the walls.
        controller: name of its program; if empty, it is driven from elsewhere.
        parameters: of its program.
        tracked: whether it is led from outside; `True`, or options by name.
    """

    kind: str
    pose: tuple[float, float, float]
    robot: str = ""
    localised: bool = False
    controller: str = ""
    parameters: Mapping[str, Any] | None = None
    tracked: bool | Mapping[str, Any] = False


@dataclass(frozen=True, slots=True)
class Leave:
    """Remove a robot and its body."""

    robot: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop the clock, or let it go on."""

    paused: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """Let a paused run go on for some steps of its world."""

    steps: int = 1


@dataclass(frozen=True, slots=True)
class Speed:
    """Change the pace: a multiple of real time; None: as fast as possible."""

    speed: float | None


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run with the verdict `interrupted`."""

    reason: str = ""


ForRobots = Act | Follow | Halt | Enable | Say | Told | Join | Leave
"""Orders about robots, which decide the run's result."""
ForLoop = Pause | Step | Speed | Stop
"""Orders about the loop."""
Order = ForRobots | ForLoop

KINDS: dict[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (Act, Follow, Halt, Enable, Say, Told, Join, Leave, Pause, Step, Speed, Stop)
}


class Orders:
    """A queue of orders that any thread may put into.

    Attributes:
        waiting: the orders that the run has not taken yet, with their results.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[Order, Future[Any]]] = deque()
        self._here = threading.Condition()
        self._closed = ""

    def __bool__(self) -> bool:
        """Return whether orders wait."""
        return bool(self.waiting)

    def put(self, order: Order) -> Future[Any]:
        """Add an order. The result tells what came of it: the name of a robot that joined, or None.

        An order that cannot be carried out, or that the run does not live to take, gives an `OrderError` or
        another `SwarmbedError`.
        """
        made: Future[Any] = Future()
        made.set_running_or_notify_cancel()
        try:
            if isinstance(order, Told):
                # Whoever sent it may fill the same arrays again.
                order = Told(order.tellings.copy())
            else:
                as_json(order)
        except Exception as error:  # noqa: BLE001 - a foreign type may raise anything
            made.set_exception(OrderError(f"{type(order).__name__}: {message_of(error)}"))
            return made
        with self._here:
            if self._closed or len(self.waiting) >= MOST_WAITING:
                why = self._closed or f"{MOST_WAITING:,} orders are waiting already: put fewer"
                made.set_exception(OrderError(why))
                return made
            self.waiting.append((order, made))
            self._here.notify_all()
        return made

    def take(self) -> Iterator[tuple[Order, Future[Any]]]:
        """Yield the orders that were here at the call."""
        for _ in range(len(self.waiting)):
            # Another thread may close the queue meanwhile.
            with suppress(IndexError):
                yield self.waiting.popleft()

    def wait(self, seconds: float) -> None:
        """Wait until there are orders, for at most some seconds."""
        with self._here:
            if not self.waiting:
                self._here.wait(seconds)

    def close(self, why: str = "the run is over") -> None:
        """Refuse the orders that wait, and all further ones."""
        with self._here:
            self._closed = why
            left = list(self.waiting)
            self.waiting.clear()
        for _, made in left:
            made.set_exception(OrderError(why))


def as_json(order: Order) -> dict[str, Any]:
    """Return an order as plain types, from which `from_json` makes the same one again.

    Raises:
        OrderError: it is no order, or holds what cannot be written.
    """
    name = type(order).__name__.lower()
    if KINDS.get(name) is not type(order):
        message = (
            f"{order!r}: expected one of the orders {', '.join(kind.__name__ for kind in KINDS.values())}"
        )
        raise OrderError(message)
    told: dict[str, Any] = {"order": name}
    for field in fields(order):
        value = getattr(order, field.name)
        told[field.name] = _plain(value)
    return told


def _plain(value: Any) -> Any:
    """Return a value of an order as plain types."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Command):
        given = {field.name: getattr(value, field.name) for field in fields(value)}
        return {
            name: _plain(item) for name, item in given.items() if item is not None and item is not False
        } | {name: False for name in ("lift", "carrying", "motors", "power") if given[name] is False}
    if isinstance(value, Path):
        told = asdict(value)
        del told["table"]
        return told
    if isinstance(value, Tellings):
        # Thousands of numbers a second: as text they would cost more than the robots do.
        return {"names": [str(name) for name in value.names], "numbers": _plain(value.packed())}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, int | float):
        # Subclasses, such as enumerations, become plain numbers.
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    message = f"a {type(value).__name__} cannot be written down: {value!r}"[:200]
    raise OrderError(message)


def from_json(told: Mapping[str, Any]) -> Order:
    """Return an order that `as_json` described.

    Raises:
        OrderError: it is not a valid order.
    """
    kind = KINDS.get(str(told.get("order")))
    if kind is None:
        message = f"order {told.get('order')!r}: expected one of {', '.join(KINDS)}"
        raise OrderError(message)
    known = {field.name: field for field in fields(kind)}
    given = {name: value for name, value in told.items() if name in known}
    missing = [name for name, field in known.items() if name not in given and field.default is MISSING]
    if missing:
        message = f"order {told['order']}: {', '.join(missing)} missing"
        raise OrderError(message)
    try:
        if "command" in given:
            given["command"] = _command(given["command"])
        if "path" in given:
            given["path"] = _path(given["path"])
        if "tellings" in given:
            numbers = base64.b64decode(given["tellings"]["numbers"]["base64"])
            given["tellings"] = Tellings.unpacked([str(name) for name in given["tellings"]["names"]], numbers)
        if "pose" in given:
            x, y, yaw = map(float, given["pose"])
            given["pose"] = (x, y, yaw)
        order: Order = kind(**given)
        check(order)
    except (TypeError, ValueError, KeyError, SwarmbedError) as error:
        message = f"order {told['order']}: {error}"
        raise OrderError(message) from None
    return order


def _command(told: Mapping[str, Any]) -> Command:
    """Return the command that `as_json` described."""
    given = dict(told)
    if given.get("path") is not None:
        given["path"] = _path(given["path"])
    if isinstance(given.get("velocity_body"), list):
        given["velocity_body"] = tuple(given["velocity_body"])
    if isinstance(given.get("send"), dict):
        given["send"] = {
            name: base64.b64decode(data["base64"]) if isinstance(data, dict) else data
            for name, data in given["send"].items()
        }
    return Command(**given)


def _path(told: Mapping[str, Any]) -> Path:
    """Return the path that `as_json` described."""
    waypoints = tuple(Waypoint(tuple(at["pose"]), tuple(at["velocity"])) for at in told["waypoints"])
    return Path(waypoints, told["frame"], told["max_speed"], told["max_acceleration"])


def check(order: Order) -> None:
    """Check the values of an order about the loop or of one that lets a robot join.

    Raises:
        OrderError: a value is invalid.
    """
    match order:
        case Step(steps) if not (isinstance(steps, int) and 1 <= steps <= MOST_STEPS):
            message = f"{steps} steps: expected 1 to {MOST_STEPS}"
        case Speed(speed) if speed is not None and not (
            isinstance(speed, int | float) and 0 < speed < math.inf
        ):
            message = f"speed {speed!r}: expected a number above 0, or None for as fast as possible"
        case Join(pose=pose) if not all(math.isfinite(value) for value in pose):
            message = f"pose {pose}: expected three finite numbers"
        case _:
            return
    raise OrderError(message)


def placement_of(order: Join, taken: Collection[str]) -> RobotPlacement:
    """Return the placement of a robot that joins.

    Args:
        order: describes it.
        taken: names of the robots that are there.

    Raises:
        SwarmbedError: there is no such kind of robot, or the name is invalid.
    """
    kind, name = order.kind, order.robot
    known = names("config/robots")
    if kind not in known and not kind.endswith((".yaml", ".yml")):
        message = f"no kind of robot '{kind}'; available: {', '.join(known)}"
        raise OrderError(message)
    spec = RobotSpec.load(kind)
    if not name:
        stem = spec.kind
        name = next(f"{stem}{k}" for k in range(1, len(taken) + 2) if f"{stem}{k}" not in taken)
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        right = "up to 64 lower-case letters, digits and underscores, starting with a letter"
        message = f"name '{name[:80]}': expected {right}"
        raise OrderError(message)
    tracked = None
    if order.tracked is not False:
        options = {} if order.tracked is True else dict(order.tracked)
        tracked = config.check(options, TrackedBody, f"{name}: tracked")
    return RobotPlacement(name, spec, order.pose, order.localised, tracked=tracked)
