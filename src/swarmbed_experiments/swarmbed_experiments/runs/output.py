"""The files of a run: recording, journal, orders, manifest, summary, time series, track, pictures.

Each is written independently: a file that cannot be written is listed in the summary's `faults` and does not
affect the others.
"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from swarmbed_core.controller import TICK_RATE
from swarmbed_core.scene import make_scene

from swarmbed_experiments.errors import RunError, unwritable
from swarmbed_experiments.files import as_json, replace_text, write_text
from swarmbed_experiments.runs import manifest
from swarmbed_experiments.runs import summary as summaries
from swarmbed_experiments.runs.journal import NAME as JOURNAL
from swarmbed_experiments.runs.journal import Journal
from swarmbed_experiments.runs.order_log import NAME as ORDERS
from swarmbed_experiments.runs.order_log import OrderLog
from swarmbed_experiments.runs.plain import column, writable
from swarmbed_experiments.runs.scenarios import load_scenario, pack
from swarmbed_experiments.runs.track import Track, events_as_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from swarmbed_core.observing import Source
    from swarmbed_core.orders import Order
    from swarmbed_core.scene import Scene

    from swarmbed_experiments.runs.manifest import Manifest
    from swarmbed_experiments.runs.recording import Recorder, Watched
    from swarmbed_experiments.runs.run import Run

KEPT = 2.0
"""Seconds of wall time between two saves to the journal, which limit what a kill loses ..."""
COST = 0.005
"""... and the maximum share of a run's time that saving may take."""
CROWD_RATE = 2.0
"""Hz of the world's time at which crowds are recorded."""


class Output:
    """Looks on, and writes the run's files into a directory, if it has one.

    Attributes:
        directory: of the results, None if none are written.
        manifest: what the run is computed from, None if no results are written.
        recorder: of the recording, None without one.
        journal: for a run that is killed, None without a directory.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.rate = CROWD_RATE if run.scene.crowd else TICK_RATE
        self.directory: Path | None = None
        self.manifest: Manifest | None = None
        self.recorder: Recorder | None = None
        self.journal: Journal | None = None
        self._log: OrderLog | None = None
        self._kept = (0, 0), 0, 0
        self._due = 0.0

    def open(self, directory: Path, about: Mapping[str, Any], record: Sequence[Watched] | None) -> None:
        """Open the files in an existing directory.

        Args:
            directory: of the results.
            about: what is run, for the journal.
            record: cameras whose images to record; None writes no recording.

        Raises:
            RunError: the directory cannot be written.
        """
        run = self._run
        self.directory = directory
        pack(run.scenario, run.source, directory)
        run.faults.attempt(manifest.NAME, self._begin_manifest)
        self.recorder = None if record is None else self._open_recorder(directory, record)
        tracked = {"robots_named": run.tracker.robots, "carriers_named": run.tracker.carriers}
        self.journal = Journal(directory / JOURNAL, {**about, **tracked})
        self._log = OrderLog(directory / ORDERS)
        self._due = time.perf_counter() + KEPT

    def _begin_manifest(self) -> None:
        run = self._run
        if self.directory is not None:
            self.manifest = manifest.begin(self.directory, run.scenario, run.name, run.source)

    def _end_manifest(self) -> None:
        if self.directory is not None and self.manifest is not None:
            self.manifest = manifest.complete(self.directory, self.manifest, self.state())

    def state(self) -> manifest.End | None:
        """Return the state in which the run is now; None after a signal, which may come within a step."""
        run = self._run
        if run.interrupts.received is not None:
            return None
        world = run.world
        state = manifest.state_of(run.time, world.names, world.truth(), world.carriers())
        return manifest.End(steps=run.runner.number, state=state)

    def _open_recorder(self, directory: Path, images: Sequence[Watched]) -> Recorder:
        from swarmbed_experiments.runs.recording import Recorder

        run = self._run
        return Recorder(directory / "recording.mcap", run.scene, run.world, run.robots, images, run.specs)

    def _close_recorder(self) -> None:
        recorder, self.recorder = self.recorder, None
        if recorder is not None:
            recorder.close()

    def look(self, source: Source) -> None:
        """Record the current state, and save to the journal when that is due."""
        if self.recorder is not None:
            self._record(self.recorder, source.time)
        if self.journal is not None and time.perf_counter() > self._due:
            self._keep(self.journal)

    def _record(self, recorder: Recorder, now: float) -> None:
        """Record a tick. An error ends the recording, but not the run."""
        run = self._run
        run.now = "recording"
        signals = run.interrupts
        held, signals.held = signals.held, True
        try:
            recorder.tick(now, run.robots, run.controllers)
        except Exception as error:  # noqa: BLE001 - it also reads users' trees
            run.faults.note("recording.mcap", error)
            run.faults.attempt("recording.mcap", self._close_recorder)
        finally:
            signals.held = held

    def _keep(self, journal: Journal) -> None:
        """Save the data since the last save to the journal."""
        run = self._run
        signals = run.interrupts
        held, signals.held = signals.held, True
        started = time.perf_counter()
        try:
            size, rows, events = self._kept
            track = run.tracker.since(size, run.measures.events(events))
            texts = {
                "deeds": track.deeds,
                "events": events_as_lists(track.events),
                "rows": run.measures.rows[rows:],
                "robots": track.robots,
            }
            journal.add(track.arrays(), texts)
            self._kept = run.tracker.size, len(run.measures.rows), len(run.setting.events)
            if self.recorder is not None:
                self.recorder.flush()
            if self._log is not None:
                self._log.flush()
        except Exception as error:  # noqa: BLE001 - the run does not need the journal
            run.faults.note("journal", error)
            self.journal = None
            with contextlib.suppress(OSError):
                journal.close(remove=True)
        finally:
            signals.held = held
        now = time.perf_counter()
        self._due = now + max(KEPT, (now - started) / COST)

    def write_down(self, order: Order, failure: str) -> None:
        """Write down an order with the step before or in which it was carried out."""
        if self._log is None:
            return
        runner = self._run.runner
        try:
            self._log.add(runner.number, order, in_tick=runner.in_tick, failure=failure)
        except OSError as error:
            self._run.faults.note(ORDERS, error)
            self._log = None

    def close(self) -> None:
        """Close the files that are written while the run goes on, except the journal."""
        attempt = self._run.faults.attempt
        attempt("recording.mcap", self._close_recorder)
        if self._log is not None:
            attempt(ORDERS, self._log.close)

    def write(self, summary: dict[str, Any], failure: str | None) -> None:
        """Write all results except the recording, each independently, the summary first.

        Args:
            summary: of the run; faults are added.
            failure: a traceback, if the run failed.
        """
        if self.directory is None:
            return
        directory, run, faults = self.directory, self._run, self._run.faults
        attempt = faults.attempt
        attempt(summaries.NAME, lambda: self.write_summary(summary))
        if failure is not None:
            attempt("failure.txt", lambda: write_text(directory / "failure.txt", writable(failure)))
        rows, track = directory / "metrics.parquet", run.track
        kept = attempt(rows.name, lambda: write_rows(rows, run.measures.rows))
        kept &= attempt("track.npz", lambda: track.save(directory / "track.npz"))
        attempt(manifest.NAME, self._end_manifest)
        draw(directory, run.scene, track, summary, attempt)
        if faults and summary.get("faults") is not faults:
            summary["faults"] = faults
        if faults:
            attempt(summaries.NAME, lambda: self.write_summary(summary))
        journal, self.journal = self.journal, None
        if journal is not None:
            # If a file could not be written, `swarmbed mend` can try again from the journal.
            attempt(JOURNAL, lambda: journal.close(remove=kept))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the summary, again after a fault.

        Raises:
            RunError: it cannot be written.
        """
        if self.directory is not None:
            replace_text(self.directory / summaries.NAME, as_json(summary))


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of plain values as a Parquet file. Missing values are null.

    Raises:
        RunError: it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = dict.fromkeys(key for row in rows for key in row)
    columns = {writable(str(name)): column([row.get(name) for row in rows]) for name in names}
    try:
        # pyarrow rejects file names that the locale cannot encode.
        with file.open("wb") as stream:
            pq.write_table(pa.table(columns), stream)
    except OSError as error:
        raise unwritable(file, error) from None


