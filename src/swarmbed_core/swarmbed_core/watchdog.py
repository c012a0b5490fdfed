"""Deadlines on a clock that somebody hands in: watchdogs that stop things, paces that let things happen.

`power_en` has to be repeated, which a `Watchdog` watches; the time-out of velocity commands is motion
control's. None of this reads a clock of its own; `now` is the world's time in seconds.
"""

from __future__ import annotations

import math

from swarmbed_core.errors import ConfigError
from swarmbed_core.health import Health

# Sums of decimal fractions miss the limit by a rounding error; a nanosecond forgives it.
TOLERANCE = 1e-9


class Watchdog:
    """Expired until fed, and again when the last feed is older than the timeout.

    At the timeout exactly it has not expired. A clock that steps backwards cannot tell the age of
    anything, so the watchdog counts it and stays expired until it is fed again.
    """

    __slots__ = ("_fed_at", "_latest", "health", "name", "timeout")

    def __init__(self, timeout: float, name: str = "watchdog", health: Health | None = None) -> None:
        """Make one that was never fed.

        Args:
            timeout: seconds that a feed lasts.
            name: what it guards, for the counters.
            health: where to count; its own if none is given.

        Raises:
            ConfigError: the timeout is not a positive number.
        """
        if not (timeout > 0 and math.isfinite(timeout)):
            message = f"{name}: timeout {timeout} must be a positive number of seconds"
            raise ConfigError(message)
        self.timeout = timeout
        self.name = name
        self.health = Health() if health is None else health
        self._fed_at: float | None = None
        self._latest = -math.inf

    def fed(self, now: float) -> bool:
        """Feed it; return whether the time was one that counts."""
        if not self._clock_is_sane(now):
            return False
        self._fed_at = now
        return True

    def expired(self, now: float) -> bool:
        """Return whether what it guards has to stop."""
        if not self._clock_is_sane(now):
            self._fed_at = None
        return self._fed_at is None or now - self._fed_at > self.timeout + TOLERANCE

    def _clock_is_sane(self, now: float) -> bool:
        """Follow the clock; on a step backwards forget the feed, for its age is unknown."""
        if not math.isfinite(now):
            self.health.refuse("watchdog.clock_not_finite", f"{self.name}: time {now} must be finite")
            return False
        if now < self._latest:
            went = f"time went from {self._latest} to {now}"
            self.health.refuse("watchdog.clock_backwards", f"{self.name}: {went}")
            self._fed_at = None
        self._latest = now
        return True


class Pace:
    """Says when something periodic is due, at a mean rate that does not drift with the caller's steps."""

    __slots__ = ("_from", "_next", "_until", "period")

    def __init__(self, rate: float) -> None:
        """Make one that is due at once; `rate` is per second."""
        if not (rate > 0 and math.isfinite(rate)):
            message = f"rate {rate} must be a positive number per second"
            raise ConfigError(message)
        self.period = 1.0 / rate
        self._next = self._from = self._until = -math.inf

    def due(self, now: float) -> bool:
        """Return whether it is time, and if so wait for the next."""
        # After a step of the clock back the plan is void: nothing may wait for a time that was.
        if self._from <= now < self._until or not math.isfinite(now):
            return False
        late = now < self._from or now - self._next >= self.period - TOLERANCE
        self._next = when = (now if late else self._next) + self.period
        self._from, self._until = when - self.period - TOLERANCE, when - TOLERANCE
        return True
