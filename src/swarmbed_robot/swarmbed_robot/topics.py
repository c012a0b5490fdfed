"""The topics that a robot publishes, each declared once: name, type, quality of service, rate, encoder.

The API (`api`) publishes them while they have subscribers, a run's recording takes those with `recorded`,
and live views take what they show. All use the same encoders, which need no ROS.

To add a standard topic, add an encoder and an entry of `TOPICS` here, and a row in docs/robot_api.md.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from swarmbed_core.device import Zone

from swarmbed_robot.cdr import LITTLE_ENDIAN
from swarmbed_robot.laser import Laser
from swarmbed_robot.templates import (
    SLOT,
    Template,
    cloud,
    grid_template,
    message,
    returns_k,
    stamped,
    types,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from swarmbed_core.collision_map import CollisionMap
    from swarmbed_core.device import ImuReading
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.onboard import Onboard
    from swarmbed_core.power import BatteryState
    from swarmbed_core.robot import Senses
    from swarmbed_core.spec import Battery, RangeRing, RobotSpec

BODY = "base_link"
DISCHARGING, CHARGING, GOOD, DEAD = 2, 1, 1, 3
"""States and healths of a sensor_msgs/BatteryState."""


class Quality(Enum):
    """Quality of service of a topic; `qos` has the profiles."""

    SENSOR = "best effort"
    OUTPUT = "reliable"
    FRAMES = "reliable, with a long queue"
    LATCHED = "latched: late subscribers get the last message"
    IMAGE = "reliable; slow subscribers get the newest"


@dataclass(frozen=True)
class Rate:
    """A rate that users may set, in Hz.

    Attributes:
        name: name of the option.
        default: its default value.
        text: what it is, for `--help`.
        high: largest value.
    """

    name: str
    default: float
    text: str
    high: float = 100.0


class Clock(Protocol):
    """The time of the messages.

    Attributes:
        now: the current time, as seconds and nanoseconds of the ROS clock.
    """

    now: tuple[int, int]

    def at(self, seconds: float, /) -> tuple[int, int]:
        """Return a time of the robot's clock as seconds and nanoseconds of the ROS clock."""
        ...


class Known(Protocol):
    """What a robot knows: an Onboard's (`Live`), or what its program has sensed (`Sensed`)."""

    @property
    def points(self) -> FloatArray | None:
        """Return the newest returns of all rings about the centre; rows without a return may be NaN."""
        ...

    @property
    def sweeps(self) -> Sequence[float]:
        """Return the time of each ring's newest sweep."""
        ...

    def distances(self, ring: str, /) -> tuple[float, FloatArray | None]:
        """Return the time of a ring's newest sweep, NaN for none, and its distances."""
        ...

    @property
    def collision_map(self) -> CollisionMap | None:
        """Return what was seen around the robot lately."""
        ...

    @property
    def imu(self) -> ImuReading | None:
        """Return the newest rates and accelerations."""
        ...

    @property
    def heading(self) -> float | None:
        """Return the absolute heading."""
        ...

    @property
    def zone(self) -> Zone:
        """Return the zone that the robot is in."""
        ...

    @property
    def lifter_height(self) -> float | None:
        """Return the height of the platform."""
        ...

    @property
    def battery(self) -> BatteryState | None:
        """Return the battery's state."""
        ...

    def sensed(self, sensor: str, /) -> tuple[float, FloatArray] | None:
        """Return the time and the values of a sensor's newest reading, of those in `Owner.sensors`."""
        ...


