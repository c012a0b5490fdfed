"""Programs for crowds of e-puck2s."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from swarmbed_behaviours.epuck2 import TURN, Walk, WalkParameters, Wheels, WheelsParameters
from swarmbed_core.errors import ConfigError
from swarmbed_core.leds import pack
from swarmbed_core.readings import Readings
from swarmbed_core.spec import RobotSpec

SPEC = RobotSpec.load("epuck2")
AXLE = SPEC.drive.wheel_separation


@dataclass
class Told:
    readings: Readings | None


def told(proximity=None, count=1):
    return Told(Readings(np.zeros((count, 10, 3), dtype=np.uint8), proximity=proximity))


def test_a_walk_turns_away_until_the_way_is_free():
    program = Walk.crowd(SPEC, WalkParameters(speed=0.1), 4, np.random.default_rng(1))
    v_body = np.zeros((4, 3))
    near = np.zeros((4, 8), dtype=np.int64)
    near[1, 0] = near[2, 7] = near[3, 3] = 2000
    program.tick(told(near), v_body)
    # Something at the right front, at the left front, behind.
    assert v_body[:, 0].tolist() == [0.1, 0, 0, 0.1]
    assert v_body[:, 2].tolist() == [0, TURN, -TURN, 0]
    near[1, 0], near[1, 7] = 200, 4000
    program.tick(told(near), v_body)
    assert v_body[1].tolist() == [0, 0, TURN], "it goes on the way round that it began"
    program.tick(told(np.zeros((4, 8), dtype=np.int64)), v_body)
    assert (v_body == (0.1, 0, 0)).all()


def test_a_walk_is_no_faster_than_the_robot():
    program = Walk.crowd(SPEC, WalkParameters(), 1, np.random.default_rng(1))
    v_body = np.zeros((1, 3))
    program.tick(told(np.zeros((1, 8), dtype=np.int64)), v_body)
    assert v_body[0, 0] == 0.154


def test_a_walk_needs_its_sensors():
    with pytest.raises(ConfigError, match="convoy_car"):
        Walk.crowd(RobotSpec.load("convoy_car"), WalkParameters(), 1, np.random.default_rng(1))
    program = Walk.crowd(SPEC, WalkParameters(), 1, np.random.default_rng(1))
    with pytest.raises(ConfigError, match="proximity"):
        program.tick(told(), np.zeros((1, 3)))


def test_wheels_turn_as_they_are_told():
    rng = np.random.default_rng(1)
    program = Wheels.crowd(SPEC, WheelsParameters(left=(0.1, 0.0), right=(0.1, 0.05)), 2, rng)
    v_body, senses = np.ones((2, 3)), told(count=2)
    program.tick(senses, v_body)
    assert v_body[0] == pytest.approx([0.1, 0, 0])
    assert v_body[1] == pytest.approx([0.025, 0, 0.05 / AXLE])
    assert not senses.readings.leds.any()
    Wheels.crowd(SPEC, WheelsParameters(colour=(9, 8, 7)), 2, rng).tick(senses, v_body)
    assert (senses.readings.leds == (9, 8, 7)).all()
    assert (v_body == 0).all()


def test_the_ramp_tries_all_speeds_both_ways_round():
    program = Wheels.crowd(SPEC, WheelsParameters(ramp=True), 1, np.random.default_rng(1))
    v_body, speeds = np.zeros((1, 3)), []
    for _ in range(1200):
        program.tick(told(), v_body)
        assert v_body[0, 0] == pytest.approx(0)
        speeds.append(v_body[0, 2] * AXLE / 2)
    assert max(speeds) == pytest.approx(0.15)
    assert min(speeds) == pytest.approx(-0.15)
    assert np.abs(np.diff(speeds)) == pytest.approx(0.001)


def test_a_speed_is_drawn_for_each_run():
    def turn(seed):
        v_body = np.zeros((3, 3))
        parameters = WheelsParameters(draw=(0.0, 0.05, 0.1))
        Wheels.crowd(SPEC, parameters, 3, np.random.default_rng(seed)).tick(told(count=3), v_body)
        assert len(set(v_body[:, 2].tolist())) == 1
        return round(v_body[0, 2] * AXLE / 2, 9)

    assert {turn(seed) for seed in range(30)} == {0.0, 0.05, 0.1}
    assert turn(3) == turn(3)


def test_what_cannot_be_driven():
    with pytest.raises(ConfigError, match="2 speeds for 3 robots"):
        Wheels.crowd(SPEC, WheelsParameters(left=(0.1, 0.2)), 3, np.random.default_rng(1))
    with pytest.raises(ConfigError, match="3 wheels"):
        Wheels.crowd(RobotSpec.load("dots"), WheelsParameters(), 3, np.random.default_rng(1))


def test_one_robot_is_driven_as_a_crowd_is(fake_of):
    robot = fake_of("epuck2")
    walk = Walk(robot, WalkParameters(speed=0.1), np.random.default_rng(1))
    wheels = Wheels(robot, WheelsParameters(right=0.05, colour=(9, 8, 7)), np.random.default_rng(1))
    near = np.full(8, math.inf)
    robot.set(ranges={"proximity": near, "tof": np.array([math.inf])})
    walk.tick()
    near[0] = 0.01
    walk.tick()
    wheels.tick()
    ahead, away, turn = robot.commands
    assert ahead.velocity_body == (0.1, 0.0, 0.0)
    assert away.velocity_body == (0.0, 0.0, TURN)
    assert turn.velocity_body == pytest.approx((0.025, 0.0, 0.05 / AXLE))
    assert turn.leds == [pack(9, 8, 7)] * 10
    with pytest.raises(ConfigError, match="no proximity readings"):
        Walk(fake_of("dots"), WalkParameters(), np.random.default_rng(1))
    with pytest.raises(ConfigError, match="`controller` of their own"):
        Wheels(robot, WheelsParameters(left=(0.1, 0.2)), np.random.default_rng(1))
