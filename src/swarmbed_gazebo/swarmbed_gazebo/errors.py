"""What goes wrong in this package."""

from swarmbed_sim.errors import SimError


class GazeboError(SimError):
    """Gazebo is not here, does not start, or has died."""


class CrashError(GazeboError):
    """A simulator has crashed: it died of a signal such as SIGSEGV, which another start may not see again."""
