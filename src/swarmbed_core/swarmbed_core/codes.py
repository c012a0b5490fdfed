"""The bit patterns of the marker dictionary ARUCO_MIP_36h12, for printing and rendering markers."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import cv2
import numpy as np

from swarmbed_core.errors import MarkerError
from swarmbed_core.markers import DICTIONARY_SIZE

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODULES = 8
"""Modules along a code's side: six data modules, and one of black border at either end."""


def modules(marker: int) -> NDArray[np.bool_]:
    """Return the modules (8, 8) of a marker's code: True is white, the first row is the top.

    They include the black border, but not the white margin that a code needs around it. The array is shared
    and read-only.

    Raises:
        MarkerError: the dictionary has no such id.
    """
    if not 0 <= marker < DICTIONARY_SIZE or int(marker) != marker:
        message = f"marker {marker}: ARUCO_MIP_36h12 has the ids 0 to {DICTIONARY_SIZE - 1}"
        raise MarkerError(message)
    return _modules(int(marker))


@cache
def _modules(marker: int) -> NDArray[np.bool_]:
    try:
        dictionary = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12)
    except AttributeError:
        message = f"OpenCV {cv2.__version__} has no ARUCO_MIP_36h12: install 4.10 or later"
        raise MarkerError(message) from None
    white = np.asarray(cv2.aruco.generateImageMarker(dictionary, marker, MODULES)) > 127
    white.flags.writeable = False
    return white
