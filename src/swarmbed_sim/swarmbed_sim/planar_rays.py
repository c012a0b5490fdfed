"""Rings of distance sensors for thousands of robots: a faster `swarmbed_core.raycast`.

For each robot, each disc within range updates only the few sensors that can see it. All geometry is in the
robot's frame, where the sensors' rays are constant. Discs are first sorted into a uniform grid; walls come
from a list per cell of the floor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.geometry import wrap_all
from swarmbed_core.kernel import kernel
from swarmbed_core.ranges import measure_one_k, range_numbers

from swarmbed_sim.planar_kernels import sort_cells_k, static_cell_k

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RangeRing

    from swarmbed_sim.physics import IntArray

    IndexArray = NDArray[np.uint32]

BINS = 256
"""Sectors of the table that maps a bearing to the first sensor that may see in its direction."""
PAD = 0.002
"""Upper bound of the error of `_bearing_k` in radians."""
JOINT = 1e-9
"""Share of its length by which rays see a wall extended at each end, as in `raycast`."""


class RingTable:
    """A ring's tables for the kernels: its rays in the robot's frame, and its sensors sorted by bearing.

    Attributes:
        rays: rows dx, dy of all sensors' rays in the robot's frame, grouped by sensor.
        own_rays: rays of any one sensor in its own frame.
        axes: directions of the sensors: a row of dx, one of dy.
        order: the sensors sorted by angle from -pi to pi, twice in succession.
        first: for each sector of bearings the index in `order` of the first sensor in or after it.
        after: for each sector of two turns the index in `order` past the last sensor in or before it.
        numbers: the ring's error model.
    """

    def __init__(self, ring: RangeRing) -> None:
        """Compute the table of `ring`."""
        angles = np.array(ring.angles)
        self.ring = ring
        self.angles = angles
        spread = ring.field_of_view * (np.arange(ring.rays) / max(ring.rays - 1, 1) - 0.5)
        rays = angles[:, None] + (spread if ring.rays > 1 else 0.0)
        self.rays = np.stack([np.cos(rays).ravel(), np.sin(rays).ravel()], axis=1)
        own = spread if ring.rays > 1 else np.zeros(1)
        self.own_rays = np.stack([np.cos(own), np.sin(own)], axis=1)
        self.axes = np.stack([np.cos(angles), np.sin(angles)])
        wrapped = wrap_all(angles)
        order = np.argsort(wrapped, kind="stable")
        once = wrapped[order]
        # Padding: jobs are written two at a time, and the second may be past the end and unused.
        self.order = np.concatenate([order, order, [0, 0]]).astype(np.uint32)
        edges = np.arange(2 * BINS + 1) * (2 * math.pi / BINS) - math.pi
        self.first = np.searchsorted(once, edges[:BINS])
        twice = np.concatenate([once, once + 2 * math.pi])
        self.after = np.searchsorted(twice, edges[1:], side="right")
        self.numbers = range_numbers(ring)


@kernel
def _bearing_k(x: float, y: float) -> float:
    """Return atan2(y, x) with an error of at most 0.0017, without branches."""
    wide, high = abs(x), abs(y)
    ratio = min(wide, high) / (max(wide, high) + 1e-300)
    square = ratio * ratio
    angle = ratio * (0.9953546 + square * (-0.2886929 + square * 0.0793486))
    angle = 0.5 * math.pi - angle if high > wide else angle
    angle = math.pi - angle if x < 0.0 else angle
    return -angle if y < 0.0 else angle


@kernel
def _see_walls_k(
    x: float,
    y: float,
    c: float,
    s: float,
    first: int,
    last: int,
    items: IntArray,
    segments: FloatArray,
    pillars: FloatArray,
    rays: FloatArray,
    axes: FloatArray,
    mount_radius: float,
    range_max: float,
    out: FloatArray,
) -> None:
    """Reduce one robot's distances to those of the walls and pillars listed for its cell."""
    sensors = axes.shape[1]
    per_sensor = rays.shape[0] // sensors
    for k in range(first, last):
        i = items[k]
        if i >= segments.shape[0]:
            j = i - segments.shape[0]
            dx, dy = pillars[j, 0] - x, pillars[j, 1] - y
            local_x, local_y, radius = c * dx + s * dy, c * dy - s * dx, pillars[j, 2]
            if math.hypot(local_x, local_y) > range_max + mount_radius + radius:
                continue
            for sensor in range(sensors):
                _see_disc_k(local_x, local_y, radius, sensor, rays, axes, per_sensor, mount_radius, out)
            continue
        dx, dy = segments[i, 0] - x, segments[i, 1] - y
        start_x, start_y = c * dx + s * dy, c * dy - s * dx
        dx, dy = segments[i, 2] - segments[i, 0], segments[i, 3] - segments[i, 1]
        wall_x, wall_y = c * dx + s * dy, c * dy - s * dx
        long2 = wall_x * wall_x + wall_y * wall_y
        share = min(max(-(start_x * wall_x + start_y * wall_y) / long2, 0.0), 1.0)
        near = math.hypot(start_x + share * wall_x, start_y + share * wall_y)
        if near > range_max + mount_radius:
            continue
        for sensor in range(sensors):
            if near - mount_radius > out[sensor]:
                continue
            ax, ay = axes[0, sensor], axes[1, sensor]
            if near <= mount_radius:
                turn = ax * wall_y - ay * wall_x
                distance = (start_x * wall_y - start_y * wall_x) / turn
                place = (start_x * ay - start_y * ax) / turn
                if 0.0 <= distance <= mount_radius and -JOINT <= place <= 1.0 + JOINT:
                    out[sensor] = 0.0
                    continue
            to_x, to_y = start_x - mount_radius * ax, start_y - mount_radius * ay
            ahead = to_x * wall_y - to_y * wall_x
            for ray in range(sensor * per_sensor, (sensor + 1) * per_sensor):
                turn = rays[ray, 0] * wall_y - rays[ray, 1] * wall_x
                # 0 for a parallel wall: the divisions then give inf or nan, which fail the comparisons.
                distance = ahead / turn
                if 0.0 <= distance < out[sensor]:
                    place = (to_x * rays[ray, 1] - to_y * rays[ray, 0]) / turn
                    if -JOINT <= place <= 1.0 + JOINT:
                        out[sensor] = distance


