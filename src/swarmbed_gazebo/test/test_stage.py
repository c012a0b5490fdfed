"""Images that Gazebo 11 draws: they show what the cameras' models say, of this moment, and leave nothing."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from swarmbed_core.camera import cameras_of
from swarmbed_core.detector import Detector
from swarmbed_core.health import Health
from swarmbed_core.imaging import Imaging, LensSpread
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_gazebo.display import Display
from swarmbed_gazebo.errors import GazeboError
from swarmbed_gazebo.place import Simulator, find, missing
from swarmbed_gazebo.sdf import GAZEBO11
from swarmbed_gazebo.world import GazeboPhysics, make_gazebo11
from swarmbed_sim.mujoco_stage import MujocoStage
from swarmbed_sim.render import Renderer
from swarmbed_sim.stage import View

ABSENT = missing(GAZEBO11)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(ABSENT), reason=ABSENT)]

SCENARIO = {
    "version": 1,
    "title": "images",
    "time_limit": 10,
    "seed": 3,
    "vision": "pixels",
    "robots": [{"place": {"poses": [[0.0, 0.0, 0.3], [-1.5, -1.0, 2.0]]}, "localised": True}],
    "carriers": [{"place": {"poses": [[1.0, 0.6, 0.4], [-1.0, 1.0, 2.0]]}}],
    "controller": {"name": "random_walk"},
}
SPREAD = LensSpread(focal=0.03, centre=8.0, k1=0.02, k2=0.001)


def scene_of(**changes):
    return make_scene(Scenario.model_validate(SCENARIO | changes))


@pytest.fixture(scope="module")
def world():
    made = GazeboPhysics(scene_of(), kind=GAZEBO11)
    yield made
    made.close()


@pytest.fixture
def eyes(world):
    """Draws without noise; everything is where the scenario has it."""
    scene = scene_of()
    for row, robot in enumerate(scene.robots):
        world.move_robot(row, robot.pose)
    for row, carrier in enumerate(scene.carriers):
        world.move_carrier(row, carrier.pose)
    return Renderer(world.stage(scene), Imaging(version=1), np.random.SeedSequence(1))


@pytest.fixture(params=["pinhole", "lens"])
def cameras(request):
    spec, rng = scene_of().robots[0].spec, np.random.default_rng(4)
    lenses = {} if request.param == "pinhole" else {c.name: SPREAD.draw(c, rng) for c in spec.cameras}
    return cameras_of(spec, lenses)


def turned(yaw):
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def in_map(corners, pose):
    return corners @ turned(pose[2]).T + [pose[0], pose[1], 0.0]


def errors(eyes, world, camera, places, row=0):
    """By how many pixels corners in an image of now are off where the camera's model has them."""
    pose = world.poses[row]
    camera = camera.at_lifter_height(world.heights.item(row))
    found = Detector(640, 480, Health()).detect(eyes.draw(camera, pose))
    off = {}
    for number, quad in zip(found.ids.tolist(), found.corners, strict=True):
        if number in places:
            true, _ = camera.project((places[number] - [pose[0], pose[1], 0.0]) @ turned(pose[2]))
            off[number] = np.hypot(*(quad - true).T)
    return off


def walls():
    markers = scene_of().arena.markers()
    return dict(zip(markers.ids.tolist(), markers.corners(), strict=True))


def below(world):
    """The map under the second carrier, where that is now."""
    scene = scene_of()
    high = scene.carriers[1].carrier.clearance + world.carrier_lifts.item(1)
    under = scene.markers.underside_map(high)
    pose = world.carrier_poses[1]
    return dict(zip(under.ids.tolist(), (in_map(quad, pose) for quad in under.corners()), strict=True))


def test_an_image_shows_where_things_are_at_that_moment(world, eyes, cameras):
    rng, off = np.random.default_rng(5), []
    for _ in range(15):
        world.move_robot(0, (*rng.uniform(-1.5, 1.5, 2).tolist(), rng.uniform(-3.1, 3.1)))
        for name in ("cam0", "cam1", "cam2", "cam3"):
            off += errors(eyes, world, cameras[name], walls()).values()
    assert len(off) > 60
    assert np.median(off) < 0.15
    assert np.sqrt(np.mean(np.square(off))) < 0.3


