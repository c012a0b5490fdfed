"""A robot's program: what the experiments, the ROS nodes and the robots tick at 10 Hz.

A controller is a class with `Parameters`, a `Part` that says what a scenario may set, and is made for one
robot with a generator of random numbers of its own. It knows nothing but its `Robot`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from swarmbed_core.config import Part, check
from swarmbed_core.errors import ConfigError
from swarmbed_core.plugins import CONTROLLERS, find_plugin

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from swarmbed_core.epuck2 import Readings
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

    IntArray = NDArray[np.int64]

TICK_RATE = 10.0
"""How often controllers are ticked, in Hz (DOTS paper, IV-B1)."""


class NoParameters(Part):
    """For controllers without any."""


class Controller(Protocol):
    """One robot's program.

    Attributes:
        doing: what it does now, in a word or two, such as "explore": the timeline shows it.
    """

    doing: str

    def tick(self) -> None:
        """Look at the robot's senses and command it."""
        ...


class ControllerType(Protocol):
    """What a name in a scenario's `controller` stands for."""

    Parameters: ClassVar[type[Part]]

    def __call__(self, robot: Robot, parameters: Any, rng: np.random.Generator) -> Controller:
        """Return a program for one robot."""
        ...


class CrowdAir(Protocol):
    """The radio of thousands of robots: all say something all the time, and hear whom they listen to.

    It is the first packet radio of the robots' file: its reach, and what of it is lost.
    """

    def say(self, words: FloatArray) -> None:
        """Send these numbers, a row for each robot, until others are said."""
        ...

    def heard(self, of: IntArray) -> FloatArray:
        """Return what each robot hears now of one other, whose row is in `of`: rows of its numbers.

        NaN where that one is out of reach, dead, or its message lost; and where `of` is negative.
        """
        ...

    @property
    def post(self) -> CrowdPost:
        """Return the messages that robots send each other one by one."""
        ...


class CrowdPost(Protocol):
    """Messages of any kind, over the same radio: what is sent arrives at the next step of the world.

    All begin tuned to channel 0; a receiver keeps the last 64 messages that were not taken.
    """

    def tune(self, robot: int, channel: Hashable) -> None:
        """Let a robot hear another channel than before; what it has not taken yet is kept."""
        ...

    def send(self, robot: int, message: Any, channel: Hashable) -> None:
        """Send a message on a channel."""
        ...

    def take(self, robot: int) -> list[Any]:
        """Return what a robot has heard and not taken yet, the oldest first."""
        ...


class CrowdSenses(Protocol):
    """What thousands of robots sense, one row each; the arrays are the world's own and must not be written.

    Attributes:
        time: [s] the world's time.
        ranges: [(robots, sensors); m] distances from the sensors' faces; infinity where nothing came back.
        angles: [(sensors,); rad; base_link] directions of the sensors, the same for all robots.
        headings: [(robots,); rad; map] absolute headings.
        positions: [(robots, 2); m; map] positions x, y by the sense of position; NaN without one.
        zones: [(robots,)] the zone that each robot is in, a `Zone`.
        twists: [(robots, 3); m/s, m/s, rad/s; base_link] body velocities.
        air: the radio: what robots say to each other.
        epuck2: senses in the units of the e-puck2, and its lights; None unless the robot's file has
            `readings: epuck2`.
    """

    time: float
    ranges: FloatArray
    angles: FloatArray
    headings: FloatArray
    positions: FloatArray
    zones: FloatArray
    twists: FloatArray
    air: CrowdAir
    epuck2: Readings | None


class CrowdProgram(Protocol):
    """A controller's form for thousands of robots: one compiled call for all of them.

    A controller that has one offers it as `crowd(spec, parameters, count, rng)`. What it counts itself it may
    tell as `metrics()`, names and numbers for the summary; and what each robot does as `doing`, a list of
    words, for the timeline and for transducers.
    """

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the body velocities that all robots shall have, in place."""
        ...


class CrowdControllerType(ControllerType, Protocol):
    """A controller that can also drive thousands."""

    def crowd(self, spec: RobotSpec, parameters: Any, count: int, rng: np.random.Generator) -> CrowdProgram:
        """Return a program for `count` robots of one kind."""
        ...


def find_controller(name: str, parameters: Mapping[str, Any], source: str) -> tuple[ControllerType, Part]:
    """Return a controller's class and its checked parameters.

    Raises:
        ConfigError: there is none of this name, or it takes no such parameters.
    """
    found = find_plugin(CONTROLLERS, name)
    model = getattr(found, "Parameters", None)
    if not (isinstance(model, type) and issubclass(model, Part) and callable(found)):
        message = f"{source}: controller '{name}' is no controller: a class with Parameters, a Part, is one"
        raise ConfigError(message)
    return found, check(dict(parameters), model, f"{source}: controller {name}")
