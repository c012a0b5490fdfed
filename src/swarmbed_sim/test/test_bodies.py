"""Wheels and inertial sensors: against what the bodies did, and their specs' statistics."""

import math

import numpy as np
import pytest
from swarmbed_core.device import HOLD
from swarmbed_core.kinematics import Kinematics
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.errors import SimError

DOTS = RobotSpec.load("dots")


def test_wheels_count_what_the_body_did(world):
    w = world([(0.0, 0.0, 0.5)], noise=False)
    w.drive("dots1", (0.4, -0.2, 1.0))
    w.run(1.0)
    truth = w.truth()[0]
    assert truth[3:] == pytest.approx([0.4, -0.2, 1.0])
    reading = w.device("dots1").motors.read()
    assert reading.travel == pytest.approx(Kinematics.of(DOTS).wheels((0.4, -0.2, 1.0)), abs=1e-9)
    assert reading.speeds == pytest.approx(reading.travel, abs=1e-9)
    assert reading.stamp == pytest.approx(1.0)


def test_a_body_that_is_held_turns_no_wheel(world, monkeypatch):
    w = world([(0.0, 0.0, 0.5)], noise=False)
    monkeypatch.setattr(w.physics, "advance", lambda *_: None)
    w.drive("dots1", (1.0, 0.0, 0.0))
    w.run(0.5)
    assert w.v_body[0] == pytest.approx([1.0, 0.0, 0.0])
    assert np.all(w.device("dots1").motors.read().travel == 0.0)


def test_wheels_are_no_faster_than_they_can_be(world):
    w = world([(0.0, 0.0, 0.0)], noise=False)
    w.device("dots1").motors.drive(np.array([100.0, 0.0, -100.0]), math.inf)
    w.run(0.05)
    assert np.abs(w.device("dots1").motors.read().speeds).max() == pytest.approx(2.5)
    w.device("dots1").motors.drive(np.array([math.nan, 0.0, 0.0]))
    w.step()
    assert np.all(w.truth()[0, 3:] == 0.0)


def test_slip_is_between_the_encoders_and_the_floor(world):
    w = world([(-2.0, 0.0, 0.0)], kind="pioneer3dx")
    w.device("pioneer3dx1").motors.drive(np.array([0.2, 0.2]), math.inf)
    w.run(10.0)
    sigma = RobotSpec.load("pioneer3dx").drive.wheels.speed_sigma * w.timestep * math.sqrt(1000)
    travel = w.device("pioneer3dx1").motors.read().travel
    assert travel == pytest.approx([2.0, 2.0], abs=5 * sigma)
    assert np.abs(travel - 2.0).max() > 1e-6
    assert w.truth()[0, 0] == pytest.approx(0.0, abs=0.05)
    assert abs(w.truth()[0, 0]) > 1e-6


def test_a_share_of_the_way_slips_away(world):
    w = world([(-2.0, 0.0, 0.0), (-2.0, 1.0, 0.0)], noise=False)
    w.set_slip("dots1", 0.1)
    w.drive("dots1", (1.0, 0.0, 0.0))
    w.drive("dots2", (1.0, 0.0, 0.0))
    w.run(2.0)
    assert w.truth()[:, 0] == pytest.approx([-0.2, 0.0])
    one, two = (w.device(name).motors.read().travel for name in w.names)
    assert one == pytest.approx(two)


