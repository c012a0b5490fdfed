"""Rings: against analytic geometry, core's own rays, and the statistics of its error model."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.raycast import cast_ring_k
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.rings import sweep_ring_k

DOTS = RobotSpec.load("dots")
PIONEER = RobotSpec.load("pioneer3dx")
RING = DOTS.ranges[0]
POSTS = [{"shape": "box", "size": [0.2, 0.2], "pose": [x + 0.6, x, 0.0]} for x in (0.0, 2.0)]


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
    w.run(0.02)
    # All legs are beside the fan of 22 degrees, which goes below the tray to the wall.
    assert device.ranges["tof"].read().distances[0] == pytest.approx(2.5 - RING.mount_radius)


def test_a_robot_sees_the_legs_of_what_it_carries(world):
    w = world([(0.0, 0.0, 0.0)], [(0.0, 0.0, math.pi / 4)], noise=False)
    device = w.device("dots1")
    device.lifter.move(DOTS.lifter.raised)
    w.run(1.0)
    assert w.carriers().carried_by[0] == 0
    assert w.carriers().lifts[0] == pytest.approx(DOTS.lifter.raised - DOTS.carrier.clearance)
    w.step()
    device.ranges["tof"].read()
    w.run(0.02)
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
    w.run(0.02)
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
        w.run(0.1)
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
    w.run(0.1)
    gap = 0.40 - PIONEER.body.width / 2
    assert dots.ranges["tof"].read().distances[0] == pytest.approx(gap - RING.mount_radius)
    sonar = PIONEER.ranges[0]
    # Sonars hear robots as discs, and its face is within the other's.
    assert one.ranges["sonar"].read().distances[0] == 0.0
    away = two.ranges["sonar"].read().distances
    assert away[[0, 15]] == pytest.approx(middle_ray(sonar, 2.5 - 0.40 - sonar.mount_radius))
    assert np.min(np.delete(away, [6, 7, 8, 9])) > 0.0


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
    assert np.isinf(np.array(sweeps)[:, 8]).mean() > 0.95


def test_a_reading_is_not_changed_by_the_next(world):
    w = world([(1.0, 0.0, 0.0)])
    part = w.device("dots1").ranges["tof"]
    w.step()
    first = part.read()
    before = first.distances.copy()
    w.run(0.1)
    assert np.array_equal(first.distances, before, equal_nan=True)
