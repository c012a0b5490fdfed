"""Led bodies: robots that are where an outsider says they are, a tracker or another simulator.

A *telling* is the pose and the velocity of one robot, and the time at which they were true. `Led` keeps the
newest valid telling of each led robot; it rejects and counts the others. From the told pose a robot moves on
with its told velocity until the next telling, for at most `patience` seconds. After that it is lost: it
stands until it is told again. The error that a new telling reveals is not corrected at once, but in one or
two tenths of a second: a tracker's noise shakes neither what a body pushes nor what it carries.

Walls and obstacles hold led bodies: a body that is told to be in a wall stays in front of it, which is
counted. Robots and carriers do not: the physics pushes them out of a led body's way. Two led bodies may
overlap if they are told to, because neither can be moved; their contact is reported like any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from swarmbed_core.geometry import wrap, wrap_all
from swarmbed_core.kernel import kernel
from swarmbed_core.spec import DiscBody

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scenario import TrackedBody
    from swarmbed_core.spec import RobotSpec

    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

FARTHEST: Final = 1000.0
"""Largest coordinate in metres that is accepted."""
AHEAD: Final = 0.05
"""Seconds, on top of one time step, that a stamp may be ahead of the world's time."""
SETTLE: Final = 0.05
"""Time constant in seconds with which a body corrects the errors of its place."""
SLACK: Final = 0.05
SLACK_TURN: Final = 0.2
"""Errors of a tracker, in metres and radians, that never count as a jump."""
ROUNDS: Final = 16
"""Most tellings of one robot that are read in one call, the last ones; the rest are rejected."""
AGAIN: Final = 0.5
"""Seconds after which a robot that could not appear at its place, because it was taken, tries again."""
SINK: Final = 1e-4
"""Metres by which a body that is told to be in a wall overlaps it, so that the contact is noticed."""
PRESS: Final = 4
"""Largest number of passes that push a body out of walls."""

NOT_FINITE, FAR, EARLY, OLD, REPEATED, FAST, JUMP, BLOCKED, FLOOD, SIMULATED, UNKNOWN, MALFORMED = (
    "told.not_finite", "told.far", "told.early", "told.old", "told.repeated", "told.fast", "told.jump",
    "told.blocked", "told.flood", "told.simulated", "told.unknown", "told.malformed",
)  # fmt: skip
REASONS: Final = (NOT_FINITE, FAR, EARLY, OLD, REPEATED, FAST, JUMP, BLOCKED, FLOOD)
"""Reasons that are counted for each led robot. All but `BLOCKED` reject the telling."""

TOLD: Final = 9
"""Numbers that a physics gets about each led robot; see `follow_k`."""
# Columns of `_limits`: seconds, m/s, rad/s, and the distance in metres that a body's centre keeps from walls.
PATIENCE, TOP_SPEED, TOP_TURN, ROOM = 0, 1, 2, 3
# Columns of `_marks`: whether a robot is lost; whether it has been told for the first time, or found, but is
# not there yet; whether it is to appear at its place; whether walls hold it; whether that was counted.
LOST, FRESH, APPEAR, HELD, NOTED = 0, 1, 2, 3, 4


class Telling(NamedTuple):
    """Where one robot was.

    Attributes:
        name: of the robot.
        stamp: [s] the world's time at which the rest was true.
        pose: x, y, yaw in `map`, in m and rad.
        twist: vx, vy in m/s along its body, omega in rad/s.
    """

    name: str
    stamp: float
    pose: tuple[float, float, float]
    twist: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Tellings:
    """Tellings of many robots as arrays, a row each; see `Telling`. Those of one robot are in order."""

    names: Sequence[str]
    stamps: FloatArray
    poses: FloatArray
    twists: FloatArray

    @classmethod
    def of(cls, tellings: Iterable[Telling]) -> Self:
        """Return tellings as arrays."""
        items = list(tellings)
        return cls(
            [item.name for item in items],
            np.array([item.stamp for item in items], dtype=np.float64),
            np.array([item.pose for item in items], dtype=np.float64).reshape(-1, 3),
            np.array([item.twist for item in items], dtype=np.float64).reshape(-1, 3),
        )

    def copy(self) -> Tellings:
        """Return tellings that nobody can change.

        Raises:
            ValueError: there is not one row of each array for each name.
        """
        return Tellings.unpacked(tuple(self.names), self.packed())

    def packed(self) -> bytes:
        """Return all numbers as bytes, from which `unpacked` makes the same ones again.

        Raises:
            ValueError: there is not one row of each array for each name.
        """
        rows = np.column_stack([self.stamps, self.poses, self.twists]).astype("<f8")
        if rows.shape != (len(self.names), 7):
            message = f"{len(self.names)} names with {rows.shape} numbers: expected 7 for each"
            raise ValueError(message)
        return rows.tobytes()

    @classmethod
    def unpacked(cls, names: Sequence[str], data: bytes) -> Self:
        """Return the tellings of robots from the bytes of `packed`.

        Raises:
            ValueError: the bytes are not those of so many robots.
        """
        rows = np.frombuffer(data, dtype="<f8").reshape(len(names), 7)
        return cls(names, rows[:, 0], rows[:, 1:4], rows[:, 4:])


