"""Discharge of the e-puck2's battery: the four models of "Design and analysis of an E-Puck2 robot plug-in".

Each model maps the duration and distance of a step and the charge before it to the charge after it, for whole
arrays of robots: algorithms 1 to 4 of the paper's appendix. The simple model has the paper's slopes. The
others are fitted to discharge curves measured at 0 to 16 cm/s. The paper plots these without numbers, so the
points here (`measured`) are synthetic: they have the paper's slopes, the shortest autonomy at 5 cm/s, the
longest of a moving robot at 14 cm/s, and curves that are steep at the start and at the end.

As printed, algorithms 2 to 4 interpolate from the wrong side if the faster robot has the lower charge. Here
the lower speed has the weight 1 - w and the higher one w in both cases.
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
"""Slopes m0 (at rest) and m1 (moving), in shares of a full charge per second (3.7)."""
SPEEDS: Final = 17
"""Number of speeds with a curve: 0 to 16 cm/s in steps of 1 cm/s."""
SEGMENTS: Final = 4
"""Number of straight segments of an approximated curve."""
POINTS: Final = 40
"""Measurements per discharge: assumed."""
SPREAD: Final = 0.03
"""Standard deviation of the measurements about their curve: assumed."""
LOWEST: Final = 5
SECOND: Final = 14
"""Speeds, in cm/s, of the shortest autonomy and of the longest of a moving robot (4.1.7)."""


class Discharge(Protocol):
    """A discharge model."""

    def __call__(self, seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
        """Return the charges after a step of `seconds` and `metres`, as shares; 0 is an empty battery."""
        ...


@cache
def autonomies() -> FloatArray:
    """Return the autonomy in seconds at each speed: synthetic, see the module docstring."""
    speeds = np.arange(SPEEDS)
    falls = np.interp(speeds, [1, LOWEST], [1.25, 0.75])
    rises = np.interp(speeds, [LOWEST, SECOND, SPEEDS - 1], [0.75, 1.2, 1.0])
    lasts = np.where(speeds < LOWEST, falls, rises)
    lasts *= -1.0 / (MOVING * lasts[1:16].mean())
    lasts[0] = -1.0 / REST
    return lasts


@cache
def measured(seed: int = 1) -> tuple[FloatArray, FloatArray]:
    """Return times and charges of discharges, a row for each speed: synthetic, see the module docstring."""
    share = np.linspace(0.0, 1.0, POINTS)
    # Steep at the start, then flat, and steep again at the end.
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
    """Return a speed in cm/s, clamped to the speeds with a curve."""
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
    """Return the value of a cubic polynomial."""
    return float(curve[0] + share * (curve[1] + share * (curve[2] + share * curve[3])))


@kernel
def _share_k(curve: FloatArray, charge: float) -> float:
    """Return the argument in 0..1 at which a falling cubic has the value `charge`.

    Newton's method, with bisection where a step would leave the bracket, so that it always converges.
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
            # The point between two segments belongs to the second.
            k = 0
            while k < SEGMENTS - 1 and charge[i] <= levels[which, k + 1]:
                k += 1
            mixed += weight * (charge[i] + slopes[which, k] * seconds)
        out[i] = min(max(mixed, 0.0), charge[i])


def simple(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Discharge at one rate at rest and at another one in motion: algorithm 1."""
    after = np.empty(len(charge))
    simple_k(seconds, metres, charge, after)
    return after


@cache
def _slopes() -> FloatArray:
    """Return the slopes of lines through the full charge, fitted to the measurements of each speed."""
    times, charges = measured()
    slopes: FloatArray = (times * (charges - 1.0)).sum(axis=1) / (times * times).sum(axis=1)
    return slopes


def linear(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Discharge at a constant rate for each speed: algorithm 2."""
    after = np.empty(len(charge))
    linear_k(seconds, metres, charge, _slopes(), after)
    return after


@cache
def cubics() -> FloatArray:
    """Return cubics of charge over the elapsed share of the autonomy, fitted to the measurements."""
    times, charges = measured()
    share = times / autonomies()[:, None]
    return np.array([np.polynomial.polynomial.polyfit(x, y, 3) for x, y in zip(share, charges, strict=True)])


def cubic(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Discharge along a cubic for each speed: algorithm 3."""
    after = np.empty(len(charge))
    cubic_k(seconds, metres, charge, cubics(), autonomies(), after)
    return after


@cache
def _segments() -> tuple[FloatArray, FloatArray]:
    """Return the charges at the ends of each curve's segments, and the slopes in charge per second."""
    share = np.linspace(0.0, 1.0, SEGMENTS + 1)
    levels = np.array([np.polynomial.polynomial.polyval(share, curve) for curve in cubics()])
    slopes = np.diff(levels, axis=1) / (autonomies()[:, None] / SEGMENTS)
    return levels, slopes


def approximated(seconds: float, metres: FloatArray, charge: FloatArray) -> FloatArray:
    """Discharge along four line segments for each speed: algorithm 4."""
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
    """Return discharges from full, a row for each step and a column for each speed in cm/s."""
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
