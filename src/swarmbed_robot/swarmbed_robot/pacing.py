"""Diagnostics of a loop's pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmbed_core.pacing import Pacer

DRAINED = 4
"""Callbacks that a loop that is behind runs before a cycle, in addition to one per robot."""
MOST_LATE = 0.05
"""Share of late cycles above which the diagnostics warn."""


def pace_status(pacer: Pacer, name: str, values: Mapping[str, str] | None = None) -> DiagnosticStatus:
    """Return diagnostics of the pace.

    Args:
        pacer: of the loop.
        name: name of the world or the robot.
        values: further values to include.
    """
    recent, share = pacer.lateness, pacer.share_late
    told = {
        **(values or {}),
        "cycles": str(pacer.cycles),
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
