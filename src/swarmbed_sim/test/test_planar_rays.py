from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.ranges import measure_one_k
from swarmbed_core.raycast import box_segments, cast_ring_k
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.planar_kernels import sort_cells_k
from swarmbed_sim.planar_rays import BINS, PAD, RingTable, _bearing_k, cast_all_k, err_all_k
from swarmbed_sim.planar_world import StaticGrid

RINGS = {
    f"{kind}.{ring.name}": ring
    for kind in ("dots", "epuck2", "pioneer3dx", "pera_swarm")
    for ring in RobotSpec.load(kind).ranges
}


def cast_all(ring, poses, discs, segments, pillars, cell=1.0):
    table = RingTable(ring)
    count = len(discs)
    jobs = ring.count * (count + 1) + 2
    statics = StaticGrid(segments, pillars, ring.range_max + ring.mount_radius)
    out = np.full((len(poses), ring.count), -1.0)
    cast_all_k(
        poses,
        discs,
        cell,
        np.zeros(5),
        np.zeros(count, dtype=np.int64),
        np.zeros(2 * count + 65, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros((3, count)),
        np.zeros((5, count + 1)),
        np.zeros((4, jobs)),
        np.zeros((2, jobs), dtype=np.uint32),
        segments,
        pillars,
        statics.frame,
        statics.starts,
        statics.items,
        table.rays,
        table.axes,
        table.own_rays,
        table.order,
        table.first,
        table.after,
        ring.mount_radius,
        ring.field_of_view / 2 if ring.rays > 1 else 0.0,
        ring.range_max,
        out,
    )
    return out


def cast_one_by_one(ring, poses, discs, segments, pillars):
    out = np.zeros((len(poses), ring.count))
    everything = np.vstack([discs, pillars])
    for i, pose in enumerate(poses):
        cast_ring_k(
            pose,
            np.array(ring.angles),
            ring.mount_radius,
            ring.field_of_view,
            ring.rays,
            segments,
            everything,
            i,
            ring.range_max,
            out[i],
        )
    return out


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(sorted(RINGS)), st.integers(1, 60), st.floats(0.15, 3.0))
def test_the_ranges_are_those_of_the_rays_one_by_one(seed, name, count, pitch):
    ring = RINGS[name]
    rng = np.random.default_rng(seed)
    size = pitch * math.sqrt(count)
    legs = rng.integers(0, 20)
    # Overlaps too: discs over sensors' faces, over robots' middles, robots in walls.
    xy = rng.uniform(-size / 2, size / 2, (count + legs, 2))
    radii = np.concatenate([np.full(count, max(ring.mount_radius, 0.03)), rng.uniform(0.01, 0.2, legs)])
    discs = np.column_stack([xy, radii])
    poses = np.column_stack([xy[:count], rng.uniform(-7, 7, count)])
    segments = np.vstack(
        [
            box_segments(np.zeros(3), size, size),
            box_segments(np.array((0.1, 0.2, 0.3)), 0.5, 0.2),
            rng.uniform(-size / 2, size / 2, (rng.integers(0, 5), 4)),
        ]
    )
    pillars = rng.uniform(-size / 2, size / 2, (rng.integers(0, 3), 3))
    pillars[:, 2] = rng.uniform(0.05, 0.6, len(pillars))
    ours = cast_all(ring, poses, discs, segments, pillars, cell=rng.uniform(0.3, 3))
    theirs = cast_one_by_one(ring, poses, discs, segments, pillars)
    same = np.isclose(ours, theirs, rtol=0.0, atol=1e-9)
    if not same.all():
        # A ray that grazes something may hit or miss by a rounding error; then discs bigger and smaller by a
        # billionth bracket it.
        slack = np.array((0, 0, 1e-9))
        near = cast_one_by_one(ring, poses, discs + slack, segments, pillars + slack)
        far = cast_one_by_one(ring, poses, discs - slack, segments, pillars - slack)
        assert (same | ((ours >= near - 1e-9) & (ours <= far + 1e-9))).all()
        assert same.mean() > 0.99


def test_robots_far_apart_and_a_floor_without_walls():
    ring = RINGS["dots.tof"]
    poses = np.array([(0.0, 0.0, 0.0), (1.0, 0.0, 2.0), (500.0, -700.0, 0.0), (501.0, -700.0, 1.0)])
    discs = np.column_stack([poses[:, :2], np.full(4, 0.125)])
    nothing = np.empty((0, 4)), np.empty((0, 3))
    out = cast_all(ring, poses, discs, *nothing)
    assert out[0, 0] == pytest.approx(0.75)
    assert out[2, 0] == pytest.approx(0.75)
    assert np.isinf(out).sum() == 4 * 16 - np.isfinite(cast_one_by_one(ring, poses, discs, *nothing)).sum()


def test_the_bearing_is_within_its_bound():
    angles = np.linspace(-math.pi + 1e-9, math.pi - 1e-9, 20001)
    for radius in (1e-3, 1.0, 50.0):
        worst = max(abs(_bearing_k(radius * math.cos(a), radius * math.sin(a)) - a) for a in angles)
        assert worst < PAD


def test_the_bound_of_the_arc_sine_holds():
    sine = np.linspace(0, 1, 10001)
    assert (sine * (1 + 0.571 * sine**2) >= np.arcsin(sine) - PAD / 2).all()


def test_the_table_of_sectors_covers_every_sensor():
    table = RingTable(RINGS["dots.tof"])
    assert len(table.first) == BINS
    assert (np.diff(table.first) >= 0).all()
    assert (np.diff(table.after) >= 0).all()
    assert table.after[-1] == 2 * table.ring.count


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 200), st.floats(0.01, 5.0), st.integers(1, 500))
def test_points_are_sorted_by_cell(seed, count, size, room):
    xy = np.random.default_rng(seed).uniform(-20, 30, (count, 2))
    frame, cells = np.zeros(5), np.zeros(count, dtype=np.int64)
    starts, order = np.zeros(room + 1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    sort_cells_k(xy, size, frame, cells, starts, order)
    left, bottom, wide, columns, rows = frame
    assert wide >= size
    assert columns * rows <= room
    assert sorted(order) == list(range(count))
    for cell in range(int(columns * rows)):
        members = order[starts[cell] : starts[cell + 1]]
        assert (np.diff(members) > 0).all()
        column, row = cell % columns, cell // columns
        for i in members:
            assert cells[i] == cell
            assert left + column * wide <= xy[i, 0] + 1e-9 <= left + (column + 1) * wide + 1e-6
            assert bottom + row * wide <= xy[i, 1] + 1e-9 <= bottom + (row + 1) * wide + 1e-6
    assert starts[int(columns * rows)] == count


def test_errors_are_those_of_the_range_model():
    table = RingTable(RINGS["dots.tof"])
    rng = np.random.default_rng(4)
    true = rng.uniform(0, 3.5, (50, 16))
    true[rng.random((50, 16)) < 0.1] = math.inf
    gaussians, uniforms = rng.standard_normal((40, 16)), rng.random((40, 16))
    out = true.copy()
    err_all_k(out, 20, gaussians, uniforms, table.numbers)
    assert (out[:20] == true[:20]).all()
    for i in range(20, 50):
        for k in range(16):
            one = measure_one_k(true[i, k], gaussians[i - 20, k], uniforms[i - 20, k], table.numbers)
            assert out[i, k] == (math.inf if math.isnan(one) else one)
