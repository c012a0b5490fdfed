"""How the e-puck2's battery runs down: the four models of "Design and analysis of an E-Puck2 robot plug-in".

Each takes the time and the way of a step and the charge before it, and gives the charge after it, for whole
arrays of robots: algorithms 1 to 4 of the paper's appendix. The simple one has the paper's slopes. The others
are fitted to discharges that were measured at 0 to 16 cm/s; the paper shows those but gives no numbers, so
the points here (`measured`) are made up: they have its slopes, the least autonomy at 5 cm/s and the next
greatest at 14 cm/s, and curves that are steep at first and at the end.

As printed, algorithms 2 to 4 interpolate from the wrong side where the faster robot's charge is the lesser;
here the lower speed counts for 1 - w and the higher one for w in both cases.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

REST: Final = -5.064963e-05
MOVING: Final = -8.699124e-05
"""Shares of a full charge a second, m0 and m1 (3.7)."""
SPEEDS: Final = 17
"""Speeds in whole cm/s for which there are curves: 0 to 16."""
SEGMENTS: Final = 4
"""Of an approximated curve."""
POINTS: Final = 40
"""Measurements of a discharge: assumed."""
SPREAD: Final = 0.03
"""Of the measurements about their curve: assumed."""
LOWEST: Final = 5
SECOND: Final = 14
"""Speeds of the least autonomy, and of the greatest of a robot that moves (4.1.7)."""


class Discharge(Protocol):
    """A model."""

    def __call__(self, seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the charges after a step in which robots went so far, 0 for an empty battery."""
        ...


def autonomies() -> FloatArray:
    """Return the seconds that a charge lasts at each of the speeds: made up, see the module's text."""
    speeds = np.arange(SPEEDS)
    falls = np.interp(speeds, [1, LOWEST], [1.25, 0.75])
    rises = np.interp(speeds, [LOWEST, SECOND, SPEEDS - 1], [0.75, 1.2, 1.0])
    lasts = np.where(speeds < LOWEST, falls, rises)
    lasts *= -1.0 / (MOVING * lasts[1:16].mean())
    lasts[0] = -1.0 / REST
    return lasts


@cache
def measured(seed: int = 1) -> tuple[FloatArray, FloatArray]:
    """Return times and charges of discharges, a row for each speed: made up, see the module's text."""
    share = np.linspace(0.0, 1.0, POINTS)
    # Steep at first, then slow, and steep again at the end.
    level = 1.0 - 0.28 * (1.0 - np.exp(-share / 0.06)) - 0.27 * share - 0.45 * share**7
    rng = np.random.default_rng(seed)
    noise = SPREAD * rng.standard_normal((SPEEDS, POINTS))
    noise[:, 0] = 0.0
    charges = np.clip(level + noise, 0.0, 1.0)
    times = autonomies()[:, None] * share
    return times, charges


def simple(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Run down at one rate at rest and at another one in motion: algorithm 1."""
    return np.maximum(charge + np.where(metres == 0, REST, MOVING) * seconds, 0.0)


def _between(seconds: float, metres: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the speeds on both sides, as indices, and how near the higher one is."""
    speed = np.clip(100.0 * np.abs(metres) / seconds, 0.0, SPEEDS - 1)
    low = np.floor(speed)
    return low.astype(np.int64), np.ceil(speed).astype(np.int64), speed - low


@cache
def _slopes() -> FloatArray:
    """Return the slopes of straight lines from a full charge, fitted to the measurements."""
    times, charges = measured()
    slopes: FloatArray = (times * (charges - 1.0)).sum(axis=1) / (times * times).sum(axis=1)
    return slopes


def linear(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Run down at a rate for each speed: algorithm 2."""
    low, high, near = _between(seconds, metres)
    slopes = _slopes()
    slope = (1.0 - near) * slopes[low] + near * slopes[high]
    after: FloatArray = np.maximum(charge + slope * seconds, 0.0)
    return after


@cache
def cubics() -> FloatArray:
    """Return third-order polynomials of the share of the autonomy, fitted to the measurements."""
    times, charges = measured()
    share = times / autonomies()[:, None]
    return np.array([np.polynomial.polynomial.polyfit(x, y, 3) for x, y in zip(share, charges, strict=True)])


def _level(curves: FloatArray, share: FloatArray) -> FloatArray:
    """Return the values of cubics."""
    a, b, c, d = np.moveaxis(curves, -1, 0)
    level: FloatArray = a + share * (b + share * (c + share * d))
    return level


def _share(curves: FloatArray, charge: FloatArray) -> FloatArray:
    """Return where cubics that fall from 0 to 1 have a value: by halving, which always ends."""
    low, high = np.zeros_like(charge), np.ones_like(charge)
    for _ in range(40):
        middle = 0.5 * (low + high)
        above = _level(curves, middle) > charge
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return 0.5 * (low + high)


def cubic(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Go along a third-order curve for each speed: algorithm 3."""
    low, high, near = _between(seconds, metres)
    lasts = autonomies()
    after = []
    for which in (low, high):
        curves = cubics()[which]
        share = _share(curves, charge) + seconds / lasts[which]
        after.append(np.where(share >= 1.0, 0.0, _level(curves, share)))
    return _mixed(after, near, charge)


def _mixed(after: list[FloatArray], near: FloatArray, charge: FloatArray) -> FloatArray:
    """Return charges between those of two speeds, none of them more than before."""
    mixed: FloatArray = np.clip((1.0 - near) * after[0] + near * after[1], 0.0, charge)
    return mixed


@cache
def _segments() -> tuple[FloatArray, FloatArray]:
    """Return the charges at the ends of the segments of each curve, and their slopes in charge a second."""
    share = np.linspace(0.0, 1.0, SEGMENTS + 1)
    levels = np.array([_level(np.broadcast_to(curve, (len(share), 4)), share) for curve in cubics()])
    slopes = np.diff(levels, axis=1) / (autonomies()[:, None] / SEGMENTS)
    return levels, slopes


def approximated(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Go along four straight lines for each speed: algorithm 4."""
    low, high, near = _between(seconds, metres)
    levels, slopes = _segments()
    after = []
    for which in (low, high):
        # Ends between two segments belong to the next.
        k = (charge[:, None] <= levels[which][:, 1:SEGMENTS]).sum(axis=1)
        after.append(charge + slopes[which, k] * seconds)
    return _mixed(after, near, charge)


MODELS: Final[dict[str, Discharge]] = {
    "simple": simple,
    "linear": linear,
    "cubic": cubic,
    "approximated": approximated,
}


def courses(model: Discharge, speeds: FloatArray, seconds: float, step: float = 10.0) -> FloatArray:
    """Return full batteries' charges, a row for each step and a column for each speed in cm/s."""
    metres = 0.01 * speeds * step
    rows = [np.ones(len(speeds))]
    for _ in range(round(seconds / step)):
        rows.append(model(step, metres, rows[-1]))
    return np.array(rows)


def errors(step: float = 10.0) -> dict[str, float]:
    """Return the mean squared errors of the models over all measured discharges: Table 5."""
    times, charges = measured()
    speeds = np.arange(SPEEDS - 1, dtype=np.float64)
    found = {}
    for name, model in MODELS.items():
        rows = courses(model, speeds, float(times.max()) + step, step)
        at = step * np.arange(len(rows))
        off = [np.interp(times[k], at, rows[:, k]) - charges[k] for k in range(len(speeds))]
        found[name] = float(np.mean(np.square(off)))
    return found