class Live:
    """What an Onboard knows now."""

    __slots__ = ("_onboard", "_rings")

    def __init__(self, onboard: Onboard) -> None:
        """Look at an Onboard."""
        self._onboard = onboard
        self._rings = [ring.name for ring in onboard.device.spec.ranges]

    @property
    def points(self) -> FloatArray | None:
        """Return the newest returns of all rings; NaN for none."""
        points = [self._onboard.sweep(ring)[1] for ring in self._rings]
        return points[0] if len(points) == 1 else np.concatenate(points) if points else None

    @property
    def sweeps(self) -> list[float]:
        """Return the time of each ring's newest sweep."""
        return [self._onboard.sweep(ring)[0] for ring in self._rings]

    def distances(self, ring: str) -> tuple[float, FloatArray]:
        """Return a ring's newest sweep."""
        return self._onboard.distances(ring)

    @property
    def collision_map(self) -> CollisionMap | None:
        """Return what was seen lately."""
        return self._onboard.collision_map

    @property
    def imu(self) -> ImuReading | None:
        """Return the newest reading."""
        return self._onboard.imu

    @property
    def heading(self) -> float | None:
        """Return the absolute heading."""
        return self._onboard.heading

    @property
    def zone(self) -> Zone:
        """Return the zone."""
        return self._onboard.zone

    @property
    def lifter_height(self) -> float | None:
        """Return the platform's height."""
        return self._onboard.lifter_height

    @property
    def battery(self) -> BatteryState | None:
        """Return the battery's state."""
        monitor = self._onboard.battery
        return None if monitor is None else monitor.state

    def sensed(self, sensor: str) -> tuple[float, FloatArray] | None:
        """Return a sensor's newest reading."""
        return self._onboard.sensed(sensor)


class Sensed:
    """What a program has sensed. All times are that of the senses."""

    __slots__ = (
        *("points", "sweeps", "collision_map", "imu", "heading", "zone", "lifter_height", "battery"),
        "_senses",
    )

    def __init__(self, senses: Senses) -> None:
        """Look at a program's senses."""
        self._senses = senses
        self.points, self.collision_map = senses.points_body, senses.collision_map
        self.sweeps, self.imu = [senses.time], senses.imu
        self.heading, self.zone = senses.heading, senses.zone
        self.lifter_height, self.battery = senses.lifter_height, senses.battery

    def distances(self, ring: str) -> tuple[float, FloatArray | None]:
        """Return a ring's newest distances."""
        return self._senses.time, self._senses.ranges.get(ring)

    def sensed(self, sensor: str) -> tuple[float, FloatArray] | None:
        """Return a sensor's newest reading."""
        name, _, camera = sensor.partition(".")
        values = getattr(self._senses, name)
        found = values.get(camera) if camera else values
        return None if found is None else (self._senses.time, found)


class Encoder(Protocol):
    """Makes the serialised messages of one topic of one robot.

    Attributes:
        waits: whether to ask for `news` before a message that is due.
    """

    waits: ClassVar[bool]

    def ready(self) -> None:
        """Compile or load now what the first message would have to wait for."""
        ...

    def news(self, known: Known, /) -> bool:
        """Return whether there is something new to send."""
        ...

    def __call__(self, known: Known, clock: Clock, /) -> bytes | None:
        """Return the message, None if there is nothing to send."""
        ...


@dataclass(frozen=True)
class Owner:
    """The robot that topics belong to.

    Attributes:
        name: name of the robot, the prefix of its frames.
        spec: its specification.
        map_cell: cell size of the collision map in metres.
        sensors: rates in Hz of the sensors whose values are published as they are (`Onboard.sensors`).
    """

    name: str
    spec: RobotSpec
    map_cell: float = 0.03
    sensors: Mapping[str, float] = field(default_factory=dict)

    @property
    def body(self) -> str:
        """Return the frame at the robot's centre."""
        return f"{self.name}_{BODY}"


class Plain(NamedTuple):
    """A sensor whose values are published as they are: its name in the topic, its name, and its rate."""

    name: str
    sensor: str
    rate: float


def whole(robot: Owner) -> Sequence[Any]:
    """Return the only part of a topic that each robot has once."""
    return (robot.spec,)


def only(part: str) -> Callable[[Owner], Sequence[Any]]:
    """Return what finds a part that a robot has once or not at all, such as `imu`."""

    def find(robot: Owner) -> Sequence[Any]:
        found = getattr(robot.spec, part)
        return () if found is None else (found,)

    return find


def _forever(_: Any) -> float:
    return math.inf


