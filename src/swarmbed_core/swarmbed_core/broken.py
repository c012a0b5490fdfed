"""Parts from outside the world with the defects that an experiment injects.

A world breaks its own parts. Those that come from elsewhere it cannot reach: `with_faults` puts a layer over
them that reads the robot's `Faults` at each call. A dead robot's motors stand, its sensors return nothing
new; a dead distance sensor measures infinity. Slip and drift change what the wheels really turn, and the
reading hides it, unless the body is in the world, where it slips (`BothMotors`).
"""

from __future__ import annotations

import math
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from swarmbed_core.both import BothMotors
from swarmbed_core.device import (
    HOLD,
    CamerasPart,
    CompassPart,
    CompassReading,
    ImagesPart,
    ImageWatcher,
    ImuPart,
    ImuReading,
    LedsPart,
    LifterPart,
    LifterReading,
    MotorReading,
    Motors,
    PowerPart,
    PowerReading,
    RadioPart,
    RangesPart,
    SensorPart,
    SensorReading,
    Zone,
    ZonePart,
    sensors_as_fields,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from swarmbed_core.device import (
        CornerReading,
        Device,
        Faults,
        ImageReading,
        RadioPacket,
        RangeReading,
    )
    from swarmbed_core.geometry import FloatArray

T = TypeVar("T")
P = TypeVar("P")


def with_faults(device: Device, virtual: Device) -> Device:
    """Return a device whose parts have the virtual device's faults, those that are not the virtual ones."""
    faults = virtual.faults

    def over(part: Any, own: Any, layer: Any) -> Any:
        return part if part is None or part is own else layer(part, faults)

    own = virtual.sensors
    sensors = {name: over(part, own.get(name), _Sensor) for name, part in device.sensors.items()}

    rng = np.random.default_rng(zlib.crc32(device.name.encode()))
    return replace(
        device,
        faults=faults,
        motors=over(device.motors, virtual.motors, _Motors),
        lifter=over(device.lifter, virtual.lifter, _Lifter),
        imu=over(device.imu, virtual.imu, _Imu),
        compass=over(device.compass, virtual.compass, _Compass),
        zone=over(device.zone, virtual.zone, _Zone),
        ranges={
            name: part if part is virtual.ranges.get(name) else _Ranges(part, faults, name)
            for name, part in device.ranges.items()
        },
        cameras=over(device.cameras, virtual.cameras, _Cameras),
        images=over(device.images, virtual.images, _Images),
        power=over(device.power, virtual.power, _Power),
        radios={
            name: part if part is virtual.radios.get(name) else _Radio(part, faults, rng)
            for name, part in device.radios.items()
        },
        leds=over(device.leds, virtual.leds, _Leds),
        **sensors_as_fields(sensors),
    )


class _Layer(Generic[P]):
    """A layer over a part."""

    __slots__ = ("_faults", "_part")

    def __init__(self, part: P, faults: Faults) -> None:
        self._part, self._faults = part, faults


class _Motors(_Layer[Motors]):
    """Motors of a robot that may be dead, slip, or drift."""

    __slots__ = ("_hidden", "_last", "_rolled", "_slips")

    def __init__(self, part: Motors, faults: Faults) -> None:
        super().__init__(part, faults)
        self._last: MotorReading | None = None
        # The part's travel, and the metres that readings add to it.
        self._rolled: FloatArray | None = None
        self._hidden: FloatArray | None = None
        self._slips = not isinstance(part, BothMotors)

    def enable(self, on: bool) -> None:
        self._part.enable(on and not self._faults.dead)

    def drive(self, speeds: FloatArray, hold: float = HOLD) -> None:
        faults = self._faults
        if faults.dead:
            speeds = np.zeros(len(speeds))
        elif self._slips and (faults.slip or faults.drift):
            speeds = np.asarray(speeds) * self._grip(len(speeds))
        self._part.drive(speeds, hold)

    def _grip(self, wheels: int) -> FloatArray:
        """Return how far each wheel rolls, relative to what it was told and what it reports."""
        grip = np.full(wheels, 1.0 - self._faults.slip)
        for wheel, share in self._faults.drift.items():
            grip[wheel] *= share
        return grip

    def read(self) -> MotorReading:
        faults, last = self._faults, self._last
        if faults.dead and last is not None:
            # Read on, for the reading may move a body.
            self._part.read()
            return last
        reading = self._part.read()
        rolled = reading.travel
        if self._slips and (faults.slip or faults.drift or self._hidden is not None):
            reading = self._hide(reading)
        self._last, self._rolled = reading, rolled
        return reading

    def _hide(self, reading: MotorReading) -> MotorReading:
        """Return a reading as if the wheels had turned farther than they did, since the last one."""
        if self._hidden is None:
            self._hidden = np.zeros(len(reading.travel))
        grip = self._grip(len(reading.travel))
        if self._rolled is not None:
            self._hidden = self._hidden + (reading.travel - self._rolled) * (1.0 / grip - 1.0)
        return reading._replace(travel=reading.travel + self._hidden, speeds=reading.speeds / grip)


class _Newest(_Layer[P], Generic[P, T]):
    """A part that always has a reading: that of a dead robot gets old."""

    __slots__ = ("_last",)

    def __init__(self, part: P, faults: Faults) -> None:
        super().__init__(part, faults)
        self._last: T | None = None

    def read(self) -> T:
        if not self._faults.dead or self._last is None:
            self._last = self._part.read()  # type: ignore[attr-defined]
        return self._last


class _Imu(_Newest[ImuPart, ImuReading]):
    __slots__ = ()


class _Power(_Newest[PowerPart, PowerReading]):
    __slots__ = ()

    def enable(self, on: bool) -> None:
        self._part.enable(on)


class _Lifter(_Newest[LifterPart, LifterReading]):
    __slots__ = ()

    def move(self, height: float) -> None:
        if not self._faults.dead:
            self._part.move(height)


class _Silenced(_Layer[P], Generic[P, T]):
    """A part that may have no reading: that of a dead robot has none."""

    __slots__ = ()

    def read(self) -> T | None:
        reading: T | None = self._part.read()  # type: ignore[attr-defined]
        return None if self._faults.dead else reading


class _Compass(_Silenced[CompassPart, CompassReading]):
    __slots__ = ()


class _Sensor(_Silenced[SensorPart, SensorReading]):
    __slots__ = ()


class _Zone(_Layer[ZonePart]):
    __slots__ = ()

    def read(self) -> Zone:
        return Zone.NEITHER if self._faults.dead else self._part.read()


class _Ranges(_Layer[RangesPart]):
    """A ring with dead sensors."""

    __slots__ = ("_ring",)

    def __init__(self, part: RangesPart, faults: Faults, ring: str) -> None:
        super().__init__(part, faults)
        self._ring = ring

    def read(self) -> RangeReading | None:
        reading, dead = self._part.read(), self._faults.sensors.get(self._ring)
        if reading is None or self._faults.dead:
            return None
        if not dead:
            return reading
        distances = np.array(reading.distances, dtype=np.float64)
        distances[[sensor for sensor in dead if sensor < len(distances)]] = math.inf
        return reading._replace(distances=distances)


class _Images(_Layer[ImagesPart]):
    __slots__ = ()

    def watcher(self) -> ImageWatcher:
        return _Watcher(self._part.watcher(), self._faults)


class _Watcher(_Layer[ImageWatcher]):
    __slots__ = ()

    def watch(self, cameras: Collection[str]) -> None:
        self._part.watch(cameras)

    def read(self) -> Sequence[ImageReading]:
        readings = self._part.read()
        return () if self._faults.dead else readings

    def close(self) -> None:
        self._part.close()


class _Cameras(_Layer[CamerasPart]):
    __slots__ = ()

    def read(self) -> Sequence[CornerReading]:
        readings = self._part.read()
        return () if self._faults.dead else readings


class _Radio(_Layer[RadioPart]):
    """A radio of a robot that may be dead, or lose packets."""

    __slots__ = ("_rng",)

    def __init__(self, part: RadioPart, faults: Faults, rng: np.random.Generator) -> None:
        super().__init__(part, faults)
        self._rng = rng

    def send(self, payload: bytes) -> bool:
        return not self._faults.dead and self._part.send(payload)

    def read(self) -> Sequence[RadioPacket]:
        packets, loss = self._part.read(), self._faults.radio_loss
        if self._faults.dead:
            return ()
        return [packet for packet in packets if self._rng.random() >= loss] if loss else packets


class _Leds(_Layer[LedsPart]):
    __slots__ = ()

    def show(self, colours: Sequence[int]) -> None:
        self._part.show([0] * len(colours) if self._faults.dead else colours)
