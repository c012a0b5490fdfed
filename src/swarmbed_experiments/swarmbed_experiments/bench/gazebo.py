"""Benchmark rows of the Gazebo worlds, beside the other worlds with the same seeds.

They measure the speed of whole runs, the completion time of the task, and one robot's velocity response.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.detector import Detector
from swarmbed_core.health import Health
from swarmbed_core.local import LocalSwarm
from swarmbed_core.plugins import WORLDS as WORLD_PLUGINS
from swarmbed_core.plugins import find_plugin
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_gazebo.place import missing
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC
from swarmbed_gazebo.world import GazeboPhysics
from swarmbed_sim.mujoco_stage import MujocoStage

from swarmbed_experiments.bench.benchmarks import SEED, Row
from swarmbed_experiments.bench.eyes import Score, shots
from swarmbed_experiments.bench.runs import differ, factor
from swarmbed_experiments.runs.sweep import sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene
    from swarmbed_sim.stage import Places

TASK = "intralogistics_cooperative"
OTHERS = ("mujoco", "planar")
STEPS = {"forward 0.5 m/s": (0, 0.5), "sideways 0.5 m/s": (1, 0.5), "turning 2 rad/s": (2, 2.0)}
ALONE: dict[str, Any] = {
    "version": 1,
    "title": "steps",
    "time_limit": 10,
    "noise": False,
    "robots": [{"place": {"poses": [[0.0, 0.0, 0.7]]}}],
    "controller": {"name": "random_walk"},
}
"""One robot, without noise in its wheels and sensors."""
PUSHED = 0.6
"""Seconds of commanded velocity, and as many of braking."""
RISEN = 0.9
"""Share of the commanded velocity that ends the rise; the loss of as much of it ends the braking."""


def gazebo(quick: bool) -> Iterator[Row]:
    """Measure the installed Gazebo simulators beside the other worlds."""
    here = [kind for kind in (GAZEBO11, HARMONIC) if not missing(kind)]
    yield from _speeds(here, quick)
    yield from _steps(here)
    yield from _task(here, quick)
    if GAZEBO11 in here:
        yield from _images(quick)


def _speeds(here: Sequence[str], quick: bool) -> Iterator[Row]:
    """Time the beginning of runs with 5 and 20 robots and their full on-board software."""
    seconds = 2 if quick else 20
    for name, robots, least in ((TASK, 5, 8), ("intralogistics_20", 20, None)):
        factors = {world: factor(name, seconds, [f"world={world}"]) for world in (*here, *OTHERS)}
        for world, value in factors.items():
            note = f"whole stack, first {seconds} s; {value / factors['mujoco']:.2g} of mujoco"
            bound = least if world == GAZEBO11 else None
            yield Row(f"gazebo: {robots} robots in {world}", value, "x real time", at_least=bound, note=note)


class _Hand:
    """A stage that lets a Gazebo 11 server draw the images, with the robot moved to each place by hand."""

    def __init__(self, scene: Scene) -> None:
        self._physics = GazeboPhysics(scene, kind=GAZEBO11)
        self.shoot = self._physics.stage(scene).shoot

    def place(self, places: Places) -> None:
        """Move the robot to its place."""
        x, y, yaw = places.poses[0].tolist()
        self._physics.move_robot(0, (x, y, yaw))

    def close(self) -> None:
        """Stop the server."""
        self._physics.close()


def _images(quick: bool) -> Iterator[Row]:
    """Render the same images with Gazebo 11 and MuJoCo, and detect codes in them."""
    for who, stage_of in ((GAZEBO11, _Hand), ("mujoco", MujocoStage)):
        taken, seconds = shots(SEED, 30 if quick else 400, stage_of)
        height, width = taken[0].image.shape
        detector, score = Detector(width, height, Health()), Score()
        for shot in taken:
            found = detector.detect(shot.image)
            score.take(shot, 0.0, found.ids, found.corners)
        yield Row(
            f"gazebo: an image drawn by {who}, median", 1e3 * seconds, "ms", note="640x480, lens, noise"
        )
        note = f"{100 * score.share:.1f} % of {score.wanted} codes found, {score.wrong} wrong"
        yield Row(f"gazebo: corner error in images by {who}, RMS", score.rms, "px", note=note)


def _steps(here: Sequence[str]) -> Iterator[Row]:
    """Measure a robot's response to velocity steps and its braking, in each world."""
    worlds = (*here, *OTHERS)
    told = {world: _responses(world) for world in worlds}
    measured = {world: _rises(rows) for world, rows in told.items()}
    for world in (*here, "planar"):
        off = np.abs(measured[world] / measured["mujoco"] - 1.0).max(axis=0)
        for what, value in zip(("rise", "braking", "steady velocity"), off.tolist(), strict=True):
            note = f"worst of {', '.join(STEPS)}; beside mujoco's"
            yield Row(f"gazebo: {what}, {world}", 100 * value, "% off", at_most=10, note=note)
    yield Row(
        "gazebo: worlds side by side",
        len(worlds),
        "",
        point={"steps": told},
        note=f"one robot, {PUSHED:g} s each",
    )


