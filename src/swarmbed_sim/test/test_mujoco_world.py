"""Bodies in MuJoCo: they drive within their limits, collide, lift, carry, put down, bit by bit the same."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import RobotPlacement, make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.errors import SimError
from swarmbed_sim.mujoco_world import MujocoPhysics
from swarmbed_sim.solid import DRIVE_TIME, LIFTED, QUIET

DOTS = RobotSpec.load("dots")
RADIUS = DOTS.body.radius
LOWERED, RAISED = DOTS.lifter.lowered, DOTS.lifter.raised
LIFT = RAISED - DOTS.carrier.clearance


def physics(robots, carriers=(), kind="dots", payload=0.0, joined=None, obstacles=()):
    groups = []
    if carriers:
        groups.append({"place": {"poses": carriers}, "payload": payload, "joined": joined})
    scenario = {
        "version": 1,
        "title": "bodies",
        "time_limit": 1,
        "robots": [{"kind": kind, "place": {"poses": robots}}],
        "carriers": groups,
        "obstacles": obstacles,
        "controller": {"name": "none"},
    }
    return MujocoPhysics(make_scene(Scenario.model_validate(scenario)))


class Run:
    """Drives the robots of a physics."""

    def __init__(self, bodies):
        self.bodies = bodies
        count = len(bodies.poses)
        self.v_body = np.zeros((count, 3))
        self.driven = np.ones(count, dtype=bool)
        self.platforms = np.full(count, LOWERED)
        self.before = bodies.twists.copy()
        self.acceleration = 0.0

    def go(self, seconds, v_body=None, watch=None):
        if v_body is not None:
            self.v_body[:] = v_body
        for _ in range(round(seconds / self.bodies.timestep)):
            self.bodies.advance(self.v_body, self.driven, self.platforms)
            if watch:
                watch()

    def lift(self, up, rows=slice(None)):
        """Move platforms over a full travel within `travel_time`, then wait a little."""
        begin = self.platforms[rows].copy()
        steps = round(DOTS.lifter.travel_time / self.bodies.timestep)
        for k in range(steps):
            end = RAISED if up else LOWERED
            self.platforms[rows] = begin + (end - begin) * (k + 1) / steps
            self.go(self.bodies.timestep)
        self.go(0.3)

    def ramp(self, direction, speed, acceleration, seconds):
        """Speed up along a direction of the body, go on for a while and stop."""
        direction = np.asarray(direction, dtype=float)
        steps = round(speed / acceleration / self.bodies.timestep)
        for k in range(steps):
            self.go(self.bodies.timestep, direction * speed * (k + 1) / steps)
        self.go(seconds, direction * speed)
        for k in range(steps):
            self.go(self.bodies.timestep, direction * speed * (1 - (k + 1) / steps))
        self.go(0.3, (0, 0, 0))


def on_robot(bodies, row=0, carrier=0):
    """Return the pose of a carrier in a robot's frame."""
    x, y, yaw = bodies.poses[row]
    dx, dy = bodies.carrier_poses[carrier, :2] - (x, y)
    c, s = math.cos(yaw), math.sin(yaw)
    turn = bodies.carrier_poses[carrier, 2] - yaw
    return np.array([c * dx + s * dy, c * dy - s * dx, math.remainder(turn, 2 * math.pi)])


def gap(bodies):
    """Return how far apart the first two robots' sides are."""
    return math.hypot(*(bodies.poses[0] - bodies.poses[1])[:2]) - 2 * RADIUS


# Driving


def test_starts_where_the_scene_has_it():
    bodies = physics([(0.5, -0.5, 1.0)], [(-1.0, 1.0, 0.3)])
    assert bodies.poses[0] == pytest.approx((0.5, -0.5, 1.0))
    assert bodies.carrier_poses[0] == pytest.approx((-1.0, 1.0, 0.3))
    assert bodies.heights[0] == pytest.approx(LOWERED)
    assert bodies.carried_by.tolist() == [-1]
    Run(bodies).go(1.0)
    assert bodies.poses[0] == pytest.approx((0.5, -0.5, 1.0), abs=1e-9)
    assert bodies.carrier_poses[0] == pytest.approx((-1.0, 1.0, 0.3), abs=1e-5)
    assert bodies.carrier_lifts[0] == pytest.approx(0.0, abs=1e-3)


