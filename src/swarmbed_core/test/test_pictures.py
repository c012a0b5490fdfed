"""Images for people."""

from __future__ import annotations

import cv2
import numpy as np
from swarmbed_core.codes import modules
from swarmbed_core.detector import Detector
from swarmbed_core.health import Health
from swarmbed_core.pictures import FIRST, OUTLINE, coloured, jpeg, with_tags

IMAGE = np.full((240, 320), 210, np.uint8)
IMAGE[80:160, 100:180] = np.kron(modules(42) * np.uint8(255), np.ones((10, 10), np.uint8))


def test_a_grey_image_in_colour_is_three_times_the_same():
    assert np.array_equal(coloured(IMAGE), np.repeat(IMAGE[..., None], 3, axis=2))


def test_tags_are_drawn_where_they_are_and_the_image_stays_as_it_is():
    before = IMAGE.copy()
    found = Detector(320, 240, Health()).detect(IMAGE)
    assert found.ids.tolist() == [42]
    picture = with_tags(IMAGE, found)
    assert np.array_equal(IMAGE, before)
    assert picture.shape == (240, 320, 3)
    changed = (picture != IMAGE[..., None]).any(axis=2)
    rows, columns = np.nonzero(changed)
    assert 76 <= rows.min() <= 80
    assert 160 <= rows.max() <= 180  # the id is below
    assert 96 <= columns.min() <= 100
    assert 180 <= columns.max() <= 184
    # Lines are as thin as a pixel, and lie between two.
    assert picture[79:81, 140].max(axis=0).argmax() == np.argmax(OUTLINE)
    assert picture[80, 100].argmax() == np.argmax(FIRST)


def test_without_tags_nothing_is_drawn():
    blank = np.full((240, 320), 128, np.uint8)
    assert (with_tags(blank, Detector(320, 240, Health()).detect(blank)) == 128).all()


def test_a_jpeg_holds_the_image_and_its_tags():
    grey = cv2.imdecode(np.frombuffer(jpeg(IMAGE), np.uint8), cv2.IMREAD_UNCHANGED)
    assert grey.shape == IMAGE.shape
    assert np.abs(grey.astype(int) - IMAGE).mean() < 2
    assert Detector(320, 240, Health()).decode(jpeg(IMAGE)).ids.tolist() == [42]
