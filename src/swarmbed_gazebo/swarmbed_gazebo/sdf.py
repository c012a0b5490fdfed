"""World files for Gazebo (SDF 1.7) of a scene: dynamics, collisions and visuals.

Shapes and numbers come from the scene and the robots' files. Robots are discs or boxes that slide without
friction; the plugin applies their drives' forces. Opened by hand, such a file shows everything at its initial
pose.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import numpy as np
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.scene import legs_of
from swarmbed_core.spec import DiscBody
from swarmbed_sim.looks import FLOOR_LIGHT, LEG_LIGHT, PLATE, ROBOT_LIGHT, SHEET, TRAY_LIGHT, WALL_LIGHT
from swarmbed_sim.solid import (
    GRIP_BODY,
    GRIP_FLOOR,
    GRIP_PLATFORM,
    LEG_SHARE,
    PAYLOAD_HEIGHT,
    PLATFORM_MASS,
    joined,
    middle,
    walls_of,
    yaw_inertia,
)

from swarmbed_gazebo.looks import carrier_sheets, material_name, wall_sheets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import CarrierPlacement, RobotPlacement, Scene
    from swarmbed_core.spec import BoxBody

    from swarmbed_gazebo.looks import Pictures, Sheet

_Mass = tuple[float, tuple[float, float, float], tuple[float, float, float]]
"""Mass in kg, position, and sides of a box of this mass."""

GAZEBO11, HARMONIC = "gazebo11", "harmonic"
"""Kinds of simulators: Gazebo 11, and gz-sim 8."""
PLUGINS: Final = {GAZEBO11: "libswarmbed_gazebo11.so", HARMONIC: "libswarmbed_harmonic.so"}
SUBSTEP: Final = 0.005
"""Time step of the physics in seconds."""
ITERATIONS: Final = 20
SYSTEMS: Final = {
    "physics": "Physics",
    "user-commands": "UserCommands",
    "scene-broadcaster": "SceneBroadcaster",
}
"""Systems of gz-sim 8 by library: the first is always loaded, the others only for a file opened by hand."""
GAP: Final = 0.002
"""Clearance in metres between a robot's body and its platform, and between the body and the floor."""
STANDS, SIDES = 1, 2
"""Collision bits: two shapes collide if they share one. Everything stands on the floor with small spheres
that have one contact point each; other shapes ignore the floor. Fewer points are faster to solve."""
BALL: Final = 0.01
"""Radius in metres of the spheres on which a robot slides."""
UPRIGHT: Final = 0.6
"""Ratio of a robot's moments of inertia about x and y to that about z: assumed."""
LIGHT: Final = (0.004, 0.012, 0.006)
"""Sides of one of a robot's LEDs in metres: assumed, as is `LIGHT_HEIGHT`, their height above the floor."""
LIGHT_HEIGHT: Final = 0.03
DARK: Final = 0.1
"""Brightness of an LED that is off, from 0 to 1."""
LED_WEIGHT: Final = 1e3
"""By how much a led body is heavier than its robot: what it pushes gives way. It is free of gravity."""
SPREAD: Final = 0.9
"""Distance of the spheres under a robot from its centre, as a share of the distance to its rim or corners."""
STIFF: Final = 1e6
DAMPED: Final = 1e3
"""Stiffness and damping of contacts in N/m and Ns/m."""


def _numbers(values: Sequence[float]) -> str:
    """Write numbers with full precision, and -0 as 0."""
    return " ".join(repr(float(value) + 0.0) for value in values)


def _add(
    parent: ET.Element, tag: str, text: str | float | Sequence[float] = "", **attributes: str
) -> ET.Element:
    """Add an element that contains a text or numbers."""
    made = ET.SubElement(parent, tag, attributes)
    if isinstance(text, (int, float)):
        text = _numbers([text])
    made.text = text if isinstance(text, str) else _numbers(text)
    if not made.text:
        made.text = None
    return made


