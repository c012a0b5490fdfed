"""Images: that they show what the cameras' models say, and that robots find their way by them."""

import ctypes.util

import numpy as np
import pytest
from swarmbed_core.camera import cameras_of
from swarmbed_core.detector import Detector
from swarmbed_core.health import Health
from swarmbed_core.imaging import Imaging, LensSpread
from swarmbed_core.markers import MarkerMap
from swarmbed_core.onboard import Onboard
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_sim.errors import SimError
from swarmbed_sim.mujoco_stage import MujocoStage
from swarmbed_sim.mujoco_world import make
from swarmbed_sim.render import Renderer

pytestmark = pytest.mark.skipif(
    ctypes.util.find_library("EGL") is None,
    reason="no EGL here, and scripts/setup may not install it: apt-get install libegl1 libgl1",
)

BLACK = np.zeros((480, 640), np.uint8)
SCENARIO = {
    "version": 1,
    "title": "images",
    "time_limit": 10,
    "seed": 3,
    "robots": [{"place": {"poses": [[0.0, 0.0, 0.3], [-1.5, -1.0, 2.0]]}, "localised": True}],
    "carriers": [{"place": {"poses": [[1.0, 0.6, 0.4], [-1.0, 1.0, 2.0]]}}],
    "controller": {"name": "random_walk"},
}


def case_of(**changes):
    return Scenario.model_validate(SCENARIO | changes)


@pytest.fixture(scope="module")
def scene():
    return make_scene(case_of())


class Bodies:
    """Where things are."""

    def __init__(self, scene):
        self.poses = np.array([robot.pose for robot in scene.robots])
        self.heights = np.full(len(scene.robots), 0.145)
        self.carrier_poses = np.array([carrier.pose for carrier in scene.carriers])
        self.carrier_lifts = np.zeros(len(scene.carriers))


@pytest.fixture(scope="module")
def studio(scene):
    imaging = Imaging(version=1, blur=0.5, noise=2.0, vignetting=0.2)
    stage = MujocoStage(scene)
    made = Renderer(stage, imaging, np.random.SeedSequence(1))
    stage.place(Bodies(scene))
    yield made
    made.close()


def in_map(corners, pose):
    c, s = np.cos(pose[2]), np.sin(pose[2])
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    return corners @ turn.T + [pose[0], pose[1], 0]


def in_body(corners, pose):
    c, s = np.cos(pose[2]), np.sin(pose[2])
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    return (corners - [pose[0], pose[1], 0]) @ turn


SPREAD = LensSpread(focal=0.03, centre=8.0, k1=0.02, k2=0.001)


@pytest.fixture(params=["pinhole", "lens"])
def cameras(request, scene):
    spec, rng = scene.robots[0].spec, np.random.default_rng(4)
    lenses = {} if request.param == "pinhole" else {c.name: SPREAD.draw(c, rng) for c in spec.cameras}
    return cameras_of(spec, lenses)


def errors(studio, camera, pose, places):
    """By how much the corners found in an image differ from where the camera's model has them."""
    found = Detector(640, 480, Health()).detect(studio.draw(camera, np.asarray(pose)))
    return [
        np.hypot(*(quad - camera.project(in_body(places[number], pose))[0]).T)
        for number, quad in zip(found.ids.tolist(), found.corners, strict=True)
        if number in places
    ]


def test_markers_on_walls_are_where_the_camera_model_has_them(studio, scene, cameras):
    walls = scene.arena.markers()
    places = dict(zip(walls.ids.tolist(), walls.corners(), strict=True))
    off, rng = [], np.random.default_rng(5)
    for _ in range(15):
        pose = [*rng.uniform(-1.5, 1.5, 2), rng.uniform(-3.1, 3.1)]
        for name in ("cam0", "cam1", "cam2", "cam3"):
            off += errors(studio, cameras[name], pose, places)
    assert len(off) > 60
    assert np.median(off) < 0.15
    assert np.sqrt(np.mean(np.square(off))) < 0.35


def test_the_sides_of_carriers_are_where_the_camera_model_has_them(studio, scene, cameras):
    carrier, off = scene.carriers[0], []
    side = scene.markers.side_corners(carrier.carrier.clearance)
    for k in range(4):
        out = carrier.pose[2] + k * np.pi / 2
        middle = [carrier.pose[0] + 0.165 * np.cos(out), carrier.pose[1] + 0.165 * np.sin(out), out]
        places = {carrier.marker: in_map(side, middle)}
        for far in (0.35, 0.6, 0.9):
            pose = [middle[0] + far * np.cos(out), middle[1] + far * np.sin(out), out + np.pi]
            off += errors(studio, cameras["cam0"], pose, places)
    assert len(off) == 12
    assert np.median(off) < 0.15


