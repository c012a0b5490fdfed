"""Where the robot is in `map`: an extended Kalman filter over pose, twist and the gyro's bias.

DOTS paper, section III-A4c and Figure 5: poses from markers, the IMU and the wheels go into one EKF, whose
output is the robot's pose at the 100 Hz of motion control (III-A5). Table II says how late the cameras are:
50 to 80 ms.

The state is (x, y, yaw) in `map`, (vx, vy, omega) of the body, and the gyro's bias. The twist is the mean
over the newest cycle: the wheels measure exactly that, and the pose moves along exactly that arc, so that
acceleration makes no lag. From cycle to cycle, white-noise acceleration changes it. Each cycle:

1. the twist and the bias get their process noise;
2. the wheels' twist and the gyro's rate correct the state;
3. the pose moves along the arc of the corrected twist.

Measurements of the pose (markers) and of the yaw (compass) come late and in any order. They are put in at
their own time: the filter keeps half a second of cycles, each with its inputs and the state before any
such measurement. One with stamp t goes to the cycle that holds t, where it is compared with the pose moved
back along the arc to t; the cycles since then are run again, with every other measurement in the order of the
stamps. So the estimate does not depend on when or in which order they came.

A pose that the estimate calls too unlikely is gated. If the gated ones agree with each other, as seen
through odometry, for long enough, they are right and the estimate is wrong: the robot was carried away, and
the filter starts anew from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from swarmbed_core import odometry as od
from swarmbed_core.geometry import between, compose, wrap
from swarmbed_core.health import Health
from swarmbed_core.kernel import kernel
from swarmbed_core.odometry import Odometry, OdometryParams, arc, odometry_step

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

# The filter's state without its covariance is one array, these are the places in it.
STATE = 0  # x, y, yaw, vx, vy, omega, bias
NEWEST, OLDEST = 7, 8  # serial numbers of the cycles that are kept
KEPT = 9  # late measurements that are kept
LOCALISED = 10
DISTANCE2 = 11  # squared Mahalanobis distance of the newest late measurement
ODOM = 12  # x, y, yaw in odom at that measurement's stamp
MARKED = 15  # stamp of the newest cycle that a marker pose corrected
CORE_SIZE = 16

# The covariance's array has room for the cross-covariance with a measurement below it.
CROSS = 7

# One cycle in the history: its serial number is its place, modulo the length.
R_STAMP, R_DT, R_ROLLED, R_TURNED, R_COAST, R_RATE = range(6)
R_TWIST = 6  # by the wheels
R_NOISE = 9  # covariance of it: xx, xy, yy, xw, yw, ww
R_SLIP = 15  # covariance of the move of this cycle by slip that is not white: as above
R_ODOM = 21  # pose in odom
R_PRIOR = 24  # state before late measurements
R_PRIOR_COV = 31
ROW_SIZE = 80

# One late measurement.
M_SERIAL, M_STAMP, M_KIND, M_VALUE, M_COV, M_DISTANCE2, M_USED = 0, 1, 2, 3, 6, 12, 13
MEASURE_SIZE = 14
MEASURES = 256
KIND_POSE, KIND_HEADING = 0.0, 1.0

# Places of EkfParams in the array for the kernels, behind odometry's.
(
    P_CYCLE,
    P_ACCEL,
    P_YAW_ACCEL,
    P_WHEEL_VAR,
    P_SLIP2,
    P_SLIP_EXCESS,
    P_LATERAL,
    P_GYRO_VAR,
    P_WALK2,
    P_GATE1,
    P_GATE3,
    P_HISTORY,
    P_YAW_RATE_MAX,
    P_SPEED2,
) = range(od.ODOMETRY_PARAMS, od.ODOMETRY_PARAMS + 14)
PARAMS_SIZE = od.ODOMETRY_PARAMS + 14

# Beyond these a pose is not known at all; bounds keep the numbers well conditioned.
POSITION_VAR_MAX = 1e4  # m2
YAW_VAR_MAX = math.pi**2 / 3.0  # rad2: of a direction that may be any
POSE_MAX = 1e6  # m or rad: beyond it a pose is a mistake
ANGLE_MAX = 1e3  # rad
VARIANCE_MAX = 1e6  # m2, m rad or rad2
ODDNESS = 1e-6  # share of the largest number by which a covariance may be lopsided
HEADING_FLOOR = 1e-3  # rad, the least sigma of a heading
DRIFT = 0.02  # m and rad, what odometry may drift between two gated measurements
FLOOR = 1e-4  # of every sigma, in its unit: nothing is measured without error


class Outcome(IntEnum):
    """What became of a late measurement."""

    ACCEPTED = 0
    GATED = 1
    TOO_OLD = 2
    FUTURE = 3
    INVALID = 4
    INITIALISED = 5


# The kernels' own: enums in them would be slow.
_ACCEPTED, _GATED, _TOO_OLD, _FUTURE = 0, 1, 2, 3


@kernel
def _correct3(
    core: FloatArray,
    cov: FloatArray,
    s00: float,
    s10: float,
    s11: float,
    s20: float,
    s21: float,
    s22: float,
    n0: float,
    n1: float,
    n2: float,
    gate: float,
) -> float:
    """Correct the state by three numbers at once, unless they are too unlikely.

    Args:
        core: the state.
        cov: its covariance, and below it that of the state with the measurement: 7 x 3.
        s00: covariance of the innovation, with s10 to s22.
        s10: see s00.
        s11: see s00.
        s20: see s00.
        s21: see s00.
        s22: see s00.
        n0: innovation, with n1 and n2.
        n1: see n0.
        n2: see n0.
        gate: largest squared Mahalanobis distance.

    Returns:
        The squared Mahalanobis distance of the innovation.
    """
    l00 = math.sqrt(s00)
    l10 = s10 / l00
    l20 = s20 / l00
    l11 = math.sqrt(s11 - l10 * l10)
    l21 = (s21 - l20 * l10) / l11
    l22 = math.sqrt(s22 - l20 * l20 - l21 * l21)
    e0 = n0 / l00
    e1 = (n1 - l10 * e0) / l11
    e2 = (n2 - l20 * e0 - l21 * e1) / l22
    distance2 = e0 * e0 + e1 * e1 + e2 * e2
    if not distance2 <= gate:
        return distance2
    # With W = cross L^-T, the gain's part of the covariance is W W^T: symmetric as it is computed.
    for i in range(7):
        w0 = cov[CROSS + i, 0] / l00
        w1 = (cov[CROSS + i, 1] - l10 * w0) / l11
        w2 = (cov[CROSS + i, 2] - l20 * w0 - l21 * w1) / l22
        cov[CROSS + i, 0], cov[CROSS + i, 1], cov[CROSS + i, 2] = w0, w1, w2
        core[STATE + i] += w0 * e0 + w1 * e1 + w2 * e2
        for j in range(i + 1):
            value = cov[i, j] - w0 * cov[CROSS + j, 0] - w1 * cov[CROSS + j, 1] - w2 * cov[CROSS + j, 2]
            cov[i, j] = value
            cov[j, i] = value
    core[STATE + 2] = wrap(core[STATE + 2])
    return distance2


@kernel
def _correct1(
    core: FloatArray,
    cov: FloatArray,
    a: int,
    b: int,
    weight: float,
    variance: float,
    innovation: float,
    gate: float,
) -> float:
    """Correct by one number, a measurement of state[a] + weight state[b]; return its squared distance."""
    for i in range(7):
        cov[CROSS + i, 0] = cov[i, a] + weight * cov[i, b]
    s = cov[CROSS + a, 0] + weight * cov[CROSS + b, 0] + variance
    distance2 = float(innovation * innovation / s)
    if not distance2 <= gate:
        return distance2
    for i in range(7):
        core[STATE + i] += cov[CROSS + i, 0] * innovation / s
        for j in range(i + 1):
            value = cov[i, j] - cov[CROSS + i, 0] * cov[CROSS + j, 0] / s
            cov[i, j] = value
            cov[j, i] = value
    core[STATE + 2] = wrap(core[STATE + 2])
    return distance2


@kernel
def _turning(vx: float, vy: float, omega: float, yaw: float, dt: float) -> tuple[float, float]:
    """Return how the move along an arc changes with its rate of turn: d(dx)/d(omega), d(dy)/d(omega)."""
    half = 0.5 * omega * dt
    small = abs(half) < 1e-3
    share = 1.0 - half * half / 6.0 if small else math.sin(half) / half
    slope = -half / 3.0 if small else (math.cos(half) - share) / half
    c = math.cos(yaw + half)
    s = math.sin(yaw + half)
    ahead = c * vx - s * vy
    left = s * vx + c * vy
    scale = 0.5 * dt * dt
    return scale * (slope * ahead - share * left), scale * (slope * left + share * ahead)


@kernel
def _move(core: FloatArray, cov: FloatArray, dt: float) -> None:
    """Move the pose along the arc of the twist, and its covariance with it."""
    yaw, vx, vy, omega = core[2], core[3], core[4], core[5]
    dx, dy, gc, gs = arc(vx, vy, omega, yaw, dt)
    dx_dw, dy_dw = _turning(vx, vy, omega, yaw, dt)
    core[0] += dx
    core[1] += dy
    core[2] = wrap(yaw + omega * dt)
    for j in range(7):
        cov[0, j] += -dy * cov[2, j] + gc * cov[3, j] - gs * cov[4, j] + dx_dw * cov[5, j]
        cov[1, j] += dx * cov[2, j] + gs * cov[3, j] + gc * cov[4, j] + dy_dw * cov[5, j]
        cov[2, j] += dt * cov[5, j]
    for i in range(7):
        cov[i, 0] += -dy * cov[i, 2] + gc * cov[i, 3] - gs * cov[i, 4] + dx_dw * cov[i, 5]
        cov[i, 1] += dx * cov[i, 2] + gs * cov[i, 3] + gc * cov[i, 4] + dy_dw * cov[i, 5]
        cov[i, 2] += dt * cov[i, 5]
    for i in range(7):
        for j in range(i):
            cov[j, i] = cov[i, j]


@kernel
def _bound(cov: FloatArray, i: int, variance: float) -> None:
    """Shrink the covariance of state i to a variance, if it is above, keeping its correlations."""
    if cov[i, i] > variance:
        scale = math.sqrt(variance / cov[i, i])
        for j in range(7):
            cov[i, j] *= scale
            cov[j, i] *= scale


@kernel
def _advance(core: FloatArray, cov: FloatArray, row: FloatArray, params: FloatArray) -> None:
    """Take the state over one cycle with the inputs of its row."""
    dt = row[R_DT]
    if dt == 0.0:
        return
    # White from cycle to cycle; a longer time may hold full acceleration from its start to its end.
    time2 = dt * max(dt, params[P_CYCLE])
    change = min(params[P_ACCEL] ** 2 * time2, params[P_SPEED2])
    cov[3, 3] += change
    cov[4, 4] += change
    cov[5, 5] += min(params[P_YAW_ACCEL] ** 2 * time2, params[P_YAW_RATE_MAX] ** 2)
    cov[6, 6] += params[P_WALK2] * dt
    if row[R_ROLLED] > 0.0:
        for i in range(7):
            for j in range(3):
                cov[CROSS + i, j] = cov[i, 3 + j]
        _correct3(
            core,
            cov,
            cov[3, 3] + row[R_NOISE],
            cov[4, 3] + row[R_NOISE + 1],
            cov[4, 4] + row[R_NOISE + 2],
            cov[5, 3] + row[R_NOISE + 3],
            cov[5, 4] + row[R_NOISE + 4],
            cov[5, 5] + row[R_NOISE + 5],
            row[R_TWIST] - core[3],
            row[R_TWIST + 1] - core[4],
            row[R_TWIST + 2] - core[5],
            math.inf,
        )
    if row[R_TURNED] > 0.0:
        _correct1(core, cov, 5, 6, 1.0, params[P_GYRO_VAR], row[R_RATE] - core[5] - core[6], math.inf)
    c = math.cos(core[2] + 0.5 * core[5] * dt)
    s = math.sin(core[2] + 0.5 * core[5] * dt)
    _move(core, cov, row[R_COAST] * dt)
    xx, xy, yy = row[R_SLIP], row[R_SLIP + 1], row[R_SLIP + 2]
    xw, yw = row[R_SLIP + 3], row[R_SLIP + 4]
    cov[0, 0] += c * c * xx - 2.0 * c * s * xy + s * s * yy
    cov[1, 1] += s * s * xx + 2.0 * c * s * xy + c * c * yy
    cov[0, 1] += c * s * (xx - yy) + (c * c - s * s) * xy
    cov[0, 2] += c * xw - s * yw
    cov[1, 2] += s * xw + c * yw
    cov[2, 2] += row[R_SLIP + 5]
    cov[1, 0], cov[2, 0], cov[2, 1] = cov[0, 1], cov[0, 2], cov[1, 2]
    _bound(cov, 0, POSITION_VAR_MAX)
    _bound(cov, 1, POSITION_VAR_MAX)
    _bound(cov, 2, YAW_VAR_MAX)


@kernel
def _seen(
    cov: FloatArray,
    m: int,
    dx: float,
    dy: float,
    gc: float,
    gs: float,
    dx_dw: float,
    dy_dw: float,
    dt: float,
) -> tuple[float, float, float]:
    """Return column m of the covariance of a pose on the arc, from the cross-covariance with its part m."""
    p = cov[CROSS:, m]
    return (
        p[0] - dy * p[2] + gc * p[3] - gs * p[4] + dx_dw * p[5],
        p[1] + dx * p[2] + gs * p[3] + gc * p[4] + dy_dw * p[5],
        p[2] + dt * p[5],
    )


@kernel
def _apply(
    core: FloatArray, cov: FloatArray, row: FloatArray, params: FloatArray, measure: FloatArray
) -> None:
    """Correct the state at the end of a cycle by a measurement from within it, or gate it."""
    dt = measure[M_STAMP] - row[R_STAMP]
    if measure[M_KIND] == KIND_HEADING:
        ahead = wrap(measure[M_VALUE + 2] - core[2] - dt * core[5])
        distance2 = _correct1(core, cov, 2, 5, dt, measure[M_COV + 5], ahead, params[P_GATE1])
        measure[M_USED] = 1.0 if distance2 <= params[P_GATE1] else 0.0
        measure[M_DISTANCE2] = distance2
        return
    yaw, vx, vy, omega = core[2], core[3], core[4], core[5]
    dx, dy, gc, gs = arc(vx, vy, omega, yaw, dt)
    dx_dw, dy_dw = _turning(vx, vy, omega, yaw, dt)
    for i in range(7):
        cov[CROSS + i, 0] = cov[i, 0] - dy * cov[i, 2] + gc * cov[i, 3] - gs * cov[i, 4] + dx_dw * cov[i, 5]
        cov[CROSS + i, 1] = cov[i, 1] + dx * cov[i, 2] + gs * cov[i, 3] + gc * cov[i, 4] + dy_dw * cov[i, 5]
        cov[CROSS + i, 2] = cov[i, 2] + dt * cov[i, 5]
    s00, s10, s20 = _seen(cov, 0, dx, dy, gc, gs, dx_dw, dy_dw, dt)
    _, s11, s21 = _seen(cov, 1, dx, dy, gc, gs, dx_dw, dy_dw, dt)
    _, _, s22 = _seen(cov, 2, dx, dy, gc, gs, dx_dw, dy_dw, dt)
    distance2 = _correct3(
        core,
        cov,
        s00 + measure[M_COV],
        s10 + measure[M_COV + 1],
        s11 + measure[M_COV + 2],
        s20 + measure[M_COV + 3],
        s21 + measure[M_COV + 4],
        s22 + measure[M_COV + 5],
        measure[M_VALUE] - core[0] - dx,
        measure[M_VALUE + 1] - core[1] - dy,
        wrap(measure[M_VALUE + 2] - yaw - dt * omega),
        params[P_GATE3],
    )
    used = distance2 <= params[P_GATE3]
    measure[M_USED] = 1.0 if used else 0.0
    measure[M_DISTANCE2] = distance2
    if used:
        core[MARKED] = row[R_STAMP]


@kernel
def _keep(core: FloatArray, cov: FloatArray, row: FloatArray) -> None:
    """Keep the state in a cycle's row."""
    for i in range(7):
        row[R_PRIOR + i] = core[STATE + i]
        for j in range(7):
            row[R_PRIOR_COV + 7 * i + j] = cov[i, j]


