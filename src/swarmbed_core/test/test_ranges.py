"""The error model of the ranges: Figure 7 of the DOTS paper, and whatever else a ring's file says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.ranges import RangeModel, figure7, measure_one_k, points_body, range_numbers
from swarmbed_core.spec import RangeError, RangeRing

SEEDS = range(10)


@pytest.fixture
def tof(dots):
    return dots.ranges[0]


def one_sensor(**error):
    fields = {"range_min": 0.02, "range_max": 2.0, "resolution": 0.0, "sigma": 0.0} | error
    outer = {name: fields.pop(name) for name in ("range_min", "range_max", "resolution")}
    return RangeRing(
        name="front", kind="tof", angles=(0.0,), mount_radius=0.03, mount_height=0.03,
        field_of_view=0.4, rays=1, rate=10.0, error=RangeError(**fields), **outer,
    )  # fmt: skip


def measure(ring, distance, seed=0, sweeps=4000):
    model = RangeModel(ring, np.random.default_rng(seed))
    return np.array([model.measure(np.full(ring.count, distance)) for _ in range(sweeps)])


class TestFigure7:
    """What the paper says about the figure's bins; each mean may be off by its own standard error."""

    @pytest.mark.parametrize("seed", SEEDS)
    def test_one_experiment_like_the_papers(self, tof, seed):
        figure = figure7(tof, seed)
        centres = (figure.edges[:-1] + figure.edges[1:]) / 2
        # 4.5 standard errors: one failure in 5,000 experiments of 28 bins, if all means were at the bounds.
        slack = 4.5 * figure.sigma / np.sqrt(figure.counts)
        size = np.abs(figure.mean_error)

        near = centres < 0.25
        assert np.all(size[near] < 0.075 + slack[near])
        good = (centres > 0.25) & (centres < 2.7)
        assert np.all(size[good] < 0.012 + slack[good])
        assert np.all(
            np.abs(figure.sigma[good] - 0.01) < 4.5 * 0.01 / np.sqrt(2 * figure.counts[good]) + 0.001
        )
        far = (centres > 2.7) & (centres < 3.2)
        assert np.all(size[far] < 0.030 + slack[far])

    def test_the_model_itself(self, tof):
        figure = figure7(tof, 1, 1_000_000)
        centres = (figure.edges[:-1] + figure.edges[1:]) / 2
        size = np.abs(figure.mean_error)
        good = (centres > 0.25) & (centres < 2.7)
        assert size[good].max() < 0.012
        assert np.mean(size[good] < 0.005) > 0.7, "mostly less than 5 mm"
        assert size[(centres > 2.7) & (centres < 3.2)].max() < 0.030
        assert 0.060 < size[centres < 0.25].max() <= 0.075, "up to 75 mm"
        assert size[centres < 0.25].max() > 5 * size[good].max()

    def test_near_returns_lie_on_lines_of_slope_1_2_and_3(self, tof):
        figure = figure7(tof, 2, 200_000)
        near = (figure.true > 0.1) & (figure.true < 0.25)
        true, measured = figure.true[near], figure.measured[near]
        shares = [np.mean(np.abs(measured - slope * true) < 0.045) for slope in (1, 2, 3)]
        twice, thrice = tof.error.multipath_slope2, tof.error.multipath_slope3
        expected = [1 - twice - thrice, twice, thrice]
        assert shares == pytest.approx(expected, abs=0.01)
        assert sum(shares) == pytest.approx(1.0, abs=1e-3)
        above = (figure.true >= 0.25) & (figure.true < 1.0)
        assert np.nanmax(np.abs(figure.measured - figure.true)[above]) < 0.07, "none above 0.25 m"

    def test_returns_drop_out_towards_the_end_and_always_beyond(self, tof):
        figure = figure7(tof, 3, 400_000)
        lost = np.isnan(figure.measured)
        assert not lost[figure.true < 2.7].any()
        shares = [
            lost[(figure.true >= low) & (figure.true < low + 0.1)].mean() for low in (2.7, 2.8, 2.9, 3.0, 3.1)
        ]
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(0.9 * tof.error.dropout, abs=0.02)
        assert lost[figure.true > tof.range_max].all()

    def test_bins_without_returns_are_nan(self, tof):
        figure = figure7(tof, 4, 1000)
        assert len(figure.edges) == 29
        assert figure.edges[-1] == pytest.approx(3.5)
        assert figure.counts[-1] == 0
        assert np.isnan(figure.mean_error[-1])
        assert np.isnan(figure.sigma[-1])
        assert figure.counts.sum() == np.isfinite(figure.measured).sum()

    def test_a_seed_repeats(self, tof):
        first, again, other = (figure7(tof, seed, 500) for seed in (5, 5, 6))
        assert np.array_equal(first.measured, again.measured, equal_nan=True)
        assert not np.array_equal(first.measured, other.measured, equal_nan=True)


