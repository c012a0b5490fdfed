"""The collision map: equations (2) to (4) of the DOTS paper, and what is asked of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.collision_map import CollisionMap, CollisionMapParams
from swarmbed_core.errors import MapError
from swarmbed_core.geometry import compose
from swarmbed_core.ranges import RangeModel, points_body
from swarmbed_core.raycast import box_segments, cast_ring_k
from swarmbed_core.spec import RobotSpec

DOTS = RobotSpec.load("dots")
RING = DOTS.ranges[0]
PARAMS = CollisionMapParams()
HOME = np.zeros(3)
NO_POINTS = np.empty((0, 2))
PERIOD = 1.0 / RING.rate

anything = st.one_of(st.floats(), st.floats(-2.0, 2.0))
stamps = st.one_of(st.just(PERIOD), st.floats(0.0, 2.0), st.floats())
steps = st.one_of(st.floats(-0.1, 0.1), st.floats())


def rows(things, width):
    return np.asarray(things, dtype=float).reshape(-1, width)


def sweep(pose, segments, discs=(), errors=None, rays=RING.rays):
    """Return the returns of a ring at `pose` among walls and posts."""
    out = np.empty(RING.count)
    pose, angles = np.asarray(pose, dtype=float), np.array(RING.angles)
    sees = (RING.mount_radius, RING.field_of_view, rays)
    cast_ring_k(pose, angles, *sees, rows(segments, 4), rows(discs, 3), -1, RING.range_max, out)
    return points_body(RING, errors.measure(out) if errors else out)


def watch(collision_map, pose, segments=(), discs=(), start=0.0, duration=2.0, errors=None):
    """Let a robot stand at `pose` for a while; return when it stopped looking."""
    sweeps = round(duration / PERIOD)
    for k in range(sweeps + 1):
        collision_map.update(start + k * PERIOD, pose, sweep(pose, segments, discs, errors))
    return start + sweeps * PERIOD


def cell_at(collision_map, x, y):
    """Return the value at a place of the robot's frame."""
    return collision_map.likelihood((x, y), 1.0, radius=0.0)


def middles(grid, resolution=PARAMS.cell):
    """Return x of the columns or y of the rows of an image."""
    return (np.arange(len(grid)) + 0.5 - len(grid) / 2) * resolution


def by_the_book(returns, places, step_s, steps):
    """Return equation (4) with small steps of the paper's own form, for one sweep at each step."""
    value = np.zeros(len(places))
    for _ in range(steps):
        gaussians = np.exp(-np.sum((places[:, None] - returns[None]) ** 2, axis=2) / (2 * 0.025**2))
        value = np.minimum(value * (1 - PARAMS.decay_rate * step_s) + gaussians.sum(axis=1), 1.0)
    return value


