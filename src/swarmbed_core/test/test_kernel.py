"""What the compiled loops promise: like Python in Python, like IEEE where Python raises."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.kernel import KEPT, cache_directory, kernel

if TYPE_CHECKING:
    from pathlib import Path

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


def answer_of(folder: Path) -> str:
    """Return what a package of two files of kernels says, in a process of its own."""
    program = "import outer; print(outer.twice(1.0))"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_a_kernel_that_changed_in_another_file_is_compiled_again(tmp_path: Path) -> None:
    head = "from swarmbed_core.kernel import kernel\n"
    inner = tmp_path / "inner.py"
    inner.write_text(head + "@kernel\ndef step(x):\n    return x + 1.0\n")
    (tmp_path / "outer.py").write_text(
        head + "from inner import step\n@kernel\ndef twice(x):\n    return step(step(x))\n"
    )
    assert answer_of(tmp_path) == "3.0"
    caches = tmp_path / "__pycache__" / "kernels"
    (first,) = caches.iterdir()
    assert list(first.rglob("*.nbi"))
    assert answer_of(tmp_path) == "3.0"
    for i in range(KEPT + 1):
        inner.write_text(head + f"@kernel\ndef step(x):\n    return x + {i}.0\n")
        assert answer_of(tmp_path) == f"{1 + 2 * i}.0"
    assert len(list(caches.iterdir())) == KEPT


def test_a_directory_that_cannot_be_written_is_left_to_numba(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").write_text("in the way")
    assert cache_directory(tmp_path) is None
