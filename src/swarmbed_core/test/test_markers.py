"""Poses from markers: maps, accuracy, honesty, and all that must be refused.

Bounds on statistics come from the chi-square distribution at 1e-5 or rarer, not from the seed at hand.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from swarmbed_core.camera import LENS_NUMBERS, CameraModel, cameras_of, see_markers_k
from swarmbed_core.config import check
from swarmbed_core.device import CornerReading
from swarmbed_core.errors import ConfigError, MarkerError
from swarmbed_core.geometry import compose, invert, wrap
from swarmbed_core.health import Health
from swarmbed_core.imaging import Imaging, LensSpread
from swarmbed_core.markers import (
    CarrierMarkers,
    CarrierPoseSolver,
    Marker,
    MarkerMap,
    PoseEstimate,
    RobotPoseSolver,
    SideSight,
    alignment,
)
from swarmbed_core.spec import RobotSpec

if TYPE_CHECKING:
    from pathlib import Path

property_test = settings(deadline=None, max_examples=200, derandomize=True)
DOTS = RobotSpec.load("dots")
CAMERAS = cameras_of(DOTS)
AROUND = ("cam0", "cam1", "cam2", "cam3")
ARENA = MarkerMap.load("dots_arena")
CARRIER = CarrierMarkers.load("dots_carrier_40")
WALLS = np.ascontiguousarray(ARENA.corners())
SIDE = CARRIER.side_corners(DOTS.carrier.clearance) if DOTS.carrier else np.zeros((4, 3))
UNDER = np.ascontiguousarray(CARRIER.underside_map(0.175).corners())
HALF_TRAY = 0.165


def cameras_with(sigma: float) -> dict[str, CameraModel]:
    parts = [camera.model_copy(update={"corner_sigma_px": sigma}) for camera in DOTS.cameras]
    return {part.name: CameraModel.from_spec(part, DOTS.lifter) for part in parts}


def see(
    camera: CameraModel, corners: np.ndarray, pose: np.ndarray, side_min_px: float = 4.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return which markers a camera of a robot at a pose sees, and their pixels."""
    pixels, visible = np.empty((len(corners), 4, 2)), np.empty(len(corners), dtype=np.bool_)
    see_markers_k(camera.numbers, corners, *pose, side_min_px, pixels, visible)
    return np.flatnonzero(visible), pixels[visible]


def reading_of(
    name: str, pose: np.ndarray, rng: np.random.Generator, sigma: float = 0.0, at_most: int | None = None
) -> CornerReading:
    """Return what a camera sees of the arena's walls."""
    rows, pixels = see(CAMERAS[name], WALLS, pose)
    if at_most is not None and len(rows) > at_most:
        chosen = rng.choice(len(rows), at_most, replace=False)
        rows, pixels = rows[chosen], pixels[chosen]
    return CornerReading(1.0, name, ARENA.ids[rows], pixels + sigma * rng.normal(size=pixels.shape))


def random_pose(rng: np.random.Generator) -> np.ndarray:
    return np.array([*rng.uniform(-2.3, 2.3, 2), rng.uniform(-math.pi, math.pi)])


def error_of(estimate: np.ndarray, truth: np.ndarray) -> np.ndarray:
    error = np.asarray(estimate) - truth
    error[2] = wrap(error[2])
    return error


def nees_of(error: np.ndarray, covariance: np.ndarray) -> float:
    return float(error @ np.linalg.solve(covariance, error))


