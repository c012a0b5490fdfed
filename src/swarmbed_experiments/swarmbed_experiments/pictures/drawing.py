"""The common style of all pictures: colours, sizes, file formats, and the variant for papers.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. Line styles, markers and
hatches keep curves distinct in greyscale. Figures are made without pyplot, so they need no display.

    with drawn("paper", ("pdf", "svg")):
        figure = new_figure(8.0, 4.5)
        ...
        save(figure, directory / "speed.png")      # speed.pdf and speed.svg, a column wide, without title
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from swarmbed_core.errors import ConfigError

from swarmbed_experiments.errors import unwritable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

DPI = 150
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D31", "#5D3A9B")
"""Okabe and Ito's, without black, yellow (invisible on white) and vermilion (reserved for contacts)."""
STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)))
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.2, 1.2, 1.2)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oooo")
ALARM, DONE, INK, GREY, TRAY = "#D55E00", "#117733", "#222222", "#666666", "#C8A165"
GRID = "#DDDDDD"

FORMATS = ("png", "pdf", "svg")
COLUMN, PAGE = 3.5, 7.16
"""Widths in inches of one column and of two, as in most journals."""
WIDE = 8.5
"""Width in inches of the screen version above which a picture takes both columns of a paper."""
LOWEST = 0.72
"""Smallest height of a one-column picture as a share of its width: text does not shrink with the picture."""


@dataclass(frozen=True)
class Style:
    """A style of pictures.

    Attributes:
        formats: file formats.
        titles: whether pictures have titles; in a paper, the caption replaces them.
        fitted: whether pictures are exactly one or two columns wide.
        dpi: resolution of PNG files.
        settings: matplotlib's rcParams.
    """

    formats: tuple[str, ...] = ("png",)
    titles: bool = True
    fitted: bool = False
    dpi: int = DPI
    settings: Mapping[str, Any] = field(default_factory=dict)


SCREEN = Style()
PAPER = Style(
    formats=("pdf",),
    titles=False,
    fitted=True,
    dpi=600,
    settings={
        "font.size": 8.5,
        "axes.labelsize": 8.5,
        "axes.titlesize": 8.5,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8,
        "legend.fontsize": 8,
        "legend.title_fontsize": 8,
        "legend.handlelength": 2.4,
        "axes.linewidth": 0.6,
        "lines.markersize": 4,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "hatch.linewidth": 0.5,
        # TrueType fonts, which publishers accept.
        "pdf.fonttype": 42,
        "svg.hashsalt": "swarmbed",
    },
)
NAMES = {"screen": SCREEN, "paper": PAPER}
_style: ContextVar[Style] = ContextVar("style", default=SCREEN)


@contextlib.contextmanager
def drawn(name: str = "screen", formats: Sequence[str] = ()) -> Iterator[None]:
    """Draw the pictures within this context in a style, and write them in `formats`, by default the style's.

    Raises:
        ConfigError: the style or a format does not exist.
    """
    if name not in NAMES:
        message = f"style '{name}' does not exist; choose {' or '.join(NAMES)}"
        raise ConfigError(message)
    wrong = [each for each in formats if each not in FORMATS]
    if wrong:
        message = f"format '{wrong[0]}' does not exist; choose from {', '.join(FORMATS)}"
        raise ConfigError(message)
    style = NAMES[name]
    chosen = Style(
        tuple(dict.fromkeys(formats)) or style.formats, style.titles, style.fitted, style.dpi, style.settings
    )
    token = _style.set(chosen)
    try:
        with mpl.rc_context(cast("Any", dict(chosen.settings))):
            yield
    finally:
        _style.reset(token)


def formats_of(text: str | None) -> tuple[str, ...]:
    """Return the formats in a text such as `png,pdf`; empty, which means the style's own, for None."""
    return tuple(item.strip().lower() for item in (text or "").split(",") if item.strip())


def files_of(file: Path) -> list[Path]:
    """Return the files that `save` writes for a picture in the current style."""
    return [file.with_suffix(f".{each}") for each in _style.get().formats]


def new_figure(width: float, height: float) -> Figure:
    """Return a figure of this size in inches; in a paper it is scaled to one column or two."""
    if _style.get().fitted:
        fitted = PAGE if width > WIDE else COLUMN
        least = LOWEST * fitted if fitted == COLUMN else 0.0
        width, height = fitted, max(height * fitted / width, least)
    return Figure(figsize=(width, height), layout="constrained")


def is_fitted() -> bool:
    """Return whether pictures are drawn for a paper."""
    return _style.get().fitted


def small() -> float | str:
    """Return the font size of secondary text; in a paper 8 points, the minimum."""
    return 8 if _style.get().fitted else "small"


def head(where: Axes | Figure, text: str) -> None:
    """Set a picture's title, if the style has titles; `$` in it starts no formula."""
    if not _style.get().titles:
        return
    if isinstance(where, Figure):
        where.suptitle(text, fontsize="large", color=INK, parse_math=False)
    else:
        where.set_title(text, color=INK, parse_math=False)


def legend_below(figure: Figure, columns: int, **given: Any) -> None:
    """Put a legend below a figure, outside the axes, in `columns` columns or as many as fit."""
    canvas: Any = FigureCanvasAgg(figure)
    for count in range(max(columns, 1), 0, -1):
        legend = figure.legend(loc="outside lower center", ncols=count, frameon=False, **given)
        extent = legend.get_window_extent(canvas.get_renderer())
        if count == 1 or extent.width <= figure.bbox.width:
            break
        legend.remove()
    if _style.get().fitted:
        # The width is fixed; the axes keep their height.
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + extent.height / figure.dpi)


def plain(axes: Axes) -> None:
    """Remove the upper and right lines of the frame."""
    axes.spines[["top", "right"]].set_visible(False)


def line(k: int, *, marker: bool = True) -> dict[str, Any]:
    """Return the plot options of curve number `k`, distinct from other curves in greyscale too."""
    look = {"color": PALETTE[k % len(PALETTE)], "linestyle": LINES[k % len(LINES)], "linewidth": 1.5}
    return look | {"marker": MARKERS[k % len(MARKERS)], "markersize": 4.5} if marker else look


def bar(k: int) -> dict[str, Any]:
    """Return the plot options of bar group number `k`."""
    return {
        "facecolor": PALETTE[k % len(PALETTE)],
        "hatch": HATCHES[k % len(HATCHES)],
        "edgecolor": "white",
        "linewidth": 0.5,
    }


def save(figure: Figure, file: Path) -> list[Path]:
    """Write a figure in each format of the style; return the files.

    Raises:
        RunError: a file cannot be written.
    """
    style = _style.get()
    files = files_of(file)
    for each in files:
        kind = each.suffix[1:]
        settings: dict[str, Any] = {} if style.fitted else {"bbox_inches": "tight", "pad_inches": 0.15}
        # No timestamps: the same figure gives the same file.
        stamps = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
        try:
            figure.savefig(each, dpi=style.dpi, metadata=stamps.get(kind), **settings)
        except OSError as error:
            raise unwritable(each, error) from None
    return files
