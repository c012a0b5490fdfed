"""When control cycles are due on this machine's clock, and how well that is kept."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from swarmbed_robot.errors import RobotError

if TYPE_CHECKING:
    from collections.abc import Mapping

LATE = 0.002
"""Seconds after its time from which a control cycle counts as late."""
BEHIND = 0.1
"""Seconds that a loop which cannot keep pace runs after its time before it gives the lost time up."""
HASTE = 0.001
"""Seconds after its time from which a cycle shows that there was none to wait in."""
DRAINED = 4
"""Callbacks that a loop without time to wait takes before a cycle, besides one for each robot."""
RECENT = 4096
MOST_LATE = 0.05
"""Share of late cycles above which the diagnostics warn."""


def speed_of(text: str) -> float | None:
    """Return times real time, None for as fast as it goes.

    Raises:
        RobotError: it is no speed.
    """
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        message = f"speed is '{text}': max, or a number above 0 such as 1 for real time, is right"
        raise RobotError(message)
    return speed


class Pacer:
    """The times at which a loop's cycles are due.

    Attributes:
        speed: times real time; None for as fast as it goes.
        cycles: how many began.
        late: how many of them began late.
    """

    def __init__(self, speed: float | None = 1.0) -> None:
        self.speed = speed
        self.cycles = self.late = 0
        self._lateness = np.zeros(RECENT)

    def restart(self, now: float, period: float | None = None) -> None:
        """Count from now on: time that was lost is lost.

        Args:
            now: of this machine's clock.
            period: of a cycle, in seconds of the robots' clock; None for the one it was.
        """
        self._start, self._first = now, self.cycles
        if period is not None:
            self._period = period

    def left(self, now: float) -> float:
        """Return the seconds until the next cycle is due; below 0 it is late."""
        if self.speed is None:
            return 0.0
        return self._start + (self.cycles - self._first) * self._period / self.speed - now

    def begin(self, now: float) -> bool:
        """Take note that a cycle begins; return whether there was no time to wait before it."""
        late = -self.left(now)
        self._lateness[self.cycles % RECENT] = late
        self.late += late > LATE
        if late > BEHIND:
            self.restart(now)
        self.cycles += 1
        return late > HASTE

    def diagnostics(self, name: str, values: Mapping[str, str] | None = None) -> DiagnosticStatus:
        """Return how well the times are kept.

        Args:
            name: of the world or the robot.
            values: to tell besides.
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
