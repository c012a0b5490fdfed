"""On the way to a pose, round what is in the way: which path to follow, when to take another or give up.

`Navigation` decides; its owner tells it where the robot is, what is seen around it and how its path goes, and
does what it orders: `navigate_to_pose` on ROS 2, or a program. A way is planned over the floor plan of the
arena, if there is one, and around what was seen lately. It is checked whenever something new is seen, and
planned anew where it is blocked. Without a way the robot brakes, waits, and then forgets what it saw (a
recovery): what has moved away meanwhile is not in the way any more. It gives up after some recoveries in a
row.
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
"""Metres within which two things that were seen are one."""
OURS = 0.12
"""Metres from what the floor plan has within which what is seen is that."""
ROOM = 3.0
"""Metres of floor around robot and goal that are planned over where there is no floor plan."""
FARTHEST = 200.0
"""Metres to a goal beyond which no way is looked for."""
MOVED = 0.05
"""Metres that the goal may move in `odom`, or the robot in `STUCK` seconds, without being elsewhere."""
STUCK = 6.0
"""Seconds after which a robot that follows its path and does not come on is stuck."""
BETTER = 0.8
"""Share of what is left of a way that another one must cost to be taken instead."""
AHEAD = 0.4
"""Metres of the way within which something near slows the robot down."""
SLOW_ROOM = 0.12
"""Metres beyond the clearance that is needed within which something is near."""
SLOW = 0.5
"""Share of its speed that a robot goes with near something."""
HEADWAY = 0.5
"""Metres of way after which recoveries count from 0 again."""


class Status(Enum):
    """How it goes."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Fault(IntEnum):
    """Why a goal was not reached, by the numbers that the Navigation 2 stack gives to such errors."""

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
    """How a robot goes.

    Attributes:
        speed: in m/s; the robot's own limit, if that is lower.
        acceleration: in m/s², likewise.
        margin: metres that the body keeps from everything at least.
        memory: seconds for which what was seen counts.
        threshold: value of a cell of the collision map, 0 to 1, from which something is there.
        spread: metres by which cells of that value reach beyond what was seen.
        patience: seconds without a way after which a robot recovers.
        recoveries: in a row, after which it gives up.
        tolerance: metres from the goal that count as there.
        tolerance_yaw: radians likewise.
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
    """What the robot is to do.

    Attributes:
        path: to follow from now on, in `odom`.
        brake: whether to end the path that is followed.
    """

    path: Path | None = None
    brake: bool = False


NOTHING = Order()


class Navigation:
    """One robot on its way to a pose.

    Attributes:
        status: how it goes.
        fault: why it failed.
        message: the same in words.
        recoveries: how often the robot had to wait and look again, since the start.
        distance_remaining: metres along the way that is left.
        speed: that it goes with.
    """

    def __init__(
        self, spec: RobotSpec, params: NavigationParams | None = None, radius: float | None = None
    ) -> None:
        """Stand without a goal.

        Args:
            spec: the kind of robot.
            params: how it goes.
            radius: of the circle that holds it, if not its body's.
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
        """Return the clearance that a way must have."""
        return self._radius + self.params.margin

    @property
    def following(self) -> bool:
        """Return whether a path is being followed."""
        return self._way is not None

    def start(self, goal: Sequence[float], frame: Literal["map", "odom"]) -> None:
        """Take a goal; what was seen is still known.

        Args:
            goal: x, y and yaw.
            frame: in which the goal stays where it is.
        """
        self._goal, self._frame = np.array(goal, dtype=np.float64), frame
        self.status, self.fault, self.message = Status.RUNNING, Fault.NONE, ""
        self.recoveries = 0
        self.distance_remaining = math.nan
        self._forget()

    def see(self, now: float, points_odom: FloatArray) -> None:
        """Take note of where something is.

        Args:
            now: when it was seen.
            points_odom: rows of x, y in `odom`.
        """
        keep = (now - self._times <= self.params.memory) & (self._times <= now)
        seen = np.vstack([points_odom, self._seen[keep]])
        times = np.concatenate([np.full(len(points_odom), now), self._times[keep]])
        # Of those in one grain the first, which is the newest.
        _, first = np.unique(np.floor(seen / GRAIN).astype(np.int64), axis=0, return_index=True)
        self._seen, self._times = seen[first], times[first]

    def ended(self, *, arrived: bool) -> None:
        """Take note that the path has ended by itself, at its end or elsewhere."""
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
            now: the robot's clock.
            pose_odom: of the robot.
            map_odom: pose of `map` in `odom`, if the robot knows it.
            plan: of the floor, in `map`.
            waypoint: of the path, which is next.
        """
        if self.status is not Status.RUNNING:
            return NOTHING
        if self._frame == "map":
            if map_odom is None:
                return self._fail(Fault.TF_ERROR, "the robot does not know any more where it is in map")
            goal_odom = compose(map_odom, self._goal)
        else:
            goal_odom = self._goal
        pose = np.asarray(pose_odom, dtype=np.float64)
        if self._way is None and self._is_there(pose, goal_odom):
            self.status, self.distance_remaining = Status.SUCCEEDED, 0.0
            return NOTHING
        # The frame that is planned in, in odom: the floor plan's, if there is one.
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
                return self._recover(now, Fault.NO_PROGRESS, "the robot does not come on")
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
        """Follow a new way, or wait for one."""
        here, there = _into(frame, pose[:2]), _into(frame, goal_odom[:2])
        if self._failures > self.params.recoveries:
            return self._fail(Fault.NO_PROGRESS, "the robot does not come to the ends of its paths")
        way = clearance.way((here[0], here[1]), (there[0], there[1]), self.need)
        if way is None:
            if clearance.way((here[0], here[1]), (there[0], there[1]), self.need, fixed=True) is None:
                explanation = f"no way leads to {self._told} for a robot of {2 * self._radius:.2f} m"
                return self._fail(Fault.NO_VALID_PATH, explanation)
            if self._waits is None:
                self._waits = now
            elif now - self._waits > self.params.patience:
                return self._recover(now, Fault.NO_VALID_PATH, f"the way to {self._told} is blocked")
            return self._brake()
        self._waits = None
        self._way = _out_of(frame, way)[1:]
        self._end_odom = goal_odom
        self._paced = self._pace(clearance, way)
        self.distance_remaining = length_of(np.vstack([pose[:2], self._way]))
        return Order(path=self._path(pose, goal_odom))

    def _is_dear(self, clearance: Clearance, here: FloatArray, there: FloatArray, left: FloatArray) -> bool:
        """Return whether there is a way that costs much less than what is left of this one."""
        cost = clearance.cost_of(left, self.need)
        # A straight way with room on both sides has no better.
        if cost <= (1.0 / BETTER) * math.hypot(*(there - here)):
            return False
        other = clearance.way((here[0], here[1]), (there[0], there[1]), self.need)
        return other is not None and clearance.cost_of(other, self.need) < BETTER * cost

    def _pace(self, clearance: Clearance, way: FloatArray) -> float:
        """Return how fast the robot may go: slower where something seen is near its way."""
        near = clearance.seen_near(way, AHEAD, self.need + SLOW_ROOM)
        return SLOW * self.speed if near else self.speed

    def _brake(self) -> Order:
        if self._way is None:
            return NOTHING
        self._way = None
        return Order(brake=True)

    def _recover(self, now: float, fault: Fault, explanation: str) -> Order:
        """Forget what was seen and begin anew, or give up."""
        if self._in_a_row >= self.params.recoveries:
            return self._fail(fault, f"{explanation}, also after {self._in_a_row} recoveries")
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
        """Give the goal up."""
        self.status, self.message = Status.FAILED, "cancelled"
        return self._brake()

    @property
    def _told(self) -> str:
        x, y, _ = self._goal.tolist()
        return f"({x:.2f}, {y:.2f}) in {self._frame}"

    def _look(
        self, plan: FloorPlan | None, here: FloatArray, there: FloatArray, frame: FloatArray
    ) -> Clearance:
        """Return the clearance of now."""
        if plan is None:
            known = self._clearance if self._of is None else None
            if known is None or not (known.plan.holds(*here) and known.plan.holds(*there)):
                low, high = np.minimum(here, there) - ROOM, np.maximum(here, there) + ROOM
                # Farther than that the goal is refused.
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
        """Return what is wrong with the goal, or with where the robot is."""
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
        """Return whether the goal is not where the path ends any more: the robot has learnt where it is."""
        return math.hypot(*(self._end_odom[:2] - goal_odom[:2])) > MOVED

    def _note_headway(self, now: float, pose: FloatArray) -> None:
        """Take note of when the robot moved last, and when it has come some way."""
        if self._moved is None or self._way is None or _apart(self._moved[1], pose) > MOVED:
            self._moved = now, pose
        if self._headway is None:
            self._headway = pose
        elif math.hypot(*(self._headway[:2] - pose[:2])) > HEADWAY:
            self._headway, self._in_a_row, self._failures = pose, 0, 0

    def _is_stuck(self, now: float) -> bool:
        return self._moved is not None and now - self._moved[0] > STUCK

    def _path(self, pose: FloatArray, goal_odom: FloatArray) -> Path:
        """Return the way as a path."""
        way = self._way
        if way is None:
            raise AssertionError
        points = waypoints_of(
            np.vstack([pose[:2], way]), float(goal_odom[2]), self._paced, self._acceleration, self._holonomic
        )
        return Path(points, "odom", max_speed=self._paced, max_acceleration=self._acceleration)


def warm_up() -> None:
    """Plan a way for nothing, so that all that takes is compiled, or loaded from the cache."""
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
    """Return the waypoints of a way, each passed as fast as its corner allows.

    Args:
        way: rows of x, y, the robot's own place first.
        yaw: at its end.
        speed: on straight parts, m/s.
        acceleration: m/s².
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
            # In the direction between both legs, and no faster than the shorter of them allows.
            pace = min(speed * math.cos(turn) ** 2, math.sqrt(acceleration * shortest) / 2)
            velocity = (pace * math.cos(heading + turn / 2), pace * math.sin(heading + turn / 2), 0.0)
        made.append(Waypoint((float(way[k + 1, 0]), float(way[k + 1, 1]), heading), velocity))
    made.append(Waypoint((float(way[-1, 0]), float(way[-1, 1]), yaw)))
    return tuple(made)


def length_of(way: FloatArray) -> float:
    """Return how long a way is."""
    steps = np.diff(way, axis=0)
    return float(np.hypot(steps[:, 0], steps[:, 1]).sum())


def _apart(one: FloatArray, other: FloatArray) -> float:
    """Return how far two poses are apart, a radian counting as half a metre."""
    return math.hypot(*(one[:2] - other[:2])) + 0.5 * abs(float(wrap(one[2] - other[2])))


def _into(frame: FloatArray, points: FloatArray) -> FloatArray:
    """Return points of `odom` in a frame whose pose in `odom` is given."""
    return _out_of(invert(frame), points)


def _out_of(frame: FloatArray, points: FloatArray) -> FloatArray:
    """Return points of a frame in the frame that has its pose."""
    x, y, yaw = frame
    c, s = math.cos(yaw), math.sin(yaw)
    turned: FloatArray = points @ np.array([[c, s], [-s, c]]) + np.array([x, y])
    return turned
