"""The lifting platform: the ramp of its set-point and a model of its servo (Table I, III-A9).

A step of the set-point jams the platform in a carrier's tray, so `LifterControl` ramps it: a full travel
takes `travel_time`. `LifterModel` is the virtual servo in worlds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from swarmbed_core.device import LifterReading
from swarmbed_core.errors import ConfigError
from swarmbed_core.health import Health

if TYPE_CHECKING:
    from swarmbed_core import spec

# [s] One update moves the set-point no further than in this time, however long the loop was delayed.
LONGEST_STEP: Final = 0.1
# A platform within this share of the travel from an end has arrived.
ARRIVED: Final = 0.02


class _Ramp:
    """A height that moves towards a target at a bounded rate."""

    __slots__ = ("height", "latest", "rate")

    def __init__(self, height: float, rate: float) -> None:
        self.height = height
        self.rate = rate
        self.latest: float | None = None

    def advance(self, now: float, target: float, longest: float = math.inf) -> None:
        """Move towards the target for the time since the last call, limited to 0..`longest`."""
        passed = 0.0 if self.latest is None else min(max(now - self.latest, 0.0), longest)
        self.latest = now
        gap, reach = target - self.height, self.rate * passed
        # The sum of steps misses the target by a rounding error, which would cost another step.
        arrives = abs(gap) <= reach * (1 + 1e-9)
        self.height = target if arrives else self.height + math.copysign(reach, gap)


class LifterControl:
    """Turns raise and lower commands into a ramped set-point."""

    __slots__ = ("_measured", "_ramp", "_target", "health", "lifter")

    def __init__(
        self, lifter: spec.Lifter, height: float | None = None, health: Health | None = None
    ) -> None:
        """Start at the platform's height.

        Args:
            lifter: the spec's heights, time and load.
            height: current height of the platform in metres; lowered if unknown.
            health: counts rejected inputs; by default a new one.
        """
        self.lifter = lifter
        self.health = Health() if health is None else health
        start = lifter.lowered if height is None or not math.isfinite(height) else height
        self._ramp = _Ramp(self._begin_at(start), (lifter.raised - lifter.lowered) / lifter.travel_time)
        self._target: float | None = None
        self._measured: float | None = None

    def command(self, up: bool, load: float | None = None) -> bool:
        """Raise or lower the platform. Repeating a command has no effect.

        Args:
            up: True raises, False lowers.
            load: load on the platform in kg, if known.

        Returns:
            Whether the command is accepted: a load that is too heavy is not raised.
        """
        if up and load is not None and not 0 <= load <= self.lifter.max_load:
            limit = self.lifter.max_load
            self.health.refuse("lifter.load", f"load {load} kg must be within 0..{limit} kg to be raised")
            if self._target == self.lifter.raised:
                self._target = None
            return False
        self._target = self.lifter.raised if up else self.lifter.lowered
        return True

    def hold(self) -> None:
        """Hold the current set-point until the next command."""
        self._target = None

    def update(self, now: float, height: float | None = None, *, powered: bool = True) -> float:
        """Return the set-point for this time.

        A power cut cancels the command and holds the set-point. The platform does not move again until the
        next command.

        Args:
            now: the clock's time.
            height: measured height of the platform, if there is a measurement.
            powered: whether the servo has power.
        """
        if not math.isfinite(now):
            self.health.refuse("lifter.clock", f"time {now} must be finite")
            return self._ramp.height
        if self._ramp.latest is not None and now < self._ramp.latest:
            self.health.refuse("lifter.clock", f"time went back from {self._ramp.latest} to {now}")
        if height is not None:
            self._measure(height)
        if not powered:
            self._target = None
        ramp, target = self._ramp, self._target
        if target is None or target == ramp.height:
            ramp.latest = now
        else:
            ramp.advance(now, target, LONGEST_STEP)
        return ramp.height

    @property
    def set_point(self) -> float:
        """Return the current set-point, a height in metres."""
        return self._ramp.height

    @property
    def target(self) -> float | None:
        """Return the commanded end height, None if the platform holds its height."""
        return self._target

    @property
    def at_top(self) -> bool:
        """Return whether the platform is raised: by set-point and, if there is one, by measurement."""
        return self._is_at(self.lifter.raised)

    @property
    def at_bottom(self) -> bool:
        """Return whether the platform is lowered: by set-point and, if there is one, by measurement."""
        return self._is_at(self.lifter.lowered)

    @property
    def moving(self) -> bool:
        """Return whether the set-point is still moving."""
        return self._target is not None and self._ramp.height != self._target

    def _measure(self, height: float) -> None:
        if not math.isfinite(height):
            self.health.refuse("lifter.height", f"measured height {height} must be finite")
            return
        if self._ramp.latest is None:
            # The platform may be anywhere at the start: the ramp starts there, so that there is no step.
            self._ramp.height = self._begin_at(height)
        self._measured = height

    def _begin_at(self, height: float) -> float:
        """Return the initial set-point for a measured height: the nearby end, if there is one."""
        lowered, raised = self.lifter.lowered, self.lifter.raised
        end = next((end for end in (lowered, raised) if self._is_close(height, end)), height)
        return min(max(end, lowered), raised)

    def _is_close(self, height: float, end: float) -> bool:
        return abs(height - end) <= ARRIVED * (self.lifter.raised - self.lifter.lowered)

    def _is_at(self, end: float) -> bool:
        measured = self._ramp.height if self._measured is None else self._measured
        return self._ramp.height == end and self._is_close(measured, end)


class LifterModel:
    """A virtual platform: follows its set-point at its own rate, and does not raise too heavy a load.

    It is a `LifterPart`; the world that owns it calls `step`.
    """

    __slots__ = ("_asked", "_ramp", "health", "lifter")

    def __init__(self, lifter: spec.Lifter, rate: float | None = None, health: Health | None = None) -> None:
        """Start lowered.

        Args:
            lifter: the spec's heights, time and load.
            rate: maximum speed in m/s; by default twice that of the control's ramp, an assumption.
            health: counts rejected inputs; by default a new one.

        Raises:
            ConfigError: the rate is not a positive number.
        """
        fastest = 2 * (lifter.raised - lifter.lowered) / lifter.travel_time if rate is None else rate
        if not (fastest > 0 and math.isfinite(fastest)):
            message = f"lifter rate {rate} must be a positive number of m/s"
            raise ConfigError(message)
        self.lifter = lifter
        self.health = Health() if health is None else health
        self._asked = lifter.lowered
        self._ramp = _Ramp(lifter.lowered, fastest)

    def move(self, height: float) -> None:
        """Set the height in metres above the floor, clamped to the travel."""
        if not math.isfinite(height):
            self.health.refuse("lifter.set_point", f"set-point {height} must be finite")
            return
        self._asked = min(max(height, self.lifter.lowered), self.lifter.raised)

    def step(self, now: float, load: float = 0.0, *, powered: bool = True) -> None:
        """Move for the time since the last call, with a load in kg; without power the height stays."""
        if not math.isfinite(now):
            self.health.refuse("lifter.clock", f"time {now} must be finite")
            return
        # False for a NaN load too.
        can_rise = load <= self.lifter.max_load
        held = not powered or (self._asked > self._ramp.height and not can_rise)
        self._ramp.advance(now, self._ramp.height if held else self._asked)

    def read(self) -> LifterReading:
        """Return the newest height."""
        return LifterReading(stamp=self._ramp.latest or 0.0, height=self._ramp.height)
