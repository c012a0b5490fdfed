"""Robot specifications: the validated contents of config/robots/*.yaml.

A `RobotSpec` describes drive, body, sensors and radios of one kind of robot. All code takes the robot's
dimensions from here, and URDF, MJCF and SDF are generated from the same file, so that no number is written
twice. Lengths are in metres; angles are in radians, counter-clockwise from the robot's +x.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import Field, field_validator, model_validator

from swarmbed_core.config import ConfigFile, Part

P = TypeVar("P", "RangeRing", "Camera", "Radio")
# Larger numbers are typing errors, and would exhaust the machine's memory or time.
LARGEST = 1e6
MOST = 10_000

Positive = Annotated[float, Field(gt=0, le=LARGEST)]
NotNegative = Annotated[float, Field(ge=0, le=LARGEST)]
Rate = Annotated[float, Field(ge=0.1, le=MOST)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class DiscBody(Part):
    """A body with a circular outline seen from above."""

    shape: Literal["disc"]
    radius: Positive
    height: Positive
    mass: Positive

    @property
    def bounding_radius(self) -> float:
        """Return the radius of the smallest circle about the robot's centre that holds the body."""
        return self.radius


class BoxBody(Part):
    """A body with a rectangular outline seen from above, centred on the robot."""

    shape: Literal["box"]
    length: Positive
    width: Positive
    height: Positive
    mass: Positive

    @property
    def bounding_radius(self) -> float:
        """Return the radius of the smallest circle about the robot's centre that holds the body."""
        return math.hypot(self.length, self.width) / 2


Body = Annotated[DiscBody | BoxBody, Field(discriminator="shape")]


class Limits(Part):
    """Motion limits of the body; speed, acceleration and jerk are magnitudes in the plane."""

    speed: Positive
    acceleration: Positive
    acceleration_available: Positive
    jerk: Positive
    yaw_rate: Positive
    yaw_acceleration: Positive
    yaw_jerk: Positive

    @model_validator(mode="after")
    def _acceleration_is_available(self) -> Limits:
        if self.acceleration > self.acceleration_available:
            message = f"acceleration {self.acceleration} is above acceleration_available"
            raise ValueError(message)
        return self


class Wheels(Part):
    """Wheels, motors and encoders, common to all drives.

    `slip_sigma` is the standard deviation of the share of a wheel's travel that slips, in either direction.
    `slip_time` is its correlation time in seconds; with 0 the slip is independent in every cycle.
    """

    radius: Positive
    max_speed: Positive
    torque: Positive
    encoder_ticks: Annotated[int, Field(gt=0)]
    gear_ratio: Positive = 1.0
    slip_sigma: NotNegative = 0.0
    slip_time: NotNegative = 0.0
    speed_sigma: NotNegative = 0.0


class OmniDrive(Part):
    """Omniwheels on a circle, each rolling along the tangent: a holonomic robot."""

    kind: Literal["omni"]
    wheel_angles: Annotated[tuple[float, ...], Field(min_length=3)]
    centre_to_wheel: Positive
    wheels: Wheels

    @property
    def holonomic(self) -> bool:
        """Return whether the robot can move sideways."""
        return True


class DifferentialDrive(Part):
    """Two wheels on one axle through the robot's centre, the left one first."""

    kind: Literal["differential"]
    wheel_separation: Positive
    wheels: Wheels

    @property
    def holonomic(self) -> bool:
        """Return whether the robot can move sideways."""
        return False


Drive = Annotated[OmniDrive | DifferentialDrive, Field(discriminator="kind")]


class Pid(Part):
    """Gains of one PID controller, and the limit of the integral term."""

    p: NotNegative
    i: NotNegative
    d: NotNegative
    integral_limit: NotNegative


class Control(Part):
    """Motion control: its rate in Hz, its timeouts in seconds, its PIDs along x, y and yaw of the body."""

    rate: Rate
    command_timeout: Positive
    power_timeout: Positive
    linear: Pid
    yaw: Pid


