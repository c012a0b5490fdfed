"""The runs below a directory, for `swarmbed runs`. Runs that left broken files or none are listed as such."""

from __future__ import annotations

import csv
import datetime as dt
import fcntl
import io
import json
import math
import operator
import os
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table
from rich.text import Text

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs import manifest as manifests
from swarmbed_experiments.runs import summary as summaries
from swarmbed_experiments.runs.journal import NAME as JOURNAL
from swarmbed_experiments.runs.manifest import Manifest
from swarmbed_experiments.runs.metrics import by_rank, in_words, unit_of
from swarmbed_experiments.runs.results import number, shown
from swarmbed_experiments.runs.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

STAMPED = re.compile(r"(?P<name>.+)-(?P<stamp>\d{8}-\d{6})-(?P<seed>\d+)(?:\.\d+)?")
"""Name of a run's directory."""
LEFT = (summaries.NAME, manifests.NAME, JOURNAL, "track.npz", "failure.txt")
"""Files that only runs leave."""
COLOURS = {"accepted": "green", "rejected": "red", "failed": "red"}
WIDE = 130
"""Columns of a terminal from which each run has one line."""
NAME_WIDTH = 32
"""Most columns that names of runs take on a narrow terminal before they are folded."""
FIELDS = (
    "run",
    "scenario",
    "world",
    "controller",
    "robots",
    "seed",
    "verdict",
    "sim_seconds",
    "date",
    "size",
)
"""Fields of a run that can be filtered and sorted by, beside its metrics."""
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
AGO = re.compile(r"(\d+(?:\.\d+)?)(s|min|h|d|w)")
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
WHERE = re.compile(r"\s*([^<>=!\s]+)\s*(>=|<=|!=|==|>|<|=)\s*(.*?)\s*")


@dataclass(frozen=True)
class Entry:
    """What is known of one run.

    Attributes:
        run: its directory below the one that is listed.
        directory: its directory.
        scenario: name of the scenario.
        world: its world.
        controller: name of its controller.
        robots: number of robots.
        seed: its seed.
        verdict: that of its summary, or its state: `running`, `unfinished`, `unreadable`.
        problem: why there is no verdict, and what to do; empty if there is one.
        sim_seconds: time that passed in its world.
        date: when it began.
        size: of its files, in bytes.
        metrics: of its summary.
    """

    run: str
    directory: Path
    scenario: str = ""
    world: str = ""
    controller: str = ""
    robots: int | None = None
    seed: int | None = None
    verdict: str = "unfinished"
    problem: str = ""
    sim_seconds: float | None = None
    date: dt.datetime | None = None
    size: int = 0
    metrics: Mapping[str, Any] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """Return a field, a metric, or an item of a metric such as `distances.dots1`; None if it has none."""
        if name in FIELDS:
            return getattr(self, name)
        key = name.removeprefix("metrics.")
        if key in self.metrics:
            return self.metrics[key]
        first, _, rest = key.partition(".")
        inner = self.metrics.get(first)
        return inner.get(rest) if isinstance(inner, dict) else None

    def as_data(self) -> dict[str, Any]:
        """Return the entry as JSON data."""
        data = {name: getattr(self, name) for name in FIELDS}
        data["date"] = None if self.date is None else self.date.isoformat(timespec="seconds")
        main = main_metric(self.metrics)
        return {
            **data,
            "directory": str(self.directory),
            "problem": self.problem,
            "metric": main and main[0],
            "value": main and main[1],
            "metrics": dict(self.metrics),
        }


# Finding runs


def find_runs(below: Path) -> list[Entry]:
    """Return the runs below a directory, oldest first.

    Raises:
        RunError: the directory cannot be read.
    """
    if is_run(below):
        return [read_entry(below, below.name)]
    if not below.is_dir():
        message = f"{below}: no such directory; name one with --below"
        raise RunError(message)
    found = [read_entry(place, str(place.relative_to(below))) for place in _directories(below)]
    return sorted(found, key=lambda entry: (entry.date or dt.datetime.min.replace(tzinfo=dt.UTC), entry.run))


