"""Sweeps: one scenario with many seeds, on all cores or a cluster, aggregated with confidence intervals.

Each completed run is saved at once as a file in `parts/`, written under another name and renamed. A sweep
that is stopped, even by a power cut, loses only the runs in progress: the same command continues it. The
identity of a sweep is the scenario without its seed, and all code and configuration that the runs depend on.
If any of it changes, the sweep starts anew in another directory. A directory given by name that holds runs
with another identity is rejected (`swarmbed_experiments.runs.identity`).

Runs are executed in separate processes (`swarmbed_experiments.runs.workers`, or `cluster` for Dask). A run
that dies or exceeds its time limit counts as failed. The machine may be to blame, so the same command repeats
it.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from concurrent.futures import as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.console import Console
from rich.markup import escape
from swarmbed_core.errors import ConfigError, SwarmbedError
from swarmbed_core.scenario import Scenario

from swarmbed_experiments.errors import FailedError, RunError
from swarmbed_experiments.files import RUNS, write_text
from swarmbed_experiments.runs import cluster
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.identity import (
    Inputs,
    differences,
    digest_of,
    identity_of,
    is_identity,
    listed,
    our_inputs,
)
from swarmbed_experiments.runs.rehearsal import Case, Rehearsal, rehearsal_by, rehearse, tame, warm
from swarmbed_experiments.runs.results import Result, conclude, progress, row_of, tell
from swarmbed_experiments.runs.workers import JobError, Lost, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from swarmbed_experiments.runs.cluster import Finished

SEEDS = 2**32
IDENTITY, NEW_IDENTITY = "identity.json", "identity.new"
"""Identity of a sweep: the first file written to its directory."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run, as sent to a worker.

    Attributes:
        scenario: as JSON.
        source: its file, for messages.
        seed: replaces the scenario's.
    """

    scenario: str
    source: str
    seed: int


def run_task(task: Task) -> dict[str, Any]:
    """Run a scenario with one seed and return its row. A run that cannot start counts as failed."""
    from swarmbed_experiments.runs.run import Run

    # For programs that ignore the random generator they are given.
    random.seed(task.seed)
    np.random.seed(task.seed)  # noqa: NPY002 - they use this one
    scenario = Scenario.model_validate_json(task.scenario).model_copy(update={"seed": task.seed})
    try:
        run = Run(scenario, task.source)
    except Exception as error:  # noqa: BLE001 - random places may not fit, programs may raise
        reason = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        return {"seed": task.seed, "verdict": "failed", "reason": reason}
    try:
        return row_of(run.go(record=False))
    finally:
        run.close()


@dataclass(frozen=True)
class Cell:
    """One scenario and its seeds: the subject of a sweep.

    Attributes:
        name: for messages; empty if there is only one cell.
        scenario: with the first seed, and with file paths as seen from the current directory.
        source: its file, for messages.
        seeds: of the runs.
        place: returns the cell's directory, given the digest of its identity; by default one in `runs/`.
    """

    name: str
    scenario: Scenario
    source: str
    seeds: range
    place: Callable[[str], Path] | None = None

    def directory(self, digest: str) -> Path:
        """Return the directory of the cell's files."""
        if self.place is not None:
            return self.place(digest)
        return RUNS / f"sweep-{Path(self.source).stem}-{digest}"

    @property
    def case(self) -> Case:
        """Return the case to rehearse before the runs."""
        return Case(self.scenario.model_dump_json(), self.source)


