"""Planar pose from marker corners: the kernels behind `swarmbed_core.markers`.

Robots and carriers stand on a level floor, so only x, y and yaw of a set of markers ("the target") in the
body frame are unknown: a point q of the target is at R(yaw) q + (x, y) in the body frame, its height
unchanged. For a given yaw the line-of-sight equations are linear in x and y. Eliminating x and y leaves a
quadratic form in (cos yaw, sin yaw, 1). Sampling it over the full circle finds every yaw that could explain
the corners, including the mirror image that makes general pose solvers flip. The candidates are refined by
Levenberg-Marquardt on the corners' reprojection errors. The best one is accepted only if no other yaw
explains the corners nearly as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.camera import (
    CX,
    CY,
    FX,
    FY,
    HEIGHT,
    LENS_NUMBERS,
    NEAR,
    RADIUS2_MAX,
    ROTATION,
    SIGMA,
    TX,
    TY,
    TZ,
    WIDTH,
    distort_k,
    distort_slope_k,
    lens_slope_k,
    undistort_k,
)
from swarmbed_core.geometry import TAU, wrap
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray

    IntArray = NDArray[np.int64]

# Return values of `locate_k`.
FOUND, NO_POSE, RESIDUAL, AMBIGUOUS, BEHIND = 0, 1, 2, 3, 4

# Faults of a detection.
USED, UNKNOWN, TWICE, NOT_FINITE, OUTSIDE, DEGENERATE, FROM_BEHIND = 0, 1, 2, 3, 4, 5, 6

# Layout of the result of `locate_k`: x, y, yaw, covariance row by row, chi-square, degrees of freedom.
COVARIANCE, CHI2, DOF = 3, 12, 13
RESULT_NUMBERS = 14

# Yaws that are sampled, in steps of 1.4 deg.
_YAWS = 256
_STEP = TAU / _YAWS
_YAW = np.arange(_YAWS) * _STEP - math.pi
_COS = np.cos(_YAW)
_SIN = np.sin(_YAW)

# A yaw whose chi-square exceeds the best one's by this much (five sigma) is ruled out.
_CHI2_APART = 25.0
# Yaws further apart than this are separate solutions, not one uncertain solution.
_ANOTHER_YAW = 0.35
# Standard normal quantiles: residuals beyond 1 - 1e-6 are refused, beyond 0.99 they widen the covariance.
_Z_REFUSED = 4.753
_Z_WIDENED = 2.326
# Pixels that a detection may reach outside the image, and its least area.
_OUTSIDE_PX = 8.0
_AREA_MIN_PX2 = 4.0
_ITERATIONS = 30
_CANDIDATES = 2


@kernel
def chi2_quantile_k(dof: float, z: float) -> float:
    """Return the chi-square that corresponds to `z` standard deviations (Wilson and Hilferty)."""
    share = 2.0 / (9.0 * dof)
    root = 1.0 - share + z * math.sqrt(share)
    return dof * root * root * root


@kernel
def quad_fault_k(camera: FloatArray, quad: FloatArray, rays: FloatArray) -> int:
    """Return the fault of a detection with corners (4, 2), and fill their rays (4, 2)."""
    for k in range(4):
        u, v = quad[k, 0], quad[k, 1]
        if not (math.isfinite(u) and math.isfinite(v)):
            return NOT_FINITE
        if not (
            -_OUTSIDE_PX <= u <= camera[WIDTH] - 1 + _OUTSIDE_PX
            and -_OUTSIDE_PX <= v <= camera[HEIGHT] - 1 + _OUTSIDE_PX
        ):
            return OUTSIDE
        x, y, found = undistort_k(camera, u, v)
        if not found:
            return OUTSIDE
        rays[k, 0], rays[k, 1] = x, y
    left = right = 0
    for k in range(4):
        j, m = (k + 1) % 4, (k + 2) % 4
        ax, ay = quad[j, 0] - quad[k, 0], quad[j, 1] - quad[k, 1]
        bx, by = quad[m, 0] - quad[j, 0], quad[m, 1] - quad[j, 1]
        turn = ax * by - ay * bx
        if turn > 0.0:
            right += 1
        elif turn < 0.0:
            left += 1
    area = 0.5 * (
        (quad[2, 0] - quad[0, 0]) * (quad[3, 1] - quad[1, 1])
        - (quad[2, 1] - quad[0, 1]) * (quad[3, 0] - quad[1, 0])
    )
    if abs(area) < _AREA_MIN_PX2:
        return DEGENERATE
    # y points down in the image: the corners of a marker seen from its front run clockwise.
    if right == 4:
        return USED
    return FROM_BEHIND if left == 4 else DEGENERATE


@kernel
def screen_k(
    ids: IntArray,
    corners: FloatArray,
    camera_index: int,
    cameras: FloatArray,
    known_ids: IntArray,
    known_corners: FloatArray,
    times_seen: IntArray,
    faults: IntArray,
    points: FloatArray,
    pixels: FloatArray,
    rays: FloatArray,
    origin: IntArray,
    start: int,
) -> int:
    """Add the usable detections of one image to the input of `locate_k`; return the new count.

    Args:
        ids: ids of the detections (n).
        corners: corners of the detections (n, 4, 2).
        camera_index: row in `cameras` of the camera that saw them.
        cameras: parameters of all cameras.
        known_ids: ids of the map, ascending.
        known_corners: corners of the map (m, 4, 3).
        times_seen: scratch (m).
        faults: fault of each detection (n), filled.
        points: corners of the used markers, filled from `start` on.
        pixels: their pixels, filled likewise.
        rays: their rays, filled likewise.
        origin: their cameras and their rows in the map, (n, 2), filled likewise.
        start: how many there are from other images.
    """
    camera = cameras[camera_index]
    times_seen[:] = 0
    for i in range(ids.shape[0]):
        row = np.searchsorted(known_ids, ids[i])
        if row < known_ids.shape[0] and known_ids[row] == ids[i]:
            times_seen[row] += 1
    count = start
    for i in range(ids.shape[0]):
        row = np.searchsorted(known_ids, ids[i])
        if row >= known_ids.shape[0] or known_ids[row] != ids[i]:
            faults[i] = UNKNOWN
            continue
        if times_seen[row] > 1:
            faults[i] = TWICE
            continue
        faults[i] = quad_fault_k(camera, corners[i], rays[count])
        if faults[i] != USED:
            continue
        for k in range(4):
            for axis in range(3):
                points[count, k, axis] = known_corners[row, k, axis]
            pixels[count, k, 0] = corners[i, k, 0]
            pixels[count, k, 1] = corners[i, k, 1]
        origin[count, 0] = camera_index
        origin[count, 1] = row
        count += 1
    return count


@kernel
def _form_k(
    points: FloatArray,
    rays: FloatArray,
    depths: FloatArray,
    origin: IntArray,
    cameras: FloatArray,
    n: int,
    centre_x: float,
    centre_y: float,
    form: FloatArray,
    back: FloatArray,
) -> bool:
    """Fill the quadratic form of the chi-square in (cos, sin, 1) and the position as a function of the yaw.

    Returns False if the corners do not determine a position.

    Args:
        points: the markers' corners in the target's frame (n, 4, 3).
        rays: the lines of sight to them (n, 4, 2).
        depths: depth of each corner along its camera's axis (n, 4).
        origin: each marker's camera.
        cameras: parameters of all cameras.
        n: number of markers.
        centre_x: the target's point whose position is wanted.
        centre_y: likewise.
        form: (3, 3), filled.
        back: (2, 5), filled: the position is back[:, :3] @ (cos, sin, 1), with covariance back[:, 3:].
    """
    total = np.zeros((5, 5))
    row = np.empty(5)
    for i in range(n):
        camera = cameras[origin[i, 0]]
        tx, ty, tz = camera[TX], camera[TY], camera[TZ]
        for k in range(4):
            qx, qy, qz = points[i, k, 0] - centre_x, points[i, k, 1] - centre_y, points[i, k, 2]
            for axis in range(2):
                at = ROTATION + 3 * axis
                weight = camera[FX + axis] / (camera[SIGMA] * depths[i, k])
                ray = rays[i, k, axis]
                ex = weight * (camera[at] - ray * camera[ROTATION + 6])
                ey = weight * (camera[at + 1] - ray * camera[ROTATION + 7])
                ez = weight * (camera[at + 2] - ray * camera[ROTATION + 8])
                row[0] = ex * qx + ey * qy
                row[1] = ey * qx - ex * qy
                row[2] = ez * (qz - tz) - ex * tx - ey * ty
                row[3] = ex
                row[4] = ey
                for a in range(5):
                    for b in range(a, 5):
                        total[a, b] += row[a] * row[b]
    p, q, r = total[3, 3], total[3, 4], total[4, 4]
    det = p * r - q * q
    if not det > 1e-12 * p * r:
        return False
    back[0, 3], back[0, 4] = r / det, -q / det
    back[1, 3], back[1, 4] = -q / det, p / det
    for a in range(3):
        back[0, a] = -(r * total[a, 3] - q * total[a, 4]) / det
        back[1, a] = -(p * total[a, 4] - q * total[a, 3]) / det
    for a in range(3):
        for b in range(a, 3):
            form[a, b] = total[a, b] + total[a, 3] * back[0, b] + total[a, 4] * back[1, b]
            form[b, a] = form[a, b]
    return True


@kernel
def _form_at_k(form: FloatArray, c: float, s: float) -> float:
    """Return the quadratic form at (c, s, 1)."""
    squares = form[0, 0] * c * c + 2.0 * form[0, 1] * c * s + form[1, 1] * s * s
    value: float = squares + 2.0 * (form[0, 2] * c + form[1, 2] * s) + form[2, 2]
    return value


@kernel
def _sight_k(
    camera: FloatArray, x: float, y: float, z: float
) -> tuple[bool, float, float, float, float, float, float]:
    """Project a point of the body frame into a camera.

    Returns:
        Whether the camera images it; the undistorted ray at depth 1 (x, y); and the derivatives of the
        distorted ray with respect to the point's x and y: of the ray's x, then of its y.
    """
    r = camera[ROTATION : ROTATION + 9]
    dx, dy, dz = x - camera[TX], y - camera[TY], z - camera[TZ]
    depth = r[6] * dx + r[7] * dy + r[8] * dz
    if not depth > NEAR:
        return False, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    px = (r[0] * dx + r[1] * dy + r[2] * dz) / depth
    py = (r[3] * dx + r[4] * dy + r[5] * dz) / depth
    if px * px + py * py > camera[RADIUS2_MAX]:
        return False, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    xx, xy, yy = distort_slope_k(camera, px, py)
    ax, ay = (r[0] - px * r[6]) / depth, (r[1] - px * r[7]) / depth
    bx, by = (r[3] - py * r[6]) / depth, (r[4] - py * r[7]) / depth
    return True, px, py, xx * ax + xy * bx, xx * ay + xy * by, xy * ax + yy * bx, xy * ay + yy * by


@kernel
def _normal_k(
    points: FloatArray,
    pixels: FloatArray,
    origin: IntArray,
    cameras: FloatArray,
    n: int,
    centre_x: float,
    centre_y: float,
    x: float,
    y: float,
    yaw: float,
    normal: FloatArray,
) -> float:
    """Return the chi-square of the corners at a pose, infinite if a camera cannot image one of them.

    `normal` is filled with the upper triangle of the information matrix and the right-hand side.
    """
    normal[:] = 0.0
    c, s = math.cos(yaw), math.sin(yaw)
    chi2 = 0.0
    for i in range(n):
        camera = cameras[origin[i, 0]]
        gain_x, gain_y = camera[FX] / camera[SIGMA], camera[FY] / camera[SIGMA]
        for k in range(4):
            qx, qy = points[i, k, 0] - centre_x, points[i, k, 1] - centre_y
            turned_x, turned_y = c * qx - s * qy, s * qx + c * qy
            found, px, py, ax, ay, bx, by = _sight_k(camera, turned_x + x, turned_y + y, points[i, k, 2])
            if not found:
                return math.inf
            xd, yd = distort_k(camera, px, py)
            error_x = (pixels[i, k, 0] - camera[CX]) / camera[SIGMA] - gain_x * xd
            error_y = (pixels[i, k, 1] - camera[CY]) / camera[SIGMA] - gain_y * yd
            chi2 += error_x * error_x + error_y * error_y
            # Derivatives of the distorted ray with respect to x, y and yaw.
            jx0, jx1 = gain_x * ax, gain_x * ay
            jy0, jy1 = gain_y * bx, gain_y * by
            jx2 = jx1 * turned_x - jx0 * turned_y
            jy2 = jy1 * turned_x - jy0 * turned_y
            normal[0] += jx0 * jx0 + jy0 * jy0
            normal[1] += jx0 * jx1 + jy0 * jy1
            normal[2] += jx0 * jx2 + jy0 * jy2
            normal[3] += jx1 * jx1 + jy1 * jy1
            normal[4] += jx1 * jx2 + jy1 * jy2
            normal[5] += jx2 * jx2 + jy2 * jy2
            normal[6] += jx0 * error_x + jy0 * error_y
            normal[7] += jx1 * error_x + jy1 * error_y
            normal[8] += jx2 * error_x + jy2 * error_y
    return chi2


@kernel
def _inverse3_k(
    a: float, b: float, c: float, d: float, e: float, f: float
) -> tuple[bool, float, float, float, float, float, float]:
    """Return whether the symmetric [[a, b, c], [b, d, e], [c, e, f]] is invertible, and its inverse."""
    i00, i01, i02 = d * f - e * e, c * e - b * f, b * e - c * d
    det = a * i00 + b * i01 + c * i02
    if not (det > 1e-14 * a * d * f and math.isfinite(det)):
        return False, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    return (
        True,
        i00 / det,
        i01 / det,
        i02 / det,
        (a * f - c * c) / det,
        (b * c - a * e) / det,
        (a * d - b * b) / det,
    )


@kernel
def _refine_k(
    points: FloatArray,
    pixels: FloatArray,
    origin: IntArray,
    cameras: FloatArray,
    n: int,
    centre_x: float,
    centre_y: float,
    pose: FloatArray,
    normal: FloatArray,
) -> float:
    """Refine `pose` by Levenberg-Marquardt, set `normal` to its value there, and return the chi-square."""
    trial = np.empty(9)
    x, y, yaw = pose[0], pose[1], pose[2]
    chi2 = _normal_k(points, pixels, origin, cameras, n, centre_x, centre_y, x, y, yaw, normal)
    damping = 1e-4
    for _ in range(_ITERATIONS):
        if not math.isfinite(chi2):
            break
        more = 1.0 + damping
        solvable, i00, i01, i02, i11, i12, i22 = _inverse3_k(
            normal[0] * more, normal[1], normal[2], normal[3] * more, normal[4], normal[5] * more
        )
        if not solvable:
            return math.inf
        g0, g1, g2 = normal[6], normal[7], normal[8]
        dx, dy = i00 * g0 + i01 * g1 + i02 * g2, i01 * g0 + i11 * g1 + i12 * g2
        turn = i02 * g0 + i12 * g1 + i22 * g2
        new = _normal_k(
            points, pixels, origin, cameras, n, centre_x, centre_y, x + dx, y + dy, yaw + turn, trial
        )
        small = abs(dx) < 1e-9 and abs(dy) < 1e-9 and abs(turn) < 1e-9
        if new <= chi2:
            x, y, yaw, chi2 = x + dx, y + dy, yaw + turn, new
            normal[:] = trial
            damping *= 0.1
        else:
            damping *= 10.0
        if small or damping > 1e8:
            break
    pose[0], pose[1], pose[2] = x, y, wrap(yaw)
    return chi2


@kernel
def _behind_k(
    points: FloatArray,
    origin: IntArray,
    cameras: FloatArray,
    n: int,
    centre_x: float,
    centre_y: float,
    pose: FloatArray,
) -> bool:
    """Return whether a camera is behind the face of a marker it claims to see."""
    c, s = math.cos(pose[2]), math.sin(pose[2])
    for i in range(n):
        camera = cameras[origin[i, 0]]
        # The camera in the target's frame.
        dx, dy = camera[TX] - pose[0], camera[TY] - pose[1]
        cam_x, cam_y, cam_z = c * dx + s * dy + centre_x, c * dy - s * dx + centre_y, camera[TZ]
        ax, ay, az = (
            points[i, 1, 0] - points[i, 0, 0],
            points[i, 1, 1] - points[i, 0, 1],
            points[i, 1, 2] - points[i, 0, 2],
        )
        bx, by, bz = (
            points[i, 3, 0] - points[i, 0, 0],
            points[i, 3, 1] - points[i, 0, 1],
            points[i, 3, 2] - points[i, 0, 2],
        )
        # The cross product of a marker's right and down axes points into the wall.
        inwards = (
            (ay * bz - az * by) * (points[i, 0, 0] - cam_x)
            + (az * bx - ax * bz) * (points[i, 0, 1] - cam_y)
            + (ax * by - ay * bx) * (points[i, 0, 2] - cam_z)
        )
        if not inwards > 0.0:
            return True
    return False


@kernel
def _wanted_k(
    x: float, y: float, yaw: float, centre_x: float, centre_y: float, inverse: bool
) -> tuple[float, float, float]:
    """Convert the pose of the target's centre in the body to the pose that the caller of `locate_k` wants."""
    c, s = math.cos(yaw), math.sin(yaw)
    if inverse:
        # The body in the target's frame: centre - R(-yaw) (x, y).
        return centre_x - (c * x + s * y), centre_y - (c * y - s * x), wrap(-yaw)
    # The target's origin in the body: (x, y) - R(yaw) centre.
    return x - (c * centre_x - s * centre_y), y - (s * centre_x + c * centre_y), wrap(yaw)


