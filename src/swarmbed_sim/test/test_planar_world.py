from __future__ import annotations

import dataclasses
import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.arena import Arena
from swarmbed_core.markers import CarrierMarkers
from swarmbed_core.scenario import BoxObstacle, CylinderObstacle, Scenario
from swarmbed_core.scene import CarrierPlacement, RobotPlacement, Scene, legs_of
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.errors import SimError
from swarmbed_sim.planar_world import PlanarPhysics, StaticGrid, make
from swarmbed_sim.sim_world import SimWorld
from swarmbed_sim.solid import DRIVE_TIME

DOTS = RobotSpec.load("dots")
EPUCK = RobotSpec.load("epuck2")
PIONEER = RobotSpec.load("pioneer3dx")
TRAY = DOTS.carrier
UP, DOWN = DOTS.lifter.raised, DOTS.lifter.lowered
MILLIMETRE = 1e-3


def scene_of(robots, carriers=(), obstacles=(), size=(5.0, 5.0), walls=(), payload=0.0):
    """Return a scene of robots (spec, pose) and carriers (pose, body)."""
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "test",
            "time_limit": 10.0,
            "robots": [{"count": 1, "place": {"zone": "anywhere"}}],
            "controller": {"name": "random_walk"},
        }
    )
    return Scene(
        scenario,
        Arena(version=1, title="test", size=size, walls=walls),
        CarrierMarkers.load(scenario.carrier_markers),
        tuple(RobotPlacement(f"robot{i + 1}", spec, pose) for i, (spec, pose) in enumerate(robots)),
        tuple(
            CarrierPlacement(f"carrier{i + 1}", 100 + i, TRAY, pose, payload, body)
            for i, (pose, body) in enumerate(carriers)
        ),
        tuple(obstacles),
    )


class Drive:
    """Holds what a physics is asked for."""

    def __init__(self, physics):
        self.physics = physics
        n = len(physics.poses)
        self.v_body = np.zeros((n, 3))
        self.driven = np.ones(n, dtype=np.bool_)
        self.platforms = np.full(n, DOWN)

    def go(self, seconds, check=None):
        for _ in range(round(seconds / self.physics.timestep)):
            self.physics.advance(self.v_body, self.driven, self.platforms)
            if check is not None:
                check()


def discs_of(physics, scene):
    """Return robots and legs as rows x, y, radius, owner, worked out from the poses alone."""
    rows = [
        (*pose[:2], robot.spec.body.bounding_radius, i)
        for i, (robot, pose) in enumerate(zip(scene.robots, physics.poses, strict=True))
    ]
    for k, (item, pose) in enumerate(zip(scene.carriers, physics.carrier_poses, strict=True)):
        c, s = math.cos(pose[2]), math.sin(pose[2])
        owner = physics.carried_by[k] if physics.carried_by[k] >= 0 else len(scene.robots) + item.body
        if sum(other.body == item.body for other in scene.carriers) > 1:
            owner = len(scene.robots) + item.body
        rows += [
            (pose[0] + c * x - s * y, pose[1] + s * x + c * y, item.carrier.leg_radius, owner)
            for x, y in legs_of(item.carrier)
        ]
    return np.array(rows)


def deepest(physics, scene):
    """Return the deepest overlap between discs of different owners, and of discs and what stands fast."""
    discs = discs_of(physics, scene)
    apart = np.hypot(discs[:, None, 0] - discs[None, :, 0], discs[:, None, 1] - discs[None, :, 1])
    overlap = discs[:, None, 2] + discs[None, :, 2] - apart
    overlap[discs[:, None, 3] == discs[None, :, 3]] = 0.0
    worst = overlap.max()
    for x1, y1, x2, y2 in scene.segments():
        along = np.array((x2 - x1, y2 - y1))
        to = discs[:, :2] - (x1, y1)
        share = np.clip(to @ along / (along @ along), 0, 1)
        worst = max(worst, (discs[:, 2] - np.hypot(*(to - share[:, None] * along).T)).max())
    for x, y, radius in scene.pillars():
        worst = max(worst, (discs[:, 2] + radius - np.hypot(discs[:, 0] - x, discs[:, 1] - y)).max())
    return worst


