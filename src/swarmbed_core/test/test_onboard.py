"""One robot's senses and reflexes, with good input and with bad."""

import math
import types
from dataclasses import replace

import numpy as np
import pytest
from swarmbed_core.arena import Arena
from swarmbed_core.camera import cameras_of
from swarmbed_core.control import Mode
from swarmbed_core.device import HOLD, CornerReading, MotorReading, RangeReading, SensorReading, Zone
from swarmbed_core.errors import PathError
from swarmbed_core.geometry import between
from swarmbed_core.leds import pack
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.markers import CarrierMarkers, CarrierPoseSolver, MarkerMap
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.motion import Outcome
from swarmbed_core.onboard import Onboard
from swarmbed_core.robot import Command
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, Waypoint


def swarm_at(pose=(0.0, 0.0, 0.0), kind="dots", arena="dots_arena", **options) -> LocalSwarm:
    world = MemoryWorld([Placement("a", RobotSpec.load(kind), pose)], Arena.load(arena), **options)
    return LocalSwarm(world, world.arena.markers())


class Fixed:
    """A part that always gives the same reading."""

    def __init__(self, reading):
        self.reading = reading

    def read(self):
        return self.reading


def test_markers_tell_where_it_is():
    swarm = swarm_at((0.5, -1.0, 2.0), seed=4)
    robot = swarm.robots[0]
    assert robot.sense().pose_map is None
    swarm.run(1.0)
    senses = robot.sense()
    assert senses.pose_map == pytest.approx([0.5, -1.0, 2.0], abs=0.02)
    assert senses.pose_odom == pytest.approx([0.0, 0.0, 0.0], abs=0.02)
    assert np.all(np.linalg.eigvalsh(senses.pose_covariance) > 0)
    assert senses.heading == pytest.approx(2.0, abs=0.05)


def test_a_kidnapped_robot_finds_itself_within_two_seconds():
    swarm = swarm_at((-1.0, -1.0, 0.0), seed=4)
    swarm.run(1.0)
    swarm.world.teleport("a", (1.0, 0.5, -2.0))
    swarm.run(2.0)
    assert swarm.robots[0].sense().pose_map == pytest.approx([1.0, 0.5, -2.0], abs=0.03)


def test_a_path_in_map_ends_in_map_whatever_odometry_thinks():
    swarm = swarm_at((-1.0, 0.0, 0.0), seed=8)
    robot = swarm.robots[0]
    swarm.run(1.0)
    way = ((1.0, 0.0, 0.0), (1.0, 1.0, 1.5), (-1.0, 1.0, 0.0), (-1.0, 0.0, 0.0)) * 2
    robot.act(Command(path=Path(tuple(Waypoint(pose) for pose in way), frame="map", max_speed=0.8)))
    for _ in range(600):
        swarm.run(0.1)
        if robot.sense().motion.mode is Mode.IDLE:
            break
    assert swarm.world.truth()[0, :3] == pytest.approx([-1.0, 0.0, 0.0], abs=0.02)
    assert robot.sense().motion.path == 1


def test_a_late_image_is_of_where_the_robot_was():
    swarm = swarm_at(arena="empty", noise=False)
    device, robot = swarm.world.device("a"), swarm.robots[0]
    carriers = CarrierPoseSolver(CarrierMarkers.load("dots_carrier"), device.spec, cameras_of(device.spec))
    # A side half a metre ahead of the start, facing the robot.
    model = cameras_of(device.spec)["cam0"]
    c, s = -1.0, 0.0
    face = carriers.markers.side_corners(carriers.clearance)
    corners = np.column_stack(
        [0.6 + c * face[:, 0] - s * face[:, 1], s * face[:, 0] + c * face[:, 1], face[:, 2]]
    )
    swarm.run(0.5)
    pixels, visible = model.project(corners)
    assert visible.all()
    reading = CornerReading(0.5, "cam0", np.array([100]), pixels[None])
    for _ in range(5):
        robot.act(Command(velocity_body=(0.5, 0.0, 1.0)))
        swarm.run(0.02)
    robot.onboard._look(reading, swarm.world.time)
    sight = robot.sense().carrier
    assert robot.sense().pose_odom[0] > 0.005
    assert sight.pose_odom[:2] == pytest.approx([0.6, 0.0], abs=2e-3)
    assert sight.pose_odom == pytest.approx(sight.pose_body, abs=1e-6)


def test_a_path_in_base_link_starts_where_the_robot_stands():
    swarm = swarm_at((1.0, 1.0, math.pi / 2), arena="empty", noise=False)
    swarm.robots[0].act(Command(path=Path((Waypoint((0.5, 0.0, 0.0)),), frame="base_link")))
    swarm.run(3.0)
    assert swarm.world.truth()[0, :3] == pytest.approx([1.0, 1.5, math.pi / 2], abs=0.005)


def test_a_path_in_map_needs_a_robot_that_knows_where_it_is():
    swarm = swarm_at(arena="empty")
    path = Path((Waypoint((1.0, 0.0, 0.0)),), frame="map")
    with pytest.raises(PathError, match="does not know where it is"):
        swarm.robots[0].onboard.follow(path)
    swarm.robots[0].act(Command(path=path))
    assert swarm.robots[0].sense().refused == {"command.path": 1}
    swarm.robots[0].onboard.place((0.0, 0.0, 0.0))
    swarm.robots[0].act(Command(path=path))
    assert swarm.robots[0].sense().motion.mode is Mode.PATH


