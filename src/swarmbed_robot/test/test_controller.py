"""A program behind ROS: made when its robot is there, ticked once a tick, begun anew, stopped if it fails."""

from __future__ import annotations

import sys
import time
import types

import numpy as np
import pytest
from std_msgs.msg import String
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError, SwarmbedError
from swarmbed_core.robot import Command
from swarmbed_robot.api import RobotApi
from swarmbed_robot.controller import FAILED, OPTIONS, Program, _Waiting, start
from swarmbed_robot.errors import RobotError

from swarmbed_robot import controller, qos

DEFAULTS = {option.name: option.default for option in OPTIONS}
MADE: list[Drives] = []


class Drives:
    """Drives ahead, and keeps what it was made with."""

    class Parameters(Part):
        speed: float = 0.3
        fails_at: int | None = None
        wrong: bool = False

    def __init__(self, robot, parameters, rng):
        self.robot, self.parameters = robot, parameters
        self.chance = rng.random(3)
        self.doing = "begin"
        self.times: list[float] = []
        MADE.append(self)

    def tick(self):
        self.times.append(self.robot.sense().time)
        if self.parameters.fails_at is not None and len(self.times) >= self.parameters.fails_at:
            if self.parameters.wrong:
                message = "the load is lost"
                raise SwarmbedError(message)
            raise ZeroDivisionError
        self.doing = f"tick {len(self.times)}"
        self.robot.act(Command(velocity_body=(self.parameters.speed, 0.0, 0.0)))


class Mumbles(Drives):
    """Says what it does with a number."""

    def tick(self):
        super().tick()
        self.doing = len(self.times)


class Idles:
    """Is no controller: it has no parameters."""


@pytest.fixture(autouse=True)
def _programs(monkeypatch):
    """Let options name what is in this file."""
    module = types.ModuleType("fake_programs")
    module.Drives, module.Mumbles, module.Idles = Drives, Mumbles, Idles
    monkeypatch.setitem(sys.modules, "fake_programs", module)
    MADE.clear()


class Bench:
    """A robot in a world of this process, and its program behind ROS."""

    def __init__(self, ros, rig, **options) -> None:
        self.ros, self.rig = ros, rig
        self.options = DEFAULTS | {"robot": rig.name, "controller": "fake_programs:Drives"} | options
        self.node = ros.node("controller")
        self.program = Program(ros.spinner, self.node, self.options)

    @property
    def robot(self):
        return self.program.robot

    def sense(self) -> None:
        """Let the program have the senses of now."""
        rig = self.rig
        rig.api.sense(rig.world.time, anyway=True)
        self.ros.spin_until(
            lambda: self.robot.ready and self.robot.listeners and self.robot.time == rig.world.time, "senses"
        )

    def begin(self) -> None:
        self.sense()
        commands = self.rig.api.commands
        self.ros.spin_until(
            lambda: self.program.step() or self.rig.api.commands > commands, "the program's first word"
        )

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.rig.run(0.1)
            self.sense()
            commands = self.rig.api.commands
            self.program.step()
            self.ros.spin_until(lambda before=commands: self.rig.api.commands > before, "a command")


@pytest.fixture
def bench(ros, make_rig):
    made = []

    def make(**options) -> Bench:
        made.append(Bench(ros, make_rig(), **options))
        return made[-1]

    yield make
    for one in made:
        one.program.close()


def test_a_program_is_made_when_its_robot_is_there_and_not_before(ros, make_rig):
    node = ros.node("controller")
    program = Program(ros.spinner, node, DEFAULTS | {"controller": "fake_programs:Drives"})
    for _ in range(3):
        ros.spinner.once(0.01)
        program.step()
    assert MADE == []
    rig = make_rig()
    rig.api.sense(rig.world.time, anyway=True)
    ros.spin_until(lambda: program.step() or MADE, "the program")
    assert MADE[0].robot is program.robot
    assert program.robot.name == rig.name


def test_it_says_that_it_is_there_before_it_is_ticked(bench):
    here = bench()
    here.begin()
    assert MADE[0].times == []
    assert here.rig.api.commands == 1
    assert here.rig.api.answered == here.rig.world.time


def test_it_is_ticked_once_for_all_that_is_sensed(bench):
    here = bench()
    here.begin()
    here.tick(3)
    for _ in range(5):
        here.program.step()
    assert MADE[0].times == pytest.approx([0.1, 0.2, 0.3])
    assert here.rig.api.commands == 4
    assert here.rig.api.answered == pytest.approx(0.3)
    here.rig.run(0.1)
    assert here.rig.truth[3] > 0.2


