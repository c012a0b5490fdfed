"""Cameras that detect coloured lights: other robots' LEDs and the scenario's lamps.

A robot has this sense with each level camera whose `range_max` is known. A light is a spot in the image, with
noise, unless a body, a pillar or a wall is in the way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.kernel import kernel
from swarmbed_core.leds import unpack
from swarmbed_core.readings import Blobs

from swarmbed_sim.lamps import lamp_rows
from swarmbed_sim.planar_kernels import sort_cells_k
from swarmbed_sim.sensors import Sensors
from swarmbed_sim.sight import hidden_k, near_k, walls_k

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.readings import ByteArray
    from swarmbed_core.scenario import Light
    from swarmbed_core.spec import Camera, Leds

    from swarmbed_sim.parts import Inventory
    from swarmbed_sim.physics import BoolArray, IntArray, Physics
    from swarmbed_sim.sensors import Chance
    from swarmbed_sim.sight import Discs, Sight

_MASKS = {"red": (255, 0, 0), "green": (0, 255, 0), "rgb": (255, 255, 255)}
SPOT = 5
"""Numbers of a spot: column, row, red, green, blue."""


@kernel
def _project_k(x: float, y: float, z: float, camera: FloatArray) -> tuple[float, float]:
    """Project a point from the camera's frame into the image; (-1, -1) if outside the image or range."""
    if x <= 0.0 or x * x + y * y + z * z > camera[7] * camera[7]:
        return -1.0, -1.0
    column = 0.5 * camera[5] - camera[4] * y / x
    row = 0.5 * camera[6] - camera[4] * z / x
    if 0.0 <= column < camera[5] and 0.0 <= row < camera[6]:
        return column, row
    return -1.0, -1.0


