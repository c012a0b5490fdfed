"""Calibrated cameras: from the robot's frame to pixels and back (DOTS paper, III-A4).

The body frame is base_link, on the floor under the robot's centre: x forward, y left, z up. A camera's
optical frame has z along its view, x to the right and y down in the image. Pixel coordinates (0, 0) are the
centre of the top left pixel. The lens model has the usual five coefficients k1, k2, p1, p2, k3.

Kernels take a camera as one flat array (`CameraModel.numbers`), so that worlds can put the cameras of
thousands of robots into the rows of a matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from swarmbed_core.config import ConfigFile
from swarmbed_core.errors import MarkerError
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Camera, CameraLatency, Lifter, RobotSpec

    BoolArray = NDArray[np.bool_]

# Indices into the array of a camera.
FX, FY, CX, CY = 0, 1, 2, 3
K1, K2, P1, P2, K3 = 4, 5, 6, 7, 8
RADIUS2_MAX = 9
TX, TY, TZ = 10, 11, 12
ROTATION = 13
WIDTH, HEIGHT, SIGMA = 22, 23, 24
CAMERA_NUMBERS = 25
# The first of them, fx, fy, cx, cy, k1, k2, p1, p2, k3, come from a calibration.
LENS_NUMBERS = 9

# [m] Points with less depth than this have no image.
NEAR = 1e-3
# Lower bound of a spec's corner noise: no detector is more accurate.
SIGMA_MIN_PX = 0.05
# The shortest side of a marker in an image that the detector reads.
MARKER_SIDE_MIN_PX = 12.0
# The radius (tangent of the angle off the axis) up to which a lens is checked: 84 deg.
_RADIUS_LIMIT = 10.0
_UNDISTORT_STEPS = 30
_UNDISTORT_TOLERANCE = 1e-13


Intrinsics = tuple[float, float, float, float, float, float, float, float, float]


class CameraCalibration(ConfigFile):
    """Intrinsics of one real camera, as a calibration run measured them (DOTS paper, III-A4b).

    `unsure` holds the uncertainty: independent errors of the lens, each one standard deviation of fx, fy, cx,
    cy, k1, k2, p1, p2, k3. Without any the lens counts as exact.
    """

    FOLDER: ClassVar[str] = "config/cameras"

    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]
    fx: Annotated[float, Field(gt=0)]
    fy: Annotated[float, Field(gt=0)]
    cx: float
    cy: float
    distortion: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    unsure: Annotated[tuple[Intrinsics, ...], Field(max_length=LENS_NUMBERS)] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CameraModel:
    """One camera on the robot.

    Attributes:
        name: as in the robot's spec.
        numbers: intrinsics, pose in the body frame, size, noise; indexed by this module's constants.
        lowered: for a camera on the lifter, the lifter height at which `numbers` hold, else None.
        unsure: (m, 9), the m independent lens errors of the `CameraCalibration`.
    """

    name: str
    numbers: FloatArray
    lowered: float | None = None
    unsure: FloatArray = field(default_factory=lambda: np.zeros((0, LENS_NUMBERS)))

    @classmethod
    def from_spec(
        cls,
        camera: Camera,
        lifter: Lifter | None = None,
        calibration: CameraCalibration | None = None,
    ) -> CameraModel:
        """Return the camera of a spec, ideal or with a calibrated lens.

        Args:
            camera: its mounting and field of view.
            lifter: the lifter, for a camera on it.
            calibration: its measured intrinsics; without, a pinhole with the spec's field of view.

        Raises:
            MarkerError: the calibration is for another image size or folds the image over, or there is no
                lifter for a camera on the lifter.
        """
        if camera.on_lifter and lifter is None:
            message = f"camera {camera.name} is on the lifter, but no lifter is given: pass the spec's lifter"
            raise MarkerError(message)
        if calibration is None:
            focal = camera.width / 2 / math.tan(camera.horizontal_fov / 2)
            calibration = CameraCalibration(
                version=1,
                width=camera.width,
                height=camera.height,
                fx=focal,
                fy=focal,
                cx=(camera.width - 1) / 2,
                cy=(camera.height - 1) / 2,
            )
        elif (calibration.width, calibration.height) != (camera.width, camera.height):
            message = (
                f"camera {camera.name}: calibrated at {calibration.width}x{calibration.height}, its images "
                f"are {camera.width}x{camera.height}: calibrate at this size"
            )
            raise MarkerError(message)
        numbers = np.zeros(CAMERA_NUMBERS)
        numbers[[FX, FY, CX, CY]] = calibration.fx, calibration.fy, calibration.cx, calibration.cy
        numbers[K1 : K3 + 1] = calibration.distortion
        numbers[RADIUS2_MAX] = usable_radius(camera.name, calibration) ** 2
        numbers[[TX, TY, TZ]] = camera.x, camera.y, camera.z
        numbers[ROTATION : ROTATION + 9] = _optical_axes(camera.yaw, camera.pitch).ravel()
        numbers[[WIDTH, HEIGHT]] = camera.width, camera.height
        numbers[SIGMA] = max(camera.corner_sigma_px, SIGMA_MIN_PX)
        numbers.flags.writeable = False
        lowered = lifter.lowered if camera.on_lifter and lifter is not None else None
        unsure = np.array(calibration.unsure, dtype=np.float64).reshape(-1, LENS_NUMBERS)
        unsure.flags.writeable = False
        return cls(camera.name, numbers, lowered, unsure)

    @property
    def rotation(self) -> FloatArray:
        """Return the 3x3 matrix that turns vectors of the body frame into the optical frame."""
        return self.numbers[ROTATION : ROTATION + 9].reshape(3, 3)

    @property
    def position(self) -> FloatArray:
        """Return the position of the lens in the body frame."""
        return self.numbers[TX : TZ + 1]

    def at_lifter_height(self, height: float) -> CameraModel:
        """Return this camera with the lifter at a height above the floor; unchanged if not on the lifter."""
        if self.lowered is None:
            return self
        numbers = self.numbers.copy()
        numbers[TZ] += height - self.lowered
        numbers.flags.writeable = False
        return CameraModel(self.name, numbers, height, self.unsure)

    def project(self, points_body: ArrayLike) -> tuple[FloatArray, BoolArray]:
        """Return the pixels (n, 2) of points (n, 3) and which of them are in the image.

        Points behind the lens, or outside the lens's usable radius, get pixel (-1, -1).
        """
        points = np.ascontiguousarray(points_body, dtype=np.float64).reshape(-1, 3)
        pixels = np.empty((len(points), 2))
        visible = np.empty(len(points), dtype=np.bool_)
        project_points_k(self.numbers, points, pixels, visible)
        return pixels, visible

    def undistort(self, pixels: ArrayLike) -> tuple[FloatArray, BoolArray]:
        """Return the points (n, 2) where the pixels' rays cross the plane at depth 1, and which have a ray.

        Pixels without a ray lie far outside the image and get (0, 0).
        """
        given = np.ascontiguousarray(pixels, dtype=np.float64).reshape(-1, 2)
        rays = np.empty_like(given)
        found = np.empty(len(given), dtype=np.bool_)
        undistort_points_k(self.numbers, given, rays, found)
        return rays, found


def latency_of(table: Iterable[CameraLatency], rate: float, cameras: int) -> tuple[float, float]:
    """Return mean and sigma for a refresh rate and a number of cameras: the nearest entry of Table II."""
    rows = sorted(table, key=lambda row: (abs(row.refresh_hz - rate), abs(row.cameras - cameras)))
    return (rows[0].mean, rows[0].sigma) if rows else (0.0, 0.0)


def cameras_of(
    spec: RobotSpec, calibrations: Mapping[str, CameraCalibration] | None = None
) -> dict[str, CameraModel]:
    """Return a robot's cameras by name; those without a calibration are ideal.

    Raises:
        MarkerError: a calibration names an unknown camera or does not fit its camera.
    """
    known = calibrations or {}
    strangers = known.keys() - {camera.name for camera in spec.cameras}
    if strangers:
        names = ", ".join(camera.name for camera in spec.cameras) or "none"
        message = f"calibration for unknown camera {min(strangers)}, but {spec.kind} has {names}"
        raise MarkerError(message)
    return {
        camera.name: CameraModel.from_spec(camera, spec.lifter, known.get(camera.name))
        for camera in spec.cameras
    }


def _optical_axes(yaw: float, pitch: float) -> FloatArray:
    """Return the camera's right, down and forward axes as rows in the body frame."""
    forward = np.array([math.cos(yaw) * math.cos(pitch), math.sin(yaw) * math.cos(pitch), math.sin(pitch)])
    right = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
    return np.stack([right, np.cross(forward, right), forward])


