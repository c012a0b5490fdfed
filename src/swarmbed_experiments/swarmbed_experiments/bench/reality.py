"""Benchmark rows of robots outside the simulation: what remote parts cost, and that they change nothing."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.spec import RobotSpec
from swarmbed_reality.errors import RealityError
from swarmbed_reality.links import Link, RemoteMotors
from swarmbed_reality.remote import Helper

from swarmbed_experiments.bench.benchmarks import SEED, Row
from swarmbed_experiments.bench.runs import differ
from swarmbed_experiments.runs.sweep import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

ROBOTS = 20
CYCLE = 0.01


class RealTime:
    """A world's clock that runs with this machine's, in cycles."""

    time = 0.0


def links(quick: bool) -> Iterator[Row]:
    """Drive and read the motors of 20 robots in another process, each by its own socket, at 100 Hz."""
    spec, world, helper = RobotSpec.load("dots"), RealTime(), Helper()
    made = []
    for k in range(ROBOTS):
        address, key = helper.add(f"dots{k + 1}", spec, ["motors"])
        link = Link(f"dots{k + 1}", key, address, world)
        link.connect(30.0)
        made.append((address, link, RemoteMotors(link, Kinematics.of(spec).count)))
    cycles = 200 if quick else 3000
    new = late = 0
    stamps = [0.0] * ROBOTS
    speeds = np.full(Kinematics.of(spec).count, 0.1)
    started, worked, served = time.perf_counter(), time.process_time(), cpu_seconds(helper.process)
    for cycle in range(1, cycles + 1):
        left = started + cycle * CYCLE - time.perf_counter()
        late += left < 0
        time.sleep(max(left, 0.0))
        world.time = cycle * CYCLE
        for i, (_, _, motors) in enumerate(made):
            # On a busy machine a robot may be lost for a moment.
            with contextlib.suppress(RealityError):
                stamp = motors.read().stamp
                new += stamp > stamps[i]
                stamps[i] = stamp
            motors.drive(speeds)
    wall = time.perf_counter() - started
    here, there = time.process_time() - worked, cpu_seconds(helper.process) - served
    losses = sum(link.losses for _, link, _ in made)
    for address, link, _ in made:
        link.close()
        helper.remove(address)
    what = f"remote motors of {ROBOTS} robots, 100 Hz"
    note = f"{cycles / wall:.0f} cycles per second, {late} of {cycles} late, {losses} losses"
    yield Row(f"{what}: the world's side", 100 * here / wall, "% of a core", at_most=50, note=note)
    yield Row(f"{what}: the robots' side", 100 * there / wall, "% of a core", note="with simulated wheels")
    yield Row(
        f"{what}: cycles with a new reading",
        100 * new / (cycles * ROBOTS),
        "%",
        at_least=None if quick else 95,
    )


def remote(quick: bool) -> Iterator[Row]:
    """Compare the cooperative task with motors in another process with the same without."""
    seeds = 2 if quick else 20
    times = []
    with tempfile.TemporaryDirectory() as out:
        for name, sets in (("remote", []), ("virtual", ["robots.0.device=[]"])):
            rows = sweep("remote_motors", seeds=seeds, first_seed=SEED, out=Path(out) / name, sets=sets).rows
            done = [row for row in rows if row["verdict"] == "accepted"]
            times.append([float(row["completion_seconds"]) for row in done])
            yield Row(
                f"remote_motors, motors {name}: mean completion",
                float(np.mean(times[-1])) if done else float("nan"),
                "s",
                note=f"{len(done)} of {seeds} seeds; "
                f"{np.median([row['real_time_factor'] for row in rows]):.0f} x real time in the sweep",
            )
    remote, virtual = times
    if remote and virtual:
        what = "remote_motors, remote and virtual motors"
        yield from differ(what, remote, virtual, at_least=None if quick else 0.05)


def cpu_seconds(process: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
