"""What all 3-D physics engines share: masses, friction, lifting.

The assumptions here about robots and carriers hold in every world, so that worlds differ only in their
solvers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from swarmbed_core.geometry import GRAVITY, wrap
from swarmbed_core.kernel import kernel
from swarmbed_core.raycast import box_segments
from swarmbed_core.scene import legs_of
from swarmbed_core.spec import DiscBody

from swarmbed_sim.errors import SimError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from swarmbed_core.arena import Arena
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import CarrierPlacement, RobotPlacement, Scene
    from swarmbed_core.spec import Lifter, RangeRing, RobotSpec

    from swarmbed_sim.physics import IntArray

WALL: Final = 0.2
"""Thickness of the outer walls in metres, outwards from the arena's edge."""
INNER_WALL: Final = 0.01
"""Thickness of the arena's inner walls in metres, centred on their lines."""
PLATFORM_MASS: Final = 0.2
"""Mass of a lifting platform in kg, a part of the robot's mass: assumed."""
LEG_SHARE: Final = 0.1
"""One leg's share of a carrier's mass: assumed."""
PAYLOAD_HEIGHT: Final = 0.1
"""Height of a payload on a tray in metres: assumed."""
GRIP_FLOOR: Final = 0.5
GRIP_PLATFORM: Final = 1.0
GRIP_BODY: Final = 0.2
"""Friction of feet on the floor, of platforms under trays, and of robots' bodies on everything: assumed."""
DRIVE_TIME: Final = 0.02
"""Time constant in seconds with which a robot's velocity follows its command: assumed for its controllers."""
SIDE_GRIP: Final = 8.0
"""Lateral acceleration in m/s² at which a differential robot's wheels slip: 0.8 g for rubber, assumed."""
QUIET: Final = 0.5
"""Seconds without touching after which a contact counts as new."""
APART: Final = 0.05
"""Seconds without touching after which a contact counts as new if it closes faster than last reported."""
LIFTED: Final = 0.002
"""A carrier counts as lifted when all feet are this far above the floor, in metres."""
NEAR: Final = 0.004
"""Largest gap in metres between a platform and the tray it carries: both tilt and deform a little."""
FLAT: Final = 0.7
"""Least vertical part of the normal of a contact between a platform and the underside of a tray."""

# Columns of the robots' constants.
MASS, INERTIA, ACCELERATION, YAW_ACCELERATION, LOWERED, RAISED, HOLONOMIC = range(7)


def yaw_inertia(robot: RobotSpec) -> float:
    """Return a robot's moment of inertia about its vertical axis, assuming uniform density."""
    body = robot.body
    if isinstance(body, DiscBody):
        return 0.5 * body.mass * body.radius**2
    return body.mass * (body.length**2 + body.width**2) / 12


def constants_of(spec: RobotSpec) -> tuple[float, ...]:
    """Return a robot's row of constants."""
    return (
        spec.body.mass,
        yaw_inertia(spec),
        spec.limits.acceleration_available,
        spec.limits.yaw_acceleration,
        spec.lifter.lowered if spec.lifter else 0.0,
        spec.lifter.raised if spec.lifter else 0.0,
        float(spec.holonomic),
    )


def lift_force(lifter: Lifter) -> float:
    """Return the largest force of a lifter's motor in N: twice the weight of its maximum load."""
    return 2 * lifter.max_load * GRAVITY


def walls_of(arena: Arena) -> Iterator[tuple[str, tuple[float, float, float], tuple[float, float]]]:
    """Return the walls as boxes on the floor: name, pose of the centre, length and width."""
    if arena.size is not None:
        length, width = arena.size
        out_x, out_y = (length + WALL) / 2, (width + WALL) / 2
        for sign in (1, -1):
            yield f"wall x{sign}", (sign * out_x, 0, 0), (WALL, width + 2 * WALL)
            yield f"wall y{sign}", (0, sign * out_y, 0), (length, WALL)
    for i, (x1, y1, x2, y2) in enumerate(arena.walls):
        pose = ((x1 + x2) / 2, (y1 + y2) / 2, math.atan2(y2 - y1, x2 - x1))
        yield f"inner wall{i}", pose, (math.hypot(x2 - x1, y2 - y1), INNER_WALL)


def middle(carriers: Sequence[CarrierPlacement]) -> tuple[float, float, float]:
    """Return the centre of joined carriers and their yaw."""
    x, y = np.mean([placement.pose[:2] for placement in carriers], axis=0).tolist()
    return x, y, carriers[0].pose[2]


