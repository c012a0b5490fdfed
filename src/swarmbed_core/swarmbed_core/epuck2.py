"""The e-puck2's senses in the robot's own units.

The response curves are those of "Design and analysis of an E-Puck2 robot plug-in for ARGoS": proximity by
equation (1), light by equation (2), the floor's grey, the time-of-flight distance in millimetres, and 16-bit
encoders. All functions take whole arrays and are free of noise; add noise to their inputs.

Programs of a crowd of e-puck2s get `Readings`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray

    IntArray = NDArray[np.int64]
    ByteArray = NDArray[np.uint8]

A, B, C = 197.8633, -30.47182, 1.011635
"""Coefficients of equation (1), fitted to the largest readings (4.1.1)."""
OLD_A, OLD_B, OLD_C = 298.701, -36.8961, 1.08212
"""The same for the e-puck, version 1."""
NEAR = 0.05
"""Range of the proximity sensors, in metres."""
GAMMA = 0.075
"""Coefficient of equation (2)."""
FAR = 0.50
"""Range of the light sensors, in metres."""
FULL = 4095
"""A proximity sensor's reading at contact, a light sensor's in the dark."""
WHITE = 1023
"""The ground sensors' reading of white."""
TOF_LEAST, TOF_MOST = 20, 2000
"""Range of the time-of-flight sensor, in millimetres."""
STEPS = 1000
"""Encoder steps per turn of a wheel."""
REGISTER = 1 << 16
"""Number of values of an encoder's register."""


GRAVITY_COUNTS = 16384.0
"""The accelerometer's counts for 1 g, those of a common part: 16 bits for +-2 g."""
TURN_COUNTS = 131.0
"""The gyroscope's counts for 1 deg/s, those of a common part: 16 bits for +-250 deg/s."""


@dataclass(slots=True, eq=False)
class Blobs:
    """The lights that cameras see; those of robot i are the rows `first[i]` to `first[i + 1]`.

    Attributes:
        first: row indices, one more than there are robots.
        pixels: (column, row) of each light: 0 to 160 from the left, 0 to 120 from the top.
        colours: (red, green, blue) of each light, 0 to 255.
    """

    first: IntArray
    pixels: FloatArray
    colours: ByteArray


@dataclass(slots=True, eq=False)
class Readings:
    """The senses of e-puck2s in their own units, a row for each robot; None for senses that are off.

    The arrays belong to the world. Only `leds` is writable.

    Attributes:
        leds: 10 lights each, in the order of Table 2: red, green, blue from 0 to 255. Red lights use only
            the red value, the body light only the green one.
        proximity: 8 each, in the order of Table 3: from 0, nothing in range, to 4095 at contact.
        light: 8 each: from 4095 in the dark to 0 when blinded.
        ground: 3 each, left, middle, right: from 0 for black to 1023 for white.
        tof: distance in millimetres, 20 to 2000.
        encoders: steps of the left and the right wheel, -32768 to 32767.
        camera: the lights in view.
        acceleration: along x, y, z: 16384 for 1 g.
        turning: angular rates about x, y, z: 131 for 1 degree per second.
        battery: shares of a full charge.
    """

    leds: ByteArray
    proximity: IntArray | None = None
    light: IntArray | None = None
    ground: IntArray | None = None
    tof: IntArray | None = None
    encoders: IntArray | None = None
    camera: Blobs | None = None
    acceleration: IntArray | None = None
    turning: IntArray | None = None
    battery: FloatArray | None = None


@kernel
def proximity_k(distances: FloatArray, out: IntArray) -> None:
    """Write the proximity readings of distances in metres: equation (1)."""
    for i in range(distances.shape[0]):
        d = distances[i]
        out[i] = 0
        if 0.0 <= d <= NEAR:
            out[i] = int(np.rint(FULL * max(min(1.0, A * d * d + B * d + C), 0.0)))


@kernel
def dimming_k(intensity: float, distance: float) -> float:
    """Return the reduction of a light sensor's reading by one light source, as a share: equation (2)."""
    if distance > FAR:
        return 0.0
    bright = GAMMA * intensity / max(distance, 1e-9)
    return bright * bright


