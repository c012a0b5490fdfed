"""Programs for crowds that drive one whole robot."""

from __future__ import annotations

import math

import numpy as np
import pytest
from swarmbed_behaviours.alone import Alone
from swarmbed_core.device import ImuReading, Zone
from swarmbed_core.errors import ConfigError


class Kept:
    """A program that keeps its senses, and drives ahead."""

    def __init__(self, use=None):
        self.senses, self.use = None, use
        self.doing = ["drives"]

    def tick(self, senses, v_body):
        self.senses = senses
        v_body[:] = (0.1, 0.0, 0.5)
        if self.use is not None:
            self.use(senses)


def test_a_robot_is_a_crowd_of_one(fake_of):
    robot, program = fake_of("pioneer3dx"), Kept()
    robot.set(
        ranges={"sonar": np.full(16, 2.0)},
        position=np.array([1.0, 2.0]),
        heading=0.5,
        zone=Zone.DROP,
        twist_body=np.array([0.1, 0.0, 0.2]),
    )
    alone = Alone(robot, program)
    alone.tick()
    senses = program.senses
    assert senses.ranges.shape == (1, 16)
    assert senses.angles.tolist() == list(robot.spec.ranges[0].angles)
    assert senses.positions.tolist() == [[1.0, 2.0]]
    assert senses.headings.tolist() == [0.5]
    assert senses.zones.tolist() == [float(Zone.DROP)]
    assert senses.twists.tolist() == [[0.1, 0.0, 0.2]]
    assert senses.readings is None
    assert robot.commands[0].velocity_body == (0.1, 0.0, 0.5)
    assert robot.commands[0].leds is None
    assert alone.doing == "drives"


def test_what_is_not_known_is_not_a_number(fake_of):
    robot, program = fake_of("dots"), Kept()
    robot.set(heading=None)
    Alone(robot, program).tick()
    assert math.isnan(program.senses.headings[0])
    assert np.isnan(program.senses.positions).all()
    assert program.senses.ranges.shape == (1, 0)


@pytest.mark.parametrize(
    "use", [lambda s: s.air.say(np.zeros((1, 1))), lambda s: s.air.heard(np.zeros(1)), lambda s: s.air.post]
)
def test_the_radio_of_crowds_is_missing(fake_of, use):
    with pytest.raises(ConfigError, match="crowd: true"):
        Alone(fake_of("dots"), Kept(use)).tick()


def test_a_program_that_waits_starts_when_all_is_sensed(fake_of):
    robot, program = fake_of("epuck2"), Kept()
    alone = Alone(robot, program, waits=True)
    robot.set(
        wheel_travel=np.zeros(2),
        imu=ImuReading(0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 9.81)),
        ground=np.ones(3),
        light=np.zeros(8),
        spots={},
    )
    alone.tick()
    assert program.senses is None
    robot.set(spots={"front": np.empty((0, 5))})
    alone.tick()
    assert program.senses.readings.camera.first.tolist() == [0, 0]
    robot.set(ground=None)
    alone.tick()
    assert program.senses.readings.ground is None, "a sensor that falls silent stops no program"
