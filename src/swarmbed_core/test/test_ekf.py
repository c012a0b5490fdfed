from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swarmbed_core.ekf import EkfParams, PoseFilter
from swarmbed_core.ekf_check import Conditions, simulate
from swarmbed_core.ekf_kernel import Verdict
from swarmbed_core.geometry import compose, wrap
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.odometry import arc
from swarmbed_core.spec import RobotSpec

from swarmbed_core import ekf_kernel

CYCLE = 0.01
DOTS = RobotSpec.load("dots")
WHEELS = Kinematics(DOTS.drive)
SMALL = np.diag((1e-4, 1e-4, 1e-4))
PROPERTY = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Robot:
    """A robot without any error, and its filter."""

    def __init__(self, spec=DOTS, start=(0.0, 0.0, 0.0), params=None, lens_errors=0):
        self.kinematics = Kinematics(spec.drive)
        self.filter = PoseFilter(
            params or EkfParams.from_spec(spec), self.kinematics.inverse, lens_errors=lens_errors
        )
        self.gyro = spec.imu is not None
        self.pose = np.array(start)
        self.time = 0.0
        self.travel = np.zeros(self.kinematics.inverse.shape[1])
        self.poses = {}
        self.bias = 0.0
        self.omega = 0.0
        self.read()

    def read(self, omega=0.0):
        self.poses[round(self.time / CYCLE)] = self.pose
        return self.filter.step(self.time, self.travel, omega + self.bias if self.gyro else None)

    def roll(self, vx=0.0, vy=0.0, omega=0.0):
        """Move on by a cycle, at the end of which the robot turns at `omega`."""
        mean = 0.5 * (self.omega + omega)
        self.omega = omega
        self.time += CYCLE
        self.travel = self.travel + self.kinematics.matrix @ (vx, vy, mean) * CYCLE
        self.pose = compose(self.pose, (*arc(vx, vy, mean, 0.0, CYCLE)[:2], mean * CYCLE))

    def drive(self, seconds, vx=0.0, vy=0.0, omega=0.0, markers=False):
        """Drive, and see markers at every third cycle, seven cycles late."""
        for _ in range(round(seconds / CYCLE)):
            self.roll(vx, vy, omega)
            assert self.read(omega)
            k = round(self.time / CYCLE)
            if markers and k % 3 == 0 and k >= 7:
                self.see(k - 7)

    def see(self, k=None, off=(0.0, 0.0, 0.0), covariance=SMALL, lens=None):
        """Give the true pose, or one off it, of cycle k."""
        k = round(self.time / CYCLE) if k is None else k
        return self.filter.add_pose(k * CYCLE, self.poses[max(k, 0)] + off, covariance, lens)

    def look(self, cycles, lens):
        """Stand, and see markers in each cycle."""
        for _ in range(cycles):
            self.roll()
            self.read()
            self.see(lens=lens)

    @property
    def error(self):
        error = self.filter.pose - self.pose
        error[2] = wrap(error[2])
        return np.abs(error)

    @property
    def counts(self):
        return self.filter.health.counts


def assert_sound(pose_filter):
    """Check the covariance and the state's numbers."""
    covariance = pose_filter.covariance
    assert np.isfinite(pose_filter.pose).all()
    assert np.isfinite(pose_filter.twist_body).all()
    assert math.isfinite(pose_filter.gyro_bias)
    np.testing.assert_array_equal(covariance, covariance.T)
    scale = 1.0 / np.sqrt(np.diag(covariance))
    assert np.linalg.eigvalsh(covariance * np.outer(scale, scale)).min() > 0.0
    assert -math.pi < pose_filter.pose[2] <= math.pi


def test_the_first_marker_pose_localises():
    robot = Robot(start=(1.0, -2.0, 3.0))
    robot.drive(0.2, vx=0.5, omega=1.0)
    assert not robot.filter.localised
    assert robot.see(13) is Verdict.INITIALISED
    assert robot.filter.localised
    assert robot.error.max() < 1e-3
    robot.drive(1.0, vx=0.5, vy=-0.3, omega=1.0, markers=True)
    assert robot.error.max() < 1e-3
    np.testing.assert_allclose(robot.filter.twist_body, (0.5, -0.3, 1.0), atol=2e-3)
    assert robot.filter.health.total == 0


def test_a_given_start_localises_before_and_after_the_first_cycle():
    pose_filter = PoseFilter.for_robot(DOTS, WHEELS.inverse)
    assert pose_filter.start((1.0, 2.0, 0.5), SMALL) is Verdict.INITIALISED
    assert pose_filter.localised
    pose_filter.step(0.0, np.zeros(3), 0.0)
    np.testing.assert_allclose(pose_filter.pose, (1.0, 2.0, 0.5))
    assert pose_filter.start((3.0, 2.0, 0.5), SMALL) is Verdict.INITIALISED
    np.testing.assert_allclose(pose_filter.pose, (3.0, 2.0, 0.5))
    assert pose_filter.start((math.nan, 2.0, 0.5), SMALL) is Verdict.INVALID
    np.testing.assert_allclose(pose_filter.pose, (3.0, 2.0, 0.5))
    assert_sound(pose_filter)


