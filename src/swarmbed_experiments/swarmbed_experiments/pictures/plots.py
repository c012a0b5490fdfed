"""Pictures of runs and benchmarks. Every run leaves pictures that show at a glance what happened.

`draw_tracks` is the paper's Figure 17. `swarmbed_experiments.pictures.charts` draws sweeps and scans, and
`swarmbed_experiments.pictures.drawing` has colours, sizes and formats.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Polygon, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from swarmbed_core.geometry import rotate
from swarmbed_core.scenario import BoxObstacle

from swarmbed_experiments.pictures.drawing import (
    ALARM,
    DONE,
    GREY,
    GRID,
    INK,
    LINES,
    PALETTE,
    STYLES,
    TRAY,
    head,
    is_fitted,
    legend_below,
    line,
    new_figure,
    plain,
    save,
    small,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray
    from swarmbed_core.arena import Arena
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import CarrierPlacement, Scene
    from swarmbed_core.spec import Body

    from swarmbed_experiments.runs.track import Track

DEEDS = (
    *("#BCD4E6", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#F0E442"),
    *("#56B4E9", "#5D3A9B", "#8C6D31", "#999999", "#F5CF8A", "#8FD3BF"),
)
"""Colours of activities (`doing`). The first one is pale: robots start with it, and it is mostly a search."""
SEARCH, DROP = "#DCECF7", "#DDF0E3"
DEED_LENGTH = 30
"""Maximum length of an activity's name in a legend."""
NAMED = 24
"""Maximum number of robots that a legend names. More are drawn as a density map."""
ROWS = 30
"""Maximum number of robots with a row each on a timeline. Of more, the number in each activity is drawn."""
MARGIN = 0.15
"""Margin around the drawing, in metres."""


def draw_tracks(file: Path, scene: Scene, track: Track, summary: Mapping[str, Any]) -> None:
    """Draw a plan view of the arena with the robots' tracks: the paper's Figure 17.

    Args:
        file: PNG to write.
        scene: the initial state.
        track: of the run, with at least one sample.
        summary: of the run, for the title.

    Raises:
        RunError: the picture cannot be written.
    """
    figure = new_figure(10.0, 7.4)
    axes = figure.subplots()
    crowd = len(track.robots) > NAMED
    handles = _draw_arena(axes, scene, tinted=not crowd)
    handles += _draw_crowd(figure, axes, scene, track) if crowd else _draw_robots(axes, scene, track)
    handles += _draw_carriers(axes, scene, track)
    if not crowd:
        handles += _draw_contacts(axes, track)
    axes.set_aspect("equal")
    axes.set_xlabel("x (m)")
    axes.set_ylabel("y (m)")
    _frame(axes, scene, track)
    # The colour scale of a density map takes the place beside it.
    place = (0.5, -0.09) if crowd else (1.02, 1.0)
    axes.legend(
        handles=handles,
        loc="upper center" if crowd else "upper left",
        bbox_to_anchor=place,
        ncols=4 if crowd else 1,
        frameon=False,
        fontsize=small(),
        borderaxespad=0.0,
    )
    head(axes, _title(summary))
    save(figure, file)


def draw_timeline(file: Path, scene: Scene, track: Track, summary: Mapping[str, Any]) -> None:
    """Draw what each robot did when, and how many carriers were retrieved.

    Args:
        file: PNG to write.
        scene: the initial state.
        track: of the run, with at least one sample.
        summary: of the run, for the title.

    Raises:
        RunError: the picture cannot be written.
    """
    count = len(track.robots)
    rows = count if count <= ROWS else 12
    counted = bool(scene.carriers) and "carriers_retrieved" in summary["metrics"]
    heights = [max(0.32 * rows, 1.4), *([1.3] if counted else [])]
    figure = new_figure(11.0, sum(heights) + 1.4)
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    colours = _deed_colours(track)
    if count <= ROWS:
        _draw_rows(panels[0], track, colours)
    else:
        _draw_shares(panels[0], track, colours)
    handles: list[Artist] = [
        Patch(facecolor=colour, label=_short(name) or "no activity reported")
        for name, colour in colours.items()
    ]
    handles += _draw_events(panels[0], track, names=count <= ROWS)
    if counted:
        _draw_count(panels[1], track)
    panels[-1].set_xlabel("time (s)")
    end = max(float(track.times[-1]), 1e-3)
    panels[-1].set_xlim(0.0, end)
    legend = figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=small())
    for text in legend.get_texts():
        # Names of activities may contain `$`, which is not a formula here.
        text.set_parse_math(False)
    head(panels[0], _title(summary))
    save(figure, file)


