"""The filter of foreign clocks: exact bounds, delays, loss, rates, and clocks that are set."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_reality.clocks import ClockFilter


class Link:
    """Messages between two clocks over a slow network, twenty a second in each direction."""

    def __init__(self, seed=1, *, offset=12.0, skew=100e-6, delay=(0.005, 0.035), loss=(0.0, 0.0)):
        self.rng = np.random.default_rng(seed)
        self.offset, self.skew, self.delay, self.loss = offset, skew, delay, loss
        self.filter, self.now = ClockFilter(), 1000.0

    def true(self, now):
        return self.offset + self.skew * (now - 1000.0)

    def there(self, now):
        return now + self.true(now)

    def run(self, seconds):
        """Exchange messages; return the errors of the offset after each exchange."""
        errors = []
        for _ in range(round(20 * seconds)):
            self.now += 0.05
            out, back = self.rng.uniform(*self.delay, 2)
            lost = self.rng.random(2) < self.loss
            if not lost[0]:
                self.filter.outward(self.now, self.there(self.now + out))
            if not lost[1]:
                self.filter.inward(self.there(self.now + 0.02), self.now + 0.02 + back)
            now = self.now + 0.05
            errors.append(self.filter.offset(now) - self.true(now))
        return np.abs(errors)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    offset=st.floats(-1e6, 1e6),
    skew=st.floats(-100e-6, 100e-6),
    loss=st.tuples(st.floats(0.0, 0.5), st.floats(0.0, 0.5)),
)
def test_within_a_millisecond_under_20_and_15_ms_of_delay(seed, offset, skew, loss):
    link = Link(seed, offset=offset, skew=skew, loss=loss)
    link.run(30)
    assert link.run(60).max() < 1e-3
    assert link.filter.skew == pytest.approx(skew, abs=10e-6)
    assert link.filter.steps == 0


def test_it_is_within_a_millisecond_after_a_few_seconds():
    errors = [Link(seed, loss=(0.0, 0.5)).run(20) for seed in range(20)]
    after = [0.05 * (1 + np.flatnonzero(~(each < 1e-3)).max()) for each in errors]
    assert np.median(after) < 4.0
    assert np.quantile(after, 0.9) < 10.0


def test_equal_delays_are_no_error():
    link = Link(delay=(0.02, 0.02), skew=0.0)
    assert link.run(1)[5:].max() < 1e-5
    assert link.filter.margin == pytest.approx(0.02, abs=1e-6)


def test_nothing_is_known_before_there_are_messages_both_ways():
    link = Link(loss=(0.0, 1.0))
    link.run(5)
    assert not link.filter.known
    assert math.isnan(link.filter.offset(link.now))
    assert math.isnan(link.filter.here(1.0))


def test_there_and_back_is_the_same_time():
    link = Link()
    link.run(30)
    for time in (link.now, link.now - 50.0, link.now + 10.0):
        assert link.filter.here(link.filter.there(time)) == pytest.approx(time, abs=1e-9)


@pytest.mark.parametrize("by", [-3600.0, -1.0, -0.05, -0.01, 0.01, 0.05, 1.0, 1e9])
def test_a_clock_that_is_set_is_followed(by):
    link = Link(loss=(0.2, 0.0))
    link.run(90)
    link.offset += by
    link.run(60)
    assert link.run(60).max() < 1e-3
    assert 1 <= link.filter.steps <= 2


def test_a_single_wrong_stamp_changes_nothing():
    link = Link()
    link.run(30)
    before = link.filter.offset(link.now)
    for wrong in (1e300, -5.0, math.nan, math.inf):
        link.filter.inward(wrong + link.now, link.now)
        link.filter.outward(link.now, link.now + before - abs(wrong))
        link.run(0.2)
    assert link.run(5).max() < 2e-3
    assert link.filter.steps == 0
    assert link.filter.refused >= 4


def test_a_network_that_becomes_faster_or_slower_sets_no_clock():
    link = Link()
    link.run(60)
    for delay in ((0.001, 0.002), (0.2, 0.4), (0.005, 0.035), (0.05, 0.1)):
        link.delay = delay
        assert link.run(60).max() < 1e-3
    assert link.filter.steps == 0