@kernel
def camera_k(
    poses: FloatArray,
    rows: IntArray,
    alive: BoolArray,
    camera: FloatArray,
    kinds: IntArray,
    counts: IntArray,
    places: FloatArray,
    leds: ByteArray,
    lamps: FloatArray,
    discs: FloatArray,
    tops: FloatArray,
    frame: FloatArray,
    cells: IntArray,
    starts: IntArray,
    order: IntArray,
    near: IntArray,
    turned: FloatArray,
    segments: FloatArray,
    pillars: FloatArray,
    first: IntArray,
    pixels: FloatArray,
    colours: ByteArray,
) -> int:
    """Write the lights that cameras see, as `Blobs`; return their number, which can exceed the output's size.

    Args:
        poses: of the robots, whose discs come first.
        rows: of the robots with such a camera.
        alive: which robots have their cameras and lights on.
        camera: x, y, z and yaw on the robot, focal length, width and height in pixels, range.
        kinds: the kind of each robot's LEDs: its row in the next two.
        counts: number of LEDs of each kind.
        places: x, y, z of the LEDs of each kind, in the robot's frame.
        leds: colours of all robots' LEDs.
        lamps: rows of x, y, z, intensity, red, green, blue.
        discs: rows of x, y, radius.
        tops: heights of the discs.
        frame: work array for the grid's frame, as are the next three.
        cells: see `frame`.
        starts: see `frame`.
        order: see `frame`.
        near: work array with one entry per disc.
        turned: work array with a row of two per robot.
        segments: walls.
        pillars: rows of x, y, radius.
        first: output, the index of each camera's first blob; one more entry holds the total.
        pixels: output, column and row of each blob.
        colours: output, the colour of each blob.
    """
    # The first robots have LEDs: not so those that are tracked beside a crowd.
    n, lit, reach, seen = poses.shape[0], kinds.shape[0], camera[7], 0
    sort_cells_k(discs, reach, frame, cells, starts, order)
    for i in range(n):
        turned[i, 0], turned[i, 1] = math.cos(poses[i, 2]), math.sin(poses[i, 2])
    # Tangent and secant of half the camera's horizontal field of view.
    aside = 0.5 * camera[5] / camera[4]
    slope = math.sqrt(1.0 + aside * aside)
    for at in range(rows.shape[0]):
        i = rows[at]
        first[at] = seen
        if not alive[i]:
            continue
        c, s = turned[i, 0], turned[i, 1]
        x = poses[i, 0] + c * camera[0] - s * camera[1]
        y = poses[i, 1] + s * camera[0] + c * camera[1]
        ahead_x, ahead_y = math.cos(poses[i, 2] + camera[3]), math.sin(poses[i, 2] + camera[3])
        count, kept = near_k(x, y, reach, discs, frame, starts, order, near), 0
        for k in range(count):
            # Discs outside the field of view are neither seen nor block the view.
            j = near[k]
            dx, dy = discs[j, 0] - x, discs[j, 1] - y
            across = abs(ahead_x * dy - ahead_y * dx)
            if j != i and across - aside * (ahead_x * dx + ahead_y * dy) <= discs[j, 2] * slope:
                near[kept] = j
                kept += 1
        count = kept
        for k in range(count + lamps.shape[0]):
            lamp = k >= count
            j = k - count if lamp else near[k]
            if not lamp and (j >= lit or not alive[j]):
                continue
            to_x, to_y = (lamps[j, 0], lamps[j, 1]) if lamp else (discs[j, 0], discs[j, 1])
            walls = walls_k(x, y, to_x, to_y, 0.0 if lamp else discs[j, 2], segments)
            kind = 0 if lamp else kinds[j]
            for led in range(1 if lamp else counts[kind]):
                if lamp:
                    at_x, at_y, at_z = lamps[j, 0], lamps[j, 1], lamps[j, 2]
                else:
                    if leds[j, led, 0] == 0 and leds[j, led, 1] == 0 and leds[j, led, 2] == 0:
                        continue
                    cj, sj = turned[j, 0], turned[j, 1]
                    arm_x = cj * places[kind, led, 0] - sj * places[kind, led, 1]
                    arm_y = sj * places[kind, led, 0] + cj * places[kind, led, 1]
                    at_x, at_y, at_z = poses[j, 0] + arm_x, poses[j, 1] + arm_y, places[kind, led, 2]
                    # On the far side of its own body.
                    if arm_x * (x - at_x) + arm_y * (y - at_y) < 0.0:
                        continue
                dx, dy, dz = at_x - x, at_y - y, at_z - camera[2]
                column, row = _project_k(ahead_x * dx + ahead_y * dy, ahead_x * dy - ahead_y * dx, dz, camera)
                if column < 0.0:
                    continue
                own = -1 if lamp else j
                if hidden_k(
                    x,
                    y,
                    camera[2],
                    at_x,
                    at_y,
                    at_z,
                    discs,
                    tops,
                    near,
                    count,
                    i,
                    own,
                    walls,
                    segments,
                    pillars,
                ):
                    continue
                if seen < pixels.shape[0]:
                    pixels[seen, 0], pixels[seen, 1] = column, row
                    for part in range(3):
                        colours[seen, part] = np.uint8(lamps[j, 4 + part]) if lamp else leds[j, led, part]
                seen += 1
    first[rows.shape[0]] = seen
    return seen


@kernel
def tint_k(masks: ByteArray, leds: ByteArray) -> None:
    """Mask out the colour channels that LEDs do not have; `masks` are those of one kind."""
    for i in range(leds.shape[0]):
        for k in range(leds.shape[1]):
            for part in range(3):
                leds[i, k, part] &= masks[k, part]


def masks_of(leds: Leds | None) -> ByteArray:
    """Return the colour channels that each LED has; no rows for LEDs without places."""
    return np.array([_MASKS[colour] for colour in (leds.colours if leds else ())], dtype=np.uint8).reshape(
        -1, 3
    )


def places_of(leds: Leds | None) -> FloatArray:
    """Return x, y, z of each LED; no rows if they are not known."""
    return np.array(leds.places if leds else (), dtype=np.float64).reshape(-1, 3)


