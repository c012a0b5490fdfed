"""What the compiled loops promise: like Python in Python, like IEEE where Python raises."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.kernel import KEPT, cache_directory, kernel

from swarmbed_core import kernel as kernel_module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from swarmbed_core.geometry import FloatArray

pytestmark = pytest.mark.slow

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


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a package without a place for a cache, as in a clone of somebody else."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__pycache__").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    cache_directory.cache_clear()
    yield package
    cache_directory.cache_clear()


def test_where_the_package_cannot_be_written_the_users_cache_is_used(locked: Path, tmp_path: Path) -> None:
    found = cache_directory(locked)
    assert found is not None
    assert found.is_relative_to(tmp_path / "cache" / "swarmbed" / "kernels")


def test_without_a_home_it_is_a_private_temporary_directory(locked: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    found = cache_directory(locked)
    assert found is not None
    private = tmp_path / "temporary" / f"swarmbed-kernels-{os.getuid()}"
    assert found.is_relative_to(private)
    assert private.stat().st_mode & 0o777 == 0o700


def test_a_temporary_directory_that_others_may_write_is_not_trusted(locked: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    shared = tmp_path / "temporary" / f"swarmbed-kernels-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    assert cache_directory(locked) is None


def test_without_any_place_kernels_are_compiled_for_the_process_alone(tmp_path: Path) -> None:
    (tmp_path / "__pycache__").write_text("in the way")
    (tmp_path / "temporary").write_text("in the way")
    (tmp_path / "lone.py").write_text(
        "from swarmbed_core.kernel import kernel\n@kernel\ndef twice(x):\n    return 2.0 * x\n"
    )
    program = "import tempfile; tempfile.tempdir = '/proc/nowhere'; import lone; print(lone.twice(1.5))"
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "temporary"), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("NUMBA_CACHE_DIR", None)
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert result.stdout == "3.0\n"


def test_the_users_cache_begins_with_what_the_package_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "package"
    package.mkdir()
    cache_directory.cache_clear()
    theirs = cache_directory(package)
    assert theirs is not None
    (theirs / "a.nbi").write_text("compiled")
    made = kernel_module._made
    # Root may write everywhere, so that permissions would show nothing here.
    monkeypatch.setattr(kernel_module, "_made", lambda path: None if path == theirs else made(path))
    cache_directory.cache_clear()
    mine = cache_directory(package)
    cache_directory.cache_clear()
    assert mine is not None
    assert mine != theirs
    assert (mine / "a.nbi").read_text() == "compiled"
