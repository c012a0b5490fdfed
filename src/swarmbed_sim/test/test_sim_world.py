"""The world that any physics is furnished to: a `TaskWorld`, repeatable, that experiments can disturb."""

import math

import numpy as np
import pytest
from swarmbed_core.device import Faults, Zone
from swarmbed_core.errors import ConfigError
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.local import LocalSwarm
from swarmbed_core.robot import Command
from swarmbed_core.scene import RobotPlacement
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.errors import SimError
from swarmbed_sim.mujoco_world import MujocoPhysics
from swarmbed_sim.planar_world import PlanarPhysics

DOTS = RobotSpec.load("dots")
STARTS = [(1.5, -1.0, 0.3), (1.5, 0.0, 2.0), (1.5, 1.0, -2.0)]
LOADS = [(0.8, -1.0, 0.0), (-1.0, 1.0, 0.7)]


@pytest.fixture
def world(world):
    """Return a way to make a world, by default of some robots and carriers."""

    def make(robots=STARTS, carriers=LOADS, **more):
        return world(robots, carriers, **more)

    return make


def everything(device):
    """Return all that a robot's parts read now, and some that it does."""
    imu, motors = device.imu.read(), device.motors.read()
    ranges = device.ranges["tof"].read()
    return [
        imu.gyro,
        imu.accel,
        motors.travel.tobytes(),
        motors.effort,
        repr(device.compass.read()),
        device.zone.read(),
        None if ranges is None else ranges.distances.tobytes(),
        [
            (item.stamp, item.camera, item.ids.tobytes(), item.corners.tobytes())
            for item in device.cameras.read()
        ],
        repr(device.power.read()),
        device.lifter.read().height,
        {name: repr(radio.read()) for name, radio in device.radios.items()},
    ]


def record(world, seconds=3.0, order=1):
    """Return all that all robots sense in a run in which they drive, lift and talk."""
    devices = {name: world.device(name) for name in list(world.names)[::order]}
    kinematics = Kinematics.of(DOTS)
    rows = []
    for k in range(round(seconds / world.timestep)):
        world.step()
        for i, name in enumerate(world.names):
            device = devices[name]
            rows.append(everything(device))
            device.motors.drive(kinematics.wheels((0.2, 0.1 * i, math.sin(0.01 * k))))
            device.lifter.move(DOTS.lifter.raised if k > 100 else DOTS.lifter.lowered)
            if k % 10 == 0:
                device.radios["ble"].send(bytes([i, k % 256]))
    return rows, world.truth().tobytes(), world.energy_wh().tobytes(), dict(world.messages())


def test_a_seed_gives_the_same_run_bit_by_bit(world):
    one = record(world())
    assert one == record(world())
    assert one != record(world(seed=8))


def test_what_a_robot_senses_does_not_depend_on_who_was_asked_first(world):
    # Losses and signal strengths are the medium's: who is on it makes no difference either.
    assert record(world()) == record(world(), order=-1)


def test_a_robot_s_noise_is_its_own(world):
    both, alone = world(), world()
    for name in both.names:
        both.device(name)
    alone.device("dots2")
    for _ in range(100):
        both.step()
        alone.step()
        readings = [w.device("dots2").imu.read() for w in (both, alone)]
        assert readings[0] == readings[1]
        sweeps = [w.device("dots2").ranges["tof"].read() for w in (both, alone)]
        if sweeps[0] is not None:
            assert np.array_equal(sweeps[0].distances, sweeps[1].distances, equal_nan=True)


def test_without_noise_nothing_depends_on_the_seed(world):
    def quiet(seed):
        w = world(seed=seed, noise=False)
        for name in w.names:
            w.drive(name, (0.1, 0.0, 0.2))
        rows = []
        for _ in range(100):
            w.step()
            rows += [everything(w.device(name))[:-1] for name in w.names]
        return rows

    assert quiet(1) == quiet(2)


def test_nobody_who_is_not_asked_for_costs_anything(world):
    w = world()
    w.run(0.1)
    assert w._bodies[0].count == 0
    assert [w._groups, w._airs, w._powers] == [[], {}, []]
    w.v_body[1] = (0.5, 0.0, 0.0)
    w.step()
    assert w.truth()[1, 3] == 0.5
    assert w.truth()[0, 3] == 0.0
    w.device("dots1")
    w.step()
    assert w._bodies[0].count == 1
    assert w.truth()[1, 3] == 0.5


def test_a_device_is_made_once_and_for_known_names_only(world):
    w = world()
    assert w.device("dots2") is w.device("dots2")
    assert w.device("dots2").clock.time == w.time == 0.0
    with pytest.raises(ConfigError, match=r"no robot 'dots9'.*dots1, dots2, dots3"):
        w.device("dots9")


def test_onboards_stand_on_it(world):
    w = world()
    swarm = LocalSwarm(w)
    for robot in swarm.robots:
        robot.act(Command(velocity_body=(0.2, 0.0, 0.0)))
    swarm.run(0.4)
    for robot, truth, start in zip(swarm.robots, w.truth(), STARTS, strict=True):
        senses = robot.sense()
        way = math.dist(truth[:2], start[:2])
        assert way > 0.03
        assert senses.pose_odom[0] == pytest.approx(way, abs=0.005)
        assert senses.heading == pytest.approx(truth[2], abs=0.06)
        assert senses.zone is Zone.DROP
        assert not {key for key in senses.refused if key.endswith(".failed")}
    # The first one stands before a carrier.
    w.teleport("dots1", (1.4, -1.0, math.pi))
    swarm.run(0.5)
    assert swarm.robots[0].sense().carrier.id == 100


