"""Vision rows of the benchmark table: images, detection beside OpenCV's own, and tasks done from pixels."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import yaml
from py_trees.composites import Selector, Sequence
from py_trees.decorators import SuccessIsRunning
from swarmbed_behaviours.follow_path import PathFile
from swarmbed_behaviours.toolkit import (
    Do,
    Docking,
    DockingParameters,
    NoticesCarrier,
    TreeController,
    pick_up,
)
from swarmbed_core.arena import Arena
from swarmbed_core.camera import cameras_of
from swarmbed_core.control import Mode
from swarmbed_core.detector import Detector, Pool
from swarmbed_core.geometry import between
from swarmbed_core.health import Health
from swarmbed_core.imaging import Imaging
from swarmbed_core.local import LocalSwarm
from swarmbed_core.markers import MarkerMap
from swarmbed_core.motion import Outcome
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.trajectory import Path, Waypoint
from swarmbed_sim.mujoco_stage import MujocoStage
from swarmbed_sim.mujoco_world import make
from swarmbed_sim.render import Renderer

from swarmbed_experiments.bench.benchmarks import SEED, Row
from swarmbed_experiments.runs.sweep import sweep
from swarmbed_experiments.tools import calibrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import ClassVar

    from numpy.typing import NDArray
    from py_trees.behaviour import Behaviour
    from swarmbed_core.camera import CameraModel
    from swarmbed_core.config import Part
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene
    from swarmbed_sim.stage import Stage

    ByteArray = NDArray[np.uint8]

IMAGING = "dots"
LONGEST = 60.0
"""Timeout of a docking trial in seconds."""
TASK = "intralogistics_cooperative"
FIGURE6_LONGEST = 120.0
"""Timeout in seconds for driving two squares; at 0.3 m/s they take half of it."""
OFF, TURNED = 0.005, math.radians(1.0)
"""Largest offset in metres and yaw error in radians of a robot that lifts a carrier."""
SEEN_FROM = 16.0
"""Shortest side in pixels of a code that the detector is expected to find."""
NEAR = 4.0
"""Largest corner error in pixels of a code that counts as found."""


class Still:
    """Poses of robots and carriers that a stage reads instead of those of a `Physics`."""

    def __init__(self, scene: Scene) -> None:
        self.poses = np.array([robot.pose for robot in scene.robots], dtype=np.float64)
        self.heights = np.array([0.145] * len(scene.robots))
        self.carrier_poses = np.array([carrier.pose for carrier in scene.carriers], dtype=np.float64)
        self.carrier_poses = self.carrier_poses.reshape(-1, 3)
        self.carrier_lifts = np.zeros(len(scene.carriers))


@dataclass
class Shot:
    """One image, and the true pixels of the corners of the wall codes in it, by marker id."""

    image: ByteArray
    corners: dict[int, FloatArray]


def shots(
    seed: int, count: int, stage_of: Callable[[Scene], Stage] = MujocoStage
) -> tuple[list[Shot], float]:
    """Return images from random poses in an arena with carriers, and the median seconds for one image.

    A code that a carrier hides is not among the corners of a shot.
    """
    scene = make_scene(_scenario(seed, loads=4))
    stage = stage_of(scene)
    imaging = Imaging.load(IMAGING)
    rng = np.random.default_rng(seed)
    still = Still(scene)
    spec = scene.robots[0].spec
    lenses = {camera.name: imaging.lenses.draw(camera, rng) for camera in spec.cameras}
    cameras = [model for name, model in cameras_of(spec, lenses).items() if name != "cam4"]
    walls = scene.arena.markers()
    places = {} if walls is None else dict(zip(walls.ids.tolist(), walls.corners(), strict=True))
    drawn = Renderer(stage, imaging, np.random.SeedSequence(seed))
    made, spent = [], []
    try:
        for k in range(count):
            still.poses[0] = [*rng.uniform(-1.9, 1.9, 2), rng.uniform(-math.pi, math.pi)]
            camera = cameras[k % len(cameras)]
            started = time.perf_counter()
            stage.place(still)
            image = drawn.draw(camera, still.poses[0])
            spent.append(time.perf_counter() - started)
            made.append(Shot(image, _visible(camera, still, places, scene)))
    finally:
        drawn.close()
    return made, float(np.median(spent[2:]))


def _scenario(seed: int, loads: int = 0, **changes: Any) -> Scenario:
    data = {
        "version": 1,
        "title": "eyes",
        "seed": seed,
        "time_limit": 200,
        "vision": "pixels",
        "robots": [{"localised": True, "place": {"poses": [[-0.8, -0.8, 0.0]]}}],
        "controller": {"name": "follow_path"},
    }
    if loads:
        area = {"x_min": -1.8, "x_max": 1.8, "y_min": -1.8, "y_max": 1.8}
        data["carriers"] = [{"count": loads, "place": {"area": area}}]
    return Scenario.model_validate(data | changes)


def _visible(
    camera: CameraModel, still: Still, places: dict[int, FloatArray], scene: Scene
) -> dict[int, FloatArray]:
    """Return the pixels of the wall codes that are fully in the image, large enough and not hidden."""
    x, y, yaw = still.poses[0].tolist()
    c, s = math.cos(yaw), math.sin(yaw)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    eye = np.array([x, y, 0.0]) + turn @ camera.position
    found = {}
    for number, corners in places.items():
        pixels, inside = camera.project((corners - [x, y, 0.0]) @ turn)
        sides = np.linalg.norm(pixels - np.roll(pixels, -1, axis=0), axis=1)
        (ax, ay), (bx, by) = pixels[1] - pixels[0], pixels[2] - pixels[1]
        # Seen from the front, the corners run clockwise on the screen.
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
    """Detect codes in rendered images, with our detector and with OpenCV's."""
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
        ours, theirs = Score(), Score()
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


