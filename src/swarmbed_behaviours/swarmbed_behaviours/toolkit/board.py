"""The blackboard of one robot, and the controller that ticks a tree with it (DOTS paper, IV-B1).

A `Board` is a plain object shared by all nodes of a robot's tree. It holds the senses, filtered where useful,
and the requests of this tick, which are sent as one `Command` after the tree has been ticked. It is not
py_trees' own blackboard, which all trees of a process share.

Motion must be requested in every tick: if no node requests any, the robot stops. So a node that another one
interrupts cannot leave the robot driving.
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
"""Metres and radians by which a goal must move before a new path to it is sent."""
PATH_PATIENCE = 0.5
"""Seconds after which a path that the robot has not started counts as refused."""
FORGET = 30.0
"""Seconds after which the estimate of an unseen carrier is dropped."""
TURN_SHARE = 0.1
"""Weight of a new compass reading in the filtered rotation between odom and the arena's axes."""
TURN_GAIN = 3.0
"""Gain from heading error to rate of turn, 1/s."""


class _Going:
    """The path that the robot is following, and its goals."""

    __slots__ = ("goals", "number", "path", "since")

    def __init__(self, path: Path, goals: tuple[Pose, ...], number: int, since: float) -> None:
        self.path = path
        self.goals = goals
        self.number = number
        self.since = since


