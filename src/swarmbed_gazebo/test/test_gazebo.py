"""Gazebo as a world: it drives, lifts, tells contacts, repeats itself, and dies with a word."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.power import PowerModel
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_gazebo.errors import GazeboError
from swarmbed_gazebo.place import find, missing
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC, world_text
from swarmbed_gazebo.server import Server
from swarmbed_gazebo.world import GazeboPhysics
from swarmbed_sim.mujoco_world import MujocoPhysics
from swarmbed_sim.planar_world import PlanarPhysics
from swarmbed_sim.sim_world import SimWorld

from swarmbed_gazebo import server as server_module

pytestmark = pytest.mark.slow

ABSENT = {simulator: missing(simulator) for simulator in (GAZEBO11, HARMONIC)}
needs_gazebo11 = pytest.mark.skipif(bool(ABSENT[GAZEBO11]), reason=ABSENT[GAZEBO11])


SIMULATORS = [
    pytest.param(simulator, marks=pytest.mark.skipif(bool(absent), reason=absent))
    for simulator, absent in ABSENT.items()
]


@pytest.fixture(params=SIMULATORS)
def simulator(request):
    """Each of the simulators."""
    return request.param


def scene_of(robots, carriers=(), **changes):
    data = {
        "version": 1,
        "title": "test",
        "time_limit": 10,
        "robots": [{"place": {"poses": robots}}],
        "carriers": [{"place": {"poses": carriers}}] if carriers else [],
        "controller": {"name": "random_walk"},
    }
    return make_scene(Scenario.model_validate(data | changes))


@contextlib.contextmanager
def bodies(simulator, robots, carriers=(), **changes):
    scene = scene_of(robots, carriers, **changes)
    made = MujocoPhysics(scene) if simulator == "mujoco" else GazeboPhysics(scene, kind=simulator)
    try:
        yield made
    finally:
        made.close()


def go(physics, seconds, velocity=(0.0, 0.0, 0.0), platform=0.145):
    """Drive all robots alike; return the first one's velocities over time."""
    count = len(physics.poses)
    told = []
    for _ in range(round(seconds / physics.timestep)):
        wanted = np.tile(np.array(velocity, dtype=float), (count, 1))
        physics.advance(wanted, np.ones(count, dtype=np.bool_), np.full(count, platform))
        told.append(physics.twists[0].copy())
    return np.array(told)


@pytest.mark.parametrize("velocity", [(0.5, 0.0, 0.0), (0.0, -0.3, 0.0), (0.0, 0.0, 1.5), (0.3, 0.2, -1.0)])
def test_it_follows_a_velocity_as_mujoco_does(simulator, velocity):
    runs = []
    for there in (simulator, "mujoco"):
        with bodies(there, [[0.0, 0.0, 0.7]]) as physics:
            runs.append((go(physics, 0.6, velocity), go(physics, 0.4), physics.poses[0].copy()))
    (up, down, end), (up_there, _, end_there) = runs
    for axis in np.flatnonzero(velocity):
        wanted = velocity[axis]
        rises = [int(np.argmax(np.abs(run[:, axis]) > 0.9 * abs(wanted))) for run in (up, up_there)]
        assert abs(rises[0] - rises[1]) <= max(0.1 * rises[1], 1)
        assert up[-1, axis] == pytest.approx(wanted, rel=0.02)
    assert np.abs(down[-1]).max() < 0.01
    assert end == pytest.approx(end_there, abs=0.005)
    assert np.abs(up - up_there).max() < 0.01


@pytest.mark.parametrize("kind", ["planar", "mujoco", *SIMULATORS])
def test_motors_do_what_they_can_in_all_worlds_and_it_costs_the_same(kind):
    """A blocked DOTS draws Table IV's full torque; its motors have Table I's 4 m/s², of which it uses 2."""
    scene = scene_of([[2.2, 0.0, 0.0], [0.0, 1.0, 0.0]], noise=False)
    spec = scene.robots[0].spec
    makers = {"planar": PlanarPhysics, "mujoco": MujocoPhysics}
    physics = makers[kind](scene) if kind in makers else GazeboPhysics(scene, kind=kind)
    world = SimWorld(scene, physics, np.random.SeedSequence(1))
    try:
        devices = [world.device(name) for name in world.names]
        wheels = Kinematics.of(spec).wheels((1.0, 0.0, 0.0))
        for device in devices:
            device.motors.drive(wheels, math.inf)
        for _ in range(10):
            world.step()
        available = spec.limits.acceleration_available
        assert world.truth()[1, 3] == pytest.approx(0.1 * available, rel=0.05)
        assert devices[1].motors.read().effort == pytest.approx(1.0, abs=0.02)
        while world.time < 1.0 - 1e-9:
            world.step()
        before = world.energy_wh()
        while world.time < 2.0 - 1e-9:
            world.step()
        assert devices[0].motors.read().effort == pytest.approx(1.0, abs=0.01)
        watts = 3600.0 * (world.energy_wh() - before)
        model = PowerModel(spec)
        assert watts[0] == pytest.approx(model.watts(cameras=1.0, effort=1.0), rel=0.01)
        assert watts[1] == pytest.approx(model.watts(cameras=1.0, speed=1.0), rel=0.02)
    finally:
        world.close()


