"""Controllers: robots' programs, which experiments, ROS nodes and robots tick at 10 Hz.

A controller is a class with `Parameters`, a `Part` with the fields that a scenario may set. Each instance
controls one robot and has its own random number generator. It has access to its `Robot` only.
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

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.readings import Readings
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

    IntArray = NDArray[np.int64]

TICK_RATE = 10.0
"""Tick rate of controllers, in Hz (DOTS paper, IV-B1)."""


class NoParameters(Part):
    """The `Parameters` of controllers without parameters."""


class Controller(Protocol):
    """One robot's program.

    Attributes:
        doing: the current activity in a word or two, such as "explore", for the timeline.
    """

    doing: str

    def tick(self) -> None:
        """Read the robot's senses and command it."""
        ...


class ControllerType(Protocol):
    """The type of the object that a name in a scenario's `controller` refers to."""

    Parameters: ClassVar[type[Part]]

    def __call__(self, robot: Robot, parameters: Any, rng: np.random.Generator) -> Controller:
        """Return a program for one robot."""
        ...


class CrowdAir(Protocol):
    """The radio of thousands of robots: all broadcast continuously, each receives from one chosen robot.

    Range and packet loss are those of the first packet radio in the robots' file.
    """

    def say(self, words: FloatArray) -> None:
        """Broadcast these numbers, a row for each robot, until the next call."""
        ...

    def heard(self, of: IntArray) -> FloatArray:
        """Return the numbers that each robot receives now from the robot whose row is in `of`.

        A row is NaN if that robot is out of range or dead, if the message is lost, or if `of` is negative.
        """
        ...

    @property
    def post(self) -> CrowdPost:
        """Return the individual messages between robots."""
        ...


class CrowdPost(Protocol):
    """Messages of any type, over the same radio; a message arrives at the next step of the world.

    All robots start tuned to channel 0. A receiver keeps the latest 64 messages that were not taken.
    """

    def tune(self, robot: int, channel: Hashable) -> None:
        """Tune a robot to another channel; messages not taken yet are kept."""
        ...

    def send(self, robot: int, message: Any, channel: Hashable) -> None:
        """Send a message on a channel."""
        ...

    def take(self, robot: int) -> list[Any]:
        """Return the messages that a robot has received and not taken yet, oldest first."""
        ...


class CrowdSenses(Protocol):
    """The senses of thousands of robots, one row each. The arrays belong to the world and are read-only.

    Attributes:
        time: [s] the world's time.
        ranges: [(robots, sensors); m] distances from the sensors' faces; infinity where nothing came back.
        angles: [(sensors,); rad; base_link] directions of the sensors, the same for all robots.
        headings: [(robots,); rad; map] absolute headings.
        positions: [(robots, 2); m; map] positions x, y by the sense of position; NaN without one.
        zones: [(robots,)] the zone that each robot is in, a `Zone`.
        twists: [(robots, 3); m/s, m/s, rad/s; base_link] body velocities.
        air: the radio between robots.
        readings: senses in the robot's own units, and its lights; None unless its file names `readings`.
    """

    time: float
    ranges: FloatArray
    angles: FloatArray
    headings: FloatArray
    positions: FloatArray
    zones: FloatArray
    twists: FloatArray
    air: CrowdAir
    readings: Readings | None


class CrowdProgram(Protocol):
    """A controller's variant for thousands of robots: one compiled call for all of them.

    A controller with such a variant returns it from `crowd(spec, parameters, count, rng)`. Optional members:
    `metrics()` returns names and numbers for the summary; `doing` is a list of the robots' activities, for
    the timeline and for transducers.
    """

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the commanded body velocities of all robots to `v_body`, in place."""
        ...


class CrowdControllerType(ControllerType, Protocol):
    """A controller that also has a variant for thousands of robots."""

    def crowd(self, spec: RobotSpec, parameters: Any, count: int, rng: np.random.Generator) -> CrowdProgram:
        """Return a program for `count` robots of one kind."""
        ...


def find_controller(name: str, parameters: Mapping[str, Any], source: str) -> tuple[ControllerType, Part]:
    """Return a controller's class and its checked parameters.

    Raises:
        ConfigError: there is no controller of this name, or its parameters are invalid.
    """
    found = find_plugin(CONTROLLERS, name)
    model = getattr(found, "Parameters", None)
    if not (isinstance(model, type) and issubclass(model, Part) and callable(found)):
        message = f"{source}: '{name}' is not a controller: expected a class with Parameters, a Part"
        raise ConfigError(message)
    return found, check(dict(parameters), model, f"{source}: controller {name}")
