"""Cameras against OpenCV's own projection, and their refusals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.camera import (
    LENS_NUMBERS,
    SIGMA,
    SIGMA_MIN_PX,
    CameraCalibration,
    CameraModel,
    cameras_of,
    see_markers_k,
)
from swarmbed_core.errors import ConfigError, MarkerError
from swarmbed_core.spec import Camera, RobotSpec

if TYPE_CHECKING:
    from pathlib import Path

property_test = settings(deadline=None, max_examples=300, derandomize=True)
DOTS = RobotSpec.load("dots")
CAMERAS = cameras_of(DOTS)
LENS = CameraCalibration(
    version=1,
    width=640,
    height=480,
    fx=190.0,
    fy=187.0,
    cx=322.0,
    cy=236.0,
    distortion=(-0.03, 0.004, 0.0008, -0.0005, -0.0002),
)
BENT = CameraModel.from_spec(DOTS.cameras[1], DOTS.lifter, LENS)


@pytest.fixture
def ahead() -> CameraModel:
    return CameraModel.from_spec(
        Camera(name="c", x=0.1, y=0, z=0.08, yaw=0, width=640, height=480, horizontal_fov=2.0943951, rate=30)
    )


def test_a_camera_that_looks_ahead(ahead: CameraModel) -> None:
    centre, left, up = ahead.project([[1.1, 0, 0.08], [1.1, 0.5, 0.08], [1.1, 0, 0.58]])[0]
    assert centre == pytest.approx((319.5, 239.5))
    # A field of 120 deg across 640 pixels.
    focal = 320 / math.tan(math.radians(60))
    assert left == pytest.approx((319.5 - focal / 2, 239.5), abs=1e-5)
    assert up == pytest.approx((319.5, 239.5 - focal / 2), abs=1e-5)


def test_what_is_not_in_the_image(ahead: CameraModel) -> None:
    pixels, visible = ahead.project(
        [[-1, 0, 0.08], [0.1, 1, 0.08], [0.2, 0, 2.0], [0.2, 2.0, 0.08], [math.nan, 0, 0], [math.inf, 0, 0]]
    )
    assert not visible.any()
    assert np.isfinite(pixels).all()
    assert pixels[0] == pytest.approx((-1, -1))


def test_the_upward_camera_rides_on_the_lifter() -> None:
    up = CAMERAS["cam4"]
    assert up.position == pytest.approx((0, 0, 0.145))
    raised = up.at_lifter_height(0.165)
    assert raised.position == pytest.approx((0, 0, 0.165))
    assert raised.at_lifter_height(0.145).position == pytest.approx((0, 0, 0.145))
    assert CAMERAS["cam0"].at_lifter_height(0.165) is CAMERAS["cam0"]
    # Looking up with yaw 0, the image's bottom is the robot's front, its right the robot's right.
    front, right = up.project([[0.02, 0, 0.175], [0, -0.02, 0.175]])[0]
    assert front[1] > 300
    assert right[0] > 400


def test_noise_is_never_taken_for_nothing(ahead: CameraModel) -> None:
    assert ahead.numbers[SIGMA] == SIGMA_MIN_PX
    assert CAMERAS["cam0"].numbers[SIGMA] == DOTS.cameras[0].corner_sigma_px


@pytest.mark.parametrize("camera", [BENT, *CAMERAS.values()], ids=lambda camera: camera.name)
def test_projects_as_opencv_does(camera: CameraModel) -> None:
    rng = np.random.default_rng(1)
    rays = np.column_stack([rng.uniform(-1.5, 1.5, 200), rng.uniform(-1.2, 1.2, 200), np.ones(200)])
    points = (rays * rng.uniform(0.1, 3.0, (200, 1))) @ camera.rotation + camera.position
    fx, fy, cx, cy = camera.numbers[:4]
    expected, _ = cv2.projectPoints(
        points,
        cv2.Rodrigues(camera.rotation)[0],
        -camera.rotation @ camera.position,
        np.array([[fx, 0, cx], [0, fy, cy], [0, 0, 1]]),
        camera.numbers[4:9].copy(),
    )
    pixels, visible = camera.project(points)
    assert pixels == pytest.approx(expected.reshape(-1, 2), abs=1e-8)
    inside = (np.abs(pixels - (319.5, 239.5)) <= (320, 240)).all(axis=1)
    assert (visible == inside).all()
    assert visible.sum() > 50


def bearing(camera, pixels):
    """Return the unit directions of pixels in the body frame, and which pixels have one."""
    flat, found = camera.undistort(pixels)
    rays = np.column_stack([flat, np.ones(len(flat))]) @ camera.rotation
    return rays / np.linalg.norm(rays, axis=1, keepdims=True), found


@property_test
@given(
    st.sampled_from([BENT, CAMERAS["cam0"], CAMERAS["cam2"], CAMERAS["cam4"]]),
    st.floats(-8, 647),
    st.floats(-8, 487),
    st.floats(0.05, 5.0),
)
def test_a_bearing_leads_to_its_pixel(camera: CameraModel, u: float, v: float, distance: float) -> None:
    rays, found = bearing(camera, [[u, v]])
    assert found.all()
    assert np.linalg.norm(rays[0]) == pytest.approx(1.0)
    pixels, _ = camera.project(camera.position + distance * rays)
    assert pixels[0] == pytest.approx((u, v), abs=1e-7)


@property_test
@given(st.floats(), st.floats())
def test_pixels_without_a_ray(u: float, v: float) -> None:
    barrel = LENS.model_copy(update={"distortion": (-0.03, 0.0, 0.0, 0.0, 0.0)})
    flat, found = CameraModel.from_spec(DOTS.cameras[0], None, barrel).undistort([[u, v]])
    assert np.isfinite(flat).all()
    if not (abs(u) < 1e4 and abs(v) < 1e4):
        assert not found.any()


@pytest.mark.parametrize("k1", [-0.3, -0.1])
def test_a_lens_that_folds_the_image_is_refused(k1: float) -> None:
    folded = LENS.model_copy(update={"distortion": (k1, 0.0, 0.0, 0.0, 0.0)})
    with pytest.raises(MarkerError, match=r"cam0.*folds the image over at \d\d%"):
        CameraModel.from_spec(DOTS.cameras[0], None, folded)


def test_a_calibration_of_another_size_is_refused() -> None:
    wrong = LENS.model_copy(update={"width": 1920})
    with pytest.raises(MarkerError, match="calibrated at 1920x480, its images are 640x480"):
        cameras_of(DOTS, {"cam0": wrong})


def test_a_calibration_of_no_camera_is_refused() -> None:
    with pytest.raises(MarkerError, match="camera cam9, but dots has cam0, cam1"):
        cameras_of(DOTS, {"cam9": LENS})


def test_a_lifter_camera_needs_a_lifter() -> None:
    with pytest.raises(MarkerError, match="cam4 is on the lifter"):
        CameraModel.from_spec(DOTS.cameras[4])


def test_calibrations_are_files(tmp_path: Path) -> None:
    file = tmp_path / "cam.yaml"
    file.write_text("version: 1\nwidth: 640\nheight: 480\nfx: 190\nfy: 187\ncx: 322\ncy: 236\n")
    loaded = CameraCalibration.load(str(file))
    assert loaded.distortion == (0, 0, 0, 0, 0)
    assert loaded.unsure == ()
    file.write_text("version: 1\nwidth: 640\nheight: 480\nfx: -190\nfy: .nan\ncx: 322\n")
    with pytest.raises(ConfigError, match="fx") as error:
        CameraCalibration.load(str(file))
    assert "fy" in str(error.value)
    assert "cy: missing" in str(error.value)


def test_a_calibration_says_how_sure_it_is(tmp_path: Path) -> None:
    file = tmp_path / "cam.yaml"
    lens = "version: 1\nwidth: 640\nheight: 480\nfx: 190\nfy: 187\ncx: 322\ncy: 236\n"
    file.write_text(lens + "unsure: [[0.2, 0.2, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0.1, 0, 0, 0, 0, 0, 0]]\n")
    calibration = CameraCalibration.load(str(file))
    model = CameraModel.from_spec(DOTS.cameras[4], DOTS.lifter, calibration)
    assert model.unsure.tolist() == [list(way) for way in calibration.unsure]
    assert model.at_lifter_height(0.16).unsure is model.unsure
    assert CAMERAS["cam0"].unsure.shape == (0, LENS_NUMBERS)
    for wrong in ("[[0.2, 0.2]]", "[[.nan, 0, 0, 0, 0, 0, 0, 0, 0]]", str([[0.0] * 9] * 10)):
        file.write_text(lens + f"unsure: {wrong}\n")
        with pytest.raises(ConfigError, match="unsure"):
            CameraCalibration.load(str(file))


def test_markers_are_seen_from_the_front_whole_and_large_enough(ahead: CameraModel) -> None:
    def seen(x: float, y: float, yaw: float, side_min_px: float = 4.0) -> int:
        face = np.array([[[2.0, 0.1, 0.3], [2.0, -0.1, 0.3], [2.0, -0.1, 0.1], [2.0, 0.1, 0.1]]])
        pixels, visible = np.empty((1, 4, 2)), np.empty(1, dtype=np.bool_)
        count = see_markers_k(ahead.numbers, face, x, y, yaw, side_min_px, pixels, visible)
        assert count == visible.sum()
        return int(count)

    assert seen(0.0, 0.0, 0.0) == 1
    assert seen(0.0, 0.0, math.pi) == 0
    assert seen(4.0, 0.0, math.pi) == 0  # behind the wall
    assert seen(0.0, 0.0, 0.0, side_min_px=30.0) == 0
    assert seen(1.0, 0.0, 0.0, side_min_px=30.0) == 1
    assert seen(0.0, 0.0, 1.05) == 0  # a corner is outside the image
