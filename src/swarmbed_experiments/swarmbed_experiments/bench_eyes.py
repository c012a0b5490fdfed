"""The eyes' rows of the benchmark table: rendering, detection beside OpenCV's own, Figure 6 with pixels."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np
from swarmbed_behaviours.follow_path import PathFile
from swarmbed_core.camera import cameras_of
from swarmbed_core.control import Mode
from swarmbed_core.detector import Detector, Pool
from swarmbed_core.health import Health
from swarmbed_core.imaging import Imaging
from swarmbed_core.local import LocalSwarm
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.trajectory import Path, Waypoint
from swarmbed_sim.looks import Looks
from swarmbed_sim.mujoco_world import make
from swarmbed_sim.render import Renderer

from swarmbed_experiments import calibrate
from swarmbed_experiments.bench import SEED, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from swarmbed_core.camera import CameraModel
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene

    ByteArray = NDArray[np.uint8]

IMAGING = "dots"
CARRIER = "dots_carrier"
SEEN_FROM = 16.0
"""Pixels of the shortest side of an image of a code from which on it counts whether it is found."""
NEAR = 4.0
"""Pixels within which a corner has to be to be the one."""


class Still:
    """Where things stand: what a physics says of them."""

    def __init__(self, scene: Scene) -> None:
        self.poses = np.array([robot.pose for robot in scene.robots], dtype=np.float64)
        self.heights = np.array([0.145] * len(scene.robots))
        self.carrier_poses = np.array([carrier.pose for carrier in scene.carriers], dtype=np.float64)
        self.carrier_poses = self.carrier_poses.reshape(-1, 3)
        self.carrier_lifts = np.zeros(len(scene.carriers))


@dataclass
class Shot:
    """One image, and where the corners of the codes on the walls are in it."""

    image: ByteArray
    corners: dict[int, FloatArray]


def shots(seed: int, count: int) -> tuple[list[Shot], float]:
    """Return images from random places of an arena without robots, and the median seconds that one took.

    Carriers stand about; a code that one hides does not count as one that is to be found.
    """
    scene = make_scene(_scenario(seed, carriers=4))
    looks = Looks(scene)
    imaging = Imaging.load(IMAGING)
    rng = np.random.default_rng(seed)
    still = Still(scene)
    spec = scene.robots[0].spec
    lenses = {camera.name: imaging.lenses.draw(camera, rng) for camera in spec.cameras}
    cameras = [model for name, model in cameras_of(spec, lenses).items() if name != "cam4"]
    walls = scene.arena.markers()
    places = {} if walls is None else dict(zip(walls.ids.tolist(), walls.corners(), strict=True))
    drawn = Renderer(looks, imaging, np.random.SeedSequence(seed))
    made, spent = [], []
    try:
        for k in range(count):
            still.poses[0] = [*rng.uniform(-1.9, 1.9, 2), rng.uniform(-math.pi, math.pi)]
            camera = cameras[k % len(cameras)]
            started = time.perf_counter()
            looks.place(still)
            drawn.update()
            image = drawn.draw(camera, still.poses[0])
            spent.append(time.perf_counter() - started)
            made.append(Shot(image, _visible(camera, still, places, scene)))
    finally:
        drawn.close()
    return made, float(np.median(spent[2:]))


def _scenario(seed: int, carriers: int = 0, markers: str = CARRIER) -> Scenario:
    data = {
        "version": 1,
        "title": "eyes",
        "seed": seed,
        "time_limit": 200,
        "vision": "pixels",
        "carrier_markers": markers,
        "robots": [{"localised": True, "place": {"poses": [[-0.8, -0.8, 0.0]]}}],
        "controller": {"name": "follow_path"},
    }
    if carriers:
        area = {"x_min": -1.8, "x_max": 1.8, "y_min": -1.8, "y_max": 1.8}
        data["carriers"] = [{"count": carriers, "place": {"area": area}}]
    return Scenario.model_validate(data)


def _visible(
    camera: CameraModel, still: Still, places: dict[int, FloatArray], scene: Scene
) -> dict[int, FloatArray]:
    """Return the codes on walls whose images are whole, large enough and not hidden by a carrier."""
    x, y, yaw = still.poses[0].tolist()
    c, s = math.cos(yaw), math.sin(yaw)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    eye = np.array([x, y, 0.0]) + turn @ camera.position
    found = {}
    for number, corners in places.items():
        pixels, inside = camera.project((corners - [x, y, 0.0]) @ turn)
        sides = np.linalg.norm(pixels - np.roll(pixels, -1, axis=0), axis=1)
        (ax, ay), (bx, by) = pixels[1] - pixels[0], pixels[2] - pixels[1]
        # Clockwise on the screen from its front.
        front = bool(inside.all()) and ax * by - ay * bx > 0
        way = corners.mean(axis=0)[:2] - eye[:2]
        hidden = False
        for pose, item in zip(still.carrier_poses, scene.carriers, strict=True):
            share = np.clip((pose[:2] - eye[:2]) @ way / (way @ way), 0.0, 1.0)
            off = float(np.hypot(*(eye[:2] + share * way - pose[:2])))
            hidden |= off < item.carrier.length * 0.75 + 0.16
        if front and not hidden and sides.min() >= SEEN_FROM:
            found[number] = pixels
    return found


def detection(quick: bool) -> Iterator[Row]:
    """Look for codes in rendered images, and let OpenCV's own detector look too."""
    taken, seconds = shots(SEED, 30 if quick else 400)
    yield Row(
        "eyes: rendering of an image, median", 1e3 * seconds, "ms", at_most=5, note="640x480, lens, noise"
    )
    height, width = taken[0].image.shape
    detector = Detector(width, height, Health())
    plain = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12))
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        ours, theirs = _Score(), _Score()
        for shot in taken:
            started = time.perf_counter()
            found = detector.detect(shot.image)
            ours.take(shot, time.perf_counter() - started, found.ids, found.corners)
            started = time.perf_counter()
            quads, ids, _ = plain.detectMarkers(shot.image)
            spent = time.perf_counter() - started
            numbers = np.array([] if ids is None else ids, dtype=np.int64).ravel()
            theirs.take(shot, spent, numbers, np.array(quads, dtype=np.float64).reshape(-1, 4, 2))
        many = [(detector, shot.image) for shot in taken] * (2 if quick else 4)
        pool = Pool(2)
        started = time.perf_counter()
        pool.map(many)
        rate = len(many) / (time.perf_counter() - started)
        pool.close()
    finally:
        cv2.setNumThreads(threads)
    for name, score, bound in (("ours", ours, 2.5), ("cv2.aruco", theirs, None)):
        yield Row(
            f"eyes: detection, {name}, median", score.milliseconds, "ms", at_most=bound, note="one core"
        )
        note = f"{score.wanted} codes of {SEEN_FROM:g} px and more"
        yield Row(f"eyes: codes found, {name}", 100 * score.share, "%", note=note)
        yield Row(f"eyes: corner error, {name}, RMS", score.rms, "px", note=f"{score.wrong} wrong")
    yield Row("eyes: images on two cores", rate, "1/s", at_least=500)


