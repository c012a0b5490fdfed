"""For programs: run a scenario with combinations of settings."""

from swarmbed_experiments.runs.scan import scan

__all__ = ["scan"]
