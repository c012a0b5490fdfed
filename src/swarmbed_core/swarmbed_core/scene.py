"""Placement of a scenario's objects: random places drawn from the seed, all checked for overlaps.

Worlds are built from a `Scene`. Random places are drawn one after the other, each clear of the walls, the
obstacles and the objects placed before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from swarmbed_core.arena import Arena
from swarmbed_core.chance import Stream, stream
from swarmbed_core.discharge import MODELS
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import clearance
from swarmbed_core.heading import Area, Zones
from swarmbed_core.markers import CarrierMarkers
from swarmbed_core.raycast import box_segments
from swarmbed_core.scenario import BoxObstacle, CrowdOptions
from swarmbed_core.spec import RobotSpec

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from swarmbed_core import spec
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scenario import (
        Carriers,
        Named,
        Obstacle,
        Pose,
        Robots,
        Scenario,
        Several,
        TrackedBody,
    )

ROBOT_GAP = 0.05
"""Metres that robots placed at random keep from each other, from walls and obstacles."""
CARRIER_GAP = 0.35
"""Metres that carriers placed at random keep from everything: a robot fits between with room to spare."""
TRIES = 2000
"""Most random places tried for one object."""
ALL_TRIES = 1_000_000
"""Most random places tried for all objects together: one or two minutes of computing."""
MOST_ROBOTS = 100_000
"""Most robots of a scenario."""
MOST_ONBOARDS = 5_000
"""Most robots outside a crowd: each has on-board software of half a megabyte."""
MOST_RAYS = 20_000_000
"""Most rays of all distance sensors of all robots together."""
TOUCH = 1e-6
"""Metres of overlap that count as a rounding error."""


@dataclass(frozen=True, slots=True)
class RobotPlacement:
    """One robot and its start pose.

    Attributes:
        group: index of its group among the scenario's `robots`, -1 for one that joined later.
        tracked: options of a body that is led from outside, None for a simulated one.
        device: what supplies its parts instead of the world.
        battery: discharge model of its battery; with None, its load drains it.
    """

    name: str
    spec: RobotSpec
    pose: Pose
    localised: bool = False
    group: int = -1
    tracked: TrackedBody | None = None
    device: tuple[Named, ...] = ()
    battery: str | None = None


@dataclass(frozen=True, slots=True)
class CarrierPlacement:
    """One carrier and its start pose.

    Attributes:
        marker: id of the markers on its sides.
        body: number of the body; joined carriers share one body.
    """

    name: str
    marker: int
    carrier: spec.Carrier
    pose: Pose
    payload: float
    body: int


@dataclass(frozen=True)
class Scene:
    """A scenario with a pose for each of its objects.

    Attributes:
        crowd: whether all robots but tracked ones are driven as a crowd, without devices of their own.
    """

    scenario: Scenario
    arena: Arena
    markers: CarrierMarkers
    robots: tuple[RobotPlacement, ...]
    carriers: tuple[CarrierPlacement, ...]
    obstacles: tuple[Obstacle, ...]
    crowd: bool = False

    @property
    def crowd_options(self) -> CrowdOptions:
        """Return the options of the crowd, the defaults if none are given."""
        options = self.scenario.robots[0].crowd
        return options if isinstance(options, CrowdOptions) else CrowdOptions()

    @property
    def crowd_size(self) -> int:
        """Return how many robots the crowd has, all of them before the tracked ones; 0 without a crowd."""
        return sum(robot.tracked is None for robot in self.robots) if self.crowd else 0

    @property
    def zones(self) -> Zones | None:
        """Return the arena's zones, None if it has none."""
        return self.arena.zones

    def segments(self) -> FloatArray:
        """Return walls and boxes as rows of x1, y1, x2, y2."""
        boxes = [
            box_segments(np.array(item.pose), *item.size)
            for item in self.obstacles
            if isinstance(item, BoxObstacle)
        ]
        return np.vstack([self.arena.segments(), *boxes])

    def pillars(self) -> FloatArray:
        """Return the cylindrical obstacles as rows of x, y, radius."""
        rows = [(*item.pose[:2], item.radius) for item in self.obstacles if not isinstance(item, BoxObstacle)]
        return np.array(rows, dtype=np.float64).reshape(-1, 3)


def legs_of(carrier: spec.Carrier) -> FloatArray:
    """Return the positions of a carrier's four legs relative to its centre, rows of x, y."""
    ahead = carrier.length / 2 - carrier.leg_radius
    left = carrier.width / 2 - carrier.leg_radius
    return np.array([(ahead, left), (-ahead, left), (-ahead, -left), (ahead, -left)])


