"""Generators: lost messages, dead sensors and robots, moved carriers, slip, motion noise, a blocked zone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.heading import Area
from swarmbed_core.spec import Fraction, NotNegative, Positive

from swarmbed_experiments.frame.transducers import FLOOR, retrieved

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene

    from swarmbed_experiments.frame import Look, Setting

TRIES = 500
"""Number of places tried for a carrier in one tick."""
BLOCK_LENGTH = 0.5
BLOCK_WIDTH = 0.1
"""Size in metres of a box that blocks a zone: the most along the edge, and across it."""

STANDS = 0.002
"""Speed in m/s up to which a robot counts as standing."""

AtLeastOne = Annotated[int, Field(ge=1)]


class RadioLossParameters(Part):
    """How many messages are lost.

    Attributes:
        share: share of the receptions that fail, from 0 to 1.
    """

    share: Fraction = 0.3


class RadioLoss:
    """Loses messages at random, for each receiver independently."""

    Parameters: ClassVar[type[Part]] = RadioLossParameters

    def __init__(self, parameters: RadioLossParameters, setting: Setting, rng: np.random.Generator) -> None:  # noqa: ARG002 - the world's radios draw
        """Set the loss in the world."""
        setting.world.set_radio_loss(parameters.share)

    def tick(self, look: Look) -> None:
        """Do nothing more."""


class DeadSensorParameters(Part):
    """How many distance sensors of each robot die, and when.

    Attributes:
        count: number of sensors of each robot.
        after: [s] time at which they die.
    """

    count: AtLeastOne = 1
    after: NotNegative = 0.0


class DeadSensor:
    """Disables distance sensors of every robot, chosen at random."""

    Parameters: ClassVar[type[Part]] = DeadSensorParameters

    def __init__(self, parameters: DeadSensorParameters, setting: Setting, rng: np.random.Generator) -> None:
        """Choose the sensors.

        Raises:
            ConfigError: a robot has fewer than `count`.
        """
        self._after = parameters.after
        self._setting = setting
        self._chosen: list[tuple[str, str, int]] = []
        for placement in setting.scene.robots:
            sensors = [(ring.name, i) for ring in placement.spec.ranges for i in range(ring.count)]
            if len(sensors) < parameters.count:
                what = f"{placement.name} has {len(sensors)} distance sensors, not {parameters.count}"
                message = f"generator dead_sensor: {what}; lower `count`"
                raise ConfigError(message)
            for k in sorted(rng.choice(len(sensors), parameters.count, replace=False).tolist()):
                self._chosen.append((placement.name, *sensors[k]))
        if self._after <= 0:
            self._kill(0.0)

    def tick(self, look: Look) -> None:
        """Kill them when it is time."""
        if self._chosen and look.time >= self._after:
            self._kill(look.time)

    def _kill(self, time: float) -> None:
        for name, ring, sensor in self._chosen:
            if name not in self._setting.world.names:
                continue
            self._setting.world.kill_sensor(name, ring, sensor)
            self._setting.tell(time, "dead_sensor", name, f"distance sensor {sensor} of {ring} dies")
        self._chosen = []


class RobotDeathParameters(Part):
    """How many robots die, and when.

    Attributes:
        count: number of robots that die.
        while_carrying: number of these that die while they carry a carrier; the others die in the open.
        after: [s] time before which no robot dies.
    """

    count: AtLeastOne = 1
    while_carrying: Annotated[int, Field(ge=0)] = 0
    after: NotNegative = 20.0

    @model_validator(mode="after")
    def _carriers_are_of_them(self) -> RobotDeathParameters:
        if self.while_carrying > self.count:
            message = f"while_carrying is {self.while_carrying}; it must not exceed count, {self.count}"
            raise ValueError(message)
        return self


class RobotDeath:
    """Kills robots; their bodies stay where they are.

    Robots that die without a load do so in the open: a body below a carrier would block that carrier as a
    dead bearer does, and the number of lost carriers would be left to chance.
    """

    Parameters: ClassVar[type[Part]] = RobotDeathParameters

    def __init__(self, parameters: RobotDeathParameters, setting: Setting, rng: np.random.Generator) -> None:
        """Check the number of robots.

        Raises:
            ConfigError: there are fewer than `count`.
        """
        count = len(setting.scene.robots)
        if parameters.count > count:
            message = f"generator robot_death: count is {parameters.count}, with {count} robots"
            raise ConfigError(message)
        self._after = parameters.after
        self._carrying = parameters.while_carrying
        self._others = parameters.count - parameters.while_carrying
        self._setting = setting
        self._rng = rng

    def tick(self, look: Look) -> None:
        """Kill the robots that are due."""
        if look.time < self._after or not (self._carrying or self._others):
            return
        dead = self._setting.dead
        busy = sorted({int(row) for row in look.carriers.carried_by if row >= 0})
        for row in busy:
            if self._carrying and look.names[row] not in dead:
                self._carrying -= 1
                self._kill(look.time, look.names[row], "dies while carrying")
        idle = [
            row
            for row, name in enumerate(look.names)
            if row not in busy and name not in dead and self._in_the_open(row, look)
        ]
        while self._others and idle:
            self._others -= 1
            row = idle.pop(int(self._rng.integers(len(idle))))
            self._kill(look.time, look.names[row], "dies")

    def _in_the_open(self, row: int, look: Look) -> bool:
        """Return whether no carrier is above a robot, not even in part."""
        scene = self._setting.scene
        radius = self._setting.specs[look.names[row]].body.bounding_radius
        return all(
            math.hypot(pose[0] - look.robots[row, 0], pose[1] - look.robots[row, 1])
            > radius + math.hypot(item.carrier.length, item.carrier.width) / 2
            for pose, item in zip(look.carriers.poses, scene.carriers, strict=True)
        )

    def _kill(self, time: float, name: str, text: str) -> None:
        self._setting.world.kill(name)
        self._setting.dead.add(name)
        self._setting.tell(time, "robot_death", name, text)


class MovedCarrierParameters(Part):
    """How many carriers are moved, when, and where to.

    Attributes:
        count: number of carriers to move.
        after: [s] time before which no carrier is moved.
        zone: where they are put: in the search zone, or anywhere.
        gap: [m] distance from everything at the new place.
    """

    count: AtLeastOne = 1
    after: NotNegative = 20.0
    zone: Literal["search", "anywhere"] = "search"
    gap: NotNegative = 0.2


class MovedCarrier:
    """Moves standing carriers to other places, as if by hand; it prefers those that a robot is near."""

    Parameters: ClassVar[type[Part]] = MovedCarrierParameters

    def __init__(
        self, parameters: MovedCarrierParameters, setting: Setting, rng: np.random.Generator
    ) -> None:
        """Find the area for the carriers.

        Raises:
            ConfigError: there are fewer carriers than `count`, or the arena lacks a size or zones.
        """
        scene = setting.scene
        if len(scene.carriers) < parameters.count:
            message = (
                f"generator moved_carrier: count is {parameters.count}, with {len(scene.carriers)} carriers"
            )
            raise ConfigError(message)
        self._area = _bounded(scene, parameters.zone, "moved_carrier")
        self._gap = parameters.gap
        self._after = parameters.after
        self._left = parameters.count
        self._moved: set[int] = set()
        self._setting = setting
        self._rng = rng

    def tick(self, look: Look) -> None:
        """Move one carrier when it is time and one can be moved."""
        if not self._left or look.time < self._after:
            return
        scene, carriers = self._setting.scene, look.carriers
        drop = None if scene.zones is None else scene.zones.drop
        there = retrieved(carriers, drop)
        waiting = []
        for i in range(len(carriers.names)):
            stands = carriers.carried_by[i] < 0 and carriers.lifts[i] < FLOOR
            if stands and not there[i] and i not in self._moved:
                away = np.hypot(*(look.robots[:, :2] - carriers.poses[i, :2]).T)
                # No robot below it: a person would not lift the carrier off a robot.
                if away.min() > scene.robots[0].spec.body.bounding_radius:
                    waiting.append((float(away.min()), i))
        if not waiting:
            return
        row = min(waiting)[1]
        pose = self._free(look, row)
        if pose is not None:
            name = carriers.names[row]
            self._setting.world.teleport(name, pose)
            self._setting.tell(look.time, "moved_carrier", name, f"{name} is moved by hand")
            self._moved.add(row)
            self._left -= 1

    def _free(self, look: Look, row: int) -> tuple[float, float, float] | None:
        """Return a random pose that is clear of everything, None if `TRIES` draws find none."""
        scene = self._setting.scene
        reach = [math.hypot(item.carrier.length, item.carrier.width) / 2 for item in scene.carriers]
        discs = [
            (float(x), float(y), self._setting.specs[name].body.bounding_radius)
            for name, (x, y) in zip(look.names, look.robots[:, :2], strict=True)
        ]
        discs += [(float(x), float(y), reach[i]) for i, (x, y) in enumerate(look.carriers.poses[:, :2])]
        discs += [tuple(map(float, pillar)) for pillar in scene.pillars()]  # type: ignore[misc]
        segments = scene.segments()
        (left, right), (bottom, top) = self._area.along_x, self._area.along_y
        for _ in range(TRIES):
            x, y = float(self._rng.uniform(left, right)), float(self._rng.uniform(bottom, top))
            room = reach[row] + self._gap
            clear = all(math.hypot(x - ox, y - oy) > size + room for ox, oy, size in discs)
            if clear and _clearance(segments, x, y) > room:
                return x, y, float(self._rng.uniform(-math.pi, math.pi))
        return None


class WheelSlipParameters(Part):
    """How much the wheels slip.

    Attributes:
        share: share of the wheels' travel that is lost.
    """

    share: Annotated[float, Field(ge=0, lt=1)] = 0.1


class WheelSlip:
    """Makes the wheels of all robots slip."""

    Parameters: ClassVar[type[Part]] = WheelSlipParameters

    def __init__(self, parameters: WheelSlipParameters, setting: Setting, rng: np.random.Generator) -> None:  # noqa: ARG002 - nothing is drawn
        """Set the slip in the world."""
        self._world = setting.world
        self._share = parameters.share
        self._slips: set[str] = set()
        self._seen: Sequence[str] = ()
        self._slip([placement.name for placement in setting.scene.robots])

    def tick(self, look: Look) -> None:
        """Set the slip of robots that have joined."""
        if look.names is not self._seen:
            self._seen = look.names
            self._slip(look.names)

    def _slip(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._slips:
                self._world.set_slip(name, self._share)
        # One that has left and comes back is a new one.
        self._slips = set(names)


class MotionNoiseParameters(Part):
    """How large the motion errors are.

    Attributes:
        distance: largest relative error of the distance of a motion: the convoy study's DNF.
        angle: [deg/cm] largest turn per distance: the convoy study's ANF.
    """

    distance: Annotated[float, Field(ge=0, lt=1)] = 0.1
    angle: Annotated[float, Field(ge=0, le=1)] = 0.08


class MotionNoise:
    """Adds errors of distance and direction to robots' motion, drawn anew whenever a robot stops."""

    Parameters: ClassVar[type[Part]] = MotionNoiseParameters

    def __init__(self, parameters: MotionNoiseParameters, setting: Setting, rng: np.random.Generator) -> None:
        """Draw the errors of the first motions."""
        self._parameters = parameters
        self._world = setting.world
        self._names: Sequence[str] = [placement.name for placement in setting.scene.robots]
        self._rng = rng
        self._went = np.zeros(len(self._names), dtype=np.bool_)
        self._draw(range(len(self._names)))

    def tick(self, look: Look) -> None:
        """Draw new errors for the robots that have stopped."""
        goes = np.abs(look.robots[:, 3]) > STANDS
        if look.names is not self._names:
            went = dict(zip(self._names, self._went.tolist(), strict=True))
            self._names = look.names
            self._went = np.array([went.get(name, False) for name in self._names], dtype=np.bool_)
            self._draw([row for row, name in enumerate(self._names) if name not in went])
        self._draw(np.flatnonzero(self._went & ~goes).tolist())
        self._went = goes

    def _draw(self, rows: Iterable[int]) -> None:
        for row in rows:
            far, turn = self._rng.uniform(-1.0, 1.0, 2).tolist()
            stretch = 1.0 + self._parameters.distance * far
            veer = math.radians(100.0 * self._parameters.angle * turn)
            self._world.set_drift(self._names[row], stretch, veer)


