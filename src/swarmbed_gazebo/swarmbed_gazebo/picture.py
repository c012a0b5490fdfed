"""A picture of a scene as Gazebo 11 draws it, from above and aside, with all of the arena in it."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

import cv2
import numpy as np
from swarmbed_sim.stage import View

from swarmbed_gazebo.errors import OutputError
from swarmbed_gazebo.sdf import GAZEBO11
from swarmbed_gazebo.world import GazeboPhysics

if TYPE_CHECKING:
    from pathlib import Path

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene

SIZE: Final = (1200, 800)
FINER: Final = 2
"""Pixels that are drawn for each one along a side, so that edges have no steps."""
AZIMUTH: Final = math.radians(-112)
"""From where in `map` one looks."""
ELEVATION: Final = math.radians(52)
WIDE: Final = math.radians(45)
"""Of the picture, from side to side."""
MARGIN: Final = 0.94
"""Share of the picture that the arena fills."""


def take_picture(scene: Scene, file: Path) -> None:
    """Write a picture of a scene as it is at the start.

    Raises:
        GazeboError: there is no Gazebo 11, it cannot draw.
        OutputError: the file cannot be written.
    """
    drawn = scene.scenario.model_copy(update={"vision": "pixels"})
    physics = GazeboPhysics(dataclasses.replace(scene, scenario=drawn), kind=GAZEBO11)
    try:
        image = physics.stage(scene).shoot(_view(scene))
    finally:
        physics.close()
    small = cv2.resize(cv2.flip(image, 0), SIZE, interpolation=cv2.INTER_AREA)
    try:
        written = cv2.imwrite(str(file), small, [cv2.IMWRITE_PNG_COMPRESSION, 9])
    except cv2.error:
        written = False
    if not written:
        right = "a name that ends in .png, in a directory that is there, is right"
        message = f"{file}: the picture cannot be written; {right}"
        raise OutputError(message)


def _view(scene: Scene) -> View:
    """Return a view of the whole arena; where there are no walls, of all that stands there."""
    points = _corners(scene)
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    ca, sa, ce, se = math.cos(AZIMUTH), math.sin(AZIMUTH), math.cos(ELEVATION), math.sin(ELEVATION)
    forward = -np.array([ca * ce, sa * ce, se])
    right = np.array([-sa, ca, 0.0])
    up = np.cross(right, forward)
    half_x = math.tan(WIDE / 2)
    half_y = half_x * SIZE[1] / SIZE[0]
    off = points - middle
    sides, heights, depths = np.abs(off @ right), np.abs(off @ up), off @ forward
    # As near as can be for every point to be in the picture.
    far = float(np.max(np.maximum(sides / half_x, heights / half_y) / MARGIN - depths))
    place = middle - far * forward
    size = (FINER * SIZE[0], FINER * SIZE[1])
    edges = (-half_x, half_x, -half_y, half_y)
    near, reach = 0.2 * far, 5.0 * far
    return View((float(place[0]), float(place[1]), float(place[2])), forward, up, *edges, size, near, reach)


def _corners(scene: Scene) -> FloatArray:
    """Return the corners of the box in which a scene is."""
    ends = scene.arena.segments().reshape(-1, 2)
    poses = [item.pose[:2] for item in (*scene.robots, *scene.carriers, *scene.obstacles)]
    plan = np.vstack([ends, np.array(poses, dtype=np.float64).reshape(-1, 2)])
    if not len(plan):
        plan = np.zeros((1, 2))
    (left, low), (right, high) = plan.min(axis=0) - 0.2, plan.max(axis=0) + 0.2
    corners = [(x, y, z) for x in (left, right) for y in (low, high) for z in (0.0, scene.arena.wall_height)]
    return np.array(corners)
