"""Programs for crowds of e-puck2s: a walk that avoids what is near, and wheels that turn as they are told.

Both read and command all robots at once. `epuck2_walk` is what the speed of worlds is measured with: straight
on until the proximity sensors at the front see something, then round on the spot, away from it, until they do
not. `epuck2_wheels` is for the experiments of "Design and analysis of an E-Puck2 robot
plug-in for ARGoS" (section 4): robots drive or turn at one speed, or turn at speeds that change in steps of
0.1 cm/s, as they do where its batteries are measured (4.3.1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.scenario import Byte
from swarmbed_core.spec import Positive

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.controller import CrowdProgram, CrowdSenses
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

    IntArray = NDArray[np.int64]

FRONT = math.radians(60)
"""Sensors that look no farther aside than that guard the way."""
NEAR = 150
"""Reading from which something is in the way: it is 46 mm away then."""
TURN = 2.0
"""rad/s at which a robot turns away."""
RAMP_STEP, RAMP_TOP = 0.001, 0.15
"""m/s from one tick to the next, and at most, of wheels that try all speeds (4.3.1)."""


@kernel
def avoid_k(
    readings: IntArray, sides: FloatArray, speed: float, turning: FloatArray, v_body: FloatArray
) -> None:
    """Write the velocities of all robots; see the module's text.

    Args:
        readings: rows of the proximity sensors'.
        sides: 1 for those at the left of the front, -1 at its right, 0 for the others.
        speed: straight on, in m/s.
        turning: 1 for those that turn left, -1 right, 0 for those that drive on; written.
        v_body: what each shall do; written.
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
            # Once begun, it goes on the same way round: else corners hold robots for good.
            turning[i] = -1.0 if left > 0.0 else 1.0
        v_body[i, 0] = speed if turning[i] == 0.0 else 0.0
        v_body[i, 1] = 0.0
        v_body[i, 2] = TURN * turning[i]


class WalkParameters(Part):
    """How to walk.

    Attributes:
        speed: in m/s; as fast as they can, if not given.
    """

    speed: Positive | None = None


class CrowdOnly:
    """A controller that has a form for crowds and none for one robot."""

    Parameters: ClassVar[type[Part]]

    def __init__(self, robot: Robot, parameters: Part, rng: np.random.Generator) -> None:  # noqa: ARG002 - there is no use for them
        """Say that there is none.

        Raises:
            ConfigError: always.
        """
        message = f"{type(self).__name__} drives crowds; put crowd: true beside the robots"
        raise ConfigError(message)


class Walk(CrowdOnly):
    """The walk."""

    Parameters = WalkParameters

    @staticmethod
    def crowd(
        spec: RobotSpec,
        parameters: WalkParameters,
        count: int,
        rng: np.random.Generator,  # noqa: ARG004 - no chance
    ) -> CrowdProgram:
        """Return a program for all robots."""
        return WalkCrowd(spec, parameters, count)


class WalkCrowd:
    """The walk of all robots."""

    def __init__(self, spec: RobotSpec, parameters: WalkParameters, count: int) -> None:
        """Find the sensors that look ahead.

        Raises:
            ConfigError: robots of this kind have none.
        """
        ring = next((ring for ring in spec.ranges if ring.name == "proximity"), None)
        if ring is None or spec.readings != "epuck2":
            message = f"epuck2_walk: {spec.kind} has no proximity readings; epuck2 has"
            raise ConfigError(message)
        angles = np.remainder(np.array(ring.angles) + math.pi, 2 * math.pi) - math.pi
        self._sides = np.where(np.abs(angles) < FRONT, np.sign(angles), 0.0)
        self._speed = min(parameters.speed or math.inf, spec.limits.speed)
        self._turning = np.zeros(count)

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the body velocities that all robots shall have."""
        own = senses.epuck2
        if own is None or own.proximity is None:
            message = "epuck2_walk: proximity is not among the senses that are on"
            raise ConfigError(message)
        avoid_k(own.proximity, self._sides, self._speed, self._turning, v_body)


Speed = Annotated[float, Field(ge=-1, le=1)]


class WheelsParameters(Part):
    """How wheels turn.

    Attributes:
        left: m/s, of all robots or of one after the other.
        right: m/s, likewise.
        draw: instead, all robots turn on the spot at one of these speeds, drawn for each run.
        ramp: whether robots turn on the spot at speeds that rise and fall between 15 cm/s one way round and
            15 cm/s the other, instead.
        colour: red, green and blue of all lights, as far as they have them.
    """

    left: Speed | tuple[Speed, ...] = 0.0
    right: Speed | tuple[Speed, ...] = 0.0
    draw: tuple[Speed, ...] = ()
    ramp: bool = False
    colour: tuple[Byte, Byte, Byte] = (0, 0, 0)


class Wheels(CrowdOnly):
    """Wheels that turn as they are told."""

    Parameters = WheelsParameters

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
    """The wheels of all robots."""

    def __init__(
        self, spec: RobotSpec, parameters: WheelsParameters, count: int, rng: np.random.Generator
    ) -> None:
        """Find out what wheels do to a body.

        Raises:
            ConfigError: robots of this kind have no two wheels, or the speeds are not of so many robots.
        """
        kinematics = Kinematics.of(spec)
        if kinematics.count != 2:
            message = f"epuck2_wheels: {spec.kind} has {kinematics.count} wheels; 2 are right"
            raise ConfigError(message)
        self._wheels = np.zeros((2, count))
        for row, speeds in enumerate((parameters.left, parameters.right)):
            if isinstance(speeds, tuple) and len(speeds) != count:
                message = f"epuck2_wheels: {len(speeds)} speeds for {count} robots; one for each is right"
                raise ConfigError(message)
            self._wheels[row] = speeds
        if parameters.draw:
            speed = rng.choice(parameters.draw)
            self._wheels[0], self._wheels[1] = -speed, speed
        self._matrix = kinematics.inverse
        self._ramp, self._colour = parameters.ramp, parameters.colour
        self._speed, self._step = 0.0, RAMP_STEP

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the body velocities that all robots shall have."""
        if self._ramp:
            self._speed += self._step
            if abs(self._speed) >= RAMP_TOP:
                self._step = -math.copysign(RAMP_STEP, self._speed)
            self._wheels[0], self._wheels[1] = -self._speed, self._speed
        v_body[:] = (self._matrix @ self._wheels).T
        if senses.epuck2 is not None and any(self._colour):
            senses.epuck2.leds[:] = self._colour
