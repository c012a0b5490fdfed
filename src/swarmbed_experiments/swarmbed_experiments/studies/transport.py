"""The transport of "Investigating Transportation Efficiency in Swarm Robotics with High-Fidelity Simulation".

Fifteen robots carry a hundred items, with the study's three ways to talk and with ours: full communication
with rules of the road (`swarmbed_behaviours.transport`). Figures 8 to 13 are drawn over all seeds, 8 and 12
of the first one. The seeds are others than those that the robots' program was written with (1 to 4).
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import write_json
from swarmbed_experiments.plots import GREY, INK, PALETTE, save
from swarmbed_experiments.scenarios import load_scenario, make_plan
from swarmbed_experiments.studies.cells import Cell, Found, work
from swarmbed_experiments.studies.figures import chart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from rich.console import Console
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene

SCENARIO = "transport"
SEEDS = 20
"""Of each way, if nobody says how many."""
FIRST = 101
"""The first of them."""
WAYS = {
    "none": ("controller.mode=none",),
    "partial": ("controller.mode=partial",),
    "full": ("controller.mode=full",),
    "ours": ("controller.mode=full", "controller.traffic=[swerve, driving]"),
}
COLOURS = dict(zip(WAYS, (PALETTE[0], PALETTE[2], PALETTE[3], PALETTE[1]), strict=True))
RULES = {
    "lanes": ("controller.mode=full", "controller.traffic=[lanes]"),
    "driving": ("controller.mode=full", "controller.traffic=[driving]"),
    "swerve": ("controller.mode=full", "controller.traffic=[swerve]"),
    "lanes, swerve, driving": ("controller.mode=full", "controller.traffic=[lanes, swerve, driving]"),
}
"""Rules of the road that ours was chosen from ..."""
FEW = 4
"""... with so many seeds, which are 1 to 4."""
PAPER: dict[str, dict[str, float]] = {
    "none": {"minutes": 51.0, "seconds_per_item": 315.0},
    "partial": {"minutes": 51.0, "seconds_per_item": 315.0},
    "full": {"minutes": 70.0, "seconds_per_item": 434.0, "talks": 410.0, "talk_seconds": 1.7},
}
"""What the paper tells, one run each (5.3, 5.4)."""
GOAL = 40.0
"""Minutes that ours shall stay below."""

Results = dict[str, Found]


def study(out: Path, *, seeds: int, workers: int | None, console: Console) -> list[Path]:
    """Run what is left to run, draw the figures, and return the files.

    Raises:
        ConfigError: the scenario is wrong.
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
            file, ways, "with_route_when", "robots with a route (the paper's figure 10)", "robots"
        ),
        "figure11.png": lambda file: _course(
            file, ways, "items_when", "items over time (the paper's figure 11)", "items delivered"
        ),
        "figure12.png": lambda file: _jam(file, ways, scene),
        "figure13.png": lambda file: _course(
            file,
            {way: ways[way] for way in ("partial", "full", "ours")},
            "talks",
            "routes exchanged (the paper's figure 13)",
            "talks up to then",
        ),
        "times.png": lambda file: _times(file, found),
    }
    for name, draw in drawings.items():
        draw(out / name)
    write_json(out / "results.json", [_row(name, item) for name, item in found.items()])
    return [*(out / name for name in drawings), out / "results.json"]


def minutes(found: Found) -> FloatArray:
    """Return how long each run took."""
    return found.values("completion_seconds") / 60.0


def uneven(found: Found) -> FloatArray:
    """Return how unevenly the items are shared in each run: standard deviation over mean."""
    return np.array([row.std() / max(row.mean(), 1e-9) for row in found.series("items_by_robot")])


def _first(found: Found) -> dict[str, Any]:
    """Return the first run that came to an end.

    Raises:
        RunError: none did.
    """
    for row in found.rows:
        if "routes" in row:
            return row
    message = f"{found.cell.name}: no run came to an end; `swarmbed run {SCENARIO}` tells why"
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
    axes.set(aspect="equal", xticks=(), yticks=())