@kernel
def _explained_k(
    back: FloatArray, i: int, centre_x: float, centre_y: float, inverse: bool
) -> tuple[float, float, float]:
    """Return the pose that explains the corners best at one of the sampled yaws."""
    x = back[0, 0] * _COS[i] + back[0, 1] * _SIN[i] + back[0, 2]
    y = back[1, 0] * _COS[i] + back[1, 1] * _SIN[i] + back[1, 2]
    return _wanted_k(x, y, _YAW[i], centre_x, centre_y, inverse)


@kernel
def _spread_k(covariance: FloatArray, weight: float, d0: float, d1: float, d2: float) -> None:
    """Add a weighted deviation to a covariance."""
    d = (d0, d1, d2)
    for i in range(3):
        for j in range(3):
            covariance[3 * i + j] += weight * d[i] * d[j]


@kernel
def _place_known_yaw_k(
    covariance: FloatArray, v00: float, v01: float, v11: float, yaw: float, inverse: bool
) -> None:
    """Set a covariance to that of the position at a known yaw, in the wanted frame."""
    covariance[:] = 0.0
    if inverse:
        c, s = math.cos(yaw), math.sin(yaw)
        covariance[0] = c * c * v00 + 2.0 * c * s * v01 + s * s * v11
        covariance[1] = covariance[3] = c * s * (v11 - v00) + (c * c - s * s) * v01
        covariance[4] = s * s * v00 - 2.0 * c * s * v01 + c * c * v11
    else:
        covariance[0], covariance[4] = v00, v11
        covariance[1] = covariance[3] = v01


