"""What is printed in a world file: every code in its place, upright, with a picture that is there."""

from __future__ import annotations

import math
from xml.etree import ElementTree as ET

import cv2
import numpy as np
import pytest
import yaml
from swarmbed_core.config import find
from swarmbed_core.detector import Detector
from swarmbed_core.health import Health
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_gazebo.errors import GazeboError
from swarmbed_gazebo.looks import FOLDER, MATERIALS, Pictures, pictures, write_pictures
from swarmbed_gazebo.sdf import world_text
from swarmbed_sim.looks import SHEET

PICTURES = Pictures(FOLDER, FOLDER)


@pytest.fixture(scope="module")
def scene():
    data = {
        "version": 1,
        "title": "test",
        "time_limit": 10,
        "robots": [{"place": {"poses": [[0.5, -0.5, 1.0]]}}],
        "carriers": [{"place": {"poses": [[1.0, 1.0, 0.5]]}}],
        "controller": {"name": "random_walk"},
    }
    return make_scene(Scenario.model_validate(data))


def numbers(element, tag):
    found = element.find(tag)
    return np.zeros(6) if found is None else np.array([float(word) for word in found.text.split()])


def frame(pose):
    """The rotation and the place of a pose as SDF writes it."""
    roll, pitch, yaw = pose[3:]
    (cr, sr), (cp, sp), (cy, sy) = ((math.cos(a), math.sin(a)) for a in (roll, pitch, yaw))
    turn = (
        np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
        @ np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
        @ np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    )
    return turn, np.array(pose[:3])


def corners(visual, outer):
    """Where the corners of a sheet's picture are: top left, top right, bottom right, bottom left."""
    turn, place = frame(numbers(visual, "pose"))
    depth, wide, high = numbers(visual, "geometry/box/size")
    assert depth == SHEET
    face = np.array([[1, -1, 1], [1, 1, 1], [1, 1, -1], [1, -1, -1]]) * [depth / 2, wide / 2, high / 2]
    turn_out, place_out = frame(outer)
    return (face @ turn.T + place) @ turn_out.T + place_out


def sheets(text):
    for model in ET.fromstring(text).iterfind("world/model"):
        for visual in model.iter("visual"):
            script = visual.find("material/script/name")
            if script is not None:
                yield script.text.removeprefix("swarmbed/"), corners(visual, numbers(model, "pose")), visual


def test_codes_hang_where_the_maps_have_them(scene):
    found = list(sheets(world_text(scene, pictures=PICTURES)))
    places = dict(zip(scene.arena.markers().ids.tolist(), scene.arena.markers().corners(), strict=True))
    hung = {int(name[4:]): there for name, there, _ in found if name.removeprefix("code") in map(str, places)}
    assert hung.keys() == places.keys()
    for number, there in hung.items():
        middle = there.mean(axis=0)
        # A module of white around each code of eight.
        assert there == pytest.approx(middle + (places[number] - middle) * 10 / 8, abs=1e-9)
        assert middle == pytest.approx(places[number].mean(axis=0), abs=1e-9)


def test_carriers_have_their_codes_on_all_sides_and_the_map_below(scene):
    found = list(sheets(world_text(scene, pictures=PICTURES)))
    [carrier] = scene.carriers
    turn, place = frame([*carrier.pose[:2], 0, 0, 0, carrier.pose[2]])
    sides = [(there - place) @ turn for name, there, _ in found if name == f"code{carrier.marker}"]
    assert len(sides) == 4
    for k, there in enumerate(sides):
        way = k * math.pi / 2
        out = np.array([math.cos(way), math.sin(way), 0])
        face = scene.markers.side_corners(carrier.carrier.clearance)
        half = carrier.carrier.length / 2
        true = face @ frame([0, 0, 0, 0, 0, way])[0].T + out * half
        middle = true.mean(axis=0)
        assert there == pytest.approx(middle + (true - middle) * 10 / 8, abs=1e-9)
    [below] = [(there - place) @ turn for name, there, _ in found if name.startswith("under")]
    length, width = carrier.carrier.length / 2, carrier.carrier.width / 2
    # From below: the front is up, the left is right.
    plan = [[length, -width], [length, width], [-length, width], [-length, -width]]
    assert below[:, :2] == pytest.approx(np.array(plan), abs=1e-9)
    assert below[:, 2] == pytest.approx(carrier.carrier.clearance, abs=1e-9)


def test_what_is_printed_hangs_before_what_it_hangs_on(scene):
    root = ET.fromstring(world_text(scene, pictures=PICTURES))
    [wall] = [v for v in root.iter("visual") if v.get("name") == "wall x1"]
    assert numbers(wall, "pose")[0] - numbers(wall, "geometry/box/size")[0] / 2 == pytest.approx(2.5 + SHEET)
    [tray] = [v for v in root.iter("visual") if v.get("name").endswith("_tray")]
    carrier = scene.carriers[0].carrier
    assert numbers(tray, "geometry/box/size")[0] == pytest.approx(carrier.length - 2 * SHEET)
    low = numbers(tray, "pose")[2] - numbers(tray, "geometry/box/size")[2] / 2
    assert low == pytest.approx(carrier.clearance + SHEET)


def test_every_picture_that_a_file_names_is_there_and_shows_its_code(scene, tmp_path):
    write_pictures(scene, tmp_path / FOLDER)
    materials = (tmp_path / FOLDER / MATERIALS).read_text(encoding="utf-8")
    named = set()
    for name, _, visual in sheets(world_text(scene, pictures=PICTURES)):
        assert visual.find("material/script/uri").text == PICTURES.scripts
        assert f"material swarmbed/{name}\n" in materials
        file = tmp_path / visual.find("material/pbr/metal/albedo_map").text
        assert file.stem == name
        named.add(name)
        image = cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)
        if name.startswith("code"):
            canvas = np.full((480, 640), 200, np.uint8)
            canvas[100:260, 100:260] = image
            found = Detector(640, 480, Health()).detect(canvas)
            assert found.ids.tolist() == [int(name.removeprefix("code"))]
            # It is upright: its top left corner comes first.
            assert found.corners[0][0] == pytest.approx([115.5, 115.5], abs=0.3)
    assert named == set(pictures(scene))


def test_without_pictures_nothing_is_printed(scene):
    assert not list(sheets(world_text(scene)))
    assert not list(sheets(world_text(scene, "/tmp/socket")))  # noqa: S108 - nobody goes there


def test_pictures_that_cannot_be_written_are_told_of(scene, tmp_path):
    (tmp_path / FOLDER).touch()
    with pytest.raises(GazeboError, match="pictures of the markers cannot be written"):
        write_pictures(scene, tmp_path / FOLDER)


@pytest.mark.parametrize("name", ["intralogistics", "intralogistics_20"])
def test_the_worlds_that_come_along_are_what_is_made(name, tmp_path):
    path = find(name, Scenario.FOLDER)
    worlds = path.parents[2] / "worlds"
    made = make_scene(Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))))
    again = f"run swarmbed sdf {name} --world-file worlds/{name}.sdf where the checkout is"
    assert (worlds / f"{name}.sdf").read_text(encoding="utf-8") == world_text(made, pictures=PICTURES), again
    write_pictures(made, tmp_path)
    for file in tmp_path.glob("*.png"):
        there = cv2.imread(str(worlds / FOLDER / file.name), cv2.IMREAD_GRAYSCALE)
        assert np.array_equal(there, cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)), again
    materials = (worlds / FOLDER / MATERIALS).read_text(encoding="utf-8")
    for block in (tmp_path / MATERIALS).read_text(encoding="utf-8").split("\n\n"):
        assert block.strip() in materials, again
