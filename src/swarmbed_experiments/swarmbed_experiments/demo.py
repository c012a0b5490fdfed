"""The demonstration: one robot drives a path with everything it has, and the run is drawn.

It is what `swarmbed run` does until the intralogistics task takes its place: plan (Ruckig), control,
odometry, localisation by wall markers, collision map, power, in an arena of given walls.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from swarmbed_core.arena import Arena
from swarmbed_core.config import ConfigFile, Part
from swarmbed_core.control import Mode
from swarmbed_core.errors import PathError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.motion import Outcome
from swarmbed_core.robot import Command
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, Waypoint

from swarmbed_experiments import plots
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import new_directory, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Senses

TICK = 0.1
"""Seconds between two looks at the robot, as a controller would have them."""
STANDING = 1.5
"""Seconds that the robot stands before it starts: a gyro's bias shows while the wheels stand still."""
TIME_FACTOR = 3.0
LEAST_SECONDS = 10.0
"""A path has failed if it takes longer than this, and this many times longer than it should."""
GOAL_TOLERANCE = 0.05
GOAL_TOLERANCE_SHARE = 0.02
"""How far off the last waypoint the robot may stand, as the truth has it: metres for robots with cameras that
know the markers, a share of the way for those that have to dead-reckon it."""

Place = Annotated[float, Field(ge=-1000, le=1000)]
Angle = Annotated[float, Field(ge=-1000, le=1000)]
Pose = tuple[Place, Place, Angle]


class PathPoint(Part):
    """One waypoint of a path file: pose and velocity, in `map`."""

    pose: Pose
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)


