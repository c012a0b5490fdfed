"""The contract of `Physics`, as tests that every engine must pass.

A test class inherits `PhysicsContract` and provides a fixture `engine`: a function that returns the `Physics`
of a scene, and closes it after the test. Where an engine differs on purpose, its class names the exception in
`DEVIATIONS`. The tests then demand what `EXCEPTIONS` says instead, so that no exception outlives its reason.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from swarmbed_core.geometry import between, rotate, wrap
from swarmbed_core.world_contract import scene_of

from swarmbed_sim.errors import SimError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from swarmbed_core.scene import RobotPlacement, Scene

    from swarmbed_sim.physics import Physics

    Engine = Callable[[Scene], Physics]

DISCS: Final = "discs"
TALL: Final = "tall"
EXCEPTIONS: Final = {
    DISCS: "A body with corners collides as its bounding disc: contacts of discs alone are what makes "
    "thousands of robots possible.",
    TALL: "Obstacles are at least as high as the point at which robots touch, 0.13 m: planar has no third "
    "dimension, and in mujoco robots are spheres. A lifted carrier does not pass over what its feet clear.",
}
"""What an engine may do differently, and why."""

CRUISE: Final = 0.4
"""A speed in m/s that robots of all kinds here reach within half a second."""
DEEPEST: Final = 0.01
"""Largest overlap of two bodies in metres: solvers with soft contacts give way a little."""
CASES: Final = 3
"""Random cases of each property."""


class Drive:
    """A physics with the commands it is given.

    Attributes:
        physics: under test.
        v_body: target velocities of the robots.
        driven: which drives are on.
        platforms: set-points of the lifting platforms.
    """

    def __init__(self, physics: Physics) -> None:
        """Start with drives that are on and hold still."""
        self.physics = physics
        self.adapt()

    def adapt(self) -> None:
        """Make the commands anew, for the robots there are now."""
        count = len(self.physics.poses)
        self.v_body = np.zeros((count, 3))
        self.driven = np.ones(count, dtype=np.bool_)
        self.platforms = self.physics.heights.copy()

    def go(self, seconds: float, watch: Callable[[], None] | None = None) -> None:
        """Advance by a time; call `watch` after each step."""
        for _ in range(round(seconds / self.physics.timestep)):
            self.physics.advance(self.v_body, self.driven, self.platforms)
            if watch is not None:
                watch()

    def lift(self, height: float, seconds: float = 1.0) -> None:
        """Move all platforms to a height at constant speed, then let everything settle."""
        start = self.physics.heights.copy()
        steps = round(seconds / self.physics.timestep)
        for step in range(steps):
            self.platforms = start + (height - start) * (step + 1) / steps
            self.go(self.physics.timestep)
        self.go(0.4)

    def touched(self) -> list[tuple[str, str]]:
        """Return the names of the contacts that began."""
        return [(one, other) for one, other, _ in self.physics.contacts()]


def depth(scene: Scene, physics: Physics) -> float:
    """Return the deepest overlap of two robots, or of a robot and what is fixed; robots are discs."""
    places = physics.poses[:, :2]
    radii = np.array([robot.spec.body.bounding_radius for robot in scene.robots])
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    overlap = radii[:, None] + radii - apart
    np.fill_diagonal(overlap, 0.0)
    worst = float(overlap.max())
    for x1, y1, x2, y2 in physics.segments:
        along, to = np.array((x2 - x1, y2 - y1)), places - (x1, y1)
        share = np.clip(to @ along / (along @ along), 0, 1)
        worst = max(worst, float((radii - np.hypot(*(to - share[:, None] * along).T)).max()))
    for x, y, radius in physics.pillars:
        worst = max(worst, float((radii + radius - np.hypot(places[:, 0] - x, places[:, 1] - y)).max()))
    return worst


def newcomer(pose: tuple[float, float, float], name: str = "newcomer", kind: str = "dots") -> RobotPlacement:
    """Return a robot to add."""
    return replace(scene_of([(kind, (0.0, 0.0, 0.0))]).robots[0], name=name, pose=pose)


def state(physics: Physics) -> list[NDArray[Any]]:
    """Return copies of all arrays of state."""
    return [
        array.copy()
        for array in (
            physics.poses,
            physics.twists,
            physics.heights,
            physics.carrier_poses,
            physics.carrier_lifts,
            physics.carried_by,
        )
    ]


MIXED: Final = [
    ("dots", (-1.5, -1.5, 0.3)),
    ("pioneer3dx", (0.0, -1.5, 2.0)),
    ("dots", (1.5, -1.5, -2.5)),
    ("epuck2", (0.0, 1.5, math.pi / 2)),
]


class PhysicsContract:
    """Tests for any `Physics`; the class that inherits them provides the fixture `engine`."""

    DEVIATIONS: ClassVar[frozenset[str]] = frozenset()
    """Names from `EXCEPTIONS`."""

    # State

    def test_it_starts_where_the_scene_is(self, engine: Engine) -> None:
        """Rows follow the order of the scene; everything is at rest on the floor, nothing touches."""
        scene = scene_of(
            MIXED,
            [(-1.0, 1.0, 0.4), (1.0, 1.0, -0.4)],
            obstacles=[
                {"shape": "box", "pose": [1.8, 0.0, 0.3], "size": [0.4, 0.2]},
                {"shape": "cylinder", "pose": [-1.8, 0.0, 0.0], "radius": 0.1},
            ],
        )
        physics = engine(scene)
        count = len(MIXED)
        assert np.allclose(physics.poses, [pose for _, pose in MIXED], atol=1e-9)
        assert np.allclose(physics.carrier_poses, [item.pose for item in scene.carriers], atol=1e-6)
        assert np.allclose(physics.carrier_lifts, 0.0, atol=1e-3)
        assert physics.carried_by.tolist() == [-1, -1]
        lowered = [robot.spec.lifter.lowered if robot.spec.lifter else 0.0 for robot in scene.robots]
        assert np.allclose(physics.heights, lowered, atol=1e-3)
        assert physics.twists.shape == (count, 3)
        assert physics.pushes.shape == (count,)
        assert not physics.twists.any()
        assert np.array_equal(physics.segments, scene.segments())
        assert np.array_equal(physics.pillars, scene.pillars())
        assert {array.dtype for array in (physics.poses, physics.twists, physics.pushes)} == {np.dtype(float)}
        assert physics.carried_by.dtype == np.int64
        assert list(physics.contacts()) == []

    def test_time_steps_fit_the_tick_of_programs(self, engine: Engine) -> None:
        """Programs tick every 0.1 s, Onboards run at 100 Hz: both are whole numbers of steps."""
        step = engine(scene_of(MIXED[:1])).timestep
        for period in (0.1, 0.01):
            assert math.isclose(round(period / step) * step, period, rel_tol=1e-9)

    def test_the_arrays_stay_the_same_objects(self, engine: Engine) -> None:
        """`advance` updates in place: who holds the arrays sees the new state."""
        physics = engine(scene_of(MIXED, [(-1.0, 1.0, 0.4)]))
        names = ("poses", "twists", "pushes", "heights", "carrier_poses", "carrier_lifts", "carried_by")
        held = [getattr(physics, name) for name in names]
        before = physics.poses.copy()
        drive = Drive(physics)
        drive.v_body[:, 0] = CRUISE
        drive.go(0.3)
        assert all(getattr(physics, name) is array for name, array in zip(names, held, strict=True))
        assert (held[0] != before).any(axis=1).all()

    def test_what_rests_stays(self, engine: Engine) -> None:
        """Without a command nothing moves, robots and carriers alike."""
        physics = engine(scene_of(MIXED, [(-1.0, 1.0, 0.4), (1.5, -1.5, 0.0)]))
        before = state(physics)
        Drive(physics).go(1.0)
        for now, then in zip(state(physics), before, strict=True):
            assert np.allclose(now, then, atol=1e-3)
        assert list(physics.contacts()) == []

    # Motion

    def test_frames_are_those_of_rep_103(self, engine: Engine) -> None:
        """Twists are in the robot's frame: x ahead, y left, turning left is positive. Poses are in `map`."""
        yaw = math.pi / 2
        physics = engine(scene_of([("dots", (x, 0.0, yaw)) for x in (-1.5, 0.0, 1.5)]))
        drive = Drive(physics)
        drive.v_body[:] = np.diag((CRUISE, CRUISE, 1.0))
        drive.go(1.0)
        ahead, left, turned = physics.poses - [(-1.5, 0.0, yaw), (0.0, 0.0, yaw), (1.5, 0.0, yaw)]
        assert 0.3 < ahead[1] < CRUISE
        assert -CRUISE < left[0] < -0.3
        assert 0.8 < turned[2] < 1.0
        assert np.allclose([*ahead[[0, 2]], *left[1:], *turned[:2]], 0.0, atol=1e-3)
        assert np.allclose(physics.twists, drive.v_body, atol=0.01)

    def test_yaw_stays_within_half_a_turn(self, engine: Engine) -> None:
        """However often a robot turns, its yaw is in (-pi, pi] and changes without other jumps."""
        physics = engine(scene_of([("dots", (-1.0, 0.0, 3.0)), ("dots", (1.0, 0.0, -3.0))]))
        drive = Drive(physics)
        drive.v_body[:, 2] = 3.0, -3.0
        before = physics.poses[:, 2].copy()

        def watch() -> None:
            yaws = physics.poses[:, 2]
            assert (np.abs(yaws) <= math.pi).all()
            for then, now, rate in zip(before, yaws, physics.twists[:, 2], strict=True):
                assert abs(wrap(now - then)) <= (abs(rate) + 0.2) * physics.timestep
            before[:] = yaws

        drive.go(3.0, watch)

    def test_twists_are_the_rates_of_poses(self, engine: Engine) -> None:
        """Over every step, poses change by the mean twist, whatever robots are asked to do."""
        for case in range(CASES):
            _check_rates(engine, np.random.default_rng(case))

    def test_drives_accelerate_as_their_motors_can_and_no_more(self, engine: Engine) -> None:
        """A drive reaches the velocity asked for, and never exceeds `limits.acceleration_available`."""
        kinds = ("dots", "pioneer3dx", "epuck2")
        scene = scene_of([(kind, (x, 0.0, 0.5)) for kind, x in zip(kinds, (-1.5, 0.0, 1.5), strict=True)])
        physics = engine(scene)
        drive, dt = Drive(physics), physics.timestep
        limits = [robot.spec.limits for robot in scene.robots]
        speeds = [min(0.8, limit.speed) for limit in limits]
        drive.v_body[:, 0] = speeds
        before = physics.twists.copy()
        fastest = np.zeros(3)

        def watch() -> None:
            np.maximum(fastest, np.hypot(*(physics.twists - before)[:, :2].T) / dt, out=fastest)
            before[:] = physics.twists

        drive.go(0.05, watch)
        for most, found, push in zip(limits, fastest, physics.pushes, strict=True):
            assert math.isclose(found, most.acceleration_available, rel_tol=0.02)
            assert math.isclose(push, most.acceleration_available, rel_tol=0.05)
        drive.go(1.2, watch)
        assert np.allclose(physics.twists[:, 0], speeds, rtol=0.02)
        assert np.allclose(physics.pushes, 0.0, atol=0.05)
        drive.v_body[0] = (-0.6, 0.6, 0.0)
        drive.driven[1] = False
        drive.go(1.2, watch)
        assert np.allclose(physics.twists[0, :2], (-0.6, 0.6), atol=0.02)
        assert np.allclose(physics.twists[1], 0.0, atol=0.01)
        for most, found in zip(limits, fastest, strict=True):
            assert found <= most.acceleration_available * 1.02

    def test_a_robot_on_its_way_round_pushes_itself_aside(self, engine: Engine) -> None:
        """The push contains the centripetal acceleration: speed times yaw rate."""
        physics = engine(scene_of([("dots", (0.0, 0.0, 0.0))]))
        drive = Drive(physics)
        drive.v_body[:] = (CRUISE, 0.0, 1.5)
        drive.go(1.5)
        assert math.isclose(physics.pushes[0], CRUISE * 1.5, rel_tol=0.05)

    def test_only_holonomic_robots_move_sideways(self, engine: Engine) -> None:
        """Two wheels and a caster hold on sideways."""
        physics = engine(scene_of([("dots", (-1.0, 0.0, 0.0)), ("pioneer3dx", (1.0, 0.0, 0.0))]))
        drive = Drive(physics)
        drive.v_body[:, 1] = CRUISE
        drive.go(1.0)
        assert physics.poses[0, 1] > 0.3
        assert abs(physics.poses[1, 1]) < 1e-3

    def test_a_drive_that_is_off_brakes(self, engine: Engine) -> None:
        """A robot without drives comes to rest, whatever it is asked for."""
        physics = engine(scene_of([("dots", (-1.0, 0.0, 0.0))]))
        drive = Drive(physics)
        drive.v_body[:] = (CRUISE, 0.0, 1.0)
        drive.go(0.5)
        drive.driven[:] = False
        drive.go(0.5)
        assert np.allclose(physics.twists, 0.0, atol=0.01)

    def test_a_wish_that_is_not_finite_stops_its_robot_only(self, engine: Engine) -> None:
        """NaN and infinity never spread: the robot brakes, the others go on."""
        for bad in (math.nan, math.inf, -math.inf):
            physics = engine(
                scene_of([("dots", (-1.0, 0.0, 0.0)), ("dots", (-1.0, 1.0, 0.0))], [(1.0, 0.0, 0.0)])
            )
            drive = Drive(physics)
            drive.v_body[:, 0] = CRUISE
            drive.go(0.3)
            drive.v_body[0, 1] = bad
            drive.platforms[0] = bad
            drive.go(0.5)
            assert np.isfinite(np.hstack([physics.poses, physics.twists])).all()
            assert np.allclose(physics.twists[0], 0.0, atol=0.01)
            assert math.isclose(physics.twists[1, 0], CRUISE, rel_tol=0.02)
            drive.v_body[0, 1] = 0.0
            drive.go(0.5)
            assert math.isclose(physics.twists[0, 0], CRUISE, rel_tol=0.02)

    def test_the_order_of_robots_makes_no_difference(self, engine: Engine) -> None:
        """Robots that do not meet move alike in whatever order the scene has them."""
        wishes = np.random.default_rng(5).uniform(-0.4, 0.4, (len(MIXED), 3))
        ends = []
        for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
            physics = engine(scene_of([MIXED[i] for i in order]))
            drive = Drive(physics)
            drive.v_body[:] = wishes[order]
            drive.go(0.7)
            ends.append(physics.poses[np.argsort(order)].copy())
        assert np.allclose(ends[0], ends[1], atol=1e-6)

    # Contacts

    def test_bodies_do_not_overlap(self, engine: Engine) -> None:
        """Robots that drive about at random among obstacles never overlap by more than a contact gives."""
        for case in range(CASES):
            _check_overlaps(engine, np.random.default_rng(case))

    def test_contacts_are_named_and_told_once_with_their_speed(self, engine: Engine) -> None:
        """Robots come first; the speed is that of closing in; what goes on touching is told once."""
        scene = scene_of(
            [("dots", (2.0, 0.0, 0.0)), ("dots", (-0.5, 1.5, 0.0)), ("dots", (0.1, 1.5, 3.0)),
             ("dots", (-1.6, -1.0, math.pi)), ("dots", (-0.8, -0.38, 0.0))],
            [(0.0, -0.5, 0.0)],
            obstacles=[
                {"shape": "cylinder", "pose": [1.5, -1.5, 0.0], "radius": 0.2},
                {"shape": "box", "pose": [-2.1, -1.0, 0.0], "size": [0.2, 0.4]},
            ],
        )  # fmt: skip
        physics = engine(scene)
        drive = Drive(physics)
        drive.go(0.3)
        assert list(physics.contacts()) == []
        drive.v_body[[0, 1, 3, 4], 0] = 0.4, 0.3, 0.2, 0.25
        drive.go(2.4)
        told = sorted(physics.contacts())
        assert [item[:2] for item in told] == [
            ("dots1", "wall"),
            ("dots2", "dots3"),
            ("dots4", "obstacle2"),
            ("dots5", "carrier1"),
        ]
        assert np.allclose([item[2] for item in told], [0.4, 0.3, 0.2, 0.25], atol=0.03)
        drive.v_body[4] = 0.0
        drive.go(0.6)
        assert list(physics.contacts()) == []

    def test_a_contact_is_new_after_half_a_second_or_if_it_is_harder(self, engine: Engine) -> None:
        """What was apart for less than 0.5 s is the same contact, unless it closes faster than before."""
        physics = engine(scene_of([("dots", (2.34, 0.0, 0.0))]))
        drive = Drive(physics)

        def told(*legs: tuple[float, float]) -> list[float]:
            for speed, seconds in legs:
                drive.v_body[0, 0] = speed
                drive.go(seconds)
            return [speed for _, _, speed in physics.contacts()]

        [first] = told((0.05, 1.5))
        assert math.isclose(first, 0.05, abs_tol=0.01)
        assert told((0.3, 0.3)) == []
        assert told((-0.06, 0.1), (0.03, 0.3)) == []
        [harder] = told((-0.25, 0.12), (0.25, 0.3))
        assert math.isclose(harder, 0.25, abs_tol=0.04)
        [later] = told((-0.1, 1.2), (0.1, 1.6))
        assert math.isclose(later, 0.1, abs_tol=0.02)

    def test_a_robot_at_a_wall_pushes_with_all_it_has(self, engine: Engine) -> None:
        """A blocked drive costs full effort in every engine, and the robot stays where it is."""
        scene = scene_of([("dots", (2.3, 0.0, 0.0))])
        physics = engine(scene)
        drive = Drive(physics)
        drive.v_body[0, 0] = 1.0
        drive.go(0.6)
        reached = physics.poses[0, 0]
        drive.go(0.6)
        limits = scene.robots[0].spec.limits
        assert math.isclose(physics.pushes[0], limits.acceleration_available, rel_tol=0.01)
        assert math.isclose(reached, 2.5 - scene.robots[0].spec.body.bounding_radius, abs_tol=0.005)
        assert math.isclose(physics.poses[0, 0], reached, abs_tol=1e-3)

    def test_a_box_stops_with_its_front(self, engine: Engine) -> None:
        """A robot with corners collides as a box, unless the engine knows only discs."""
        scene = scene_of([("pioneer3dx", (1.5, 0.0, 0.0))])
        physics = engine(scene)
        drive = Drive(physics)
        drive.v_body[0, 0] = CRUISE
        drive.go(3.0)
        body = scene.robots[0].spec.body
        front = body.bounding_radius if DISCS in self.DEVIATIONS else 0.485 / 2
        assert math.isclose(physics.poses[0, 0], 2.5 - front, abs_tol=0.005)

    # Interventions

    def test_a_hand_puts_a_robot_elsewhere_at_rest(self, engine: Engine) -> None:
        """A moved robot rests at its new pose; nothing else changes, and it drives on from there."""
        physics = engine(scene_of([("dots", (0.0, 0.0, 0.0)), ("dots", (0.0, 1.0, 0.0))], [(1.0, -1.0, 0.2)]))
        drive = Drive(physics)
        drive.v_body[:, 0] = CRUISE
        drive.go(0.5)
        other = physics.poses[1].copy(), physics.twists[1].copy()
        physics.move_robot(0, (-1.0, -1.0, 2.0))
        assert np.allclose(physics.poses[0], (-1.0, -1.0, 2.0), atol=1e-9)
        assert np.allclose(physics.twists[0], 0.0, atol=1e-9)
        assert np.array_equal(physics.poses[1], other[0])
        assert np.allclose(physics.twists[1], other[1], atol=1e-12)
        physics.move_carrier(0, (1.0, 0.0, -1.0))
        assert np.allclose(physics.carrier_poses[0], (1.0, 0.0, -1.0), atol=1e-6)
        drive.go(0.5)
        moved = rotate(physics.poses[0, :2] - (-1.0, -1.0), -2.0)
        assert 0.1 < moved[0] < 0.5 * CRUISE
        assert abs(moved[1]) < 0.005
        assert np.allclose(physics.carrier_poses[0], (1.0, 0.0, -1.0), atol=1e-3)
        assert list(physics.contacts()) == []

    def test_robots_come_and_go(self, engine: Engine) -> None:
        """One that comes is the last row, at rest; rows after one that goes move up; the rest is kept."""
        physics = engine(
            scene_of([("dots", (0.0, 0.0, 0.0)), ("dots", (0.0, 1.0, 0.0))], [(-1.0, -1.0, 0.3)])
        )
        drive = Drive(physics)
        drive.v_body[:, 0] = CRUISE
        drive.go(0.4)
        before = state(physics)
        physics.add_robot(newcomer((0.0, -1.0, 0.3)))
        after = state(physics)
        assert np.allclose(after[0][2], (0.0, -1.0, 0.3), atol=1e-9)
        assert np.allclose(after[1][2], 0.0, atol=1e-9)
        for then, now in zip(before, after, strict=True):
            assert np.allclose(now[: len(then)], then, rtol=0, atol=1e-12)
        physics.remove_robot(0)
        for i in range(3):
            assert np.allclose(state(physics)[i], after[i][1:], rtol=0, atol=1e-12)
        drive.adapt()
        drive.v_body[1] = (CRUISE, 0.0, 0.5)
        drive.go(0.4)
        # It drives like one that was there from the beginning.
        fresh = Drive(engine(scene_of([("dots", (0.0, -1.0, 0.3))])))
        fresh.v_body[0] = (CRUISE, 0.0, 0.5)
        fresh.go(0.4)
        assert np.allclose(physics.poses[1], fresh.physics.poses[0], atol=1e-3)
        assert np.allclose(physics.twists[1], fresh.physics.twists[0], atol=1e-3)
        physics.remove_robot(1)
        physics.remove_robot(0)
        assert physics.poses.shape == (0, 3)
        drive.adapt()
        drive.go(0.1)
        physics.add_robot(newcomer((0.0, 0.0, 0.0), "dots1"))
        drive.adapt()
        drive.v_body[:, 0] = CRUISE
        drive.go(0.5)
        assert physics.poses[0, 0] > 0.1

    def test_one_that_comes_meets_the_others(self, engine: Engine) -> None:
        """A robot that came later has contacts under its name, in a row before the carriers."""
        physics = engine(scene_of([("dots", (0.0, 0.0, 0.0))], [(-1.0, 0.12, 0.0)]))
        physics.add_robot(newcomer((0.6, 0.0, math.pi)))
        drive = Drive(physics)
        drive.v_body[1, 0] = CRUISE
        drive.go(1.2)
        [(one, other)] = drive.touched()
        assert {one, other} == {"dots1", "newcomer"}
        physics.remove_robot(0)
        drive.adapt()
        drive.v_body[0, 0] = CRUISE
        drive.go(2.5)
        assert ("newcomer", "carrier1") in drive.touched()

    def test_boxes_come_stop_robots_and_go(self, engine: Engine) -> None:
        """A box is in `segments` while it is there, and in the way; its name is free again afterwards."""
        physics = engine(
            scene_of([("dots", (0.0, 0.0, 0.0)), ("dots", (0.0, 1.0, 0.0))], [(-1.0, -1.0, 0.5)])
        )
        drive = Drive(physics)
        drive.v_body[:, 0] = 0.2, -0.2
        drive.go(0.3)
        before, walls = state(physics), physics.segments.copy()
        physics.add_box("crate", (0.6, 0.0, 0.3), (0.2, 0.2))
        for then, now in zip(before, state(physics), strict=True):
            assert np.allclose(now, then, rtol=0, atol=1e-12)
        assert len(physics.segments) == len(walls) + 4
        for name in ("crate", "dots1", "carrier1"):
            try:
                physics.add_box(name, (1.5, 1.5, 0.0), (0.2, 0.2))
            except SimError as error:
                assert "this name is taken" in str(error)  # noqa: PT017 - pytest is not imported here
            else:
                raise AssertionError(name)
        drive.v_body[:, 0] = CRUISE, 0.0
        drive.go(2.0)
        assert 0.3 < physics.poses[0, 0] < 0.45
        assert drive.touched() == [("dots1", "crate")]
        physics.remove_box("crate")
        assert np.array_equal(physics.segments, walls)
        try:
            physics.remove_box("crate")
        except SimError as error:
            assert "there are none" in str(error)  # noqa: PT017
        else:
            raise AssertionError
        drive.go(1.0)
        assert physics.poses[0, 0] > 0.6
        physics.add_box("crate", (-1.5, 1.5, 0.0), (0.2, 0.2))

    # Carriers

    def test_a_robot_lifts_carries_and_puts_down(self, engine: Engine) -> None:
        """A platform under a tray lifts it; it goes where the robot goes, and stays where it is put."""
        scene = scene_of([("dots", (0.0, 0.0, 0.4))], [(0.01, 0.0, 0.3)])
        physics = engine(scene)
        drive, lifter, tray = Drive(physics), scene.robots[0].spec.lifter, scene.carriers[0].carrier
        assert lifter is not None
        drive.lift(lifter.raised)
        assert math.isclose(physics.heights[0], lifter.raised, abs_tol=1e-3)
        assert physics.carried_by.tolist() == [0]
        assert math.isclose(physics.carrier_lifts[0], lifter.raised - tray.clearance, abs_tol=1e-3)
        offset = between(physics.poses[0], physics.carrier_poses[0])
        drive.v_body[0] = (0.3, 0.1, 0.5)
        drive.go(1.5)
        drive.v_body[0] = 0.0
        drive.go(0.5)
        assert np.allclose(between(physics.poses[0], physics.carrier_poses[0]), offset, atol=0.01)
        assert math.hypot(*physics.carrier_poses[0, :2]) > 0.3
        drive.lift(lifter.lowered)
        assert physics.carried_by.tolist() == [-1]
        assert math.isclose(physics.carrier_lifts[0], 0.0, abs_tol=1e-3)
        # A platform under a tray is no contact.
        assert list(physics.contacts()) == []
        place = physics.carrier_poses[0].copy()
        way = place[2] - physics.poses[0, 2]
        drive.v_body[0, :2] = 0.2 * math.cos(way), 0.2 * math.sin(way)
        drive.go(2.5)
        assert np.allclose(physics.carrier_poses[0], place, atol=0.01)
        assert math.hypot(*(physics.poses[0, :2] - place[:2])) > 0.3

    def test_a_carrier_is_pushed_at_its_leg_and_stops(self, engine: Engine) -> None:
        """Friction holds a carrier that nobody pushes any more."""
        physics = engine(scene_of([("dots", (-0.6, 0.12, 0.0))], [(0.0, 0.0, 0.0)]))
        drive = Drive(physics)
        drive.v_body[0, 0] = 0.3
        drive.go(2.5)
        assert physics.carrier_poses[0, 0] > 0.02
        assert set(drive.touched()) == {("dots1", "carrier1")}
        drive.v_body[0] = 0.0
        drive.go(0.5)
        before = physics.carrier_poses.copy()
        drive.go(0.5)
        assert np.allclose(physics.carrier_poses, before, atol=1e-3)

    def test_a_lifted_carrier_falls_when_its_robot_goes(self, engine: Engine) -> None:
        """Removed, or taken away by hand, a robot leaves what it had lifted where it is, on the floor."""
        for remove in (True, False):
            physics = engine(
                scene_of([("dots", (-2.0, 0.0, 0.0)), ("dots", (0.0, 0.0, 0.0))], [(0.0, 0.0, 0.0)])
            )
            drive = Drive(physics)
            drive.lift(0.197)
            assert physics.carried_by.tolist() == [1]
            if remove:
                physics.remove_robot(1)
            else:
                physics.move_robot(1, (1.5, 1.5, 0.0))
            drive.adapt()
            drive.go(0.8)
            assert physics.carried_by.tolist() == [-1]
            assert math.isclose(physics.carrier_lifts[0], 0.0, abs_tol=2e-3)
            assert np.allclose(physics.carrier_poses[0], 0.0, atol=0.02)

    def test_joined_carriers_are_one_body(self, engine: Engine) -> None:
        """Two robots lift a body of two trays; it stays rigid, and a hand moves it as one."""
        two = {"joined": [[0, 0], [1, 0]], "place": {"poses": [[0.0, 0.0, 0.0]]}}
        scene = scene_of([("dots", (-0.165, 0.0, 0.0)), ("dots", (0.165, 0.0, 0.0))], carriers=[two])
        physics = engine(scene)
        apart = between(*physics.carrier_poses)
        drive = Drive(physics)
        drive.lift(0.197)
        assert physics.carried_by.tolist() == [0, 1]
        drive.v_body[:, 1] = 0.2
        drive.go(1.5)
        assert (physics.carrier_poses[:, 1] > 0.2).all()
        assert np.allclose(between(*physics.carrier_poses), apart, atol=1e-3)
        physics.move_carrier(1, (1.0, -1.0, 1.0))
        assert np.allclose(physics.carrier_poses[1], (1.0, -1.0, 1.0), atol=1e-6)
        assert np.allclose(between(*physics.carrier_poses), apart, atol=1e-6)
        drive.go(0.3)
        assert physics.carried_by.tolist() == [-1, -1]

    def test_a_carried_tray_passes_over_what_is_low(self, engine: Engine) -> None:
        """A carrier whose feet are held above a plate does not touch it, unless obstacles count as tall."""
        low = {"shape": "box", "pose": [0.45, 0.3, 0.0], "size": [0.1, 0.3], "height": 0.01}
        physics = engine(scene_of([("dots", (0.0, 0.0, 0.0))], [(0.0, 0.0, 0.0)], obstacles=[low]))
        drive = Drive(physics)
        drive.lift(0.197)
        drive.v_body[0, 0] = 0.3
        drive.go(1.8)
        touched = ("carrier1", "obstacle1") in drive.touched()
        assert touched is (TALL in self.DEVIATIONS)
        assert (physics.poses[0, 0] > 0.4) is not touched

    # Reproducibility, and the rest

    def test_runs_repeat_to_the_bit(self, engine: Engine) -> None:
        """The same scene with the same commands and interventions gives the same state, bit for bit."""

        def run() -> str:
            rng = np.random.default_rng(7)
            scene = scene_of(
                [("dots", (x, -1.0, x)) for x in (-1.0, 0.0, 1.0)], [(-1.0, -1.0, 0.0), (0.0, 0.3, 0.0)]
            )
            physics = engine(scene)
            drive, digest = Drive(physics), hashlib.sha256()
            for step in range(150):
                if step == 20:
                    physics.add_box("crate", (-0.5, -0.4, 0.3), (0.2, 0.2))
                    physics.move_robot(1, (0.0, -0.5, 1.0))
                if step == 60:
                    physics.add_robot(newcomer((1.0, 1.0, 1.0)))
                    drive.adapt()
                if step == 110:
                    physics.remove_robot(0)
                    physics.remove_box("crate")
                    drive.adapt()
                if step % 10 == 0:
                    drive.v_body[:] = rng.normal(0.0, 0.7, drive.v_body.shape)
                drive.platforms[:] = min(0.145 + 0.0005 * step, 0.197)
                drive.go(physics.timestep)
                for array in (*state(physics), physics.pushes):
                    digest.update(array.tobytes())
                digest.update(repr(physics.contacts()).encode())
            return digest.hexdigest()

        assert run() == run()

    def test_rays_and_lights_are_optional(self, engine: Engine) -> None:
        """`cast` returns a distance for each sensor of each row, or None; `light` takes any row."""
        scene = scene_of([("dots", (2.0, 0.0, 0.0)), ("dots", (0.0, 0.0, 0.0))])
        physics = engine(scene)
        [ring] = scene.robots[0].spec.ranges
        found = physics.cast(ring, np.array([1, 0]))
        if found is not None:
            assert found.shape == (2, ring.count)
            assert math.isclose(found[1, 0], 0.5 - ring.mount_radius, abs_tol=1e-3)
            assert np.isinf(found).any()
        physics.light(1, [0xFF0000] * 16)

    def test_closing_twice_does_no_harm(self, engine: Engine) -> None:
        """`close` may be called again, as by a `finally` after an error."""
        physics = engine(scene_of(MIXED[:1]))
        physics.close()
        physics.close()