class Score:
    """Counts, corner errors and times of one detector."""

    def __init__(self) -> None:
        self.spent: list[float] = []
        self.errors: list[FloatArray] = []
        self.wanted = self.found = self.wrong = 0

    def take(self, shot: Shot, seconds: float, ids: NDArray[np.int64], corners: NDArray[np.float64]) -> None:
        """Score the detections in one image.

        Args:
            shot: the image with its true corners.
            seconds: time that the detection took.
            ids: detected ids; those that are not in the shot are ignored.
            corners: pixels of the detected corners, four per id.
        """
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
        """Return the median time per image in milliseconds."""
        return 1e3 * float(np.median(self.spent))

    @property
    def share(self) -> float:
        """Return the share of the true codes that were found."""
        return self.found / max(self.wanted, 1)

    @property
    def rms(self) -> float:
        """Return the RMS corner error in pixels, NaN if no code was found."""
        return float(np.sqrt(np.mean(np.square(self.errors)))) if self.errors else math.nan


def carriers(quick: bool) -> Iterator[Row]:
    """Detect a carrier's codes from 1 m in front of one of its sides, at any yaw of the robot."""
    share, tries = carrier_share(SEED, 20 if quick else 600)
    note = f"{tries} poses 1 m from a side, up to 45 deg beside its normal, any yaw"
    # Too few tries to judge.
    least = None if quick else 95
    yield Row("eyes: carrier found from 1 m", 100 * share, "%", at_least=least, note=note)


def carrier_share(seed: int, tries: int) -> tuple[float, int]:
    """Return the share of random poses from which a carrier is detected, and their number."""
    scene = make_scene(_scenario(seed, loads=1))
    stage, still, imaging = MujocoStage(scene), Still(scene), Imaging.load(IMAGING)
    spec, [carrier] = scene.robots[0].spec, scene.carriers
    rng = np.random.default_rng(seed)
    drawn = Renderer(stage, imaging, np.random.SeedSequence(seed))
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
            stage.place(still)
            images = (drawn.draw(camera, still.poses[0]) for camera in cameras)
            found += any(carrier.marker in detector.detect(image).ids for image in images)
    finally:
        drawn.close()
    return found / tries, tries


