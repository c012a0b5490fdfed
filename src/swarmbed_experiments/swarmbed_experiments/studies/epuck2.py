"""The e-puck2 of "Design and analysis of an E-Puck2 robot plug-in for ARGoS": its section 4.

Every point is a sensor reading from a run of a scenario, with the robot's true pose from the same run. The
paper's equations, tables and values are shown next to them. Execution times (4.3) are measured one run at a
time, as CPU time, which equals wall time on an otherwise idle machine.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.lamps import FAR
from swarmbed_core.spec import RobotSpec

from swarmbed_core import discharge, epuck2
from swarmbed_experiments.files import write_json
from swarmbed_experiments.pictures.drawing import (
    ALARM,
    GREY,
    HATCHES,
    INK,
    LINES,
    MARKERS,
    PALETTE,
    head,
    is_fitted,
    legend_below,
    new_figure,
    plain,
    save,
    small,
)
from swarmbed_experiments.studies import Study
from swarmbed_experiments.studies.cells import Cell, Found, work
from swarmbed_experiments.studies.figures import bars, theirs, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.readings import IntArray

SPEC = RobotSpec.load("epuck2")
RING = SPEC.ranges[0]
SEEDS = 30
"""Default number of repetitions (4.3.1)."""
PROX0 = RING.angles[0]
"""Direction of the front right sensor in radians (Table 3)."""
FACE = RING.mount_radius
GAPS = tuple(round(0.002 * k, 3) for k in range(31))
"""Distances in metres from the proximity sensor to the wall."""
LAMPS = (0.02, 0.03, 0.04, *(round(0.05 + 0.025 * k, 3) for k in range(21)))
"""Distances in metres from the light sensor to the lamp."""
INTENSITIES = (0.5, 1.0, 2.0, 4.0)
"""Our choice: the paper's figure 5(c) has several intensities; 1 is the measured lamp's."""
SPEEDS = (0.025, 0.05, 0.075, 0.1, 0.125, 0.15)
"""Speeds in m/s of the six runs to the obstacle. Our choice: the paper gives none."""
OBSTACLE = 0.332
"""x in metres of the obstacle's face in config/scenarios/epuck2_obstacle.yaml."""
SIGHTS = (0.143, 0.263, 0.95, 0.99, 1.01)
"""Distances in metres from the lens to a lamp: the two of Table 4, and some around the camera's range."""
APERTURES = ((0.250, 0.144, 32.1), (0.150, 0.086, 29.5), (0.263, 0.141, 30.0), (0.143, 0.077, 30.1))
"""Table 4: distance, width of the view and angle; two rows of the robot, then two of the paper's plug-in."""
TABLE5 = {
    "simple": (0.0221, 0.0216),
    "linear": (0.0170, 0.0167),
    "cubic": (0.0020, 0.0019),
    "approximated": (0.0025, 0.0023),
}
"""The paper's mean squared errors: analytic, in ARGoS."""
COUNTS = (1, 5, 10, 20, 50)
"""Numbers of robots for which execution times are measured."""
TURNS = (0.0, 0.015, 0.03, 0.045, 0.06, 0.075, 0.09, 0.105, 0.12, 0.135, 0.15)
"""Wheel speeds in m/s with which robots turn on the spot (4.3.1)."""
LONGER = {
    "proximity": "40-45 % from 10 robots on",
    "light": "up to 53 %",
    "ground": "7.5-13 %",
    "tof": "3-14 %",
    "encoders": "up to 2.8 %",
    "camera": "9-16 %",
}
"""The paper's increase of execution time with a sense on (4.3.2)."""
TABLE6 = {
    "none": (0.43, 1.36, 2.60, 5.39, 15.10),
    "simple": (0.43, 1.37, 2.63, 5.37, 14.84),
    "linear": (0.43, 1.38, 2.65, 5.34, 15.38),
    "cubic": (0.44, 1.41, 2.70, 5.40, 15.54),
    "approximated": (0.43, 1.38, 2.64, 5.37, 15.26),
}
"""The paper's execution times in seconds by battery model, for the numbers of robots in COUNTS."""


