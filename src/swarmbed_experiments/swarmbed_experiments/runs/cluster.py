"""Jobs on a Dask cluster. Each Dask worker checks that it has the same programs before its first run.

A Dask worker keeps its own `Workers`, with one thread each, isolated runs and the same time limits. The
user's modules, and files below the directory where the sweep was started, are sent to it. Packages must be
installed there.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from swarmbed_core.errors import SwarmbedError

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.identity import Inputs, differences, digest_of, identity_of, listed, our_inputs
from swarmbed_experiments.runs.rehearsal import Case, rehearsal_by, tame, warm
from swarmbed_experiments.runs.workers import JobError, Lost, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from swarmbed_core.scenario import Scenario

    from swarmbed_experiments.runs.sweep import Task

ADDRESS = r"(\w+://)?(\[[0-9a-fA-F:]+\]|[^\s/:]+):\d+"
"""Regular expression of a scheduler's address."""
TIMEOUT = "10s"
"""Timeout for the connection to a scheduler."""
MOST = 100_000_000
"""Maximum total size in bytes of the files sent to each worker."""
STATIONS = 2
"""Number of sweeps for which a Dask worker keeps processes; those with running tasks are always kept."""

Finished = tuple["Task", "dict[str, Any] | Lost | Exception"]


@dataclass(frozen=True)
class Group:
    """Tasks of one sweep.

    Attributes:
        tasks: the tasks to do.
        identity: identity of the sweep.
        about: its scenario, the scenario's file, and the inputs of its runs; None for jobs other than runs.
    """

    tasks: Sequence[Task]
    identity: dict[str, Any]
    about: tuple[Scenario, str, Inputs] | None


@dataclass(frozen=True)
class Parcel:
    """What is sent to a Dask worker for a sweep.

    Attributes:
        identity: identity that the worker must match.
        case: case to rehearse; None for jobs other than runs.
        files: contents of files, by name.
        limits: time limits of runs.
    """

    identity: dict[str, Any]
    case: Case | None
    files: Mapping[str, bytes]
    limits: Limits


@dataclass(frozen=True)
class Refused:
    """The answer of a Dask worker that rejects a sweep, such as for different programs."""

    reason: str


def check_address(address: str) -> None:
    """Check the form of an address: Dask itself retries a bad one for half a minute and ends in a traceback.

    Raises:
        RunError: the text is not an address.
    """
    if re.fullmatch(ADDRESS, address) is None:
        message = f"--dask {address}: not an address; tcp://HOST:8786 is usual"
        raise RunError(message)


def work(
    address: str,
    job: Callable[[Task], dict[str, Any]],
    groups: Sequence[Group],
    limits: Limits,
) -> Generator[Finished, None, None]:
    """Do all tasks on a Dask cluster; yield each with its row, or with the loss or error that replaces it.

    Outcomes come in the order in which tasks finish.

    Raises:
        RunError: no scheduler answers at the address, or a worker there rejects the sweep.
    """
    import distributed

    groups = [group for group in groups if group.tasks]
    if not groups:
        return
    parcels = [pack(group.identity, group.about, limits) for group in groups]
    try:
        client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TypeError) as error:
        message = f"--dask {address}: no Dask scheduler answers there ({error}); tcp://HOST:8786 is usual"
        raise RunError(message) from None
    with client:
        futures = {}
        for group, parcel in zip(groups, parcels, strict=True):
            sent = client.scatter(parcel, hash=False)  # type: ignore[no-untyped-call]
            for task in group.tasks:
                futures[client.submit(run_there, job, task, sent, pure=False)] = task
        try:
            for future in distributed.as_completed(list(futures), loop=client.loop):  # type: ignore[no-untyped-call]
                fault = future.exception()
                task = futures.pop(future)
                if isinstance(fault, ImportError):
                    message = f"--dask {address}: a worker cannot import Swarmbed ({fault}); install it there"
                    raise RunError(message)
                found = future.result() if fault is None else fault
                if isinstance(found, Refused):
                    message = f"--dask {address}: {found.reason}"
                    raise RunError(message)
                yield task, found
        finally:
            if futures:
                client.cancel(list(futures))  # type: ignore[no-untyped-call]


