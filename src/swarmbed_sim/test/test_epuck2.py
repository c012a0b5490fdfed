"""A crowd of e-puck2s reads in the robot's own units what is around it."""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_sim.planar_world import make

from swarmbed_core import discharge, epuck2

PROX0 = -math.radians(15)
FACE = 0.035


def world_of(poses, senses, seed=1, noise=False, battery=None, arena="empty", **more):
    crowd = {"step": 0.1, "senses": senses}
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "test",
            "time_limit": 10.0,
            "world": "planar",
            "arena": arena,
            "noise": noise,
            "robots": [
                {"kind": "epuck2", "place": {"poses": poses}, "crowd": crowd, "battery": battery},
            ],
            "controller": {"name": "epuck2_wheels"},
            **more,
        }
    )
    return make(make_scene(scenario, seed), np.random.SeedSequence(seed))


def read(world, seconds=0.0):
    for _ in range(round(seconds / world.timestep)):
        world.step()
    return world.crowd().senses().readings


def wall(x):
    return [{"shape": "box", "size": [0.02, 2.0], "pose": [x + 0.01, 0.0, 0.0]}]


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 0.06))
def test_a_wall_is_read_by_equation_1(gap):
    world = world_of([[-FACE - gap, 0, -PROX0]], ["proximity"], obstacles=wall(0.0))
    value = read(world).proximity[0, 0]
    assert 0 <= value <= 4095
    assert abs(value - int(epuck2.proximity(np.array([gap]))[0])) <= 1


def test_robots_see_each_other():
    # The second one's fifth sensor, at 150 degrees to the left, looks back at the first one.
    reading = read(world_of([[0, 0, 0], [0.09, 0, math.radians(30)]], ["proximity"])).proximity
    assert reading[0, 0] == reading[0, 7] > 1000
    assert (reading[0, 2:6] == 0).all()
    assert reading[1, 4] == int(epuck2.proximity(np.array([0.02]))[0])
    assert (reading[1, [0, 1, 2, 3, 5, 6, 7]] == 0).all()


@settings(deadline=None, max_examples=30)
@given(st.floats(0.005, 0.6), st.floats(0, 5))
def test_a_lamp_is_read_by_equation_2(gap, intensity):
    lamp = {"place": [FACE + gap, 0, 0.03], "intensity": intensity}
    value = read(world_of([[0, 0, -PROX0]], ["light"], lights=[lamp])).light[0, 0]
    expected = epuck2.light(np.array([intensity]), np.array([gap]))[0]
    # At the end of the range the last digit decides.
    assert 0 <= value <= 4095
    assert abs(value - expected) <= 1 or gap == pytest.approx(0.5)


def test_light_counts_from_ahead_and_adds_up_and_bodies_hide_it():
    lamp = {"place": [0.2, 0, 0.03]}
    alone = read(world_of([[0, 0, 0]], ["light"], lights=[lamp])).light[0]
    assert (alone[[3, 4]] == 4095).all()
    assert alone[0] == alone[7] < alone[1] == alone[6] < 4095
    two = read(world_of([[0, 0, 0]], ["light"], lights=[lamp, lamp])).light[0]
    assert 4095 - two[0] == pytest.approx(2 * (4095 - alone[0]), abs=1)
    hidden = read(world_of([[0, 0, 0], [0.1, 0, 0]], ["light"], lights=[lamp])).light[0]
    assert (hidden == 4095).all()
    # A lamp high above the same place shines over the other's head.
    above = {"place": [0.14, 0, 0.3]}
    over = read(world_of([[0, 0, 0], [0.1, 0, 0]], ["light"], lights=[above])).light[0]
    assert over[0] < 4095
    wall_between = {"obstacles": wall(0.4), "lights": [{"place": [0.5, 0, 0.03]}]}
    assert (read(world_of([[0.2, 0, 0]], ["light"], **wall_between)).light == 4095).all()


@settings(deadline=None, max_examples=30)
@given(st.floats(-0.4, 0.4), st.floats(-0.4, 0.4), st.floats(-3, 3))
def test_the_floor_is_read_under_each_sensor(x, y, yaw):
    """The floor of the test has one grey in each quarter."""
    ground = read(world_of([[x, y, yaw]], ["ground"], arena="epuck2_quarters")).ground[0]
    greys = {(True, True): 1023, (False, True): 685, (False, False): 338, (True, False): 0}
    for k, (ahead, aside) in enumerate(((0.03, 0.009), (0.03, 0.0), (0.03, -0.009))):
        at_x = x + math.cos(yaw) * ahead - math.sin(yaw) * aside
        at_y = y + math.sin(yaw) * ahead + math.cos(yaw) * aside
        if min(abs(at_x), abs(at_y)) > 1e-9:
            assert ground[k] == greys[at_x > 0, at_y > 0]


