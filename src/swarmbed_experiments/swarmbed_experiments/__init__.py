"""Scenarios, runs, sweeps, recordings, benchmarks and the `swarmbed` command."""
