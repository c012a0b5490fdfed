"""Errors of experiments; the command line prints them without a traceback."""

from __future__ import annotations

from swarmbed_core.errors import SwarmbedError


class RunError(SwarmbedError):
    """A run that cannot start, or whose results cannot be written."""