@dataclass(frozen=True, slots=True, eq=False)
class LedState:
    """The state of all led bodies, a row each.

    Attributes:
        names: of the robots.
        ages: [s] since the stamp of the newest telling; infinite before the first.
        lost: which are lost.
        lost_for: [s] for which they have been lost; 0 for the others.
        losses: how often each has been lost.
        off: [m] from the body to the place where it is told to be: more than 0 if walls hold it, or if it is
            on its way.
        taken: how many tellings were accepted.
        refused: how often, for each reason and each robot; tellings of unknown robots, malformed ones, and
            those of robots that have left, have the name "". Reasons and robots without any are missing.
        latest: for each of these reasons the latest explanation.
    """

    names: tuple[str, ...]
    ages: FloatArray
    lost: BoolArray
    lost_for: FloatArray
    losses: IntArray
    off: FloatArray
    taken: IntArray
    refused: Mapping[str, Mapping[str, int]]
    latest: Mapping[str, str]


@kernel
def arc_k(x: float, y: float, yaw: float, twist: FloatArray, seconds: float) -> tuple[float, float, float]:
    """Return where a pose has moved to after some seconds at a constant velocity of its own frame."""
    turn = twist[2] * seconds
    half = 0.5 * turn
    chord = seconds * (math.sin(half) / half if abs(half) > 1e-6 else 1.0)
    c, s = math.cos(yaw + half), math.sin(yaw + half)
    return x + chord * (c * twist[0] - s * twist[1]), y + chord * (s * twist[0] + c * twist[1]), yaw + turn


@kernel
def press_k(
    from_x: float, from_y: float, x: float, y: float, room: float, segments: FloatArray, pillars: FloatArray
) -> tuple[float, float, bool]:
    """Return where a disc gets to that moves to (x, y) among walls, and whether they change its place.

    It is pushed out of what it overlaps, on the side that it came from. If that does not help, it stays.
    """
    held = False
    near = room - SINK
    for _ in range(PRESS):
        again = False
        left, right = min(x, from_x) - room, max(x, from_x) + room
        low, high = min(y, from_y) - room, max(y, from_y) + room
        for i in range(segments.shape[0]):
            x1, y1, x2, y2 = segments[i, 0], segments[i, 1], segments[i, 2], segments[i, 3]
            if max(x1, x2) < left or min(x1, x2) > right or max(y1, y2) < low or min(y1, y2) > high:
                continue
            along_x, along_y = x2 - x1, y2 - y1
            long2 = along_x * along_x + along_y * along_y
            was = along_x * (from_y - y1) - along_y * (from_x - x1)
            now = along_x * (y - y1) - along_y * (x - x1)
            if was * now < 0.0:
                part = was / (was - now)
                at_x, at_y = from_x + part * (x - from_x) - x1, from_y + part * (y - from_y) - y1
                place = at_x * along_x + at_y * along_y
                if 0.0 <= place <= long2:
                    # The centre has crossed it: back to the other side.
                    long = math.sqrt(long2)
                    away = (near + abs(now) / long) * (1.0 if was > 0.0 else -1.0)
                    x, y = x - away * along_y / long, y + away * along_x / long
                    again = True
                    continue
            share = min(max(((x - x1) * along_x + (y - y1) * along_y) / long2, 0.0), 1.0)
            off_x, off_y = x - x1 - share * along_x, y - y1 - share * along_y
            distance = math.hypot(off_x, off_y)
            if distance < near - 1e-9:
                if distance == 0.0:
                    return from_x, from_y, True
                x, y = x + off_x * (near / distance - 1.0), y + off_y * (near / distance - 1.0)
                again = True
        for i in range(pillars.shape[0]):
            off_x, off_y = x - pillars[i, 0], y - pillars[i, 1]
            distance, keep = math.hypot(off_x, off_y), pillars[i, 2] + near
            if distance < keep - 1e-9:
                if distance == 0.0:
                    return from_x, from_y, True
                x, y = x + off_x * (keep / distance - 1.0), y + off_y * (keep / distance - 1.0)
                again = True
        if not again:
            return x, y, held
        held = True
    return from_x, from_y, True