@kernel
def _replay(
    core: FloatArray,
    cov: FloatArray,
    history: FloatArray,
    measures: FloatArray,
    params: FloatArray,
    serial: int,
) -> None:
    """Run the cycles from one on again, with every late measurement at its place."""
    length = history.shape[0]
    row = history[serial % length]
    for i in range(7):
        core[STATE + i] = row[R_PRIOR + i]
        for j in range(7):
            cov[i, j] = row[R_PRIOR_COV + 7 * i + j]
    kept = int(core[KEPT])
    m = kept
    while m > 0 and measures[m - 1, M_SERIAL] >= serial:
        m -= 1
    for now in range(serial, int(core[NEWEST]) + 1):
        row = history[now % length]
        if now > serial:
            _advance(core, cov, row, params)
            _keep(core, cov, row)
        while m < kept and measures[m, M_SERIAL] == now:
            _apply(core, cov, row, params, measures[m])
            m += 1


@kernel
def _forget(core: FloatArray, measures: FloatArray, serial: int) -> None:
    """Forget the late measurements of cycles before `serial`."""
    kept = int(core[KEPT])
    first = 0
    while first < kept and measures[first, M_SERIAL] < serial:
        first += 1
    if first > 0:
        for m in range(first, kept):
            for k in range(MEASURE_SIZE):
                measures[m - first, k] = measures[m, k]
        core[KEPT] = kept - first


