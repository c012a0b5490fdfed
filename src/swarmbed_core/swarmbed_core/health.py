"""What was refused, and how often.

Bad input never kills a robot's loop. Whoever refuses something counts it here under a reason; the
diagnostics of the robot show the counters, and tests read them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Health:
    """Counters of refused inputs, each with the latest explanation."""

    counts: Counter[str] = field(default_factory=Counter)
    latest: dict[str, str] = field(default_factory=dict)

    def refuse(self, reason: str, explanation: str) -> None:
        """Count an input that was not used.

        Args:
            reason: a short stable name, such as `command.not_finite`.
            explanation: what came, and what would have been right.
        """
        self.counts[reason] += 1
        self.latest[reason] = explanation

    @property
    def total(self) -> int:
        """Return how many inputs were refused so far, for whatever reason."""
        return self.counts.total()
