"""Synthetic pictures of a calibration target through a known lens, for tests and accuracy measurements.

Each pixel is traced to the target's plane with 3 x 3 rays. Neither a renderer nor the calibration's own
projection is involved, so the pictures are an independent check.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from swarmbed_core.calibration_target import Sight, View
from swarmbed_core.camera import HEIGHT, WIDTH, CameraCalibration, CameraModel, undistort_k
from swarmbed_core.errors import MarkerError
from swarmbed_core.geometry import rotate
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from swarmbed_core.calibration_target import CalibrationTarget
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Camera

    Image = NDArray[np.uint8]

RAYS = 3
TEXTURE = 32
FLOOR, WALL, BEYOND = 90, 190, 140


def random_lens(camera: Camera, rng: np.random.Generator) -> CameraCalibration:
    """Return random intrinsics with the spread of cheap cameras that do not fold the image over."""
    focal = camera.width / 2 / math.tan(camera.horizontal_fov / 2)
    while True:
        lens = CameraCalibration(
            version=1,
            width=camera.width,
            height=camera.height,
            fx=focal * rng.uniform(0.97, 1.03),
            fy=focal * rng.uniform(0.97, 1.03),
            cx=(camera.width - 1) / 2 + rng.uniform(-10, 10),
            cy=(camera.height - 1) / 2 + rng.uniform(-10, 10),
            distortion=(
                rng.uniform(-0.05, 0.05),
                rng.uniform(-0.02, 0.02),
                rng.uniform(-0.001, 0.001),
                rng.uniform(-0.001, 0.001),
                0.0,
            ),
        )
        try:
            CameraModel.from_spec(camera.model_copy(update={"on_lifter": False}), None, lens)
        except MarkerError:
            continue
        return lens


def make_views(
    target: CalibrationTarget,
    model: CameraModel,
    believed: Sequence[FloatArray],
    rng: np.random.Generator,
    *,
    corner_px: float = 0.08,
    odometry: tuple[float, float] = (0.01, math.radians(0.5)),
) -> list[View]:
    """Return views with noisy corners, without rendering pictures.

    Args:
        target: the target in view.
        model: the true camera.
        believed: the robot's poses by odometry.
        rng: for the noise.
        corner_px: standard deviation of a corner along u and along v, in pixels.
        odometry: standard deviations of the robot's position (m, per axis) and yaw (rad).
    """
    views = []
    corners = target.corners()
    for pose in believed:
        x, y, yaw = pose + rng.normal(size=3) * (odometry[0], odometry[0], odometry[1])
        seen = rotate(corners[:, :2] - (x, y), -yaw)
        pixels, visible = model.project(np.column_stack([seen, corners[:, 2]]))
        noisy = pixels[visible] + rng.normal(0.0, corner_px, (int(visible.sum()), 2))
        views.append(View(np.array(pose), Sight(np.flatnonzero(visible), noisy)))
    return views


class Photographer:
    """Takes pictures of a target with one camera."""

    def __init__(
        self, target: CalibrationTarget, model: CameraModel, *, wall_height: float = 0.5, rays: int = RAYS
    ) -> None:
        """Compute the rays of the camera's pixels once, for all pictures.

        Args:
            target: the target in the pictures.
            model: the true camera.
            wall_height: of the wall that the target hangs on, in metres.
            rays: per pixel, along its width and along its height.
        """
        self.target, self.model, self.wall_height, self.rays = target, model, wall_height, rays
        width, height = int(model.numbers[WIDTH]), int(model.numbers[HEIGHT])
        offsets = (np.arange(rays) + 0.5) / rays - 0.5
        u = (np.arange(width)[:, None] + offsets).ravel()
        v = (np.arange(height)[:, None] + offsets).ravel()
        flat = np.empty((len(v), len(u), 2))
        _undistort_grid_k(model.numbers, u, v, flat)
        rays_camera = np.concatenate([flat, np.ones((*flat.shape[:2], 1))], axis=2).reshape(-1, 3)
        self.directions = np.ascontiguousarray((rays_camera @ model.rotation).T, dtype=np.float32)
        self.shape = (len(v), len(u))
        self.texture = target.picture(TEXTURE)

    def picture(
        self,
        pose_map: ArrayLike,
        rng: np.random.Generator | None = None,
        *,
        noise: float = 2.5,
        blur: float = 0.5,
    ) -> Image:
        """Return the camera's picture with the robot at a pose.

        Args:
            pose_map: the robot's true pose.
            rng: for the noise; without one the picture is noiseless.
            noise: standard deviation in grey levels.
            blur: standard deviation in pixels.
        """
        target = self.target
        x, y, yaw = np.asarray(pose_map, dtype=np.float64).tolist()
        # The target's frame: x out of its face, y to the right as seen by the camera.
        turn = yaw - target.yaw
        c, s = math.cos(turn), math.sin(turn)
        lens = rotate(self.model.position[:2], turn) + rotate(
            (x - target.position[0], y - target.position[1]), -target.yaw
        )
        ahead, left, rise = self.directions
        toward = np.float32(c) * ahead - np.float32(s) * left
        aside = np.float32(s) * ahead + np.float32(c) * left
        # Rays that point away from the wall count as meeting it far away; `hit` excludes them.
        reach = np.float32(-lens[0]) / np.minimum(toward, np.float32(-1e-6))
        right = np.float32(lens[1]) + reach * aside
        up = np.float32(self.model.position[2]) + reach * rise
        hit = (toward < 0) & (up > 0) & (up < self.wall_height)
        grey = np.where(rise < 0, np.uint8(FLOOR), np.uint8(BEYOND))
        grey[hit] = WALL
        on = hit & (np.abs(right) < target.width / 2)
        on &= np.abs(up - np.float32(target.position[2])) < target.height / 2
        scale = np.float32(TEXTURE / target.square)
        columns = np.where(
            on, (right + np.float32(target.width / 2)) * scale - np.float32(0.5), np.float32(-9)
        )
        top = np.float32(target.position[2] + target.height / 2)
        rows = np.where(on, (top - up) * scale - np.float32(0.5), np.float32(-9))
        seen = cv2.remap(
            self.texture,
            columns.reshape(self.shape),
            rows.reshape(self.shape),
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )
        fine = np.where(on.reshape(self.shape), seen, grey.reshape(self.shape))
        size = self.shape[1] // self.rays, self.shape[0] // self.rays
        # Paper is not fully white, ink not fully black.
        coarse: NDArray[Any] = 25.0 + 0.8 * cv2.resize(fine, size, interpolation=cv2.INTER_AREA).astype(
            np.float64
        )
        if blur > 0:
            coarse = cv2.GaussianBlur(coarse, (0, 0), blur)
        if rng is not None:
            coarse = coarse + rng.normal(0.0, noise, coarse.shape)
        picture: Image = np.clip(np.rint(coarse), 0, 255).astype(np.uint8)
        return picture


@kernel
def _undistort_grid_k(camera: FloatArray, u: FloatArray, v: FloatArray, flat: FloatArray) -> None:
    for i in range(v.shape[0]):
        for j in range(u.shape[0]):
            x, y, _ = undistort_k(camera, u[j], v[i])
            flat[i, j, 0], flat[i, j, 1] = x, y