def draw_figure6(file: Path, drives: Sequence[Mapping[str, Any]]) -> None:
    """Draw true positions of robots driving a square, and their localisation errors (DOTS paper, Figure 6).

    Args:
        file: PNG to write.
        drives: each with its `speed`, and `drives`: for each seed rows of time, x, y, error of x, error of y.

    Raises:
        RunError: the picture cannot be written.
    """
    figure = new_figure(5.5 * len(drives), 6.0)
    panels = figure.subplots(2, len(drives), squeeze=False, sharex="col")
    for column, told in enumerate(drives):
        for row, axis in enumerate("xy"):
            axes = panels[row][column]
            first = np.asarray(told["drives"][0])
            axes.plot(first[:, 0], first[:, 1 + row], color=PALETTE[0], linewidth=1.8)
            axes.set_ylabel(f"true {axis} (m)", color=PALETTE[0])
            axes.set_ylim(-1.2, 1.2)
            errors = axes.twinx()
            for drive in told["drives"]:
                rows = np.asarray(drive)
                errors.plot(rows[:, 0], 1e3 * np.abs(rows[:, 3 + row]), color=ALARM, linewidth=0.5, alpha=0.5)
            errors.set_ylabel(f"error of {axis} (mm)", color=ALARM)
            errors.set_ylim(0.0, None)
            plain(axes)
            errors.spines["top"].set_visible(False)
        panels[0][column].set_title(f"{told['speed']:g} m/s, {len(told['drives'])} seeds")
        panels[1][column].set_xlabel("time (s)")
    save(figure, file)


def draw_steps(file: Path, told: Sequence[Mapping[str, Any]]) -> None:
    """Draw the step response of a robot's velocity, for acceleration and braking in several worlds.

    Args:
        file: PNG to write.
        told: one mapping; its `steps` holds rows of time and velocity, by world and step.

    Raises:
        RunError: the picture cannot be written.
    """
    worlds = told[0]["steps"]
    names = list(next(iter(worlds.values())))
    figure = new_figure(4.2 * len(names), 3.4)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for k, (world, steps) in enumerate(worlds.items()):
            rows = np.asarray(steps[name])
            style = LINES[k % len(LINES)]
            axes.plot(
                rows[:, 0], rows[:, 1], color=PALETTE[k], linestyle=style, linewidth=4.2 - k, label=world
            )
        axes.set_title(name)
        axes.set_xlabel("time (s)")
        plain(axes)
    figure.axes[0].set_ylabel("velocity (m/s; turning: rad/s)")
    figure.axes[0].legend(frameon=False)
    save(figure, file)


def draw_cost(file: Path, rows: Sequence[Mapping[str, Any]], title: str = "What a robot costs") -> None:
    """Draw how the cost of a simulation grows with the number of robots.

    Args:
        file: PNG to write.
        rows: each with `what` (the curve's label), `robots`, `ms_per_second` (milliseconds of one core for a
            simulated second), and optionally `mb`, the memory in megabytes.
        title: of the picture.

    Raises:
        RunError: the picture cannot be written.
    """
    by_what: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_what.setdefault(str(row["what"]), []).append(row)
    remembered = any(row.get("mb") is not None for row in rows)
    figure = new_figure(11.0 if remembered else 7.0, 5.0)
    panels = figure.subplots(1, 2 if remembered else 1, squeeze=False)[0]
    columns = [("ms_per_second", "time on one core (ms a simulated second)"), ("mb", "memory (MB)")]
    for axes, (column, label) in zip(panels, columns, strict=False):
        for k, (what, found) in enumerate(by_what.items()):
            points = sorted((row["robots"], row[column]) for row in found if row.get(column) is not None)
            if points:
                x, y = zip(*points, strict=True)
                axes.plot(x, y, label=what, **line(k))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("robots")
        axes.set_ylabel(label)
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
        axes.yaxis.set_major_formatter(FuncFormatter(_thousands))
        axes.yaxis.set_minor_formatter(NullFormatter())
        # Whole decades, so that both ends of the axis have a tick label.
        low, high = axes.get_ylim()
        axes.set_ylim(10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high)))
        axes.grid(visible=True, which="major", color=GRID, linewidth=0.6)
        plain(axes)
    handles: list[Artist] = list(panels[0].get_lines())
    real_time = panels[0].axhline(1000.0, color=ALARM, linewidth=1.2, linestyle=STYLES[1])
    real_time.set_label("real time")
    legend_below(figure, 3, handles=[*handles, real_time], fontsize=small())
    head(figure, title)
    save(figure, file)


