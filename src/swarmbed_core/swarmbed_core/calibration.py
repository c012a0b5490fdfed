"""Calibration of a perimeter camera from views of a target on the wall (DOTS paper, III-A4b).

`calibrate` computes the camera's intrinsics from the views (`calibration_target`).

Only the robot's planar position and yaw vary, so the pictures constrain the lens less than pictures taken by
hand would. Prior knowledge compensates: the robot is level, its cameras are mounted where the spec says, its
odometry is good to about a centimetre. One least squares problem combines the corners in the images with
these priors and their standard deviations (`Trust`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares

from swarmbed_core.calibration_target import CORNERS_MIN, VIEWS_MIN, coverage
from swarmbed_core.camera import (
    HEIGHT,
    LENS_NUMBERS,
    WIDTH,
    CameraCalibration,
    CameraModel,
    lens_slope_k,
)
from swarmbed_core.errors import MarkerError
from swarmbed_core.geometry import wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from swarmbed_core.calibration_target import CalibrationTarget, View
    from swarmbed_core.camera import Intrinsics
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Camera

    IntArray = NDArray[np.int64]

# Unknowns of the least squares problem: the intrinsics, then the deviation of the mounting from the spec, in
# metres and radians. x, y and yaw of each view follow.
INTRINSICS = ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3")
MOUNTING = ("x", "y", "z", "yaw", "pitch", "roll")
_N_LENS, _N_MOUNT = len(INTRINSICS), len(MOUNTING)
_N_SHARED = _N_LENS + _N_MOUNT
# Prior standard deviations of the distortion coefficients k1, k2, p1, p2, k3; their prior mean is 0.
DISTORTION_SLACK = (0.2, 0.1, 0.01, 0.01, 0.02)

# Sample points along each side of the image at which lens errors are evaluated, and the share of the mean
# square pixel error that the reported lens errors may leave out.
GRID = 20
UNSURE_LEFT_OUT = 0.01

# The share of the given views that a calibration may drop, and the required coverage of the image: a share
# of its cells, and of the distance from the centre to the left, right and upper edge. There is no limit for
# the lower edge: the lower part of a low camera's image shows the floor.
DROPPED_MAX = 0.4
COVERED_MIN = 0.5
REACH_MIN = 0.7
# A view is dropped if its solved pose is further from the odometry's, or its median corner error is larger.
ASTRAY_SIGMAS = 6.0
ASTRAY_PX = 40.0
# Corners with larger residuals are outliers; a view with a larger share of them contradicts the others.
OUTLIER_SIGMAS = 6.0
OUTLIERS_MAX = 0.3
CORNER_PX_MIN = 0.02
# Errors of adjacent corners are correlated, so they carry less information than independent ones. Over random
# lenses, the focal lengths were off by twice as much as independent corners would predict.
ALIKE = 2.0
ROUNDS_MAX = 5
PLACE_OFF_MAX = 0.3
TURN_OFF_MAX_DEG = 15.0
# The solver: sigmas beyond which a corner loses weight, the imaginary step of derivatives, and the stopping
# conditions.
ROBUST_SIGMAS = 3.0
STEP = 1e-30
STEPS_MAX = 100
STEP_MIN = 1e-5
DAMPING_MAX = 1e12
# Limits of a usable calibration, then those of a good one.
RMS_MAX = 2.0
FOCAL_OFF_MAX = 0.2
CENTRE_OFF_MAX = 0.15
FOCAL_SIGMA_GOOD = 0.004
CENTRE_SIGMA_GOOD = 0.8
RMS_GOOD = 0.5
DROPPED_GOOD = 0.15


@dataclass(frozen=True, slots=True)
class Trust:
    """Standard deviations of the prior knowledge, in metres and radians.

    Attributes:
        position: of the robot by odometry, along x and along y.
        yaw: of the robot by odometry.
        mount: of the lens's position in the body, along each axis.
        mount_angle: of the lens's orientation, about each axis.
        corner_px: of a corner in an image, in pixels; the first guess, replaced by the residuals' spread.
    """

    position: float = 0.010
    yaw: float = math.radians(0.5)
    mount: float = 0.003
    mount_angle: float = math.radians(1.0)
    corner_px: float = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The fit of one view.

    Attributes:
        view: as given.
        pose_map: solved pose of the robot.
        ids: of the corners used.
        pixels: (n, 2), their measured positions.
        residuals: (n, 2), measured minus predicted position, in pixels.
    """

    view: View
    pose_map: FloatArray
    ids: IntArray
    pixels: FloatArray
    residuals: FloatArray

    @property
    def rms(self) -> float:
        """Return the root mean square length of the residuals, in pixels."""
        return math.sqrt(float((self.residuals**2).sum(axis=1).mean()))


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationResult:
    """The result of a calibration.

    Attributes:
        name: of the camera.
        calibration: its intrinsics.
        sigma: standard deviations of fx, fy, cx, cy, k1, k2, p1, p2, k3.
        mounting: deviation of the mounting from the spec: x, y, z, yaw, pitch, roll.
        mounting_sigma: standard deviations of these.
        fits: the views used.
        dropped: the views not used, each with the reason.
        corners_dropped: outlier corners in the used views.
        corner_px: standard deviation of a corner along x and along y, in pixels.
        doubts: warnings, as text; empty for a good calibration.
    """

    name: str
    calibration: CameraCalibration
    sigma: FloatArray
    mounting: FloatArray
    mounting_sigma: FloatArray
    fits: tuple[Fit, ...]
    dropped: tuple[tuple[View, str], ...]
    corners_dropped: int
    corner_px: float
    doubts: tuple[str, ...]

    @property
    def rms(self) -> float:
        """Return the root mean square length of the residuals of all views, in pixels."""
        return math.sqrt(float((np.vstack([fit.residuals for fit in self.fits]) ** 2).sum(axis=1).mean()))

    @property
    def coverage(self) -> float:
        """Return the share of the image's cells that contain corners of the target."""
        pixels = np.vstack([fit.pixels for fit in self.fits])
        return float((coverage(pixels, self.calibration.width, self.calibration.height) > 0).mean())


