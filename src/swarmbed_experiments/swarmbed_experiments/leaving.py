"""How a command ends whatever a program has left behind: its threads may wait for ever."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

GRACE = 0.5
"""Seconds that threads get to end by themselves."""


def left_since(known: Collection[threading.Thread]) -> list[threading.Thread]:
    """Return the threads that run, would keep the process from ending, and are not known.

    Args:
        known: those that ran before there was any program.
    """
    deadline = time.monotonic() + GRACE
    strangers = [thread for thread in threading.enumerate() if not (thread.daemon or thread in known)]
    for thread in strangers:
        if thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in strangers if thread.is_alive() and thread is not threading.current_thread()]


def end_now(status: int) -> None:
    """End this process without waiting for anybody; what was printed is seen."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