def test_a_start_keeps_how_the_numbers_of_its_pose_depend_on_each_other():
    covariance = np.array([[2e-4, 1e-4, -5e-5], [1e-4, 3e-4, 8e-5], [-5e-5, 8e-5, 1e-4]])
    robot = Robot()
    assert robot.see(covariance=covariance) is Verdict.INITIALISED
    np.testing.assert_allclose(robot.filter.covariance[:3, :3], covariance + 1e-8 * np.eye(3))
    assert_sound(robot.filter)


def test_marker_poses_shrink_the_covariance_and_driving_grows_it():
    robot = Robot()
    robot.see()
    robot.drive(1.0, vx=1.0)
    before = np.trace(robot.filter.covariance[:3, :3])
    assert before > np.trace(SMALL)
    robot.see()
    assert np.trace(robot.filter.covariance[:3, :3]) < before


def test_every_kind_is_filtered(any_spec):
    robot = Robot(any_spec, start=(1.0, 1.0, 1.0))
    robot.drive(1.0)
    robot.see()
    speed, turn = 0.3 * any_spec.limits.speed, 0.3 * any_spec.limits.yaw_rate
    robot.drive(3.0, vx=speed, omega=turn, markers=True)
    assert robot.error.max() < 0.01
    assert robot.filter.twist_body[0] == pytest.approx(speed, rel=0.1)
    if not any_spec.holonomic:
        assert abs(robot.filter.twist_body[1]) < 1e-3
    assert_sound(robot.filter)


def test_the_odometry_below_starts_at_zero_and_ignores_markers():
    robot = Robot(start=(5.0, 5.0, 1.0))
    robot.drive(1.0, vx=0.5, markers=True)
    np.testing.assert_allclose(robot.filter.odometry.pose, (0.5, 0.0, 0.0), atol=1e-9)
    assert robot.filter.odometry.health is robot.filter.health


@pytest.mark.parametrize(
    ("stamp", "outcome"),
    [
        (0.49, Verdict.TOO_OLD),
        (-5.0, Verdict.TOO_OLD),
        (0.51, Verdict.ACCEPTED),
        (1.0, Verdict.ACCEPTED),
        (1.014, Verdict.ACCEPTED),
        (1.02, Verdict.FUTURE),
        (1e9, Verdict.FUTURE),
    ],
)
def test_a_measurement_must_be_of_the_last_half_second(stamp, outcome):
    robot = Robot()
    robot.see()
    robot.drive(1.0)
    assert robot.filter.add_pose(stamp, (0.0, 0.0, 0.0), SMALL) is outcome
    assert robot.filter.add_heading(stamp, 0.0, 0.01) is outcome
    refused = outcome is not Verdict.ACCEPTED
    assert robot.counts[f"ekf.pose_{outcome.name.lower()}"] == refused
    assert robot.counts[f"ekf.heading_{outcome.name.lower()}"] == refused


def test_before_the_first_cycle_everything_is_in_the_future():
    pose_filter = PoseFilter.for_robot(DOTS, WHEELS.inverse)
    assert pose_filter.add_pose(0.0, (0.0, 0.0, 0.0), SMALL) is Verdict.FUTURE
    assert pose_filter.add_heading(0.0, 0.0, 0.01) is Verdict.FUTURE
    assert not pose_filter.localised


