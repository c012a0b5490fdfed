"""Translation between the stamps of another machine's clock and ours, from the messages between both.

Each message bounds the offset of the clocks. One that leaves here at `t` and arrives there at `r` says that
the other clock was at most `r - t` ahead, because the message took some time. One from there to here gives a
lower bound in the same way. The fastest messages give the closest bounds, and the middle between them is the
offset if the fastest ones take equally long in both directions, however many others are slow or lost. The
filter estimates the line that keeps farthest from the bounds on both sides: offset and difference of the
rates. The middles of blocks of a few seconds, each by itself, show whether the clock was set or the network
changed; in the latter case the line goes through them.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

BIN = 0.25
"""Of the messages of so many seconds only the fastest one in each direction is kept."""
BINS = 20
"""Number of bins of a block; each block gives one offset."""
WINDOW = 120.0
"""Seconds of messages that are used."""
MOST_SKEW = 500e-6
"""Largest difference of the clocks' rates. Those of quartz clocks are up to 200 ppm."""
USUAL_SKEW = 100e-6
"""Standard deviation of the rates' difference, as long as the messages say little about it."""
REFIT, YOUNG = 1.0, 0.1
"""The line is fitted every second, and before that after this share of the messages' time."""
FEWEST = 5
"""Messages in each direction from which on the offset is known."""
SUSPECTS = 3
"""Consecutive messages beyond the opposite bounds, or blocks beside the line, after which a clock was set."""
CERTAIN = 2e-3
"""Least seconds by which they are beyond or beside it ..."""
SIGNIFICANT = 8.0
"""... and, of blocks, the least multiple of their error."""
SLOW = 0.3
"""Share of the blocks, those with slower messages, that are left out."""
TRIED = 33
"""Differences of the rates that are tried at once ..."""
ROUNDS = 4
"""... how often at most, each time closer to the likely ones ..."""
UNLIKELY, ENOUGH = 8.0, 10
"""... which are those with a logarithm of the likelihood that is less by at most this; more than so many
are enough."""
NEAR = 0.25
"""Share of the bounds, the closest ones, that tell how close others may come."""
ROUNDING = 1e-6
"""Least error of a bound in seconds."""
FLOOR = 5e-5
"""Least error of a block's offset in seconds."""


class _Line(NamedTuple):
    """An offset that changes with time."""

    origin: float
    offset: float
    skew: float
    error: float = 0.0
    skew_error: float = 0.0

    def at(self, time: float) -> float:
        """Return the offset at a time of ours."""
        return self.offset + self.skew * (time - self.origin)


class _Blocks(NamedTuple):
    """Offsets of blocks of messages: times, offsets, their errors, and half the distances of the bounds."""

    times: FloatArray
    offsets: FloatArray
    errors: FloatArray
    margins: FloatArray


class _Bounds:
    """The best bounds from the messages in one direction, one per bin; those from below have sign -1."""

    def __init__(self, sign: float) -> None:
        self.sign = sign
        self.points: deque[tuple[int, float, float]] = deque()
        self.suspects: list[tuple[float, float]] = []
        self.count = 0
        self.first = math.inf

    def add(self, at: float, value: float) -> None:
        """Keep a bound if it is the best of its bin."""
        self.count += 1
        self.first = min(self.first, at)
        points, number = self.points, math.floor(at / BIN)
        if points and points[-1][0] == number:
            if self.sign * (value - points[-1][2]) < 0:
                points[-1] = (number, at, value)
        else:
            points.append((number, at, value))
        while points[0][1] < at - WINDOW:
            points.popleft()


