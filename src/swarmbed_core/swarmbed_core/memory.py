"""A minimal kinematic world in memory: robots with ideal bodies among walls.

Bodies reach the commanded wheel speeds within a time step, pass through each other and through walls, and
have no mass. The rest is as on the robot: wheels slip, encoders miscount, gyros drift, ranges have the errors
of Figure 7, camera images arrive late (Table II), radios lose packets, the battery discharges (Table IV). It
serves core's tests and the demonstration; worlds with contacts are separate packages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.arena import Arena
from swarmbed_core.camera import MARKER_SIDE_MIN_PX, SIGMA, CameraModel, cameras_of, latency_of, see_markers_k
from swarmbed_core.chance import PartStream, within
from swarmbed_core.device import (
    HOLD,
    CornerReading,
    Device,
    ImuReading,
    MotorReading,
    PowerReading,
    RangeReading,
    Zone,
)
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import GRAVITY, wrap
from swarmbed_core.heading import VirtualCompass, zone_of
from swarmbed_core.kernel import kernel
from swarmbed_core.kinematics import Kinematics, body_k, limit_k
from swarmbed_core.leds import LedBar
from swarmbed_core.lifter import LifterModel
from swarmbed_core.power import BATTERY_PERIOD, BatteryModel, PowerModel
from swarmbed_core.radio import RadioModel
from swarmbed_core.ranges import RangeModel
from swarmbed_core.raycast import cast_ring_k
from swarmbed_core.spec import RobotSpec
from swarmbed_core.watchdog import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.device import CompassReading, RadioPart
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Compass, Imu, Radio, RangeRing

Pose = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Placement:
    """One robot of a world: its name, its kind, and its initial pose in `map`."""

    name: str
    spec: RobotSpec
    pose: Pose = (0.0, 0.0, 0.0)


@kernel
def step_body_k(
    inverse: FloatArray,
    asked: FloatArray,
    max_speed: float,
    slip: FloatArray,
    dt: float,
    pose: FloatArray,
    twist: FloatArray,
    speeds: FloatArray,
    travel: FloatArray,
) -> None:
    """Move one body for `dt` with the commanded wheel speeds; update pose, twist, speeds and travel in place.

    During the step the speeds change linearly to the commanded ones (`asked`). `slip` is the relative
    difference between each wheel's distance over the floor and the one its encoder counts.
    """
    mean = np.empty(3)
    mean[:] = twist
    on_floor = np.empty(speeds.shape[0])
    for i in range(speeds.shape[0]):
        travel[i] += 0.5 * speeds[i] * dt
        speeds[i] = asked[i]
    limit_k(speeds, max_speed)
    for i in range(speeds.shape[0]):
        travel[i] += 0.5 * speeds[i] * dt
        on_floor[i] = speeds[i] * (1.0 + slip[i])
    body_k(inverse, on_floor, twist)
    for k in range(3):
        mean[k] = 0.5 * (mean[k] + twist[k])
    turn = mean[2] * dt
    if abs(turn) < 1e-9:
        ahead, aside = 1.0, 0.5 * turn
    else:
        ahead, aside = math.sin(turn) / turn, (1.0 - math.cos(turn)) / turn
    dx = (ahead * mean[0] - aside * mean[1]) * dt
    dy = (aside * mean[0] + ahead * mean[1]) * dt
    c, s = math.cos(pose[2]), math.sin(pose[2])
    pose[0] += c * dx - s * dy
    pose[1] += s * dx + c * dy
    pose[2] = wrap(pose[2] + turn)


class _Body:
    """The ground truth of one robot, and its `Motors`."""

    def __init__(self, placement: Placement, world: MemoryWorld, rng: np.random.Generator) -> None:
        spec = placement.spec
        self.name = placement.name
        self.spec = spec
        self.pose = np.array(placement.pose, dtype=np.float64)
        self.twist = np.zeros(3)
        self.accel = np.zeros(2)
        self._world = world
        self._kinematics = Kinematics.of(spec)
        count = self._kinematics.count
        self._asked = np.zeros(count)
        self._still = np.zeros(count)
        self._speeds = np.zeros(count)
        self._travel = np.zeros(count)
        self._slip = np.zeros(count)
        self._until = 0.0
        self._enabled = True
        self.powered = True
        self._rng = rng
        wheels = spec.drive.wheels
        self._keep = math.exp(-world.timestep / wheels.slip_time) if wheels.slip_time > 0 else 0.0
        self._fresh = wheels.slip_sigma * math.sqrt(1 - self._keep**2)
        self._miscount = wheels.speed_sigma * world.timestep

    def enable(self, on: bool) -> None:
        """Switch the drives on, or stop the wheels."""
        self._enabled = on

    def drive(self, speeds: FloatArray, hold: float = HOLD) -> None:
        """Set the wheel speeds in m/s, for `hold` seconds."""
        self._asked[:] = speeds
        # Rounding must not cut a hold of whole steps.
        self._until = self._world.time + hold + 1e-9

    def read(self) -> MotorReading:
        """Return the encoders' reading."""
        return MotorReading(self._world.time, self._travel.copy(), self._speeds.copy(), self.effort)

    @property
    def effort(self) -> float:
        """Return the share of full torque, estimated as acceleration by the available acceleration."""
        return min(1.0, math.hypot(*self.accel) / self.spec.limits.acceleration_available)

    def step(self, dt: float) -> None:
        """Move for `dt` seconds."""
        if self._world.noise:
            slip, miscount = self._rng.standard_normal((2, len(self._slip)))
            self._slip *= self._keep
            self._slip += self._fresh * slip
            # A wheel at rest does not miscount.
            self._travel += self._miscount * miscount * (self._speeds != 0.0)
        before = self.twist.copy()
        driven = self._enabled and self.powered and self._world.time <= self._until
        step_body_k(
            self._kinematics.inverse,
            self._asked if driven else self._still,
            self._kinematics.max_speed,
            self._slip,
            dt,
            self.pose,
            self.twist,
            self._speeds,
            self._travel,
        )
        self.accel[0] = (self.twist[0] - before[0]) / dt - self.twist[1] * self.twist[2]
        self.accel[1] = (self.twist[1] - before[1]) / dt + self.twist[0] * self.twist[2]


