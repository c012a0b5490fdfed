"""Plain Python for each robot: every program sees its own row and commands its own robot."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from swarmbed_behaviours.each import EachRobot
from swarmbed_core.config import Part
from swarmbed_core.leds import pack
from swarmbed_core.readings import Blobs, Readings
from swarmbed_core.spec import RobotSpec


class Speed(Part):
    speed: float = 0.1


class Curious(EachRobot):
    Parameters = Speed

    def __init__(self, spec, parameters, rng):
        super().__init__(spec, parameters, rng)
        self.seen = []
        self.chance = rng.random()

    def step(self, senses):
        self.seen.append(senses)
        if senses.leds is not None:
            senses.leds[0] = (255, 0, 0)
        return self.parameters.speed, senses.heading


@dataclass
class Told:
    time: float = 0.5
    ranges: np.ndarray = field(default_factory=lambda: np.array([[0.1, np.inf], [0.2, 0.3]]))
    angles: np.ndarray = field(default_factory=lambda: np.array([0.0, 1.0]))
    headings: np.ndarray = field(default_factory=lambda: np.array([1.0, 2.0]))
    zones: np.ndarray = field(default_factory=lambda: np.zeros(2))
    positions: np.ndarray = field(default_factory=lambda: np.array([[1.0, 2.0], [3.0, 4.0]]))
    twists: np.ndarray = field(default_factory=lambda: np.array([[0.1, 0, 0], [0.2, 0, 0]]))
    readings: Readings | None = None


def test_each_sees_its_own_and_drives_itself():
    program = Curious.crowd(RobotSpec.load("epuck2"), Speed(speed=0.07), 2, np.random.default_rng(1))
    v_body = np.full((2, 3), 9.0)
    program.tick(Told(), v_body)
    assert v_body.tolist() == [[0.07, 0.0, 1.0], [0.07, 0.0, 2.0]]
    first, second = (one.seen[0] for one in program.programs)
    assert (first.ranges, second.ranges) == ([0.1, np.inf], [0.2, 0.3])
    assert first.angles == [0.0, 1.0]
    assert second.twist == [0.2, 0, 0]
    assert (first.position, second.position) == ([1.0, 2.0], [3.0, 4.0])
    assert first.time == 0.5
    assert first.proximity is None
    assert program.programs[0].chance != program.programs[1].chance


def test_readings_come_as_plain_numbers_and_lights_can_be_switched():
    own = Readings(
        np.zeros((2, 10, 3), dtype=np.uint8),
        proximity=np.array([[1, 2], [3, 4]]),
        tof=np.array([20, 2000]),
        battery=np.array([0.5, 1.0]),
        camera=Blobs(
            np.array([0, 0, 2]),
            np.array([[1.0, 2.0], [3.0, 4.0]]),
            np.array([[9, 8, 7], [1, 1, 1]], np.uint8),
        ),
    )
    program = Curious.crowd(RobotSpec.load("epuck2"), Speed(), 2, np.random.default_rng(1))
    program.tick(Told(readings=own), np.zeros((2, 3)))
    first, second = (one.seen[0] for one in program.programs)
    assert (first.proximity, first.tof, first.battery, first.camera) == ([1, 2], 20, 0.5, [])
    assert second.camera == [(1.0, 2.0, (9, 8, 7)), (3.0, 4.0, (1, 1, 1))]
    assert second.light is None
    assert own.leds[:, 0].tolist() == [[255, 0, 0], [255, 0, 0]]


def test_it_drives_a_robot_outside_a_crowd(fake_of):
    robot = fake_of("epuck2")
    program = Curious(robot, Speed(speed=0.07), np.random.default_rng(1))
    start = robot.sense().time
    program.tick()
    assert robot.commands == [], "it waits for its senses"
    robot.set(time=start + 1.0)
    program.tick()
    program.tick()
    assert robot.commands[0].velocity_body == (0.07, 0.0, 0.0)
    assert robot.commands[0].leds[0] == pack(255, 0, 0)
    assert not any(robot.commands[0].leds[1:])
    assert robot.commands[1].leds is None, "nothing changed"


def test_a_program_without_a_step():
    with pytest.raises(NotImplementedError):
        EachRobot(RobotSpec.load("epuck2"), Speed(), np.random.default_rng(1)).step(None)
