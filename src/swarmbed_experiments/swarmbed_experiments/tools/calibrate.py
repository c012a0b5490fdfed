"""Calibrates a robot's cameras with a target on the wall, as DOTS robots do it (DOTS paper, III-A4b).

The robot drives past the target and takes pictures; its pose estimate is its odometry. This runs in
simulation: each camera gets its own lens, drawn as `config/imaging` says, which the calibration has to
estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.calibration import calibrate
from swarmbed_core.calibration_target import Album, CalibrationTarget, plan
from swarmbed_core.camera import CX, CY, FX, FY, cameras_of
from swarmbed_core.control import Mode
from swarmbed_core.errors import MarkerError
from swarmbed_core.geometry import compose, invert
from swarmbed_core.imaging import Imaging
from swarmbed_core.local import LocalSwarm
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_core.trajectory import Path, Waypoint
from swarmbed_sim.mujoco_stage import MujocoStage
from swarmbed_sim.mujoco_world import make
from swarmbed_sim.render import Renderer

from swarmbed_experiments.errors import FailedError, RunError
from swarmbed_experiments.tools.calibration_report import write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path as FilePath

    from swarmbed_core.calibration import CalibrationResult
    from swarmbed_core.calibration_target import Stop
    from swarmbed_core.health import Health
    from swarmbed_core.local import LocalRobot

SPEED = 0.3
"""Speed in m/s between two stops."""
REST = 1.0
"""Seconds of standing before a picture: the robot has come to rest, and its image has arrived."""
PATIENCE = 30.0
"""Timeout in seconds for driving from one stop to the next."""
PLACED = (0.005, 0.005, 0.005)
"""Standard deviations in metres and radians of the start pose, placed by hand: assumed."""


@dataclass(frozen=True)
class Calibrated:
    """The result for one camera.

    Attributes:
        camera: its name.
        result: the calibration, or the reason why it failed.
        focal_error: relative error of the focal lengths, the larger of the two.
        centre_error: error of the principal point in pixels.
    """

    camera: str
    result: CalibrationResult | str
    focal_error: float = math.nan
    centre_error: float = math.nan


@dataclass(frozen=True)
class Calibration:
    """The calibration of all cameras of a robot.

    Attributes:
        outcomes: results of its cameras.
        seconds: duration in the world's time.
        pictures: number of pictures taken.
        refused: counts of rejected pictures, by camera.
    """

    outcomes: tuple[Calibrated, ...]
    seconds: float
    pictures: int
    refused: dict[str, Health]

    def write(self, directory: FilePath, title: str) -> FilePath:
        """Write a YAML file for each camera, pictures and an HTML page; return the page."""
        return write_report(
            directory, {each.camera: each.result for each in self.outcomes}, self.refused, title=title
        )


def run(
    kind: str,
    target_name: str,
    seed: int,
    cameras: Sequence[str] = (),
    progress: Callable[[float], None] | None = None,
) -> Calibration:
    """Calibrate a robot's cameras in simulation.

    Args:
        kind: kind of robot.
        target_name: a name from config/targets, or a file.
        seed: random seed of the lenses and all noise.
        cameras: names of the cameras to calibrate; if empty, all that look around.
        progress: called with the share that is done, 0 to 1.

    Raises:
        SwarmbedError: a file is missing or invalid, or this machine cannot render.
    """
    spec, target = RobotSpec.load(kind), CalibrationTarget.load(target_name)
    unknown = set(cameras) - {camera.name for camera in spec.cameras if not camera.on_lifter}
    if unknown:
        there = ", ".join(camera.name for camera in spec.cameras if not camera.on_lifter) or "none"
        message = f"camera '{min(unknown)}': {spec.kind} has no such camera that looks around; it has {there}"
        raise RunError(message)
    drive = plan(target, spec, cameras or None, speed=SPEED, pause=REST)
    start = drive.stops[0].pose_map
    scene = make_scene(
        Scenario.model_validate(
            {
                "version": 1,
                "title": "calibration",
                "seed": seed,
                "time_limit": 600,
                "robots": [{"kind": kind, "place": {"poses": [start.tolist()]}}],
                "controller": {"name": "follow_path"},
            }
        )
    )
    # Random streams: one for the lenses and the start pose, one for the world, one for the images.
    chance = np.random.SeedSequence(seed)
    own, of_world, of_images = chance.spawn(3)
    rng = np.random.default_rng(own)
    imaging = Imaging.load("dots")
    lenses = {camera.name: imaging.lenses.draw(camera, rng) for camera in spec.cameras}
    models = cameras_of(spec, lenses)
    stage = MujocoStage(scene, (target,))
    renderer = Renderer(stage, imaging, of_images)
    world = make(scene, of_world)
    albums = {
        camera.name: Album(target, camera)
        for camera in spec.cameras
        if any(camera.name in stop.cameras for stop in drive.stops)
    }
    try:
        swarm = LocalSwarm.of_scene(scene, world)
        [robot] = swarm.robots
        robot.onboard.place((np.asarray(start) + rng.normal(0, PLACED)).tolist())
        swarm.run(REST)
        pictures = 0
        for k, stop in enumerate(drive.stops):
            _go(swarm, robot, stop)
            believed, true = robot.onboard.filter.pose.copy(), world.truth()[0]
            stage.place(world.physics)
            for name in stop.cameras:
                albums[name].add(renderer.draw(models[name], true[:3]), believed)
                pictures += 1
            if progress is not None:
                progress((k + 1) / len(drive.stops))
        seconds = world.time
    finally:
        world.close()
        renderer.close()
    outcomes = []
    for name, album in albums.items():
        camera = next(camera for camera in spec.cameras if camera.name == name)
        try:
            result = calibrate(album.views, target, camera)
        except MarkerError as error:
            outcomes.append(Calibrated(name, str(error)))
            continue
        found, true_lens = result.calibration, models[name].numbers
        focal = max(abs(found.fx / true_lens[FX] - 1), abs(found.fy / true_lens[FY] - 1))
        centre = math.hypot(found.cx - true_lens[CX], found.cy - true_lens[CY])
        outcomes.append(Calibrated(name, result, float(focal), centre))
    refused = {name: album.health for name, album in albums.items()}
    return Calibration(tuple(outcomes), seconds, pictures, refused)


def _go(swarm: LocalSwarm, robot: LocalRobot, stop: Stop) -> None:
    """Drive to a stop, and come to rest.

    Raises:
        FailedError: the robot does not get there within `PATIENCE`.
    """
    onboard = robot.onboard
    here = onboard.filter.pose
    way = compose(invert(stop.pose_map), here)
    if math.hypot(way[0], way[1]) > 0.003 or abs(way[2]) > 0.003:
        x, y, yaw = stop.pose_map.tolist()
        # Turn the shorter way.
        yaw = here[2] + math.remainder(yaw - here[2], 2 * math.pi)
        onboard.follow(Path((Waypoint((x, y, yaw)),), "map", max_speed=SPEED))
        end = swarm.world.time + PATIENCE
        while onboard.motion.mode is Mode.PATH:
            swarm.run(0.05)
            if swarm.world.time > end:
                message = (
                    f"the robot does not reach ({x:.2f}, {y:.2f}); is the floor in front of the target free?"
                )
                raise FailedError(message)
    swarm.run(REST)
