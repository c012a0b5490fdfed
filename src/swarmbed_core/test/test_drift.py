"""The covariance of dead reckoning: that errors are as large as it says."""

import numpy as np
import pytest
from swarmbed_core.drift import LEAST, PERIOD, Drift
from swarmbed_core.geometry import wrap
from swarmbed_core.local import LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.robot import Command
from swarmbed_core.spec import RobotSpec


def driven(kind, seed, seconds=10.0):
    """The error of odometry after a drive, and the standard deviations that are told of it."""
    world = MemoryWorld.of([kind], arena="empty", seed=seed)
    swarm, rng = LocalSwarm(world), np.random.default_rng(seed)
    [robot] = swarm.robots
    drift = Drift(robot.spec)
    while world.time < seconds:
        if round(world.time / world.timestep) % 100 == 0:
            velocity = rng.uniform(-0.5, 0.5, 3) * (1.0, robot.spec.holonomic, 2.0)
        robot.act(Command(velocity_body=velocity))
        swarm.step()
        if drift.due(world.time):
            drift.update(world.time, robot.onboard.filter.odometry.pose)
    error = robot.onboard.filter.odometry.pose - world.truth()[0, :3]
    error[2] = wrap(error[2])
    return error, np.sqrt(np.diag(drift.covariance))


@pytest.mark.parametrize("kind", ["dots", "pioneer3dx", "convoy_car"])
def test_errors_are_as_large_as_it_says(kind):
    errors, sigmas = zip(*(driven(kind, seed) for seed in range(16)), strict=True)
    ratio = np.sqrt(np.mean(np.square(errors), axis=0) / np.mean(np.square(sigmas), axis=0))
    assert (ratio < 1.8).all(), ratio
    assert (ratio > 0.35).all(), ratio


def test_it_grows_from_nearly_nothing_and_stays_a_covariance(any_spec):
    drift = Drift(any_spec)
    drift.update(0.0, np.zeros(3))
    assert drift.covariance == pytest.approx(LEAST * np.eye(3), abs=1e-12)
    before = np.diag(drift.covariance)
    for k in range(1, 400):
        pose = np.array([np.cos(0.1 * k), np.sin(0.1 * k), wrap(0.1 * k)])
        drift.update(k * PERIOD, 0.1 * pose)
    assert (np.diag(drift.covariance) > before).all()
    assert np.linalg.eigvalsh(drift.covariance).min() > 0
    assert np.allclose(drift.covariance, drift.covariance.T)


def test_a_clock_that_was_set_back_adds_nothing_and_does_not_stop_it():
    drift = Drift(RobotSpec.load("dots"))
    drift.update(100.0, np.zeros(3))
    drift.update(101.0, np.array([0.3, 0.0, 0.0]))
    before = drift.covariance
    assert drift.due(5.0)
    drift.update(5.0, np.array([0.3, 0.1, 0.0]))
    assert np.array_equal(drift.covariance, before)
    assert not drift.due(5.05)
    assert drift.due(5.0 + PERIOD)