def test_the_collision_map_shows_the_wall_ahead():
    swarm = swarm_at((1.9, 0.0, 0.0), seed=1)
    swarm.run(1.0)
    grid = swarm.robots[0].sense().collision_map
    assert grid.likelihood((0.5, 0.0), 1.0) > 0.1
    assert grid.likelihood((-0.5, 0.0), 1.0) == pytest.approx(0.0, abs=0.01)
    before = grid.as_grid().copy()
    swarm.run(1.0)
    assert np.array_equal(grid.as_grid(), before)


def test_a_thousand_waypoints_are_a_path():
    swarm = swarm_at(arena="empty", noise=False)
    path = Path(tuple(Waypoint((0.01 * i, 0.0, 0.0)) for i in range(1, 1001)))
    swarm.robots[0].act(Command(path=path))
    swarm.run(2.0)
    assert swarm.robots[0].sense().motion.mode is Mode.PATH
    assert not swarm.robots[0].sense().refused


def test_the_power_heartbeat_must_go_on_once_it_has_begun():
    swarm = swarm_at(arena="empty", noise=False)
    robot = swarm.robots[0]
    drive = Command(velocity_body=(0.5, 0.0, 0.0), power=True)
    for _ in range(10):
        robot.act(drive)
        swarm.run(0.1)
    assert swarm.world.truth()[0, 3] == pytest.approx(0.5, abs=0.01)
    for _ in range(25):
        robot.act(Command(velocity_body=(0.5, 0.0, 0.0)))
        swarm.run(0.1)
    assert swarm.world.truth()[0, 3] == 0.0
    assert robot.sense().refused["power.expired"] == 1
    for _ in range(10):
        robot.act(drive)
        swarm.run(0.1)
    assert swarm.world.truth()[0, 3] == pytest.approx(0.5, abs=0.01)
    robot.act(Command(power=False))
    swarm.run(0.5)
    assert swarm.world.truth()[0, 3] == 0.0


def test_the_battery_is_known_and_runs_down():
    swarm = swarm_at(seed=1)
    swarm.run(1.5)
    battery = swarm.robots[0].sense().battery
    assert 4.0 < battery.voltage < 5.6
    assert battery.hours_left is None or 1.0 < battery.hours_left < 20.0


def test_lights_are_shown_in_the_contracts_byte_order():
    swarm = swarm_at()
    swarm.robots[0].act(Command(leds=[pack(255, 0, 0)] * 16))
    assert swarm.world.device("a").leds.bar.values[0] == 0x0000FF


def test_two_who_listen_do_not_take_from_each_other():
    places = [Placement(name, RobotSpec.load("epuck2"), (x, 0.0, 0.0)) for name, x in (("a", 0), ("b", 0.5))]
    swarm = LocalSwarm(MemoryWorld(places, Arena.load("empty"), noise=False))
    one, other = swarm.robots
    radio = one.spec.radios[0].name
    looker = LocalRobot(other.onboard)
    for k in range(3):
        one.act(Command(send={radio: bytes([k])}))
        swarm.run(0.2)
        assert [packet.payload for packet in other.sense().heard[radio]] == [bytes([k])]
        assert other.sense().heard[radio] == ()
    assert [packet.payload for packet in looker.sense().heard[radio]] == [b"\0", b"\1", b"\2"]
    assert looker.sense().heard[radio] == ()


def test_radios_are_heard_once():
    places = [
        Placement(name, RobotSpec.load("pera_swarm"), (x, 0.0, 0.0)) for name, x in (("a", 0), ("b", 0.3))
    ]
    swarm = LocalSwarm(MemoryWorld(places, Arena.load("empty"), noise=False))
    swarm.robots[0].act(Command(send={"simple": b"hello"}))
    swarm.run(0.1)
    heard = swarm.robots[1].sense().heard["simple"]
    assert [packet.payload for packet in heard] == [b"hello"]
    assert swarm.robots[1].sense().heard["simple"] == ()


def test_carrying_forgives_the_carriers_legs():
    swarm = swarm_at((0.0, 0.0, 0.0))
    robot = swarm.robots[0]
    robot.act(Command(carrying=True))
    assert robot.sense().collision_map.carrying
    robot.act(Command(carrying=True))
    robot.act(Command(carrying=False))
    assert not robot.sense().collision_map.carrying
    other = swarm_at(kind="epuck2").robots[0]
    other.act(Command(carrying=True))
    other.act(Command(lift=True))
    assert other.sense().refused == {"command.carrying": 1, "command.lift": 1}


def onboard_with(**parts) -> tuple[MemoryWorld, Onboard]:
    """Return an Onboard, some of whose parts are others."""
    world = MemoryWorld([Placement("a", RobotSpec.load("dots"))], Arena.load("dots_arena"), noise=False)
    return world, Onboard(replace(world.device("a"), **parts), MarkerMap.load("dots_arena"))


def steps(world: MemoryWorld, onboard: Onboard, count: int) -> None:
    for _ in range(count):
        world.step()
        onboard.step()


