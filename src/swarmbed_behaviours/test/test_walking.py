import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.walking import Surroundings, all_round, cruise, need_sight, sees, steer
from swarmbed_core.errors import ConfigError
from swarmbed_core.robot import Senses
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
EPUCK = RobotSpec.load("epuck2")


def around(spec, points, margin=0.0):
    made = Surroundings(spec, margin)
    made.look(Senses(1.0, np.zeros(3), np.zeros(3), points_body=np.array(points, dtype=float).reshape(-1, 2)))
    return made


def test_the_way_is_free_up_to_what_the_body_would_touch():
    wall = around(DOTS, [(1.0, 0.0)])
    assert wall.clearance(0.0) == pytest.approx(1.0 - 0.125)
    assert wall.clearance(math.pi / 2) == math.inf
    assert around(DOTS, [(1.0, 0.0)], margin=0.05).clearance(0.0) == pytest.approx(1.0 - 0.175)
    assert around(DOTS, [(1.0, 0.126)]).clearance(0.0) == math.inf
    assert around(DOTS, []).clearance(0.0) == math.inf


@given(st.floats(-math.pi, math.pi), st.floats(-math.pi, math.pi), st.floats(0.2, 3.0))
@settings(deadline=None)
def test_going_as_far_as_is_free_touches_nothing(direction, bearing, distance):
    point = distance * np.array([math.cos(bearing), math.sin(bearing)])
    free = min(around(DOTS, [point]).clearance(direction), 10.0)
    for share in np.linspace(0.0, 1.0, 20):
        there = share * free * np.array([math.cos(direction), math.sin(direction)])
        assert np.hypot(*(point - there)) > 0.125 - 1e-9


def test_returns_stay_where_they_were_while_the_robot_moves_and_are_forgotten():
    seen = Surroundings(DOTS, 0.0)
    seen.look(Senses(1.0, np.zeros(3), np.zeros(3), points_body=np.array([[1.0, 0.0]])))
    moved = Senses(1.2, np.array([0.5, 0.0, math.pi / 2]), np.zeros(3), points_body=np.empty((0, 2)))
    seen.look(moved)
    assert seen.points[0] == pytest.approx((0.0, -0.5))
    seen.look(moved)
    assert len(seen.points) == 1
    seen.look(Senses(2.0, np.zeros(3), np.zeros(3), points_body=np.empty((0, 2))))
    assert len(seen.points) == 0


@given(st.floats(-10, 10), st.floats(0.13, 3.0), st.floats(0, 2))
@settings(deadline=None)
def test_speed_is_bounded_by_the_free_way(direction, distance, speed):
    for spec in (DOTS, EPUCK):
        wall = around(spec, [(distance, 0.0), (0.0, distance)])
        vx, vy, omega = steer(spec, wall, direction, speed)
        assert math.hypot(vx, vy) <= min(speed, spec.limits.speed) + 1e-9
        assert abs(omega) <= spec.limits.yaw_rate
        if spec.holonomic:
            assert math.hypot(vx, vy) <= wall.clearance(direction) + 1e-9
        else:
            assert vy == 0.0
            assert 0.0 <= vx <= wall.clearance(0.0) + 1e-9


def test_it_closes_in_on_nothing_faster_than_the_gap_allows():
    for bearing in (0.0, 0.5, 1.2, 1.5):
        near = around(DOTS, [(0.3 * math.cos(bearing), 0.3 * math.sin(bearing))])
        assert near.pace(0.0) * math.cos(bearing) == pytest.approx(0.175)
    assert around(DOTS, [(0.0, -0.3), (-0.2, 0.0)]).pace(0.0) == math.inf
    assert around(DOTS, []).pace(0.0) == math.inf


def test_what_is_too_near_already_does_not_hold_the_robot():
    touching = around(DOTS, [(0.0, 0.13)], margin=0.05)
    assert touching.pace(0.0) == math.inf
    assert touching.pace(-1.0) == math.inf
    assert touching.pace(math.pi / 2) < 0.01
    assert touching.clearance(0.0) == math.inf


def test_a_differential_robot_turns_first():
    free = around(EPUCK, [])
    assert steer(EPUCK, free, math.pi / 2, 0.1)[0] == 0.0
    assert steer(EPUCK, free, math.pi / 2, 0.1)[2] > 0.5
    assert steer(EPUCK, free, 0.0, 0.1) == (0.1, 0.0, 0.0)
    assert steer(DOTS, free, math.pi / 2, 0.1, face=False) == pytest.approx((0.0, 0.1, 0.0))


def test_who_cannot_see_is_refused_by_name():
    pera = RobotSpec.load("pera_swarm")
    assert sees(pera, 0.0, 0.1)
    assert not sees(pera, 1.0, 0.5)
    with pytest.raises(ConfigError, match=r"a test: .*'pera_swarm'.* to the left"):
        need_sight(pera, "a test", math.pi / 2, 0.5, "to the left")
    assert all_round(DOTS)
    assert not all_round(pera)
    assert cruise(EPUCK, 0.5) == pytest.approx(0.8 * 0.154)
    assert cruise(DOTS, 0.5) == 0.5
