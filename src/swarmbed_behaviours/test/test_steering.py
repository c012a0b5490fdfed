from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.steering import ANSWER, OBSTACLE, closing_k, notice_k, recall_k, steer_k

BRAKE, DELAY, RADIUS = 1.5, 0.25, 0.155


def steer(wish, obstacles=(), last=(0.0, 0.0), radius=RADIUS):
    rows = np.zeros((64, OBSTACLE))
    for k, (x, y, size) in enumerate(obstacles):
        rows[k] = (x, y, size, 1.0)
    answer = np.zeros(ANSWER)
    steer_k(*wish, *last, radius, BRAKE, DELAY, 1.0, rows, len(obstacles), answer)
    return answer


@settings(deadline=None)
@given(st.floats(0.001, 10.0), st.floats(0.3, 3.0), st.floats(0.05, 0.5))
def test_two_that_close_in_like_that_stop_in_time(gap, brake, delay):
    speed = closing_k(gap, brake, delay)
    assert speed > 0.0
    assert 2 * (speed * delay + speed**2 / (2 * brake)) == pytest.approx(gap, rel=1e-6)


def test_at_no_distance_there_is_no_closing_in():
    assert closing_k(0.0, BRAKE, DELAY) == 0.0
    assert closing_k(-0.1, BRAKE, DELAY) == 0.0


def test_where_nothing_is_the_wish_comes_true():
    vx, vy, _, share = steer((0.6, -0.2))
    assert (vx, vy) == pytest.approx((0.6, -0.2))
    assert share == pytest.approx(1.0)


def test_who_wishes_to_stand_stands():
    assert steer((0.0, 0.0), [(1.0, 0.0, 0.1)])[:2] == pytest.approx((0.0, 0.0))


places = st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(0.0, 0.3))


@settings(deadline=None, max_examples=300)
@given(st.floats(-1, 1), st.floats(-1, 1), st.lists(places, max_size=12), st.floats(-1, 1), st.floats(-1, 1))
def test_nothing_is_ever_approached_faster_than_allowed(wish_x, wish_y, obstacles, last_x, last_y):
    gaps = [math.hypot(x, y) - RADIUS - size for x, y, size in obstacles]
    assume(all(math.hypot(x, y) > 0.01 for x, y, _ in obstacles))
    vx, vy, least, _ = steer((wish_x, wish_y), obstacles, (last_x, last_y))
    assert math.isfinite(vx + vy)
    for (x, y, _), gap in zip(obstacles, gaps, strict=True):
        closing = (vx * x + vy * y) / math.hypot(x, y)
        assert closing <= closing_k(gap, BRAKE, DELAY) + 1e-9
    assert least <= min(gaps, default=9.0) + 1e-9


def test_it_goes_around_what_stands_in_the_way():
    x = y = 0.0
    last = (0.0, 0.0)
    nearest = 9.0
    for _ in range(100):
        to = math.hypot(3.0 - x, y)
        wish = (0.6 * (3.0 - x) / to, -0.6 * y / to)
        vx, vy, *_ = steer(wish, [(1.5 - x, -y, 0.2)], last)
        last = (vx, vy)
        x, y = x + 0.1 * vx, y + 0.1 * vy
        nearest = min(nearest, math.hypot(1.5 - x, y))
        if math.hypot(3.0 - x, y) < 0.2:
            break
    assert math.hypot(3.0 - x, y) < 0.2
    assert nearest > 0.2 + RADIUS - 0.01


def test_two_that_meet_head_on_pass_on_the_right():
    places = np.array([[0.0, 0.0], [3.0, 0.0]])
    goals = np.array([[3.0, 0.0], [0.0, 0.0]])
    last = [(0.0, 0.0), (0.0, 0.0)]
    nearest, sides = 9.0, []
    for _ in range(150):
        moves = []
        for k in range(2):
            to = goals[k] - places[k]
            wish = 0.6 * to / max(math.hypot(*to), 0.3)
            other = places[1 - k] - places[k]
            vx, vy, *_ = steer(wish, [(*other, 0.125)], last[k])
            last[k] = (vx, vy)
            moves.append((0.1 * vx, 0.1 * vy))
        places += moves
        apart = math.hypot(*(places[0] - places[1]))
        nearest = min(nearest, apart)
        if apart < 0.5:
            sides.append(places[0, 1] - places[1, 1])
    assert np.abs(places - goals).max() < 0.2
    assert nearest > 0.25
    # The one that drives along +x keeps to its right, which is -y.
    assert max(sides) < 0.0


def test_who_is_too_near_is_given_way_to():
    vx, vy, least, _ = steer((0.0, 0.0), [(0.2, 0.0, 0.125)])
    assert least < 0.0
    assert vx < 0.0
    assert vy == pytest.approx(0.0, abs=1e-9)


def test_a_dead_end_is_left_standing():
    wall = [(0.25, 0.05 * k, 0.0) for k in range(-8, 9)]
    sides = [(0.05 * k, s * 0.25, 0.0) for k in range(-8, 6) for s in (-1, 1)]
    vx, vy, *_ = steer((0.5, 0.0), [*wall, *sides])
    assert math.hypot(vx, vy) < 0.35


def test_returns_are_remembered_for_a_while():
    memory = np.full((8, 3), -1e9)
    out = np.zeros((8, OBSTACLE))
    angles = np.array([0.0, math.pi / 2])
    blind = np.zeros(2)
    head = notice_k(np.array([1.0, math.inf]), angles, blind, 0.125, 2.0, 3.0, math.pi / 2, 10.0, memory, 0)
    assert head == 1
    assert recall_k(memory, 2.0, 3.0, 10.2, 0.35, out) == 1
    # The robot looks along +y.
    assert out[0, :2] == pytest.approx((0.0, 1.125))
    assert recall_k(memory, 2.5, 3.0, 10.2, 0.35, out) == 1
    assert out[0, :2] == pytest.approx((-0.5, 1.125))
    assert recall_k(memory, 2.0, 3.0, 10.5, 0.35, out) == 0


def test_what_the_own_load_returns_is_no_obstacle():
    memory = np.full((8, 3), -1e9)
    angles = np.array([0.0, math.pi / 2])
    head = notice_k(np.array([0.1, 0.1]), angles, np.array([0.3, 0.0]), 0.125, 0.0, 0.0, 0.0, 1.0, memory, 0)
    assert head == 1
    assert memory[0, :2] == pytest.approx((0.0, 0.225))


def test_the_ring_forgets_the_oldest():
    memory = np.full((4, 3), -1e9)
    head = 0
    for k in range(6):
        head = notice_k(np.array([1.0]), np.zeros(1), np.zeros(1), 0.1, 0.0, 0.0, 0.0, float(k), memory, head)
    assert head == 2
    assert sorted(memory[:, 2].tolist()) == [2.0, 3.0, 4.0, 5.0]
