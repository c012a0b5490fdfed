"""What robots tell each other: 24 bytes of a BLE advertisement, ten times a second (DOTS paper, III-A6).

A robot says where it is by its own dead reckoning, along the compass's axes; what it does and where it
wants to; which carrier it claims and how far it has to go for it; and, one after the other, which carriers
it knows of. Who hears it may understand none of the places, as long as it does not know where the other's
origin is (`swarmbed_behaviours.neighbours`), and still makes use of the rest.

Nothing that is wrong gets through: version, checksum, lengths and codes are checked, and whatever else
advertises in the room is refused.
"""

from __future__ import annotations

import math
import struct
from binascii import crc_hqx
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

VERSION: Final = 1
PREFIX: Final = 0xB0 | VERSION
"""The first byte: whose message it is, and in which version."""

# Prefix, state and flags, counter, x, y, vx, vy, aim bearing, aim distance, claim, cost, item id,
# status and age, item x, item y, checksum.
_FORM: Final = struct.Struct("<BBBhhbbBBBBBBhh3xH")
SIZE: Final = _FORM.size
_BODY: Final = SIZE - 2

_METRE: Final = 200.0
"""Steps of a place in a metre: 5 mm, up to 163 m away."""
_SPEED: Final = 50.0
_COST: Final = 10.0
_AIM: Final = 10.0
_BEARING: Final = 256.0 / (2.0 * math.pi)
_AGE: Final = 2.0
"""Steps of an age in a second."""
_AGE_MAX: Final = 63
OLD: Final = 1000.0
"""The age of all that is older than half a minute."""
_ID_MAX: Final = 254
_NO_ID: Final = 255


class State(IntEnum):
    """What a robot does, as far as it concerns the others."""

    IDLE = 0
    SEARCH = 1
    APPROACH = 2
    DOCK = 3
    CARRY = 4
    DEPOSIT = 5
    LEAVE = 6


class Status(IntEnum):
    """What is known of a carrier."""

    FREE = 0
    """It stands on the floor and waits."""
    TAKEN = 1
    """A robot has it."""
    DELIVERED = 2
    """It stands in the drop zone."""
    GONE = 3
    """It is not where it was seen."""


_STATE, _OWN, _ANCHORED = 0x3F, 0x40, 0x80
_STATES: Final = tuple(State)
_STATUSES: Final = tuple(Status)


@dataclass(frozen=True, slots=True)
class Item:
    """One carrier as the sender knows it: where by its own frame, and how many seconds ago that was true.

    `own` says that the sender saw it itself there, and did not hear of it.
    """

    id: int
    status: Status
    age: float
    x: float
    y: float
    own: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One advertisement; lengths in metres, axes along the compass's, origin the sender's own.

    Attributes:
        state: what the sender does.
        anchored: whether its x is 0 at the edge of the drop zone.
        counter: of its messages, modulo 256.
        x: where it is.
        y: where it is.
        vx: its velocity.
        vy: its velocity.
        aim_x: where it wants to, seen from where it is.
        aim_y: where it wants to, seen from where it is.
        claim: the marker id of the carrier that it claims or has, if any.
        cost: metres that it has to go for what it claims.
        item: a carrier that it knows of.
    """

    state: State
    anchored: bool
    counter: int
    x: float
    y: float
    vx: float = 0.0
    vy: float = 0.0
    aim_x: float = 0.0
    aim_y: float = 0.0
    claim: int | None = None
    cost: float = 0.0
    item: Item | None = None

    @property
    def loaded(self) -> bool:
        """Return whether the sender has a carrier on its platform."""
        return self.state is State.CARRY or self.state is State.DEPOSIT


def _short(value: float, steps: float) -> int:
    return max(-0x7FFF, min(0x7FFF, round(value * steps)))


def _byte(value: float, steps: float) -> int:
    return max(-0x7F, min(0x7F, round(value * steps)))


def _count(value: float, steps: float) -> int:
    return max(0, min(0xFF, round(value * steps)))


def _age(seconds: float) -> int:
    """Return the code of an age, rounded up: what is told again and again must not become younger by it."""
    return max(0, min(_AGE_MAX, math.ceil(min(seconds, OLD) * _AGE)))


def encode(message: Message) -> bytes:
    """Return the bytes of a message; numbers out of range are cut to what there are codes for.

    Marker ids above 254 and below 0 cannot be told: such a carrier is left out.
    """
    item = message.item
    if item is not None and not 0 <= item.id <= _ID_MAX:
        item = None
    claim = message.claim if message.claim is not None and 0 <= message.claim <= _ID_MAX else None
    bearing = round(math.atan2(message.aim_y, message.aim_x) * _BEARING) % 256
    body = _FORM.pack(
        PREFIX,
        int(message.state) | _ANCHORED * message.anchored | _OWN * (item is not None and item.own),
        message.counter % 256,
        _short(message.x, _METRE),
        _short(message.y, _METRE),
        _byte(message.vx, _SPEED),
        _byte(message.vy, _SPEED),
        bearing,
        _count(math.hypot(message.aim_x, message.aim_y), _AIM),
        _NO_ID if claim is None else claim,
        _count(message.cost, _COST),
        _NO_ID if item is None else item.id,
        0 if item is None else int(item.status) << 6 | _age(item.age),
        0 if item is None else _short(item.x, _METRE),
        0 if item is None else _short(item.y, _METRE),
        0,
    )[:_BODY]
    return body + crc_hqx(body, 0).to_bytes(2, "little")


@lru_cache(maxsize=256)  # all receivers of one process decode the same bytes
def decode(payload: bytes) -> Message | None:
    """Return what the bytes say, None if they are no message of this version."""
    if len(payload) != SIZE or payload[0] != PREFIX:
        return None
    (_, flags, counter, x, y, vx, vy, bearing, reach, claim, cost, known, status, item_x, item_y, told) = (
        _FORM.unpack(payload)
    )
    if told != crc_hqx(payload[:_BODY], 0):
        return None
    code = flags & _STATE
    if code >= len(_STATES):
        return None
    item = None
    if known != _NO_ID:
        code_age = status & _AGE_MAX
        age = OLD if code_age == _AGE_MAX else code_age / _AGE
        item = Item(known, _STATUSES[status >> 6], age, item_x / _METRE, item_y / _METRE, bool(flags & _OWN))
    angle = bearing / _BEARING
    return Message(
        state=_STATES[code],
        anchored=bool(flags & _ANCHORED),
        counter=counter,
        x=x / _METRE,
        y=y / _METRE,
        vx=vx / _SPEED,
        vy=vy / _SPEED,
        aim_x=reach / _AIM * math.cos(angle),
        aim_y=reach / _AIM * math.sin(angle),
        claim=None if claim == _NO_ID else claim,
        cost=cost / _COST,
        item=item,
    )
