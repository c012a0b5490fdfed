"""Errors of the worlds of this package."""

from __future__ import annotations

from typing import ClassVar

from swarmbed_core.errors import SwarmbedError


class SimError(SwarmbedError):
    """A world that cannot do what is asked."""


class MachineError(SimError):
    """This machine lacks what a world needs."""

    status: ClassVar[int] = 1
