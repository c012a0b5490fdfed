"""Results of a sweep: rows, aggregates with confidence intervals, and the files and the table of both.

A row is one run, flattened: the fields of its summary and its metrics. No metric is lost. A metric whose name
is taken gets the prefix `metrics.`. Lists become JSON, and so does a column of mixed types. sweep.json gives
the reason for each metric that cannot be averaged.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from swarmbed_experiments.errors import RunError, unwritable
from swarmbed_experiments.files import read_json, write_json
from swarmbed_experiments.pictures.drawing import files_of as picture_files
from swarmbed_experiments.runs.metrics import COSTS, by_rank, rank_of, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from swarmbed_core.scenario import Scenario

CONFIDENCE = 0.95
PERCENTILES = (5, 25, 50, 75, 95)
FACTS = frozenset({"scenario", "title", "world", "controller", "seed", "verdict", "reason"})
"""Columns that describe a run and its outcome. They are not averaged."""
RESERVED = FACTS | {"robots", "refused", "metrics", *COSTS}
"""Column names that a metric cannot have."""
SETTLED = frozenset({"robots", "carriers"})
"""Numbers that the scenario determines."""
HUGE = 1e300
"""Numbers of this size or larger, including infinity, are not averaged."""
LARGEST = 2**63
"""Integers from this size on do not fit into an integer column."""
COMMON = 10
"""Number of different texts that sweep.json lists per metric, the most frequent ones."""


# Rows


def row_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a run's summary into one row. Metrics of single robots get dotted names."""
    row: dict[str, Any] = {}
    for key, value in summary.items():
        if key != "metrics":
            row.update(_flat(str(key), value))
    metrics = summary.get("metrics")
    for key, value in _flat("", metrics if isinstance(metrics, dict) else {}).items():
        name = key
        while name in row or name in RESERVED or not name:
            name = f"metrics.{name}"
        row[name] = value
    return row


