"""Planar ray casting against wall segments and discs.

Worlds whose simulator has no cheap rays use these kernels for the rings of distance sensors (DOTS paper,
III-A5). Robots and carriers' legs are discs, walls and boxes are segments. A segment is a row
`(x1, y1, x2, y2)`, a disc is a row `(x, y, radius)`; a world without any passes an array with no rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

# Share of a wall's length by which it is extended, so that no ray slips through the joint of two walls.
_JOINT = 1e-9


@kernel
def cast_k(
    x: float,
    y: float,
    dx: float,
    dy: float,
    segments: FloatArray,
    discs: FloatArray,
    skip_disc: int,
    range_max: float,
) -> float:
    """Return the distance from (x, y) along the unit vector (dx, dy) to the first obstacle.

    It is 0 inside a disc, and inf if nothing is within `range_max`. A ray exactly parallel to a wall does
    not hit it. `skip_disc` is the row of the disc to ignore (the robot's own), or -1.
    """
    nearest = range_max
    found = False
    for i in range(discs.shape[0]):
        if i == skip_disc:
            continue
        to_x = discs[i, 0] - x
        to_y = discs[i, 1] - y
        radius = discs[i, 2]
        along = to_x * dx + to_y * dy
        if along + radius < 0.0 or along - radius > nearest:
            continue
        across = to_x * dy - to_y * dx
        half_chord2 = radius * radius - across * across
        if half_chord2 < 0.0:
            continue
        if to_x * to_x + to_y * to_y <= radius * radius:
            return 0.0
        distance = along - math.sqrt(half_chord2)
        if 0.0 <= distance <= nearest:
            nearest = distance
            found = True
    for i in range(segments.shape[0]):
        to_x = segments[i, 0] - x
        to_y = segments[i, 1] - y
        wall_x = segments[i, 2] - segments[i, 0]
        wall_y = segments[i, 3] - segments[i, 1]
        # 0 for a parallel wall: the divisions then give inf or nan, which fail every comparison.
        turn = dx * wall_y - dy * wall_x
        distance = (to_x * wall_y - to_y * wall_x) / turn
        if 0.0 <= distance <= nearest:
            place = (to_x * dy - to_y * dx) / turn
            if -_JOINT <= place <= 1.0 + _JOINT:
                nearest = distance
                found = True
    return nearest if found else math.inf


@kernel
def cast_ring_k(
    pose: FloatArray,
    angles: FloatArray,
    mount_radius: float,
    field_of_view: float,
    rays: int,
    segments: FloatArray,
    discs: FloatArray,
    skip_disc: int,
    range_max: float,
    out: FloatArray,
) -> None:
    """Write the true distance for each sensor of a ring into `out`.

    A sensor sits at `mount_radius` from the centre of the robot at `pose` and looks outwards along its
    angle. It measures the distance from its face to the nearest obstacle hit by any of `rays` rays, spread
    evenly across its field of view. It measures 0 if an obstacle overlaps its face, and inf if no ray hits.
    """
    for i in range(angles.shape[0]):
        axis = pose[2] + angles[i]
        dx = math.cos(axis)
        dy = math.sin(axis)
        # If the robot overlaps a wall, the face may be behind it, and rays from there would miss the wall.
        if math.isfinite(cast_k(pose[0], pose[1], dx, dy, segments, discs, skip_disc, mount_radius)):
            out[i] = 0.0
            continue
        face_x = pose[0] + mount_radius * dx
        face_y = pose[1] + mount_radius * dy
        nearest = math.inf
        for ray in range(rays):
            if rays > 1:
                angle = axis + field_of_view * (ray / (rays - 1) - 0.5)
                dx = math.cos(angle)
                dy = math.sin(angle)
            limit = min(nearest, range_max)
            nearest = min(nearest, cast_k(face_x, face_y, dx, dy, segments, discs, skip_disc, limit))
        out[i] = nearest


@kernel
def box_segments_k(x: float, y: float, yaw: float, length: float, width: float, out: FloatArray) -> None:
    """Write the four sides of a box with its centre at (x, y) into `out`, four rows of segments."""
    ahead_x = 0.5 * length * math.cos(yaw)
    ahead_y = 0.5 * length * math.sin(yaw)
    left_x = -0.5 * width * math.sin(yaw)
    left_y = 0.5 * width * math.cos(yaw)
    for i in range(4):
        # Corners counter-clockwise from the front right one.
        ahead = 1.0 if i in (0, 1) else -1.0
        left = 1.0 if i in (1, 2) else -1.0
        out[i, 0] = x + ahead * ahead_x + left * left_x
        out[i, 1] = y + ahead * ahead_y + left * left_y
    for i in range(4):
        following = (i + 1) % 4
        out[i, 2] = out[following, 0]
        out[i, 3] = out[following, 1]


def box_segments(pose: FloatArray, length: float, width: float) -> FloatArray:
    """Return the four sides of a box, such as an arena or an obstacle, as rows of segments."""
    out = np.empty((4, 4))
    box_segments_k(float(pose[0]), float(pose[1]), float(pose[2]), length, width, out)
    return out
