"""The blackboard of one robot, and the controller that ticks a tree with it (DOTS paper, IV-B1).

A `Board` is a plain object that every node of a robot's tree is given: the senses, conditioned where that
helps, and the wishes of this tick, of which one `Command` is made when the tree has been ticked. It is not
py_trees' own blackboard, which all trees of a process share.

Motion must be wished again in every tick: where no node asks for any, the robot stops. So whatever node is
cut off by another cannot leave the robot driving.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from swarmbed_core.controller import NoParameters
from swarmbed_core.device import Zone
from swarmbed_core.geometry import wrap
from swarmbed_core.motion import Outcome
from swarmbed_core.robot import Command
from swarmbed_core.trajectory import Path, Waypoint

from swarmbed_behaviours.toolkit.estimate import CarrierEstimate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from swarmbed_core.config import Part
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.markers import UndersideSight
    from swarmbed_core.robot import Robot, Senses

Pose = tuple[float, float, float]

GOAL_SHIFT = 0.003
GOAL_TURN = 0.01
"""Metres and radians by which a goal has to move for a new path to it."""
PATH_PATIENCE = 0.5
"""A path that the robot has not begun after this many seconds was refused."""
FORGET = 30.0
"""Seconds after which what was seen of a carrier is forgotten."""
TURN_SHARE = 0.1
"""How much the compass's newest word counts for where the arena's axes lie in odom: it errs, they stay."""
TURN_GAIN = 3.0
"""Radians a second for each radian that a robot does not look where it should."""


class _Going:
    """The way to a goal that the robot is on."""

    __slots__ = ("goals", "number", "path", "since")

    def __init__(self, path: Path, goals: tuple[Pose, ...], number: int, since: float) -> None:
        self.path = path
        self.goals = goals
        self.number = number
        self.since = since


class Board:
    """What the nodes of one robot's tree share: senses, wishes and memory.

    Attributes:
        robot: that is sensed and commanded.
        spec: what kind it is.
        rng: the tree's only source of chance.
        senses: of this tick.
        heading: absolute heading; that of the odometry for robots without a compass.
        carriers: what was seen of carriers lately, by their ids.
        carrying: whether the robot has a carrier on its platform, as far as it knows.
        drop_border: where in odom the robot last crossed the border of the drop zone.
        memory: for whatever nodes want to tell each other.
    """

    def __init__(self, robot: Robot, rng: np.random.Generator) -> None:
        """Begin with the robot's senses of now."""
        self.robot = robot
        self.spec = robot.spec
        self.rng = rng
        self.carriers: dict[int, CarrierEstimate] = {}
        self.carrying = False
        self.drop_border: tuple[float, float] | None = None
        self.memory: dict[str, Any] = {}
        self._given_up: dict[int, float] = {}
        self._going: _Going | None = None
        self._radius = self.spec.body.bounding_radius
        self._zone: Zone | None = None
        self._driven = False
        self.senses: Senses = robot.sense()
        self.heading = 0.0
        self._turn = math.nan
        self._v_body: Pose | None = None
        self._path: Path | None = None
        self._want_path = False
        self._lift: bool | None = None
        self._carry: bool | None = None
        self._leds: Sequence[int] | None = None
        self._send: dict[str, bytes] = {}
        self._condition()

    # Senses

    @property
    def time(self) -> float:
        """Return the robot's clock."""
        return self.senses.time

    @property
    def pose(self) -> FloatArray:
        """Return the robot's pose in odom."""
        return self.senses.pose_odom

    @property
    def carrier(self) -> CarrierEstimate | None:
        """Return the carrier whose side the robot sees now, if it sees one and is sure where it stands."""
        sight = self.senses.carrier
        known = None if sight is None else self.carriers.get(sight.id)
        return None if known is None or known.doubtful else known

    @property
    def overhead(self) -> UndersideSight | None:
        """Return the carrier above the robot, if its underside is in sight."""
        sight = self.senses.underside
        return None if sight is None or sight.pose_odom is None else sight

    @property
    def zone(self) -> Zone:
        """Return the zone the robot is in."""
        return self.senses.zone

    @property
    def platform_up(self) -> bool:
        """Return whether the lifting platform is raised."""
        lifter, height = self.spec.lifter, self.senses.lifter_height
        return lifter is not None and height is not None and height > lifter.raised - self._travel / 50

    @property
    def platform_down(self) -> bool:
        """Return whether the lifting platform is lowered; a robot without one has nothing raised."""
        lifter, height = self.spec.lifter, self.senses.lifter_height
        return lifter is None or height is None or height < lifter.lowered + self._travel / 50

    @property
    def _travel(self) -> float:
        lifter = self.spec.lifter
        return 0.0 if lifter is None else lifter.raised - lifter.lowered

    def to_body(self, direction: float) -> float:
        """Return a direction of the arena, seen from the robot."""
        return float(wrap(direction - self.heading))

    def from_odom(self, direction: float) -> float:
        """Return a direction of odom as one of the arena."""
        return float(wrap(direction - self.senses.pose_odom[2] + self.heading))

    def along_arena(self, x_odom: float, y_odom: float) -> tuple[float, float]:
        """Return a vector of odom along the arena's axes."""
        c, s = math.cos(self._turn), math.sin(self._turn)
        return c * x_odom - s * y_odom, s * x_odom + c * y_odom

    def distance_to(self, pose_odom: Sequence[float] | FloatArray) -> float:
        """Return how far a place in odom is from the robot's centre."""
        pose = self.senses.pose_odom
        return math.hypot(pose_odom[0] - pose[0], pose_odom[1] - pose[1])

    def past_drop_border(self, place_odom: Sequence[float] | FloatArray) -> float | None:
        """Return how far into the drop zone a place is by dead reckoning, None if its border is unknown.

        The border is a line across the arena's x where the robot's own zone sense last changed.
        """
        if self.drop_border is None:
            return None
        x, y = self.drop_border
        return self.along_arena(float(place_odom[0]) - x, float(place_odom[1]) - y)[0]

    def likelihood_at(self, x_body: float, y_body: float, radius: float | None = None) -> float:
        """Return how likely something is at a place: the mean of the collision map in a disc there."""
        grid = self.senses.collision_map
        return 0.0 if grid is None else grid.likelihood((x_body, y_body), 1.0, radius)

    def likelihood(self, direction: float, speed: float, lookahead: float) -> float:
        """Return how likely a collision is where a direction of the arena leads (DOTS paper, IV-B3).

        It looks at the place where the robot would be, as the paper does, and half way there.
        """
        grid = self.senses.collision_map
        if grid is None:
            return 0.0
        angle = self.to_body(direction)
        v_body = (speed * math.cos(angle), speed * math.sin(angle))
        return max(grid.likelihood(v_body, lookahead), grid.likelihood(v_body, lookahead / 2))

    def give_up(self, carrier_id: int, seconds: float) -> None:
        """Take no interest in a carrier for a while."""
        self._given_up[carrier_id] = self.time + seconds

    def is_given_up(self, carrier_id: int) -> bool:
        """Return whether the robot takes no interest in a carrier now."""
        return self.time < self._given_up.get(carrier_id, -math.inf)

    # Wishes

    def drive(self, v_body: tuple[float, float, float]) -> None:
        """Wish for a body velocity in this tick."""
        self._v_body = v_body
        self._want_path = False

    def drive_towards(self, direction: float, speed: float, face: float | None = None) -> None:
        """Wish to drive in a direction of the arena; `face` is the heading to turn to meanwhile.

        A holonomic robot sets off at once; another one turns first, and goes faster the better it looks
        where it shall go.
        """
        angle = self.to_body(direction)
        rate = self.spec.limits.yaw_rate / 2
        if self.spec.holonomic:
            turn = 0.0 if face is None else min(max(TURN_GAIN * self.to_body(face), -rate), rate)
            self.drive((speed * math.cos(angle), speed * math.sin(angle), turn))
        else:
            ahead = max(math.cos(angle), 0.0) ** 4
            self.drive((speed * ahead, 0.0, min(max(TURN_GAIN * angle, -rate), rate)))

    def stop(self) -> None:
        """Wish to stand still."""
        self._v_body = None
        self._want_path = False

    def go_to(self, pose_odom: Sequence[float] | FloatArray, speed: float) -> Status:
        """Wish to go to a pose in odom by a path; return how that goes.

        A new path is only sent when the goal has moved, so that it may be wished again in every tick.
        """
        return self.go_along([pose_odom], speed)

    def go_along(self, poses_odom: Sequence[Sequence[float] | FloatArray], speed: float) -> Status:
        """Wish to go through some poses in odom, resting at each; return how that goes."""
        goals = tuple((float(pose[0]), float(pose[1]), float(pose[2])) for pose in poses_odom)
        going = self._going
        if going is not None and going.path.max_speed == speed and _close(going.goals, goals):
            return self.follow(going.path)
        return self.follow(Path(tuple(Waypoint(goal) for goal in goals), "odom", max_speed=speed), goals)

    def follow(self, path: Path, goals: tuple[Pose, ...] = ()) -> Status:
        """Wish to follow a path, the same object in every tick; return how that goes."""
        self._want_path = True
        self._v_body = None
        going = self._going
        if going is not None and going.path is path:
            return self._progress(going)
        self._path = path
        self._going = _Going(path, goals, self.senses.motion.path + 1, self.time)
        return Status.RUNNING

    def lift(self, up: bool) -> None:
        """Wish for the platform up or down."""
        self._lift = up

    def carry(self, carrying: bool) -> None:
        """Say that a carrier is on the platform from now on, or none: its legs are no obstacles then."""
        self._carry = carrying
        self.carrying = carrying

    def show(self, colours: Sequence[int]) -> None:
        """Wish for colours of the lights."""
        self._leds = colours

    def say(self, radio: str, payload: bytes) -> None:
        """Broadcast something."""
        self._send = {**self._send, radio: payload}

    # One tick

    def begin(self) -> None:
        """Sense, and wish for nothing yet."""
        self.senses = self.robot.sense()
        self._condition()
        self._wish()

    def end(self) -> None:
        """Send what was wished for as one command."""
        stop = False
        if self._v_body is not None:
            self._driven = True
        elif not self._want_path:
            # One brake is enough, and an older velocity must not go on.
            stop = self._driven or self._going is not None
            self._driven = False
        else:
            self._driven = False
        if not self._want_path:
            self._going = None
        self.robot.act(
            Command(
                velocity_body=self._v_body,
                path=self._path if self._want_path else None,
                cancel=stop,
                lift=self._lift,
                leds=self._leds,
                send=self._send or None,
                carrying=self._carry,
            )
        )

    def _wish(self) -> None:
        """Forget the wishes of the tick before."""
        self._v_body = self._path = None
        self._want_path = False
        self._lift = self._carry = None
        self._leds = None
        self._send = {}

    def _condition(self) -> None:
        """Make of the senses what the nodes need."""
        senses = self.senses
        self.heading = float(senses.pose_odom[2]) if senses.heading is None else senses.heading
        turn = self.heading - float(senses.pose_odom[2])
        share = 1.0 if math.isnan(self._turn) else TURN_SHARE
        self._turn = float(wrap(turn if share == 1.0 else self._turn + share * wrap(turn - self._turn)))
        sight = senses.carrier
        if sight is not None and sight.pose_odom is not None and self.spec.carrier is not None:
            known = self.carriers.get(sight.id)
            if known is None:
                self.carriers[sight.id] = CarrierEstimate(sight, self.spec.carrier.length)
            elif sight.stamp > known.stamp:
                known.add(sight)
        for old in [number for number, known in self.carriers.items() if senses.time - known.stamp > FORGET]:
            del self.carriers[old]
        zone = senses.zone
        if self._zone is not None and (zone is Zone.DROP) != (self._zone is Zone.DROP):
            self.drop_border = (float(senses.pose_odom[0]), float(senses.pose_odom[1]))
        self._zone = zone

    def _progress(self, going: _Going) -> Status:
        """Return what has become of the path that was sent."""
        motion = self.senses.motion
        if motion.path < going.number:
            if self.time - going.since <= PATH_PATIENCE:
                return Status.RUNNING
            # It was refused: the robot must not go on with the one before, and the next wish asks anew.
            self.stop()
            self._going = None
            self._driven = True
            return Status.FAILURE
        if motion.path > going.number or motion.outcome in {Outcome.FAILED, Outcome.CANCELLED}:
            # Somebody else's wish, or no way: the next one asks anew.
            self._going = None
            return Status.FAILURE
        return Status.SUCCESS if motion.outcome is Outcome.SUCCEEDED else Status.RUNNING


