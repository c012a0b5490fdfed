"""Metrics: each has a unit, and what matters most comes first."""

import re
import sys
from importlib.metadata import entry_points

from swarmbed_core.errors import ConfigError
from swarmbed_core.metric import Metric
from swarmbed_core.plugins import ACCEPTORS, CONTROLLERS, TRANSDUCERS
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.runs import metrics
from swarmbed_experiments.runs.metrics import (
    by_rank,
    declared,
    in_words,
    label_of,
    rank_of,
    unit_of,
    units_of,
)

PARTS = (TRANSDUCERS, ACCEPTORS, CONTROLLERS)
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
    ranks = [metric.rank for metric in declared().values() if metric.rank is not None]
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


def test_packages_declare_metrics_and_harm_no_other(monkeypatch):
    found = {
        "broken": ConfigError("it cannot be imported"),
        "a_package": {"wait": Metric("wait, mean", "s", 2), "collisions": Metric("mine"), "bad": "words"},
        "no_mapping": 5,
        "swarmbed_experiments": {"collisions": Metric("collisions between robots", "", 40)},
    }

    def find(_, name):
        if isinstance(found[name], Exception):
            raise found[name]
        return found[name]

    monkeypatch.setattr(metrics, "known", lambda _: sorted(found))
    monkeypatch.setattr(metrics, "find_plugin", find)
    declared.cache_clear()
    try:
        assert (label_of("wait"), rank_of("wait")) == ("wait, mean (s)", 2)
        assert in_words("collisions") == "collisions between robots"
        assert (in_words("bad"), rank_of("bad")) == ("bad", metrics.OWN_RANK)
    finally:
        declared.cache_clear()


def test_the_metrics_of_shipped_parts_are_declared():
    points = [point for group in PARTS for point in entry_points(group=group)]
    ours = [point.load() for point in points if point.module.startswith("swarmbed_")]
    names = {
        name.strip()
        for made in ours
        for text in re.findall(r"^    Metrics:\n((?:        .*\n|\n)+)", made.__doc__ or "", re.MULTILINE)
        for words in re.findall(r"^        (\w+(?:, \w+)*):", text, re.MULTILINE)
        for name in words.split(",")
    }
    assert len(names) > 30
    assert sorted(name for name in names - set(declared()) if "SENSE" not in name) == []
