"""Tags and their frames: what an outsider gets of what the cameras detect."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rclpy.qos import qos_profile_system_default
from swarmbed_core.arena import Arena
from swarmbed_core.camera import cameras_of
from swarmbed_core.device import CornerReading
from swarmbed_core.geometry import compose
from swarmbed_core.markers import CarrierMarkers
from swarmbed_core.memory import MemoryWorld
from swarmbed_robot.api import Output
from swarmbed_robot.description import quaternion
from swarmbed_robot.eyes import UNDERSIDE, _matrix, _quaternion_of

from dots_interfaces.msg import TagArray
from swarmbed_robot import qos
from tf2_msgs.msg import TFMessage

turns = st.floats(-math.pi, math.pi)


@given(turns, st.floats(-1.5, 1.5), turns)
def test_rotations_there_and_back(roll, pitch, yaw):
    q = quaternion(roll, pitch, yaw)
    assert np.linalg.norm(q) == pytest.approx(1.0)
    again = _quaternion_of(_matrix(q))
    assert abs(float(np.dot(q, again))) == pytest.approx(1.0, abs=1e-6)


def seen(rig, camera, ids, corners_body, height=0.145):
    """What the API makes of an image of some corners in the robot's frame."""
    model = cameras_of(rig.robot.spec)[camera]
    if camera == "cam4":
        model = model.at_lifter_height(height)
    pixels, ahead = model.project(np.asarray(corners_body).reshape(-1, 3))
    whole = ahead.reshape(-1, 4).all(axis=1)
    assert whole.any()
    reading = CornerReading(0.0, camera, np.array(ids)[whole], pixels.reshape(-1, 4, 2)[whole])
    return rig.api._eyes._sights.seen(reading, height, None)


def test_a_carriers_side_has_a_frame_that_faces_the_robot(dots):
    markers = dots.onboard.carrier_markers
    carrier = dots.robot.spec.carrier
    side = (0.5, 0.08, math.pi + 0.2)
    face = markers.side_corners(carrier.clearance)
    places = np.array([[*compose(side, (x, y, 0.0))[:2], z] for x, y, z in face])
    [tag], [frame] = seen(dots, "cam0", [104], places)
    assert tag.id == 104
    assert tag.alignment == pytest.approx(-0.0, abs=0.1)
    assert (frame.header.frame_id, frame.child_frame_id) == ("dots1_cam0_link", "dots1_cam0_fid104")
    # From the camera's frame back into the robot's.
    camera = next(camera for camera in dots.robot.spec.cameras if camera.name == "cam0")
    axes = _matrix(quaternion(0.0, 0.0, camera.yaw))
    t, q = frame.transform.translation, frame.transform.rotation
    place = axes @ (t.x, t.y, t.z) + (camera.x, camera.y, camera.z)
    height = carrier.clearance + markers.sides.rise
    assert place == pytest.approx([side[0], side[1], height], abs=0.005)
    turned = axes @ _matrix((q.x, q.y, q.z, q.w))
    assert turned[:, 2] == pytest.approx([math.cos(side[2]), math.sin(side[2]), 0.0], abs=0.05)
    assert turned[:, 1] == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)


def test_the_map_under_a_carrier_is_one_tag(dots):
    dots.run(0.05)
    carrier = dots.robot.spec.carrier
    above = (0.03, -0.02, 0.4)
    underside = dots.onboard.carrier_markers.underside_map(carrier.clearance)
    corners = underside.corners().reshape(-1, 3)
    places = np.array([[*compose(above, (x, y, 0.0))[:2], z] for x, y, z in corners])
    [tag], [frame] = seen(dots, "cam4", underside.ids, places)
    assert tag.id == UNDERSIDE == 200
    assert len(tag.points) == 4
    assert frame.child_frame_id == "dots1_cam4_fid200"
    # cam4 looks up: its x is the robot's z, its z the robot's backwards.
    t = frame.transform.translation
    axes = _matrix(quaternion(0.0, -math.pi / 2, 0.0))
    place = axes @ (t.x, t.y, t.z) + (0.0, 0.0, 0.145)
    assert place == pytest.approx([above[0], above[1], carrier.clearance], abs=0.003)