def draw(
    directory: Path,
    scene: Scene,
    track: Track,
    summary: Mapping[str, Any],
    attempt: Callable[[str, Callable[[], None]], object] = lambda _, draw: draw(),
) -> list[Path]:
    """Draw a run's pictures into its directory, and return their files.

    Args:
        directory: gets the files.
        scene: the initial state.
        track: of the run.
        summary: of the run.
        attempt: called with the name of each picture and the function that draws it.

    Raises:
        RunError: a picture cannot be written.
    """
    from swarmbed_experiments.pictures import plots

    if not len(track.times):
        return []
    drawn = {"tracks.png": plots.draw_tracks}
    if not scene.crowd or any(track.deeds):
        drawn["timeline.png"] = plots.draw_timeline
    for name, picture in drawn.items():
        attempt(name, partial(picture, directory / name, scene, track, summary))
    return [directory / name for name in drawn]


def redraw(directory: Path) -> list[Path]:
    """Draw the pictures of a run again from its files, and return the pictures' files.

    Raises:
        ConfigError: scenario.yaml is missing or invalid.
        RunError: another file is missing or invalid, or a picture cannot be written.
    """
    summary = summaries.Summary.load(directory).as_data()
    scenario, source = load_scenario(str(directory / "scenario.yaml"))
    scene, track = make_scene(scenario, source=source), Track.load(directory / "track.npz")
    robots = tuple(placement.name for placement in scene.robots)
    carriers = tuple(placement.name for placement in scene.carriers)
    # Robots that joined come after those of the start.
    if (track.robots[: len(robots)], track.carriers) != (robots, carriers):
        message = (
            f"{directory}: scenario.yaml and track.npz are from different runs: robots or carriers differ"
        )
        raise RunError(message)
    return draw(directory, scene, track, summary)