def _directories(below: Path) -> Iterator[Path]:
    """Yield the directories of runs; those within a run are its own."""
    for place, folders, _ in os.walk(below):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in list(folders):
            if is_run(Path(place, name)):
                folders.remove(name)
                yield Path(place, name)


def is_run(place: Path) -> bool:
    """Return whether a directory is that of a run, however little of it was written."""
    if not place.is_dir():
        return False
    if any((place / name).exists() for name in LEFT):
        return True
    return STAMPED.fullmatch(place.name) is not None


def read_entry(directory: Path, name: str) -> Entry:
    """Return what a directory says about its run. Whatever is missing or broken is left out."""
    known: dict[str, Any] = {"run": name, "directory": directory, "size": _size(directory)}
    stamped = STAMPED.fullmatch(directory.name)
    if stamped:
        known |= {"scenario": stamped["name"], "seed": int(stamped["seed"])}
        known["date"] = _date(stamped["stamp"], "%Y%m%d-%H%M%S")
    try:
        begun = Manifest.load(directory)
    except RunError:
        pass
    else:
        known |= {"scenario": begun.scenario, "seed": begun.seed}
        known |= {plugin.kind.removesuffix("s"): plugin.name for plugin in reversed(begun.plugins)
                  if plugin.kind in {"worlds", "controllers"}}  # fmt: skip
        known["date"] = _date(begun.started) or known.get("date")
    try:
        summary = Summary.load(directory)
    except RunError as error:
        known["verdict"], known["problem"] = _state(directory, str(error))
        return Entry(**known)
    if "date" not in known:
        known["date"] = _modified(directory / summaries.NAME)
    copied = ("scenario", "world", "controller", "robots", "seed", "verdict", "sim_seconds", "metrics")
    return Entry(**known | {each: getattr(summary, each) for each in copied})


def _state(directory: Path, error: str) -> tuple[str, str]:
    """Return the state of a run without a summary, and what to do."""
    if (directory / summaries.NAME).exists():
        return "unreadable", error
    journal = directory / JOURNAL
    if not journal.exists():
        return "unfinished", "it has no summary, and nothing that swarmbed mend could make one of; delete it"
    if _is_written(journal):
        return "running", "a process is still writing it"
    return "unfinished", f"it was killed; swarmbed mend {directory} makes its results of what was saved"


def _is_written(journal: Path) -> bool:
    """Return whether a process holds the lock of a journal."""
    try:
        with journal.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _size(directory: Path) -> int:
    """Return the bytes of all files in a directory."""
    total = 0
    for place, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - for each file
            except OSError:
                continue
    return total


def _date(text: str, form: str = "") -> dt.datetime | None:
    """Return a date in UTC, None if the text is none."""
    try:
        found = dt.datetime.strptime(text, form) if form else dt.datetime.fromisoformat(text)  # noqa: DTZ007
    except ValueError:
        return None
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)


def _modified(file: Path) -> dt.datetime | None:
    try:
        return dt.datetime.fromtimestamp(file.stat().st_mtime, tz=dt.UTC)
    except OSError:
        return None


def named_run(name: str, below: Path) -> Path:
    """Return the directory of a run: a path, or a part of a name that only one run has.

    Raises:
        RunError: there is no such run, or more than one.
    """
    if Path(name).is_dir():
        if is_run(Path(name)):
            return Path(name)
        message = f"{name}: not the directory of a run: it has no {summaries.NAME}"
        raise RunError(message)
    there = [entry for entry in find_runs(below) if name in entry.run] if below.is_dir() else []
    exact = [entry for entry in there if entry.run == name]
    found = exact or there
    if len(found) == 1:
        return found[0].directory
    if found:
        what = f"{len(found)} runs below {below} have this in their name, such as {found[0].run}"
        message = f"{name}: {what}; add more of it"
    else:
        message = f"{name}: no run below {below} has this in its name; swarmbed runs lists them"
    raise RunError(message)


# Filters


