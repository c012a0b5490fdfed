"""The convoy of DEVS models: phases, couplings through the air, and parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from swarmbed_behaviours.devs import RobotSenses, Who
from swarmbed_core.errors import ConfigError
from swarmbed_core.spec import RobotSpec

pytest.importorskip("xdevs", reason="needs xdevs: scripts/setup --devs")

from swarmbed_behaviours.convoy_devs import ConvoyRobot
from swarmbed_behaviours.devs_engine import Engine

SPEC = RobotSpec.load("convoy_car")


def robot(number, count=3, **parameters):
    return ConvoyRobot(Who("car", SPEC, np.random.default_rng(1), number, count), **parameters)


def test_a_robot_listens_to_its_neighbours():
    assert robot(0).listens == {"ahead": -1, "behind": 1}
    assert robot(1).listens == {"ahead": 0, "behind": 2}
    assert robot(2).listens == {"ahead": 1, "behind": -1}


class Logged(ConvoyRobot):
    """Notes the phases in which it says something."""

    def lambdaf(self):
        self.phases = [*getattr(self, "phases", []), self.phase]
        super().lambdaf()


def test_a_round_goes_through_the_phases_of_the_study():
    """The second is told that the first went on; it follows, looks for it, and informs the neighbours."""
    second = Logged(Who("car", SPEC, np.random.default_rng(1), 1, 2), adjust="find")
    engine = Engine([second], 0.0)
    ports = {port.name: port for port in (*second.in_ports, *second.out_ports)}
    told = []
    for tick in range(60):
        sees = 0.37 if second.phase == "adjust" else math.inf
        senses = RobotSenses(
            0.1 * tick, np.array([sees, math.inf, math.inf]), np.zeros(3), 0.0, 0.0, np.zeros(3)
        )
        given = [(ports["senses"], senses), (ports["ahead"], np.array([1.0, 0.2, 0.2, 0.0]))]
        told += engine.advance(0.1 * tick, given, [ports["tell"]])
    assert list(dict.fromkeys(second.phases)) == ["predict and turn", "move", "adjust", "inform", "wait"]
    assert second.phases.count("inform") == 1
    rounds, turn, way, _ = told[-1][1]
    assert rounds == 1.0
    x, y = 0.4 + 0.2 * math.cos(0.2), 0.2 * math.sin(0.2)
    assert turn == pytest.approx(math.atan2(y, x))
    assert way == pytest.approx(math.hypot(x, y) - 0.4)


def test_what_it_has_told_stays_as_it_was():
    first = robot(0, 1)
    before = first.member.words
    first.member.state[:] = 7.0
    assert not before.any()


def test_metrics_are_those_of_a_convoy():
    robots = [robot(k) for k in range(3)]
    assert ConvoyRobot.metrics(robots) == {
        "convoy_rounds": 0.0,
        "convoy_adjustments_per_robot": 0.0,
        "convoy_lost": 0,
    }


def test_wrong_parameters_are_told():
    with pytest.raises(ConfigError, match="trust"):
        robot(0, trust=2)
