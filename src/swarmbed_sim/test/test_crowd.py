from __future__ import annotations

import dataclasses
import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
import yaml
from swarmbed_core.device import Zone
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import wrap
from swarmbed_core.heading import zone_of
from swarmbed_core.ranges import figure7
from swarmbed_core.raycast import cast_ring_k
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.crowd import PlanarCrowdWorld, zones_of
from swarmbed_sim.errors import SimError
from swarmbed_sim.planar_world import make


def crowd_of(count=30, arena="dots_arena", kind="dots", seed=1, **more):
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "test",
            "time_limit": 10.0,
            "world": "planar",
            "arena": arena,
            "robots": [{"kind": kind, "count": count, "crowd": True, "place": {"zone": "anywhere"}}],
            "controller": {"name": "random_walk"},
            **more,
        }
    )
    return make(make_scene(scenario, seed), np.random.SeedSequence(seed))


def walk(world, seconds):
    """Let all drive on, and turn where something is before them."""
    crowd = world.crowd()
    for i in range(round(seconds * 100)):
        if i % 10 == 0:
            senses = crowd.senses()
            near = senses.ranges[:, np.cos(senses.angles) > 0.5].min(axis=1) < 0.4
            crowd.v_body[:, 0] = np.where(near, 0.0, 0.5)
            crowd.v_body[:, 2] = np.where(near, 2.0, 0.0)
        world.step()


def test_a_crowd_senses_what_rays_one_by_one_do():
    world = crowd_of(noise=False, carriers=[{"count": 2, "place": {"zone": "search"}}])
    assert isinstance(world, PlanarCrowdWorld)
    walk(world, 1.0)
    crowd = world.crowd()
    senses, physics, ring = crowd.senses(), world.physics, crowd.spec.ranges[0]
    assert senses.time == world.time == pytest.approx(1.0)
    assert senses.ranges.shape == (30, 16)
    legs = physics.disc_places()[physics.seen_discs()[30:]]
    discs = np.vstack(
        [
            np.column_stack([physics.poses[:, :2], np.full(30, 0.125)]),
            np.column_stack([legs, np.full(len(legs), 0.015)]),
        ]
    )
    assert len(legs) == 8
    out = np.zeros(16)
    for i, pose in enumerate(physics.poses):
        cast_ring_k(
            pose, np.array(ring.angles), 0.125, ring.field_of_view, 3, physics.segments, discs, i, 3.2, out
        )
        assert senses.ranges[i] == pytest.approx(out, abs=1e-9)
    assert senses.angles == pytest.approx(np.array(ring.angles))
    assert (senses.headings == physics.poses[:, 2]).all()
    assert (senses.twists == physics.twists).all()
    assert [Zone(int(z)) for z in senses.zones] == [
        zone_of(pose, world.scene.zones) for pose in physics.poses
    ]


def test_sweeps_come_at_the_rate_of_the_ring():
    world = crowd_of(count=3)
    before, changes = world.crowd().senses().ranges.copy(), 0
    for _ in range(100):
        world.step()
        now = world.crowd().senses().ranges
        changes += int((now != before).any())
        before = now.copy()
    assert changes == 50


def test_ranges_err_as_figure_7_says():
    # A robot 1 m before a wall; the arena's other walls are beyond its range or oblique.
    world = crowd_of(count=1, arena="hall")
    ring = world.crowd().spec.ranges[0]
    seen = []
    for distance in np.linspace(0.3, 2.6, 24):
        world.teleport("dots1", (15 - 0.125 - distance, 0.0, 0.0))
        for _ in range(100):
            world.step()
            seen.append(world.crowd().senses().ranges[0, 0] - distance)
    seen = np.array(seen[1::2])
    model = figure7(ring, 1, samples=20000)
    inside = (model.true > 0.3) & (model.true < 2.6)
    error = (model.measured - model.true)[inside]
    assert np.isfinite(seen).all()
    assert seen.std() == pytest.approx(error.std(), rel=0.1)
    assert seen.mean() == pytest.approx(error.mean(), abs=0.002)