def is_finite(onboard: Onboard) -> bool:
    senses = onboard.senses()
    known = [senses.pose_odom, senses.twist_body]
    if senses.pose_map is not None:
        known += [senses.pose_map, senses.pose_covariance]
    return all(np.isfinite(values).all() for values in known)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_parts_that_give_nonsense_are_survived(bad):
    corners = np.full((1, 4, 2), bad)
    world, onboard = onboard_with(
        compass=Fixed(type("R", (), {"stamp": 0.1, "heading": bad})()),
        ranges={"tof": Fixed(RangeReading(0.1, np.full(16, bad)))},
        cameras=Fixed(
            [
                CornerReading(0.1, "cam0", np.array([3]), corners),
                CornerReading(bad, "x", np.array([3]), corners),
            ]
        ),
    )
    steps(world, onboard, 30)
    assert is_finite(onboard)
    assert onboard.health.total > 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
def test_wheels_that_give_nonsense_are_survived(bad):
    world, onboard = onboard_with()
    steps(world, onboard, 10)
    sound = onboard.device
    inner = sound.motors

    class Motors:
        def drive(self, speeds):
            assert np.isfinite(speeds).all()
            inner.drive(speeds)

        def enable(self, on):
            inner.enable(on)

        def read(self):
            return MotorReading(world.time, np.full(3, bad), np.full(3, bad))

    onboard.device = replace(sound, motors=Motors())
    onboard.act(Command(velocity_body=(0.3, 0.0, 0.0)))
    steps(world, onboard, 20)
    assert is_finite(onboard)
    assert onboard.health.total > 0
    onboard.device = sound
    steps(world, onboard, 20)
    assert is_finite(onboard)


def test_nothing_is_infinity_whatever_a_driver_calls_it():
    world, onboard = onboard_with(ranges={"tof": Fixed(RangeReading(0.0, np.r_[[math.nan] * 8, [1.0] * 8]))})
    assert (onboard.senses().ranges["tof"] == math.inf).all()
    steps(world, onboard, 1)
    assert onboard.senses().ranges["tof"].tolist() == [math.inf] * 8 + [1.0] * 8
    assert onboard.senses().points_body.shape == (8, 2)


def test_a_sweep_of_the_wrong_size_is_refused():
    world, onboard = onboard_with(ranges={"tof": Fixed(RangeReading(0.0, np.zeros(7)))})
    steps(world, onboard, 3)
    assert onboard.health.counts["ranges.tof"] == 3


class SetClock:
    """A clock that a test sets."""

    time = 0.0


def test_a_clock_that_steps_back_is_counted_and_survived():
    clock = SetClock()
    world, onboard = onboard_with(clock=clock)
    onboard.act(Command(path=Path((Waypoint((1.0, 0.0, 0.0)),))))
    for time in (0.01, 0.02, 0.03, 0.01, math.nan, 0.02, 0.03, 0.04):
        clock.time = time
        world.step()
        onboard.step()
    assert onboard.health.counts["onboard.clock"] == 2
    assert onboard.senses().motion.mode is Mode.IDLE
    assert is_finite(onboard)


def test_carriers_are_seen_from_the_side_and_from_below():
    world, onboard = onboard_with()
    solver = onboard._carriers
    face = solver._faces[0] + np.array([0.6, 0.0, 0.0])
    # The side faces the robot: its outward normal is -x of the robot.
    face[:, 1] *= -1
    face[:, 0] = 0.6
    from swarmbed_core.camera import cameras_of

    cameras = cameras_of(onboard.device.spec)
    pixels, visible = cameras["cam0"].project(face)
    assert visible.all()
    seen = [CornerReading(0.02, "cam0", np.array([105]), pixels[None])]
    under = solver._under_corners.copy()
    under[:, :, 2] = solver.clearance
    shots = [cameras["cam4"].project(quad) for quad in under]
    whole = [i for i, (_, inside) in enumerate(shots) if inside.all()]
    seen.append(CornerReading(0.02, "cam4", solver._under_ids[whole], np.stack([shots[i][0] for i in whole])))
    onboard.device = replace(onboard.device, cameras=Fixed(seen))
    steps(world, onboard, 2)
    senses = onboard.senses()
    assert senses.carrier.id == 105
    assert senses.carrier.pose_body[:2] == pytest.approx([0.6, 0.0], abs=0.01)
    assert senses.underside.pose_body == pytest.approx([0.0, 0.0, 0.0], abs=0.002)
    onboard.device = replace(onboard.device, cameras=Fixed([]))
    steps(world, onboard, 80)
    assert onboard.senses().carrier is None
    assert onboard.senses().underside is None


def test_an_image_that_comes_far_too_late_does_not_turn_the_attention_away():
    world, onboard = onboard_with()
    corners = np.array([[[300.0, 200.0], [340.0, 200.0], [340.0, 240.0], [300.0, 240.0]]])
    onboard._attention.attend(101, 0.95)
    steps(world, onboard, 100)
    # The newest image shows nothing of that carrier; the other one is of long ago.
    for stamp, camera in ((0.99, "cam0"), (0.3, "cam1")):
        onboard._look(CornerReading(stamp, camera, np.array([105]), corners), world.time)
    onboard.senses()
    assert onboard._attention.focus == 101
    assert "attention.clock" not in onboard.health.counts


