"""Renders a picture of a whole scene with Gazebo 11, seen obliquely from above."""

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
"""Supersampling factor along each side, against jagged edges."""
AZIMUTH: Final = math.radians(-112)
"""Direction in `map` from the arena to the viewer."""
ELEVATION: Final = math.radians(52)
WIDE: Final = math.radians(45)
"""Horizontal field of view."""
MARGIN: Final = 0.94
"""Largest share of the picture's width or height that the arena fills."""


def take_picture(scene: Scene, file: Path) -> None:
    """Write a picture of a scene in its initial state.

    Raises:
        GazeboError: Gazebo 11 is not installed or cannot render.
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
        right = "the name must end in .png and its directory must exist"
        message = f"{file}: the picture cannot be written; {right}"
        raise OutputError(message)


def _view(scene: Scene) -> View:
    """Return a view of the whole arena; without walls, of all robots, carriers and obstacles."""
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
    # The smallest distance at which every point is in the picture.
    far = float(np.max(np.maximum(sides / half_x, heights / half_y) / MARGIN - depths))
    place = middle - far * forward
    size = (FINER * SIZE[0], FINER * SIZE[1])
    edges = (-half_x, half_x, -half_y, half_y)
    near, reach = 0.2 * far, 5.0 * far
    return View((float(place[0]), float(place[1]), float(place[2])), forward, up, *edges, size, near, reach)


def _corners(scene: Scene) -> FloatArray:
    """Return the corners of a scene's bounding box."""
    ends = scene.arena.segments().reshape(-1, 2)
    poses = [item.pose[:2] for item in (*scene.robots, *scene.carriers, *scene.obstacles)]
    plan = np.vstack([ends, np.array(poses, dtype=np.float64).reshape(-1, 2)])
    if not len(plan):
        plan = np.zeros((1, 2))
    (left, low), (right, high) = plan.min(axis=0) - 0.2, plan.max(axis=0) + 0.2
    corners = [(x, y, z) for x in (left, right) for y in (low, high) for z in (0.0, scene.arena.wall_height)]
    return np.array(corners)
