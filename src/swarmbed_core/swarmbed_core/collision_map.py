"""The collision map: recent obstacles around the robot (DOTS paper, IV-B3).

The map is an array of cells with values in [0, 1]. Each return of the distance sensors raises the cells
around it by a Gaussian, equations (2) and (3), up to 1. All cells decay with the rate lambda. Equation (4)
multiplies by (1 - lambda dt) each step, so its result depends on the step size. This module uses
exp(-lambda dt), whose first-order approximation it is.

The map is robot-relative, but shifting and rotating its cells with each motion of the robot would blur it.
So the cells stay fixed in the odometry frame, the robot moves among them, and every query is transformed
into that frame. The array is a torus: cell (i, j) of the infinite plane, centred at ((i + 0.5) cell,
(j + 0.5) cell), is stored at row j modulo n, column i modulo n. When the robot enters another cell, the rows
and columns left behind are cleared and reused for those ahead.

Decay does not touch the cells: the array holds cell values divided by a decaying scale, so that an update
writes only to cells near returns. From time to time the scale is multiplied in and restarts at 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.errors import MapError
from swarmbed_core.geometry import wrap
from swarmbed_core.health import Health
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

# Indices into a map's state: stamp and pose of the robot, the time at which the scale was 1, and the cell
# that the robot is in.
_STAMP, _X, _Y, _YAW, _SCALED, _I, _J, _STATE = 0, 1, 2, 3, 4, 5, 6, 7

# Indices into a map's numbers: those of the parameters, then those of the robot.
_CELL, _RATE, _SIGMA, _REACH, _LATE, _SPEED, _STEP, _YAW_RATE, _TURN = 0, 1, 2, 3, 4, 5, 6, 7, 8
_BODY, _MOUNT, _HALF_VIEW, _LEG, _LEG_MASK, _NUMBERS = 9, 10, 11, 12, 13, 14

# Results of an update.
_TAKEN, _BAD_STAMP, _BACKWARDS, _BAD_POSE, _JUMP = 0, 1, 2, 3, 4

# Larger numbers, in metres or seconds, are treated as invalid: cell indices would overflow.
_ABSURD = 1e6
# The scale restarts at 1 after decaying by exp(-20); cells below _FAINT are then set to 0.
_FADED = 20.0
_FAINT = 1e-15


@dataclass(frozen=True, slots=True)
class CollisionMapParams:
    """Parameters of a collision map; the robot's own dimensions come from its spec.

    Attributes:
        cell: edge of a cell in metres. About sensor_sigma: coarser cells miss part of a return, finer
            ones cost time.
        extent: metres from the robot to the edge of the map. It must cover the lookahead distance and
            the robot's radius: 0.5 m/s for 2 s by default.
        decay_rate: lambda, 1/s.
        sensor_sigma: sigma of the Gaussian of a return, in metres.
        reach: radius of a return, in sigma. At 50 sweeps a second the 1/50 of a Gaussian that is left
            at 2.8 sigma still fills a cell; the rest beyond 4 sigma is negligible.
        max_late: seconds. A sweep that is older than the map's newest pose by at most this is entered
            at its own age; an older one is rejected.
        jump_factor: a pose change that exceeds the robot's limits by more than this factor is a jump.
        jump_distance: metres that are never a jump: the size of an estimator's corrections.
        jump_turn: radians that are never a jump.
        leg_slack: metres by which a lifted carrier's position may differ from the given one.
    """

    cell: float = 0.03
    extent: float = 1.2
    decay_rate: float = 1.0
    sensor_sigma: float = 0.025
    reach: float = 4.0
    max_late: float = 0.2
    jump_factor: float = 1.5
    jump_distance: float = 0.25
    jump_turn: float = 0.5
    leg_slack: float = 0.01

    def __post_init__(self) -> None:
        """Reject parameters that do not define a map."""
        for name in ("cell", "extent", "sensor_sigma", "reach"):
            value = getattr(self, name)
            if not 0.0 < value < _ABSURD:
                message = f"CollisionMapParams.{name} is {value}: it must be a positive number"
                raise MapError(message)
        for name in ("decay_rate", "max_late", "jump_factor", "jump_distance", "jump_turn", "leg_slack"):
            value = getattr(self, name)
            if not 0.0 <= value < _ABSURD:
                message = f"CollisionMapParams.{name} is {value}: it must be 0 or a positive number"
                raise MapError(message)
        if not self.cell <= self.extent <= _MOST_CELLS * self.cell:
            message = (
                f"CollisionMapParams.extent is {self.extent}: with cells of {self.cell} it must be between "
                f"{self.cell} and {_MOST_CELLS * self.cell:g}"
            )
            raise MapError(message)


# The most cells from the centre to the edge of a map; larger maps are rejected as mistakes.
_MOST_CELLS = 1000


@kernel
def _scale_k(state: FloatArray, numbers: FloatArray) -> float:
    """Return the factor from a stored value to the value of its cell."""
    elapsed = state[_STAMP] - state[_SCALED]
    # The difference is NaN before the first update.
    return math.exp(-numbers[_RATE] * elapsed) if elapsed > 0.0 else 1.0


@kernel
def _rescale_k(cells: FloatArray, state: FloatArray, numbers: FloatArray) -> None:
    """Multiply all cells by the scale, and restart it at 1."""
    scale = _scale_k(state, numbers)
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            value = cells[row, column] * scale
            cells[row, column] = value if value > _FAINT else 0.0
    state[_SCALED] = state[_STAMP]


@kernel
def _clear_k(cells: FloatArray, state: FloatArray) -> None:
    """Empty every cell."""
    for row in range(cells.shape[0]):
        for column in range(cells.shape[1]):
            cells[row, column] = 0.0
    state[_SCALED] = state[_STAMP]


@kernel
def _scroll_k(cells: FloatArray, state: FloatArray, numbers: FloatArray) -> None:
    """Recentre the torus on the robot, and clear the cells that enter it."""
    n = cells.shape[0]
    half = n // 2
    i = math.floor(state[_X] / numbers[_CELL])
    j = math.floor(state[_Y] / numbers[_CELL])
    old_i = int(state[_I])
    old_j = int(state[_J])
    if abs(i - old_i) >= n or abs(j - old_j) >= n:
        _clear_k(cells, state)
    else:
        first, last = (old_i + half + 1, i + half) if i > old_i else (i - half, old_i - half - 1)
        for entering in range(first, last + 1):
            column = entering % n
            for row in range(n):
                cells[row, column] = 0.0
        first, last = (old_j + half + 1, j + half) if j > old_j else (j - half, old_j - half - 1)
        for entering in range(first, last + 1):
            row = entering % n
            for column in range(n):
                cells[row, column] = 0.0
    state[_I] = i
    state[_J] = j


@kernel
def move_k(
    stamp: float,
    x_odom: float,
    y_odom: float,
    yaw: float,
    cells: FloatArray,
    state: FloatArray,
    numbers: FloatArray,
) -> int:
    """Advance the map to a time and pose; return 0, or the code of the fault.

    A jump of the pose clears the map, which then continues from the new pose.
    """
    if not -_ABSURD * _ABSURD < stamp < _ABSURD * _ABSURD:
        return _BAD_STAMP
    if not (-_ABSURD < x_odom < _ABSURD and -_ABSURD < y_odom < _ABSURD and -_ABSURD < yaw < _ABSURD):
        return _BAD_POSE
    first = math.isnan(state[_STAMP])
    if stamp < state[_STAMP]:
        return _BACKWARDS
    verdict = _TAKEN
    if not first:
        seconds = stamp - state[_STAMP]
        distance = math.hypot(x_odom - state[_X], y_odom - state[_Y])
        turn = abs(wrap(yaw - state[_YAW]))
        if (
            distance > numbers[_STEP] + numbers[_SPEED] * seconds
            or turn > numbers[_TURN] + numbers[_YAW_RATE] * seconds
        ):
            verdict = _JUMP
    state[_STAMP] = stamp
    state[_X] = x_odom
    state[_Y] = y_odom
    state[_YAW] = yaw
    if first or verdict == _JUMP:
        _clear_k(cells, state)
    elif numbers[_RATE] * (stamp - state[_SCALED]) > _FADED:
        _rescale_k(cells, state, numbers)
    _scroll_k(cells, state, numbers)
    return verdict


@kernel
def _deposit_k(
    x: float, y: float, weight: float, cells: FloatArray, state: FloatArray, numbers: FloatArray
) -> None:
    """Raise the cells around a return at (x, y) in the odometry frame: equations (2) to (4)."""
    cell = numbers[_CELL]
    sigma = numbers[_SIGMA]
    reach = numbers[_REACH] * sigma
    n = cells.shape[0]
    half = n // 2
    low_i = max(math.floor((x - reach) / cell), int(state[_I]) - half)
    high_i = min(math.floor((x + reach) / cell), int(state[_I]) + half)
    low_j = max(math.floor((y - reach) / cell), int(state[_J]) - half)
    high_j = min(math.floor((y + reach) / cell), int(state[_J]) + half)
    if low_i > high_i or low_j > high_j:
        return
    scale = _scale_k(state, numbers)
    full = 1.0 / scale
    # From cell to cell the Gaussian changes by a ratio, and that ratio by a constant factor.
    narrow = 0.5 / (sigma * sigma)
    bend = math.exp(-2.0 * narrow * cell * cell)
    off_x = (low_i + 0.5) * cell - x
    first = math.exp(-narrow * off_x * off_x)
    first_ratio = math.exp(-narrow * cell * (2.0 * off_x + cell))
    off_y = (low_j + 0.5) * cell - y
    along = weight * full * math.exp(-narrow * off_y * off_y)
    along_ratio = math.exp(-narrow * cell * (2.0 * off_y + cell))
    first_column = low_i % n
    row = low_j % n
    for _ in range(low_j, high_j + 1):
        value = along * first
        ratio = first_ratio
        column = first_column
        for _ in range(low_i, high_i + 1):
            cells[row, column] = min(cells[row, column] + value, full)
            value *= ratio
            ratio *= bend
            column += 1
            if column == n:
                column = 0
        along *= along_ratio
        along_ratio *= bend
        row += 1
        if row == n:
            row = 0


@kernel
def _sees_leg_k(x: float, y: float, legs: FloatArray, numbers: FloatArray) -> bool:
    """Return whether a return at (x, y) in the robot's frame may come from a leg.

    A sensor with a leg in its field of view sees nothing behind it. Any return from the leg's distance on
    is the leg, or an echo between leg and robot.
    """
    reach = math.hypot(x, y)
    if reach == 0.0:
        return False
    c = x / reach
    s = y / reach
    for k in range(legs.shape[0]):
        ahead = c * legs[k, 0] + s * legs[k, 1] - numbers[_MOUNT]
        aside = c * legs[k, 1] - s * legs[k, 0]
        distance = math.hypot(ahead, aside)
        if distance <= numbers[_LEG]:
            return True
        view = numbers[_HALF_VIEW] + math.asin(numbers[_LEG] / distance)
        if abs(math.atan2(aside, ahead)) <= view:
            near = distance - numbers[_LEG] - 2.0 * numbers[_SIGMA]
            if reach - numbers[_MOUNT] >= near:
                return True
    return False


@kernel
def update_k(
    stamp: float,
    x_odom: float,
    y_odom: float,
    yaw: float,
    points: FloatArray,
    legs: FloatArray,
    cells: FloatArray,
    state: FloatArray,
    numbers: FloatArray,
) -> tuple[int, int]:
    """Enter one sweep; return 0 or the code of the fault, and the number of rejected points.

    Args:
        stamp: time of the measurement, in seconds.
        x_odom: position of the robot in the odometry frame at that time, with y_odom and yaw.
        y_odom: see x_odom.
        yaw: see x_odom.
        points: rows (x, y) in the robot's frame; rows of NaN are skipped.
        legs: rows (x, y) in the robot's frame: the legs of the carrier on the robot, or no rows.
        cells: the map's cells.
        state: the map's state.
        numbers: the map's numbers.
    """
    weight = 1.0
    age = state[_STAMP] - stamp
    if 0.0 < age <= numbers[_LATE]:
        # Late, but usable: entered at the robot's pose of that time, with its decay since then.
        off = math.hypot(x_odom - state[_X], y_odom - state[_Y])
        if not (off <= numbers[_STEP] + numbers[_SPEED] * age and abs(yaw) < _ABSURD):
            return _BAD_POSE, 0
        weight = math.exp(-numbers[_RATE] * age)
    else:
        verdict = move_k(stamp, x_odom, y_odom, yaw, cells, state, numbers)
        if verdict != _TAKEN:
            return verdict, 0
    c = math.cos(yaw)
    s = math.sin(yaw)
    bad = 0
    for k in range(points.shape[0]):
        x = points[k, 0]
        y = points[k, 1]
        if math.isnan(x) and math.isnan(y):
            continue
        if not (abs(x) < _ABSURD and abs(y) < _ABSURD) or math.hypot(x, y) < numbers[_BODY]:
            bad += 1
            continue
        if legs.shape[0] > 0 and _sees_leg_k(x, y, legs, numbers):
            continue
        _deposit_k(x_odom + c * x - s * y, y_odom + s * x + c * y, weight, cells, state, numbers)
    return _TAKEN, bad


@kernel
def _at_leg_k(x: float, y: float, legs: FloatArray, numbers: FloatArray) -> bool:
    """Return whether (x, y) in the robot's frame lies at a leg of the carrier."""
    nearest = math.inf
    for k in range(legs.shape[0]):
        nearest = min(nearest, math.hypot(x - legs[k, 0], y - legs[k, 1]))
    mask: float = numbers[_LEG_MASK]
    return nearest <= mask


