"""Where robots drive: walls, zones, and the markers on the walls, from worlds/*.yaml.

The arena's centre is the origin of `map` (REP-105, DOTS paper III-B2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, field_validator, model_validator

from swarmbed_core.config import ConfigFile, Part, anchor_field
from swarmbed_core.heading import Zones
from swarmbed_core.markers import MarkerMap
from swarmbed_core.raycast import box_segments
from swarmbed_core.spec import Fraction

if TYPE_CHECKING:
    from pathlib import Path

    from swarmbed_core.geometry import FloatArray

Length = Annotated[float, Field(gt=0, le=1000)]
Coordinate = Annotated[float, Field(ge=-1000, le=1000)]


class Patch(Part):
    """A painted part of the floor: a rectangle with a `size` or a disc with a `radius`.

    `grey` runs from 0 (black) to 1 (white). The yaw of `pose` turns a rectangle.
    """

    grey: Fraction
    pose: tuple[Coordinate, Coordinate, float] = (0.0, 0.0, 0.0)
    size: tuple[Length, Length] | None = None
    radius: Length | None = None

    @model_validator(mode="after")
    def _one_shape(self) -> Patch:
        if (self.size is None) == (self.radius is None):
            message = "give either a size, for a rectangle, or a radius, for a disc"
            raise ValueError(message)
        return self


class Floor(Part):
    """The paint on a floor; later patches cover earlier ones."""

    grey: Fraction = 1.0
    patches: tuple[Patch, ...] = ()

    def rows(self) -> FloatArray:
        """Return the patches as rows of x, y, cos(yaw), sin(yaw), half length, half width, radius, grey.

        A disc has sides of 0, a rectangle a radius of 0.
        """
        rows = []
        for patch in self.patches:
            x, y, yaw = patch.pose
            length, width = patch.size or (0.0, 0.0)
            rows.append(
                (x, y, np.cos(yaw), np.sin(yaw), length / 2, width / 2, patch.radius or 0.0, patch.grey)
            )
        return np.array(rows, dtype=np.float64).reshape(-1, 8)


class Arena(ConfigFile):
    """A floor, with or without walls around it.

    `size` is the inner length along x and y of the outer walls; without it there are none. `walls` are
    additional walls, each (x1, y1, x2, y2). `floor` is the paint; the default is all white.
    """

    FOLDER: ClassVar[str] = "worlds"

    title: str
    size: tuple[Length, Length] | None = None
    wall_height: Length = 0.5
    walls: tuple[tuple[Coordinate, Coordinate, Coordinate, Coordinate], ...] = ()
    zones: Zones | None = None
    marker_map: str | None = None
    floor: Floor = Floor()

    @classmethod
    def anchor(cls, data: Any, base: Path) -> None:
        """Make the path of the marker map absolute."""
        anchor_field(data, "marker_map", base)

    @field_validator("walls")
    @classmethod
    def _walls_have_length(
        cls, walls: tuple[tuple[float, float, float, float], ...]
    ) -> tuple[tuple[float, float, float, float], ...]:
        for wall in walls:
            if wall[:2] == wall[2:]:
                message = f"wall {wall} has no length: its two ends must differ"
                raise ValueError(message)
        return walls

    def segments(self) -> FloatArray:
        """Return all walls, outer ones included, as rows of x1, y1, x2, y2."""
        inner = np.array(self.walls, dtype=np.float64).reshape(-1, 4)
        if self.size is None:
            return inner
        return np.vstack([box_segments(np.zeros(3), *self.size), inner])

    def markers(self) -> MarkerMap | None:
        """Return the markers on the walls, or None without a marker map.

        Raises:
            ConfigError: the marker map is missing or invalid.
        """
        return None if self.marker_map is None else MarkerMap.load(self.marker_map)