def test_looking_changes_nothing():
    one, other = crowd_of(), crowd_of()
    for i in range(50):
        one.step()
        other.step()
        if i % 7 == 0:
            one.crowd().senses()
    for field in ("ranges", "headings", "zones", "twists"):
        assert (getattr(one.crowd().senses(), field) == getattr(other.crowd().senses(), field)).all()
    noise = np.array([wrap(e) for e in one.crowd().senses().headings - one.physics.poses[:, 2]])
    assert 0.005 < noise.std() < 0.02


def test_limits_are_the_worlds():
    world = crowd_of(count=2)
    crowd = world.crowd()
    world.teleport("dots1", (-2.0, -1.0, 0.0))
    world.teleport("dots2", (-2.0, 1.0, 0.0))
    crowd.v_body[:] = [(9.0, 9.0, 0.0), (math.nan, 1.0, 0.0)]
    for _ in range(50):
        world.step()
    twists = crowd.senses().twists
    assert math.hypot(*twists[0, :2]) == pytest.approx(0.5 * crowd.spec.limits.acceleration)
    assert not twists[1].any()
    crowd.v_body[:] = (0.0, 0.0, 99.0)
    for _ in range(100):
        world.step()
    assert crowd.senses().twists[:, 2] == pytest.approx([crowd.spec.limits.yaw_rate] * 2)
    world.v_body[:] = 7.0
    crowd.v_body[:] = (0.0, 30.0, 0.0)
    world.step()
    assert world.v_body == pytest.approx(np.array([(0.0, crowd.spec.limits.speed, 0.0)] * 2))


def test_experiments_disturb_a_crowd():
    world = crowd_of(count=4, noise=False)
    crowd = world.crowd()
    for i, y in enumerate((-1.5, -0.5, 0.5, 1.5)):
        world.teleport(f"dots{i + 1}", (-2.0, y, 0.0))
    crowd.v_body[:] = (0.5, 0.0, 0.0)
    for _ in range(50):
        world.step()
    world.kill("dots1")
    world.kill_sensor("dots2", "tof", 0)
    world.set_slip("dots3", 0.4)
    world.add_obstacle("gate", (0.5, 1.5, 0.0), (0.1, 0.5))
    for _ in range(100):
        world.step()
    senses = crowd.senses()
    assert senses.twists[:, 0] == pytest.approx([0.0, 0.5, 0.3, 0.5])
    assert np.isinf(senses.ranges[0]).all()
    assert np.isinf(senses.ranges[1, 0])
    assert np.isfinite(senses.ranges[1, 1:]).any()
    assert senses.ranges[3, 0] == pytest.approx(0.45 - 0.125 - world.physics.poses[3, 0], abs=0.02)
    world.remove_obstacle("gate")
    world.step()
    world.step()
    assert crowd.senses().ranges[3, 0] > 1.0
    for bad in (
        lambda: world.kill("nobody"),
        lambda: world.kill_sensor("dots1", "sonar", 0),
        lambda: world.kill_sensor("dots1", "tof", 16),
        lambda: world.set_slip("dots1", 1.0),
    ):
        with pytest.raises(SimError):
            bad()


def test_a_robot_with_two_rings_and_no_compass_has_all_its_sensors():
    world = crowd_of(count=5, kind="epuck2")
    spec = world.crowd().spec
    senses = world.crowd().senses()
    assert senses.ranges.shape == (5, sum(ring.count for ring in spec.ranges))
    assert len(senses.angles) == senses.ranges.shape[1]
    if spec.compass is None:
        assert np.isnan(senses.headings).all()
    walk(world, 0.5)


def test_no_zones_are_neither():
    assert (zones_of(np.zeros((3, 3)), None) == Zone.NEITHER).all()


def test_robots_of_two_kinds_are_no_crowd():
    with pytest.raises(ConfigError, match="one kind"):
        crowd_of(
            robots=[
                {"kind": kind, "count": 1, "crowd": True, "place": {"zone": "anywhere"}}
                for kind in ("dots", "epuck2")
            ]
        )