@kernel
def _see_disc_k(
    x: float,
    y: float,
    radius: float,
    sensor: int,
    rays: FloatArray,
    axes: FloatArray,
    per_sensor: int,
    mount_radius: float,
    out: FloatArray,
) -> None:
    """Reduce one sensor's distance to that of a disc at (x, y) in the robot's frame."""
    ax, ay = axes[0, sensor], axes[1, sensor]
    radius2 = radius * radius
    if x * x + y * y <= (radius + mount_radius) * (radius + mount_radius):
        if x * x + y * y <= radius2:
            out[sensor] = 0.0
            return
        across = x * ay - y * ax
        if across * across <= radius2:
            reach = x * ax + y * ay - math.sqrt(radius2 - across * across)
            if 0.0 <= reach <= mount_radius:
                out[sensor] = 0.0
                return
    to_x, to_y = x - mount_radius * ax, y - mount_radius * ay
    for ray in range(sensor * per_sensor, (sensor + 1) * per_sensor):
        across = to_x * rays[ray, 1] - to_y * rays[ray, 0]
        half_chord2 = radius2 - across * across
        if half_chord2 < 0.0:
            continue
        if to_x * to_x + to_y * to_y <= radius2:
            out[sensor] = 0.0
            return
        distance = to_x * rays[ray, 0] + to_y * rays[ray, 1] - math.sqrt(half_chord2)
        if 0.0 <= distance < out[sensor]:
            out[sensor] = distance


