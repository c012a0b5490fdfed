import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_behaviours.toolkit.estimate import STRANGERS, CarrierEstimate
from swarmbed_core.geometry import compose, wrap
from swarmbed_core.markers import SideSight

LENGTH = 0.33
ANGLES = st.floats(-math.pi, math.pi)
PLACES = st.floats(-2.0, 2.0)


def sight(carrier, side, robot, stamp=0.0, *, noise=(0.0, 0.0, 0.0), sigma=(0.002, 0.002, 0.02), known=True):
    """A sight of one side of a carrier by a robot, both in odom."""
    outwards = carrier[2] + side * math.pi / 2
    pose_odom = compose((*carrier[:2], outwards), (LENGTH / 2, 0.0, 0.0)) + noise
    c, s = math.cos(robot[2]), math.sin(robot[2])
    dx, dy = pose_odom[:2] - np.array(robot[:2])
    pose_body = np.array([c * dx + s * dy, c * dy - s * dx, wrap(pose_odom[2] - robot[2])])
    return SideSight(100, stamp, "cam0", pose_body, np.diag(np.square(sigma)), known, 0.0, 1, pose_odom)


def quarter(angle):
    """How far an angle is from a multiple of a quarter turn."""
    return (angle + math.pi / 4) % (math.pi / 2) - math.pi / 4


@settings(deadline=None, max_examples=60)
@given(PLACES, PLACES, ANGLES, ANGLES, st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_any_sides_give_the_centre(x, y, yaw, robot_yaw, sides):
    robot = (0.3, -0.4, robot_yaw)
    estimate = CarrierEstimate(sight((x, y, yaw), sides[0], robot), LENGTH)
    for k, side in enumerate(sides[1:]):
        assert estimate.add(sight((x, y, yaw), side, robot, 0.1 * k))
    assert estimate.pose_odom[:2] == pytest.approx((x, y), abs=1e-9)
    assert quarter(estimate.pose_odom[2] - yaw) == pytest.approx(0.0, abs=1e-9)
    assert estimate.sights == len(sides)


def test_more_sights_make_it_surer_and_better():
    rng = np.random.default_rng(3)
    carrier, robot = (1.0, 0.2, 0.3), (0.0, 0.0, 0.1)
    sigma = (0.003, 0.003, 0.03)
    errors = []
    for _ in range(50):
        estimate = CarrierEstimate(sight(carrier, 2, robot, noise=sigma * rng.standard_normal(3)), LENGTH)
        first = estimate.yaw_sigma, estimate.place_sigma
        for k in range(20):
            noise = sigma * rng.standard_normal(3)
            estimate.add(sight(carrier, 2, robot, 0.03 * k, noise=noise, sigma=sigma))
        errors.append(quarter(estimate.pose_odom[2] - carrier[2]))
        assert estimate.yaw_sigma < 0.4 * first[0]
        assert estimate.place_sigma < first[1]
    assert np.std(errors) < 0.011


def test_the_uncertainty_is_that_of_the_centre_and_turns_with_the_robot():
    # Sure of the side, unsure of its direction: the centre is unsure across.
    estimate = CarrierEstimate(sight((1.0, 0.0, 0.0), 2, (0.0, 0.0, 1.0), sigma=(1e-4, 1e-4, 0.1)), LENGTH)
    assert estimate.place_sigma == pytest.approx(LENGTH / 2 * 0.1, rel=0.01)


def test_a_sight_that_fits_two_directions_tells_the_place_only():
    carrier, robot = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    estimate = CarrierEstimate(sight(carrier, 2, robot, known=False), LENGTH)
    assert not estimate.yaw_known
    assert estimate.yaw_sigma > 0.4
    estimate.add(sight(carrier, 2, robot, known=True))
    assert estimate.yaw_known
    assert estimate.yaw_sigma < 0.03


def test_a_stranger_is_left_out_but_a_carrier_that_moved_is_followed():
    robot = (0.0, 0.0, 0.0)
    estimate = CarrierEstimate(sight((1.0, 0.0, 0.0), 2, robot), LENGTH)
    moved = (1.0, 0.5, 0.2)
    assert not estimate.add(sight(moved, 2, robot, 0.1))
    assert estimate.pose_odom[1] == pytest.approx(0.0)
    assert estimate.add(sight((1.0, 0.0, 0.0), 2, robot, 0.2))
    for k in range(STRANGERS):
        added = estimate.add(sight(moved, 2, robot, 0.3 + 0.1 * k))
        assert added == (k == STRANGERS - 1)
    assert estimate.pose_odom[:2] == pytest.approx(moved[:2])
    assert estimate.sights == 1


def test_after_a_while_without_sight_one_is_enough():
    robot, moved = (0.0, 0.0, 0.0), (1.0, 0.5, 0.2)
    estimate = CarrierEstimate(sight((1.0, 0.0, 0.0), 2, robot), LENGTH)
    assert not estimate.add(sight(moved, 2, robot, 0.1))
    assert estimate.doubtful
    assert estimate.add(sight(moved, 2, robot, 2.0))
    assert not estimate.doubtful
    assert estimate.pose_odom[:2] == pytest.approx(moved[:2])


def test_it_grows_less_sure_with_time():
    carrier, robot = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    old, new = (CarrierEstimate(sight(carrier, 2, robot), LENGTH) for _ in range(2))
    new.add(sight(carrier, 2, robot, 0.1))
    old.add(sight(carrier, 2, robot, 100.0))
    assert old.place_sigma > new.place_sigma


def test_the_side_that_faces_a_place():
    estimate = CarrierEstimate(sight((1.0, 0.0, 0.1), 2, (0.0, 0.0, 0.0)), LENGTH)
    assert estimate.side(np.array([0.0, 0.0]))[2] == pytest.approx(0.1 - math.pi)
    assert estimate.side(np.array([1.0, 3.0]))[2] == pytest.approx(0.1 + math.pi / 2)
    middles = np.array(estimate.sides())[:, :2]
    assert np.hypot(*(middles - (1.0, 0.0)).T) == pytest.approx([LENGTH / 2] * 4)


def test_a_sight_without_a_place_in_odom_is_not_used():
    estimate = CarrierEstimate(sight((1.0, 0.0, 0.0), 2, (0.0, 0.0, 0.0)), LENGTH)
    pose = np.array([3.0, 0.0, 0.0])
    assert not estimate.add(
        SideSight(100, 1.0, "cam0", pose, np.eye(3), yaw_known=True, alignment=0.0, markers=1)
    )
    assert estimate.stamp == 0.0
