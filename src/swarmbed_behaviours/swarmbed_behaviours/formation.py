"""A formation that moves as one rigid body: its trajectory, its slots, and each robot's dead reckoning.

The origin of the formation's frame is the centre of its slots at the start, with x along the carriers' +x. A
`Course` is the pose of the formation over time. It is the same on every robot, because all compute it from
the same numbers. A robot in slot r of a formation at F moves like the point r of a rigid body. Holonomic
drives can do this at any heading (DOTS paper, III-A7).

`Reckoning` is dead reckoning without heading drift: the position comes from odometry, the heading from the
gyro in the short term and from the compass in the long term. It is relative to the robot's own start, so a
constant error of the compass does no harm.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.errors import ConfigError, PathError
from swarmbed_core.geometry import wrap
from swarmbed_core.spec import Limits
from swarmbed_core.trajectory import Path, PathPlayer, PlayerState, Waypoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Senses
    from swarmbed_core.spec import RobotSpec

Vector = tuple[float, float, float]

COURSE_STEP = 0.02
"""Seconds between two samples of a course; poses between them are interpolated linearly."""
LONGEST_COURSE = 3600.0
"""Longest course in seconds; a longer one is taken for a mistake."""
BY_WHEELS = 1e-3
"""Random walk of the yaw of a robot without a gyro, in rad/√s."""
STOOD = 1.0
"""Seconds for which a robot has stood at least before it starts to move."""
LEAST_SIGMA = 1e-4
"""Smallest standard deviation assumed for a compass, in radians."""


def slots_of(
    cells: Sequence[tuple[int, int]], length: float, width: float
) -> tuple[tuple[float, float], ...]:
    """Return the centres of joined carriers relative to the centre of them all, one for each cell."""
    column = sum(cell[0] for cell in cells) / len(cells)
    row = sum(cell[1] for cell in cells) / len(cells)
    return tuple(((x - column) * length, (y - row) * width) for x, y in cells)


class Course:
    """The pose of a formation over time, in its frame at the start."""

    def __init__(self, poses: FloatArray) -> None:
        """Take poses that are `COURSE_STEP` seconds apart; the yaw is unwrapped."""
        self._poses = poses
        self.duration = (len(poses) - 1) * COURSE_STEP

    @classmethod
    def plan(
        cls, waypoints: tuple[Vector, ...], spec: RobotSpec, reach: float, speed: float, acceleration: float
    ) -> Course:
        """Return a jerk-limited course through waypoints, at rest at each.

        Args:
            waypoints: in the formation's frame at the start, which is (0, 0, 0).
            spec: of the robots.
            reach: metres from the formation's centre to its outermost slot.
            speed: of the centre, in m/s; a turn adds at most the same again at the outermost slot.
            acceleration: likewise, in m/s².

        Raises:
            ConfigError: the course breaks a limit, or takes too long.
        """
        return _plan(waypoints, _limits(spec, reach, speed, acceleration))

    def at(self, seconds: float) -> Vector:
        """Return the formation's pose; before the start and after the end it rests."""
        place = min(max(seconds / COURSE_STEP, 0.0), float(len(self._poses) - 1))
        low = min(int(place), len(self._poses) - 2)
        share = place - low
        x, y, yaw = (self._poses[low] + share * (self._poses[low + 1] - self._poses[low])).tolist()
        return x, y, yaw


def _limits(spec: RobotSpec, reach: float, speed: float, acceleration: float) -> Limits:
    """Return limits for the centre of a formation, low enough for a load that is held by friction only."""
    most = spec.limits
    arm = max(reach, spec.body.bounding_radius)
    return Limits(
        speed=min(speed, most.speed / 2),
        acceleration=min(acceleration, most.acceleration / 2),
        acceleration_available=most.acceleration_available,
        # Full acceleration is reached within half a second.
        jerk=min(2 * acceleration, most.jerk),
        yaw_rate=min(speed / arm, most.yaw_rate),
        yaw_acceleration=min(acceleration / arm, most.yaw_acceleration),
        yaw_jerk=min(2 * acceleration / arm, most.yaw_jerk),
    )


