"""The kernels of the pose in the plane: round trips, refusals, what is ambiguous."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm
from swarmbed_core.camera import SIGMA, CameraCalibration, CameraModel, cameras_of
from swarmbed_core.geometry import invert, wrap
from swarmbed_core.planar_pose import (
    AMBIGUOUS,
    BEHIND,
    COVARIANCE,
    DEGENERATE,
    DOF,
    FOUND,
    FROM_BEHIND,
    NO_POSE,
    NOT_FINITE,
    OUTSIDE,
    RESIDUAL,
    RESULT_NUMBERS,
    USED,
    chi2_quantile_k,
    locate_k,
    quad_fault_k,
)
from swarmbed_core.spec import RobotSpec

property_test = settings(deadline=None, max_examples=300, derandomize=True)
DOTS = RobotSpec.load("dots")
IDEAL = cameras_of(DOTS)["cam0"]
BENT = CameraModel.from_spec(
    DOTS.cameras[0],
    None,
    CameraCalibration(
        version=1,
        width=640,
        height=480,
        fx=188.0,
        fy=185.0,
        cx=322.0,
        cy=236.0,
        distortion=(-0.02, 0.002, 0.0008, -0.0005, 0.0),
    ),
)


def board(*places: tuple[float, float, float], size: float = 0.2) -> np.ndarray:
    """Return upright markers that look along +x, with their centres at places."""
    half = size / 2
    face = np.array([[0, -half, half], [0, half, half], [0, half, -half], [0, -half, -half]])
    return np.array([face + place for place in places])


def look(camera: CameraModel, points: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Return the pixels of a target at a pose in the body."""
    c, s = math.cos(pose[2]), math.sin(pose[2])
    turned = points @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) + (pose[0], pose[1], 0)
    return camera.project(turned)[0].reshape(-1, 4, 2)


def deviation(result: np.ndarray, pose: np.ndarray) -> float:
    """Return the largest difference to a pose."""
    return max(abs(result[0] - pose[0]), abs(result[1] - pose[1]), abs(wrap(result[2] - pose[2])))


def locate(
    camera: CameraModel,
    points: np.ndarray,
    pixels: np.ndarray,
    *,
    facing: float = 0.0,
    window: float = math.pi,
    sigma_max: float = 0.1,
    doubt_px: float = 0.0,
    inverse: bool = False,
) -> tuple[int, np.ndarray]:
    n = len(points)
    result = np.full(RESULT_NUMBERS, math.nan)
    rays = camera.undistort(pixels)[0].reshape(n, 4, 2)
    origin, numbers = np.zeros((n, 2), dtype=np.int64), camera.numbers[None].copy()
    status = locate_k(
        points, pixels, rays, origin, numbers, n, facing, window, sigma_max, doubt_px, inverse, result
    )
    return status, result


@pytest.mark.parametrize("dof", [5, 13, 29, 93, 300])
def test_chi_square_quantiles(dof: int) -> None:
    for z in (1.0, 2.326, 4.753):
        assert chi2_quantile_k(float(dof), z) == pytest.approx(chi2.ppf(norm.cdf(z), dof), rel=0.05)


SQUARE = np.array([[100.0, 100.0], [120.0, 100.0], [120.0, 120.0], [100.0, 120.0]])


@pytest.mark.parametrize(
    ("quad", "fault"),
    [
        (SQUARE, USED),
        (SQUARE + np.array((-104, 0)), USED),  # a refined corner may be a little outside
        (SQUARE[::-1], FROM_BEHIND),
        (SQUARE[[0, 3, 2, 1]], FROM_BEHIND),
        (SQUARE[[0, 2, 1, 3]], DEGENERATE),  # a bow tie
        (np.array([[100.0, 100], [120, 100], [105, 105], [100, 120]]), DEGENERATE),  # an arrow
        (SQUARE[[0, 0, 2, 3]], DEGENERATE),
        (np.array([[100.0, 100], [110, 110], [120, 120], [130, 130]]), DEGENERATE),
        (np.full((4, 2), 50.0), DEGENERATE),
        (SQUARE * (0.05, 0.05), DEGENERATE),
        (SQUARE + np.array((600, 0)), OUTSIDE),
        (SQUARE - np.array((200, 0)), OUTSIDE),
        (SQUARE + np.array((0, 1e300)), OUTSIDE),
        (np.where(np.arange(8).reshape(4, 2) == 5, math.nan, SQUARE), NOT_FINITE),
        (np.where(np.arange(8).reshape(4, 2) == 0, math.inf, SQUARE), NOT_FINITE),
    ],
)
def test_quads(quad: np.ndarray, fault: int) -> None:
    assert quad_fault_k(IDEAL.numbers, np.ascontiguousarray(quad), np.empty((4, 2))) == fault


