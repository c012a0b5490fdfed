"""Transducers measure what they say."""

import math
from dataclasses import replace

import numpy as np
import pytest
from swarmbed_core.config import check
from swarmbed_core.controller import NoParameters
from swarmbed_core.world import Contact
from swarmbed_experiments.frame.transducers import (
    Carriers,
    Contacts,
    Convoy,
    Energy,
    Formation,
    Localisation,
    Messages,
    Travel,
    off_places,
    turns,
)


def make(kind, stage):
    return kind(NoParameters(), stage.setting)


def test_turns_go_the_short_way_round():
    assert turns(np.array([0.0, 2 * math.pi + 0.1, -0.2, math.pi + 0.1])) == pytest.approx(
        [0.0, 0.1, 0.2, math.pi - 0.1]
    )


def test_carriers_are_retrieved_when_they_stand_in_the_drop_zone(stage):
    here = stage(carriers=[{"count": 3, "place": {"zone": "search"}}])
    part, world = make(Carriers, here), here.world
    part.tick(here.look(0.1))
    world.carried_by[0] = 1
    part.tick(here.look(0.2))
    assert part.row() == {"carriers_retrieved": 0, "carriers_carried": 1}
    world.carried_by[0] = -1
    world.carrier_poses[:, 0] = (1.3, 1.3, 1.2)
    world.lifts[1] = 0.01
    part.tick(here.look(0.3))
    assert part.metrics() == {"carriers_retrieved": 1, "carriers": 3, "lifts": 1}
    assert [(event.kind, event.who) for event in here.setting.events] == [
        ("lifted", "dots2"),
        ("lowered", "dots2"),
        ("retrieved", "carrier1"),
    ]


def test_without_a_drop_zone_nothing_is_retrieved(stage):
    robots = [{"place": {"poses": [[0, 0, 0]]}}]
    here = stage(arena="empty", robots=robots, carriers=[{"place": {"poses": [[5, 0, 0]]}}])
    part = make(Carriers, here)
    part.tick(here.look(0.1))
    assert part.row()["carriers_retrieved"] == 0


def test_travel_adds_up_ways(stage):
    here = stage(robots=[{"place": {"poses": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]}}])
    part = make(Travel, here)
    for k in range(1, 11):
        part.tick(here.look(k / 10, [[0.0, 0.03 * k, 0, 0.3, 0.4, 0], [1.0, 0.0, 0, 0, 0, 0]]))
    metrics = part.metrics()
    assert metrics["distances"] == pytest.approx({"dots1": 0.3, "dots2": 0.0})
    assert metrics["distance_per_robot"] == pytest.approx(0.15)
    assert metrics["max_speed"] == pytest.approx(0.5)


def test_contacts_are_told_apart(stage):
    here = stage()
    part = make(Contacts, here)
    part.tick(here.look(0.1, contacts=[Contact(0.05, "dots1", "dots2", 0.08)]))
    part.tick(
        here.look(
            0.2,
            contacts=[
                Contact(0.15, "dots1", "wall", 0.4),
                Contact(0.15, "dots2", "carrier1", 0.2),
                Contact(0.16, "carrier1", "carrier2", 0.2),
                Contact(0.17, "dots1", "dots2", 0.02),
            ],
        )
    )
    assert part.metrics() == {
        "collisions": 2,
        "contacts_with_carriers": 2,
        "contacts_with_walls": 1,
        "max_approach_speed": 0.08,
        "max_contact_speed": 0.4,
    }
    assert [event.who for event in here.setting.events] == ["dots1", "dots1"]


def test_nobody_touched_anybody(stage):
    assert make(Contacts, stage()).metrics()["max_approach_speed"] == 0


def test_energy_and_messages_are_the_worlds(stage):
    here = stage()
    for _ in range(100):
        here.world.step()
    assert make(Energy, here).metrics() == {"energy_wh": pytest.approx(2 / 3600)}
    assert make(Messages, here).metrics() == {"messages": 3, "messages_heard": 2, "messages_lost": 1}


