"""The benchmark table: values measured on this machine beside the required ones.

Speeds are medians over blocks of repetitions after a warm-up, in one process on one core. Accuracies come
from seeds that nothing was tuned to. Whole runs are in `bench.runs`. The table goes to the terminal, to JSON,
and to docs/benchmarks.md with plots beside it.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from rich.table import Table
from rich.text import Text
from swarmbed_core.collision_map import CollisionMap
from swarmbed_core.ekf_check import nees_study
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.local import LocalSwarm
from swarmbed_core.markers_check import make_bench_case
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.onboard import Onboard
from swarmbed_core.power import BatteryModel, PowerModel
from swarmbed_core.ranges import figure7
from swarmbed_core.robot import Command
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, Waypoint
from swarmbed_core.trajectory_check import random_case

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import make_ready, read_text, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import Console
    from swarmbed_core.spec import Battery

BEGIN = "<!-- measured by scripts/bench: this part is replaced -->"
END = "<!-- end of what is measured -->"
"""Marks on the benchmark page: the text around them is written by hand and stays."""
WIDE = 130
"""Terminal width in columns from which the table shows the rows' notes."""
SEED = 20260
"""Seed of everything random here; the tests use others."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a measured value and, if one is required, its bound."""

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""
    point: dict[str, Any] | None = None
    """Data for a plot: growing cost, Figure 6, or worlds side by side."""

    @property
    def holds(self) -> bool | None:
        """Return whether the value is within its bound, None if it has none."""
        if self.at_most is None and self.at_least is None:
            return None
        above = self.at_least is None or self.value >= self.at_least
        below = self.at_most is None or self.value <= self.at_most
        return above and below

    @property
    def bound(self) -> str:
        """Return the bound in words, such as `at least 5, at most 10`."""
        parts = []
        if self.at_least is not None:
            parts.append(f"at least {self.at_least:g}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}")
        return ", ".join(parts)


def microseconds(work: Callable[[], object], repetitions: int, blocks: int = 7) -> float:
    """Return the time of one call in microseconds: the median over blocks of their means, after a warm-up."""
    means = []
    for block in range(blocks + 1):
        started = time.perf_counter()
        for _ in range(repetitions):
            work()
        if block:
            means.append((time.perf_counter() - started) / repetitions * 1e6)
    return float(np.median(means))


def cycle(quick: bool) -> Iterator[Row]:
    """Time one robot's whole 100 Hz cycle on a path that never ends."""
    world = MemoryWorld.of(["dots"], seed=SEED)
    device = replace(world.device("dots1"), ranges={}, cameras=None, compass=None, power=None, lifter=None)
    onboard = Onboard(device)
    lap = [Waypoint(pose) for pose in ((1.6, 0.0, 0.0), (1.6, 1.6, 1.5), (0.0, 1.6, 3.0), (0.0, 0.0, 0.0))]
    onboard.follow(Path(tuple(lap * 250)))
    cycles = 2_000 if quick else 20_000
    for _ in range(500):
        world.step()
        onboard.step()
    spent = []
    for _ in range(cycles):
        world.step()
        started = time.perf_counter()
        onboard.step()
        spent.append(time.perf_counter() - started)
    micro = np.array(spent) * 1e6
    yield Row(
        "robot cycle, mean",
        float(micro.mean()),
        "us",
        at_most=60,
        note="odometry, EKF, Ruckig, PID, kinematics",
    )
    yield Row("robot cycle, p99", float(np.percentile(micro, 99)), "us")


def collision_map(quick: bool) -> Iterator[Row]:
    """Time the collision map: an update with 16 returns, and the queries that controllers make."""
    spec = RobotSpec.load("dots")
    grid = CollisionMap(spec)
    rng = np.random.default_rng(SEED)
    angles = np.array(spec.ranges[0].angles)
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(0.3, 1.2, (16, 1))
    pose = np.zeros(3)
    clock = iter(np.arange(1, 10_000_000) * 0.02)

    def update() -> None:
        pose[0] += 0.01
        grid.update(next(clock), pose, points)

    repetitions = 200 if quick else 5_000
    yield Row("collision map update, 16 returns", microseconds(update, repetitions), "us", at_most=40)
    ask = microseconds(lambda: grid.likelihood((0.5, 0.0), 1.0), repetitions)
    yield Row("collision likelihood", ask, "us")
    yield Row(
        "least-worst of 16 directions", microseconds(lambda: grid.least_worst(16, 0.3), repetitions), "us"
    )


