"""What draws a scene: the one part of images that an engine does, through an ideal pinhole and without noise.

MuJoCo's is `mujoco_stage`. Lenses, blur, vignetting, noise and exposure are `render`'s, whoever draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray

    ByteArray = NDArray[np.uint8]

NEAR: Final = 0.004
FAR: Final = 60.0
"""Metres before and behind which nothing is drawn: a tray is 30 mm above the camera below it."""
MOST: Final = (704, 528)
"""Pixels of the largest image that can be drawn."""


class Places(Protocol):
    """Where things are; a `Physics` says it of what it moves.

    Attributes:
        poses: of the robots, rows x, y, yaw.
        heights: of their platforms.
        carrier_poses: of the carriers.
        carrier_lifts: of their feet.
    """

    poses: FloatArray
    heights: FloatArray
    carrier_poses: FloatArray
    carrier_lifts: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What is to be drawn.

    Attributes:
        place: of the pinhole, in `map`.
        forward: where it looks, of length 1.
        up: the image's up, of length 1 and square to that.
        left: of the image, in tangents of the angle off the axis; up is positive.
        right: likewise.
        bottom: likewise.
        top: likewise.
        size: width and height in pixels.
        near: metres ahead before which nothing is drawn.
        far: metres ahead behind which nothing is.
    """

    place: tuple[float, float, float]
    forward: FloatArray
    up: FloatArray
    left: float
    right: float
    bottom: float
    top: float
    size: tuple[int, int]
    near: float = NEAR
    far: float = FAR


class Stage(Protocol):
    """A scene that can be drawn."""

    def place(self, physics: Places) -> None:
        """Put everything where it is; until another stage does so, this one draws."""
        ...

    def shoot(self, view: View) -> ByteArray:
        """Return a grey image, its first row at the bottom."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...
