"""Processes of earlier runs that are still there although whoever started them has gone.

Ours are known by what they run: an executable of this workspace's installation, or a simulator or screen that
was started for a world of it. Only those of this user count, and only those whose parent has died. A process
whose shell, launch file or `swarmbed up` still runs is in use and is left alone.
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
"""Executables that run until somebody ends them, by package; `swarmbed` itself ends by itself."""
GAZEBO = "/swarmbed-gazebo-"
"""In the command line of what `swarmbed_gazebo` starts: the directory that it makes for each server."""
PLUGIN = "swarmbed_gazebo_plugin"
REAPERS = frozenset({"systemd", "init", "tini", "dumb-init"})
"""Programs that take over processes whose parents have died."""
GRACE = ((signal.SIGINT, 8.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0))
"""How processes are ended: with which signals, and the seconds that each is given."""


@dataclass(frozen=True)
class Found:
    """A process of ours.

    Attributes:
        pid: its number.
        started: when it started, in ticks since the machine did: numbers are used again, this is not.
        what: what it runs.
        domain: its ROS domain.
        orphaned: whether whoever started it has gone.
    """

    pid: int
    started: int
    what: str
    domain: str
    orphaned: bool


def find() -> list[Found]:
    """Return the processes of this workspace that run now, those left behind and those in use."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            # What ends meanwhile is not there; what belongs to others cannot be read.
            with contextlib.suppress(OSError, ValueError, IndexError):
                one = _of(entry)
                if one is not None:
                    found.append(one)
    return sorted(found, key=lambda one: one.pid)


def _of(entry: Path) -> Found | None:
    if entry.stat().st_uid != os.getuid():
        return None
    # Behind the name, which may have any characters: state, parent, group, session; the 20th is the start.
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
    """Return what a process of ours runs, None if it is not ours."""
    # A script's interpreter comes before it.
    for word in words[:3]:
        for package, names in NODES.items():
            program = Path(word)
            if program.name in names and program.parent == _lib(package):
                return " ".join([program.name, *words[words.index(word) + 1 :]]).strip()[:100]
    ours = _lib(PLUGIN)
    if any(GAZEBO in word for word in words) and ours is not None:
        lib = str(ours.parent)
        if any(lib in pair for pair in environment):
            return f"{Path(words[0]).name} (of a world gazebo)"
    return None


def _lib(package: str) -> Path | None:
    """Return where the executables of a package of this workspace are."""
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        return Path(get_package_prefix(package)) / "lib" / package
    except PackageNotFoundError:
        return None


def _is_orphan(parent: int, session: int) -> bool:
    """Return whether the process that started another one has gone."""
    if parent == 1:
        # In a container a shell may be the first process: what it started is of its session.
        return session != 1
    with contextlib.suppress(OSError):
        return (PROC / str(parent) / "comm").read_text(encoding="utf-8").strip() in REAPERS
    return True


def end(processes: Sequence[Found]) -> Iterator[tuple[Found, bool]]:
    """End processes, each with the gentlest signal that it obeys; yield each and whether it has ended."""
    for one in processes:
        yield one, _end(one)


def _end(one: Found) -> bool:
    try:
        handle = os.pidfd_open(one.pid)
    except ProcessLookupError:
        return True
    try:
        # The handle is of the process that has the number now: make sure that it is still the same.
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
    """Wait for the end of a process; return whether it came."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        with contextlib.suppress(InterruptedError):
            if select.select([handle], [], [], left)[0]:
                return True
    return False
