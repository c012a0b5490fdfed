"""What the compiled loops promise: like Python in Python, like IEEE where Python raises."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

property_test = settings(deadline=None, max_examples=200, derandomize=True)


@kernel
def quotient(a: float, b: float) -> float:
    """Return a / b."""
    return a / b


@kernel
def total(values: FloatArray) -> float:
    """Return the sum, in order."""
    result = 0.0
    for i in range(values.shape[0]):
        result += values[i]
    return result


@kernel
def mean(values: FloatArray) -> float:
    """Return the mean, by two other kernels."""
    return quotient(total(values), float(values.shape[0]))


def test_a_division_by_zero_gives_what_ieee_says_and_no_exception() -> None:
    assert quotient(1.0, 0.0) == math.inf
    assert quotient(-1.0, 0.0) == -math.inf
    assert math.isnan(quotient(0.0, 0.0))


@property_test
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_sums_are_not_reordered(values: list[float]) -> None:
    result = 0.0
    for value in values:
        result += value
    assert total(np.array(values)) == result


def test_nan_is_respected() -> None:
    assert math.isnan(total(np.array([1.0, math.nan, 2.0])))


def test_kernels_call_kernels() -> None:
    assert mean(np.array([1.0, 2.0, 6.0])) == 3.0


def test_name_and_docstring_survive() -> None:
    assert quotient.__name__ == "quotient"
    assert quotient.__doc__ == "Return a / b."


def test_kernels_are_compiled_and_cached_on_disk() -> None:
    assert total(np.zeros(1)) == 0.0
    compiled = total
    assert len(compiled.signatures) == 1  # type: ignore[attr-defined]
    stats = compiled.stats  # type: ignore[attr-defined]
    assert stats.cache_path
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) >= 1