def _check_rates(engine: Engine, rng: np.random.Generator) -> None:
    """Check that poses change by the mean twist of each step, for robots that do not meet."""
    physics = engine(scene_of([("dots", (x, 0.0, float(rng.uniform(-3, 3)))) for x in (-1.5, 0.0, 1.5)]))
    drive, dt = Drive(physics), physics.timestep
    poses, twists = physics.poses.copy(), physics.twists.copy()

    def watch() -> None:
        for pose, twist, pose0, twist0 in zip(physics.poses, physics.twists, poses, twists, strict=True):
            mean = (twist + twist0) / 2
            moved = rotate(mean[:2] * dt, pose0[2] + mean[2] * dt / 2)
            # The velocities of an engine may lead its positions by up to half a step.
            assert np.allclose(pose[:2] - pose0[:2], moved, atol=4.0 * dt * dt)
            assert abs(wrap(pose[2] - pose0[2]) - mean[2] * dt) < 18.0 * dt * dt
        poses[:], twists[:] = physics.poses, physics.twists

    for _ in range(4):
        drive.v_body[:] = rng.uniform((-0.5, -0.5, -2.0), (0.5, 0.5, 2.0), (3, 3))
        drive.go(0.2, watch)


def _check_overlaps(engine: Engine, rng: np.random.Generator) -> None:
    """Check that six robots that drive about at random do not overlap with anything."""
    places = [(x, y, float(rng.uniform(-3, 3))) for x in (-0.9, 0.0, 0.9) for y in (-0.9, 0.9)]
    scene = scene_of(
        [("dots", pose) for pose in places],
        obstacles=[
            {"shape": "box", "pose": [0.0, 0.0, 0.6], "size": [0.5, 0.3]},
            {"shape": "cylinder", "pose": [-1.2, 0.0, 0.0], "radius": 0.2},
        ],
        arena="epuck2_arena",
    )
    physics = engine(scene)
    drive = Drive(physics)
    worst = 0.0

    def watch() -> None:
        nonlocal worst
        worst = max(worst, depth(scene, physics))

    for _ in range(6):
        drive.v_body[:] = rng.uniform((-1.0, -1.0, -2.0), (1.0, 1.0, 2.0), (6, 3))
        drive.go(0.5, watch)
    assert worst < DEEPEST
    assert physics.contacts()
