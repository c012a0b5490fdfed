"""The one way this package compiles its hot loops.

Kernels are plain functions on arrays and numbers: no objects, no allocation that is not theirs, so
that worlds with thousands of robots can call them from loops of their own. They are cached on disk:
the first call after a change costs seconds, every later process a tenth of one.

numba looks only at a kernel's own file when it asks whether its cache is stale, and so would go on running
the old code of kernels that another file holds. Here every state of the sources of a package, and of this
one, has a cache directory of its own.
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

# numba fills its settings in from the environment: no type checker sees them.
settings = cast("Any", config)

F = TypeVar("F", bound="Callable[..., object]")

KEPT = 4
"""Cache directories kept for a package: this state of the sources and the latest before it."""


def kernel(function: F) -> F:
    """Compile `function` with numba on its first call, from the disk cache where there is one."""
    return _compiled(function, nogil=False)


def free_kernel(function: F) -> F:
    """Compile likewise what other threads may run beside: for long work, since letting go costs time too."""
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
    """Return where the kernels of a package are cached, None where nothing can be written.

    That is `NUMBA_CACHE_DIR` if it is set, else a directory within the package's `__pycache__`. Where
    somebody else owns these it is the user's own cache directory, or one for temporary files, and begins with
    what is in the package's.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    for folder in sorted({package, Path(__file__).resolve().parent}):
        for file in sorted(folder.glob("*.py")):
            source = file.read_bytes()
            # Others have no part in a kernel, and change often.
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
    """Return a directory that is there now and can be written; None if it cannot be."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            directory.touch()
    except OSError:
        return None
    return directory


def _forget(kernels: Path) -> None:
    """Remove the oldest cache directories."""
    with contextlib.suppress(OSError):
        by_age = sorted(kernels.iterdir(), key=lambda folder: folder.stat().st_mtime)
        for old in by_age[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)


def _users_caches() -> Iterator[Path]:
    """Yield directories for what is of the user alone: code comes out of them."""
    with contextlib.suppress(RuntimeError):
        named = os.environ.get("XDG_CACHE_HOME")
        yield (Path(named) if named else Path("~/.cache").expanduser()) / "swarmbed" / "kernels"
    temporary = Path(tempfile.gettempdir()) / f"swarmbed-kernels-{os.getuid()}"
    with contextlib.suppress(OSError):
        temporary.mkdir(mode=0o700, exist_ok=True)
        status = temporary.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            yield temporary