def docking(quick: bool) -> Iterator[Row]:
    """Dock robots under a carrier by their cameras; measure the offset when they lift it."""
    tries = 2 if quick else 100
    found = _each(_lifted, [(seed,) for seed in range(SEED, SEED + tries)])
    there = [off for off in found if off is not None]
    good = sum(off <= OFF and turned <= TURNED for off, turned in there)
    note = f"within 5 mm and 1 deg; {tries} places and directions of robot and carrier, {len(there)} lifted"
    # Too few tries to judge.
    yield Row(
        "eyes: centred when lifting", 100 * good / tries, "%", at_least=None if quick else 99, note=note
    )
    offs, turns = np.array(there).reshape(-1, 2).T
    yield Row("eyes: off the centre when lifting, worst", 1e3 * float(offs.max(initial=0)), "mm")
    yield Row("eyes: askew when lifting, worst", math.degrees(float(turns.max(initial=0))), "deg")


class _PickUp(TreeController):
    """Turns until it sees a carrier, and picks it up."""

    Parameters: ClassVar[type[Part]] = DockingParameters
    parameters: DockingParameters

    def make_tree(self) -> Behaviour:
        """Return the tree."""
        docking = Docking(self.board, self.parameters, lambda _board, _place: True)
        turn = SuccessIsRunning("turn", Do("turn", self.board, lambda board: board.drive((0.0, 0.0, 0.5))))
        look = Selector("look", memory=False, children=[NoticesCarrier(docking), turn])
        return Sequence("pick up", memory=True, children=[look, pick_up(docking)])


def _lifted(seed: int) -> tuple[float, float] | None:
    """Return the offset in metres and the yaw error in radians of a robot that lifts; None on timeout."""
    rng = np.random.default_rng(seed)
    x, y, yaw = *rng.uniform(-0.3, 0.3, 2), rng.uniform(-math.pi, math.pi)
    way, far = rng.uniform(-math.pi, math.pi), rng.uniform(0.5, 0.9)
    robot = [x + far * math.cos(way), y + far * math.sin(way), rng.uniform(-math.pi, math.pi)]
    robots = [{"place": {"poses": [[float(value) for value in robot]]}}]
    carriers = [{"place": {"poses": [[float(x), float(y), float(yaw)]]}}]
    scene = make_scene(_scenario(seed, robots=robots, carriers=carriers))
    world = make(scene, np.random.SeedSequence(seed))
    try:
        swarm = LocalSwarm.of_scene(scene, world)
        program = _PickUp(swarm.robots[0], DockingParameters(), rng)
        lifter = swarm.robots[0].onboard.lifter
        while lifter is not None and world.time < LONGEST:
            swarm.run(0.1)
            program.tick()
            if lifter.set_point > lifter.lifter.lowered + 1e-6:
                off = between(world.carriers().poses[0], world.truth()[0, :3])
                askew = math.remainder(float(off[2]), math.pi / 2)
                return math.hypot(float(off[0]), float(off[1])), abs(askew)
        return None
    finally:
        world.close()


def figure6(quick: bool) -> Iterator[Row]:
    """Drive the square of Figure 6 twice with rendered images."""
    for speed in (0.5,) if quick else (0.3, 0.5):
        seeds, limit = (1, 4.0) if quick else (10, FIGURE6_LONGEST)
        driven = _each(_square, [(seed, speed, limit) for seed in range(SEED, SEED + seeds)])
        drives = [drive for drive in driven if drive is not None]
        errors = [drive[:, 3:] for drive in drives]
        # A square that was not completed counts as an infinite error.
        lost = math.inf if len(drives) < seeds else 0.0
        worst = max((float(np.abs(each).max()) for each in errors), default=0.0) + lost
        sigma = max((float(each.std(axis=0).max()) for each in errors), default=0.0) + lost
        note = f"{len(errors)} seeds, images as late as Table II; the paper: 62 mm"
        point = {"speed": speed, "drives": drives}
        name = f"eyes: Figure 6 at {speed:g} m/s"
        yield Row(f"{name}, worst", 1e3 * worst, "mm", at_most=31, note=note, point=point)
        yield Row(f"{name}, sigma", 1e3 * sigma, "mm", at_most=8, note="the paper: 22.3 and 16.1 mm")


