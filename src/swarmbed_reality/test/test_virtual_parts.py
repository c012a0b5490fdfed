"""Simulated parts behind part servers: names, keys, and time that is the machine's or the world's."""

from __future__ import annotations

import ast
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_reality.errors import RealityError
from swarmbed_reality.remote import names_of
from swarmbed_reality.virtual_parts import (
    FINE_STEP,
    LONGEST,
    Server,
    VirtualRobot,
    expanded,
    filled,
    key_of,
    parts_of,
)
from swarmbed_sim.planar_world import make

from swarmbed_reality import part_server

DOTS = RobotSpec.load("dots")
ALL = ("motors", "imu", "compass", "lifter", "power", "leds", "ranges", "radios")


class Machine:
    """A machine's clock that a test sets."""

    def __init__(self, now=5000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("udp://127.0.0.1:74{number:02}", "dots7", "udp://127.0.0.1:7407"),
        ("udp://{name}.local:7400", "dots12", "udp://dots12.local:7400"),
        ("{name}/{number}/{number:04}", "a3b12", "a3b12/12/0012"),
        ("{number}", "solo", "0"),
        ("{name.__class__} {other} {}", "dots1", "{name.__class__} {other} {}"),
    ],
)
def test_placeholders(pattern, name, expected):
    assert filled(pattern, name) == expected


def test_parts_are_named_singly_or_in_groups():
    known = ["motors", "imu", "ranges/tof", "ranges/sonar", "radios/ble"]
    assert expanded(["motors", "ranges"], known, "r1") == ["motors", "ranges/tof", "ranges/sonar"]
    assert expanded(["ranges/tof", "ranges"], known, "r1") == ["ranges/tof", "ranges/sonar"]
    with pytest.raises(RealityError, match="r1 has no part 'range': it has motors, imu, ranges/tof"):
        expanded(["range"], known, "r1")


def test_in_real_time_the_wheels_roll_while_the_machines_time_passes():
    machine = Machine()
    robot = VirtualRobot("dots1", DOTS, ALL, noise=False, machine=machine)
    parts = robot.begin(lockstep=False)
    assert set(parts) == {
        "motors",
        "imu",
        "compass",
        "lifter",
        "power",
        "leds",
        "ranges/tof",
        "radios/ble",
    } | {f"radios/{radio.name}" for radio in DOTS.radios}
    start = parts["motors"].read()
    assert start.stamp == pytest.approx(machine.now, abs=2 * FINE_STEP)
    for _ in range(100):
        parts["motors"].drive([0.2, 0.2, 0.2], 0.1)
        machine.now += 0.01
    reading = parts["motors"].read()
    assert reading.travel - start.travel == pytest.approx(0.2, abs=0.005)
    assert machine.now - FINE_STEP - 1e-6 <= reading.stamp <= machine.now + 1e-6
    assert parts["ranges/tof"].read().stamp == reading.stamp
    assert robot.begin(lockstep=False) is parts, "a new session finds the robot as it is"
    machine.now += 0.2
    assert parts["motors"].read().speeds.tolist() == [0.0, 0.0, 0.0]


def test_a_robot_that_slept_does_not_catch_up_for_hours():
    machine = Machine()
    robot = VirtualRobot("dots1", DOTS, ["motors"], machine=machine)
    parts = robot.begin(lockstep=False)
    before = robot._world.time
    machine.now += 3600.0
    reading = parts["motors"].read()
    assert robot._world.time - before == pytest.approx(LONGEST, abs=0.01)
    assert reading.stamp == pytest.approx(machine.now, abs=0.01)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    st.floats(0.0, 1e5),
    st.lists(st.tuples(st.integers(0, 20), st.floats(-1.0, 1.0)), min_size=1, max_size=30),
)
def test_in_lockstep_time_is_what_the_world_says(start, course):
    robot = VirtualRobot("dots1", DOTS, ["motors"], noise=False)
    motors = robot.begin(lockstep=True)["motors"]
    ticks = way = last = 0
    robot.advance(start)
    for steps, speed in course:
        motors.drive([speed] * 3, 1.0)
        ticks += steps
        robot.advance(start + 0.01 * ticks)
        if steps:
            # The speed changes linearly during the first step.
            way += 0.01 * (steps * speed + 0.5 * (last - speed))
            last = speed
        reading = motors.read()
        assert reading.stamp == pytest.approx(start + 0.01 * ticks, abs=1e-6)
        assert robot.time() == reading.stamp
        assert reading.travel == pytest.approx(way, abs=1e-9)


def test_in_lockstep_every_session_is_the_same():
    robot = VirtualRobot("dots1", DOTS, ["motors", "ranges"], seed=4)
    runs = []
    for _ in range(2):
        parts = robot.begin(lockstep=True)
        made = []
        for k in range(50):
            robot.advance(3.0 + 0.01 * k)
            parts["motors"].drive([0.3, -0.1, 0.1 * k], 0.5)
            reading = parts["motors"].read()
            made.append((reading.stamp, reading.travel.tobytes(), reading.speeds.tobytes()))
        runs.append(made)
    assert runs[0] == runs[1]
    assert np.frombuffer(runs[0][-1][1]).any()
    machine = Machine()
    robot._machine = machine
    assert robot.begin(lockstep=False)["motors"].read().stamp == machine.now


@pytest.mark.parametrize("to", [float("nan"), float("inf"), -5.0, 1e300])
def test_times_that_make_no_sense_do_not_stop_it(to):
    robot = VirtualRobot("dots1", DOTS, ["motors"])
    robot.begin(lockstep=True)
    robot.advance(1.0)
    robot.advance(to)
    assert robot.time() <= 1.0 + LONGEST + 0.01


