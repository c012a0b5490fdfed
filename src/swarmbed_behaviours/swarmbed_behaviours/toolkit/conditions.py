"""Conditions: leaves that check something; they succeed or fail within the tick and never run."""

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
"""Seconds without a tick after which a condition over time starts over."""


class Leaf(Behaviour):
    """A node without children, with access to the robot's blackboard."""

    def __init__(self, name: str, board: Board) -> None:
        """Name the node and give it the blackboard."""
        super().__init__(name)
        self.board = board

    def tick(self) -> Iterator[Behaviour]:
        """Tick as py_trees does, without formatting log messages."""
        if self.status is not Status.RUNNING:
            self.initialise()
        status = self.update()
        if status is not Status.RUNNING:
            self.terminate(status)
        self.status = status
        yield self


class Condition(Leaf):
    """A condition that is checked in every tick."""

    @abstractmethod
    def holds(self) -> bool:
        """Return whether the condition holds."""

    def update(self) -> Status:
        """Succeed if the condition holds, else fail."""
        return Status.SUCCESS if self.holds() else Status.FAILURE


class Check(Condition):
    """A condition given as a function of the blackboard."""

    def __init__(self, name: str, board: Board, test: Callable[[Board], bool]) -> None:
        """Check `test`."""
        super().__init__(name, board)
        self._test = test

    def holds(self) -> bool:
        """Return what the function returns."""
        return self._test(self.board)


class SeesCarrier(Condition):
    """A side of a carrier is in sight, and the carrier is not being ignored."""

    def __init__(self, board: Board, name: str = "sees carrier") -> None:
        """Look with the perimeter cameras."""
        super().__init__(name, board)

    def holds(self) -> bool:
        """Return whether there is such a carrier."""
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
        """Check one zone."""
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
        """Check the direction that a function of the blackboard returns."""
        super().__init__(name, board)
        self._direction = direction
        self._speed, self._lookahead, self._threshold = speed, lookahead, threshold

    def holds(self) -> bool:
        """Return whether the likelihood of a collision there exceeds the threshold."""
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
    """A carrier is on the platform: it was lifted and not put down."""

    def __init__(self, board: Board, name: str = "carrying") -> None:
        """Check the blackboard."""
        super().__init__(name, board)

    def holds(self) -> bool:
        """Return whether one was lifted and not put down."""
        return self.board.carrying


class GetsOn(Condition):
    """The robot makes progress: it has moved a distance within a time, counted from the first check."""

    def __init__(self, board: Board, distance: float, seconds: float, name: str = "gets on") -> None:
        """Require `distance` metres within `seconds`."""
        super().__init__(name, board)
        self._distance, self._seconds = distance, seconds
        self._place: tuple[float, float] = (0.0, 0.0)
        self._since = self._asked = -math.inf

    def holds(self) -> bool:
        """Return whether it has moved that far, or still has time."""
        board = self.board
        paused = board.time - self._asked > PAUSE
        if paused or board.distance_to(self._place) >= self._distance:
            self._place = (float(board.pose[0]), float(board.pose[1]))
            self._since = board.time
        self._asked = board.time
        return board.time - self._since < self._seconds


class Heard(Condition):
    """A radio has received a matching packet since the previous tick."""

    def __init__(
        self,
        board: Board,
        radio: str,
        test: Callable[[RadioPacket], bool] = lambda _: True,
        name: str | None = None,
    ) -> None:
        """Listen to a radio for packets for which `test` is true."""
        super().__init__(name or f"heard by {radio}", board)
        self._radio, self._test = radio, test

    def holds(self) -> bool:
        """Return whether there was a matching packet."""
        return any(self._test(packet) for packet in self.board.senses.heard.get(self._radio, ()))
