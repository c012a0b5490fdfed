"""The contract of led bodies in any world of this package's kind, as tests; see `swarmbed_core.led`.

A test class inherits `LedContract` and provides a fixture `make_world`, as for `TaskWorldContract`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.led import BLOCKED, FAST, NOT_FINITE, SIMULATED, UNKNOWN, Telling, Tellings
from swarmbed_core.scenario import Scenario, TrackedBody
from swarmbed_core.scene import RobotPlacement, make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_core.world_contract import drive, go, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike
    from swarmbed_core.device import Device
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import TaskWorld
    from swarmbed_core.world_contract import MakeTaskWorld

Triple = tuple[float, float, float]
Group = dict[str, Any]

DOTS: Final = RobotSpec.load("dots")
RADIUS: Final = DOTS.body.bounding_radius
PERIOD: Final = 1 / 30
"""Seconds between two tellings of a tracker."""
EXACT: Final = 1e-9
GIVES: Final = 0.003
"""Largest overlap in metres of a led body and what it pushes."""
CASES: Final = 3
"""Random cases of a property."""


class Path(Protocol):
    """Where a tracked robot is."""

    def __call__(self, time: float, /) -> tuple[Triple, Triple]:
        """Return the pose, and the velocity in the robot's frame, at a time."""
        ...


def group(*poses: Triple, **more: Any) -> Group:
    """Return a group of robots at these poses."""
    return {"place": {"poses": [list(pose) for pose in poses]}, **more}


def tracked(*poses: Triple, **options: Any) -> Group:
    """Return a group of tracked robots, led1, led2, ..."""
    return group(*poses, name="led", body={"patience": 0.5, **options})


def scene_of(*robots: Group, arena: str = "dots_arena", seed: int = 1, **more: Any) -> Scene:
    """Return a scene with groups of robots."""
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


class Tracker:
    """Tells where robots of a world are, 30 times a second, each on a path of its own."""

    def __init__(self, world: TaskWorld, paths: Mapping[str, Path]) -> None:
        """Start at the world's beginning."""
        self.world = world
        self.paths = paths
        self.next = 0.0

    def run(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        """Advance by a time; call `each` after each step."""
        for _ in range(round(seconds / self.world.timestep)):
            if self.world.time >= self.next - 1e-9:
                self.tell()
                self.next += PERIOD
            self.world.step()
            each()

    def tell(self) -> None:
        """Tell where all are now."""
        now = self.world.time
        self.world.tell(Tellings.of(Telling(name, now, *path(now)) for name, path in self.paths.items()))


def line(start: Triple, v_body: tuple[float, float], until: float = math.inf) -> Path:
    """Return a path straight on from a pose, which ends at a time."""
    x, y, yaw = start
    c, s = math.cos(yaw), math.sin(yaw)
    vx, vy = c * v_body[0] - s * v_body[1], s * v_body[0] + c * v_body[1]

    def at(time: float) -> tuple[Triple, Triple]:
        t = min(time, until)
        return (x + vx * t, y + vy * t, yaw), (*v_body, 0.0) if time < until else (0.0, 0.0, 0.0)

    return at


def circle(radius: float, omega: float, phase: float = 0.0) -> Path:
    """Return a path around the origin, counter-clockwise."""

    def at(time: float) -> tuple[Triple, Triple]:
        angle = phase + omega * time
        pose = radius * math.cos(angle), radius * math.sin(angle), angle + math.pi / 2
        return pose, (radius * omega, 0.0, omega)

    return at


def still(x: float, y: float, yaw: float = 0.0) -> Path:
    """Return the path of a robot that stands."""
    return lambda _: ((x, y, yaw), (0.0, 0.0, 0.0))


def go_on(world: TaskWorld, name: str, v_body: Triple) -> None:
    """Let a simulated robot drive at a velocity."""
    drive(world.device(name), v_body)


def overlap(world: TaskWorld, count: int | None = None) -> float:
    """Return the deepest overlap in metres of two round robots, among the first ones."""
    places = world.truth()[:count, :2]
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) + 10 * np.eye(len(places))
    return float(2 * RADIUS - apart.min())


