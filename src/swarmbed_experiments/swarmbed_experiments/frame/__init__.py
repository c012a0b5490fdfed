"""Interfaces of the parts of an experimental frame, and the data they get from a run.

A frame has generators, which disturb the run; transducers, which measure it; and acceptors, which decide
when it ends and with which verdict. Each is a class with `Parameters`, a `Part` that declares what a scenario
may set. It is created once per run and called at 10 Hz after the controllers. All parts see the ground truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from swarmbed_core.config import Part, check
from swarmbed_core.errors import ConfigError
from swarmbed_core.observing import Event
from swarmbed_core.plugins import find_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.scenario import Named
    from swarmbed_core.scene import Scene
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.world import CarrierTruth, Contact, TaskWorld


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The ground truth at one tick. The arrays may be the world's own: do not keep or change them.

    Attributes:
        time: the world's time in seconds.
        robots: rows of x, y, yaw in `map`; vx, vy in the body frame; omega.
        carriers: poses, lifts and bearers of the carriers.
        contacts: contacts that began since the previous tick.
        doing: the activity that each robot's controller reports; empty for a crowd that reports none.
        names: of the robots, in the order of the rows. Robots may join and leave: the same tuple as before
            means the same robots.
    """

    time: float
    robots: FloatArray
    carriers: CarrierTruth
    contacts: Sequence[Contact]
    doing: Sequence[str]
    names: Sequence[str]


@dataclass
class Setting:
    """What the parts of a frame share during a run.

    Attributes:
        scene: placements and arena at the start of the run.
        world: the simulated world.
        robots: the robots that are there now, with their Onboards; empty for a crowd.
        events: timeline so far; parts add events with `tell`.
        dead: names of the robots that a generator has killed.
        spent_wh: [Wh] energy that robots had drawn that have left.
        specs: specifications of all robots that were ever there, by name.
    """

    scene: Scene
    world: TaskWorld
    robots: Sequence[LocalRobot]
    events: list[Event] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    spent_wh: float = 0.0
    specs: dict[str, RobotSpec] = field(init=False)

    def __post_init__(self) -> None:
        """Store the specifications."""
        self.specs = {placement.name: placement.spec for placement in self.scene.robots}

    def tell(self, time: float, kind: str, who: str, text: str) -> None:
        """Add an event to the timeline."""
        self.events.append(Event(time, kind, who, text))


class Stand(Enum):
    """An acceptor's verdict on the run so far."""

    OPEN = "open"
    """Not done: the run continues, and is rejected if its time is up."""
    CONTENT = "content"
    """No objection, and nothing to wait for."""
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Judgement:
    """An acceptor's stand, with the reason in words."""

    stand: Stand
    reason: str


class Generator(Protocol):
    """Disturbs a run; it has its own random stream."""

    Parameters: ClassVar[type[Part]]

    def __init__(self, parameters: Any, setting: Setting, rng: np.random.Generator) -> None:
        """Prepare, and apply what takes effect from the start."""
        ...

    def tick(self, look: Look) -> None:
        """Apply the disturbances that are due."""
        ...


class Transducer(Protocol):
    """Measures a run."""

    Parameters: ClassVar[type[Part]]

    def __init__(self, parameters: Any, setting: Setting) -> None:
        """Prepare."""
        ...

    def tick(self, look: Look) -> None:
        """Measure."""
        ...

    def row(self) -> Mapping[str, float]:
        """Return the current values, by column of the time series."""
        ...

    def metrics(self) -> Mapping[str, Any]:
        """Return the metrics of the whole run, for the summary."""
        ...


class Acceptor(Protocol):
    """Decides when a run ends, and its verdict."""

    Parameters: ClassVar[type[Part]]

    def __init__(self, parameters: Any, setting: Setting) -> None:
        """Prepare."""
        ...

    def judge(self, look: Look, *, over: bool) -> Judgement:
        """Return the judgement of the run so far; `over` is true when its time is up."""
        ...

    def metrics(self) -> Mapping[str, Any]:
        """Return the acceptor's own metrics, for the summary."""
        ...


def find_part(group: str, named: Named, source: str) -> tuple[Any, Part]:
    """Return the class of a part of a frame and its checked parameters.

    Raises:
        ConfigError: no such part exists, it is not a valid class, or its parameters are invalid.
    """
    what = group.rpartition(".")[2].removesuffix("s")
    found = find_plugin(group, named.name)
    model = getattr(found, "Parameters", None)
    if not (isinstance(model, type) and issubclass(model, Part) and callable(found)):
        message = f"{source}: {what} '{named.name}' is not a class with Parameters, a Part"
        raise ConfigError(message)
    return found, check(dict(named.parameters), model, f"{source}: {what} {named.name}")
