"""The transport of "Investigating Transportation Efficiency in Swarm Robotics with High-Fidelity Simulation".

Fifteen robots carry a hundred items, with the study's three modes of communication and with ours: full
communication with rules of the road (`swarmbed_behaviours.transport`). Figures 8 to 13 show all seeds, except
8 and 12, which show the first one. The seeds differ from those used to develop the robots' program (1 to 4).
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import write_json
from swarmbed_experiments.pictures.drawing import (
    GREY,
    HATCHES,
    INK,
    LINES,
    MARKERS,
    PALETTE,
    head,
    legend_below,
    new_figure,
    plain,
    save,
)
from swarmbed_experiments.runs.scenarios import load_scenario, make_plan
from swarmbed_experiments.studies import Study
from swarmbed_experiments.studies.cells import Cell, Found, work
from swarmbed_experiments.studies.figures import chart, theirs, written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from rich.console import Console
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene

SCENARIO = "transport"
SEEDS = 20
"""Default number of seeds per mode."""
FIRST = 101
"""The first seed."""
WAYS = {
    "none": ("controller.mode=none",),
    "partial": ("controller.mode=partial",),
    "full": ("controller.mode=full",),
    "ours": ("controller.mode=full", "controller.traffic=[swerve, driving]"),
}
COLOURS = dict(zip(WAYS, (PALETTE[0], PALETTE[2], PALETTE[3], PALETTE[1]), strict=True))
STYLES = dict(zip(WAYS, LINES, strict=False))
SIGNS = dict(zip(WAYS, MARKERS, strict=False))
SIZES = {"none": 6, "partial": 12, "full": 8}
RULES = {
    "lanes": ("controller.mode=full", "controller.traffic=[lanes]"),
    "driving": ("controller.mode=full", "controller.traffic=[driving]"),
    "swerve": ("controller.mode=full", "controller.traffic=[swerve]"),
    "lanes, swerve, driving": ("controller.mode=full", "controller.traffic=[lanes, swerve, driving]"),
}
"""Rules of the road among which ours was selected ..."""
FEW = 4
"""... with this number of seeds, 1 to 4."""
PAPER: dict[str, dict[str, float]] = {
    "none": {"minutes": 51.0, "seconds_per_item": 315.0, "found": 14, "given": 0},
    "partial": {"minutes": 51.0, "seconds_per_item": 315.0, "found": 9, "given": 6},
    "full": {"minutes": 70.0, "seconds_per_item": 434.0, "talks": 410.0, "talk_seconds": 1.7},
}
"""The paper's results, from one run each (5, 5.3, 5.4)."""
PAPER_ITEMS = {"none": ((1, 14), (15, 0)), "partial": ((1, 11), (15, 3))}
"""The paper's most and least items of a robot (5.1). With full communication they are nearly equal."""
PAPER_ROUTES = {"none": ((34, 14),), "partial": ((15, 6),), "full": ((15, 6), (18, 13), (19, 15))}
"""The paper's number of robots with a route, as pairs of minute and approximate number (5.2)."""
PAPER_DONE = {"none": ((51, 100),), "partial": ((51, 100),), "full": ((70, 100),)}
"""The paper's number of items, as pairs of minute and number (5.3)."""
PAPER_TALKS = {"full": ((70, 410),)}
"""The paper's number of talks at the end, as pairs of minute and number (5.4)."""
GOAL = 40.0
"""Target for our mode: finish within these minutes."""

Results = dict[str, Found]


def make(out: Path, *, seeds: int, workers: int | None, console: Console) -> list[Path]:
    """Execute the missing runs, draw the figures, and return the files.

    Raises:
        ConfigError: the scenario is invalid.
        RunError: results cannot be written.
    """
    cells = [Cell(name, SCENARIO, sets, seeds, FIRST) for name, sets in WAYS.items()]
    cells += [Cell(f"rules: {name}", SCENARIO, sets, min(seeds, FEW)) for name, sets in RULES.items()]
    done = work(cells, console, workers)
    found: Results = dict(zip([*WAYS, *RULES], done, strict=True))
    ways = {way: found[way] for way in WAYS}
    scenario, source = load_scenario(SCENARIO)
    scene = make_plan(scenario, source).scene
    drawings: dict[str, Callable[[Path], None]] = {
        "figure8.png": lambda file: _routes(file, ways, scene),
        "figure9.png": lambda file: _work(file, ways),
        "figure10.png": lambda file: _course(
            file,
            ways,
            "with_route_when",
            "robots with a route (the paper's figure 10)",
            "robots",
            PAPER_ROUTES,
        ),
        "figure11.png": lambda file: _course(
            file, ways, "items_when", "items over time (the paper's figure 11)", "items delivered", PAPER_DONE
        ),
        "figure12.png": lambda file: _jam(file, ways, scene),
        "figure13.png": lambda file: _course(
            file,
            {way: ways[way] for way in ("partial", "full", "ours")},
            "talks",
            "routes exchanged (the paper's figure 13)",
            "talks up to then",
            PAPER_TALKS,
        ),
        "times.png": lambda file: _times(file, found),
    }
    for name, draw in drawings.items():
        draw(out / name)
    write_json(out / "results.json", [_row(name, item) for name, item in found.items()])
    return written([*(out / name for name in drawings), out / "results.json"])


