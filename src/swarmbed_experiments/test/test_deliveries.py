"""Deliveries: who does not explore any more takes an item at the source and leaves it at the destination."""

import numpy as np
import pytest
from swarmbed_core.config import check
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.frame import Look, Stand
from swarmbed_experiments.frame.deliveries import Delivered, Deliveries
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario

NAMES = ("dots1", "dots2")
ENDS = {"source": (0.0, 0.0), "destination": (10.0, 0.0)}


def make(kind, stage, **more):
    return kind(check({**ENDS, **more}, kind.Parameters, "t"), stage().setting)


def look(time, places, doing, speed=0.5):
    robots = np.array([(*place, 0.0, speed, 0.0, 0.0) for place in places])
    return Look(time, robots, None, (), doing, NAMES)


def go(part, steps):
    """Show a part where two robots are; the second always explores at the source."""
    for time, x, doing in steps:
        part(look(time, [(x, 0.0), (0.1, 0.0)], [doing, "explore"]))


TRIP = [
    (1.0, 9.5, "explore"),
    (2.0, 9.5, "to source"),
    (50.0, 5.0, "to source"),
    (100.0, 0.5, "to destination"),
    (101.0, 0.6, "to destination"),
    (150.0, 9.5, "to source"),
    (151.0, 9.4, "to source"),
    (250.0, 0.5, "to destination"),
    (300.0, 9.5, "to source"),
]


def test_who_carries_what(stage):
    part = make(Deliveries, stage)
    go(part.tick, TRIP)
    found = part.metrics()
    assert found["items_by_robot"] == [2, 0]
    assert found["items_when"] == [150.0, 300.0]
    assert found["with_route_when"] == [2.0]
    assert found["seconds_per_item"] == pytest.approx(150.0)
    assert part.row() == {"items": 2.0, "with_route": 1.0}


def test_who_explores_carries_nothing(stage):
    part = make(Deliveries, stage)
    go(part.tick, [(time, x, "explore") for time, x, _ in TRIP])
    assert part.metrics()["items"] == 0


def test_who_does_not_say_what_it_does_cannot_be_measured(stage):
    part = make(Deliveries, stage)
    with pytest.raises(RunError, match="does not say what each robot is doing"):
        part.tick(Look(0.1, np.zeros((2, 6)), None, (), (), NAMES))


def test_robots_that_stand_are_a_jam_and_those_that_explore_are_none(stage):
    part = make(Deliveries, stage)
    for n in range(1200):
        part.tick(look(0.1 * n, [(5.0, 0.0), (0.0, 5.0)], ["to source", "explore"], speed=0.0))
    found = part.metrics()
    assert found["jam_robots"] == pytest.approx(1.0, abs=0.05)
    assert found["jam_poses"][0] == [5.0, 0.0, 0.0]
    assert len(found["slow_robots"]) == 2


def test_places_are_the_controllers_if_not_given(stage):
    setting = stage().setting
    with pytest.raises(ConfigError, match="source: missing, and the controller has none either"):
        Deliveries(check({}, Deliveries.Parameters, "t"), setting)
    run = Run(*load_scenario("transport", ["robots.0.count=2", "controller.source=[-20.0, -18.0]"]))
    assert run.transducers[0]._ledger._source == (-20.0, -18.0)
    assert run.acceptors[0]._ledger._destination == (21.0, 0.0)
    run.close()


def test_so_many_items_suffice(stage):
    part = make(Delivered, stage, items=2)
    stands = []
    go(lambda seen: stands.append(part.judge(seen, over=False).stand), TRIP)
    assert stands == [Stand.OPEN] * 8 + [Stand.ACCEPTED]
    assert part.metrics() == {"completion_seconds": 300.0}
    short = make(Delivered, stage, items=3)
    go(lambda seen: short.judge(seen, over=False), TRIP)
    judgement = short.judge(look(400.0, [(5, 0), (5, 0)], ["to source", "explore"]), over=True)
    assert (judgement.stand, judgement.reason) == (Stand.OPEN, "2 of 3 items delivered in 6.7 min")