@dataclass(frozen=True)
class Topic:
    """An output topic of a robot.

    Attributes:
        name: its name below `/<robot>/`; `{part}` stands for the name of a ring or camera.
        kind: its ROS type.
        quality: its quality of service.
        rate: highest rate of messages; None if it is sent on change, or once.
        parts: returns the parts of a robot that have such a topic each; empty for robots without it.
        fastest: returns the rate in Hz at which a part has news.
        encoder: makes the encoder of a robot's part; None if the messages are made elsewhere.
        recorded: rate in Hz at which a run's recording takes what the encoder makes; 0 for not at all.
    """

    name: str
    kind: str
    quality: Quality = Quality.OUTPUT
    rate: Rate | None = None
    parts: Callable[[Owner], Sequence[Any]] = whole
    fastest: Callable[[Any], float] = _forever
    encoder: Callable[[Owner, Any], Encoder] | None = None
    recorded: float = 0.0

    def names(self, robot: Owner) -> dict[str, Any]:
        """Return the names of a robot's topics, with the part that each belongs to."""
        return {self.name.format(part=getattr(part, "name", "")): part for part in self.parts(robot)}

    def hertz(self, part: Any, rates: Mapping[str, Any]) -> float:
        """Return the highest rate of messages, given the users' rates."""
        wanted = math.inf if self.rate is None else float(rates[self.rate.name])
        fastest = min(wanted, self.fastest(part))
        return fastest if math.isfinite(fastest) else 1.0


class _Plain:
    """An encoder that always has something to send, and needs no preparation."""

    waits: ClassVar[bool] = False

    def __init__(self, robot: Owner, part: Any) -> None:
        """Take no notice of robot and part."""

    def ready(self) -> None:
        """Do nothing."""

    def news(self, known: Known) -> bool:  # noqa: ARG002 - the protocol's
        """Return True."""
        return True


class Scan(_Plain):
    """The returns of all rings as a cloud of points."""

    waits: ClassVar[bool] = True

    def __init__(self, robot: Owner, part: Any) -> None:
        """Use the height of the first ring for all."""
        super().__init__(robot, part)
        self._frame = robot.body
        self._most = sum(ring.count for ring in robot.spec.ranges)
        self._height = robot.spec.ranges[0].mount_height
        self._clouds: dict[int, Template] = {}
        self._returns = np.empty((self._most, 3), np.float32)
        self._seen: Sequence[float] = ()

    def ready(self) -> None:
        """Load the kernel, and prepare the messages of all sizes."""
        returns_k(np.full((1, 2), math.nan), 0.0, self._returns)
        for count in range(self._most + 1):
            self._cloud(count)

    def _cloud(self, count: int) -> Template:
        """Return the message for a number of points, on which the layout of the bytes depends."""
        if count not in self._clouds:
            self._clouds[count] = Template(cloud(self._frame, count))
        return self._clouds[count]

    def news(self, known: Known) -> bool:
        """Return whether a ring has a new sweep since the last call."""
        seen, self._seen = self._seen, known.sweeps
        return any(a != b for a, b in zip(self._seen, seen, strict=True)) if seen else True

    def __call__(self, known: Known, clock: Clock) -> bytes | None:
        """Return the finite points."""
        points = known.points
        if points is None:
            return None
        count = returns_k(points, self._height, self._returns)
        template = self._cloud(count)
        if count:
            # The points are followed only by the flag `is_dense`.
            template.data[-1 - 12 * count : -1] = self._returns[:count].data.cast("B")
        template.stamp(*clock.now)
        return bytes(template.data)


class Grid(_Plain):
    """The collision map as percentages."""

    def __init__(self, robot: Owner, part: Any) -> None:
        """Use the robot's cell size."""
        super().__init__(robot, part)
        self._robot = robot
        self._template: Template | None = None
        self._size = 0

    def __call__(self, known: Known, clock: Clock) -> bytes | None:
        """Return the map around the robot; its cells are the last bytes of the message."""
        if known.collision_map is None:
            return None
        cells = known.collision_map.as_grid(self._robot.map_cell)
        template = self._template
        if template is None or cells.size != self._size:
            self._size = cells.size
            template = Template(grid_template(self._robot.body, len(cells), self._robot.map_cell))
            self._template = template
        template.data[-cells.size :] = np.rint(100.0 * cells).astype(np.int8).tobytes()
        template.stamp(*clock.now)
        return bytes(template.data)


