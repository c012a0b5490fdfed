"""For programs: one run of a scenario, and its track."""

from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.track import Track

__all__ = ["Run", "Track"]
