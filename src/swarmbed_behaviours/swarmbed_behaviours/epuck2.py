"""Programs for e-puck2s: a walk with obstacle avoidance, and wheels at given speeds.

Both read and command all robots of a crowd at once, or one robot outside a crowd. `epuck2_walk` is used to
measure the speed of worlds: straight on until the front proximity sensors detect something, then a turn on
the spot, away from it, until the way is clear. `epuck2_wheels` is for the experiments of "Design and analysis
of an E-Puck2 robot plug-in for ARGoS" (section 4): robots drive or turn at a fixed speed, or turn at speeds
that change in steps of 0.1 cm/s, as in its battery measurements (4.3.1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import wrap_all
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.scenario import Byte
from swarmbed_core.spec import Positive

from swarmbed_behaviours.alone import Alone

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.controller import CrowdProgram, CrowdSenses
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

    IntArray = NDArray[np.int64]

FRONT = math.radians(60)
"""Largest angle from straight ahead, in radians, of the sensors that count as front ones."""
NEAR = 150
"""Reading from which an obstacle is in the way: it corresponds to a distance of 46 mm."""
TURN = 2.0
"""Rate in rad/s at which a robot turns away."""
RAMP_STEP, RAMP_TOP = 0.001, 0.15
"""Change per tick and largest value, in m/s, of the speed of `ramp` (4.3.1)."""


@kernel
def avoid_k(
    readings: IntArray, sides: FloatArray, speed: float, turning: FloatArray, v_body: FloatArray
) -> None:
    """Write the velocities of all robots; see the module's text.

    Args:
        readings: rows of proximity readings.
        sides: 1 for front sensors on the left, -1 for those on the right, 0 for the other sensors.
        speed: speed straight on, in m/s.
        turning: 1 for robots that turn left, -1 for right, 0 for those that drive on; updated.
        v_body: commanded velocities; written.
    """
    for i in range(readings.shape[0]):
        most, left = 0, 0.0
        for k in range(sides.shape[0]):
            if sides[k] != 0.0:
                most = max(most, readings[i, k])
                left += sides[k] * readings[i, k]
        if most < NEAR:
            turning[i] = 0.0
        elif turning[i] == 0.0:
            # A turn keeps its direction: otherwise robots get stuck in corners.
            turning[i] = -1.0 if left > 0.0 else 1.0
        v_body[i, 0] = speed if turning[i] == 0.0 else 0.0
        v_body[i, 1] = 0.0
        v_body[i, 2] = TURN * turning[i]


class WalkParameters(Part):
    """What a scenario may set.

    Attributes:
        speed: in m/s; the robots' limit, if not given.
    """

    speed: Positive | None = None


class Walk(Alone):
    """A walk with obstacle avoidance."""

    Parameters: ClassVar[type[Part]] = WalkParameters

    def __init__(
        self,
        robot: Robot,
        parameters: WalkParameters,
        rng: np.random.Generator,  # noqa: ARG002 - the walk is deterministic
    ) -> None:
        """Drive one robot.

        Raises:
            ConfigError: robots of this kind have no proximity readings.
        """
        super().__init__(robot, WalkCrowd(robot.spec, parameters, 1))

    @staticmethod
    def crowd(
        spec: RobotSpec,
        parameters: WalkParameters,
        count: int,
        rng: np.random.Generator,  # noqa: ARG004 - the walk is deterministic
    ) -> CrowdProgram:
        """Return a program for all robots."""
        return WalkCrowd(spec, parameters, count)


class WalkCrowd:
    """The walk of all robots; a `CrowdProgram`."""

    def __init__(self, spec: RobotSpec, parameters: WalkParameters, count: int) -> None:
        """Find the front sensors.

        Raises:
            ConfigError: robots of this kind have no proximity readings.
        """
        ring = next((ring for ring in spec.ranges if ring.name == "proximity"), None)
        if ring is None or spec.readings is None:
            message = f"epuck2_walk: a {spec.kind} has no proximity readings; use robots of kind epuck2"
            raise ConfigError(message)
        angles = wrap_all(np.array(ring.angles))
        self._sides = np.where(np.abs(angles) < FRONT, np.sign(angles), 0.0)
        self._speed = min(parameters.speed or math.inf, spec.limits.speed)
        self._turning = np.zeros(count)

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the commanded body velocities of all robots."""
        own = senses.readings
        if own is None or own.proximity is None:
            message = "epuck2_walk: the sense `proximity` is switched off; add it to the crowd's `senses`"
            raise ConfigError(message)
        avoid_k(own.proximity, self._sides, self._speed, self._turning, v_body)