class RangeError(Part):
    """Error model of a time-of-flight distance sensor (DOTS paper, Figure 7).

    `bias_at` and `bias` tabulate the mean error over the distance. Below `multipath_below` a share of the
    returns lies on lines of slope 2 and 3. Beyond the sensor's `range_max` all returns drop out.
    """

    sigma: NotNegative
    bias_at: tuple[NotNegative, ...] = (0.0,)
    bias: tuple[float, ...] = (0.0,)
    sigma_far: NotNegative = 0.0
    multipath_below: NotNegative = 0.0
    multipath_slope2: Fraction = 0.0
    multipath_slope3: Fraction = 0.0
    dropout: Fraction = 0.0
    dropout_from: NotNegative = 0.0

    @model_validator(mode="after")
    def _tables_match(self) -> RangeError:
        if len(self.bias) != len(self.bias_at) or list(self.bias_at) != sorted(set(self.bias_at)):
            message = "bias_at must be strictly increasing, with one bias for each distance"
            raise ValueError(message)
        if self.multipath_slope2 + self.multipath_slope3 > 1:
            message = "multipath_slope2 and multipath_slope3 together exceed 1"
            raise ValueError(message)
        return self


class RangeRing(Part):
    """Distance sensors around the body, all of one kind.

    `reflection_cone` is the full angle about a surface's normal within which it reflects a ray back. A sonar
    pulse that arrives at a flatter angle is reflected away and gives no return. Without the field all rays
    return. Robots are no mirrors: with the field they are discs with their collision radius, in all worlds.
    """

    name: str
    kind: Literal["tof", "infrared", "sonar"]
    angles: Annotated[tuple[float, ...], Field(min_length=1, max_length=MOST)]
    mount_radius: NotNegative
    mount_height: NotNegative
    field_of_view: Annotated[float, Field(gt=0, lt=math.pi)]
    rays: Annotated[int, Field(ge=1, le=100)]
    range_min: NotNegative
    range_max: Positive
    rate: Rate
    resolution: NotNegative = 0.0
    reflection_cone: Annotated[float, Field(gt=0, le=math.pi)] | None = None
    error: RangeError

    @model_validator(mode="after")
    def _range_is_not_empty(self) -> RangeRing:
        if self.range_min >= self.range_max:
            message = f"range_max ({self.range_max}) must be above range_min ({self.range_min})"
            raise ValueError(message)
        return self

    @property
    def count(self) -> int:
        """Return the number of sensors."""
        return len(self.angles)


class Imu(Part):
    """Gyroscope, accelerometer and magnetometer."""

    rate: Rate
    gyro_sigma: NotNegative
    gyro_bias_sigma: NotNegative
    gyro_bias_walk: NotNegative
    accel_sigma: NotNegative


class Compass(Part):
    """A compass that measures the absolute heading."""

    rate: Rate
    sigma: NotNegative


class Positioning(Part):
    """A position sensor: measures the robot's position in `map`, like a satellite receiver."""

    sigma: NotNegative
    rate: Rate = 10.0


class CameraLatency(Part):
    """Latency from lens to algorithm at a refresh rate and with a number of cameras in use."""

    refresh_hz: Rate
    cameras: Annotated[int, Field(ge=1)]
    mean: Positive
    sigma: NotNegative


class Camera(Part):
    """One camera: its pose on the robot, its resolution and its field of view.

    Yaw 0 and pitch 0 look along the robot's +x; pitch pi/2 looks straight up. `range_max` is the distance up
    to which it detects coloured lights; without it, the robot has no such detector.
    """

    name: str
    x: float
    y: float
    z: float
    yaw: float
    pitch: float = 0.0
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    horizontal_fov: Annotated[float, Field(gt=0, lt=math.pi)]
    rate: Rate
    corner_sigma_px: NotNegative = 0.0
    range_max: Positive | None = None
    on_lifter: bool = False


class Lifter(Part):
    """The lifting platform: heights of the platform's top, time of a full travel, maximum load."""

    lowered: Positive
    raised: Positive
    travel_time: Positive
    max_load: Positive

    @model_validator(mode="after")
    def _raised_is_higher(self) -> Lifter:
        if self.raised <= self.lowered:
            message = f"raised ({self.raised}) must be above lowered ({self.lowered})"
            raise ValueError(message)
        return self