@dataclass(frozen=True)
class Worked:
    """Outcome of `work_through`.

    Attributes:
        results: one per cell.
        ran: number of runs completed by this command.
        seconds: wall time of those runs.
        missing: number of runs not completed.
        lost: number of runs that died or exceeded their time limit.
        errors: messages about runs that could not be executed at all.
        interrupted: whether Ctrl-C was pressed.
    """

    results: list[Result]
    ran: int
    seconds: float
    missing: int
    lost: int
    errors: list[str]
    interrupted: bool

    def insist(self, console: Console, where: Path | None = None) -> None:
        """Report incomplete runs, and raise if runs could not be executed.

        Args:
            console: for the report.
            where: the directory of the results, if there is only one.

        Raises:
            FailedError: runs could not be executed.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        if self.lost:
            text = f"{self.lost} runs died or took too long; the same command repeats them"
            console.print(text, highlight=False, soft_wrap=True)
        kept = sum(len(result.rows) for result in self.results)
        there = "" if where is None else f" in {where}"
        message = f"{kept} of {kept + self.missing} runs are saved{there}; "
        message += f"the same command runs the other {self.missing}"
        if self.interrupted:
            console.print(message, soft_wrap=True)
            raise KeyboardInterrupt
        if self.errors:
            message = f"{len(self.errors)} runs were lost, such as {self.errors[0]}; {message}"
            raise FailedError(message)


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
    """Run a scenario with many seeds, or continue a sweep.

    Args:
        name: of the scenario, or a path to its file.
        seeds: number of runs.
        out: the directory of this sweep; by default one in `runs/`, named after its identity.
        first_seed: of the first run; the following runs count up from it.
        workers: number of processes on this machine; by default one per core.
        dask: address of a Dask scheduler, whose workers are used instead.
        world: replaces the scenario's.
        sets: changes of the scenario, such as `robots.0.count=7`.
        console: for progress and results.
        table: whether to print the results.
        job: function called for each task; by default `run_task`.
        limits: maximum wall time of a tick and of a run.
        crew: workers shared by several sweeps; by default the sweep starts its own.

    Raises:
        ConfigError: the scenario is invalid.
        FailedError: a program hangs in its first second, or runs were lost.
        RunError: results cannot be written, no scheduler answers at the address, or the cluster has different
            programs.
        KeyboardInterrupt: Ctrl-C was pressed; completed runs are saved and aggregated.
    """
    from swarmbed_experiments.runs.scenarios import load_scenario

    console = console or Console(quiet=True)
    wanted = seeds_of(first_seed, seeds)
    if dask is not None:
        cluster.check_address(dask)
    scenario, source = load_scenario(name, sets, world=world, seed=first_seed)
    scenario = scenario.seen_from(Path.cwd())
    cells = [Cell("", scenario, source, wanted, None if out is None else lambda _: out)]
    limits = limits or Limits()
    with contextlib.ExitStack() as stack:
        if crew is None:
            crew = stack.enter_context(Workers(workers))
        inputs = prepare(crew, cells, console, limits, job=job, here=dask is None)
        worked = work_through(crew, cells, inputs, console, limits, job=job, dask=dask)
    (result,) = worked.results
    if table:
        tell(console, result, worked.ran, worked.seconds)
    worked.insist(console, result.directory)
    return result


def seeds_of(first: int, count: int) -> range:
    """Return `count` seeds from `first` on.

    Raises:
        ConfigError: they exceed the largest seed.
    """
    if first + count > SEEDS:
        message = f"{count} seeds from {first} on: the largest possible seed is {SEEDS - 1}"
        raise ConfigError(message)
    return range(first, first + count)


def prepare(
    crew: Workers,
    cells: Sequence[Cell],
    console: Console,
    limits: Limits,
    *,
    job: Callable[[Task], dict[str, Any]] | None = None,
    here: bool = True,
) -> list[Inputs]:
    """Check all cells, compile what they need, and return what the runs of each depend on.

    Args:
        crew: workers that do it.
        cells: to be run later.
        console: for progress.
        limits: of a tick.
        job: function called for each task instead of a run; then nothing is checked.
        here: whether the crew also executes the runs.

    Raises:
        ConfigError: a scenario is invalid; the message names the cell.
        RunError: a program hangs, or ends its process before the first tick.
    """
    if job is not None:
        return [our_inputs()] * len(cells)
    # No time limit for a whole run here: a rehearsal may include compiling.
    tick = Limits(limits.tick)
    with console.status(
        "getting ready: the first run after an update compiles its hot loops for half a minute"
    ) as status:
        # The first cell is rehearsed alone: the others use what it compiles.
        found = [_rehearsed(crew, cells[0], tick)]
        futures = [crew.submit(rehearse, cell.case, limits=tick) for cell in cells[1:]]
        for cell, future in zip(cells[1:], futures, strict=True):
            status.update(f"checking cell {escape(cell.name)}")
            done = None
            with contextlib.suppress(JobError):
                done = future.result()
            if isinstance(done, Rehearsal) and done.inputs is not None:
                found.append(done.inputs)
            else:
                found.append(_rehearsed(crew, cell, tick))
    warmed = set()
    for cell, inputs in zip(cells, found, strict=True):
        scenario = cell.scenario
        kinds = [(group.kind, str(group.crowd)) for group in scenario.robots]
        what = repr((scenario.world, scenario.controller.name, kinds))
        if here and what not in warmed:
            warmed.add(what)
            programs = not inputs.modules or tame(scenario) != scenario
            crew.load(warm, replace(cell.case, programs=programs))
    return found


def _rehearsed(crew: Workers, cell: Cell, limits: Limits) -> Inputs:
    """Return what the runs of a cell depend on; errors name the cell."""
    try:
        return rehearsal_by(crew, cell.case, limits)
    except SwarmbedError as error:
        if not cell.name:
            raise
        message = f"cell {cell.name}: {error}"
        raise type(error)(message) from None


def work_through(
    crew: Workers,
    cells: Sequence[Cell],
    inputs: Sequence[Inputs],
    console: Console,
    limits: Limits,
    *,
    job: Callable[[Task], dict[str, Any]] | None = None,
    dask: str | None = None,
    pictures: bool = True,
) -> Worked:
    """Execute the missing runs of all cells as one list of tasks, and aggregate each cell.

    Args:
        crew: workers for the runs, unless Dask is used.
        cells: to run.
        inputs: result of `prepare`.
        console: for progress.
        limits: maximum wall time of a tick and of a run.
        job: function called for each task; by default `run_task`.
        dask: address of a Dask scheduler, whose workers are used instead.
        pictures: whether to draw a picture of each cell.

    Raises:
        RunError: results cannot be written, no scheduler answers at the address, or the cluster has different
            programs.
    """
    identities = [identity_of(cell.scenario, found) for cell, found in zip(cells, inputs, strict=True)]
    parts = [
        Parts.open(cell.directory(digest_of(identity)), cell.scenario, identity)
        for cell, identity in zip(cells, identities, strict=True)
    ]
    done: list[dict[str, Any]] = []
    owners: dict[Task, int] = {}
    for k, (cell, part) in enumerate(zip(cells, parts, strict=True)):
        text = cell.scenario.model_dump_json()
        for seed in cell.seeds:
            there = part.read(seed)
            if there is None:
                owners[Task(text, cell.source, seed)] = k
            else:
                done.append(there)
    total = sum(len(cell.seeds) for cell in cells)
    if done:
        where = f", in {parts[0].directory}" if len(cells) == 1 else ""
        console.print(f"{len(done)} of {total} runs are already done{where}", soft_wrap=True)
    started = time.perf_counter()
    errors: list[str] = []
    lost = ran = 0
    interrupted = False
    with progress(console, len(done) + len(owners), done) as advance:
        try:
            if dask is None:
                fresh = {task: inputs[k].modules for task, k in owners.items()}
                outcomes = work(crew, job or run_task, fresh, limits=limits)
            else:
                tasks: list[list[Task]] = [[] for _ in cells]
                for task, k in owners.items():
                    tasks[k].append(task)
                groups = []
                for k, cell in enumerate(cells):
                    about = None if job else (cell.scenario, cell.source, inputs[k])
                    groups.append(cluster.Group(tasks[k], identities[k], about))
                outcomes = cluster.work(dask, job or run_task, groups, limits)
            with contextlib.closing(outcomes):
                for task, found in outcomes:
                    k = owners[task]
                    if isinstance(found, Exception):
                        named = f"{cells[k].name}, " if cells[k].name else ""
                        errors.append(f"{named}seed {task.seed}: {_text(found)}")
                        continue
                    if isinstance(found, Lost):
                        lost += 1
                        row = {"seed": task.seed, "verdict": "failed", "reason": found.reason}
                    else:
                        row = found
                    if row["verdict"] != "interrupted":
                        parts[k].write(task.seed, row, lost=isinstance(found, Lost))
                        ran += 1
                        advance(row)
        except KeyboardInterrupt:
            interrupted = True
    seconds = time.perf_counter() - started
    results = []
    for cell, part, depends in zip(cells, parts, inputs, strict=True):
        # Read back from the files, so that continued and uninterrupted sweeps give identical rows.
        rows = [kept for seed in cell.seeds if (kept := part.read(seed, lost=True)) is not None]
        results.append(
            conclude(
                part.directory,
                cell.scenario,
                cell.source,
                rows,
                len(cell.seeds),
                units=depends.units,
                picture=pictures,
            )
        )
    missing = total - sum(len(result.rows) for result in results)
    return Worked(results, ran, seconds, missing, lost, errors, interrupted)


def _text(error: Exception) -> str:
    """Return an error's message, with its type unless it is one of ours."""
    return str(error) if isinstance(error, JobError | RunError) else f"{type(error).__name__}: {error}"


