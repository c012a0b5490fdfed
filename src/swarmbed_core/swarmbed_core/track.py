"""Where the robot was lately, for what comes late: an image is some hundredths of a second old (Table II)."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from swarmbed_core.geometry import wrap

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

TRACK_SECONDS = 0.5
"""How long ago an image may be for the robot to know where it was then."""


class Track:
    """Where the robot was lately, by its odometry."""

    __slots__ = ("_poses",)

    def __init__(self, rate: float) -> None:
        """Remember the latest half second of poses that come at `rate`, in Hz."""
        self._poses: deque[tuple[float, FloatArray]] = deque(maxlen=math.ceil(TRACK_SECONDS * rate) + 1)

    def add(self, stamp: float, pose: FloatArray) -> None:
        """Remember a pose; the array must not change afterwards."""
        self._poses.append((stamp, pose))

    def forget(self) -> None:
        """Know of no time before now."""
        self._poses.clear()

    def at(self, stamp: float) -> FloatArray | None:
        """Return the pose at a time, None if that is longer ago than the track remembers."""
        after: tuple[float, FloatArray] | None = None
        for before in reversed(self._poses):
            if before[0] <= stamp:
                if after is None:
                    return before[1].copy()
                share = (stamp - before[0]) / (after[0] - before[0])
                pose: FloatArray = before[1] + share * (after[1] - before[1])
                pose[2] = wrap(before[1][2] + share * wrap(after[1][2] - before[1][2]))
                return pose
            after = before
        return None
