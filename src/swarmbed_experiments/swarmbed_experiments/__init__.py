"""Runs, demonstrations, benchmarks and the `swarmbed` command."""
