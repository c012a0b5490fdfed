"""The parts that robots carry: against analytic geometry, core's own models, and their specs' statistics."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.device import Zone
from swarmbed_core.raycast import cast_ring_k
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.parts import Beat, roomy, sweep_ring_k
from swarmbed_sim.sim_world import SimWorld

DOTS = RobotSpec.load("dots")
PIONEER = RobotSpec.load("pioneer3dx")
RING = DOTS.ranges[0]
MEASURED = {"ble": "rssi", "uwb": "distance"}
POSTS = [{"shape": "box", "size": [0.2, 0.2], "pose": [x + 0.6, x, 0.0]} for x in (0.0, 2.0)]


@pytest.fixture
def world(scene, kinematic):
    def make(robots, carriers=(), seed=7, **more):
        made = scene(robots, carriers, **more)
        return SimWorld(made, kinematic(made), np.random.SeedSequence(seed))

    return make


def run(world, seconds):
    for _ in range(round(seconds / world.timestep)):
        world.step()


def drive(world, name, v_body, kind="dots"):
    from swarmbed_core.kinematics import Kinematics

    world.device(name).motors.drive(Kinematics.of(RobotSpec.load(kind)).wheels(v_body))


# Wheels


def test_wheels_count_what_the_body_did(world):
    w = world([(0.0, 0.0, 0.5)], noise=False)
    drive(w, "dots1", (0.4, -0.2, 1.0))
    run(w, 1.0)
    truth = w.truth()[0]
    assert truth[3:] == pytest.approx([0.4, -0.2, 1.0])
    from swarmbed_core.kinematics import Kinematics

    reading = w.device("dots1").motors.read()
    assert reading.travel == pytest.approx(Kinematics.of(DOTS).wheels((0.4, -0.2, 1.0)), abs=1e-9)
    assert reading.speeds == pytest.approx(reading.travel, abs=1e-9)
    assert reading.stamp == pytest.approx(1.0)


def test_a_body_that_is_held_turns_no_wheel(world, monkeypatch):
    w = world([(0.0, 0.0, 0.5)], noise=False)
    monkeypatch.setattr(w.physics, "advance", lambda *_: None)
    drive(w, "dots1", (1.0, 0.0, 0.0))
    run(w, 0.5)
    assert w.v_body[0] == pytest.approx([1.0, 0.0, 0.0])
    assert np.all(w.device("dots1").motors.read().travel == 0.0)


def test_wheels_are_no_faster_than_they_can_be(world):
    w = world([(0.0, 0.0, 0.0)], noise=False)
    w.device("dots1").motors.drive(np.array([100.0, 0.0, -100.0]))
    run(w, 0.05)
    assert np.abs(w.device("dots1").motors.read().speeds).max() == pytest.approx(2.5)
    w.device("dots1").motors.drive(np.array([math.nan, 0.0, 0.0]))
    w.step()
    assert np.all(w.truth()[0, 3:] == 0.0)


def test_slip_is_between_the_encoders_and_the_floor(world):
    w = world([(-2.0, 0.0, 0.0)], kind="pioneer3dx")
    w.device("pioneer3dx1").motors.drive(np.array([0.2, 0.2]))
    run(w, 10.0)
    sigma = RobotSpec.load("pioneer3dx").drive.wheels.speed_sigma * w.timestep * math.sqrt(1000)
    travel = w.device("pioneer3dx1").motors.read().travel
    assert travel == pytest.approx([2.0, 2.0], abs=5 * sigma)
    assert np.abs(travel - 2.0).max() > 1e-6
    assert w.truth()[0, 0] == pytest.approx(0.0, abs=0.05)
    assert abs(w.truth()[0, 0]) > 1e-6


def test_a_share_of_the_way_slips_away(world):
    w = world([(-2.0, 0.0, 0.0), (-2.0, 1.0, 0.0)], noise=False)
    w.set_slip("dots1", 0.1)
    drive(w, "dots1", (1.0, 0.0, 0.0))
    drive(w, "dots2", (1.0, 0.0, 0.0))
    run(w, 2.0)
    assert w.truth()[:, 0] == pytest.approx([-0.2, 0.0])
    one, two = (w.device(name).motors.read().travel for name in w.names)
    assert one == pytest.approx(two)


def test_standing_wheels_count_nothing_though_sensors_are_noisy(world):
    w = world([(0.0, 0.0, 0.0)])
    w.device("dots1")
    run(w, 1.0)
    assert np.all(w.device("dots1").motors.read().travel == 0.0)


def test_miscounts_are_those_of_the_spec(world):
    w = world([(-2.0 + 0.3 * i, 0.0, 0.0) for i in range(15)], arena="empty")
    for name in w.names:
        drive(w, name, (0.0, 0.5, 0.0))
    run(w, 10.0)
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
    drive(w, "dots1", (0.0, 0.3, 0.0))
    drive(w, "pioneer3dx1", (0.3, 0.0, 0.5), "pioneer3dx")
    w.step()
    assert w.truth()[:, 3:] == pytest.approx(np.array([[0.0, 0.3, 0.0], [0.3, 0.0, 0.5]]))
    assert w.device("pioneer3dx1").motors.read().travel.shape == (2,)


def test_drives_that_are_off_push_nothing(world):
    w = world([(0.0, 0.0, 0.0)], noise=False)
    motors = w.device("dots1").motors
    drive(w, "dots1", (0.3, 0.0, 0.0))
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
    drive(w, "dots1", (1.0, 0.0, 0.0))
    w.step()
    assert device.motors.read().effort == 0.5
    run(w, 1.0)
    # 12 W always, and a quarter of what full torque takes; those without devices count too.
    full = DOTS.consumption.motors_full_torque
    assert w.energy_wh() * 3600 == pytest.approx(np.full(2, 12.0 + 0.25 * full))
    device.motors.enable(False)
    w.step()
    assert device.motors.read().effort == 0.0


def test_effort_is_the_share_of_the_acceleration_that_there_is(world):
    w = world([(0.0, 0.0, 0.0)], noise=False)
    drive(w, "dots1", (0.01, 0.0, 0.0))
    w.step()
    assert w.device("dots1").motors.read().effort == pytest.approx(1.0 / 4.0)
    w.step()
    assert w.device("dots1").motors.read().effort == pytest.approx(0.0, abs=1e-12)


# Inertial sensors


def test_the_imu_feels_turns_and_the_pull_outwards(world):
    w = world([(0.0, 0.0, 0.0)], noise=False)
    drive(w, "dots1", (0.5, 0.0, 2.0))
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


# Ranges


def ring_of(pose, segments, discs, own, ring=RING):
    angles = np.array(ring.angles)
    count = len(angles)
    out = np.empty(count)
    sweep_ring_k(
        np.array(pose),
        own,
        -1,
        angles,
        ring.mount_radius,
        ring.field_of_view,
        ring.rays,
        ring.range_max,
        segments,
        discs,
        len(discs),
        np.empty((count, 4)),
        np.empty((count, ring.rays, 2)),
        out,
    )
    expected = np.empty(count)
    cast_ring_k(
        np.array(pose),
        angles,
        ring.mount_radius,
        ring.field_of_view,
        ring.rays,
        segments,
        discs,
        own,
        ring.range_max,
        expected,
    )
    return out, expected


coordinate = st.floats(-4, 4)
size = st.floats(0.01, 1.0)


@settings(deadline=None, max_examples=150)
@given(
    pose=st.tuples(coordinate, coordinate, st.floats(-7, 7)),
    discs=st.lists(st.tuples(coordinate, coordinate, size), max_size=6),
    walls=st.lists(st.tuples(coordinate, coordinate, coordinate, coordinate), max_size=6),
    kind=st.sampled_from(["dots", "pioneer3dx", "epuck2", "convoy_car"]),
)
def test_the_fast_ring_sees_what_the_plain_one_sees(pose, discs, walls, kind):
    own = np.array([(pose[0], pose[1], 0.125)])
    around = np.vstack([own, np.array(discs, dtype=float).reshape(-1, 3)])
    segments = np.array(walls, dtype=float).reshape(-1, 4)
    for ring in RobotSpec.load(kind).ranges:
        out, expected = ring_of(pose, segments, around, 0, ring)
        assert np.array_equal(out, expected)


def test_ranges_see_walls_robots_pillars_boxes_and_not_themselves(world):
    w = world(
        [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)],
        obstacles=[
            {"shape": "cylinder", "radius": 0.2, "pose": [0.0, 1.0, 0.0]},
            {"shape": "box", "size": [0.4, 0.4], "pose": [-1.0, 0.0, 0.0]},
        ],
        noise=False,
    )
    part = w.device("dots1").ranges["tof"]
    assert part.read() is None
    w.step()
    distances = part.read().distances
    edge = RING.mount_radius
    assert distances[0] == pytest.approx(1.0 - edge - DOTS.body.radius)
    assert distances[4] == pytest.approx(1.0 - edge - 0.2)
    assert distances[8] == pytest.approx(1.0 - edge - 0.2)
    # The lower of its rays is the one that meets the wall soonest: straight on.
    assert distances[12] == pytest.approx(2.5 - edge)


def test_ranges_see_the_legs_of_carriers_and_not_their_trays(world):
    w = world([(0.0, 0.0, 0.0), (-2.0, -2.0, 0.0)], [(1.0, 0.15, 0.0)], noise=False)
    device = w.device("dots1")
    w.step()
    leg = 0.165 - DOTS.carrier.leg_radius
    # A front leg is at (1 - leg, 0); the middle ray of sensor 0 meets it.
    assert device.ranges["tof"].read().distances[0] == pytest.approx(
        1.0 - leg - DOTS.carrier.leg_radius - RING.mount_radius
    )
    w.teleport("carrier1", (0.6, 0.0, 0.0))
    run(w, 0.02)
    # All legs are beside the fan of 22 degrees, which goes below the tray to the wall.
    assert device.ranges["tof"].read().distances[0] == pytest.approx(2.5 - RING.mount_radius)


def test_a_robot_sees_the_legs_of_what_it_carries(world):
    w = world([(0.0, 0.0, 0.0)], [(0.0, 0.0, math.pi / 4)], noise=False)
    device = w.device("dots1")
    device.lifter.move(DOTS.lifter.raised)
    run(w, 1.0)
    assert w.carriers().carried_by[0] == 0
    assert w.carriers().lifts[0] == pytest.approx(DOTS.lifter.raised - DOTS.carrier.clearance)
    w.step()
    device.ranges["tof"].read()
    run(w, 0.02)
    distances = device.ranges["tof"].read().distances
    leg = math.hypot(0.15, 0.15)
    assert distances[[0, 4, 8, 12]] == pytest.approx(leg - 0.015 - RING.mount_radius)


def test_feet_above_a_sensor_and_low_robots_are_not_seen(world):
    groups = [
        {"kind": "dots", "place": {"poses": [[0.0, 0.0, 0.0]]}},
        {"kind": "epuck2", "place": {"poses": [[0.5, 0.0, 0.0]]}},
    ]
    w = world(groups, [(1.0, 0.15, 0.0)], noise=False)
    epuck = RobotSpec.load("epuck2")
    device = w.device("dots1")
    w.step()
    # The small robot is below the sensors; they meet the carrier's leg behind it.
    assert epuck.body.height < RING.mount_height
    assert device.ranges["tof"].read().distances[0] == pytest.approx(1.0 - 0.165 - RING.mount_radius)
    w.teleport("epuck21", (0.0, 1.0, 0.0))
    w.physics.carrier_lifts[0] = RING.mount_height + 0.01
    run(w, 0.02)
    assert device.ranges["tof"].read().distances[0] == pytest.approx(2.5 - RING.mount_radius)


def middle_ray(ring, gap):
    """Return what a sensor of many rays that looks straight at a flat side measures."""
    # An even number of rays: the two in the middle are as far off the axis.
    return gap / math.cos(0.5 * ring.field_of_view / (ring.rays - 1))


def test_sensors_as_high_as_trays_see_their_sides_also_of_what_is_lifted(world):
    sonar = PIONEER.ranges[0]
    assert DOTS.carrier.clearance < sonar.mount_height < DOTS.carrier.clearance + 0.04
    groups = [{"kind": "pioneer3dx", "place": {"poses": [[0.0, 0.0, 0.0]]}}]
    # Straight to the left is what sensors 0 and 15 look at.
    w = world(groups, [(0.0, 1.0, 0.0)], noise=False)
    part = w.device("pioneer3dx1").ranges["sonar"]

    def ahead():
        run(w, 0.1)
        return part.read().distances[0]

    side = middle_ray(sonar, 1.0 - DOTS.carrier.width / 2 - sonar.mount_radius)
    wall = middle_ray(sonar, 2.5 - sonar.mount_radius)
    assert ahead() == pytest.approx(side)
    # Lifted as far as that the tray is still there, then what is there are its legs, between which rays pass.
    w.physics.carrier_lifts[0] = sonar.mount_height - DOTS.carrier.clearance - 0.001
    assert ahead() == pytest.approx(side)
    w.physics.carrier_lifts[0] = sonar.mount_height - DOTS.carrier.clearance + 0.001
    assert ahead() == pytest.approx(wall)
    w.physics.carrier_lifts[0] = sonar.mount_height + 0.001
    assert ahead() == pytest.approx(wall)


def test_robots_with_sides_are_seen_by_their_sides_and_not_by_themselves(world):
    groups = [
        {"kind": "dots", "place": {"poses": [[-2.0, -2.0, 0.0]]}},
        {"kind": "pioneer3dx", "place": {"poses": [[0.0, 0.0, 0.0], [-1.0, 1.5, 0.0]]}},
    ]
    w = world(groups, noise=False)
    # Beside the side of a robot whose corners are farther off than the sensor's face.
    w.teleport("dots1", (0.0, -0.40, math.pi / 2))
    w.teleport("pioneer3dx2", (0.0, 0.40, 0.0))
    dots, one, two = (w.device(name) for name in w.names)
    w.step()
    run(w, 0.1)
    gap = 0.40 - PIONEER.body.width / 2
    assert dots.ranges["tof"].read().distances[0] == pytest.approx(gap - RING.mount_radius)
    sonar = PIONEER.ranges[0]
    assert one.ranges["sonar"].read().distances[0] == pytest.approx(
        middle_ray(sonar, gap - sonar.mount_radius)
    )
    away = two.ranges["sonar"].read().distances
    assert away[[0, 15]] == pytest.approx(middle_ray(sonar, 2.5 - 0.40 - sonar.mount_radius))
    assert np.nanmin(away) > 0.0


def test_no_two_robots_share_the_noise_of_their_rings(world):
    # Each in the middle of the same view: without noise they measure the same.
    w = world([(0.0, 0.0, 0.0), (2.0, 2.0, 0.0)], arena="empty", obstacles=POSTS)
    parts = [w.device(name).ranges["tof"] for name in w.names]
    errors = []
    for _ in range(200):
        w.step()
        readings = [part.read() for part in parts]
        if readings[0] is not None:
            errors.append([reading.distances[0] - (0.5 - RING.mount_radius) for reading in readings])
    errors = np.array(errors)
    assert errors.std(axis=0) == pytest.approx(np.full(2, RING.error.sigma), rel=0.5)
    assert abs(np.corrcoef(errors.T)[0, 1]) < 0.5


def test_sweeps_come_at_the_ring_s_rate_and_err_as_its_model_does(world):
    w = world([(1.0, 0.0, 0.0)])
    part = w.device("dots1").ranges["tof"]
    sweeps = []
    for _ in range(2000):
        w.step()
        reading = part.read()
        if reading is not None:
            sweeps.append(reading.distances)
        assert part.read() is None
    assert len(sweeps) == 1000
    measured = np.array(sweeps)[:, 0]
    error = measured - (2.5 - 1.0 - RING.mount_radius)
    assert np.isfinite(error).all()
    assert error.std() == pytest.approx(RING.error.sigma, rel=0.15)
    assert error.mean() == pytest.approx(np.interp(1.375, RING.error.bias_at, RING.error.bias), abs=0.0015)
    # Beyond the range there is nothing.
    assert np.isnan(np.array(sweeps)[:, 8]).mean() > 0.95


def test_a_reading_is_not_changed_by_the_next(world):
    w = world([(1.0, 0.0, 0.0)])
    part = w.device("dots1").ranges["tof"]
    w.step()
    first = part.read()
    before = first.distances.copy()
    run(w, 0.1)
    assert np.array_equal(first.distances, before, equal_nan=True)


# Lifter and power


def test_the_platform_follows_at_its_own_rate(world):
    w = world([(0.0, 0.0, 0.0)])
    lifter = w.device("dots1").lifter
    run(w, 3.0)
    assert lifter.read().height == DOTS.lifter.lowered
    lifter.move(DOTS.lifter.raised)
    w.step()
    assert 0 < lifter.read().height - DOTS.lifter.lowered < 0.002
    run(w, 0.25)
    assert DOTS.lifter.lowered < lifter.read().height < DOTS.lifter.raised
    run(w, 0.5)
    assert lifter.read().height == DOTS.lifter.raised
    run(w, 1.0)
    lifter.move(0.0)
    w.step()
    assert DOTS.lifter.raised - 0.002 < lifter.read().height < DOTS.lifter.raised
    run(w, 1.0)
    assert lifter.read().height == DOTS.lifter.lowered


def test_a_load_that_is_too_heavy_is_not_raised(world, monkeypatch):
    w = world([(0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    monkeypatch.setattr(w, "_loads", [DOTS.lifter.max_load + 0.1])
    lifter = w.device("dots1").lifter
    lifter.move(DOTS.lifter.raised)
    run(w, 2.0)
    assert lifter.read().height < DOTS.carrier.clearance + 0.002
    lifter.move(DOTS.lifter.lowered)
    run(w, 1.0)
    assert lifter.read().height == DOTS.lifter.lowered


def test_what_is_drawn_is_what_table_iv_says(world):
    w = world([(-2.0, 0.0, 0.0), (-2.0, 1.0, 0.0)], noise=False)
    for name in w.names:
        w.device(name)
    drive(w, "dots1", (0.5, 0.0, 0.0))
    run(w, 0.1)
    before = w.energy_wh()
    run(w, 5.0)
    watts = (w.energy_wh() - before) * 3600 / 5.0
    # Mainboard, idle computer, cameras; and 2 W of random walk at 0.5 m/s.
    assert watts[1] == pytest.approx(12.0, rel=1e-6)
    assert watts[0] == pytest.approx(14.0, rel=1e-6)
    reading = w.device("dots1").power.read()
    battery = DOTS.battery
    drawn = sum(reading.cell_voltages) * reading.current * battery.efficiency
    assert drawn == pytest.approx(14.0, rel=1e-6)


def test_a_switched_off_robot_draws_nothing_and_stands(world):
    w = world([(-2.0, 0.0, 0.0)])
    device = w.device("dots1")
    drive(w, "dots1", (0.5, 0.0, 0.0))
    run(w, 0.5)
    device.power.enable(False)
    run(w, 0.1)
    before = w.energy_wh()
    place = w.truth()[0, :3]
    run(w, 1.0)
    assert w.energy_wh() == pytest.approx(before)
    assert w.truth()[0, :3] == pytest.approx(place)
    device.power.enable(True)
    run(w, 0.1)
    assert w.truth()[0, 3] == pytest.approx(0.5, rel=0.05)


def test_a_switched_off_robot_is_silent_until_it_is_switched_on(world):
    w = world([(1.6, 0.0, 0.0), (2.2, 0.0, math.pi)], [(1.9, 0.8, 0.5)], noise=False)
    device, other = w.device("dots1"), w.device("dots2")

    def senses():
        zone = device.zone.read() is not Zone.NEITHER
        read = [device.ranges["tof"].read(), device.cameras.read(), device.motors.read().stamp == w.time]
        read += [device.imu.read().stamp == w.time, *(radio.read() for radio in device.radios.values())]
        return [zone, *map(bool, read)]

    def heard():
        return {packet.sender for radio in other.radios.values() for packet in radio.read()}

    device.leds.show([255] * 16)
    run(w, 0.5)
    assert all(senses())
    assert heard() == {"dots1"}
    device.power.enable(False)
    went_off = w.time
    assert device.leds.bar.values == (0,) * 16
    run(w, 0.5)
    assert not any(senses())
    assert device.imu.read().stamp == went_off
    assert heard() == set()
    assert not device.radios["ble"].send(b"help")
    assert device.power.read().stamp == w.time
    device.power.enable(True)
    # Nothing of what was before is left over.
    assert not any((device.ranges["tof"].read(), device.cameras.read(), device.radios["ble"].read()))
    run(w, 0.5)
    assert all(senses())
    assert heard() == {"dots1"}
    # The dead cannot be switched on.
    w.kill("dots1")
    device.power.enable(False)
    device.power.enable(True)
    run(w, 0.5)
    assert not any(senses())
    assert heard() == set()


def test_an_empty_battery_stops_the_robot(world):
    w = world([(-2.0, 0.0, 0.0)])
    device = w.device("dots1")
    drive(w, "dots1", (0.1, 0.0, 0.0))
    run(w, 0.5)
    device.power.battery.discharge(20.0, 3600 * 10.0)
    run(w, 0.2)
    assert w.truth()[0, 3] == 0.0
    before = w.energy_wh()
    run(w, 1.0)
    assert w.energy_wh() == pytest.approx(before)


# Radios


def test_without_noise_radios_measure_exactly(world):
    for noise in (True, False):
        w = world([(0.0, 0.0, 0.0), (1.0, 0.0, 0.0)], noise=noise)
        radios, _ = (w.device(name).radios for name in w.names)
        run(w, 1.0)
        ble, uwb = ({getattr(p, field) for p in radios[name].read()} for name, field in MEASURED.items())
        assert (ble == {DOTS.radios[0].rssi_at_1m}) != noise
        assert (uwb == {1.0}) != noise


# Small things


def test_beats_count():
    beat = Beat(50.0)
    assert [beat.due(0.01 * k) for k in range(1, 5)] == [True, False, True, False]
    assert beat.count == 2
    assert beat.stamp == 0.03


def test_room_grows_and_keeps_what_is_there():
    array = np.arange(4.0).reshape(2, 2)
    assert roomy(array, 1) is array
    grown = roomy(array, 2)
    assert len(grown) >= 3
    assert np.array_equal(grown[:2], array)
    assert grown.dtype == array.dtype
