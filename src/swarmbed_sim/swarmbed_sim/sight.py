"""Lines of sight in the plane: which bodies, pillars and walls are between two points.

Robots are discs as high as their bodies, rectangular ones by their collision radius. Carriers' legs, pillars
and walls block every line of sight; trays block none. `Seen` holds the discs of a crowd, `Sight` those of
any world.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.kernel import kernel

from swarmbed_sim.parts import LEG, LENGTH, WIDTH, things_of

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

    from swarmbed_sim.parts import Inventory, Things
    from swarmbed_sim.physics import IntArray, Physics
    from swarmbed_sim.planar_world import PlanarPhysics

HIDDEN = 1e-6
"""A body blocks a line of sight that passes through it for more than this length, in metres."""
LIFTED = 0.005
"""Legs that are higher than this above the floor, in metres, block nothing."""


@kernel
def between_k(
    x: float, y: float, to_x: float, to_y: float, spare: float, discs: FloatArray, near: IntArray, count: int
) -> int:
    """Keep in `near` only discs closer than `spare` to the line between two points; return the count."""
    dx, dy = to_x - x, to_y - y
    long2 = dx * dx + dy * dy + 1e-300
    kept = 0
    for k in range(count):
        j = near[k]
        off_x, off_y = discs[j, 0] - x, discs[j, 1] - y
        share = min(max((off_x * dx + off_y * dy) / long2, 0.0), 1.0)
        off_x, off_y, far = off_x - share * dx, off_y - share * dy, discs[j, 2] + spare
        if off_x * off_x + off_y * off_y <= far * far:
            near[kept] = j
            kept += 1
    return kept


@kernel
def near_k(
    x: float,
    y: float,
    reach: float,
    discs: FloatArray,
    frame: FloatArray,
    starts: IntArray,
    order: IntArray,
    near: IntArray,
) -> int:
    """Write the discs that overlap a circle into `near`, using the sorted cells; return the count."""
    columns, rows, size = int(frame[3]), int(frame[4]), frame[2]
    left, right = math.floor((x - reach - frame[0]) / size), math.floor((x + reach - frame[0]) / size)
    bottom, top = math.floor((y - reach - frame[1]) / size), math.floor((y + reach - frame[1]) / size)
    left, right = max(left, 0), min(right, columns - 1)
    count = 0
    if left > right:
        return 0
    for row in range(max(bottom, 0), min(top, rows - 1) + 1):
        for k in range(starts[row * columns + left], starts[row * columns + right + 1]):
            j = order[k]
            dx, dy, far = discs[j, 0] - x, discs[j, 1] - y, reach + discs[j, 2]
            if dx * dx + dy * dy <= far * far:
                near[count] = j
                count += 1
    return count


@kernel
def walls_k(x: float, y: float, to_x: float, to_y: float, spare: float, segments: FloatArray) -> int:
    """Return how many walls can block lines of sight within `spare` of a given line: none or all."""
    for i in range(segments.shape[0]):
        dx, dy = segments[i, 2] - segments[i, 0], segments[i, 3] - segments[i, 1]
        long = math.sqrt(dx * dx + dy * dy)
        here = dx * (y - segments[i, 1]) - dy * (x - segments[i, 0])
        there = dx * (to_y - segments[i, 1]) - dy * (to_x - segments[i, 0])
        if min(here, there) <= spare * long and max(here, there) >= -spare * long:
            return len(segments)
    return 0


@kernel
def hidden_k(
    from_x: float,
    from_y: float,
    from_z: float,
    to_x: float,
    to_y: float,
    to_z: float,
    discs: FloatArray,
    tops: FloatArray,
    near: IntArray,
    count: int,
    one: int,
    other: int,
    walls: int,
    segments: FloatArray,
    pillars: FloatArray,
) -> bool:
    """Return whether a body other than `one` and `other`, a pillar or a wall is between two points.

    Only the first `count` entries of `near` and the first `walls` segments are tested.
    """
    dx, dy = to_x - from_x, to_y - from_y
    long2 = dx * dx + dy * dy
    if long2 == 0.0:
        return False
    for k in range(count + pillars.shape[0]):
        if k < count:
            j = near[k]
            if j in (one, other):
                continue
            x, y, radius, top = discs[j, 0] - from_x, discs[j, 1] - from_y, discs[j, 2], tops[j]
        else:
            p = k - count
            x, y, radius = pillars[p, 0] - from_x, pillars[p, 1] - from_y, pillars[p, 2]
            top = math.inf
        middle = (x * dx + y * dy) / long2
        across = x * dy - y * dx
        half2 = (radius * radius - across * across / long2) / long2
        if half2 <= 0.0:
            continue
        half = math.sqrt(half2)
        begin, end = max(middle - half, 0.0), min(middle + half, 1.0)
        if (end - begin) * math.sqrt(long2) <= HIDDEN:
            continue
        lowest = from_z + (to_z - from_z) * (begin if to_z > from_z else end)
        if lowest < top:
            return True
    for i in range(walls):
        wall_x, wall_y = segments[i, 2] - segments[i, 0], segments[i, 3] - segments[i, 1]
        turn = dx * wall_y - dy * wall_x
        if turn == 0.0:
            continue
        x, y = segments[i, 0] - from_x, segments[i, 1] - from_y
        share, place = (x * wall_y - y * wall_x) / turn, (x * dy - y * dx) / turn
        if 0.0 <= share < 1.0 and 0.0 <= place <= 1.0:
            return True
    return False


@kernel
def look_k(things: Things, discs: FloatArray, tops: FloatArray) -> None:
    """Write the discs of robots and carriers' legs, and their heights; a lifted leg has radius 0."""
    poses, sizes, carriers = things.poses, things.sizes, things.carriers
    carrier_poses, carrier_lifts = things.carrier_poses, things.carrier_lifts
    count = poses.shape[0]
    for i in range(count):
        discs[i, 0], discs[i, 1], discs[i, 2] = poses[i, 0], poses[i, 1], sizes[i, 0]
        tops[i] = sizes[i, 1]
    for i in range(carrier_poses.shape[0]):
        c, s = math.cos(carrier_poses[i, 2]), math.sin(carrier_poses[i, 2])
        ahead = 0.5 * carriers[i, LENGTH] - carriers[i, LEG]
        left = 0.5 * carriers[i, WIDTH] - carriers[i, LEG]
        for k in range(4):
            x = ahead if k in (0, 3) else -ahead
            y = left if k in (0, 1) else -left
            discs[count, 0] = carrier_poses[i, 0] + c * x - s * y
            discs[count, 1] = carrier_poses[i, 1] + s * x + c * y
            discs[count, 2] = 0.0 if carrier_lifts[i] > LIFTED else carriers[i, LEG]
            tops[count] = math.inf
            count += 1


