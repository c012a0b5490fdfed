"""Position, ground, light, coloured lights and sonar echoes of whole robots: the same as those of crowds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.discharge import MODELS
from swarmbed_core.epuck2 import readings_of
from swarmbed_core.leds import pack
from swarmbed_core.local import LocalSwarm
from swarmbed_core.readings import dark
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import RobotPlacement, make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.mujoco_world import make as make_mujoco
from swarmbed_sim.planar_world import make

EPUCK = RobotSpec.load("epuck2")
LAMPS = [{"place": [0.15, 0.1, 0.03]}, {"place": [-0.2, 0.0, 0.05], "colour": [1, 2, 3]}]


def world_of(robots, seed=1, *, noise=False, arena="empty", how=make, crowd=False, battery=None, **more):
    """Return a world; `robots` are pairs of a kind and its poses."""
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "test",
            "time_limit": 10.0,
            "world": "planar",
            "arena": arena,
            "noise": noise,
            "robots": [
                {"kind": kind, "place": {"poses": poses}, "crowd": crowd, "battery": battery}
                for kind, poses in robots
            ],
            "controller": {"name": "epuck2_wheels"},
            **more,
        }
    )
    return how(make_scene(scenario, seed), np.random.SeedSequence(seed))


def crowd_of(kind, poses, **more):
    return world_of([(kind, poses)], crowd={"step": 0.1}, **more)


def sensed(world, steps=1):
    """Return what the programs of all robots sense after some steps, by name."""
    swarm = LocalSwarm(world)
    for _ in range(steps):
        swarm.step()
    return {robot.name: robot.sense() for robot in swarm.robots}


spots = st.tuples(st.floats(-0.45, 0.45), st.floats(-0.45, 0.45), st.floats(-3.1, 3.1))
places = st.lists(spots, min_size=2, max_size=6).filter(
    lambda found: all(
        math.dist(one[:2], other[:2]) > 0.09 for i, one in enumerate(found) for other in found[:i]
    )
)


@settings(deadline=None, max_examples=15, derandomize=True)
@given(places)
def test_whole_robots_read_what_a_crowd_reads(poses):
    more = {"arena": "epuck2_quarters", "lights": LAMPS}
    crowd = crowd_of("epuck2", poses, **more)
    crowd.crowd().senses().readings.leds[:] = 255
    crowd.step()
    expected = crowd.crowd().senses().readings
    world = world_of([("epuck2", poses)], **more)
    for name in world.names:
        world.device(name).leds.show([pack(255, 255, 255)] * 10)
    first = expected.camera.first.tolist()
    for k, senses in enumerate(sensed(world).values()):
        own = readings_of(senses, EPUCK, dark(EPUCK, 1))
        assert np.abs(own.ground[0] - expected.ground[k]).max() <= 1
        assert np.abs(own.light[0] - expected.light[k]).max() <= 1
        assert np.abs(own.proximity[0] - expected.proximity[k]).max() <= 1
        assert abs(own.tof[0] - expected.tof[k]) <= 1
        seen = expected.camera.pixels[first[k] : first[k + 1]]
        assert own.camera.pixels == pytest.approx(seen, abs=1e-6)
        assert np.array_equal(own.camera.colours, expected.camera.colours[first[k] : first[k + 1]])
        assert own.acceleration.tolist() == [[0, 0, 16384]]
        assert own.encoders.tolist() == [[0, 0]]


boxes = [
    {"shape": "box", "size": [1.0, 0.5], "pose": [2.0, 1.0, 0.4]},
    {"shape": "cylinder", "radius": 0.4, "pose": [-2.0, 0.5, 0.0]},
]


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.floats(-1.0, 1.0), st.floats(-1.5, 0.0), st.floats(-3.1, 3.1))
def test_sonars_of_whole_robots_get_the_echoes_that_a_crowd_gets(x, y, yaw):
    poses = [[x, y, yaw]]
    crowd = crowd_of("pioneer3dx", poses, obstacles=boxes)
    expected = crowd.crowd().senses().ranges[0]
    sonar = sensed(world_of([("pioneer3dx", poses)], obstacles=boxes))["pioneer3dx1"].ranges["sonar"]
    assert sonar == pytest.approx(expected, abs=1e-6)


def test_a_slanting_wall_gives_no_echo_and_hides_what_is_behind():
    def front(angle):
        walls = [
            {"shape": "box", "size": [0.1, 12.0], "pose": [2.0, 0.0, angle]},
            {"shape": "box", "size": [0.1, 8.0], "pose": [4.5, 0.0, 0.0]},
        ]
        world = world_of([("pioneer3dx", [[0, 0, 0]])], obstacles=walls)
        return sensed(world)["pioneer3dx1"].ranges["sonar"][3]

    assert front(0.0) < 2.0
    assert math.isinf(front(1.0))


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.lists(st.tuples(st.floats(-2.5, 2.5), st.floats(-3.1, 3.1)), min_size=2, max_size=4))
def test_sonars_hear_rectangular_robots_from_all_sides_as_those_of_a_crowd_do(turned):
    poses = [[x, 0.9 * i, yaw] for i, (x, yaw) in enumerate(turned)]
    expected = crowd_of("pioneer3dx", poses).crowd().senses().ranges
    robots = sensed(world_of([("pioneer3dx", poses)])).values()
    assert [robot.ranges["sonar"] for robot in robots] == pytest.approx(expected, abs=1e-6)


def test_a_robot_gets_no_echo_of_itself():
    robots = sensed(world_of([("pioneer3dx", [[0, 0, 0], [1.0, 0, 0.7]])]))
    sonar = robots["pioneer3dx1"].ranges["sonar"]
    # From the face at 0.19 m to the disc in which the other one collides.
    gap = 1.0 - math.hypot(0.485, 0.381) / 2 - 0.19
    assert sonar[3] == pytest.approx(gap, abs=0.02)
    assert np.isinf(np.delete(sonar, [2, 3, 4, 5])).all()


def test_a_position_sensor_tells_where_the_robot_is():
    senses = sensed(world_of([("pioneer3dx", [[1.5, -2.0, 0.3]]), ("dots", [[0, 0, 0]])]))
    assert senses["pioneer3dx1"].position.tolist() == [1.5, -2.0]
    dots = senses["dots1"]
    assert [dots.position, dots.ground, dots.light, dots.spots] == [None, None, None, {}]


def test_a_camera_sees_leds_of_other_kinds_as_they_change():
    """The body of a DOTS robot between them is higher than the e-puck2s, and its own LEDs have no places."""
    world = world_of([("epuck2", [[0, 0, 0], [0.3, 0, math.pi]]), ("dots", [[0, 2.0, 0]])])
    swarm = LocalSwarm(world)

    def colours():
        swarm.run(0.2)
        return {tuple(row) for row in swarm.robots[0].sense().spots["front"][:, 2:].tolist()}

    assert colours() == set()
    swarm.robots[1].act(Command(leds=[pack(0, 0, 200)] * 10))
    # Red and green lights have no blue channel.
    assert colours() == {(0, 0, 200)}
    world.teleport("dots1", (0.15 + 0.15, 0.6, 0.0))
    assert colours() == {(0, 0, 200)}
    world.kill("epuck22")
    assert colours() == set()


def test_a_higher_robot_hides_lights_and_a_lower_lamp_shines_over_none():
    lamp = {"place": [0.8, 0.0, 0.028], "colour": [9, 9, 9]}
    free = world_of([("epuck2", [[0, 0, 0]])], lights=[lamp])
    assert len(sensed(free)["epuck21"].spots["front"]) == 1
    hidden = world_of([("epuck2", [[0, 0, 0]]), ("dots", [[0.5, 0, 0]])], lights=[lamp])
    assert len(sensed(hidden)["epuck21"].spots["front"]) == 0


def test_robots_that_join_and_leave_keep_each_others_readings_apart():
    poses = [[-0.25, 0.25, 0], [0.25, 0.25, 0], [0.25, -0.25, 0]]
    world = world_of([("epuck2", poses)], arena="epuck2_quarters", noise=True)
    swarm = LocalSwarm(world)
    swarm.run(0.2)
    old = world.device("epuck21").ground
    world.remove_robot("epuck21")
    swarm.remove("epuck21")
    world.add_robot(RobotPlacement("new", EPUCK, (-0.25, -0.25, 0.0)))
    new = swarm.add("new")
    new.act(Command(leds=[pack(255, 0, 0)] * 10))
    swarm.run(0.3)
    greys = {robot.name: robot.sense().ground.mean() for robot in swarm.robots}
    assert list(greys) == ["epuck22", "epuck23", "new"]
    assert list(greys.values()) == pytest.approx([1.0, 0.0, 0.33], abs=0.03)
    assert old.read() is None
    world.teleport("new", (0.45, 0.25, math.pi))
    swarm.run(0.2)
    seen = next(robot for robot in swarm.robots if robot.name == "epuck22").sense().spots["front"]
    assert len(seen)
    assert (seen[:, 2:] == (255, 0, 0)).all()


def test_noise_is_each_robots_own_and_stays_in_its_bounds():
    def grounds(poses, noise=True):
        world = world_of([("epuck2", poses)], arena="epuck2_grey", noise=noise)
        return np.array([senses.ground for senses in sensed(world, 15).values()])

    one = grounds([[0.4, 0.4, 0]])
    several = grounds([[0.4, 0.4, 0], [0.4, -0.4, 0]])
    assert np.array_equal(one[0], several[0])
    assert not np.array_equal(several[0], several[1])
    exact = grounds([[0.4, 0.4, 0], [0.4, -0.4, 0]], noise=False)
    assert 0.0 < np.abs(several - exact).max() <= 0.01


def test_a_dead_robot_senses_nothing_new():
    world = world_of([("epuck2", [[0.1, 0.1, 0]])], arena="epuck2_quarters")
    swarm = LocalSwarm(world)
    swarm.run(0.2)
    assert swarm.robots[0].sense().ground is not None
    world.kill("epuck21")
    swarm.run(1.0)
    senses = swarm.robots[0].sense()
    assert senses.ground is None
    assert senses.refused["ground.silent"] == 1


def test_mujoco_has_the_same_senses():
    more = {"arena": "epuck2_quarters", "lights": LAMPS}
    poses = [[0.1, 0.1, 0.5], [0.3, 0.15, -2.5]]
    planar, mujoco = (sensed(world_of([("epuck2", poses)], how=how, **more)) for how in (make, make_mujoco))
    for name, senses in planar.items():
        assert senses.ground == pytest.approx(mujoco[name].ground)
        assert senses.light == pytest.approx(mujoco[name].light, abs=1e-3)
        assert senses.spots["front"] == pytest.approx(mujoco[name].spots["front"], abs=0.1)


def test_programs_get_positions_that_are_as_old_as_their_tick():
    """A position at 10 Hz is measured when programs tick, not a step after that."""
    swarm = LocalSwarm(world_of([("pioneer3dx", [[0, 0, 0]])]))
    (robot,) = swarm.robots
    robot.act(Command(velocity_body=(0.5, 0.0, 0.0)))
    for _ in range(4):
        swarm.run(0.1)
        assert robot.sense().position == pytest.approx(swarm.world.truth()[0, :2], abs=1e-9)


@pytest.mark.parametrize("model", ["simple", "cubic"])
def test_batteries_of_whole_robots_run_down_as_the_models_say(model):
    poses = [[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]]
    swarm = LocalSwarm(world_of([("epuck2", poses)], battery=model))
    turning, still = swarm.robots
    speed, expected = 0.05, np.ones(2)
    for _ in range(200):
        turning.act(Command(velocity_body=(0.0, 0.0, 2 * speed / 0.053)))
        swarm.run(0.1)
        expected = MODELS[model](0.1, np.array([0.1 * speed, 0.0]), expected)
    found = [robot.sense().battery.state_of_charge for robot in (turning, still)]
    # The monitor reads the battery once a second.
    assert 1 - np.array(found) == pytest.approx(1 - expected, rel=0.1)
    assert found[0] < found[1] < 1
    drawn = swarm.world.energy_wh()
    assert drawn / EPUCK.battery.capacity_wh == pytest.approx(1 - expected, rel=0.1)


def test_a_whole_robot_with_an_empty_battery_stops():
    world = world_of([("epuck2", [[0, 0, 0]])], battery="simple")
    swarm = LocalSwarm(world)
    swarm.run(0.2)
    world._powers[0][1].battery.drain(1e-6, 1.0)
    swarm.robots[0].act(Command(velocity_body=(0.1, 0.0, 0.0)))
    swarm.run(0.4)
    where = world.truth()[0, 0]
    swarm.robots[0].act(Command(velocity_body=(0.1, 0.0, 0.0)))
    swarm.run(0.4)
    assert world.truth()[0, 0] == pytest.approx(where, abs=1e-3)


@pytest.mark.parametrize("how", [make, make_mujoco])
def test_robots_that_join_sense_too_and_refuse_nothing(how):
    """Rows of the groups stay those of their robots as others come and go."""
    world = world_of(
        [("epuck2", [[0, 0, 0]]), ("pioneer3dx", [[3, 0, 0]])], how=how, noise=True, lights=LAMPS
    )
    swarm = LocalSwarm(world)
    swarm.run(0.63)
    for name, kind, pose in (("late", "epuck2", (-0.3, 0.2, 0.5)), ("truck", "pioneer3dx", (5.0, 1.0, 0.5))):
        world.add_robot(RobotPlacement(name, RobotSpec.load(kind), pose))
        swarm.add(name)
        swarm.step()
    swarm.run(0.2)
    for gone in ("epuck21", "pioneer3dx1"):
        world.remove_robot(gone)
        swarm.remove(gone)
        swarm.run(0.2)
        late, truck = (robot.sense() for robot in swarm.robots[-2:])
        assert truck.position.tolist() == [5.0, 1.0]
        assert late.ground == pytest.approx(np.ones(3), abs=0.02)
        assert late.spots["front"].shape == (0, 5)
        assert late.light.max() > 0.1
        assert late.refused == truck.refused == {}
