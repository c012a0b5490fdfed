"""Calibration of a perimeter camera by driving before a target on the wall (DOTS paper, III-A4b).

A ChArUco target hangs at a known place. The robot stops before it at some places, turns, and takes a
picture at each turn (`plan`); the pictures and where the robot believed to be become views (`Album`), and
the views become the camera's intrinsics (`calibrate`).

Only the robot's place in the plane and its yaw vary, so the pictures alone know the lens less well than
pictures taken by hand would. What is known beside them is used: the robot is horizontal, its cameras are
mounted where the spec says, its odometry is good to about a centimetre. One least squares problem holds all
of it: the corners in the images, and how far belief and mounting may be off (`Trust`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import cv2
import numpy as np
from pydantic import Field, model_validator
from scipy.optimize import least_squares

from swarmbed_core.camera import HEIGHT, WIDTH, CameraCalibration, CameraModel, see_markers_k
from swarmbed_core.config import ConfigFile
from swarmbed_core.errors import MarkerError
from swarmbed_core.geometry import compose, wrap
from swarmbed_core.health import Health
from swarmbed_core.markers import DICTIONARY_SIZE, CodeId, Finite3, Size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Camera, RobotSpec

    Image = NDArray[np.uint8]
    IntArray = NDArray[np.int64]

# What a least squares problem knows of a camera: its intrinsics, then how it is mounted otherwise than the
# spec says, in metres and radians. After them come x, y and yaw of each view.
INTRINSICS = ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3")
MOUNTING = ("x", "y", "z", "yaw", "pitch", "roll")
_N_LENS, _N_MOUNT = len(INTRINSICS), len(MOUNTING)
_N_SHARED = _N_LENS + _N_MOUNT
# How far the distortion coefficients k1, k2, p1, p2, k3 of a usable lens are from 0.
DISTORTION_SLACK = (0.2, 0.1, 0.01, 0.01, 0.02)

# Images are enlarged before codes are looked for: they are found from further away then.
ENLARGED = 2
# Corners that a view needs, and how far they must be from the image's edge to be refined.
CORNERS_MIN = 6
EDGE_PX = 2.0
# Rows and columns of cells in which an image's coverage is counted.
COVERAGE_CELLS = (6, 8)

# Places of a plan: how much further from the wall than the nearest, in metres, and how far to the side, in
# widths of the target. At each the robot turns in steps.
PLACES = ((0.45, 0.0), (0.25, -0.3), (0.12, -0.15), (0.0, 0.0), (0.06, 0.2), (0.25, 0.3))
TURN_STEP = math.radians(10.0)
# The smallest marker that is counted on.
MARKER_PX_MIN = 14.0

# Views that a calibration needs, the share of the given ones that it may drop, and how much of the image
# must be covered: a share of the cells, and of the way from the middle to the left, right and upper edge.
# The lower part of a low camera's image shows the floor.
VIEWS_MIN = 8
DROPPED_MAX = 0.4
COVERED_MIN = 0.5
REACH_MIN = 0.7
# A view is where it was believed to be within this, or the robot was elsewhere.
ASTRAY_SIGMAS = 6.0
ASTRAY_PX = 40.0
# Corners further off than this fit nothing; a view with many of them contradicts the others.
OUTLIER_SIGMAS = 6.0
OUTLIERS_MAX = 0.3
CORNER_PX_MIN = 0.02
# Corners beside each other err alike, so they tell less than as many independent ones. Over random lenses the
# focal lengths were twice as far off as independent corners would have been.
ALIKE = 2.0
ROUNDS_MAX = 5
PLACE_OFF_MAX = 0.3
TURN_OFF_MAX_DEG = 15.0
# The least squares problem: corners beyond this many sigmas pull less, the imaginary step of derivatives,
# and when it is solved.
ROBUST_SIGMAS = 3.0
STEP = 1e-30
STEPS_MAX = 100
STEP_MIN = 1e-5
DAMPING_MAX = 1e12
# What no usable calibration exceeds, and what a good one keeps to.
RMS_MAX = 2.0
FOCAL_OFF_MAX = 0.2
CENTRE_OFF_MAX = 0.15
FOCAL_SIGMA_GOOD = 0.004
CENTRE_SIGMA_GOOD = 0.8
RMS_GOOD = 0.5
DROPPED_GOOD = 0.15


class CalibrationTarget(ConfigFile):
    """A ChArUco target on a wall: a chessboard with a marker in each of its white squares.

    `position` is the centre of the whole board in `map`, `yaw` the direction its face looks in, both as for
    a `markers.Marker`; it hangs upright. The first square, top left, is black. The markers have ids from
    `first_id` on, row by row.
    """

    FOLDER: ClassVar[str] = "config/targets"

    dictionary: Literal["ARUCO_MIP_36h12"]
    squares_x: Annotated[int, Field(ge=3, le=40)]
    squares_y: Annotated[int, Field(ge=3, le=40)]
    square: Size
    marker: Size
    first_id: CodeId
    position: Finite3
    yaw: float

    @model_validator(mode="after")
    def _fits(self) -> CalibrationTarget:
        if not 0.4 * self.square <= self.marker <= 0.9 * self.square:
            message = f"marker {self.marker} must be 0.4 to 0.9 of square {self.square}"
            raise ValueError(message)
        if self.first_id + self.squares_x * self.squares_y // 2 > DICTIONARY_SIZE:
            message = f"the last id would be above {DICTIONARY_SIZE - 1}"
            raise ValueError(message)
        if self.position[2] - self.height / 2 < 0:
            message = f"position: the target is {self.height:g} m high, its lower edge would be in the floor"
            raise ValueError(message)
        return self

    @property
    def width(self) -> float:
        """Return how wide the board is."""
        return self.squares_x * self.square

    @property
    def height(self) -> float:
        """Return how high the board is."""
        return self.squares_y * self.square

    @property
    def ids(self) -> range:
        """Return the ids of its markers."""
        return range(self.first_id, self.first_id + self.squares_x * self.squares_y // 2)

    @property
    def pose_map(self) -> FloatArray:
        """Return where the target is on the floor plan, its yaw the direction its face looks in."""
        return np.array([self.position[0], self.position[1], self.yaw])

    def corners(self) -> FloatArray:
        """Return the inner corners (n, 3) of the chessboard in `map`, row by row from the top left one."""
        column, row = np.meshgrid(np.arange(1, self.squares_x), np.arange(1, self.squares_y))
        return self.place(
            np.column_stack([column.ravel() * self.square, row.ravel() * self.square]),
        )

    def place(self, board: ArrayLike) -> FloatArray:
        """Return points (n, 2) of the board, x right and y down from its top left, in `map`."""
        points = np.asarray(board, dtype=np.float64)
        right, down = points[:, 0] - self.width / 2, points[:, 1] - self.height / 2
        x, y, z = self.position
        return np.column_stack([x - math.sin(self.yaw) * right, y + math.cos(self.yaw) * right, z - down])

    def marker_corners(self) -> FloatArray:
        """Return the corners (n, 4, 2) of the markers on the board, in the order of `ids`."""
        row, column = np.indices((self.squares_y, self.squares_x))
        white = (row + column) % 2 == 1
        centre = np.column_stack([column[white] + 0.5, row[white] + 0.5]) * self.square
        half = self.marker / 2
        return centre[:, None] + half * np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])

    def board(self) -> cv2.aruco.CharucoBoard:
        """Return it as OpenCV knows it."""
        return cv2.aruco.CharucoBoard(
            (self.squares_x, self.squares_y),
            self.square,
            self.marker,
            cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12),
            np.array(self.ids),
        )

    def picture(self, px_per_square: int = 64) -> Image:
        """Return what is printed, black 0 and white 255, without a margin.

        Args:
            px_per_square: the picture's size; below 16 the codes cannot be drawn.

        Raises:
            MarkerError: it would be too small for its codes, or too large.
        """
        side = round(px_per_square * self.marker / self.square)
        if side < 8 or px_per_square * max(self.squares_x, self.squares_y) > 32_000:
            message = f"px_per_square={px_per_square}: the codes' cells would have no pixels, or all too many"
            raise MarkerError(message)
        codes = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12)
        picture = np.zeros((self.squares_y * px_per_square, self.squares_x * px_per_square), np.uint8)
        margin = (px_per_square - side) // 2
        number = self.first_id
        for row in range(self.squares_y):
            for column in range(self.squares_x):
                if (row + column) % 2 == 0:
                    continue
                top, left = row * px_per_square, column * px_per_square
                picture[top : top + px_per_square, left : left + px_per_square] = 255
                code = cv2.aruco.generateImageMarker(codes, number, side)
                inside = slice(top + margin, top + margin + side), slice(left + margin, left + margin + side)
                picture[inside] = code
                number += 1
        return picture


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """The inner corners of the target that an image shows: their numbers (n) and pixels (n, 2)."""

    ids: IntArray
    pixels: FloatArray


def find_target(image: Image, target: CalibrationTarget) -> Sight | None:
    """Return what a grey image shows of the target, None if that is too little to be sure of it.

    The corners of the chessboard are numbered as in `CalibrationTarget.corners`.
    """
    # Codes are found at half the size in an image of twice the size.
    large = cv2.resize(image, None, fx=ENLARGED, fy=ENLARGED, interpolation=cv2.INTER_CUBIC)
    try:
        detector, shift = _detector(target)
        found, numbers, _, _ = detector.detectBoard(large)
    except cv2.error:
        # What looks like the target's codes but is in places where no target can be.
        return None
    if numbers is None or len(numbers) < CORNERS_MIN:
        return None
    ids = np.asarray(numbers, dtype=np.int64).ravel()
    pixels = (np.asarray(found, dtype=np.float64).reshape(-1, 2) - shift + 0.5) / ENLARGED - 0.5
    height, width = image.shape
    inside = ((pixels > EDGE_PX) & (pixels < np.array([width, height]) - 1 - EDGE_PX)).all(axis=1)
    ids, pixels = ids[inside], pixels[inside]
    rows, columns = np.divmod(ids, target.squares_x - 1)
    if len(ids) < CORNERS_MIN or len(set(rows)) < 2 or len(set(columns)) < 2:
        return None
    return Sight(ids, pixels)


@lru_cache(maxsize=8)
def _detector(target: CalibrationTarget) -> tuple[cv2.aruco.CharucoDetector, float]:
    """Return what finds a target, and by how many pixels what it finds is too far right and down."""
    parameters = cv2.aruco.CharucoParameters()
    # Towards the image's edges a corner often has but one whole marker beside it.
    parameters.minMarkers = 1
    detector = cv2.aruco.CharucoDetector(target.board(), parameters)
    # OpenCV 4 counts from a pixel's edge here, OpenCV 5 from its centre: a drawn target tells which.
    side, margin = 64, 32
    drawn = target.picture(side)
    framed = cv2.copyMakeBorder(drawn, margin, margin, margin, margin, cv2.BORDER_CONSTANT, value=(255,))
    found, numbers, _, _ = detector.detectBoard(framed)
    if numbers is None:
        return detector, 0.0
    rows, columns = np.divmod(np.asarray(numbers).ravel(), target.squares_x - 1)
    true = (np.column_stack([columns, rows]) + 1) * side + margin - 0.5
    return detector, float(np.median(np.asarray(found).reshape(-1, 2) - true))


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One picture of the target.

    Attributes:
        pose_map: where the robot believed to be when it was taken.
        sight: what the picture shows.
    """

    pose_map: FloatArray
    sight: Sight


