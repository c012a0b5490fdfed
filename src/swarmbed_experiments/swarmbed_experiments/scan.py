"""Parameter scans: a scenario with every combination of some values, several seeds each.

A grid is one field and its values, as `--grid controller.speed=0.2,0.4` has it. Each combination is a cell,
and each cell a sweep in the scan's directory. All runs are one list of work. A scan leaves a table of the
cells and one of the runs, with the parameters as columns, and a picture of each metric that is asked for.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import ConfigError
from swarmbed_core.safe_yaml import parse, short

from swarmbed_experiments import charts, cluster
from swarmbed_experiments.charts import Axis, Point
from swarmbed_experiments.drawing import files_of as picture_files
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import RUNS, read_json, write_json
from swarmbed_experiments.hang import Limits
from swarmbed_experiments.metrics import by_rank, label_of
from swarmbed_experiments.results import (
    CONFIDENCE,
    FACTS,
    RESERVED,
    Result,
    is_number,
    number,
    row_of,
    shown,
    statistics,
    wilson,
    write_table,
)
from swarmbed_experiments.scenarios import load_scenario
from swarmbed_experiments.sweep import Cell, prepare, seeds_of, work_through
from swarmbed_experiments.workers import Lost, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from swarmbed_experiments.rehearsal import Case
    from swarmbed_experiments.sweep import Task

MOST_CELLS = 10_000
ACCEPTED = "accepted"
"""Name of the share of accepted runs, which every scan has beside its metrics."""
FAULTS = 5
"""Cells that are wrong and named; of more the number is."""
TOLD = 40
"""Cells that the printed table has at most."""
ABOUT, CELLS = "scan.json", "cells"
NAME = 60
"""Letters of a cell's directory."""


@dataclass(frozen=True)
class Grid:
    """A field of the scenario and the values that it takes.

    Attributes:
        field: such as `controller.speed`.
        texts: the values as YAML.
        values: what they are.
    """

    field: str
    texts: tuple[str, ...]
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, text: str) -> Grid:
        """Return what `FIELD=VALUE,VALUE` means; commas in brackets and quotes belong to a value.

        Raises:
            ConfigError: it cannot be understood.
        """
        field, equals, rest = text.partition("=")
        field = field.strip()
        if not equals or not all(field.split(".")):
            message = f"--grid {text}: write FIELD=VALUE,VALUE, such as controller.speed=0.2,0.4"
            raise ConfigError(message)
        texts = [part.strip() for part in _split(text, rest)]
        if not all(texts):
            what = "there is no value" if len(texts) == 1 else f"value {texts.index('') + 1} is empty"
            message = f"--grid {text}: {what}; write FIELD=VALUE,VALUE, and '' for an empty text"
            raise ConfigError(message)
        values = []
        for part in texts:
            try:
                values.append(parse(part, f"--grid {short(text, 120)}"))
            except ConfigError as error:
                message = f"{error}; '{short(part)}' is not a YAML value: put special characters in quotes"
                raise ConfigError(message) from None
        kinds = [json.dumps(value, default=str) for value in values]
        twice = next((part for k, part in enumerate(texts) if kinds[k] in kinds[:k]), None)
        if twice is not None:
            message = f"--grid {text}: {twice} is there twice; give each value once"
            raise ConfigError(message)
        return cls(field, tuple(texts), tuple(values))

    @property
    def axis(self) -> Axis:
        """Return it as an axis of a picture."""
        return Axis(self.field, self.values)


def _split(whole: str, text: str) -> list[str]:
    """Return what stands between the commas that are in no bracket and no quotes.

    Raises:
        ConfigError: a bracket or quote has no end.
    """
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and (depth or not parts[-1].strip()):
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and not depth:
            parts.append("")
            continue
        parts[-1] += letter
    if quote or depth:
        message = f"--grid {whole}: {'a quote' if quote else 'a bracket'} has no counterpart"
        raise ConfigError(message)
    return parts


@dataclass(frozen=True)
class Scan:
    """What a scan has found out.

    Attributes:
        directory: where its files are.
        grids: what was scanned.
        results: of the cells, the last grid's values changing fastest.
        metrics: those that are drawn.
        pictures: their files.
    """

    directory: Path
    grids: tuple[Grid, ...]
    results: list[Result]
    metrics: tuple[str, ...]
    pictures: tuple[Path, ...]