class Radio(Part):
    """One radio: reach, payload, rate and loss.

    `rssi_at_1m`, `path_loss_exponent` and `rssi_sigma` apply to radios that measure the received power,
    `range_sigma` to those that measure distances.
    """

    name: str
    kind: Literal["ble", "uwb", "packet", "infrared"]
    range_max: Positive
    payload_bytes: Annotated[int, Field(ge=0, le=1_000_000)]
    rate: Rate
    loss: Fraction = 0.0
    beam: Annotated[float, Field(gt=0, le=2 * math.pi)] = 2 * math.pi
    rssi_at_1m: float | None = None
    path_loss_exponent: Positive | None = None
    rssi_sigma: NotNegative = 0.0
    range_sigma: NotNegative | None = None

    @model_validator(mode="after")
    def _power_has_both_numbers(self) -> Radio:
        if (self.rssi_at_1m is None) != (self.path_loss_exponent is None):
            message = "rssi_at_1m and path_loss_exponent belong together: give both or neither"
            raise ValueError(message)
        return self


class Leds(Part):
    """Programmable lights, in the order in which their values are sent.

    Attributes:
        count: number of lights.
        places: x, y, z of each; empty if not needed.
        colours: colours that each can show; empty if not needed.
    """

    count: Annotated[int, Field(ge=1, le=MOST)]
    places: tuple[tuple[float, float, float], ...] = ()
    colours: tuple[Literal["red", "green", "rgb"], ...] = ()

    @model_validator(mode="after")
    def _one_for_each(self) -> Leds:
        if self.places and not len(self.places) == len(self.colours) == self.count:
            message = f"places and colours: expected one for each of the {self.count} lights"
            raise ValueError(message)
        return self


class GroundSensors(Part):
    """Reflectance sensors that face the floor.

    Attributes:
        places: x, y of each.
        noise: bound of their uniformly distributed error, as a share of the full scale.
        rate: in Hz.
    """

    places: Annotated[tuple[tuple[float, float], ...], Field(min_length=1)]
    noise: Fraction = 0.0
    rate: Rate = 10.0


class LightSensors(Part):
    """Light sensors at the positions of a ring of distance sensors.

    Attributes:
        ring: name of the ring.
        noise: bound of their uniformly distributed error, as a share of the full scale.
        rate: in Hz.
    """

    ring: str
    noise: Fraction = 0.0
    rate: Rate = 10.0


class Carrier(Part):
    """The tray that a robot drives under and lifts."""

    length: Positive
    width: Positive
    clearance: Positive
    mass: Positive
    max_payload: Positive
    leg_radius: Positive


class OperatingPoint(Part):
    """One of the paper's totals: what is switched on, and how long a charge then lasts.

    `random_walk` and `full_torque` are the shares of the time that the motors run in these modes.
    """

    name: str
    computer_load: Fraction
    cameras: Fraction
    random_walk: Fraction
    full_torque: Fraction
    watts: Positive
    hours: Positive


class Supply(Part):
    """One output of the power supply."""

    name: str
    volts: Positive
    amperes: Positive


