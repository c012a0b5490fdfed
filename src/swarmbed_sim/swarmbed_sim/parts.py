"""What robots carry in a simulated world: wheels, inertial sensors, rings of ranges, radios, batteries.

What many robots have is kept in arrays, one row a robot, and moved on by one compiled call for all of
them; each robot's parts (`swarmbed_core.device`) are thin views of these rows. Random numbers are drawn in
blocks, from a generator of each robot's and part's own.

The models are those of `swarmbed_core.memory`, with differences that come from bodies that push back:
encoders and inertial sensors tell what the body really did, and not what its wheels were asked to do. So a
wheel that pushes against a wall stands and does not spin, with its motor at work: the effort is that of the
force that the drives push with.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.device import (
    CompassReading,
    ImuReading,
    LifterReading,
    MotorReading,
    RadioPacket,
    RangeReading,
    Zone,
)
from swarmbed_core.geometry import wrap
from swarmbed_core.heading import zone_of
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics, body_k, limit_k
from swarmbed_core.leds import LedBar
from swarmbed_core.memory import GRAVITY
from swarmbed_core.power import BatteryModel, PowerModel
from swarmbed_core.radio import BEACONS, RadioModel
from swarmbed_core.ranges import measure_one_k, range_numbers
from swarmbed_core.raycast import box_segments_k
from swarmbed_core.watchdog import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray
    from swarmbed_core.device import Clock, PowerReading
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.heading import Zones
    from swarmbed_core.lifter import LifterModel
    from swarmbed_core.spec import Leds as LedsSpec
    from swarmbed_core.spec import Radio as RadioSpec
    from swarmbed_core.spec import RangeRing, RobotSpec

    from swarmbed_sim.physics import Physics

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

STEPS = 256
"""Steps for which the noise of wheels and inertial sensors is drawn at once."""
SWEEPS = 64
"""Sweeps for which the noise of a ring is drawn at once."""
CREEP = 1e-4
"""A wheel that rolls slower than this, in m/s, stands, and its encoder counts nothing."""

# Where the numbers of a carrier are in its row.
LENGTH, WIDTH, CLEARANCE, THICKNESS, LEG, MARKER_ID = range(6)
CARRIER_NUMBERS = 6
# Where the numbers of a robot's body are in its row.
MAX_SPEED, SLIP_KEEP, SLIP_FRESH, MISCOUNT, GYRO, WALK, ACCEL, COMPASS, AVAILABLE = range(9)
BODY_NUMBERS = 9
# Where what its inertial sensors feel is.
FELT_GYRO, FELT_X, FELT_Y, FELT_EFFORT, FELT_HEADING = range(5)
FELT_NUMBERS = 5


class Life:
    """What all parts of a robot know: which one it is, and whether it lives and has power.

    Attributes:
        name: the robot's.
        row: the robot's.
        alive: whether it has not died.
        supplied: whether its switch and its battery let power out.
        on: both.
        off_since: the time at which it went off, if it is.
    """

    __slots__ = ("alive", "name", "off_since", "on", "row", "supplied")

    def __init__(self, name: str, row: int) -> None:
        """Make a robot that lives."""
        self.name = name
        self.row = row
        self.alive = self.supplied = self.on = True
        self.off_since = math.inf


class Furniture:
    """What does not change of the things in a scene, one row each.

    Attributes:
        sizes: radius, height, length and width of the robots; of round ones the last two are 0.
        on: which robots live and have power.
        localised: which robots look for markers on walls.
        carriers: numbers of the carriers, see `fiducials`.
    """

    __slots__ = ("carriers", "localised", "on", "sizes")

    def __init__(self, sizes: FloatArray, localised: BoolArray, carriers: FloatArray) -> None:
        """Take what a scene holds."""
        self.sizes = sizes
        self.on = np.ones(len(sizes), dtype=np.bool_)
        self.localised = localised
        self.carriers = carriers


class Beat:
    """The rate of something that happens for many at once.

    Attributes:
        rate: in Hz.
        stamp: the time of the newest beat.
        count: of the beats.
    """

    __slots__ = ("_pace", "count", "rate", "stamp")

    def __init__(self, rate: float) -> None:
        """Make one that is due at once."""
        self.rate = rate
        self.stamp = 0.0
        self.count = 0
        self._pace = Pace(rate)

    def due(self, now: float) -> bool:
        """Return whether it is time, and count."""
        if not self._pace.due(now):
            return False
        self.stamp = now
        self.count += 1
        return True


def roomy(array: NDArray[Any], row: int) -> NDArray[Any]:
    """Return an array that has this row: itself, or a larger one that begins with it."""
    if row < len(array):
        return array
    larger = np.zeros((max(2 * len(array), row + 1, 4), *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def command_k(
    count: int,
    rows: IntArray,
    drives: BoolArray,
    numbers: FloatArray,
    inverse: FloatArray,
    asked: FloatArray,
    slip: FloatArray,
    lost: FloatArray,
    noise: FloatArray,
    at: int,
    v_body: FloatArray,
    driven: BoolArray,
) -> None:
    """Write the body velocities that the wheels would give robots, as asked, limited, and slipping.

    Args:
        count: of the robots.
        rows: of the robots in `v_body`.
        drives: which of them drive; the others stand.
        numbers: of their bodies.
        inverse: their kinematics.
        asked: speeds that their wheels were asked for.
        slip: shares by which the wheels' way over the floor differs from their own, moved on.
        lost: the share of it that slips away besides.
        noise: by robot, step and wheel; of no steps for no noise.
        at: which step.
        v_body: filled for these robots.
        driven: filled for these robots.
    """
    wheels = asked.shape[1]
    on_floor = np.empty(wheels)
    for i in range(count):
        row = rows[i]
        if noise.shape[1] > 0:
            for k in range(wheels):
                slip[i, k] = slip[i, k] * numbers[i, SLIP_KEEP] + numbers[i, SLIP_FRESH] * noise[i, at, k]
        driven[row] = drives[i]
        for k in range(wheels):
            on_floor[k] = asked[i, k] if drives[i] else 0.0
        limit_k(on_floor, numbers[i, MAX_SPEED])
        for k in range(wheels):
            on_floor[k] *= (1.0 + slip[i, k]) * (1.0 - lost[i])
        body_k(inverse[i], on_floor, v_body[row])


@kernel
def feel_k(
    count: int,
    dt: float,
    rows: IntArray,
    on: BoolArray,
    drives: BoolArray,
    numbers: FloatArray,
    matrix: FloatArray,
    slip: FloatArray,
    lost: FloatArray,
    wheel_noise: FloatArray,
    imu_noise: FloatArray,
    compass_noise: FloatArray,
    at: int,
    poses: FloatArray,
    twists: FloatArray,
    pushes: FloatArray,
    last_poses: FloatArray,
    last_twists: FloatArray,
    bias: FloatArray,
    speeds: FloatArray,
    travel: FloatArray,
    felt: FloatArray,
) -> None:
    """Let robots feel what their bodies did in a step: encoders, gyroscope, accelerometer, compass.

    Args:
        count: of the robots.
        dt: the step.
        rows: of the robots in `on`, `poses`, `twists` and `pushes`.
        on: those without power feel nothing.
        drives: which of them drive.
        numbers: of their bodies.
        matrix: their kinematics.
        slip: shares by which the wheels' way over the floor differs from their own.
        lost: the share of it that slips away besides.
        wheel_noise: by robot, step and wheel, after the numbers for the slip; of no steps for no noise.
        imu_noise: by robot and step, four numbers each.
        compass_noise: by robot and step.
        at: which step.
        poses: now.
        twists: now.
        pushes: of the drives, m/s².
        last_poses: before, moved on; NaN for a robot that was put somewhere else, whose wheels did not roll.
        last_twists: before, moved on.
        bias: of the gyroscopes, moved on.
        speeds: of the wheels, filled.
        travel: of the wheels, moved on.
        felt: what the inertial sensors feel, filled.
    """
    wheels = speeds.shape[1]
    noisy = wheel_noise.shape[1] > 0
    for i in range(count):
        row = rows[i]
        pose, twist, pose0, twist0 = poses[row], twists[row], last_poses[i], last_twists[i]
        if on[row]:
            if math.isfinite(pose0[0]):
                turn = wrap(pose[2] - pose0[2])
                half = 0.5 * turn
                # The way along the arc that leads from where the body was to where it is.
                stretch = half / math.sin(half) if abs(half) > 1e-6 else 1.0
                dx, dy = pose[0] - pose0[0], pose[1] - pose0[1]
                c, s = math.cos(pose0[2] + half), math.sin(pose0[2] + half)
                way_x, way_y = stretch * (c * dx + s * dy), stretch * (c * dy - s * dx)
            else:
                way_x, way_y, turn = twist[0] * dt, twist[1] * dt, twist[2] * dt
            for k in range(wheels):
                grip = (1.0 + slip[i, k]) * (1.0 - lost[i])
                rolled = (matrix[i, k, 0] * way_x + matrix[i, k, 1] * way_y + matrix[i, k, 2] * turn) / grip
                speeds[i, k] = (
                    matrix[i, k, 0] * twist[0] + matrix[i, k, 1] * twist[1] + matrix[i, k, 2] * twist[2]
                ) / grip
                if noisy and abs(rolled) > CREEP * dt:
                    rolled += numbers[i, MISCOUNT] * wheel_noise[i, at, wheels + k]
                travel[i, k] += rolled
            ax = (twist[0] - twist0[0]) / dt - twist[1] * twist[2]
            ay = (twist[1] - twist0[1]) / dt + twist[0] * twist[2]
            felt[i, FELT_GYRO], felt[i, FELT_X], felt[i, FELT_Y] = twist[2], ax, ay
            felt[i, FELT_EFFORT] = min(1.0, pushes[row] / numbers[i, AVAILABLE]) if drives[i] else 0.0
            felt[i, FELT_HEADING] = pose[2]
            if noisy:
                bias[i] += numbers[i, WALK] * imu_noise[i, at, 0]
                felt[i, FELT_GYRO] += bias[i] + numbers[i, GYRO] * imu_noise[i, at, 1]
                felt[i, FELT_X] += numbers[i, ACCEL] * imu_noise[i, at, 2]
                felt[i, FELT_Y] += numbers[i, ACCEL] * imu_noise[i, at, 3]
                felt[i, FELT_HEADING] = wrap(pose[2] + numbers[i, COMPASS] * compass_noise[i, at, 0])
        for k in range(3):
            last_poses[i, k], last_twists[i, k] = pose[k], twist[k]


class Bodies:
    """Wheels and inertial sensors of all robots that have devices."""

    def __init__(self, dt: float, wheels: int, *, noise: bool) -> None:
        """Start without any.

        Args:
            dt: the world's step.
            wheels: the most that a robot has.
            noise: whether wheels slip and sensors err.
        """
        self._dt = dt
        self._noisy = noise
        self._wheels = wheels
        steps = STEPS if noise else 0
        self.count = 0
        self.felt_now: list[list[float]] = []
        self._at = 0
        self._rngs: list[tuple[np.random.Generator, ...]] = []
        self.motors: list[Motors] = []
        self.rows = np.empty(0, dtype=np.int64)
        self.drives = np.empty(0, dtype=np.bool_)
        self.numbers = np.empty((0, BODY_NUMBERS))
        self.inverse = np.empty((0, 3, wheels))
        self.matrix = np.empty((0, wheels, 3))
        self.asked = np.empty((0, wheels))
        self.speeds = np.empty((0, wheels))
        self.travel = np.empty((0, wheels))
        self.slip = np.empty((0, wheels))
        self.lost = np.empty(0)
        self.bias = np.empty(0)
        self.felt = np.empty((0, FELT_NUMBERS))
        self.last_poses = np.empty((0, 3))
        self.last_twists = np.empty((0, 3))
        self._wheel_noise = np.empty((0, steps, 2 * wheels))
        self._imu_noise = np.empty((0, steps, 4))
        self._compass_noise = np.empty((0, steps, 1))

    def add(
        self, robot: Life, spec: RobotSpec, physics: Physics, rngs: tuple[np.random.Generator, ...]
    ) -> int:
        """Add a robot's, with the generators of its wheels, its imu and its compass; return its slot."""
        slot = self.count
        self.count += 1
        for name in (
            "rows", "drives", "numbers", "inverse", "matrix", "asked", "speeds", "travel", "slip", "lost",
            "bias", "felt", "last_poses", "last_twists", "_wheel_noise", "_imu_noise", "_compass_noise",
        ):  # fmt: skip
            setattr(self, name, roomy(getattr(self, name), slot))
        wheels, imu, compass = spec.drive.wheels, spec.imu, spec.compass
        kinematics = Kinematics.of(spec)
        keep = math.exp(-self._dt / wheels.slip_time) if wheels.slip_time > 0 else 0.0
        self.rows[slot] = robot.row
        self.drives[slot] = True
        self.matrix[slot, : kinematics.count] = kinematics.matrix
        self.inverse[slot, :, : kinematics.count] = kinematics.inverse
        numbers = self.numbers[slot]
        numbers[MAX_SPEED] = kinematics.max_speed
        numbers[SLIP_KEEP] = keep
        numbers[SLIP_FRESH] = wheels.slip_sigma * math.sqrt(1 - keep**2)
        numbers[MISCOUNT] = wheels.speed_sigma * self._dt
        numbers[GYRO] = imu.gyro_sigma if imu else 0.0
        numbers[WALK] = imu.gyro_bias_walk * math.sqrt(self._dt) if imu else 0.0
        numbers[ACCEL] = imu.accel_sigma if imu else 0.0
        numbers[COMPASS] = compass.sigma if compass else 0.0
        numbers[AVAILABLE] = spec.limits.acceleration_available
        self._rngs.append(rngs)
        if self._noisy:
            self.bias[slot] = (imu.gyro_bias_sigma if imu else 0.0) * rngs[1].standard_normal()
            self._draw(slot)
        self.last_poses[slot] = physics.poses[robot.row]
        self.last_twists[slot] = physics.twists[robot.row]
        self.felt[slot, FELT_HEADING] = physics.poses[robot.row, 2]
        self.felt_now = self.felt[: self.count].tolist()
        for motors in self.motors:
            motors.bind()
        return slot

    def _draw(self, slot: int) -> None:
        arrays = (self._wheel_noise, self._imu_noise, self._compass_noise)
        for rng, array in zip(self._rngs[slot], arrays, strict=True):
            rng.standard_normal(out=array[slot])

    def command(self, v_body: FloatArray, driven: BoolArray) -> None:
        """Write what the wheels make the bodies do."""
        if self._noisy and self._at == STEPS:
            self._at = 0
            for slot in range(self.count):
                self._draw(slot)
        command_k(
            self.count,
            self.rows,
            self.drives,
            self.numbers,
            self.inverse,
            self.asked,
            self.slip,
            self.lost,
            self._wheel_noise,
            self._at,
            v_body,
            driven,
        )

    def feel(self, physics: Physics, on: BoolArray) -> None:
        """Sense what the bodies did."""
        feel_k(
            self.count,
            self._dt,
            self.rows,
            on,
            self.drives,
            self.numbers,
            self.matrix,
            self.slip,
            self.lost,
            self._wheel_noise,
            self._imu_noise,
            self._compass_noise,
            self._at,
            physics.poses,
            physics.twists,
            physics.pushes,
            self.last_poses,
            self.last_twists,
            self.bias,
            self.speeds,
            self.travel,
            self.felt,
        )
        self.felt_now = self.felt[: self.count].tolist()
        self._at += 1

    def forget(self, slot: int) -> None:
        """Take notice of a robot that was put somewhere else: its sensors do not notice the way."""
        self.last_poses[slot] = math.nan
        self.last_twists[slot] = 0.0