def test_truth_is_the_caller_s_to_change(world):
    w = world()
    truth = w.truth()
    assert truth.shape == (3, 6)
    truth[:] = 99.0
    assert w.truth()[:, :3] == pytest.approx(np.array(STARTS))
    carriers = w.carriers()
    assert list(carriers.names) == ["carrier1", "carrier2"]
    assert list(carriers.markers) == [100, 101]
    carriers.poses[:] = 99.0
    assert w.carriers().poses == pytest.approx(np.array(LOADS))
    assert w.carriers().carried_by.tolist() == [-1, -1]


def test_time_is_whole_steps(world):
    w = world()
    w.run(3.0)
    assert w.time == 300 * w.timestep
    assert w.timestep == 0.01


def test_contacts_are_told_once_with_their_time(world):
    w = world()
    looker = w.watch_contacts()
    w.step()
    w.physics.touched = [("dots1", "wall", 0.2)]
    w.step()
    w.step()
    late = w.watch_contacts()
    w.physics.touched = [("dots1", "carrier2", 0.1)]
    w.step()
    told = [(c.time, c.one, c.other, c.speed) for c in looker.read()]
    assert told == [
        (pytest.approx(0.02), "dots1", "wall", 0.2),
        (pytest.approx(0.04), "dots1", "carrier2", 0.1),
    ]
    assert looker.read() == []
    # Who looks beside another one takes nothing from it.
    assert [c.other for c in late.read()] == ["carrier2"]


def test_teleporting_is_not_noticed_by_wheels_and_gyro(world):
    w = world(noise=False)
    device = w.device("dots1")
    w.drive("dots1", (0.2, 0.0, 0.0))
    w.run(0.1)
    before = device.motors.read().travel
    w.teleport("dots1", (-1.0, -1.0, 1.0))
    w.step()
    moved = device.motors.read().travel - before
    assert np.abs(moved).max() == pytest.approx(0.002 * math.cos(math.pi / 6), rel=1e-6)
    assert device.imu.read().gyro[2] == pytest.approx(0.0, abs=1e-12)
    assert math.dist(w.truth()[0, :2], (-1.0, -1.0)) < 0.003
    assert device.compass.read().heading == pytest.approx(1.0)
    w.teleport("carrier2", (0.0, 0.0, 0.5))
    assert w.carriers().poses[1] == pytest.approx((0.0, 0.0, 0.5))


def test_the_dead_do_nothing_and_their_parts_do_not_raise(world):
    w = world()
    device, other = w.device("dots1"), w.device("dots2")
    w.drive("dots1", (0.2, 0.0, 0.0))
    device.leds.show([255] * 16)
    device.lifter.move(DOTS.lifter.raised)
    w.run(0.3)
    assert device.cameras.read()
    height = device.lifter.read().height
    assert DOTS.lifter.lowered < height < DOTS.lifter.raised
    for radio in other.radios.values():
        radio.read()
    w.kill("dots1")
    w.kill("dots1")
    died = w.time
    energy = w.energy_wh()[0]
    place = w.truth()[0, :3]
    travel = device.motors.read().travel
    w.run(1.0)
    device.motors.enable(True)
    w.drive("dots1", (0.5, 0.0, 0.0))
    device.lifter.move(DOTS.lifter.raised)
    device.power.enable(True)
    assert not device.radios["ble"].send(b"help")
    w.run(1.0)
    assert w.truth()[0, :3] == pytest.approx(place)
    assert not w.driven[0]
    assert device.lifter.read().height == height
    assert device.lifter.read().stamp == device.motors.read().stamp == device.imu.read().stamp == died
    assert np.array_equal(device.motors.read().travel, travel)
    assert device.compass.read() is None
    assert device.ranges["tof"].read() is None
    assert device.cameras.read() == ()
    assert device.zone.read() is Zone.NEITHER
    assert device.power.read().stamp == died
    assert all(radio.read() == () for radio in device.radios.values())
    assert device.leds.bar.values == (0,) * 16
    assert w.energy_wh()[0] == pytest.approx(energy, abs=12 * 0.1 / 3600 + 1e-9)
    for radio in other.radios.values():
        assert "dots1" not in {packet.sender for packet in radio.read() if packet.stamp > died}
    # It is still in others' way.
    w.teleport("dots2", (w.truth()[0, 0] + 0.5, w.truth()[0, 1], math.pi))
    other.ranges["tof"].read()
    w.run(0.02)
    assert other.ranges["tof"].read().distances[0] < 0.4


def test_an_onboard_survives_its_robot(world):
    w = world()
    swarm = LocalSwarm(w)
    swarm.run(0.3)
    w.kill("dots1")
    for _ in range(10):
        swarm.run(0.1)
        for robot in swarm.robots:
            robot.sense()
            robot.act(Command(velocity_body=(0.2, 0.0, 0.0), lift=True, send={"ble": b"hi"}))
    assert w.truth()[0, :3] == pytest.approx(STARTS[0])
    assert w.truth()[1, 3] > 0.1


def test_a_robot_may_be_dead_before_anybody_asks(world):
    w = world()
    w.kill("dots1")
    w.drive("dots1", (0.5, 0.0, 0.0))
    w.run(0.2)
    assert w.truth()[0, :3] == pytest.approx(STARTS[0])
    assert w.device("dots1").ranges["tof"].read() is None


def test_a_dead_sensor_returns_nothing(world):
    w = world(noise=False)
    part = w.device("dots1").ranges["tof"]
    w.teleport("dots1", (0.0, 0.0, 0.0))
    w.step()
    assert np.isfinite(part.read().distances[3])
    w.kill_sensor("dots1", "tof", 3)
    w.run(0.1)
    distances = part.read().distances
    assert distances[3] == math.inf
    assert np.isfinite(distances[[2, 4]]).all()
    other = w.device("dots2").ranges["tof"]
    w.run(0.02)
    assert np.isfinite(other.read().distances[3])


