"""The rings of distance sensors as sensor_msgs/LaserScan, one topic for each, for tools that know only that.

A LaserScan has evenly spaced beams that all begin in one point. Our sensors sit on a circle about the
robot's centre and look outwards, so their ranges are given from the centre: the sensor's distance and
`mount_radius`. Where a ring is not evenly spaced, its beams are those of the coarsest even grid that has all
sensors on it; beams without a sensor are NaN. A ring for which that takes more than `MOST` beams gets `MOST`
of them around the robot, each sensor in the nearest one.

Ranges follow REP 117: +inf where nothing came back, -inf where something is nearer than `range_min`, NaN
where nothing was measured. A ring that has fallen silent publishes nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from sensor_msgs.msg import LaserScan
from swarmbed_core.geometry import TAU, wrap
from swarmbed_core.kernel import kernel

from swarmbed_robot import qos
from swarmbed_robot.templates import Template, laser_scan

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RangeRing

    from swarmbed_robot.api import RobotApi

    IntArray = NDArray[np.int64]

MOST = 720
"""Beams that a scan has at most: one each half of a degree."""
SAME = 1e-4
"""Radians by which a sensor may be off its beam."""


def beams_of(angles: tuple[float, ...]) -> tuple[FloatArray, IntArray]:
    """Return the evenly spaced directions of a scan, and which of them each sensor is.

    Args:
        angles: of the sensors, in any order; several may look the same way.
    """
    around = np.array([_in_turn(angle) for angle in angles])
    first = float(around.min())
    ways = np.unique(np.round((around - first) / SAME).astype(np.int64)) * SAME
    if len(ways) == 1:
        return np.array([first]), np.zeros(len(around), np.int64)
    span = float(around.max()) - first
    least = float(np.diff(ways).min())
    # The grid's step is a whole part of the smallest gap between two sensors.
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
    """Return the same direction in [-pi, pi)."""
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
    """Write what a sweep measured into the beams of a scan; of two sensors in one beam the nearer return.

    Args:
        distances: one a sensor, from its face; inf where nothing came back.
        beams: of the sensors.
        mount: distance of the sensors' faces from where the beams begin.
        range_min: least distance that the sensors measure.
        range_max: greatest distance that they measure.
        out: ranges, NaN where no sensor looks.
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
    """The topic of one ring, `sensor/laser/<ring>`."""

    def __init__(self, api: RobotApi, ring: RangeRing, frame: str, rate: float) -> None:
        """Offer it.

        Args:
            api: of the robot.
            ring: the sensors.
            frame: of the robot's centre.
            rate: most messages a second.
        """
        self._api = api
        self._ring = ring
        self._output = api.output(f"sensor/laser/{ring.name}", LaserScan, qos.SENSOR, min(rate, ring.rate))
        angles, self._beams = beams_of(ring.angles)
        edges = ring.mount_radius + ring.range_min, ring.mount_radius + ring.range_max
        self._template = Template(laser_scan(frame, angles, edges, 1.0 / ring.rate))
        self._ranges = np.empty(len(angles), np.float32)
        self._stamp = math.nan
        # For nothing: what compiles this, or loads it, must not hold up the robot's loop.
        self._fill(np.full(ring.count, math.nan))

    def _fill(self, distances: FloatArray) -> None:
        ring = self._ring
        ranges_k(distances, self._beams, ring.mount_radius, ring.range_min, ring.range_max, self._ranges)

    def publish(self, now: float) -> None:
        """Publish the newest sweep, if somebody listens and it is due."""
        if not self._output.wanted:
            return
        stamp, distances = self._api.onboard.distances(self._ring.name)
        if math.isnan(stamp) or stamp == self._stamp or not self._output.due(now):
            return
        self._stamp = stamp
        self._fill(distances)
        data = self._template.data
        data[-4 - self._ranges.nbytes : -4] = self._ranges.data.cast("B")
        self._template.stamp(*self._api.clock.at(stamp))
        self._output.send(bytes(data))
