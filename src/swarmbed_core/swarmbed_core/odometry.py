"""Dead reckoning: the robot's pose in `odom` from wheels and gyro, at 100 Hz.

DOTS paper, section III-A5: odometry combines the IMU and the positions of the wheels. In each cycle the
inverted wheel kinematics (III-A7) turn the wheels' travel into an increment of the body's pose. The turn
comes from the gyro, less the bias measured while the wheels stood still; without a gyro it comes from the
wheels. The increment is integrated exactly on SE(2): along the arc, not along a chord.

A gyro measures the rate at one moment, the wheels measure the travel since the last cycle. So the turn of
a cycle uses the mean of the rates at its two ends. The rate at its end alone would be wrong by 5 ms worth
of turning whenever the robot starts or stops turning.

The twist comes straight from the increments and has no lag; the filter's twist is less noisy. Only where
one encoder tick is a large part of full speed, a low-pass smooths over the ticks.

`odometry_step` is a kernel on arrays, for use inside other kernels; `Odometry` wraps it for one robot.
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

# Indices into the state array of one robot's odometry.
STAMP = 0  # of the newest cycle
POSE = 1  # x, y, yaw in odom
TWIST = 4  # vx, vy, omega of the body
BIAS = 7  # of the gyro, from standing still
BIAS_WEIGHT = 8  # still windows that it is the mean of
TRAVEL_STAMP = 9  # of the travel from which the next increment is counted
LAST_GYRO = 10  # NaN where there was none
STILL_STAMP = 11  # start of the current still window
STILL_SUM = 12  # of the gyro's readings in it
STILL_COUNT = 13
DT = 14  # of the newest cycle; 0 for the first
SPAN = 15  # time that STEP covers: DT, or more after cycles without travel
STEP = 16  # dx, dy, dyaw of the body by the wheels alone
ROLLED = 19  # 1 if STEP is good
RATE = 20  # mean rate of turn by the gyro, bias included; NaN if unknown
STARTED = 21
ROLLED_STAMP = 22  # of the newest cycle in which the wheels' travel was good
STATE_SIZE = 23

# Rows of the wheel array: travel at the latest good cycle, travel at the start of the still window, and
# speeds, smoothed like the twist.
TRAVEL, STILL_TRAVEL, SPEEDS, WHEEL_ROWS = 0, 1, 2, 3

# Indices of OdometryParams in the array for the kernels.
P_DT_MIN, P_GAP, P_SPEED_MAX, P_TICK, P_GYRO_MAX, P_GYRO, P_STILL, P_BIAS_MAX, P_SMOOTH = range(9)
ODOMETRY_PARAMS = 9

# Flags that `odometry_step` returns, summed.
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
    CLOCK_STILL: ("odometry.clock_still", "stamp not after the last one; the next cycle makes up for it"),
    CLOCK_BACK: ("odometry.clock_back", "the clock stepped backwards; odometry continues from the new time"),
    CLOCK_GAP: ("odometry.clock_gap", "a gap between cycles; the gyro was not used across it"),
    TRAVEL_BAD: ("odometry.travel_not_finite", "wheel travel is not finite; expected metres"),
    TRAVEL_JUMP: (
        "odometry.travel_jump",
        "wheel travel beyond 3 times full speed; later travel counts from it",
    ),
    GYRO_LOST: ("odometry.gyro", "rate of turn not finite, or beyond 3 times the robot's limit"),
}

STILL_WINDOW = 1.0  # s that the wheels must stand still for one sample of the bias
BIAS_MEMORY = 30.0  # windows: a longer mean would lag the bias's walk, a shorter one show the wheels' noise
STAMP_MAX = 1e11  # s: beyond it, a float cannot tell one cycle from the next
HOLD_TIME = 0.2  # s for which the last twist is reported when the wheels give no reading


@kernel
def arc(vx: float, vy: float, omega: float, yaw: float, dt: float) -> tuple[float, float, float, float]:
    """Return the displacement of a body that keeps its twist for `dt`, and the scaled heading of its chord.

    The chord of an arc of angle a = omega dt lies at yaw + a/2 and is sin(a/2)/(a/2) of the arc's length.

    Returns:
        (dx, dy, gc, gs): the displacement in the frame of `yaw`, and d(dx)/d(vx), d(dy)/d(vx).
    """
    half = 0.5 * omega * dt
    share = 1.0 - half * half / 6.0 if abs(half) < 1e-4 else math.sin(half) / half
    gc = dt * share * math.cos(yaw + half)
    gs = dt * share * math.sin(yaw + half)
    return gc * vx - gs * vy, gs * vx + gc * vy, gc, gs


@kernel
def _restart_still(state: FloatArray, wheels: FloatArray, stamp: float) -> None:
    """Start a new still window."""
    state[STILL_STAMP] = stamp
    state[STILL_SUM] = 0.0
    state[STILL_COUNT] = 0.0
    for i in range(wheels.shape[1]):
        wheels[STILL_TRAVEL, i] = wheels[TRAVEL, i]


@kernel
def _learn_bias(
    state: FloatArray, wheels: FloatArray, params: FloatArray, inverse: FloatArray, stamp: float, gyro: float
) -> None:
    """Estimate the gyro's bias from its readings while the wheels stand still."""
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
    # The turn of a robot that creeps within the tolerance is not bias.
    sample = state[STILL_SUM] / state[STILL_COUNT] - turned / elapsed
    if abs(sample) <= params[P_BIAS_MAX]:
        state[BIAS_WEIGHT] = min(state[BIAS_WEIGHT] + 1.0, BIAS_MEMORY)
        state[BIAS] += (sample - state[BIAS]) / state[BIAS_WEIGHT]
    _restart_still(state, wheels, stamp)