@kernel
def erase_legs_k(legs: FloatArray, cells: FloatArray, state: FloatArray, numbers: FloatArray) -> None:
    """Clear the cells at the legs and behind them, which the sensors filled before the carrier was lifted."""
    n = cells.shape[0]
    half = n // 2
    c = math.cos(state[_YAW])
    s = math.sin(state[_YAW])
    for j in range(int(state[_J]) - half, int(state[_J]) + half + 1):
        for i in range(int(state[_I]) - half, int(state[_I]) + half + 1):
            to_x = (i + 0.5) * numbers[_CELL] - state[_X]
            to_y = (j + 0.5) * numbers[_CELL] - state[_Y]
            x = c * to_x + s * to_y
            y = c * to_y - s * to_x
            if _at_leg_k(x, y, legs, numbers) or _sees_leg_k(x, y, legs, numbers):
                cells[j % n, i % n] = 0.0


@kernel
def mean_k(
    x: float,
    y: float,
    radius: float,
    legs: FloatArray,
    cells: FloatArray,
    state: FloatArray,
    numbers: FloatArray,
) -> float:
    """Return the mean of the cells with their centres in a disc around (x, y) in the robot's frame.

    Cells outside the map and those at the carrier's legs count as empty.
    """
    cell = numbers[_CELL]
    n = cells.shape[0]
    half = n // 2
    c = math.cos(state[_YAW])
    s = math.sin(state[_YAW])
    centre_x = state[_X] + c * x - s * y
    centre_y = state[_Y] + s * x + c * y
    # A disc without a cell's centre would be empty: 0.71 is half of a cell's diagonal.
    radius = max(radius, 0.71 * cell)
    home_i = int(state[_I])
    home_j = int(state[_J])
    total = 0.0
    count = 0
    for j in range(math.floor((centre_y - radius) / cell), math.floor((centre_y + radius) / cell) + 1):
        off_y = (j + 0.5) * cell - centre_y
        for i in range(math.floor((centre_x - radius) / cell), math.floor((centre_x + radius) / cell) + 1):
            off_x = (i + 0.5) * cell - centre_x
            if off_x * off_x + off_y * off_y > radius * radius:
                continue
            count += 1
            if abs(i - home_i) > half or abs(j - home_j) > half:
                continue
            value = cells[j % n, i % n]
            if value > 0.0 and not _at_leg_k(
                x + c * off_x + s * off_y, y + c * off_y - s * off_x, legs, numbers
            ):
                total += value
    return total / count * _scale_k(state, numbers)


