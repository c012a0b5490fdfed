"""Where everything of a scenario stands."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.config import check, find
from swarmbed_core.errors import ConfigError
from swarmbed_core.safe_yaml import read
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import CARRIER_GAP, ROBOT_GAP, legs_of, make_scene
from swarmbed_core.spec import RobotSpec

TASK = {
    "version": 1,
    "title": "a test",
    "time_limit": 10.0,
    "robots": [{"count": 5, "place": {"zone": "drop"}}],
    "carriers": [{"count": 5, "place": {"zone": "search"}}],
    "controller": {"name": "random_walk"},
}


def scene(seed=1, **changes):
    return make_scene(check({**TASK, **changes}, Scenario, "test.yaml"), seed, "test.yaml")


def distances(poses):
    points = np.array(poses)[:, :2]
    apart = np.hypot(*(points[:, None] - points[None]).transpose(2, 0, 1))
    return apart[np.triu_indices(len(points), 1)]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_all_is_in_its_zone_and_clear_of_everything(seed):
    made = scene(seed)
    robots = [placement.pose for placement in made.robots]
    carriers = [placement.pose for placement in made.carriers]
    reach = math.hypot(0.33, 0.33) / 2
    assert min(distances(robots)) >= 0.25 + ROBOT_GAP
    assert min(distances(carriers)) >= 2 * reach + CARRIER_GAP
    assert all(
        1.25 <= x <= 2.5 - 0.125 - ROBOT_GAP and abs(y) <= 2.5 - 0.125 - ROBOT_GAP for x, y, _ in robots
    )
    edge = 2.5 - reach - CARRIER_GAP
    assert all(-edge <= x <= 0 and abs(y) <= edge for x, y, _ in carriers)
    assert [placement.marker for placement in made.carriers] == [100, 101, 102, 103, 104]


def test_a_seed_is_a_set_of_places():
    assert scene(3) == scene(3)
    assert scene(3).robots != scene(4).robots


def test_the_scenario_has_a_seed_of_its_own():
    made = check({**TASK, "seed": 9}, Scenario, "test.yaml")
    assert make_scene(made).robots == scene(9).robots


def test_joined_carriers_stand_edge_to_edge():
    joined = {"place": {"poses": [[0.5, -0.5, math.pi / 2]]}, "joined": [[0, 0], [1, 0]], "payload": 0.5}
    made = scene(carriers=[joined, {"count": 1, "place": {"zone": "search"}}])
    first, second, third = made.carriers
    assert first.pose == pytest.approx((0.5, -0.5 - 0.165, math.pi / 2))
    assert second.pose == pytest.approx((0.5, -0.5 + 0.165, math.pi / 2))
    assert (first.body, second.body, third.body) == (0, 0, 1)
    assert first.payload == 0.5


def test_a_robot_may_start_under_a_carrier():
    under = [[-1.0, 0.5, 0.3]]
    made = scene(robots=[{"place": {"poses": under}}], carriers=[{"place": {"poses": under}}])
    assert made.robots[0].pose == made.carriers[0].pose


def test_carriers_may_stand_close():
    made = scene(carriers=[{"place": {"poses": [[0, 0, 0], [0.4, 0, 0], [0, 0.331, 0]]}}])
    assert len(made.carriers) == 3


@pytest.mark.parametrize("seed", range(20))
def test_what_has_a_pose_comes_first(seed):
    """Whatever the seed, things with poses fit, and things left to chance keep clear of them."""
    robots = [
        {"count": 4, "place": {"zone": "drop"}},
        {"place": {"poses": [[1.8, 0.0, 0.0], [-1.0, 0.0, 0.0]]}},
    ]
    made = scene(seed, robots=robots)
    assert [item.name for item in made.robots] == ["dots1", "dots2", "dots3", "dots4", "dots5", "dots6"]
    assert made.robots[4].pose == (1.8, 0.0, 0.0)
    assert min(distances([item.pose for item in made.robots])) >= 0.25 + ROBOT_GAP
    for item in made.carriers:
        assert math.hypot(item.pose[0] + 1.0, item.pose[1]) > 0.125 + math.hypot(0.33, 0.33) / 2


@pytest.mark.parametrize("seed", range(10))
def test_joined_carriers_and_wide_gaps_keep_clear(seed):
    row = [[i, 0] for i in range(8)]
    made = scene(
        seed,
        robots=[{"count": 1, "place": {"poses": [[2.2, 2.2, 0]]}}],
        carriers=[
            {"count": 2, "place": {"zone": "anywhere", "gap": 0.1}},
            {"count": 1, "joined": row, "place": {"zone": "anywhere", "gap": 0.05}},
        ],
    )
    first = [item.pose for item in made.carriers if item.body < 2]
    joined = [item.pose for item in made.carriers if item.body == 2]
    apart = [math.hypot(a[0] - b[0], a[1] - b[1]) for a in first for b in joined]
    assert min(apart) > 0.33
    assert len(joined) == 8


def test_robots_of_two_groups_go_on_counting():
    group = {"count": 2, "place": {"zone": "drop"}}
    made = scene(robots=[group, {**group, "kind": "epuck2"}, group])
    assert [placement.name for placement in made.robots] == [
        "dots1",
        "dots2",
        "epuck21",
        "epuck22",
        "dots3",
        "dots4",
    ]


def test_nothing_is_placed_in_an_obstacle():
    box = {"shape": "box", "size": [2.0, 4.8], "pose": [-1.4, 0.0, 0.0]}
    pillar = {"shape": "cylinder", "radius": 0.5, "pose": [1.9, 0.0, 0.0]}
    robots = [{"count": 8, "place": {"zone": "anywhere"}}]
    for seed in range(10):
        made = scene(seed, obstacles=[box, pillar], robots=robots, carriers=[])
        for placement in made.robots:
            x, y, _ = placement.pose
            assert not (-2.4 - 0.125 < x < -0.4 + 0.125 and abs(y) < 2.4 + 0.125)
            assert math.hypot(x - 1.9, y) > 0.625
    assert made.segments().shape == (8, 4)
    assert made.pillars().tolist() == [[1.9, 0.0, 0.5]]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"robots": [{"place": {"poses": [[0, 0, 0], [0.2, 0, 0]]}}]},
            r"robots.0.place.poses.1: .*another dots",
        ),
        ({"robots": [{"place": {"poses": [[2.45, 0, 0]]}}]}, r"poses.0: .*a wall"),
        ({"robots": [{"place": {"poses": [[9.0, 0, 0]]}}]}, r"poses.0: .*outside"),
        ({"robots": [{"count": 500, "place": {"zone": "drop"}}]}, r"robots.0.count: 500 do not fit"),
        ({"robots": [{"count": 0, "place": {"zone": "drop"}}]}, "robots: the scenario has no robots"),
        ({"robots": [{"count": 1, "kind": "tank", "place": {"zone": "drop"}}]}, "'tank' is not in"),
        (
            {
                "robots": [
                    {"count": 11, "name": "a", "place": {"zone": "anywhere"}},
                    {"count": 1, "name": "a1", "place": {"zone": "drop"}},
                ]
            },
            "two things called a11",
        ),
        (
            {"robots": [{"count": 1, "name": "carrier", "place": {"zone": "drop"}}]},
            "two things called carrier1",
        ),
        (
            {
                "robots": [{"place": {"poses": [[-0.9, 0.15, 0]]}}],
                "carriers": [{"place": {"poses": [[-1.0, 0, 0]]}}],
            },
            "robots.0.place.poses.0: .*a leg of carrier1",
        ),
        ({"carriers": [{"place": {"poses": [[0, 0, 0], [0.32, 0, 0]]}}]}, "poses.1: .*carrier1"),
        ({"carriers": [{"place": {"poses": [[0, 2.4, 0]]}}]}, "poses.0: .*outside"),
        (
            {
                "obstacles": [{"shape": "cylinder", "radius": 0.1, "pose": [0.2, 0, 0]}],
                "carriers": [{"place": {"poses": [[0, 0, 0]]}}],
            },
            "carriers.0.place.poses.0: .*an obstacle",
        ),
        ({"arena": "moon"}, "'moon' is not in worlds"),
        ({"arena": "empty"}, "has no zones"),
        (
            {"carriers": [{"count": 21, "place": {"zone": "anywhere", "gap": 0.0}}]},
            "more carriers than the 20",
        ),
        ({"carriers": [{"count": 1, "payload": 2.5, "place": {"zone": "search"}}]}, "payload: 2.5 kg"),
        ({"robots": [{"count": 1, "place": {"area": {"x_min": 3.0}}}]}, "empty or has no bounds"),
        (
            {
                "obstacles": [{"shape": "box", "size": [1, 1], "pose": [0, 0, 0.5]}],
                "robots": [{"place": {"poses": [[0, 0, 0]]}}],
            },
            "an obstacle",
        ),
        (
            {
                "robots": [
                    {"count": 1, "crowd": True, "place": {"zone": "drop"}},
                    {"count": 1, "place": {"zone": "drop"}},
                ]
            },
            "beside a crowd, all groups must be of the crowd",
        ),
    ],
)
def test_what_cannot_be_is_told(changes, told):
    with pytest.raises(ConfigError, match=told):
        scene(**changes)


def test_legs_are_flush_with_the_trays_corners():
    legs = legs_of(RobotSpec.load("dots").carrier)
    assert np.abs(legs) == pytest.approx(np.full((4, 2), 0.15))
    assert len({tuple(np.sign(leg)) for leg in legs}) == 4


WIDE = {"area": {"x_min": -900, "x_max": 900, "y_min": -900, "y_max": 900}}
LINE = {"line": {"start": [0, 0, 0], "spacing": 0.5}}


@pytest.mark.parametrize(
    ("robots", "carriers", "told"),
    [
        ([{"count": 100_000, "crowd": True, "place": WIDE}] * 2, [], "200,000 of them; at most 100,000"),
        (
            [{"count": 5001, "place": WIDE}],
            [],
            "5,001 with on-board software .* and 100,000 with crowd: true",
        ),
        (
            [{"count": 1, "place": WIDE}],
            [{"count": 100_000, "place": LINE}],
            "more carriers than the 20 marker",
        ),
        (
            [{"count": 2, "place": {**WIDE, "gap": 1e6}}],
            [],
            "robots.0.count: 2 do not fit: no room found in 2,000 tries",
        ),
    ],
)
def test_what_would_take_all_memory_or_hours_is_rejected_at_once(robots, carriers, told):
    started = time.process_time()
    with pytest.raises(ConfigError, match=told):
        scene(arena="empty", robots=robots, carriers=carriers)
    assert time.process_time() - started < 20, "it was hours"


def test_sensors_of_all_robots_are_bounded(tmp_path):
    spec = read(find("dots", RobotSpec.FOLDER))
    spec["ranges"][0] |= {"angles": [0.01 * i for i in range(600)], "rays": 100}
    file = tmp_path / "many.yaml"
    file.write_text(yaml.safe_dump(spec))
    with pytest.raises(ConfigError, match="60,000,000 rays; at most 20,000,000 are accepted"):
        scene(arena="empty", robots=[{"kind": str(file), "count": 1000, "place": WIDE}], carriers=[])


def test_all_tries_together_are_bounded(monkeypatch):
    monkeypatch.setattr("swarmbed_core.scene.ALL_TRIES", 20)
    with pytest.raises(ConfigError, match="no room found in 20 tries for all objects"):
        scene(robots=[{"count": 40, "place": {"zone": "anywhere"}}], carriers=[])


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"kind": "convoy_car", "battery": "cubic"}, r"robots\.0\.battery: a convoy_car has no battery"),
        (
            {"kind": "dots", "battery": "cubic"},
            r"robots\.0\.battery: there are no discharge models for a dots",
        ),
        ({"kind": "epuck2", "battery": "nuclear"}, r"unknown model 'nuclear'; available: simple, linear"),
        ({"kind": "epuck2", "crowd": {"battery": "cubic"}}, r"moved; write `battery` beside `crowd`"),
        ({"kind": "epuck2", "crowd": True, "battery": "cubic"}, r"all groups must .*the same options"),
    ],
)
def test_discharge_models_are_those_of_the_kind(group, message):
    first = {"count": 1, "place": {"zone": "drop"}, **group}
    second = {"kind": "epuck2", "count": 1, "place": {"zone": "drop"}, "crowd": group.get("crowd", False)}
    with pytest.raises(ConfigError, match=message):
        scene(robots=[first, second])