def test_a_crowd_stays_as_many_as_it_is():
    world = crowd_of(count=3)
    before = world.truth().tobytes(), list(world.names)
    one = world.scene.robots[0]
    with pytest.raises(SimError, match=r"add robot guest at .*: robots cannot be added to or removed from"):
        world.add_robot(dataclasses.replace(one, name="guest", pose=(0.0, 0.0, 0.0)))
    with pytest.raises(SimError, match=f"remove robot {one.name}: robots cannot be added to or removed from"):
        world.remove_robot(one.name)
    assert (world.truth().tobytes(), list(world.names)) == before
    walk(world, 0.1)


def run_and_hash():
    """Return a digest of a crowd's run; another process has to get the same."""
    world = crowd_of(count=60, seed=5)
    contacts = world.watch_contacts()
    digest = hashlib.sha256()
    for _ in range(3):
        walk(world, 1.0)
        senses = world.crowd().senses()
        for values in (senses.ranges, senses.headings, world.truth(), world.energy_wh()):
            digest.update(np.ascontiguousarray(values).tobytes())
        digest.update(repr(contacts.read()).encode())
    return digest.hexdigest()


def test_runs_are_bit_identical_in_one_process_and_two():
    here = run_and_hash()
    assert run_and_hash() == here
    code = f"import runpy; print(runpy.run_path({__file__!r})['run_and_hash']())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


@pytest.mark.parametrize(("count", "arena", "seconds"), [(1000, "hall", 2.0), (10000, "field", 0.1)])
def test_thousands_of_robots_run(count, arena, seconds):
    world = crowd_of(count=count, arena=arena)
    walk(world, seconds)
    assert world.physics.deepest_overlap < 1e-3
    assert world.truth()[:, 3].mean() > 0.02
    assert np.isfinite(world.crowd().senses().ranges).mean() > 0.5


def line_of_cars(count=3, **more):
    place = {"line": {"start": [0.0, 0.0, 0.0], "spacing": 1.0}}
    robots = [{"kind": "convoy_car", "count": count, "crowd": True, "place": place}]
    return crowd_of(arena="empty", noise=False, **{"robots": robots, **more})


def test_who_drifts_goes_another_way_than_it_shall():
    world = line_of_cars()
    world.set_drift("convoy_car2", 1.2, 0.5)
    world.crowd().v_body[:] = (0.2, 0.0, 0.0)
    for _ in range(500):
        world.step()
    one, other, third = world.physics.poses
    way = one[0]
    assert one[1] == one[2] == 0.0
    assert third[0] == pytest.approx(way - 2.0)
    # But for the beginning, in which all of them become faster.
    assert other[2] == pytest.approx(0.5 * 1.2 * way, rel=0.05)
    radius = 1 / 0.5
    assert other[0] + 1.0 == pytest.approx(radius * math.sin(other[2]), rel=0.05)
    assert other[1] == pytest.approx(radius * (1 - math.cos(other[2])), rel=0.1)
    world.crowd().v_body[:] = (0.0, 0.0, 1.0)
    before = world.physics.poses[:, 2].copy()
    for _ in range(200):
        world.step()
    turned = world.physics.poses[:, 2] - before
    assert turned[1] == pytest.approx(turned[0], rel=0.01), "who turns where it stands does not drift"


@pytest.mark.parametrize("drift", [(0.0, 0.0), (11.0, 0.0), (math.nan, 0.0), (1.0, math.inf)])
def test_no_such_drift(drift):
    with pytest.raises(SimError, match=r"convoy_car1: drift .*: stretch must be above 0"):
        line_of_cars().set_drift("convoy_car1", *drift)


