from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swarmbed_core.geometry import compose, wrap
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.odometry import HOLD_TIME, Odometry, OdometryParams
from swarmbed_core.spec import RobotSpec

CYCLE = 0.01
DOTS = RobotSpec.load("dots")
WHEELS = Kinematics(DOTS.drive)
PROPERTY = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

speeds = st.floats(-1.0, 1.0)
rates = st.floats(-4.0, 4.0)


class Robot:
    """Wheels and gyro without any error, driven cycle by cycle."""

    def __init__(self, spec=DOTS, gyro=True):
        self.kinematics = Kinematics(spec.drive)
        self.odometry = Odometry(OdometryParams.from_spec(spec), self.kinematics.inverse)
        self.gyro = gyro
        self.bias = 0.0
        self.time = 0.0
        self.travel = np.zeros(self.kinematics.inverse.shape[1])
        self.read()

    def read(self, omega=0.0):
        gyro = omega + self.bias if self.gyro else None
        return self.odometry.step(self.time, self.travel, gyro)

    def roll(self, vx, vy, omega, dt=CYCLE):
        self.time += dt
        self.travel = self.travel + self.kinematics.matrix @ (vx, vy, omega) * dt

    def drive(self, vx, vy, omega, seconds, dt=CYCLE):
        for _ in range(round(seconds / dt)):
            self.roll(vx, vy, omega, dt)
            assert self.read(omega)

    @property
    def counts(self):
        return self.odometry.health.counts


def arc(vx, vy, omega, seconds):
    """Closed form of where a constant twist leads."""
    if abs(omega) < 1e-12:
        return np.array([vx * seconds, vy * seconds, wrap(omega * seconds)])
    angle = omega * seconds
    # 1 - cos(angle), without losing digits
    s, c = math.sin(angle), 2.0 * math.sin(0.5 * angle) ** 2
    return np.array([(vx * s - vy * c) / omega, (vx * c + vy * s) / omega, wrap(angle)])


def assert_pose(odometry, expected, atol=1e-9):
    np.testing.assert_allclose(odometry.pose[:2], expected[:2], atol=atol)
    assert abs(wrap(odometry.pose[2] - expected[2])) <= atol


@PROPERTY
@given(speeds, speeds, rates)
def test_a_constant_twist_without_gyro_leads_along_an_exact_arc(vx, vy, omega):
    robot = Robot(gyro=False)
    robot.drive(vx, vy, omega, 1.0)
    assert_pose(robot.odometry, arc(vx, vy, omega, 1.0))
    np.testing.assert_allclose(robot.odometry.twist_body, (vx, vy, omega), atol=1e-9)


@PROPERTY
@given(speeds, speeds, rates, st.lists(st.floats(0.004, 0.03), min_size=5, max_size=30))
def test_irregular_cycles_lead_to_the_same_place(vx, vy, omega, steps):
    robot = Robot()
    # Turning from here on: the mean with the rate at rest would be half of it.
    robot.roll(0.0, 0.0, omega)
    robot.read(omega)
    start = robot.odometry.pose
    for dt in steps:
        robot.roll(vx, vy, omega, dt)
        robot.read(omega)
    assert_pose(robot.odometry, compose(start, arc(vx, vy, omega, sum(steps))))


@PROPERTY
@given(st.lists(st.tuples(speeds, speeds, rates), min_size=1, max_size=20))
def test_the_way_back_ends_at_the_origin(moves):
    robot = Robot(gyro=False)
    for vx, vy, omega in moves:
        robot.drive(vx, vy, omega, CYCLE)
    for vx, vy, omega in reversed(moves):
        robot.drive(-vx, -vy, -omega, CYCLE)
    assert_pose(robot.odometry, (0.0, 0.0, 0.0))


def test_every_kind_drives_its_arc(any_spec):
    robot = Robot(any_spec, gyro=False)
    speed = 0.3 * any_spec.limits.speed
    turn = 0.3 * any_spec.limits.yaw_rate
    robot.drive(speed, 0.0, turn, 2.0)
    assert_pose(robot.odometry, arc(speed, 0.0, turn, 2.0))
    assert robot.odometry.health.total == 0


def test_a_gyro_of_a_kind_that_has_none_is_not_believed():
    robot = Robot(RobotSpec.load("convoy_car"))
    robot.bias = 1.0
    robot.drive(0.1, 0.0, 0.0, 1.0)
    assert_pose(robot.odometry, (0.1, 0.0, 0.0))


def test_the_turn_is_the_gyros_where_wheels_slip():
    robot = Robot()
    robot.read(1.0)
    for _ in range(101):
        robot.roll(0.0, 0.0, 2.0)
        robot.read(1.0)
    assert robot.odometry.pose[2] == pytest.approx(1.01 - 0.005, abs=0.002)
    assert robot.odometry.twist_body[2] == 1.0