def minutes(found: Found) -> FloatArray:
    """Return the completion times of the runs, in minutes."""
    return found.values("completion_seconds") / 60.0


def uneven(found: Found) -> FloatArray:
    """Return how unevenly items are distributed over robots in each run: standard deviation over mean."""
    return np.array([row.std() / max(row.mean(), 1e-9) for row in found.series("items_by_robot")])


def _first(found: Found) -> dict[str, Any]:
    """Return the first completed run.

    Raises:
        RunError: no run was completed.
    """
    for row in found.rows:
        if "routes" in row:
            return row
    message = f"{found.cell.name}: no run was completed; `swarmbed run {SCENARIO}` shows why"
    raise RunError(message)


def _row(name: str, found: Found) -> dict[str, Any]:
    times = minutes(found)
    lengths = [
        float(np.hypot(*np.diff(np.array(route), axis=0).T).sum())
        for row in found.rows
        for route in json.loads(row.get("routes", "[]"))
        if route
    ]
    return {
        "way": name,
        "runs": len(found.rows),
        "done": found.accepted,
        "minutes": float(times.mean()) if len(times) else math.nan,
        "minutes_worst": float(times.max()) if len(times) else math.nan,
        "minutes_of_seeds": [round(value, 2) for value in times.tolist()],
        "seconds_per_item": found.mean("seconds_per_item"),
        "routes_found": found.mean("routes_found"),
        "routes_given": found.mean("routes_given"),
        "route_metres": float(np.mean(lengths)) if lengths else math.nan,
        "talks": float(np.mean([len(row) for row in found.series("talks")] or [0])),
        "talk_seconds": found.mean("talk_seconds"),
        "uneven": float(uneven(found).mean()) if found.rows else math.nan,
        "jam_robots": found.mean("jam_robots"),
        "collisions": found.mean("collisions"),
        "paper": PAPER.get(name, {}),
    }


def _ground(axes: Axes, scene: Scene) -> None:
    """Draw walls, obstacles, source and destination."""
    for x1, y1, x2, y2 in scene.segments().tolist():
        axes.plot([x1, x2], [y1, y2], color=INK, linewidth=1)
    parameters = scene.scenario.controller.parameters
    for place in (parameters["source"], parameters["destination"]):
        axes.plot(*place, "x", color=INK, markersize=10, markeredgewidth=3)
    axes.set(aspect="equal", xlabel="x (m)", ylabel="y (m)")


def _routes(file: Path, ways: Results, scene: Scene) -> None:
    """Draw the robots' routes at the end of the first run of each mode."""
    figure = new_figure(10.0, 10.6)
    for axes, (way, found) in zip(figure.subplots(2, 2).flat, ways.items(), strict=True):
        _ground(axes, scene)
        row = _first(found)
        for k, route in enumerate(json.loads(row["routes"])):
            if route:
                style = LINES[k % len(LINES)]
                axes.plot(*np.array(route).T, color=PALETTE[k % len(PALETTE)], linestyle=style, linewidth=1.2)
        title = f"{way}: {row['routes_found']} found, {row['routes_given']} were given"
        if "found" in PAPER.get(way, {}):
            title += f" (paper: {PAPER[way]['found']:g}, {PAPER[way]['given']:g})"
        axes.set_title(title, color=INK, fontsize="medium")
    head(figure, "routes at the end, one run each (the paper's figure 8)")
    save(figure, file)


def _work(file: Path, ways: Results) -> None:
    """Draw the number of items each robot carried, from the most to the least."""
    title = "items of each robot, from the most to the least (the paper's figure 9)"
    with chart(file, title, x="robots, by what they carried", y="items, mean of all runs") as axes:
        for k, (way, found) in enumerate(ways.items()):
            rows = np.array([np.sort(row)[::-1] for row in found.series("items_by_robot")])
            places = 1 + np.arange(rows.shape[1]) + 0.2 * (k - 1.5)
            label = f"{way}: uneven by {100 * uneven(found).mean():.0f} %"
            look: dict[str, Any] = {"facecolor": COLOURS[way], "hatch": HATCHES[k], "edgecolor": "white"}
            axes.bar(places, rows.mean(axis=0), 0.19, label=label, linewidth=0.3, **look)
            for rank, items in PAPER_ITEMS.get(way, ()):
                if rank <= rows.shape[1]:
                    look = theirs(INK, SIGNS[way]) | {"clip_on": False}
                    axes.plot(rank + 0.2 * (k - 1.5), items, **look)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        for way in PAPER_ITEMS:
            axes.plot([], [], label=f"{way}: paper's most and least", **theirs(INK, SIGNS[way]))