class Discs:
    """Discs that can block lines of sight, robots first, and the work arrays of the kernels that sort them.

    Attributes:
        discs: rows of x, y, radius.
        tops: their heights.
        frame: of the grid that sorts them, as are the next four.
        cells: see `frame`.
        starts: see `frame`.
        order: see `frame`.
        near: work array with one entry per disc.
    """

    def __init__(self, count: int) -> None:
        """Make the arrays for `count` discs."""
        self._make(count)

    def _make(self, count: int) -> None:
        self.discs = np.zeros((count, 3))
        self.tops = np.full(count, math.inf)
        self.frame = np.zeros(5)
        self.cells = np.zeros(count, dtype=np.int64)
        self.starts = np.zeros(2 * count + 65, dtype=np.int64)
        self.order = np.zeros(count, dtype=np.int64)
        self.near = np.zeros(count, dtype=np.int64)


class Seen(Discs):
    """The discs that the sensors of a crowd see."""

    def __init__(self, physics: PlanarPhysics, heights: FloatArray) -> None:
        """Take the discs of `physics` at sensor height: robots of these heights, and carriers' legs."""
        self._physics = physics
        self._rows = physics.seen_discs()
        super().__init__(len(self._rows))
        count = len(self._rows)
        self._robots = len(physics.poses)
        self._robots_xy = self.discs[: self._robots, :2]
        self.discs[:, 2] = physics.disc_radii()[self._rows]
        self.tops[: self._robots] = heights
        self.ordered = np.zeros((3, count))
        self.scratch = np.zeros((5, count + 1))

    def look(self) -> None:
        """Update the discs' positions."""
        physics = self._physics
        self._robots_xy[:] = physics.poses[:, :2]
        if len(self._rows) > self._robots:
            self.discs[self._robots :, :2] = physics.disc_places()[self._rows[self._robots :]]


class Sight(Discs):
    """The discs of a world whose robots come and go."""

    def __init__(self) -> None:
        """Start without any."""
        super().__init__(0)
        self._time = math.nan

    def look(self, now: float, physics: Physics, inventory: Inventory) -> None:
        """Take the discs of robots and legs, once for each time."""
        if now == self._time:
            return
        self._time = now
        things = things_of(physics, inventory)
        count = len(things.poses) + 4 * len(things.carriers)
        if count != len(self.discs):
            self._make(count)
        look_k(things, self.discs, self.tops)