class TestEquations:
    def test_one_return_is_a_gaussian_about_its_place(self):
        collision_map = CollisionMap(DOTS)
        collision_map.update(0.0, HOME, [(0.5, 0.2)])
        grid = collision_map.as_grid()
        x, y = np.meshgrid(middles(grid), middles(grid))
        expected = np.exp(-((x - 0.5) ** 2 + (y - 0.2) ** 2) / (2 * PARAMS.sensor_sigma**2))
        assert np.abs(grid - expected).max() < math.exp(-(PARAMS.reach**2) / 2)

    def test_returns_add_up_and_stop_at_one(self):
        collision_map = CollisionMap(DOTS)
        x = 16.5 * PARAMS.cell
        half = x + PARAMS.sensor_sigma * math.sqrt(2 * math.log(4))
        collision_map.update(0.0, HOME, [(half, 0.5 * PARAMS.cell)])
        assert cell_at(collision_map, x, 0.5 * PARAMS.cell) == pytest.approx(0.25)
        collision_map.update(0.0, HOME, [(half, 0.5 * PARAMS.cell)] * 2)
        assert cell_at(collision_map, x, 0.5 * PARAMS.cell) == pytest.approx(0.75)
        collision_map.update(0.0, HOME, [(half, 0.5 * PARAMS.cell)] * 2)
        assert cell_at(collision_map, x, 0.5 * PARAMS.cell) == 1.0

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(st.lists(st.tuples(st.floats(0.1, 0.8), st.floats(-0.8, 0.8)), min_size=1, max_size=16))
    def test_it_is_equation_4_for_small_steps(self, returns):
        returns = np.array(returns)
        step_s, steps = 0.001, 8
        collision_map = CollisionMap(DOTS)
        for k in range(steps):
            collision_map.update(k * step_s, HOME, returns)
        places = (np.round(returns / PARAMS.cell) + 0.5) * PARAMS.cell
        expected = by_the_book(returns, places, step_s, steps)
        values = [cell_at(collision_map, x, y) for x, y in places]
        assert values == pytest.approx(
            expected, abs=1e-4 + steps * len(returns) * math.exp(-(PARAMS.reach**2) / 2)
        )

    def test_a_static_wall_reaches_one_and_a_false_return_fades(self):
        collision_map = CollisionMap(DOTS)
        wall = [(0.4, -2.0, 0.4, 2.0)]
        end = watch(collision_map, HOME, wall)
        assert cell_at(collision_map, 0.405, 0.0) == pytest.approx(1.0, abs=1e-12)
        false = (-0.5, 0.1)
        collision_map.update(end, HOME, [false])
        before = cell_at(collision_map, *false)
        assert 0.5 < before < 1.0
        end = watch(collision_map, HOME, wall, start=end, duration=1.0)
        assert cell_at(collision_map, *false) == pytest.approx(before * math.exp(-1.0), rel=1e-9)
        watch(collision_map, HOME, wall, start=end, duration=9.0)
        assert cell_at(collision_map, *false) < 1e-4
        assert cell_at(collision_map, 0.405, 0.0) == pytest.approx(1.0, abs=1e-12)

    @pytest.mark.parametrize("rate", [0.0, 0.5, 3.0])
    def test_the_decay_rate_is_a_parameter(self, rate):
        collision_map = CollisionMap(DOTS, CollisionMapParams(decay_rate=rate))
        collision_map.update(0.0, HOME, [(0.5, 0.0)])
        before = cell_at(collision_map, 0.5, 0.0)
        collision_map.move(0.7, HOME)
        assert cell_at(collision_map, 0.5, 0.0) == pytest.approx(before * math.exp(-0.7 * rate), rel=1e-12)


class TestCuts:
    """The map does not depend on how a second is cut into steps."""

    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(
        st.lists(st.floats(0.0, 1.0), max_size=30),
        st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(-2.0, 2.0)),
        st.floats(0.0, 1e5),
    )
    def test_one_second_in_any_cuts(self, cuts, velocity, start):
        velocity = np.array(velocity)
        returns = [(0.5 * math.cos(k), 0.5 * math.sin(k)) for k in range(16)]
        whole, cut = CollisionMap(DOTS), CollisionMap(DOTS)
        for collision_map in (whole, cut):
            collision_map.update(start, HOME, returns)
        for share in sorted(cuts):
            cut.move(start + share, velocity * share)
        for collision_map in (whole, cut):
            collision_map.move(start + 1.0, velocity)
        assert whole.health.total == cut.health.total == 0
        assert np.abs(whole.as_grid() - cut.as_grid()).max() < 1e-12
        assert whole.as_grid().max() > 0.1

    def test_a_long_time_in_many_cuts(self):
        # Longer than the scale lasts before it starts again, at other times in each map.
        values = []
        for steps in (1, 7, 3000):
            collision_map = CollisionMap(DOTS, CollisionMapParams(decay_rate=3.0))
            collision_map.update(0.0, HOME, [(0.5, 0.0)] * 3)
            for k in range(1, steps + 1):
                collision_map.move(9.0 * k / steps, HOME)
            values.append(cell_at(collision_map, 0.5, 0.0) * math.exp(27.0))
        assert values == pytest.approx([1.0] * 3, rel=1e-9)

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(
        st.lists(
            st.tuples(stamps, st.tuples(*[steps] * 3), st.lists(st.tuples(anything, anything), max_size=6)),
            min_size=1,
            max_size=6,
        ),
        st.one_of(st.none(), st.tuples(anything, anything, anything)),
        st.tuples(anything, anything),
        anything,
    )
    def test_it_stays_between_zero_and_one(self, story, carrier, velocity, lookahead):
        collision_map = CollisionMap(DOTS)
        if carrier:
            collision_map.carry(carrier)
        for seconds, step, points in story:
            stamp = (collision_map.stamp or 0.0) + seconds
            pose = [a + b for a, b in zip(collision_map.pose_odom.tolist(), step, strict=True)]
            collision_map.update(stamp, pose, np.array(points).reshape(-1, 2))
            grid = collision_map.as_grid()
            assert grid.min() >= 0.0
            assert grid.max() <= 1.0
            assert 0.0 <= collision_map.likelihood(velocity, lookahead) <= 1.0
            direction, cost = collision_map.least_worst(8, 0.3)
            assert -math.pi < direction <= math.pi
            assert 0.0 <= cost < math.inf


