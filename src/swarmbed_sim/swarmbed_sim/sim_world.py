"""`SimWorld`: robots with all their devices on top of any `Physics`, shared by all simulated worlds.

A `Physics` moves the bodies. `SimWorld` adds the robots' parts (`bodies`, `rings`, `fiducials`, `parts`),
the interventions of experiments, and ground truth. A robot's parts are created when its device is first
requested, so that a crowd without devices costs no more than its bodies.

All randomness comes from one seed. Each part of each robot has its own generator, so that one robot's noise
does not depend on another's.

With noise off, wheels, inertial sensors, rings, cameras, signal strengths and measured distances are exact.
Radios still lose packets as the scenario says, and images have their mean latency.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from swarmbed_core.camera import latency_of
from swarmbed_core.chance import PartStream, within
from swarmbed_core.device import Device, Faults
from swarmbed_core.discharge import MODELS
from swarmbed_core.errors import ConfigError
from swarmbed_core.feed import Feed
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.led import TOLD, Led
from swarmbed_core.lifter import LifterModel
from swarmbed_core.power import BATTERY_PERIOD, BatteryModel
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.world import CarrierTruth, Contact

from swarmbed_sim.bodies import Bodies, Compasses, Imu, Motors
from swarmbed_sim.errors import SimError
from swarmbed_sim.fiducials import Cameras, Eyes
from swarmbed_sim.footprint import box_print
from swarmbed_sim.ground import Ground
from swarmbed_sim.lamps import LightSense
from swarmbed_sim.mujoco_stage import MujocoStage
from swarmbed_sim.occupancy import FARTHEST, Occupancy, check_free, check_pose, size_of, within_reach
from swarmbed_sim.parts import (
    CARRIER_NUMBERS,
    Air,
    Beat,
    Inventory,
    Late,
    Leds,
    Life,
    Lifter,
    MeasuredPower,
    Power,
    ZoneSense,
    draw_k,
    power_numbers,
    watts_k,
)
from swarmbed_sim.pixels import Images, PixelEyes, Studio
from swarmbed_sim.rings import Ranges, Rings
from swarmbed_sim.sensors import Positions
from swarmbed_sim.sight import Sight
from swarmbed_sim.spots import Glow, Spots

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Any

    from swarmbed_core.camera import CameraCalibration
    from swarmbed_core.device import CornerReading
    from swarmbed_core.feed import Reader
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.led import LedState, Tellings
    from swarmbed_core.scenario import Obstacle
    from swarmbed_core.scene import RobotPlacement, Scene
    from swarmbed_core.spec import Camera, Radio, RangeRing, RobotSpec
    from swarmbed_core.spec import Leds as LedsSpec

    from swarmbed_sim.parts import Radio as RadioPort
    from swarmbed_sim.physics import Physics
    from swarmbed_sim.sensors import PartGroup, Sensor, Sensors
    from swarmbed_sim.stage import Stage

Pose = tuple[float, float, float]
G = TypeVar("G", bound="PartGroup")

# The studio's random stream among those of a crowd's senses, beyond any that a sense uses.
_STUDIO = 1000

# Arrays of `SimWorld` with one row per robot.
_ROWS = ("v_body", "driven", "platforms", "_power_numbers", "_metered", "_energy", "_watts", "_told")
MOST_STRETCH = 10.0
"""Largest `stretch` of `set_drift`."""


class SimWorld:
    """A `TaskWorld` over a `Physics`.

    Attributes:
        scene: the scene the world was made from, with its current robots.
        physics: its bodies.
        v_body: the drives' target velocities, rows vx, vy, omega. The rows of robots with devices are
            overwritten from their wheels at every step; a crowd's driver writes the others.
        driven: which drives are on; written like `v_body`.
        platforms: set-points of the lifting platforms in metres above the floor.
    """

    def __init__(
        self,
        scene: Scene,
        physics: Physics,
        seed: np.random.SeedSequence,
        stage_of: Callable[[Scene], Stage] = MujocoStage,
    ) -> None:
        """Create the world.

        Args:
            scene: robots, carriers, arena.
            physics: made from the same scene.
            seed: of all noise.
            stage_of: creates the `Stage` that renders images, when one is needed.
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
        # The random streams after the robots' are the radios' and then those of a crowd's senses.
        self._radio_number = len(robots)
        self._numbers = dict(self._rows)
        self._next_number = len(robots) + 2
        self._carrier_rows = {item.name: row for row, item in enumerate(scene.carriers)}
        self._carrier_names = tuple(self._carrier_rows)
        self._carrier_markers = tuple(item.marker for item in scene.carriers)
        self._no_carriers = CarrierTruth((), (), np.empty((0, 3)), np.empty(0), np.empty(0, dtype=np.int64))
        self.v_body = np.zeros((len(robots), 3))
        self.driven = np.ones(len(robots), dtype=np.bool_)
        self.platforms = np.array([_lowered(robot.spec) for robot in robots])
        sides = scene.markers.sides
        # The tray is thick enough for the codes on its sides.
        thickness = sides.rise + sides.size / 2
        self._loads = [item.carrier.mass + item.payload for item in scene.carriers]
        self._inventory = Inventory(
            np.array([size_of(robot.spec.body) for robot in robots]),
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
        # A second one is added only for a robot with more wheels than any before.
        self._bodies = [Bodies(self.timestep, wheels, noise=self._noise)]
        self._lives: dict[str, Life] = {}
        self._devices: dict[str, Device] = {}
        self._motors: dict[str, Motors] = {}
        self._groups: list[PartGroup] = []
        self._group_of: dict[Hashable, Any] = {}
        self._sight = Sight()
        self._glow: Glow | None = None
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
        self._led = Led(self.timestep)
        # Where led bodies go in a step; see `Physics.advance`.
        self._told = np.zeros((len(robots), TOLD))
        for robot in robots:
            if robot.tracked is not None:
                self._led.add(robot.name, robot.spec, robot.pose, robot.tracked, 0.0)
        self._dead: set[str] = set()
        self._occupancy = Occupancy(scene, physics, self._inventory, lambda: self._names)
        self._added: dict[str, BoxObstacle] = {}

    @property
    def names(self) -> Sequence[str]:
        """Return the robots' names, in the order of `truth()`."""
        return self._names

    def step(self) -> None:
        """Advance by one time step."""
        self._ticks += 1
        now = self.time = self._ticks * self.timestep
        physics, inventory = self.physics, self._inventory
        for bodies in self._bodies:
            if bodies.count:
                bodies.command(now, self.v_body, self.driven)
        for row, lifter in self._lifters:
            if lifter.moving:
                self.platforms[row] = lifter.step(now, self._load_of(row))
        if self._led.names:
            physics.advance(self.v_body, self.driven, self.platforms, self._lead(now))
        else:
            physics.advance(self.v_body, self.driven, self.platforms)
        for bodies in self._bodies:
            if bodies.count:
                bodies.feel(physics, inventory.on)
        for group in self._groups:
            if group.beat.due(now):
                group.measure(now, physics, inventory)
        if self._power_beat.due(now):
            self._draw_power()
        for air in self._airs.values():
            air.step(now, physics)
        touched = physics.contacts()
        if touched and self._contacts:
            self._contacts.put(Contact(now, *touch) for touch in touched)

    def _lead(self, now: float) -> FloatArray:
        """Return where the led bodies go in the step that ends at `now`; see `Physics.advance`."""
        led, physics, told = self._led, self.physics, self._told
        rows = physics.led
        for k in led.follow(now, rows, physics.poses, physics.segments, physics.pillars, told):
            row, pose = int(rows[k]), led.aim(k)
            size = self._inventory.sizes[row].tolist()
            free = self._occupancy.at_robot(size, physics.heights.item(row), pose, without=row) is None
            if free:
                physics.move_robot(row, pose)
                told[row, :3] = pose
                told[row, 3:6] = told[row, 6:] = led.velocity(k)
                self._forget(self._names[row], told[row, 3:6])
            led.appeared(k, now, there=free)
        return told

    def _forget(self, name: str, v_body: Sequence[float] | FloatArray = (0.0, 0.0, 0.0)) -> None:
        """Keep encoders and inertial sensors of a robot from measuring that it was moved to this velocity."""
        if name in self._motors:
            motors = self._motors[name]
            motors.bodies.forget(motors.slot, v_body)

    def _load_of(self, row: int) -> float:
        """Return the mass of what a robot has lifted, in kg."""
        return sum(
            load for load, by in zip(self._loads, self.physics.carried_by.tolist(), strict=True) if by == row
        )

    def _draw_power(self) -> None:
        """Drain the batteries for the time since the last call."""
        physics, on = self.physics, self._inventory.on
        watts = self._watts
        watts_k(self._power_numbers, physics.twists, physics.pushes, on, self.driven, watts)
        draw_k(watts, BATTERY_PERIOD / 3600.0, self._metered, self._energy)
        for row, power in self._powers:
            self._energy[row] += power.draw(float(watts[row]), BATTERY_PERIOD)

    # Ground truth

    def truth(self) -> FloatArray:
        """Return a row per robot: x, y, yaw in `map`, vx, vy in the robot's frame, omega."""
        truth = np.empty((len(self._names), 6))
        truth[:, :3], truth[:, 3:] = self.physics.poses, self.physics.twists
        return truth

    def carriers(self) -> CarrierTruth:
        """Return the carriers' poses, lifts and lifters."""
        physics = self.physics
        if not self._carrier_rows:
            return self._no_carriers
        return CarrierTruth(
            self._carrier_names,
            self._carrier_markers,
            physics.carrier_poses.copy(),
            physics.carrier_lifts.copy(),
            physics.carried_by.copy(),
        )

    def watch_contacts(self) -> Reader[Contact]:
        """Return a reader of the contacts that begin from now on; any number of readers is possible."""
        return self._contacts.reader()

    def energy_wh(self) -> FloatArray:
        """Return the energy that each robot has drawn from its battery, in Wh."""
        return self._energy.copy()

    def messages(self) -> Mapping[str, int]:
        """Return the numbers of packets with a payload that were `sent`, `heard` and `lost`."""
        models = [air.model for air in self._airs.values()]
        return {
            "sent": sum(model.sent for model in models),
            "heard": sum(model.heard for model in models),
            "lost": sum(model.lost for model in models),
        }

    # Led bodies

    def tell(self, tellings: Tellings) -> None:
        """Take tellings of where led robots are, which the next steps follow; invalid ones are counted."""
        self._led.tell(tellings, self.time, self._rows)

    def led(self) -> LedState:
        """Return the state of the led bodies, and what was rejected."""
        return self._led.state(self.time)

    # Interventions of experiments

    def teleport(self, name: str, pose: Pose) -> None:
        """Move a robot or a carrier to a pose; encoders and inertial sensors do not measure the jump.

        A carrier may be placed over robots that fit between its legs, and such robots under carriers.

        Raises:
            SimError: unknown name, invalid pose, the place is not free, or the robot is led from outside.
        """
        what = f"teleport {name} to {pose}"
        check_pose(what, pose)
        if name in self._led.names:
            message = f"{what}: it is tracked, and stands where its tracker says; choose a simulated robot"
            raise SimError(message)
        carrier = self._carrier_rows.get(name)
        if carrier is not None:
            check_free(what, self._occupancy.at_carrier(carrier, pose))
            self.physics.move_carrier(carrier, pose)
            return
        row = self._row(name)
        size = self._inventory.sizes[row].tolist()
        check_free(what, self._occupancy.at_robot(size, self.physics.heights.item(row), pose, without=row))
        self.physics.move_robot(row, pose)
        self._forget(name)

    def add_robot(self, placement: RobotPlacement) -> None:
        """Add a robot at rest in a free place; it becomes the last of `names`.

        Its parts get new random streams, even if a robot of this name was removed before.

        Raises:
            SimError: the name is taken, the pose is invalid, the place is not free, the physics rejects the
                body, or the robots are a crowd and this one is not tracked.
        """
        name, spec, pose = placement.name, placement.spec, placement.pose
        what = f"add robot {name} at {pose}"
        self._check_no_crowd(what, placement)
        if name in {*self._names, *self._carrier_rows, "wall", *self._occupancy.boxes}:
            message = f"{what}: the name '{name}' is taken; choose another name"
            raise SimError(message)
        check_pose(what, pose)
        size, lowered = size_of(spec.body), _lowered(spec)
        check_free(what, self._occupancy.at_robot(size, lowered, pose))
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
        if placement.tracked is not None:
            self._led.add(name, spec, pose, placement.tracked, self.time)
        self._inventory.add(size, localised=placement.localised)
        if self._glow is not None:
            self._glow.add(spec.leds)
        self._count_radios(spec)
        for radio in spec.radios:
            if radio in self._airs:
                self._airs[radio].join(name, row)

    def remove_robot(self, name: str) -> None:
        """Remove a robot and its body from the world; a carrier that it has lifted falls.

        Its parts stay valid, but return no new readings and have no effect.

        Raises:
            SimError: unknown name, or the robot is one of a crowd.
        """
        row = self._row(name)
        self._check_no_crowd(f"remove robot {name}", self.scene.robots[row])
        self.kill(name)
        self.physics.remove_robot(row)
        self._set_robots((*self.scene.robots[:row], *self.scene.robots[row + 1 :]))
        for array in _ROWS:
            setattr(self, array, np.delete(getattr(self, array), row, axis=0))
        self._led.remove(name)
        self._inventory.remove(row)
        for parts in self._bodies:
            parts.remove(row)
        for group in self._groups:
            group.remove(row)
        for air in self._airs.values():
            air.remove(row)
        if self._glow is not None:
            self._glow.remove(row)
        self._lifters = [(of - (of > row), lifter) for of, lifter in self._lifters if of != row]
        self._powers = [(of - (of > row), power) for of, power in self._powers if of != row]
        for life in self._lives.values():
            life.row = -1 if life.row == row else life.row - (life.row > row)
        for named in (self._numbers, self._lives, self._devices, self._motors):
            named.pop(name, None)
        self._dead.remove(name)

    def _set_robots(self, robots: tuple[RobotPlacement, ...]) -> None:
        """Replace the scene's robots, and update names, rows and images."""
        self.scene = replace(self.scene, robots=robots)
        self._show()
        self._names = tuple(robot.name for robot in robots)
        self._rows = {name: row for row, name in enumerate(self._names)}

    def _show(self) -> None:
        """Update the scene that images show."""
        if self._studio is not None:
            self._studio.show(self._seen())

    def _seen(self) -> Scene:
        """Return the scene with the boxes that were added since."""
        return replace(self.scene, obstacles=self.obstacles)

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """Return the current obstacles: the scene's and the boxes that were added."""
        return (*self.scene.obstacles, *self._added.values())

    def _check_no_crowd(self, what: str, robot: RobotPlacement) -> None:
        if self.scene.crowd and robot.tracked is None:
            message = (
                f"{what}: robots cannot be added to or removed from a crowd, only tracked ones beside it; "
                "use a scene without a crowd"
            )
            raise SimError(message)

    def kill(self, name: str) -> None:
        """Disable a robot's drives, lifter, sensors and radios for good; its body stays.

        Raises:
            SimError: unknown name.
        """
        row = self._row(name)
        if name in self._dead:
            return
        self._dead.add(name)
        self._inventory.on[row] = False
        self.v_body[row] = 0.0
        self.driven[row] = False
        life = self._lives.get(name)
        if life is not None:
            life.alive = False
            self._devices[name].faults.dead = True
            self._switch(life)

    def _switch(self, life: Life) -> None:
        """Stop a robot's parts if it is dead or without power; otherwise resume them."""
        if life.row < 0:
            return
        device = self._devices[life.name]
        on = life.alive and life.supplied
        if life.on and not on:
            life.off_since = self.time
        life.on = self._inventory.on[life.row] = on
        self._motors[life.name].update()
        for air in self._airs.values():
            air.switch(life.row, on=on)
        if isinstance(device.leds, Leds) and not on:
            device.leds.go_out()

    def kill_sensor(self, name: str, ring: str, sensor: int) -> None:
        """Disable one distance sensor for good: it measures inf.

        Raises:
            SimError: unknown robot, ring or sensor.
        """
        self._row(name)
        rings = self.device(name).ranges
        part = rings.get(ring)
        if not isinstance(part, Ranges):
            message = f"{name} has no ring '{ring}'; available: {', '.join(rings) or 'none'}"
            raise SimError(message)
        count = next(item.count for item in self.device(name).spec.ranges if item.name == ring)
        if not 0 <= sensor < count:
            message = f"{name}: ring '{ring}' has no sensor {sensor}; valid: 0 to {count - 1}"
            raise SimError(message)
        part.kill(sensor)
        self.device(name).faults.sensors.setdefault(ring, set()).add(sensor)

    def set_slip(self, name: str, share: float) -> None:
        """Set the share of the wheels' motion that is lost, from 0 to below 1, on top of the spec's slip.

        Raises:
            SimError: unknown robot, or a share out of range.
        """
        self._row(name)
        if not 0 <= share < 1:
            message = f"{name}: slip {share} is out of range; valid: 0 (none) to below 1"
            raise SimError(message)
        self.device(name).faults.slip = share
        motors = self._motors[name]
        motors.bodies.lost[motors.slot] = share

    def set_drift(self, name: str, stretch: float, veer: float) -> None:
        """Make a robot move `stretch` times as far as its wheels roll and turn `veer` rad per metre.

        Raises:
            SimError: unknown robot, values out of range, or a veer that its drive cannot have.
        """
        self._row(name)
        check_drift(name, stretch, veer)
        drive = self.device(name).spec.drive
        motors = self._motors[name]
        bodies, slot = motors.bodies, motors.slot
        if veer and drive.kind != "differential":
            message = f"{name}: drift with veer {veer} needs a differential drive; set veer to 0"
            raise SimError(message)
        drift = np.full(bodies.wheels, stretch)
        if veer:
            wheels = bodies.matrix[slot, :2]
            drift[:2] *= 1.0 + veer * wheels[:, 2] / wheels[:, 0]
            if (drift <= 0).any():
                message = f"{name}: with veer {veer} rad/m a wheel would roll backwards; use a smaller veer"
                raise SimError(message)
        bodies.drift[slot] = drift
        # For motors that are not the world's.
        self.device(name).faults.drift = dict(enumerate(drift[: motors.count].tolist()))

    def set_radio_loss(self, share: float) -> None:
        """Set the share of receptions that are lost, from 0 to 1.

        Raises:
            SimError: a share out of range.
        """
        if not 0 <= share <= 1:
            message = f"radio loss {share} is out of range; valid: 0 to 1"
            raise SimError(message)
        self._loss = share
        for air in self._airs.values():
            air.model.loss = share
        for device in self._devices.values():
            device.faults.radio_loss = share

    def add_obstacle(self, name: str, pose: Pose, size: tuple[float, float]) -> None:
        """Add a box; `pose` is that of its centre.

        Raises:
            SimError: the name is taken, pose or size is invalid, or the place is not free.
        """
        if not (within_reach(pose) and all(0 < side <= FARTHEST for side in size)):
            message = (
                f"obstacle {name}: pose {pose}, size {size}: "
                f"all numbers must be within ±{FARTHEST:g}, sizes above 0"
            )
            raise SimError(message)
        box = box_print(pose, *size)
        there = self._occupancy.at_box(box)
        if there is not None:
            message = f"obstacle {name}: pose {pose}, size {size}: {there} is there; choose a free place"
            raise SimError(message)
        self.physics.add_box(name, pose, size)
        self._occupancy.boxes[name] = box
        self._added[name] = BoxObstacle(shape="box", size=size, pose=pose)
        self._show()

    def remove_obstacle(self, name: str) -> None:
        """Remove a box that `add_obstacle` added.

        Raises:
            SimError: unknown name.
        """
        self.physics.remove_box(name)
        del self._occupancy.boxes[name], self._added[name]
        self._show()

    def close(self) -> None:
        """Release the resources of the physics and the renderer."""
        self.physics.close()
        if self._studio is not None:
            self._studio.close()

    def _row(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            known = ", ".join([*self._names, *self._carrier_rows][:20]) or "nothing"
            message = f"no robot '{name}' in this world: there are {known}"
            raise SimError(message)
        return row

    # Devices

    def device(self, name: str) -> Device:
        """Return the parts of a robot; the first call creates them.

        Raises:
            ConfigError: unknown name.
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
        """Return the generator of one part of one robot, independent of which other robots have devices."""
        return np.random.default_rng(within(self._seed, number, part))

    def _make(self, name: str, row: int) -> Device:
        """Create one robot's parts."""
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
            model = self.scene.robots[row].battery
            parts = self, life, BatteryModel(spec.battery), self._switch
            power = Power(*parts) if model is None else MeasuredPower(*parts, MODELS[model], motors)
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
            compass=None if spec.compass is None else self._compasses(spec.compass.rate).add(life, motors),
            zone=ZoneSense(life, physics, zones),
            ranges={
                ring.name: self._rings(ring).add(life, self._rng(number, PartStream.RINGS + k))
                for k, ring in enumerate(spec.ranges)
            },
            cameras=cameras,
            images=images,
            calibrations=lenses,
            power=power,
            radios={radio.name: self._radio(radio, life) for radio in spec.radios},
            leds=None if spec.leds is None else Leds(life, spec.leds, self._shine),
            faults=Faults(dead=name in self._dead, radio_loss=self._loss or 0.0),
            **self._plain_parts(life, spec, number),
        )
        if name in self._dead:
            life.alive = False
            self._switch(life)
        return device

    def _group(self, key: Hashable, make: Callable[[], G]) -> G:
        """Return the group of a key; the first call makes it."""
        group: G | None = self._group_of.get(key)
        if group is None:
            group = self._group_of[key] = make()
            self._groups.append(group)
        return group

    def _compasses(self, rate: float) -> Compasses:
        return self._group(("compass", rate), lambda: Compasses(rate))

    def _rings(self, ring: RangeRing) -> Rings:
        return self._group(ring, lambda: Rings(ring, noise=self._noise))

    def _plain_parts(self, life: Life, spec: RobotSpec, number: int) -> dict[str, Any]:
        """Create the sensors whose readings programs get as they are, by their fields in `Device`."""
        scenario, noise, sight = self.scene.scenario, self._noise, self._sight
        positioning, ground, light = spec.positioning, spec.ground, spec.light

        def join(sensors: Sensors, stream: int) -> Sensor:
            return sensors.add(life, self._rng(number, stream))

        parts: dict[str, Any] = {}
        if positioning is not None:
            group: Sensors = self._group(positioning, lambda: Positions(positioning, noise=noise))
            parts["position"] = join(group, PartStream.POSITION)
        if ground is not None:
            floor = self.scene.arena.floor
            group = self._group(ground, lambda: Ground(ground, floor, noise=noise))
            parts["ground"] = join(group, PartStream.GROUND)
        if light is not None:
            ring = next(ring for ring in spec.ranges if ring.name == light.ring)
            lamps = scenario.lights
            group = self._group((light, ring), lambda: LightSense(light, ring, lamps, sight, noise=noise))
            parts["light"] = join(group, PartStream.LIGHT)
        parts["spots"] = {
            camera.name: join(self._spots(camera), PartStream.SPOTS + k)
            for k, camera in enumerate(spec.cameras)
            if camera.range_max is not None and camera.pitch == 0.0
        }
        return parts

    def _spots(self, camera: Camera) -> Spots:
        """Return the detectors of coloured lights of a camera; the first call lets the LEDs be seen."""
        if self._glow is None:
            self._glow = Glow([robot.spec.leds for robot in self.scene.robots])
            for name, device in self._devices.items():
                if isinstance(device.leds, Leds) and device.spec.leds is not None:
                    self._glow.show(self._rows[name], device.spec.leds, device.leds.bar.values)
        glow, sight, lamps = self._glow, self._sight, self.scene.scenario.lights
        return self._group(("spots", camera), lambda: Spots(camera, lamps, glow, sight, noise=self._noise))

    def _shine(self, row: int, leds: LedsSpec, values: Sequence[int]) -> None:
        """Show a robot's LEDs to the engine's display and to cameras."""
        self.physics.light(row, values)
        if self._glow is not None:
            self._glow.show(row, leds, values)

    def _cameras(
        self, life: Life, spec: RobotSpec, number: int
    ) -> tuple[Late[CornerReading] | None, Images | None, dict[str, CameraCalibration]]:
        """Create a robot's cameras; return their markers, images, and calibrations of non-ideal lenses."""
        if not spec.cameras:
            return None, None, {}
        latency = latency_of(spec.camera_latency, spec.cameras[0].rate, len(spec.cameras))
        rng, localised = self._rng(number, PartStream.CAMERAS), self.scene.robots[life.row].localised
        part: Late[CornerReading] = Late(self, life, latency)
        if not localised:
            sights = self._rng(number, PartStream.WATCHED_MARKERS)
            part = Cameras(self, life, latency, self._inventory, self.scene.arena, sights)
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
            eyes = self._group(("eyes", rate), partial(Eyes, rate, self.scene, noise=self._noise))
            eyes.add(life, spec, part, rng, localised=localised)
        return part, images, {}

    def _open_studio(self) -> Studio:
        """Return the renderer of images; the first call creates it."""
        if self._studio is None:
            seed = within(self._seed, self._radio_number + 1, _STUDIO)
            self._studio = Studio(self._seen(), seed, self._stage_of, noise=self._noise)
        return self._studio

    def _pixel_eyes(self, rate: float) -> PixelEyes:
        """Return the rendered cameras of a rate; the first call creates them."""

        def make() -> PixelEyes:
            eyes = PixelEyes(rate, self.scene, self._open_studio(), noise=self._noise)
            corners = self._group_of.get(("eyes", rate))
            if corners is not None:
                # Images and corners must show the same instant.
                eyes.beat = deepcopy(corners.beat)
            return eyes

        return self._group(("pixel eyes", rate), make)

    def _count_radios(self, spec: RobotSpec) -> None:
        """Assign a random stream to each kind of radio that is new."""
        for radio in spec.radios:
            self._radios.setdefault(radio, len(self._radios))

    def _radio(self, radio: Radio, life: Life) -> RadioPort:
        """Return one robot's port on the medium of a kind of radio."""
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
    """Check the values of `set_drift`.

    Raises:
        SimError: a value is out of range.
    """
    if not (0 < stretch <= MOST_STRETCH and math.isfinite(veer)):
        message = (
            f"{name}: drift {stretch}, {veer}: "
            f"stretch must be above 0 and at most {MOST_STRETCH:g}, veer finite"
        )
        raise SimError(message)


def _lowered(spec: RobotSpec) -> float:
    """Return the height of a robot's lowered platform, 0 if it has none."""
    return 0.0 if spec.lifter is None else spec.lifter.lowered
