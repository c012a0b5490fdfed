"""Pictures of sweeps and scans: distributions of the most important metrics, and metrics over parameters.

`draw_sweep` compares with Table V of the DOTS paper if the task is the paper's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from swarmbed_experiments.pictures.drawing import (
    ALARM,
    GREY,
    GRID,
    INK,
    PALETTE,
    STYLES,
    head,
    is_fitted,
    legend_below,
    new_figure,
    plain,
    save,
    small,
)
from swarmbed_experiments.runs.metrics import by_rank, label_of
from swarmbed_experiments.runs.results import (
    CONFIDENCE,
    RESERVED,
    SETTLED,
    is_number,
    number,
    shown,
    statistics,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from swarmbed_core.geometry import FloatArray

TABLE_V = (136.0, 99.0, 213.0, 116.0, 327.0)
"""Completion times in seconds of the paper's five runs of the task (Table V)."""
DONE_AT = "completion_seconds"
PANELS = 6
"""Largest number of panels in a sweep's picture; completion times take two."""
FEW = 8
"""Number of runs from which a histogram is drawn; fewer are drawn as dots."""
MULTIPLES = 12
"""Largest number of heat maps in one picture."""
WRITTEN = 12
"""Largest number of values per parameter with which heat map cells show their numbers."""


# Sweeps


def draw_sweep(
    file: Path,
    rows: Sequence[Mapping[str, Any]],
    title: str,
    *,
    units: Mapping[str, str] | None = None,
    paper: bool = False,
) -> list[Path]:
    """Draw the distributions of the most important metrics, completion times first; return the files.

    Args:
        file: file to write.
        rows: rows of the runs; failed ones are left out.
        title: title of the picture.
        units: units of user-defined metrics.
        paper: whether the task is the paper's, so that its Table V is drawn too.

    Raises:
        RunError: the picture cannot be written.
    """
    done = any(DONE_AT in row for row in rows)
    names = [name for name in headline(rows) if name != DONE_AT][: PANELS - 2 * done]
    count = len(names) + 2 * done or 1
    wide = min(count, 2 if count in {2, 4} else 3)
    high = math.ceil(count / wide)
    figure = new_figure(max(4.0 * wide, 6.0), 3.1 * high + 1.0)
    panels = list(figure.subplots(high, wide, squeeze=False).flat)
    for axes in panels[count:]:
        axes.set_axis_off()
    handles: list[Artist] = []
    if done:
        accepted = [row for row in rows if row["verdict"] == "accepted"]
        times = np.sort([row[DONE_AT] for row in accepted if is_number(row.get(DONE_AT))])
        _draw_shares_done(panels[0], times, len(rows), paper=paper)
        _draw_times(panels[1], times, paper=paper)
        mean = f", mean {times.mean():.0f} s" if len(times) else ""
        label = f"done: {len(times)} of {len(rows)} runs{mean}"
        handles.append(Line2D([], [], color=PALETTE[0], linewidth=2.5, label=label))
    if paper and done:
        theirs = f"paper, Table V: 5 runs, mean {np.mean(TABLE_V):.0f} s"
        handles.append(Line2D([], [], color=ALARM, linewidth=2, linestyle=STYLES[1], label=theirs))
    for axes, name in zip(panels[2 * done :], names, strict=False):
        _draw_spread(axes, [row[name] for row in _measured(rows) if is_number(row.get(name))], name, units)
    if not done and not names:
        panels[0].text(0.5, 0.5, "no run has a number to show", ha="center", transform=panels[0].transAxes)
        panels[0].set_axis_off()
    if len(_measured(rows)) > 1:
        handles.append(Line2D([], [], color=INK, linewidth=1, linestyle=":", label="mean"))
        interval = f"{CONFIDENCE:.0%} interval of the mean"
        handles += [Patch(facecolor=GREY, alpha=0.25, label=interval)] if names else []
    if handles:
        legend_below(figure, 4, handles=handles, fontsize=small())
    head(figure, title)
    return save(figure, file)


