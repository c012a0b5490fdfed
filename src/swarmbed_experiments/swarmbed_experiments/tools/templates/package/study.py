"""My package's study: how far do robots keep from each other, at several speeds?

swarmbed study my_package
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from swarmbed_experiments.files import write_json
from swarmbed_experiments.pictures.drawing import line
from swarmbed_experiments.studies import Study
from swarmbed_experiments.studies.cells import Cell, work
from swarmbed_experiments.studies.figures import bars, chart, written

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

SCENARIO = "package://my_package/scenarios/my_package.yaml"
SPEEDS = (0.1, 0.2, 0.4)


def make(out: Path, *, seeds: int, workers: int | None, console: Console) -> list[Path]:
    """Execute the missing runs, draw the figure, and return the files.

    Each cell is a sweep: a study that was stopped goes on where it was.
    """
    cells = [Cell(f"{speed} m/s", SCENARIO, (f"controller.speed={speed}",), seeds) for speed in SPEEDS]
    found = work(cells, console, workers)
    files = [out / "spacing.png", out / "results.json"]
    means = [item.mean("spacing") for item in found]
    with chart(files[0], "Distance to the nearest robot", x="speed (m/s)", y="distance (m)") as axes:
        spread = bars([item.spread("spacing") for item in found], [len(item.rows) for item in found])
        axes.errorbar(SPEEDS, means, spread, capsize=4, **line(0))
    write_json(files[1], dict(zip(map(str, SPEEDS), means, strict=True)))
    return written(files)


STUDY = Study("How far robots keep from each other, at several speeds", seeds=10, make=make)
