"""Rings of distance sensors: their error model, and the positions of their returns.

`RangeModel` turns true distances into measured ones, with the errors of the DOTS robot's time-of-flight
sensors as the DOTS paper measured them (III-A5 a, Figure 7). The numbers are `RangeError` of the robot's
file. The errors, in order of application to a true distance:

- below `multipath_below`, a share of the returns travelled to the surface and back two or three times and
  lies on lines of slope 2 and 3; the others carry the bias of the table;
- returns drop out: never below `dropout_from`, with probability `dropout` at `range_max`, always beyond;
- noise of `sigma`, which grows beyond `dropout_from` to `sigma_far` at `range_max`;
- quantisation to `resolution`; distances below `range_min` read as `range_min`.

A distance is in metres from the sensor's face, and infinity where nothing came back, as in ROS (REP 117).
So a missing return exceeds any threshold, and the minimum of several distances is the nearest obstacle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.health import Health
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RangeRing

# Indices of a ring's numbers in the array for the kernels; the bias table follows them.
_RANGE_MIN, _RANGE_MAX, _RESOLUTION, _SIGMA, _SIGMA_FAR = 0, 1, 2, 3, 4
_BELOW, _SLOPE2, _SLOPE3, _DROPOUT, _FROM, _TABLE = 5, 6, 7, 8, 9, 10

# Sweeps for which random numbers are drawn at once: the call to numpy costs more than the numbers.
_SWEEPS = 64


def range_numbers(ring: RangeRing) -> FloatArray:
    """Return the numbers of a ring's error model as the array that `measure_k` takes."""
    error = ring.error
    fixed = (
        ring.range_min,
        ring.range_max,
        ring.resolution,
        error.sigma,
        max(error.sigma, error.sigma_far),
        error.multipath_below,
        error.multipath_slope2,
        error.multipath_slope3,
        error.dropout,
        error.dropout_from,
    )
    return np.array(fixed + error.bias_at + error.bias)


@kernel
def _bias_k(distance: float, numbers: FloatArray) -> float:
    """Return the mean error at a distance: linear between the table's points, constant outside."""
    count = (numbers.shape[0] - _TABLE) // 2
    i = _TABLE + count - 1
    while i > _TABLE and distance <= numbers[i - 1]:
        i -= 1
    bias: float = numbers[i + count]
    if i > _TABLE:
        share = (distance - numbers[i - 1]) / (numbers[i] - numbers[i - 1])
        rise = numbers[i + count] - numbers[i - 1 + count]
        bias = numbers[i - 1 + count] + min(share, 1.0) * rise
    return bias


@kernel
def measure_one_k(distance: float, gaussian: float, uniform: float, numbers: FloatArray) -> float:
    """Return the measured distance for a true distance, inf for no return.

    Args:
        distance: metres from the sensor's face; inf or NaN if there is no surface.
        gaussian: a number from the standard normal distribution.
        uniform: a number from [0, 1).
        numbers: from `range_numbers`.
    """
    if not 0.0 <= distance <= numbers[_RANGE_MAX]:
        return math.inf
    path = distance
    offset = 0.0
    if distance >= numbers[_BELOW] or uniform >= numbers[_SLOPE2] + numbers[_SLOPE3]:
        offset = _bias_k(distance, numbers)
        if distance < numbers[_BELOW]:
            # Rescaled, the number is uniform again; it decides about the drop-out.
            direct = 1.0 - numbers[_SLOPE2] - numbers[_SLOPE3]
            uniform = (uniform - (1.0 - direct)) / direct
    elif uniform < numbers[_SLOPE2]:
        path = 2.0 * distance
        uniform = uniform / numbers[_SLOPE2]
    else:
        path = 3.0 * distance
        uniform = (uniform - numbers[_SLOPE2]) / numbers[_SLOPE3]
    range_max: float = numbers[_RANGE_MAX]
    if path > range_max:
        return math.inf
    far = 0.0
    if path > numbers[_FROM]:
        far = (path - numbers[_FROM]) / (range_max - numbers[_FROM])
        if uniform < far * numbers[_DROPOUT]:
            return math.inf
    sigma = numbers[_SIGMA] + far * (numbers[_SIGMA_FAR] - numbers[_SIGMA])
    measured: float = path + offset + sigma * gaussian
    if numbers[_RESOLUTION] > 0.0:
        measured = numbers[_RESOLUTION] * math.floor(measured / numbers[_RESOLUTION] + 0.5)
    range_min: float = numbers[_RANGE_MIN]
    return min(max(measured, range_min), range_max)


