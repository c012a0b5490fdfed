"""Sweeps: one scenario with many seeds, on all cores or a cluster, summed up with confidence intervals.

Each run becomes one file in `parts/` as soon as it is done, written aside and renamed, so that a sweep which
is stopped, even by a power cut, has lost nothing but what was under way: the same command continues it. What
makes a sweep the same is the scenario, but for its seed, and all code and configuration that runs depend on:
change any of it, and the sweep starts anew in another directory; a directory that was asked for by name and
holds runs of something else is refused (`swarmbed_experiments.identity`).

Runs happen in processes of their own (`swarmbed_experiments.workers`, or `cluster` for Dask). A run that dies
or takes too long is a failed one; as that may be the machine's fault, the same command repeats it.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import time
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Scenario

from swarmbed_experiments import cluster
from swarmbed_experiments.errors import FailedError, RunError
from swarmbed_experiments.files import RUNS, write_json, write_text
from swarmbed_experiments.hang import Limits
from swarmbed_experiments.identity import (
    Inputs,
    differences,
    digest_of,
    identity_of,
    is_identity,
    listed,
    our_inputs,
)
from swarmbed_experiments.rehearsal import Case, rehearsal_by, tame, warm
from swarmbed_experiments.workers import JobError, Lost, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from swarmbed_experiments.cluster import Outcome

SEEDS = 2**32
CONFIDENCE = 0.95
PERCENTILES = (5, 25, 50, 75, 95)
SETTLED = frozenset({"robots", "carriers"})
"""Numbers of a run that the scenario says."""
IDENTITY, NEW_IDENTITY = "identity.json", "identity.new"
"""What a sweep is of; the first file in its directory."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run: all that a worker has to know, as small as it can be sent.

    Attributes:
        scenario: as JSON.
        source: its file, for messages.
        seed: instead of the scenario's.
    """

    scenario: str
    source: str
    seed: int


def run_task(task: Task) -> dict[str, Any]:
    """Run a scenario with one seed and return its row; a run that cannot start is a failed one."""
    from swarmbed_experiments.runner import Run

    # For programs that do not use the generator that they are given.
    random.seed(task.seed)
    np.random.seed(task.seed)  # noqa: NPY002 - they use this one
    scenario = Scenario.model_validate_json(task.scenario).model_copy(update={"seed": task.seed})
    try:
        run = Run(scenario, task.source)
    except Exception as error:  # noqa: BLE001 - places drawn from the seed may not fit, programs may raise
        reason = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        return {"seed": task.seed, "verdict": "failed", "reason": reason}
    try:
        return row_of(run.go(record=False))
    finally:
        run.close()


def row_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's summary as one flat row; metrics of each robot get names with a dot."""
    row: dict[str, Any] = {}
    for key, value in summary.items():
        row.update(_flat("" if key == "metrics" else key, value))
    return row