@dataclass(slots=True)
class Album:
    """The pictures that one camera took, as far as they show the target; what does not is counted."""

    target: CalibrationTarget
    camera: Camera
    views: list[View] = field(default_factory=list)
    health: Health = field(default_factory=Health)

    def add(self, image: ArrayLike | bytes, pose_map: ArrayLike) -> bool:
        """Look for the target in a picture, and return whether it is a view now.

        Args:
            image: grey levels (height, width) as uint8, or the bytes of an image file.
            pose_map: where the robot believed to be when it was taken.
        """
        try:
            pose = np.array(pose_map, dtype=np.float64)
        except (TypeError, ValueError):
            pose = np.empty(0)
        if pose.shape != (3,) or not np.isfinite(pose).all():
            self.health.refuse("picture.pose", f"a picture taken at {pose_map!r}; x, y and yaw are right")
            return False
        grey = self._grey(image)
        if grey is None:
            return False
        sight = find_target(grey, self.target)
        if sight is None:
            self.health.refuse("picture.no_target", f"the picture at {np.round(pose, 3)} shows no target")
            return False
        self.views.append(View(pose, sight))
        return True

    def _grey(self, image: ArrayLike | bytes) -> Image | None:
        """Return a picture as grey levels if it is one of this camera's, else refuse it."""
        width, height = self.camera.width, self.camera.height
        if isinstance(image, bytes | bytearray | memoryview):
            try:
                decoded = cv2.imdecode(np.frombuffer(image, dtype=np.uint8), cv2.IMREAD_GRAYSCALE)
            except cv2.error:
                decoded = None
            if decoded is None:
                self.health.refuse("picture.broken", f"{len(image)} bytes that are no whole image")
                return None
            image = decoded
        try:
            grey = np.asarray(image)
        except (TypeError, ValueError):
            grey = np.empty(0)
        if grey.dtype != np.uint8 or grey.shape != (height, width):
            what = f"{grey.shape} of {grey.dtype}; right is ({height}, {width}) of uint8"
            self.health.refuse("picture.shape", f"a picture of {self.camera.name} that is {what}")
            return None
        return np.ascontiguousarray(grey)


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """Where the robot stops for pictures, and which of its cameras see the target from there."""

    pose_map: FloatArray
    cameras: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A drive past a target, in the order of driving.

    Attributes:
        stops: where pictures are taken.
        covered: of each camera, how many corners each cell of the image will get (`coverage`).
        seconds: what it takes about, from the first stop to the last picture.
    """

    stops: tuple[Stop, ...]
    covered: dict[str, IntArray]
    seconds: float

    def poses(self, camera: str) -> list[FloatArray]:
        """Return the poses from which a camera takes pictures."""
        return [stop.pose_map for stop in self.stops if camera in stop.cameras]


def plan(
    target: CalibrationTarget,
    spec: RobotSpec,
    cameras: Sequence[str] | None = None,
    *,
    pictures: int = 24,
    clearance: float = 0.05,
    speed: float = 0.3,
    yaw_rate: float = 1.0,
    pause: float = 1.0,
) -> Plan:
    """Return from where a robot looks at a target, so that its corners are all over each camera's image.

    The robot turns on the spot at a few places. Of all turns in steps of ten degrees those are taken that
    bring corners to where there were few.

    Args:
        target: what it looks at; before it must be free floor.
        spec: of the robot.
        cameras: which are calibrated; without, all that look around.
        pictures: how many each camera takes at least, if as many show the target.
        clearance: between the robot and the wall, at the least.
        speed: of driving between the places.
        yaw_rate: of turning.
        pause: at each stop.

    Raises:
        MarkerError: there is no such camera, or it cannot see the target often enough.
    """
    around = {
        camera.name: CameraModel.from_spec(camera)
        for camera in spec.cameras
        if not camera.on_lifter and abs(camera.pitch) < math.pi / 4
    }
    wanted = list(around) if cameras is None else list(cameras)
    if not wanted or not around.keys() >= set(wanted):
        message = (
            f"cameras {', '.join(wanted) or 'none'}: {spec.kind} has {', '.join(around) or 'none'} around"
        )
        raise MarkerError(message)
    nearest = spec.body.bounding_radius + clearance
    places = [(nearest + far, side * target.width) for far, side in PLACES]
    candidates = [
        compose(target.pose_map, (far, side, math.pi + turn * TURN_STEP))
        for far, side in places
        for turn in range(round(2 * math.pi / TURN_STEP))
    ]
    sights = {name: [_foresee(target, around[name], pose) for pose in candidates] for name in wanted}
    chosen: set[int] = set()
    for name in wanted:
        gains = np.array([np.sqrt(counts).ravel() for counts in sights[name]])
        has = gains.sum(axis=1) > 0
        if int(has.sum()) < VIEWS_MIN:
            message = (
                f"camera {name}: sees the target from {has.sum()} of all poses; {VIEWS_MIN} are the least"
            )
            raise MarkerError(message)
        total = gains[sorted(chosen)].sum(axis=0) if chosen else np.zeros(gains.shape[1])
        # Pictures that other cameras' stops bring are welcome, but are not where this one needs them.
        own = 0
        while (seeing := sum(bool(has[k]) for k in chosen)) < int(has.sum()):
            if seeing >= pictures and 2 * own >= pictures:
                break
            own += 1
            # Ever less is gained where there are corners already.
            worth = np.log1p(total + gains).sum(axis=1)
            worth[sorted(chosen)] = -np.inf
            best = int(np.argmax(np.where(has, worth, -np.inf)))
            chosen.add(best)
            total = total + gains[best]
    order = sorted(chosen)
    stops = tuple(Stop(candidates[k], tuple(name for name in wanted if sights[name][k].any())) for k in order)
    covered = {name: np.sum([sights[name][k] for k in order], axis=0) for name in wanted}
    seconds = pause * len(stops)
    for before, after in pairwise(stop.pose_map for stop in stops):
        seconds += math.hypot(*(after - before)[:2]) / speed + abs(wrap(after[2] - before[2])) / yaw_rate
    return Plan(stops, covered, seconds)


def _foresee(target: CalibrationTarget, model: CameraModel, pose_map: FloatArray) -> IntArray:
    """Return how many corners a camera finds in each cell of its image, the robot at a pose."""
    x, y, yaw = pose_map.tolist()
    c, s = math.cos(yaw), math.sin(yaw)
    markers = target.place(target.marker_corners().reshape(-1, 2)).reshape(-1, 4, 3)
    pixels = np.empty((len(markers), 4, 2))
    visible = np.empty(len(markers), dtype=np.bool_)
    see_markers_k(model.numbers, markers, x, y, yaw, MARKER_PX_MIN, pixels, visible)
    beside = np.zeros((target.squares_y, target.squares_x), dtype=np.bool_)
    row, column = np.indices(beside.shape)
    beside[(row + column) % 2 == 1] = visible
    known = beside[:-1, :-1] | beside[1:, :-1] | beside[:-1, 1:] | beside[1:, 1:]
    corners = target.corners()
    dx, dy = corners[:, 0] - x, corners[:, 1] - y
    places, inside = model.project(np.column_stack([c * dx + s * dy, c * dy - s * dx, corners[:, 2]]))
    width, height = int(model.numbers[WIDTH]), int(model.numbers[HEIGHT])
    inside &= known.ravel()
    inside &= ((places > EDGE_PX) & (places < np.array([width, height]) - 1 - EDGE_PX)).all(axis=1)
    numbers = np.flatnonzero(inside)
    rows, columns = np.divmod(numbers, target.squares_x - 1)
    if len(numbers) < 2 * CORNERS_MIN or len(set(rows)) < 2 or len(set(columns)) < 2:
        return np.zeros(COVERAGE_CELLS, dtype=np.int64)
    return coverage(places[numbers], width, height)


@dataclass(frozen=True, slots=True)
class Trust:
    """How far what is known before may be off: standard deviations in metres and radians.

    Attributes:
        position: of the robot, as its odometry believes it, along x and along y.
        yaw: of the robot.
        mount: of the lens in the body, along each axis.
        mount_angle: of the lens about each axis.
        corner_px: of a corner in an image, until the corners themselves tell.
    """

    position: float = 0.010
    yaw: float = math.radians(0.5)
    mount: float = 0.003
    mount_angle: float = math.radians(1.0)
    corner_px: float = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """How well one view fits.

    Attributes:
        view: as it was given.
        pose_map: where the robot was after all.
        ids: of the corners that were used.
        pixels: (n, 2), where they are in the picture.
        residuals: (n, 2), by how much they are beside where the calibration puts them.
    """

    view: View
    pose_map: FloatArray
    ids: IntArray
    pixels: FloatArray
    residuals: FloatArray

    @property
    def rms(self) -> float:
        """Return the length of a residual, in the root mean square."""
        return math.sqrt(float((self.residuals**2).sum(axis=1).mean()))


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationResult:
    """What a calibration found.

    Attributes:
        name: of the camera.
        calibration: its intrinsics.
        sigma: standard deviations of fx, fy, cx, cy, k1, k2, p1, p2, k3.
        mounting: how the camera is mounted otherwise than the spec says: x, y, z, yaw, pitch, roll.
        mounting_sigma: standard deviations of these.
        fits: the views that were used.
        dropped: the views that were not, each with the reason.
        corners_dropped: corners of the used views that fitted nothing.
        corner_px: standard deviation of a corner along x and along y, in pixels.
        doubts: what is not as it should be, in words; empty if all is well.
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
        """Return the length of a residual over all views, in the root mean square."""
        return math.sqrt(float((np.vstack([fit.residuals for fit in self.fits]) ** 2).sum(axis=1).mean()))

    @property
    def coverage(self) -> float:
        """Return which share of the image had corners of the target."""
        pixels = np.vstack([fit.pixels for fit in self.fits])
        return float((coverage(pixels, self.calibration.width, self.calibration.height) > 0).mean())


