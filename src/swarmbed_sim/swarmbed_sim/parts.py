"""Parts of robots in a simulated world: platforms, batteries, radios, LEDs, and what all parts share.

Wheels and inertial sensors are in `bodies`, range sensors in `rings`, cameras in `fiducials`.

State that many robots have is kept in arrays with one row per robot and updated by one compiled call for all
of them. Each robot's parts (`swarmbed_core.device`) are thin views of these rows. Random numbers are drawn in
blocks; each part of each robot has its own generator.
"""

from __future__ import annotations

import math
from bisect import insort
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from swarmbed_core.device import (
    CornerReading,
    ImageReading,
    LifterReading,
    RadioPacket,
    Zone,
)
from swarmbed_core.heading import zone_of
from swarmbed_core.kernel import kernel
from swarmbed_core.leds import LedBar
from swarmbed_core.power import BatteryModel, PowerModel
from swarmbed_core.radio import BEACONS, RadioModel
from swarmbed_core.watchdog import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray
    from swarmbed_core.device import Clock, PowerReading
    from swarmbed_core.discharge import Discharge
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.heading import Zones
    from swarmbed_core.lifter import LifterModel
    from swarmbed_core.spec import Leds as LedsSpec
    from swarmbed_core.spec import Radio as RadioSpec
    from swarmbed_core.spec import RobotSpec

    from swarmbed_sim.bodies import Motors
    from swarmbed_sim.physics import Physics

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

Seen = TypeVar("Seen", CornerReading, ImageReading)

# Columns of `Inventory.carriers`.
LENGTH, WIDTH, CLEARANCE, THICKNESS, LEG, MARKER_ID = range(6)
CARRIER_NUMBERS = 6


class Life:
    """State that all parts of a robot share: its identity, and whether it is alive and powered.

    Attributes:
        name: the robot's.
        row: the robot's, -1 after its removal from the world.
        alive: False once it was killed.
        supplied: whether its switch and its battery supply power.
        on: whether it is alive and supplied.
        off_since: the time at which it last went off.
    """

    __slots__ = ("alive", "name", "off_since", "on", "row", "supplied")

    def __init__(self, name: str, row: int) -> None:
        """Start alive and powered."""
        self.name = name
        self.row = row
        self.alive = self.supplied = self.on = True
        self.off_since = math.inf


class Inventory:
    """Properties of the robots and carriers in a scene, a row each; rows change when robots come or go.

    Attributes:
        sizes: radius, height, length and width of the robots; length and width are 0 for round ones.
        on: which robots are alive and powered.
        localised: which robots detect markers on walls.
        watched: which of the others have a viewer who wants all detections.
        carriers: dimensions and markers of the carriers.
    """

    __slots__ = ("carriers", "localised", "on", "sizes", "watched")

    def __init__(self, sizes: FloatArray, localised: BoolArray, carriers: FloatArray) -> None:
        """Start with all robots on and none watched."""
        self.sizes = sizes
        self.on = np.ones(len(sizes), dtype=np.bool_)
        self.localised = localised
        self.watched = np.zeros(len(sizes), dtype=np.bool_)
        self.carriers = carriers

    def add(self, size: Sequence[float], *, localised: bool) -> None:
        """Append a robot that is on."""
        self.sizes = np.append(self.sizes, [size], axis=0)
        self.on = np.append(self.on, True)
        self.localised = np.append(self.localised, localised)
        self.watched = np.append(self.watched, False)

    def remove(self, row: int) -> None:
        """Remove a robot and decrement the rows after it."""
        self.sizes = np.delete(self.sizes, row, axis=0)
        self.on = np.delete(self.on, row)
        self.localised = np.delete(self.localised, row)
        self.watched = np.delete(self.watched, row)


class Things(NamedTuple):
    """Everything that rays and lines of sight can hit, as arrays for kernels.

    Attributes:
        poses: of the robots.
        sizes: radius, height, length and width of the robots; length and width are 0 for round ones.
        carrier_poses: of the carriers.
        carrier_lifts: of their feet above the floor.
        carriers: rows of `Inventory.carriers`.
        segments: walls and boxes, taken to be higher than any ray.
        pillars: fixed cylinders, taken to be as high.
    """

    poses: FloatArray
    sizes: FloatArray
    carrier_poses: FloatArray
    carrier_lifts: FloatArray
    carriers: FloatArray
    segments: FloatArray
    pillars: FloatArray