@dataclass(frozen=True)
class Course:
    """The readings of one sense in a run.

    Attributes:
        times: of the samples, in seconds.
        values: by sample and robot.
        poses: by sample and robot.
    """

    times: FloatArray
    values: Any
    poses: FloatArray

    @classmethod
    def of(cls, found: Found, sense: str) -> Course:
        """Extract the readings from a cell's only run."""
        row = found.rows[0]
        values = json.loads(row[sense])
        return cls(
            np.array(json.loads(row[f"{sense}_times"])),
            values if sense == "camera" else np.array(values, dtype=np.float64),
            np.array(json.loads(row.get(f"{sense}_poses", "[]"))),
        )


def _poses(rows: Sequence[tuple[float, float, float]]) -> str:
    return "robots.0.place.poses=" + json.dumps([list(row) for row in rows])


def _lamps(rows: Sequence[tuple[float, float, float, float]]) -> str:
    lamps = [{"place": [x, y, z], "intensity": intensity} for x, y, z, intensity in rows]
    return "lights=" + json.dumps(lamps)


def experiments() -> dict[str, Cell]:
    """Return the runs of 4.1 and 4.2."""
    facing = [(-FACE - gap, 0.2 * k, -PROX0) for k, gap in enumerate(GAPS)]
    apart = [(0.0, 2.0 * k, -PROX0) for k in range(len(LAMPS))]
    quiet = "noise=false"
    cells = {
        "proximity": ("epuck2_proximity", (_poses(facing), quiet)),
        "proximity, noise": ("epuck2_proximity", (_poses(facing),)),
        "ground": ("epuck2_ground", (quiet,)),
        "ground, noise": ("epuck2_ground", ()),
        "ground, turning": ("epuck2_ground", (quiet, *_turning())),
        "ground, turning, noise": ("epuck2_ground", _turning()),
        "obstacle": ("epuck2_obstacle", (quiet,)),
        "obstacle, noise": ("epuck2_obstacle", ()),
        "camera": ("epuck2_camera", (quiet,)),
        "camera, turning": ("epuck2_camera", (quiet, *_looking())),
    }
    for intensity in INTENSITIES:
        height = RING.mount_height
        lamps = [(FACE + gap, 2.0 * k, height, intensity) for k, gap in enumerate(LAMPS)]
        cells[f"light {intensity:g}"] = ("epuck2_light", (_poses(apart), _lamps(lamps), quiet))
    for model in discharge.MODELS:
        cells[f"battery {model}"] = ("epuck2_battery", (f"robots.0.battery={model}",))
    return {name: Cell(name, scenario, sets, 1) for name, (scenario, sets) in cells.items()}


def _turning() -> tuple[str, ...]:
    """Return changes: a robot turns on the spot over four greys, a little more than once."""
    return (
        "arena=epuck2_quarters",
        _poses([(0.0, 0.0, 0.4)]),
        "controller.left=-0.01",
        "controller.right=0.01",
        "time_limit=18",
    )


def _looking() -> tuple[str, ...]:
    """Return changes: robots turn slowly past lamps at the distances in SIGHTS."""
    lens = SPEC.cameras[0]
    return (
        _poses([(0.0, 4.0 * k, -0.4) for k in range(len(SIGHTS))]),
        _lamps([(lens.x + far, 4.0 * k, lens.z, 1.0) for k, far in enumerate(SIGHTS)]),
        "controller.left=-0.0005",
        "controller.right=0.0005",
        "controller.colour=[0,0,0]",
        "time_limit=43",
    )


SCENES: dict[str, tuple[str, ...]] = {
    "proximity": (),
    "light": (_lamps([(x, y, 0.03, 1.0) for x in (-0.6, 0.0, 0.6) for y in (-0.5, 0.5)]),),
    "ground": ("arena=epuck2_grey",),
    "tof": (),
    "encoders": (),
    "camera": (
        _lamps([(x, y, 0.03, 1.0) for x in (-0.75, -0.25, 0.25, 0.75) for y in (-0.5, 0.5)]),
        "controller.colour=[255,0,0]",
    ),
}
"""Changes for the surroundings when a sense is timed, both on and off (figure 13)."""


