"""Timers without a clock of their own: watchdogs that expire, and paces for periodic work.

The caller passes `now`, the world's time in seconds. A `Watchdog` monitors the heartbeat `power_en`; motion
control has its own timeout for velocity commands.
"""

from __future__ import annotations

import math

from swarmbed_core.errors import ConfigError
from swarmbed_core.health import Health

# Sums of decimal fractions miss the limit by rounding errors; a nanosecond of tolerance absorbs them.
TOLERANCE = 1e-9


class Watchdog:
    """Expired until fed, and again when the last feed is older than the timeout.

    At exactly the timeout it has not expired. After a backwards step of the clock the age of the last feed
    is unknown, so the watchdog counts the step and stays expired until it is fed again.
    """

    __slots__ = ("_fed_at", "_latest", "health", "name", "timeout")

    def __init__(self, timeout: float, name: str = "watchdog", health: Health | None = None) -> None:
        """Create an expired watchdog.

        Args:
            timeout: seconds that a feed lasts.
            name: what it guards, for messages.
            health: counters of refused inputs; a new one if None.

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
        """Feed the watchdog; return False if the time is not finite."""
        if not self._clock_is_sane(now):
            return False
        self._fed_at = now
        return True

    def expired(self, now: float) -> bool:
        """Return whether the guarded activity must stop."""
        if not self._clock_is_sane(now):
            self._fed_at = None
        return self._fed_at is None or now - self._fed_at > self.timeout + TOLERANCE

    def _clock_is_sane(self, now: float) -> bool:
        """Track the clock; after a backwards step drop the last feed, because its age is unknown."""
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
    """Tells when periodic work is due, at a mean rate that does not drift with the caller's steps."""

    __slots__ = ("_from", "_next", "_until", "_whole", "period")

    def __init__(self, rate: float, *, whole: bool = False) -> None:
        """Create a pace that is due at once.

        Args:
            rate: per second.
            whole: whether later times are whole multiples of the period.
        """
        if not (rate > 0 and math.isfinite(rate)):
            message = f"rate {rate} must be a positive number per second"
            raise ConfigError(message)
        self.period = 1.0 / rate
        self._whole = whole
        self._next = self._from = self._until = -math.inf

    def due(self, now: float) -> bool:
        """Return whether the work is due, and if so schedule the next time."""
        # After a backwards step of the clock the schedule is void: the old next time may be far ahead.
        if self._from <= now < self._until or not math.isfinite(now):
            return False
        late = now < self._from or now - self._next >= self.period - TOLERANCE
        last = now if late else self._next
        if late and self._whole:
            last = math.floor((now + TOLERANCE) / self.period) * self.period
        self._next = when = last + self.period
        self._from, self._until = when - self.period - TOLERANCE, when - TOLERANCE
        return True
