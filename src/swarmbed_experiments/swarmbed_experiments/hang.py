"""Programs that do not return: which one hangs, and in which line.

A `Watch` is a thread that looks at the main thread four times a second. If the world's time stands still for
longer than a tick may take, or the whole job takes too long, it reports which part of the run is being
computed, and where. A call into compiled code that never releases the interpreter starves that thread; a
timer of the processor's time then ends the process, and faulthandler writes the line.

`limited` raises the report in the main thread, for a run in the foreground; workers of sweeps report and exit
(`swarmbed_experiments.workers`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from swarmbed_experiments import errors
from swarmbed_experiments.errors import FailedError
from swarmbed_experiments.origins import is_library, is_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType
    from typing import IO

    from swarmbed_experiments.runner import Run

TICK_LIMIT = 60.0
"""Default limit in seconds of wall time for a tick: programs may compile code or load a model in one."""
WORLD = 10.0
"""As many times longer may a world take: simulators that start have limits of their own."""
LOOK = 0.25
"""Seconds between two looks."""
LONGEST = 1.0
"""What counts of the time between two looks at most: while a process is stopped, no program is slow."""
GRACE = 5.0
"""Seconds that the main thread is given to take the report."""
AT_WORK = ("/pdb.py", "/bdb.py", "/pydevd.py", "/_pydevd_bundle/", "/numba/core/compiler")
"""Time in files with such names does not count: debuggers, and the compiler of kernels."""
_LINE = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')


class Stuck(BaseException):
    """A program does not come back: raised in it, and no `except Exception` of its own catches it."""


@dataclass(frozen=True)
class Limits:
    """How many seconds of wall time things may take; None for as long as they like.

    Attributes:
        tick: one step of the world with all programs.
        run: the whole run, or any other job.
    """

    tick: float | None = TICK_LIMIT
    run: float | None = None

    @property
    def shortest(self) -> float | None:
        """Return the lower of the limits."""
        return min((seconds for seconds in (self.tick, self.run) if seconds is not None), default=None)


@dataclass(frozen=True)
class Place:
    """A line of a program."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.line}, in {self.name}"


_runs: list[weakref.ref[Run]] = []
"""The last one that was made."""


def attend(run: Run) -> None:
    """Take note of the run that this process computes."""
    _runs[:] = [weakref.ref(run)]


def now() -> tuple[str, float | None]:
    """Return what is being computed, and the time of the world."""
    run = _runs[0]() if _runs else None
    if errors.being_made:
        return errors.being_made[-1], None
    if run is None:
        return "getting the run ready", None
    # Its world comes after it.
    world = run.__dict__.get("world")
    return run.now, None if world is None else world.time


