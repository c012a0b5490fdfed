"""The metrics that controllers of this package return."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmbed_core.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

METRICS: Mapping[str, Metric] = {
    "convoy_adjustments_per_robot": Metric("adjustments of a robot", "", 24),
    "convoy_lost": Metric("robots lost by the convoy", "", 25),
    "convoy_rounds": Metric("rounds of the convoy", "", 26),
    "routes_found": Metric("routes found", "", 27),
    "routes_given": Metric("routes received", "", 28),
    "talks_begun": Metric("talks", "", 29),
    "talk_seconds": Metric("a talk, mean", "s", 30),
    "routes": Metric("routes"),
    "talks": Metric("when robots talked", "s"),
}
