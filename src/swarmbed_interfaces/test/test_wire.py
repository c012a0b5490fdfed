"""The messages are what robots and tools that we did not write expect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from geometry_msgs.msg import Point, TransformStamped
from rclpy.serialization import deserialize_message, serialize_message

from dots_interfaces.msg import Tag, TagArray
from swarmbed_interfaces.action import FollowPath
from swarmbed_interfaces.msg import RadioContact, Waypoint, Zone
from tf2_msgs.msg import TFMessage


def round_trip(message):
    return deserialize_message(serialize_message(message), type(message))


def test_tags_come_back_as_they_were_sent():
    corners = [Point(x=10.5, y=20.25), Point(x=30.0, y=20.0), Point(x=30.0, y=40.0), Point(x=10.0, y=40.0)]
    sent = TagArray(data=[Tag(id=7, alignment=0.125, points=corners), Tag(id=200)])

    got = round_trip(sent)

    assert got == sent
    assert [tag.id for tag in got.data] == [7, 200]
    assert [(p.x, p.y) for p in got.data[0].points] == [(p.x, p.y) for p in corners]


def test_tag_is_the_dots_wire_format():
    assert list(Tag.get_fields_and_field_types().items()) == [
        ("id", "int32"),
        ("alignment", "float"),
        ("points", "geometry_msgs/Point[4]"),
    ]
    assert TagArray.get_fields_and_field_types() == {"data": "sequence<dots_interfaces/Tag>"}
    # CDR: 4 bytes of header, int32, float32, 4 points of 3 doubles, in that order and without padding.
    tag = Tag(id=-2, alignment=0.5, points=[Point(x=float(i), y=i + 0.5, z=-1.0) for i in range(4)])
    layout = np.dtype([("id", "<i4"), ("alignment", "<f4"), ("points", "<f8", (4, 3))])
    [raw] = np.frombuffer(serialize_message(tag)[4:], dtype=layout)
    assert raw["id"] == -2
    assert raw["alignment"] == 0.5
    assert raw["points"].tolist() == [[i, i + 0.5, -1.0] for i in range(4)]


def test_a_tag_has_four_corners():
    with pytest.raises(AssertionError, match="points"):
        Tag(points=[Point()] * 3, check_fields=True)


def test_tf_message_is_the_one_that_ros_knows():
    assert TFMessage.get_fields_and_field_types() == {
        "transforms": "sequence<geometry_msgs/TransformStamped>"
    }
    sent = TFMessage(transforms=[TransformStamped(child_frame_id="dots_1_cam0_fid007")])
    sent.transforms[0].header.frame_id = "dots_1_cam0_link"
    sent.transforms[0].transform.translation.x = 1.25
    assert round_trip(sent) == sent


def test_constants():
    assert (Zone.NEITHER, Zone.SEARCH, Zone.DROP) == (0, 1, 2)
    names = ["SUCCEEDED", "CANCELLED", "REPLACED", "REFUSED", "FAILED"]
    assert [getattr(FollowPath.Result, name) for name in names] == [0, 1, 2, 3, 4]


def test_path_goal_comes_back_as_it_was_sent():
    sent = FollowPath.Goal(waypoints=[Waypoint(x=1.0, y=-2.0, yaw=0.5, vx=0.25), Waypoint()], max_speed=0.5)
    sent.header.frame_id = "map"
    assert round_trip(sent) == sent


def test_a_contact_may_lack_a_distance():
    got = round_trip(RadioContact(peer="dots_2", rssi=-61.5, range=math.nan, data=b"\x00\xff"))
    assert math.isnan(got.range)
    assert (got.peer, got.rssi, bytes(got.data)) == ("dots_2", -61.5, b"\x00\xff")
