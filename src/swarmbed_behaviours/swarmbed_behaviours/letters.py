"""Messages of the handshake as bytes, for a robot's packet radio.

A packet holds several messages, each with 20 bytes of header: kind and flags, sender, receiver, talk, number,
and how many places follow. A packet radio has no channels, so a message only says whether it is private; its
sender and its receiver give the channel. Bytes that are no messages are ignored, like noise.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from swarmbed_behaviours.handshake import BROADCAST, PIECE, Kind, Message, channel_of

if TYPE_CHECKING:
    from collections.abc import Sequence

KINDS: Final = tuple(Kind)
KNOWS, GOT, PRIVATE, MOVES, TO_ONE = (1 << bit for bit in range(3, 8))
"""Flags beside the kind, which takes the lowest three bits."""
HEADER: Final = struct.Struct("<BIIdHB")
MOVING: Final = struct.Struct("<4d")
PLACE: Final = 16
"""Bytes of a place: x and y."""


def packed(message: Message) -> bytes:
    """Return a message as bytes."""
    flags = KINDS.index(message.kind)
    flags |= KNOWS * message.knows | GOT * message.got | PRIVATE * (message.channel != BROADCAST)
    flags |= MOVES * (message.moves is not None) | TO_ONE * (message.to >= 0)
    places = np.empty((0, 2)) if message.places is None else message.places
    head = HEADER.pack(flags, message.sender, max(message.to, 0), message.talk, message.number, len(places))
    moves = b"" if message.moves is None else MOVING.pack(*message.moves)
    return head + moves + np.asarray(places, np.dtype("<f8")).tobytes()


def unpacked(payload: bytes) -> list[Message]:
    """Return the messages in a packet, up to the first bytes that are none."""
    messages = []
    at = 0
    while at + HEADER.size <= len(payload):
        flags, sender, to, talk, number, count = HEADER.unpack_from(payload, at)
        at += HEADER.size
        moves = None
        size = MOVING.size * bool(flags & MOVES) + PLACE * count
        kind = flags & 7
        if at + size > len(payload) or kind >= len(KINDS) or count > PIECE or not math.isfinite(talk):
            break
        if flags & MOVES:
            moves = MOVING.unpack_from(payload, at)
            at += MOVING.size
        places = np.frombuffer(payload, np.dtype("<f8"), 2 * count, at).reshape(-1, 2).copy()
        at += PLACE * count
        if not np.isfinite(places).all() or not all(map(math.isfinite, moves or ())):
            break
        messages.append(
            Message(
                KINDS[kind],
                channel_of(sender, to) if flags & PRIVATE else BROADCAST,
                sender,
                to if flags & TO_ONE else -1,
                bool(flags & KNOWS),
                talk,
                number,
                bool(flags & GOT),
                places if count else None,
                moves,
            )
        )
    return messages


class Letterbox:
    """Packs the messages of each tick into one packet.

    The handshake repeats what is not confirmed, so that messages that do not fit need not be kept: those that
    waited longest go first.
    """

    def __init__(self, room: int) -> None:
        """Fill packets of up to `room` bytes."""
        self._room = room
        self._packets = 0
        self._sent: dict[tuple[Kind, int], int] = {}

    def packet(self, messages: Sequence[Message]) -> bytes:
        """Return as many of these messages as fit."""
        self._packets += 1
        keys = [(message.kind, message.number) for message in messages]
        self._sent = {key: self._sent.get(key, 0) for key in keys}
        out = b""
        for k in sorted(range(len(messages)), key=lambda k: self._sent[keys[k]]):
            made = packed(messages[k])
            if len(out) + len(made) <= self._room:
                out += made
                self._sent[keys[k]] = self._packets
        return out
