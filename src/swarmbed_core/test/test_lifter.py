"""The ramp that never steps, and the virtual platform that follows it."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.errors import ConfigError
from swarmbed_core.lifter import LONGEST_STEP, LifterControl, LifterModel
from swarmbed_core.spec import Lifter, RobotSpec

if TYPE_CHECKING:
    from swarmbed_core.device import LifterPart

property_test = settings(deadline=None, max_examples=200, derandomize=True)
TICK = 0.01


@pytest.fixture
def lifter() -> Lifter:
    return dots_lifter()


@cache
def dots_lifter() -> Lifter:
    lifter = RobotSpec.load("dots").lifter
    assert lifter is not None
    return lifter


def travel(
    control: LifterControl, model: LifterModel, up: bool, *, load: float = 0.0, tick: float = TICK
) -> float:
    """Return the seconds until the platform stands still at the end it was sent to, at most 3."""
    start = now = control_time(control)
    while now - start < 3.0:
        control.command(up)
        model.move(control.update(now, model.read().height))
        model.step(now, load)
        if control.at_top if up else control.at_bottom:
            break
        now += tick
    return now - start


def control_time(control: LifterControl) -> float:
    """Return a time after the last one that a control saw."""
    latest = control._ramp.latest
    return 0.0 if latest is None else latest + TICK


def test_the_heights_are_those_of_table_i(lifter: Lifter) -> None:
    assert (lifter.lowered, lifter.raised, lifter.max_load) == (0.145, 0.197, 2.0)


@pytest.mark.parametrize("tick", [0.002, 0.01, 0.02, 0.05])
def test_a_full_travel_takes_a_second(lifter: Lifter, tick: float) -> None:
    control, model = LifterControl(lifter), LifterModel(lifter)
    up = travel(control, model, up=True, load=2.0, tick=tick)
    assert up == pytest.approx(1.0, abs=max(0.05, 2 * tick))
    assert model.read().height == pytest.approx(0.197, abs=0.02 * 0.052)
    down = travel(control, model, up=False, tick=tick)
    assert down == pytest.approx(1.0, abs=max(0.05, 2 * tick))
    assert model.read().height == pytest.approx(0.145, abs=0.02 * 0.052)


def test_the_ramp_arrives_exactly(lifter: Lifter) -> None:
    control = LifterControl(lifter)
    for tick in range(150):
        control.command(True)
        control.update(tick * TICK)
        assert control.moving == (tick < 100)
    assert control.set_point == lifter.raised
    assert control.at_top
    assert not control.at_bottom


@property_test
@given(
    st.lists(
        st.tuples(
            st.booleans(), st.floats(-0.5, 5.0), st.booleans(), st.one_of(st.none(), st.floats(0.1, 0.25))
        ),
        max_size=40,
    )
)
def test_the_set_point_never_steps_and_never_leaves_the_travel(
    events: list[tuple[bool, float, bool, float | None]],
) -> None:
    lifter = dots_lifter()
    control = LifterControl(lifter)
    rate = (lifter.raised - lifter.lowered) / lifter.travel_time
    now = 10.0
    before = control.update(now)
    for up, passed, powered, height in events:
        now += passed
        control.command(up)
        set_point = control.update(now, height, powered=powered)
        assert abs(set_point - before) <= rate * min(max(passed, 0.0), LONGEST_STEP) + 1e-12
        assert lifter.lowered <= set_point <= lifter.raised
        if not powered:
            assert set_point == before
            assert not control.moving
        before = set_point


def test_repeating_a_command_changes_nothing(lifter: Lifter) -> None:
    once, often = LifterControl(lifter), LifterControl(lifter)
    once.command(True)
    for tick in range(60):
        for _ in range(3):
            often.command(True)
        assert once.update(tick * TICK) == often.update(tick * TICK)
    assert once.moving
    assert not once.at_top


def test_without_a_command_it_stays_where_it_was_found(lifter: Lifter) -> None:
    control = LifterControl(lifter)
    assert control.update(0.0, 0.18) == 0.18
    assert control.update(1.0, 0.18) == 0.18
    assert not control.moving
    assert not control.at_top
    assert not control.at_bottom
    assert LifterControl(lifter, 0.19).update(0.0) == 0.19
    assert LifterControl(lifter, 0.5).set_point == lifter.raised
    assert LifterControl(lifter, math.nan).set_point == lifter.lowered


def test_a_measured_height_is_believed(lifter: Lifter) -> None:
    control = LifterControl(lifter)
    control.command(True)
    for tick in range(150):
        control.update(tick * TICK, 0.15)
    assert control.set_point == lifter.raised
    assert not control.at_top
    control.update(2.0, 0.197)
    assert control.at_top


@pytest.mark.parametrize("off", [-4e-4, 4e-14, 4e-4])
def test_a_platform_found_at_an_end_is_there_as_well_as_it_measures(lifter: Lifter, off: float) -> None:
    for end, there in ((lifter.lowered, "at_bottom"), (lifter.raised, "at_top")):
        told, measured = LifterControl(lifter, end + off), LifterControl(lifter)
        measured.update(0.0, end + off)
        assert getattr(told, there)
        assert getattr(measured, there)
        assert told.set_point == measured.set_point == end


def test_a_platform_that_was_told_to_leave_an_end_is_not_there(lifter: Lifter) -> None:
    control = LifterControl(lifter, lifter.raised)
    control.update(0.0, lifter.raised)
    assert control.at_top
    control.command(False)
    control.update(0.01, lifter.raised)
    assert not control.at_top


@pytest.mark.parametrize("load", [2.001, 50.0, -0.1, math.nan, math.inf])
def test_too_much_load_is_not_raised(lifter: Lifter, load: float) -> None:
    control = LifterControl(lifter)
    control.update(0.0)
    assert not control.command(True, load)
    assert control.update(0.1) == lifter.lowered
    assert control.health.counts == {"lifter.load": 1}
    assert control.command(True, 2.0)
    assert control.update(0.2) > lifter.lowered
    held = control.update(0.3)
    assert not control.command(True, load)
    assert control.update(0.4) == held
    assert control.command(False, load)
    assert not control.command(True, load)
    assert control.update(0.5) < held


def test_a_power_cut_holds_until_the_next_command(lifter: Lifter) -> None:
    control = LifterControl(lifter)
    control.command(True)
    for tick in range(51):
        control.update(tick * TICK)
    held = control.set_point
    assert control.update(0.6, powered=False) == held
    assert control.update(0.7) == held
    assert not control.moving
    control.command(True)
    assert control.update(0.71) > held


@pytest.mark.parametrize("now", [math.nan, math.inf])
def test_a_time_that_is_no_time_is_refused(lifter: Lifter, now: float) -> None:
    control, model = LifterControl(lifter), LifterModel(lifter)
    control.command(True)
    control.update(0.0)
    assert control.update(now) == lifter.lowered
    assert control.update(TICK) == pytest.approx(lifter.lowered + 0.052 * TICK)
    model.move(0.18)
    model.step(0.0)
    model.step(now)
    model.step(TICK)
    assert model.read().stamp == TICK
    assert control.health.counts == model.health.counts == {"lifter.clock": 1}


def test_a_clock_that_steps_backwards_holds_and_is_counted(lifter: Lifter) -> None:
    control = LifterControl(lifter)
    control.command(True)
    control.update(10.0)
    up = control.update(10.05)
    assert control.update(3.0) == up
    assert control.update(3.05) == pytest.approx(up + 0.052 * 0.05)
    assert control.health.counts == {"lifter.clock": 1}


def test_a_height_that_is_no_height_is_refused(lifter: Lifter) -> None:
    control = LifterControl(lifter)
    control.update(0.0, math.nan)
    assert control.at_bottom
    assert control.health.counts == {"lifter.height": 1}


def test_the_model_is_a_lifter_part(lifter: Lifter) -> None:
    part: LifterPart = LifterModel(lifter)
    assert part.read().height == lifter.lowered
    assert part.read().stamp == 0.0


def test_the_model_has_a_rate_and_ends_of_its_own(lifter: Lifter) -> None:
    model = LifterModel(lifter, rate=0.01)
    model.move(9.0)
    model.step(0.0)
    model.step(1.0)
    assert model.read().height == pytest.approx(0.155)
    assert model.read().stamp == 1.0
    model.step(100.0)
    assert model.read().height == lifter.raised
    model.move(-9.0)
    model.step(200.0)
    assert model.read().height == lifter.lowered


@pytest.mark.parametrize(("load", "rises"), [(0.0, True), (2.0, True), (2.01, False), (math.nan, False)])
def test_the_model_raises_no_more_than_it_can_but_lowers_anything(
    lifter: Lifter, load: float, rises: bool
) -> None:
    model = LifterModel(lifter)
    model.move(lifter.raised)
    model.step(0.0, load)
    model.step(5.0, load)
    assert (model.read().height == lifter.raised) == rises
    if not rises:
        assert model.read().height == lifter.lowered
    model.step(10.0)
    assert model.read().height == lifter.raised
    model.move(lifter.lowered)
    model.step(15.0, load)
    assert model.read().height == lifter.lowered


def test_a_power_cut_holds_the_model(lifter: Lifter) -> None:
    model = LifterModel(lifter, rate=0.01)
    model.move(lifter.raised)
    model.step(0.0)
    model.step(1.0)
    model.step(2.0, powered=False)
    assert model.read().height == pytest.approx(0.155)
    model.step(3.0)
    assert model.read().height == pytest.approx(0.165)


@pytest.mark.parametrize("height", [math.nan, math.inf, -math.inf])
def test_a_set_point_that_is_none_is_refused(lifter: Lifter, height: float) -> None:
    model = LifterModel(lifter)
    model.move(height)
    model.step(0.0)
    model.step(1.0)
    assert model.read().height == lifter.lowered
    assert model.health.counts == {"lifter.set_point": 1}


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_impossible_rates_are_refused(lifter: Lifter, rate: float) -> None:
    with pytest.raises(ConfigError, match="lifter rate"):
        LifterModel(lifter, rate)


@pytest.mark.parametrize("up", [True, False])
def test_held_it_stays_where_it_is_until_the_next_command(lifter: Lifter, up: bool) -> None:
    control = LifterControl(lifter, lifter.lowered if up else lifter.raised)
    control.command(up)
    for tick in range(50):
        control.update(tick * TICK)
    assert control.moving
    control.hold()
    held = control.set_point
    assert lifter.lowered < held < lifter.raised
    for tick in range(50, 100):
        assert control.update(tick * TICK) == held
    assert not control.moving
    assert not control.at_top
    assert not control.at_bottom
    # From there on, and not for the time that has passed meanwhile.
    control.command(up)
    step = control.update(100 * TICK) - held
    assert abs(step) == pytest.approx((lifter.raised - lifter.lowered) / lifter.travel_time * TICK)
    assert (step > 0) == up
    assert control.health.total == 0
