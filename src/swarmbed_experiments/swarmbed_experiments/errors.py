"""Errors of experiments; the command line prints them without a traceback."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from swarmbed_core.errors import SwarmbedError, message_of

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class RunError(SwarmbedError):
    """A run that cannot start, or whose results cannot be written."""


def make(who: str, call: Callable[..., T], *arguments: object) -> T:
    """Return what the constructor of somebody's program gives for some arguments.

    Raises:
        RunError: it raises what is no error of ours, or wants to exit.
    """
    try:
        return call(*arguments)
    except (SwarmbedError, KeyboardInterrupt):
        raise
    except BaseException as error:
        message = f"{who} cannot be made: {cause_of(error)}"
        raise RunError(message) from error


def cause_of(error: BaseException) -> str:
    """Return an error with the line that it comes from, which is the last one of a program's own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "site-packages" not in frame.filename] or list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {message_of(error)}{where}"
