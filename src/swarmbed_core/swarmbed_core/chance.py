"""A run's random number streams, by name: all derive from its one seed and are independent of each other.

The numbers below are part of every run's seeds: changing one changes all results.
"""

from __future__ import annotations

import zlib
from enum import IntEnum

import numpy as np

UNNAMED = 1_000_000
"""Numbers of parts below this are those of `PartStream`."""


class Stream(IntEnum):
    """The users of a run's random streams."""

    SCENE = 0
    """The placement of objects."""
    WORLD = 1
    """The noise of all parts of all robots: see `PartStream`."""
    PROGRAMS = 2
    """The robots' programs, one substream each; a crowd's program uses the stream itself."""
    GENERATORS = 3
    """The frame's generators, one substream each."""


class PartStream(IntEnum):
    """The robot's parts that have a substream of their own in the world's.

    A range ring has `RINGS` plus its index. New parts need no number here: see `part_number`.
    """

    WHEELS = 0
    IMU = 1
    COMPASS = 2
    CAMERAS = 3
    RINGS = 4
    WATCHED_IMAGES = 1000
    WATCHED_MARKERS = 1001
    POSITION = 1002
    GROUND = 1003
    LIGHT = 1004
    SPOTS = 1005
    """A camera has `SPOTS` plus its index."""


def part_number(name: str) -> int:
    """Return the number of the substream of a part that `PartStream` does not name."""
    return UNNAMED + zlib.crc32(name.encode())


def stream(seed: int, name: Stream, *numbers: int) -> np.random.SeedSequence:
    """Return a run's stream of this name, or with `numbers` a substream of it."""
    return np.random.SeedSequence(seed, spawn_key=(name, *numbers))


def within(source: np.random.SeedSequence, *numbers: int) -> np.random.SeedSequence:
    """Return the substream of `source` with these numbers, independent of any others taken from it."""
    return np.random.SeedSequence(source.entropy, spawn_key=(*source.spawn_key, *numbers))
