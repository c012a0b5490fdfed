"""The convoy of "Robot-in-the-loop simulation for cooperative robotic systems": figures 9, 10 and 11.

Three ways to follow are compared: the study's, with formulas (1) to (3); the same, but facing the centre of
the robot ahead; and ours, which also takes into account where that robot has been. Errors are in centimetres;
the paper gives neither a unit nor the distance D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from swarmbed_experiments.files import write_json
from swarmbed_experiments.pictures.drawing import GREY, INK, bar, line
from swarmbed_experiments.studies import Study
from swarmbed_experiments.studies.cells import Cell, Found, work
from swarmbed_experiments.studies.figures import bars, chart, theirs, written

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

NOISES = ((0.04, 0.04), (0.1, 0.08), (0.2, 0.1))
"""DNF and ANF of the three sets in figure 10."""
PAPER = (35.1, 35.7, 36.6)
"""The paper's mean errors with these noises, 30 robots."""
COUNTS = (10, 20, 30, 40)
"""Numbers of robots in figure 11 ..."""
MORE = (100, 300, 1000)
"""... and our additional ones."""
WAYS = {
    "study": ("adjust=find", "trust=0"),
    "centre": ("adjust=centre", "trust=0"),
    "ours": ("adjust=centre",),
}
NAMES = {"study": "formulas (1)-(3)", "centre": "facing the middle", "ours": "ours"}
ERROR = "average position error (cm)"
SEEDS = 10
"""Default number of seeds per cell."""
START = 60.0
PER_ROBOT = 5.5
"""Seconds from the start of one robot to that of the next. The error is measured once all of them move."""
MEASURED = 1200.0
"""Duration of the measurement in seconds."""
PLAIN = 40
"""Maximum number of robots for the field of 30 m. There, robots are DEVS models as in the study."""
FEW = 3
"""Maximum number of runs per cell with hundreds of robots."""


@dataclass(frozen=True)
class Form:
    """One of two implementations of the same convoy.

    Attributes:
        scenario: name of its scenario.
        controller: path of the convoy's parameters in the scenario.
    """

    scenario: str
    controller: str

    def sets(self, way: str) -> tuple[str, ...]:
        """Return the changes that select one of the `WAYS`."""
        return tuple(f"{self.controller}.{setting}" for setting in WAYS[way])


DEVS = Form("convoy_devs", "controller.parameters")
COMPILED = Form("convoy", "controller")
"""One compiled call for all robots: a convoy of 1,000 takes a quarter of the time."""


def cell(way: str, count: int, noise: int, seeds: int) -> Cell:
    """Return the cell of a way to follow, a number of robots, and a set of noises."""
    distance, angle = NOISES[noise]
    settling = START + PER_ROBOT * count
    form = DEVS if count <= PLAIN else COMPILED
    where = ("arena=convoy_field", "robots.0.place.line.start=[8,0,0]")
    if count > PLAIN:
        # As on the field, the leader reaches the wall within the first minutes.
        where = ("arena=convoy_plain", "robots.0.place.line.start=[234,0,0]")
    return Cell(
        f"{NAMES[way]}, {count} robots, DNF {distance:g}, ANF {angle:g}",
        form.scenario,
        (
            *form.sets(way),
            f"robots.0.count={count}",
            *where,
            f"frame.generators.0.distance={distance:g}",
            f"frame.generators.0.angle={angle:g}",
            f"frame.transducers.0.settling={settling:g}",
            f"time_limit={settling + MEASURED:g}",
        ),
        seeds if count <= PLAIN else min(seeds, FEW),
    )


def make(out: Path, *, seeds: int, workers: int | None, console: Console) -> list[Path]:
    """Execute the missing runs, draw the figures, and return the files.

    Raises:
        ConfigError: the scenario is invalid.
        RunError: results cannot be written.
    """
    plan = [(way, count, 1) for way in WAYS for count in COUNTS]
    plan += [(way, 30, noise) for way in WAYS for noise in (0, 2)]
    plan += [("ours", count, 1) for count in MORE]
    found = dict(zip(plan, work([cell(*key, seeds) for key in plan], console, workers), strict=True))
    files = [out / name for name in ("figure9.png", "figure10.png", "figure11.png", "results.json")]
    _figure9(files[0], found)
    _figure10(files[1], found)
    _figure11(files[2], found)
    write_json(files[3], [_row(key, item) for key, item in found.items()])
    return written(files)


