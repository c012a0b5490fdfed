"""Runs: load a scenario, run it in one process, keep and mend what it leaves, sweep and scan."""