# The parts of the pictures


def _title(summary: Mapping[str, Any]) -> str:
    """Return two lines: the scenario's title; what was run, with its verdict."""
    how = f"{summary['verdict']} after {summary['sim_seconds']:.1f} s"
    what = f"{summary.get('controller', summary['scenario'])}, {summary['world']}, seed {summary['seed']}"
    return f"{summary.get('title', summary['scenario'])}\n{what}: {how}"


def _thousands(value: float, _: object = None) -> str:
    """Format a tick of a logarithmic axis, with thousands separators from 1 on."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _frame(axes: Axes, scene: Scene, track: Track) -> None:
    """Set the limits of the axes so that everything is visible."""
    poses = track.poses[np.isfinite(track.poses[..., 0])]
    x = [poses[:, 0], track.carrier_poses[..., 0].ravel()]
    y = [poses[:, 1], track.carrier_poses[..., 1].ravel()]
    reach = max((placement.spec.body.bounding_radius for placement in scene.robots), default=0.0)
    segments = scene.segments()
    x += [segments[:, 0], segments[:, 2]]
    y += [segments[:, 1], segments[:, 3]]
    all_x, all_y = np.concatenate(x), np.concatenate(y)
    # In an open arena no walls bound the bodies, which reach beyond the tracks.
    slack = max(MARGIN, 0.02 * float(np.ptp(all_x))) + (reach if scene.arena.size is None else 0.0)
    axes.set_xlim(float(all_x.min()) - slack, float(all_x.max()) + slack)
    axes.set_ylim(float(all_y.min()) - slack, float(all_y.max()) + slack)


def draw_place(axes: Axes, arena: Arena, *, tinted: bool) -> list[Artist]:
    """Draw zones, as a tinted floor or by their edges, and walls; return the handles for a legend."""
    handles: list[Artist] = []
    if arena.zones is not None and arena.size is not None:
        half = arena.size[0] / 2, arena.size[1] / 2
        for name, tint, edge in (("search", SEARCH, "#56B4E9"), ("drop", DROP, DONE)):
            area = getattr(arena.zones, name)
            left, right = max(area.along_x[0], -half[0]), min(area.along_x[1], half[0])
            bottom, top = max(area.along_y[0], -half[1]), min(area.along_y[1], half[1])
            look: dict[str, Any] = (
                {"facecolor": tint, "linewidth": 0, "zorder": 0}
                if tinted
                else {"fill": False, "edgecolor": edge, "linewidth": 1.8, "linestyle": "--", "zorder": 2}
            )
            axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, **look))
            handles.append(Patch(label=f"{name} zone", **look))
    axes.add_collection(
        LineCollection(list(arena.segments().reshape(-1, 2, 2)), colors=INK, linewidths=2.0, zorder=3)
    )
    return handles


def _draw_arena(axes: Axes, scene: Scene, *, tinted: bool) -> list[Artist]:
    """Draw the arena and its obstacles."""
    handles = draw_place(axes, scene.arena, tinted=tinted)
    for item in scene.obstacles:
        if isinstance(item, BoxObstacle):
            axes.add_patch(Polygon(_corners(*item.size, item.pose), facecolor=GREY, zorder=3))
        else:
            axes.add_patch(Circle(item.pose[:2], item.radius, facecolor=GREY, zorder=3))
    if scene.obstacles:
        handles.append(Patch(facecolor=GREY, label="obstacle"))
    return handles


def _corners(length: float, width: float, pose: Sequence[float] | FloatArray) -> FloatArray:
    """Return the corners of a rectangle about a pose."""
    half = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) * (length / 2, width / 2)
    corners: FloatArray = rotate(half, float(pose[2])) + np.asarray(pose[:2])
    return corners


def _draw_robots(axes: Axes, scene: Scene, track: Track) -> list[Artist]:
    """Draw each robot's track, thicker while it carries, and its body at the end."""
    handles: list[Artist] = []
    for r, name in enumerate(track.robots):
        colour, style = PALETTE[r % len(PALETTE)], STYLES[r // len(PALETTE) % len(STYLES)]
        if is_fitted():
            # Distinguishable in greyscale print.
            style = LINES[r % len(LINES)]
        placement = scene.robots[r] if r < len(scene.robots) else None
        there = np.flatnonzero(np.isfinite(track.poses[:, r, 0]))
        if not len(there):
            continue
        start = track.poses[there[0], r] if placement is None else placement.pose
        path = np.vstack([[start], track.poses[:, r]])[:, :2]
        axes.plot(*path.T, color=colour, linewidth=1.0, linestyle=style, alpha=0.85, zorder=4)
        laden = np.concatenate([[False], (track.carried_by == r).any(axis=1)])
        for first, last in _stretches(laden):
            piece = path[max(first - 1, 0) : last]
            axes.plot(*piece.T, color=colour, linewidth=3.6, alpha=0.6, solid_capstyle="round", zorder=4)
        axes.plot(*path[0], "o", color=colour, markersize=5, markerfacecolor="white", zorder=6)
        if placement is not None and there[-1] == len(track.times) - 1:
            _draw_body(axes, placement.spec.body, track.poses[-1, r], colour)
        else:
            # It has left, or its kind is not in the scenario because it joined.
            axes.plot(*path[1 + there[-1]], "s", color=colour, markersize=5, zorder=6)
        handles.append(Line2D([], [], color=colour, linestyle=style, linewidth=2, label=name))
    handles.append(Line2D([], [], color=INK, marker="o", markerfacecolor="white", linewidth=1, label="start"))
    if (track.carried_by >= 0).any():
        handles.append(Line2D([], [], color=INK, linewidth=3.6, alpha=0.6, label="carrying"))
    return handles


def _stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the stretches in which a mask is true, as half-open ranges of indices."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _draw_body(axes: Axes, body: Body, pose: FloatArray, colour: str) -> None:
    """Draw a robot's outline and a line from its centre forward."""
    if body.shape == "disc":
        reach = body.radius
        axes.add_patch(
            Circle((pose[0], pose[1]), reach, facecolor="white", edgecolor=colour, lw=1.6, zorder=5)
        )
    else:
        reach = body.length / 2
        corners = _corners(body.length, body.width, pose)
        axes.add_patch(Polygon(corners, facecolor="white", edgecolor=colour, lw=1.6, zorder=5))
    nose = rotate([[0.0, 0.0], [reach, 0.0]], float(pose[2])) + pose[:2]
    axes.plot(*nose.T, color=colour, linewidth=1.6, zorder=5)


def _draw_carriers(axes: Axes, scene: Scene, track: Track) -> list[Artist]:
    """Draw each carrier's first and last place, with its id at both."""
    for k, placement in enumerate(scene.carriers):
        last = track.carrier_poses[-1, k]
        _draw_carrier(axes, placement, placement.pose, moved=False)
        if math.dist(last[:2], placement.pose[:2]) > placement.carrier.length / 10:
            _draw_carrier(axes, placement, last, moved=True)
    if not scene.carriers:
        return []
    start = Patch(facecolor="none", edgecolor=INK, linestyle=":", label="carrier at the start")
    end = Patch(facecolor=TRAY, alpha=0.55, edgecolor=INK, label="carrier at the end")
    return [start, end]


def _draw_carrier(
    axes: Axes, placement: CarrierPlacement, pose: Sequence[float] | FloatArray, *, moved: bool
) -> None:
    """Draw one carrier: dotted at its first place, filled where it was moved to."""
    corners = _corners(placement.carrier.length, placement.carrier.width, pose)
    if moved:
        axes.add_patch(Polygon(corners, facecolor=TRAY, edgecolor=INK, linewidth=0.8, alpha=0.55, zorder=5.5))
    else:
        axes.add_patch(Polygon(corners, fill=False, edgecolor=INK, linestyle=":", linewidth=1.2, zorder=5.5))
    axes.text(
        float(pose[0]),
        float(pose[1]),
        str(placement.marker),
        ha="center",
        va="center",
        fontsize=8,
        fontweight="bold" if moved else "normal",
        color=INK,
        zorder=8,
        bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "alpha": 0.65, "linewidth": 0},
    )


