"""Uncertainty of dead reckoning: the covariance of the pose in `odom`, from 0 at the start.

The noise model is that of the EKF (`ekf.EkfParams`): wheels slip by a share of their speed and miscount, the
gyro has noise and a bias. The poses come from odometry. Without a gyro the yaw comes from the wheels too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.ekf import EkfParams
from swarmbed_core.geometry import wrap
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

PERIOD = 0.1
"""Seconds between two updates; the motion between them counts as uniform."""
LEAST = 1e-6
"""Lower bound of the reported variances: (1 mm)^2 and (1 mrad)^2."""


# Indices into the numbers of a kind of robot.
_WHEELS, _SLIP, _GYRO, _WALK, _SIDEWAYS, _KNOWN = range(6)


@kernel
def grow_k(
    covariance: FloatArray,
    before: FloatArray,
    pose: FloatArray,
    dt: float,
    matrix: FloatArray,
    inverse: FloatArray,
    numbers: FloatArray,
) -> None:
    """Propagate the covariance of x, y, yaw and the gyro's bias over a step from one pose to another."""
    gyro = numbers[_KNOWN] > 0.0
    dx, dy = pose[0] - before[0], pose[1] - before[1]
    turned = wrap(pose[2] - before[2])
    c, s = math.cos(before[2]), math.sin(before[2])
    moved = (c * dx + s * dy, c * dy - s * dx, turned)
    # The wheels' noise, in the body frame: each wheel slips by a share of its speed, and miscounts.
    step = np.zeros((3, 3))
    slipped = 0.0
    for wheel in range(matrix.shape[0]):
        speed = (matrix[wheel, 0] * moved[0] + matrix[wheel, 1] * moved[1] + matrix[wheel, 2] * moved[2]) / dt
        slip = numbers[_SLIP] * speed**2
        slipped += slip / matrix.shape[0]
        variance = dt * (numbers[_WHEELS] + slip)
        for i in range(3):
            for j in range(3):
                step[i, j] += inverse[i, wheel] * variance * inverse[j, wheel]
    if numbers[_SIDEWAYS] > 0.0:
        step[1, 1] += dt * slipped
    turn = step[2, 2]
    if gyro:
        turn = numbers[_GYRO] * dt
        step[2, 0] = step[2, 1] = step[0, 2] = step[1, 2] = 0.0
    # Propagation of the errors so far.
    move = np.eye(4)
    move[0, 2], move[1, 2] = -dy, dx
    if gyro:
        # A bias turns the robot during the whole step.
        move[2, 3] = -dt
        move[0, 3], move[1, 3] = 0.5 * dt * dy, -0.5 * dt * dx
    grown = np.zeros((4, 4))
    for i in range(4):
        for j in range(4):
            for k in range(4):
                for m in range(4):
                    grown[i, j] += move[i, k] * covariance[k, m] * move[j, m]
    yaw = before[2] + 0.5 * turned
    c, s = math.cos(yaw), math.sin(yaw)
    grown[0, 0] += c * c * step[0, 0] - 2.0 * c * s * step[0, 1] + s * s * step[1, 1]
    grown[1, 1] += s * s * step[0, 0] + 2.0 * c * s * step[0, 1] + c * c * step[1, 1]
    across = c * s * (step[0, 0] - step[1, 1]) + (c * c - s * s) * step[0, 1]
    grown[0, 1] += across
    grown[1, 0] += across
    along, beside = c * step[0, 2] - s * step[1, 2], s * step[0, 2] + c * step[1, 2]
    grown[0, 2] += along
    grown[2, 0] += along
    grown[1, 2] += beside
    grown[2, 1] += beside
    grown[2, 2] += turn
    if gyro:
        grown[3, 3] += numbers[_WALK] * dt
    covariance[:] = grown


class Drift:
    """The covariance of one robot's dead reckoning.

    Attributes:
        covariance: of x, y and yaw in `odom`, 3 x 3; `LEAST` on the diagonal at the start.
    """

    def __init__(self, spec: RobotSpec) -> None:
        """Start with a certain pose and an uncertain gyro bias."""
        kinematics = Kinematics.of(spec)
        params = EkfParams.from_spec(spec)
        self._matrix = np.ascontiguousarray(kinematics.matrix)
        self._inverse = np.ascontiguousarray(kinematics.inverse)
        cycle, gyro = params.odometry.cycle, params.odometry.gyro
        # The variance of correlated slip grows faster.
        lasting = max(2.0 * params.slip_time, cycle)
        self._numbers = np.array(
            [
                params.wheel_sigma**2 * cycle,
                params.slip_fraction**2 * lasting,
                params.gyro_sigma**2 * cycle,
                params.gyro_bias_walk**2,
                not params.holonomic,
                gyro,
            ],
            dtype=np.float64,
        )
        # x, y and yaw, and the gyro's bias.
        self._covariance = np.diag([0.0, 0.0, 0.0, params.gyro_bias_sigma**2 if gyro else 0.0])
        self.covariance = LEAST * np.eye(3)
        self._time, self._pose = -math.inf, np.zeros(3)
        # Warm-up call: compiling or loading the kernel must not delay a robot's loop.
        self._grow(self._covariance.copy(), self._pose, 1.0)

    def _grow(self, covariance: FloatArray, pose_odom: FloatArray, dt: float) -> None:
        grow_k(covariance, self._pose, pose_odom, dt, self._matrix, self._inverse, self._numbers)

    def due(self, now: float) -> bool:
        """Return whether `update` is due; also after the clock was set back."""
        return not self._time <= now < self._time + PERIOD

    def update(self, now: float, pose_odom: FloatArray) -> None:
        """Propagate the covariance to odometry's newest pose."""
        dt = now - self._time
        # The first update, or a clock that was set back: the duration of the step is unknown.
        if 0.0 < dt < math.inf:
            self._grow(self._covariance, pose_odom, dt)
            self.covariance = self._covariance[:3, :3] + LEAST * np.eye(3)
        self._time, self._pose = now, pose_odom
