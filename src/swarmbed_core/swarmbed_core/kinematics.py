"""Body velocity to wheel speeds and back (DOTS paper, III-A7, the unnumbered matrix).

A wheel at angle phi of a circle of radius R rolls along the tangent there, so its row of
`wheel_speeds = matrix @ (vx, vy, omega)` is `(-sin phi, cos phi, R)`. The paper's first two rows are
such wheels, at 60 and 180 degrees. Its third, (sqrt(3)/2, -0.5, 1), is not: a wheel 120 degrees from both
is at 300 degrees and has +0.5 there. With the printed sign the column of vy does not sum to zero, so
rolling sideways would turn the robot. This module follows the geometry.

A differential robot has the rows (1, 0, -b/2) and (1, 0, b/2) for its left and right wheel, b apart. The row
of its inverse for vy is 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.errors import ConfigError
from swarmbed_core.kernel import kernel
from swarmbed_core.spec import OmniDrive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import DifferentialDrive, RobotSpec

# Limit of the matrix's condition number: with nearly coinciding wheels the inverse is numerical noise.
WORST_CONDITION = 1e6


@kernel
def wheels_k(matrix: FloatArray, vx: float, vy: float, omega: float, wheel_speeds: FloatArray) -> None:
    """Write the wheel speeds of a body velocity to `wheel_speeds`."""
    for i in range(matrix.shape[0]):
        wheel_speeds[i] = matrix[i, 0] * vx + matrix[i, 1] * vy + matrix[i, 2] * omega


@kernel
def body_k(inverse: FloatArray, wheel_speeds: FloatArray, v_body: FloatArray) -> None:
    """Write the least squares body velocity of wheel speeds to `v_body`."""
    for k in range(3):
        total = 0.0
        for i in range(inverse.shape[1]):
            total += inverse[k, i] * wheel_speeds[i]
        v_body[k] = total


@kernel
def limit_k(wheel_speeds: FloatArray, max_speed: float) -> float:
    """Scale the wheel speeds in place so that none is above `max_speed`; return the factor, at most 1.

    If any speed is not finite, all speeds and the factor become 0.
    """
    fastest = 0.0
    for i in range(wheel_speeds.shape[0]):
        speed = abs(wheel_speeds[i])
        if not speed < np.inf:
            wheel_speeds[:] = 0.0
            return 0.0
        fastest = max(fastest, speed)
    if fastest <= max_speed:
        return 1.0
    factor = max_speed / fastest
    for i in range(wheel_speeds.shape[0]):
        # The product may round up to just above the limit.
        wheel_speeds[i] = min(max(wheel_speeds[i] * factor, -max_speed), max_speed)
    return factor


class Kinematics:
    """The kinematics of one kind of drive.

    Attributes:
        matrix: n x 3; wheel speeds in m/s from `(vx, vy, omega)` of the body.
        inverse: 3 x n; the body velocity from wheel speeds, by least squares.
        max_speed: of a wheel, in m/s.
        holonomic: whether the robot can move sideways.
    """

    __slots__ = ("holonomic", "inverse", "matrix", "max_speed")

    def __init__(self, drive: OmniDrive | DifferentialDrive) -> None:
        """Compute the matrices from the geometry of a drive.

        Raises:
            ConfigError: the wheels are placed so that the body velocity is not determined.
        """
        self.max_speed = drive.wheels.max_speed
        self.holonomic = drive.holonomic
        if isinstance(drive, OmniDrive):
            self.matrix = np.array(
                [[-math.sin(phi), math.cos(phi), drive.centre_to_wheel] for phi in drive.wheel_angles]
            )
            # Columns of similar size, so that the condition depends on the angles, not on the robot's size.
            condition = float(np.linalg.cond(self.matrix / [1.0, 1.0, drive.centre_to_wheel]))
            if not condition < WORST_CONDITION:
                message = (
                    f"drive.wheel_angles {drive.wheel_angles}: at least three different angles are needed"
                )
                raise ConfigError(message)
            self.inverse = np.linalg.pinv(self.matrix)
        else:
            half = drive.wheel_separation / 2
            self.matrix = np.array([[1.0, 0.0, -half], [1.0, 0.0, half]])
            self.inverse = np.array([[0.5, 0.5], [0.0, 0.0], [-0.5 / half, 0.5 / half]])
        self.matrix.flags.writeable = False
        self.inverse.flags.writeable = False

    @classmethod
    def of(cls, spec: RobotSpec) -> Kinematics:
        """Return the kinematics of a kind of robot."""
        return cls(spec.drive)

    @property
    def count(self) -> int:
        """Return the number of wheels."""
        return len(self.matrix)

    def wheels(self, v_body: ArrayLike) -> FloatArray:
        """Return the wheel speeds of a body velocity; a differential robot ignores vy."""
        vx, vy, omega = np.asarray(v_body, dtype=np.float64)
        wheel_speeds = np.empty(self.count)
        wheels_k(self.matrix, vx, vy, omega, wheel_speeds)
        return wheel_speeds

    def body(self, wheel_speeds: ArrayLike) -> FloatArray:
        """Return the least squares body velocity of wheel speeds."""
        v_body = np.empty(3)
        body_k(self.inverse, np.asarray(wheel_speeds, dtype=np.float64), v_body)
        return v_body

    def limit(self, wheel_speeds: ArrayLike) -> FloatArray:
        """Return the wheel speeds scaled by one factor so that none is above the limit.

        The scaling keeps the direction of motion. If any speed is not finite, all become 0.
        """
        limited = np.array(wheel_speeds, dtype=np.float64)
        limit_k(limited, self.max_speed)
        return limited
