"""Reads and writes the files of runs and benchmarks, with errors that name the file."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from swarmbed_experiments.errors import FULL, FailedError, RunError, unwritable

RUNS = Path("runs")
"""Default parent directory of results, in the current directory."""
MOST_RUNS_A_SECOND = 100


def new_directory(out: Path, name: str, seed: int) -> Path:
    """Create and return a directory for one run, named by name, time and seed.

    Raises:
        RunError: the directory cannot be created.
    """
    stamp = dt.datetime.now(tz=dt.UTC).strftime("%Y%m%d-%H%M%S")
    stem = f"{name}-{stamp}-{seed}"
    for suffix in ("", *(f".{i}" for i in range(2, MOST_RUNS_A_SECOND))):
        directory = out / f"{stem}{suffix}"
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            if directory.is_dir():
                continue
            message = f"{directory}: a file is in the way; choose another --out"
            raise RunError(message) from None
        except OSError as error:
            kind = FailedError if error.errno in FULL else RunError
            message = f"{directory}: cannot be made ({error.strerror}); choose another --out"
            raise kind(message) from None
        return directory
    message = f"{out}: already has {MOST_RUNS_A_SECOND - 1} runs called {stem}; choose another --out"
    raise RunError(message)


def make_ready(directory: Path, remedy: str) -> None:
    """Create a directory if it is missing, and check that it is writable.

    Raises:
        RunError: it is not; the message ends with `remedy`.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        message = f"{directory}: cannot be written ({error.strerror}); {remedy}"
        raise RunError(message) from None


def write_text(file: Path, text: str) -> None:
    """Write a text file.

    Raises:
        RunError: it cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from None


def read_text(file: Path) -> str:
    """Return the contents of a text file.

    Raises:
        RunError: it cannot be read or is not UTF-8.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})"
        raise RunError(message) from None


def replace_text(file: Path, text: str) -> None:
    """Replace a text file atomically: readers never see a part of it.

    Raises:
        RunError: it cannot be written.
    """
    aside = file.with_name(f".new-{file.name}")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(file)
    except OSError as error:
        message = f"{file}: cannot be written ({error.strerror})"
        raise RunError(message) from None


def write_json(file: Path, data: object) -> None:
    """Write `data` as indented JSON, with floats of six significant digits.

    Raises:
        RunError: it cannot be written.
    """
    write_text(file, as_json(data))


def as_json(data: object) -> str:
    """Return `data` as indented JSON, with floats of six significant digits; NaN and infinity become null."""
    return json.dumps(_rounded(data), indent=2) + "\n"


def read_json(file: Path) -> Any:
    """Return the contents of a JSON file.

    Raises:
        RunError: it cannot be read or is not JSON.
    """
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        message = f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})"
        raise RunError(message) from None


def _rounded(data: object) -> object:
    """Return `data` with floats rounded to six significant digits; those that are not finite become None."""
    if isinstance(data, dict):
        return {key: _rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_rounded(value) for value in data]
    if isinstance(data, float | np.floating):
        return float(f"{data:.6g}") if np.isfinite(data) else None
    return data