def crowded(seed, count, size, kinds):
    """Return places for robots of radii up to 0.125 m on a grid with some jitter, without overlaps."""
    rng = np.random.default_rng(seed)
    side = math.ceil(math.sqrt(count))
    pitch = size / side
    slack = (pitch - 0.255) / 2
    places = rng.permutation(side * side)[:count]
    robots = []
    for place in places:
        x = (place % side + 0.5) * pitch - size / 2 + rng.uniform(-slack, slack)
        y = (place // side + 0.5) * pitch - size / 2 + rng.uniform(-slack, slack)
        robots.append((kinds[rng.integers(len(kinds))], (x, y, rng.uniform(-math.pi, math.pi))))
    return robots, rng


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40), st.floats(0.0, 0.1))
def test_nothing_overlaps_in_a_dense_crowd_that_pushes_at_full_speed(seed, count, room):
    size = math.ceil(math.sqrt(count)) * (0.256 + room)
    robots, rng = crowded(seed, count, size, [DOTS, EPUCK])
    scene = scene_of(robots, size=(size, size))
    drive = Drive(PlanarPhysics(scene))
    assert deepest(drive.physics, scene) <= 0
    for _ in range(8):
        # Half of the time all towards one place: the hardest push.
        drive.v_body[:] = rng.uniform(-1, 1, (count, 3)) * (2.0, 2.0, 6.0)
        if rng.random() < 0.5:
            yaw = drive.physics.poses[:, 2]
            drive.v_body[:, 0], drive.v_body[:, 1] = 2 * np.cos(1.0 - yaw), 2 * np.sin(1.0 - yaw)
        drive.go(0.2, lambda: _check(drive, scene, size))


