"""Common style of the studies' figures: size, title, axes from 0, legend, the paper's points, files."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from swarmbed_experiments.pictures.drawing import INK, files_of, head, legend_below, new_figure, plain, save

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SIZE = (8.0, 4.5)
PICTURE = ".png"


@contextmanager
def chart(file: Path, title: str, *, y: str, x: str = "") -> Iterator[Any]:
    """Yield axes to draw on, then write them to a file with title, axis labels and legend.

    Raises:
        RunError: it cannot be written.
    """
    figure = new_figure(*SIZE)
    axes = figure.subplots()
    yield axes
    axes.set(xlabel=x, ylabel=y, ylim=(0, 1.04 * axes.get_ylim()[1]))
    plain(axes)
    head(axes, title)
    if named := len(axes.get_legend_handles_labels()[0]):
        legend_below(figure, named)
    save(figure, file)


def theirs(colour: str = INK, marker: str = "D") -> dict[str, Any]:
    """Return the style of the paper's points: hollow, so that they hide nothing."""
    return {
        "marker": marker,
        "color": colour,
        "markerfacecolor": "none",
        "markeredgewidth": 1.6,
        "markersize": 7,
        "linestyle": "",
        "zorder": 6,
    }


def bars(deviations: Sequence[float], runs: Sequence[int]) -> list[float] | None:
    """Return error bars, None if a cell has fewer than two runs and therefore no deviation."""
    return None if min(runs, default=0) < 2 else list(deviations)


def written(files: Sequence[Path]) -> list[Path]:
    """Return the files of a study, with each picture in all formats of the style."""
    return [each for file in files for each in (files_of(file) if file.suffix == PICTURE else [file])]
