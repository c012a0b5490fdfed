"""Poses of robots and carriers from markers (DOTS paper, III-A4 and IV-B2, Figures 13 and 14).

The input is corner detections (`device.CornerReading`) from any detector. A marker's frame has x out of its
face and z up along its code; its corners run top left, top right, bottom right, bottom left as seen from the
front.

Detections that cannot be a marker of the map are rejected and counted in `Health`. Results are finite, have a
consistent covariance, and are never the mirror image of the truth: if the corners fit two poses, a robot's
pose is rejected, and a carrier's side is marked as having an unknown yaw.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from swarmbed_core.camera import LENS_NUMBERS, TZ
from swarmbed_core.config import ConfigFile, Part
from swarmbed_core.errors import MarkerError
from swarmbed_core.geometry import compose, wrap
from swarmbed_core.heading import Area
from swarmbed_core.health import Health
from swarmbed_core.planar_pose import (
    AMBIGUOUS,
    BEHIND,
    CHI2,
    COVARIANCE,
    DEGENERATE,
    DOF,
    FOUND,
    FROM_BEHIND,
    NO_POSE,
    NOT_FINITE,
    OUTSIDE,
    RESIDUAL,
    RESULT_NUMBERS,
    TWICE,
    UNKNOWN,
    USED,
    lens_effect_k,
    locate_k,
    quad_fault_k,
    screen_k,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from swarmbed_core.camera import CameraModel
    from swarmbed_core.device import CornerReading
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.planar_pose import IntArray
    from swarmbed_core.spec import RobotSpec

# Number of codes in the dictionary ARUCO_MIP_36h12.
DICTIONARY_SIZE = 250
# [rad] Yaws with a larger sigma do not count as known: a linear filter could not use them.
YAW_SIGMA_MAX = 0.1
# [px] A mirrored pose would mislead a filter for long: it is excluded even with this much corner noise.
DOUBT_PX = 1.0
# [m] A marker closer to the upward camera than this is not completely visible.
GAP_MIN = 0.005
# [m] A pose further outside the map's area than this is rejected.
AREA_SLACK = 0.1
# [s] Largest difference of stamps between images that are used together.
STAMPS_TOGETHER = 0.002

_FAULTS = {
    UNKNOWN: ("marker.unknown", "is not in the map"),
    TWICE: ("marker.twice", "is in the image more than once, but each id of the map exists once"),
    NOT_FINITE: ("marker.not_finite", "has a corner that is not finite"),
    OUTSIDE: ("marker.outside", "has a corner outside the image"),
    DEGENERATE: ("marker.degenerate", "is degenerate: not a convex quad, or too small"),
    FROM_BEHIND: ("marker.behind", "has its corners in reverse order, as if seen from behind"),
}
_REFUSALS = {
    NO_POSE: ("no_pose", "no pose explains the corners"),
    RESIDUAL: ("residual", "the corners are too far from those predicted by the best pose"),
    AMBIGUOUS: ("ambiguous", "more than one pose explains the corners; a heading would decide"),
    BEHIND: ("behind", "the only pose that explains the corners is behind the marker"),
}

Finite3 = tuple[float, float, float]
CodeId = Annotated[int, Field(ge=0, lt=DICTIONARY_SIZE)]
Size = Annotated[float, Field(gt=0, le=2.0)]


class Marker(Part):
    """One marker of a map.

    `position` is the centre of its code, `yaw` and `pitch` the direction of its face's normal. `pitch` is the
    angle above the horizontal plane (-pi/2 faces down), `roll` the rotation about the normal.
    """

    id: CodeId
    size: Size
    position: Finite3
    yaw: float
    pitch: float = 0.0
    roll: float = 0.0

    def corners(self) -> FloatArray:
        """Return the four corners (4, 3) in the map's frame."""
        half = self.size / 2
        face = np.array([[0.0, -half, half], [0.0, half, half], [0.0, half, -half], [0.0, -half, -half]])
        cy, sy = math.cos(self.yaw), math.sin(self.yaw)
        cp, sp = math.cos(self.pitch), math.sin(self.pitch)
        cr, sr = math.cos(self.roll), math.sin(self.roll)
        turned = (
            np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
            @ np.array([[cp, 0.0, -sp], [0.0, 1.0, 0.0], [sp, 0.0, cp]])
            @ np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
        )
        corners: FloatArray = face @ turned.T + np.array(self.position)
        return corners


