"""Parameter scans: a scenario with every combination of some values, each with several seeds.

A grid is one field and its values, such as `--grid controller.speed=0.2,0.4`. Each combination is a cell, and
each cell is a sweep in the scan's directory. All runs form one list of tasks, so that workers never wait for
a cell. `swarmbed_experiments.runs.scan_results` writes the tables and pictures.
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

from rich.console import Console
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import ConfigError
from swarmbed_core.safe_yaml import parse, short

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import RUNS
from swarmbed_experiments.pictures.charts import Axis
from swarmbed_experiments.runs import cluster
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.results import Result, row_of
from swarmbed_experiments.runs.scan_results import CELLS, about_of, choose, draw, insist, tell, write
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_experiments.runs.sweep import Cell, prepare, seeds_of, work_through
from swarmbed_experiments.runs.workers import Lost, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from swarmbed_experiments.runs.rehearsal import Case
    from swarmbed_experiments.runs.sweep import Task

MOST_CELLS = 10_000
FAULTS = 5
"""Maximum number of invalid cells that an error lists; further ones are only counted."""
NAME = 60
"""Maximum length of the name of a cell's directory, without the digest."""


@dataclass(frozen=True)
class Grid:
    """A field of the scenario and the values to try.

    Attributes:
        field: such as `controller.speed`.
        texts: the values as YAML.
        values: the parsed values.
    """

    field: str
    texts: tuple[str, ...]
    values: tuple[Any, ...]

    @classmethod
    def parse(cls, text: str) -> Grid:
        """Parse `FIELD=VALUE,VALUE`. Commas in brackets and quotes belong to a value.

        Raises:
            ConfigError: the syntax is wrong, or a value occurs twice.
        """
        field, equals, rest = text.partition("=")
        field = field.strip()
        if not equals or not all(field.split(".")):
            message = f"--grid {text}: write FIELD=VALUE,VALUE, such as controller.speed=0.2,0.4"
            raise ConfigError(message)
        texts = [part.strip() for part in _split(text, rest)]
        if not all(texts):
            what = "there is no value" if len(texts) == 1 else f"value {texts.index('') + 1} is empty"
            message = f"--grid {text}: {what}; write FIELD=VALUE,VALUE, and '' for an empty string"
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
            message = f"--grid {text}: value {twice} occurs twice; give each value once"
            raise ConfigError(message)
        return cls(field, tuple(texts), tuple(values))

    @property
    def axis(self) -> Axis:
        """Return the grid as an axis of a picture."""
        return Axis(self.field, self.values)


def _split(whole: str, text: str) -> list[str]:
    """Split a text at commas outside brackets and quotes.

    Raises:
        ConfigError: a bracket or quote is not closed.
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
        message = (
            f"--grid {whole}: a {'quote' if quote else 'bracket'} is unbalanced; close it, or quote the value"
        )
        raise ConfigError(message)
    return parts


@dataclass(frozen=True)
class Scan:
    """Result of a scan.

    Attributes:
        directory: of the scan's files.
        grids: the fields and values.
        results: of the cells; the last grid's values change fastest.
        metrics: the ones that are drawn.
        pictures: files of the pictures.
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
    """Run a scenario with all combinations of some values, or continue a scan.

    Args:
        name: of the scenario, or a path to its file.
        grids: such as `controller.speed=0.2,0.4`.
        seeds: number of runs per cell; all cells have the same seeds.
        out: the directory of this scan; by default one in `runs/`, named after scenario and fields.
        first_seed: of each cell's first run; the following runs count up from it.
        workers: number of processes on this machine; by default one per core.
        dask: address of a Dask scheduler, whose workers are used instead.
        world: replaces the scenario's.
        sets: changes of the scenario, for all cells.
        metrics: to draw; by default the most important one for the scenario.
        console: for progress and results.
        job: function called for each task instead of a run.
        limits: maximum wall time of a tick and of a run.

    Raises:
        ConfigError: a grid or a cell is invalid, or a metric does not exist.
        RunError: results cannot be written, workers die, or no cluster answers at the address.
        KeyboardInterrupt: Ctrl-C was pressed; completed runs are saved and aggregated.
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
                insist(metric, columns, "runs have no such metric")
        _claim(directory)
        text = f"{len(cells)} cells with {seeds} seeds each: {len(cells) * seeds} runs"
        console.print(text, highlight=False)
        worked = work_through(crew, cells, inputs, console, limits, job=job, dask=dask, pictures=False)
    units = {name: unit for found in inputs for name, unit in found.units.items()}
    about = about_of(cells, parsed, worked.results, sets, units)
    write(directory, parsed, worked.results, about)
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
    """Run a scenario's first second, and return the names of its rows' columns; empty if the run fails."""
    from swarmbed_experiments.runs.run import Run

    run = Run(case.read().all_virtual(), case.source)
    try:
        for _ in range(round(TICK_RATE)):
            run.tick()
        return list(row_of(run.finish("interrupted", "", 0.0)))
    except Exception:  # noqa: BLE001 - the runs report the error, each in its row
        return []
    finally:
        run.close()


def _check(grids: Sequence[Grid], world: str | None, sets: Sequence[str]) -> None:
    """Reject fields that occur twice or cannot be scanned, and more than MOST_CELLS cells.

    Raises:
        ConfigError: there is such a field, or there are too many cells.
    """
    fields = [grid.field for grid in grids]
    fixed = {change.partition("=")[0].strip() for change in sets} | ({"world"} if world else set())
    for k, field in enumerate(fields):
        if field in fields[:k]:
            message = f"--grid {field}: given twice; put all its values into one --grid"
            raise ConfigError(message)
        if field in fixed:
            option = "--world" if field == "world" else "--set"
            message = f"--grid {field}: {option} sets the same field; remove one of them"
            raise ConfigError(message)
        if field == "seed":
            message = "--grid seed: each cell has several seeds; use --seeds and --first-seed"
            raise ConfigError(message)
    count = math.prod(len(grid.texts) for grid in grids)
    if count > MOST_CELLS:
        message = f"--grid: {count:,} cells, at most {MOST_CELLS:,} are allowed; give fewer values"
        raise ConfigError(message)


def _directory(
    out: Path | None, name: str, grids: Sequence[Grid], world: str | None, sets: Sequence[str]
) -> Path:
    """Return the directory of a scan. It is the same for the same fields, so that values can be added."""
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
        ConfigError: a cell's scenario is invalid, or two cells are the same.
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
    """Return the name of a cell's directory, without the digest of its identity."""
    named = (change.partition("=") for change in changes)
    short = ",".join(f"{field.rpartition('.')[2]}={text}" for field, _, text in named)
    return re.sub(r"[^A-Za-z0-9._=,+-]", "_", short)[:NAME]


def _claim(directory: Path) -> None:
    """Make the directory of a scan, or check that an existing one belongs to a scan.

    Raises:
        RunError: it cannot be made, or holds something else.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        there = sorted(path.name for path in directory.iterdir())
        if there and CELLS not in there:
            message = f"{directory} is not a scan's: it contains {there[0]}; choose another --out"
            raise RunError(message)
        (directory / CELLS).mkdir(exist_ok=True)
    except OSError as error:
        message = f"{directory}: cannot be made ({error.strerror}); choose another --out"
        raise RunError(message) from None