class Board:
    """State shared by the nodes of one robot's tree: senses, requests and memory.

    Attributes:
        robot: the robot.
        spec: its specification.
        rng: the tree's only random generator.
        senses: senses of this tick.
        heading: absolute heading; that of the odometry for robots without a compass.
        carriers: estimates of the carriers seen lately, by id.
        carrying: whether the robot has lifted a carrier and not put it down.
        drop_border: where in odom the robot last crossed the border of the drop zone.
        memory: free storage for nodes.
    """

    def __init__(self, robot: Robot, rng: np.random.Generator) -> None:
        """Start with the robot's current senses."""
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
        """Return the time on the robot's clock, in seconds."""
        return self.senses.time

    @property
    def pose(self) -> FloatArray:
        """Return the robot's pose in odom."""
        return self.senses.pose_odom

    @property
    def carrier(self) -> CarrierEstimate | None:
        """Return the carrier whose side is in sight; None if there is none or its estimate is doubtful."""
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
        """Return whether the lifting platform is lowered; always True for a robot without one."""
        lifter, height = self.spec.lifter, self.senses.lifter_height
        return lifter is None or height is None or height < lifter.lowered + self._travel / 50

    @property
    def _travel(self) -> float:
        lifter = self.spec.lifter
        return 0.0 if lifter is None else lifter.raised - lifter.lowered

    def to_body(self, direction: float) -> float:
        """Convert a direction of the arena to the robot's frame."""
        return float(wrap(direction - self.heading))

    def from_odom(self, direction: float) -> float:
        """Convert a direction in odom to one of the arena."""
        return float(wrap(direction - self.senses.pose_odom[2] + self.heading))

    def along_arena(self, x_odom: float, y_odom: float) -> tuple[float, float]:
        """Rotate a vector from odom to the arena's axes."""
        c, s = math.cos(self._turn), math.sin(self._turn)
        return c * x_odom - s * y_odom, s * x_odom + c * y_odom

    def distance_to(self, pose_odom: Sequence[float] | FloatArray) -> float:
        """Return the distance from the robot's centre to a place in odom, in metres."""
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
        """Return the likelihood of an obstacle at a place: the mean of the collision map in a disc there."""
        grid = self.senses.collision_map
        return 0.0 if grid is None else grid.likelihood((x_body, y_body), 1.0, radius)

    def likelihood(self, direction: float, speed: float, lookahead: float) -> float:
        """Return the likelihood of a collision in a direction of the arena (DOTS paper, IV-B3).

        It checks the place where the robot would be, as the paper does, and the place half-way there.
        """
        grid = self.senses.collision_map
        if grid is None:
            return 0.0
        angle = self.to_body(direction)
        v_body = (speed * math.cos(angle), speed * math.sin(angle))
        return max(grid.likelihood(v_body, lookahead), grid.likelihood(v_body, lookahead / 2))

    def give_up(self, carrier_id: int, seconds: float) -> None:
        """Ignore a carrier for some seconds."""
        self._given_up[carrier_id] = self.time + seconds

    def is_given_up(self, carrier_id: int) -> bool:
        """Return whether a carrier is being ignored."""
        return self.time < self._given_up.get(carrier_id, -math.inf)

    # Requests

    def drive(self, v_body: tuple[float, float, float]) -> None:
        """Request a body velocity for this tick."""
        self._v_body = v_body
        self._want_path = False

    def drive_towards(self, direction: float, speed: float, face: float | None = None) -> None:
        """Request to drive in a direction of the arena; `face` is the heading to turn to meanwhile.

        A holonomic robot moves at once; a differential one turns first, and goes faster the better it is
        aligned.
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
        """Request to stand still."""
        self._v_body = None
        self._want_path = False

    def go_to(self, pose_odom: Sequence[float] | FloatArray, speed: float) -> Status:
        """Request to go to a pose in odom by a path; return the status.

        A new path is only sent when the goal has moved, so this may be called in every tick.
        """
        return self.go_along([pose_odom], speed)

    def go_along(self, poses_odom: Sequence[Sequence[float] | FloatArray], speed: float) -> Status:
        """Request to go through some poses in odom, stopping at each; return the status."""
        goals = tuple((float(pose[0]), float(pose[1]), float(pose[2])) for pose in poses_odom)
        going = self._going
        if going is not None and going.path.max_speed == speed and _close(going.goals, goals):
            return self.follow(going.path)
        return self.follow(Path(tuple(Waypoint(goal) for goal in goals), "odom", max_speed=speed), goals)

    def follow(self, path: Path, goals: tuple[Pose, ...] = ()) -> Status:
        """Request to follow a path, the same object in every tick; return the status."""
        self._want_path = True
        self._v_body = None
        going = self._going
        if going is not None and going.path is path:
            return self._progress(going)
        self._path = path
        self._going = _Going(path, goals, self.senses.motion.path + 1, self.time)
        return Status.RUNNING

    def lift(self, up: bool) -> None:
        """Request the platform up or down."""
        self._lift = up

    def carry(self, carrying: bool) -> None:
        """Set whether a carrier is on the platform; if so, the collision map ignores its legs."""
        self._carry = carrying
        self.carrying = carrying

    def show(self, colours: Sequence[int]) -> None:
        """Request colours of the lights."""
        self._leds = colours

    def say(self, radio: str, payload: bytes) -> None:
        """Request to broadcast a payload; the last one of a tick per radio is sent."""
        self._send = {**self._send, radio: payload}

    # One tick

    def begin(self) -> None:
        """Sense, and clear the requests."""
        self.senses = self.robot.sense()
        self._condition()
        self._wish()

    def end(self) -> None:
        """Send the requests as one command."""
        stop = False
        if self._v_body is not None:
            self._driven = True
        elif not self._want_path:
            # One cancel is enough; without it an older velocity would continue.
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
        """Clear the requests of the previous tick."""
        self._v_body = self._path = None
        self._want_path = False
        self._lift = self._carry = None
        self._leds = None
        self._send = {}

    def _condition(self) -> None:
        """Update the filtered state that the nodes use from the senses."""
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
        """Return the status of the path that was sent."""
        motion = self.senses.motion
        if motion.path < going.number:
            if self.time - going.since <= PATH_PATIENCE:
                return Status.RUNNING
            # It was refused: stop following the previous path; the next request sends a new one.
            self.stop()
            self._going = None
            self._driven = True
            return Status.FAILURE
        if motion.path > going.number or motion.outcome in {Outcome.FAILED, Outcome.CANCELLED}:
            # Another path took over, or this one failed: the next request sends a new one.
            self._going = None
            return Status.FAILURE
        return Status.SUCCESS if motion.outcome is Outcome.SUCCEEDED else Status.RUNNING


def _close(ones: tuple[Pose, ...], others: tuple[Pose, ...]) -> bool:
    """Return whether two lists of goals are the same within `GOAL_SHIFT` and `GOAL_TURN`."""
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

    A subclass builds its tree in `make_tree`, and declares in `Parameters` what a scenario may set.

    Attributes:
        board: the robot's blackboard.
        root: root of the tree.
        doing: name of the active top-level behaviour.
        tick_root: if set, called in place of `root.tick()`, such as the `tick` of a tree manager that
            publishes the tree.
    """

    Parameters: ClassVar[type[Part]] = NoParameters
    tick_root: Callable[[], object] | None = None

    def __init__(self, robot: Robot, parameters: Any, rng: np.random.Generator) -> None:
        """Build the tree of one robot."""
        self.parameters = parameters
        self.board = Board(robot, rng)
        self.root = self.make_tree()
        if not isinstance(self.root, Behaviour):
            message = f"{type(self).__name__}.make_tree returned {self.root!r}: expected the root of a tree"
            raise TypeError(message)
        self.doing = self.root.name

    @abstractmethod
    def make_tree(self) -> Behaviour:
        """Return the root of a new tree whose nodes use `self.board`."""

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
        """Run between sensing and ticking the tree; a hook for subclasses."""

    def after_tree(self) -> None:  # noqa: B027 - a subclass may leave it out
        """Run between ticking the tree and sending the command; a hook for subclasses."""

    def activity(self) -> str:
        """Return the name of the root's active child, or the root's own if there is none."""
        node = self.root
        while len(node.children) == 1:
            node = node.children[0]
        active = getattr(node, "current_child", None)
        return str(node.name if active is None else active.name)
