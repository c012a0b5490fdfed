"""Marker detection without pixels (DOTS paper, III-A4 and IV-B2, Figures 13 and 14).

All cameras of the same rate expose in one call. A marker is detected when its four corners are in the image,
it faces the camera, every edge of its image is long enough, and nothing occludes it: robots up to their
height, walls and obstacles, carriers' legs and trays. Corners have the camera's noise. Images have the
latency of Table II; those of one camera arrive in order.

There are three kinds of markers. The cameras that look around detect those on the sides of carriers and on
the arena's walls; cameras on the lifter detect the map under the carrier above the robot. A robot that does
not localise ignores the walls. Viewers of its cameras get them nonetheless, from a second pass with noise of
its own, so that watching never alters a run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.camera import (
    CAMERA_NUMBERS,
    FY,
    K1,
    K3,
    MARKER_SIDE_MIN_PX,
    ROTATION,
    SIGMA,
    TX,
    TY,
    TZ,
    cameras_of,
    project_k,
)
from swarmbed_core.device import CornerReading
from swarmbed_core.kernel import kernel

from swarmbed_sim.parts import (
    CLEARANCE,
    LEG,
    LENGTH,
    MARKER_ID,
    THICKNESS,
    Beat,
    Late,
    roomy,
    things_of,
)
from swarmbed_sim.parts import WIDTH as WIDTH_OF_TRAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from swarmbed_core.arena import Arena
    from swarmbed_core.device import Clock
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import MarkerMap
    from swarmbed_core.scene import Scene
    from swarmbed_core.spec import Camera, RobotSpec

    from swarmbed_sim.parts import Inventory, Life, Things
    from swarmbed_sim.physics import Physics

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

SIDE_MIN_PX = 16.0
"""Shortest detectable edge of a carrier's code: two pixels per square, as for the detector on real pixels."""
ROOM = 64
"""Largest number of markers in one image."""
POOL = 4096
"""Normal numbers drawn at once for the cameras of one robot; one exposure uses a few hundred."""
SHORT = 2e-3
"""Lines of sight end this far, in metres, before a marker, so that its mounting does not occlude it."""
EXACT = np.empty((0, 0))
"""Noise array that stands for no noise."""


@kernel
def disc_span_k(
    x: float, y: float, dx: float, dy: float, disc_x: float, disc_y: float, radius: float
) -> tuple[float, float]:
    """Return where the line (x, y) + t (dx, dy) enters and leaves a disc; t1 < t0 if it misses."""
    to_x, to_y = disc_x - x, disc_y - y
    square = dx * dx + dy * dy
    if square < 1e-18:
        return (0.0, 1.0) if to_x * to_x + to_y * to_y < radius * radius else (1.0, 0.0)
    along = (to_x * dx + to_y * dy) / square
    across = (to_x * dy - to_y * dx) ** 2 / square
    left = radius * radius - across
    if left <= 0.0:
        return 1.0, 0.0
    half = math.sqrt(left / square)
    return along - half, along + half


@kernel
def _slab_k(start: float, step: float, low: float, high: float, t0: float, t1: float) -> tuple[float, float]:
    """Clip the interval (t0, t1) to where start + t step is between low and high; t1 < t0 if nowhere."""
    if abs(step) < 1e-12:
        return (t0, t1) if low < start < high else (1.0, 0.0)
    a, b = (low - start) / step, (high - start) / step
    return max(t0, min(a, b)), min(t1, max(a, b))


