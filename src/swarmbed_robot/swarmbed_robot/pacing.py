"""Paces control cycles by this machine's clock, and measures how late they begin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from swarmbed_robot.errors import RobotError

if TYPE_CHECKING:
    from collections.abc import Mapping

LATE = 0.002
"""Delay in seconds from which a control cycle counts as late."""
BEHIND = 0.1
"""Delay in seconds at which a loop that cannot keep pace skips the lost time."""
HASTE = 0.001
"""Delay in seconds from which a cycle counts as having had no time to wait for callbacks."""
DRAINED = 4
"""Callbacks that such a loop runs before a cycle, in addition to one per robot."""
RECENT = 4096
"""Number of latest cycles in the statistics of lateness."""
MOST_LATE = 0.05
"""Share of late cycles above which the diagnostics warn."""


def speed_of(text: str) -> float | None:
    """Return a speed as a multiple of real time; None for `max`.

    Raises:
        RobotError: the text is neither `max` nor a positive number.
    """
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        message = f"speed is '{text}': expected max, or a number above 0, such as 1 for real time"
        raise RobotError(message)
    return speed


class Pacer:
    """The times at which a loop's cycles are due.

    Attributes:
        speed: multiple of real time; None: as fast as possible.
        cycles: number of cycles begun.
        late: number of cycles that began late.
    """

    def __init__(self, speed: float | None = 1.0) -> None:
        self.speed = speed
        self.cycles = self.late = 0
        self._lateness = np.zeros(RECENT)

    def restart(self, now: float, period: float | None = None) -> None:
        """Schedule the cycles from now on, without catching up on lost time.

        Args:
            now: time of this machine's clock, in seconds.
            period: period of a cycle, in seconds of the robots' clock; None: unchanged.
        """
        self._start, self._first = now, self.cycles
        if period is not None:
            self._period = period

    def left(self, now: float) -> float:
        """Return the seconds until the next cycle is due; negative if it is late."""
        if self.speed is None:
            return 0.0
        return self._start + (self.cycles - self._first) * self._period / self.speed - now

    def begin(self, now: float) -> bool:
        """Count a cycle that begins; return whether there was no time to wait for callbacks before it."""
        late = -self.left(now)
        self._lateness[self.cycles % RECENT] = late
        self.late += late > LATE
        if late > BEHIND:
            self.restart(now)
        self.cycles += 1
        return late > HASTE

    def diagnostics(self, name: str, values: Mapping[str, str] | None = None) -> DiagnosticStatus:
        """Return diagnostics of the pace.

        Args:
            name: name of the world or the robot.
            values: further values to include.
        """
        recent = self._lateness[: min(self.cycles, RECENT)]
        share = self.late / max(self.cycles, 1)
        told = {
            **(values or {}),
            "cycles": str(self.cycles),
            "late by more than 2 ms": f"{100 * share:.1f} %",
            "95% begin within": f"{1e3 * float(np.quantile(recent, 0.95)):.2f} ms" if len(recent) else "",
        }
        return DiagnosticStatus(
            level=DiagnosticStatus.WARN if share > MOST_LATE else DiagnosticStatus.OK,
            name=f"{name}: pace",
            message="see the values" if share > MOST_LATE else "ok",
            hardware_id=name,
            values=[KeyValue(key=key, value=value) for key, value in told.items()],
        )