def near(found: ArrayLike, expected: ArrayLike, margin: float = EXACT) -> bool:
    """Return whether all numbers are within a margin."""
    return np.allclose(found, expected, rtol=0.0, atol=margin)


def wheels(v_body: Triple) -> FloatArray:
    """Return the speeds of a DOTS robot's wheels at a velocity."""
    return Kinematics.of(DOTS).wheels(v_body)


def ring(device: Device) -> FloatArray:
    """Return the latest distances of a robot's ring.

    Raises:
        AssertionError: there are none.
    """
    sweep = next(iter(device.ranges.values())).read()
    if sweep is None:
        message = f"{device.name} measures nothing"
        raise AssertionError(message)
    return sweep.distances


def half(scene: Scene) -> FloatArray:
    """Return half the length and width of a scene's arena.

    Raises:
        AssertionError: it has no walls.
    """
    if scene.arena.size is None:
        message = "an arena without walls"
        raise AssertionError(message)
    return np.array(scene.arena.size) / 2


def crowded() -> Scene:
    """Return a scene with led1, led2 and three simulated robots among obstacles."""
    return scene_of(
        group((0.0, 0.0, 0.0), (0.4, 0.0, 0.0), (0.0, 0.4, 0.0)),
        tracked((-1.0, 0.0, 0.0), (1.0, -0.5, 0.0)),
        obstacles=[
            {"shape": "box", "size": [0.5, 0.2], "pose": [0.8, 0.7, 0.3]},
            {"shape": "cylinder", "radius": 0.15, "pose": [-0.8, -0.7, 0.0]},
        ],
        carriers=[{"place": {"poses": [[-0.7, 0.9, 0.3]]}}],
    )


Move = tuple[int, str, float, Triple, Triple]
"""Steps that follow a telling; its robot, how old it is, its pose, its velocity."""


def check_moves(make_world: MakeTaskWorld, moves: list[Move], deep: float, wall: float) -> None:
    """Let a tracker tell anything in `crowded`: all stays finite, and robots stay apart and inside.

    Args:
        make_world: the contract's.
        moves: what is told.
        deep: largest overlap in metres of simulated robots.
        wall: largest overlap in metres with the walls.
    """
    scene = crowded()
    world = make_world(scene)
    for i, name in enumerate(("dots1", "dots2", "dots3")):
        go_on(world, name, (0.4, 0.1 * i, 0.3))
    inside = half(scene) - RADIUS + wall
    for steps, name, late, pose, twist in moves:
        world.tell(Tellings.of([Telling(name, world.time - late, pose, twist)]))
        go(world, steps * world.timestep)
        truth = world.truth()
        assert np.isfinite(truth).all()
        assert (np.abs(truth[:, :2]) < inside).all()
        assert np.abs(truth[:, 3:5]).max() < 20
        # Led bodies overlap what has no way out, but do not push it into others.
        assert overlap(world, 3) < deep
    state = world.led()
    refused = sum(sum(of.values()) for reason, of in state.refused.items() if reason != BLOCKED)
    assert refused + state.taken.sum() == len(moves)


def random_moves(rng: np.random.Generator) -> list[Move]:
    """Return what a broken tracker may tell."""
    odd = (math.nan, math.inf, -math.inf, 1e300, -1e9, 50.0)

    def number(most: float) -> float:
        return float(rng.choice(odd)) if rng.random() < 0.05 else float(rng.uniform(-most, most))

    def triple(most: float) -> Triple:
        return number(most), number(most), number(4.0)

    return [
        (
            int(rng.integers(1, 30)),
            str(rng.choice(("led1", "led2", "led1", "led2", "dots1", "x"))),
            float(rng.choice(odd)) if rng.random() < 0.1 else float(rng.uniform(0.0, 0.1)),
            triple(2.5),
            triple(1.5),
        )
        for _ in range(12)
    ]


