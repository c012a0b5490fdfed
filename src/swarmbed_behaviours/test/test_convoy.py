"""A convoy's arithmetic: what passes in a tick, where the one ahead is, and how errors stay small."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.convoy import Convoy, ConvoyParameters
from swarmbed_core.config import check
from swarmbed_core.device import RadioPacket
from swarmbed_core.errors import ConfigError
from swarmbed_core.robot import Command
from swarmbed_core.spec import RobotSpec

from swarmbed_behaviours import convoy

speeds = st.floats(-1.5, 1.5)


@settings(deadline=None)
@given(before=speeds, asked=speeds, acceleration=st.floats(0.2, 8.0))
def test_what_passes_in_a_tick_is_what_drives_with_that_acceleration_do(before, asked, acceleration):
    after = convoy.reached_k(before, asked, acceleration)
    passed = convoy.passed_k(before, after, acceleration)
    steps, speed, way = 2000, before, 0.0
    dt = convoy.TICK / steps
    for _ in range(steps):
        faster = speed + min(max(asked - speed, -acceleration * dt), acceleration * dt)
        way += 0.5 * (speed + faster) * dt
        speed = faster
    assert after == pytest.approx(speed, abs=1e-6)
    assert passed == pytest.approx(way, abs=1e-6)


@settings(deadline=None)
@given(st.floats(-50, 50))
def test_wrapped_angles_are_the_same_directions_within_half_a_turn(angle):
    wrapped = convoy.wrap_k(angle)
    assert -math.pi - 1e-9 <= wrapped <= math.pi + 1e-9
    assert math.cos(wrapped) == pytest.approx(math.cos(angle), abs=1e-9)
    assert math.sin(wrapped) == pytest.approx(math.sin(angle), abs=1e-9)


class Line:
    """Two robots without drives: what the second asks for happens, but for an error of each way."""

    def __init__(self, trust, veer=0.0):
        self.crowd = Convoy.crowd(
            RobotSpec.load("convoy_car"),
            ConvoyParameters(adjust="centre", trust=trust),
            2,
            np.random.default_rng(1),
        )
        self.numbers = self.crowd._numbers
        self.state = self.crowd._states[1]
        self.first = np.array([0.4, 0.0, 0.0])
        self.pose = np.zeros(3)
        self.veer = veer
        self.rounds = 0

    def round(self, alpha, way):
        """Let the first turn and go, and the second do a round."""
        self.rounds += 1
        self.first[2] += alpha
        self.first[:2] += way * np.array([math.cos(self.first[2]), math.sin(self.first[2])])
        ahead = np.array([self.rounds, alpha, way, 0.0])
        for _ in range(600):
            dx, dy = self.first[:2] - self.pose[:2]
            bearing = convoy.wrap_k(math.atan2(dy, dx) - self.pose[2])
            apart = math.hypot(dx, dy)
            seen = abs(bearing) < math.asin(0.128 / apart) if apart > 0.128 else False
            gaps = np.array([apart - self.numbers[convoy._SIZE] if seen else math.inf, math.inf, math.inf])
            out = np.zeros(2)
            speed, rate = self.state[convoy.SPEED], self.state[convoy.RATE]
            convoy.round_k(self.state, ahead, ahead, False, True, gaps, 0.5, self.numbers, out)
            turned = convoy.passed_k(rate, self.state[convoy.RATE], self.numbers[convoy._YAW_ACCEL])
            went = convoy.passed_k(speed, self.state[convoy.SPEED], self.numbers[convoy._ACCEL])
            self.pose[:2] += went * np.array([math.cos(self.pose[2]), math.sin(self.pose[2])])
            self.pose[2] += turned + self.veer * went
            if self.state[convoy.ROUND] == self.rounds:
                return
        pytest.fail("the round does not end")

    @property
    def delta_off(self):
        """By how much it is wrong about how the first is turned."""
        return abs(convoy.wrap_k(self.state[convoy.DELTA] - (self.first[2] - self.pose[2])))


@pytest.mark.parametrize("trust", [0.0, 0.7])
def test_a_robot_follows_the_one_ahead_round_a_bend(trust):
    line = Line(trust)
    for alpha in (0.0, 0.3, 0.3, 0.3, -0.2, -0.4, 0.0, 0.0):
        line.round(alpha, 0.2)
        dx, dy = line.first[:2] - line.pose[:2]
        assert math.hypot(dx, dy) == pytest.approx(0.4, abs=0.03)
        assert abs(convoy.wrap_k(math.atan2(dy, dx) - line.pose[2])) < 0.15
        assert line.delta_off < 0.2
    assert line.state[convoy.ADJUSTED] == 8
    assert line.state[convoy.LOST] == 0


def test_the_errors_of_formula_3_add_up_and_those_of_ours_do_not():
    paper, ours = Line(0.0, veer=0.3), Line(0.7, veer=0.3)
    for _ in range(30):
        paper.round(0.0, 0.2)
        ours.round(0.0, 0.2)
    assert paper.delta_off > 0.5
    assert ours.delta_off < 0.1


def test_who_sees_nobody_looks_all_around_and_trusts_what_it_reckoned():
    line = Line(0.7)
    line.round(0.0, 0.2)
    line.first[:2] += 5.0
    line.round(0.0, 0.2)
    assert line.state[convoy.LOST] == 1
    assert line.state[convoy.AWAY] == pytest.approx(0.4, abs=0.01)


def test_who_is_come_near_goes_back_a_little_and_looks_ahead():
    """Where formula 2 leaves next to nothing, formula 1's direction is all error."""
    line = Line(0.7)
    line.round(0.0, 0.2)
    line.round(0.0, -0.25)
    assert line.state[convoy.ALPHA] == 0.0
    assert line.state[convoy.WAY] == pytest.approx(-0.25 * 0.4, abs=0.02)
    assert line.state[convoy.LOST] == 0
    for _ in range(4):
        line.round(0.0, 0.1)
    assert math.dist(line.first[:2], line.pose[:2]) == pytest.approx(0.4, abs=0.05)
    assert abs(line.pose[2]) < 0.3