def test_the_map_under_a_tray_is_where_the_camera_model_has_it(studio, scene, cameras):
    carrier, off, rng = scene.carriers[1], [], np.random.default_rng(6)
    under = scene.markers.underside_map(carrier.carrier.clearance)
    places = {
        number: in_map(corners, carrier.pose)
        for number, corners in zip(under.ids.tolist(), under.corners(), strict=True)
    }
    for _ in range(20):
        x, y = rng.uniform(-0.1, 0.1, 2)
        pose = [carrier.pose[0] + x, carrier.pose[1] + y, rng.uniform(-3.1, 3.1)]
        seen = errors(studio, cameras["cam4"], pose, places)
        assert seen  # IV-B2: at least one whole marker from wherever a robot can be
        off += seen
    # 0.1 px are 0.02 mm there.
    assert np.max(off) < 0.2


def test_a_robot_hides_what_is_behind_it(scene):
    bodies, stage = Bodies(scene), MujocoStage(scene)
    drawn = Renderer(stage, Imaging(version=1), np.random.SeedSequence(1))
    try:
        images = []
        # A robot is lower than markers hang: it is dark before the floor and the wall.
        camera = cameras_of(scene.robots[0].spec)["cam0"]
        for other in ([-1.5, -1.0, 0.0], [0.29, 0.09, 0.0]):
            bodies.poses[:] = [[0.0, 0.0, 0.0], other]
            stage.place(bodies)
            images.append(drawn.draw(camera, bodies.poses[0]).astype(int))
        before, after = (image[300:400, 250:390].mean() for image in images)
        assert after < 0.8 * before
    finally:
        drawn.close()


def test_robots_and_carriers_hide_what_is_behind_them(scene):
    bodies = Bodies(scene)
    stage = MujocoStage(scene)
    drawn = Renderer(stage, Imaging(version=1), np.random.SeedSequence(1))
    try:
        spec, detector = scene.robots[0].spec, Detector(640, 480, Health())
        camera = cameras_of(spec)["cam0"]
        bodies.poses[0] = [0.0, 0.0, -np.pi / 2 - 0.2967]
        for other, seen in (([-1.5, -1.0, 0.0], True), ([0.05, -0.5, 0.0], False)):
            bodies.poses[1] = other
            # A little robot hides a marker at 0.25 m only from near: lower the marker's wall instead.
            bodies.carrier_poses[0] = [0.0, -0.6, 0.0] if not seen else [1.0, 0.6, 0.4]
            stage.place(bodies)
            ids = detector.detect(drawn.draw(camera, bodies.poses[0])).ids.tolist()
            assert (10 in ids) is seen
    finally:
        drawn.close()


def test_images_have_noise_and_dark_corners(scene):
    images = []
    for imaging in (Imaging(version=1), Imaging(version=1, noise=3.0), Imaging(version=1, vignetting=0.5)):
        stage = MujocoStage(scene)
        drawn = Renderer(stage, imaging, np.random.SeedSequence(1))
        stage.place(Bodies(scene))
        camera = cameras_of(scene.robots[0].spec)["cam0"]
        images.append(drawn.draw(camera, np.zeros(3)).astype(float))
        drawn.close()
    clean, noisy, dark = images
    lit = (clean > 30) & (clean < 225)
    assert np.std((noisy - clean)[lit]) == pytest.approx(3.0, rel=0.1)
    assert np.mean(dark[-20:, :20] / clean[-20:, :20]) == pytest.approx(0.5, abs=0.05)
    assert np.mean(dark[300:340, 300:340] / clean[300:340, 300:340]) > 0.95


def test_what_turns_while_light_is_gathered_is_blurred(scene):
    stage = MujocoStage(scene)
    drawn = Renderer(stage, Imaging(version=1, exposure=0.02), np.random.SeedSequence(1))
    try:
        stage.place(Bodies(scene))
        camera, pose = cameras_of(scene.robots[0].spec)["cam0"], np.array([0.0, 0.0, 0.3])
        still = drawn.draw(camera, pose, np.zeros(3))
        assert np.array_equal(still, drawn.draw(camera, pose))
        turning = drawn.draw(camera, pose, np.array([0.0, 0.0, 2.0]))
        # 0.04 rad are 7 px: where the marker ahead is, upright edges are gone.
        edges = [
            np.mean(np.diff(image[215:250, 100:540].astype(float), axis=1) ** 2) for image in (still, turning)
        ]
        assert edges[1] < 0.5 * edges[0]
        assert turning.mean() == pytest.approx(still.mean(), rel=0.02)
    finally:
        drawn.close()