@kernel
def hidden_k(
    eye: FloatArray,
    x: float,
    y: float,
    z: float,
    own_robot: int,
    own_carrier: int,
    things: Things,
) -> bool:
    """Return whether a robot, carrier, wall or obstacle occludes a point from a camera.

    Args:
        eye: x, y, z of the lens in `map`.
        x: of the point; anything within `SHORT` of it does not occlude it.
        y: of the point.
        z: of the point.
        own_robot: the row of the camera's robot, or -1.
        own_carrier: the row of the carrier whose tray holds the point, or -1.
        things: possible occluders.
    """
    poses, sizes, carriers = things.poses, things.sizes, things.carriers
    carrier_poses, carrier_lifts = things.carrier_poses, things.carrier_lifts
    segments, pillars = things.segments, things.pillars
    ex, ey, ez = eye[0], eye[1], eye[2]
    length = math.sqrt((x - ex) ** 2 + (y - ey) ** 2 + (z - ez) ** 2)
    share = max(1.0 - SHORT / max(length, SHORT), 0.0)
    dx, dy, dz = (x - ex) * share, (y - ey) * share, (z - ez) * share
    for i in range(segments.shape[0]):
        to_x, to_y = segments[i, 0] - ex, segments[i, 1] - ey
        wall_x, wall_y = segments[i, 2] - segments[i, 0], segments[i, 3] - segments[i, 1]
        turn = dx * wall_y - dy * wall_x
        # 0 for a parallel wall: no comparison lets inf or nan through.
        t = (to_x * wall_y - to_y * wall_x) / turn
        if 0.0 < t < 1.0 and 0.0 <= (to_x * dy - to_y * dx) / turn <= 1.0:
            return True
    for i in range(pillars.shape[0]):
        t0, t1 = disc_span_k(ex, ey, dx, dy, pillars[i, 0], pillars[i, 1], pillars[i, 2])
        if max(t0, 0.0) < min(t1, 1.0):
            return True
    for i in range(poses.shape[0]):
        if i == own_robot:
            continue
        t0, t1 = disc_span_k(ex, ey, dx, dy, poses[i, 0], poses[i, 1], sizes[i, 0])
        t0, t1 = max(t0, 0.0), min(t1, 1.0)
        if t0 < t1 and min(ez + t0 * dz, ez + t1 * dz) < sizes[i, 1]:
            return True
    for i in range(carrier_poses.shape[0]):
        cx, cy = carrier_poses[i, 0], carrier_poses[i, 1]
        half_x, half_y = 0.5 * carriers[i, LENGTH], 0.5 * carriers[i, WIDTH_OF_TRAY]
        reach = math.sqrt(half_x * half_x + half_y * half_y)
        t0, t1 = disc_span_k(ex, ey, dx, dy, cx, cy, reach)
        if max(t0, 0.0) >= min(t1, 1.0):
            continue
        c, s = math.cos(carrier_poses[i, 2]), math.sin(carrier_poses[i, 2])
        # In the carrier's frame.
        lx, ly = c * (ex - cx) + s * (ey - cy), c * (ey - cy) - s * (ex - cx)
        ldx, ldy = c * dx + s * dy, c * dy - s * dx
        low, high = carrier_lifts[i], carrier_lifts[i] + carriers[i, CLEARANCE]
        leg = carriers[i, LEG]
        for k in range(4):
            leg_x = half_x - leg if k in (0, 3) else leg - half_x
            leg_y = half_y - leg if k in (0, 1) else leg - half_y
            t0, t1 = disc_span_k(lx, ly, ldx, ldy, leg_x, leg_y, leg)
            t0, t1 = _slab_k(ez, dz, low, high, max(t0, 0.0), min(t1, 1.0))
            if t0 < t1:
                return True
        if i != own_carrier:
            t0, t1 = _slab_k(lx, ldx, -half_x, half_x, 0.0, 1.0)
            t0, t1 = _slab_k(ly, ldy, -half_y, half_y, t0, t1)
            t0, t1 = _slab_k(ez, dz, high, high + carriers[i, THICKNESS], t0, t1)
            if t0 < t1:
                return True
    return False


@kernel
def project_marker_k(
    camera: FloatArray,
    pose: FloatArray,
    c: float,
    s: float,
    corners_map: FloatArray,
    min_px: float,
    pixels: FloatArray,
) -> bool:
    """Project a marker; return whether it is entirely in the image, seen from its front, and large enough.

    `c` and `s` are the cosine and the sine of the robot's yaw.
    """
    for k in range(4):
        dx, dy = corners_map[k, 0] - pose[0], corners_map[k, 1] - pose[1]
        u, v, inside = project_k(camera, c * dx + s * dy, c * dy - s * dx, corners_map[k, 2])
        if not inside:
            return False
        pixels[k, 0], pixels[k, 1] = u, v
    for k in range(4):
        j, m = (k + 1) % 4, (k + 2) % 4
        ax, ay = pixels[j, 0] - pixels[k, 0], pixels[j, 1] - pixels[k, 1]
        bx, by = pixels[m, 0] - pixels[j, 0], pixels[m, 1] - pixels[j, 1]
        if ax * by - ay * bx <= 0.0 or ax * ax + ay * ay < min_px * min_px:
            return False
    return True