class Watch:
    """Watches what the main thread does from `with` on, until its end.

    Attributes:
        over: set when there is nothing to watch any more.
    """

    def __init__(
        self, tell: Callable[[str], None], limits: Limits, last_words: IO[Any] | None = None
    ) -> None:
        """Get ready.

        Args:
            tell: is told once, in a thread of its own, what hangs where.
            limits: what is too long.
            last_words: an open file, for what hangs in compiled code: this process then ends with SIGPROF.
        """
        self.over = threading.Event()
        self._tell = tell
        self._limits = limits
        self._file = last_words
        self._main = threading.main_thread()
        self._cpu = limits.shortest or 0.0
        self._last: tuple[str, float | None] = ("", None)
        self._total = self._still = 0.0
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        if self._cpu and self._file is not None:
            # Its default, which ends the process, follows the dump.
            faulthandler.register(signal.SIGPROF, self._file, all_threads=True, chain=True)
        self._rearm()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self.over.set()
        self._thread.join(GRACE)
        if self._cpu and self._file is not None:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            faulthandler.unregister(signal.SIGPROF)

    def _rearm(self) -> None:
        """Put the end of a process that starves this thread off."""
        if self._cpu and self._file is not None:
            signal.setitimer(signal.ITIMER_PROF, self._cpu + 4 * LOOK)

    def _look(self) -> None:
        self._last = now()
        before = time.monotonic()
        while not self.over.wait(LOOK):
            self._rearm()
            clock = time.monotonic()
            found = self.look(min(clock - before, LONGEST))
            before = clock
            if found and not self.over.is_set():
                self._tell(found)
                return

    def look(self, seconds: float) -> str:
        """Return what hangs, now that some seconds more have passed; nothing, if nothing does."""
        state = now()
        who, at = state
        self._total += seconds
        self._still = self._still + seconds if state == self._last else 0.0
        self._last = state
        tick, run = self._limits.tick, self._limits.run
        hangs = tick is not None and self._still > tick * (WORLD if who.startswith("world ") else 1.0)
        if not hangs and (run is None or self._total <= run):
            return ""
        frames = frames_of(sys._current_frames().get(self._main.ident or 0))  # noqa: SLF001 - no other way
        if any(name in frame.file for frame in frames for name in AT_WORK):
            self._total = self._still = 0.0
            return ""
        if hangs:
            return f"{who} has not returned for {tick:g} s ({where(frames)})"
        reached = "" if at is None else f" at {at:.1f} s of the world's time"
        return f"the run was not over after {run:g} s{reached}, in {who} ({where(frames)})"


@contextlib.contextmanager
def limited(limits: Limits) -> Iterator[None]:
    """Raise `Stuck` in the main thread when a program of the run does not come back.

    A program that catches even that ends the process, with a message. In other threads nothing is watched.
    """
    if limits.shortest is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    text = ""

    def tell(found: str) -> None:
        nonlocal text
        text = found
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)
        if not watch.over.wait(GRACE):
            print(f"swarmbed: {found}; it cannot be interrupted", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(1)

    def interrupt(*_: object) -> None:
        if not watch.over.is_set():
            raise Stuck(text)

    before = signal.signal(signal.SIGUSR2, interrupt)
    watch = Watch(tell, limits, _stderr())
    try:
        with watch:
            try:
                yield
            finally:
                watch.over.set()
    finally:
        signal.signal(signal.SIGUSR2, before)


@contextlib.contextmanager
def getting_ready(limits: Limits) -> Iterator[None]:
    """Report what hangs before a run begins as an error.

    Raises:
        FailedError: something does, and where.
    """
    try:
        with limited(limits):
            yield
    except Stuck as stuck:
        raise FailedError(str(stuck)) from None


def _stderr() -> IO[Any] | None:
    """Return where the line of what hangs in compiled code is printed."""
    try:
        sys.__stderr__.fileno()  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):
        return None
    return sys.__stderr__


# Where


def frames_of(frame: FrameType | None) -> list[Place]:
    """Return the lines that a thread is in, the innermost first."""
    found = []
    while frame is not None:
        found.append(Place(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
        frame = frame.f_back
    return found


def frames_in(dump: str) -> list[Place]:
    """Return the lines that the main thread was in, or the one that died, by what faulthandler wrote."""
    threads: list[list[Place]] = []
    current: list[Place] | None = None
    for line in dump.splitlines():
        if line.startswith(("Thread 0x", "Current thread 0x", "Stack (")):
            threads.append([])
            if line.startswith("Current"):
                current = threads[-1]
        elif (match := _LINE.match(line)) and threads:
            threads[-1].append(Place(match["file"], int(match["line"]), match["name"]))
    if current:
        return current
    # The main thread is the last.
    return next((frames for frames in reversed(threads) if frames), [])


def where(frames: Iterable[Place]) -> str:
    """Return the innermost line that is a user's; without one, the innermost of ours, or of anything."""
    every = list(frames)
    ours = [place for place in every if not is_library(place.file)]
    theirs = [place for place in ours if not is_ours(place.file)]
    best = theirs or ours or every
    return str(best[0]) if best else "somewhere"
