"""The appearance of a scene as a MuJoCo model for rendering: floor, walls, codes, robots, carriers.

This model is separate from the one that is simulated (`mujoco_model`), whose bodies are the cheapest shapes
with the right contacts; here they look as a camera sees them. Everything that moves is a mocap body, which
`Looks.place` moves to its pose in the physics. All colours are grey, because images are read as greyscale.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import cv2
import mujoco
import numpy as np
from swarmbed_core.codes import modules
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.scene import legs_of
from swarmbed_core.spec import DiscBody

from swarmbed_sim.mjcf import add

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from swarmbed_core.calibration_target import CalibrationTarget
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import CarrierMarkers, Marker
    from swarmbed_core.scene import CarrierPlacement, RobotPlacement, Scene

    from swarmbed_sim.stage import Places

    ByteArray = NDArray[np.uint8]

MODULE_PX: Final = 16
"""Texture pixels per square of a code."""
MARGIN: Final = 1
"""White squares around a code."""
SHEET: Final = 0.0004
"""Thickness of printed sheets in metres. A sheet's face is at the mapped position, its mounting behind it."""
WALL: Final = 0.1
WALL_LIGHT, FLOOR_LIGHT, ROBOT_LIGHT, TRAY_LIGHT, LEG_LIGHT = 0.75, 0.45, 0.25, 0.6, 0.35
"""Brightness from 0 to 1: assumed. Walls are darker than paper."""
PAPER: Final = 0.92
"""Brightness of paper from 0 to 1; `INK` is that of ink."""
INK: Final = 0.06
PLATE: Final = 0.01
"""Thickness in metres of a robot's lifting platform."""


def code_picture(number: int) -> ByteArray:
    """Return a code with its white margin, `MODULE_PX` pixels per square."""
    white = np.pad(modules(number), MARGIN, constant_values=True)
    return np.kron(np.where(white, 255, 0), np.ones((MODULE_PX, MODULE_PX))).astype(np.uint8)


def printed(picture: ByteArray) -> ByteArray:
    """Return a picture with the contrast of ink on paper."""
    return np.rint(255 * (INK + (PAPER - INK) * (picture / 255.0))).astype(np.uint8)


def underside_picture(markers: CarrierMarkers, length: float, width: float) -> ByteArray:
    """Return the underside of a tray as seen from below: its front is at the top, its left on the right."""
    scale = MODULE_PX * 8 / markers.underside.size
    sheet = np.full((round(length * scale), round(width * scale)), 255, dtype=np.uint8)
    high, wide = sheet.shape
    for marker in markers.underside_map(0.0).markers:
        code = code_picture(marker.id)
        # Codes are not aligned with the pixels: draw each at its exact position.
        row = (length / 2 - marker.position[0]) * high / length - len(code) / 2
        column = (width / 2 + marker.position[1]) * wide / width - len(code) / 2
        top, left = math.floor(row), math.floor(column)
        shift = np.array([[1.0, 0.0, column - left], [0.0, 1.0, row - top]])
        drawn = cv2.warpAffine(code, shift, (len(code) + 1, len(code) + 1), borderValue=255)
        part = sheet[max(top, 0) : top + len(drawn), max(left, 0) : left + len(drawn)]
        part[:] = np.minimum(part, drawn[max(-top, 0) :, max(-left, 0) :][: part.shape[0], : part.shape[1]])
    return sheet


class Looks:
    """A scene as a MuJoCo model for rendering.

    Attributes:
        model: the MuJoCo model.
        data: its state, with all poses.
    """

    def __init__(self, scene: Scene, targets: Sequence[CalibrationTarget] = ()) -> None:
        """Build the model of a scene, with calibration targets on its walls."""
        self.model, self.data = _Builder(scene, targets).build()
        self._robots = [self._mocap(robot.name) for robot in scene.robots]
        self._platforms = [
            self._mocap(f"{robot.name} platform") if robot.spec.lifter else -1 for robot in scene.robots
        ]
        self._carriers = [self._mocap(carrier.name) for carrier in scene.carriers]
        mujoco.mj_forward(self.model, self.data)

    def _mocap(self, name: str) -> int:
        return int(self.model.body(name).mocapid[0])

    def place(self, physics: Places) -> None:
        """Move everything to its current pose."""
        place, turn = self.data.mocap_pos, self.data.mocap_quat
        for k, (x, y, yaw) in enumerate(physics.poses[:, :3].tolist()):
            at, platform = self._robots[k], self._platforms[k]
            place[at, :2] = x, y
            turn[at, 0], turn[at, 3] = math.cos(yaw / 2), math.sin(yaw / 2)
            if platform >= 0:
                place[platform] = x, y, physics.heights.item(k)
        lifts = physics.carrier_lifts.tolist()
        for k, (x, y, yaw) in enumerate(physics.carrier_poses[:, :3].tolist()):
            at = self._carriers[k]
            place[at] = x, y, lifts[k]
            turn[at, 0], turn[at, 3] = math.cos(yaw / 2), math.sin(yaw / 2)
        mujoco.mj_kinematics(self.model, self.data)


