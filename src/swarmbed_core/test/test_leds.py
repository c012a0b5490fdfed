"""The byte order of the real robots' lights, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.leds import COLOURS, LedBar, colour, pack, unpack
from swarmbed_core.spec import Leds, RobotSpec

property_test = settings(deadline=None, max_examples=300, derandomize=True)
part = st.integers(0, 255)


@property_test
@given(part, part, part)
def test_packing_round_trips(red: int, green: int, blue: int) -> None:
    assert unpack(pack(red, green, blue)) == (red, green, blue)


@property_test
@given(st.integers(0, 0xFFFFFF))
def test_unpacking_round_trips(value: int) -> None:
    assert pack(*unpack(value)) == value


def test_the_order_is_the_contracts() -> None:
    assert pack(0xAA, 0xBB, 0xCC) == 0xCCBBAA
    assert colour("red") == 0x0000FF
    assert colour("green") == 0x00FF00
    assert colour("blue") == 0xFF0000
    assert colour("orange") == 0x0080FF
    assert colour("off") == 0


def test_every_colour_has_its_own_value() -> None:
    assert len(set(COLOURS.values())) == len(COLOURS)


@pytest.mark.parametrize("wrong", [(256, 0, 0), (0, -1, 0), (0, 0, 1000)])
def test_parts_out_of_range_are_errors(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(SwarmbedError, match=r"within 0\.\.255"):
        pack(*wrong)


@pytest.mark.parametrize("wrong", [-1, 0x1000000])
def test_values_out_of_range_are_errors(wrong: int) -> None:
    with pytest.raises(SwarmbedError, match="0xFFFFFF"):
        unpack(wrong)


def test_an_unknown_colour_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(SwarmbedError, match=r"'mauve'.*off, red"):
        colour("mauve")


def test_lights_are_dark_until_told() -> None:
    assert LedBar(Leds(count=3)).values == (0, 0, 0)


def test_dots_shows_sixteen_values() -> None:
    leds = RobotSpec.load("dots").leds
    assert leds is not None
    bar = LedBar(leds)
    values = list(range(16))
    assert bar.show(values)
    assert bar.values == tuple(values)
    assert bar.show(np.full(16, 0xFFFFFF, dtype=np.int32))
    assert bar.values == (0xFFFFFF,) * 16
    assert all(type(value) is int for value in bar.values)
    assert bar.fill(colour("red"))
    assert bar.values == (0xFF,) * 16
    assert bar.health.total == 0


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ([1, 2], "leds.wrong_length"),
        ([], "leds.wrong_length"),
        ([1, 2, 3, 4], "leds.wrong_length"),
        ([1, 2, -1], "leds.out_of_range"),
        ([1, 2, 0x1000000], "leds.out_of_range"),
        ([1, 2, 3.0], "leds.not_integers"),
        ([1, 2, None], "leds.not_integers"),
        (["red", 2, 3], "leds.not_integers"),
        (7, "leds.not_integers"),
        (np.array([1.0, float("nan"), 3.0]), "leds.not_integers"),
    ],
)
def test_wrong_values_are_refused_whole_and_counted(wrong: object, reason: str) -> None:
    bar = LedBar(Leds(count=3))
    bar.show([7, 8, 9])
    assert not bar.show(wrong)  # type: ignore[arg-type]
    assert bar.values == (7, 8, 9)
    assert bar.health.counts == {reason: 1}
