"""Faults of an experiment in parts that are not the world's."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.both import BothMotors
from swarmbed_core.broken import with_faults
from swarmbed_core.device import (
    SENSORS,
    CompassReading,
    Faults,
    ImuReading,
    LifterReading,
    MotorReading,
    PowerReading,
    RadioPacket,
    RangeReading,
    SensorReading,
    Zone,
)
from swarmbed_core.memory import MemoryWorld


class Wheels:
    """Wheels that roll as far as a test says."""

    def __init__(self, count=3):
        self.asked, self.hold, self.on = np.zeros(count), 0.0, True
        self.travel, self.speeds, self.stamp = np.zeros(count), np.zeros(count), 0.0

    def enable(self, on):
        self.on = on

    def drive(self, speeds, hold=0.5):
        self.asked, self.hold = np.array(speeds, dtype=float), hold

    def roll(self, way):
        self.travel = self.travel + way
        self.speeds = np.full(len(self.travel), way)
        self.stamp += 0.01

    def read(self):
        return MotorReading(self.stamp, self.travel.copy(), self.speeds.copy())


class Foreign:
    """Parts from elsewhere: they count what they are asked."""

    def __init__(self):
        self.time = 1.0
        self.heights, self.shown, self.sent, self.switched = [], [], [], []
        one = SimpleNamespace
        self.wheels = Wheels()
        self.parts = {
            "motors": self.wheels,
            "imu": one(read=lambda: ImuReading(self.time, (0.0, 0.0, 1.0), (0.0, 0.0, 9.8))),
            "compass": one(read=lambda: CompassReading(self.time, 0.5)),
            "zone": one(read=lambda: Zone.DROP),
            "lifter": one(move=self.heights.append, read=lambda: LifterReading(self.time, 0.15)),
            "power": one(enable=self.switched.append, read=lambda: PowerReading(self.time, (3.7,), 1.0)),
            "cameras": one(read=lambda: ["image"]),
            "leds": one(show=lambda colours: self.shown.append(list(colours))),
        }
        self.ring = one(read=lambda: RangeReading(self.time, np.full(16, 0.5)))
        self.radio = one(
            send=lambda payload: self.sent.append(payload) or True,
            read=lambda: [RadioPacket(self.time, "dots2", bytes([k])) for k in range(100)],
        )


@pytest.fixture
def foreign():
    return Foreign()


@pytest.fixture
def robot(foreign):
    """A robot whose parts are all foreign."""
    virtual = MemoryWorld.of(["dots"]).device("dots1")
    composed = replace(virtual, **foreign.parts, ranges={"tof": foreign.ring}, radios={"ble": foreign.radio})
    return with_faults(composed, virtual)


def test_virtual_parts_have_no_layer():
    virtual = MemoryWorld.of(["dots"]).device("dots1")
    made = with_faults(replace(virtual), virtual)
    for part in ("motors", "imu", "compass", "lifter", "cameras", "power", "leds", "zone"):
        assert getattr(made, part) is getattr(virtual, part)
    assert made.ranges == virtual.ranges
    assert made.radios == virtual.radios


def test_without_faults_nothing_changes(robot, foreign):
    robot.motors.drive(np.array([0.1, 0.2, 0.3]), 0.25)
    foreign.wheels.roll(0.1)
    assert foreign.wheels.asked.tolist() == [0.1, 0.2, 0.3]
    assert foreign.wheels.hold == 0.25
    assert robot.motors.read().travel.tolist() == [0.1, 0.1, 0.1]
    assert robot.ranges["tof"].read().distances.tolist() == [0.5] * 16
    assert len(robot.radios["ble"].read()) == 100
    assert robot.zone.read() is Zone.DROP
    assert robot.compass.read().heading == 0.5
    robot.leds.show([1, 2])
    assert foreign.shown == [[1, 2]]


def test_a_dead_sensor_of_a_foreign_ring_measures_nothing(robot):
    robot.faults.sensors["tof"] = {3, 15}
    distances = robot.ranges["tof"].read().distances
    assert np.flatnonzero(np.isinf(distances)).tolist() == [3, 15]
    assert np.count_nonzero(distances == 0.5) == 14


def test_a_dead_robot_neither_moves_nor_senses(robot, foreign):
    before = robot.motors.read(), robot.imu.read(), robot.lifter.read(), robot.power.read()
    robot.faults.dead = True
    foreign.time = 5.0
    foreign.wheels.roll(1.0)
    robot.motors.enable(True)
    robot.motors.drive(np.ones(3))
    robot.lifter.move(0.19)
    robot.leds.show([255, 255])
    assert not foreign.wheels.on
    assert foreign.wheels.asked.tolist() == [0.0, 0.0, 0.0]
    assert foreign.heights == []
    assert foreign.shown == [[0, 0]]
    after = robot.motors.read(), robot.imu.read(), robot.lifter.read(), robot.power.read()
    assert [reading.stamp for reading in after] == [reading.stamp for reading in before]
    assert after[0].travel.tolist() == [0.0, 0.0, 0.0]
    assert robot.compass.read() is None
    assert robot.ranges["tof"].read() is None
    assert not robot.cameras.read()
    assert robot.zone.read() is Zone.NEITHER
    assert not robot.radios["ble"].send(b"help")
    assert not robot.radios["ble"].read()
    assert foreign.sent == []


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 0.9), st.floats(-0.1, 0.1), st.booleans()), min_size=1, max_size=20))
def test_slip_is_what_the_wheels_report_and_do_not_do(course):
    """Each way that is rolled with a slip s is reported as 1/(1-s) of it, however often it is read."""
    virtual = MemoryWorld.of(["dots"]).device("dots1")
    wheels = Wheels()
    robot = with_faults(replace(virtual, motors=wheels), replace(virtual, faults=Faults()))
    start = robot.motors.read().travel
    expected = np.zeros(3)
    for slip, way, twice in course:
        robot.faults.slip = slip
        robot.motors.drive(np.full(3, 0.4))
        assert wheels.asked == pytest.approx(0.4 * (1.0 - slip))
        wheels.roll(way)
        expected += way / (1.0 - slip)
        reading = robot.motors.read()
        assert reading.travel - start == pytest.approx(expected, abs=1e-12)
        assert reading.speeds == pytest.approx(way / (1.0 - slip), abs=1e-12)
        if twice:
            assert robot.motors.read().travel.tolist() == reading.travel.tolist()


def test_a_body_in_the_world_slips_there():
    virtual = MemoryWorld.of(["dots"]).device("dots1")
    wheels = Wheels()
    robot = with_faults(replace(virtual, motors=BothMotors(wheels, Wheels())), virtual)
    robot.faults.slip = 0.5
    robot.motors.drive(np.ones(3))
    wheels.roll(0.1)
    assert wheels.asked.tolist() == [1.0, 1.0, 1.0]
    assert robot.motors.read().travel == pytest.approx(0.1)


def test_packets_are_lost_independently_and_repeatably(foreign):
    virtual = MemoryWorld.of(["dots"]).device("dots1")
    heard = []
    for _ in range(2):
        robot = with_faults(replace(virtual, radios={"ble": foreign.radio}), virtual)
        robot.faults.radio_loss = 0.3
        heard.append([[packet.payload for packet in robot.radios["ble"].read()] for _ in range(20)])
    assert heard[0] == heard[1]
    share = sum(map(len, heard[0])) / 2000
    assert share == pytest.approx(0.7, abs=4 * math.sqrt(0.3 * 0.7 / 2000))


def test_drift_is_of_each_wheel_and_what_the_wheels_do_not_report():
    virtual = MemoryWorld.of(["dots"]).device("dots1")
    wheels = Wheels()
    robot = with_faults(replace(virtual, motors=wheels), replace(virtual, faults=Faults()))
    robot.faults.slip, robot.faults.drift = 0.5, {0: 0.8, 2: 1.25}
    robot.motors.drive(np.ones(3))
    assert wheels.asked == pytest.approx([0.4, 0.5, 0.625])
    robot.motors.read()
    wheels.roll(np.array([0.4, 0.5, 0.625]))
    assert robot.motors.read().travel == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.parametrize("name", SENSORS)
def test_a_dead_robot_has_none_of_the_sensors(name):
    """Whatever field of a device holds sensors, also one that is added later."""
    virtual = MemoryWorld.of(["dots"]).device("dots1")
    part = SimpleNamespace(read=lambda: SensorReading(1.0, np.ones(2)))
    own = getattr(virtual, name)
    composed = replace(virtual, **{name: {"front": part} if isinstance(own, dict) else part})
    robot = with_faults(composed, virtual)
    (sensor,) = robot.sensors.values()
    assert sensor.read().values.tolist() == [1.0, 1.0]
    robot.faults.dead = True
    assert sensor.read() is None


def test_a_dead_robot_takes_no_images():
    virtual = MemoryWorld.of(["dots"]).device("dots1")
    watcher = SimpleNamespace(read=lambda: ["image"], watch=lambda _: None, close=lambda: None)
    images = SimpleNamespace(watcher=lambda: watcher)
    robot = with_faults(replace(virtual, images=images), virtual)
    eye = robot.images.watcher()
    eye.watch(["front"])
    assert eye.read() == ["image"]
    robot.faults.dead = True
    assert eye.read() == ()
