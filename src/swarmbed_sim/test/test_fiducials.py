"""Marker detections without pixels: geometry, what hides what, lateness, noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.camera import cameras_of, latency_of
from swarmbed_core.device import WatchedCameras
from swarmbed_core.geometry import between, compose, wrap
from swarmbed_core.markers import CarrierPoseSolver, RobotPoseSolver
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.fiducials import SIDE_MIN_PX, Eyes, deepest, hidden_k
from swarmbed_sim.parts import Things
from swarmbed_sim.sim_world import SimWorld

DOTS = RobotSpec.load("dots")
TRAY = DOTS.carrier
CAMERAS = cameras_of(DOTS)
SPAN = TRAY.length / 2


@pytest.fixture
def world(scene, kinematic):
    def make(robots, carriers=(), seed=7, **more):
        made = scene(robots, carriers, **{"arena": "empty", "noise": False, **more})
        return SimWorld(made, kinematic(made), np.random.SeedSequence(seed))

    return make


@pytest.fixture(scope="module")
def one_of_each(scene, kinematic):
    """Return a world of one robot and one carrier."""
    made = scene([(0.0, 0.0, 0.0)], [(0.6, 0.0, 0.0)], arena="empty", noise=False)
    return SimWorld(made, kinematic(made), np.random.SeedSequence(1))


def readings_of(world, name="dots1"):
    """Return what the robot's cameras find in one picture each."""
    cameras = world.device(name).cameras
    # Pictures are handed out at once.
    cameras.latency = (0.0, 0.0)
    cameras.read()
    while True:
        world.step()
        if any(eyes.beat.stamp == world.time for eyes in world._groups if isinstance(eyes, Eyes)):
            return cameras.read()


def look(world, name="dots1"):
    """Return the corners that the robot's cameras find, by camera and id."""
    found = {}
    for reading in readings_of(world, name):
        for marker, corners in zip(reading.ids.tolist(), reading.corners, strict=True):
            found.setdefault((reading.camera, marker), []).append(corners)
    return found


def seen(world, marker=100, name="dots1"):
    return sum(len(corners) for (_, number), corners in look(world, name).items() if number == marker)


# Carriers' sides


def test_a_side_is_where_the_camera_model_puts_it(world):
    w = world([(0.2, -0.1, 0.4)], [(0.8, 0.3, 0.1)])
    found = look(w)
    assert set(found) >= {("cam0", 100)}
    face = w.scene.markers.side_corners(TRAY.clearance)
    sides = [compose((0.8, 0.3, 0.1), (*np.array([math.cos(a), math.sin(a)]) * SPAN, a)) for a in
             (0.0, math.pi / 2, math.pi, -math.pi / 2)]  # fmt: skip
    for (camera, _), quads in found.items():
        for quad in quads:
            errors = []
            for side in sides:
                pose = between((0.2, -0.1, 0.4), side)
                c, s = math.cos(pose[2]), math.sin(pose[2])
                points = np.column_stack(
                    [
                        pose[0] + c * face[:, 0] - s * face[:, 1],
                        pose[1] + s * face[:, 0] + c * face[:, 1],
                        face[:, 2],
                    ]
                )
                errors.append(np.abs(CAMERAS[camera].project(points)[0] - quad).max())
            assert min(errors) < 1e-9


@settings(deadline=None, max_examples=40)
@given(
    x=st.floats(0.5, 0.9), y=st.floats(-0.3, 0.3), yaw=st.floats(-0.6, 0.6), turn=st.floats(-math.pi, math.pi)
)
def test_the_solver_finds_the_carrier_from_what_is_seen(one_of_each, x, y, yaw, turn):
    pose = (1.0, -0.5, turn)
    one_of_each.teleport("dots1", pose)
    one_of_each.teleport("carrier1", tuple(compose(pose, (x, y, yaw))))
    solver = CarrierPoseSolver(one_of_each.scene.markers, DOTS, CAMERAS)
    sights = [sight for reading in readings_of(one_of_each) for sight in solver.side(reading)]
    assert sights
    for sight in sights:
        sides = [compose((x, y, yaw + k * math.pi / 2), (SPAN, 0.0, 0.0)) for k in range(4)]
        assert min(math.dist(side[:2], sight.pose_body[:2]) for side in sides) < 2e-3
        if sight.yaw_known:
            centre = compose(sight.pose_body, (-SPAN, 0.0, 0.0))
            assert centre[:2] == pytest.approx((x, y), abs=3e-3)
            assert math.remainder(centre[2] - yaw, math.pi / 2) == pytest.approx(0.0, abs=0.02)