def _pose(parent: ET.Element, x: float, y: float, z: float = 0.0, yaw: float = 0.0) -> None:
    if any((x, y, z, yaw)):
        _add(parent, "pose", (x, y, z, 0.0, 0.0, yaw))


def _shape(parent: ET.Element, kind: str, size: Sequence[float]) -> None:
    geometry = _add(parent, "geometry")
    shape = _add(geometry, kind)
    if kind == "box":
        _add(shape, "size", size)
    elif kind == "sphere":
        _add(shape, "radius", size[0])
    else:
        _add(shape, "radius", size[0])
        _add(shape, "length", size[1])


def _inertial(
    link: ET.Element, mass: float, inertia: Sequence[float], place: Sequence[float] = (0, 0, 0)
) -> None:
    inertial = _add(link, "inertial")
    _pose(inertial, *place)
    _add(inertial, "mass", mass)
    table = _add(inertial, "inertia")
    for name, value in zip(("ixx", "iyy", "izz"), inertia, strict=True):
        _add(table, name, value)
    for name in ("ixy", "ixz", "iyz"):
        _add(table, name, 0.0)


class _Builder:
    """Writes one world."""

    def __init__(self, scene: Scene, socket: str, simulator: str, pictures: Pictures | None) -> None:
        self.scene = scene
        self.simulator = simulator
        self.pictures = pictures
        # Gazebo 11 warns if two children of a world have the same name; the physics is already `swarmbed`.
        name = "session" if simulator == GAZEBO11 else "swarmbed::Shell"
        self.plugin = ET.Element("plugin", name=name, filename=PLUGINS[simulator])
        self.socket = socket
        _add(self.plugin, "socket", socket)
        self.root = ET.Element("sdf", version="1.7")
        self.world = _add(self.root, "world", name="swarmbed")

    def build(self) -> str:
        """Return the file's text."""
        world = self.world
        if self.simulator == GAZEBO11:
            physics = _add(world, "physics", name="swarmbed", type="ode", default="true")
            solver = _add(_add(physics, "ode"), "solver")
            _add(solver, "type", "quick")
            _add(solver, "iters", str(ITERATIONS))
        else:
            physics = _add(world, "physics", name="swarmbed", type="dart", default="true")
            for system, name in list(SYSTEMS.items())[: 1 if self.socket else None]:
                _add(world, "plugin", filename=f"gz-sim-{system}-system", name=f"gz::sim::systems::{name}")
        _add(physics, "max_step_size", SUBSTEP)
        # As fast as possible with a proxy, in real time for a file opened by hand.
        _add(physics, "real_time_factor", 0.0 if self.socket else 1.0)
        _add(physics, "real_time_update_rate", 0.0 if self.socket else 1 / SUBSTEP)
        light = _add(world, "light", name="lamps", type="directional")
        _pose(light, 0, 0, 10)
        _add(light, "diffuse", (0.4, 0.4, 0.4, 1.0))
        _add(light, "direction", (0.1, 0.2, -1.0))
        _add(light, "cast_shadows", "false")
        look = _add(world, "scene")
        _add(look, "ambient", (0.75, 0.75, 0.75, 1.0))
        _add(look, "background", (0.7, 0.7, 0.7, 1.0))
        _add(look, "shadows", "false")
        self._floor()
        self._statics()
        for robot in self.scene.robots:
            world.append(robot_model(robot))
        body_of, offsets = joined(self.scene.carriers)
        for number in range(int(body_of.max(initial=-1)) + 1):
            self._carriers(number, np.flatnonzero(body_of == number).tolist(), offsets)
        if self.socket:
            world.append(self._plugin())
            if self.simulator == HARMONIC:
                # The plugin adds the models one after the other.
                for model in world.findall("model"):
                    world.remove(model)
                    self.plugin.append(model)
        if self.socket and self.pictures is not None:
            _add(self.plugin, "eyes")
            world.append(_eye())
        ET.indent(self.root)
        return '<?xml version="1.0"?>\n' + ET.tostring(self.root, encoding="unicode") + "\n"

    def _floor(self) -> None:
        link = self._static("floor")
        for tag in ("collision", "visual"):
            part = _add(link, tag, name="floor")
            plane = _add(_add(part, "geometry"), "plane")
            _add(plane, "normal", (0, 0, 1))
            _add(plane, "size", (40, 40))
            if tag == "collision":
                _surface(part, GRIP_FLOOR, STANDS)
            else:
                _light(part, FLOOR_LIGHT)

    def _static(self, name: str, pose: tuple[float, float, float] = (0, 0, 0), z: float = 0.0) -> ET.Element:
        model, link = _standing_model(name, pose, z)
        self.world.append(model)
        return link

    def _statics(self) -> None:
        arena = self.scene.arena
        height = arena.wall_height
        walls = self._static("wall")
        for name, (x, y, yaw), size in walls_of(arena):
            box = (*size, height)
            _part(walls, name, "box", box, (x, y, height / 2, yaw), GRIP_BODY, None)
            # The visual is a sheet's thickness behind the collision shape: sheets' faces are flush with that.
            back = [math.copysign(SHEET, at) if at and not yaw else 0.0 for at in (x, y)]
            _look(walls, name, "box", box, (x + back[0], y + back[1], height / 2, yaw), WALL_LIGHT)
        if self.pictures is not None:
            for sheet in wall_sheets(self.scene):
                _print(walls, sheet, self.pictures)
        for i, item in enumerate(self.scene.obstacles, start=1):
            link = self._static(f"obstacle{i}", item.pose, item.height / 2)
            if isinstance(item, BoxObstacle):
                _part(link, "box", "box", (*item.size, item.height), (0, 0, 0), GRIP_BODY, TRAY_LIGHT)
            else:
                _part(
                    link, "pillar", "cylinder", (item.radius, item.height), (0, 0, 0), GRIP_BODY, TRAY_LIGHT
                )

    def _carriers(self, number: int, rows: Sequence[int], offsets: FloatArray) -> None:
        """Add joined carriers as one model."""
        carriers = [self.scene.carriers[row] for row in rows]
        x, y, yaw = middle(carriers)
        model = _mobile(f"carriers{number}", (x, y, yaw))
        self.world.append(model)
        link = _add(model, "link", name="link")
        thick = self.scene.markers.sides.rise + self.scene.markers.sides.size / 2
        masses: list[_Mass] = []
        for row, placement in zip(rows, carriers, strict=True):
            masses += _carrier(link, placement, thick, *offsets[row].tolist())
            if self.pictures is not None:
                for sheet in carrier_sheets(placement, self.scene.markers, *offsets[row].tolist()):
                    _print(link, sheet, self.pictures)
        _weigh(link, masses)
        _add(_add(self.plugin, "carriers"), "model", f"carriers{number}")
        for row, placement in zip(rows, carriers, strict=True):
            self._thing(len(self.scene.robots) + row, f"carriers{number}", f"{placement.name}_")

    def _thing(self, number: int, model: str, collisions: str = "") -> None:
        """Assign a model's collisions whose names start with `collisions` to a thing, for the plugin."""
        thing = _add(self.plugin, "thing")
        for tag, text in (("model", model), ("collisions", collisions), ("number", str(number))):
            _add(thing, tag, text)

    def _plugin(self) -> ET.Element:
        """Return the plugin's element, which maps the proxy's numbers to names of models."""
        first = len(self.scene.robots) + len(self.scene.carriers)
        for row, robot in enumerate(self.scene.robots):
            _add(_add(self.plugin, "robot"), "model", robot.name)
            self._thing(row, robot.name, "body")
        self._thing(first, "wall")
        for i in range(1, len(self.scene.obstacles) + 1):
            self._thing(first + i, f"obstacle{i}")
        return self.plugin


