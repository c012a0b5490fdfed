"""Programs for crowds, run by one whole robot: a crowd of one.

A `CrowdProgram` reads and commands all robots of a crowd as arrays. `Alone` gives it arrays with the one row
of a robot with an Onboard, so that a controller's two forms share their logic. The radio of crowds is not
among these senses: a program that uses it needs a form of its own for whole robots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from swarmbed_core.errors import ConfigError
from swarmbed_core.leds import pack
from swarmbed_core.readings import dark, readings_of
from swarmbed_core.robot import Command

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.controller import CrowdAir, CrowdPost, CrowdProgram
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.readings import Readings
    from swarmbed_core.robot import Robot, Senses
    from swarmbed_core.spec import RobotSpec

    IntArray = NDArray[np.int64]


WAITS = 1.0
"""[s] How long a program waits for the first readings of all senses."""


def is_whole(senses: Senses, spec: RobotSpec) -> bool:
    """Return whether a robot has sensed everything that robots of its kind can sense."""
    there = [senses.wheel_travel is not None, spec.imu is None or senses.imu is not None]
    there.append(spec.compass is None or senses.heading is not None)
    for name in spec.sensors:
        field, _, which = name.partition(".")
        found = getattr(senses, field)
        there.append(which in found if which else found is not None)
    return all(there)


class NoAir:
    """The radio of crowds, which a whole robot does not have."""

    def _refuse(self) -> NoReturn:
        message = "this program uses the radio of crowds; set `crowd: true` for the robots"
        raise ConfigError(message)

    def say(self, words: FloatArray) -> None:  # noqa: ARG002 - it only raises
        """Reject the call.

        Raises:
            ConfigError: always.
        """
        self._refuse()

    def heard(self, of: IntArray) -> FloatArray:  # noqa: ARG002 - it only raises
        """Reject the call.

        Raises:
            ConfigError: always.
        """
        self._refuse()

    @property
    def post(self) -> CrowdPost:
        """Reject the call.

        Raises:
            ConfigError: always.
        """
        self._refuse()


@dataclass(slots=True, eq=False)
class OneSenses:
    """The senses of one robot as arrays with one row; a `CrowdSenses`."""

    time: float
    ranges: FloatArray
    angles: FloatArray
    headings: FloatArray
    positions: FloatArray
    zones: FloatArray
    twists: FloatArray
    air: CrowdAir
    readings: Readings | None


class Alone:
    """A program for crowds that drives one whole robot; a `Controller`.

    Attributes:
        doing: the program's activity, if it reports any.
    """

    def __init__(self, robot: Robot, program: CrowdProgram, *, waits: bool = False) -> None:
        """Let `program`, made for one robot, drive this one.

        Args:
            robot: the robot.
            program: its program.
            waits: whether the program starts when the robot has sensed everything once, `WAITS` seconds after
                the first tick at the latest.
        """
        self.doing = ""
        self._waits = waits
        self._first: float | None = None
        self._robot = robot
        self._program = program
        spec = robot.spec
        self._angles = np.array([angle for ring in spec.ranges for angle in ring.angles])
        self._readings_of = readings_of(spec)
        self._leds = dark(spec, 1)
        self._shown = self._leds.copy()
        self._v_body = np.zeros((1, 3))
        self._air = NoAir()

    def tick(self) -> None:
        """Read the robot's senses and command it."""
        senses = self._robot.sense()
        if self._waits:
            self._first = senses.time if self._first is None else self._first
            self._waits = senses.time - self._first < WAITS and not is_whole(senses, self._robot.spec)
            if self._waits:
                return
        self._program.tick(self._row(senses), self._v_body)
        vx, vy, omega = self._v_body[0].tolist()
        leds = None
        if not np.array_equal(self._leds, self._shown):
            self._shown[:] = self._leds
            leds = [pack(*colour) for colour in self._leds[0].tolist()]
        self._robot.act(Command(velocity_body=(vx, vy, omega), leds=leds))
        doing = getattr(self._program, "doing", None)
        self.doing = doing[0] if doing else ""

    def _row(self, senses: Senses) -> OneSenses:
        ranges, heading = list(senses.ranges.values()), senses.heading
        unknown = np.full(2, math.nan)
        of = self._readings_of
        return OneSenses(
            time=senses.time,
            ranges=np.concatenate(ranges)[None] if ranges else np.empty((1, 0)),
            angles=self._angles,
            headings=np.array([math.nan if heading is None else heading]),
            positions=(unknown if senses.position is None else senses.position)[None],
            zones=np.array([float(senses.zone)]),
            twists=senses.twist_body[None],
            air=self._air,
            readings=None if of is None else of(senses, self._robot.spec, self._leds),
        )
