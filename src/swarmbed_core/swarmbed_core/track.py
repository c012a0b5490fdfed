"""Where the robot was lately, for what comes late: an image is some hundredths of a second old (Table II)."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.geometry import wrap

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

    Pose = tuple[float, float, float]

TRACK_SECONDS = 0.5
"""How long ago an image may be for the robot to know where it was then."""


class Track:
    """Where the robot was lately, by its odometry."""

    __slots__ = ("_poses",)

    def __init__(self, rate: float) -> None:
        """Remember the latest half second of poses that come at `rate`, in Hz."""
        self._poses: deque[tuple[float, Pose]] = deque(maxlen=math.ceil(TRACK_SECONDS * rate) + 1)

    def add(self, stamp: float, pose: Pose) -> None:
        """Remember a pose."""
        self._poses.append((stamp, pose))

    def forget(self) -> None:
        """Know of no time before now."""
        self._poses.clear()

    def at(self, stamp: float) -> FloatArray | None:
        """Return the pose at a time, None if that is longer ago than the track remembers."""
        after: tuple[float, Pose] | None = None
        for before in reversed(self._poses):
            if before[0] <= stamp:
                x, y, yaw = before[1]
                if after is not None:
                    share = (stamp - before[0]) / (after[0] - before[0])
                    to_x, to_y, to_yaw = after[1]
                    x, y = x + share * (to_x - x), y + share * (to_y - y)
                    yaw = wrap(yaw + share * wrap(to_yaw - yaw))
                return np.array((x, y, yaw))
            after = before
        return None