def _course(
    file: Path,
    ways: Results,
    metric: str,
    title: str,
    y: str,
    paper: Mapping[str, Sequence[tuple[float, float]]],
) -> None:
    """Draw the number of events up to each minute: mean and range of all runs."""
    with chart(file, f"{title}: means and ranges of all runs", x="simulated time (min)", y=y) as axes:
        for way, found in ways.items():
            end = float(minutes(found).max()) if len(minutes(found)) else 120.0
            at = np.arange(0.0, end + 0.5, 0.5)
            counts = np.array([np.searchsorted(np.sort(row), 60.0 * at) for row in found.series(metric)])
            if not len(counts):
                continue
            axes.plot(at, counts.mean(axis=0), color=COLOURS[way], linestyle=STYLES[way], label=way)
            if len(counts) > 1:
                least, most = counts.min(axis=0), counts.max(axis=0)
                axes.fill_between(at, least, most, color=COLOURS[way], alpha=0.15, lw=0)
            for minute, count in paper.get(way, ()):
                # The sizes differ, so that points that coincide are nested.
                look = theirs(COLOURS[way], SIGNS[way]) | {"markersize": SIZES[way], "clip_on": False}
                axes.plot(minute, count, **look)
        if paper:
            axes.plot([], [], label="hollow: paper's, one run", **theirs(GREY, "o"))
        axes.axvline(15.0, color=GREY, linestyle=":", label="talking begins")


def _jam(file: Path, ways: Results, scene: Scene) -> None:
    """Draw the worst jam of the first run of `full`, and the number of standing robots over time."""
    figure = new_figure(11.0, 5.0)
    left, right = figure.subplots(1, 2)
    row = _first(ways["full"])
    _ground(left, scene)
    for x, y, yaw in json.loads(row["jam_poses"]):
        left.plot(x, y, "o", color=PALETTE[3], markersize=7)
        left.plot([x, x + 1.2 * math.cos(yaw)], [y, y + 1.2 * math.sin(yaw)], color=INK, linewidth=1)
    when = f"full, after {row['jam_seconds'] / 60:.0f} min"
    left.set_title(f"{when}: most robots stand", color=INK, fontsize="medium")
    for way, found in ways.items():
        series = found.series("slow_robots")
        length = max(len(item) for item in series)
        rows = np.full((len(series), length), math.nan)
        for k, item in enumerate(series):
            rows[k, : len(item)] = item
        mean = np.nanmean(rows, axis=0)
        right.plot(np.arange(length), mean, color=COLOURS[way], linestyle=STYLES[way], label=way)
    right.set(xlabel="simulated time (min)", ylabel="robots that stand", ylim=(0, None))
    right.set_title("means of the runs not done", color=INK, fontsize="medium")
    plain(right)
    legend_below(figure, len(ways))
    head(figure, "robots with a route that stand (the paper's figure 12)")
    save(figure, file)


def _times(file: Path, found: Results) -> None:
    """Draw the completion times of all runs, and the paper's."""
    with chart(file, "100 items: minutes of each run", y="simulated time (min)") as axes:
        for k, (name, item) in enumerate(found.items()):
            times = minutes(item)
            colour = COLOURS.get(name, GREY)
            spread = 0.25 * (np.arange(len(times)) / max(len(times) - 1, 1) - 0.5)
            axes.plot(k + spread, times, ".", color=colour)
            if len(times):
                axes.plot([k - 0.3, k + 0.3], [times.mean()] * 2, color=colour, linewidth=3)
            if name in PAPER:
                label = "paper's, one run" if k == 0 else None
                axes.plot(k + 0.38, PAPER[name]["minutes"], label=label, **theirs())
        axes.axhline(GOAL, color=GREY, linestyle=":", label=f"{GOAL:g} min")
        names: Sequence[str] = [name.replace(", ", ",\n") for name in found]
        axes.set_xticks(range(len(found)), names)


STARTS = ((SCENARIO, ("robots.0.count=6", "controller.silence=0", "controller.traffic=[swerve, driving]")),)
STUDY = Study("Robots that find, keep and share routes (figures 8 to 13)", SEEDS, make, STARTS)