def markers(quick: bool) -> Iterator[Row]:
    """Time the computation of the robot's pose from four wall markers."""
    rng = np.random.default_rng(SEED)
    cases = [make_bench_case(rng) for _ in range(20)]
    repetitions = 20 if quick else 300
    means = [microseconds(partial(solver.solve, reading), repetitions, 3) for solver, reading in cases]
    yield Row("marker pose, 4 markers", float(np.mean(means)), "us", at_most=300)


def trajectories(quick: bool) -> Iterator[Row]:
    """Follow random waypoints, replaced at random times, and find the worst share of a limit."""
    for kind, cases in (("dots", 300 if quick else 10_000), ("pioneer3dx", 100 if quick else 2_000)):
        spec = RobotSpec.load(kind)
        rng = np.random.default_rng(SEED)
        started = time.perf_counter()
        worst = max(random_case(rng, spec.limits, holonomic=spec.holonomic).worst for _ in range(cases))
        seconds = time.perf_counter() - started
        note = f"{cases} random cases in {seconds:.0f} s: speed, acceleration, jerk, jumps, refusals"
        yield Row(f"trajectory, worst share of a limit, {kind}", worst, "", at_most=1 + 1e-6, note=note)


def estimation(quick: bool) -> Iterator[Row]:
    """Check the EKF's covariance for consistency (NEES), and its pose for accuracy."""
    spec = RobotSpec.load("dots")
    inverse = Kinematics.of(spec).inverse
    study = nees_study(SEED, 8 if quick else 40, 20.0 if quick else 30.0, spec=spec, wheel_inverse=inverse)
    share = 100 * study["nees_within"]
    note = f"over {study['runs']:.0f} runs of {study['seconds']:.0f} s, cameras late, wheels slipping"
    yield Row(
        "EKF: NEES within its 95% bounds", share, "% of time", at_least=None if quick else 90, note=note
    )
    yield Row("EKF: mean NEES over its expectation", study["nees_ratio"], "", at_least=0.7, at_most=1.3)
    yield Row("EKF: position error, RMS of an axis", 1000 * study["position_rms"], "mm")
    yield Row("EKF: position error, worst", 1000 * study["position_max"], "mm")


def ranges(quick: bool) -> Iterator[Row]:
    """Repeat the DOTS paper's Figure 7 with the model of the distance sensors."""
    ring = RobotSpec.load("dots").ranges[0]
    data = figure7(ring, SEED, 24_550 if quick else 245_500)
    left, right = data.edges[:-1], data.edges[1:]
    error = np.abs(data.mean_error) * 1000
    good = (left >= 0.25) & (right <= 2.7)
    yield Row(
        "ToF mean error, 0.25-2.7 m", float(error[good].max()), "mm", at_most=12, note="Figure 7, worst bin"
    )
    far = (left >= 2.7) & (right <= 3.2)
    yield Row(
        "ToF mean error, 2.7-3.2 m", float(error[far].max()), "mm", at_most=30, note="Figure 7, worst bin"
    )
    near = right <= 0.25
    yield Row(
        "ToF mean error below 0.25 m", float(error[near].max()), "mm", at_most=75, note="Figure 7, worst bin"
    )


def power(quick: bool) -> Iterator[Row]:  # noqa: ARG001 - one discharge is quick enough
    """Discharge the battery at the DOTS paper's three operating points (Table IV)."""
    spec = RobotSpec.load("dots")
    model = PowerModel(spec)
    for point in model.consumption.operating_points:
        battery = BatteryModel(cast("Battery", spec.battery))
        watts = model.average_watts(point)
        seconds = 0.0
        while battery.powered:
            seconds += battery.discharge(watts, 10.0)
        yield Row(
            f"endurance, {point.name}",
            seconds / 3600,
            "h",
            at_least=0.97 * point.hours,
            at_most=1.03 * point.hours,
            note=f"Table IV: {point.hours:g} h at {point.watts:g} W",
        )


