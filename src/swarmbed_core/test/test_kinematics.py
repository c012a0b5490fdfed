"""Kinematics: the paper's matrix, inverses and limits, for all kinds of drive."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.errors import ConfigError
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.spec import DifferentialDrive, OmniDrive, RobotSpec, Wheels

WHEELS = Wheels(radius=0.03, max_speed=2.5, torque=0.35, encoder_ticks=4096)
speeds = st.floats(-50.0, 50.0)
twists = st.tuples(speeds, speeds, speeds)


def omni(angles: tuple[float, ...], radius: float = 0.1) -> Kinematics:
    return Kinematics(OmniDrive(kind="omni", wheel_angles=angles, centre_to_wheel=radius, wheels=WHEELS))


def differential(separation: float = 0.3) -> Kinematics:
    return Kinematics(DifferentialDrive(kind="differential", wheel_separation=separation, wheels=WHEELS))


@st.composite
def drives(draw: st.DrawFn) -> Kinematics:
    if draw(st.booleans()):
        return differential(draw(st.floats(0.02, 1.0)))
    count = draw(st.integers(3, 8))
    start = draw(st.floats(-math.pi, math.pi))
    # Nearly even, so that the wheels are never all in one place.
    angles = [start + (i + draw(st.floats(-0.3, 0.3))) * 2 * math.pi / count for i in range(count)]
    return omni(tuple(angles), draw(st.floats(0.02, 1.0)))


def test_matrix_is_the_papers_but_for_one_sign(dots: RobotSpec) -> None:
    kinematics = Kinematics.of(dots)
    assert isinstance(dots.drive, OmniDrive)
    h = math.sqrt(3) / 2
    paper = np.array([[-h, 0.5, 1.0], [0.0, -1.0, 1.0], [h, -0.5, 1.0]])
    ours = kinematics.matrix / [1.0, 1.0, dots.drive.centre_to_wheel]
    difference = np.abs(ours - paper) > 1e-12
    assert np.argwhere(difference).tolist() == [[2, 1]]
    assert ours[2, 1] == pytest.approx(0.5)
    # The printed sign turns a robot that is asked to go sideways; geometry does not.
    assert paper[:, 1].sum() == pytest.approx(-1.0)
    assert ours[:, 1].sum() == pytest.approx(0.0, abs=1e-15)


def test_exact_inverse_of_three_wheels(dots: RobotSpec) -> None:
    kinematics = Kinematics.of(dots)
    np.testing.assert_allclose(kinematics.inverse, np.linalg.inv(kinematics.matrix), atol=1e-13)


def test_wheels_turn_the_way_they_should() -> None:
    robot = omni((math.pi / 2, math.pi, 3 * math.pi / 2, 0.0), 0.2)
    np.testing.assert_allclose(robot.wheels((0, 0, 1)), [0.2] * 4)
    # The wheel on the left rolls backwards along its tangent when the robot goes forwards.
    np.testing.assert_allclose(robot.wheels((1, 0, 0)), [-1, 0, 1, 0], atol=1e-15)
    np.testing.assert_allclose(robot.wheels((0, 1, 0)), [0, -1, 0, 1], atol=1e-15)
    left, right = differential(0.4).wheels((1.0, 0.0, 0.5))
    assert (left, right) == pytest.approx((0.9, 1.1))


@settings(max_examples=300, deadline=None)
@given(drives(), twists)
def test_round_trip(kinematics: Kinematics, twist: tuple[float, float, float]) -> None:
    expected = np.array(twist) if kinematics.holonomic else np.array([twist[0], 0.0, twist[2]])
    back = kinematics.body(kinematics.wheels(twist))
    assert np.abs(back - expected).max() <= 1e-12 * max(1.0, np.abs(twist).max())


@settings(max_examples=300, deadline=None)
@given(drives(), st.lists(speeds, min_size=8, max_size=8))
def test_inverse_is_least_squares(kinematics: Kinematics, values: list[float]) -> None:
    wheel_speeds = np.array(values[: kinematics.count])
    residual = wheel_speeds - kinematics.wheels(kinematics.body(wheel_speeds))
    assert np.abs(kinematics.matrix.T @ residual).max() < 1e-10


@settings(max_examples=300, deadline=None)
@given(drives(), twists)
def test_limits_keep_the_direction(kinematics: Kinematics, twist: tuple[float, float, float]) -> None:
    asked = kinematics.wheels(twist)
    limited = kinematics.limit(asked)
    fastest = np.abs(asked).max()
    assert np.abs(limited).max() <= kinematics.max_speed
    if fastest <= kinematics.max_speed:
        np.testing.assert_array_equal(limited, asked)
    else:
        assert np.abs(limited).max() == pytest.approx(kinematics.max_speed)
        np.testing.assert_allclose(limited, asked * (kinematics.max_speed / fastest), rtol=1e-15)


def test_all_kinds_of_robot(any_spec: RobotSpec) -> None:
    kinematics = Kinematics.of(any_spec)
    assert kinematics.holonomic == any_spec.holonomic
    assert kinematics.count == len(kinematics.inverse.T)
    for twist in ((0.1, 0.0, 0.5), (-0.05, 0.0, 0.0), (0.0, 0.0, -0.3)):
        np.testing.assert_allclose(kinematics.body(kinematics.wheels(twist)), twist, atol=1e-12)
    full = kinematics.wheels((any_spec.limits.speed, 0.0, 0.0))
    assert kinematics.limit(full) == pytest.approx(full), "the wheels are too slow for limits.speed"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stops(bad: float) -> None:
    kinematics = differential()
    np.testing.assert_array_equal(kinematics.limit([bad, 1.0]), [0.0, 0.0])


def test_inputs_are_not_changed() -> None:
    asked = np.array([9.0, -1.0])
    differential().limit(asked)
    np.testing.assert_array_equal(asked, [9.0, -1.0])
    with pytest.raises(ValueError, match="read-only"):
        differential().matrix[0, 0] = 2.0


@pytest.mark.parametrize("angles", [(0.5, 0.5, 0.5), (0.0, 0.0, math.pi / 2), (0.0, 2 * math.pi, 1.0)])
def test_wheels_in_one_place_are_refused(angles: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="wheel_angles"):
        omni(angles)
