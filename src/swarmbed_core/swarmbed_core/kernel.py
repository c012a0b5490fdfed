"""The one way this package compiles its hot loops.

Kernels are plain functions on arrays and numbers: no objects, no allocation that is not theirs, so
that worlds with thousands of robots can call them from loops of their own. They are cached on disk:
the first call after a change costs seconds, every later process a tenth of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")


def kernel(function: F) -> F:
    """Compile `function` with numba on its first call, from the disk cache where there is one."""
    return cast("F", numba.njit(cache=True, fastmath=False, error_model="numpy")(function))
