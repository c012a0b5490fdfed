"""The detector: what it finds, how well, beside OpenCV's own, and that no image stops it."""

import math

import cv2
import numpy as np
import pytest
from swarmbed_core.detector import Detector, Pool
from swarmbed_core.health import Health

WIDTH, HEIGHT = 640, 480
DICTIONARY = cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12)
SQUARE = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
FINER = 4


@pytest.fixture
def health():
    return Health()


@pytest.fixture
def detector(health):
    return Detector(WIDTH, HEIGHT, health, "cam0")


def picture(codes, rng=None, noise=2.5, blur=0.6, width=WIDTH, height=HEIGHT):
    """An image with codes: pairs of an id and its corners."""
    image = np.full((height * FINER, width * FINER), 120, np.uint8)
    for number, corners in codes:
        code = cv2.aruco.generateImageMarker(DICTIONARY, number, 128)
        code = cv2.copyMakeBorder(code, 16, 16, 16, 16, cv2.BORDER_CONSTANT, value=255)
        inner = (np.array([[16, 16], [144, 16], [144, 144], [16, 144]]) - 0.5).astype(np.float32)
        places = ((np.asarray(corners) + 0.5) * FINER - 0.5).astype(np.float32)
        size = (width * FINER, height * FINER)
        how = cv2.getPerspectiveTransform(inner, places)
        image = cv2.warpPerspective(
            code, how, size, dst=image, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_TRANSPARENT
        )
    image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    light = cv2.GaussianBlur(30 + 0.7 * image.astype(np.float64), (0, 0), blur)
    if rng is not None:
        light += rng.normal(0, noise, light.shape)
    return np.clip(np.rint(light), 0, 255).astype(np.uint8)


def some_quad(rng, side):
    """A square of about this side, turned, squeezed and seen at a slant."""
    angle = rng.uniform(0, 2 * math.pi)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    squeezed = SQUARE * [side * rng.uniform(0.7, 1.0), side] * (1 + rng.uniform(-0.03, 0.03, (4, 1)))
    return squeezed @ turn.T + rng.uniform([200, 150], [440, 330])


def found_at(detection, number, corners, within=4.0):
    """The corners that were found for a code, if they are near where it is."""
    for other, quad in zip(*detection, strict=True):
        if other == number and np.abs(quad - corners).max() < within:
            return quad
    return None


@pytest.mark.parametrize("turn", range(4))
def test_every_code_is_read_whichever_way_up_and_its_corners_are_in_order(detector, turn):
    for first in range(turn, 250, 16):
        codes = []
        for k, number in enumerate(range(first, min(first + 16, 250), 4)):
            corners = np.roll(SQUARE, -turn, axis=0) * 60 + np.array([100 + 140 * k, 240])
            codes.append((number, corners))
        detection = detector.detect(picture(codes))
        assert sorted(detection.ids) == [number for number, _ in codes]
        for number, corners in codes:
            assert np.abs(found_at(detection, number, corners) - corners).max() < 0.1


@pytest.mark.parametrize(("side", "least", "error"), [(18, 0.85, 0.25), (28, 0.97, 0.15), (80, 0.97, 0.08)])
def test_it_finds_more_than_opencv_and_its_corners_err_less_than_half(detector, side, least, error):
    rng = np.random.default_rng(side)
    plain = cv2.aruco.ArucoDetector(DICTIONARY)
    ours, theirs, wrong = [], [], 0
    for _ in range(40):
        number, corners = int(rng.integers(250)), some_quad(rng, side)
        image = picture([(number, corners)], rng)
        mine = detector.detect(image)
        quad = found_at(mine, number, corners)
        wrong += len(mine.ids) - (quad is not None)
        ours += [] if quad is None else [quad - corners]
        quads, ids, _ = plain.detectMarkers(image)
        found = ([], []) if ids is None else (ids.ravel(), [each.reshape(4, 2) for each in quads])
        quad = found_at(found, number, corners)
        theirs += [] if quad is None else [quad - corners]
    assert wrong == 0
    assert len(ours) >= max(least * 40, len(theirs))
    rms = math.sqrt(np.mean(np.square(ours)) * 2)
    assert rms < error
    assert rms < 0.5 * math.sqrt(np.mean(np.square(theirs)) * 2)


def test_corners_are_not_drawn_inwards(detector):
    rng = np.random.default_rng(1)
    for side in (20, 30, 60):
        sizes = []
        for _ in range(30):
            number, corners = int(rng.integers(250)), some_quad(rng, side)
            quad = found_at(detector.detect(picture([(number, corners)], rng)), number, corners)
            if quad is not None:
                sizes.append(
                    cv2.contourArea(quad.astype(np.float32)) / cv2.contourArea(corners.astype(np.float32))
                )
        assert len(sizes) > 20
        # A tenth of a pixel at each corner of a square of 20.
        assert abs(math.sqrt(np.mean(sizes)) - 1) * side < 0.15


def test_a_long_side_that_a_lens_bends_is_followed(detector):
    corners = SQUARE * 300 + [320, 240]
    image = picture([(7, corners)])
    v, u = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    # Pixels are taken from places that are further out the further out they are.
    x, y = (u - 319.5) / 200, (v - 239.5) / 200
    more = 1 + 0.02 * (x * x + y * y)
    bent = cv2.remap(image, 319.5 + 200 * x * more, 239.5 + 200 * y * more, cv2.INTER_LINEAR)
    [quad] = detector.detect(bent).corners
    x, y = (quad[:, 0] - 319.5) / 200, (quad[:, 1] - 239.5) / 200
    more = 1 + 0.02 * (x * x + y * y)
    straight = np.column_stack([319.5 + 200 * x * more, 239.5 + 200 * y * more])
    assert np.abs(straight - corners).max() < 0.35


