"""Composed devices: makers one after the other, their errors, and what they opened."""

# ruff: noqa: ARG004 - all makers have one signature
from __future__ import annotations

import gc
import subprocess
import sys
import types
from dataclasses import replace
from types import SimpleNamespace

import pytest
from swarmbed_core.config import Part
from swarmbed_core.device import Device, MotorReading
from swarmbed_core.errors import ConfigError, PathError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.outfit import find_maker, outfit
from swarmbed_core.scenario import Named
from swarmbed_core.scene import RobotPlacement
from swarmbed_core.spec import RobotSpec


class TagParameters(Part):
    tag: str = "a"
    fails: bool = False


class Tagged:
    """Motors with the names of the makers they went through."""

    def __init__(self, tags, inner):
        self.tags, self.inner = tags, inner

    def enable(self, on):
        self.inner.enable(on)

    def drive(self, speeds, hold=0.5):
        self.inner.drive(speeds, hold)

    def read(self) -> MotorReading:
        return self.inner.read()


@pytest.fixture
def log(monkeypatch):
    """Offer makers as `makers:Tag`, `makers:Fresh` and others; return what was opened and closed."""
    said = []

    class Tag:
        Parameters = TagParameters

        @staticmethod
        def is_real(parameters):
            return parameters.tag == "real"

        @staticmethod
        def make(name, spec, device, clock, parameters):
            said.append(f"open {parameters.tag}")
            device.opened.callback(said.append, f"close {parameters.tag}")
            if parameters.fails:
                raise RuntimeError(name)
            tags = (*getattr(device.motors, "tags", ()), parameters.tag)
            connection = SimpleNamespace(
                name=parameters.tag, real=Tag.is_real(parameters), there=True, losses=0, state={}
            )
            return replace(device, motors=Tagged(tags, device.motors), outside=(*device.outside, connection))

    class Fresh(Tag):
        @staticmethod
        def make(name, spec, device, clock, parameters):
            made = Device(name=name, spec=spec, clock=clock, motors=Tagged(("fresh",), None))
            made.opened.callback(said.append, "close fresh")
            return made

    class Wrong(Tag):
        @staticmethod
        def make(name, spec, device, clock, parameters):
            return device.motors

    class Own(Tag):
        @staticmethod
        def make(name, spec, device, clock, parameters):
            message = "no such thing"
            raise PathError(message)

    module = types.ModuleType("makers")
    for each in (Tag, Fresh, Wrong, Own):
        setattr(module, each.__name__, each)
    module.function = dict
    monkeypatch.setitem(sys.modules, "makers", module)
    return said


USED = pytest.mark.usefixtures("log")
DOTS = RobotSpec.load("dots")


def placed(*makers, name="dots1"):
    named = tuple(Named(name=f"makers:{maker}", **parameters) for maker, parameters in makers)
    return RobotPlacement(name, DOTS, (0.0, 0.0, 0.0), device=named)


@pytest.fixture
def virtual():
    return MemoryWorld.of(["dots"]).device("dots1")


def test_without_makers_it_is_the_virtual_device(virtual):
    assert outfit(placed(), virtual, virtual.clock) is virtual
    assert not virtual.real


@USED
def test_makers_get_the_device_so_far(virtual):
    made = outfit(placed(("Tag", {"tag": "a"}), ("Tag", {"tag": "b"})), virtual, virtual.clock)
    assert made.motors._part.tags == ("a", "b")
    assert made.imu is virtual.imu
    assert [connection.name for connection in made.outside] == ["a", "b"]
    assert not made.real
    assert virtual.outside == ()


@USED
def test_one_real_part_makes_a_device_real(virtual):
    assert outfit(placed(("Tag", {"tag": "real"}), ("Tag", {})), virtual, virtual.clock).real


