"""The e-puck2's senses in the units that the robot gives them in.

"Design and analysis of an E-Puck2 robot plug-in for ARGoS" has the response curves: proximity by equation
(1), light by equation (2), the floor's grey, the time-of-flight sensor's millimetres, and encoders that count
steps in 16 bits. All work on whole arrays; none of them errs: noise is added to what goes in.

`Readings` is what the programs of a crowd of e-puck2s get.
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
"""Of equation (1): fitted to the largest readings (4.1.1)."""
OLD_A, OLD_B, OLD_C = 298.701, -36.8961, 1.08212
"""The same of the e-puck, version 1."""
NEAR = 0.05
"""Metres that proximity sensors reach."""
GAMMA = 0.075
"""Of equation (2)."""
FAR = 0.50
"""Metres within which light is sensed."""
FULL = 4095
"""A proximity sensor's reading at touch, a light sensor's in the dark."""
WHITE = 1023
"""The ground sensors' reading of white."""
TOF_LEAST, TOF_MOST = 20, 2000
"""Millimetres."""
STEPS = 1000
"""Of a turn of a wheel."""
REGISTER = 1 << 16
"""Values of an encoder's register."""


GRAVITY_COUNTS = 16384.0
"""The accelerometer's reading of 1 g: a part's number, 16 bits for 2 g."""
TURN_COUNTS = 131.0
"""The gyroscope's reading of a degree a second: a part's number, 16 bits for 250 degrees a second."""


@dataclass(slots=True, eq=False)
class Blobs:
    """The lights that cameras see; those of robot i are the rows `first[i]` to `first[i + 1]`.

    Attributes:
        first: a number more than there are robots.
        pixels: rows of column, from 0 at the left to 160, and row, from 0 at the top to 120.
        colours: rows of red, green, blue, 0 to 255.
    """

    first: IntArray
    pixels: FloatArray
    colours: ByteArray


@dataclass(slots=True, eq=False)
class Readings:
    """What e-puck2s sense, in their own units, a row for each robot; None for senses that are off.

    The arrays are the world's own: only `leds` is there to be written.

    Attributes:
        leds: 10 lights each, in the order of Table 2: red, green, blue from 0 to 255. A red light takes
            nothing but red, the body's nothing but green.
        proximity: 8 each, in the order of Table 3: 0 for nothing to 4095 at touch.
        light: 8 each: 4095 in the dark to 0 when blinded.
        ground: 3 each, left, middle, right: 0 for black to 1023 for white.
        tof: millimetres, 20 to 2000.
        encoders: steps of the left and the right wheel, -32768 to 32767.
        camera: the lights that are seen.
        acceleration: along x, y, z: 16384 for 1 g.
        turning: about x, y, z: 131 for a degree a second.
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
    """Write equation (1) of many distances."""
    for i in range(distances.shape[0]):
        d = distances[i]
        out[i] = 0
        if 0.0 <= d <= NEAR:
            out[i] = int(np.rint(FULL * max(min(1.0, A * d * d + B * d + C), 0.0)))


@kernel
def dimming_k(intensity: float, distance: float) -> float:
    """Return what equation (2) takes off 1 for one source of light."""
    if distance > FAR:
        return 0.0
    bright = GAMMA * intensity / max(distance, 1e-9)
    return bright * bright


@kernel
def light_k(dimmed: FloatArray, out: IntArray) -> None:
    """Write what light sensors read, of what all sources take off 1."""
    for i in range(dimmed.shape[0]):
        out[i] = int(np.rint(FULL * min(max(0.0, 1.0 - dimmed[i]), 1.0)))


@kernel
def _dim_all_k(intensities: FloatArray, distances: FloatArray, out: FloatArray) -> None:
    for i in range(out.shape[0]):
        out[i] = dimming_k(intensities[i], distances[i])


@kernel
def tof_k(distances: FloatArray, out: IntArray) -> None:
    """Write what time-of-flight sensors read."""
    for i in range(distances.shape[0]):
        far = not distances[i] < 0.001 * TOF_MOST
        out[i] = TOF_MOST if far else max(int(np.rint(1000.0 * distances[i])), TOF_LEAST)


@kernel
def roll_k(ways: FloatArray, step: float, parts: FloatArray, counts: IntArray) -> None:
    """Count the steps of wheels that went so far, and keep what is less than one."""
    for i in range(ways.shape[0]):
        parts[i] += ways[i] / step
        # What is a step but for the last digits is one.
        whole = np.trunc(parts[i] + math.copysign(1e-9, parts[i]))
        counts[i] += int(whole)
        parts[i] -= whole


@kernel
def register_k(counts: IntArray, out: IntArray) -> None:
    """Write what 16-bit registers hold that have counted so far."""
    half = REGISTER // 2
    for i in range(counts.shape[0]):
        out[i] = (counts[i] + half) % REGISTER - half


def proximity(distance: FloatArray) -> IntArray:
    """Return what proximity sensors read of something so many metres away: equation (1), from 0 to 4095."""
    out = np.empty(distance.shape, dtype=np.int64)
    proximity_k(distance.ravel(), out.ravel())
    return out


def light(intensity: FloatArray, distance: FloatArray) -> IntArray:
    """Return what light sensors read of the light of a source: equation (2), 4095 in the dark, 0 if blinded.

    Args:
        intensity: of the source.
        distance: of it, in metres.
    """
    dimmed = np.empty(distance.shape)
    out = np.empty(distance.shape, dtype=np.int64)
    _dim_all_k(np.broadcast_to(intensity, distance.shape).ravel(), distance.ravel(), dimmed.ravel())
    light_k(dimmed.ravel(), out.ravel())
    return out


def ground(grey: FloatArray) -> IntArray:
    """Return what ground sensors read of a floor, from 0 for black to 1023 for white."""
    return _whole(WHITE * np.clip(grey, 0.0, 1.0))


def time_of_flight(distance: FloatArray) -> IntArray:
    """Return what the time-of-flight sensor reads, in millimetres; where nothing is, as far as it sees."""
    out = np.empty(distance.shape, dtype=np.int64)
    tof_k(distance.ravel(), out.ravel())
    return out


def _whole(value: FloatArray) -> IntArray:
    rounded: IntArray = np.rint(value).astype(np.int64)
    return rounded


class Encoders:
    """Registers that count the steps of wheels: a part of a step is kept for the next, and they run over."""

    def __init__(self, shape: tuple[int, ...], wheel_radius: float) -> None:
        """Begin at zero.

        Args:
            shape: of the arrays of wheels.
            wheel_radius: in metres.
        """
        self._step = 2 * np.pi * wheel_radius / STEPS
        self._count = np.zeros(shape, dtype=np.int64)
        self._part = np.zeros(shape)

    def roll(self, way: FloatArray) -> None:
        """Count so many metres of each wheel's way."""
        roll_k(way.ravel(), self._step, self._part.ravel(), self._count.ravel())

    def read(self) -> IntArray:
        """Return the registers, from -32768 to 32767."""
        registers = np.empty(self._count.shape, dtype=np.int64)
        register_k(self._count.ravel(), registers.ravel())
        return registers

    @staticmethod
    def between(before: IntArray, after: IntArray) -> IntArray:
        """Return the steps between two readings, if they are less than half the register."""
        half = REGISTER // 2
        steps: IntArray = (after - before + half) % REGISTER - half
        return steps