class TestMotion:
    @pytest.mark.parametrize("heading", [0.0, 0.7, -2.0])
    def test_a_wall_stays_where_it_is_while_the_robot_drives_and_turns(self, heading):
        # One metre along the wall and a quarter turn; the wall is 0.5 m to the left of the way.
        x1, y1, x2, y2 = -1.0, 0.5, 2.5, 0.5
        c, s = math.cos(heading), math.sin(heading)
        wall = [(c * x1 - s * y1, s * x1 + c * y1, c * x2 - s * y2, s * x2 + c * y2)]
        collision_map = CollisionMap(DOTS)
        for k in range(201):
            pose = compose((0.0, 0.0, heading), (k / 200, 0.0, k / 200 * math.pi / 2))
            # One ray a sensor: the nearest of three over a wall seen aslant lies before the wall.
            collision_map.update(k * PERIOD, pose, sweep(pose, wall, rays=1))
        grid = collision_map.as_grid()
        x, y = np.meshgrid(middles(grid), middles(grid))
        full = grid > 0.99
        assert full.sum() > 30
        # It now is 0.5 m ahead; a full cell is within 2.8 sigma of a return.
        assert np.abs(x[full] - 0.5).max() < 2.9 * PARAMS.sensor_sigma + PARAMS.cell
        weight = grid * (grid > 0.3)
        assert (weight * x).sum() / weight.sum() == pytest.approx(0.5, abs=PARAMS.cell / 2)
        assert np.ptp(y[full]) > 0.5
        assert not collision_map.health.total

    def test_moving_without_looking_does_not_blur(self):
        collision_map = CollisionMap(DOTS)
        watch(collision_map, HOME, [(0.5, -0.7, 0.5, 0.7)])
        before = collision_map.as_grid()
        stamp = collision_map.stamp
        for k in range(500):
            share = (k + 1) / 500
            pose = (0.3 * math.sin(math.tau * share), 0.3 * math.sin(2 * math.tau * share), math.tau * share)
            collision_map.move(stamp + 2.0 * share, pose)
        after = collision_map.as_grid() * math.exp(2.0)
        assert np.abs(after - before).max() < 1e-9

    @pytest.mark.parametrize(
        ("away", "kept"),
        [
            ((5.0, 0.0), []),
            ((0.0, -5.0), []),
            ((1.25, 1.25), [(1, 1)]),
            ((0.0, 0.5), [(-1, 1), (0, 1), (1, 1)]),
        ],
    )
    def test_what_leaves_the_map_does_not_come_back(self, away, kept):
        collision_map = CollisionMap(DOTS)
        edge = 0.75
        places = [(x, y) for x in (-1, 0, 1) for y in (-1, 1)]
        collision_map.update(0.0, HOME, edge * np.array(places))
        for k in range(1, 601):
            share = min(k, 600 - k) / 300
            collision_map.move(k * 0.005, (away[0] * share, away[1] * share, 0.0))
        for x, y in places:
            value = cell_at(collision_map, edge * x, edge * y) * math.exp(3.0)
            assert value > 0.5 if (x, y) in kept else value == 0.0
        assert collision_map.health.total == 0

    @pytest.mark.parametrize("cells_a_step", [1, 3])
    @pytest.mark.parametrize("way", [(1, 0), (-1, 0), (0, 1), (0, -1)])
    def test_what_the_robot_leaves_behind_does_not_appear_ahead(self, way, cells_a_step):
        collision_map = CollisionMap(DOTS)
        way = np.array(way, dtype=float)
        aside = np.array([-way[1], way[0]])
        behind = [-d * way + a * aside for d in np.arange(0.6, 1.23, 0.03) for a in (-0.3, 0.0, 0.3)]
        collision_map.update(0.0, HOME, behind)
        for k in range(1, 24 // cells_a_step):
            moved = k * cells_a_step * PARAMS.cell
            collision_map.move(k * 0.05, (*(moved * way), 0.0))
            grid = collision_map.as_grid()
            x, y = np.meshgrid(middles(grid), middles(grid))
            assert grid[way[0] * x + way[1] * y > 0.0].max() == 0.0
        assert collision_map.health.total == 0

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(
        st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.floats(-math.pi, math.pi), st.floats(-math.pi, math.pi)
    )
    def test_answers_do_not_depend_on_where_odometry_started(self, x, y, yaw, ahead):
        # The same room about the same robot, seen from another origin and heading of the odometry.
        home, elsewhere = CollisionMap(DOTS), CollisionMap(DOTS)
        room = box_segments(np.array([0.2, 0.1, 0.3]), 1.4, 1.1)
        points = sweep(HOME, room)
        for k in range(50):
            home.update(k * PERIOD, HOME, points)
            elsewhere.update(k * PERIOD, (x, y, yaw), points)
        v = (0.5 * math.cos(ahead), 0.5 * math.sin(ahead))
        for lookahead in (0.5, 1.0, 1.5):
            assert elsewhere.likelihood(v, lookahead) == pytest.approx(
                home.likelihood(v, lookahead), abs=0.08
            )
        assert elsewhere.costs(16, 0.4) == pytest.approx(home.costs(16, 0.4), abs=5.0)

    def test_a_whole_turn_and_cells_far_from_the_origin_change_nothing(self):
        values = []
        for pose in (HOME, np.array([0.0, 0.0, math.tau]), np.array([-300.0 * 81 * PARAMS.cell, 0.0, 0.0])):
            collision_map = CollisionMap(DOTS)
            collision_map.update(0.0, pose, [(0.5, 0.21)])
            values.append(collision_map.as_grid())
        assert np.allclose(values[1], values[0], atol=1e-9)
        assert np.allclose(values[2], values[0], atol=1e-6)


class TestLikelihood:
    def test_it_is_high_towards_a_wall_and_zero_away_from_it(self):
        collision_map = CollisionMap(DOTS)
        errors = RangeModel(RING, np.random.default_rng(3))
        watch(collision_map, HOME, [(0.5, -2.0, 0.5, 2.0)], errors=errors)
        towards = collision_map.likelihood((0.5, 0.0), 1.0)
        assert towards > 0.3
        assert collision_map.likelihood((-0.5, 0.0), 1.0) < 1e-3
        assert collision_map.likelihood((0.0, 0.3), 1.0) < 0.1
        assert collision_map.likelihood((0.2, 0.0), 1.0) < towards
        assert collision_map.likelihood((0.0, 0.0), 1.0) < 0.01

    def test_it_is_the_mean_of_the_cells_in_the_disc(self):
        collision_map = CollisionMap(DOTS, CollisionMapParams(sensor_sigma=0.5, extent=0.9, cell=0.03))
        collision_map.update(0.0, HOME, [(0.4, 0.1)] * 50)
        assert collision_map.likelihood((0.4, 0.1), 1.0) == pytest.approx(1.0, abs=1e-12)
        lone = CollisionMap(DOTS, CollisionMapParams(sensor_sigma=1e-3))
        x, y = 0.375, 0.105
        lone.update(0.0, HOME, [(x, y)])
        cells = [
            (i, j) for i in range(-10, 11) for j in range(-10, 11) if math.hypot(i, j) * PARAMS.cell <= 0.125
        ]
        assert lone.likelihood((x, y), 1.0) == pytest.approx(1.0 / len(cells), rel=1e-9)
        assert lone.likelihood((x, y), 1.0, radius=0.001) == pytest.approx(1.0)

    def test_the_velocity_is_the_robots_own(self):
        collision_map = CollisionMap(DOTS)
        pose = (0.0, 0.0, math.pi / 2)
        watch(collision_map, pose, [(-2.0, 0.5, 2.0, 0.5)])
        assert collision_map.likelihood((0.5, 0.0), 1.0) > 0.3
        assert collision_map.likelihood((0.0, 0.5), 1.0) < 0.01
        assert collision_map.likelihood(np.array([0.5, 0.0, 3.0]), 1.0) > 0.3, "a twist"

    def test_a_look_beyond_the_map_stops_at_its_edge(self):
        collision_map = CollisionMap(DOTS)
        edge = PARAMS.extent - DOTS.body.bounding_radius
        watch(collision_map, HOME, [(edge, -0.5, edge, 0.5)])
        assert collision_map.likelihood((2.0, 0.0), 5.0) > 0.1
        assert collision_map.likelihood((2.0, 0.0), 5.0) == collision_map.likelihood((edge, 0.0), 1.0)
        assert collision_map.likelihood((0.5, 0.0), 1.0, radius=5.0) >= 0.0

    @pytest.mark.parametrize(
        ("velocity", "lookahead", "radius"),
        [
            ((math.nan, 0.0), 1.0, None), ((0.0, math.inf), 1.0, None), ((1.0, 0.0), math.nan, None),
            ((1.0, 0.0), -1.0, None), ((1.0, 0.0), 1.0, math.nan), ((1.0, 0.0), 1.0, -0.1),
        ],
    )  # fmt: skip
    def test_a_senseless_question_is_counted_and_answered_with_care(self, velocity, lookahead, radius):
        collision_map = CollisionMap(DOTS)
        assert collision_map.likelihood(velocity, lookahead, radius) == 1.0
        assert collision_map.health.counts["collision_map.query"] == 1

    def test_an_empty_map_is_clear(self):
        collision_map = CollisionMap(DOTS)
        assert collision_map.stamp is None
        assert collision_map.likelihood((1.0, 0.0), 1.0) == 0.0
        assert collision_map.least_worst(16, 0.3) == (0.0, 0.0)

    def test_every_kind_of_robot_has_its_own_footprint(self, any_spec):
        collision_map = CollisionMap(any_spec)
        assert collision_map.footprint == any_spec.body.bounding_radius
        collision_map.update(0.0, HOME, [(0.6, 0.0)])
        assert collision_map.likelihood((0.6, 0.0), 1.0) > 0.0


class TestLeastWorst:
    @pytest.mark.parametrize("opening", [0.0, math.pi / 2, 2.5, -1.2])
    def test_it_leads_out_of_a_trap(self, opening):
        # A U of three walls 0.25 m from the robot, open towards `opening` of the world.
        c, s = math.cos(opening), math.sin(opening)
        corners = np.array([(0.5, 0.25), (-0.25, 0.25), (-0.25, -0.25), (0.5, -0.25)]) @ np.array(
            [[c, s], [-s, c]]
        )
        trap = [(*corners[k], *corners[k + 1]) for k in range(3)]
        for yaw in (0.0, 0.4, 3.0):
            pose = (0.0, 0.0, yaw)
            collision_map = CollisionMap(DOTS)
            watch(collision_map, pose, trap)
            direction, cost = collision_map.least_worst(32, 0.3)
            off = math.remainder(direction + yaw - opening, math.tau)
            assert abs(off) < math.radians(15.0)
            assert cost == collision_map.costs(32, 0.3).min()
            assert cost < 0.5 * np.median(collision_map.costs(32, 0.3))

    def test_costs_are_sums_of_cells_on_the_way(self):
        collision_map = CollisionMap(DOTS, CollisionMapParams(sensor_sigma=1e-3))
        # One cell each: left of the way ahead, on it, at its end, beyond it and behind.
        for x, y in ((0.315, 0.105), (0.195, 0.015), (0.405, -0.015), (0.435, 0.015), (-0.105, 0.015)):
            collision_map.update(0.0, HOME, [(x, y)])
        assert collision_map.costs(4, 0.3)[0] == pytest.approx(3.0)
        assert collision_map.costs(4, 0.0)[0] == pytest.approx(0.0)
        assert collision_map.costs(4, 0.3)[2] == pytest.approx(1.0)

    def test_ties_go_straight_ahead_then_left(self):
        collision_map = CollisionMap(DOTS, CollisionMapParams(sensor_sigma=1e-3))
        collision_map.update(0.0, HOME, NO_POINTS)
        assert collision_map.least_worst(7, 0.4) == (0.0, 0.0)
        # Four cells about the axis: both sides are equal, ahead and behind are worse.
        collision_map.update(0.0, HOME, [(x, y) for x in (-0.315, 0.315) for y in (-0.015, 0.015)])
        assert collision_map.least_worst(4, 0.4) == (math.pi / 2, 0.0)
        assert collision_map.least_worst(1, 0.4)[0] == 0.0

    def test_clear_directions_lead_away(self):
        collision_map = CollisionMap(DOTS)
        watch(collision_map, HOME, [(0.4, -2.0, 0.4, 2.0)])
        clear = collision_map.clear_directions(16, 0.4, 0.02)
        assert len(clear) > 4
        assert np.all(np.cos(clear) < 0.5)
        assert len(collision_map.clear_directions(16, 0.4, 1.0)) == 16

    @pytest.mark.parametrize(
        ("n_directions", "distance"), [(0, 0.3), (8, -0.1), (8, math.nan), (8, math.inf)]
    )
    def test_no_directions_or_no_distance_is_an_error(self, n_directions, distance):
        with pytest.raises(MapError, match=f"{n_directions} directions, {distance} m"):
            CollisionMap(DOTS).least_worst(n_directions, distance)


class TestCarrying:
    def legs(self, pose=(0.0, 0.0, 0.0)):
        """Return the legs of a carrier at `pose` as discs."""
        carrier = DOTS.carrier
        x, y = carrier.length / 2 - carrier.leg_radius, carrier.width / 2 - carrier.leg_radius
        corners = [(x, y), (-x, y), (-x, -y), (x, -y)]
        return np.array([(*compose(pose, (*corner, 0.0))[:2], carrier.leg_radius) for corner in corners])

    @pytest.mark.parametrize("pose", [(0.0, 0.0, 0.0), (0.008, -0.006, 0.3), (0.0, 0.0, 1.2)])
    @pytest.mark.parametrize("seed", [1, 2])
    def test_the_carriers_own_legs_are_forgiven_with_their_echoes(self, pose, seed):
        errors = RangeModel(RING, np.random.default_rng(seed))
        collision_map = CollisionMap(DOTS)
        end = watch(collision_map, HOME, discs=self.legs(pose), errors=errors)
        assert collision_map.least_worst(16, 0.2)[1] > 0.0
        assert collision_map.as_grid().max() == 1.0

        collision_map.carry(pose)
        assert collision_map.carrying
        assert collision_map.footprint == pytest.approx(math.hypot(0.33, 0.33) / 2)
        assert collision_map.as_grid().sum() < 0.02 * CollisionMap(DOTS).as_grid().size
        watch(collision_map, HOME, discs=self.legs(pose), start=end, duration=10.0, errors=errors)
        for angle in np.linspace(-math.pi, math.pi, 32):
            v = (0.3 * math.cos(angle), 0.3 * math.sin(angle))
            assert collision_map.likelihood(v, 1.0) < 0.01

    def test_echoes_from_before_the_lift_are_erased(self):
        collision_map = CollisionMap(DOTS)
        leg = self.legs()[0, :2]
        away = math.hypot(*leg)
        echoes = [leg / away * (RING.mount_radius + k * (away - RING.mount_radius)) for k in (2, 3)]
        aside = np.array([0.5, 0.0])
        for _ in range(3):
            collision_map.update(0.0, HOME, [*echoes, aside])
        assert all(cell_at(collision_map, *echo) == 1.0 for echo in echoes)
        collision_map.carry()
        assert all(cell_at(collision_map, *echo) == 0.0 for echo in echoes)
        assert cell_at(collision_map, *aside) == 1.0

    def test_a_wall_ahead_is_still_seen(self):
        collision_map = CollisionMap(DOTS)
        collision_map.carry()
        watch(collision_map, HOME, [(0.5, -2.0, 0.5, 2.0)], self.legs())
        assert collision_map.likelihood((0.3, 0.0), 1.0) > 0.1
        assert collision_map.likelihood((-0.3, 0.0), 1.0) < 0.01

    def test_what_comes_between_robot_and_leg_is_still_seen(self):
        params = CollisionMapParams(sensor_sigma=0.005, leg_slack=0.0)
        collision_map = CollisionMap(DOTS, params)
        collision_map.carry()
        near = 0.14 / math.sqrt(2)
        collision_map.update(0.0, HOME, [(near, near)])
        assert collision_map.as_grid(0.01).max() > 0.1
        collision_map.update(0.0, HOME, [(-0.3, -0.3)])
        assert cell_at(collision_map, -0.3, -0.3) == 0.0

    def test_legs_turn_with_the_robot(self):
        errors = RangeModel(RING, np.random.default_rng(5))
        collision_map = CollisionMap(DOTS)
        collision_map.carry()
        for k in range(200):
            pose = (0.3 * k * PERIOD, 0.0, k * PERIOD)
            legs = self.legs(pose)
            collision_map.update(k * PERIOD, pose, sweep(pose, [], legs, errors))
        assert collision_map.as_grid().max() < 0.2

    def test_a_put_down_carrier_is_an_obstacle_again(self):
        collision_map = CollisionMap(DOTS)
        collision_map.carry()
        end = watch(collision_map, HOME, discs=self.legs())
        assert collision_map.as_grid().max() == 0.0
        collision_map.release()
        assert not collision_map.carrying
        watch(collision_map, HOME, discs=self.legs(), start=end)
        assert collision_map.as_grid().max() == 1.0

    def test_telling_where_it_sits_again_erases_nothing(self):
        collision_map = CollisionMap(DOTS)
        collision_map.carry()
        collision_map.update(0.0, HOME, [(0.6, 0.0)])
        collision_map.carry((0.0, 0.0, math.pi / 4))
        assert cell_at(collision_map, 0.6, 0.0) > 0.1

    @pytest.mark.parametrize(
        "pose", [(math.nan, 0.0, 0.0), (0.0, 0.0, math.inf), (2.0, 0.0, 0.0), (0.0, 0.0)]
    )
    def test_a_carrier_that_cannot_be_there_is_refused(self, pose):
        collision_map = CollisionMap(DOTS)
        collision_map.carry(pose)
        assert not collision_map.carrying
        assert collision_map.health.counts["collision_map.carrier"] == 1

    def test_a_robot_without_carriers_cannot_carry(self):
        with pytest.raises(MapError, match="epuck2"):
            CollisionMap(RobotSpec.load("epuck2")).carry()


class TestBadInput:
    def filled(self):
        collision_map = CollisionMap(DOTS)
        collision_map.update(1.0, HOME, [(0.5, 0.0)])
        return collision_map

    def refused(self, collision_map, reason, before):
        assert collision_map.health.counts == {reason: 1}
        assert collision_map.health.latest[reason]
        assert np.array_equal(collision_map.as_grid(), before)

    @pytest.mark.parametrize(
        ("stamp", "reason"),
        [
            (math.nan, "stamp"),
            (math.inf, "stamp"),
            (-math.inf, "stamp"),
            (0.5, "backwards"),
            (-1e9, "backwards"),
        ],
    )
    def test_a_bad_stamp(self, stamp, reason):
        for ask in (CollisionMap.update, lambda m, stamp, pose, _: m.move(stamp, pose)):
            collision_map = self.filled()
            before = collision_map.as_grid()
            ask(collision_map, stamp, HOME, [(-0.5, 0.0)])
            self.refused(collision_map, f"collision_map.{reason}", before)

    @pytest.mark.parametrize(
        "pose",
        [
            (math.nan, 0, 0), (0, math.inf, 0), (0, 0, math.nan), (1e300, 0, 0), (0, 0), [(0, 0, 0)],
            [[0], [0], [0]], "123", None,
        ],
    )  # fmt: skip
    def test_a_bad_pose(self, pose):
        for ask in (CollisionMap.update, lambda m, stamp, pose, _: m.move(stamp, pose)):
            for stamp in (1.02, 0.98) if ask is CollisionMap.update else (1.02,):
                collision_map = self.filled()
                before = collision_map.as_grid()
                ask(collision_map, stamp, pose, [(-0.5, 0.0)])
                self.refused(collision_map, "collision_map.pose", before)

    @pytest.mark.parametrize(
        "point",
        [(math.inf, 0.0), (0.0, -math.inf), (math.nan, 1.0), (1.0, math.nan), (1e300, 0.0), (0.0, 0.0)],
    )
    def test_bad_points_among_good_ones(self, point):
        collision_map = self.filled()
        collision_map.update(1.0, HOME, [point, (-0.5, 0.0)])
        assert collision_map.health.counts == {"collision_map.points": 1}
        assert "1 of 2" in collision_map.health.latest["collision_map.points"]
        assert cell_at(collision_map, -0.5, 0.0) > 0.5

    @pytest.mark.parametrize("points", [[1.0, 2.0], [[1.0, 2.0, 3.0]], [[[1.0, 2.0]]]])
    def test_points_of_another_shape(self, points):
        collision_map = self.filled()
        before = collision_map.as_grid()
        collision_map.update(1.0, HOME, points)
        self.refused(collision_map, "collision_map.points", before)

    def test_no_return_is_not_bad(self):
        collision_map = self.filled()
        collision_map.update(1.0, HOME, np.full((16, 2), math.nan))
        collision_map.update(1.0, HOME, NO_POINTS)
        assert collision_map.health.total == 0

    @pytest.mark.parametrize("pose", [(1.0, 0.0, 0.0), (0.0, 0.0, 2.0), (-500.0, 300.0, 0.0)])
    def test_a_jump_of_the_pose_empties_the_map(self, pose):
        collision_map = self.filled()
        collision_map.update(1.02, pose, [(-0.5, 0.0)])
        assert collision_map.health.counts == {"collision_map.jump": 1}
        assert collision_map.as_grid().max() == 0.0
        assert collision_map.pose_odom == pytest.approx(pose)
        collision_map.update(1.04, pose, [(-0.5, 0.0)])
        assert cell_at(collision_map, -0.5, 0.0) > 0.5
        assert collision_map.health.total == 1

    def test_as_fast_as_the_robot_goes_is_no_jump(self):
        collision_map = self.filled()
        for k in range(1, 51):
            limits = DOTS.limits
            seconds = k * PERIOD
            collision_map.move(1.0 + seconds, (limits.speed * seconds, 0.0, limits.yaw_rate * seconds))
        assert collision_map.health.total == 0

    def test_a_long_silence_leaves_an_empty_map(self):
        collision_map = self.filled()
        collision_map.move(1e9, HOME)
        assert collision_map.as_grid().max() == 0.0
        collision_map.update(1e9 + 0.02, HOME, [(0.5, 0.0)])
        assert cell_at(collision_map, 0.5, 0.0) > 0.5

    def test_a_late_sweep_is_entered_at_its_own_age_and_place(self):
        late, in_time = self.filled(), self.filled()
        there, here = np.array([0.0, 0.0, 0.0]), np.array([0.1, 0.05, 0.5])
        in_time.update(1.05, there, [(0.0, 0.6)])
        in_time.move(1.15, here)
        late.move(1.15, here)
        late.update(1.05, there, [(0.0, 0.6)])
        assert np.allclose(late.as_grid(), in_time.as_grid(), atol=1e-12)
        assert late.stamp == 1.15
        assert late.pose_odom == pytest.approx(here)

    def test_reset_takes_a_clock_that_starts_again(self):
        collision_map = self.filled()
        collision_map.carry()
        collision_map.reset()
        assert collision_map.stamp is None
        assert collision_map.carrying, "the clock does not put the carrier down"
        assert collision_map.as_grid().max() == 0.0
        collision_map.update(0.0, (9.0, 9.0, 0.0), [(0.5, 0.0)])
        assert collision_map.health.total == 0
        assert cell_at(collision_map, 0.5, 0.0) > 0.5

    def test_a_snapshot_stays_as_it_was(self):
        collision_map = self.filled()
        collision_map.carry()
        before = collision_map.as_grid()
        snapshot = collision_map.snapshot()
        collision_map.update(1.5, (0.2, 0.0, 0.3), [(-0.5, 0.0)])
        collision_map.release()
        collision_map.move(math.nan, HOME)
        assert np.array_equal(snapshot.as_grid(), before)
        assert snapshot.stamp == 1.0
        assert snapshot.carrying
        assert snapshot.health.total == 0

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("cell", 0.0), ("cell", math.nan), ("extent", -1.0), ("extent", 0.01), ("extent", 1e5),
            ("sensor_sigma", 0.0), ("reach", math.inf), ("decay_rate", -1.0), ("max_late", math.nan),
        ],
    )  # fmt: skip
    def test_parameters_of_no_map(self, name, value):
        with pytest.raises(MapError, match=f"CollisionMapParams.{name} is {value}"):
            CollisionMapParams(**{name: value})