def test_radio_losses_and_counts(world):
    w = world(radio={"loss": 1.0})
    for name in w.names:
        w.device(name)
    w.run(1.05)
    # On the air are advertisements only, which carry nothing.
    assert w.messages() == {"sent": 0, "heard": 0, "lost": 0}
    w.device("dots1").radios["ble"].send(b"hi")
    w.run(1.0)
    assert w.messages() == {"sent": 10, "heard": 0, "lost": 20}
    w.set_radio_loss(0.0)
    w.run(1.0)
    assert w.messages() == {"sent": 20, "heard": 20, "lost": 20}
    assert len(w.device("dots1").radios["ble"].read()) == 20
    assert len(w.device("dots1").radios["uwb"].read()) == 20


def test_losses_set_early_hold_for_radios_that_are_made_late(world):
    w = world()
    w.set_radio_loss(1.0)
    for name in w.names:
        w.device(name).radios["ble"].send(b"hi")
    w.run(0.5)
    assert w.messages()["sent"] > 0
    assert w.messages()["heard"] == 0


def test_packet_radios_deliver_at_the_next_step(world):
    w = world([(0.0, 0.0, 0.0), (0.3, 0.0, 0.0), (2.0, 0.0, 0.0)], (), kind="pera_swarm")
    one, two, far = (w.device(name).radios["simple"] for name in w.names)
    assert one.send(b"hi")
    assert two.read() == []
    w.step()
    assert [packet.payload for packet in two.read()] == [b"hi"]
    assert far.read() == []
    w.step()
    assert two.read() == []
    assert w.messages()["sent"] == 1


def test_energy_is_counted_for_robots_without_devices_too(world):
    w = world()
    w.device("dots1")
    w.run(10.0)
    assert w.energy_wh() == pytest.approx(np.full(3, 12.0 * 10.0 / 3600))


def test_obstacles_come_and_go(world):
    w = world(noise=False)
    w.teleport("dots1", (0.0, 0.0, 0.0))
    part = w.device("dots1").ranges["tof"]
    w.add_obstacle("box", (-0.5, 0.0, 0.0), (0.2, 0.2))
    w.step()
    assert part.read().distances[8] == pytest.approx(0.4 - 0.125)
    w.remove_obstacle("box")
    w.run(0.02)
    assert part.read().distances[8] == pytest.approx(2.5 - 0.125)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda w: w.teleport("nobody", (0.0, 0.0, 0.0)), "no robot 'nobody'.*dots1.*carrier1"),
        (lambda w: w.teleport("dots1", (0.0, math.nan, 0.0)), "teleport dots1 .*must be x, y, yaw"),
        (lambda w: w.teleport("dots1", (1e9, 0.0, 0.0)), "teleport dots1 to .*within ±1000"),
        (lambda w: w.add_obstacle("b", (1e9, 0.0, 0.0), (1.0, 1.0)), "obstacle b: .*within ±1000"),
        (lambda w: w.kill("carrier1"), "no robot 'carrier1'"),
        (lambda w: w.kill_sensor("dots1", "sonar", 0), "dots1 has no ring 'sonar'; available: tof"),
        (lambda w: w.kill_sensor("dots1", "tof", 16), "dots1: ring 'tof' has no sensor 16; valid: 0 to 15"),
        (lambda w: w.set_slip("dots1", 1.0), "dots1: slip 1.0"),
        (lambda w: w.set_slip("nobody", 0.1), "no robot 'nobody'"),
        (lambda w: w.set_radio_loss(1.1), "radio loss 1.1"),
        (lambda w: w.add_obstacle("b", (0.0, 0.0, 0.0), (0.0, 1.0)), "obstacle b: .*size"),
        (lambda w: w.remove_obstacle("b"), "no box 'b'"),
    ],
)
def test_what_cannot_be_done_is_said(world, what, message):
    w = world()
    with pytest.raises(SimError, match=message):
        what(w)


BOX = {"shape": "box", "size": [0.4, 0.4], "pose": [0.0, 2.0, 0.0]}
POST = {"shape": "cylinder", "radius": 0.1, "pose": [-1.0, -2.0, 0.0]}
HALF = DOTS.carrier.length / 2 - DOTS.carrier.leg_radius


@pytest.mark.parametrize(
    ("name", "pose", "there"),
    [
        ("dots1", (1.5, 0.2, 0.0), "dots2"),
        ("dots1", (1.5, 0.26, 0.0), None),
        ("dots1", (2.3765, 0.0, 0.0), "wall"),
        ("dots1", (2.375, 0.0, 0.0), None),
        ("dots1", (2.7, 0.0, 0.0), "the outside of the walls"),
        ("dots1", (0.0, 2.0, 0.0), "obstacle1"),
        ("dots1", (-1.0, -1.8, 0.0), "obstacle2"),
        ("dots1", (0.8 + HALF, -1.0, 0.0), None),
        ("dots1", (0.8 + HALF, -1.0 + HALF, 0.0), "carrier1"),
        ("dots1", (0.8, -1.0, 0.0), None),
        ("carrier1", (1.5, 0.0, 2.0), None),
        ("carrier1", (1.5 + HALF, HALF, 0.0), "dots2"),
        ("carrier1", (-1.0, 1.2, 0.0), "carrier2"),
        ("carrier1", (2.4, -1.0, 0.0), "wall"),
        ("carrier1", (0.3, 2.0, 0.0), "obstacle1"),
    ],
)
def test_a_hand_puts_nothing_onto_something_else(world, name, pose, there):
    w = world(obstacles=[BOX, POST])
    if there is None:
        w.teleport(name, pose)
        return
    before = w.truth().tobytes(), w.carriers().poses.tobytes()
    with pytest.raises(SimError, match=f"teleport {name} to .*: {there} is there"):
        w.teleport(name, pose)
    assert before == (w.truth().tobytes(), w.carriers().poses.tobytes())