def test_a_code_of_100_mm_is_found_from_about_a_metre(one_of_each):
    # Straight before camera 0, square to its axis.
    camera = DOTS.cameras[0]
    reach = []
    for distance in np.arange(0.5, 1.6, 0.02):
        side = (
            camera.x + distance * math.cos(camera.yaw),
            camera.y + distance * math.sin(camera.yaw),
            camera.yaw + math.pi,
        )
        one_of_each.teleport("dots1", (0.0, 0.0, 0.0))
        one_of_each.teleport("carrier1", tuple(compose(side, (-SPAN, 0.0, 0.0))))
        reach.append((distance, ("cam0", 100) in look(one_of_each)))
    furthest = max(distance for distance, found in reach if found)
    assert 1.0 < furthest < 1.2
    assert all(found == (distance <= furthest) for distance, found in reach)


def test_nothing_deeper_than_the_deepest_is_missed():
    camera, model = DOTS.cameras[0], CAMERAS["cam0"]
    deep = deepest(camera, model.numbers, 0.1, SIDE_MIN_PX)
    assert 1.0 < deep < 1.3
    rng = np.random.default_rng(4)
    forward, right = model.rotation[2], model.rotation[0]
    for _ in range(200):
        foot = model.position + rng.uniform(deep, deep + 1) * forward + rng.uniform(-2, 2) * right
        foot[2] = rng.uniform(0.0, 0.4)
        pixels, _ = model.project([foot, foot + np.array((0.0, 0.0, 0.1))])
        assert np.hypot(*(pixels[1] - pixels[0])) < SIDE_MIN_PX
    tilted = camera.model_copy(update={"pitch": 0.1})
    assert deepest(tilted, model.numbers, 0.1, SIDE_MIN_PX) == math.inf


def test_a_side_is_seen_from_its_front_only(world):
    w = world([(0.0, 0.0, 0.0)], [(0.6, 0.0, 0.0)])
    found = look(w)
    # The back side faces the robot; both front cameras see it and no other.
    assert set(found) == {("cam0", 100), ("cam3", 100)}
    assert all(len(quads) == 1 for quads in found.values())
    turned = world([(0.0, 0.0, 0.0)], [(0.6, 0.0, math.pi / 4)])
    assert max(len(quads) for quads in look(turned).values()) == 2


def test_the_code_of_a_lifted_carrier_is_higher(world):
    w = world([(0.0, 0.0, 0.0)], [(0.6, 0.0, 0.0)])
    low = look(w)[("cam0", 100)][0]
    w.physics.carrier_lifts[0] = 0.02
    high = look(w)[("cam0", 100)][0]
    assert np.all(high[:, 1] < low[:, 1] - 4)
    assert high[:, 0] == pytest.approx(low[:, 0])


# What hides what


def test_a_robot_hides_a_marker_that_is_behind_it_and_not_much_higher(world):
    w = world([(0.0, 0.0, 0.0), (0.3, 0.0, 0.0)], [(0.9, 0.0, 0.0)])
    assert seen(w) == 0
    w.teleport("dots2", (0.3, 1.0, 0.0))
    assert seen(w) == 2
    # Near the marker the line of sight is above the robot: from 0.08 m it rises to 0.175 and more.
    w.teleport("dots2", (0.73, 0.0, 0.0))
    assert seen(w) == 2


def test_a_low_robot_hides_nothing(world):
    groups = [
        {"kind": "dots", "place": {"poses": [[0.0, 0.0, 0.0]]}},
        {"kind": "epuck2", "place": {"poses": [[0.3, 0.0, 0.0]]}},
    ]
    assert seen(world(groups, [(0.9, 0.0, 0.0)])) == 2


@pytest.mark.parametrize(
    "obstacle",
    [
        {"shape": "box", "size": [0.05, 0.6], "pose": [0.4, 0.0, 0.0]},
        {"shape": "cylinder", "radius": 0.1, "pose": [0.4, 0.0, 0.0]},
    ],
)
def test_obstacles_hide(world, obstacle):
    assert seen(world([(0.0, 0.0, 0.0)], [(0.9, 0.0, 0.0)], obstacles=[obstacle])) == 0


