"""The node that finds tags in images: what comes out of what a camera driver sends, bad images included."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from swarmbed_core.camera import cameras_of
from swarmbed_core.codes import modules
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.pictures import jpeg
from swarmbed_core.spec import RobotSpec
from swarmbed_robot.detector import OPTIONS, Watcher

from dots_interfaces.msg import TagArray
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.slow

DEFAULTS = {option.name: option.default for option in OPTIONS}
FOCAL = float(cameras_of(RobotSpec.load("dots"))["cam0"].numbers[0])
TOP, LEFT, SIDE = 200, 280, 80
STAMP = (1_700_000_000, 123_456_789)


def picture(marker=7):
    made = np.full((480, 640), 210, np.uint8)
    code = np.kron(modules(marker) * np.uint8(255), np.ones((10, 10), np.uint8))
    made[TOP : TOP + SIDE, LEFT : LEFT + SIDE] = code
    return made


class Rig:
    """The node, and an outsider who drives the cameras and reads the tags."""

    def __init__(self, ros, **options):
        self.ros = ros
        self.watcher = Watcher(ros.node("detector"), DEFAULTS | {"cameras": ["cam0"]} | options)
        self.outsider = ros.node("driver")
        self.tags, self.frames, self.told = [], [], []
        self.outsider.create_subscription(TagArray, "/dots1/cam0_tags", self.tags.append, 10)
        self.outsider.create_subscription(TFMessage, "/dots1/tf", self.frames.append, 10)
        self.outsider.create_subscription(DiagnosticArray, "/diagnostics", self.told.append, 10)
        packed = options.get("compressed", False)
        kind, topic = (CompressedImage, "image/compressed") if packed else (Image, "image")
        self.images = self.outsider.create_publisher(kind, f"/dots1/cam0/{topic}", 10)
        self.infos = self.outsider.create_publisher(CameraInfo, "/dots1/cam0/camera_info", 10)
        for publisher in (self.images, self.infos):
            ros.spin_until(publisher.get_subscription_count, "the node")
        # The other way round: what nobody hears as yet is lost.
        for publisher in self.watcher.node.publishers:
            if publisher.topic_name in {"/dots1/cam0_tags", "/dots1/tf", "/diagnostics"}:
                ros.spin_until(publisher.get_subscription_count, "the outsider")
        self.until_heard()

    def until_heard(self):
        """What has been discovered need not have been matched yet: repeat until an answer comes."""
        while not self.tags:
            self.send(picture())
            self.ros.spin_for(0.1)
        self.ros.spin_for(0.2)
        self.tags.clear()

    def send(self, image, encoding="mono8", **fields):
        if self.watcher_packed:
            made = CompressedImage(format="jpeg", data=image if isinstance(image, bytes) else jpeg(image))
        else:
            height, width = image.shape[:2]
            made = Image(height=height, width=width, encoding=encoding, step=image[0].size)
            made.data = image.tobytes()
        for name, value in fields.items():
            setattr(made, name, value)
        made.header.stamp.sec, made.header.stamp.nanosec = STAMP
        self.images.publish(made)

    @property
    def watcher_packed(self):
        return self.images.msg_type is CompressedImage

    def calibrate(self, **fields):
        made = CameraInfo(width=640, height=480, distortion_model="plumb_bob", d=[0.0] * 5)
        made.k = np.array([FOCAL, 0, 319.5, 0, FOCAL, 239.5, 0, 0, 1])
        for name, value in fields.items():
            setattr(made, name, value)
        self.infos.publish(made)

    @property
    def refused(self):
        return self.watcher.health.counts

    def close(self):
        self.watcher.close()


@pytest.fixture
def make(ros):
    made = []

    def rig(**options):
        made.append(Rig(ros, **options))
        return made[-1]

    yield rig
    for each in made:
        each.close()


@pytest.mark.parametrize(("compressed", "tag_stamp"), [(False, "arrival"), (True, "exposure")])
def test_tags_come_at_once_and_frames_when_the_lens_is_known(make, compressed, tag_stamp):
    rig = make(compressed=compressed, tag_stamp=tag_stamp)
    before = rig.outsider.get_clock().now().seconds_nanoseconds()
    rig.send(picture())
    rig.ros.spin_until(lambda: rig.tags)
    [tag] = rig.tags[0].data
    assert tag.id == 7
    first = tag.points[0]
    assert (first.x, first.y) == pytest.approx((LEFT - 0.5, TOP - 0.5), abs=0.2)
    assert not rig.frames
    rig.calibrate()
    while not rig.frames:
        rig.send(picture())
        rig.ros.spin_for(0.1)
    [frame] = rig.frames[0].transforms
    assert (frame.header.frame_id, frame.child_frame_id) == ("dots1_cam0_link", "dots1_cam0_fid007")
    stamp = (frame.header.stamp.sec, frame.header.stamp.nanosec)
    if tag_stamp == "exposure":
        assert stamp == STAMP
    else:
        assert before < stamp < rig.outsider.get_clock().now().seconds_nanoseconds()
    place = frame.transform.translation
    # 240 mm are 80 px large at this distance; the tag's middle is half a pixel beside the axis.
    depth = 0.24 * FOCAL / SIDE
    assert place.x == pytest.approx(depth, rel=0.01)
    assert (place.y, place.z) == pytest.approx((0.0, 0.0), abs=0.01)


@pytest.mark.parametrize("encoding", ["mono8", "bgr8", "rgb8", "bgra8", "rgba8"])
def test_the_usual_encodings(make, encoding):
    rig = make()
    channels = {"mono8": 1, "bgr8": 3, "rgb8": 3, "bgra8": 4, "rgba8": 4}[encoding]
    image = picture() if channels == 1 else np.repeat(picture()[..., None], channels, axis=2)
    rig.send(image, encoding)
    rig.ros.spin_until(lambda: rig.tags)
    assert [tag.id for tag in rig.tags[0].data] == [7]


def test_rows_may_be_padded(make):
    rig = make()
    wide = np.full((480, 700), 255, np.uint8)
    wide[:, :640] = picture()
    rig.send(wide, width=640, step=700)
    rig.ros.spin_until(lambda: rig.tags)
    assert [tag.id for tag in rig.tags[0].data] == [7]


BAD = {
    "empty": (lambda: (np.zeros((480, 640), np.uint8), {"data": b""}), "image.size"),
    "short": (lambda: (picture(), {"data": picture().tobytes()[:1000]}), "image.size"),
    "step": (lambda: (picture(), {"step": 3}), "image.size"),
    "small": (lambda: (picture()[:240, :320], {}), "image.size"),
    "encoding": (lambda: (picture(), {"encoding": "16UC1"}), "image.encoding"),
    "no encoding": (lambda: (picture(), {"encoding": ""}), "image.encoding"),
}


@pytest.mark.parametrize("which", BAD)
def test_bad_images_are_counted_and_told_and_good_ones_are_looked_at_after_them(make, which):
    rig = make()
    made, reason = BAD[which]
    image, fields = made()
    rig.send(image, **fields)
    rig.ros.spin_until(lambda: rig.refused[reason] == 1, reason)
    rig.send(picture())
    rig.ros.spin_until(lambda: rig.tags)
    assert [tag.id for tag in rig.tags[0].data] == [7]

    def warned():
        return [
            status
            for sent in rig.told
            for status in sent.status
            if status.name == "dots1: refused images" and any(v.key == reason for v in status.values)
        ]

    rig.ros.spin_until(warned, "the diagnostics")
    assert warned()[0].level == b"\x01"


@pytest.mark.parametrize("data", [b"", b"no JPEG", jpeg(picture())[:-500]])
def test_broken_jpegs(make, data):
    rig = make(compressed=True)
    rig.send(data)
    rig.ros.spin_until(lambda: rig.refused["image.broken"] == 1)
    rig.send(picture())
    rig.ros.spin_until(lambda: rig.tags)
    assert [tag.id for tag in rig.tags[0].data] == [7]


@pytest.mark.parametrize("image", [np.zeros((480, 640), np.uint8), np.full((480, 640), 255, np.uint8)])
def test_no_tags_are_an_answer_too(make, image):
    rig = make()
    rig.send(image)
    rig.ros.spin_until(lambda: rig.tags)
    assert not rig.tags[0].data
    assert rig.refused == {"image.blank": 1}


def test_a_tag_upside_down_and_one_twice(make):
    rig = make()
    image = picture()
    image[60:140, 100:180] = image[TOP : TOP + SIDE, LEFT : LEFT + SIDE]
    rig.send(np.ascontiguousarray(image[::-1, ::-1]))
    rig.ros.spin_until(lambda: rig.tags)
    assert [tag.id for tag in rig.tags[0].data] == [7, 7]
    for tag in rig.tags[0].data:
        assert tag.points[0].y > tag.points[3].y
    assert rig.refused == {"marker.upside_down": 2, "marker.twice": 1}
    assert rig.watcher.health.latest["marker.twice"].startswith("cam0: wall marker 7")


def test_a_tag_of_a_wall_that_is_there_twice_has_no_frame(make):
    rig = make()
    rig.calibrate()
    image = picture()
    rig.send(image)
    rig.ros.spin_until(lambda: rig.frames and rig.tags)
    image[60:140, 100:180] = image[TOP : TOP + SIDE, LEFT : LEFT + SIDE]
    del rig.frames[:]
    rig.send(image)
    # Frames come before the tags.
    rig.ros.spin_until(lambda: [tag.id for tag in rig.tags[-1].data] == [7, 7])
    assert not rig.frames


@pytest.mark.parametrize(
    "fields",
    [
        {"k": np.zeros(9)},
        {"k": np.full(9, math.nan)},
        {"width": 320},
        {"distortion_model": "equidistant"},
        {"d": [0.0] * 7 + [1.0]},
        {"d": [-5.0, 0.0, 0.0, 0.0, 0.0]},
    ],
)
def test_lenses_that_make_no_sense_are_refused(make, fields):
    rig = make()
    rig.calibrate(**fields)
    rig.ros.spin_until(lambda: rig.refused["camera_info"] == 1)
    rig.send(picture())
    rig.ros.spin_until(lambda: rig.tags)
    assert not rig.frames


def test_a_camera_that_sends_too_much_loses_its_older_images(make):
    rig = make(workers=1)
    [camera] = rig.watcher._cameras
    rig.watcher.timer.cancel()
    camera.looked = camera.lost = 0
    found, looked = camera._detector.detect, []

    def slowly(image):
        looked.append(image)
        cv2.GaussianBlur(np.zeros((3000, 3000), np.uint8), (0, 0), 5)
        return found(image)

    camera._detector.detect = slowly
    for _ in range(40):
        rig.send(picture())
        rig.ros.spin_for(0.001)
    rig.ros.spin_until(lambda: len(rig.tags) == len(looked) and camera._waiting is None and not camera._busy)
    assert camera.looked == len(looked) >= 2
    assert camera.lost > 0
    assert camera.looked + camera.lost <= 40


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cameras": ["cam7"]}, "dots has no camera 'cam7'; available: cam0, cam1, cam2, cam3, cam4"),
        ({"kind": "convoy_car", "cameras": []}, "no cameras"),
        ({"kind": "no_such_kind"}, "no_such_kind"),
        ({"arena": "nowhere"}, "nowhere"),
        ({"carriers": "nothing"}, "nothing"),
        ({"robot": "1 2"}, "is not a valid robot name"),
    ],
)
def test_wrong_options_are_told(ros, options, said):
    with pytest.raises(SwarmbedError, match=said):
        Watcher(ros.node("detector"), DEFAULTS | options)
