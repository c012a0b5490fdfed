"""Table IV: what draws power, how long it lasts, and what the robot can tell of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.device import PowerReading
from swarmbed_core.errors import ConfigError
from swarmbed_core.power import (
    RECOVERY,
    BatteryModel,
    BatteryMonitor,
    PowerModel,
    cell_voltage,
    motor_watts,
)
from swarmbed_core.spec import Battery, OperatingPoint, RobotSpec

DOTS = RobotSpec.load("dots")
BATTERIES = {
    kind: spec.battery
    for kind in ("dots", "epuck2", "pera_swarm", "pioneer3dx")
    if (spec := RobotSpec.load(kind)).battery is not None
}
HOUR = 3600.0
property_test = settings(deadline=None, max_examples=200, derandomize=True)

any_battery = st.sampled_from(list(BATTERIES.values()))
shares = st.floats(0.0, 1.0)
loads = st.floats(0.0, 120.0)


def dots_battery() -> Battery:
    assert DOTS.battery is not None
    return DOTS.battery


def points() -> tuple[OperatingPoint, ...]:
    assert DOTS.consumption is not None
    return DOTS.consumption.operating_points


# What draws power.


@pytest.mark.parametrize(("name", "watts"), [("basic", 6.0), ("moderate", 14.0), ("maximum", 34.0)])
def test_the_totals_of_table_iv_come_out_exactly(name: str, watts: float) -> None:
    (point,) = [point for point in points() if point.name == name]
    assert point.watts == watts
    assert PowerModel(DOTS).average_watts(point) == pytest.approx(watts, abs=1e-12)


def test_instantaneous_watts_meet_the_table() -> None:
    model = PowerModel(DOTS)
    assert model.watts() == pytest.approx(2.5 + 2.5)
    assert model.watts(speed=0.5) == pytest.approx(2.5 + 2.5 + 2.0)
    assert model.watts(cameras=1.0, speed=-0.5) == pytest.approx(14.0)
    assert model.watts(computer_load=1.0, cameras=1.0, effort=1.0) == pytest.approx(34.0)
    assert model.watts(computer_load=0.5) == pytest.approx(2.5 + 6.0)
    assert model.watts(cameras=0.2) == pytest.approx(5.0 + 1.4)


def test_motors_that_are_off_draw_nothing() -> None:
    model = PowerModel(DOTS)
    assert model.watts(speed=1.0, effort=1.0, motors_on=False) == model.watts()


@property_test
@given(st.floats(-5.0, 5.0), st.floats(-3.0, 3.0))
def test_motors_draw_between_nothing_and_full_torque(speed: float, effort: float) -> None:
    watts = motor_watts(speed, effort, 4.0, 15.0)
    assert 0.0 <= watts <= 15.0
    assert watts >= motor_watts(speed * 0.5, effort * 0.5, 4.0, 15.0)
    assert watts == motor_watts(-speed, -effort, 4.0, 15.0)


def test_values_that_are_not_numbers_or_not_shares_are_held_in_bounds() -> None:
    model = PowerModel(DOTS)
    wrong = math.nan
    assert model.watts(computer_load=wrong, cameras=wrong, speed=wrong, effort=wrong) == model.watts()
    assert model.watts(speed=math.inf) == model.watts()
    assert model.watts(computer_load=7.0, cameras=-3.0) == model.watts(computer_load=1.0)


def test_every_kind_of_robot_has_a_power_model(any_spec: RobotSpec) -> None:
    model = PowerModel(any_spec)
    idle, busy = model.watts(), model.watts(computer_load=1.0, cameras=1.0, speed=1.0, effort=1.0)
    if any_spec.consumption is None:
        assert idle == busy == 0.0
    else:
        assert 0.0 < idle < busy
        walk = model.motor_watts(any_spec.consumption.motors_random_walk_speed or 0.0)
        assert walk == pytest.approx(any_spec.consumption.motors_random_walk)
        assert model.motor_watts(0.0, 1.0) == pytest.approx(any_spec.consumption.motors_full_torque)


# What the battery gives.


@pytest.mark.parametrize("point", points(), ids=lambda point: point.name)
@pytest.mark.parametrize("step", [7.0, 600.0, 5000.0])
def test_a_charge_lasts_as_long_as_table_iv_says(point: OperatingPoint, step: float) -> None:
    battery = BatteryModel(dots_battery())
    seconds, steps = 0.0, 0
    while battery.powered:
        seconds += battery.discharge(point.watts, step)
        steps += 1
        assert steps * step < 30 * HOUR
    # The paper rounds 14.17 and 6.07 hours.
    assert seconds / HOUR == pytest.approx(point.hours, rel=0.03)
    assert round(seconds / HOUR * 2) / 2 == point.hours
    assert seconds == pytest.approx(BatteryModel(dots_battery()).hours(point.watts) * HOUR, rel=1e-9)  # type: ignore[operator]


def test_idle_lasts_the_sixteen_hours_of_the_text() -> None:
    hours = BatteryModel(dots_battery()).hours(PowerModel(DOTS).watts())
    assert hours is not None
    assert hours == pytest.approx(16.0, rel=0.07)


@property_test
@given(any_battery, shares, st.lists(st.tuples(loads, st.floats(0.0, 3 * HOUR)), max_size=8))
def test_charge_only_falls_and_is_never_below_nothing(
    battery: Battery, start: float, steps: list[tuple[float, float]]
) -> None:
    model = BatteryModel(battery, start)
    supplied_wh = 0.0
    for watts, seconds in steps:
        before, was_powered = model.state_of_charge, model.powered
        supplied = model.discharge(watts, seconds)
        supplied_wh += watts * supplied / HOUR
        assert 0.0 <= model.state_of_charge <= before
        assert 0.0 <= supplied <= seconds * (1 + 1e-12)
        assert was_powered or (supplied == 0.0 and not model.powered)
        assert math.isfinite(model.voltage)
        assert math.isfinite(model.current)
        if model.powered:
            assert model.cell_voltage >= battery.cell_cutoff - 1e-9
        else:
            assert model.hours(1.0) == 0.0
    assert start * model.usable_wh - supplied_wh == pytest.approx(
        model.remaining_wh, abs=1e-9 * model.usable_wh
    )


@property_test
@given(any_battery, st.floats(0.1, 20.0), st.integers(1, 40))
def test_energy_does_not_depend_on_the_step(battery: Battery, watts: float, pieces: int) -> None:
    whole, cut = BatteryModel(battery), BatteryModel(battery)
    seconds = 2 * HOUR
    supplied = whole.discharge(watts, seconds)
    supplied_in_pieces = sum(cut.discharge(watts, seconds / pieces) for _ in range(pieces))
    assert supplied_in_pieces == pytest.approx(supplied, rel=1e-9)
    assert cut.state_of_charge == pytest.approx(whole.state_of_charge, abs=1e-9)


@property_test
@given(st.floats(1.0, 5.0), st.floats(-50.0, 50.0), st.floats(0.0, 0.2))
def test_cell_voltage_and_current_give_the_power(ocv: float, watts: float, resistance: float) -> None:
    voltage = cell_voltage(ocv, watts, resistance)
    if 4 * watts * resistance <= ocv * ocv:
        current = watts / voltage
        assert voltage == pytest.approx(ocv - current * resistance, rel=1e-9, abs=1e-9)
    else:
        assert voltage == ocv / 2


def test_voltage_sags_under_load_and_rises_while_charging() -> None:
    model = BatteryModel(dots_battery(), 0.5)
    assert model.voltage == pytest.approx(4.6)
    assert model.current == 0.0
    model.discharge(34.0, 0.0)
    assert model.current == pytest.approx(34.0 / 0.85 / model.voltage)
    assert model.cell_voltage == pytest.approx(2.3 - 0.001 * model.current)
    model.charge(34.0, 0.0)
    assert model.cell_voltage > 2.3
    assert model.current < 0.0
    model.discharge(0.0, 10.0)
    assert model.voltage == pytest.approx(4.6)


def test_a_heavy_load_cuts_off_before_a_light_one() -> None:
    pioneer = BATTERIES["pioneer3dx"]
    heavy, light = BatteryModel(pioneer), BatteryModel(pioneer)
    heavy.discharge(105.0, 100 * HOUR)
    light.discharge(10.0, 100 * HOUR)
    assert heavy.state_of_charge > light.state_of_charge + 0.05
    assert not heavy.powered
    assert not light.powered


def test_a_load_beyond_what_the_cells_can_give_cuts_off_at_once() -> None:
    model = BatteryModel(BATTERIES["epuck2"])
    assert model.discharge(1000.0, 1.0) == 0.0
    assert not model.powered
    assert model.state_of_charge == 1.0
    assert 0.0 < model.cell_voltage < BATTERIES["epuck2"].cell_cutoff


def test_a_cell_collapses_before_it_sags_to_a_low_cut_off() -> None:
    # With 5 ohms, 0.4 W of a cell is the most that an open circuit of 2 * sqrt(0.4 * 5) = 2.83 V can give.
    battery = dots_battery().model_copy(
        update={
            "cells": 1,
            "efficiency": 1.0,
            "cell_resistance": 5.0,
            "cell_cutoff": 1.0,
            "state_of_charge": (0.0, 1.0),
            "open_circuit": (1.61, 4.2),
        }
    )
    model = BatteryModel(battery)
    model.discharge(0.4, 1000 * HOUR)
    assert not model.powered
    assert model.open_circuit_voltage == pytest.approx(2 * math.sqrt(2.0))


def test_a_load_beyond_the_top_of_a_short_curve_cuts_off_at_once() -> None:
    short = dots_battery().model_copy(update={"state_of_charge": (0.0, 0.9), "open_circuit": (1.61, 2.6)})
    assert BatteryModel(short).discharge(1e4, 1.0) == 0.0


def test_a_cut_off_holds_until_enough_is_charged() -> None:
    model = BatteryModel(dots_battery())
    model.discharge(34.0, 3 * HOUR)
    assert not model.powered
    assert model.reading(1.0).cell_voltages == (1.6, 1.6)
    assert model.discharge(6.0, 1.0) == 0.0
    assert model.current == 0.0
    assert model.cell_voltage > 1.6
    enough = RECOVERY * model.usable_wh * HOUR
    model.charge(1.0, 0.99 * enough)
    assert not model.powered
    model.charge(1.0, 0.02 * enough)
    assert model.powered
    assert model.discharge(6.0, 1.0) == 1.0


def test_recovery_is_above_the_charge_at_which_it_was_cut_off() -> None:
    model = BatteryModel(BATTERIES["pioneer3dx"])
    model.discharge(105.0, 100 * HOUR)
    at_cutoff = model.state_of_charge
    assert at_cutoff > RECOVERY
    model.charge(1.0, 1.0)
    assert not model.powered
    model.charge(model.usable_wh, RECOVERY * HOUR)
    assert model.powered


def test_a_full_battery_takes_no_more() -> None:
    model = BatteryModel(dots_battery(), 0.99)
    model.charge(60.0, 5 * HOUR)
    assert model.state_of_charge == 1.0
    assert model.current == 0.0


def test_an_empty_battery_supplies_nothing() -> None:
    model = BatteryModel(dots_battery(), 0.0)
    assert not model.powered
    assert model.discharge(1.0, 1.0) == 0.0
    assert model.hours(6.0) == 0.0


@pytest.mark.parametrize(
    ("watts", "seconds"),
    [(math.nan, 1.0), (1.0, math.nan), (-1.0, 1.0), (1.0, -1.0), (math.inf, 1.0), (1.0, math.inf)],
)
def test_impossible_loads_are_refused_and_counted(watts: float, seconds: float) -> None:
    model = BatteryModel(dots_battery(), 0.5)
    assert model.discharge(watts, seconds) == 0.0
    model.charge(watts, seconds)
    assert model.state_of_charge == 0.5
    assert model.health.counts["battery.load"] == 2


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_impossible_shares_are_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="state_of_charge"):
        BatteryModel(dots_battery(), share)
    with pytest.raises(ConfigError, match="recovery"):
        BatteryModel(dots_battery(), recovery=share)


@pytest.mark.parametrize("watts", [0.0, -1.0, math.nan, math.inf])
def test_nothing_drawn_has_no_hours(watts: float) -> None:
    assert BatteryModel(dots_battery()).hours(watts) is None


# What the robot can tell.


def reading(*cells: float, current: float = 0.0, stamp: float = 0.0) -> PowerReading:
    return PowerReading(stamp=stamp, cell_voltages=cells, current=current)


@property_test
@given(any_battery, st.floats(0.3, 1.0), st.floats(0.0, 5.0))
def test_the_monitor_finds_the_charge_of_the_model(battery: Battery, share: float, watts: float) -> None:
    model = BatteryModel(battery, share)
    model.discharge(watts, 1.0)
    state = BatteryMonitor(battery).update(model.reading(1.0))
    assert state is not None
    assert state.state_of_charge == pytest.approx(model.state_of_charge, abs=1e-9)
    assert state.remaining_wh == pytest.approx(model.remaining_wh, abs=1e-7)
    assert state.voltage == pytest.approx(model.voltage)
    assert state.undervoltage != model.powered
    assert len(state.cell_voltages) == battery.cells


def test_hours_left_follow_the_average_load() -> None:
    model, monitor = BatteryModel(dots_battery()), BatteryMonitor(dots_battery(), averaging=60.0)
    assert monitor.state is None
    state = None
    for tick in range(6000):
        model.discharge(14.0 if tick % 2 else 6.0, 0.1)
        state = monitor.update(model.reading(0.1 * tick))
    assert state is not None
    assert state is monitor.state
    assert state.hours_left == pytest.approx(model.remaining_wh / 10.0, rel=0.01)


def test_nothing_drawn_or_charging_has_no_hours_left() -> None:
    for current in (0.0, -3.0):
        state = BatteryMonitor(dots_battery()).update(reading(2.3, 2.3, current=current))
        assert state is not None
        assert state.hours_left is None


def test_the_weakest_cell_counts() -> None:
    state = BatteryMonitor(dots_battery()).update(reading(2.4, 2.1))
    assert state is not None
    assert state.state_of_charge == pytest.approx(0.1)
    assert state.voltage == pytest.approx(4.5)
    assert not state.undervoltage


def test_undervoltage_is_seen_and_stays_until_recovered() -> None:
    monitor = BatteryMonitor(dots_battery())
    seen = []
    for stamp, volts in enumerate((2.3, 1.6, 1.65, 1.95, 2.02, 1.7)):
        state = monitor.update(reading(2.5, volts, stamp=float(stamp)))
        assert state is not None
        seen.append(state.undervoltage)
    assert seen == [False, True, True, True, False, False]


def test_a_cut_off_model_is_an_undervoltage_for_the_monitor() -> None:
    for battery in BATTERIES.values():
        for watts in (0.5, 5.0):
            model, monitor = BatteryModel(battery), BatteryMonitor(battery)
            state = None
            for tick in range(100_000):
                model.discharge(watts, 300.0)
                state = monitor.update(model.reading(300.0 * tick))
                if not model.powered:
                    break
            assert state is not None
            assert state.undervoltage
            model.discharge(0.0, 300.0)
            after = monitor.update(model.reading(1e9))
            assert after is not None
            assert after.undervoltage


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (reading(2.3), "battery.cells"),
        (reading(2.3, 2.3, 2.3), "battery.cells"),
        (reading(2.3, math.nan), "battery.not_finite"),
        (reading(2.3, 2.3, current=math.inf), "battery.not_finite"),
        (reading(2.3, 2.3, stamp=math.nan), "battery.not_finite"),
        (reading(2.3, -0.1), "battery.negative"),
    ],
)
def test_bad_readings_are_refused_and_counted(bad: PowerReading, reason: str) -> None:
    monitor = BatteryMonitor(dots_battery())
    assert monitor.update(bad) is None
    good = monitor.update(reading(2.3, 2.3))
    assert monitor.update(bad) is good
    assert monitor.health.counts == {reason: 2}


def test_a_clock_that_steps_backwards_is_counted_and_survived() -> None:
    monitor = BatteryMonitor(dots_battery())
    monitor.update(reading(2.3, 2.3, current=2.0, stamp=100.0))
    state = monitor.update(reading(2.3, 2.3, current=4.0, stamp=3.0))
    assert state is not None
    assert state.stamp == 3.0
    assert state.current == 4.0
    assert state.hours_left == pytest.approx(state.remaining_wh / (4.6 * 2.0 * 0.85))
    assert monitor.health.counts == {"battery.clock_backwards": 1}


def test_a_battery_drains_to_a_share_and_is_off_when_it_is_empty() -> None:
    model = BatteryModel(dots_battery())
    assert model.drain(0.75, 60.0) == pytest.approx(model.usable_wh / 4)
    assert model.state_of_charge == pytest.approx(0.75)
    assert model.current > 0
    assert model.drain(0.9, 60.0) == 0
    assert model.powered
    model.drain(0.0, 60.0)
    assert not model.powered
    assert model.drain(math.nan, 1.0) == model.drain(0.5, 0.0) == 0
    assert model.health.counts["battery.drain"] == 2