def _close(ones: tuple[Pose, ...], others: tuple[Pose, ...]) -> bool:
    """Return whether two ways are the same but for what is not worth a new path."""
    if len(ones) != len(others):
        return False
    return all(
        abs(one[0] - other[0]) <= GOAL_SHIFT
        and abs(one[1] - other[1]) <= GOAL_SHIFT
        and abs(wrap(one[2] - other[2])) <= GOAL_TURN
        for one, other in zip(ones, others, strict=True)
    )


class TreeController(ABC):
    """A `Controller` that ticks a behaviour tree.

    A subclass says what its tree is in `make_tree`, and in `Parameters` what a scenario may set.

    Attributes:
        board: the robot's blackboard.
        root: of the tree.
        doing: the name of the top-level behaviour that is active.
        tick_root: ticks the tree in place of `root.tick()`, if set: a tree manager's `tick`, which shows
            the tree to others.
    """

    Parameters: ClassVar[type[Part]] = NoParameters
    tick_root: Callable[[], object] | None = None

    def __init__(self, robot: Robot, parameters: Any, rng: np.random.Generator) -> None:
        """Grow the tree of one robot."""
        self.parameters = parameters
        self.board = Board(robot, rng)
        self.root = self.make_tree()
        if not isinstance(self.root, Behaviour):
            message = f"{type(self).__name__}.make_tree returned {self.root!r}: expected the root of a tree"
            raise TypeError(message)
        self.doing = self.root.name

    @abstractmethod
    def make_tree(self) -> Behaviour:
        """Return the root of a new tree, its nodes given `self.board`."""

    def tick(self) -> None:
        """Sense once, tick the tree, command once."""
        self.board.begin()
        self.before_tree()
        if self.tick_root is None:
            for _ in self.root.tick():
                pass
        else:
            self.tick_root()
        self.after_tree()
        self.board.end()
        self.doing = self.activity()

    def before_tree(self) -> None:  # noqa: B027 - a subclass may leave it out
        """Do what a program does between sensing and ticking its tree: nothing, but subclasses may."""

    def after_tree(self) -> None:  # noqa: B027 - a subclass may leave it out
        """Do what a program does between ticking its tree and commanding: nothing, but subclasses may."""

    def activity(self) -> str:
        """Return the name of the child of the root that is active, or the root's own if it has none."""
        node = self.root
        while len(node.children) == 1:
            node = node.children[0]
        active = getattr(node, "current_child", None)
        return str(node.name if active is None else active.name)