def test_arrays_stay_the_same_objects():
    bodies = physics([(0, 0, 0)], [(1, 1, 0)])
    arrays = (bodies.poses, bodies.twists, bodies.heights, bodies.carrier_poses, bodies.carrier_lifts)
    Run(bodies).go(0.1, (0.5, 0, 0))
    bodies.add_box("crate", (-1, -1, 0), (0.2, 0.2))
    Run(bodies).go(0.1, (0.5, 0, 0))
    after = (bodies.poses, bodies.twists, bodies.heights, bodies.carrier_poses, bodies.carrier_lifts)
    assert all(one is other for one, other in zip(arrays, after, strict=True))
    assert bodies.poses[0, 0] > 0.01


@pytest.mark.parametrize("wanted", [(0.5, 0.0, 0.0), (0.0, -0.4, 2.0), (0.6, 0.6, -3.0), (-1.2, 1.2, 5.0)])
def test_reaches_the_velocity_in_its_own_frame_and_never_accelerates_beyond_its_limits(wanted):
    bodies = physics([(0.0, 0.0, 0.7)])
    run = Run(bodies)
    last = np.zeros(3)
    most = [0.0, 0.0]

    def watch():
        nonlocal last
        c, s = math.cos(bodies.poses[0, 2]), math.sin(bodies.poses[0, 2])
        vx, vy, omega = bodies.twists[0]
        now = np.array([c * vx - s * vy, s * vx + c * vy, omega])
        most[0] = max(most[0], math.hypot(*(now - last)[:2]) / bodies.timestep)
        most[1] = max(most[1], abs(now[2] - last[2]) / bodies.timestep)
        last = now

    run.go(1.0, wanted, watch)
    # Turning at 5 rad/s and 1.7 m/s takes more than the limit across: there the robot lags behind.
    if math.hypot(*wanted[:2]) * abs(wanted[2]) < DOTS.limits.acceleration_available:
        assert bodies.twists[0] == pytest.approx(wanted, abs=2e-3)
    assert bodies.twists[0, 2] == pytest.approx(wanted[2], abs=1e-3)
    run.go(0.5, (0, 0, 0), watch)
    assert 1.5 < most[0] <= DOTS.limits.acceleration_available * (1 + 1e-6)
    assert most[1] <= DOTS.limits.yaw_acceleration * (1 + 1e-6)


def test_follows_a_ramp_with_the_lag_of_its_drive():
    bodies = physics([(-2.0, 0.0, 0.0)])
    run = Run(bodies)
    for k in range(50):
        run.go(0.01, (1.0 * (k + 1) * 0.01, 0, 0))
    # Held for a step, the force sees half a step less of the ramp.
    assert bodies.twists[0, 0] == pytest.approx(0.5 - DRIVE_TIME, abs=0.01)


def test_a_robot_that_is_not_driven_brakes():
    bodies = physics([(-2.0, 0.0, 0.0)])
    run = Run(bodies)
    run.go(1.0, (1.0, 0, 0))
    run.driven[:] = False
    start = bodies.poses[0, 0]
    run.go(1.0)
    assert bodies.twists[0] == pytest.approx(0, abs=1e-6)
    way = bodies.poses[0, 0] - start
    assert way == pytest.approx(1.0 / (2 * DOTS.limits.acceleration_available), abs=0.02)


def test_wishes_that_are_not_finite_stop_the_robot():
    bodies = physics([(0, 0, 0)], [(1, 1, 0)])
    run = Run(bodies)
    run.go(0.5, (0.5, 0, 0))
    run.platforms[:] = math.nan
    run.go(1.0, (math.nan, math.inf, 0))
    assert bodies.twists[0] == pytest.approx(0, abs=1e-6)
    assert bodies.heights[0] == pytest.approx(LOWERED, abs=1e-4)


