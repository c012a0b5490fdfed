"""The manifest of a run, `manifest.json`: everything that a run was computed from, and where.

It is written when a run begins, so that killed runs have one too, and again when the run ends: with the files
that programs opened meanwhile, and with the orders that came from outside.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import platform
import re
import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from swarmbed_core.config import share_dir
from swarmbed_core.plugins import ACCEPTORS, CONTROLLERS, DEVICES, GENERATORS, TRANSDUCERS, WORLDS

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import read_json, read_text, replace_text
from swarmbed_experiments.runs.identity import LENGTH, Reads, all_inputs, differences, digest, our_inputs
from swarmbed_experiments.runs.order_log import NAME as ORDERS
from swarmbed_experiments.runs.plain import writable

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scenario import Named, Scenario
    from swarmbed_core.world import CarrierTruth

    from swarmbed_experiments.runs.identity import Inputs

NAME = "manifest.json"
SEED = re.compile(r"^seed: .*\n", re.MULTILINE)
PROGRAM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
GIBIBYTE = 2**30


class Part(BaseModel):
    """A part of a manifest. Readers ignore fields that they do not know."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Plugin(Part):
    """A plugin that took part.

    Attributes:
        kind: what it is, such as `controllers`.
        name: as in the scenario.
        made_by: `module:attribute`.
        file: its module's name among the manifest's `files`; empty for a module of an installed library.
    """

    kind: str
    name: str
    made_by: str
    file: str = ""


class Machine(Part):
    """The machine of a run.

    Attributes:
        name: its host name.
        system: operating system.
        kernel: its kernel.
        cpu: model of the processor.
        cores: cores that the process may use.
        memory_gib: [GiB] physical memory.
    """

    name: str
    system: str
    kernel: str
    cpu: str
    cores: int
    memory_gib: float


class OrdersFile(Part):
    """The orders that a run took from outside.

    Attributes:
        file: name of their file, in the run's directory.
        digest: hash of the file.
        count: number of orders.
    """

    file: str
    digest: str
    count: int


class End(Part):
    """How a run ended, to the bit.

    Attributes:
        steps: number of steps that the world made.
        state: hash of the time, and of the names, poses and velocities of all robots and carriers.
    """

    steps: int
    state: str


class Manifest(Part):
    """What a run was computed from, and where.

    Attributes:
        format: version of this format: 1.
        scenario: name of the run's scenario.
        source: the scenario's file.
        digest: hash of `scenario.yaml`, without its seed, and of `files`.
        seed: seed of the run.
        started: when the run began (UTC, ISO 8601).
        ended: when it ended; null while it runs, and of a killed run.
        command: the command line.
        directory: the working directory of the command.
        versions: versions of Swarmbed, Python and all libraries that compute the run, by name.
        commit: commit of the workspace, if it is a git repository. Changes since then show in `files`.
        machine: where it ran.
        plugins: world, controllers, devices and parts of the frame.
        files: hashes of all code and data that took part, by name: our packages, your modules with everything
            that they import, and files that were read. Installed libraries count by their version.
        orders: the orders that came from outside; null if there were none.
        end: the state at the end; null of a run that has none, such as a killed one.
    """

    format: Literal[1] = 1
    scenario: str
    source: str
    digest: str
    seed: int
    started: str
    ended: str | None = None
    command: tuple[str, ...]
    directory: str
    versions: Mapping[str, str]
    commit: str | None = None
    machine: Machine
    plugins: tuple[Plugin, ...]
    files: Mapping[str, str]
    orders: OrdersFile | None = None
    end: End | None = None

    @classmethod
    def load(cls, directory: Path) -> Manifest:
        """Read the manifest in a run's directory.

        Raises:
            RunError: it is missing, or not a manifest of this format.
        """
        file = directory / NAME
        try:
            return cls.model_validate(read_json(file))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            message = f"{file}: not a run's manifest ({'.'.join(map(str, first['loc']))}: {first['msg']})"
            raise RunError(message) from None

    def write(self, directory: Path) -> None:
        """Write the manifest to a run's directory.

        Raises:
            RunError: it cannot be written.
        """
        replace_text(directory / NAME, self.model_dump_json(indent=1) + "\n")