class Filter:
    def __init__(self, pose):
        self.localised = pose is not None
        self.pose = np.array(pose or (0, 0, 0))


class Robot:
    def __init__(self, pose):
        self.onboard = type("Onboard", (), {"filter": Filter(pose)})()


def test_localisation_is_of_those_that_know_a_pose(stage):
    here = stage()
    here.setting.robots = [Robot((1.0, 0.0, 0.0)), Robot(None)]
    part = make(Localisation, here)
    assert math.isnan(part.metrics()["localisation_error_mean"])
    part.tick(here.look(0.1, [[1.0, 0.3, 0, 0, 0, 0], [5, 5, 0, 0, 0, 0]]))
    part.tick(here.look(0.2, [[1.0, 0.1, 0, 0, 0, 0], [5, 5, 0, 0, 0, 0]]))
    assert part.row() == {"localisation_error": pytest.approx(0.1)}
    assert part.metrics() == {
        "localisation_error_mean": pytest.approx(0.2),
        "localisation_error_max": pytest.approx(0.3),
    }


def test_a_formation_error_is_the_way_off_a_place(stage):
    here = stage(carriers=[{"place": {"poses": [[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]}}])
    part = make(Formation, here)

    def see(angle, off):
        c, s = math.cos(angle), math.sin(angle)
        places = np.array([[0.0, 0.0], [1.0 + off, 0.0]])
        xy = places @ np.array([[c, s], [-s, c]])
        look = here.look(1.0, [[*xy[i], angle, 0, 0, 0] for i in range(2)])
        look.carriers.carried_by[:] = [0, 1]
        look.carriers.poses[:] = [[0, 0, angle], [c, s, angle]]
        part.tick(look)

    part.tick(here.look(0.5))
    assert math.isnan(part.metrics()["formation_error_max"])
    see(0.0, 0.0)
    see(1.0, 0.0)
    assert part.metrics()["formation_error_max"] == pytest.approx(0.0, abs=1e-12)
    see(2.0, 0.03)
    see(3.0, 0.01)
    assert part.row()["formation_error"] == pytest.approx(0.01)
    assert part.metrics()["formation_error_max"] == pytest.approx(0.03)
    assert part.metrics()["formation_turn_max"] == pytest.approx(0.0, abs=1e-9)


def line(robots, time, here):
    rows = np.zeros((len(robots), 6))
    rows[:, :3] = robots
    return replace(here.look(time), robots=rows)


def test_the_error_of_a_convoy_is_that_of_formulas_4_to_7(stage):
    here = stage(robots=[{"count": 3, "place": {"zone": "drop"}}])
    measure = Convoy(
        check({"distance": 0.5, "settling": 1.0, "period": 1.0}, Convoy.Parameters, "t"), here.setting
    )
    straight = [(0.0, 0.0, 0.0), (-0.5, 0.0, math.pi / 2), (-0.5, -0.5, 0.0)]
    assert off_places(np.array(straight), 0.5) == pytest.approx([0.0, 0.0, 0.0])
    # The second is 0.3 m to the side of its place; the third is 0.4 m farther back than its.
    off = [(1.0, 0.0, 0.0), (0.5, 0.3, 0.0), (-0.4, 0.3, 0.0)]
    assert off_places(np.array(off), 0.5) == pytest.approx([0.0, 0.3, 0.4])
    for tick in range(1, 31):
        measure.tick(line(straight if tick <= 10 else off, tick / 10, here))
    assert measure.row()["convoy_error"] == pytest.approx(0.7 / 3)
    found = measure.metrics()
    assert found["convoy_error"] == pytest.approx(0.7 / 3), "the settling is left out"
    assert found["convoy_error_worst"] == pytest.approx(0.4)
    start = np.array(here.setting.scene.robots[0].pose[:2])
    assert found["convoy_speed"] == pytest.approx((math.hypot(*start) + 1.0) / 3.0)
    assert found["convoy_errors"] == pytest.approx([0.0, 0.0, 0.7 / 3, 0.7 / 3])
