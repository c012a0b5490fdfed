"""Path planning on a floor plan: the cheapest route for a round robot, and whether a route is still free.

A `Clearance` holds the distance from each cell's centre to the nearest obstacle, of the floor plan or seen.
A robot may be wherever this distance exceeds its radius. The route comes from A* over the cells. Near
obstacles a metre costs up to `NEAR` times as much, so that routes keep away from them where there is room.
Afterwards, corners that a straight line makes unnecessary are removed.

A robot that already stands too close to an obstacle must be able to get away: within `ESCAPE` of its start
the clearance only has to be as large as at the start.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.ndimage import distance_transform_edt

from swarmbed_core.floor_plan import OCCUPIED, FloorPlan
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray

    IntArray = NDArray[np.int64]

BLOCKED = OCCUPIED // 2
"""Value from which a cell of a floor plan counts as occupied; unknown cells count as free."""
COMFORT = 0.2
"""Metres beyond the required clearance within which a metre costs more."""
NEAR = 4.0
"""Cost of a metre at the required clearance, relative to one in the open."""
ESCAPE = 0.3
"""Metres from the start within which the clearance at the start is enough."""
SLIP = 1e-3
"""Metres by which the clearance may fall below that of the start while the robot gets away."""
_DIAGONAL = math.sqrt(2.0)


class Clearance:
    """Distances from all cells of a floor plan to the nearest obstacle, up to a reach.

    Attributes:
        plan: the floor plan.
        reach: [m] larger distances are stored as this value.
        field: [m] distance from each cell's centre to the nearest obstacle.
    """

    def __init__(self, plan: FloorPlan, reach: float) -> None:
        """Compute the distances to the obstacles of a floor plan."""
        self.plan = plan
        self.reach = reach
        occupied = plan.cells >= BLOCKED
        if occupied.any():
            away = distance_transform_edt(~occupied, sampling=plan.resolution)
            self._fixed = np.minimum(away, reach).astype(np.float64)
        else:
            self._fixed = np.full(plan.cells.shape, reach)
        self.field = self._fixed.copy()

    def see(self, points: FloatArray, spread: float = 0.0) -> None:
        """Replace the seen obstacles.

        Args:
            points: rows of x, y in the plan's frame.
            spread: [m] how far the points lie outside the obstacles.
        """
        self.field[:] = self._fixed
        near_k(points, *self.plan.origin, self.plan.resolution, self.reach, spread, self.field)

    def fixed_at(self, x: float, y: float) -> float:
        """Return the distance of a point to the floor plan's obstacles; 0 outside the plan."""
        return self._at(self._fixed, x, y)

    def at(self, x: float, y: float) -> float:
        """Return the distance of a point to all obstacles; 0 outside the plan."""
        return self._at(self.field, x, y)

    def _at(self, field: FloatArray, x: float, y: float) -> float:
        return float(clearance_k(x, y, field, *self.plan.origin, self.plan.resolution))

    def fixed_of(self, points: FloatArray) -> FloatArray:
        """Return the distances of points to the floor plan's obstacles; 0 outside the plan."""
        out = np.empty(len(points))
        clearances_k(points, self._fixed, *self.plan.origin, self.plan.resolution, out)
        return out

    def way(
        self, start: tuple[float, float], goal: tuple[float, float], need: float, *, fixed: bool = False
    ) -> FloatArray | None:
        """Return a route as rows of x, y from start to goal, None if there is none.

        Args:
            start: position of the robot.
            goal: position to reach.
            need: [m] clearance required everywhere.
            fixed: whether to ignore the seen obstacles.
        """
        field = self._fixed if fixed else self.field
        plan = self.plan
        rows, columns = field.shape
        if not (plan.holds(*start) and plan.holds(*goal)):
            return None
        x, y = plan.origin
        cell = plan.resolution
        begin = math.floor((start[1] - y) / cell) * columns + math.floor((start[0] - x) / cell)
        end = math.floor((goal[1] - y) / cell) * columns + math.floor((goal[0] - x) / cell)
        came = np.full(rows * columns, -1, np.int64)
        if not search_k(field, cell, begin, end, need, came):
            return None
        found = [end]
        while found[-1] != begin:
            found.append(int(came[found[-1]]))
        cells = np.array(found[::-1])
        middles = np.column_stack([x + (cells % columns + 0.5) * cell, y + (cells // columns + 0.5) * cell])
        places = np.vstack([[start], middles[1:-1], [goal]]).astype(np.float64)
        keep = np.zeros(len(places), np.bool_)
        straighten_k(places, field, x, y, cell, need + COMFORT, keep)
        return places[keep]

    def seen_near(self, way: FloatArray, ahead: float, away: float) -> bool:
        """Return whether a seen obstacle is nearer than `away` to the first `ahead` metres of a route."""
        return bool(
            seen_near_k(way, self._fixed, self.field, *self.plan.origin, self.plan.resolution, ahead, away)
        )

    def cost_of(self, way: FloatArray, need: float) -> float:
        """Return the cost of a route: its length in metres, weighted near obstacles."""
        return float(cost_k(way, self.field, *self.plan.origin, self.plan.resolution, need))

    def is_free(self, way: FloatArray, need: float) -> bool:
        """Return whether a route (rows of x, y, the robot's position first) has the clearance it needs."""
        return bool(free_k(way, self.field, *self.plan.origin, self.plan.resolution, need))


def open_floor(low: FloatArray, high: FloatArray, resolution: float) -> FloorPlan:
    """Return the plan of an empty floor with two opposite corners at `low` and `high`."""
    columns, rows = (math.ceil(side / resolution) for side in (high - low).tolist())
    return FloorPlan(np.zeros((rows, columns), np.int8), (float(low[0]), float(low[1])), resolution)


@kernel
def near_k(
    points: FloatArray, x: float, y: float, cell: float, reach: float, spread: float, field: FloatArray
) -> None:
    """Lower the clearance of the cells around points, which lie `spread` metres outside the obstacles."""
    span = math.ceil(reach / cell)
    for k in range(points.shape[0]):
        u, v = (points[k, 0] - x) / cell, (points[k, 1] - y) / cell
        if not (abs(u) < 1e9 and abs(v) < 1e9):
            continue
        middle_column, middle_row = math.floor(u), math.floor(v)
        for row in range(max(middle_row - span, 0), min(middle_row + span + 1, field.shape[0])):
            off_y = (row + 0.5 - v) * cell
            for column in range(max(middle_column - span, 0), min(middle_column + span + 1, field.shape[1])):
                off_x = (column + 0.5 - u) * cell
                away = math.sqrt(off_x * off_x + off_y * off_y) + spread
                field[row, column] = min(field[row, column], away)


@kernel
def clearance_k(place_x: float, place_y: float, field: FloatArray, x: float, y: float, cell: float) -> float:
    """Return the clearance at a point, interpolated between cell centres; 0 outside."""
    u, v = (place_x - x) / cell, (place_y - y) / cell
    rows, columns = field.shape
    if not (0.0 <= u < columns and 0.0 <= v < rows):
        return 0.0
    u, v = min(max(u - 0.5, 0.0), columns - 1.0), min(max(v - 0.5, 0.0), rows - 1.0)
    column, row = min(int(u), columns - 1), min(int(v), rows - 1)
    right, above = min(column + 1, columns - 1), min(row + 1, rows - 1)
    a, b = u - column, v - row
    low = (1.0 - a) * field[row, column] + a * field[row, right]
    high = (1.0 - a) * field[above, column] + a * field[above, right]
    value: float = (1.0 - b) * low + b * high
    return value


@kernel
def clearances_k(
    points: FloatArray, field: FloatArray, x: float, y: float, cell: float, out: FloatArray
) -> None:
    """Write the clearances at points."""
    for k in range(points.shape[0]):
        out[k] = clearance_k(points[k, 0], points[k, 1], field, x, y, cell)


@kernel
def _push_k(keys: FloatArray, nodes: IntArray, count: int, key: float, node: int) -> None:
    """Insert a node into a heap of `count` nodes."""
    at = count
    while at > 0:
        parent = (at - 1) // 2
        if keys[parent] <= key:
            break
        keys[at], nodes[at] = keys[parent], nodes[parent]
        at = parent
    keys[at], nodes[at] = key, node


@kernel
def _pop_k(keys: FloatArray, nodes: IntArray, count: int) -> int:
    """Remove the node with the least key from a heap of `count` nodes, and return it."""
    node = nodes[0]
    last, key = nodes[count - 1], keys[count - 1]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count - 1:
            break
        if child + 1 < count - 1 and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[at], nodes[at] = keys[child], nodes[child]
        at = child
    keys[at], nodes[at] = key, last
    return int(node)


@kernel
def search_k(field: FloatArray, cell: float, begin: int, end: int, need: float, came: IntArray) -> bool:
    """Find the cheapest route between two cells by A*; return whether there is one.

    Args:
        field: clearance of the cells.
        cell: edge of a cell.
        begin: index of the first cell: row times columns plus column.
        end: index of the last cell.
        need: clearance required of each cell of the route.
        came: predecessor of each cell on the cheapest route to it; filled.
    """
    rows, columns = field.shape
    begin_row, begin_column = begin // columns, begin % columns
    end_row, end_column = end // columns, end % columns
    # A robot that starts with less clearance than needed may keep that clearance while it gets away.
    here = min(field[begin_row, begin_column], need)
    around = (ESCAPE / cell) ** 2
    costs = np.full(rows * columns, math.inf)
    done = np.zeros(rows * columns, np.bool_)
    room = 1024
    keys, nodes = np.empty(room), np.empty(room, np.int64)
    costs[begin] = 0.0
    keys[0], nodes[0] = 0.0, begin
    count = 1
    while count > 0:
        node = _pop_k(keys, nodes, count)
        count -= 1
        if node == end:
            return True
        if done[node]:
            continue
        done[node] = True
        row, column = node // columns, node % columns
        for step_row in range(-1, 2):
            for step_column in range(-1, 2):
                to_row, to_column = row + step_row, column + step_column
                if not (0 <= to_row < rows and 0 <= to_column < columns):
                    continue
                to = to_row * columns + to_column
                if done[to]:
                    continue
                clear = field[to_row, to_column]
                if clear < need:
                    off = (to_row - begin_row) ** 2 + (to_column - begin_column) ** 2
                    if off > around or clear < here - SLIP:
                        continue
                way = _DIAGONAL if step_row != 0 and step_column != 0 else 1.0
                short = min(max((need + COMFORT - clear) / COMFORT, 0.0), 1.0)
                cost = costs[node] + way * (1.0 + (NEAR - 1.0) * short * short)
                if cost >= costs[to]:
                    continue
                costs[to] = cost
                came[to] = node
                dx, dy = abs(to_column - end_column), abs(to_row - end_row)
                left = max(dx, dy) + (_DIAGONAL - 1.0) * min(dx, dy)
                if count == room:
                    room *= 2
                    more_keys, more_nodes = np.empty(room), np.empty(room, np.int64)
                    more_keys[:count], more_nodes[:count] = keys, nodes
                    keys, nodes = more_keys, more_nodes
                _push_k(keys, nodes, count, cost + left, to)
                count += 1
    return False


@kernel
def least_k(
    from_x: float, from_y: float, to_x: float, to_y: float, field: FloatArray, x: float, y: float, cell: float
) -> float:
    """Return the least clearance along a straight line."""
    steps = max(math.ceil(math.hypot(to_x - from_x, to_y - from_y) / (0.5 * cell)), 1)
    least = math.inf
    for k in range(steps + 1):
        share = k / steps
        here = clearance_k(
            from_x + share * (to_x - from_x), from_y + share * (to_y - from_y), field, x, y, cell
        )
        least = min(least, here)
    return least


@kernel
def straighten_k(
    places: FloatArray,
    field: FloatArray,
    x: float,
    y: float,
    cell: float,
    enough: float,
    keep: NDArray[np.bool_],
) -> None:
    """Mark the points of a route to keep when straight lines replace parts of it.

    A line replaces a part of the route if its clearance is nowhere less than that part's least clearance or,
    if that is smaller, `enough`.
    """
    last = places.shape[0] - 1
    keep[0] = True
    at = 0
    while at < last:
        best = at + 1
        part = min(
            clearance_k(places[at, 0], places[at, 1], field, x, y, cell),
            clearance_k(places[best, 0], places[best, 1], field, x, y, cell),
        )
        for to in range(at + 2, last + 1):
            part = min(part, clearance_k(places[to, 0], places[to, 1], field, x, y, cell))
            line = least_k(places[at, 0], places[at, 1], places[to, 0], places[to, 1], field, x, y, cell)
            if line >= min(part - 0.1 * cell, enough):
                best = to
        keep[best] = True
        at = best


@kernel
def seen_near_k(
    way: FloatArray,
    fixed: FloatArray,
    field: FloatArray,
    x: float,
    y: float,
    cell: float,
    ahead: float,
    away: float,
) -> bool:
    """Return whether a seen obstacle is nearer than `away` to the first `ahead` metres of a route."""
    gone = 0.0
    for k in range(way.shape[0] - 1):
        length = math.hypot(way[k + 1, 0] - way[k, 0], way[k + 1, 1] - way[k, 1])
        steps = max(math.ceil(length / cell), 1)
        for i in range(steps + 1):
            share = i / steps
            if gone + share * length > ahead:
                return False
            at_x = way[k, 0] + share * (way[k + 1, 0] - way[k, 0])
            at_y = way[k, 1] + share * (way[k + 1, 1] - way[k, 1])
            clear = clearance_k(at_x, at_y, field, x, y, cell)
            if clear < away and clear < clearance_k(at_x, at_y, fixed, x, y, cell):
                return True
        gone += length
    return False


@kernel
def cost_k(way: FloatArray, field: FloatArray, x: float, y: float, cell: float, need: float) -> float:
    """Return the cost of a route: its length in metres, weighted near obstacles."""
    total = 0.0
    for k in range(way.shape[0] - 1):
        length = math.hypot(way[k + 1, 0] - way[k, 0], way[k + 1, 1] - way[k, 1])
        steps = max(math.ceil(length / cell), 1)
        for i in range(steps):
            share = (i + 0.5) / steps
            clear = clearance_k(
                way[k, 0] + share * (way[k + 1, 0] - way[k, 0]),
                way[k, 1] + share * (way[k + 1, 1] - way[k, 1]),
                field,
                x,
                y,
                cell,
            )
            short = min(max((need + COMFORT - clear) / COMFORT, 0.0), 1.0)
            total += length / steps * (1.0 + (NEAR - 1.0) * short * short)
    return total


@kernel
def free_k(way: FloatArray, field: FloatArray, x: float, y: float, cell: float, need: float) -> bool:
    """Return whether a route has enough clearance; near its start, that of the start is enough."""
    here = min(clearance_k(way[0, 0], way[0, 1], field, x, y, cell), need)
    for k in range(way.shape[0] - 1):
        length = math.hypot(way[k + 1, 0] - way[k, 0], way[k + 1, 1] - way[k, 1])
        steps = max(math.ceil(length / (0.5 * cell)), 1)
        for i in range(steps + 1):
            share = i / steps
            at_x = way[k, 0] + share * (way[k + 1, 0] - way[k, 0])
            at_y = way[k, 1] + share * (way[k + 1, 1] - way[k, 1])
            clear = clearance_k(at_x, at_y, field, x, y, cell)
            if clear < need:
                near = math.hypot(at_x - way[0, 0], at_y - way[0, 1]) <= ESCAPE
                if not near or clear < here - 0.5 * cell:
                    return False
    return True
