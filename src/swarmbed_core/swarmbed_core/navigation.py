"""Navigation to a pose around obstacles: which path to follow, when to replan and when to give up.

`Navigation` decides. Its owner (the `navigate_to_pose` action on ROS 2, or a program) feeds it the robot's
pose, the obstacles seen and the progress along the path, and carries out its orders. A route is planned over
the arena's floor plan, if there is one, and around the obstacles seen lately. It is checked in every step and
replanned when it is blocked. Without a route the robot brakes, waits, and then forgets what it saw (a
recovery), because the obstacle may have moved away meanwhile. It gives up after `recoveries` in a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from swarmbed_core.floor_plan import RESOLUTION, FloorPlan
from swarmbed_core.geometry import compose, invert, wrap
from swarmbed_core.planner import COMFORT, Clearance, open_floor
from swarmbed_core.trajectory import Path, Waypoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

    Pose = tuple[float, float, float]

GRAIN = 0.04
"""Grid size in metres; points seen in the same cell are merged."""
OURS = 0.12
"""Metres from an obstacle of the floor plan within which a seen point belongs to that obstacle."""
ROOM = 3.0
"""Margin in metres around robot and goal of the area that is planned over without a floor plan."""
FARTHEST = 200.0
"""Longest side in metres of the area that is planned over without a floor plan."""
MOVED = 0.05
"""Metres below which the goal in `odom`, or the robot within `STUCK` seconds, counts as not moved."""
STUCK = 6.0
"""Seconds without motion after which a robot that follows a path counts as stuck."""
BETTER = 0.8
"""Another route replaces the current one if it costs less than this share of what is left of it."""
AHEAD = 0.4
"""Metres of route ahead on which a near obstacle slows the robot down."""
SLOW_ROOM = 0.12
"""Metres beyond the required clearance within which an obstacle counts as near."""
SLOW = 0.5
"""Share of its speed at which a robot passes near obstacles."""
HEADWAY = 0.5
"""Metres of progress after which the count of recoveries in a row starts from 0 again."""


class Status(Enum):
    """State of the navigation."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Fault(IntEnum):
    """Why a goal was not reached, with the error codes of the Navigation 2 stack."""

    NONE = 0
    NO_PROGRESS = 105
    START_OUTSIDE_MAP = 204
    GOAL_OUTSIDE_MAP = 205
    GOAL_OCCUPIED = 207
    NO_VALID_PATH = 209
    UNKNOWN = 9000
    TF_ERROR = 9002


@dataclass(frozen=True, slots=True)
class NavigationParams:
    """Parameters of `Navigation`.

    Attributes:
        speed: [m/s] capped at the robot's own limit.
        acceleration: [m/s²] capped likewise.
        margin: [m] least distance between the body and any obstacle.
        memory: [s] how long a seen obstacle is remembered.
        threshold: value of a cell of the collision map, 0 to 1, from which it counts as an obstacle.
        spread: [m] how far cells at the threshold lie outside the obstacle that was seen.
        patience: [s] time without a route after which a recovery starts.
        recoveries: how many in a row before the robot gives up.
        tolerance: [m] distance from the goal that counts as reached.
        tolerance_yaw: [rad] likewise for the yaw.
    """

    speed: float = 0.35
    acceleration: float = 1.0
    margin: float = 0.04
    memory: float = 5.0
    threshold: float = 0.3
    spread: float = 0.035
    patience: float = 2.0
    recoveries: int = 5
    tolerance: float = 0.05
    tolerance_yaw: float = 0.1


@dataclass(frozen=True, slots=True)
class Order:
    """What the owner of a `Navigation` has to do; both fields unset means: nothing.

    Attributes:
        path: the path to follow from now on, in `odom`.
        brake: whether to cancel the current path.
    """

    path: Path | None = None
    brake: bool = False


NOTHING = Order()


