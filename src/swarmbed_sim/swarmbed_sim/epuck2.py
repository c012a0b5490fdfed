"""The senses of a crowd of e-puck2s in the robot's own units: one kernel per sense, for all robots at once.

The models follow "Design and analysis of an E-Puck2 robot plug-in for ARGoS" (sections 3 and 4.1, tables 1
to 3); units and curves are in `swarmbed_core.epuck2`. Proximity and time of flight come from the crowd's
rings. Light sensors see the scenario's lamps, weighted by the cosine of the angle to the sensor's axis (our
choice), unless something blocks the line of sight; like the real ones they do not see other robots' LEDs.
Cameras see LEDs and lamps. Encoders count the rotation of the motors, even while the robot is blocked. A
robot with an empty battery stops.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.epuck2 import FAR as LIGHT_RANGE
from swarmbed_core.epuck2 import (
    GRAVITY_COUNTS,
    STEPS,
    TURN_COUNTS,
    WHITE,
    Blobs,
    Readings,
    dimming_k,
    light_k,
    proximity_k,
    register_k,
    roll_k,
    tof_k,
)
from swarmbed_core.errors import ConfigError
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.memory import GRAVITY

from swarmbed_core import discharge
from swarmbed_sim.planar_kernels import _come_k, _limit_k, sort_cells_k
from swarmbed_sim.solid import DRIVE_TIME

if TYPE_CHECKING:
    from swarmbed_core.epuck2 import ByteArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene

    from swarmbed_sim.crowd import PlanarCrowd, Seen
    from swarmbed_sim.physics import BoolArray, IntArray

NAMES = ("proximity", "light", "ground", "tof", "encoders", "camera", "imu")
"""Names of the senses; `tof` and `proximity` are also rings."""
HIDDEN = 1e-6
"""A body blocks a line of sight that passes through it for more than this length, in metres."""
MOST = 32767
"""Largest signed 16-bit number."""


@kernel
def wheels_k(
    asked: FloatArray,
    alive: BoolArray,
    limits: FloatArray,
    dt: float,
    matrix: FloatArray,
    state: FloatArray,
    ways: FloatArray,
    metres: FloatArray,
) -> None:
    """Compute how far the two wheels of each robot turn in a step, in metres.

    Args:
        asked: commands, rows of vx, vy, omega.
        alive: which robots drive.
        limits: speed, yaw rate, and the accelerations of both.
        dt: duration of the step in seconds.
        matrix: from vx, vy, omega to wheel speeds.
        state: rows of vx, omega that the drives would have without contact forces; updated.
        ways: output, the signed distance of each wheel.
        metres: output, the mean of the two wheels' absolute distances.
    """
    gain = 1.0 - math.exp(-dt / DRIVE_TIME)
    for i in range(asked.shape[0]):
        ahead, turn = asked[i, 0], asked[i, 2]
        if not (alive[i] and math.isfinite(ahead) and math.isfinite(turn)):
            ahead = turn = 0.0
        ahead, turn = _limit_k(ahead, limits[0]), _limit_k(turn, limits[1])
        state[i, 0] += _limit_k(_come_k(ahead - state[i, 0], gain), limits[2] * dt)
        state[i, 1] += _limit_k(_come_k(turn - state[i, 1], gain), limits[3] * dt)
        for k in range(matrix.shape[0]):
            ways[i, k] = dt * (matrix[k, 0] * state[i, 0] + matrix[k, 2] * state[i, 1])
        metres[i] = 0.5 * (abs(ways[i, 0]) + abs(ways[i, 1]))


@kernel
def run_flat_k(charge: FloatArray, alive: BoolArray) -> bool:
    """Clear `alive` for robots with an empty battery; return whether there are any."""
    any_flat = False
    for i in range(charge.shape[0]):
        if charge[i] <= 0.0:
            alive[i] = False
            any_flat = True
    return any_flat


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
def ground_k(
    poses: FloatArray, places: FloatArray, grey: float, patches: FloatArray, errors: FloatArray, out: IntArray
) -> None:
    """Compute the ground sensors' readings; `patches` are a `Floor`'s rows, the later ones on top."""
    for i in range(poses.shape[0]):
        c, s = math.cos(poses[i, 2]), math.sin(poses[i, 2])
        for k in range(places.shape[0]):
            x = poses[i, 0] + c * places[k, 0] - s * places[k, 1]
            y = poses[i, 1] + s * places[k, 0] + c * places[k, 1]
            seen = grey
            for p in range(patches.shape[0] - 1, -1, -1):
                dx, dy = x - patches[p, 0], y - patches[p, 1]
                if patches[p, 6] > 0.0:
                    inside = dx * dx + dy * dy <= patches[p, 6] * patches[p, 6]
                else:
                    along = patches[p, 2] * dx + patches[p, 3] * dy
                    across = patches[p, 2] * dy - patches[p, 3] * dx
                    inside = abs(along) <= patches[p, 4] and abs(across) <= patches[p, 5]
                if inside:
                    seen = patches[p, 7]
                    break
            if errors.shape[0] > 0:
                seen += errors[i, k]
            out[i, k] = int(np.rint(WHITE * min(max(seen, 0.0), 1.0)))


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
def lights_k(
    poses: FloatArray,
    axes: FloatArray,
    mount: FloatArray,
    lamps: FloatArray,
    discs: FloatArray,
    tops: FloatArray,
    frame: FloatArray,
    cells: IntArray,
    starts: IntArray,
    order: IntArray,
    near: IntArray,
    segments: FloatArray,
    pillars: FloatArray,
    dimmed: FloatArray,
) -> None:
    """Compute how far each light sensor's value, as of equation (2), is below 1.

    Args:
        poses: of the robots, whose discs come first.
        axes: rows of x, y: the sensors' directions in the robot's frame.
        mount: the sensors' distance from the robot's centre, and their height.
        lamps: rows of x, y, z, intensity.
        discs: rows of x, y, radius.
        tops: heights of the discs.
        frame: work array for the grid's frame, as are the next three.
        cells: see `frame`.
        starts: see `frame`.
        order: see `frame`.
        near: work array with one entry per disc.
        segments: walls.
        pillars: rows of x, y, radius.
        dimmed: output, a row per robot.
    """
    reach = LIGHT_RANGE + mount[0]
    sort_cells_k(discs, LIGHT_RANGE, frame, cells, starts, order)
    for i in range(poses.shape[0]):
        x, y = poses[i, 0], poses[i, 1]
        c, s = math.cos(poses[i, 2]), math.sin(poses[i, 2])
        for k in range(axes.shape[0]):
            dimmed[i, k] = 0.0
        for lamp in range(lamps.shape[0]):
            dx, dy = lamps[lamp, 0] - x, lamps[lamp, 1] - y
            if dx * dx + dy * dy > reach * reach:
                continue
            count = near_k(x, y, math.sqrt(dx * dx + dy * dy), discs, frame, starts, order, near)
            count = between_k(x, y, lamps[lamp, 0], lamps[lamp, 1], mount[0], discs, near, count)
            walls = walls_k(x, y, lamps[lamp, 0], lamps[lamp, 1], mount[0], segments)
            for k in range(axes.shape[0]):
                ax, ay = c * axes[k, 0] - s * axes[k, 1], s * axes[k, 0] + c * axes[k, 1]
                to_x, to_y, to_z = dx - mount[0] * ax, dy - mount[0] * ay, lamps[lamp, 2] - mount[1]
                distance = math.sqrt(to_x * to_x + to_y * to_y + to_z * to_z)
                facing = (to_x * ax + to_y * ay) / max(distance, 1e-9)
                if facing <= 0.0 or distance > LIGHT_RANGE:
                    continue
                if hidden_k(
                    x + mount[0] * ax,
                    y + mount[0] * ay,
                    mount[1],
                    lamps[lamp, 0],
                    lamps[lamp, 1],
                    lamps[lamp, 2],
                    discs,
                    tops,
                    near,
                    count,
                    i,
                    i,
                    walls,
                    segments,
                    pillars,
                ):
                    continue
                dimmed[i, k] += facing * dimming_k(lamps[lamp, 3], distance)


@kernel
def _project_k(x: float, y: float, z: float, camera: FloatArray) -> tuple[float, float]:
    """Project a point from the camera's frame into the image; (-1, -1) if outside the image or range."""
    if x <= 0.0 or x * x + y * y + z * z > camera[7] * camera[7]:
        return -1.0, -1.0
    column = 0.5 * camera[5] - camera[4] * y / x
    row = 0.5 * camera[6] - camera[4] * z / x
    if 0.0 <= column < camera[5] and 0.0 <= row < camera[6]:
        return column, row
    return -1.0, -1.0