class _Score:
    """How well a detector did."""

    def __init__(self) -> None:
        self.spent: list[float] = []
        self.errors: list[FloatArray] = []
        self.wanted = self.found = self.wrong = 0

    def take(self, shot: Shot, seconds: float, ids: NDArray[np.int64], corners: NDArray[np.float64]) -> None:
        """Count what was found in one image."""
        self.spent.append(seconds)
        self.wanted += len(shot.corners)
        for number, quad in zip(ids.tolist(), corners, strict=True):
            true = shot.corners.get(number)
            if true is None:
                continue
            if float(np.abs(quad - true).max()) < NEAR:
                self.found += 1
                self.errors.append(np.hypot(*(quad - true).T))
            else:
                self.wrong += 1

    @property
    def milliseconds(self) -> float:
        """Return the median of an image."""
        return 1e3 * float(np.median(self.spent))

    @property
    def share(self) -> float:
        """Return the share of what was to be found."""
        return self.found / max(self.wanted, 1)

    @property
    def rms(self) -> float:
        """Return the corners' error in pixels."""
        return float(np.sqrt(np.mean(np.square(self.errors)))) if self.errors else math.nan


def carriers(quick: bool) -> Iterator[Row]:
    """Look for the codes of a carrier from 1 m before one of its sides, whichever way the robot faces."""
    share, tries = carrier_share(CARRIER, SEED, 20 if quick else 600)
    note = f"{tries} poses 1 m from a side, up to 45 deg beside its normal, any yaw; {CARRIER}"
    # A few tries decide nothing.
    least = None if quick else 95
    yield Row("eyes: carrier found from 1 m", 100 * share, "%", at_least=least, note=note)


