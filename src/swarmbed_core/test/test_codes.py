"""Codes: they are the dictionary's, and no two of them can be taken for each other."""

import cv2
import numpy as np
import pytest
from swarmbed_core.codes import MODULES, modules
from swarmbed_core.errors import MarkerError
from swarmbed_core.markers import DICTIONARY_SIZE

ALL = range(DICTIONARY_SIZE)


def test_a_detector_reads_what_they_say():
    dictionary = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12)
    detector = cv2.aruco.ArucoDetector(dictionary)
    for marker in ALL:
        picture = np.full((MODULES + 4, MODULES + 4), 255, np.uint8)
        picture[2:-2, 2:-2] = np.where(modules(marker), 255, 0)
        corners, ids, _ = detector.detectMarkers(np.kron(picture, np.ones((9, 9), np.uint8)))
        assert np.ravel(ids).tolist() == [marker]
        # The first corner is the top left one: it is not turned.
        np.testing.assert_allclose(corners[0][0], [[18, 18], [89, 18], [89, 89], [18, 89]], atol=1.5)


def test_they_are_what_opencv_draws():
    dictionary = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12)
    for marker in ALL:
        drawn = cv2.aruco.generateImageMarker(dictionary, marker, 16 * MODULES)
        np.testing.assert_array_equal(modules(marker), drawn[8::16, 8::16] == 255)


def test_the_border_is_black():
    for marker in ALL:
        edge = modules(marker).copy()
        edge[1:-1, 1:-1] = False
        assert not edge.any()


def test_no_two_are_alike_however_turned():
    bits = np.array([[np.rot90(modules(marker), turn).ravel() for turn in range(4)] for marker in ALL])
    flat = bits.reshape(-1, MODULES**2).astype(int)
    differ = (flat[:, None] != flat[None]).sum(axis=2)
    np.fill_diagonal(differ, MODULES**2)
    # "h12": twelve modules at least.
    assert differ.min() >= 12


def test_they_are_shared_and_so_cannot_be_changed():
    assert modules(7) is modules(np.int64(7))
    with pytest.raises(ValueError, match="read-only"):
        modules(7)[0, 0] = True


@pytest.mark.parametrize("marker", [-1, 250, 1000, 1.5, float("nan")])
def test_others_are_refused(marker):
    with pytest.raises(MarkerError, match="the ids 0 to 249"):
        modules(marker)
