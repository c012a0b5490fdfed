"""Wall following: keep a distance to the nearest obstacle on one side, and go along it.

It needs no map and no model of walls. The nearest return on the chosen side gives the direction of the wall.
The robot moves at right angles to it, steering slightly towards or away from it. In an inner corner the next
wall becomes the nearest obstacle; at an outer corner it is the corner itself, and the robot turns around it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from py_trees.common import Status
from py_trees.composites import Selector
from pydantic import Field
from swarmbed_core.config import Part

from swarmbed_behaviours.toolkit.board import TreeController
from swarmbed_behaviours.walking import Act, Surroundings, cruise, need_sight, steer

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

    from swarmbed_behaviours.toolkit.board import Board

GAIN = 2.5
"""Steering angle towards the wall, in radians, for an error as large as the distance."""
NEAR = 0.03
"""Returns up to this many metres farther than the nearest one are averaged for the wall's direction."""
BEHIND = math.radians(130)
"""Angle from straight ahead beyond which a return has been passed."""


class WallFollowingParameters(Part):
    """What a scenario may set.

    Attributes:
        hand: the side on which the wall is.
        distance: metres from the body to the wall; 60 % of the sensors' reach, at most 0.3, if not given.
        speed: in m/s.
    """

    hand: Literal["left", "right"] = "left"
    distance: Annotated[float, Field(gt=0, le=2)] | None = None
    speed: Annotated[float, Field(gt=0, le=2)] = 0.3


def reach_of(spec: RobotSpec) -> float:
    """Return the distance from the body at which the sensors see a wall on all sides."""
    return min(
        ring.mount_radius + ring.range_max - spec.body.bounding_radius
        for ring in spec.ranges
        if ring.count > 1 or len(spec.ranges) == 1
    )


def wall_at(points_body: FloatArray, side: float) -> tuple[float, float] | None:
    """Return distance and direction of the nearest obstacle ahead or on one side, None if there is none.

    Args:
        points_body: returns in the robot's frame.
        side: 1 for the left, -1 for the right.
    """
    if not len(points_body):
        return None
    distances = np.hypot(*points_body.T)
    angles = side * np.arctan2(points_body[:, 1], points_body[:, 0])
    there = (angles > -math.pi / 4) & (angles < BEHIND)
    if not there.any():
        return None
    nearest = float(distances[there].min())
    near = there & (distances < nearest + NEAR)
    x, y = points_body[near].sum(axis=0)
    return nearest, math.atan2(y, x)


def along_wall(distance: float, direction: float, wanted: float, side: float) -> float:
    """Return the direction of motion along a wall.

    Args:
        distance: distance of the wall from the robot's centre.
        direction: direction of its nearest point.
        wanted: distance to keep.
        side: 1 for a wall on the left, -1 for one on the right.
    """
    towards = min(max(GAIN * (distance - wanted) / wanted, -1.2), 1.2)
    return direction + side * (towards - math.pi / 2)


class WallFollowing(TreeController):
    """One robot's wall following."""

    Parameters: ClassVar[type[Part]] = WallFollowingParameters
    parameters: WallFollowingParameters

    def __init__(self, robot: Robot, parameters: WallFollowingParameters, rng: np.random.Generator) -> None:
        """Start looking for a wall.

        Raises:
            ConfigError: this kind of robot lacks distance sensors ahead or on the chosen side.
        """
        spec = robot.spec
        self._side = 1.0 if parameters.hand == "left" else -1.0
        what = f"wall following on the {parameters.hand}"
        need_sight(spec, what, 0.0, math.radians(25), "ahead")
        need_sight(spec, what, self._side * math.pi / 2, math.radians(30), f"to the {parameters.hand}")
        distance = parameters.distance or min(0.3, 0.6 * reach_of(spec))
        self._wanted = spec.body.bounding_radius + distance
        self._speed = cruise(spec, parameters.speed)
        # A quarter of the distance as margin: a robot that is too close must not be trapped there.
        self._around = Surroundings(spec, distance / 4)
        self._followed = False
        super().__init__(robot, parameters, rng)

    def make_tree(self) -> Behaviour:
        """Return the tree: follow the wall; if it has ended, turn around its end; else search for one."""
        board = self.board
        leaves = [
            Act("follow wall", board, self.follow),
            Act("find the wall again", board, self.turn_back),
            Act("search a wall", board, self.search),
        ]
        return Selector("wall following", memory=False, children=leaves)

    def follow(self, board: Board) -> Status:
        """Go along the wall; fail if none is near."""
        self._around.look(board.senses)
        wall = wall_at(self._around.points, self._side)
        if wall is None or wall[0] > 2.0 * self._wanted:
            return Status.FAILURE
        self._followed = True
        self._go(board, along_wall(*wall, self._wanted, self._side))
        return Status.RUNNING

    def turn_back(self, board: Board) -> Status:
        """Turn to the side on which the wall ended; fail if there never was one."""
        if not self._followed:
            return Status.FAILURE
        turn = self._speed / self._wanted
        v_x, _, _ = steer(board.spec, self._around, 0.0, self._speed)
        board.drive((v_x, 0.0, self._side * turn))
        return Status.RUNNING

    def search(self, board: Board) -> Status:
        """Go straight ahead to find a wall."""
        self._go(board, 0.0)
        return Status.RUNNING

    def _go(self, board: Board, direction: float) -> None:
        board.drive(steer(board.spec, self._around, direction, self._speed))
