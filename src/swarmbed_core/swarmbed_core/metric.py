"""Names, units and order of metrics.

A package declares the metrics that its controllers, transducers and acceptors return in a mapping from names
to `Metric`, with an entry point in the group `swarmbed.metrics`. Tables, figures and reports use these.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        text: the name shown to users.
        unit: empty for counts and shares.
        rank: lower is shown first; None for metrics that only files hold.
    """

    text: str
    unit: str = ""
    rank: int | None = None