@kernel
def camera_k(
    poses: FloatArray,
    alive: BoolArray,
    camera: FloatArray,
    places: FloatArray,
    leds: ByteArray,
    lamps: FloatArray,
    discs: FloatArray,
    tops: FloatArray,
    frame: FloatArray,
    cells: IntArray,
    starts: IntArray,
    order: IntArray,
    near: IntArray,
    turned: FloatArray,
    segments: FloatArray,
    pillars: FloatArray,
    first: IntArray,
    pixels: FloatArray,
    colours: ByteArray,
) -> int:
    """Write the lights that cameras see, as `Blobs`; return their number, which can exceed the output's size.

    Args:
        poses: of the robots, whose discs come first.
        alive: which robots have their cameras and lights on.
        camera: x, y, z and yaw on the robot, focal length, width and height in pixels, range.
        places: x, y, z of the LEDs in the robot's frame.
        leds: colours of all robots' LEDs.
        lamps: rows of x, y, z, intensity, red, green, blue.
        discs: rows of x, y, radius.
        tops: heights of the discs.
        frame: work array for the grid's frame, as are the next three.
        cells: see `frame`.
        starts: see `frame`.
        order: see `frame`.
        near: work array with one entry per disc.
        turned: work array with a row of two per robot.
        segments: walls.
        pillars: rows of x, y, radius.
        first: output, the index of each robot's first blob; one more entry holds the total.
        pixels: output, column and row of each blob.
        colours: output, the colour of each blob.
    """
    n, reach, seen = poses.shape[0], camera[7], 0
    sort_cells_k(discs, reach, frame, cells, starts, order)
    for i in range(n):
        turned[i, 0], turned[i, 1] = math.cos(poses[i, 2]), math.sin(poses[i, 2])
    # Tangent and secant of half the camera's horizontal field of view.
    aside = 0.5 * camera[5] / camera[4]
    slope = math.sqrt(1.0 + aside * aside)
    for i in range(n):
        first[i] = seen
        if not alive[i]:
            continue
        c, s = turned[i, 0], turned[i, 1]
        x = poses[i, 0] + c * camera[0] - s * camera[1]
        y = poses[i, 1] + s * camera[0] + c * camera[1]
        ahead_x, ahead_y = math.cos(poses[i, 2] + camera[3]), math.sin(poses[i, 2] + camera[3])
        count, kept = near_k(x, y, reach, discs, frame, starts, order, near), 0
        for k in range(count):
            # Discs outside the field of view are neither seen nor block the view.
            j = near[k]
            dx, dy = discs[j, 0] - x, discs[j, 1] - y
            across = abs(ahead_x * dy - ahead_y * dx)
            if j != i and across - aside * (ahead_x * dx + ahead_y * dy) <= discs[j, 2] * slope:
                near[kept] = j
                kept += 1
        count = kept
        for k in range(count + lamps.shape[0]):
            lamp = k >= count
            j = k - count if lamp else near[k]
            if not lamp and (j >= n or not alive[j]):
                continue
            to_x, to_y = (lamps[j, 0], lamps[j, 1]) if lamp else (discs[j, 0], discs[j, 1])
            walls = walls_k(x, y, to_x, to_y, 0.0 if lamp else discs[j, 2], segments)
            for led in range(1 if lamp else places.shape[0]):
                if lamp:
                    at_x, at_y, at_z = lamps[j, 0], lamps[j, 1], lamps[j, 2]
                else:
                    if leds[j, led, 0] == 0 and leds[j, led, 1] == 0 and leds[j, led, 2] == 0:
                        continue
                    cj, sj = turned[j, 0], turned[j, 1]
                    arm_x = cj * places[led, 0] - sj * places[led, 1]
                    arm_y = sj * places[led, 0] + cj * places[led, 1]
                    at_x, at_y, at_z = poses[j, 0] + arm_x, poses[j, 1] + arm_y, places[led, 2]
                    # On the far side of its own body.
                    if arm_x * (x - at_x) + arm_y * (y - at_y) < 0.0:
                        continue
                dx, dy, dz = at_x - x, at_y - y, at_z - camera[2]
                column, row = _project_k(ahead_x * dx + ahead_y * dy, ahead_x * dy - ahead_y * dx, dz, camera)
                if column < 0.0:
                    continue
                own = -1 if lamp else j
                if hidden_k(
                    x,
                    y,
                    camera[2],
                    at_x,
                    at_y,
                    at_z,
                    discs,
                    tops,
                    near,
                    count,
                    i,
                    own,
                    walls,
                    segments,
                    pillars,
                ):
                    continue
                if seen < pixels.shape[0]:
                    pixels[seen, 0], pixels[seen, 1] = column, row
                    for part in range(3):
                        colours[seen, part] = np.uint8(lamps[j, 4 + part]) if lamp else leds[j, led, part]
                seen += 1
    first[n] = seen
    return seen