@kernel
def place_k(corners: FloatArray, x: float, y: float, z: float, c: float, s: float, out: FloatArray) -> None:
    """Transform a marker's corners to `map`; `x`, `y`, `z` and the yaw (`c`, `s`) are its frame's pose."""
    for k in range(4):
        out[k, 0] = x + c * corners[k, 0] - s * corners[k, 1]
        out[k, 1] = y + s * corners[k, 0] + c * corners[k, 1]
        out[k, 2] = z + corners[k, 2]


@kernel
def _quad_hidden_k(
    eye: FloatArray,
    quad: FloatArray,
    own_robot: int,
    own_carrier: int,
    things: Things,
) -> bool:
    """Return whether a corner or the centre of a marker is occluded."""
    for k in range(5):
        if k < 4:
            x, y, z = quad[k, 0], quad[k, 1], quad[k, 2]
        else:
            x, y, z = (
                0.5 * (quad[0, 0] + quad[2, 0]),
                0.5 * (quad[0, 1] + quad[2, 1]),
                0.5 * (quad[0, 2] + quad[2, 2]),
            )
        if hidden_k(
            eye,
            x,
            y,
            z,
            own_robot,
            own_carrier,
            things,
        ):
            return True
    return False


@kernel
def expose_k(
    count: int,
    eyes: FloatArray,
    eye_of: IntArray,
    eye_places: FloatArray,
    on: BoolArray,
    localised: BoolArray,
    heights: FloatArray,
    things: Things,
    side: FloatArray,
    under: FloatArray,
    under_first: int,
    walls: FloatArray,
    wall_ids: IntArray,
    noise: FloatArray,
    cursors: IntArray,
    images: IntArray,
    lateness: FloatArray,
    ids: IntArray,
    pixels: FloatArray,
) -> int:
    """Expose the first `count` cameras; return the number of images that contain markers.

    Args:
        count: number of cameras.
        eyes: the cameras' parameters; the height of those on the lifter is updated.
        eye_of: rows of the robot's row, the row of its noise, and 1 for a camera on the lifter.
        eye_places: rows of the camera's height, the lifter's height at which that holds, and the depth up
            to which a carrier's side is detectable, see `deepest`.
        on: which robots have power.
        localised: which robots detect the markers on the walls.
        heights: of the robots' platforms.
        things: carriers to detect, and all occluders.
        side: the corners of a code in the frame of its side, at the height of the tray's underside.
        under: the corners of the map's codes in the carrier's frame, at that height.
        under_first: the id of the first of them.
        walls: the corners of the markers on the walls, in `map`.
        wall_ids: their ids.
        noise: rows of normal numbers, one per robot with cameras; zero columns switch noise off.
        cursors: how many numbers of each row are used; updated.
        images: output, rows of the camera, its first marker and one past its last.
        lateness: output, a normal number per image.
        ids: output, the detected markers.
        pixels: output, their corners.
    """
    poses, carriers = things.poses, things.carriers
    carrier_poses, carrier_lifts = things.carrier_poses, things.carrier_lifts
    quad, eye = np.empty((4, 3)), np.empty(3)
    turns = np.empty((carrier_poses.shape[0], 2))
    for i in range(carrier_poses.shape[0]):
        turns[i, 0], turns[i, 1] = math.cos(carrier_poses[i, 2]), math.sin(carrier_poses[i, 2])
    taken = 0
    total = 0
    for e in range(count):
        row, owner, up = eye_of[e, 0], eye_of[e, 1], eye_of[e, 2] == 1
        if not on[row]:
            continue
        camera, pose = eyes[e], poses[row]
        first = total
        last = min(first + ROOM, ids.shape[0])
        c, s = math.cos(pose[2]), math.sin(pose[2])
        if up:
            camera[TZ] = eye_places[e, 0] + heights[row] - eye_places[e, 1]
        eye[0] = pose[0] + c * camera[TX] - s * camera[TY]
        eye[1] = pose[1] + s * camera[TX] + c * camera[TY]
        eye[2] = camera[TZ]
        if up:
            # The tray above: the one whose edge is nearest to the camera, or that it is deepest under.
            above, nearest = -1, math.inf
            for i in range(carrier_poses.shape[0]):
                gap = carrier_lifts[i] + carriers[i, CLEARANCE] - eye[2]
                dx, dy = eye[0] - carrier_poses[i, 0], eye[1] - carrier_poses[i, 1]
                ci, si = turns[i, 0], turns[i, 1]
                off_x = abs(ci * dx + si * dy) - 0.5 * carriers[i, LENGTH]
                off_y = abs(ci * dy - si * dx) - 0.5 * carriers[i, WIDTH_OF_TRAY]
                off = max(off_x, off_y)
                if gap > 0.0 and off < 2.0 * gap and off < nearest:
                    above, nearest = i, off
            if above >= 0:
                i = above
                z = carrier_lifts[i] + carriers[i, CLEARANCE]
                for m in range(under.shape[0]):
                    if total == last:
                        break
                    x, y = carrier_poses[i, 0], carrier_poses[i, 1]
                    place_k(under[m], x, y, z, turns[i, 0], turns[i, 1], quad)
                    if project_marker_k(camera, pose, c, s, quad, MARKER_SIDE_MIN_PX, pixels[total]):
                        ids[total] = under_first + m
                        total += 1
        else:
            deep = eye_places[e, 2]
            forward_x = c * camera[ROTATION + 6] - s * camera[ROTATION + 7]
            forward_y = s * camera[ROTATION + 6] + c * camera[ROTATION + 7]
            for i in range(carrier_poses.shape[0]):
                dx, dy = eye[0] - carrier_poses[i, 0], eye[1] - carrier_poses[i, 1]
                half_x, half_y = 0.5 * carriers[i, LENGTH], 0.5 * carriers[i, WIDTH_OF_TRAY]
                if deep < math.inf:
                    depth = -(forward_x * dx + forward_y * dy)
                    if depth > deep + half_x + half_y or depth < -half_x - half_y:
                        continue
                nx, ny = turns[i, 1], -turns[i, 0]
                for k in range(4):
                    # The outward normals of the front, left, back and right side.
                    nx, ny = -ny, nx
                    half = half_x if k % 2 == 0 else half_y
                    if nx * dx + ny * dy <= half or total == last:
                        continue
                    x, y = carrier_poses[i, 0] + half * nx, carrier_poses[i, 1] + half * ny
                    place_k(side, x, y, carrier_lifts[i] + carriers[i, CLEARANCE], nx, ny, quad)
                    if not project_marker_k(camera, pose, c, s, quad, SIDE_MIN_PX, pixels[total]):
                        continue
                    if not _quad_hidden_k(
                        eye,
                        quad,
                        row,
                        i,
                        things,
                    ):
                        ids[total] = int(carriers[i, MARKER_ID])
                        total += 1
            if localised[row]:
                for m in range(walls.shape[0]):
                    if total == last:
                        break
                    if not project_marker_k(camera, pose, c, s, walls[m], MARKER_SIDE_MIN_PX, pixels[total]):
                        continue
                    if not _quad_hidden_k(
                        eye,
                        walls[m],
                        row,
                        -1,
                        things,
                    ):
                        ids[total] = wall_ids[m]
                        total += 1
        if total == first:
            continue
        images[taken, 0], images[taken, 1], images[taken, 2] = e, first, total
        lateness[taken] = 0.0
        if noise.shape[1] > 0:
            at = cursors[owner]
            lateness[taken] = noise[owner, at % noise.shape[1]]
            at += 1
            for m in range(first, total):
                for k in range(4):
                    for axis in range(2):
                        pixels[m, k, axis] += camera[SIGMA] * noise[owner, at % noise.shape[1]]
                        at += 1
            cursors[owner] = at
        taken += 1
    return taken