class Inertia(_Plain):
    """Rates of turn and accelerations, without orientation."""

    def __init__(self, robot: Owner, part: Any) -> None:
        """Take the covariances from the specification."""
        super().__init__(robot, part)
        self._template = Template(imu_message(f"{robot.name}_imu_link", robot.spec))
        self._values = np.zeros(6)

    def ready(self) -> None:
        """Load the kernel."""
        self._template.fill(self._values)

    def __call__(self, known: Known, clock: Clock) -> bytes | None:
        """Return the newest reading."""
        reading = known.imu
        if reading is None:
            return None
        self._values[:3], self._values[3:] = reading.gyro, reading.accel
        self._template.fill(self._values)
        self._template.stamp(*clock.now)
        return bytes(self._template.data)


class Heading(_Plain):
    """The absolute heading, as a Float32."""

    def __call__(self, known: Known, _: Clock) -> bytes | None:
        """Return it, if it is known."""
        heading = known.heading
        return None if heading is None else LITTLE_ENDIAN + struct.pack("<f", heading)


class ZoneNumber(_Plain):
    """The zone, as a number."""

    def __call__(self, known: Known, _: Clock) -> bytes | None:
        """Return it."""
        return LITTLE_ENDIAN + bytes((int(known.zone),))


class DropZone(_Plain):
    """Whether the robot is in the drop zone, as a Bool."""

    def __call__(self, known: Known, _: Clock) -> bytes | None:
        """Return it."""
        return LITTLE_ENDIAN + bytes((known.zone == Zone.DROP,))


class Height(_Plain):
    """The height of the platform, as a Float32."""

    def __call__(self, known: Known, _: Clock) -> bytes | None:
        """Return it, if it is known."""
        height = known.lifter_height
        return None if height is None else LITTLE_ENDIAN + struct.pack("<f", height)


class Charge(_Plain):
    """The battery's state in ROS's units."""

    def __init__(self, robot: Owner, part: Battery) -> None:
        """Compute the capacity."""
        super().__init__(robot, part)
        self._robot = robot
        self._capacity_ah = capacity_ah(part)

    def __call__(self, known: Known, clock: Clock) -> bytes | None:
        """Return the newest state, stamped with its own time."""
        state = known.battery
        if state is None:
            return None
        template = Template(
            message(
                "sensor_msgs/msg/BatteryState",
                header=stamped(self._robot.body),
                voltage=state.voltage,
                temperature=math.nan,
                current=-state.current,
                charge=state.state_of_charge * self._capacity_ah,
                capacity=self._capacity_ah,
                design_capacity=self._capacity_ah,
                percentage=state.state_of_charge,
                power_supply_status=CHARGING if state.current < 0 else DISCHARGING,
                power_supply_health=DEAD if state.undervoltage else GOOD,
                present=True,
                cell_voltage=state.cell_voltages,
                cell_temperature=[math.nan] * len(state.cell_voltages),
                location="robot",
                serial_number=self._robot.name,
            )
        )
        template.stamp(*clock.at(state.stamp))
        return bytes(template.data)


class Position(_Plain):
    """The place by the position sensor, as a point in `map`."""

    def __init__(self, robot: Owner, part: Any) -> None:
        """Prepare the message."""
        super().__init__(robot, part)
        point = message("geometry_msgs/msg/Point", x=SLOT, y=SLOT)
        self._template = Template(
            message("geometry_msgs/msg/PointStamped", header=stamped("map"), point=point)
        )

    def __call__(self, known: Known, clock: Clock) -> bytes | None:
        """Return the newest reading, stamped with its own time."""
        sensed = known.sensed("position")
        if sensed is None:
            return None
        self._template.fill(sensed[1])
        self._template.stamp(*clock.at(sensed[0]))
        return bytes(self._template.data)


class Numbers(_Plain):
    """The values of a sensor as they are, with their shape."""

    def __init__(self, robot: Owner, part: Plain) -> None:
        """Take the sensor's name."""
        super().__init__(robot, part)
        self._sensor = part.sensor
        self._heads: dict[tuple[int, ...], bytes] = {}

    def __call__(self, known: Known, _: Clock) -> bytes | None:
        """Return the newest reading; its numbers are the last bytes of the message."""
        sensed = known.sensed(self._sensor)
        if sensed is None:
            return None
        values = sensed[1]
        if values.shape not in self._heads:
            made = types().serialize_cdr(numbers_message(values.shape), "std_msgs/msg/Float64MultiArray")
            self._heads[values.shape] = bytes(made)[: len(made) - 8 * values.size]
        return self._heads[values.shape] + values.astype("<f8").tobytes()