def test_the_covariance_is_honest_in_the_whole_chain():
    """Mean NEES of the pose over robots and time, with slip, drift, late and noisy cameras, on a path."""
    errors = []
    for seed in range(12):
        swarm = swarm_at((-1.0, -0.5, 0.0), seed=100 + seed)
        robot = swarm.robots[0]
        swarm.run(1.0)
        way = ((1.0, -0.5, 1.0), (1.0, 1.0, 3.0), (-1.0, 1.0, -1.0), (-1.0, -0.5, 0.0))
        robot.act(Command(path=Path(tuple(Waypoint(pose) for pose in way), frame="map", max_speed=1.0)))
        for _ in range(40):
            swarm.run(0.25)
            senses = robot.sense()
            error = senses.pose_map - swarm.world.truth()[0, :3]
            error[2] = math.remainder(error[2], math.tau)
            errors.append(error @ np.linalg.solve(senses.pose_covariance, error))
    # 480 moments that are not independent: about 12 x 10 s of them are.
    assert 0.75 < np.mean(errors) / 3 < 1.3


class Failing:
    """A part every call of which raises, or gives nonsense if there is some."""

    def __init__(self, nonsense=None):
        self._nonsense = nonsense

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*_arguments):
            if self._nonsense is None:
                message = "the cable is loose"
                raise OSError(message)
            return self._nonsense

        return call


@pytest.mark.parametrize("part", ["motors", "imu", "compass", "zone", "cameras", "power", "lifter", "leds"])
@pytest.mark.parametrize("nonsense", [None, 7, "text", [None]])
def test_a_part_that_fails_is_counted_and_survived(part, nonsense):
    world, onboard = onboard_with(**{part: Failing(nonsense)})
    onboard.act(Command(leds=[0] * 16, lift=True, motors=True))
    steps(world, onboard, 150)
    assert is_finite(onboard)
    if part != "zone" or nonsense is None:
        assert onboard.health.counts[f"{part}.failed"] > 0 or part in {"cameras", "leds"}


@pytest.mark.parametrize("distances", [[1.0] * 16, 3.0, None, "far", np.zeros(16, dtype=object)])
def test_sweeps_of_any_type_are_taken_or_refused(distances):
    world, onboard = onboard_with(ranges={"tof": Fixed(RangeReading(0.0, distances)), "x": Failing()})
    steps(world, onboard, 5)
    assert onboard.senses().ranges["tof"].shape == (16,)
    assert onboard.health.counts["ranges.x.failed"] == 5


def test_without_its_wheels_readings_a_robot_comes_to_rest():
    swarm = swarm_at(arena="empty", noise=False)
    onboard = swarm.robots[0].onboard
    for _ in range(10):
        onboard.act(Command(velocity_body=(0.5, 0.0, 0.0)))
        swarm.run(0.1)
    inner = onboard.device.motors

    class Blind:
        enable, drive = inner.enable, inner.drive

        def read(self):
            message = "no answer"
            raise TimeoutError(message)

    onboard.device = replace(onboard.device, motors=Blind())
    onboard.act(Command(velocity_body=(0.5, 0.0, 0.0)))
    swarm.run(0.5)
    assert swarm.world.truth()[0, 3] == 0.0
    assert onboard.health.counts["motors.failed"] == 50


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("velocity_body", (1.0, 2.0)),
        ("velocity_body", (1.0, 2.0, 3.0, 4.0)),
        ("velocity_body", "abc"),
        ("velocity_body", 5),
        ("velocity_body", (None, 0, 0)),
        ("velocity_body", (10**400, 0, 0)),
        ("path", "home"),
        ("path", [(1, 2, 3)]),
        ("motors", "off"),
        ("lift", "no"),
        ("lift", np.array([True, False])),
        ("cancel", None),
        ("carrying", 1),
        ("power", 1.0),
        ("send", {"ble": 5}),
        ("send", [1]),
        ("send", {"ble": "text"}),
        ("leds", 3),
        ("leds", ["red"] * 16),
    ],
)
def test_commands_of_the_wrong_type_are_refused(field, value):
    world, onboard = onboard_with()
    onboard.act(replace(Command(), **{field: value}))
    steps(world, onboard, 5)
    assert onboard.health.total == 1
    assert world.truth()[0] == pytest.approx(np.zeros(6))


def test_what_is_no_command_is_refused():
    _, onboard = onboard_with()
    for wrong in (None, "stop", 3):
        onboard.act(wrong)
    assert onboard.health.counts == {"command.type": 3}


def test_a_cancelled_path_in_map_stays_cancelled_whatever_localisation_learns():
    swarm = swarm_at((-1.0, 0.0, 0.0), arena="empty", noise=False)
    robot = swarm.robots[0]
    robot.onboard.place((-1.0, 0.0, 0.0))
    robot.act(Command(path=Path((Waypoint((4.0, 0.0, 0.0)), Waypoint((4.0, 1.5, 0.0))), frame="map")))
    swarm.run(1.5)
    robot.act(Command(cancel=True))
    swarm.run(0.05)
    seen = robot.onboard.filter.pose
    robot.onboard.place((seen[0] + 0.05, seen[1] + 0.03, seen[2]))
    swarm.run(3.0)
    assert robot.sense().motion.mode is Mode.IDLE
    assert robot.sense().motion.outcome is Outcome.CANCELLED
    assert swarm.world.truth()[0, 3:] == pytest.approx(np.zeros(3), abs=1e-6)
    assert swarm.world.truth()[0, 0] < 2.0


def test_with_the_drives_off_nothing_is_kept_for_later():
    swarm = swarm_at(arena="empty", noise=False)
    robot = swarm.robots[0]
    robot.act(Command(motors=False))
    robot.act(Command(path=Path((Waypoint((1.0, 0.0, 0.0)),))))
    robot.act(Command(velocity_body=(0.5, 0.0, 0.0)))
    swarm.run(0.2)
    robot.act(Command(motors=True))
    swarm.run(1.0)
    assert swarm.world.truth()[0] == pytest.approx(np.zeros(6))
    assert robot.sense().refused == {"command.path": 1, "command.drives_off": 1}


