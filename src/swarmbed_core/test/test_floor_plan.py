"""Floor plans: what stands somewhere is on the cells that it covers, and on no others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.arena import Arena
from swarmbed_core.errors import MapError
from swarmbed_core.floor_plan import (
    MARGIN,
    MOST_CELLS,
    OCCUPIED,
    draw_segments_k,
    floor_plan,
)
from swarmbed_core.scenario import BoxObstacle, CylinderObstacle


def arena(**fields):
    return Arena.model_validate({"version": 1, "title": "a floor", **fields})


def at(plan, x, y):
    assert plan.holds(x, y)
    column = math.floor((x - plan.origin[0]) / plan.resolution)
    row = math.floor((y - plan.origin[1]) / plan.resolution)
    return plan.cells[row, column]


def test_outer_walls_run_through_the_outermost_cells():
    plan = floor_plan(arena(size=[5.0, 3.0]), resolution=0.05)
    assert plan.cells.shape == (61, 101)
    assert plan.origin == pytest.approx((-2.525, -1.525))
    rim = np.ones_like(plan.cells, dtype=bool)
    rim[1:-1, 1:-1] = False
    assert (plan.cells[rim] == OCCUPIED).all()
    assert (plan.cells[~rim] == 0).all()
    assert not plan.holds(2.6, 0.0)


def test_boxes_and_cylinders_are_filled():
    box = BoxObstacle(shape="box", size=(0.8, 0.4), pose=(1.0, 0.0, math.pi / 4))
    post = CylinderObstacle(shape="cylinder", radius=0.2, pose=(-1.0, 0.5, 0.0))
    plan = floor_plan(arena(size=[5.0, 5.0]), [box, post], 0.02)
    step = 0.25 * math.sqrt(0.5)
    for x, y in ((1.0, 0.0), (1.0 + step, step), (1.0 - step, -step), (-1.0, 0.5), (-0.82, 0.5)):
        assert at(plan, x, y) == OCCUPIED, (x, y)
    for x, y in ((1.0 + step, -step), (1.4, -0.1), (-0.75, 0.5), (-1.16, 0.66), (0.0, 0.0)):
        assert at(plan, x, y) == 0, (x, y)


def test_without_outer_walls_there_is_floor_around_all_there_is():
    plan = floor_plan(arena(walls=[[0.0, 0.0, 1.0, 0.0]]), places=[(4.0, -2.0, 0.3)])
    assert plan.holds(-MARGIN + 0.1, MARGIN - 0.1)
    assert plan.holds(3.9 + MARGIN, -1.9 - MARGIN)
    assert not plan.holds(-MARGIN - 0.1, 0.0)
    assert at(plan, 0.5, 0.0) == OCCUPIED
    assert np.count_nonzero(floor_plan(arena()).cells) == 0


def test_a_vast_floor_has_larger_cells():
    plan = floor_plan(arena(size=[1000.0, 1000.0]), resolution=0.05)
    assert plan.cells.size <= 1.01 * MOST_CELLS
    assert plan.resolution == pytest.approx(0.5)
    assert at(plan, 499.9, 0.0) == OCCUPIED


@pytest.mark.parametrize("resolution", [0.0, -1.0, math.nan, math.inf])
def test_cells_have_a_size(resolution):
    with pytest.raises(MapError, match=f"{resolution}"):
        floor_plan(arena(), resolution=resolution)


place = st.floats(-0.95, 0.95)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(place, place, place, place)
def test_a_wall_is_on_every_cell_it_runs_through_and_on_none_farther(x1, y1, x2, y2):
    cells = np.zeros((20, 20), np.int8)
    if math.hypot(x2 - x1, y2 - y1) < 1e-6:
        return
    draw_segments_k(np.array([[x1, y1, x2, y2]]), -1.0, -1.0, 0.1, cells)
    share = np.linspace(0.0, 1.0, 400)
    columns = np.floor((x1 + share * (x2 - x1) + 1.0) / 0.1).astype(int)
    rows = np.floor((y1 + share * (y2 - y1) + 1.0) / 0.1).astype(int)
    assert (cells[rows, columns] == OCCUPIED).all()
    for row, column in np.argwhere(cells):
        x, y = -0.95 + 0.1 * column, -0.95 + 0.1 * row
        along = np.clip(
            ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / math.hypot(x2 - x1, y2 - y1) ** 2, 0, 1
        )
        assert math.hypot(x1 + along * (x2 - x1) - x, y1 + along * (y2 - y1) - y) < 0.0708