def place(corners: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Return points of a target at a pose in the body."""
    c, s = math.cos(pose[2]), math.sin(pose[2])
    return corners @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) + (pose[0], pose[1], 0)


def side_reading(
    poses: list[np.ndarray], rng: np.random.Generator, sigma: float = 0.0, ids: list[int] | None = None
) -> CornerReading:
    quads = np.array([CAMERAS["cam0"].project(place(SIDE, pose))[0] for pose in poses])
    noisy = quads + sigma * rng.normal(size=quads.shape)
    return CornerReading(1.0, "cam0", np.array(ids or [107] * len(poses)), noisy)


def side_at(distance: float, bearing: float, tilt: float) -> np.ndarray:
    """Return the pose of a side as seen from cam0."""
    x, y = CAMERAS["cam0"].position[:2]
    place_body = x + distance * math.cos(bearing), y + distance * math.sin(bearing)
    return np.array([*place_body, wrap(bearing + math.pi + tilt)])


# --- maps ---------------------------------------------------------------------------------------------------


def test_the_arena_has_twelve_markers_that_look_inwards() -> None:
    assert ARENA.ids.tolist() == list(range(12))
    for marker in ARENA.markers:
        x, y, _ = marker.position
        assert max(abs(x), abs(y)) == 2.5
        assert marker.size == 0.24
        # A short way along the face's normal is inside.
        ahead = x + 0.1 * math.cos(marker.yaw), y + 0.1 * math.sin(marker.yaw)
        assert max(map(abs, ahead)) == pytest.approx(2.4)
    for row, marker in enumerate(ARENA.markers):
        assert WALLS[row].mean(axis=0) == pytest.approx(marker.position)
    walls = [tuple(np.round([math.cos(m.yaw), math.sin(m.yaw)])) for m in ARENA.markers]
    assert all(walls.count(wall) == 3 for wall in walls)


def test_corners_run_clockwise_as_seen_from_the_front() -> None:
    # Looking along +x at a face that looks along -x: left is +y.
    corners = Marker(id=1, size=0.2, position=(1.0, 0.0, 0.5), yaw=math.pi).corners()
    assert corners == pytest.approx(np.array([[1, 0.1, 0.6], [1, -0.1, 0.6], [1, -0.1, 0.4], [1, 0.1, 0.4]]))
    rolled = Marker(id=1, size=0.2, position=(1.0, 0.0, 0.5), yaw=math.pi, roll=math.pi / 2).corners()
    assert rolled[0] == pytest.approx(corners[3])
    tilted = Marker(id=1, size=0.2, position=(0.0, 0.0, 0.0), yaw=0.3, pitch=0.4).corners()
    normal = np.cross(tilted[3] - tilted[0], tilted[1] - tilted[0])
    expected = math.cos(0.3) * math.cos(0.4), math.sin(0.3) * math.cos(0.4), math.sin(0.4)
    assert normal / np.linalg.norm(normal) == pytest.approx(expected)


def test_the_underside_is_a_map_of_49_that_looks_down() -> None:
    under = CARRIER.underside_map(0.175)
    assert under.ids.tolist() == list(range(200, 249))
    assert UNDER[:, :, 2] == pytest.approx(0.175)
    assert np.abs(UNDER[:, :, :2]).max() < HALF_TRAY
    assert UNDER[24].mean(axis=0) == pytest.approx((0, 0, 0.175))
    assert UNDER[0].mean(axis=0) == pytest.approx((0.15, -0.15, 0.175))
    assert UNDER[1].mean(axis=0) == pytest.approx((0.15, -0.1, 0.175))
    assert len(set(CARRIER.side_ids) | set(CARRIER.underside_ids)) == 20 + 49


def test_a_whole_marker_is_visible_from_wherever_a_robot_can_be_under_the_carrier() -> None:
    # IV-B2; legs stand at the corners, and a robot's centre keeps its radius from them (Figure 14).
    camera = CAMERAS["cam4"]
    pixels, visible = np.empty((49, 4, 2)), np.empty(49, dtype=np.bool_)
    grid = np.linspace(-HALF_TRAY, HALF_TRAY, 45)
    places = [
        (x, y)
        for x in grid
        for y in grid
        if math.hypot(HALF_TRAY - abs(x), HALF_TRAY - abs(y)) >= DOTS.body.bounding_radius
    ]
    assert len(places) > 1000
    for x, y in places:
        for yaw in np.linspace(0.0, math.pi / 2, 13):
            assert see_markers_k(camera.numbers, UNDER, x, y, yaw, 4.0, pixels, visible) >= 1, (x, y, yaw)


def test_docking_poses_face_the_side() -> None:
    side = np.array([1.0, 0.5, math.pi / 2])
    assert CARRIER.docking.predock_pose(side) == pytest.approx((1.0, 0.85, -math.pi / 2))
    assert CARRIER.docking.dock_pose(side) == pytest.approx((1.0, 0.45, -math.pi / 2))


GOOD_MAP = """
version: 1
dictionary: ARUCO_MIP_36h12
markers:
  - {id: 3, size: 0.24, position: [2.5, 0, 0.25], yaw: 3.14}
  - {id: 1, size: 0.1, position: [0, 2.5, 0.25], yaw: -1.57, pitch: 0.1, roll: 0.2}
"""


def test_a_map_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD_MAP)
    mine = MarkerMap.load(str(file))
    assert mine.ids.tolist() == [1, 3]
    assert mine.corners()[1].mean(axis=0) == pytest.approx((2.5, 0, 0.25))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1", "version: 2", "version"),
        ("id: 1,", "id: 3,", r"duplicate ids \[3\]"),
        ("id: 1,", "id: 250,", "less than 250"),
        ("id: 1,", "id: -1,", "greater than or equal to 0"),
        ("size: 0.24", "size: 0", "greater than 0"),
        ("size: 0.24", "size: 240", "less than or equal to 2"),
        ("yaw: 3.14", "yaw: .nan", "finite"),
        ("[2.5, 0, 0.25]", "[2.5, .inf, 0.25]", "finite"),
        ("[2.5, 0, 0.25]", "[2.5, 0]", r"position.2: missing"),
        ("[2.5, 0, 0.25]", "[0, 2.5, 0.25]", "3 and 1 are at the same place"),
        ("yaw: 3.14", "jaw: 3.14", "unknown field"),
        ("ARUCO_MIP_36h12", "DICT_4X4_50", "ARUCO_MIP_36h12"),
        ("version: 1", "version: 1\narea: {x_min: 1, x_max: -1, y_min: 0, y_max: 1}", "must be below x_max"),
    ],
)
def test_maps_that_are_wrong(old: str, new: str, message: str) -> None:
    assert old in GOOD_MAP
    with pytest.raises(ConfigError, match=message) as error:
        check(yaml.safe_load(GOOD_MAP.replace(old, new)), MarkerMap, "mine.yaml")
    assert "mine.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("sides", {"last_id": 99}, "last_id 99 is below first_id 100"),
        ("sides", {"last_id": 210}, "overlap"),
        ("underside", {"pitch": 0.02}, "would touch"),
        ("underside", {"rows": 8}, "exceed 249"),
        ("docking", {"predock": math.nan}, "finite"),
    ],
)
def test_carriers_that_are_wrong(part: str, changes: dict[str, float], message: str) -> None:
    data = CARRIER.model_dump()
    data[part].update(changes)
    with pytest.raises(ConfigError, match=message):
        check(data, CarrierMarkers, "carrier.yaml")


def test_alignment_is_the_tags() -> None:
    assert alignment([[0, 0], [10, 0], [10, 10], [0, 10]]) == 0.0
    assert alignment([[0, 0], [10, 1], [10, 9], [0, 10]]) == pytest.approx((10 - 8) / 18)
    assert alignment([[0, 1], [10, 0], [10, 10], [0, 9]]) == pytest.approx((8 - 10) / 18)
    assert alignment(np.zeros((4, 2))) == 0.0
    assert alignment(np.full((4, 2), math.nan)) == 0.0
    assert alignment([[0, 0], [10, 0], [10, math.inf], [0, 10]]) == 0.0


# --- the robot's pose ---------------------------------------------------------------------------------------


@property_test
@given(
    st.floats(-2.3, 2.3),
    st.floats(-2.3, 2.3),
    st.floats(-math.pi, math.pi),
    st.sets(st.sampled_from(AROUND), min_size=1),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
)
def test_exact_corners_give_the_exact_pose(
    x: float, y: float, yaw: float, names: set[str], at_most: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    truth = np.array([x, y, yaw])
    readings = [reading_of(name, truth, rng, at_most=at_most) for name in sorted(names)]
    seen = sum(len(reading.ids) for reading in readings)
    health = Health()
    estimate = RobotPoseSolver(ARENA, CAMERAS, health).solve_many(readings)
    if estimate is None:
        # Nothing in sight, or a lone marker too small to tell its two orientations apart.
        assert seen == 0 or (health.counts == {"marker.ambiguous": 1} and seen <= 3)
        hinted = RobotPoseSolver(ARENA, CAMERAS).solve_many(readings, yaw, 1e-3)
        assert hinted is None or np.abs(error_of(hinted.pose_map, truth)).max() < 1e-6
        return
    assert health.total == 0
    assert estimate.markers == seen
    assert estimate.dof == 8 * seen - 3
    assert estimate.stamp == 1.0
    assert np.abs(error_of(estimate.pose_map, truth)).max() < 1e-6
    assert np.linalg.eigvalsh(estimate.covariance).min() > 0


def test_all_twelve_at_once() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([0.1, -0.2, 0.7])
    readings = [reading_of(name, truth, rng) for name in AROUND]
    assert {int(i) for reading in readings for i in reading.ids} == set(range(12))
    estimate = RobotPoseSolver(ARENA, CAMERAS).solve_many(readings)
    assert estimate is not None
    assert estimate.markers >= 12
    assert estimate.pose_map == pytest.approx(truth, abs=1e-9)
    assert math.sqrt(estimate.covariance[0, 0]) < 0.001


def test_agrees_with_opencvs_sqpnp() -> None:
    rng = np.random.default_rng(2)
    truth = np.array([0.4, -0.7, 0.3])
    camera = CAMERAS["cam0"]
    reading = reading_of("cam0", truth, rng, sigma=0.1)
    assert len(reading.ids) >= 3
    fx, fy, cx, cy = camera.numbers[:4]
    matrix = np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]])
    points, pixels = WALLS[reading.ids].reshape(-1, 3), np.asarray(reading.corners).reshape(-1, 2)
    found, rotation, shift = cv2.solvePnP(points, pixels, matrix, None, flags=cv2.SOLVEPNP_SQPNP)
    assert found
    camera_in_map = -cv2.Rodrigues(rotation)[0].T @ shift.ravel()
    estimate = RobotPoseSolver(ARENA, CAMERAS).solve(reading)
    assert estimate is not None
    expected = compose(estimate.pose_map, (*camera.position[:2], 0.0))[:2]
    assert camera_in_map[:2] == pytest.approx(expected, abs=0.02)
    forward = cv2.Rodrigues(rotation)[0][2]
    yaw = math.atan2(forward[1], forward[0]) - DOTS.cameras[0].yaw
    assert wrap(yaw - estimate.pose_map[2]) == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("sigma", [0.3, 1.0])
@pytest.mark.parametrize("names", [AROUND[:1], AROUND])
@pytest.mark.parametrize("at_most", [1, 2, 12])
def test_noise_never_flips_and_the_covariance_is_honest(
    sigma: float, names: tuple[str, ...], at_most: int
) -> None:
    rng = np.random.default_rng(4)
    solver = RobotPoseSolver(ARENA, cameras_with(sigma))
    nees = []
    for _ in range(800):
        truth = random_pose(rng)
        estimate = solver.solve_many([reading_of(name, truth, rng, sigma, at_most) for name in names])
        if estimate is None:
            continue
        error = error_of(estimate.pose_map, truth)
        assert abs(error[2]) < 0.5
        nees.append(nees_of(error, estimate.covariance))
    n = len(nees)
    assert n > 100
    # Never surer than it may be; where several markers leave no doubt about yaw, not less sure either.
    assert sum(nees) < chi2.ppf(1 - 1e-5, 3 * n) * 1.05
    if len(names) > 1 and at_most > 1:
        assert sum(nees) > chi2.ppf(1e-5, 3 * n)
    assert sum(value > chi2.ppf(0.999, 3) for value in nees) <= max(6, 0.01 * n)


SPREAD = Imaging.load("dots")


def lenses_of(seed: int, calibration: LensSpread) -> tuple[dict[str, CameraModel], dict[str, CameraModel]]:
    """Return the cameras as they are, and as a calibration tells."""
    rng = np.random.default_rng(seed)
    while True:
        true = {camera.name: SPREAD.lenses.draw(camera, rng) for camera in DOTS.cameras}
        told = {name: calibration.calibrated(lens, rng) for name, lens in true.items()}
        try:
            return cameras_of(DOTS, true), cameras_of(DOTS, told)
        except MarkerError:
            # What is told folds the image over: that is no calibration.
            continue


@property_test
@given(st.sampled_from(["focal", "centre", "k1", "k2"]), st.floats(1e-5, 1e-4), st.integers(0, 10_000))
def test_a_pose_says_how_lens_errors_are_in_it(number: str, size: float, seed: int) -> None:
    error = LensSpread.model_validate({number: 100 * size if number == "centre" else size})
    true, told = lenses_of(seed, error)
    solver = RobotPoseSolver(ARENA, told)
    pose = random_pose(np.random.default_rng(seed))
    readings = []
    for name in AROUND:
        rows, pixels = see(true[name], WALLS, pose)
        readings.append(CornerReading(1.0, name, ARENA.ids[rows], pixels))
    estimate = solver.solve_many(readings, float(pose[2]), 0.05)
    if estimate is None or estimate.markers < 3:
        return
    assert estimate.lens.shape == (3, solver.lens_errors)
    # How much of each error the lenses really have: what was told is beside the truth.
    per_camera = solver.lens_errors // len(told)
    share = np.zeros(solver.lens_errors)
    for row, (name, camera) in enumerate(told.items()):
        off = true[name].numbers[:LENS_NUMBERS] - camera.numbers[:LENS_NUMBERS]
        share[row * per_camera : (row + 1) * per_camera] = np.linalg.lstsq(camera.unsure.T, off)[0]
    expected = estimate.lens @ share
    found = error_of(estimate.pose_map, pose)
    assert found == pytest.approx(expected, rel=0.05, abs=1e-7)


@pytest.mark.parametrize("at_most", [2, 12])
def test_with_lens_errors_a_pose_is_as_sure_as_it_says(at_most: int) -> None:
    rng = np.random.default_rng(6)
    exact, honest = [], []
    # Lenses much worse than the corners: else the noise hides them.
    worse = LensSpread(focal=0.005, centre=1.0, k1=0.003, k2=0.0005)
    for seed in range(80):
        true, told = lenses_of(seed, worse)
        solver = RobotPoseSolver(ARENA, told)
        for _ in range(5):
            pose = random_pose(rng)
            rows, pixels = see(true["cam0"], WALLS, pose)
            rows, pixels = rows[:at_most], pixels[:at_most]
            noisy = pixels + 0.3 * rng.normal(size=pixels.shape)
            reading = CornerReading(1.0, "cam0", ARENA.ids[rows], noisy)
            estimate = solver.solve(reading, float(pose[2]), 0.1)
            if estimate is not None:
                error = error_of(estimate.pose_map, pose)
                honest.append(nees_of(error, estimate.covariance + estimate.lens @ estimate.lens.T) / 3)
                exact.append(nees_of(error, estimate.covariance) / 3)
    assert len(honest) > 50
    assert 0.5 < np.mean(honest) < 1.2
    assert np.mean(exact) > 1.5 * np.mean(honest)


def test_exact_lenses_are_in_no_pose() -> None:
    solver = RobotPoseSolver(ARENA, CAMERAS)
    assert solver.lens_errors == 0
    estimate = solver.solve(reading_of("cam0", np.array([0.5, 0.3, 0.2]), np.random.default_rng(1)))
    assert estimate is not None
    assert estimate.lens.shape == (3, 0)


def test_noise_worse_than_the_spec_says_does_not_flip_either() -> None:
    rng = np.random.default_rng(5)
    solver = RobotPoseSolver(ARENA, CAMERAS)
    solved = 0
    for _ in range(4000):
        truth = random_pose(rng)
        estimate = solver.solve(reading_of("cam0", truth, rng, 1.0, 1))
        if estimate is not None:
            solved += 1
            assert abs(wrap(estimate.pose_map[2] - truth[2])) < 0.5
    assert solved > 100
    assert solver.health.counts["marker.residual"] > 1000


def test_a_heading_decides_where_a_lone_marker_is_ambiguous() -> None:
    rng = np.random.default_rng(6)
    plain, hinted = RobotPoseSolver(ARENA, CAMERAS), RobotPoseSolver(ARENA, CAMERAS)
    solved = [0, 0]
    nees = []
    for _ in range(1500):
        truth = random_pose(rng)
        reading = reading_of("cam0", truth, rng, 0.3, 1)
        solved[0] += plain.solve(reading) is not None
        estimate = hinted.solve(reading, truth[2] + rng.normal(0, 0.05), 0.05)
        if estimate is not None:
            solved[1] += 1
            error = error_of(estimate.pose_map, truth)
            assert abs(error[2]) < 0.5
            nees.append(nees_of(error, estimate.covariance))
    assert solved[1] > 1.3 * solved[0]
    assert np.mean(nees) < 3.3


def test_a_heading_that_is_wrong_or_not_a_number() -> None:
    rng = np.random.default_rng(7)
    truth = np.array([0.4, -0.7, 0.3])
    solver = RobotPoseSolver(ARENA, CAMERAS)
    reading = reading_of("cam0", truth, rng)
    assert solver.solve(reading, truth[2] + 2.0) is None
    for heading, sigma in ((math.nan, 0.05), (math.inf, 0.05), (0.3, math.nan), (0.3, -1.0)):
        estimate = solver.solve(reading, heading, sigma)
        assert estimate is not None
        assert estimate.pose_map == pytest.approx(truth, abs=1e-8)
    assert solver.health.counts["marker.heading"] == 4
    assert solver.solve(reading, truth[2], 0.0) is not None
    assert solver.solve(reading, truth[2] + 1.0, 100.0) is not None


def test_a_marker_in_the_wrong_place_is_left_out() -> None:
    rng = np.random.default_rng(8)
    truth = np.array([0.1, -0.2, 0.7])
    readings = [reading_of(name, truth, rng, 0.3) for name in AROUND]
    readings[0].corners[0] += 15.0
    liar = int(readings[0].ids[0])
    solver = RobotPoseSolver(ARENA, CAMERAS)
    estimate = solver.solve_many(readings)
    assert estimate is not None
    assert solver.health.counts == {"marker.stranger": 1}
    assert f"marker {liar} contradicts" in solver.health.latest["marker.stranger"]
    assert estimate.markers == sum(len(reading.ids) for reading in readings) - 1
    assert nees_of(error_of(estimate.pose_map, truth), estimate.covariance) < chi2.ppf(1 - 1e-5, 3)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_where_no_majority_agrees_there_is_no_pose(count: int) -> None:
    reading = reading_of("cam0", np.array([0.4, -0.7, 0.3]), np.random.default_rng(9), 0.3)
    pixels = reading.corners[:count].copy()
    pixels[:, 0] -= np.array([4.0, 3.0])
    pixels += np.arange(count)[:, None, None] * np.array([3.0, -25.0])
    solver = RobotPoseSolver(ARENA, CAMERAS)
    assert solver.solve(CornerReading(1.0, "cam0", reading.ids[:count], pixels)) is None
    assert solver.health.counts == {"marker.residual": 1}
    names = ", ".join(map(str, reading.ids[:count]))
    assert f"markers {names}: the corners are too far" in solver.health.latest["marker.residual"]


def test_a_pose_outside_the_arena_is_not_believed() -> None:
    truth = np.array([0.4, -0.7, 0.3])
    reading = reading_of("cam0", truth, np.random.default_rng(10))
    small = ARENA.model_copy(update={"area": {"x_min": 0.0}})
    data = ARENA.model_dump()
    data["area"] = {"x_min": -2.5, "x_max": 0.2, "y_min": -2.5, "y_max": 2.5}
    small = MarkerMap.model_validate(data)
    solver = RobotPoseSolver(small, CAMERAS)
    assert solver.solve(reading) is None
    assert solver.health.counts == {"marker.area": 1}
    data["area"] = None
    assert RobotPoseSolver(MarkerMap.model_validate(data), CAMERAS).solve(reading) is not None


GOOD_POSE = np.array([-1.0, -0.9, 0.5])


def good_reading() -> CornerReading:
    reading = reading_of("cam0", GOOD_POSE, np.random.default_rng(11))
    assert len(reading.ids) >= 4
    return reading


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("marker.unknown", lambda ids, _: ids.__setitem__(0, 77)),
        ("marker.unknown", lambda ids, _: ids.__setitem__(0, -5)),
        ("marker.not_finite", lambda _, corners: corners.__setitem__((0, 2, 1), math.nan)),
        ("marker.not_finite", lambda _, corners: corners.__setitem__((0, 0, 0), -math.inf)),
        ("marker.outside", lambda _, corners: corners.__setitem__((0, 1, 0), 800.0)),
        ("marker.outside", lambda _, corners: corners.__setitem__((0, 1, 1), -1e9)),
        ("marker.degenerate", lambda _, corners: corners.__setitem__(0, corners[0, 0].copy())),
        ("marker.degenerate", lambda _, corners: corners.__setitem__(0, corners[0, [0, 2, 1, 3]].copy())),
        ("marker.behind", lambda _, corners: corners.__setitem__(0, corners[0, ::-1].copy())),
    ],
)
def test_a_bad_detection_is_refused_and_the_others_used(reason: str, change: Any) -> None:
    reading = good_reading()
    ids, corners = reading.ids.copy(), reading.corners.copy()
    change(ids, corners)
    solver = RobotPoseSolver(ARENA, CAMERAS)
    estimate = solver.solve(CornerReading(1.0, "cam0", ids, corners))
    assert solver.health.counts == {reason: 1}
    assert f"marker {ids[0]} seen by cam0" in solver.health.latest[reason]
    assert estimate is not None
    assert estimate.markers == len(ids) - 1
    assert estimate.pose_map == pytest.approx(GOOD_POSE, abs=1e-8)


def test_an_id_that_is_there_twice_is_not_used_at_all() -> None:
    reading = good_reading()
    ids = np.append(reading.ids, reading.ids[0])
    corners = np.concatenate([reading.corners, reading.corners[:1] + 30.0])
    solver = RobotPoseSolver(ARENA, CAMERAS)
    estimate = solver.solve(CornerReading(1.0, "cam0", ids, corners))
    assert estimate is not None
    assert estimate.markers == len(reading.ids) - 1
    assert solver.health.counts == {"marker.twice": 2}


def test_markers_of_other_things_are_no_fault() -> None:
    reading = good_reading()
    ids = np.append(reading.ids, [104, 204])
    corners = np.concatenate([reading.corners, reading.corners[:2]])
    solver = RobotPoseSolver(ARENA, CAMERAS, ignore=[*CARRIER.side_ids, *CARRIER.underside_ids])
    assert solver.solve(CornerReading(1.0, "cam0", ids, corners)) is not None
    assert solver.health.total == 0


@pytest.mark.parametrize(
    ("reason", "reading"),
    [
        ("marker.camera", CornerReading(1.0, "cam9", np.array([1]), np.zeros((1, 4, 2)))),
        ("marker.stamp", CornerReading(math.nan, "cam0", np.array([1]), np.zeros((1, 4, 2)))),
        ("marker.stamp", CornerReading(math.inf, "cam0", np.array([1]), np.zeros((1, 4, 2)))),
        ("marker.shape", CornerReading(1.0, "cam0", np.array([1, 2]), np.zeros((1, 4, 2)))),
        ("marker.shape", CornerReading(1.0, "cam0", np.array([1]), np.zeros((4, 2)))),
        ("marker.shape", CornerReading(1.0, "cam0", np.array([[1]]), np.zeros((1, 4, 2)))),
        ("marker.shape", CornerReading(1.0, "cam0", np.array([1.5]), np.zeros((1, 4, 2)))),  # type: ignore[arg-type]
        ("marker.shape", CornerReading(1.0, "cam0", [1], "corners")),  # type: ignore[arg-type]
        ("marker.shape", CornerReading(1.0, "cam0", [1], [[[1, 2], [3]]])),  # type: ignore[arg-type]
        ("marker.shape", CornerReading("now", "cam0", [1], [[[1, 2]] * 4])),  # type: ignore[arg-type]
    ],
)
def test_readings_that_are_none(reason: str, reading: CornerReading) -> None:
    solver = RobotPoseSolver(ARENA, CAMERAS)
    assert solver.solve(reading) is None
    assert solver.health.counts == {reason: 1}
    # Nothing of it is left in the next one.
    assert solver.solve(good_reading()) is not None


def test_an_image_without_markers_is_no_fault() -> None:
    solver = RobotPoseSolver(ARENA, CAMERAS)
    assert solver.solve(CornerReading(1.0, "cam0", np.array([], dtype=np.int64), np.zeros((0, 4, 2)))) is None
    assert solver.solve(CornerReading(1.0, "cam0", [], [])) is None  # type: ignore[arg-type]
    assert solver.solve_many([]) is None
    assert solver.health.total == 0


def test_images_of_one_time_only_and_one_of_each_camera() -> None:
    truth = np.array([0.1, -0.2, 0.7])
    rng = np.random.default_rng(12)
    first, second = (reading_of(name, truth, rng) for name in AROUND[:2])
    solver = RobotPoseSolver(ARENA, CAMERAS)
    late = CornerReading(1.05, second.camera, second.ids, second.corners)
    estimate = solver.solve_many([first, late])
    assert estimate is not None
    assert estimate.stamp == 1.05
    assert estimate.markers == len(second.ids)
    assert solver.health.counts == {"marker.stamps_apart": 1}
    near = CornerReading(1.001, second.camera, second.ids, second.corners)
    estimate = solver.solve_many([first, near, first])
    assert estimate is not None
    assert estimate.stamp == pytest.approx(1.0005)
    assert estimate.markers == len(first.ids) + len(second.ids)
    assert solver.health.counts["marker.camera_twice"] == 1


def test_many_detections_of_rubbish() -> None:
    n = 500
    rng = np.random.default_rng(13)
    solver = RobotPoseSolver(ARENA, CAMERAS)
    ids = rng.integers(0, 250, n)
    assert solver.solve(CornerReading(1.0, "cam0", ids, rng.uniform(0, 480, (n, 4, 2)))) is None
    assert solver.health.total >= n


def test_a_solver_needs_cameras() -> None:
    with pytest.raises(MarkerError, match="no camera"):
        RobotPoseSolver(ARENA, {})


anything = st.one_of(
    st.floats(),
    st.floats(-20, 660),
    st.sampled_from([0.0, 100.0, 140.0, math.nan, math.inf, -math.inf, 1e308]),
)
quads = st.lists(st.tuples(anything, anything), min_size=4, max_size=4)


def assert_usable(pose: np.ndarray, covariance: np.ndarray) -> None:
    assert np.isfinite(pose).all()
    assert np.isfinite(covariance).all()
    assert np.diag(covariance).min() > 0


@property_test
@given(st.lists(st.tuples(st.integers(0, 13), quads), max_size=4), st.floats())
def test_no_corners_raise_or_give_a_nan(
    detections: list[tuple[int, list[tuple[float, float]]]], heading: float
) -> None:
    ids = np.array([number for number, _ in detections], dtype=np.int64)
    corners = np.array([quad for _, quad in detections]).reshape(-1, 4, 2)
    estimate = FUZZED.solve(CornerReading(1.0, "cam1", ids, corners), heading)
    assert estimate is None or isinstance(estimate, PoseEstimate)
    if estimate is not None:
        assert_usable(estimate.pose_map, estimate.covariance)
    for sight in FUZZED_CARRIER.side(CornerReading(1.0, "cam1", ids + 100, corners)):
        assert_usable(sight.pose_body, sight.covariance)
        assert math.isfinite(sight.alignment)
    under = FUZZED_CARRIER.underside(CornerReading(1.0, "cam4", ids + 200, corners), heading)
    if under is not None:
        assert_usable(under.pose_body, under.covariance)


FUZZED = RobotPoseSolver(ARENA, CAMERAS)
FUZZED_CARRIER = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)


@property_test
@given(st.integers(0, 2**32 - 1), st.floats(0.5, 200.0))
def test_corners_far_off_never_give_a_nan(seed: int, sigma: float) -> None:
    rng = np.random.default_rng(seed)
    estimate = FUZZED.solve_many([reading_of(name, random_pose(rng), rng, sigma, 3) for name in AROUND])
    if estimate is not None:
        assert_usable(estimate.pose_map, estimate.covariance)


# --- carriers -----------------------------------------------------------------------------------------------


@property_test
@given(st.floats(0.2, 0.6), st.floats(-0.4, 0.9), st.floats(-0.9, 0.9))
def test_a_side_goes_round(distance: float, bearing: float, tilt: float) -> None:
    truth = side_at(distance, bearing, tilt)
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    sights = solver.side(side_reading([truth], np.random.default_rng(0)))
    assert len(sights) == 1
    sight = sights[0]
    assert (sight.id, sight.camera, sight.stamp, sight.markers) == (107, "cam0", 1.0, 1)
    assert solver.health.total == 0
    error = error_of(sight.pose_body, truth)
    if sight.yaw_known:
        assert np.abs(error).max() < 1e-6
    else:
        assert nees_of(error, sight.covariance) < chi2.ppf(0.999, 3)
    # A face turned to the right of the camera's axis has its left edge nearer, so it looks taller.
    turned = wrap(truth[2] - DOTS.cameras[0].yaw - math.pi)
    if abs(turned) > 1e-3:
        assert math.copysign(1.0, sight.alignment) == math.copysign(1.0, turned)


@pytest.mark.parametrize(("distance", "millimetres"), [(0.2, 0.5), (0.5, 3.0), (1.0, 12.0)])
def test_a_side_with_noise(distance: float, millimetres: float) -> None:
    # At 1 m the code is 7 px wide: its place is good, its yaw mostly not known, and it says so.
    rng = np.random.default_rng(14)
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    errors, nees, known = [], [], 0
    n = 1000
    for _ in range(n):
        truth = side_at(distance, rng.uniform(-0.4, 0.9), rng.uniform(-0.9, 0.9))
        (sight,) = solver.side(side_reading([truth], rng, 0.3))
        error = error_of(sight.pose_body, truth)
        errors.append(error)
        nees.append(min(nees_of(error, sight.covariance), 50.0))
        known += sight.yaw_known
        if sight.yaw_known:
            assert abs(error[2]) < 0.4
        else:
            assert sight.covariance[2, 2] > 0.03**2
    rms = np.sqrt(np.mean(np.square(errors), axis=0))
    assert rms[:2].max() < millimetres * 1e-3
    assert sum(nees) < chi2.ppf(1 - 1e-5, 3 * n) * 1.05
    assert known == n if distance < 0.3 else known < n
    assert solver.health.total == 0


def test_two_sides_of_a_carrier_are_used_together() -> None:
    rng = np.random.default_rng(15)
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    nees = []
    n = 500
    for _ in range(n):
        left = side_at(rng.uniform(0.4, 1.0), rng.uniform(0.0, 0.5), rng.uniform(-1.1, -0.5))
        right = compose(left, (-HALF_TRAY, HALF_TRAY, math.pi / 2))
        pair = [left, right] if rng.random() < 0.5 else [right, left]
        (sight,) = solver.side(side_reading(pair, rng, 0.3))
        assert sight.markers == 2
        assert sight.yaw_known
        truth = min((left, right), key=lambda pose: abs(wrap(pose[2] - sight.pose_body[2])))
        error = error_of(sight.pose_body, truth)
        assert abs(error[2]) < 0.15
        nees.append(nees_of(error, sight.covariance))
        # Of the two it is the one that the robot sees less at a slant.
        slants = [abs(wrap(pose[2] - math.atan2(-pose[1], -pose[0]))) for pose in (left, right)]
        assert abs(slants[0] - slants[1]) < 0.1 or (truth is left) == (slants[0] < slants[1])
    assert sum(nees) < chi2.ppf(1 - 1e-5, 3 * n) * 1.05
    assert solver.health.total == 0


def test_several_carriers_come_nearest_first() -> None:
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    poses = [side_at(0.7, 0.7, 0.1), side_at(0.3, 0.0, 0.1), side_at(0.5, 0.4, 0.3)]
    sights = solver.side(side_reading(poses, np.random.default_rng(0), ids=[101, 119, 100]))
    assert [sight.id for sight in sights] == [119, 100, 101]
    assert [sight.distance for sight in sights] == sorted(sight.distance for sight in sights)


def test_other_markers_are_not_carriers() -> None:
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    poses = [side_at(0.3, 0.1 * i, 0.1) for i in range(3)]
    assert solver.side(side_reading(poses, np.random.default_rng(0), ids=[3, 99, 120])) == ()
    assert solver.health.total == 0


def test_sides_that_cannot_be() -> None:
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    rng = np.random.default_rng(0)
    three = side_reading([side_at(0.4, bearing, 0.1) for bearing in (-0.2, 0.2, 0.6)], rng)
    assert solver.side(three) == ()
    assert solver.health.counts == {"carrier.sides": 1}
    # Two of one id that are not at right angles.
    two = side_reading([side_at(0.4, bearing, 0.1) for bearing in (-0.2, 0.6)], rng)
    assert solver.side(two) == ()
    assert solver.health.counts["carrier.residual"] == 1
    behind = side_reading([side_at(0.4, 0.1, math.pi)], rng)
    assert solver.side(behind) == ()
    assert solver.health.counts["marker.behind"] == 1
    assert solver.side(CornerReading(1.0, "cam9", two.ids, two.corners)) == ()
    assert solver.health.counts["carrier.camera"] == 1


def under_reading(
    robot_in_carrier: np.ndarray,
    lifter: float,
    rng: np.random.Generator,
    sigma: float = 0.0,
    at_most: int = 49,
) -> CornerReading:
    """Return what the upward camera sees of the tray on the floor."""
    rows, pixels = see(CAMERAS["cam4"].at_lifter_height(lifter), UNDER, robot_in_carrier)
    chosen = rng.permutation(len(rows))[:at_most]
    noisy = pixels[chosen] + sigma * rng.normal(size=pixels[chosen].shape)
    return CornerReading(1.0, "cam4", rows[chosen] + 200, noisy)


@property_test
@given(
    st.floats(-0.13, 0.13),
    st.floats(-0.13, 0.13),
    st.floats(-math.pi, math.pi),
    st.floats(0.14, 0.145),
    st.integers(1, 4),
)
def test_an_underside_goes_round(x: float, y: float, yaw: float, lifter: float, at_most: int) -> None:
    robot = np.array([x, y, yaw])
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    reading = under_reading(robot, lifter, np.random.default_rng(0), at_most=at_most)
    sight = solver.underside(reading, lifter)
    assert sight is not None
    assert sight.markers == len(reading.ids) >= 1
    assert np.abs(error_of(sight.pose_body, invert(robot))).max() < 1e-6
    assert solver.health.total == 0


def test_an_underside_with_noise() -> None:
    rng = np.random.default_rng(16)
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    errors, nees = [], []
    n = 1000
    for _ in range(n):
        # About the centre, where the robot has to stop.
        robot = np.array([*rng.uniform(-0.02, 0.02, 2), rng.uniform(-math.pi, math.pi)])
        sight = solver.underside(under_reading(robot, 0.145, rng, 0.3), 0.145)
        assert sight is not None
        errors.append(error_of(sight.pose_body, invert(robot)))
        nees.append(nees_of(errors[-1], sight.covariance))
    rms = np.sqrt(np.mean(np.square(errors), axis=0))
    assert rms[:2].max() < 0.0001
    assert rms[2] < math.radians(0.1)
    assert chi2.ppf(1e-5, 3 * n) < sum(nees) < chi2.ppf(1 - 1e-5, 3 * n) * 1.05


def test_undersides_that_cannot_be() -> None:
    solver = CarrierPoseSolver(CARRIER, DOTS, CAMERAS)
    rng = np.random.default_rng(0)
    reading = under_reading(np.array([0.01, 0.02, 0.3]), 0.145, rng)
    assert solver.underside(reading, math.nan) is None
    assert solver.health.counts["carrier.lifter"] == 1
    # A lifted tray lies on the camera.
    assert solver.underside(reading, 0.197) is None
    assert solver.health.counts["carrier.gap"] == 1
    assert solver.underside(CornerReading(1.0, "cam4", reading.ids, reading.corners[:, ::-1]), 0.145) is None
    assert solver.health.counts["marker.behind"] == len(reading.ids)
    twisted = reading.corners + np.arange(4)[:, None] * 9.0
    assert solver.underside(CornerReading(1.0, "cam4", reading.ids, twisted), 0.145) is None
    assert solver.health.counts["carrier.residual"] == 1
    assert solver.underside(CornerReading(1.0, "cam9", reading.ids, reading.corners), 0.145) is None
    assert solver.health.counts["carrier.camera"] == 1
    total = solver.health.total
    assert solver.underside(CornerReading(1.0, "cam4", reading.ids - 200, reading.corners), 0.145) is None
    assert solver.health.total == total
    # The solver's cameras are as before.
    assert solver.underside(reading, 0.145) is not None


def test_a_camera_below_the_platform_sees_a_tray_that_is_lifted() -> None:
    deep = DOTS.cameras[4].model_copy(update={"z": 0.115})
    camera = CameraModel.from_spec(deep, DOTS.lifter)
    robot = np.array([0.01, 0.02, 0.3])
    lifted = UNDER + np.array([0.0, 0.0, 0.197 - 0.175])
    rows, pixels = see(camera.at_lifter_height(0.197), lifted, robot)
    sight = CarrierPoseSolver(CARRIER, DOTS, {"cam4": camera}).underside(
        CornerReading(1.0, "cam4", rows + 200, pixels), 0.197
    )
    assert sight is not None
    assert np.abs(error_of(sight.pose_body, invert(robot))).max() < 1e-6


def test_solvers_for_carriers_need_a_robot_that_knows_them() -> None:
    with pytest.raises(MarkerError, match="epuck2 has no carrier"):
        CarrierPoseSolver(CARRIER, RobotSpec.load("epuck2"), CAMERAS)
    with pytest.raises(MarkerError, match="dots has no cameras"):
        CarrierPoseSolver(CARRIER, DOTS, {})
    assert DOTS.carrier is not None
    oblong = DOTS.model_copy(update={"carrier": DOTS.carrier.model_copy(update={"length": 0.4})})
    with pytest.raises(MarkerError, match=r"0.4 x 0.33 m.*square"):
        CarrierPoseSolver(CARRIER, oblong, CAMERAS)


def test_a_sight_knows_its_distance() -> None:
    sight = SideSight(104, 1.0, "cam0", np.array([0.3, 0.4, 1.0]), np.eye(3), True, 0.0, 1)
    assert sight.distance == pytest.approx(0.5)
