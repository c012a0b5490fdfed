"""Errors of experiments; the command line prints them without a traceback."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from swarmbed_core.errors import FOREIGN, SwarmbedError, described

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
being_made: list[str] = []
"""Who is being made: what hangs there is named by it."""


FULL = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)
"""What keeps a file from being written in any directory."""


class RunError(SwarmbedError):
    """A command or a run that cannot start, or whose results cannot be written where they are asked for."""


class FailedError(RunError):
    """Something failed though there is nothing wrong with the input."""

    status: ClassVar[int] = 1


def unwritable(file: Path, error: OSError) -> RunError:
    """Return what to raise when a file cannot be written, by whether another place would help."""
    kind = FailedError if error.errno in FULL else RunError
    return kind(f"{file}: cannot be written ({error.strerror or error})")


def make(who: str, call: Callable[..., T], *arguments: object) -> T:
    """Return what the constructor of somebody's program gives for some arguments.

    Raises:
        RunError: it raises what is no error of ours, or wants to exit.
    """
    being_made.append(who)
    try:
        return call(*arguments)
    except (SwarmbedError, KeyboardInterrupt):
        raise
    except FOREIGN as error:
        message = f"{who} cannot be made: {cause_of(error)}"
        raise RunError(message) from error
    finally:
        being_made.pop()


def cause_of(error: BaseException) -> str:
    """Return an error with the line that it comes from, which is the last one of a program's own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{described(error)}{where}"
