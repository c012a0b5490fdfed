"""Renders the images of robots' cameras in grey, with the imperfections of their lenses.

A stage renders a pinhole image. Lens distortion is applied by rendering a larger pinhole image and remapping
its pixels. Blur, vignetting and noise follow (`swarmbed_core.imaging`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from swarmbed_core.camera import CX, CY, FX, FY, HEIGHT, K1, K3, ROTATION, TX, TY, TZ, WIDTH, CameraModel
from swarmbed_core.geometry import compose

from swarmbed_sim.errors import SimError
from swarmbed_sim.stage import MOST, View

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.imaging import Imaging

    from swarmbed_sim.stage import Stage

    ByteArray = NDArray[np.uint8]

NEARLY = 0.8
"""Share of the largest image from which on the full size is rendered: clearing a part of it is slower."""
LENSES = 128
"""Size of the cache of lenses, 3 MB each: enough for more than thirty robots."""
BLURRED = 5
"""Images averaged for motion blur."""
EDGE = 1.0
"""Margin of the pinhole image around what the lens needs, in pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class _Lens:
    """How one camera's image is rendered.

    Attributes:
        left: edge of the pinhole image, as the tangent of the angle to the axis; up is positive.
        right: likewise.
        bottom: likewise.
        top: likewise.
        size: width and height of the pinhole image, in pixels.
        maps: column and row in the pinhole image of each pixel; None without distortion.
        shade: brightness of each pixel, of 255; None without vignetting.
    """

    left: float
    right: float
    bottom: float
    top: float
    size: tuple[int, int]
    maps: tuple[NDArray[np.float32], NDArray[np.float32]] | None
    shade: ByteArray | None


