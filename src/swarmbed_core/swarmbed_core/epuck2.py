"""The e-puck2's senses in the units that the robot gives them in.

"Design and analysis of an E-Puck2 robot plug-in for ARGoS" has the response curves: proximity by equation
(1), light by equation (2), the floor's grey, the time-of-flight sensor's millimetres, and encoders that count
steps in 16 bits. All work on whole arrays; none of them errs: noise is added to what goes in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray

    IntArray = NDArray[np.int64]

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


def proximity(distance: FloatArray) -> IntArray:
    """Return what proximity sensors read of something so many metres away: equation (1), from 0 to 4095."""
    share = np.minimum(1.0, A * distance**2 + B * distance + C)
    return _whole(FULL * np.where((distance >= 0) & (distance <= NEAR), np.maximum(share, 0.0), 0.0))


def light(intensity: FloatArray, distance: FloatArray) -> IntArray:
    """Return what light sensors read of the light of a source: equation (2), 4095 in the dark, 0 if blinded.

    Args:
        intensity: of the source.
        distance: of it, in metres.
    """
    near = np.maximum(distance, 1e-9)
    share = np.maximum(0.0, 1.0 - (GAMMA * intensity / near) ** 2)
    return _whole(FULL * np.where(distance <= FAR, share, 1.0))


def ground(grey: FloatArray) -> IntArray:
    """Return what ground sensors read of a floor, from 0 for black to 1023 for white."""
    return _whole(WHITE * np.clip(grey, 0.0, 1.0))


def time_of_flight(distance: FloatArray) -> IntArray:
    """Return what the time-of-flight sensor reads, in millimetres; where nothing is, as far as it sees."""
    return _whole(np.clip(1000.0 * np.where(np.isnan(distance), np.inf, distance), TOF_LEAST, TOF_MOST))


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
        self._part += way / self._step
        # What is a step but for the last digits is one.
        whole = np.trunc(self._part + np.copysign(1e-9, self._part))
        self._count += whole.astype(np.int64)
        self._part -= whole

    def read(self) -> IntArray:
        """Return the registers, from -32768 to 32767."""
        half = REGISTER // 2
        registers: IntArray = (self._count + half) % REGISTER - half
        return registers

    @staticmethod
    def between(before: IntArray, after: IntArray) -> IntArray:
        """Return the steps between two readings, if they are less than half the register."""
        half = REGISTER // 2
        steps: IntArray = (after - before + half) % REGISTER - half
        return steps