def test_a_robot_that_cannot_see_ahead_is_no_convoys():
    spec = RobotSpec.load("convoy_car")
    ring = spec.ranges[0].model_copy(update={"angles": (math.pi,)})
    blind = spec.model_copy(update={"ranges": (ring,)})
    with pytest.raises(ConfigError, match="no distance sensor of a convoy_car looks ahead"):
        Convoy.crowd(blind, ConvoyParameters(), 3, np.random.default_rng(1))


words = st.tuples(st.integers(0, 2**32 - 1), *[st.floats(-4, 4, width=32)] * 3)


@settings(deadline=None)
@given(words)
def test_what_is_told_by_radio_is_what_is_heard(told):
    assert convoy.decode(convoy.encode(np.array(told))) == told


@given(st.binary(max_size=20))
def test_what_is_no_message_of_a_convoy_is_not_heard(payload):
    heard = convoy.decode(payload)
    assert heard is None or (len(payload) == 17 and payload[0] == 0xC1)
    assert convoy.decode(convoy._FORM.pack(0xC1, 1, math.nan, 0, 0)) is None


class ByItself:
    """The second of a line by itself, whose senses a test says."""

    def __init__(self, fake_of, name="car2"):
        self.robot = fake_of("convoy_car")
        self.robot.name = name
        self.program = Convoy(self.robot, ConvoyParameters(adjust="find"), np.random.default_rng(1))

    def tick(self, ahead=math.inf, **heard):
        packets = tuple(
            RadioPacket(
                0.0, sender, payload if isinstance(payload, bytes) else convoy.encode(np.array(payload))
            )
            for sender, payload in heard.items()
        )
        self.robot.set(
            ranges={"infrared": np.array([ahead, math.inf, math.inf])}, heard={"neighbours": packets}
        )
        self.program.tick()

    @property
    def told(self):
        return convoy.decode(self.robot.commands[-1].send["neighbours"])


def test_a_robot_by_itself_follows_the_one_whose_number_is_before_its_own(fake_of):
    robot = ByItself(fake_of)
    robot.program.tick()
    assert robot.robot.commands == [Command()], "it has not seen anything yet"
    robot.tick(car1=b"noise", car3=(0, 0, 0, 0), car7=(5, 0, 0.2, 0), bus1=(5, 0, 0.2, 0))
    assert robot.program.doing == "wait"
    assert robot.told == (0, 0, 0, 0)
    robot.tick(car1=(1, 0, 0.2, 0))
    assert robot.program.doing == "move"
    for _ in range(60):
        robot.tick(0.272)
    assert robot.told[0] == 1
    assert robot.told[2] == pytest.approx(0.2, abs=0.01)
    driven = sum(command.velocity_body[0] for command in robot.robot.commands[1:]) * convoy.TICK
    assert driven == pytest.approx(0.2, abs=0.03)
    # The one behind has not ended the round before.
    robot.tick(0.272, car1=(2, 0, 0.2, 0))
    assert robot.program.doing == "wait"
    robot.tick(0.272, car3=(1, 0, 0.2, 0))
    assert robot.program.doing == "move"


def test_nobody_is_behind_who_was_not_heard_and_nobody_before_the_first(fake_of):
    first = ByItself(fake_of, "car1")
    for _ in range(300):
        first.tick()
    assert first.told[0] > 5
    follower = ByItself(fake_of)
    for _ in range(300):
        follower.tick(0.272)
    assert follower.told[0] == 0


def test_robots_without_a_place_or_a_radio_are_no_convoys(fake_of):
    with pytest.raises(ConfigError, match="does not end with its place"):
        ByItself(fake_of, "car")
    robot = fake_of("convoy_car")
    robot.spec = robot.spec.model_copy(update={"radios": ()})
    with pytest.raises(ConfigError, match="no radio for messages of 17 bytes"):
        Convoy(robot, ConvoyParameters(), np.random.default_rng(1))


@pytest.mark.parametrize("wrong", [{"distance": 0}, {"adjust": "guess"}, {"trust": 2}])
def test_wrong_parameters_are_told(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        check(wrong, ConvoyParameters, "t")