def joined(carriers: Sequence[CarrierPlacement]) -> tuple[IntArray, FloatArray]:
    """Return for each carrier the number of its body, which joined carriers share, and its x, y in it."""
    groups: dict[int, list[int]] = {}
    for row, placement in enumerate(carriers):
        groups.setdefault(placement.body, []).append(row)
    body_of = np.zeros(len(carriers), dtype=np.int64)
    offsets = np.zeros((len(carriers), 2))
    for number, rows in enumerate(groups.values()):
        x, y, yaw = middle([carriers[row] for row in rows])
        c, s = math.cos(yaw), math.sin(yaw)
        for row in rows:
            dx, dy = carriers[row].pose[0] - x, carriers[row].pose[1] - y
            body_of[row] = number
            offsets[row] = c * dx + s * dy, c * dy - s * dx
    return body_of, offsets


def carrier_numbers(carriers: Sequence[CarrierPlacement], offsets: FloatArray) -> FloatArray:
    """Return the rows of carriers for `read_k`; `offsets` are their x, y in their bodies."""
    return np.array(
        [
            (
                *offset,
                placement.carrier.length / 2,
                placement.carrier.width / 2,
                *legs_of(placement.carrier)[0],
                placement.carrier.clearance,
            )
            for placement, offset in zip(carriers, offsets, strict=True)
        ]
    ).reshape(-1, 7)


@kernel
def read_k(
    qpos: FloatArray,
    qvel: FloatArray,
    robots: IntArray,
    constants: FloatArray,
    bodies: IntArray,
    body_of: IntArray,
    carriers: FloatArray,
    poses: FloatArray,
    twists: FloatArray,
    heights: FloatArray,
    carrier_poses: FloatArray,
    carrier_lifts: FloatArray,
    carried_by: IntArray,
    lifting: IntArray,
) -> bool:
    """Write the state of robots and carriers from the engine's, and return whether all of it is finite.

    A row of `carriers` holds a carrier's x, y in its body, its half length and width, its feet's distances
    from its centre along both, and its clearance. `lifting` is the body that each robot lifts, -1 for none.
    """
    for i in range(robots.shape[0]):
        at = robots[i]
        poses[i, 0], poses[i, 1], poses[i, 2] = qpos[at], qpos[at + 1], wrap(qpos[at + 2])
        c, s = math.cos(qpos[at + 2]), math.sin(qpos[at + 2])
        twists[i, 0] = c * qvel[at] + s * qvel[at + 1]
        twists[i, 1] = c * qvel[at + 1] - s * qvel[at]
        twists[i, 2] = qvel[at + 2]
        if constants[i, RAISED] > 0.0:
            heights[i] = constants[i, LOWERED] + qpos[at + 3]
        lifting[i] = -1
    for j in range(carriers.shape[0]):
        at = bodies[body_of[j], 0]
        x, y, z = qpos[at], qpos[at + 1], qpos[at + 2]
        qw, qx, qy, qz = qpos[at + 3], qpos[at + 4], qpos[at + 5], qpos[at + 6]
        # The body's axes in the world: x axis, y axis, and the height of each.
        xx, xy, xz = 1.0 - 2.0 * (qy * qy + qz * qz), 2.0 * (qx * qy + qw * qz), 2.0 * (qx * qz - qw * qy)
        yx, yy, yz = 2.0 * (qx * qy - qw * qz), 1.0 - 2.0 * (qx * qx + qz * qz), 2.0 * (qy * qz + qw * qx)
        dx, dy = carriers[j, 0], carriers[j, 1]
        carrier_poses[j, 0] = x + xx * dx + yx * dy
        carrier_poses[j, 1] = y + xy * dx + yy * dy
        carrier_poses[j, 2] = math.atan2(xy, xx)
        z += xz * dx + yz * dy
        carrier_lifts[j] = z - abs(xz) * carriers[j, 4] - abs(yz) * carriers[j, 5]
        carried_by[j] = -1
        if carrier_lifts[j] < LIFTED:
            continue
        under = z + carriers[j, 6] * (xx * yy - xy * yx)
        for i in range(robots.shape[0]):
            if abs(heights[i] - under) > NEAR + 0.5 * carriers[j, 2] * (abs(xz) + abs(yz)):
                continue
            ex, ey = poses[i, 0] - carrier_poses[j, 0], poses[i, 1] - carrier_poses[j, 1]
            if abs(ex * xx + ey * xy) < carriers[j, 2] and abs(ex * yx + ey * yy) < carriers[j, 3]:
                lifting[i] = body_of[j]
                if carried_by[j] < 0:
                    carried_by[j] = i
    for j in range(carriers.shape[0]):
        if carrier_lifts[j] >= LIFTED and carried_by[j] < 0:
            # It is lifted by robots under carriers that are joined to it.
            for i in range(robots.shape[0]):
                if lifting[i] == body_of[j]:
                    carried_by[j] = i
                    break
    total = 0.0
    for k in range(qpos.shape[0]):
        total += qpos[k]
    return math.isfinite(total)


@kernel
def begins_k(since: float, closing: float, told: float) -> bool:
    """Return whether a contact counts as new; `told` is the closing speed reported last."""
    return since > QUIET or (since > APART and closing > told)


@dataclass(frozen=True, slots=True)
class StandingBox:
    """A box added to a running scene."""

    name: str
    pose: tuple[float, float, float]
    size: tuple[float, float]


