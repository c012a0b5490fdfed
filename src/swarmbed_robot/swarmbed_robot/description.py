"""Makes a robot's URDF from its file in config/robots, and reads its frames from it."""

from __future__ import annotations

import atexit
import math
import re
import shutil
import tempfile
import xml.etree.ElementTree as ET
import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import xacro
from swarmbed_core.config import find, share_dir
from swarmbed_core.errors import ConfigError
from swarmbed_core.spec import RobotSpec

from swarmbed_robot.wire import spec_to_text

Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

MARK = "SWARMBED_PREFIX_"
"""Placeholder for the prefix in the URDF, which is made once for all robots of a kind."""


class Joint(NamedTuple):
    """The pose of a child frame in its parent.

    `axis` is the axis of a sliding joint, and zero for all others. Wheels are treated as fixed.
    """

    parent: str
    child: str
    translation: Vector
    rotation: Quaternion
    axis: Vector


def describe(robot: str, prefix: str = "") -> str:
    """Return the URDF of a robot.

    Args:
        robot: a kind of config/robots, such as `dots`, or the path of such a file.
        prefix: prefix of all names of links and joints, such as `dots1_`.

    Raises:
        ConfigError: the file or the prefix is invalid.
    """
    if not re.fullmatch(r"\w*", prefix, re.ASCII):
        message = f"prefix '{prefix}': expected only letters, digits and underscores, such as dots1_"
        raise ConfigError(message)
    return _process(find(robot, "config/robots").resolve()).replace(MARK, prefix)


@cache
def _process(spec_file: Path) -> str:
    kind = RobotSpec.load(str(spec_file)).kind
    urdf = share_dir() / "urdf"
    own = urdf / f"{kind}.urdf.xacro"
    model = own if own.is_file() else urdf / "robot.urdf.xacro"
    document = xacro.process_file(str(model), mappings={"spec": str(spec_file), "prefix": MARK})
    document.documentElement.setAttribute("name", kind)
    return str(document.toxml())


@cache
def joints_of(robot: str) -> tuple[Joint, ...]:
    """Return the joints of a robot's URDF, with frame names without a prefix.

    Raises:
        ConfigError: the robot's file is missing or invalid.
    """
    made = []
    for joint in ET.fromstring(describe(robot)).iter("joint"):
        parent, child = joint.find("parent"), joint.find("child")
        if parent is None or child is None:
            continue
        origin, axis = joint.find("origin"), joint.find("axis")
        place = {} if origin is None else origin.attrib
        slides = joint.get("type") == "prismatic" and axis is not None
        along = _three(axis.get("xyz", "1 0 0")) if slides and axis is not None else (0.0, 0.0, 0.0)
        made.append(
            Joint(
                parent.attrib["link"],
                child.attrib["link"],
                _three(place.get("xyz", "0 0 0")),
                quaternion(*_three(place.get("rpy", "0 0 0"))),
                along,
            )
        )
    return tuple(made)


def quaternion(roll: float, pitch: float, yaw: float) -> Quaternion:
    """Return the quaternion (x, y, z, w) of rotations about the fixed axes x, y and z, in this order."""
    cr, sr = math.cos(roll / 2), math.sin(roll / 2)
    cp, sp = math.cos(pitch / 2), math.sin(pitch / 2)
    cy, sy = math.cos(yaw / 2), math.sin(yaw / 2)
    return (
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )


def _three(text: str) -> Vector:
    x, y, z = (float(word) for word in text.split())
    return x, y, z


def model_of(spec: RobotSpec) -> str:
    """Return the argument of `describe` for a spec: its kind, or a temporary file that holds the spec."""
    return _model_file(spec_to_text(spec), spec.kind)


@cache
def _model_file(text: str, kind: str) -> str:
    try:
        if spec_to_text(RobotSpec.load(kind)) == text:
            return kind
    except ConfigError:
        pass
    file = _folder() / f"{kind}-{zlib.crc32(text.encode()):08x}.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@cache
def _folder() -> Path:
    """Return a temporary directory that is removed when the process ends."""
    made = tempfile.mkdtemp(prefix="swarmbed-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
