"""Calibration of cameras, on pictures made by following rays, with lenses that it does not know."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from swarmbed_core.calibration import calibrate
from swarmbed_core.calibration_check import Photographer, make_views, random_lens
from swarmbed_core.calibration_target import (
    VIEWS_MIN,
    Album,
    CalibrationTarget,
    Sight,
    View,
    plan,
)
from swarmbed_core.camera import CameraCalibration, CameraModel
from swarmbed_core.errors import MarkerError
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
TARGET = CalibrationTarget.load("dots_wall")
PLAN = plan(TARGET, DOTS)
CAM0 = DOTS.cameras[0]
# Odometry is off by this, and cameras are mounted beside what the spec says by this.
ODOMETRY = np.array([0.01, 0.01, math.radians(0.5)])
FOCAL = 320 / math.tan(math.radians(60))


def true_camera(camera, rng):
    """Return a camera as it is really mounted, and its lens."""
    off = rng.normal(size=5) * (0.002, 0.002, 0.002, math.radians(0.5), math.radians(0.5))
    names = ("x", "y", "z", "yaw", "pitch")
    mounted = {name: getattr(camera, name) + value for name, value in zip(names, off, strict=True)}
    lens = random_lens(camera, rng)
    return CameraModel.from_spec(camera.model_copy(update=mounted), None, lens), lens


def numbers(lens):
    return np.array([lens.fx, lens.fy, lens.cx, lens.cy, *lens.distortion])


def bearing(camera, pixels):
    """Return the unit directions of pixels in the body frame, and which pixels have one."""
    flat, found = camera.undistort(pixels)
    rays = np.column_stack([flat, np.ones(len(flat))]) @ camera.rotation
    return rays / np.linalg.norm(rays, axis=1, keepdims=True), found


def assert_good(result, lens):
    off = numbers(result.calibration) - numbers(lens)
    assert np.abs(off[:2]).max() < 0.01 * FOCAL
    assert np.abs(off[2:4]).max() < 2.0
    # What counts in the end: where rays go, all over the upper half of the image.
    u, v = np.meshgrid(np.linspace(20, 619, 9), np.linspace(20, 260, 5))
    camera = CAM0.model_copy(update={"yaw": 0.0})
    found, truth = (
        bearing(CameraModel.from_spec(camera, None, it), np.column_stack([u.ravel(), v.ravel()]))[0]
        for it in (result.calibration, lens)
    )
    assert np.degrees(np.arccos(np.clip((found * truth).sum(axis=1), -1, 1))).max() < 0.3


def cheap_views(seed=1, camera=CAM0, **changes):
    rng = np.random.default_rng(seed)
    model, lens = true_camera(camera, rng)
    return make_views(TARGET, model, PLAN.poses(camera.name), rng, **changes), lens


@pytest.mark.parametrize(("camera", "seed"), [(DOTS.cameras[0], 11), (DOTS.cameras[2], 12)])
def test_pictures_give_the_lens(camera, seed):
    rng = np.random.default_rng(seed)
    model, lens = true_camera(camera, rng)
    taker = Photographer(TARGET, model, rays=2)
    album = Album(TARGET, camera)
    for pose in PLAN.poses(camera.name):
        blur = rng.uniform(0.4, 0.9)
        album.add(taker.picture(pose + rng.normal(size=3) * ODOMETRY, rng, noise=2.5, blur=blur), pose)
    result = calibrate(album.views, TARGET, camera)
    assert_good(result, lens)
    assert result.rms < 0.3
    assert result.doubts == ()
    assert result.coverage > 0.6
    assert (np.abs(numbers(result.calibration) - numbers(lens)) < 5 * result.sigma + 1e-3).all()


@pytest.mark.parametrize("seed", range(6))
def test_corners_give_the_lens_of_any_camera(seed):
    camera = DOTS.cameras[seed % 4]
    views, lens = cheap_views(seed, camera)
    result = calibrate(views, TARGET, camera)
    assert_good(result, lens)
    assert result.corner_px == pytest.approx(0.08, rel=0.1)
    assert len(result.fits) + len(result.dropped) == len(views)
    # Twice the errors that independent corners have are foreseen (ALIKE).
    assert (np.abs(numbers(result.calibration) - numbers(lens)) < 3 * result.sigma).all()


def test_a_calibration_knows_how_far_off_its_pixels_are():
    u, v = np.meshgrid(np.linspace(0, 639, 9), np.linspace(0, 479, 7))
    pixels = np.column_stack([u.ravel(), v.ravel()])
    actual, foreseen = [], []
    for seed in range(6):
        camera = DOTS.cameras[seed % 4]
        views, lens = cheap_views(seed, camera)
        found = calibrate(views, TARGET, camera).calibration
        ahead = camera.model_copy(update={"yaw": 0.0})
        told, true = (CameraModel.from_spec(ahead, None, it) for it in (found, lens))
        points = bearing(told, pixels)[0] * 2.0 + told.position
        actual.append(np.mean(np.sum((true.project(points)[0] - pixels) ** 2, axis=1)))
        square = 0.0
        for way in found.unsure:
            moved = numbers(found) + way
            other = found.model_copy(
                update={
                    **dict(zip(("fx", "fy", "cx", "cy"), moved[:4].tolist(), strict=True)),
                    "distortion": tuple(moved[4:].tolist()),
                }
            )
            shifted = CameraModel.from_spec(ahead, None, other).project(points)[0]
            square += np.mean(np.sum((shifted - pixels) ** 2, axis=1))
        foreseen.append(square)
        assert len(found.unsure) < 9
    assert 0.1 < np.mean(np.array(actual) / foreseen) < 1.5


def test_what_is_found_can_be_loaded(tmp_path):
    views, _ = cheap_views()
    found = calibrate(views, TARGET, CAM0).calibration
    file = tmp_path / "cam0.yaml"
    file.write_text(found.model_dump_json())
    assert CameraCalibration.load(str(file)) == found


def test_views_that_contradict_the_others_are_dropped_and_told():
    views, lens = cheap_views()
    rng = np.random.default_rng(2)
    moved = replace(views[3], pose_map=views[3].pose_map + np.array([0.12, 0.0, 0.0]))
    away = replace(views[5], pose_map=views[5].pose_map + np.array([1.0, 0.5, 2.0]))
    sight = views[8].sight
    wild = replace(views[8], sight=Sight(sight.ids, sight.pixels + rng.normal(0, 15, sight.pixels.shape)))
    mixed = replace(views[10], sight=Sight(rng.permutation(views[10].sight.ids), views[10].sight.pixels))
    short = replace(views[12], sight=Sight(views[12].sight.ids[:3], views[12].sight.pixels[:3]))
    strange = replace(views[14], sight=Sight(views[14].sight.ids + 1000, views[14].sight.pixels))
    bad = {3: moved, 5: away, 8: wild, 10: mixed, 12: short, 14: strange}
    result = calibrate([bad.get(k, view) for k, view in enumerate(views)], TARGET, CAM0)
    dropped = {id(view): reason for view, reason in result.dropped}
    assert set(dropped) >= {id(view) for view in bad.values()}
    assert "from the odometry's pose" in dropped[id(moved)]
    assert "corners" in dropped[id(wild)]
    assert len(result.dropped) <= len(bad) + 2
    assert_good(result, lens)
    assert any("contradict" in doubt for doubt in result.doubts)


def test_single_wrong_corners_do_no_harm():
    views, lens = cheap_views(4)
    for view in views[::2]:
        view.sight.pixels[::9] += 7.0
    result = calibrate(views, TARGET, CAM0)
    assert result.corners_dropped > 30
    assert_good(result, lens)


def test_too_little_is_refused():
    views, _ = cheap_views()
    with pytest.raises(MarkerError, match=f"0 of 0 views can be used, at least {VIEWS_MIN}"):
        calibrate([], TARGET, CAM0)
    with pytest.raises(MarkerError, match="7 of 7 views"):
        calibrate(views[:7], TARGET, CAM0)
    with pytest.raises(MarkerError, match=r"corners in .* of the image"):
        calibrate([views[0]] * 12, TARGET, CAM0)

    def left_of(limit):
        for view in views:
            keep = view.sight.pixels[:, 0] < limit
            yield View(view.pose_map, Sight(view.sight.ids[keep], view.sight.pixels[keep]))

    with pytest.raises(MarkerError, match="to the right edge of the image"):
        calibrate(list(left_of(480)), TARGET, CAM0)


def test_a_target_of_another_size_is_refused():
    views, _ = cheap_views()
    with pytest.raises(MarkerError, match="cam0"):
        calibrate(views, TARGET.model_copy(update={"square": 0.07, "marker": 0.05}), CAM0)


def test_a_target_elsewhere_is_refused():
    views, _ = cheap_views()
    with pytest.raises(MarkerError, match="where the target hangs"):
        calibrate(views, TARGET.model_copy(update={"position": (2.5, -0.4, 0.24)}), CAM0)


def test_bad_corners_leave_doubts():
    views, _ = cheap_views(corner_px=1.0)
    result = calibrate(views, TARGET, CAM0)
    assert any("px off" in doubt for doubt in result.doubts)