def headline(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the numeric metrics of whole runs, the most important first.

    Only those that differ between the runs are returned, unless none does.
    """
    values: dict[str, set[float]] = {}
    for row in _measured(rows):
        for name, value in row.items():
            whole = name not in RESERVED and name not in SETTLED and "." not in name.removeprefix("metrics.")
            if whole and is_number(value):
                values.setdefault(name, set()).add(float(value))
    names = by_rank(values)
    differing = [name for name in names if len(values[name]) > 1]
    return differing or names[:PANELS]


def _measured(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the runs that did not fail."""
    return [row for row in rows if row["verdict"] != "failed"]


def _draw_spread(
    axes: Axes, values: Sequence[float], name: str, units: Mapping[str, str] | None, colour: str = PALETTE[0]
) -> None:
    """Draw a metric's distribution: many runs as bars, few as dots, one as a dot with its value."""
    axes.set_xlabel(label_of(name, units))
    plain(axes)
    whole = all(float(value).is_integer() for value in values)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=whole))
    if not values:
        axes.text(0.5, 0.5, "no data", ha="center", transform=axes.transAxes)
        axes.set_yticks([])
        return
    sums = statistics(values)
    if len(values) >= FEW:
        low, high = min(values), max(values)
        if whole and high - low < 30:
            edges = np.arange(low - 0.5, high + 1.0)
        else:
            edges = np.linspace(low, high if high > low else low + 1.0, max(8, round(2 * len(values) ** 0.5)))
        axes.hist(values, bins=edges.tolist(), color=colour, rwidth=0.92, zorder=2)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.set_ylabel("runs")
    else:
        # Equal values are stacked.
        seen: dict[float, int] = {}
        for value in values:
            seen[value] = seen.get(value, 0) + 1
            axes.plot(value, seen[value], "o", color=colour, markersize=7, zorder=3)
        axes.set_ylim(0, max(seen.values()) + 1)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        axes.set_ylabel("runs")
    if len(values) == 1:
        axes.annotate(number(values[0]), (values[0], 1), (0, 8), textcoords="offset points", ha="center")
        return
    axes.axvline(sums["mean"], color=INK, linewidth=1.2, linestyle=":", zorder=4)
    axes.axvspan(sums["low"], sums["high"], color=GREY, alpha=0.25, linewidth=0, zorder=1)


def _draw_shares_done(axes: Axes, times: FloatArray, runs: int, *, paper: bool) -> None:
    """Draw the share of the runs that had completed the task by each time."""
    latest = max([*times, *(TABLE_V if paper else ()), 1.0]) * 1.05
    if len(times):
        shares = 100.0 * np.arange(1, len(times) + 1) / runs
        x, y = [0.0, *times, latest], [0.0, *shares, shares[-1]]
        axes.step(x, y, where="post", color=PALETTE[0], linewidth=2.5)
    if paper:
        theirs = np.sort(TABLE_V)
        shares = 100.0 * np.arange(1, len(theirs) + 1) / len(theirs)
        x, y = [0.0, *theirs, latest], [0.0, *shares, shares[-1]]
        axes.step(x, y, where="post", color=ALARM, linewidth=2, linestyle=STYLES[1])
    axes.set_xlim(0.0, latest)
    axes.set_ylim(0, 103)
    axes.set_xlabel("completion time (s)")
    axes.set_ylabel("completed runs (%)")
    axes.grid(visible=True, color=GRID, linewidth=0.6)
    plain(axes)


def _draw_times(axes: Axes, times: FloatArray, *, paper: bool) -> None:
    """Draw a histogram of completion times, with the paper's runs as marks on the time axis."""
    latest = max([*times, *(TABLE_V if paper else ()), 1.0]) * 1.05
    if len(times):
        bins = min(40, max(8, round(2 * len(times) ** 0.5)))
        axes.hist(times, bins=np.linspace(0.0, latest, bins + 1).tolist(), color=PALETTE[0], rwidth=0.92)
        if len(times) > 1:
            axes.axvline(float(times.mean()), color=INK, linewidth=1.2, linestyle=":")
    else:
        axes.text(0.5, 0.5, "no run was accepted", ha="center", transform=axes.transAxes)
    if paper:
        feet = axes.get_xaxis_transform()
        for seconds in TABLE_V:
            look: dict[str, Any] = {"color": ALARM, "linewidth": 2, "transform": feet, "zorder": 4}
            axes.plot([seconds, seconds], [0.0, 0.09], **look)
        axes.axvline(float(np.mean(TABLE_V)), color=ALARM, linewidth=1.2, linestyle=":")
    axes.set_xlim(0.0, latest)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("completion time (s)")
    axes.set_ylabel("runs")
    plain(axes)