def begin(directory: Path, scenario: Scenario, name: str, source: str) -> Manifest:
    """Write and return the manifest of a run that begins.

    Args:
        directory: of the run, with the packed scenario.
        scenario: with all changes applied.
        name: of the run.
        source: the scenario's file.

    Raises:
        RunError: a file cannot be read or written.
    """
    points = list(_points(scenario))
    found, seen = _inputs({point.module for _, point in points})
    made = Manifest(
        scenario=writable(name),
        source=writable(source),
        digest=digest_of(directory),
        seed=scenario.seed,
        started=_now(),
        command=tuple(map(writable, (Path(sys.argv[0]).name, *sys.argv[1:]))),
        directory=writable(str(Path.cwd())),
        versions={"swarmbed": version("swarmbed_experiments"), **found.packages},
        commit=commit_of(share_dir()),
        machine=machine(),
        plugins=tuple(_plugins(points, found.files)),
        files=_written(found.files),
    )
    _seen[directory] = seen
    made.write(directory)
    return made


def complete(directory: Path, begun: Manifest, end: End | None = None) -> Manifest:
    """Write and return the manifest of a run that has ended.

    Args:
        directory: of the run.
        begun: what `begin` returned.
        end: the state at the end, if it is known.

    Raises:
        RunError: a file cannot be read or written.
    """
    modules = {plugin.made_by.partition(":")[0] for plugin in begun.plugins}
    found, _ = _inputs(modules, _seen.pop(directory, 0))
    # What was there at the start counts: somebody may have edited it meanwhile.
    change = {
        "ended": _now(),
        "versions": {**begun.versions, **found.packages},
        "files": {**_written(found.files), **begun.files},
        "orders": orders_of(directory),
        "end": end,
    }
    made = begun.model_copy(update=change)
    made.write(directory)
    return made


def changes_since(then: Manifest, scenario: Scenario) -> list[str]:
    """Return what has changed since a run began that may let it come out differently, one phrase each.

    Args:
        then: the run's manifest.
        scenario: of the run.
    """
    found, _ = _inputs({point.module for _, point in _points(scenario)})
    versions = {"swarmbed": version("swarmbed_experiments"), **found.packages}
    files = _written(found.files)
    for name in then.files.keys() - files.keys():
        # Data that a program opened: what is still there is compared.
        if now := digest(Path(then.directory) / name):
            files[name] = now
    here = machine()
    changed = differences(
        {
            "settings": {},
            "files": _common(then.files, files),
            "packages": _common(then.versions, versions),
        },
        {
            "settings": {},
            "files": _common(files, then.files),
            "packages": _common(versions, then.versions),
        },
    )
    if then.machine.cpu != here.cpu:
        changed.append(f"it ran on {then.machine.cpu}, this is {here.cpu}")
    return changed


def _common(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in one.items() if name in other}


def _written(files: Mapping[str, str]) -> dict[str, str]:
    """Return hashes by names that a manifest can hold."""
    return {writable(name): found for name, found in files.items()}


def state_of(time_: float, names: Iterable[str], robots: FloatArray, carriers: CarrierTruth) -> str:
    """Return a hash of the true state of a world."""
    found = hashlib.sha256(repr((float(time_), *names)).encode("utf-8", "backslashreplace"))
    for array in (robots, carriers.poses, carriers.lifts, carriers.carried_by):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:LENGTH]


def orders_of(directory: Path) -> OrdersFile | None:
    """Return what a manifest says about a run's orders, None if there are none.

    Raises:
        RunError: the file cannot be read.
    """
    file = directory / ORDERS
    if not file.is_file():
        return None
    count = sum(1 for line in read_text(file).splitlines() if line.strip())
    return OrdersFile(file=ORDERS, digest=digest(file), count=count)


