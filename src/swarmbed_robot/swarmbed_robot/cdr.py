"""Writes messages of variable size as CDR bytes, field by field.

Publishing bytes costs a fraction of publishing Python messages. The caller writes the fields in the order of
the message's definition. Radio packets and contacts, thousands per second, are written in one call each.
Tests read the bytes back with ROS's own deserialisation.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

LITTLE_ENDIAN = bytes((0, 1, 0, 0))
"""The CDR header; alignment counts from its end."""
# Padding to the next multiple of 4 or 8, by the last bits of the length including the header.
_TO_4 = tuple(bytes(-n % 4) for n in range(4))
_TO_8 = tuple(bytes((4 - n) % 8) for n in range(8))
_DOUBLE, _DOUBLES2 = struct.Struct("<d").pack, struct.Struct("<dd").pack
_COUNT, _STAMP = struct.Struct("<I").pack, struct.Struct("<iI").pack
_LARGE = struct.Struct("<Q").pack
TEXTS = 4096
"""Size of the cache of serialised strings: names of robots and radios, reasons."""


@lru_cache(TEXTS)
def _text(value: str) -> bytes:
    """Return a string in CDR: its length, the text and a terminating zero."""
    raw = value.encode() + b"\0"
    return _COUNT(len(raw)) + raw


class Writer:
    """Serialises one message, field after field.

    Attributes:
        data: the bytes written so far.
    """

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray(LITTLE_ENDIAN)

    def header(self, stamp: tuple[int, int], frame: str) -> None:
        """Write a std_msgs/Header."""
        data = self.data
        data += _TO_4[len(data) & 3]
        data += _STAMP(*stamp)
        data += _text(frame)

    def text(self, value: str) -> None:
        """Write a string."""
        data = self.data
        data += _TO_4[len(data) & 3]
        data += _text(value)

    def texts(self, values: Sequence[str]) -> None:
        """Write a string[]."""
        self.count(len(values))
        for value in values:
            self.text(value)

    def byte(self, value: int) -> None:
        """Write a bool or a uint8."""
        self.data.append(value)

    def count(self, value: int) -> None:
        """Write a uint32."""
        data = self.data
        data += _TO_4[len(data) & 3]
        data += _COUNT(value)

    def signed(self, value: int) -> None:
        """Write an int32."""
        self.count(value & 0xFFFFFFFF)

    def number(self, value: float) -> None:
        """Write a float64."""
        data = self.data
        data += _TO_8[len(data) & 7]
        data += _DOUBLE(value)

    def fixed(self, values: ArrayLike) -> None:
        """Write a float64[N]."""
        data = self.data
        data += _TO_8[len(data) & 7]
        data += np.asarray(values, np.float64).tobytes()

    def numbers(self, values: ArrayLike | None) -> None:
        """Write a float64[]; None is written as an empty one."""
        raw = b"" if values is None else np.asarray(values, np.float64).tobytes()
        data = self.data
        data += _TO_4[len(data) & 3]
        data += _COUNT(len(raw) // 8)
        if raw:
            data += _TO_8[len(data) & 7]
            data += raw

    def large_counts(self, values: Sequence[int]) -> None:
        """Write a uint64[]."""
        self.count(len(values))
        data = self.data
        for value in values:
            data += _TO_8[len(data) & 7]
            data += _LARGE(value)

    def packet(self, radio: str, stamp: float, sender: str, payload: bytes, rssi: float, far: float) -> None:
        """Write a swarmbed_interfaces/RadioPacket, the most frequent of all."""
        data = self.data
        data += _TO_4[len(data) & 3]
        data += _text(radio)
        data += _TO_8[len(data) & 7]
        data += _DOUBLE(stamp)
        data += _text(sender)
        data += _TO_4[len(data) & 3]
        data += _COUNT(len(payload))
        data += payload
        data += _TO_8[len(data) & 7]
        data += _DOUBLES2(rssi, far)

    def contact(self, peer: str, rssi: float, far: float, content: bytes) -> None:
        """Write a swarmbed_interfaces/RadioContact."""
        data = self.data
        data += _TO_4[len(data) & 3]
        data += _text(peer)
        data += _TO_8[len(data) & 7]
        data += _DOUBLES2(rssi, far)
        data += _COUNT(len(content))
        data += content
