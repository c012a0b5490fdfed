"""Renders what robots' cameras see, by OpenGL without a screen (EGL), as grey images with the lens' faults.

OpenGL draws through a pinhole; a lens that bends rays is had by drawing a larger image and taking each pixel
from where its ray comes. Blur, vignetting and noise follow (`swarmbed_core.imaging`).
"""

from __future__ import annotations

import ctypes.util
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from swarmbed_core.camera import CX, CY, FX, FY, HEIGHT, K1, K3, ROTATION, TX, TY, TZ, WIDTH, CameraModel
from swarmbed_core.geometry import compose

from swarmbed_sim.errors import SimError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.imaging import Imaging

    from swarmbed_sim.looks import Looks

    ByteArray = NDArray[np.uint8]

NEAR, FAR = 0.004, 60.0
"""Metres before and behind which nothing is drawn: a tray is 30 mm above the camera below it."""
MOST = (704, 528)
"""Pixels of the largest image that can be drawn, see `looks`."""
NEARLY = 0.8
"""Share of that from which an image is drawn as large as can be: to clear a part of it is slower than all."""
LENSES = 128
"""Lenses that are kept, 3 MB each: those of more than thirty robots."""
BLURRED = 5
"""Moments of an exposure that takes time."""
EDGE = 1.0
"""Pixels by which the pinhole's image is larger than what the lens needs."""
NO_GL = (
    "images cannot be rendered on this machine: {why}. Install Debian's libegl1 and libgl1 (or an NVIDIA "
    "driver), or take vision: corners, which needs no images"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Lens:
    """How one camera's image is drawn.

    Attributes:
        left: of the pinhole's image, in tangents of the angle off the axis; up is positive.
        right: likewise.
        bottom: likewise.
        top: likewise.
        size: width and height of the pinhole's image, in pixels.
        maps: from where in it each pixel comes; None if that is its own place.
        shade: how bright each pixel is, of 255; None for no vignetting.
    """

    left: float
    right: float
    bottom: float
    top: float
    size: tuple[int, int]
    maps: tuple[NDArray[np.float32], NDArray[np.float32]] | None
    shade: ByteArray | None


def _open_gl() -> Any:
    """Return MuJoCo, ready to draw without a screen.

    Raises:
        SimError: this machine has no EGL.
    """
    os.environ.setdefault("MUJOCO_GL", "egl")
    os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
    if ctypes.util.find_library("EGL") is None:
        raise SimError(NO_GL.format(why="it has no EGL"))
    try:
        from mujoco import egl
        from OpenGL import GL
    except (ImportError, AttributeError, OSError) as error:
        raise SimError(NO_GL.format(why=str(error).splitlines()[0])) from None
    return egl, GL


class Renderer:
    """Draws one scene for any camera."""

    def __init__(self, looks: Looks, imaging: Imaging, seed: np.random.SeedSequence) -> None:
        """Begin.

        Args:
            looks: what is drawn.
            imaging: how the cameras take it.
            seed: of the noise.

        Raises:
            SimError: this machine cannot draw.
        """
        import mujoco

        self._mujoco = mujoco
        egl, self._gl = _open_gl()
        self._looks = looks
        self._imaging = imaging
        try:
            self._context = egl.GLContext(*MOST)
            self._context.make_current()
            self._drawn = mujoco.MjrContext(looks.model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except Exception as error:  # noqa: BLE001 - whatever a driver says: there is no picture
            raise SimError(NO_GL.format(why=str(error).splitlines()[0])) from None
        self._draw_on_grey()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._drawn)
        self._scene = mujoco.MjvScene(looks.model, maxgeom=looks.model.ngeom + 100)
        for flag in ("SHADOW", "REFLECTION", "SKYBOX", "HAZE", "CULL_FACE"):
            self._scene.flags[getattr(mujoco.mjtRndFlag, f"mjRND_{flag}")] = flag == "CULL_FACE"
        self._camera = mujoco.MjvCamera()
        self._option = mujoco.MjvOption()
        self._lenses: dict[bytes, _Lens] = {}
        self._rng = np.random.default_rng(seed)
        self._grain: NDArray[np.int8] | None = None

    def _draw_on_grey(self) -> None:
        """Draw on a byte a pixel and no stencil, if the driver can: twice as fast as on MuJoCo's colours."""
        gl, drawn, depth = self._gl, self._drawn, self._gl.glGenRenderbuffers(1)
        gl.glBindFramebuffer(gl.GL_FRAMEBUFFER, drawn.offFBO)
        for buffer, kind in ((drawn.offColor, gl.GL_R8), (depth, gl.GL_DEPTH_COMPONENT32F)):
            gl.glBindRenderbuffer(gl.GL_RENDERBUFFER, buffer)
            gl.glRenderbufferStorage(gl.GL_RENDERBUFFER, kind, *MOST)
        for place, buffer in ((gl.GL_DEPTH_STENCIL_ATTACHMENT, 0), (gl.GL_DEPTH_ATTACHMENT, depth)):
            gl.glFramebufferRenderbuffer(gl.GL_FRAMEBUFFER, place, gl.GL_RENDERBUFFER, buffer)
        if gl.glCheckFramebufferStatus(gl.GL_FRAMEBUFFER) != gl.GL_FRAMEBUFFER_COMPLETE:
            gl.glBindRenderbuffer(gl.GL_RENDERBUFFER, drawn.offColor)
            gl.glRenderbufferStorage(gl.GL_RENDERBUFFER, gl.GL_RGBA8, *MOST)
            place, buffer = gl.GL_DEPTH_STENCIL_ATTACHMENT, drawn.offDepthStencil
            gl.glFramebufferRenderbuffer(gl.GL_FRAMEBUFFER, place, gl.GL_RENDERBUFFER, buffer)

    def update(self) -> None:
        """Take over where everything is now; until another renderer does, this one draws."""
        self._context.make_current()
        self._mujoco.mjv_updateScene(
            self._looks.model,
            self._looks.data,
            self._option,
            None,
            self._camera,
            self._mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )

    def draw(
        self,
        camera: CameraModel,
        pose: FloatArray,
        twist: FloatArray | None = None,
        rng: np.random.Generator | None = None,
    ) -> ByteArray:
        """Return what a camera of a robot sees, `update` being the latest of what there is.

        Args:
            camera: with its true lens, at its height of now.
            pose: x, y, yaw of the robot, in the middle of the exposure.
            twist: vx, vy along its body and omega, by which the image is blurred if the exposure takes time.
            rng: of its noise, if not the renderer's own.
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
        """Return what OpenGL draws at one moment, its first row at the bottom."""
        self._aim(camera.numbers, pose, lens)
        width, height = lens.size
        self._mujoco.mjr_render(self._mujoco.MjrRect(0, 0, width, height), self._scene, self._drawn)
        gl = self._gl
        image = np.empty((height, width), dtype=np.uint8)
        gl.glPixelStorei(gl.GL_PACK_ALIGNMENT, 1)
        gl.glReadPixels(0, 0, width, height, gl.GL_RED, gl.GL_UNSIGNED_BYTE, image)
        return image

    def _take(self, drawn: ByteArray, lens: _Lens, rng: np.random.Generator) -> ByteArray:
        """Return the image that a camera makes of what was drawn, which is upside down."""
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
        """Add the noise of the exposure, from a larger sheet of it that was made before."""
        height, width = image.shape
        if self._grain is None or self._grain.shape[0] < height + 256 or self._grain.shape[1] < width + 256:
            grain = self._rng.normal(0.0, self._imaging.noise, (height + 256, width + 256))
            self._grain = np.rint(grain).astype(np.int8)
        top, left = rng.integers(0, 256, 2).tolist()
        return _bytes(cv2.add(image, self._grain[top : top + height, left : left + width], dtype=cv2.CV_8U))

    def _aim(self, numbers: FloatArray, pose: FloatArray, lens: _Lens) -> None:
        """Put the eye where the camera is."""
        x, y, yaw = pose[:3].tolist()
        c, s = math.cos(yaw), math.sin(yaw)
        ahead, left, up = numbers[[TX, TY, TZ]].tolist()
        axes = numbers[ROTATION : ROTATION + 9].reshape(3, 3)
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        for eye in self._scene.camera:
            eye.pos = (x + c * ahead - s * left, y + s * ahead + c * left, up)
            eye.forward = turn @ axes[2]
            eye.up = -(turn @ axes[1])
            eye.frustum_near, eye.frustum_far = NEAR, FAR
            eye.frustum_bottom, eye.frustum_top = NEAR * lens.bottom, NEAR * lens.top
            eye.frustum_center = NEAR * (lens.left + lens.right) / 2
            eye.frustum_width = NEAR * (lens.right - lens.left) / 2

    def _lens(self, numbers: FloatArray) -> _Lens:
        """Return how a camera with these intrinsics is drawn."""
        key = numbers[: K3 + 1].tobytes() + numbers[[WIDTH, HEIGHT]].tobytes()
        lens = self._lenses.pop(key, None) or self._grind(numbers)
        # The one that was used last stands last.
        self._lenses[key] = lens
        if len(self._lenses) > LENSES:
            del self._lenses[next(iter(self._lenses))]
        return lens

    def _grind(self, numbers: FloatArray) -> _Lens:
        """Work out from where in a pinhole's image each pixel comes."""
        fx, fy, cx, cy = numbers[[FX, FY, CX, CY]].tolist()
        width, height = int(numbers[WIDTH]), int(numbers[HEIGHT])
        if width > MOST[0] or height > MOST[1]:
            message = f"a camera of {width}x{height} pixels: up to {MOST[0]}x{MOST[1]} can be rendered"
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
        # What is drawn has its first row at the bottom.
        from_u = (x - left) / (right - left) * wide - 0.5
        from_v = (-y - bottom) / (top - bottom) * high - 0.5
        maps = from_u.astype(np.float32), from_v.astype(np.float32)
        return _Lens(left, right, bottom, top, (wide, high), maps, shade)

    def close(self) -> None:
        """Give the graphics memory back; other renderers go on with `update`."""
        self._context.make_current()
        self._drawn.free()
        self._context.free()


def _bytes(image: Any) -> ByteArray:
    """Return an image of OpenCV's as what it is."""
    made: ByteArray = image
    return made
