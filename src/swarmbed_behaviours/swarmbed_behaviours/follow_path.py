"""Drive a path from config/paths once, and stop (DOTS paper, Figure 6).

A localised robot drives the path at its place in `map`. Any other robot takes its own pose as the path's
start.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from py_trees.composites import Selector, Sequence
from pydantic import Field
from swarmbed_core.arena import Coordinate
from swarmbed_core.config import ConfigFile, Part
from swarmbed_core.geometry import compose, invert
from swarmbed_core.spec import NotNegative, Positive
from swarmbed_core.trajectory import Path, Waypoint

from swarmbed_behaviours.toolkit import Leaf, TreeController, Wait

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from py_trees.common import Status

    from swarmbed_behaviours.toolkit import Board

Pose = tuple[Coordinate, Coordinate, Coordinate]


class PathPoint(Part):
    """One waypoint of a path file: pose and velocity, in `map`."""

    pose: Pose
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)


class PathFile(ConfigFile):
    """A path of config/paths: the start pose and the waypoints."""

    FOLDER: ClassVar[str] = "config/paths"

    title: str
    start: Pose
    max_speed: float | None = Field(default=None, gt=0)
    waypoints: Annotated[tuple[PathPoint, ...], Field(min_length=1)]

    def path(self) -> Path:
        """Return the waypoints as a path in `map`."""
        points = tuple(Waypoint(point.pose, point.velocity) for point in self.waypoints)
        return Path(points, "map", max_speed=self.max_speed)


class FollowPathParameters(Part):
    """What a scenario may set.

    Attributes:
        path: a name from config/paths, or a file.
        max_speed: in m/s; the file's, if not given.
        stand: seconds to stand before, so that the gyro's bias can be estimated.
    """

    path: str = "square"
    max_speed: Positive | None = None
    stand: NotNegative = 1.5


class Drive(Leaf):
    """Follow the path of a file."""

    def __init__(self, board: Board, file: PathFile, max_speed: float | None, name: str = "drive") -> None:
        """Follow `file`."""
        super().__init__(name, board)
        path = file.path()
        self._path = Path(path.waypoints, "map", max_speed=max_speed or path.max_speed)
        self._start = file.start

    def initialise(self) -> None:
        """Place the path at the robot's pose, if the robot is not localised."""
        if self.board.senses.pose_map is None:
            self._path = self._path.in_odom(compose(self.board.pose, invert(self._start)))

    def update(self) -> Status:
        """Follow the path, and return its status."""
        return self.board.follow(self._path)


class FollowPath(TreeController):
    """Stand, drive, and stand again: `arrived`, or `failed` if the robot cannot follow the path."""

    Parameters: ClassVar[type[Part]] = FollowPathParameters
    parameters: FollowPathParameters

    def make_tree(self) -> Behaviour:
        """Return the tree.

        Raises:
            ConfigError: there is no such path.
        """
        board, asked = self.board, self.parameters
        drive = Drive(board, PathFile.load(asked.path), asked.max_speed)
        there = Wait(board, math.inf, "arrived")
        once = Sequence("once", memory=True, children=[Wait(board, asked.stand, "stand"), drive, there])
        return Selector("follow path", memory=True, children=[once, Wait(board, math.inf, "failed")])

    def activity(self) -> str:
        """Return the name of the running leaf."""
        tip = self.root.tip()
        return self.root.name if tip is None else str(tip.name)
