"""Ends a command although a program has left threads that may never end."""

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
"""Seconds that threads have to end by themselves."""


def left_since(known: Collection[threading.Thread]) -> list[threading.Thread]:
    """Return the unknown threads that still keep the process from ending after `GRACE`.

    Args:
        known: threads that ran before any program was loaded.
    """
    deadline = time.monotonic() + GRACE
    strangers = [thread for thread in threading.enumerate() if not (thread.daemon or thread in known)]
    for thread in strangers:
        if thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in strangers if thread.is_alive() and thread is not threading.current_thread()]


def end_now(status: int) -> None:
    """Flush the output and end this process without waiting for threads."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