class BlockedZoneParameters(Part):
    """Which zone is closed, when, and for how long.

    Attributes:
        zone: the zone to close.
        after: [s] time at which it is closed.
        seconds: [s] how long it stays closed.
    """

    zone: Literal["search", "drop"] = "drop"
    after: NotNegative = 10.0
    seconds: Positive = 60.0


class BlockedZone:
    """Blocks a zone with boxes along its edges for some time."""

    Parameters: ClassVar[type[Part]] = BlockedZoneParameters

    def __init__(self, parameters: BlockedZoneParameters, setting: Setting, rng: np.random.Generator) -> None:  # noqa: ARG002 - nothing is drawn
        """Compute the places of the boxes.

        Raises:
            ConfigError: the arena has no zones or no walls.
        """
        scene = setting.scene
        self._setting = setting
        self._name = parameters.zone
        self._from = parameters.after
        self._until = parameters.after + parameters.seconds
        self._waiting = dict(enumerate(_edges(scene, parameters.zone), start=1))
        self._standing: list[str] = []
        self._told = False

    def tick(self, look: Look) -> None:
        """Place the boxes whose places are clear, or remove them all at the end."""
        if look.time >= self._until:
            if self._standing:
                self._setting.tell(look.time, "blocked_zone", "", f"the {self._name} zone is open again")
            for name in self._standing:
                self._setting.world.remove_obstacle(name)
            self._standing, self._waiting = [], {}
        elif look.time >= self._from and self._waiting:
            if not self._told:
                self._told = True
                self._setting.tell(look.time, "blocked_zone", "", f"the {self._name} zone is blocked")
            for number, (pose, size) in list(self._waiting.items()):
                if self._is_clear(look, pose, size):
                    name = f"block{number}"
                    self._setting.world.add_obstacle(name, pose, size)
                    self._standing.append(name)
                    del self._waiting[number]

    def _is_clear(self, look: Look, pose: tuple[float, float, float], size: tuple[float, float]) -> bool:
        """Return whether no robot or carrier is where a box goes; boxes are parallel to the axes."""
        scene = self._setting.scene
        radii = [self._setting.specs[name].body.bounding_radius for name in look.names]
        radii += [math.hypot(item.carrier.length, item.carrier.width) / 2 for item in scene.carriers]
        places = np.vstack([look.robots[:, :2], look.carriers.poses[:, :2]])
        off = np.abs(places - pose[:2]) - np.array(size) / 2
        return bool((np.hypot(*np.maximum(off, 0.0).T) > radii).all())


