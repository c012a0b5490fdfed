"""The benchmark measures what it says: four markers, a pose that is right."""

from __future__ import annotations

import numpy as np
from swarmbed_core.markers_check import make_bench_case


def test_the_benchmarks_case() -> None:
    for seed in range(4):
        solver, reading = make_bench_case(np.random.default_rng(seed))
        assert len(reading.ids) == 4
        estimate = solver.solve(reading)
        assert estimate is not None
        assert estimate.markers == 4
