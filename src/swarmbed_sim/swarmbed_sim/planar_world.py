"""A planar world for thousands of robots: discs among walls, boxes and cylinders, seen from above.

Walls and obstacles are taken to be as high as the robots' sensors and the carriers' trays. Robots with
rectangular bodies collide as their bounding discs. Carriers stand on legs: low robots can drive between them,
push against them, lift the carrier with their platforms and put it down elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from swarmbed_core.raycast import box_segments
from swarmbed_core.scenario import BoxObstacle
from swarmbed_core.scene import legs_of

from swarmbed_sim import planar_kernels as k
from swarmbed_sim.errors import SimError
from swarmbed_sim.physics import led_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import CarrierPlacement, RobotPlacement, Scene
    from swarmbed_core.spec import RangeRing
    from swarmbed_core.world import TaskWorld

    from swarmbed_sim.physics import BoolArray, IntArray

TIMESTEP = 0.01
SLOTS = 8
"""Number of most recent contacts that are remembered per thing."""
CELLS = 16384
"""Largest number of cells of the grid of walls and obstacles."""
LIFT_SPEED_UP = 2.0
"""Ratio of a platform's top speed to its commanded speed, as `swarmbed_core.lifter.LifterModel` assumes."""
RIM_SPACING = 4.0
"""Largest distance between the discs of a tray's rim, in leg radii."""
NEVER = -1e6
"""Content of unused slots of contacts."""

# Arrays of `PlanarPhysics` whose first rows are the robots', before those of other bodies and discs.
_ROWS = (
    "poses", "twists", "pushes", "heights", "_robots", "_group", "_relative", "_tops", "_state", "_old",
    "_own", "_inverse", "_speeds", "_pushed", "_disc_i", "_disc_f", "_xy", "_before", "_cells", "_order",
    "_touch",
)  # fmt: skip


class StaticGrid:
    """The walls and pillars within reach of each cell of the floor."""

    def __init__(self, segments: FloatArray, pillars: FloatArray, reach: float) -> None:
        """Build the lists; a cell's list omits most of what is farther away than `reach`, in metres."""
        xs = np.concatenate(
            [segments[:, 0::2].ravel(), pillars[:, 0] - pillars[:, 2], pillars[:, 0] + pillars[:, 2]]
        )
        ys = np.concatenate(
            [segments[:, 1::2].ravel(), pillars[:, 1] - pillars[:, 2], pillars[:, 1] + pillars[:, 2]]
        )
        if not len(xs):
            xs = ys = np.zeros(1)
        left, bottom = xs.min() - reach, ys.min() - reach
        width, height = xs.max() + reach - left, ys.max() + reach - bottom
        size = max(0.5 * reach, 0.25, math.sqrt(width * height / CELLS))
        columns, rows = math.ceil(width / size) + 1, math.ceil(height / size) + 1
        self.frame = np.array((left, bottom, size, columns, rows))
        self.starts = np.zeros(columns * rows + 1, dtype=np.int64)
        self.items = np.empty(0, dtype=np.int64)
        count = k.static_cells_k(segments, pillars, reach, self.frame, self.starts, self.items)
        self.items = np.empty(count, dtype=np.int64)
        k.static_cells_k(segments, pillars, reach, self.frame, self.starts, self.items)


