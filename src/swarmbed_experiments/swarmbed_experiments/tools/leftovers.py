"""Finds and ends processes of earlier runs whose parent has died.

A process is ours if it runs an executable of this workspace's installation, or a simulator or virtual display
that was started for one of its worlds. Only processes of this user count. A process whose shell, launch file
or `swarmbed up` still runs is in use and is left alone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROC = Path("/proc")
NODES = {
    "swarmbed_robot": {
        "world",
        "onboard",
        "controller",
        "tf_relay",
        "recorder",
        "teleop",
        "detector",
        "navigator",
    },
    "swarmbed_experiments": {"trial"},
}
"""Executables that run until they are stopped, by package; the command `swarmbed` ends by itself."""
GAZEBO = "/swarmbed-gazebo-"
"""Part of the command lines of simulators: the directory that `swarmbed_gazebo` creates for each server."""
PLUGIN = "swarmbed_gazebo_plugin"
REAPERS = frozenset({"systemd", "init", "tini", "dumb-init"})
"""Programs that adopt processes whose parents have died."""
GRACE = ((signal.SIGINT, 8.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0))
"""Signals that end a process, in this order, with the seconds to wait after each."""


@dataclass(frozen=True)
class Found:
    """A process of ours.

    Attributes:
        pid: process id.
        started: start time in clock ticks since boot; tells processes apart if a pid is reused.
        what: its program and arguments.
        domain: its ROS domain.
        orphaned: whether the process that started it has died.
    """

    pid: int
    started: int
    what: str
    domain: str
    orphaned: bool


def find() -> list[Found]:
    """Return the running processes of this workspace, orphaned or in use."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            # Processes may end meanwhile, and those of other users cannot be read.
            with contextlib.suppress(OSError, ValueError, IndexError):
                one = _of(entry)
                if one is not None:
                    found.append(one)
    return sorted(found, key=lambda one: one.pid)


def _of(entry: Path) -> Found | None:
    if entry.stat().st_uid != os.getuid():
        return None
    # After the name, which may contain any characters: state, parent, group, session; the 20th is the start.
    rest = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    state, parent, session, started = rest[0], int(rest[1]), int(rest[3]), int(rest[19])
    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
    if state == "Z":
        return None
    environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
    what = _what(words, environment)
    if what is None:
        return None
    values = dict(pair.partition("=")[::2] for pair in environment)
    return Found(
        int(entry.name),
        started,
        what,
        values.get("ROS_DOMAIN_ID") or "0",
        _is_orphan(parent, session),
    )


def _what(words: Sequence[str], environment: Sequence[str]) -> str | None:
    """Return the program and arguments of a process of ours, None if it is not ours."""
    # A script follows its interpreter.
    for word in words[:3]:
        for package, names in NODES.items():
            program = Path(word)
            if program.name in names and program.parent == _lib(package):
                return " ".join([program.name, *words[words.index(word) + 1 :]]).strip()[:100]
    ours = _lib(PLUGIN)
    if any(GAZEBO in word for word in words) and ours is not None:
        lib = str(ours.parent)
        if any(lib in pair for pair in environment):
            return f"{Path(words[0]).name} (of a Gazebo world)"
    return None


def _lib(package: str) -> Path | None:
    """Return the directory of a package's executables, None if the package is not installed."""
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        return Path(get_package_prefix(package)) / "lib" / package
    except PackageNotFoundError:
        return None


def _is_orphan(parent: int, session: int) -> bool:
    """Return whether the process that started another one has died, by the other's parent and session."""
    if parent == 1:
        # In a container, a shell may be process 1; processes that it started are in its session.
        return session != 1
    with contextlib.suppress(OSError):
        return (PROC / str(parent) / "comm").read_text(encoding="utf-8").strip() in REAPERS
    return True


def end(processes: Sequence[Found]) -> Iterator[tuple[Found, bool]]:
    """End processes with the signals of `GRACE` in turn; yield each and whether it has ended."""
    for one in processes:
        yield one, _end(one)


def _end(one: Found) -> bool:
    try:
        handle = os.pidfd_open(one.pid)
    except ProcessLookupError:
        return True
    try:
        # The handle is of the process that has the pid now: make sure that it is still the same.
        if one not in find():
            return True
        for number, seconds in GRACE:
            signal.pidfd_send_signal(handle, number)
            if _ends_within(handle, seconds):
                return True
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(handle)
    return False


def _ends_within(handle: int, seconds: float) -> bool:
    """Wait for a process to end; return whether it did in time."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(InterruptedError):
            if select.select([handle], [], [], left)[0]:
                return True
    return False
