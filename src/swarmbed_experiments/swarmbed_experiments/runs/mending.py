"""Repair of what a killed process left behind: `swarmbed mend`.

Recordings get the index that other tools need to open them. The journal becomes track, time series, pictures
and a summary with the verdict `killed`. Metrics are only computed at the end of a run, so they are lost,
except for the last row of the time series.
"""

from __future__ import annotations

import contextlib
import fcntl
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from mcap.opcode import Opcode
from mcap.records import Attachment, Channel, DataEnd, Header, Message, Metadata, Schema
from mcap.stream_reader import StreamReader
from mcap.writer import MCAP0_MAGIC, CompressionType, Writer
from swarmbed_core.errors import SwarmbedError

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import as_json, replace_text
from swarmbed_experiments.runs.journal import NAME as JOURNAL
from swarmbed_experiments.runs.journal import parts_of
from swarmbed_experiments.runs.output import redraw, write_rows
from swarmbed_experiments.runs.summary import Summary
from swarmbed_experiments.runs.track import Track

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

FOOTER = struct.Struct("<BQ")
END = FOOTER.size + 20 + len(MCAP0_MAGIC)
"""Size in bytes of the last record of an MCAP file and the magic bytes after it."""


def mend(place: Path) -> list[str]:
    """Repair incomplete files, and return a line about each repair.

    Args:
        place: the directory of a run, or a recording.

    Raises:
        RunError: `place` is neither, a process still writes it, or files cannot be read or written.
    """
    if place.is_file():
        return _mend_recordings([place])
    journal = place / JOURNAL
    recordings = sorted(place.glob("*.mcap")) if place.is_dir() else []
    if not (journal.exists() or recordings or (place / "summary.json").exists()):
        message = f"{place}: neither a run's directory nor a recording (*.mcap)"
        raise RunError(message)
    if journal.exists():
        _check_that_nobody_writes(journal)
    done = _mend_recordings(recordings)
    if journal.exists():
        done += _mend_run(place, journal)
    return done


def _check_that_nobody_writes(file: Path) -> None:
    """Reject a file that a running process writes: writers hold a lock on it.

    Raises:
        RunError: a process holds the lock, or the file cannot be read.
    """
    try:
        with file.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        message = f"{file}: a process is still writing it; repeat the command when that process has ended"
        raise RunError(message) from None
    except OSError as error:
        message = f"{file}: cannot be read ({error.strerror or error})"
        raise RunError(message) from None


# Recordings


def _mend_recordings(files: Sequence[Path]) -> list[str]:
    done = []
    for file in files:
        if not is_whole(file):
            _check_that_nobody_writes(file)
            done.append(f"{file}: {mend_recording(file)} messages")
    return done


def is_whole(file: Path) -> bool:
    """Return whether a recording is complete.

    Raises:
        RunError: it cannot be read.
    """
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - END))
            end = stream.read()
    except OSError as error:
        message = f"{file}: cannot be read ({error.strerror or error})"
        raise RunError(message) from None
    footer = FOOTER.pack(Opcode.FOOTER, 20)
    return len(end) == END and end.startswith(footer) and end.endswith(MCAP0_MAGIC)


def mend_recording(file: Path) -> int:
    """Rewrite a recording with all its complete messages and an index; return the number of messages.

    Raises:
        RunError: it is not a recording, or cannot be read or written.
    """
    aside = file.with_name(f".new-{file.name}")
    try:
        with file.open("rb") as source:
            start = source.read(len(MCAP0_MAGIC))
            if not MCAP0_MAGIC.startswith(start):
                message = f"{file}: not an MCAP file"
                raise RunError(message)
            source.seek(0)
            with aside.open("wb") as target:
                count = _copy(StreamReader(source), Writer(target, compression=CompressionType.ZSTD))
        aside.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        message = f"{file}: cannot be repaired ({error.strerror or error})"
        raise RunError(message) from None
    return count