def test_the_sides_of_carriers_are_where_they_were_put(world, eyes, cameras):
    scene = scene_of()
    carrier, rng, off = scene.carriers[0], np.random.default_rng(6), []
    for k in range(8):
        x, y, yaw = *rng.uniform(-0.5, 0.5, 2).tolist(), rng.uniform(-3.1, 3.1)
        world.move_carrier(0, (x, y, yaw))
        out = yaw + k % 4 * math.pi / 2
        half = carrier.carrier.length / 2
        side = np.array([x + half * math.cos(out), y + half * math.sin(out), out])
        places = {carrier.marker: in_map(scene.markers.side_corners(carrier.carrier.clearance), side)}
        far = (0.35, 0.9)[k // 4]
        world.move_robot(0, (side[0] + far * math.cos(out), side[1] + far * math.sin(out), out + math.pi))
        off += errors(eyes, world, cameras["cam0"], places).values()
    assert len(off) == 8
    assert np.max(off) < 0.3


def test_the_map_under_a_tray_is_where_it_is(world, eyes, cameras):
    rng, off = np.random.default_rng(7), []
    for _ in range(12):
        x, y = world.carrier_poses[1, :2] + rng.uniform(-0.1, 0.1, 2)
        world.move_robot(0, (float(x), float(y), rng.uniform(-3.1, 3.1)))
        seen = errors(eyes, world, cameras["cam4"], below(world))
        assert seen
        off += seen.values()
    assert np.max(off) < 0.2


def test_what_drives_and_lifts_is_shown_step_by_step(world, eyes):
    """Images follow the bodies at every step: who drives under a tray and lifts it, and who watches."""
    scene = scene_of()
    cameras, carrier = cameras_of(scene.robots[0].spec), scene.carriers[1]
    x, y, yaw = world.carrier_poses[1].tolist()
    world.move_robot(0, (x, y, yaw + 0.4))
    out = yaw - math.pi / 2
    far = carrier.carrier.width / 2 + 0.5
    world.move_robot(1, (x + far * math.cos(out), y + far * math.sin(out), out + math.pi))
    below_off, beside_off, high = [], [], 0.0
    for height in [*np.linspace(0.145, 0.197, 60), *[0.197] * 60]:
        wanted = np.array([[0.3 if height == 0.197 else 0.0, 0.0, 0.3], [0.0, 0.0, 0.0]])
        world.advance(wanted, np.ones(2, dtype=np.bool_), np.array([height, 0.145]))
        high = max(high, world.carrier_lifts.item(1))
        below_off += errors(eyes, world, cameras["cam4"], below(world)).values()
        now = world.carrier_poses[1]
        way = now[2] - math.pi / 2
        half = carrier.carrier.width / 2
        side = np.array([now[0] + half * math.cos(way), now[1] + half * math.sin(way), way])
        code = in_map(scene.markers.side_corners(carrier.carrier.clearance), side)
        code[:, 2] += world.carrier_lifts.item(1)
        beside_off += errors(eyes, world, cameras["cam0"], {carrier.marker: code}, row=1).values()
    assert world.carried_by.tolist() == [-1, 0]
    assert high > 0.02
    # As the platform comes up the codes above it grow out of the image.
    assert len(below_off) > 20
    assert np.max(below_off) < 0.3
    assert len(beside_off) > 100
    # A tray that is carried leans a little, which its pose does not tell.
    assert np.max(beside_off) < 0.5
    assert np.median(beside_off) < 0.2


def test_it_shows_what_mujocos_renderer_shows(world, eyes):
    scene = scene_of()
    other = MujocoStage(scene)
    others = Renderer(other, Imaging(version=1), np.random.SeedSequence(1))
    cameras, detector = cameras_of(scene.robots[0].spec), Detector(640, 480, Health())
    rng, apart, common, all_there = np.random.default_rng(8), [], 0, 0
    try:
        for _ in range(8):
            world.move_robot(0, (*rng.uniform(-1.5, 1.5, 2).tolist(), rng.uniform(-3.1, 3.1)))
            other.place(world)
            for name in ("cam0", "cam1", "cam2", "cam3"):
                found = [
                    dict(zip(seen.ids.tolist(), seen.corners, strict=True))
                    for each in (eyes, others)
                    for seen in [detector.detect(each.draw(cameras[name], world.poses[0]))]
                ]
                both = found[0].keys() & found[1].keys()
                apart += [np.hypot(*(found[0][number] - found[1][number]).T).max() for number in both]
                common += len(both)
                all_there += len(found[0].keys() | found[1].keys())
    finally:
        others.close()
    assert common > 0.9 * all_there > 50
    assert np.median(apart) < 0.2


def test_paper_and_ink_are_as_bright_as_they_are(world, eyes):
    camera = cameras_of(scene_of().robots[0].spec)["cam4"]
    x, y, yaw = world.carrier_poses[1].tolist()
    world.move_robot(0, (x, y, yaw))
    image = eyes.draw(camera, world.poses[0])
    assert (image.min(), image.max()) == pytest.approx((15, 235), abs=2)


def test_boxes_and_robots_that_come_are_seen_and_go_again(world, eyes):
    scene = scene_of()
    camera = cameras_of(scene.robots[0].spec)["cam0"]
    carrier, detector = scene.carriers[0], Detector(640, 480, Health())
    world.move_robot(0, (0.0, 0.0, 0.2967))
    world.move_carrier(0, (0.8, 0.0, 0.0))

    def sees():
        return carrier.marker in detector.detect(eyes.draw(camera, world.poses[0])).ids

    def floor_ahead():
        return eyes.draw(camera, world.poses[0])[300:380, 200:440].mean()

    assert sees()
    for _ in range(2):
        # The second of the same name is another one.
        world.add_box("box", (0.4, 0.0, 0.0), (0.05, 0.8))
        assert not sees()
        world.remove_box("box")
        assert sees()
    bright = floor_ahead()
    world.add_robot(dataclasses.replace(scene.robots[1], name="dots9", pose=(0.35, 0.1, 0.0)))
    assert floor_ahead() < 0.9 * bright
    world.remove_robot(2)
    assert floor_ahead() == pytest.approx(bright, rel=1e-3)


def readings_of(seconds):
    world = make_gazebo11(scene_of(), np.random.SeedSequence(2))
    try:
        devices = {name: world.device(name) for name in world.names}
        return [
            (name, r.stamp, r.camera, r.ids.tolist(), r.corners.tobytes())
            for _ in range(round(seconds / world.timestep))
            for name, device in devices.items()
            for r in (
                world.step() or device.cameras.read() if name == world.names[0] else device.cameras.read()
            )
        ]
    finally:
        world.close()


def test_the_same_seed_gives_the_same_images():
    first = readings_of(0.15)
    assert {reading[0] for reading in first} == {"dots1", "dots2"}
    assert first == readings_of(0.15)


def test_an_image_that_cannot_be_drawn_is_told_of(world):
    stage = world.stage(scene_of())
    ahead, up = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    with pytest.raises(GazeboError, match=r"no image of this size can be drawn.* vision: corners"):
        stage.shoot(View((0.0, 0.0, 0.1), ahead, up, -1.0, 1.0, -1.0, 1.0, (5000, 10)))


def test_without_a_screen_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(Simulator, "screen", property(lambda _: None))
    with pytest.raises(GazeboError, match=r"no Xvfb here: run scripts/setup --gazebo .* vision: corners"):
        GazeboPhysics(scene_of(), kind=GAZEBO11)
    broken = tmp_path / "Xvfb"
    broken.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setattr(Simulator, "screen", property(lambda _: str(broken)))
    with pytest.raises(GazeboError, match=r"does not start \(no memory\): run scripts/setup"):
        GazeboPhysics(scene_of(), kind=GAZEBO11)


def test_without_opengl_it_says_what_to_do(monkeypatch):
    started = Display.__init__

    def no_screen(self, *arguments):
        started(self, *arguments)
        self.environment["DISPLAY"] = ":nowhere"

    monkeypatch.setattr(Display, "__init__", no_screen)
    with pytest.raises(GazeboError, match=r"no screen with OpenGL: run scripts/setup --gazebo .* corners"):
        GazeboPhysics(scene_of(), kind=GAZEBO11)


def test_corners_need_no_screen(monkeypatch):
    monkeypatch.setattr(Simulator, "screen", property(lambda _: None))
    scene = scene_of(vision="corners")
    world = GazeboPhysics(scene, kind=GAZEBO11)
    try:
        assert isinstance(world.stage(scene), MujocoStage)
    finally:
        world.close()


def screens():
    """The processes that are screens of this user's, with their command lines."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if entry.stat().st_uid == os.getuid() and words[0].endswith(b"Xvfb"):
                found[int(entry.name)] = b" ".join(words)
        except OSError:
            continue
    return found


def test_a_screen_listens_to_nobody_else_and_goes_with_whoever_started_it(tmp_path):
    code = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from swarmbed_gazebo.display import Display\nfrom swarmbed_gazebo.place import find\n"
        f"place, folder = find('gazebo11'), Path({str(tmp_path)!r})\n"
        "display = Display(place, folder, place.environment(0, folder))\n"
        "print(display.environment['DISPLAY'], flush=True)\n"
        "time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    name = process.stdout.readline().strip()
    [(screen, command)] = [(pid, line) for pid, line in screens().items() if str(tmp_path).encode() in line]
    assert b"-nolisten tcp" in command
    assert (tmp_path / "authority").stat().st_mode & 0o777 == 0o600
    assert Path(f"/tmp/.X11-unix/X{name[1:]}").exists()  # noqa: S108 - where X servers listen
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    end = time.monotonic() + 10.0
    while time.monotonic() < end and screen in screens():
        time.sleep(0.05)
    assert screen not in screens()


def test_servers_have_screens_of_their_own(tmp_path):
    place, made = find(GAZEBO11), []
    try:
        for k in range(2):
            folder = tmp_path / str(k)
            folder.mkdir()
            made.append(Display(place, folder, place.environment(0, folder)))
        assert len({display.environment["DISPLAY"] for display in made}) == 2
    finally:
        for display in made:
            display.close()
    assert not [line for line in screens().values() if str(tmp_path).encode() in line]


def test_lights_are_seen_as_they_shine(world, eyes):
    assert eyes is not None
    x, y, yaw = world.poses[0].tolist()
    ahead = np.array([math.cos(yaw), math.sin(yaw), 0.0])
    place = np.array([x, y, 0.03]) + 0.5 * ahead
    view = View((*place.tolist(),), -ahead, np.array([0.0, 0.0, 1.0]), -0.3, 0.3, -0.3, 0.3, (200, 200))
    stage, dark = world.stage(scene_of()), (0,) * 16
    seen = {}
    for name, shown in (("none", dark), ("front", (0xFFFFFF, *dark[1:])), ("red", (0x0000FF, *dark[1:]))):
        world.light(0, shown)
        seen[name] = stage.shoot(view).astype(int)
    world.light(0, dark)
    assert np.array_equal(stage.shoot(view), seen["none"])
    rows, columns = np.nonzero(seen["front"] > seen["none"] + 100)
    # It is 12 mm wide and 6 mm high, 0.37 m away.
    assert 20 < len(rows) < 120
    assert abs(rows - 99.5).max() < 8
    assert abs(columns - 99.5).max() < 10
    middle = seen["red"][rows, columns]
    assert (middle > seen["none"][rows, columns] + 40).all()
    assert (middle < seen["front"][rows, columns]).all()