@kernel
def _see_ahead_k(
    place: int,
    x: float,
    y: float,
    c: float,
    s: float,
    reach: float,
    widest: float,
    frame: FloatArray,
    starts: IntArray,
    ordered: FloatArray,
    rays: FloatArray,
    axes: FloatArray,
    mount_radius: float,
    out: FloatArray,
) -> None:
    """Reduce the distance of a ring's only ray to that of the nearest disc in reach; it misses most."""
    columns, rows, size = int(frame[3]), int(frame[4]), frame[2]
    ax, ay = c * axes[0, 0] - s * axes[1, 0], s * axes[0, 0] + c * axes[1, 0]
    end_x, end_y = x + reach * ax, y + reach * ay
    left = max(int((min(x, end_x) - widest - frame[0]) / size), 0)
    right = min(int((max(x, end_x) + widest - frame[0]) / size), columns - 1)
    bottom = max(int((min(y, end_y) - widest - frame[1]) / size), 0)
    top = min(int((max(y, end_y) + widest - frame[1]) / size), rows - 1)
    for row in range(bottom, top + 1):
        for k in range(starts[row * columns + left], starts[row * columns + right + 1]):
            dx, dy, radius = ordered[0, k] - x, ordered[1, k] - y, ordered[2, k]
            if abs(ax * dy - ay * dx) > radius or ax * dx + ay * dy < -radius or k == place:
                continue
            local_x, local_y = c * dx + s * dy, c * dy - s * dx
            _see_disc_k(local_x, local_y, radius, 0, rays, axes, 1, mount_radius, out)


@kernel
def _candidates_k(
    place: int,
    x: float,
    y: float,
    reach: float,
    frame: FloatArray,
    starts: IntArray,
    ordered: FloatArray,
    scratch: FloatArray,
) -> int:
    """Collect the discs within `reach` of (x, y), except that at index `place`; return their number."""
    columns, rows, size = int(frame[3]), int(frame[4]), frame[2]
    left = max(int((x - reach - frame[0]) / size), 0)
    right = min(int((x + reach - frame[0]) / size), columns - 1)
    bottom = max(int((y - reach - frame[1]) / size), 0)
    top = min(int((y + reach - frame[1]) / size), rows - 1)
    count = 0
    for row in range(bottom, top + 1):
        for k in range(starts[row * columns + left], starts[row * columns + right + 1]):
            dx, dy = ordered[0, k] - x, ordered[1, k] - y
            scratch[0, count] = dx
            scratch[1, count] = dy
            scratch[2, count] = ordered[2, k]
            # No branch, because it could not be predicted.
            count += 1 if dx * dx + dy * dy <= reach * reach and k != place else 0
    return count


@kernel
def _turn_in_k(count: int, c: float, s: float, half_view: float, scratch: FloatArray) -> None:
    """Transform the candidates to the robot's frame, and compute the sectors they cover, without branches."""
    sharpness = BINS / (2.0 * math.pi)
    for k in range(count):
        dx, dy, radius = scratch[0, k], scratch[1, k], scratch[2, k]
        x, y = c * dx + s * dy, c * dy - s * dx
        # An upper bound of the disc's half angle, asin(sine).
        sine = min(radius / (math.sqrt(x * x + y * y) + 1e-300), 1.0)
        half = sine * (1.0 + 0.571 * sine * sine) + half_view + PAD
        lowest = _bearing_k(x, y) - half
        lowest = lowest + 2.0 * math.pi if lowest < -math.pi else lowest
        scratch[0, k] = x
        scratch[1, k] = y
        scratch[3, k] = (lowest + math.pi) * sharpness
        scratch[4, k] = (lowest + 2.0 * half + math.pi) * sharpness


@kernel
def _list_jobs_k(
    count: int,
    begins: FloatArray,
    ends: FloatArray,
    order: IndexArray,
    first: IntArray,
    after: IntArray,
    sensors: int,
    job_sensors: IndexArray,
    job_discs: IndexArray,
) -> int:
    """List which sensor has to test which candidate; return the number of these jobs."""
    done = 0
    for k in range(count):
        begin = first[min(int(begins[k]), BINS - 1)]
        number = after[min(int(ends[k]), 2 * BINS - 1)] - begin
        number = min(number, sensors)
        # Nearly all discs are seen by one or two sensors: always write two, and count those that apply.
        job_sensors[done], job_sensors[done + 1] = order[begin], order[begin + 1]
        job_discs[done] = job_discs[done + 1] = k
        for more in range(2, number):
            job_sensors[done + more] = order[begin + more]
            job_discs[done + more] = k
        done += number
    return done


