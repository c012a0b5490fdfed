"""Detects programs that hang, and reports which one and in which line.

A `Watch` is a thread that checks the main thread four times a second. If the world's time stands still for
longer than a tick may take, or the whole job takes too long, it reports which part of the run is being
computed, and where. A call into compiled code that never releases the GIL starves that thread; a CPU timer
then ends the process, and faulthandler writes the line.

`limited` raises the report in the main thread, for a run in the foreground; workers of sweeps report and exit
(`swarmbed_experiments.runs.workers`).
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
from swarmbed_experiments.runs.origins import is_library, is_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType
    from typing import IO

    from swarmbed_experiments.runs.run import Run

TICK_LIMIT = 60.0
"""Default wall time limit in seconds for a tick: programs may compile code or load a model in one."""
WORLD = 10.0
"""Factor on the tick limit for worlds: simulators have their own limits for starting."""
LOOK = 0.25
"""Seconds between two checks."""
LONGEST = 1.0
"""Most seconds counted between two checks: time while the whole process is stopped does not count."""
GRACE = 5.0
"""Seconds that the main thread has to react to a report."""
AT_WORK = ("/pdb.py", "/bdb.py", "/pydevd.py", "/_pydevd_bundle/", "/numba/core/compiler")
"""Parts of file names in which time does not count: debuggers, and the compiler of kernels."""
_LINE = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')


class Stuck(BaseException):
    """Raised in a program that hangs; no `Exception`, so that programs do not catch it by accident."""


@dataclass(frozen=True)
class Limits:
    """Limits of wall time in seconds; None for no limit.

    Attributes:
        tick: limit for one step of the world with all programs.
        run: limit for the whole run, or for any other job.
    """

    tick: float | None = TICK_LIMIT
    run: float | None = None

    @property
    def shortest(self) -> float | None:
        """Return the lower of the limits, None if there is none."""
        return min((seconds for seconds in (self.tick, self.run) if seconds is not None), default=None)


@dataclass(frozen=True)
class CodeLine:
    """A line of a program."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.line}, in {self.name}"


_runs: list[weakref.ref[Run]] = []
"""The run created last, if any."""


def attend(run: Run) -> None:
    """Register the run that this process computes."""
    _runs[:] = [weakref.ref(run)]


def now() -> tuple[str, float | None]:
    """Return the name of what is being computed, and the world's time, None if there is no world yet."""
    run = _runs[0]() if _runs else None
    if errors.being_made:
        return errors.being_made[-1], None
    if run is None:
        return "getting the run ready", None
    # The run is registered before its world is created.
    world, runner = run.__dict__.get("world"), run.__dict__.get("runner")
    if runner is not None and (runner.stands or runner.waits):
        # The world's time stands still because somebody asked for it.
        return "waiting", time.monotonic()
    return run.now, None if world is None else world.time


class Watch:
    """Watches the main thread within a `with` block.

    Attributes:
        over: set when watching has ended.
    """

    def __init__(
        self, tell: Callable[[str], None], limits: Limits, last_words: IO[Any] | None = None
    ) -> None:
        """Prepare; watching begins with the `with` block.

        Args:
            tell: called at most once, in the watching thread, with a text that says what hangs and where.
            limits: time limits.
            last_words: open file for the traceback of a hang in compiled code, which SIGPROF ends. Without
                it, such hangs are not detected.
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
        """Start watching."""
        if self._cpu and self._file is not None:
            # After the dump, SIGPROF's default action ends the process.
            faulthandler.register(signal.SIGPROF, self._file, all_threads=True, chain=True)
        self._rearm()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self.over.set()
        self._thread.join(GRACE)
        if self._cpu and self._file is not None:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            faulthandler.unregister(signal.SIGPROF)

    def _rearm(self) -> None:
        """Restart the CPU timer, which ends the process if this thread is starved."""
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
        """Check after some more seconds; return what hangs and where, empty if nothing does."""
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
    """Raise `Stuck` in the main thread when a program of the run hangs.

    If the program catches even `Stuck`, the process ends with a message. Outside the main thread this does
    nothing.
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
    """Turn a hang before the run into an error.

    Raises:
        FailedError: a program hangs; the message says which and where.
    """
    try:
        with limited(limits):
            yield
    except Stuck as stuck:
        raise FailedError(str(stuck)) from None


def _stderr() -> IO[Any] | None:
    """Return stderr for the traceback of a hang in compiled code, None if it has no file descriptor."""
    try:
        sys.__stderr__.fileno()  # type: ignore[union-attr]
    except (AttributeError, OSError, ValueError):
        return None
    return sys.__stderr__


# Where


def frames_of(frame: FrameType | None) -> list[CodeLine]:
    """Return the lines of a thread's stack, the innermost first."""
    found = []
    while frame is not None:
        found.append(CodeLine(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
        frame = frame.f_back
    return found


def frames_in(dump: str) -> list[CodeLine]:
    """Return the stack of the current thread in a dump of faulthandler, or else of the main thread."""
    threads: list[list[CodeLine]] = []
    current: list[CodeLine] | None = None
    for line in dump.splitlines():
        if line.startswith(("Thread 0x", "Current thread 0x", "Stack (")):
            threads.append([])
            if line.startswith("Current"):
                current = threads[-1]
        elif (match := _LINE.match(line)) and threads:
            threads[-1].append(CodeLine(match["file"], int(match["line"]), match["name"]))
    if current:
        return current
    # The main thread comes last.
    return next((frames for frames in reversed(threads) if frames), [])


def where(frames: Iterable[CodeLine]) -> str:
    """Return the innermost line of the user's code; without one, the innermost of ours, or of any code."""
    every = list(frames)
    ours = [place for place in every if not is_library(place.file)]
    theirs = [place for place in ours if not is_ours(place.file)]
    best = theirs or ours or every
    return str(best[0]) if best else "somewhere"