class PathFile(ConfigFile):
    """A path of config/paths: where a robot starts and what it drives."""

    FOLDER: ClassVar[str] = "config/paths"

    title: str
    start: Pose
    max_speed: float | None = Field(default=None, gt=0)
    waypoints: tuple[PathPoint, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Setup:
    """A demonstration, read and checked."""

    spec: RobotSpec
    arena: Arena
    arena_name: str
    path: PathFile
    path_name: str
    seed: int
    noise: bool

    @classmethod
    def load(cls, *, robot: str, path: str, arena: str, seed: int, noise: bool) -> Setup:
        """Read the files that the names mean.

        Raises:
            ConfigError: one of them is missing or wrong.
        """
        return cls(
            spec=RobotSpec.load(robot),
            arena=Arena.load(arena),
            arena_name=arena,
            path=PathFile.load(path),
            path_name=path,
            seed=seed,
            noise=noise,
        )


@dataclass
class Track:
    """What happened, a row for each look at the robot."""

    times: list[float]
    truth: list[FloatArray]
    pose_odom: list[FloatArray]
    pose_map: list[FloatArray | None]
    sigma: list[FloatArray]


@dataclass
class Result:
    """The summary of a run and where its files are."""

    summary: dict[str, Any]
    directory: FilePath


def run(setup: Setup, out: FilePath, console: Console) -> Result:
    """Drive the path, write the run's directory and return the summary.

    Raises:
        RunError: the robot cannot drive this path, or the results cannot be written.
    """
    spec = setup.spec
    start = setup.path.start
    world = MemoryWorld(
        [Placement(f"{spec.kind}1", spec, start)], setup.arena, seed=setup.seed, noise=setup.noise
    )
    swarm = LocalSwarm(world, setup.arena.markers())
    robot = swarm.robots[0]
    with console.status(
        "getting ready: the first run after an update compiles its hot loops for half a minute"
    ):
        warm_up(setup)
    try:
        # The robot was put at its start, so its odometry frame is known in the arena.
        robot.onboard.place(start)
        swarm.run(STANDING)
        path = Path(
            tuple(Waypoint(point.pose, point.velocity) for point in setup.path.waypoints),
            frame="map",
            max_speed=None if setup.path.max_speed is None else min(setup.path.max_speed, spec.limits.speed),
        )
        robot.onboard.follow(path)
    except PathError as error:
        message = f"a {spec.kind} cannot drive {setup.path_name}: {error}"
        raise RunError(message) from None

    directory = new_directory(out, f"{FilePath(setup.path_name).stem}-{spec.kind}", setup.seed)
    track = Track([], [], [], [], [])
    length = path_length(setup.path)
    limit = world.time + LEAST_SECONDS + TIME_FACTOR * expected_seconds(setup, length)
    started = time.perf_counter()
    interrupted = False
    with Progress(
        TextColumn("driving"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("driving", total=1.0)
        try:
            while world.time < limit:
                senses = robot.sense()
                record(track, world, senses.time, senses.pose_odom, senses.pose_map, senses.pose_covariance)
                progress.update(task, completed=senses.motion.progress)
                if senses.motion.mode is Mode.IDLE:
                    break
                robot.act(Command(power=True))
                swarm.run(TICK)
        except KeyboardInterrupt:
            interrupted = True
    wall = time.perf_counter() - started
    summary = summarise(setup, track, robot.sense(), wall, length)
    if interrupted:
        summary["verdict"] = "interrupted"
    battery = robot.sense().battery
    if battery is not None:
        summary["metrics"]["battery_hours_left"] = battery.hours_left
    plots.draw_run(directory / "tracks.png", setup, track, robot.sense(), world.segments)
    write_json(directory / "summary.json", summary)
    return Result(summary, directory)


def warm_up(setup: Setup) -> None:
    """Run a robot of the same kind for a moment, so that everything is compiled, or loaded from the cache."""
    placement = Placement("warm-up", setup.spec, setup.path.start)
    swarm = LocalSwarm(MemoryWorld([placement], setup.arena), setup.arena.markers())
    robot = swarm.robots[0]
    robot.onboard.place(setup.path.start)
    robot.act(Command(path=Path((Waypoint((0.1, 0.0, 0.0)),), frame="base_link")))
    swarm.run(0.5)
    robot.act(Command(velocity_body=(0.0, 0.0, 0.0)))
    swarm.run(0.1)
    robot.sense()


def record(
    track: Track,
    world: MemoryWorld,
    now: float,
    pose_odom: FloatArray,
    pose_map: FloatArray | None,
    covariance: FloatArray | None,
) -> None:
    """Add one look at the robot to the track."""
    track.times.append(now)
    track.truth.append(world.truth()[0].copy())
    track.pose_odom.append(pose_odom)
    track.pose_map.append(pose_map)
    track.sigma.append(np.full(3, np.nan) if covariance is None else np.sqrt(np.diag(covariance)))


def path_length(path: PathFile) -> float:
    """Return the length of the straight lines between the waypoints."""
    points = np.array([path.start, *(point.pose for point in path.waypoints)])[:, :2]
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())


def expected_seconds(setup: Setup, length: float) -> float:
    """Return roughly how long the path should take: for choosing a time limit."""
    limits = setup.spec.limits
    speed = min(setup.path.max_speed or limits.speed, limits.speed)
    each = speed / limits.acceleration + 2 * math.pi / limits.yaw_rate
    return length / speed + each * len(setup.path.waypoints)


def summarise(setup: Setup, track: Track, senses: Senses, wall: float, length: float) -> dict[str, Any]:
    """Return what `summary.json` holds; `senses` are those at the end."""
    truth = np.array(track.truth)
    goal = np.array(setup.path.waypoints[-1].pose)
    miss = float(np.linalg.norm(truth[-1, :2] - goal[:2]))
    sees = len(setup.spec.cameras) > 1 and setup.arena.marker_map is not None
    tolerance = GOAL_TOLERANCE if sees else max(GOAL_TOLERANCE, GOAL_TOLERANCE_SHARE * length)
    arrived = senses.motion.outcome is Outcome.SUCCEEDED
    seconds = track.times[-1] - track.times[0]
    known = [i for i, pose in enumerate(track.pose_map) if pose is not None]
    errors = [float(np.linalg.norm(track.pose_map[i][:2] - truth[i, :2])) for i in known]  # type: ignore[index]
    metrics: dict[str, Any] = {
        "path_length": length,
        "distance_driven": float(np.linalg.norm(np.diff(truth[:, :2], axis=0), axis=1).sum()),
        "goal_error": miss,
        "max_speed": float(np.hypot(truth[:, 3], truth[:, 4]).max()),
        "localisation_error_mean": float(np.mean(errors)) if errors else None,
        "localisation_error_max": float(np.max(errors)) if errors else None,
        "refused_inputs": dict(senses.refused),
    }
    return {
        "scenario": setup.path_name,
        "world": "memory",
        "robot": setup.spec.kind,
        "arena": setup.arena_name,
        "seed": setup.seed,
        "noise": setup.noise,
        "verdict": "accepted" if arrived and miss <= tolerance else "rejected",
        "sim_seconds": seconds,
        "wall_seconds": wall,
        "real_time_factor": seconds / wall if wall > 0 else None,
        "metrics": metrics,
    }


def report(result: Result, console: Console) -> None:
    """Print the result table and where the pictures are."""
    summary = result.summary
    metrics = summary["metrics"]
    table = Table(
        "what", "value", title=Text(f"{summary['robot']} drives {summary['scenario']}: {summary['verdict']}")
    )
    table.add_row("simulated time", f"{summary['sim_seconds']:.1f} s")
    table.add_row(
        "computed in", f"{summary['wall_seconds']:.2f} s ({summary['real_time_factor']:.0f} x real time)"
    )
    table.add_row("driven", f"{metrics['distance_driven']:.2f} m of {metrics['path_length']:.2f} m")
    table.add_row("highest speed", f"{metrics['max_speed']:.2f} m/s")
    table.add_row("off the goal by", f"{1000 * metrics['goal_error']:.1f} mm")
    if metrics["localisation_error_mean"] is not None:
        table.add_row(
            "localisation error",
            f"mean {1000 * metrics['localisation_error_mean']:.1f} mm, "
            f"max {1000 * metrics['localisation_error_max']:.1f} mm",
        )
    console.print(table)
    console.print(f"picture: {result.directory / 'tracks.png'}", markup=False, soft_wrap=True)
    console.print(f"summary: {result.directory / 'summary.json'}", markup=False, soft_wrap=True)
