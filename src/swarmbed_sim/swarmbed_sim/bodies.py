"""Wheels and inertial sensors of simulated robots.

The models are those of `swarmbed_core.memory`, adapted to bodies in contact: encoders and inertial sensors
measure the actual motion of the body, not the commanded one. A wheel that pushes against a wall therefore
stalls instead of spinning, and the motor effort follows from the force that the drives apply.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.device import HOLD, CompassReading, ImuReading, MotorReading
from swarmbed_core.geometry import GRAVITY, wrap
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics, body_k, limit_k

from swarmbed_sim.parts import Beat, roomy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from swarmbed_core.device import Clock
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

    from swarmbed_sim.parts import Inventory, Life
    from swarmbed_sim.physics import Physics

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

STEPS = 256
"""Noise of wheels and inertial sensors is drawn in batches of this many steps."""
CREEP = 1e-4
"""Wheel speed in m/s up to which the encoder has no noise: a standing wheel does not count."""
ROUNDING = 1e-9
"""Seconds that a wheel speed holds longer than asked, so that a hold of whole steps lasts so many steps."""

# Columns of `Bodies.numbers`.
MAX_SPEED, SLIP_KEEP, SLIP_FRESH, MISCOUNT, GYRO, WALK, ACCEL, COMPASS, AVAILABLE = range(9)
BODY_NUMBERS = 9
# Columns of `Bodies.felt`.
FELT_GYRO, FELT_X, FELT_Y, FELT_EFFORT, FELT_HEADING = range(5)
FELT_NUMBERS = 5
# Arrays of `Bodies` with one row per robot.
_ROWS = (
    "rows", "drives", "numbers", "inverse", "matrix", "asked", "until", "speeds", "travel", "slip", "lost",
    "drift", "bias", "felt", "last_poses", "last_twists", "_wheel_noise", "_imu_noise", "_compass_noise",
)  # fmt: skip


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
    drift: FloatArray,
    until: FloatArray,
    now: float,
    noise: FloatArray,
    at: int,
    v_body: FloatArray,
    driven: BoolArray,
) -> None:
    """Compute the body velocities from the commanded wheel speeds, after limits and slip.

    Args:
        count: number of robots.
        rows: each robot's row in `v_body` and `driven`.
        drives: which robots have their drives on; the others stand.
        numbers: body parameters, a row per robot.
        inverse: matrices from wheel speeds to body velocity.
        asked: commanded wheel speeds in m/s.
        slip: relative slip of each wheel (a first-order random process); updated.
        lost: additional share of the motion lost to slip, per robot.
        drift: additional factor on the motion of each wheel.
        until: times until which the commanded speeds hold; later, the wheels stand.
        now: the time at the end of the step.
        noise: standard normal numbers by robot, step and wheel; zero steps switch noise off.
        at: the step's index in `noise`.
        v_body: output, the rows of these robots.
        driven: output, the rows of these robots: whether the drives are on.
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
            on_floor[k] = asked[i, k] if drives[i] and now <= until[i] else 0.0
        limit_k(on_floor, numbers[i, MAX_SPEED])
        for k in range(wheels):
            on_floor[k] *= (1.0 + slip[i, k]) * (1.0 - lost[i]) * drift[i, k]
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
    drift: FloatArray,
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
    """Compute the readings of encoders, gyroscope, accelerometer and compass from the motion of one step.

    Args:
        count: number of robots.
        dt: duration of the step in seconds.
        rows: each robot's row in `on`, `poses`, `twists` and `pushes`.
        on: which robots have power; the readings of the others do not change.
        drives: which robots have their drives on.
        numbers: body parameters, a row per robot.
        matrix: matrices from body velocity to wheel speeds.
        slip: relative slip of each wheel.
        lost: additional share of the motion lost to slip, per robot.
        drift: additional factor on the motion of each wheel.
        wheel_noise: by robot, step and wheel; the second half of the columns. Zero steps switch noise off.
        imu_noise: by robot and step, four numbers each.
        compass_noise: by robot and step.
        at: the step's index in the noise arrays.
        poses: at the end of the step.
        twists: at the end of the step, in the body's frame.
        pushes: accelerations that the drives apply, m/s².
        last_poses: at the start of the step; updated. NaN after a teleport, during which wheels do not roll.
        last_twists: at the start of the step; updated.
        bias: of the gyroscopes; updated.
        speeds: output, wheel speeds in m/s.
        travel: distance that each wheel has rolled, in metres; updated.
        felt: output, the inertial sensors' readings.
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
                # Displacement along the arc from the last pose to this one.
                stretch = half / math.sin(half) if abs(half) > 1e-6 else 1.0
                dx, dy = pose[0] - pose0[0], pose[1] - pose0[1]
                c, s = math.cos(pose0[2] + half), math.sin(pose0[2] + half)
                way_x, way_y = stretch * (c * dx + s * dy), stretch * (c * dy - s * dx)
            else:
                way_x, way_y, turn = twist[0] * dt, twist[1] * dt, twist[2] * dt
            for k in range(wheels):
                grip = (1.0 + slip[i, k]) * (1.0 - lost[i]) * drift[i, k]
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
    """Wheels and inertial sensors of robots that have devices."""

    def __init__(self, dt: float, wheels: int, *, noise: bool) -> None:
        """Start without robots.

        Args:
            dt: the world's time step in seconds.
            wheels: the largest number of wheels of any robot.
            noise: whether wheels slip and sensors have errors.
        """
        self._dt = dt
        self._noisy = noise
        self.wheels = wheels
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
        self.until = np.empty(0)
        self.speeds = np.empty((0, wheels))
        self.travel = np.empty((0, wheels))
        self.slip = np.empty((0, wheels))
        self.lost = np.empty(0)
        self.drift = np.empty((0, wheels))
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
        """Add a robot and return its slot; `rngs` are the generators of its wheels, IMU and compass."""
        slot = self.count
        self.count += 1
        for name in _ROWS:
            setattr(self, name, roomy(getattr(self, name), slot))
        wheels, imu, compass = spec.drive.wheels, spec.imu, spec.compass
        kinematics = Kinematics.of(spec)
        keep = math.exp(-self._dt / wheels.slip_time) if wheels.slip_time > 0 else 0.0
        self.rows[slot] = robot.row
        self.drives[slot] = True
        self.matrix[slot, : kinematics.count] = kinematics.matrix
        self.inverse[slot, :, : kinematics.count] = kinematics.inverse
        self.drift[slot] = 1.0
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

    def remove(self, row: int) -> None:
        """Remove the robot of a row, if it is here, and decrement the rows after it.

        Its `Motors` move to a `Bodies` of their own, so that parts that are still referenced stay valid.
        """
        for slot in np.flatnonzero(self.rows[: self.count] == row).tolist():
            alone = Bodies(self._dt, self.wheels, noise=self._noisy)
            for name in _ROWS:
                setattr(alone, name, getattr(self, name)[[slot]])
                setattr(self, name, np.delete(getattr(self, name), slot, axis=0))
            alone.felt_now = [self.felt_now.pop(slot)]
            del self._rngs[slot]
            self.count -= 1
            self.motors.pop(slot).move(alone, 0)
            for k, motors in enumerate(self.motors):
                motors.move(self, k)
        self.rows[self.rows > row] -= 1

    def _draw(self, slot: int) -> None:
        arrays = (self._wheel_noise, self._imu_noise, self._compass_noise)
        for rng, array in zip(self._rngs[slot], arrays, strict=True):
            rng.standard_normal(out=array[slot])

    def command(self, now: float, v_body: FloatArray, driven: BoolArray) -> None:
        """Write the body velocities that the wheels command until `now`, and which robots drive."""
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
            self.drift,
            self.until,
            now,
            self._wheel_noise,
            self._at,
            v_body,
            driven,
        )

    def feel(self, physics: Physics, on: BoolArray) -> None:
        """Update the encoders and inertial sensors from the last step's motion."""
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
            self.drift,
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

    def forget(self, slot: int, v_body: Sequence[float] | FloatArray = (0.0, 0.0, 0.0)) -> None:
        """Discard the last pose after a teleport, so that no sensor measures the jump.

        `v_body` is the velocity after it, which no sensor measures as an acceleration.
        """
        self.last_poses[slot] = math.nan
        self.last_twists[slot] = v_body


