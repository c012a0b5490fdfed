"""`SimWorld`: robots with all their devices on top of any physics; what both worlds of this package share.

A `Physics` moves the bodies. Here are the robots' parts (`bodies`, `rings`, `fiducials`, `parts`), the things
that an experiment may do to a run, and the truth. A robot's parts are made when somebody asks for its device,
so that a crowd that nobody asks for costs nothing but its bodies.

All chance comes from one seed: each part of each robot has a generator of its own, so that what one robot
does to its noise changes no other's.

Without noise nothing errs: wheels, inertial sensors, rings, cameras, signal strengths, measured distances.
Radios lose packets as the scenario has it, and images are as late as they are on average.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.chance import PartStream, within
from swarmbed_core.device import Device
from swarmbed_core.errors import ConfigError
from swarmbed_core.feed import Feed
from swarmbed_core.geometry import between, compose
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.lifter import LifterModel
from swarmbed_core.memory import BATTERY_PERIOD
from swarmbed_core.power import BatteryModel
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.scene import legs_of
from swarmbed_core.spec import BoxBody
from swarmbed_core.world import CarrierTruth, Contact

from swarmbed_sim.bodies import Bodies, Compass, Imu, Motors
from swarmbed_sim.errors import SimError
from swarmbed_sim.fiducials import Cameras, Eyes, latency_of
from swarmbed_sim.footprint import TOUCH, Footprint, box_print, disc_print, overlap
from swarmbed_sim.mujoco_stage import MujocoStage
from swarmbed_sim.parts import (
    CARRIER_NUMBERS,
    Air,
    Beat,
    Furniture,
    Late,
    Leds,
    Life,
    Lifter,
    Power,
    ZoneSense,
    draw_k,
    power_numbers,
    watts_k,
)
from swarmbed_sim.pixels import Images, PixelEyes, Studio
from swarmbed_sim.rings import Ranges, Rings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from swarmbed_core.camera import CameraCalibration
    from swarmbed_core.device import CornerReading
    from swarmbed_core.feed import Reader
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import RobotPlacement, Scene
    from swarmbed_core.spec import Body, Radio, RangeRing, RobotSpec
    from swarmbed_core.spec import Compass as CompassSpec

    from swarmbed_sim.parts import Radio as RadioPort
    from swarmbed_sim.physics import Physics
    from swarmbed_sim.stage import Stage

Pose = tuple[float, float, float]

FARTHEST = 1000.0
"""Metres from the origin within which a hand can put things."""

# Which of the streams of a crowd's senses' number is the studio's; no sense has it.
_STUDIO = 1000

# What a `SimWorld` has a row of for each robot.
_ROWS = ("v_body", "driven", "platforms", "_power_numbers", "_metered", "_energy", "_watts")
MOST_STRETCH = 10.0
"""How much farther than its wheels say a robot can get."""


class SimWorld:
    """A `TaskWorld` over a `Physics`.

    Attributes:
        scene: what the world was made from, with the robots that it has now.
        physics: its bodies.
        v_body: what the drives try to do, rows vx, vy, omega. The rows of robots that have devices are
            written at every step, from their wheels; the others are whoever's who drives a crowd.
        driven: which drives hold and push, likewise.
        platforms: set-points of the lifting platforms.
    """

    def __init__(
        self,
        scene: Scene,
        physics: Physics,
        seed: np.random.SeedSequence,
        stage_of: Callable[[Scene], Stage] = MujocoStage,
    ) -> None:
        """Furnish a physics.

        Args:
            scene: robots, carriers, arena.
            physics: that was made from the same scene.
            seed: of all noise.
            stage_of: makes what draws images.
        """
        self._stage_of = stage_of
        self.scene = scene
        self.physics = physics
        self.timestep = physics.timestep
        self.time = 0.0
        self._ticks = 0
        self._seed = seed
        self._noise = scene.scenario.noise
        robots = scene.robots
        self._names = tuple(robot.name for robot in robots)
        self._rows = {name: row for row, name in enumerate(self._names)}
        # The number after the robots' is of the radios' generators, the one after that of a crowd's senses.
        self._radio_number = len(robots)
        self._numbers = dict(self._rows)
        self._next_number = len(robots) + 2
        self._carrier_rows = {item.name: row for row, item in enumerate(scene.carriers)}
        self._no_carriers = CarrierTruth((), (), np.empty((0, 3)), np.empty(0), np.empty(0, dtype=np.int64))
        self.v_body = np.zeros((len(robots), 3))
        self.driven = np.ones(len(robots), dtype=np.bool_)
        self.platforms = np.array([_lowered(robot.spec) for robot in robots])
        sides = scene.markers.sides
        # The tray is as thick as the codes on its sides need.
        thickness = sides.rise + sides.size / 2
        self._loads = [item.carrier.mass + item.payload for item in scene.carriers]
        self._furniture = Furniture(
            np.array([_size_of(robot.spec.body) for robot in robots]),
            np.array([robot.localised for robot in robots], dtype=np.bool_),
            np.array(
                [
                    (c.length, c.width, c.clearance, thickness, c.leg_radius, item.marker)
                    for item in scene.carriers
                    for c in [item.carrier]
                ],
                dtype=np.float64,
            ).reshape(-1, CARRIER_NUMBERS),
        )
        kinds: dict[int, RobotSpec] = {id(robot.spec): robot.spec for robot in robots}
        wheels = max((Kinematics.of(spec).count for spec in kinds.values()), default=0)
        # More than one only if a robot comes that has more wheels than all before.
        self._bodies = [Bodies(self.timestep, wheels, noise=self._noise)]
        self._lives: dict[str, Life] = {}
        self._devices: dict[str, Device] = {}
        self._motors: dict[str, Motors] = {}
        self._compasses: dict[float, Beat] = {}
        self._rings: dict[RangeRing, Rings] = {}
        self._eyes: dict[tuple[float, bool], Eyes | PixelEyes] = {}
        self._studio: Studio | None = None
        self._airs: dict[Radio, Air] = {}
        self._radios: dict[Radio, int] = {}
        for spec in kinds.values():
            self._count_radios(spec)
        self._loss = scene.scenario.radio.loss
        self._lifters: list[tuple[int, Lifter]] = []
        self._powers: list[tuple[int, Power]] = []
        powers = {key: power_numbers(spec) for key, spec in kinds.items()}
        self._power_numbers = np.array([powers[id(robot.spec)] for robot in robots])
        self._metered = np.zeros(len(robots), dtype=np.bool_)
        self._energy = np.zeros(len(robots))
        self._watts = np.zeros(len(robots))
        self._power_beat = Beat(1.0 / BATTERY_PERIOD)
        self._power_beat.due(0.0)
        self._contacts: Feed[Contact] = Feed()
        self._dead: set[str] = set()
        self._standing = [Footprint(segment.reshape(2, 2)) for segment in scene.arena.segments()]
        self._boxes = {
            f"obstacle{i}": box_print(item.pose, *item.size)
            if isinstance(item, BoxObstacle)
            else disc_print(*item.pose[:2], item.radius)
            for i, item in enumerate(scene.obstacles, start=1)
        }
        self._added: dict[str, BoxObstacle] = {}

    @property
    def names(self) -> Sequence[str]:
        """Return the robots' names, in the order of `truth()`."""
        return self._names

    def step(self) -> None:
        """Let one time step pass."""
        self._ticks += 1
        now = self.time = self._ticks * self.timestep
        physics, furniture = self.physics, self._furniture
        for bodies in self._bodies:
            if bodies.count:
                bodies.command(self.v_body, self.driven)
        for row, lifter in self._lifters:
            if lifter.moving:
                self.platforms[row] = lifter.step(now, self._load_of(row))
        physics.advance(self.v_body, self.driven, self.platforms)
        for bodies in self._bodies:
            if bodies.count:
                bodies.feel(physics, furniture.on)
        for beat in self._compasses.values():
            beat.due(now)
        for rings in self._rings.values():
            if rings.beat.due(now):
                rings.sweep(physics, furniture)
        for eyes in self._eyes.values():
            if eyes.beat.due(now):
                eyes.expose(now, physics, furniture)
        if self._power_beat.due(now):
            self._draw_power()
        for air in self._airs.values():
            air.step(now, physics)
        touched = physics.contacts()
        if touched and self._contacts:
            self._contacts.put(Contact(now, *touch) for touch in touched)

    def _load_of(self, row: int) -> float:
        """Return the kg of what a robot has lifted."""
        return sum(
            load for load, by in zip(self._loads, self.physics.carried_by.tolist(), strict=True) if by == row
        )

    def _draw_power(self) -> None:
        """Drain the batteries for the time since the last call."""
        physics, on = self.physics, self._furniture.on
        watts = self._watts
        watts_k(self._power_numbers, physics.twists, physics.pushes, on, self.driven, watts)
        draw_k(watts, BATTERY_PERIOD / 3600.0, self._metered, self._energy)
        for row, power in self._powers:
            self._energy[row] += power.draw(float(watts[row]), BATTERY_PERIOD)

    # What is true

    def truth(self) -> FloatArray:
        """Return a row for each robot: x, y, yaw in `map`, vx, vy along its body, omega."""
        truth = np.empty((len(self._names), 6))
        truth[:, :3], truth[:, 3:] = self.physics.poses, self.physics.twists
        return truth

    def carriers(self) -> CarrierTruth:
        """Return where the carriers are."""
        physics = self.physics
        if not self._carrier_rows:
            return self._no_carriers
        return CarrierTruth(
            tuple(self._carrier_rows),
            tuple(item.marker for item in self.scene.carriers),
            physics.carrier_poses.copy(),
            physics.carrier_lifts.copy(),
            physics.carried_by.copy(),
        )

    def watch_contacts(self) -> Reader[Contact]:
        """Return a reader of the contacts that begin from now on; there may be any number of readers."""
        return self._contacts.reader()

    def energy_wh(self) -> FloatArray:
        """Return what each robot has drawn from its battery, in Wh."""
        return self._energy.copy()

    def messages(self) -> Mapping[str, int]:
        """Return how many packets with a payload were `sent`, `heard` and `lost`."""
        models = [air.model for air in self._airs.values()]
        return {
            "sent": sum(model.sent for model in models),
            "heard": sum(model.heard for model in models),
            "lost": sum(model.lost for model in models),
        }

    # What an experiment does

    def teleport(self, name: str, pose: Pose) -> None:
        """Put a robot or a carrier somewhere else, as a hand would: a robot's senses do not notice the way.

        A carrier may be put over robots that fit between its legs, and such robots below carriers.

        Raises:
            SimError: there is none of this name, or the pose is none, or something else is there.
        """
        what = f"teleport {name} to {pose}"
        _check_pose(what, pose)
        carrier = self._carrier_rows.get(name)
        if carrier is not None:
            _check_free(what, self._at_carrier(carrier, pose))
            self.physics.move_carrier(carrier, pose)
            return
        row = self._row(name)
        size = self._furniture.sizes[row].tolist()
        _check_free(what, self._at_robot(size, self.physics.heights.item(row), pose, without=row))
        self.physics.move_robot(row, pose)
        if name in self._motors:
            motors = self._motors[name]
            motors.bodies.forget(motors.slot)

    def add_robot(self, placement: RobotPlacement) -> None:
        """Put one more robot on the floor, where there is room, standing; it is the last of `names`.

        What it is made of has noise of its own: also if a robot of this name was here before.

        Raises:
            SimError: its name is taken, its pose is none, something else is there, the physics takes no such
                body, or the world drives a crowd.
        """
        name, spec, pose = placement.name, placement.spec, placement.pose
        what = f"add robot {name} at {pose}"
        self._check_no_crowd(what)
        if name in {*self._names, *self._carrier_rows, "wall", *self._boxes}:
            message = f"{what}: there is something called {name} already; another name is right"
            raise SimError(message)
        _check_pose(what, pose)
        size, lowered = _size_of(spec.body), _lowered(spec)
        _check_free(what, self._at_robot(size, lowered, pose))
        power = power_numbers(spec)
        self.physics.add_robot(placement)
        row = len(self._names)
        self._set_robots((*self.scene.robots, placement))
        self._numbers[name] = self._next_number
        self._next_number += 1
        for array in _ROWS:
            setattr(self, array, np.insert(getattr(self, array), row, 0, axis=0))
        self.driven[row] = True
        self.platforms[row] = lowered
        self._power_numbers[row] = power
        self._furniture.add(size, localised=placement.localised)
        self._count_radios(spec)
        for radio in spec.radios:
            if radio in self._airs:
                self._airs[radio].join(name, row)

    def remove_robot(self, name: str) -> None:
        """Take a robot out of the world, body and all: what it has lifted falls.

        Its parts return nothing new from now on, and do nothing.

        Raises:
            SimError: there is none of this name, or the world drives a crowd.
        """
        row = self._row(name)
        self._check_no_crowd(f"remove robot {name}")
        self.kill(name)
        self.physics.remove_robot(row)
        self._set_robots((*self.scene.robots[:row], *self.scene.robots[row + 1 :]))
        for array in _ROWS:
            setattr(self, array, np.delete(getattr(self, array), row, axis=0))
        self._furniture.remove(row)
        for parts in self._bodies:
            parts.remove(row)
        for group in (self._rings, self._eyes, self._airs):
            for some in group.values():
                some.remove(row)
        self._lifters = [(of - (of > row), lifter) for of, lifter in self._lifters if of != row]
        self._powers = [(of - (of > row), power) for of, power in self._powers if of != row]
        for life in self._lives.values():
            life.row = -1 if life.row == row else life.row - (life.row > row)
        for named in (self._numbers, self._lives, self._devices, self._motors):
            named.pop(name, None)
        self._dead.remove(name)

    def _set_robots(self, robots: tuple[RobotPlacement, ...]) -> None:
        """Take over which robots there are."""
        self.scene = replace(self.scene, robots=robots)
        self._show()
        self._names = tuple(robot.name for robot in robots)
        self._rows = {name: row for row, name in enumerate(self._names)}

    def _show(self) -> None:
        """Let images show what is there now."""
        if self._studio is not None:
            self._studio.show(self.standing())

    def standing(self) -> Scene:
        """Return the scene with the robots and obstacles of now."""
        return replace(self.scene, obstacles=(*self.scene.obstacles, *self._added.values()))

    def _check_no_crowd(self, what: str) -> None:
        if self.scene.crowd:
            message = f"{what}: a crowd's robots neither come nor go; a scene without a crowd is right"
            raise SimError(message)

    def kill(self, name: str) -> None:
        """Let a robot die: no drive, no lifter, no sensor, no radio from now on. Its body stays.

        Raises:
            SimError: there is none of this name.
        """
        row = self._row(name)
        if name in self._dead:
            return
        self._dead.add(name)
        self._furniture.on[row] = False
        self.v_body[row] = 0.0
        self.driven[row] = False
        life = self._lives.get(name)
        if life is not None:
            life.alive = False
            self._switch(life)

    def _switch(self, life: Life) -> None:
        """Stop the parts of a robot that is dead or without power, or let them go on."""
        if life.row < 0:
            return
        device = self._devices[life.name]
        on = life.alive and life.supplied
        if life.on and not on:
            life.off_since = self.time
        life.on = self._furniture.on[life.row] = on
        self._motors[life.name].update()
        for air in self._airs.values():
            air.switch(life.row, on=on)
        if isinstance(device.leds, Leds) and not on:
            device.leds.go_out()

    def kill_sensor(self, name: str, ring: str, sensor: int) -> None:
        """Let one distance sensor return nothing from now on.

        Raises:
            SimError: there is no such robot, ring or sensor.
        """
        self._row(name)
        rings = self.device(name).ranges
        part = rings.get(ring)
        if not isinstance(part, Ranges):
            message = f"{name} has no ring '{ring}': there are {', '.join(rings) or 'none'}"
            raise SimError(message)
        count = next(item.count for item in self.device(name).spec.ranges if item.name == ring)
        if not 0 <= sensor < count:
            message = f"sensor {sensor} of ring '{ring}' of {name}: 0 to {count - 1} are right"
            raise SimError(message)
        part.kill(sensor)

    def set_slip(self, name: str, share: float) -> None:
        """Let a share of a robot's wheels' way slip away from now on, over what its spec says.

        Raises:
            SimError: there is no such robot, or it could not drive like that.
        """
        self._row(name)
        if not 0 <= share < 1:
            message = f"slip {share} of {name}: 0 is none, and below 1 is right"
            raise SimError(message)
        self.device(name)
        motors = self._motors[name]
        motors.bodies.lost[motors.slot] = share

    def set_drift(self, name: str, stretch: float, veer: float) -> None:
        """Let a robot go `stretch` times as far as its wheels say, and turn `veer` rad a metre, from now on.

        Raises:
            SimError: there is no such robot, or it could not drive like that.
        """
        self._row(name)
        check_drift(name, stretch, veer)
        drive = self.device(name).spec.drive
        motors = self._motors[name]
        bodies, slot = motors.bodies, motors.slot
        if veer and drive.kind != "differential":
            message = f"drift of {name}: only robots with two wheels veer"
            raise SimError(message)
        bodies.drift[slot] = stretch
        if veer:
            wheels = bodies.matrix[slot, :2]
            bodies.drift[slot, :2] *= 1.0 + veer * wheels[:, 2] / wheels[:, 0]
            if (bodies.drift[slot] <= 0).any():
                bodies.drift[slot] = 1.0
                message = f"veer {veer} rad/m of {name}: a wheel would roll backwards"
                raise SimError(message)

    def set_radio_loss(self, share: float) -> None:
        """Lose this share of all receptions from now on.

        Raises:
            SimError: it is no share.
        """
        if not 0 <= share <= 1:
            message = f"radio loss {share}: a share within 0..1 is right"
            raise SimError(message)
        self._loss = share
        for air in self._airs.values():
            air.model.loss = share

    def add_obstacle(self, name: str, pose: Pose, size: tuple[float, float]) -> None:
        """Put a box on the floor; `pose` is of its middle.

        Raises:
            SimError: there is one of this name, or it has no place or size, or would stand on a robot or a
                carrier.
        """
        if not (_within_reach(pose) and all(0 < side <= FARTHEST for side in size)):
            message = (
                f"obstacle {name}: pose {pose}, size {size}: "
                f"finite numbers up to {FARTHEST}, and sizes above 0, are right"
            )
            raise SimError(message)
        box = box_print(pose, *size)
        there = self._first_robot(box) or _first(box, self._tray_prints())
        if there is not None:
            message = f"obstacle {name}: pose {pose}, size {size}: {there} is there; a free place is right"
            raise SimError(message)
        self.physics.add_box(name, pose, size)
        self._boxes[name] = box
        self._added[name] = BoxObstacle(shape="box", size=size, pose=pose)
        self._show()

    def remove_obstacle(self, name: str) -> None:
        """Take a box away again.

        Raises:
            SimError: there is none of this name.
        """
        self.physics.remove_box(name)
        del self._boxes[name], self._added[name]
        self._show()

    def close(self) -> None:
        """Give back what the physics and the cameras hold."""
        self.physics.close()
        if self._studio is not None:
            self._studio.close()

    # What is where

    def _first_robot(self, thing: Footprint, *, without: int = -1, above: float = 0.0) -> str | None:
        """Return a robot that a thing would overlap and that is higher than `above`, platform and all."""
        sizes, poses = self._furniture.sizes, self.physics.poses
        near = np.hypot(*(poses[:, :2] - thing.middle).T) < thing.reach + sizes[:, 0]
        rows = np.flatnonzero(near & (np.maximum(sizes[:, 1], self.physics.heights) > above)).tolist()
        prints = (
            (self._names[row], _robot_print(sizes[row].tolist(), poses[row].tolist()))
            for row in rows
            if row != without
        )
        return _first(thing, prints)

    def _tray_prints(self, without: Sequence[int] = ()) -> Iterable[tuple[str, Footprint]]:
        """Return what the carriers cover."""
        for row, (name, pose) in enumerate(
            zip(self._carrier_rows, self.physics.carrier_poses.tolist(), strict=True)
        ):
            if row not in without:
                carrier = self.scene.carriers[row].carrier
                yield name, box_print(pose, carrier.length, carrier.width)

    def _leg_prints(self, row: int, pose: Sequence[float]) -> Iterable[Footprint]:
        """Return what the legs of a carrier at a pose cover."""
        carrier = self.scene.carriers[row].carrier
        for leg in legs_of(carrier).tolist():
            x, y, _ = compose(pose, (*leg, 0.0)).tolist()
            yield disc_print(x, y, carrier.leg_radius)

    def _fixed_prints(self, thing: Footprint) -> str | None:
        """Return what stands fast that a thing would overlap, if anything."""
        size = self.scene.arena.size
        x, y = thing.middle
        if size is not None and (abs(x) > size[0] / 2 or abs(y) > size[1] / 2):
            return "the outside of the walls"
        return _first(thing, [*(("wall", wall) for wall in self._standing), *self._boxes.items()])

    def _at_robot(
        self, size: Sequence[float], platform: float, pose: Sequence[float], *, without: int = -1
    ) -> str | None:
        """Return what is in the way of a robot of a size and a platform's height at a pose, if anything."""
        thing, physics = _robot_print(size, pose), self.physics
        there = self._fixed_prints(thing) or self._first_robot(thing, without=without)
        top = max(size[1], platform)
        for i, (name, tray) in enumerate(self._tray_prints()):
            carrier, lift = self.scene.carriers[i].carrier, physics.carrier_lifts[i]
            legs = self._leg_prints(i, physics.carrier_poses[i].tolist())
            parts = [tray] if top > lift + carrier.clearance + TOUCH else legs
            there = there or _first(thing, ((name, part) for part in parts))
        return there

    def _at_carrier(self, row: int, pose: Sequence[float]) -> str | None:
        """Return what is in the way of a carrier, with those joined to it, at a pose, if anything."""
        body = self.scene.carriers[row].body
        joined = [i for i, item in enumerate(self.scene.carriers) if item.body == body]
        poses = self.physics.carrier_poses
        for i in joined:
            carrier = self.scene.carriers[i].carrier
            x, y, yaw = compose(pose, between(poses[row], poses[i])).tolist()
            tray = box_print((x, y, yaw), carrier.length, carrier.width)
            there = self._fixed_prints(tray) or _first(tray, self._tray_prints(joined))
            there = there or self._first_robot(tray, above=carrier.clearance + TOUCH)
            for leg in self._leg_prints(i, (x, y, yaw)):
                there = there or self._first_robot(leg)
            if there is not None:
                return there
        return None

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            known = ", ".join([*self._names, *self._carrier_rows][:20]) or "nothing"
            message = f"no robot '{name}' in this world: there are {known}"
            raise SimError(message)
        return row

    # Devices

    def device(self, name: str) -> Device:
        """Return the parts of the robot called `name`; they are made when first asked for.

        Raises:
            ConfigError: there is none.
        """
        device = self._devices.get(name)
        if device is None:
            row = self._rows.get(name)
            if row is None:
                known = ", ".join(self._names[:20]) or "none"
                message = f"no robot '{name}' in this world: there are {known}"
                raise ConfigError(message)
            device = self._make(name, row)
        return device

    def _rng(self, number: int, part: int) -> np.random.Generator:
        """Return the generator of one part of one robot, the same whoever else has devices."""
        return np.random.default_rng(within(self._seed, number, part))

    def _make(self, name: str, row: int) -> Device:
        """Make one robot's parts."""
        spec, physics, zones = self.scene.robots[row].spec, self.physics, self.scene.zones
        life = self._lives[name] = Life(name, row)
        number = self._numbers[name]
        rngs = tuple(
            self._rng(number, part) for part in (PartStream.WHEELS, PartStream.IMU, PartStream.COMPASS)
        )
        wheels = Kinematics.of(spec).count
        bodies = next((some for some in self._bodies if some.wheels >= wheels), None)
        if bodies is None:
            bodies = Bodies(self.timestep, wheels, noise=self._noise)
            self._bodies.append(bodies)
        slot = bodies.add(life, spec, physics, rngs)
        motors = self._motors[name] = Motors(self, life, bodies, slot, wheels)
        lifter = power = None
        if spec.lifter is not None:
            lifter = Lifter(self, life, physics, LifterModel(spec.lifter))
            self._lifters.append((row, lifter))
        if spec.battery is not None:
            power = Power(self, life, BatteryModel(spec.battery), self._switch)
            self._powers.append((row, power))
            self._metered[row] = True
        cameras, images, lenses = self._cameras(life, spec, number)
        device = self._devices[name] = Device(
            name=name,
            spec=spec,
            clock=self,
            motors=motors,
            lifter=lifter,
            imu=None if spec.imu is None else Imu(self, life, motors),
            compass=None if spec.compass is None else self._compass(spec.compass, life, motors),
            zone=ZoneSense(life, physics, zones),
            ranges={
                ring.name: self._ring(ring).add(life, self._rng(number, PartStream.RINGS + k))
                for k, ring in enumerate(spec.ranges)
            },
            cameras=cameras,
            images=images,
            calibrations=lenses,
            power=power,
            radios={radio.name: self._radio(radio, life) for radio in spec.radios},
            leds=None if spec.leds is None else Leds(life, spec.leds, physics),
        )
        if name in self._dead:
            life.alive = False
            self._switch(life)
        return device

    def _compass(self, compass: CompassSpec, life: Life, motors: Motors) -> Compass:
        return Compass(life, motors, self._compasses.setdefault(compass.rate, Beat(compass.rate)))

    def _ring(self, ring: RangeRing) -> Rings:
        rings = self._rings.get(ring)
        if rings is None:
            rings = self._rings[ring] = Rings(ring, noise=self._noise)
        return rings

    def _cameras(
        self, life: Life, spec: RobotSpec, number: int
    ) -> tuple[Late[CornerReading] | None, Images | None, dict[str, CameraCalibration]]:
        """Make a robot's cameras; return their markers, their images, and the lenses that are not ideal."""
        if not spec.cameras:
            return None, None, {}
        latency = latency_of(spec.camera_latency, spec.cameras[0].rate, len(spec.cameras))
        rng, localised = self._rng(number, PartStream.CAMERAS), self.scene.robots[life.row].localised
        part: Late[CornerReading] = Late(self, life, latency)
        if not localised:
            sights = self._rng(number, PartStream.WATCHED_MARKERS)
            part = Cameras(self, life, latency, self._furniture, self.scene.arena, sights)
        watched: list[Life] = []

        def prepare() -> None:
            if not watched:
                for rate in rates:
                    self._pixel_eyes(rate).add(life, spec, images, {})
                watched.append(life)

        images = Images(self, life, latency, self._rng(number, PartStream.WATCHED_IMAGES), prepare)
        rates = tuple(dict.fromkeys(camera.rate for camera in spec.cameras))
        if self.scene.scenario.vision == "pixels":
            lenses = self._open_studio().grind(spec, rng)
            for rate in rates:
                self._pixel_eyes(rate).add(life, spec, images, lenses, part, rng, localised=localised)
            watched.append(life)
            return part, images, self._open_studio().calibrate(lenses, rng)
        for rate in rates:
            eyes = self._eyes.get((rate, False))
            if not isinstance(eyes, Eyes):
                eyes = self._eyes[rate, False] = Eyes(rate, self.scene, noise=self._noise)
            eyes.add(life, spec, part, rng, localised=localised)
        return part, images, {}

    def _open_studio(self) -> Studio:
        """Return what renders images."""
        if self._studio is None:
            seed = within(self._seed, self._radio_number + 1, _STUDIO)
            self._studio = Studio(self.standing(), seed, self._stage_of, noise=self._noise)
        return self._studio

    def _pixel_eyes(self, rate: float) -> PixelEyes:
        """Return the cameras of a rate whose images are rendered."""
        eyes = self._eyes.get((rate, True))
        if not isinstance(eyes, PixelEyes):
            eyes = PixelEyes(rate, self.scene, self._open_studio(), noise=self._noise)
            corners = self._eyes.get((rate, False))
            if corners is not None:
                # The same light: images are taken when corners are.
                eyes.beat = deepcopy(corners.beat)
            self._eyes[rate, True] = eyes
        return eyes

    def _count_radios(self, spec: RobotSpec) -> None:
        """Give each kind of radio that there was not before a number, for its generator."""
        for radio in spec.radios:
            self._radios.setdefault(radio, len(self._radios))

    def _radio(self, radio: Radio, life: Life) -> RadioPort:
        """Return one robot's access to the medium of a kind of radio."""
        air = self._airs.get(radio)
        if air is None:
            members = [row for row, robot in enumerate(self.scene.robots) if radio in robot.spec.radios]
            names = [self._names[row] for row in members]
            rng = self._rng(self._radio_number, self._radios[radio])
            exact = {"rssi_sigma": 0.0, "range_sigma": None if radio.range_sigma is None else 0.0}
            medium = radio if self._noise else radio.model_copy(update=exact)
            air = self._airs[radio] = Air(medium, rng, names, members, self._loss)
        return air.add(self, life)