class _Imu:
    """Gyroscope with noise and a random-walk bias, accelerometer with noise."""

    def __init__(self, imu: Imu, body: _Body, world: MemoryWorld, rng: np.random.Generator) -> None:
        self._imu = imu
        self._body = body
        self._world = world
        self._rng = rng
        self._bias = imu.gyro_bias_sigma * rng.standard_normal() if world.noise else 0.0
        self._at = 0.0

    def read(self) -> ImuReading:
        """Return the current angular rates and specific force."""
        now, body, imu = self._world.time, self._body, self._imu
        noise = (0.0, 0.0, 0.0)
        if self._world.noise:
            walk, gyro, ax, ay = self._rng.standard_normal(4)
            self._bias += imu.gyro_bias_walk * math.sqrt(max(now - self._at, 0.0)) * walk
            noise = (imu.gyro_sigma * gyro, imu.accel_sigma * ax, imu.accel_sigma * ay)
        self._at = now
        return ImuReading(
            now,
            (0.0, 0.0, float(body.twist[2]) + self._bias + noise[0]),
            (float(body.accel[0]) + noise[1], float(body.accel[1]) + noise[2], GRAVITY),
        )


class _Ranges:
    """One ring of distance sensors among the world's walls and the other robots."""

    def __init__(self, ring: RangeRing, body: _Body, world: MemoryWorld, rng: np.random.Generator) -> None:
        self._ring = ring
        self._angles = np.array(ring.angles)
        self._body = body
        self._world = world
        self._model = RangeModel(ring, rng) if world.noise else None
        self._pace = Pace(ring.rate)

    def read(self) -> RangeReading | None:
        """Return a new sweep if one is due."""
        now, ring = self._world.time, self._ring
        if not self._pace.due(now):
            return None
        true = np.empty(ring.count)
        cast_ring_k(
            self._body.pose,
            self._angles,
            ring.mount_radius,
            ring.field_of_view,
            ring.rays,
            self._world.segments,
            self._world.discs(),
            self._world.index(self._body.name),
            ring.range_max,
            true,
        )
        if self._model is not None:
            true = self._model.measure(true)
        return RangeReading(now, true)