class PlanarPhysics:
    """Bodies and contacts in the plane; a `Physics`."""

    def __init__(
        self,
        scene: Scene,
        timestep: float = TIMESTEP,
        acceleration: Literal["available", "limited"] = "available",
    ) -> None:
        """Create the scene's bodies at their initial poses.

        Args:
            scene: robots, carriers, arena.
            timestep: seconds per `advance`.
            acceleration: the limit of the drives. `available` is that of the motors, for robots whose Onboard
                limits its commands; `limited` is that of the robots' limits, for robots without Onboard.
        """
        self.timestep = timestep
        self._scene = scene
        self._acceleration = acceleration
        robots, carriers = scene.robots, scene.carriers
        n, c = len(robots), len(carriers)
        bodies = 1 + max((carrier.body for carrier in carriers), default=-1)
        m = n + bodies
        rows = [_robot_row(robot, acceleration) for robot in robots]
        self._robots = np.array(rows, dtype=np.float64).reshape(n, k.ROBOT_COLUMNS)
        self.poses = np.zeros((n, 3))
        self.twists = np.zeros((n, 3))
        self.pushes = np.zeros(n)
        self.heights = np.array([robot.spec.lifter.lowered if robot.spec.lifter else 0.0 for robot in robots])
        self.carrier_poses = np.array([item.pose for item in carriers], dtype=np.float64).reshape(c, 3)
        self.carrier_lifts = np.zeros(c)
        self.carried_by = np.full(c, -1, dtype=np.int64)
        self._state = np.zeros((m, 6))
        self._old = np.zeros((m, 3))
        self._own = np.ones((m, 2))
        self._group = np.arange(n)
        self._relative = np.zeros((n, 3))
        self._reaches = np.zeros(bodies)
        self._undersides = np.zeros(bodies)
        self._speeds = np.zeros(m)
        self._pushed = np.zeros(m)
        self._tops = self._robots[:, k.TOP].copy()
        self._trays = np.zeros((c, 5))
        self._tray_body = np.array([n + carrier.body for carrier in carriers], dtype=np.int64)
        self._lifter_of = np.full(c, -1, dtype=np.int64)
        for i, robot in enumerate(robots):
            self._state[i, :3] = robot.pose
            self._own[i] = _own_of(self._robots[i])
        discs = [((i, k.ROBOT, i), (0.0, 0.0, self._robots[i, k.RADIUS])) for i in range(n)]
        for body in range(bodies):
            discs += self._add_body(body)
        self._inverse = 1.0 / self._own
        self._lead(robots)
        self._disc_i = np.array([ints for ints, _ in discs], dtype=np.int64)
        self._disc_f = np.array([floats for _, floats in discs])
        self._xy = np.zeros((len(discs), 2))
        self._before = np.zeros((len(discs), 2))

        boxes = [(i, item) for i, item in enumerate(scene.obstacles) if isinstance(item, BoxObstacle)]
        pillars = [i for i, item in enumerate(scene.obstacles) if not isinstance(item, BoxObstacle)]
        walls = len(scene.arena.segments())
        self._things = [robot.name for robot in robots] + [carrier.name for carrier in carriers] + ["wall"]
        first = len(self._things)
        self._things += [f"obstacle{i + 1}" for i in range(len(scene.obstacles))]
        self._segment_things = [n + c] * walls + [first + i for i, _ in boxes for _ in range(4)]
        self._pillar_things = [first + i for i in pillars]
        self._scene_things = len(self._things)
        self._boxes: dict[str, int] = {}
        self.segments = scene.segments()
        self.pillars = scene.pillars()

        self._frame = np.zeros(5)
        self._cells = np.zeros(len(discs), dtype=np.int64)
        self._starts = np.zeros(_room(len(discs)) + 1, dtype=np.int64)
        self._order = np.zeros(len(discs), dtype=np.int64)
        self._pairs = np.zeros((0, 2), dtype=np.int64)
        self._contact_i = np.zeros((0, 4), dtype=np.int64)
        self._contact_f = np.zeros((0, 7))
        self._pair_count = 0
        self._touch = np.full((n + c, k.TOUCH_COLUMNS * SLOTS), NEVER)
        self._counts = np.zeros(5, dtype=np.int64)
        self._counts[k.FORGET_STEPS] = round(k.FORGET / timestep)
        self._counts[k.APART_STEPS] = round(k.APART / timestep)
        self._events = np.zeros((max(64, n), 3))
        self._noted: list[tuple[str, str, float]] = []
        self._numbers = np.zeros(5)
        self._numbers[k.DT] = timestep
        start = 2.0 * self._robots[:, k.ACCEL].max(initial=0.0) * timestep**2
        self._numbers[k.NEED] = 2.0 * (k.PUSH + k.TOUCHING) + max(0.01, 2.0 * start)
        self._lifts = c > 0 or any(robot.spec.lifter for robot in robots)
        self._stand_fast()
        self._place_all()

    @property
    def deepest_overlap(self) -> float:
        """Return the deepest overlap of any two things after the last step, in metres."""
        return float(self._numbers[k.DEEPEST])

    def _lead(self, robots: Sequence[RobotPlacement]) -> None:
        """Find the led bodies, which nothing moves."""
        self.led = led_rows(robots)
        self._inverse[self.led] = 0.0
        self._going = np.zeros((len(self.led), k.LED_NUMBERS))
        self._going[:, k.LED_ROW] = self.led

    def advance(
        self, v_body: FloatArray, driven: BoolArray, platforms: FloatArray, told: FloatArray | None = None
    ) -> None:
        """Advance by one time step."""
        if self._lifts:
            self._lift(platforms)
        if told is not None:
            k.lead_k(
                self.led,
                told,
                self._state,
                self._group,
                self._relative,
                self._reaches,
                self._numbers,
                self._counts,
                self._going,
            )
        if self._counts[k.STALE]:
            self._list_pairs()
        k.step_k(
            v_body,
            driven,
            self._robots,
            self.heights,
            self._state,
            self._old,
            self._inverse,
            self._group,
            self._relative,
            self._reaches,
            self._undersides,
            self._speeds,
            self._pushed,
            self._tops,
            self._disc_i,
            self._disc_f,
            self._xy,
            self._before,
            self.segments,
            self.pillars,
            self._static_things,
            self._pairs,
            self._pair_count,
            self._contact_i,
            self._contact_f,
            self._touch,
            self._counts,
            self._events,
            self._numbers,
            self.poses,
            self.twists,
            self.pushes,
            self._going,
        )
        if len(self.carried_by):
            self._tell_carriers()
        if 2 * self._counts[k.EVENTS] > len(self._events):
            self._note()

    def _lift(self, platforms: FloatArray) -> None:
        """Move the platforms and what they lift."""
        k.lift_k(
            platforms,
            self._robots,
            self.heights,
            self._state,
            self._group,
            self._relative,
            self._own,
            self._inverse,
            self._trays,
            self._tray_body,
            self._lifter_of,
            self._undersides,
            self.carrier_lifts,
            self.carried_by,
            self._disc_i,
            self._disc_f,
            self._counts,
            self._numbers,
        )

    def contacts(self) -> Sequence[tuple[str, str, float]]:
        """Return the contacts that began since the last call: two names and the closing speed in m/s."""
        self._note()
        noted, self._noted = self._noted, []
        return noted

    def cast(self, ring: RangeRing, rows: IntArray) -> FloatArray | None:  # noqa: ARG002
        """Return None: the caller casts rays on the shapes in the plane."""
        return None

    def light(self, row: int, colours: Sequence[int]) -> None:
        """Do nothing: there is no display."""

    def move_robot(self, row: int, pose: tuple[float, float, float]) -> None:
        """Move a robot to a pose, at rest; a carrier that it lifts is put down where it is."""
        self._release(row)
        self._state[row] = (*pose, 0.0, 0.0, 0.0)
        self._place_all()

    def move_carrier(self, row: int, pose: tuple[float, float, float]) -> None:
        """Move a carrier and those joined to it to a pose on the floor, at rest."""
        body = int(self._tray_body[row])
        self._put_down(body)
        c, s = math.cos(pose[2]), math.sin(pose[2])
        x, y = self._trays[row, k.TRAY_X], self._trays[row, k.TRAY_Y]
        self._state[body] = (pose[0] - c * x + s * y, pose[1] - s * x - c * y, pose[2], 0.0, 0.0, 0.0)
        self._place_all()

    def add_robot(self, placement: RobotPlacement) -> None:
        """Add a robot at rest, in a row after the others."""
        row = len(self._robots)
        self._note()
        self._renumber(row, 1)
        for name in _ROWS:
            setattr(self, name, np.insert(getattr(self, name), row, 0, axis=0))
        self._things.insert(row, placement.name)
        spec = self._robots[row] = _robot_row(placement, self._acceleration)
        self.heights[row] = spec[k.LOWERED]
        self._tops[row] = spec[k.TOP]
        self._group[row] = row
        self._state[row, :3] = placement.pose
        self._own[row] = _own_of(spec)
        self._inverse[row] = 1.0 / self._own[row]
        self._disc_i[row] = row, k.ROBOT, row
        self._disc_f[row, k.DISC_RADIUS] = spec[k.RADIUS]
        self._touch[row] = NEVER
        self._take_robots((*self._scene.robots, placement))

    def remove_robot(self, row: int) -> None:
        """Remove a robot and decrement the rows after it; a carrier that it lifts is put down."""
        self._release(row)
        self._note()
        # Forget all contacts with it.
        touch = self._touch.reshape(len(self._touch), SLOTS, k.TOUCH_COLUMNS)
        touch[touch[:, :, k.OTHER] == row] = NEVER
        for name in _ROWS:
            setattr(self, name, np.delete(getattr(self, name), row, axis=0))
        del self._things[row]
        self._renumber(row, -1)
        self._take_robots((*self._scene.robots[:row], *self._scene.robots[row + 1 :]))

    def add_box(self, name: str, pose: tuple[float, float, float], size: tuple[float, float]) -> None:
        """Add a fixed box.

        Raises:
            SimError: the name is taken.
        """
        if name in self._boxes or name in self._things[: self._scene_things]:
            message = f"box '{name}': this name is taken; choose another name"
            raise SimError(message)
        if name in self._things:
            thing = self._things.index(name)
        else:
            thing = len(self._things)
            self._things.append(name)
        self._boxes[name] = thing
        self.segments = np.vstack([self.segments, box_segments(np.array(pose), *size)])
        self._segment_things += [thing] * 4
        self._stand_fast()

    def remove_box(self, name: str) -> None:
        """Remove a box that `add_box` added.

        Raises:
            SimError: unknown name.
        """
        if name not in self._boxes:
            message = f"no box '{name}': there are {', '.join(sorted(self._boxes)) or 'none'}"
            raise SimError(message)
        thing = self._boxes.pop(name)
        kept = [i for i, of in enumerate(self._segment_things) if of != thing]
        self.segments = np.ascontiguousarray(self.segments[kept])
        self._segment_things = [self._segment_things[i] for i in kept]
        self._stand_fast()

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def seen_discs(self) -> IntArray:
        """Return the indices of the discs that sensors see: robots, in order, and carriers' legs."""
        return np.flatnonzero(self._disc_i[:, k.KIND] != k.RIM)

    def disc_radii(self) -> FloatArray:
        """Return the radii of all discs."""
        return self._disc_f[:, k.DISC_RADIUS]

    def disc_places(self) -> FloatArray:
        """Return the positions of all discs, rows of x, y in `map`; not a copy."""
        return self._xy

    def _add_body(self, body: int) -> list[tuple[tuple[int, int, int], tuple[float, float, float]]]:
        """Fill in a body of carriers; return its discs."""
        n = len(self._robots)
        members = [(i, carrier) for i, carrier in enumerate(self._scene.carriers) if carrier.body == body]
        row = n + body
        middle = np.mean([carrier.pose[:2] for _, carrier in members], axis=0)
        yaw = members[0][1].pose[2]
        self._state[row, :3] = (*middle, yaw)
        c, s = math.cos(yaw), math.sin(yaw)
        discs = []
        mass = inertia = reach = 0.0
        for i, placement in members:
            carrier = placement.carrier
            dx, dy = placement.pose[0] - middle[0], placement.pose[1] - middle[1]
            x, y = c * dx + s * dy, c * dy - s * dx
            self._trays[i] = carrier.length, carrier.width, carrier.clearance, x, y
            self._undersides[body] = carrier.clearance
            for kind, places in ((k.LEG, legs_of(carrier)), (k.RIM, _rim_of(placement))):
                discs += [
                    ((row, kind, n + i), (x + a, y + b, carrier.leg_radius)) for a, b in places.tolist()
                ]
            own = carrier.mass + placement.payload
            mass += own
            inertia += own * ((carrier.length**2 + carrier.width**2) / 12 + x * x + y * y)
            reach = max(reach, math.hypot(x, y) + math.hypot(carrier.length, carrier.width) / 2)
        self._own[row] = mass, inertia
        self._reaches[body] = reach
        return discs

    def _renumber(self, row: int, by: int) -> None:
        """Shift the numbers of bodies and things from `row` on, after a robot was added or removed."""
        bodies, things = self._disc_i[:, k.BODY], self._disc_i[:, k.THING]
        touched = self._touch[:, k.OTHER :: k.TOUCH_COLUMNS]
        for array in (bodies, things, touched, self._group, self._tray_body, self.carried_by):
            array[array >= row] += by
        # Static things, whose numbers all come after the robots'.
        self._segment_things = [thing + by for thing in self._segment_things]
        self._pillar_things = [thing + by for thing in self._pillar_things]
        self._boxes = {name: thing + by for name, thing in self._boxes.items()}
        self._scene_things += by

    def _take_robots(self, robots: tuple[RobotPlacement, ...]) -> None:
        """Replace the scene's robots, whose rows are already filled in."""
        self._scene = replace(self._scene, robots=robots)
        self._lifts = len(self.carried_by) > 0 or any(robot.spec.lifter for robot in robots)
        self._lead(robots)
        self._starts = np.zeros(_room(len(self._disc_i)) + 1, dtype=np.int64)
        self._events = np.zeros((max(64, len(robots)), 3))
        self._stand_fast()
        self._place_all()

    def _stand_fast(self) -> None:
        """Rebuild the grid of walls and obstacles, after changes of these or of the discs' radii."""
        self._widest = 2.0 * float(self._disc_f[:, k.DISC_RADIUS].max(initial=0.0))
        self._static_things = np.array(self._segment_things + self._pillar_things, dtype=np.int64)
        reach = 2.0 * self._widest + 0.25
        self._static = StaticGrid(self.segments, self.pillars, reach)
        self._static_reach = reach
        self._counts[k.STALE] = 1

    def _place_all(self) -> None:
        """Update all arrays after poses were set from outside."""
        k.tell_robots_k(self._state, self._group, self._relative, self.timestep, self.poses, self.twists)
        for d in range(len(self._xy)):
            k.place_disc_k(d, self._state, self._disc_i, self._disc_f, self._xy)
        self._tell_carriers()
        self._counts[k.STALE] = 1

    def _list_pairs(self) -> None:
        """Rebuild the list of pairs that may touch in the next steps."""
        skin = self._numbers[k.NEED] + k.SPARE
        while True:
            count = k.list_pairs_k(
                self._xy,
                self._disc_i,
                self._disc_f,
                self._widest + skin,
                self._frame,
                self._cells,
                self._starts,
                self._order,
                self.segments,
                self.pillars,
                self._static.frame,
                self._static.starts,
                self._static.items,
                self._pairs,
                skin,
            )
            if count <= len(self._pairs):
                break
            room = count + count // 4 + 16
            self._pairs = np.zeros((room, 2), dtype=np.int64)
            self._contact_i = np.zeros((room, 4), dtype=np.int64)
            self._contact_f = np.zeros((room, 7))
        self._pair_count = count
        self._numbers[k.SKIN] = skin
        self._numbers[k.USED] = 0.0
        self._counts[k.STALE] = 0

    def _note(self) -> None:
        """Move the events from the kernels' buffer to `_noted`."""
        count = int(self._counts[k.EVENTS])
        if count == 0:
            return
        names, bodies = self._things, len(self._robots)
        for one, other, speed in self._events[: min(count, len(self._events))].tolist():
            first, second = int(one), int(other)
            if second < bodies <= first:
                first, second = second, first
            self._noted.append((names[first], names[second], speed))
        self._counts[k.EVENTS] = 0

    def _release(self, row: int) -> None:
        """Put down what a robot lifts, if anything."""
        body = int(self._group[row])
        if body != row:
            self._put_down(body)

    def _put_down(self, body: int) -> None:
        """Put a body of carriers on the floor and release its lifters."""
        trays = self._tray_body == body
        for i in self.carried_by[trays].tolist():
            if i >= 0:
                self.heights[i] = min(self.heights[i], float(self._trays[trays, k.CLEARANCE].min()))
        self.carried_by[trays] = -1
        self.carrier_lifts[trays] = 0.0
        if trays.any():
            self._undersides[body - len(self._robots)] = self._trays[trays, k.CLEARANCE].min()
            k.let_go_k(body, self._group, self._own, self._inverse, self._disc_i, self._disc_f)
            self._counts[k.STALE] = 1

    def _tell_carriers(self) -> None:
        k.tell_carriers_k(self._state, self._trays, self._tray_body, self.carrier_poses)