def things_of(physics: Physics, inventory: Inventory) -> Things:
    """Return the current things; the arrays are views of the physics' own."""
    return Things(
        physics.poses,
        inventory.sizes,
        physics.carrier_poses,
        physics.carrier_lifts,
        inventory.carriers,
        physics.segments,
        physics.pillars,
    )


class Late(Generic[Seen]):
    """Queue of a robot's camera readings, delayed by their latency: corners (a `CamerasPart`) or images."""

    __slots__ = ("_last", "_pending", "_robot", "_taken", "_world", "latency")

    def __init__(self, world: Clock, robot: Life, latency: tuple[float, float]) -> None:
        """Start empty; `latency` is the mean and sigma of the images' latency in seconds."""
        self.latency = latency
        self._world = world
        self._robot = robot
        self._pending: list[tuple[float, int, Seen]] = []
        self._last: dict[str, float] = {}
        self._taken = 0

    def read(self) -> Sequence[Seen]:
        """Return the readings that have arrived since the last call, oldest first."""
        pending = self._pending
        if not self._robot.on:
            pending.clear()
        if not pending:
            return ()
        now = self._world.time
        if pending[0][0] > now:
            return ()
        arrived = [reading for ready, _, reading in pending if ready <= now]
        del pending[: len(arrived)]
        return arrived

    def forget(self) -> None:
        """Discard all pending readings."""
        self._pending.clear()

    def deliver(self, ready: float, reading: Seen) -> None:
        """Queue a reading for the time `ready`, or later if an earlier one of its camera arrives later."""
        ready = self._last[reading.camera] = max(ready, self._last.get(reading.camera, ready))
        self._taken += 1
        insort(self._pending, (ready, self._taken, reading))


class Beat:
    """The clock of something that happens periodically for many robots at once.

    Attributes:
        rate: in Hz.
        stamp: the time of the latest beat.
        count: number of beats so far.
    """

    __slots__ = ("_pace", "count", "rate", "stamp")

    def __init__(self, rate: float, *, whole: bool = False) -> None:
        """Start with a beat that is due immediately; see `Pace` for `whole`."""
        self.rate = rate
        self.stamp = 0.0
        self.count = 0
        self._pace = Pace(rate, whole=whole)

    def due(self, now: float) -> bool:
        """Return whether a beat is due, and count it."""
        if not self._pace.due(now):
            return False
        self.stamp = now
        self.count += 1
        return True


