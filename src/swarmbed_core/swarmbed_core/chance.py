"""The streams of chance of a run, by name: all come from its one seed, and none shifts another.

The numbers below are in the seeds of every run: a number that changes changes all results.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Who has a stream of a run's chance."""

    SCENE = 0
    """Where things stand."""
    WORLD = 1
    """The noise of all parts of all robots: see `PartStream`."""
    PROGRAMS = 2
    """The robots' programs, one each; a crowd's has the stream itself."""
    GENERATORS = 3
    """The frame's generators, one each."""


class PartStream(IntEnum):
    """Which of a robot's parts has a stream of its own within the world's.

    A ring has `RINGS` plus its number. A part that is new goes to the end: it shifts nothing there.
    """

    WHEELS = 0
    IMU = 1
    COMPASS = 2
    CAMERAS = 3
    RINGS = 4
    WATCHED_IMAGES = 1000
    WATCHED_MARKERS = 1001


def stream(seed: int, name: Stream, *numbers: int) -> np.random.SeedSequence:
    """Return a run's stream, or the one that somebody of this number has in it."""
    return np.random.SeedSequence(seed, spawn_key=(name, *numbers))


def within(source: np.random.SeedSequence, *numbers: int) -> np.random.SeedSequence:
    """Return the stream of these numbers within another one, whichever others were taken from it."""
    return np.random.SeedSequence(source.entropy, spawn_key=(*source.spawn_key, *numbers))