def test_readings_from_the_future_hide_nothing():
    swarm = swarm_at((1.9, 0.0, 0.0), seed=1)
    onboard = swarm.robots[0].onboard
    sound = onboard.device
    onboard.device = replace(sound, ranges={"tof": Fixed(RangeReading(1000.0, np.full(16, 1.0)))})
    swarm.run(0.1)
    assert onboard.health.counts["ranges.tof.future"] == 10
    onboard.device = sound
    swarm.run(1.0)
    assert onboard.senses().collision_map.likelihood((0.5, 0.0), 1.0) > 0.1


@pytest.mark.parametrize("part", [Fixed(None), Failing()], ids=["silent", "raises"])
def test_sensors_that_fall_silent_are_not_believed_for_ever(part):
    swarm = swarm_at((1.9, 0.0, 0.0), seed=1)
    onboard = swarm.robots[0].onboard
    swarm.run(1.0)
    assert np.isfinite(onboard.senses().ranges["tof"]).any()
    onboard.device = replace(onboard.device, ranges={"tof": part}, compass=part)
    swarm.run(6.0)
    senses = onboard.senses()
    assert (senses.ranges["tof"] == math.inf).all()
    assert senses.heading is None
    assert senses.collision_map.likelihood((0.5, 0.0), 1.0) < 0.01
    assert onboard.health.counts["ranges.tof.silent"] > 0
    assert onboard.health.counts["compass.silent"] == 1


class Hanging:
    """A part of a robot whose driver hangs from some time on: it repeats its last reading."""

    def __init__(self, part, world, since):
        self.part, self.world, self.since = part, world, since
        self.last = None

    def __getattr__(self, name):
        return getattr(self.part, name)

    def read(self):
        if self.last is None or self.world.time <= self.since:
            self.last = self.part.read() or self.last
        return self.last


@pytest.mark.parametrize("ahead", [0.0, 1000.0], ids=["stuck", "of another clock"])
def test_a_robot_whose_wheels_readings_are_stale_comes_to_rest(ahead):
    swarm = swarm_at(arena="empty", noise=False)
    robot, world = swarm.robots[0], swarm.world
    onboard, inner = robot.onboard, world.device("a").motors
    hanging = Hanging(inner, world, 1.0)
    if ahead:
        hanging.read = lambda: inner.read()._replace(stamp=world.time + ahead * (world.time > 1.0))
    onboard.device = replace(onboard.device, motors=hanging)
    for _ in range(10):
        robot.act(Command(velocity_body=(0.3, 0.0, 0.0)))
        swarm.run(0.1)
    assert world.truth()[0, 3] == pytest.approx(0.3, abs=0.01)
    for _ in range(5):
        robot.act(Command(velocity_body=(0.3, 0.0, 0.0)))
        swarm.run(0.1)
    assert world.truth()[0, 3] == 0.0
    reason = "motors.future" if ahead else "motors.stale"
    assert robot.sense().refused[reason] >= 29
    assert "driver" in onboard.health.latest[reason] or ahead
    onboard.device = replace(onboard.device, motors=inner)
    for _ in range(10):
        robot.act(Command(velocity_body=(0.3, 0.0, 0.0)))
        swarm.run(0.1)
    assert world.truth()[0, 3] == pytest.approx(0.3, abs=0.01)
    # What it rolled meanwhile is known.
    assert robot.sense().pose_odom[0] == pytest.approx(world.truth()[0, 0], abs=0.02)


def test_a_stale_gyro_is_replaced_by_the_wheels():
    swarm = swarm_at(arena="empty", noise=False)
    robot, world = swarm.robots[0], swarm.world
    onboard = robot.onboard
    onboard.device = replace(onboard.device, imu=Hanging(onboard.device.imu, world, 0.2))
    for _ in range(20):
        robot.act(Command(velocity_body=(0.0, 0.0, 0.5)))
        swarm.run(0.1)
    senses = robot.sense()
    assert senses.refused["imu.stale"] == pytest.approx(160, abs=2)
    assert senses.twist_body[2] == pytest.approx(0.5, abs=0.02)


def test_sweeps_and_headings_that_are_repeated_are_not_believed_for_ever():
    swarm = swarm_at((1.9, 0.0, 0.0), seed=1)
    robot, world = swarm.robots[0], swarm.world
    device = robot.onboard.device
    robot.onboard.device = replace(
        device,
        compass=Hanging(device.compass, world, 1.0),
        ranges={"tof": Hanging(device.ranges["tof"], world, 1.0)},
    )
    swarm.run(1.0)
    assert np.isfinite(robot.sense().ranges["tof"]).any()
    swarm.run(1.0)
    senses = robot.sense()
    assert not np.isfinite(senses.ranges["tof"]).any()
    assert senses.heading is None
    assert {"ranges.tof.stale", "ranges.tof.silent", "compass.stale", "compass.silent"} <= set(senses.refused)


