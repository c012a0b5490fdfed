"""One robot's raw parts, each a small protocol.

A world provides virtual parts, hardware drivers real ones. A `Device` combines any of them; a mix is
robot-in-the-loop simulation, for example `dataclasses.replace(device, lifter=real_lifter)`. In scenarios,
`swarmbed_core.outfit` composes devices.

Parts contain no logic: they return readings with the time of measurement, and take set-points. `read()` never
blocks; a part without new data returns None or an empty sequence. Readings are named tuples, because
thousands are created each second and a frozen dataclass takes three times as long to create.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from swarmbed_core.camera import CameraCalibration
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import MarkerMap
    from swarmbed_core.spec import RobotSpec


HOLD = 0.5
"""Seconds for which wheel speeds hold by default. Onboard sets them a hundred times a second."""


class Zone(IntEnum):
    """The zone of the task that a robot is in (DOTS paper, IV-A)."""

    NEITHER = 0
    SEARCH = 1
    DROP = 2


class MotorReading(NamedTuple):
    """Wheel motion, in the order of the spec's wheels.

    `travel` is the distance each wheel has rolled since power-up, in metres along its own direction. `speeds`
    are in m/s. `effort` is the mean of the motors' torques, as a share of full torque.
    """

    stamp: float
    travel: FloatArray
    speeds: FloatArray
    effort: float = 0.0


class ImuReading(NamedTuple):
    """Angular rates (rad/s) and specific force (m/s2) along the body's axes."""

    stamp: float
    gyro: tuple[float, float, float]
    accel: tuple[float, float, float]


class CompassReading(NamedTuple):
    """Absolute heading in rad: 0 is +x of `map`."""

    stamp: float
    heading: float


class RangeReading(NamedTuple):
    """One sweep of a ring: metres from the face of each sensor, infinity without a return.

    NaN, for example from a broken sensor, counts as infinity.
    """

    stamp: float
    distances: FloatArray


class CornerReading(NamedTuple):
    """Marker detections of one camera.

    `stamp` is the time of exposure, well before the reading arrives. `corners` (n, 4, 2) holds the corners of
    each id in pixels: top left, top right, bottom right, bottom left of the marker.
    """

    stamp: float
    camera: str
    ids: NDArray[np.int64]
    corners: FloatArray


class ImageReading(NamedTuple):
    """A grey image of one camera; `stamp` is the time of exposure."""

    stamp: float
    camera: str
    image: NDArray[np.uint8]


class SensorReading(NamedTuple):
    """What a sensor of several numbers measured; the field of `Device` says what they are."""

    stamp: float
    values: FloatArray


class PowerReading(NamedTuple):
    """The battery monitor's measurements: voltage of each cell (V) and current drawn (A)."""

    stamp: float
    cell_voltages: tuple[float, ...]
    current: float


class LifterReading(NamedTuple):
    """Height of the lifting platform above the floor, in metres."""

    stamp: float
    height: float


class RadioPacket(NamedTuple):
    """A received radio packet: its sender, its payload, and its signal strength or distance.

    Attributes:
        stamp: [s] time of reception, on the robot's clock.
        sender: name of the robot that sent it.
        payload: [bytes] the data; empty from `uwb`, and from `ble` without an advertisement.
        rssi: [dBm] received power. None from radios that do not measure it.
        distance: [m] measured distance. None from radios that do not measure it.
    """

    stamp: float
    sender: str
    payload: bytes = b""
    rssi: float | None = None
    distance: float | None = None


class Clock(Protocol):
    """The robot's only clock: the world's, or the machine's on a real robot."""

    @property
    def time(self) -> float:
        """Return seconds since an arbitrary start, not wall time."""
        ...


class Motors(Protocol):
    """The wheels."""

    def enable(self, on: bool) -> None:
        """Switch the drives on, or off so that the wheels run free."""
        ...

    def drive(self, speeds: FloatArray, hold: float = HOLD) -> None:
        """Set the wheel speeds, in m/s along each wheel's direction.

        The wheels stop by themselves unless new speeds come within `hold` seconds.
        """
        ...

    def read(self) -> MotorReading:
        """Return the newest reading."""
        ...


class LifterPart(Protocol):
    """The lifting platform's servo."""

    def move(self, height: float) -> None:
        """Set the height, in metres above the floor."""
        ...

    def read(self) -> LifterReading:
        """Return the newest reading."""
        ...


class ImuPart(Protocol):
    """Gyroscope and accelerometer."""

    def read(self) -> ImuReading:
        """Return the newest reading."""
        ...


class CompassPart(Protocol):
    """The sense of absolute heading."""

    def read(self) -> CompassReading | None:
        """Return a new reading, or None."""
        ...


class ZonePart(Protocol):
    """The synthetic sense of the task's zones."""

    def read(self) -> Zone:
        """Return the zone the robot is in now."""
        ...


class RangesPart(Protocol):
    """One ring of distance sensors."""

    def read(self) -> RangeReading | None:
        """Return a new sweep, or None."""
        ...


class SensorPart(Protocol):
    """A sensor of several numbers, which programs get as they are."""

    def read(self) -> SensorReading | None:
        """Return a new reading, or None."""
        ...


class CamerasPart(Protocol):
    """All cameras with their marker detectors."""

    def read(self) -> Sequence[CornerReading]:
        """Return the new detections, oldest first."""
        ...


@runtime_checkable
class WatchedCameras(CamerasPart, Protocol):
    """Cameras whose detectors can also report markers that the robot does not use.

    Watching never alters what `read` returns.
    """

    def walls(self) -> MarkerMap | None:
        """Return the map of the wall markers, if there is one."""
        ...

    def watch(self, wanted: bool) -> None:
        """Start or stop recording all detections for `sights`."""
        ...

    def sights(self) -> Sequence[CornerReading]:
        """Return all new detections made while watching, oldest first."""
        ...


