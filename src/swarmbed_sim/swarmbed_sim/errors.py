"""Errors of the worlds of this package."""

from __future__ import annotations

from swarmbed_core.errors import SwarmbedError


class SimError(SwarmbedError):
    """A world that cannot do what is asked."""