def timings(repetitions: int) -> dict[tuple[str, str, int], Cell]:
    """Return the runs of 4.3 by what is timed, its setting, and the number of robots."""
    draw = "controller.draw=" + json.dumps(TURNS)
    cells = {}
    for count in COUNTS:
        for sense, scene in SCENES.items():
            for setting, on in (("off", "[]"), ("on", f"[{sense}]")):
                sets = (*scene, draw, f"robots.0.count={count}", f"robots.0.crowd.senses={on}")
                cells[sense, setting, count] = sets
        for model in ("none", *discharge.MODELS):
            chosen = "null" if model == "none" else model
            few = f"robots.0.count={count}"
            cells["battery", model, count] = (
                few,
                "controller.ramp=true",
                f"robots.0.battery={chosen}",
            )
    return {
        key: Cell(f"time of {key[2]} robots, {key[0]} {key[1]}", "epuck2_timing", sets, repetitions)
        for key, sets in cells.items()
    }


def make(out: Path, *, seeds: int, workers: int | None, console: Console) -> list[Path]:
    """Execute the missing runs, draw the figures, and return the files.

    Args:
        out: gets the figures.
        seeds: repetitions of each execution time; the experiments are one run each.
        workers: processes for the experiments; times are measured one at a time.
        console: for progress.

    Raises:
        ConfigError: a scenario is invalid.
        RunError: results cannot be written.
    """
    cells = experiments()
    found = dict(zip(cells, work(list(cells.values()), console, workers), strict=True))
    names = ("proximity", "light", "ground", "tof", "encoders", "camera", "battery", "times")
    files = {name: out / f"{name}.png" for name in names}
    results: dict[str, Any] = {
        "proximity": _draw_proximity(files["proximity"], found),
        "light": _draw_light(files["light"], found),
        "ground": _draw_ground(files["ground"], found),
        "tof": _draw_tof(files["tof"], found),
        "encoders": _draw_encoders(files["encoders"], found),
        "camera": _draw_camera(files["camera"], found),
        "battery": _draw_battery(files["battery"], found),
    }
    plan = timings(seeds)
    timed = dict(zip(plan, work(list(plan.values()), console, 1), strict=True))
    results["times"] = _draw_times(files["times"], timed)
    write_json(out / "results.json", results)
    return written([*files.values(), out / "results.json"])


def _figure(
    wide: int = 1, high: int = 1, size: tuple[float, float] = (8.0, 4.5)
) -> tuple[Figure, list[Axes]]:
    figure = new_figure(*size)
    axes = figure.subplots(high, wide, squeeze=False)
    for each in axes.flat:
        plain(each)
    return figure, list(axes.ravel())


def _off(measured: FloatArray, expected: FloatArray | IntArray) -> float:
    """Return the largest absolute difference."""
    return float(np.abs(measured - expected).max())


