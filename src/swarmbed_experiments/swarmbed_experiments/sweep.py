"""For programs: run a scenario with many seeds."""

from swarmbed_experiments.runs.sweep import sweep

__all__ = ["sweep"]