def test_a_box_that_is_taken_away_hides_no_more(world):
    w = world([(0.0, 0.0, 0.0)], [(0.9, 0.0, 0.0)])
    w.add_obstacle("screen", (0.4, 0.0, 0.0), (0.05, 0.6))
    assert seen(w) == 0
    w.remove_obstacle("screen")
    assert seen(w) == 2


def test_legs_and_trays_hide(world):
    # A carrier's leg just before camera 0, on its way to another carrier's side.
    camera = DOTS.cameras[0]
    w = world([(0.0, 0.0, 0.0)], [(0.9, 0.03, 0.0), (-1.0, -1.0, 0.0)])
    w.teleport("carrier2", (0.4 + SPAN - 0.015, camera.y + SPAN - 0.015, 0.0))
    assert ("cam0", 100) not in look(w)
    w.teleport("carrier2", (-1.0, -1.0, 0.0))
    assert ("cam0", 100) in look(w)
    # A tray just before the marker, between its legs: only the end of the line of sight is that high.
    w.teleport("carrier2", (0.9 - 2 * SPAN - 0.005, 0.03, 0.0))
    assert seen(w, 100) == 0
    assert seen(w, 101) == 2


def test_joined_carriers_show_their_outer_sides_only(world):
    joined = {"place": {"poses": [[0.7, 0.0, 0.0]]}, "joined": [[0, 0], [1, 0]]}
    w = world([(0.0, 0.0, 0.0), (1.4, 0.0, math.pi)], carriers_too=[joined])
    # From either end one sees the near one's end, and not the far one's inner side behind it.
    assert (seen(w, 100), seen(w, 101)) == (2, 0)
    assert (seen(w, 100, "dots2"), seen(w, 101, "dots2")) == (0, 2)


def hidden(point, eye=(0.0, 0.0, 0.1), robots=(), carriers=(), walls=(), pillars=(), lift=0.0, own=-1):
    poses = np.array([(x, y, 0.0) for x, y, _, _ in robots]).reshape(-1, 3)
    sizes = np.array([(r, h) for _, _, r, h in robots]).reshape(-1, 2)
    numbers = np.array([(0.33, 0.33, 0.175, 0.04, 0.015, 100.0)] * len(carriers)).reshape(-1, 6)
    return hidden_k(
        np.array(eye),
        *point,
        -1,
        own,
        Things(
            poses,
            sizes,
            np.array(carriers, dtype=float).reshape(-1, 3),
            np.full(len(carriers), lift),
            numbers,
            np.array(walls, dtype=float).reshape(-1, 4),
            np.array(pillars, dtype=float).reshape(-1, 3),
        ),
    )


def test_lines_of_sight():
    point = (2.0, 0.0, 0.2)
    assert not hidden(point)
    assert hidden(point, robots=[(1.0, 0.05, 0.1, 0.16)])
    assert not hidden(point, robots=[(1.0, 0.05, 0.1, 0.14)])
    assert not hidden(point, robots=[(1.0, 0.11, 0.1, 1.0)])
    assert not hidden(point, robots=[(2.2, 0.0, 0.1, 1.0)])
    assert not hidden(point, robots=[(-0.2, 0.0, 0.1, 1.0)])
    assert hidden(point, walls=[(1.0, -1.0, 1.0, 1.0)])
    assert not hidden(point, walls=[(2.0, -1.0, 2.0, 1.0)])
    assert not hidden(point, walls=[(1.0, 0.1, 1.0, 1.0)])
    assert not hidden(point, walls=[(0.5, 0.0, 1.5, 0.0)])
    assert hidden(point, pillars=[(1.0, 0.0, 0.1)])
    # Below the tray at 1 m (0.15 < 0.175), into it at 1.8 m.
    assert not hidden(point, carriers=[(1.0, 0.0, 0.0)])
    assert hidden(point, carriers=[(1.8, 0.0, 0.0)])
    assert not hidden(point, carriers=[(1.8, 0.0, 0.0)], lift=0.05)
    assert not hidden(point, carriers=[(1.8, 0.0, 0.0)], own=0)
    # A leg in the line, and the same one lifted out of it.
    assert hidden(point, carriers=[(1.0, 0.15, 0.0)])
    assert hidden(point, carriers=[(1.0, 0.15, 0.0)], own=0)
    assert not hidden(point, carriers=[(1.0, 0.15, 0.0)], lift=0.2)
    # Straight up, and to itself.
    assert not hidden((0.0, 0.0, 1.0), robots=[(1.0, 0.0, 0.1, 2.0)])
    assert hidden((0.0, 0.0, 1.0), robots=[(0.0, 0.0, 0.1, 0.5)])
    assert not hidden((0.0, 0.0, 0.1))