@lru_cache(maxsize=16)
def _plan(waypoints: tuple[Vector, ...], limits: Limits) -> Course:
    """Plan a course once for all robots of a process."""
    player = PathPlayer(limits, holonomic=True)
    try:
        player.follow(Path(tuple(Waypoint(pose) for pose in waypoints)), (0.0, 0.0, 0.0))
    except PathError as error:
        message = f"path of the formation: {error}"
        raise ConfigError(message) from None
    poses: list[Vector] = [(0.0, 0.0, 0.0)]
    while player.state is not PlayerState.IDLE:
        poses.append(player.advance(COURSE_STEP).pose)
        if len(poses) * COURSE_STEP > LONGEST_COURSE:
            message = f"path of the formation: it takes longer than {LONGEST_COURSE:.0f} s"
            raise ConfigError(message)
    return Course(np.array([*poses, poses[-1]]))


class Reckoning:
    """One robot's pose relative to its start: odometry with the heading corrected by the compass.

    A Kalman filter with three states tracks the drift of the odometry's yaw since the start, its rate, and
    the compass heading at the start, initialised with the mean of the readings while the robot stood.
    """

    def __init__(self, spec: RobotSpec) -> None:
        """Start at rest.

        Args:
            spec: the robot's, for the noise of its compass and its gyro.
        """
        compass, imu = spec.compass, spec.imu
        self._noise = max(0.0 if compass is None else compass.sigma, LEAST_SIGMA) ** 2
        self._walk = BY_WHEELS**2 if imu is None else imu.gyro_sigma**2 / imu.rate
        self._drift_walk = 0.0 if imu is None else imu.gyro_bias_walk**2
        # Variance of a gyro bias that is averaged over STOOD seconds.
        self._drift = 0.0 if imu is None else imu.gyro_sigma**2 / (imu.rate * STOOD)
        self._headings = (0, 0.0, 0.0)
        self._time = 0.0
        self._odom: Vector = (0.0, 0.0, 0.0)
        self._start_yaw = 0.0
        self._state = np.zeros(3)
        self._cov = np.zeros((3, 3))
        self.x = self.y = self.yaw = 0.0

    @property
    def pose(self) -> Vector:
        """Return the robot's pose relative to its start."""
        return self.x, self.y, self.yaw

    def begin_to_stand(self) -> None:
        """Clear the headings, because the robot has moved."""
        self._headings = (0, 0.0, 0.0)

    def stand(self, senses: Senses) -> None:
        """Average the compass's heading while the robot stands."""
        if senses.heading is not None:
            count, c, s = self._headings
            self._headings = (count + 1, c + math.cos(senses.heading), s + math.sin(senses.heading))

    def set_off(self, senses: Senses) -> None:
        """Set the start to the current pose."""
        count, c, s = self._headings
        self._time = senses.time
        self._odom = self._pose_odom(senses)
        self._start_yaw = self._odom[2]
        self._state[:] = (0.0, 0.0, math.atan2(s, c))
        self._cov = np.diag([0.0, self._drift, self._noise / count if count else math.pi**2])
        self.x = self.y = self.yaw = 0.0

    def update(self, senses: Senses) -> None:
        """Update the pose with odometry and compass."""
        dt = max(senses.time - self._time, 0.0)
        self._time = senses.time
        odom = self._pose_odom(senses)
        before = float(self._state[0])
        step = np.array([[1.0, dt, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        self._state = step @ self._state
        self._cov = step @ self._cov @ step.T + np.diag([self._walk * dt, self._drift_walk * dt, 0.0])
        turned = float(wrap(odom[2] - self._start_yaw))
        if senses.heading is not None:
            # Expected heading: the one at the start, plus the odometry's turn since then, less its drift.
            error = float(wrap(senses.heading - self._state[2] - turned + self._state[0]))
            seen = np.array([-1.0, 0.0, 1.0])
            gain = self._cov @ seen / (seen @ self._cov @ seen + self._noise)
            self._state += gain * error
            self._cov -= np.outer(gain, seen @ self._cov)
        # Rotate from odom's axes to those of the start, with the mean of the old and the new drift.
        back = -self._start_yaw - 0.5 * (before + float(self._state[0]))
        c, s = math.cos(back), math.sin(back)
        dx, dy = odom[0] - self._odom[0], odom[1] - self._odom[1]
        self.x += c * dx - s * dy
        self.y += s * dx + c * dy
        self.yaw = float(wrap(turned - self._state[0]))
        self._odom = odom

    @staticmethod
    def _pose_odom(senses: Senses) -> Vector:
        x, y, yaw = (float(value) for value in senses.pose_odom)
        return x, y, yaw