@kernel
def follow_k(
    now: float,
    dt: float,
    rows: IntArray,
    stamps: FloatArray,
    places: FloatArray,
    twists: FloatArray,
    limits: FloatArray,
    again: FloatArray,
    poses: FloatArray,
    segments: FloatArray,
    pillars: FloatArray,
    aims: FloatArray,
    off: FloatArray,
    marks: IntArray,
    losses: IntArray,
    told: FloatArray,
) -> bool:
    """Compute where led bodies go in a step; return whether there is one to be looked at.

    That is: one that walls hold for the first time since its last telling, or that is to appear elsewhere.

    Args:
        now: the time at the end of the step.
        dt: duration of the step in seconds.
        rows: the row of each led robot in `poses` and `told`.
        stamps: of their tellings.
        places: told poses.
        twists: told velocities, in the robots' frames.
        limits: see `PATIENCE`.
        again: times before which they do not try to appear elsewhere.
        poses: of all robots at the start of the step.
        segments: walls and boxes.
        pillars: fixed cylinders.
        aims: output, the poses where they should be at the end of the step.
        off: output, the distances that they will be off these.
        marks: see `LOST`; updated.
        losses: how often each was lost; updated.
        told: output, the rows of led robots: the pose at the end of the step, the velocity that they have,
            and the velocity that they are told to have, which differs if walls hold them.
    """
    look = False
    share = 1.0 - math.exp(-dt / SETTLE)
    for k in range(rows.shape[0]):
        row, patience, top = rows[k], limits[k, PATIENCE], limits[k, TOP_SPEED]
        age = now - stamps[k]
        lost = age > patience + 1e-9
        if lost and marks[k, LOST] == 0:
            marks[k, LOST] = 1
            losses[k] += 1
        aim_x, aim_y, aim_yaw = arc_k(places[k, 0], places[k, 1], places[k, 2], twists[k], min(age, patience))
        aims[k, 0], aims[k, 1], aims[k, 2] = aim_x, aim_y, aim_yaw
        # Where it should have been at the start of the step.
        before = min(age - dt, patience)
        was_x, was_y, was_yaw = arc_k(places[k, 0], places[k, 1], places[k, 2], twists[k], before)
        x, y, yaw = poses[row, 0], poses[row, 1], poses[row, 2]
        way_x = aim_x - was_x + share * (was_x - x)
        way_y = aim_y - was_y + share * (was_y - y)
        turn = aim_yaw - was_yaw + share * wrap(was_yaw - yaw)
        way, most, most_turn = math.hypot(way_x, way_y), top * dt, limits[k, TOP_TURN] * dt
        # Far from its place, it moves at its top speed, which then is its velocity.
        chases = way > most and math.hypot(aim_x - x, aim_y - y) > most + SLACK
        if way > most:
            way_x, way_y = way_x * most / way, way_y * most / way
        turn = min(max(turn, -most_turn), most_turn)
        off_turn = abs(wrap(aim_yaw - yaw - turn))
        to_x, to_y, held = press_k(x, y, x + way_x, y + way_y, limits[k, ROOM], segments, pillars)
        off[k] = math.hypot(aim_x - to_x, aim_y - to_y)
        if held and marks[k, NOTED] == 0:
            look = True
        marks[k, HELD] = 1 if held else 0
        near = off[k] <= SLACK and off_turn <= SLACK_TURN
        if near:
            marks[k, FRESH] = 0
        marks[k, APPEAR] = 0
        far = not near if marks[k, FRESH] == 1 else off[k] > max(top * patience, SLACK)
        if far and not lost and now >= again[k]:
            marks[k, APPEAR] = 1
            look = True
        told[row, 0], told[row, 1], told[row, 2] = to_x, to_y, yaw + turn
        if held or chases:
            c, s = math.cos(yaw + 0.5 * turn), math.sin(yaw + 0.5 * turn)
            vx, vy = (to_x - x) / dt, (to_y - y) / dt
            told[row, 3], told[row, 4], told[row, 5] = c * vx + s * vy, c * vy - s * vx, turn / dt
        else:
            for i in range(3):
                told[row, 3 + i] = 0.0 if lost else twists[k, i]
        for i in range(3):
            told[row, 6 + i] = told[row, 3 + i] if chases or lost else twists[k, i]
    return look


