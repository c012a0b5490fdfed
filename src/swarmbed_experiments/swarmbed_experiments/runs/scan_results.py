"""Results of a parameter scan: tables of cells and runs, a picture of each metric, terminal output.

A cell is one combination of the parameters' values. Its result is that of a sweep
(`swarmbed_experiments.runs.results`). `swarmbed_experiments.runs.scan` executes the runs.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text
from swarmbed_core.errors import ConfigError

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import read_json, write_json
from swarmbed_experiments.pictures import charts
from swarmbed_experiments.pictures.charts import Axis, Point
from swarmbed_experiments.pictures.drawing import files_of as picture_files
from swarmbed_experiments.runs.metrics import by_rank, label_of
from swarmbed_experiments.runs.results import (
    CONFIDENCE,
    FACTS,
    RESERVED,
    Result,
    is_number,
    number,
    shown,
    statistics,
    wilson,
    write_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from swarmbed_experiments.runs.scan import Grid
    from swarmbed_experiments.runs.sweep import Cell

ACCEPTED = "accepted"
"""Name of the share of accepted runs, which every scan has in addition to its metrics."""
TOLD = 40
"""Maximum number of cells in the printed table."""
ABOUT, CELLS = "scan.json", "cells"


def about_of(
    cells: Sequence[Cell],
    grids: Sequence[Grid],
    results: Sequence[Result],
    sets: Sequence[str],
    units: Mapping[str, str],
) -> dict[str, Any]:
    """Return the content of scan.json: what was run, and the aggregates of each cell."""
    scenario = cells[0].scenario
    fields = {grid.field for grid in grids}
    parameters = {
        key: value
        for key, value in scenario.controller.parameters.items()
        if f"controller.{key}" not in fields
    }
    places = itertools.product(*(grid.values for grid in grids))
    return {
        "scenario": Path(cells[0].source).stem,
        "title": scenario.title,
        "world": None if "world" in fields else scenario.world,
        "controller": None if fields & {"controller", "controller.name"} else scenario.controller.name,
        "parameters": parameters,
        "set": list(sets),
        "grids": [{"field": grid.field, "values": list(grid.values)} for grid in grids],
        "first_seed": cells[0].seeds[0],
        "seeds": len(cells[0].seeds),
        "units": dict(units),
        "cells": [
            {
                "values": list(values),
                "directory": f"{CELLS}/{result.directory.name}",
                **{
                    key: result.aggregates[key]
                    for key in ("runs", "verdicts", "accepted", "metrics", "yes_or_no", "not_summed_up")
                },
            }
            for values, result in zip(places, results, strict=True)
        ],
    }


def write(
    directory: Path, grids: Sequence[Grid], results: Sequence[Result], about: Mapping[str, Any]
) -> None:
    """Write scan.json, and the tables of cells and runs with the parameters as columns.

    Raises:
        RunError: they cannot be written.
    """
    write_json(directory / ABOUT, about)
    fields = [grid.field for grid in grids]
    cells, runs = [], []
    for values, result in zip(itertools.product(*(grid.values for grid in grids)), results, strict=True):
        place = dict(zip(fields, map(_cell_value, values), strict=True))
        sums = result.aggregates
        row = {
            **place,
            "runs": sums["runs"],
            "accepted": sums["accepted"]["share"],
            "accepted_low": sums["accepted"]["low"],
            "accepted_high": sums["accepted"]["high"],
        }
        for name, found in sums["metrics"].items():
            columns = {"": "mean", "_low": "low", "_high": "high", "_std": "std", "_runs": "runs"}
            for end, key in columns.items():
                _put(row, f"{name}{end}", found[key])
        for name, found in sums["yes_or_no"].items():
            _put(row, name, found["share"])
        cells.append(row)
        for run in result.rows:
            line = dict(place)
            for name, value in run.items():
                _put(line, name, value)
            runs.append(line)
    write_table(directory / "scan.parquet", cells)
    if runs:
        write_table(directory / "runs.parquet", runs)


def _put(row: dict[str, Any], name: str, value: Any) -> None:
    """Add a column. If the name is taken, such as by a parameter, it gets the prefix `metrics.`."""
    while name in row:
        name = f"metrics.{name}"
    row[name] = value


def _cell_value(value: Any) -> Any:
    """Return a parameter's value in a type that a table can hold."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return value if plain else json.dumps(value, default=str)


def choose(metrics: Sequence[str], results: Sequence[Result]) -> tuple[str, ...]:
    """Return the metrics to draw: those requested, or else the most important one.

    Raises:
        ConfigError: a metric does not exist; the message lists those that do.
    """
    there = [
        name
        for name in dict.fromkeys(key for result in results for row in result.rows for key in row)
        if name not in FACTS and any(_values(result, name) for result in results)
    ]
    for name in metrics:
        insist(name, there, "no run has such a number")
    if metrics:
        return tuple(dict.fromkeys(metrics))
    every = [row for result in results for row in result.rows]
    return (next(iter(charts.headline(every)), ACCEPTED),)


def insist(name: str, there: Iterable[str], why: str) -> None:
    """Check that a metric exists.

    Raises:
        ConfigError: it does not; the message lists those that do.
    """
    if name != ACCEPTED and name not in there:
        plain = [each for each in there if "." not in each and each not in RESERVED]
        known = [*by_rank(plain), *sorted(set(plain) - set(by_rank(plain)))]
        message = f"--metric {name}: {why}; metrics are {', '.join([ACCEPTED, *known])}"
        raise ConfigError(message)


def _values(result: Result, metric: str) -> list[float]:
    """Return a metric's values, one for each run that has it: 1 and 0 for booleans, percent for ACCEPTED."""
    if metric == ACCEPTED:
        return [100.0 * (row["verdict"] == "accepted") for row in result.rows]
    found: list[Any] = [row.get(metric) for row in result.rows if row["verdict"] != "failed"]
    return [float(value) for value in found if isinstance(value, bool) or is_number(value)]