def test_a_disc_on_the_floor_covers_what_was_painted_before():
    def middle(x, y):
        return read(world_of([[x - 0.03, y, 0]], ["ground"], arena="epuck2_grey")).ground[0, 1]

    assert middle(0.29, 0) == 0
    assert middle(0.31, 0) == round(0.9 * 1023)


def test_the_time_of_flight_sees_what_is_ahead():
    poses = [[0, 0, 0], [0, 0.5, math.pi]]
    assert read(world_of(poses, ["tof"], obstacles=wall(0.532))).tof.tolist() == [500, 2000]


def test_encoders_count_the_way_and_go_on_at_a_wall():
    world = world_of([[0, 0, 0]], ["encoders"], obstacles=wall(0.135))
    world.crowd().v_body[:] = (0.05, 0, 0)
    steps = read(world, 1.5).encoders[0].tolist()
    way = world.physics.poses[0, 0]
    step = 2 * math.pi * 0.0205 / 1000
    assert steps[0] == steps[1] == pytest.approx(way / step, abs=1.01)
    assert read(world, 2.0).encoders[0, 0] > steps[0] + 700
    assert world.physics.poses[0, 0] == pytest.approx(0.1, abs=1e-3)


def test_encoders_run_over_as_16_bits_do():
    world = world_of([[0, 0, 0]], ["encoders"])
    world.crowd().v_body[:] = (0.154, 0, 0)
    before, overs = 0, 0
    for _ in range(600):
        now = int(read(world, 0.1).encoders[0, 0])
        assert -32768 <= now <= 32767
        assert int(epuck2.Encoders.between(np.array(before), np.array(now))) in range(121)
        overs += now < before
        before = now
    assert overs == 1


def test_wheels_of_a_robot_that_turns_go_round_both_ways():
    world = world_of([[0, 0, 0]], ["encoders"])
    world.crowd().v_body[:] = (0, 0, 1.0)
    left, right = read(world, 3.0).encoders[0].tolist()
    assert left == -right
    assert right > 500


def camera(poses, lights=(), leds=None, **more):
    world = world_of(poses, ["camera"], lights=list(lights), **more)
    if leds is not None:
        world.crowd().senses().readings.leds[:] = leds
    seen = read(world, 0.1).camera
    first = seen.first.tolist()
    return [seen.pixels[a:b] for a, b in pairwise(first)], seen.colours


@settings(deadline=None, max_examples=40)
@given(st.floats(-20, 20), st.floats(0.05, 1.1))
def test_lamps_are_seen_within_30_degrees_and_a_metre(degrees, far):
    bearing = math.radians(degrees)
    lamp = {"place": [0.03 + far * math.cos(bearing), far * math.sin(bearing), 0.028], "colour": [1, 2, 3]}
    (pixels,), colours = camera([[0, 0, 0]], [lamp])
    if min(abs(abs(degrees) - 15), abs(far - 1)) > 1e-6:
        assert len(pixels) == (abs(degrees) < 15 and far < 1)
    if len(pixels):
        focal = 80 / math.tan(math.radians(15))
        assert pixels[0] == pytest.approx([80 - focal * math.tan(bearing), 60], abs=1e-6)
        assert colours.tolist() == [[1, 2, 3]]


def test_lights_shine_in_the_colours_that_they_have_and_to_one_side():
    world = world_of([[0, 0, 0], [0.3, 0, math.pi]], ["camera"])
    own = world.crowd().senses().readings
    own.leds[1] = 255
    seen = read(world, 0.1).camera
    assert seen.first.tolist()[1] == len(seen.pixels)
    # The five of the side that faces it (0, 45, 315 degrees, and the two at 90 edge on), front and body.
    colours = [tuple(row) for row in seen.colours.tolist()]
    assert set(colours) == {(255, 0, 0), (255, 255, 255), (0, 255, 0)}
    assert colours.count((255, 255, 255)) == 2
    assert own.leds[1, 9].tolist() == [0, 255, 0]


def test_who_stands_between_hides_lights():
    world = world_of([[0, 0, 0], [0.3, 0, 0], [0.6, 0, 0]], ["camera"])
    world.crowd().senses().readings.leds[2] = 255
    seen = read(world, 0.1).camera.first.tolist()
    assert seen[:2] == [0, 0]
    assert seen[2] > 0
    (pixels,), _ = camera([[0, 0, 0]], [{"place": [0.5, 0, 0.02]}], obstacles=wall(0.3))
    assert not len(pixels)


