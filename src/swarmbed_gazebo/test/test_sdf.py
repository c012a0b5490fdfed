"""World files: what is in a scene is in them, where it is and as heavy as it is."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC, things_of, world_text

from swarmbed_sim import solid


def scene_of(**changes):
    data = {
        "version": 1,
        "title": "test",
        "time_limit": 10,
        "robots": [{"place": {"poses": [[0.5, -0.5, 1.0], [-1.0, 0.0, 0.0]]}}],
        "carriers": [{"payload": 1.5, "place": {"poses": [[1.0, 1.0, 0.5]]}}],
        "obstacles": [
            {"shape": "box", "size": [0.2, 0.3], "pose": [-1.5, 1.0, 0.3]},
            {"shape": "cylinder", "radius": 0.1, "pose": [-1.5, -1.0, 0.0]},
        ],
        "controller": {"name": "random_walk"},
    }
    return make_scene(Scenario.model_validate(data | changes))


def models(text):
    return {model.get("name"): model for model in ET.fromstring(text).iterfind("world/model")}


def pose(element):
    found = element.find("pose")
    return [0.0] * 6 if found is None else [float(word) for word in found.text.split()]


def test_all_that_is_in_a_scene_is_in_its_place():
    scene = scene_of()
    there = models(world_text(scene))
    assert set(there) == {"floor", "wall", "obstacle1", "obstacle2", "carriers0"} | {
        robot.name for robot in scene.robots
    }
    for robot in scene.robots:
        x, y, _, _, _, yaw = pose(there[robot.name])
        assert (x, y, yaw) == robot.pose
    x, y, z, _, _, yaw = pose(there["carriers0"])
    assert (x, y, z, yaw) == (1.0, 1.0, 0.0, 0.5)
    assert pose(there["obstacle1"])[:2] == [-1.5, 1.0]


def test_masses_are_those_of_the_scene():
    scene = scene_of()
    there = models(world_text(scene))
    for name, mass in ((scene.robots[0].name, 3.0), ("carriers0", 1.5 + scene.carriers[0].carrier.mass)):
        told = sum(float(found.text) for found in there[name].iter("mass"))
        assert told == pytest.approx(scene.robots[0].spec.body.mass if mass == 3.0 else mass)


@pytest.mark.parametrize("turn", [0.0, 2.0])
def test_joined_carriers_are_one_model(turn):
    carriers = [{"joined": [[0, 0], [1, 0]], "place": {"poses": [[0.2, 0.3, turn]]}}]
    scene = scene_of(carriers=carriers, obstacles=[])
    there = models(world_text(scene))
    assert "carriers1" not in there
    legs = [part for part in there["carriers0"].iter("collision") if "_leg" in part.get("name")]
    assert len(legs) == 8
    # They stand where the carriers' own do.
    x, y, _, _, _, yaw = pose(there["carriers0"])
    c, s = math.cos(yaw), math.sin(yaw)
    feet = np.array([pose(leg)[:2] for leg in legs]) @ np.array([[c, s], [-s, c]]) + [x, y]
    for row, carrier in enumerate(scene.carriers):
        assert feet[4 * row : 4 * row + 4].mean(axis=0) == pytest.approx(carrier.pose[:2])


def test_the_plugin_knows_all_that_can_touch_by_number():
    scene = scene_of()
    root = ET.fromstring(world_text(scene, "a/socket"))
    plugin = root.find("world/plugin")
    assert plugin.findtext("socket") == "a/socket"
    assert [robot.findtext("model") for robot in plugin.iter("robot")] == [r.name for r in scene.robots]
    names = things_of(scene)
    told = {int(thing.findtext("number")): thing for thing in plugin.iter("thing")}
    assert sorted(told) == list(range(len(names)))
    there = models(world_text(scene))
    for number, thing in told.items():
        model, begin = there[thing.findtext("model")], thing.findtext("collisions") or ""
        collisions = [part.get("name") for part in model.iter("collision")]
        assert any(name.startswith(begin) for name in collisions), names[number]


@pytest.mark.parametrize("simulator", [GAZEBO11, HARMONIC])
def test_no_two_children_of_the_world_have_one_name(simulator):
    """Gazebo 11 warns of them, whatever they are."""
    world = ET.fromstring(world_text(scene_of(), "a/socket", simulator)).find("world")
    names = [child.get("name") for child in world if child.get("name")]
    assert len(names) > 3
    assert sorted(set(names)) == sorted(names)


def test_gz_sim_gets_its_models_one_after_the_other():
    """DART takes those that are new in one step in an order that no run repeats."""
    text = world_text(scene_of(), "a/socket", HARMONIC)
    assert models(text) == {}
    later = {model.get("name") for model in ET.fromstring(text).iterfind("world/plugin/model")}
    assert later == set(models(world_text(scene_of(), "a/socket")))
    assert set(models(world_text(scene_of(), "", HARMONIC))) == later


def test_no_digit_is_lost():
    third = 1 / 3
    there = models(world_text(scene_of(robots=[{"place": {"poses": [[third, -third, third]]}}])))
    assert pose(there["dots1"])[0] == third


def test_the_plugin_drives_by_the_constants_of_the_other_worlds():
    source = Path(__file__).parents[2] / "swarmbed_gazebo_plugin" / "src"
    text = "".join(file.read_text(encoding="utf-8") for file in source.glob("*.hpp"))
    told = {name: float(value) for name, value in re.findall(r"constexpr double k(\w+) = ([\d.]+);", text)}
    assert told["DriveTime"] == solid.DRIVE_TIME
    assert told["SideGrip"] == solid.SIDE_GRIP
    assert told["Flat"] == solid.FLAT