class Cameras(Late[CornerReading]):
    """The marker detectors of a robot that does not localise: `WatchedCameras`.

    Attributes:
        watched: whether a viewer wants all detections, including walls.
        rng: noise of the detections that only viewers get.
    """

    __slots__ = ("_arena", "_inventory", "_sights", "rng", "watched")

    def __init__(
        self,
        world: Clock,
        robot: Life,
        latency: tuple[float, float],
        inventory: Inventory,
        arena: Arena,
        rng: np.random.Generator,
    ) -> None:
        """Start without a viewer."""
        super().__init__(world, robot, latency)
        self._inventory = inventory
        self._arena = arena
        self._sights: Late[CornerReading] = Late(world, robot, latency)
        self.watched = False
        self.rng = rng

    def walls(self) -> MarkerMap | None:
        """Return the markers on the arena's walls."""
        return self._arena.markers()

    def watch(self, wanted: bool) -> None:
        """Start or stop producing all detections for viewers."""
        self.watched = wanted
        self._sights.forget()
        if self._robot.row >= 0:
            self._inventory.watched[self._robot.row] = wanted

    def sights(self) -> Sequence[CornerReading]:
        """Return the viewers' detections that have arrived by now, oldest first."""
        return self._sights.read()

    def show(self, reading: CornerReading, ready: float | None, *, noisy: bool) -> None:
        """Queue an image's detections for viewers at `ready`, when the robot gets its part of them.

        If the robot gets nothing, `ready` is None and a latency is drawn.
        """
        if ready is None:
            mean, sigma = self.latency
            late = mean + (sigma * float(self.rng.standard_normal()) if noisy else 0.0)
            ready = reading.stamp + max(0.0, late)
        self._sights.deliver(ready, reading)