def _eye() -> ET.Element:
    """Return a camera that never takes a picture: Gazebo 11 renders nothing in a world without a camera."""
    model, link = _standing_model("eye", z=-1.0)
    sensor = _add(link, "sensor", name="eye", type="camera")
    _add(sensor, "update_rate", 0.001)
    camera = _add(sensor, "camera")
    _add(camera, "horizontal_fov", 1.0)
    image = _add(camera, "image")
    for tag, text in (("width", "8"), ("height", "8"), ("format", "L8")):
        _add(image, tag, text)
    clip = _add(camera, "clip")
    _add(clip, "near", 0.1)
    _add(clip, "far", 1.0)
    return model


def _standing_model(
    name: str, pose: tuple[float, float, float] = (0, 0, 0), z: float = 0.0
) -> tuple[ET.Element, ET.Element]:
    """Return a static model and its link."""
    model = ET.Element("model", name=name)
    _add(model, "static", "true")
    _pose(model, *pose[:2], z, pose[2])
    return model, _add(model, "link", name="link")


def _surface(part: ET.Element, grip: float, touches: int) -> None:
    surface = _add(part, "surface")
    friction = _add(_add(surface, "friction"), "ode")
    _add(friction, "mu", grip)
    _add(friction, "mu2", grip)
    contact = _add(surface, "contact")
    _add(contact, "collide_bitmask", str(touches))
    contact = _add(contact, "ode")
    _add(contact, "kp", STIFF)
    _add(contact, "kd", DAMPED)
    _add(contact, "max_vel", 0.1)
    _add(contact, "min_depth", 0.0002)


