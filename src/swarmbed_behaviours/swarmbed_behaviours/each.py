"""Plain Python for each robot: one object per robot, which gets only that robot's senses.

One program drives a whole crowd (`swarmbed_core.controller.CrowdProgram`), which is fast if compiled. As an
alternative, write a class for one robot: inherit `EachRobot` and implement `step`. This costs some
microseconds of Python per robot and tick, in the same world. The same class drives robots outside crowds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, cast

from swarmbed_core.controller import NoParameters
from swarmbed_core.readings import Readings

from swarmbed_behaviours.alone import Alone

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from swarmbed_core.config import Part
    from swarmbed_core.controller import CrowdSenses
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.readings import Blobs
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

Blob = tuple[float, float, tuple[int, int, int]]


@dataclass(slots=True)
class OwnSenses:
    """Senses of one robot: its row of `CrowdSenses` and `Readings`, as plain numbers and lists.

    Fields from `leds` on are None for robots without readings; those from `proximity` on also for senses that
    are switched off.

    Attributes:
        time: in seconds.
        ranges: distances from the sensors' faces in m, inf where nothing came back.
        angles: angles of the sensors in rad.
        heading: absolute heading in rad; NaN without a compass.
        zone: the zone it is in, a `Zone`.
        twist: its velocity: ahead, to the left, rate of turn.
        position: x, y in m by the sense of position; NaN without one.
        leds: its lights, rows of red, green, blue; write into it.
        proximity: see `Readings`.
        light: see `Readings`.
        ground: see `Readings`.
        tof: see `Readings`.
        encoders: see `Readings`.
        camera: lights in view: column, row, colour.
        acceleration: see `Readings`.
        turning: see `Readings`.
        battery: see `Readings`.
    """

    time: float
    ranges: list[float]
    angles: list[float]
    heading: float
    zone: float
    twist: list[float]
    position: list[float]
    leds: NDArray[np.uint8] | None = None
    proximity: list[int] | None = None
    light: list[int] | None = None
    ground: list[int] | None = None
    tof: int | None = None
    encoders: list[int] | None = None
    camera: list[Blob] | None = None
    acceleration: list[int] | None = None
    turning: list[int] | None = None
    battery: float | None = None


_OWN = tuple(item.name for item in fields(Readings))


class EachRobot:
    """A program for one robot, of a crowd or not; inherit it and implement `step`.

    Outside a crowd the first step is when all senses have been read once, after a tick.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __new__(cls, robot: RobotSpec | Robot, parameters: Any, rng: np.random.Generator) -> Any:
        """Return a program for a kind of robot; for a robot outside a crowd, a controller that runs one."""
        spec = getattr(robot, "spec", None)
        if spec is None:
            return super().__new__(cls)
        # A `step` that reads lights or the ground must not find None where a crowd has readings.
        return Alone(cast("Robot", robot), Each([cls(spec, parameters, rng)]), waits=True)

    def __init__(self, spec: RobotSpec, parameters: Any, rng: np.random.Generator) -> None:
        """Set up one robot; `rng` is its own random generator."""
        self.spec = spec
        self.parameters = parameters
        self.rng = rng

    def step(self, senses: OwnSenses) -> tuple[float, float]:
        """Return the speed ahead, m/s, and the rate of turn, rad/s, for the next tenth of a second."""
        raise NotImplementedError

    @classmethod
    def crowd(cls, spec: RobotSpec, parameters: Any, count: int, rng: np.random.Generator) -> Each:
        """Return a program for all robots: one object of this class for each."""
        return Each([cls(spec, parameters, own) for own in rng.spawn(count)])


class Each:
    """Drives each robot of a crowd with its own program; a `CrowdProgram`."""

    def __init__(self, programs: list[EachRobot]) -> None:
        """Take one program per robot, in the robots' order."""
        self.programs = programs

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the velocity that each robot's program returns."""
        angles = senses.angles.tolist()
        rows = zip(
            senses.ranges.tolist(),
            senses.headings.tolist(),
            senses.zones.tolist(),
            senses.twists.tolist(),
            senses.positions.tolist(),
            strict=True,
        )
        own = {} if senses.readings is None else _columns(senses.readings)
        wishes = []
        for i, (program, row) in enumerate(zip(self.programs, rows, strict=True)):
            ranges, heading, zone, twist, position = row
            more = {name: column[i] for name, column in own.items()}
            one = OwnSenses(senses.time, ranges, angles, heading, zone, twist, position, **more)
            wishes.append(program.step(one))
        v_body[:, ::2] = wishes
        v_body[:, 1] = 0.0


def _columns(readings: Readings) -> dict[str, Any]:
    """Return the readings that are switched on, each with one item per robot."""
    columns: dict[str, Any] = {}
    for name in _OWN:
        value = getattr(readings, name)
        if value is not None:
            columns[name] = value if name == "leds" else _seen(value) if name == "camera" else value.tolist()
    return columns


def _seen(blobs: Blobs) -> list[list[Blob]]:
    first, pixels, colours = blobs.first.tolist(), blobs.pixels.tolist(), blobs.colours.tolist()
    rows: list[Blob] = [
        (column, row, (red, green, blue))
        for (column, row), (red, green, blue) in zip(pixels, colours, strict=True)
    ]
    return [rows[begin:end] for begin, end in pairwise(first)]
