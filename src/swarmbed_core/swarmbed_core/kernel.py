"""Compilation of the hot loops ("kernels") with numba, and its disk cache.

Kernels are plain functions on arrays and numbers, without objects or hidden allocations, so that worlds with
thousands of robots can call them in loops of their own. They are cached on disk: the first call after a
change costs seconds, in every later process a tenth of a second.

To detect a stale cache, numba checks only the kernel's own file, so it would keep running old code of kernels
from other files. Therefore each version of the sources of a package, and of this one, has its own cache
directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba
from numba.core import config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# numba sets these attributes from the environment at run time: type checkers do not see them.
settings = cast("Any", config)

F = TypeVar("F", bound="Callable[..., object]")

KEPT = 4
"""Cache directories kept per package: the current version of the sources and the latest before it."""


def kernel(function: F) -> F:
    """Compile `function` with numba on its first call, or load it from the disk cache."""
    return _compiled(function, nogil=False)


def free_kernel(function: F) -> F:
    """Compile like `kernel`, but release the GIL. For long-running work only: releasing it costs time too."""
    return _compiled(function, nogil=True)


def _compiled(function: F, *, nogil: bool) -> F:
    directory = cache_directory(Path(function.__code__.co_filename).resolve().parent)
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(directory) if directory else before
    try:
        compiled = numba.njit(cache=directory is not None, fastmath=False, error_model="numpy", nogil=nogil)(
            function
        )
    finally:
        settings.CACHE_DIR = before
    return cast("F", compiled)


@cache
def cache_directory(package: Path) -> Path | None:
    """Return the cache directory for the kernels of a package, or None if none is writable.

    It is in `NUMBA_CACHE_DIR` if set, else in the package's `__pycache__`. If that is not writable, it is in
    the user's cache directory or a private temporary directory, and starts as a copy of the package's cache.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for folder in sorted({package, Path(__file__).resolve().parent}):
        for file in sorted(folder.glob("*.py")):
            source = file.read_bytes()
            # Files without kernels do not affect the cache, and change often.
            if b"@kernel" in source or b"@free_kernel" in source:
                digest.update(source)
    state = digest.hexdigest()[:16]
    named = settings.CACHE_DIR
    kernels = Path(named) if named else package / "__pycache__" / "kernels"
    chosen = _made(kernels / state)
    if chosen is not None and not named:
        _forget(kernels)
    if chosen is not None:
        return chosen
    for own in _users_caches():
        mine = own / f"{package.name}-{zlib.crc32(str(package).encode(errors='surrogateescape')):08x}"
        fresh = not (mine / state).exists()
        chosen = _made(mine / state)
        if chosen is not None:
            _forget(mine)
            if fresh:
                with contextlib.suppress(OSError, shutil.Error):
                    shutil.copytree(kernels / state, chosen, dirs_exist_ok=True)
            return chosen
    return None


def _made(directory: Path) -> Path | None:
    """Create a directory if needed; return it if it is writable, else None."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            directory.touch()
    except OSError:
        return None
    return directory


def _forget(kernels: Path) -> None:
    """Remove all but the newest `KEPT` cache directories."""
    with contextlib.suppress(OSError):
        by_age = sorted(kernels.iterdir(), key=lambda folder: folder.stat().st_mtime)
        for old in by_age[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _users_caches() -> Iterator[Path]:
    """Yield cache directories of the user's own. Nobody else may write to them: code is loaded from them."""
    with contextlib.suppress(RuntimeError):
        named = os.environ.get("XDG_CACHE_HOME")
        yield (Path(named) if named else Path("~/.cache").expanduser()) / "swarmbed" / "kernels"
    temporary = Path(tempfile.gettempdir()) / f"swarmbed-kernels-{os.getuid()}"
    with contextlib.suppress(OSError):
        temporary.mkdir(mode=0o700, exist_ok=True)
        status = temporary.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            yield temporary
