"""Bodies that are led from outside, in all worlds of this package."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.errors import ConfigError
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.led import BLOCKED, FAST, JUMP, NOT_FINITE, SIMULATED, UNKNOWN, Telling, Tellings
from swarmbed_core.scenario import Scenario, TrackedBody
from swarmbed_core.scene import RobotPlacement, make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.errors import SimError

from swarmbed_sim import mujoco_world, planar_world

DOTS = RobotSpec.load("dots")
RADIUS = DOTS.body.bounding_radius
MAKERS = {"planar": planar_world.make, "mujoco": mujoco_world.make}
PERIOD = 1 / 30
"""Seconds between two tellings of a tracker."""


def group(*poses, **more):
    """Return a group of robots at these poses."""
    return {"place": {"poses": [list(pose) for pose in poses]}, **more}


def scene_of(*robots, arena="dots_arena", seed=1, **more):
    fields = {
        "version": 1,
        "title": "test",
        "arena": arena,
        "time_limit": 60.0,
        "robots": list(robots),
        "controller": {"name": "random_walk"},
        **more,
    }
    return make_scene(Scenario.model_validate(fields), seed)


def tracked(*poses, **options):
    """Return a group of tracked robots, led1, led2, ..."""
    return group(*poses, name="led", body={"patience": 0.5, **options})


class Tracker:
    """Tells where robots of a world are, 30 times a second, each on a path of its own.

    A path is a function of time that returns a pose and a velocity in the robot's frame.
    """

    def __init__(self, world, paths):
        self.world = world
        self.paths = paths
        self.next = 0.0

    def run(self, seconds, each=lambda: None):
        for _ in range(round(seconds / self.world.timestep)):
            if self.world.time >= self.next - 1e-9:
                self.tell()
                self.next += PERIOD
            self.world.step()
            each()

    def tell(self):
        now = self.world.time
        self.world.tell(Tellings.of(Telling(name, now, *path(now)) for name, path in self.paths.items()))


def line(start, v_body, until=math.inf):
    """Return a path straight on from a pose, which ends at a time."""
    x, y, yaw = start
    c, s = math.cos(yaw), math.sin(yaw)
    vx, vy = c * v_body[0] - s * v_body[1], s * v_body[0] + c * v_body[1]

    def at(time):
        t = min(time, until)
        return (x + vx * t, y + vy * t, yaw), (*v_body, 0.0) if time < until else (0.0, 0.0, 0.0)

    return at


def circle(radius, omega, phase=0.0):
    """Return a path around the origin, counter-clockwise."""

    def at(time):
        angle = phase + omega * time
        pose = radius * math.cos(angle), radius * math.sin(angle), angle + math.pi / 2
        return pose, (radius * omega, 0.0, omega)

    return at


@pytest.fixture(params=list(MAKERS))
def world_of(request):
    """Return a function that makes a world of robots; with each engine."""
    made = []

    def make(*robots, **more):
        world = MAKERS[request.param](scene_of(*robots, **more), np.random.SeedSequence(3))
        made.append(world)
        return world

    make.engine = request.param
    yield make
    for world in made:
        world.close()


def drive(world, name, v_body):
    device = world.device(name)
    device.motors.drive(Kinematics.of(device.spec).wheels(v_body), math.inf)


def overlap(world, count=None):
    """Return the deepest overlap in metres of two round robots, among the first ones."""
    places = world.truth()[:count, :2]
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) + 10 * np.eye(len(places))
    return 2 * RADIUS - apart.min()


def test_a_led_body_is_where_it_is_told_to_be(world_of):
    path = circle(0.6, 0.8)
    world = world_of(tracked(path(0.0)[0]))
    tracker = Tracker(world, {"led1": path})

    def check():
        pose, twist = path(world.time)
        truth = world.truth()[0]
        assert truth[:2] == pytest.approx(pose[:2], abs=1e-9)
        assert math.remainder(truth[2] - pose[2], math.tau) == pytest.approx(0.0, abs=1e-9)
        assert truth[3:] == pytest.approx(twist, abs=1e-9)

    tracker.run(8.0, check)
    state = world.led()
    assert state.names == ("led1",)
    assert state.taken[0] == 240
    assert not state.lost[0]
    assert not state.refused


def test_a_led_body_pushes_robots_and_is_not_slowed(world_of):
    path = line((-1.0, 0.02, 0.0), (0.5, 0.0))
    world = world_of(group((0.0, 0.0, 0.0)), tracked((-1.0, 0.02, 0.0)))
    reader = world.watch_contacts()
    drive(world, "dots1", (-0.3, 0.0, 0.0))
    worst = -1.0

    def check():
        nonlocal worst
        assert world.truth()[1, :2] == pytest.approx(path(world.time)[0][:2], abs=1e-9)
        worst = max(worst, overlap(world))

    Tracker(world, {"led1": path}).run(3.0, check)
    x, y = world.truth()[0, :2]
    # Pushed ahead, or out of the way to the side.
    assert x > 0.5 - 2 * RADIUS - 0.01 or abs(y) > 0.2
    assert worst < 0.003
    contact = next(contact for contact in reader.read() if {contact.one, contact.other} == {"dots1", "led1"})
    assert contact.speed == pytest.approx(0.8, abs=0.05)


def test_nothing_pushes_a_led_body(world_of):
    world = world_of(group((-0.6, 0.0, 0.0), (0.0, 0.6, -math.pi / 2)), tracked((0.0, 0.0, 0.0)))
    stands = {"led1": lambda _: ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))}
    for name in ("dots1", "dots2"):
        drive(world, name, (1.0, 0.0, 0.0))
    reader = world.watch_contacts()
    Tracker(world, stands).run(1.0)
    assert world.truth()[2] == pytest.approx(np.zeros(6), abs=1e-12)
    assert overlap(world) < 0.003
    assert world.truth()[0, 0] == pytest.approx(-2 * RADIUS, abs=0.003)
    speeds = [contact.speed for contact in reader.read() if "led1" in (contact.one, contact.other)]
    assert max(speeds) > 0.7


def test_led_bodies_may_overlap_and_their_contact_counts(world_of):
    paths = {
        "led1": line((-0.6, 0.0, 0.0), (0.3, 0.0)),
        "led2": line((0.6, 0.05, math.pi), (0.2, 0.0)),
    }
    world = world_of(tracked((-0.6, 0.0, 0.0), (0.6, 0.05, math.pi)))
    reader = world.watch_contacts()
    Tracker(world, paths).run(3.0)
    for row, path in enumerate(paths.values()):
        assert world.truth()[row, :2] == pytest.approx(path(world.time)[0][:2], abs=1e-9)
    contacts = reader.read()
    assert [(contact.one, contact.other) for contact in contacts] == [("led1", "led2")]
    # The told speeds, along the line between their centres.
    cosine = math.sqrt(1 - (0.05 / (2 * RADIUS)) ** 2)
    assert contacts[0].speed == pytest.approx(0.5 * cosine, abs=0.01)


def test_a_correction_of_the_place_is_no_speed_of_a_contact(world_of):
    rng = np.random.default_rng(4)

    def noisy(time):
        (x, y, yaw), twist = line((-0.8, 0.0, 0.0), (0.1, 0.0))(time)
        return (x + 0.005 * rng.normal(), y + 0.005 * rng.normal(), yaw), twist

    world = world_of(group((-0.35, 0.0, 0.0)), tracked((-0.8, 0.0, 0.0)))
    reader = world.watch_contacts()
    Tracker(world, {"led1": noisy}).run(4.0)
    speeds = [contact.speed for contact in reader.read()]
    assert speeds
    assert max(speeds) < 0.25
    assert world.led().taken[0] == 120


def test_a_robot_that_is_squeezed_survives(world_of):
    """Between a led body and a wall there is no way out: it is overlapped, and free again afterwards."""

    def there_and_back(time):
        way = 0.8 * (time if time < 1 else 2 - time) if time < 2 else 0.0
        speed = 0.8 if time < 1 else -0.8 if time < 2 else 0.0
        return (0.9 + way, 0.0, 0.0), (speed, 0.0, 0.0)

    world = world_of(group((1.6, 0.0, 0.0)), tracked((0.9, 0.0, 0.0)))
    length, width = world.scene.arena.size

    def check():
        x, y = world.truth()[0, :2]
        assert abs(x) < length / 2 - RADIUS + 0.03
        assert abs(y) < width / 2 - RADIUS + 0.03

    Tracker(world, {"led1": there_and_back}).run(4.0, check)
    assert world.truth()[1, :2] == pytest.approx((0.9, 0.0), abs=1e-6)
    assert overlap(world) < 0.003
    before = world.truth()[0, :2]
    drive(world, "dots1", (0.0, -0.3, 0.0))
    for _ in range(100):
        world.step()
    assert np.hypot(*(world.truth()[0, :2] - before)) > 0.2


def test_walls_hold_led_bodies(world_of):
    length = scene_of(group((0, 0, 0))).arena.size[0]
    stop = length / 2 - RADIUS
    world = world_of(tracked((stop - 0.3, 0.0, 0.0)))
    reader = world.watch_contacts()
    Tracker(world, {"led1": line((stop - 0.3, 0.0, 0.0), (0.4, 0.0), until=1.5)}).run(2.0)
    assert world.truth()[0, 0] == pytest.approx(stop, abs=1e-3)
    assert world.truth()[0, 3] == pytest.approx(0.0, abs=1e-6)
    assert world.led().refused[BLOCKED]["led1"] == pytest.approx(30 * (2.0 - 0.75), abs=2)
    assert not world.led().lost[0]
    contact = reader.read()[0]
    assert (contact.one, contact.other) == ("led1", "wall")
    assert contact.speed == pytest.approx(0.4, abs=0.05)


def test_a_robot_is_lost_stands_and_is_found_where_it_is(world_of):
    world = world_of(group((1.0, 1.0, 0.0)), tracked((0.0, 0.0, 0.0), patience=0.2))
    world.tell(Tellings.of([Telling("led1", 0.0, (0.0, 0.0, 0.0), (0.5, 0.0, 0.0))]))
    device = world.device("led1")
    for _ in range(100):
        world.step()
    state = world.led()
    assert (state.lost.tolist(), state.losses.tolist()) == ([True], [1])
    assert state.lost_for[0] == pytest.approx(0.8)
    assert world.truth()[1] == pytest.approx((0.1, 0, 0, 0, 0, 0), abs=1e-9)
    travel = device.motors.read().travel.copy()
    world.tell(Tellings.of([Telling("led1", 1.0, (-1.0, -0.8, 1.0), (0.0, 0.0, 0.0))]))
    world.step()
    assert not world.led().lost[0]
    assert world.truth()[1, :3] == pytest.approx((-1.0, -0.8, 1.0), abs=1e-9)
    # Wheels do not turn while a robot is carried away.
    assert device.motors.read().travel == pytest.approx(travel, abs=1e-3)
    # Where another robot stands, it pushes itself in.
    world.tell(Tellings.of([Telling("led1", 1.01, (-1.0, -0.8, 1.0), (0.0, 0.0, 0.0))]))
    for _ in range(90):
        world.step()
    world.tell(Tellings.of([Telling("led1", world.time, (0.9, 1.0, 0.0), (0.0, 0.0, 0.0))]))
    world.step()
    assert np.hypot(*(world.truth()[1, :2] - (-1.0, -0.8))) == pytest.approx(0.04, abs=1e-3)
    for k in range(100):
        world.tell(Tellings.of([Telling("led1", world.time + 1e-4 * k, (0.9, 1.0, 0.0), (0.0, 0.0, 0.0))]))
        world.step()
    assert world.truth()[1, :2] == pytest.approx((0.9, 1.0), abs=1e-3)
    assert overlap(world) < 0.003


def test_its_own_parts_sense_where_it_is_told_to_be(world_of):
    path = circle(0.6, 0.8)
    world = world_of(group((0.0, 0.0, 0.0)), tracked(path(0.0)[0]), noise=False)
    device, other = world.device("led1"), world.device("dots1")
    # What its own program commands has no effect.
    drive(world, "led1", (0.0, -1.0, 3.0))
    kinematics = Kinematics.of(DOTS)
    tracker = Tracker(world, {"led1": path})
    tracker.run(1.0)
    start = device.motors.read().travel.copy()
    tracker.run(2.0)
    reading = device.motors.read()
    assert (reading.travel - start) == pytest.approx(2.0 * kinematics.wheels((0.48, 0, 0.8)), abs=1e-6)
    assert reading.speeds == pytest.approx(kinematics.wheels((0.48, 0, 0.8)), abs=1e-9)
    assert reading.effort == 0
    imu = device.imu.read()
    assert imu.gyro[2] == pytest.approx(0.8)
    assert imu.accel[:2] == pytest.approx((0.0, 0.48 * 0.8), abs=1e-6)
    # It sees the robot in the middle on its left, which sees it too.
    distances = next(iter(device.ranges.values())).read().distances
    angles = np.array(DOTS.ranges[0].angles)
    left = int(np.argmin(np.abs(np.angle(np.exp(1j * (angles - math.pi / 2))))))
    assert distances[left] == pytest.approx(0.6 - 2 * RADIUS, abs=0.02)
    seen = next(iter(other.ranges.values())).read().distances
    assert seen.min() == pytest.approx(0.6 - 2 * RADIUS, abs=0.02)
    heard = [packet for packet in other.radios["uwb"].read() if packet.sender == "led1"]
    assert heard[-1].distance == pytest.approx(0.6, abs=0.01)


def test_a_led_robot_lifts_and_carries(world_of):
    x, y = 0.3, 0.2
    start = (x, y, 0.0)

    def away(time):
        t = min(max(time - 4.0, 0.0), 2.0)
        return (x - 0.2 * t, y, 0.3 * t), (
            (-0.2 * math.cos(0.3 * t), 0.2 * math.sin(0.3 * t), 0.3) if 0 < t < 2 else (0.0, 0.0, 0.0)
        )

    carriers = [{"place": {"poses": [list(start)]}, "payload": 0.5}]
    world = world_of(tracked(start), group((-1.2, 1.0, 0.0)), carriers=carriers)
    device = world.device("led1")
    device.lifter.move(DOTS.lifter.raised)
    tracker = Tracker(world, {"led1": away})
    tracker.run(7.0)
    truth = world.carriers()
    assert truth.carried_by[0] == 0
    assert truth.lifts[0] > 0.002
    assert world.truth()[0, :3] == pytest.approx(away(world.time)[0], abs=1e-6)
    assert truth.poses[0] == pytest.approx(away(world.time)[0], abs=0.02)
    device.lifter.move(DOTS.lifter.lowered)
    tracker.run(4.0)
    assert world.carriers().carried_by[0] == -1
    assert world.carriers().poses[0] == pytest.approx(away(world.time)[0], abs=0.02)
    # Put down, it is like any other: it can be moved.
    world.teleport("carrier1", (0.9, -0.9, 0.0))
    assert world.carriers().poses[0] == pytest.approx((0.9, -0.9, 0.0), abs=1e-3)


def test_tracked_robots_join_and_leave(world_of):
    world = world_of(group((0.0, 0.0, 0.0)), tracked((1.0, 0.0, 0.0)))
    world.add_robot(RobotPlacement("guest", DOTS, (-1.0, 0.0, 0.0), tracked=TrackedBody(patience=0.3)))
    assert world.led().names == ("led1", "guest")
    paths = {
        "led1": line((1.0, 0.0, 0.0), (0.0, 0.3)),
        "guest": line((-1.0, 0.0, 0.0), (0.0, -0.3)),
    }
    tracker = Tracker(world, paths)
    tracker.run(1.0)
    assert world.truth()[1:, :2] == pytest.approx(np.array([(1.0, 0.3), (-1.0, -0.3)]), abs=1e-9)
    world.remove_robot("led1")
    tracker.run(1.0)
    assert world.led().names == ("guest",)
    assert world.led().refused == {UNKNOWN: {"": 30}}
    assert world.truth()[1, :2] == pytest.approx((-1.0, -0.6), abs=1e-9)
    # What is pushed gives way to the one that is left, not to the one that stands in its row now.
    world.remove_robot("dots1")
    world.add_robot(RobotPlacement("dots2", DOTS, (-1.0, -0.9, 0.0)))
    tracker.run(1.0)
    assert world.truth()[0, :2] == pytest.approx((-1.0, -0.9), abs=1e-9)
    assert np.hypot(*(world.truth()[1, :2] - (-1.0, -0.9))) > 2 * RADIUS - 0.003
    world.remove_robot("guest")
    world.step()
    assert world.led().names == ()


def test_led_bodies_are_not_moved_by_hand(world_of):
    world = world_of(group((0.0, 0.0, 0.0)), tracked((1.0, 0.0, 0.0)))
    with pytest.raises(SimError, match=r"teleport led1 .* tracked"):
        world.teleport("led1", (0.5, 0.5, 0.0))
    world.tell(
        Tellings.of(
            [
                Telling("dots1", 0.0, (0.3, 0.0, 0.0)),
                Telling("led1", 0.0, (1.0, 0.0, math.nan)),
                Telling("led1", 0.0, (1.0, 0.0, 0.0), (50.0, 0.0, 0.0)),
            ]
        )
    )
    world.step()
    assert world.led().refused == {
        SIMULATED: {"dots1": 1},
        NOT_FINITE: {"led1": 1},
        FAST: {"led1": 1},
    }
    assert world.truth()[:, :2] == pytest.approx(np.array([(0.0, 0.0), (1.0, 0.0)]), abs=1e-9)


def test_the_same_tellings_give_the_same_run(world_of):
    def run():
        world = world_of(group((0.0, 0.0, 0.0), (0.5, 0.5, 0.0)), tracked((-1.0, 0.0, 0.0)))
        for name in ("dots1", "dots2"):
            drive(world, name, (-0.3, 0.1, 0.4))
        Tracker(world, {"led1": circle(0.8, 0.5, math.pi)}).run(4.0)
        return world.truth()

    assert (run() == run()).all()


numbers = st.one_of(st.floats(-2.5, 2.5), st.floats())
moves = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.sampled_from(("led1", "led2", "dots1", "x")),
        st.one_of(st.floats(0, 0.1), st.floats()),
        st.one_of(
            st.tuples(st.floats(-2.5, 2.5), st.floats(-2.5, 2.5), st.floats(-4, 4)),
            st.tuples(numbers, numbers, numbers),
        ),
        st.tuples(numbers, numbers, numbers),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("engine", MAKERS)
def test_no_telling_harms_a_world(engine):
    obstacles = [
        {"shape": "box", "size": [0.5, 0.2], "pose": [0.8, 0.7, 0.3]},
        {"shape": "cylinder", "radius": 0.15, "pose": [-0.8, -0.7, 0.0]},
    ]
    scene = scene_of(
        group((0.0, 0.0, 0.0), (0.4, 0.0, 0.0), (0.0, 0.4, 0.0)),
        tracked((-1.0, 0.0, 0.0), (1.0, -0.5, 0.0)),
        obstacles=obstacles,
        carriers=[{"place": {"poses": [[-0.7, 0.9, 0.3]]}}],
    )
    length, width = scene.arena.size

    @settings(derandomize=True, max_examples=40 if engine == "planar" else 15, deadline=None)
    @given(moves)
    def check(told):
        world = MAKERS[engine](scene, np.random.SeedSequence(1))
        for i, name in enumerate(("dots1", "dots2", "dots3")):
            drive(world, name, (0.4, 0.1 * i, 0.3))
        sent = 0
        for steps, name, late, pose, twist in told:
            world.tell(Tellings.of([Telling(name, world.time - late, pose, twist)]))
            sent += 1
            for _ in range(steps):
                world.step()
            truth = world.truth()
            assert np.isfinite(truth).all()
            assert (np.abs(truth[:, 0]) < length / 2 - RADIUS + 0.03).all()
            assert (np.abs(truth[:, 1]) < width / 2 - RADIUS + 0.03).all()
            assert np.abs(truth[:, 3:5]).max() < 20
            # Led bodies overlap what has no way out, but do not push it into others.
            assert overlap(world, 3) < (0.001 if engine == "planar" else 0.05)
        state = world.led()
        refused = sum(sum(of.values()) for reason, of in state.refused.items() if reason != BLOCKED)
        assert refused + state.taken.sum() == sent
        world.close()

    check()


# Crowds


def crowd_scene(count=20, beside=(), kind="dots", crowd=True, **more):
    groups = [{"kind": kind, "count": count, "crowd": crowd, "place": {"zone": "anywhere"}}, *beside]
    return scene_of(*groups, world="planar", **more)


def test_a_crowd_senses_tracked_robots_beside_it_and_gives_way_to_them():
    path = circle(0.9, 0.5)
    scene = crowd_scene(
        beside=[tracked(path(0.0)[0])], noise=False, carriers=[{"count": 1, "place": {"zone": "search"}}]
    )
    world = planar_world.make(scene, np.random.SeedSequence(2))
    crowd = world.crowd()
    assert crowd.count == 20
    assert len(world.names) == 21
    assert crowd.senses().ranges.shape[0] == len(crowd.senses().headings) == 20
    rng, reader = np.random.default_rng(3), world.watch_contacts()

    def check():
        if round(world.time * 100) % 10 == 0:
            crowd.v_body[:] = rng.normal(size=(20, 3)) * 0.4
            crowd.air.say(np.ones((20, 1)))
            crowd.air.heard(np.arange(20) - 1)
        assert world.truth()[20, :2] == pytest.approx(path(world.time)[0][:2], abs=1e-9)
        assert overlap(world) < 0.002

    Tracker(world, {"led1": path}).run(10.0, check)
    assert any("led1" in (contact.one, contact.other) for contact in reader.read())
    # A robot that looks at it from 0.4 m.
    x, y = world.truth()[20, :2]
    angles = np.linspace(0, math.tau, 12, endpoint=False)
    for angle in angles:
        # Its first sensor looks at it.
        yaw = math.remainder(angle + math.pi - crowd.senses().angles[0], math.tau)
        place = (x + 0.4 * math.cos(angle), y + 0.4 * math.sin(angle), yaw)
        try:
            world.teleport(world.names[0], place)
        except SimError:
            continue
        break
    else:
        pytest.fail("no free place beside it")
    crowd.v_body[:] = 0
    Tracker(world, {"led1": lambda _: ((x, y, 0.0), (0.0, 0.0, 0.0))}).run(0.1)
    assert crowd.senses().ranges[0, 0] == pytest.approx(0.4 - 2 * RADIUS, abs=0.01)
    # Its own parts work as well, and so do interventions.
    device = world.device("led1")
    world.step()
    assert len(next(iter(device.ranges.values())).read().distances) == 16
    world.kill("led1")
    world.set_slip("led1", 0.1)
    world.kill(world.names[3])
    assert crowd.alive.sum() == 19
    assert world.messages()["sent"] == 20 * 100


def test_tracked_robots_join_and_leave_beside_a_crowd():
    places = [(0.0, 0.0, 0.0), *((-1.0 + 0.2 * i, 1.0, 0.0) for i in range(9))]
    scene = scene_of(group(*places, kind="epuck2", crowd=True), world="planar")
    world = planar_world.make(scene, np.random.SeedSequence(2))
    crowd = world.crowd()
    with pytest.raises(SimError, match="only tracked ones"):
        world.add_robot(RobotPlacement("guest", DOTS, (0.0, -1.0, 0.0)))
    with pytest.raises(SimError, match="only tracked ones"):
        world.remove_robot(world.names[0])
    for _ in range(20):
        world.step()
    assert np.isinf(crowd.senses().ranges[0]).all()
    for name, x in (("guest1", 0.2), ("guest2", -0.2)):
        world.add_robot(RobotPlacement(name, DOTS, (x, 0.0, 0.0), tracked=TrackedBody()))
    for _ in range(20):
        world.step()
    senses = crowd.senses()
    assert senses.ranges.shape[0] == 10
    assert senses.ranges[0].min() < 0.1
    world.remove_robot("guest1")
    world.remove_robot("guest2")
    for _ in range(20):
        world.step()
    assert len(world.names) == 10
    assert crowd.senses().readings.proximity.shape == (10, 8)


def test_a_crowd_beside_robots_at_rest_does_what_it_does_without_them():
    """Tracked robots far away change neither what the crowd does nor its noise."""
    size = {"arena": "hall"}
    near = {"place": {"area": {"x_min": -3, "x_max": 3, "y_min": -3, "y_max": 3}}}
    crowd = {"kind": "dots", "count": 20, "crowd": True, **near}
    alone = planar_world.make(scene_of(crowd, **size, noise=False), np.random.SeedSequence(2))
    both = scene_of(crowd, **size, noise=False)
    robots = (*both.robots, RobotPlacement("led1", DOTS, (14.0, 14.0, 0.0), tracked=TrackedBody()))
    beside = planar_world.make(dataclasses.replace(both, robots=robots), np.random.SeedSequence(2))
    rng = np.random.default_rng(3)
    for i in range(300):
        if i % 10 == 0:
            asked = rng.normal(size=(20, 3)) * (0.8, 0.4, 1.0)
            for world in (alone, beside):
                world.crowd().v_body[:] = asked
        alone.step()
        beside.step()
    assert (alone.truth() == beside.truth()[:20]).all()
    assert (alone.crowd().senses().ranges == beside.crowd().senses().ranges).all()


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        (
            [tracked((0, 0, 0)), {"count": 3, "crowd": True, "place": {"zone": "anywhere"}}],
            "put their groups last",
        ),
        (
            [{"count": 3, "crowd": True, "place": {"zone": "anywhere"}}, group((0, 0, 0), name="x")],
            "or tracked",
        ),
        (
            [
                {"count": 3, "crowd": True, "place": {"zone": "anywhere"}},
                {**tracked((0, 0, 0)), "controller": {"name": "random_walk"}},
            ],
            "run no program",
        ),
        (
            [{"count": 0, "crowd": True, "place": {"zone": "anywhere"}}, tracked((0, 0, 0))],
            "the crowd has no robots",
        ),
    ],
)
def test_what_cannot_stand_beside_a_crowd_is_refused(groups, fault):
    with pytest.raises(ConfigError, match=fault):
        scene_of(*groups)


def test_a_crowd_of_one_kind_may_have_tracked_robots_of_another_beside_it():
    pioneer = {**tracked((0.0, 0.0, 0.0)), "kind": "pioneer3dx"}
    world = planar_world.make(
        crowd_scene(kind="epuck2", count=5, beside=[pioneer]), np.random.SeedSequence(2)
    )
    Tracker(world, {"led1": line((0.0, 0.0, 0.0), (0.2, 0.0))}).run(1.0)
    assert world.truth()[5, 0] == pytest.approx(0.2, abs=1e-9)
    assert JUMP not in world.led().refused


def test_a_physics_gets_told_only_about_led_bodies(world, kinematic):
    """Engines without led bodies, and worlds without them, are called as ever."""
    calls = []

    class Counting(kinematic):
        def advance(self, *args):
            calls.append(len(args))
            super().advance(*args)

    alone = world([group((0.0, 0.0, 0.0))], physics=Counting)
    alone.run(0.1)
    assert set(calls) == {3}
    calls.clear()
    both = world([group((0.0, 0.0, 0.0)), tracked((1.0, 0.0, 0.0))], physics=Counting)
    Tracker(both, {"led1": line((1.0, 0.0, 0.0), (0.3, 0.0))}).run(1.0)
    assert set(calls) == {4}
    assert both.truth()[1] == pytest.approx((1.3, 0.0, 0.0, 0.3, 0.0, 0.0))
