"""Ctrl-C and SIGTERM: they end a run, but not the writing of its results.

The first signal ends the computation. While results are written, a signal only prints a message. The third
signal ends the process at once. Timeouts and containers send SIGTERM, some of them twice within microseconds;
such a burst counts as one signal.
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
"""Number of the signal that ends the process in any case."""
BURST = 0.5
"""Seconds within which several signals count as one."""
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
BUSY = b"swarmbed: the results are being written; the third signal ends the process at once\n"


class Interrupts:
    """Handles signals within a `with` block, in the main thread, unless they already have another handler.

    Attributes:
        received: the first signal, None if there was none.
        held: whether signals are only recorded, to protect an operation that must be completed.
        writing: whether results are being written; signals then print a message instead.
    """

    def __init__(self, *, terminate: bool = False) -> None:
        """Prepare; signals are handled from the `with` block on.

        Args:
            terminate: whether to handle SIGTERM as well as Ctrl-C.
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
        """Install the handlers."""
        if threading.current_thread() is not threading.main_thread():
            return self
        # Background jobs of a shell ignore Ctrl-C, and a sweep's workers leave it to their parent.
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
        """Restore the default handlers."""
        for number in self._caught:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
        self._caught.clear()

    @property
    def possible(self) -> bool:
        """Return whether a KeyboardInterrupt may come from a signal; otherwise a program raised it."""
        return self.received is not None or self._foreign

    @property
    def name(self) -> str:
        """Return the name of the received signal, for messages."""
        return NAMES[self.received or signal.SIGINT]

    @property
    def status(self) -> int:
        """Return the exit status for the received signal: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + (self.received or signal.SIGINT)

    def _catch(self, number: signal.Signals) -> None:
        signal.signal(number, self._on)
        self._caught.append(number)

    def _on(self, number: int, _: FrameType | None) -> None:
        """Handle a signal."""
        now = time.monotonic()
        if now - self._last < BURST:
            return
        self._last = now
        self._count += 1
        self.received = self.received or signal.Signals(number)
        if self._count >= PATIENCE:
            # No cleanup handlers, which could block: what is on the disk by now stays.
            os._exit(128 + number)
        if self.writing:
            with contextlib.suppress(OSError):
                os.write(2, BUSY)
        elif not self.held:
            raise KeyboardInterrupt