def test_it_lifts_and_carries_and_puts_down(simulator):
    with bodies(simulator, [[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.3]]) as physics:
        go(physics, 0.2)
        assert physics.carried_by.tolist() == [-1]
        assert abs(physics.carrier_lifts[0]) < 0.001
        for height in np.linspace(0.145, 0.197, 100):
            go(physics, 0.01, platform=height)
        go(physics, 0.5, platform=0.197)
        assert physics.heights[0] == pytest.approx(0.197, abs=5e-4)
        assert physics.carried_by.tolist() == [0]
        assert physics.carrier_lifts[0] == pytest.approx(0.197 - 0.175, abs=1e-3)
        before = physics.carrier_poses[0, :2] - physics.poses[0, :2]
        go(physics, 2.0, (0.3, 0.0, 0.0), 0.197)
        go(physics, 0.5, platform=0.197)
        assert physics.poses[0, 0] > 0.5
        assert physics.carrier_poses[0, :2] - physics.poses[0, :2] == pytest.approx(before, abs=0.003)
        for height in np.linspace(0.197, 0.145, 100):
            go(physics, 0.01, platform=height)
        go(physics, 0.3)
        assert physics.carried_by.tolist() == [-1]
        # Platform under tray is no contact.
        assert physics.contacts() == []


@needs_gazebo11
def test_its_rays_meet_what_bodies_run_into(monkeypatch):
    rng = np.random.default_rng(7)
    obstacles = [
        {"shape": "box", "pose": [0.3, 1.6, 0.4], "size": [0.5, 0.3]},
        {"shape": "cylinder", "pose": [-1.2, -1.4, 0.0], "radius": 0.12},
    ]
    places = [[-1.5, 1.0], [1.4, 0.2], [0.1, -1.2], [0.2, 0.4]]
    robots = [[*place, yaw] for place, yaw in zip(places, rng.uniform(-3, 3, 4).tolist(), strict=True)]
    scene = scene_of(robots, [[-0.6, 0.1, 0.4], [0.2, 0.4, 0.2]], obstacles=obstacles, noise=False)
    physics = GazeboPhysics(scene, kind=GAZEBO11)
    world = SimWorld(scene, physics, np.random.SeedSequence(1))
    try:
        parts = {
            (robot.name, name): part
            for robot in scene.robots
            for name, part in world.device(robot.name).ranges.items()
        }

        def sweeps():
            for _ in range(10):
                world.step()
            return {which: part.read().distances.copy() for which, part in parts.items()}

        theirs = sweeps()
        monkeypatch.setattr(GazeboPhysics, "cast", lambda *_: None)
        ours = sweeps()
        seen = 0
        for which, distances in theirs.items():
            assert (np.isinf(distances) == np.isinf(ours[which])).all()
            there = np.isfinite(distances)
            assert distances[there] == pytest.approx(ours[which][there], abs=5e-4)
            seen += int(there.sum())
        assert seen > 50
        # What comes is seen, what has gone is not.
        monkeypatch.undo()
        physics.add_box("crate", (-1.5, 1.5, 0.0), (0.3, 0.3))
        nearest = min(d.min() for (robot, _), d in sweeps().items() if robot == "dots1")
        assert nearest == pytest.approx(0.35 - 0.125, abs=0.03)
        physics.remove_box("crate")
        assert sweeps().keys() == theirs.keys()
    finally:
        world.close()


def test_contacts_are_told_once_with_how_fast_they_closed_in(simulator):
    with bodies(simulator, [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 1.0, 3.0]]) as physics:
        go(physics, 0.5)
        assert physics.contacts() == []
        count = 150
        for _ in range(count):
            wanted = np.array([[0.4, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, 0.0, 0.0]])
            physics.advance(wanted, np.ones(3, dtype=np.bool_), np.full(3, 0.145))
        told = physics.contacts()
        assert [item[:2] for item in told] == [("dots1", "wall"), ("dots2", "dots3")]
        assert [item[2] for item in told] == pytest.approx([0.4, 0.3], abs=0.03)
        assert physics.poses[0, 0] == pytest.approx(2.5 - 0.125, abs=0.005)