def numbers_message(shape: tuple[int, ...]) -> Any:
    """Return a Float64MultiArray of rows, or of rows and columns, all 0."""
    # The stride of a dimension counts all numbers from it on.
    dimensions = [
        message("std_msgs/msg/MultiArrayDimension", label=label, size=shape[k], stride=math.prod(shape[k:]))
        for k, label in enumerate(("row", "column")[: len(shape)])
    ]
    layout = message("std_msgs/msg/MultiArrayLayout", dim=dimensions)
    return message("std_msgs/msg/Float64MultiArray", layout=layout, data=np.zeros(math.prod(shape)))


def capacity_ah(battery: Battery) -> float:
    """Return the full charge in ampere hours: the energy divided by the mean open-circuit voltage."""
    shares, volts = np.array(battery.state_of_charge), np.array(battery.open_circuit)
    mean = float(np.diff(shares) @ (volts[1:] + volts[:-1])) / 2
    return battery.capacity_wh / (battery.cells * mean)


def imu_message(frame: str, spec: RobotSpec) -> Any:
    """Return an Imu message with slots for rates and accelerations, and without orientation."""
    imu = spec.imu
    gyro, accel = (0.0, 0.0) if imu is None else (imu.gyro_sigma**2, imu.accel_sigma**2)
    unknown = np.zeros(9)
    unknown[0] = -1.0
    return message(
        "sensor_msgs/msg/Imu",
        header=stamped(frame),
        orientation_covariance=unknown,
        angular_velocity=message("geometry_msgs/msg/Vector3", x=SLOT, y=SLOT, z=SLOT),
        angular_velocity_covariance=np.diag([gyro] * 3).reshape(-1),
        linear_acceleration=message("geometry_msgs/msg/Vector3", x=SLOT, y=SLOT, z=SLOT),
        linear_acceleration_covariance=np.diag([accel] * 3).reshape(-1),
    )


def _laser(robot: Owner, ring: RangeRing) -> Encoder:
    return Laser(robot.body, ring)


def _rings(robot: Owner) -> Sequence[Any]:
    return robot.spec.ranges


def _has_rings(robot: Owner) -> Sequence[Any]:
    return (robot.spec,) if robot.spec.ranges else ()


def _cameras(robot: Owner) -> Sequence[Any]:
    return robot.spec.cameras


def _has_radios(robot: Owner) -> Sequence[Any]:
    return (robot.spec,) if robot.spec.radios else ()


def _plain(robot: Owner) -> Sequence[Plain]:
    return [Plain(name.replace(".", "/"), name, rate) for name, rate in robot.sensors.items()]


def _positions(robot: Owner) -> Sequence[Plain]:
    return [each for each in _plain(robot) if each.sensor == "position"]


def _numbers(robot: Owner) -> Sequence[Plain]:
    return [each for each in _plain(robot) if each.sensor != "position"]


def _own(part: Any) -> float:
    """Return the rate of a sensor or camera."""
    return float(part.rate)


SENSES = Rate("senses_rate", 10.0, "messages per second on senses; each ticks the robot's program")
SCAN = Rate("scan_rate", 50.0, "highest message rate of sensor/scan and sensor/laser/<ring>, Hz")
IMU = Rate("imu_rate", 100.0, "messages per second on sensor/imu")
COMPASS = Rate("compass_rate", 50.0, "messages per second on sensor/compass")
ZONE = Rate("zone_rate", 10.0, "messages per second on sensor/zone and sensor/dropzone")
ODOM = Rate("odom_rate", 50.0, "messages per second on odom and odometry/filtered")
FRAMES = Rate("tf_rate", 50.0, "messages per second on the robot's own tf")
LIFTER = Rate("lifter_rate", 10.0, "messages per second on lifter_height")
BATTERY = Rate("battery_rate", 1.0, "messages per second on battery_state", 10.0)
MAP = Rate("map_rate", 5.0, "messages per second on collision_map", 50.0)

_IMAGE, _PACKED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"

