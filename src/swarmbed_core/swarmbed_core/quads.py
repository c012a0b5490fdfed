"""Squares in grey images: corners to a tenth of a pixel, and the bits inside (kernels of `detector`).

A code's edge is where its black border meets the white around it. Each side is sampled along many short
lines across it. The edge on each line is the centroid of the brightness increase outwards, and a straight
or slightly curved line fitted to these points is the side. Corners are where such lines meet. The edges come
from grey levels and not from thresholded pixels, so thresholding does not shift them inwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.codes import MODULES
from swarmbed_core.kernel import free_kernel, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray

    ByteArray = NDArray[np.uint8]
    BitArray = NDArray[np.uint64]

BITS = (MODULES - 2) ** 2
REACH_MIN, REACH_MAX = 1.6, 3.0
"""Pixels searched to each side of an edge; less than a module, or neighbouring edges interfere."""
STEP = 0.5
"""Pixels between samples along a line across an edge."""
SKIPPED = 0.08
"""Share of a side at each end that is not sampled: the corner's blur."""
ROUNDS = 3
"""Most iterations of the corner refinement."""
BENT = 40.0
"""Length in pixels from which a side visibly curves under lens distortion."""
DRAWN, DRAWN_MODULE = 0.23, 1.2
"""Inward shift in pixels of the edge of a very thin border, and the thickness over which it decays.

Where the border is not much thicker than the blur of lens and pixel, it never reaches full black, and it
seems to brighten further inside. Measured with a blur of 0.6 px."""
CONTRAST_MIN = 12.0
"""Least contrast of a readable code, in grey levels."""
BORDER_ERRORS_MAX = 4
"""Modules of the black border that may look white."""
POSITIONS = 48
"""Most sample lines across a side."""


@kernel
def bilinear_k(image: ByteArray, u: float, v: float) -> float:
    """Return the grey level at a sub-pixel position; positions outside the image are clamped to its edge."""
    height, width = image.shape
    u = min(max(u, 0.0), width - 1.001)
    v = min(max(v, 0.0), height - 1.001)
    i, j = int(v), int(u)
    a, b = v - i, u - j
    top = image[i, j] * (1.0 - b) + image[i, j + 1] * b
    low = image[i + 1, j] * (1.0 - b) + image[i + 1, j + 1] * b
    return float(top * (1.0 - a) + low * a)


@kernel
def side_k(
    image: ByteArray, ax: float, ay: float, bx: float, by: float, module: float, line: FloatArray
) -> bool:
    """Fit the side that runs approximately from a to b; the inside of the square is to its right.

    Args:
        image: grey image.
        ax: approximate start of the side.
        ay: likewise.
        bx: approximate end.
        by: likewise.
        module: thickness of the black border there, in pixels.
        line: c0, c1, c2, filled: outward offset c0 + c1 s + c2 s² of the side from the line a to b, where s
            runs from -0.5 at a to 0.5 at b.

    Returns:
        Whether there is an edge.
    """
    length = math.hypot(bx - ax, by - ay)
    if length < 4.0:
        return False
    tx, ty = (bx - ax) / length, (by - ay) / length
    # Corners run clockwise in the image, where y points down: outside is to the left of the direction a to b.
    nx, ny = ty, -tx
    reach = min(max(0.9 * module, REACH_MIN), REACH_MAX)
    count = min(max(int(length), 6), POSITIONS)
    looks = int(reach / STEP)
    places = np.empty(count)
    offsets = np.empty(count)
    weights = np.empty(count)
    found = 0
    for m in range(count):
        s = SKIPPED + (1.0 - 2.0 * SKIPPED) * (m + 0.5) / count
        px, py = ax + s * length * tx, ay + s * length * ty
        total = moment = 0.0
        before = bilinear_k(image, px - (looks + 0.5) * STEP * nx, py - (looks + 0.5) * STEP * ny)
        for k in range(-looks, looks + 1):
            after = bilinear_k(image, px + (k + 0.5) * STEP * nx, py + (k + 0.5) * STEP * ny)
            rise = after - before
            before = after
            if rise > 0.0:
                total += rise
                moment += rise * k * STEP
        if total > CONTRAST_MIN:
            places[found], offsets[found], weights[found] = s - 0.5, moment / total, total
            found += 1
    if found < 4:
        return False
    bent = length > BENT and found > 12
    line[0] = line[1] = line[2] = 0.0
    for turn in range(3):
        # Least squares by the normal equations, with 2 or 3 unknowns.
        n0 = n1 = n2 = n3 = n4 = y0 = y1 = y2 = 0.0
        for m in range(found):
            s, d, w = places[m], offsets[m], weights[m]
            if turn > 0:
                off = abs(d - (line[0] + s * (line[1] + s * line[2])))
                w *= 1.0 if off < 0.15 else 0.15 / off
            n0 += w
            n1 += w * s
            n2 += w * s * s
            n3 += w * s * s * s
            n4 += w * s * s * s * s
            y0 += w * d
            y1 += w * d * s
            y2 += w * d * s * s
        if bent:
            c00, c01, c02 = n2 * n4 - n3 * n3, n3 * n2 - n1 * n4, n1 * n3 - n2 * n2
            c11, c12, c22 = n0 * n4 - n2 * n2, n1 * n2 - n0 * n3, n0 * n2 - n1 * n1
            det = n0 * c00 + n1 * c01 + n2 * c02
            if det <= 1e-9:
                return False
            line[0] = (c00 * y0 + c01 * y1 + c02 * y2) / det
            line[1] = (c01 * y0 + c11 * y1 + c12 * y2) / det
            line[2] = (c02 * y0 + c12 * y1 + c22 * y2) / det
        else:
            det = n0 * n2 - n1 * n1
            if det <= 1e-9:
                return False
            line[0] = (n2 * y0 - n1 * y1) / det
            line[1] = (n0 * y1 - n1 * y0) / det
    line[0] += DRAWN * math.exp(-module / DRAWN_MODULE)
    return True