def check_drift(name: str, stretch: float, veer: float) -> None:
    """Accept a drift that a robot could have.

    Raises:
        SimError: it could not.
    """
    if not (0 < stretch <= MOST_STRETCH and math.isfinite(veer)):
        message = (
            f"drift {stretch}, {veer} of {name}: above 0 and up to {MOST_STRETCH:g}, and any veer, are right"
        )
        raise SimError(message)


def _size_of(body: Body) -> tuple[float, float, float, float]:
    """Return radius and height of a body, and the length and the width that it has, else 0."""
    sides = (body.length, body.width) if isinstance(body, BoxBody) else (0.0, 0.0)
    return body.bounding_radius, body.height, *sides


def _lowered(spec: RobotSpec) -> float:
    """Return the height of a robot's lowered platform, 0 if it has none."""
    return 0.0 if spec.lifter is None else spec.lifter.lowered


def _robot_print(size: Sequence[float], pose: Sequence[float]) -> Footprint:
    """Return what a robot of a size at a pose covers."""
    radius, _, length, width = size
    x, y, yaw = pose
    return box_print((x, y, yaw), length, width) if length else disc_print(x, y, radius)


def _check_pose(what: str, pose: Sequence[float]) -> None:
    """Refuse what is no pose."""
    if len(pose) != 3 or not _within_reach(pose):
        message = f"{what}: three finite numbers x, y, yaw, up to {FARTHEST}, are right"
        raise SimError(message)


def _check_free(what: str, there: str | None) -> None:
    """Refuse a place at which something is."""
    if there is not None:
        message = f"{what}: {there} is there; a free place is right"
        raise SimError(message)


def _within_reach(pose: Sequence[float]) -> bool:
    """Return whether all numbers of a pose are finite and such that a hand gets there."""
    return all(abs(value) <= FARTHEST for value in pose)


def _first(thing: Footprint, others: Iterable[tuple[str, Footprint]]) -> str | None:
    """Return the name of the first of others that a thing overlaps, if any."""
    return next((name for name, other in others if overlap(thing, other)), None)
