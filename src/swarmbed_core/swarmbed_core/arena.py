"""Where robots drive: walls, zones, and the markers on the walls, from worlds/*.yaml.

The arena's centre is the origin of `map` (REP-105, DOTS paper III-B2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field, field_validator

from swarmbed_core.config import ConfigFile
from swarmbed_core.heading import Zones
from swarmbed_core.markers import MarkerMap
from swarmbed_core.raycast import box_segments

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

Length = Annotated[float, Field(gt=0, le=1000)]
Place = Annotated[float, Field(ge=-1000, le=1000)]


class Arena(ConfigFile):
    """A floor, with or without walls around it.

    `size` is the inside of the outer walls along x and y; without it there are none. `walls` are further
    ones, each from x1, y1 to x2, y2.
    """

    FOLDER: ClassVar[str] = "worlds"

    title: str
    size: tuple[Length, Length] | None = None
    wall_height: Length = 0.5
    walls: tuple[tuple[Place, Place, Place, Place], ...] = ()
    zones: Zones | None = None
    marker_map: str | None = None

    @field_validator("walls")
    @classmethod
    def _walls_have_length(
        cls, walls: tuple[tuple[float, float, float, float], ...]
    ) -> tuple[tuple[float, float, float, float], ...]:
        for wall in walls:
            if wall[:2] == wall[2:]:
                message = f"the wall {wall} ends where it starts"
                raise ValueError(message)
        return walls

    def segments(self) -> FloatArray:
        """Return all walls as rows of x1, y1, x2, y2."""
        inner = np.array(self.walls, dtype=np.float64).reshape(-1, 4)
        if self.size is None:
            return inner
        return np.vstack([box_segments(np.zeros(3), *self.size), inner])

    def markers(self) -> MarkerMap | None:
        """Return the markers on the walls, if there are any.

        Raises:
            ConfigError: the marker map is missing or wrong.
        """
        return None if self.marker_map is None else MarkerMap.load(self.marker_map)
