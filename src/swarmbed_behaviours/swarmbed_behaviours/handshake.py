"""The handshake by which two robots exchange their routes: algorithms 5 and 6 of the transport study.

Every robot broadcasts WAIT all the time. A robot that receives it and may talk stops. The one with the higher
number offers with ACCEPT, every second until it gets an answer or runs out of attempts; the other waits for
the offer and answers ACCEPTACK. Then both tune to a private channel, send their routes in pieces, and END. A
robot that does not want to talk answers REJECT.

The study's robots wait for a single END. Here END also reports whether all pieces have arrived, and pieces,
like ACCEPTACK, are repeated until the other side confirms them. So a lost message delays the exchange but
does not end it. Even if messages are lost, late, duplicated or out of order, each side returns to the
broadcast channel when its timer ends at the latest, and has either the other's whole route or nothing.

This module is independent of motion and radios: received messages and the time go in, messages to send come
out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

BROADCAST = (0, 0)
"""The channel that all robots share."""
RETRY = 1.0
"""Seconds from one ACCEPT to the next (algorithm 6)."""
ATTEMPTS = 3
"""Number of ACCEPTs: assumed."""
PATIENCE = 4.0
"""Seconds for which the other robot waits for an ACCEPT: assumed; longer than all attempts."""
TIMER = 10.0
"""Seconds after which a talk ends, complete or not: assumed."""
AGAIN = 600.0
"""Seconds before the same two robots may talk again (4)."""
SILENCE = 900.0
"""Seconds at the start in which no robot talks (4)."""
PIECE = 60
"""Places of a route per message: a message has 1,024 bytes, a place takes two numbers of eight bytes."""
FAREWELLS = 3
"""Repetitions of END at the end of a talk, in case it gets lost."""


class Kind(Enum):
    """Type of a message."""

    WAIT = "WAIT"
    ACCEPT = "ACCEPT"
    ACCEPTACK = "ACCEPTACK"
    REJECT = "REJECT"
    PIECE = "PATH"
    END = "END"


@dataclass(frozen=True, eq=False)
class Message:
    """A message of the handshake.

    Attributes:
        kind: its type.
        channel: channel on which it is sent; only robots tuned to it receive it.
        sender: number of the sender.
        to: number of the receiver, -1 for all.
        knows: whether the sender has a route: the mode in WAIT.
        talk: identifies the talk between the two, so that late messages of an earlier one are recognised.
        number: index of a piece; in END, the number of pieces.
        got: in END, whether the sender has all of the other's pieces.
        places: places of a piece.
        moves: position and velocity of the sender, x, y, vx, vy; optional, in WAIT.
    """

    kind: Kind
    channel: tuple[int, int]
    sender: int
    to: int = -1
    knows: bool = False
    talk: float = 0.0
    number: int = 0
    got: bool = False
    places: FloatArray | None = None
    moves: tuple[float, float, float, float] | None = None


class Doing(Enum):
    """State of a robot's handshake."""

    FREE = "free"
    OFFERS = "offers"
    LISTENS = "listens"
    TALKS = "talks"


@dataclass
class Counts:
    """Statistics of a robot's talks."""

    begun: int = 0
    done: int = 0
    failed: int = 0
    seconds: float = 0.0


@dataclass(eq=False)
class Talked:
    """A completed talk: the partner and its route, None if it has none."""

    partner: int
    route: FloatArray | None


@dataclass(eq=False)
class _Talk:
    partner: int
    talk: float
    began: float
    pieces: list[FloatArray] = field(default_factory=list)
    came: dict[int, FloatArray] = field(default_factory=dict)
    expected: int | None = None
    heard_all: bool = False
    heard: bool = False
    farewells: int = 0

    @property
    def has_all(self) -> bool:
        """Return whether all of the partner's pieces have arrived."""
        return self.expected is not None and len(self.came) == self.expected