lopsided = SMALL + np.array([[0, 5e-5, 0], [0, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("stamp", "pose", "covariance"),
    [
        (math.nan, (0, 0, 0), SMALL),
        (math.inf, (0, 0, 0), SMALL),
        (0.0, (math.nan, 0, 0), SMALL),
        (0.0, (0, 0, math.inf), SMALL),
        (0.0, (0, 0), SMALL),
        (0.0, "here", SMALL),
        (0.0, (1e9, 0, 0), SMALL),
        (0.0, (0, 0, 0), np.full((3, 3), math.nan)),
        (0.0, (0, 0, 0), -SMALL),
        (0.0, (0, 0, 0), np.eye(2)),
        (0.0, (0, 0, 0), lopsided),
        (0.0, (0, 0, 0), np.ones((3, 3)) - 2 * np.eye(3)),
        (0.0, (0, 0, 0), 1e7 * np.eye(3)),
        (0.0, (0, 0, 0), math.inf * np.ones((3, 3))),
        (0.0, (0, 0, 0), [[1, 2], [3]]),
    ],
)
def test_what_is_no_pose_is_refused(stamp, pose, covariance):
    robot = Robot()
    assert robot.filter.add_pose(stamp, pose, covariance) is Verdict.INVALID
    assert robot.counts == {"ekf.pose_invalid": 1}
    assert not robot.filter.localised


@pytest.mark.parametrize(
    ("stamp", "heading", "sigma"),
    [
        (math.nan, 0.0, 0.1),
        (0.0, math.nan, 0.1),
        (0.0, math.inf, 0.1),
        (0.0, 0.0, math.nan),
        (0.0, 0.0, -0.1),
    ],
)
def test_what_is_no_heading_is_refused(stamp, heading, sigma):
    robot = Robot()
    assert robot.filter.add_heading(stamp, heading, sigma) is Verdict.INVALID
    assert robot.counts == {"ekf.heading_invalid": 1}


def run_with(order, seed=3, seconds=4.0, outliers=0.1):
    """Return a filter after a noisy run; `order` says when each measurement comes, and its turn then."""
    rng = np.random.default_rng(seed)
    conditions = Conditions(outliers=outliers, latency=(0.08, 0.02))
    drive = simulate(DOTS, WHEELS.inverse, seconds, conditions, rng)
    pose_filter = PoseFilter(EkfParams.from_spec(DOTS), WHEELS.inverse)
    pose_filter.start(drive.pose[0], SMALL)
    events = []
    for arrival, stamp, pose, covariance in drive.markers:
        if stamp < seconds - 0.3:
            events.append(
                (arrival, stamp, lambda s=stamp, p=pose, c=covariance: pose_filter.add_pose(s, p, c))
            )
    for k in range(5, len(drive.stamps) - 30, 4):
        stamp, heading = float(drive.stamps[k]), drive.pose[k, 2] + 0.01 * rng.standard_normal()
        events.append(
            (
                stamp + rng.uniform(0, 0.2),
                stamp,
                lambda s=stamp, h=heading: pose_filter.add_heading(s, h, 0.01),
            )
        )
    events = sorted(
        ((*order(arrival, stamp, rng), add) for arrival, stamp, add in events), key=lambda e: e[:2]
    )
    for k, now in enumerate(drive.stamps):
        pose_filter.step(float(now), drive.travel[k], float(drive.gyro[k]))
        while events and events[0][0] <= now:
            outcome = events.pop(0)[2]()
            assert outcome in {Verdict.ACCEPTED, Verdict.GATED}
    assert not events
    return pose_filter


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_late_and_unordered_measurements_give_what_timely_ones_give(seed):
    timely = run_with(lambda _arrival, stamp, _rng: (stamp, stamp), seed)
    late = run_with(lambda arrival, stamp, _rng: (arrival, stamp), seed)
    shuffled = run_with(lambda _arrival, stamp, rng: (stamp + rng.uniform(0.0, 0.25), rng.random()), seed)
    for other in (late, shuffled):
        np.testing.assert_allclose(other.pose, timely.pose, atol=1e-9)
        np.testing.assert_allclose(other.twist_body, timely.twist_body, atol=1e-9)
        np.testing.assert_allclose(other.covariance, timely.covariance, atol=1e-12)
    assert timely.health.counts["ekf.pose_gated"] > 5


def test_a_late_measurement_counts_at_its_own_time():
    robot = Robot(start=(1.0, 2.0, 0.3))
    robot.see()
    robot.drive(0.5, vx=1.5, omega=2.0)
    for _ in range(20):
        robot.drive(0.1, vx=1.5, omega=2.0)
        # Between two cycles, where the robot was by the arc.
        k = round(robot.time / CYCLE) - 10
        half = compose(robot.poses[k], (0.4 * 1.5 * CYCLE, 0.0, 0.4 * 2.0 * CYCLE))
        outcome = robot.filter.add_pose((k + 0.4) * CYCLE, half, 1e-6 * np.eye(3))
        assert outcome is Verdict.ACCEPTED
    assert robot.error.max() < 5e-4


def test_a_heading_counts_at_its_own_time():
    robot = Robot()
    robot.see()
    robot.drive(0.2, omega=3.0)
    for _ in range(20):
        robot.drive(0.1, omega=3.0)
        heading = robot.pose[2] - 3.0 * 5.6 * CYCLE
        assert robot.filter.add_heading(robot.time - 5.6 * CYCLE, heading, 0.001) is Verdict.ACCEPTED
    assert robot.error[2] < 1e-3


def test_measurements_at_the_same_time_count_in_any_order():
    filters = []
    for order in ((0, 1, 2), (2, 0, 1)):
        robot = Robot()
        robot.see()
        robot.drive(0.3, vx=1.0, omega=1.0)
        offs = [(0.01, 0.0, 0.02), (0.0, -0.02, -0.01), (-0.01, 0.01, 0.0)]
        for i in order:
            assert robot.see(20, off=offs[i]) is Verdict.ACCEPTED
            robot.filter.add_heading(0.2, 0.2 + 0.001 * i, 0.01)
        filters.append(robot.filter)
    np.testing.assert_allclose(filters[0].pose, filters[1].pose, atol=1e-12)


@PROPERTY
@given(
    st.floats(-3.0, 3.0),
    st.floats(-2.0, 2.0),
    st.floats(-2.0, 2.0),
    st.floats(-9.0, 9.0),
    st.floats(-0.1, 0.1),
)
def test_the_covariance_moves_as_the_pose_does(yaw, vx, vy, omega, dt):
    def moved(state):
        core, unused = np.zeros(ekf_kernel.CORE_SIZE), np.zeros((14, 7))
        core[:7] = state
        ekf_kernel._move(core, unused, dt)
        return core[:7]

    state = np.array([1.0, 2.0, yaw, vx, vy, omega, 0.01])
    step = 1e-6
    slopes = np.empty((7, 7))
    for j, unit in enumerate(np.eye(7)):
        change = moved(state + step * unit) - moved(state - step * unit)
        change[2] = wrap(change[2])
        slopes[:, j] = change / (2 * step)
    root = np.random.default_rng(1).standard_normal((7, 7))
    core, cov = np.zeros(ekf_kernel.CORE_SIZE), np.zeros((14, 7))
    core[:7], cov[:7] = state, root @ root.T
    ekf_kernel._move(core, cov, dt)
    np.testing.assert_allclose(cov[:7], slopes @ root @ root.T @ slopes.T, atol=1e-6)


def test_a_single_wild_pose_never_moves_the_estimate():
    robot = Robot()
    robot.see()
    robot.drive(1.0, vx=0.5, markers=True)
    before = robot.filter.pose
    for off in ((1.0, 0.0, 0.0), (0.0, 0.0, 3.0), (300.0, 4.0, 1.0)):
        assert robot.see(off=off) is Verdict.GATED
        np.testing.assert_array_equal(robot.filter.pose, before)
    assert robot.counts == {"ekf.pose_gated": 3}
    assert robot.filter.distance2 > 16.0


@pytest.mark.parametrize("seed", range(4))
def test_a_tenth_of_wild_poses_does_not_shift_the_estimate(seed):
    conditions = Conditions(outliers=0.1)
    drive = simulate(DOTS, WHEELS.inverse, 8.0, conditions, np.random.default_rng(seed))
    pose_filter = PoseFilter.for_robot(DOTS, WHEELS.inverse)
    pose_filter.start(drive.pose[0], SMALL)
    markers = list(drive.markers)
    for k, now in enumerate(drive.stamps):
        pose_filter.step(float(now), drive.travel[k], float(drive.gyro[k]))
        while markers and markers[0][0] <= now:
            assert pose_filter.add_pose(*markers.pop(0)[1:]) is not Verdict.INITIALISED
        assert np.hypot(*(pose_filter.pose - drive.pose[k])[:2]) < 0.03
    assert pose_filter.health.counts["ekf.pose_gated"] > 10


@pytest.mark.parametrize("wild", [0.0, 0.1])
@pytest.mark.parametrize("rate", [10, 30, 100])
def test_a_kidnapped_robot_knows_it_within_two_seconds(rate, wild):
    robot = Robot()
    rng = np.random.default_rng(rate)
    robot.see()
    robot.drive(2.0, vx=0.3, markers=True)
    robot.pose = np.array([-2.0, 1.5, 2.5])
    robot.poses = dict.fromkeys(robot.poses, robot.pose)
    outcomes = []
    for k in range(200):
        robot.roll(0.3, 0.1, 0.5)
        assert robot.read(0.5)
        if k >= 10 and k % (100 // rate) == 0:
            off = rng.normal(0.0, 0.01, 3) + (rng.uniform(-2, 2, 3) if rng.random() < wild else 0.0)
            outcomes.append(robot.see(round(robot.time / CYCLE) - 7, off))
    assert outcomes.count(Verdict.INITIALISED) == 1
    assert robot.error[:2].max() < 0.05
    assert_sound(robot.filter)


def test_wild_poses_that_agree_do_not_win_while_others_are_accepted():
    robot = Robot()
    robot.see()
    for _ in range(100):
        robot.drive(0.03, vx=0.2)
        assert robot.see(off=(1.0, 0.0, 0.0)) is Verdict.GATED
        assert robot.see() is Verdict.ACCEPTED
    assert robot.error.max() < 1e-3


def test_gated_poses_that_disagree_do_not_win():
    robot = Robot()
    robot.see()
    rng = np.random.default_rng(5)
    for _ in range(200):
        robot.drive(0.03)
        off = rng.uniform(1.0, 3.0, 3) * rng.choice((-1, 1), 3)
        assert robot.see(off=off) is Verdict.GATED
    assert robot.error.max() < 1e-3


def test_gated_poses_long_apart_do_not_win():
    robot = Robot()
    robot.see()
    for _ in range(20):
        robot.drive(1.5)
        assert robot.see(off=(1.0, 0.0, 0.0)) is Verdict.GATED


def test_many_gated_poses_of_one_moment_do_not_win():
    robot = Robot()
    robot.see()
    robot.drive(0.5)
    for _ in range(40):
        assert robot.see(off=(1.0, 0.0, 0.0)) is Verdict.GATED


def test_a_restart_drops_what_came_before_it():
    robot = Robot()
    robot.see()
    robot.drive(1.0)
    assert robot.filter.start((4.0, 4.0, 1.0), SMALL) is Verdict.INITIALISED
    assert robot.filter.add_pose(robot.time - 0.1, (4.0, 4.0, 1.0), SMALL) is Verdict.TOO_OLD
    assert robot.filter.add_pose(robot.time, (4.0, 4.0, 1.0), SMALL) is Verdict.ACCEPTED


def test_an_unlocalised_filter_refuses_a_first_pose_that_is_too_old():
    robot = Robot()
    robot.drive(2.0)
    assert robot.see(10) is Verdict.TOO_OLD
    assert not robot.filter.localised


def test_yaw_passes_through_pi_without_a_jump():
    robot = Robot(start=(0.0, 0.0, 3.0))
    robot.see()
    for _ in range(5):
        robot.drive(1.0, vx=0.3, omega=1.7, markers=True)
        robot.filter.add_heading(robot.time, robot.pose[2] + 2 * math.pi, 0.01)
        assert robot.error.max() < 1e-3
        assert_sound(robot.filter)
    assert robot.filter.health.total == 0


def test_the_bias_of_the_gyro_is_found():
    robot = Robot()
    robot.bias = 0.01
    robot.see()
    robot.drive(20.0, vx=0.3, omega=0.3, markers=True)
    sigma = math.sqrt(robot.filter.covariance[6, 6])
    assert sigma < 0.25 * DOTS.imu.gyro_bias_sigma
    assert abs(robot.filter.gyro_bias - 0.01) < 3 * sigma


def test_a_compass_alone_gives_the_yaw():
    robot = Robot(RobotSpec.load("pioneer3dx"), start=(0.0, 0.0, 2.0))
    for _ in range(100):
        robot.drive(0.04, vx=0.3, omega=0.2)
        assert robot.filter.add_heading(robot.time, robot.pose[2], 0.0) is Verdict.ACCEPTED
    assert not robot.filter.localised
    assert robot.error[2] < 0.01
    assert_sound(robot.filter)


def test_a_disturbed_compass_is_gated_while_markers_are_there():
    robot = Robot()
    robot.see()
    for _ in range(100):
        robot.drive(0.03, omega=0.5)
        assert robot.see() is Verdict.ACCEPTED
        assert robot.filter.add_heading(robot.time, robot.pose[2] + 1.0, 0.01) is Verdict.GATED
    assert robot.error.max() < 1e-3


def test_without_markers_a_compass_that_insists_is_believed():
    robot = Robot()
    robot.filter.start((0.0, 0.0, -2.0), SMALL)
    robot.drive(2.0)
    outcomes = []
    for _ in range(100):
        robot.drive(0.01, omega=0.5)
        outcomes.append(robot.filter.add_heading(robot.time, robot.pose[2], 0.01))
    assert outcomes.count(Verdict.INITIALISED) == 1
    assert outcomes[-1] is Verdict.ACCEPTED
    assert robot.error[2] < 0.02
    assert robot.filter.localised
    assert_sound(robot.filter)


def test_a_clock_that_steps_backwards_keeps_the_estimate_and_takes_new_markers():
    robot = Robot(start=(1.0, 0.0, 0.5))
    robot.see()
    robot.drive(1.0, vx=0.5, omega=0.3, markers=True)
    robot.time -= 0.4
    assert not robot.read(0.3)
    assert robot.error.max() < 1e-3
    assert robot.filter.add_pose(robot.time - 0.05, robot.pose, SMALL) is Verdict.TOO_OLD
    assert robot.filter.add_pose(robot.time + 0.4, robot.pose, SMALL) is Verdict.FUTURE
    robot.poses.clear()
    robot.drive(0.1, vx=0.5, omega=0.3)
    assert robot.see() is Verdict.ACCEPTED
    robot.drive(0.5, vx=0.5, omega=0.3)
    assert robot.see(round(robot.time / CYCLE) - 7) is Verdict.ACCEPTED
    assert robot.error.max() < 1e-3
    assert robot.counts["odometry.clock_back"] == 1
    assert_sound(robot.filter)


def test_a_clock_that_steps_backwards_counts_no_measurement_twice():
    robot = Robot()
    robot.see()
    assert robot.see() is Verdict.ACCEPTED
    robot.time -= 1.0
    assert not robot.read()
    assert robot.filter.add_pose(robot.time, (0.0, 0.0, 0.0), SMALL) is Verdict.ACCEPTED
    assert robot.filter.covariance[0, 0] == pytest.approx(SMALL[0, 0] / 3, rel=1e-3)


def test_a_clock_that_stands_still_changes_nothing():
    robot = Robot()
    robot.see()
    robot.drive(0.5, vx=0.5)
    before = robot.filter.pose
    assert not robot.read()
    np.testing.assert_array_equal(robot.filter.pose, before)


@pytest.mark.parametrize("travel", [0.0, math.nan])
def test_a_clock_that_leaps_forward_makes_the_pose_less_sure(travel):
    robot = Robot()
    robot.see()
    robot.drive(0.5, vx=0.5)
    robot.time += 2.0
    robot.travel = robot.travel + travel
    assert not robot.read()
    assert np.hypot(*robot.error[:2]) < 0.02
    assert_sound(robot.filter)
    if math.isnan(travel):
        assert robot.filter.covariance[0, 0] > 1.0


def test_wheels_that_say_nothing_are_bridged():
    robot = Robot()
    robot.see()
    robot.drive(1.0, vx=0.5)
    sure = robot.filter.covariance[0, 0]
    for _ in range(10):
        robot.roll(vx=0.5)
        assert not robot.filter.step(robot.time, np.full(3, math.nan), 0.0)
    assert robot.error.max() < 2e-3
    assert robot.filter.covariance[0, 0] > sure
    robot.drive(0.5, vx=0.5)
    assert robot.error.max() < 2e-3
    assert_sound(robot.filter)


def test_travel_of_other_wheels_is_refused():
    robot = Robot()
    assert not robot.filter.step(1.0, np.zeros(2), 0.0)
    assert robot.counts == {"odometry.travel_shape": 1}


@pytest.mark.parametrize("wild", [0, 1])
def test_a_flood_of_marker_poses_does_no_harm(wild):
    robot = Robot()
    robot.see()
    rng = np.random.default_rng(2)
    for _ in range(60):
        robot.drive(0.01, vx=0.5)
        now = round(robot.time / CYCLE)
        for _ in range(30):
            outcome = robot.see(rng.integers(max(0, now - 40), now + 1), off=(wild, 0.0, 0.0))
            assert outcome in {Verdict.ACCEPTED, Verdict.GATED, Verdict.TOO_OLD, Verdict.INITIALISED}
    assert_sound(robot.filter)
    robot.drive(1.0, vx=0.5)
    assert robot.see(off=(wild, 0.0, 0.0)) is not Verdict.TOO_OLD


def test_more_poses_of_one_moment_than_are_kept_are_refused():
    robot = Robot()
    robot.see()
    outcomes = [robot.see() for _ in range(ekf_kernel.MEASURES + 50)]
    assert outcomes == [Verdict.ACCEPTED] * ekf_kernel.MEASURES + [Verdict.TOO_OLD] * 50


def test_noise_of_a_cycle_does_not_depend_on_how_time_is_cut():
    grown = []
    for cut in (1, 2):
        robot = Robot()
        robot.filter.start((0.0, 0.0, 0.0), SMALL)
        for _ in range(400 // cut):
            for _ in range(cut):
                robot.roll(vx=0.5)
            assert robot.read()
        grown.append(robot.filter.covariance[0, 0] - SMALL[0, 0])
    assert grown[1] == pytest.approx(grown[0], rel=0.05)


@pytest.mark.parametrize("localised", [True, False])
def test_the_covariance_stays_sound_for_long(any_spec, localised):
    robot = Robot(any_spec)
    rng = np.random.default_rng(1)
    if localised:
        robot.see()
    turn = 0.3 * any_spec.limits.yaw_rate
    step, roll = robot.filter.step, robot.kinematics.matrix @ (0.5 * any_spec.limits.speed, 0.0, turn) * CYCLE
    travel = robot.travel
    for k in range(1, 20001):
        travel = travel + roll
        step(k * CYCLE, travel, turn + 0.01 * rng.standard_normal())
        if localised and k % 50 == 0:
            robot.filter.start((0.0, 0.0, 0.0), SMALL * rng.uniform(0.1, 10.0))
        if k % 500 == 0:
            assert_sound(robot.filter)
            known = np.diag(robot.filter.covariance)[:3]
            limit = (ekf_kernel.POSITION_VAR_MAX, ekf_kernel.POSITION_VAR_MAX, ekf_kernel.YAW_VAR_MAX)
            assert (known <= np.array(limit) * (1 + 1e-9)).all()


anything = st.one_of(st.floats(), st.floats(-3.0, 3.0))
steps = st.tuples(
    st.just("step"), st.one_of(st.floats(-0.02, 0.1), anything), anything, anything, st.none() | anything
)
poses = st.tuples(st.just("pose"), st.floats(-0.6, 0.1) | anything, anything, anything, anything)
headings = st.tuples(st.just("heading"), st.floats(-0.6, 0.1) | anything, anything, anything, anything)


@PROPERTY
@given(st.lists(st.one_of(steps, steps, poses, headings), max_size=60), st.booleans())
def test_whatever_comes_the_filter_stays_sound(events, start):
    pose_filter = PoseFilter.for_robot(DOTS, WHEELS.inverse)
    pose_filter.step(0.0, np.zeros(3), 0.0)
    if start:
        pose_filter.start((0.0, 0.0, 0.0), SMALL)
    now = 0.0
    for kind, dt, a, b, c in events:
        if kind == "step":
            pose_filter.step(now + dt, np.array([a, b, a]), c)
            now += dt if math.isfinite(now + dt) and abs(now + dt) < 1e11 else 0.0
        elif kind == "pose":
            pose_filter.add_pose(now + dt, (a, b, c), np.diag((1e-4, 1e-3, 1e-2)))
        else:
            pose_filter.add_heading(now + dt, a, b)
        assert_sound(pose_filter)


def test_slip_that_lasts_makes_the_pose_less_sure():
    white, lasting = (Robot(params=EkfParams.from_spec(DOTS, slip_time=t)) for t in (0.0, 0.2))
    for robot in (white, lasting):
        robot.filter.start((0.0, 0.0, 0.0), SMALL)
        robot.drive(2.0, vx=1.0)
    grown, more = (robot.filter.covariance[0, 0] - SMALL[0, 0] for robot in (white, lasting))
    assert 5.0 * grown < more < 40.0 * grown


def test_the_gate_is_where_it_is_asked_for():
    strict = replace(EkfParams.from_spec(DOTS), gate_probability=0.5)
    for params, outcome in ((EkfParams.from_spec(DOTS), Verdict.ACCEPTED), (strict, Verdict.GATED)):
        robot = Robot(params=params)
        robot.see()
        assert robot.see(off=(0.03, 0.0, 0.0)) is outcome


# --- lenses that are not known exactly ----------------------------------------------------------------------

LENS = np.array([[2e-3, 0.0, 1e-3, 0.0], [-1e-3, 1.5e-3, 0.0, 0.0], [0.0, 5e-4, -1e-3, 0.0]])


def lens_now(robot, strength=1.0):
    """Return how lens errors are in a pose: it depends on where and how the robot stands."""
    x, y, yaw = robot.pose
    c, s = math.cos(2.0 * yaw + x), math.sin(2.0 * yaw + y)
    return strength * np.array([[c, s, 0.3, 0.0], [-s, c, 0.0, 0.3], [0.2 * c, 0.0, 0.3 * s, 0.2]]) * 3e-3


def test_a_robot_that_stands_is_no_surer_than_its_lenses():
    rng = np.random.default_rng(1)
    error = LENS @ rng.standard_normal(4)
    noise = np.diag((1e-3, 1e-3, 1e-3)) ** 2
    robot = Robot(lens_errors=4)
    for _ in range(400):
        robot.roll()
        robot.read()
        robot.see(off=error + 1e-3 * rng.standard_normal(3), covariance=noise, lens=LENS)
    covariance, floor = robot.filter.covariance[:3, :3], LENS @ LENS.T
    # All noise has gone, and nothing else.
    assert np.linalg.eigvalsh(covariance - floor).min() > 0.0
    assert np.linalg.eigvalsh(covariance - floor).max() < (0.3e-3) ** 2
    np.testing.assert_allclose(robot.filter.pose, error, atol=3e-4)
    assert robot.counts == {}
    assert_sound(robot.filter)


@PROPERTY
@given(st.integers(2, 8), st.integers(0, 10_000))
def test_equal_poses_average_their_noise_and_not_their_lens_errors(count, seed):
    rng = np.random.default_rng(seed)
    lens = 1e-2 * rng.standard_normal((3, 5))
    shape = rng.standard_normal((3, 3))
    noise = 1e-4 * (shape @ shape.T + 0.1 * np.eye(3))
    robot = Robot(lens_errors=5)
    for _ in range(count):
        robot.see(covariance=noise, lens=lens)
    expected = (noise + 1e-8 * np.eye(3)) / count + lens @ lens.T
    np.testing.assert_allclose(robot.filter.covariance[:3, :3], expected, rtol=1e-5, atol=1e-9)


def test_a_robot_that_moves_is_as_sure_as_it_may_be():
    """NEES over runs with lens errors drawn anew: without them in the filter it is above 10."""
    rng = np.random.default_rng(3)
    ratios = {4: [], 0: []}
    sigma = np.array((1e-3, 1e-3, 1e-3))
    for _ in range(60):
        lens_error = rng.standard_normal(4)
        robots = {count: Robot(start=(0.5, 0.2, 0.1), lens_errors=count) for count in ratios}
        noise = rng.standard_normal((300, 3))
        for k in range(300):
            for count, robot in robots.items():
                robot.roll(0.3, 0.1, 0.8)
                robot.read(0.8)
                lens = lens_now(robot)
                off = lens @ lens_error + sigma * noise[k]
                if k % 3 == 0:
                    robot.see(off=off, covariance=np.diag(sigma**2), lens=lens if count else None)
        for count, robot in robots.items():
            error = robot.filter.pose - robot.pose
            error[2] = wrap(error[2])
            ratios[count].append(error @ np.linalg.solve(robot.filter.covariance[:3, :3], error) / 3)
    # The wheels of this robot do not err, so that it is a little too careful.
    assert 0.4 < np.mean(ratios[4]) < 1.3
    assert np.mean(ratios[0]) > 10.0


@pytest.mark.parametrize("lens_errors", [0, 4])
def test_lenses_without_error_change_nothing(lens_errors):
    plain, robot = Robot(), Robot(lens_errors=lens_errors)
    for some in (plain, robot):
        rng = np.random.default_rng(5)
        for k in range(200):
            some.roll(0.5, 0.1, 1.0)
            some.read(1.0)
            if k % 3 == 0 and k > 10:
                lens = np.zeros((3, lens_errors)) if some is robot else None
                some.see(k - 6, off=0.01 * rng.standard_normal(3), lens=lens)
            if k % 10 == 0:
                some.filter.add_heading(some.time, some.pose[2] + 0.01 * rng.standard_normal(), 0.01)
    np.testing.assert_array_equal(robot.filter.pose, plain.filter.pose)
    np.testing.assert_array_equal(robot.filter.covariance, plain.filter.covariance)


@PROPERTY
@given(st.permutations(range(8)))
def test_poses_with_lens_errors_count_in_any_order(order):
    results = []
    for some in (range(8), order):
        robot = Robot(start=(0.3, 0.0, 1.0), lens_errors=4)
        robot.drive(0.5, 0.5, 0.0, 1.0)
        robot.see(5, lens=lens_now(robot))
        for k in some:
            robot.see(10 + 5 * k, off=(1e-3 * k, 0.0, 0.0), lens=lens_now(robot, 1.0 + 0.1 * k))
        results.append((robot.filter.pose, robot.filter.covariance))
    np.testing.assert_allclose(results[1][0], results[0][0], atol=1e-12)
    np.testing.assert_allclose(results[1][1], results[0][1], atol=1e-12)


def test_a_robot_that_was_carried_away_still_knows_its_lenses():
    robot = Robot(lens_errors=4)
    robot.look(50, lens=LENS)
    robot.pose = np.array([2.0, 1.0, 2.0])
    outcomes = set()
    for _ in range(100):
        robot.roll()
        robot.read()
        outcomes.add(robot.see(lens=LENS))
    assert Verdict.INITIALISED in outcomes
    assert robot.error.max() < 1e-6
    beyond = np.linalg.eigvalsh(robot.filter.covariance[:3, :3] - LENS @ LENS.T)
    assert beyond.min() > 0.0
    assert beyond.max() < SMALL[0, 0]
    assert_sound(robot.filter)


def test_a_compass_that_insists_leaves_the_lens_errors_of_the_place():
    robot = Robot(lens_errors=4)
    robot.look(100, lens=LENS)
    for k in range(200):
        robot.roll()
        robot.read()
        if k >= 110 and k % 5 == 0:
            robot.filter.add_heading(robot.time, 1.0, 0.01)
    assert robot.filter.pose[2] == pytest.approx(1.0, abs=0.02)
    for _ in range(300):
        robot.roll()
        robot.read()
        robot.see(off=(0.0, 0.0, 1.0), lens=LENS)
    beyond = robot.filter.covariance[:2, :2] - (LENS @ LENS.T)[:2, :2]
    assert np.linalg.eigvalsh(beyond).min() > -1e-9
    assert_sound(robot.filter)


@pytest.mark.parametrize("lens", [np.zeros((3, 3)), np.full((3, 4), math.nan), np.full((3, 4), math.inf)])
def test_lens_errors_that_are_none_are_refused(lens):
    robot = Robot(lens_errors=4)
    assert robot.see(lens=LENS) is Verdict.INITIALISED
    before = robot.filter.covariance
    assert robot.see(lens=lens) is Verdict.INVALID
    np.testing.assert_array_equal(robot.filter.covariance, before)
    assert robot.counts == {"ekf.pose_invalid": 1}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_with_lens_errors_the_covariance_stays_sound(seed):
    rng = np.random.default_rng(seed)
    robot = Robot(lens_errors=4)
    for k in range(300):
        robot.roll(*rng.uniform(-1.0, 1.0, 3))
        robot.read(robot.omega)
        if rng.random() < 0.3:
            strength = 10.0 ** rng.uniform(-3, 2)
            at = max(k - int(rng.integers(0, 20)), 1)
            robot.see(at, off=strength * 1e-3 * rng.standard_normal(3), lens=lens_now(robot, strength))
        if rng.random() < 0.05:
            robot.filter.add_heading(robot.time, robot.pose[2], 0.01)
        assert_sound(robot.filter)