def test_parameters_are_read_as_yaml_and_checked(bench):
    here = bench(parameters="{speed: 0.1, fails_at: 9}")
    here.begin()
    assert MADE[0].parameters == Drives.Parameters(speed=0.1, fails_at=9)
    assert not MADE[0].parameters.wrong


@pytest.mark.parametrize("text", ["", "{}", "null"])
def test_no_parameters_are_the_defaults(bench, text):
    bench(parameters=text).begin()
    assert MADE[0].parameters == Drives.Parameters()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"parameters": "[1"}, ConfigError, "parameters: not valid YAML"),
        ({"parameters": "[1, 2]"}, RobotError, "expected a YAML mapping, such as"),
        ({"parameters": "fast"}, RobotError, "expected a YAML mapping, such as"),
        ({"parameters": "{sped: 1.0}"}, ConfigError, "sped"),
        ({"parameters": "{speed: fast}"}, ConfigError, "speed"),
        ({"controller": "nobodys"}, ConfigError, "no controller 'nobodys': there are"),
        ({"controller": "no_such_module:X"}, ConfigError, "cannot be imported"),
        ({"controller": "fake_programs:Nobody"}, ConfigError, "cannot be imported"),
        ({"controller": "fake_programs:Idles"}, ConfigError, "is not a controller: expected a class"),
        ({"robot": "bad name"}, RobotError, "'bad name' is not a valid robot name"),
    ],
)
def test_what_makes_no_sense_is_told_before_the_robot_is_there(ros, options, error, said):
    told = DEFAULTS | {"controller": "fake_programs:Drives"} | options
    with pytest.raises(error, match=said):
        Program(ros.spinner, ros.node("controller"), told)


def chance(seed: int, index: int):
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2, index))).random(3)


@pytest.mark.parametrize(("asked", "seed"), [(-1, 7), (0, 0), (12, 12)])
def test_its_chance_is_that_of_the_robot_of_its_number(ros, make_rig, asked, seed):
    rig = make_rig()
    rig.api.close()
    rig.api = RobotApi(rig.api.node, rig.robot, rig.api._options, index=3, seed=7)
    here = Bench(ros, rig, seed=asked)
    here.begin()
    assert MADE[0].chance.tolist() == chance(seed, 3).tolist()
    here.program.close()


def test_it_begins_anew_with_a_new_run(bench):
    here = bench()
    here.begin()
    here.tick(2)
    rig = here.rig
    rig.api.close()
    rig.api = RobotApi(rig.api.node, rig.robot, rig.api._options, seed=9, run=1)
    here.begin()
    assert len(MADE) == 2
    here.tick()
    first, second = MADE
    assert len(first.times) == 2
    assert len(second.times) == 1
    assert second.chance.tolist() == chance(9, 0).tolist()
    # The robot takes it: it answers the new run.
    assert rig.refused["input.command"] == 0
    assert here.robot.run == 1


def test_what_it_does_is_told_to_all_and_with_its_commands(bench, ros):
    here = bench()
    told = []
    here.rig.outsider.create_subscription(String, f"/{here.rig.name}/doing", told.append, qos.LATCHED)
    here.begin()
    here.tick(3)
    ros.spin_until(lambda: [sent.data for sent in told][-1:] == ["tick 3"], "what it does")
    # A command says what the program does at the tick that made it.
    ros.spin_until(lambda: here.rig.api.doing, "a command")
    assert here.rig.api.doing == "tick 3"
    # Who comes later is told too.
    later = []
    ros.node("late").create_subscription(String, f"/{here.rig.name}/doing", later.append, qos.LATCHED)
    ros.spin_until(lambda: later, "the latest word")
    assert later[0].data == "tick 3"


def test_what_it_does_is_a_text(bench):
    here = bench(controller="fake_programs:Mumbles")
    here.begin()
    with pytest.raises(RobotError, match="`doing` is 1: expected a string"):
        here.tick()


def test_a_program_that_is_closed_brakes_its_robot(bench):
    here = bench()
    here.begin()
    here.tick(5)
    assert here.rig.truth[3] > 0.25
    commands = here.rig.api.commands
    here.program.close()
    here.ros.spin_until(lambda: here.rig.api.commands > commands, "the last word")
    here.rig.run(0.5)
    assert here.rig.truth[3:] == pytest.approx(np.zeros(3), abs=1e-6)
    # It braked because it was told to, and not because nobody spoke any more.
    assert here.rig.refused["program.silent"] == 0


