"""The two synthetic senses of the paper (IV-A): the absolute heading and the robot's zone.

The same functions derive them from the ground truth in worlds, and from the EKF's pose on robots without the
sensors. An unknown pose is in neither zone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import model_validator

from swarmbed_core.config import Part
from swarmbed_core.device import CompassReading, Zone
from swarmbed_core.geometry import wrap
from swarmbed_core.health import Health
from swarmbed_core.watchdog import Pace

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from swarmbed_core import spec
    from swarmbed_core.geometry import FloatArray


def _bounds(low: float | None, high: float | None) -> tuple[float, float]:
    return -math.inf if low is None else low, math.inf if high is None else high


class Area(Part):
    """An open rectangle along the axes of `map`; without a bound it extends to infinity."""

    x_min: float | None = None
    x_max: float | None = None
    y_min: float | None = None
    y_max: float | None = None

    @model_validator(mode="after")
    def _is_not_empty(self) -> Area:
        for axis, (low, high) in (("x", self.along_x), ("y", self.along_y)):
            if low >= high:
                message = f"{axis}_min ({low}) must be below {axis}_max ({high})"
                raise ValueError(message)
        return self

    @property
    def along_x(self) -> tuple[float, float]:
        """Return the bounds of x."""
        return _bounds(self.x_min, self.x_max)

    @property
    def along_y(self) -> tuple[float, float]:
        """Return the bounds of y."""
        return _bounds(self.y_min, self.y_max)

    def contains(self, x: float, y: float, slack: float = 0.0) -> bool:
        """Return whether a point is inside, or less than `slack` outside along either axis."""
        (left, right), (bottom, top) = self.along_x, self.along_y
        return left - slack < x < right + slack and bottom - slack < y < top + slack

    def meets(self, other: Area) -> bool:
        """Return whether the two areas overlap."""
        pairs = ((self.along_x, other.along_x), (self.along_y, other.along_y))
        return all(max(a[0], b[0]) < min(a[1], b[1]) for a, b in pairs)


class Zones(Part):
    """The task's zones; by default those of the paper's arena."""

    search: Area = Area(x_max=0.0)
    drop: Area = Area(x_min=1.25)

    @model_validator(mode="after")
    def _are_apart(self) -> Zones:
        if self.search.meets(self.drop):
            message = "search and drop overlap: they must be apart, so that a robot is in one zone at a time"
            raise ValueError(message)
        return self


PAPER_ZONES = Zones()


def zone_of(pose_map: Sequence[float] | FloatArray, zones: Zones = PAPER_ZONES) -> Zone:
    """Return the zone of a pose or a point."""
    x, y = float(pose_map[0]), float(pose_map[1])
    if zones.search.contains(x, y):
        return Zone.SEARCH
    if zones.drop.contains(x, y):
        return Zone.DROP
    return Zone.NEITHER


def derived_zone(pose_map: Sequence[float] | FloatArray | None, zones: Zones = PAPER_ZONES) -> Zone:
    """Return the zone of a robot by its pose estimate; NEITHER without one."""
    return Zone.NEITHER if pose_map is None else zone_of(pose_map, zones)


def derived_heading(pose_map: Sequence[float] | FloatArray | None) -> float | None:
    """Return the heading of a robot by its pose estimate, in (-pi, pi]; None without a finite one."""
    if pose_map is None or not math.isfinite(pose_map[2]):
        return None
    return float(wrap(float(pose_map[2])))


class VirtualCompass:
    """A simulated compass: the true yaw with the spec's noise, at the spec's rate."""

    __slots__ = ("_pace", "_rng", "health", "sigma")

    def __init__(self, compass: spec.Compass, rng: np.random.Generator, health: Health | None = None) -> None:
        """Create a compass with noise from `rng`."""
        self.sigma = compass.sigma
        self.health = Health() if health is None else health
        self._rng = rng
        self._pace = Pace(compass.rate)

    def sample(self, now: float, yaw_map: float) -> CompassReading | None:
        """Return a reading of the true yaw if one is due, else None."""
        if not (math.isfinite(yaw_map) and math.isfinite(now)):
            self.health.refuse("compass.not_finite", f"yaw {yaw_map} at time {now} must be finite")
            return None
        if not self._pace.due(now):
            return None
        error = self.sigma * self._rng.standard_normal()
        return CompassReading(stamp=now, heading=float(wrap(yaw_map + error)))