def test_a_late_sweep_is_of_where_the_robot_was():
    swarm = swarm_at((1.0, 0.0, 0.0), noise=False)
    robot, world = swarm.robots[0], swarm.world
    onboard = robot.onboard
    angles = np.array(onboard.device.spec.ranges[0].angles)
    ahead = np.full(len(angles), math.inf)
    # Something half a metre ahead of where the robot is at 2 s.
    ahead[np.argmin(abs(angles))] = 0.5 - onboard.device.spec.ranges[0].mount_radius
    sweeps = [RangeReading(2.0, ahead)]
    late = type("Late", (), {"read": lambda _: sweeps.pop() if sweeps and world.time > 2.145 else None})()
    onboard.device = replace(onboard.device, ranges={"tof": late})
    for _ in range(20):
        robot.act(Command(velocity_body=(1.0, 0.0, 0.0)))
        swarm.run(0.1)
    at = robot.sense().pose_odom[0]
    for _ in range(16):
        robot.act(Command(velocity_body=(1.0, 0.0, 0.0)))
        swarm.run(0.01)
    assert not sweeps
    senses = robot.sense()
    assert senses.pose_odom[0] - at == pytest.approx(0.16, abs=0.01)
    cells = senses.collision_map.as_grid()
    _row, column = np.unravel_index(np.argmax(cells), cells.shape)
    there = (column + 0.5 - len(cells) / 2) * senses.collision_map.params.cell
    assert there == pytest.approx(at + 0.5 - senses.pose_odom[0], abs=0.04)


def test_a_small_step_back_of_the_clock_is_a_ramp_and_not_a_block():
    swarm = swarm_at(arena="empty", noise=False)
    onboard = swarm.robots[0].onboard
    for _ in range(15):
        onboard.act(Command(velocity_body=(2.0, 0.0, 0.0)))
        swarm.run(0.1)
    before = swarm.world.truth()[0, 3]
    assert before == pytest.approx(2.0)
    onboard._latest += 0.03
    speeds = [before]
    for _ in range(150):
        swarm.run(0.01)
        speeds.append(swarm.world.truth()[0, 3])
    assert speeds[-1] == 0.0
    assert np.diff(speeds).min() >= -1.01 * onboard.device.spec.limits.acceleration * 0.01


def test_a_dead_battery_stops_wheels_and_lifter():
    dots = RobotSpec.load("dots")
    empty = dots.model_copy(update={"battery": dots.battery.model_copy(update={"capacity_wh": 0.005})})
    swarm = LocalSwarm(MemoryWorld([Placement("a", empty)], Arena.load("empty"), noise=False))
    robot = swarm.robots[0]
    for _ in range(50):
        robot.act(Command(velocity_body=(0.5, 0.0, 0.0)))
        swarm.run(0.1)
    assert swarm.world.truth()[0, 3] == 0.0
    robot.act(Command(lift=True))
    swarm.run(1.5)
    assert robot.sense().lifter_height == pytest.approx(dots.lifter.lowered)


def test_a_radio_that_does_not_take_more_is_told_to_the_program():
    swarm = swarm_at(kind="epuck2", arena="empty")
    for _ in range(200):
        swarm.robots[0].act(Command(send={"wifi": b"hello"}))
    assert swarm.robots[0].sense().refused == {"command.send": 199}


def test_a_path_that_was_not_driven_has_failed():
    world, onboard = onboard_with()
    inner = onboard.device.motors

    class Stuck:
        enable, read = inner.enable, inner.read

        def drive(self, speeds):
            pass

    onboard.device = replace(onboard.device, motors=Stuck())
    onboard.act(Command(path=Path((Waypoint((0.5, 0.0, 0.0)),))))
    steps(world, onboard, 400)
    assert onboard.senses().motion.outcome is Outcome.FAILED
    assert onboard.health.counts == {"motion.not_arrived": 1}


def test_without_their_parts_zone_and_heading_come_from_the_pose():
    world = MemoryWorld.of(["dots"], arena="dots_arena", noise=False)
    device = replace(world.device("dots1"), zone=None, compass=None)
    onboard = Onboard(device, zones=world.arena.zones)
    steps(world, onboard, 1)
    assert (onboard.zone, onboard.heading) == (Zone.NEITHER, None)
    onboard.place((-1.0, 0.0, 2.0))
    senses = onboard.senses()
    assert senses.zone is Zone.SEARCH
    assert senses.heading == pytest.approx(2.0)
    # A part that is there is what counts, and without the arena's zones nobody knows.
    onboard.device = replace(device, zone=type("Sense", (), {"read": lambda _: Zone.DROP})())
    assert onboard.zone is Zone.DROP
    unaware = Onboard(device)
    unaware.place((-1.0, 0.0, 2.0))
    assert unaware.zone is Zone.NEITHER


def test_a_robot_cannot_be_placed_nowhere():
    _, onboard = onboard_with()
    for pose in ((math.nan, 0.0, 0.0), (1e308, 0.0, 0.0)):
        with pytest.raises(PathError, match="placed at"):
            onboard.place(pose)


def test_halt_is_a_ramp_from_whatever_was_asked():
    for command in (
        Command(velocity_body=(1.0, 0.0, 0.0)),
        Command(path=Path((Waypoint((5.0, 0.0, 0.0)),))),
    ):
        swarm = swarm_at(arena="empty", noise=False)
        onboard = swarm.robots[0].onboard
        onboard.act(command)
        swarm.run(0.15 if command.path is None else 0.5)
        fast = swarm.world.truth()[0, 3]
        assert fast > 0.2
        onboard.halt()
        speeds = [fast]
        for _ in range(150):
            swarm.run(0.01)
            speeds.append(swarm.world.truth()[0, 3])
        assert speeds[-1] == pytest.approx(0.0, abs=1e-9)
        assert np.diff(speeds).min() >= -1.05 * onboard.device.spec.limits.acceleration * 0.01
        assert onboard.motion.mode is Mode.IDLE
        assert onboard.health.total == 0
        # It is no lock: whoever asks next is obeyed.
        onboard.act(Command(velocity_body=(0.3, 0.0, 0.0)))
        swarm.run(0.15)
        assert swarm.world.truth()[0, 3] > 0.1