def test_a_kind_without_the_part_is_named():
    with pytest.raises(RealityError, match="e1, a epuck2, has no part 'lifter': it has motors"):
        VirtualRobot("e1", RobotSpec.load("epuck2"), ["lifter"])


def test_keys_are_made_for_their_owner_only(tmp_path):
    file = tmp_path / "keys" / "dots1.key"
    key = key_of(file, create=True)
    assert len(key) == 64
    assert key_of(file) == key_of(file, create=True) == key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_keys_that_are_missing_or_short_are_named(tmp_path):
    with pytest.raises(RealityError, match=r"nowhere\.key: cannot be read as a robot's key \(No such file"):
        key_of(tmp_path / "nowhere.key")
    short = tmp_path / "short.key"
    short.write_text("hunter2\n")
    with pytest.raises(
        RealityError, match=r"every user of this machine can read this key; run: chmod 600 .*short"
    ):
        key_of(short)
    short.chmod(0o600)
    with pytest.raises(RealityError, match=r"short\.key: the key has 7 bytes: expected 16 to 64"):
        key_of(short)


def test_an_address_that_is_taken_is_named():
    server = Server()
    robots = [VirtualRobot(name, DOTS, ["motors"]) for name in ("dots1", "dots2")]
    server.add(robots[0], b"k" * 16, "udp://127.0.0.1:0")
    [one] = server._robots.values()
    with pytest.raises(RealityError, match=f"dots2: udp://127.0.0.1:{one.port}: .*in use"):
        server.add(robots[1], b"k" * 16, f"udp://127.0.0.1:{one.port}")
    server.stop()
    server.run()
    assert not server._robots


def test_a_server_that_is_removed_is_not_asked_again(tmp_path):
    """An order to remove robots may come together with their last datagrams."""
    server = Server()
    robots, called = {}, []
    for name in ("dots1", "dots2"):
        robots[name] = f"unix://{tmp_path}/{name}.sock"
        server.add(VirtualRobot(name, DOTS, ["motors"]), b"k" * 16, robots[name])
        client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        client.sendto(b"its last word", f"{tmp_path}/{name}.sock")
        client.close()
    pipes = [os.pipe() for _ in range(2)]

    def remove(name, read):
        called.append(name)
        os.read(read, 1)
        server.remove(robots[name])
        if len(called) == 2:
            server.stop()

    for name, (read, write) in zip(robots, pipes, strict=True):
        os.write(write, b"x")
        server.watch(read, lambda name=name, read=read: remove(name, read))
    # Whatever is ready first: the orders are handled before the datagrams, too.
    select = server._selector.select
    server._selector.select = lambda wait: sorted(select(wait), key=lambda ready: ready[0].fd, reverse=True)
    server.run()
    assert sorted(called) == ["dots1", "dots2"]
    for pipe in pipes:
        for end in pipe:
            os.close(end)


def test_the_robots_side_is_one_file_that_needs_msgpack_only():
    source = Path(part_server.__file__).read_text()
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.split(".")[0])
    assert names - set(sys.stdlib_module_names) == {"msgpack"}
    # The Python of a Raspberry Pi with Debian 11.
    ast.parse(source, feature_version=(3, 9))


ROBOT = """
import threading, time, part_server as wire

class Wheels:
    speeds = [0.0]
    enable = lambda self, on: None
    drive = lambda self, speeds, hold: setattr(self, "speeds", speeds)
    read = lambda self: (time.monotonic(), [0.0], self.speeds)

key, nonce = b"k" * 32, b"n" * wire.TAG
server = wire.PartServer("r1", key, {"motors": Wheels()}, "udp://127.0.0.1:0")
thread = threading.Thread(target=server.run)
thread.start()
world, robot = wire.open_socket("udp://127.0.0.1:%d" % server.port, serve=False)
world.settimeout(20)
hello = {"name": "r1", "nonce": nonce, "rate": 50.0, "lockstep": False}
world.sendto(wire.pack(key, wire.HELLO, 1, 0.0, hello), robot)
session = wire.session_key(key, nonce, wire.unpack(world.recv(wire.LARGEST))[3]["answer"])
speeds = {"hold": 1.0, "set": {"motors": [True, [0.5]]}}
world.sendto(wire.pack(session, wire.SET, 2, 0.0, speeds), robot)
print(wire.unpack(world.recv(wire.LARGEST))[3]["read"]["motors"][2])
server.stop()
thread.join()
world.close()
"""


@pytest.mark.parametrize("version", ["3.9", "3.11"])
def test_the_robots_side_runs_with_old_pythons_by_itself(version, tmp_path):
    """The versions of Debian 11 and 12, and so of a Raspberry Pi; msgpack is that without a compiler."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    python = next(map(str, installed), None) or shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"needs Python {version}")
    shutil.copy(part_server.__file__, tmp_path)
    package = Path(msgpack.__file__).parent
    shutil.copytree(package, tmp_path / "msgpack", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (tmp_path / "robot.py").write_text(ROBOT)
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    # Without site-packages.
    ran = subprocess.run(
        [python, "-S", "robot.py"], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("[0.5]\n", "")


def test_parts_have_their_names_on_the_wire():
    kinds = "pioneer3dx", "epuck2", "dots"
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "one of each kind",
            "time_limit": 1.0,
            "arena": "empty",
            "robots": [
                {"kind": kind, "place": {"poses": [[2.0 * k, 0.0, 0.0]]}} for k, kind in enumerate(kinds)
            ],
            "controller": {"name": "random_walk"},
        }
    )
    world = make(make_scene(scenario), np.random.SeedSequence(1))
    for kind in kinds:
        assert set(parts_of(world.device(f"{kind}1"))) == set(names_of(RobotSpec.load(kind)))