@kernel
def locate_k(
    points: FloatArray,
    pixels: FloatArray,
    rays: FloatArray,
    origin: IntArray,
    cameras: FloatArray,
    n: int,
    facing: float,
    window: float,
    yaw_sigma_max: float,
    doubt_px: float,
    inverse: bool,
    result: FloatArray,
) -> int:
    """Find the pose of the target in the body, or of the body in the target, from `n` markers.

    Args:
        points: the markers' corners in the target's frame, z above the floor (n, 4, 3).
        pixels: pixels of the corners (n, 4, 2).
        rays: the same as undistorted rays at depth 1.
        origin: the cameras that saw them, in column 0.
        cameras: parameters of all cameras.
        n: how many of the rows are filled.
        facing: expected yaw of the target in the body.
        window: largest deviation from `facing`; pi allows any yaw.
        yaw_sigma_max: standard deviation above which the yaw counts as ambiguous.
        doubt_px: least corner noise assumed when other solutions are ruled out; it has no effect below the
            cameras' own noise.
        inverse: whether the pose of the body in the target's frame is wanted.
        result: filled if the return value is FOUND or AMBIGUOUS. If AMBIGUOUS, it is the mean over all yaws
            that explain the corners, weighted by their likelihood, with a covariance that spans them.

    Returns:
        FOUND, NO_POSE, RESIDUAL, AMBIGUOUS or BEHIND.
    """
    centre_x = centre_y = 0.0
    depths = np.empty((n, 4))
    for i in range(n):
        size = math.sqrt(
            (points[i, 1, 0] - points[i, 0, 0]) ** 2
            + (points[i, 1, 1] - points[i, 0, 1]) ** 2
            + (points[i, 1, 2] - points[i, 0, 2]) ** 2
        )
        edge2 = 0.0
        for k in range(4):
            j = (k + 1) % 4
            edge2 = max(edge2, (rays[i, j, 0] - rays[i, k, 0]) ** 2 + (rays[i, j, 1] - rays[i, k, 1]) ** 2)
            centre_x += points[i, k, 0] / (4 * n)
            centre_y += points[i, k, 1] / (4 * n)
        depths[i, :] = size / math.sqrt(edge2)
    form = np.empty((3, 3))
    back = np.empty((2, 5))
    if not _form_k(points, rays, depths, origin, cameras, n, centre_x, centre_y, form, back):
        return NO_POSE

    # The best yaws: a quadratic form has at most two minima on the circle.
    profile = np.empty(_YAWS)
    for i in range(_YAWS):
        allowed = window >= math.pi or abs(wrap(_YAW[i] - facing)) <= window + _STEP
        profile[i] = _form_at_k(form, _COS[i], _SIN[i]) if allowed else math.inf
    best = math.inf
    pose = np.empty(3)
    x = y = yaw = 0.0
    normal = np.empty(9)
    info = np.empty(9)
    for _ in range(_CANDIDATES):
        at = -1
        for i in range(_YAWS):
            minimum = profile[i] <= profile[i - 1] and profile[i] <= profile[(i + 1) % _YAWS]
            if minimum and math.isfinite(profile[i]) and (at < 0 or profile[i] < profile[at]):
                at = i
        if at < 0:
            break
        pose[0] = back[0, 0] * _COS[at] + back[0, 1] * _SIN[at] + back[0, 2]
        pose[1] = back[1, 0] * _COS[at] + back[1, 1] * _SIN[at] + back[1, 2]
        pose[2] = _YAW[at]
        chi2 = _refine_k(points, pixels, origin, cameras, n, centre_x, centre_y, pose, normal)
        if chi2 < best:
            best, x, y, yaw = chi2, pose[0], pose[1], pose[2]
            info[:] = normal
        # Remove this minimum from the profile, uphill on both sides.
        for way in (-1, 1):
            i, height = at, profile[at]
            while True:
                i = (i + way) % _YAWS
                if not height <= profile[i] < math.inf:
                    break
                height = profile[i]
                profile[i] = math.inf
        profile[at] = math.inf
    if not math.isfinite(best):
        return NO_POSE

    dof = 8.0 * n - 3.0
    if best > chi2_quantile_k(dof, _Z_REFUSED):
        return RESIDUAL
    pose[0], pose[1], pose[2] = x, y, yaw
    if _behind_k(points, origin, cameras, n, centre_x, centre_y, pose):
        return BEHIND
    solvable, v00, v01, v02, v11, v12, v22 = _inverse3_k(info[0], info[1], info[2], info[3], info[4], info[5])
    if not solvable:
        return NO_POSE
    # If the residuals exceed the camera's noise, scale the covariance by them.
    noise2 = best / dof if best > chi2_quantile_k(dof, _Z_WIDENED) else 1.0
    v00, v01, v02 = v00 * noise2, v01 * noise2, v02 * noise2
    v11, v12, v22 = v11 * noise2, v12 * noise2, v22 * noise2

    # Compute the profile again with the depths now known, to see how far from this yaw the corners still fit.
    c, s = math.cos(yaw), math.sin(yaw)
    for i in range(n):
        camera = cameras[origin[i, 0]]
        for k in range(4):
            qx, qy = points[i, k, 0] - centre_x, points[i, k, 1] - centre_y
            depths[i, k] = (
                camera[ROTATION + 6] * (c * qx - s * qy + x - camera[TX])
                + camera[ROTATION + 7] * (s * qx + c * qy + y - camera[TY])
                + camera[ROTATION + 8] * (points[i, k, 2] - camera[TZ])
            )
    _form_k(points, rays, depths, origin, cameras, n, centre_x, centre_y, form, back)
    floor = _form_at_k(form, c, s)
    scale = max(1.0, best / dof)
    doubt = scale
    for i in range(n):
        doubt = max(doubt, (doubt_px / cameras[origin[i, 0], SIGMA]) ** 2)
    another = False
    variance = v22
    for i in range(_YAWS):
        away = abs(wrap(_YAW[i] - yaw))
        profile[i] = (_form_at_k(form, _COS[i], _SIN[i]) - floor) / scale
        if window < math.pi and abs(wrap(_YAW[i] - facing)) > window:
            profile[i] = math.inf
        elif profile[i] < _CHI2_APART:
            variance = max(variance, away * away / max(profile[i], 1.0))
        if away > _ANOTHER_YAW and profile[i] * scale < _CHI2_APART * doubt:
            another = True
    result[CHI2] = best
    result[DOF] = dof
    outside = window < math.pi and abs(wrap(yaw - facing)) > window + 4.0 * math.sqrt(v22)
    covariance = result[COVARIANCE : COVARIANCE + 9]
    if variance <= yaw_sigma_max * yaw_sigma_max and not (another or outside):
        _place_known_yaw_k(
            covariance, v00 - v02 * v02 / v22, v01 - v02 * v12 / v22, v11 - v12 * v12 / v22, yaw, inverse
        )
        # With an uncertain yaw the position lies on an arc; three points on it span more than its tangent.
        px, py, pyaw = _wanted_k(x, y, yaw, centre_x, centre_y, inverse)
        for sign in (-1.0, 1.0):
            turn = sign * math.sqrt(3.0 * variance)
            dc, ds = math.cos(yaw + turn) - c, math.sin(yaw + turn) - s
            ax, ay, ayaw = _wanted_k(
                x + back[0, 0] * dc + back[0, 1] * ds,
                y + back[1, 0] * dc + back[1, 1] * ds,
                yaw + turn,
                centre_x,
                centre_y,
                inverse,
            )
            _spread_k(covariance, 1.0 / 6.0, ax - px, ay - py, wrap(ayaw - pyaw))
        result[0], result[1], result[2] = px, py, pyaw
        return FOUND

    # Mean and covariance over all possible yaws, each with its position.
    lowest = math.inf
    for i in range(_YAWS):
        lowest = min(lowest, profile[i])
    if not math.isfinite(lowest):
        return NO_POSE
    _, _, from_yaw = _wanted_k(x, y, yaw, centre_x, centre_y, inverse)
    total = m0 = m1 = m2 = 0.0
    for i in range(_YAWS):
        profile[i] = math.exp(-0.5 * min(profile[i] - lowest, 700.0))
        px, py, pyaw = _explained_k(back, i, centre_x, centre_y, inverse)
        total += profile[i]
        m0 += profile[i] * px
        m1 += profile[i] * py
        m2 += profile[i] * wrap(pyaw - from_yaw)
    m0, m1, m2 = m0 / total, m1 / total, m2 / total
    result[0], result[1], result[2] = m0, m1, wrap(from_yaw + m2)
    mean_yaw = -result[2] if inverse else result[2]
    _place_known_yaw_k(
        covariance, back[0, 3] * scale, back[0, 4] * scale, back[1, 4] * scale, mean_yaw, inverse
    )
    covariance[8] = _STEP * _STEP / 12.0
    for i in range(_YAWS):
        px, py, pyaw = _explained_k(back, i, centre_x, centre_y, inverse)
        _spread_k(covariance, profile[i] / total, px - m0, py - m1, wrap(pyaw - from_yaw) - m2)
    return AMBIGUOUS