@kernel
def _look_k(
    count: int,
    job_sensors: IndexArray,
    job_discs: IndexArray,
    disc_x: FloatArray,
    disc_y: FloatArray,
    radius: FloatArray,
    axis_x: FloatArray,
    axis_y: FloatArray,
    rays: FloatArray,
    mount_radius: float,
    job_x: FloatArray,
    job_y: FloatArray,
    job_radius2: FloatArray,
    nearest: FloatArray,
    out: FloatArray,
) -> None:
    """Process the jobs: reduce each sensor's distance to the nearest of its rays' distances to a disc."""
    for job in range(count):
        # Transform to the sensor's frame, where the rays of all sensors are the same.
        disc, sensor = job_discs[job], job_sensors[job]
        x, y, ax, ay = disc_x[disc], disc_y[disc], axis_x[sensor], axis_y[sensor]
        job_x[job] = ax * x + ay * y - mount_radius
        job_y[job] = ax * y - ay * x
        job_radius2[job] = radius[disc] * radius[disc]
        nearest[job] = math.inf
    # Numba's min and max check for NaN, which prevents vectorisation.
    for ray in range(rays.shape[0]):
        dx, dy = rays[ray, 0], rays[ray, 1]
        for job in range(count):
            x, y = job_x[job], job_y[job]
            across = x * dy - y * dx
            half_chord2 = job_radius2[job] - across * across
            distance = x * dx + y * dy - math.sqrt(half_chord2 if half_chord2 > 0.0 else 0.0)  # noqa: FURB136
            distance = distance if distance >= 0.0 else math.inf
            distance = distance if half_chord2 >= 0.0 else math.inf
            nearest[job] = distance if distance < nearest[job] else nearest[job]  # noqa: FURB136
    for job in range(count):
        sensor = job_sensors[job]
        seen = out[sensor]
        out[sensor] = nearest[job] if nearest[job] < seen else seen  # noqa: FURB136


