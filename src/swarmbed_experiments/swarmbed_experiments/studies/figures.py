"""What the figures of all studies share: size, title, axes from 0, legend, the paper's points, files."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from swarmbed_experiments.drawing import INK, files_of, head, legend_below, new_figure, plain, save

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SIZE = (8.0, 4.5)
PICTURE = ".png"


@contextmanager
def chart(file: Path, title: str, *, y: str, x: str = "") -> Iterator[Any]:
    """Give axes to draw on, and write them to a file with title, names of the axes, and legend.

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
    """Return how a point of the paper's looks: hollow, so that it hides nothing."""
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
    """Return error bars, None if a cell has but one run: one says nothing about how they are spread."""
    return None if min(runs, default=0) < 2 else list(deviations)


def written(files: Sequence[Path]) -> list[Path]:
    """Return the files that a study leaves, pictures in each format of the style."""
    return [each for file in files for each in (files_of(file) if file.suffix == PICTURE else [file])]