def test_who_drifts_counts_what_its_wheels_did(world):
    w = world([(-2.0, -1.0, 0.0), (-2.0, 1.0, 0.0)], kind="pioneer3dx", noise=False)
    w.set_drift("pioneer3dx1", 1.2, 0.4)
    for name in w.names:
        w.device(name).motors.drive(np.array([0.2, 0.2]), math.inf)
    w.run(8.0)
    drifted, straight = w.truth()
    way = straight[0] + 2.0
    assert drifted[2] == pytest.approx(0.4 * 1.2 * way, rel=0.01)
    assert drifted[0] + 2.0 == pytest.approx(math.sin(drifted[2]) / 0.4, rel=0.01)
    one, two = (w.device(name).motors.read().travel for name in w.names)
    assert one == pytest.approx(two, rel=0.01)
    # A veer that is refused changes nothing.
    with pytest.raises(SimError, match="backwards"):
        w.set_drift("pioneer3dx1", 1.0, 9.0)
    w.run(1.0)
    assert w.truth()[0, 2] > drifted[2] + 0.05
    w.set_drift("pioneer3dx1", 1.0, 0.0)
    before = w.truth()[0, 2]
    w.run(2.0)
    assert w.truth()[0, 2] == pytest.approx(before, abs=1e-3)


def test_no_such_drift(world):
    w = world([(0.0, 0.0, 0.0)])
    w.set_drift("dots1", 1.1, 0.0)
    # For motors that are not the world's.
    assert w.device("dots1").faults.drift == {0: 1.1, 1: 1.1, 2: 1.1}
    for stretch, veer, told in ((1.0, 0.1, "needs a differential drive"), (0.0, 0.0, "drift 0")):
        with pytest.raises(SimError, match=told):
            w.set_drift("dots1", stretch, veer)


def test_standing_wheels_count_nothing_though_sensors_are_noisy(world):
    w = world([(0.0, 0.0, 0.0)])
    w.device("dots1")
    w.run(1.0)
    assert np.all(w.device("dots1").motors.read().travel == 0.0)


def test_miscounts_are_those_of_the_spec(world):
    w = world([(-2.0 + 0.3 * i, 0.0, 0.0) for i in range(15)], arena="empty")
    for name in w.names:
        w.drive(name, (0.0, 0.5, 0.0))
    w.run(10.0)
    errors = []
    from swarmbed_core.kinematics import Kinematics

    matrix = Kinematics.of(DOTS).matrix
    for name in w.names:
        errors += (w.device(name).motors.read().travel - matrix @ (0.0, 5.0, 0.0)).tolist()
    expected = DOTS.drive.wheels.speed_sigma * w.timestep * math.sqrt(1000)
    moving = np.array(errors).reshape(-1, 3)[:, np.abs(matrix[:, 1]) > 0.1]
    assert moving.std() == pytest.approx(expected, rel=0.5)


def test_mixed_drives_share_one_call(world):
    groups = [
        {"kind": "dots", "place": {"poses": [[0.0, 0.0, 0.0]]}},
        {"kind": "pioneer3dx", "place": {"poses": [[0.0, 1.0, 0.0]]}},
    ]
    w = world(groups, noise=False)
    w.drive("dots1", (0.0, 0.3, 0.0))
    w.drive("pioneer3dx1", (0.3, 0.0, 0.5))
    w.step()
    assert w.truth()[:, 3:] == pytest.approx(np.array([[0.0, 0.3, 0.0], [0.3, 0.0, 0.5]]))
    assert w.device("pioneer3dx1").motors.read().travel.shape == (2,)


def test_drives_that_are_off_push_nothing(world):
    w = world([(0.0, 0.0, 0.0)], noise=False)
    motors = w.device("dots1").motors
    w.drive("dots1", (0.3, 0.0, 0.0))
    motors.enable(False)
    w.step()
    assert not w.driven[0]
    assert np.all(w.v_body[0] == 0.0)
    motors.enable(True)
    w.step()
    assert w.driven[0]
    assert w.truth()[0, 3] == pytest.approx(0.3)


def test_what_pushes_draws_power_though_it_stands(world, monkeypatch):
    w = world([(0.0, 0.0, 0.0), (0.0, 1.0, 0.0)], noise=False)
    device = w.device("dots1")

    def hold(*_):
        w.physics.pushes[:] = 0.5 * DOTS.limits.acceleration_available

    monkeypatch.setattr(w.physics, "advance", hold)
    w.drive("dots1", (1.0, 0.0, 0.0))
    w.step()
    assert device.motors.read().effort == 0.5
    w.run(1.0)
    # 12 W always, and a quarter of what full torque takes; those without devices count too.
    full = DOTS.consumption.motors_full_torque
    assert w.energy_wh() * 3600 == pytest.approx(np.full(2, 12.0 + 0.25 * full))
    device.motors.enable(False)
    w.step()
    assert device.motors.read().effort == 0.0