@kernel
def _noise(
    row: FloatArray, state: FloatArray, wheels: FloatArray, params: FloatArray, inverse: FloatArray
) -> None:
    """Write how well this cycle's wheels and gyro are known, from the speeds that they measured."""
    dt, span = state[od.DT], state[od.SPAN]
    for k in range(6):
        row[R_NOISE + k] = 0.0
        row[R_SLIP + k] = 0.0
    sideways = 0.0
    tick2 = (params[od.P_TICK] / span) ** 2 / 6.0
    for i in range(wheels.shape[1]):
        slip2 = params[P_SLIP2] * wheels[od.SPEEDS, i] ** 2 * params[P_CYCLE]
        sideways += slip2 / wheels.shape[1]
        white = (params[P_WHEEL_VAR] * params[P_CYCLE] + slip2) / span + tick2
        excess = params[P_SLIP_EXCESS] * slip2 * dt
        a, b, w = inverse[0, i], inverse[1, i], inverse[2, i]
        row[R_NOISE] += a * a * white
        row[R_NOISE + 1] += a * b * white
        row[R_NOISE + 2] += b * b * white
        row[R_NOISE + 3] += a * w * white
        row[R_NOISE + 4] += b * w * white
        row[R_NOISE + 5] += w * w * white
        row[R_SLIP] += a * a * excess
        row[R_SLIP + 1] += a * b * excess
        row[R_SLIP + 2] += b * b * excess
        row[R_SLIP + 3] += a * w * excess
        row[R_SLIP + 4] += b * w * excess
        row[R_SLIP + 5] += w * w * excess
    if params[P_LATERAL] > 0.0:
        row[R_NOISE + 2] += FLOOR**2 + sideways / span
        row[R_SLIP + 2] += params[P_SLIP_EXCESS] * sideways * dt
    if row[R_TURNED] > 0.0:
        # The turn is the gyro's: wheels that slip for long do not spoil it.
        row[R_SLIP + 3] = row[R_SLIP + 4] = row[R_SLIP + 5] = 0.0
    if span > 1.5 * dt:
        # The travel is of several cycles: their mean twist is not quite that of the newest.
        stale = (0.5 * params[P_ACCEL] * span) ** 2
        row[R_NOISE] += stale
        row[R_NOISE + 2] += stale
        row[R_NOISE + 5] += (0.5 * params[P_YAW_ACCEL] * span) ** 2
    if dt > params[od.P_GAP]:
        # Nobody knows which way the robot took there.
        moved2 = params[P_SPEED2] * dt * dt
        turned2 = (params[P_YAW_RATE_MAX] * dt) ** 2
        if row[R_ROLLED] > 0.0:
            moved2 = 0.25 * (state[od.STEP] ** 2 + state[od.STEP + 1] ** 2)
            turned2 = 0.25 * state[od.STEP + 2] ** 2
        row[R_SLIP] += moved2
        row[R_SLIP + 2] += moved2
        row[R_SLIP + 5] += turned2