def test_hands_put_things_elsewhere(simulator):
    with bodies(simulator, [[0.0, 0.0, 0.0]], [[1.0, 1.0, 0.0]]) as physics:
        go(physics, 0.3, (0.5, 0.0, 0.0))
        physics.move_robot(0, (-1.0, -1.0, 2.0))
        physics.move_carrier(0, (-1.0, 1.0, 1.0))
        assert physics.poses[0] == pytest.approx([-1.0, -1.0, 2.0])
        assert physics.twists[0] == pytest.approx([0.0, 0.0, 0.0])
        assert physics.carrier_poses[0] == pytest.approx([-1.0, 1.0, 1.0])
        go(physics, 0.3)
        assert physics.carrier_poses[0] == pytest.approx([-1.0, 1.0, 1.0], abs=1e-3)


def trace(simulator, seed):
    """Return a digest of a run with collisions, lifting, and things that come and go."""
    rng = np.random.default_rng(7)
    digest = hashlib.sha256()
    scene = scene_of(
        [[-1.0, -1.0, 0.0], [0.0, -1.0, 1.0], [1.0, -1.0, 2.0]], [[-1.0, -1.0, 0.0], [0.0, 0.3, 0.0]]
    )
    physics = GazeboPhysics(scene, seed, simulator)
    try:
        for k in range(100):
            if k == 10:
                physics.add_box("crate", (-0.6, -0.6, 0.3), (0.2, 0.2))
                physics.add_box("chest", (0.4, -0.6, 0.0), (0.2, 0.2))
                physics.add_box("bin", (1.4, -0.6, 0.0), (0.2, 0.2))
            if k == 70:
                physics.remove_box("chest")
            if k % 10 == 0:
                wanted = rng.normal(0.0, 0.7, (3, 3))
            physics.advance(wanted, np.ones(3, dtype=np.bool_), np.full(3, 0.145 + 0.0005 * k))
            for array in (physics.poses, physics.twists, physics.carrier_poses, physics.carrier_lifts):
                digest.update(array.tobytes())
    finally:
        physics.close()
    return digest.hexdigest()


def test_runs_repeat_bit_by_bit(simulator):
    assert trace(simulator, 3) == trace(simulator, 3)