TOPICS = (
    Topic(
        "sensor/scan",
        "sensor_msgs/msg/PointCloud2",
        Quality.SENSOR,
        SCAN,
        _has_rings,
        encoder=Scan,
        recorded=5.0,
    ),
    Topic(
        "collision_map", "nav_msgs/msg/OccupancyGrid", rate=MAP, parts=_has_rings, encoder=Grid, recorded=2.0
    ),
    Topic(
        "sensor/laser/{part}", "sensor_msgs/msg/LaserScan", Quality.SENSOR, SCAN, _rings, _own, encoder=_laser
    ),
    Topic("sensor/imu", "sensor_msgs/msg/Imu", rate=IMU, parts=only("imu"), encoder=Inertia),
    Topic("sensor/compass", "std_msgs/msg/Float32", rate=COMPASS, parts=only("compass"), encoder=Heading),
    Topic(
        "sensor/position",
        "geometry_msgs/msg/PointStamped",
        parts=_positions,
        fastest=_own,
        encoder=Position,
    ),
    # Each further sensor of several numbers has such a topic without an entry of its own.
    Topic("sensor/{part}", "std_msgs/msg/Float64MultiArray", parts=_numbers, fastest=_own, encoder=Numbers),
    Topic("sensor/zone", "swarmbed_interfaces/msg/Zone", rate=ZONE, encoder=ZoneNumber),
    Topic("sensor/dropzone", "std_msgs/msg/Bool", Quality.SENSOR, ZONE, encoder=DropZone),
    Topic("odom", "nav_msgs/msg/Odometry", rate=ODOM),
    Topic("odometry/filtered", "nav_msgs/msg/Odometry", rate=ODOM),
    Topic("tf", "tf2_msgs/msg/TFMessage", Quality.FRAMES, FRAMES),
    Topic("path", "nav_msgs/msg/Path", Quality.LATCHED),
    Topic("tf_static", "tf2_msgs/msg/TFMessage", Quality.LATCHED),
    Topic("lifter_height", "std_msgs/msg/Float32", rate=LIFTER, parts=only("lifter"), encoder=Height),
    Topic(
        "battery_state",
        "sensor_msgs/msg/BatteryState",
        rate=BATTERY,
        parts=only("battery"),
        encoder=Charge,
    ),
    Topic("{part}_tags", "dots_interfaces/msg/TagArray", parts=_cameras, fastest=_own),
    Topic("radio", "swarmbed_interfaces/msg/RadioScan", rate=SENSES, parts=_has_radios),
    Topic("reflect_out", "std_msgs/msg/Float64"),
    # Latched: a program that starts while the world waits for it needs the current senses.
    Topic("senses", "swarmbed_interfaces/msg/Senses", Quality.LATCHED, SENSES),
    Topic("info", "swarmbed_interfaces/msg/RobotInfo", Quality.LATCHED),
    Topic("robot_description", "std_msgs/msg/String", Quality.LATCHED),
    Topic("{part}/image", _IMAGE, Quality.IMAGE, parts=_cameras, fastest=_own),
    Topic("{part}/image/compressed", _PACKED, Quality.IMAGE, parts=_cameras, fastest=_own),
    Topic("{part}/image_tags", _IMAGE, Quality.IMAGE, parts=_cameras, fastest=_own),
    Topic("{part}/image_tags/compressed", _PACKED, Quality.IMAGE, parts=_cameras, fastest=_own),
    Topic("{part}/camera_info", "sensor_msgs/msg/CameraInfo", parts=_cameras),
)
RATES = (SENSES, SCAN, IMU, COMPASS, ZONE, ODOM, FRAMES, LIFTER, BATTERY, MAP)


def topics_of(robot: Owner) -> dict[str, tuple[Topic, Any]]:
    """Return a robot's topics by name below `/<robot>/`, each with the part that it belongs to."""
    return {name: (topic, part) for topic in TOPICS for name, part in topic.names(robot).items()}


def encoders_of(robot: Owner, *, recorded: bool = False) -> dict[str, tuple[Topic, Encoder]]:
    """Return the topics of a robot that have encoders, by name below `/<robot>/`.

    Args:
        robot: the robot.
        recorded: whether to return only those that recordings take.
    """
    return {
        name: (topic, topic.encoder(robot, part))
        for name, (topic, part) in topics_of(robot).items()
        if topic.encoder is not None and (topic.recorded or not recorded)
    }