def _draw_crowd(figure: Figure, axes: Axes, scene: Scene, track: Track) -> list[Artist]:
    """Draw a crowd: a density map of robot-seconds, and the robots at the end."""
    last = track.poses[-1, : len(scene.robots)]
    spread = track.poses[np.isfinite(track.poses[..., 0])][:, :2]
    low, high = spread.min(axis=0), spread.max(axis=0)
    if scene.arena.size is not None:
        high = np.array(scene.arena.size) / 2
        low = -high
    # Cells of about a robot's size, but at most 120 along the longer side.
    radius = max(placement.spec.body.bounding_radius for placement in scene.robots)
    cell = max(2 * radius, float((high - low).max()) / 120, 1e-6)
    edges = [np.linspace(low[i], high[i], max(2, math.ceil((high[i] - low[i]) / cell) + 1)) for i in (0, 1)]
    counts, *_ = np.histogram2d(spread[:, 0], spread[:, 1], bins=edges)
    period = float(np.median(np.diff(track.times))) if len(track.times) > 1 else 1.0
    seconds = np.ma.masked_equal(counts.T * period, 0.0)
    top = max(float(seconds.max() if seconds.count() else period), 2 * period)
    image = axes.pcolormesh(
        *edges, seconds, cmap="Blues", norm=LogNorm(period / 2, top), zorder=1, linewidth=0
    )
    scale = figure.colorbar(image, ax=axes, label="robot-seconds spent there", shrink=0.85)
    scale.ax.yaxis.set_major_formatter(FuncFormatter(_thousands))
    scale.ax.yaxis.set_minor_formatter(NullFormatter())
    colour = "#E69F00"
    widths = [2 * placement.spec.body.bounding_radius for placement in scene.robots]
    axes.add_collection(
        EllipseCollection(
            widths,
            widths,
            np.zeros(len(last)),
            units="xy",
            offsets=last[:, :2],
            offset_transform=axes.transData,
            facecolor=colour,
            edgecolor="white",
            linewidth=0.3,
            zorder=5,
        )
    )
    label = f"{len(last):,} robots at the end"
    return [Line2D([], [], linestyle="", marker="o", color=colour, label=label)]