def test_a_hand_puts_nothing_tall_under_a_tray(world):
    groups = [
        {"kind": kind, "place": {"poses": [[x, 0.0, 0.0]]}}
        for x, kind in ((-1.0, "dots"), (1.0, "pioneer3dx"))
    ]
    w = world(groups, LOADS)
    with pytest.raises(SimError, match="carrier1 is there"):
        w.teleport("pioneer3dx1", (0.5, -1.0, 0.0))
    with pytest.raises(SimError, match="pioneer3dx1 is there"):
        w.teleport("carrier1", (1.3, 0.0, 0.0))
    w.teleport("dots1", (0.8, -1.0, 0.0))
    w.teleport("dots1", (-1.0, 0.0, 0.0))
    w.physics.heights[0] = DOTS.lifter.raised
    with pytest.raises(SimError, match="carrier1 is there"):
        w.teleport("dots1", (0.8, -1.0, 0.0))


def test_joined_carriers_are_put_where_all_of_them_fit(world):
    joined = {"place": {"poses": [[0.0, 0.0, 0.0]]}, "joined": [[0, 0], [1, 0], [2, 0]]}
    w = world([(2.0, -2.0, 0.0)], (), carriers_too=[joined])
    w.teleport("carrier2", (0.1, 0.0, 0.0))
    with pytest.raises(SimError, match="outside of the walls is there"):
        w.teleport("carrier1", (1.9, 0.0, 0.0))


def test_obstacles_are_put_onto_nobody(world):
    w = world()
    for pose, there in (((1.5, 0.1, 0.0), "dots2"), ((0.8, -1.1, 0.0), "carrier1")):
        with pytest.raises(SimError, match=f"obstacle b: .*{there} is there"):
            w.add_obstacle("b", pose, (0.1, 0.1))
    w.add_obstacle("b", (0.0, 0.0, 0.0), (0.4, 0.4))
    with pytest.raises(SimError, match="b is there"):
        w.teleport("dots1", (0.0, 0.0, 0.0))
    w.remove_obstacle("b")
    w.teleport("dots1", (0.0, 0.0, 0.0))


# Robots that come and go

engines = pytest.mark.parametrize("engine", ["kinematic", "mujoco", "planar"], indirect=True)
worlds = pytest.mark.parametrize("engine", ["mujoco", "planar"], indirect=True)
FAR = (60.0, 60.0, 0.0)


@pytest.fixture
def engine(request, kinematic):
    """Return the physics of this name."""
    return {"kinematic": kinematic, "mujoco": MujocoPhysics, "planar": PlanarPhysics}[request.param]


def guest(pose=(0.0, 0.0, 0.0), name="guest", kind="dots", *, localised=False):
    """Return a robot that is not in the scene."""
    return RobotPlacement(name, RobotSpec.load(kind), pose, localised)


def state(world):
    """Return all that is true of a world, to the bit."""
    carriers = world.carriers()
    arrays = (world.truth(), world.energy_wh(), carriers.poses, carriers.lifts, carriers.carried_by)
    return [world.time, world.names, *(array.tolist() for array in arrays)]


def heard(device):
    """Return whom a robot heard since the last call, by radio."""
    return {name: {packet.sender for packet in radio.read()} for name, radio in device.radios.items()}


@engines
def test_a_robot_that_comes_is_one_of_them(world, engine):
    w = world([(1.5, 0.0, math.pi)], [(-1.5, 0.0, 0.0)], physics=engine, noise=False)
    one = w.device("dots1")
    w.run(0.5)
    before = state(w)
    one.ranges["tof"].read()
    heard(one)
    one.cameras.read()
    w.add_robot(guest((0.5, 0.0, 0.0)))
    assert list(w.names) == ["dots1", "guest"]
    assert w.truth()[1] == pytest.approx((0.5, 0.0, 0.0, 0.0, 0.0, 0.0))
    after = state(w)
    assert [after[0], *(rows[:1] for rows in after[2:4]), *after[4:]] == [
        before[0],
        *(rows[:1] for rows in before[2:4]),
        *before[4:],
    ]
    other = w.device("guest")
    assert other.spec is w.scene.robots[1].spec
    w.run(0.3)
    # Faces at 0.125 m from the middles.
    assert one.ranges["tof"].read().distances[0] == pytest.approx(0.75, abs=1e-3)
    assert other.ranges["tof"].read().distances[0] == pytest.approx(0.75, abs=1e-3)
    assert heard(one) == {"ble": {"guest"}, "uwb": {"guest"}}
    assert heard(other) == {"ble": {"dots1"}, "uwb": {"dots1"}}
    assert w.energy_wh()[1] == pytest.approx(12.0 * 0.3 / 3600, rel=0.05)
    assert other.power.read().stamp == w.time
    assert other.lifter.read().height == pytest.approx(DOTS.lifter.lowered, abs=1e-4)
    w.drive("guest", (0.3, 0.0, 0.0))
    w.run(0.5)
    assert 0.6 < w.truth()[1, 0] < 0.66
    assert other.motors.read().travel == pytest.approx(
        Kinematics.of(DOTS).wheels((w.truth()[1, 0] - 0.5, 0.0, 0.0)), abs=1e-3
    )
    assert other.imu.read().accel[0] == pytest.approx(0.0, abs=0.1)
    w.set_slip("guest", 0.5)
    w.run(0.5)
    assert w.truth()[1, 3] == pytest.approx(0.15, rel=0.05)
    w.kill_sensor("guest", "tof", 0)
    w.run(0.02)
    assert other.ranges["tof"].read().distances[0] == math.inf
    w.teleport("guest", (-1.5, 0.0, 1.0))
    with pytest.raises(SimError, match="guest is there"):
        w.teleport("dots1", (-1.5, 0.1, 0.0))
    w.set_slip("guest", 0.0)
    w.drive("guest", (0.0, 0.0, 0.0))
    other.lifter.move(DOTS.lifter.raised)
    w.run(1.2)
    assert w.carriers().carried_by.tolist() == [1]
    w.kill("guest")
    w.drive("guest", (0.3, 0.0, 0.0))
    place = w.truth()[1]
    w.run(0.2)
    assert w.truth()[1] == pytest.approx(place, abs=1e-3)


