"""Terminal output: progress of a run; tables of results, calibrations, scenarios and `swarmbed doctor`."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text
from swarmbed_core.errors import SwarmbedError

from swarmbed_experiments.pictures.drawing import FORMATS
from swarmbed_experiments.runs.metrics import by_rank, in_words, unit_of
from swarmbed_experiments.runs.results import HUGE, number, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from rich.console import Console
    from swarmbed_core.observing import Source

    from swarmbed_experiments.tools.calibrate import Calibration
    from swarmbed_experiments.tools.doctor import Check

COLOURS = {"accepted": "green", "rejected": "red", "failed": "red", "interrupted": "yellow"}

LONGEST = 60
"""Maximum length of a metric that is a string or a list, in characters."""
ITEMS = 6
"""Maximum number of items shown of a metric that is a mapping."""


class _Standing(ProgressColumn):
    """The state of a run. This is the only column that shrinks on a narrow terminal."""

    def render(self, task: Task) -> Text:
        """Return the state in one line."""
        return Text(task.description, no_wrap=True, overflow="ellipsis")


class RunProgress:
    """A progress bar over the world's time, with the run's state and the maximum time left."""

    rate = 2.0

    def __init__(self, console: Console, seconds: float) -> None:
        """Make a bar for a run of at most `seconds` of the world's time."""
        columns: list[ProgressColumn] = [
            _Standing(),
            BarColumn(bar_width=10),
            TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
            TimeElapsedColumn(),
            TextColumn("at most"),
            TimeRemainingColumn(),
            TextColumn("more"),
        ]
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("running", total=seconds)

    def __enter__(self) -> Self:
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar."""
        self._progress.stop()

    def look(self, source: Source) -> None:
        """Update the bar."""
        # The output may be closed, which is no reason to stop the run.
        with contextlib.suppress(OSError):
            self._progress.update(self._task, completed=source.time, description=source.see_standing())


def result_table(summary: Mapping[str, Any], units: Mapping[str, str] | None = None) -> Table:
    """Return a table of a run's result.

    Args:
        summary: of the run.
        units: of users' metrics, as returned by `units_of`.
    """
    verdict, metrics = summary["verdict"], summary["metrics"]
    title = Text.assemble(
        f"{summary['scenario']} in {summary['world']}, seed {summary['seed']}: ", (verdict, COLOURS[verdict])
    )
    table = Table("what", "value", title=title)
    table.add_row("why", Text(summary["reason"]))
    table.add_row("simulated time", f"{summary['sim_seconds']:.1f} s")
    factor = summary["real_time_factor"]
    speed = "" if factor is None else f" ({factor:.{0 if factor >= 10 else 1}f} x real time)"
    table.add_row("computed in", f"{summary['wall_seconds']:.2f} s{speed}")
    for key in by_rank(metrics):
        value = metrics[key]
        shown = _shown(value, unit_of(key, units))
        if shown is None:
            continue
        if key == "carriers_retrieved":
            if not metrics.get("carriers"):
                continue
            shown += f" of {metrics['carriers']}"
        table.add_row(Text(in_words(key)), Text(shown))
    for name, told in summary.get("observers", {}).items():
        if "dropped" in told:
            table.add_row("observer dropped", Text(f"{name}: {told['dropped']}", style="yellow"))
    for reason, count in summary.get("refused", {}).items():
        table.add_row("refused by robots", Text(f"{reason}, {count:,} times", style="yellow"))
    return table


def _shown(value: object, unit: str) -> str | None:
    """Format a metric in one line; None if it is empty or not finite."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or (isinstance(value, float) and not math.isfinite(value)) or value in ("", [], {}):
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,d} {unit}".strip() if abs(value) < HUGE else "a number with hundreds of digits"
    if isinstance(value, float):
        return f"{number(value, 3)} {unit}".strip()
    if isinstance(value, dict):
        items = [(key, _shown(item, unit)) for key, item in list(value.items())[:ITEMS]]
        more = f", and {len(value) - ITEMS} more" if len(value) > ITEMS else ""
        return ", ".join(f"{key} {item}" for key, item in items if item is not None) + more or None
    if isinstance(value, list | tuple) and len(value) > ITEMS:
        return f"{len(value)} items, in summary.json"
    text = shown(value, LONGEST)
    return f"{text} {unit}" if unit and isinstance(value, list | tuple) else text