class MarkerMap(ConfigFile):
    """Markers at known places (DOTS paper, III-A4c)."""

    FOLDER: ClassVar[str] = "config/markermaps"

    dictionary: Literal["ARUCO_MIP_36h12"]
    markers: Annotated[tuple[Marker, ...], Field(min_length=1)]
    area: Area | None = None

    @model_validator(mode="after")
    def _each_is_there_once(self) -> MarkerMap:
        ids = Counter(marker.id for marker in self.markers)
        twice = sorted(number for number, count in ids.items() if count > 1)
        if twice:
            message = f"markers: duplicate ids {twice}; each id may occur once"
            raise ValueError(message)
        places: dict[Finite3, int] = {}
        for marker in self.markers:
            if marker.position in places:
                message = f"markers: {places[marker.position]} and {marker.id} are at the same place"
                raise ValueError(message)
            places[marker.position] = marker.id
        return self

    @property
    def ids(self) -> IntArray:
        """Return the markers' ids in ascending order."""
        return np.array(sorted(marker.id for marker in self.markers), dtype=np.int64)

    def corners(self) -> FloatArray:
        """Return the corners (n, 4, 3) of the markers, in the order of `ids`."""
        return np.stack([marker.corners() for marker in sorted(self.markers, key=lambda marker: marker.id)])


class CarrierSides(Part):
    """The codes on a carrier's sides. `rise` is the height of their centres above the tray's underside."""

    first_id: CodeId
    last_id: CodeId
    size: Size
    rise: float

    @model_validator(mode="after")
    def _ids_rise(self) -> CarrierSides:
        if self.last_id < self.first_id:
            message = f"last_id {self.last_id} is below first_id {self.first_id}"
            raise ValueError(message)
        return self


class CarrierUnderside(Part):
    """The markers under a carrier: rows from its front (+x) to its back, each from right to left."""

    first_id: CodeId
    rows: Annotated[int, Field(ge=1)]
    columns: Annotated[int, Field(ge=1)]
    size: Size
    pitch: Size

    @model_validator(mode="after")
    def _fits(self) -> CarrierUnderside:
        if self.pitch <= self.size:
            message = f"pitch {self.pitch} must be above size {self.size}: the codes would touch"
            raise ValueError(message)
        if self.first_id + self.rows * self.columns > DICTIONARY_SIZE:
            message = f"first_id {self.first_id}: the last id would exceed {DICTIONARY_SIZE - 1}"
            raise ValueError(message)
        return self


class Docking(Part):
    """Distances of the docking poses from a carrier's side, along its outward normal (Figure 13)."""

    predock: float
    dock: float

    def predock_pose(self, side_pose: ArrayLike) -> FloatArray:
        """Return the robot's pose in front of a side, facing it, in the frame of the side's pose."""
        return compose(side_pose, (self.predock, 0.0, math.pi))

    def dock_pose(self, side_pose: ArrayLike) -> FloatArray:
        """Return the robot's pose at the tray's edge, facing inwards, in the frame of the side's pose."""
        return compose(side_pose, (self.dock, 0.0, math.pi))


class CarrierMarkers(ConfigFile):
    """All markers of a kind of carrier, and how to dock with it."""

    FOLDER: ClassVar[str] = "config/markermaps"

    dictionary: Literal["ARUCO_MIP_36h12"]
    sides: CarrierSides
    underside: CarrierUnderside
    docking: Docking

    @model_validator(mode="after")
    def _ids_differ(self) -> CarrierMarkers:
        if set(self.side_ids) & set(self.underside_ids):
            message = "the ids of the sides and of the underside overlap"
            raise ValueError(message)
        return self

    @property
    def side_ids(self) -> range:
        """Return the ids of carriers, the codes on their sides."""
        return range(self.sides.first_id, self.sides.last_id + 1)

    @property
    def underside_ids(self) -> range:
        """Return the ids of the markers on the underside."""
        return range(
            self.underside.first_id, self.underside.first_id + self.underside.rows * self.underside.columns
        )

    def side_corners(self, clearance: float) -> FloatArray:
        """Return the corners (4, 3) of a side's code in the side's frame: x outwards, origin on the floor."""
        face = Marker(id=0, size=self.sides.size, position=(0.0, 0.0, clearance + self.sides.rise), yaw=0.0)
        return face.corners()

    def underside_map(self, height: float) -> MarkerMap:
        """Return the underside's markers in the carrier's frame, the tray's underside at `height`."""
        under = self.underside
        markers = [
            Marker(
                id=under.first_id + row * under.columns + column,
                size=under.size,
                position=(
                    ((under.rows - 1) / 2 - row) * under.pitch,
                    (column - (under.columns - 1) / 2) * under.pitch,
                    height,
                ),
                yaw=0.0,
                pitch=-math.pi / 2,
            )
            for row in range(under.rows)
            for column in range(under.columns)
        ]
        return MarkerMap(version=1, dictionary=self.dictionary, markers=tuple(markers))