def _light(part: ET.Element, light: float) -> None:
    material = _add(part, "material")
    for kind in ("ambient", "diffuse"):
        _add(material, kind, (light, light, light, 1.0))
    _add(material, "specular", (0, 0, 0, 1))


def _part(
    link: ET.Element,
    name: str,
    kind: str,
    size: Sequence[float],
    place: Sequence[float],
    grip: float,
    light: float | None,
    touches: int = SIDES,
) -> None:
    """Add a collision shape and, if `light` is given, a visual of that brightness."""
    part = _add(link, "collision", name=name)
    _pose(part, *place)
    _shape(part, kind, size)
    _surface(part, grip, touches)
    if light is not None:
        _look(link, name, kind, size, place, light)


def _look(
    link: ET.Element, name: str, kind: str, size: Sequence[float], place: Sequence[float], light: float
) -> None:
    """Add a visual of a brightness from 0 to 1."""
    part = _add(link, "visual", name=name)
    _pose(part, *place)
    _shape(part, kind, size)
    _light(part, light)


def _print(link: ET.Element, sheet: Sheet, pictures: Pictures) -> None:
    """Add a printed sheet."""
    part = _add(link, "visual", name=sheet.name)
    _add(part, "pose", sheet.middle)
    high, wide = sheet.size
    _shape(part, "box", (SHEET, wide, high))
    material = _add(part, "material")
    if pictures.scripts:
        script = _add(material, "script")
        _add(script, "uri", pictures.scripts)
        _add(script, "name", material_name(sheet.picture))
        # The colours below would turn lighting on again.
        _add(material, "lighting", "false")
    for kind in ("ambient", "diffuse"):
        _add(material, kind, (1, 1, 1, 1))
    _add(material, "specular", (0, 0, 0, 1))
    if pictures.folder:
        metal = _add(_add(material, "pbr"), "metal")
        _add(metal, "albedo_map", f"{pictures.folder}/{sheet.picture}.png")
        _add(metal, "metalness", 0.0)
        _add(metal, "roughness", 1.0)


def _mobile(name: str, pose: tuple[float, float, float]) -> ET.Element:
    """Return a model that moves, on the floor."""
    model = ET.Element("model", name=name)
    x, y, yaw = pose
    _pose(model, x, y, 0, yaw)
    # The engine holds sleeping bodies in place, even on a platform that drives away under them.
    _add(model, "allow_auto_disable", "false")
    return model