def coverage(pixels: FloatArray, width: int, height: int) -> IntArray:
    """Return how many pixels (n, 2) are in each cell of an image, by row and column."""
    rows, columns = COVERAGE_CELLS
    counts, _, _ = np.histogram2d(
        pixels[:, 1], pixels[:, 0], bins=(rows, columns), range=((-0.5, height - 0.5), (-0.5, width - 0.5))
    )
    return counts.astype(np.int64)


def calibrate(
    views: Sequence[View], target: CalibrationTarget, camera: Camera, trust: Trust | None = None
) -> CalibrationResult:
    """Return the intrinsics of a camera from pictures of a target at a known place.

    Views that contradict the others are dropped, and the result says so.

    Args:
        views: what the camera saw, and from where.
        target: what it looked at.
        camera: as its spec says: the image's size, the mounting, about the focal length.
        trust: how good the robot's poses and the mounting are.

    Raises:
        MarkerError: the views are too few, show too little of the image, contradict each other, or give
            intrinsics that no such camera can have.
    """
    return _Problem(target, camera, trust or Trust()).solve(views)


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
            # Of a two-dimensional normal distribution the median length is 1.18 sigma.
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
            message = f"camera {self.camera.name}: views contradict each other however many are dropped"
            raise MarkerError(message)
        # Corners do not err as a normal distribution has it: the larger figure counts.
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
        """Return where a view was taken if the lens is as in the spec, and what speaks against the view."""
        sight = view.sight
        count = len(sight.ids)
        if count < CORNERS_MIN:
            return view.pose_map, f"{count} corners; {CORNERS_MIN} are the least"
        strange = (
            not ((sight.ids >= 0) & (sight.ids < len(self.corners))).all() or len(set(sight.ids)) < count
        )
        if strange or not (np.isfinite(sight.pixels).all() and np.isfinite(view.pose_map).all()):
            return view.pose_map, "corners that the target has not, or numbers that are not finite"
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
            return pose, f"no pose explains the corners: half of them are {rough:.0f} px off"
        if far > PLACE_OFF_MAX or turned > TURN_OFF_MAX_DEG:
            return pose, f"taken {far * 100:.0f} cm and {turned:.0f} deg from where the robot believed to be"
        return pose, None

    def require(self, kept: Sequence[View], given: int) -> None:
        """Refuse to go on with too few views, or with views of too small a part of the image."""
        name = self.camera.name
        if len(kept) < VIEWS_MIN or len(kept) < (1 - DROPPED_MAX) * given:
            message = (
                f"camera {name}: {len(kept)} of {given} views can be used, {VIEWS_MIN} and "
                f"{1 - DROPPED_MAX:.0%} are the least; check the light, and where the target hangs"
            )
            raise MarkerError(message)
        pixels = np.vstack([view.sight.pixels for view in kept])
        width, height = self.camera.width, self.camera.height
        share = float((coverage(pixels, width, height) > 0).mean())
        if share < COVERED_MIN:
            message = (
                f"camera {name}: corners in {share:.0%} of the image, {COVERED_MIN:.0%} are the least; turn "
                "further, and look from nearer"
            )
            raise MarkerError(message)
        away = (pixels - np.array([width - 1, height - 1]) / 2) / np.array([width / 2, height / 2])
        reach = {"left": -away[:, 0].min(), "right": away[:, 0].max(), "upper": -away[:, 1].min()}
        for side, share in reach.items():
            if share < REACH_MIN:
                message = (
                    f"camera {name}: corners up to {share:.0%} of the way to the {side} edge of the image, "
                    f"{REACH_MIN:.0%} are the least"
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
        """Return what the views have in common, their poses, and the covariance of the first."""
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
            """Return the residuals' derivatives by what is shared, and by their view's pose."""
            # An imaginary step gives derivatives without the error of a difference.
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
            """Return the matrix and the right side of the normal equations."""
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
        """Return by how much each corner of each view is beside where it should be."""
        pack = _Pack(views, [np.ones(len(view.sight.ids), dtype=np.bool_) for view in views], self.corners)
        found = pack.pixels - _project(self.camera, shared, places, pack.points, pack.rows)
        return np.split(found, np.cumsum([len(view.sight.ids) for view in views])[:-1])

    def contradictions(
        self, views: Sequence[View], used: Sequence[NDArray[np.bool_]], places: FloatArray
    ) -> dict[int, str]:
        """Return which views contradict the others, and why."""
        found: dict[int, str] = {}
        for k, (view, good, pose) in enumerate(zip(views, used, places, strict=True)):
            strayed = np.abs(pose - view.pose_map) / self.pose_slack
            bad = len(good) - int(good.sum())
            if bad > OUTLIERS_MAX * len(good) or good.sum() < CORNERS_MIN:
                found[k] = f"{bad} of {len(good)} corners are not where the other views put them"
            elif strayed.max() > ASTRAY_SIGMAS:
                off = pose - view.pose_map
                shift, turn = 1000 * math.hypot(off[0], off[1]), math.degrees(abs(off[2]))
                found[k] = f"taken {shift:.0f} mm and {turn:.1f} deg from where the robot believed to be"
        return found

    def result(
        self,
        fits: tuple[Fit, ...],
        dropped: tuple[tuple[View, str], ...],
        shared: FloatArray,
        covariance: FloatArray,
    ) -> CalibrationResult:
        """Return it as a result, unless no such camera can be."""
        camera, lens = self.camera, shared[:_N_LENS]
        where = f"camera {camera.name}"
        residuals = np.vstack([fit.residuals for fit in fits])
        rms = math.sqrt(float((residuals**2).sum(axis=1).mean()))
        off = np.abs(lens[:4] - self.start[:4]) / ([self.start[0]] * 2 + [camera.width] * 2)
        fault = None
        if not np.isfinite(shared).all() or off[:2].max() > FOCAL_OFF_MAX or off[2:].max() > CENTRE_OFF_MAX:
            fault = (
                f"focal lengths {lens[0]:.0f} and {lens[1]:.0f} px, principal point {lens[2]:.0f}, "
                f"{lens[3]:.0f} px: the spec says {self.start[0]:.0f} px, and about the image's middle"
            )
        elif rms > RMS_MAX:
            fault = f"the corners are {rms:.1f} px off, {RMS_MAX} px are the most"
        if fault is not None:
            message = f"{where}: {fault}; check where the target hangs, and its squares' size"
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
        # Where the image folds over is the model's to say.
        CameraModel.from_spec(camera.model_copy(update={"on_lifter": False}), None, calibration)
        sigma = np.sqrt(np.diag(covariance))
        return CalibrationResult(
            name=camera.name,
            calibration=calibration,
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
        """Return what is not as a good calibration has it."""
        found = []
        focal, focal_good = sigma[:2].max(), FOCAL_SIGMA_GOOD * self.start[0]
        if focal > focal_good:
            found.append(f"focal length known to {focal:.2f} px, {focal_good:.2f} are good")
        centre = sigma[2:4].max()
        if centre > CENTRE_SIGMA_GOOD:
            found.append(f"principal point known to {centre:.2f} px, {CENTRE_SIGMA_GOOD:.2f} are good")
        if rms > RMS_GOOD:
            found.append(f"corners {rms:.2f} px off, {RMS_GOOD:.2f} are good")
        if dropped > DROPPED_GOOD * (used + dropped):
            found.append(f"{dropped} of {used + dropped} views contradict the others")
        return tuple(found)


class _Pack:
    """The used corners of some views in a row: where they are in `map`, of which view, in which pixel."""

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

    It takes complex numbers too: so it is differentiated.
    """
    fx, fy, cx, cy, k1, k2, p1, p2, k3 = shared[:_N_LENS]
    mx, my, mz, m_yaw, m_pitch, m_roll = shared[_N_LENS:]
    # From the map to the body, then from the lens.
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
