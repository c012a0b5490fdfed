"""Robots' cameras with rendered images, for marker detectors and for viewers.

With `vision: pixels` this replaces `fiducials.Eyes`, which projects corners: cameras, rates, latencies and
readings are the same. With `vision: corners` only images that a viewer wants are rendered. Viewing never
alters a run: images that no detector needs have separate noise.
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

    from swarmbed_sim.parts import Inventory, Life
    from swarmbed_sim.physics import Physics
    from swarmbed_sim.stage import Stage

IMAGING = "dots"
"""Name of the file in config/imaging that describes the cameras' imaging."""
MOST_PENDING = 10
"""Largest number of unread images kept per watched camera."""
ABOVE = 0.15
"""Upward cameras farther than this from a tray's bounding circle, in metres, are not rendered."""


class Studio:
    """The renderer of a scene and the true lenses of its cameras, shared by all rates.

    Attributes:
        health: of the detectors.
    """

    def __init__(
        self, scene: Scene, seed: np.random.SeedSequence, stage_of: Callable[[Scene], Stage], *, noise: bool
    ) -> None:
        """Create the renderer.

        Args:
            scene: to render.
            seed: of all noise.
            stage_of: creates the `Stage` of a scene.
            noise: whether images have noise and calibrations have errors.

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
        """Use another scene from the next image on, after robots or boxes were added or removed."""
        self._next = scene
        self._now = -1.0

    def grind(self, spec: RobotSpec, rng: np.random.Generator) -> dict[str, CameraCalibration]:
        """Return the true intrinsics of a robot's cameras."""
        return {camera.name: self.imaging.lenses.draw(camera, rng) for camera in spec.cameras}

    def calibrate(
        self, lenses: dict[str, CameraCalibration], rng: np.random.Generator
    ) -> dict[str, CameraCalibration]:
        """Return the intrinsics that a calibration of these lenses estimates."""
        return {name: self.imaging.calibration.calibrated(lens, rng) for name, lens in lenses.items()}

    def place(self, now: float, physics: Physics) -> None:
        """Move everything to its pose at time `now`, unless that was done."""
        if now != self._now:
            self._now = now
            if self._next is not None:
                self.renderer.close()
                self._stage = self._stage_of(self._next)
                self.renderer = Renderer(self._stage, self.imaging, self._seed)
                self._next = None
            self._stage.place(physics)

    def close(self) -> None:
        """Release the renderer."""
        self.renderer.close()


class Images:
    """The images of one robot's cameras: an `ImagesPart`.

    Attributes:
        latency: of the images in seconds, mean and sigma.
        wanted: cameras that have a viewer.
        rng: noise of images that only viewers need.
    """

    def __init__(
        self,
        world: Clock,
        robot: Life,
        latency: tuple[float, float],
        rng: np.random.Generator,
        prepare: Callable[[], None],
    ) -> None:
        """Start without viewers.

        Args:
            world: provides the clock.
            robot: that carries the cameras.
            latency: in seconds, mean and sigma.
            rng: noise of images that no detector needs.
            prepare: sets up rendering for the robot; raises if this machine cannot render.
        """
        self.latency = latency
        self.wanted: frozenset[str] = frozenset()
        self.rng = rng
        self.prepare = prepare
        self._clock = world
        self._robot = robot
        self._watchers: list[Watcher] = []

    def watcher(self) -> Watcher:
        """Return a new viewer, which watches no camera yet."""
        watcher = Watcher(self._clock, self._robot, self)
        self._watchers.append(watcher)
        return watcher

    def deliver(self, ready: float, reading: ImageReading) -> None:
        """Queue an image, for the time `ready`, for all viewers of its camera."""
        for watcher in self._watchers:
            if reading.camera in watcher.wanted:
                watcher.deliver(ready, reading)

    def update(self) -> None:
        """Update `wanted` from the viewers."""
        self.wanted = frozenset().union(*(watcher.wanted for watcher in self._watchers))

    def drop(self, watcher: Watcher) -> None:
        """Remove a viewer."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)
        self.update()


class Watcher(Late[ImageReading]):
    """A viewer of a robot's images: an `ImageWatcher`.

    Attributes:
        wanted: the cameras that it watches.
    """

    def __init__(self, world: Clock, robot: Life, images: Images) -> None:
        """Start without cameras."""
        super().__init__(world, robot, images.latency)
        self.wanted: frozenset[str] = frozenset()
        self._images = images

    def watch(self, cameras: Collection[str]) -> None:
        """Set the cameras to watch from now on; pending images of others are discarded.

        Raises:
            SimError: this machine cannot render.
        """
        if cameras:
            self._images.prepare()
        self.wanted = frozenset(cameras)
        self._pending = [item for item in self._pending if item[2].camera in self.wanted]
        self._images.update()

    def deliver(self, ready: float, reading: ImageReading) -> None:
        """Queue an image for the time `ready`; when the queue is full, the oldest is dropped."""
        super().deliver(ready, reading)
        del self._pending[: -MOST_PENDING * len(self.wanted)]

    def close(self) -> None:
        """Stop watching."""
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
    """The marker detection of one camera."""

    part: Late[CornerReading]
    detector: Detector
    rng: np.random.Generator
    localised: bool


class PixelEyes:
    """All rendered cameras of one frame rate."""

    def __init__(self, rate: float, scene: Scene, studio: Studio, *, noise: bool) -> None:
        """Start without cameras."""
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
        """Add the robot's cameras that have this rate.

        Args:
            robot: that carries the cameras.
            spec: of the robot.
            images: its viewers.
            lenses: true intrinsics of cameras with distortion.
            part: receives the markers; without it none are detected.
            rng: of the latency.
            localised: whether the robot gets the arena's markers.
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
        """Remove a robot's cameras, if it has any."""
        self._eyes = [eye for eye in self._eyes if eye.life.row not in {row, -1}]

    def measure(self, now: float, physics: Physics, inventory: Inventory) -> None:
        """Render the images that a detector or a viewer needs; readers get them after their latency."""
        studio = self._studio
        for eye in self._eyes:
            life, camera, looks = eye.life, eye.camera, eye.looks
            if not life.on:
                continue
            if looks is not None and camera.on_lifter and not _below_a_tray(life.row, physics, inventory):
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
        """Detect the markers in an image."""
        found = looks.detector.detect(image)
        # Cameras on the lifter use only the map under trays, the others everything else.
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
        """Draw an image's latency in seconds."""
        mean, sigma = latency
        return max(0.0, mean + (sigma * float(rng.standard_normal()) if self._noisy else 0.0))


def _below_a_tray(row: int, physics: Physics, inventory: Inventory) -> bool:
    """Return whether a robot is under or near a carrier; elsewhere its upward camera sees nothing."""
    x, y, _ = physics.poses[row, :3].tolist()
    for pose, size in zip(physics.carrier_poses, inventory.carriers, strict=True):
        reach = ABOVE + 0.5 * float(np.hypot(size[LENGTH], size[WIDTH]))
        if size[CLEARANCE] > 0 and (pose[0] - x) ** 2 + (pose[1] - y) ** 2 < reach**2:
            return True
    return False