@kernel
def light_k(dimmed: FloatArray, out: IntArray) -> None:
    """Write the light sensors' readings from the summed reductions of all sources."""
    for i in range(dimmed.shape[0]):
        out[i] = int(np.rint(FULL * min(max(0.0, 1.0 - dimmed[i]), 1.0)))


@kernel
def _dim_all_k(intensities: FloatArray, distances: FloatArray, out: FloatArray) -> None:
    for i in range(out.shape[0]):
        out[i] = dimming_k(intensities[i], distances[i])


@kernel
def tof_k(distances: FloatArray, out: IntArray) -> None:
    """Write the time-of-flight readings of distances in metres; NaN reads as out of range."""
    for i in range(distances.shape[0]):
        far = not distances[i] < 0.001 * TOF_MOST
        out[i] = TOF_MOST if far else max(int(np.rint(1000.0 * distances[i])), TOF_LEAST)


@kernel
def roll_k(ways: FloatArray, step: float, parts: FloatArray, counts: IntArray) -> None:
    """Add the whole steps of wheels' distances to `counts`, and keep the remainders in `parts`."""
    for i in range(ways.shape[0]):
        parts[i] += ways[i] / step
        # The tolerance counts a step that rounding leaves incomplete.
        whole = np.trunc(parts[i] + math.copysign(1e-9, parts[i]))
        counts[i] += int(whole)
        parts[i] -= whole


@kernel
def register_k(counts: IntArray, out: IntArray) -> None:
    """Write the signed 16-bit registers of total counts."""
    half = REGISTER // 2
    for i in range(counts.shape[0]):
        out[i] = (counts[i] + half) % REGISTER - half


def proximity(distance: FloatArray) -> IntArray:
    """Return the proximity readings of distances in metres: equation (1), from 0 to 4095."""
    out = np.empty(distance.shape, dtype=np.int64)
    proximity_k(distance.ravel(), out.ravel())
    return out


def light(intensity: FloatArray, distance: FloatArray) -> IntArray:
    """Return the light sensors' readings for one source: equation (2), 4095 in the dark, 0 if blinded.

    Args:
        intensity: of the source.
        distance: to the source, in metres.
    """
    dimmed = np.empty(distance.shape)
    out = np.empty(distance.shape, dtype=np.int64)
    _dim_all_k(np.broadcast_to(intensity, distance.shape).ravel(), distance.ravel(), dimmed.ravel())
    light_k(dimmed.ravel(), out.ravel())
    return out


def ground(grey: FloatArray) -> IntArray:
    """Return the ground sensors' readings, from 0 for black to 1023 for white, of grey levels in 0..1."""
    return _whole(WHITE * np.clip(grey, 0.0, 1.0))


def time_of_flight(distance: FloatArray) -> IntArray:
    """Return the time-of-flight readings of distances in metres, in millimetres, clamped to its range."""
    out = np.empty(distance.shape, dtype=np.int64)
    tof_k(distance.ravel(), out.ravel())
    return out


def _whole(value: FloatArray) -> IntArray:
    rounded: IntArray = np.rint(value).astype(np.int64)
    return rounded


class Encoders:
    """Encoder registers of wheels. Fractions of a step carry over; the 16-bit registers overflow."""

    def __init__(self, shape: tuple[int, ...], wheel_radius: float) -> None:
        """Start at zero.

        Args:
            shape: of the arrays of wheels.
            wheel_radius: in metres.
        """
        self._step = 2 * np.pi * wheel_radius / STEPS
        self._count = np.zeros(shape, dtype=np.int64)
        self._part = np.zeros(shape)

    def roll(self, way: FloatArray) -> None:
        """Add each wheel's distance in metres."""
        roll_k(way.ravel(), self._step, self._part.ravel(), self._count.ravel())

    def read(self) -> IntArray:
        """Return the registers, from -32768 to 32767."""
        registers = np.empty(self._count.shape, dtype=np.int64)
        register_k(self._count.ravel(), registers.ravel())
        return registers

    @staticmethod
    def between(before: IntArray, after: IntArray) -> IntArray:
        """Return the steps between two readings; valid below half of the register's values."""
        half = REGISTER // 2
        steps: IntArray = (after - before + half) % REGISTER - half
        return steps
