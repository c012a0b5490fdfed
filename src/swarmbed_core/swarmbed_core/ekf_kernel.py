"""The EKF's kernels: one cycle, one late measurement, one restart, on arrays (see `swarmbed_core.ekf`).

They use no objects, so that worlds with thousands of robots can call them in loops of their own. The
constants here define the layout of the arrays. The number of lens errors is arbitrary: the covariance has a
column for each, after those of the states.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING

from swarmbed_core import odometry as od
from swarmbed_core.geometry import wrap
from swarmbed_core.kernel import kernel
from swarmbed_core.odometry import arc, odometry_step

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

# Indices into the array `core`: the filter's state without its covariance.
STATE = 0  # x, y, yaw, vx, vy, omega, bias
NEWEST, OLDEST = 7, 8  # serial numbers of the newest and oldest stored cycles
KEPT = 9  # number of stored late measurements
LOCALISED = 10
DISTANCE2 = 11  # squared Mahalanobis distance of the newest late measurement
ODOM = 12  # x, y, yaw in odom at that measurement's stamp
MARKED = 15  # stamp of the newest cycle that a marker pose corrected
CORE_SIZE = 16

# Layout of the array `cov`. Rows 0 to 6: the state's covariance; from column LENS on, its covariance with the
# lens errors. Rows from CROSS on, scratch space: the state's covariance with a measurement; from column LENS
# on, the innovation's covariance with the lens errors.
CROSS = 7
LENS = 7

# One cycle in the history: its row is its serial number modulo the length.
R_STAMP, R_DT, R_ROLLED, R_TURNED, R_COAST, R_RATE = range(6)
R_TWIST = 6  # by the wheels
R_NOISE = 9  # covariance of it: xx, xy, yy, xw, yw, ww
R_SLIP = 15  # additional covariance of this cycle's motion from correlated slip: layout as above
R_ODOM = 21  # pose in odom
R_PRIOR = 24  # state before late measurements
R_PRIOR_COV = 31
ROW_SIZE = 80  # followed by the prior state's covariance with the lens errors, row by row

# One late measurement, followed by its sensitivity to each lens error, row by row.
M_SERIAL, M_STAMP, M_KIND, M_VALUE, M_COV, M_DISTANCE2, M_USED = 0, 1, 2, 3, 6, 12, 13
MEASURE_SIZE = 14
MEASURES = 256
KIND_POSE, KIND_HEADING = 0.0, 1.0

# Indices of EkfParams in the kernels' array of parameters, after odometry's.
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

# Bounds keep the numbers well conditioned. At the first two the pose is unknown.
POSITION_VAR_MAX = 1e4  # m2
YAW_VAR_MAX = math.pi**2 / 3.0  # rad2: of a uniformly distributed direction
POSE_MAX = 1e6  # m or rad: beyond it a pose is invalid
ANGLE_MAX = 1e3  # rad
VARIANCE_MAX = 1e6  # m2, m rad or rad2
ODDNESS = 1e-6  # allowed asymmetry of a covariance, as a share of its largest number
HEADING_FLOOR = 1e-3  # rad, the least sigma of a heading
DRIFT = 0.02  # m and rad, sigma of odometry's drift between two gated measurements
FLOOR = 1e-4  # the least of every sigma, in its unit: no measurement is exact


class Verdict(IntEnum):
    """What became of a late measurement."""

    ACCEPTED = 0
    GATED = 1
    TOO_OLD = 2
    FUTURE = 3
    INVALID = 4
    INITIALISED = 5


# Plain integers for the kernels: enums would be slow there.
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
    """Correct the state by a three-dimensional measurement, unless the gate rejects it.

    Args:
        core: the state.
        cov: its covariance; below it the state's covariance with the measurement, 7 x 3; to the right of
            both the lens errors' covariance with the state and with the innovation.
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
    # With W = cross L^-T the covariance decreases by W W^T, which is exactly symmetric.
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
    for k in range(LENS, cov.shape[1]):
        v0 = cov[CROSS, k] / l00
        v1 = (cov[CROSS + 1, k] - l10 * v0) / l11
        v2 = (cov[CROSS + 2, k] - l20 * v0 - l21 * v1) / l22
        for i in range(7):
            cov[i, k] -= cov[CROSS + i, 0] * v0 + cov[CROSS + i, 1] * v1 + cov[CROSS + i, 2] * v2
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
    """Correct by a scalar measurement of state[a] + weight state[b]; return its squared distance."""
    for i in range(7):
        cov[CROSS + i, 0] = cov[i, a] + weight * cov[i, b]
    s = cov[CROSS + a, 0] + weight * cov[CROSS + b, 0] + variance
    distance2 = float(innovation * innovation / s)
    if not distance2 <= gate:
        return distance2
    for k in range(LENS, cov.shape[1]):
        v = (cov[a, k] + weight * cov[b, k]) / s
        for i in range(7):
            cov[i, k] -= cov[CROSS + i, 0] * v
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
    """Return the derivatives of a motion along an arc by its yaw rate: d(dx)/d(omega), d(dy)/d(omega)."""
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
    """Move the pose along the arc of the twist, and propagate the covariance."""
    yaw, vx, vy, omega = core[2], core[3], core[4], core[5]
    dx, dy, gc, gs = arc(vx, vy, omega, yaw, dt)
    dx_dw, dy_dw = _turning(vx, vy, omega, yaw, dt)
    core[0] += dx
    core[1] += dy
    core[2] = wrap(yaw + omega * dt)
    for j in range(cov.shape[1]):
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
    """Limit the variance of state i, keeping its correlations."""
    if cov[i, i] > variance:
        scale = math.sqrt(variance / cov[i, i])
        for j in range(7):
            cov[i, j] *= scale
            cov[j, i] *= scale
        for k in range(LENS, cov.shape[1]):
            cov[i, k] *= scale


