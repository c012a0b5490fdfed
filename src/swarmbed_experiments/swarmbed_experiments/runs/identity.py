"""Everything that determines the runs of a sweep, in a comparable form: settings, files and versions.

Settings are the scenario without its seed. Files are our own code, users' modules with everything that they
import, and whatever a run reads in its first second: arenas, robots, marker maps, weights. Installed
libraries count by their version. Files that a program opens later or through a C library, and environment
variables, are not detected.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import platform
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarmbed_core.config import share_dir

from swarmbed_experiments.runs.origins import is_library, is_our_name, our_folders, plugin_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from importlib.machinery import ModuleSpec

    from swarmbed_core.scenario import Scenario

VERSION = 2
"""Version of the file format; version 1 had one digest for all programs together."""
PACKAGES = ("swarmbed_core", "swarmbed_sim", "swarmbed_gazebo", "swarmbed_behaviours", "swarmbed_experiments")
"""Packages of ours that compute a run."""
DEPENDENCIES = (
    "numpy",
    "numba",
    "llvmlite",
    "mujoco",
    "ruckig",
    "scipy",
    "py_trees",
    "xdevs",
    "opencv-contrib-python-headless",
)
"""Libraries that affect the results of a run."""
SHOWN = 5
"""Largest number of differences that a message names."""
LENGTH = 32
"""Characters of a file's digest: enough to rule collisions out."""
NO_INPUT = ("/proc/", "/sys/", "/dev/", "/etc/")
METADATA = (".dist-info", ".egg-info")
BYTECODE = (".pyc", ".pyo", ".nbi", ".nbc", ".pth", ".egg-link", "pyvenv.cfg")


@dataclass(frozen=True)
class Inputs:
    """What a run is computed from, besides its settings.

    Attributes:
        files: digests by name. The name is `package/module.py` for a module; for other files it is the path
            below the current directory or `share_dir()`, or else the whole path.
        packages: versions by distribution name.
        theirs: paths of the user's own files, by name.
        modules: whether one of these files is a module.
        units: units of metrics, as the scenario's parts declare them.
    """

    files: Mapping[str, str]
    packages: Mapping[str, str]
    theirs: Mapping[str, Path] = field(default_factory=dict)
    modules: bool = False
    units: Mapping[str, str] = field(default_factory=dict)


def identity_of(scenario: Scenario, inputs: Inputs) -> dict[str, Any]:
    """Return the identity of a sweep, in the format of its file."""
    return {
        "version": VERSION,
        "settings": scenario.model_dump(mode="json", exclude={"seed"}),
        "files": dict(sorted(inputs.files.items())),
        "packages": dict(sorted(inputs.packages.items())),
    }


def digest_of(identity: Mapping[str, Any]) -> str:
    """Return a hash of an identity, eight hexadecimal digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:8]


def is_identity(found: Any) -> bool:
    """Return whether data read from a file is an identity of the current version."""
    return (
        isinstance(found, dict)
        and found.get("version") == VERSION
        and all(isinstance(found.get(key), dict) for key in ("settings", "files", "packages"))
    )


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences of two identities, one phrase each: settings, users' files, ours, packages."""
    found = list(_changes("", then["settings"], now["settings"]))
    files = []
    for name in sorted(then["files"].keys() | now["files"].keys()):
        if name not in now["files"]:
            files.append(f"file {name} is no longer used")
        elif name not in then["files"]:
            files.append(f"file {name} is new")
        elif then["files"][name] != now["files"][name]:
            files.append(f"file {name} has changed")
    files.sort(key=lambda text: is_our_name(text.split()[1].partition("/")[0]))
    found += files
    for name in sorted(then["packages"].keys() | now["packages"].keys()):
        old, new = (identity["packages"].get(name, "none") for identity in (then, now))
        if old != new:
            found.append(f"package {name} {old} is now {new}")
    return found


