"""The convoy of `swarmbed_behaviours.convoy` as atomic DEVS models, one for each robot of a crowd.

The study that the convoy is from has its robots as DEVS models. Here one robot is an atomic model whose
phases are the study's: wait, predict and turn, move, adjust, inform. Senses and the neighbours' messages are
external events; what they lead to is said at once (time advance 0), and then the model is passive until it
senses again. Neighbours are coupled through the air: at its ports `ahead` and `behind` a robot hears what
those two say at `tell`, as far as the radio reaches.

The kernel that does the next bit of a round is that of the other forms, so that a convoy of models does what
`ConvoyCrowd` does, to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.config import check
from xdevs.models import Atomic, Port

from swarmbed_behaviours.convoy import ROUND, ConvoyParameters, Member, metrics_of
from swarmbed_behaviours.devs import COMMAND, SENSES, TELL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from swarmbed_behaviours.devs import Who


class ConvoyRobot(Atomic):  # type: ignore[misc] # xdevs says no types
    """One robot of a convoy.

    Attributes:
        listens: whom it hears at which port, by number.
    """

    def __init__(self, who: Who, **parameters: Any) -> None:
        """Take a place in the line; parameters as of the controller `convoy`.

        Raises:
            ConfigError: robots of this kind cannot see ahead, or a parameter is wrong.
        """
        super().__init__(f"{who.name}{who.number + 1}")
        first, last = who.number == 0, who.number == who.count - 1
        self.listens = {"ahead": who.number - 1, "behind": -1 if last else who.number + 1}
        checked = check(parameters, ConvoyParameters, "devs_model convoy")
        self.member = Member(who.spec, checked, first=first, last=last)
        self._rng = who.rng
        self._senses, self._ahead, self._behind = (Port(None, name) for name in (SENSES, "ahead", "behind"))
        self._command, self._tell = Port(None, COMMAND), Port(None, TELL)
        for port in (self._senses, self._ahead, self._behind):
            self.add_in_port(port)
        for port in (self._command, self._tell):
            self.add_out_port(port)

    def initialize(self) -> None:
        """Wait."""
        self.passivate("wait")

    def exit(self) -> None:
        """End."""

    def deltext(self, e: float) -> None:  # noqa: ARG002 - a round goes by senses, not by time
        """Hear the neighbours and do the next bit of the round."""
        member = self.member
        if self._ahead:
            member.ahead[:] = self._ahead.get()
        if self._behind:
            member.behind[:] = self._behind.get()
        rounds = member.state[ROUND]
        # The first decides for itself which way to turn; the others follow.
        member.tick(self._senses.get().ranges, self._rng.random() if member.first else 0.0)
        self.activate("inform" if member.state[ROUND] > rounds else member.doing)

    def lambdaf(self) -> None:
        """Say what the robot shall do, and tell the neighbours."""
        speed, rate = self.member.asked
        self._command.add((speed, 0.0, rate))
        self._tell.add(self.member.words)

    def deltint(self) -> None:
        """Go on with that until the senses say more."""
        self.passivate(self.member.doing)

    @staticmethod
    def metrics(robots: Sequence[ConvoyRobot]) -> Mapping[str, Any]:
        """Return how often robots had to adjust, and how often they saw nobody."""
        return metrics_of(np.array([robot.member.state for robot in robots]))