def test_cameras_that_see_nothing_say_so(dots):
    got = {k: dots.listen(f"cam{k}_tags", TagArray, qos_profile_system_default) for k in range(5)}
    dots.run(1.0)
    for arrays in got.values():
        assert len(arrays) == pytest.approx(30, abs=4)
        assert all(len(array.data) == 0 for array in arrays)


def test_tags_of_the_walls(make_rig):
    dots = make_rig(arena="dots_arena")
    got = {k: dots.listen(f"cam{k}_tags", TagArray, qos_profile_system_default) for k in range(4)}
    frames = dots.listen("tf", TFMessage, qos.TF)
    dots.onboard.place((0.0, 0.0, 0.0))
    dots.run(1.0)
    tags = [(k, tag) for k, some in got.items() for array in some for tag in array.data]
    assert tags
    for arrays in got.values():
        assert len(arrays) == pytest.approx(30, abs=6)
    ids = {tag.id for _, tag in tags}
    assert ids <= set(range(12))
    for _, tag in tags:
        assert len(tag.points) == 4
        left = abs(tag.points[3].y - tag.points[0].y)
        right = abs(tag.points[2].y - tag.points[1].y)
        assert tag.alignment == pytest.approx((left - right) / (left + right), abs=1e-4)
    seen = {
        (t.header.frame_id, t.child_frame_id): t
        for sent in frames
        for t in sent.transforms
        if "_fid" in t.child_frame_id
    }
    camera, tag = tags[-1]
    frame = seen[f"dots1_cam{camera}_link", f"dots1_cam{camera}_fid{tag.id:03d}"]
    # Ahead of the camera, on the wall, with z out of the marker: towards the camera.
    place = frame.transform.translation
    assert place.x > 0.3
    q = frame.transform.rotation
    out = (2 * (q.x * q.z + q.w * q.y), 2 * (q.y * q.z - q.w * q.x), 1 - 2 * (q.x**2 + q.y**2))
    assert out[0] * place.x + out[1] * place.y + out[2] * place.z < 0


def at(frame):
    return frame.header.stamp.sec + frame.header.stamp.nanosec * 1e-9


class Found:
    """Detectors that found the side of a carrier a while ago, and a time at which that is told."""

    def __init__(self, dots):
        self.ids = np.array([104])
        markers, carrier = dots.onboard.carrier_markers, dots.robot.spec.carrier
        side = (0.5, 0.08, math.pi)
        face = [[*compose(side, (x, y, 0.0))[:2], z] for x, y, z in markers.side_corners(carrier.clearance)]
        pixels, _ = cameras_of(dots.robot.spec)["cam0"].project(np.array(face))
        self.corners, self.world = pixels.reshape(1, 4, 2), dots.world
        self.next = 0.5

    def read(self):
        now = self.world.time
        if now < self.next - 1e-9:
            return []
        self.next += 0.1
        return [CornerReading(now - 0.08, "cam0", self.ids, self.corners)]


@pytest.mark.parametrize(("tag_stamp", "age"), [("arrival", 0.0), ("exposure", 0.08)])
def test_frames_of_tags_are_of_the_time_that_is_asked_for(make_rig, tag_stamp, age):
    options = {} if tag_stamp == "arrival" else {"tag_stamp": tag_stamp}
    dots = make_rig(**options)
    dots.onboard.device = replace(dots.onboard.device, cameras=Found(dots))
    frames = dots.listen("tf", TFMessage, qos.TF)
    dots.run(0.75)
    stamps = [at(t) for sent in frames for t in sent.transforms if "_fid" in t.child_frame_id]
    assert stamps == pytest.approx([0.5 - age, 0.6 - age, 0.7 - age], abs=1e-6)