def usable_radius(name: str, calibration: CameraCalibration) -> float:
    """Return the radius up to which the lens maps one to one.

    Raises:
        MarkerError: the radius does not cover the whole image.
    """
    k1, k2, _, _, k3 = calibration.distortion
    radius = np.linspace(0.0, _RADIUS_LIMIT, 10_001)
    square = radius**2
    slope = 1 + square * (3 * k1 + square * (5 * k2 + square * 7 * k3))
    folds = np.flatnonzero(slope <= 0)
    usable = float(radius[folds[0] - 1]) if len(folds) else _RADIUS_LIMIT
    reach = usable * (1 + usable**2 * (k1 + usable**2 * (k2 + usable**2 * k3)))
    corner = math.hypot(
        max(calibration.cx, calibration.width - 1 - calibration.cx) / calibration.fx,
        max(calibration.cy, calibration.height - 1 - calibration.cy) / calibration.fy,
    )
    if reach < corner:
        message = (
            f"camera {name}: its distortion {calibration.distortion} folds the image over at "
            f"{reach / corner:.0%} of the way to the corner; calibrate with targets near the corners"
        )
        raise MarkerError(message)
    return usable


@kernel
def distort_k(camera: FloatArray, x: float, y: float) -> tuple[float, float]:
    """Return the distorted coordinates of a ray through (x, y) of the plane at depth 1."""
    r2 = x * x + y * y
    radial = 1.0 + r2 * (camera[K1] + r2 * (camera[K2] + r2 * camera[K3]))
    xd = x * radial + 2.0 * camera[P1] * x * y + camera[P2] * (r2 + 2.0 * x * x)
    yd = y * radial + camera[P1] * (r2 + 2.0 * y * y) + 2.0 * camera[P2] * x * y
    return xd, yd


