"""What a study is made of: cells, each one scenario with some changes, run with several seeds.

A cell is a sweep with a directory of its own, so that a study which was stopped goes on where it was, on all
cores, and its runs are those that `swarmbed sweep` would make.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from swarmbed_experiments import sweep
from swarmbed_experiments.hang import Limits
from swarmbed_experiments.scenarios import load_scenario
from swarmbed_experiments.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from swarmbed_core.geometry import FloatArray


@dataclass(frozen=True)
class Cell:
    """One scenario with changes, and how many seeds it is run with.

    Attributes:
        name: for people.
        scenario: a name from config/scenarios.
        sets: changes, such as `robots.0.count=7`.
        seeds: how many.
        first: the first of them.
    """

    name: str
    scenario: str
    sets: tuple[str, ...]
    seeds: int
    first: int = 1


@dataclass(frozen=True)
class Found:
    """What a cell's runs have found out."""

    cell: Cell
    rows: list[dict[str, Any]]

    def values(self, metric: str) -> FloatArray:
        """Return one number of each run that has it."""
        found = [row[metric] for row in self.rows if isinstance(row.get(metric), int | float)]
        return np.array([value for value in found if math.isfinite(value)], dtype=np.float64)

    def mean(self, metric: str) -> float:
        """Return the mean of a number over the runs, NaN if none has it."""
        values = self.values(metric)
        return float(values.mean()) if len(values) else math.nan

    def spread(self, metric: str) -> float:
        """Return the standard deviation of a number over the runs, 0 if none has it."""
        values = self.values(metric)
        return float(values.std()) if len(values) else 0.0

    def series(self, metric: str) -> list[FloatArray]:
        """Return what is a list of numbers in each run."""
        return [np.array(json.loads(row[metric]), dtype=np.float64) for row in self.rows if metric in row]

    @property
    def accepted(self) -> float:
        """Return the share of the runs that were accepted."""
        accepted = sum(1 for row in self.rows if row["verdict"] == "accepted")
        return accepted / max(len(self.rows), 1)


def work(cells: Sequence[Cell], console: Console, workers: int | None = None) -> list[Found]:
    """Run all cells, or what is left of them, and return what they found out.

    Raises:
        ConfigError: a scenario is wrong.
        RunError: results cannot be written, or workers died.
        KeyboardInterrupt: somebody pressed Ctrl-C; what was done by then is kept.
    """
    sweeps = []
    for cell in cells:
        scenario, source = load_scenario(cell.scenario, cell.sets, seed=cell.first)
        sweeps.append(sweep.Cell(cell.name, scenario, source, range(cell.first, cell.first + cell.seeds)))
    limits = Limits()
    with Workers(workers) as crew:
        inputs = sweep.prepare(crew, sweeps, console, limits)
        text = f"{len(cells)} cells, {sum(cell.seeds for cell in cells)} runs"
        console.print(text, highlight=False)
        worked = sweep.work_through(crew, sweeps, inputs, console, limits, pictures=False)
    done = sum(len(result.rows) == cell.seeds for cell, result in zip(cells, worked.results, strict=True))
    if done < len(cells):
        console.print(f"{done} of {len(cells)} cells are done", highlight=False)
    worked.insist(console)
    return [Found(cell, result.rows) for cell, result in zip(cells, worked.results, strict=True)]