def test_it_leaves_nothing_behind(simulator, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with bodies(simulator, [[0.0, 0.0, 0.0]]) as physics:
        go(physics, 0.1)
        folder, server = Path(physics._server._folder.name), physics._server._process.pid
        assert runs(server)
    assert not list(tmp_path.iterdir())
    assert not folder.exists()
    assert not runs(server)


def test_a_server_that_is_killed_is_told_of_at_once(simulator):
    with bodies(simulator, [[0.0, 0.0, 0.0]]) as physics:
        go(physics, 0.1)
        physics._server._process.send_signal(signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(GazeboError, match=r"is gone \(SIGKILL\)"):
            go(physics, 10.0)
        assert time.monotonic() - began < 5.0


def runs(pid):
    """Whether a process runs; one that has ended and that nobody waited for has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


def test_a_server_goes_with_whoever_started_it(simulator):
    here = str(Path(__file__).parent)
    code = (
        f"import sys, time; sys.path.insert(0, {here!r}); import test_gazebo as t\n"
        f"p = t.GazeboPhysics(t.scene_of([[0.0, 0.0, 0.0]]), kind={simulator!r})\n"
        "print(p._server._process.pid, flush=True)\n"
        "time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    server = int(process.stdout.readline())
    assert runs(server)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    end = time.monotonic() + 10.0
    while time.monotonic() < end and runs(server):
        time.sleep(0.05)
    assert not runs(server)


def test_what_gazebo_does_not_take_is_told(simulator, monkeypatch):
    monkeypatch.setattr(server_module, "START", 60.0)
    began = time.monotonic()
    for broken in ("<sdf version='1.7'><world", "<sdf version='1.7'><world name='x'><model/></world></sdf>"):
        with pytest.raises(GazeboError, match=r"(rejects the world|did not start).*Error"):
            Server(lambda *_, broken=broken: broken, 1, simulator)
    assert time.monotonic() - began < 40.0


def test_a_plugin_that_is_not_there_is_told_of(simulator):
    scene = scene_of([[0.0, 0.0, 0.0]])

    def broken(*how):
        return world_text(scene, *how).replace("libswarmbed_", "libnobodys_")

    with pytest.raises(GazeboError, match=r"rejects the world; its last output: .*libnobodys"):
        Server(broken, 1, simulator)


def test_a_model_that_is_not_there_is_told_of(simulator):
    scene = scene_of([[0.0, 0.0, 0.0]])

    def broken(*how):
        return world_text(scene, *how).replace('<model name="dots1">', '<model name="x">')

    with pytest.raises(GazeboError, match="no model 'dots1'"):
        Server(broken, 1, simulator)


@needs_gazebo11
def test_a_port_that_somebody_took_in_between_is_not_the_end(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        ports = iter([taken.getsockname()[1], server_module._free_port(), server_module._free_port()])
        monkeypatch.setattr(server_module, "_free_port", lambda: next(ports))
        with bodies(GAZEBO11, [[0.0, 0.0, 0.0]]) as physics:
            go(physics, 0.1)
        assert len(list(ports)) == 1


@pytest.mark.parametrize(
    ("kind", "advice"),
    [("", "setup --gazebo"), (GAZEBO11, "setup --gazebo"), (HARMONIC, "SWARMBED_HARMONIC")],
)
def test_without_gazebo_it_says_what_to_do(monkeypatch, kind, advice):
    monkeypatch.setenv("AMENT_PREFIX_PATH", "")
    with pytest.raises(GazeboError, match=advice):
        GazeboPhysics(scene_of([[0.0, 0.0, 0.0]]), kind=kind)


@needs_gazebo11
def test_a_prefix_that_was_taken_away_is_told_of(monkeypatch, tmp_path):
    share, lib = tmp_path / "share" / "swarmbed_gazebo_plugin", tmp_path / "lib"
    share.mkdir(parents=True)
    lib.mkdir()
    (lib / "libswarmbed_gazebo11.so").touch()
    (share / "gazebo11.prefix").write_text("/nowhere", encoding="utf-8")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    with pytest.raises(GazeboError, match="/nowhere/usr/bin/gzserver no longer exists"):
        find()


def test_boxes_come_and_go_and_nothing_else_moves(simulator):
    with bodies(simulator, [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[-1.0, -1.0, 0.5]]) as physics:
        go(physics, 0.3, (0.2, 0.0, 0.0))
        before = np.vstack([physics.poses, physics.twists, physics.carrier_poses])
        physics.add_box("crate", (0.6, 0.0, 0.3), (0.2, 0.2))
        assert np.array_equal(np.vstack([physics.poses, physics.twists, physics.carrier_poses]), before)
        assert len(physics.segments) == 8
        with pytest.raises(GazeboError, match="this name is taken"):
            physics.add_box("crate", (1.0, 1.0, 0.0), (0.2, 0.2))
        go(physics, 2.0, (0.4, 0.0, 0.0))
        assert physics.poses[0, 0] < 0.45
        assert [item[:2] for item in physics.contacts()] == [("dots1", "crate")]
        physics.remove_box("crate")
        assert len(physics.segments) == 4
        with pytest.raises(GazeboError, match="there are none"):
            physics.remove_box("crate")
        go(physics, 1.0, (0.4, 0.0, 0.0))
        assert physics.poses[0, 0] > 0.6


def test_robots_come_and_go(simulator):
    with bodies(simulator, [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0.0, -1.0, 0.3]]) as physics:
        go(physics, 0.2)
        scene = scene_of([[0.0, -1.0, 0.3]])
        physics.add_robot(dataclasses.replace(scene.robots[0], name="dots9"))
        assert physics.poses.shape == (3, 3)
        assert physics.poses[2] == pytest.approx([0.0, -1.0, 0.3])
        physics.remove_robot(0)
        assert physics.poses[0] == pytest.approx([0.0, 1.0, 0.0], abs=1e-3)
        for height in np.linspace(0.145, 0.197, 100):
            go(physics, 0.01, platform=height)
        go(physics, 0.3, platform=0.197)
        # The new one has lifted the carrier, and is in row 1 now.
        assert physics.carried_by.tolist() == [1]
        assert physics.contacts() == []
        go(physics, 1.0, (0.3, 0.0, 0.0), 0.197)
        assert physics.carried_by.tolist() == [1]
        physics.remove_robot(1)
        go(physics, 0.5, platform=0.197)
        assert physics.carried_by.tolist() == [-1]
        assert physics.carrier_lifts[0] == pytest.approx(0.0, abs=1e-3)
