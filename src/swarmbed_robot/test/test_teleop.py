"""Driving by keyboard: what keys command, for how long, and that the terminal is left as it was."""

import contextlib
import math
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time

import pytest
from geometry_msgs.msg import Twist
from std_msgs.msg import Bool
from swarmbed_robot.teleop import HELD, Teleop, keyboard, typed

from swarmbed_robot import qos, teleop

PROGRAM = "import sys; from swarmbed_robot import teleop; sys.exit(teleop.main())"


def numbers(twist):
    return twist.linear.x, twist.linear.y, twist.angular.z


class Robot:
    """Hears what a robot is told."""

    def __init__(self, ros, name="dots1"):
        node = ros.node("robot")
        self.twists, self.times, self.lifts = [], [], []
        node.create_subscription(Twist, f"/{name}/cmd_vel", self.hear, qos.INPUT)
        node.create_subscription(
            Bool, f"/{name}/lifter", lambda each: self.lifts.append(each.data), qos.INPUT
        )

    def hear(self, twist):
        self.twists.append(numbers(twist))
        self.times.append(time.monotonic())

    def hear_lift(self, lift):
        self.lifts.append(lift.data)


def program(ros, *arguments, **how):
    how = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, **how}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, "ROS_DOMAIN_ID": str(ros.domain)},
        **how,
    )


