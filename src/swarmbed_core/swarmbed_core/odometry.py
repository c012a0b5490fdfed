"""Dead reckoning: where the wheels and the gyro say the robot is, in `odom`, at 100 Hz.

DOTS paper, section III-A5: odometry is made of the IMU and the positions of the wheels. Each cycle, the
travel of the wheels becomes an increment of the body's pose through the inverse kinematics (III-A7, turned
round); the turn is the gyro's, less the bias that it showed while the wheels stood still, or the wheels'
where there is no gyro. The increment is put on the pose exactly (SE(2)): along the arc, not along a chord.

A gyro says how fast the body turns at one moment, the wheels how far they rolled since the last one. So
the turn of a cycle is the mean of the rates at its two ends: the rate at its end alone would be wrong by
5 ms worth of turning whenever the robot begins or stops to turn.

The twist comes straight from the increments: it has no lag, and who wants less noise takes the filter's.
Only where one tick of the encoder is a large part of full speed, a low-pass bridges the ticks.

`odometry_step` is a kernel on arrays, for use inside other kernels; `Odometry` is one robot's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.geometry import wrap
from swarmbed_core.health import Health
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

# The state of one robot's odometry is one array, these are the places in it.
STAMP = 0  # of the newest cycle
POSE = 1  # x, y, yaw in odom
TWIST = 4  # vx, vy, omega of the body
BIAS = 7  # of the gyro, from standing still
BIAS_WEIGHT = 8  # still windows that it is the mean of
TRAVEL_STAMP = 9  # of the travel that the next increment counts from
LAST_GYRO = 10  # NaN where there was none
STILL_STAMP = 11  # start of the present still window
STILL_SUM = 12  # of the gyro's readings in it
STILL_COUNT = 13
DT = 14  # of the newest cycle; 0 for the first
SPAN = 15  # time that STEP is over: DT, or more after cycles without travel
STEP = 16  # dx, dy, dyaw of the body by the wheels alone
ROLLED = 19  # 1 if STEP is good
RATE = 20  # mean rate of turn by the gyro, bias and all; NaN where it is not known
STARTED = 21
ROLLED_STAMP = 22  # of the newest cycle in which the wheels' travel was good
STATE_SIZE = 23

# Rows of the array on wheels: travel at the latest good cycle, at the start of the still window, and
# speeds, smoothed as the twist is.
TRAVEL, STILL_TRAVEL, SPEEDS, WHEEL_ROWS = 0, 1, 2, 3

# Places of OdometryParams in the array for the kernels.
P_DT_MIN, P_GAP, P_SPEED_MAX, P_TICK, P_GYRO_MAX, P_GYRO, P_STILL, P_BIAS_MAX, P_SMOOTH = range(9)
ODOMETRY_PARAMS = 9

# What `odometry_step` returns is the sum of these.
FIRST = 1
BAD_STAMP = 2
CLOCK_STILL = 4
CLOCK_BACK = 8
CLOCK_GAP = 16
TRAVEL_BAD = 32
TRAVEL_JUMP = 64
GYRO_LOST = 128

REASONS = {
    BAD_STAMP: ("odometry.stamp", "not a time in seconds"),
    CLOCK_STILL: ("odometry.clock_still", "a stamp not after the last one; the next cycle makes up for it"),
    CLOCK_BACK: ("odometry.clock_back", "the clock stepped backwards; time goes on from there"),
    CLOCK_GAP: ("odometry.clock_gap", "no cycle for long; the gyro's share of the gap was not used"),
    TRAVEL_BAD: ("odometry.travel_not_finite", "wheel travel that is not finite; metres were expected"),
    TRAVEL_JUMP: (
        "odometry.travel_jump",
        "wheel travel beyond 3 times full speed; later travel counts from it",
    ),
    GYRO_LOST: ("odometry.gyro", "a rate of turn that is not finite or beyond 3 times the robot's fastest"),
}

STILL_WINDOW = 1.0  # s that the wheels must stand for one sample of the bias
BIAS_MEMORY = 30.0  # windows: longer means would miss the bias's walk, shorter ones the wheels' noise
STAMP_MAX = 1e11  # s: beyond it, a float no longer tells one cycle from the next
HOLD_TIME = 0.2  # s that the last twist is reported for when the wheels say nothing


@kernel
def arc(vx: float, vy: float, omega: float, yaw: float, dt: float) -> tuple[float, float, float, float]:
    """Return how far a body goes that keeps its twist for `dt`, and the scaled heading of its chord.

    The chord of an arc of angle a = omega dt lies at yaw + a/2 and is sin(a/2)/(a/2) of the arc's length.

    Returns:
        (dx, dy, gc, gs): the move in the frame that `yaw` is in, and d(dx)/d(vx), d(dy)/d(vx).
    """
    half = 0.5 * omega * dt
    share = 1.0 - half * half / 6.0 if abs(half) < 1e-4 else math.sin(half) / half
    gc = dt * share * math.cos(yaw + half)
    gs = dt * share * math.sin(yaw + half)
    return gc * vx - gs * vy, gs * vx + gc * vy, gc, gs


@kernel
def _restart_still(state: FloatArray, wheels: FloatArray, stamp: float) -> None:
    """Begin a new window of standing still."""
    state[STILL_STAMP] = stamp
    state[STILL_SUM] = 0.0
    state[STILL_COUNT] = 0.0
    for i in range(wheels.shape[1]):
        wheels[STILL_TRAVEL, i] = wheels[TRAVEL, i]


@kernel
def _learn_bias(
    state: FloatArray, wheels: FloatArray, params: FloatArray, inverse: FloatArray, stamp: float, gyro: float
) -> None:
    """Take what the gyro reads while the wheels stand as its bias."""
    turned = 0.0
    for i in range(wheels.shape[1]):
        moved = wheels[TRAVEL, i] - wheels[STILL_TRAVEL, i]
        if abs(moved) > params[P_STILL]:
            _restart_still(state, wheels, stamp)
            return
        turned += inverse[2, i] * moved
    state[STILL_SUM] += gyro
    state[STILL_COUNT] += 1.0
    elapsed = stamp - state[STILL_STAMP]
    if elapsed < STILL_WINDOW:
        return
    # A robot that creeps within the tolerance turns: that turn is not bias.
    sample = state[STILL_SUM] / state[STILL_COUNT] - turned / elapsed
    if abs(sample) <= params[P_BIAS_MAX]:
        state[BIAS_WEIGHT] = min(state[BIAS_WEIGHT] + 1.0, BIAS_MEMORY)
        state[BIAS] += (sample - state[BIAS]) / state[BIAS_WEIGHT]
    _restart_still(state, wheels, stamp)


@kernel
def _rolled(
    state: FloatArray, wheels: FloatArray, params: FloatArray, inverse: FloatArray, travel: FloatArray
) -> bool:
    """Turn the wheels' travel into an increment of the body; False if a wheel rolled impossibly far."""
    span = state[SPAN]
    blend = span / (span + params[P_SMOOTH])
    limit = 3.0 * params[P_SPEED_MAX] * span + 2.0 * params[P_TICK]
    good = True
    dx = 0.0
    dy = 0.0
    dyaw = 0.0
    for i in range(travel.shape[0]):
        moved = travel[i] - wheels[TRAVEL, i]
        good = good and abs(moved) <= limit
        wheels[TRAVEL, i] = travel[i]
        if good:
            wheels[SPEEDS, i] += blend * (moved / span - wheels[SPEEDS, i])
            dx += inverse[0, i] * moved
            dy += inverse[1, i] * moved
            dyaw += inverse[2, i] * moved
    if good:
        state[STEP], state[STEP + 1], state[STEP + 2] = dx, dy, dyaw
    return good


