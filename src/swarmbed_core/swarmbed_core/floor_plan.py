"""Floor plans: occupancy grids of a floor, as arrays in the layout of nav_msgs/OccupancyGrid.

`floor_plan` creates one from an arena and its static obstacles. A cell is occupied if a wall, the side of a
box or the rim of a cylinder runs through it, or if it lies inside an obstacle. The outer walls run through
the centres of the outermost cells. Without outer walls, the plan extends `MARGIN` beyond its contents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.errors import MapError
from swarmbed_core.kernel import kernel
from swarmbed_core.raycast import box_segments
from swarmbed_core.scenario import BoxObstacle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from swarmbed_core.arena import Arena
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scenario import Obstacle

    CellArray = NDArray[np.int8]

FREE, OCCUPIED, UNKNOWN = 0, 100, -1
"""Cell values of OccupancyGrid."""
RESOLUTION = 0.05
MARGIN = 5.0
"""Metres of floor around everything, in arenas without outer walls."""
MOST_CELLS = 4_000_000
"""Limit of the number of cells: a larger floor gets larger cells."""


@dataclass(frozen=True, eq=False)
class FloorPlan:
    """A floor plan.

    Attributes:
        cells: from 0, free, to 100, occupied; -1 is unknown. Rows go along y, columns along x.
        origin: x and y of the first cell's lower left corner, in metres.
        resolution: edge of a cell in metres.
    """

    cells: CellArray
    origin: tuple[float, float]
    resolution: float

    def holds(self, x: float, y: float) -> bool:
        """Return whether a point lies on the plan."""
        rows, columns = self.cells.shape
        column, row = (x - self.origin[0]) / self.resolution, (y - self.origin[1]) / self.resolution
        return bool(0 <= row < rows and 0 <= column < columns)


def floor_plan(
    arena: Arena,
    obstacles: Sequence[Obstacle] = (),
    resolution: float = RESOLUTION,
    places: Iterable[Sequence[float]] = (),
) -> FloorPlan:
    """Return the plan of an arena.

    Args:
        arena: its walls.
        obstacles: static obstacles.
        resolution: edge of a cell in metres; a floor of more than `MOST_CELLS` gets larger ones.
        places: points that the plan must include, such as robots; ignored in an arena with outer walls.

    Raises:
        MapError: the resolution is not a positive finite number.
    """
    if not 0.0 < resolution < math.inf:
        message = f"floor plan: resolution {resolution} must be a positive number of metres"
        raise MapError(message)
    boxes = [item for item in obstacles if isinstance(item, BoxObstacle)]
    discs = np.array(
        [(*item.pose[:2], item.radius) for item in obstacles if not isinstance(item, BoxObstacle)]
    ).reshape(-1, 3)
    segments = np.vstack(
        [arena.segments(), *(box_segments(np.array(item.pose), *item.size) for item in boxes)]
    )
    if arena.size is not None:
        ends = np.array(arena.size) / 2
        low, high = -ends, ends
    else:
        rims = discs[:, :2, None] + discs[:, 2, None, None] * np.array([-1.0, 1.0])
        corners = np.vstack(
            [segments.reshape(-1, 2), rims.transpose(0, 2, 1).reshape(-1, 2)]
            + [np.array(place[:2], dtype=np.float64).reshape(1, 2) for place in places]
        )
        if not len(corners):
            corners = np.zeros((1, 2))
        low, high = corners.min(axis=0) - MARGIN, corners.max(axis=0) + MARGIN
    resolution = max(resolution, math.sqrt(float(np.prod(high - low)) / MOST_CELLS))
    columns, rows = (math.floor(side / resolution + 1e-6) + 1 for side in (high - low).tolist())
    x, y = (low - resolution / 2).tolist()
    cells = np.zeros((rows, columns), np.int8)
    draw_segments_k(np.ascontiguousarray(segments), x, y, resolution, cells)
    solids = np.array([(*item.pose, *item.size) for item in boxes], dtype=np.float64).reshape(-1, 5)
    fill_k(solids, discs, x, y, resolution, cells)
    return FloorPlan(cells, (x, y), resolution)


@kernel
def draw_segments_k(segments: FloatArray, x: float, y: float, cell: float, cells: CellArray) -> None:
    """Mark the cells that segments run through, or touch.

    Args:
        segments: rows of x1, y1, x2, y2.
        x: of the first cell's corner, with `y`.
        y: see x.
        cell: edge of a cell.
        cells: the grid, modified in place.
    """
    touch = 1e-9 * cell
    for k in range(segments.shape[0]):
        x1, y1 = segments[k, 0] - x, segments[k, 1] - y
        x2, y2 = segments[k, 2] - x, segments[k, 3] - y
        length = math.hypot(x2 - x1, y2 - y1)
        if not length > 0.0:
            continue
        # The segment's normal, and how far a cell's corners extend along it.
        nx, ny = (y1 - y2) / length, (x2 - x1) / length
        reach = 0.5 * cell * (abs(nx) + abs(ny)) + touch
        first_row = max(math.floor((min(y1, y2) - touch) / cell), 0)
        last_row = min(math.floor((max(y1, y2) + touch) / cell), cells.shape[0] - 1)
        first_column = max(math.floor((min(x1, x2) - touch) / cell), 0)
        last_column = min(math.floor((max(x1, x2) + touch) / cell), cells.shape[1] - 1)
        for row in range(first_row, last_row + 1):
            off_y = (row + 0.5) * cell - y1
            for column in range(first_column, last_column + 1):
                off_x = (column + 0.5) * cell - x1
                if abs(nx * off_x + ny * off_y) <= reach:
                    cells[row, column] = 100


@kernel
def fill_k(boxes: FloatArray, discs: FloatArray, x: float, y: float, cell: float, cells: CellArray) -> None:
    """Mark the cells whose centre lies in a box or that a disc touches.

    Args:
        boxes: rows of x, y, yaw, length, width.
        discs: rows of x, y, radius.
        x: of the first cell's corner, with `y`.
        y: see x.
        cell: edge of a cell.
        cells: the grid, modified in place.
    """
    for k in range(boxes.shape[0]):
        c, s = math.cos(boxes[k, 2]), math.sin(boxes[k, 2])
        reach = 0.5 * math.hypot(boxes[k, 3], boxes[k, 4])
        for row in range(
            max(math.floor((boxes[k, 1] - reach - y) / cell), 0),
            min(math.floor((boxes[k, 1] + reach - y) / cell), cells.shape[0] - 1) + 1,
        ):
            off_y = y + (row + 0.5) * cell - boxes[k, 1]
            for column in range(
                max(math.floor((boxes[k, 0] - reach - x) / cell), 0),
                min(math.floor((boxes[k, 0] + reach - x) / cell), cells.shape[1] - 1) + 1,
            ):
                off_x = x + (column + 0.5) * cell - boxes[k, 0]
                ahead, left = c * off_x + s * off_y, c * off_y - s * off_x
                if abs(ahead) <= 0.5 * boxes[k, 3] and abs(left) <= 0.5 * boxes[k, 4]:
                    cells[row, column] = 100
    for k in range(discs.shape[0]):
        radius = discs[k, 2]
        for row in range(
            max(math.floor((discs[k, 1] - radius - y) / cell), 0),
            min(math.floor((discs[k, 1] + radius - y) / cell), cells.shape[0] - 1) + 1,
        ):
            off_y = max(abs(y + (row + 0.5) * cell - discs[k, 1]) - 0.5 * cell, 0.0)
            for column in range(
                max(math.floor((discs[k, 0] - radius - x) / cell), 0),
                min(math.floor((discs[k, 0] + radius - x) / cell), cells.shape[1] - 1) + 1,
            ):
                off_x = max(abs(x + (column + 0.5) * cell - discs[k, 0]) - 0.5 * cell, 0.0)
                if off_x * off_x + off_y * off_y <= radius * radius:
                    cells[row, column] = 100
