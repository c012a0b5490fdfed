"""The interface to rendering engines, which draw a scene through an ideal pinhole and without noise.

`mujoco_stage` implements it with MuJoCo. Lenses, blur, vignetting, noise and exposure are added by `render`,
for any engine.
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
"""Distances of the near and far clipping planes in metres: a tray is 30 mm above the camera below it."""
MOST: Final = (704, 528)
"""Width and height of the largest image that can be rendered, in pixels."""


class Places(Protocol):
    """Poses of everything that moves; every `Physics` has them.

    Attributes:
        poses: of the robots, rows x, y, yaw.
        heights: of their platforms above the floor.
        carrier_poses: of the carriers, rows x, y, yaw.
        carrier_lifts: of their feet above the floor.
    """

    poses: FloatArray
    heights: FloatArray
    carrier_poses: FloatArray
    carrier_lifts: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A pinhole camera.

    Attributes:
        place: position of the pinhole in `map`.
        forward: unit vector of the optical axis.
        up: unit vector of the image's up direction, perpendicular to `forward`.
        left: edge of the image, as the tangent of the angle to the axis; up is positive.
        right: likewise.
        bottom: likewise.
        top: likewise.
        size: width and height in pixels.
        near: distance of the near clipping plane in metres.
        far: distance of the far clipping plane in metres.
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
    """A scene that can be rendered."""

    def place(self, physics: Places) -> None:
        """Move everything to its current pose; the stage placed last is the one that can `shoot`."""
        ...

    def shoot(self, view: View) -> ByteArray:
        """Return a grey image, its first row at the bottom."""
        ...

    def close(self) -> None:
        """Release the engine's resources."""
        ...