def _changes(where: str, then: Any, now: Any) -> Iterable[str]:
    """Yield the settings that differ, one phrase per field."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in [*then, *(key for key in now if key not in then)]:
            yield from _changes(f"{where}.{key}" if where else key, then.get(key), now.get(key))
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for i, (old, new) in enumerate(zip(then, now, strict=True)):
            yield from _changes(f"{where}.{i}", old, new)
    elif then != now:
        yield f"setting {where} {_short(then)} is now {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(found: list[str]) -> str:
    """Return the first differences as part of a sentence, with the number of the others."""
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


# What is there


def our_inputs() -> Inputs:
    """Return the inputs common to all runs: our code, and the versions of Python and our libraries."""
    folders = our_folders()
    files = {
        f"{name}/{file.relative_to(folders[name]).as_posix()}": digest(file)
        for name in PACKAGES
        if name in folders
        for file in sorted(folders[name].rglob("*.py"))
    }
    packages = {"python": platform.python_version()}
    for name in DEPENDENCIES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return Inputs(files, packages)


def all_inputs(
    roots: Iterable[str], opened: Iterable[Path], since: int, ours: Inputs | None = None
) -> Inputs:
    """Return our code, the user's modules with everything that they import, and the files that were read.

    Args:
        roots: modules of worlds, programs and frame parts.
        opened: files that were opened for reading.
        since: time in ns; files changed later were written by the run itself and are left out.
        ours: what `our_inputs` returned earlier, if it is known.
    """
    ours = ours or our_inputs()
    modules, libraries = _closure(roots)
    theirs = {**modules}
    known = {path.resolve() for path in modules.values()}
    folders = {each for folder in our_folders().values() for each in (folder, folder.resolve())}
    own = tuple(f"{folder}{os.sep}" for folder in folders)
    caches = _caches()
    files = dict(ours.files)
    here, share = Path.cwd(), share_dir().resolve()
    for path in opened:
        # A process has opened hundreds of files, and few of them matter.
        if str(path).startswith(own) or not _is_input(path, since, caches):
            continue
        whole = path.resolve()
        if whole in known or str(whole).startswith(own):
            continue
        if share in whole.parents:
            files[whole.relative_to(share).as_posix()] = digest(whole)
        else:
            theirs[path.relative_to(here).as_posix() if here in path.parents else str(path)] = path
    files |= {name: digest(path) for name, path in theirs.items()}
    packages = dict(ours.packages)
    if libraries:
        owners = _owners()
        for name in {owner for top in libraries for owner in owners.get(top, ())}:
            packages[name] = version(name)
    return Inputs(files, packages, theirs, bool(modules))


@cache
def _owners() -> Mapping[str, Sequence[str]]:
    """Return the distributions of all top-level modules, as they were when this process first asked."""
    return packages_distributions()


def digest(file: Path) -> str:
    """Return the digest of a file, empty if it cannot be read."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()[:LENGTH]
    except OSError:
        return ""


def _caches() -> tuple[str, ...]:
    """Return the prefixes of paths of the user's caches."""
    home = Path.home() / ".cache"
    return tuple({f"{home}{os.sep}", f"{os.environ.get('XDG_CACHE_HOME') or home}{os.sep}"})


def _is_input(path: Path, since: int, caches: tuple[str, ...]) -> bool:
    """Return whether a file that was read is an input of the run: no system file, library or cache."""
    text = str(path)
    if text.startswith((*NO_INPUT, *caches)) or is_library(text) or text.endswith(BYTECODE):
        return False
    if any(part == "__pycache__" or part.endswith(METADATA) for part in path.parts):
        return False
    try:
        return path.is_file() and path.stat().st_mtime_ns < since
    except OSError:
        return False


class Reads:
    """Records the files that this process opens for reading, by an audit hook, which cannot be removed."""

    def __init__(self) -> None:
        """Install the hook."""
        self.found: dict[Path, None] = {}
        self._written: set[str] = set()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open":
            return
        path, mode, flags = arguments
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return
        path = os.path.abspath(path)  # noqa: PTH100 - quicker, and follows no links
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR)
        if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
            self._written.add(path)
        elif path not in self._written:
            self.found[Path(path)] = None


# Modules


def _closure(roots: Iterable[str]) -> tuple[dict[str, Path], set[str]]:
    """Return the files of the user's modules, by name, and the libraries that these import.

    Found are the imports in the source, also within functions, and all modules imported so far by any means.
    """
    main = {"__main__", "__mp_main__"}
    todo = [name for name in sys.modules if name not in main and _is_theirs(name, _spec(name))]
    todo += [name for name in roots if name not in main]
    seen: set[str] = set()
    files: dict[str, Path] = {}
    libraries: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        spec = _spec(name)
        if spec is None or spec.origin is None or not _is_theirs(name, spec):
            if spec is not None and not is_our_name(name):
                libraries.add(name.partition(".")[0])
            continue
        file = Path(spec.origin)
        package = spec.submodule_search_locations is not None
        folder = name.split(".") if package else name.split(".")[:-1]
        files["/".join([*folder, file.name])] = file
        if "." in name:
            todo.append(name.rpartition(".")[0])
        if file.suffix == ".py":
            todo += _imports(file, name if package else name.rpartition(".")[0])
    return files, libraries - sys.stdlib_module_names


def _is_theirs(name: str, spec: ModuleSpec | None) -> bool:
    """Return whether a module is the user's: neither ours nor a library's."""
    if spec is None or not spec.has_location or spec.origin is None or is_our_name(name):
        return False
    return name.partition(".")[0] in plugin_names() or not is_library(spec.origin)


def _spec(name: str) -> ModuleSpec | None:
    """Return a module's spec without importing anything, None if it is not found."""
    spec: ModuleSpec | None = getattr(sys.modules.get(name), "__spec__", None)
    if spec is not None:
        return spec
    parts = name.split(".")
    path: Any = None
    for i in range(len(parts)):
        try:
            spec = PathFinder.find_spec(".".join(parts[: i + 1]), path)
        except (ImportError, ValueError, AttributeError, OSError, KeyError):
            # KeyError: a folder without __init__.py below a package that is not imported.
            return None
        if spec is None:
            return None
        path = spec.submodule_search_locations
        if path is None and i + 1 < len(parts):
            return None
    return spec


def _imports(file: Path, package: str) -> list[str]:
    """Return the names of all modules that a source file may import; imported objects are among them."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            if node.level:
                try:
                    name = importlib.util.resolve_name(name, package)
                except ImportError:
                    continue
            found += [name, *(f"{name}.{alias.name}" for alias in node.names)]
    return found
