"""The convoy of `swarmbed_behaviours.convoy` as atomic DEVS models, one for each robot of a crowd.

The study that describes the convoy models its robots in DEVS. Here one robot is an atomic model with the
study's phases: wait, predict and turn, move, adjust, inform. Senses and the neighbours' messages are external
events. The model outputs its reaction at once (time advance 0) and is then passive until the next senses
arrive. Neighbours are coupled by radio: at its ports `ahead` and `behind` a robot receives what those two
send at `tell`, within the radio's reach.

The kernel that advances a round is shared with the other forms, so a convoy of models behaves exactly like
`ConvoyCrowd`, bit for bit.
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


class ConvoyRobot(Atomic):  # type: ignore[misc] # xdevs has no type hints
    """One robot of a convoy.

    Attributes:
        listens: number of the robot it receives from at each port.
    """

    def __init__(self, who: Who, **parameters: Any) -> None:
        """Take a place in the line; the parameters are those of the controller `convoy`.

        Raises:
            ConfigError: robots of this kind have no sensor that looks ahead, or a parameter is invalid.
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
        """Start in the phase `wait`."""
        self.passivate("wait")

    def exit(self) -> None:
        """Do nothing at the end; xdevs requires the method."""

    def deltext(self, e: float) -> None:  # noqa: ARG002 - a round advances with the senses, not with time
        """Process the neighbours' messages and advance the round by one tick."""
        member = self.member
        if self._ahead:
            member.ahead[:] = self._ahead.get()
        if self._behind:
            member.behind[:] = self._behind.get()
        rounds = member.state[ROUND]
        # Only the first robot chooses which way to turn.
        member.tick(self._senses.get().ranges, self._rng.random() if member.first else 0.0)
        self.activate("inform" if member.state[ROUND] > rounds else member.doing)

    def lambdaf(self) -> None:
        """Output the velocity and the message to the neighbours."""
        speed, rate = self.member.asked
        self._command.add((speed, 0.0, rate))
        self._tell.add(self.member.words)

    def deltint(self) -> None:
        """Wait for the next senses."""
        self.passivate(self.member.doing)

    @staticmethod
    def metrics(robots: Sequence[ConvoyRobot]) -> Mapping[str, Any]:
        """Return how often robots had to adjust, and how often they lost sight of the one ahead."""
        return metrics_of(np.array([robot.member.state for robot in robots]))
