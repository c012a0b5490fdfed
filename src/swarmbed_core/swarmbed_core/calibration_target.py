"""The target for camera calibration: its place, the poses to take pictures from, and its detection.

A ChArUco target hangs at a known place on a wall. The robot stops at several places in front of it, turns in
steps, and takes a picture at each step (`plan`). The pictures and the odometry's poses become views
(`Album`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import cv2
import numpy as np
from pydantic import Field, model_validator

from swarmbed_core.camera import HEIGHT, WIDTH, CameraModel, see_markers_k
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

# Images are enlarged before detection, which finds codes from further away.
ENLARGED = 2
# The least number of corners in a view, and their least distance to the image's edge for refinement.
CORNERS_MIN = 6
EDGE_PX = 2.0
# Rows and columns of the grid in which an image's coverage is counted.
COVERAGE_CELLS = (6, 8)

# Places of a plan: distance from the wall beyond the nearest place, in metres, and sideways offset, in widths
# of the target. The robot turns in steps at each.
PLACES = ((0.45, 0.0), (0.25, -0.3), (0.12, -0.15), (0.0, 0.0), (0.06, 0.2), (0.25, 0.3))
TURN_STEP = math.radians(10.0)
# The smallest marker that a plan relies on.
MARKER_PX_MIN = 14.0
# Views that a calibration needs.
VIEWS_MIN = 8


class CalibrationTarget(ConfigFile):
    """A ChArUco target on a wall: a chessboard with a marker in each of its white squares.

    `position` is the centre of the whole board in `map`, `yaw` the direction of its face's normal, both as
    for a `markers.Marker`; it hangs upright. The first square, top left, is black. Marker ids start at
    `first_id` and increase row by row.
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
            message = f"first_id {self.first_id}: the last id would exceed {DICTIONARY_SIZE - 1}"
            raise ValueError(message)
        if self.position[2] - self.height / 2 < 0:
            message = (
                f"position: the target is {self.height:g} m high; its lower edge would be below the floor"
            )
            raise ValueError(message)
        return self

    @property
    def width(self) -> float:
        """Return the width of the board in metres."""
        return self.squares_x * self.square

    @property
    def height(self) -> float:
        """Return the height of the board in metres."""
        return self.squares_y * self.square

    @property
    def ids(self) -> range:
        """Return the ids of its markers."""
        return range(self.first_id, self.first_id + self.squares_x * self.squares_y // 2)

    @property
    def pose_map(self) -> FloatArray:
        """Return the target's planar pose (x, y, yaw); the yaw is the direction of its face's normal."""
        return np.array([self.position[0], self.position[1], self.yaw])

    def corners(self) -> FloatArray:
        """Return the inner corners (n, 3) of the chessboard in `map`, row by row from the top left one."""
        column, row = np.meshgrid(np.arange(1, self.squares_x), np.arange(1, self.squares_y))
        return self.place(
            np.column_stack([column.ravel() * self.square, row.ravel() * self.square]),
        )

    def place(self, board: ArrayLike) -> FloatArray:
        """Return points (n, 2) of the board as points (n, 3) of `map`.

        On the board, x points right and y down from its top left corner.
        """
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
        """Return the target as an OpenCV board."""
        return cv2.aruco.CharucoBoard(
            (self.squares_x, self.squares_y),
            self.square,
            self.marker,
            cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12),
            np.array(self.ids),
        )

    def picture(self, px_per_square: int = 64) -> Image:
        """Return the picture to print, black 0 and white 255, without a margin.

        Args:
            px_per_square: the picture's resolution; below 16 the codes may be too small to draw.

        Raises:
            MarkerError: the picture would be too small for its codes, or too large.
        """
        side = round(px_per_square * self.marker / self.square)
        if side < 8 or px_per_square * max(self.squares_x, self.squares_y) > 32_000:
            message = (
                f"px_per_square={px_per_square}: expected at least 8 pixels per marker side and at most "
                "32000 pixels per side of the board"
            )
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
    """The target's inner corners found in an image: their ids (n) and pixels (n, 2)."""

    ids: IntArray
    pixels: FloatArray


