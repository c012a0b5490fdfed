"""Deadlines on a clock that the test holds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.errors import ConfigError
from swarmbed_core.watchdog import Pace, Watchdog

property_test = settings(deadline=None, max_examples=300, derandomize=True)
times = st.floats(0.0, 1e5)
timeouts = st.floats(0.01, 100.0)


def test_one_that_was_never_fed_has_expired() -> None:
    assert Watchdog(0.5).expired(0.0)


@property_test
@given(timeouts, times)
def test_it_expires_just_after_the_timeout_and_not_at_it(timeout: float, start: float) -> None:
    dog = Watchdog(timeout)
    assert dog.fed(start)
    assert not dog.expired(start)
    assert not dog.expired(start + timeout)
    assert dog.expired(start + timeout + 1e-6)
    assert dog.expired(start + timeout + 1000.0)
    assert dog.health.total == 0


def test_sums_of_ticks_do_not_expire_it_early() -> None:
    dog, now = Watchdog(0.5), 0.0
    for _ in range(1000):
        dog.fed(now)
        fed_at = now
        for _ in range(50):
            now += 0.01
        assert not dog.expired(now), f"fed at {fed_at}"


def test_feeding_revives_it() -> None:
    dog = Watchdog(0.5)
    dog.fed(0.0)
    assert dog.expired(1.0)
    dog.fed(1.0)
    assert not dog.expired(1.5)


def test_a_clock_that_steps_backwards_expires_it_until_it_is_fed() -> None:
    dog = Watchdog(0.5, "cmd_vel")
    dog.fed(10.0)
    assert not dog.expired(10.2)
    assert dog.expired(10.1)
    assert dog.expired(10.2)
    assert dog.health.counts == {"watchdog.clock_backwards": 1}
    assert "cmd_vel: time went from 10.2 to 10.1" in dog.health.latest["watchdog.clock_backwards"]
    assert dog.fed(3.0)
    assert not dog.expired(3.5)
    assert dog.expired(3.6)
    assert dog.health.counts == {"watchdog.clock_backwards": 2}


@property_test
@given(st.lists(st.tuples(st.sampled_from(["feed", "ask"]), st.floats(-10.0, 10.0)), max_size=30), timeouts)
def test_it_lives_only_for_the_timeout_after_a_feed(events: list[tuple[str, float]], timeout: float) -> None:
    dog = Watchdog(timeout)
    fed_at, latest = None, -math.inf
    for what, now in events:
        stepped_back = now < latest
        latest = now
        if what == "feed":
            assert dog.fed(now)
            fed_at = now
        else:
            if stepped_back:
                fed_at = None
            alive = fed_at is not None and now - fed_at <= timeout + 1e-9
            assert dog.expired(now) == (not alive)


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_no_time_expires_it_and_does_not_feed_it(now: float) -> None:
    dog = Watchdog(0.5)
    assert not dog.fed(now)
    assert dog.expired(0.0)
    dog.fed(1.0)
    assert not dog.fed(now)
    assert not dog.expired(1.1)
    assert dog.expired(now)
    assert dog.expired(1.2)
    assert dog.health.counts == {"watchdog.clock_not_finite": 3}


@pytest.mark.parametrize("timeout", [0.0, -1.0, math.nan, math.inf])
def test_impossible_timeouts_are_refused(timeout: float) -> None:
    with pytest.raises(ConfigError, match="power_en"):
        Watchdog(timeout, "power_en")


@pytest.mark.parametrize(
    ("rate", "tick"), [(10.0, 0.01), (50.0, 0.01), (100.0, 0.01), (30.0, 0.01), (24.0, 0.005)]
)
def test_a_pace_keeps_its_mean_rate(rate: float, tick: float) -> None:
    pace = Pace(rate)
    count = sum(pace.due(i * tick) for i in range(round(20.0 / tick)))
    assert count == pytest.approx(20.0 * rate, abs=1)


def test_a_pace_does_not_catch_up_after_a_pause() -> None:
    pace = Pace(10.0)
    assert pace.due(0.0)
    assert pace.due(5.0)
    assert not pace.due(5.05)
    assert pace.due(5.1)


def test_a_pace_survives_a_clock_that_steps_backwards_or_is_none() -> None:
    pace = Pace(10.0)
    assert pace.due(100.0)
    assert not pace.due(math.nan)
    assert not pace.due(math.inf)
    assert not pace.due(-math.inf)
    assert pace.due(2.0)
    assert not pace.due(2.05)
    assert pace.due(2.1)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="rate"):
        Pace(rate)


@property_test
@given(st.integers(1, 40), st.floats(0.0, 100.0), st.sampled_from([0.001, 0.01, 0.02]))
def test_a_whole_pace_is_due_at_once_and_then_at_whole_multiples(rate, start, tick):
    pace = Pace(float(rate), whole=True)
    first = math.ceil(start / tick)
    due = [k * tick for k in range(first, first + round(1.2 / tick)) if pace.due(k * tick)]
    assert due[0] == first * tick
    steps = [math.floor(when * rate + 1e-6) for when in due]
    assert steps == list(range(steps[0], steps[0] + len(due)))
    assert all(when * rate - step < tick * rate + 1e-6 for when, step in zip(due[1:], steps[1:], strict=True))