def _draw_proximity(file: Path, found: dict[str, Found]) -> dict[str, float]:
    """Draw figure 4: readings of sensor 1 over distance, with equation (1)."""
    figure, (axes,) = _figure()
    quiet, noisy = (Course.of(found[name], "proximity") for name in ("proximity", "proximity, noise"))
    # Length of the sensor's ray from its face to the wall at x = 0.
    yaw = quiet.poses[-1, :, 2] + PROX0
    distance = -(quiet.poses[-1, :, 0] + FACE * np.cos(yaw)) / np.cos(yaw)
    fine = np.linspace(0.0, 0.06, 601)
    axes.plot(100 * fine, epuck2.proximity(fine), color=ALARM, label="the paper's equation (1)")
    old = np.clip(epuck2.OLD_A * fine**2 + epuck2.OLD_B * fine + epuck2.OLD_C, 0.0, 1.0)
    axes.plot(
        100 * fine,
        epuck2.FULL * np.where(fine <= epuck2.NEAR, old, 0.0),
        color=GREY,
        linestyle=":",
        label="of the e-puck, version 1",
    )
    values = noisy.values[:, :, 0]
    mean = values.mean(axis=0)
    spread = [mean - values.min(axis=0), values.max(axis=0) - mean]
    axes.errorbar(
        100 * distance, mean, spread, color=PALETTE[4], fmt=".", capsize=3, label="with noise: mean, range"
    )
    still = quiet.values[-1, :, 0]
    axes.plot(100 * distance, still, "x", color=PALETTE[0], label="without noise")
    axes.set(xlabel="distance of the wall (cm)", ylabel="reading of sensor 1")
    head(axes, "Proximity (the paper's figure 4)")
    legend_below(figure, 2)
    save(figure, file)
    # At the end of the range, 50 mm, rounding decides whether the wall is within it.
    inside = np.abs(distance - epuck2.NEAR) > 1e-6
    return {
        "points": len(distance),
        "most_off_equation_1": _off(still[inside], epuck2.proximity(distance)[inside]),
    }


def _draw_light(file: Path, found: dict[str, Found]) -> dict[str, float]:
    """Draw figure 5(c): readings of sensor 1 over distance for some intensities, with equation (2)."""
    figure, (axes,) = _figure()
    fine = np.linspace(0.005, 0.56, 1000)
    distance = np.array(LAMPS)
    worst = 0.0
    for k, (intensity, colour) in enumerate(zip(INTENSITIES, PALETTE, strict=False)):
        course = Course.of(found[f"light {intensity:g}"], "light")
        values = course.values[-1, :, 0]
        expected = epuck2.light(np.array(intensity), fine)
        axes.plot(100 * fine, expected, color=colour, linestyle=LINES[k], linewidth=1)
        look: dict[str, Any] = {"color": colour, "marker": MARKERS[k], "linestyle": "", "markersize": 4.5}
        axes.plot(100 * distance, values, label=f"read at intensity {intensity:g}", **look)
        # At the end of the range, rounding decides whether the lamp is within it.
        inside = np.abs(distance - FAR) > 1e-6
        ours = epuck2.light(np.array(intensity), distance)
        worst = max(worst, _off(values[inside], ours[inside]))
    axes.plot([], [], color=GREY, linewidth=1, label="the paper's equation (2)")
    axes.set(xlabel="distance of the lamp (cm)", ylabel="reading of sensor 1")
    head(axes, "Light (the paper's figure 5c)")
    legend_below(figure, 2)
    save(figure, file)
    return {"points": len(INTENSITIES) * len(distance), "most_off_equation_2": worst}


def _draw_ground(file: Path, found: dict[str, Found]) -> dict[str, float]:
    """Draw figure 6: readings of the three sensors while crossing stripes and turning over four greys."""
    figure, axes = _figure(2, 2, (9.0, 6.5))
    spread = []
    for column, name in enumerate(("ground", "ground, turning")):
        for row, suffix in enumerate(("", ", noise")):
            course = Course.of(found[name + suffix], "ground")
            here = axes[2 * row + column]
            look: dict[str, Any]
            for k, label in enumerate(("left", "middle", "right")):
                # Widths and dashes differ, so that all lines stay visible where they coincide.
                look = {"color": PALETTE[k], "linestyle": ("-", "--", ":")[k], "linewidth": 4.0 - 1.3 * k}
                here.plot(course.times, course.values[:, 0, k], label=label, **look)
            if row == 0:
                spread.append(course.values[:, 0].max(axis=1) - course.values[:, 0].min(axis=1))
            title = ("crossing", "turning")[column] + (", with noise" if row else "")
            here.set(xlabel="time (s)", ylabel="reading", title=title, ylim=(-30, 1060))
    legend_below(figure, 3, handles=axes[0].get_lines())
    head(figure, "Ground (the paper's figures 6c to 6f)")
    save(figure, file)
    return {
        "share_of_time_the_three_differ_crossing": float((spread[0] > 0).mean()),
        "share_of_time_the_three_differ_turning": float((spread[1] > 0).mean()),
    }