@contextlib.contextmanager
def ended(process):
    """Do not leave a process behind if the test fails."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("key", "velocity"),
    [
        ("w", (0.5, 0.0, 0.0)),
        ("s", (-0.5, 0.0, 0.0)),
        ("a", (0.0, 0.5, 0.0)),
        ("d", (0.0, -0.5, 0.0)),
        ("q", (0.0, 0.0, 2.0)),
        ("e", (0.0, 0.0, -2.0)),
        ("W", (0.5, 0.0, 0.0)),
        (" ", (0.0, 0.0, 0.0)),
    ],
)
def test_a_key_counts_until_it_is_let_go_and_then_zero_is_said_once(key, velocity):
    driven = Teleop(0.5, 2.0)
    assert driven.motion(10.0) is None
    driven.press(key, 10.0)
    assert driven.motion(10.0) == velocity
    assert driven.motion(10.0 + HELD) == velocity
    assert driven.motion(10.0 + HELD + 0.01) == (0.0, 0.0, 0.0)
    assert driven.motion(10.0 + HELD + 0.02) is None


def test_a_key_that_repeats_is_held_and_another_takes_its_place():
    driven = Teleop(0.5, 2.0)
    for k in range(20):
        driven.press("w", 0.5 * k)
        assert driven.motion(0.5 * k + 0.4) == (0.5, 0.0, 0.0)
    driven.press("a", 10.0)
    assert driven.motion(10.0) == (0.0, 0.5, 0.0)


def test_other_keys_do_not_move_it():
    driven = Teleop(0.5, 2.0)
    for key in "xyz1\n\t\x1bärf+-":
        driven.press(key, 0.0)
        assert driven.motion(0.0) is None


def test_the_lifter_is_told_again_while_the_key_counts():
    driven = Teleop(0.5, 2.0)
    assert driven.lifting(0.0) is None
    driven.press("r", 0.0)
    assert driven.lifting(0.5) is True
    driven.press("f", 0.5)
    assert driven.lifting(1.0) is False
    assert driven.lifting(1.2) is None


def test_speeds_change_within_the_robots_limits():
    driven = Teleop(0.3, 1.0)
    driven.press("+", 0.0)
    assert (driven.speed, driven.turn) == pytest.approx((0.33, 1.1))
    driven.press("-", 0.0)
    assert (driven.speed, driven.turn) == pytest.approx((0.3, 1.0))
    for _ in range(100):
        driven.press("=", 0.0)
    assert (driven.speed, driven.turn) == (2.0, 10.0)


def test_keys_are_played_and_the_robot_is_stopped(ros):
    robot = Robot(ros, "dots7")
    keys = "ww+arr"
    process = program(ros, "dots7", "--keys", keys, "--speed", "0.5")
    with ended(process):
        ros.spin_until(lambda: process.poll() is not None, "the end")
        ros.spin_until(lambda: robot.twists and robot.twists[-1] == (0.0, 0.0, 0.0), "zero")
        assert process.returncode == 0
    seen = list(dict.fromkeys(robot.twists))
    assert seen[0] == (0.5, 0.0, 0.0)
    assert seen[1] == pytest.approx((0.55, 0.0, 0.0))
    assert seen[2] == pytest.approx((0.0, 0.55, 0.0))
    assert seen[3:] == [(0.0, 0.0, 0.0)]
    assert robot.lifts
    assert all(robot.lifts)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "standard input is not a terminal"),
        (("--keys", "wxw"), "keys has 'x'"),
        (("a b", "--keys", "w"), "'a b' is not a valid robot name"),
        (("--speed", "3"), "speed"),
    ],
)
def test_what_it_cannot_do_is_one_line_and_status_2(ros, arguments, said):
    with ended(program(ros, *arguments, text=True)) as process:
        _, told = process.communicate(timeout=20)
    assert process.returncode == 2
    assert said in told
    assert told.count("\n") == 1


def test_keys_that_nobody_hears_are_not_played_into_the_void(ros, monkeypatch):
    monkeypatch.setattr(teleop, "LISTENERS", 0.05)
    with pytest.raises(teleop.RobotError, match="no subscriber of /dots1/cmd_vel"):
        teleop.start(
            ros.spinner, ros.node("teleop"), {"robot": "dots1", "keys": "w", "speed": 0.3, "turn": 1.0}
        )


@pytest.fixture
def terminal():
    """Both ends of a terminal: what the person has, and what the program has."""
    person, programs = pty.openpty()
    yield person, programs
    os.close(person)
    os.close(programs)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_terminals_keys_drive_and_it_is_restored(ros, terminal, number):
    person, programs = terminal
    before = termios.tcgetattr(programs)
    robot = Robot(ros)
    shown = bytearray()

    def read():
        with contextlib.suppress(OSError):
            while select.select([person], [], [], 0.0)[0]:
                shown.extend(os.read(person, 4096))

    def status(text):
        read()
        return text in shown

    process = program(ros, stdin=programs, stdout=programs)
    with ended(process):
        ros.spin_until(lambda: status(b"dots1: stopped (0.30 m/s, 1.00 rad/s)\x1b[K"), "a listener's status")
        assert not termios.tcgetattr(programs)[3] & (termios.ECHO | termios.ICANON)
        assert not robot.twists
        pressed = time.monotonic()
        os.write(person, b"\x1b[A\x1b[Dw")
        ros.spin_until(lambda: status(b"dots1: forward"), "forward")
        ros.spin_until(lambda: robot.twists and robot.twists[-1] == (0.0, 0.0, 0.0), "zero")
        # From the key on: a robot that has just been found may miss the first commands.
        held = robot.times[-1] - pressed
        assert set(robot.twists) == {(0.3, 0.0, 0.0), (0.0, 0.0, 0.0)}
        assert HELD - 0.1 < held < HELD + 3.0
        assert len(robot.twists) <= 2 + math.ceil(held / teleop.PERIOD)
        os.write(person, b"q")
        ros.spin_until(lambda: robot.twists[-1] == (0.0, 0.0, 1.0), "turning")
        process.send_signal(number)
        ros.spin_until(lambda: process.poll() is not None, "the end")
        ros.spin_until(lambda: robot.twists[-1] == (0.0, 0.0, 0.0), "zero")
        assert process.returncode == 0
    assert termios.tcgetattr(programs) == before


def test_an_error_restores_the_terminal(terminal):
    _, programs = terminal
    before = termios.tcgetattr(programs)

    def fail():
        with keyboard(programs):
            assert termios.tcgetattr(programs) != before
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert termios.tcgetattr(programs) == before


def test_only_what_is_typed_is_a_key(terminal):
    person, programs = terminal
    with keyboard(programs):
        assert typed(programs) == ""
        for sent, keys in (
            (b"wasd", "wasd"),
            (b"\x1b[Aw\x1b[1;5Da\x1bOAs", "was"),
            (b"\x1b", ""),
            (b"\xff\xc3w", "��w"),
        ):
            os.write(person, sent)
            assert typed(programs) == keys


def test_a_terminal_that_goes_ends_it():
    person, programs = pty.openpty()
    try:
        with keyboard(programs):
            threading.Timer(0.005, os.close, [person]).start()
            end = time.monotonic() + 10.0
            while typed(programs) is not None:
                assert time.monotonic() < end
    finally:
        os.close(programs)