def scan(
    name: str,
    grids: Sequence[str],
    *,
    seeds: int,
    out: Path | None = None,
    first_seed: int = 1,
    workers: int | None = None,
    dask: str | None = None,
    world: str | None = None,
    sets: Sequence[str] = (),
    metrics: Sequence[str] = (),
    console: Console | None = None,
    job: Callable[[Task], dict[str, Any]] | None = None,
    limits: Limits | None = None,
) -> Scan:
    """Run a scenario with all combinations of some values, or go on with that.

    Args:
        name: of the scenario, or a path to its file.
        grids: such as `controller.speed=0.2,0.4`.
        seeds: runs of each cell; all cells have the same seeds.
        out: the directory of this scan; one in `runs/` with a name of its own, if not given.
        first_seed: of the first run; the others count on.
        workers: processes on this machine; one a core, if not given.
        dask: address of a Dask scheduler, whose workers are used instead.
        world: instead of the scenario's.
        sets: changes of the scenario that all cells have.
        metrics: that are drawn; the one that matters most for the scenario, if none is given.
        console: for progress and results.
        job: what is done for each task instead of a run.
        limits: how long a tick and a run may take.

    Raises:
        ConfigError: a grid or a cell is wrong, or there is no such metric.
        RunError: results cannot be written, workers die, or there is no cluster at the address.
        KeyboardInterrupt: somebody pressed Ctrl-C; what was done by then is kept and summed up.
    """
    console = console or Console(quiet=True)
    wanted = seeds_of(first_seed, seeds)
    if dask is not None:
        cluster.check_address(dask)
    parsed = tuple(Grid.parse(text) for text in grids)
    _check(parsed, world, sets)
    directory = _directory(out, name, parsed, world, sets)
    cells = _cells(name, parsed, wanted, world, sets, directory)
    limits = limits or Limits()
    with Workers(workers) as crew:
        inputs = prepare(crew, cells, console, limits, job=job, here=dask is None)
        if metrics and job is None:
            columns = crew.submit(columns_of, cells[0].case, limits=Limits(limits.tick)).result()
            for metric in metrics if columns and not isinstance(columns, Lost) else ():
                _insist(metric, columns, "runs have no such metric")
        _claim(directory)
        text = f"{len(cells)} cells with {seeds} seeds each: {len(cells) * seeds} runs"
        console.print(text, highlight=False)
        worked = work_through(crew, cells, inputs, console, limits, job=job, dask=dask, pictures=False)
    units = {name: unit for found in inputs for name, unit in found.units.items()}
    about = _about(cells, parsed, worked.results, sets, units)
    _write(directory, parsed, worked.results, about)
    chosen: tuple[str, ...] = ()
    pictures: tuple[Path, ...] = ()
    if any(result.rows for result in worked.results):
        chosen = choose(metrics, worked.results)
        pictures = draw(directory, about, worked.results, chosen)
        tell(console, directory, about, worked.results, chosen, pictures)
    console.print(f"{worked.ran} runs in {worked.seconds:.1f} s", highlight=False)
    worked.insist(console)
    return Scan(directory, parsed, worked.results, chosen, pictures)


def columns_of(case: Case) -> list[str]:
    """Return the names of the columns of a scenario's rows, as its first second tells; none if it fails."""
    from swarmbed_experiments.runner import Run

    run = Run(case.read(), case.source)
    try:
        for _ in range(round(TICK_RATE)):
            run.tick()
        return list(row_of(run.finish("interrupted", "", 0.0)))
    except Exception:  # noqa: BLE001 - the runs tell what is wrong, each in its row
        return []
    finally:
        run.close()


def _check(grids: Sequence[Grid], world: str | None, sets: Sequence[str]) -> None:
    """Refuse fields that are there twice, and more cells than anybody can want.

    Raises:
        ConfigError: there are such.
    """
    fields = [grid.field for grid in grids]
    fixed = {change.partition("=")[0].strip() for change in sets} | ({"world"} if world else set())
    for k, field in enumerate(fields):
        if field in fields[:k]:
            message = f"--grid {field}: there twice; put all its values into one"
            raise ConfigError(message)
        if field in fixed:
            option = "--world" if field == "world" else "--set"
            message = f"--grid {field}: the same field is set by {option} too; remove one of them"
            raise ConfigError(message)
        if field == "seed":
            message = "--grid seed: each cell has several seeds; use --seeds and --first-seed"
            raise ConfigError(message)
    count = math.prod(len(grid.texts) for grid in grids)
    if count > MOST_CELLS:
        message = f"--grid: {count:,} cells; at most {MOST_CELLS:,} are possible: give fewer values"
        raise ConfigError(message)


def _directory(
    out: Path | None, name: str, grids: Sequence[Grid], world: str | None, sets: Sequence[str]
) -> Path:
    """Return where a scan's files go: the same for the same fields, so that values can be added."""
    if out is not None:
        return out
    what = json.dumps([name, world, list(sets), [grid.field for grid in grids]])
    return RUNS / f"scan-{Path(name).stem}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"


def _cells(
    name: str,
    grids: Sequence[Grid],
    seeds: range,
    world: str | None,
    sets: Sequence[str],
    directory: Path,
) -> list[Cell]:
    """Return the cells.

    Raises:
        ConfigError: a cell's scenario is wrong, or two are the same.
    """
    cells: list[Cell] = []
    faults: list[str] = []
    seen: dict[str, str] = {}
    for texts in itertools.product(*(grid.texts for grid in grids)):
        changes = [f"{grid.field}={text}" for grid, text in zip(grids, texts, strict=True)]
        title = ", ".join(changes)
        try:
            scenario, source = load_scenario(name, [*sets, *changes], world=world, seed=seeds[0])
        except ConfigError as error:
            faults.append(f"cell {title}: {str(error).replace('--set ', '--grid ')}")
            continue
        same = seen.setdefault(scenario.model_dump_json(), title)
        if same != title:
            faults.append(f"cell {title}: the same scenario as cell {same}; remove one of them")
            continue
        place = partial(_place, directory / CELLS, _slug(changes))
        cells.append(Cell(title, scenario.seen_from(Path.cwd()), source, seeds, place))
    if faults:
        more = [f"and {len(faults) - FAULTS} more cells"] if len(faults) > FAULTS else []
        raise ConfigError("\n".join([*faults[:FAULTS], *more]))
    return cells