class _Cameras:
    """All cameras of a robot with their detectors: marker corners with the latency of Table II.

    They see the markers on the walls, without occlusion.
    """

    def __init__(self, body: _Body, world: MemoryWorld, rng: np.random.Generator) -> None:
        spec = body.spec
        models = cameras_of(spec)
        self._eyes = [
            (models[camera.name], camera.rate, Pace(camera.rate))
            for camera in spec.cameras
            if not camera.on_lifter
        ]
        self._latency = latency_of(spec.camera_latency, spec.cameras[0].rate, len(self._eyes))
        self._body = body
        self._world = world
        self._rng = rng
        self._pending: list[tuple[float, int, CornerReading]] = []
        self._taken = 0
        count = len(world.marker_ids)
        self._pixels = np.empty((count, 4, 2))
        self._visible = np.empty(count, dtype=np.bool_)

    def read(self) -> Sequence[CornerReading]:
        """Return the detections that have arrived, in the order of arrival."""
        now = self._world.time
        for model, _, pace in self._eyes:
            if pace.due(now):
                self._expose(model, now)
        arrived = sorted(item for item in self._pending if item[0] <= now)
        if arrived:
            self._pending = [item for item in self._pending if item[0] > now]
        return [reading for _, _, reading in arrived]

    def _expose(self, model: CameraModel, now: float) -> None:
        """Take one picture; `read` returns its detections after the latency."""
        world, pose = self._world, self._body.pose
        if see_markers_k(
            model.numbers,
            world.marker_corners,
            float(pose[0]),
            float(pose[1]),
            float(pose[2]),
            MARKER_SIDE_MIN_PX,
            self._pixels,
            self._visible,
        ):
            corners = self._pixels[self._visible]
            delay = 0.0
            if world.noise:
                corners = corners + model.numbers[SIGMA] * self._rng.standard_normal(corners.shape)
                mean, sigma = self._latency
                delay = max(0.0, mean + sigma * self._rng.standard_normal())
            reading = CornerReading(now, model.name, world.marker_ids[self._visible], corners)
            self._taken += 1
            self._pending.append((now + delay, self._taken, reading))


class _Compass:
    """The heading sense, from the ground truth."""

    def __init__(self, model: VirtualCompass, body: _Body, world: MemoryWorld) -> None:
        self._model = model
        self._body = body
        self._world = world

    def read(self) -> CompassReading | None:
        """Return a new reading if one is due."""
        return self._model.sample(self._world.time, float(self._body.pose[2]))


class _ZoneSense:
    """The zone sense, from the ground truth."""

    def __init__(self, body: _Body, arena: Arena) -> None:
        self._body = body
        self._arena = arena

    def read(self) -> Zone:
        """Return the zone the robot is in."""
        zones = self._arena.zones
        return Zone.NEITHER if zones is None else zone_of(self._body.pose, zones)


