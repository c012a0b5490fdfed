"""A device is any mix of parts; readings are frozen; the protocols are what simple parts satisfy."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from swarmbed_core.device import (
    Clock,
    CompassReading,
    CornerReading,
    Device,
    ImageReading,
    ImuReading,
    LifterPart,
    LifterReading,
    MotorReading,
    Motors,
    PowerReading,
    RadioPacket,
    RangeReading,
    SensorReading,
    Zone,
)

from swarmbed_core import device as module

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

READINGS = (
    MotorReading(0.0, np.zeros(3), np.zeros(3)),
    ImuReading(0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 9.81)),
    CompassReading(0.0, 1.0),
    RangeReading(0.0, np.zeros(16)),
    CornerReading(0.0, "cam0", np.array([7]), np.zeros((1, 4, 2))),
    ImageReading(0.0, "cam0", np.zeros((480, 640), np.uint8)),
    PowerReading(0.0, (2.3, 2.3), 1.0),
    LifterReading(0.0, 0.145),
    RadioPacket(0.0, "dots1"),
    SensorReading(0.0, np.zeros(3)),
)


class StoppedClock:
    """A clock that stands."""

    time = 7.0


class TwoMotors:
    """Motors that do at once what they are asked."""

    def __init__(self) -> None:
        self.on = False
        self.speeds = np.zeros(3)

    def enable(self, on: bool) -> None:
        self.on = on

    def drive(self, speeds: FloatArray) -> None:
        self.speeds = speeds

    def read(self) -> MotorReading:
        return MotorReading(stamp=7.0, travel=np.zeros(3), speeds=self.speeds)


class StuckLifter:
    """A lifter that never moves."""

    def __init__(self, height: float) -> None:
        self.height = height

    def move(self, height: float) -> None:
        """Do nothing."""

    def read(self) -> LifterReading:
        return LifterReading(stamp=7.0, height=self.height)


def a_device(spec: RobotSpec) -> Device:
    return Device(name="r1", spec=spec, clock=StoppedClock(), motors=TwoMotors())


def test_only_clock_and_motors_have_to_be_there(any_spec: RobotSpec) -> None:
    device = a_device(any_spec)
    assert device.clock.time == 7.0
    for part in ("lifter", "imu", "compass", "zone", "cameras", "power", "leds"):
        assert getattr(device, part) is None
    assert device.ranges == {}
    assert device.radios == {}
    with pytest.raises(TypeError, match="motors"):
        Device(name="r1", spec=any_spec, clock=StoppedClock())  # type: ignore[call-arg]


def test_two_devices_do_not_share_their_parts(dots: RobotSpec) -> None:
    assert a_device(dots).radios is not a_device(dots).radios


def test_parts_are_given_by_name_only(dots: RobotSpec) -> None:
    with pytest.raises(TypeError):
        Device("r1", dots, StoppedClock(), TwoMotors())  # type: ignore[call-arg]


def test_a_real_part_replaces_a_virtual_one(dots: RobotSpec) -> None:
    virtual = replace(a_device(dots), lifter=StuckLifter(0.145))
    mixed = replace(virtual, lifter=StuckLifter(0.197))
    assert mixed.lifter is not None
    assert virtual.lifter is not None
    assert mixed.lifter.read().height == 0.197
    assert virtual.lifter.read().height == 0.145
    assert mixed.motors is virtual.motors
    assert mixed.clock is virtual.clock
    with pytest.raises(FrozenInstanceError):
        mixed.lifter = None  # type: ignore[misc]


def test_simple_classes_satisfy_the_protocols() -> None:
    clock: Clock = StoppedClock()
    motors: Motors = TwoMotors()
    lifter: LifterPart = StuckLifter(0.15)
    motors.enable(True)
    motors.drive(np.ones(3))
    lifter.move(0.19)
    assert motors.read().speeds.tolist() == [1.0, 1.0, 1.0]
    assert motors.read().effort == 0.0
    assert clock.time == motors.read().stamp == lifter.read().stamp


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: type(reading).__name__)
def test_readings_are_stamped_frozen_and_small(reading: MotorReading) -> None:
    assert reading.stamp == 0.0
    with pytest.raises(AttributeError):
        reading.stamp = 1.0  # type: ignore[misc]
    assert not hasattr(reading, "__dict__")


def test_every_reading_is_tried_here() -> None:
    kinds = {
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, tuple) and kind.__module__ == module.__name__
    }
    assert kinds == {type(reading) for reading in READINGS}


def test_a_packet_without_more_is_bare() -> None:
    packet = RadioPacket(1.0, "dots1")
    assert (packet.payload, packet.rssi, packet.distance) == (b"", None, None)


def test_zones_have_numbers_for_the_wire() -> None:
    assert [(zone.name, int(zone)) for zone in Zone] == [("NEITHER", 0), ("SEARCH", 1), ("DROP", 2)]
    assert not Zone.NEITHER