def make_scene(scenario: Scenario, seed: int | None = None, source: str = "scenario") -> Scene:
    """Place all objects of a scenario.

    Args:
        scenario: the scenario.
        seed: seed of the random places; the scenario's if None.
        source: the file's name, for messages.

    Raises:
        ConfigError: a file is missing or invalid, objects overlap, or there is no room for them.
    """
    return _Placer(scenario, scenario.seed if seed is None else seed, source).scene()


class _Placer:
    """Places one object after the other in the arena: first those with given poses, then those at random."""

    def __init__(self, scenario: Scenario, seed: int, source: str) -> None:
        self.scenario = scenario
        self.source = source
        self.arena = Arena.load(scenario.arena)
        self.markers = CarrierMarkers.load(scenario.carrier_markers)
        self.specs = [RobotSpec.load(group.kind) for group in scenario.robots]
        self.tray = next(
            (spec.carrier for spec in self.specs if spec.carrier), RobotSpec.load("dots").carrier
        )
        # A separate stream: the world's noise does not change with the number of objects placed.
        self.rng = np.random.default_rng(stream(seed, Stream.SCENE))
        scene = Scene(scenario, self.arena, self.markers, (), (), scenario.obstacles)
        self.segments, self.pillars = scene.segments(), scene.pillars()
        self._discs = _Discs()
        self._trays: list[tuple[Pose, str]] = []
        self._tries = 0

    def scene(self) -> Scene:
        """Return the scene."""
        self._check_sizes()
        self._check_batteries()
        scenario = self.scenario
        bodies: dict[tuple[int, int], Pose] = {}
        robots: dict[tuple[int, int], Pose] = {}
        for at_random in (False, True):
            for i, load in enumerate(scenario.carriers):
                if load.place.at_random is at_random:
                    for k in range(load.number):
                        bodies[i, k] = self._place_carriers(load, i, k)
            for i, group in enumerate(scenario.robots):
                if group.place.at_random is at_random:
                    for k in range(group.number):
                        robots[i, k] = self._place_robot(group, i, k)
        made = self._robots(robots)
        carriers = self._carriers(bodies)
        crowd = any(group.crowd for group in scenario.robots)
        if crowd:
            self._check_crowd(made)
        self._check_names([item.name for item in made], [item.name for item in carriers])
        return Scene(scenario, self.arena, self.markers, made, carriers, scenario.obstacles, crowd)

    def _fail(self, field: str, explanation: str) -> NoReturn:
        message = f"{self.source}: {field}: {explanation}"
        raise ConfigError(message)

    def _check_sizes(self) -> None:
        """Reject scenarios that would exhaust the memory or take hours to place."""
        groups = list(zip(self.scenario.robots, self.specs, strict=True))
        count = sum(group.number for group, _ in groups)
        if count > MOST_ROBOTS:
            self._fail("robots", f"{count:,} of them; at most {MOST_ROBOTS:,} are accepted")
        crowd = any(group.crowd for group, _ in groups)
        whole = sum(group.number for group, _ in groups if not (group.crowd or (crowd and group.tracked)))
        if whole > MOST_ONBOARDS:
            what = f"{whole:,} with on-board software of their own; at most {MOST_ONBOARDS:,} are accepted"
            self._fail("robots", f"{what}, and {MOST_ROBOTS:,} with crowd: true")
        rays = sum(
            group.number * sum(ring.count * ring.rays for ring in spec.ranges) for group, spec in groups
        )
        if rays > MOST_RAYS:
            what = f"their distance sensors have {rays:,} rays; at most {MOST_RAYS:,} are accepted"
            self._fail("robots", f"{what}: fewer robots, or fewer angles and rays in their file")
        ids, carriers = len(self.markers.side_ids), 0
        for i, load in enumerate(self.scenario.carriers):
            carriers += load.number * len(load.joined or ((0, 0),))
            if carriers > ids:
                self._fail(f"carriers.{i}", f"more carriers than the {ids} marker ids available")

    def _check_batteries(self) -> None:
        """Reject discharge models that robots cannot have."""
        for i, (group, spec) in enumerate(zip(self.scenario.robots, self.specs, strict=True)):
            field = f"robots.{i}.battery"
            if group.battery is None:
                continue
            if spec.battery is None:
                self._fail(field, f"a {spec.kind} has no battery; leave it out")
            if spec.readings is None:
                self._fail(field, f"there are no discharge models for a {spec.kind}; leave it out")
            if group.battery not in MODELS:
                self._fail(field, f"unknown model '{group.battery}'; available: {', '.join(MODELS)}")

    def _check_crowd(self, robots: Sequence[RobotPlacement]) -> None:
        """Reject a crowd of several kinds, and robots beside it that are not tracked."""
        groups = self.scenario.robots
        # Groups of no robots count too, so that a sweep over their number finds the fault at once.
        beside = [group.tracked is not None for group in groups]
        if beside != sorted(beside):
            self._fail("robots", "tracked robots come after a crowd's: put their groups last")
        for i, group in enumerate(groups):
            options = group.crowd, group.battery
            if group.tracked is None and options != (groups[0].crowd, groups[0].battery):
                what = "beside a crowd, all groups must be of the crowd, with the same options, or tracked"
                self._fail(f"robots.{i}", what)
            if group.tracked is not None and (group.controller is not None or group.device):
                what = "beside a crowd, tracked robots run no program; leave out `controller` and `device`"
                self._fail(f"robots.{i}", what)
        if len({placement.spec.kind for placement in robots if placement.tracked is None}) > 1:
            self._fail("robots", "the robots of a crowd must all be of one kind")
        if all(placement.tracked is not None for placement in robots):
            self._fail("robots", "the crowd has no robots; expected a count of at least 1")

    def _check_names(self, robots: Sequence[str], carriers: Sequence[str]) -> None:
        """Reject duplicate names: contacts and faults are reported by name."""
        taken = {"wall", *carriers, *(f"obstacle{i + 1}" for i in range(len(self.scenario.obstacles)))}
        for name in robots:
            if name in taken:
                self._fail("robots", f"there are two things called {name}; give a group another name")
            taken.add(name)

    def _robots(self, poses: Mapping[tuple[int, int], Pose]) -> tuple[RobotPlacement, ...]:
        """Return all robots; groups that share a name are numbered consecutively."""
        made: list[RobotPlacement] = []
        numbers: dict[str, int] = {}
        for i, (group, spec) in enumerate(zip(self.scenario.robots, self.specs, strict=True)):
            stem = group.name or spec.kind
            for k in range(group.number):
                number = numbers[stem] = numbers.get(stem, 0) + 1
                made.append(
                    RobotPlacement(
                        f"{stem}{number}",
                        spec,
                        poses[i, k],
                        group.localised,
                        group=i,
                        tracked=group.tracked,
                        device=group.device,
                        battery=group.battery,
                    )
                )
        if not made:
            self._fail("robots", "the scenario has no robots; expected a count of at least 1")
        return tuple(made)

    def _carriers(self, poses: Mapping[tuple[int, int], Pose]) -> tuple[CarrierPlacement, ...]:
        """Return all carriers; joined ones share the number of their body."""
        made: list[CarrierPlacement] = []
        ids = self.markers.side_ids
        groups = self.scenario.carriers
        for body, (i, k) in enumerate((i, k) for i, some in enumerate(groups) for k in range(some.number)):
            group = groups[i]
            tray = self._tray(f"carriers.{i}")
            if group.payload > tray.max_payload:
                self._fail(
                    f"carriers.{i}.payload", f"{group.payload} kg; at most {tray.max_payload} kg are allowed"
                )
            for place in self._cells(group, poses[i, k], tray):
                name = f"carrier{len(made) + 1}"
                made.append(CarrierPlacement(name, ids[len(made)], tray, place, group.payload, body))
        return tuple(made)

    def _tray(self, field: str) -> spec.Carrier:
        """Return the specification that all carriers share."""
        if self.tray is None:
            self._fail(field, "none of the robots' files defines a carrier")
        return self.tray

    def _cells(self, group: Carriers, pose: Pose, tray: spec.Carrier) -> list[Pose]:
        """Return the pose of each carrier of a body with its centre at `pose`."""
        cells = np.array(group.joined or ((0, 0),), dtype=np.float64)
        cells = (cells - cells.mean(axis=0)) * (tray.length, tray.width)
        c, s = math.cos(pose[2]), math.sin(pose[2])
        return [(pose[0] + c * x - s * y, pose[1] + s * x + c * y, pose[2]) for x, y in cells.tolist()]

    def _place_carriers(self, group: Carriers, i: int, k: int) -> Pose:
        """Place a carrier or a body of joined carriers, and return its pose."""
        field = f"carriers.{i}"
        tray = self._tray(field)
        corner = math.hypot(tray.length, tray.width) / 2
        reach = corner + max(math.hypot(x, y) for x, y, _ in self._cells(group, (0.0, 0.0, 0.0), tray))
        given = group.place.pose(k)
        if given is None:
            pose = self._draw(group, reach, CARRIER_GAP, field)
        else:
            pose = given
            for cell in self._cells(group, pose, tray):
                found = self._under_tray(cell, tray)
                if found:
                    self._fail(_place_of(group, field, k), f"{tuple(pose)} overlaps {found}")
        for cell in self._cells(group, pose, tray):
            name = f"carrier{len(self._trays) + 1}"
            self._trays.append((cell, name))
            self._discs.add((cell[0], cell[1], corner, name), "carrier")
        return pose

    def _place_robot(self, group: Robots, i: int, k: int) -> Pose:
        """Place a robot, and return its pose."""
        radius = self.specs[i].body.bounding_radius
        given = group.place.pose(k)
        if given is None:
            pose = self._draw(group, radius, ROBOT_GAP, f"robots.{i}")
        else:
            pose = given
            # A robot may start under a carrier, between its legs.
            found = self._fixed(pose[0], pose[1], radius, -TOUCH) or self._discs.near(
                pose[0], pose[1], radius, -TOUCH, {"robot"}
            )
            if found is None and self.tray is not None:
                for tray, name in self._trays:
                    legs = _turned(legs_of(self.tray), tray)
                    if np.hypot(*(legs - pose[:2]).T).min() < radius + self.tray.leg_radius - TOUCH:
                        found = f"a leg of {name}"
            if found:
                self._fail(_place_of(group, f"robots.{i}", k), f"{tuple(pose)} overlaps {found}")
        stem = group.name or self.specs[i].kind
        self._discs.add((pose[0], pose[1], radius, f"another {stem}"), "robot")
        return pose

    def _draw(self, group: Several, radius: float, gap: float, field: str) -> Pose:
        """Draw a random pose for a disc, clear of everything by the gap."""
        place = group.place
        area = self._area(group, field)
        gap = gap if place.gap is None else place.gap
        (left, right), (bottom, top) = area.along_x, area.along_y
        for _ in range(TRIES):
            self._tries += 1
            if self._tries > ALL_TRIES:
                break
            x, y = self.rng.uniform(left, right), self.rng.uniform(bottom, top)
            yaw = self.rng.uniform(-math.pi, math.pi) if place.yaw is None else place.yaw
            if not self._fixed(x, y, radius, gap) and not self._discs.near(x, y, radius, gap):
                return (float(x), float(y), float(yaw))
        tries = f"{TRIES:,} tries" if self._tries <= ALL_TRIES else f"{ALL_TRIES:,} tries for all objects"
        return self._fail(f"{field}.count", f"{group.number:,} do not fit: no room found in {tries}")

    def _area(self, group: Several, field: str) -> Area:
        """Return the area inside the arena in which a group is placed."""
        place = group.place
        area = place.area
        if area is None and place.zone in {"search", "drop"}:
            if self.arena.zones is None:
                self._fail(f"{field}.place.zone", f"arena {self.scenario.arena} has no zones; give an area")
            area = getattr(self.arena.zones, str(place.zone))
        area = area or Area()
        bounds = {}
        for axis, i, along in (("x", 0, area.along_x), ("y", 1, area.along_y)):
            room = math.inf if self.arena.size is None else self.arena.size[i] / 2
            low, high = max(along[0], -room), min(along[1], room)
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                self._fail(
                    f"{field}.place", f"{axis} from {low} to {high}: the area is empty or has no bounds"
                )
            bounds[f"{axis}_min"], bounds[f"{axis}_max"] = low, high
        return Area(**bounds)

    def _fixed(self, x: float, y: float, radius: float, gap: float) -> str | None:
        """Return the wall or obstacle that a disc would come within the gap of, if any."""
        room, size = radius + gap, self.arena.size
        # Reject places outside the walls too, where no wall may be near.
        if size is not None and (abs(x) + room > size[0] / 2 or abs(y) + room > size[1] / 2):
            return "a wall, or is outside them"
        if len(self.segments) and clearance(self.segments, x, y) < room:
            return "a wall or an obstacle"
        if (
            len(self.pillars)
            and (np.hypot(*(self.pillars[:, :2] - (x, y)).T) < self.pillars[:, 2] + room).any()
        ):
            return "an obstacle"
        boxes = (item for item in self.scenario.obstacles if isinstance(item, BoxObstacle))
        return "an obstacle" if any(_inside(item.pose, item.size, x, y) for item in boxes) else None

    def _under_tray(self, pose: Pose, tray: spec.Carrier) -> str | None:
        """Return what a carrier would overlap, if anything."""
        size = (tray.length - 2 * TOUCH, tray.width - 2 * TOUCH)
        half = np.array(size) / 2
        corners = _turned(half * [[1, 1], [-1, 1], [-1, -1], [1, -1]], pose)
        if self.arena.size is not None and (np.abs(corners) > np.array(self.arena.size) / 2).any():
            return "a wall, or is outside them"
        for x1, y1, x2, y2 in self.segments.tolist():
            if _overlap(corners, np.array(((x1, y1), (x2, y2)))):
                return "a wall or an obstacle"
        for x, y, radius in self.pillars.tolist():
            if (
                _inside(pose, size, x, y)
                or clearance(np.hstack([corners, np.roll(corners, -1, 0)]), x, y) < radius
            ):
                return "an obstacle"
        for other, name in self._trays:
            if _overlap(corners, _turned(half * [[1, 1], [-1, 1], [-1, -1], [1, -1]], other)):
                return name
        return None