def _row(key: tuple[str, int, int], found: Found) -> dict[str, Any]:
    way, count, noise = key
    return {
        "way": way,
        "scenario": found.cell.scenario,
        "robots": count,
        "dnf": NOISES[noise][0],
        "anf": NOISES[noise][1],
        "runs": len(found.rows),
        "held": found.accepted,
        "error_cm": 100 * found.mean("convoy_error"),
        "error_worst_cm": 100 * found.mean("convoy_error_worst"),
        "speed": found.mean("convoy_speed"),
        "adjustments_per_robot": found.mean("convoy_adjustments_per_robot"),
        "real_time_factor": found.mean("real_time_factor"),
    }


Results = dict[tuple[str, int, int], Found]


def _figure9(file: Path, found: Results) -> None:
    """Draw the error of 30 robots over time, for one run of each way to follow."""
    title = "30 robots, DNF 0.1, ANF 0.08 (the paper's figure 9)"
    with chart(file, title, x="simulated time (s)", y=ERROR) as axes:
        for k, way in enumerate(WAYS):
            series = found[way, 30, 1].series("convoy_errors")
            if series:
                times = np.arange(len(series[0])) * 5.0
                axes.plot(times, 100 * series[0], label=NAMES[way], **line(k, marker=False))
        axes.axhline(PAPER[1], color=GREY, linestyle=":", label=f"paper's mean, {PAPER[1]}, no unit given")


def _figure10(file: Path, found: Results) -> None:
    """Draw the errors for the three sets of noises."""
    with chart(file, "30 robots, three sets of noises (the paper's figure 10)", y=ERROR) as axes:
        places = np.arange(len(NOISES))
        for k, way in enumerate(WAYS):
            cells = [found[way, 30, noise] for noise in range(len(NOISES))]
            means, spread = _errors(cells)
            shifted = places + 0.2 * (k - 1.5)
            axes.bar(shifted, means, 0.19, yerr=spread, capsize=3, label=NAMES[way], **bar(k))
        axes.bar(places + 0.3, PAPER, 0.19, color=GREY, label="paper's, no unit given")
        axes.set_xticks(places, [f"DNF {a:g}\nANF {b:g}" for a, b in NOISES])


def _figure11(file: Path, found: Results) -> None:
    """Draw the errors over the number of robots."""
    title = "DNF 0.1, ANF 0.08 (the paper's figure 11, which ends at 40)"
    with chart(file, title, x="robots", y=ERROR) as axes:
        for k, way in enumerate(WAYS):
            counts = COUNTS + MORE if way == "ours" else COUNTS
            cells = [found[way, count, 1] for count in counts]
            means, spread = _errors(cells)
            broke = [round((1 - item.accepted) * len(item.rows)) for item in cells]
            label = NAMES[way]
            if any(broke):
                label += f" (broke: {', '.join(map(str, broke))} of {len(cells[0].rows)})"
            axes.errorbar(counts, means, spread, capsize=4, label=label, **line(k))
        axes.plot(30, PAPER[1], label="paper's, no unit given", **theirs(INK))
        axes.set_xscale("log")
        axes.set_xticks(COUNTS + MORE, [str(count) for count in COUNTS + MORE])
        axes.minorticks_off()


def _errors(cells: list[Found]) -> tuple[list[float], list[float] | None]:
    """Return each cell's mean error and standard deviation in centimetres; no deviations for single runs."""
    return (
        [100 * item.mean("convoy_error") for item in cells],
        bars([100 * item.spread("convoy_error") for item in cells], [len(item.rows) for item in cells]),
    )


STARTS = (("convoy", ("robots.0.count=3",)), ("convoy_devs", ("robots.0.count=3",)))
STUDY = Study("A convoy of up to 1,000 robots: errors under noise (figures 9 to 11)", SEEDS, make, STARTS)