def test_two_of_one_code_are_both_found(detector):
    here, there = SQUARE * 40 + [150, 200], SQUARE * 40 + [450, 220]
    detection = detector.detect(picture([(5, here), (5, there)]))
    assert detection.ids.tolist() == [5, 5]
    assert sorted(detection.corners[:, 0, 0].round()) == [130, 430]


def test_a_code_upside_down_has_its_corners_where_they_are_on_it(detector):
    [quad] = detector.detect(picture([(9, SQUARE[[2, 3, 0, 1]] * 50 + [300, 200])])).corners
    assert quad[0] == pytest.approx([325, 225], abs=0.1)


def test_what_is_seen_in_a_mirror_is_no_code(detector):
    for number in range(0, 250, 25):
        image = picture([(number, SQUARE * 60 + [300, 200])])
        assert not len(detector.detect(np.ascontiguousarray(image[:, ::-1])).ids)


def test_colour_is_taken_too(detector):
    image = cv2.cvtColor(picture([(3, SQUARE * 60 + [300, 200])]), cv2.COLOR_GRAY2BGR)
    assert detector.detect(image).ids.tolist() == [3]
    assert detector.detect(image[:, :, :1]).ids.tolist() == [3]


@pytest.mark.parametrize("filled_up", [0, 1000])
def test_a_jpeg_is_read(detector, health, filled_up):
    corners = SQUARE * 60 + [300, 200]
    _, packed = cv2.imencode(".jpg", picture([(3, corners)]), [cv2.IMWRITE_JPEG_QUALITY, 80])
    detection = detector.decode(packed.tobytes() + bytes(filled_up))
    assert np.abs(found_at(detection, 3, corners) - corners).max() < 0.2
    assert not health.counts


def test_images_that_show_nothing_are_counted(detector, health):
    rng = np.random.default_rng(2)
    dark = np.clip(rng.normal(3, 2.5, (HEIGHT, WIDTH)), 0, 255)
    for image in (np.zeros((HEIGHT, WIDTH)), np.full((HEIGHT, WIDTH), 255), dark):
        assert not len(detector.detect(image.astype(np.uint8)).ids)
    assert health.counts == {"image.blank": 3}
    assert health.latest["image.blank"] == "cam0: grey 3 all over: covered, dark or dazzled?"
    for _ in range(5):
        assert not len(detector.detect(rng.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)).ids)
    assert health.counts == {"image.blank": 3, "image.noise": 5}


def test_stripes_and_chessboards_hold_no_codes(detector, health):
    rng = np.random.default_rng(2)
    for image in (
        np.tile(np.arange(WIDTH) // 8 % 2 * 255, (HEIGHT, 1)),
        *(np.kron(rng.integers(0, 2, (HEIGHT // k, WIDTH // k)) * 255, np.ones((k, k))) for k in (4, 8, 10)),
    ):
        assert not len(detector.detect(image.astype(np.uint8)).ids)
    assert not health.counts


def test_a_code_in_much_noise_is_no_refused_image(detector, health):
    corners = SQUARE * 120 + [300, 200]
    image = picture([(3, corners)], np.random.default_rng(4), noise=8.0)
    assert detector.detect(image).ids.tolist() == [3]
    assert not health.counts


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (np.zeros((480, 641), np.uint8), "image.size"),
        (np.zeros((0, 0), np.uint8), "image.size"),
        (np.zeros((640, 480), np.uint8), "image.size"),
        (np.zeros((480, 640, 4), np.uint8), "image.size"),
        (np.zeros((480, 640), np.float64), "image.encoding"),
        (np.zeros((480, 640), np.uint16), "image.encoding"),
        (None, "image.encoding"),
    ],
)
def test_what_is_no_such_image_is_refused_and_counted(detector, health, image, reason):
    assert not len(detector.detect(image).ids)
    assert health.counts == {reason: 1}
    assert health.latest[reason].startswith("cam0: ")


def test_broken_jpegs_are_refused_and_counted(detector, health):
    packed = cv2.imencode(".jpg", picture([(3, SQUARE * 60 + [300, 200])]))[1].tobytes()
    broken = [b"", b"\xff", packed[: len(packed) // 2], packed[:100], b"nonsense" * 100, packed[500:]]
    for data in broken:
        assert not len(detector.decode(data).ids)
    assert health.counts == {"image.broken": len(broken)}
    assert detector.decode(packed).ids.tolist() == [3]


def test_several_images_at_a_time_are_the_same_as_one_after_the_other(detector):
    rng = np.random.default_rng(3)
    images = [picture([(k, some_quad(rng, 50))], rng) for k in range(8)]
    pool = Pool(2)
    try:
        together = pool.map((detector, image) for image in images)
    finally:
        pool.close()
    for image, detection in zip(images, together, strict=True):
        alone = detector.detect(image)
        assert np.array_equal(alone.ids, detection.ids)
        assert np.array_equal(alone.corners, detection.corners)
