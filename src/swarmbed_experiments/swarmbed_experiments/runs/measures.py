"""What a run measures: the rows of its time series, its events, and its metrics."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

from swarmbed_core.observing import Event

from swarmbed_experiments.runs.plain import writable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmbed_core.observing import Source

    from swarmbed_experiments.frame import Transducer
    from swarmbed_experiments.runs.run import Run

ROW_PERIOD = 0.5
"""Seconds between two rows of the time series."""
NUMBERS = frozenset({type(None), bool, int, float})


class Measures:
    """Looks on, takes the rows of its time series, and collects its metrics at the end.

    Attributes:
        rows: of the time series.
    """

    rate = 1.0 / ROW_PERIOD

    def __init__(self, run: Run) -> None:
        self._run = run
        self.rows: list[dict[str, Any]] = []

    def look(self, source: Source) -> None:
        """Take a row."""
        row: dict[str, Any] = {"time": source.time}
        for transducer in self._run.transducers:
            self._enter(row, transducer)
        self.rows.append(row)

    def _enter(self, row: dict[str, Any], transducer: Transducer) -> None:
        """Add the numbers of a transducer to a row."""
        who = self._run.now = f"transducer {type(transducer).__name__}"
        found = transducer.row()
        usual = type(found) is dict and row.keys().isdisjoint(found)
        if usual and all(type(value) in NUMBERS for value in found.values()):
            row.update(found)
            return
        made = self._run.faults.plain(f"{who}: row()", found, finite=False)
        row.update({_free(row, who, key): value for key, value in made.items()})

    def events(self, first: int = 0) -> list[Event]:
        """Return the events from index `first` on, in types that files can hold."""
        made = []
        for event in self._run.setting.events[first:]:
            try:
                time, texts = float(event.time), (str(event.kind), str(event.who), str(event.text))
            except Exception as error:  # noqa: BLE001 - users' frame parts may put anything there
                self._run.faults.note("an event", error)
                continue
            made.append(Event(time, *map(writable, texts)))
        return made

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of all parts. A part that raises is noted as a fault."""
        run, metrics = self._run, dict[str, Any]()
        asked: list[tuple[str, Any]] = [
            *((f"transducer {type(part).__name__}", part) for part in run.transducers),
            *((f"acceptor {type(part).__name__}", part) for part in run.acceptors),
        ]
        if run.crowd is not None and getattr(run.crowd[1], "metrics", None) is not None:
            asked.append((f"controller {run.scenario.controller.name}", run.crowd[1]))
        for who, part in asked:
            for key, value in self._metrics_of(f"{who}: metrics()", part).items():
                metrics[_free(metrics, who, key)] = value
        return metrics

    def _metrics_of(self, who: str, part: Any) -> dict[str, Any]:
        """Return the metrics of one part of the frame, or of a crowd's program."""
        found: list[object] = []

        def ask() -> None:
            found.append(part.metrics())

        faults = self._run.faults
        return faults.plain(who, found[0]) if faults.attempt(who, ask) else {}

    def refused(self) -> dict[str, int]:
        """Return the number of rejected commands by reason. They reveal faulty programs that do not raise."""
        counts: Counter[str] = Counter()
        for robot in self._run.robots:
            if robot.name not in self._run.setting.dead:
                counts.update(robot.onboard.health.counts)
        return {reason: counts[reason] for reason in sorted(counts) if reason.startswith("command.")}


def _free(taken: Mapping[str, Any], who: str, key: str) -> str:
    """Return a free name: `key`, or if that is taken, `key` with the part's name in front."""
    if key not in taken:
        return key
    whose = f"{who.rpartition(' ')[2]}.{key}"
    names = itertools.chain([whose], (f"{whose}.{k}" for k in itertools.count(2)))
    return next(name for name in names if name not in taken)