@kernel
def refine_k(image: ByteArray, quad: FloatArray) -> bool:
    """Move corners (4, 2), clockwise in the image, to the sides' intersections; False without four sides."""
    lines = np.zeros((4, 3))
    moved = np.empty((4, 2))
    for _ in range(ROUNDS):
        area = 0.0
        for k in range(4):
            j = (k + 1) % 4
            area += 0.5 * (quad[k, 0] * quad[j, 1] - quad[k, 1] * quad[j, 0])
        for k in range(4):
            ax, ay, bx, by = quad[k, 0], quad[k, 1], quad[(k + 1) % 4, 0], quad[(k + 1) % 4, 1]
            module = area / max(math.hypot(bx - ax, by - ay), 1.0) / MODULES
            if not side_k(image, ax, ay, bx, by, module, lines[k]):
                return False
        furthest = 0.0
        for k in range(4):
            # Intersect the side that ends here with the one that starts here. Each is straight near the
            # corner, with the offset and slope of its curved line there.
            p, j = (k + 3) % 4, (k + 1) % 4
            ux, uy = quad[k, 0] - quad[p, 0], quad[k, 1] - quad[p, 1]
            wx, wy = quad[j, 0] - quad[k, 0], quad[j, 1] - quad[k, 1]
            lu, lw = math.hypot(ux, uy), math.hypot(wx, wy)
            ux, uy, wx, wy = ux / lu, uy / lu, wx / lw, wy / lw
            du = lines[p, 0] + 0.5 * lines[p, 1] + 0.25 * lines[p, 2]
            dw = lines[k, 0] - 0.5 * lines[k, 1] + 0.25 * lines[k, 2]
            su, sw = (lines[p, 1] + lines[p, 2]) / lu, (lines[k, 1] - lines[k, 2]) / lw
            # Points shifted outwards by du and dw, with directions tilted outwards by su and sw.
            x1, y1 = quad[k, 0] + du * uy, quad[k, 1] - du * ux
            dx1, dy1 = ux + su * uy, uy - su * ux
            x2, y2 = quad[k, 0] + dw * wy, quad[k, 1] - dw * wx
            dx2, dy2 = wx + sw * wy, wy - sw * wx
            turned = dx1 * dy2 - dy1 * dx2
            if abs(turned) < 0.05:
                return False
            t = ((x2 - x1) * dy2 - (y2 - y1) * dx2) / turned
            moved[k, 0], moved[k, 1] = x1 + t * dx1, y1 + t * dy1
            furthest = max(furthest, math.hypot(moved[k, 0] - quad[k, 0], moved[k, 1] - quad[k, 1]))
        if furthest > 8.0:
            return False
        quad[:] = moved
        if furthest < 0.02:
            break
    return True


@kernel
def homography_k(quad: FloatArray, out: FloatArray) -> bool:
    """Write the 3x3 homography from the unit square (x right, y down) to a quad; False if there is none."""
    x0, y0, x1, y1 = quad[0, 0], quad[0, 1], quad[1, 0], quad[1, 1]
    x2, y2, x3, y3 = quad[2, 0], quad[2, 1], quad[3, 0], quad[3, 1]
    dx1, dx2, dx3 = x1 - x2, x3 - x2, x0 - x1 + x2 - x3
    dy1, dy2, dy3 = y1 - y2, y3 - y2, y0 - y1 + y2 - y3
    det = dx1 * dy2 - dx2 * dy1
    if abs(det) < 1e-9:
        return False
    g = (dx3 * dy2 - dx2 * dy3) / det
    h = (dx1 * dy3 - dx3 * dy1) / det
    out[0, 0], out[0, 1], out[0, 2] = x1 - x0 + g * x1, x3 - x0 + h * x3, x0
    out[1, 0], out[1, 1], out[1, 2] = y1 - y0 + g * y1, y3 - y0 + h * y3, y0
    out[2, 0], out[2, 1], out[2, 2] = g, h, 1.0
    return True


