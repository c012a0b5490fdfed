"""Images for display: with detected markers drawn in, and as JPEG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from swarmbed_core.detector import Detection

    ByteArray = NDArray[np.uint8]

QUALITY = 90
"""JPEG quality; at this value compression does not shift the markers' corners."""
OUTLINE, FIRST, TEXT = (80, 220, 60), (60, 60, 255), (0, 200, 255)
"""Colours (blue, green, red) of a marker's outline, its first corner and its id."""
FINE = 3
"""Fractional bits of the coordinates that are drawn, for sub-pixel accuracy."""


def coloured(image: ByteArray) -> ByteArray:
    """Convert a grey image to blue, green and red."""
    made: Any = cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    picture: ByteArray = made
    return picture


def with_tags(image: ByteArray, found: Detection) -> ByteArray:
    """Return a grey image in colour (blue, green, red) with outlines and ids of the detected markers."""
    picture: Any = coloured(image)
    for number, corners in zip(found.ids.tolist(), found.corners, strict=True):
        quad = np.rint(corners * (1 << FINE)).astype(np.int32)
        cv2.polylines(picture, [quad[:, None]], True, OUTLINE, 1, cv2.LINE_AA, FINE)
        cv2.circle(picture, quad[0].tolist(), 2 << FINE, FIRST, -1, cv2.LINE_AA, FINE)
        left, low = np.rint(corners.min(axis=0)[0]), np.rint(corners.max(axis=0)[1])
        place = (int(left), int(low) + 12)
        cv2.putText(picture, str(number), place, cv2.FONT_HERSHEY_SIMPLEX, 0.4, TEXT, 1, cv2.LINE_AA)
    made: ByteArray = picture
    return made


def jpeg(image: ByteArray) -> bytes:
    """Encode a grey or blue-green-red image as JPEG."""
    _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return bytes(data)
