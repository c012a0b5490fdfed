"""Where everything of a scenario stands: drawn from the seed, checked for overlaps and room.

A `Scene` is what worlds are made from. Places that a scenario leaves to chance are drawn one after the
other, each clear of the walls, the obstacles and what stands already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.arena import Arena
from swarmbed_core.errors import ConfigError
from swarmbed_core.heading import Area, Zones
from swarmbed_core.markers import CarrierMarkers
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.spec import RobotSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core import spec
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scenario import Carriers, Obstacle, Pose, Robots, Scenario, Several

ROBOT_GAP = 0.05
"""Metres that robots placed at random keep from each other, from walls and obstacles."""
CARRIER_GAP = 0.35
"""Metres that carriers placed at random keep from everything: a robot and some room fit between."""
TRIES = 2000
"""Places that are tried for a thing before it counts as not fitting."""
TOUCH = 1e-6
"""Metres of overlap that are a rounding error."""


@dataclass(frozen=True, slots=True)
class RobotPlacement:
    """One robot at the start."""

    name: str
    spec: RobotSpec
    pose: Pose
    localised: bool = False


@dataclass(frozen=True, slots=True)
class CarrierPlacement:
    """One carrier at the start.

    Attributes:
        marker: the id on its sides.
        body: carriers of one body are joined; a body has a number of its own.
    """

    name: str
    marker: int
    carrier: spec.Carrier
    pose: Pose
    payload: float
    body: int


@dataclass(frozen=True)
class Scene:
    """A scenario's things in their places.

    Attributes:
        crowd: whether all robots are driven as a crowd, without devices of their own.
    """

    scenario: Scenario
    arena: Arena
    markers: CarrierMarkers
    robots: tuple[RobotPlacement, ...]
    carriers: tuple[CarrierPlacement, ...]
    obstacles: tuple[Obstacle, ...]
    crowd: bool = False

    @property
    def zones(self) -> Zones | None:
        """Return the arena's zones."""
        return self.arena.zones

    def segments(self) -> FloatArray:
        """Return walls and boxes as rows of x1, y1, x2, y2."""
        from swarmbed_core.raycast import box_segments

        boxes = [
            box_segments(np.array(item.pose), *item.size)
            for item in self.obstacles
            if isinstance(item, BoxObstacle)
        ]
        return np.vstack([self.arena.segments(), *boxes])

    def pillars(self) -> FloatArray:
        """Return the obstacles that are cylinders as rows of x, y, radius."""
        rows = [(*item.pose[:2], item.radius) for item in self.obstacles if not isinstance(item, BoxObstacle)]
        return np.array(rows, dtype=np.float64).reshape(-1, 3)


def legs_of(carrier: spec.Carrier) -> FloatArray:
    """Return where the four legs of a carrier are about its centre, rows of x, y."""
    ahead = carrier.length / 2 - carrier.leg_radius
    left = carrier.width / 2 - carrier.leg_radius
    return np.array([(ahead, left), (-ahead, left), (-ahead, -left), (ahead, -left)])


def make_scene(scenario: Scenario, seed: int | None = None, source: str = "scenario") -> Scene:
    """Place everything.

    Args:
        scenario: what there is.
        seed: of the places, if not the scenario's.
        source: the file's name, for messages.

    Raises:
        ConfigError: a file is missing or wrong, things overlap, or there is no room for them.
    """
    return _Placer(scenario, scenario.seed if seed is None else seed, source).scene()


