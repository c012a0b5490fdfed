from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from swarmbed_core.ekf import EkfParams
from swarmbed_core.ekf_check import Conditions, nees_study, normalised, simulate
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
INVERSE = Kinematics(DOTS.drive).inverse


def study(seed=11, runs=40, seconds=30.0, spec=DOTS, **changes):
    return nees_study(seed, runs, seconds, spec=spec, wheel_inverse=Kinematics(spec.drive).inverse, **changes)


@pytest.fixture(scope="module")
def honest():
    return study()


def test_the_covariance_of_the_pose_is_honest(honest):
    # Bounds of theory: errors stay alike for seconds, so that 40 runs hold about 1,000 independent numbers.
    assert 0.85 < honest["nees_ratio"] < 1.15
    assert honest["nees_within"] >= 0.85
    assert 0.7 < honest["twist_nees_ratio"] < 1.3


def test_marker_poses_are_as_far_off_as_the_filter_expects(honest):
    # About 35,000 distances of 3 degrees of freedom, a thousandth of them gated.
    assert 0.97 < honest["nis_ratio"] < 1.02
    assert honest["gated"] < 0.003
    assert honest["refused"] < 0.001


def test_the_estimate_is_better_than_its_markers(honest):
    assert honest["position_rms"] < 0.25 * min(Conditions().marker_sigma[:2])
    assert honest["position_max"] < 0.02
    assert honest["yaw_rms"] < 0.25 * Conditions().marker_sigma[2]


def test_a_filter_that_believes_too_much_is_found_out():
    params = replace(EkfParams.from_spec(DOTS), wheel_sigma=0.001, slip_fraction=0.001)
    assert study(runs=10, seconds=15.0, params=params)["nees_ratio"] > 2.0


def test_slip_that_lasts_is_honest_where_the_filter_knows_of_it():
    conditions = Conditions.of(DOTS, slip_time=0.2)
    blind = study(runs=20, seconds=15.0, conditions=conditions)
    told = study(
        runs=20, seconds=15.0, conditions=conditions, params=EkfParams.from_spec(DOTS, slip_time=0.2)
    )
    assert blind["nees_ratio"] > 1.3
    assert 0.7 < told["nees_ratio"] < 1.3


@pytest.mark.parametrize("kind", ["epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
def test_no_kind_believes_too_much(kind):
    # Ticks of coarse encoders do not add up as white noise does: there the filter is on the safe side.
    result = study(runs=10, seconds=15.0, spec=RobotSpec.load(kind))
    assert 0.3 < result["nees_ratio"] < 1.3
    assert 0.3 < result["twist_nees_ratio"] < 1.3


def test_wild_marker_poses_do_not_spoil_it():
    result = study(runs=10, seconds=15.0, conditions=Conditions.of(DOTS, outliers=0.1))
    assert result["position_max"] < 0.03
    assert 0.07 < result["gated"] < 0.14


def test_a_run_is_what_its_conditions_say(any_spec):
    conditions = Conditions.of(any_spec)
    drive = simulate(any_spec, Kinematics(any_spec.drive).inverse, 10.0, conditions, np.random.default_rng(1))
    speed = np.hypot(drive.twist[:, 0], drive.twist[:, 1])
    assert speed.max() <= 1.1 * conditions.speed
    assert np.abs(np.diff(drive.twist[1:, 0])).max() <= 1.01 * conditions.acceleration / any_spec.control.rate
    assert np.isnan(drive.gyro).all() == (any_spec.imu is None)
    late = np.array([arrival - stamp for arrival, stamp, _, _ in drive.markers])
    assert late.mean() == pytest.approx(
        conditions.latency[0], abs=4 * conditions.latency[1] / np.sqrt(len(late))
    )
    assert len(late) == pytest.approx(10.0 * conditions.marker_rate, abs=1)


def test_a_study_repeats_itself():
    assert study(runs=2, seconds=3.0) == study(runs=2, seconds=3.0)


def test_normalised_errors_of_a_known_covariance_are_chi_square():
    rng = np.random.default_rng(1)
    root = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.1, 0.2, 0.3]])
    error = rng.standard_normal((4000, 3)) @ root.T
    covariance = np.broadcast_to(root @ root.T, (4000, 3, 3))
    # The mean of 4,000 numbers with variance 6.
    assert normalised(error, covariance).mean() == pytest.approx(3.0, abs=4 * np.sqrt(6 / 4000))
