"""Gazebo as a world beyond the contracts: it drives as MuJoCo does, and dies with a word."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_gazebo.errors import GazeboError
from swarmbed_gazebo.place import find, missing
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC, world_text
from swarmbed_gazebo.server import Server
from swarmbed_gazebo.world import GazeboPhysics
from swarmbed_sim.mujoco_world import MujocoPhysics
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