@contextlib.contextmanager
def share_bar(console: Console, doing: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar. Yield a function that sets the share done, from 0 to 1."""
    columns = [TextColumn(doing), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def calibration_table(done: Calibration) -> Table:
    """Return a table of a calibration in simulation, with its errors against the truth."""
    table = Table(
        title=f"{done.pictures} pictures in {done.seconds:.0f} s of the robot's time",
        caption="error: compared with the true lens of the simulated camera",
    )
    for column in ("camera", "fx, fy (px)", "cx, cy (px)", "error of f", "error of c", "residual", ""):
        table.add_column(column)
    for each in done.outcomes:
        found = each.result
        if isinstance(found, str):
            table.add_row(each.camera, *[""] * 5, Text(f"failed: {found}", style="red"))
            continue
        lens, doubts = found.calibration, "; ".join(found.doubts)
        table.add_row(
            each.camera,
            f"{lens.fx:.2f}, {lens.fy:.2f}",
            f"{lens.cx:.2f}, {lens.cy:.2f}",
            f"{100 * each.focal_error:.3f} %",
            f"{each.centre_error:.3f} px",
            f"{found.rms:.3f} px",
            Text(doubts or "good", style="yellow" if doubts else "green"),
        )
    return table


def show_files(console: Console, directory: Path) -> None:
    """Print the paths of a run's pictures and other files."""
    pictures = [(f"{name}.{kind}", "picture") for name in ("tracks", "timeline") for kind in FORMATS]
    for name, what in (
        *pictures,
        ("recording.mcap", "recording"),
        ("failure.txt", "failure"),
        ("summary.json", "summary"),
    ):
        if (directory / name).exists():
            console.print(f"{what}: {directory / name}", markup=False, highlight=False, soft_wrap=True)


def scenario_table() -> Table:
    """Return a table of the scenarios in config/scenarios."""
    from swarmbed_core.config import names
    from swarmbed_core.scenario import Scenario

    table = Table(
        Column("scenario", no_wrap=True), "what it is", "world", "robots", Column("time limit", no_wrap=True)
    )
    for name in names(Scenario.FOLDER):
        scenario = Scenario.load(name)
        number = sum(group.number for group in scenario.robots)
        table.add_row(
            name,
            scenario.title,
            scenario.world,
            f"{number:,}",
            f"{scenario.time_limit:g} s",
        )
    return table


def study_table() -> Table:
    """Return a table of the studies, ours and those of installed packages."""
    from swarmbed_core.plugins import STUDIES, known

    from swarmbed_experiments.studies import find_study

    table = Table(
        Column("study", no_wrap=True), "what it shows", Column("runs per cell", no_wrap=True, justify="right")
    )
    for name in known(STUDIES):
        try:
            study = find_study(name)
        except SwarmbedError as error:
            table.add_row(name, Text(str(error), style="red"), "")
        else:
            table.add_row(name, Text(study.title), str(study.seeds))
    return table


STATES = {"ok": "green", "missing": "red", "optional": "yellow", "note": "cyan"}


def doctor_table(checks: Iterable[Check]) -> Table:
    """Return the findings of `swarmbed doctor`: each check, its state, and how to fix it."""
    table = Table("what", "state", Column("found, and what to do", overflow="fold"))
    for check in checks:
        text = Text(check.found)
        if check.mend:
            text.append(f"\n-> {check.mend}", style="bold")
        table.add_row(Text(check.name), Text(check.state, style=STATES[check.state]), text)
    return table
