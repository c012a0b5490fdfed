"""The on-board software of a robot, the same under every controller: senses and reflexes at 100 Hz.

One cycle reads the parts, dead-reckons, filters, maps, plays back the path and drives the wheels (DOTS
paper, Figures 5 and 9). It never raises: invalid input from parts or programs is refused and counted, and
so is a part that fails. Without readings of its wheels the robot comes to rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from swarmbed_core.attention import Attention
from swarmbed_core.camera import cameras_of
from swarmbed_core.collision_map import CollisionMap
from swarmbed_core.control import Mode
from swarmbed_core.device import HOLD, Zone, sensors_as_fields
from swarmbed_core.ekf import PoseFilter
from swarmbed_core.ekf_kernel import Verdict
from swarmbed_core.errors import PathError
from swarmbed_core.geometry import between, compose, invert
from swarmbed_core.heading import derived_heading, derived_zone
from swarmbed_core.health import Health
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.leds import LedBar
from swarmbed_core.lifter import LifterControl
from swarmbed_core.markers import (
    CarrierMarkers,
    CarrierPoseSolver,
    RobotPoseSolver,
    SideSight,
    UndersideSight,
)
from swarmbed_core.motion import Motion
from swarmbed_core.power import BatteryMonitor
from swarmbed_core.ranges import points_body_k
from swarmbed_core.robot import Command, MotionStatus, Senses
from swarmbed_core.track import Track
from swarmbed_core.trajectory import Path
from swarmbed_core.watchdog import Pace, Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from swarmbed_core.device import (
        CornerReading,
        Device,
        ImuReading,
        RadioPacket,
        RangeReading,
        SensorPart,
        SensorReading,
    )
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.heading import Zones
    from swarmbed_core.markers import MarkerMap
    from swarmbed_core.spec import RangeRing

T = TypeVar("T")
Sight = TypeVar("Sight", SideSight, UndersideSight)

CARRIER_MARKERS = "dots_carrier"
"""Default marker set of the carriers: a name from config/markermaps."""
HEADING_RATE = 10.0
"""Rate in Hz at which the filter takes the compass: its errors hardly change from one cycle to the next."""
HEADING_SIGMA = 0.1
"""Standard deviation in radians of the compass when it decides between ambiguous poses."""
BATTERY_RATE = 1.0
"""Rate in Hz at which the battery is read."""
SIGHT_SECONDS = 0.5
"""Seconds for which a sighting of a carrier stays valid."""
SILENCE = 5.0
SLOWEST = 0.05
"""A sensor counts as silent after `SILENCE` of its periods, each at least `SLOWEST` seconds."""
FUTURE = 0.05
"""Seconds that a stamp may be ahead of the robot's clock; beyond that it comes from another clock."""
STALE = 0.2
"""Seconds after which a reading of wheels, inertial sensor, compass or distance sensors is too old to use."""
HELD_CYCLES = 3.0
"""Cycles for which wheel speeds hold, if that is longer than usual."""
HEARD_MAX = 1000
"""Packets kept for a program that does not read them."""
ANCHOR_RATE = 5.0
"""Rate in Hz at which a path in `map` is checked against the current pose of `map` in `odom`."""
ANCHOR_SHIFT = 0.005
ANCHOR_TURN = 0.005
"""Metres and radians that `map` must move in `odom` before the path is corrected."""
PLACED_SIGMA = (0.01, 0.01, 0.01)
"""Standard deviations, in metres and radians, of a pose at which a robot was placed by hand."""
SWITCH = (bool, np.bool_)
"""Types accepted for switches in a `Command`."""


class Ear:
    """Queue of received packets for one reader; every reader gets all packets."""

    __slots__ = ("_heard",)

    def __init__(self, radios: Iterable[str]) -> None:
        """Start with empty queues."""
        self._heard: dict[str, list[RadioPacket]] = {radio: [] for radio in radios}

    def add(self, radio: str, packets: Sequence[RadioPacket]) -> None:
        """Keep what a radio heard, the newest `HEARD_MAX` packets."""
        kept = self._heard.setdefault(radio, [])
        kept.extend(packets)
        if len(kept) > HEARD_MAX:
            del kept[:-HEARD_MAX]

    def take(self) -> dict[str, tuple[RadioPacket, ...]]:
        """Return what was heard since the last call, by radio."""
        heard = {radio: tuple(packets) for radio, packets in self._heard.items()}
        for packets in self._heard.values():
            packets.clear()
        return heard