def _place(folder: Path, slug: str, digest: str) -> Path:
    """Return a cell's directory."""
    return folder / f"{slug}-{digest}"


def _slug(changes: Sequence[str]) -> str:
    """Return what a cell's directory is called, before the word for all that decides its runs."""
    named = (change.partition("=") for change in changes)
    short = ",".join(f"{field.rpartition('.')[2]}={text}" for field, _, text in named)
    return re.sub(r"[^A-Za-z0-9._=,+-]", "_", short)[:NAME]


def _claim(directory: Path) -> None:
    """Make the directory of a scan, or make sure that it is one.

    Raises:
        RunError: it cannot be made, or holds something else.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        there = sorted(path.name for path in directory.iterdir())
        if there and CELLS not in there:
            message = f"{directory} is no scan's: {there[0]} is in it; give --out one of its own"
            raise RunError(message)
        (directory / CELLS).mkdir(exist_ok=True)
    except OSError as error:
        message = f"{directory}: cannot be made ({error.strerror}); choose another --out"
        raise RunError(message) from None


# What comes out


def _about(
    cells: Sequence[Cell],
    grids: Sequence[Grid],
    results: Sequence[Result],
    sets: Sequence[str],
    units: Mapping[str, str],
) -> dict[str, Any]:
    """Return what scan.json says: what was run, and the sums of each cell."""
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


def _write(
    directory: Path, grids: Sequence[Grid], results: Sequence[Result], about: Mapping[str, Any]
) -> None:
    """Write the tables of cells and runs, and scan.json.

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
    """Add a column; a parameter's stays what it is."""
    while name in row:
        name = f"metrics.{name}"
    row[name] = value


def _cell_value(value: Any) -> Any:
    """Return a parameter's value as a table can hold it."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return value if plain else json.dumps(value, default=str)


def choose(metrics: Sequence[str], results: Sequence[Result]) -> tuple[str, ...]:
    """Return the metrics to draw: those asked for, or the one that matters most.

    Raises:
        ConfigError: there is none of that name; the message lists those that are there.
    """
    there = [
        name
        for name in dict.fromkeys(key for result in results for row in result.rows for key in row)
        if name not in FACTS and any(_values(result, name) for result in results)
    ]
    for name in metrics:
        _insist(name, there, "no run has such a number")
    if metrics:
        return tuple(dict.fromkeys(metrics))
    every = [row for result in results for row in result.rows]
    return (next(iter(charts.headline(every)), ACCEPTED),)


def _insist(name: str, there: Iterable[str], why: str) -> None:
    """Make sure that there is a metric.

    Raises:
        ConfigError: there is none.
    """
    if name != ACCEPTED and name not in there:
        plain = [each for each in there if "." not in each and each not in RESERVED]
        known = [*by_rank(plain), *sorted(set(plain) - set(by_rank(plain)))]
        message = f"--metric {name}: {why}; there are {', '.join([ACCEPTED, *known])}"
        raise ConfigError(message)


def _values(result: Result, metric: str) -> list[float]:
    """Return a metric of each run that has it; yes is 1, no is 0."""
    if metric == ACCEPTED:
        return [100.0 * (row["verdict"] == "accepted") for row in result.rows]
    found: list[Any] = [row.get(metric) for row in result.rows if row["verdict"] != "failed"]
    return [float(value) for value in found if isinstance(value, bool) or is_number(value)]


def point_of(result: Result, metric: str) -> Point:
    """Return what a metric is in one cell, with its interval: Wilson's of shares, Student's of means."""
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
        RunError: they cannot be written.
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
    """Draw the pictures of a scan again from its files, and return them.

    Raises:
        ConfigError: there is no such metric.
        RunError: its files cannot be used, or it cannot be drawn.
    """
    from swarmbed_experiments.results import read_table

    about = read_json(directory / ABOUT)
    if not (isinstance(about, dict) and about.keys() >= {"grids", "cells", "units", "title"}):
        message = f"{directory / ABOUT}: is not what a scan leaves; run the scan's command again"
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
    "more than three parameters, or more than "
    f"{charts.MULTIPLES} values of the third, fit into no picture: scan.parquet has all cells"
)


# What a person sees


def _what(about: Mapping[str, Any]) -> str:
    """Return what was run: the controller with the parameters that all cells have, the world, the seeds."""
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
    """Print the cells, in 80 columns if there are no more."""
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
    for file, what in [*named, (directory / "runs.parquet", "runs"), (directory / ABOUT, "sums")]:
        console.print(f"{what}: {file}", markup=False, highlight=False, soft_wrap=True)
