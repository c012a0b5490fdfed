"""What robots' cameras see, with pixels: images are rendered, and looked at by detectors or by people.

With `vision: pixels` it stands in for `fiducials.Eyes`, which projects corners: the same cameras, beats and
latencies, and the same readings come out. With `vision: corners` it renders only what somebody watches. Who
watches changes nothing: images that no detector needs have noise of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.camera import CameraModel, cameras_of
from swarmbed_core.detector import Detector
from swarmbed_core.device import CornerReading, ImageReading
from swarmbed_core.health import Health
from swarmbed_core.imaging import Imaging, LensSpread

from swarmbed_sim.fiducials import Cameras
from swarmbed_sim.parts import CLEARANCE, LENGTH, WIDTH, Beat, Late
from swarmbed_sim.render import Renderer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numpy.typing import NDArray
    from swarmbed_core.camera import CameraCalibration
    from swarmbed_core.device import Clock
    from swarmbed_core.scene import Scene
    from swarmbed_core.spec import Camera, RobotSpec

    from swarmbed_sim.parts import Furniture, Life
    from swarmbed_sim.physics import Physics
    from swarmbed_sim.stage import Stage

IMAGING = "dots"
"""The file of config/imaging by which pictures are taken."""
MOST_PENDING = 10
"""Images of a camera that are kept for who does not read."""
ABOVE = 0.15
"""Metres beside a tray from which the upward camera looks whether it is below it."""


class Studio:
    """What renders a scene, and the lenses that its cameras truly have; one for all rates.

    Attributes:
        health: of the detectors.
    """

    def __init__(
        self, scene: Scene, seed: np.random.SeedSequence, stage_of: Callable[[Scene], Stage], *, noise: bool
    ) -> None:
        """Begin.

        Args:
            scene: what is there.
            seed: of all noise.
            stage_of: makes what draws a scene.
            noise: whether images have any.

        Raises:
            SimError: this machine cannot render.
        """
        imaging, exposure = Imaging.load(IMAGING), scene.scenario.exposure
        changes: dict[str, Any] = {} if noise else {"noise": 0.0, "calibration": LensSpread()}
        if exposure is not None:
            changes["exposure"] = exposure
        imaging = imaging.model_copy(update=changes)
        self.imaging = imaging
        self._seed = seed
        self._stage_of = stage_of
        self._stage = stage_of(scene)
        self.renderer = Renderer(self._stage, imaging, seed)
        self._next: Scene | None = None
        self.health = Health()
        self._now = -1.0

    def show(self, scene: Scene) -> None:
        """Show another scene from the next image on: robots or boxes came or went."""
        self._next = scene
        self._now = -1.0

    def grind(self, spec: RobotSpec, rng: np.random.Generator) -> dict[str, CameraCalibration]:
        """Return the true intrinsics of a robot's cameras."""
        return {camera.name: self.imaging.lenses.draw(camera, rng) for camera in spec.cameras}

    def calibrate(
        self, lenses: dict[str, CameraCalibration], rng: np.random.Generator
    ) -> dict[str, CameraCalibration]:
        """Return what a calibration has found of lenses."""
        return {name: self.imaging.calibration.calibrated(lens, rng) for name, lens in lenses.items()}

    def place(self, now: float, physics: Physics) -> None:
        """Put everything where it is now."""
        if now != self._now:
            self._now = now
            if self._next is not None:
                self.renderer.close()
                self._stage = self._stage_of(self._next)
                self.renderer = Renderer(self._stage, self.imaging, self._seed)
                self._next = None
            self._stage.place(physics)

    def close(self) -> None:
        """Give everything back."""
        self.renderer.close()


