"""One core for two processes of which only one works at a time.

Whoever asks waits until whoever is asked has answered. On cores of their own each question and each answer
would wake a core that sleeps, which on virtual machines takes as long as the physics does.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path


class _Held(threading.local):
    """What a thread has: its core, for how many processes, and where it was allowed to be before."""

    claim: socket.socket | None = None
    core = 0
    pairs = 0
    before: frozenset[int] = frozenset()


_held = _Held()


class SharedCore:
    """A core for this thread and a process; no other thread of ours has it, but all that this one asks do."""

    def __init__(self, process: int) -> None:
        """Move both there; where no core is free, or it is not allowed, they stay where they are."""
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
        """With the last of its processes, let this thread go where it was allowed to before."""
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
    """Take a core for this thread, if one is free: the one that it is on, or another."""
    allowed, here = os.sched_getaffinity(0), _core_now()
    for core in sorted(allowed, key=lambda core: (core != here, core)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            # A name without a file, free again when this process ends, however it ends.
            claim.bind(f"\0swarmbed-core-{core}")
        except OSError:
            claim.close()
            continue
        _held.claim, _held.core, _held.before = claim, core, frozenset(allowed)
        return


def _core_now() -> int:
    """Return the core that this thread is on."""
    fields = Path("/proc/thread-self/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1]
    return int(fields.split()[36])