class ImageWatcher(Protocol):
    """One reader of a robot's images."""

    def watch(self, cameras: Collection[str]) -> None:
        """Select the cameras whose images this watcher gets from now on."""
        ...

    def read(self) -> Sequence[ImageReading]:
        """Return the images that are new to this watcher, oldest first."""
        ...

    def close(self) -> None:
        """Stop watching."""
        ...


class ImagesPart(Protocol):
    """The cameras' images; cameras without a watcher need not take any."""

    def watcher(self) -> ImageWatcher:
        """Return a new watcher; each watcher gets all images, independent of others."""
        ...


class PowerPart(Protocol):
    """The battery monitor and the power switch."""

    def enable(self, on: bool) -> None:
        """Switch the robot's supplies on or off."""
        ...

    def read(self) -> PowerReading:
        """Return the newest reading."""
        ...


class RadioPart(Protocol):
    """One radio."""

    def send(self, payload: bytes) -> bool:
        """Broadcast bytes; return whether they will be sent."""
        ...

    def read(self) -> Sequence[RadioPacket]:
        """Return the new packets, oldest first."""
        ...


class LedsPart(Protocol):
    """The lights."""

    def show(self, colours: Sequence[int]) -> None:
        """Show one packed colour per light."""
        ...


class Outside(Protocol):
    """Connection to parts in another process, on another machine, or to hardware."""

    @property
    def name(self) -> str:
        """Return what is connected, such as `motors at udp://dots1:7400`."""
        ...

    @property
    def real(self) -> bool:
        """Return whether its time is real time, so that the world can neither hurry nor be reset."""
        ...

    @property
    def there(self) -> bool:
        """Return whether the parts answer."""
        ...

    @property
    def losses(self) -> int:
        """Return how often they stopped answering."""
        ...

    @property
    def state(self) -> Mapping[str, str]:
        """Return details for diagnostics, by name."""
        ...


@dataclass(slots=True)
class Faults:
    """Defects of one robot that an experiment has injected; parts from outside the world have them too.

    Attributes:
        dead: whether the robot is dead: nothing moves and nothing is sensed.
        sensors: numbers of the dead distance sensors, by ring.
        slip: share of the wheels' motion that is lost.
        drift: how far each wheel rolls, by its number, relative to what it reports; 1 for those not named.
        radio_loss: share of the receptions that are lost.
    """

    dead: bool = False
    sensors: dict[str, set[int]] = field(default_factory=dict)
    slip: float = 0.0
    drift: dict[int, float] = field(default_factory=dict)
    radio_loss: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Device:
    """One robot's parts. Only the motors and the clock are mandatory.

    Attributes:
        calibrations: intrinsics of the calibrated cameras, by name; others are ideal.
        outside: connections to the parts that are outside this process.
        faults: defects that an experiment injects. The world acts on its own parts; `swarmbed_core.outfit`
            makes the others obey.
        opened: closes what was opened for the parts: register it with `opened.callback(link.close)`.
        position: x, y in `map`, in metres.
        ground: reflectance of the floor below each ground sensor, from 0 (black) to 1 (white).
        light: brightness at each light sensor, from 0 (dark) to 1 (blinded).
        spots: by camera, the coloured lights in view: rows of column, row (px), red, green, blue (0 to 255).
    """

    name: str
    spec: RobotSpec
    clock: Clock
    motors: Motors
    lifter: LifterPart | None = None
    imu: ImuPart | None = None
    compass: CompassPart | None = None
    zone: ZonePart | None = None
    ranges: Mapping[str, RangesPart] = field(default_factory=dict)
    cameras: CamerasPart | None = None
    images: ImagesPart | None = None
    calibrations: Mapping[str, CameraCalibration] = field(default_factory=dict)
    power: PowerPart | None = None
    radios: Mapping[str, RadioPart] = field(default_factory=dict)
    leds: LedsPart | None = None
    position: SensorPart | None = None
    ground: SensorPart | None = None
    light: SensorPart | None = None
    spots: Mapping[str, SensorPart] = field(default_factory=dict)
    outside: tuple[Outside, ...] = ()
    faults: Faults = field(default_factory=Faults)
    opened: ExitStack[bool | None] = field(default_factory=ExitStack, repr=False, compare=False)

    @property
    def real(self) -> bool:
        """Return whether a part runs in real time, so that the world can neither hurry nor be reset."""
        return any(connection.real for connection in self.outside)

    @property
    def sensors(self) -> dict[str, SensorPart]:
        """Return the sensors of several numbers, by name: `position`, ..., `spots.CAMERA`."""
        found: dict[str, SensorPart] = {}
        for name in SENSORS:
            part = getattr(self, name)
            if isinstance(part, Mapping):
                found.update((f"{name}.{which}", one) for which, one in part.items())
            elif part is not None:
                found[name] = part
        return found

    def close(self) -> None:
        """Close what was opened for the parts, the newest first; nothing the second time."""
        self.opened.close()


SENSORS = tuple(item.name for item in fields(Device) if SensorPart.__name__ in str(item.type))
"""Fields of `Device` that hold sensors of several numbers: one each, or by name."""


def sensors_as_fields(sensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is named like `Device.sensors` by field; `spots.CAMERA` is in the mapping `spots`."""
    found: dict[str, Any] = {}
    for name, item in sensors.items():
        field_name, _, which = name.partition(".")
        if which:
            found.setdefault(field_name, {})[which] = item
        else:
            found[field_name] = item
    return found
