"""For programs: one run of a scenario, and its track."""

from swarmbed_experiments.runs.run import Run, Track

__all__ = ["Run", "Track"]