def test_a_tracked_robot_beside_a_crowd_hides_lights():
    lamp = {"place": [0.5, 0, 0.02]}

    def seen(*poses):
        crowd = {"place": {"poses": [[0, 0, 0]]}, "crowd": {"step": 0.1, "senses": ["camera"]}}
        beside = {"name": "led", "place": {"poses": poses}, "body": "tracked"}
        robots = [{"kind": "epuck2", **group} for group in (crowd, beside)]
        world = world_of([], [], robots=robots if poses else robots[:1], lights=[lamp])
        return len(read(world, 0.1).camera.pixels)

    assert seen() == 1
    assert seen([0.3, 0, 0]) == 0
    assert seen([0.3, 0.5, 0]) == 1


def test_more_lights_than_there_was_room_for():
    lamps = [{"place": [0.5, 0.001 * k, 0.02]} for k in range(100)]
    (pixels,), _ = camera([[0, 0.05, 0]], lamps)
    assert len(pixels) == 100


def test_the_imu_feels_gravity_and_turns():
    world = world_of([[0, 0, 0]], ["imu"])
    still = read(world, 1.0)
    assert still.acceleration.tolist() == [[0, 0, 16384]]
    assert still.turning.tolist() == [[0, 0, 0]]
    world.crowd().v_body[:] = (0.1, 0, math.radians(90))
    moved = read(world, 3.0)
    assert moved.turning[0, 2] == pytest.approx(131 * 90, abs=2)
    centripetal = 0.1 * math.radians(90) / 9.81 * 16384
    assert moved.acceleration[0].tolist() == pytest.approx([0, centripetal, 16384], abs=3)


@pytest.mark.parametrize("model", discharge.MODELS)
def test_batteries_run_down_as_the_models_say(model):
    poses = [[0.2 * k, 0, 0] for k in range(4)]
    world = world_of(poses, [], battery=model)
    speeds = np.array([0.0, 0.02, 0.055, 0.1])
    world.crowd().v_body[:, 2] = 2 * speeds / 0.053
    # When all have come to speed.
    read(world, 1.0).battery[:] = expected = np.full(4, 0.6)
    for _ in range(600):
        expected = discharge.MODELS[model](0.1, 0.1 * speeds, expected)
    assert read(world, 60.0).battery == pytest.approx(expected, abs=1e-9)
    assert (expected < 0.6).all()


def test_an_empty_battery_stops_its_robot():
    world = world_of([[0, 0, 0], [0, 0.5, 0]], ["proximity"], battery="simple")
    world.crowd().v_body[:, 0] = 0.1
    read(world, 1.0).battery[0] = 1e-6
    where = world.physics.poses[:, 0].copy()
    readings = read(world, 3.0)
    assert readings.battery[0] == 0 < readings.battery[1]
    assert world.physics.poses[0, 0] - where[0] < 0.03
    assert world.physics.poses[1, 0] - where[1] > 0.25


SENSES = ["proximity", "light", "ground", "tof", "encoders", "camera", "imu"]


def digest(seed, noise, count=12):
    poses = [[0.15 * (k % 4) - 0.3, 0.15 * (k // 4) - 0.2, 0.5 * k] for k in range(count)]
    lights = [{"place": [0.1, 0.1, 0.05]}]
    world = world_of(poses, SENSES, seed, noise, "cubic", "epuck2_quarters", lights=lights)
    own = world.crowd().senses().readings
    own.leds[:] = 200
    rng = np.random.default_rng(3)
    told = hashlib.sha256()
    for _ in range(30):
        world.crowd().v_body[:] = rng.uniform(-1, 1, (count, 3)) * (0.1, 0, 3)
        world.step()
        arrays = [own.proximity, own.light, own.ground, own.tof, own.encoders, own.acceleration, own.turning]
        arrays += [own.battery, own.camera.first, own.camera.pixels, own.camera.colours]
        for array in arrays:
            told.update(np.ascontiguousarray(array).tobytes())
    return told.hexdigest()


def test_the_same_seed_reads_the_same():
    assert digest(1, True) == digest(1, True) != digest(2, True)
    assert digest(1, False) == digest(2, False) != digest(1, True)


def test_noisy_readings_stay_in_their_ranges():
    world = world_of(
        [[0, 0, 0]], SENSES, noise=True, arena="epuck2_quarters", lights=[{"place": [0.05, 0, 0]}]
    )
    seen = set()
    for _ in range(50):
        own = read(world, 0.1)
        for array, most in ((own.proximity, 4095), (own.light, 4095), (own.ground, 1023)):
            assert array.min() >= 0
            assert array.max() <= most
        assert 20 <= own.tof[0] <= 2000
        seen.add(own.ground[0].tobytes())
    assert len(seen) > 10