def kinematics(quick: bool) -> Iterator[Row]:
    """Convert body velocities to wheel speeds and back; report the largest error."""
    drive = Kinematics.of(RobotSpec.load("dots"))
    rng = np.random.default_rng(SEED)
    twists = rng.uniform(-2, 2, (500 if quick else 10_000, 3))
    worst = max(float(np.abs(drive.body(drive.wheels(twist)) - twist).max()) for twist in twists)
    yield Row("kinematics there and back", worst, "m/s", at_most=1e-12)


def whole_robots(quick: bool) -> Iterator[Row]:
    """Run whole robots, with ranges, cameras and maps, in the in-memory world."""
    seconds = 2.0 if quick else 20.0
    for count in (1, 5):
        world = MemoryWorld.of(["dots"] * count, arena="dots_arena", seed=SEED)
        swarm = LocalSwarm(world, world.arena.markers())
        drive_about(swarm, 2.0)
        started = time.perf_counter()
        drive_about(swarm, seconds)
        factor = seconds / (time.perf_counter() - started)
        yield Row(
            f"whole robots in memory: {count}",
            factor,
            "x real time",
            note="ranges 50 Hz, cameras 30 Hz, map, EKF",
        )


def drive_about(swarm: LocalSwarm, seconds: float) -> None:
    """Drive all robots in circles, with a program that senses and acts at 10 Hz."""
    for _ in range(round(seconds / 0.1)):
        for robot in swarm.robots:
            robot.act(Command(velocity_body=(0.2, 0.0, 0.5)))
            robot.sense()
        swarm.run(0.1)


GROUPS: Sequence[tuple[str, Callable[[bool], Iterator[Row]]]] = (
    ("cycle", cycle),
    ("collision map", collision_map),
    ("marker pose", markers),
    ("kinematics", kinematics),
    ("trajectory", trajectories),
    ("EKF", estimation),
    ("ToF", ranges),
    ("endurance", power),
    ("whole robots", whole_robots),
)


def all_groups(*, gazebo: bool = False) -> list[tuple[str, Callable[[bool], Iterator[Row]]]]:
    """Return all groups, the quick ones first; whole runs take minutes. Gazebo's only on request."""
    from swarmbed_experiments.bench import eyes, observers, reality, ros, runs

    whole = (
        ("speed", runs.speed),
        ("sweep", runs.sweeps),
        ("cost", runs.cost),
        ("observers", observers.observers),
        ("led", runs.led),
        ("tasks", runs.tasks),
        ("forms", runs.forms),
    )
    outside = (("links", reality.links), ("remote", reality.remote))
    on_ros = (
        ("ros pace", ros.pace),
        ("ros latency", ros.latency),
        ("ros onboard", ros.onboard),
        ("ros same", ros.same),
        ("ros memory", ros.memory),
    )
    on_images = (
        ("eyes", eyes.detection),
        ("carrier", eyes.carriers),
        ("docking", eyes.docking),
        ("figure 6", eyes.figure6),
        ("localisation", eyes.localisation),
        ("pixels", eyes.pixels),
        ("calibration", eyes.calibration),
    )
    groups = [*GROUPS, *on_images, *whole, *outside, *on_ros]
    if gazebo:
        from swarmbed_experiments.bench import gazebo as bench_gazebo

        groups.append(("gazebo", bench_gazebo.gazebo))
    return groups