class Parts:
    """The completed runs of a sweep, one file each."""

    def __init__(self, directory: Path) -> None:
        """Use `parts/` in a sweep's directory."""
        self.directory = directory
        self._parts = directory / "parts"

    @classmethod
    def open(cls, directory: Path, scenario: Scenario, identity: Mapping[str, Any]) -> Parts:
        """Make the directory of a sweep, or open it.

        Raises:
            RunError: it cannot be made, or holds something else.
        """
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
            message = f"{directory} is not a sweep's: it contains {strangers[0]}; choose another --out"
            raise RunError(message)
        _compare(directory, _json(about), identity)
        from swarmbed_experiments.runs.scenarios import to_yaml

        write_text(directory / "scenario.yaml", to_yaml(scenario))
        try:
            parts._parts.mkdir(exist_ok=True)
        except OSError as error:
            message = f"{parts._parts}: cannot be made ({error.strerror}); choose another --out"
            raise RunError(message) from None
        return parts

    def read(self, seed: int, *, lost: bool = False) -> dict[str, Any] | None:
        """Return the row of a run, None if the run is not done.

        Args:
            seed: of the run.
            lost: whether to include runs that died or exceeded their time limit.
        """
        row = _json(self._file(seed))
        if isinstance(row, dict) and row.get("seed") == seed and "verdict" in row:
            return row
        return _json(self._lost(seed)) if lost else None

    def write(self, seed: int, row: Mapping[str, Any], *, lost: bool = False) -> None:
        """Save the row of a run, atomically. The run is done from then on, unless it was lost.

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
    """Return the content of a JSON file, None if it is missing or damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _compare(directory: Path, found: Any, identity: Mapping[str, Any]) -> None:
    """Reject a directory that holds runs with another identity.

    Raises:
        RunError: it does; the message lists the differences.
    """
    if not is_identity(found):
        what = "damaged, or from an earlier version of Swarmbed, so its runs cannot be identified"
        message = f"{directory / IDENTITY}: {what}; choose another --out, or delete the directory"
        raise RunError(message)
    different = differences(found, identity)
    if different:
        message = f"{directory} holds runs of something else: {listed(different)}; choose another --out"
        raise RunError(message)


# The work


def work(
    crew: Workers,
    job: Callable[[Task], dict[str, Any]],
    tasks: Mapping[Task, bool],
    *,
    limits: Limits,
) -> Generator[Finished, None, None]:
    """Execute all tasks. Yield each task with its row, `Lost` or an exception, in order of completion.

    Args:
        crew: workers that execute them.
        job: function called for each task.
        tasks: each with whether it needs a process of its own.
        limits: of each task's time.
    """
    futures = {crew.submit(job, task, fresh=fresh, limits=limits): task for task, fresh in tasks.items()}
    try:
        for future in as_completed(list(futures)):
            fault = future.exception()
            task = futures.pop(future)
            # The crew's futures raise only Exceptions.
            yield task, future.result() if fault is None else cast("Exception", fault)
    finally:
        if futures:
            crew.drop()
