"""Errors of the nodes; each `main` prints them without a traceback."""

from __future__ import annotations

from swarmbed_core.errors import SwarmbedError


class RobotError(SwarmbedError):
    """A node cannot start, or an input is invalid."""