class _Discs:
    """Bounding circles of the objects placed so far, in a grid of 1 m cells."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], list[tuple[float, float, float, str, str]]] = {}
        self._largest = 0.0

    def add(self, disc: tuple[float, float, float, str], kind: str) -> None:
        """Add a circle of x, y, radius and name."""
        self._largest = max(self._largest, disc[2])
        self._cells.setdefault((math.floor(disc[0]), math.floor(disc[1])), []).append((*disc, kind))

    def near(
        self, x: float, y: float, radius: float, gap: float, kinds: Container[str] = ("robot", "carrier")
    ) -> str | None:
        """Return the name of an object that a disc would come within the gap of, if any."""
        reach = math.ceil(max(radius + gap + self._largest, 0.0))
        column, row = math.floor(x), math.floor(y)
        if (2 * reach + 1) ** 2 > len(self._cells):
            cells = [cell for cell in self._cells if abs(cell[0] - column) <= reach >= abs(cell[1] - row)]
            cells.sort()
        else:
            across, along = range(column - reach, column + reach + 1), range(row - reach, row + reach + 1)
            cells = [(i, j) for i in across for j in along]
        for cell in cells:
            for ox, oy, size, name, kind in self._cells.get(cell, ()):
                if kind in kinds and math.hypot(ox - x, oy - y) < size + radius + gap:
                    return name
        return None


def _place_of(group: Several, field: str, k: int) -> str:
    """Return the path of the scenario field that holds an object's pose."""
    return f"{field}.place.line" if group.place.line is not None else f"{field}.place.poses.{k}"