def _lanes(axes: list[Axes], found: dict[str, Found], sense: str, label: str) -> tuple[Course, FloatArray]:
    """Draw readings on the way to the obstacle; return those without noise, and the robots' true x."""
    courses = [Course.of(found[name], sense) for name in ("obstacle", "obstacle, noise")]
    # Large points below small ones, so that both stay visible where they coincide.
    looks = [
        (courses[1], PALETTE[4], "with noise", 4.0),
        (courses[0], PALETTE[0], "without noise", 1.5),
    ]
    for k, speed in enumerate(SPEEDS):
        here = axes[k]
        for course, colour, name, size in looks:
            value = course.values[:, k] if course.values.ndim == 2 else course.values[:, k, 0]
            here.plot(course.times, value, ".", markersize=size, color=colour, label=name)
        here.set(title=f"{100 * speed:g} cm/s", xlabel="time (s)", ylabel=label)
        here.set_xlim(0, min(16.0, 0.3 / speed + 2.0))
    return courses[0], courses[0].poses[:, :, 0]


def _paced(axes: Axes, times: FloatArray, speed: float, first: float, gain: float, least: float) -> None:
    """Draw the reading expected at constant speed from the first tick on."""
    line = np.maximum(first + gain * speed * (times - times[0]), least)
    axes.plot(times, line, color=GREY, linewidth=1, zorder=0, label="speed times time")


def _draw_tof(file: Path, found: dict[str, Found]) -> dict[str, float]:
    """Draw figure 7: time-of-flight readings on the way to an obstacle 30 cm away, at six speeds."""
    figure, axes = _figure(3, 2, (10.0, 6.0))
    course, way = _lanes(axes, found, "tof", "reading (mm)")
    ring = next(ring for ring in SPEC.ranges if ring.name == "tof")
    true = 1000 * (OBSTACLE - way - ring.mount_radius)
    for k, speed in enumerate(SPEEDS):
        _paced(axes[k], course.times, speed, 300.0, -1000.0, epuck2.TOF_LEAST)
        axes[k].set_ylim(0, 320)
    legend_below(figure, 4, handles=axes[0].get_lines(), markerscale=2)
    head(figure, "Time of flight (the paper's figure 7)")
    save(figure, file)
    return {"most_off_the_true_distance_mm": _off(course.values, np.maximum(true, epuck2.TOF_LEAST))}


def _draw_encoders(file: Path, found: dict[str, Found]) -> dict[str, float]:
    """Draw figure 8: encoder steps of the left wheel on the same way."""
    figure, axes = _figure(3, 2, (10.0, 6.0))
    course, way = _lanes(axes, found, "encoders", "steps")
    step = 2 * math.pi * SPEC.drive.wheels.radius / epuck2.STEPS
    worst = 0.0
    for k, speed in enumerate(SPEEDS):
        _paced(axes[k], course.times, speed, 0.0, 1.0 / step, 0.0)
        axes[k].plot(course.times, way[:, k] / step, color=ALARM, linewidth=1, label="true way")
        axes[k].set_ylim(0, 1.4 * 0.3 / step)
        free = way[:, k] < OBSTACLE - FACE - 2 * 0.1 * speed
        worst = max(worst, _off(course.values[free, k, 0], way[free, k] / step))
    legend_below(figure, 4, handles=axes[0].get_lines(), markerscale=2)
    head(figure, "Encoders (the paper's figure 8)")
    save(figure, file)
    return {"most_off_the_true_way_steps": worst}