@settings(deadline=None, max_examples=100)
@given(
    x=st.floats(-2, 2), y=st.floats(-2, 2), radius=st.floats(0.05, 0.5), height=st.floats(0.02, 0.4),
    z=st.floats(0.0, 0.5),
)  # fmt: skip
def test_a_cylinder_hides_what_points_on_the_line_say(x, y, radius, height, z):
    eye, point = np.array((0.0, 0.0, 0.1)), np.array((1.5, 0.4, z))
    share = np.linspace(0, 1, 4001)[:-8, None]
    line = eye + share * (point - eye)
    gap = np.hypot(line[:, 0] - x, line[:, 1] - y) - radius
    margin = np.maximum(gap, line[:, 2] - height)
    if abs(margin.min()) < 2e-3:
        return  # too close to call by points
    assert hidden(point, robots=[(x, y, radius, height)]) == bool((margin < 0).any())


# The underside


@settings(deadline=None, max_examples=60)
@given(
    x=st.floats(-0.12, 0.12), y=st.floats(-0.12, 0.12), yaw=st.floats(-math.pi, math.pi),
    turn=st.floats(-math.pi, math.pi), lift=st.sampled_from([0.0, 0.0, 0.01]),
)  # fmt: skip
def test_the_underside_is_found_wherever_the_robot_is_below(one_of_each, x, y, yaw, turn, lift):
    pose = (0.3, -0.2, turn)
    # The robot's body may be where a leg is: it is the picture that counts.
    one_of_each.physics.move_robot(0, pose)
    one_of_each.physics.move_carrier(0, tuple(compose(pose, (x, y, yaw))))
    one_of_each.physics.carrier_lifts[0] = lift
    readings = [reading for reading in readings_of(one_of_each) if reading.camera == "cam4"]
    assert len(readings) == 1
    assert readings[0].ids.min() >= 200
    if lift == 0.0:
        solver = CarrierPoseSolver(one_of_each.scene.markers, DOTS, CAMERAS)
        sight = solver.underside(readings[0], DOTS.lifter.lowered)
        assert sight is not None
        assert sight.pose_body[:2] == pytest.approx((x, y), abs=1e-4)
        assert wrap(sight.pose_body[2] - yaw) == pytest.approx(0.0, abs=1e-3)


def test_only_a_tray_above_is_seen_by_the_upward_camera(world):
    w = world([(0.0, 0.0, 0.0), (1.0, 1.0, 0.0)], [(0.3, 0.0, 0.0)])
    assert not any(camera == "cam4" for camera, _ in look(w))
    w.teleport("carrier1", (0.05, 0.0, 0.0))
    assert any(camera == "cam4" for camera, _ in look(w))
    assert not any(camera == "cam4" for camera, _ in look(w, "dots2"))


def test_a_raised_tray_lies_on_the_camera(world):
    w = world([(0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)])
    assert any(camera == "cam4" for camera, _ in look(w))
    w.device("dots1").lifter.move(DOTS.lifter.raised)
    for _ in range(100):
        w.step()
    assert not any(camera == "cam4" for camera, _ in look(w))


# The walls


def test_walls_are_for_robots_that_localise(world):
    poses = [[0.3, -0.4, 0.8]]
    for localised in (True, False):
        groups = [{"kind": "dots", "localised": localised, "place": {"poses": poses}}]
        w = world(groups, arena="dots_arena")
        assert bool(readings_of(w)) == localised
    groups = [{"kind": "dots", "localised": True, "place": {"poses": poses}}]
    w = world(groups, arena="dots_arena")
    solver = RobotPoseSolver(w.scene.arena.markers(), CAMERAS)
    estimate = solver.solve_many(readings_of(w), 0.8)
    assert estimate.markers >= 4
    assert estimate.pose_map == pytest.approx(poses[0], abs=1e-6)


def test_among_robots_only_those_that_localise_look_at_walls(world):
    groups = [
        {"kind": "dots", "localised": localised, "place": {"poses": [[0.3, y, 0.8]]}}
        for localised, y in ((True, -0.4), (False, 0.4))
    ]
    w = world(groups, arena="dots_arena")
    assert look(w, "dots1")
    assert not look(w, "dots2")


