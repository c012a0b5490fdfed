"""How far dead reckoning may be off: the covariance of the pose in `odom`, from 0 at the start.

The noise is that of the EKF's model (`ekf.EkfParams`): wheels that slip by a share of their speed and
miscount, a gyro with noise and a bias. The poses themselves are odometry's. Without a gyro the wheels tell
the turn too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.ekf import EkfParams
from swarmbed_core.geometry import between
from swarmbed_core.kinematics import Kinematics

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

PERIOD = 0.1
"""Seconds between two updates; within one the robot's motion counts as even."""
LEAST = 1e-6
"""Variance below which nobody believes dead reckoning: of 1 mm and 1 mrad."""


class Drift:
    """The covariance of one robot's dead reckoning."""

    def __init__(self, spec: RobotSpec) -> None:
        """Begin where nothing is uncertain but the gyro's bias."""
        kinematics = Kinematics.of(spec)
        params = EkfParams.from_spec(spec)
        self._matrix, self._inverse = kinematics.matrix, kinematics.inverse
        self._wheel_var, self._slip2 = params.wheel_sigma**2, params.slip_fraction**2
        self._cycle = params.odometry.cycle
        # Slip that lasts adds up faster.
        self._lasting = max(2.0 * params.slip_time, self._cycle)
        self._gyro = params.odometry.gyro
        self._gyro_var = params.gyro_sigma**2 * self._cycle
        self._walk2 = params.gyro_bias_walk**2
        self._sideways = not params.holonomic
        # x, y and yaw, and the gyro's bias.
        self._covariance = np.diag([0.0, 0.0, 0.0, params.gyro_bias_sigma**2 if self._gyro else 0.0])
        self._time, self._pose = -math.inf, np.zeros(3)

    @property
    def covariance(self) -> FloatArray:
        """Return the covariance of x, y and yaw in `odom`, 3 x 3; at the very start the smallest there is."""
        return self._covariance[:3, :3] + LEAST * np.eye(3)

    def due(self, now: float) -> bool:
        """Return whether it is time for `update`."""
        return not self._time <= now < self._time + PERIOD

    def update(self, now: float, pose_odom: FloatArray) -> None:
        """Take where odometry has come to."""
        dt, pose = now - self._time, self._pose
        self._time, self._pose = now, pose_odom
        if not 0.0 < dt < math.inf:
            # The first one, or the clock was set back: how long it took cannot be known.
            return
        moved = between(pose, pose_odom)
        step, turn = self._noise(moved, dt)
        yaw = float(pose[2] + 0.5 * moved[2])
        c, s = math.cos(yaw), math.sin(yaw)
        dx, dy = float(pose_odom[0] - pose[0]), float(pose_odom[1] - pose[1])
        move = np.eye(4)
        move[0, 2], move[1, 2] = -dy, dx
        if self._gyro:
            # A bias turns the robot all the way.
            move[2, 3] = -dt
            move[0, 3], move[1, 3] = 0.5 * dt * dy, -0.5 * dt * dx
        into = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        grown = move @ self._covariance @ move.T
        grown[:3, :3] += into @ step @ into.T
        grown[2, 2] += turn
        grown[3, 3] += self._walk2 * dt if self._gyro else 0.0
        self._covariance = grown

    def _noise(self, moved: FloatArray, dt: float) -> tuple[FloatArray, float]:
        """Return what a step adds: of the body's motion by its wheels, and of the turn by the gyro."""
        speeds = self._matrix @ (moved / dt)
        slipped = self._slip2 * speeds**2 * self._lasting
        wheels = dt * (self._wheel_var * self._cycle + slipped)
        step = (self._inverse * wheels) @ self._inverse.T
        if self._sideways:
            step[1, 1] += dt * float(slipped.mean())
        if not self._gyro:
            return step, 0.0
        step[2] = step[:, 2] = 0.0
        return step, self._gyro_var * dt
