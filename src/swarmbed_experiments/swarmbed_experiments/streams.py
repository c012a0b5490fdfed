"""Standard output and error that survive closed pipes, full disks and unsupported characters.

A command must not fail because its output cannot be written: a run continues after `head` has exited. Output
that cannot be written is dropped, and the first error is kept until the command ends.
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
    """A console that prints texts literally, without interpreting markup in titles, paths and messages."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        """Write to standard output, or to standard error."""
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)


class Sink(io.RawIOBase):
    """A file descriptor whose writes never fail.

    Attributes:
        error: the first error, None if there was none. After an error, data is dropped.
    """

    def __init__(self, descriptor: int) -> None:
        """Write to an open descriptor."""
        self.error: OSError | None = None
        self._descriptor = descriptor

    def writable(self) -> bool:
        """Return True: the stream is writable."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Buffer, /) -> int:
        """Write data; return the number of bytes written, or all of them once writing has failed."""
        while self.error is None:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                select.select([], [self._descriptor], [])
            except OSError as error:
                self.error = error
        return len(memoryview(data))


def guard() -> Sink | None:
    """Replace standard output and error by streams that never fail; return the sink of standard output.

    Streams that a test has replaced are left alone. The sink is then None.
    """
    # Otherwise the next file opened would take the number of a closed descriptor and become standard output.
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