def watched(world, seconds=1.0, name="dots1", watching=True):
    """What a robot that does not localise reads, and what those who watch its cameras get."""
    cameras = world.device(name).cameras
    assert isinstance(cameras, WatchedCameras)
    if watching:
        cameras.watch(True)
    read, sights = [], []
    while world.time < seconds:
        world.step()
        read += [(world.time, reading) for reading in cameras.read()]
        sights += cameras.sights()
    return read, sights


def by_image(readings):
    return {(reading.stamp, reading.camera): reading for reading in readings}


LOST = [{"kind": "dots", "place": {"poses": [[0.3, -0.4, 0.8], [1.5, 1.5, 0.0]]}}]


def test_who_watches_sees_the_walls_too(world):
    w = world(LOST, [(0.8, -0.2, 0.2)], arena="dots_arena")
    cameras = w.device("dots1").cameras
    read, sights = watched(w, 0.5)
    assert {int(number) for _, reading in read for number in reading.ids} == {100}
    found = {int(number) for reading in sights for number in reading.ids}
    assert found > {100}
    assert found - {100} <= set(range(12))
    # What the robot read is in it, image by image, and the walls are where they are.
    everything = by_image(sights)
    for _, reading in read:
        whole = everything[reading.stamp, reading.camera]
        assert whole.ids[: len(reading.ids)].tolist() == reading.ids.tolist()
        assert np.array_equal(whole.corners[: len(reading.ids)], reading.corners)
    solver = RobotPoseSolver(cameras.walls(), CAMERAS)
    newest = {reading.camera: reading for reading in sights}
    assert solver.solve_many(list(newest.values()), 0.8).pose_map == pytest.approx([0.3, -0.4, 0.8], abs=1e-6)


@pytest.mark.parametrize("noise", [True, False])
def test_who_watches_changes_nothing(world, noise):
    runs = []
    for watching in (False, True):
        w = world(LOST, [(0.8, -0.2, 0.2)], arena="dots_arena", noise=noise)
        w.device("dots2")
        read, sights = watched(w, watching=watching)
        assert bool(sights) == watching
        others = w.device("dots2").cameras.read()
        runs.append(
            [(at, r.stamp, r.camera, r.ids.tolist(), r.corners.tobytes()) for at, r in read]
            + [(r.stamp, r.camera, r.corners.tobytes()) for r in others]
        )
    assert runs[0] == runs[1]
    assert runs[0]


def test_walls_err_and_are_late_like_all_else(world):
    w = world(LOST, arena="dots_arena", noise=True)
    exact = world(LOST, arena="dots_arena")
    cameras = w.device("dots1").cameras
    cameras.watch(True)
    delays, sights = [], []
    while w.time < 3.0:
        w.step()
        for reading in cameras.sights():
            delays.append(w.time - reading.stamp)
            sights.append(reading)
    assert np.mean(delays) == pytest.approx(0.0785 + 0.005, abs=0.004)
    true = by_image(watched(exact, 0.3)[1])
    true = {camera: reading for (_, camera), reading in true.items()}
    errors = [
        reading.corners - true[reading.camera].corners
        for reading in sights
        if reading.ids.tolist() == true[reading.camera].ids.tolist()
    ]
    assert np.std(np.concatenate(errors)) == pytest.approx(0.3, rel=0.1)


def test_who_watches_no_more_or_a_robot_that_is_gone_gets_nothing(world):
    w = world(LOST, arena="dots_arena")
    assert watched(w, 0.3)[1]
    cameras = w.device("dots1").cameras
    cameras.watch(False)
    assert not watched(w, 0.6, watching=False)[1]
    cameras.watch(True)
    w.device("dots2").cameras.watch(True)
    w.remove_robot("dots1")
    assert watched(w, 0.9, "dots2")[1]
    w.kill("dots2")
    assert not watched(w, 1.2, "dots2")[1]
    assert not cameras.sights()
    cameras.watch(False)


def test_in_an_arena_without_markers_there_is_nothing_more_to_see(world):
    w = world([(0.0, 0.0, 0.0)], [(0.6, 0.0, 0.0)])
    read, sights = watched(w, 0.5)
    assert w.device("dots1").cameras.walls() is None
    assert len(read) == len(sights) > 0


def test_a_robot_before_a_wall_marker_hides_it(world):
    groups = [{"kind": "dots", "localised": True, "place": {"poses": [[1.3, 0.0, 0.0], [1.0, 2.0, 0.0]]}}]
    w = world(groups, arena="dots_arena")
    assert ("cam0", 1) in look(w)
    # Its lower edge, at 0.13 m, is behind the body of a robot that is 0.145 m high.
    w.teleport("dots2", (2.37, 0.0, 0.0))
    assert ("cam0", 1) not in look(w)