def find_target(image: Image, target: CalibrationTarget) -> Sight | None:
    """Return the target's corners in a grey image, or None if there are too few for a reliable detection.

    Corner ids are the row indices of `CalibrationTarget.corners`.
    """
    # Doubling the image halves the size from which codes are found.
    large = cv2.resize(image, None, fx=ENLARGED, fy=ENLARGED, interpolation=cv2.INTER_CUBIC)
    try:
        detector, shift = _detector(target)
        found, numbers, _, _ = detector.detectBoard(large)
    except cv2.error:
        # OpenCV raises on codes of the target at places that no board fits.
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
    """Return a target's detector and the offset of its corners, in pixels to the right and down."""
    parameters = cv2.aruco.CharucoParameters()
    # Near the image's edges a corner often has only one whole marker beside it.
    parameters.minMarkers = 1
    detector = cv2.aruco.CharucoDetector(target.board(), parameters)
    # OpenCV 4 counts from a pixel's edge here, OpenCV 5 from its centre: measure it on a drawn target.
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
        pose_map: the robot's pose by odometry when the picture was taken.
        sight: the target's corners in the picture.
    """

    pose_map: FloatArray
    sight: Sight


@dataclass(slots=True)
class Album:
    """The views of one camera. Pictures that do not show the target are counted in `health`."""

    target: CalibrationTarget
    camera: Camera
    views: list[View] = field(default_factory=list)
    health: Health = field(default_factory=Health)

    def add(self, image: ArrayLike | bytes, pose_map: ArrayLike) -> bool:
        """Detect the target in a picture and add a view; return whether one was added.

        Args:
            image: grey levels (height, width) as uint8, or the bytes of an image file.
            pose_map: the robot's pose by odometry when the picture was taken.
        """
        try:
            pose = np.array(pose_map, dtype=np.float64)
        except (TypeError, ValueError):
            pose = np.empty(0)
        if pose.shape != (3,) or not np.isfinite(pose).all():
            self.health.refuse("picture.pose", f"picture with pose {pose_map!r}: expected finite x, y, yaw")
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
        """Return a picture as grey levels. A picture that does not fit the camera is counted: None."""
        width, height = self.camera.width, self.camera.height
        if isinstance(image, bytes | bytearray | memoryview):
            try:
                decoded = cv2.imdecode(np.frombuffer(image, dtype=np.uint8), cv2.IMREAD_GRAYSCALE)
            except cv2.error:
                decoded = None
            if decoded is None:
                self.health.refuse("picture.broken", f"{len(image)} bytes: not a complete image file")
                return None
            image = decoded
        try:
            grey = np.asarray(image)
        except (TypeError, ValueError):
            grey = np.empty(0)
        if grey.dtype != np.uint8 or grey.shape != (height, width):
            what = f"{grey.shape} of {grey.dtype}, expected ({height}, {width}) of uint8"
            self.health.refuse("picture.shape", f"picture of {self.camera.name}: {what}")
            return None
        return np.ascontiguousarray(grey)


@dataclass(frozen=True, slots=True, eq=False)
class Stop:
    """A pose for pictures, and the cameras that see the target from it."""

    pose_map: FloatArray
    cameras: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Drive:
    """A drive past a target, in driving order.

    Attributes:
        stops: the poses for pictures.
        covered: expected number of corners in each cell of the image (`coverage`), by camera.
        seconds: estimated duration, from the first stop to the last picture.
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
) -> Drive:
    """Return a plan of poses that spreads the target's corners over each camera's image.

    The robot turns on the spot at a few places. From all headings in steps of ten degrees, the plan picks
    those that add corners where there are few.

    Args:
        target: the target; the floor in front of it must be free.
        spec: of the robot.
        cameras: names of the cameras to calibrate; by default all that look around.
        pictures: the least number of pictures per camera, if as many show the target.
        clearance: the least distance between the robot and the wall, in metres.
        speed: between the places, in m/s.
        yaw_rate: of turns, in rad/s.
        pause: at each stop, in seconds.

    Raises:
        MarkerError: there is no such camera, or it sees the target from too few poses.
    """
    around = {
        camera.name: CameraModel.from_spec(camera)
        for camera in spec.cameras
        if not camera.on_lifter and abs(camera.pitch) < math.pi / 4
    }
    wanted = list(around) if cameras is None else list(cameras)
    if not wanted or not around.keys() >= set(wanted):
        message = (
            f"cameras {', '.join(wanted) or 'none'}: {spec.kind} has {', '.join(around) or 'none'} around it"
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
                f"camera {name}: sees the target from {has.sum()} poses, at least {VIEWS_MIN} are needed"
            )
            raise MarkerError(message)
        total = gains[sorted(chosen)].sum(axis=0) if chosen else np.zeros(gains.shape[1])
        # Other cameras' stops add pictures too, but not where this camera needs them: half must be its own.
        own = 0
        while (seeing := sum(bool(has[k]) for k in chosen)) < int(has.sum()):
            if seeing >= pictures and 2 * own >= pictures:
                break
            own += 1
            # Cells that already have corners gain less from more: the logarithm.
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
    return Drive(stops, covered, seconds)


def _foresee(target: CalibrationTarget, model: CameraModel, pose_map: FloatArray) -> IntArray:
    """Return how many corners a camera will find in each cell of its image, the robot at a pose."""
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


def coverage(pixels: FloatArray, width: int, height: int) -> IntArray:
    """Return the number of pixels (n, 2) in each cell of an image, by row and column."""
    rows, columns = COVERAGE_CELLS
    counts, _, _ = np.histogram2d(
        pixels[:, 1], pixels[:, 0], bins=(rows, columns), range=((-0.5, height - 0.5), (-0.5, width - 0.5))
    )
    return counts.astype(np.int64)
