"""The robot's lights, in the byte order of the real DOTS robots.

A value of the topic `led` encodes a colour as B[23:16] G[15:8] R[7:0]: red is 0x0000FF. All code packs and
unpacks colours here, because this order is unusual.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from swarmbed_core.errors import SwarmbedError
from swarmbed_core.health import Health

if TYPE_CHECKING:
    from collections.abc import Iterable

    from swarmbed_core import spec

BYTE: Final = 0xFF
LARGEST: Final = 0xFFFFFF


def pack(red: int, green: int, blue: int) -> int:
    """Return the packed value of a colour.

    Raises:
        SwarmbedError: a component is not within 0..255.
    """
    for name, part in (("red", red), ("green", green), ("blue", blue)):
        if not 0 <= part <= BYTE:
            message = f"{name} {part} must be within 0..255"
            raise SwarmbedError(message)
    return blue << 16 | green << 8 | red


def unpack(value: int) -> tuple[int, int, int]:
    """Return red, green and blue of a packed value.

    Raises:
        SwarmbedError: the value is not within 0..0xFFFFFF.
    """
    if not 0 <= value <= LARGEST:
        message = f"colour {value} must be within 0..0xFFFFFF"
        raise SwarmbedError(message)
    return value & BYTE, value >> 8 & BYTE, value >> 16


COLOURS: Final = {
    "off": pack(0, 0, 0),
    "red": pack(255, 0, 0),
    "green": pack(0, 255, 0),
    "blue": pack(0, 0, 255),
    "yellow": pack(255, 255, 0),
    "magenta": pack(255, 0, 255),
    "cyan": pack(0, 255, 255),
    "orange": pack(255, 128, 0),
    "white": pack(255, 255, 255),
}


def colour(name: str) -> int:
    """Return the packed value of a colour's name.

    Raises:
        SwarmbedError: the name is not in `COLOURS`.
    """
    value = COLOURS.get(name)
    if value is None:
        message = f"unknown colour '{name}': choose one of {', '.join(COLOURS)}"
        raise SwarmbedError(message)
    return value


class LedBar:
    """The state of the lights: the latest valid values."""

    __slots__ = ("_values", "health")

    def __init__(self, leds: spec.Leds, health: Health | None = None) -> None:
        """Create as many lights as the spec has, all off."""
        self._values = (0,) * leds.count
        self.health = Health() if health is None else health

    @property
    def values(self) -> tuple[int, ...]:
        """Return one packed colour per light."""
        return self._values

    def show(self, colours: Iterable[int]) -> bool:
        """Show one packed colour per light; return False and count it if any value is invalid."""
        try:
            values = tuple(operator.index(value) for value in colours)
        except TypeError:
            self.health.refuse("leds.not_integers", f"found {colours!r}, expected whole numbers")
            return False
        if len(values) != len(self._values):
            expected = len(self._values)
            self.health.refuse("leds.wrong_length", f"found {len(values)} values, expected {expected}")
            return False
        wrong = [value for value in values if not 0 <= value <= LARGEST]
        if wrong:
            self.health.refuse("leds.out_of_range", f"found {wrong[0]}, expected values within 0..0xFFFFFF")
            return False
        self._values = values
        return True

    def fill(self, value: int) -> bool:
        """Show one packed colour on every light."""
        return self.show((value,) * len(self._values))
