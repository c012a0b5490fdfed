"""What a run has found up to now, on the disk: after a kill `swarmbed mend` makes its files of it.

The file grows by a part every few seconds: a length, a checksum and an .npz archive each. A part that was not
written to its end is left out, the ones before it stay. The first one only says what is run. A run that ends
by itself, however it ends, deletes the file.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from swarmbed_experiments.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

NAME = "unfinished.journal"
MAGIC = b"swarmbed"
FRAME = struct.Struct("<8sQI")


class Journal:
    """Writes the parts."""

    def __init__(self, file: Path, about: Mapping[str, Any]) -> None:
        """Begin.

        Args:
            file: to write.
            about: plain values that say what is run.

        Raises:
            RunError: the file cannot be written.
        """
        self._file = file
        try:
            self._stream = file.open("wb")
            # For `swarmbed mend`, which leaves alone what somebody writes.
            with contextlib.suppress(OSError):
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"{file}: cannot be written ({error.strerror or error})"
            raise RunError(message) from None
        self.add({}, about)

    def add(self, arrays: Mapping[str, Any], texts: Mapping[str, Any]) -> None:
        """Write a part.

        Args:
            arrays: by name.
            texts: plain values beside them.

        Raises:
            RunError: it cannot be written.
        """
        archive = io.BytesIO()
        np.savez(archive, texts=np.array(json.dumps(texts)), **arrays)
        part = archive.getvalue()
        try:
            self._stream.write(FRAME.pack(MAGIC, len(part), zlib.crc32(part)) + part)
            self._stream.flush()
        except OSError as error:
            message = f"{self._file}: cannot be written ({error.strerror or error})"
            raise RunError(message) from None

    def close(self, *, remove: bool) -> None:
        """End, and delete the file if all that was in it is elsewhere now.

        Raises:
            OSError: it cannot be deleted.
        """
        self._stream.close()
        if remove:
            self._file.unlink(missing_ok=True)


def parts_of(file: Path) -> Iterator[tuple[dict[str, NDArray[Any]], dict[str, Any]]]:
    """Yield the whole parts of a journal, arrays and texts.

    Raises:
        RunError: it cannot be read.
    """
    try:
        whole = file.stat().st_size
        with file.open("rb") as stream:
            while len(head := stream.read(FRAME.size)) == FRAME.size:
                magic, length, checksum = FRAME.unpack(head)
                if magic != MAGIC or length > whole:
                    return
                part = stream.read(length)
                if len(part) != length or zlib.crc32(part) != checksum:
                    return
                with np.load(io.BytesIO(part), allow_pickle=False) as data:
                    arrays = {name: data[name] for name in data.files if name != "texts"}
                    yield arrays, json.loads(str(data["texts"]))
    except (OSError, ValueError, KeyError) as error:
        message = f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})"
        raise RunError(message) from None