def _turned(points: FloatArray, pose: Pose) -> FloatArray:
    """Transform points from the frame at a pose into the pose's own frame."""
    c, s = math.cos(pose[2]), math.sin(pose[2])
    moved: FloatArray = points @ np.array([[c, s], [-s, c]]) + pose[:2]
    return moved


def _overlap(one: FloatArray, other: FloatArray) -> bool:
    """Return whether two convex shapes overlap: no edge of either separates them."""
    for figure in (one, other):
        for edge in np.roll(figure, -1, 0) - figure:
            along_one, along_other = (one @ (-edge[1], edge[0])), (other @ (-edge[1], edge[0]))
            if along_one.max() <= along_other.min() or along_other.max() <= along_one.min():
                return False
    # A segment has no edge across its ends, so check separation along it too.
    for figure in (one, other):
        if len(figure) == 2:
            along = figure[1] - figure[0]
            along_one, along_other = one @ along, other @ along
            if along_one.max() <= along_other.min() or along_other.max() <= along_one.min():
                return False
    return True


def _inside(pose: Pose, size: tuple[float, float], x: float, y: float) -> bool:
    """Return whether a point is in a box."""
    c, s = math.cos(pose[2]), math.sin(pose[2])
    dx, dy = x - pose[0], y - pose[1]
    return abs(c * dx + s * dy) <= size[0] / 2 and abs(c * dy - s * dx) <= size[1] / 2