class Glow:
    """What the LEDs of all robots show.

    Attributes:
        kinds: the kind of each robot's LEDs.
        counts: number of LEDs of each kind whose places are known.
        places: their x, y, z in the robot's frame.
        colours: red, green and blue of each, a row per robot.
    """

    def __init__(self, leds: Sequence[Leds | None]) -> None:
        """Start with the LEDs of these robots, all off."""
        self._known: dict[Leds | None, int] = {}
        self.counts = np.zeros(0, dtype=np.int64)
        self.places = np.zeros((0, 0, 3))
        # Robots of a kind share one object: hashing it for each of thousands would take longer.
        same = {id(item): item for item in leds}
        kinds = {key: self._kind(item) for key, item in same.items()}
        self.kinds = np.array([kinds[id(item)] for item in leds], dtype=np.int64)
        self.colours = np.zeros((len(leds), self.places.shape[1], 3), dtype=np.uint8)

    def _kind(self, leds: Leds | None) -> int:
        if leds not in self._known:
            self._known[leds] = len(self._known)
            kinds = [places_of(item) for item in self._known]
            self.counts = np.array([len(places) for places in kinds], dtype=np.int64)
            self.places = np.zeros((len(kinds), int(self.counts.max(initial=0)), 3))
            for places, known in zip(self.places, kinds, strict=True):
                places[: len(known)] = known
        return self._known[leds]

    def add(self, leds: Leds | None) -> None:
        """Append a robot whose LEDs are off."""
        self.kinds = np.append(self.kinds, self._kind(leds))
        colours = np.zeros((len(self.kinds), self.places.shape[1], 3), dtype=np.uint8)
        colours[:-1, : self.colours.shape[1]] = self.colours
        self.colours = colours

    def remove(self, row: int) -> None:
        """Remove a robot and decrement the rows after it."""
        self.kinds = np.delete(self.kinds, row)
        self.colours = np.delete(self.colours, row, axis=0)

    def show(self, row: int, leds: Leds, values: Sequence[int]) -> None:
        """Show packed colours, one per LED, in the channels that each has."""
        if leds.places:
            shown = np.array([unpack(value) for value in values], dtype=np.uint8)
            self.colours[row, : leds.count] = shown & masks_of(leds)


class Spots(Sensors):
    """One camera of robots of one kind."""

    def __init__(
        self, camera: Camera, lamps: Sequence[Light], glow: Glow, sight: Sight | None, *, noise: bool
    ) -> None:
        """Start without robots.

        Args:
            camera: of each robot.
            lamps: of the scenario.
            glow: the robots' LEDs.
            sight: the bodies of the world; None if only `sense` is used.
            noise: whether there is any.
        """
        super().__init__(camera.rate, noise=noise)
        focal = 0.5 * camera.width / math.tan(0.5 * camera.horizontal_fov)
        place = (camera.x, camera.y, camera.z, camera.yaw)
        far = camera.range_max or math.inf
        self._camera = np.array((*place, focal, camera.width, camera.height, far))
        self._sigma = camera.corner_sigma_px
        self._lamps = lamp_rows(lamps)
        self._glow = glow
        self._sight = sight
        self._turned = np.zeros((0, 2))
        self._pixels = np.zeros((64, 2))
        self._colours = np.zeros((64, 3), dtype=np.uint8)

    def sense(
        self, physics: Physics, rows: IntArray, on: BoolArray, bodies: Discs, chance: Chance, out: Blobs
    ) -> None:
        """Write the lights that these robots see; the arrays in `out` may be replaced by the next call."""
        glow, poses = self._glow, physics.poses
        if len(self._turned) != len(poses):
            self._turned = np.zeros((len(poses), 2))
        while True:
            count = camera_k(
                poses,
                rows,
                on,
                self._camera,
                glow.kinds,
                glow.counts,
                glow.places,
                glow.colours,
                self._lamps,
                bodies.discs,
                bodies.tops,
                bodies.frame,
                bodies.cells,
                bodies.starts,
                bodies.order,
                bodies.near,
                self._turned,
                physics.segments,
                physics.pillars,
                out.first,
                self._pixels,
                self._colours,
            )
            if count <= len(self._pixels):
                break
            self._pixels = np.zeros((2 * count, 2))
            self._colours = np.zeros((2 * count, 3), dtype=np.uint8)
        out.pixels, out.colours = self._pixels[:count], self._colours[:count]
        errors = chance.normal(self._sigma, out.first, 2)
        if errors is not None:
            out.pixels += errors
            np.clip(out.pixels, 0.0, self._camera[5:7], out=out.pixels)

    def readings(self, now: float, physics: Physics, inventory: Inventory) -> list[FloatArray]:
        """Return the spots that each robot sees."""
        if self._sight is None:
            raise AssertionError
        self._sight.look(now, physics, inventory)
        blobs = Blobs(np.zeros(len(self.rows) + 1, dtype=np.int64), self._pixels[:0], self._colours[:0])
        self.sense(physics, self.rows, inventory.on, self._sight, self.chance, blobs)
        spots = np.concatenate([blobs.pixels, blobs.colours], axis=1)
        return np.split(spots, blobs.first[1:-1])