class _Placer:
    """Puts one thing after the other into the arena."""

    def __init__(self, scenario: Scenario, seed: int, source: str) -> None:
        self.scenario = scenario
        self.source = source
        self.arena = Arena.load(scenario.arena)
        self.markers = CarrierMarkers.load(scenario.carrier_markers)
        # A stream of its own: the world's noise does not change with the number of things placed.
        self.rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        self.obstacle_gap = self.arena.segments()
        self.pillars = np.empty((0, 3))
        self._discs: list[tuple[float, float, float, str]] = []
        self._grid: dict[tuple[int, int], list[tuple[float, float, float, str]]] = {}
        self._cell = 1.0

    def scene(self) -> Scene:
        """Return the scene."""
        scenario = self.scenario
        scene = Scene(scenario, self.arena, self.markers, (), (), scenario.obstacles)
        self.obstacle_gap, self.pillars = scene.segments(), scene.pillars()
        carriers = self._carriers(scenario.carriers)
        robots = self._robots(scenario.robots)
        crowd = any(group.crowd for group in scenario.robots)
        if crowd and not all(group.crowd for group in scenario.robots):
            self._fail("robots", "all or none of the robots of a scenario are a crowd")
        if crowd and len({placement.spec.kind for placement in robots}) > 1:
            self._fail("robots", "the robots of a crowd are of one kind")
        return Scene(scenario, self.arena, self.markers, robots, carriers, scenario.obstacles, crowd)

    def _fail(self, field: str, explanation: str) -> None:
        message = f"{self.source}: {field}: {explanation}"
        raise ConfigError(message)

    def _robots(self, groups: Sequence[Robots]) -> tuple[RobotPlacement, ...]:
        """Place all robots; numbers go on where groups share a name."""
        made: list[RobotPlacement] = []
        numbers: dict[str, int] = {}
        carriers = list(self._discs)
        self._forget()
        for i, group in enumerate(groups):
            spec = RobotSpec.load(group.kind)
            stem = group.name or spec.kind
            radius = spec.body.bounding_radius
            for k in range(group.number):
                number = numbers[stem] = numbers.get(stem, 0) + 1
                field = f"robots.{i}"
                pose = self._pose(group, k, radius, ROBOT_GAP, field, carriers)
                name = f"{stem}{number}"
                self._take(pose, radius, name)
                made.append(RobotPlacement(name, spec, pose, group.localised))
        if not made:
            self._fail("robots", "a scenario without robots; count at least one")
        return tuple(made)

    def _carriers(self, groups: Sequence[Carriers]) -> tuple[CarrierPlacement, ...]:
        """Place all carriers; joined ones as one thing."""
        made: list[CarrierPlacement] = []
        body = 0
        if not groups:
            return ()
        tray = next(
            (spec.carrier for group in self.scenario.robots if (spec := RobotSpec.load(group.kind)).carrier),
            RobotSpec.load("dots").carrier,
        )
        if tray is None:
            self._fail("carriers", "no kind of robot has a carrier in its file")
            return ()
        for i, group in enumerate(groups):
            field = f"carriers.{i}"
            if group.payload > tray.max_payload:
                self._fail(f"{field}.payload", f"{group.payload} kg; a carrier takes {tray.max_payload} kg")
            cells = np.array(group.joined or ((0, 0),), dtype=np.float64)
            cells = (cells - cells.mean(axis=0)) * (tray.length, tray.width)
            reach = math.hypot(tray.length, tray.width) / 2 + float(np.hypot(*cells.T).max())
            for k in range(group.number):
                pose = self._pose(group, k, reach, CARRIER_GAP, field, ())
                self._take(pose, reach, f"carrier{len(made) + 1}")
                c, s = math.cos(pose[2]), math.sin(pose[2])
                for x, y in cells.tolist():
                    marker = self.markers.sides.first_id + len(made)
                    if marker not in self.markers.side_ids:
                        most = len(self.markers.side_ids)
                        self._fail(field, f"more carriers than the {most} marker ids there are")
                    place = (pose[0] + c * x - s * y, pose[1] + s * x + c * y, pose[2])
                    made.append(
                        CarrierPlacement(f"carrier{len(made) + 1}", marker, tray, place, group.payload, body)
                    )
                body += 1
        return tuple(made)

    def _pose(
        self,
        group: Several,
        k: int,
        radius: float,
        gap: float,
        field: str,
        others: Sequence[tuple[float, float, float, str]],
    ) -> Pose:
        """Return where the k-th thing of a group stands."""
        place = group.place
        if place.poses is not None:
            pose = place.poses[k]
            # A robot may start under a carrier: that is for the physics to allow.
            found = self._overlap(pose[0], pose[1], radius, -TOUCH, ())
            if found:
                self._fail(f"{field}.place.poses.{k}", f"{tuple(pose)} overlaps {found}")
            return pose
        area = self._area(group, field)
        gap = gap if place.gap is None else place.gap
        (left, right), (bottom, top) = area.along_x, area.along_y
        for _ in range(TRIES):
            x, y = self.rng.uniform(left, right), self.rng.uniform(bottom, top)
            yaw = self.rng.uniform(-math.pi, math.pi) if place.yaw is None else place.yaw
            if not self._overlap(x, y, radius, gap, others):
                return (float(x), float(y), float(yaw))
        already = sum(1 for _ in self._discs)
        self._fail(f"{field}.count", f"{group.number} do not fit: no room after {already} of them")
        raise AssertionError

    def _area(self, group: Several, field: str) -> Area:
        """Return the part of the arena's inside that a group is placed in."""
        place = group.place
        area = place.area
        if area is None and place.zone in {"search", "drop"}:
            if self.arena.zones is None:
                self._fail(f"{field}.place.zone", f"arena {self.scenario.arena} has no zones; give an area")
            area = getattr(self.arena.zones, str(place.zone))
        area = area or Area()
        half = None if self.arena.size is None else (self.arena.size[0] / 2, self.arena.size[1] / 2)
        bounds = {}
        for axis, i, along in (("x", 0, area.along_x), ("y", 1, area.along_y)):
            room = math.inf if half is None else half[i]
            low, high = max(along[0], -room), min(along[1], room)
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                self._fail(
                    f"{field}.place", f"{axis} from {low} to {high}: the area is empty or has no bounds"
                )
            bounds[f"{axis}_min"], bounds[f"{axis}_max"] = low, high
        return Area(**bounds)

    def _overlap(
        self,
        x: float,
        y: float,
        radius: float,
        gap: float,
        others: Sequence[tuple[float, float, float, str]],
    ) -> str | None:
        """Return what a disc would touch, if anything."""
        half = None if self.arena.size is None else (self.arena.size[0] / 2, self.arena.size[1] / 2)
        # Past the walls is no place either, though no wall is near there.
        if half is not None and (abs(x) + radius + gap > half[0] or abs(y) + radius + gap > half[1]):
            return "a wall, or is outside them"
        if len(self.obstacle_gap) and _distance(self.obstacle_gap, x, y) < radius + gap:
            return "a wall or an obstacle"
        for px, py, size in self.pillars:
            if math.hypot(px - x, py - y) < size + radius + gap:
                return "an obstacle"
        for item in self.scenario.obstacles:
            if isinstance(item, BoxObstacle) and _inside(item, x, y):
                return "an obstacle"
        for ox, oy, size, name in (*others, *self._near(x, y)):
            if math.hypot(ox - x, oy - y) < size + radius + gap:
                return name
        return None

    def _take(self, pose: Pose, radius: float, name: str) -> None:
        """Remember what stands where."""
        disc = (pose[0], pose[1], radius, name)
        self._discs.append(disc)
        self._cell = max(self._cell, 2 * radius + CARRIER_GAP)
        self._grid.setdefault((math.floor(pose[0]), math.floor(pose[1])), []).append(disc)

    def _forget(self) -> None:
        self._discs = []
        self._grid = {}
        self._cell = 1.0

    def _near(self, x: float, y: float) -> list[tuple[float, float, float, str]]:
        """Return what stands within reach of a place."""
        reach = math.ceil(self._cell)
        column, row = math.floor(x), math.floor(y)
        return [
            disc
            for i in range(column - reach, column + reach + 1)
            for j in range(row - reach, row + reach + 1)
            for disc in self._grid.get((i, j), ())
        ]


def _distance(segments: FloatArray, x: float, y: float) -> float:
    """Return how far a point is from the nearest of some segments."""
    start, along = segments[:, :2], segments[:, 2:] - segments[:, :2]
    to = np.array((x, y)) - start
    share = np.clip((to * along).sum(axis=1) / (along * along).sum(axis=1), 0.0, 1.0)
    return float(np.hypot(*(to - share[:, None] * along).T).min())


def _inside(box: BoxObstacle, x: float, y: float) -> bool:
    """Return whether a point is in a box."""
    c, s = math.cos(box.pose[2]), math.sin(box.pose[2])
    dx, dy = x - box.pose[0], y - box.pose[1]
    return abs(c * dx + s * dy) <= box.size[0] / 2 and abs(c * dy - s * dx) <= box.size[1] / 2