@pytest.mark.parametrize("kind", ["epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
def test_other_kinds_drive_after_a_rest_and_hold_on_sideways(kind):
    bodies = physics([(0.0, 0.0, 0.0)], kind=kind)
    run = Run(bodies)
    run.go(1.0)
    run.go(1.5, (0.1, 0.0, 0.5))
    assert bodies.twists[0] == pytest.approx((0.1, 0.0, 0.5), abs=2e-3)
    assert bodies.heights[0] == 0.0


# Contacts


@pytest.mark.parametrize("ahead", [0.0, 0.0011, 0.0023])
def test_robots_that_collide_overlap_little_and_tell_how_fast(ahead):
    bodies = physics([(-0.6, 0.0, 0.0), (ahead, 0.0, math.pi)])
    run, least = Run(bodies), [1.0]

    def watch():
        least[0] = min(least[0], gap(bodies))

    run.go(3.0, (0.25, 0, 0), watch)
    assert -0.001 < least[0] < 0.002
    assert bodies.contacts() == [("dots1", "dots2", pytest.approx(0.5, abs=0.01))]
    # They push on, and neither wins.
    assert bodies.twists == pytest.approx(0, abs=1e-3)
    assert not bodies.contacts()


def test_the_speed_is_that_of_closing_in():
    bodies = physics([(-0.6, 0.0, 0.0), (0.0, 0.35, math.pi / 2)])
    run = Run(bodies)
    run.driven[1] = False
    run.go(1.5, (0.4, 0.3, 0.0))
    aside = abs(0.6 * 0.6 - 0.35 * 0.8)
    share = math.sqrt(1 - (aside / (2 * RADIUS)) ** 2)
    assert bodies.contacts() == [("dots1", "dots2", pytest.approx(0.5 * share, abs=0.01))]


def test_a_turning_tray_closes_in_with_its_corner():
    bodies = physics([(0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    # Nearer to the wall than a scene lets a carrier start.
    bodies.move_robot(0, (2.3, 0.0, 0.0))
    bodies.move_carrier(0, (2.3, 0.0, 0.0))
    run = Run(bodies)
    run.lift(True)
    run.go(0.6, (0, 0, 1.0))
    corner = math.hypot(DOTS.carrier.length, DOTS.carrier.width) / 2
    aside = math.sqrt(corner**2 - 0.2**2)
    assert bodies.contacts() == [("carrier1", "wall", pytest.approx(aside * 1.0, abs=0.01))]


def test_what_touches_goes_on_touching_when_boxes_change():
    bodies = physics([(2.3, 0.0, 0.0)])
    run = Run(bodies)
    run.go(1.0, (0.3, 0, 0))
    bodies.add_box("crate", (0.0, 0.0, 0.0), (0.2, 0.2))
    run.go(0.1)
    bodies.remove_box("crate")
    run.go(0.1)
    assert [found[:2] for found in bodies.contacts()] == [("dots1", "wall")]


def test_contacts_begin_anew_only_after_half_a_second():
    bodies = physics([(2.2, 0.0, 0.0)])
    run = Run(bodies)
    run.go(1.0, (0.3, 0, 0))
    assert [found[:2] for found in bodies.contacts()] == [("dots1", "wall")]
    run.go(0.2, (-0.05, 0, 0))
    run.go(0.4, (0.3, 0, 0))
    assert not bodies.contacts()
    run.go(QUIET + 0.3, (-0.1, 0, 0))
    run.go(1.0, (0.3, 0, 0))
    ((one, other, speed),) = bodies.contacts()
    assert (one, other) == ("dots1", "wall")
    assert speed == pytest.approx(0.3, abs=0.01)


def test_a_harder_hit_within_half_a_second_is_told():
    bodies = physics([(2.34, 0.0, 0.0)])
    run = Run(bodies)
    run.go(1.5, (0.03, 0, 0))
    assert bodies.contacts() == [("dots1", "wall", pytest.approx(0.03, abs=0.005))]
    # It rests, then pushes harder: that is no contact.
    run.go(0.3, (0.3, 0, 0))
    assert not bodies.contacts()
    run.go(0.1, (-0.1, 0, 0))
    assert 2.5 - RADIUS - bodies.poses[0, 0] > 0.005
    fastest = [0.0]

    def watch():
        fastest[0] = max(fastest[0], bodies.twists[0, 0])

    run.go(0.33, (0.25, 0, 0), watch)
    assert fastest[0] > 0.1
    assert bodies.contacts() == [("dots1", "wall", pytest.approx(fastest[0], abs=0.02))]
    # And back again, but more slowly than that.
    run.go(0.1, (-0.2, 0, 0))
    run.go(0.35, (0.1, 0, 0))
    assert not bodies.contacts()


def test_on_its_way_round_a_robot_pushes_itself_aside():
    bodies = physics([(0.0, 0.0, 0.0)])
    Run(bodies).go(1.5, (0.5, 0, 1.0))
    assert bodies.pushes == pytest.approx([0.5], abs=0.01)


def test_drives_of_two_wheels_do_not_hold_them_sideways():
    bodies = physics([(0.0, 0.0, 0.0)], kind="pioneer3dx")
    run = Run(bodies)
    run.go(0.5)
    bodies._qvel[1] = 0.5
    run.go(0.01)
    assert bodies.twists[0, 1] < 0.45
    assert bodies.pushes[0] == pytest.approx(0.0, abs=1e-6)


def test_a_robot_against_a_wall_stays_there():
    bodies = physics([(2.0, 0.0, 0.4)])
    run, least = Run(bodies), [1.0]

    def watch():
        least[0] = min(least[0], 2.5 - RADIUS - bodies.poses[0, 0])

    run.go(1.0, (2.0, 0.0, 0.0))
    run.go(10.0, (2.0, 0.0, 0.0), watch)
    assert least[0] > -0.002
    assert np.abs(bodies.twists).max() < 2.1
    run.go(1.0, (0, 0, 0))
    assert bodies.twists == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(
    "obstacle",
    [
        {"shape": "box", "size": [0.2, 0.4], "pose": [1.0, 0.0, 0.0]},
        {"shape": "cylinder", "radius": 0.1, "pose": [1.0, 0.0, 0.0]},
    ],
)
def test_obstacles_stop_robots_and_carriers(obstacle):
    bodies = physics([(0.0, 0.0, 0.0), (0.0, 2.0, 0.0)], [(0.0, 0.0, 0.0)], obstacles=[obstacle])
    run = Run(bodies)
    run.lift(True, 0)
    run.go(4.0, [(0.3, 0, 0), (0, 0, 0)])
    # The tray's front meets the box's side; the legs at its corners pass the cylinder.
    assert bodies.carrier_poses[0, 0] == pytest.approx(0.9 - 0.165, abs=0.01)
    # Then the robot slides on under the tray that cannot follow.
    found = list(bodies.contacts())
    assert found[0] == ("carrier1", "obstacle1", pytest.approx(0.3, abs=0.02))
    bodies.move_carrier(0, (-1, 1, 0))
    run.lift(False)
    run.go(2.0, [(0.3, 0, 0), (0, 0, 0)])
    assert bodies.poses[0, 0] == pytest.approx(0.9 - RADIUS, abs=0.005)
    found += bodies.contacts()
    assert ("dots1", "obstacle1") in [contact[:2] for contact in found]


def test_a_robot_pushes_a_carrier_by_its_leg():
    bodies = physics([(-0.6, 0.14, 0.0)], [(0.0, 0.0, 0.0)])
    run = Run(bodies)
    run.go(2.0, (0.3, 0, 0))
    ((one, other, speed),) = bodies.contacts()
    assert (one, other) == ("dots1", "carrier1")
    assert 0.2 < speed < 0.31
    assert bodies.carrier_poses[0, 0] > 0.02
    assert bodies.carrier_lifts[0] == pytest.approx(0.0, abs=1e-3)


def test_a_raised_platform_meets_the_side_of_a_tray():
    bodies = physics([(-0.8, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    run = Run(bodies)
    run.lift(True)
    run.go(2.0, (0.3, 0, 0))
    assert bodies.contacts() == [("dots1", "carrier1", pytest.approx(0.3, abs=0.01))]
    assert bodies.carried_by[0] == -1


# Lifting and carrying


@pytest.mark.parametrize("payload", [0.0, 1.8])
@pytest.mark.parametrize("speed", [0.3, 0.8])
def test_lifts_carries_and_puts_down(payload, speed):
    bodies = physics([(-1.5, -0.5, 0.5)], [(-1.5, -0.5, 0.6)], payload=payload)
    run = Run(bodies)
    run.lift(True)
    assert bodies.heights[0] == pytest.approx(RAISED, abs=0.02 * (RAISED - LOWERED))
    assert bodies.carrier_lifts[0] == pytest.approx(LIFT, abs=1e-3)
    assert bodies.carried_by.tolist() == [0]
    start = on_robot(bodies)
    run.ramp((1.0, 0.0, 0.0), speed, DOTS.limits.acceleration, 0.7)
    run.ramp((0.0, 1.0, 0.0), speed, DOTS.limits.acceleration, 0.7)
    run.ramp((0.0, 0.0, 1.0), 2.0, 10.0, 1.0)
    slip = on_robot(bodies) - start
    assert math.hypot(*slip[:2]) < 3e-4
    assert abs(slip[2]) < 3e-3
    assert bodies.carried_by.tolist() == [0]
    run.lift(False)
    assert bodies.carried_by.tolist() == [-1]
    assert bodies.carrier_lifts[0] == pytest.approx(0.0, abs=1e-3)
    assert not bodies.contacts()


def test_drives_in_and_out_between_the_legs():
    bodies = physics([(-1.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    run = Run(bodies)
    run.go(4.0, (0.5, 0, 0))
    assert bodies.poses[0] == pytest.approx((0.96, 0.0, 0.0), abs=0.05)
    assert bodies.carrier_poses[0] == pytest.approx((0, 0, 0), abs=1e-4)
    assert not bodies.contacts()


def test_a_loaded_robot_accelerates_less():
    gained = []
    for payload in (0.0, 1.8):
        bodies = physics([(-1.5, 0.0, 0.0)], [(-1.5, 0.0, 0.0)], payload=payload)
        run = Run(bodies)
        run.lift(True)
        run.go(0.2, (2.0, 0, 0))
        gained.append(bodies.twists[0, 0] / 0.2)
    force = DOTS.body.mass * DOTS.limits.acceleration_available
    assert gained[0] == pytest.approx(force / 3.2, rel=0.02)
    assert gained[1] == pytest.approx(force / 5.0, rel=0.02)
    # Also under the largest load it can do what motion control asks for.
    assert gained[1] > DOTS.limits.acceleration


def test_a_platform_does_not_raise_what_is_too_heavy():
    bodies = physics(
        [(1.5, 1.5, 0.0)], [(0, 0, 0)], payload=1.8, joined=[(0, 0), (1, 0), (0, 1), (1, 1), (2, 0)]
    )
    run = Run(bodies)
    bodies.move_robot(0, tuple(bodies.carrier_poses[0]))
    run.lift(True)
    assert bodies.heights[0] < RAISED - 0.01
    assert (bodies.carrier_lifts < LIFTED).all()


def test_a_carrier_without_a_robot_below_is_carried_by_the_first_that_lifts_its_body():
    bodies = physics(
        [(0.5, 0.5, 0.0), (0.5, 0.5 + 2 * DOTS.carrier.width, 0.0)],
        [(-1, -1, 0)],
        joined=[(0, 0), (0, 1), (0, 2)],
    )
    bodies.move_carrier(0, (0.5, 0.5, 0.0))
    Run(bodies).lift(True)
    assert bodies.carried_by.tolist() == [0, 0, 1]
    assert bodies.carrier_lifts == pytest.approx(LIFT, abs=1e-3)


def test_four_robots_carry_joined_carriers():
    cells = [(0, 0), (1, 0), (0, 1), (1, 1)]
    half = DOTS.carrier.length / 2
    places = [(-1.0 - half, -half, 0.0), (-1.0 + half, -half, 1.0), (-1.0 - half, half, 2.0)]
    places.append((-1.0 + half, half, -1.0))
    bodies = physics(places, [(-1.0, 0.0, 0.0)], joined=cells, payload=0.5)
    assert bodies.carrier_poses[:, :2] == pytest.approx(np.array(places)[:, :2])
    run = Run(bodies)
    run.lift(True)
    assert bodies.carried_by.tolist() == [0, 1, 2, 3]
    assert bodies.carrier_lifts == pytest.approx(LIFT, abs=1e-3)
    start = bodies.carrier_poses.copy()
    before = np.array([on_robot(bodies, i, i) for i in range(4)])
    for k in range(300):
        speed = min(0.3, 0.01 * k, 0.01 * (300 - k))
        yaw = bodies.poses[:, 2]
        run.go(0.01, np.column_stack([speed * np.cos(yaw), -speed * np.sin(yaw), 0 * yaw]))
    run.go(0.3, (0, 0, 0))
    after = np.array([on_robot(bodies, i, i) for i in range(4)])
    assert np.abs(after - before).max() < 1e-3
    moved = bodies.carrier_poses - start
    assert moved[:, 0] == pytest.approx(0.8, abs=0.02)
    assert np.ptp(moved[:, 0]) < 1e-4
    run.lift(False)
    assert bodies.carried_by.tolist() == [-1] * 4


# Hands


def test_a_hand_moves_robots_and_carriers():
    bodies = physics([(-1.0, 0.0, 0.0)], [(1.0, 0.0, 0.0)])
    run = Run(bodies)
    run.go(1.0, (0.5, 0, 0))
    bodies.move_robot(0, (0.0, 1.0, 2.0))
    assert bodies.poses[0] == pytest.approx((0.0, 1.0, 2.0))
    assert bodies.twists[0] == pytest.approx(0)
    bodies.move_carrier(0, (-1.0, -1.0, 0.5))
    assert bodies.carrier_poses[0] == pytest.approx((-1.0, -1.0, 0.5))
    run.go(1.0, (0, 0, 0))
    assert bodies.poses[0] == pytest.approx((0.0, 1.0, 2.0), abs=1e-6)
    assert bodies.carrier_poses[0] == pytest.approx((-1.0, -1.0, 0.5), abs=1e-4)


def test_a_hand_moves_joined_carriers_as_one():
    bodies = physics([(-1.0, -1.0, 0.0)], [(0.5, 0.0, 0.4)], joined=[(0, 0), (1, 0)])
    bodies.move_carrier(1, (1.0, 1.0, math.pi / 2))
    assert bodies.carrier_poses[1] == pytest.approx((1.0, 1.0, math.pi / 2))
    assert bodies.carrier_poses[0] == pytest.approx((1.0, 1.0 - DOTS.carrier.length, math.pi / 2))


def test_a_carrier_taken_off_a_robot_is_carried_no_more():
    bodies = physics([(0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    run = Run(bodies)
    run.lift(True)
    assert bodies.carried_by[0] == 0
    bodies.move_carrier(0, (1.0, 1.0, 0.0))
    assert bodies.carried_by[0] == -1
    run.go(0.5)
    assert bodies.carrier_lifts[0] == pytest.approx(0.0, abs=1e-3)
    assert bodies.carrier_poses[0] == pytest.approx((1.0, 1.0, 0.0), abs=1e-4)


def test_a_lifted_carrier_falls_when_its_robot_is_taken_away():
    bodies = physics([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)])
    run = Run(bodies)
    run.lift(True)
    # All of it falls asleep.
    run.go(3.0)
    bodies.move_robot(0, (-1.0, -1.0, 0.0))
    run.go(0.5)
    assert bodies.carried_by.tolist() == [-1, 1]
    assert bodies.carrier_lifts == pytest.approx([0.0, LIFT], abs=1e-3)
    run.go(3.0)
    bodies.add_box("crate", (-2.0, 2.0, 0.0), (0.2, 0.2))
    bodies.move_robot(1, (-1.0, 1.0, 0.0))
    run.go(0.5)
    assert bodies.carrier_lifts == pytest.approx(0.0, abs=1e-3)


def test_what_sleeps_while_a_hand_moves_something_else_can_be_lifted_at_that_moment():
    bodies = physics([(0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0), (1.0, 1.0, 0.0)])
    run = Run(bodies)
    run.go(3.0)
    steps = round(DOTS.lifter.travel_time / bodies.timestep)
    for k in range(steps):
        # One of these steps is the one in which the platform comes to touch the tray.
        bodies.move_carrier(1, (1.0, -1.0 + 1e-3 * k, 0.0))
        run.platforms[:] = LOWERED + (RAISED - LOWERED) * (k + 1) / steps
        run.go(bodies.timestep)
    run.go(0.3)
    assert bodies.carried_by.tolist() == [0, -1]
    assert bodies.carrier_lifts[0] == pytest.approx(LIFT, abs=1e-3)


def test_the_engine_writes_no_file_of_warnings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bodies = physics([(0.0, 0.0, 0.0)])
    bodies._qvel[0] = 1e12
    with contextlib.suppress(SimError):
        Run(bodies).go(0.05)
    assert not list(tmp_path.iterdir())


def test_boxes_come_stop_robots_and_go():
    bodies = physics([(0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    run = Run(bodies)
    run.lift(True)
    run.go(0.5, (0.3, 0, 0))
    before = bodies.poses[0].copy(), bodies.twists[0].copy(), bodies.heights[0], len(bodies.segments)
    bodies.add_box("crate", (1.0, 0.0, 0.0), (0.2, 0.6))
    assert len(bodies.segments) == before[3] + 4
    run.go(0.01)
    assert bodies.poses[0] == pytest.approx(before[0] + (0.003, 0, 0), abs=1e-4)
    assert bodies.twists[0] == pytest.approx(before[1], abs=1e-3)
    assert bodies.heights[0] == pytest.approx(before[2], abs=1e-4)
    run.go(4.0)
    assert bodies.carrier_poses[0, 0] == pytest.approx(0.9 - 0.165, abs=0.01)
    assert bodies.carried_by[0] == 0
    found = bodies.contacts()
    assert ("carrier1", "crate") in [contact[:2] for contact in found]
    with pytest.raises(SimError, match="crate"):
        bodies.add_box("crate", (0.0, 1.0, 0.0), (0.2, 0.2))
    bodies.remove_box("crate")
    assert len(bodies.segments) == before[3]
    run.go(2.0)
    assert bodies.carrier_poses[0, 0] > 1.0
    assert not bodies.contacts()
    with pytest.raises(SimError, match="crate"):
        bodies.remove_box("crate")
    bodies.close()


# Robots that come and go


def test_what_comes_and_goes_leaves_the_rest_as_it_was():
    bodies = physics(
        [(-1.0, -1.0, 0.0), (0.0, 0.0, 0.0), (1.0, 1.0, 2.0)], [(0.0, 0.0, 0.0), (1.0, -1.0, 0.0)]
    )
    run = Run(bodies)
    run.lift(True, 1)
    run.go(0.4, [(0.3, 0.1, 0.5), (0.3, 0.0, 0.0), (0.0, 0.2, -1.0)])

    def state(rows):
        arrays = (bodies.poses, bodies.twists, bodies.pushes, bodies.heights)
        carriers = (bodies.carrier_poses, bodies.carrier_lifts)
        return [array[rows].tolist() for array in arrays], [array.tolist() for array in carriers]

    before = state([0, 1, 2])
    assert bodies.carried_by.tolist() == [1, -1]
    bodies.add_robot(RobotPlacement("epuck", RobotSpec.load("epuck2"), (2.0, 2.0, 1.0)))
    assert state([0, 1, 2]) == before
    bodies.add_robot(RobotPlacement("guest", DOTS, (-2.0, 2.0, 1.0)))
    assert state([0, 1, 2]) == before
    assert bodies.poses[3:] == pytest.approx(np.array([(2.0, 2.0, 1.0), (-2.0, 2.0, 1.0)]))
    assert bodies.heights[3:] == pytest.approx([0.0, LOWERED])
    after = state([1, 2, 4])
    bodies.remove_robot(3)
    assert state([0, 1, 2]) == before
    bodies.remove_robot(0)
    assert state([0, 1, 2]) == after
    assert bodies.carried_by.tolist() == [0, -1]
    v_body, platforms = run.v_body[1:], run.platforms[1:]
    run = Run(bodies)
    run.platforms[:2] = platforms
    run.go(0.5, [*v_body, (0.1, 0.0, 0.0)])
    assert bodies.carried_by.tolist() == [0, -1]
    assert bodies.carrier_lifts[0] == pytest.approx(LIFT, abs=1e-3)
    assert bodies.twists == pytest.approx(np.array([(0.3, 0, 0), (0, 0.2, -1), (0.1, 0, 0)]), abs=5e-3)
    run.lift(True, 2)
    assert bodies.heights == pytest.approx([RAISED, LOWERED, RAISED], abs=1e-3)


def test_what_touches_goes_on_touching_when_robots_come_and_go():
    bodies = physics([(-1.0, 0.0, 0.0), (2.3, 0.0, 0.0), (-1.0, 2.0, 0.0)])
    run = Run(bodies)
    run.go(1.0, [(0, 0, 0), (0.3, 0, 0), (0, 0, 0)])
    bodies.add_robot(RobotPlacement("guest", DOTS, (0.0, 1.0, 0.0)))
    run = Run(bodies)
    run.go(0.1, [(0, 0, 0), (0.3, 0, 0), (0, 0, 0), (0, 0, 0)])
    bodies.remove_robot(0)
    run = Run(bodies)
    run.go(0.1, [(0.3, 0, 0), (0, 0, 0), (0, 0, 0)])
    assert [found[:2] for found in bodies.contacts()] == [("dots2", "wall")]


def test_a_body_that_the_engine_takes_not_is_refused_and_changes_nothing():
    bodies = physics([(0.0, 0.0, 0.0)])
    light = DOTS.model_copy(update={"body": DOTS.body.model_copy(update={"mass": 0.1})})
    for placement in (RobotPlacement("light", light, (1, 1, 0)), RobotPlacement("world", DOTS, (1, 1, 0))):
        with pytest.raises(SimError, match=f"robot '{placement.name}': MuJoCo rejects its name or body"):
            bodies.add_robot(placement)
    run = Run(bodies)
    run.go(0.5, (0.5, 0, 0))
    assert bodies.poses.shape == (1, 3)
    assert bodies.poses[0, 0] > 0.15
    bodies.add_box("crate", (-1, -1, 0), (0.2, 0.2))
    run.go(0.1)


def test_boxes_stay_when_robots_come_and_go():
    bodies = physics([(0.0, 0.0, 0.0)])
    bodies.add_box("crate", (1.0, 0.0, 0.0), (0.2, 0.6))
    segments = bodies.segments.tolist()
    bodies.add_robot(RobotPlacement("guest", DOTS, (0.5, 0.0, 0.0)))
    bodies.remove_robot(0)
    assert bodies.segments.tolist() == segments
    run = Run(bodies)
    run.go(2.0, (0.3, 0, 0))
    assert bodies.poses[0, 0] == pytest.approx(0.9 - RADIUS, abs=0.005)
    assert [found[:2] for found in bodies.contacts()] == [("guest", "crate")]
    with pytest.raises(SimError, match="guest"):
        bodies.add_box("guest", (0.0, 1.0, 0.0), (0.2, 0.2))


def test_a_state_that_is_not_finite_is_told():
    bodies = physics([(0.0, 0.0, 0.0)])
    with pytest.raises(SimError, match="finite"):
        bodies.move_robot(0, (math.nan, 0.0, 0.0))


# Chance


def trace(seed):
    """Return a digest of a crowded run with collisions and lifting."""
    rng = np.random.default_rng(seed)
    robots = [(-1.0, -1.0, 0.0), (0.0, -1.0, 1.0), (1.0, -1.0, 2.0), (0.0, 1.5, 3.0)]
    carriers = [(-1.0, -1.0, 0.0), (0.0, 0.3, 0.0), (1.0, 1.0, 0.5)]
    bodies = physics(robots, carriers)
    run = Run(bodies)
    run.lift(True, 0)
    digest = hashlib.sha256()
    for k in range(40):
        run.go(0.1, rng.normal(0.0, 0.7, (4, 3)))
        if k == 20:
            bodies.add_box("crate", (-2.0, 2.0, 0.0), (0.2, 0.2))
        for array in (bodies.poses, bodies.twists, bodies.carrier_poses, bodies.carried_by):
            digest.update(array.tobytes())
        digest.update(repr(bodies.contacts()).encode())
    return digest.hexdigest()


def test_runs_repeat_bit_by_bit_in_one_process_and_in_two():
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {here!r}); from test_mujoco_world import trace; print(trace(3))"
    first = trace(3)
    assert trace(3) == first
    assert trace(4) != first
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.strip() == first