@dataclass(frozen=True, slots=True, eq=False)
class PoseEstimate:
    """The robot's pose at `stamp`, in the map's frame.

    `covariance` comes from the corners' noise, which is independent in every image. `lens`, 3 x m, holds the
    constant errors: the pose error for one standard deviation of each lens error in the cameras'
    calibrations, camera by camera in the solver's order. `chi2` is the corners' squared error in units of
    their noise, with `dof` degrees of freedom.
    """

    stamp: float
    pose_map: FloatArray
    covariance: FloatArray
    markers: int
    chi2: float
    dof: int
    lens: FloatArray = field(default_factory=lambda: np.zeros((3, 0)))


@dataclass(frozen=True, slots=True, eq=False)
class SideSight:
    """One side of a carrier, seen by a camera (frame cfiducial of the paper's Figure 13).

    `pose_body` is the middle of the side, on the floor; its yaw is the direction of the outward normal. If
    `yaw_known` is False, the corners fit two directions: the yaw is their mean, and the covariance covers
    both. The position is valid in either case.

    `pose_body` refers to the time of the image, some hundredths of a second ago. `pose_odom` is the same pose
    in the odometry frame, where it stays valid while the robot moves. Onboard fills it in.

    Attributes:
        id: the carrier's marker.
        stamp: [s] time of the image, on the robot's clock.
        camera: name of the camera.
        pose_body: [(3,); m, m, rad; base_link] middle of the side, on the floor; yaw: its outward normal.
        covariance: [(3, 3); m², m·rad, rad²; base_link] covariance of the pose.
        yaw_known: whether the yaw is known: False if the corners fit two directions.
        alignment: (left edge - right edge) / (left + right) of the marker's image; 0 if seen square on.
        markers: number of markers used.
        pose_odom: [(3,); m, m, rad; odom] the same pose in `odom`. None until Onboard has filled it in.
    """

    id: int
    stamp: float
    camera: str
    pose_body: FloatArray
    covariance: FloatArray
    yaw_known: bool
    alignment: float
    markers: int
    pose_odom: FloatArray | None = None

    @property
    def distance(self) -> float:
        """Return the distance from the robot's centre to the middle of the side, in metres."""
        return math.hypot(self.pose_body[0], self.pose_body[1])


@dataclass(frozen=True, slots=True, eq=False)
class UndersideSight:
    """The carrier above the robot: the pose of its centre, seen by the upward camera.

    Attributes:
        stamp: [s] time of the image, on the robot's clock.
        pose_body: [(3,); m, m, rad; base_link] pose of the carrier's centre.
        covariance: [(3, 3); m², m·rad, rad²; base_link] covariance of the pose.
        markers: number of markers used.
        pose_odom: [(3,); m, m, rad; odom] the same pose in `odom`. None until Onboard has filled it in.
    """

    stamp: float
    pose_body: FloatArray
    covariance: FloatArray
    markers: int
    pose_odom: FloatArray | None = None


def alignment(corners: ArrayLike) -> float:
    """Return (left edge - right edge) / (left edge + right edge) of a marker's image, by their heights.

    It is the `alignment` of dots_interfaces/Tag; 0 if the edges have no height.
    """
    quad = np.asarray(corners, dtype=np.float64).reshape(4, 2)
    left = float(quad[3, 1] - quad[0, 1])
    right = float(quad[2, 1] - quad[1, 1])
    total = left + right
    return (left - right) / total if total > 0 and math.isfinite(total) else 0.0