@worlds
def test_a_robot_that_comes_touches_until_it_goes(world, engine):
    w = world([(1.5, 0.0, math.pi), (0.0, 0.0, 0.0)], (), physics=engine)
    contacts = w.watch_contacts()
    w.device("dots1")
    w.add_robot(guest((0.5, 0.0, 0.0)))
    w.remove_robot("dots2")
    w.drive("guest", (0.4, 0.0, 0.0))
    w.run(3.0)
    assert [{c.one, c.other} for c in contacts.read()] == [{"dots1", "guest"}]
    assert contacts.read() == []
    # What takes its place touches anew.
    pose = tuple(w.truth()[1, :3].tolist())
    w.remove_robot("guest")
    w.add_robot(guest((pose[0] - 0.02, *pose[1:]), "another"))
    w.drive("another", (0.2, 0.0, 0.0))
    w.run(0.3)
    assert [{c.one, c.other} for c in contacts.read()] == [{"dots1", "another"}]
    w.remove_robot("another")
    w.drive("dots1", (0.4, 0.0, 0.0))
    w.run(2.5)
    assert w.truth()[0, 0] < pose[0] - 0.2
    assert contacts.read() == []


@worlds
def test_cameras_see_what_comes_before_them(world, engine):
    def seen(name):
        w.run(0.5)
        w.device(name).cameras.read()
        w.run(1.0)
        return {number for reading in w.device(name).cameras.read() for number in reading.ids.tolist()}

    w = world([(0.0, 0.0, 0.0)], [(0.9, 0.0, 0.0)], physics=engine, noise=False)
    assert seen("dots1") == {100}
    w.add_robot(guest((0.3, 0.0, 0.0), localised=True))
    assert seen("dots1") == set()
    # Nobody looked for what is on the walls before.
    assert 100 in seen("guest")
    assert len(seen("guest")) > 1
    w.remove_robot("guest")
    assert seen("dots1") == {100}


@engines
def test_who_comes_and_goes_far_away_changes_nobody_s_run(world, engine):
    def run(*, come):
        w = world(STARTS, LOADS, physics=engine, arena="empty")
        devices = [w.device(name) for name in w.names]
        kinematics = Kinematics.of(DOTS)
        rows = []
        for k in range(500):
            if k in {120, 350} and engine is MujocoPhysics:
                # What comes and goes wakes what sleeps, which then settles by a micrometre.
                w.physics._wake()
            if k == 120 and come:
                w.add_robot(guest((-60.0, -60.0, 0.0)))
                w.drive("guest", (0.3, 0.1, 0.5))
            if k == 350 and come:
                w.remove_robot("guest")
            w.step()
            for i, device in enumerate(devices):
                rows.append(everything(device))
                device.motors.drive(kinematics.wheels((0.2, 0.1 * i, math.sin(0.01 * k))))
                device.lifter.move(DOTS.lifter.raised if k > 100 else DOTS.lifter.lowered)
                if k % 10 == 0:
                    device.radios["ble"].send(bytes([i, k % 256]))
            rows.append((w.truth()[:3].tolist(), w.energy_wh()[:3].tolist()))
            rows.append((w.carriers().poses.tolist(), w.carriers().lifts.tolist()))
        return rows

    assert run(come=True) == run(come=False)


@engines
def test_those_after_one_that_goes_keep_all_that_is_theirs(world, engine):
    def run(*, go):
        w = world([FAR, *STARTS], [STARTS[1]], physics=engine, arena="empty")
        devices = {name: w.device(name) for name in w.names}
        devices["dots3"].lifter.move(DOTS.lifter.raised)
        w.set_slip("dots4", 0.3)
        w.kill_sensor("dots2", "tof", 2)
        rows = []
        for k in range(400):
            w.step()
            if k == 200 and go:
                # The rings have just swept, and nobody has read them yet.
                w.remove_robot("dots1")
            for i, name in enumerate(("dots2", "dots3", "dots4")):
                rows.append(everything(devices[name]))
                w.drive(name, (0.1, 0.1 * i, 0.2))
            rows += [w.truth()[-3:].tolist(), w.energy_wh()[-3:].tolist(), w.carriers().lifts.tolist()]
        w.kill("dots3")
        w.run(0.1)
        return rows, w.carriers().carried_by.tolist(), devices["dots3"].ranges["tof"].read()

    (stayed, by, _), (went, by_then, dead) = run(go=False), run(go=True)
    assert went == stayed
    assert (by, by_then, dead) == ([2], [1], None)


