"""Runs: loading a scenario, running it in one process, keeping and mending what it leaves, sweeps and scans."""
