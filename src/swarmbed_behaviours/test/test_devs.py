"""DEVS models as programs: events at their own times, what comes in and goes out, and what is refused."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.devs import Devs, DevsError, DevsParameters, after
from swarmbed_core.controller import find_controller
from swarmbed_core.errors import ConfigError
from swarmbed_core.robot import Command
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, Waypoint

pytest.importorskip("xdevs", reason="needs xdevs: scripts/setup --devs")

from swarmbed_behaviours.devs_engine import Engine
from xdevs.models import Atomic, Coupled, Port


class Model(Atomic):
    """An atomic model with some ports that does nothing; tests say what is different."""

    def __init__(self, ins=("senses",), outs=("command",)):
        super().__init__("model")
        self.now, self.log = 0.0, []
        for name in ins:
            self.add_in_port(Port(None, name))
        for name in outs:
            self.add_out_port(Port(None, name))

    def initialize(self):
        self.passivate("asleep")

    def exit(self):
        pass

    def deltext(self, e):
        self.continuef(e)

    def deltint(self):
        self.passivate()

    def lambdaf(self):
        pass


class Beat(Model):
    """Says after every period how often it has, and notes when that was."""

    def __init__(self, period, outs=("out",)):
        super().__init__(("in",), outs)
        self.period, self.count, self.got = period, 0, []

    def initialize(self):
        self.hold_in("beat", self.period)

    def lambdaf(self):
        self.out_ports[0].add(self.count + 1)

    def deltint(self):
        self.count += 1
        self.hold_in("beat", self.period)

    def deltext(self, e):
        self.got += [(self.count, e, value) for value in self.in_ports[0].values]
        self.continuef(e)


class Shell(Coupled):
    """A model within others, with its ports."""

    def __init__(self, model, depth=1):
        super().__init__("shell")
        inner = Shell(model, depth - 1) if depth > 1 else model
        self.add_component(inner)
        for ports, add in ((inner.in_ports, self.add_in_port), (inner.out_ports, self.add_out_port)):
            for port in ports:
                outer = Port(None, port.name)
                add(outer)
                self.add_coupling(*((outer, port) if ports is inner.in_ports else (port, outer)))


def program(fake, model, **parameters):
    """Return the controller of a model that is there already."""
    sys.modules["a_model_of_a_test"] = SimpleNamespace(make=model)
    asked = DevsParameters(model="a_model_of_a_test:make", parameters=parameters)
    return Devs(fake, asked, np.random.default_rng(1))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(0.004, 2.0), min_size=1, max_size=4),
    st.floats(0, 1e6),
    st.integers(1, 3),
)
def test_internal_events_happen_at_their_own_times(periods, start, depth):
    """As often as their time has come, finer than ticks and however deep, whatever floats they add up to."""
    beats = [Beat(period) for period in periods]
    models = [Shell(beat, depth) for beat in beats]
    engine = Engine(models, start)
    ports = [model.get_out_port("out") for model in models]
    said = {id(port): [] for port in ports}
    for tick in range(1, 31):
        for port, value in engine.advance(start + 0.1 * tick, [], ports):
            said[id(port)].append(value)
    for period, beat, port in zip(periods, beats, ports, strict=True):
        assert abs(beat.count - 3.0 / period) < 1.0 + 1e-3
        assert said[id(port)] == list(range(1, beat.count + 1))


def test_what_comes_in_does_so_now_and_after_all_that_was_due():
    beat = Beat(0.04)
    engine = Engine([beat], 5.0)
    port = beat.get_in_port("in")
    engine.advance(5.1, [(port, "a"), (port, "b")], [])
    (first, elapsed, a), (_, _, b) = beat.got
    assert (first, a, b) == (2, "a", "b")
    assert elapsed == pytest.approx(0.02)
    # The input changes nothing of when the next is due, and what comes at that time comes after it.
    engine.advance(5.1 + 0.02 - 1e-9, [], [])
    assert beat.count == 2
    both = Engine([chained := Beat(0.5)], 0.0)
    both.advance(0.5, [(chained.get_in_port("in"), "now")], [])
    assert chained.got == [(1, 0, "now")]


def test_a_model_that_lets_no_time_pass_is_told():
    class Busy(Model):
        def deltext(self, _):
            self.activate()

        def deltint(self):
            self.activate()

    busy = Busy()
    engine = Engine([busy], 0.0)
    with pytest.raises(DevsError, match="time advance stay 0"):
        engine.advance(0.1, [(busy.get_in_port("senses"), None)], [])


class Drive(Model):
    """Drives for a second, from its first senses on, and then says to stop; notes senses."""

    def __init__(self, who, speed=0.1):
        super().__init__()
        self.speed, self.who = speed, who

    def deltext(self, e):
        self.log.append(self.get_in_port("senses").get().time)
        if self.phase == "asleep":
            self.activate("drive")
        else:
            self.continuef(e)

    def lambdaf(self):
        velocity = (self.speed if self.phase == "drive" else 0.0, 0.0, 0.0)
        self.get_out_port("command").add(Command(velocity_body=velocity))

    def deltint(self):
        if self.phase == "drive":
            self.hold_in("driving", 1.0)
        else:
            self.passivate("done")


@pytest.mark.parametrize("model", [Drive, lambda who, **given: Shell(Drive(who, **given), 2)])
def test_a_model_drives_a_robot_and_its_velocity_holds_until_it_says_another(fake, model):
    driver = program(fake, model, speed=0.3)
    for tick in range(15):
        fake.set(time=7.0 + 0.1 * tick)
        driver.tick()
    speeds = [command.velocity_body[0] for command in fake.commands]
    assert len(speeds) == 15
    assert speeds[:10] == [0.3] * 10
    assert speeds[11:] == [0.0] * 4


def test_what_it_does_is_its_phase(fake):
    driver = program(fake, Drive)
    driver.tick()
    assert driver.doing == "driving"
    assert driver._model.who.name == fake.name
    assert program(fake, lambda who: Shell(Drive(who))).doing == "shell"


def test_a_path_ends_a_velocity_that_holds(fake):
    class Once(Drive):
        def lambdaf(self):
            if self.phase == "drive":
                super().lambdaf()
            else:
                self.get_out_port("command").add(Command(cancel=True))

    driver = program(fake, Once)
    for tick in range(15):
        fake.set(time=0.1 * tick)
        driver.tick()
    assert [command.cancel for command in fake.commands].count(True) == 1
    assert fake.commands[-1] == Command()


def test_commands_of_a_tick_become_one():
    """A robot behind ROS answers each tick with one command."""
    path, go = Path((Waypoint((1.0, 0.0, 0.0)),)), (0.1, 0.0, 0.0)
    assert after(Command(velocity_body=go), Command()) == Command(velocity_body=go)
    assert after(Command(velocity_body=go), Command(path=path)) == Command(path=path)
    assert after(Command(path=path), Command(cancel=True, lift=True)) == Command(cancel=True, lift=True)
    assert after(Command(cancel=True), Command(velocity_body=go)) == Command(velocity_body=go)
    assert after(Command(cancel=True, lift=True), Command(lift=False)) == Command(cancel=True, lift=False)
    both = after(Command(send={"ble": b"1", "uwb": b"2"}), Command(send={"ble": b"3"}))
    assert both == Command(send={"ble": b"3", "uwb": b"2"})


class Talker(Model):
    """Tells what it was told, and one more; drives at that speed."""

    def __init__(self, who, to=-1):
        super().__init__(("senses", "ear"), ("command", "tell"))
        self.listens = {"ear": who.number + to}
        self.who, self.word = who, 0.0

    def deltext(self, _):
        if self.get_in_port("ear"):
            self.word = self.get_in_port("ear").get()[0] + 1
        self.log.append(self.get_in_port("senses").get())
        self.activate()

    def lambdaf(self):
        self.get_out_port("command").add((self.word, 0.0, 0.0))
        self.get_out_port("tell").add((self.word, 9.0))

    @staticmethod
    def metrics(models):
        return {"words": sum(model.word for model in models)}


class Air:
    """A radio that reaches all but the deaf."""

    def __init__(self, deaf=()):
        self.words, self.deaf = np.full((3, 1), np.nan), list(deaf)

    def say(self, words):
        self.words = words.copy()

    def heard(self, of):
        out = self.words[of]
        out[np.asarray(of) < 0] = np.nan
        out[self.deaf] = np.nan
        return out


def crowd(model, air, ticks=4):
    sys.modules["a_model_of_a_test"] = SimpleNamespace(make=model)
    spec = RobotSpec.load("convoy_car")
    made = Devs.crowd(spec, DevsParameters(model="a_model_of_a_test:make"), 3, np.random.default_rng(1))
    v_body = np.zeros((3, 3))
    ranges = np.full((3, 3), 0.5)
    for tick in range(ticks):
        senses = SimpleNamespace(
            time=0.1 * tick,
            ranges=ranges,
            angles=np.zeros(3),
            headings=np.arange(3.0),
            zones=np.zeros(3),
            twists=np.zeros((3, 3)),
            air=air,
        )
        made.tick(senses, v_body)
        ranges += 1.0
    return made, v_body


def test_models_of_a_crowd_hear_each_other_through_the_air():
    made, v_body = crowd(Talker, Air())
    assert v_body[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert made.metrics() == {"words": 3.0}
    first, second, _ = made._models
    assert (first.who.number, first.who.count) == (0, 3)
    assert first.who.rng is second.who.rng
    # What a model keeps stays as it was, though the world's arrays go on.
    assert [senses.ranges[0] for senses in second.log] == [0.5, 1.5, 2.5, 3.5]
    assert [senses.heading for senses in second.log] == [1.0] * 4
    deaf, v_body = crowd(Talker, Air(deaf=[2]))
    assert v_body[:, 0].tolist() == [0.0, 1.0, 0.0]
    assert deaf.metrics() == {"words": 1.0}


def test_coupled_models_of_a_crowd_do_as_the_atomic_ones_within_them():
    def coupled(who):
        shell = Shell(Talker(who), 2)
        shell.listens = {"ear": who.number - 1}
        return shell

    _, v_body = crowd(coupled, Air())
    assert v_body[:, 0].tolist() == [0.0, 1.0, 2.0]


def test_a_crowd_may_be_silent_and_stand():
    made, v_body = crowd(lambda _: Model(outs=()), Air())
    assert not v_body.any()
    assert made.metrics() == {}


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda _: Model(ins=()), "no input port 'senses': there are none"),
        (lambda _: Model(outs=("orders",)), "no output port 'command': there are orders"),
        (Talker, "set `crowd: true`"),
        (lambda _: "no model", "expected an xdevs.models.Component"),
    ],
)
def test_models_that_cannot_be_programs_are_told(fake, model, message):
    with pytest.raises(ConfigError, match=message):
        program(fake, model)


def test_models_that_are_not_there_are_told():
    with pytest.raises(ConfigError, match="no devs_model 'convoi': there are convoy"):
        find_controller("devs", {"model": "convoi"}, "t")
    with pytest.raises(ConfigError, match="listens to robot 3 at ear; there are 0 to 2"):
        crowd(lambda who: Talker(who, to=1), Air())
    with pytest.raises(ConfigError, match="model: "):
        find_controller("devs", {}, "t")
    with pytest.raises(ConfigError, match="No module named 'nowhere'"):
        find_controller("devs", {"model": "nowhere.at_all:Model"}, "t")


def test_what_is_no_command_is_told(fake):
    class Wrong(Drive):
        def lambdaf(self):
            self.get_out_port("command").add((0.1, 0.0, 0.0))

    driver = program(fake, Wrong)
    with pytest.raises(DevsError, match="expected a Command"):
        driver.tick()