@kernel
def light_k(image: ByteArray, homography: FloatArray, x: float, y: float, spread: float) -> float:
    """Return the mean grey level of four points around (x, y), given in modules of the code."""
    total = 0.0
    for k in range(4):
        a = (x + (spread if k % 2 else -spread)) / MODULES
        b = (y + (spread if k // 2 else -spread)) / MODULES
        w = homography[2, 0] * a + homography[2, 1] * b + 1.0
        u = (homography[0, 0] * a + homography[0, 1] * b + homography[0, 2]) / w
        v = (homography[1, 0] * a + homography[1, 1] * b + homography[1, 2]) / w
        total += bilinear_k(image, u, v)
    return 0.25 * total


@kernel
def popcount_k(word: np.uint64) -> int:
    """Return the number of set bits."""
    count = 0
    while word != np.uint64(0):
        word = word & (word - np.uint64(1))
        count += 1
    return count


@kernel
def decode_k(
    image: ByteArray, quad: FloatArray, words: BitArray, errors_max: int, result: FloatArray
) -> bool:
    """Read the code in a quad.

    Args:
        image: grey image.
        quad: its corners, clockwise in the image, starting at any of them.
        words: the dictionary, one row per code and one column per quarter turn: the bits row by row, the
            most significant of `BITS` first.
        errors_max: most wrong bits accepted.
        result: filled: the row of the code, the quarter turns by which the quad's corners start too late,
            the number of wrong bits, the contrast.

    Returns:
        Whether the code is in the dictionary.
    """
    homography = np.empty((3, 3))
    if not homography_k(quad, homography):
        return False
    black = 0.0
    border = np.empty(4 * (MODULES - 1))
    outside = 0.0
    n = 0
    for k in range(MODULES - 1):
        for x, y in ((k, 0), (MODULES - 1, k), (MODULES - 1 - k, MODULES - 1), (0, MODULES - 1 - k)):
            border[n] = light_k(image, homography, x + 0.5, y + 0.5, 0.15)
            black += border[n]
            n += 1
        a = k + 1.0
        outside += light_k(image, homography, a, -0.5, 0.1)
        outside += light_k(image, homography, a, MODULES + 0.5, 0.1)
        outside += light_k(image, homography, -0.5, a, 0.1)
        outside += light_k(image, homography, MODULES + 0.5, a, 0.1)
    black /= n
    outside /= n
    if outside - black < CONTRAST_MIN:
        return False
    cells = np.empty(BITS)
    brightest = 0.0
    for r in range(MODULES - 2):
        for c in range(MODULES - 2):
            light = light_k(image, homography, c + 1.5, r + 1.5, 0.2)
            cells[r * (MODULES - 2) + c] = light
            brightest = max(brightest, light)
    # Blur darkens small white squares and brightens black ones. So the threshold lies midway between the
    # border and the brightest square, even where the white around the code is brighter.
    middle = 0.5 * (black + min(brightest, outside))
    if brightest - black < CONTRAST_MIN:
        return False
    wrong = 0
    for k in range(n):
        wrong += border[k] > middle
    if wrong > BORDER_ERRORS_MAX:
        return False
    word = np.uint64(0)
    for k in range(BITS):
        word = (word << np.uint64(1)) | np.uint64(cells[k] > middle)
    best = BITS
    for i in range(words.shape[0]):
        for turn in range(4):
            errors = popcount_k(word ^ words[i, turn])
            if errors < best:
                best = errors
                result[0], result[1], result[2] = i, turn, errors
    result[3] = outside - black
    return best <= errors_max


@free_kernel
def read_quads_k(
    image: ByteArray,
    quads: FloatArray,
    words: BitArray,
    errors_max: int,
    ids: NDArray[np.int64],
    corners: FloatArray,
    quality: FloatArray,
) -> int:
    """Refine and read candidates; return how many are codes.

    Args:
        image: grey image.
        quads: (n, 4, 2), in either orientation.
        words: see `decode_k`.
        errors_max: see `decode_k`.
        ids: filled.
        corners: filled, (n, 4, 2): top left, top right, bottom right, bottom left of the code.
        quality: filled, (n, 2): wrong bits and contrast.
    """
    result = np.empty(4)
    taken = 0
    for i in range(quads.shape[0]):
        quad = quads[i].copy()
        area = 0.0
        for k in range(4):
            j = (k + 1) % 4
            area += quad[k, 0] * quad[j, 1] - quad[k, 1] * quad[j, 0]
        if area < 0.0:
            quad = quad[::-1].copy()
        if not refine_k(image, quad) or not decode_k(image, quad, words, errors_max, result):
            continue
        again = False
        for m in range(taken):
            # A duplicate: the inner and the outer outline of one border.
            if ids[m] == int(result[0]) and math.hypot(
                corners[m, :, 0].mean() - quad[:, 0].mean(), corners[m, :, 1].mean() - quad[:, 1].mean()
            ) < 2.0 + 0.25 * math.sqrt(abs(area) / 2.0):
                again = True
        if again:
            continue
        turn = int(result[1])
        for k in range(4):
            corners[taken, k] = quad[(k + turn) % 4]
        ids[taken] = int(result[0])
        quality[taken, 0], quality[taken, 1] = result[2], result[3]
        taken += 1
    return taken
