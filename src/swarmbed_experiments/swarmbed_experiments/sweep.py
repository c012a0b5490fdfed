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

from swarmbed_experiments import cluster
from swarmbed_experiments.errors import FailedError, RunError
from swarmbed_experiments.files import RUNS, write_text
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
from swarmbed_experiments.rehearsal import Case, Rehearsal, rehearsal_by, rehearse, tame, warm
from swarmbed_experiments.results import Result, conclude, progress, row_of, tell
from swarmbed_experiments.workers import JobError, Lost, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from swarmbed_experiments.cluster import Outcome

SEEDS = 2**32
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


@dataclass(frozen=True)
class Cell:
    """One scenario and its seeds: what a sweep is of.

    Attributes:
        name: for people; empty if there is but one cell.
        scenario: with the first seed, and the paths of files as seen from here: a cluster has others.
        source: its file, for messages.
        seeds: of the runs.
        place: gives its directory, from a word that stands for all that decides its runs; one in `runs/`, if
            not given.
    """

    name: str
    scenario: Scenario
    source: str
    seeds: range
    place: Callable[[str], Path] | None = None

    def directory(self, digest: str) -> Path:
        """Return where its files go."""
        if self.place is not None:
            return self.place(digest)
        return RUNS / f"sweep-{Path(self.source).stem}-{digest}"

    @property
    def case(self) -> Case:
        """Return what is rehearsed before its runs."""
        return Case(self.scenario.model_dump_json(), self.source)


@dataclass(frozen=True)
class Worked:
    """What came out of cells.

    Attributes:
        results: one of each cell.
        ran: how many runs were done now.
        seconds: that they took.
        missing: how many are not done.
        lost: how many died or took too long.
        errors: what became of runs that could not be done at all.
        interrupted: whether somebody pressed Ctrl-C.
    """

    results: list[Result]
    ran: int
    seconds: float
    missing: int
    lost: int
    errors: list[str]
    interrupted: bool

    def insist(self, console: Console, where: Path | None = None) -> None:
        """Say what is not done, and make sure that nothing is missing.

        Args:
            console: for what is not done.
            where: the directory of what is kept, if there is but one.

        Raises:
            FailedError: runs could not be done.
            KeyboardInterrupt: somebody pressed Ctrl-C.
        """
        if self.lost:
            text = f"{self.lost} runs died or took too long; the same command does them again"
            console.print(text, highlight=False, soft_wrap=True)
        kept = sum(len(result.rows) for result in self.results)
        there = "" if where is None else f" in {where}"
        message = f"{kept} of {kept + self.missing} runs are kept{there}; "
        message += f"the same command does the other {self.missing}"
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
    """Return so many seeds.

    Raises:
        ConfigError: there are not so many.
    """
    if first + count > SEEDS:
        message = f"{count} seeds from {first} on: the last seed that there is is {SEEDS - 1}"
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
        crew: who does it.
        cells: what is run later.
        console: for what is done.
        limits: of a tick.
        job: what is done for each task instead of a run; then there is nothing to check.
        here: whether the crew does the runs, too.

    Raises:
        ConfigError: something in a scenario is wrong; the message names the cell.
        RunError: a program hangs, or ends its process before anything moves.
    """
    if job is not None:
        return [our_inputs()] * len(cells)
    # What is compiled now does not count as a run.
    tick = Limits(limits.tick)
    with console.status(
        "getting ready: the first run after an update compiles its hot loops for half a minute"
    ) as status:
        # What the first cell compiles, the others find.
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
    """Return what the runs of a cell depend on; faults name the cell."""
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
    """Run what is left of all cells, as one list of work, and sum each of them up.

    Args:
        crew: who does the runs, without Dask.
        cells: what is run.
        inputs: what `prepare` found.
        console: for progress.
        limits: how long a tick and a run may take.
        job: what is done for each task, `run_task` if not given.
        dask: address of a Dask scheduler, whose workers are used instead.
        pictures: whether each cell gets one.

    Raises:
        RunError: results cannot be written, nobody answers at the address, or the cluster there has other
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
        console.print(f"{len(done)} of {total} runs are done already{where}", soft_wrap=True)
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
        # Read back, so that the rows of a sweep that was continued are those of one that was not.
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
    """Return an error for people; that of a job says itself what it is."""
    return str(error) if isinstance(error, JobError | RunError) else f"{type(error).__name__}: {error}"


class Parts:
    """The runs of a sweep that are done, a file each."""

    def __init__(self, directory: Path) -> None:
        """Keep them in `parts` of a sweep's directory."""
        self.directory = directory
        self._parts = directory / "parts"

    @classmethod
    def open(cls, directory: Path, scenario: Scenario, identity: Mapping[str, Any]) -> Parts:
        """Make or find the directory of a sweep.

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


def work(
    crew: Workers,
    job: Callable[[Task], dict[str, Any]],
    tasks: Mapping[Task, bool],
    *,
    limits: Limits,
) -> Generator[Outcome, None, None]:
    """Do all tasks; give each one's row, or what came instead, as they come.

    Args:
        crew: who does them.
        job: that is done.
        tasks: and whether each needs a process of its own.
        limits: of its time.
    """
    futures = {crew.submit(job, task, fresh=fresh, limits=limits): task for task, fresh in tasks.items()}
    try:
        for future in as_completed(list(futures)):
            fault = future.exception()
            task = futures.pop(future)
            # Crew's futures raise nothing else.
            yield task, future.result() if fault is None else cast("Exception", fault)
    finally:
        if futures:
            crew.drop()
