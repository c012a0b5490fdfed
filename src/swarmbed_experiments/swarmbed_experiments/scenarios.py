"""For programs: load a scenario, change its settings, and write it."""

from swarmbed_experiments.runs.scenarios import apply_set, load_scenario, to_yaml

__all__ = ["apply_set", "load_scenario", "to_yaml"]
