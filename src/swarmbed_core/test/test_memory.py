"""The in-memory world: repeatable, and as true to its robots' specs as tests can see."""

import math

import numpy as np
import pytest
from swarmbed_core.arena import Arena
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.robot import Command
from swarmbed_core.spec import RobotSpec


def run(world: MemoryWorld, name: str, speeds, seconds: float) -> None:
    world.device(name).motors.drive(np.asarray(speeds, dtype=float), math.inf)
    for _ in range(round(seconds / world.timestep)):
        world.step()


def fingerprint(seed: int) -> bytes:
    """Return every bit of what five kinds of robot sense in a noisy run."""
    kinds = ["dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"]
    world = MemoryWorld.of(kinds, arena="dots_arena", seed=seed)
    swarm = LocalSwarm(world, world.arena.markers())
    parts = []
    for _ in range(20):
        for robot in swarm.robots:
            senses = robot.sense()
            parts.append(senses.pose_odom.tobytes())
            parts.extend(values.tobytes() for values in senses.ranges.values())
            parts.append(repr(senses.heard).encode())
            if senses.pose_map is not None:
                parts.append(senses.pose_map.tobytes())
            robot.act(Command(velocity_body=(0.1, 0.0, 0.3), send={"simple": b"hello"}))
        swarm.run(0.1)
    parts.append(world.truth().tobytes())
    return b"".join(parts)


def test_a_seed_gives_the_same_run_bit_by_bit():
    assert fingerprint(3) == fingerprint(3)
    assert fingerprint(3) != fingerprint(4)


def test_a_perfect_body_does_what_its_wheels_do():
    world = MemoryWorld.of(["pioneer3dx"], noise=False)
    run(world, "pioneer3dx1", [0.5, 0.5], 2.0)
    # The first step is spent on reaching the speed.
    assert world.truth()[0] == pytest.approx([1.0 - 0.0025, 0.0, 0.0, 0.5, 0.0, 0.0], abs=1e-9)
    run(world, "pioneer3dx1", [-0.1, 0.1], 1.0)
    assert world.truth()[0, 2] == pytest.approx(0.2 / 0.331 * (1.0 - 0.005), abs=1e-9)


def test_a_full_circle_closes():
    world = MemoryWorld.of(["pioneer3dx"], noise=False)
    separation = RobotSpec.load("pioneer3dx").drive.wheel_separation
    radius, speed = 0.5, 2 * math.pi * 0.5 / 4.0
    ratio = separation / 2 / radius
    wheels = [speed * (1 - ratio), speed * (1 + ratio)]
    run(world, "pioneer3dx1", wheels, 0.01)
    start = world.truth()
    run(world, "pioneer3dx1", wheels, 4.0)
    assert world.truth() == pytest.approx(start, abs=1e-6)


def test_wheels_are_no_faster_than_they_can_be():
    world = MemoryWorld.of(["dots"], noise=False)
    run(world, "dots1", [100.0, 0.0, -100.0], 0.1)
    limit = RobotSpec.load("dots").drive.wheels.max_speed
    assert np.abs(world.device("dots1").motors.read().speeds).max() == pytest.approx(limit)


def test_slip_is_between_the_encoders_and_the_floor():
    world = MemoryWorld.of(["pioneer3dx"], seed=5)
    run(world, "pioneer3dx1", [1.0, 1.0], 20.0)
    rolled = world.device("pioneer3dx1").motors.read().travel
    assert rolled == pytest.approx([19.995, 19.995], abs=0.02)
    assert rolled != pytest.approx([19.995, 19.995], abs=1e-6)
    driven = float(np.hypot(*world.truth()[0, :2]))
    assert 19.5 < driven < 20.5
    assert driven != pytest.approx(20.0, abs=1e-4)


def test_disabled_motors_stand():
    world = MemoryWorld.of(["dots"], noise=False)
    world.device("dots1").motors.enable(False)
    run(world, "dots1", [1.0, 0.0, -1.0], 0.5)
    assert world.truth()[0] == pytest.approx(np.zeros(6))