class Led:
    """The led robots of a world: their newest tellings, and what was rejected."""

    def __init__(self, timestep: float) -> None:
        """Start without led robots, in a world of this time step."""
        self._dt = timestep
        self._ahead = AHEAD + timestep
        self.names: tuple[str, ...] = ()
        self._rows: dict[str, int] = {}
        self._latest_names: tuple[Sequence[str], IntArray] = (), np.empty(0, dtype=np.int64)
        self._stamps = np.zeros(0)
        self._places = np.zeros((0, 3))
        self._twists = np.zeros((0, 3))
        self._limits = np.zeros((0, 4))
        self._again = np.zeros(0)
        self._aims = np.zeros((0, 3))
        self._off = np.zeros(0)
        self._marks = np.zeros((0, 5), dtype=np.int64)
        self._heard = np.zeros(0, dtype=np.bool_)
        self._taken = np.zeros(0, dtype=np.int64)
        self._losses = np.zeros(0, dtype=np.int64)
        self._counts = np.zeros((0, len(REASONS)), dtype=np.int64)
        self._others: dict[str, dict[str, int]] = {}
        self._latest: dict[str, str] = {}

    _ARRAYS = (
        "_stamps", "_places", "_twists", "_limits", "_again", "_aims", "_off", "_marks", "_heard", "_taken",
        "_losses", "_counts",
    )  # fmt: skip

    def add(
        self,
        name: str,
        spec: RobotSpec,
        pose: tuple[float, float, float],
        options: TrackedBody,
        now: float,
    ) -> None:
        """Append a robot, which stands at a pose until it is told."""
        row = len(self.names)
        for array in self._ARRAYS:
            setattr(self, array, np.insert(getattr(self, array), row, 0, axis=0))
        limits, body = spec.limits, spec.body
        top = 2.0 * limits.speed if options.top_speed is None else options.top_speed
        room = body.radius if isinstance(body, DiscBody) else min(body.length, body.width) / 2
        self._stamps[row], self._places[row] = now, pose
        self._limits[row] = options.patience, top, limits.yaw_rate * top / limits.speed, room
        self.names = (*self.names, name)
        self._rows[name] = row
        self._latest_names = (), np.empty(0, dtype=np.int64)

    def remove(self, name: str) -> None:
        """Remove a robot, if it is led; what was refused of it is counted as nobody's from now on."""
        if name not in self._rows:
            return
        row = self._rows[name]
        for column in np.flatnonzero(self._counts[row]).tolist():
            of = self._others.setdefault(REASONS[column], {})
            of[""] = of.get("", 0) + int(self._counts[row, column])
        for array in self._ARRAYS:
            setattr(self, array, np.delete(getattr(self, array), row, axis=0))
        self.names = (*self.names[:row], *self.names[row + 1 :])
        self._rows = {other: i for i, other in enumerate(self.names)}
        self._latest_names = (), np.empty(0, dtype=np.int64)

    def tell(self, tellings: Tellings, now: float, simulated: Container[str] = ()) -> None:
        """Take tellings; those that are invalid are rejected and counted.

        Args:
            tellings: from outside.
            now: the world's time.
            simulated: the names of the robots that are not led.
        """
        count = len(tellings.names)
        try:
            stamps = np.asarray(tellings.stamps, dtype=np.float64)
            poses = np.asarray(tellings.poses, dtype=np.float64)
            twists = np.asarray(tellings.twists, dtype=np.float64)
        except (TypeError, ValueError) as error:
            self._refuse_other(MALFORMED, "", f"tellings that are no numbers: {error}", max(count, 1))
            return
        if (stamps.shape, poses.shape, twists.shape) != ((count,), (count, 3), (count, 3)):
            shapes = f"{count} names, stamps {stamps.shape}, poses {poses.shape}, twists {twists.shape}"
            self._refuse_other(
                MALFORMED, "", f"{shapes}: expected a stamp and rows of 3 for each name", max(count, 1)
            )
            return
        rows = self._rows_of(tellings.names)
        left = np.flatnonzero(rows >= 0)
        if len(left) < count:
            self._refuse_strangers([tellings.names[i] for i in np.flatnonzero(rows < 0).tolist()], simulated)
        left = self._newest(rows, left)
        for _ in range(ROUNDS):
            # One telling of each robot at a time, so that each is compared with the one before.
            _, first = np.unique(rows[left], return_index=True)
            if len(first) == len(left):
                chosen, left = left, left[:0]
            else:
                chosen, left = left[first], np.delete(left, first)
            if len(chosen):
                self._take(rows[chosen], stamps[chosen], poses[chosen], twists[chosen], now)
            if not len(left):
                return

    def _newest(self, rows: IntArray, left: IntArray) -> IntArray:
        """Reject all but the last tellings of each robot; return the indices of the others, in order."""
        counts = np.bincount(rows[left])
        if counts.max(initial=0) <= ROUNDS:
            return left
        by_robot = left[np.argsort(rows[left], kind="stable")]
        after = np.cumsum(counts)[rows[by_robot]] - np.arange(len(by_robot))
        dropped = by_robot[after > ROUNDS]
        self._count(FLOOD, rows[dropped])
        self._latest[FLOOD] = f"{self.names[rows[dropped[-1]]]}: more than {ROUNDS} tellings at once"
        return np.sort(by_robot[after <= ROUNDS])

    def _rows_of(self, names: Sequence[str]) -> IntArray:
        """Return the rows of led robots, -1 for others."""
        known, rows = self._latest_names
        if names is not known:
            found = [self._rows.get(name, -1) if isinstance(name, str) else -1 for name in names]
            rows = np.array(found, dtype=np.int64)
            if isinstance(names, tuple):
                # Most trackers name the same robots again and again.
                self._latest_names = names, rows
        return rows

    def _take(
        self, rows: IntArray, stamps: FloatArray, poses: FloatArray, twists: FloatArray, now: float
    ) -> None:
        """Take one telling of each of some led robots."""
        limits, heard = self._limits[rows], self._heard[rows]
        top, top_turn = limits[:, TOP_SPEED], limits[:, TOP_TURN]
        with np.errstate(all="ignore"):
            finite = np.isfinite(stamps) & np.isfinite(poses).all(axis=1) & np.isfinite(twists).all(axis=1)
            since = stamps - self._stamps[rows]
            speeds, turns = np.hypot(twists[:, 0], twists[:, 1]), np.abs(twists[:, 2])
            ways = np.hypot(*(poses - self._places[rows])[:, :2].T)
            turned = np.abs(wrap_all(poses[:, 2] - self._places[rows, 2]))
            found = np.select(
                (
                    ~finite,
                    np.abs(poses[:, :2]).max(axis=1) > FARTHEST,
                    stamps > now + self._ahead,
                    stamps < now - limits[:, PATIENCE],
                    heard & (since <= 0.0),
                    (speeds > top) | (turns > top_turn),
                    heard & ((ways > top * since + SLACK) | (turned > top_turn * since + SLACK_TURN)),
                ),
                range(REASONS.index(JUMP) + 1),
                -1,
            )
        fine = found < 0
        if not fine.all():
            values = {
                NOT_FINITE: lambda i: f"{(stamps[i], poses[i], twists[i])} is not finite",
                FAR: lambda i: f"{poses[i, :2]} is farther than {FARTHEST:g} m",
                EARLY: lambda i: f"stamp {stamps[i]:.3f} s is ahead of the world's time, {now:.3f} s",
                OLD: lambda i: f"stamp {stamps[i]:.3f} s is older than the patience, at {now:.3f} s",
                REPEATED: lambda i: (
                    f"stamp {stamps[i]:.3f} s is not after the last, {stamps[i] - since[i]:.3f} s"
                ),
                FAST: lambda i: (
                    f"{speeds[i]:.3g} m/s, {turns[i]:.3g} rad/s; "
                    f"at most {top[i]:g} m/s, {top_turn[i]:g} rad/s"
                ),
                JUMP: lambda i: (
                    f"{ways[i]:.3g} m and {turned[i]:.3g} rad in {since[i]:.3g} s; at most {top[i]:g} m/s"
                ),
            }
            for number in np.unique(found[~fine]).tolist():
                reason, which = REASONS[number], np.flatnonzero(found == number)
                self._count(reason, rows[which])
                last = int(which[-1])
                self._latest[reason] = f"{self.names[rows[last]]}: {values[reason](last)}"
            rows, stamps, poses, twists = rows[fine], stamps[fine], poses[fine], twists[fine]
        marks = self._marks
        marks[rows, FRESH] |= (marks[rows, LOST] == 1) | ~self._heard[rows]
        marks[rows, LOST] = marks[rows, NOTED] = 0
        self._stamps[rows], self._places[rows], self._twists[rows] = stamps, poses, twists
        self._heard[rows] = True
        self._taken[rows] += 1

    def _refuse_strangers(self, names: Sequence[object], simulated: Container[str]) -> None:
        """Count tellings of robots that are not led."""
        unknown = []
        for name in names:
            if isinstance(name, str) and name in simulated:
                self._refuse_other(SIMULATED, name, f"{name} is simulated; set `body: tracked` for it")
            else:
                unknown.append(name)
        if unknown:
            known = ", ".join(self.names[:10]) or "none"
            # Names from outside are not kept: there may be any number of them.
            what = f"no robot {str(unknown[-1])[:50]!r}; led robots: {known}"
            self._refuse_other(UNKNOWN, "", what, len(unknown))

    def _refuse_other(self, reason: str, name: str, explanation: str, count: int = 1) -> None:
        counts = self._others.setdefault(reason, {})
        counts[name] = counts.get(name, 0) + count
        self._latest[reason] = explanation

    def _count(self, reason: str, rows: IntArray) -> None:
        self._counts[:, REASONS.index(reason)] += np.bincount(rows, minlength=len(self.names))

    def follow(
        self,
        now: float,
        rows: IntArray,
        poses: FloatArray,
        segments: FloatArray,
        pillars: FloatArray,
        told: FloatArray,
    ) -> Sequence[int]:
        """Write where the bodies go in the step that ends at `now`, and their velocities; see `follow_k`.

        Returns:
            which of the led robots are far from their places and should appear there: see `aim`, `appeared`.
        """
        marks = self._marks
        look = follow_k(
            now,
            self._dt,
            rows,
            self._stamps,
            self._places,
            self._twists,
            self._limits,
            self._again,
            poses,
            segments,
            pillars,
            self._aims,
            self._off,
            marks,
            self._losses,
            told,
        )
        if not look:
            return ()
        # One that is about to appear behind the wall is not held by it.
        held = (marks[:, HELD] == 1) & (marks[:, APPEAR] == 0)
        new = np.flatnonzero(held & (marks[:, NOTED] == 0))
        if len(new):
            marks[new, NOTED] = 1
            self._count(BLOCKED, new)
            last = int(new[-1])
            x, y = self._aims[last, :2].tolist()
            self._latest[BLOCKED] = (
                f"{self.names[last]}: ({x:.3f}, {y:.3f}) is in or behind a wall or obstacle"
            )
        return np.flatnonzero(marks[:, APPEAR]).tolist()

    def aim(self, row: int) -> tuple[float, float, float]:
        """Return the pose where a led robot should be at the end of the step, walls or not."""
        x, y, yaw = self._aims[row].tolist()
        return x, y, wrap(yaw)

    def velocity(self, row: int) -> FloatArray:
        """Return the told velocity of a led robot."""
        velocity: FloatArray = self._twists[row]
        return velocity

    def appeared(self, row: int, now: float, *, there: bool) -> None:
        """Note whether a led robot has appeared at its place; if not, it moves on, and tries again later."""
        if there:
            self._marks[row, FRESH] = self._marks[row, HELD] = 0
            self._off[row] = 0.0
        else:
            self._again[row] = now + AGAIN

    def state(self, now: float) -> LedState:
        """Return the state of all led bodies."""
        ages = now - self._stamps
        refused = {reason: dict(counts) for reason, counts in self._others.items()}
        for row, column in np.argwhere(self._counts).tolist():
            of = refused.setdefault(REASONS[column], {})
            of[self.names[row]] = int(self._counts[row, column])
        return LedState(
            self.names,
            np.where(self._heard, ages, math.inf),
            self._marks[:, LOST] == 1,
            np.where(self._marks[:, LOST] == 1, ages - self._limits[:, PATIENCE], 0.0),
            self._losses.copy(),
            self._off.copy(),
            self._taken.copy(),
            refused,
            dict(self._latest),
        )
