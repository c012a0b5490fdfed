"""Renders a scene with MuJoCo's renderer, using headless OpenGL (EGL)."""

from __future__ import annotations

import ctypes.util
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from swarmbed_sim.errors import MachineError
from swarmbed_sim.looks import Looks
from swarmbed_sim.stage import MOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.calibration_target import CalibrationTarget
    from swarmbed_core.scene import Scene

    from swarmbed_sim.stage import ByteArray, Places, View

NO_GL = (
    "images cannot be rendered on this machine: {why}. Install Debian's libegl1 and libgl1 (or an NVIDIA "
    "driver), or use vision: corners, which needs no images"
)


def _open_gl() -> Any:
    """Return MuJoCo's EGL module and OpenGL's, set up for headless rendering.

    Raises:
        MachineError: this machine has no EGL.
    """
    os.environ.setdefault("MUJOCO_GL", "egl")
    os.environ.setdefault("PYOPENGL_PLATFORM", "egl")
    if ctypes.util.find_library("EGL") is None:
        raise MachineError(NO_GL.format(why="it has no EGL"))
    try:
        from mujoco import egl
        from OpenGL import GL
    except (ImportError, AttributeError, OSError) as error:
        raise MachineError(NO_GL.format(why=str(error).splitlines()[0])) from None
    return egl, GL


class MujocoStage:
    """A scene rendered by MuJoCo: a `Stage`."""

    def __init__(self, scene: Scene, targets: Sequence[CalibrationTarget] = ()) -> None:
        """Build the scene and the OpenGL context.

        Args:
            scene: to render.
            targets: calibration targets on its walls.

        Raises:
            MachineError: this machine cannot render.
        """
        import mujoco

        self._mujoco = mujoco
        egl, self._gl = _open_gl()
        self._looks = looks = Looks(scene, targets)
        try:
            self._context = egl.GLContext(*MOST)
            self._context.make_current()
            self._drawn = mujoco.MjrContext(looks.model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except Exception as error:  # noqa: BLE001 - drivers raise anything; the effect is the same
            raise MachineError(NO_GL.format(why=str(error).splitlines()[0])) from None
        self._draw_on_grey()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._drawn)
        self._scene = mujoco.MjvScene(looks.model, maxgeom=looks.model.ngeom + 100)
        for flag in ("SHADOW", "REFLECTION", "SKYBOX", "HAZE", "CULL_FACE"):
            self._scene.flags[getattr(mujoco.mjtRndFlag, f"mjRND_{flag}")] = flag == "CULL_FACE"
        self._camera = mujoco.MjvCamera()
        self._option = mujoco.MjvOption()

    def _draw_on_grey(self) -> None:
        """Use an 8-bit buffer without stencil if the driver can: twice as fast as MuJoCo's colour buffer."""
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

    def place(self, physics: Places) -> None:
        """Move everything to its current pose and make this stage's OpenGL context current."""
        self._looks.place(physics)
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

    def shoot(self, view: View) -> ByteArray:
        """Return a grey image, its first row at the bottom."""
        for eye in self._scene.camera:
            eye.pos = view.place
            eye.forward = view.forward
            eye.up = view.up
            eye.frustum_near, eye.frustum_far = view.near, view.far
            eye.frustum_bottom, eye.frustum_top = view.near * view.bottom, view.near * view.top
            eye.frustum_center = view.near * (view.left + view.right) / 2
            eye.frustum_width = view.near * (view.right - view.left) / 2
        width, height = view.size
        self._mujoco.mjr_render(self._mujoco.MjrRect(0, 0, width, height), self._scene, self._drawn)
        gl = self._gl
        image = np.empty((height, width), dtype=np.uint8)
        gl.glPixelStorei(gl.GL_PACK_ALIGNMENT, 1)
        gl.glReadPixels(0, 0, width, height, gl.GL_RED, gl.GL_UNSIGNED_BYTE, image)
        return image

    def close(self) -> None:
        """Free the graphics memory."""
        self._context.make_current()
        self._drawn.free()
        self._context.free()