def robot_model(placement: RobotPlacement) -> ET.Element:
    """Return a robot's model: its body, and its lifting platform on a prismatic joint."""
    spec, body = placement.spec, placement.spec.body
    model = _mobile(placement.name, placement.pose)
    link = _add(model, "link", name="body")
    height = body.height - (PLATE + GAP if spec.lifter else 0.0) - GAP
    mass, turn = body.mass, yaw_inertia(spec)
    radius = 0.7 * (body.radius if isinstance(body, DiscBody) else min(body.length, body.width) / 2)
    plate_turn = 0.5 * PLATFORM_MASS * radius**2
    if spec.lifter:
        mass, turn = mass - PLATFORM_MASS, turn - plate_turn
    if placement.tracked is not None:
        mass, turn = LED_WEIGHT * mass, LED_WEIGHT * turn
        _add(link, "gravity", "false")
    _inertial(link, mass, (UPRIGHT * turn, UPRIGHT * turn, turn), (0, 0, height / 4))
    kind = "cylinder" if isinstance(body, DiscBody) else "box"
    size = (body.radius, height) if isinstance(body, DiscBody) else (body.length, body.width, height)
    _part(link, "body", kind, size, (0, 0, GAP + height / 2), GRIP_BODY, None)
    # It slides on the floor without friction: all horizontal forces come from its drives.
    for i, (x, y) in enumerate(_stand(body)):
        _part(link, f"floor{i}", "sphere", (BALL,), (x, y, BALL), 0.0, None, STANDS)
    seen = body.height - (PLATE if spec.lifter else 0.0)
    _look(link, "body", kind, (*size[:-1], seen), (0, 0, seen / 2), ROBOT_LIGHT)
    if spec.leds is not None and isinstance(body, DiscBody):
        for k in range(spec.leds.count):
            turn = 2 * math.pi * k / spec.leds.count
            place = (body.radius * math.cos(turn), body.radius * math.sin(turn), LIGHT_HEIGHT, turn)
            _look(link, f"light{k}", "box", LIGHT, place, DARK)
    if spec.lifter:
        platform = _add(model, "link", name="platform")
        _pose(platform, 0, 0, spec.lifter.lowered - PLATE / 2)
        _inertial(platform, PLATFORM_MASS, (UPRIGHT * plate_turn, UPRIGHT * plate_turn, plate_turn))
        _part(platform, "body_plate", "cylinder", (radius, PLATE), (0, 0, 0), GRIP_PLATFORM, None)
        # The visual is the plate's lower half only: the camera in the middle of its top must see out of it.
        _look(platform, "plate", "cylinder", (radius, PLATE / 2), (0, 0, -PLATE / 4), TRAY_LIGHT)
        joint = _add(model, "joint", name="lift", type="prismatic")
        _add(joint, "parent", "body")
        _add(joint, "child", "platform")
        axis = _add(joint, "axis")
        _add(axis, "xyz", (0, 0, 1))
        limit = _add(axis, "limit")
        _add(limit, "lower", -0.001)
        _add(limit, "upper", spec.lifter.raised - spec.lifter.lowered + 0.001)
    return model


def _stand(body: DiscBody | BoxBody) -> list[tuple[float, float]]:
    """Return the x, y of the four spheres on which a robot slides."""
    ahead, left = (
        (math.sqrt(0.5) * body.radius,) * 2
        if isinstance(body, DiscBody)
        else (body.length / 2, body.width / 2)
    )
    return [(SPREAD * i * ahead, SPREAD * k * left) for i, k in ((1, 1), (-1, 1), (-1, -1), (1, -1))]