@kernel
def imu_k(
    twists: FloatArray,
    last: FloatArray,
    dt: float,
    errors: FloatArray,
    acceleration: IntArray,
    turning: IntArray,
) -> None:
    """Compute the inertial sensors' readings; `last` holds the previous twists and is updated.

    The acceleration is the mean since the last reading. `errors` has rows of x, y, z, yaw rate.
    """
    g_counts, turn_counts = GRAVITY_COUNTS / GRAVITY, TURN_COUNTS * 180.0 / math.pi
    for i in range(twists.shape[0]):
        vx, vy, omega = twists[i, 0], twists[i, 1], twists[i, 2]
        ax = (vx - last[i, 0]) / dt - vy * omega
        ay = (vy - last[i, 1]) / dt + vx * omega
        az = GRAVITY
        if errors.shape[0] > 0:
            ax, ay, az = ax + errors[i, 0], ay + errors[i, 1], az + errors[i, 2]
            omega += errors[i, 3]
        acceleration[i, 0] = int(np.rint(_limit_k(g_counts * ax, MOST)))
        acceleration[i, 1] = int(np.rint(_limit_k(g_counts * ay, MOST)))
        acceleration[i, 2] = int(np.rint(_limit_k(g_counts * az, MOST)))
        turning[i, 2] = int(np.rint(_limit_k(turn_counts * omega, MOST)))
        last[i, 0], last[i, 1], last[i, 2] = vx, vy, twists[i, 2]


