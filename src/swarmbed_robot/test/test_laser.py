"""The rings as LaserScan: each beam looks where its sensor does and says how far it saw, from the centre."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sensor_msgs.msg import LaserScan
from swarmbed_core.config import names
from swarmbed_core.spec import RobotSpec
from swarmbed_robot.laser import MOST, beams_of, ranges_k

from swarmbed_robot import qos

RINGS = [(kind, ring) for kind in names("config/robots") for ring in RobotSpec.load(kind).ranges]


def turned(angle):
    return math.remainder(angle, math.tau)


@pytest.mark.parametrize(("kind", "ring"), RINGS, ids=[f"{kind}-{ring.name}" for kind, ring in RINGS])
def test_every_sensor_has_a_beam_that_looks_its_way(kind, ring):
    angles, beams = beams_of(ring.angles)
    assert len(angles) <= 73, f"{kind}: the rings that we ship are on coarse grids"
    assert (np.diff(angles) > 0).all()
    assert np.ptp(np.diff(angles)) < 1e-9 if len(angles) > 1 else True
    for sensor, beam in zip(ring.angles, beams, strict=True):
        assert abs(turned(angles[beam] - sensor)) < 1e-3


def test_evenly_spaced_rings_have_no_beams_but_their_sensors():
    rings = dict(RINGS)
    angles, beams = beams_of(rings["dots"].angles)
    assert len(angles) == 16
    assert angles[0] == pytest.approx(-math.pi)
    assert angles[1] - angles[0] == pytest.approx(math.pi / 8)
    assert sorted(beams) == list(range(16))
    assert beams_of((0.3,))[0].tolist() == [pytest.approx(0.3)]
    angles, _ = beams_of((0.0, math.pi / 4, -math.pi / 4))
    assert angles == pytest.approx([-math.pi / 4, 0.0, math.pi / 4])


def test_what_is_on_no_grid_comes_into_the_nearest_of_many_beams():
    sensors = (0.0, 1.0, math.sqrt(2), -3.0, 3.14159)
    angles, beams = beams_of(sensors)
    assert len(angles) == MOST
    for sensor, beam in zip(sensors, beams, strict=True):
        assert abs(turned(angles[beam] - sensor)) <= math.pi / MOST + 1e-6


def test_ranges_follow_rep_117():
    out = np.empty(5, np.float32)
    distances = np.array([math.inf, 0.01, 0.5, 0.7, 2.5, 0.02])
    ranges_k(distances, np.array([0, 1, 2, 2, 3, 0]), 0.1, 0.02, 2.0, out)
    # Two sensors look along beam 0, one of which saw something; nobody looks along beam 4.
    assert out[[0, 2]] == pytest.approx([0.12, 0.6])
    assert out[1] == -math.inf
    assert out[3] == math.inf
    assert math.isnan(out[4])


def test_a_robot_s_scan_is_as_the_walls_are(make_rig):
    dots = make_rig(arena="dots_arena")
    got = dots.listen("sensor/laser/tof", LaserScan, qos.SENSOR)
    dots.run(1.0)
    assert 40 <= len(got) <= 52
    scan = got[-1]
    assert scan.header.frame_id == "dots1_base_link"
    ring = RobotSpec.load("dots").ranges[0]
    assert scan.angle_min == pytest.approx(-math.pi)
    assert scan.angle_max == pytest.approx(7 * math.pi / 8)
    assert scan.angle_increment == pytest.approx(math.pi / 8)
    assert (scan.range_min, scan.range_max) == pytest.approx((0.125, 3.325))
    assert (scan.time_increment, scan.scan_time) == pytest.approx((0.0, 0.02))
    assert len(scan.intensities) == 0
    measured, distances = dots.onboard.distances("tof")
    assert scan.header.stamp.sec + 1e-9 * scan.header.stamp.nanosec == pytest.approx(measured, abs=1e-6)
    stamps = [sent.header.stamp.sec + 1e-9 * sent.header.stamp.nanosec for sent in got]
    assert np.median(np.diff(stamps)) == pytest.approx(0.02, abs=1e-6)
    for sensor, distance in zip(ring.angles, distances, strict=True):
        beam = round((turned(sensor) - scan.angle_min) / scan.angle_increment) % 16
        expected = 0.125 + distance
        assert scan.ranges[beam] == pytest.approx(expected, abs=1e-5), sensor
    assert np.isfinite(scan.ranges).any()


def test_a_silent_ring_publishes_nothing(make_rig):
    dots = make_rig()
    got = dots.listen("sensor/laser/tof", LaserScan, qos.SENSOR)
    dots.run(0.2)
    assert got
    assert all(value == math.inf for value in got[-1].ranges), "an empty floor: nothing is there"
    dots.onboard.device.ranges["tof"].read = lambda: None
    dots.run(1.5)
    before = len(got)
    dots.run(0.5)
    assert len(got) == before
    assert math.isnan(dots.onboard.distances("tof")[0])


def test_each_ring_has_a_topic(make_rig):
    epuck = make_rig("epuck2", arena="epuck2_arena")
    proximity = epuck.listen("sensor/laser/proximity", LaserScan, qos.SENSOR)
    tof = epuck.listen("sensor/laser/tof", LaserScan, qos.SENSOR)
    epuck.run(0.6)
    assert np.count_nonzero(~np.isnan(proximity[-1].ranges)) == 8
    assert proximity[-1].angle_increment == pytest.approx(math.radians(5), abs=1e-4)
    assert len(tof[-1].ranges) == 1
    assert tof[-1].range_min == pytest.approx(0.032 + 0.02)


def test_what_nobody_hears_is_not_made(dots):
    dots.run(0.3)
    assert dots.api.outputs["sensor/laser/tof"].count == 0