@engines
def test_a_lifted_carrier_stays_lifted_when_others_come_and_falls_when_its_robot_goes(world, engine):
    poses = [(-1.5, -1.5, 0.0), (0.0, 0.0, 0.0)]
    w = world(poses, [(0.0, 0.0, 0.0)], physics=engine)
    w.device("dots2").lifter.move(DOTS.lifter.raised)
    w.drive("dots2", (0.2, 0.0, 0.0))
    w.run(1.5)
    before = w.carriers()
    assert before.carried_by.tolist() == [1]
    moved = w.truth()[1]
    assert moved[3] > 0.15
    off = before.poses[0, 0] - moved[0]
    w.add_robot(guest((-1.5, 1.5, 0.0)))
    assert w.truth()[1].tolist() == moved.tolist()
    assert w.carriers().lifts.tolist() == before.lifts.tolist()
    w.run(0.5)
    assert w.carriers().carried_by.tolist() == [1]
    w.remove_robot("dots1")
    assert w.carriers().carried_by.tolist() == [0]
    w.run(0.5)
    assert w.carriers().lifts[0] == pytest.approx(before.lifts[0], abs=1e-3)
    assert w.carriers().poses[0, 0] - w.truth()[0, 0] == pytest.approx(off, abs=1e-3)
    w.remove_robot("dots2")
    assert w.carriers().carried_by.tolist() == [-1]
    w.run(1.5)
    assert w.carriers().lifts[0] == pytest.approx(0.0, abs=1e-3)
    # One that comes lifts it again.
    w.add_robot(guest(tuple(w.carriers().poses[0].tolist()), "another"))
    w.device("another").lifter.move(DOTS.lifter.raised)
    w.run(1.5)
    assert w.carriers().carried_by.tolist() == [w.names.index("another")]


@engines
def test_who_went_is_nowhere_and_its_device_does_nothing(world, engine):
    w = world([(0.0, 0.0, 0.0), (1.0, 0.0, math.pi)], (), physics=engine, noise=False)
    gone, other = w.device("dots1"), w.device("dots2")
    w.drive("dots1", (0.0, 0.2, 0.4))
    gone.lifter.move(DOTS.lifter.raised)
    w.run(0.5)
    assert other.ranges["tof"].read().distances[0] < 0.9
    gone.radios["ble"].send(b"left")
    height = gone.lifter.read().height
    w.remove_robot("dots1")
    went = w.time
    assert list(w.names) == ["dots2"]
    assert w.truth().shape == (1, 6)
    assert len(w.energy_wh()) == 1
    left = gone.motors.read(), gone.imu.read(), gone.lifter.read().height
    assert left[0].stamp == left[1].stamp == went
    assert left[2] == pytest.approx(height, abs=2e-3)
    assert left[2] > DOTS.lifter.lowered + 0.005
    assert left[1].gyro[2] == pytest.approx(0.4, abs=0.01)
    heard(other)
    other_at = w.truth()[0, :3]
    kinematics = Kinematics.of(DOTS)
    for _ in range(60):
        gone.motors.drive(kinematics.wheels((0.5, 0.0, 1.0)))
        gone.motors.enable(True)
        gone.lifter.move(DOTS.lifter.raised)
        gone.power.enable(False)
        gone.power.enable(True)
        gone.leds.show([255] * 16)
        assert not gone.radios["ble"].send(b"here")
        w.step()
        reads = (gone.compass, gone.ranges["tof"], gone.cameras, *gone.radios.values())
        assert not any(part.read() for part in reads)
        assert gone.zone.read() is Zone.NEITHER
        assert gone.power.read().stamp == gone.lifter.read().stamp == went
    assert np.array_equal(gone.motors.read().travel, left[0].travel)
    assert (gone.motors.read().stamp, gone.imu.read(), gone.lifter.read().height) == (went, *left[1:])
    assert not any(gone.leds.bar.values)
    # It was all there was to see, and to hear.
    box = other.ranges["tof"].read().distances
    assert box[0] == pytest.approx(3.5 - 0.125, abs=0.01) or box[0] == math.inf
    assert heard(other) == {"ble": set(), "uwb": set()}
    assert w.truth()[0, :3] == pytest.approx(other_at, abs=1e-6)
    w.drive("dots2", (0.0, 0.0, 0.5))
    gone.motors.enable(True)
    w.run(0.5)
    assert w.truth()[0, 5] == pytest.approx(0.5, abs=0.01)
    assert gone.imu.read() == left[1]
    w.drive("dots2", (0.0, 0.0, 0.0))
    with pytest.raises(ConfigError, match="no robot 'dots1'"):
        w.device("dots1")
    # Another of its name is another robot, in the same place.
    w.add_robot(guest((0.0, 0.2, 0.0), "dots1"))
    again = w.device("dots1")
    assert again is not gone
    gone.motors.drive(kinematics.wheels((0.5, 0.0, 1.0)))
    gone.power.enable(False)
    assert again.motors.read().travel.tolist() == [0.0, 0.0, 0.0]
    w.run(0.5)
    assert w.truth()[1] == pytest.approx((0.0, 0.2, 0.0, 0.0, 0.0, 0.0), abs=1e-6)
    assert heard(other) == {"ble": {"dots1"}, "uwb": {"dots1"}}
    assert again.ranges["tof"].read() is not None
    assert heard(gone) == {"ble": set(), "uwb": set()}


@worlds
def test_all_may_go_and_come_again(world, engine):
    w = world([(0.0, 0.0, 0.0)], LOADS, physics=engine)
    contacts = w.watch_contacts()
    w.device("dots1")
    w.kill("dots1")
    w.remove_robot("dots1")
    w.run(0.5)
    assert (w.truth().shape, list(w.names), contacts.read()) == ((0, 6), [], [])
    w.add_robot(guest(name="dots1"))
    w.drive("dots1", (0.3, 0.0, 0.0))
    w.run(1.0)
    assert w.truth()[0, 0] == pytest.approx(0.29, abs=0.03)