Speed = Annotated[float, Field(ge=-1, le=1)]


class WheelsParameters(Part):
    """What a scenario may set.

    Attributes:
        left: speed of the left wheels in m/s: one for all robots, or a list with one for each.
        right: speed of the right wheels, likewise.
        draw: instead, all robots turn on the spot at one of these speeds, drawn for each run; outside a
            crowd, each robot draws its own.
        ramp: whether, instead, robots turn on the spot at wheel speeds that ramp up and down between -15 cm/s
            and 15 cm/s.
        colour: red, green and blue of all lights that the robots have.
    """

    left: Speed | tuple[Speed, ...] = 0.0
    right: Speed | tuple[Speed, ...] = 0.0
    draw: tuple[Speed, ...] = ()
    ramp: bool = False
    colour: tuple[Byte, Byte, Byte] = (0, 0, 0)


class Wheels(Alone):
    """Wheels at given speeds."""

    Parameters: ClassVar[type[Part]] = WheelsParameters

    def __init__(self, robot: Robot, parameters: WheelsParameters, rng: np.random.Generator) -> None:
        """Drive one robot.

        Raises:
            ConfigError: robots of this kind do not have two wheels, or there is more than one speed.
        """
        super().__init__(robot, WheelsCrowd(robot.spec, parameters, 1, rng))

    @staticmethod
    def crowd(
        spec: RobotSpec,
        parameters: WheelsParameters,
        count: int,
        rng: np.random.Generator,
    ) -> CrowdProgram:
        """Return a program for all robots."""
        return WheelsCrowd(spec, parameters, count, rng)


class WheelsCrowd:
    """The wheel speeds of all robots; a `CrowdProgram`."""

    def __init__(
        self, spec: RobotSpec, parameters: WheelsParameters, count: int, rng: np.random.Generator
    ) -> None:
        """Compute the kinematics and the wheel speeds.

        Raises:
            ConfigError: robots of this kind do not have two wheels, or the number of speeds is wrong.
        """
        kinematics = Kinematics.of(spec)
        if kinematics.count != 2:
            message = f"epuck2_wheels: a {spec.kind} has {kinematics.count} wheels; expected 2"
            raise ConfigError(message)
        self._wheels = np.zeros((2, count))
        for row, speeds in enumerate((parameters.left, parameters.right)):
            if isinstance(speeds, tuple) and len(speeds) != count:
                message = (
                    f"epuck2_wheels: {len(speeds)} speeds for {count} robots; expected one for each "
                    "(outside a crowd, one number: give groups of robots a `controller` of their own)"
                )
                raise ConfigError(message)
            self._wheels[row] = speeds
        if parameters.draw:
            speed = rng.choice(parameters.draw)
            self._wheels[0], self._wheels[1] = -speed, speed
        self._matrix = kinematics.inverse
        self._ramp, self._colour = parameters.ramp, parameters.colour
        self._speed, self._step = 0.0, RAMP_STEP

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the commanded body velocities of all robots."""
        if self._ramp:
            self._speed += self._step
            if abs(self._speed) >= RAMP_TOP:
                self._step = -math.copysign(RAMP_STEP, self._speed)
            self._wheels[0], self._wheels[1] = -self._speed, self._speed
        v_body[:] = (self._matrix @ self._wheels).T
        if senses.readings is not None and any(self._colour):
            senses.readings.leds[:] = self._colour
