"""One core for two processes of which only one works at a time.

Whoever asks waits until whoever is asked has answered. On cores of their own each question and each answer
would wake a core that sleeps, which on virtual machines takes as long as the physics does.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path


class SharedCore:
    """A core for this thread and a process, as long as no other pair of ours has it."""

    def __init__(self, process: int) -> None:
        """Move both there; where no core is free, or it is not allowed, they stay where they are."""
        self._before = os.sched_getaffinity(0)
        self._claim: socket.socket | None = None
        here = _core_now()
        for core in sorted(self._before, key=lambda core: (core != here, core)):
            claim = socket.socket(socket.AF_UNIX)
            try:
                # A name without a file, free again when this process ends, however it ends.
                claim.bind(f"\0swarmbed-core-{core}")
            except OSError:
                claim.close()
                continue
            self._claim = claim
            with contextlib.suppress(OSError):
                for thread in Path(f"/proc/{process}/task").iterdir():
                    with contextlib.suppress(OSError):
                        os.sched_setaffinity(int(thread.name), {core})
                os.sched_setaffinity(0, {core})
            return

    def close(self) -> None:
        """Let this thread go where it was allowed to, and others have the core."""
        if self._claim is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._before)
            self._claim.close()
            self._claim = None


def _core_now() -> int:
    """Return the core that this thread is on."""
    fields = Path("/proc/thread-self/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1]
    return int(fields.split()[36])