def point_of(result: Result, metric: str) -> Point:
    """Return a metric's value in one cell, with its interval: Wilson for shares, Student's t for means."""
    values = _values(result, metric)
    if not values:
        return Point((), len(result.rows), math.nan, None, None)
    if metric == ACCEPTED:
        low, high = wilson(sum(value > 0 for value in values), len(values))
        mean = sum(values) / len(values)
        if len(values) == 1:
            return Point(tuple(values), 1, mean, None, None)
        return Point(tuple(values), len(values), mean, 100 * low, 100 * high)
    sums = statistics(values)
    return Point(tuple(values), len(result.rows), sums["mean"], sums["low"], sums["high"])


def draw(
    directory: Path, about: Mapping[str, Any], results: Sequence[Result], metrics: Sequence[str]
) -> tuple[Path, ...]:
    """Draw a picture of each metric into a scan's directory, and return the files of those that can be drawn.

    Raises:
        RunError: a picture cannot be written.
    """
    axes = [Axis(grid["field"], tuple(grid["values"])) for grid in about["grids"]]
    places = list(itertools.product(*(range(len(axis.values)) for axis in axes)))
    files: list[Path] = []
    for metric in metrics:
        points = dict(zip(places, (point_of(result, metric) for result in results), strict=True))
        file = directory / f"{re.sub(r'[^A-Za-z0-9_-]', '_', metric)}.png"
        label = "runs accepted (%)" if metric == ACCEPTED else label_of(metric, about["units"])
        if charts.draw_scan(file, axes, points, label, f"{about['title']}\n{_what(about)}"):
            files += picture_files(file)
    return tuple(files)


def redraw(directory: Path, metrics: Sequence[str] = ()) -> tuple[Path, ...]:
    """Draw the pictures of a scan again from its files, and return the pictures' files.

    Raises:
        ConfigError: a metric does not exist.
        RunError: the scan's files are missing or invalid, or there are too many parameters or values to draw.
    """
    from swarmbed_experiments.runs.results import read_table

    about = read_json(directory / ABOUT)
    if not (isinstance(about, dict) and about.keys() >= {"grids", "cells", "units", "title"}):
        message = f"{directory / ABOUT}: not a scan's result; run the scan's command again"
        raise RunError(message)
    results = []
    for cell in about["cells"]:
        folder = directory / cell["directory"]
        file = folder / "sweep.parquet"
        results.append(Result(folder, read_table(file) if file.exists() else [], {}))
    files = draw(directory, about, results, choose(metrics, results))
    if not files:
        raise RunError(NOT_DRAWN)
    return files


NOT_DRAWN = (
    "no picture: more than three parameters, or more than "
    f"{charts.MULTIPLES} values of the third, cannot be drawn; scan.parquet has all cells"
)


# Terminal output


def _what(about: Mapping[str, Any]) -> str:
    """Describe the runs: the controller with the parameters common to all cells, the world, the seeds."""
    parameters = ", ".join(f"{name}={shown(value)}" for name, value in about["parameters"].items())
    controller = about["controller"]
    parts = [f"{controller} ({parameters})" if controller and parameters else controller, about["world"]]
    seeds = about["seeds"]
    parts.append(f"seed {about['first_seed']}" if seeds == 1 else f"{seeds} seeds a cell")
    return ", ".join(part for part in parts if part)


def tell(
    console: Console,
    directory: Path,
    about: Mapping[str, Any],
    results: Sequence[Result],
    metrics: Sequence[str],
    pictures: Sequence[Path],
) -> None:
    """Print the table of cells, which fits into 80 columns, and the paths of the files."""
    console.print(Text(about["title"], style="bold"), soft_wrap=True)
    console.print(Text(_what(about)), soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    fields = [grid["field"] for grid in about["grids"]]
    lasts = [field.rpartition(".")[2] for field in fields]
    for field, last in zip(fields, lasts, strict=True):
        table.add_column(last if lasts.count(last) == 1 else field, overflow="fold")
    table.add_column(ACCEPTED, justify="right", no_wrap=True)
    columns = [metric for metric in metrics if metric != ACCEPTED][:2]
    for metric in columns:
        table.add_column(label_of(metric, about["units"]), justify="right")
        table.add_column(f"± {CONFIDENCE:.0%}", justify="right", no_wrap=True)
    for cell, result in list(zip(about["cells"], results, strict=True))[:TOLD]:
        row = [shown(value, 24) for value in cell["values"]]
        row.append(f"{cell['accepted']['runs']} of {cell['runs']}")
        for metric in columns:
            point = point_of(result, metric)
            few = f" ({len(point.values)} runs)" if len(point.values) < point.runs else ""
            row.append(f"{number(point.mean)}{few}" if point.values else "none")
            row.append("" if point.high is None else f"{point.high - point.mean:.2g}")
        table.add_row(*map(Text, row))
    console.print(table)
    if len(results) > TOLD:
        console.print(f"and {len(results) - TOLD} more cells, in scan.parquet", highlight=False)
    failed = [row for result in results for row in result.rows if row["verdict"] == "failed"]
    for run in failed[:3]:
        text = f"seed {run['seed']} failed: {run.get('reason')}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    if not pictures:
        console.print(NOT_DRAWN, highlight=False, soft_wrap=True)
    named = [*((file, "picture") for file in pictures), (directory / "scan.parquet", "cells")]
    for file, what in [*named, (directory / "runs.parquet", "runs"), (directory / ABOUT, "aggregates")]:
        console.print(f"{what}: {file}", markup=False, highlight=False, soft_wrap=True)