class Navigation:
    """Navigation of one robot to a pose.

    Attributes:
        status: running, succeeded or failed.
        fault: why it failed, as a code.
        message: why it failed, in words.
        recoveries: recoveries since the goal was set.
        distance_remaining: [m] length of the route that is left.
        speed: [m/s] speed on free stretches.
    """

    def __init__(
        self, spec: RobotSpec, params: NavigationParams | None = None, radius: float | None = None
    ) -> None:
        """Start without a goal.

        Args:
            spec: the kind of robot.
            params: parameters; the defaults if None.
            radius: [m] bounding radius of the robot; that of its body if None.
        """
        self.params = params or NavigationParams()
        self.status = Status.FAILED
        self.fault = Fault.NONE
        self.message = "no goal"
        self.recoveries = 0
        self.distance_remaining = math.nan
        self.speed = min(self.params.speed, spec.limits.speed)
        self._acceleration = min(self.params.acceleration, spec.limits.acceleration)
        self._holonomic = spec.holonomic
        self._radius = spec.body.bounding_radius if radius is None else radius
        self._goal: FloatArray = np.zeros(3)
        self._frame: Literal["map", "odom"] = "odom"
        self._seen = np.empty((0, 2))
        self._times = np.empty(0)
        self._clearance: Clearance | None = None
        self._of: FloorPlan | None = None
        self._forget()

    def _forget(self) -> None:
        self._way: FloatArray | None = None
        self._end_odom: FloatArray = np.zeros(3)
        self._waits: float | None = None
        self._in_a_row = 0
        self._paced = 0.0
        self._headway: FloatArray | None = None
        self._moved: tuple[float, FloatArray] | None = None
        self._failures = 0

    @property
    def need(self) -> float:
        """Return the clearance that a route requires, in metres from the robot's centre."""
        return self._radius + self.params.margin

    @property
    def following(self) -> bool:
        """Return whether a path is being followed."""
        return self._way is not None

    def start(self, goal: Sequence[float], frame: Literal["map", "odom"]) -> None:
        """Set a new goal. The obstacles seen so far are kept.

        Args:
            goal: x, y and yaw.
            frame: frame of the goal, in which it stays fixed.
        """
        self._goal, self._frame = np.array(goal, dtype=np.float64), frame
        self.status, self.fault, self.message = Status.RUNNING, Fault.NONE, ""
        self.recoveries = 0
        self.distance_remaining = math.nan
        self._forget()

    def see(self, now: float, points_odom: FloatArray) -> None:
        """Remember points on obstacles, and drop those older than `memory`.

        Args:
            now: when they were seen.
            points_odom: rows of x, y in `odom`.
        """
        keep = (now - self._times <= self.params.memory) & (self._times <= now)
        seen = np.vstack([points_odom, self._seen[keep]])
        times = np.concatenate([np.full(len(points_odom), now), self._times[keep]])
        # Of the points in one grid cell, keep the first, which is the newest.
        _, first = np.unique(np.floor(seen / GRAIN).astype(np.int64), axis=0, return_index=True)
        self._seen, self._times = seen[first], times[first]

    def ended(self, *, arrived: bool) -> None:
        """Report that the path ended without an order to brake, at its last waypoint or before it."""
        self._way = None
        if not arrived:
            self._failures += 1

    def step(
        self,
        now: float,
        pose_odom: Sequence[float] | FloatArray,
        map_odom: Sequence[float] | FloatArray | None = None,
        plan: FloorPlan | None = None,
        waypoint: int = 0,
    ) -> Order:
        """Return what to do now.

        Args:
            now: time on the robot's clock.
            pose_odom: pose of the robot.
            map_odom: pose of `map` in `odom`; None if the robot is not localised.
            plan: floor plan, in `map`.
            waypoint: index of the next waypoint of the path.
        """
        if self.status is not Status.RUNNING:
            return NOTHING
        if self._frame == "map":
            if map_odom is None:
                return self._fail(Fault.TF_ERROR, "the robot has lost its pose in map")
            goal_odom = compose(map_odom, self._goal)
        else:
            goal_odom = self._goal
        pose = np.asarray(pose_odom, dtype=np.float64)
        if self._way is None and self._is_there(pose, goal_odom):
            self.status, self.distance_remaining = Status.SUCCEEDED, 0.0
            return NOTHING
        # Pose in odom of the frame that is planned in: the floor plan's, if there is one.
        frame = np.zeros(3) if map_odom is None or plan is None else np.asarray(map_odom, dtype=np.float64)
        here, there = _into(frame, pose[:2]), _into(frame, goal_odom[:2])
        clearance = self._look(plan if map_odom is not None else None, here, there, frame)
        fault = self._fault_of(clearance, here, there)
        if fault is not None:
            return self._fail(*fault)
        self._note_headway(now, pose)
        if self._way is not None:
            left = np.vstack([pose[:2], self._way[min(waypoint, len(self._way) - 1) :]])
            self.distance_remaining = length_of(left)
            on_the_way = clearance.is_free(_into(frame, left), self.need - 0.5 * clearance.plan.resolution)
            if self._is_stuck(now):
                return self._recover(now, Fault.NO_PROGRESS, "the robot makes no progress")
            if on_the_way and not self._has_moved(goal_odom):
                self._waits = None
                if self._pace(clearance, _into(frame, left)) >= self._paced and not self._is_dear(
                    clearance, here, there, _into(frame, left)
                ):
                    return NOTHING
        return self._replan(now, clearance, frame, pose, goal_odom)

    def _replan(
        self,
        now: float,
        clearance: Clearance,
        frame: FloatArray,
        pose: FloatArray,
        goal_odom: FloatArray,
    ) -> Order:
        """Follow a new route, or wait for one."""
        here, there = _into(frame, pose[:2]), _into(frame, goal_odom[:2])
        if self._failures > self.params.recoveries:
            return self._fail(Fault.NO_PROGRESS, "the robot never reaches the end of its paths")
        way = clearance.way((here[0], here[1]), (there[0], there[1]), self.need)
        if way is None:
            if clearance.way((here[0], here[1]), (there[0], there[1]), self.need, fixed=True) is None:
                explanation = f"no route to {self._told} for a robot {2 * self._radius:.2f} m across"
                return self._fail(Fault.NO_VALID_PATH, explanation)
            if self._waits is None:
                self._waits = now
            elif now - self._waits > self.params.patience:
                return self._recover(now, Fault.NO_VALID_PATH, f"the route to {self._told} is blocked")
            return self._brake()
        self._waits = None
        self._way = _out_of(frame, way)[1:]
        self._end_odom = goal_odom
        self._paced = self._pace(clearance, way)
        self.distance_remaining = length_of(np.vstack([pose[:2], self._way]))
        return Order(path=self._path(pose, goal_odom))

    def _is_dear(self, clearance: Clearance, here: FloatArray, there: FloatArray, left: FloatArray) -> bool:
        """Return whether another route costs much less than what is left of the current one."""
        cost = clearance.cost_of(left, self.need)
        # No route is better than a nearly straight one with room on both sides.
        if cost <= (1.0 / BETTER) * math.hypot(*(there - here)):
            return False
        other = clearance.way((here[0], here[1]), (there[0], there[1]), self.need)
        return other is not None and clearance.cost_of(other, self.need) < BETTER * cost

    def _pace(self, clearance: Clearance, way: FloatArray) -> float:
        """Return how fast the robot may go: slower where a seen obstacle is near its route."""
        near = clearance.seen_near(way, AHEAD, self.need + SLOW_ROOM)
        return SLOW * self.speed if near else self.speed

    def _brake(self) -> Order:
        if self._way is None:
            return NOTHING
        self._way = None
        return Order(brake=True)

    def _recover(self, now: float, fault: Fault, explanation: str) -> Order:
        """Forget the seen obstacles and start over, or give up."""
        if self._in_a_row >= self.params.recoveries:
            return self._fail(fault, f"{explanation}, even after {self._in_a_row} recoveries")
        self._in_a_row += 1
        self.recoveries += 1
        self._seen, self._times = self._seen[:0], self._times[:0]
        self._waits = now
        self._moved = None
        return self._brake()

    def _fail(self, fault: Fault, explanation: str) -> Order:
        self.status, self.fault, self.message = Status.FAILED, fault, explanation
        return self._brake()

    def stop(self) -> Order:
        """Cancel the goal."""
        self.status, self.message = Status.FAILED, "cancelled"
        return self._brake()

    @property
    def _told(self) -> str:
        x, y, _ = self._goal.tolist()
        return f"({x:.2f}, {y:.2f}) in {self._frame}"

    def _look(
        self, plan: FloorPlan | None, here: FloatArray, there: FloatArray, frame: FloatArray
    ) -> Clearance:
        """Return the clearance map with the obstacles known now."""
        if plan is None:
            known = self._clearance if self._of is None else None
            if known is None or not (known.plan.holds(*here) and known.plan.holds(*there)):
                low, high = np.minimum(here, there) - ROOM, np.maximum(here, there) + ROOM
                # A goal outside this area is rejected.
                high = np.minimum(high, low + FARTHEST)
                known = Clearance(open_floor(low, high, RESOLUTION), self.need + COMFORT)
        elif self._of is plan and self._clearance is not None:
            known = self._clearance
        else:
            known = Clearance(plan, self.need + COMFORT)
        self._clearance, self._of = known, plan
        points = _into(frame, self._seen)
        away = known.fixed_of(points)
        known.see(points[away > OURS], self.params.spread)
        return known

    def _fault_of(
        self, clearance: Clearance, here: FloatArray, there: FloatArray
    ) -> tuple[Fault, str] | None:
        """Return what is wrong with the goal or with the robot's place; None if neither."""
        on = "/map" if self._of is not None else f"{FARTHEST:g} m of floor"
        if not clearance.plan.holds(*there):
            return Fault.GOAL_OUTSIDE_MAP, f"the goal {self._told} is outside of {on}"
        if not clearance.plan.holds(*here):
            return Fault.START_OUTSIDE_MAP, f"the robot is outside of {on}"
        if clearance.fixed_at(*there) < self.need:
            explanation = (
                f"the goal {self._told} is {clearance.fixed_at(*there):.2f} m from a wall or an obstacle: "
                f"this robot's centre needs {self.need:.2f} m"
            )
            return Fault.GOAL_OCCUPIED, explanation
        return None

    def _is_there(self, pose: FloatArray, goal_odom: FloatArray) -> bool:
        off = math.hypot(*(pose[:2] - goal_odom[:2]))
        turned = abs(float(wrap(pose[2] - goal_odom[2])))
        return off <= self.params.tolerance and turned <= self.params.tolerance_yaw

    def _has_moved(self, goal_odom: FloatArray) -> bool:
        """Return whether the goal has moved away from the path's end, because localisation has improved."""
        return math.hypot(*(self._end_odom[:2] - goal_odom[:2])) > MOVED

    def _note_headway(self, now: float, pose: FloatArray) -> None:
        """Record when the robot moved last; after `HEADWAY` metres reset the counts of failures."""
        if self._moved is None or self._way is None or _apart(self._moved[1], pose) > MOVED:
            self._moved = now, pose
        if self._headway is None:
            self._headway = pose
        elif math.hypot(*(self._headway[:2] - pose[:2])) > HEADWAY:
            self._headway, self._in_a_row, self._failures = pose, 0, 0

    def _is_stuck(self, now: float) -> bool:
        return self._moved is not None and now - self._moved[0] > STUCK

    def _path(self, pose: FloatArray, goal_odom: FloatArray) -> Path:
        """Return the current route as a path."""
        way = self._way
        if way is None:
            raise AssertionError
        points = waypoints_of(
            np.vstack([pose[:2], way]), float(goal_odom[2]), self._paced, self._acceleration, self._holonomic
        )
        return Path(points, "odom", max_speed=self._paced, max_acceleration=self._acceleration)