@kernel
def cast_all_k(
    poses: FloatArray,
    discs: FloatArray,
    cell_size: float,
    frame: FloatArray,
    cells: IntArray,
    starts: IntArray,
    by_cell: IntArray,
    ordered: FloatArray,
    scratch: FloatArray,
    jobs: FloatArray,
    job_indices: IndexArray,
    segments: FloatArray,
    pillars: FloatArray,
    grid: FloatArray,
    static_starts: IntArray,
    static_items: IntArray,
    rays: FloatArray,
    axes: FloatArray,
    own_rays: FloatArray,
    order: IndexArray,
    first: IntArray,
    after: IntArray,
    mount_radius: float,
    half_view: float,
    range_max: float,
    out: FloatArray,
) -> None:
    """Compute the error-free readings of all sensors of all robots, as `cast_ring_k` does for one robot.

    Args:
        poses: of the robots; their own discs are the first rows of `discs`.
        discs: rows of x, y, radius.
        cell_size: of the grid that the discs are sorted into.
        frame: work array for the grid's frame.
        cells: work array with one entry per disc.
        starts: work array for the cells' starts.
        by_cell: work array with one entry per disc.
        ordered: work array with three rows of one entry per disc.
        scratch: work array with five rows of one entry per disc and one more.
        jobs: work array with four rows; each has one entry per sensor and column of `scratch`, and two more.
        job_indices: work array with two such rows.
        segments: walls.
        pillars: rows of x, y, radius.
        grid: the `StaticGrid` of walls and pillars, as are the next two.
        static_starts: see `grid`.
        static_items: see `grid`.
        rays: of the `RingTable`, as are the next five.
        axes: see `rays`.
        own_rays: see `rays`.
        order: see `rays`.
        first: see `rays`.
        after: see `rays`.
        mount_radius: of the ring.
        half_view: half of the sensors' field of view, 0 for sensors with one ray.
        range_max: of the ring.
        out: output, rows of distances, inf where nothing is hit.
    """
    sort_cells_k(discs, cell_size, frame, cells, starts, by_cell)
    widest = 0.0
    for place in range(discs.shape[0]):
        i = by_cell[place]
        ordered[0, place], ordered[1, place], ordered[2, place] = discs[i, 0], discs[i, 1], discs[i, 2]
        widest = max(widest, discs[i, 2])
    sensors, per_sensor = axes.shape[1], own_rays.shape[0]
    # Taken out of the loop: a view of a row is reference-counted, which costs more than its use.
    near_x, near_y, near_radius, begins, ends = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    job_sensors, job_discs, axis_x, axis_y = job_indices[0], job_indices[1], axes[0], axes[1]
    job_x, job_y, job_radius2, nearest = jobs[0], jobs[1], jobs[2], jobs[3]
    for place in range(discs.shape[0]):
        robot = by_cell[place]
        if robot >= poses.shape[0]:
            continue
        x, y = poses[robot, 0], poses[robot, 1]
        seen = out[robot]
        for sensor in range(sensors):
            seen[sensor] = math.inf
        reach = range_max + mount_radius + widest
        if rays.shape[0] == 1:
            count = 0
            c, s = math.cos(poses[robot, 2]), math.sin(poses[robot, 2])
            _see_ahead_k(
                place, x, y, c, s, reach, widest, frame, starts, ordered, rays, axes, mount_radius, seen
            )
        else:
            count = _candidates_k(place, x, y, reach, frame, starts, ordered, scratch)
        static = static_cell_k(grid, x, y)
        walls = static >= 0 and static_starts[static + 1] > static_starts[static]
        if count == 0 and not walls and rays.shape[0] > 1:
            continue
        c, s = math.cos(poses[robot, 2]), math.sin(poses[robot, 2])
        if count > 0:
            _turn_in_k(count, c, s, half_view, scratch)
            number = _list_jobs_k(count, begins, ends, order, first, after, sensors, job_sensors, job_discs)
            _look_k(
                number,
                job_sensors,
                job_discs,
                near_x,
                near_y,
                near_radius,
                axis_x,
                axis_y,
                own_rays,
                mount_radius,
                job_x,
                job_y,
                job_radius2,
                nearest,
                seen,
            )
        for k in range(count):
            # Discs that cover a sensor's face or the robot's centre are few, and need a separate test.
            near = scratch[2, k] + mount_radius
            if scratch[0, k] * scratch[0, k] + scratch[1, k] * scratch[1, k] <= near * near:
                for sensor in range(sensors):
                    _see_disc_k(
                        scratch[0, k],
                        scratch[1, k],
                        scratch[2, k],
                        sensor,
                        rays,
                        axes,
                        per_sensor,
                        mount_radius,
                        seen,
                    )
        if walls:
            _see_walls_k(
                x,
                y,
                c,
                s,
                static_starts[static],
                static_starts[static + 1],
                static_items,
                segments,
                pillars,
                rays,
                axes,
                mount_radius,
                range_max,
                seen,
            )
        for sensor in range(sensors):
            if seen[sensor] > range_max:
                seen[sensor] = math.inf


@kernel
def err_all_k(
    ranges: FloatArray, first: int, gaussians: FloatArray, uniforms: FloatArray, numbers: FloatArray
) -> None:
    """Apply the sensors' errors to true distances; see `swarmbed_core.ranges`.

    Args:
        ranges: rows of distances, inf for nothing; updated from row `first` on, for as many rows as there is
            noise.
        first: see `ranges`.
        gaussians: rows of standard normal numbers, one per sensor.
        uniforms: rows of numbers from [0, 1), one per sensor.
        numbers: the error model, from `range_numbers`.
    """
    for i in range(first, min(first + gaussians.shape[0], ranges.shape[0])):
        for k in range(ranges.shape[1]):
            if ranges[i, k] < math.inf:
                gaussian, uniform = gaussians[i - first, k], uniforms[i - first, k]
                ranges[i, k] = measure_one_k(ranges[i, k], gaussian, uniform, numbers)
