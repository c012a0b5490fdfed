"""Sonars of crowds: rays that come back only from what they meet nearly head-on.

A ring with a `reflection_cone` hears nothing of a surface that its ray meets at more than half that angle
from the surface's normal, and nothing of what is behind it (the transport study, 6, names it as what its
sonars suffer from). All rays are walked one by one: there are no shortcuts as in `planar_rays`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from swarmbed_core.kernel import kernel

from swarmbed_sim.planar_kernels import static_cell_k

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

    from swarmbed_sim.physics import IntArray

JOINT = 1e-9
"""Share of its length by which a wall is longer for rays, as in `raycast`."""


@kernel
def echo_k(
    x: float,
    y: float,
    dx: float,
    dy: float,
    least_cosine: float,
    segments: FloatArray,
    pillars: FloatArray,
    items: IntArray,
    first: int,
    last: int,
    discs: FloatArray,
    near: IntArray,
    near_count: int,
    range_max: float,
) -> float:
    """Return from where a ray comes back, inf if it does not.

    Args:
        x: where it starts.
        y: see `x`.
        dx: unit vector of its direction.
        dy: see `dx`.
        least_cosine: of the angle between it and the normal of what it meets.
        segments: walls.
        pillars: rows of x, y, radius.
        items: numbers of segments, and after them of pillars; those from `first` to `last` are near.
        first: see `items`.
        last: see `items`.
        discs: rows of x, y, radius.
        near: rows of discs that are near, so many as `near_count`, without the one that it starts in.
        near_count: see `near`.
        range_max: how far it goes.
    """
    distance = range_max
    cosine = -1.0
    for n in range(near_count + last - first):
        is_disc = n < near_count
        i = near[n] if is_disc else items[first + n - near_count]
        if is_disc or i >= segments.shape[0]:
            if is_disc:
                to_x, to_y, radius = discs[i, 0] - x, discs[i, 1] - y, discs[i, 2]
            else:
                j = i - segments.shape[0]
                to_x, to_y, radius = pillars[j, 0] - x, pillars[j, 1] - y, pillars[j, 2]
            across = to_x * dy - to_y * dx
            half_chord2 = radius * radius - across * across
            if half_chord2 < 0.0:
                continue
            if to_x * to_x + to_y * to_y <= radius * radius:
                return 0.0
            half_chord = math.sqrt(half_chord2)
            meets = to_x * dx + to_y * dy - half_chord
            if 0.0 <= meets < distance:
                distance = meets
                cosine = half_chord / radius
        else:
            to_x, to_y = segments[i, 0] - x, segments[i, 1] - y
            wall_x, wall_y = segments[i, 2] - segments[i, 0], segments[i, 3] - segments[i, 1]
            turn = dx * wall_y - dy * wall_x
            if turn == 0.0:
                continue
            meets = (to_x * wall_y - to_y * wall_x) / turn
            if 0.0 <= meets < distance:
                place = (to_x * dy - to_y * dx) / turn
                if -JOINT <= place <= 1.0 + JOINT:
                    distance = meets
                    cosine = abs(turn) / math.hypot(wall_x, wall_y)
    return distance if cosine >= least_cosine else math.inf


@kernel
def echo_all_k(
    poses: FloatArray,
    discs: FloatArray,
    near: IntArray,
    segments: FloatArray,
    pillars: FloatArray,
    grid: FloatArray,
    static_starts: IntArray,
    static_items: IntArray,
    rays: FloatArray,
    axes: FloatArray,
    mount_radius: float,
    range_max: float,
    least_cosine: float,
    out: FloatArray,
) -> None:
    """Write what all sensors of all robots would measure without errors: the nearest that comes back.

    Args:
        poses: of the robots; their own discs are the first rows of `discs`.
        discs: rows of x, y, radius.
        near: room for a number a disc.
        segments: walls.
        pillars: rows of x, y, radius.
        grid: which of these are near: `StaticGrid`, as are the two after it.
        static_starts: see `grid`.
        static_items: see `grid`.
        rays: of the `RingTable`, as is the one after it.
        axes: see `rays`.
        mount_radius: of the ring.
        range_max: of the ring.
        least_cosine: see `echo_k`.
        out: rows of distances, inf where nothing comes back.
    """
    sensors = axes.shape[1]
    per_sensor = rays.shape[0] // sensors
    for robot in range(poses.shape[0]):
        x, y = poses[robot, 0], poses[robot, 1]
        c, s = math.cos(poses[robot, 2]), math.sin(poses[robot, 2])
        count = 0
        for i in range(discs.shape[0]):
            far = range_max + mount_radius + discs[i, 2]
            dx, dy = discs[i, 0] - x, discs[i, 1] - y
            if i != robot and dx * dx + dy * dy <= far * far:
                near[count] = i
                count += 1
        static = static_cell_k(grid, x, y)
        first, last = (static_starts[static], static_starts[static + 1]) if static >= 0 else (0, 0)
        for sensor in range(sensors):
            ax, ay = axes[0, sensor], axes[1, sensor]
            face_x = x + mount_radius * (c * ax - s * ay)
            face_y = y + mount_radius * (s * ax + c * ay)
            nearest = math.inf
            for ray in range(sensor * per_sensor, (sensor + 1) * per_sensor):
                dx = c * rays[ray, 0] - s * rays[ray, 1]
                dy = s * rays[ray, 0] + c * rays[ray, 1]
                nearest = min(
                    nearest,
                    echo_k(
                        face_x, face_y, dx, dy, least_cosine, segments, pillars, static_items, first, last,
                        discs, near, count, range_max,
                    ),
                )  # fmt: skip
            out[robot, sensor] = nearest
