"""Ways: they keep clear of everything, are about as short as they can be, and none is found where none is."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.floor_plan import FloorPlan
from swarmbed_core.planner import Clearance, open_floor

CELL = 0.05
NEED = 0.165


def floor(*walls, size=4.0):
    """A square floor with a rim, and walls as rectangles x1, y1, x2, y2."""
    n = round(size / CELL)
    cells = np.zeros((n, n), np.int8)
    cells[[0, -1]] = cells[:, [0, -1]] = 100
    for x1, y1, x2, y2 in walls:
        cells[round(y1 / CELL) : round(y2 / CELL), round(x1 / CELL) : round(x2 / CELL)] = 100
    return FloorPlan(cells, (0.0, 0.0), CELL)


def length(way):
    return float(np.hypot(*np.diff(way, axis=0).T).sum())


def along(way):
    parts = [np.linspace(a, b, 50) for a, b in itertools.pairwise(way)]
    return np.vstack(parts)


def test_where_all_is_free_the_way_is_straight():
    way = Clearance(floor(), 0.4).way((0.5, 0.5), (3.5, 2.0), NEED)
    assert way.tolist() == [[0.5, 0.5], [3.5, 2.0]]


def test_round_a_wall_with_room_to_it():
    clearance = Clearance(floor((1.9, 0.0, 2.0, 3.0)), 0.4)
    way = clearance.way((1.0, 1.0), (3.0, 1.0), NEED)
    assert (way[0].tolist(), way[-1].tolist()) == ([1.0, 1.0], [3.0, 1.0])
    assert way[:, 1].max() > 3.1
    assert min(clearance.at(*place) for place in along(way)) >= NEED - 0.5 * CELL
    shortest = 2 * math.hypot(1.0, 2.15)
    assert shortest < length(way) < 1.15 * shortest
    assert clearance.is_free(way, NEED - 0.5 * CELL)


def test_no_way_leads_through_what_is_closed_or_too_narrow():
    assert Clearance(floor((1.9, 0.0, 2.0, 4.0)), 0.4).way((1.0, 1.0), (3.0, 1.0), NEED) is None
    gap = floor((1.9, 0.0, 2.0, 2.0), (1.9, 2.25, 2.0, 4.0))
    assert Clearance(gap, 0.4).way((1.0, 1.0), (3.0, 1.0), NEED) is None
    assert Clearance(gap, 0.4).way((1.0, 1.0), (3.0, 1.0), 0.08) is not None


@pytest.mark.parametrize("place", [(9.0, 1.0), (-0.1, 1.0), (1.0, 4.01)])
def test_there_is_no_way_off_the_floor(place):
    assert Clearance(floor(), 0.4).way((1.0, 1.0), place, NEED) is None
    assert Clearance(floor(), 0.4).at(*place) == 0.0


def test_what_is_seen_is_in_the_way_until_it_is_not():
    clearance = Clearance(floor(), 0.4)
    straight = clearance.way((0.5, 2.0), (3.5, 2.0), NEED)
    post = np.array([[2.0, 2.0], [2.02, 2.0], [math.nan, 1.0], [1e12, 0.0]])
    clearance.see(post)
    assert clearance.at(2.0, 2.0) < 0.05
    assert clearance.fixed_at(2.0, 2.0) == pytest.approx(0.4)
    assert not clearance.is_free(straight, NEED)
    way = clearance.way((0.5, 2.0), (3.5, 2.0), NEED)
    assert np.hypot(*(along(way) - [2.0, 2.0]).T).min() >= NEED - 0.5 * CELL
    assert clearance.cost_of(straight, NEED) > clearance.cost_of(way, NEED)
    assert clearance.way((0.5, 2.0), (3.5, 2.0), NEED, fixed=True).tolist() == straight.tolist()
    assert clearance.seen_near(straight, 2.0, 0.2)
    assert not clearance.seen_near(straight, 1.0, 0.2), "that far it does not look"
    clearance.see(np.empty((0, 2)))
    assert clearance.is_free(straight, NEED)


def test_points_may_lie_outside_of_what_was_seen():
    clearance = Clearance(floor(), 0.4)
    clearance.see(np.array([[2.025, 2.025]]), spread=0.1)
    assert clearance.at(2.225, 2.025) == pytest.approx(0.3, abs=1e-6)


def test_a_robot_that_stands_too_near_gets_away_and_comes_no_nearer():
    clearance = Clearance(floor(), 0.4)
    clearance.see(np.array([[1.0, 1.12]]))
    start = (1.0, 1.0)
    assert clearance.at(*start) < NEED
    way = clearance.way(start, (1.0, 3.0), NEED)
    near = [np.hypot(x - 1.0, y - 1.12) for x, y in along(way)]
    assert min(near) > 0.12 - CELL
    assert clearance.is_free(way, NEED - 0.5 * CELL)
    assert not clearance.is_free(np.array([start, (1.0, 3.0)]), NEED)


def test_unknown_cells_are_free_and_an_open_floor_has_nothing_on_it():
    cells = floor().cells.copy()
    cells[30:50, 30:50] = -1
    assert Clearance(FloorPlan(cells, (0.0, 0.0), CELL), 0.4).way((0.5, 0.5), (3.5, 3.5), NEED) is not None
    plan = open_floor(np.array([-1.0, 2.0]), np.array([1.0, 3.0]), 0.1)
    assert (plan.cells.shape, plan.origin, plan.cells.any()) == ((10, 20), (-1.0, 2.0), False)
    assert Clearance(plan, 0.3).at(0.0, 2.5) == pytest.approx(0.3)


place = st.floats(0.3, 3.7)


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.lists(st.tuples(place, place), max_size=12), place, place, place, place)
def test_every_way_that_is_found_is_free(posts, x1, y1, x2, y2):
    clearance = Clearance(floor(), 0.4)
    clearance.see(np.array(posts).reshape(-1, 2))
    way = clearance.way((x1, y1), (x2, y2), NEED)
    if way is None:
        return
    assert (way[0].tolist(), way[-1].tolist()) == ([x1, y1], [x2, y2])
    assert clearance.is_free(way, NEED - CELL)
    here = min(clearance.at(x1, y1), NEED)
    for x, y in along(way):
        enough = here if math.hypot(x - x1, y - y1) < 0.35 else NEED
        assert all(math.hypot(x - a, y - b) > enough - 1.5 * CELL for a, b in posts)
