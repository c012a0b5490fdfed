"""Scenario files: what they may say, and what is told about those that say something else."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from swarmbed_core.config import check
from swarmbed_core.errors import ConfigError
from swarmbed_core.idle import IDLE
from swarmbed_core.scenario import CrowdOptions, Scenario

LEAST = {
    "version": 1,
    "title": "a test",
    "time_limit": 10.0,
    "robots": [{"count": 1, "place": {"zone": "drop"}}],
    "controller": {"name": "random_walk"},
}


def scenario(**changes) -> Scenario:
    return check({**LEAST, **changes}, Scenario, "test.yaml")


def test_little_has_to_be_said():
    made = scenario()
    assert (made.world, made.arena, made.seed) == ("mujoco", "dots_arena", 1)
    assert made.robots[0].kind == "dots"
    assert [item.name for item in made.frame.transducers] == [
        "carriers",
        "travel",
        "contacts",
        "energy",
        "messages",
    ]


def test_what_stands_beside_a_name_are_its_parameters():
    made = scenario(controller={"name": "random_walk", "speed": 0.4, "nested": {"a": 1}})
    assert made.controller.parameters == {"speed": 0.4, "nested": {"a": 1}}


def test_poses_say_how_many():
    robots = [{"place": {"poses": [[0, 0, 0], [1, 0, 0]]}}, {"count": 1, "place": {"poses": [[2, 0, 0]]}}]
    assert [group.number for group in scenario(robots=robots).robots] == [2, 1]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"colour": "red"}, "colour: unknown field"),
        ({"time_limit": -1.0}, "time_limit: .*greater than 0.*found -1.0"),
        ({"time_limit": "long"}, "time_limit: .*valid number.*found 'long'"),
        ({"robots": []}, "robots: .*at least 1"),
        ({"robots": [{"count": -1, "place": {"zone": "drop"}}]}, r"robots.0.count: .*found -1"),
        ({"robots": [{"place": {"zone": "drop"}}]}, r"robots.0: .*count: missing"),
        ({"robots": [{"count": 1, "place": {"zone": "nowhere"}}]}, r"robots.0.place.zone: .*'search'"),
        ({"robots": [{"count": 1, "place": {}}]}, r"robots.0.place: .*zone, area, line and poses"),
        ({"robots": [{"count": 3, "place": {"poses": [[0, 0, 0]]}}]}, "count is 3, but place.poses has 1"),
        ({"robots": [{"count": 1, "wheels": 3, "place": {"zone": "drop"}}]}, "robots.0.wheels: unknown"),
        ({"controller": {"speed": 1.0}}, "controller.name: missing"),
        ({"seed": -3}, "seed: "),
        ({"seed": True}, "seed: yes and no are booleans"),
        ({"radio": {"loss": 1.5}}, "radio.loss: "),
        ({"frame": {"acceptors": []}}, "frame.acceptors: "),
        ({"obstacles": [{"shape": "cone", "pose": [0, 0, 0]}]}, "obstacles.0: .*'box'"),
        (
            {"carriers": [{"count": 1, "place": {"zone": "drop"}, "joined": [[0, 0], [0, 0]]}]},
            "joined: cells",
        ),
        (
            {"carriers": [{"count": 1, "place": {"zone": "drop"}, "joined": [[0, 0], [1, 1]]}]},
            r"joined: \[\(1, 1\)\] share no edge",
        ),
        ({"carriers": [{"count": 1, "place": {"zone": "drop"}, "joined": [[0, 0], [10**400, 0]]}]}, "joined"),
        ({"version": 2}, "version: "),
    ],
)
def test_a_fault_is_told_with_its_field(changes, told):
    with pytest.raises(ConfigError, match=told) as caught:
        scenario(**changes)
    assert str(caught.value).startswith("test.yaml: ")


@pytest.mark.parametrize("step", [0.03, 0.2, 0.0])
def test_a_tick_is_a_whole_number_of_steps(step):
    with pytest.raises(ValidationError, match="step"):
        CrowdOptions(step=step)
    assert CrowdOptions(step=0.05).step == 0.05


def test_paths_are_as_seen_from_a_directory(tmp_path):
    """Other machines have other directories; what is elsewhere keeps its whole path."""
    (tmp_path / "walk.yaml").write_text("version: 1\n")
    group = {"count": 1, "place": {"zone": "drop"}}
    made = scenario(
        arena=str(tmp_path / "maps" / "lab.yaml"),
        carrier_markers="/elsewhere/markers.yaml",
        robots=[{"kind": str(tmp_path / "mine.yaml"), **group}, {"kind": "dots", **group}],
        controller={"name": "random_walk", "walk": str(tmp_path / "walk.yaml"), "text": "walk.yml"},
    )
    seen = made.seen_from(tmp_path)
    assert (seen.arena, seen.carrier_markers) == ("maps/lab.yaml", "/elsewhere/markers.yaml")
    assert [group.kind for group in seen.robots] == ["mine.yaml", "dots"]
    assert seen.controller.parameters == {"walk": "walk.yaml", "text": "walk.yml"}
    assert seen.seen_from(tmp_path) == seen


def test_robots_driven_from_elsewhere_have_no_program_here():
    group = {"count": 1, "place": {"zone": "drop"}, "driver": "elsewhere"}
    with pytest.raises(ConfigError, match="controller random_walk: never runs with `driver: elsewhere`"):
        scenario(robots=[{**group, "controller": {"name": "random_walk"}}])


def test_without_programs_no_controller_is_needed():
    data = {"version": 1, "title": "none", "time_limit": 1}
    group = {"count": 1, "place": {"zone": "drop"}, "driver": "elsewhere"}
    assert Scenario.model_validate({**data, "robots": [group]}).controller.name == IDLE
    with pytest.raises(ValidationError, match="controller"):
        Scenario.model_validate({**data, "robots": [group, {**group, "driver": "program"}]})


def test_files_of_devices_are_relative_to_the_scenarios_file(tmp_path):
    group = {"count": 1, "place": {"zone": "drop"}}
    given = ("keys/{name}.key", "~/keys/dots1.key", "/keys/dots1.key")
    devices = [{"name": "remote", "parts": ["motors"], "key_file": file} for file in given]
    data = {"robots": [{**group, "device": devices}]}
    Scenario.anchor(data, tmp_path)
    found = [device["key_file"] for device in data["robots"][0]["device"]]
    assert found == [f"{tmp_path}/keys/{{name}}.key", *given[1:]]
