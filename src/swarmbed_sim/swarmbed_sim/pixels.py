"""What the cameras' marker detectors find, with pixels: images are rendered and looked at (`vision: pixels`).

It stands in for `fiducials.Eyes`, which projects corners: the same cameras, beats and latencies, and the same
readings come out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.camera import CameraModel, cameras_of
from swarmbed_core.detector import Detector
from swarmbed_core.device import CornerReading
from swarmbed_core.health import Health
from swarmbed_core.imaging import Imaging

from swarmbed_sim.looks import Looks
from swarmbed_sim.parts import CLEARANCE, LENGTH, WIDTH, Beat
from swarmbed_sim.render import Renderer

if TYPE_CHECKING:
    from swarmbed_core.camera import CameraCalibration
    from swarmbed_core.scene import Scene
    from swarmbed_core.spec import Camera, RobotSpec

    from swarmbed_sim.fiducials import Cameras
    from swarmbed_sim.parts import Furniture, Life
    from swarmbed_sim.physics import Physics

IMAGING = "dots"
"""The file of config/imaging by which pictures are taken."""
ABOVE = 0.15
"""Metres beside a tray from which the upward camera looks whether it is below it."""


class Studio:
    """What renders a scene, and the lenses that its cameras truly have; one for all rates.

    Attributes:
        health: of the detectors.
    """

    def __init__(self, scene: Scene, seed: np.random.SeedSequence, *, noise: bool) -> None:
        """Begin.

        Raises:
            SimError: this machine cannot render.
        """
        imaging = Imaging.load(IMAGING)
        if not noise:
            imaging = imaging.model_copy(update={"noise": 0.0})
        self.imaging = imaging
        self._seed = seed
        self.looks = Looks(scene)
        self.renderer = Renderer(self.looks, imaging, seed)
        self.health = Health()
        self._now = -1.0

    def show(self, scene: Scene) -> None:
        """Show another scene from now on: robots came or went."""
        self.renderer.close()
        self.looks = Looks(scene)
        self.renderer = Renderer(self.looks, self.imaging, self._seed)
        self._now = -1.0

    def grind(self, spec: RobotSpec, rng: np.random.Generator) -> dict[str, CameraCalibration]:
        """Return the true intrinsics of a robot's cameras, which are known from a calibration."""
        return {camera.name: self.imaging.lenses.draw(camera, rng) for camera in spec.cameras}

    def place(self, now: float, physics: Physics) -> None:
        """Put everything where it is now."""
        if now != self._now:
            self._now = now
            self.looks.place(physics)
            self.renderer.update()

    def close(self) -> None:
        """Give everything back."""
        self.renderer.close()


@dataclass(slots=True, eq=False)
class _Eye:
    """One camera of one robot."""

    life: Life
    part: Cameras
    camera: Camera
    model: CameraModel
    detector: Detector
    rng: np.random.Generator
    localised: bool


class PixelEyes:
    """All cameras that take pictures at one rate."""

    def __init__(self, rate: float, scene: Scene, studio: Studio, *, noise: bool) -> None:
        """Start without any."""
        self.beat = Beat(rate)
        self._studio = studio
        self._noisy = noise
        self._eyes: list[_Eye] = []
        self._under = np.array(scene.markers.underside_ids)
        walls = scene.arena.markers()
        self._walls = np.empty(0, dtype=np.int64) if walls is None else walls.ids

    def add(
        self,
        robot: Life,
        spec: RobotSpec,
        part: Cameras,
        rng: np.random.Generator,
        lenses: dict[str, CameraCalibration],
        *,
        localised: bool,
    ) -> None:
        """Add those cameras of a robot that take pictures at this rate."""
        models = cameras_of(spec, lenses)
        for camera in spec.cameras:
            if camera.rate == self.beat.rate:
                name = f"{robot.name}/{camera.name}"
                detector = Detector(camera.width, camera.height, self._studio.health, name)
                model = models[camera.name]
                self._eyes.append(_Eye(robot, part, camera, model, detector, rng, localised))

    def remove(self, row: int) -> None:
        """Take out a robot's cameras, if it has any."""
        self._eyes = [eye for eye in self._eyes if eye.life.row not in {row, -1}]

    def expose(self, now: float, physics: Physics, furniture: Furniture) -> None:
        """Let all cameras take a picture; whoever reads gets what is in it when it has arrived."""
        studio = self._studio
        studio.place(now, physics)
        for eye in self._eyes:
            life, camera = eye.life, eye.camera
            if not life.on or (camera.on_lifter and not _below_a_tray(life.row, physics, furniture)):
                continue
            model = eye.model
            if camera.on_lifter:
                model = model.at_lifter_height(physics.heights.item(life.row))
            image = studio.renderer.draw(model, physics.poses[life.row], physics.twists[life.row])
            found = eye.detector.detect(image)
            # The map under trays is the upward camera's, all else the others'.
            wanted = np.isin(found.ids, self._under)
            if not camera.on_lifter:
                wanted = ~wanted
                if not eye.localised:
                    wanted &= ~np.isin(found.ids, self._walls)
            reading = CornerReading(now, camera.name, found.ids[wanted], found.corners[wanted])
            if len(reading.ids):
                mean, sigma = eye.part.latency
                late = sigma * float(eye.rng.standard_normal()) if self._noisy else 0.0
                eye.part.deliver(now + max(0.0, mean + late), reading)


def _below_a_tray(row: int, physics: Physics, furniture: Furniture) -> bool:
    """Return whether a robot is under a carrier or near it: else its upward camera sees nothing."""
    x, y, _ = physics.poses[row, :3].tolist()
    for pose, size in zip(physics.carrier_poses, furniture.carriers, strict=True):
        reach = ABOVE + 0.5 * float(np.hypot(size[LENGTH], size[WIDTH]))
        if size[CLEARANCE] > 0 and (pose[0] - x) ** 2 + (pose[1] - y) ** 2 < reach**2:
            return True
    return False
