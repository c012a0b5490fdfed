"""Where the robot was lately, for what comes late: an image is some hundredths of a second old (Table II)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.geometry import wrap
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

TRACK_SECONDS = 0.5
"""How long ago an image may be for the robot to know where it was then."""


@kernel
def _at_k(rows: FloatArray, count: int, stamp: float, pose: FloatArray) -> bool:
    """Write the pose at a time, between rows (stamp, x, y, yaw) of a ring with `count` ever written."""
    size = rows.shape[0]
    for back in range(min(count, size)):
        at = (count - 1 - back) % size
        if rows[at, 0] <= stamp:
            pose[:] = rows[at, 1:]
            if back > 0:
                later = (at + 1) % size
                share = (stamp - rows[at, 0]) / (rows[later, 0] - rows[at, 0])
                for i in range(2):
                    pose[i] += share * (rows[later, 1 + i] - rows[at, 1 + i])
                pose[2] = wrap(rows[at, 3] + share * wrap(rows[later, 3] - rows[at, 3]))
            return True
    return False


class Track:
    """Where the robot was lately, by its odometry."""

    __slots__ = ("_count", "_rows")

    def __init__(self, rate: float) -> None:
        self._rows = np.zeros((math.ceil(TRACK_SECONDS * rate) + 1, 4))
        self._count = 0

    def add(self, stamp: float, pose: FloatArray) -> None:
        """Remember a pose."""
        row = self._rows[self._count % len(self._rows)]
        row[0] = stamp
        row[1:] = pose
        self._count += 1

    def forget(self) -> None:
        """Know of no time before now."""
        self._count = 0

    def at(self, stamp: float) -> FloatArray | None:
        """Return the pose at a time, None if that is longer ago than the track remembers."""
        pose = np.empty(3)
        return pose if _at_k(self._rows, self._count, stamp, pose) else None
