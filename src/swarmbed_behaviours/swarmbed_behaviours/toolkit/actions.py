"""Actions: leaves that make the robot do something and run until it is done."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from py_trees.common import Status
from swarmbed_core.geometry import wrap

from swarmbed_behaviours.toolkit.conditions import Leaf

if TYPE_CHECKING:
    from collections.abc import Callable

    from swarmbed_core.geometry import FloatArray

    from swarmbed_behaviours.toolkit.board import Board, Pose


class Do(Leaf):
    """Call a function of the blackboard once, and succeed."""

    def __init__(self, name: str, board: Board, deed: Callable[[Board], None]) -> None:
        """Call `deed`."""
        super().__init__(name, board)
        self._deed = deed

    def update(self) -> Status:
        """Call the function."""
        self._deed(self.board)
        return Status.SUCCESS


class Stop(Leaf):
    """Stand still; succeeds at once."""

    def __init__(self, board: Board, name: str = "stop") -> None:
        """Stop the wheels."""
        super().__init__(name, board)

    def update(self) -> Status:
        """Request a stop."""
        self.board.stop()
        return Status.SUCCESS


class Wait(Leaf):
    """Stand still for some seconds of the robot's clock."""

    def __init__(self, board: Board, seconds: float, name: str | None = None) -> None:
        """Wait for `seconds`."""
        super().__init__(name or f"wait {seconds:g} s", board)
        self._seconds = seconds
        self._until = 0.0

    def initialise(self) -> None:
        """Start the timer."""
        self._until = self.board.time + self._seconds

    def update(self) -> Status:
        """Wait."""
        self.board.stop()
        return Status.RUNNING if self.board.time < self._until else Status.SUCCESS


class Wander(Leaf):
    """Drive straight in a random direction until a collision is predicted, then draw a new one.

    This is the ballistic random walk of the paper's IV-B1, equation (1). It fails if none of several random
    directions is free.
    """

    def __init__(
        self,
        name: str,
        board: Board,
        draw: Callable[[Board], float],
        *,
        speed: float,
        lookahead: float,
        threshold: float,
        margin: float = 0.0,
        tries: int = 10,
    ) -> None:
        """Walk.

        Args:
            name: of the node.
            board: the robot's.
            draw: draws a direction of the arena.
            speed: in m/s.
            lookahead: seconds for which collisions are predicted.
            threshold: likelihood of a collision above which a direction is blocked.
            margin: metres that are also kept free beside the robot, on the side towards which it drives:
                robots on converging courses meet where neither looks.
            tries: directions drawn in one tick before it fails.
        """
        super().__init__(name, board)
        self._draw = draw
        self._speed, self._lookahead, self._threshold = speed, lookahead, threshold
        self._margin = margin
        self._tries = tries
        self._direction: float | None = None

    def initialise(self) -> None:
        """Clear the direction."""
        self._direction = None

    def update(self) -> Status:
        """Keep the direction or draw a new one, and drive."""
        board = self.board
        if self._direction is None or not self._free(self._direction):
            self._direction = next(
                (way for way in (self._draw(board) for _ in range(self._tries)) if self._free(way)), None
            )
        if self._direction is None:
            return Status.FAILURE
        board.drive_towards(self._direction, self._speed)
        return Status.RUNNING

    def _free(self, direction: float) -> bool:
        board = self.board
        if board.likelihood(direction, self._speed, self._lookahead) > self._threshold:
            return False
        grid = board.senses.collision_map
        if self._margin == 0.0 or grid is None:
            return True
        # The same obstacle weighs less in a larger disc.
        radius = grid.footprint + self._margin
        share = (grid.footprint / radius) ** 2
        angle, ahead = board.to_body(direction), 1.2 * self._margin
        beside = board.likelihood_at(ahead * math.cos(angle), ahead * math.sin(angle), radius)
        return beside <= share * self._threshold


class Escape(Leaf):
    """Creep a short distance in the direction in which the collision map is emptiest (DOTS paper, IV-B4)."""

    def __init__(
        self,
        board: Board,
        *,
        speed: float = 0.1,
        distance: float = 0.2,
        directions: int = 16,
        look: float = 0.3,
        name: str = "escape",
    ) -> None:
        """Creep.

        Args:
            board: the robot's.
            speed: in m/s.
            distance: in metres.
            directions: number of directions compared.
            look: distance in metres over which they are checked.
            name: of the node.
        """
        super().__init__(name, board)
        self._speed, self._distance = speed, distance
        self._directions, self._look = directions, look
        self._direction = 0.0
        self._until = 0.0

    def initialise(self) -> None:
        """Choose the direction."""
        board = self.board
        grid = board.senses.collision_map
        angle = 0.0 if grid is None else grid.least_worst(self._directions, self._look)[0]
        self._direction = float(wrap(board.heading + angle))
        self._until = board.time + self._distance / self._speed

    def update(self) -> Status:
        """Creep until the distance is covered."""
        if self.board.time >= self._until:
            return Status.SUCCESS
        self.board.drive_towards(self._direction, self._speed)
        return Status.RUNNING


class GoTo(Leaf):
    """Go to a pose in odom that a function of the blackboard returns; the pose may change on the way.

    It fails if the function returns None, if the path fails and, with `threshold`, if an obstacle is in the
    way.
    """

    def __init__(
        self,
        name: str,
        board: Board,
        goal: Callable[[Board], Pose | FloatArray | None],
        *,
        speed: float,
        lookahead: float = 1.0,
        threshold: float | None = None,
    ) -> None:
        """Go there."""
        super().__init__(name, board)
        self._goal = goal
        self._speed, self._lookahead, self._threshold = speed, lookahead, threshold

    def update(self) -> Status:
        """Go to the current goal."""
        goal = self._goal(self.board)
        if goal is None:
            return Status.FAILURE
        if (
            self._threshold is not None
            and way_likelihood(self.board, goal, self._speed * self._lookahead) > self._threshold
        ):
            return Status.FAILURE
        return self.board.go_to(goal, self._speed)


class Lift(Leaf):
    """Raise the platform under a carrier; from then on the collision map ignores its legs."""

    def __init__(self, board: Board, name: str = "lift") -> None:
        """Lift."""
        super().__init__(name, board)

    def initialise(self) -> None:
        """Mark the carrier in the collision map while its underside is still in sight."""
        self.board.carry(True)

    def update(self) -> Status:
        """Stand and raise the platform to its upper end."""
        self.board.stop()
        self.board.lift(True)
        return Status.SUCCESS if self.board.platform_up else Status.RUNNING


class Lower(Leaf):
    """Lower the platform; a carrier on it is put down."""

    def __init__(self, board: Board, name: str = "lower") -> None:
        """Lower."""
        super().__init__(name, board)

    def update(self) -> Status:
        """Stand and lower the platform to its lower end."""
        board = self.board
        board.stop()
        board.lift(False)
        if not board.platform_down:
            return Status.RUNNING
        if board.carrying:
            board.carry(False)
        return Status.SUCCESS


def way_likelihood(board: Board, goal: Pose | FloatArray, reach: float) -> float:
    """Return how likely a collision is within `reach` metres of the straight way to a pose in odom."""
    pose = board.pose
    dx, dy = float(goal[0] - pose[0]), float(goal[1] - pose[1])
    far = math.hypot(dx, dy)
    if far < 1e-3:
        return 0.0
    angle = math.atan2(dy, dx) - float(pose[2])
    c, s = math.cos(angle), math.sin(angle)
    end = min(far, reach)
    return max(board.likelihood_at(c * end * share, s * end * share) for share in (0.5, 1.0))
