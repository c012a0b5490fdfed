"""Attention on one carrier (DOTS paper, IV-B2).

Where several carriers can be seen, the robot sticks to one and ignores the others for a few seconds, so that
it does not waver between them. The paper does not say from when its 3 s run; here from the last sight of that
carrier, for counted from the first, attention could move on while the robot is about to dock.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.health import Health
    from swarmbed_core.markers import SideSight

# Images arrive 50-80 ms late, and not in order (Table II); an older one means that the clock was set back.
CLOCK_BACK = 0.5


class Attention:
    """Decides which carrier the robot looks at; its time is that of the sights' stamps."""

    def __init__(self, seconds: float = 3.0, health: Health | None = None) -> None:
        """Look at nothing yet.

        Args:
            seconds: how long after the last sight of a carrier others are ignored.
            health: where sights with unusable stamps and clocks that step back are counted.
        """
        self.seconds = seconds
        self._health = health
        self._id: int | None = None
        self._last_sight = -math.inf
        self._newest = -math.inf

    @property
    def focus(self) -> int | None:
        """Return the carrier that has the attention, as of the newest stamp."""
        return self._id if self._newest - self._last_sight <= self.seconds else None

    def attend(self, carrier_id: int, stamp: float) -> bool:
        """Return whether a carrier seen at `stamp` has the attention or gets it, and remember that."""
        if not self.advance(stamp):
            return False
        if self.focus is None:
            self._id, self._last_sight = carrier_id, stamp
        if carrier_id != self._id:
            return False
        self._last_sight = max(self._last_sight, stamp)
        return True

    def pick(self, sights: Sequence[SideSight]) -> SideSight | None:
        """Return the best sight of the carrier that has the attention; if none has, the nearest gets it."""
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
        """Let time pass up to `stamp`; return whether it is one. A clock set back clears the attention."""
        if not math.isfinite(stamp):
            self._refuse("attention.stamp", f"a sight stamped {stamp}; seconds are right")
            return False
        if stamp < self._newest - CLOCK_BACK:
            self._refuse("attention.clock", f"the clock stepped back from {self._newest} s to {stamp} s")
            self.release()
            self._newest = stamp
        self._newest = max(self._newest, stamp)
        return True

    def release(self) -> None:
        """Look at nothing in particular again, such as after a carrier was put down."""
        self._id, self._last_sight = None, -math.inf

    def _refuse(self, reason: str, explanation: str) -> None:
        if self._health is not None:
            self._health.refuse(reason, explanation)