def calibrate(
    views: Sequence[View], target: CalibrationTarget, camera: Camera, trust: Trust | None = None
) -> CalibrationResult:
    """Return the intrinsics of a camera from pictures of a target at a known place.

    Views that contradict the others are dropped and listed in the result.

    Args:
        views: the corners seen, and the robot's pose for each picture.
        target: the target in the pictures.
        camera: its spec: the image size, the mounting, the nominal focal length.
        trust: standard deviations of the robot's poses and of the mounting.

    Raises:
        MarkerError: the views are too few, cover too little of the image, contradict each other, or give
            intrinsics that are implausible for this camera.
    """
    return _Problem(target, camera, trust or Trust()).solve(views)


def ways_unsure(camera: CameraModel, covariance: FloatArray) -> tuple[Intrinsics, ...]:
    """Return independent error directions of the intrinsics, largest effect on pixels first.

    Each is one standard deviation long. Directions that hardly move a pixel are left out: single coefficients
    of a lens are much less certain than the pixels that they determine together.

    Args:
        camera: with the calibrated lens.
        covariance: of fx, fy, cx, cy, k1, k2, p1, p2, k3.
    """
    columns = np.linspace(0.0, camera.numbers[WIDTH] - 1, GRID)
    rows = np.linspace(0.0, camera.numbers[HEIGHT] - 1, GRID)
    rays, seen = camera.undistort(np.column_stack([side.ravel() for side in np.meshgrid(columns, rows)]))
    slopes = np.empty((int(seen.sum()), 2, LENS_NUMBERS))
    for slope, (x, y) in zip(slopes, rays[seen], strict=True):
        lens_slope_k(camera.numbers, x, y, slope)
    square_mean = np.einsum("nai,naj->ij", slopes, slopes) / len(slopes)
    # |root @ change|^2 is the mean square pixel error over the image that a change of the lens makes.
    root = np.linalg.cholesky(square_mean).T
    square, ways = np.linalg.eigh(root @ covariance @ root.T)
    square, ways = square[::-1], ways[:, ::-1]
    left_out = 1 - np.cumsum(square) / square.sum()
    kept = 1 + int(np.argmax(left_out <= UNSURE_LEFT_OUT))
    found = np.linalg.solve(root, ways[:, :kept] * np.sqrt(square[:kept]))
    return tuple(
        (way[0], way[1], way[2], way[3], way[4], way[5], way[6], way[7], way[8]) for way in found.T.tolist()
    )