class Motors:
    """The wheels of one robot: a `Motors` part."""

    __slots__ = ("_asked", "_bodies", "_count", "_enabled", "_robot", "_slot", "_speeds", "_travel", "_world")

    def __init__(self, world: Clock, robot: Life, bodies: Bodies, slot: int, count: int) -> None:
        """Take a slot of `bodies`, with so many wheels."""
        self._world = world
        self._robot = robot
        self._bodies = bodies
        self._slot = slot
        self._count = count
        self._enabled = True
        self.bind()
        bodies.motors.append(self)

    def bind(self) -> None:
        """Find the arrays again, which have moved."""
        slot, count, bodies = self._slot, self._count, self._bodies
        self._asked = bodies.asked[slot, :count]
        self._speeds = bodies.speeds[slot, :count]
        self._travel = bodies.travel[slot, :count]

    def enable(self, on: bool) -> None:
        """Switch the drives on, or let the wheels stand."""
        self._enabled = on
        self.update()

    def update(self) -> None:
        """Take notice of power and life."""
        self._bodies.drives[self._slot] = self._enabled and self._robot.on

    def drive(self, speeds: FloatArray) -> None:
        """Ask for wheel speeds in m/s."""
        self._asked[:] = speeds

    def read(self) -> MotorReading:
        """Return what the encoders counted."""
        robot = self._robot
        stamp = self._world.time if robot.on else robot.off_since
        effort = self._bodies.felt_now[self._slot][FELT_EFFORT]
        return MotorReading(stamp, self._travel.copy(), self._speeds.copy(), effort)


