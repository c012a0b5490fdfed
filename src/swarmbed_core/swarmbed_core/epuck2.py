"""The e-puck2's senses in the robot's own units: `readings: epuck2`.

The response curves are those of "Design and analysis of an E-Puck2 robot plug-in for ARGoS": proximity by
equation (1), light by equation (2), the floor's grey, the time-of-flight distance in millimetres, and 16-bit
encoders. All functions take whole arrays and are free of noise; add noise to their inputs.
`readings_of` converts the senses of one robot; `swarmbed_sim.epuck2` computes those of crowds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.geometry import GRAVITY
from swarmbed_core.kernel import kernel
from swarmbed_core.lamps import dimming_k
from swarmbed_core.readings import Blobs, Readings

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.readings import ByteArray, IntArray
    from swarmbed_core.robot import Senses
    from swarmbed_core.spec import RobotSpec

A, B, C = 197.8633, -30.47182, 1.011635
"""Coefficients of equation (1), fitted to the largest readings (4.1.1)."""
OLD_A, OLD_B, OLD_C = 298.701, -36.8961, 1.08212
"""The same for the e-puck, version 1."""
NEAR = 0.05
"""Range of the proximity sensors, in metres."""
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
MOST = 32767
"""Largest reading of the inertial sensor: a signed 16-bit number."""
GRAVITY_COUNTS = 16384.0
"""The accelerometer's counts for 1 g, those of a common part: 16 bits for +-2 g."""
TURN_COUNTS = 131.0
"""The gyroscope's counts for 1 deg/s, those of a common part: 16 bits for +-250 deg/s."""


@kernel
def proximity_k(distances: FloatArray, out: IntArray) -> None:
    """Write the proximity readings of distances in metres: equation (1)."""
    for i in range(distances.shape[0]):
        d = distances[i]
        out[i] = 0
        if 0.0 <= d <= NEAR:
            out[i] = int(np.rint(FULL * max(min(1.0, A * d * d + B * d + C), 0.0)))


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
def ground_k(greys: FloatArray, out: IntArray) -> None:
    """Write the ground sensors' readings of grey levels in 0..1."""
    for i in range(greys.shape[0]):
        out[i] = int(np.rint(WHITE * min(max(greys[i], 0.0), 1.0)))


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
    out = np.empty(grey.shape, dtype=np.int64)
    ground_k(grey.ravel(), out.ravel())
    return out


def time_of_flight(distance: FloatArray) -> IntArray:
    """Return the time-of-flight readings of distances in metres, in millimetres, clamped to its range."""
    out = np.empty(distance.shape, dtype=np.int64)
    tof_k(distance.ravel(), out.ravel())
    return out


def counts(value: FloatArray, unit: float) -> IntArray:
    """Return the inertial sensor's readings, at `unit` counts per 1."""
    return _whole(np.clip(unit * value, -MOST, MOST))


def readings_of(senses: Senses, spec: RobotSpec, leds: ByteArray) -> Readings:
    """Return the readings of one robot, in arrays with one row; `leds` are its lights.

    Unlike in a crowd, encoders count how far the wheels rolled on the floor, and the inertial sensor's
    reading is the newest one instead of the mean over a tick.
    """
    made = Readings(leds)
    if "proximity" in senses.ranges:
        made.proximity = proximity(senses.ranges["proximity"])[None]
    if "tof" in senses.ranges:
        made.tof = time_of_flight(senses.ranges["tof"])
    if senses.light is not None:
        made.light = _whole(FULL * (1.0 - senses.light))[None]
    if senses.ground is not None:
        made.ground = ground(senses.ground)[None]
    if senses.wheel_travel is not None:
        # The tolerance counts a step that rounding leaves incomplete.
        steps = senses.wheel_travel * STEPS / (2 * np.pi * spec.drive.wheels.radius)
        total = np.trunc(steps + np.copysign(1e-9, steps)).astype(np.int64)
        made.encoders = np.empty((1, len(total)), dtype=np.int64)
        register_k(total, made.encoders[0])
    if senses.imu is not None:
        made.acceleration = counts(np.array([senses.imu.accel]), GRAVITY_COUNTS / GRAVITY)
        made.turning = counts(np.array([senses.imu.gyro]), TURN_COUNTS * 180.0 / math.pi)
    spots = senses.spots.get(spec.cameras[0].name) if spec.cameras else None
    if spots is not None:
        first = np.array([0, len(spots)])
        made.camera = Blobs(first, spots[:, :2], spots[:, 2:].clip(0, 255).astype(np.uint8))
    if senses.battery is not None:
        made.battery = np.array([senses.battery.state_of_charge])
    return made


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
