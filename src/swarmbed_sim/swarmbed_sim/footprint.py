"""Footprints on the floor and their overlaps, to check where something can be placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.raycast import box_segments

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

TOUCH = 1e-3
"""Overlap in metres that still counts as touching: the physics' contacts are this soft."""


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """A convex polygon, enlarged by a radius.

    Attributes:
        corners: rows of x, y, in order: one for a disc, two for a wall.
        radius: margin around the polygon.
    """

    corners: FloatArray
    radius: float = 0.0

    @property
    def middle(self) -> FloatArray:
        """Return the middle of the corners."""
        middle: FloatArray = self.corners.mean(axis=0)
        return middle

    @property
    def reach(self) -> float:
        """Return the largest distance of any of its points from its middle."""
        return float(np.hypot(*(self.corners - self.middle).T).max()) + self.radius


def disc_print(x: float, y: float, radius: float) -> Footprint:
    """Return the footprint of a disc."""
    return Footprint(np.array([(x, y)]), radius)


def box_print(pose: tuple[float, float, float], length: float, width: float) -> Footprint:
    """Return the footprint of a box; `pose` is that of its centre."""
    return Footprint(box_segments(np.array(pose), length, width)[:, :2])


def overlap(one: Footprint, other: Footprint) -> bool:
    """Return whether two footprints overlap by more than `TOUCH`."""
    if np.hypot(*(one.middle - other.middle)) >= one.reach + other.reach:
        return False
    corners = (one.corners, other.corners)
    sides = np.vstack([np.roll(points, -1, axis=0) - points for points in corners])
    axes = np.vstack([sides, sides[:, ::-1] * (1.0, -1.0), [other.middle - one.middle]])
    lengths = np.hypot(*axes.T)
    axes = axes[lengths > 0] / lengths[lengths > 0, None]
    # Separating axis theorem, for the polygons without their radii.
    first, second = (points @ axes.T for points in corners)
    gaps = np.maximum(second.min(axis=0) - first.max(axis=0), first.min(axis=0) - second.max(axis=0))
    if not (gaps > -TOUCH).any():
        return True
    nearest = min(_distance(*corners), _distance(*corners[::-1]))
    return nearest < one.radius + other.radius - TOUCH


def _distance(points: FloatArray, corners: FloatArray) -> float:
    """Return the distance from the outline of a polygon to the nearest of some points."""
    along = np.roll(corners, -1, axis=0) - corners
    to = points[:, None] - corners
    share = (to * along).sum(axis=2) / np.maximum((along * along).sum(axis=1), 1e-300)
    return float(np.hypot(*(to - np.clip(share, 0.0, 1.0)[..., None] * along).T).min())