class Imu:
    """Gyroscope with a bias that wanders, accelerometer with noise: an `ImuPart`."""

    __slots__ = ("_bodies", "_robot", "_slot", "_world")

    def __init__(self, world: Clock, robot: Life, bodies: Bodies, slot: int) -> None:
        """Take a slot of `bodies`."""
        self._world = world
        self._robot = robot
        self._bodies = bodies
        self._slot = slot

    def read(self) -> ImuReading:
        """Return rates of turn and specific force now."""
        felt = self._bodies.felt_now[self._slot]
        stamp = self._world.time if self._robot.on else self._robot.off_since
        return ImuReading(stamp, (0.0, 0.0, felt[FELT_GYRO]), (felt[FELT_X], felt[FELT_Y], GRAVITY))


class Compass:
    """The sense of heading: a `CompassPart`."""

    __slots__ = ("_beat", "_bodies", "_robot", "_seen", "_slot")

    def __init__(self, robot: Life, bodies: Bodies, slot: int, beat: Beat) -> None:
        """Take a slot of `bodies`."""
        self._robot = robot
        self._bodies = bodies
        self._slot = slot
        self._beat = beat
        self._seen = beat.count

    def read(self) -> CompassReading | None:
        """Return a reading that was not handed out yet."""
        beat = self._beat
        fresh = self._seen != beat.count and self._robot.on
        self._seen = beat.count
        if not fresh:
            return None
        return CompassReading(beat.stamp, self._bodies.felt_now[self._slot][FELT_HEADING])