@kernel
def tint_k(masks: ByteArray, leds: ByteArray) -> None:
    """Mask out the colour channels that LEDs do not have."""
    for i in range(leds.shape[0]):
        for k in range(leds.shape[1]):
            for part in range(3):
                leds[i, k, part] &= masks[k, part]


class EPuck2Senses:
    """Senses of all robots of a crowd, in the e-puck2's units.

    Attributes:
        readings: the latest readings, as programs get them.
    """

    def __init__(
        self, crowd: PlanarCrowd, scene: Scene, on: frozenset[str], rng: np.random.Generator, period: float
    ) -> None:
        """Create the senses.

        Args:
            crowd: the robots, with their rings.
            scene: provides the lamps, the floor and the battery model.
            on: the names of the enabled senses.
            rng: of all their noise.
            period: seconds between calls of `measure`.

        Raises:
            ConfigError: unknown battery model.
        """
        self._crowd = crowd
        self._on = on
        self._rng = rng if scene.scenario.noise else None
        self._period = period
        spec, n = crowd.spec, crowd.count
        rings = {item.ring.name: item for item in crowd.rings}
        self._proximity, self._tof = rings.get("proximity"), rings.get("tof")
        self.readings = readings = Readings(np.zeros((n, 10, 3), dtype=np.uint8))
        self._masks = np.array(
            [_MASKS[colour] for colour in spec.leds.colours] if spec.leds else [], dtype=np.uint8
        )
        self._places = np.array(spec.leds.places if spec.leds else (), dtype=np.float64).reshape(-1, 3)
        self.refit(scene)
        self._none = np.empty((0, 0))
        if self._proximity is not None:
            readings.proximity = np.zeros((n, self._proximity.ring.count), dtype=np.int64)
        if self._tof is not None:
            readings.tof = np.zeros(n, dtype=np.int64)
        self._lamps = np.array(
            [(*lamp.place, lamp.intensity, *lamp.colour) for lamp in scene.scenario.lights], dtype=np.float64
        ).reshape(-1, 7)
        if "light" in on:
            ring = next(ring for ring in spec.ranges if spec.light and ring.name == spec.light.ring)
            self._axes = np.stack([np.cos(ring.angles), np.sin(ring.angles)], axis=1)
            self._mount = np.array((ring.mount_radius, ring.mount_height))
            self._dimmed = np.zeros((n, ring.count))
            readings.light = np.zeros((n, ring.count), dtype=np.int64)
        if "ground" in on and spec.ground is not None:
            self._sensors = np.array(spec.ground.places)
            self._floor = scene.arena.floor
            self._patches = self._floor.rows()
            readings.ground = np.zeros((n, len(self._sensors)), dtype=np.int64)
        if "camera" in on:
            camera = spec.cameras[0]
            focal = 0.5 * camera.width / math.tan(0.5 * camera.horizontal_fov)
            place = (camera.x, camera.y, camera.z, camera.yaw)
            far = camera.range_max or math.inf
            self._turned = np.zeros((n, 2))
            self._camera = np.array((*place, focal, camera.width, camera.height, far))
            self._blobs = (np.zeros((64, 2)), np.zeros((64, 3), dtype=np.uint8))
            readings.camera = Blobs(np.zeros(n + 1, dtype=np.int64), self._blobs[0][:0], self._blobs[1][:0])
        if "imu" in on:
            self._last = np.zeros((n, 3))
            readings.acceleration = np.zeros((n, 3), dtype=np.int64)
            readings.turning = np.zeros((n, 3), dtype=np.int64)
            self._bias = np.zeros(n)
            if self._rng is not None and spec.imu is not None:
                self._bias = spec.imu.gyro_bias_sigma * self._rng.standard_normal(n)
        if "encoders" in on:
            readings.encoders = np.zeros((n, 2), dtype=np.int64)
            self._parts = np.zeros((n, 2))
            self._counts = np.zeros((n, 2), dtype=np.int64)
            self._step_way = 2 * math.pi * spec.drive.wheels.radius / STEPS
        self._discharge = None
        model = scene.crowd_options.battery
        if model is not None:
            if model not in discharge.MODELS:
                known = ", ".join(discharge.MODELS)
                message = f"robots: crowd: battery: unknown model '{model}'; available: {known}"
                raise ConfigError(message)
            self._discharge = discharge.MODELS[model]
            readings.battery = np.ones(n)
        limits = spec.limits
        self._limits = np.array((limits.speed, limits.yaw_rate, limits.acceleration, limits.yaw_acceleration))
        self._matrix = Kinematics.of(spec).matrix
        self._drives = np.zeros((n, 2))
        self._ways = np.zeros((n, 2))
        self._metres = np.zeros(n)
        self._turns = "encoders" in on or model is not None
        self._slip = spec.drive.wheels.slip_sigma

    def refit(self, scene: Scene) -> None:
        """Make room for the discs that there are now; those of tracked robots follow the crowd's."""
        # Robots are as high as their bodies; carriers' legs block every line of sight.
        discs = len(self._crowd.seen.discs)
        self._tops = np.full(discs, math.inf)
        self._tops[: len(scene.robots)] = [robot.spec.body.height for robot in scene.robots]
        self._near = np.zeros(discs, dtype=np.int64)

    def step(self, dt: float) -> None:
        """Advance wheels and batteries by one step of `dt` seconds."""
        if not self._turns:
            return
        crowd, readings = self._crowd, self.readings
        wheels_k(
            crowd.v_body,
            crowd.alive,
            self._limits,
            dt,
            self._matrix,
            self._drives,
            self._ways,
            self._metres,
        )
        if self._discharge is not None and readings.battery is not None:
            readings.battery = self._discharge(dt, self._metres, readings.battery)
            if run_flat_k(readings.battery, crowd.alive):
                crowd.all_alive = False
        if readings.encoders is not None:
            if self._rng is not None:
                self._ways *= 1.0 + self._slip * self._rng.standard_normal(self._ways.shape)
            roll_k(self._ways.ravel(), self._step_way, self._parts.ravel(), self._counts.ravel())

    def measure(self) -> None:
        """Update the readings of the enabled senses."""
        crowd, readings, seen = self._crowd, self.readings, self._crowd.seen
        poses = crowd.poses
        if readings.proximity is not None and self._proximity is not None:
            proximity_k(self._proximity.ranges.ravel(), readings.proximity.ravel())
        if readings.tof is not None and self._tof is not None:
            tof_k(self._tof.ranges.ravel(), readings.tof)
        if readings.encoders is not None:
            register_k(self._counts.ravel(), readings.encoders.ravel())
        if readings.ground is not None:
            noise = crowd.spec.ground.noise if crowd.spec.ground else 0.0
            errors = self._errors(noise, readings.ground.shape)
            ground_k(poses, self._sensors, self._floor.grey, self._patches, errors, readings.ground)
        if readings.light is not None or readings.camera is not None:
            seen.look()
        if readings.light is not None:
            self._measure_light(seen, readings.light)
        if readings.camera is not None:
            self._measure_camera(seen, readings.camera)
        if readings.acceleration is not None and readings.turning is not None:
            errors = self._imu_errors()
            twists = crowd.twists
            imu_k(twists, self._last, self._period, errors, readings.acceleration, readings.turning)

    def _errors(self, noise: float, shape: tuple[int, ...]) -> FloatArray:
        """Return uniform errors of up to ±`noise` of full scale; an empty array without noise."""
        if self._rng is None or noise == 0.0:
            return self._none
        return noise * (2.0 * self._rng.random(shape) - 1.0)

    def _imu_errors(self) -> FloatArray:
        imu = self._crowd.spec.imu
        if self._rng is None or imu is None:
            return self._none
        draws = self._rng.standard_normal((self._crowd.count, 5))
        self._bias += imu.gyro_bias_walk * math.sqrt(self._period) * draws[:, 4]
        errors = imu.accel_sigma * draws[:, :4]
        errors[:, 3] = imu.gyro_sigma * draws[:, 3] + self._bias
        return errors

    def _measure_light(self, seen: Seen, light: IntArray) -> None:
        physics = self._crowd.physics
        lights_k(
            self._crowd.poses,
            self._axes,
            self._mount,
            self._lamps,
            seen.discs,
            self._tops,
            seen.frame,
            seen.cells,
            seen.starts,
            seen.order,
            self._near,
            physics.segments,
            physics.pillars,
            self._dimmed,
        )
        spec = self._crowd.spec.light
        errors = self._errors(spec.noise if spec else 0.0, light.shape)
        if len(errors):
            self._dimmed += errors
        light_k(self._dimmed.ravel(), light.ravel())

    def _measure_camera(self, seen: Seen, blobs: Blobs) -> None:
        crowd, physics, leds = self._crowd, self._crowd.physics, self.readings.leds
        tint_k(self._masks, leds)
        while True:
            pixels, colours = self._blobs
            count = camera_k(
                crowd.poses,
                crowd.alive,
                self._camera,
                self._places,
                leds,
                self._lamps,
                seen.discs,
                self._tops,
                seen.frame,
                seen.cells,
                seen.starts,
                seen.order,
                self._near,
                self._turned,
                physics.segments,
                physics.pillars,
                blobs.first,
                pixels,
                colours,
            )
            if count <= len(pixels):
                break
            self._blobs = (np.zeros((2 * count, 2)), np.zeros((2 * count, 3), dtype=np.uint8))
        blobs.pixels, blobs.colours = pixels[:count], colours[:count]
        sigma = crowd.spec.cameras[0].corner_sigma_px
        if self._rng is not None and sigma > 0.0:
            blobs.pixels += sigma * self._rng.standard_normal((count, 2))
            np.clip(blobs.pixels, 0.0, self._camera[5:7], out=blobs.pixels)


_MASKS = {"red": (255, 0, 0), "green": (0, 255, 0), "rgb": (255, 255, 255)}