# The whole node


class Live:
    """A robot whose world goes on while the node spins, until a test stops it."""

    def __init__(self, ros, rig) -> None:
        self.ros, self.rig = ros, rig
        self.ticks = 0
        self.speaks = lambda: True
        self.over = lambda: False
        self.acts: list[Command] = []
        act = rig.onboard.act

        def noted(command):
            self.acts.append(command)
            act(command)

        rig.onboard.act = noted
        rig.outsider.create_timer(0.004, self._step)

    def _step(self) -> None:
        self.ticks += 1
        for _ in range(10):
            self.rig.swarm.step()
            self.rig.api.cycle(self.rig.world.time)
        if self.speaks():
            self.rig.api.sense(self.rig.world.time, anyway=True)
        if self.over():
            self.ros.spinner.stopping = True

    def start(self, **options) -> int:
        # A tick takes as long as it does: the heartbeat has a test of its own.
        self.rig.api._program.timeout = 1e3
        told = DEFAULTS | {"robot": self.rig.name, "controller": "fake_programs:Drives"} | options
        return start(self.ros.spinner, self.ros.node("controller"), told)


@pytest.fixture
def live(ros, dots):
    return Live(ros, dots)


def brakes(live: Live) -> bool:
    """Return whether the last that the robot was told is to come to rest."""
    live.ros.spin_until(lambda: live.acts[-1].velocity_body is None, "the brake")
    return live.acts[-1] == Command(cancel=True)


def test_a_process_that_shall_end_stops_its_robot_and_is_content(live):
    live.over = lambda: MADE and len(MADE[0].times) > 5
    assert live.start() == 0
    assert brakes(live)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_program_that_raises_stops_its_robot_and_is_a_failure(live, capfd, wrong):
    assert live.start(parameters=f"{{fails_at: 5, wrong: {str(wrong).lower()}}}") == FAILED
    assert len(MADE[0].times) == 5
    assert brakes(live)
    said = capfd.readouterr().err
    if wrong:
        assert "dots1: the load is lost" in said
        assert "Traceback" not in said
    else:
        assert "dots1: the program failed; the robot is stopped" in said
        assert "ZeroDivisionError" in said


def test_a_robot_that_never_comes_is_waited_for_so_long(ros, capfd):
    ros.spinner.stopping = False
    told = DEFAULTS | {"robot": "nobody", "controller": "fake_programs:Drives", "patience": 0.2}
    assert start(ros.spinner, ros.node("controller"), told) == FAILED
    assert "no robot 'nobody' for 0.2 s in ROS domain" in capfd.readouterr().err


@pytest.fixture
def patience(monkeypatch):
    """Let a test say what the clock shows by which a program's patience ends."""

    def by(clock) -> None:
        monkeypatch.setattr(controller, "_Waiting", lambda seconds: _Waiting(seconds, clock))

    return by


def ticks() -> int:
    return len(MADE[0].times) if MADE else 0


def test_a_robot_that_falls_silent_is_waited_for_and_taken_up_again(live, patience, capfd):
    # It was there for longer than the patience, which counts from when it was last there.
    patience(ticks)
    since = []

    def speaks() -> bool:
        if ticks() >= 8 and not since:
            since.append(time.monotonic())
        return not since or time.monotonic() > since[0] + 0.4

    live.speaks = speaks
    live.over = lambda: ticks() >= 14
    assert live.start(silence=0.1, patience=5.0) == 0
    said = capfd.readouterr().err
    assert "dots1 is gone: no senses for 0.1 s" in said
    assert "dots1 is back" in said
    assert len(MADE) == 1


def test_a_robot_that_stays_away_ends_its_program(live, patience, capfd):
    # However long it took to find it.
    patience(lambda: time.monotonic() if MADE else 0.0)
    live.speaks = lambda: ticks() < 3
    assert live.start(silence=0.1, patience=1.0) == FAILED
    said = capfd.readouterr().err
    assert "dots1 is gone: no senses for 0.1 s" in said
    assert "no senses 'dots1' for 1 s" in said


def test_patience_begins_anew():
    now = [10.0]
    wait = _Waiting(2.0, lambda: now[0])
    assert not wait.over()
    now[0] = 12.0
    assert not wait.over()
    now[0] = 12.01
    assert wait.over()
    wait.reset()
    assert not wait.over()