def _clearance(segments: FloatArray, x: float, y: float) -> float:
    """Return the distance of a point from the nearest wall or box; infinity without any."""
    if not len(segments):
        return math.inf
    start, along = segments[:, :2], segments[:, 2:] - segments[:, :2]
    to = np.array((x, y)) - start
    share = np.clip((to * along).sum(axis=1) / (along * along).sum(axis=1), 0.0, 1.0)
    return float(np.hypot(*(to - share[:, None] * along).T).min())


def _bounded(scene: Scene, zone: str, who: str) -> Area:
    """Return a zone clipped to the arena; `anywhere` is the whole arena.

    Raises:
        ConfigError: the arena has no zones or no walls.
    """
    size = scene.arena.size
    if size is None or (zone != "anywhere" and scene.zones is None):
        message = f"generator {who}: arena {scene.scenario.arena} needs a size, and zones"
        raise ConfigError(message)
    area = Area() if zone == "anywhere" else getattr(scene.zones, zone)
    (left, right), (bottom, top) = area.along_x, area.along_y
    return Area(
        x_min=max(left, -size[0] / 2),
        x_max=min(right, size[0] / 2),
        y_min=max(bottom, -size[1] / 2),
        y_max=min(top, size[1] / 2),
    )


def _edges(scene: Scene, zone: str) -> Sequence[tuple[tuple[float, float, float], tuple[float, float]]]:
    """Return poses and sizes of boxes just outside a zone, along its edges that are not walls."""
    area = _bounded(scene, zone, "blocked_zone")
    whole = _bounded(scene, "anywhere", "blocked_zone")
    boxes = []
    for axis in (0, 1):
        ends = (area.along_x, area.along_y)[1 - axis]
        count = math.ceil((ends[1] - ends[0]) / BLOCK_LENGTH)
        length = (ends[1] - ends[0]) / count
        for side, out in ((0, -1.0), (1, 1.0)):
            edge = (area.along_x, area.along_y)[axis][side]
            if edge == (whole.along_x, whole.along_y)[axis][side]:
                continue
            for k in range(count):
                across, along = edge + out * BLOCK_WIDTH / 2, ends[0] + (k + 0.5) * length
                xy = (across, along) if axis == 0 else (along, across)
                size = (BLOCK_WIDTH, length) if axis == 0 else (length, BLOCK_WIDTH)
                boxes.append(((*xy, 0.0), size))
    return boxes