class Images:
    """The images of one robot's cameras: an `ImagesPart`.

    Attributes:
        latency: of the images, mean and sigma.
        wanted: cameras that somebody watches.
        rng: of images that only those who watch need.
    """

    def __init__(
        self,
        world: Clock,
        robot: Life,
        latency: tuple[float, float],
        rng: np.random.Generator,
        prepare: Callable[[], None],
    ) -> None:
        """Begin.

        Args:
            world: for its clock.
            robot: whose cameras they are.
            latency: mean and sigma.
            rng: of images that no detector needs.
            prepare: makes sure that images of the robot are rendered at all; raises if this machine cannot.
        """
        self.latency = latency
        self.wanted: frozenset[str] = frozenset()
        self.rng = rng
        self.prepare = prepare
        self._clock = world
        self._robot = robot
        self._watchers: list[Watcher] = []

    def watcher(self) -> Watcher:
        """Return one more who looks at images, of no camera yet."""
        watcher = Watcher(self._clock, self._robot, self)
        self._watchers.append(watcher)
        return watcher

    def deliver(self, ready: float, reading: ImageReading) -> None:
        """Hand an image out, from a time on, to all who watch its camera."""
        for watcher in self._watchers:
            if reading.camera in watcher.wanted:
                watcher.deliver(ready, reading)

    def update(self) -> None:
        """Take notice of what watchers want."""
        self.wanted = frozenset().union(*(watcher.wanted for watcher in self._watchers))

    def drop(self, watcher: Watcher) -> None:
        """Hand nothing to a watcher from now on."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)
        self.update()


class Watcher(Late[ImageReading]):
    """One who looks at a robot's images: an `ImageWatcher`.

    Attributes:
        wanted: the cameras that it watches.
    """

    def __init__(self, world: Clock, robot: Life, images: Images) -> None:
        """Look at `images`, at no camera yet."""
        super().__init__(world, robot, images.latency)
        self.wanted: frozenset[str] = frozenset()
        self._images = images

    def watch(self, cameras: Collection[str]) -> None:
        """Say of which cameras this one wants images from now on.

        Raises:
            SimError: this machine cannot render.
        """
        if cameras:
            self._images.prepare()
        self.wanted = frozenset(cameras)
        self._pending = [item for item in self._pending if item[2].camera in self.wanted]
        self._images.update()

    def deliver(self, ready: float, reading: ImageReading) -> None:
        """Hand an image out from a time on; who does not read loses the oldest."""
        super().deliver(ready, reading)
        del self._pending[: -MOST_PENDING * len(self.wanted)]

    def close(self) -> None:
        """Look no more."""
        self.forget()
        self.wanted = frozenset()
        self._images.drop(self)


@dataclass(slots=True, eq=False)
class _Eye:
    """One camera of one robot."""

    life: Life
    camera: Camera
    model: CameraModel
    images: Images
    looks: _Looks | None


@dataclass(slots=True, eq=False)
class _Looks:
    """How markers are looked for in the images of one camera."""

    part: Late[CornerReading]
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
        images: Images,
        lenses: dict[str, CameraCalibration],
        part: Late[CornerReading] | None = None,
        rng: np.random.Generator | None = None,
        *,
        localised: bool = False,
    ) -> None:
        """Add those cameras of a robot that take pictures at this rate.

        Args:
            robot: whose they are.
            spec: its kind.
            images: who watches, and gets what.
            lenses: of cameras that are not ideal.
            part: gets the markers; without it none are looked for.
            rng: of how late they come.
            localised: whether the arena's markers are looked for.
        """
        models = cameras_of(spec, lenses)
        for camera in spec.cameras:
            if camera.rate == self.beat.rate:
                looks = None
                if part is not None and rng is not None:
                    name = f"{robot.name}/{camera.name}"
                    detector = Detector(camera.width, camera.height, self._studio.health, name)
                    looks = _Looks(part, detector, rng, localised)
                self._eyes.append(_Eye(robot, camera, models[camera.name], images, looks))

    def remove(self, row: int) -> None:
        """Take out a robot's cameras, if it has any."""
        self._eyes = [eye for eye in self._eyes if eye.life.row not in {row, -1}]

    def expose(self, now: float, physics: Physics, furniture: Furniture) -> None:
        """Let cameras take the pictures that somebody needs; what is in them is read when it has arrived."""
        studio = self._studio
        for eye in self._eyes:
            life, camera, looks = eye.life, eye.camera, eye.looks
            if not life.on:
                continue
            if looks is not None and camera.on_lifter and not _below_a_tray(life.row, physics, furniture):
                looks = None
            watched = camera.name in eye.images.wanted
            if looks is None and not watched:
                continue
            studio.place(now, physics)
            model = eye.model
            if camera.on_lifter:
                model = model.at_lifter_height(physics.heights.item(life.row))
            rng = None if looks else eye.images.rng
            image = studio.renderer.draw(model, physics.poses[life.row], physics.twists[life.row], rng)
            if watched:
                late = self._late(eye.images.latency, eye.images.rng)
                eye.images.deliver(now + late, ImageReading(now, camera.name, image))
            if looks is not None:
                self._look(now, camera, looks, image)

    def _look(self, now: float, camera: Camera, looks: _Looks, image: NDArray[np.uint8]) -> None:
        """Look for markers in an image."""
        found = looks.detector.detect(image)
        # The map under trays is the upward camera's, all else the others'.
        there = np.isin(found.ids, self._under)
        if not camera.on_lifter:
            there = ~there
        wanted = there
        if not (camera.on_lifter or looks.localised):
            wanted = there & ~np.isin(found.ids, self._walls)
        reading, ready = CornerReading(now, camera.name, found.ids[wanted], found.corners[wanted]), None
        if len(reading.ids):
            ready = now + self._late(looks.part.latency, looks.rng)
            looks.part.deliver(ready, reading)
        if isinstance(looks.part, Cameras) and looks.part.watched and there.any():
            everything = CornerReading(now, camera.name, found.ids[there], found.corners[there])
            looks.part.show(everything, ready, noisy=self._noisy)

    def _late(self, latency: tuple[float, float], rng: np.random.Generator) -> float:
        """Return how late an image is."""
        mean, sigma = latency
        return max(0.0, mean + (sigma * float(rng.standard_normal()) if self._noisy else 0.0))


def _below_a_tray(row: int, physics: Physics, furniture: Furniture) -> bool:
    """Return whether a robot is under a carrier or near it: else its upward camera sees nothing."""
    x, y, _ = physics.poses[row, :3].tolist()
    for pose, size in zip(physics.carrier_poses, furniture.carriers, strict=True):
        reach = ABOVE + 0.5 * float(np.hypot(size[LENGTH], size[WIDTH]))
        if size[CLEARANCE] > 0 and (pose[0] - x) ** 2 + (pose[1] - y) ** 2 < reach**2:
            return True
    return False