class ZoneSense:
    """The zone sense, from the truth: a `ZonePart`."""

    __slots__ = ("_physics", "_robot", "_zones")

    def __init__(self, robot: Life, physics: Physics, zones: Zones | None) -> None:
        """Look at the bodies of `physics`."""
        self._robot = robot
        self._physics = physics
        self._zones = zones

    def read(self) -> Zone:
        """Return the zone the robot is in; one without power is in neither."""
        if self._zones is None or not self._robot.on:
            return Zone.NEITHER
        return zone_of(self._physics.poses[self._robot.row], self._zones)


@kernel
def discs_k(
    height: float,
    poses: FloatArray,
    sizes: FloatArray,
    carrier_poses: FloatArray,
    carrier_lifts: FloatArray,
    carriers: FloatArray,
    pillars: FloatArray,
    discs: FloatArray,
) -> int:
    """Write what is round at a height: robots, carriers' legs, pillars; return how many.

    The robots keep their rows: those that are lower, or not round, get radius 0 and are nowhere.
    """
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
    poses: FloatArray,
    sizes: FloatArray,
    carrier_poses: FloatArray,
    carrier_lifts: FloatArray,
    carriers: FloatArray,
    segments: FloatArray,
    own: IntArray,
) -> FloatArray:
    """Return the segments that stand fast and the sides of what is rectangular at a height: robots, trays.

    `own` is filled with the first row of each robot's sides, -1 if it has none there.
    """
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
    """Return how far along a ray a disc is, inf if it is not within the limit; 0 inside."""
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
    """Return how far along a ray a wall is, inf if it is not within the limit."""
    turn = dx * wall_y - dy * wall_x
    distance = (to_x * wall_y - to_y * wall_x) / turn
    if 0.0 <= distance <= limit:
        place = (to_x * dy - to_y * dx) / turn
        # A ray through the joint of two walls must not slip between them.
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
    """Write what the sensors of a ring would measure without errors, bit by bit as core's `cast_ring_k` does.

    It is faster where there are many things, for it looks at each with only those sensors that can see it:
    from the robot's centre all points of a sensor's rays are within half its field of view of its axis.

    Args:
        pose: of the robot.
        own: the row of its disc.
        own_sides: the first row of its own four sides among the segments, -1 if there are none.
        angles: of the sensors.
        mount_radius: of their faces.
        field_of_view: of each.
        rays: of each.
        range_max: of each.
        segments: of walls, boxes and what else has sides.
        discs: that stand around.
        disc_count: how many of them.
        axes: room for the direction and the place of each sensor.
        beams: room for the direction of each ray of each sensor.
        out: one distance for each sensor, filled.
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
        # Some slack, so that rounding never takes away what a ray would meet.
        wide = reach * (1.0 + 1e-6) + 1e-9
        square = to_x * to_x + to_y * to_y
        if not square <= (farthest + wide) ** 2:
            continue
        # Whether an axis is near enough to the direction of the thing is told by the cosine of the sum of
        # the angle that the thing fills and the slack.
        least = -math.inf
        if square > wide * wide:
            least = math.sqrt(square - wide * wide) * cos_slack - wide * sin_slack
        for i in range(sensors):
            ax, ay = axes[i, 0], axes[i, 1]
            if out[i] == 0.0 or ax * to_x + ay * to_y < least:
                continue
            # A robot that leans into a wall has its face behind it, where its rays would see past the wall.
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
    numbers: FloatArray,
    dead: BoolArray,
    gaussians: FloatArray,
    uniforms: FloatArray,
    at: int,
    poses: FloatArray,
    sizes: FloatArray,
    carrier_poses: FloatArray,
    carrier_lifts: FloatArray,
    carriers: FloatArray,
    segments: FloatArray,
    pillars: FloatArray,
    out: FloatArray,
) -> None:
    """Let all rings of a kind sweep.

    Args:
        count: of the rings.
        rows: of the robots that carry them.
        on: which robots have power.
        geometry: height and radius at which the sensors sit, field of view, rays, range.
        angles: of the sensors.
        numbers: of their errors, from `range_numbers`.
        dead: which sensors of which ring are.
        gaussians: by ring, sweep and sensor; of no sweeps for no noise.
        uniforms: likewise.
        at: which sweep.
        poses: of all robots.
        sizes: their radius, height, length and width.
        carrier_poses: of the carriers.
        carrier_lifts: of their feet.
        carriers: their numbers.
        segments: of walls and boxes.
        pillars: that stand fast.
        out: by ring and sensor, filled; NaN where nothing came back.
    """
    sensors, rays = angles.shape[0], int(geometry[3])
    discs = np.empty((poses.shape[0] + 4 * carrier_poses.shape[0] + pillars.shape[0], 3))
    axes, beams = np.empty((sensors, 4)), np.empty((sensors, rays, 2))
    disc_count = discs_k(geometry[0], poses, sizes, carrier_poses, carrier_lifts, carriers, pillars, discs)
    own_sides = np.empty(poses.shape[0], np.int64)
    sides = sides_k(geometry[0], poses, sizes, carrier_poses, carrier_lifts, carriers, segments, own_sides)
    noisy = gaussians.shape[1] > 0
    for i in range(count):
        row = rows[i]
        if not on[row]:
            for k in range(sensors):
                out[i, k] = math.nan
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
        for k in range(sensors):
            if dead[i, k] or not out[i, k] < math.inf:
                out[i, k] = math.nan
            elif noisy:
                out[i, k] = measure_one_k(out[i, k], gaussians[i, at, k], uniforms[i, at, k], numbers)


class Rings:
    """All rings of one kind of distance sensors, on all robots that have devices."""

    def __init__(self, ring: RangeRing, *, noise: bool) -> None:
        """Start without any."""
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
        sweeps = SWEEPS if noise else 0
        self._rows = np.empty(0, dtype=np.int64)
        self._gaussians = np.empty((0, sweeps, ring.count))
        self._uniforms = np.empty((0, sweeps, ring.count))
        self._rngs: list[np.random.Generator] = []
        self._at = 0

    def add(self, robot: Life, rng: np.random.Generator) -> Ranges:
        """Add a robot's ring."""
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
        return Ranges(robot, self, k)

    def _draw(self, k: int) -> None:
        self._rngs[k].standard_normal(out=self._gaussians[k])
        self._rngs[k].random(out=self._uniforms[k])

    def sweep(self, physics: Physics, furniture: Furniture) -> None:
        """Measure."""
        if self._noisy and self._at == SWEEPS:
            self._at = 0
            for k in range(self._count):
                self._draw(k)
        # The readings are handed out: a new array each time.
        self.distances = np.empty((self._count, len(self._angles)))
        sweep_k(
            self._count,
            self._rows,
            furniture.on,
            self._geometry,
            self._angles,
            self._numbers,
            self.dead,
            self._gaussians,
            self._uniforms,
            self._at,
            physics.poses,
            furniture.sizes,
            physics.carrier_poses,
            physics.carrier_lifts,
            furniture.carriers,
            physics.segments,
            physics.pillars,
            self.distances,
        )
        self._at += 1