class TestModel:
    def test_a_generator_repeats_over_many_sweeps(self, tof):
        first, again, other = (measure(tof, 3.0, seed, 200) for seed in (7, 7, 8))
        assert np.array_equal(first, again, equal_nan=True)
        assert not np.array_equal(first, other, equal_nan=True)

    def test_sensors_and_sweeps_err_independently(self, tof):
        errors = measure(tof, 1.0, sweeps=4000) - 1.0
        errors -= errors.mean()
        bound = 5 / math.sqrt(4000)
        between = np.corrcoef(errors.T) - np.eye(16)
        assert np.abs(between).max() < bound
        assert len(np.unique(errors)) == errors.size, "no number is used twice"

    def test_without_errors_it_measures_the_truth(self):
        ring = one_sensor(sigma=0.0)
        for distance in (0.02, 0.5, 1.2345, 2.0):
            assert measure(ring, distance, sweeps=3) == pytest.approx(distance, abs=1e-15)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_noise_has_its_sigma(self, seed):
        measured = measure(one_sensor(sigma=0.01), 1.0, seed)
        assert measured.mean() == pytest.approx(1.0, abs=4.5 * 0.01 / math.sqrt(4000))
        assert measured.std() == pytest.approx(0.01, abs=4.5 * 0.01 / math.sqrt(8000))

    def test_noise_grows_towards_range_max(self):
        ring = one_sensor(sigma=0.01, sigma_far=0.05, dropout_from=1.0)
        assert measure(ring, 0.9).std() == pytest.approx(0.01, rel=0.06)
        assert measure(ring, 1.5).std() == pytest.approx(0.03, rel=0.06)

    def test_the_bias_follows_its_table(self):
        ring = one_sensor(bias_at=(0.5, 1.0, 1.5), bias=(0.01, -0.02, 0.04))
        expected = {0.1: 0.01, 0.5: 0.01, 0.75: -0.005, 1.0: -0.02, 1.25: 0.01, 1.5: 0.04, 1.9: 0.04}
        for distance, bias in expected.items():
            assert measure(ring, distance, sweeps=1)[0] - distance == pytest.approx(bias, abs=1e-12)

    def test_readings_are_whole_steps_of_the_resolution(self):
        measured = measure(one_sensor(sigma=0.005, resolution=0.01), 0.523, sweeps=1000) / 0.01
        assert np.allclose(measured, np.round(measured), atol=1e-9)
        assert len(np.unique(np.round(measured))) > 2
        assert measured.mean() == pytest.approx(52.3, abs=0.1), "rounded, not cut"

    def test_readings_stay_between_range_min_and_range_max(self):
        ring = one_sensor(sigma=0.05)
        for distance in (0.0, 0.01, 0.03, 1.99):
            measured = measure(ring, distance, sweeps=500)
            assert measured.min() >= 0.02
            assert measured.max() <= 2.0
        assert measure(one_sensor(), 0.0, sweeps=1)[0] == 0.02

    def test_an_echo_beyond_range_max_is_lost(self):
        ring = one_sensor(range_max=0.5, multipath_below=0.4, multipath_slope2=0.5, multipath_slope3=0.5)
        measured = measure(ring, 0.2)
        assert measured[np.isfinite(measured)].max() == pytest.approx(0.4)
        assert np.isinf(measured).mean() == pytest.approx(0.5, abs=4.5 * 0.5 / math.sqrt(4000))

    def test_dropout_does_not_depend_on_which_way_the_light_took(self):
        ring = one_sensor(multipath_below=2.0, multipath_slope2=0.5, dropout=1.0, dropout_from=0.0)
        measured = measure(ring, 0.5)
        direct, echo = np.isclose(measured, 0.5), np.isclose(measured, 1.0)
        # Half of the light goes twice as far, where half of it is lost instead of a quarter.
        bound = 4.5 * 0.5 / math.sqrt(4000)
        assert direct.mean() == pytest.approx(0.5 * 0.75, abs=bound)
        assert echo.mean() == pytest.approx(0.5 * 0.5, abs=bound)

    @pytest.mark.parametrize("nothing", [math.inf, math.nan, -0.1, -math.inf, 3.21])
    def test_nothing_there_gives_infinity(self, tof, nothing):
        assert (measure(tof, nothing, sweeps=10) == math.inf).all()

    def test_a_sweep_of_the_wrong_size_is_refused_and_counted(self, tof):
        model = RangeModel(tof, np.random.default_rng(0))
        measured = model.measure(np.ones(15))
        assert measured.shape == (16,)
        assert (measured == math.inf).all()
        assert model.health.counts["ranges.shape"] == 1
        assert "(16,)" in model.health.latest["ranges.shape"]
        assert np.isfinite(model.measure([1.0] * 16)).all()

    def test_the_input_is_not_changed(self, tof):
        true = np.ones(16)
        RangeModel(tof, np.random.default_rng(0)).measure(true)
        assert np.array_equal(true, np.ones(16))

    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(st.floats(), st.floats(-6, 6), st.floats(0, 1, exclude_max=True))
    def test_a_reading_is_infinite_or_within_range(self, distance, gaussian, uniform):
        for ring in (one_sensor(sigma=0.02, multipath_below=1.0, multipath_slope2=0.3, multipath_slope3=0.7),
                     one_sensor(sigma=0.02, dropout=1.0)):  # fmt: skip
            measured = measure_one_k(distance, gaussian, uniform, range_numbers(ring))
            assert measured == math.inf or ring.range_min <= measured <= ring.range_max

    def test_every_ring_of_every_robot_measures(self, any_spec):
        for ring in any_spec.ranges:
            middle = (ring.range_min + ring.range_max) / 2
            measured = measure(ring, middle, sweeps=50)
            assert measured.shape == (50, ring.count)
            assert measured[np.isfinite(measured)].mean() == pytest.approx(middle, abs=0.1 * middle)


class TestPoints:
    def test_points_are_at_the_sensors_angle_from_the_robots_centre(self, tof):
        points = points_body(tof, np.full(16, 1.0))
        for i, (x, y) in enumerate(points):
            assert x == pytest.approx(1.125 * math.cos(i * math.pi / 8))
            assert y == pytest.approx(1.125 * math.sin(i * math.pi / 8))

    @pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf, -0.1])
    def test_no_return_is_a_row_of_nan(self, tof, nothing):
        distances = np.full(16, 0.5)
        distances[3] = nothing
        points = points_body(tof, distances)
        assert distances[3] == pytest.approx(nothing, nan_ok=True)
        assert np.isnan(points[3]).all()
        assert np.isfinite(np.delete(points, 3, axis=0)).all()

    def test_a_sweep_of_the_wrong_size_has_no_points(self, tof):
        assert np.isnan(points_body(tof, np.ones(15))).all()
        assert points_body(tof, np.ones(15)).shape == (16, 2)
