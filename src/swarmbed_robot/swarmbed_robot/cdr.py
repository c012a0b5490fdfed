"""Messages of any size as bytes, field by field: to publish those costs a fraction of Python's messages.

What a message holds is for the caller to know: fields go in as its definition lists them; but for what radios
hear, thousands a second, which are written in one go. Tests read what comes out by ROS's own means.
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
"""What CDR begins with; its alignment counts from behind that."""
# What brings a length to the next multiple of 4 or 8, by its last bits.
_TO_4 = tuple(bytes(-n % 4) for n in range(4))
_TO_8 = tuple(bytes((4 - n) % 8) for n in range(8))
_DOUBLE, _DOUBLES2 = struct.Struct("<d").pack, struct.Struct("<dd").pack
_COUNT, _STAMP = struct.Struct("<I").pack, struct.Struct("<iI").pack
_LARGE = struct.Struct("<Q").pack
TEXTS = 4096
"""Texts that are kept as they go into messages: names of robots, radios, reasons."""


@lru_cache(TEXTS)
def _text(value: str) -> bytes:
    """Return a text with its length before it and a zero behind it."""
    raw = value.encode() + b"\0"
    return _COUNT(len(raw)) + raw


class Writer:
    """Bytes of a message that grows.

    Attributes:
        data: the bytes.
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
        """Write strings and how many they are."""
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
        """Write a float64[]; None is an empty one."""
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
        """Write a swarmbed_interfaces/RadioPacket: nothing comes in such numbers."""
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
