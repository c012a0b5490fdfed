"""Routes: whatever is done to them, they connect source and destination and never get longer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmbed_behaviours import routes

SOURCE, DESTINATION = np.array([0.0, 0.0]), np.array([10.0, 0.0])
places = st.lists(st.tuples(st.floats(-8, 18), st.floats(-9, 9)), min_size=0, max_size=12)
many = settings(deadline=None, max_examples=200)


def route_of(between):
    return np.array([SOURCE, *map(np.array, between), DESTINATION], dtype=np.float64)


def connects(route):
    return np.array_equal(route[0], SOURCE) and np.array_equal(route[-1], DESTINATION)


@many
@given(places)
def test_places_of_a_route_are_close_enough_and_the_way_is_the_same(between):
    route = route_of(between)
    made = routes.respaced(route)
    assert connects(made)
    assert routes.length(made) == pytest.approx(routes.length(route))
    assert np.hypot(*np.diff(made, axis=0).T).max() <= 1.0 + 1e-6


@many
@given(places, places)
def test_what_is_put_together_of_two_routes_is_no_longer_than_the_shorter(first, second):
    one, other = route_of(first), route_of(second)
    made = routes.shared(one, other)
    assert connects(made)
    assert routes.length(made) <= min(routes.length(one), routes.length(other)) + 1e-6
    again = routes.shared(other, one)
    assert routes.length(again) == pytest.approx(routes.length(made), abs=1e-6)
    # With itself it may even lose a loop.
    assert routes.length(routes.shared(made, one)) <= routes.length(made) + 1e-6


@many
@given(places, places)
def test_what_is_put_together_lies_on_the_two(first, second):
    one, other = route_of(first), route_of(second)
    for place in routes.respaced(routes.shared(one, other), 0.2):
        assert min(_away(place, one), _away(place, other)) < 1e-5


def _away(place, route):
    a, d = route[:-1], np.diff(route, axis=0)
    size = np.maximum((d * d).sum(axis=1), 1e-300)
    t = np.clip(((place - a) * d).sum(axis=1) / size, 0.0, 1.0)
    return np.hypot(*(a + t[:, None] * d - place).T).min()


def test_the_better_halves_of_two_routes_are_taken():
    # They cross at (5, 0): one is good before, the other after.
    one = np.array([[0, 0], [5, 0], [6, 8], [10, 0]], dtype=float)
    other = np.array([[0, 0], [4, -8], [5, 0], [10, 0]], dtype=float)
    made = routes.shared(one, other)
    assert routes.length(made) == pytest.approx(10.0)
    assert made == pytest.approx(np.array([[0, 0], [5, 0], [10, 0]]))


def test_where_two_routes_meet_in_another_order_a_loop_is_left_out():
    one = np.array([[0, 0], [8, 4], [8, -4], [2, 4], [10, 0]], dtype=float)
    other = np.array([[0, 0], [9, 0], [10, 0]], dtype=float)
    assert routes.length(routes.shared(one, other)) == pytest.approx(10.0)


def test_crossings_are_found_once():
    one = np.array([[0, 0], [4, 0], [4, 4]], dtype=float)
    other = np.array([[2, -1], [2, 1], [6, 1]], dtype=float)
    found = routes.crossings(one, other)
    assert [item.place for item in found] == [(2.0, 0.0), (4.0, 1.0)]
    assert [(item.along_one, item.along_other) for item in found] == [(2.0, 1.0), (5.0, 4.0)]


def see_all(_place):
    return True


@many
@given(places, st.floats(0, 1), st.booleans(), st.floats(1, 8))
def test_smoothing_makes_a_route_shorter_or_leaves_it(between, share, outward, vision):
    route = routes.respaced(route_of(between))
    index = round(share * (len(route) - 1))
    found = routes.smoothed(route, index, route[index], outward=outward, vision=vision, is_free=see_all)
    if found is None:
        return
    assert connects(found.route)
    assert routes.length(found.route) < routes.length(route)
    assert found.route[found.index] == pytest.approx(route[index]), "the robot is where it was"


@many
@given(places, st.floats(0, 1), st.booleans(), st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)))
def test_who_is_beside_its_route_still_has_one(between, share, outward, off):
    route = routes.respaced(route_of(between))
    index = round(share * (len(route) - 1))
    here = route[index] + np.array(off)
    found = routes.smoothed(route, index, here, outward=outward, vision=6.0, is_free=see_all)
    if found is not None:
        assert connects(found.route)
        assert math.dist(found.route[found.index], here) < 1e-9


def test_smoothing_goes_again_and_again_to_the_straight_line():
    corner = np.array([[0, 0], [0, 6], [10, 6], [10, 0]], dtype=float)
    route, shorter = routes.respaced(corner), []
    for _ in range(60):
        index = 0
        while index < len(route) - 1:
            found = routes.smoothed(route, index, route[index], outward=True, vision=6.0, is_free=see_all)
            if found is not None:
                route, index = found.route, found.index
            index += 1
        shorter.append(routes.length(route))
    assert shorter == sorted(shorter, reverse=True)
    assert shorter[-1] == pytest.approx(10.0, abs=0.5)


def test_what_is_not_free_is_no_shortcut():
    route = routes.respaced(np.array([[0, 0], [0, 3], [4, 3], [4, 0]], dtype=float))
    asked = []

    def wall(place):
        asked.append(place)
        return False

    assert routes.smoothed(route, 0, route[0], outward=True, vision=6.0, is_free=wall) is None
    assert asked
    far = routes.smoothed(route, 0, route[0], outward=True, vision=0.5, is_free=see_all)
    assert far is None


def test_a_trail_has_a_place_each_metre():
    trail = routes.Trail(SOURCE)
    for x in np.arange(0.0, 10.0, 0.13):
        trail.add(np.array([x, 0.0]))
    route = trail.ended(DESTINATION)
    assert connects(route)
    assert np.hypot(*np.diff(route, axis=0).T)[:-1] == pytest.approx(1.04, abs=0.01)


def test_who_is_given_a_route_takes_it_up_where_it_is():
    route = routes.straight(SOURCE, DESTINATION)
    assert routes.nearest_index(route, np.array([3.2, 2.0])) == 3


@many
@given(places, st.floats(0.1, 3.0))
def test_a_thinned_route_still_connects_and_is_no_longer(between, spacing):
    route = route_of(between)
    made = routes.thinned(route, spacing)
    assert connects(made)
    assert routes.length(made) <= routes.length(route) + 1e-9
    gaps = np.hypot(*np.diff(made, axis=0).T)
    assert (gaps[:-1] >= spacing - 1e-9).all()
    assert all(any(np.array_equal(place, own) for own in route) for place in made)


def test_the_best_shortcut_that_is_free_is_taken():
    route = np.array([SOURCE, [1, 3], [2, 0.5], [3, 3], [4, 0.5], [5, 3], DESTINATION])
    blocked = {(4.0, 0.5)}
    found = routes.smoothed(
        route, 0, SOURCE, outward=True, vision=6.0, is_free=lambda place: tuple(place.tolist()) not in blocked
    )
    assert found is not None
    # (5, 3) saves most of those that are left.
    assert [1, 3] not in found.route.tolist()
    assert [5, 3] in found.route.tolist()
    assert [4, 0.5] not in found.route.tolist()
    none = {"outward": True, "vision": 6.0, "is_free": lambda _: True}
    assert routes.smoothed(route, 0, SOURCE, least=100.0, **none) is None
