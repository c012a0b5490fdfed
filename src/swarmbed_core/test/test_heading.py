"""The compass and the zone sense, from poses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.config import check, load
from swarmbed_core.device import Zone
from swarmbed_core.errors import ConfigError
from swarmbed_core.heading import Area, VirtualCompass, Zones, derived_heading, derived_zone, zone_of
from swarmbed_core.spec import Compass, RobotSpec

if TYPE_CHECKING:
    from pathlib import Path

property_test = settings(deadline=None, max_examples=300, derandomize=True)
places = st.floats(-3.0, 3.0)


@property_test
@given(places, places, places)
def test_the_papers_zones(x: float, y: float, yaw: float) -> None:
    expected = Zone.SEARCH if x < 0 else Zone.DROP if x > 1.25 else Zone.NEITHER
    assert zone_of(np.array([x, y, yaw])) is expected
    assert zone_of((x, y)) is expected
    assert derived_zone((x, y, yaw)) is expected


def test_edges_belong_to_no_zone() -> None:
    assert zone_of((0.0, 0.0)) is Zone.NEITHER
    assert zone_of((-1e-9, 0.0)) is Zone.SEARCH
    assert zone_of((1.25, 0.0)) is Zone.NEITHER
    assert zone_of((1.25 + 1e-9, 0.0)) is Zone.DROP


def test_nobody_knows_the_zone_of_an_unknown_pose() -> None:
    assert derived_zone(None) is Zone.NEITHER
    assert derived_zone((math.nan, 0.0, 0.0)) is Zone.NEITHER
    assert derived_zone((-1.0, math.nan, 0.0)) is Zone.NEITHER


def test_zones_come_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "zones.yaml"
    path.write_text(
        "search: {x_max: -1.0, y_min: 0.0}\ndrop: {x_min: 0.0, x_max: 2.0, y_min: -1.0, y_max: 1.0}\n"
    )
    zones = load(path, Zones)
    assert zone_of((-2.0, 1.0), zones) is Zone.SEARCH
    assert zone_of((-2.0, -1.0), zones) is Zone.NEITHER
    assert zone_of((1.0, 0.5), zones) is Zone.DROP
    assert zone_of((1.0, 1.5), zones) is Zone.NEITHER
    assert derived_zone((1.0, 0.5, 0.0), zones) is Zone.DROP
    path.write_text("drop: {x_min: 3.0}\n")
    assert load(path, Zones).search == Area(x_max=0.0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"search": {"x_max": 2.0}}, "overlap"),
        ({"drop": {}}, "overlap"),
        ({"search": {"x_min": 1.0, "x_max": 0.5}}, r"search.*x_min \(1.0\) must be below x_max"),
        ({"search": {"y_min": 1.0, "y_max": 1.0}}, r"search.*y_min"),
        ({"search": {"x_max": math.nan}}, r"search\.x_max.*finite"),
        ({"home": {}}, "home: unknown field"),
    ],
)
def test_wrong_zones_are_told(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check(fields, Zones, "arena.yaml")


@property_test
@given(*[st.lists(places, min_size=2, max_size=2, unique=True).map(sorted)] * 4, places, places)
def test_areas_that_do_not_meet_have_no_common_point(
    ax: list[float], ay: list[float], bx: list[float], by: list[float], x: float, y: float
) -> None:
    a = Area(x_min=ax[0], x_max=ax[1], y_min=ay[0], y_max=ay[1])
    b = Area(x_min=bx[0], x_max=bx[1], y_min=by[0], y_max=by[1])
    assert a.meets(b) == b.meets(a)
    assert a.meets(a)
    if a.contains(x, y) and b.contains(x, y):
        assert a.meets(b)
    if a.meets(b):
        middle = [(max(p[0], q[0]) + min(p[1], q[1])) / 2 for p, q in ((ax, bx), (ay, by))]
        assert a.contains(*middle) == b.contains(*middle)


@property_test
@given(st.floats(-100.0, 100.0))
def test_the_derived_heading_is_the_wrapped_yaw(yaw: float) -> None:
    heading = derived_heading((0.0, 0.0, yaw))
    assert heading is not None
    assert -math.pi < heading <= math.pi
    assert math.cos(heading - yaw) == pytest.approx(1.0)


def test_zones_may_share_an_edge() -> None:
    zones = Zones(search=Area(x_max=0.5), drop=Area(x_min=0.5))
    assert zone_of((0.4, 0.0), zones) is Zone.SEARCH
    assert zone_of((0.5, 0.0), zones) is Zone.NEITHER
    assert zone_of((0.6, 0.0), zones) is Zone.DROP


def test_an_unknown_pose_has_no_heading() -> None:
    assert derived_heading(None) is None
    assert derived_heading((0.0, 0.0, math.nan)) is None
    assert derived_heading((0.0, 0.0, math.inf)) is None


def test_the_compass_has_the_specs_noise() -> None:
    compass = RobotSpec.load("dots").compass
    assert compass is not None
    virtual = VirtualCompass(compass, np.random.default_rng(1))
    count = 4000
    yaw = 3.14
    readings = [virtual.sample(0.01 * i, yaw) for i in range(count)]
    headings = np.array([reading.heading for reading in readings if reading is not None])
    assert len(headings) == count
    assert np.all((headings > -math.pi) & (headings <= math.pi))
    errors = (headings - yaw + math.pi) % math.tau - math.pi
    # Five standard errors of a mean and of a standard deviation.
    assert abs(errors.mean()) < 5 * compass.sigma / math.sqrt(count)
    assert errors.std() == pytest.approx(compass.sigma, rel=5 / math.sqrt(2 * count))


def test_the_compass_has_the_specs_rate_and_hands_out_each_reading_once() -> None:
    virtual = VirtualCompass(Compass(rate=10.0, sigma=0.0), np.random.default_rng(1))
    stamps = []
    for tick in range(100):
        reading = virtual.sample(0.01 * tick, 0.3)
        if reading is not None:
            stamps.append(reading.stamp)
            assert reading.heading == pytest.approx(0.3)
    assert stamps == pytest.approx([0.1 * i for i in range(10)])


@pytest.mark.parametrize(("now", "yaw"), [(0.0, math.nan), (0.0, math.inf), (math.nan, 0.0)])
def test_a_yaw_that_is_none_is_refused(now: float, yaw: float) -> None:
    virtual = VirtualCompass(Compass(rate=10.0, sigma=0.01), np.random.default_rng(1))
    assert virtual.sample(now, yaw) is None
    assert virtual.health.counts == {"compass.not_finite": 1}
    assert virtual.sample(0.0, 0.0) is not None
