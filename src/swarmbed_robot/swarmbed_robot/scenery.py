"""Markers that show a world in rviz and Foxglove: arena, obstacles, robots' bodies and carriers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.scene import legs_of

from swarmbed_robot.templates import SLOT, Template, message, pose_slots, stamped

if TYPE_CHECKING:
    from swarmbed_core.arena import Arena
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.heading import Area
    from swarmbed_core.scene import Scene
    from swarmbed_core.spec import Carrier, RobotSpec
    from swarmbed_core.world import CarrierTruth

PLATE = 0.01
"""Thickness in metres with which trays and walls are drawn; zones are a tenth of it."""
HAIR = 1e-4
"""Motion of a carrier, in metres or radians, from which it is published again."""
_BODY_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_CUBE, _CYLINDER, _CUBE_LIST, _TEXT = 1, 3, 6, 9
_DELETE_ALL = 3


def colour(code: str, alpha: float = 1.0) -> Any:
    """Return a ColorRGBA message from a hex code, such as #0072B2."""
    r, g, b = (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return message("std_msgs/msg/ColorRGBA", r=r, g=g, b=b, a=alpha)


def marker(
    namespace: str,
    number: int,
    shape: int,
    size: tuple[float, float, float],
    colour: Any,
    *,
    frame: str = "map",
    pose: Any = None,
    **fields: Any,
) -> Any:
    """Return a Marker message.

    Args:
        namespace: namespace of the marker.
        number: id within the namespace.
        shape: type of the marker.
        size: its scale along x, y and z, in metres.
        colour: its colour.
        frame: frame of its pose.
        pose: its pose; None: the frame's origin.
        **fields: further fields of the message.
    """
    return message(
        "visualization_msgs/msg/Marker",
        header=stamped(frame),
        ns=namespace,
        id=number,
        type=shape,
        pose=message("geometry_msgs/msg/Pose") if pose is None else pose,
        scale=message("geometry_msgs/msg/Vector3", x=size[0], y=size[1], z=size[2]),
        color=colour,
        **fields,
    )


def at(x: float, y: float, z: float, yaw: float = 0.0) -> Any:
    """Return a Pose message with a yaw."""
    return message(
        "geometry_msgs/msg/Pose",
        position=message("geometry_msgs/msg/Point", x=x, y=y, z=z),
        orientation=message("geometry_msgs/msg/Quaternion", z=math.sin(yaw / 2), w=math.cos(yaw / 2)),
    )


def scene_markers(scene: Scene, *, again: bool = False) -> Any:
    """Return the markers of arena, obstacles and robots; the bodies follow their robots' frames.

    Args:
        scene: the scene.
        again: whether to delete all earlier markers first.
    """
    made = [message("visualization_msgs/msg/Marker", action=_DELETE_ALL)] if again else []
    made += [*_zones(scene.arena), *_walls(scene.arena)]
    grey = colour("#7F7F7F")
    for k, item in enumerate(scene.obstacles):
        x, y, yaw = item.pose
        if isinstance(item, BoxObstacle):
            shape, size = _CUBE, (*item.size, item.height)
        else:
            shape, size = _CYLINDER, (2 * item.radius, 2 * item.radius, item.height)
        made.append(marker("obstacles", k, shape, size, grey, pose=at(x, y, item.height / 2, yaw)))
    if not scene.crowd:
        for k, placement in enumerate(scene.robots):
            made += body_markers(k, placement.name, placement.spec)
    return message("visualization_msgs/msg/MarkerArray", markers=made)


def body_markers(k: int, name: str, spec: RobotSpec) -> list[Any]:
    """Return markers for a robot's body, its front and its name.

    Args:
        k: index of the robot, for the markers' ids and the colour.
        name: name of the robot.
        spec: kind of robot.
    """
    body, frame = spec.body, f"{name}_base_link"
    paint = colour(_BODY_COLOURS[k % len(_BODY_COLOURS)])
    middle = at(0.0, 0.0, body.height / 2)
    if body.shape == "disc":
        reach = body.radius
        hull = marker(
            "robots",
            k,
            _CYLINDER,
            (2 * reach, 2 * reach, body.height),
            paint,
            frame=frame,
            pose=middle,
            frame_locked=True,
        )
    else:
        reach = body.length / 2
        hull = marker(
            "robots",
            k,
            _CUBE,
            (body.length, body.width, body.height),
            paint,
            frame=frame,
            pose=middle,
            frame_locked=True,
        )
    nose = marker(
        "noses",
        k,
        _CUBE,
        (reach / 2, reach / 5, PLATE),
        colour("#FFFFFF"),
        frame=frame,
        pose=at(0.7 * reach, 0.0, body.height),
        frame_locked=True,
    )
    label = marker(
        "names",
        k,
        _TEXT,
        (0.0, 0.0, 0.08),
        colour("#000000"),
        frame=frame,
        pose=at(0.0, 0.0, body.height + 0.15),
        frame_locked=True,
        text=name,
    )
    return [hull, nose, label]


def _zones(arena: Arena) -> list[Any]:
    """Return the task's zones as tinted floor, clipped to the arena."""
    if arena.zones is None or arena.size is None:
        return []
    made = []
    for k, (name, tint) in enumerate((("search", "#56B4E9"), ("drop", "#009E73"))):
        (left, right), (bottom, top) = bounds(getattr(arena.zones, name), arena.size)
        made.append(
            marker(
                "zones",
                k,
                _CUBE,
                (right - left, top - bottom, PLATE / 10),
                colour(tint, 0.25),
                pose=at((left + right) / 2, (bottom + top) / 2, 0.0),
            )
        )
    return made


def bounds(area: Area, size: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return an area's bounds along x and y, clipped to the outer walls."""
    (left, right), (bottom, top) = area.along_x, area.along_y
    return (max(left, -size[0] / 2), min(right, size[0] / 2)), (
        max(bottom, -size[1] / 2),
        min(top, size[1] / 2),
    )


def _walls(arena: Arena) -> list[Any]:
    made = []
    for k, (x1, y1, x2, y2) in enumerate(arena.segments().tolist()):
        size = (math.hypot(x2 - x1, y2 - y1), PLATE, arena.wall_height)
        place = at((x1 + x2) / 2, (y1 + y2) / 2, arena.wall_height / 2, math.atan2(y2 - y1, x2 - x1))
        made.append(marker("walls", k, _CUBE, size, colour("#B0A090", 0.5), pose=place))
    return made


def carrier_heights(carrier: Carrier) -> tuple[float, float, float]:
    """Return the heights of a carrier's tray, legs and label above its feet, in metres."""
    return carrier.clearance + PLATE / 2, carrier.clearance / 2, carrier.clearance + 0.12


def carrier_markers(scene: Scene) -> Any:
    """Return the markers of the carriers' trays, legs and ids, with slots for their poses."""
    made = []
    for k, placement in enumerate(scene.carriers):
        carrier = placement.carrier
        leg = (2 * carrier.leg_radius, 2 * carrier.leg_radius, carrier.clearance)
        points = [message("geometry_msgs/msg/Point", x=x, y=y) for x, y in legs_of(carrier).tolist()]
        wood = colour("#C8A165", 0.8)
        made += [
            marker("trays", k, _CUBE, (carrier.length, carrier.width, PLATE), wood, pose=pose_slots(SLOT)),
            marker("legs", k, _CUBE_LIST, leg, wood, pose=pose_slots(SLOT), points=points),
            marker(
                "carriers",
                k,
                _TEXT,
                (0.0, 0.0, 0.08),
                colour("#000000"),
                pose=pose_slots(SLOT),
                text=str(placement.marker),
            ),
        ]
    return message("visualization_msgs/msg/MarkerArray", markers=made)


class Carriers:
    """The markers of a world's carriers.

    Attributes:
        template: the serialised markers.
    """

    def __init__(self, scene: Scene) -> None:
        self.template = Template(carrier_markers(scene))
        self._heights = np.array([carrier_heights(item.carrier) for item in scene.carriers])
        self._at: FloatArray | None = None

    def moved(self, carriers: CarrierTruth) -> bool:
        """Fill the template with the carriers' poses; return whether one has moved since the last True."""
        now = np.column_stack([carriers.poses, carriers.lifts])
        if self._at is not None and np.abs(now - self._at).max() < HAIR:
            return False
        self._at = now
        values = np.empty((*self._heights.shape, 5))
        values[:, :, :2] = now[:, None, :2]
        values[:, :, 2] = self._heights + now[:, 3, None]
        values[:, :, 3] = np.sin(now[:, 2, None] / 2)
        values[:, :, 4] = np.cos(now[:, 2, None] / 2)
        self.template.fill(values)
        return True
