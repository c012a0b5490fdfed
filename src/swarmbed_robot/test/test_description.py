"""The frames that are fixed in a robot's URDF are those of the URDF; what is in that, the bringup tests."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.config import names
from swarmbed_core.errors import ConfigError
from swarmbed_core.spec import RobotSpec
from swarmbed_robot.description import describe, joints_of, quaternion

KINDS = names("config/robots")
angles = st.floats(-math.pi, math.pi)


def about(axis: int, angle: float) -> np.ndarray:
    """Return the matrix of a turn about one axis."""
    c, s = math.cos(angle), math.sin(angle)
    made = np.eye(3)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    made[[i, i, j, j], [i, j, i, j]] = c, -s, s, c
    return made


def matrix(rotation) -> np.ndarray:
    """Return the matrix of a rotation, by what it does to the axes: q v q*."""
    x, y, z, w = rotation
    v = np.array([x, y, z])
    return np.column_stack([e + 2 * w * np.cross(v, e) + 2 * np.cross(v, np.cross(v, e)) for e in np.eye(3)])


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def joints_in(urdf: str) -> dict[str, tuple]:
    """Return parent, place, rotation matrix, type and axis of each joint, by its child."""
    found = {}
    for joint in ET.fromstring(urdf).findall("joint"):
        origin, axis = joint.find("origin"), joint.find("axis")
        attributes = {} if origin is None else origin.attrib
        roll, pitch, yaw = numbers(attributes.get("rpy", "0 0 0"))
        found[joint.find("child").get("link")] = (
            joint.find("parent").get("link"),
            numbers(attributes.get("xyz", "0 0 0")),
            about(2, yaw) @ about(1, pitch) @ about(0, roll),
            joint.get("type"),
            None if axis is None else numbers(axis.get("xyz")),
        )
    return found


@settings(deadline=None, max_examples=100, derandomize=True)
@given(angles, angles, angles)
def test_a_rotation_is_about_x_then_y_then_z(roll, pitch, yaw):
    made = quaternion(roll, pitch, yaw)
    assert math.hypot(*made) == pytest.approx(1.0)
    assert matrix(made) == pytest.approx(about(2, yaw) @ about(1, pitch) @ about(0, roll), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_joints_are_those_of_the_urdf(kind):
    expected = joints_in(describe(kind))
    made = {joint.child: joint for joint in joints_of(kind)}
    assert set(made) == set(expected)
    for child, (parent, place, turn, how, axis) in expected.items():
        joint = made[child]
        assert joint.parent == parent
        assert list(joint.translation) == place
        assert matrix(joint.rotation) == pytest.approx(turn, abs=1e-12)
        assert list(joint.axis) == (axis if how == "prismatic" else [0.0, 0.0, 0.0])


@pytest.mark.parametrize("kind", KINDS)
def test_all_frames_hang_on_base_link_and_each_on_one(kind):
    joints = joints_of(kind)
    above = {joint.child: joint.parent for joint in joints}
    assert len(above) == len(joints)
    for child in above:
        seen = [child]
        while seen[-1] in above:
            assert len(seen) <= len(joints)
            seen.append(above[seen[-1]])
        assert seen[-1] == "base_link"
    spec = RobotSpec.load(kind)
    assert {f"{camera.name}_link" for camera in spec.cameras} <= set(above)


def test_only_the_platform_slides():
    assert [(joint.child, joint.axis) for joint in joints_of("dots") if any(joint.axis)] == [
        ("lifter_link", (0.0, 0.0, 1.0))
    ]
    assert not any(any(joint.axis) for joint in joints_of("epuck2"))


def test_a_prefix_is_before_every_name_and_nowhere_else():
    plain, named = ET.fromstring(describe("dots")), ET.fromstring(describe("dots", "dots1_"))
    for tag in ("link", "joint"):
        names_of = [[item.get("name") for item in made.findall(tag)] for made in (plain, named)]
        assert names_of[1] == [f"dots1_{name}" for name in names_of[0]]
    assert named.get("name") == "dots"
    assert "SWARMBED" not in describe("dots", "dots1_") + describe("dots")


def test_who_is_not_there_is_told():
    with pytest.raises(ConfigError, match="'tank' is not in config/robots"):
        joints_of("tank")
    with pytest.raises(ConfigError, match="prefix 'a b_'"):
        describe("dots", "a b_")