def test_without_gl_it_says_what_to_do(scene, monkeypatch):
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)
    with pytest.raises(SimError, match=r"it has no EGL\. Install Debian's libegl1 .* vision: corners"):
        MujocoStage(scene)


def readings_of(world, seconds):
    got = {name: [] for name in world.names}
    devices = {name: world.device(name) for name in world.names}
    while world.time < seconds:
        world.step()
        for name, device in devices.items():
            got[name] += device.cameras.read()
    return got


def test_robots_see_with_pixels_what_they_see_without():
    seen = {}
    for vision in ("corners", "pixels"):
        world = make(make_scene(case_of(vision=vision, noise=False)), np.random.SeedSequence(1))
        try:
            readings = readings_of(world, 0.2)
            seen[vision] = {
                (name, reading.camera): set(reading.ids.tolist())
                for name, some in readings.items()
                for reading in some
            }
            stamps = {reading.stamp for some in readings.values() for reading in some}
            assert max(stamps) < 0.15  # images are late
        finally:
            world.close()
    assert seen["pixels"].keys() == seen["corners"].keys()
    common = [len(seen["pixels"][key] & seen["corners"][key]) for key in seen["pixels"]]
    assert sum(common) >= 0.8 * sum(len(ids) for ids in seen["corners"].values())


def test_the_same_seed_gives_the_same_images():
    runs = []
    for _ in range(2):
        world = make(make_scene(case_of(vision="pixels")), np.random.SeedSequence(2))
        try:
            readings = readings_of(world, 0.15)
            runs.append(
                [(r.stamp, r.camera, r.corners.tobytes()) for some in readings.values() for r in some]
            )
        finally:
            world.close()
    assert runs[0] == runs[1]
    assert runs[0]


def test_robots_that_come_are_seen_and_see():
    world = make(make_scene(case_of(vision="pixels")), np.random.SeedSequence(2))
    try:
        world.device("dots1")
        from swarmbed_core.scene import RobotPlacement

        spec = world.scene.robots[0].spec
        world.add_robot(RobotPlacement("dots9", spec, (1.0, -1.0, 0.0), localised=True))
        assert readings_of(world, 0.2)["dots9"]
        world.remove_robot("dots9")
        world.step()
    finally:
        world.close()


@pytest.mark.parametrize("vision", ["corners", "pixels"])
def test_boxes_that_are_put_there_hide_what_is_behind_them(vision):
    robots = [{"place": {"poses": [[0.0, 0.0, 0.0]]}}]
    carriers = [{"place": {"poses": [[0.8, 0.0, 0.0]]}}]
    case = case_of(vision=vision, robots=robots, carriers=carriers, noise=False)
    world = make(make_scene(case), np.random.SeedSequence(2))

    def seen(seconds):
        device, found, until = world.device("dots1"), 0, world.time + seconds
        while world.time < until:
            world.step()
            found += sum(len(reading.ids) for reading in device.cameras.read())
        return found

    try:
        assert seen(0.3)
        world.add_obstacle("box", (0.4, 0.0, 0.0), (0.05, 0.8))
        seen(0.3)  # what was seen before
        assert not seen(0.3)
        world.remove_obstacle("box")
        assert seen(0.5)
    finally:
        world.close()


def test_exposure_is_a_scenarios_own(monkeypatch):
    taken = []
    monkeypatch.setattr(Renderer, "draw", lambda self, *_: taken.append(self._imaging.exposure) or BLACK)
    for exposure in (None, 0.02):
        world = make(make_scene(case_of(vision="pixels", exposure=exposure)), np.random.SeedSequence(2))
        try:
            readings_of(world, 0.1)
        finally:
            world.close()
    assert set(taken) == {Imaging.load("dots").exposure, 0.02}


def test_lenses_are_known_as_well_as_a_calibration_tells():
    imaging, off = Imaging.load("dots"), []
    for noise in (True, False):
        world = make(make_scene(case_of(vision="pixels", noise=noise)), np.random.SeedSequence(2))
        try:
            device = world.device("dots1")
            rng = np.random.default_rng(np.random.SeedSequence(2, spawn_key=(0, 3)))
            true = {c.name: imaging.lenses.draw(c, rng) for c in device.spec.cameras}
            off += [abs(device.calibrations[name].cx - lens.cx) for name, lens in true.items()]
        finally:
            world.close()
    assert 0.0 < max(off[:5]) <= 2 * imaging.calibration.centre
    assert min(off[:5]) > 0.0
    assert off[5:] == [0.0] * 5


