"""Sonars: rays that return an echo only from surfaces that they meet nearly head-on.

A ring with a `reflection_cone` gets no echo from a surface that its ray meets at more than half that angle
from the normal, nor from anything behind that surface. The transport study (6) reports this limitation of
its sonars. Each ray is cast on its own, without the shortcuts of `planar_rays`. `echo_all_k` is for crowds;
the rings of other robots (`rings`) cast the same rays.
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
"""Share of its length by which rays see a wall extended at each end, as in `raycast`."""


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
    """Return the distance of a ray's echo, inf if there is none.

    Args:
        x: where the ray starts.
        y: see `x`.
        dx: unit vector of its direction.
        dy: see `dx`.
        least_cosine: smallest cosine of the angle between the ray and a surface's normal that gives an echo.
        segments: walls.
        pillars: rows of x, y, radius.
        items: indices of segments, followed by those of pillars; the entries `first` to `last` are nearby.
        first: see `items`.
        last: see `items`.
        discs: rows of x, y, radius.
        near: the first `near_count` entries are the rows of nearby discs, without the one the ray starts in.
        near_count: see `near`.
        range_max: length of the ray.
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
    """Compute the error-free readings of all sensors of all robots: the nearest echo of each.

    Args:
        poses: of the robots; their own discs are the first rows of `discs`.
        discs: rows of x, y, radius.
        near: work array with one entry per disc.
        segments: walls.
        pillars: rows of x, y, radius.
        grid: the `StaticGrid` of walls and pillars, as are the next two.
        static_starts: see `grid`.
        static_items: see `grid`.
        rays: of the `RingTable`, as is the next.
        axes: see `rays`.
        mount_radius: of the ring.
        range_max: of the ring.
        least_cosine: see `echo_k`.
        out: output, rows of distances, inf without an echo.
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
