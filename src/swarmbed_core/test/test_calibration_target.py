"""The target: where it is, what pictures of it show, and from where they are taken."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from swarmbed_core.calibration_check import Photographer, make_views
from swarmbed_core.calibration_target import (
    Album,
    CalibrationTarget,
    coverage,
    find_target,
    plan,
)
from swarmbed_core.camera import CameraModel
from swarmbed_core.config import ConfigFile, check
from swarmbed_core.errors import ConfigError, MarkerError
from swarmbed_core.geometry import compose
from swarmbed_core.markers import CarrierMarkers, Marker, MarkerMap
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
TARGET = CalibrationTarget.load("dots_wall")
PLAN = plan(TARGET, DOTS)
CAM0 = DOTS.cameras[0]


def in_front(distance, side=0.0, turn=0.0):
    """Return the robot's pose with cam0 looking at the wall, turned by an angle in degrees."""
    return compose(TARGET.pose_map, (distance, side, math.pi - CAM0.yaw + math.radians(turn)))


@pytest.fixture(scope="module")
def photographer():
    return Photographer(TARGET, CameraModel.from_spec(CAM0), rays=2)


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
        ({"first_id": 200}, "the last id would exceed 249"),
        ({"position": (2.5, 0.8, 0.1)}, "below the floor"),
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
