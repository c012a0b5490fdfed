"""Decorators that py_trees lacks, or has only with the wall clock: these use the robot's clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from py_trees.common import Status
from py_trees.decorators import Decorator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from py_trees.behaviour import Behaviour

    from swarmbed_behaviours.toolkit.board import Board


class TimeLimit(Decorator):
    """Fail if the child is still running after some seconds."""

    def __init__(self, board: Board, child: Behaviour, seconds: float, name: str | None = None) -> None:
        """Limit the time of `child`."""
        super().__init__(name or f"at most {seconds:g} s", child)
        self._board = board
        self._seconds = seconds
        self._until = math.inf

    def initialise(self) -> None:
        """Start the timer."""
        self._until = self._board.time + self._seconds

    def update(self) -> Status:
        """Return the child's status; fail when the time is over."""
        if self.decorated.status is Status.RUNNING and self._board.time >= self._until:
            return Status.FAILURE
        return self.decorated.status


class Cooldown(Decorator):
    """After the child has ended, fail for some seconds without ticking it."""

    def __init__(self, board: Board, child: Behaviour, seconds: float, name: str | None = None) -> None:
        """Pause `child` after each end."""
        super().__init__(name or f"rest {seconds:g} s", child)
        self._board = board
        self._seconds = seconds
        self._from = -math.inf

    def tick(self) -> Iterator[Behaviour]:
        """Tick the child unless it is paused."""
        if self.status is not Status.RUNNING and self._board.time < self._from:
            self.stop(Status.FAILURE)
            yield self
            return
        yield from super().tick()

    def update(self) -> Status:
        """Return the child's status; start the pause when it has ended."""
        if self.decorated.status is not Status.RUNNING:
            self._from = self._board.time + self._seconds
        return self.decorated.status


class OnFailure(Decorator):
    """Call a function in the tick in which the child fails."""

    def __init__(
        self, board: Board, child: Behaviour, deed: Callable[[Board], None], name: str = "on failure"
    ) -> None:
        """Watch `child`."""
        super().__init__(name, child)
        self._board = board
        self._deed = deed

    def update(self) -> Status:
        """Return the child's status."""
        if self.decorated.status is Status.FAILURE:
            self._deed(self._board)
        return self.decorated.status
