"""The messages are what robots and tools that we did not write expect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from geometry_msgs.msg import Point, TransformStamped
from rclpy.serialization import deserialize_message, serialize_message

from dots_interfaces.msg import Tag, TagArray
from swarmbed_interfaces import msg, srv
from swarmbed_interfaces.action import FollowPath
from swarmbed_interfaces.msg import RadioContact, Waypoint, Zone
from tf2_msgs.action import LookupTransform
from tf2_msgs.msg import TF2Error, TFMessage
from tf2_msgs.srv import FrameGraph


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


def test_tf2_has_what_its_library_asks_for():
    errors = ["NO", "LOOKUP", "CONNECTIVITY", "EXTRAPOLATION", "INVALID_ARGUMENT", "TIMEOUT", "TRANSFORM"]
    assert [getattr(TF2Error, f"{name}_ERROR") for name in errors] == list(range(7))
    told = [
        (TF2Error, [("error", "uint8"), ("error_string", "string")]),
        (FrameGraph.Request, []),
        (FrameGraph.Response, [("frame_yaml", "string")]),
        (
            LookupTransform.Goal,
            [
                *(("target_frame", "string"), ("source_frame", "string")),
                *(("source_time", "builtin_interfaces/Time"), ("timeout", "builtin_interfaces/Duration")),
                *(("target_time", "builtin_interfaces/Time"), ("fixed_frame", "string")),
                ("advanced", "boolean"),
            ],
        ),
        (
            LookupTransform.Result,
            [("transform", "geometry_msgs/TransformStamped"), ("error", "tf2_msgs/TF2Error")],
        ),
        (LookupTransform.Feedback, []),
    ]
    for kind, fields in told:
        assert list(kind.get_fields_and_field_types().items()) == fields, kind


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


# Names and types of fields, and their order, are what is on the wire: programs of others count on them.
WIRE = {
    msg.BatteryReading: {
        "stamp": "double",
        "voltage": "double",
        "current": "double",
        "state_of_charge": "double",
        "remaining_wh": "double",
        "undervoltage": "boolean",
        "hours_left": "double",
        "cell_voltages": "sequence<double>",
    },
    msg.CameraSpots: {
        "camera": "string",
        "spots": "sequence<double>",
    },
    msg.CollisionMap: {
        "cells": "sequence<double>",
        "state": "double[7]",
        "legs": "sequence<double>",
    },
    msg.Command: {
        "run": "uint32",
        "time": "double",
        "doing": "string",
        "velocity_body": "sequence<double>",
        "path": "sequence<swarmbed_interfaces/Path>",
        "cancel": "boolean",
        "lift": "int8",
        "leds": "sequence<int32>",
        "send": "sequence<swarmbed_interfaces/RadioPayload>",
        "carrying": "int8",
        "motors": "int8",
        "power": "int8",
    },
    msg.MotionStatus: {
        "mode": "uint8",
        "path": "uint32",
        "waypoint": "uint32",
        "progress": "double",
        "time_remaining": "double",
        "outcome": "uint8",
    },
    msg.Path: {
        "frame": "string",
        "waypoints": "sequence<swarmbed_interfaces/Waypoint>",
        "max_speed": "double",
        "max_acceleration": "double",
    },
    msg.RadioPacket: {
        "radio": "string",
        "stamp": "double",
        "sender": "string",
        "payload": "sequence<uint8>",
        "rssi": "double",
        "distance": "double",
    },
    msg.RadioPayload: {
        "radio": "string",
        "payload": "sequence<uint8>",
    },
    msg.RangeSweep: {
        "ring": "string",
        "distances": "sequence<double>",
    },
    msg.RobotInfo: {
        "run": "uint32",
        "name": "string",
        "spec": "string",
        "index": "uint32",
        "seed": "uint64",
        "rate": "double",
    },
    msg.Senses: {
        "header": "std_msgs/Header",
        "run": "uint32",
        "time": "double",
        "pose_odom": "double[3]",
        "twist_body": "double[3]",
        "pose_map": "sequence<double>",
        "pose_covariance": "sequence<double>",
        "heading": "double",
        "zone": "swarmbed_interfaces/Zone",
        "ranges": "sequence<swarmbed_interfaces/RangeSweep>",
        "points_body": "sequence<double>",
        "collision_map": "sequence<swarmbed_interfaces/CollisionMap>",
        "carrier": "sequence<swarmbed_interfaces/SideSight>",
        "underside": "sequence<swarmbed_interfaces/UndersideSight>",
        "lifter_height": "double",
        "battery": "sequence<swarmbed_interfaces/BatteryReading>",
        "radios": "sequence<string>",
        "heard": "sequence<swarmbed_interfaces/RadioPacket>",
        "motion": "swarmbed_interfaces/MotionStatus",
        "refused": "sequence<string>",
        "refused_counts": "sequence<uint64>",
        "wheel_travel": "sequence<double>",
        "imu": "sequence<double>",
        "position": "sequence<double>",
        "ground": "sequence<double>",
        "light": "sequence<double>",
        "spots": "sequence<swarmbed_interfaces/CameraSpots>",
    },
    msg.SideSight: {
        "id": "int32",
        "stamp": "double",
        "camera": "string",
        "pose_body": "double[3]",
        "covariance": "double[9]",
        "yaw_known": "boolean",
        "alignment": "double",
        "markers": "uint32",
        "pose_odom": "sequence<double>",
    },
    msg.UndersideSight: {
        "stamp": "double",
        "pose_body": "double[3]",
        "covariance": "double[9]",
        "markers": "uint32",
        "pose_odom": "sequence<double>",
    },
    msg.WorldStatus: {
        "state": "string",
        "time": "double",
        "run": "uint32",
        "speed": "double",
        "robots": "sequence<string>",
        "waiting_for": "sequence<string>",
        "verdict": "string",
        "reason": "string",
        "cycles": "uint64",
        "late": "uint64",
        "missed": "uint64",
    },
    srv.Spawn.Request: {
        "name": "string",
        "kind": "string",
        "x": "double",
        "y": "double",
        "yaw": "double",
        "tracked": "boolean",
    },
    srv.Spawn.Response: {
        "success": "boolean",
        "message": "string",
        "name": "string",
    },
    srv.Remove.Request: {
        "name": "string",
    },
    srv.Remove.Response: {
        "success": "boolean",
        "message": "string",
    },
}


@pytest.mark.parametrize("kind", WIRE, ids=lambda kind: kind.__name__)
def test_fields_are_the_wire_format(kind):
    assert list(kind.get_fields_and_field_types().items()) == list(WIRE[kind].items())
    assert round_trip(kind()) == kind()


def test_numbers_that_mean_something():
    assert (msg.Command.NO, msg.Command.KEEP, msg.Command.YES) == (-1, 0, 1)
    status = msg.MotionStatus
    assert (status.IDLE, status.VELOCITY, status.PATH) == (0, 1, 2)
    outcomes = (status.NONE, status.RUNNING, status.SUCCEEDED, status.CANCELLED, status.FAILED)
    assert outcomes == (0, 1, 2, 3, 4)


def test_a_command_of_defaults_keeps_everything():
    made = msg.Command()
    assert {made.lift, made.carrying, made.motors, made.power} == {msg.Command.KEEP}
    assert not any(map(len, (made.velocity_body, made.path, made.leds, made.send)))
    assert not made.cancel


def test_senses_come_back_as_they_were_sent():
    sent = msg.Senses(
        run=2**32 - 1,
        time=1e9 + 1e-6,
        pose_odom=[1.0, -2.0, math.pi],
        pose_map=[0.1, 0.2, 0.3],
        heading=-0.5,
        zone=Zone(zone=Zone.SEARCH),
        ranges=[msg.RangeSweep(ring="tof", distances=[0.5, math.inf])],
        collision_map=[msg.CollisionMap(cells=[0.0, 1.0], state=[float(k) for k in range(7)])],
        carrier=[
            msg.SideSight(id=-1, camera="cam0", covariance=[float(k) for k in range(9)], yaw_known=True)
        ],
        underside=[msg.UndersideSight(markers=4, pose_odom=[1.0, 2.0, 3.0])],
        battery=[msg.BatteryReading(voltage=5.1, cell_voltages=[2.5, 2.6], undervoltage=True)],
        radios=["ble", "uwb"],
        heard=[msg.RadioPacket(radio="ble", sender="dots2", payload=bytes(range(256)), rssi=-60.5)],
        motion=msg.MotionStatus(mode=msg.MotionStatus.PATH, path=7, outcome=msg.MotionStatus.RUNNING),
        refused=["command.lift"],
        refused_counts=[2**64 - 1],
    )
    got = round_trip(sent)
    assert got == sent
    assert bytes(got.heard[0].payload) == bytes(range(256))


@pytest.mark.parametrize(("field", "size"), [("pose_odom", 3), ("twist_body", 3)])
def test_poses_have_three_numbers(field, size):
    with pytest.raises(AssertionError, match=field):
        msg.Senses(**{field: [0.0] * (size + 1)}, check_fields=True)