class Ranges:
    """One ring of distance sensors of one robot: a `RangesPart`."""

    __slots__ = ("_k", "_rings", "_robot", "_seen")

    def __init__(self, robot: Life, rings: Rings, k: int) -> None:
        """Take the k-th of `rings`."""
        self._robot = robot
        self._rings = rings
        self._k = k
        self._seen = rings.beat.count

    def read(self) -> RangeReading | None:
        """Return a sweep that was not handed out yet."""
        rings = self._rings
        beat = rings.beat
        fresh = self._seen != beat.count and self._robot.on
        self._seen = beat.count
        if not fresh:
            return None
        return RangeReading(beat.stamp, rings.distances[self._k])

    def kill(self, sensor: int) -> None:
        """Let a sensor return nothing from now on."""
        self._rings.dead[self._k, sensor] = True


class Lifter:
    """The lifting platform of one robot: a `LifterPart`.

    Attributes:
        moving: whether the set-point is on its way, so that `step` has something to do.
        model: the set-point that the physics makes the platform follow.
    """

    __slots__ = ("_asked", "_physics", "_robot", "_world", "model", "moving")

    def __init__(self, world: Clock, robot: Life, physics: Physics, model: LifterModel) -> None:
        """Move by `model`."""
        self.model = model
        self.moving = False
        self._asked = model.lifter.lowered
        self._world = world
        self._robot = robot
        self._physics = physics

    def move(self, height: float) -> None:
        """Ask for a height in metres above the floor."""
        if height == self._asked or not self._robot.alive:
            return
        if not self.moving:
            # The time in which it stood is not time in which it may move.
            self.model.step(self._world.time, powered=False)
        self.model.move(height)
        if math.isfinite(height):
            self._asked = height
            self.moving = True

    def step(self, now: float, load: float) -> float:
        """Move for the time that passed, with a load in kg; return the set-point."""
        robot, lifter = self._robot, self.model.lifter
        self.model.step(now, load, powered=robot.on)
        height = self.model.read().height
        self.moving = height != min(max(self._asked, lifter.lowered), lifter.raised)
        return height

    def read(self) -> LifterReading:
        """Return where the platform is."""
        robot = self._robot
        stamp = self._world.time if robot.on else robot.off_since
        return LifterReading(stamp, self._physics.heights.item(robot.row))