def main(
    console: Console,
    *,
    json_file: FilePath | None,
    markdown_file: FilePath | None,
    only: Sequence[str],
    quick: bool,
    gazebo: bool = False,
) -> None:
    """Measure, print the table, and write the requested files.

    Raises:
        RunError: no group's name contains a text in `only`, or a file cannot be written.
    """
    known_groups = all_groups(gazebo=gazebo)
    groups = [
        group for group in known_groups if not only or any(part.lower() in group[0].lower() for part in only)
    ]
    if not groups:
        known = ", ".join(name for name, _ in known_groups)
        message = f"--only {', '.join(only)}: no such benchmark; there are {known}"
        raise RunError(message)
    for file in (json_file, markdown_file):
        if file is None:
            continue
        if not file.parent.is_dir():
            message = f"{file}: no such directory {file.parent}; create it or choose another file"
            raise RunError(message)
        if file.is_dir():
            message = f"{file}: is a directory; name a file"
            raise RunError(message)
        # Fail now, not after an hour of measuring.
        make_ready(file.parent, "choose another directory")
    page = ""
    if markdown_file is not None and markdown_file.exists():
        page = read_text(markdown_file)
        if BEGIN not in page or END not in page:
            # Fail now, not after minutes of measuring.
            message = f"{markdown_file}: not a benchmark page: the line {BEGIN} or {END} is missing"
            raise RunError(message)
    rows: list[Row] = []
    with console.status("measuring") as status:
        for name, measure in groups:
            status.update(f"measuring: {name}")
            rows.extend(measure(quick))
    console.print(as_table(rows, console.width))
    if json_file is not None:
        told = [{**asdict(row), "holds": row.holds} for row in rows]
        data = {
            "machine": machine(),
            "rows": [{k: v for k, v in row.items() if k != "point"} for row in told],
        }
        write_json(json_file, data)
        console.print(f"written: {json_file}")
    if markdown_file is not None:
        from swarmbed_experiments.pictures import plots

        drawn = (
            ("robots", "cost.png", "How cost grows with the number of robots", plots.draw_cost),
            ("drives", "figure6.png", "The square of Figure 6 with rendered images", plots.draw_figure6),
            ("steps", "steps.png", "One robot's velocities in each world", plots.draw_steps),
        )
        pictures: dict[str, str] = {}
        for key, name, title, draw in drawn:
            points = [row.point for row in rows if row.point is not None and key in row.point]
            if points:
                pictures[title] = name
                draw(markdown_file.with_name(name), points)
                console.print(f"written: {markdown_file.with_name(name)}")
        write_text(markdown_file, as_markdown(rows, pictures, page))
        console.print(f"written: {markdown_file}")


def as_table(rows: Sequence[Row], width: int) -> Table:
    """Return the rows as a table for a terminal of this width; only a wide one shows the notes."""
    wide = width >= WIDE
    table = Table("what", "measured", "must hold", "", *(["about"] if wide else []), title="Benchmarks")
    for row in rows:
        mark = {True: Text("holds", "green"), False: Text("MISSED", "red"), None: Text()}[row.holds]
        cells: list[str | Text] = [row.name, f"{row.value:.4g} {row.unit}", row.bound, mark]
        table.add_row(*cells, *([row.note] if wide else []))
    return table


def as_markdown(rows: Sequence[Row], pictures: Mapping[str, str], page: str = "") -> str:
    """Return the page docs/benchmarks.md.

    Args:
        rows: rows of the table.
        pictures: file names by title.
        page: the page so far; only the text between its two marks is replaced.
    """
    about = machine()
    lines = [
        BEGIN,
        "",
        f"Measured on {about['date']} on {about['cpu']}, {about['cores']} cores, Python {about['python']}:",
        "",
        "| what | measured | must hold | | |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        mark = {True: "holds", False: "**missed**", None: ""}[row.holds]
        lines.append(f"| {row.name} | {row.value:.4g} {row.unit} | {row.bound} | {mark} | {row.note} |")
    for title, name in pictures.items():
        lines += ["", f"![{title}]({name})"]
    measured = "\n".join([*lines, "", END])
    before, begun, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if begun and ended:
        return f"{before}{measured}{after}"
    return f"# Benchmarks\n\n{measured}\n"


def machine() -> dict[str, object]:
    """Return CPU, cores, Python version, system and date of the measurement."""
    cpu = platform.processor() or platform.machine()
    info = FilePath("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
    }