# Scans


@dataclass(frozen=True)
class Axis:
    """A scanned parameter.

    Attributes:
        field: its name in the scenario.
        values: its values, in the order given.
    """

    field: str
    values: tuple[Any, ...]

    @property
    def numbers(self) -> list[float] | None:
        """Return its values as numbers, None if one is not a finite number."""
        found = []
        for value in self.values:
            try:
                found.append(math.nan if isinstance(value, bool) else float(value))
            except (TypeError, ValueError, OverflowError):
                return None
        return found if all(math.isfinite(value) for value in found) else None

    @property
    def ticks(self) -> list[str]:
        """Return its values as tick labels."""
        return [shown(value, 16) for value in self.values]


@dataclass(frozen=True)
class Point:
    """A metric in one cell of a scan.

    Attributes:
        values: its values in the runs that have it.
        runs: number of all runs of the cell.
        mean: mean of the values; NaN without any.
        low: lower end of the mean's confidence interval; None for a single run.
        high: upper end; likewise.
    """

    values: tuple[float, ...]
    runs: int
    mean: float
    low: float | None
    high: float | None


def draw_scan(
    file: Path,
    axes: Sequence[Axis],
    points: Mapping[tuple[int, ...], Point],
    label: str,
    title: str,
) -> bool:
    """Draw a metric over one to three parameters; return False if there are too many to draw.

    Args:
        file: file to write.
        axes: the parameters.
        points: the cells, by the indices of the parameters' values.
        label: label of the metric, with its unit.
        title: title of the picture.

    Raises:
        RunError: the picture cannot be written.
    """
    if len(axes) == 1:
        _draw_line(file, axes[0], [points[(k,)] for k in range(len(axes[0].values))], label, title)
    elif len(axes) == 2 or (len(axes) == 3 and len(axes[2].values) <= MULTIPLES):
        _draw_maps(file, axes, points, label, title)
    else:
        return False
    return True


def _draw_line(file: Path, axis: Axis, points: Sequence[Point], label: str, title: str) -> None:
    """Draw a metric over a parameter: means with intervals, and each run."""
    figure = new_figure(7.0, 4.4)
    axes = figure.subplots()
    numbers = axis.numbers
    x = list(range(len(points))) if numbers is None else numbers
    order = np.argsort(x, kind="stable")
    for place, point in zip(x, points, strict=True):
        if len(point.values) > 1:
            axes.plot([place] * len(point.values), point.values, ".", color=GREY, alpha=0.5, zorder=2)
    with_mean = [k for k in order if math.isfinite(points[k].mean)]
    look: dict[str, Any] = {"color": PALETTE[0], "marker": "o", "markersize": 6, "zorder": 4}
    # No line between values that are not numbers.
    look["linestyle"] = "" if numbers is None else "-"
    axes.plot([x[k] for k in with_mean], [points[k].mean for k in with_mean], **look)
    for k in with_mean:
        point = points[k]
        if point.low is not None and point.high is not None:
            off = [[point.mean - point.low], [point.high - point.mean]]
            axes.errorbar(x[k], point.mean, off, color=PALETTE[0], capsize=4, linewidth=1.5, zorder=3)
        if len(point.values) < point.runs:
            text = f"{len(point.values)} of {point.runs}"
            axes.annotate(text, (x[k], point.mean), (7, 7), textcoords="offset points", fontsize=small())
    for k, point in enumerate(points):
        if not point.values:
            axes.annotate(
                "none",
                (x[k], 0.02),
                xycoords=("data", "axes fraction"),
                ha="center",
                color=ALARM,
                fontsize=small(),
            )
    if numbers is None:
        axes.set_xticks(x, axis.ticks)
        axes.set_xlim(-0.5, len(points) - 0.5)
    elif min(numbers) > 0 and max(numbers) >= 50 * min(numbers):
        axes.set_xscale("log")
        axes.set_xticks(numbers, axis.ticks)
        axes.minorticks_off()
    axes.set_xlabel(axis.field)
    axes.set_ylabel(label)
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.6)
    plain(axes)
    handles: list[Any] = [Line2D([], [], **look, label="mean")]
    if any(point.low is not None for point in points):
        handles = [axes.errorbar([], [], [], **look, capsize=4, label=f"mean, {CONFIDENCE:.0%} interval")]
        handles.append(Line2D([], [], color=GREY, marker=".", alpha=0.5, linestyle="", label="a run"))
        legend_below(figure, 3, handles=handles, fontsize=small())
    head(axes, title)
    save(figure, file)