@kernel
def lens_effect_k(
    points: FloatArray,
    origin: IntArray,
    cameras: FloatArray,
    unsure: FloatArray,
    n: int,
    pose: FloatArray,
    effect: FloatArray,
) -> bool:
    """Find the sensitivity of the body's pose, as found by `locate_k`, to errors in the lens parameters.

    Args:
        points: the markers' corners in the target's frame (n, 4, 3).
        origin: the cameras that saw them, in column 0.
        cameras: parameters of all cameras.
        unsure: for each camera the independent errors of its lens parameters (cameras, m, 9).
        n: how many of the rows are filled.
        pose: pose of the body in the target's frame.
        effect: shift of the pose for each error of each camera (3, cameras * m), filled.

    Returns:
        Whether the corners determine a pose.
    """
    ways = unsure.shape[1]
    effect[:] = 0.0
    a = np.zeros(6)
    by_lens = np.empty((2, LENS_NUMBERS))
    c, s = math.cos(pose[2]), math.sin(pose[2])
    for i in range(n):
        row = origin[i, 0]
        camera = cameras[row]
        weight = 1.0 / (camera[SIGMA] * camera[SIGMA])
        for k in range(4):
            qx, qy = points[i, k, 0] - pose[0], points[i, k, 1] - pose[1]
            ahead, left = c * qx + s * qy, c * qy - s * qx
            found, px, py, ax, ay, bx, by = _sight_k(camera, ahead, left, points[i, k, 2])
            if not found:
                return False
            lens_slope_k(camera, px, py, by_lens)
            for axis in range(2):
                # Derivatives along x and y of the body, then of the target: the body moves, not the point.
                along, across = (ax, ay) if axis == 0 else (bx, by)
                along, across = camera[FX + axis] * along, camera[FX + axis] * across
                j0, j1, j2 = s * across - c * along, -s * along - c * across, along * left - across * ahead
                a[0] += weight * j0 * j0
                a[1] += weight * j0 * j1
                a[2] += weight * j0 * j2
                a[3] += weight * j1 * j1
                a[4] += weight * j1 * j2
                a[5] += weight * j2 * j2
                for way in range(ways):
                    shift = 0.0
                    for number in range(LENS_NUMBERS):
                        shift += by_lens[axis, number] * unsure[row, way, number]
                    shift *= weight
                    at = row * ways + way
                    effect[0, at] += j0 * shift
                    effect[1, at] += j1 * shift
                    effect[2, at] += j2 * shift
    solvable, i00, i01, i02, i11, i12, i22 = _inverse3_k(a[0], a[1], a[2], a[3], a[4], a[5])
    if not solvable:
        return False
    for at in range(effect.shape[1]):
        g0, g1, g2 = effect[0, at], effect[1, at], effect[2, at]
        effect[0, at] = i00 * g0 + i01 * g1 + i02 * g2
        effect[1, at] = i01 * g0 + i11 * g1 + i12 * g2
        effect[2, at] = i02 * g0 + i12 * g1 + i22 * g2
    return True