def localisation(quick: bool) -> Iterator[Row]:
    """Localise a robot by some of the arena's markers, and again after it was moved by hand."""
    with tempfile.TemporaryDirectory() as folder:
        for count in (12,) if quick else (1, 2, 3, 6, 12):
            arena = _arena_of(count, FilePath(folder))
            seeds, seconds = (1, 3.0) if quick else (4, 30.0)
            runs = _each(_circle, [(seed, arena, seconds) for seed in range(SEED, SEED + seeds)])
            rows = np.concatenate([run for run in runs if len(run)] or [np.full((1, 5), math.nan)])
            rms = 1e3 * float(np.sqrt(np.mean(rows[:, 1:3] ** 2, axis=0)).max())
            begins = [float(run[0, 0]) if len(run) else math.inf for run in runs]
            known = 100 * sum(map(math.isfinite, begins)) / seeds
            name = f"eyes: place by {count} marker{'s' if count > 1 else ''}"
            note = f"{seeds} circles of {seconds:g} s, known after {max(begins):.1f} s at the latest"
            yield Row(f"{name}, known", known, "% of circles", at_least=100, note=note)
            yield Row(f"{name}, RMS of an axis", rms, "mm")
            # Below 1 the filter is too cautious, which does no harm; above 1 it is overconfident.
            nees = float(rows[:, 4].mean()) / 3
            # One short circle is too little to judge.
            most = None if quick else 1.3
            yield Row(f"{name}, mean NEES over its expectation", nees, "", at_most=most)
    tries = 1 if quick else 20
    spent = _each(_kidnapped, [(seed,) for seed in range(SEED, SEED + tries)])
    note = f"{tries} places; from there on within 50 mm and 3 deg"
    yield Row("eyes: kidnapped robot knows its place again, worst", max(spent), "s", at_most=2, note=note)


def _arena_of(count: int, folder: FilePath) -> str:
    """Write a copy of the arena with `count` of its 12 markers, spread over the walls; return its file."""
    arena, markers = Arena.load("dots_arena"), MarkerMap.load("dots_arena")
    kept = [markers.markers[(1 + round(k * 12 / count)) % 12] for k in range(count)]
    walls, file = folder / f"walls{count}.yaml", folder / f"arena{count}.yaml"
    for model, changes, path in (
        (markers, {"markers": [marker.model_dump() for marker in kept]}, walls),
        (arena, {"marker_map": str(walls)}, file),
    ):
        data = model.model_dump(mode="json", exclude_none=True) | changes
        path.write_text(yaml.safe_dump(json.loads(json.dumps(data))), encoding="utf-8")
    return str(file)


def _circle(seed: int, arena: str, seconds: float) -> FloatArray:
    """Drive in a circle; return rows of time, errors of x, y and yaw, and NEES, while localised."""
    rng = np.random.default_rng(seed)
    pose = [*rng.uniform(-0.5, 0.5, 2).tolist(), float(rng.uniform(-math.pi, math.pi))]
    robots = [{"localised": True, "place": {"poses": [pose]}}]
    scene = make_scene(_scenario(seed, robots=robots, arena=arena))
    world = make(scene, np.random.SeedSequence(seed))
    try:
        swarm = LocalSwarm.of_scene(scene, world)
        robot = swarm.robots[0]
        rows = []
        while world.time < seconds:
            robot.act(Command(velocity_body=(0.3, 0.0, 0.4)))
            swarm.run(0.1)
            believed = robot.onboard.filter
            if believed.localised:
                off = believed.pose - world.truth()[0, :3]
                off[2] = math.remainder(float(off[2]), 2 * math.pi)
                nees = float(off @ np.linalg.solve(believed.covariance[:3, :3], off))
                rows.append([world.time, *off.tolist(), nees])
        return np.array(rows).reshape(-1, 5)
    finally:
        world.close()