def _draw_maps(
    file: Path,
    axes: Sequence[Axis],
    points: Mapping[tuple[int, ...], Point],
    label: str,
    title: str,
) -> None:
    """Draw a heat map over two parameters; with a third parameter, one map for each of its values."""
    across, up = axes[0], axes[1]
    several = range(len(axes[2].values)) if len(axes) == 3 else range(1)
    wide = min(len(several), 4)
    high = math.ceil(len(several) / wide)
    cells_x, cells_y = len(across.values), len(up.values)
    size = (
        min(14.0, wide * max(3.2, min(0.75 * cells_x + 1.2, 8.0)) + 1.2),
        high * max(2.2, min(0.6 * cells_y + 1.0, 8.0)) + 0.8,
    )
    if wide == 1:
        size = (max(size[0], 5.5), max(size[1], 4.0))
    figure = new_figure(*size)
    panels = list(figure.subplots(high, wide, squeeze=False, sharex=True, sharey=True).flat)
    for panel in panels[len(several) :]:
        panel.set_axis_off()
    means = [point.mean for point in points.values() if math.isfinite(point.mean)]
    low, top = (min(means), max(means)) if means else (0.0, 1.0)
    same = max(abs(low), 1.0) / 2
    scale = Normalize(low, top) if top > low else Normalize(low - same, low + same)
    image = None
    for k in several:
        panel = panels[k]
        tail = (k,) if len(axes) == 3 else ()
        grid = np.array([[points[(i, j, *tail)].mean for i in range(cells_x)] for j in range(cells_y)])
        panel.set_facecolor("white")
        image = panel.imshow(
            np.ma.masked_invalid(grid), origin="lower", aspect="auto", cmap="cividis", norm=scale
        )
        fits = cells_x * len(several) <= WRITTEN * 1.5 and cells_y <= WRITTEN and cells_x <= WRITTEN
        for i in range(cells_x):
            for j in range(cells_y):
                point = points[(i, j, *tail)]
                _write(panel, (i, j), point, scale, numbers=fits)
        panel.set_xticks(range(cells_x), across.ticks)
        panel.set_yticks(range(cells_y), up.ticks)
        if max(len(tick) for tick in across.ticks) * cells_x * wide > (40 if is_fitted() else 90):
            panel.tick_params(axis="x", rotation=45)
        if k // wide == (len(several) - 1) // wide or k + wide >= len(several):
            panel.set_xlabel(across.field)
            panel.tick_params(labelbottom=True)
        if k % wide == 0:
            panel.set_ylabel(up.field)
        if len(axes) == 3:
            panel.set_title(f"{axes[2].field} = {axes[2].ticks[k]}", fontsize=small(), parse_math=False)
    if image is not None and means:
        figure.colorbar(image, ax=panels, label=label)
    head(figure, title)
    save(figure, file)


def _write(panel: Axes, place: tuple[int, int], point: Point, scale: Normalize, *, numbers: bool) -> None:
    """Write a cell's mean, and its number of runs if some lack the metric; hatch a cell without values."""
    x, y = place
    if not point.values:
        look: dict[str, Any] = {"facecolor": "white", "edgecolor": GREY, "hatch": "///", "linewidth": 0}
        panel.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **look))
        return
    if not numbers:
        return
    text = f"{point.mean:.3g}"
    if len(point.values) < point.runs:
        text += f"\n({len(point.values)} of {point.runs})"
    colour = "white" if float(scale(point.mean)) < 0.55 else "black"
    panel.text(x, y, text, ha="center", va="center", color=colour, fontsize=small())