class _Problem:
    """The least squares problem of one camera."""

    def __init__(self, target: CalibrationTarget, camera: Camera, trust: Trust) -> None:
        self.target, self.camera, self.trust = target, camera, trust
        self.corners = target.corners()
        focal = camera.width / 2 / math.tan(camera.horizontal_fov / 2)
        centre = (camera.width - 1) / 2, (camera.height - 1) / 2
        self.start = np.array([focal, focal, *centre, *np.zeros(5), *np.zeros(_N_MOUNT)])
        slack = [0.1 * focal] * 2 + [0.05 * camera.width] * 2 + list(DISTORTION_SLACK)
        self.slack = np.array([*slack, *[trust.mount] * 3, *[trust.mount_angle] * 3])
        self.pose_slack = np.array([trust.position, trust.position, trust.yaw])

    def solve(self, views: Sequence[View]) -> CalibrationResult:
        dropped: list[tuple[View, str]] = []
        kept: list[View] = []
        poses: list[FloatArray] = []
        for view in views:
            pose, fault = self.place(view)
            if fault is None:
                kept.append(view)
                poses.append(pose)
            else:
                dropped.append((view, fault))
        self.require(kept, len(views))
        used = [np.ones(len(view.sight.ids), dtype=np.bool_) for view in kept]
        shared, places = self.start, np.array(poses)
        sigma = self.trust.corner_px
        for _ in range(ROUNDS_MAX):
            shared, places, _ = self.adjust(kept, used, shared, places, sigma, robust=True)
            residuals = self.residuals(kept, shared, places)
            lengths = [np.hypot(*found.T) for found in residuals]
            # The median length of a two-dimensional normal distribution is 1.18 sigma.
            every = np.concatenate(lengths)
            sigma = max(float(np.median(every)) / 1.1774, CORNER_PX_MIN)
            used = [length < OUTLIER_SIGMAS * sigma for length in lengths]
            bad = self.contradictions(kept, used, places)
            if not bad:
                break
            dropped += [(kept[k], reason) for k, reason in bad.items()]
            left = [k for k in range(len(kept)) if k not in bad]
            kept, used, places = [kept[k] for k in left], [used[k] for k in left], places[left]
            self.require(kept, len(views))
        else:
            message = (
                f"camera {self.camera.name}: the views still contradict each other after {ROUNDS_MAX} rounds "
                "of dropping; check where the target hangs, and the robot's odometry"
            )
            raise MarkerError(message)
        # Corner errors are not normally distributed: use the larger of the two estimates.
        kept_lengths = np.concatenate([length[good] for length, good in zip(lengths, used, strict=True)])
        sigma = ALIKE * max(sigma, math.sqrt(float((kept_lengths**2).mean()) / 2))
        shared, places, covariance = self.adjust(kept, used, shared, places, sigma, robust=False)
        residuals = self.residuals(kept, shared, places)
        fits = tuple(
            Fit(view, pose, view.sight.ids[good], view.sight.pixels[good], found[good])
            for view, pose, good, found in zip(kept, places, used, residuals, strict=True)
        )
        return self.result(fits, tuple(dropped), shared, covariance)

    def place(self, view: View) -> tuple[FloatArray, str | None]:
        """Return the pose of a view, assuming the spec's lens, and why it is unusable (None if usable)."""
        sight = view.sight
        count = len(sight.ids)
        if count < CORNERS_MIN:
            return view.pose_map, f"{count} corners, at least {CORNERS_MIN} are needed"
        strange = (
            not ((sight.ids >= 0) & (sight.ids < len(self.corners))).all() or len(set(sight.ids)) < count
        )
        if strange or not (np.isfinite(sight.pixels).all() and np.isfinite(view.pose_map).all()):
            return view.pose_map, "corner ids that are repeated or not on the target, or non-finite numbers"
        seen = [np.ones(len(sight.ids), dtype=np.bool_)]
        pack = _Pack([view], seen, self.corners)

        def off(pose: FloatArray) -> FloatArray:
            gap = _project(self.camera, self.start, pose[None], pack.points, pack.rows) - pack.pixels
            return np.asarray(gap, dtype=np.float64).ravel()

        try:
            with np.errstate(all="ignore"):
                fit = least_squares(off, view.pose_map, loss="soft_l1", f_scale=5.0, x_scale=(0.1, 0.1, 0.1))
        except (ValueError, np.linalg.LinAlgError):
            return view.pose_map, "no pose explains the corners"
        pose: FloatArray = fit.x
        shift = pose - view.pose_map
        far, turned = math.hypot(shift[0], shift[1]), math.degrees(abs(wrap(shift[2])))
        rough = float(np.median(np.hypot(*off(pose).reshape(-1, 2).T)))
        if not rough < ASTRAY_PX:
            return pose, f"no pose explains the corners: their median error is {rough:.0f} px"
        if far > PLACE_OFF_MAX or turned > TURN_OFF_MAX_DEG:
            return pose, f"taken {far * 100:.0f} cm and {turned:.0f} deg from the odometry's pose"
        return pose, None

    def require(self, kept: Sequence[View], given: int) -> None:
        """Raise `MarkerError` if too few views are left or if they cover too little of the image."""
        name = self.camera.name
        if len(kept) < VIEWS_MIN or len(kept) < (1 - DROPPED_MAX) * given:
            message = (
                f"camera {name}: {len(kept)} of {given} views can be used, at least {VIEWS_MIN} and "
                f"{1 - DROPPED_MAX:.0%} are needed; check the light, and where the target hangs"
            )
            raise MarkerError(message)
        pixels = np.vstack([view.sight.pixels for view in kept])
        width, height = self.camera.width, self.camera.height
        share = float((coverage(pixels, width, height) > 0).mean())
        if share < COVERED_MIN:
            message = (
                f"camera {name}: corners in {share:.0%} of the image, at least {COVERED_MIN:.0%} are needed; "
                "turn further, and move closer to the target"
            )
            raise MarkerError(message)
        away = (pixels - np.array([width - 1, height - 1]) / 2) / np.array([width / 2, height / 2])
        reach = {"left": -away[:, 0].min(), "right": away[:, 0].max(), "upper": -away[:, 1].min()}
        for side, share in reach.items():
            if share < REACH_MIN:
                message = (
                    f"camera {name}: corners up to {share:.0%} of the way to the {side} edge of the image, "
                    f"at least {REACH_MIN:.0%} are needed; turn further"
                )
                raise MarkerError(message)

    def adjust(
        self,
        views: Sequence[View],
        used: Sequence[NDArray[np.bool_]],
        shared: FloatArray,
        places: FloatArray,
        sigma: float,
        *,
        robust: bool,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the camera's parameters, the views' poses, and the covariance of the parameters."""
        pack = _Pack(views, used, self.corners)
        believed = np.array([view.pose_map for view in views])
        count = len(views)
        starts = np.searchsorted(pack.rows, np.arange(count))
        weight_lens, weight_pose = self.slack**-2, self.pose_slack**-2

        def costs(ours: FloatArray, poses: FloatArray) -> tuple[float, FloatArray, FloatArray]:
            """Return the cost, each corner's residual and each corner's weight."""
            off = np.asarray(_project(self.camera, ours, poses, pack.points, pack.rows) - pack.pixels) / sigma
            square = (off**2).sum(axis=1) / ROBUST_SIGMAS**2
            root = np.sqrt(1 + square) if robust else np.ones(len(off))
            cost = 2 * ROBUST_SIGMAS**2 * (root - 1).sum() if robust else ROBUST_SIGMAS**2 * square.sum()
            prior = (weight_lens * (ours - self.start) ** 2).sum()
            prior += (weight_pose * (poses - believed) ** 2).sum()
            total = float(cost + prior)
            return (total if math.isfinite(total) else math.inf), off, 1 / root

        def slopes(ours: FloatArray, poses: FloatArray) -> tuple[FloatArray, FloatArray]:
            """Return the residuals' derivatives with respect to the camera and to their view's pose."""
            # Complex-step differentiation has no cancellation error.
            by_lens = np.empty((len(pack.rows), 2, _N_SHARED))
            by_pose = np.empty((len(pack.rows), 2, 3))
            for k in range(_N_SHARED):
                step = ours.astype(np.complex128)
                step[k] += 1j * STEP
                by_lens[:, :, k] = _project(self.camera, step, poses, pack.points, pack.rows).imag
            for k in range(3):
                turned = poses.astype(np.complex128)
                turned[:, k] += 1j * STEP
                by_pose[:, :, k] = _project(self.camera, ours, turned, pack.points, pack.rows).imag
            return by_lens / (STEP * sigma), by_pose / (STEP * sigma)

        def normal(
            ours: FloatArray, poses: FloatArray, off: FloatArray, weights: FloatArray
        ) -> tuple[FloatArray, FloatArray]:
            """Return the matrix and the right-hand side of the normal equations."""
            by_lens, by_pose = slopes(ours, poses)
            lens_w, pose_w = by_lens * weights[:, None, None], by_pose * weights[:, None, None]
            size = _N_SHARED + 3 * count
            matrix, side = np.zeros((size, size)), np.zeros(size)
            matrix[:_N_SHARED, :_N_SHARED] = np.einsum("nij,nik->jk", lens_w, by_lens)
            side[:_N_SHARED] = np.einsum("nij,ni->j", lens_w, off)
            mixed = np.add.reduceat(np.einsum("nij,nik->njk", lens_w, by_pose), starts)
            own = np.add.reduceat(np.einsum("nij,nik->njk", pose_w, by_pose), starts)
            side[_N_SHARED:] = np.add.reduceat(np.einsum("nij,ni->nj", pose_w, off), starts).ravel()
            for k in range(count):
                block = slice(_N_SHARED + 3 * k, _N_SHARED + 3 * k + 3)
                matrix[:_N_SHARED, block], matrix[block, :_N_SHARED] = mixed[k], mixed[k].T
                matrix[block, block] = own[k]
            matrix[np.diag_indices(size)] += np.concatenate([weight_lens, np.tile(weight_pose, count)])
            side[:_N_SHARED] += weight_lens * (ours - self.start)
            side[_N_SHARED:] += (weight_pose * (poses - believed)).ravel()
            return matrix, side

        scale = np.concatenate([self.slack, np.tile(self.pose_slack, count)])
        damping = 1e-4
        cost, off, weights = costs(shared, places)
        for _ in range(STEPS_MAX):
            matrix, side = normal(shared, places, off, weights)
            while damping < DAMPING_MAX:
                step = np.linalg.solve(matrix + damping * np.diag(matrix.diagonal()), -side)
                new_shared, new_places = shared + step[:_N_SHARED], places + step[_N_SHARED:].reshape(-1, 3)
                with np.errstate(all="ignore"):
                    found = costs(new_shared, new_places)
                if found[0] <= cost:
                    break
                damping *= 10
            else:
                break
            shared, places = new_shared, new_places
            cost, off, weights = found
            damping = max(damping / 10, 1e-9)
            if np.abs(step / scale).max() < STEP_MIN:
                break
        matrix, _ = normal(shared, places, off, weights)
        covariance = np.linalg.inv(matrix).astype(np.float64)[:_N_SHARED, :_N_SHARED]
        return shared, places, covariance

    def residuals(self, views: Sequence[View], shared: FloatArray, places: FloatArray) -> list[FloatArray]:
        """Return measured minus predicted pixels of all corners, for each view."""
        pack = _Pack(views, [np.ones(len(view.sight.ids), dtype=np.bool_) for view in views], self.corners)
        found = pack.pixels - _project(self.camera, shared, places, pack.points, pack.rows)
        return np.split(found, np.cumsum([len(view.sight.ids) for view in views])[:-1])

    def contradictions(
        self, views: Sequence[View], used: Sequence[NDArray[np.bool_]], places: FloatArray
    ) -> dict[int, str]:
        """Return the views that contradict the others, by index, each with the reason."""
        found: dict[int, str] = {}
        for k, (view, good, pose) in enumerate(zip(views, used, places, strict=True)):
            strayed = np.abs(pose - view.pose_map) / self.pose_slack
            bad = len(good) - int(good.sum())
            if bad > OUTLIERS_MAX * len(good) or good.sum() < CORNERS_MIN:
                found[k] = f"{bad} of {len(good)} corners are not where the other views put them"
            elif strayed.max() > ASTRAY_SIGMAS:
                off = pose - view.pose_map
                shift, turn = 1000 * math.hypot(off[0], off[1]), math.degrees(abs(off[2]))
                found[k] = f"taken {shift:.0f} mm and {turn:.1f} deg from the odometry's pose"
        return found

    def result(
        self,
        fits: tuple[Fit, ...],
        dropped: tuple[tuple[View, str], ...],
        shared: FloatArray,
        covariance: FloatArray,
    ) -> CalibrationResult:
        """Return the calibration's result; raise `MarkerError` if it is implausible."""
        camera, lens = self.camera, shared[:_N_LENS]
        where = f"camera {camera.name}"
        residuals = np.vstack([fit.residuals for fit in fits])
        rms = math.sqrt(float((residuals**2).sum(axis=1).mean()))
        off = np.abs(lens[:4] - self.start[:4]) / ([self.start[0]] * 2 + [camera.width] * 2)
        fault = None
        if not np.isfinite(shared).all() or off[:2].max() > FOCAL_OFF_MAX or off[2:].max() > CENTRE_OFF_MAX:
            fault = (
                f"focal lengths {lens[0]:.0f} and {lens[1]:.0f} px, principal point {lens[2]:.0f}, "
                f"{lens[3]:.0f} px: expected about {self.start[0]:.0f} px (spec) and the image's centre"
            )
        elif rms > RMS_MAX:
            fault = f"the corners are {rms:.1f} px off (RMS), at most {RMS_MAX} px are allowed"
        if fault is not None:
            message = f"{where}: {fault}; check where the target hangs, and the size of its squares"
            raise MarkerError(message)
        calibration = CameraCalibration(
            version=1,
            width=camera.width,
            height=camera.height,
            fx=float(lens[0]),
            fy=float(lens[1]),
            cx=float(lens[2]),
            cy=float(lens[3]),
            distortion=(float(lens[4]), float(lens[5]), float(lens[6]), float(lens[7]), float(lens[8])),
        )
        # from_spec also rejects a lens that folds the image over.
        model = CameraModel.from_spec(camera.model_copy(update={"on_lifter": False}), None, calibration)
        unsure = ways_unsure(model, covariance[:_N_LENS, :_N_LENS])
        sigma = np.sqrt(np.diag(covariance))
        return CalibrationResult(
            name=camera.name,
            calibration=calibration.model_copy(update={"unsure": unsure}),
            sigma=sigma[:_N_LENS],
            mounting=shared[_N_LENS:],
            mounting_sigma=sigma[_N_LENS:],
            fits=fits,
            dropped=dropped,
            corners_dropped=sum(len(fit.view.sight.ids) - len(fit.ids) for fit in fits),
            corner_px=rms / math.sqrt(2),
            doubts=self.doubts(sigma, rms, len(fits), len(dropped)),
        )

    def doubts(self, sigma: FloatArray, rms: float, used: int, dropped: int) -> tuple[str, ...]:
        """Return which criteria of a good calibration are not met."""
        found = []
        focal, focal_good = sigma[:2].max(), FOCAL_SIGMA_GOOD * self.start[0]
        if focal > focal_good:
            found.append(f"focal length known to {focal:.2f} px, at most {focal_good:.2f} is good")
        centre = sigma[2:4].max()
        if centre > CENTRE_SIGMA_GOOD:
            found.append(f"principal point known to {centre:.2f} px, at most {CENTRE_SIGMA_GOOD:.2f} is good")
        if rms > RMS_GOOD:
            found.append(f"corners {rms:.2f} px off, at most {RMS_GOOD:.2f} is good")
        if dropped > DROPPED_GOOD * (used + dropped):
            found.append(f"{dropped} of {used + dropped} views contradict the others")
        return tuple(found)


class _Pack:
    """The used corners of several views, concatenated: points in `map`, view indices, pixels."""

    def __init__(self, views: Sequence[View], used: Sequence[NDArray[np.bool_]], corners: FloatArray) -> None:
        ids = [view.sight.ids[good] for view, good in zip(views, used, strict=True)]
        self.points: FloatArray = corners[np.concatenate(ids)]
        self.pixels: FloatArray = np.vstack(
            [view.sight.pixels[good] for view, good in zip(views, used, strict=True)]
        )
        self.rows: IntArray = np.repeat(np.arange(len(views)), [len(some) for some in ids])


def _project(
    camera: Camera, shared: NDArray[Any], poses: NDArray[Any], points: FloatArray, rows: IntArray
) -> NDArray[Any]:
    """Return the pixels (n, 2) of points (n, 3) of `map`, the robot at `poses[rows]`.

    It also accepts complex numbers, for complex-step differentiation.
    """
    fx, fy, cx, cy, k1, k2, p1, p2, k3 = shared[:_N_LENS]
    mx, my, mz, m_yaw, m_pitch, m_roll = shared[_N_LENS:]
    # From the map to the body frame, then to the optical frame.
    pose = poses[rows]
    c, s = np.cos(pose[:, 2]), np.sin(pose[:, 2])
    dx, dy = points[:, 0] - pose[:, 0], points[:, 1] - pose[:, 1]
    ahead = c * dx + s * dy - camera.x - mx
    left = c * dy - s * dx - camera.y - my
    up = points[:, 2] - camera.z - mz
    c, s = np.cos(camera.yaw + m_yaw), np.sin(camera.yaw + m_yaw)
    ahead, right = c * ahead + s * left, s * ahead - c * left
    c, s = np.cos(camera.pitch + m_pitch), np.sin(camera.pitch + m_pitch)
    depth, down = c * ahead + s * up, s * ahead - c * up
    c, s = np.cos(m_roll), np.sin(m_roll)
    right, down = c * right + s * down, c * down - s * right
    x, y = right / depth, down / depth
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + r2 * (k2 + r2 * k3))
    xd = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    yd = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    return np.stack([fx * xd + cx, fy * yd + cy], axis=1)