def test_effort_is_the_share_of_the_acceleration_that_there_is(world):
    w = world([(0.0, 0.0, 0.0)], noise=False)
    w.drive("dots1", (0.01, 0.0, 0.0))
    w.step()
    assert w.device("dots1").motors.read().effort == pytest.approx(1.0 / 4.0)
    w.step()
    assert w.device("dots1").motors.read().effort == pytest.approx(0.0, abs=1e-12)


# Inertial sensors


def test_the_imu_feels_turns_and_the_pull_outwards(world):
    w = world([(0.0, 0.0, 0.0)], noise=False)
    w.drive("dots1", (0.5, 0.0, 2.0))
    w.step()
    w.step()
    reading = w.device("dots1").imu.read()
    assert reading.gyro == pytest.approx((0.0, 0.0, 2.0))
    assert reading.accel == pytest.approx((0.0, 1.0, 9.81))


def test_gyro_noise_and_bias_are_those_of_the_spec(world):
    w = world([(-2.0 + 0.3 * (i % 15), -1.5 + 0.3 * (i // 15), 0.0) for i in range(60)], arena="empty")
    devices = [w.device(name) for name in w.names]
    rows = []
    for _ in range(400):
        w.step()
        rows.append([device.imu.read().gyro[2] for device in devices])
    rates = np.array(rows)
    assert rates.mean(axis=0).std() == pytest.approx(DOTS.imu.gyro_bias_sigma, rel=0.35)
    assert rates.std(axis=0).mean() == pytest.approx(DOTS.imu.gyro_sigma, rel=0.1)
    # What wanders: the differences of far apart means grow with the walk.
    assert np.abs(rates[-1] - rates[0]).max() < 10 * DOTS.imu.gyro_sigma


def test_the_compass_is_at_its_rate_and_as_good_as_its_spec(world):
    w = world([(0.0, 0.0, 1.0)], kind="pera_swarm")
    compass = w.device("pera_swarm1").compass
    assert compass.read() is None
    errors = []
    for _ in range(2000):
        w.step()
        reading = compass.read()
        if reading is not None:
            assert reading.stamp == pytest.approx(w.time)
            errors.append(reading.heading - 1.0)
        assert compass.read() is None
    spec = RobotSpec.load("pera_swarm").compass
    assert len(errors) == pytest.approx(20 * spec.rate, abs=1)
    assert np.std(errors) == pytest.approx(spec.sigma, rel=0.2)
    assert abs(np.mean(errors)) < 5 * spec.sigma / math.sqrt(len(errors))


def test_wheels_stop_by_themselves(world):
    """Speeds hold for as long as was asked, by default for HOLD, and until the next ones at most."""
    w = world([(-2.0, 0.0, 0.0), (-2.0, 1.0, 0.0)], noise=False)
    wheels = Kinematics.of(DOTS).wheels((0.2, 0.0, 0.0))
    one, two = (w.device(name).motors for name in w.names)
    one.drive(wheels, 0.1)
    two.drive(wheels)
    w.run(0.1)
    assert w.truth()[:, 3] == pytest.approx([0.2, 0.2])
    w.step()
    assert w.truth()[:, 3] == pytest.approx([0.0, 0.2])
    w.run(HOLD - 0.11)
    assert w.truth()[1, 3] == pytest.approx(0.2)
    w.step()
    assert w.truth()[1, 3] == 0.0
    one.drive(wheels, math.nan)
    two.drive(wheels, 5.0)
    w.step()
    assert w.truth()[:, 3] == pytest.approx([0.0, 0.2])
    two.drive(wheels, 0.0)
    w.step()
    assert w.truth()[1, 3] == 0.0