class Eyes:
    """All cameras of one frame rate."""

    def __init__(self, rate: float, scene: Scene, *, noise: bool) -> None:
        """Start without cameras."""
        self.beat = Beat(rate)
        self._noisy = noise
        self._numbers = np.empty((0, CAMERA_NUMBERS))
        self._of = np.empty((0, 3), dtype=np.int64)
        self._places = np.empty((0, 3))
        self._count = 0
        self._names: list[str] = []
        self._parts: list[Late[CornerReading]] = []
        self._rngs: list[np.random.Generator] = []
        self._noise = np.empty((0, POOL if noise else 0))
        self._cursors = np.zeros(0, dtype=np.int64)
        self._images = np.empty((0, 3), dtype=np.int64)
        self._lateness = np.empty(0)
        self._ids = np.empty(0, dtype=np.int64)
        self._pixels = np.empty((0, 4, 2))
        self._code = scene.markers.sides.size
        self._side = scene.markers.side_corners(0.0)
        underside = scene.markers.underside_map(0.0)
        self._under = np.ascontiguousarray(underside.corners())
        self._under_first = int(underside.ids[0])
        self._arena = scene.arena
        self._walls = np.empty((0, 4, 3))
        self._wall_ids = np.empty(0, dtype=np.int64)

    def add(
        self,
        robot: Life,
        spec: RobotSpec,
        part: Late[CornerReading],
        rng: np.random.Generator,
        *,
        localised: bool,
    ) -> None:
        """Add the robot's cameras that have this rate."""
        if localised:
            self._look_up_walls()
        models = cameras_of(spec)
        owner = len(self._rngs)
        self._rngs.append(rng)
        self._noise = roomy(self._noise, owner)
        self._cursors = roomy(self._cursors, owner)
        if self._noisy:
            rng.standard_normal(out=self._noise[owner])
        self._cursors[owner] = 0
        for camera in spec.cameras:
            if camera.rate != self.beat.rate:
                continue
            model, e = models[camera.name], self._count
            self._numbers = roomy(self._numbers, e)
            self._of = roomy(self._of, e)
            self._places = roomy(self._places, e)
            self._numbers[e] = model.numbers
            self._of[e] = robot.row, owner, camera.on_lifter
            lowered = 0.0 if spec.lifter is None else spec.lifter.lowered
            self._places[e] = camera.z, lowered, deepest(camera, model.numbers, self._code, SIDE_MIN_PX)
            self._names.append(camera.name)
            self._parts.append(part)
            self._count += 1
        self._images = roomy(self._images, self._count)
        self._lateness = roomy(self._lateness, self._count)
        self._ids = roomy(self._ids, self._count * ROOM)
        self._pixels = roomy(self._pixels, self._count * ROOM)

    def _look_up_walls(self) -> None:
        """Load the wall markers on first use."""
        walls = None if len(self._walls) else self._arena.markers()
        if walls is not None:
            self._walls, self._wall_ids = np.ascontiguousarray(walls.corners()), walls.ids

    def remove(self, row: int) -> None:
        """Remove a robot's cameras, if it has any, and decrement the rows after its own."""
        gone = np.flatnonzero(self._of[: self._count, 0] == row).tolist()
        if gone:
            owner = int(self._of[gone[0], 1])
            for name in ("_numbers", "_of", "_places"):
                setattr(self, name, np.delete(getattr(self, name), gone, axis=0))
            for name in ("_noise", "_cursors"):
                setattr(self, name, np.delete(getattr(self, name), owner, axis=0))
            del self._rngs[owner]
            for e in reversed(gone):
                del self._names[e], self._parts[e]
            self._count -= len(gone)
            self._of[self._of[:, 1] > owner, 1] -= 1
        self._of[self._of[:, 0] > row, 0] -= 1

    def measure(self, now: float, physics: Physics, inventory: Inventory) -> None:
        """Expose all cameras; readers get the detections after the image's latency."""
        if self._noisy and self._cursors.max(initial=0) > POOL // 2:
            for owner in np.flatnonzero(self._cursors > POOL // 2).tolist():
                self._rngs[owner].standard_normal(out=self._noise[owner])
                self._cursors[owner] = 0
        told: dict[int, tuple[float, CornerReading]] = {}
        taken = self._look(physics, inventory, inventory.on, inventory.localised, self._noise)
        for e, ids, pixels, lateness in taken:
            part = self._parts[e]
            mean, sigma = part.latency
            ready = now + max(0.0, mean + sigma * lateness)
            reading = CornerReading(now, self._names[e], ids, pixels)
            part.deliver(ready, reading)
            told[e] = ready, reading
        if inventory.watched.any():
            self._look_again(now, physics, inventory, told)

    def _look(
        self,
        physics: Physics,
        bodies: Inventory,
        on: BoolArray,
        localised: BoolArray,
        noise: FloatArray,
    ) -> list[tuple[int, IntArray, FloatArray, float]]:
        """Expose; return camera, ids, corners and normalised latency of each image that contains markers."""
        taken = expose_k(
            self._count,
            self._numbers,
            self._of,
            self._places,
            on,
            localised,
            physics.heights,
            things_of(physics, bodies),
            self._side,
            self._under,
            self._under_first,
            self._walls,
            self._wall_ids,
            noise,
            self._cursors,
            self._images,
            self._lateness,
            self._ids,
            self._pixels,
        )
        if not taken:
            return []
        images = self._images[:taken].tolist()
        total = images[-1][2]
        # Copies, because readings outlive the next exposure, which overwrites the arrays.
        ids, pixels = self._ids[:total].copy(), self._pixels[:total].copy()
        return [
            (e, ids[first:last], pixels[first:last], lateness)
            for (e, first, last), lateness in zip(images, self._lateness[:taken].tolist(), strict=True)
        ]

    def _look_again(
        self,
        now: float,
        physics: Physics,
        bodies: Inventory,
        told: dict[int, tuple[float, CornerReading]],
    ) -> None:
        """Send viewers the detections that robots got (`told`), followed by the walls."""
        self._look_up_walls()
        watched = bodies.watched
        for e, ids, pixels, _ in self._look(physics, bodies, bodies.on & watched, watched, EXACT):
            part = self._parts[e]
            if not isinstance(part, Cameras):
                continue
            ready, known = None, 0
            if e in told:
                ready, reading = told[e]
                known = len(reading.ids)
                pixels[:known] = reading.corners
            if self._noisy:
                pixels[known:] += self._numbers[e, SIGMA] * part.rng.standard_normal(pixels[known:].shape)
            part.show(CornerReading(now, self._names[e], ids, pixels), ready, noisy=self._noisy)


def deepest(camera: Camera, numbers: FloatArray, size: float, min_px: float) -> float:
    """Return the depth up to which the vertical edges of a code can be `min_px` long in a camera's image.

    This holds only for a level camera without lens distortion, where such an edge has one depth; inf for
    other cameras.
    """
    level = camera.pitch == 0.0 and not numbers[K1 : K3 + 1].any()
    return float(numbers[FY] * size / min_px + size) if level else math.inf
