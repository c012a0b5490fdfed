"""One robot's raw parts, each a small protocol.

A world gives virtual parts, hardware drivers give real ones, and a `Device` is any mix of them: that
mix is robot-in-the-loop simulation. `dataclasses.replace(device, lifter=real_lifter)` makes one.

Parts never decide anything: they hand out readings with the stamp at which they were true, and take
set-points. `read()` never blocks; a part that has nothing new returns None or an empty sequence. Readings are
named tuples: thousands are made in a second, and a frozen dataclass takes three times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from swarmbed_core.camera import CameraCalibration
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import MarkerMap
    from swarmbed_core.spec import RobotSpec


class Zone(IntEnum):
    """Which of the task's zones a robot is in (DOTS paper, IV-A)."""

    NEITHER = 0
    SEARCH = 1
    DROP = 2


class MotorReading(NamedTuple):
    """What the wheels did, in the order of the spec's wheels.

    `travel` is what each wheel has rolled since power-up, in metres along its own direction;
    `effort` the share of full torque that the motors deliver, averaged over the wheels.
    """

    stamp: float
    travel: FloatArray
    speeds: FloatArray
    effort: float = 0.0


class ImuReading(NamedTuple):
    """Rates of turn (rad/s) and specific force (m/s2) along the body's axes."""

    stamp: float
    gyro: tuple[float, float, float]
    accel: tuple[float, float, float]


class CompassReading(NamedTuple):
    """Absolute heading: 0 is +x of `map`."""

    stamp: float
    heading: float


class RangeReading(NamedTuple):
    """One sweep of a ring: metres from the face of each sensor, infinity where nothing came back.

    NaN is taken for infinity: a sensor that is broken sees nothing either.
    """

    stamp: float
    distances: FloatArray


class CornerReading(NamedTuple):
    """Markers that one camera saw.

    `stamp` is when the light arrived, which is long before the reading does. `corners` has for each id
    its four corners in pixels: top left, top right, bottom right, bottom left of the marker.
    """

    stamp: float
    camera: str
    ids: NDArray[np.int64]
    corners: FloatArray


class ImageReading(NamedTuple):
    """What one camera saw, as grey levels; `stamp` is when the light arrived."""

    stamp: float
    camera: str
    image: NDArray[np.uint8]


class PowerReading(NamedTuple):
    """What the battery monitor measures: volts of each cell and amperes drawn."""

    stamp: float
    cell_voltages: tuple[float, ...]
    current: float


class LifterReading(NamedTuple):
    """Height of the lifting platform above the floor, in metres."""

    stamp: float
    height: float


class RadioPacket(NamedTuple):
    """Something heard: who sent it, what it holds, how strong or how far it was.

    Attributes:
        stamp: [s] time of reception, on the robot's clock.
        sender: name of the robot that sent it.
        payload: [bytes] what was sent; empty from `uwb`, and from `ble` without an advertisement.
        rssi: [dBm] received power. None from radios that do not measure it.
        distance: [m] measured distance. None from radios that do not measure it.
    """

    stamp: float
    sender: str
    payload: bytes = b""
    rssi: float | None = None
    distance: float | None = None


class Clock(Protocol):
    """The only clock there is: the world's, or the machine's on a real robot."""

    @property
    def time(self) -> float:
        """Return seconds since some start; it is not wall time and not an absolute date."""
        ...


class Motors(Protocol):
    """The wheels."""

    def enable(self, on: bool) -> None:
        """Switch the drives on, or let the wheels run free."""
        ...

    def drive(self, speeds: FloatArray) -> None:
        """Ask for wheel speeds in m/s along each wheel's direction."""
        ...

    def read(self) -> MotorReading:
        """Return the newest reading."""
        ...


class LifterPart(Protocol):
    """The lifting platform's servo."""

    def move(self, height: float) -> None:
        """Ask for a height in metres above the floor."""
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
        """Return a reading that was not handed out yet."""
        ...


class ZonePart(Protocol):
    """The synthetic sense of the task's zones."""

    def read(self) -> Zone:
        """Return the zone the robot is in now."""
        ...


class RangesPart(Protocol):
    """One ring of distance sensors."""

    def read(self) -> RangeReading | None:
        """Return a sweep that was not handed out yet."""
        ...


class CamerasPart(Protocol):
    """All cameras with their marker detectors."""

    def read(self) -> Sequence[CornerReading]:
        """Return the detections that were not handed out yet, oldest first."""
        ...


@runtime_checkable
class WatchedCameras(CamerasPart, Protocol):
    """Cameras whose detectors find more than what the robot looks for, if somebody wants to know.

    Who watches changes nothing of what `read` returns.
    """

    def walls(self) -> MarkerMap | None:
        """Return the markers on the walls around."""
        ...

    def watch(self, wanted: bool) -> None:
        """Say whether all that the detectors find is wanted from now on."""
        ...

    def sights(self) -> Sequence[CornerReading]:
        """Return all that was found while somebody watched and was not handed out yet, oldest first."""
        ...


class ImageWatcher(Protocol):
    """One of those who look at a robot's images."""

    def watch(self, cameras: Collection[str]) -> None:
        """Say of which cameras this one wants images from now on; it gets no others."""
        ...

    def read(self) -> Sequence[ImageReading]:
        """Return the images that this one has not been handed yet, oldest first."""
        ...

    def close(self) -> None:
        """Look no more."""
        ...


class ImagesPart(Protocol):
    """The cameras' images; cameras that nobody watches need not take any."""

    def watcher(self) -> ImageWatcher:
        """Return a watcher of one's own: several take nothing from each other."""
        ...


class PowerPart(Protocol):
    """The battery monitor and the power switch."""

    def enable(self, on: bool) -> None:
        """Switch the robot's supplies."""
        ...

    def read(self) -> PowerReading:
        """Return the newest reading."""
        ...


class RadioPart(Protocol):
    """One radio."""

    def send(self, payload: bytes) -> bool:
        """Broadcast bytes to whoever hears; return whether they will be sent."""
        ...

    def read(self) -> Sequence[RadioPacket]:
        """Return what was heard and not handed out yet, oldest first."""
        ...


class LedsPart(Protocol):
    """The lights."""

    def show(self, colours: Sequence[int]) -> None:
        """Show one packed colour a light."""
        ...


@dataclass(frozen=True, kw_only=True)
class Device:
    """One robot's parts. Only the motors and the clock are sure to be there.

    Attributes:
        calibrations: intrinsics of the cameras that were calibrated, by name; others are ideal.
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
