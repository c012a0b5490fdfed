"""Random walk: straight on until a collision is predicted, then in a new direction (DOTS paper, IV-B1).

The collision map predicts collisions, equations (2)-(4); the free distance seen by the distance sensors
limits the speed. If no direction is free, the robot creeps out in the emptiest one (IV-B4).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from py_trees.common import Status
from py_trees.composites import Selector
from pydantic import Field
from swarmbed_core.config import Part

from swarmbed_behaviours.toolkit.actions import Escape
from swarmbed_behaviours.toolkit.board import TreeController
from swarmbed_behaviours.walking import Act, Surroundings, cruise, need_sight, steer

if TYPE_CHECKING:
    import numpy as np
    from py_trees.behaviour import Behaviour
    from swarmbed_core.controller import CrowdProgram
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

    from swarmbed_behaviours.toolkit.board import Board


class RandomWalkParameters(Part):
    """What a scenario may set.

    Attributes:
        speed: in m/s; capped at 80 % of the robot's limit.
        lookahead: seconds for which collisions are predicted.
        threshold: likelihood of a collision above which a direction is blocked.
        margin: metres that the body keeps from everything.
        tries: directions drawn in one tick before the robot creeps out.
    """

    speed: Annotated[float, Field(gt=0, le=2)] = 0.5
    lookahead: Annotated[float, Field(gt=0, le=5)] = 1.2
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.05
    margin: Annotated[float, Field(ge=0, le=1)] = 0.03
    tries: Annotated[int, Field(ge=1, le=100)] = 20


class RandomWalk(TreeController):
    """One robot's random walk."""

    Parameters: ClassVar[type[Part]] = RandomWalkParameters
    parameters: RandomWalkParameters

    def __init__(self, robot: Robot, parameters: RandomWalkParameters, rng: np.random.Generator) -> None:
        """Start without a direction.

        Raises:
            ConfigError: this kind of robot has no distance sensor that looks ahead.
        """
        need_sight(robot.spec, "random walk", 0.0, math.radians(20), "ahead")
        self._around = Surroundings(robot.spec, parameters.margin)
        self._speed = cruise(robot.spec, parameters.speed)
        self._direction: float | None = None
        super().__init__(robot, parameters, rng)

    @staticmethod
    def crowd(
        spec: RobotSpec, parameters: RandomWalkParameters, count: int, rng: np.random.Generator
    ) -> CrowdProgram:
        """Return the walk for a crowd of `count` robots."""
        from swarmbed_behaviours.crowd_walk import CrowdWalk

        return CrowdWalk(spec, parameters.speed, count, rng)

    def make_tree(self) -> Behaviour:
        """Return the tree: walk; if no direction is free, creep out."""
        board = self.board
        creep = Escape(board, speed=self._speed / 4)
        return Selector("random walk", memory=True, children=[Act("walk", board, self.walk), creep])

    def walk(self, board: Board) -> Status:
        """Keep the direction or draw a new one; fail if none is free."""
        self._around.look(board.senses)
        if self._direction is None or not self.is_free(board, self._direction):
            drawn = (board.rng.uniform(-math.pi, math.pi) for _ in range(self.parameters.tries))
            self._direction = next((way for way in drawn if self.is_free(board, way)), None)
        if self._direction is None:
            return Status.FAILURE
        board.drive(steer(board.spec, self._around, board.to_body(self._direction), self._speed))
        return Status.RUNNING

    def is_free(self, board: Board, direction: float) -> bool:
        """Return whether no collision is predicted in a direction of the arena."""
        likely = board.likelihood(direction, self._speed, self.parameters.lookahead)
        room = self._around.clearance(board.to_body(direction))
        return likely <= self.parameters.threshold and room > self.parameters.margin