@kernel
def odometry_step(
    state: FloatArray,
    wheels: FloatArray,
    params: FloatArray,
    inverse: FloatArray,
    stamp: float,
    travel: FloatArray,
    gyro: float,
) -> int:
    """Advance one robot's odometry by one cycle.

    Args:
        state: STATE_SIZE numbers, changed in place.
        wheels: (WHEEL_ROWS, n), changed in place.
        params: of `OdometryParams.array`; what follows them is ignored.
        inverse: 3 x n, from wheel speeds to the body's twist.
        stamp: of the readings, in seconds.
        travel: n numbers, metres rolled since power-up.
        gyro: rate of turn in rad/s, or NaN.

    Returns:
        0, or the sum of the flags of this module that say what was refused.
    """
    if not abs(stamp) <= STAMP_MAX:
        return BAD_STAMP
    n = travel.shape[0]
    finite = True
    for i in range(n):
        finite = finite and math.isfinite(travel[i])
    has_gyro = params[P_GYRO] > 0.0
    good_gyro = has_gyro and abs(gyro) <= params[P_GYRO_MAX]
    flags = GYRO_LOST if has_gyro and not good_gyro else 0
    if state[STARTED] == 0.0:
        if not finite:
            return TRAVEL_BAD
        state[STARTED] = 1.0
        state[STAMP] = stamp
        state[TRAVEL_STAMP] = state[ROLLED_STAMP] = stamp
        state[LAST_GYRO] = gyro if good_gyro else math.nan
        state[RATE] = math.nan
        for i in range(n):
            wheels[TRAVEL, i] = travel[i]
        _restart_still(state, wheels, stamp)
        return FIRST | flags

    dt = stamp - state[STAMP]
    if dt < 0.0:
        # The travel is kept for the next cycle; the time that it took cannot be known.
        state[TRAVEL_STAMP] += dt
        state[ROLLED_STAMP] += dt
        state[STAMP] = stamp
        state[LAST_GYRO] = math.nan
        _restart_still(state, wheels, stamp)
        return CLOCK_BACK
    if dt < params[P_DT_MIN]:
        return CLOCK_STILL
    gap = dt > params[P_GAP]
    if gap:
        flags |= CLOCK_GAP
        state[LAST_GYRO] = math.nan
    rate = math.nan
    if good_gyro and not gap:
        rate = gyro if math.isnan(state[LAST_GYRO]) else 0.5 * (gyro + state[LAST_GYRO])
    state[LAST_GYRO] = gyro if good_gyro else math.nan
    state[RATE] = rate
    state[STAMP] = stamp
    state[DT] = dt
    state[SPAN] = stamp - state[TRAVEL_STAMP]

    rolled = finite and _rolled(state, wheels, params, inverse, travel)
    if finite:
        state[TRAVEL_STAMP] = stamp
    if rolled:
        state[ROLLED_STAMP] = stamp
    else:
        flags |= TRAVEL_JUMP if finite else TRAVEL_BAD
    state[ROLLED] = 1.0 if rolled else 0.0

    span = state[SPAN]
    dx = state[STEP] if rolled else 0.0
    dy = state[STEP + 1] if rolled else 0.0
    omega = 0.0
    if not math.isnan(rate):
        omega = rate - state[BIAS]
    elif rolled:
        omega = state[STEP + 2] / span
    # Without a gyro the wheels' turn is over their whole span.
    turn_time = span if math.isnan(rate) else dt
    moved_x, moved_y, _, _ = arc(dx / span, dy / span, omega * turn_time / span, state[POSE + 2], span)
    state[POSE] += moved_x
    state[POSE + 1] += moved_y
    state[POSE + 2] = wrap(state[POSE + 2] + omega * turn_time)

    lost = stamp - state[ROLLED_STAMP] > HOLD_TIME
    blend = dt / (dt + params[P_SMOOTH])
    if rolled:
        state[TWIST] += blend * (dx / span - state[TWIST])
        state[TWIST + 1] += blend * (dy / span - state[TWIST + 1])
    elif lost:
        state[TWIST] = state[TWIST + 1] = 0.0
    if not math.isnan(rate):
        state[TWIST + 2] = omega
    elif rolled:
        state[TWIST + 2] += blend * (omega - state[TWIST + 2])
    elif lost:
        state[TWIST + 2] = 0.0

    if good_gyro and rolled and not gap:
        _learn_bias(state, wheels, params, inverse, stamp, gyro)
    else:
        _restart_still(state, wheels, stamp)
    return flags