def _routes(file: Path, ways: Results, scene: Scene) -> None:
    """Draw the robots' routes at the end of the first run of each way."""
    figure = Figure(figsize=(10.0, 10.6), layout="constrained")
    for axes, (way, found) in zip(figure.subplots(2, 2).flat, ways.items(), strict=True):
        _ground(axes, scene)
        row = _first(found)
        for k, route in enumerate(json.loads(row["routes"])):
            if route:
                axes.plot(*np.array(route).T, color=PALETTE[k % len(PALETTE)], linewidth=1.2)
        axes.set_title(f"{way}: {row['routes_found']} found, {row['routes_given']} were given", color=INK)
    figure.suptitle("routes at the end, one run each (the paper's figure 8)", color=INK)
    save(figure, file)


def _work(file: Path, ways: Results) -> None:
    """Draw how many items the robot with most, second most, ... has carried."""
    title = "items of each robot, from the most to the least (the paper's figure 9)"
    with chart(file, title, x="robots, by what they carried", y="items, mean of all runs") as axes:
        for k, (way, found) in enumerate(ways.items()):
            rows = np.array([np.sort(row)[::-1] for row in found.series("items_by_robot")])
            places = 1 + np.arange(rows.shape[1]) + 0.2 * (k - 1.5)
            label = f"{way}: uneven by {100 * uneven(found).mean():.0f} %"
            axes.bar(places, rows.mean(axis=0), 0.19, color=COLOURS[way], label=label)


def _course(file: Path, ways: Results, metric: str, title: str, y: str) -> None:
    """Draw how many times something has happened up to each minute: the mean of all runs, and their range."""
    with chart(file, f"{title}: means and ranges of all runs", x="simulated time, min", y=y) as axes:
        for way, found in ways.items():
            end = float(minutes(found).max()) if len(minutes(found)) else 120.0
            at = np.arange(0.0, end + 0.5, 0.5)
            counts = np.array([np.searchsorted(np.sort(row), 60.0 * at) for row in found.series(metric)])
            axes.plot(at, counts.mean(axis=0), color=COLOURS[way], label=way)
            axes.fill_between(
                at, counts.min(axis=0), counts.max(axis=0), color=COLOURS[way], alpha=0.15, lw=0
            )
        axes.axvline(15.0, color=GREY, linestyle=":", label="talking begins")


def _jam(file: Path, ways: Results, scene: Scene) -> None:
    """Draw the worst jam of the first run of `full`, and how many robots stand over time."""
    figure = Figure(figsize=(11.0, 5.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    row = _first(ways["full"])
    _ground(left, scene)
    for x, y, yaw in json.loads(row["jam_poses"]):
        left.plot(x, y, "o", color=PALETTE[3], markersize=7)
        left.plot([x, x + 1.2 * math.cos(yaw)], [y, y + 1.2 * math.sin(yaw)], color=INK, linewidth=1)
    left.set_title(f"full, {row['jam_seconds'] / 60:.0f} min: most robots stand (figure 12)", color=INK)
    for way, found in ways.items():
        series = found.series("slow_robots")
        length = max(len(item) for item in series)
        rows = np.full((len(series), length), math.nan)
        for k, item in enumerate(series):
            rows[k, : len(item)] = item
        right.plot(np.arange(length), np.nanmean(rows, axis=0), color=COLOURS[way], label=way)
    right.set(xlabel="simulated time, min", ylabel="robots that stand", ylim=(0, None))
    right.set_title("robots with a route that stand: means of the runs not done", color=INK)
    right.legend()
    save(figure, file)


def _times(file: Path, found: Results) -> None:
    """Draw how long all runs took, and what the paper tells."""
    with chart(file, "100 items: minutes of each run", y="simulated time, min") as axes:
        for k, (name, item) in enumerate(found.items()):
            times = minutes(item)
            colour = COLOURS.get(name, GREY)
            spread = 0.25 * (np.arange(len(times)) / max(len(times) - 1, 1) - 0.5)
            axes.plot(k + spread, times, ".", color=colour)
            if len(times):
                axes.plot([k - 0.3, k + 0.3], [times.mean()] * 2, color=colour, linewidth=3)
            if name in PAPER:
                label = "the paper's" if k == 0 else None
                axes.plot(k + 0.3, PAPER[name]["minutes"], "D", color=INK, label=label)
        axes.axhline(GOAL, color=GREY, linestyle=":", label=f"{GOAL:g} min")
        names: Sequence[str] = [name.replace(", ", ",\n") for name in found]
        axes.set_xticks(range(len(found)), names)