def _flat(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        row: dict[str, Any] = {}
        for inner, item in value.items():
            row.update(_flat(f"{key}.{inner}" if key else str(inner), item))
        return row
    if isinstance(value, np.generic):
        return {key: value.item()}
    return {key: json.dumps(value) if isinstance(value, list | tuple) else value}


@dataclass(frozen=True)
class Result:
    """What a sweep has found out.

    Attributes:
        directory: where its files are.
        rows: one a run, in order of the seeds.
        aggregates: what sweep.json holds.
    """

    directory: Path
    rows: list[dict[str, Any]]
    aggregates: dict[str, Any]


def sweep(
    name: str,
    *,
    seeds: int,
    out: Path | None = None,
    first_seed: int = 1,
    workers: int | None = None,
    dask: str | None = None,
    world: str | None = None,
    sets: Sequence[str] = (),
    console: Console | None = None,
    table: bool = True,
    job: Callable[[Task], dict[str, Any]] | None = None,
    limits: Limits | None = None,
    crew: Workers | None = None,
) -> Result:
    """Run a scenario with many seeds, or go on with that.

    Args:
        name: of the scenario, or a path to its file.
        seeds: how many runs.
        out: the directory of this sweep; one in `runs/` with a name of its own, if not given.
        first_seed: of the first run; the others count on.
        workers: processes on this machine; one a core, if not given.
        dask: address of a Dask scheduler, whose workers are used instead.
        world: instead of the scenario's.
        sets: changes of the scenario, such as `robots.0.count=7`.
        console: for progress and results.
        table: whether the results are printed.
        job: what is done for each task, `run_task` if not given.
        limits: how long a tick and a run may take.
        crew: workers of several sweeps, which start once; own ones, if not given.

    Raises:
        ConfigError: something in the scenario is wrong.
        FailedError: a program hangs in its first second, or runs were lost.
        RunError: results cannot be written, nobody answers at the address, or the cluster there has other
            programs.
        KeyboardInterrupt: somebody pressed Ctrl-C; what was done by then is kept and summed up.
    """
    from swarmbed_experiments.scenarios import load_scenario

    console = console or Console(quiet=True)
    limits = limits or Limits()
    if first_seed + seeds > SEEDS:
        message = f"{seeds} seeds from {first_seed} on: the last seed that there is is {SEEDS - 1}"
        raise ConfigError(message)
    if dask is not None:
        cluster.check_address(dask)
    scenario, source = load_scenario(name, sets, world=world, seed=first_seed)
    with contextlib.ExitStack() as stack:
        if crew is None:
            crew = stack.enter_context(Workers(workers))
        inputs = our_inputs()
        if job is None:
            with console.status(
                "getting ready: the first run after an update compiles its hot loops for half a minute"
            ):
                inputs = _get_ready(crew, scenario, source, limits, here=dask is None)
        identity = identity_of(scenario, inputs)
        parts = Parts.open(out, scenario, source, identity)
        wanted = range(first_seed, first_seed + seeds)
        rows = {seed: row for seed in wanted if (row := parts.read(seed)) is not None}
        text = scenario.model_dump_json()
        tasks = [Task(text, source, seed) for seed in wanted if seed not in rows]
        if rows:
            done = f"{len(rows)} of {seeds} runs are done already, in {parts.directory}"
            console.print(done, soft_wrap=True)
        started = time.perf_counter()
        errors: list[str] = []
        lost = 0
        interrupted = False
        with _progress(console, total=seeds, done=len(rows)) as advance:
            try:
                work = job or run_task
                if dask is None:
                    outcomes = _work(crew, work, tasks, fresh=inputs.modules, limits=limits)
                else:
                    about = None if job else (scenario, source, inputs)
                    outcomes = cluster.work(dask, work, tasks, identity, about, limits)
                with contextlib.closing(outcomes):
                    for seed, found in outcomes:
                        if isinstance(found, Exception):
                            errors.append(f"seed {seed}: {_text(found)}")
                            continue
                        if isinstance(found, Lost):
                            lost += 1
                            row = {"seed": seed, "verdict": "failed", "reason": found.reason}
                        else:
                            row = found
                        if row["verdict"] != "interrupted":
                            parts.write(seed, row, lost=isinstance(found, Lost))
                            rows[seed] = row
                            advance(rows.values())
            except KeyboardInterrupt:
                interrupted = True
    # Read back, so that the rows of a sweep that was continued are those of one that was not.
    kept = [row for seed in wanted if seed in rows and (row := parts.read(seed, lost=True)) is not None]
    result = _conclude(parts.directory, scenario, source, kept, seeds)
    if table:
        _tell(console, result, len(tasks) - (seeds - len(kept)), time.perf_counter() - started)
    if lost:
        text = f"{lost} runs died or took too long; the same command does them again"
        console.print(text, highlight=False, soft_wrap=True)
    left = seeds - len(kept)
    if interrupted or errors:
        where = f"{len(kept)} of {seeds} runs are kept in {parts.directory}"
        message = f"{where}; the same command does the other {left}"
        if interrupted:
            console.print(message, soft_wrap=True)
            raise KeyboardInterrupt
        message = f"{len(errors)} runs were lost, such as {errors[0]}; {message}"
        raise FailedError(message)
    return result


def _text(error: Exception) -> str:
    """Return an error for people; that of a job says itself what it is."""
    return str(error) if isinstance(error, JobError | RunError) else f"{type(error).__name__}: {error}"


def _get_ready(crew: Workers, scenario: Scenario, source: str, limits: Limits, *, here: bool) -> Inputs:
    """Check a scenario, compile what it needs, and return what its runs depend on.

    Args:
        crew: who does it.
        scenario: what is run later.
        source: its file, for messages.
        limits: of a tick.
        here: whether the crew does the runs, too.

    Raises:
        ConfigError: something in the scenario is wrong.
        FailedError: a program hangs, or ends its process before anything moves.
    """
    case = Case(scenario.model_dump_json(), source)
    # What is compiled now does not count as a run.
    found = rehearsal_by(crew, case, Limits(limits.tick))
    if here:
        crew.load(warm, replace(case, programs=not found.modules or tame(scenario) != scenario))
    return found


class Parts:
    """The runs of a sweep that are done, a file each."""

    def __init__(self, directory: Path) -> None:
        """Keep them in `parts` of a sweep's directory."""
        self.directory = directory
        self._parts = directory / "parts"

    @classmethod
    def open(cls, out: Path | None, scenario: Scenario, source: str, identity: Mapping[str, Any]) -> Parts:
        """Make or find the directory of a sweep.

        Raises:
            RunError: it cannot be made, or holds something else.
        """
        directory = RUNS / f"sweep-{Path(source).stem}-{digest_of(identity)}" if out is None else out
        parts = cls(directory)
        about = directory / IDENTITY
        try:
            directory.mkdir(parents=True, exist_ok=True)
            strangers = sorted({path.name for path in directory.iterdir()} - {NEW_IDENTITY})
        except OSError as error:
            message = f"{directory}: cannot be made ({error.strerror}); choose another --out"
            raise RunError(message) from None
        if not strangers:
            aside = directory / NEW_IDENTITY
            write_text(aside, json.dumps(identity, indent=1) + "\n")
            aside.replace(about)
        elif IDENTITY not in strangers:
            message = f"{directory} is no sweep's: {strangers[0]} is in it; give --out one of its own"
            raise RunError(message)
        _compare(directory, _json(about), identity)
        from swarmbed_experiments.scenarios import to_yaml

        write_text(directory / "scenario.yaml", to_yaml(scenario))
        try:
            parts._parts.mkdir(exist_ok=True)
        except OSError as error:
            message = f"{parts._parts}: cannot be made ({error.strerror}); choose another --out"
            raise RunError(message) from None
        return parts

    def read(self, seed: int, *, lost: bool = False) -> dict[str, Any] | None:
        """Return the row of a run, None if it is not done.

        Args:
            seed: of the run.
            lost: whether a run that died or took too long is one, too.
        """
        row = _json(self._file(seed))
        if isinstance(row, dict) and row.get("seed") == seed and "verdict" in row:
            return row
        return _json(self._lost(seed)) if lost else None

    def write(self, seed: int, row: Mapping[str, Any], *, lost: bool = False) -> None:
        """Keep the row of a run: from now on it is done, whatever happens, unless it was lost.

        Raises:
            RunError: it cannot be written.
        """
        file = self._lost(seed) if lost else self._file(seed)
        aside = file.with_suffix(".new")
        write_text(aside, json.dumps({"seed": seed, **row}))
        aside.replace(file)
        if not lost:
            self._lost(seed).unlink(missing_ok=True)

    def _lost(self, seed: int) -> Path:
        return self._parts / f"{seed}.lost.json"

    def _file(self, seed: int) -> Path:
        return self._parts / f"{seed}.json"


def _json(file: Path) -> Any:
    """Return what a file holds, None if it is not there or damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _compare(directory: Path, found: Any, identity: Mapping[str, Any]) -> None:
    """Refuse a directory that holds runs of something else.

    Raises:
        RunError: it does, and what is different.
    """
    if not is_identity(found):
        what = "damaged, or of an earlier version of Swarmbed: nobody can tell what its runs are of"
        message = f"{directory / IDENTITY}: {what}; choose another --out, or delete the directory"
        raise RunError(message)
    different = differences(found, identity)
    if different:
        message = f"{directory} holds runs of something else: {listed(different)}; choose another --out"
        raise RunError(message)


# The work


def _work(
    crew: Workers,
    job: Callable[[Task], dict[str, Any]],
    tasks: Sequence[Task],
    *,
    fresh: bool,
    limits: Limits,
) -> Generator[Outcome, None, None]:
    """Do all tasks; give each seed's row, or what came instead, as they come."""
    futures = {crew.submit(job, task, fresh=fresh, limits=limits): task.seed for task in tasks}
    try:
        for future in as_completed(list(futures)):
            fault = future.exception()
            seed = futures.pop(future)
            # Crew's futures raise nothing else.
            yield seed, future.result() if fault is None else cast("Exception", fault)
    finally:
        if futures:
            crew.drop()


# The results


def wilson(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Wilson's interval of a share: it holds for few trials, and for none or all of them, too."""
    from scipy.stats import norm

    if not trials:
        return 0.0, 1.0
    z = float(norm.ppf((1 + confidence) / 2))
    share = successes / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def statistics(values: Sequence[float], confidence: float = CONFIDENCE) -> dict[str, Any]:
    """Return the mean with its confidence interval by Student's t, and how the values are spread."""
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


def aggregate(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return verdicts, the share of accepted runs, and each number of the rows over the runs that have it.

    Runs that failed are no measurement: they count in the verdicts only.
    """
    verdicts = [row["verdict"] for row in rows]
    accepted = verdicts.count("accepted")
    low, high = wilson(accepted, len(rows))
    numbers: dict[str, list[float]] = {}
    for row in rows:
        for key, value in row.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and math.isfinite(value) and key != "seed" and row["verdict"] != "failed":
                numbers.setdefault(key, []).append(value)
    return {
        "runs": len(rows),
        "confidence": CONFIDENCE,
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        "accepted": {
            "runs": accepted,
            "share": accepted / len(rows) if rows else None,
            "low": low,
            "high": high,
            "interval": "Wilson",
        },
        "metrics": {key: statistics(values) for key, values in numbers.items()},
        "not_accepted": [
            {"seed": row["seed"], "verdict": row["verdict"], "reason": row.get("reason")}
            for row in rows
            if row["verdict"] != "accepted"
        ],
    }


def _conclude(
    directory: Path, scenario: Scenario, source: str, rows: list[dict[str, Any]], seeds: int
) -> Result:
    """Write table, aggregates and picture of the runs that are done."""
    from swarmbed_experiments import plots

    about = {
        "scenario": Path(source).stem,
        "title": scenario.title,
        "world": scenario.world,
        "controller": scenario.controller.name,
        "first_seed": scenario.seed,
        "wanted": seeds,
    }
    aggregates = {**about, **aggregate(rows)}
    write_json(directory / "sweep.json", aggregates)
    if rows:
        _write_table(directory / "sweep.parquet", rows)
        title = f"{scenario.title}: {scenario.controller.name}, {scenario.world}, {len(rows)} seeds"
        plots.draw_sweep(directory / "sweep.png", rows, title, paper=_is_papers(scenario))
    return Result(directory, rows, aggregates)


def _is_papers(scenario: Scenario) -> bool:
    """Return whether five robots fetch five carriers undisturbed, as for Table V."""
    return (
        sum(group.number for group in scenario.robots) == 5
        and sum(group.number * len(group.joined or (0,)) for group in scenario.carriers) == 5
        and any(acceptor.name == "retrieved" for acceptor in scenario.frame.acceptors)
        and not scenario.frame.generators
    )


def _write_table(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet; a column that some do not have is null there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {key: [] for row in rows for key in row}
    for key, values in columns.items():
        values.extend(row.get(key) for row in rows)
        if any(isinstance(value, float) for value in values):
            values[:] = [float(value) if isinstance(value, int) else value for value in values]
    aside = file.with_suffix(".new")
    try:
        with aside.open("wb") as stream:
            pq.write_table(pa.table(columns), stream)
        aside.replace(file)
    except OSError as error:
        message = f"{file}: cannot be written ({error.strerror or error})"
        raise RunError(message) from None


# What a person sees


@contextlib.contextmanager
def _progress(console: Console, *, total: int, done: int) -> Iterator[Callable[[Iterable[Any]], None]]:
    """Show a bar with what has come out so far and how long the rest may take."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=console, transient=True, speed_estimate_period=600.0) as progress:
        bar = progress.add_task("running", total=total, completed=done)

        def advance(rows: Iterable[Mapping[str, Any]]) -> None:
            accepted = sum(row["verdict"] == "accepted" for row in rows)
            progress.update(bar, advance=1, description=f"running, {accepted} accepted")

        yield advance


def _tell(console: Console, result: Result, ran: int, seconds: float) -> None:
    """Print the result."""
    found = result.aggregates
    accepted = found["accepted"]
    title = f"{found['scenario']} in {found['world']}: {found['runs']} runs"
    table = Table(title=title)
    table.add_column("what", no_wrap=True)
    for column in ("mean", f"{CONFIDENCE:.0%} interval", "least", "median", "most"):
        table.add_column(column)
    if found["runs"]:
        interval = f"{accepted['low']:.1%} to {accepted['high']:.1%}"
        table.add_row("accepted", f"{accepted['share']:.1%}", interval)
    for key, numbers in found["metrics"].items():
        # What each robot did is in the table of the runs, and what is always the same is in the scenario.
        if "." in key or key in SETTLED:
            continue
        spread = "" if numbers["low"] is None else f"{numbers['low']:.4g} to {numbers['high']:.4g}"
        ends = [f"{numbers[name]:.4g}" for name in ("min", "p50", "max")]
        table.add_row(key, f"{numbers['mean']:.4g}", spread, *ends)
    console.print(table)
    for item in found["not_accepted"][:5]:
        text = f"seed {item['seed']} {item['verdict']}: {item['reason']}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    if len(found["not_accepted"]) > 5:
        console.print(f"and {len(found['not_accepted']) - 5} more, in sweep.json", highlight=False)
    console.print(f"{ran} runs in {seconds:.1f} s", highlight=False)
    for name, what in (("sweep.png", "picture"), ("sweep.parquet", "runs"), ("sweep.json", "sums")):
        if (result.directory / name).exists():
            text = f"{what}: {result.directory / name}"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