def test_ranges_see_walls_and_other_robots_but_not_the_robot_itself():
    spec = RobotSpec.load("dots")
    places = [Placement("a", spec, (1.5, 0.0, 0.0)), Placement("b", spec, (0.0, 0.0, 0.0))]
    world = MemoryWorld(places, Arena.load("dots_arena"), noise=False)
    world.step()
    a = world.device("a").ranges["tof"].read().distances
    edge = spec.ranges[0].mount_radius
    assert a[0] == pytest.approx(2.5 - 1.5 - edge)  # the wall at x = 2.5
    assert a[8] == pytest.approx(1.5 - spec.body.radius - edge)  # the other robot
    b = world.device("b").ranges["tof"].read().distances
    assert b[4] == pytest.approx(2.5 - edge)


def test_a_sweep_is_handed_out_once_and_at_its_rate():
    world = MemoryWorld.of(["dots"], arena="dots_arena")
    sweeps = 0
    for _ in range(100):
        world.step()
        sweeps += world.device("dots1").ranges["tof"].read() is not None
        assert world.device("dots1").ranges["tof"].read() is None
    assert sweeps == 50


def test_images_arrive_as_late_as_the_paper_measured():
    world = MemoryWorld.of(["dots"], arena="dots_arena", seed=2)
    delays = []
    for _ in range(1000):
        world.step()
        for reading in world.device("dots1").cameras.read():
            delays.append(world.time - reading.stamp)
            assert len(reading.ids) == len(reading.corners)
    # Table II for four cameras at 30 Hz, and half a step of the world until somebody reads.
    assert np.mean(delays) == pytest.approx(0.0734 + 0.005, abs=0.002)
    assert np.std(delays) == pytest.approx(0.0115, abs=0.002)


def test_zone_compass_and_battery_are_there():
    spec = RobotSpec.load("dots")
    world = MemoryWorld([Placement("a", spec, (-1.0, 0.0, 1.0))], Arena.load("dots_arena"), noise=False)
    world.step()
    device = world.device("a")
    assert device.zone.read() == 1
    assert device.compass.read().heading == pytest.approx(1.0)
    before = device.power.read().cell_voltages[0]
    for _ in range(1000):
        world.step()
    assert device.power.read().current > 0
    assert device.power.read().cell_voltages[0] <= before


def test_radios_reach_their_own_kind_only():
    world = MemoryWorld.of(["pera_swarm", "pera_swarm", "pioneer3dx"], seed=1)
    for i, x in enumerate((0.0, 0.3, 0.1)):
        world.teleport(world.names[i], (x, 0.0, 0.0))
    world.step()
    world.device("pera_swarm1").radios["simple"].send(b"hi")
    world.step()
    assert [p.payload for p in world.device("pera_swarm2").radios["simple"].read()] == [b"hi"]
    assert world.device("pera_swarm1").radios["simple"].read() == []
    assert world.device("pioneer3dx3").radios["wifi"].read() == []


def test_names_must_differ_and_be_known():
    spec = RobotSpec.load("dots")
    with pytest.raises(ConfigError, match="same name"):
        MemoryWorld([Placement("a", spec), Placement("a", spec)], Arena.load("empty"))
    with pytest.raises(ConfigError, match=r"no robot 'b'.*there are a"):
        MemoryWorld([Placement("a", spec)], Arena.load("empty")).device("b")


def test_wheels_stop_by_themselves():
    world = MemoryWorld.of(["dots"], noise=False)
    motors = world.device("dots1").motors
    motors.drive(np.full(3, 0.2), 0.1)
    for _ in range(10):
        world.step()
    assert motors.read().speeds == pytest.approx(0.2)
    world.step()
    assert motors.read().speeds.tolist() == [0.0, 0.0, 0.0]
