"""Conditions: leaves that look and never last; they succeed or fail within the tick."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING

from py_trees.behaviour import Behaviour
from py_trees.common import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from swarmbed_core.device import RadioPacket, Zone

    from swarmbed_behaviours.toolkit.board import Board

PAUSE = 0.5
"""Seconds after which a question that was not asked meanwhile begins anew."""


class Leaf(Behaviour):
    """A node without children that knows the robot's blackboard."""

    def __init__(self, name: str, board: Board) -> None:
        """Name the node and give it the blackboard."""
        super().__init__(name)
        self.board = board

    def tick(self) -> Iterator[Behaviour]:
        """Do what py_trees' own tick does, without the texts that it formats for its log."""
        if self.status is not Status.RUNNING:
            self.initialise()
        status = self.update()
        if status is not Status.RUNNING:
            self.terminate(status)
        self.status = status
        yield self


class Condition(Leaf):
    """A question that is asked anew in every tick."""

    @abstractmethod
    def holds(self) -> bool:
        """Return the answer."""

    def update(self) -> Status:
        """Succeed where the answer is yes."""
        return Status.SUCCESS if self.holds() else Status.FAILURE


class Check(Condition):
    """Whatever a function of the blackboard says."""

    def __init__(self, name: str, board: Board, test: Callable[[Board], bool]) -> None:
        """Ask `test`."""
        super().__init__(name, board)
        self._test = test

    def holds(self) -> bool:
        """Return what the function returns."""
        return self._test(self.board)


class SeesCarrier(Condition):
    """A side of a carrier is in sight that the robot has not given up."""

    def __init__(self, board: Board, name: str = "sees carrier") -> None:
        """Look with the perimeter cameras."""
        super().__init__(name, board)

    def holds(self) -> bool:
        """Return whether there is a carrier to go for."""
        carrier = self.board.carrier
        return carrier is not None and not self.board.is_given_up(carrier.id)


class SeesUnderside(Condition):
    """The markermap under a carrier is in sight: the robot is below one."""

    def __init__(self, board: Board, name: str = "sees underside") -> None:
        """Look with the upward camera."""
        super().__init__(name, board)

    def holds(self) -> bool:
        """Return whether a carrier is above."""
        return self.board.overhead is not None


class InZone(Condition):
    """The robot is in a zone of the task."""

    def __init__(self, board: Board, zone: Zone, name: str | None = None) -> None:
        """Ask for one zone."""
        super().__init__(name or f"in {zone.name.lower()} zone", board)
        self._zone = zone

    def holds(self) -> bool:
        """Return whether the robot is there."""
        return self.board.zone is self._zone


class CollisionAhead(Condition):
    """Driving in a direction of the arena would soon lead to a collision."""

    def __init__(
        self,
        board: Board,
        direction: Callable[[Board], float],
        speed: float,
        lookahead: float,
        threshold: float,
        name: str = "collision ahead",
    ) -> None:
        """Ask for the direction that a function of the blackboard gives."""
        super().__init__(name, board)
        self._direction = direction
        self._speed, self._lookahead, self._threshold = speed, lookahead, threshold

    def holds(self) -> bool:
        """Return whether the collision map has something there."""
        likelihood = self.board.likelihood(self._direction(self.board), self._speed, self._lookahead)
        return likelihood > self._threshold


class PlatformUp(Condition):
    """The lifting platform is raised."""

    def __init__(self, board: Board, name: str = "platform up") -> None:
        """Ask the lifter."""
        super().__init__(name, board)

    def holds(self) -> bool:
        """Return whether it is at its upper end."""
        return self.board.platform_up


class PlatformDown(Condition):
    """The lifting platform is lowered."""

    def __init__(self, board: Board, name: str = "platform down") -> None:
        """Ask the lifter."""
        super().__init__(name, board)

    def holds(self) -> bool:
        """Return whether it is at its lower end."""
        return self.board.platform_down


class Carrying(Condition):
    """A carrier is on the platform, as far as the robot knows."""

    def __init__(self, board: Board, name: str = "carrying") -> None:
        """Ask the robot's memory."""
        super().__init__(name, board)

    def holds(self) -> bool:
        """Return whether one was lifted and not put down."""
        return self.board.carrying


class GetsOn(Condition):
    """The robot has come a certain way within the last seconds; it counts from when it is first asked."""

    def __init__(self, board: Board, distance: float, seconds: float, name: str = "gets on") -> None:
        """Ask for so many metres in so many seconds."""
        super().__init__(name, board)
        self._distance, self._seconds = distance, seconds
        self._place: tuple[float, float] = (0.0, 0.0)
        self._since = self._asked = -math.inf

    def holds(self) -> bool:
        """Return whether it has, or may yet."""
        board = self.board
        paused = board.time - self._asked > PAUSE
        if paused or board.distance_to(self._place) >= self._distance:
            self._place = (float(board.pose[0]), float(board.pose[1]))
            self._since = board.time
        self._asked = board.time
        return board.time - self._since < self._seconds


class Heard(Condition):
    """A radio has received something that fits since the tick before."""

    def __init__(
        self,
        board: Board,
        radio: str,
        test: Callable[[RadioPacket], bool] = lambda _: True,
        name: str | None = None,
    ) -> None:
        """Listen to a radio for packets that `test` takes."""
        super().__init__(name or f"heard by {radio}", board)
        self._radio, self._test = radio, test

    def holds(self) -> bool:
        """Return whether there was one."""
        return any(self._test(packet) for packet in self.board.senses.heard.get(self._radio, ()))
