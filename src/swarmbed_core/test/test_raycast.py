"""Rays meet what geometry says they meet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.raycast import box_segments, cast_k, cast_ring_k

NOTHING = np.empty((0, 4))
NO_DISCS = np.empty((0, 3))
FAR = 10.0

# Whole millimetres, and rays that are along no wall of such a length: what is smaller, rounding decides.
metres = st.integers(-3000, 3000).map(lambda millimetres: millimetres / 1000)
angles = st.integers(-3141, 3140).map(lambda milliradians: (milliradians + 0.37) / 1000)
walls = st.lists(st.tuples(metres, metres, metres, metres), max_size=5)
posts = st.lists(st.tuples(metres, metres, st.floats(0.01, 0.5)), max_size=5)


def cast(x, y, angle, segments=NOTHING, discs=NO_DISCS, skip=-1, range_max=FAR):
    segments = np.asarray(segments, dtype=float).reshape(-1, 4)
    discs = np.asarray(discs, dtype=float).reshape(-1, 3)
    return cast_k(x, y, math.cos(angle), math.sin(angle), segments, discs, skip, range_max)


def ring(
    pose, angles, segments=NOTHING, discs=NO_DISCS, mount=0.125, view=0.38, rays=3, skip=-1, range_max=3.2
):
    out = np.full(len(angles), -1.0)
    segments = np.asarray(segments, dtype=float).reshape(-1, 4)
    discs = np.asarray(discs, dtype=float).reshape(-1, 3)
    cast_ring_k(np.array(pose), np.array(angles), mount, view, rays, segments, discs, skip, range_max, out)
    return out


def by_algebra(x, y, angle, segments, discs):
    """Return the distance to the nearest thing by solving for each crossing."""
    direction = np.array([math.cos(angle), math.sin(angle)])
    found = [math.inf]
    for x1, y1, x2, y2 in segments:
        matrix = np.column_stack([direction, [x1 - x2, y1 - y2]])
        if abs(np.linalg.det(matrix)) > 1e-9:
            along, share = np.linalg.solve(matrix, [x1 - x, y1 - y])
            if along >= 0 and 0 <= share <= 1:
                found.append(along)
    for cx, cy, radius in discs:
        offset = np.array([x - cx, y - cy])
        if offset @ offset <= radius**2:
            found.append(0.0)
        roots = np.roots([1.0, 2.0 * offset @ direction, offset @ offset - radius**2])
        found.extend(root for root in roots[np.isreal(roots)].real if root >= 0)
    return min(found)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(metres, metres, angles, walls, posts)
def test_a_ray_ends_at_the_nearest_crossing(x, y, angle, segments, discs):
    expected = by_algebra(x, y, angle, segments, discs)
    # Rounding decides whether a ray that just touches something, or begins on it, touches it.
    grazing = {by_algebra(x, y, angle + turn, segments, discs) < math.inf for turn in (-1e-6, 0.0, 1e-6)}
    aside = ((1e-9, 1e-9), (-1e-9, -1e-9), (1e-9, -1e-9), (-1e-9, 1e-9))
    grazing |= {by_algebra(x + dx, y + dy, angle, segments, discs) < math.inf for dx, dy in aside}
    near = [by_algebra(x, y, angle + turn, segments, discs) for turn in (-1e-6, 1e-6)]
    measured = cast(x, y, angle, segments, discs, range_max=100.0)
    if len(grazing) == 1 and (math.isinf(expected) or max(near) - min(near) < 1e-2):
        assert measured == pytest.approx(expected, abs=1e-2 if max(near) != min(near) else 1e-9)


@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 3.2])
def test_distances_to_a_wall_and_a_disc_are_exact(distance):
    wall = [(distance, -1.0, distance, 1.0)]
    disc = [(distance + 0.2, 0.0, 0.2)]
    assert cast(0.0, 0.0, 0.0, wall) == pytest.approx(distance, abs=1e-12)
    assert cast(0.0, 0.0, 0.0, discs=disc) == pytest.approx(distance, abs=1e-12)
    assert cast(0.0, 0.0, 0.3, wall) == pytest.approx(distance / math.cos(0.3), abs=1e-12)


def test_what_is_behind_beyond_or_beside_is_not_met():
    assert math.isinf(cast(0, 0, 0, [(-1, -1, -1, 1)], [(-1, 0, 0.5)]))
    assert math.isinf(cast(0, 0, 0, [(1, -1, 1, 1)], range_max=0.99))
    assert math.isinf(cast(0, 0, 0, discs=[(1, 0, 0.5)], range_max=0.49))
    assert cast(0, 0, 0, [(1, -1, 1, 1)], range_max=1.0) == 1.0
    assert math.isinf(cast(0, 0, 0, [(1, 0.1, 1, 1)], [(1, 0.6, 0.5)]))
    assert math.isinf(cast(0, 0, 0, [(1, 0, 2, 0)])), "end-on"


def test_inside_a_disc_is_zero_unless_it_is_the_robots_own():
    discs = [(0.05, 0.0, 0.125), (1.0, 0.0, 0.125)]
    assert cast(0, 0, 1.0, discs=discs) == 0.0
    assert cast(0, 0, 0.0, discs=discs, skip=0) == pytest.approx(0.875)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(-0.9, 0.9), st.floats(-0.9, 0.9), angles)
def test_no_ray_leaves_a_closed_room(x, y, yaw):
    room = box_segments(np.array([0.0, 0.0, yaw]), 4.0, 3.0)
    for x1, y1, _, _ in room:
        assert math.isfinite(cast(x, y, math.atan2(y1 - y, x1 - x), room)), "through the corner"
    for angle in np.linspace(0, 6, 13):
        assert math.isfinite(cast(x, y, angle, room))


def test_a_nan_position_meets_nothing():
    assert math.isinf(cast(math.nan, 0, 0, [(1, -1, 1, 1)], [(1, 0, 0.5)]))


def test_a_box_has_its_corners_where_they_belong():
    box = box_segments(np.array([1.0, 2.0, math.pi / 2]), 2.0, 1.0)
    assert box.shape == (4, 4)
    assert {tuple(row) for row in np.round(box[:, :2], 9)} == {(0.5, 1), (0.5, 3), (1.5, 3), (1.5, 1)}
    assert np.array_equal(box[:, 2:], np.roll(box[:, :2], -1, axis=0))
    turned = box_segments(np.array([1.0, 2.0, 0.0]), 2.0, 1.0)
    assert {tuple(row) for row in np.round(turned[:, :2], 9)} == {(0, 1.5), (2, 1.5), (2, 2.5), (0, 2.5)}


def test_a_ring_measures_from_its_faces():
    room = box_segments(np.array([0.0, 0.0, 0.0]), 4.0, 3.0)
    quarters = [0.0, math.pi / 2, math.pi, -math.pi / 2]
    measured = ring((0.5, 0.25, 0.0), quarters, room, rays=1)
    assert measured == pytest.approx([1.375, 1.125, 2.375, 1.625])
    turned = ring((0.5, 0.25, math.pi / 2), quarters, room, rays=1)
    assert turned == pytest.approx(np.roll(measured, -1))


def test_a_ring_sees_the_nearest_thing_in_its_field_of_view():
    # A thin post at the edge of the view: the rays at the edges meet it, the one in the middle does not.
    view = 0.4
    post = [(0.125 + math.cos(view / 2), math.sin(view / 2), 0.02)]
    assert math.isinf(ring((0, 0, 0), [0.0], discs=post, view=view, rays=1)[0])
    assert math.isinf(ring((0, 0, 0), [0.0], discs=post, view=0.3, rays=3)[0])
    assert ring((0, 0, 0), [0.0], discs=post, view=view, rays=3)[0] == pytest.approx(0.98)
    assert ring((0, 0, 0), [0.0], discs=post, view=view, rays=2)[0] == pytest.approx(0.98)


def test_a_face_that_touches_or_overlaps_measures_zero():
    wall = [(0.12, -1.0, 0.12, 1.0)]
    assert ring((0, 0, 0), [0.0, math.pi], wall)[0] == 0.0
    assert math.isinf(ring((0, 0, 0), [0.0, math.pi], wall)[1])
    others = [(0.0, 0.0, 0.125), (0.24, 0.0, 0.125)]
    assert ring((0, 0, 0), [0.0], discs=others, skip=0)[0] == 0.0


def test_a_ring_passes_its_own_disc_and_sees_nothing_beyond_range():
    discs = [(0.0, 0.0, 0.125), (2.0, 0.0, 0.125)]
    assert ring((0, 0, 0), [0.0], discs=discs, skip=0, range_max=1.75 + 1e-9)[0] == pytest.approx(1.75)
    assert math.isinf(ring((0, 0, 0), [0.0], discs=discs, skip=0, range_max=1.7)[0])