@dataclass(frozen=True, slots=True)
class OdometryParams:
    """What odometry has to know of a robot.

    Attributes:
        cycle: s, the time from one call to the next.
        gap: s, a longer time without a call is a gap.
        speed_max: m/s, the fastest that a wheel can roll.
        tick: m, what a wheel rolls in one tick of its encoder.
        gyro_max: rad/s, the fastest turn that is believed.
        gyro: whether there is a gyro.
        still_travel: m, what a standing wheel may seem to roll in `STILL_WINDOW`.
        bias_max: rad/s, the largest bias that is believed.
        smoothing: s, time constant of the twist's low-pass.
    """

    cycle: float
    gap: float
    speed_max: float
    tick: float
    gyro_max: float
    gyro: bool
    still_travel: float
    bias_max: float
    smoothing: float

    @classmethod
    def from_spec(cls, spec: RobotSpec) -> OdometryParams:
        """Return the parameters of this kind of robot."""
        wheels, imu = spec.drive.wheels, spec.imu
        cycle = 1.0 / spec.control.rate
        tick = math.tau * wheels.radius / (wheels.encoder_ticks * wheels.gear_ratio)
        # A tick in one cycle shall show as at most a fifth of full speed.
        smoothing = max(0.0, 5.0 * tick / wheels.max_speed - cycle)
        return cls(
            cycle=cycle,
            gap=0.5,
            speed_max=wheels.max_speed,
            tick=tick,
            gyro_max=3.0 * spec.limits.yaw_rate,
            gyro=imu is not None,
            still_travel=5.0 * wheels.speed_sigma * math.sqrt(cycle * STILL_WINDOW) + 0.5 * tick,
            bias_max=0.0 if imu is None else 5.0 * (imu.gyro_bias_sigma + imu.gyro_sigma),
            smoothing=smoothing,
        )

    def array(self) -> FloatArray:
        """Return the parameters in the order in which the kernels take them."""
        numbers = np.empty(ODOMETRY_PARAMS)
        numbers[P_DT_MIN] = 0.05 * self.cycle
        numbers[P_GAP] = self.gap
        numbers[P_SPEED_MAX] = self.speed_max
        numbers[P_TICK] = self.tick
        numbers[P_GYRO_MAX] = self.gyro_max
        numbers[P_GYRO] = self.gyro
        numbers[P_STILL] = self.still_travel
        numbers[P_BIAS_MAX] = self.bias_max
        numbers[P_SMOOTH] = self.smoothing
        return numbers