def test_robots_know_how_well_they_know_their_lenses():
    found = {}
    for vision, noise in (("pixels", True), ("pixels", False), ("corners", True)):
        scene = make_scene(case_of(vision=vision, noise=noise))
        world = make(scene, np.random.SeedSequence(2))
        try:
            device = world.device("dots1")
            onboard = Onboard(device, MarkerMap.load("dots_arena"))
            found[vision, noise] = [len(lens.unsure) for lens in device.calibrations.values()]
            found[vision, noise].append(onboard.filter.lens_errors)
        finally:
            world.close()
    # Five errors of each lens; the camera that looks up sees no walls.
    assert found["pixels", True] == [5, 5, 5, 5, 5, 20]
    assert found["pixels", False] == [0, 0, 0, 0, 0, 0]
    assert found["corners", True] == [0]


def test_many_lenses_are_not_kept_for_ever(studio, scene, monkeypatch):
    monkeypatch.setattr("swarmbed_sim.render.LENSES", 3)
    studio._lenses.clear()
    # Another renderer may have drawn before.
    studio._stage.place(Bodies(scene))
    spec, rng = scene.robots[0].spec, np.random.default_rng(4)
    kept = [cameras_of(spec, {"cam0": SPREAD.draw(spec.cameras[0], rng)})["cam0"] for _ in range(6)]
    images = [studio.draw(camera, np.zeros(3), None, np.random.default_rng(1)) for camera in kept]
    assert len(studio._lenses) == 3
    again = studio.draw(kept[0], np.zeros(3), None, np.random.default_rng(1))
    assert np.array_equal(again, images[0])


def test_an_image_too_large_to_be_drawn_is_refused(studio, scene):
    wide = scene.robots[0].spec.cameras[0].model_copy(update={"width": 1280, "height": 960})
    spec = scene.robots[0].spec.model_copy(update={"cameras": (wide,)})
    with pytest.raises(SimError, match="1280x960 pixels: at most 704x528"):
        studio.draw(cameras_of(spec)["cam0"], np.zeros(3))


def images_of(world, name, cameras, seconds):
    """The images of some cameras of a robot, and all its readings meanwhile."""
    device, images, readings = world.device(name), [], []
    watcher = device.images.watcher()
    # Not at the beginning: who comes later sees by the same light.
    while world.time < 0.105:
        world.step()
        device.cameras.read()
    watcher.watch(cameras)
    while world.time < seconds:
        world.step()
        images += watcher.read()
        readings += device.cameras.read()
    watcher.close()
    return images, readings


@pytest.mark.parametrize("vision", ["corners", "pixels"])
def test_who_watches_gets_late_images_of_what_is_there(vision):
    world = make(make_scene(case_of(vision=vision)), np.random.SeedSequence(2))
    try:
        device = world.device("dots1")
        early = device.images.watcher()
        early.watch(["cam1"])
        images, readings = images_of(world, "dots1", ["cam0", "cam4"], 0.6)
        assert {reading.camera for reading in images} == {"cam0", "cam4"}
        stamps = [reading.stamp for reading in images if reading.camera == "cam0"]
        assert np.diff(stamps) == pytest.approx(1 / 30, abs=0.011)
        assert stamps == sorted(stamps)
        assert max(stamps) < 0.56
        # Images are taken when corners are, and what the robot knew of one is in it.
        assert {r.stamp for r in readings if 0.11 < r.stamp < 0.5 and r.camera == "cam0"} <= set(stamps)
        detector, agreed = Detector(640, 480, Health()), 0
        by_stamp = {reading.stamp: reading for reading in images if reading.camera == "cam0"}
        for reading in readings:
            image = by_stamp.get(reading.stamp) if reading.camera == "cam0" else None
            if image is not None:
                found = detector.detect(image.image)
                there = dict(zip(found.ids.tolist(), found.corners, strict=True))
                for number, corners in zip(reading.ids.tolist(), reading.corners, strict=True):
                    if number in there:
                        agreed += 1
                        assert np.abs(there[number] - corners).max() < 3.0
        assert agreed
        # Another one, who looks elsewhere, has lost nothing by it, and now nobody looks any more.
        assert {reading.camera for reading in early.read()} == {"cam1"}
        early.watch(())
        before = world.time
        while world.time < before + 0.3:
            world.step()
            assert not early.read()
        assert not device.images.wanted
    finally:
        world.close()


