"""The device maker `remote`: robots in a world whose parts run in another process."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.outfit import find_maker, outfit
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Named, Scenario
from swarmbed_core.scene import RobotPlacement, make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_reality.errors import RealityError
from swarmbed_reality.remote import Remote, helper_of
from swarmbed_reality.virtual_parts import Server, VirtualRobot
from swarmbed_sim.planar_world import make as make_planar

pytestmark = pytest.mark.slow

DOTS = RobotSpec.load("dots")
KEY = b"sixteen bytes or more"
LOCKSTEP = {"name": "remote", "parts": ["motors"], "hil": True, "lockstep": True}


def scene_of(*device, count=2, **more):
    data = {
        "version": 1,
        "title": "robots with remote parts",
        "world": "planar",
        "arena": "empty",
        "time_limit": 60,
        "controller": {"name": "none"},
        "robots": [
            {
                "count": count,
                "place": {"line": {"start": [0, 0, 1.57], "spacing": 1.0}},
                "device": list(device),
            }
        ],
        **more,
    }
    return make_scene(Scenario.model_validate(data))


@pytest.fixture
def made():
    """Return what makes a swarm in a planar world, and closes it."""
    swarms = []

    def make(*device, seed=1, **more):
        scene = scene_of(*device, **more)
        world = make_planar(scene, np.random.SeedSequence(seed))
        swarms.append(LocalSwarm.of_scene(scene, world))
        return swarms[-1]

    yield make
    for swarm in swarms:
        swarm.close()
        swarm.world.close()


def drive(swarm, seconds, v_body=(0.2, 0.0, 0.3)):
    for _ in range(round(10 * seconds)):
        for robot in swarm.robots:
            robot.act(Command(velocity_body=v_body))
        swarm.run(0.1)


def track(swarm, seconds):
    rows = []
    for k in range(round(10 * seconds)):
        drive(swarm, 0.1, (0.3, 0.1, 0.5 * (-1) ** (k // 7)))
        rows.append(
            (swarm.world.truth().tobytes(), *(robot.sense().pose_odom.tobytes() for robot in swarm.robots))
        )
    return rows


def test_the_bodies_move_as_the_wheels_in_the_other_process_do(made):
    swarm = made(LOCKSTEP, noise=False)
    assert not swarm.real
    drive(swarm, 2.0, (0.2, 0.0, 0.0))
    helper = helper_of(swarm.world)
    assert helper.runs
    for row, robot in enumerate(swarm.robots):
        x, y, _ = robot.sense().pose_odom
        way = np.hypot(*(swarm.world.truth()[row, :2] - ((0, 0), (0, -1))[row]))
        assert np.hypot(x, y) == pytest.approx(way, abs=0.01)
        assert way == pytest.approx(0.38, abs=0.03)
        assert robot.onboard.health.total == 0
    process, folder = helper._process, helper._folder
    swarm.close()
    assert process.returncode == 0
    assert not os.path.exists(folder)  # noqa: PTH110


def test_a_run_in_lockstep_repeats_bit_by_bit(made):
    one = track(made(LOCKSTEP), 3.0)
    assert one == track(made(LOCKSTEP), 3.0)
    assert one != track(made(LOCKSTEP, seed=2), 3.0)


def test_it_is_like_the_world_without_it(made):
    remote, virtual = made(LOCKSTEP, noise=False), made(noise=False)
    for swarm in (remote, virtual):
        drive(swarm, 4.0)
    assert remote.world.truth()[:, :3] == pytest.approx(virtual.world.truth()[:, :3], abs=0.02)
    for one, other in zip(remote.robots, virtual.robots, strict=True):
        assert one.sense().pose_odom == pytest.approx(other.sense().pose_odom, abs=0.02)


def test_without_hil_the_body_in_the_world_stands(made):
    swarm = made({**LOCKSTEP, "hil": False}, noise=False)
    drive(swarm, 1.0, (0.2, 0.0, 0.0))
    assert swarm.world.truth()[0, :2] == pytest.approx((0.0, 0.0), abs=1e-6)
    assert swarm.robots[0].sense().pose_odom[0] > 0.15


def test_faults_of_an_experiment_act_on_remote_parts(made):
    swarm = made({**LOCKSTEP, "parts": ["motors", "ranges", "radios"]}, noise=False, count=2)
    world, robot = swarm.world, swarm.robots[0]
    device = robot.onboard.device
    drive(swarm, 0.5)
    raw = {"distances": np.full(16, 0.7)}
    ring = device.ranges["tof"]
    read = ring._part.read
    ring._part.read = lambda: (found := read()) and found._replace(**raw)
    world.kill_sensor("dots1", "tof", 5)
    drive(swarm, 0.5)
    assert np.flatnonzero(np.isinf(robot.sense().ranges["tof"])).tolist() == [5]
    world.set_radio_loss(1.0)
    assert device.faults.radio_loss == 1.0
    world.kill("dots1")
    at = world.truth()[0, :3].copy()
    drive(swarm, 1.0)
    assert world.truth()[0, :3] == pytest.approx(at, abs=0.02)
    assert robot.onboard.health.counts["motors.stale"] > 0
    assert np.isinf(robot.sense().ranges["tof"]).all()
    # Its wheels in the other process stand too.
    link = device.outside[0]
    assert np.abs(link.newest("motors").speeds).max() == 0.0
    assert np.abs(swarm.robots[1].onboard.device.outside[0].newest("motors").speeds).max() > 0.1


def test_wheels_that_slip_turn_farther_than_the_robot_moves(made):
    swarm = made(LOCKSTEP, noise=False)
    swarm.world.set_slip("dots1", 0.2)
    drive(swarm, 3.0, (0.2, 0.0, 0.0))
    ways = swarm.world.truth()[:, 1] - (0.0, -1.0)
    odometry = [robot.sense().pose_odom[0] for robot in swarm.robots]
    assert ways[0] == pytest.approx(0.8 * ways[1], rel=0.02)
    assert odometry[0] == pytest.approx(odometry[1], rel=0.02)


def test_robots_come_and_go_with_their_parts(made):
    swarm = made(LOCKSTEP)
    world = swarm.world
    placement = RobotPlacement("guest", DOTS, (2.0, 2.0, 0.0), device=(Named.model_validate(LOCKSTEP),))
    world.add_robot(placement)
    guest = swarm.add("guest", placement=placement)
    drive(swarm, 1.0)
    assert world.truth()[2, 0] > 2.05
    world.remove_robot("dots1")
    swarm.remove("dots1")
    drive(swarm, 0.5)
    assert guest.onboard.health.total == 0
    helper = helper_of(world)
    for name in ("guest", "dots2"):
        swarm.remove(name)
    assert not helper.runs
    assert swarm.robots == []


def write_key(file, key=KEY):
    file.write_bytes(key)
    file.chmod(0o600)


class Site:
    """Robots in real time, served by another thread."""

    def __init__(self, folder, count=1, parts=("motors", "imu", "ranges")):
        self.folder, self.count, self.parts = folder, count, parts
        for k in range(count):
            write_key(folder / f"dots{k + 1}.key")
        self.start()

    def start(self):
        self.server = Server()
        for k in range(self.count):
            name = f"dots{k + 1}"
            robot = VirtualRobot(name, DOTS, self.parts, seed=k)
            self.server.add(robot, KEY, f"unix://{self.folder}/{name}.sock")
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()

    def stop(self):
        self.server.stop()
        self.thread.join()

    def named(self, **more):
        return {
            "name": "remote",
            "parts": ["motors"],
            "address": f"unix://{self.folder}/{{name}}.sock",
            "key_file": f"{self.folder}/{{name}}.key",
            "hil": True,
            **more,
        }


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path)
    yield made
    made.stop()


def in_real_time(swarm, seconds, until=lambda: False):
    """Step a world when it is time, for some seconds or until something is true."""
    start, begun = time.monotonic() - swarm.world.time, swarm.world.time
    while swarm.world.time < begun + seconds and not until():
        for robot in swarm.robots:
            robot.act(Command(velocity_body=(0.2, 0.0, 0.0)))
        swarm.step()
        time.sleep(max(0.0, start + swarm.world.time - time.monotonic()))


def test_in_real_time_it_drives_and_is_lost_and_found_again(made, site):
    swarm = made(site.named(), count=1)
    assert swarm.real
    [link] = swarm.robots[0].onboard.device.outside
    assert link.name == f"dots1: motors at unix://{site.folder}/dots1.sock"
    in_real_time(swarm, 20.0, lambda: swarm.world.truth()[0, 1] > 0.1)
    assert swarm.world.truth()[0, 1] > 0.1
    site.stop()
    health = swarm.robots[0].onboard.health
    in_real_time(swarm, 20.0, lambda: health.counts["outside.lost"])
    assert not link.there
    assert health.latest["outside.lost"].startswith(link.name)
    assert health.latest["motors.failed"].endswith("lost: it does not answer")
    in_real_time(swarm, 0.6)
    assert swarm.world.truth()[0, 3:] == pytest.approx((0.0, 0.0, 0.0), abs=1e-6)
    site.start()
    failed = []

    def drives():
        failed.append(health.counts["motors.failed"])
        return link.there and swarm.world.truth()[0, 3] > 0.1

    in_real_time(swarm, 20.0, drives)
    assert link.there
    assert link.losses == 1
    assert swarm.world.truth()[0, 3] > 0.1


def test_closing_stops_the_robot(made, site):
    swarm = made(site.named(), count=1)
    [server] = site.server._robots.values()
    in_real_time(swarm, 20.0, lambda: swarm.world.truth()[0, 3] > 0.1)
    swarm.close()
    end = time.monotonic() + 20.0
    while server.parts["motors"].read().speeds.any():
        assert time.monotonic() < end
        time.sleep(0.01)


def made_by(parameters, device=None, name="dots1", spec=DOTS):
    placement = RobotPlacement(name, spec, (0, 0, 0), device=(Named.model_validate(parameters),))
    clock = SimpleNamespace(time=0.0) if device is None else device.clock
    return outfit(placement, device, clock)


def test_a_robot_may_have_remote_parts_only(site):
    device = made_by(site.named(hil=False, parts=["motors", "imu", "ranges/tof"]))
    assert device.imu.read().accel[2] == pytest.approx(9.81)
    assert (device.lifter, device.cameras) == (None, None)
    assert set(device.ranges) == {"tof"}
    device.close()


def test_keys_may_come_from_the_environment(site, monkeypatch):
    monkeypatch.setenv("KEY_OF_dots1", KEY.decode())
    named = site.named(hil=False, key_env="KEY_OF_{name}")
    del named["key_file"]
    made_by(named).close()
    monkeypatch.setenv("KEY_OF_dots1", "short")
    with pytest.raises(
        RealityError, match="dots1: the environment variable KEY_OF_dots1: the key has 5 bytes"
    ):
        made_by(named)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"parts": ["wings"]}, RealityError, "dots1, a dots, has no part 'wings': it has motors, imu"),
        (
            {"parts": ["motors", "compass"]},
            RealityError,
            "no part 'compass': it has imu, motors, ranges/tof",
        ),
        ({"parts": ["imu"]}, RealityError, "without virtual parts, `parts` needs motors"),
        ({"parts": []}, ConfigError, "parts: Tuple should have at least 1 item"),
        ({"hil": True}, RealityError, "dots1: hil: there are no virtual motors to follow"),
        ({"key_file": None}, ConfigError, "give an address with one of key_file and key_env, or none"),
        ({"key_file": "/nowhere/{name}.key"}, RealityError, "/nowhere/dots1.key: cannot be read"),
        (
            {"address": "unix:///nowhere/{name}.sock", "wait": 0.2},
            RealityError,
            "no answer in 0.2 s; start",
        ),
        ({"address": "dots1:7400"}, RealityError, "'dots1:7400': expected udp://HOST:PORT or unix:///PATH"),
        ({"rate": 2}, ConfigError, r"lost: 0\.5 s at 2 Hz: expected at least 3 readings .* 1\.5 s or more"),
        ({"rate": 1000}, ConfigError, "rate: Input should be less than or equal to 200"),
        ({"hold": 60}, ConfigError, "hold: Input should be less than or equal to 1"),
    ],
)
def test_what_is_wrong_is_named(site, change, error, said):
    with pytest.raises(error, match=said):
        made_by(site.named(hil=False) | change)


def test_another_key_is_no_answer(site):
    write_key(site.folder / "dots1.key", b"another key of some length")
    with pytest.raises(RealityError, match=r"no answer in 0\.3 s; .* or correct address or key"):
        made_by(site.named(hil=False, wait=0.3))


def test_only_lockstep_is_not_real():
    for lockstep in (False, True):
        maker, parameters = find_maker(
            Named.model_validate({"name": "remote", "parts": ["motors"], "lockstep": lockstep}), "s.yaml"
        )
        assert maker is Remote
        assert maker.is_real(parameters) is not lockstep


def test_parts_that_come_now_and_then_have_the_worlds_time(site):
    world = MemoryWorld.of(["dots"])
    device = made_by(site.named(parts=["motors", "imu", "ranges"]), world.device("dots1"))
    for _ in range(30):
        world.step()
        device.motors.read()
        sweep = device.ranges["tof"].read()
        if sweep is not None:
            assert sweep.stamp <= world.time
        time.sleep(0.01)
    assert device.imu.read().stamp == pytest.approx(world.time, abs=0.2)
    device.close()