_CONTACT: dict[str, Any] = {
    "linestyle": "",
    "marker": "X",
    "color": ALARM,
    "markeredgecolor": "white",
    "markersize": 9,
    "markeredgewidth": 0.9,
}


def _draw_contacts(axes: Axes, track: Track) -> list[Artist]:
    """Mark where robots touched something."""
    places = _places(track, "contact")
    if not len(places):
        return []
    axes.plot(*places.T, zorder=9, **_CONTACT)
    return [Line2D([], [], label=f"contact ({len(places)})", **_CONTACT)]


def _places(track: Track, kind: str) -> FloatArray:
    """Return the places of the robots and carriers in events of a kind, as rows of x, y."""
    found = []
    for event in track.events:
        if event.kind != kind:
            continue
        k = min(int(np.searchsorted(track.times, event.time)), len(track.times) - 1)
        if event.who in track.robots:
            found.append(track.poses[k, track.robots.index(event.who), :2])
        elif event.who in track.carriers:
            found.append(track.carrier_poses[k, track.carriers.index(event.who), :2])
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def _short(name: str) -> str:
    """Shorten the name of an activity for a legend."""
    return name if len(name) <= DEED_LENGTH else name[: DEED_LENGTH - 1] + "…"


def _deed_colours(track: Track) -> dict[str, str]:
    """Return the colours of activities. The rarest ones share the colour of `other`."""
    often = Counter({deed: int((track.doing == k).sum()) for k, deed in enumerate(track.deeds)})
    shown = [deed for deed, count in often.most_common() if count and deed != "dead"]
    kept = shown if len(shown) <= len(DEEDS) else shown[: len(DEEDS) - 1]
    # In order of first occurrence, so that the legend reads like the run.
    colours = {deed: DEEDS[k] for k, deed in enumerate(deed for deed in track.deeds if deed in kept)}
    if len(kept) < len(shown):
        colours["other"] = "#CCCCCC"
    if often["dead"]:
        colours["dead"] = INK
    return colours