def test_robots_hear_whom_they_listen_to_within_reach():
    world = line_of_cars(count=4)
    air = world.crowd().senses().air
    assert np.isnan(air.heard(np.array([1, 0, 3, 2]))).all()
    air.say(np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]]))
    # One metre from one to the next, and 1.5 m of reach.
    heard = air.heard(np.array([1, 3, -1, 3]))
    assert heard[0].tolist() == [2.0, 20.0]
    assert np.isnan(heard[1:]).all(), "too far, nobody, itself"
    world.kill("convoy_car2")
    assert np.isnan(air.heard(np.array([1, 0, 1, 2]))[:3]).all()
    assert world.messages() == {"sent": 4, "heard": 2, "lost": 0}
    air.say(np.zeros((4, 2)))
    assert world.messages()["sent"] == 7


def test_messages_get_lost_by_chance_of_their_own():
    counts = []
    for _ in range(2):
        world = line_of_cars(count=40, radio={"loss": 0.25})
        air = world.crowd().senses().air
        air.say(np.ones((40, 1)))
        for _ in range(100):
            air.heard(np.arange(40) - 1)
        counts.append(world.messages())
    assert counts[0] == counts[1]
    assert counts[0]["heard"] + counts[0]["lost"] == 3900
    assert counts[0]["lost"] == pytest.approx(975, rel=0.1)
    world.set_radio_loss(1.0)
    assert np.isnan(air.heard(np.arange(40) - 1)).all()
    with pytest.raises(SimError, match="radio loss 2"):
        world.set_radio_loss(2)


def epuck2s(count, half, seed=1, step=0.1, **more):
    """Return a world of e-puck2s in a square between walls."""
    wall = {"shape": "box", "size": (2 * half + 0.04, 0.02), "pose": (0.0, half + 0.01, 0.0)}
    walls = [
        {**wall, "pose": (x * (half + 0.01), y * (half + 0.01), 0.0 if y else math.pi / 2)}
        for x, y in ((0, 1), (0, -1), (1, 0), (-1, 0))
    ]
    area = {"x_min": -half, "x_max": half, "y_min": -half, "y_max": half}
    crowd = {"step": step, "senses": []}
    robots = {"kind": "epuck2", "count": count, "crowd": crowd, "place": {"area": area, "gap": 0.002}}
    return crowd_of(arena="field", obstacles=walls, robots=[robots], seed=seed, **more)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nobody_gets_through_anything_at_one_step_a_tick(seed):
    """A third of the floor is robots that drive about blindly at full speed."""
    half, count = 0.5, 90
    world = epuck2s(count, half, seed)
    crowd, physics = world.crowd(), world.physics
    rng = np.random.default_rng(seed)
    where = physics.poses[:, :2].copy()
    for _ in range(600):
        if rng.random() < 0.2:
            crowd.v_body[:, 0] = rng.uniform(-1, 1, count) * crowd.spec.limits.speed
            crowd.v_body[:, 2] = rng.uniform(-1, 1, count) * crowd.spec.limits.yaw_rate
        world.step()
        xy = physics.poses[:, :2]
        gaps = np.hypot(*(xy[:, None] - xy).transpose(2, 0, 1)) + np.eye(count)
        assert gaps.min() > 0.07 - 1e-3
        assert np.abs(xy).max() < half - 0.035 + 1e-3
        # What is pushed goes as far as it is pushed, not through others.
        assert np.hypot(*(xy - where).T).max() < 0.154 * 0.1 + 0.011
        where = xy.copy()
    assert world.time == pytest.approx(60.0)


def test_long_steps_lead_where_short_ones_do():
    ends = []
    for step in (0.01, 0.1):
        world = epuck2s(1, 3.0, step=step)
        world.physics.move_robot(0, (0.0, 0.0, 0.0))
        world.crowd().v_body[:] = (0.1, 0.0, 0.5)
        for _ in range(round(10 / step)):
            world.step()
        ends.append(world.physics.poses[0].copy())
    # A circle of 0.2 m, and what a longer ramp at its beginning makes.
    assert ends[0] == pytest.approx(ends[1], abs=0.02)


def test_long_steps_are_bit_identical_too():
    def digest(seed):
        world = epuck2s(40, 0.5, seed)
        walk_blindly = np.random.default_rng(5)
        for _ in range(100):
            world.crowd().v_body[:] = walk_blindly.uniform(-1, 1, (40, 3))
            world.step()
        return hashlib.sha256(world.truth().tobytes()).hexdigest()

    assert digest(1) == digest(1) != digest(2)