class LedContract:
    """Tests for any `TaskWorld` with led bodies; its heir provides the fixture `make_world`."""

    WALL: ClassVar[float] = 0.03
    """By how much walls may give way, in metres, where a led body squeezes a robot against them."""
    DEEP: ClassVar[float] = 0.05
    """Largest overlap of two simulated robots, in metres, that are squeezed."""

    def test_a_led_body_is_where_it_is_told_to_be(self, make_world: MakeTaskWorld) -> None:
        """Between two tellings it moves on with its told velocity."""
        path = circle(0.6, 0.8)
        world = make_world(scene_of(tracked(path(0.0)[0])))
        tracker = Tracker(world, {"led1": path})

        def check() -> None:
            pose, twist = path(world.time)
            truth = world.truth()[0]
            assert near(truth[:2], pose[:2])
            assert near(math.remainder(truth[2] - pose[2], math.tau), 0.0)
            assert near(truth[3:], twist)

        tracker.run(8.0, check)
        state = world.led()
        assert state.names == ("led1",)
        assert state.taken[0] == 240
        assert not state.lost[0]
        assert not state.refused

    def test_it_pushes_robots_and_is_not_slowed(self, make_world: MakeTaskWorld) -> None:
        """The contact has the speed of both."""
        path = line((-1.0, 0.02, 0.0), (0.5, 0.0))
        world = make_world(scene_of(group((0.0, 0.0, 0.0)), tracked((-1.0, 0.02, 0.0))))
        reader = world.watch_contacts()
        go_on(world, "dots1", (-0.3, 0.0, 0.0))

        def check() -> None:
            assert near(world.truth()[1, :2], path(world.time)[0][:2])
            assert overlap(world) < GIVES

        Tracker(world, {"led1": path}).run(3.0, check)
        x, y = world.truth()[0, :2]
        # Pushed ahead, or out of the way to the side.
        assert x > 0.5 - 2 * RADIUS - 0.01 or abs(y) > 0.2
        contact = next(item for item in reader.read() if {item.one, item.other} == {"dots1", "led1"})
        assert near(contact.speed, 0.8, 0.05)

    def test_nothing_pushes_it(self, make_world: MakeTaskWorld) -> None:
        """Robots that drive against it come to a stop."""
        world = make_world(
            scene_of(group((-0.6, 0.0, 0.0), (0.0, 0.6, -math.pi / 2)), tracked((0.0, 0.0, 0.0)))
        )
        for name in ("dots1", "dots2"):
            go_on(world, name, (1.0, 0.0, 0.0))
        reader = world.watch_contacts()
        Tracker(world, {"led1": still(0.0, 0.0)}).run(1.0)
        assert near(world.truth()[2], 0.0, 1e-12)
        assert overlap(world) < GIVES
        assert near(world.truth()[0, 0], -2 * RADIUS, 0.003)
        speeds = [contact.speed for contact in reader.read() if "led1" in (contact.one, contact.other)]
        assert max(speeds) > 0.7

    def test_two_may_overlap_and_their_contact_counts(self, make_world: MakeTaskWorld) -> None:
        """Neither can be moved; the contact has the told speeds, along the line between their centres."""
        paths = {
            "led1": line((-0.6, 0.0, 0.0), (0.3, 0.0)),
            "led2": line((0.6, 0.05, math.pi), (0.2, 0.0)),
        }
        world = make_world(scene_of(tracked((-0.6, 0.0, 0.0), (0.6, 0.05, math.pi))))
        reader = world.watch_contacts()
        Tracker(world, paths).run(3.0)
        for row, path in enumerate(paths.values()):
            assert near(world.truth()[row, :2], path(world.time)[0][:2])
        contacts = reader.read()
        assert [(contact.one, contact.other) for contact in contacts] == [("led1", "led2")]
        assert near(contacts[0].speed, 0.5 * math.sqrt(1 - (0.05 / (2 * RADIUS)) ** 2), 0.01)

    def test_a_correction_of_the_place_is_no_speed_of_a_contact(self, make_world: MakeTaskWorld) -> None:
        """A tracker's noise of 5 mm at 30 Hz is none of the body's speed."""
        rng = np.random.default_rng(4)
        true = line((-0.8, 0.0, 0.0), (0.1, 0.0))

        def noisy(time: float) -> tuple[Triple, Triple]:
            (x, y, yaw), twist = true(time)
            return (x + 0.005 * rng.normal(), y + 0.005 * rng.normal(), yaw), twist

        world = make_world(scene_of(group((-0.35, 0.0, 0.0)), tracked((-0.8, 0.0, 0.0))))
        reader = world.watch_contacts()
        Tracker(world, {"led1": noisy}).run(4.0)
        speeds = [contact.speed for contact in reader.read()]
        assert speeds
        assert max(speeds) < 0.25
        assert world.led().taken[0] == 120

    def test_a_robot_that_is_squeezed_survives(self, make_world: MakeTaskWorld) -> None:
        """Between a led body and a wall there is no way out: it is overlapped, and free again afterwards."""

        def there_and_back(time: float) -> tuple[Triple, Triple]:
            way = 0.8 * (time if time < 1 else 2 - time) if time < 2 else 0.0
            speed = 0.8 if time < 1 else -0.8 if time < 2 else 0.0
            return (start + way, 0.0, 0.0), (speed, 0.0, 0.0)

        stop = half(scene_of(group((0.0, 0.0, 0.0)))) - RADIUS
        # At the end of its way there, 5 cm are missing.
        start = float(stop[0]) - 2 * RADIUS - 0.75
        world = make_world(scene_of(group((start + 0.6, 0.0, 0.0)), tracked((start, 0.0, 0.0))))
        deepest = 0.0

        def check() -> None:
            nonlocal deepest
            assert (np.abs(world.truth()[0, :2]) < stop + self.WALL).all()
            beyond = float(np.max(np.abs(world.truth()[0, :2]) - stop))
            deepest = max(deepest, overlap(world), beyond)

        Tracker(world, {"led1": there_and_back}).run(4.0, check)
        assert deepest > 0.02
        assert near(world.truth()[1, :2], (start, 0.0), 1e-6)
        assert overlap(world) < GIVES
        before = world.truth()[0, :2]
        go_on(world, "dots1", (0.0, -0.3, 0.0))
        go(world, 1.0)
        assert np.hypot(*(world.truth()[0, :2] - before)) > 0.2

    def test_walls_hold_it(self, make_world: MakeTaskWorld) -> None:
        """Each telling that it is in the wall is counted, and the contact is reported."""
        scene = scene_of(tracked((1.0, 0.0, 0.0)))
        world = make_world(scene)
        stop = float(half(scene)[0]) - RADIUS
        reader = world.watch_contacts()
        Tracker(world, {"led1": line((1.0, 0.0, 0.0), (0.4, 0.0), until=(stop - 1.0) / 0.4 + 0.75)}).run(
            (stop - 1.0) / 0.4 + 1.25
        )
        assert near(world.truth()[0, 0], stop, 1e-3)
        assert near(world.truth()[0, 3], 0.0, 1e-6)
        assert near(world.led().refused[BLOCKED]["led1"], 30 * 1.25, 2)
        assert not world.led().lost[0]
        contact = reader.read()[0]
        assert (contact.one, contact.other) == ("led1", "wall")
        assert near(contact.speed, 0.4, 0.05)

    def test_it_is_lost_stands_and_is_found_where_it_is(self, make_world: MakeTaskWorld) -> None:
        """It appears at its place; where another robot stands, it pushes itself in."""
        world = make_world(scene_of(group((1.0, 1.0, 0.0)), tracked((0.0, 0.0, 0.0), patience=0.2)))

        def tell(pose: Triple, twist: Triple = (0.0, 0.0, 0.0), late: float = 0.0) -> None:
            world.tell(Tellings.of([Telling("led1", world.time - late, pose, twist)]))

        tell((0.0, 0.0, 0.0), (0.5, 0.0, 0.0))
        device = world.device("led1")
        go(world, 1.0)
        state = world.led()
        assert (state.lost.tolist(), state.losses.tolist()) == ([True], [1])
        assert near(state.lost_for[0], 0.8)
        assert near(world.truth()[1], (0.1, 0, 0, 0, 0, 0))
        travel = device.motors.read().travel.copy()
        tell((-1.0, -0.8, 1.0))
        world.step()
        assert not world.led().lost[0]
        assert near(world.truth()[1, :3], (-1.0, -0.8, 1.0))
        # Wheels do not turn while a robot is carried away.
        assert near(device.motors.read().travel, travel, 1e-3)
        tell((-1.0, -0.8, 1.0))
        go(world, 0.9)
        tell((0.9, 1.0, 0.0))
        world.step()
        assert near(np.hypot(*(world.truth()[1, :2] - (-1.0, -0.8))), 0.04, 1e-3)
        for _ in range(100):
            tell((0.9, 1.0, 0.0))
            world.step()
        assert near(world.truth()[1, :2], (0.9, 1.0), 1e-3)
        assert overlap(world) < GIVES

    def test_its_own_parts_sense_where_it_is_told_to_be(self, make_world: MakeTaskWorld) -> None:
        """Wheels, inertial sensor, rings and radio; what its own program commands has no effect."""
        path = circle(0.6, 0.8)
        scene = scene_of(group((0.0, 0.0, 0.0)), tracked(path(0.0)[0]), noise=False)
        world = make_world(scene)
        device, other = world.device("led1"), world.device("dots1")
        go_on(world, "led1", (0.0, -1.0, 3.0))
        tracker = Tracker(world, {"led1": path})
        tracker.run(1.0)
        start = device.motors.read().travel.copy()
        tracker.run(2.0)
        reading = device.motors.read()
        turning = wheels((0.48, 0, 0.8))
        assert near(reading.travel - start, 2.0 * turning, 1e-6)
        assert near(reading.speeds, turning)
        assert reading.effort == 0
        assert device.imu is not None
        imu = device.imu.read()
        assert imu is not None
        assert near(imu.gyro[2], 0.8, 1e-6)
        assert near(imu.accel[:2], (0.0, 0.48 * 0.8), 1e-6)
        # It sees the robot in the middle on its left, which sees it too.
        angles = np.array(DOTS.ranges[0].angles)
        left = int(np.argmin(np.abs(np.angle(np.exp(1j * (angles - math.pi / 2))))))
        assert near(ring(device)[left], 0.6 - 2 * RADIUS, 0.02)
        assert near(ring(other).min(), 0.6 - 2 * RADIUS, 0.02)
        heard = [packet for packet in other.radios["uwb"].read() if packet.sender == "led1"]
        assert heard[-1].distance is not None
        assert near(heard[-1].distance, 0.6, 0.01)

    def test_it_lifts_and_carries(self, make_world: MakeTaskWorld) -> None:
        """Its platform is virtual and works; what it puts down is like any other carrier."""
        x, y = 0.3, 0.2
        start = (x, y, 0.0)

        def away(time: float) -> tuple[Triple, Triple]:
            t = min(max(time - 4.0, 0.0), 2.0)
            c, s = math.cos(0.3 * t), math.sin(0.3 * t)
            return (x - 0.2 * t, y, 0.3 * t), (-0.2 * c, 0.2 * s, 0.3) if 0 < t < 2 else (0.0, 0.0, 0.0)

        carriers = [{"place": {"poses": [list(start)]}, "payload": 0.5}]
        world = make_world(scene_of(tracked(start), group((-1.2, 1.0, 0.0)), carriers=carriers))
        lifter = world.device("led1").lifter
        assert lifter is not None
        assert DOTS.lifter is not None
        lifter.move(DOTS.lifter.raised)
        tracker = Tracker(world, {"led1": away})
        tracker.run(7.0)
        truth = world.carriers()
        assert truth.carried_by[0] == 0
        assert truth.lifts[0] > 0.002
        assert near(world.truth()[0, :3], away(world.time)[0], 1e-6)
        assert near(truth.poses[0], away(world.time)[0], 0.02)
        lifter.move(DOTS.lifter.lowered)
        tracker.run(4.0)
        assert world.carriers().carried_by[0] == -1
        assert near(world.carriers().poses[0], away(world.time)[0], 0.02)
        world.teleport("carrier1", (0.9, -0.9, 0.0))
        assert near(world.carriers().poses[0], (0.9, -0.9, 0.0), 1e-3)

    def test_tracked_robots_join_and_leave(self, make_world: MakeTaskWorld) -> None:
        """A telling moves the robot that it names, whatever its row."""
        world = make_world(scene_of(group((0.0, 0.0, 0.0)), tracked((1.0, 0.0, 0.0))))
        world.add_robot(RobotPlacement("guest", DOTS, (-1.0, 0.0, 0.0), tracked=TrackedBody(patience=0.3)))
        assert world.led().names == ("led1", "guest")
        paths = {"led1": line((1.0, 0.0, 0.0), (0.0, 0.3)), "guest": line((-1.0, 0.0, 0.0), (0.0, -0.3))}
        tracker = Tracker(world, paths)
        tracker.run(1.0)
        assert near(world.truth()[1:, :2], [(1.0, 0.3), (-1.0, -0.3)])
        world.remove_robot("led1")
        tracker.run(1.0)
        assert world.led().names == ("guest",)
        assert world.led().refused == {UNKNOWN: {"": 30}}
        assert near(world.truth()[1, :2], (-1.0, -0.6))
        # What is pushed gives way to the one that is left, not to the one that stands in its row now.
        world.remove_robot("dots1")
        world.add_robot(RobotPlacement("dots2", DOTS, (-1.0, -0.9, 0.0)))
        tracker.run(1.0)
        assert near(world.truth()[0, :2], (-1.0, -0.9))
        assert np.hypot(*(world.truth()[1, :2] - (-1.0, -0.9))) > 2 * RADIUS - GIVES
        world.remove_robot("guest")
        world.step()
        assert world.led().names == ()

    def test_it_is_not_moved_by_hand_nor_by_what_is_invalid(self, make_world: MakeTaskWorld) -> None:
        """Its tracker alone moves it; what is told of simulated robots is counted."""
        world = make_world(scene_of(group((0.0, 0.0, 0.0)), tracked((1.0, 0.0, 0.0))))
        refused = refusal(lambda: world.teleport("led1", (0.5, 0.5, 0.0)))
        assert "teleport led1" in refused
        assert "tracked" in refused
        told = [
            Telling("dots1", 0.0, (0.3, 0.0, 0.0)),
            Telling("led1", 0.0, (1.0, 0.0, math.nan)),
            Telling("led1", 0.0, (1.0, 0.0, 0.0), (50.0, 0.0, 0.0)),
        ]
        world.tell(Tellings.of(told))
        world.step()
        assert world.led().refused == {SIMULATED: {"dots1": 1}, NOT_FINITE: {"led1": 1}, FAST: {"led1": 1}}
        assert near(world.truth()[0, :2], (0.0, 0.0), 1e-4)
        assert near(world.truth()[1, :2], (1.0, 0.0))

    def test_the_same_tellings_give_the_same_run(self, make_world: MakeTaskWorld) -> None:
        """To the bit."""
        ends = []
        for _ in range(2):
            world = make_world(
                scene_of(group((0.0, 0.0, 0.0), (0.5, 0.5, 0.0)), tracked((-1.0, 0.0, 0.0))), 3
            )
            for name in ("dots1", "dots2"):
                go_on(world, name, (-0.3, 0.1, 0.4))
            Tracker(world, {"led1": circle(0.8, 0.5, math.pi)}).run(4.0)
            ends.append(world.truth())
        assert np.array_equal(ends[0], ends[1])

    def test_no_telling_harms_a_world(self, make_world: MakeTaskWorld) -> None:
        """Whatever a tracker tells, robots stay finite, apart and inside the walls."""
        for case in range(CASES):
            check_moves(make_world, random_moves(np.random.default_rng(case)), self.DEEP, self.WALL)
