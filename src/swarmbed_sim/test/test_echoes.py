"""Sonars: what is met head-on is heard as core's rays see it, what is met slanting is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from swarmbed_core.raycast import box_segments, cast_ring_k
from swarmbed_core.spec import RobotSpec
from swarmbed_sim.echoes import echo_all_k
from swarmbed_sim.planar_rays import RingTable
from swarmbed_sim.planar_world import StaticGrid

RING = RobotSpec.load("pioneer3dx").ranges[0]
CONE = math.cos(RING.reflection_cone / 2)


def heard(poses, walls=(), pillars=(), radius=0.3, least_cosine=CONE):
    poses = np.array(poses, dtype=np.float64)
    walls = np.array(walls, dtype=np.float64).reshape(-1, 4)
    pillars = np.array(pillars, dtype=np.float64).reshape(-1, 3)
    discs = np.column_stack([poses[:, :2], np.full(len(poses), radius)])
    statics = StaticGrid(walls, pillars, RING.range_max + RING.mount_radius)
    table, out = RingTable(RING), np.zeros((len(poses), RING.count))
    echo_all_k(
        poses, discs, np.zeros(len(discs), dtype=np.int64), walls, pillars, statics.frame, statics.starts,
        statics.items, table.rays, table.axes, RING.mount_radius, RING.range_max, least_cosine, out,
    )  # fmt: skip
    return out


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.floats(-8, 8), st.floats(-8, 8), st.floats(-3, 3)), min_size=1, max_size=5),
    st.floats(-3, 3),
)
def test_if_all_came_back_it_would_be_what_rays_see(poses, turn):
    """With a cone of half a turn it is core's ring, but for faces that something overlaps."""
    poses = [(x + 30 * k, y, yaw) for k, (x, y, yaw) in enumerate(poses)]
    walls = np.vstack([box_segments(np.array([x + 2.5, y + 1.0, turn]), 1.0, 2.0) for x, y, _ in poses])
    pillars = [(x - 2.0, y + 0.5, 0.4) for x, y, _ in poses]
    found = heard(poses, walls, pillars, least_cosine=0.0)
    discs = np.vstack([[(x, y, 0.3) for x, y, _ in poses], pillars])
    out = np.zeros(RING.count)
    for k, pose in enumerate(poses):
        cast_ring_k(
            np.array(pose), np.array(RING.angles), RING.mount_radius, RING.field_of_view, RING.rays, walls,
            discs, k, RING.range_max, out,
        )  # fmt: skip
        assert found[k] == pytest.approx(out, abs=1e-9)


@settings(deadline=None, max_examples=100)
@given(st.floats(0.6, 4.0), st.floats(-1.5, 1.5))
def test_a_wall_is_heard_where_a_ray_meets_it_nearly_head_on(away, slant):
    # A long wall whose nearest point lies at an angle `slant` of the robot's heading.
    normal = np.array([math.cos(slant), math.sin(slant)])
    along = np.array([-normal[1], normal[0]])
    foot = away * normal
    found = heard([(0, 0, 0)], [np.concatenate([foot - 50 * along, foot + 50 * along])])[0]
    half = RING.reflection_cone / 2
    for angle, distance in zip(RING.angles, found, strict=True):
        off = abs((angle - slant + math.pi) % (2 * math.pi) - math.pi)
        view = RING.field_of_view / 2
        if off - view > half + 0.01:
            assert distance == math.inf
        elif off + view < half - 0.01 and away < 3.0:
            # The ray of its view that is nearest to head-on, which may miss that by a ray's spacing.
            there = away - RING.mount_radius * math.cos(off)
            least = max(off - view, 0.0)
            most = least + 2 * view / (RING.rays - 1)
            assert there / math.cos(least) - 1e-6 <= distance <= there / math.cos(most) + 1e-6


def test_a_corner_that_points_at_the_robot_is_not_heard():
    corner = box_segments(np.array([2.0 + math.sqrt(0.5), 0.0, math.pi / 4]), 1.0, 1.0)
    assert (heard([(0, 0, 0)], corner) == math.inf).all()
    flat = box_segments(np.array([2.0, 0.0, 0.0]), 1.0, 1.0)
    assert heard([(0, 0, 0)], flat)[0].min() == pytest.approx(1.5 - RING.mount_radius, abs=0.03)


def test_what_does_not_send_back_still_hides_what_is_behind():
    slanting = [[1.0, -0.3, 2.0, 1.0]]
    behind = [[3.0, -5.0, 3.0, 5.0]]
    ahead = [k for k, angle in enumerate(RING.angles) if 0.1 < angle < 0.2]
    assert heard([(0, 0, 0)], behind)[0, ahead[0]] < 3.0
    assert heard([(0, 0, 0)], slanting + behind)[0, ahead[0]] == math.inf


def test_robots_hear_each_other_and_not_themselves():
    found = heard([(0, 0, 0), (2, 0, math.pi)])
    assert found[0].min() == pytest.approx(2.0 - 0.3 - RING.mount_radius, abs=0.03)
    assert found.min(axis=1)[0] == pytest.approx(found.min(axis=1)[1], abs=1e-9)
    assert (heard([(0, 0, 0)]) == math.inf).all()