class Handshake:
    """One robot's side of the handshake.

    Attributes:
        doing: its state; the robot stands unless it is free.
        knows: whether it has a route.
        moves: position and velocity to send in WAIT; None by default, as in the study.
        counts: statistics of its talks.
    """

    def __init__(
        self,
        me: int,
        *,
        silence: float = SILENCE,
        again: float = AGAIN,
        takes: bool = True,
        both: bool = True,
    ) -> None:
        """Start free.

        Args:
            me: unique number of the robot.
            silence: seconds at the start in which it does not talk.
            again: seconds before it talks to the same robot again.
            takes: whether it talks at all.
            both: whether it also talks if both robots have a route.
        """
        self.me = me
        self.doing = Doing.FREE
        self.knows = False
        self.moves: tuple[float, float, float, float] | None = None
        self.counts = Counts()
        self._silence = silence
        self._again = again
        self._takes = takes
        self._both = both
        self._history: dict[int, float] = {}
        self._partner = -1
        self._since = 0.0
        self._offered = 0
        self._next_offer = math.inf
        self._named = 0.0
        self._talk: _Talk | None = None
        self._out: list[Message] = []

    @property
    def channel(self) -> tuple[int, int]:
        """Return the channel that the robot is tuned to."""
        return BROADCAST if self._talk is None else channel_of(self.me, self._talk.partner)

    def may_talk(self, partner: int, *, knows: bool, now: float) -> bool:
        """Return whether it may talk to another robot (algorithm 5)."""
        if not self._takes or now < self._silence or not (self.knows or knows):
            return False
        if self.knows and knows and not self._both:
            return False
        return now - self._history.get(partner, -math.inf) > self._again

    def hear(self, message: Message, route: FloatArray | None, now: float) -> None:
        """Process a received message.

        Args:
            message: the message.
            route: the robot's own route, to send if a talk starts; None if it has none.
            now: the time.
        """
        if message.channel != self.channel or message.sender == self.me or message.to not in {-1, self.me}:
            return
        if message.kind is Kind.WAIT:
            self._hear_wait(message, now)
        elif message.kind is Kind.REJECT:
            if self.doing in {Doing.OFFERS, Doing.LISTENS} and message.sender == self._partner:
                self._give_up(now)
        elif message.kind is Kind.ACCEPT:
            self._hear_accept(message, route, now)
        elif message.kind is Kind.ACCEPTACK:
            if self.doing is Doing.OFFERS and (message.sender, message.talk) == (self._partner, self._named):
                self._begin(message.sender, message.talk, route, now)
        elif self._talk is not None and message.talk == self._talk.talk:
            self._hear_talk(self._talk, message)

    def tick(self, now: float) -> tuple[list[Message], Talked | None]:
        """Return the messages to send now, and the outcome of a talk that has just been completed."""
        out, self._out = self._out, []
        outcome = None
        if self.doing is Doing.OFFERS:
            if now >= self._next_offer and self._offered < ATTEMPTS:
                self._offered += 1
                self._next_offer = now + RETRY
                out.append(self._say(Kind.ACCEPT, self._partner, talk=self._named))
            elif now >= self._next_offer:
                self._give_up(now)
        elif self.doing is Doing.LISTENS and now - self._since >= PATIENCE:
            self._give_up(now)
        elif self._talk is not None:
            outcome = self._go_on(self._talk, out, now)
        if self._talk is not None and self.moves is not None:
            # For robots that have to pass; addressed to the partner, so that no other robot answers.
            out.append(Message(Kind.WAIT, BROADCAST, self.me, self._talk.partner, moves=self.moves))
        if self.doing is not Doing.TALKS:
            out.append(self._say(Kind.WAIT, moves=self.moves))
        return out, outcome

    # Incoming messages

    def _hear_wait(self, message: Message, now: float) -> None:
        if self.doing is not Doing.FREE:
            return
        if not self.may_talk(message.sender, knows=message.knows, now=now):
            return
        self._partner, self._since = message.sender, now
        self.counts.begun += 1
        if self.me > message.sender:
            self.doing = Doing.OFFERS
            self._offered, self._next_offer, self._named = 0, now, now
        else:
            self.doing = Doing.LISTENS

    def _hear_accept(self, message: Message, route: FloatArray | None, now: float) -> None:
        if message.to != self.me or message.sender < self.me:
            return
        if self.doing is Doing.LISTENS and message.sender == self._partner:
            self._begin(message.sender, message.talk, route, now)
        elif self.doing is Doing.FREE and self.may_talk(message.sender, knows=message.knows, now=now):
            # The offer arrived although the other's WAIT did not.
            self._partner, self._since = message.sender, now
            self.counts.begun += 1
            self._begin(message.sender, message.talk, route, now)
        else:
            self._out.append(self._say(Kind.REJECT, message.sender))

    def _hear_talk(self, talk: _Talk, message: Message) -> None:
        talk.heard = True
        if message.kind is Kind.PIECE and message.places is not None:
            talk.came.setdefault(message.number, message.places)
        elif message.kind is Kind.END:
            talk.expected = message.number
            talk.heard_all = talk.heard_all or message.got

    # Actions

    def _say(self, kind: Kind, to: int = -1, **more: Any) -> Message:
        return Message(kind, self.channel, self.me, to, self.knows, **more)

    def _begin(self, partner: int, talk: float, route: FloatArray | None, now: float) -> None:
        pieces = [] if route is None else [route[k : k + PIECE] for k in range(0, len(route), PIECE)]
        self._talk = _Talk(partner, talk, now, [piece.copy() for piece in pieces])
        self.doing = Doing.TALKS

    def _go_on(self, talk: _Talk, out: list[Message], now: float) -> Talked | None:
        if not talk.heard and self.me < talk.partner:
            # Repeat ACCEPTACK until the partner is heard on the private channel: the first may be lost.
            out.append(Message(Kind.ACCEPTACK, BROADCAST, self.me, talk.partner, self.knows, talk.talk))
        if not talk.heard_all:
            for number, places in enumerate(talk.pieces):
                out.append(self._say(Kind.PIECE, talk.partner, talk=talk.talk, number=number, places=places))
        out.append(
            self._say(Kind.END, talk.partner, talk=talk.talk, number=len(talk.pieces), got=talk.has_all)
        )
        over = now - talk.began >= TIMER
        if talk.has_all and talk.heard_all:
            talk.farewells += 1
            over = over or talk.farewells > FAREWELLS
        if not over:
            return None
        whole = talk.has_all
        route = None
        if whole and talk.came:
            route = np.vstack([talk.came[number] for number in sorted(talk.came)])
        self._talk = None
        self.doing = Doing.FREE
        self.counts.seconds += now - self._since
        if not whole:
            self.counts.failed += 1
            return None
        self.counts.done += 1
        self._history[talk.partner] = now
        return Talked(talk.partner, route)

    def _give_up(self, now: float) -> None:
        self.doing = Doing.FREE
        self.counts.failed += 1
        self.counts.seconds += now - self._since
        self._partner = -1


def channel_of(one: int, other: int) -> tuple[int, int]:
    """Return the private channel of two robots."""
    return min(one, other) + 1, max(one, other) + 1
