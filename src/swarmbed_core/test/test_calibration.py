"""Calibration of cameras, on pictures made by following rays, with lenses that it does not know."""

from __future__ import annotations

import math
from dataclasses import replace

import cv2
import numpy as np
import pytest
from swarmbed_core.calibration import (
    VIEWS_MIN,
    Album,
    CalibrationTarget,
    Sight,
    View,
    calibrate,
    coverage,
    find_target,
    plan,
)
from swarmbed_core.calibration_check import Photographer, make_views, random_lens
from swarmbed_core.camera import CameraCalibration, CameraModel
from swarmbed_core.config import ConfigFile, check
from swarmbed_core.errors import ConfigError, MarkerError
from swarmbed_core.geometry import compose
from swarmbed_core.markers import CarrierMarkers, Marker, MarkerMap
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
TARGET = CalibrationTarget.load("dots_wall")
PLAN = plan(TARGET, DOTS)
CAM0 = DOTS.cameras[0]
# Odometry is off by this, and cameras are mounted beside what the spec says by this.
ODOMETRY = np.array([0.01, 0.01, math.radians(0.5)])
FOCAL = 320 / math.tan(math.radians(60))


def in_front(distance, side=0.0, turn=0.0):
    """Return the robot's pose with cam0 looking at the wall, turned by an angle in degrees."""
    return compose(TARGET.pose_map, (distance, side, math.pi - CAM0.yaw + math.radians(turn)))


def true_camera(camera, rng):
    """Return a camera as it is really mounted, and its lens."""
    off = rng.normal(size=5) * (0.002, 0.002, 0.002, math.radians(0.5), math.radians(0.5))
    names = ("x", "y", "z", "yaw", "pitch")
    mounted = {name: getattr(camera, name) + value for name, value in zip(names, off, strict=True)}
    lens = random_lens(camera, rng)
    return CameraModel.from_spec(camera.model_copy(update=mounted), None, lens), lens


def numbers(lens):
    return np.array([lens.fx, lens.fy, lens.cx, lens.cy, *lens.distortion])


def assert_good(result, lens):
    off = numbers(result.calibration) - numbers(lens)
    assert np.abs(off[:2]).max() < 0.01 * FOCAL
    assert np.abs(off[2:4]).max() < 2.0
    # What counts in the end: where rays go, all over the upper half of the image.
    u, v = np.meshgrid(np.linspace(20, 619, 9), np.linspace(20, 260, 5))
    camera = CAM0.model_copy(update={"yaw": 0.0})
    found, truth = (
        CameraModel.from_spec(camera, None, it).bearing(np.column_stack([u.ravel(), v.ravel()]))[0]
        for it in (result.calibration, lens)
    )
    assert np.degrees(np.arccos(np.clip((found * truth).sum(axis=1), -1, 1))).max() < 0.3


@pytest.fixture(scope="module")
def photographer():
    return Photographer(TARGET, CameraModel.from_spec(CAM0), rays=2)


def cheap_views(seed=1, camera=CAM0, **changes):
    rng = np.random.default_rng(seed)
    model, lens = true_camera(camera, rng)
    return make_views(TARGET, model, PLAN.poses(camera.name), rng, **changes), lens


def test_the_targets_codes_are_nobody_elses_and_it_fits_on_the_wall():
    carrier = CarrierMarkers.load("dots_carrier")
    arena = MarkerMap.load("dots_arena")
    others = {*arena.ids, *carrier.side_ids, *carrier.underside_ids}
    assert not others & set(TARGET.ids)
    assert TARGET.position[2] + TARGET.height / 2 <= 0.5
    # No wall marker hangs in its way.
    for marker in arena.markers:
        if marker.position[0] == TARGET.position[0]:
            assert abs(marker.position[1] - TARGET.position[1]) > (marker.size + TARGET.width) / 2


def test_corners_are_where_opencv_has_them():
    board = TARGET.board()
    assert TARGET.place(board.getChessboardCorners()[:, :2]) == pytest.approx(TARGET.corners())
    assert list(board.getIds().ravel()) == list(TARGET.ids)
    ours = TARGET.marker_corners()
    assert ours == pytest.approx(np.array(board.getObjPoints())[:, :, :2], abs=1e-6)
    # And a marker of it is a marker as the rest of Swarmbed knows them.
    x, y = TARGET.position[:2]
    middle = TARGET.place(ours[0].mean(axis=0)[None])[0]
    marker = Marker(id=12, size=TARGET.marker, position=(x, y, 0.0), yaw=TARGET.yaw).corners()
    assert TARGET.place(ours[0]) == pytest.approx(marker + middle - (x, y, 0.0))