@kernel
def estimate_step(
    state: FloatArray,
    wheels: FloatArray,
    core: FloatArray,
    cov: FloatArray,
    history: FloatArray,
    params: FloatArray,
    inverse: FloatArray,
    stamp: float,
    travel: FloatArray,
    gyro: float,
) -> int:
    """Advance one robot's odometry and filter by one cycle; return the flags of `odometry_step`."""
    flags = odometry_step(state, wheels, params, inverse, stamp, travel, gyro)
    length = history.shape[0]
    if flags & od.CLOCK_BACK:
        # Late measurements will come with stamps of the new time: what was kept is of the old one.
        row = history[int(core[NEWEST]) % length]
        core[MARKED] += stamp - row[R_STAMP]
        core[OLDEST] = core[NEWEST]
        core[KEPT] = 0.0
        row[R_STAMP] = stamp
        row[R_DT] = 0.0
        _keep(core, cov, row)
    if state[od.STARTED] == 0.0 or flags & (od.BAD_STAMP | od.CLOCK_STILL | od.CLOCK_BACK):
        return flags
    serial = int(core[NEWEST]) + 1
    core[NEWEST] = serial
    core[OLDEST] = max(core[OLDEST], serial - length + 1)
    row = history[serial % length]
    row[R_STAMP] = stamp
    row[R_DT] = state[od.DT]
    row[R_ROLLED] = state[od.ROLLED]
    row[R_RATE] = state[od.RATE]
    row[R_TURNED] = 0.0 if math.isnan(state[od.RATE]) else 1.0
    row[R_COAST] = 0.0 if flags & od.CLOCK_GAP and state[od.ROLLED] == 0.0 else 1.0
    for k in range(3):
        row[R_ODOM + k] = state[od.POSE + k]
    if state[od.DT] > 0.0:
        for k in range(3):
            row[R_TWIST + k] = state[od.STEP + k] / state[od.SPAN] if state[od.ROLLED] > 0.0 else 0.0
        _noise(row, state, wheels, params, inverse)
    _advance(core, cov, row, params)
    _keep(core, cov, row)
    return flags