@kernel
def measure_k(
    distances: FloatArray,
    gaussians: FloatArray,
    uniforms: FloatArray,
    row: int,
    numbers: FloatArray,
    out: FloatArray,
) -> None:
    """Write the measured distances of a sweep into `out`.

    Args:
        distances: true distances, one per sensor; inf or NaN if there is no surface.
        gaussians: rows of numbers from the standard normal distribution, one per sensor.
        uniforms: rows of numbers from [0, 1), one per sensor.
        row: which of the rows to use.
        numbers: from `range_numbers`.
        out: one number per sensor, inf for no return; may be `distances` itself.
    """
    for i in range(distances.shape[0]):
        out[i] = measure_one_k(distances[i], gaussians[row, i], uniforms[row, i], numbers)


class RangeModel:
    """One ring of distance sensors with measurement errors.

    The same generator state gives the same errors. Input of the wrong shape is counted in `health` and gives
    no returns.
    """

    def __init__(self, ring: RangeRing, rng: np.random.Generator) -> None:
        """Draw the errors of `ring` from `rng`, which must not be used elsewhere afterwards."""
        self.ring = ring
        self.health = Health()
        self._rng = rng
        self._numbers = range_numbers(ring)
        self._shape = (ring.count,)
        self._gaussians = np.empty((_SWEEPS, ring.count))
        self._uniforms = np.empty((_SWEEPS, ring.count))
        self._row = _SWEEPS

    def measure(self, distances: ArrayLike) -> FloatArray:
        """Return the measured distances for true ones, inf where there is no return.

        Args:
            distances: metres from each sensor's face, inf where there is no surface.
        """
        true = np.ascontiguousarray(distances, dtype=np.float64)
        out = np.empty(self._shape)
        if true.shape != self._shape:
            explanation = f"distances of shape {true.shape}: ring '{self.ring.name}' needs {self._shape}"
            self.health.refuse("ranges.shape", explanation)
            out.fill(math.inf)
            return out
        if self._row == _SWEEPS:
            self._rng.standard_normal(out=self._gaussians)
            self._rng.random(out=self._uniforms)
            self._row = 0
        measure_k(true, self._gaussians, self._uniforms, self._row, self._numbers, out)
        self._row += 1
        return out


@kernel
def points_body_k(distances: FloatArray, angles: FloatArray, mount_radius: float, out: FloatArray) -> None:
    """Write the returns of a ring as points in `base_link` into the rows of `out`; NaN for no return.

    Distances that are NaN become infinite: drivers report no return either way.
    """
    for i in range(distances.shape[0]):
        reach = math.nan
        if 0.0 <= distances[i] < math.inf:
            reach = mount_radius + distances[i]
        elif math.isnan(distances[i]):
            distances[i] = math.inf
        out[i, 0] = reach * math.cos(angles[i])
        out[i, 1] = reach * math.sin(angles[i])


def points_body(ring: RangeRing, distances: ArrayLike) -> FloatArray:
    """Return the returns of a sweep as points in `base_link`, one row (x, y) per sensor.

    The row of a sensor without a return, or with an invalid distance, is NaN.
    """
    measured = np.array(distances, dtype=np.float64, order="C")
    out = np.full((ring.count, 2), math.nan)
    if measured.shape == (ring.count,):
        points_body_k(measured, np.array(ring.angles), ring.mount_radius, out)
    return out


@dataclass(frozen=True, slots=True)
class Figure7:
    """The experiment of Figure 7, repeated with the model.

    Attributes:
        true: true distances of the plot's points.
        measured: measured distances, NaN for no return.
        edges: edges of the bins, one more than bins.
        counts: number of returns in each bin.
        mean_error: mean error in each bin, NaN where there are no returns.
        sigma: standard deviation of the error in each bin, NaN likewise.
    """

    true: FloatArray
    measured: FloatArray
    edges: FloatArray
    counts: FloatArray
    mean_error: FloatArray
    sigma: FloatArray


def figure7(ring: RangeRing, seed: int, samples: int = 2455, bin_width: float = 0.125) -> Figure7:
    """Measure distances to a wall, at random from 0 to 3.5 m, as the paper did for Figure 7."""
    rng = np.random.default_rng(seed)
    edges = np.arange(0.0, 3.5 + bin_width / 2, bin_width)
    true = rng.uniform(edges[0], edges[-1], samples)
    measured = np.empty(samples)
    gaussians, uniforms = rng.standard_normal((1, samples)), rng.random((1, samples))
    measure_k(true, gaussians, uniforms, 0, range_numbers(ring), measured)

    seen = np.isfinite(measured)
    measured[~seen] = math.nan
    error = (measured - true)[seen]
    bins = np.digitize(true[seen], edges) - 1
    size = len(edges) - 1
    counts = np.bincount(bins, minlength=size).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(bins, weights=error, minlength=size) / counts
        square = np.bincount(bins, weights=error * error, minlength=size) / counts
        sigma = np.sqrt(np.maximum(square - mean * mean, 0.0))
    return Figure7(true, measured, edges, counts, mean, sigma)