@pytest.mark.parametrize(("own", "images"), [(True, 10), (False, 5)])
def test_who_listens_to_all_robots_gets_frames_no_more_often_than_theirs(make_rig, own, images):
    dots = make_rig()
    found = Found(dots)
    dots.onboard.device = replace(dots.onboard.device, cameras=found)
    node = dots.ros.node("showing")
    dots.api.global_tf = Output(node.create_publisher(TFMessage, "/tf", qos.TF), rate=5.0)
    got = []
    dots.outsider.create_subscription(TFMessage, "/tf", got.append, qos.TF)
    dots.ros.spin_until(dots.api.global_tf.publisher.get_subscription_count, "a listener of /tf")
    if own:
        dots.listen("tf", TFMessage, qos.TF)
    dots.api.global_tf.look()
    dots.api.look()
    dots.run(1.45)
    assert len(got) == images
    assert {t.child_frame_id for sent in got for t in sent.transforms} == {"dots1_cam0_fid104"}


def test_frames_of_walls_for_a_robot_that_does_not_know_its_place(make_rig):
    """By the corners alone; it has no map of its own, whoever runs it knows the walls."""
    dots = make_rig(arena="dots_arena", localised=False, walls=Arena.load("dots_arena").markers())
    frames = dots.listen("tf", TFMessage, qos.TF)
    tags = dots.listen("cam0_tags", TagArray)
    dots.run(0.5)
    assert not dots.onboard.filter.localised
    assert {tag.id for array in tags for tag in array.data} <= set(range(12))
    seen = {
        t.child_frame_id: t for sent in frames for t in sent.transforms if "_cam0_fid" in t.child_frame_id
    }
    assert seen.keys() == {f"dots1_cam0_fid{tag.id:03d}" for array in tags for tag in array.data} != set()
    camera = next(camera for camera in dots.robot.spec.cameras if camera.name == "cam0")
    axes = _matrix(quaternion(0.0, 0.0, camera.yaw))
    there = {marker.id: marker for marker in Arena.load("dots_arena").markers().markers}
    for name, frame in seen.items():
        t = frame.transform.translation
        place = axes @ (t.x, t.y, t.z) + (camera.x, camera.y, camera.z)
        # The robot stands in the middle: its frame is the map's.
        assert math.dist(place, there[int(name[-3:])].position) < 0.15


class Watched(Found):
    """Detectors that tell all only those who watch."""

    def __init__(self, dots):
        super().__init__(dots)
        self.asked = []

    def walls(self):
        return Arena.load("dots_arena").markers()

    def watch(self, wanted):
        self.asked.append(wanted)

    def read(self):
        return []

    def sights(self):
        return super().read()


def test_detectors_tell_all_while_somebody_listens(make_rig, monkeypatch):
    made = []

    def device(self, name, of=MemoryWorld.device):
        found = of(self, name)
        rig = SimpleNamespace(
            robot=SimpleNamespace(spec=found.spec),
            onboard=SimpleNamespace(carrier_markers=CarrierMarkers.load("dots_carrier")),
            world=self,
        )
        made.append(Watched(rig))
        return replace(found, cameras=made[-1])

    monkeypatch.setattr(MemoryWorld, "device", device)
    dots = make_rig()
    cameras = made[-1]
    dots.run(0.6)
    assert not cameras.asked
    tags = dots.listen("cam0_tags", TagArray)
    dots.run_until(lambda: any(array.data for array in tags))
    assert cameras.asked == [True]
    for subscription in list(dots.outsider.subscriptions):
        if subscription.topic_name.endswith("_tags"):
            dots.outsider.destroy_subscription(subscription)
    dots.run_until(lambda: cameras.asked == [True, False])
    dots.listen("tf", TFMessage, qos.TF)
    assert cameras.asked[-1]
    dots.api.leave()
    assert not cameras.asked[-1]
