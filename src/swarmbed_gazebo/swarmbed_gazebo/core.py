"""Pins two processes that run in lock-step to one core.

Only one of them works at a time, because the client waits for each answer of the server. On separate cores,
each request and each answer would wake a sleeping core. On virtual machines, this takes as long as the
physics.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path


class _Held(threading.local):
    """A thread's claim: its core, the number of processes that share it, and its previous affinity."""

    claim: socket.socket | None = None
    core = 0
    pairs = 0
    before: frozenset[int] = frozenset()


_held = _Held()


class SharedCore:
    """A core shared by this thread and its simulators; no other thread of Swarmbed claims the same core."""

    def __init__(self, process: int) -> None:
        """Pin this thread and the process; does nothing if no core is free or pinning is not permitted."""
        if _held.claim is None:
            _claim()
        self._open = _held.claim is not None
        if self._open:
            _held.pairs += 1
            with contextlib.suppress(OSError):
                for thread in Path(f"/proc/{process}/task").iterdir():
                    with contextlib.suppress(OSError):
                        os.sched_setaffinity(int(thread.name), {_held.core})
                os.sched_setaffinity(0, {_held.core})

    def close(self) -> None:
        """Restore this thread's affinity when the last of its processes is closed."""
        if not self._open:
            return
        self._open = False
        _held.pairs -= 1
        if _held.pairs == 0 and _held.claim is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, _held.before)
            _held.claim.close()
            _held.claim = None


def _claim() -> None:
    """Claim a free core for this thread, preferably the current one."""
    allowed, here = os.sched_getaffinity(0), _core_now()
    for core in sorted(allowed, key=lambda core: (core != here, core)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            # An abstract socket name: the kernel frees it however this process ends.
            claim.bind(f"\0swarmbed-core-{core}")
        except OSError:
            claim.close()
            continue
        _held.claim, _held.core, _held.before = claim, core, frozenset(allowed)
        return


def _core_now() -> int:
    """Return the core that this thread runs on."""
    fields = Path("/proc/thread-self/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1]
    return int(fields.split()[36])