class Power:
    """The battery and the switch of one robot: a `PowerPart`."""

    __slots__ = ("_on", "_robot", "_switch", "_world", "battery")

    def __init__(
        self, world: Clock, robot: Life, battery: BatteryModel, switch: Callable[[Life], None]
    ) -> None:
        """Draw from `battery`; `switch` is told when a robot's supplies come or go."""
        self.battery = battery
        self._world = world
        self._robot = robot
        self._switch = switch
        self._on = True

    def enable(self, on: bool) -> None:
        """Switch the supplies; without them nothing is drawn."""
        self._on = on
        self.update()

    def update(self) -> None:
        """Take notice of the switch and the battery's protection."""
        supplied = self._on and self.battery.powered
        if supplied != self._robot.supplied:
            self._robot.supplied = supplied
            self._switch(self._robot)

    def draw(self, watts: float, seconds: float) -> float:
        """Supply power for a time; return the Wh that were drawn."""
        if not self._robot.on:
            return 0.0
        supplied = self.battery.discharge(watts, seconds)
        self.update()
        return watts * supplied / 3600.0

    def read(self) -> PowerReading:
        """Return what the battery monitor measures."""
        robot = self._robot
        return self.battery.reading(self._world.time if robot.alive else robot.off_since)


@kernel
def watts_k(
    models: FloatArray,
    twists: FloatArray,
    pushes: FloatArray,
    on: BoolArray,
    driven: BoolArray,
    out: FloatArray,
) -> None:
    """Write what robots draw; rows of `models` are their `power_numbers`."""
    for i in range(models.shape[0]):
        out[i] = 0.0
        if on[i]:
            speed = math.hypot(twists[i, 0], twists[i, 1])
            effort = min(1.0, pushes[i] / models[i, 3]) if driven[i] else 0.0
            motors = models[i, 1] * speed + models[i, 2] * effort * effort
            out[i] = models[i, 0] + min(motors, models[i, 2])


