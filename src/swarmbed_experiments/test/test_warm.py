"""What setup compiles is what runs use."""

from __future__ import annotations

import pytest
from swarmbed_experiments.runs import warm
from swarmbed_experiments.runs.scenarios import load_scenario, make_plan


@pytest.mark.parametrize(("name", "sets"), warm.CASES)
def test_the_cases_can_be_made(name, sets):
    assert make_plan(*load_scenario(name, sets)).scene.robots


def test_all_run(monkeypatch):
    monkeypatch.setattr(warm, "SECONDS", 0.2)
    ran = []
    real = warm.warm_up
    monkeypatch.setattr(warm, "warm_up", lambda *case: (real(*case), ran.append(case[1])))
    warm.main()
    assert len(ran) == len(warm.CASES)