@pytest.mark.parametrize(
    ("kind", "crowd", "told"),
    [
        ("epuck2", {"senses": ["smell"]}, "smell"),
        ("dots", {"senses": ["ground"]}, "ground"),
    ],
)
def test_no_such_sense(kind, crowd, told):
    with pytest.raises(ConfigError, match=told):
        crowd_of(robots=[{"kind": kind, "count": 2, "crowd": crowd, "place": {"zone": "anywhere"}}])


def test_only_the_senses_that_are_on():
    robots = [{"kind": "epuck2", "count": 2, "crowd": {"senses": ["tof"]}, "place": {"zone": "anywhere"}}]
    senses = crowd_of(robots=robots).crowd().senses()
    assert senses.ranges.shape == (2, 1)
    assert senses.readings.tof is not None
    assert senses.readings.proximity is None


def test_crowds_have_a_sense_of_position_and_messages_if_their_file_says_so():
    world = crowd_of(count=4, arena="hall", kind="pioneer3dx")
    crowd = world.crowd()
    assert np.array_equal(crowd.senses().positions, world.physics.poses[:, :2])
    assert np.isnan(crowd_of(count=2).crowd().senses().positions).all()
    for k, name in enumerate(world.names):
        world.teleport(name, (1.2 * k, 0.0, 0.0))
    heard = 0
    for _ in range(500):
        crowd.senses().air.post.send(0, "hello", 0)
        world.step()
        heard += len(crowd.senses().air.post.take(1))
        assert crowd.senses().air.post.take(3) == []
    # The file says that 2 % are lost.
    assert 470 < heard < 500
    counts = world.messages()
    assert counts["sent"] == 500
    assert counts["heard"] == heard


def test_a_position_errs_as_the_file_says_and_repeats(tmp_path):
    spec = RobotSpec.load("pioneer3dx").model_dump(mode="json", exclude_none=True)
    file = tmp_path / "unsure.yaml"
    file.write_text(yaml.safe_dump(spec | {"version": 1, "positioning": {"sigma": 0.2}}))

    def positions():
        world = crowd_of(count=200, arena="hall", kind=str(file))
        world.step()
        return world.crowd().senses().positions - world.physics.poses[:, :2]

    errors = positions()
    assert errors.std() == pytest.approx(0.2, rel=0.15)
    assert np.array_equal(errors, positions())


@pytest.mark.parametrize("name", ["tof", "proximity"])
def test_a_ring_with_one_ray_sees_what_it_does_alone(name):
    robots = [
        {
            "kind": "epuck2",
            "count": 80,
            "crowd": {"senses": [name]},
            "place": {"area": {"x_min": -0.5, "x_max": 0.5, "y_min": -0.5, "y_max": 0.5}, "gap": 0.0},
        }
    ]
    world = crowd_of(arena="dots_arena", robots=robots, noise=False)
    physics, crowd = world.physics, world.crowd()
    ring = crowd.rings[0].ring
    discs = np.column_stack([physics.poses[:, :2], np.full(80, 0.035)])
    out = np.zeros(ring.count)
    seen = crowd.senses().ranges
    for i, pose in enumerate(physics.poses):
        angles = np.array(ring.angles)
        cast_ring_k(pose, angles, ring.mount_radius, 0.0, 1, physics.segments, discs, i, ring.range_max, out)
        assert seen[i] == pytest.approx(out, abs=1e-9)
    assert np.isfinite(seen).mean() > 0.2


def test_sensors_measure_no_more_often_than_the_scenario_wants():
    robots = [{"kind": "dots", "count": 3, "crowd": {"rate": 10.0}, "place": {"zone": "anywhere"}}]
    world = crowd_of(robots=robots)
    before, changes = world.crowd().senses().ranges.copy(), 0
    for _ in range(100):
        world.step()
        now = world.crowd().senses().ranges
        changes += int((now != before).any())
        before = now.copy()
    assert changes == 10