@kernel
def distort_slope_k(camera: FloatArray, x: float, y: float) -> tuple[float, float, float]:
    """Return the derivatives dxd/dx, dxd/dy = dyd/dx and dyd/dy of `distort_k`."""
    r2 = x * x + y * y
    radial = 1.0 + r2 * (camera[K1] + r2 * (camera[K2] + r2 * camera[K3]))
    change = camera[K1] + r2 * (2.0 * camera[K2] + 3.0 * r2 * camera[K3])
    xx = radial + 2.0 * x * x * change + 2.0 * camera[P1] * y + 6.0 * camera[P2] * x
    xy = 2.0 * x * y * change + 2.0 * camera[P1] * x + 2.0 * camera[P2] * y
    yy = radial + 2.0 * y * y * change + 6.0 * camera[P1] * y + 2.0 * camera[P2] * x
    return xx, xy, yy


@kernel
def lens_slope_k(camera: FloatArray, x: float, y: float, slope: FloatArray) -> None:
    """Fill `slope` (2, `LENS_NUMBERS`): derivatives of the pixel of ray (x, y) by the lens's numbers."""
    fx, fy = camera[FX], camera[FY]
    r2 = x * x + y * y
    slope[:] = 0.0
    slope[0, FX], slope[1, FY] = distort_k(camera, x, y)
    slope[0, CX] = slope[1, CY] = 1.0
    slope[0, K1], slope[1, K1] = fx * x * r2, fy * y * r2
    slope[0, K2], slope[1, K2] = fx * x * r2 * r2, fy * y * r2 * r2
    slope[0, P1], slope[1, P1] = 2.0 * fx * x * y, fy * (r2 + 2.0 * y * y)
    slope[0, P2], slope[1, P2] = fx * (r2 + 2.0 * x * x), 2.0 * fy * x * y
    slope[0, K3], slope[1, K3] = fx * x * r2 * r2 * r2, fy * y * r2 * r2 * r2


@kernel
def undistort_k(camera: FloatArray, u: float, v: float) -> tuple[float, float, bool]:
    """Return the point where the ray of a pixel crosses the plane at depth 1, and whether there is a ray.

    Newton's method from the distorted point. A step that leaves the usable radius or increases the error is
    halved.
    """
    xd = (u - camera[CX]) / camera[FX]
    yd = (v - camera[CY]) / camera[FY]
    if not (math.isfinite(xd) and math.isfinite(yd)):
        return 0.0, 0.0, False
    r2_max = camera[RADIUS2_MAX]
    r2 = xd * xd + yd * yd
    shrink = 1.0 if r2 <= r2_max else math.sqrt(r2_max / r2) * 0.99
    x, y = xd * shrink, yd * shrink
    ex, ey = distort_k(camera, x, y)
    ex, ey = ex - xd, ey - yd
    for _ in range(_UNDISTORT_STEPS):
        error = ex * ex + ey * ey
        if error < _UNDISTORT_TOLERANCE * _UNDISTORT_TOLERANCE:
            break
        xx, xy, yy = distort_slope_k(camera, x, y)
        det = xx * yy - xy * xy
        if det <= 0.0:
            return 0.0, 0.0, False
        dx = (yy * ex - xy * ey) / det
        dy = (xx * ey - xy * ex) / det
        scale = 1.0
        for _ in range(_UNDISTORT_STEPS):
            nx, ny = x - scale * dx, y - scale * dy
            fx, fy = distort_k(camera, nx, ny)
            fx, fy = fx - xd, fy - yd
            if nx * nx + ny * ny <= r2_max and fx * fx + fy * fy < error:
                break
            scale *= 0.5
        else:
            break
        x, y, ex, ey = nx, ny, fx, fy
    # Rounding may stop slightly above the tolerance; a pixel without a ray stops far above it.
    if ex * ex + ey * ey > 1e-18:
        return 0.0, 0.0, False
    return x, y, True


