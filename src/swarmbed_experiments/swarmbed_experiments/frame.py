"""What the parts of an experimental frame are, and what they see of a run.

A frame has generators, which disturb the run; transducers, which measure it; and acceptors, which decide
when it is over and how it went. Each is a class with `Parameters`, a `Part` that says what a scenario may
set, made once a run and ticked at 10 Hz after the controllers. All of them look at the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from swarmbed_core.config import Part, check
from swarmbed_core.errors import ConfigError
from swarmbed_core.plugins import find_plugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.scenario import Named
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import CarrierTruth, Contact, TaskWorld


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth a mark on the timeline.

    Attributes:
        time: when.
        kind: in a word: `lifted`, `lowered`, `retrieved`, `contact`, or a generator's name.
        who: the robot or carrier it happened to, empty if it happened to all.
        text: in words.
    """

    time: float
    kind: str
    who: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The truth at one tick; the arrays may be the world's own and must not be kept or written.

    Attributes:
        robots: rows of x, y, yaw in `map`, vx, vy along the body, omega.
        contacts: those that began since the tick before.
        doing: what each robot's controller says it does, empty for a crowd that does not say.
    """

    time: float
    robots: FloatArray
    carriers: CarrierTruth
    contacts: Sequence[Contact]
    doing: Sequence[str]


@dataclass
class Setting:
    """What a frame's parts work with for the whole run.

    Attributes:
        robots: with their Onboards, empty for a crowd.
        events: what was worth a mark so far; parts add to it.
        dead: robots that a generator let die.
    """

    scene: Scene
    world: TaskWorld
    robots: Sequence[LocalRobot]
    events: list[Event] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)

    def tell(self, time: float, kind: str, who: str, text: str) -> None:
        """Mark the timeline."""
        self.events.append(Event(time, kind, who, text))


class Stand(Enum):
    """What an acceptor thinks of the run so far."""

    OPEN = "open"
    """Not done: the run goes on, and is rejected when its time is up."""
    CONTENT = "content"
    """Nothing to object, nothing to wait for."""
    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Judgement:
    """An acceptor's stand, and why."""

    stand: Stand
    reason: str


class Generator(Protocol):
    """Disturbs a run; its chance comes from a stream of its own."""

    Parameters: ClassVar[type[Part]]

    def __init__(self, parameters: Any, setting: Setting, rng: np.random.Generator) -> None:
        """Get ready; what holds from the start is done here."""
        ...

    def tick(self, look: Look) -> None:
        """Do what is due."""
        ...


class Transducer(Protocol):
    """Measures a run."""

    Parameters: ClassVar[type[Part]]

    def __init__(self, parameters: Any, setting: Setting) -> None:
        """Get ready."""
        ...

    def tick(self, look: Look) -> None:
        """Measure."""
        ...

    def row(self) -> Mapping[str, float]:
        """Return the numbers of now, by column of the time series."""
        ...

    def metrics(self) -> Mapping[str, Any]:
        """Return the numbers of the whole run, for the summary."""
        ...


class Acceptor(Protocol):
    """Decides a run."""

    Parameters: ClassVar[type[Part]]

    def __init__(self, parameters: Any, setting: Setting) -> None:
        """Get ready."""
        ...

    def judge(self, look: Look, *, over: bool) -> Judgement:
        """Return what to think of the run now; `over` says that its time is up."""
        ...

    def metrics(self) -> Mapping[str, Any]:
        """Return what it found out, for the summary."""
        ...


def find_part(group: str, named: Named, source: str) -> tuple[Any, Part]:
    """Return the class of a part of a frame and its checked parameters.

    Raises:
        ConfigError: there is none of this name, or it takes no such parameters.
    """
    what = group.rpartition(".")[2].removesuffix("s")
    found = find_plugin(group, named.name)
    model = getattr(found, "Parameters", None)
    if not (isinstance(model, type) and issubclass(model, Part) and callable(found)):
        message = f"{source}: {what} '{named.name}' is none: a class with Parameters, a Part, is one"
        raise ConfigError(message)
    return found, check(dict(named.parameters), model, f"{source}: {what} {named.name}")