@worlds
def test_who_comes_may_be_of_any_kind(world, engine):
    def run(kinds):
        w = world([(0.0, 2.0, 0.0)], LOADS, physics=engine, kind="epuck2", arena="empty")
        first = w.device("epuck21")
        w.run(0.1)
        for i, kind in enumerate(kinds):
            w.add_robot(guest((60.0 + i, 60.0, 0.0), f"guest{i}", kind))
            w.drive(f"guest{i}", (0.05, 0.0, 0.1))
        rows = []
        for _ in range(300):
            w.drive("epuck21", (0.1, 0.0, 0.1))
            w.step()
            rows += [first.imu.read(), first.motors.read().travel.tolist(), w.truth()[0].tolist()]
            sweep = first.ranges["tof"].read()
            rows.append(sweep and str(sweep.distances))
        for row, kind in enumerate(kinds, start=1):
            device = w.device(f"guest{row - 1}")
            assert w.truth()[row, 3] == pytest.approx(0.05, rel=0.2)
            assert all(ring.read() is not None for ring in device.ranges.values())
            assert len(device.motors.read().travel) == Kinematics.of(RobotSpec.load(kind)).count
        return rows

    # Three wheels where there were two before.
    assert run(["dots", "pioneer3dx", "pera_swarm", "convoy_car", "epuck2"]) == run([])


@engines
def test_onboards_come_and_go_with_their_robots(world, engine):
    w = world(STARTS, LOADS, physics=engine)
    swarm = LocalSwarm(w)
    swarm.run(0.3)
    w.add_robot(guest())
    swarm.add("guest").act(Command(velocity_body=(0.2, 0.0, 0.0)))
    swarm.run(0.3)
    assert swarm.robots[-1].sense().pose_odom[0] > 0.02
    old = swarm.robots[0]
    w.remove_robot("dots1")
    for _ in range(10):
        # Whoever is not told yet does no harm.
        swarm.run(0.1)
        for robot in swarm.robots:
            robot.sense()
            robot.act(Command(velocity_body=(0.1, 0.0, 0.0), lift=True, send={"ble": b"hi"}))
    swarm.remove("dots1")
    assert [robot.name for robot in swarm.robots] == list(w.names) == ["dots2", "dots3", "guest"]
    assert w.truth()[:, 3] == pytest.approx(0.1, abs=0.02)
    assert {packet.sender for packet in swarm.robots[0].sense().heard["ble"]} <= {"dots3", "guest"}
    assert old.onboard.device.radios["ble"].read() == ()


TAKEN = [
    ("dots2", "dots2"),
    ("carrier1", "carrier1"),
    ("wall", "wall"),
    ("obstacle2", "obstacle2"),
    ("b", "b"),
]


@engines
@pytest.mark.parametrize(
    ("who", "message"),
    [
        *(((name, (0.0, 0.0, 0.0)), f"the name '{name}' is taken; choose another name") for name, _ in TAKEN),
        (("guest", (0.0, math.nan, 0.0)), "the pose must be x, y, yaw, all within ±1000"),
        (("guest", (0.0, 0.0)), "the pose must be x, y, yaw"),
        (("guest", (1.5, 0.2, 0.0)), "dots2 is there; choose a free place"),
        (("guest", (0.8 + HALF, -1.0 + HALF, 0.0)), "carrier1 is there"),
        (("guest", (2.4, 0.0, 0.0)), "wall is there"),
        (("guest", (2.7, 0.0, 0.0)), "the outside of the walls is there"),
        (("guest", (0.0, 2.0, 0.0)), "obstacle1 is there"),
        (("guest", (-1.0, -1.8, 0.0)), "obstacle2 is there"),
        (("guest", (-2.0, 2.0, 0.0)), "b is there"),
    ],
)
def test_who_cannot_come_is_told_why(world, engine, who, message):
    w = world(physics=engine, obstacles=[BOX, POST])
    w.add_obstacle("b", (-2.0, 2.0, 0.0), (0.2, 0.2))
    name, pose = who
    before = state(w)
    with pytest.raises(SimError, match=f"add robot {name} at .*{message}"):
        w.add_robot(guest(pose, name))
    assert state(w) == before
    w.add_robot(guest())
    w.run(0.1)


@worlds
def test_a_robot_that_is_too_tall_does_not_come_under_a_tray(world, engine):
    w = world(physics=engine)
    with pytest.raises(SimError, match="carrier1 is there"):
        w.add_robot(guest((0.8, -1.0, 0.0), kind="pioneer3dx"))
    w.add_robot(guest((0.8, -1.0, 0.0)))


@engines
def test_only_robots_go(world, engine):
    w = world(physics=engine)
    before = state(w)
    for name in ("carrier1", "nobody", "wall"):
        with pytest.raises(SimError, match=f"no robot '{name}' in this world: there are dots1"):
            w.remove_robot(name)
    assert state(w) == before


@engines
def test_places_and_names_are_free_again(world, engine):
    w = world(physics=engine)
    for _ in range(3):
        with pytest.raises(SimError, match="dots2 is there"):
            w.add_robot(guest((1.5, 0.1, 0.0)))
        w.remove_robot("dots2")
        w.add_robot(guest((1.5, 0.1, 0.0)))
        with pytest.raises(SimError, match="guest is there"):
            w.teleport("dots1", (1.5, 0.1, 0.0))
        w.remove_robot("guest")
        w.teleport("dots1", (1.5, 0.1, 0.0))
        w.teleport("dots1", STARTS[0])
        w.add_obstacle("dots2", (0.0, 0.0, 0.0), (0.1, 0.1))
        with pytest.raises(SimError, match="the name 'dots2' is taken"):
            w.add_robot(guest(STARTS[1], "dots2"))
        w.remove_obstacle("dots2")
        w.add_robot(guest(STARTS[1], "dots2"))
    assert list(w.names) == ["dots1", "dots3", "dots2"]