class Battery(Part):
    """The battery and what draws from it (DOTS paper, Table IV)."""

    capacity_wh: Positive
    efficiency: Annotated[float, Field(gt=0, le=1)]
    cells: Annotated[int, Field(ge=1, le=MOST)]
    cell_empty: Positive
    cell_full: Positive
    cell_cutoff: Positive
    cell_resistance: NotNegative
    state_of_charge: Annotated[tuple[Fraction, ...], Field(min_length=2)]
    open_circuit: Annotated[tuple[Positive, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _curve_matches(self) -> Battery:
        if len(self.state_of_charge) != len(self.open_circuit):
            message = "state_of_charge and open_circuit must have the same length"
            raise ValueError(message)
        if list(self.state_of_charge) != sorted(set(self.state_of_charge)):
            message = "state_of_charge must be strictly increasing"
            raise ValueError(message)
        if list(self.open_circuit) != sorted(set(self.open_circuit)):
            message = "open_circuit must be strictly increasing"
            raise ValueError(message)
        if self.cell_empty >= self.cell_full:
            message = f"cell_empty ({self.cell_empty}) must be below cell_full ({self.cell_full})"
            raise ValueError(message)
        if self.cell_cutoff >= self.open_circuit[-1]:
            message = f"cell_cutoff ({self.cell_cutoff}) must be below the voltage of a full cell"
            raise ValueError(message)
        return self


class Consumption(Part):
    """Power in watts of each subsystem, and the paper's totals as a check.

    The computer draws between `computer_idle` and `computer_busy`, in proportion to its load. `cameras` is
    the power of all cameras together.
    """

    mainboard: NotNegative
    computer_idle: NotNegative = 0.0
    computer_busy: NotNegative = 0.0
    cameras: NotNegative = 0.0
    motors_random_walk: NotNegative = 0.0
    motors_random_walk_speed: Positive | None = None
    motors_full_torque: NotNegative = 0.0
    operating_points: tuple[OperatingPoint, ...] = ()

    @model_validator(mode="after")
    def _walk_has_a_speed(self) -> Consumption:
        if self.motors_random_walk > 0 and self.motors_random_walk_speed is None:
            message = "motors_random_walk needs motors_random_walk_speed, the speed it was measured at"
            raise ValueError(message)
        return self


class RobotSpec(ConfigFile):
    """One kind of robot.

    Attributes:
        readings: the plugin that gives its senses in its own units, such as `epuck2`.
    """

    FOLDER: ClassVar[str] = "config/robots"

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    title: str
    paper: str
    body: Body
    limits: Limits
    drive: Drive
    control: Control
    ranges: tuple[RangeRing, ...] = ()
    imu: Imu | None = None
    compass: Compass | None = None
    positioning: Positioning | None = None
    cameras: tuple[Camera, ...] = ()
    camera_latency: tuple[CameraLatency, ...] = ()
    lifter: Lifter | None = None
    radios: tuple[Radio, ...] = ()
    leds: Leds | None = None
    ground: GroundSensors | None = None
    light: LightSensors | None = None
    readings: Annotated[str, Field(min_length=1)] | None = None
    battery: Battery | None = None
    consumption: Consumption | None = None
    supplies: tuple[Supply, ...] = ()
    carrier: Carrier | None = None

    @field_validator("ranges", "cameras", "radios")
    @classmethod
    def _names_differ(cls, parts: tuple[P, ...]) -> tuple[P, ...]:
        names = [part.name for part in parts]
        if len(set(names)) != len(names):
            message = f"two parts have the same name among {', '.join(names)}"
            raise ValueError(message)
        return parts

    @model_validator(mode="after")
    def _parts_fit(self) -> RobotSpec:
        if self.lifter is None and any(camera.on_lifter for camera in self.cameras):
            message = "cameras: one is on_lifter, but there is no lifter"
            raise ValueError(message)
        if self.light is not None and self.light.ring not in {ring.name for ring in self.ranges}:
            message = f"light: ring: there is no '{self.light.ring}' among ranges"
            raise ValueError(message)
        if self.carrier is not None and self.carrier.length != self.carrier.width:
            message = "carrier: length and width must be the same, because its sides share one marker id"
            raise ValueError(message)
        return self

    @property
    def holonomic(self) -> bool:
        """Return whether the robot can move sideways."""
        return self.drive.holonomic

    @property
    def sensors(self) -> dict[str, tuple[tuple[int, ...], float]]:
        """Return shape and rate of what the sensors of `Device.sensors` measure, by name.

        A first dimension of -1 may have any size.
        """
        found: dict[str, tuple[tuple[int, ...], float]] = {}
        if self.positioning is not None:
            found["position"] = (2,), self.positioning.rate
        if self.ground is not None:
            found["ground"] = (len(self.ground.places),), self.ground.rate
        if self.light is not None:
            ring = next(ring for ring in self.ranges if ring.name == self.light.ring)
            found["light"] = (ring.count,), self.light.rate
        seeing = (camera for camera in self.cameras if camera.range_max is not None and camera.pitch == 0.0)
        found.update((f"spots.{camera.name}", ((-1, 5), camera.rate)) for camera in seeing)
        return found
