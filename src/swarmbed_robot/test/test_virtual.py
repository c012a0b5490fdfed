"""Parts without a robot: a world that is always where this machine's clock is."""

from __future__ import annotations

import numpy as np
import pytest
from swarmbed_core.arena import Arena
from swarmbed_core.errors import ConfigError
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.onboard import Onboard
from swarmbed_core.outfit import outfit
from swarmbed_core.plugins import DEVICES, find_plugin
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Named
from swarmbed_core.scene import RobotPlacement
from swarmbed_core.spec import RobotSpec
from swarmbed_robot.virtual import LONGEST, LiveClock, Virtual, make

from swarmbed_robot import virtual


class Machine:
    """A machine's clock that a test sets."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def live(machine):
    return LiveClock(MemoryWorld.of(["dots"], noise=False), machine)


def test_it_starts_with_the_world(machine):
    world = MemoryWorld.of(["dots"])
    for _ in range(30):
        world.step()
    assert LiveClock(world, machine).time == world.time == pytest.approx(0.3)


def test_a_world_is_where_the_machine_is_in_whole_steps(live, machine):
    start = machine.now
    for past, shown in ((0.0, 0.0), (0.009, 0.0), (0.0101, 0.01), (0.0101, 0.01), (0.2999, 0.29), (0.3, 0.3)):
        machine.now = start + past
        assert live.time == pytest.approx(shown)


def test_steps_are_not_lost_to_rounding(live, machine):
    start = machine.now
    for k in range(1, 500):
        machine.now = start + 0.01 * k
        assert live.time == pytest.approx(0.01 * k)


def test_who_slept_finds_that_little_time_has_passed(live, machine):
    machine.now += 100.0
    assert live.time == pytest.approx(LONGEST)
    assert live.time == pytest.approx(LONGEST)
    machine.now += 0.05
    assert live.time == pytest.approx(LONGEST + 0.05)


def test_a_machine_whose_clock_steps_back_stops_the_world(live, machine):
    machine.now += 0.2
    assert live.time == pytest.approx(0.2)
    machine.now -= 0.1
    assert live.time == pytest.approx(0.2)
    machine.now += 0.15
    assert live.time == pytest.approx(0.25)


@pytest.mark.parametrize("kind", ["dots", "epuck2", "pioneer3dx"])
def test_a_virtual_robot_has_the_parts_of_its_kind(kind):
    spec = RobotSpec.load(kind)
    device = make("r1", spec)
    assert (device.name, device.spec) == ("r1", spec)
    assert set(device.ranges) == {ring.name for ring in spec.ranges}
    assert (device.lifter is None, device.imu is None) == (spec.lifter is None, spec.imu is None)
    assert set(device.radios) == {radio.name for radio in spec.radios}
    assert isinstance(device.clock, LiveClock)


def test_a_robot_of_virtual_parts_drives_as_the_machine_s_time_passes(monkeypatch, machine):
    monkeypatch.setattr(virtual, "LiveClock", lambda world: LiveClock(world, machine))
    onboard = Onboard(make("r1", RobotSpec.load("dots")))
    onboard.step()
    for _ in range(20):
        onboard.act(Command(velocity_body=(0.5, 0.0, 0.0)))
        for _ in range(5):
            machine.now += 0.01
            onboard.step()
    assert onboard.device.clock.time == pytest.approx(1.0)
    assert onboard.senses().pose_odom[0] == pytest.approx(0.43, abs=0.05)
    assert onboard.health.total == 0


def test_its_walls_are_those_of_its_arena():
    sweeps = []
    for arena in ("empty", "dots_arena"):
        device = make("r1", RobotSpec.load("pioneer3dx"), arena)
        sweeps.append(next(iter(device.ranges.values())).read().distances)
    assert np.isinf(sweeps[0]).all()
    assert np.isfinite(sweeps[1]).any()
    assert Arena.load("dots_arena").size is not None


def test_it_is_offered_by_its_name():
    assert find_plugin(DEVICES, "virtual") is Virtual
    placement = RobotPlacement("r1", RobotSpec.load("dots"), (0, 0, 0), device=(Named(name="virtual"),))
    device = outfit(placement, None, None)
    assert isinstance(device.clock, LiveClock)
    with pytest.raises(ConfigError, match="r1: device virtual: makes all parts itself"):
        outfit(placement, device, device.clock)


def test_what_cannot_be_made_is_told():
    spec = RobotSpec.load("dots")
    with pytest.raises(ConfigError, match="the robot has no name: give it one, such as dots1"):
        make("", spec)
    with pytest.raises(ConfigError, match="'moon' is not in worlds"):
        make("r1", spec, "moon")
