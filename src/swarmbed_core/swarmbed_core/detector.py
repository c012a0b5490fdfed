"""Detects ARUCO_MIP_36h12 codes in images (DOTS paper, III-A4).

OpenCV finds the candidates: an adaptive threshold, outlines, quads. The module `quads` then decodes them and
refines their corners. It reads codes whose modules are less than two pixels wide, because it refines before
it reads, and its corners are not biased inwards.

An invalid image is counted in `Health` and yields no markers; no image raises an exception.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import cv2
import numpy as np

from swarmbed_core.codes import modules
from swarmbed_core.markers import DICTIONARY_SIZE
from swarmbed_core.quads import BITS, read_quads_k

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.health import Health
    from swarmbed_core.quads import BitArray, ByteArray

CHANNELS = 3
WINDOW = 13
"""Side in pixels of the adaptive threshold's window: a code's border is thinner, or its edge is inside."""
DARKER = 10.0
"""Grey levels by which black is darker than the mean of its window."""
ROUGHNESS = 0.03
"""Allowed deviation of an outline from its quad, as a share of the outline's length."""
SIDE_MIN = 9.0
"""Least longer side, in pixels, of the upright box around a candidate: smaller codes cannot be read."""
THIN_MIN = 4
"""Least shorter side, in pixels, of the upright box around a candidate."""
FLAT = 0.0075
"""Least area of a quad, as a share of its squared circumference; a square has 1/16."""
BLANK = 4.0
"""Standard deviation, in grey levels, below which an image counts as blank."""
NOISY = 4000
"""Number of outlines above which an image counts as noise; scenes have some hundreds."""
ERRORS_MAX = 3
"""Wrong bits that are corrected; all codes differ by at least 12."""


class Detection(NamedTuple):
    """The codes in one image.

    Attributes:
        ids: (n).
        corners: (n, 4, 2), in pixels: top left, top right, bottom right, bottom left of each code.
    """

    ids: NDArray[np.int64]
    corners: FloatArray


@cache
def words() -> BitArray:
    """Return the dictionary for `quads.decode_k`: a row for each code, a column for each quarter turn."""
    made = np.zeros((DICTIONARY_SIZE, 4), dtype=np.uint64)
    power = np.uint64(1) << np.arange(BITS - 1, -1, -1, dtype=np.uint64)
    for i in range(DICTIONARY_SIZE):
        inner = modules(i)[1:-1, 1:-1]
        for turn in range(4):
            # Read from corners that start `turn` places too late, clockwise, the code appears turned back.
            made[i, turn] = (np.rot90(inner, -turn).ravel() * power).sum()
    made.flags.writeable = False
    return made


class Detector:
    """Finds codes in grey images of one size."""

    def __init__(self, width: int, height: int, health: Health, name: str = "camera") -> None:
        """Prepare for images of one size.

        Args:
            width: in pixels.
            height: in pixels.
            health: counts invalid images.
            name: of the camera, for messages.
        """
        self.size = (height, width)
        self._health = health
        self._name = name
        self._words = words()

    def detect(self, image: ByteArray) -> Detection:
        """Return the codes in an image, grey or BGR, 8 bits per channel."""
        grey = self._grey(image)
        if grey is None:
            return _nothing()
        return self._read(grey)

    def decode(self, data: bytes) -> Detection:
        """Return the codes in a JPEG, such as a frame of an MJPEG stream."""
        grey = self.unpack(data)
        return _nothing() if grey is None else self._read(grey)

    def unpack(self, data: bytes) -> ByteArray | None:
        """Decode a JPEG or PNG to a grey image; return None and count it if it is broken."""
        if not truncated(data):
            try:
                image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
            except cv2.error:
                image = None
            if image is not None:
                return self._grey(image)
        self._health.refuse("image.broken", f"{self._name}: {len(data)} bytes: not a complete image file")
        return None

    def _grey(self, image: Any) -> ByteArray | None:
        """Convert an image to grey; return None and count it if its type or size is wrong."""
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
            kind = getattr(image, "dtype", type(image).__name__)
            self._health.refuse("image.encoding", f"{self._name}: {kind}, expected 8 bits per channel")
            return None
        if image.ndim == CHANNELS and image.shape[2] == CHANNELS:
            image = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
        elif image.ndim == CHANNELS and image.shape[2] == 1:
            image = image[:, :, 0]
        if image.shape != self.size:
            height, width = self.size
            problem = f"{self._name}: image of shape {image.shape}, expected {width}x{height}"
            self._health.refuse("image.size", problem)
            return None
        return np.ascontiguousarray(image)

    def _read(self, grey: ByteArray) -> Detection:
        """Return the codes in a grey image of the right size."""
        found = outlines(grey)
        quads = candidates(found)
        ids = np.empty(len(quads), dtype=np.int64)
        corners, quality = np.empty((len(quads), 4, 2)), np.empty((len(quads), 2))
        count = read_quads_k(grey, quads, self._words, ERRORS_MAX, ids, corners, quality)
        if not count:
            self._doubt(grey, len(found))
        return Detection(ids[:count], corners[:count])

    def _doubt(self, grey: ByteArray, outlines: int) -> None:
        """Count an image without codes if it looks like noise or is blank."""
        if outlines > NOISY:
            problem = f"{self._name}: {outlines} outlines and no code: noise? Scenes have some hundreds"
            self._health.refuse("image.noise", problem)
            return
        # One pixel in a hundred is enough.
        sigma = float(grey[5::10, 5::10].std())
        if sigma < BLANK:
            problem = f"{self._name}: grey {grey.mean():.0f} all over: covered, dark or dazzled?"
            self._health.refuse("image.blank", problem)


def truncated(data: bytes) -> bool:
    """Return whether a JPEG lacks its end marker; a decoder would fill in the missing part."""
    if len(data) < 4 or data[:2] != b"\xff\xd8":
        return len(data) < 4
    # Some cameras pad a frame with zeros.
    return b"\xff\xd9" not in data[-64:] and not data.rstrip(b"\0").endswith(b"\xff\xd9")


def outlines(grey: ByteArray) -> Sequence[Any]:
    """Return the outlines of regions that are darker than their surroundings."""
    dark = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY_INV, WINDOW, DARKER)
    found, _ = cv2.findContours(dark, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    return found


def candidates(outlines: Sequence[Any]) -> FloatArray:
    """Return the quads (n, 4, 2) among outlines, with unrefined corners."""
    found = []
    for outline in outlines:
        if len(outline) < 4:
            continue
        _, _, width, height = cv2.boundingRect(outline)
        if max(width, height) < SIDE_MIN or min(width, height) < THIN_MIN:
            continue
        around = cv2.arcLength(outline, closed=True)
        quad = cv2.approxPolyDP(outline, max(ROUGHNESS * around, 1.0), closed=True)
        if len(quad) != 4 or not cv2.isContourConvex(quad):
            continue
        if cv2.contourArea(quad) < FLAT * around * around:
            continue
        found.append(quad[:, 0])
    return np.array(found, dtype=np.float64).reshape(-1, 4, 2)


class Pool:
    """Runs detectors on several images in parallel threads."""

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="detector")

    def map(self, jobs: Iterable[tuple[Detector, ByteArray]]) -> list[Detection]:
        """Return the detections of each job, in order."""
        return list(self._threads.map(lambda job: job[0].detect(job[1]), jobs))

    def close(self) -> None:
        """Stop the threads, after pending jobs."""
        self._threads.shutdown()


def _nothing() -> Detection:
    return Detection(np.empty(0, dtype=np.int64), np.empty((0, 4, 2)))
