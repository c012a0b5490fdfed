"""Errors of the worlds of this package."""

from __future__ import annotations

from typing import ClassVar

from swarmbed_core.errors import SwarmbedError


class SimError(SwarmbedError):
    """A request that a world cannot fulfil."""


class MachineError(SimError):
    """This machine lacks what a world needs."""

    status: ClassVar[int] = 1