class _Ring:
    """The newest sweep of one ring of distance sensors."""

    __slots__ = ("angles", "distances", "mount_radius", "period", "points", "stamp", "taken")

    def __init__(self, ring: RangeRing) -> None:
        self.angles = np.array(ring.angles)
        self.mount_radius = ring.mount_radius
        self.period = 1.0 / ring.rate
        self.points = np.empty((ring.count, 2))
        self.forget(0.0)

    def forget(self, now: float) -> None:
        """Drop the sweep: no returns from now on."""
        self.stamp = now
        self.taken = math.nan
        self.distances = np.full(len(self.angles), math.inf)
        self.points.fill(math.nan)


class _Sensor:
    """The newest reading of a sensor whose values programs get as they are."""

    __slots__ = ("name", "part", "patience", "period", "shape", "stamp", "values")

    def __init__(self, name: str, part: SensorPart, shape: tuple[int, ...], rate: float) -> None:
        """Take readings of this shape; a first dimension of -1 may have any size."""
        self.name = name
        self.part = part
        self.shape = shape
        self.period = 1.0 / rate
        self.patience = SILENCE * max(self.period, SLOWEST)
        self.stamp = 0.0
        self.values: FloatArray | None = None

    def fits(self, values: FloatArray) -> bool:
        """Return whether values have the right shape and are finite."""
        found = values.shape
        same = found == self.shape or (self.shape[0] < 0 and found[1:] == self.shape[1:])
        return same and len(found) == len(self.shape) and bool(np.isfinite(values).all())


@dataclass(slots=True)
class _Anchored:
    """A path in `map` that is being followed, and the pose of `map` in `odom` used to convert it last."""

    path: Path
    anchor: FloatArray
    number: int
    waypoint: int


def fault_of(command: Command) -> tuple[str, str] | None:
    """Return why a command is invalid, as a reason and an explanation; None if it is valid."""
    if not isinstance(command, Command):
        return "command.type", f"found {type(command).__name__}, expected a Command"
    for name in ("cancel", "lift", "carrying", "motors", "power"):
        value = getattr(command, name)
        # Strings such as "off" would count as true.
        if not isinstance(value, SWITCH) and (value is not None or name == "cancel"):
            return f"command.{name}", f"found {value!r}, expected True or False"
    if command.path is not None and not isinstance(command.path, Path):
        return "command.path", f"found {type(command.path).__name__}, expected a Path"
    if command.velocity_body is not None:
        try:
            _vx, _vy, _omega = map(float, command.velocity_body)
        except (TypeError, ValueError, OverflowError):
            return "command.velocity_body", f"found {command.velocity_body!r}, expected vx, vy, omega"
    if command.send is not None:
        ours = isinstance(command.send, Mapping)
        if not ours or not all(isinstance(payload, bytes | bytearray) for payload in command.send.values()):
            return "command.send", f"found {command.send!r}, expected bytes by the name of a radio"
    return None


def _sensors_of(device: Device) -> Iterator[_Sensor]:
    """Yield the sensors of a robot whose values programs get as they are, by their fields in `Senses`."""
    known = device.spec.sensors
    for name, part in device.sensors.items():
        if name in known:
            yield _Sensor(name, part, *known[name])