def _flat(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and value:
        row: dict[str, Any] = {}
        for inner, item in value.items():
            for name, plain in _flat(f"{key}.{inner}" if key else str(inner), item).items():
                free = name
                while free in row:
                    free = f"{free}'"
                row[free] = plain
        return row
    if isinstance(value, dict):
        return {}
    value = _plain(value)
    return {key: json.dumps(value, default=_plain) if isinstance(value, list | tuple) else value}


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: numbers, strings, lists; anything else becomes a string."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str | list | tuple | dict):
        return value
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return str(value)


def is_number(value: object) -> bool:
    """Return whether a value is a number that can be averaged."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -HUGE < value < HUGE


# Aggregates


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson score interval of a share. It is valid for few trials and for shares of 0 and 1."""
    from scipy.stats import norm

    if not trials:
        return 0.0, 1.0
    z = float(norm.ppf((1 + confidence) / 2))
    share = successes / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def statistics(values: Sequence[float], confidence: float = CONFIDENCE) -> dict[str, Any]:
    """Return mean, confidence interval (Student's t), standard deviation, extremes and percentiles."""
    from scipy.stats import t

    array = np.asarray(values, dtype=np.float64)
    count, mean = len(array), float(array.mean())
    found: dict[str, Any] = {"runs": count, "mean": mean, "low": None, "high": None, "std": None}
    if count > 1:
        std = float(array.std(ddof=1))
        half = float(t.ppf((1 + confidence) / 2, count - 1)) * std / math.sqrt(count)
        found.update(low=mean - half, high=mean + half, std=std)
    found["min"] = float(array.min())
    for percent, value in zip(PERCENTILES, np.percentile(array, PERCENTILES), strict=True):
        found[f"p{percent}"] = float(value)
    found["max"] = float(array.max())
    return found


def share(successes: int, trials: int) -> dict[str, Any]:
    """Return a share of runs with its confidence interval."""
    low, high = wilson(successes, trials)
    return {
        "runs": successes,
        "share": successes / trials if trials else None,
        "low": low,
        "high": high,
        "interval": "Wilson",
    }


def aggregate(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return verdicts, the share of accepted runs, and each metric aggregated over the runs that have it.

    Numbers get statistics, booleans a share, texts are counted. `not_summed_up` gives the reason for all
    others. Failed runs count in the verdicts and in the share of accepted runs, but not in the metrics.
    """
    verdicts = [row["verdict"] for row in rows]
    found: dict[str, Any] = {
        "runs": len(rows),
        "confidence": CONFIDENCE,
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        "accepted": share(verdicts.count("accepted"), len(rows)),
        "metrics": {},
        "yes_or_no": {},
        "texts": {},
        "not_summed_up": {},
        "not_accepted": [
            {"seed": row["seed"], "verdict": row["verdict"], "reason": row.get("reason")}
            for row in rows
            if row["verdict"] != "accepted"
        ],
    }
    measured = [row for row in rows if row["verdict"] != "failed"]
    for key in dict.fromkeys(key for row in measured for key in row if key not in FACTS):
        # Unknown values are None or NaN.
        values = [row[key] for row in measured if key in row]
        _sum_up(found, key, [value for value in values if value is not None and value == value])  # noqa: PLR0124
    return found


def _sum_up(found: dict[str, Any], key: str, values: list[Any]) -> None:
    """Add the aggregate of one column."""
    kinds = {_kind(value) for value in values}
    if kinds == {"number"}:
        numbers = [float(value) for value in values if is_number(value)]
        if numbers:
            found["metrics"][key] = statistics(numbers)
        if len(numbers) < len(values):
            found["not_summed_up"][key] = f"infinite in {len(values) - len(numbers)} runs"
    elif kinds == {"yes or no"}:
        yes = sum(values)
        found["yes_or_no"][key] = {**share(yes, len(values)), "of": len(values)}
    elif kinds == {"text"}:
        counts = Counter(values)
        found["texts"][key] = {"different": len(counts), "counts": dict(counts.most_common(COMMON))}
    elif kinds == {"list"}:
        found["not_summed_up"][key] = "a list"
    elif kinds:
        counted = Counter(_kind(value) for value in values)
        what = ", ".join(f"{kind} in {count} runs" for kind, count in counted.most_common())
        found["not_summed_up"][key] = f"types differ: {what}"


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "yes or no"
    if isinstance(value, int | float):
        return "number"
    # Lists are JSON in a row.
    if isinstance(value, str) and value[:1] == "[" and value[-1:] == "]":
        try:
            json.loads(value)
        except ValueError:
            return "text"
        return "list"
    return "text"


# Files


@dataclass(frozen=True)
class Result:
    """Result of a sweep.

    Attributes:
        directory: of its files.
        rows: one per run, in order of the seeds.
        aggregates: content of sweep.json.
    """

    directory: Path
    rows: list[dict[str, Any]]
    aggregates: dict[str, Any]


def conclude(
    directory: Path,
    scenario: Scenario,
    source: str,
    rows: list[dict[str, Any]],
    seeds: int,
    *,
    units: Mapping[str, str],
    picture: bool = True,
) -> Result:
    """Write the table, the aggregates and, if wanted, the picture of the completed runs.

    Args:
        directory: of the sweep.
        scenario: of the runs.
        source: its file.
        rows: of the completed runs.
        seeds: number of runs requested.
        units: of metrics, as declared by the scenario's parts.
        picture: whether to draw one.

    Raises:
        RunError: a file cannot be written.
    """
    sums = aggregate(rows)
    named = [*sums["metrics"], *sums["yes_or_no"], *sums["texts"], *sums["not_summed_up"]]
    aggregates = {
        "scenario": Path(source).stem,
        "title": scenario.title,
        "world": scenario.world,
        "controller": scenario.controller.name,
        "parameters": scenario.model_dump(mode="json")["controller"] | {},
        "first_seed": scenario.seed,
        "wanted": seeds,
        **sums,
        "units": {name: unit for name in named if (unit := unit_of(name, units))},
        "paper": is_papers(scenario),
    }
    del aggregates["parameters"]["name"]
    write_json(directory / "sweep.json", aggregates)
    if rows:
        write_table(directory / "sweep.parquet", rows)
        if picture:
            draw(directory, rows, aggregates)
    return Result(directory, rows, aggregates)


def draw(directory: Path, rows: Sequence[Mapping[str, Any]], aggregates: Mapping[str, Any]) -> list[Path]:
    """Draw a sweep's picture into its directory, and return the picture's files.

    Raises:
        RunError: it cannot be written.
    """
    from swarmbed_experiments.pictures import charts

    title = f"{aggregates['title']}\n{_what(aggregates)}"
    units, paper = aggregates["units"], aggregates["paper"]
    return charts.draw_sweep(directory / "sweep.png", rows, title, units=units, paper=paper)


def redraw(directory: Path) -> list[Path]:
    """Draw a sweep's picture again from the sweep's files, and return the picture's files.

    Raises:
        RunError: the sweep's files are missing or invalid.
    """
    aggregates = read_json(directory / "sweep.json")
    needed = {"title", "controller", "world", "runs", "metrics", "paper", "units", "first_seed"}
    if not (isinstance(aggregates, dict) and aggregates.keys() >= needed):
        message = f"{directory / 'sweep.json'}: not a sweep's result; run the sweep's command again"
        raise RunError(message)
    return draw(directory, read_table(directory / "sweep.parquet"), aggregates)


def is_papers(scenario: Scenario) -> bool:
    """Return whether five robots fetch five carriers undisturbed, as in Table V of the DOTS paper."""
    return (
        sum(group.number for group in scenario.robots) == 5
        and sum(group.number * len(group.joined or (0,)) for group in scenario.carriers) == 5
        and any(acceptor.name == "retrieved" for acceptor in scenario.frame.acceptors)
        and not scenario.frame.generators
    )


def write_table(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet. Missing values are null, and a column of mixed types becomes JSON.

    Raises:
        RunError: it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        columns[_writable(key)] = _column([row.get(key) for row in rows])
    aside = file.with_suffix(".new")
    try:
        with aside.open("wb") as stream:
            pq.write_table(pa.table(columns), stream)
        aside.replace(file)
    except OSError as error:
        raise unwritable(file, error) from None


def _column(values: list[Any]) -> list[Any]:
    """Return values of a single type, or as JSON if types are mixed. None is kept."""
    given = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in given):
        return values
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in given):
        if all(isinstance(value, int) and -LARGEST <= value < LARGEST for value in given):
            return values
        if all(isinstance(value, float) or abs(value) < HUGE for value in given):
            return [None if value is None else float(value) for value in values]
    if all(isinstance(value, str) for value in given):
        return [None if value is None else _writable(value) for value in values]
    return [None if value is None else json.dumps(value, default=str) for value in values]


def _writable(text: str) -> str:
    """Return a string that UTF-8 can encode: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()


def read_table(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a table.

    Raises:
        RunError: it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as stream:
            rows: list[dict[str, Any]] = pq.read_table(stream).to_pylist()
    except (OSError, pa.ArrowException) as error:
        message = f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})"
        raise RunError(message) from None
    return rows


# Terminal output


@contextlib.contextmanager
def progress(
    console: Console, total: int, done: Iterable[Mapping[str, Any]]
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Show a bar with the results so far and the time left. Yield a function that adds a row."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    counts = Counter(row["verdict"] for row in done)
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600.0) as shows:
        bar = shows.add_task("running", total=total, completed=counts.total())

        def advance(row: Mapping[str, Any]) -> None:
            counts[row["verdict"]] += 1
            shows.update(bar, advance=1, description=f"running, {counts['accepted']} accepted")

        yield advance


def tell(console: Console, result: Result, ran: int, seconds: float) -> None:
    """Print the result. It fits into 80 columns."""
    found = result.aggregates
    console.print(Text(found["title"], style="bold"), soft_wrap=True)
    console.print(Text(_what(found)), soft_wrap=True)
    if found["runs"]:
        accepted = found["accepted"]
        interval = f"{CONFIDENCE:.0%} interval {accepted['low']:.1%} to {accepted['high']:.1%}"
        text = f"accepted: {accepted['runs']} of {found['runs']}, {accepted['share']:.1%} ({interval})"
        console.print(text, highlight=False, soft_wrap=True)
    console.print(_table_of(found))
    left_out = _left_out(found)
    if left_out:
        console.print(Text(left_out), soft_wrap=True)
    for item in found["not_accepted"][:5]:
        text = f"seed {item['seed']} {item['verdict']}: {item['reason']}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    if len(found["not_accepted"]) > 5:
        console.print(f"and {len(found['not_accepted']) - 5} more, in sweep.json", highlight=False)
    console.print(f"{ran} runs in {seconds:.1f} s", highlight=False)
    named = [(file, "picture") for file in picture_files(result.directory / "sweep.png")]
    named += [(result.directory / "sweep.parquet", "runs"), (result.directory / "sweep.json", "aggregates")]
    for file, what in named:
        if file.exists():
            console.print(f"{what}: {file}", markup=False, highlight=False, soft_wrap=True)


def _what(found: Mapping[str, Any]) -> str:
    """Describe the runs: the controller with its parameters, the world, the seeds."""
    runs, first = found["runs"], found["first_seed"]
    parameters = ", ".join(f"{name}={shown(value)}" for name, value in found.get("parameters", {}).items())
    controller = f"{found['controller']} ({parameters})" if parameters else found["controller"]
    seeds = f"seed {first}" if runs == 1 else f"{runs} runs from seed {first}"
    return f"{controller}, {found['world']}, {seeds}"


def shown(value: object, most: int = 40) -> str:
    """Format a value in one line of at most `most` characters."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value: float, digits: int = 4) -> str:
    """Format a number with `digits` significant digits, from 10,000 on with thousands separators."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def _table_of(found: Mapping[str, Any]) -> Table:
    """Return the aggregates as a table of at most 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("metric", overflow="fold", min_width=24)
    table.add_column("unit")
    for column in ("mean", f"± {CONFIDENCE:.0%}", "least", "median", "most"):
        table.add_column(column, justify="right", no_wrap=True)
    units, metrics = found["units"], found["metrics"]
    # Metrics of single robots are only in the table of runs, and constants only in the scenario.
    names = [name for name in metrics if "." not in name.removeprefix("metrics.") and name not in SETTLED]
    first = [name for name in by_rank(names) if name not in COSTS]
    rest = [name for name in names if name not in {*first, *COSTS}]
    for name in [*first, *rest, *(cost for cost in COSTS if cost in names)]:
        sums = metrics[name]
        half = "" if sums["high"] is None else f"{sums['high'] - sums['mean']:.2g}"
        ends = [number(sums[end]) for end in ("min", "p50", "max")]
        table.add_row(Text(name), units.get(name, ""), number(sums["mean"]), half, *ends)
    for name, yes in found["yes_or_no"].items():
        if "." not in name.removeprefix("metrics."):
            interval = f"{100 * yes['low']:.0f} to {100 * yes['high']:.0f}"
            table.add_row(Text(f"{name}: true"), "%", f"{100 * yes['share']:.1f}", interval)
    return table


def _left_out(found: Mapping[str, Any]) -> str:
    """Describe the metrics that are not in the table because they cannot be averaged."""
    own = {name: "text" for name in found["texts"] if rank_of(name) is not None}
    own |= {name: why for name, why in found["not_summed_up"].items() if rank_of(name) is not None}
    own = {name: why for name, why in own.items() if "." not in name.removeprefix("metrics.")}
    if not own:
        return ""
    items = "; ".join(f"{name} ({why})" for name, why in list(own.items())[:8])
    more = f"; and {len(own) - 8} more" if len(own) > 8 else ""
    return f"not averaged, but in sweep.parquet: {items}{more}"
