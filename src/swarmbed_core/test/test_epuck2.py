"""The e-puck2's readings are in the robot's range, and go the way that the paper's curves go."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.device import ImuReading
from swarmbed_core.epuck2 import Encoders
from swarmbed_core.errors import ConfigError
from swarmbed_core.readings import dark, readings_of
from swarmbed_core.robot import Senses
from swarmbed_core.spec import RobotSpec

from swarmbed_core import epuck2

RADIUS = 0.0205
SPEC = RobotSpec.load("epuck2")
distances = st.floats(0, 3)


def one(function, *values):
    return int(function(*(np.array([value]) for value in values))[0])


@settings(deadline=None)
@given(distances, distances)
def test_what_is_nearer_reads_more(first, second):
    near, far = sorted((first, second))
    assert 0 <= one(epuck2.proximity, far) <= one(epuck2.proximity, near) <= 4095


@settings(deadline=None)
@given(distances, distances, st.floats(0, 5))
def test_what_shines_from_nearer_reads_less(first, second, intensity):
    near, far = sorted((first, second))
    assert 0 <= one(epuck2.light, intensity, near) <= one(epuck2.light, intensity, far) <= 4095


@settings(deadline=None)
@given(distances, st.floats(0, 5), st.floats(0, 5))
def test_a_stronger_light_reads_less(distance, first, second):
    weak, strong = sorted((first, second))
    assert one(epuck2.light, strong, distance) <= one(epuck2.light, weak, distance)


def test_the_curves_are_those_of_the_paper():
    # Equations (1) and (2), worked out by hand.
    assert one(epuck2.proximity, 0.0) == 4095
    for metres, share in ((0.01, 0.72670), (0.02, 0.48134), (0.03, 0.27556), (0.04, 0.10934), (0.05, 0.0)):
        assert one(epuck2.proximity, metres) == pytest.approx(4095 * share, abs=0.6)
    assert one(epuck2.proximity, 0.0501) == 0
    assert one(epuck2.light, 1.0, 0.1) == pytest.approx(4095 * (1 - 0.075**2 / 0.01), abs=0.51)
    assert one(epuck2.light, 1.0, 0.05) == 0
    assert one(epuck2.light, 1.0, 0.51) == 4095
    assert one(epuck2.light, 1.0, 0.0) == 0


@pytest.mark.parametrize(
    ("metres", "millimetres"),
    [
        (0.0, 20),
        (0.01, 20),
        (0.02, 20),
        (0.3456, 346),
        (1.9994, 1999),
        (2.5, 2000),
        (math.inf, 2000),
        (math.nan, 2000),
    ],
)
def test_the_time_of_flight_is_in_millimetres(metres, millimetres):
    assert one(epuck2.time_of_flight, metres) == millimetres


@settings(deadline=None)
@given(st.floats(-1, 2), st.floats(-1, 2))
def test_a_lighter_floor_reads_more(first, second):
    dark, bright = sorted((first, second))
    assert 0 <= one(epuck2.ground, dark) <= one(epuck2.ground, bright) <= 1023


def test_black_and_white():
    assert epuck2.ground(np.array([0.0, 0.5, 1.0])).tolist() == [0, 512, 1023]


def test_two_halves_of_a_step_are_one():
    encoders = Encoders((2,), RADIUS)
    step = 2 * math.pi * RADIUS / 1000
    encoders.roll(np.array([0.5, -0.5]) * step)
    assert encoders.read().tolist() == [0, 0]
    encoders.roll(np.array([0.5, -0.5]) * step)
    assert encoders.read().tolist() == [1, -1]


def test_registers_run_over():
    encoders = Encoders((2,), RADIUS)
    turn = 2 * math.pi * RADIUS
    encoders.roll(np.array([32.767, -32.768]) * turn)
    assert encoders.read().tolist() == [32767, -32768]
    encoders.roll(np.array([0.001, -0.001]) * turn)
    assert encoders.read().tolist() == [-32768, 32767]


@settings(deadline=None)
@given(st.lists(st.floats(-2.0, 2.0), min_size=1, max_size=60))
def test_whatever_parts_a_way_comes_in_the_count_is_that_of_the_whole(ways):
    encoders = Encoders((1,), RADIUS)
    step = 2 * math.pi * RADIUS / 1000
    counted, before = 0, encoders.read()
    for way in ways:
        encoders.roll(np.array([way]))
        after = encoders.read()
        counted += int(Encoders.between(before, after)[0])
        before = after
    assert counted == pytest.approx(math.fsum(ways) / step, abs=1.001)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.lists(st.floats(0, 1), min_size=8, max_size=8),
    st.lists(st.floats(-100, 100), min_size=2, max_size=2),
)
def test_senses_of_one_robot_are_read_in_its_units(greys, brightness, travel):
    senses = Senses(
        1.0,
        np.zeros(3),
        np.zeros(3),
        ranges={"proximity": np.full(8, 0.01), "tof": np.array([math.inf])},
        wheel_travel=np.array(travel),
        imu=ImuReading(1.0, (0.0, 0.0, math.radians(1.0)), (0.0, 0.0, 9.81)),
        ground=np.array(greys),
        light=np.array(brightness),
        spots={"front": np.array([[1.5, 2.5, 255.0, 0.0, 7.0]]), "another": np.zeros((3, 5))},
    )
    leds = dark(SPEC, 1)
    own = epuck2.readings_of(senses, SPEC, leds)
    assert own.leds is leds
    assert own.ground[0].tolist() == epuck2.ground(np.array(greys)).tolist()
    assert np.abs(own.light[0] - 4095 * (1 - np.array(brightness))).max() <= 0.5
    assert own.proximity[0].tolist() == epuck2.proximity(np.full(8, 0.01)).tolist()
    assert own.tof.tolist() == [2000]
    steps = np.array(travel) / (2 * math.pi * 0.0205 / 1000)
    off = (own.encoders[0] - steps + 32768) % 65536 - 32768
    assert np.abs(off).max() <= 1.0
    assert own.acceleration.tolist() == [[0, 0, 16384]]
    assert own.turning.tolist() == [[0, 0, 131]]
    assert own.camera.first.tolist() == [0, 1]
    assert own.camera.pixels.tolist() == [[1.5, 2.5]]
    assert own.camera.colours.tolist() == [[255, 0, 7]]
    assert own.battery is None


def test_senses_that_a_robot_lacks_are_none():
    own = epuck2.readings_of(Senses(1.0, np.zeros(3), np.zeros(3)), SPEC, dark(SPEC, 1))
    assert {getattr(own, name) is None for name in ("ground", "light", "camera", "encoders", "tof")} == {True}
    assert readings_of(RobotSpec.load("dots")) is None
    assert readings_of(SPEC) is epuck2.readings_of
    with pytest.raises(ConfigError, match="no reading 'smell': there are epuck2"):
        readings_of(SPEC.model_copy(update={"readings": "smell"}))
