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

import math
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from swarmbed_core.kernel import kernel

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


@cache
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


@kernel
def simple_k(seconds: float, metres: FloatArray, charge: FloatArray, out: FloatArray) -> None:
    """Write the charges after a step: algorithm 1."""
    for i in range(metres.shape[0]):
        out[i] = max(charge[i] + (REST if metres[i] == 0.0 else MOVING) * seconds, 0.0)


@kernel
def _speed_k(seconds: float, metres: float) -> float:
    """Return a speed in cm/s, within those that there are curves for."""
    return min(100.0 * abs(metres) / seconds, SPEEDS - 1.0)


@kernel
def linear_k(
    seconds: float, metres: FloatArray, charge: FloatArray, slopes: FloatArray, out: FloatArray
) -> None:
    """Write the charges after a step: algorithm 2."""
    for i in range(metres.shape[0]):
        speed = _speed_k(seconds, metres[i])
        low, high = math.floor(speed), math.ceil(speed)
        near = speed - low
        slope = (1.0 - near) * slopes[low] + near * slopes[high]
        out[i] = max(charge[i] + slope * seconds, 0.0)


@kernel
def _level_k(curve: FloatArray, share: float) -> float:
    """Return the value of a cubic."""
    return float(curve[0] + share * (curve[1] + share * (curve[2] + share * curve[3])))


@kernel
def _share_k(curve: FloatArray, charge: float) -> float:
    """Return where a cubic that falls from 0 to 1 has a value.

    By its tangents, and by halves where they lead out of what is left: that always ends.
    """
    low, high, share = 0.0, 1.0, 0.5
    for _ in range(60):
        off = _level_k(curve, share) - charge
        if off > 0.0:
            low = share
        else:
            high = share
        slope = curve[1] + share * (2.0 * curve[2] + share * 3.0 * curve[3])
        to = share - off / slope if slope != 0.0 else low
        if not low < to < high:
            to = 0.5 * (low + high)
        if abs(to - share) < 1e-12:
            return to
        share = to
    return share


@kernel
def cubic_k(
    seconds: float,
    metres: FloatArray,
    charge: FloatArray,
    curves: FloatArray,
    lasts: FloatArray,
    out: FloatArray,
) -> None:
    """Write the charges after a step: algorithm 3."""
    for i in range(metres.shape[0]):
        speed = _speed_k(seconds, metres[i])
        low, high = math.floor(speed), math.ceil(speed)
        near = speed - low
        mixed = 0.0
        for which, weight in ((low, 1.0 - near), (high, near)):
            if weight > 0.0:
                share = _share_k(curves[which], charge[i]) + seconds / lasts[which]
                mixed += weight * (_level_k(curves[which], share) if share < 1.0 else 0.0)
        out[i] = min(max(mixed, 0.0), charge[i])


@kernel
def approximated_k(
    seconds: float,
    metres: FloatArray,
    charge: FloatArray,
    levels: FloatArray,
    slopes: FloatArray,
    out: FloatArray,
) -> None:
    """Write the charges after a step: algorithm 4."""
    for i in range(metres.shape[0]):
        speed = _speed_k(seconds, metres[i])
        low, high = math.floor(speed), math.ceil(speed)
        near = speed - low
        mixed = 0.0
        for which, weight in ((low, 1.0 - near), (high, near)):
            # Ends between two segments belong to the next.
            k = 0
            while k < SEGMENTS - 1 and charge[i] <= levels[which, k + 1]:
                k += 1
            mixed += weight * (charge[i] + slopes[which, k] * seconds)
        out[i] = min(max(mixed, 0.0), charge[i])


def simple(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Run down at one rate at rest and at another one in motion: algorithm 1."""
    after = np.empty(len(charge))
    simple_k(seconds, metres, charge, after)
    return after


@cache
def _slopes() -> FloatArray:
    """Return the slopes of straight lines from a full charge, fitted to the measurements."""
    times, charges = measured()
    slopes: FloatArray = (times * (charges - 1.0)).sum(axis=1) / (times * times).sum(axis=1)
    return slopes


def linear(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Run down at a rate for each speed: algorithm 2."""
    after = np.empty(len(charge))
    linear_k(seconds, metres, charge, _slopes(), after)
    return after


@cache
def cubics() -> FloatArray:
    """Return third-order polynomials of the share of the autonomy, fitted to the measurements."""
    times, charges = measured()
    share = times / autonomies()[:, None]
    return np.array([np.polynomial.polynomial.polyfit(x, y, 3) for x, y in zip(share, charges, strict=True)])


def cubic(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Go along a third-order curve for each speed: algorithm 3."""
    after = np.empty(len(charge))
    cubic_k(seconds, metres, charge, cubics(), autonomies(), after)
    return after


@cache
def _segments() -> tuple[FloatArray, FloatArray]:
    """Return the charges at the ends of the segments of each curve, and their slopes in charge a second."""
    share = np.linspace(0.0, 1.0, SEGMENTS + 1)
    levels = np.array([np.polynomial.polynomial.polyval(share, curve) for curve in cubics()])
    slopes = np.diff(levels, axis=1) / (autonomies()[:, None] / SEGMENTS)
    return levels, slopes


def approximated(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Go along four straight lines for each speed: algorithm 4."""
    after = np.empty(len(charge))
    approximated_k(seconds, metres, charge, *_segments(), after)
    return after


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
