"""Counters of rejected inputs.

Invalid input never stops a robot's loop. The code that rejects an input counts it here under a reason; the
robot's diagnostics publish the counters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Health:
    """Counters of rejected inputs by reason, each with the latest explanation."""

    counts: Counter[str] = field(default_factory=Counter)
    latest: dict[str, str] = field(default_factory=dict)

    def refuse(self, reason: str, explanation: str) -> None:
        """Count a rejected input.

        Args:
            reason: a short stable name, such as `command.not_finite`.
            explanation: the value received, and what was expected.
        """
        self.counts[reason] += 1
        self.latest[reason] = explanation

    @property
    def total(self) -> int:
        """Return the number of rejected inputs for all reasons."""
        return self.counts.total()