class Motors:
    """The wheels of one robot: a `Motors` part.

    Attributes:
        bodies: the arrays that hold its wheels and inertial sensors.
        slot: its row in them.
    """

    __slots__ = ("_asked", "_count", "_enabled", "_robot", "_speeds", "_travel", "_world", "bodies", "slot")

    def __init__(self, world: Clock, robot: Life, bodies: Bodies, slot: int, count: int) -> None:
        """Bind to a slot of `bodies`; `count` is the robot's number of wheels."""
        self._world = world
        self._robot = robot
        self._count = count
        self._enabled = True
        self.move(bodies, slot)
        bodies.motors.append(self)

    def move(self, bodies: Bodies, slot: int) -> None:
        """Bind to another slot."""
        self.bodies = bodies
        self.slot = slot
        self.bind()

    def bind(self) -> None:
        """Refresh the views after the arrays were reallocated."""
        slot, count, bodies = self.slot, self._count, self.bodies
        self._asked = bodies.asked[slot, :count]
        self._speeds = bodies.speeds[slot, :count]
        self._travel = bodies.travel[slot, :count]

    @property
    def count(self) -> int:
        """Return the number of wheels."""
        return self._count

    @property
    def speed(self) -> float:
        """Return the mean of the wheels' absolute speeds, in m/s."""
        return float(np.abs(self._speeds).mean())

    def enable(self, on: bool) -> None:
        """Switch the drives on or off; off, the wheels stand."""
        self._enabled = on
        self.update()

    def update(self) -> None:
        """Apply the robot's power state to the drives."""
        self.bodies.drives[self.slot] = self._enabled and self._robot.on

    def drive(self, speeds: FloatArray, hold: float = HOLD) -> None:
        """Command wheel speeds in m/s, for `hold` seconds."""
        self._asked[:] = speeds
        self.bodies.until[self.slot] = self._world.time + hold + ROUNDING

    def read(self) -> MotorReading:
        """Return the encoders' counts, the wheel speeds and the motor effort."""
        robot = self._robot
        stamp = self._world.time if robot.on else robot.off_since
        effort = self.bodies.felt_now[self.slot][FELT_EFFORT]
        return MotorReading(stamp, self._travel.copy(), self._speeds.copy(), effort)


