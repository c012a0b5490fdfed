"""Errors of robots outside the simulation."""

from swarmbed_core.errors import SwarmbedError


class RealityError(SwarmbedError):
    """A robot, part, clock or tracker outside the simulation cannot be used."""
