"""Leader election by radio: robots agree on one of them, and on another when that one falls silent.

Each robot draws a rank and stands for election. Ten times a second it sends whom it takes for the leader: the
highest rank that it has heard of, or its own. So the highest rank spreads from robot to robot, also to those
that the leader's radio does not reach. The leader counts its messages, and its followers pass the count on. A
robot for which the count has stopped gives its leader up and stands for election again. A leader that was
given up is believed again only with a higher count: old news, which still goes round, does not bring it back.

It is an example of how whole robots talk: see docs/toolkit.md.
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
    """A robot that stands for election; of two, the one with the higher rank leads."""

    rank: int
    name: str


class Message(NamedTuple):
    """Whom a robot takes for the leader, and the highest count of that one's messages that it knows."""

    leader: Candidate
    beat: int

    def pack(self) -> bytes:
        """Return the message as bytes for a radio."""
        return _NUMBERS.pack(self.leader.rank, self.beat) + self.leader.name.encode()

    @classmethod
    def unpack(cls, payload: bytes) -> Message | None:
        """Return the message in a payload, None if there is none: others may use the radio too."""
        try:
            rank, beat = _NUMBERS.unpack_from(payload)
            return cls(Candidate(rank, payload[_NUMBERS.size :].decode()), beat)
        except (struct.error, UnicodeDecodeError):
            return None


class Ballot:
    """What one robot knows of the election.

    Attributes:
        me: this robot.
        leader: whom it takes for the leader.
    """

    def __init__(self, me: Candidate, patience: float) -> None:
        """Stand for election.

        Args:
            me: this robot.
            patience: seconds without a higher count after which a leader is given up.
        """
        self.me = self.leader = me
        self._patience = patience
        self._beats: dict[Candidate, int] = {me: 0}
        self._heard_at = 0.0

    def update(self, now: float, messages: Iterable[Message]) -> Message:
        """Take what was heard, and return what to send.

        Args:
            now: the robot's clock, in seconds.
            messages: those that were heard since the last time.
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
        speed: of the walk, in m/s; robots that walk meet others.
        patience: seconds without news of a leader after which a robot gives it up.
    """

    speed: Annotated[float, Field(gt=0, le=2)] = 0.2
    patience: Annotated[float, Field(gt=0, le=600)] = 30.0


def talker_of(spec: RobotSpec, name: str) -> Radio:
    """Return the radio of a kind of robot that carries most, if it carries the messages of a robot.

    Raises:
        ConfigError: none does.
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

    Its `doing` is `leader NAME`: the timeline shows who takes whom for the leader, and the acceptor `agreed`
    waits until all say the same. The leader's lights are green.
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
        """Return the tree: walk; where no direction is free, creep out."""
        board, speed = self.board, self.parameters.speed
        walk = Wander("walk", board, draw, speed=speed, lookahead=1.0, threshold=0.05)
        return Selector("election", memory=False, children=[walk, Escape(board, speed=speed / 4)])

    def before_tree(self) -> None:
        """Listen, and talk."""
        board = self.board
        heard = (Message.unpack(packet.payload) for packet in board.senses.heard.get(self._radio.name, ()))
        said = self.ballot.update(board.time, (message for message in heard if message is not None))
        board.say(self._radio.name, said.pack())
        if board.spec.leds is not None:
            colour = COLOURS["green" if self.ballot.leader == self.ballot.me else "off"]
            board.show([colour] * board.spec.leds.count)

    def activity(self) -> str:
        """Return whom the robot takes for the leader."""
        return f"leader {self.ballot.leader.name}"


def draw(board: Board) -> float:
    """Return a direction of the arena."""
    return float(board.rng.uniform(-math.pi, math.pi))
