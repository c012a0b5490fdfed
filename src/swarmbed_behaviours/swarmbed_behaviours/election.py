"""Leader election by radio: robots agree on a leader, and on a new one when the leader falls silent.

Each robot draws a random rank and stands for election. Ten times a second it broadcasts its current leader:
the highest rank that it has heard of, or itself. So the highest rank spreads from robot to robot, even beyond
the reach of the leader's radio. The leader counts its messages, and its followers pass the count on. A robot
whose count has stopped drops its leader and stands for election again. It accepts a dropped leader again only
with a higher count, so that old messages that still circulate do not bring it back.

It is an example of communication between robots: see docs/toolkit.md.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from py_trees.composites import Selector
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.leds import COLOURS

from swarmbed_behaviours.toolkit import Escape, TreeController, Wander

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from py_trees.behaviour import Behaviour
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import Radio, RobotSpec

    from swarmbed_behaviours.toolkit import Board

_NUMBERS = struct.Struct("<II")
"""Rank and beat, little-endian; the leader's name follows."""


class Candidate(NamedTuple):
    """A candidate; the one with the higher rank leads."""

    rank: int
    name: str


class Message(NamedTuple):
    """A robot's current leader, and the highest count of the leader's messages that it knows."""

    leader: Candidate
    beat: int

    def pack(self) -> bytes:
        """Encode the message for the radio."""
        return _NUMBERS.pack(self.leader.rank, self.beat) + self.leader.name.encode()

    @classmethod
    def unpack(cls, payload: bytes) -> Message | None:
        """Decode a payload; None if it is not a message of the election."""
        try:
            rank, beat = _NUMBERS.unpack_from(payload)
            return cls(Candidate(rank, payload[_NUMBERS.size :].decode()), beat)
        except (struct.error, UnicodeDecodeError):
            return None


class Ballot:
    """One robot's state of the election.

    Attributes:
        me: this robot.
        leader: its current leader.
    """

    def __init__(self, me: Candidate, patience: float) -> None:
        """Stand for election.

        Args:
            me: this robot.
            patience: seconds without a higher count after which a leader is dropped.
        """
        self.me = self.leader = me
        self._patience = patience
        self._beats: dict[Candidate, int] = {me: 0}
        self._heard_at = 0.0

    def update(self, now: float, messages: Iterable[Message]) -> Message:
        """Process received messages, and return the message to send.

        Args:
            now: the robot's clock, in seconds.
            messages: messages received since the last call.
        """
        for leader, beat in messages:
            is_news = leader != self.me and beat > self._beats.get(leader, -1)
            if is_news:
                self._beats[leader] = beat
            if is_news and leader >= self.leader:
                self.leader, self._heard_at = leader, now
        if self.leader != self.me and now - self._heard_at > self._patience:
            self.leader = self.me
        if self.leader == self.me:
            self._beats[self.me] += 1
        return Message(self.leader, self._beats[self.leader])


class ElectionParameters(Part):
    """What a scenario may set.

    Attributes:
        speed: speed of the walk, in m/s, by which robots meet others.
        patience: seconds without news of a leader after which a robot drops it.
    """

    speed: Annotated[float, Field(gt=0, le=2)] = 0.2
    patience: Annotated[float, Field(gt=0, le=600)] = 30.0


def talker_of(spec: RobotSpec, name: str) -> Radio:
    """Return the radio with the largest payload, if a message with the robot's name fits.

    Raises:
        ConfigError: no radio can carry the message.
    """
    need = _NUMBERS.size + len(name.encode())
    radio = max(spec.radios, key=lambda radio: radio.payload_bytes, default=None)
    if radio is None or radio.payload_bytes < need:
        what = (
            "has no radio"
            if radio is None
            else f"sends at most {radio.payload_bytes} bytes, by '{radio.name}'"
        )
        message = f"election: a robot of kind '{spec.kind}' {what}; {name} needs {need}"
        raise ConfigError(message)
    return radio


class Election(TreeController):
    """One robot of a swarm that elects a leader while it walks about.

    Its `doing` is `leader NAME`: the timeline shows each robot's current leader, and the acceptor `agreed`
    waits until all are the same. The leader's lights are green.
    """

    Parameters: ClassVar[type[Part]] = ElectionParameters
    parameters: ElectionParameters

    def __init__(self, robot: Robot, parameters: ElectionParameters, rng: np.random.Generator) -> None:
        """Draw a rank.

        Raises:
            ConfigError: this kind of robot has no radio that carries the messages.
        """
        self._radio = talker_of(robot.spec, robot.name)
        rank = int(rng.integers(2**32))
        self.ballot = Ballot(Candidate(rank, robot.name), parameters.patience)
        super().__init__(robot, parameters, rng)

    def make_tree(self) -> Behaviour:
        """Return the tree: walk; if no direction is free, creep out."""
        board, speed = self.board, self.parameters.speed
        walk = Wander("walk", board, draw, speed=speed, lookahead=1.0, threshold=0.05)
        return Selector("election", memory=False, children=[walk, Escape(board, speed=speed / 4)])

    def before_tree(self) -> None:
        """Process received messages, send one, and set the lights."""
        board = self.board
        heard = (Message.unpack(packet.payload) for packet in board.senses.heard.get(self._radio.name, ()))
        said = self.ballot.update(board.time, (message for message in heard if message is not None))
        board.say(self._radio.name, said.pack())
        if board.spec.leds is not None:
            colour = COLOURS["green" if self.ballot.leader == self.ballot.me else "off"]
            board.show([colour] * board.spec.leds.count)

    def activity(self) -> str:
        """Return `leader` and the name of the current leader."""
        return f"leader {self.ballot.leader.name}"


def draw(board: Board) -> float:
    """Draw a random direction of the arena."""
    return float(board.rng.uniform(-math.pi, math.pi))
