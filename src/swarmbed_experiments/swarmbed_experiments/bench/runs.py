"""Benchmark rows of whole runs: speed of the worlds, cost by number of robots, success in the tasks.

Real-time factors are of one process that computes everything: physics, sensors, Onboards, behaviour trees.
"""

from __future__ import annotations

import math
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import ks_2samp, mannwhitneyu
from swarmbed_core.led import Tellings
from swarmbed_core.orders import Told

from swarmbed_experiments.bench.benchmarks import SEED, Row
from swarmbed_experiments.runs.run import Run, warm_up
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_experiments.runs.sweep import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAPER_MEAN = 178.0
"""Mean completion time of the DOTS paper's Table V, in seconds."""
TASKS = ("intralogistics", "intralogistics_cooperative")
FAULTS = (
    "fault_radio_loss",
    "fault_dead_sensor",
    "fault_robot_death",
    "fault_moved_carrier",
    "fault_wheel_slip",
    "fault_under_carrier",
    "fault_blocked_zone",
)
LIVE = (1, 2, 5, 10, 20)
CROWDS = (100, 300, 1000, 3000, 10000)
LED = 100
TELLINGS = 30.0
"""Tellings of each led body a second."""
CIRCLE = (0.3, 1.0)
"""Radius in metres and rad/s of the circles that led bodies drive."""
DENSITY = 1000 / 30**2
"""Robots per square metre in the crowds, as in random_walk_1000."""