def _robot_row(robot: RobotPlacement, acceleration: Literal["available", "limited"]) -> tuple[float, ...]:
    """Return a robot's row of `robots`."""
    spec = robot.spec
    lifter = spec.lifter
    limits = spec.limits
    return (
        spec.body.bounding_radius,
        spec.body.mass,
        limits.acceleration if acceleration == "limited" else limits.acceleration_available,
        limits.yaw_acceleration,
        float(spec.holonomic),
        spec.body.height,
        lifter.lowered if lifter else 0.0,
        lifter.raised if lifter else 0.0,
        LIFT_SPEED_UP * (lifter.raised - lifter.lowered) / lifter.travel_time if lifter else 0.0,
    )


def _own_of(row: Sequence[float] | FloatArray) -> tuple[float, float]:
    """Return mass and moment of inertia of a robot, from its row of `robots`."""
    return row[k.MASS], 0.5 * row[k.MASS] * row[k.RADIUS] ** 2


def _room(discs: int) -> int:
    """Return the largest number of cells of the grid of discs."""
    return 4 * discs + 64


def _rim_of(placement: CarrierPlacement) -> FloatArray:
    """Return the positions of the discs that form a tray's edge between its legs, in the tray's frame."""
    carrier = placement.carrier
    legs = legs_of(carrier)
    places = []
    for one, other in zip(legs, np.roll(legs, -1, axis=0), strict=True):
        count = math.ceil(float(np.hypot(*(other - one))) / (RIM_SPACING * carrier.leg_radius))
        places += [one + (other - one) * i / count for i in range(1, count)]
    return np.array(places).reshape(-1, 2)


def make(scene: Scene, seed: np.random.SeedSequence) -> TaskWorld:
    """Return a scene as a planar world; a `CrowdWorld` if its robots are a crowd."""
    if scene.crowd:
        from swarmbed_sim.crowd import PlanarCrowdWorld

        return PlanarCrowdWorld(scene, seed)
    from swarmbed_sim.sim_world import SimWorld

    return SimWorld(scene, PlanarPhysics(scene), seed)
