import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.formation import Course, Reckoning, slots_of
from swarmbed_core.errors import ConfigError
from swarmbed_core.robot import Senses
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")


def test_slots_lie_about_their_middle():
    slots = np.array(slots_of([(0, 0), (1, 0), (0, 1), (1, 1)], 0.3, 0.2))
    assert slots == pytest.approx(np.array([(-0.15, -0.1), (0.15, -0.1), (-0.15, 0.1), (0.15, 0.1)]))
    assert slots_of([(5, 7)], 0.3, 0.3) == ((0.0, 0.0),)


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2), st.floats(-3, 3)), min_size=1, max_size=4),
    st.floats(0.1, 0.6),
)
@settings(deadline=None, max_examples=20)
def test_a_course_is_gentle_to_the_outermost_carrier(waypoints, reach):
    course = Course.plan(tuple(waypoints), DOTS, reach, 0.15, 0.1)
    assert course.at(-1.0) == (0.0, 0.0, 0.0)
    x, y, yaw = course.at(course.duration + 1.0)
    assert (x, y) == pytest.approx(waypoints[-1][:2], abs=1e-6)
    assert math.cos(yaw - waypoints[-1][2]) == pytest.approx(1.0)
    times = np.arange(0.0, course.duration, 0.1)
    poses = np.array([course.at(t) for t in times])
    outermost = poses[:, :2] + reach * np.stack([np.cos(poses[:, 2]), np.sin(poses[:, 2])], 1)
    for places, most in ((poses[:, :2], 0.15), (outermost, 0.3)):
        speed = np.hypot(*np.diff(places, axis=0).T) / 0.1
        assert speed.max(initial=0.0) < most * 1.01


def test_a_course_that_cannot_be_driven_is_refused():
    with pytest.raises(ConfigError, match="path of the formation"):
        Course.plan(((1e5, 0.0, 0.0),), DOTS, 0.2, 0.15, 0.1)
    with pytest.raises(ConfigError, match="longer than 3600 s"):
        Course.plan(((600.0, 0.0, 0.0),), DOTS, 0.2, 0.15, 0.1)


def simulate(seed, drift, start_yaw=0.7, compass_bias=0.0, seconds=40.0):
    """Drive a circle with a gyro that drifts; return the reckoned and the true pose since the start."""
    rng = np.random.default_rng(seed)
    reckoning = Reckoning(DOTS)
    odom = np.array([3.0, -1.0, 0.4])
    true = np.array([0.0, 0.0, start_yaw])
    assert DOTS.compass is not None

    def senses(now):
        heading = true[2] + compass_bias + DOTS.compass.sigma * rng.standard_normal()
        return Senses(now, odom.copy(), np.zeros(3), heading=float(np.angle(np.exp(1j * heading))))

    for k in range(30):
        reckoning.stand(senses(0.1 * k))
    reckoning.set_off(senses(3.0))
    began = true.copy()
    for k in range(1, round(seconds * 10) + 1):
        speed, turn = 0.015, 0.02
        for pose, extra in ((true, 0.0), (odom, drift * 0.1)):
            moved = pose.copy()
            middle = moved[2] + (turn + extra) / 2
            pose[:] = moved + np.array([speed * math.cos(middle), speed * math.sin(middle), turn + extra])
        reckoning.update(senses(3.0 + 0.1 * k))
    dx, dy = true[:2] - began[:2]
    c, s = math.cos(start_yaw), math.sin(start_yaw)
    expected = np.array([c * dx + s * dy, c * dy - s * dx, true[2] - began[2]])
    error = np.array(reckoning.pose) - expected
    error[2] = np.angle(np.exp(1j * error[2]))
    return error


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("drift", [-3e-4, 0.0, 3e-4])
def test_the_compass_keeps_the_reckoning_from_turning_away(seed, drift):
    error = simulate(seed, drift)
    assert abs(error[2]) < 0.009
    assert np.hypot(*error[:2]) < 0.02


def test_a_compass_that_is_wrong_but_steady_does_no_harm():
    assert simulate(1, 2e-4, compass_bias=0.5) == pytest.approx(simulate(1, 2e-4), abs=1e-9)


def test_without_a_compass_reading_it_is_the_odometry():
    reckoning = Reckoning(DOTS)
    reckoning.set_off(Senses(0.0, np.array([1.0, 2.0, math.pi / 2]), np.zeros(3)))
    reckoning.update(Senses(0.1, np.array([1.0, 2.5, math.pi / 2 + 0.1]), np.zeros(3)))
    assert reckoning.pose == pytest.approx((0.5, 0.0, 0.1))
