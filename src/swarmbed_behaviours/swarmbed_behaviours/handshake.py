"""Two robots agree to talk and exchange their routes: algorithms 5 and 6 of the transport study.

Every robot says WAIT all the time. Who hears it and may talk stops: the one with the higher number offers
with ACCEPT, each second until it is answered or has tried often enough; the other waits for that and answers
ACCEPTACK. Then both tune to a channel of their own, named after both, send their routes in pieces, and END.
Who does not want to says REJECT.

The study's robots wait for one END. Here END also tells whether all pieces have come; and pieces, like
ACCEPTACK, are sent again until the other shows that it has them: a message that gets lost costs a moment, and
not the exchange. Whatever is lost, late, doubled or out of order, each side is back on the broadcast channel
when its timer ends at the latest, and has either the whole route of the other or nothing.

Nothing here moves a robot or knows a radio: what comes in and the time go in, what is to be sent comes out.
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
"""The channel of all."""
RETRY = 1.0
"""Seconds from one ACCEPT to the next (algorithm 6)."""
ATTEMPTS = 3
"""How many of them there are: assumed."""
PATIENCE = 4.0
"""Seconds that the other waits for an ACCEPT: assumed; longer than all attempts."""
TIMER = 10.0
"""Seconds after which a talk ends whatever has come: assumed."""
AGAIN = 600.0
"""Seconds before the same two may talk again (4)."""
SILENCE = 900.0
"""Seconds at the start in which nobody talks (4)."""
PIECE = 60
"""Places of a route in one message: it has 1,024 bytes, and a place is two numbers of eight."""
FAREWELLS = 3
"""Times that END is said again before a talk is left, in case it gets lost."""


class Kind(Enum):
    """What a message is."""

    WAIT = "WAIT"
    ACCEPT = "ACCEPT"
    ACCEPTACK = "ACCEPTACK"
    REJECT = "REJECT"
    PIECE = "PATH"
    END = "END"


@dataclass(frozen=True, eq=False)
class Message:
    """What is on the air.

    Attributes:
        channel: who hears it: those that are tuned to it.
        to: for whom it is, -1 for all.
        knows: whether the sender has a route: the mode in WAIT.
        talk: which talk of the two it belongs to, so that what comes late from an earlier one is known.
        number: of a piece; of END, how many pieces there are.
        got: of END, whether the sender has all of the other's.
        places: of a piece.
        moves: where the sender is and how it moves, x, y, vx, vy, in WAIT, if it tells.
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
    """What a robot does about talking."""

    FREE = "free"
    OFFERS = "offers"
    LISTENS = "listens"
    TALKS = "talks"


@dataclass
class Counts:
    """What came of it."""

    begun: int = 0
    done: int = 0
    failed: int = 0
    seconds: float = 0.0


@dataclass(eq=False)
class Outcome:
    """A talk that has ended well: with whom, and that one's route, None if it has none."""

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
        """Return whether all of the other's pieces have come."""
        return self.expected is not None and len(self.came) == self.expected


class Handshake:
    """One robot's part in it.

    Attributes:
        doing: what it does; it stands unless it is free.
        knows: whether it has a route.
        moves: what its WAIT tells of where it is and how it moves; nothing by default, as in the study.
        counts: of its talks.
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
        """Begin.

        Args:
            me: its number, of which each robot has another one.
            silence: seconds in which it does not talk.
            again: seconds before it talks to the same one again.
            takes: whether it talks at all.
            both: whether it also talks if both have a route.
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
        """Return what it is tuned to."""
        return BROADCAST if self._talk is None else channel_of(self.me, self._talk.partner)

    def may_talk(self, partner: int, *, knows: bool, now: float) -> bool:
        """Return whether it wants to talk to another (algorithm 5)."""
        if not self._takes or now < self._silence or not (self.knows or knows):
            return False
        if self.knows and knows and not self._both:
            return False
        return now - self._history.get(partner, -math.inf) > self._again

    def hear(self, message: Message, route: FloatArray | None, now: float) -> None:
        """Take in one message.

        Args:
            message: that was on the air.
            route: its own, to be sent if a talk begins.
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

    def tick(self, now: float) -> tuple[list[Message], Outcome | None]:
        """Return what is to be sent now, and a talk that has ended well, if one has."""
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
            # For whoever has to get past: nobody else shall answer.
            out.append(Message(Kind.WAIT, BROADCAST, self.me, self._talk.partner, moves=self.moves))
        if self.doing is not Doing.TALKS:
            out.append(self._say(Kind.WAIT, moves=self.moves))
        return out, outcome

    # What comes in

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
            # It has not heard the other's WAIT, but its offer.
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

    # What it does

    def _say(self, kind: Kind, to: int = -1, **more: Any) -> Message:
        return Message(kind, self.channel, self.me, to, self.knows, **more)

    def _begin(self, partner: int, talk: float, route: FloatArray | None, now: float) -> None:
        pieces = [] if route is None else [route[k : k + PIECE] for k in range(0, len(route), PIECE)]
        self._talk = _Talk(partner, talk, now, [piece.copy() for piece in pieces])
        self.doing = Doing.TALKS

    def _go_on(self, talk: _Talk, out: list[Message], now: float) -> Outcome | None:
        if not talk.heard and self.me < talk.partner:
            # Until the other is heard on the channel of the two, it may not know that it was accepted.
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
        return Outcome(talk.partner, route)

    def _give_up(self, now: float) -> None:
        self.doing = Doing.FREE
        self.counts.failed += 1
        self.counts.seconds += now - self._since
        self._partner = -1


def channel_of(one: int, other: int) -> tuple[int, int]:
    """Return the channel that two robots have to themselves."""
    return min(one, other) + 1, max(one, other) + 1
