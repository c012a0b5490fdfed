from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.neighbours import LOST_AFTER, Shift

SIGMA = 0.1


class Pair:
    """Two robots that wander at half a metre a second and reckon their ways with errors."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.places = self.rng.uniform(-2, 2, (2, 2))
        self.reckoned = self.places - self.rng.uniform(-3, 3, (2, 2))
        self.goals = self.rng.uniform(-2, 2, (2, 2))
        self.shift = Shift()

    @property
    def truth(self):
        """Where the second one's origin is in the first one's frame."""
        return (self.reckoned[0] - self.reckoned[1]) - (self.places[0] - self.places[1])

    @property
    def between(self):
        return self.reckoned[0] - self.reckoned[1]

    def step(self, listen=True, outliers=0.0, still=()):
        way = 0.0
        for k in range(2):
            to = self.goals[k] - self.places[k]
            if math.hypot(*to) < 0.1:
                self.goals[k] = self.rng.uniform(-2, 2, 2)
            length = 0.0 if k in still else min(0.05, math.hypot(*to))
            step = to / max(math.hypot(*to), 1e-9) * length
            self.places[k] += step
            self.reckoned[k] += step + self.rng.normal(0, 0.02 * math.sqrt(length), 2)
            way += length
        self.shift.move(way)
        if listen:
            distance = math.hypot(*(self.places[0] - self.places[1])) + self.rng.normal(0, SIGMA)
            if self.rng.random() < outliers:
                distance += self.rng.uniform(0, 2)
            self.shift.add_range(*self.between, max(distance, 0.0), 1.2 * SIGMA)

    @property
    def error(self):
        return np.array((self.shift.x, self.shift.y)) - self.truth

    @property
    def nees(self):
        return float(self.error @ np.linalg.solve(self.shift.covariance, self.error))


def after(seconds, count=60, first=0, **how):
    pairs = [Pair(seed) for seed in range(first, first + count)]
    for pair in pairs:
        for _ in range(round(10 * seconds)):
            pair.step(**how)
    return pairs


def test_two_robots_that_move_find_each_other():
    pairs = after(15.0)
    errors = [math.hypot(*pair.error) for pair in pairs]
    assert np.median(errors) < 0.1
    assert np.quantile(errors, 0.95) < 0.3
    assert np.mean([pair.shift.sigma < 0.2 for pair in pairs]) > 0.9


def test_the_covariance_is_honest():
    nees = np.array([pair.nees for pair in after(15.0)])
    # Two degrees of freedom: 2 in the mean, 5.99 in 95 of 100.
    assert 0.5 < nees.mean() < 3.5
    assert np.mean(nees > 9.2) < 0.1


def test_a_robot_that_is_wrong_does_not_believe_itself():
    for seconds in (1.0, 3.0, 6.0):
        wrong = [pair for pair in after(seconds) if math.hypot(*pair.error) > 0.75]
        assert not [pair for pair in wrong if pair.shift.sigma < 0.2]


def test_without_motion_the_direction_stays_open():
    for pair in after(10.0, count=20, still=(0, 1)):
        assert pair.shift.sigma > 0.5 * math.hypot(*(pair.places[0] - pair.places[1]))


def test_motion_along_a_line_leaves_the_mirror_image_and_a_turn_resolves_it():
    rng = np.random.default_rng(4)
    shift, here, there = Shift(), np.zeros(2), np.array((1.0, 1.5))
    origin = np.array((0.7, -0.4))

    def drive(vx, vy, ticks):
        for _ in range(ticks):
            here[:] += (0.1 * vx, 0.1 * vy)
            shift.move(0.1 * math.hypot(vx, vy))
            distance = math.hypot(*(here - there)) + rng.normal(0, SIGMA)
            shift.add_range(*(here - (there - origin)), distance, 1.2 * SIGMA)

    drive(-0.5, 0.0, 40)
    assert shift.sigma > 1.0
    drive(0.0, 0.5, 40)
    assert shift.sigma < 0.25
    assert (shift.x, shift.y) == pytest.approx(origin, abs=0.3)


def test_a_common_edge_halves_the_possibilities():
    rng = np.random.default_rng(1)
    for _ in range(20):
        p, q = rng.uniform(-2, 2, (2, 2))
        shift, known = Shift(), Shift()
        for _ in range(20):
            distance = math.hypot(*(p - q)) + rng.normal(0, SIGMA)
            for one in (shift, known):
                one.add_range(*(p - q), max(distance, 0), 1.2 * SIGMA)
            known.add_place(0.0, None, 0.1)
        # Two places are left of the circle: the other one and its mirror image.
        assert known.covariance[0, 0] < 0.1
        assert known.covariance[0, 0] < 0.3 * shift.covariance[0, 0]


def test_a_carrier_that_both_saw_says_it_all():
    for pair in after(0.5, count=20):
        for _ in range(3):
            pair.shift.add_place(*(pair.truth + pair.rng.normal(0, 0.05, 2)), 0.1)
        assert math.hypot(*pair.error) < 0.25
        assert pair.shift.sigma < 0.25


def test_a_carrier_that_was_moved_meanwhile_does_not_fool_it():
    for pair in after(15.0, count=20):
        if pair.shift.sigma > 0.2:
            continue
        pair.shift.add_place(*(pair.truth + 1.5), 0.1)
        assert math.hypot(*pair.error) < 0.4


def test_outliers_are_survived():
    errors = [math.hypot(*pair.error) for pair in after(15.0, outliers=0.1)]
    assert np.median(errors) < 0.15
    assert np.quantile(errors, 0.9) < 0.5


def test_a_robot_that_was_carried_away_is_found_again():
    pairs = after(15.0, count=20)
    for pair in pairs:
        pair.places[1] += (1.5, -1.0)
        for _ in range(250):
            pair.step()
    assert np.quantile([math.hypot(*pair.error) for pair in pairs], 0.9) < 0.5


def test_it_starts_again_after_many_ranges_that_cannot_be():
    shift = Shift()
    for _ in range(30):
        shift.add_range(0.0, 0.0, 2.0, 0.1)
    before = shift.sigma
    for _ in range(LOST_AFTER + 1):
        shift.add_range(0.0, 0.0, 6.0, 0.1)
    assert shift.sigma > 2 * before


def test_a_clear_view_rules_a_place_out():
    shift = Shift()
    rng = np.random.default_rng(2)
    angles = np.arange(16) * math.pi / 8
    sweep = np.full(16, 2.5)
    # Both on the same edge: the other one is 1 m to the left or to the right, and to the left is nothing.
    for _ in range(20):
        shift.add_range(0.0, 0.0, 1.0 + rng.normal(0, 0.05), 0.1)
        shift.add_place(0.0, None, 0.1)
    assert abs(shift.y) < 0.5
    sweep[12] = 0.75
    for _ in range(15):
        shift.add_view(0.0, 0.0, 0.0, sweep, angles, 0.25)
    assert shift.y == pytest.approx(-1.0, abs=0.2)
    assert shift.sigma < 0.4


def test_of_what_nobody_told_nothing_is_known():
    shift = Shift()
    shift.move(5.0)
    shift.add_place(1.0, 2.0, 0.1)
    assert not shift.known
    assert shift.sigma == math.inf
    shift.add_range(0.0, 0.0, 1.0, 0.1)
    assert shift.known
    shift.forget()
    assert not shift.known


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.floats(-20, 20), st.floats(-20, 20), st.floats(0, 40)), min_size=1, max_size=40),
    st.floats(-20, 20),
    st.floats(-20, 20),
)
def test_whatever_is_measured_numbers_stay_numbers(measured, x, y):
    shift = Shift()
    for dx, dy, distance in measured:
        shift.add_range(dx, dy, distance, 0.1)
        shift.add_place(x, None, 0.1)
        shift.add_place(x, y, 0.2)
        shift.move(0.1)
    assert math.isfinite(shift.x + shift.y + shift.sigma)
    eigenvalues = np.linalg.eigvalsh(shift.covariance)
    assert eigenvalues.min() > -1e-9


def test_a_frame_that_is_set_anew_takes_the_shift_along():
    pair = after(15.0, count=1, first=3)[0]
    before = (pair.shift.x, pair.shift.y)
    pair.shift.restart(0.5, -0.25)
    assert (pair.shift.x, pair.shift.y) == pytest.approx((before[0] + 0.5, before[1] - 0.25))
