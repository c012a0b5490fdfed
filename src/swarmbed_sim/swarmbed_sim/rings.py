"""Rings of distance sensors of simulated robots: ray casting on walls, robots and carriers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.device import (
    RangeReading,
)
from swarmbed_core.kernel import kernel
from swarmbed_core.ranges import measure_one_k, range_numbers
from swarmbed_core.raycast import box_segments_k

from swarmbed_sim.echoes import echo_k
from swarmbed_sim.parts import CLEARANCE, LEG, LENGTH, THICKNESS, WIDTH, Beat, roomy, things_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RangeRing

    from swarmbed_sim.parts import Inventory, Life, Things
    from swarmbed_sim.physics import Physics

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

NO_PILLARS = np.empty((0, 3))
SWEEPS = 64
"""Noise of a ring is drawn in batches of this many sweeps."""


@kernel
def discs_k(
    height: float,
    things: Things,
    discs: FloatArray,
) -> int:
    """Write the discs at a height: round robots, carriers' legs, pillars; return their number.

    Robots keep their rows: lower or rectangular ones become a disc of radius 0 at infinity.
    """
    poses, sizes, carriers, pillars = things.poses, things.sizes, things.carriers, things.pillars
    carrier_poses, carrier_lifts = things.carrier_poses, things.carrier_lifts
    count: int = poses.shape[0]
    for i in range(count):
        discs[i, 0], discs[i, 1], discs[i, 2] = poses[i, 0], poses[i, 1], sizes[i, 0]
        if sizes[i, 1] <= height or sizes[i, 2] > 0.0:
            discs[i, 0], discs[i, 1], discs[i, 2] = math.inf, math.inf, 0.0
    for i in range(carrier_poses.shape[0]):
        if carrier_lifts[i] >= height or carrier_lifts[i] + carriers[i, CLEARANCE] <= height:
            continue
        c, s = math.cos(carrier_poses[i, 2]), math.sin(carrier_poses[i, 2])
        ahead = 0.5 * carriers[i, LENGTH] - carriers[i, LEG]
        left = 0.5 * carriers[i, WIDTH] - carriers[i, LEG]
        for k in range(4):
            x = ahead if k in (0, 3) else -ahead
            y = left if k in (0, 1) else -left
            discs[count, 0] = carrier_poses[i, 0] + c * x - s * y
            discs[count, 1] = carrier_poses[i, 1] + s * x + c * y
            discs[count, 2] = carriers[i, LEG]
            count += 1
    for i in range(pillars.shape[0]):
        discs[count, 0], discs[count, 1], discs[count, 2] = pillars[i, 0], pillars[i, 1], pillars[i, 2]
        count += 1
    return count


@kernel
def sides_k(
    height: float,
    things: Things,
    own: IntArray,
) -> FloatArray:
    """Return the segments at a height: fixed ones, and the sides of rectangular robots and trays.

    `own` receives the first row of each robot's sides, -1 if it has none at this height.
    """
    poses, sizes, carriers, segments = things.poses, things.sizes, things.carriers, things.segments
    carrier_poses, carrier_lifts = things.carrier_poses, things.carrier_lifts
    count = 0
    for i in range(poses.shape[0]):
        own[i] = -1
        if sizes[i, 2] > 0.0 and sizes[i, 1] > height:
            own[i] = segments.shape[0] + 4 * count
            count += 1
    for i in range(carrier_poses.shape[0]):
        above = height - carrier_lifts[i] - carriers[i, CLEARANCE]
        if 0.0 <= above < carriers[i, THICKNESS]:
            count += 1
    if count == 0:
        return segments
    sides = np.empty((segments.shape[0] + 4 * count, 4))
    at = segments.shape[0]
    sides[:at] = segments
    for i in range(poses.shape[0]):
        if own[i] >= 0:
            box_segments_k(poses[i, 0], poses[i, 1], poses[i, 2], sizes[i, 2], sizes[i, 3], sides[at:])
            at += 4
    for i in range(carrier_poses.shape[0]):
        above = height - carrier_lifts[i] - carriers[i, CLEARANCE]
        if 0.0 <= above < carriers[i, THICKNESS]:
            x, y, yaw = carrier_poses[i, 0], carrier_poses[i, 1], carrier_poses[i, 2]
            box_segments_k(x, y, yaw, carriers[i, LENGTH], carriers[i, WIDTH], sides[at:])
            at += 4
    return sides


@kernel
def _disc_on_ray_k(to_x: float, to_y: float, radius: float, dx: float, dy: float, limit: float) -> float:
    """Return the distance to a disc along a ray, 0 from inside, inf if beyond `limit`."""
    along = to_x * dx + to_y * dy
    if along + radius < 0.0 or along - radius > limit:
        return math.inf
    across = to_x * dy - to_y * dx
    left = radius * radius - across * across
    if left < 0.0:
        return math.inf
    if to_x * to_x + to_y * to_y <= radius * radius:
        return 0.0
    distance = along - math.sqrt(left)
    return distance if 0.0 <= distance <= limit else math.inf


@kernel
def _wall_on_ray_k(
    to_x: float, to_y: float, wall_x: float, wall_y: float, dx: float, dy: float, limit: float
) -> float:
    """Return the distance to a wall along a ray, inf if beyond `limit`."""
    turn = dx * wall_y - dy * wall_x
    distance = (to_x * wall_y - to_y * wall_x) / turn
    if 0.0 <= distance <= limit:
        place = (to_x * dy - to_y * dx) / turn
        # Tolerance: a ray must not pass between two joined walls.
        if -1e-9 <= place <= 1.0 + 1e-9:
            return distance
    return math.inf


@kernel
def sweep_ring_k(
    pose: FloatArray,
    own: int,
    own_sides: int,
    angles: FloatArray,
    mount_radius: float,
    field_of_view: float,
    rays: int,
    range_max: float,
    segments: FloatArray,
    discs: FloatArray,
    disc_count: int,
    axes: FloatArray,
    beams: FloatArray,
    out: FloatArray,
) -> None:
    """Compute the error-free readings of a ring's sensors, bit for bit equal to core's `cast_ring_k`.

    This is faster when there are many things, because each is tested only against sensors that can see it:
    seen from the robot's centre, all of a sensor's rays are within half its field of view of its axis.

    Args:
        pose: of the robot.
        own: the row of its disc.
        own_sides: the first row of its own four sides among the segments, -1 if there are none.
        angles: of the sensors.
        mount_radius: distance of the sensors' faces from the robot's centre.
        field_of_view: of each sensor.
        rays: number of rays per sensor.
        range_max: of each sensor.
        segments: walls, and the sides of everything rectangular.
        discs: everything round, rows of x, y, radius.
        disc_count: number of discs.
        axes: work array for the direction and the position of each sensor.
        beams: work array for the direction of each ray of each sensor.
        out: output, one distance per sensor.
    """
    x, y = pose[0], pose[1]
    sensors = angles.shape[0]
    cos_slack, sin_slack = math.cos(0.5 * field_of_view + 1e-6), math.sin(0.5 * field_of_view + 1e-6)
    farthest = mount_radius + range_max
    for i in range(sensors):
        axis = pose[2] + angles[i]
        ax, ay = math.cos(axis), math.sin(axis)
        axes[i, 0], axes[i, 1] = ax, ay
        axes[i, 2], axes[i, 3] = x + mount_radius * ax, y + mount_radius * ay
        for ray in range(rays):
            angle = axis + field_of_view * (ray / (rays - 1) - 0.5) if rays > 1 else axis
            beams[i, ray, 0], beams[i, ray, 1] = math.cos(angle), math.sin(angle)
        out[i] = math.inf
    for j in range(disc_count + segments.shape[0]):
        m = j - disc_count
        wall_x, wall_y = 0.0, 0.0
        if m < 0:
            if j == own:
                continue
            at_x, at_y, reach = discs[j, 0], discs[j, 1], discs[j, 2]
            to_x, to_y = at_x - x, at_y - y
        else:
            if 0 <= own_sides <= m < own_sides + 4:
                continue
            at_x, at_y = segments[m, 0], segments[m, 1]
            wall_x, wall_y = segments[m, 2] - at_x, segments[m, 3] - at_y
            to_x, to_y = at_x + 0.5 * wall_x - x, at_y + 0.5 * wall_y - y
            reach = 0.5 * math.sqrt(wall_x * wall_x + wall_y * wall_y)
        # A little larger, so that rounding never excludes what a ray would hit.
        wide = reach * (1.0 + 1e-6) + 1e-9
        square = to_x * to_x + to_y * to_y
        if not square <= (farthest + wide) ** 2:
            continue
        # An axis can see the thing if the cosine of its angle to the thing's direction is at least that of
        # the thing's half angle plus the slack.
        least = -math.inf
        if square > wide * wide:
            least = math.sqrt(square - wide * wide) * cos_slack - wide * sin_slack
        for i in range(sensors):
            ax, ay = axes[i, 0], axes[i, 1]
            if out[i] == 0.0 or ax * to_x + ay * to_y < least:
                continue
            # If the robot penetrates a wall, the sensor's face is behind it: its rays would miss the wall.
            blocked = (
                _disc_on_ray_k(at_x - x, at_y - y, reach, ax, ay, mount_radius)
                if m < 0
                else _wall_on_ray_k(at_x - x, at_y - y, wall_x, wall_y, ax, ay, mount_radius)
            )
            if blocked < math.inf:
                out[i] = 0.0
                continue
            face_x, face_y = at_x - axes[i, 2], at_y - axes[i, 3]
            for ray in range(rays):
                limit = min(out[i], range_max)
                dx, dy = beams[i, ray, 0], beams[i, ray, 1]
                hit = (
                    _disc_on_ray_k(face_x, face_y, reach, dx, dy, limit)
                    if m < 0
                    else _wall_on_ray_k(face_x, face_y, wall_x, wall_y, dx, dy, limit)
                )
                out[i] = min(out[i], hit)


@kernel
def sweep_k(
    count: int,
    rows: IntArray,
    on: BoolArray,
    geometry: FloatArray,
    angles: FloatArray,
    things: Things,
    out: FloatArray,
) -> None:
    """Compute the error-free readings of all rings of one kind.

    Args:
        count: number of rings.
        rows: the robot of each ring.
        on: which robots have power.
        geometry: the sensors' mount height and radius, field of view, number of rays, range.
        angles: of the sensors.
        things: that rays can hit.
        out: output, by ring and sensor, inf where nothing is hit. Rings without power are not written.
    """
    sensors, rays = angles.shape[0], int(geometry[3])
    poses = things.poses
    discs = np.empty((poses.shape[0] + 4 * things.carriers.shape[0] + things.pillars.shape[0], 3))
    axes, beams = np.empty((sensors, 4)), np.empty((sensors, rays, 2))
    disc_count = discs_k(geometry[0], things, discs)
    own_sides = np.empty(poses.shape[0], np.int64)
    sides = sides_k(geometry[0], things, own_sides)
    for i in range(count):
        row = rows[i]
        if not on[row]:
            continue
        sweep_ring_k(
            poses[row],
            row,
            own_sides[row],
            angles,
            geometry[1],
            geometry[2],
            rays,
            geometry[4],
            sides,
            discs,
            disc_count,
            axes,
            beams,
            out[i],
        )


def rounded(things: Things) -> Things:
    """Return things whose robots are all round, with the radius within which they collide."""
    sizes = things.sizes.copy()
    sizes[:, 2:] = 0.0
    return things._replace(sizes=sizes)


@kernel
def echo_rings_k(
    count: int,
    rows: IntArray,
    on: BoolArray,
    geometry: FloatArray,
    angles: FloatArray,
    least_cosine: float,
    no_pillars: FloatArray,
    things: Things,
    out: FloatArray,
) -> None:
    """Compute the error-free readings of all sonars of one kind: slanting surfaces give no echo.

    Args:
        count: number of rings.
        rows: the robot of each ring.
        on: which robots have power.
        geometry: the sensors' mount height and radius, field of view, number of rays, range.
        angles: of the sensors.
        least_cosine: smallest cosine of the angle between a ray and a surface's normal that gives an echo.
        no_pillars: an array without rows: pillars are among the discs here.
        things: that rays can hit.
        out: output, by ring and sensor, inf without an echo. Rings without power are not written.
    """
    sensors, rays = angles.shape[0], int(geometry[3])
    mount_radius, field_of_view, range_max = geometry[1], geometry[2], geometry[4]
    poses = things.poses
    discs = np.empty((poses.shape[0] + 4 * things.carriers.shape[0] + things.pillars.shape[0], 3))
    disc_count = discs_k(geometry[0], things, discs)
    own_sides = np.empty(poses.shape[0], np.int64)
    sides = sides_k(geometry[0], things, own_sides)
    near, walls = np.empty(disc_count, np.int64), np.empty(sides.shape[0], np.int64)
    for i in range(count):
        row = rows[i]
        if not on[row]:
            continue
        x, y, yaw = poses[row, 0], poses[row, 1], poses[row, 2]
        near_count, wall_count = 0, 0
        for j in range(disc_count):
            far = range_max + mount_radius + discs[j, 2]
            dx, dy = discs[j, 0] - x, discs[j, 1] - y
            if j != row and dx * dx + dy * dy <= far * far:
                near[near_count] = j
                near_count += 1
        for j in range(sides.shape[0]):
            if 0 <= own_sides[row] <= j < own_sides[row] + 4:
                continue
            wide = 0.5 * math.hypot(sides[j, 2] - sides[j, 0], sides[j, 3] - sides[j, 1])
            far = range_max + mount_radius + wide
            dx, dy = 0.5 * (sides[j, 0] + sides[j, 2]) - x, 0.5 * (sides[j, 1] + sides[j, 3]) - y
            if dx * dx + dy * dy <= far * far:
                walls[wall_count] = j
                wall_count += 1
        for sensor in range(sensors):
            axis = yaw + angles[sensor]
            face_x, face_y = x + mount_radius * math.cos(axis), y + mount_radius * math.sin(axis)
            nearest = math.inf
            for ray in range(rays):
                angle = axis + field_of_view * (ray / (rays - 1) - 0.5) if rays > 1 else axis
                nearest = min(
                    nearest,
                    echo_k(
                        face_x, face_y, math.cos(angle), math.sin(angle), least_cosine, sides, no_pillars,
                        walls, 0, wall_count, discs, near, near_count, range_max,
                    ),
                )  # fmt: skip
            out[i, sensor] = nearest


@kernel
def err_k(
    count: int,
    rows: IntArray,
    on: BoolArray,
    numbers: FloatArray,
    dead: BoolArray,
    gaussians: FloatArray,
    uniforms: FloatArray,
    at: int,
    out: FloatArray,
) -> None:
    """Apply the sensors' errors to true distances; dead sensors and rings without power measure inf.

    Args:
        count: number of rings.
        rows: the robot of each ring.
        on: which robots have power.
        numbers: the error model, from `range_numbers`.
        dead: which sensors of each ring are dead.
        gaussians: standard normal numbers by ring, sweep and sensor; zero sweeps switch noise off.
        uniforms: likewise, from [0, 1).
        at: the sweep's index in the noise arrays.
        out: distances by ring and sensor; updated.
    """
    noisy = gaussians.shape[1] > 0
    for i in range(count):
        for k in range(out.shape[1]):
            if not on[rows[i]] or dead[i, k] or not out[i, k] < math.inf:
                out[i, k] = math.inf
            elif noisy:
                out[i, k] = measure_one_k(out[i, k], gaussians[i, at, k], uniforms[i, at, k], numbers)


class Rings:
    """All rings of one kind of distance sensors, on all robots that have devices."""

    def __init__(self, ring: RangeRing, *, noise: bool) -> None:
        """Start without robots."""
        self.ring = ring
        self.beat = Beat(ring.rate)
        self.dead = np.empty((0, ring.count), dtype=np.bool_)
        self.distances = np.empty((0, ring.count))
        self._noisy = noise
        self._count = 0
        self._angles = np.array(ring.angles)
        self._numbers = range_numbers(ring)
        self._geometry = np.array(
            [ring.mount_height, ring.mount_radius, ring.field_of_view, ring.rays, ring.range_max]
        )
        cone = ring.reflection_cone
        self._least_cosine = None if cone is None else math.cos(cone / 2)
        sweeps = SWEEPS if noise else 0
        self._rows = np.empty(0, dtype=np.int64)
        self._gaussians = np.empty((0, sweeps, ring.count))
        self._uniforms = np.empty((0, sweeps, ring.count))
        self._rngs: list[np.random.Generator] = []
        self._parts: list[Ranges] = []
        self._at = 0

    def add(self, robot: Life, rng: np.random.Generator) -> Ranges:
        """Add a robot's ring and return its part."""
        k = self._count
        self._count += 1
        self._rows = roomy(self._rows, k)
        self._gaussians = roomy(self._gaussians, k)
        self._uniforms = roomy(self._uniforms, k)
        self.dead = roomy(self.dead, k)
        self._rows[k] = robot.row
        self._rngs.append(rng)
        if self._noisy:
            self._draw(k)
        part = Ranges(robot, self, k)
        self._parts.append(part)
        return part

    def remove(self, row: int) -> None:
        """Remove a robot's ring, if it has one, and decrement the rows after it."""
        for k in np.flatnonzero(self._rows[: self._count] == row).tolist():
            # A slice, because `distances` has no rows yet for rings added after the last sweep.
            for name in ("_rows", "_gaussians", "_uniforms", "dead", "distances"):
                setattr(self, name, np.delete(getattr(self, name), slice(k, k + 1), axis=0))
            del self._rngs[k], self._parts[k]
            self._count -= 1
        for k, part in enumerate(self._parts):
            part.k = k
        self._rows[self._rows > row] -= 1

    def _draw(self, k: int) -> None:
        self._rngs[k].standard_normal(out=self._gaussians[k])
        self._rngs[k].random(out=self._uniforms[k])

    def measure(self, now: float, physics: Physics, inventory: Inventory) -> None:  # noqa: ARG002
        """Take a measurement with every ring."""
        if self._noisy and self._at == SWEEPS:
            self._at = 0
            for k in range(self._count):
                self._draw(k)
        # A new array each time, because readings keep references to it.
        count, rows, on = self._count, self._rows, inventory.on
        cast = physics.cast(self.ring, rows[:count])
        if cast is None:
            cast = np.empty((count, len(self._angles)))
            things, least = things_of(physics, inventory), self._least_cosine
            if least is None:
                sweep_k(count, rows, on, self._geometry, self._angles, things, cast)
            else:
                shape = self._geometry, self._angles
                echo_rings_k(count, rows, on, *shape, least, NO_PILLARS, rounded(things), cast)
        self.distances = cast
        noise = self._gaussians, self._uniforms, self._at
        err_k(count, rows, on, self._numbers, self.dead, *noise, self.distances)
        self._at += 1


class Ranges:
    """One ring of distance sensors of one robot: a `RangesPart`.

    Attributes:
        k: its index among the rings of its kind.
    """

    __slots__ = ("_rings", "_robot", "_seen", "k")

    def __init__(self, robot: Life, rings: Rings, k: int) -> None:
        """Bind to the ring with index `k` of `rings`."""
        self._robot = robot
        self._rings = rings
        self.k = k
        self._seen = rings.beat.count

    def read(self) -> RangeReading | None:
        """Return the latest sweep, or None if it was already returned."""
        rings = self._rings
        beat = rings.beat
        fresh = self._seen != beat.count and self._robot.on
        self._seen = beat.count
        if not fresh:
            return None
        return RangeReading(beat.stamp, rings.distances[self.k])

    def kill(self, sensor: int) -> None:
        """Disable a sensor for good: it measures inf."""
        self._rings.dead[self.k, sensor] = True