def digest_of(directory: Path) -> str:
    """Return a hash of a packed scenario with the files that it names; runs with other seeds have the same.

    Raises:
        RunError: scenario.yaml cannot be read.
    """
    found = hashlib.sha256(SEED.sub("", read_text(directory / "scenario.yaml")).encode())
    for file in sorted((directory / "files").rglob("*")):
        if file.is_file():
            name = file.relative_to(directory).as_posix()
            found.update(f"{name} {digest(file)}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()[:LENGTH]


# What took part

_started = time.time_ns()
_reads: list[Reads] = []
_seen: dict[Path, int] = {}
"""Number of files that this process had read when a run began, by the run's directory."""


def listen() -> None:
    """Note from now on which files this process reads, so that manifests list them.

    A command calls it before it makes a run. Without it, a manifest lacks data that programs open.
    """
    if not _reads:
        _reads.append(Reads())


def _inputs(modules: Iterable[str], seen: int = 0) -> tuple[Inputs, int]:
    """Return what a run is computed from, as far as is known now, and how many files were read so far.

    Args:
        modules: those of its plugins.
        seen: number of files that are known already and are left out.
    """
    opened = list(_reads[0].found) if _reads else []
    # What git says is in `commit`.
    new = [file for file in opened[seen:] if ".git" not in file.parts]
    return all_inputs(sorted(modules), new, _started, _ours()), len(opened)


@cache
def _ours() -> Inputs:
    """Return our own code, as it was when this process first asked: modules are not loaded again."""
    return our_inputs()


def _named(scenario: Scenario) -> Iterator[tuple[str, Named | str]]:
    """Yield the plugins that a scenario names, with their groups."""
    yield WORLDS, scenario.world
    yield CONTROLLERS, scenario.controller
    for group in scenario.robots:
        if group.controller is not None:
            yield CONTROLLERS, group.controller
        for made in group.device:
            yield DEVICES, made
    frame = scenario.frame
    for kind, parts in (
        (GENERATORS, frame.generators),
        (TRANSDUCERS, frame.transducers),
        (ACCEPTORS, frame.acceptors),
    ):
        for part in parts:
            yield kind, part


def _points(scenario: Scenario) -> Iterator[tuple[str, EntryPoint]]:
    """Yield groups and entry points of a scenario's plugins, and of programs that their parameters name."""
    every = entry_points()
    for group, named in _named(scenario):
        name = named if isinstance(named, str) else named.name
        known = list(every.select(group=group, name=name))
        if known or ":" in name:
            yield group, known[0] if known else EntryPoint(name, name, group)
        for value in () if isinstance(named, str) else named.parameters.values():
            if isinstance(value, str) and PROGRAM.fullmatch(value):
                yield group, EntryPoint(value, value, group)


def _plugins(points: Iterable[tuple[str, EntryPoint]], files: Container[str]) -> Iterator[Plugin]:
    """Yield plugins, each once."""
    seen = set()
    for group, point in points:
        kind = group.rpartition(".")[2]
        if (kind, point.name) not in seen:
            seen.add((kind, point.name))
            file = _file_of(point.module)
            yield Plugin(kind=kind, name=point.name, made_by=point.value, file=file if file in files else "")


def _file_of(module: str) -> str:
    """Return the name of a module's file, as `identity` names it; empty if there is none."""
    try:
        spec = find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None or not spec.has_location or spec.origin is None:
        return ""
    package = spec.submodule_search_locations is not None
    folders = module.split(".") if package else module.split(".")[:-1]
    return "/".join([*folders, Path(spec.origin).name])


# The machine


@cache
def machine() -> Machine:
    """Return this machine."""
    kernel = os.uname()
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", kernel.sysname)
    except OSError:
        system = kernel.sysname
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIBIBYTE
    return Machine(
        name=kernel.nodename,
        system=system,
        kernel=kernel.release,
        cpu=_cpu() or kernel.machine,
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(memory, 1),
    )


def _cpu() -> str:
    """Return the processor's name, empty if the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    told: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            told.setdefault(name.strip(), value.strip())
    return told.get("model name") or told.get("Model") or ""


def commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out in a git repository; None outside of one."""
    try:
        place = folder / ".git"
        if place.is_file():
            # A work tree or a submodule.
            place = folder / place.read_text(encoding="utf-8").partition(":")[2].strip()
        head = (place / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return head
        ref = head.partition(":")[2].strip()
        common = place / "commondir"
        if common.is_file():
            place /= common.read_text(encoding="utf-8").strip()
        if (place / ref).is_file():
            return (place / ref).read_text(encoding="utf-8").strip()
        packed = (place / "packed-refs").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.split()[0] for line in packed if line.endswith(f" {ref}")), None)


def _now() -> str:
    return dt.datetime.now(tz=dt.UTC).isoformat(timespec="milliseconds")
