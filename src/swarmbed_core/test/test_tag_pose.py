"""One marker's pose, there and back through a camera's lens."""

from __future__ import annotations

import math

import numpy as np
import pytest
from swarmbed_core.camera import CameraCalibration, cameras_of
from swarmbed_core.spec import RobotSpec
from swarmbed_core.tag_pose import AROUND, tag_pose

SIZE = 0.24
LENS = CameraCalibration(
    version=1,
    width=640,
    height=480,
    fx=190.0,
    fy=189.0,
    cx=322.0,
    cy=236.0,
    distortion=(0.02, 0.001, 0.0005, -0.0005, 0.0),
)
CAMERA = cameras_of(RobotSpec.load("dots"), {"cam0": LENS})["cam0"]


def turned(yaw, pitch, roll):
    """Axes of a marker that looks back at the camera, turned away from that by some angles."""
    (cy, sy), (cp, sp), (cr, sr) = ((math.cos(a), math.sin(a)) for a in (yaw, pitch, roll))
    facing = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_x = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    about_z = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    return facing @ about_y @ about_x @ about_z


def image_of(place, axes):
    """The corners of a marker that is somewhere for a camera that looks along its x."""
    link = AROUND * SIZE @ axes.T + place
    optical = np.column_stack([-link[:, 1], -link[:, 2], link[:, 0]])
    pixels, inside = CAMERA.project(optical @ CAMERA.rotation + CAMERA.position)
    return pixels if inside.all() else None


def test_a_marker_is_where_it_was_put():
    rng, tried = np.random.default_rng(2), 0
    for _ in range(300):
        place = np.array([rng.uniform(0.4, 3.0), *rng.uniform(-0.8, 0.8, 2)])
        axes = turned(*rng.uniform(-0.7, 0.7, 2), rng.uniform(-math.pi, math.pi))
        corners = image_of(place, axes)
        if corners is None or place @ axes[:, 2] >= 0:
            continue
        tried += 1
        found = tag_pose(CAMERA, corners, SIZE)
        assert found is not None
        assert found.position == pytest.approx(place, abs=1e-3)
        assert found.axes == pytest.approx(axes, abs=5e-3)
        assert np.linalg.det(found.axes) == pytest.approx(1.0)
    assert tried > 150


def test_noise_of_a_tenth_of_a_pixel_is_no_more_than_a_percent_of_the_distance():
    rng, off = np.random.default_rng(3), []
    for _ in range(200):
        place = np.array([1.0, *rng.uniform(-0.4, 0.4, 2)])
        corners = image_of(place, turned(*rng.uniform(-0.6, 0.6, 3)))
        if corners is not None:
            found = tag_pose(CAMERA, corners + rng.normal(0.0, 0.1, (4, 2)), SIZE)
            assert found is not None
            off.append(np.linalg.norm(found.position - place))
    assert np.percentile(off, 95) < 0.01


@pytest.mark.parametrize("corners", [np.full((4, 2), math.nan), np.full((4, 2), 1e9)])
def test_what_cannot_be_a_marker_is_nowhere(corners):
    assert tag_pose(CAMERA, corners, SIZE) is None


@pytest.mark.parametrize("step", [0.0, 100.0])
def test_points_and_lines_stop_nobody(step):
    corners = 200.0 + step * np.arange(4.0)[:, None] * np.ones(2)
    found = tag_pose(CAMERA, corners, SIZE)
    assert found is None or found.axes.shape == (3, 3)


def test_a_marker_seen_from_behind_is_nowhere():
    corners = image_of(np.array([1.0, 0.0, 0.0]), turned(0.0, 0.0, 0.0))
    assert tag_pose(CAMERA, corners, SIZE) is not None
    assert tag_pose(CAMERA, corners[[1, 0, 3, 2]], SIZE) is None
