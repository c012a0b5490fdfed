"""Bodies that are led from outside, in all worlds of this package."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.errors import ConfigError
from swarmbed_core.led import JUMP
from swarmbed_core.scenario import TrackedBody
from swarmbed_core.scene import RobotPlacement
from swarmbed_sim.errors import SimError
from swarmbed_sim.led_contract import (
    DOTS,
    RADIUS,
    LedContract,
    Tracker,
    check_moves,
    circle,
    group,
    line,
    overlap,
    scene_of,
    tracked,
)

from swarmbed_sim import mujoco_world, planar_world

MAKERS = {"planar": planar_world.make, "mujoco": mujoco_world.make}


class Made:
    """Makes worlds with an engine, and closes them after the test."""

    engine: str

    @pytest.fixture
    def make_world(self):
        made = []

        def make(scene, seed=7):
            made.append(MAKERS[self.engine](scene, np.random.SeedSequence(seed)))
            return made[-1]

        yield make
        for world in made:
            world.close()


class TestPlanarLedBodies(Made, LedContract):
    """Led bodies among discs."""

    engine = "planar"
    DEEP = 0.001


class TestMujocoLedBodies(Made, LedContract):
    """Led bodies in three dimensions."""

    engine = "mujoco"


numbers = st.one_of(st.floats(-2.5, 2.5), st.floats())
moves = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.sampled_from(("led1", "led2", "dots1", "x")),
        st.one_of(st.floats(0, 0.1), st.floats()),
        st.one_of(
            st.tuples(st.floats(-2.5, 2.5), st.floats(-2.5, 2.5), st.floats(-4, 4)),
            st.tuples(numbers, numbers, numbers),
        ),
        st.tuples(numbers, numbers, numbers),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("engine", MAKERS)
def test_no_telling_harms_a_world(engine):
    @settings(derandomize=True, max_examples=40 if engine == "planar" else 15, deadline=None)
    @given(moves)
    def check(told):
        made = []

        def make(scene, seed=1):
            made.append(MAKERS[engine](scene, np.random.SeedSequence(seed)))
            return made[-1]

        check_moves(make, told, 0.001 if engine == "planar" else 0.05, 0.03)
        made[0].close()

    check()


# Crowds


def crowd_scene(count=20, beside=(), kind="dots", crowd=True, **more):
    groups = [{"kind": kind, "count": count, "crowd": crowd, "place": {"zone": "anywhere"}}, *beside]
    return scene_of(*groups, world="planar", **more)


def test_a_crowd_senses_tracked_robots_beside_it_and_gives_way_to_them():
    path = circle(0.9, 0.5)
    scene = crowd_scene(
        beside=[tracked(path(0.0)[0])], noise=False, carriers=[{"count": 1, "place": {"zone": "search"}}]
    )
    world = planar_world.make(scene, np.random.SeedSequence(2))
    crowd = world.crowd()
    assert crowd.count == 20
    assert len(world.names) == 21
    assert crowd.senses().ranges.shape[0] == len(crowd.senses().headings) == 20
    rng, reader = np.random.default_rng(3), world.watch_contacts()

    def check():
        if round(world.time * 100) % 10 == 0:
            crowd.v_body[:] = rng.normal(size=(20, 3)) * 0.4
            crowd.air.say(np.ones((20, 1)))
            crowd.air.heard(np.arange(20) - 1)
        assert world.truth()[20, :2] == pytest.approx(path(world.time)[0][:2], abs=1e-9)
        assert overlap(world) < 0.002

    Tracker(world, {"led1": path}).run(10.0, check)
    assert any("led1" in (contact.one, contact.other) for contact in reader.read())
    # A robot that looks at it from 0.4 m.
    x, y = world.truth()[20, :2]
    angles = np.linspace(0, math.tau, 12, endpoint=False)
    for angle in angles:
        # Its first sensor looks at it.
        yaw = math.remainder(angle + math.pi - crowd.senses().angles[0], math.tau)
        place = (x + 0.4 * math.cos(angle), y + 0.4 * math.sin(angle), yaw)
        try:
            world.teleport(world.names[0], place)
        except SimError:
            continue
        break
    else:
        pytest.fail("no free place beside it")
    crowd.v_body[:] = 0
    Tracker(world, {"led1": lambda _: ((x, y, 0.0), (0.0, 0.0, 0.0))}).run(0.1)
    assert crowd.senses().ranges[0, 0] == pytest.approx(0.4 - 2 * RADIUS, abs=0.01)
    # Its own parts work as well, and so do interventions.
    device = world.device("led1")
    world.step()
    assert len(next(iter(device.ranges.values())).read().distances) == 16
    world.kill("led1")
    world.set_slip("led1", 0.1)
    world.kill(world.names[3])
    assert crowd.alive.sum() == 19
    assert world.messages()["sent"] == 20 * 100


def test_tracked_robots_join_and_leave_beside_a_crowd():
    places = [(0.0, 0.0, 0.0), *((-1.0 + 0.2 * i, 1.0, 0.0) for i in range(9))]
    scene = scene_of(group(*places, kind="epuck2", crowd=True), world="planar")
    world = planar_world.make(scene, np.random.SeedSequence(2))
    crowd = world.crowd()
    with pytest.raises(SimError, match="only tracked ones"):
        world.add_robot(RobotPlacement("guest", DOTS, (0.0, -1.0, 0.0)))
    with pytest.raises(SimError, match="only tracked ones"):
        world.remove_robot(world.names[0])
    for _ in range(20):
        world.step()
    assert np.isinf(crowd.senses().ranges[0]).all()
    for name, x in (("guest1", 0.2), ("guest2", -0.2)):
        world.add_robot(RobotPlacement(name, DOTS, (x, 0.0, 0.0), tracked=TrackedBody()))
    for _ in range(20):
        world.step()
    senses = crowd.senses()
    assert senses.ranges.shape[0] == 10
    assert senses.ranges[0].min() < 0.1
    world.remove_robot("guest1")
    world.remove_robot("guest2")
    for _ in range(20):
        world.step()
    assert len(world.names) == 10
    assert crowd.senses().readings.proximity.shape == (10, 8)


def test_a_crowd_beside_robots_at_rest_does_what_it_does_without_them():
    """Tracked robots far away change neither what the crowd does nor its noise."""
    size = {"arena": "hall"}
    near = {"place": {"area": {"x_min": -3, "x_max": 3, "y_min": -3, "y_max": 3}}}
    crowd = {"kind": "dots", "count": 20, "crowd": True, **near}
    alone = planar_world.make(scene_of(crowd, **size, noise=False), np.random.SeedSequence(2))
    both = scene_of(crowd, **size, noise=False)
    robots = (*both.robots, RobotPlacement("led1", DOTS, (14.0, 14.0, 0.0), tracked=TrackedBody()))
    beside = planar_world.make(dataclasses.replace(both, robots=robots), np.random.SeedSequence(2))
    rng = np.random.default_rng(3)
    for i in range(300):
        if i % 10 == 0:
            asked = rng.normal(size=(20, 3)) * (0.8, 0.4, 1.0)
            for world in (alone, beside):
                world.crowd().v_body[:] = asked
        alone.step()
        beside.step()
    assert (alone.truth() == beside.truth()[:20]).all()
    assert (alone.crowd().senses().ranges == beside.crowd().senses().ranges).all()


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        (
            [tracked((0, 0, 0)), {"count": 3, "crowd": True, "place": {"zone": "anywhere"}}],
            "put their groups last",
        ),
        (
            [{"count": 3, "crowd": True, "place": {"zone": "anywhere"}}, group((0, 0, 0), name="x")],
            "or tracked",
        ),
        (
            [
                {"count": 3, "crowd": True, "place": {"zone": "anywhere"}},
                {**tracked((0, 0, 0)), "controller": {"name": "random_walk"}},
            ],
            "run no program",
        ),
        (
            [{"count": 0, "crowd": True, "place": {"zone": "anywhere"}}, tracked((0, 0, 0))],
            "the crowd has no robots",
        ),
    ],
)
def test_what_cannot_stand_beside_a_crowd_is_refused(groups, fault):
    with pytest.raises(ConfigError, match=fault):
        scene_of(*groups)


def test_a_crowd_of_one_kind_may_have_tracked_robots_of_another_beside_it():
    pioneer = {**tracked((0.0, 0.0, 0.0)), "kind": "pioneer3dx"}
    world = planar_world.make(
        crowd_scene(kind="epuck2", count=5, beside=[pioneer]), np.random.SeedSequence(2)
    )
    Tracker(world, {"led1": line((0.0, 0.0, 0.0), (0.2, 0.0))}).run(1.0)
    assert world.truth()[5, 0] == pytest.approx(0.2, abs=1e-9)
    assert JUMP not in world.led().refused


def test_a_physics_gets_told_only_about_led_bodies(world, kinematic):
    """Engines without led bodies, and worlds without them, are called as ever."""
    calls = []

    class Counting(kinematic):
        def advance(self, *args):
            calls.append(len(args))
            super().advance(*args)

    alone = world([group((0.0, 0.0, 0.0))], physics=Counting)
    alone.run(0.1)
    assert set(calls) == {3}
    calls.clear()
    both = world([group((0.0, 0.0, 0.0)), tracked((1.0, 0.0, 0.0))], physics=Counting)
    Tracker(both, {"led1": line((1.0, 0.0, 0.0), (0.3, 0.0))}).run(1.0)
    assert set(calls) == {4}
    assert both.truth()[1] == pytest.approx((1.3, 0.0, 0.0, 0.3, 0.0, 0.0))