@dataclass(frozen=True)
class Condition:
    """A condition of `--where`: name, comparison, value."""

    name: str
    sign: str
    value: float | str

    @classmethod
    def of(cls, text: str) -> Condition:
        """Return the condition that a text says.

        Raises:
            RunError: it is none.
        """
        found = WHERE.fullmatch(text)
        if found is None or not found[3]:
            message = f"--where {text}: write NAME>VALUE, with one of > >= < <= = !=, such as 'collisions>3'"
            raise RunError(message)
        try:
            value: float | str = float(found[3])
        except ValueError:
            value = found[3]
            if found[2] not in {"=", "==", "!="}:
                message = f"--where {text}: {value} is no number; compare texts with = or !="
                raise RunError(message) from None
        return cls(found[1], found[2], value)

    def holds(self, entry: Entry) -> bool:
        """Return whether it holds for a run; not if the run lacks the value."""
        found = entry.value(self.name)
        if found is None:
            return False
        if isinstance(self.value, str):
            return fnmatchcase(_text(found), self.value) is (self.sign != "!=")
        # Python compares numbers of any size.
        return isinstance(found, bool | int | float) and OPERATORS[self.sign](found, self.value)


def since(text: str, now: dt.datetime) -> dt.datetime:
    """Return the moment that `--since` says.

    Args:
        text: an age such as `2h` or `3d`, `today`, or a date in UTC, such as `2026-01-31` or
            `2026-01-31T12:00`.
        now: the current time.

    Raises:
        RunError: it is none of these.
    """
    ago = AGO.fullmatch(text)
    if ago:
        try:
            return now - dt.timedelta(seconds=float(ago[1]) * UNITS[ago[2]])
        except OverflowError:
            return dt.datetime.min.replace(tzinfo=dt.UTC)
    if text == "today":
        return now.replace(hour=0, minute=0, second=0, microsecond=0)
    found = _date(text)
    if found is None:
        message = (
            f"--since {text}: write an age such as 30min, 2h or 3d, `today`, or a date such as 2026-01-31"
        )
        raise RunError(message)
    return found


def select(
    entries: Sequence[Entry],
    *,
    scenario: str | None = None,
    world: str | None = None,
    controller: str | None = None,
    verdicts: Sequence[str] = (),
    seed: int | None = None,
    after: dt.datetime | None = None,
    where: Sequence[str] = (),
) -> list[Entry]:
    """Return the runs that fit all filters; texts may have the wildcards * and ?.

    Raises:
        RunError: a condition is none, or names something that no run has.
    """
    conditions = [Condition.of(text) for text in where]
    for each in conditions:
        _check_known(each.name, entries, "--where")

    def fits(entry: Entry) -> bool:
        return (
            (scenario is None or fnmatchcase(entry.scenario, scenario))
            and (world is None or fnmatchcase(entry.world, world))
            and (controller is None or fnmatchcase(entry.controller, controller))
            and (not verdicts or entry.verdict in verdicts)
            and (seed is None or entry.seed == seed)
            and (after is None or (entry.date is not None and entry.date >= after))
            and all(each.holds(entry) for each in conditions)
        )

    return [entry for entry in entries if fits(entry)]


def in_order(entries: Sequence[Entry], key: str, *, reverse: bool = False) -> list[Entry]:
    """Return runs sorted by a field or metric; those without it come last.

    Raises:
        RunError: no run has it.
    """
    _check_known(key, entries, "--sort")
    having = [entry for entry in entries if entry.value(key) is not None]
    numbers = all(isinstance(entry.value(key), int | float) for entry in having)
    dates = all(isinstance(entry.value(key), dt.datetime) for entry in having)

    def by(entry: Entry) -> Any:
        value = entry.value(key)
        return value if numbers or dates else _text(value)

    return sorted(having, key=by, reverse=reverse) + [entry for entry in entries if entry.value(key) is None]


def _check_known(name: str, entries: Sequence[Entry], option: str) -> None:
    """Reject a name that is no field, and a metric of no run.

    Raises:
        RunError: it is neither.
    """
    if name in FIELDS or not entries or any(entry.value(name) is not None for entry in entries):
        return
    metrics = dict.fromkeys(key for entry in entries for key in entry.metrics)
    known = ", ".join([*FIELDS, *by_rank(metrics)][:25])
    message = f"{option}: no run has a field or metric '{name}': there are {known}"
    raise RunError(message)