def _copy(reader: StreamReader, writer: Writer) -> int:
    """Copy records up to the first incomplete one; return the number of messages copied."""
    records = reader.records
    schemas, channels = {0: 0}, {}
    started, count = False, 0
    while True:
        try:
            record = next(records, None)
        except OSError:
            raise
        except Exception:  # noqa: BLE001 - truncated data can raise anything
            record = None
        if isinstance(record, Header):
            writer.start(record.profile, record.library)
            started = True
        elif record is None or isinstance(record, DataEnd):
            break
        elif isinstance(record, Schema):
            if record.id not in schemas:
                schemas[record.id] = writer.register_schema(record.name, record.encoding, record.data)
        elif isinstance(record, Channel):
            if record.id not in channels:
                channels[record.id] = writer.register_channel(
                    record.topic, record.message_encoding, schemas[record.schema_id], record.metadata
                )
        elif isinstance(record, Message):
            channel, log_time = channels[record.channel_id], record.log_time
            writer.add_message(channel, log_time, record.data, record.publish_time, record.sequence)
            count += 1
        elif isinstance(record, Attachment):
            writer.add_attachment(
                record.create_time, record.log_time, record.name, record.media_type, record.data
            )
        elif isinstance(record, Metadata):
            writer.add_metadata(record.name, record.metadata)
    if not started:
        writer.start(profile="ros2", library="swarmbed")
    writer.finish()  # type: ignore[no-untyped-call]
    return count


# The run


def _mend_run(directory: Path, journal: Path) -> list[str]:
    """Turn a journal into a run's results, and delete it."""
    parts = list(parts_of(journal))
    if not parts:
        journal.unlink()
        return [f"{journal}: empty, deleted"]
    about, texts = dict(parts[0][1]), [text for _, text in parts[1:]]
    names = {key: about.pop(f"{key}_named") for key in ("robots", "carriers")}
    for text in texts:
        # Robots that joined come after those of the start.
        names["robots"] = max(names["robots"], text.get("robots", ()), key=len)
    track = _joined(names, [arrays for arrays, _ in parts[1:]], texts)
    rows = [row for text in texts for row in text["rows"]]
    write_rows(directory / "metrics.parquet", rows)
    track.save(directory / "track.npz")
    seconds = float(track.times[-1]) if len(track.times) else 0.0
    done = [f"{directory}: track and time series of {seconds:.1f} s"]
    if not (directory / "summary.json").exists():
        replace_text(directory / "summary.json", as_json(_summary(about, seconds, rows)))
        done.append(f"{directory / 'summary.json'}: verdict killed, no metrics")
    journal.unlink()
    try:
        done += [f"{file}: drawn" for file in redraw(directory)]
    except SwarmbedError as error:
        done.append(f"no pictures: {error}")
    return done


def _joined(
    names: Mapping[str, Sequence[str]],
    arrays: Sequence[Mapping[str, NDArray[Any]]],
    texts: Sequence[Mapping[str, Any]],
) -> Track:
    """Return the track, joined from the parts of the journal."""
    robots, carriers = len(names["robots"]), len(names["carriers"])
    empty: dict[str, NDArray[Any]] = {
        "times": np.zeros(0),
        "poses": np.zeros((0, robots, 3), np.float32),
        "doing": np.zeros((0, robots), np.int16),
        "carrier_poses": np.zeros((0, carriers, 3), np.float32),
        "carried_by": np.zeros((0, carriers), np.int32),
    }
    whole = {
        name: np.concatenate([none, *(_wide(part[name], none) for part in arrays)])
        for name, none in empty.items()
    }
    events = sorted((event for text in texts for event in text["events"]), key=lambda event: float(event[0]))
    deeds = [deed for text in texts for deed in text["deeds"]] or [""]
    return Track.of({**names, "deeds": deeds, "events": events}, whole)


def _wide(array: NDArray[Any], none: NDArray[Any]) -> NDArray[Any]:
    """Return an array with as many columns as another; robots that had not joined yet are nowhere."""
    if array.ndim < 2 or array.shape[1] == none.shape[1]:
        return array
    fill = np.nan if none.dtype.kind == "f" else 0
    made = np.full((len(array), *none.shape[1:]), fill, dtype=none.dtype)
    made[:, : array.shape[1]] = array
    return made


def _summary(about: Mapping[str, Any], seconds: float, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summary of a killed run."""
    return Summary.of(
        {
            **about,
            "verdict": "killed",
            "reason": f"the process was killed; its last saved state is from {seconds:.1f} s",
            "sim_seconds": seconds,
            "metrics": {},
            "last_row": dict(rows[-1]) if rows else {},
        },
        JOURNAL,
    ).as_data()