def test_the_picture_is_opencvs():
    assert np.array_equal(TARGET.picture(32), TARGET.board().generateImage((15 * 32, 10 * 32)))
    with pytest.raises(MarkerError, match="px_per_square=4"):
        TARGET.picture(4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"marker": 0.05}, "marker 0.05 must be"),
        ({"first_id": 200}, "the last id would be above 249"),
        ({"position": (2.5, 0.8, 0.1)}, "in the floor"),
        ({"squares_x": 2}, "squares_x"),
        ({"dictionary": "4x4"}, "dictionary"),
    ],
)
def test_targets_that_cannot_be(change, message):
    with pytest.raises(ConfigError, match=message):
        check({**TARGET.model_dump(), **change}, CalibrationTarget, "t.yaml")


def test_targets_are_files_of_config():
    assert issubclass(CalibrationTarget, ConfigFile)
    with pytest.raises(ConfigError, match="dots_wall"):
        CalibrationTarget.load("no_such_target")


def test_corners_are_found_to_a_fraction_of_a_pixel(photographer):
    pose = in_front(0.4, 0.1, 20.0)
    found = find_target(photographer.picture(pose, np.random.default_rng(3)), TARGET)
    truth = make_views(
        TARGET, photographer.model, [pose], np.random.default_rng(1), corner_px=0.0, odometry=(0.0, 0.0)
    )[0].sight
    assert len(found.ids) > 40
    where = dict(zip(truth.ids, truth.pixels, strict=True))
    off = np.array([pixel - where[number] for number, pixel in zip(found.ids, found.pixels, strict=True)])
    assert np.sqrt((off**2).mean()) < 0.15
    assert np.abs(off.mean(axis=0)).max() < 0.05


def test_bad_pictures_are_counted_and_survived(photographer):
    rng = np.random.default_rng(5)
    good = photographer.picture(in_front(0.4), rng)
    _, jpeg = cv2.imencode(".jpg", good, [cv2.IMWRITE_JPEG_QUALITY, 90])
    data = jpeg.tobytes()
    album = Album(TARGET, CAM0)
    pose = in_front(0.4)
    assert album.add(good, pose)
    assert album.add(data, pose)
    bad = [
        (b"", pose),
        (data[:200], pose),
        (b"no image at all", pose),
        (np.zeros((480, 640), np.uint8), pose),
        (np.full((480, 640), 255, np.uint8), pose),
        (rng.integers(0, 256, (480, 640)).astype(np.uint8), pose),
        (good[:, :-1], pose),
        (good.astype(np.float64), pose),
        (np.dstack([good] * 3), pose),
        (None, pose),
        ([[1, 2], [3]], pose),
        (photographer.picture(in_front(0.4, turn=180.0)), pose),
        (good, (math.nan, 0.0, 0.0)),
        (good, (1.0, 2.0)),
        (good, "here"),
        (good, None),
    ]
    for image, where in bad:
        assert not album.add(image, where)
    assert album.health.total == len(bad)
    assert {"picture.broken", "picture.shape", "picture.no_target", "picture.pose"} == set(
        album.health.counts
    )
    assert len(album.views) == 2
    # Half a JPEG shows half the target, or nothing: neither ends the robot's loop.
    album.add(data[: len(data) // 2], pose)


def test_a_plan_covers_the_image_in_time():
    assert PLAN.seconds < 300
    for camera in DOTS.cameras[:4]:
        covered = PLAN.covered[camera.name]
        assert len(PLAN.poses(camera.name)) >= 24
        # Everywhere but at the image's lower edge, where the floor is.
        assert (covered[:4] >= 8).all()
        assert (covered[4] > 0).mean() > 0.8
    reach = [
        compose((0, 0, -TARGET.yaw), (*(stop.pose_map[:2] - TARGET.position[:2]), 0.0)) for stop in PLAN.stops
    ]
    assert min(pose[0] for pose in reach) >= DOTS.body.bounding_radius + 0.05 - 1e-9


def test_a_plan_foresees_what_is_found(photographer):
    poses = PLAN.poses("cam0")[::5]
    found = [find_target(photographer.picture(pose, np.random.default_rng(1)), TARGET) for pose in poses]
    pixels = np.vstack([sight.pixels for sight in found])
    alone = plan(TARGET, DOTS, ["cam0"])
    assert set(alone.covered) == {"cam0"}
    assert all(stop.cameras == ("cam0",) for stop in alone.stops)
    assert coverage(pixels, 640, 480).sum() > 20 * len(poses)


def test_plans_that_cannot_be():
    with pytest.raises(MarkerError, match=r"cam9.*has cam0, cam1, cam2, cam3 around"):
        plan(TARGET, DOTS, ["cam9"])
    with pytest.raises(MarkerError, match="none around"):
        plan(TARGET, DOTS.model_copy(update={"cameras": ()}))
    tiny = TARGET.model_copy(update={"square": 0.004, "marker": 0.003})
    with pytest.raises(MarkerError, match="sees the target from"):
        plan(tiny, DOTS)


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
    assert "believed to be" in dropped[id(moved)]
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
    with pytest.raises(MarkerError, match=f"0 of 0 views can be used, {VIEWS_MIN}"):
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
