"""Which things overlap on the floor: against points that are thrown at both."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_sim.footprint import TOUCH, Footprint, box_print, disc_print, overlap

place = st.floats(-1.0, 1.0)
size = st.floats(0.05, 1.0)
boxes = st.builds(
    lambda x, y, yaw, a, b: box_print((x, y, yaw), a, b), place, place, st.floats(-4, 4), size, size
)
discs = st.builds(disc_print, place, place, size)


def inside(thing, points):
    """Return how far points are within a disc or a box."""
    if len(thing.corners) == 1:
        return thing.radius - np.hypot(*(points - thing.corners[0]).T)
    along = np.roll(thing.corners, -1, axis=0) - thing.corners
    normals = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.hypot(*along.T)[:, None]
    return ((points[:, None] - thing.corners) * normals).sum(axis=2).min(axis=1)


@settings(deadline=None, max_examples=150)
@given(one=boxes | discs, other=boxes | discs)
def test_things_overlap_where_a_point_is_in_both(one, other):
    grid = np.linspace(-2.3, 2.3, 150)
    points = np.stack(np.meshgrid(grid, grid), axis=2).reshape(-1, 2)
    depth = np.minimum(inside(one, points), inside(other, points)).max()
    if depth > TOUCH:
        assert overlap(one, other)
        assert overlap(other, one)
    elif depth < -2 * (grid[1] - grid[0]):
        assert not overlap(one, other)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (disc_print(0.0, 0.2, 0.19), False),
        (disc_print(0.0, 0.2, 0.2 + TOUCH / 2), False),
        (disc_print(0.0, 0.2, 0.21), True),
        (disc_print(1.3, 0.0, 0.29), False),
        (disc_print(1.3, 0.0, 0.31), True),
        (box_print((0.0, 0.1, 0.0), 0.1, 0.19), False),
        (box_print((0.0, 0.1, 0.0), 0.1, 0.21), True),
        (box_print((1.2, 0.0, math.pi / 4), 0.2, 0.2), False),
        (Footprint(np.array([(0.5, -1.0), (0.5, 1.0)])), True),
        (Footprint(np.array([(1.1, 0.0), (2.0, 0.0)])), False),
    ],
)
def test_walls_have_two_ends_and_no_thickness(other, expected):
    wall = Footprint(np.array([(-1.0, 0.0), (1.0, 0.0)]))
    assert overlap(wall, other) == expected
    assert overlap(other, wall) == expected
