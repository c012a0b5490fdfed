"""Ctrl-C and SIGTERM: they end a run, but not the writing of what it has found.

The first signal ends what is computed. While results are written, signals only say so; the third ends the
process at once. Time-outs and containers send SIGTERM, some of them twice within microseconds: that is one.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

PATIENCE = 3
"""The signal that ends the process whatever it does."""
BURST = 0.5
"""Seconds within which several signals count as one."""
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
BUSY = b"swarmbed: the results are being written; once more ends it at once\n"


class Interrupts:
    """Catches signals while it is entered, in the main thread, where nobody else has asked for them.

    Attributes:
        received: the first signal, None if there was none.
        held: whether signals are only noted, because something must not be left half done.
        writing: whether results are being written; signals are then held too.
    """

    def __init__(self, *, terminate: bool = False) -> None:
        """Get ready.

        Args:
            terminate: whether SIGTERM is caught too, and not Ctrl-C alone.
        """
        self.received: signal.Signals | None = None
        self.held = False
        self.writing = False
        self._count = 0
        self._last = -math.inf
        self._foreign = False
        self._caught: list[signal.Signals] = []
        self._terminate = terminate

    def __enter__(self) -> Self:
        """Begin to catch."""
        if threading.current_thread() is not threading.main_thread():
            return self
        # What a shell starts in the background ignores Ctrl-C; a sweep's workers leave it to their parent.
        before = signal.getsignal(signal.SIGINT)
        if before == signal.default_int_handler:
            self._catch(signal.SIGINT)
        self._foreign = callable(before) and not self._caught
        if self._terminate and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            self._catch(signal.SIGTERM)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let signals do again what they did."""
        for number in self._caught:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
        self._caught.clear()

    @property
    def possible(self) -> bool:
        """Return whether a KeyboardInterrupt may come from a signal, and not only from a program itself."""
        return self.received is not None or self._foreign

    @property
    def name(self) -> str:
        """Return what was received, for people."""
        return NAMES[self.received or signal.SIGINT]

    @property
    def status(self) -> int:
        """Return the exit status of a process that this ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.received or signal.SIGINT)

    def _catch(self, number: signal.Signals) -> None:
        signal.signal(number, self._on)
        self._caught.append(number)

    def _on(self, number: int, _: FrameType | None) -> None:
        """Take a signal."""
        now = time.monotonic()
        if now - self._last < BURST:
            return
        self._last = now
        self._count += 1
        self.received = self.received or signal.Signals(number)
        if self._count >= PATIENCE:
            # Without locks and handlers of anybody: what is on the disk by now stays.
            os._exit(128 + number)
        if self.writing:
            with contextlib.suppress(OSError):
                os.write(2, BUSY)
        elif not self.held:
            raise KeyboardInterrupt
