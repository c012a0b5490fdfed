"""Path playback: set-points that never exceed a limit (DOTS paper, III-A7, Figure 9).

A path is a list of waypoints with positions and velocities. `PathPlayer` plans from one waypoint to the
next with Ruckig (jerk-limited, time-optimal, synchronised axes) and returns the set-point of every cycle.
Paths can be replaced and cancelled in motion. Planning then starts from the state of the set-point, so that
neither velocity nor acceleration jumps.

Ruckig limits each axis separately, but a robot's speed, acceleration and jerk are magnitudes in the plane.
So each segment is planned in a `Box`: a rectangle of velocities inscribed in the circle of the limit and
rotated to suit the motion, with similar rectangles for acceleration and jerk. Whatever stays in the rectangle
stays in the circle. A rectangle whose corners lie on two given directions allows full speed along both, and
any two velocities within the circle fit in some rectangle. The boxes considered hold the current state, its
headroom (the velocity at which the acceleration can be zero again) and the velocity at the waypoint; the one
with the shortest segment is chosen. The state is always inside the current box. If no new box holds it, the
robot first moves on within the current one to a velocity without acceleration that some new box holds.

A differential robot cannot move sideways. It turns to face the waypoint, drives straight, and, at the last
waypoint, turns to its yaw; it stops in between. The yaw of the other waypoints is ignored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from ruckig import ControlInterface, InputParameter, Result, Ruckig, RuckigError, Synchronization, Trajectory

from swarmbed_core.errors import PathError
from swarmbed_core.geometry import TAU, wrap, wrap_all
from swarmbed_core.health import Health

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Limits

    Vector = tuple[float, float, float]

Frame = Literal["odom", "base_link", "map"]
FRAMES = ("odom", "base_link", "map")

MAX_WAYPOINTS = 1000
MAX_LEG = 1e4
"""Longest distance between two waypoints, in metres; a larger one is taken for a mistake."""

SOLVED = (Result.Working, Result.Finished)
# Smaller values (in m, m/s and so on) are rounding errors and count as zero.
TINY = 1e-10
# Share of the limit by which a state may exceed its box: rounding errors.
SLACK = 1e-9
# Width of the box for motion along a line, as a share of the limit.
THIN = 1e-5
# Least half side of a box, as a share of the limit: in a narrower box, turning takes too long.
NARROW = 0.02
# Step for integrating an arc, in seconds.
ARC_STEP = 0.01
# Nodes and weights of the three-point Gauss-Legendre rule on [0, 1].
GAUSS = ((0.5 - math.sqrt(0.15), 5 / 18), (0.5, 8 / 18), (0.5 + math.sqrt(0.15), 5 / 18))


@dataclass(frozen=True, slots=True)
class Waypoint:
    """A pose to pass and the velocity there, both in the frame of the path.

    Attributes:
        pose: [(3,); m, m, rad; the path's] position x, y and yaw.
        velocity: [(3,); m/s, m/s, rad/s; the path's] velocity vx, vy and rate of turn.
    """

    pose: Vector
    velocity: Vector = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        """Validate pose and velocity.

        Raises:
            PathError: one of them is not three finite numbers.
        """
        object.__setattr__(self, "pose", _three(self.pose, "pose of a waypoint"))
        object.__setattr__(self, "velocity", _three(self.velocity, "velocity of a waypoint"))


@dataclass(frozen=True, slots=True)
class Path:
    """Up to 1000 waypoints, in the order in which to pass them.

    Attributes:
        waypoints: at least one.
        frame: frame of the poses and velocities: `odom`, `base_link` (where the robot is now) or `map`.
        max_speed: [m/s] speed limit of this path; the robot's own limit, if None.
        max_acceleration: [m/s²] limit of acceleration and braking; the robot's usual one, if None.
    """

    waypoints: tuple[Waypoint, ...]
    frame: Frame = "odom"
    max_speed: float | None = None
    max_acceleration: float | None = None
    table: FloatArray = field(init=False, repr=False, compare=False)
    """The waypoints as rows of pose and velocity."""

    def __post_init__(self) -> None:
        """Validate the path.

        Raises:
            PathError: there are no waypoints or too many, or a value is invalid.
        """
        waypoints = tuple(self.waypoints)
        object.__setattr__(self, "waypoints", waypoints)
        if not 1 <= len(waypoints) <= MAX_WAYPOINTS:
            message = f"a path of {len(waypoints)} waypoints: from 1 to {MAX_WAYPOINTS} can be followed"
            raise PathError(message)
        for index, waypoint in enumerate(waypoints):
            if not isinstance(waypoint, Waypoint):
                message = f"waypoint {index} is {waypoint!r}: expected a Waypoint"
                raise PathError(message)
        if self.frame not in FRAMES:
            message = f"a path in frame {self.frame!r}: expected one of {', '.join(FRAMES)}"
            raise PathError(message)
        for name in ("max_speed", "max_acceleration"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
                message = f"{name} of a path is {value!r}: expected a finite number above 0, or none"
                raise PathError(message)
        table = np.array([(*waypoint.pose, *waypoint.velocity) for waypoint in waypoints])
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    def in_odom(self, pose_odom_frame: ArrayLike) -> Path:
        """Return the same path in odom.

        Args:
            pose_odom_frame: pose of this path's frame (base_link or map) in odom.

        Raises:
            PathError: that pose is not three finite numbers.
        """
        origin = _three(pose_odom_frame, f"pose of {self.frame} in odom")
        c, s = math.cos(origin[2]), math.sin(origin[2])
        x, y, yaw, vx, vy, omega = self.table.T
        turned = math.pi - np.mod(math.pi - origin[2] - yaw, TAU)
        poses = np.stack([origin[0] + c * x - s * y, origin[1] + s * x + c * y, turned], axis=1)
        velocities = np.stack([c * vx - s * vy, s * vx + c * vy, omega], axis=1)
        moved = map(Waypoint, poses.tolist(), velocities.tolist())
        return Path(tuple(moved), "odom", self.max_speed, self.max_acceleration)


class Setpoint(NamedTuple):
    """Desired pose, velocity and acceleration of the robot, in odom.

    The yaw is unwrapped: it passes pi without a jump, and grows with every turn.
    """

    pose: Vector
    velocity: Vector = (0.0, 0.0, 0.0)
    acceleration: Vector = (0.0, 0.0, 0.0)


class PlayerState(Enum):
    """State of a path player."""

    IDLE = "idle"
    FOLLOWING = "following"
    BRAKING = "braking"


class Box(NamedTuple):
    """A rectangle in the velocity plane, and parallel ones for acceleration and jerk.

    `c` and `s` are the cosine and sine of the angle of its first side in odom; the other fields are half
    the lengths of the sides.
    """

    c: float
    s: float
    velocity: tuple[float, float]
    acceleration: tuple[float, float]
    jerk: tuple[float, float]


class _Top(NamedTuple):
    """The active limits: magnitudes in the plane."""

    speed: float
    acceleration: float


class _Segment(NamedTuple):
    """One planned stretch of motion, and its final state."""

    trajectory: Trajectory
    duration: float
    origin: Vector
    box: Box
    top: _Top
    end: Setpoint
    arrives: bool = True
    """Whether it ends at the waypoint."""
    arc: bool = False
    """Whether the first axis follows the turning heading instead of the box's first side."""


class PathPlayer:
    """Turns paths into set-points, one for every cycle.

    For holonomic robots, `limits` are magnitudes in the plane. For others, they apply along the heading.
    """

    __slots__ = (
        "_arc_pose", "_arc_time", "_count", "_health", "_holonomic", "_later", "_limits", "_path",
        "_position", "_ruckig", "_segment", "_setpoint", "_state", "_t", "_top", "_velocity", "_waypoint",
    )  # fmt: skip

    def __init__(self, limits: Limits, *, holonomic: bool, health: Health | None = None) -> None:
        """Start idle at the origin.

        Args:
            limits: limits of the robot.
            holonomic: whether the robot can move sideways.
            health: counters for faults while a path is played; a new one if None.
        """
        self._limits = limits
        self._holonomic = holonomic
        self._health = Health() if health is None else health
        self._ruckig = Ruckig(3)
        self._position = InputParameter(3)
        self._velocity = InputParameter(3)
        self._velocity.control_interface = ControlInterface.Velocity
        # No synchronisation: each axis may come to rest as early as it can.
        self._velocity.synchronization = Synchronization.No
        self._waypoint = self._count = 0
        self._path: Path | None = None
        self._segment: _Segment | None = None
        self._later: FloatArray | None = None
        self._setpoint = Setpoint((0.0, 0.0, 0.0))
        self._state = PlayerState.IDLE
        self._t = self._arc_time = 0.0
        self._arc_pose: Vector = (0.0, 0.0, 0.0)

    @property
    def limits(self) -> Limits:
        """Return the limits of the robot."""
        return self._limits

    @property
    def holonomic(self) -> bool:
        """Return whether the robot can move sideways."""
        return self._holonomic

    @property
    def state(self) -> PlayerState:
        """Return the state of the player."""
        return self._state

    @property
    def active(self) -> bool:
        """Return whether the set-point moves."""
        return self._state is not PlayerState.IDLE

    @property
    def setpoint(self) -> Setpoint:
        """Return the set-point of the latest `advance`."""
        return self._setpoint

    @property
    def path(self) -> Path | None:
        """Return the path that is being followed, None if there is none."""
        return self._path

    @property
    def waypoint(self) -> int:
        """Return the index of the next waypoint; after the last one, the number of waypoints."""
        return self._waypoint

    @property
    def progress(self) -> float:
        """Return the completed share of the latest path, from 0 to 1, counted in waypoints."""
        part = 0.0
        if self._path is not None and self._segment is not None and self._segment.arrives:
            part = self._t / max(self._segment.duration, TINY)
        return min((self._waypoint + part) / max(self._count, 1), 1.0)

    @property
    def time_remaining(self) -> float:
        """Return the seconds to the end: exact for the current segment, estimated for later ones."""
        if self._segment is None:
            return 0.0
        left = max(self._segment.duration - self._t, 0.0)
        if self._path is None:
            return left
        if self._count == 1:
            return left
        if self._later is None:
            self._later = self._estimate(self._path)
        return left + float(self._later[min(self._waypoint, len(self._later) - 1)])

    def reset(self, pose_odom: ArrayLike) -> None:
        """Drop the path and rest at a pose.

        Raises:
            PathError: it is not three finite numbers.
        """
        self._top = _Top(self._limits.speed, self._limits.acceleration)
        self.stop_hard(pose_odom)

    def stop_hard(self, pose_odom: ArrayLike | None = None) -> None:
        """Rest at once, without braking: for robots whose motors are off, or that were moved.

        Args:
            pose_odom: pose to rest at; that of the current set-point if None.

        Raises:
            PathError: it is not three finite numbers.
        """
        self._rest(self._setpoint.pose if pose_odom is None else _three(pose_odom, "pose to stand at"))

    def start_moving(self, pose_odom: ArrayLike, velocity_odom: ArrayLike) -> None:
        """Take over a moving robot: brake from its state, until the next call such as `follow`.

        Velocities above the robot's limits are clipped, and sideways velocity of a differential robot is
        dropped.

        Raises:
            PathError: pose or velocity is not three finite numbers.
        """
        pose = _three(pose_odom, "pose of a moving robot")
        vx, vy, omega = _three(velocity_odom, "velocity of a moving robot")
        if not self._holonomic:
            c, s = math.cos(pose[2]), math.sin(pose[2])
            along = c * vx + s * vy
            vx, vy = c * along, s * along
        top = _Top(self._limits.speed, self._limits.acceleration)
        scale = min(1.0, top.speed / max(math.hypot(vx, vy), TINY))
        omega = min(max(omega, -self._limits.yaw_rate), self._limits.yaw_rate)
        state = Setpoint(pose, (vx * scale, vy * scale, omega))
        self._top = top
        self._brake(state, None)

    def follow(self, path_odom: Path, start_pose: ArrayLike) -> None:
        """Follow a path from now on; it replaces the current motion.

        If the player is idle, the path starts at rest from `start_pose`; else from the moving set-point.
        If the path is refused, nothing changes.

        Raises:
            PathError: the robot cannot follow this path, at all or from its current state.
        """
        start = (
            Setpoint(_three(start_pose, "pose to start from")) if self._segment is None else self._setpoint
        )
        top = self._check(path_odom, start)
        if self._holonomic or self._segment is None:
            segment = self._plan(start, path_odom, 0, top, self._segment)
        else:
            # A differential robot stops before it turns to a new path.
            segment = self._segment if self._segment.arc else self._to_rest(start, self._segment, self._top)
            segment = None if segment is None else segment._replace(arrives=False)
        if segment is None:
            message = f"no trajectory found from {start} to {path_odom.waypoints[0]} within the limits"
            raise PathError(message)
        self._path, self._top, self._later = path_odom, top, None
        self._waypoint, self._count = 0, len(path_odom.waypoints)
        self._state = PlayerState.FOLLOWING
        if self._segment is not None and segment.trajectory is self._segment.trajectory:
            self._segment = segment
        else:
            self._begin(segment, start)

    def cancel(self) -> None:
        """Brake to rest at the robot's limit of deceleration, or the path's if that is higher."""
        if self._state is PlayerState.FOLLOWING:
            self._brake(self._setpoint, self._segment)

    def advance(self, dt: float) -> Setpoint:
        """Return the set-point `dt` seconds later.

        A `dt` that is negative or not finite is refused, counted as `trajectory.bad_step` and taken as 0.
        """
        if not 0.0 <= dt < math.inf:
            self._health.refuse("trajectory.bad_step", f"a step of {dt} s: expected a finite number >= 0")
            return self._setpoint
        segment = self._segment
        if segment is None:
            return self._setpoint
        self._t += dt
        while self._t >= segment.duration:
            left = self._t - segment.duration
            self._next(segment)
            segment = self._segment
            if segment is None:
                return self._setpoint
            self._t = left
        self._setpoint = self._at_arc(segment, self._t) if segment.arc else _at(segment, self._t)
        return self._setpoint

    def _next(self, segment: _Segment) -> None:
        """Switch from the end of a segment to the next one, or to rest."""
        end = segment.end
        if segment.arc:
            self._at_arc(segment, segment.duration)
            x, y, _ = self._arc_pose
            end = Setpoint((x, y, end.pose[2]))
        path = self._path
        if path is None:
            self._rest(end.pose)
            return
        if segment.arrives:
            self._waypoint += 1
            while self._waypoint < self._count and _same(end, path.table[self._waypoint].tolist()):
                self._waypoint += 1
        if self._waypoint < self._count:
            following = self._plan(end, path, self._waypoint, self._top, segment)
            if following is None:
                reason = f"no trajectory found from {end} to waypoint {self._waypoint}: braking"
                self._health.refuse("trajectory.no_way", reason)
                self._brake(end, segment)
            else:
                self._begin(following, end)
        elif end.velocity == (0.0, 0.0, 0.0):
            self._rest(end.pose)
        else:
            self._brake(end, segment)

    def _begin(self, segment: _Segment, start: Setpoint) -> None:
        self._segment = segment
        self._setpoint = start
        self._t = 0.0
        if segment.arc:
            self._arc_time = 0.0
            self._arc_pose = start.pose

    def _rest(self, pose: Vector) -> None:
        self._path = self._segment = self._later = None
        self._state = PlayerState.IDLE
        self._setpoint = Setpoint(pose)
        self._t = 0.0

    def _brake(self, start: Setpoint, old: _Segment | None) -> None:
        """Brake from a state to rest."""
        # The limits of a gentle path must not weaken the braking.
        top = _Top(self._limits.speed, max(self._top.acceleration, self._limits.acceleration))
        segment = old if old is not None and old.arc else self._to_rest(start, old, top)
        self._path = self._later = None
        self._state = PlayerState.BRAKING
        if segment is None:
            self._health.refuse("trajectory.no_way", f"no trajectory from {start} to rest: stopped hard")
            self._rest(start.pose)
        elif segment is not old:
            self._begin(segment, start)

    # Checks and estimates

    def _check(self, path: Path, start: Setpoint) -> _Top:
        """Return the limits of a path.

        Raises:
            PathError: the robot cannot follow it.
        """
        limits = self._limits
        if path.frame != "odom":
            message = f"a path in {path.frame}: convert it with in_odom() first"
            raise PathError(message)
        speed = limits.speed if path.max_speed is None else min(path.max_speed, limits.speed)
        acceleration = limits.acceleration if path.max_acceleration is None else path.max_acceleration
        if acceleration > limits.acceleration_available:
            message = (
                f"max_acceleration {acceleration} m/s2 of a path: "
                f"at most {limits.acceleration_available} m/s2 for this robot"
            )
            raise PathError(message)
        table = path.table
        fastest: FloatArray = np.hypot(table[:, 3], table[:, 4])
        turning: FloatArray = np.abs(table[:, 5])
        for values, limit, unit in ((fastest, speed, "m/s"), (turning, limits.yaw_rate, "rad/s")):
            index = int(np.argmax(values))
            # Rotating a velocity from another frame may have lengthened it by a rounding error.
            if values[index] > limit * (1 + SLACK):
                message = f"waypoint {index} asks for {values[index]:.6g} {unit}: the limit is {limit} {unit}"
                raise PathError(message)
            if values[index] > 0 and not self._holonomic:
                message = f"waypoint {index} has a velocity: a differential robot stops at every waypoint"
                raise PathError(message)
        legs = _legs(table, start.pose)
        index = int(np.argmax(legs))
        if not legs[index] <= MAX_LEG:
            message = (
                f"waypoint {index} is {legs[index]:.6g} m from the point before it: at most {MAX_LEG:g} m"
            )
            raise PathError(message)
        return _Top(speed, acceleration)

    def _estimate(self, path: Path) -> FloatArray:
        """Return the approximate time from each waypoint to the end of the path."""
        table = path.table
        turns = np.abs(wrap_all(np.diff(table[:, 2])))
        resting = np.where(np.hypot(table[:, 3], table[:, 4]) > 0, 0.0, 1.0)
        ends = (resting[1:] + resting[:-1]) / 2
        legs = _legs(table, path.waypoints[0].pose)[1:]
        limits = self._limits
        ways = _ways(legs, ends, self._top.speed, self._top.acceleration, limits.jerk)
        yaws = _ways(turns, 1.0, limits.yaw_rate, limits.yaw_acceleration, limits.yaw_jerk)
        times = np.maximum(ways, yaws) if self._holonomic else ways + yaws
        return np.append(np.cumsum(times[::-1])[::-1], 0.0)

    # Plans

    def _plan(
        self, start: Setpoint, path: Path, index: int, top: _Top, old: _Segment | None
    ) -> _Segment | None:
        """Return the next segment towards a waypoint, or None if Ruckig finds none."""
        x, y, yaw, vx, vy, omega = path.table[index].tolist()
        heading = start.pose[2]
        if self._holonomic:
            goal = Setpoint((x, y, heading + wrap(yaw - heading)), (vx, vy, omega))
            return self._to_goal(start, goal, top, old)
        dx, dy = x - start.pose[0], y - start.pose[1]
        if math.hypot(dx, dy) > TINY:
            turn = wrap(math.atan2(dy, dx) - heading)
            if abs(turn) > TINY:
                goal = Setpoint((start.pose[0], start.pose[1], heading + turn))
                segment = self._to_goal(start, goal, top, None)
                return None if segment is None else segment._replace(arrives=False)
            last = index == len(path.waypoints) - 1
            segment = self._to_goal(start, Setpoint((x, y, heading)), top, None)
            return None if segment is None else segment._replace(arrives=not last)
        turn = wrap(yaw - heading) if index == len(path.waypoints) - 1 else 0.0
        return self._to_goal(start, Setpoint((x, y, heading + turn)), top, None)

    def _to_goal(self, start: Setpoint, goal: Setpoint, top: _Top, old: _Segment | None) -> _Segment | None:
        """Return the fastest segment to a goal, or to a velocity from which the goal can be reached."""
        best = self._direct(start, goal, top, old)
        if best is not None and not self._slow(best, start, goal, top):
            return best
        # Try slowing down, or removing the acceleration, within the old box first.
        bridge = None
        shortest = math.inf if best is None else best.duration
        for share in (1.0, 0.75, 0.5, 0.25, 0.0):
            first = self._bridge(start, share, top, old)
            if first is None or first.duration < TINY:
                continue
            then = self._direct(first.end, goal, top, None)
            if then is not None and first.duration + then.duration < shortest:
                bridge, shortest = first, first.duration + then.duration
        return best if bridge is None else bridge

    def _slow(self, segment: _Segment, start: Setpoint, goal: Setpoint, top: _Top) -> bool:
        """Return whether a segment is so slow that braking first might be faster."""
        speed = math.hypot(*start.velocity[:2])
        ramp = top.speed / top.acceleration + top.acceleration / self._limits.jerk
        way = math.dist(start.pose[:2], goal.pose[:2]) + speed * ramp
        yaw = segment.trajectory.independent_min_durations[2]
        return speed > TINY and segment.duration > max(1.01 * yaw, way / top.speed + 2 * ramp)

    def _direct(self, start: Setpoint, goal: Setpoint, top: _Top, old: _Segment | None) -> _Segment | None:
        """Return the fastest segment to a goal within one box."""
        way = (goal.pose[0] - start.pose[0], goal.pose[1] - start.pose[1])
        jerk = self._limits.jerk
        line = _line(way, start.velocity, start.acceleration, goal.velocity)
        if line is not None:
            box = _rail(line, top, jerk, start, goal.velocity)
            segment = None if box is None else self._solve(start, goal, box, top, line=True)
            if segment is not None:
                return segment
        best = None
        for theta, half in _frames(way, _headroom(start, jerk), goal.velocity):
            box = _box(theta, half, top, jerk, start, goal.velocity)
            if box is not None:
                best = _faster(best, self._solve(start, goal, box, top))
        if old is not None and old.top == top and not old.arc and _holds(old.box, goal.velocity):
            best = _faster(best, self._solve(start, goal, old.box, top))
        return best

    def _to_rest(self, start: Setpoint, old: _Segment | None, top: _Top) -> _Segment | None:
        """Return the fastest segment that ends at rest, at any position."""
        rest = (0.0, 0.0, 0.0)
        if not self._holonomic and abs(start.velocity[2]) + abs(start.acceleration[2]) > TINY:
            return self._arc_to_rest(start, top)
        jerk = self._limits.jerk
        line = _line(start.velocity, start.acceleration)
        if line is not None:
            box = _rail(line, top, jerk, start, rest)
            segment = None if box is None else self._solve(start, rest, box, top, line=True)
            if segment is not None:
                return segment
        best = None
        for theta, half in _frames(start.acceleration, _headroom(start, jerk), start.velocity):
            box = _box(theta, half, top, jerk, start, rest)
            if box is not None:
                best = _faster(best, self._solve(start, rest, box, top))
        if best is None and old is not None:
            best = self._solve(start, rest, old.box, old.top)
        return best

    def _bridge(self, start: Setpoint, share: float, top: _Top, old: _Segment | None) -> _Segment | None:
        """Return a segment in the old box to a share of the current velocity, without acceleration."""
        if old is None or old.arc:
            return None
        box, limits = old.box, self._limits
        v1, v2 = _into(box, start.velocity)
        a1, a2 = _into(box, start.acceleration)
        h1 = share * (v1 + a1 * abs(a1) / (2 * box.jerk[0]))
        h2 = share * (v2 + a2 * abs(a2) / (2 * box.jerk[1]))
        if math.hypot(h1, h2) > top.speed:
            return None
        omega, alpha = start.velocity[2], start.acceleration[2]
        coast = omega + alpha * abs(alpha) / (2 * limits.yaw_jerk)
        coast = min(max(coast, -limits.yaw_rate), limits.yaw_rate)
        velocity = (box.c * h1 - box.s * h2, box.s * h1 + box.c * h2, coast)
        segment = self._solve(start, velocity, box, old.top)
        return None if segment is None else segment._replace(arrives=False)

    def _arc_to_rest(self, start: Setpoint, top: _Top) -> _Segment | None:
        """Return the segment to rest of a differential robot that drives and turns at once."""
        c, s = math.cos(start.pose[2]), math.sin(start.pose[2])
        along = c * start.velocity[0] + s * start.velocity[1]
        box = Box(1.0, 0.0, (top.speed, top.speed), (top.acceleration,) * 2, (self._limits.jerk,) * 2)
        straight = Setpoint(start.pose, (along, 0.0, start.velocity[2]), (0.0, 0.0, start.acceleration[2]))
        segment = self._solve(straight, (0.0, 0.0, 0.0), box, top)
        return None if segment is None else segment._replace(arc=True)

    def _solve(
        self, start: Setpoint, goal: Setpoint | Vector, box: Box, top: _Top, *, line: bool = False
    ) -> _Segment | None:
        """Plan within a box with Ruckig; return None if it finds no trajectory.

        Args:
            start: the initial state.
            goal: the state to reach, at rest or not, or a velocity to reach at any position.
            box: the limits in the plane.
            top: the limits that the box was made for.
            line: whether the motion is along the box's first side, except for rounding errors.
        """
        limits = self._limits
        v1, v2 = _into(box, start.velocity)
        a1, a2 = _into(box, start.acceleration)
        problem = self._position if isinstance(goal, Setpoint) else self._velocity
        if line:
            v2 = a2 = 0.0
        problem.current_velocity = [v1, v2, start.velocity[2]]
        problem.current_acceleration = [a1, a2, start.acceleration[2]]
        if isinstance(goal, Setpoint):
            p1, p2 = _into(box, (goal.pose[0] - start.pose[0], goal.pose[1] - start.pose[1]))
            g1, g2 = _into(box, goal.velocity)
            if line:
                p2 = g2 = 0.0
            problem.target_position = [p1, p2, goal.pose[2] - start.pose[2]]
            problem.target_velocity = [g1, g2, goal.velocity[2]]
        else:
            g1, g2 = _into(box, goal)
            problem.target_velocity = [g1, 0.0 if line else g2, goal[2]]
        problem.max_velocity = [*box.velocity, limits.yaw_rate * (1 + SLACK)]
        problem.max_acceleration = [*box.acceleration, limits.yaw_acceleration]
        problem.max_jerk = [*box.jerk, limits.yaw_jerk]
        trajectory = Trajectory(3)
        try:
            result = self._ruckig.calculate(problem, trajectory)
        except (RuckigError, ValueError):
            # ValueError: a result unknown to the Python binding, such as too long a duration.
            return None
        duration = trajectory.duration
        if result not in SOLVED or not duration < math.inf:
            return None
        segment = _Segment(trajectory, duration, start.pose, box, top, start)
        if isinstance(goal, Setpoint):
            end = Setpoint(goal.pose, goal.velocity)
        else:
            # The final velocity is known exactly; only the position is taken from the trajectory.
            end = Setpoint(_at(segment, duration).pose, goal)
        return segment._replace(end=end)

    def _at_arc(self, segment: _Segment, t: float) -> Setpoint:
        """Return the set-point at a time of an arc: the robot drives along its turning heading."""
        at_time = segment.trajectory.at_time
        x, y, _ = self._arc_pose
        time = self._arc_time
        yaw = segment.origin[2]
        while time < t:
            step = min(ARC_STEP, t - time)
            for node, weight in GAUSS:
                position, velocity, _ = at_time(time + node * step)
                x += weight * step * velocity[0] * math.cos(yaw + position[2])
                y += weight * step * velocity[0] * math.sin(yaw + position[2])
            time = t if step < ARC_STEP else time + step
        position, velocity, acceleration = at_time(t)
        yaw += position[2]
        self._arc_time, self._arc_pose = t, (x, y, yaw)
        c, s = math.cos(yaw), math.sin(yaw)
        v, omega, a = velocity[0], velocity[2], acceleration[0]
        across = v * omega
        return Setpoint(
            (x, y, yaw), (c * v, s * v, omega), (c * a - s * across, s * a + c * across, acceleration[2])
        )


def _three(values: ArrayLike, what: str) -> Vector:
    """Convert to three finite floats.

    Raises:
        PathError: the values are not three finite numbers.
    """
    try:
        x, y, z = np.asarray(values, dtype=np.float64).tolist()
    except (TypeError, ValueError, OverflowError):
        message = f"{what} is {values!r}: expected three numbers"
        raise PathError(message) from None
    if not math.isfinite(x + y + z) and not all(map(math.isfinite, (x, y, z))):
        message = f"{what} is {(x, y, z)}: expected finite numbers"
        raise PathError(message)
    return x, y, z


def _same(state: Setpoint, row: Sequence[float]) -> bool:
    """Return whether a waypoint (a row of pose and velocity) equals a state."""
    x, y, yaw = state.pose
    there = abs(row[0] - x) < TINY and abs(row[1] - y) < TINY and abs(wrap(row[2] - yaw)) < TINY
    return there and state.velocity == tuple(row[3:])


def _legs(table: FloatArray, start: Vector) -> FloatArray:
    """Return the distance of each waypoint from the previous one, and of the first from the start."""
    with np.errstate(over="ignore"):
        dx = np.diff(table[:, 0], prepend=start[0])
        dy = np.diff(table[:, 1], prepend=start[1])
        return np.hypot(dx, dy)


def _ways(
    way: FloatArray, ends: FloatArray | float, speed: float, acceleration: float, jerk: float
) -> FloatArray:
    """Return the approximate duration of moves; `ends` (0 to 1) is the share of their ends at rest."""
    ramp = acceleration / jerk
    far = way / speed + ends * (speed / acceleration + ramp)
    near = 2 * np.sqrt(way / acceleration) + ramp
    return np.where(way > 0, np.where(way * acceleration < speed**2, np.minimum(near, far), far), 0.0)


def _into(box: Box, vector: Sequence[float]) -> tuple[float, float]:
    """Return a vector's components along the box's sides."""
    x, y = vector[0], vector[1]
    return box.c * x + box.s * y, box.c * y - box.s * x


def _at(segment: _Segment, t: float) -> Setpoint:
    """Return the set-point at a time of a segment."""
    (p1, p2, p3), (v1, v2, v3), (a1, a2, a3) = segment.trajectory.at_time(t)
    c, s = segment.box[0], segment.box[1]
    x, y, yaw = segment.origin
    return Setpoint(
        (x + c * p1 - s * p2, y + s * p1 + c * p2, yaw + p3),
        (c * v1 - s * v2, s * v1 + c * v2, v3),
        (c * a1 - s * a2, s * a1 + c * a2, a3),
    )


def _faster(one: _Segment | None, other: _Segment | None) -> _Segment | None:
    if one is None or other is None:
        return one or other
    return other if other.duration < one.duration else one


def _headroom(state: Setpoint, jerk: float) -> tuple[float, float]:
    """Return the velocity at which the acceleration of a state can be zero again."""
    ax, ay = state.acceleration[:2]
    time = math.hypot(ax, ay) / (2 * jerk)
    return state.velocity[0] + ax * time, state.velocity[1] + ay * time


def _line(*vectors: Sequence[float]) -> float | None:
    """Return the angle of the line through the origin that holds all vectors, or None if there is none."""
    x, y = max(((vector[0], vector[1]) for vector in vectors), key=lambda v: math.hypot(*v))
    length = math.hypot(x, y)
    if length < TINY:
        return 0.0
    c, s = x / length, y / length
    if any(abs(c * vector[1] - s * vector[0]) > TINY for vector in vectors):
        return None
    return math.atan2(s, c)


def _frames(*vectors: Sequence[float]) -> Iterable[tuple[float, float]]:
    """Return candidate boxes: angle of the first side, and half the angle between the diagonals.

    Their corners lie on two of the vectors' directions, or on one of them and perpendicular to it.
    """
    angles = [
        math.atan2(vector[1], vector[0]) for vector in vectors if math.hypot(vector[0], vector[1]) > TINY
    ]
    frames = [(angle + math.pi / 4, math.pi / 4) for angle in angles]
    for i, one in enumerate(angles):
        for other in angles[:i]:
            half = ((other - one) % math.pi) / 2
            if min(math.sin(half), math.cos(half)) > NARROW:
                frames.append((one + half, half))
    return frames or [(0.0, math.pi / 4)]


def _box(
    theta: float, half: float, top: _Top, jerk: float, state: Setpoint, velocity: Sequence[float]
) -> Box | None:
    """Return the box closest to the wanted one that holds a state and another velocity, if there is one.

    Args:
        theta: the angle of the first side.
        half: the wanted angle between the first side and a diagonal.
        top: the limits of speed and acceleration.
        jerk: the limit of jerk.
        state: the initial state; its headroom must fit in too.
        velocity: the final velocity.
    """
    c, s = math.cos(theta), math.sin(theta)
    turned = Box(c, s, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    a1, a2 = _into(turned, state.acceleration)
    acceleration = _rectangle(top.acceleration, half, abs(a1), abs(a2))
    if acceleration is None:
        return None
    scale = jerk / top.acceleration
    j1, j2 = acceleration[0] * scale, acceleration[1] * scale
    v1, v2 = _into(turned, state.velocity)
    g1, g2 = _into(turned, velocity)
    n1 = max(abs(v1), abs(g1), abs(v1 + a1 * abs(a1) / (2 * j1)))
    n2 = max(abs(v2), abs(g2), abs(v2 + a2 * abs(a2) / (2 * j2)))
    speed = _rectangle(top.speed, half, n1, n2)
    return None if speed is None else Box(c, s, speed, acceleration, (j1, j2))


def _rail(theta: float, top: _Top, jerk: float, state: Setpoint, velocity: Sequence[float]) -> Box | None:
    """Return a very narrow box for motion along a line, if the limits allow that motion."""
    c, s = math.cos(theta), math.sin(theta)
    v = c * state.velocity[0] + s * state.velocity[1]
    a = c * state.acceleration[0] + s * state.acceleration[1]
    speed = max(abs(v), abs(v + a * abs(a) / (2 * jerk)), abs(c * velocity[0] + s * velocity[1]), top.speed)
    acceleration = max(abs(a), top.acceleration)
    if speed > top.speed * (1 + SLACK) or acceleration > top.acceleration * (1 + SLACK):
        return None
    return Box(c, s, (speed, THIN * speed), (acceleration, THIN * acceleration), (jerk, THIN * jerk))


def _rectangle(radius: float, half: float, need1: float, need2: float) -> tuple[float, float] | None:
    """Return the half sides of a rectangle in a circle that holds the needed point, if there is one."""
    if math.hypot(need1, need2) > radius * (1 + SLACK):
        return None
    one, two = radius * math.cos(half), radius * math.sin(half)
    if need1 > one:
        one, two = need1, math.sqrt(max(radius**2 - need1**2, 0.0))
    elif need2 > two:
        one, two = math.sqrt(max(radius**2 - need2**2, 0.0)), need2
    one, two = max(one, need1), max(two, need2)
    return None if min(one, two) < NARROW * radius else (one, two)


def _holds(box: Box, velocity: Sequence[float]) -> bool:
    """Return whether a velocity is in the box."""
    v1, v2 = _into(box, velocity)
    return abs(v1) <= box.velocity[0] and abs(v2) <= box.velocity[1]