@kernel
def _advance(core: FloatArray, cov: FloatArray, row: FloatArray, params: FloatArray) -> None:
    """Propagate the state over one cycle with the inputs of its row."""
    dt = row[R_DT]
    if dt == 0.0:
        return
    # White from cycle to cycle; a longer gap may have full acceleration throughout.
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
        for k in range(LENS, cov.shape[1]):
            for j in range(3):
                cov[CROSS + j, k] = cov[3 + j, k]
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
    """Return column m of the covariance of a pose on the arc, from column m of the cross-covariance."""
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
    """Correct the state at the end of a cycle by a measurement taken during it, or gate the measurement."""
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
    # The lens errors of this pose are the same as those in the state from earlier poses.
    lenses = cov.shape[1] - LENS
    for n in range(lenses):
        k = LENS + n
        g0 = measure[MEASURE_SIZE + n]
        g1 = measure[MEASURE_SIZE + lenses + n]
        g2 = measure[MEASURE_SIZE + 2 * lenses + n]
        turn, ahead_v, left_v, spin = cov[2, k], cov[3, k], cov[4, k], cov[5, k]
        h0 = cov[0, k] - dy * turn + gc * ahead_v - gs * left_v + dx_dw * spin
        h1 = cov[1, k] + dx * turn + gs * ahead_v + gc * left_v + dy_dw * spin
        h2 = turn + dt * spin
        s00 += 2.0 * h0 * g0 + g0 * g0
        s10 += h1 * g0 + g1 * h0 + g1 * g0
        s11 += 2.0 * h1 * g1 + g1 * g1
        s20 += h2 * g0 + g2 * h0 + g2 * g0
        s21 += h2 * g1 + g2 * h1 + g2 * g1
        s22 += 2.0 * h2 * g2 + g2 * g2
        cov[CROSS, k], cov[CROSS + 1, k], cov[CROSS + 2, k] = h0 + g0, h1 + g1, h2 + g2
        for i in range(7):
            cov[CROSS + i, 0] += cov[i, k] * g0
            cov[CROSS + i, 1] += cov[i, k] * g1
            cov[CROSS + i, 2] += cov[i, k] * g2
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
    """Store the state in a cycle's row."""
    lenses = cov.shape[1] - LENS
    for i in range(7):
        row[R_PRIOR + i] = core[STATE + i]
        for j in range(7):
            row[R_PRIOR_COV + 7 * i + j] = cov[i, j]
        for n in range(lenses):
            row[ROW_SIZE + lenses * i + n] = cov[i, LENS + n]


@kernel
def _take_back(core: FloatArray, cov: FloatArray, row: FloatArray) -> None:
    """Restore the state from a cycle's row."""
    lenses = cov.shape[1] - LENS
    for i in range(7):
        core[STATE + i] = row[R_PRIOR + i]
        for j in range(7):
            cov[i, j] = row[R_PRIOR_COV + 7 * i + j]
        for n in range(lenses):
            cov[i, LENS + n] = row[ROW_SIZE + lenses * i + n]


@kernel
def _replay(
    core: FloatArray,
    cov: FloatArray,
    history: FloatArray,
    measures: FloatArray,
    params: FloatArray,
    serial: int,
) -> None:
    """Replay the cycles from `serial` on, with every late measurement in its cycle."""
    length = history.shape[0]
    row = history[serial % length]
    _take_back(core, cov, row)
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
    """Delete the late measurements of cycles before `serial`."""
    kept = int(core[KEPT])
    first = 0
    while first < kept and measures[first, M_SERIAL] < serial:
        first += 1
    if first > 0:
        for m in range(first, kept):
            for k in range(measures.shape[1]):
                measures[m - first, k] = measures[m, k]
        core[KEPT] = kept - first


