"""The bodies of a scene as a MuJoCo model (MJCF), every dimension from the scene and the robots' files.

Robots rotate about z only; legs, walls and obstacles are vertical. The cheapest shape with the right contact
points is therefore as good as the true one: a disc is a sphere whose centre is at the height where all
upright things touch (`touch_height`), a leg is a capsule whose lower end is also the foot. What a robot lifts
rests on four small spheres on its platform.

The model has no actuators for the drives: `swarmbed_sim.mujoco_world` applies their forces. It also moves led
bodies, which here are only very heavy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import mujoco
import numpy as np
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.scene import legs_of
from swarmbed_core.spec import DiscBody

from swarmbed_sim.mjcf import add
from swarmbed_sim.solid import (
    GRIP_BODY,
    GRIP_FLOOR,
    GRIP_PLATFORM,
    LEG_SHARE,
    PAYLOAD_HEIGHT,
    PLATFORM_MASS,
    StandingBox,
    joined,
    lift_force,
    middle,
    walls_of,
    yaw_inertia,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import CarrierPlacement, RobotPlacement, Scene

    from swarmbed_core import spec
    from swarmbed_sim.physics import BoolArray, IntArray

SUBSTEP: Final = 0.005
"""MuJoCo's time step in seconds; contacts are as stiff as it allows."""
CONTACT_TIME: Final = 0.0105
"""Time constant of contacts in seconds; the solver needs at least two steps."""
SKIN: Final = 0.001
"""Contact margin around a robot's body in metres.

A contact is detected up to one step late: bodies that approach at 0.5 m/s overlap by 2.5 mm without margins,
by 0.4 mm with one on each."""
LIFTER_STIFFNESS: Final = 1e5
"""N/m: a platform sags by 0.2 mm under 2 kg, as on a screw drive."""
LIFTER_DAMPING: Final = 2e3
"""Ns/m: a platform follows its set-point within 20 ms."""
LIFTER_INERTIA: Final = 10.0
"""Reflected inertia of the lifter's motor in kg: assumed; it keeps the stiff servo stable."""
PAD: Final = 0.01
"""Radius in metres of the spheres on a platform."""
PADS: Final = 0.7
"""Distance of these spheres from the platform's centre, as a share of the robot body's radius."""
LED_INERTIA: Final = 1e4
"""Inertia of a led body's joints in kg and kg m²: so heavy that what it pushes gives way."""
FRICTION: Final = (0.005, 0.0001)
"""MuJoCo's default torsional and rolling friction, which no contact here uses."""

# Contact types and affinities: two geoms collide if the type of one is in the affinity of the other.
_FLOOR, _BODY, _LEG, _TRAY, _PAD, _STATIC, _TALL = (1 << i for i in range(7))
_TOUCHES = {
    _FLOOR: _LEG,
    _BODY: _BODY | _LEG | _STATIC,
    _LEG: _FLOOR | _BODY | _LEG | _STATIC,
    _TRAY: _TRAY | _PAD | _STATIC | _TALL,
    _PAD: _TRAY,
    _STATIC: _BODY | _LEG | _TRAY,
    _TALL: _TRAY,
}


@dataclass(frozen=True, slots=True, eq=False)
class SceneModel:
    """A compiled model with the addresses of the scene's things in it.

    Things are numbered: first the robots, then the carriers, then walls and obstacles. A robot's x, y, yaw
    and platform height are consecutive, at the same address in `qpos` and in `qvel`.

    Attributes:
        model: the MuJoCo model.
        names: of the things; the floor is not one of them.
        robots: the address of each robot's x in `qpos` and `qvel`.
        lifters: the row in `ctrl` of each robot's lifter, -1 if it has none.
        bodies: the addresses in `qpos` and `qvel` of each body of carriers.
        body_of: the body of each carrier.
        offsets: each carrier's x, y in its body's frame.
        thing_of: the thing of each geom, -1 for the floor.
        pads: which geoms are pads of platforms.
    """

    model: mujoco.MjModel
    names: tuple[str, ...]
    robots: IntArray
    lifters: IntArray
    bodies: IntArray
    body_of: IntArray
    offsets: FloatArray
    thing_of: IntArray
    pads: BoolArray

    def state(self, without: int | None = None) -> dict[str, IntArray]:
        """Return the indices of the persistent state in MuJoCo's arrays, optionally without one robot's."""
        dofs: list[int] = []
        controls: list[int] = []
        if without is not None:
            at, lifter = int(self.robots[without]), int(self.lifters[without])
            controls = [lifter] if lifter >= 0 else []
            dofs = list(range(at, at + 3 + len(controls)))
        velocities = np.delete(np.arange(self.model.nv), dofs)
        return {
            "qpos": np.delete(np.arange(self.model.nq), dofs),
            "qvel": velocities,
            "qacc_warmstart": velocities,
            "ctrl": np.delete(np.arange(self.model.nu), controls),
        }


