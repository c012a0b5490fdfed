"""Estimate of a carrier's pose from its recent sightings (DOTS paper, IV-B2, Figure 13).

A single sighting of a side is accurate to a few millimetres and a few degrees; the clearance between the legs
is one centimetre. So the sightings of a carrier are fused into its centre and its direction, modulo a quarter
turn because its four sides look the same. The estimate is in `odom`, where the carrier stands still while the
robot moves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.geometry import compose, wrap
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import SideSight

QUARTER = math.pi / 2

UNKNOWN_YAW = 0.25
"""Variance added to the yaw of a sighting that fits two directions, in rad²."""
DRIFT = 1e-5
TURN_DRIFT = 1e-5
"""Growth of the variances per second, in m²/s and rad²/s: odometry drifts."""
FLOOR = 1e-6
TURN_FLOOR = 2.5e-5
"""Least variances of the estimate: sightings share errors that do not average out."""
GATE = 25.0
"""Squared Mahalanobis distance from the estimate above which a sighting does not fit."""
STRANGERS = 3
"""Sightings in a row that do not fit, after which the carrier counts as moved."""
STALE = 1.0
"""Seconds without a sighting after which a single one that does not fit is enough for that."""


@kernel
def fuse_k(state: FloatArray, cov: FloatArray, seen: FloatArray, noise: FloatArray, gate: float) -> float:
    """Fuse a pose (x, y, yaw modulo a quarter turn) into `state` and `cov` if it fits.

    Returns:
        The squared Mahalanobis distance of the two; nothing is fused if it is above `gate`.
    """
    dx = seen[0] - state[0]
    dy = seen[1] - state[1]
    turn = (seen[2] - state[2]) % QUARTER
    if turn > QUARTER / 2:
        turn -= QUARTER
    both = np.linalg.inv(cov + noise)
    off = np.array([dx, dy, turn])
    distance: float = off @ (both @ off)
    if distance > gate:
        return distance
    gain = cov @ both
    state += gain @ off
    state[2] = wrap(state[2])
    cov -= gain @ cov
    for i in range(3):
        for j in range(i):
            mean = 0.5 * (cov[i, j] + cov[j, i])
            cov[i, j] = cov[j, i] = mean
    cov[0, 0] = max(cov[0, 0], FLOOR)
    cov[1, 1] = max(cov[1, 1], FLOOR)
    cov[2, 2] = max(cov[2, 2], TURN_FLOOR)
    return distance


@kernel
def centre_k(side: FloatArray, cov: FloatArray, turn: float, half: float, noise: FloatArray) -> None:
    """Convert a side's pose to the centre's, in place, and write its covariance into `noise`.

    Args:
        side: the pose of a side in odom; becomes that of the centre.
        cov: its covariance in the robot's frame.
        turn: the robot's yaw in odom.
        half: distance from the side to the centre.
        noise: 3 x 3, written.
    """
    c, s = math.cos(turn), math.sin(turn)
    nx, ny = math.cos(side[2]), math.sin(side[2])
    side[0] -= half * nx
    side[1] -= half * ny
    jacobian = np.array([[c, -s, half * ny], [s, c, -half * nx], [0.0, 0.0, 1.0]])
    noise[:] = jacobian @ cov @ jacobian.T


class CarrierEstimate:
    """Estimate of one carrier's pose in odom.

    Attributes:
        id: id of the markers on its sides.
        stamp: time of its newest sighting.
        pose_odom: pose of its centre; one of its four sides faces along the yaw.
        yaw_known: whether any sighting has shown the direction of its sides.
        sights: number of fused sightings.
    """

    __slots__ = ("_cov", "_half", "_noise", "_strangers", "id", "pose_odom", "sights", "stamp", "yaw_known")

    def __init__(self, sight: SideSight, length: float) -> None:
        """Start from a sighting; `length` is that of the carrier's sides."""
        self.id = sight.id
        self._half = length / 2
        self._noise = np.empty((3, 3))
        self._strangers = 0
        self.stamp = sight.stamp
        self.yaw_known = sight.yaw_known
        self.sights = 0
        self._begin(sight)

    @property
    def doubtful(self) -> bool:
        """Return whether the newest sighting does not fit: the carrier may have moved."""
        return self._strangers > 0

    @property
    def yaw_sigma(self) -> float:
        """Return the standard deviation of the sides' direction, in radians."""
        return math.sqrt(self._cov[2, 2])

    @property
    def place_sigma(self) -> float:
        """Return the standard deviation of the centre, in metres, along its least certain direction."""
        xx, yy, xy = self._cov[0, 0], self._cov[1, 1], self._cov[0, 1]
        mean, spread = (xx + yy) / 2, (xx - yy) / 2
        return math.sqrt(mean + math.sqrt(spread * spread + xy * xy))

    def add(self, sight: SideSight) -> bool:
        """Fuse another sighting; return False if it does not fit and the estimate stays unchanged."""
        seen = self._seen(sight)
        if seen is None:
            return False
        passed = max(sight.stamp - self.stamp, 0.0)
        cov = self._cov
        cov[0, 0] += DRIFT * passed
        cov[1, 1] += DRIFT * passed
        cov[2, 2] += TURN_DRIFT * passed
        self.stamp = max(self.stamp, sight.stamp)
        if fuse_k(self.pose_odom, cov, seen, self._noise, GATE) > GATE:
            self._strangers += 1
            if self._strangers < STRANGERS and passed < STALE:
                return False
            self._begin(sight)
            return True
        self._strangers = 0
        self.sights += 1
        self.yaw_known = self.yaw_known or sight.yaw_known
        return True

    def side(self, towards: FloatArray) -> FloatArray:
        """Return the pose of the side that best faces a place: its midpoint on the floor, yaw outwards."""
        x, y, yaw = self.pose_odom.tolist()
        bearing = math.atan2(towards[1] - y, towards[0] - x)
        outwards = yaw + QUARTER * round((bearing - yaw) / QUARTER)
        return self.sides_at(outwards)

    def sides(self) -> list[FloatArray]:
        """Return the poses of all four sides."""
        return [self.sides_at(float(self.pose_odom[2]) + k * QUARTER) for k in range(4)]

    def sides_at(self, outwards: float) -> FloatArray:
        """Return the pose of the side that faces along `outwards`."""
        return compose((self.pose_odom[0], self.pose_odom[1], outwards), (self._half, 0.0, 0.0))

    def _seen(self, sight: SideSight) -> FloatArray | None:
        """Convert a sighting to a pose of the centre in odom, with its covariance in `_noise`."""
        if sight.pose_odom is None:
            return None
        seen = sight.pose_odom.copy()
        cov = np.ascontiguousarray(sight.covariance)
        if not sight.yaw_known:
            cov = cov.copy()
            cov[2, 2] += UNKNOWN_YAW
        turn = float(sight.pose_odom[2] - sight.pose_body[2])
        centre_k(seen, cov, turn, self._half, self._noise)
        return seen

    def _begin(self, sight: SideSight) -> None:
        """Start over from one sighting."""
        seen = self._seen(sight)
        if seen is None:
            seen = sight.pose_body.copy()
            self._noise[:] = np.eye(3)
        self.pose_odom = seen
        self._cov = self._noise.copy()
        self.stamp = sight.stamp
        self.yaw_known = sight.yaw_known
        self.sights = 1
        self._strangers = 0
