"""What goes wrong in this package."""

from swarmbed_sim.errors import SimError


class GazeboError(SimError):
    """Gazebo is not here, does not start, or has died."""