class Odometry:
    """One robot's dead reckoning."""

    __slots__ = ("_health", "_inverse", "_params", "_state", "_wheels")

    def __init__(
        self, params: OdometryParams, wheel_inverse: ArrayLike, health: Health | None = None
    ) -> None:
        """Start at the origin of `odom`.

        Args:
            params: of the kind of robot.
            wheel_inverse: 3 x n, from wheel speeds to the body's twist.
            health: where refused inputs are counted; by default its own.

        Raises:
            ValueError: `wheel_inverse` is not 3 x n, or not finite.
        """
        self._inverse = checked_inverse(wheel_inverse)
        self._params = params.array()
        self._state = np.zeros(STATE_SIZE)
        self._wheels = np.zeros((WHEEL_ROWS, self._inverse.shape[1]))
        self._health = Health() if health is None else health

    def step(self, stamp: float, travel: FloatArray, gyro_z: float | None) -> bool:
        """Take one cycle's readings.

        Args:
            stamp: of the readings, in seconds.
            travel: metres that each wheel rolled since power-up.
            gyro_z: rate of turn in rad/s, or None if there is no new one.

        Returns:
            Whether everything was used; what was not is counted in `health`.
        """
        travel = np.ascontiguousarray(travel, dtype=np.float64)
        if travel.shape != (self._wheels.shape[1],):
            refuse_shape(self._health, travel, self._wheels.shape[1])
            return False
        gyro = math.nan if gyro_z is None else float(gyro_z)
        flags = odometry_step(
            self._state, self._wheels, self._params, self._inverse, float(stamp), travel, gyro
        )
        return flags == 0 or count_flags(self._health, flags, stamp, travel, gyro_z)

    @property
    def pose(self) -> FloatArray:
        """Return (x, y, yaw) in `odom`, in metres and radians."""
        return self._state[POSE : POSE + 3].copy()

    @property
    def twist_body(self) -> FloatArray:
        """Return (vx, vy, omega) in the body's frame, in m/s and rad/s: the mean over the newest cycle."""
        return self._state[TWIST : TWIST + 3].copy()

    def numbers(self) -> list[float]:
        """Return x, y, yaw in `odom` and vx, vy, omega of the body: both of the above, faster to get."""
        numbers: list[float] = self._state[POSE : TWIST + 3].tolist()
        return numbers

    @property
    def gyro_bias(self) -> float:
        """Return what the gyro reads while the robot stands, in rad/s; 0 until it stood for a second."""
        return float(self._state[BIAS])

    @property
    def health(self) -> Health:
        """Return the counters of refused inputs."""
        return self._health

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the state, the wheels' rows and the inverse kinematics themselves, for other kernels."""
        return self._state, self._wheels, self._inverse


def checked_inverse(wheel_inverse: ArrayLike) -> FloatArray:
    """Return the matrix from wheel speeds to body twist as the kernels want it.

    Raises:
        ValueError: it is not a finite 3 x n matrix.
    """
    inverse = np.ascontiguousarray(wheel_inverse, dtype=np.float64)
    if inverse.ndim != 2 or inverse.shape[0] != 3 or inverse.shape[1] < 1 or not np.isfinite(inverse).all():
        message = (
            f"wheel_inverse of shape {inverse.shape}: a finite matrix, 3 x one column a wheel, was expected"
        )
        raise ValueError(message)
    return inverse


def refuse_shape(health: Health, travel: FloatArray, wheels: int) -> None:
    """Count travel that does not have one number for each wheel."""
    health.refuse("odometry.travel_shape", f"travel of shape {travel.shape}: {wheels} numbers were expected")


def count_flags(health: Health, flags: int, stamp: float, travel: FloatArray, gyro_z: float | None) -> bool:
    """Count what `odometry_step` refused; return whether that was nothing."""
    used = True
    for flag, (reason, explanation) in REASONS.items():
        if flags & flag and not (flag == GYRO_LOST and gyro_z is None):
            health.refuse(reason, f"stamp {stamp}, travel {travel}, gyro {gyro_z}: {explanation}")
            used = False
    return used
