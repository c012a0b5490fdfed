"""Worlds without led bodies compute what they did before there were any, bit for bit.

The hashes are of the version before led bodies, on a machine whose arithmetic has this `FINGERPRINT`: the
last bit of a sine, and MuJoCo's results, differ between processors, C libraries and versions.
"""

from __future__ import annotations

import hashlib
import math

import mujoco
import numba
import numpy as np
import pytest
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene

from swarmbed_sim import mujoco_world, planar_world

FINGERPRINT = "?"
BEFORE = {
    "planar crowd": "?",
    "planar crowd, one step a tick": "?",
    "planar": "?",
    "mujoco": "?",
}


@kernel
def _sum_k(count: int) -> float:
    total = 0.0
    for i in range(count):
        x = 0.001 * (i + 1)
        total += math.sin(x) * math.cos(3.0 * x) + math.exp(-x) + math.atan2(x, 1.7) + math.hypot(x, 0.3)
    return total


def fingerprint() -> str:
    """Return a hash of this machine's arithmetic and of the versions of what computes."""
    x = np.linspace(0.1, 9.0, 1000)
    arrays = np.sin(x), np.cos(x), np.exp(-x), np.sqrt(x), np.arctan2(x, 1.7), np.hypot(x, 0.3)
    made = hashlib.sha256(repr((np.__version__, numba.__version__, mujoco.__version__)).encode())
    made.update(repr(_sum_k(1000)).encode())
    for array in arrays:
        made.update(array.tobytes())
    return made.hexdigest()[:16]


def scene_of(world, robots, seed=3, **more):
    fields = {
        "version": 1,
        "title": "test",
        "world": world,
        "time_limit": 60.0,
        "obstacles": [
            {"shape": "box", "size": [0.5, 0.2], "pose": [0.6, 0.5, 0.3]},
            {"shape": "cylinder", "radius": 0.1, "pose": [0.6, -0.5, 0.0]},
        ],
        "robots": robots,
        "controller": {"name": "random_walk"},
        **more,
    }
    return make_scene(Scenario.model_validate(fields), seed)


def crowd_digest(kind, options, count, ticks):
    """Return a hash of what a crowd does and senses while its robots are driven at random."""
    group = {"kind": kind, "count": count, "crowd": options, "place": {"zone": "anywhere"}}
    world = planar_world.make(scene_of("planar", [group]), np.random.SeedSequence(5))
    crowd, rng, reader = world.crowd(), np.random.default_rng(11), world.watch_contacts()
    hashed, contacts = hashlib.sha256(), 0
    for tick in range(ticks):
        crowd.v_body[:] = rng.normal(size=crowd.v_body.shape) * (0.4, 0.2, 1.5)
        crowd.air.say(rng.normal(size=(crowd.count, 2)))
        if tick == ticks // 2:
            world.kill("dots3" if kind == "dots" else "epuck2_3".replace("_", ""))
        for _ in range(round(0.1 / world.timestep)):
            world.step()
        senses = crowd.senses()
        for array in (senses.ranges, senses.headings, senses.positions, senses.zones, senses.twists):
            hashed.update(np.ascontiguousarray(array).tobytes())
        hashed.update(senses.air.heard(np.roll(np.arange(crowd.count), 1)).tobytes())
        if senses.epuck2 is not None:
            own = senses.epuck2
            for array in (own.proximity, own.light, own.ground, own.tof, own.encoders, own.acceleration):
                hashed.update(array.tobytes())
        hashed.update(world.truth().tobytes())
        touched = [(c.time, c.one, c.other, c.speed) for c in reader.read()]
        contacts += len(touched)
        hashed.update(repr(touched).encode())
    assert contacts > 20
    hashed.update(world.energy_wh().tobytes())
    return hashed.hexdigest()[:16]


def robots_digest(make, world):
    """Return a hash of what whole robots do and sense while they drive at random and lift."""
    robots = [{"count": 7, "place": {"zone": "anywhere"}}]
    carriers = [{"count": 2, "place": {"zone": "search"}, "payload": 0.3}]
    scene = scene_of(world, robots, carriers=carriers)
    made = make(scene, np.random.SeedSequence(5))
    rng, reader, hashed = np.random.default_rng(11), made.watch_contacts(), hashlib.sha256()
    kinematics = Kinematics.of(scene.robots[0].spec)
    # One robot starts below a carrier, and lifts it.
    made.teleport(scene.robots[0].name, scene.carriers[0].pose)
    contacts = 0
    for tick in range(60):
        for i, name in enumerate(made.names):
            device = made.device(name)
            slow = 0.3 if i == 0 else 1.0
            speeds = kinematics.wheels(slow * rng.normal(size=3) * (0.6, 0.3, 2.0))
            device.motors.drive(speeds if tick > 5 else 0.0 * speeds)
            if i == 0:
                device.lifter.move(device.spec.lifter.raised if 2 < tick < 45 else device.spec.lifter.lowered)
        if tick == 30:
            made.add_obstacle("crate", (-1.2, -0.9, 0.2), (0.1, 0.1))
            made.kill(made.names[3])
        for _ in range(10):
            made.step()
        for name in made.names:
            device = made.device(name)
            motors, imu = device.motors.read(), device.imu.read()
            hashed.update(motors.travel.tobytes() + motors.speeds.tobytes() + repr(motors.effort).encode())
            hashed.update(repr((imu.gyro, imu.accel)).encode())
            for part in device.ranges.values():
                reading = part.read()
                hashed.update(b"" if reading is None else reading.distances.tobytes())
            for radio in device.radios.values():
                radio.send(b"x")
                hashed.update(repr([(packet.sender, packet.rssi) for packet in radio.read()]).encode())
        carriers_now = made.carriers()
        hashed.update(made.truth().tobytes() + carriers_now.poses.tobytes() + carriers_now.lifts.tobytes())
        touched = [(c.time, c.one, c.other, c.speed) for c in reader.read()]
        contacts += len(touched)
        hashed.update(repr(touched).encode())
        if tick == 40:
            assert carriers_now.carried_by[0] == 0
    assert contacts > 5
    hashed.update(made.energy_wh().tobytes())
    made.close()
    return hashed.hexdigest()[:16]


CASES = {
    "planar crowd": lambda: crowd_digest("dots", True, 60, 40),
    "planar crowd, one step a tick": lambda: crowd_digest("epuck2", {"step": 0.1}, 60, 60),
    "planar": lambda: robots_digest(planar_world.make, "planar"),
    "mujoco": lambda: robots_digest(mujoco_world.make, "mujoco"),
}


@pytest.mark.parametrize("case", CASES)
def test_worlds_without_led_bodies_compute_what_they_did(case):
    found = fingerprint()
    if found != FINGERPRINT:
        pytest.skip(f"the hashes are of other arithmetic: this machine's fingerprint is {found}")
    assert CASES[case]() == BEFORE[case]
