from __future__ import annotations

import math

import numpy as np
import pytest
from swarmbed_behaviours.crowd_walk import CrowdWalk
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
EPUCK = RobotSpec.load("epuck2")
ANGLES = np.array(DOTS.ranges[0].angles)


class Senses:
    """Ranges and no more: a walk looks at nothing else."""

    def __init__(self, ranges, angles=ANGLES):
        self.ranges = ranges
        self.angles = angles


def walk_of(ranges, ticks=1, speed=0.5, seed=1):
    ranges = np.atleast_2d(ranges).astype(float)
    program = CrowdWalk(DOTS, speed, len(ranges), np.random.default_rng(seed))
    v_body = np.full((len(ranges), 3), 9.0)
    for _ in range(ticks):
        program.tick(Senses(ranges), v_body)
    return v_body, program


def test_with_nothing_near_it_goes_straight_on():
    v_body, _ = walk_of(np.full((2, 16), math.inf))
    assert v_body == pytest.approx(np.array([(0.5, 0, 0)] * 2))
    v_body, _ = walk_of(np.full((1, 16), 1.0))
    assert v_body[0] == pytest.approx([0.5, 0, 0])


def test_it_is_no_faster_than_its_robot():
    v_body, _ = walk_of(np.full((1, 16), math.inf), speed=50.0)
    assert v_body[0, 0] == DOTS.limits.speed


def test_it_is_slower_the_less_room_there_is_ahead():
    ranges = np.full((40, 16), math.inf)
    ranges[:, 0] = np.linspace(0.22, 0.8, 40)
    v_body, _ = walk_of(ranges)
    assert (np.diff(v_body[:, 0]) >= 0).all()
    assert 0 <= v_body[0, 0] < 0.25
    assert v_body[-1, 0] == 0.5
    assert not v_body[:, 1].any()


def test_what_is_behind_does_not_matter():
    ranges = np.full((1, 16), math.inf)
    ranges[0, 5:12] = 0.02
    v_body, _ = walk_of(ranges)
    assert v_body[0] == pytest.approx([0.5, 0, 0])


def test_before_a_wall_it_turns_on_the_spot_to_where_it_is_clear():
    ranges = np.full((200, 16), math.inf)
    ranges[:, [14, 15, 0, 1, 2]] = 0.1
    v_body, _ = walk_of(ranges)
    assert not v_body[:, :2].any()
    assert (np.abs(v_body[:, 2]) > 0).all()
    # Both ways, so that a crowd does not turn like one robot.
    assert 0.3 < (v_body[:, 2] > 0).mean() < 0.7


@pytest.mark.parametrize("kind", ["dots", "epuck2"])
def test_it_turns_until_it_looks_there_and_goes_on(kind):
    spec = RobotSpec.load(kind)
    ring = spec.ranges[0]
    blocked = np.full((1, ring.count), math.inf)
    angles = np.array(ring.angles)
    blocked[0, np.cos(angles) > 0.3] = 0.01
    sensors = [angle for item in spec.ranges for angle in item.angles]
    ranges = np.full((1, len(sensors)), math.inf)
    ranges[0, : ring.count] = blocked
    program = CrowdWalk(spec, 0.1, 1, np.random.default_rng(2))
    v_body = np.zeros((1, 3))
    program.tick(Senses(ranges, np.array(sensors)), v_body)
    turned = v_body[0, 2] * 0.1
    for _ in range(60):
        program.tick(Senses(np.full_like(ranges, math.inf), np.array(sensors)), v_body)
        if v_body[0, 0] > 0:
            break
        turned += v_body[0, 2] * 0.1
    assert v_body[0, 0] > 0
    assert abs(turned) > 0.8
    assert abs(v_body[0, 2]) <= spec.limits.yaw_rate


def test_a_near_return_that_is_doubled_for_once_does_not_speed_it_up():
    near, doubled = np.full((1, 16), math.inf), np.full((1, 16), math.inf)
    near[0, 0], doubled[0, 0] = 0.24, 0.48
    program = CrowdWalk(DOTS, 0.5, 1, np.random.default_rng(1))
    v_body = np.zeros((1, 3))
    program.tick(Senses(near), v_body)
    slow = v_body[0, 0]
    program.tick(Senses(doubled), v_body)
    assert slow < 0.3
    assert v_body[0, 0] < slow + 0.1


def test_a_robot_that_is_shut_in_stands():
    v_body, _ = walk_of(np.zeros((3, 16)), ticks=30)
    assert not v_body[:, :2].any()


def test_the_same_seed_is_the_same_walk():
    ranges = np.random.default_rng(1).uniform(0, 1, (100, 16))
    one, _ = walk_of(ranges, ticks=5)
    same, _ = walk_of(ranges, ticks=5)
    other, _ = walk_of(ranges, ticks=5, seed=2)
    assert (one == same).all()
    assert (one != other).any()
