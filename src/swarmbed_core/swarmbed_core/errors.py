"""Every error that core raises.

An error here reaches a person: it names the value, where it came from and what would be right.
What reaches a robot's loop from outside is not raised but refused and counted (`swarmbed_core.health`).
"""

from __future__ import annotations


class SwarmbedError(Exception):
    """Base of all errors of Swarmbed: catch it to catch them all."""


class ConfigError(SwarmbedError):
    """A file of the user's, or of config/, cannot be used as it is."""


class PathError(SwarmbedError):
    """A path that no robot may be asked to follow."""


class MarkerError(SwarmbedError):
    """A marker map or a camera that is not what it claims to be."""


class MapError(SwarmbedError):
    """A collision map, or a question to one, that makes no sense."""