class ClockFilter:
    """Estimates how far another clock is ahead of ours, and how much faster it runs.

    Attributes:
        steps: how often the other clock was set.
        refused: number of stamps that were not finite or contradicted the others.
    """

    def __init__(self) -> None:
        """Create a filter without messages."""
        self.steps = 0
        self.refused = 0
        self._restart()

    def _restart(self) -> None:
        self._upper, self._lower = _Bounds(1.0), _Bounds(-1.0)
        self._line = _Line(0.0, 0.0, 0.0)
        self._margin = math.inf
        self._fitted = -math.inf

    def outward(self, sent: float, received_there: float) -> None:
        """Add a message from here to there: stamps of our clock and of the other clock."""
        self._add(self._upper, sent, received_there - sent)

    def inward(self, sent_there: float, received: float) -> None:
        """Add a message from there to here: stamps of the other clock and of our clock."""
        self._add(self._lower, received, sent_there - received)

    @property
    def known(self) -> bool:
        """Return whether there were enough messages in both directions."""
        return min(self._upper.count, self._lower.count) >= FEWEST

    @property
    def skew(self) -> float:
        """Return by how much the other clock is faster: at 1e-4 it gains 100 microseconds per second."""
        return self._line.skew

    @property
    def margin(self) -> float:
        """Return how long the fastest messages take in seconds, which bounds the error of the offset."""
        return self._margin

    def offset(self, time: float) -> float:
        """Return how far the other clock is ahead at a time of ours; NaN if unknown."""
        return self._line.at(time) if self.known else math.nan

    def there(self, time: float) -> float:
        """Return what the other clock shows at a time of ours; NaN if unknown."""
        return time + self.offset(time)

    def here(self, stamp: float) -> float:
        """Return our time at which the other clock shows a stamp; NaN if unknown."""
        if not self.known:
            return math.nan
        line = self._line
        return line.origin + (stamp - line.origin - line.offset) / (1.0 + line.skew)

    def _add(self, bounds: _Bounds, at: float, value: float) -> None:
        """Add a bound. If several in a row contradict the bounds of the other direction, start anew."""
        if not (math.isfinite(at) and math.isfinite(value)):
            self.refused += 1
            return
        if self.known and bounds.sign * (value - self._line.at(at)) < -self._margin - CERTAIN:
            self.refused += 1
            bounds.suspects.append((at, value))
            if len(bounds.suspects) >= SUSPECTS:
                self.steps += 1
                suspects, upper = bounds.suspects, bounds is self._upper
                self._restart()
                for suspect in suspects:
                    (self._upper if upper else self._lower).add(*suspect)
            return
        bounds.suspects.clear()
        bounds.add(at, value)
        oldest = max(self._upper.first, self._lower.first)
        if self.known and at >= self._fitted + min(YOUNG * (at - oldest), REFIT):
            self._fitted = at
            self._fit()

    def _fit(self) -> None:
        """Fit the line to the offsets of all blocks. If the newest are beside it, fit it to these only."""
        blocks = self._blocks()
        if not len(blocks.times):
            return
        self._line = self._between(blocks)
        self._margin = float(blocks.margins[-SUSPECTS:].min())
        if len(blocks.times) < 3 * SUSPECTS:
            return
        older, newest = (
            _Blocks(*(part[some] for part in blocks)) for some in (slice(-SUSPECTS), slice(-SUSPECTS, None))
        )
        line = line_of(older)
        apart = newest.times - line.origin
        beside = newest.offsets - line.offset - line.skew * apart
        errors = newest.errors + line.error + line.skew_error * np.abs(apart)
        allowed = np.maximum(CERTAIN, SIGNIFICANT * errors)
        if (beside > allowed).all() or (beside < -allowed).all():
            self.steps += 1
            first = newest.times[0] - BINS * BIN / 2
            for bounds in (self._upper, self._lower):
                bounds.points = deque(point for point in bounds.points if point[1] >= first)
            self._line = self._between(self._blocks())

    def _between(self, blocks: _Blocks) -> _Line:
        """Return the line between the bounds; if the network changed, the one through the blocks."""
        best = blocks.margins.argmin()
        slow = blocks.margins > blocks.margins[best] + SIGNIFICANT * (blocks.errors + blocks.errors[best])
        if np.count_nonzero(slow) > SLOW * len(slow):
            return line_of(blocks)
        numbers = blocks.times // (BINS * BIN)
        sides = []
        for bounds in (self._upper, self._lower):
            points = np.array(bounds.points).T
            number = points[0] // BINS
            sides.append(points[1:, np.isin(number, numbers[~slow]) | (number > numbers[-1])])
        return line_between(sides[0], sides[1], self._line.skew)

    def _blocks(self) -> _Blocks:
        """Return the offsets of the blocks with messages in both directions."""
        origin, skew = self._line.origin, self._line.skew
        found: list[dict[int, FloatArray]] = []
        for bounds in (self._upper, self._lower):
            points = np.array(bounds.points).reshape(-1, 3)
            # Within a block, the bounds must not be compared with the drift in them.
            flat = points[:, 2] - skew * (points[:, 1] - origin)
            numbers = points[:, 0].astype(np.int64) // BINS
            starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
            parts = np.split(bounds.sign * flat, starts[1:])
            found.append(dict(zip(numbers[starts].tolist(), parts, strict=True)))
        upper, lower = found
        both = sorted(upper.keys() & lower.keys())
        # Blocks of few bins do not tell how much the delays vary.
        full = [number for number in both if min(len(upper[number]), len(lower[number])) > BINS // 2]
        rows = []
        for number in full or both:
            above, below = upper[number], lower[number]
            # The fastest of some messages is slower than the fastest possible one by about as much.
            top_error, bottom_error = (
                max(float(part.mean() - part.min()) / max(len(part) - 1, 1), FLOOR) for part in (above, below)
            )
            top, bottom = above.min() - top_error, bottom_error - below.min()
            time = (number + 0.5) * BINS * BIN
            drift = skew * (time - origin)
            error = 0.5 * math.hypot(top_error, bottom_error)
            rows.append((time, (top + bottom) / 2 + drift, error, (above.min() + below.min()) / 2))
        return _Blocks(*np.array(rows).reshape(-1, 4).T)


def line_of(blocks: _Blocks) -> _Line:
    """Return the line with the least squared, weighted distances from the blocks' offsets."""
    times, offsets, errors, _ = blocks
    weights = 1.0 / errors**2
    total = weights.sum()
    time, offset = float(weights @ times / total), float(weights @ offsets / total)
    apart = times - time
    inertia = (weights * apart) @ apart + USUAL_SKEW**-2
    skew = float((weights * apart) @ (offsets - offset) / inertia)
    skew_error = float(1.0 / math.sqrt(inertia))
    return _Line(time, offset, min(max(skew, -MOST_SKEW), MOST_SKEW), 1.0 / math.sqrt(total), skew_error)


def line_between(upper: FloatArray, lower: FloatArray, guess: float = 0.0) -> _Line:
    """Return the likely line between bounds from above and from below.

    How far the bounds are beyond those of the fastest possible messages is distributed exponentially, near
    these. So the farther a line is from both, the more likely it is.

    Args:
        upper: times and values of the bounds from above, 2 x n.
        lower: those from below.
        guess: difference of the rates, as far as it is known.
    """
    origin = float(np.concatenate((upper[0], lower[0])).mean())
    low, high = -MOST_SKEW, MOST_SKEW
    for _ in range(ROUNDS):
        skews = np.linspace(low, high, TRIED)
        score = -0.5 * (skews / USUAL_SKEW) ** 2
        offset = np.zeros(TRIED)
        for sign, (times, values) in ((1.0, upper), (-1.0, lower)):
            apart = times - origin
            edge = (sign * (values - skews[:, np.newaxis] * apart)).min(axis=1)
            flat = np.sort(sign * (values - guess * apart))
            near = int(NEAR * len(flat))
            scale = max(float(flat[near] - flat[0]) / (-math.log1p(-NEAR) * len(flat)), ROUNDING)
            score += edge / scale
            offset += 0.5 * sign * (edge - scale)
        score -= score.max()
        likely = np.flatnonzero(score > -UNLIKELY)
        weights = np.exp(score)
        weights /= weights.sum()
        guess = float(weights @ skews)
        if len(likely) > ENOUGH:
            break
        low, high = skews[max(likely[0] - 1, 0)], skews[min(likely[-1] + 1, TRIED - 1)]
    return _Line(origin, float(weights @ offset), guess)