@kernel
def _cycle_of(core: FloatArray, history: FloatArray, params: FloatArray, stamp: float) -> int:
    """Return the serial number of the cycle that holds a stamp, -1 if it is too old, -2 if still to come."""
    newest, oldest = int(core[NEWEST]), int(core[OLDEST])
    length = history.shape[0]
    # One cycle ahead is fine: other parts of the robot may be read later than its wheels.
    if newest < 0 or not stamp <= history[newest % length, R_STAMP] + 1.5 * params[P_CYCLE]:
        return -2
    if stamp < history[newest % length, R_STAMP] - params[P_HISTORY]:
        return -1
    for serial in range(newest, oldest - 1, -1):
        row = history[serial % length]
        # The first cycle has no length: only its end is known.
        if stamp > row[R_STAMP] - row[R_DT] or stamp == row[R_STAMP]:
            return serial
    return -1


@kernel
def late_measure(
    core: FloatArray,
    cov: FloatArray,
    history: FloatArray,
    measures: FloatArray,
    params: FloatArray,
    kind: float,
    stamp: float,
    v0: float,
    v1: float,
    v2: float,
    c00: float,
    c01: float,
    c11: float,
    c02: float,
    c12: float,
    c22: float,
) -> int:
    """Put a measurement in at its own time and run the filter on from there.

    Args:
        core: of the filter, as the four arrays that follow.
        cov: see core.
        history: see core.
        measures: see core.
        params: see core.
        kind: KIND_POSE or KIND_HEADING.
        stamp: when it was true.
        v0: pose in map, with v1 and v2; of a heading only v2.
        v1: see v0.
        v2: see v0.
        c00: covariance of the pose, with c01 to c22; of a heading only c22.
        c01: see c00.
        c11: see c00.
        c02: see c00.
        c12: see c00.
        c22: see c00.

    Returns:
        The `Outcome` as a number.
    """
    serial = _cycle_of(core, history, params, stamp)
    if serial < 0:
        return _TOO_OLD if serial == -1 else _FUTURE
    length = history.shape[0]
    if core[KEPT] == measures.shape[0]:
        _forget(core, measures, int(core[OLDEST]))
    if core[KEPT] == measures.shape[0]:
        # Too many at once: the oldest stay in the estimate, but nothing can be put before them any more.
        first = int(measures[0, M_SERIAL]) + 1
        if serial < first or first > int(core[NEWEST]):
            return _TOO_OLD
        core[OLDEST] = first
        _forget(core, measures, first)
    m = int(core[KEPT])
    while m > 0:
        before = measures[m - 1]
        if before[M_SERIAL] != serial:
            later = before[M_SERIAL] > serial
        elif before[M_STAMP] != stamp:
            later = before[M_STAMP] > stamp
        elif before[M_KIND] != kind:
            later = before[M_KIND] > kind
        else:
            later = before[M_VALUE + 2] > v2
        if not later:
            break
        for k in range(MEASURE_SIZE):
            measures[m, k] = before[k]
        m -= 1
    measure = measures[m]
    measure[M_SERIAL] = serial
    measure[M_STAMP] = stamp
    measure[M_KIND] = kind
    measure[M_VALUE], measure[M_VALUE + 1], measure[M_VALUE + 2] = v0, v1, v2
    measure[M_COV], measure[M_COV + 1], measure[M_COV + 2] = c00, c01, c11
    measure[M_COV + 3], measure[M_COV + 4], measure[M_COV + 5] = c02, c12, c22
    core[KEPT] += 1.0
    _replay(core, cov, history, measures, params, serial)
    core[DISTANCE2] = measure[M_DISTANCE2]
    row = history[serial % length]
    back = stamp - row[R_STAMP]
    dx, dy, _, _ = arc(row[R_TWIST], row[R_TWIST + 1], row[R_TWIST + 2], row[R_ODOM + 2], back)
    core[ODOM] = row[R_ODOM] + dx
    core[ODOM + 1] = row[R_ODOM + 1] + dy
    core[ODOM + 2] = row[R_ODOM + 2] + row[R_TWIST + 2] * back
    return _ACCEPTED if measure[M_USED] > 0.0 else _GATED


@kernel
def set_pose(
    core: FloatArray,
    cov: FloatArray,
    history: FloatArray,
    measures: FloatArray,
    params: FloatArray,
    stamp: float,
    pose: FloatArray,
    covariance: FloatArray,
) -> int:
    """Start anew from a pose at a stamp; twist and bias stay. Return the `Outcome` as a number."""
    serial = _cycle_of(core, history, params, stamp)
    if serial < 0:
        return _TOO_OLD if serial == -1 else _FUTURE
    row = history[serial % history.shape[0]]
    for i in range(7):
        core[STATE + i] = row[R_PRIOR + i]
        for j in range(7):
            cov[i, j] = row[R_PRIOR_COV + 7 * i + j]
    on = row[R_STAMP] - stamp
    dx, dy, _, _ = arc(core[3], core[4], core[5], pose[2], on)
    core[0] = pose[0] + dx
    core[1] = pose[1] + dy
    core[2] = wrap(pose[2] + core[5] * on)
    for i in range(3):
        for j in range(7):
            cov[i, j] = 0.0
            cov[j, i] = 0.0
        for j in range(3):
            cov[i, j] = covariance[i, j]
    for i in range(3):
        for j in range(i):
            cov[i, j] = cov[j, i]
    _keep(core, cov, row)
    core[OLDEST] = serial
    core[LOCALISED] = 1.0
    core[MARKED] = row[R_STAMP]
    _forget(core, measures, serial + 1)
    _replay(core, cov, history, measures, params, serial)
    return _ACCEPTED


