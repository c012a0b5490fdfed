"""Angles and poses in the plane.

A pose is `(x, y, yaw)` in metres and radians, a twist `(vx, vy, omega)` in m/s and rad/s. The name of a value
contains its frame: `v_body`, `pose_map`. Functions with the suffix `_k` are kernels, callable from other
kernels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]

TAU = 2.0 * math.pi
GRAVITY = 9.81
"""Acceleration of free fall, in m/s²."""


@kernel
def wrap(angle: float) -> float:
    """Return the same direction in (-pi, pi]."""
    wrapped = math.pi - (math.pi - angle) % TAU
    # The remainder of a tiny negative number rounds up to TAU itself, which would give -pi.
    return math.pi if wrapped <= -math.pi else wrapped


def wrap_all(angles: FloatArray) -> FloatArray:
    """Return the same directions in [-pi, pi)."""
    wrapped: FloatArray = (angles + math.pi) % TAU - math.pi
    return wrapped


def angle_between(from_angle: float, to_angle: float) -> float:
    """Return the angle in (-pi, pi] from one direction to another."""
    return float(wrap(to_angle - from_angle))


def rotate(vector: ArrayLike, angle: float) -> FloatArray:
    """Return a planar vector, or rows of vectors, rotated counter-clockwise by `angle`."""
    c, s = math.cos(angle), math.sin(angle)
    turned: FloatArray = np.asarray(vector, dtype=np.float64) @ np.array([[c, s], [-s, c]])
    return turned


def clearance(segments: FloatArray, x: float, y: float) -> float:
    """Return the distance of a point from the nearest of some segments; infinity without any.

    Segments are rows of x1, y1, x2, y2.
    """
    if not len(segments):
        return math.inf
    start, along = segments[:, :2], segments[:, 2:] - segments[:, :2]
    to = np.array((x, y)) - start
    share = np.clip((to * along).sum(axis=1) / (along * along).sum(axis=1), 0.0, 1.0)
    return float(np.hypot(*(to - share[:, None] * along).T).min())


def compose(pose_ab: ArrayLike, pose_bc: ArrayLike) -> FloatArray:
    """Return the pose of c in a, from the pose of b in a and that of c in b."""
    # Python's floats are faster here than numpy's.
    xa, ya, yaw_a = np.asarray(pose_ab, dtype=np.float64).tolist()
    xb, yb, yaw_b = np.asarray(pose_bc, dtype=np.float64).tolist()
    c, s = math.cos(yaw_a), math.sin(yaw_a)
    return np.array([xa + c * xb - s * yb, ya + s * xb + c * yb, wrap(yaw_a + yaw_b)])


def invert(pose_ab: ArrayLike) -> FloatArray:
    """Return the pose of a in b, from the pose of b in a."""
    x, y, yaw = np.asarray(pose_ab, dtype=np.float64).tolist()
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([-c * x - s * y, s * x - c * y, wrap(-yaw)])


def between(pose_ab: ArrayLike, pose_ac: ArrayLike) -> FloatArray:
    """Return the pose of c in b, from the poses of both in a."""
    return compose(invert(pose_ab), pose_ac)