class Solids:
    """The parts of a `Physics` that all 3-D engines share: arrays, boxes, reported contacts."""

    ENGINE: ClassVar[str]
    ERROR: ClassVar[type[SimError]] = SimError
    ROWS: ClassVar[tuple[str, ...]] = ("poses", "twists", "pushes", "heights", "_lifting", "_constants")
    """Arrays with one row per robot."""

    def __init__(self, scene: Scene, timestep: float) -> None:
        """Create the arrays that the engine's state is copied to."""
        count, carriers = len(scene.robots), scene.carriers
        self.timestep = timestep
        self.poses = np.zeros((count, 3))
        self.twists = np.zeros((count, 3))
        self.pushes = np.zeros(count)
        self.heights = np.zeros(count)
        self.carrier_poses = np.zeros((len(carriers), 3))
        self.carrier_lifts = np.zeros(len(carriers))
        self.carried_by = np.full(len(carriers), -1, dtype=np.int64)
        self.segments = scene.segments()
        self.pillars = scene.pillars()
        self.led: IntArray = np.empty(0, dtype=np.int64)
        self._walls = scene.segments()
        self._boxes: dict[str, StandingBox] = {}
        self._time = 0.0
        self._found: list[tuple[str, str, float]] = []
        self._lifting = np.full(count, -1, dtype=np.int64)
        self._constants = np.array([constants_of(robot.spec) for robot in scene.robots]).reshape(count, -1)
        self._body_of, self._offsets = joined(carriers)
        self._carriers = carrier_numbers(carriers, self._offsets)

    def contacts(self) -> Sequence[tuple[str, str, float]]:
        """Return the contacts that began since the last call: two names and the closing speed in m/s."""
        found, self._found = self._found, []
        return found

    def cast(self, ring: RangeRing, rows: IntArray) -> FloatArray | None:  # noqa: ARG002
        """Return None: the engine's own ray casting is not used."""
        return None

    def light(self, row: int, colours: Sequence[int]) -> None:
        """Do nothing: there is no display."""

    def add_box(self, name: str, pose: tuple[float, float, float], size: tuple[float, float]) -> None:
        """Add a fixed box.

        Raises:
            SimError: the name is taken.
        """
        if name in self._taken():
            message = f"box {name!r}: this name is taken; choose another name"
            raise self.ERROR(message)
        box = self._boxes[name] = StandingBox(name, pose, size)
        self._put(box)
        self._wall_up()

    def remove_box(self, name: str) -> None:
        """Remove a box that `add_box` added.

        Raises:
            SimError: unknown name.
        """
        if name not in self._boxes:
            there = ", ".join(self._boxes) or "none"
            message = f"no box {name!r}: there are {there}"
            raise self.ERROR(message)
        del self._boxes[name]
        self._drop(name)
        self._wall_up()

    def _wall_up(self) -> None:
        boxes = [box_segments(np.array(box.pose), *box.size) for box in self._boxes.values()]
        self.segments = np.vstack([self._walls, *boxes])

    def _taken(self) -> Container[str]:
        """Return the names of all things."""
        raise NotImplementedError

    def _put(self, box: StandingBox) -> None:
        """Add a box to the engine."""
        raise NotImplementedError

    def _drop(self, name: str) -> None:
        """Remove a box from the engine."""
        raise NotImplementedError

    def _add_row(self, placement: RobotPlacement) -> int:
        """Append a row for a robot; return it."""
        row = len(self.poses)
        for name in self.ROWS:
            setattr(self, name, np.insert(getattr(self, name), row, 0, axis=0))
        self._constants[row] = constants_of(placement.spec)
        return row

    def _remove_row(self, row: int) -> None:
        for name in self.ROWS:
            setattr(self, name, np.delete(getattr(self, name), row, axis=0))

    def _body_pose(self, row: int, pose: tuple[float, float, float]) -> tuple[float, float, float]:
        """Return the pose of a carrier's body for a pose of the carrier."""
        (x, y), yaw = self._offsets[row].tolist(), pose[2]
        c, s = math.cos(yaw), math.sin(yaw)
        return pose[0] - c * x + s * y, pose[1] - s * x - c * y, yaw

    def _take_over(self, qpos: FloatArray, qvel: FloatArray, robots: IntArray, bodies: IntArray) -> None:
        """Copy an engine's state to the arrays; see `read_k`.

        Raises:
            SimError: the state is not finite.
        """
        finite = read_k(
            qpos,
            qvel,
            robots,
            self._constants,
            bodies,
            self._body_of,
            self._carriers,
            self.poses,
            self.twists,
            self.heights,
            self.carrier_poses,
            self.carrier_lifts,
            self.carried_by,
            self._lifting,
        )
        if not finite:
            message = f"{self.ENGINE}: the state of the bodies is not finite after {self._time:.2f} s"
            raise self.ERROR(message)
