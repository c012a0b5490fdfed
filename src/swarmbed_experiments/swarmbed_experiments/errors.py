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
"""Names of the objects being constructed; a program that hangs there is reported by this name."""


FULL = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)
"""Errors that keep a file from being written in any directory."""


class RunError(SwarmbedError):
    """A command or a run cannot start, or cannot write its results to the requested place."""


class FailedError(RunError):
    """A command or a run failed although its input is valid."""

    status: ClassVar[int] = 1


def unwritable(file: Path, error: OSError) -> RunError:
    """Return the exception for a file that cannot be written: `FailedError` if no other place would help."""
    kind = FailedError if error.errno in FULL else RunError
    return kind(f"{file}: cannot be written ({error.strerror or error})")


def make(who: str, call: Callable[..., T], *arguments: object) -> T:
    """Call the constructor of a user's program, and return the object.

    Raises:
        RunError: it raises an exception other than ours, or calls exit.
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
    """Return an error's text with its source line, the innermost one outside site-packages."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{described(error)}{where}"