class Renderer:
    """Renders one scene for any camera."""

    def __init__(self, stage: Stage, imaging: Imaging, seed: np.random.SeedSequence) -> None:
        """Start with an empty cache of lenses.

        Args:
            stage: renders the pinhole images.
            imaging: the cameras' blur, vignetting, noise and exposure.
            seed: of the noise.
        """
        self._stage = stage
        self._imaging = imaging
        self._lenses: dict[bytes, _Lens] = {}
        self._rng = np.random.default_rng(seed)
        self._grain: NDArray[np.int8] | None = None

    def draw(
        self,
        camera: CameraModel,
        pose: FloatArray,
        twist: FloatArray | None = None,
        rng: np.random.Generator | None = None,
    ) -> ByteArray:
        """Return the image of a robot's camera; the stage must already be placed.

        Args:
            camera: with its true lens and its current height.
            pose: x, y, yaw of the robot in the middle of the exposure.
            twist: vx, vy, omega in the robot's frame, for motion blur; ignored with an exposure time of 0.
            rng: of the noise's position; the renderer's own by default.
        """
        rng = rng or self._rng
        lens = self._lens(camera.numbers)
        exposure = self._imaging.exposure
        if exposure == 0.0 or twist is None or not twist.any():
            return self._take(self._shoot(camera, pose, lens), lens, rng)
        shots = []
        for share in (np.arange(BLURRED) + 0.5) / BLURRED - 0.5:
            moved = np.array(twist[:3]) * (share * exposure)
            shots.append(self._shoot(camera, compose(pose[:3], moved), lens))
        return self._take(np.rint(np.mean(shots, axis=0)).astype(np.uint8), lens, rng)

    def _shoot(self, camera: CameraModel, pose: FloatArray, lens: _Lens) -> ByteArray:
        """Return the pinhole image at one instant, its first row at the bottom."""
        numbers = camera.numbers
        x, y, yaw = pose[:3].tolist()
        c, s = math.cos(yaw), math.sin(yaw)
        ahead, left, up = numbers[[TX, TY, TZ]].tolist()
        axes = numbers[ROTATION : ROTATION + 9].reshape(3, 3)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        place = (x + c * ahead - s * left, y + s * ahead + c * left, up)
        edges = (lens.left, lens.right, lens.bottom, lens.top)
        return self._stage.shoot(View(place, turn @ axes[2], -(turn @ axes[1]), *edges, lens.size))

    def _take(self, drawn: ByteArray, lens: _Lens, rng: np.random.Generator) -> ByteArray:
        """Return the camera's image from a pinhole image, which is upside down."""
        if lens.maps is None:
            image = cv2.flip(drawn, 0)
        else:
            image = cv2.remap(drawn, *lens.maps, interpolation=cv2.INTER_LINEAR)
        imaging = self._imaging
        if imaging.blur > 0:
            image = cv2.GaussianBlur(image, (0, 0) if imaging.blur > 1 else (5, 5), imaging.blur)
        if lens.shade is not None:
            image = cv2.multiply(image, lens.shade, scale=1 / 255)
        return self._noisy(image, rng) if imaging.noise > 0 else _bytes(image)

    def _noisy(self, image: Any, rng: np.random.Generator) -> ByteArray:
        """Add noise, a random crop of a larger noise image that is generated once."""
        height, width = image.shape
        if self._grain is None or self._grain.shape[0] < height + 256 or self._grain.shape[1] < width + 256:
            grain = self._rng.normal(0.0, self._imaging.noise, (height + 256, width + 256))
            self._grain = np.rint(grain).astype(np.int8)
        top, left = rng.integers(0, 256, 2).tolist()
        return _bytes(cv2.add(image, self._grain[top : top + height, left : left + width], dtype=cv2.CV_8U))

    def _lens(self, numbers: FloatArray) -> _Lens:
        """Return the lens for these intrinsics, from the cache if possible."""
        key = numbers[: K3 + 1].tobytes() + numbers[[WIDTH, HEIGHT]].tobytes()
        lens = self._lenses.pop(key, None) or self._grind(numbers)
        # Least recently used lenses come first.
        self._lenses[key] = lens
        if len(self._lenses) > LENSES:
            del self._lenses[next(iter(self._lenses))]
        return lens

    def _grind(self, numbers: FloatArray) -> _Lens:
        """Compute where in a pinhole image each pixel of a lens comes from."""
        fx, fy, cx, cy = numbers[[FX, FY, CX, CY]].tolist()
        width, height = int(numbers[WIDTH]), int(numbers[HEIGHT])
        if width > MOST[0] or height > MOST[1]:
            message = f"a camera of {width}x{height} pixels: at most {MOST[0]}x{MOST[1]} can be rendered"
            raise SimError(message)
        shade = None
        if self._imaging.vignetting > 0:
            v, u = np.mgrid[:height, :width]
            off = np.hypot(u - cx, v - cy) / math.hypot(width / 2, height / 2)
            shade = np.rint(255 * np.maximum(1 - self._imaging.vignetting * off**2, 0)).astype(np.uint8)
        if not numbers[K1 : K3 + 1].any():
            left, right = (-0.5 - cx) / fx, (width - 0.5 - cx) / fx
            bottom, top = -(height - 0.5 - cy) / fy, (0.5 + cy) / fy
            return _Lens(left, right, bottom, top, (width, height), None, shade)
        v, u = np.mgrid[:height, :width]
        pixels = np.column_stack([u.ravel(), v.ravel()]).astype(np.float64)
        rays, found = CameraModel("lens", numbers).undistort(pixels)
        x, y = rays[:, 0].reshape(height, width), rays[:, 1].reshape(height, width)
        inside = found.reshape(height, width)
        x, y = np.where(inside, x, 0.0), np.where(inside, y, 0.0)
        left, right = x.min() - EDGE / fx, x.max() + EDGE / fx
        bottom, top = -y.max() - EDGE / fy, -y.min() + EDGE / fy
        wide = min(math.ceil((right - left) * fx), MOST[0])
        high = min(math.ceil((top - bottom) * fy), MOST[1])
        if wide * high > NEARLY * MOST[0] * MOST[1]:
            wide, high = MOST
        # The pinhole image has its first row at the bottom.
        from_u = (x - left) / (right - left) * wide - 0.5
        from_v = (-y - bottom) / (top - bottom) * high - 0.5
        maps = from_u.astype(np.float32), from_v.astype(np.float32)
        return _Lens(left, right, bottom, top, (wide, high), maps, shade)

    def close(self) -> None:
        """Release the stage; other renderers continue after their stage's next `place`."""
        self._stage.close()


def _bytes(image: Any) -> ByteArray:
    """Return an OpenCV image with its actual type."""
    made: ByteArray = image
    return made
