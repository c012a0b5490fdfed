"""What setup compiles is what runs use."""

from __future__ import annotations

import pytest
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.runs import warm
from swarmbed_experiments.runs.scenarios import load_scenario, make_plan


@pytest.mark.parametrize(("name", "sets"), warm.cases())
def test_the_cases_can_be_made(name, sets):
    if name == "convoy_devs":
        pytest.importorskip("xdevs", reason="needs xdevs: scripts/setup --devs")
    assert make_plan(*load_scenario(name, sets)).scene.robots


def test_all_run(monkeypatch):
    monkeypatch.setattr(warm, "SECONDS", 0.2)
    ran = []
    real = warm.warm_up
    monkeypatch.setattr(warm, "warm_up", lambda *case: (real(*case), ran.append(case[1])))
    warm.main()
    assert len(ran) >= len(warm.cases()) - 1


def test_who_lacks_an_optional_library_gets_the_other_kernels(monkeypatch):
    monkeypatch.setattr("swarmbed_behaviours.devs.find_spec", lambda _: None)
    monkeypatch.setattr(warm, "cases", lambda: [("convoy_devs", ("robots.0.count=3",))])
    warm.main()
    monkeypatch.setattr(warm, "cases", lambda: [("convoy_devs", ("robots.0.count=3", "arena=atlantis"))])
    with pytest.raises(ConfigError, match="atlantis"):
        warm.main()