@kernel
def costs_k(
    distance: float,
    radius: float,
    legs: FloatArray,
    cells: FloatArray,
    state: FloatArray,
    numbers: FloatArray,
    out: FloatArray,
) -> None:
    """Write to `out`, for evenly spaced directions, the sum of the cells along the way.

    The way is the area that a disc of `radius` sweeps from the robot's centre to `distance`, without the
    half of the disc behind the robot. Direction k of n is at 2 pi k / n in the robot's frame.
    """
    cell = numbers[_CELL]
    n = cells.shape[0]
    half = n // 2
    c = math.cos(state[_YAW])
    s = math.sin(state[_YAW])
    reach = distance + radius
    scale = _scale_k(state, numbers)
    step_c = math.cos(2.0 * math.pi / out.shape[0])
    step_s = math.sin(2.0 * math.pi / out.shape[0])
    home_i = int(state[_I])
    home_j = int(state[_J])
    for k in range(out.shape[0]):
        out[k] = 0.0
    low_i = max(math.floor((state[_X] - reach) / cell), home_i - half)
    high_i = min(math.floor((state[_X] + reach) / cell), home_i + half)
    low_j = max(math.floor((state[_Y] - reach) / cell), home_j - half)
    high_j = min(math.floor((state[_Y] + reach) / cell), home_j + half)
    for j in range(low_j, high_j + 1):
        for i in range(low_i, high_i + 1):
            value = cells[j % n, i % n] * scale
            # Skip cells that have almost decayed, for speed.
            if value < 1e-6:
                continue
            to_x = (i + 0.5) * cell - state[_X]
            to_y = (j + 0.5) * cell - state[_Y]
            if to_x * to_x + to_y * to_y > reach * reach:
                continue
            x = c * to_x + s * to_y
            y = c * to_y - s * to_x
            if _at_leg_k(x, y, legs, numbers):
                continue
            dx = 1.0
            dy = 0.0
            for k in range(out.shape[0]):
                ahead = x * dx + y * dy
                aside = y * dx - x * dy
                beyond = max(ahead - distance, 0.0)
                if ahead >= 0.0 and aside * aside + beyond * beyond <= radius * radius:
                    out[k] += value
                dx, dy = dx * step_c - dy * step_s, dx * step_s + dy * step_c


