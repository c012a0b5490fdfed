"""Hardware in the loop: the program has the real part, the world's part follows it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from swarmbed_core.both import BothLeds, BothLifter, BothMotors, BothPower
from swarmbed_core.device import LifterReading, MotorReading, PowerReading
from swarmbed_core.memory import MemoryWorld


class Real:
    """Motors of which one wheel is stuck."""

    def __init__(self):
        self.on, self.speeds, self.hold = True, np.zeros(3), 0.0

    def enable(self, on):
        self.on = on

    def drive(self, speeds, hold=0.5):
        self.speeds, self.hold = np.array(speeds) * (1.0, 1.0, 0.0), hold

    def read(self):
        return MotorReading(3.0, np.arange(3.0), self.speeds)


def test_the_body_in_the_world_moves_as_the_real_wheels_do():
    world = MemoryWorld.of(["dots"], noise=False)
    virtual, real = world.device("dots1").motors, Real()
    motors = BothMotors(real, virtual)
    motors.drive(np.full(3, 0.3), 0.2)
    assert real.hold == 0.2
    reading = motors.read()
    assert reading.stamp == 3.0
    assert reading.travel.tolist() == [0.0, 1.0, 2.0]
    for _ in range(10):
        world.step()
    assert virtual.read().speeds == pytest.approx([0.3, 0.3, 0.0])
    motors.enable(False)
    assert not real.on
    world.step()
    assert virtual.read().speeds.tolist() == [0.0, 0.0, 0.0]


def test_without_readings_the_body_in_the_world_stops():
    world = MemoryWorld.of(["dots"], noise=False)
    virtual, real = world.device("dots1").motors, Real()
    motors = BothMotors(real, virtual)
    motors.drive(np.full(3, 0.3), 0.2)
    motors.read()
    for _ in range(21):
        world.step()
    assert virtual.read().speeds.tolist() == [0.0, 0.0, 0.0]


def test_the_other_parts_go_together():
    heights, switched, shown = [], [], []
    lifter = BothLifter(
        SimpleNamespace(move=lambda to: heights.append(("real", to)), read=lambda: LifterReading(1.0, 0.16)),
        SimpleNamespace(move=lambda to: heights.append(("virtual", to))),
    )
    lifter.move(0.19)
    assert lifter.read().height == 0.16
    assert heights == [("real", 0.19), ("virtual", 0.16)]
    power = BothPower(
        SimpleNamespace(enable=switched.append, read=lambda: PowerReading(1.0, (3.7,), 2.0)),
        SimpleNamespace(enable=switched.append),
    )
    power.enable(False)
    assert power.read().current == 2.0
    assert switched == [False, False]
    BothLeds(SimpleNamespace(show=shown.append), SimpleNamespace(show=shown.append)).show([1])
    assert shown == [[1], [1]]