def roomy(array: NDArray[Any], row: int) -> NDArray[Any]:
    """Return an array that has this row: the same one, or a larger copy padded with zeros."""
    if row < len(array):
        return array
    larger = np.zeros((max(2 * len(array), row + 1, 4), *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


class ZoneSense:
    """The zone sense, from the true pose: a `ZonePart`."""

    __slots__ = ("_physics", "_robot", "_zones")

    def __init__(self, robot: Life, physics: Physics, zones: Zones | None) -> None:
        """Read poses from `physics`."""
        self._robot = robot
        self._physics = physics
        self._zones = zones

    def read(self) -> Zone:
        """Return the robot's zone; `NEITHER` without power."""
        if self._zones is None or not self._robot.on:
            return Zone.NEITHER
        return zone_of(self._physics.poses[self._robot.row], self._zones)


class Lifter:
    """The lifting platform of one robot: a `LifterPart`.

    Attributes:
        moving: whether the set-point is still moving, so that `step` must be called.
        model: computes the set-point that the platform follows in the physics.
    """

    __slots__ = ("_asked", "_physics", "_robot", "_world", "model", "moving")

    def __init__(self, world: Clock, robot: Life, physics: Physics, model: LifterModel) -> None:
        """Start lowered."""
        self.model = model
        self.moving = False
        self._asked = model.lifter.lowered
        self._world = world
        self._robot = robot
        self._physics = physics

    def move(self, height: float) -> None:
        """Command a height in metres above the floor."""
        if height == self._asked or not self._robot.alive:
            return
        if not self.moving:
            # Advance the model's clock, so that idle time does not count as travel time.
            self.model.step(self._world.time, powered=False)
        self.model.move(height)
        if math.isfinite(height):
            self._asked = height
            self.moving = True

    def step(self, now: float, load: float) -> float:
        """Advance the set-point to time `now`, with a load in kg; return it."""
        robot, lifter = self._robot, self.model.lifter
        self.model.step(now, load, powered=robot.on)
        height = self.model.read().height
        self.moving = height != min(max(self._asked, lifter.lowered), lifter.raised)
        return height

    def read(self) -> LifterReading:
        """Return the platform's height."""
        robot = self._robot
        stamp = self._world.time if robot.on else robot.off_since
        if robot.row < 0:
            return LifterReading(stamp, self.model.read().height)
        return LifterReading(stamp, self._physics.heights.item(robot.row))


class Power:
    """The battery and the switch of one robot: a `PowerPart`."""

    __slots__ = ("_on", "_robot", "_switch", "_world", "battery")

    def __init__(
        self, world: Clock, robot: Life, battery: BatteryModel, switch: Callable[[Life], None]
    ) -> None:
        """Draw from `battery`; `switch` is called when the supply goes on or off."""
        self.battery = battery
        self._world = world
        self._robot = robot
        self._switch = switch
        self._on = True

    def enable(self, on: bool) -> None:
        """Switch the supply on or off; off, nothing is drawn."""
        self._on = on
        self.update()

    def update(self) -> None:
        """Apply the state of the switch and of the battery's protection."""
        supplied = self._on and self.battery.powered
        if supplied != self._robot.supplied:
            self._robot.supplied = supplied
            self._switch(self._robot)

    def draw(self, watts: float, seconds: float) -> float:
        """Draw power for a time; return the energy drawn, in Wh."""
        if not self._robot.on:
            return 0.0
        supplied = self.battery.discharge(watts, seconds)
        self.update()
        return watts * supplied / 3600.0

    def read(self) -> PowerReading:
        """Return the battery monitor's reading."""
        robot = self._robot
        return self.battery.reading(self._world.time if robot.alive else robot.off_since)


class MeasuredPower(Power):
    """The battery of one robot, which discharges as measured at the speed of its wheels."""

    __slots__ = ("_course", "_motors")

    def __init__(
        self,
        world: Clock,
        robot: Life,
        battery: BatteryModel,
        switch: Callable[[Life], None],
        course: Discharge,
        motors: Motors,
    ) -> None:
        """Discharge `battery` along `course`; see `Power`."""
        super().__init__(world, robot, battery, switch)
        self._course = course
        self._motors = motors

    def draw(self, watts: float, seconds: float) -> float:  # noqa: ARG002 - the motion alone decides
        """Discharge for a time; return the energy drawn, in Wh."""
        if not self._robot.on:
            return 0.0
        metres = np.array([seconds * self._motors.speed])
        charge = self._course(seconds, metres, np.array([self.battery.state_of_charge]))
        supplied = self.battery.drain(float(charge[0]), seconds)
        self.update()
        return supplied


@kernel
def watts_k(
    models: FloatArray,
    twists: FloatArray,
    pushes: FloatArray,
    on: BoolArray,
    driven: BoolArray,
    out: FloatArray,
) -> None:
    """Compute the power that robots draw, in W; rows of `models` are their `power_numbers`."""
    for i in range(models.shape[0]):
        out[i] = 0.0
        if on[i]:
            speed = math.hypot(twists[i, 0], twists[i, 1])
            effort = min(1.0, pushes[i] / models[i, 3]) if driven[i] else 0.0
            motors = models[i, 1] * speed + models[i, 2] * effort * effort
            out[i] = models[i, 0] + min(motors, models[i, 2])


@kernel
def draw_k(watts: FloatArray, hours: float, metered: BoolArray, energy: FloatArray) -> None:
    """Add what robots draw in `hours` to `energy` in Wh, but not for `metered` ones: their `Power` counts."""
    for i in range(watts.shape[0]):
        if not metered[i]:
            energy[i] += watts[i] * hours


def power_numbers(spec: RobotSpec) -> tuple[float, float, float, float]:
    """Return a robot's base power, its power per m/s and at full torque (W), and its full torque's m/s²."""
    model = PowerModel(spec)
    always = model.watts(cameras=1.0 if spec.cameras else 0.0)
    return always, model.travel_watts, model.torque_watts, spec.limits.acceleration_available


class Radio:
    """One robot's radio on the shared medium: a `RadioPart`.

    Attributes:
        index: its number on the medium.
    """

    __slots__ = ("_air", "_robot", "_world", "index")

    def __init__(self, world: Clock, robot: Life, air: Air, index: int) -> None:
        """Take the number `index` on the medium `air`."""
        self._world = world
        self._robot = robot
        self._air = air
        self.index = index

    def send(self, payload: bytes) -> bool:
        """Broadcast bytes; return whether they will be sent."""
        if not self._robot.on:
            return False
        self._air.loaded = True
        return self._air.model.send(self.index, payload, self._world.time)

    def read(self) -> Sequence[RadioPacket]:
        """Return the packets received since the last call, oldest first."""
        return self._air.model.read(self.index) if self._robot.on else ()


class Air:
    """The medium of one kind of radio, and the ports of the robots that have devices.

    Attributes:
        model: computes who receives what.
        loaded: whether there is something to send.
    """

    __slots__ = ("_beat", "_on", "_ports", "_rows", "loaded", "model")

    def __init__(
        self,
        radio: RadioSpec,
        rng: np.random.Generator,
        names: Sequence[str],
        rows: Sequence[int],
        loss: float | None,
    ) -> None:
        """Create the medium for the robots with these names and rows."""
        self.model = RadioModel(radio, rng, names, loss=loss)
        self.loaded = False
        self._ports: list[Radio] = []
        self._rows = np.array(rows, dtype=np.int64)
        self._on = np.full((len(rows), 1), math.nan)
        # The model has the same pace itself; this one avoids the calls in between.
        self._beat = Beat(radio.rate) if radio.kind in BEACONS else None

    def add(self, world: Clock, robot: Life) -> Radio:
        """Switch a robot's radio on; return its port."""
        index = self._rows.tolist().index(robot.row)
        self._on[index] = 0.0
        port = Radio(world, robot, self, index)
        self._ports.append(port)
        return port

    def join(self, name: str, row: int) -> None:
        """Append a robot, whose radio is off until `add`."""
        self.model.add(name)
        self._rows = np.append(self._rows, row)
        self._on = np.append(self._on, [[math.nan]], axis=0)

    def remove(self, row: int) -> None:
        """Remove a robot, if it is here, and decrement the rows after it."""
        for index in np.flatnonzero(self._rows == row).tolist():
            self.model.remove(index)
            self._rows = np.delete(self._rows, index)
            self._on = np.delete(self._on, index, axis=0)
            self._ports = [port for port in self._ports if port.index != index]
            for port in self._ports:
                port.index -= port.index > index
        self._rows[self._rows > row] -= 1

    def switch(self, row: int, *, on: bool) -> None:
        """Switch a robot's radio on or off; either discards its unread packets."""
        for index in np.flatnonzero(self._rows == row).tolist():
            self._on[index] = 0.0 if on else math.nan
            self.model.read(index)

    def step(self, now: float, physics: Physics) -> None:
        """Deliver what was sent, if this step is due."""
        if self._beat is None:
            if not self.loaded:
                return
            self.loaded = False
        elif not self._beat.due(now):
            return
        self.model.step(now, physics.poses[self._rows] + self._on)


class Leds:
    """The LEDs of one robot: a `LedsPart`."""

    __slots__ = ("_leds", "_robot", "_shine", "bar")

    def __init__(
        self, robot: Life, leds: LedsSpec, shine: Callable[[int, LedsSpec, Sequence[int]], None]
    ) -> None:
        """Start with all LEDs off; `shine` is called with the robot's row when they change."""
        self.bar = LedBar(leds)
        self._leds = leds
        self._robot = robot
        self._shine = shine

    def show(self, colours: Sequence[int]) -> None:
        """Show one packed colour per LED; ignored without power."""
        before = self.bar.values
        if self._robot.on and self.bar.show(colours) and self.bar.values != before:
            self._shine(self._robot.row, self._leds, self.bar.values)

    def go_out(self) -> None:
        """Switch all LEDs off, because there is no power."""
        if any(self.bar.values):
            self.bar.fill(0)
            self._shine(self._robot.row, self._leds, self.bar.values)