class _Corners:
    """Shared by both solvers: the cameras' numbers, the checks of readings, buffers for detections."""

    def __init__(
        self, cameras: Mapping[str, CameraModel], health: Health, family: str, room: int, doubt_px: float
    ) -> None:
        self.cameras = dict(cameras)
        self.rows = {name: row for row, name in enumerate(self.cameras)}
        self.numbers = np.ascontiguousarray(np.stack([camera.numbers for camera in self.cameras.values()]))
        self.health = health
        self.family = family
        self.doubt_px = doubt_px
        self.points = np.zeros((room, 4, 3))
        self.pixels = np.zeros((room, 4, 2))
        self.rays = np.zeros((room, 4, 2))
        self.origin = np.zeros((room, 2), dtype=np.int64)
        self.result = np.zeros(RESULT_NUMBERS)

    def refuse(self, reason: str, explanation: str) -> None:
        """Count a rejected input under a reason with this solver's prefix."""
        self.health.refuse(f"{self.family}.{reason}", explanation)

    def check(self, reading: CornerReading) -> tuple[int, IntArray, FloatArray] | None:
        """Return camera row, ids and corners of a reading; None if empty or invalid (counted)."""
        row = self.rows.get(reading.camera)
        if row is None:
            known = ", ".join(self.rows)
            self.refuse("camera", f"reading of unknown camera {reading.camera!r}, expected one of {known}")
            return None
        try:
            stamp_is_good = math.isfinite(reading.stamp)
            ids, corners = np.asarray(reading.ids), np.asarray(reading.corners, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            self.refuse("shape", f"reading of {reading.camera} without numbers: {error}")
            return None
        if not stamp_is_good:
            stamped = f"reading of {reading.camera} stamped {reading.stamp}"
            self.refuse("stamp", f"{stamped}: expected finite seconds")
            return None
        if ids.size == 0:
            return None
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or corners.shape != (len(ids), 4, 2):
            shapes = f"{ids.shape} {ids.dtype} ids and {corners.shape} corners"
            right = "expected (n) integers and (n, 4, 2)"
            self.refuse("shape", f"reading of {reading.camera} with {shapes}: {right}")
            return None
        return row, np.ascontiguousarray(ids, dtype=np.int64), np.ascontiguousarray(corners)

    def fault(self, fault: int, marker: int, camera: str) -> None:
        """Count a rejected detection."""
        reason, explanation = _FAULTS[fault]
        self.health.refuse(reason, f"marker {marker} seen by {camera} {explanation}")

    def locate(self, count: int, facing: float, window: float, *, inverse: bool) -> int:
        """Solve for the pose of the collected markers; return the status and fill `result`."""
        return locate_k(
            self.points,
            self.pixels,
            self.rays,
            self.origin,
            self.numbers,
            count,
            facing,
            window,
            YAW_SIGMA_MAX,
            self.doubt_px,
            inverse,
            self.result,
        )

    def refuse_status(self, status: int, seen: str) -> None:
        """Count a set of markers that gave no pose."""
        reason, explanation = _REFUSALS[status]
        self.refuse(reason, f"{seen}: {explanation}")

    def answer(self) -> tuple[FloatArray, FloatArray] | None:
        """Return pose and covariance from `result`. None if they are not finite, which is counted."""
        numbers = self.result.tolist()
        if not (math.isfinite(sum(numbers)) and min(numbers[COVARIANCE : COVARIANCE + 9 : 4]) > 0):
            self.refuse("no_pose", "the pose or covariance from the corners is not finite")
            return None
        return self.result[:3].copy(), self.result[COVARIANCE : COVARIANCE + 9].reshape(3, 3).copy()


class RobotPoseSolver:
    """Solves for the robot's pose from markers at known places, seen by one or several cameras at a time."""

    def __init__(
        self,
        marker_map: MarkerMap,
        cameras: Mapping[str, CameraModel],
        health: Health | None = None,
        *,
        ignore: Iterable[int] = (),
    ) -> None:
        """Prepare for a map and the robot's cameras.

        Args:
            marker_map: where the markers are.
            cameras: the robot's, by the names in readings.
            health: counts rejected detections.
            ignore: ids of other objects, such as carriers, which are skipped without being counted.

        Raises:
            MarkerError: there are no cameras.
        """
        if not cameras:
            message = "no camera given to see the map's markers; pass the robot's cameras by name"
            raise MarkerError(message)
        self.map = marker_map
        self.health = health if health is not None else Health()
        self._ids = marker_map.ids
        self._known_corners = np.ascontiguousarray(marker_map.corners())
        self._times_seen = np.zeros(len(self._ids), dtype=np.int64)
        self._ignored = frozenset(ignore)
        room = len(self._ids) * len(cameras) + 1
        self._corners = _Corners(cameras, self.health, "marker", room, DOUBT_PX)
        self._faults = np.zeros(64, dtype=np.int64)
        models = self._corners.cameras.values()
        ways = max(len(camera.unsure) for camera in models)
        self._unsure = np.zeros((len(models), ways, LENS_NUMBERS))
        for row, camera in enumerate(models):
            self._unsure[row, : len(camera.unsure)] = camera.unsure

    @property
    def lens_errors(self) -> int:
        """Return the number of lens errors of all cameras: 0 if the calibrations are exact."""
        return self._unsure.shape[0] * self._unsure.shape[1]

    def solve(
        self, reading: CornerReading, heading: float | None = None, heading_sigma: float = 0.05
    ) -> PoseEstimate | None:
        """Return the robot's pose from one camera's detections, None if they do not determine it."""
        return self.solve_many((reading,), heading, heading_sigma)

    def solve_many(
        self, readings: Sequence[CornerReading], heading: float | None = None, heading_sigma: float = 0.05
    ) -> PoseEstimate | None:
        """Return the robot's pose from the detections of several cameras at one time.

        Args:
            readings: at most one per camera, stamps within 2 ms of the newest; others are rejected.
            heading: rough yaw of the robot in the map, from a compass or a filter. It only selects among
                poses that fit the corners and never enters the estimate, so a filter may pass its own.
            heading_sigma: sigma of the heading; poses more than four sigma away are not considered.
        """
        facing, window = 0.0, math.pi
        if heading is not None:
            if math.isfinite(heading) and math.isfinite(heading_sigma) and heading_sigma >= 0:
                facing, window = wrap(-heading), min(4.0 * heading_sigma, math.pi)
            else:
                self.health.refuse(
                    "marker.heading",
                    f"heading {heading} +- {heading_sigma} ignored: expected finite numbers, sigma >= 0",
                )
        count, stamps = self._collect(readings)
        if count == 0:
            return None
        kit = self._corners
        status = kit.locate(count, facing, window, inverse=True)
        if status == RESIDUAL:
            status, count = self._without_strangers(count, facing, window)
        if status != FOUND:
            names = ", ".join(str(self._ids[row]) for row in kit.origin[:count, 1])
            kit.refuse_status(status, f"markers {names}")
            return None
        found = kit.answer()
        if found is None:
            return None
        pose, covariance = found
        lens = np.zeros((3, self.lens_errors))
        if lens.size and not lens_effect_k(
            kit.points, kit.origin, kit.numbers, self._unsure, count, pose, lens
        ):
            kit.refuse_status(NO_POSE, "markers")
            return None
        area = self.map.area
        if area is not None and not area.contains(pose[0], pose[1], AREA_SLACK):
            kit.refuse("area", f"pose at ({pose[0]:.2f}, {pose[1]:.2f}) outside the map's area {area}")
            return None
        return PoseEstimate(
            sum(stamps) / len(stamps),
            pose,
            covariance,
            count,
            float(kit.result[CHI2]),
            int(kit.result[DOF]),
            lens,
        )

    def _collect(self, readings: Sequence[CornerReading]) -> tuple[int, list[float]]:
        """Collect the usable detections; return the number of markers and the stamps of their images."""
        kit = self._corners
        checked = []
        for reading in readings:
            good = kit.check(reading)
            if good is not None:
                checked.append((reading, good))
        count = 0
        stamps: list[float] = []
        used = set()
        newest = max((reading.stamp for reading, _ in checked), default=0.0)
        for reading, (row, ids, corners) in checked:
            if newest - reading.stamp > STAMPS_TOGETHER:
                kit.refuse(
                    "stamps_apart", f"{reading.camera} at {reading.stamp} s, another camera at {newest} s"
                )
                continue
            if row in used:
                kit.refuse("camera_twice", f"two readings of {reading.camera} at one time: expected one")
                continue
            used.add(row)
            if len(ids) > len(self._faults):
                self._faults = np.zeros(2 * len(ids), dtype=np.int64)
            faults = self._faults[: len(ids)]
            before = count
            count = screen_k(
                ids,
                corners,
                row,
                kit.numbers,
                self._ids,
                self._known_corners,
                self._times_seen,
                faults,
                kit.points,
                kit.pixels,
                kit.rays,
                kit.origin,
                before,
            )
            if count - before < len(ids):
                self._count_faults(ids, faults, reading.camera)
            if count > before:
                stamps.append(reading.stamp)
        return count, stamps

    def _count_faults(self, ids: IntArray, faults: IntArray, camera: str) -> None:
        for marker, fault in zip(ids.tolist(), faults.tolist(), strict=True):
            if fault != USED and not (fault == UNKNOWN and marker in self._ignored):
                self._corners.fault(fault, marker, camera)

    def _without_strangers(self, count: int, facing: float, window: float) -> tuple[int, int]:
        """Keep the marker that agrees pairwise with most others, and those, if they are a majority.

        Returns:
            The status of the remaining markers, whose pose is in `result`, and their number.
        """
        kit = self._corners
        saved = (kit.points[:count].copy(), kit.pixels[:count].copy(), kit.rays[:count].copy())
        origin = kit.origin[:count].copy()

        def locate(chosen: list[int]) -> int:
            for array, whole in zip((kit.points, kit.pixels, kit.rays), saved, strict=True):
                array[: len(chosen)] = whole[chosen]
            kit.origin[: len(chosen)] = origin[chosen]
            return kit.locate(len(chosen), facing, window, inverse=True)

        friends: list[set[int]] = [{i} for i in range(count)]
        for i, j in combinations(range(count), 2):
            if locate([i, j]) in (FOUND, AMBIGUOUS):
                friends[i].add(j)
                friends[j].add(i)
        most = max(len(group) for group in friends)
        group = sorted(next(group for group in friends if len(group) == most))
        if 2 * len(group) > count > len(group):
            status = locate(group)
            if status == FOUND:
                for i in set(range(count)) - set(group):
                    marker = int(self._ids[origin[i, 1]])
                    kit.refuse(
                        "stranger", f"marker {marker} contradicts {len(group)} others; check its place"
                    )
                return FOUND, len(group)
        kit.origin[:count] = origin
        return RESIDUAL, count


class CarrierPoseSolver:
    """Solves for poses of carriers on the floor: sides from perimeter cameras, underside from below."""

    def __init__(
        self,
        markers: CarrierMarkers,
        spec: RobotSpec,
        cameras: Mapping[str, CameraModel],
        health: Health | None = None,
    ) -> None:
        """Prepare for one kind of carrier.

        Args:
            markers: its codes.
            spec: the robot, with the dimensions of the tray.
            cameras: the robot's, by the names in readings.
            health: counts rejected detections.

        Raises:
            MarkerError: the spec has no carrier or no cameras, or the tray is not square: its sides share one
                id, so they could not be distinguished.
        """
        carrier = spec.carrier
        if carrier is None or not cameras:
            missing = "cameras" if carrier else "carrier"
            message = f"{spec.kind} has no {missing} in its spec: it cannot detect carriers"
            raise MarkerError(message)
        if carrier.length != carrier.width:
            size = f"{carrier.length} x {carrier.width} m"
            message = f"the carrier is {size}: its sides share one id, so it must be square"
            raise MarkerError(message)
        self.markers = markers
        self.health = health if health is not None else Health()
        self.tray_side = carrier.length
        self.clearance = carrier.clearance
        underside = markers.underside_map(carrier.clearance)
        self._under_ids = underside.ids
        self._under_corners = np.ascontiguousarray(underside.corners())
        self._times_seen = np.zeros(len(self._under_ids), dtype=np.int64)
        face = markers.side_corners(carrier.clearance)
        # Of two sides in one image, the right one faces 90 deg further round; in the left one's frame:
        half = self.tray_side / 2
        turned = np.column_stack([-face[:, 1], face[:, 0], face[:, 2]])
        self._faces = np.stack([face, turned + np.array([-half, half, 0.0])])
        self._right_in_left = (-half, half, math.pi / 2)
        self._corners = _Corners(cameras, self.health, "carrier", max(len(self._under_ids), 2) + 1, 0.0)

    def side(self, reading: CornerReading, only: int | None = None) -> tuple[SideSight, ...]:
        """Return the carriers' sides that a camera sees, nearest first.

        Two sides of one carrier in an image are solved together; the one that faces the robot more is
        returned.

        Args:
            reading: of one camera.
            only: id of the only carrier to return; by default all.
        """
        checked = self._corners.check(reading)
        if checked is None:
            return ()
        row, ids, corners = checked
        carriers: dict[int, list[FloatArray]] = {}
        for i, marker in enumerate(ids.tolist()):
            if marker not in self.markers.side_ids or (only is not None and marker != only):
                continue
            quad = corners[i]
            fault = quad_fault_k(self._corners.numbers[row], quad, self._corners.rays[0])
            if fault == USED:
                carriers.setdefault(marker, []).append(quad)
            else:
                self._corners.fault(fault, marker, reading.camera)
        sights = [self._side(marker, quads, row, reading) for marker, quads in carriers.items()]
        return tuple(
            sorted((sight for sight in sights if sight is not None), key=lambda sight: sight.distance)
        )

    def _side(
        self, marker: int, quads: list[FloatArray], row: int, reading: CornerReading
    ) -> SideSight | None:
        """Return one carrier's side from its one or two quads."""
        kit = self._corners
        if len(quads) > len(self._faces):
            seen = f"{len(quads)} markers {marker} seen by {reading.camera}"
            kit.refuse("sides", f"{seen}: expected at most two sides of a carrier")
            return None
        if len(quads) > 1:
            quads.sort(key=lambda quad: float(quad[:, 0].sum()))
        for i, quad in enumerate(quads):
            kit.points[i] = self._faces[i]
            kit.pixels[i] = quad
            quad_fault_k(kit.numbers[row], quad, kit.rays[i])
            kit.origin[i, 0] = row
        status = kit.locate(len(quads), 0.0, math.pi, inverse=False)
        if status not in (FOUND, AMBIGUOUS):
            kit.refuse_status(status, f"carrier {marker} seen by {reading.camera}")
            return None
        found = kit.answer()
        if found is None:
            return None
        pose, covariance = found
        quad = quads[0]
        if len(quads) > 1:
            right = compose(pose, self._right_in_left)
            if _frontal(right) > _frontal(pose):
                lever_x, lever_y = right[:2] - pose[:2]
                shift = np.array([[1.0, 0.0, -lever_y], [0.0, 1.0, lever_x], [0.0, 0.0, 1.0]])
                pose, covariance, quad = right, shift @ covariance @ shift.T, quads[1]
        return SideSight(
            marker,
            reading.stamp,
            reading.camera,
            pose,
            covariance,
            status == FOUND,
            alignment(quad),
            len(quads),
        )

    def underside(self, reading: CornerReading, lifter_height: float) -> UndersideSight | None:
        """Return the pose of the carrier above the robot, from the underside's markers.

        Args:
            reading: of the upward camera.
            lifter_height: of the platform above the floor; it moves the camera, and a lifted tray.
        """
        kit = self._corners
        checked = kit.check(reading)
        if checked is None:
            return None
        row, ids, corners = checked
        if not math.isfinite(lifter_height):
            kit.refuse("lifter", f"lifter height {lifter_height}: expected finite metres above the floor")
            return None
        height = max(self.clearance, lifter_height)
        camera = kit.cameras[reading.camera].at_lifter_height(lifter_height)
        gap = height - float(camera.numbers[TZ])
        if gap < GAP_MIN:
            where = f"the tray is {gap * 1e3:.1f} mm above {reading.camera}"
            kit.refuse("gap", f"{where}: too close to see a whole marker")
            return None
        self._under_corners[:, :, 2] = height
        kit.numbers[row] = camera.numbers
        faults = np.zeros(len(ids), dtype=np.int64)
        count = screen_k(
            ids,
            corners,
            row,
            kit.numbers,
            self._under_ids,
            self._under_corners,
            self._times_seen,
            faults,
            kit.points,
            kit.pixels,
            kit.rays,
            kit.origin,
            0,
        )
        for marker, fault in zip(ids.tolist(), faults.tolist(), strict=True):
            if fault not in (USED, UNKNOWN):
                kit.fault(fault, marker, reading.camera)
        if count == 0:
            return None
        status = kit.locate(count, 0.0, math.pi, inverse=False)
        if status != FOUND:
            kit.refuse_status(status, f"{count} markers of an underside seen by {reading.camera}")
            return None
        found = kit.answer()
        return None if found is None else UndersideSight(reading.stamp, *found, markers=count)


def _frontal(pose_body: FloatArray) -> float:
    """Return the cosine between a side's normal and the line of sight: 1 if it faces the robot."""
    x, y, yaw = pose_body.tolist()
    return float(-(x * math.cos(yaw) + y * math.sin(yaw)) / max(math.hypot(x, y), 1e-9))
