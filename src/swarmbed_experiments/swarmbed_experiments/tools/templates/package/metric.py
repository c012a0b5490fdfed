"""My package's metric: how far the robots keep from each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from swarmbed_core.controller import NoParameters
from swarmbed_core.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmbed_core.config import Part
    from swarmbed_experiments.frame import Look, Setting


METRICS = {
    "spacing": Metric("distance to the nearest robot, mean", "m", 10),
    "spacing_least": Metric("distance to the nearest robot, least", "m", 11),
}
"""What tables and figures call the metrics, and in which order they come."""


class Spacing:
    """A transducer: the mean distance of a robot to the nearest other one."""

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:
        """Prepare. `setting` has the scene, the world and the robots' Onboards."""
        del parameters, setting
        self.sum, self.count, self.now, self.least = 0.0, 0, math.nan, math.inf

    def tick(self, look: Look) -> None:
        """Measure, ten times a second. `look` has the truth: x, y, yaw and velocities of all robots."""
        places = look.robots[:, :2]
        if len(places) < 2:
            return
        gaps = np.hypot(*(places[:, None] - places[None]).T)
        np.fill_diagonal(gaps, math.inf)
        self.now = float(gaps.min(axis=1).mean())
        self.sum, self.count = self.sum + self.now, self.count + 1
        self.least = min(self.least, float(gaps.min()))

    def row(self) -> Mapping[str, float]:
        """Return the current values, for the time series."""
        return {"spacing": self.now}

    def metrics(self) -> Mapping[str, Any]:
        """Return the metrics of the whole run, for the summary and for tables of sweeps."""
        return {
            "spacing": self.sum / self.count if self.count else math.nan,
            "spacing_least": self.least if self.count else math.nan,
        }
