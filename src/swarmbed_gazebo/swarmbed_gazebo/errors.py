"""What goes wrong in this package."""

from typing import ClassVar

from swarmbed_sim.errors import SimError


class GazeboError(SimError):
    """Gazebo is not here, does not start, or has died."""

    status: ClassVar[int] = 1


class CrashError(GazeboError):
    """A simulator has crashed: it died of a signal such as SIGSEGV, which another start may not see again."""


class OutputError(GazeboError):
    """A file that is to be written cannot be."""

    status: ClassVar[int] = 2
