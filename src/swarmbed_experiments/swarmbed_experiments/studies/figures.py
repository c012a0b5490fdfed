"""What the figures of all studies share: size, title, axes from 0, legend, file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from swarmbed_experiments.plots import INK, save

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SIZE = (8.0, 4.5)


@contextmanager
def chart(file: Path, title: str, *, y: str, x: str = "") -> Iterator[Any]:
    """Give axes to draw on, and write them to a file with title, names of the axes, and legend.

    Raises:
        RunError: it cannot be written.
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    yield axes
    axes.set(xlabel=x, ylabel=y, ylim=(0, None))
    axes.set_title(title, color=INK)
    if named := len(axes.get_legend_handles_labels()[0]):
        # Below, where it hides nothing.
        figure.legend(loc="outside lower center", ncols=named)
    save(figure, file)