# Lateness and noise


def test_images_arrive_as_late_as_the_paper_measured_and_each_camera_s_in_order(world):
    w = world([(0.0, 0.0, 0.0)], [(0.6, 0.0, 0.0)], noise=True)
    cameras = w.device("dots1").cameras
    delays, stamps = [], {"cam0": [], "cam3": []}
    for _ in range(3000):
        w.step()
        for reading in cameras.read():
            delays.append(w.time - reading.stamp)
            stamps[reading.camera].append(reading.stamp)
    # Table II for five cameras at 30 Hz, and half a step of the world until somebody reads.
    assert np.mean(delays) == pytest.approx(0.0785 + 0.005, abs=0.002)
    assert np.std(delays) == pytest.approx(0.0115, abs=0.002)
    for each in stamps.values():
        assert each == sorted(each)
        assert len(each) == pytest.approx(900, abs=5)


def test_without_noise_images_are_as_late_as_on_average(world):
    w = world([(0.0, 0.0, 0.0)], [(0.6, 0.0, 0.0)])
    cameras = w.device("dots1").cameras
    late = []
    for _ in range(100):
        w.step()
        late += [w.time - reading.stamp for reading in cameras.read()]
    assert len(late) > 10
    assert cameras.latency[0] > 0.05
    # They are handed out at the first step after they have arrived.
    assert min(late) >= cameras.latency[0] - 1e-9
    assert max(late) < cameras.latency[0] + w.timestep


def test_no_two_robots_share_the_noise_of_their_cameras(world):
    w = world([(0.0, 0.0, 0.0), (0.0, 3.0, 0.0)], [(0.6, 0.1, 0.2), (0.6, 3.1, 0.2)], noise=True)
    corners = ([], [])
    for _ in range(1000):
        w.step()
        for name, into in zip(w.names, corners, strict=True):
            into.extend(r.corners[0].ravel() for r in w.device(name).cameras.read() if r.camera == "cam0")
    count = min(map(len, corners))
    assert count > 50
    one, two = (np.array(rows[:count]) for rows in corners)
    # They see the same, but for what errs.
    assert one.mean(axis=0) == pytest.approx(two.mean(axis=0), abs=0.5)
    errors = [(rows - rows.mean(axis=0)).ravel() for rows in (one, two)]
    assert abs(np.corrcoef(errors)[0, 1]) < 0.3


def test_corners_err_by_the_camera_s_noise(world):
    quiet = look(world([(0.0, 0.0, 0.0)], [(0.6, 0.1, 0.2)]))[("cam0", 100)][0]
    w = world([(0.0, 0.0, 0.0)], [(0.6, 0.1, 0.2)], noise=True)
    cameras = w.device("dots1").cameras
    errors = []
    for _ in range(2000):
        w.step()
        errors += [
            quad - quiet for reading in cameras.read() if reading.camera == "cam0" for quad in reading.corners
        ]
    errors = np.array(errors)
    assert errors.std() == pytest.approx(DOTS.cameras[0].corner_sigma_px, rel=0.05)
    assert np.abs(errors.mean(axis=0)).max() < 5 * 0.3 / math.sqrt(len(errors))
    # One image's errors are not another's, nor one corner's another's.
    flat = errors.reshape(len(errors), 8)
    correlation = np.corrcoef(flat.T) - np.eye(8)
    assert np.abs(correlation).max() < 0.2
    lagged = [np.corrcoef(flat[:-1, k], flat[1:, k])[0, 1] for k in range(8)]
    assert np.abs(lagged).max() < 0.2


def test_a_reading_is_not_changed_by_the_next(world):
    w = world([(0.0, 0.0, 0.0)], [(0.6, 0.1, 0.2)])
    first = readings_of(w)[0]
    before = first.corners.copy()
    w.teleport("carrier1", (0.6, -0.1, 0.2))
    for _ in range(10):
        w.step()
    assert np.array_equal(first.corners, before)


def test_the_nearest_row_of_the_table_counts():
    assert latency_of(DOTS.camera_latency, 30.0, 5) == (0.0785, 0.0115)
    assert latency_of(DOTS.camera_latency, 55.0, 9) == (0.0584, 0.0146)
    assert latency_of((), 30.0, 5) == (0.0, 0.0)
