"""Paces the steps of a loop by this machine's clock, and measures how late they begin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.errors import ConfigError

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

LATE = 0.002
"""Delay in seconds from which a step counts as late."""
BEHIND = 0.1
"""Delay in seconds at which a loop that cannot keep pace skips the lost time."""
HASTE = 0.001
"""Delay in seconds from which a step counts as having had no time for anything else before it."""
RECENT = 4096
"""Number of latest steps in the statistics of lateness."""


def speed_of(text: str) -> float | None:
    """Return a speed as a multiple of real time; None for `max`.

    Raises:
        ConfigError: the text is neither `max` nor a positive number.
    """
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        message = f"speed is '{text}': expected max, or a number above 0, such as 1 for real time"
        raise ConfigError(message)
    return speed


class Pacer:
    """The times at which a loop's steps are due.

    Attributes:
        speed: multiple of real time; None: as fast as possible. Call `restart` after changing it.
        cycles: number of steps begun.
        late: number of steps that began late.
    """

    def __init__(self, speed: float | None = 1.0) -> None:
        self.speed = speed
        self.cycles = self.late = 0
        self._lateness = np.zeros(RECENT)

    def restart(self, now: float, period: float | None = None) -> None:
        """Schedule the steps from now on, without catching up on lost time.

        Args:
            now: time of this machine's clock, in seconds.
            period: period of a step, in seconds of the world's time; None: unchanged.
        """
        self._start, self._first = now, self.cycles
        if period is not None:
            self._period = period

    def left(self, now: float) -> float:
        """Return the seconds until the next step is due; negative if it is late."""
        if self.speed is None:
            return 0.0
        return self._start + (self.cycles - self._first) * self._period / self.speed - now

    def begin(self, now: float) -> bool:
        """Count a step that begins; return whether there was no time for anything else before it."""
        late = -self.left(now)
        self._lateness[self.cycles % RECENT] = late
        self.late += late > LATE
        if late > BEHIND:
            self.restart(now)
        self.cycles += 1
        return late > HASTE

    @property
    def share_late(self) -> float:
        """Return the share of late steps."""
        return self.late / max(self.cycles, 1)

    @property
    def lateness(self) -> FloatArray:
        """Return how late the latest steps began, in seconds."""
        return self._lateness[: min(self.cycles, RECENT)]