@dataclass(frozen=True, slots=True)
class EkfParams:
    """What the filter believes about a robot. Every sigma is one standard deviation.

    Attributes:
        odometry: what odometry has to know.
        acceleration_sigma: m/s2 along each axis, the white-noise acceleration from cycle to cycle.
        yaw_acceleration_sigma: rad/s2, the same of the rate of turn.
        speed_max: m/s, the robot's fastest.
        yaw_rate_max: rad/s, the robot's fastest turn.
        wheel_sigma: m/s, of one wheel's mean speed over a cycle, whatever it is.
        slip_fraction: of a wheel's speed, sigma of what slips away or in during a cycle.
        slip_time: s over which slip stays alike; 0 is slip that is new in every cycle.
        holonomic: whether the wheels measure sideways motion; else it is 0, but for slip.
        gyro_sigma: rad/s, of one reading.
        gyro_bias_sigma: rad/s, of the bias at power-up.
        gyro_bias_walk: rad/s per square root of a second, how the bias wanders.
        gate_probability: share of right measurements that pass the gate.
        recover_after: gated poses that agree with each other that make the filter start anew.
        recover_time: s that they must span at least.
        recover_within: s, the longest time between two of them.
        history_time: s, the latest that a measurement may come.
    """

    odometry: OdometryParams
    acceleration_sigma: float
    yaw_acceleration_sigma: float
    speed_max: float
    yaw_rate_max: float
    wheel_sigma: float
    slip_fraction: float
    slip_time: float
    holonomic: bool
    gyro_sigma: float
    gyro_bias_sigma: float
    gyro_bias_walk: float
    gate_probability: float = 0.999
    recover_after: int = 15
    recover_time: float = 0.4
    recover_within: float = 1.0
    history_time: float = 0.5

    @classmethod
    def from_spec(cls, spec: RobotSpec, slip_time: float | None = None) -> EkfParams:
        """Return the parameters of this kind of robot.

        Args:
            spec: the kind of robot.
            slip_time: s over which slip stays alike, if not the spec's; see the class.
        """
        wheels, imu, limits = spec.drive.wheels, spec.imu, spec.limits
        return cls(
            odometry=OdometryParams.from_spec(spec),
            # Real acceleration lasts many cycles and white noise does not: with less than three times the
            # limit, the twist would lag visibly behind the wheels.
            acceleration_sigma=3.0 * limits.acceleration,
            yaw_acceleration_sigma=3.0 * limits.yaw_acceleration,
            speed_max=limits.speed,
            yaw_rate_max=limits.yaw_rate,
            wheel_sigma=max(wheels.speed_sigma, FLOOR),
            slip_fraction=wheels.slip_sigma,
            slip_time=wheels.slip_time if slip_time is None else slip_time,
            holonomic=spec.holonomic,
            gyro_sigma=FLOOR if imu is None else max(imu.gyro_sigma, FLOOR),
            gyro_bias_sigma=FLOOR if imu is None else max(imu.gyro_bias_sigma, FLOOR),
            gyro_bias_walk=0.0 if imu is None else imu.gyro_bias_walk,
        )

    def array(self) -> FloatArray:
        """Return the parameters in the order in which the kernels take them."""
        cycle = self.odometry.cycle
        alike = math.exp(-cycle / self.slip_time) if self.slip_time > 0.0 else 0.0
        numbers = np.empty(PARAMS_SIZE)
        numbers[: od.ODOMETRY_PARAMS] = self.odometry.array()
        numbers[P_CYCLE] = cycle
        numbers[P_ACCEL] = self.acceleration_sigma
        numbers[P_YAW_ACCEL] = self.yaw_acceleration_sigma
        numbers[P_WHEEL_VAR] = self.wheel_sigma**2
        numbers[P_SLIP2] = self.slip_fraction**2
        # Sums of noise that stays alike grow by (1 + r)/(1 - r) faster than sums of white noise.
        numbers[P_SLIP_EXCESS] = (1.0 + alike) / (1.0 - alike) - 1.0
        numbers[P_LATERAL] = not self.holonomic
        numbers[P_GYRO_VAR] = self.gyro_sigma**2
        numbers[P_WALK2] = self.gyro_bias_walk**2
        numbers[P_GATE1] = chdtri(1, 1.0 - self.gate_probability)
        numbers[P_GATE3] = chdtri(3, 1.0 - self.gate_probability)
        numbers[P_HISTORY] = self.history_time
        numbers[P_YAW_RATE_MAX] = self.yaw_rate_max
        numbers[P_SPEED2] = self.speed_max**2
        return numbers


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Gated poses, or headings, that agree: the newest, where odometry was then, since when, how many."""

    stamp: float
    pose: FloatArray
    covariance: FloatArray
    odom: FloatArray
    since: float
    count: int


class PoseFilter:
    """One robot's odometry and EKF: `step` once a cycle, `add_pose` and `add_heading` whenever one comes."""

    __slots__ = (
        "_candidate",
        "_candidate_heading",
        "_core",
        "_cov",
        "_health",
        "_history",
        "_inverse",
        "_measures",
        "_numbers",
        "_odometry",
        "_params",
        "_state",
        "_wheels",
    )

    def __init__(self, params: EkfParams, wheel_inverse: ArrayLike, health: Health | None = None) -> None:
        """Start at the origin, not localised.

        Args:
            params: of the kind of robot.
            wheel_inverse: 3 x n, from wheel speeds to the body's twist.
            health: where refused inputs are counted; by default its own.

        Raises:
            ValueError: `wheel_inverse` is not 3 x n, or not finite.
        """
        self._params = params
        self._numbers = params.array()
        self._health = Health() if health is None else health
        self._odometry = Odometry(params.odometry, wheel_inverse, self._health)
        self._state, self._wheels, self._inverse = self._odometry.arrays
        cycles = math.ceil(1.25 * params.history_time / params.odometry.cycle) + 1
        self._core = np.zeros(CORE_SIZE)
        self._core[NEWEST] = -1.0
        self._core[MARKED] = -math.inf
        self._cov = np.zeros((14, 7))
        unknown = (POSITION_VAR_MAX, POSITION_VAR_MAX, YAW_VAR_MAX)
        # A robot that is switched on stands still.
        self._cov[range(7), range(7)] = (*unknown, FLOOR**2, FLOOR**2, FLOOR**2, params.gyro_bias_sigma**2)
        self._history = np.zeros((cycles, ROW_SIZE))
        self._measures = np.zeros((MEASURES, MEASURE_SIZE))
        self._candidate: _Candidate | None = None
        self._candidate_heading: _Candidate | None = None

    @classmethod
    def for_robot(cls, spec: RobotSpec, wheel_inverse: ArrayLike, health: Health | None = None) -> PoseFilter:
        """Return a filter for this kind of robot."""
        return cls(EkfParams.from_spec(spec), wheel_inverse, health)

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
            od.refuse_shape(self._health, travel, self._wheels.shape[1])
            return False
        flags = estimate_step(
            self._state,
            self._wheels,
            self._core,
            self._cov,
            self._history,
            self._numbers,
            self._inverse,
            float(stamp),
            travel,
            math.nan if gyro_z is None else float(gyro_z),
        )
        if flags == 0:
            return True
        if flags & od.CLOCK_BACK:
            self._candidate = self._candidate_heading = None
        return od.count_flags(self._health, flags, stamp, travel, gyro_z)

    def start(self, pose_map: ArrayLike, covariance: ArrayLike) -> Outcome:
        """Start anew from a pose that is true now.

        Args:
            pose_map: (x, y, yaw) in `map`.
            covariance: of it, 3 x 3.

        Returns:
            INITIALISED, or INVALID if it is no pose with a covariance.
        """
        checked = self._checked(pose_map, covariance)
        if checked is None:
            return Outcome.INVALID
        if self._core[NEWEST] < 0.0:
            self._core[:3] = checked[0]
            self._cov[:3, :3] = checked[1]
            self._core[LOCALISED] = 1.0
            return Outcome.INITIALISED
        return self._restart(float(self._state[od.STAMP]), *checked)

    def add_pose(self, stamp: float, pose_map: ArrayLike, covariance: ArrayLike) -> Outcome:
        """Put the pose that markers gave in at the time when they were seen.

        Args:
            stamp: when the light arrived, in seconds.
            pose_map: (x, y, yaw) of the robot in `map`.
            covariance: of it, 3 x 3, in m2, m rad and rad2.

        Returns:
            What became of it. TOO_OLD, FUTURE and INVALID are counted in `health`, GATED too.
        """
        checked = self._checked(pose_map, covariance)
        if checked is None or not math.isfinite(stamp):
            if checked is not None:
                self._health.refuse(
                    "ekf.pose_invalid", f"marker pose with stamp {stamp}: seconds were expected"
                )
            return Outcome.INVALID
        pose, cov = checked
        if self._core[LOCALISED] == 0.0:
            return self._restart(float(stamp), pose, cov)
        code = late_measure(
            self._core,
            self._cov,
            self._history,
            self._measures,
            self._numbers,
            KIND_POSE,
            float(stamp),
            pose[0],
            pose[1],
            pose[2],
            cov[0, 0],
            cov[0, 1],
            cov[1, 1],
            cov[0, 2],
            cov[1, 2],
            cov[2, 2],
        )
        outcome = Outcome(code)
        if outcome is Outcome.ACCEPTED:
            self._candidate = None
            return outcome
        self._count("pose", outcome, stamp, pose)
        if outcome is Outcome.GATED and self._lost(float(stamp), pose, cov):
            return self._restart(float(stamp), pose, cov)
        return outcome

    def add_heading(self, stamp: float, heading: float, sigma: float) -> Outcome:
        """Put a compass heading in at the time when it was true.

        Args:
            stamp: in seconds.
            heading: in rad, 0 is +x of `map`.
            sigma: of it, in rad.

        Returns:
            What became of it, as for `add_pose`.
        """
        if not (math.isfinite(stamp) and abs(heading) <= ANGLE_MAX and 0.0 <= sigma <= ANGLE_MAX):
            explanation = (
                f"heading {heading} with sigma {sigma} and stamp {stamp}: finite numbers were expected"
            )
            self._health.refuse("ekf.heading_invalid", explanation)
            return Outcome.INVALID
        variance = max(float(sigma), HEADING_FLOOR) ** 2
        code = late_measure(
            self._core,
            self._cov,
            self._history,
            self._measures,
            self._numbers,
            KIND_HEADING,
            float(stamp),
            0.0,
            0.0,
            float(heading),
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            variance,
        )
        outcome = Outcome(code)
        if outcome is Outcome.ACCEPTED:
            self._candidate_heading = None
            return outcome
        self._count("heading", outcome, stamp, heading)
        # Markers know better: a compass that contradicts them is disturbed.
        if outcome is Outcome.GATED and self._core[MARKED] < stamp - self._params.recover_within:
            return self._recover_yaw(float(stamp), float(heading), variance)
        return outcome

    @property
    def pose(self) -> FloatArray:
        """Return (x, y, yaw) in `map`, in metres and radians; means nothing until `localised`."""
        return self._core[:3].copy()

    @property
    def twist_body(self) -> FloatArray:
        """Return (vx, vy, omega) in the body's frame, in m/s and rad/s: the mean over the newest cycle."""
        return self._core[3:6].copy()

    @property
    def gyro_bias(self) -> float:
        """Return what the gyro is believed to read too much, in rad/s."""
        return float(self._core[6])

    @property
    def covariance(self) -> FloatArray:
        """Return the covariance of (x, y, yaw, vx, vy, omega, gyro bias): 7 x 7, SI and radians."""
        return self._cov[:7].copy()

    @property
    def localised(self) -> bool:
        """Return whether the pose in `map` was ever known."""
        return bool(self._core[LOCALISED])

    @property
    def distance2(self) -> float:
        """Return the squared Mahalanobis distance of the newest late measurement: chi-square distributed."""
        return float(self._core[DISTANCE2])

    @property
    def odometry(self) -> Odometry:
        """Return the dead reckoning below the filter: pose and twist in `odom`."""
        return self._odometry

    @property
    def health(self) -> Health:
        """Return the counters of refused inputs, odometry's among them."""
        return self._health

    def _checked(self, pose_map: ArrayLike, covariance: ArrayLike) -> tuple[FloatArray, FloatArray] | None:
        """Return a pose and its covariance as arrays, or None after counting that they are none."""
        try:
            pose = np.asarray(pose_map, dtype=np.float64)
            cov = np.asarray(covariance, dtype=np.float64)
        except (TypeError, ValueError) as error:
            self._health.refuse("ekf.pose_invalid", f"pose {pose_map!r}, covariance {covariance!r}: {error}")
            return None
        if pose.shape == (3,) and cov.shape == (3, 3):
            bounded = np.abs(pose).max() <= POSE_MAX and np.abs(cov).max() <= VARIANCE_MAX
            if bounded and np.abs(cov - cov.T).max() <= ODDNESS * np.abs(cov).max():
                even = 0.5 * (cov + cov.T)
                even[range(3), range(3)] += FLOOR**2
                if is_covariance(even):
                    return pose, even
        self._health.refuse(
            "ekf.pose_invalid",
            f"pose {pose.tolist()} with covariance {cov.tolist()}: finite (x, y, yaw) and a symmetric"
            " positive definite 3 x 3 matrix were expected",
        )
        return None

    def _restart(self, stamp: float, pose: FloatArray, covariance: FloatArray) -> Outcome:
        """Start anew from a pose, if its stamp can be used."""
        code = set_pose(
            self._core, self._cov, self._history, self._measures, self._numbers, stamp, pose, covariance
        )
        outcome = Outcome(code)
        if outcome is Outcome.ACCEPTED:
            self._candidate = self._candidate_heading = None
            return Outcome.INITIALISED
        self._count("pose", outcome, stamp, pose)
        return outcome

    def _count(self, what: str, outcome: Outcome, stamp: float, value: object) -> None:
        """Count a measurement that was not used."""
        now = float(self._state[od.STAMP])
        self._health.refuse(
            f"ekf.{what}_{outcome.name.lower()}", f"{what} {value} with stamp {stamp} at {now}"
        )

    def _agreed(self, old: _Candidate | None, new: _Candidate, predicted_yaw_only: bool) -> _Candidate:
        """Return the candidate after one more gated measurement."""
        if old is None or abs(new.stamp - old.stamp) > self._params.recover_within:
            return new
        expected = compose(old.pose, between(old.odom, new.odom))
        error = new.pose - expected
        error[2] = wrap(error[2])
        spread = old.covariance + new.covariance
        spread[range(3), range(3)] += DRIFT**2
        if predicted_yaw_only:
            agrees = error[2] ** 2 <= self._numbers[P_GATE1] * spread[2, 2]
        else:
            agrees = error @ np.linalg.solve(spread, error) <= self._numbers[P_GATE3]
        if agrees:
            return replace(new, since=min(old.since, new.since), count=old.count + 1)
        # One wild pose among those that agree must not undo them all.
        return replace(old, count=old.count - 1) if old.count > 1 else new

    def _convinces(self, candidate: _Candidate) -> bool:
        """Return whether enough gated measurements agree for long enough."""
        spans = candidate.stamp - candidate.since >= self._params.recover_time
        return spans and candidate.count >= self._params.recover_after

    def _lost(self, stamp: float, pose: FloatArray, covariance: FloatArray) -> bool:
        """Return whether the gated poses say that the robot is elsewhere."""
        new = _Candidate(stamp, pose, covariance, self._core[ODOM : ODOM + 3].copy(), stamp, 1)
        self._candidate = self._agreed(self._candidate, new, predicted_yaw_only=False)
        return self._convinces(self._candidate)

    def _recover_yaw(self, stamp: float, heading: float, variance: float) -> Outcome:
        """Take the compass's word for the yaw, once enough gated headings agree."""
        odom = self._core[ODOM : ODOM + 3].copy()
        pose = np.array([0.0, 0.0, heading])
        new = _Candidate(stamp, pose, np.diag((1.0, 1.0, variance)), odom, stamp, 1)
        self._candidate_heading = self._agreed(self._candidate_heading, new, predicted_yaw_only=True)
        if not self._convinces(self._candidate_heading):
            return Outcome.GATED
        localised, marked = self._core[LOCALISED], self._core[MARKED]
        pose = self.pose
        pose[2] = heading + wrap(self._state[od.POSE + 2] - odom[2])
        covariance = self._cov[:3, :3].copy()
        covariance[2] = covariance[:, 2] = 0.0
        covariance[2, 2] = variance
        outcome = self._restart(float(self._state[od.STAMP]), pose, covariance)
        self._core[LOCALISED], self._core[MARKED] = localised, marked
        return outcome


def is_covariance(matrix: FloatArray) -> bool:
    """Return whether a symmetric 3 x 3 matrix is positive definite, by its leading minors."""
    a, b, c, d, e, f = (float(matrix[i, j]) for i, j in ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)))
    minor = a * c - b * b
    return a > 0.0 and minor > 0.0 and f * minor - a * e * e + 2.0 * b * d * e - c * d * d > 0.0
