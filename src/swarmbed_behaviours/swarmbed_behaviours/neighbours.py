"""Relative localisation without a map, from radio ranges and the other robots' dead reckoning.

Every robot dead-reckons along the axes of its compass, so two robots' frames differ only by a shift `o`: the
other's origin in the robot's own frame. A UWB range (DOTS paper, III-A6) measures the length of the vector
p - (q + o), with p the robot's own position and q the position that the other reports. One range gives a
circle of possible shifts. Once the robots move, circles with different centres intersect in two points, and
in one when the motion is no longer along a single line. A sum of Gaussians tracks the possibilities:
hypotheses spread over the first circle, each an extended Kalman filter, weighted by how well it predicts the
ranges.

Other information that ties the frames together is processed as measurements of `o`: both robots have crossed
the edge of the drop zone, where they set x = 0; both know where a carrier stands; the distance sensors see
free space where a hypothesis places the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

HYPOTHESES: Final = 12
# Columns of a hypothesis: the mean and the covariance of the shift, its weight.
_X, _Y, _XX, _XY, _YY, _W, _COLUMNS = 0, 1, 2, 3, 4, 5, 6

LEAST_WEIGHT: Final = 1e-6
"""Least weight of a hypothesis: the measurement that rules it out may be an outlier."""
DRIFT: Final = 0.03
"""Error of dead reckoning in metres after one metre; it grows with the root of the distance."""
UNEXPECTED: Final = 4.0
"""Sigmas by which a range may miss the best hypothesis before it counts as unexpected."""
LOST_AFTER: Final = 12
"""Unexpected ranges in a row after which the estimate is discarded."""
FAR: Final = 1e9


@kernel
def _normalise_k(hypotheses: FloatArray) -> None:
    """Normalise the weights to sum to 1, none below the least."""
    total = 0.0
    for k in range(hypotheses.shape[0]):
        total += hypotheses[k, _W]
    if not total > 0.0:
        for k in range(hypotheses.shape[0]):
            hypotheses[k, _W] = 1.0 / hypotheses.shape[0]
        return
    again = 0.0
    for k in range(hypotheses.shape[0]):
        weight = max(hypotheses[k, _W] / total, LEAST_WEIGHT)
        hypotheses[k, _W] = weight
        again += weight
    for k in range(hypotheses.shape[0]):
        hypotheses[k, _W] /= again


@kernel
def spread_k(hypotheses: FloatArray, dx: float, dy: float, distance: float, sigma: float) -> None:
    """Place the hypotheses on the circle of shifts that a first range allows.

    Args:
        hypotheses: filled.
        dx: own position minus the reported one.
        dy: likewise.
        distance: the range.
        sigma: of the range.
    """
    n = hypotheses.shape[0]
    radius = max(distance, sigma)
    across = radius * 2.0 * math.pi / n / 2.5
    for k in range(n):
        c, s = math.cos(2.0 * math.pi * k / n), math.sin(2.0 * math.pi * k / n)
        along, wide = sigma * sigma, across * across
        hypotheses[k, _X] = dx - c * distance
        hypotheses[k, _Y] = dy - s * distance
        hypotheses[k, _XX] = along * c * c + wide * s * s
        hypotheses[k, _XY] = (along - wide) * c * s
        hypotheses[k, _YY] = along * s * s + wide * c * c
        hypotheses[k, _W] = 1.0 / n


@kernel
def drift_k(hypotheses: FloatArray, variance: float) -> None:
    """Increase the uncertainty of the shift."""
    for k in range(hypotheses.shape[0]):
        hypotheses[k, _XX] += variance
        hypotheses[k, _YY] += variance


@kernel
def range_k(hypotheses: FloatArray, dx: float, dy: float, distance: float, sigma: float) -> float:
    """Process a range; return by how many sigmas the best hypothesis missed it.

    A range is strongly nonlinear over a hypothesis that is still wide. So its mean error by the circle's
    curvature is corrected, and counted as noise.
    """
    best = FAR
    for k in range(hypotheses.shape[0]):
        ox, oy = hypotheses[k, _X], hypotheses[k, _Y]
        xx, xy, yy = hypotheses[k, _XX], hypotheses[k, _XY], hypotheses[k, _YY]
        to_x, to_y = dx - ox, dy - oy
        expected = max(math.hypot(to_x, to_y), 0.05)
        hx, hy = -to_x / expected, -to_y / expected
        # Mean error by the circle's curvature: half the variance across, over the radius.
        wide = xx * hy * hy - 2.0 * xy * hx * hy + yy * hx * hx
        bend = 0.5 * wide / expected
        noise = sigma * sigma + 0.5 * bend * bend
        gain_x, gain_y = xx * hx + xy * hy, xy * hx + yy * hy
        spread = hx * gain_x + hy * gain_y + noise
        off = distance - expected - min(bend, 0.3 * expected)
        z = off / math.sqrt(spread)
        best = min(best, abs(z))
        # Beyond 5 sigmas the range is probably an outlier: bound its effect on the weight.
        likelihood = math.exp(-0.5 * min(z * z, 25.0)) / math.sqrt(spread)
        hypotheses[k, _W] *= likelihood
        if abs(z) > 6.0:
            continue
        gain_x, gain_y = gain_x / spread, gain_y / spread
        hypotheses[k, _X] = ox + gain_x * off
        hypotheses[k, _Y] = oy + gain_y * off
        hypotheses[k, _XX] = xx - gain_x * gain_x * spread
        hypotheses[k, _XY] = xy - gain_x * gain_y * spread
        hypotheses[k, _YY] = yy - gain_y * gain_y * spread
    _normalise_k(hypotheses)
    return best


@kernel
def place_k(hypotheses: FloatArray, ox: float, oy: float, variance: float, doubt: float) -> None:
    """Process a measurement of the shift itself or, if `oy` is NaN, of its x alone.

    Args:
        hypotheses: updated.
        ox: the measured shift.
        oy: likewise.
        variance: of each coordinate.
        doubt: probability that the measurement is an outlier.
    """
    both = not math.isnan(oy)
    total = 0.0
    for k in range(hypotheses.shape[0]):
        total += hypotheses[k, _W]
    for k in range(hypotheses.shape[0]):
        xx, xy, yy = hypotheses[k, _XX], hypotheses[k, _XY], hypotheses[k, _YY]
        off_x = ox - hypotheses[k, _X]
        if both:
            off_y = oy - hypotheses[k, _Y]
            sxx, syy = xx + variance, yy + variance
            det = sxx * syy - xy * xy
            square = (syy * off_x * off_x - 2.0 * xy * off_x * off_y + sxx * off_y * off_y) / det
            likelihood = math.exp(-0.5 * min(square, 100.0)) * variance / math.sqrt(det)
        else:
            off_y = 0.0
            sxx, syy = xx + variance, 1.0
            det = sxx
            square = off_x * off_x / sxx
            likelihood = math.exp(-0.5 * min(square, 100.0)) * math.sqrt(variance / sxx)
        hypotheses[k, _W] *= doubt * 0.1 + (1.0 - doubt) * likelihood
        if square > 16.0:
            continue
        if both:
            axx, axy = (xx * syy - xy * xy) / det, (xy * sxx - xx * xy) / det
            ayx, ayy = (xy * syy - yy * xy) / det, (yy * sxx - xy * xy) / det
            hypotheses[k, _X] += axx * off_x + axy * off_y
            hypotheses[k, _Y] += ayx * off_x + ayy * off_y
            hypotheses[k, _XX] = xx - axx * xx - axy * xy
            hypotheses[k, _XY] = xy - axx * xy - axy * yy
            hypotheses[k, _YY] = yy - ayx * xy - ayy * yy
        else:
            gx, gy = xx / sxx, xy / sxx
            hypotheses[k, _X] += gx * off_x
            hypotheses[k, _Y] += gy * off_x
            hypotheses[k, _XX] = xx - gx * xx
            hypotheses[k, _XY] = xy - gx * xy
            hypotheses[k, _YY] = yy - gy * xy
    _normalise_k(hypotheses)


@kernel
def unseen_k(
    hypotheses: FloatArray,
    dx: float,
    dy: float,
    yaw: float,
    sweep: FloatArray,
    angles: FloatArray,
    size: float,
) -> None:
    """Lower the weight of hypotheses that place the other where a distance sensor sees free space.

    Args:
        hypotheses: updated.
        dx: own position minus the reported one.
        dy: likewise.
        yaw: of the robot in its own frame.
        sweep: distances from the robot's edge; inf, where nothing came back, gives no information.
        angles: of the sensors.
        size: metres from the robot's centre to a sensor plus the other's radius.
    """
    n = angles.shape[0]
    if n == 0:
        return
    for k in range(hypotheses.shape[0]):
        to_x, to_y = hypotheses[k, _X] - dx, hypotheses[k, _Y] - dy
        distance = math.hypot(to_x, to_y)
        narrow = max(hypotheses[k, _XX], hypotheses[k, _YY]) < 0.04
        if not narrow or distance > 1.5 or distance < 0.3:
            continue
        bearing = math.atan2(to_y, to_x) - yaw
        nearest, least = 0, 9.0
        for i in range(n):
            off = abs((bearing - angles[i] + math.pi) % (2.0 * math.pi) - math.pi)
            if off < least:
                nearest, least = i, off
        if distance - size + 0.5 < sweep[nearest] < math.inf:
            hypotheses[k, _W] *= 0.6
    _normalise_k(hypotheses)


@kernel
def mixture_k(hypotheses: FloatArray, out: FloatArray) -> None:
    """Write mean and covariance of the mixture, x, y, xx, xy, yy, and its standard deviation.

    The last is the root of the covariance's larger eigenvalue.
    """
    x = y = 0.0
    for k in range(hypotheses.shape[0]):
        x += hypotheses[k, _W] * hypotheses[k, _X]
        y += hypotheses[k, _W] * hypotheses[k, _Y]
    xx = xy = yy = 0.0
    for k in range(hypotheses.shape[0]):
        ex, ey = hypotheses[k, _X] - x, hypotheses[k, _Y] - y
        weight = hypotheses[k, _W]
        xx += weight * (hypotheses[k, _XX] + ex * ex)
        xy += weight * (hypotheses[k, _XY] + ex * ey)
        yy += weight * (hypotheses[k, _YY] + ey * ey)
    out[0], out[1], out[2], out[3], out[4] = x, y, xx, xy, yy
    half = 0.5 * (xx - yy)
    out[5] = math.sqrt(max(0.5 * (xx + yy) + math.sqrt(half * half + xy * xy), 0.0))


@kernel
def take_range_k(
    hypotheses: FloatArray,
    drift: float,
    dx: float,
    dy: float,
    distance: float,
    sigma: float,
    mixture: FloatArray,
) -> float:
    """Drift, process a range and compute the mixture: a whole tick in one call; see `range_k`."""
    drift_k(hypotheses, drift)
    off = range_k(hypotheses, dx, dy, distance, sigma)
    mixture_k(hypotheses, mixture)
    return off


class Shift:
    """Estimate of another robot's origin in the robot's own frame.

    Attributes:
        known: whether there is any estimate.
        x: position of the origin.
        y: likewise.
        sigma: standard deviation in metres: the root of the covariance's larger eigenvalue.
    """

    __slots__ = ("_drift", "_hypotheses", "_mixture", "_unexpected", "known", "sigma", "x", "y")

    def __init__(self) -> None:
        """Start without an estimate."""
        self._hypotheses = np.zeros((HYPOTHESES, _COLUMNS))
        self._mixture = np.zeros(6)
        self._unexpected = 0
        self._drift = 0.0
        self.forget()

    def forget(self) -> None:
        """Discard the estimate."""
        self.known = False
        self.x = self.y = 0.0
        self.sigma = math.inf

    @property
    def covariance(self) -> FloatArray:
        """Return the 2 x 2 covariance of the estimate."""
        xx, xy, yy = self._mixture[2:5].tolist()
        return np.array([[xx, xy], [xy, yy]])

    def move(self, way: float) -> None:
        """Report the metres travelled by both robots together since the last call."""
        if self.known and way > 0.0:
            # Applied with the next measurement.
            self._drift += DRIFT * DRIFT * way

    def add_range(self, dx: float, dy: float, distance: float, sigma: float) -> None:
        """Process a range.

        Args:
            dx: own position minus the one that the other reports.
            dy: likewise.
            distance: the range.
            sigma: of the range.
        """
        if not self.known:
            self.known = True
            self._begin(dx, dy, distance, sigma)
            return
        off = take_range_k(self._hypotheses, self._drift, dx, dy, distance, sigma, self._mixture)
        self._drift = 0.0
        self._unexpected = self._unexpected + 1 if off > UNEXPECTED else 0
        if self._unexpected >= LOST_AFTER:
            # The wheels slipped, or a robot was moved by hand: start over.
            self._begin(dx, dy, distance, sigma)
        else:
            self._read()

    def _begin(self, dx: float, dy: float, distance: float, sigma: float) -> None:
        """Start from a single range."""
        self._unexpected = 0
        self._drift = 0.0
        spread_k(self._hypotheses, dx, dy, distance, sigma)
        self._sum_up()

    def add_place(self, x: float, y: float | None, sigma: float, doubt: float = 0.05) -> None:
        """Process a measurement of the shift, such as from a carrier that both saw; or only of its x."""
        if self.known:
            self._catch_up()
            place_k(self._hypotheses, x, math.nan if y is None else y, sigma * sigma, doubt)
            self._sum_up()

    def add_view(
        self, dx: float, dy: float, yaw: float, sweep: FloatArray, angles: FloatArray, size: float
    ) -> None:
        """Process a sweep that sees free space where the other may be; arguments as for `unseen_k`."""
        if self.known:
            self._catch_up()
            unseen_k(self._hypotheses, dx, dy, yaw, sweep, angles, size)
            self._sum_up()

    def restart(self, x: float, y: float) -> None:
        """Follow a step of a frame's origin: what was at 0 is now at (x, y)."""
        self._hypotheses[:, _X] += x
        self._hypotheses[:, _Y] += y
        if self.known:
            self._sum_up()

    def _catch_up(self) -> None:
        """Apply the drift since the last measurement."""
        drift_k(self._hypotheses, self._drift)
        self._drift = 0.0

    def _sum_up(self) -> None:
        mixture_k(self._hypotheses, self._mixture)
        self._read()

    def _read(self) -> None:
        self.x, self.y, _, _, _, self.sigma = self._mixture.tolist()
