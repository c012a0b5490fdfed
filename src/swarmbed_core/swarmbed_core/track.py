"""Recent odometry poses, for delayed readings: an image is some hundredths of a second old (Table II)."""

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
"""Length of the pose history; older images cannot be placed."""


class Track:
    """History of the robot's poses in `odom`."""

    __slots__ = ("_poses",)

    def __init__(self, rate: float) -> None:
        """Keep the latest `TRACK_SECONDS` of poses that arrive at `rate`, in Hz."""
        self._poses: deque[tuple[float, Pose]] = deque(maxlen=math.ceil(TRACK_SECONDS * rate) + 1)

    def add(self, stamp: float, pose: Pose) -> None:
        """Append a pose."""
        self._poses.append((stamp, pose))

    def forget(self) -> None:
        """Clear the history."""
        self._poses.clear()

    def at(self, stamp: float) -> FloatArray | None:
        """Return the interpolated pose at a time, at most the newest one; None before the oldest one."""
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
