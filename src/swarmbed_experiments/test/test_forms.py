"""Programs that drive crowds drive whole robots too, with the same results within noise."""

from __future__ import annotations

import numpy as np
import pytest
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario

WHOLE = "robots.0.crowd=false"


def run(name, *sets, seed=1):
    """Return metrics, track, and, outside a crowd, the robots' programs."""
    made = Run(*load_scenario(name, sets, seed=seed))
    try:
        summary = made.go()
        return summary["metrics"], made.track, made.controllers
    finally:
        made.close()


def both(name, *sets, seed=1):
    """Return what `run` does for a crowd, and for the same robots outside a crowd."""
    return run(name, *sets, seed=seed), run(name, *sets, WHOLE, seed=seed)


def test_wheels_at_given_speeds_lead_to_the_same_places():
    controller = "controller={name: epuck2_wheels, left: 0.06, right: 0.1, colour: [9, 9, 9]}"
    place = "robots.0.place={poses: [[-0.3, -0.3, 0.5], [0.3, 0.3, 2.0]]}"
    kept = "frame.transducers=[{name: travel}, {name: readings, sense: ground}]"
    sets = ["robots.0.count=2", "time_limit=6", place, controller, kept, "arena=epuck2_quarters"]
    sets.append("robots.0.crowd={step: 0.1}")
    (crowd, its, _), (whole, own, _) = both("epuck2_50", *sets)
    assert own.poses[-1, :, :2] == pytest.approx(its.poses[-1, :, :2], abs=0.02)
    assert whole["distance_per_robot"] == pytest.approx(crowd["distance_per_robot"], rel=0.05)
    assert len(whole["ground"]) == len(crowd["ground"]) == 60
    # They cross from one grey to the next within some ticks of each other.
    same = np.array(whole["ground"]) == np.array(crowd["ground"])
    assert same.mean() > 0.9


def test_a_walk_covers_the_same_distance_and_does_not_bump():
    kept = "frame.transducers=[{name: travel}, {name: contacts}]"
    sets = ["robots.0.count=6", "time_limit=30", "noise=true", kept]
    (crowd, *_), (whole, *_) = both("epuck2_50", *sets)
    assert whole["distance_per_robot"] == pytest.approx(crowd["distance_per_robot"], rel=0.15)
    assert crowd["distance_per_robot"] > 2.0


TRANSPORT = (
    "controller.silence=30",
    "controller.destination=[-11.0, -20.0]",
    "robots.0.place={area: {x_min: -22, x_max: -18, y_min: -22, y_max: -18}, gap: 0.3}",
    "frame.acceptors=[{name: elapsed}]",
)


@pytest.mark.slow
def test_transport_finds_and_carries_in_both_forms():
    """Until robots meet, both forms take the same ways."""
    (crowd, *_), (whole, *_) = both("transport", *TRANSPORT, "robots.0.count=3", "time_limit=200")
    assert crowd["items"] >= 4
    assert whole["items"] == pytest.approx(crowd["items"], abs=1)
    assert whole["with_route_when"] == pytest.approx(crowd["with_route_when"], abs=2.0)
    assert whole["seconds_per_item"] == pytest.approx(crowd["seconds_per_item"], rel=0.1)
    assert whole["distance_per_robot"] == pytest.approx(crowd["distance_per_robot"], rel=0.05)


@pytest.mark.slow
def test_transport_shares_routes_in_both_forms():
    (crowd, *_), (whole, _, programs) = both("transport", *TRANSPORT, "robots.0.count=5", "time_limit=400")
    assert crowd["routes_given"] > 0
    assert any(program.carrier.got == "given" for program in programs)
    assert whole["items"] == pytest.approx(crowd["items"], rel=0.5)
    assert whole["messages_heard"] > 1000
