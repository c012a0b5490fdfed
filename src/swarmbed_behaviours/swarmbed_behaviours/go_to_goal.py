"""Go to a goal around obstacles and stop there; the direction is chosen again in every tick (IV-B4).

The only map is the collision map around the robot. If the direction of the goal is blocked, the robot goes
around the obstacle on one side. It takes the first free direction, counted from the obstacle's side, and
heads for the goal again once that way is free and the goal is nearer than where the detour began. The "bug"
algorithms get around any single obstacle in this way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from py_trees.common import Status
from py_trees.composites import Selector
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.geometry import between, compose, invert, wrap

from swarmbed_behaviours.toolkit.board import TreeController
from swarmbed_behaviours.walking import STILL, Act, Surroundings, cruise, need_sight, steer

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot

    from swarmbed_behaviours.toolkit.board import Board

DIRECTIONS = 36
"""Number of directions compared."""
ROUND = math.radians(100)
"""Angle from the direction of travel towards the obstacle at which a detour starts to look for a free way."""
NEARER = 0.05
"""Metres by which the goal must be nearer than at the start of a detour before it ends."""
SLOWING = 1.0
"""Speed close to the goal per metre that is left, in 1/s."""


class GoToGoalParameters(Part):
    """What a scenario may set.

    Attributes:
        goal: x, y, yaw.
        frame: frame of the goal: odometry, the robot's pose at the start, or the arena, for localised robots.
        speed: in m/s.
        tolerance: metres from the goal that count as reached.
        look: metres ahead that must be free; twice the diameter of the body, if not given.
        threshold: mean of the collision map's cells along a direction above which it is blocked.
        margin: metres that the body keeps from everything.
    """

    goal: tuple[float, float, float]
    frame: Literal["odom", "base_link", "map"] = "odom"
    speed: Annotated[float, Field(gt=0, le=2)] = 0.4
    tolerance: Annotated[float, Field(gt=0, le=1)] = 0.03
    look: Annotated[float, Field(gt=0, le=1)] | None = None
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.01
    margin: Annotated[float, Field(ge=0, le=1)] = 0.02


def nearest_direction(free: FloatArray, direction: float) -> float:
    """Return the free direction nearest to a direction."""
    ways: list[float] = free.tolist()
    return min(ways, key=lambda way: abs(float(wrap(way - direction))))


def first_direction(free: FloatArray, start: float, side: float) -> float:
    """Return the first free direction when turning from `start`: to the left for side 1, right for -1."""
    ways: list[float] = free.tolist()
    return min(ways, key=lambda way: (side * (way - start)) % (2 * math.pi))


class GoToGoal(TreeController):
    """One robot on its way to a goal."""

    Parameters: ClassVar[type[Part]] = GoToGoalParameters
    parameters: GoToGoalParameters

    def __init__(self, robot: Robot, parameters: GoToGoalParameters, rng: np.random.Generator) -> None:
        """Start without a pose of the goal.

        Raises:
            ConfigError: this kind of robot has no distance sensor that looks ahead.
        """
        spec = robot.spec
        need_sight(spec, "go to goal", 0.0, math.radians(25), "ahead")
        self._speed = cruise(spec, parameters.speed)
        self._look = parameters.look or 4 * spec.body.bounding_radius
        self._around = Surroundings(spec, parameters.margin)
        self._goal_odom: FloatArray | None = None
        self._arrived = False
        # Of a detour: its side, the distance to the goal at its start, the latest direction.
        self._side = 0.0
        self._left_at = math.inf
        self._way = 0.0
        super().__init__(robot, parameters, rng)

    def make_tree(self) -> Behaviour:
        """Return the tree: stay at the goal; else go straight to it; else around the obstacle."""
        board = self.board
        leaves = [
            Act("arrived", board, self.stay),
            Act("wait for a pose", board, self.wait),
            Act("go to goal", board, self.go_straight),
            Act("go round", board, self.go_round),
            Act("blocked", board, self.stand),
        ]
        return Selector("go to goal", memory=False, children=leaves)

    def wait(self, board: Board) -> Status:
        """Stand while the goal's pose is unknown."""
        self._around.look(board.senses)
        goal, senses = self.parameters.goal, board.senses
        if self.parameters.frame == "map":
            if senses.pose_map is not None:
                # Computed in every tick, because localisation moves `map` in `odom`.
                self._goal_odom = compose(compose(senses.pose_odom, invert(senses.pose_map)), goal)
        elif self._goal_odom is None:
            start = (0.0, 0.0, 0.0) if self.parameters.frame == "odom" else senses.pose_odom
            self._goal_odom = compose(start, goal)
        if self._goal_odom is not None:
            return Status.FAILURE
        board.stop()
        return Status.RUNNING

    def stay(self, board: Board) -> Status:
        """Stand at the goal and turn to its yaw; fail if the robot is not there."""
        if self._goal_odom is None:
            return Status.FAILURE
        x, y, yaw = between(board.pose, self._goal_odom).tolist()
        # Hysteresis: the tolerance doubles after arrival, because the pose estimate moves.
        if math.hypot(x, y) > self.parameters.tolerance * (2.0 if self._arrived else 1.0):
            self._arrived = False
            return Status.FAILURE
        self._arrived = True
        if abs(yaw) > 0.05:
            most = min(1.0, board.spec.limits.yaw_rate / 2)
            board.drive((0.0, 0.0, min(max(2.0 * yaw, -most), most)))
        else:
            board.stop()
        return Status.RUNNING

    def go_straight(self, board: Board) -> Status:
        """Go in the free direction nearest to the goal's; fail if a detour is necessary."""
        far, direction = self._to_goal(board)
        free = self._free(board, min(self._look, far))
        if not len(free):
            return Status.FAILURE
        way = nearest_direction(free, direction)
        straight = abs(float(wrap(way - direction))) < math.radians(30)
        if self._side != 0.0 and not (straight and far < self._left_at - NEARER):
            return Status.FAILURE
        if not straight:
            self._side = 1.0 if float(wrap(way - direction)) > 0 else -1.0
            self._left_at = far
            self._way = float(wrap(way + board.pose[2]))
            return Status.FAILURE
        self._side = 0.0
        exact = abs(float(wrap(way - direction))) <= math.pi / DIRECTIONS
        self._go(board, direction if exact else way, far)
        return Status.RUNNING

    def go_round(self, board: Board) -> Status:
        """Go around the obstacle, keeping it on one side."""
        far, _ = self._to_goal(board)
        free = self._free(board, self._look)
        if not len(free) or self._side == 0.0:
            return Status.FAILURE
        last = float(wrap(self._way - board.pose[2]))
        way = first_direction(free, last - self._side * ROUND, self._side)
        self._way = float(wrap(way + board.pose[2]))
        self._go(board, way, far)
        return Status.RUNNING

    def stand(self, board: Board) -> Status:
        """Stand; a differential robot turns to look for a free direction."""
        spec = board.spec
        board.drive(STILL if spec.holonomic else (0.0, 0.0, min(0.8, spec.limits.yaw_rate / 4)))
        return Status.RUNNING

    def _to_goal(self, board: Board) -> tuple[float, float]:
        """Return the distance of the goal and its direction in the robot's frame."""
        if self._goal_odom is None:
            return 0.0, 0.0
        x, y, _ = between(board.pose, self._goal_odom).tolist()
        return math.hypot(x, y), math.atan2(y, x)

    def _free(self, board: Board, distance: float) -> FloatArray:
        """Return the directions that are free for a distance."""
        grid = board.senses.collision_map
        if grid is None:
            return np.linspace(-math.pi, math.pi, DIRECTIONS, endpoint=False)
        return grid.clear_directions(DIRECTIONS, distance, self.parameters.threshold)

    def _go(self, board: Board, direction: float, far: float) -> None:
        speed = min(self._speed, max(SLOWING * far, 0.02))
        board.drive(steer(board.spec, self._around, direction, speed))