class TestGrid:
    def test_rows_go_along_y_and_columns_along_x(self):
        collision_map = CollisionMap(DOTS)
        collision_map.update(0.0, (0.0, 0.0, 1.0), [(0.6, -0.3)] * 9)
        for resolution in (None, 0.02, 0.05):
            grid = collision_map.as_grid(resolution)
            row, column = np.unravel_index(grid.argmax(), grid.shape)
            middle = middles(grid, resolution or PARAMS.cell)
            assert middle[column] == pytest.approx(0.6, abs=0.05)
            assert middle[row] == pytest.approx(-0.3, abs=0.05)

    @pytest.mark.parametrize("resolution", [0.0, -1.0, math.nan, math.inf])
    def test_a_resolution_of_none_is_an_error(self, resolution):
        with pytest.raises(MapError):
            CollisionMap(DOTS).as_grid(resolution or 1e-9)


def test_a_map_from_another_ones_content_answers_alike():
    one = CollisionMap(DOTS)
    one.carry((0.01, 0.0, 0.2))
    for k in range(30):
        one.update(0.02 * k, (0.01 * k, 0.02, 0.03 * k), [(0.4, 0.1), (math.nan, math.nan), (0.1, 0.6)])
    other = CollisionMap.holding(DOTS, *(array.reshape(-1).tolist() for array in one.content))
    for later in (0.0, 0.5):
        assert other.likelihood((0.4, 0.1), 1.0) == one.likelihood((0.4, 0.1), 1.0) > 0.0
        assert np.array_equal(other.costs(16, 0.5), one.costs(16, 0.5))
        assert np.array_equal(other.as_grid(), one.as_grid())
        for grid in (one, other):
            grid.move(0.6 + later, (0.3, 0.02, 1.0))
    assert other.carrying
    assert other.stamp == one.stamp


@pytest.mark.parametrize(
    ("cells", "state", "legs", "said"),
    [([0.0], None, (), "cells: 1 numbers"), (None, [0.0], (), "state: 1"), (None, None, [1.0], "legs: 1")],
)
def test_content_of_another_size_is_refused(cells, state, legs, said):
    whole, numbers = CollisionMap(DOTS).content[:2]
    with pytest.raises(MapError, match=said):
        CollisionMap.holding(
            DOTS, whole if cells is None else cells, numbers if state is None else state, legs
        )