def test_a_halted_path_in_map_is_not_taken_up_when_map_moves():
    swarm = swarm_at((-1.0, 0.0, 0.0), seed=8)
    onboard = swarm.robots[0].onboard
    swarm.run(1.0)
    onboard.act(Command(path=Path((Waypoint((1.0, 0.0, 0.0)),), frame="map")))
    swarm.run(0.5)
    onboard.halt()
    seen = onboard.filter.pose
    onboard.place((seen[0] + 0.1, seen[1], seen[2]))
    swarm.run(2.0)
    assert onboard.motion.outcome is Outcome.CANCELLED
    assert swarm.world.truth()[0, 3:] == pytest.approx(np.zeros(3), abs=1e-6)


def test_the_frame_of_a_path_is_where_it_was_when_it_began():
    swarm = swarm_at(arena="empty", noise=False)
    onboard = swarm.robots[0].onboard
    assert onboard.path_frame == (0.0, 0.0, 0.0)
    onboard.act(Command(path=Path((Waypoint((0.5, 0.2, 0.4)),))))
    swarm.run(3.0)
    assert onboard.path_frame == (0.0, 0.0, 0.0)
    here = tuple(onboard.filter.odometry.pose)
    onboard.act(Command(path=Path((Waypoint((0.5, 0.0, 0.0)),), frame="base_link")))
    swarm.run(1.0)
    assert onboard.path_frame == here
    # A path that is refused changes nothing; the next in odom does.
    onboard.act(Command(path=Path((Waypoint((0.5, 0.0, 0.0)),), frame="map")))
    assert onboard.path_frame == here
    onboard.act(Command(path=Path((Waypoint((0.0, 0.0, 0.0)),))))
    assert onboard.path_frame == (0.0, 0.0, 0.0)


def test_the_frame_of_a_path_in_map_is_map_as_the_robot_has_it():
    swarm = swarm_at((-1.0, 0.5, 0.3), seed=8)
    onboard = swarm.robots[0].onboard
    swarm.run(1.0)
    onboard.act(Command(path=Path((Waypoint((1.0, 0.0, 0.0)),), frame="map", max_speed=0.5)))
    before = onboard.path_frame
    origin = between(swarm.world.truth()[0, :3], np.zeros(3))
    assert before == pytest.approx(tuple(origin), abs=0.03)
    swarm.run(0.5)
    seen = onboard.filter.pose
    onboard.place((seen[0] + 0.2, seen[1], seen[2]))
    swarm.run(0.5)
    moved = onboard.path_frame
    assert np.hypot(moved[0] - before[0], moved[1] - before[1]) > 0.05
    # It stays that of the path when the path is over.
    onboard.act(Command(cancel=True))
    swarm.run(1.0)
    assert onboard.motion.mode is Mode.IDLE
    assert onboard.path_frame == moved
    # A later path in odom has a frame of its own.
    onboard.act(Command(path=Path((Waypoint((0.0, 0.0, 0.0)),))))
    assert onboard.path_frame == (0.0, 0.0, 0.0)


def test_the_newest_sweep_of_a_ring_is_shown_with_its_time():
    swarm = swarm_at((1.9, 0.0, 0.0), noise=False)
    onboard = swarm.robots[0].onboard
    assert np.isnan(onboard.sweep("tof")[1]).all()
    swarm.run(1.0)
    stamp, points = onboard.sweep("tof")
    assert stamp == pytest.approx(swarm.world.time, abs=0.03)
    senses = onboard.senses()
    there = np.isfinite(points[:, 0])
    assert points[there].tolist() == senses.points_body.tolist()
    assert there.tolist() == np.isfinite(senses.ranges["tof"]).tolist()
    # The wall ahead is 0.6 m from the middle of the robot.
    assert points[there, 0].max() == pytest.approx(0.6, abs=0.01)
    with pytest.raises(KeyError):
        onboard.sweep("sonar")


def test_what_the_api_shows_takes_nothing_from_a_program():
    swarm = swarm_at((0.0, 0.0, 1.0), arena="empty", noise=False)
    onboard = swarm.robots[0].onboard
    assert onboard.heading is None
    swarm.run(0.2)
    assert onboard.heading == onboard.senses().heading == pytest.approx(1.0, abs=0.01)
    assert onboard.lifter_height == onboard.senses().lifter_height == pytest.approx(0.145)
    assert onboard.zone is onboard.senses().zone
    assert onboard.drives_on
    onboard.act(Command(motors=False))
    assert not onboard.drives_on
    assert swarm_at(kind="epuck2").robots[0].onboard.lifter_height is None