def _draw_camera(file: Path, found: dict[str, Found]) -> dict[str, Any]:
    """Draw figure 9(c), and image columns over bearings, whose range is the camera's aperture."""
    figure, (image, bearings) = _figure(2, 1, (10.0, 4.2))
    course = Course.of(found["camera"], "camera")
    for column, row, *colour in course.values[-1][0]:
        image.plot(column, row, "o", color=np.array(colour) / 255)
    lens = SPEC.cameras[0]
    image.set(
        xlim=(0, lens.width), ylim=(lens.height, 0), xlabel="column (px)", ylabel="row (px)", aspect="equal"
    )
    image.set_title("two robots at the edges, a lamp in the middle (9c)", color=INK, fontsize=small())
    course = Course.of(found["camera, turning"], "camera")
    seen: dict[float, FloatArray] = {}
    for k, far in enumerate(SIGHTS):
        x, y, yaw = course.poses[:, k].T
        ahead, aside = lens.x + far - x, 4.0 * k - y
        local_x = np.cos(yaw) * ahead + np.sin(yaw) * aside - lens.x
        local_y = np.cos(yaw) * aside - np.sin(yaw) * ahead - lens.y
        found_at = [
            (math.degrees(math.atan2(local_y[t], local_x[t])), blobs[k][0][0])
            for t, blobs in enumerate(course.values)
            if blobs[k]
        ]
        seen[far] = np.array(found_at, dtype=np.float64).reshape(-1, 2)
    for k, (far, rows) in enumerate(seen.items()):
        if len(rows):
            # The curves coincide except at their ends.
            look: dict[str, Any] = {"color": PALETTE[k], "linestyle": LINES[k], "linewidth": 5.5 - 1.2 * k}
            bearings.plot(rows[:, 0], rows[:, 1], label=f"lamp at {1000 * far:g} mm", **look)
    for side in (-15, 15):
        bearings.axvline(side, color=GREY, linestyle="--")
    bearings.plot(
        [], [], color=GREY, linestyle="--", label="paper's plug-in: 30.0° and 30.1°; robot: 32.1° and 29.5°"
    )
    bearings.set(xlabel="bearing (°)", ylabel="column (px)")
    bearings.set_title("where in the image a lamp is", color=INK, fontsize=small())
    legend_below(figure, 3, handles=bearings.get_legend_handles_labels()[0], fontsize=small())
    head(figure, "Camera (the paper's figure 9c, Table 4)")
    save(figure, file)
    angles = {
        f"{1000 * far:g} mm": float(np.ptp(rows[:, 0])) if len(rows) else 0.0 for far, rows in seen.items()
    }
    return {"aperture_degrees": angles, "table_4": APERTURES}


def _draw_battery(file: Path, found: dict[str, Found]) -> dict[str, Any]:
    """Draw figure 12: battery charges of robots turning at 16 speeds; return the values of Table 5."""
    figure, axes = _figure(2, 2, (10.0, 7.0))
    times, charges = discharge.measured()
    analytic = discharge.errors()
    shown = (0, 2, 5, 10, 14)
    table = {}
    for here, model in zip(axes, discharge.MODELS, strict=True):
        course = Course.of(found[f"battery {model}"], "battery")
        at = np.concatenate([[0.0], course.times])
        rows = np.vstack([np.ones(course.values.shape[1]), course.values])
        off = [np.interp(times[k], at, rows[:, k]) - charges[k] for k in range(rows.shape[1])]
        in_runs = float(np.mean(np.square(off)))
        paper = TABLE5[model]
        table[model] = {"analytic": analytic[model], "runs": in_runs, "paper": paper}
        for j, (k, colour) in enumerate(zip(shown, PALETTE, strict=False)):
            here.plot(times[k] / 3600, charges[k], MARKERS[j], markersize=2.5, color=colour)
            here.plot(at / 3600, rows[:, k], color=colour, linestyle=LINES[j], label=f"{k} cm/s")
        here.set(xlabel="time (h)", ylabel="charge", xlim=(0, 6))
        told = f"{model}: MSE {in_runs:.4f} (paper: {paper[1]:.4f})"
        here.set_title(told, color=INK, fontsize=small() if is_fitted() else "medium")
    handles = axes[0].get_legend_handles_labels()[0]
    legend_below(figure, 5, handles=handles, title="lines: runs; points: assumed data")
    head(figure, "Battery models (the paper's figure 12)")
    save(figure, file)
    return table


