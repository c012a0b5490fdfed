"""Where one marker is for a camera, by its four corners alone (SQPNP).

Robots fuse markers with what else they know (`markers`); this is for who knows nothing but an image.
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
"""Corners of a marker of 1 m: x right, y up, z out of it."""
ALONG = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""From the optical frame to one whose x is along the view and whose z is up."""


class TagPose(NamedTuple):
    """A marker's place and axes (columns: right, up, out) for a camera that looks along its x."""

    position: FloatArray
    axes: FloatArray


def tag_pose(camera: CameraModel, corners: FloatArray, size: float) -> TagPose | None:
    """Return where a marker of a size is whose corners (4, 2) an image has; None if it cannot be there."""
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
    # In front of the lens, and seen from its own front.
    if not place[2] > 0 or not place @ axes[:, 2] < 0:
        return None
    return TagPose(ALONG @ place, ALONG @ np.asarray(axes, dtype=np.float64))