def carrier_share(markers: str, seed: int, tries: int) -> tuple[float, int]:
    """Return the share of random poses from which a carrier's side is found, and how many they were."""
    scene = make_scene(_scenario(seed, carriers=1, markers=markers))
    looks, still, imaging = Looks(scene), Still(scene), Imaging.load(IMAGING)
    spec, [carrier] = scene.robots[0].spec, scene.carriers
    rng = np.random.default_rng(seed)
    drawn = Renderer(looks, imaging, np.random.SeedSequence(seed))
    detector = Detector(spec.cameras[0].width, spec.cameras[0].height, Health())
    found = 0
    try:
        for _ in range(tries):
            lenses = {camera.name: imaging.lenses.draw(camera, rng) for camera in spec.cameras}
            cameras = [model for name, model in cameras_of(spec, lenses).items() if name != "cam4"]
            x, y, yaw = still.carrier_poses[0] = [*rng.uniform(-0.5, 0.5, 2), rng.uniform(-math.pi, math.pi)]
            side = yaw + rng.integers(4) * math.pi / 2
            way = side + rng.uniform(-math.pi / 4, math.pi / 4)
            half = carrier.carrier.length / 2
            place = [x + half * math.cos(side) + math.cos(way), y + half * math.sin(side) + math.sin(way)]
            still.poses[0] = [*place, rng.uniform(-math.pi, math.pi)]
            looks.place(still)
            drawn.update()
            images = (drawn.draw(camera, still.poses[0]) for camera in cameras)
            found += any(carrier.marker in detector.detect(image).ids for image in images)
    finally:
        drawn.close()
    return found / tries, tries


def figure6(quick: bool) -> Iterator[Row]:
    """Drive the square of Figure 6 twice with rendered images."""
    for speed in (0.5,) if quick else (0.3, 0.5):
        seeds, limit = (1, 4.0) if quick else (10, math.inf)
        errors = [_square(seed, speed, limit) for seed in range(SEED, SEED + seeds)]
        worst = max(float(np.abs(each).max()) for each in errors)
        sigma = max(float(each.std(axis=0).max()) for each in errors)
        note = f"{len(errors)} seeds, images as late as Table II; the paper: 62 mm"
        yield Row(f"eyes: Figure 6 at {speed:g} m/s, worst", 1e3 * worst, "mm", at_most=31, note=note)
        yield Row(f"eyes: Figure 6 at {speed:g} m/s, sigma", 1e3 * sigma, "mm", at_most=8)


def calibration(quick: bool) -> Iterator[Row]:
    """Let robots calibrate their cameras in simulation."""
    done = [calibrate.run("dots", "dots_wall", seed) for seed in range(SEED, SEED + (1 if quick else 5))]
    outcomes = [each for one in done for each in one.outcomes]
    failed = sum(isinstance(each.result, str) for each in outcomes)
    focal = max(each.focal_error for each in outcomes)
    centre = max(each.centre_error for each in outcomes)
    seconds = max(one.seconds for one in done)
    note = f"{len(outcomes)} cameras, the worst"
    yield Row("eyes: calibration, cameras that failed", failed, "", at_most=0)
    yield Row("eyes: calibration, error of f", 100 * focal, "%", at_most=1, note=note)
    yield Row("eyes: calibration, error of c", centre, "px", at_most=2, note=note)
    yield Row("eyes: calibration of a robot", seconds, "s", at_most=300, note="of the robot's time")


def _square(seed: int, speed: float, limit: float) -> FloatArray:
    """Return rows of errors along x and y, each 20 ms, of one robot that drives the square for so long."""
    scene = make_scene(_scenario(seed))
    world = make(scene, np.random.SeedSequence(seed))
    try:
        swarm = LocalSwarm.of_scene(scene, world)
        onboard = swarm.robots[0].onboard
        swarm.run(1.5)
        file = PathFile.load("square")
        points = tuple(Waypoint(point.pose, point.velocity) for point in file.waypoints)
        onboard.follow(Path(points, "map", max_speed=speed))
        errors = []
        while onboard.motion.mode is Mode.PATH and world.time < limit:
            swarm.run(0.02)
            believed, true = onboard.filter.pose, world.truth()[0]
            errors.append([believed[0] - true[0], believed[1] - true[1]])
        return np.array(errors)
    finally:
        world.close()
