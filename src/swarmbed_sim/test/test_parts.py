"""The parts that all robots carry: against core's own models, and their specs."""

import math

import numpy as np
import pytest
from swarmbed_core.device import Zone
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.parts import Beat, roomy

DOTS = RobotSpec.load("dots")
MEASURED = {"ble": "rssi", "uwb": "distance"}


# Lifter and power


def test_the_platform_follows_at_its_own_rate(world):
    w = world([(0.0, 0.0, 0.0)])
    lifter = w.device("dots1").lifter
    w.run(3.0)
    assert lifter.read().height == DOTS.lifter.lowered
    lifter.move(DOTS.lifter.raised)
    w.step()
    assert 0 < lifter.read().height - DOTS.lifter.lowered < 0.002
    w.run(0.25)
    assert DOTS.lifter.lowered < lifter.read().height < DOTS.lifter.raised
    w.run(0.5)
    assert lifter.read().height == DOTS.lifter.raised
    w.run(1.0)
    lifter.move(0.0)
    w.step()
    assert DOTS.lifter.raised - 0.002 < lifter.read().height < DOTS.lifter.raised
    w.run(1.0)
    assert lifter.read().height == DOTS.lifter.lowered


def test_a_load_that_is_too_heavy_is_not_raised(world, monkeypatch):
    w = world([(0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    monkeypatch.setattr(w, "_loads", [DOTS.lifter.max_load + 0.1])
    lifter = w.device("dots1").lifter
    lifter.move(DOTS.lifter.raised)
    w.run(2.0)
    assert lifter.read().height < DOTS.carrier.clearance + 0.002
    lifter.move(DOTS.lifter.lowered)
    w.run(1.0)
    assert lifter.read().height == DOTS.lifter.lowered


def test_what_is_drawn_is_what_table_iv_says(world):
    w = world([(-2.0, 0.0, 0.0), (-2.0, 1.0, 0.0)], noise=False)
    for name in w.names:
        w.device(name)
    w.drive("dots1", (0.5, 0.0, 0.0))
    w.run(0.1)
    before = w.energy_wh()
    w.run(5.0)
    watts = (w.energy_wh() - before) * 3600 / 5.0
    # Mainboard, idle computer, cameras; and 2 W of random walk at 0.5 m/s.
    assert watts[1] == pytest.approx(12.0, rel=1e-6)
    assert watts[0] == pytest.approx(14.0, rel=1e-6)
    reading = w.device("dots1").power.read()
    battery = DOTS.battery
    drawn = sum(reading.cell_voltages) * reading.current * battery.efficiency
    assert drawn == pytest.approx(14.0, rel=1e-6)


def test_a_switched_off_robot_draws_nothing_and_stands(world):
    w = world([(-2.0, 0.0, 0.0)])
    device = w.device("dots1")
    w.drive("dots1", (0.5, 0.0, 0.0))
    w.run(0.5)
    device.power.enable(False)
    w.run(0.1)
    before = w.energy_wh()
    place = w.truth()[0, :3]
    w.run(1.0)
    assert w.energy_wh() == pytest.approx(before)
    assert w.truth()[0, :3] == pytest.approx(place)
    device.power.enable(True)
    w.run(0.1)
    assert w.truth()[0, 3] == pytest.approx(0.5, rel=0.05)


def test_a_switched_off_robot_is_silent_until_it_is_switched_on(world):
    w = world([(1.6, 0.0, 0.0), (2.2, 0.0, math.pi)], [(1.9, 0.8, 0.5)], noise=False)
    device, other = w.device("dots1"), w.device("dots2")

    def senses():
        zone = device.zone.read() is not Zone.NEITHER
        read = [device.ranges["tof"].read(), device.cameras.read(), device.motors.read().stamp == w.time]
        read += [device.imu.read().stamp == w.time, *(radio.read() for radio in device.radios.values())]
        return [zone, *map(bool, read)]

    def heard():
        return {packet.sender for radio in other.radios.values() for packet in radio.read()}

    device.leds.show([255] * 16)
    # Who shows them hears of changes only.
    device.leds.show([255] * 16)
    device.leds.show([1])
    w.run(0.5)
    assert all(senses())
    assert heard() == {"dots1"}
    device.power.enable(False)
    went_off = w.time
    assert device.leds.bar.values == (0,) * 16
    assert w.physics.lights == [(0, (255,) * 16), (0, (0,) * 16)]
    w.run(0.5)
    assert not any(senses())
    assert device.imu.read().stamp == went_off
    assert heard() == set()
    assert not device.radios["ble"].send(b"help")
    assert device.power.read().stamp == w.time
    device.power.enable(True)
    # Nothing of what was before is left over.
    assert not any((device.ranges["tof"].read(), device.cameras.read(), device.radios["ble"].read()))
    w.run(0.5)
    assert all(senses())
    assert heard() == {"dots1"}
    # The dead cannot be switched on.
    w.kill("dots1")
    device.power.enable(False)
    device.power.enable(True)
    w.run(0.5)
    assert not any(senses())
    assert heard() == set()


def test_an_empty_battery_stops_the_robot(world):
    w = world([(-2.0, 0.0, 0.0)])
    device = w.device("dots1")
    w.drive("dots1", (0.1, 0.0, 0.0))
    w.run(0.5)
    device.power.battery.discharge(20.0, 3600 * 10.0)
    w.run(0.2)
    assert w.truth()[0, 3] == 0.0
    before = w.energy_wh()
    w.run(1.0)
    assert w.energy_wh() == pytest.approx(before)


# Radios


def test_without_noise_radios_measure_exactly(world):
    for noise in (True, False):
        w = world([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], noise=noise)
        radios, _ = (w.device(name).radios for name in w.names)
        w.run(1.0)
        ble, uwb = ({getattr(p, field) for p in radios[name].read()} for name, field in MEASURED.items())
        assert (ble == {DOTS.radios[0].rssi_at_1m}) != noise
        assert (uwb == {1.0}) != noise


# Small things


def test_beats_count():
    beat = Beat(50.0)
    assert [beat.due(0.01 * k) for k in range(1, 5)] == [True, False, True, False]
    assert beat.count == 2
    assert beat.stamp == 0.03


def test_room_grows_and_keeps_what_is_there():
    array = np.arange(4.0).reshape(2, 2)
    assert roomy(array, 1) is array
    grown = roomy(array, 2)
    assert len(grown) >= 3
    assert np.array_equal(grown[:2], array)
    assert grown.dtype == array.dtype