def main_metric(metrics: Mapping[str, Any], name: str | None = None) -> tuple[str, Any] | None:
    """Return the most important metric that has a value, or the one called `name`; None if there is none."""
    for key in by_rank(metrics) if name is None else [name]:
        value = metrics.get(key)
        if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
            return key, value
    return None


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="seconds")
    return value if isinstance(value, str) else json.dumps(value, default=str)


# Output


def as_json(entries: Sequence[Entry]) -> str:
    """Return runs as JSON, with all metrics."""
    return json.dumps([entry.as_data() for entry in entries], indent=2)


def as_csv(entries: Sequence[Entry]) -> str:
    """Return runs as CSV, with a column for each metric that is a number, a text or yes or no."""
    rows = []
    for entry in entries:
        data = entry.as_data()
        plain = {
            f"metrics.{name}": value
            for name, value in data.pop("metrics").items()
            if isinstance(value, bool | int | float | str)
        }
        rows.append({name: data[name] for name in (*FIELDS, "problem")} | plain)
    metrics = dict.fromkeys(name for row in rows for name in row if name.startswith("metrics."))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*FIELDS, "problem", *metrics], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def size_text(size: float) -> str:
    """Return a number of bytes in a unit that fits."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} {units[0]}" if size >= 10 or units[0] == "B" else f"{size:.2g} {units[0]}"


def table(entries: Sequence[Entry], width: int, metric: str | None = None) -> Table:
    """Return runs as a table: a line each on a wide terminal, else two, within 80 columns.

    Args:
        entries: to show.
        width: of the terminal.
        metric: to show; by default the one that matters most for each run.
    """
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    if width >= WIDE:
        made.add_column("run", overflow="fold")
        for name in ("controller", "world", "seed", "verdict", "time", "metric", "date (UTC)", "size"):
            made.add_column(name, justify="right" if name in {"seed", "time", "size"} else "left")
    else:
        longest = max((len(line) for entry in entries for line in _in_two(entry.run).split("\n")), default=0)
        first = min(longest, NAME_WIDTH)
        left = max(width - first - 30, 16)
        program = min(left * 2 // 5, 14)
        made.add_column("run", overflow="fold", width=first)
        made.add_column("program", overflow="ellipsis", no_wrap=True, width=program)
        made.add_column("verdict", no_wrap=True, width=11)
        made.add_column("metric", overflow="ellipsis", no_wrap=True, width=min(left - program, 26))
        made.add_column("size", justify="right", no_wrap=True)
    for entry in entries:
        verdict = Text(entry.verdict, style=COLOURS.get(entry.verdict, "yellow"))
        time = "" if entry.sim_seconds is None else f"{number(entry.sim_seconds, 4)} s"
        words, value = _shown(entry, metric)
        if width >= WIDE:
            date = "" if entry.date is None else f"{entry.date:%Y-%m-%d %H:%M}"
            seed = "" if entry.seed is None else str(entry.seed)
            told = f"{words}: {value}" if words else ""
            made.add_row(
                Text(entry.run),
                Text(entry.controller),
                Text(entry.world),
                seed,
                verdict,
                time,
                Text(told),
                date,
                size_text(entry.size),
            )
            continue
        made.add_row(
            Text(_in_two(entry.run)),
            Text(f"{entry.controller}\n{entry.world}"),
            Text.assemble(verdict, f"\n{time}"),
            Text(f"{words}\n{value}"),
            size_text(entry.size),
        )
    return made


def _in_two(run: str) -> str:
    """Return a run's name in two lines: the scenario, then time and seed."""
    found = STAMPED.fullmatch(run)
    return run if found is None else f"{found['name']}-\n{run[len(found['name']) + 1 :]}"


def _shown(entry: Entry, metric: str | None) -> tuple[str, str]:
    """Return name and value of the metric to show, empty if there is none."""
    main = main_metric(entry.metrics, metric)
    if main is None:
        return "", ""
    name, value = main
    if isinstance(value, bool) or not isinstance(value, int | float):
        return in_words(name), {True: "yes", False: "no"}.get(value, shown(value, 24))
    text = f"{value:,d}" if isinstance(value, int) else number(value, 3)
    most = entry.metrics.get("carriers") if name == "carriers_retrieved" else None
    return in_words(name), f"{text} of {most}" if most else f"{text} {unit_of(name)}".strip()