def _check(drive, scene, size):
    assert deepest(drive.physics, scene) <= MILLIMETRE
    assert np.abs(drive.physics.poses[:, :2]).max(initial=0.0) <= size / 2
    assert np.isfinite(drive.physics.twists).all()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_nothing_overlaps_among_carriers_boxes_and_cylinders(seed):
    rng = np.random.default_rng(seed)
    cells = rng.permutation(25)
    at = [
        ((c % 5 - 2) * 0.62 + rng.uniform(-0.03, 0.03), (c // 5 - 2) * 0.62 + rng.uniform(-0.03, 0.03))
        for c in cells
    ]
    robots = [(DOTS, (*p, rng.uniform(-3, 3))) for p in at[:8]]
    carriers = [((*p, rng.uniform(-3, 3)), i) for i, p in enumerate(at[8:14])]
    # Two robots start below carriers.
    robots += [(DOTS, pose) for pose, _ in carriers[:2]]
    obstacles = [
        BoxObstacle(shape="box", size=(0.2, 0.3), pose=(*at[14], 0.5)),
        CylinderObstacle(shape="cylinder", radius=0.1, pose=(*at[15], 0.0)),
    ]
    scene = scene_of(robots, carriers, obstacles, size=(3.3, 3.3), payload=1.0)
    drive = Drive(PlanarPhysics(scene))
    for _ in range(8):
        drive.v_body[:] = rng.uniform(-1, 1, (10, 3)) * (2.0, 2.0, 6.0)
        drive.platforms[:] = rng.choice([UP, DOWN], 10)
        drive.go(0.3, lambda: _check(drive, scene, 3.3))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_bodies_that_roll_out_never_gain_energy(seed):
    robots, rng = crowded(seed, 16, 1.3, [DOTS, EPUCK])
    scene = scene_of(robots, size=(1.3, 1.3))
    drive = Drive(PlanarPhysics(scene))
    drive.v_body[:] = rng.uniform(-1, 1, (16, 3)) * (2.0, 2.0, 6.0)
    drive.go(0.3)
    drive.driven[:] = False
    masses = np.array([spec.body.mass for spec, _ in robots])
    before = math.inf
    # An e-puck that a DOTS robot hits takes that long.
    for _ in range(400):
        drive.go(0.01)
        energy = float((masses * (drive.physics.twists[:, :2] ** 2).sum(axis=1)).sum())
        assert energy <= before + 1e-12
        before = energy
    assert before == 0.0


@settings(max_examples=25, deadline=None)
@given(st.floats(-1.4, 1.4), st.floats(-0.5, 0.5), st.sampled_from([DOTS, EPUCK]))
def test_nothing_passes_a_thin_wall_at_two_metres_a_second(direction, y, spec):
    scene = scene_of([(spec, (-1.0, y, direction))], size=(6.0, 6.0), walls=((0.0, -3.0, 0.0, 3.0),))
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.v_body[:] = (2.0, 0.0, 0.0)

    def check():
        assert physics.poses[0, 0] <= -spec.body.radius + MILLIMETRE

    drive.go(2.5, check)


def test_a_carrier_that_turns_fast_passes_no_wall_with_its_legs():
    scene = scene_of(
        [(DOTS, (-0.35, 0, 0.3))], [((-0.35, 0, 0.3), 0)], size=(6, 6), walls=((0.0, -3.0, 0.0, 3.0),)
    )
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.platforms[:] = UP
    drive.go(1.0)
    assert physics.carried_by[0] == 0
    drive.v_body[:] = (1.0, 0.5, 6.0)

    def check():
        assert discs_of(physics, scene)[1:, 0].max() <= -TRAY.leg_radius + MILLIMETRE

    drive.go(3.0, check)


def test_holonomic_robots_go_anywhere_within_their_acceleration():
    scene = scene_of([(DOTS, (0, 0, 0.7))])
    drive = Drive(PlanarPhysics(scene))
    drive.v_body[:] = (0.6, -0.8, 0.0)
    drive.go(0.1)
    speed = math.hypot(*drive.physics.twists[0, :2])
    assert speed == pytest.approx(0.1 * DOTS.limits.acceleration_available)
    drive.go(0.4)
    assert drive.physics.twists[0] == pytest.approx([0.6, -0.8, 0])
    drive.v_body[:] = (0, 0, 3.0)
    drive.go(1.0)
    assert drive.physics.twists[0] == pytest.approx([0, 0, 3.0], abs=1e-9)
    slow = Drive(PlanarPhysics(scene, acceleration="limited"))
    slow.v_body[:] = (0.6, -0.8, 0.0)
    slow.go(0.1)
    assert math.hypot(*slow.physics.twists[0, :2]) == pytest.approx(0.1 * DOTS.limits.acceleration)


def test_a_robot_that_drives_and_turns_goes_on_a_circle():
    drive = Drive(PlanarPhysics(scene_of([(EPUCK, (0, 0, 0)), (DOTS, (1, 1, 0))])))
    drive.v_body[:] = (0.1, 0, 1.0)
    drive.go(1.0)
    for twist in drive.physics.twists:
        assert twist == pytest.approx([0.1, 0, 1.0], abs=1e-9)
    before = drive.physics.poses.copy()
    drive.go(2 * math.pi)
    assert drive.physics.poses[:, :2] == pytest.approx(before[:, :2], abs=1e-3)


def test_differential_robots_do_not_move_sideways():
    scene = scene_of([(EPUCK, (0, 0, 0.4))])
    drive = Drive(PlanarPhysics(scene))
    drive.v_body[:] = (0.0, 0.15, 0.0)
    drive.go(1.0)
    assert drive.physics.poses[0, :2] == pytest.approx([0, 0])
    drive.v_body[:] = (0.15, 0.15, 2.0)
    drive.go(1.0)
    assert drive.physics.twists[0, 1] == pytest.approx(0, abs=1e-12)
    assert drive.physics.twists[0, 0] == pytest.approx(0.15)


def test_drives_that_are_off_brake():
    drive = Drive(PlanarPhysics(scene_of([(DOTS, (0, 0, 0))])))
    drive.v_body[:] = (1.0, 0, 0)
    drive.go(0.5)
    drive.driven[:] = False
    drive.go(0.2)
    assert 0.1 < drive.physics.twists[0, 0] < 0.3
    drive.go(0.5)
    assert not drive.physics.twists.any()


def test_a_drive_comes_up_as_mujocos_does():
    drive = Drive(PlanarPhysics(scene_of([(DOTS, (0, 0, 0))])))
    drive.v_body[:] = (0.02, 0, 0.1)
    drive.go(DRIVE_TIME)
    share = 1 - math.exp(-1)
    assert drive.physics.twists[0] == pytest.approx((0.02 * share, 0, 0.1 * share), abs=1e-9)


def test_a_box_body_is_its_bounding_disc():
    scene = scene_of([(PIONEER, (0, 0, 0))])
    drive = Drive(PlanarPhysics(scene))
    drive.v_body[:] = (1.0, 0, 0)
    drive.go(4.0)
    assert drive.physics.poses[0, 0] == pytest.approx(2.5 - PIONEER.body.bounding_radius, abs=MILLIMETRE)


def test_velocities_lose_what_closes_and_keep_the_rest():
    scene = scene_of([(DOTS, (2.0, 0, 0)), (DOTS, (-1, 0, 0)), (DOTS, (-0.5, 0, 0))])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.v_body[0] = (0.5, 0.5, 0)
    drive.v_body[1] = (1.0, 0, 0)
    drive.driven[2] = False
    passed = 0.0
    for _ in range(100):
        drive.go(0.01)
        passed = max(passed, physics.twists[2, 0])
    # Along the wall.
    assert physics.twists[0] == pytest.approx([0, 0.5, 0], abs=1e-6)
    # Two of the same mass that stick together share the momentum of the one.
    assert passed == pytest.approx(0.5, abs=0.05)


def test_contacts_are_told_once_with_their_speed_and_names():
    scene = scene_of(
        [(DOTS, (-1, 0, 0)), (DOTS, (0, 0, 0)), (DOTS, (2.2, 0, 0))],
        obstacles=[CylinderObstacle(shape="cylinder", radius=0.2, pose=(2.2, 1.0, 0))],
    )
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.v_body[0, 0] = 0.5
    drive.go(3.0)
    told = list(physics.contacts())
    assert [item[:2] for item in told] == [("robot1", "robot2")]
    assert told[0][2] == pytest.approx(0.5)
    drive.go(1.0)
    assert physics.contacts() == []
    # Away for less than half a second is the same contact, for longer another.
    drive.v_body[0, 0] = -0.05
    drive.go(0.3)
    drive.v_body[0, 0] = 0.1
    drive.go(0.15)
    assert physics.contacts() == []
    drive.v_body[0, 0] = -0.1
    drive.go(1.0)
    drive.v_body[0, 0] = 0.1
    drive.go(1.5)
    assert [item[:2] for item in physics.contacts()] == [("robot1", "robot2")]
    drive.v_body[:] = 0
    drive.v_body[2] = (1.0, 1.0, 0)
    drive.go(2.0)
    assert sorted(item[:2] for item in physics.contacts()) == [("robot3", "obstacle1"), ("robot3", "wall")]


def test_a_harder_hit_within_half_a_second_is_told():
    physics = PlanarPhysics(scene_of([(DOTS, (2.34, 0, 0))]))
    drive = Drive(physics)

    def told():
        return [item[2] for item in physics.contacts() if item[:2] == ("robot1", "wall")]

    drive.v_body[0, 0] = 0.03
    drive.go(1.5)
    assert told() == [pytest.approx(0.03, abs=0.005)]
    # It rests, then pushes harder: that is no contact.
    drive.v_body[0, 0] = 0.3
    drive.go(0.3)
    assert told() == []
    drive.v_body[0, 0] = -0.25
    drive.go(0.12)
    assert 2.375 - physics.poses[0, 0] > 0.005
    drive.v_body[0, 0] = 0.25
    drive.go(0.3)
    assert told() == [pytest.approx(0.25, abs=0.02)]
    # And back again, but more slowly than that.
    drive.v_body[0, 0] = -0.2
    drive.go(0.1)
    drive.v_body[0, 0] = 0.1
    drive.go(0.35)
    assert told() == []


def test_drives_push_themselves_aside_on_their_way_round_and_their_loads():
    scene = scene_of([(DOTS, (-1, 1, 0)), (EPUCK, (0, 0, 0)), (DOTS, (0, -1, 0))], [((0, -1, 0), 0)])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.platforms[:] = UP
    drive.go(1.0)
    drive.v_body[:] = (0.5, 0.0, 1.0), (0.1, 0.0, 1.0), (0.2, 0.0, 0.0)
    drive.go(0.01)
    # Two thirds more mass than its own.
    loaded = 1 + TRAY.mass / DOTS.body.mass
    available = DOTS.limits.acceleration_available
    assert physics.pushes == pytest.approx(
        [available, EPUCK.limits.acceleration_available, available * loaded], rel=1e-4
    )
    drive.go(1.5)
    assert physics.pushes == pytest.approx([0.5, 0.1, 0.0], abs=1e-3)


def test_a_low_robot_enters_a_carrier_and_leaves_it_where_it_is():
    scene = scene_of([(DOTS, (-0.6, 0, 0))], [((0, 0, 0), 0)])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.v_body[:] = (0.3, 0, 0)
    drive.go(4.0)
    assert physics.poses[0, 0] > 0.4
    assert physics.carrier_poses[0] == pytest.approx([0, 0, 0])
    assert physics.contacts() == []


def test_a_robot_pushes_a_carrier_at_its_leg_and_friction_stops_it():
    scene = scene_of([(DOTS, (-0.6, 0.12, 0))], [((0, 0, 0), 0)])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.v_body[:] = (0.3, 0, 0)
    drive.go(2.5)
    assert physics.carrier_poses[0, 0] > 0.02
    assert abs(physics.carrier_poses[0, 2]) > 0.2
    (contact,) = [item for item in physics.contacts() if item[1] == "carrier1"][:1]
    assert contact[0] == "robot1"
    assert 0.2 < contact[2] <= 0.3
    drive.v_body[:] = 0
    drive.go(0.3)
    before = physics.carrier_poses.copy()
    drive.go(0.5)
    assert (physics.carrier_poses == before).all()


def test_a_carrier_is_lifted_carried_and_put_down():
    scene = scene_of([(DOTS, (0.005, 0.003, 1.0))], [((0, 0, 0.1), 0)], payload=1.8)
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.platforms[:] = UP
    drive.go(1.0)
    assert physics.heights[0] == pytest.approx(UP)
    assert physics.carried_by.tolist() == [0]
    assert physics.carrier_lifts[0] == pytest.approx(UP - TRAY.clearance)
    drive.v_body[:] = (0.3, 0.1, 0.8)
    before = _relative(physics)
    drive.go(2.0)
    assert _relative(physics) == pytest.approx(before, abs=1e-9)
    assert math.hypot(*physics.carrier_poses[0, :2]) > 0.2
    drive.v_body[:] = 0
    drive.platforms[:] = DOWN
    drive.go(1.0)
    assert physics.carried_by.tolist() == [-1]
    assert physics.carrier_lifts[0] == 0
    assert physics.heights[0] == pytest.approx(DOWN)
    place = physics.carrier_poses[0].copy()
    # Out between the legs, along the carrier's own axis.
    yaw = place[2] - physics.poses[0, 2]
    drive.v_body[:] = (0.2 * math.cos(yaw), 0.2 * math.sin(yaw), 0)
    drive.go(3.0)
    assert physics.carrier_poses[0] == pytest.approx(place, abs=0.02)
    assert math.hypot(*(physics.poses[0, :2] - physics.carrier_poses[0, :2])) > 0.3


def _relative(physics):
    c, s = np.cos(physics.poses[0, 2]), np.sin(physics.poses[0, 2])
    dx, dy = physics.carrier_poses[0, :2] - physics.poses[0, :2]
    return np.array([c * dx + s * dy, c * dy - s * dx, physics.carrier_poses[0, 2] - physics.poses[0, 2]])


def test_a_platform_off_the_middle_is_stopped_by_the_tray():
    scene = scene_of([(DOTS, (-0.2, 0, 0))], [((0, 0, 0), 0)])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.platforms[:] = UP
    drive.go(2.0)
    assert physics.carried_by.tolist() == [-1]
    assert physics.heights[0] == pytest.approx(TRAY.clearance)
    assert physics.carrier_poses[0] == pytest.approx([0, 0, 0])


def test_a_raised_robot_does_not_fit_below_a_tray():
    scene = scene_of([(DOTS, (-0.8, 0, 0))], [((0, 0, 0), 0)])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.platforms[:] = UP
    drive.go(1.0)
    drive.v_body[:] = (0.2, 0, 0)
    drive.go(3.0)
    gap = physics.carrier_poses[0, 0] - TRAY.length / 2 - physics.poses[0, 0] - DOTS.body.radius
    assert physics.carrier_poses[0, 0] > 0.03
    assert abs(gap) < 0.005
    assert physics.carried_by.tolist() == [-1]


def test_a_carried_carrier_stops_at_walls_and_other_robots():
    scene = scene_of([(DOTS, (0, 0, 0)), (DOTS, (0.5, 1.2, 0))], [((0, 0, 0), 0)])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.platforms[0] = UP
    drive.go(1.0)
    drive.v_body[0] = (0.3, 0, 0)
    drive.go(9.0)
    assert physics.poses[0, 0] == pytest.approx(2.5 - TRAY.length / 2, abs=MILLIMETRE)
    assert ("carrier1", "wall") in [item[:2] for item in physics.contacts()]
    physics.move_robot(1, (2.5 - TRAY.length / 2 + 0.1, 1.0, 0))
    drive.v_body[0] = 0
    drive.v_body[1] = (0, -0.3, 0)
    drive.go(3.0)
    assert physics.poses[1, 1] > 0.15
    assert ("robot2", "carrier1") in [item[:2] for item in physics.contacts()]


def test_joined_carriers_are_lifted_by_all_and_follow_all():
    half = TRAY.length / 2
    scene = scene_of(
        [(DOTS, (-half, 0, 0)), (DOTS, (half, 0.005, 1.5))],
        [((-half, 0, 0), 0), ((half, 0, 0), 0)],
        payload=0.5,
    )
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.platforms[0] = UP
    drive.go(1.0)
    assert physics.carried_by.tolist() == [-1, -1]
    assert physics.heights[0] == pytest.approx(TRAY.clearance)
    drive.platforms[1] = UP
    drive.go(1.5)
    assert physics.carried_by.tolist() == [0, 1]
    assert physics.carrier_lifts == pytest.approx([UP - TRAY.clearance] * 2)
    # Sideways and about the middle, each robot as a rigid motion asks of it.
    for _ in range(200):
        for i in range(2):
            arm = physics.poses[i, :2] - physics.carrier_poses[:, :2].mean(axis=0)
            vx, vy = 0.1 - 0.3 * arm[1], 0.05 + 0.3 * arm[0]
            c, s = math.cos(physics.poses[i, 2]), math.sin(physics.poses[i, 2])
            drive.v_body[i] = (c * vx + s * vy, c * vy - s * vx, 0.3)
        drive.go(0.01)
    middle = physics.carrier_poses[:, :2].mean(axis=0)
    assert middle == pytest.approx([0.2, 0.1], abs=0.02)
    assert physics.carrier_poses[:, 2] == pytest.approx([0.6, 0.6], abs=0.03)
    apart = np.hypot(*(physics.poses[0, :2] - physics.poses[1, :2]))
    assert apart == pytest.approx(math.hypot(2 * half, 0.005))
    assert np.hypot(*(physics.carrier_poses[0, :2] - physics.carrier_poses[1, :2])) == pytest.approx(2 * half)
    drive.v_body[:] = 0
    drive.platforms[1] = DOWN
    drive.go(1.0)
    assert physics.carried_by.tolist() == [-1, -1]
    assert physics.heights[0] == pytest.approx(TRAY.clearance)


def test_hands_move_robots_and_carriers():
    half = TRAY.length / 2
    scene = scene_of([(DOTS, (-half, 0, 0)), (DOTS, (half, 0, 0))], [((-half, 0, 0), 0), ((half, 0, 0), 0)])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.platforms[:] = UP
    drive.go(1.5)
    assert physics.carried_by.tolist() == [0, 1]
    physics.move_carrier(1, (1.0, 1.0, math.pi / 2))
    assert physics.carried_by.tolist() == [-1, -1]
    assert physics.carrier_poses[1] == pytest.approx([1.0, 1.0, math.pi / 2])
    assert physics.carrier_poses[0] == pytest.approx([1.0, 1.0 - 2 * half, math.pi / 2])
    physics.move_robot(0, (-2.0, -2.0, 0.5))
    assert physics.poses[0] == pytest.approx([-2.0, -2.0, 0.5])
    drive.go(0.5)
    assert physics.poses[0] == pytest.approx([-2.0, -2.0, 0.5])
    # Put onto another, it is pushed out, not stuck.
    physics.move_robot(0, (half + 0.05, 0.02, 0.0))
    drive.go(0.5)
    assert deepest(physics, scene) <= MILLIMETRE


def test_boxes_come_and_go():
    scene = scene_of([(DOTS, (-1, 0, 0))])
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    drive.v_body[:] = (0.5, 0, 0)
    before = len(physics.segments)
    physics.add_box("gate", (0.5, 0, 0), (0.1, 1.0))
    with pytest.raises(SimError, match="gate"):
        physics.add_box("gate", (0.5, 0, 0), (0.1, 1.0))
    drive.go(4.0)
    assert physics.poses[0, 0] == pytest.approx(0.45 - DOTS.body.radius, abs=MILLIMETRE)
    assert [item[:2] for item in physics.contacts()] == [("robot1", "gate")]
    physics.remove_box("gate")
    assert len(physics.segments) == before
    with pytest.raises(SimError, match="gate"):
        physics.remove_box("gate")
    drive.go(4.0)
    assert physics.poses[0, 0] > 0.6
    # It may come back, and another one then.
    physics.add_box("gate", (-1.0, 0, 0), (0.1, 1.0))
    physics.add_box("another", (-1.5, 0, 0), (0.1, 1.0))
    drive.v_body[:] = (-0.5, 0, 0)
    drive.go(9.0)
    assert physics.poses[0, 0] == pytest.approx(-0.95 + DOTS.body.radius, abs=MILLIMETRE)
    assert ("robot1", "gate") in [item[:2] for item in physics.contacts()]
    with pytest.raises(SimError, match="robot1"):
        physics.add_box("robot1", (0.5, 0, 0), (0.1, 1.0))


def guest(pose, spec=DOTS, name="guest"):
    return RobotPlacement(name, spec, pose)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_whoever_comes_and_goes_in_a_dense_crowd_leaves_all_else_where_it_is(seed):
    rng = np.random.default_rng(seed)
    at = [((c % 5 - 2) * 0.62, (c // 5 - 2) * 0.62) for c in rng.permutation(25)]
    robots = [(DOTS, (*p, rng.uniform(-3, 3))) for p in at[:6]]
    carriers = [((*p, rng.uniform(-3, 3)), i) for i, p in enumerate(at[6:10])]
    robots += [(DOTS, pose) for pose, _ in carriers[:2]]
    obstacles = [BoxObstacle(shape="box", size=(0.2, 0.3), pose=(*at[14], 0.5))]
    scene = scene_of(robots, carriers, obstacles, size=(3.3, 3.3))
    physics = PlanarPhysics(scene)
    drive = Drive(physics)
    platforms = {robot.name: DOWN for robot in scene.robots}
    names = [robot.name for robot in scene.robots]
    free = [(*p, 0.0) for p in at[15:]]
    for turn in range(10):
        before = dict(
            zip(names, np.hstack([physics.poses, physics.twists, physics.heights[:, None]]), strict=True)
        )
        held = {k: names[i] for k, i in enumerate(physics.carried_by) if i >= 0}
        lifts = physics.carrier_lifts.copy()
        gone = ""
        if rng.random() < 0.5:
            clear = [
                pose
                for pose in free
                if np.hypot(*(physics.poses[:, :2] - pose[:2]).T).min(initial=9.0) > 0.26
                and np.hypot(*(physics.carrier_poses[:, :2] - pose[:2]).T).min(initial=9.0) > 0.4
            ]
            if clear:
                spec = (DOTS, EPUCK)[rng.integers(2)]
                physics.add_robot(guest(clear[0], spec, f"guest{turn}"))
                names.append(f"guest{turn}")
                assert physics.poses[-1] == pytest.approx(clear[0])
                assert not physics.twists[-1].any()
        elif names:
            row = int(rng.integers(len(names)))
            physics.remove_robot(row)
            gone = names.pop(row)
        after = dict(
            zip(names, np.hstack([physics.poses, physics.twists, physics.heights[:, None]]), strict=True)
        )
        for name, row in before.items():
            # Those that hold a tray together with who goes let go of it, too.
            assert name == gone or after[name].tolist() == row.tolist()
        for k, by in enumerate(physics.carried_by):
            assert (names[by] if by >= 0 else None) == (held.get(k) if held.get(k) != gone else None)
            assert physics.carrier_lifts[k] == (lifts[k] if by >= 0 else 0.0)
        drive = Drive(physics)
        drive.v_body[:] = rng.uniform(-1, 1, (len(names), 3)) * (2.0, 2.0, 6.0)
        platforms = {
            name: rng.choice([UP, DOWN]) if turn % 3 == 0 else platforms.get(name, UP) for name in names
        }
        drive.platforms[:] = [platforms[name] for name in names]
        now = dataclasses.replace(scene, robots=physics._scene.robots)
        assert [robot.name for robot in now.robots] == names
        drive.go(0.2, lambda now=now, drive=drive: _check(drive, now, 3.3))
        known = {*names, *(item.name for item in scene.carriers), "wall", "obstacle1"}
        assert {name for item in physics.contacts() for name in item[:2]} <= known


def test_what_touches_goes_on_touching_when_robots_come_and_go():
    post = CylinderObstacle(shape="cylinder", radius=0.1, pose=(0.4, 1.0, 0.0))
    robots = [(DOTS, (-1, 0, 0)), (DOTS, (2.2, 0, 0)), (DOTS, (-1, 2, 0))]
    physics = PlanarPhysics(scene_of(robots, [((0, -1, 0), 0)], [post]))
    physics.add_box("gate", (-1.0, 2.3, 0.0), (0.5, 0.1))
    drive = Drive(physics)
    drive.v_body[1:] = [(0.5, 0, 0), (0, 0.5, 0)]
    drive.go(1.0)
    physics.add_robot(guest((0.0, 1.0, 0.0)))
    drive = Drive(physics)
    drive.v_body[1:3] = [(0.5, 0, 0), (0, 0.5, 0)]
    drive.go(0.2)
    physics.remove_robot(0)
    drive = Drive(physics)
    drive.v_body[:2] = [(0.5, 0, 0), (0, 0.5, 0)]
    drive.go(0.2)
    told = sorted(item[:2] for item in physics.contacts())
    assert told == [("robot2", "wall"), ("robot3", "gate")]
    physics.add_robot(guest((1.0, -2.0, 0.0), name="another"))
    physics.remove_box("gate")
    drive = Drive(physics)
    drive.v_body[:3] = [(0.5, 0, 0), (0, 0.5, 0), (0.2, 0, 0)]
    drive.go(2.0)
    assert physics.poses[1, 1] == pytest.approx(2.5 - DOTS.body.radius, abs=MILLIMETRE)
    assert sorted(item[:2] for item in physics.contacts()) == [("guest", "obstacle1"), ("robot3", "wall")]


@pytest.mark.parametrize("row", [1, 2])
def test_who_takes_the_row_of_one_that_goes_touches_anew(row):
    places = [(0.3, 0, 0), (0, 2, 0)] if row == 1 else [(0, 2, 0), (0.3, 0, 0)]
    physics = PlanarPhysics(scene_of([(DOTS, place) for place in [(0, 0, 0), *places]]))
    drive = Drive(physics)
    drive.v_body[row, 0] = -0.3
    drive.go(0.5)
    physics.remove_robot(row)
    physics.move_robot(1, (physics.poses[0, 0] + 2 * DOTS.body.radius + 0.01, 0, 0))
    drive = Drive(physics)
    drive.v_body[1, 0] = -0.3
    drive.go(0.3)
    told = [{*item[:2]} for item in physics.contacts()]
    assert told == [{"robot1", f"robot{row + 1}"}, {"robot1", f"robot{4 - row}"}]


def test_joined_carriers_are_put_down_when_one_of_their_robots_goes():
    half = TRAY.length / 2
    poses = [(-half, 0.0, 0.0), (half, 0.0, 0.0)]
    physics = PlanarPhysics(scene_of([(DOTS, pose) for pose in poses], [(pose, 0) for pose in poses]))
    drive = Drive(physics)
    drive.platforms[:] = UP
    drive.go(1.0)
    assert physics.carried_by.tolist() == [0, 1]
    physics.remove_robot(0)
    assert physics.carried_by.tolist() == [-1, -1]
    assert not physics.carrier_lifts.any()
    assert physics.heights.tolist() == [TRAY.clearance]
    drive = Drive(physics)
    drive.v_body[:] = (0.3, 0, 0)
    drive.go(0.5)
    assert physics.poses[0, 0] > half + 0.05
    assert physics.carrier_poses[:, 0] == pytest.approx([-half, half], abs=MILLIMETRE)


def test_a_wider_robot_that_comes_stops_at_walls_and_others():
    scene = scene_of([(EPUCK, (0.0, 0.0, 0.0)), (EPUCK, (-2.3, -2.0, 0.0))])
    physics = PlanarPhysics(scene)
    physics.add_robot(guest((-1.5, 0.0, 0.0), PIONEER))
    drive = Drive(physics)
    drive.v_body[2] = (1.0, 0, 0)
    now = dataclasses.replace(scene, robots=physics._scene.robots)
    drive.go(5.0, lambda: _check(drive, now, 5.0))
    told = {frozenset(item[:2]) for item in physics.contacts()}
    assert told >= {frozenset(("robot1", "guest")), frozenset(("robot1", "wall"))}
    assert physics.poses[2, 0] == pytest.approx(
        2.5 - 2 * EPUCK.body.radius - PIONEER.body.bounding_radius, abs=0.01
    )


def test_a_floor_without_walls_has_no_end():
    scene = scene_of([(DOTS, (0, 0, 0)), (DOTS, (900, 0, 0))], size=None)
    drive = Drive(PlanarPhysics(scene))
    drive.v_body[:] = (2.0, 0, 0)
    drive.go(10.0)
    assert drive.physics.poses[0, 0] == pytest.approx(19.5, abs=0.1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_the_grid_lists_all_that_is_within_reach(seed):
    rng = np.random.default_rng(seed)
    segments = rng.uniform(-5, 5, (rng.integers(0, 6), 4))
    pillars = np.abs(rng.uniform(-5, 5, (rng.integers(0, 4), 3))) * (1, 1, 0.3)
    reach = rng.uniform(0.2, 3)
    grid = StaticGrid(segments, pillars, reach)
    left, bottom, size, columns, _ = grid.frame
    for x, y in rng.uniform(-9, 9, (20, 2)):
        near = set()
        for i, (x1, y1, x2, y2) in enumerate(segments):
            for share in np.linspace(0, 1, 101):
                if math.hypot(x1 + share * (x2 - x1) - x, y1 + share * (y2 - y1) - y) <= reach:
                    near.add(i)
        for i, (px, py, radius) in enumerate(pillars):
            if math.hypot(px - x, py - y) - radius <= reach:
                near.add(len(segments) + i)
        column, row = math.floor((x - left) / size), math.floor((y - bottom) / size)
        if 0 <= column < columns and 0 <= row < grid.frame[4]:
            cell = int(row * columns + column)
            assert near <= set(grid.items[grid.starts[cell] : grid.starts[cell + 1]].tolist())
        else:
            assert not near


def run_and_hash():
    """Return a digest of a run of everything at once; another process has to get the same."""
    robots, rng = crowded(3, 20, 2.0, [DOTS, EPUCK])
    scene = scene_of(robots, [((1.6, 1.6, 0.2), 0), ((-1.6, 1.6, 0.2), 1)], size=(4, 4))
    drive = Drive(PlanarPhysics(scene))
    digest = hashlib.sha256()
    for _ in range(30):
        drive.v_body[:] = rng.uniform(-1, 1, (20, 3)) * (2.0, 2.0, 6.0)
        drive.go(0.1)
        digest.update(drive.physics.poses.tobytes() + drive.physics.carrier_poses.tobytes())
        digest.update(repr(drive.physics.contacts()).encode())
    return digest.hexdigest()


def test_runs_are_bit_identical_in_one_process_and_two():
    here = run_and_hash()
    assert run_and_hash() == here
    code = f"import runpy; print(runpy.run_path({__file__!r})['run_and_hash']())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_make_furnishes_the_world():
    world = make(scene_of([(DOTS, (0, 0, 0))], [((1, 0, 0), 0)]), np.random.SeedSequence(1))
    assert isinstance(world, SimWorld)
    assert world.timestep == 0.01
    world.step()
    assert world.truth().shape == (1, 6)
    assert world.device("robot1").spec is DOTS