def pack(identity: dict[str, Any], about: tuple[Scenario, str, Inputs] | None, limits: Limits) -> Parcel:
    """Return what to send to Dask workers.

    Raises:
        RunError: the files are larger than `MOST`.
    """
    if about is None:
        return Parcel(identity, None, {}, limits)
    scenario, source, inputs = about
    paths = {name: path for name, path in inputs.theirs.items() if _is_sent(name)}
    size = sum(path.stat().st_size for path in paths.values())
    if size > MOST:
        message = (
            f"the scenario's files have {size / 1e6:.0f} MB, more than the {MOST / 1e6:.0f} MB that are sent "
            "to a Dask worker; give large files as absolute paths that exist on all workers"
        )
        raise RunError(message)
    files = {name: path.read_bytes() for name, path in paths.items()}
    return Parcel(identity, Case(scenario.model_dump_json(), source), files, limits)


def _is_sent(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


# On a Dask worker


@dataclass
class _Station:
    """A Dask worker's state for one sweep."""

    parcel: Parcel
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    workers: Workers | None = None
    fresh: bool = False
    refusal: str = ""
    busy: int = 0
    """Number of running tasks."""


_stations: OrderedDict[str, _Station] = OrderedDict()
_lock = threading.Lock()


def run_there(
    job: Callable[[Task], dict[str, Any]], task: Task, parcel: Parcel
) -> dict[str, Any] | Lost | Refused | Exception:
    """Do a task on this Dask worker, if it has the same programs."""
    with _lock:
        station = _station(parcel)
        station.busy += 1
    try:
        return _run_at(station, job, task)
    finally:
        with _lock:
            station.busy -= 1


def _run_at(
    station: _Station, job: Callable[[Task], dict[str, Any]], task: Task
) -> dict[str, Any] | Lost | Refused | Exception:
    parcel = station.parcel
    if station.refusal or station.workers is None:
        return Refused(f"worker {_name()}: {station.refusal}")
    try:
        done = station.workers.submit(job, task, fresh=station.fresh, limits=parcel.limits)
        found: dict[str, Any] | Lost = done.result()
    except (JobError, SwarmbedError) as error:
        return RunError(str(error))
    return found


def _station(parcel: Parcel) -> _Station:
    """Return this worker's state for a sweep; open it for the first task, and close the oldest idle ones."""
    key = digest_of({"identity": parcel.identity, "limits": str(parcel.limits)})
    if key not in _stations:
        idle = [name for name, old in _stations.items() if not old.busy]
        for name in idle[: max(0, len(_stations) + 1 - STATIONS)]:
            _stations.pop(name).stack.close()
        station = _Station(parcel)
        try:
            _open(station)
        except (SwarmbedError, OSError) as error:
            station.refusal = str(error)
        if station.refusal:
            # Not stored: the worker may be repaired, so the next task checks again.
            station.stack.close()
            return station
        _stations[key] = station
    _stations.move_to_end(key)
    return _stations[key]


def _open(station: _Station) -> None:
    """Unpack the files that were sent, start workers, and compare the identities.

    Raises:
        RunError: a file's name leads out of the temporary directory.
    """
    parcel = station.parcel
    folder = Path(station.stack.enter_context(tempfile.TemporaryDirectory(prefix="swarmbed-sweep-")))
    for name, content in parcel.files.items():
        if not _is_sent(name):
            message = f"{name}: leads out of the directory for the files of a sweep"
            raise RunError(message)
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    if parcel.case is None:
        station.workers = station.stack.enter_context(Workers(_threads()))
        found = our_inputs()
        here = parcel.identity | {"files": found.files, "packages": found.packages}
    else:
        workers = Workers(_threads(), directory=folder, path=[str(folder)])
        station.workers = station.stack.enter_context(workers)
        scenario = parcel.case.read()
        inputs = rehearsal_by(workers, parcel.case, Limits(parcel.limits.tick))
        station.fresh = inputs.modules
        here = identity_of(scenario, inputs)
        case = parcel.case
        programs = not inputs.modules or tame(scenario) != scenario
        workers.load(warm, Case(case.scenario, case.source, programs=programs))
    different = differences(parcel.identity, here)
    if different:
        station.refusal = f"differs from this machine: {listed(different)}; update it"


def _threads() -> int:
    """Return the number of threads of this Dask worker, which is that of its concurrent tasks."""
    import distributed

    return int(distributed.get_worker().state.nthreads)


def _name() -> str:
    import distributed

    return str(distributed.get_worker().address)
