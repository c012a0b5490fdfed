"""Senses in a robot's own units, for robots whose file names `readings`.

The name is that of two plugins: one of `swarmbed.crowd_readings` computes the readings of crowds, one of
`swarmbed.readings` converts the `Senses` of single robots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from swarmbed_core.plugins import READINGS, find_plugin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Senses
    from swarmbed_core.spec import RobotSpec

    IntArray = NDArray[np.int64]
    ByteArray = NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Blobs:
    """The lights that cameras see; those of robot i are the rows `first[i]` to `first[i + 1]`.

    Attributes:
        first: row indices, one more than there are robots.
        pixels: (column, row) of each light, from the left and the top.
        colours: (red, green, blue) of each light, 0 to 255.
    """

    first: IntArray
    pixels: FloatArray
    colours: ByteArray


@dataclass(slots=True, eq=False)
class Readings:
    """Senses in the robots' own units, a row for each robot; None for senses that are off or missing.

    The arrays belong to the world. Only `leds` is writable. Numbers are those of the e-puck2, whose tables
    give the order of lights and sensors.

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


class ReadingsOf(Protocol):
    """A plugin of `swarmbed.readings`."""

    def __call__(self, senses: Senses, spec: RobotSpec, leds: ByteArray) -> Readings:
        """Return the readings of one robot as arrays with one row; `leds` are its lights, likewise."""
        ...


def readings_of(spec: RobotSpec) -> ReadingsOf | None:
    """Return what converts the senses of this kind of robot; None if it has no units of its own.

    Raises:
        ConfigError: there is no plugin of the name in the robot's file.
    """
    return None if spec.readings is None else cast("ReadingsOf", find_plugin(READINGS, spec.readings))


def dark(spec: RobotSpec, count: int) -> ByteArray:
    """Return the `leds` of `count` robots, all off."""
    return np.zeros((count, 0 if spec.leds is None else spec.leds.count, 3), dtype=np.uint8)
