"""Errors of this package."""

from typing import ClassVar

from swarmbed_sim.errors import SimError


class GazeboError(SimError):
    """Gazebo is not installed, does not start, or has ended."""

    status: ClassVar[int] = 1


class CrashError(GazeboError):
    """A simulator has crashed with a signal such as SIGSEGV; another start may succeed."""


class OutputError(GazeboError):
    """A file cannot be written."""

    status: ClassVar[int] = 2
