"""Sweeps: one scenario with many seeds, on all cores or a cluster, summed up with confidence intervals.

Each run becomes one file in `parts/` as soon as it is done, written aside and renamed, so that a sweep which
is stopped, even by a power cut, has lost nothing but what was under way: the same command continues it. What
makes a sweep the same is the scenario, but for its seed, and all code and configuration that runs depend on:
change any of it, and the sweep starts anew in another directory; a directory that was asked for by name and
holds runs of something else is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import multiprocessing
import os
import re
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from swarmbed_core.config import share_dir
from swarmbed_core.errors import ConfigError, SwarmbedError
from swarmbed_core.scenario import Scenario

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import RUNS, read_json, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

SEEDS = 2**32
CONFIDENCE = 0.95
PERCENTILES = (5, 25, 50, 75, 95)
PACKAGES = ("swarmbed_core", "swarmbed_sim", "swarmbed_gazebo", "swarmbed_behaviours", "swarmbed_experiments")
"""What a run is computed by ..."""
DEPENDENCIES = ("numpy", "numba", "mujoco", "ruckig", "scipy", "py_trees", "xdevs")
"""... and with."""
ONE_THREAD = dict.fromkeys(
    ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)
"""Every worker has one core to itself."""
SETTLED = frozenset({"robots", "carriers"})
"""Numbers of a run that the scenario says."""
IDENTITY, NEW_IDENTITY = "identity.json", "identity.new"
"""What a sweep is of; the first file in its directory."""
ADDRESS = r"(\w+://)?(\[[0-9a-fA-F:]+\]|[^\s/:]+):\d+"
"""What a scheduler's address looks like."""
DASK_TIMEOUT = "10s"
"""How long a scheduler may take to answer."""


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
    # A worker pays for this once.
    from swarmbed_experiments.runner import Run

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

    Raises:
        ConfigError: something in the scenario is wrong.
        RunError: results cannot be written, workers die, or there is no cluster at the address.
        KeyboardInterrupt: somebody pressed Ctrl-C; what was done by then is kept and summed up.
    """
    from swarmbed_experiments.scenarios import load_scenario

    console = console or Console(quiet=True)
    if first_seed + seeds > SEEDS:
        message = f"{seeds} seeds from {first_seed} on: the last seed that there is is {SEEDS - 1}"
        raise ConfigError(message)
    scenario, source = load_scenario(name, sets, world=world, seed=first_seed)
    if job is None:
        with console.status(
            "getting ready: the first run after an update compiles its hot loops for half a minute"
        ):
            _get_ready(scenario, source)
    parts = Parts.open(out, scenario, source)
    wanted = range(first_seed, first_seed + seeds)
    rows = {seed: row for seed in wanted if (row := parts.read(seed)) is not None}
    text = scenario.model_dump_json()
    tasks = [Task(text, source, seed) for seed in wanted if seed not in rows]
    if rows:
        console.print(f"{len(rows)} of {seeds} runs are done already, in {parts.directory}", soft_wrap=True)
    started = time.perf_counter()
    lost: list[str] = []
    interrupted = False
    with _progress(console, total=seeds, done=len(rows)) as advance:
        try:
            with contextlib.closing(_work(job or run_task, tasks, workers, dask)) as outcomes:
                for seed, found in outcomes:
                    if isinstance(found, BaseException):
                        lost.append(f"seed {seed}: {type(found).__name__}: {found}")
                    elif found["verdict"] != "interrupted":
                        parts.write(seed, found)
                        rows[seed] = found
                        advance(rows.values())
        except KeyboardInterrupt:
            interrupted = True
    # Read back, so that the rows of a sweep that was continued are those of one that was not.
    kept = [row for seed in wanted if seed in rows and (row := parts.read(seed)) is not None]
    result = _conclude(parts.directory, scenario, source, kept, seeds)
    if table:
        _tell(console, result, len(tasks) - (seeds - len(kept)), time.perf_counter() - started)
    left = seeds - len(kept)
    if interrupted or lost:
        where = f"{len(kept)} of {seeds} runs are kept in {parts.directory}"
        message = f"{where}; the same command does the other {left}"
        if interrupted:
            console.print(message, soft_wrap=True)
            raise KeyboardInterrupt
        message = f"{len(lost)} runs were lost with their workers, such as {lost[0]}; {message}"
        raise RunError(message)
    return result


def _get_ready(scenario: Scenario, source: str) -> None:
    """Check a scenario and compile what it needs, once for all workers."""
    from swarmbed_experiments.runner import warm_up

    try:
        warm_up(scenario, source)
    except SwarmbedError:
        raise
    except Exception:  # noqa: BLE001, S110 - the runs will tell what is wrong, each in its row
        pass


class Parts:
    """The runs of a sweep that are done, a file each."""

    def __init__(self, directory: Path) -> None:
        """Keep them in `parts` of a sweep's directory."""
        self.directory = directory
        self._parts = directory / "parts"

    @classmethod
    def open(cls, out: Path | None, scenario: Scenario, source: str) -> Parts:
        """Make or find the directory of a sweep.

        Raises:
            RunError: it cannot be made, or holds something else.
        """
        identity = identity_of(scenario)
        short = hashlib.sha256("".join(identity.values()).encode()).hexdigest()[:8]
        directory = RUNS / f"sweep-{Path(source).stem}-{short}" if out is None else out
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
            write_json(aside, identity)
            aside.replace(about)
        elif IDENTITY not in strangers:
            message = f"{directory} is no sweep's: {strangers[0]} is in it; give --out one of its own"
            raise RunError(message)
        _compare(directory, read_json(about), identity)
        from swarmbed_experiments.scenarios import to_yaml

        write_text(directory / "scenario.yaml", to_yaml(scenario))
        try:
            parts._parts.mkdir(exist_ok=True)
        except OSError as error:
            message = f"{parts._parts}: cannot be made ({error.strerror}); choose another --out"
            raise RunError(message) from None
        return parts

    def read(self, seed: int) -> dict[str, Any] | None:
        """Return the row of a run, None if it is not done."""
        try:
            row = json.loads(self._file(seed).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return row if isinstance(row, dict) and row.get("seed") == seed and "verdict" in row else None

    def write(self, seed: int, row: Mapping[str, Any]) -> None:
        """Keep the row of a run: from now on it is done, whatever happens.

        Raises:
            RunError: it cannot be written.
        """
        file = self._file(seed)
        aside = file.with_suffix(".new")
        write_text(aside, json.dumps({"seed": seed, **row}))
        aside.replace(file)

    def _file(self, seed: int) -> Path:
        return self._parts / f"{seed}.json"


def identity_of(scenario: Scenario) -> dict[str, str]:
    """Return digests of all that the runs of a sweep depend on, but for their seeds."""
    settings = json.dumps(scenario.model_dump(mode="json", exclude={"seed"}))
    programs = hashlib.sha256()
    for package in DEPENDENCIES:
        with contextlib.suppress(PackageNotFoundError):
            programs.update(f"{package} {version(package)}".encode())
    for file in files_of(scenario):
        programs.update(file.name.encode() + b"\0" + file.read_bytes())
    return {"settings": hashlib.sha256(settings.encode()).hexdigest(), "programs": programs.hexdigest()}


def _compare(directory: Path, found: Any, identity: Mapping[str, str]) -> None:
    """Refuse a directory that holds runs of something else.

    Raises:
        RunError: it does, and what is different.
    """
    about = found if isinstance(found, dict) else {}
    if about.get("settings") != identity["settings"]:
        what = "of another scenario or other settings"
    elif about.get("programs") != identity["programs"]:
        what = "by earlier programs or other versions of packages"
    else:
        return
    message = f"{directory} holds runs {what}, which cannot be summed up with these; choose another --out"
    raise RunError(message)


def files_of(scenario: Scenario) -> list[Path]:
    """Return our code and configuration, and the files of a controller and a DEVS model of somebody's own."""
    folders = [Path(spec.origin).parent for name in PACKAGES if (spec := find_spec(name)) and spec.origin]
    files = [file for folder in folders for file in sorted(folder.rglob("*.py"))]
    for folder in (share_dir() / "config", share_dir() / "worlds"):
        files += [file for file in sorted(folder.rglob("*.yaml")) if file.parent.name != "scenarios"]
    controller = scenario.controller
    for named in (controller.name, str(controller.parameters.get("model", ""))):
        module, colon, _ = named.partition(":")
        own = find_spec(module) if colon else None
        if own is not None and own.origin is not None:
            files.append(Path(own.origin))
    return files


# The work


Outcome = tuple[int, "dict[str, Any] | BaseException"]


def _work(
    job: Callable[[Task], dict[str, Any]], tasks: Sequence[Task], workers: int | None, dask: str | None
) -> Generator[Outcome, None, None]:
    """Do all tasks; give each seed's row, or the error that its worker died of, as they come."""
    if tasks:
        yield from _work_here(job, tasks, workers) if dask is None else _work_there(job, tasks, dask)


def _work_here(
    job: Callable[[Task], dict[str, Any]], tasks: Sequence[Task], workers: int | None
) -> Generator[Outcome, None, None]:
    """Do all tasks in processes of this machine."""
    count = min(workers or cores(), len(tasks))
    others = set(multiprocessing.active_children())
    with _environment(ONE_THREAD):
        pool = ProcessPoolExecutor(
            count, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_worker
        )
        try:
            # Workers start with the first tasks.
            with _interrupts_later():
                futures = {pool.submit(job, task): task.seed for task in tasks}
            for future in as_completed(list(futures)):
                fault = future.exception()
                yield futures.pop(future), future.result() if fault is None else fault
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if futures:
                for process in set(multiprocessing.active_children()) - others:
                    process.terminate()
            pool.shutdown(wait=True)


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold Ctrl-C back: workers that start meanwhile never see it, not even while they import."""
    # When it starts, it lets interrupts through.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work_there(
    job: Callable[[Task], dict[str, Any]], tasks: Sequence[Task], address: str
) -> Generator[Outcome, None, None]:
    """Do all tasks on a Dask cluster."""
    import distributed

    if re.fullmatch(ADDRESS, address) is None:
        # Dask tries such addresses for half a minute, and ends with a traceback.
        message = f"--dask {address}: not an address; tcp://HOST:8786 is usual"
        raise RunError(message)
    try:
        client = distributed.Client(address, timeout=DASK_TIMEOUT, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        message = f"--dask {address}: no Dask scheduler answers there ({error}); tcp://HOST:8786 is usual"
        raise RunError(message) from None
    with client:
        futures = {client.submit(job, task, pure=False): task.seed for task in tasks}
        try:
            for future in distributed.as_completed(list(futures), loop=client.loop):  # type: ignore[no-untyped-call]
                fault = future.exception()
                yield futures.pop(future), future.result() if fault is None else fault
        finally:
            if futures:
                client.cancel(list(futures))  # type: ignore[no-untyped-call]


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Change environment variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _prepare_worker() -> None:
    """Leave Ctrl-C to the sweep, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


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