@kernel
def _rolled(
    state: FloatArray, wheels: FloatArray, params: FloatArray, inverse: FloatArray, travel: FloatArray
) -> bool:
    """Convert the wheels' travel to an increment of the body; return False if a wheel rolled too far."""
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
        params: from `OdometryParams.array`; later entries are ignored.
        inverse: 3 x n, from wheel speeds to the body's twist.
        stamp: of the readings, in seconds.
        travel: n numbers, metres rolled since power-up.
        gyro: rate of turn in rad/s, or NaN.

    Returns:
        0, or the sum of this module's flags for the inputs that were refused.
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
        # The travel is kept for the next cycle; its duration is unknown.
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
    # Without a gyro the turn covers the wheels' whole span.
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
    """Parameters of a robot's odometry.

    Attributes:
        cycle: s, time from one call to the next.
        gap: s, time without a call beyond which it counts as a gap.
        speed_max: m/s, top speed of a wheel.
        tick: m, travel of a wheel per encoder tick.
        gyro_max: rad/s, fastest rate of turn that is accepted.
        gyro: whether there is a gyro.
        still_travel: m, apparent travel of a standing wheel that is accepted in `STILL_WINDOW`.
        bias_max: rad/s, largest bias that is accepted.
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
        # One tick in one cycle must show as at most a fifth of full speed.
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
        """Return the parameters as the array that the kernels take."""
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
            params: parameters of the kind of robot.
            wheel_inverse: 3 x n, from wheel speeds to the body's twist.
            health: counters of refused inputs; a new one if None.

        Raises:
            ValueError: `wheel_inverse` is not 3 x n, or not finite.
        """
        self._inverse = checked_inverse(wheel_inverse)
        self._params = params.array()
        self._state = np.zeros(STATE_SIZE)
        self._wheels = np.zeros((WHEEL_ROWS, self._inverse.shape[1]))
        self._health = Health() if health is None else health

    def step(self, stamp: float, travel: FloatArray, gyro_z: float | None) -> bool:
        """Advance by one cycle's readings.

        Args:
            stamp: of the readings, in seconds.
            travel: metres that each wheel rolled since power-up.
            gyro_z: rate of turn in rad/s, or None if there is no new one.

        Returns:
            Whether all inputs were used; those that were refused are counted in `health`.
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
        """Return `pose` and `twist_body` as one list: faster than both properties."""
        numbers: list[float] = self._state[POSE : TWIST + 3].tolist()
        return numbers

    @property
    def gyro_bias(self) -> float:
        """Return the gyro's bias, in rad/s; 0 until the robot has stood still for a second."""
        return float(self._state[BIAS])

    @property
    def health(self) -> Health:
        """Return the counters of refused inputs."""
        return self._health

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return state, wheel array and inverse kinematics (the arrays themselves), for other kernels."""
        return self._state, self._wheels, self._inverse


def checked_inverse(wheel_inverse: ArrayLike) -> FloatArray:
    """Return the matrix from wheel speeds to body twist as a contiguous array for the kernels.

    Raises:
        ValueError: it is not a finite 3 x n matrix.
    """
    inverse = np.ascontiguousarray(wheel_inverse, dtype=np.float64)
    if inverse.ndim != 2 or inverse.shape[0] != 3 or inverse.shape[1] < 1 or not np.isfinite(inverse).all():
        message = (
            f"wheel_inverse of shape {inverse.shape}: expected a finite 3 x n matrix, one column per wheel"
        )
        raise ValueError(message)
    return inverse


def refuse_shape(health: Health, travel: FloatArray, wheels: int) -> None:
    """Count travel that does not have one number for each wheel."""
    health.refuse("odometry.travel_shape", f"travel of shape {travel.shape}: expected {wheels} numbers")


def count_flags(health: Health, flags: int, stamp: float, travel: FloatArray, gyro_z: float | None) -> bool:
    """Count what `odometry_step` refused; return whether nothing was."""
    used = True
    for flag, (reason, explanation) in REASONS.items():
        if flags & flag and not (flag == GYRO_LOST and gyro_z is None):
            health.refuse(reason, f"stamp {stamp}, travel {travel}, gyro {gyro_z}: {explanation}")
            used = False
    return used
