"""Pose of one marker in a camera's frame, from its four corners alone (SQPNP).

Robots use `markers`, which combines detections with what else they know. This module needs only one image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from swarmbed_core.camera import CameraModel
    from swarmbed_core.geometry import FloatArray

AROUND = np.array([[-1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, -1.0, 0.0]]) / 2
"""Corners of a marker of 1 m: x right, y up, z out of its face."""
ALONG = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""Rotation from the optical frame to one with x along the view and z up."""


class TagPose(NamedTuple):
    """A marker's position and axes (columns: right, up, out) in a camera frame with x along the view."""

    position: FloatArray
    axes: FloatArray


def tag_pose(camera: CameraModel, corners: FloatArray, size: float) -> TagPose | None:
    """Return the pose of a marker from its corners (4, 2) in an image; None if there is no valid one.

    `size` is the side of the marker in metres.
    """
    rays, found = camera.undistort(corners)
    if not found.all():
        return None
    try:
        solved: Any = cv2.solvePnP(AROUND * size, rays, np.eye(3), None, flags=cv2.SOLVEPNP_SQPNP)
    except cv2.error:
        return None
    there, turn, shift = solved
    if not there:
        return None
    axes, _ = cv2.Rodrigues(turn)
    place = np.asarray(shift, dtype=np.float64).ravel()
    # Reject a marker behind the lens, or seen from its back.
    if not place[2] > 0 or not place @ axes[:, 2] < 0:
        return None
    return TagPose(ALONG @ place, ALONG @ np.asarray(axes, dtype=np.float64))
