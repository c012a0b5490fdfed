"""A controller's class and parameters, by what a scenario says."""

from __future__ import annotations

import sys

import pytest
from swarmbed_core.controller import NoParameters, find_controller
from swarmbed_core.errors import ConfigError

SOURCE = """
from swarmbed_core.config import Part
from swarmbed_core.controller import NoParameters

class Walk:
    class Parameters(Part):
        speed: float = 0.5
    doing = "walk"
    def __init__(self, robot, parameters, rng): ...
    def tick(self): ...

class Bare:
    Parameters = NoParameters
    def __init__(self, robot, parameters, rng): ...

class Wrong:
    pass
"""


@pytest.fixture(autouse=True)
def programs(tmp_path, monkeypatch):
    (tmp_path / "programs_of_mine.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("programs_of_mine", None)


def test_parameters_are_checked():
    found, parameters = find_controller("programs_of_mine:Walk", {"speed": 0.25}, "test.yaml")
    assert found.__name__ == "Walk"
    assert parameters.speed == 0.25
    assert find_controller("programs_of_mine:Bare", {}, "test.yaml")[1] == NoParameters()


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [
        ("Walk", {"speed": "fast"}, "test.yaml: controller programs_of_mine:Walk: speed: .*found 'fast'"),
        ("Walk", {"sped": 0.5}, "sped: unknown field"),
        ("Bare", {"speed": 0.5}, "speed: unknown field"),
        ("Wrong", {}, "is not a controller: expected a class with Parameters"),
    ],
)
def test_faults_are_told(name, parameters, told):
    with pytest.raises(ConfigError, match=told):
        find_controller(f"programs_of_mine:{name}", parameters, "test.yaml")