def _carrier(link: ET.Element, placement: CarrierPlacement, thick: float, x: float, y: float) -> list[_Mass]:
    """Add a carrier's tray, legs and payload; return their masses, positions and sizes."""
    name, carrier = placement.name, placement.carrier
    tray = (carrier.length, carrier.width, thick)
    at = (x, y, carrier.clearance + thick / 2)
    _part(link, f"{name}_tray", "box", tray, at, GRIP_PLATFORM, None)
    # Its size includes the sheets on its sides and underside.
    inner = (tray[0] - 2 * SHEET, tray[1] - 2 * SHEET, thick)
    _look(link, f"{name}_tray", "box", inner, (x, y, at[2] + SHEET), TRAY_LIGHT)
    masses = [(carrier.mass * (1 - 4 * LEG_SHARE), at, tray)]
    for i, (ahead, left) in enumerate(legs_of(carrier).tolist()):
        place = (x + ahead, y + left, carrier.clearance / 2)
        _part(
            link,
            f"{name}_leg{i}",
            "cylinder",
            (carrier.leg_radius, carrier.clearance),
            place,
            GRIP_FLOOR,
            LEG_LIGHT,
        )
        at_floor = (*place[:2], carrier.leg_radius)
        _part(link, f"floor{i}_{name}", "sphere", (carrier.leg_radius,), at_floor, GRIP_FLOOR, None, STANDS)
        masses.append((carrier.mass * LEG_SHARE, place, (0.0, 0.0, carrier.clearance)))
    if placement.payload > 0:
        size = (carrier.length / 3, carrier.width / 3, PAYLOAD_HEIGHT)
        place = (x, y, carrier.clearance + thick + PAYLOAD_HEIGHT / 2)
        visual = _add(link, "visual", name=f"{name}_payload")
        _pose(visual, *place)
        _shape(visual, "box", size)
        _light(visual, LEG_LIGHT)
        masses.append((placement.payload, place, size))
    return masses


def _weigh(link: ET.Element, masses: Sequence[_Mass]) -> None:
    """Set a link's mass, centre of mass and inertia to those of a set of boxes."""
    total = sum(mass for mass, _, _ in masses)
    centre = [sum(mass * at[i] for mass, at, _ in masses) / total for i in range(3)]
    inertia = [0.0, 0.0, 0.0]
    for mass, at, size in masses:
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            inertia[i] += mass * (
                (size[j] ** 2 + size[k] ** 2) / 12 + (at[j] - centre[j]) ** 2 + (at[k] - centre[k]) ** 2
            )
    _inertial(link, total, inertia, centre)


def world_text(
    scene: Scene, socket: str = "", simulator: str = GAZEBO11, pictures: Pictures | None = None
) -> str:
    """Return the world file of a scene.

    Args:
        scene: robots, carriers, arena.
        socket: where the proxy listens; empty for a file to open by hand, in which nothing is driven.
        simulator: `GAZEBO11` or `HARMONIC`.
        pictures: locations of the markers' pictures; None to omit markers.
    """
    return _Builder(scene, socket, simulator, pictures).build()


def box_text(name: str, pose: tuple[float, float, float], size: tuple[float, float, float]) -> str:
    """Return an SDF file with a fixed box."""
    model, link = _standing_model(name, pose, size[2] / 2)
    _part(link, "box", "box", size, (0, 0, 0), GRIP_BODY, TRAY_LIGHT)
    return _alone(model)


def robot_text(placement: RobotPlacement) -> str:
    """Return an SDF file with a robot."""
    return _alone(robot_model(placement))


def _alone(model: ET.Element) -> str:
    root = ET.Element("sdf", version="1.7")
    root.append(model)
    return ET.tostring(root, encoding="unicode")


def things_of(scene: Scene) -> tuple[str, ...]:
    """Return the names of the things in the order of the plugin's numbers."""
    robots, carriers = ([item.name for item in items] for items in (scene.robots, scene.carriers))
    return (*robots, *carriers, "wall", *(f"obstacle{i}" for i in range(1, len(scene.obstacles) + 1)))