Timed = dict[tuple[str, str, int], Found]


def _draw_times(file: Path, timed: Timed) -> list[dict[str, Any]]:
    """Draw figure 14 and Table 6: CPU seconds for two simulated hours, by senses and battery models."""
    # In the style for papers, two columns leave room for the numbers.
    figure, axes = _figure(2, 4, (13.0, 16.0)) if is_fitted() else _figure(4, 2, (15.0, 8.0))
    rows = []
    what = [*SCENES, "battery"]
    for here, name in zip(axes, what, strict=False):
        settings = ("off", "on") if name != "battery" else ("none", *discharge.MODELS)
        base = [_median(timed[name, settings[0], count]) for count in COUNTS]
        for k, (setting, colour) in enumerate(zip(settings, (GREY, *PALETTE), strict=False)):
            cells = [timed[name, setting, count] for count in COUNTS]
            medians = [_median(cell) for cell in cells]
            wide = 0.8 / len(settings)
            places = np.arange(len(COUNTS)) + wide * (k - (len(settings) - 1) / 2)
            deviations = bars(
                [float(cell.values("cpu_seconds").std()) for cell in cells],
                [len(cell.rows) for cell in cells],
            )
            look: dict[str, Any] = {"facecolor": colour, "hatch": HATCHES[k], "edgecolor": "white"}
            here.bar(places, medians, wide, yerr=deviations, label=setting, capsize=2, linewidth=0.3, **look)
            if name == "battery":
                here.plot(places, TABLE6[setting], **theirs(colour) | {"markersize": 3.5})
            for j, (count, cell) in enumerate(zip(COUNTS, cells, strict=True)):
                seconds = cell.values("cpu_seconds")
                longer = 100 * (medians[j] / base[j] - 1)
                if k and name != "battery":
                    top = max(medians[j], base[j]) + (deviations[j] if deviations else 0.0)
                    size = small() if is_fitted() else 7
                    here.text(places[j], top, f"{longer:+.0f} %", ha="center", va="bottom", fontsize=size)
                rows.append(
                    {
                        "what": name,
                        "setting": setting,
                        "robots": count,
                        "runs": len(seconds),
                        "seconds": medians[j],
                        "mean": float(seconds.mean()) if len(seconds) else math.nan,
                        "deviation": float(seconds.std()) if len(seconds) else math.nan,
                        "longer_percent": longer,
                        "paper_seconds": TABLE6[setting][j] if name == "battery" else None,
                    }
                )
        here.set_xticks(range(len(COUNTS)), [str(count) for count in COUNTS])
        here.set(xlabel="robots", ylabel="time for two hours (s)")
        told = f"paper: {LONGER[name]}" if name in LONGER else "paper: -1.7 to 4.2 %"
        here.set_title(f"{name} ({told})", color=INK, fontsize=small())
        if name == "battery":
            here.plot([], [], label="paper's, in ARGoS", **theirs() | {"markersize": 3.5})
            handles, labels = here.get_legend_handles_labels()
            axes[-1].legend(handles, labels, loc="center", title="battery", frameon=False)
        else:
            # Room for the numbers above the bars and for the legend.
            here.set_ylim(0, 1.4 * here.get_ylim()[1])
            here.legend(fontsize=small() if is_fitted() else 7, ncols=2, loc="upper left")
    axes[-1].set_axis_off()
    head(figure, "Execution times: medians and standard deviations (the paper's figure 14, Table 6)")
    save(figure, file)
    return rows


def _median(found: Found) -> float:
    seconds = found.values("cpu_seconds")
    return float(np.median(seconds)) if len(seconds) else math.nan


STARTS = (("epuck2_50", ("robots.0.count=3", "robots.0.crowd.senses=null", "robots.0.battery=cubic")),)
STUDY = Study("The e-puck2's sensors, batteries and execution times (section 4)", SEEDS, make, STARTS)