def test_who_wants_to_see_images_is_given_each_one():
    shots = [
        CornerReading(0.005, "cam0", np.array([3]), np.zeros((1, 4, 2))),
        CornerReading(0.005, "cam1", np.empty(0, dtype=np.int64), np.empty((0, 4, 2))),
        CornerReading(1e6, "cam2", np.array([4]), np.zeros((1, 4, 2))),
    ]
    world, onboard = onboard_with(cameras=Fixed(shots))
    steps(world, onboard, 1)
    seen, also = [], []
    onboard.on_image += [seen.append, also.append]
    steps(world, onboard, 2)
    # But what claims to be of a time to come.
    assert [shot.camera for shot in seen] == ["cam0", "cam1"] * 2
    assert seen[0] is shots[0]
    onboard.on_image.remove(seen.append)
    steps(world, onboard, 2)
    assert (len(seen), len(also)) == (4, 8)


def test_who_looks_at_images_and_fails_is_counted_and_survived():
    world, onboard = onboard_with(
        cameras=Fixed([CornerReading(0.005, "cam0", np.array([3]), np.zeros((1, 4, 2)))])
    )

    def fails(_):
        raise ZeroDivisionError

    seen = []
    onboard.on_image += [fails, seen.append]
    steps(world, onboard, 3)
    assert onboard.health.counts["cameras.failed"] == 3
    # Neither other lookers nor the robot itself lose an image by it.
    assert len(seen) == 3
    assert "cam0" in onboard._images
    assert is_finite(onboard)


def test_losses_of_parts_outside_are_counted_with_their_names():
    connection = types.SimpleNamespace(
        name="dots1: motors at udp://dots1:7400", real=True, there=True, losses=2, state={}
    )
    world, onboard = onboard_with(outside=(connection,))
    steps(world, onboard, 110)
    assert onboard.health.counts["outside.lost"] == 0
    connection.losses = 4
    steps(world, onboard, 110)
    assert onboard.health.counts["outside.lost"] == 2
    assert onboard.health.latest["outside.lost"].startswith("dots1: motors at udp://dots1:7400: no answer")
    steps(world, onboard, 110)
    assert onboard.health.counts["outside.lost"] == 2


@pytest.mark.parametrize(("rate", "hold"), [(100.0, HOLD), (6.0, HOLD), (2.0, 1.5)])
def test_wheels_hold_from_one_cycle_to_the_next(rate, hold):
    spec = RobotSpec.load("dots")
    slow = spec.model_copy(update={"control": spec.control.model_copy(update={"rate": rate})})
    world = MemoryWorld([Placement("a", slow)], Arena.load("empty"), noise=False)
    held = []
    inner = world.device("a").motors
    motors = types.SimpleNamespace(
        enable=inner.enable, read=inner.read, drive=lambda _speeds, hold=HOLD: held.append(hold)
    )
    onboard = Onboard(replace(world.device("a"), motors=motors))
    steps(world, onboard, 3)
    assert held == [hold] * 3


class Told:
    """A sensor that gives what a test puts in, once."""

    def __init__(self):
        self.next = None

    def read(self):
        reading, self.next = self.next, None
        return reading


def with_sensors():
    """Return an e-puck2 in memory, the clock that runs it, and its ground sensors and camera."""
    swarm = swarm_at(kind="epuck2", arena="epuck2_arena")
    device = swarm.robots[0].onboard.device
    ground, spots = Told(), Told()
    robot = LocalRobot(Onboard(replace(device, ground=ground, spots={"front": spots})))

    def step(seconds=0.01):
        for _ in range(round(seconds / 0.01)):
            swarm.world.step()
            robot.onboard.step()
        return robot.sense()

    return swarm.world, robot, ground, spots, step


def test_a_program_gets_readings_as_they_are():
    world, robot, ground, spots, step = with_sensors()
    senses = step()
    assert [senses.position, senses.ground, senses.light, senses.spots] == [None, None, None, {}]
    assert senses.wheel_travel.shape == (2,)
    assert senses.imu is robot.onboard.imu
    ground.next = SensorReading(world.time, np.array([0.0, 0.5, 1.0]))
    spots.next = SensorReading(world.time, np.empty((0, 5)))
    senses = step()
    assert senses.ground.tolist() == [0.0, 0.5, 1.0]
    assert senses.spots["front"].shape == (0, 5)
    assert step(0.2).ground.tolist() == [0.0, 0.5, 1.0]
    assert robot.onboard.sensed("ground")[0] == pytest.approx(0.02)
    assert robot.onboard.sensed("light") is None
    assert robot.onboard.sensors == {"ground": 10.0, "spots.front": 10.0}


@pytest.mark.parametrize(
    ("late", "values", "reason"),
    [
        (0.0, np.zeros(2), "ground"),
        (0.0, np.zeros((3, 1)), "ground"),
        (0.0, np.array([0.0, math.nan, 0.0]), "ground"),
        (-1.0, np.zeros(3), "ground.stale"),
        (1.0, np.zeros(3), "ground.future"),
        (0.0, None, "ground.failed"),
    ],
)
def test_bad_readings_are_refused(late, values, reason):
    world, _, ground, _, step = with_sensors()
    step(2.0)
    ground.next = SensorReading(world.time + late, values) if values is not None else 7
    senses = step()
    assert senses.ground is None
    assert senses.refused[reason] == 1


def test_a_silent_sensor_has_no_reading():
    world, _, ground, _, step = with_sensors()
    step()
    ground.next = SensorReading(world.time, np.ones(3))
    assert step(0.4).ground is not None
    senses = step(0.2)
    assert senses.ground is None
    assert senses.refused["ground.silent"] == 1