class Imu:
    """Gyroscope with a random-walk bias, accelerometer with white noise: an `ImuPart`."""

    __slots__ = ("_motors", "_robot", "_world")

    def __init__(self, world: Clock, robot: Life, motors: Motors) -> None:
        """Share the slot of the robot's `motors`."""
        self._world = world
        self._robot = robot
        self._motors = motors

    def read(self) -> ImuReading:
        """Return the current angular velocity and specific force."""
        motors = self._motors
        felt = motors.bodies.felt_now[motors.slot]
        stamp = self._world.time if self._robot.on else self._robot.off_since
        return ImuReading(stamp, (0.0, 0.0, felt[FELT_GYRO]), (felt[FELT_X], felt[FELT_Y], GRAVITY))


class Compasses:
    """The compasses of one rate, which share the slots of the robots' motors; a `PartGroup`.

    Attributes:
        beat: their clock.
    """

    def __init__(self, rate: float) -> None:
        """Start without robots."""
        self.beat = Beat(rate)

    def add(self, robot: Life, motors: Motors) -> Compass:
        """Return a robot's part."""
        return Compass(robot, motors, self.beat)

    def measure(self, now: float, physics: Physics, inventory: Inventory) -> None:
        """Do nothing: `feel_k` computes the headings."""

    def remove(self, row: int) -> None:
        """Do nothing: the slots are those of `Bodies`."""


class Compass:
    """Absolute heading at the rate of a beat: a `CompassPart`."""

    __slots__ = ("_beat", "_motors", "_robot", "_seen")

    def __init__(self, robot: Life, motors: Motors, beat: Beat) -> None:
        """Share the slot of the robot's `motors`."""
        self._robot = robot
        self._motors = motors
        self._beat = beat
        self._seen = beat.count

    def read(self) -> CompassReading | None:
        """Return the latest reading, or None if it was already returned."""
        beat = self._beat
        fresh = self._seen != beat.count and self._robot.on
        self._seen = beat.count
        if not fresh:
            return None
        motors = self._motors
        return CompassReading(beat.stamp, motors.bodies.felt_now[motors.slot][FELT_HEADING])
