"""Messages of cooperative robots: 24 bytes of a BLE advertisement, ten times a second (DOTS paper, III-A6).

A robot sends its position by dead reckoning, along the compass's axes; its state and its aim; the carrier it
claims and its distance to it; and, one per message in turn, the carriers it knows of. A receiver can use the
positions only if it knows the sender's origin (`swarmbed_behaviours.neighbours`), and the rest in any case.

Invalid messages are rejected: version, checksum, length and codes are checked, so foreign advertisements are
ignored.
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
"""The first byte: identifies our messages and their version."""

# Prefix, state and flags, counter, x, y, vx, vy, aim bearing, aim distance, claim, cost, item id,
# status and age, item x, item y, checksum.
_FORM: Final = struct.Struct("<BBBhhbbBBBBBBhh3xH")
SIZE: Final = _FORM.size
_BODY: Final = SIZE - 2

_METRE: Final = 200.0
"""Steps per metre of a position: 5 mm, up to 163 m away."""
_SPEED: Final = 50.0
_COST: Final = 10.0
_AIM: Final = 10.0
_BEARING: Final = 256.0 / (2.0 * math.pi)
_AGE: Final = 2.0
"""Steps per second of an age."""
_AGE_MAX: Final = 63
OLD: Final = 1000.0
"""Age in seconds that is decoded for everything older than half a minute."""
_ID_MAX: Final = 254
_NO_ID: Final = 255


class State(IntEnum):
    """What a robot is doing, as sent to the others."""

    IDLE = 0
    SEARCH = 1
    APPROACH = 2
    DOCK = 3
    CARRY = 4
    DEPOSIT = 5
    LEAVE = 6


class Status(IntEnum):
    """State of a carrier."""

    FREE = 0
    """It stands on the floor, to be picked up."""
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
    """The sender's knowledge of one carrier: its place in the sender's frame, and its age in seconds.

    `own` is True if the sender saw it there itself, and False if it only received the information.
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
        state: what the sender is doing.
        anchored: whether its x is 0 at the edge of the drop zone.
        counter: of its messages, modulo 256.
        x: its position.
        y: likewise.
        vx: its velocity.
        vy: likewise.
        aim_x: its aim, relative to its position.
        aim_y: likewise.
        claim: marker id of the carrier that it claims or has, if any.
        cost: distance in metres to the carrier that it claims.
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
    """Encode an age, rounded up: information that is passed on repeatedly must not get younger."""
    return max(0, min(_AGE_MAX, math.ceil(min(seconds, OLD) * _AGE)))


def encode(message: Message) -> bytes:
    """Encode a message; numbers are clipped to the range of their codes.

    Marker ids above 254 and below 0 cannot be encoded: such a carrier is left out.
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
    """Decode a message; None if the bytes are not a valid message of this version."""
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
