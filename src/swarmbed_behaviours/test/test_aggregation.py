import math

import numpy as np
import pytest
from swarmbed_behaviours.aggregation import (
    Aggregation,
    AggregationParameters,
    Neighbourhood,
    RunAndTumble,
    finder_of,
)
from swarmbed_core.arena import Arena
from swarmbed_core.device import RadioPacket
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.robot import Senses
from swarmbed_core.spec import RobotSpec


def distances(poses):
    """Return the distances of all pairs of robots."""
    i, j = np.triu_indices(len(poses), 1)
    return np.hypot(*(poses[i, :2] - poses[j, :2]).T)


@pytest.mark.parametrize("seed", [1, 2])
def test_robots_end_in_a_cluster_and_hit_nobody(seed):
    starts = [(-1.2, -1.2, 0.0), (1.2, 1.0, 1.0), (-1.0, 1.2, 2.0), (1.2, -1.1, 3.0)]
    arena = Arena.model_validate({"version": 1, "title": "room", "size": (3.2, 3.2)})
    spec = RobotSpec.load("dots")
    world = MemoryWorld([Placement(f"dots{i}", spec, at) for i, at in enumerate(starts)], arena, seed=seed)
    swarm = LocalSwarm(world)
    seeds = np.random.SeedSequence(seed).spawn(4)
    programs = [
        Aggregation(robot, AggregationParameters(), np.random.default_rng(child))
        for robot, child in zip(swarm.robots, seeds, strict=True)
    ]
    assert distances(world.truth()).mean() > 2.0
    least = math.inf
    for _ in range(1000):
        for program in programs:
            program.tick()
        swarm.run(0.1)
        least = min(least, distances(world.truth()).min())
        if all(program.doing == "gathered" for program in programs):
            break
    assert {program.doing for program in programs} == {"gathered"}
    assert distances(world.truth()).max() < 1.6
    assert distances(world.truth()).mean() < 1.1
    assert least > 2 * spec.body.radius


def test_runs_go_on_while_it_gets_better_and_turn_when_it_gets_worse():
    runs = RunAndTumble(np.random.default_rng(1), 1.0, 0.0)
    first = runs.update(0.0, 5.0, blocked=False)
    assert runs.update(0.5, 9.0, blocked=False) == first
    assert runs.update(1.0, 4.0, blocked=False) == first
    second = runs.update(2.0, 4.5, blocked=False)
    assert second != first
    assert runs.update(2.1, 1.0, blocked=True) != second


def test_a_search_by_runs_finds_the_minimum():
    found = []
    for seed in range(20):
        runs = RunAndTumble(np.random.default_rng(seed), 1.0, 0.0)
        place = np.array([3.0, 0.0])
        for k in range(600):
            direction = runs.update(0.1 * k, float(np.hypot(*place)), blocked=False)
            place += 0.03 * np.array([math.cos(direction), math.sin(direction)])
        found.append(np.hypot(*place))
    assert np.median(found) < 0.7


def heard(now, **packets):
    return Senses(now, np.zeros(3), np.zeros(3), heard={"uwb": tuple(packets.values())})


def test_distances_are_smoothed_and_forgotten():
    others = Neighbourhood(finder_of(RobotSpec.load("dots"), "test"))
    assert others.radio.name == "uwb"
    assert others.mean() == math.inf
    others.listen(heard(0.0, a=RadioPacket(0.0, "a", distance=1.0), b=RadioPacket(0.0, "b", distance=3.0)))
    assert others.distances() == pytest.approx([1.0, 3.0])
    others.listen(heard(0.1, a=RadioPacket(0.1, "a", distance=2.0)))
    assert 1.0 < others.distances()[0] < 1.3
    others.listen(heard(2.05))
    assert len(others.distances()) == 1
    others.listen(heard(5.0))
    assert others.distances() == []


def test_power_tells_a_distance_too():
    spec = RobotSpec.load("dots")
    ble = spec.radios[0].model_copy(update={"name": "uwb"})
    others = Neighbourhood(ble)
    assert others.measures
    others.listen(heard(0.0, a=RadioPacket(0.0, "a", rssi=-75.0)))
    assert others.mean() == pytest.approx(10.0)


def test_who_cannot_tell_how_far_others_are_is_refused():
    with pytest.raises(
        ConfigError, match=r"aggregation: radio 'wifi' of a robot of kind 'epuck2' measures no dist"
    ):
        Aggregation(
            LocalSwarm(MemoryWorld.of(["epuck2"])).robots[0],
            AggregationParameters(),
            np.random.default_rng(1),
        )
    mute = RobotSpec.load("dots").model_copy(update={"radios": ()})
    with pytest.raises(ConfigError, match="test: a robot of kind 'dots' has no radio"):
        finder_of(mute, "test")
    assert not Neighbourhood(finder_of(RobotSpec.load("pera_swarm"), "test")).measures
