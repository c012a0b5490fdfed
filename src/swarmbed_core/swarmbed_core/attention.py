"""Attention on one carrier (DOTS paper, IV-B2).

If several carriers are visible, the robot selects one and ignores the others for a few seconds, so that it
does not alternate between them. The paper does not say when its 3 s start. Here they start at the last sight
of the selected carrier: counted from the first, they could expire while the robot is about to dock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.health import Health
    from swarmbed_core.markers import SideSight

# [s] Images arrive 50-80 ms late and out of order (Table II). A stamp older than this means a clock reset.
CLOCK_BACK = 0.5


class Attention:
    """Selects the carrier that the robot attends to. Time is that of the sights' stamps."""

    def __init__(self, seconds: float = 3.0, health: Health | None = None) -> None:
        """Start without a selected carrier.

        Args:
            seconds: time after the last sight of the selected carrier during which others are ignored.
            health: counts unusable stamps and clocks that step back.
        """
        self.seconds = seconds
        self._health = health
        self._id: int | None = None
        self._last_sight = -math.inf
        self._newest = -math.inf

    @property
    def focus(self) -> int | None:
        """Return the id of the selected carrier at the newest stamp, or None."""
        return self._id if self._newest - self._last_sight <= self.seconds else None

    def attend(self, carrier_id: int, stamp: float) -> bool:
        """Record a sight of a carrier at `stamp`; return whether it is, or becomes, the selected one."""
        if not self.advance(stamp):
            return False
        if self.focus is None:
            self._id, self._last_sight = carrier_id, stamp
        if carrier_id != self._id:
            return False
        self._last_sight = max(self._last_sight, stamp)
        return True

    def pick(self, sights: Sequence[SideSight]) -> SideSight | None:
        """Return the best sight of the selected carrier. Without one, select the nearest."""
        known = [sight for sight in sights if self.advance(sight.stamp)]
        if self.focus is not None:
            known = [sight for sight in known if sight.id == self.focus]
        if not known:
            return None
        best = min(known, key=lambda sight: (not sight.yaw_known, sight.distance))
        if self.focus is None:
            best = min(known, key=lambda sight: sight.distance)
        return best if self.attend(best.id, best.stamp) else None

    def advance(self, stamp: float) -> bool:
        """Advance the time to `stamp`; return whether it is finite. A clock reset clears the selection."""
        if not math.isfinite(stamp):
            self._refuse("attention.stamp", f"sight with stamp {stamp}: expected finite seconds")
            return False
        if stamp < self._newest - CLOCK_BACK:
            self._refuse("attention.clock", f"the clock stepped back from {self._newest} s to {stamp} s")
            self.release()
            self._newest = stamp
        self._newest = max(self._newest, stamp)
        return True

    def release(self) -> None:
        """Clear the selection, for example after a carrier was put down."""
        self._id, self._last_sight = None, -math.inf

    def _refuse(self, reason: str, explanation: str) -> None:
        if self._health is not None:
            self._health.refuse(reason, explanation)