def test_messages_are_counted_on(world):
    w = world([(0.0, 0.0, 0.0), (0.3, 0.0, 0.0)], (), kind="pera_swarm")
    one, two = (w.device(name).radios["simple"] for name in w.names)
    assert one.send(b"a")
    w.step()
    w.add_robot(guest((0.0, 0.4, 0.0), kind="pera_swarm"))
    three = w.device("guest").radios["simple"]
    w.run(1.0)
    assert three.send(b"b")
    assert two.send(b"c")
    # Its last words are not on the air yet.
    w.remove_robot("pera_swarm2")
    w.step()
    assert [packet.payload for packet in one.read()] == [b"b"]
    assert three.read() == []
    assert w.messages() == {"sent": 2, "heard": 2, "lost": 0}


def test_all_that_come_have_noise_of_their_own(world):
    w = world([(0.0, 0.0, 0.0), (2.0, 0.0, 0.0)], ())
    biases = set()
    for _ in range(3):
        for placement in (guest((1.0, 0.0, 0.0)), guest((1.0, 1.0, 0.0), "another")):
            w.add_robot(placement)
        for name in w.names:
            w.device(name)
        biases |= set(w._bodies[0].bias[: w._bodies[0].count].tolist())
        for name in ("guest", "another"):
            w.remove_robot(name)
    # Two that stayed, and six that were new.
    assert len(biases) == 8


def test_one_that_comes_and_that_nobody_asks_for_obeys_whoever_drives_a_crowd(world):
    w = world([(0.0, 0.0, 0.0)], ())
    w.device("dots1")
    w.add_robot(guest((1.0, 0.0, 0.0), kind="pioneer3dx"))
    w.v_body[1] = (0.5, 0.0, 0.0)
    w.run(1.0)
    assert w._bodies[0].count == 1
    assert w.truth()[1] == pytest.approx((1.5, 0.0, 0.0, 0.5, 0.0, 0.0))
    there = world([(0.0, 0.0, 0.0)], (), kind="pioneer3dx")
    there.v_body[0] = (0.5, 0.0, 0.0)
    there.run(1.0)
    assert w.energy_wh()[1] == there.energy_wh()[0] > 0.0


def test_sizes_of_those_after_one_that_goes_are_their_own(world):
    kinds = {"epuck2": (-2.0, -2.0, 0.0), "dots": (0.0, 0.0, 0.0), "pioneer3dx": (1.2, 0.0, math.pi / 2)}
    groups = [{"kind": kind, "place": {"poses": [list(pose)]}} for kind, pose in kinds.items()]
    w = world(groups, [(2.2, 0.0, 0.0)], noise=False)
    part, cameras = w.device("dots1").ranges["tof"], w.device("dots1").cameras

    def sees():
        cameras.read()
        w.run(0.5)
        return part.read().distances[0], [reading.ids.tolist() for reading in cameras.read()]

    first = sees()
    assert first[0] == pytest.approx(1.2 - 0.381 / 2 - 0.125, abs=1e-6)
    w.remove_robot("epuck21")
    assert sees() == first
    with pytest.raises(SimError, match="pioneer3dx1 is there"):
        w.teleport("dots1", (1.2, 0.35, 0.0))


def test_closing_closes_the_physics(world):
    w = world()
    w.close()
    assert w.physics.closed


def test_zones_are_the_arena_s(world):
    w = world([(-1.0, 0.0, 0.0), (0.5, 0.0, 0.0), (2.0, 0.0, 0.0)], ())
    assert [w.device(name).zone.read() for name in w.names] == [Zone.SEARCH, Zone.NEITHER, Zone.DROP]
    nowhere = world([(-1.0, 0.0, 0.0)], (), arena="empty")
    assert nowhere.device("dots1").zone.read() is Zone.NEITHER


def test_all_kinds_of_robots_have_their_parts(world):
    kinds = ("dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car")
    groups = [
        {"kind": kind, "place": {"poses": [[-1.8 + 0.9 * i, 0.0, 0.0]]}} for i, kind in enumerate(kinds)
    ]
    w = world(groups, ())
    swarm = LocalSwarm(w)
    for robot in swarm.robots:
        robot.act(Command(velocity_body=(0.05, 0.0, 0.1)))
    swarm.run(0.4)
    for robot, kind, truth in zip(swarm.robots, kinds, w.truth(), strict=True):
        spec, device = RobotSpec.load(kind), robot.onboard.device
        assert set(device.ranges) == {ring.name for ring in spec.ranges}
        assert (device.imu is None) == (spec.imu is None)
        assert (device.cameras is None) == (not spec.cameras)
        assert set(device.radios) == {radio.name for radio in spec.radios}
        assert truth[3] == pytest.approx(0.05, rel=0.2)
        assert not {key for key in robot.sense().refused if key.endswith((".failed", ".silent"))}


def test_faults_are_told_to_the_device_for_parts_that_are_not_the_worlds(world):
    w = world([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], ())
    w.set_radio_loss(0.2)
    early, late = w.device("dots1").faults, w.device("dots2")
    assert (early.dead, early.sensors, early.slip, early.radio_loss) == (False, {}, 0.0, 0.2)
    w.kill_sensor("dots1", "tof", 3)
    w.kill_sensor("dots1", "tof", 5)
    w.set_slip("dots1", 0.1)
    w.set_radio_loss(0.4)
    assert (early.sensors, early.slip, early.radio_loss) == ({"tof": {3, 5}}, 0.1, 0.4)
    w.kill("dots1")
    assert early.dead
    assert late.faults == Faults(radio_loss=0.4)
    w.kill("dots2")
    w.remove_robot("dots2")
    assert late.faults.dead


def test_a_robot_that_died_before_it_had_a_device_is_dead(world):
    w = world([(0.0, 0.0, 0.0)], ())
    w.kill("dots1")
    assert w.device("dots1").faults.dead