@kernel
def _noise(
    row: FloatArray, state: FloatArray, wheels: FloatArray, params: FloatArray, inverse: FloatArray
) -> None:
    """Write the noise of this cycle's wheels and gyro to its row, from the measured speeds."""
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
        # The gyro measures the turn: correlated wheel slip does not affect it.
        row[R_SLIP + 3] = row[R_SLIP + 4] = row[R_SLIP + 5] = 0.0
    if span > 1.5 * dt:
        # The travel covers several cycles: their mean twist differs from that of the newest.
        stale = (0.5 * params[P_ACCEL] * span) ** 2
        row[R_NOISE] += stale
        row[R_NOISE + 2] += stale
        row[R_NOISE + 5] += (0.5 * params[P_YAW_ACCEL] * span) ** 2
    if dt > params[od.P_GAP]:
        # The robot's path during the gap is unknown.
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
        # Late measurements will have stamps of the new time: the stored cycles belong to the old one.
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
    """Return the serial number of the cycle that contains a stamp, -1 if too old, -2 if in the future."""
    newest, oldest = int(core[NEWEST]), int(core[OLDEST])
    length = history.shape[0]
    # One cycle ahead is allowed: other parts of the robot may be read later than its wheels.
    if newest < 0 or not stamp <= history[newest % length, R_STAMP] + 1.5 * params[P_CYCLE]:
        return -2
    if stamp < history[newest % length, R_STAMP] - params[P_HISTORY]:
        return -1
    for serial in range(newest, oldest - 1, -1):
        row = history[serial % length]
        # The first cycle has no duration: only its end matches.
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
    lens: FloatArray,
) -> int:
    """Apply a measurement at its own time and replay the filter from there.

    Args:
        core: of the filter, like the four arrays that follow.
        cov: see core.
        history: see core.
        measures: see core.
        params: see core.
        kind: KIND_POSE or KIND_HEADING.
        stamp: time of measurement.
        v0: pose in map, with v1 and v2; a heading uses v2 only.
        v1: see v0.
        v2: see v0.
        c00: covariance of the pose, with c01 to c22; a heading uses c22 only.
        c01: see c00.
        c11: see c00.
        c02: see c00.
        c12: see c00.
        c22: see c00.
        lens: sensitivity of the pose to each lens error, in addition to c00 to c22: (3, lens errors).

    Returns:
        The `Verdict` as a number.
    """
    serial = _cycle_of(core, history, params, stamp)
    if serial < 0:
        return _TOO_OLD if serial == -1 else _FUTURE
    length = history.shape[0]
    if core[KEPT] == measures.shape[0]:
        _forget(core, measures, int(core[OLDEST]))
    if core[KEPT] == measures.shape[0]:
        # Full: those of the oldest cycle stay in the estimate, but nothing can be applied before them.
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
        for k in range(measures.shape[1]):
            measures[m, k] = before[k]
        m -= 1
    measure = measures[m]
    measure[M_SERIAL] = serial
    measure[M_STAMP] = stamp
    measure[M_KIND] = kind
    measure[M_VALUE], measure[M_VALUE + 1], measure[M_VALUE + 2] = v0, v1, v2
    measure[M_COV], measure[M_COV + 1], measure[M_COV + 2] = c00, c01, c11
    measure[M_COV + 3], measure[M_COV + 4], measure[M_COV + 5] = c02, c12, c22
    lenses = lens.shape[1]
    for i in range(3):
        for n in range(lenses):
            measure[MEASURE_SIZE + lenses * i + n] = lens[i, n]
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
    lens: FloatArray,
) -> int:
    """Restart from a pose at a stamp, keeping twist and bias. Return the `Verdict` as a number.

    Args:
        core: of the filter, like the four arrays that follow.
        cov: see core.
        history: see core.
        measures: see core.
        params: see core.
        stamp: time of the pose.
        pose: in map.
        covariance: of the pose, including the lens errors.
        lens: sensitivity of the pose to each lens error: (3, lens errors).
    """
    serial = _cycle_of(core, history, params, stamp)
    if serial < 0:
        return _TOO_OLD if serial == -1 else _FUTURE
    row = history[serial % history.shape[0]]
    _take_back(core, cov, row)
    on = row[R_STAMP] - stamp
    dx, dy, _, _ = arc(core[3], core[4], core[5], pose[2], on)
    core[0] = pose[0] + dx
    core[1] = pose[1] + dy
    core[2] = wrap(pose[2] + core[5] * on)
    for i in range(3):
        for j in range(7):
            cov[i, j] = 0.0
            cov[j, i] = 0.0
    for i in range(3):
        for j in range(i + 1):
            cov[i, j] = covariance[i, j]
            cov[j, i] = covariance[i, j]
    # The state's error is truth minus estimate: an excess in the pose counts negative.
    for n in range(lens.shape[1]):
        for i in range(3):
            cov[i, LENS + n] = -lens[i, n]
            for j in range(3, 7):
                cov[i, j] -= lens[i, n] * cov[j, LENS + n]
                cov[j, i] = cov[i, j]
    _keep(core, cov, row)
    core[OLDEST] = serial
    core[LOCALISED] = 1.0
    core[MARKED] = row[R_STAMP]
    _forget(core, measures, serial + 1)
    _replay(core, cov, history, measures, params, serial)
    return _ACCEPTED
