"""Prints hashes of what small worlds without led bodies compute; `test_led_unchanged` runs it.

It runs without compilation, so that the hashes depend on no compiler: `NUMBA_DISABLE_JIT=1`.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import warnings

import mujoco
import numpy as np
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene

from swarmbed_sim import mujoco_world, planar_world

OBSTACLES = [
    {"shape": "box", "size": [0.5, 0.2], "pose": [0.6, 0.5, 0.3]},
    {"shape": "cylinder", "radius": 0.1, "pose": [0.6, -0.5, 0.0]},
]


def fingerprint():
    """Return a hash of this machine's arithmetic and of the versions that decide results."""
    x = np.linspace(0.1, 9.0, 1000)
    made = hashlib.sha256(repr((np.__version__, mujoco.__version__)).encode())
    for array in (np.sin(x), np.cos(x), np.exp(-x), np.arctan2(x, 1.7), np.hypot(x, 0.3)):
        made.update(array.tobytes())
    for number in x.tolist():
        numbers = math.sin(number), math.cos(number), math.exp(-number), math.atan2(number, 1.7)
        made.update(repr((*numbers, math.hypot(number, 0.3))).encode())
    # BLAS has kernels of its own for each kind of processor.
    rows = np.random.default_rng(0).normal(size=(300, 3))
    for matrix in (rows[:3], rows[:3].T, rows[:60].reshape(-1, 3)):
        for row in rows:
            made.update((matrix @ row).tobytes())
    return made.hexdigest()[:16]


def scene_of(world, robots, **more):
    fields = {
        "version": 1,
        "title": "test",
        "world": world,
        "time_limit": 60.0,
        "obstacles": OBSTACLES,
        "robots": robots,
        "controller": {"name": "random_walk"},
        **more,
    }
    return make_scene(Scenario.model_validate(fields), 3)


def near(half):
    return {"area": {"x_min": -half, "x_max": half, "y_min": -half, "y_max": half}}


def touched(reader):
    return [(contact.time, contact.one, contact.other, contact.speed) for contact in reader.read()]


def crowd(kind, options, half, ticks):
    """Return a hash of a crowd that is driven at random, and the number of contacts."""
    group = {"kind": kind, "count": 14, "crowd": options, "place": near(half)}
    world = planar_world.make(scene_of("planar", [group]), np.random.SeedSequence(5))
    robots, rng, reader = world.crowd(), np.random.default_rng(1), world.watch_contacts()
    hashed, contacts = hashlib.sha256(), 0
    for tick in range(ticks):
        if tick % 5 == 0:
            robots.v_body[:] = rng.normal(size=robots.v_body.shape) * (0.6, 0.3, 1.0)
        for _ in range(round(0.1 / world.timestep)):
            world.step()
        senses = robots.senses()
        for array in (senses.ranges, senses.headings, senses.zones, senses.twists, world.truth()):
            hashed.update(np.ascontiguousarray(array).tobytes())
        new = touched(reader)
        contacts += len(new)
        hashed.update(repr(new).encode())
    hashed.update(world.energy_wh().tobytes())
    return hashed.hexdigest()[:16], contacts


def whole(make, world):
    """Return a hash of robots with devices, one of which carries, and the number of contacts."""
    carriers = [{"count": 1, "place": {"zone": "search"}, "payload": 0.3}]
    scene = scene_of(world, [{"count": 5, "place": near(0.7)}], carriers=carriers)
    made = make(scene, np.random.SeedSequence(5))
    made.teleport(made.names[0], scene.carriers[0].pose)
    rng, reader, hashed = np.random.default_rng(1), made.watch_contacts(), hashlib.sha256()
    kinematics = Kinematics.of(scene.robots[0].spec)
    contacts, carried = 0, 0
    for tick in range(60):
        for i, name in enumerate(made.names):
            device = made.device(name)
            wheels = kinematics.wheels(rng.normal(size=3) * (0.6, 0.3, 2.0))
            device.motors.drive(wheels * ((0.2 if tick > 35 else 0.0) if i == 0 else 1.0))
            if i == 0:
                device.lifter.move(device.spec.lifter.raised if tick < 50 else device.spec.lifter.lowered)
        for _ in range(10):
            made.step()
        for name in made.names:
            device = made.device(name)
            motors = device.motors.read()
            hashed.update(motors.travel.tobytes() + motors.speeds.tobytes())
            hashed.update(repr((motors.effort, device.imu.read())).encode())
            if tick % 10 == 0:
                hashed.update(next(iter(device.ranges.values())).read().distances.tobytes())
        there = made.carriers()
        hashed.update(made.truth().tobytes() + there.poses.tobytes() + there.lifts.tobytes())
        carried += int(there.carried_by[0] == 0)
        new = touched(reader)
        contacts += len(new)
        hashed.update(repr(new).encode())
    hashed.update(made.energy_wh().tobytes())
    made.close()
    return hashed.hexdigest()[:16], min(contacts, carried)


def main():
    # Kernels divide by zero on purpose.
    warnings.simplefilter("ignore", RuntimeWarning)
    found = {
        "fingerprint": fingerprint(),
        "planar crowd": crowd("dots", {"senses": []}, 0.9, 15),
        "planar crowd, one step a tick": crowd("epuck2", {"step": 0.1}, 0.27, 30),
        "planar": whole(planar_world.make, "planar"),
        "mujoco": whole(mujoco_world.make, "mujoco"),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