def compile_scene(scene: Scene, boxes: Sequence[StandingBox] = ()) -> SceneModel:
    """Build the model of a scene, with further boxes on its floor."""
    return _Builder(scene, boxes).build()


def _upright(yaw: float) -> tuple[float, float, float, float]:
    """Return the quaternion of a rotation about z."""
    return math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)


class _Builder:
    """Writes the MJCF and records the names it used."""

    def __init__(self, scene: Scene, boxes: Sequence[StandingBox]) -> None:
        self.scene = scene
        self.boxes = boxes
        self.root = ET.Element("mujoco", model="swarmbed")
        self.world = ET.Element("worldbody")
        self.actuators = ET.Element("actuator")
        self.names: list[str] = []
        self.geoms: list[tuple[str, int, bool]] = []
        clearances = [placement.carrier.clearance for placement in scene.carriers]
        # Well within the straight part of legs, on the floor as well as lifted.
        self.touch_height = 0.6 * min(clearances, default=1 / 6)
        self.clearance = min(clearances, default=math.inf)
        # The codes on a tray's sides extend from its underside to its top.
        self.tray = scene.markers.sides.rise + scene.markers.sides.size / 2

    def build(self) -> SceneModel:
        """Write and compile the model."""
        add(self.root, "compiler", angle="radian", autolimits="true")
        option = add(
            self.root, "option", timestep=SUBSTEP, integrator="implicitfast", cone="elliptic", impratio=10
        )
        # A non-finite state must be reported, not silently reset to the initial one.
        add(option, "flag", sleep="enable", autoreset="disable")
        add(add(self.root, "default"), "geom", solref=(CONTACT_TIME, 1))
        self.root.extend([self.world, self.actuators])

        # Robots come first, so that their addresses in qpos and qvel are equal.
        for placement in self.scene.robots:
            self._robot(placement)
        body_of, offsets = self._carriers()
        self._geom(self.world, "floor", -1, _FLOOR, type="plane", size=(0, 0, 1))
        self._statics()
        model = mujoco.MjModel.from_xml_string(ET.tostring(self.root, encoding="unicode"))
        return self._index(model, body_of, offsets)

    def _geom(
        self,
        parent: ET.Element,
        name: str,
        thing: int,
        kind: int,
        **attributes: str | float | Sequence[float],
    ) -> None:
        """Add a shape with the contacts of its kind; its mass is 0 unless given."""
        self.geoms.append((name, thing, kind == _PAD))
        touches = {"contype": str(kind), "conaffinity": str(_TOUCHES[kind])}
        add(parent, "geom", name=name, **{"mass": "0", **touches, **attributes})

    def _robot(self, placement: RobotPlacement) -> None:
        """Add a robot at the origin; its pose is set in qpos."""
        spec, name, thing = placement.spec, placement.name, len(self.names)
        self.names.append(name)
        body, middle_of_touch = spec.body, (0.0, 0.0, self.touch_height)
        led = placement.tracked is not None
        # MuJoCo does not notice that a sleeping body is moved from outside.
        base = add(self.world, "body", name=name, **({"sleep": "never"} if led else {}))
        heavy = {"armature": LED_INERTIA} if led else {}
        add(base, "joint", name=f"{name} x", type="slide", axis="1 0 0", **heavy)
        add(base, "joint", name=f"{name} y", type="slide", axis="0 1 0", **heavy)
        add(base, "joint", name=f"{name} yaw", type="hinge", axis="0 0 1", **heavy)
        mass = body.mass - (PLATFORM_MASS if spec.lifter else 0.0)
        # It rotates about z only: the other two moments of inertia have no effect.
        add(base, "inertial", pos=middle_of_touch, mass=mass, diaginertia=[yaw_inertia(spec)] * 3)

        sides: tuple[float, ...]
        size: tuple[float, ...]
        if isinstance(body, DiscBody):
            shape, upright, sides = "sphere", "cylinder", (body.radius,)
            size = sides
        else:
            shape, upright, sides = "box", "box", (body.length / 2, body.width / 2)
            size = (*sides, self.touch_height / 2)
        self._body(base, f"{name} body", thing, _BODY, shape, size, self.touch_height)
        if body.height >= self.clearance:
            # It does not fit under a tray.
            over = (body.height - self.clearance) / 2
            self._body(base, f"{name} top", thing, _TALL, upright, (*sides, over), self.clearance + over)
        if spec.lifter:
            self._lifter(base, placement, spec.lifter, thing)

    def _body(
        self,
        base: ET.Element,
        name: str,
        thing: int,
        kind: int,
        shape: str,
        size: Sequence[float],
        height: float,
    ) -> None:
        """Add a colliding part of a robot's body; `height` is that of the part's centre."""
        friction = (GRIP_BODY, *FRICTION)
        place = (0.0, 0.0, height)
        # Priority makes this friction override that of the other geom.
        self._geom(
            base,
            name,
            thing,
            kind,
            type=shape,
            size=size,
            pos=place,
            friction=friction,
            priority="1",
            margin=SKIN,
        )

    def _lifter(self, base: ET.Element, placement: RobotPlacement, lifter: spec.Lifter, thing: int) -> None:
        """Add a robot's platform; its joint's position is its height above `lowered`."""
        name, body = placement.name, placement.spec.body
        platform = add(base, "body", name=f"{name} platform", pos=(0, 0, lifter.lowered))
        lift = f"{name} lift"
        add(platform, "joint", name=lift, type="slide", axis="0 0 1", armature=LIFTER_INERTIA)
        # The base already has the whole inertia about z.
        add(platform, "inertial", pos="0 0 0", mass=PLATFORM_MASS, diaginertia="1e-6 1e-6 1e-6")
        reach = PADS * (body.radius if isinstance(body, DiscBody) else min(body.length, body.width) / 2)
        for i in range(4):
            angle = (0.5 + i) * math.pi / 2
            self._geom(
                platform,
                f"{name} pad{i}",
                thing,
                _PAD,
                type="sphere",
                size=PAD,
                pos=(reach * math.cos(angle), reach * math.sin(angle), -PAD),
                friction=(GRIP_PLATFORM, *FRICTION),
            )
        force = lift_force(lifter)
        add(
            self.actuators,
            "position",
            name=f"{name} lifter",
            joint=lift,
            kp=LIFTER_STIFFNESS,
            kv=LIFTER_DAMPING,
            forcerange=(-force, force),
        )

    def _carriers(self) -> tuple[IntArray, FloatArray]:
        """Add the carriers, joined ones as one body; return each carrier's body and its offset in it."""
        carriers = self.scene.carriers
        body_of, offsets = joined(carriers)
        first = len(self.names)
        self.names.extend(placement.name for placement in carriers)
        for number in range(int(body_of.max(initial=-1)) + 1):
            rows = np.flatnonzero(body_of == number).tolist()
            x, y, yaw = middle([carriers[row] for row in rows])
            body = add(self.world, "body", name=f"carriers{number}", pos=(x, y, 0), quat=_upright(yaw))
            add(body, "freejoint", name=f"carriers{number}")
            for row in rows:
                self._carrier(body, carriers[row], first + row, *offsets[row].tolist())
        return body_of, offsets

    def _carrier(self, body: ET.Element, placement: CarrierPlacement, thing: int, x: float, y: float) -> None:
        """Add a carrier's tray, legs and payload at their place in its body."""
        name, carrier = placement.name, placement.carrier
        tray = (carrier.length / 2, carrier.width / 2, self.tray / 2)
        mass = carrier.mass * (1 - 4 * LEG_SHARE)
        middle_of_tray = (x, y, carrier.clearance + self.tray / 2)
        self._geom(body, f"{name} tray", thing, _TRAY, type="box", size=tray, pos=middle_of_tray, mass=mass)
        for i, (ahead, left) in enumerate(legs_of(carrier).tolist()):
            foot = (x + ahead, y + left, carrier.leg_radius)
            top = (x + ahead, y + left, carrier.clearance)
            self._geom(
                body,
                f"{name} leg{i}",
                thing,
                _LEG,
                type="capsule",
                size=carrier.leg_radius,
                fromto=(*foot, *top),
                friction=(GRIP_FLOOR, *FRICTION),
                mass=carrier.mass * LEG_SHARE,
            )
        if placement.payload > 0:
            add(
                body,
                "geom",
                contype="0",
                conaffinity="0",
                type="box",
                size=(carrier.length / 3, carrier.width / 3, PAYLOAD_HEIGHT / 2),
                pos=(x, y, carrier.clearance + self.tray + PAYLOAD_HEIGHT / 2),
                mass=placement.payload,
            )

    def _statics(self) -> None:
        """Add walls, obstacles and the boxes that were added."""
        arena = self.scene.arena
        wall, height = len(self.names), arena.wall_height
        self.names.append("wall")
        for name, pose, size in walls_of(arena):
            self._box(name, wall, pose, size, height)
        for i, item in enumerate(self.scene.obstacles, start=1):
            thing, name = len(self.names), f"obstacle{i}"
            self.names.append(name)
            if isinstance(item, BoxObstacle):
                self._box(name, thing, item.pose, item.size, item.height)
            else:
                half, (x, y, _) = self._top(item.height) / 2, item.pose
                size, place = (item.radius, half), (x, y, half)
                self._geom(self.world, name, thing, _STATIC, type="cylinder", size=size, pos=place)
        for box in self.boxes:
            self.names.append(box.name)
            self._box(f"box {box.name}", len(self.names) - 1, box.pose, box.size, height)

    def _top(self, height: float) -> float:
        """Return a height that is at least that at which robots make contact."""
        return max(height, 1.2 * self.touch_height)

    def _box(
        self,
        name: str,
        thing: int,
        pose: tuple[float, float, float],
        size: tuple[float, float],
        height: float,
    ) -> None:
        """Add a fixed box."""
        half, (x, y, yaw) = self._top(height) / 2, pose
        halves, place = (size[0] / 2, size[1] / 2, half), (x, y, half)
        quaternion = _upright(yaw)
        self._geom(self.world, name, thing, _STATIC, type="box", size=halves, pos=place, quat=quaternion)

    def _index(self, model: mujoco.MjModel, body_of: IntArray, offsets: FloatArray) -> SceneModel:
        """Look up the addresses of everything in the compiled model."""
        robots = [model.joint(f"{placement.name} x").qposadr[0] for placement in self.scene.robots]
        lifters = [
            model.actuator(f"{placement.name} lifter").id if placement.spec.lifter else -1
            for placement in self.scene.robots
        ]
        joints = [model.joint(f"carriers{i}") for i in range(int(body_of.max(initial=-1)) + 1)]
        bodies = [(joint.qposadr[0], joint.dofadr[0]) for joint in joints]
        thing_of = np.full(model.ngeom, -1, dtype=np.int64)
        pads = np.zeros(model.ngeom, dtype=np.bool_)
        for name, thing, pad in self.geoms:
            geom = model.geom(name).id
            thing_of[geom], pads[geom] = thing, pad
        return SceneModel(
            model,
            tuple(self.names),
            np.array(robots, dtype=np.int64),
            np.array(lifters, dtype=np.int64),
            np.array(bodies, dtype=np.int64).reshape(-1, 2),
            body_of,
            offsets,
            thing_of,
            pads,
        )
