"""Angles wrap; poses compose, invert and come back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.geometry import (
    TAU,
    angle_between,
    between,
    clearance,
    compose,
    invert,
    rotate,
    wrap,
    wrap_all,
)

property_test = settings(deadline=None, max_examples=300, derandomize=True)
angles = st.floats(-1e4, 1e4)
lengths = st.floats(-100.0, 100.0)
poses = st.tuples(lengths, lengths, st.floats(-10.0, 10.0))

Pose = tuple[float, float, float]


def assert_same(a: object, b: object) -> None:
    """Compare poses; yaws as directions."""
    (xa, ya, yaw_a), (xb, yb, yaw_b) = np.asarray(a), np.asarray(b)
    assert (xa, ya) == pytest.approx((xb, yb), abs=1e-9)
    assert math.remainder(yaw_a - yaw_b, TAU) == pytest.approx(0.0, abs=1e-9)


def matrix(pose: object) -> np.ndarray:
    """Return the pose as a homogeneous matrix: a second way to compute everything here."""
    x, y, yaw = np.asarray(pose)
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s, x], [s, c, y], [0.0, 0.0, 1.0]])


@property_test
@given(angles)
def test_wrapping_keeps_the_direction_within_half_a_turn(angle: float) -> None:
    wrapped = wrap(angle)
    assert -math.pi < wrapped <= math.pi
    assert math.remainder(wrapped - angle, TAU) == pytest.approx(0.0, abs=1e-9)


@property_test
@given(angles)
def test_wrapping_twice_is_wrapping_once(angle: float) -> None:
    assert wrap(wrap(angle)) == pytest.approx(wrap(angle), abs=1e-15)


@property_test
@given(st.lists(angles, max_size=5))
def test_many_angles_are_wrapped_like_one(some: list[float]) -> None:
    apart = wrap_all(np.array(some)) - [wrap(angle) for angle in some]
    assert np.allclose(np.minimum(np.abs(apart), np.abs(np.abs(apart) - TAU)), 0.0, atol=1e-9)


@given(st.floats(-3.0, 3.0), st.integers(-1000, 1000))
def test_whole_turns_do_not_matter(angle: float, turns: int) -> None:
    assert wrap(angle + turns * TAU) == pytest.approx(angle, abs=1e-9)


@pytest.mark.parametrize(
    "angle",
    [
        math.pi,
        -math.pi,
        3 * math.pi,
        -3 * math.pi,
        math.nextafter(math.pi, 9.0),
        math.nextafter(-math.pi, -9.0),
        math.nextafter(math.pi, 0.0),
        math.nextafter(-math.pi, 0.0),
        5e-324,
        -5e-324,
        -0.0,
        1e15,
    ],
)
def test_the_edges_of_the_half_turn(angle: float) -> None:
    for function in (wrap, wrap.py_func):  # type: ignore[attr-defined]
        wrapped = function(angle)
        assert -math.pi < wrapped <= math.pi
        if abs(angle) < 10:
            assert math.cos(wrapped) == pytest.approx(math.cos(angle))
            assert math.sin(wrapped) == pytest.approx(math.sin(angle), abs=1e-12)


def test_half_a_turn_is_positive() -> None:
    assert wrap(math.pi) == math.pi
    assert wrap(-math.pi) == math.pi


def test_what_is_no_angle_stays_none() -> None:
    assert math.isnan(wrap(math.nan))
    assert math.isnan(wrap(math.inf))


@property_test
@given(angles, angles)
def test_the_turn_between_two_directions_is_the_short_one(a: float, b: float) -> None:
    turn = angle_between(a, b)
    assert abs(turn) <= math.pi
    assert math.remainder(a + turn - b, TAU) == pytest.approx(0.0, abs=1e-8)


def test_turns_have_a_sign() -> None:
    assert angle_between(0.1, 0.3) == pytest.approx(0.2)
    assert angle_between(0.3, 0.1) == pytest.approx(-0.2)
    assert angle_between(3.0, -3.0) == pytest.approx(TAU - 6.0)
    assert angle_between(-3.0, 3.0) == pytest.approx(6.0 - TAU)


def test_rotation_is_counter_clockwise() -> None:
    assert rotate((1.0, 0.0), math.pi / 2) == pytest.approx([0.0, 1.0])
    assert rotate((0.0, 1.0), math.pi / 2) == pytest.approx([-1.0, 0.0])
    rows = rotate([[1.0, 0.0], [0.0, 2.0]], math.pi / 2)
    assert rows == pytest.approx(np.array([[0.0, 1.0], [-2.0, 0.0]]))


@property_test
@given(lengths, lengths, angles)
def test_rotation_keeps_lengths_and_undoes(x: float, y: float, angle: float) -> None:
    turned = rotate((x, y), angle)
    assert np.hypot(*turned) == pytest.approx(math.hypot(x, y))
    assert rotate(turned, -angle) == pytest.approx([x, y], abs=1e-9)


@property_test
@given(poses, poses)
def test_poses_compose_like_matrices(pose_ab: Pose, pose_bc: Pose) -> None:
    pose_ac = compose(pose_ab, pose_bc)
    assert matrix(pose_ac) == pytest.approx(matrix(pose_ab) @ matrix(pose_bc), abs=1e-9)
    assert -math.pi < pose_ac[2] <= math.pi


@property_test
@given(poses)
def test_the_inverse_undoes_on_both_sides(pose: Pose) -> None:
    assert_same(compose(pose, invert(pose)), (0.0, 0.0, 0.0))
    assert_same(compose(invert(pose), pose), (0.0, 0.0, 0.0))
    assert_same(invert(invert(pose)), pose)
    assert -math.pi < invert(pose)[2] <= math.pi


@property_test
@given(poses, poses)
def test_between_and_compose_undo_each_other(pose_ab: Pose, pose_ac: Pose) -> None:
    assert_same(compose(pose_ab, between(pose_ab, pose_ac)), pose_ac)
    assert_same(between(pose_ab, compose(pose_ab, pose_ac)), pose_ac)


@property_test
@given(poses, poses, poses)
def test_composing_is_associative(a: Pose, b: Pose, c: Pose) -> None:
    assert_same(compose(compose(a, b), c), compose(a, compose(b, c)))


def test_a_worked_example() -> None:
    robot_map = (1.0, 2.0, math.pi / 2)
    camera_robot = (0.1, 0.0, 0.0)
    assert_same(compose(robot_map, camera_robot), (1.0, 2.1, math.pi / 2))
    assert_same(between(robot_map, (1.0, 3.0, math.pi)), (1.0, 0.0, math.pi / 2))


def test_what_comes_in_is_not_changed() -> None:
    pose, other = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    compose(pose, other)
    invert(pose)
    between(pose, other)
    rotate(pose[:2], 1.0)
    assert pose.tolist() == [1.0, 2.0, 3.0]
    assert other.tolist() == [4.0, 5.0, 6.0]


@property_test
@given(
    st.lists(st.tuples(lengths, lengths, lengths, lengths), min_size=1, max_size=4),
    lengths,
    lengths,
    st.floats(0.0, 1.0),
)
def test_clearance_is_the_distance_of_the_nearest_point_of_all_segments(
    segments: list[tuple[float, float, float, float]], x: float, y: float, share: float
) -> None:
    long = [row for row in segments if math.dist(row[:2], row[2:]) > 1e-3]
    found = clearance(np.array(long).reshape(-1, 4), x, y)
    for x1, y1, x2, y2 in long:
        # No point of a segment is nearer, and its ends are points of it.
        for at in (share, 0.0, 1.0):
            assert found <= math.dist((x, y), (x1 + at * (x2 - x1), y1 + at * (y2 - y1))) + 1e-9
    assert (found == math.inf) == (not long)


def test_clearance_of_a_point_beside_and_beyond_a_wall() -> None:
    wall = np.array([(0.0, 0.0, 2.0, 0.0)])
    assert clearance(wall, 1.0, 0.5) == pytest.approx(0.5)
    assert clearance(wall, 5.0, 4.0) == pytest.approx(5.0)
    assert clearance(np.empty((0, 4)), 1.0, 0.5) == math.inf