class _Power:
    """The battery, discharged by the robot's consumption; after its cut-off, wheels and lifter stop."""

    def __init__(self, battery: BatteryModel, body: _Body, world: MemoryWorld) -> None:
        self._battery = battery
        self._consumption = PowerModel(body.spec)
        self._body = body
        self._world = world
        self._pace = Pace(1.0 / BATTERY_PERIOD)
        self._on = True

    def enable(self, on: bool) -> None:
        """Switch the supplies on or off; off, they draw no power."""
        self._on = on

    def step(self) -> None:
        """Update the power state, and discharge the battery once per `BATTERY_PERIOD`."""
        self._body.powered = self._on and self._battery.powered
        if self._body.powered and self._pace.due(self._world.time):
            speed = math.hypot(self._body.twist[0], self._body.twist[1])
            cameras = 1.0 if self._body.spec.cameras else 0.0
            watts = self._consumption.watts(cameras=cameras, speed=speed, effort=self._body.effort)
            self._battery.discharge(watts, BATTERY_PERIOD)

    def read(self) -> PowerReading:
        """Return what the battery monitor measures."""
        return self._battery.reading(self._world.time)


class _Leds:
    """Lights that store what they show."""

    def __init__(self, bar: LedBar) -> None:
        self.bar = bar

    def show(self, colours: Sequence[int]) -> None:
        """Show one packed colour per light."""
        self.bar.show(colours)


