"""Swerving: those who tell each other how they move pass each other, however they meet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.swerve import MARGIN, swerve, time_to_hit_k

RADIUS, TOP = 0.3, 0.5


def test_when_two_meet():
    assert time_to_hit_k(2.0, 0.0, 0.5, 0.0, 1.0) == pytest.approx(2.0)
    assert time_to_hit_k(2.0, 0.0, -0.5, 0.0, 1.0) == math.inf
    assert time_to_hit_k(2.0, 1.5, 0.5, 0.0, 1.0) == math.inf
    assert time_to_hit_k(0.5, 0.0, 0.5, 0.0, 1.0) == 0.0
    assert time_to_hit_k(0.5, 0.0, -0.5, 0.0, 1.0) == math.inf


@settings(deadline=None, max_examples=100)
@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-1, 1), st.floats(-1, 1))
def test_the_time_to_a_hit_is_when_it_is_in_reach(dx, dy, wx, wy):
    time = time_to_hit_k(dx, dy, wx, wy, 0.6)
    if math.isfinite(time) and time > 0 and math.hypot(wx, wy) > 1e-6:
        assert math.hypot(dx - time * wx, dy - time * wy) == pytest.approx(0.6, abs=1e-6)


def test_with_nothing_in_the_way_it_goes_there_at_full_speed():
    assert swerve(0.7, 0.7, TOP, [], [], RADIUS) == pytest.approx((0.7, TOP))


def test_who_comes_towards_it_is_passed_on_the_right():
    direction, speed = swerve(0.0, 0.0, TOP, [(1.2, 0.0, -TOP, 0.0)], [], RADIUS)
    assert direction < -0.1
    assert speed > 0.5 * TOP


def test_a_wall_is_not_driven_into():
    direction, _ = swerve(0.0, 0.0, TOP, [], [(0.0, RADIUS + 0.15, 0.0)], RADIUS)
    assert abs(direction) > 0.7
    walls = [(angle, RADIUS + 0.02, 0.0) for angle in np.arange(-3.1, 3.1, 0.3)]
    assert swerve(0.0, 0.0, TOP, [], walls, RADIUS)[1] == 0.0


def drive(places, goals, seconds):
    """Let robots that can go in any direction do what `swerve` says; return their least distance."""
    places, goals = np.array(places, dtype=float), np.array(goals, dtype=float)
    moves, headings, nearest = np.zeros_like(places), np.zeros(len(places)), math.inf
    for _ in range(round(10 * seconds)):
        asked = []
        for k, place in enumerate(places):
            others = [
                (*(places[j] - place), *moves[j])
                for j in range(len(places))
                if j != k and math.dist(places[j], place) < 2.0
            ]
            way = goals[k] - place
            top = min(TOP, 2 * math.hypot(*way))
            direction, speed = swerve(math.atan2(way[1], way[0]), headings[k], top, others, [], RADIUS)
            asked.append((speed * math.cos(direction), speed * math.sin(direction)))
            headings[k] = direction
        moves = np.array(asked)
        places += 0.1 * moves
        for k in range(len(places)):
            for j in range(k):
                nearest = min(nearest, math.dist(places[k], places[j]))
    return places, nearest


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_robots_on_a_circle_change_places(count):
    turn = 2 * math.pi * np.arange(count) / count
    places = 3.0 * np.column_stack([np.cos(turn), np.sin(turn)])
    # Six that come at exactly the same time stand and wait for each other.
    places += np.random.default_rng(count).normal(0.0, 0.15, (count, 2))
    ends, nearest = drive(places, -places, 60)
    assert np.abs(ends + places).max() < 0.3
    assert nearest > 2 * RADIUS


@settings(deadline=None, max_examples=25)
@given(st.floats(-0.6, 0.6), st.floats(2.0, 4.0))
def test_two_that_meet_anyhow_pass(aside, away):
    ends, nearest = drive([[0, 0], [away, aside]], [[away + 2, 0], [-2, aside]], 30)
    assert nearest > 2 * RADIUS - MARGIN
    assert ends[0, 0] > away + 1.7
    assert ends[1, 0] < -1.7
