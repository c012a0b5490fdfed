"""Benchmark rows of observers: what a run costs more when somebody looks on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from swarmbed_experiments.bench.benchmarks import SEED, Row
from swarmbed_experiments.runs.run import Run, warm_up
from swarmbed_experiments.runs.scenarios import load_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from swarmbed_core.observing import Snapshot
    from swarmbed_core.scene import Scene

CASES = (
    ("1,000 robots in planar", "random_walk_1000", ["time_limit=60"], 5.0),
    ("5 DOTS in mujoco", "intralogistics_cooperative", ["time_limit=20"], 2.0),
)
"""What is run, with the most percent that an observer may cost."""
RATE = 30.0


class _Packs:
    """Packs the poses for somebody, as a live view does."""

    rate = RATE

    def __init__(self) -> None:
        self.bytes = 0

    def begin(self, scene: Scene, manifest: Mapping[str, Any]) -> None:
        """Do nothing."""

    def see(self, snapshot: Snapshot) -> None:
        """Pack one snapshot."""
        self.bytes += len(snapshot.poses.astype(np.float32).tobytes())

    def end(self, summary: Mapping[str, Any]) -> None:
        """Do nothing."""


def observers(quick: bool) -> Iterator[Row]:
    """Time runs with and without an observer, alternately."""
    for what, name, sets, most in CASES:
        case, source = load_scenario(name, [*sets, *(["time_limit=2"] if quick else [])], seed=SEED)
        warm_up(case, source)
        shares, seen = [], []
        for _ in range(1 if quick else 7):
            spent = []
            for looking in (False, True):
                run = Run(case, source)
                # Only the loop: neither the making of the world nor its end.
                began = time.perf_counter()
                summary = run.go(observers=[_Packs()] if looking else [])
                spent.append(time.perf_counter() - began)
                run.close()
                if looking:
                    told = summary["observers"]["_Packs"]
                    seen.append(told["seen"] / max(told["seen"] + told["missed"], 1))
            shares.append(spent[1] / spent[0] - 1.0)
        yield Row(
            f"an observer at {RATE:g} Hz, {what}",
            100.0 * float(np.median(shares)),
            "% more time",
            at_most=None if quick else most,
            note=f"median of {len(shares)} pairs; saw {100 * float(np.median(seen)):.0f} % of the snapshots",
        )
