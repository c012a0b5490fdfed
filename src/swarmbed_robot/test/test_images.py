"""Images as topics: taken only for who listens, and what an outsider gets of them."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from rclpy.qos import qos_profile_sensor_data, qos_profile_system_default
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from swarmbed_core.camera import CameraCalibration
from swarmbed_core.codes import modules
from swarmbed_core.device import ImageReading
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.memory import MemoryWorld

LENS = CameraCalibration(
    version=1,
    width=640,
    height=480,
    fx=190.0,
    fy=189.0,
    cx=322.0,
    cy=236.0,
    distortion=(0.02, 0.001, 0.0005, -0.0005, 0.0001),
)
PICTURE = np.random.default_rng(1).integers(200, 220, (480, 640), dtype=np.uint8)
PICTURE[100:180, 200:280] = np.kron(modules(7) * np.uint8(255), np.ones((10, 10), np.uint8))


class Pictures:
    """Cameras that see a picture each time somebody looks."""

    def __init__(self):
        self.watched = frozenset()
        self.fault = None
        self.asked = 0
        self.pending = []

    def watcher(self):
        return self

    def close(self):
        self.watched = frozenset()

    def watch(self, cameras):
        self.asked += 1
        if self.fault is not None:
            raise SwarmbedError(self.fault)
        self.watched = frozenset(cameras)

    def read(self):
        pending, self.pending = self.pending, []
        return pending

    def take(self, stamp, camera="cam0"):
        if camera in self.watched:
            self.pending.append(ImageReading(stamp, camera, PICTURE))


@pytest.fixture
def pictures(monkeypatch):
    part = Pictures()
    device = MemoryWorld.device

    def with_images(self, name):
        return replace(device(self, name), images=part, calibrations={"cam0": LENS})

    monkeypatch.setattr(MemoryWorld, "device", with_images)
    return part


@pytest.fixture
def dots(pictures, make_rig):
    rig = make_rig()
    assert rig.onboard.device.images is pictures
    return rig


def stamp_of(header):
    return header.stamp.sec + header.stamp.nanosec * 1e-9


def test_cameras_take_images_only_while_somebody_listens(dots, pictures):
    dots.run(1.0)
    assert not pictures.asked
    got = dots.listen("cam0/image", Image)
    assert pictures.watched == {"cam0"}
    for k in range(3):
        pictures.take(0.1 * k)
        dots.run(0.1)
    dots.run_until(lambda: len(got) == 3)
    for subscription in list(dots.outsider.subscriptions):
        if subscription.topic_name.endswith("/image"):
            dots.outsider.destroy_subscription(subscription)
    dots.run_until(lambda: not pictures.watched)


def test_images_are_grey_where_that_is_asked_for(pictures, make_rig):
    dots = make_rig(image_encoding="mono8")
    got = dots.listen("cam0/image", Image)
    pictures.take(0.1)
    dots.run_until(lambda: got)
    assert (got[0].step, got[0].encoding) == (640, "mono8")
    assert np.array_equal(np.array(got[0].data, np.uint8).reshape(480, 640), PICTURE)


@pytest.mark.parametrize("profile", [qos_profile_sensor_data, qos_profile_system_default])
def test_an_image_is_what_the_camera_saw_when_it_did(dots, pictures, profile):
    got = dots.listen("cam0/image", Image, profile)
    infos = dots.listen("cam0/camera_info", CameraInfo)
    pictures.take(0.25)
    dots.run_until(lambda: got and any(stamp_of(info.header) == 0.25 for info in infos))
    [image] = got
    assert (image.width, image.height, image.step, image.encoding) == (640, 480, 1920, "rgb8")
    assert (image.header.frame_id, stamp_of(image.header)) == ("dots1_cam0_optical_frame", 0.25)
    colours = np.array(image.data, np.uint8).reshape(480, 640, 3)
    assert np.array_equal(colours, np.repeat(PICTURE[..., None], 3, axis=2))
    info = next(info for info in infos if stamp_of(info.header) == 0.25)
    assert info.header.frame_id == "dots1_cam0_optical_frame"
    assert (info.width, info.height, info.distortion_model) == (640, 480, "plumb_bob")
    assert info.k.tolist() == [190.0, 0.0, 322.0, 0.0, 189.0, 236.0, 0.0, 0.0, 1.0]
    assert list(info.d) == list(LENS.distortion)
    assert info.p.reshape(3, 4)[:, :3].tolist() == info.k.reshape(3, 3).tolist()


def test_jpegs_and_images_with_tags(dots, pictures):
    packed = dots.listen("cam0/image/compressed", CompressedImage)
    tagged = dots.listen("cam0/image_tags", Image)
    tagged_packed = dots.listen("cam0/image_tags/compressed", CompressedImage)
    pictures.take(0.5)
    dots.run_until(lambda: packed and tagged and tagged_packed)
    grey = cv2.imdecode(np.frombuffer(bytes(packed[0].data), np.uint8), cv2.IMREAD_UNCHANGED)
    assert packed[0].format == "jpeg"
    assert grey.shape == (480, 640)
    assert np.abs(grey.astype(int) - PICTURE).mean() < 4
    assert (tagged[0].encoding, tagged[0].step) == ("bgr8", 1920)
    colours = np.array(tagged[0].data, np.uint8).reshape(480, 640, 3)
    changed = (colours != PICTURE[..., None]).any(axis=2)
    rows, columns = np.nonzero(changed)
    assert 95 < rows.min() <= 100
    assert 195 < columns.min() <= 200
    again = cv2.imdecode(np.frombuffer(bytes(tagged_packed[0].data), np.uint8), cv2.IMREAD_COLOR)
    assert np.abs(again.astype(int) - colours).mean() < 6
    assert {stamp_of(sent.header) for sent in (packed[0], tagged[0], tagged_packed[0])} == {0.5}


def test_the_lens_is_told_without_images_too(dots, pictures):
    infos = {name: dots.listen(f"{name}/camera_info", CameraInfo) for name in ("cam0", "cam1")}
    dots.run(3.05)
    for got in infos.values():
        assert len(got) == pytest.approx(3, abs=1)
    assert not pictures.watched
    assert infos["cam1"][0].d.tolist() == [0.0] * 5  # not calibrated: ideal


def test_where_nothing_can_be_rendered_that_is_told_once_and_the_robot_goes_on(dots, pictures):
    pictures.fault = "images cannot be rendered on this machine"
    dots.listen("cam0/image", Image)
    dots.listen("cam1/image", Image)
    dots.run(1.0)
    assert pictures.asked == 1
    assert dots.refused["input.images"] == 1
    assert "cannot be rendered" in dots.onboard.health.latest["input.images"]
    assert not dots.refused["input.api"]
    infos = dots.listen("cam0/camera_info", CameraInfo)
    dots.run(2.05)
    assert len(infos) >= 2


def test_when_the_robot_leaves_its_cameras_rest(dots, pictures):
    dots.listen("cam0/image", Image)
    assert pictures.watched
    dots.api.leave()
    assert not pictures.watched