def power_numbers(spec: RobotSpec) -> tuple[float, float, float, float]:
    """Return what is always on, watts a m/s, watts at full torque and its m/s² of a kind of robot."""
    model = PowerModel(spec)
    always = model.watts(cameras=1.0 if spec.cameras else 0.0)
    return always, model.travel_watts, model.torque_watts, spec.limits.acceleration_available


class Radio:
    """One robot's radio on the shared medium: a `RadioPart`."""

    __slots__ = ("_air", "_index", "_robot", "_world")

    def __init__(self, world: Clock, robot: Life, air: Air, index: int) -> None:
        """Take the place `index` on the air."""
        self._world = world
        self._robot = robot
        self._air = air
        self._index = index

    def send(self, payload: bytes) -> bool:
        """Broadcast bytes to whoever hears; return whether they will be sent."""
        if not self._robot.on:
            return False
        self._air.loaded = True
        return self._air.model.send(self._index, payload, self._world.time)

    def read(self) -> Sequence[RadioPacket]:
        """Return what was heard and not handed out yet, oldest first."""
        return self._air.model.read(self._index) if self._robot.on else ()


class Air:
    """The medium of one kind of radio, with the robots that have devices on it.

    Attributes:
        model: who hears what.
        loaded: whether somebody has given it something to send.
    """

    __slots__ = ("_beat", "_on", "_rows", "loaded", "model")

    def __init__(
        self,
        radio: RadioSpec,
        rng: np.random.Generator,
        names: Sequence[str],
        rows: Sequence[int],
        loss: float | None,
    ) -> None:
        """Share a medium among the robots of these names and rows."""
        self.model = RadioModel(radio, rng, names, loss=loss)
        self.loaded = False
        self._rows = np.array(rows, dtype=np.int64)
        self._on = np.full((len(rows), 1), math.nan)
        # The model's own pace is the same; this one spares it the calls in between.
        self._beat = Beat(radio.rate) if radio.kind in BEACONS else None

    def add(self, world: Clock, robot: Life) -> Radio:
        """Put a robot on the air."""
        index = self._rows.tolist().index(robot.row)
        self._on[index] = 0.0
        return Radio(world, robot, self, index)

    def switch(self, row: int, *, on: bool) -> None:
        """Put a robot on the air again, or take it off; then it forgets what it has not read."""
        for index in np.flatnonzero(self._rows == row).tolist():
            self._on[index] = 0.0 if on else math.nan
            self.model.read(index)

    def step(self, now: float, physics: Physics) -> None:
        """Deliver what is on the air."""
        if self._beat is None:
            if not self.loaded:
                return
            self.loaded = False
        elif not self._beat.due(now):
            return
        self.model.step(now, physics.poses[self._rows] + self._on)


class Leds:
    """Lights that remember what they show: a `LedsPart`."""

    __slots__ = ("_robot", "bar")

    def __init__(self, robot: Life, leds: LedsSpec) -> None:
        """Make dark lights."""
        self.bar = LedBar(leds)
        self._robot = robot

    def show(self, colours: Sequence[int]) -> None:
        """Show one packed colour a light."""
        if self._robot.on:
            self.bar.show(colours)