def test_the_turn_of_a_cycle_is_the_mean_of_the_rates_at_its_ends():
    robot = Robot()
    turned = 0.0
    for k in range(100):
        before, after = 0.05 * k, 0.05 * (k + 1)
        robot.roll(0.0, 0.0, 0.5 * (before + after))
        robot.read(after)
        turned += 0.5 * (before + after) * CYCLE
    assert robot.odometry.pose[2] == pytest.approx(turned, abs=1e-12)


def test_the_bias_is_learned_while_standing_and_then_taken_off():
    robot = Robot()
    robot.bias = 0.008
    rng = np.random.default_rng(1)
    for _ in range(1000):
        robot.roll(0.0, 0.0, 0.0)
        robot.read(0.002 * rng.standard_normal())
    # 900 readings of sigma 0.002
    assert robot.odometry.gyro_bias == pytest.approx(0.008, abs=4 * 0.002 / 30)
    before = robot.odometry.pose[2]
    robot.drive(0.5, 0.0, 0.0, 10.0)
    assert wrap(robot.odometry.pose[2] - before) == pytest.approx(0.0, abs=10 * 4 * 0.002 / 30)


@pytest.mark.parametrize("omega", [0.005, 0.02, 0.5])
def test_a_turn_is_not_taken_for_bias(omega):
    robot = Robot()
    robot.drive(0.0, 0.0, omega, 10.0)
    assert abs(robot.odometry.gyro_bias) < 1e-9


def test_a_gyro_far_off_while_standing_is_not_taken_for_bias():
    robot = Robot()
    robot.bias = 0.5
    robot.drive(0.0, 0.0, 0.0, 3.0)
    assert robot.odometry.gyro_bias == 0.0


def test_missing_travel_is_made_up_for():
    robot = Robot()
    robot.drive(0.5, 0.2, 0.0, 0.5)
    for _ in range(7):
        robot.roll(0.5, 0.2, 0.0)
        assert not robot.odometry.step(robot.time, np.full(3, math.nan), 0.0)
        np.testing.assert_allclose(robot.odometry.twist_body, (0.5, 0.2, 0.0), atol=1e-9)
    robot.drive(0.5, 0.2, 0.0, 0.1)
    assert_pose(robot.odometry, (0.5 * 0.67, 0.2 * 0.67, 0.0))
    assert robot.counts == {"odometry.travel_not_finite": 7}


def test_a_missing_turn_of_the_wheels_is_made_up_for():
    robot = Robot(gyro=False)
    for _ in range(7):
        robot.roll(0.5, 0.2, 1.0)
        robot.odometry.step(robot.time, np.full(3, math.nan), None)
    robot.drive(0.5, 0.2, 1.0, 0.1)
    assert_pose(robot.odometry, arc(0.5, 0.2, 1.0, 0.17))


@pytest.mark.parametrize("gyro", [0.0, None])
def test_a_twist_is_not_held_for_long(gyro):
    robot = Robot()
    robot.drive(0.5, 0.2, 0.0, 0.5)
    for _ in range(round(HOLD_TIME / CYCLE) + 2):
        robot.roll(0.0, 0.0, 0.0)
        robot.odometry.step(robot.time, np.full(3, math.inf), gyro)
    np.testing.assert_array_equal(robot.odometry.twist_body, 0.0)


def test_an_encoder_that_starts_anew_does_not_move_the_robot():
    robot = Robot()
    robot.drive(0.5, 0.0, 0.0, 1.0)
    robot.travel = robot.travel + 7.0
    robot.time += CYCLE
    assert not robot.read()
    assert_pose(robot.odometry, (0.5, 0.0, 0.0))
    robot.drive(0.5, 0.0, 0.0, 1.0)
    assert_pose(robot.odometry, (1.0, 0.0, 0.0))
    assert robot.counts == {"odometry.travel_jump": 1}


def test_speeds_up_to_three_times_the_limit_are_believed():
    limit = DOTS.drive.wheels.max_speed
    for factor, used in ((2.99, True), (3.01, False)):
        robot = Robot()
        robot.time += CYCLE
        robot.travel = np.full(3, factor * limit * CYCLE)
        assert robot.read(0.0) is used


def test_a_clock_that_stands_still_loses_no_way():
    robot = Robot()
    robot.drive(0.5, 0.0, 0.0, 0.1)
    robot.roll(0.5, 0.0, 0.0, 0.0)
    assert not robot.read()
    robot.roll(0.5, 0.0, 0.0)
    assert robot.read()
    assert_pose(robot.odometry, (0.055, 0.0, 0.0))
    assert robot.counts == {"odometry.clock_still": 1}