def tasks(quick: bool) -> Iterator[Row]:
    """Run the main task with both controllers, and with each fault, over seeds that nothing was tuned to."""
    seeds = 1 if quick else 100
    with tempfile.TemporaryDirectory() as out:
        for name in TASKS:
            rows = sweep(name, seeds=seeds, first_seed=SEED, out=Path(out) / name).rows
            yield from _task_rows(name, rows)
        for name in FAULTS[:1] if quick else FAULTS:
            rows = sweep(name, seeds=max(1, seeds // 10), first_seed=SEED, out=Path(out) / name).rows
            done = sum(row["verdict"] == "accepted" for row in rows)
            yield Row(f"{name}: accepted", 100 * done / len(rows), "%", note=f"{done} of {len(rows)} seeds")


def _task_rows(name: str, rows: Sequence[dict[str, Any]]) -> Iterator[Row]:
    """Summarise one sweep of a task."""
    reference = name == TASKS[0]
    done = [row for row in rows if row["verdict"] == "accepted"]
    yield Row(
        f"{name}: 5 of 5 carriers within 600 s",
        100 * len(done) / len(rows),
        "%",
        at_least=98 if reference else 100,
        note=f"{len(done)} of {len(rows)} seeds",
    )
    times = [float(row["completion_seconds"]) for row in done]
    if not times:
        return
    yield Row(
        f"{name}: mean completion",
        float(np.mean(times)),
        "s",
        at_most=None if reference else 90,
        note=f"{min(times):.0f}-{max(times):.0f} s; Table V: {PAPER_MEAN:.0f} s (99-327 s), five runs",
    )
    fastest = max(float(row["max_approach_speed"]) for row in rows)
    touches = sum(int(row["collisions"]) for row in rows)
    yield Row(
        f"{name}: hardest contact of two robots",
        fastest,
        "m/s",
        at_most=None if reference else 0.1,
        note=f"{touches} contacts of two robots in {len(rows)} runs",
    )
    yield Row(
        f"{name}: median factor in the sweep",
        float(np.median([row["real_time_factor"] for row in rows])),
        "x real time",
        note="all cores at work",
    )


def differ(
    name: str, one: Sequence[float], other: Sequence[float], at_least: float | None = None
) -> Iterator[Row]:
    """Test whether two samples come from one distribution; the rows hold the p-values."""
    for test, measure in (("Mann-Whitney", mannwhitneyu), ("Kolmogorov-Smirnov", ks_2samp)):
        chance = float(measure(one, other).pvalue)
        note = f"p; below {at_least or 0.05:g} the two would differ"
        yield Row(f"{name}, {test}", chance, "", at_least=at_least, note=note)


def speed(quick: bool) -> Iterator[Row]:
    """Time whole runs: five robots, twenty robots, thousands."""
    for name in TASKS:
        factors = []
        for seed in range(1 if quick else 5):
            summary = _run(name, seed=SEED + seed, sets=["time_limit=10"] if quick else [])
            factors.append(float(summary["real_time_factor"]))
        yield Row(
            f"{name}, 5 robots + 5 carriers, mujoco",
            float(np.median(factors)),
            "x real time",
            at_least=25,
            note="median of whole runs; 50 is the goal" if not quick else "10 s",
        )
    seconds = 5 if quick else 60
    times = factor("intralogistics_20", seconds, [])
    yield Row("20 robots + 20 carriers, mujoco", times, "x real time", at_least=5, note=f"first {seconds} s")
    for count, seconds in ((1000, 2 if quick else 20), (10000, 1 if quick else 5)):
        yield Row(
            f"{count:,} robots walk at random, planar",
            factor(f"random_walk_{count}", seconds, []),
            "x real time",
            at_least=5 if count == 1000 else None,
            note="16 ranges each at 50 Hz, collision avoidance",
        )
    seconds = 5 if quick else 60
    long = ["robots.0.count=1000", "arena=convoy_plain", "robots.0.place.line.start=[234,0,0]"]
    yield Row(
        "convoy of 1,000 robots, planar",
        factor("convoy", seconds, long),
        "x real time",
        at_least=1,
        note=f"first {seconds} s; messages to both neighbours at 10 Hz, 3 ranges each at 20 Hz",
    )
    seconds = 300 if quick else 3060
    run = _run("transport", seed=SEED, sets=[f"time_limit={seconds}", "frame.acceptors=[{name: elapsed}]"])
    yield Row(
        f"transport, 15 robots, {seconds / 60:g} min, planar",
        float(run["wall_seconds"]),
        "s",
        at_most=None if quick else 30.0,
        note="full communication, a program in Python for each robot; 16 sonars of 8 rays at 10 Hz",
    )
    yield from _epuck2s(quick)


def _epuck2s(quick: bool) -> Iterator[Row]:
    """Time crowds of e-puck2s with proximity sensors at one step per tick, as in ARGoS."""
    seconds, repetitions = (600, 1) if quick else (7200, 5)
    runs = [_run("epuck2_50", seed=SEED, sets=[f"time_limit={seconds}"]) for _ in range(repetitions)]
    spent = [float(run["wall_seconds"]) for run in runs]
    busy = min(float(run["cpu_seconds"]) for run in runs)
    yield Row(
        f"50 e-puck2 with proximity sensors, {seconds:,} s, planar",
        float(np.median(spent)),
        "s",
        at_most=None if quick else 4.0,
        note=f"{min(spent):.2f}-{max(spent):.2f} s in {repetitions} runs, of the processor {busy:.2f} s at "
        "least; ARGoS 3: 11.6 s",
    )
    seconds = 20 if quick else 200
    runs = [_run("epuck2_1000", seed=SEED, sets=[f"time_limit={seconds}"]) for _ in range(repetitions)]
    factors = [float(run["real_time_factor"]) for run in runs]
    yield Row(
        "1,000 e-puck2 with proximity sensors, planar",
        float(np.median(factors)),
        "x real time",
        at_least=100,
        note=f"{min(factors):.0f}-{max(factors):.0f} in {repetitions} runs of {seconds} s; ARGoS 3: 19",
    )


def led(quick: bool) -> Iterator[Row]:
    """Time a crowd with 100 led bodies beside it against one of as many robots, in turns."""
    seconds, blocks = (1.0, 2) if quick else (4.0, 9)
    place = "place: {area: {x_min: -14, x_max: 14, y_min: -14, y_max: 14}}"
    beside = (
        f"robots=[{{kind: dots, count: {1000 - LED}, crowd: true, {place}}}, "
        f"{{kind: dots, count: {LED}, name: led, body: tracked, {place}}}]"
    )
    made = [
        Run(*load_scenario("random_walk_1000", [*sets, "time_limit=1000"], seed=SEED))
        for sets in ([f"robots=[{{kind: dots, count: 1000, crowd: true, {place}}}]"], [beside])
    ]
    spent: list[list[float]] = [[], []]
    for run in made:
        _lead(run, 1.0)
    for _ in range(blocks):
        for run, times in zip(made, spent, strict=True):
            times.append(_lead(run, seconds))
    # What else runs on the machine only adds to the times.
    simulated, with_led = map(min, spent)
    state = made[1].world.led()
    refused = sum(sum(counts.values()) for counts in state.refused.values())
    for run in made:
        run.close()
    yield Row(
        f"{LED} led bodies among {1000 - LED} simulated ones over 1,000 simulated, planar",
        simulated / with_led,
        "of the speed",
        at_least=None if quick else 0.9,
        note=f"{seconds / with_led:.1f} and {seconds / simulated:.1f} x real time; "
        f"each told at {TELLINGS:g} Hz, {int(state.taken.sum()):,} tellings taken, {refused} refused",
    )


def _lead(run: Run, seconds: float) -> float:
    """Advance a run while its led robots drive in circles; return the wall time in seconds."""
    names = run.world.led().names
    starts = np.array([robot.pose for robot in run.scene.robots if robot.tracked is not None]).reshape(-1, 3)
    radius, omega = CIRCLE
    centres = starts[:, :2] - radius * np.stack([np.sin(starts[:, 2]), -np.cos(starts[:, 2])], axis=1)
    twists = np.tile((radius * omega, 0.0, omega), (len(names), 1))
    number = math.ceil(run.time * TELLINGS - 1e-6)
    started = time.perf_counter()
    for _ in range(round(seconds / run.timestep)):
        now = run.time
        if names and now >= number / TELLINGS - 1e-6:
            number += 1
            yaws = starts[:, 2] + omega * now
            places = centres + radius * np.stack([np.sin(yaws), -np.cos(yaws)], axis=1)
            poses = np.column_stack([places, yaws])
            run.orders.put(Told(Tellings(names, np.full(len(names), now), poses, twists)))
        run.runner.once()
    return time.perf_counter() - started


def cost(quick: bool) -> Iterator[Row]:
    """Measure computing time and memory per robot, for growing numbers of robots."""
    with tempfile.TemporaryDirectory() as folder:
        for point in cost_points(Path(folder), quick=quick):
            robots, what = point["robots"], point["what"]
            name = f"cost of {robots:,} robots, {what}"
            memory = (
                f"{point['mb']:.0f} MB, {1000 * point['mb'] / robots:.1f} kB a robot"
                if point.get("mb")
                else ""
            )
            yield Row(
                name, point["ms_per_second"] / robots, "ms a robot and second", note=memory, point=point
            )


def cost_points(folder: Path, *, quick: bool) -> list[dict[str, Any]]:
    """Return computing time and memory for growing numbers of robots, each measured in its own process."""
    jobs: list[tuple[str, str, int, list[str], float]] = []
    for count in LIVE[:2] if quick else LIVE:
        # As many carriers as robots, and the same floor area per robot.
        arena = _arena(folder, 5.0 * (count / 5) ** 0.5)
        sets = [
            f"arena={arena}",
            f"robots=[{{kind: dots, count: {count}, place: {{area: {{x_min: 0}}}}}}]",
            f"carriers=[{{count: {count}, place: {{area: {{x_max: 0}}, gap: 0.1}}}}]",
            "frame.acceptors=[{name: elapsed}]",
        ]
        jobs.append(("whole robots, mujoco", "intralogistics", count, sets, 1.0 if quick else 20.0))
    for count in CROWDS[:2] if quick else CROWDS:
        arena = _arena(folder, (count / DENSITY) ** 0.5)
        sets = [f"arena={arena}", f"robots.0.count={count}"]
        jobs.append(
            ("crowd, planar", "random_walk_1000", count, sets, max(1.0, 5000 / count) if not quick else 1.0)
        )
    context = multiprocessing.get_context("spawn")
    points = []
    for what, name, count, sets, seconds in jobs:
        with context.Pool(1) as pool:
            ms, mb = pool.apply(_measure, (name, sets, seconds))
        points.append({"what": what, "robots": count, "ms_per_second": ms, "mb": mb})
    return points


def sweeps(quick: bool) -> Iterator[Row]:
    """Compare a sweep on two cores with one on one."""
    seeds, limit = (2, 1) if quick else (12, 60)
    spent = []
    for workers in (2, 1):
        with tempfile.TemporaryDirectory() as out:
            started = time.perf_counter()
            sets = [f"time_limit={limit}", "frame.acceptors=[{name: elapsed}]"]
            sweep("intralogistics", seeds=seeds, first_seed=SEED, out=Path(out), workers=workers, sets=sets)
            spent.append(time.perf_counter() - started)
    yield Row(
        "sweep: two cores over one",
        spent[1] / spent[0],
        "x",
        at_least=None if quick else 1.7,
        note=f"{seeds} runs of {limit} s, start of the processes included",
    )


FORMS = (
    (
        "epuck2_50",
        ("distance_per_robot",),
        60,
        ("noise=true", "robots.0.count=10", "frame.transducers=[{name: travel}]"),
    ),
    (
        "transport",
        ("items", "collisions"),
        300,
        (
            "robots.0.count=6",
            "controller.silence=60",
            "controller.destination=[-8.0, -20.0]",
            "frame.acceptors=[{name: elapsed}]",
        ),
    ),
)
"""Scenarios of crowds, what to measure in them, seconds, and changes that make them small."""
WHOLE = ("robots.0.crowd=false",)
"""The change that gives each robot of a crowd an Onboard and a program of its own."""
ALIKE = 0.01
NEARLY = 0.05
"""Two forms do the same if p is at least `ALIKE`, or if their means differ by less than `NEARLY`."""


def forms(quick: bool) -> Iterator[Row]:
    """Compare crowds with the same robots outside a crowd, over seeds."""
    seeds = 2 if quick else 20
    for name, measures, lasts, changes in FORMS:
        seconds = 10 if quick else lasts
        samples = []
        for form in ((), WHOLE):
            sets = [*changes, *form, f"time_limit={seconds}"]
            with tempfile.TemporaryDirectory() as out:
                samples.append(sweep(name, seeds=seeds, first_seed=SEED, out=Path(out), sets=sets).rows)
        for measure in measures:
            crowd, whole = ([float(row[measure]) for row in rows] for rows in samples)
            runs = f"{seeds} runs of {seconds} s"
            yield from _alike(f"{name}: {measure} of whole robots", whole, crowd, runs)


def _alike(name: str, whole: Sequence[float], crowd: Sequence[float], runs: str) -> Iterator[Row]:
    """Compare both forms; the tests must not tell them apart unless their means are nearly the same."""
    means = float(np.mean(whole)), float(np.mean(crowd))
    share = 1.0 if means[0] == means[1] else means[0] / means[1] if means[1] else math.inf
    note = " and ".join(f"{np.mean(some):.3g}±{np.std(some):.2g}" for some in (whole, crowd))
    yield Row(f"{name} over that of a crowd", share, "x", note=f"{note}; {runs}")
    at_least = None if abs(share - 1) < NEARLY else ALIKE
    yield from differ(f"{name} and of a crowd", whole, crowd, at_least)


def _run(name: str, *, seed: int, sets: Sequence[str]) -> dict[str, Any]:
    """Return the summary of a run that writes nothing."""
    scenario, source = load_scenario(name, sets, seed=seed)
    warm_up(scenario, source)
    run = Run(scenario, source)
    summary = run.go()
    run.close()
    return summary


def factor(name: str, seconds: float, sets: Sequence[str]) -> float:
    """Return the real-time factor of the first seconds of a run."""
    scenario, source = load_scenario(name, sets, seed=SEED)
    warm_up(scenario, source)
    run = Run(scenario, source)
    spent = _spend(run, seconds)
    run.close()
    return seconds / spent


def _spend(run: Run, seconds: float) -> float:
    """Advance a run by some seconds of the world's time; return the wall time in seconds."""
    started = time.perf_counter()
    for _ in range(round(seconds * 10)):
        run.tick()
    return time.perf_counter() - started


def _measure(name: str, sets: Sequence[str], seconds: float) -> tuple[float, float]:
    """Return the milliseconds per simulated second, and the megabytes that the run adds."""
    small, source = load_scenario(name, [*sets, "robots.0.count=2", "carriers=[]"], seed=SEED)
    warm_up(small, source)
    before = _megabytes()
    scenario, source = load_scenario(name, sets, seed=SEED)
    run = Run(scenario, source)
    run.tick()
    spent = _spend(run, seconds)
    used = _megabytes() - before
    run.close()
    return 1000 * spent / seconds, max(used, 0.0)


def _megabytes() -> float:
    """Return the resident memory of this process in megabytes."""
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return resident * 4096 / 1e6


def _arena(folder: Path, side: float) -> Path:
    """Write a square arena and return its file."""
    file = folder / f"arena{side:.2f}.yaml"
    file.write_text(f"version: 1\ntitle: a square\nsize: [{side:.2f}, {side:.2f}]\n")
    return file