def warm_up() -> None:
    """Plan a dummy route, so that the kernels are compiled or loaded from the cache."""
    clearance = Clearance(open_floor(np.zeros(2), np.ones(2), 0.1), 0.3)
    clearance.see(np.array([[0.5, 0.4]]))
    clearance.fixed_of(np.array([[0.5, 0.4]]))
    way = clearance.way((0.15, 0.4), (0.85, 0.4), 0.1)
    if way is not None:
        clearance.is_free(way, 0.1)
        clearance.cost_of(way, 0.1)
        clearance.seen_near(way, 0.3, 0.1)
    clearance.at(0.5, 0.5)


def waypoints_of(
    way: FloatArray, yaw: float, speed: float, acceleration: float, holonomic: bool
) -> tuple[Waypoint, ...]:
    """Return the waypoints of a route, each passed as fast as its corner allows.

    Args:
        way: rows of x, y, the robot's own position first.
        yaw: [rad] yaw at the end.
        speed: [m/s] speed on straight parts.
        acceleration: [m/s²] acceleration limit.
        holonomic: whether the robot passes waypoints without stopping.
    """
    legs = np.diff(way, axis=0)
    lengths = np.hypot(legs[:, 0], legs[:, 1])
    made = []
    for k, (leg, following) in enumerate(pairwise(legs)):
        shortest = float(min(lengths[k], lengths[k + 1]))
        heading = math.atan2(leg[1], leg[0])
        turn = float(wrap(math.atan2(following[1], following[0]) - heading))
        velocity = (0.0, 0.0, 0.0)
        if holonomic and abs(turn) < math.pi / 2:
            # Along the bisector of both legs, and no faster than the shorter leg allows.
            pace = min(speed * math.cos(turn) ** 2, math.sqrt(acceleration * shortest) / 2)
            velocity = (pace * math.cos(heading + turn / 2), pace * math.sin(heading + turn / 2), 0.0)
        made.append(Waypoint((float(way[k + 1, 0]), float(way[k + 1, 1]), heading), velocity))
    made.append(Waypoint((float(way[-1, 0]), float(way[-1, 1]), yaw)))
    return tuple(made)


def length_of(way: FloatArray) -> float:
    """Return the length of a polyline."""
    steps = np.diff(way, axis=0)
    return float(np.hypot(steps[:, 0], steps[:, 1]).sum())


def _apart(one: FloatArray, other: FloatArray) -> float:
    """Return the distance between two poses, in metres; a radian counts as half a metre."""
    return math.hypot(*(one[:2] - other[:2])) + 0.5 * abs(float(wrap(one[2] - other[2])))


def _into(frame: FloatArray, points: FloatArray) -> FloatArray:
    """Transform points from `odom` into a frame whose pose in `odom` is given."""
    return _out_of(invert(frame), points)


def _out_of(frame: FloatArray, points: FloatArray) -> FloatArray:
    """Transform points from a frame whose pose in `odom` is given into `odom`."""
    x, y, yaw = frame
    c, s = math.cos(yaw), math.sin(yaw)
    turned: FloatArray = points @ np.array([[c, s], [-s, c]]) + np.array([x, y])
    return turned