@kernel
def undistort_points_k(camera: FloatArray, pixels: FloatArray, rays: FloatArray, found: BoolArray) -> None:
    """Fill `rays` (n, 2) with the rays of pixels (n, 2), and `found` (n) with which have one."""
    for i in range(pixels.shape[0]):
        rays[i, 0], rays[i, 1], found[i] = undistort_k(camera, pixels[i, 0], pixels[i, 1])


@kernel
def project_k(camera: FloatArray, x: float, y: float, z: float) -> tuple[float, float, bool]:
    """Return the pixel of a point in the body frame, and whether it lies in the image.

    A point behind the lens, or outside its usable radius, gets pixel (-1, -1).
    """
    dx, dy, dz = x - camera[TX], y - camera[TY], z - camera[TZ]
    depth = camera[ROTATION + 6] * dx + camera[ROTATION + 7] * dy + camera[ROTATION + 8] * dz
    if not depth > NEAR:
        return -1.0, -1.0, False
    right = (camera[ROTATION] * dx + camera[ROTATION + 1] * dy + camera[ROTATION + 2] * dz) / depth
    down = (camera[ROTATION + 3] * dx + camera[ROTATION + 4] * dy + camera[ROTATION + 5] * dz) / depth
    if not right * right + down * down <= camera[RADIUS2_MAX]:
        return -1.0, -1.0, False
    xd, yd = distort_k(camera, right, down)
    u = camera[FX] * xd + camera[CX]
    v = camera[FY] * yd + camera[CY]
    inside = -0.5 <= u <= camera[WIDTH] - 0.5 and -0.5 <= v <= camera[HEIGHT] - 0.5
    return u, v, inside


@kernel
def project_points_k(
    camera: FloatArray, points_body: FloatArray, pixels: FloatArray, visible: BoolArray
) -> None:
    """Project points (n, 3) of the body frame into `pixels` (n, 2) and `visible` (n)."""
    for i in range(points_body.shape[0]):
        u, v, inside = project_k(camera, points_body[i, 0], points_body[i, 1], points_body[i, 2])
        pixels[i, 0], pixels[i, 1] = u, v
        visible[i] = inside


@kernel
def see_markers_k(
    camera: FloatArray,
    corners: FloatArray,
    x: float,
    y: float,
    yaw: float,
    side_min_px: float,
    pixels: FloatArray,
    visible: BoolArray,
) -> int:
    """Project markers into a camera of a robot at (x, y, yaw), and return how many are visible.

    A marker is visible if its four corners are in the image, seen from the front, and every edge is at least
    `side_min_px` long. Occlusion is ignored.

    Args:
        camera: the camera's numbers.
        corners: (n, 4, 3) in the frame of the robot's pose.
        x: of the robot.
        y: of the robot.
        yaw: of the robot.
        side_min_px: the shortest edge that the detector finds.
        pixels: (n, 4, 2), filled.
        visible: (n), filled.
    """
    c, s = math.cos(yaw), math.sin(yaw)
    count = 0
    for i in range(corners.shape[0]):
        seen = True
        for k in range(4):
            dx, dy = corners[i, k, 0] - x, corners[i, k, 1] - y
            u, v, inside = project_k(camera, c * dx + s * dy, c * dy - s * dx, corners[i, k, 2])
            pixels[i, k, 0], pixels[i, k, 1] = u, v
            seen = seen and inside
        for k in range(4):
            if not seen:
                break
            j, m = (k + 1) % 4, (k + 2) % 4
            ax, ay = pixels[i, j, 0] - pixels[i, k, 0], pixels[i, j, 1] - pixels[i, k, 1]
            bx, by = pixels[i, m, 0] - pixels[i, j, 0], pixels[i, m, 1] - pixels[i, j, 1]
            seen = ax * by - ay * bx > 0.0 and ax * ax + ay * ay >= side_min_px * side_min_px
        visible[i] = seen
        if seen:
            count += 1
    return count
