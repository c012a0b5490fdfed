"""Cells of a study: each is a scenario with some changes, run with several seeds.

A cell is a sweep with its own directory. A stopped study therefore continues where it was, uses all cores,
and has the same runs as `swarmbed sweep`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from swarmbed_experiments.runs import sweep
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_experiments.runs.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from swarmbed_core.geometry import FloatArray


@dataclass(frozen=True)
class Cell:
    """A scenario with changes, and its seeds.

    Attributes:
        name: for messages.
        scenario: a name from config/scenarios.
        sets: changes, such as `robots.0.count=7`.
        seeds: number of seeds.
        first: the first seed.
    """

    name: str
    scenario: str
    sets: tuple[str, ...]
    seeds: int
    first: int = 1


@dataclass(frozen=True)
class Found:
    """Results of a cell's runs."""

    cell: Cell
    rows: list[dict[str, Any]]

    def values(self, metric: str) -> FloatArray:
        """Return a metric's finite values, one for each run that has it."""
        found = [row[metric] for row in self.rows if isinstance(row.get(metric), int | float)]
        return np.array([value for value in found if math.isfinite(value)], dtype=np.float64)

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over the runs, NaN if none has it."""
        values = self.values(metric)
        return float(values.mean()) if len(values) else math.nan

    def spread(self, metric: str) -> float:
        """Return the standard deviation of a metric over the runs, 0 if none has it."""
        values = self.values(metric)
        return float(values.std()) if len(values) else 0.0

    def series(self, metric: str) -> list[FloatArray]:
        """Return a metric that is a list of numbers, for each run that has it."""
        return [np.array(json.loads(row[metric]), dtype=np.float64) for row in self.rows if metric in row]

    @property
    def accepted(self) -> float:
        """Return the share of the runs that were accepted."""
        accepted = sum(1 for row in self.rows if row["verdict"] == "accepted")
        return accepted / max(len(self.rows), 1)


def work(cells: Sequence[Cell], console: Console, workers: int | None = None) -> list[Found]:
    """Execute the missing runs of all cells, and return the results.

    Raises:
        ConfigError: a scenario is invalid.
        RunError: results cannot be written, or workers died.
        KeyboardInterrupt: Ctrl-C was pressed; completed runs are saved.
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
