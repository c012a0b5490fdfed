"""Metrics: each has a unit, and what matters most comes first."""

import sys

from swarmbed_core.scenario import Scenario
from swarmbed_experiments.runs.metrics import METRICS, by_rank, in_words, label_of, rank_of, unit_of, units_of

OWN = """
from swarmbed_core.controller import NoParameters

class Crowdedness:
    Parameters = NoParameters
    UNITS = {"nearest": "m", "clusters": ""}
    def __init__(self, parameters, setting): ...
"""


def test_units_come_from_the_part_the_list_or_the_name():
    assert unit_of("completion_seconds") == "s"
    assert unit_of("energy_wh") == "Wh"
    assert unit_of("distances.dots1") == "m"
    assert unit_of("my_own_wait_seconds") == "s"
    assert unit_of("metrics.wait_seconds") == "s"
    assert unit_of("clusters") == ""
    assert unit_of("nearest", {"nearest": "cm"}) == "cm"
    assert unit_of("energy_wh", {"energy_wh": "J"}) == "J"
    assert label_of("nearest", {"nearest": "cm"}) == "nearest (cm)"
    assert label_of("collisions") == "collisions between robots"
    assert in_words("nearest") == "nearest"


def test_results_of_tasks_come_first_and_own_metrics_before_details():
    assert by_rank(["messages", "mine", "completion_seconds", "max_speed"]) == [
        "completion_seconds", "mine", "messages",
    ]  # fmt: skip
    assert rank_of("light_poses") is None
    ranks = [metric.rank for metric in METRICS.values() if metric.rank is not None]
    assert len(ranks) == len(set(ranks))


def test_parts_of_a_users_own_declare_units(tmp_path, monkeypatch):
    (tmp_path / "my_crowdedness.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("my_crowdedness", None)
    scenario = Scenario.model_validate(
        {
            "version": 1, "title": "t", "time_limit": 1, "controller": {"name": "nobody"},
            "robots": [{"count": 1, "place": {"zone": "drop"}}],
            "frame": {"transducers": [{"name": "travel"}, {"name": "my_crowdedness:Crowdedness"}]},
        }
    )  # fmt: skip
    assert units_of(scenario) == {"nearest": "m", "clusters": ""}