def _responses(world: str) -> dict[str, FloatArray]:
    """Return for each step rows of time and true velocity of a commanded robot."""
    told = {}
    for name, (axis, wanted) in STEPS.items():
        scene = make_scene(Scenario.model_validate(ALONE | {"world": world}))
        made = find_plugin(WORLD_PLUGINS, world)(scene, np.random.SeedSequence(SEED))
        swarm = LocalSwarm.of_scene(scene, made)
        rows = []
        try:
            # Let the estimates settle.
            swarm.run(0.5)
            began = made.time
            for share in (1.0, 0.0):
                velocity = [0.0, 0.0, 0.0]
                velocity[axis] = share * wanted
                for _ in range(round(PUSHED / 0.1)):
                    swarm.robots[0].act(Command(velocity_body=(velocity[0], velocity[1], velocity[2])))
                    for _ in range(round(0.1 / made.timestep)):
                        swarm.step()
                        rows.append([made.time - began, made.truth()[0, 3 + axis]])
        finally:
            made.close()
        told[name] = np.array(rows)
    return told


def _rises(told: dict[str, FloatArray]) -> FloatArray:
    """Return for each step the rise time and the braking time in seconds, and the velocity reached."""
    found = []
    for name, rows in told.items():
        wanted = STEPS[name][1]
        up, down = rows[rows[:, 0] <= PUSHED + 1e-9], rows[rows[:, 0] > PUSHED + 1e-9]
        rise = _crossing(up, RISEN * wanted)
        braked = _crossing(down * [1.0, -1.0], -(1.0 - RISEN) * wanted) - PUSHED
        found.append([rise, braked, up[-1, 1]])
    return np.array(found)


def _crossing(rows: FloatArray, level: float) -> float:
    """Return the time at which a velocity first reaches a level, interpolated between rows."""
    k = int(np.argmax(rows[:, 1] >= level))
    if k == 0:
        return float(rows[0, 0])
    return float(np.interp(level, rows[k - 1 : k + 1, 1], rows[k - 1 : k + 1, 0]))


def _task(here: Sequence[str], quick: bool) -> Iterator[Row]:
    """Run the task in each simulator and in MuJoCo, with the same seeds."""
    seeds = 1 if quick else 10
    times: dict[str, list[float]] = {}
    for world in (*here, "mujoco"):
        sets = [f"world={world}", *(["time_limit=1"] if quick else [])]
        with tempfile.TemporaryDirectory() as out:
            rows = sweep(TASK, seeds=seeds, first_seed=SEED, out=Path(out), sets=sets).rows
        times[world] = [float(row["completion_seconds"]) for row in rows if row["verdict"] == "accepted"]
    if quick:
        # No run completes the task within a second.
        return
    for world, some in times.items():
        least = 100 if world in here else None
        note = f"{len(some)} of {seeds} seeds"
        yield Row(
            f"gazebo: 5 of 5 carriers in {world}", 100 * len(some) / seeds, "%", at_least=least, note=note
        )
        spread = f"{min(some):.0f}-{max(some):.0f} s" if some else ""
        yield Row(f"gazebo: completion of the task in {world}, mean", float(np.mean(some)), "s", note=spread)
    for world in here:
        yield from differ(f"gazebo: completion in {world} against mujoco", times[world], times["mujoco"])