@kernel
def least_k(costs: FloatArray) -> int:
    """Return the index of the least cost; of equal ones the straightest ahead, then the left one."""
    best = 0
    for k in range(1, costs.shape[0]):
        # In the order 0, 1, n - 1, 2, n - 2, ...; costs that differ by rounding count as equal.
        candidate = (k + 1) // 2 if k % 2 == 1 else costs.shape[0] - k // 2
        if costs[candidate] < costs[best] - 1e-9:
            best = candidate
    return best


@kernel
def likelihood_k(
    vx: float,
    vy: float,
    lookahead: float,
    radius: float,
    legs: FloatArray,
    cells: FloatArray,
    state: FloatArray,
    numbers: FloatArray,
) -> float:
    """Return the mean of the cells in the disc that a velocity in the robot's frame reaches.

    A disc that would leave the map stops at its edge, since unknown space must not count as free.
    """
    inside = max((cells.shape[0] // 2) * numbers[_CELL] - radius, 0.0)
    distance = math.hypot(vx, vy) * lookahead
    share = lookahead if distance <= inside else lookahead * inside / distance
    return mean_k(vx * share, vy * share, radius, legs, cells, state, numbers)


@kernel
def to_grid_k(
    resolution: float,
    legs: FloatArray,
    cells: FloatArray,
    state: FloatArray,
    numbers: FloatArray,
    out: FloatArray,
) -> None:
    """Write the map to the square image `out`, in the robot's frame, by bilinear interpolation."""
    n = cells.shape[0]
    half = n // 2
    c = math.cos(state[_YAW]) / numbers[_CELL]
    s = math.sin(state[_YAW]) / numbers[_CELL]
    scale = _scale_k(state, numbers)
    # The first cell of the map, and its place in the torus.
    size = 2 * half + 1
    first_i, first_j = int(state[_I]) - half, int(state[_J]) - half
    first_column, first_row = first_i % n, first_j % n
    # The robot's position relative to the centre of that cell, in cells.
    start_u = state[_X] / numbers[_CELL] - 0.5 - first_i
    start_v = state[_Y] / numbers[_CELL] - 0.5 - first_j
    middle = 0.5 * out.shape[0]
    for row in range(out.shape[0]):
        y = (row + 0.5 - middle) * resolution
        for column in range(out.shape[1]):
            x = (column + 0.5 - middle) * resolution
            out[row, column] = 0.0
            if _at_leg_k(x, y, legs, numbers):
                continue
            u = start_u + c * x - s * y
            v = start_v + s * x + c * y
            low_i = math.floor(u)
            low_j = math.floor(v)
            value = 0.0
            # All but the border: without the bounds checks of the loop below this takes half as long.
            if 0 <= low_i < size - 1 and 0 <= low_j < size - 1:
                left = first_column + low_i
                left -= n if left >= n else 0
                right = left + 1 if left + 1 < n else 0
                below = first_row + low_j
                below -= n if below >= n else 0
                above = below + 1 if below + 1 < n else 0
                a, b = u - low_i, v - low_j
                value = (1.0 - b) * ((1.0 - a) * cells[below, left] + a * cells[below, right])
                value += b * ((1.0 - a) * cells[above, left] + a * cells[above, right])
                out[row, column] = min(value * scale, 1.0)
                continue
            for j in range(max(low_j, 0), min(low_j + 2, size)):
                beside = 1.0 - abs(v - j)
                at_row = first_row + j
                at_row -= n if at_row >= n else 0
                for i in range(max(low_i, 0), min(low_i + 2, size)):
                    at = first_column + i
                    at -= n if at >= n else 0
                    value += (1.0 - abs(u - i)) * beside * cells[at_row, at]
            out[row, column] = min(value * scale, 1.0)


class CollisionMap:
    """The collision map of one robot.

    Invalid input is counted in `health` and ignored, except that a jump of the pose clears the map. Call
    `reset` when the clock restarts, for example after a reset of the world.
    """

    def __init__(
        self, spec: RobotSpec, params: CollisionMapParams | None = None, health: Health | None = None
    ) -> None:
        """Create an empty map for a kind of robot; its time starts with the first `update` or `move`."""
        self.spec = spec
        self.params = params or CollisionMapParams()
        self.health = Health() if health is None else health
        half = _cells(self.params.extent, self.params.cell)
        self._cells = np.zeros((2 * half + 1, 2 * half + 1))
        self._state = np.zeros(_STATE)
        self._numbers = _numbers(spec, self.params)
        self._no_legs = np.empty((0, 2))
        self._legs = self._no_legs
        self.reset()

    def reset(self) -> None:
        """Clear the map and its clock; a carrier stays on the robot until `release`."""
        self._state[:] = 0.0
        self._state[_STAMP] = math.nan
        _clear_k(self._cells, self._state)

    @property
    def stamp(self) -> float | None:
        """Return the time of the newest pose, None before the first `update` or `move`."""
        stamp = float(self._state[_STAMP])
        return None if math.isnan(stamp) else stamp

    @property
    def pose_odom(self) -> FloatArray:
        """Return the robot's newest pose in the odometry frame."""
        return self._state[_X : _YAW + 1].copy()

    @property
    def carrying(self) -> bool:
        """Return whether the robot carries a carrier, so that its legs are masked."""
        return len(self._legs) > 0

    @property
    def footprint(self) -> float:
        """Return the radius of the circle around the robot and, if it carries one, the carrier."""
        carrier = self.spec.carrier
        if carrier is None or not self.carrying:
            return self.spec.body.bounding_radius
        return math.hypot(carrier.length, carrier.width) / 2

    def snapshot(self) -> CollisionMap:
        """Return an independent copy of the map as it is now, with counters of its own."""
        # copy.copy would take as long as everything else here.
        made = CollisionMap.__new__(CollisionMap)
        made.__dict__.update(self.__dict__)
        made.__dict__.update(_cells=self._cells.copy(), _state=self._state.copy(), health=Health())
        return made

    @property
    def content(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the map's content, for `holding`: cells, state and the legs of a carrier."""
        return self._cells, self._state, self._legs

    @classmethod
    def holding(
        cls, spec: RobotSpec, cells: ArrayLike, state: ArrayLike, legs: ArrayLike = ()
    ) -> CollisionMap:
        """Return a map with the `content` of another one, for example from another process.

        Raises:
            MapError: the sizes do not fit a map of this kind of robot.
        """
        made = cls(spec)
        for name, value in (("_cells", cells), ("_state", state)):
            array = np.array(value, dtype=np.float64).reshape(-1)
            mine = getattr(made, name)
            if array.size != mine.size:
                message = f"collision map {name[1:]}: {array.size} numbers, expected {mine.size}"
                raise MapError(message)
            setattr(made, name, array.reshape(mine.shape))
        feet = np.array(legs, dtype=np.float64).reshape(-1)
        if feet.size % 2:
            message = f"collision map legs: {feet.size} numbers, expected pairs x, y"
            raise MapError(message)
        made._legs = feet.reshape(-1, 2)
        return made

    def update(self, stamp: float, pose_odom: ArrayLike, points_body: ArrayLike) -> None:
        """Enter a sweep of the distance sensors.

        Args:
            stamp: time of the measurement, in seconds. A sweep that is at most `max_late` older than the
                newest pose is entered at its own age.
            pose_odom: of the robot at that time.
            points_body: rows (x, y) in the robot's frame; rows of NaN are skipped.
        """
        pose = self._checked(pose_odom)
        if pose is None:
            return
        points = np.ascontiguousarray(points_body, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 2:
            self.health.refuse("collision_map.points", f"points {points.shape}: expected rows (x, y)")
            return
        verdict, bad = update_k(
            float(stamp), *pose, points, self._legs, self._cells, self._state, self._numbers
        )
        if verdict != _TAKEN:
            self._refuse(verdict, stamp, pose)
        if bad:
            explanation = f"{bad} of {len(points)} points are not finite or inside the robot"
            self.health.refuse("collision_map.points", explanation)

    def move(self, stamp: float, pose_odom: ArrayLike) -> None:
        """Advance the map to a time and a pose between two sweeps, so that queries refer to them."""
        pose = self._checked(pose_odom)
        if pose is None:
            return
        verdict = move_k(float(stamp), *pose, self._cells, self._state, self._numbers)
        if verdict != _TAKEN:
            self._refuse(verdict, stamp, pose)

    def _checked(self, pose_odom: ArrayLike) -> tuple[float, float, float] | None:
        """Return the three numbers of a pose, or None and count it if it is not a pose."""
        try:
            # Tuples are the fast path: they arrive a hundred times a second.
            pose = pose_odom if isinstance(pose_odom, tuple) else np.asarray(pose_odom, np.float64).tolist()
            x, y, yaw = map(float, pose)
        except (TypeError, ValueError):
            self.health.refuse("collision_map.pose", f"pose {pose_odom!r}: expected (x, y, yaw)")
            return None
        return x, y, yaw

    def carry(self, carrier_pose_body: ArrayLike = (0.0, 0.0, 0.0)) -> None:
        """Mask the legs of the carrier that the robot has lifted, until `release`.

        Returns from a leg or from behind it are not entered, those entered before the lift are erased, and
        the cells at the legs count as empty.

        Args:
            carrier_pose_body: of the carrier in the robot's frame.

        Raises:
            MapError: this kind of robot has no carrier.
        """
        carrier = self.spec.carrier
        if carrier is None:
            message = f"carry: robots of kind '{self.spec.kind}' have no `carrier` in their file; add one"
            raise MapError(message)
        pose = np.asarray(carrier_pose_body, dtype=np.float64)
        reach = math.hypot(carrier.length, carrier.width) / 2
        if pose.shape != (3,) or not np.isfinite(pose).all() or math.hypot(pose[0], pose[1]) > reach:
            explanation = f"carrier at {pose}: expected (x, y, yaw) within {reach:.3g} m of the robot"
            self.health.refuse("collision_map.carrier", explanation)
            return
        ahead = carrier.length / 2 - carrier.leg_radius
        left = carrier.width / 2 - carrier.leg_radius
        c, s = math.cos(pose[2]), math.sin(pose[2])
        corners = ((ahead, left), (-ahead, left), (-ahead, -left), (ahead, -left))
        lifted = not self.carrying
        self._legs = np.array([(pose[0] + c * x - s * y, pose[1] + s * x + c * y) for x, y in corners])
        if lifted:
            erase_legs_k(self._legs, self._cells, self._state, self._numbers)

    def release(self) -> None:
        """Unmask the legs: the carrier was put down."""
        self._legs = self._no_legs

    def likelihood(self, v_body: ArrayLike, lookahead_s: float, radius: float | None = None) -> float:
        """Return the likelihood of a collision: the mean of the cells that the velocity leads to.

        Args:
            v_body: (vx, vy), or a twist (vx, vy, omega) whose omega is ignored.
            lookahead_s: seconds to look ahead; the lookahead ends at the edge of the map, see `extent`.
            radius: of the disc in metres, by default `footprint`.

        Returns:
            A number in [0, 1]; 1 for an invalid query, which is counted.
        """
        vx, vy = float(v_body[0]), float(v_body[1])  # type: ignore[index,arg-type]
        size = self.footprint if radius is None else radius
        if not (abs(vx) + abs(vy) < _ABSURD and 0.0 <= lookahead_s < _ABSURD and 0.0 <= size < _ABSURD):
            explanation = (
                f"({vx}, {vy}) m/s for {lookahead_s} s, radius {size} m: expected finite numbers, time and "
                "radius not negative"
            )
            self.health.refuse("collision_map.query", explanation)
            return 1.0
        return likelihood_k(
            vx, vy, float(lookahead_s), float(size), self._legs, self._cells, self._state, self._numbers
        )

    def costs(self, n_directions: int, distance: float) -> FloatArray:
        """Return the sum of the cells that the robot would sweep, for evenly spaced directions.

        Args:
            n_directions: number of directions; k is at 2 pi k / n_directions in the robot's frame.
            distance: length of the way, in metres.

        Raises:
            MapError: `n_directions` is below 1, or `distance` is negative or not finite.
        """
        if n_directions < 1 or not 0.0 <= distance < _ABSURD:
            message = f"{n_directions} directions, {distance} m: expected at least 1 direction and 0 m"
            raise MapError(message)
        out = np.empty(n_directions)
        costs_k(float(distance), self.footprint, self._legs, self._cells, self._state, self._numbers, out)
        return out

    def least_worst(self, n_directions: int, distance: float) -> tuple[float, float]:
        """Return the direction whose way has the lowest sum of cells, and that sum (IV-B4).

        Of equal directions it is the straightest ahead, then the one to the left.

        Raises:
            MapError: `n_directions` is below 1, or `distance` is negative or not finite.
        """
        costs = self.costs(n_directions, distance)
        k = least_k(costs)
        return float(wrap(2.0 * math.pi * k / n_directions)), float(costs[k])

    def clear_directions(self, n_directions: int, distance: float, threshold: float) -> FloatArray:
        """Return the directions whose way has a mean of cells of at most `threshold`.

        Raises:
            MapError: `n_directions` is below 1, or `distance` is negative or not finite.
        """
        costs = self.costs(n_directions, distance)
        swept = 2.0 * self.footprint * distance + math.pi * self.footprint**2 / 2
        means = costs * self.params.cell**2 / swept
        return np.array([wrap(2.0 * math.pi * k / n_directions) for k in np.flatnonzero(means <= threshold)])

    def as_grid(self, resolution: float | None = None) -> FloatArray:
        """Return the map as a square image in the robot's frame, with values in [0, 1].

        Rows go along y and columns along x, as in an OccupancyGrid: with m rows, the centre of
        `grid[row, column]` is at x = (column + 0.5 - m / 2) resolution, y = (row + 0.5 - m / 2) resolution.

        Args:
            resolution: edge of a pixel in metres, by default that of a cell.

        Raises:
            MapError: the resolution is not between `extent` / 1000 and `extent`.
        """
        pixel = self.params.cell if resolution is None else resolution
        extent = self.params.extent
        if not extent / _MOST_CELLS <= pixel <= extent:
            message = f"resolution {pixel}: it must be between {extent / _MOST_CELLS} and {extent}"
            raise MapError(message)
        size = 2 * _cells(extent, pixel)
        out = np.empty((size, size))
        to_grid_k(float(pixel), self._legs, self._cells, self._state, self._numbers, out)
        return out

    def _refuse(self, verdict: int, stamp: float, pose: Sequence[float]) -> None:
        """Count input that `move_k` or `update_k` rejected."""
        newest = self._state[_STAMP]
        if verdict == _BAD_STAMP:
            self.health.refuse("collision_map.stamp", f"stamp {stamp}: expected a finite number of seconds")
        elif verdict == _BACKWARDS:
            explanation = f"stamp {stamp} is before {newest}: time must not go back"
            self.health.refuse("collision_map.backwards", explanation)
        elif verdict == _BAD_POSE:
            explanation = f"pose {pose} at {stamp}: expected finite numbers near the newest pose"
            self.health.refuse("collision_map.pose", explanation)
        else:
            explanation = f"pose jumped to {pose} at {stamp}, beyond the robot's limits: map cleared"
            self.health.refuse("collision_map.jump", explanation)


def _cells(extent: float, cell: float) -> int:
    """Return the number of cells from the centre to the edge, robust to rounding of `extent / cell`."""
    return math.ceil(extent / cell - 1e-9)


def _numbers(spec: RobotSpec, params: CollisionMapParams) -> FloatArray:
    """Return the numbers of the map and the robot, for the kernels."""
    numbers = np.zeros(_NUMBERS)
    numbers[_CELL] = params.cell
    numbers[_RATE] = params.decay_rate
    numbers[_SIGMA] = params.sensor_sigma
    numbers[_REACH] = params.reach
    numbers[_LATE] = params.max_late
    numbers[_SPEED] = params.jump_factor * spec.limits.speed
    numbers[_STEP] = params.jump_distance
    numbers[_YAW_RATE] = params.jump_factor * spec.limits.yaw_rate
    numbers[_TURN] = params.jump_turn
    # Sensors sit near the edge of the body: no return lies deep inside it.
    numbers[_BODY] = spec.body.bounding_radius / 2
    if spec.ranges:
        ring = max(spec.ranges, key=lambda ring: ring.field_of_view)
        numbers[_MOUNT] = ring.mount_radius
        numbers[_HALF_VIEW] = ring.field_of_view / 2
    if spec.carrier is not None:
        numbers[_LEG] = spec.carrier.leg_radius + params.leg_slack
        numbers[_LEG_MASK] = numbers[_LEG] + params.sensor_sigma
    return numbers
