"""Parts that are real and virtual at once: hardware in the loop.

The program commands the real part and reads it; the virtual one follows what the real one reports, so that
the world shows what happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmbed_core.device import HOLD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.device import (
        LedsPart,
        LifterPart,
        LifterReading,
        MotorReading,
        Motors,
        PowerPart,
        PowerReading,
    )
    from swarmbed_core.geometry import FloatArray


class BothMotors:
    """Motors: the body in the world moves with the speeds that the real wheels report."""

    def __init__(self, real: Motors, virtual: Motors) -> None:
        """Combine two motors."""
        self._real, self._virtual = real, virtual
        self._hold = HOLD

    def enable(self, on: bool) -> None:
        """Switch both on or off."""
        self._virtual.enable(on)
        self._real.enable(on)

    def drive(self, speeds: FloatArray, hold: float = HOLD) -> None:
        """Set the speeds of the real wheels."""
        self._hold = hold
        self._real.drive(speeds, hold)

    def read(self) -> MotorReading:
        """Return the real wheels' reading; without another one, the body in the world stops likewise."""
        reading = self._real.read()
        self._virtual.drive(reading.speeds, self._hold)
        return reading


class BothLifter:
    """Lifting platform: the one in the world moves to the height that the real one reports."""

    def __init__(self, real: LifterPart, virtual: LifterPart) -> None:
        """Combine two platforms."""
        self._real, self._virtual = real, virtual

    def move(self, height: float) -> None:
        """Set the height of the real platform."""
        self._real.move(height)

    def read(self) -> LifterReading:
        """Return the real platform's reading."""
        reading = self._real.read()
        self._virtual.move(reading.height)
        return reading


class BothPower:
    """Battery and switch: both are switched, the real battery is read."""

    def __init__(self, real: PowerPart, virtual: PowerPart) -> None:
        """Combine two."""
        self._real, self._virtual = real, virtual

    def enable(self, on: bool) -> None:
        """Switch both on or off."""
        self._virtual.enable(on)
        self._real.enable(on)

    def read(self) -> PowerReading:
        """Return the real battery's reading."""
        return self._real.read()


class BothLeds:
    """Lights."""

    def __init__(self, real: LedsPart, virtual: LedsPart) -> None:
        """Combine two."""
        self._real, self._virtual = real, virtual

    def show(self, colours: Sequence[int]) -> None:
        """Show the colours on both."""
        self._virtual.show(colours)
        self._real.show(colours)
