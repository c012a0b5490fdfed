"""A robot's parts without the robot: they live in a world of their own that keeps pace with this machine.

It lets the `onboard` node run where there is no hardware: to try it, to test it, and to measure it.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from swarmbed_core.arena import Arena
from swarmbed_core.errors import ConfigError
from swarmbed_core.memory import MemoryWorld, Placement

if TYPE_CHECKING:
    from collections.abc import Callable

    from swarmbed_core.device import Device
    from swarmbed_core.spec import RobotSpec

LONGEST = 0.5
"""Seconds that the world catches up at most: who slept longer finds that no more time has passed."""


class LiveClock:
    """The clock of a world that is stepped, whenever somebody reads it, to where this machine's clock is."""

    def __init__(self, world: MemoryWorld, machine: Callable[[], float] = time.monotonic) -> None:
        """Start now."""
        self._world = world
        self._machine = machine
        self._start = machine() - world.time

    @property
    def time(self) -> float:
        """Return seconds since the start."""
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
    """Return the parts of a virtual robot in the middle of an arena.

    Raises:
        ConfigError: there is no such arena.
    """
    if not name:
        message = "a robot without a name: give it one, such as dots1"
        raise ConfigError(message)
    world = MemoryWorld([Placement(name, spec)], Arena.load(arena), seed=1)
    return replace(world.device(name), clock=LiveClock(world))
