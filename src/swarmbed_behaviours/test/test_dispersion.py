import math

import numpy as np
import pytest
from swarmbed_behaviours.dispersion import Dispersion, DispersionParameters, push, room_of
from swarmbed_core.arena import Arena
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.spec import RobotSpec


def distances(poses):
    """Return the distances of all pairs of robots."""
    i, j = np.triu_indices(len(poses), 1)
    return np.hypot(*(poses[i, :2] - poses[j, :2]).T)


def spread(kind, side, count, seconds, seed, **parameters):
    """Start robots close together; return the world, their programs and the smallest distance on the way."""
    spec = RobotSpec.load(kind)
    step = 2.6 * spec.body.bounding_radius
    starts = [((i % 2 - 0.5) * step, (i // 2 - 0.5) * step, 0.7 * i) for i in range(count)]
    arena = Arena.model_validate({"version": 1, "title": "room", "size": (side, side)})
    world = MemoryWorld([Placement(f"r{i}", spec, at) for i, at in enumerate(starts)], arena, seed=seed)
    swarm = LocalSwarm(world)
    seeds = np.random.SeedSequence(seed).spawn(count)
    programs = [
        Dispersion(robot, DispersionParameters(**parameters), np.random.default_rng(child))
        for robot, child in zip(swarm.robots, seeds, strict=True)
    ]
    least = math.inf
    for _ in range(round(seconds * 10)):
        for program in programs:
            program.tick()
        swarm.run(0.1)
        least = min(least, distances(world.truth()).min())
    return world, programs, least


@pytest.mark.parametrize("seed", [1, 2])
def test_robots_make_room_and_come_to_rest(seed):
    world, programs, least = spread("dots", 4.0, 4, 25, seed)
    assert distances(world.truth()).min() > 0.9
    assert least > 0.25
    assert {program.doing for program in programs} == {"spread"}
    assert np.abs(world.truth()[:, 3:]).max() < 0.02
    assert np.abs(world.truth()[:, :2]).max() < 2.0 - 0.125


def test_small_robots_make_room_as_far_as_they_see():
    spec = RobotSpec.load("epuck2")
    assert room_of(spec) == pytest.approx(0.04)
    world, _, least = spread("epuck2", 1.0, 4, 20, 1, room=0.05)
    assert distances(world.truth()).min() > 0.095
    assert least > 0.07


def test_who_sees_only_ahead_goes_until_nobody_is_heard():
    world, programs, _ = spread("pera_swarm", 3.0, 2, 60, 3)
    assert distances(world.truth()).min() > 0.5
    assert {program.doing for program in programs} <= {"spread", "run"}


def test_the_push_is_away_and_the_stronger_the_nearer():
    near, direction = push(np.array([(0.3, 0.0)]), 0.1, 1.0)
    far, _ = push(np.array([(0.6, 0.0)]), 0.1, 1.0)
    assert near > far > 0.0
    assert abs(direction) == pytest.approx(math.pi)
    # Two returns of one thing push no more than one; opposite things hold each other off.
    assert push(np.array([(0.3, 0.0), (0.31, 0.01)]), 0.1, 1.0)[0] == pytest.approx(near)
    assert push(np.array([(0.3, 0.0), (-0.3, 0.0)]), 0.1, 1.0)[0] == pytest.approx(0.0, abs=1e-12)
    assert push(np.array([(1.2, 0.0)]), 0.1, 1.0)[0] == 0.0
    assert push(np.empty((0, 2)), 0.1, 1.0) == (0.0, 0.0)


def test_who_neither_sees_all_round_nor_hears_is_refused():
    robot = LocalSwarm(MemoryWorld.of(["pera_swarm"])).robots[0]
    robot.onboard.device.__dict__["spec"] = robot.spec.model_copy(update={"radios": ()})
    with pytest.raises(ConfigError, match=r"without distance sensors all round: .* has no radio"):
        Dispersion(robot, DispersionParameters(), np.random.default_rng(1))
