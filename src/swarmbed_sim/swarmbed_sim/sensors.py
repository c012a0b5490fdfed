"""Sensors whose readings programs get as they are, in groups: one kernel call for all robots that have one.

A `SimWorld` steps a list of `PartGroup`s. A `Sensors` group serves the robots that were added to it, each
with its own generator of noise. Crowds use the same groups for all their robots, with one generator, and
read them in their own time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from swarmbed_core.device import SensorReading

from swarmbed_sim.parts import Beat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Positioning

    from swarmbed_sim.parts import Inventory, Life
    from swarmbed_sim.physics import IntArray, Physics

NONE = np.empty((0, 0))
"""Errors without noise."""


class PartGroup(Protocol):
    """The parts of one kind of all robots that have it, as arrays.

    Attributes:
        beat: when the next measurement is due.
    """

    beat: Beat

    def measure(self, now: float, physics: Physics, inventory: Inventory) -> None:
        """Take a measurement with every part."""
        ...

    def remove(self, row: int) -> None:
        """Remove a robot's part, if it has one, and decrement the rows after it."""
        ...


class Chance:
    """The noise of the robots of a group: of one generator for all, or of one for each."""

    def __init__(self, rngs: Sequence[np.random.Generator] = (), *, common: bool = False) -> None:
        """Draw from these generators, one per robot; or from the only one, if it is `common`; or nothing."""
        self.rngs = list(rngs)
        self._common = common

    @classmethod
    def common(cls, rng: np.random.Generator | None) -> Chance:
        """Return the noise of one generator for all robots; with None, there is none."""
        return cls(() if rng is None else (rng,), common=True)

    def within(self, most: float, shape: tuple[int, int]) -> FloatArray:
        """Return uniform errors of up to ±`most`, a row per robot; an empty array without noise."""
        if not self.rngs or most == 0.0:
            return NONE
        if self._common:
            return most * (2.0 * self.rngs[0].random(shape) - 1.0)
        return most * (2.0 * np.array([rng.random(shape[1]) for rng in self.rngs]) - 1.0)

    def normal(self, sigma: float, firsts: IntArray, columns: int) -> FloatArray | None:
        """Return normal errors, the rows `firsts[k]` to `firsts[k + 1]` for robot k; None without noise."""
        if not self.rngs or sigma == 0.0:
            return None
        if self._common:
            return sigma * self.rngs[0].standard_normal((int(firsts[-1]), columns))
        counts = np.diff(firsts).tolist()
        drawn = [rng.standard_normal((n, columns)) for rng, n in zip(self.rngs, counts, strict=True)]
        return sigma * np.concatenate(drawn)


NO_CHANCE = Chance()


class Sensors:
    """One kind of sensor on all robots that have it; a `PartGroup`.

    Attributes:
        beat: its clock.
        rows: of the robots.
        chance: their noise.
        values: the newest reading of each.
    """

    def __init__(self, rate: float, *, noise: bool) -> None:
        """Start without robots."""
        # So that programs, which tick ten times a second, get fresh readings.
        self.beat = Beat(rate, whole=True)
        self.rows = np.empty(0, dtype=np.int64)
        self.chance = Chance()
        self.values: list[FloatArray] = []
        self._noisy = noise
        self._parts: list[Sensor] = []

    def add(self, robot: Life, rng: np.random.Generator) -> Sensor:
        """Add a robot; return its part."""
        part = Sensor(robot, self, len(self.rows))
        self.rows = np.append(self.rows, robot.row)
        self._parts.append(part)
        if self._noisy:
            self.chance.rngs.append(rng)
        return part

    def remove(self, row: int) -> None:
        """Remove a robot, if it is here, and decrement the rows after it."""
        for k in np.flatnonzero(self.rows == row).tolist():
            self.rows = np.delete(self.rows, k)
            # Slices, because robots added after the last measurement have no values yet.
            for some in (self._parts, self.values, self.chance.rngs):
                del some[k : k + 1]
        for k, part in enumerate(self._parts):
            part.k = k
        self.rows[self.rows > row] -= 1

    def measure(self, now: float, physics: Physics, inventory: Inventory) -> None:
        """Take a measurement for every robot."""
        self.values = self.readings(now, physics, inventory)

    def readings(self, now: float, physics: Physics, inventory: Inventory) -> list[FloatArray]:
        """Return new arrays, one for each robot."""
        raise NotImplementedError


class Sensor:
    """The sensor of one robot: a `SensorPart`.

    Attributes:
        k: its index in its group.
    """

    __slots__ = ("_robot", "_seen", "_sensors", "k")

    def __init__(self, robot: Life, sensors: Sensors, k: int) -> None:
        """Bind to index `k` of a group."""
        self._robot = robot
        self._sensors = sensors
        self._seen = sensors.beat.count
        self.k = k

    def read(self) -> SensorReading | None:
        """Return the latest reading, or None if it was already returned."""
        sensors, robot = self._sensors, self._robot
        beat = sensors.beat
        fresh = self._seen != beat.count and robot.on and robot.row >= 0
        self._seen = beat.count
        return SensorReading(beat.stamp, sensors.values[self.k]) if fresh else None


class Positions(Sensors):
    """Sensors of the position in `map`."""

    def __init__(self, positioning: Positioning, *, noise: bool) -> None:
        """Start without robots."""
        super().__init__(positioning.rate, noise=noise)
        self._sigma = positioning.sigma

    def sense(self, poses: FloatArray, chance: Chance) -> FloatArray:
        """Return the measured x, y of robots at these poses."""
        places: FloatArray = poses[:, :2].copy()
        if self._sigma > 0.0 and chance.rngs:
            errors = chance.normal(self._sigma, np.arange(len(poses) + 1), 2)
            if errors is not None:
                places += errors
        return places

    def readings(self, now: float, physics: Physics, inventory: Inventory) -> list[FloatArray]:  # noqa: ARG002
        """Return the measured x, y of each robot."""
        return list(self.sense(physics.poses[self.rows], self.chance))