def test_closing_closes_what_makers_opened_once_the_newest_first(virtual, log):
    made = outfit(placed(("Tag", {"tag": "a"}), ("Tag", {"tag": "b"})), virtual, virtual.clock)
    virtual.close()
    assert log == ["open a", "open b"]
    made.close()
    made.close()
    assert log == ["open a", "open b", "close b", "close a"]


def test_what_a_failing_maker_and_those_before_it_opened_is_closed(virtual, log):
    with pytest.raises(ConfigError, match=r"s\.yaml: dots1: device makers:Tag: RuntimeError: dots1"):
        outfit(placed(("Tag", {"tag": "a"}), ("Tag", {"tag": "b", "fails": True})), virtual, None, "s.yaml")
    assert log == ["open a", "open b", "close b", "close a"]


def test_a_device_from_scratch_is_closed_too(log):
    made = outfit(placed(("Fresh", {}), ("Tag", {"tag": "b"})), None, "the clock")
    assert made.motors.tags == ("fresh", "b")
    assert made.clock == "the clock"
    made.close()
    assert log == ["open b", "close b", "close fresh"]


@pytest.mark.parametrize(
    ("maker", "parameters", "error", "said"),
    [
        ("Tag", {"tag": 7}, ConfigError, "dots1: device makers:Tag: tag: Input should be a valid string"),
        ("Tag", {"colour": 7}, ConfigError, "colour: unknown field"),
        ("Nobody", {}, ConfigError, "device 'makers:Nobody' .* cannot be imported"),
        ("function", {}, ConfigError, "'makers:function' is not a device maker: expected a class with Param"),
        ("Wrong", {}, ConfigError, r"make\(\) returned _Body, expected a Device"),
        ("Own", {}, PathError, "no such thing"),
    ],
)
@USED
def test_what_is_wrong_is_named(virtual, maker, parameters, error, said):
    with pytest.raises(error, match=said):
        outfit(placed((maker, parameters)), virtual, virtual.clock)


def test_a_robot_needs_some_device():
    with pytest.raises(ConfigError, match="dots1: no device"):
        outfit(placed(), None, None)


@USED
def test_a_maker_is_found_with_its_parameters():
    maker, parameters = find_maker(Named(name="makers:Tag", tag="real"), "s.yaml")
    assert maker.is_real(parameters)


def test_a_swarm_composes_its_robots_and_closes_them(log):
    world = MemoryWorld.of(["dots", "dots"])
    places = [placed(("Tag", {"tag": name}), name=name) for name in world.names]
    swarm = LocalSwarm(world, placements=places)
    assert not swarm.real
    swarm.run(0.1)
    swarm.remove("dots1")
    assert log[2:] == ["close dots1"]
    swarm.add("dots1", placement=placed(("Tag", {"tag": "real"})))
    assert swarm.real
    swarm.close()
    swarm.close()
    assert sorted(log[4:]) == ["close dots2", "close real"]


def test_a_swarm_that_cannot_be_made_leaves_nothing_open(log):
    world = MemoryWorld.of(["dots", "dots"])
    places = [placed(("Tag", {"tag": name, "fails": name == "dots2"}), name=name) for name in world.names]
    with pytest.raises(ConfigError, match="RuntimeError: dots2"):
        LocalSwarm(world, placements=places)
    assert sorted(log) == ["close dots1", "close dots2", "open dots1", "open dots2"]


def test_a_swarm_that_is_forgotten_is_closed(log):
    world = MemoryWorld.of(["dots"])
    swarm = LocalSwarm(world, placements=[placed(("Tag", {"tag": "a"}))])
    assert log == ["open a"]
    del swarm
    gc.collect()
    assert log == ["open a", "close a"]


def test_a_process_that_ends_with_a_swarm_says_nothing_of_leaks():
    program = """
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.trajectory import Path, Waypoint
swarm = LocalSwarm(MemoryWorld.of(["dots"]))
swarm.ring = [swarm]
swarm.run(0.1)
swarm.robots[0].follow(Path((Waypoint((0.5, 0.0, 0.0)),)))
del swarm
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
