"""Standard output and error that may be closed, full or gone, or that cannot show a character.

What a command does must not depend on who reads what it says: a run goes on when `head` has seen enough. What
cannot be written is dropped, and why is kept until the command has ended.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

import rich.console

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Console(rich.console.Console):
    """A console that shows texts as they are: titles, paths and messages are not markup."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        """Write to standard output, or to standard error."""
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)


class Sink(io.RawIOBase):
    """A file descriptor that takes everything.

    Attributes:
        error: why it could not write, if it could not; from then on it drops what it gets.
    """

    def __init__(self, descriptor: int) -> None:
        """Write to a descriptor that is open."""
        self.error: OSError | None = None
        self._descriptor = descriptor

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Buffer, /) -> int:
        """Write as much as goes; say that it was all if nothing goes any more."""
        while self.error is None:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError as error:
                self.error = error
        return len(memoryview(data))


def guard() -> Sink | None:
    """Let standard output and error take everything from now on; return output's sink.

    Those of a test stay as they are, and there is no sink then.
    """
    # Else the next file that is opened would be standard output.
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(sys.stderr, Sink(2), by_line=True)
    if sys.stdout is not sys.__stdout__:
        return None
    sink = Sink(1)
    sys.stdout = _text(sys.stdout, sink, by_line=sink.isatty())
    return sink


def _text(before: TextIO | None, sink: Sink, *, by_line: bool) -> TextIO:
    """Return a text stream over a sink, in the encoding of the one before it."""
    if before is not None:
        before.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(sink),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=by_line,
    )