class MemoryWorld:
    """A `World` of robots with ideal bodies among walls."""

    def __init__(
        self,
        placements: Sequence[Placement],
        arena: Arena,
        *,
        seed: int = 0,
        noise: bool = True,
        timestep: float = 0.01,
    ) -> None:
        """Place robots in an arena.

        Args:
            placements: the robots.
            arena: walls, zones, markers.
            seed: of all noise; the same seed gives the same run.
            noise: whether wheels slip and sensors have errors.
            timestep: in seconds.

        Raises:
            ConfigError: two robots have the same name, or the arena's marker map is invalid.
        """
        names = [placement.name for placement in placements]
        if len(set(names)) != len(names):
            message = f"two robots have the same name among {', '.join(names)}: names must be unique"
            raise ConfigError(message)
        self.arena = arena
        self.noise = noise
        self.timestep = timestep
        self.segments = arena.segments()
        markers = arena.markers()
        self.marker_ids, self.marker_corners = (
            (np.empty(0, dtype=np.int64), np.empty((0, 4, 3)))
            if markers is None
            else (markers.ids, np.ascontiguousarray(markers.corners()))
        )
        self._ticks = 0
        self._names = tuple(names)
        self._index = {name: i for i, name in enumerate(names)}
        seeds = np.random.SeedSequence(seed)
        self._bodies: list[_Body] = []
        self._devices: dict[str, Device] = {}
        self._lifters: list[tuple[_Body, LifterModel]] = []
        self._powers: list[_Power] = []
        self._radios = self._make_radios(placements, within(seeds, len(names)))
        for number, placement in enumerate(placements):
            self._add(placement, within(seeds, number))
        self._poses = np.array([body.pose for body in self._bodies]).reshape(-1, 3)
        self._discs = np.array(
            [[*body.pose[:2], body.spec.body.bounding_radius] for body in self._bodies]
        ).reshape(-1, 3)

    @classmethod
    def of(
        cls, kinds: Sequence[str], arena: str = "empty", *, seed: int = 0, noise: bool = True
    ) -> MemoryWorld:
        """Return a world with robots of these kinds, 1 m apart along y, the first at the origin.

        Raises:
            ConfigError: there is no such kind or arena.
        """
        placements = [
            Placement(f"{kind}{i + 1}", RobotSpec.load(kind), (0.0, float(i), 0.0))
            for i, kind in enumerate(kinds)
        ]
        return cls(placements, Arena.load(arena), seed=seed, noise=noise)

    @property
    def time(self) -> float:
        """Return seconds since the start, computed from whole steps so that rounding does not accumulate."""
        return self._ticks * self.timestep

    @property
    def names(self) -> Sequence[str]:
        """Return the robots' names, in the order of `truth()`."""
        return self._names

    def index(self, name: str) -> int:
        """Return the row of a robot in `truth()`."""
        return self._index[name]

    def step(self) -> None:
        """Advance by one time step."""
        self._ticks += 1
        for i, body in enumerate(self._bodies):
            body.step(self.timestep)
            self._poses[i] = body.pose
            self._discs[i, :2] = body.pose[:2]
        now = self.time
        for body, lifter in self._lifters:
            lifter.step(now, powered=body.powered)
        for power in self._powers:
            power.step()
        for model, members in self._radios:
            model.step(now, self._poses[members])

    def truth(self) -> FloatArray:
        """Return a row for each robot: x, y, yaw in `map`, vx, vy along its body, omega."""
        return np.array([[*body.pose, *body.twist] for body in self._bodies])

    def discs(self) -> FloatArray:
        """Return the robots as obstacles for distance sensors: rows of x, y, radius."""
        return self._discs

    def device(self, name: str) -> Device:
        """Return the parts of the robot called `name`.

        Raises:
            ConfigError: there is none.
        """
        device = self._devices.get(name)
        if device is None:
            message = f"no robot '{name}' in this world: there are {', '.join(self._names) or 'none'}"
            raise ConfigError(message)
        return device

    def teleport(self, name: str, pose: Pose) -> None:
        """Move a robot to another pose, as by hand: wheels and gyro do not measure it."""
        self._bodies[self._index[name]].pose[:] = pose

    def _as_noisy_as_wanted(self, compass: Compass) -> Compass:
        """Return the compass's spec, with a sigma of 0 if this world has no noise."""
        return compass if self.noise else compass.model_copy(update={"sigma": 0.0})

    def _make_radios(
        self, placements: Sequence[Placement], seed: np.random.SeedSequence
    ) -> list[tuple[RadioModel, list[int]]]:
        """Return a model for each distinct radio spec, with the indices of the robots that have it."""
        media: dict[Radio, list[int]] = {}
        for i, placement in enumerate(placements):
            for radio in placement.spec.radios:
                media.setdefault(radio, []).append(i)
        made = []
        for number, (radio, members) in enumerate(media.items()):
            rng = np.random.default_rng(within(seed, number))
            made.append((RadioModel(radio, rng, [placements[i].name for i in members]), members))
        return made

    def _port(self, radio: Radio, name: str) -> RadioPart:
        """Return one robot's port to the model of a radio."""
        return next(model for model, _ in self._radios if model.radio == radio).port(name, self)

    def _add(self, placement: Placement, seed: np.random.SeedSequence) -> None:
        """Create one robot's body and parts, each part with its own noise stream."""
        spec = placement.spec

        def rng(part: int) -> np.random.Generator:
            return np.random.default_rng(within(seed, part))

        body = _Body(placement, self, rng(PartStream.WHEELS))
        self._bodies.append(body)
        lifter = None
        if spec.lifter is not None:
            lifter = LifterModel(spec.lifter)
            self._lifters.append((body, lifter))
        power = None
        if spec.battery is not None:
            power = _Power(BatteryModel(spec.battery), body, self)
            self._powers.append(power)
        self._devices[placement.name] = Device(
            name=placement.name,
            spec=spec,
            clock=self,
            motors=body,
            lifter=lifter,
            imu=None if spec.imu is None else _Imu(spec.imu, body, self, rng(PartStream.IMU)),
            compass=None
            if spec.compass is None
            else _Compass(
                VirtualCompass(self._as_noisy_as_wanted(spec.compass), rng(PartStream.COMPASS)), body, self
            ),
            zone=_ZoneSense(body, self.arena),
            ranges={
                ring.name: _Ranges(ring, body, self, rng(PartStream.RINGS + k))
                for k, ring in enumerate(spec.ranges)
            },
            cameras=_Cameras(body, self, rng(PartStream.CAMERAS))
            if spec.cameras and len(self.marker_ids)
            else None,
            power=power,
            radios={radio.name: self._port(radio, placement.name) for radio in spec.radios},
            leds=None if spec.leds is None else _Leds(LedBar(spec.leds)),
        )