@pytest.mark.parametrize("back", [0.003, 1.0, 1e6])
def test_a_clock_that_steps_backwards_loses_no_way(back):
    robot = Robot()
    robot.drive(0.5, 0.0, 0.0, 0.1)
    robot.roll(0.5, 0.0, 0.0, CYCLE)
    robot.time -= back + CYCLE
    assert not robot.read()
    robot.drive(0.5, 0.0, 0.0, 0.1)
    assert_pose(robot.odometry, (0.105, 0.0, 0.0))
    assert robot.counts == {"odometry.clock_back": 1}


def test_a_clock_that_leaps_forward_does_not_spin_the_robot():
    robot = Robot()
    robot.bias = 0.005
    robot.drive(0.0, 0.0, 0.0, 0.1)
    robot.roll(0.001, 0.0, 0.0, 3600.0)
    assert not robot.read()
    assert abs(robot.odometry.pose[2]) < 1e-3
    assert robot.counts == {"odometry.clock_gap": 1}


@pytest.mark.parametrize("gyro", [math.nan, math.inf, 1e30, -19.0])
def test_the_wheels_turn_serves_where_the_gyro_fails(gyro):
    robot = Robot()
    robot.roll(0.0, 0.0, 1.0)
    assert not robot.odometry.step(robot.time, robot.travel, gyro)
    assert robot.odometry.pose[2] == pytest.approx(0.01)
    assert robot.counts == {"odometry.gyro": 1}


def test_no_reading_from_a_slow_gyro_is_no_fault():
    robot = Robot()
    robot.roll(0.0, 0.0, 1.0)
    assert robot.odometry.step(robot.time, robot.travel, None)
    assert robot.odometry.health.total == 0


@pytest.mark.parametrize("stamp", [math.nan, math.inf, -math.inf, 1e300])
def test_a_stamp_that_is_no_time_is_refused(stamp):
    robot = Robot()
    assert not robot.odometry.step(stamp, robot.travel, 0.0)
    assert robot.counts == {"odometry.stamp": 1}


def test_travel_of_other_wheels_is_refused():
    robot = Robot()
    assert not robot.odometry.step(1.0, np.zeros(4), 0.0)
    assert robot.counts == {"odometry.travel_shape": 1}
    assert "3 numbers" in robot.odometry.health.latest["odometry.travel_shape"]


def test_it_starts_from_the_first_travel_that_is_one():
    odometry = Odometry(OdometryParams.from_spec(DOTS), WHEELS.inverse)
    assert not odometry.step(0.0, np.full(3, math.nan), 0.0)
    assert odometry.step(0.01, np.full(3, 55.0), 0.0)
    assert_pose(odometry, (0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    "inverse", [np.zeros((2, 3)), np.zeros(3), np.full((3, 3), math.nan), np.zeros((3, 0))]
)
def test_a_matrix_that_is_no_inverse_is_an_error(inverse):
    with pytest.raises(ValueError, match="wheel_inverse of shape"):
        Odometry(OdometryParams.from_spec(DOTS), inverse)


def test_travel_in_another_layout_is_taken():
    robot = Robot(gyro=False)
    robot.roll(0.5, 0.0, 0.0)
    assert robot.odometry.step(robot.time, np.repeat(robot.travel, 2)[::2], None)
    assert_pose(robot.odometry, (0.005, 0.0, 0.0))


def test_coarse_ticks_do_not_show_as_spikes_of_the_twist():
    spec = RobotSpec.load("convoy_car")
    params = OdometryParams.from_spec(spec)
    robot = Robot(spec)
    top = 0.0
    for k in range(500):
        robot.time += CYCLE
        robot.travel = np.floor(np.full(2, 0.1 * CYCLE * k) / params.tick) * params.tick
        assert robot.read()
        top = max(top, robot.odometry.twist_body[0])
    assert top < 0.1 + 0.25 * spec.drive.wheels.max_speed
    assert robot.odometry.pose[0] == pytest.approx(0.5, abs=2 * params.tick)


anything = st.one_of(st.floats(), st.floats(-10.0, 10.0))


@PROPERTY
@given(st.lists(st.tuples(anything, anything, anything, anything, st.none() | anything), max_size=40))
def test_whatever_comes_the_pose_stays_finite(readings):
    odometry = Odometry(OdometryParams.from_spec(DOTS), WHEELS.inverse)
    for stamp, a, b, c, gyro in readings:
        odometry.step(stamp, np.array([a, b, c]), gyro)
        assert np.isfinite(odometry.pose).all()
        assert np.isfinite(odometry.twist_body).all()
        assert -math.pi < odometry.pose[2] <= math.pi
