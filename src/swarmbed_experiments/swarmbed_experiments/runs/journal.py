"""The journal of an unfinished run on disk, from which `swarmbed mend` recovers the results after a kill.

The file grows by a part every few seconds: length, checksum and an .npz archive. Readers ignore an incomplete
part and keep those before it. The first part only describes the run. A run that ends in any way other than a
kill deletes the file.
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
    """Writes a journal."""

    def __init__(self, file: Path, about: Mapping[str, Any]) -> None:
        """Create the file, lock it, and write the first part.

        Args:
            file: file to write.
            about: JSON values that describe the run.

        Raises:
            RunError: the file cannot be written.
        """
        self._file = file
        try:
            self._stream = file.open("wb")
            # The lock keeps `swarmbed mend` from files that are being written.
            with contextlib.suppress(OSError):
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"{file}: cannot be written ({error.strerror or error})"
            raise RunError(message) from None
        self.add({}, about)

    def add(self, arrays: Mapping[str, Any], texts: Mapping[str, Any]) -> None:
        """Write a part.

        Args:
            arrays: arrays by name.
            texts: JSON values by name.

        Raises:
            RunError: the file cannot be written.
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
        """Close the file, and delete it if its contents have been written elsewhere.

        Raises:
            OSError: the file cannot be deleted.
        """
        self._stream.close()
        if remove:
            self._file.unlink(missing_ok=True)


def parts_of(file: Path) -> Iterator[tuple[dict[str, NDArray[Any]], dict[str, Any]]]:
    """Yield the arrays and texts of the complete parts of a journal.

    Raises:
        RunError: the file cannot be read.
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