class _Builder:
    """Writes the MJCF and paints its textures."""

    def __init__(self, scene: Scene, targets: Sequence[CalibrationTarget]) -> None:
        self.scene = scene
        self.targets = targets
        self.files: dict[str, bytes] = {}
        self.root = ET.Element("mujoco", model="looks")
        self.asset = ET.Element("asset")
        self.world = ET.Element("worldbody")

    def build(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Write and compile the model."""
        add(self.root, "compiler", angle="radian")
        # With extent 1, the near and far clipping planes are in metres.
        add(self.root, "statistic", extent=1, center=(0, 0, 0))
        visual = add(self.root, "visual")
        add(visual, "global", offwidth="704", offheight="528")
        # The headlight is directional, so faces need no vertices between their corners.
        add(visual, "quality", offsamples="0", shadowsize="0", numstacks="1", numquads="1")
        add(visual, "map", znear=0.004, zfar=60)
        # Mostly ambient light, like that of a hall's lamps.
        even = {"ambient": (0.75, 0.75, 0.75), "diffuse": (0.25, 0.25, 0.25), "specular": (0, 0, 0)}
        add(visual, "headlight", **even)
        self.root.extend([self.asset, self.world])
        self._floor()
        self._walls()
        for robot in self.scene.robots:
            self._robot(robot)
        for carrier in self.scene.carriers:
            self._carrier(carrier)
        walls = self.scene.arena.markers()
        for marker in () if walls is None else walls.markers:
            self._marker(marker)
        for k, target in enumerate(self.targets):
            name = self._texture(f"target{k}", printed(target.picture()))
            c, s = math.cos(target.yaw), math.sin(target.yaw)
            axes = np.column_stack([(-s, c, 0.0), (0.0, 0.0, 1.0), (c, s, 0.0)])
            self._sheet(self.world, name, (target.width, target.height), target.position, axes)
        model = mujoco.MjModel.from_xml_string(ET.tostring(self.root, encoding="unicode"), self.files)
        return model, mujoco.MjData(model)

    def _texture(self, name: str, picture: ByteArray) -> str:
        """Add a picture as a material of this name, once; return the name."""
        file = f"{name}.png"
        if file not in self.files:
            self.files[file] = cv2.imencode(".png", picture)[1].tobytes()
            add(self.asset, "texture", name=name, type="2d", file=file)
            add(self.asset, "material", name=name, texture=name, texrepeat=(1, 1), specular=0)
        return name

    def _code(self, number: int) -> str:
        return self._texture(f"code{number}", printed(code_picture(number)))

    def _sheet(
        self,
        parent: ET.Element,
        material: str,
        size: tuple[float, float],
        place: Sequence[float] | FloatArray,
        axes: FloatArray,
    ) -> None:
        """Attach a printed sheet to a body; the columns of `axes` point right, up and out of its face."""
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(axes).ravel())
        half = (size[0] / 2, size[1] / 2, SHEET / 2)
        middle = np.asarray(place) - axes[:, 2] * SHEET / 2
        add(parent, "geom", type="box", size=half, pos=middle, quat=quaternion, material=material)

    def _floor(self) -> None:
        length, width = self.scene.arena.size or (20.0, 20.0)
        size, light = (length / 2 + 1, width / 2 + 1, 1), (FLOOR_LIGHT, FLOOR_LIGHT, FLOOR_LIGHT, 1)
        add(self.world, "geom", type="plane", size=size, rgba=light)

    def _box(
        self, parent: ET.Element, size: Sequence[float], place: Sequence[float], yaw: float, light: float
    ) -> None:
        turn = (math.cos(yaw / 2), 0, 0, math.sin(yaw / 2))
        half = [edge / 2 for edge in size]
        add(parent, "geom", type="box", size=half, pos=place, quat=turn, rgba=(light, light, light, 1))

    def _tube(
        self, parent: ET.Element, radius: float, height: float, place: Sequence[float], light: float
    ) -> None:
        size = (radius, height / 2)
        add(parent, "geom", type="cylinder", size=size, pos=place, rgba=(light, light, light, 1))

    def _walls(self) -> None:
        arena, world = self.scene.arena, self.world
        height = arena.wall_height
        if arena.size is not None:
            length, width = arena.size
            for sign in (1, -1):
                x, y = (sign * ((side + WALL) / 2 + SHEET) for side in arena.size)
                self._box(world, (WALL, width + 2 * WALL, height), (x, 0, height / 2), 0, WALL_LIGHT)
                self._box(world, (length, WALL, height), (0, y, height / 2), 0, WALL_LIGHT)
        for x1, y1, x2, y2 in arena.walls:
            size = (math.hypot(x2 - x1, y2 - y1), WALL / 10, height)
            middle = ((x1 + x2) / 2, (y1 + y2) / 2, height / 2)
            self._box(world, size, middle, math.atan2(y2 - y1, x2 - x1), WALL_LIGHT)
        for item in self.scene.obstacles:
            x, y, yaw = item.pose
            if isinstance(item, BoxObstacle):
                self._box(world, (*item.size, item.height), (x, y, item.height / 2), yaw, TRAY_LIGHT)
            else:
                self._tube(world, item.radius, item.height, (x, y, item.height / 2), TRAY_LIGHT)

    def _marker(self, marker: Marker) -> None:
        """Attach a code at its mapped position."""
        top_left, top_right, _, low_left = marker.corners()
        right, up = (top_right - top_left) / marker.size, (top_left - low_left) / marker.size
        face = np.cross(right, up)
        edge = marker.size * (8 + 2 * MARGIN) / 8
        axes = np.column_stack([right, up, face])
        self._sheet(self.world, self._code(marker.id), (edge, edge), marker.position, axes)

    def _mobile(self, name: str) -> ET.Element:
        return add(self.world, "body", name=name, mocap="true")

    def _robot(self, robot: RobotPlacement) -> None:
        body, spec = robot.spec.body, robot.spec
        base = self._mobile(robot.name)
        height = body.height - (PLATE if spec.lifter else 0.0)
        if isinstance(body, DiscBody):
            self._tube(base, body.radius, height, (0, 0, height / 2), ROBOT_LIGHT)
        else:
            self._box(base, (body.length, body.width, height), (0, 0, height / 2), 0, ROBOT_LIGHT)
        if spec.lifter:
            platform = self._mobile(f"{robot.name} platform")
            radius = body.radius if isinstance(body, DiscBody) else min(body.length, body.width) / 2
            self._tube(platform, 0.7 * radius, PLATE / 2, (0, 0, -PLATE * 0.75), TRAY_LIGHT)

    def _carrier(self, placement: CarrierPlacement) -> None:
        carrier, sides = placement.carrier, self.scene.markers.sides
        body = self._mobile(placement.name)
        thickness = sides.rise + sides.size / 2
        size = (carrier.length - 2 * SHEET, carrier.width - 2 * SHEET, thickness)
        self._box(body, size, (0, 0, carrier.clearance + thickness / 2 + SHEET), 0, TRAY_LIGHT)
        for x, y in legs_of(carrier).tolist():
            self._tube(body, carrier.leg_radius, carrier.clearance, (x, y, carrier.clearance / 2), LEG_LIGHT)
        under = printed(underside_picture(self.scene.markers, carrier.length, carrier.width))
        name = self._texture(f"under{carrier.length}x{carrier.width}", under)
        axes = np.column_stack([(0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0)])
        self._sheet(body, name, (carrier.width, carrier.length), (0, 0, carrier.clearance), axes)
        edge = sides.size * (8 + 2 * MARGIN) / 8
        code = self._code(placement.marker)
        for k in range(4):
            out = np.round((math.cos(k * math.pi / 2), math.sin(k * math.pi / 2), 0.0))
            half = (carrier.length if k % 2 == 0 else carrier.width) / 2
            place = out * half + (0.0, 0.0, carrier.clearance + sides.rise)
            axes = np.column_stack([np.cross((0.0, 0.0, 1.0), out), (0.0, 0.0, 1.0), out])
            self._sheet(body, code, (edge, edge), place, axes)
        if placement.payload > 0:
            top = carrier.clearance + thickness
            self._box(body, (carrier.length / 3, carrier.width / 3, 0.1), (0, 0, top + 0.05), 0, LEG_LIGHT)