class Onboard:
    """Senses and reflexes of one robot.

    Attributes:
        marker_map: the wall markers used for localisation; None without.
        carrier_markers: the markers on carriers; None if the robot cannot detect carriers.
        imu: the newest reading of the inertial sensor.
        on_image: callbacks that receive every camera's detections; add and remove them at any time.
    """

    def __init__(
        self,
        device: Device,
        marker_map: MarkerMap | None = None,
        carrier_markers: CarrierMarkers | None = None,
        zones: Zones | None = None,
    ) -> None:
        """Connect to the parts of one robot.

        Args:
            device: the parts.
            marker_map: the wall markers used for localisation; without them the robot is not localised by
                its cameras.
            carrier_markers: the markers on carriers; those of the DOTS carriers if None.
            zones: the arena's zones, for a robot without a zone sense that knows its pose in `map`.
        """
        spec = device.spec
        self.device = device
        self.health = Health()
        self.motion = Motion(spec, self.health)
        self.collision_map = CollisionMap(spec, health=self.health) if spec.ranges else None
        self.lifter = None if spec.lifter is None else LifterControl(spec.lifter, health=self.health)
        self.battery = None if spec.battery is None else BatteryMonitor(spec.battery, health=self.health)
        self._leds = None if spec.leds is None else LedBar(spec.leds, self.health)
        self._cycle = Pace(spec.control.rate)
        self._heading_pace = Pace(HEADING_RATE)
        self._battery_pace = Pace(BATTERY_RATE)
        self._power = Watchdog(spec.control.power_timeout, "power", self.health)
        self._power_watched = False
        self._powered = self._motors_on = True
        self._latest: float | None = None
        self._heading: float | None = None
        self._heading_stamp = 0.0
        self._still = np.zeros(self.motion.controller.kinematics.count)
        self._rings = {ring.name: _Ring(ring) for ring in spec.ranges}
        self._track = Track(spec.control.rate)
        self._ears: list[Ear] = []
        self._own_ear: Ear | None = None
        self._anchored: _Anchored | None = None
        self._anchor_pace = Pace(ANCHOR_RATE)
        self._path_frame = (0.0, 0.0, 0.0)
        self.marker_map = marker_map
        self.carrier_markers = carrier_markers
        self._zones = zones
        self.imu: ImuReading | None = None
        # The wheels of a robot with slow cycles must not stop between two of them.
        hold = HELD_CYCLES / spec.control.rate
        self._hold = (hold,) if hold > HOLD else ()
        self._losses = [connection.losses for connection in device.outside]
        self._travel: FloatArray | None = None
        self._sensors = {sensor.name: sensor for sensor in _sensors_of(device)}
        self.on_image: list[Callable[[CornerReading], object]] = []

        cameras = cameras_of(spec, device.calibrations)
        self._walls = None
        self._carriers = None
        self._attention = Attention(health=self.health)
        self._images: dict[str, CornerReading] = {}
        self._carrier: SideSight | None = None
        self._underside: UndersideSight | None = None
        self._lifting = frozenset(camera.name for camera in spec.cameras if camera.on_lifter)
        if cameras and spec.carrier is not None:
            if self.carrier_markers is None:
                self.carrier_markers = CarrierMarkers.load(CARRIER_MARKERS)
            self._carriers = CarrierPoseSolver(self.carrier_markers, spec, cameras, self.health)
        around = {name: camera for name, camera in cameras.items() if name not in self._lifting}
        if around and marker_map is not None:
            others = (
                []
                if self._carriers is None
                else [
                    *self._carriers.markers.side_ids,
                    *self._carriers.markers.underside_ids,
                ]
            )
            self._walls = RobotPoseSolver(marker_map, around, self.health, ignore=others)
        lens_errors = 0 if self._walls is None else self._walls.lens_errors
        self.filter = PoseFilter.for_robot(spec, Kinematics.of(spec).inverse, self.health, lens_errors)

    # The cycle

    def due(self, now: float) -> bool:
        """Return whether it is time for a cycle."""
        return self._cycle.due(now)

    def step(self) -> None:
        """Run one cycle at the time of the device's clock.

        An exception in a part never ends the loop. Calls that would need a closure for `_ask`, a hundred
        times a second on every robot, are guarded in place.
        """
        device, motion = self.device, self.motion
        motors, imu = device.motors, device.imu
        now = gyro = None
        try:
            now = float(device.clock.time)
        except Exception as error:
            self._failed("clock", error)
        if now is None or not self._clock_is_sane(now):
            self._ask("motors", motors.drive, self._still)
            return
        oldest, newest = now - STALE, now + FUTURE
        if imu is not None:
            try:
                self.imu = imu.read()
                # Without a gyro the turn is taken from the wheels.
                if oldest <= self.imu.stamp <= newest or self._is_current("imu", self.imu.stamp, now):
                    gyro = float(self.imu.gyro[2])
            except Exception as error:
                self._failed("imu", error)
        try:
            reading = motors.read()
            if oldest <= reading.stamp <= newest or self._is_current("motors", reading.stamp, now):
                self.filter.step(float(reading.stamp), reading.travel, gyro)
                self._travel = reading.travel
            else:
                # Without current readings the wheels must not turn.
                motion.ramp_down()
        except Exception as error:
            self._failed("motors", error)
            motion.ramp_down()
        x, y, yaw, *v_body = self.filter.odometry.numbers()
        pose_odom = (x, y, yaw)
        self._track.add(now, pose_odom)
        self._ask("compass", self._read_heading, now)
        for name, part in device.ranges.items():
            try:
                sweep = part.read()
            except Exception as error:
                sweep = None
                self._failed(f"ranges.{name}", error)
            self._ask(f"ranges.{name}", self._take_sweep, name, sweep, pose_odom, now)
        if device.cameras is not None:
            try:
                images = list(device.cameras.read())
            except Exception as error:
                images = []
                self._failed("cameras", error)
            for image in images:
                self._ask("cameras", self._look, image, now)
        for sensor in self._sensors.values():
            try:
                found = sensor.part.read()
            except Exception as error:
                found = None
                self._failed(sensor.name, error)
            if found is not None or now - sensor.stamp > sensor.patience:
                self._ask(sensor.name, self._take_reading, sensor, found, now)
        if self._power_watched:
            self._watch_power(now)
        if self._anchored is not None:
            self._correct_path(now)
        self._ask("motors", motors.drive, motion.step(now, pose_odom, v_body), *self._hold)
        if self.lifter is not None and device.lifter is not None:
            self._ask("lifter", device.lifter.move, self.lifter.update(now, self._lifter_height()))
        if self._battery_pace.due(now):
            self._ask("power", self._read_battery)
            if device.outside:
                self._ask("outside", self._watch_outside)

    def _failed(self, part: str, error: Exception) -> None:
        """Count a part that raised; the cycle continues without it."""
        self.health.refuse(f"{part}.failed", f"{type(error).__name__}: {error}")

    def _ask(self, part: str, call: Callable[..., T], *arguments: object) -> T | None:
        """Call a part; return None if it fails."""
        try:
            return call(*arguments)
        except Exception as error:
            self._failed(part, error)
            return None

    def _read_battery(self) -> None:
        if self.battery is not None and self.device.power is not None:
            self.battery.update(self.device.power.read())

    def _watch_outside(self) -> None:
        """Count the losses of parts that are outside this process."""
        for i, connection in enumerate(self.device.outside):
            for _ in range(self._losses[i], connection.losses):
                self.health.refuse("outside.lost", f"{connection.name}: no answer; commands had no effect")
            self._losses[i] = connection.losses

    def _lifter_height(self) -> float | None:
        """Return the height of the platform; None without a lifter or while its reading fails."""
        if self.device.lifter is None:
            return None
        try:
            return float(self.device.lifter.read().height)
        except Exception as error:
            self._failed("lifter", error)
            return None

    def _clock_is_sane(self, now: float) -> bool:
        """Track the clock; if it steps backwards, brake and drop all that depends on the old time."""
        if not math.isfinite(now):
            self.health.refuse("onboard.clock", f"time {now} must be finite")
            return False
        if self._latest is None:
            # Silence is counted from the first cycle: a robot may join a world late.
            for ring in self._rings.values():
                ring.stamp = now
        elif now < self._latest:
            self.health.refuse("onboard.clock", f"time went from {self._latest} to {now}")
            self.motion.ramp_down()
            if self.collision_map is not None:
                self.collision_map.reset()
            self._carrier = self._underside = None
            self._images.clear()
            self._track.forget()
            self._heading_stamp = now
            for ring in self._rings.values():
                ring.stamp = now
            for sensor in self._sensors.values():
                sensor.stamp = now
        self._latest = now
        return True

    def _is_current(self, part: str, stamp: float, now: float, oldest: float = STALE) -> bool:
        """Return whether a reading is at most `oldest` seconds old and not from the future; else count it.

        A reading from the future would hide all later ones. A driver that hangs keeps returning an old one.
        """
        if now - oldest <= stamp <= now + FUTURE:
            return True
        if stamp < now:
            reason, expected = "stale", f"expected a reading at most {oldest} s old; does the driver hang?"
        else:
            reason, expected = "future", "expected a reading from now or earlier; is its clock ahead?"
        self.health.refuse(f"{part}.{reason}", f"stamp {stamp} at {now}: {expected}")
        return False

    def _read_heading(self, now: float) -> None:
        compass, spec = self.device.compass, self.device.spec.compass
        if compass is None or spec is None:
            return
        reading = self._ask("compass", compass.read)
        if reading is None or not self._is_current("compass", reading.stamp, now):
            if self._heading is not None and now - self._heading_stamp > SILENCE * max(
                1.0 / spec.rate, SLOWEST
            ):
                self.health.refuse("compass.silent", f"no heading since {self._heading_stamp} s")
                self._heading = None
            return
        heading = float(reading.heading)
        if not math.isfinite(heading):
            self.health.refuse("compass.not_finite", f"heading {heading} must be finite")
            return
        self._heading, self._heading_stamp = heading, now
        if self._heading_pace.due(now):
            self.filter.add_heading(reading.stamp, heading, spec.sigma)

    def _take_sweep(
        self, name: str, sweep: RangeReading | None, pose_odom: Sequence[float], now: float
    ) -> None:
        """Process the newest sweep of a ring of distance sensors, if there is one."""
        ring = self._rings.get(name)
        if ring is None:
            return
        if sweep is None or not self._is_current(f"ranges.{name}", sweep.stamp, now):
            if now - ring.stamp > SILENCE * max(ring.period, SLOWEST):
                self.health.refuse(f"ranges.{name}.silent", f"no sweep since {ring.stamp} s")
                ring.forget(now)
            return
        distances = np.array(sweep.distances, np.float64)
        if distances.shape != ring.distances.shape:
            explanation = f"distances of shape {distances.shape}: expected {ring.distances.shape}"
            self.health.refuse(f"ranges.{name}", explanation)
            return
        ring.distances, ring.stamp, ring.taken = distances, now, sweep.stamp
        points_body_k(distances, ring.angles, ring.mount_radius, ring.points)
        if self.collision_map is not None:
            then = self._track.at(sweep.stamp) if sweep.stamp < now else None
            self.collision_map.update(sweep.stamp, pose_odom if then is None else then, ring.points)

    def _take_reading(self, sensor: _Sensor, reading: SensorReading | None, now: float) -> None:
        """Take a sensor's new reading, if there is one; drop the last one while the sensor is silent."""
        if reading is None or not self._is_current(sensor.name, reading.stamp, now):
            if sensor.values is not None and now - sensor.stamp > sensor.patience:
                self.health.refuse(f"{sensor.name}.silent", f"no reading since {sensor.stamp} s")
                sensor.values = None
            return
        values = np.array(reading.values, np.float64)
        if not sensor.fits(values):
            explanation = f"values of shape {values.shape}: expected finite ones of shape {sensor.shape}"
            self.health.refuse(sensor.name, explanation)
            return
        sensor.values, sensor.stamp = values, now

    def _look(self, reading: CornerReading, now: float) -> None:
        """Process one camera's detections."""
        if not self._is_current("cameras", reading.stamp, now, math.inf):
            return
        for look in tuple(self.on_image):
            self._ask("cameras", look, reading)
        if self._walls is not None and reading.camera not in self._lifting:
            # The compass may decide between poses that fit the image. The filter's yaw must not: a robot
            # that was picked up and moved would never notice.
            found = self._walls.solve(reading, self._heading, HEADING_SIGMA)
            if found is not None:
                self.filter.add_pose(found.stamp, found.pose_map, found.covariance, found.lens)
        if self._carriers is not None:
            # A carrier's pose takes longer than the rest of a cycle, and is not needed thirty times a second.
            self._images[reading.camera] = reading

    def _find_carriers(self) -> None:
        """Locate carriers in the newest image of each camera."""
        if self._images:
            # Older images are no longer valid, and would look like a clock that stepped backwards.
            oldest = self.device.clock.time + FUTURE - SIGHT_SECONDS
            images = [reading for reading in self._images.values() if reading.stamp >= oldest]
            images.sort(key=lambda reading: -reading.stamp)
            self._images.clear()
            # One image of the focussed carrier is enough, and the newest is the best.
            found = False
            for reading in images:
                if reading.camera in self._lifting:
                    self._ask("cameras", self._find_above, reading)
                elif not found:
                    focussed = self._attention.focus is not None
                    found = bool(self._ask("cameras", self._find_carrier, reading)) and focussed
        now = self.device.clock.time
        if self._carrier is not None and now - self._carrier.stamp > SIGHT_SECONDS:
            self._carrier = None
        if self._underside is not None and now - self._underside.stamp > SIGHT_SECONDS:
            self._underside = None

    def _find_above(self, reading: CornerReading) -> None:
        """Locate a carrier in the upward camera's image; a raised tray lies on the camera and hides it."""
        if self._carriers is not None and self.lifter is not None and self.lifter.at_bottom:
            sight = self._carriers.underside(reading, self.lifter.set_point)
            self._underside = self._where(sight) or self._underside

    def _find_carrier(self, reading: CornerReading) -> bool:
        """Locate a carrier in one image; return whether the attention picked one."""
        if self._carriers is None:
            return False
        self._attention.advance(reading.stamp)
        picked = self._where(self._attention.pick(self._carriers.side(reading, self._attention.focus)))
        if picked is None:
            return False
        if self._carrier is None or self._carrier.id != picked.id or picked.stamp >= self._carrier.stamp:
            self._carrier = picked
        return True

    def _where(self, sight: Sight | None) -> Sight | None:
        """Return a sighting with its pose in `odom`, from the robot's pose when the image was taken."""
        if sight is None:
            return None
        then = self._track.at(sight.stamp)
        return sight if then is None else replace(sight, pose_odom=compose(then, sight.pose_body))

    def _watch_power(self, now: float) -> None:
        """Switch the drives off when the heartbeat of `power`, once begun, stops."""
        if self._power.expired(now):
            explanation = (
                f"no power heartbeat for {self._power.timeout} s: the drives are off until the next one"
            )
            self.health.refuse("power.expired", explanation)
            self._power_watched = False
            self._powered = False
            self._apply_enable()

    def _apply_enable(self) -> None:
        """Switch the drives: they are on while both `power` and `motors` are."""
        on = self._powered and self._motors_on
        self.motion.enable(on)
        self._ask("motors", self.device.motors.enable, on)

    # State for the robot's API; reading it takes nothing from a program

    @property
    def heading(self) -> float | None:
        """Return the newest heading of the compass; without a compass, the yaw of a localised robot."""
        return self._heading if self.device.compass is not None else derived_heading(self._pose_map)

    @property
    def leds(self) -> tuple[int, ...]:
        """Return the packed colours of the lights; empty without any."""
        return () if self._leds is None else self._leds.values

    @property
    def lifter_height(self) -> float | None:
        """Return the height of the platform; None without a lifter."""
        return self._lifter_height()

    @property
    def zone(self) -> Zone:
        """Return the zone by the zone sense; without one, by the pose of a localised robot."""
        if self.device.zone is not None:
            return self._ask("zone", self.device.zone.read) or Zone.NEITHER
        return Zone.NEITHER if self._zones is None else derived_zone(self._pose_map, self._zones)

    @property
    def _pose_map(self) -> FloatArray | None:
        """Return the pose in `map`; None while the robot is not localised."""
        return self.filter.pose if self.filter.localised else None

    @property
    def drives_on(self) -> bool:
        """Return whether both switches of the drives are on."""
        return self._powered and self._motors_on

    @property
    def path_frame(self) -> tuple[float, float, float]:
        """Return the pose in `odom` of the latest path's frame, as used for its latest conversion."""
        return self._path_frame

    @property
    def sensors(self) -> dict[str, float]:
        """Return the names that `sensed` takes on this robot, each with its rate in Hz."""
        return {name: 1.0 / sensor.period for name, sensor in self._sensors.items()}

    def sensed(self, name: str) -> tuple[float, FloatArray] | None:
        """Return when the newest reading of `position`, `ground`, `light` or `spots.CAMERA` came, and it.

        None without such a sensor, before its first reading and while it is silent.
        """
        sensor = self._sensors.get(name)
        return None if sensor is None or sensor.values is None else (sensor.stamp, sensor.values)

    def sweep(self, ring: str) -> tuple[float, FloatArray]:
        """Return when a ring's newest sweep arrived, and its returns as points x, y in `base_link`."""
        found = self._rings[ring]
        return found.stamp, found.points

    def distances(self, ring: str) -> tuple[float, FloatArray]:
        """Return when a ring's newest sweep was measured, and its distances from the sensors' faces.

        The time is NaN before the first sweep and while the ring is silent.
        """
        found = self._rings[ring]
        return found.taken, found.distances

    def halt(self) -> None:
        """Brake at the robot's limits and drop path and velocity, for example when the program has ended."""
        self._anchored = None
        self.motion.ramp_down()

    # Interface for programs

    def listen(self) -> Ear:
        """Return a new packet queue for `senses`; it gets every packet received from now on."""
        ear = Ear(radio.name for radio in self.device.spec.radios)
        self._ears.append(ear)
        return ear

    def senses(self, ear: Ear | None = None) -> Senses:
        """Return the robot's current state and perception.

        Args:
            ear: the caller's packet queue, from `listen`. Each queue gets each packet once. Callers without
                one share a common queue.
        """
        device, localised = self.device, self.filter.localised
        if self.collision_map is not None and self._latest is not None:
            # Without a new sweep the map must still move with the robot and fade.
            self.collision_map.move(self._latest, self.filter.odometry.pose)
        self._find_carriers()
        if ear is None:
            ear = self._own_ear = self._own_ear or self.listen()
        self._collect()
        points = [ring.points for ring in self._rings.values()]
        returns = np.concatenate(points) if len(points) > 1 else points[0] if points else None
        return Senses(
            time=device.clock.time,
            pose_odom=self.filter.odometry.pose,
            twist_body=self.filter.odometry.twist_body,
            pose_map=self.filter.pose if localised else None,
            pose_covariance=self.filter.covariance[:3, :3] if localised else None,
            heading=self.heading,
            zone=self.zone,
            ranges={name: ring.distances.copy() for name, ring in self._rings.items()},
            points_body=None if returns is None else returns[np.isfinite(returns[:, 0])],
            collision_map=None if self.collision_map is None else self.collision_map.snapshot(),
            carrier=self._carrier,
            underside=self._underside,
            lifter_height=self._lifter_height(),
            battery=None if self.battery is None else self.battery.state,
            heard=ear.take(),
            motion=self._motion_status(),
            refused=dict(self.health.counts),
            wheel_travel=self._rolled(),
            imu=self.imu,
            **self._plain_senses(),
        )

    def _rolled(self) -> FloatArray | None:
        """Return how far each wheel has rolled; None before the first reading, and if it is not finite."""
        travel = None if self._travel is None else np.array(self._travel, np.float64)
        return travel if travel is not None and np.isfinite(travel).all() else None

    def _plain_senses(self) -> dict[str, Any]:
        """Return the fields of `Senses` that hold readings of sensors as they are."""
        there = {name: sensor.values for name, sensor in self._sensors.items() if sensor.values is not None}
        return sensors_as_fields(there)

    def act(self, command: Command) -> None:
        """Carry out a program's command; what the robot cannot do is refused and counted.

        A command with an invalid field is refused as a whole.
        """
        fault = fault_of(command)
        if fault is not None:
            self.health.refuse(*fault)
            return
        if command.power is not None:
            self._switch_power(command.power)
        if command.motors is not None:
            self._switch_motors(command.motors)
        if command.cancel:
            self._anchored = None
            self.motion.cancel()
        if command.path is not None:
            try:
                self.follow(command.path)
            except PathError as error:
                self.health.refuse("command.path", str(error))
        if command.velocity_body is not None:
            self.motion.command(command.velocity_body, self.device.clock.time)
        if command.carrying is not None:
            self._carry(command.carrying)
        if command.lift is not None:
            self._lift(command.lift)
        if command.leds is not None:
            self._show(command.leds)
        if command.send is not None:
            self._send(command.send)

    def follow(self, path: Path) -> None:
        """Follow a path from now on.

        A path in `base_link` is relative to the robot's current pose. A path in `map` requires a localised
        robot. It is converted to `odom`, because poses do not jump there, and corrected on the way as the
        estimate of the robot's pose in `map` changes.

        Raises:
            PathError: the robot cannot follow it.
        """
        pose_odom = self.filter.odometry.pose
        frame = (0.0, 0.0, 0.0)
        if path.frame == "base_link":
            x, y, yaw = pose_odom.tolist()
            frame = (x, y, yaw)
            self.motion.follow(path.in_odom(pose_odom), pose_odom)
        elif path.frame == "map":
            if not self.filter.localised:
                message = "a path in map: the robot does not know where it is; use odom or base_link"
                raise PathError(message)
            anchor = self._map_in_odom()
            x, y, yaw = anchor.tolist()
            frame = (x, y, yaw)
            self.motion.follow(path.in_odom(anchor), pose_odom)
            self._anchored = _Anchored(path, anchor, self.motion.paths, 0)
        else:
            self.motion.follow(path, pose_odom)
        self._path_frame = frame

    def _map_in_odom(self) -> FloatArray:
        """Return the current estimate of the pose of `map` in `odom`."""
        return compose(self.filter.odometry.pose, invert(self.filter.pose))

    def _correct_path(self, now: float) -> None:
        """Convert the current path in `map` again, with the current pose of `map` in `odom`."""
        anchored, motion = self._anchored, self.motion
        if anchored is None or not self._anchor_pace.due(now):
            return
        if motion.paths != anchored.number or motion.mode is not Mode.PATH:
            self._anchored = None
            return
        waypoint = motion.waypoint
        if not self.device.spec.holonomic and waypoint == anchored.waypoint:
            # This robot would have to stop for a correction; at waypoints it stops anyway.
            return
        anchor = self._map_in_odom()
        shift = between(compose(anchored.anchor, self.filter.pose), compose(anchor, self.filter.pose))
        if math.hypot(shift[0], shift[1]) > ANCHOR_SHIFT or abs(shift[2]) > ANCHOR_TURN:
            if not motion.correct(anchored.path.in_odom(anchor)):
                return
            anchored.anchor = anchor
            x, y, yaw = anchor.tolist()
            self._path_frame = (x, y, yaw)
        anchored.waypoint = waypoint

    def place(self, pose_map: Sequence[float]) -> None:
        """Set the robot's pose in `map`, known because it was placed there.

        Raises:
            PathError: the pose is invalid.
        """
        if self.filter.start(pose_map, np.diag(np.square(PLACED_SIGMA))) is not Verdict.INITIALISED:
            message = f"a robot placed at {tuple(pose_map)}: expected x, y in metres and yaw in radians"
            raise PathError(message)

    def _motion_status(self) -> MotionStatus:
        motion = self.motion
        return MotionStatus(
            motion.mode,
            motion.paths,
            motion.waypoint,
            motion.progress,
            motion.player.time_remaining,
            motion.outcome,
        )

    def _collect(self) -> None:
        """Distribute received packets to all queues."""
        for name, radio in self.device.radios.items():
            packets = self._ask(f"radios.{name}", radio.read) or ()
            for ear in self._ears:
                ear.add(name, packets)

    def _switch_power(self, on: bool) -> None:
        """Handle a heartbeat (True), or switch off (False)."""
        self._power_watched = on and self._power.fed(self.device.clock.time)
        if on != self._powered:
            self._powered = on
            self._apply_enable()
            if self.device.power is not None:
                self._ask("power", self.device.power.enable, on)

    def enable(self) -> None:
        """Switch the drives on without watching for a heartbeat, as at the start."""
        self._switch_power(True)
        self._power_watched = False
        self._switch_motors(True)

    def _switch_motors(self, on: bool) -> None:
        self._motors_on = on
        self._apply_enable()

    def _carry(self, carrying: bool) -> None:
        grid = self.collision_map
        if grid is None or self.device.spec.carrier is None:
            self.health.refuse("command.carrying", f"a {self.device.spec.kind} carries nothing")
        elif not carrying:
            grid.release()
        elif not grid.carrying:
            sight = self._underside
            grid.carry((0.0, 0.0, 0.0) if sight is None else sight.pose_body)

    def _lift(self, up: bool) -> None:
        if self.lifter is None:
            self.health.refuse("command.lift", f"a {self.device.spec.kind} has no lifter")
        else:
            self.lifter.command(up)

    def _show(self, colours: Sequence[int]) -> None:
        if self._leds is None or self.device.leds is None:
            self.health.refuse("command.leds", f"a {self.device.spec.kind} has no lights")
        elif self._leds.show(colours):
            self._ask("leds", self.device.leds.show, self._leds.values)

    def _send(self, payloads: Mapping[str, bytes]) -> None:
        for name, payload in payloads.items():
            radio = self.device.radios.get(name)
            room = next((radio.payload_bytes for radio in self.device.spec.radios if radio.name == name), 0)
            if radio is None:
                known = ", ".join(self.device.radios) or "none"
                self.health.refuse("command.send", f"no radio '{name}': there are {known}")
            elif len(payload) > room:
                self.health.refuse("command.send", f"{len(payload)} bytes for {name}: at most {room} fit")
            elif not self._ask(f"radios.{name}", radio.send, payload):
                self.health.refuse("command.send", f"radio {name} refused the payload; send less often")