def _draw_rows(axes: Axes, track: Track, colours: Mapping[str, str]) -> None:
    """Draw a row for each robot, in the colours of its activities."""
    edges = np.concatenate([[0.0], track.times])
    for r in range(len(track.robots)):
        for k in np.unique(track.doing[:, r]):
            colour = colours.get(track.deeds[k], colours.get("other", "#CCCCCC"))
            spans = [
                (edges[first], edges[last] - edges[first])
                for first, last in _stretches(track.doing[:, r] == k)
            ]
            axes.broken_barh(spans, (r - 0.36, 0.72), facecolors=colour, linewidth=0, zorder=2)
        laden = [
            (edges[first], edges[last] - edges[first])
            for first, last in _stretches((track.carried_by == r).any(axis=1))
        ]
        if laden:
            axes.broken_barh(laden, (r + 0.24, 0.12), facecolors=INK, linewidth=0, zorder=3)
    axes.set_yticks(range(len(track.robots)), track.robots)
    axes.set_ylim(len(track.robots) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    plain(axes)


def _draw_shares(axes: Axes, track: Track, colours: Mapping[str, str]) -> None:
    """Draw the number of robots in each activity as stacked areas."""
    counts = {deed: np.zeros(len(track.times)) for deed in colours}
    for k in np.unique(track.doing):
        deed = track.deeds[k]
        counts[deed if deed in counts else "other"] += (track.doing == k).sum(axis=1)
    axes.stackplot(track.times, list(counts.values()), colors=list(colours.values()), linewidth=0)
    axes.set_ylabel("robots")
    axes.set_ylim(0, len(track.robots))
    plain(axes)


def _draw_events(axes: Axes, track: Track, *, names: bool) -> list[Artist]:
    """Mark contacts and deliveries on the rows; draw other events as vertical lines with a legend."""
    handles: list[Artist] = []
    if names and (track.carried_by >= 0).any():
        handles.append(Line2D([], [], color=INK, linewidth=2.5, label="carrying"))
    marks = [event for event in track.events if event.kind == "contact" and event.who in track.robots]
    if names and marks:
        x = [event.time for event in marks]
        y = [track.robots.index(event.who) for event in marks]
        axes.plot(x, y, zorder=5, **_CONTACT)
        handles.append(Line2D([], [], label="contact", **_CONTACT))
    done = [event for event in track.events if event.kind == "retrieved"]
    carried = _bearers(track, done)
    if names and carried:
        axes.plot(*zip(*carried, strict=True), zorder=6, **_STAR)
    if done and names:
        handles.append(Line2D([], [], label="carrier delivered", **_STAR))
    others = [
        event for event in track.events if event.kind not in {"contact", "retrieved", "lifted", "lowered"}
    ]
    for time in sorted({event.time for event in others}):
        axes.axvline(time, color=ALARM, linewidth=1.2, linestyle=STYLES[1], zorder=4)
    for kind in sorted({event.kind for event in others}):
        texts = [f"{event.time:.0f} s: {event.who or event.text}" for event in others if event.kind == kind]
        shown = texts[:4] + ([f"and {len(texts) - 4} more"] if len(texts) > 4 else [])
        label = "\n".join([kind.replace("_", " "), *shown])
        handles.append(Line2D([], [], color=ALARM, linewidth=1.2, linestyle=STYLES[1], label=label))
    return handles


_STAR: dict[str, Any] = {
    "linestyle": "",
    "marker": "*",
    "color": "white",
    "markeredgecolor": INK,
    "markersize": 11,
    "markeredgewidth": 0.9,
    "clip_on": False,
}


def _bearers(track: Track, done: Sequence[Any]) -> list[tuple[float, int]]:
    """Return, for each delivered carrier, the time and the row of the robot that carried it last."""
    found = []
    for event in done:
        if event.who not in track.carriers:
            continue
        k = int(np.searchsorted(track.times, event.time, side="right"))
        by = track.carried_by[:k, track.carriers.index(event.who)]
        held = by[by >= 0]
        if len(held):
            found.append((event.time, int(held[-1])))
    return found


def _draw_count(axes: Axes, track: Track) -> None:
    """Draw the number of retrieved carriers over time."""
    times = sorted(event.time for event in track.events if event.kind == "retrieved")
    end = float(track.times[-1])
    steps = [0.0, *times, end]
    axes.step(steps, [*range(len(times) + 1), len(times)], where="post", color=DONE, linewidth=2.0)
    axes.fill_between(
        steps, [*range(len(times) + 1), len(times)], step="post", color=DONE, alpha=0.15, linewidth=0
    )
    axes.set_ylim(0, len(track.carriers) + 0.3)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))
    axes.set_ylabel("carriers\nretrieved")
    axes.grid(visible=True, axis="y", color=GRID, linewidth=0.6)
    plain(axes)
