"""Publishes each ring of distance sensors as a sensor_msgs/LaserScan, for tools that expect one.

A LaserScan has evenly spaced beams that all start at one point. The sensors are on a circle around the
robot's centre and point outwards, so ranges are measured from the centre: the sensor's reading plus
`mount_radius`. An unevenly spaced ring uses the coarsest even grid that contains all its sensors; beams
without a sensor are NaN. If that takes more than `MOST` beams, the ring gets `MOST` beams around the robot,
with each sensor in the nearest one.

Ranges follow REP 117: +inf for no return, -inf for an object nearer than `range_min`, NaN for no measurement.
A ring that has gone silent publishes nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from swarmbed_core.geometry import TAU, wrap
from swarmbed_core.kernel import kernel

from swarmbed_robot.templates import Template, laser_scan

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RangeRing

    from swarmbed_robot.topics import Clock, Known

    IntArray = NDArray[np.int64]

MOST = 720
"""Maximum number of beams of a scan: one every half degree."""
SAME = 1e-4
"""Tolerance between a sensor's direction and its beam, in radians."""


def beams_of(angles: tuple[float, ...]) -> tuple[FloatArray, IntArray]:
    """Return the evenly spaced directions of a scan, and the index of each sensor's beam.

    Args:
        angles: directions of the sensors in radians, in any order; several may be equal.
    """
    around = np.array([_in_turn(angle) for angle in angles])
    first = float(around.min())
    ways = np.unique(np.round((around - first) / SAME).astype(np.int64)) * SAME
    if len(ways) == 1:
        return np.array([first]), np.zeros(len(around), np.int64)
    span = float(around.max()) - first
    least = float(np.diff(ways).min())
    # The grid's step is the smallest gap between two sensors, divided by a whole number.
    for part in range(1, MOST):
        count = round(span / (least / part))
        if count + 1 > MOST:
            break
        places = (around - first) / (span / count)
        if np.abs(places - np.rint(places)).max() * (span / count) < SAME:
            return np.linspace(first, first + span, count + 1), np.rint(places).astype(np.int64)
    step = TAU / MOST
    even = np.linspace(-math.pi, math.pi, MOST, endpoint=False)
    return even, np.rint((around + math.pi) / step).astype(np.int64) % MOST


def _in_turn(angle: float) -> float:
    """Return an angle wrapped to [-pi, pi)."""
    turned = float(wrap(angle))
    return -math.pi if turned > math.pi - SAME else turned


@kernel
def ranges_k(
    distances: FloatArray,
    beams: IntArray,
    mount: float,
    range_min: float,
    range_max: float,
    out: NDArray[np.float32],
) -> None:
    """Write a sweep into the beams of a scan; a beam with several sensors gets the nearest return.

    Args:
        distances: distance from each sensor's face, in metres; inf for no return.
        beams: index of each sensor's beam.
        mount: distance of the sensors' faces from the start of the beams, in metres.
        range_min: least distance that the sensors measure, in metres.
        range_max: greatest distance that the sensors measure, in metres.
        out: the ranges, in metres; NaN for beams without a sensor.
    """
    for k in range(out.shape[0]):
        out[k] = math.nan
    for k in range(distances.shape[0]):
        distance = distances[k]
        if not distance <= range_max:
            found = math.inf
        elif distance < range_min:
            found = -math.inf
        else:
            found = mount + distance
        at = beams[k]
        if math.isnan(out[at]) or found < out[at]:
            out[at] = found


class Laser:
    """Encodes the sweeps of one ring for its topic, `sensor/laser/<ring>`; see `topics.Encoder`."""

    waits: ClassVar[bool] = True

    def __init__(self, frame: str, ring: RangeRing) -> None:
        """Prepare the message.

        Args:
            frame: name of the frame at the robot's centre.
            ring: the ring of sensors.
        """
        self._ring = ring
        angles, self._beams = beams_of(ring.angles)
        edges = ring.mount_radius + ring.range_min, ring.mount_radius + ring.range_max
        self._template = Template(laser_scan(frame, angles, edges, 1.0 / ring.rate))
        self._ranges = np.empty(len(angles), np.float32)
        self._stamp = math.nan

    def ready(self) -> None:
        """Load the kernel."""
        self._fill(np.full(self._ring.count, math.nan))

    def _fill(self, distances: FloatArray) -> None:
        ring = self._ring
        ranges_k(distances, self._beams, ring.mount_radius, ring.range_min, ring.range_max, self._ranges)

    def news(self, known: Known) -> bool:
        """Return whether there is a sweep that was not sent yet."""
        stamp = known.distances(self._ring.name)[0]
        return not (math.isnan(stamp) or stamp == self._stamp)

    def __call__(self, known: Known, clock: Clock) -> bytes | None:
        """Return the newest sweep, stamped with the time of measurement."""
        stamp, distances = known.distances(self._ring.name)
        if distances is None:
            return None
        self._stamp = stamp
        self._fill(distances)
        data = self._template.data
        data[-4 - self._ranges.nbytes : -4] = self._ranges.data.cast("B")
        self._template.stamp(*clock.at(stamp))
        return bytes(data)