@pytest.mark.parametrize("vision", ["corners", "pixels"])
def test_who_watches_changes_nothing(vision):
    runs = []
    for watching in ((), ("cam0", "cam2", "cam4")):
        world = make(make_scene(case_of(vision=vision)), np.random.SeedSequence(2))
        try:
            _, readings = images_of(world, "dots1", watching, 0.4)
            runs.append([(r.stamp, r.camera, r.corners.tobytes()) for r in readings])
        finally:
            world.close()
    assert runs[0] == runs[1]
    assert runs[0]


@pytest.mark.parametrize("vision", ["corners", "pixels"])
def test_who_looks_for_walls_changes_nothing(vision):
    robots = [{"place": {"poses": [[0.3, 0.2, 0.4], [-1.5, -1.0, 2.0]]}}]
    runs = []
    for watching in (False, True):
        world = make(make_scene(case_of(vision=vision, robots=robots)), np.random.SeedSequence(2))
        try:
            cameras, readings, sights = world.device("dots1").cameras, [], []
            if watching:
                cameras.watch(True)
            while world.time < 0.4:
                world.step()
                readings += [(world.time, r.stamp, r.camera, r.corners.tobytes()) for r in cameras.read()]
                sights += cameras.sights()
        finally:
            world.close()
        runs.append(readings)
        walls = {int(number) for reading in sights for number in reading.ids} & set(range(12))
        assert bool(walls) == watching
    assert runs[0] == runs[1]
    assert runs[0]


def test_only_watched_cameras_are_rendered(monkeypatch):
    drawn = []
    draw = Renderer.draw

    def counted(self, camera, *rest):
        drawn.append(camera.name)
        return draw(self, camera, *rest)

    monkeypatch.setattr(Renderer, "draw", counted)
    world = make(make_scene(case_of(vision="corners")), np.random.SeedSequence(2))
    try:
        world.device("dots2")
        images_of(world, "dots1", (), 0.2)
        assert not drawn
        images_of(world, "dots1", ["cam1"], 0.4)
        assert set(drawn) == {"cam1"}
    finally:
        world.close()


@pytest.mark.parametrize("vision", ["corners", "pixels"])
def test_robots_may_come_and_go_while_somebody_watches(vision):
    world = make(make_scene(case_of(vision=vision)), np.random.SeedSequence(2))
    try:
        from swarmbed_core.scene import RobotPlacement

        device, spec = world.device("dots1"), world.scene.robots[0].spec
        first = device.images.watcher()
        first.watch(["cam0"])
        world.add_robot(RobotPlacement("dots9", spec, (1.0, -1.0, 0.0), localised=True))
        ninth = world.device("dots9").images.watcher()
        ninth.watch(["cam0"])
        gone = world.device("dots2").images.watcher()
        gone.watch(["cam1"])
        for _ in range(30):
            world.step()
        assert first.read()
        assert ninth.read()
        gone.read()
        world.remove_robot("dots2")
        for _ in range(30):
            world.step()
        assert not gone.read()
        assert first.read()
        assert ninth.read()
    finally:
        world.close()


def test_who_does_not_read_loses_the_oldest_images():
    world = make(make_scene(case_of()), np.random.SeedSequence(2))
    try:
        images = world.device("dots1").images
        watcher, diligent, seen = images.watcher(), images.watcher(), []
        watcher.watch(["cam0"])
        diligent.watch(["cam0"])
        while world.time < 1.0:
            world.step()
            seen += diligent.read()
        stamps = [reading.stamp for reading in watcher.read()]
        # Two who watch one camera see the same images.
        assert [reading.stamp for reading in seen][-len(stamps) :] == stamps
        assert len(seen) > 20
        assert 5 <= len(stamps) <= 10
        assert stamps[0] > 0.5
    finally:
        world.close()


def test_a_world_goes_on_seeing_when_another_one_ends():
    worlds = [make(make_scene(case_of(vision="pixels")), np.random.SeedSequence(k)) for k in (1, 2)]
    try:
        for world in worlds:
            assert readings_of(world, 0.15)["dots1"]
        worlds.pop(0).close()
        assert readings_of(worlds[0], 0.4)["dots1"]
    finally:
        for world in worlds:
            world.close()
