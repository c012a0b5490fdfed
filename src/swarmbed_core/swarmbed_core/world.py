"""What every world gives: time, truth, and the raw parts of its robots.

A world advances in steps of its own; whoever holds it steps the robots' Onboards in between. Nothing
that decides looks at `truth()`: it is for transducers, plots and tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.device import Device
    from swarmbed_core.geometry import FloatArray


class World(Protocol):
    """Owner of time and truth."""

    @property
    def time(self) -> float:
        """Return seconds since the start of the world."""
        ...

    @property
    def timestep(self) -> float:
        """Return the seconds that one `step()` takes of the world's time."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Return the robots' names, in the order of `truth()`."""
        ...

    def step(self) -> None:
        """Let one time step pass."""
        ...

    def truth(self) -> FloatArray:
        """Return a row for each robot: x, y, yaw in `map`, vx, vy along its body, omega."""
        ...

    def device(self, name: str) -> Device:
        """Return the parts of the robot called `name`."""
        ...