@property_test
@given(
    st.sampled_from([IDEAL, BENT]),
    st.floats(0.4, 2.0),
    st.floats(-0.5, 0.9),
    st.floats(-0.9, 0.9),
)
def test_a_board_goes_round(camera: CameraModel, distance: float, bearing: float, tilt: float) -> None:
    points = board((0, -0.15, 0.2), (0, 0.15, 0.3), (-0.1, 0.0, 0.45), size=0.1)
    place = 0.1 + distance * math.cos(bearing), distance * math.sin(bearing)
    pose = np.array([*place, wrap(bearing + math.pi + tilt)])
    pixels = look(camera, points, pose)
    status, result = locate(camera, points, pixels)
    assert status == FOUND
    assert deviation(result, pose) < 1e-8
    assert result[DOF] == 8 * 3 - 3
    status, result = locate(camera, points, pixels, inverse=True)
    assert status == FOUND
    assert deviation(result, invert(pose)) < 1e-8


@pytest.mark.parametrize("inverse", [False, True])
def test_the_covariance_is_that_of_the_errors(inverse: bool) -> None:
    rng = np.random.default_rng(3)
    points = board((0.3, -0.15, 0.2), (0.3, 0.15, 0.3), (0.2, 0.5, 0.45), size=0.1)
    pose = np.array([1.2, 0.5, 2.9])
    truth = invert(pose) if inverse else pose
    pixels = look(BENT, points, pose)
    errors, covariances = [], []
    for _ in range(2000):
        noisy = pixels + rng.normal(0, BENT.numbers[SIGMA], pixels.shape)
        status, result = locate(BENT, points, noisy, inverse=inverse)
        assert status == FOUND
        errors.append(result[:3] - truth)
        covariances.append(result[COVARIANCE : COVARIANCE + 9].reshape(3, 3))
    whiten = np.linalg.inv(np.linalg.cholesky(np.mean(covariances, axis=0)))
    assert whiten @ np.cov(np.array(errors).T) @ whiten.T == pytest.approx(np.eye(3), abs=0.12)


def test_a_lone_marker_far_away_is_ambiguous_and_a_direction_decides() -> None:
    points = board((0, 0, 0.2))
    pose = np.array([3.0, 0.8, math.pi + 0.7])
    pixels = look(IDEAL, points, pose)
    status, result = locate(IDEAL, points, pixels)
    assert status == AMBIGUOUS
    assert np.isfinite(result).all()
    assert abs(wrap(result[2] - pose[2])) < 4 * math.sqrt(result[COVARIANCE + 8])
    assert math.hypot(*(result[:2] - pose[:2])) < 0.05
    status, result = locate(IDEAL, points, pixels, facing=wrap(pose[2] + 0.05), window=0.3)
    assert status == FOUND
    assert deviation(result, pose) < 1e-7


def test_doubt_in_the_corners_makes_more_ambiguous() -> None:
    points = board((0, 0, 0.2))
    pose = np.array([1.2, 0.2, math.pi + 0.6])
    pixels = look(IDEAL, points, pose)
    assert locate(IDEAL, points, pixels)[0] == FOUND
    assert locate(IDEAL, points, pixels, doubt_px=1.0)[0] == AMBIGUOUS
    assert locate(IDEAL, points, pixels, doubt_px=1.0, facing=wrap(pose[2]), window=0.3)[0] == FOUND


def test_a_direction_that_the_corners_contradict() -> None:
    points = board((0, 0, 0.2))
    pixels = look(IDEAL, points, np.array([0.8, 0.2, math.pi]))
    for facing in (0.0, 1.0, 2.2, -2.2):
        assert locate(IDEAL, points, pixels, facing=facing, window=0.2)[0] != FOUND


def test_a_marker_seen_from_behind_has_its_pose_behind() -> None:
    points = board((0, -0.3, 0.2), (0, 0.3, 0.3))
    pixels = look(IDEAL, points, np.array([1.0, 0.1, 0.2]))
    assert locate(IDEAL, points, pixels)[0] == BEHIND


def test_corners_that_fit_nothing() -> None:
    points = board((0, -0.3, 0.2), (0, 0.3, 0.3))
    pixels = look(IDEAL, points, np.array([1.0, 0.1, math.pi]))
    assert locate(IDEAL, points, pixels)[0] == FOUND
    assert locate(IDEAL, points, pixels[::-1].copy())[0] in (RESIDUAL, NO_POSE)
    assert locate(IDEAL, points, pixels + np.array([[[0.0]], [[20.0]]]))[0] == RESIDUAL
