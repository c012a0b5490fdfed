"""Simulated parts of a robot, in their own world that runs in real time.

With them, the `onboard` node runs without hardware, for trials, tests and benchmarks.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from swarmbed_core.arena import Arena
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.memory import MemoryWorld, Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from swarmbed_core.device import Clock, Device
    from swarmbed_core.spec import RobotSpec

LONGEST = 0.5
"""Maximum time that the world catches up, in seconds; longer gaps between readings are cut to it."""


class LiveClock:
    """The clock of a world; each reading steps the world to the time of this machine's clock."""

    def __init__(self, world: MemoryWorld, machine: Callable[[], float] = time.monotonic) -> None:
        """Start the clock.

        Args:
            world: the world that is stepped.
            machine: the clock to follow, in seconds.
        """
        self._world = world
        self._machine = machine
        self._start = machine() - world.time

    @property
    def time(self) -> float:
        """Step the world to the present, and return its time in seconds."""
        world, now = self._world, self._machine() - self._start
        steps = math.floor((now - world.time) / world.timestep + 1e-6)
        most = round(LONGEST / world.timestep)
        if steps > most:
            self._start += (steps - most) * world.timestep
            steps = most
        for _ in range(steps):
            world.step()
        return world.time


def make(name: str, spec: RobotSpec, arena: str = "dots_arena") -> Device:
    """Return the parts of a virtual robot at the centre of an arena.

    Raises:
        ConfigError: the arena is unknown, or the name is empty.
    """
    if not name:
        message = "the robot has no name: give it one, such as dots1"
        raise ConfigError(message)
    world = MemoryWorld([Placement(name, spec)], Arena.load(arena), seed=1)
    return replace(world.device(name), clock=LiveClock(world))


class VirtualParameters(Part):
    """Where a virtual robot is.

    Attributes:
        arena: with the walls around it, a name from worlds or a file.
    """

    arena: str = "dots_arena"


class Virtual:
    """Simulated parts in real time, in place of all others."""

    Parameters: ClassVar[type[Part]] = VirtualParameters

    @staticmethod
    def is_real(parameters: VirtualParameters) -> bool:
        """Return True: their time is this machine's."""
        del parameters
        return True

    @staticmethod
    def make(
        name: str, spec: RobotSpec, device: Device | None, clock: Clock, parameters: VirtualParameters
    ) -> Device:
        """Return the parts, with a clock of their own.

        Raises:
            ConfigError: the arena is unknown, or there are other parts.
        """
        del clock
        if device is not None:
            message = f"{name}: device virtual: makes all parts itself; name it first, and not in a scenario"
            raise ConfigError(message)
        return make(name, spec, parameters.arena)
