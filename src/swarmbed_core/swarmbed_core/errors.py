"""The errors that core raises.

They are addressed to a person: each names the value, its source and what is allowed. Invalid input to a
robot's loop raises no error: it is rejected and counted (`swarmbed_core.health`).
"""

from __future__ import annotations

from typing import ClassVar

FOREIGN: tuple[type[BaseException], ...] = (Exception, SystemExit, GeneratorExit)
"""Exceptions that are caught from users' code; KeyboardInterrupt (Ctrl-C) is not among them."""


class SwarmbedError(Exception):
    """Base class of all errors of Swarmbed.

    Attributes:
        status: exit status of a command that fails with it: 2 if the input has to be changed, else 1.
    """

    status: ClassVar[int] = 2


def message_of(error: BaseException) -> str:
    """Return an error's message, even if its `__str__` raises."""
    try:
        return str(error)
    except BaseException as fault:  # noqa: BLE001 - users' code may raise anything
        return f"(its message cannot be shown: str() of it raises {type(fault).__name__})"


class ConfigError(SwarmbedError):
    """A configuration, the user's or that of config/, is invalid."""


class NotInstalledError(ConfigError):
    """An optional package that a scenario needs is not installed."""


class PathError(SwarmbedError):
    """A path is invalid, or the robot cannot follow it."""


class MarkerError(SwarmbedError):
    """A marker map, a camera or a calibration is invalid."""


class MapError(SwarmbedError):
    """A collision map or floor plan, or a query to one, is invalid."""


def described(error: BaseException) -> str:
    """Return an error's type and message, even if its `__str__` raises."""
    said = message_of(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
