"""Benchmarks: the rows of docs/benchmarks.md."""