def _kidnapped(seed: int) -> float:
    """Teleport a localised robot; return the seconds until its pose is right again, 5 at most."""
    rng = np.random.default_rng(seed)
    poses = [[*rng.uniform(-1.9, 1.9, 2).tolist(), float(rng.uniform(-math.pi, math.pi))] for _ in range(2)]
    robots = [{"localised": True, "place": {"poses": poses[:1]}}]
    scene = make_scene(_scenario(seed, robots=robots))
    world = make(scene, np.random.SeedSequence(seed))
    try:
        swarm = LocalSwarm.of_scene(scene, world)
        swarm.run(2.0)
        world.teleport(world.names[0], tuple(poses[1]))
        began = known = world.time
        while world.time < began + 5.0:
            swarm.run(0.02)
            off = swarm.robots[0].onboard.filter.pose - world.truth()[0, :3]
            if np.hypot(*off[:2]) > 0.05 or abs(math.remainder(float(off[2]), 2 * math.pi)) > math.radians(3):
                known = world.time
        return known - began
    finally:
        world.close()


def pixels(quick: bool) -> Iterator[Row]:
    """Run the whole task with rendered images, and with simulated corners."""
    times: dict[str, list[float]] = {}
    few = ["time_limit=0.5", "robots.0.count=1", "carriers.0.count=1"] if quick else []
    for vision in ("pixels",) if quick else ("corners", "pixels"):
        with tempfile.TemporaryDirectory() as out:
            sets = [f"vision={vision}", *few]
            seeds = 1 if quick else 20
            rows = sweep(TASK, seeds=seeds, first_seed=SEED, out=FilePath(out), sets=sets).rows
        times[vision] = [float(row["completion_seconds"]) for row in rows if row["verdict"] == "accepted"]
    factor = float(np.median([row["real_time_factor"] for row in rows]))
    yield Row("eyes: task with pixels, speed", factor, "x real time", note="all cores at work")
    if quick:
        # No run completes the task so soon.
        return
    done, touched = len(times["pixels"]), sum(int(row["collisions"]) for row in rows)
    note = f"{done} of {seeds} seeds; {touched} contacts of two robots"
    yield Row("eyes: task with pixels, 5 of 5 carriers", 100 * done / seeds, "%", at_least=100, note=note)
    if not (times["pixels"] and times["corners"]):
        return
    means = {vision: float(np.mean(some)) for vision, some in times.items()}
    note = f"{means['pixels']:.1f} s (worst {max(times['pixels']):.0f} s) beside {means['corners']:.1f} s"
    ratio = means["pixels"] / means["corners"]
    yield Row("eyes: task with pixels over corners", ratio, "", at_least=0.8, at_most=1.2, note=note)


def calibration(quick: bool) -> Iterator[Row]:
    """Calibrate robots' cameras in simulation."""
    seeds = range(SEED, SEED + (1 if quick else 5))
    done = _each(calibrate.run, [("dots", "dots_wall", seed) for seed in seeds])
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


def _square(seed: int, speed: float, limit: float) -> FloatArray | None:
    """Drive the square for `limit` seconds at most; return rows of time, true x and y, and their errors.

    There is a row every 20 ms. Returns None if a drive with `FIGURE6_LONGEST` or more does not complete the
    path; a shorter one need not.
    """
    scene = make_scene(_scenario(seed))
    world = make(scene, np.random.SeedSequence(seed))
    try:
        swarm = LocalSwarm.of_scene(scene, world)
        onboard = swarm.robots[0].onboard
        swarm.run(1.5)
        file = PathFile.load("square")
        points = tuple(Waypoint(point.pose, point.velocity) for point in file.waypoints)
        onboard.follow(Path(points, "map", max_speed=speed))
        rows = []
        while onboard.motion.mode is Mode.PATH and world.time < limit:
            swarm.run(0.02)
            x, y = world.truth()[0, :2].tolist()
            believed = onboard.filter.pose
            rows.append([world.time, x, y, believed[0] - x, believed[1] - y])
        whole = onboard.motion.outcome is Outcome.SUCCEEDED or limit < FIGURE6_LONGEST
        return np.array(rows) if whole and rows else None
    finally:
        world.close()


def _each(work: Callable[..., Any], jobs: list[tuple[Any, ...]]) -> list[Any]:
    """Call a function with each tuple of arguments, on all cores; return the results in order."""
    with multiprocessing.get_context("spawn").Pool(min(os.cpu_count() or 1, len(jobs))) as pool:
        return pool.starmap(work, jobs, chunksize=1)
