"""Every error that core raises.

An error here reaches a person: it names the value, where it came from and what would be right.
What reaches a robot's loop from outside is not raised but refused and counted (`swarmbed_core.health`).
"""

from __future__ import annotations

from typing import ClassVar

FOREIGN: tuple[type[BaseException], ...] = (Exception, SystemExit, GeneratorExit)
"""What code of a user's may raise; Ctrl-C is not among them."""


class SwarmbedError(Exception):
    """Base of all errors of Swarmbed: catch it to catch them all.

    Attributes:
        status: exit status of a command that ends with it: 2 if the input has to be changed, 1 if not.
    """

    status: ClassVar[int] = 2


def message_of(error: BaseException) -> str:
    """Return what an error says, whatever its own `__str__` does."""
    try:
        return str(error)
    except BaseException as fault:  # noqa: BLE001 - somebody else's code, and any of it may be wrong
        return f"(its message cannot be shown: str() of it raises {type(fault).__name__})"


class ConfigError(SwarmbedError):
    """A file of the user's, or of config/, cannot be used as it is."""


class PathError(SwarmbedError):
    """A path that no robot may be asked to follow."""


class MarkerError(SwarmbedError):
    """A marker map or a camera that is not what it claims to be."""


class MapError(SwarmbedError):
    """A collision map, or a question to one, that makes no sense."""


def described(error: BaseException) -> str:
    """Return an error's type and message, also where its `str` raises in turn."""
    said = message_of(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
