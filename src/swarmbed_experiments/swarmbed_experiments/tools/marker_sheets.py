"""Printable sheets: markers of arenas and carriers, calibration targets (DOTS paper, III-A4 and IV-B2).

A sheet is a code with a white margin of at least one module, and above it a strip with mounting instructions.
`marker_pages` lays the sheets out in millimetres; `sheets.write_pdf` draws them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from swarmbed_core.calibration_target import CalibrationTarget
from swarmbed_core.codes import MODULES, modules
from swarmbed_core.config import check, find, names
from swarmbed_core.errors import ConfigError, MarkerError
from swarmbed_core.markers import DICTIONARY_SIZE, CarrierMarkers, Marker, MarkerMap
from swarmbed_core.safe_yaml import read

from swarmbed_experiments.tools.sheets import (
    BAND,
    EDGE,
    FOOTER,
    HEADER,
    MM,
    PAPERS,
    Box,
    Line,
    Page,
    Piece,
    Words,
    furnish,
    lay_out,
    printable,
    shorten,
    width_of,
    wrap,
    write_pdf,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Printed = MarkerMap | CarrierMarkers | CalibrationTarget
"""What can be printed."""

UNDERSIDE = "underside of every carrier"
TARGET = "calibration target"
SIDES = 4
"""Sides of a carrier. All of them show the same code."""
NARROWEST = 50.0
"""Minimum width of a sheet in millimetres, so that its strip stays legible next to a small code."""
STRIP_TEXT = 80.0
"""Maximum length of a strip's lines in millimetres: they fit on the first page of any tiled sheet."""
LARGE, SMALL = 9.0, 4.5
"""Largest and smallest font size of a strip, in points."""
UP = 6.0
"""Width in millimetres reserved for the arrow that points up."""
LEAST_GAP = 4.0
"""Smallest gap in millimetres between the codes of an underside that is used for text."""
LISTED = 14
"""Maximum number of entries in the table of contents."""


def read_markers(name: str) -> tuple[Printed, Path]:
    """Load the markers of an arena or a carrier, or a calibration target. Return them and the file's path.

    Args:
        name: from config/markermaps or config/targets, or a path to a YAML file.

    Raises:
        ConfigError: the file is missing or invalid.
    """
    of_target = name in names(CalibrationTarget.FOLDER)
    path = find(name, CalibrationTarget.FOLDER if of_target else MarkerMap.FOLDER)
    data = read(path)
    if isinstance(data, dict):
        if "markers" in data:
            return check(data, MarkerMap, str(path)), path
        if "sides" in data or "underside" in data:
            return check(data, CarrierMarkers, str(path)), path
        if "squares_x" in data:
            return check(data, CalibrationTarget, str(path)), path
    message = (
        f"{path}: not a file of markers: it needs `markers` (as in config/markermaps/dots_arena.yaml), "
        "`sides` and `underside` (dots_carrier.yaml), or `squares_x` (config/targets/dots_wall.yaml)"
    )
    raise ConfigError(message)


def parse_ids(text: str) -> tuple[int, ...]:
    """Parse a list of ids such as 100-104 or 0,3,7-9. The result is sorted.

    Raises:
        MarkerError: the syntax is wrong, or an id is not in the dictionary.
    """
    ids: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        ends = (first.strip(), last.strip() if dash else first.strip())
        if not all(end.isascii() and end.isdigit() and len(end) <= 9 for end in ends):
            message = f"'{text}' is not a list of ids: write 100-104 or 0,3,7-9"
            raise MarkerError(message)
        low, high = int(ends[0]), int(ends[1])
        if high < low:
            message = f"'{text}': {low}-{high} is empty; write the lower id first"
            raise MarkerError(message)
        if high >= DICTIONARY_SIZE:
            message = (
                f"'{text}': id {high} does not exist; ARUCO_MIP_36h12 has ids 0 to {DICTIONARY_SIZE - 1}"
            )
            raise MarkerError(message)
        ids.update(range(low, high + 1))
    return tuple(sorted(ids))


def ids_as_text(ids: Iterable[int]) -> str:
    """Format ids in the syntax of `parse_ids`."""
    runs: list[list[int]] = []
    for number in sorted(ids):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{low}-{high}" if high > low else f"{low}" for low, high in runs)


def marker_pages(
    markers: Printed, source: Path, paper: str = "A4", ids: Sequence[int] | None = None
) -> list[Page]:
    """Return all pages to print: a page of instructions, then the sheets.

    Args:
        markers: of an arena or a carrier, or a target.
        source: the file they come from. Its name is the title of the pages.
        paper: one of `sheets.PAPERS`.
        ids: the wall markers, or the carriers' sides, to print; None for all. The underside is always
            printed.

    Raises:
        MarkerError: an id is not among the markers.
    """
    if isinstance(markers, CalibrationTarget):
        if ids is not None:
            message = f"--ids: {source} is a single sheet without ids; leave --ids out"
            raise MarkerError(message)
        pages = lay_out([[target_sheet(markers)]], paper, first=2)
        return furnish([_first_page(markers, [], pages, paper), *pages], printable(source.stem))
    known = markers.side_ids if isinstance(markers, CarrierMarkers) else markers.ids.tolist()
    chosen = sorted(set(known if ids is None else ids))
    strange = sorted(set(chosen) - set(known))
    if strange:
        whose = "the carriers' sides" if isinstance(markers, CarrierMarkers) else "the markers"
        message = f"{source} has no id {ids_as_text(strange)}: {whose} have ids {ids_as_text(known)}"
        raise MarkerError(message)
    if isinstance(markers, CarrierMarkers):
        sides = [side_sheet(markers, number, side) for number in chosen for side in range(1, SIDES + 1)]
        groups = [sides, [underside_sheet(markers)]]
        wall = []
    else:
        wall = [marker for marker in sorted(markers.markers, key=lambda item: item.id) if marker.id in chosen]
        groups = [[wall_sheet(marker) for marker in wall]]
    pages = lay_out(groups, paper, first=2)
    return furnish([_first_page(markers, wall, pages, paper), *pages], printable(source.stem))


# The sheets


def wall_sheet(marker: Marker) -> Piece:
    """Return the sheet of a marker with a fixed pose in the arena."""
    x, y, z = marker.position
    corners = marker.corners()
    upright = marker.pitch == 0.0 and marker.roll == 0.0
    hangs = abs(marker.pitch) < math.pi / 4
    lines = [f"id {marker.id}, code {_mm(marker.size)} mm{', this side up' if hangs else ''}"]
    lines.append(f"code's centre {_mm(z)} mm above the floor")
    if upright:
        below = z - marker.size * (0.5 + 1 / MODULES)
        lines.append(f"this paper's lower edge {_above(below)} it")
    if hangs:
        along = -x * math.sin(marker.yaw) + y * math.cos(marker.yaw)
        where = "at" if abs(along) < 5e-4 else f"{_mm(abs(along))} mm {'right' if along > 0 else 'left'} of"
        lines.append(f"facing it: {where} the map's origin")
        lines.append(f"x {_mm(x)} mm, y {_mm(y)} mm, face to yaw {_deg(marker.yaw)}°")
    else:
        up = corners[0] - corners[3]
        lines.append(f"x {_mm(x)} mm, y {_mm(y)} mm, face {'up' if marker.pitch > 0 else 'down'}")
        lines.append(f"top of the code to yaw {_deg(math.atan2(up[1], up[0]))}°")
    if marker.pitch and abs(marker.pitch) != math.pi / 2:
        lines.append(
            f"face {_deg(abs(marker.pitch))}° {'above' if marker.pitch > 0 else 'below'} the horizon"
        )
    if marker.roll and hangs:
        lines.append(f"then turned {_deg(abs(marker.roll))}° {'anti' if marker.roll > 0 else ''}clockwise")
    return _sheet(f"marker {marker.id}", marker.id, marker.size, lines)


def side_sheet(markers: CarrierMarkers, number: int, side: int) -> Piece:
    """Return the sheet of one side of a carrier."""
    size, rise = markers.sides.size, markers.sides.rise
    below = rise - size * (0.5 + 1 / MODULES)
    lines = [
        f"id {number}, code {_mm(size)} mm, side {side} of {SIDES}",
        f"centre {_above(rise)} the underside",
        f"paper's edge {_above(below)} it",
        "middle of the side, this way up",
    ]
    return _sheet(f"carrier {number}", number, size, lines)


def underside_sheet(markers: CarrierMarkers) -> Piece:
    """Return the marker map under a carrier as one sheet, seen from below: +x points up."""
    under = markers.underside
    size, pitch = under.size * 1e3, under.pitch * 1e3
    module = size / MODULES
    wide = (under.columns - 1) * pitch + size + 2 * module
    high = (under.rows - 1) * pitch + size + 2 * module
    boxes: list[Box] = []
    for marker in markers.underside_map(0.0).markers:
        # Seen from below, +x up: the carrier's +y is on the right.
        x, y = (float(value) * 1e3 for value in marker.position[:2])
        boxes += _code(marker.id, wide / 2 + y - size / 2, high / 2 + x - size / 2, size)
    columns = [module + size / 2 + (k + 0.5) * pitch for k in range(under.columns - 1)]
    rows = [high - (module + size / 2 + (k + 0.5) * pitch) for k in range(under.rows - 1)]
    gap = pitch - size - 2 * module
    last = under.first_id + under.rows * under.columns - 1
    title = f"underside, ids {under.first_id}-{last}, codes {_mm(under.size)} mm"
    lines: list[Line] = []
    words: list[Words] = []
    if gap >= LEAST_GAP and columns and rows:
        points = min(LARGE, 0.6 * gap * MM)
        for middle in columns:
            long = min(gap, 8.0)
            # Next to the middle, where there may be a seam.
            lines += _arrow(middle + 0.15 * gap, rows[0] - long / 2, long)
            words.append(Words(middle + 0.25 * gap, rows[0] - 0.3 * points / MM, "+x", 0.9 * points))
        words.append(Words(module, rows[-1] - 0.3 * points / MM, *_fitted(title, points, STRIP_TEXT)))
        piece = Piece(UNDERSIDE, wide, high)
    else:
        names = [title, "+x, the carrier's front, is up", "fold this strip back, or cut it off"]
        strip, lines, words = _strip(names, max(wide, NARROWEST), high)
        boxes = [Box(box.x + (max(wide, NARROWEST) - wide) / 2, *_rest(box)) for box in boxes]
        piece = Piece(UNDERSIDE, max(wide, NARROWEST), high + strip)
    return Piece(
        piece.name,
        piece.width,
        piece.height,
        tuple(boxes),
        tuple(lines),
        tuple(words),
        breaks_x=tuple(columns) if piece.width == wide else (),
        breaks_y=tuple(rows),
    )


def target_sheet(target: CalibrationTarget) -> Piece:
    """Return a camera calibration target as one sheet."""
    square, code = target.square * 1e3, target.marker * 1e3
    wide, high = target.width * 1e3, target.height * 1e3
    boxes: list[Box] = []
    ids = iter(target.ids)
    for row in range(target.squares_y):
        for column in range(target.squares_x):
            left, bottom = column * square, high - (row + 1) * square
            if (row + column) % 2 == 0:
                boxes.append(Box(left, bottom, square, square))
            else:
                inset = (square - code) / 2
                boxes += _code(next(ids), left + inset, bottom + inset, code)
    x, y, z = target.position
    lines = [
        f"target, squares {_mm(target.square)} mm, this side up",
        f"centre at x {_mm(x)}, y {_mm(y)}, {_mm(z)} mm above the floor",
        "fold this strip back, or cut it off",
    ]
    strip, drawn, words = _strip(lines, wide, high)
    return Piece(
        TARGET,
        wide,
        high + strip,
        tuple(boxes),
        tuple(drawn),
        tuple(words),
        breaks_x=tuple(square * k for k in range(1, target.squares_x)),
        breaks_y=tuple(square * k for k in range(1, target.squares_y)),
    )


def _rest(box: Box) -> tuple[float, float, float]:
    return box.y, box.width, box.height


def _sheet(name: str, number: int, size_m: float, lines: Sequence[str]) -> Piece:
    """Return a code with its white margin, below a strip with an arrow and lines of text."""
    size = size_m * 1e3
    module = size / MODULES
    wide, high = max(size + 2 * module, NARROWEST), size + 2 * module
    strip, drawn, words = _strip(lines, wide, high)
    boxes = _code(number, (wide - size) / 2, module, size)
    return Piece(name, wide, high + strip, tuple(boxes), tuple(drawn), tuple(words))


def _strip(lines: Sequence[str], wide: float, base: float) -> tuple[float, list[Line], list[Words]]:
    """Lay out a strip of text with an arrow that points up. Return its height, lines and words."""
    room = min(wide - UP - 2.0, STRIP_TEXT)
    points = min(_fitted(line, LARGE, room)[1] for line in lines)
    step = 1.35 * points / MM
    high = len(lines) * step + 2.0
    texts = [shorten(line, points, room) for line in lines]
    words = [
        Words(1.0 + UP, base + high - 1.0 - (k + 0.85) * step, text, points) for k, text in enumerate(texts)
    ]
    return high, _arrow(1.0 + UP / 2 - 0.5, base + 1.5, high - 3.0), words


def _fitted(text: str, points: float, room: float) -> tuple[str, float]:
    """Return a text and a font size that fit into the room. The text is cut where even SMALL does not fit."""
    points = max(SMALL, min(points, points * room / max(width_of(text, points), 1e-9)))
    return shorten(text, points, room), points


def _code(number: int, left: float, bottom: float, size: float) -> list[Box]:
    """Return a code's black modules, with adjacent ones in a row merged into one box."""
    module = size / MODULES
    boxes = []
    for row, white in enumerate(modules(number).tolist()):
        start = 0
        while start < MODULES:
            end = start
            while end < MODULES and not white[end]:
                end += 1
            if end > start:
                at = left + start * module, bottom + (MODULES - 1 - row) * module
                boxes.append(Box(*at, (end - start) * module, module))
            start = end + 1
    return boxes


def _arrow(x: float, y: float, long: float) -> list[Line]:
    """Return an arrow that points up."""
    head = min(1.6, long / 3)
    return [
        Line(x, y, x, y + long, 0.5),
        Line(x - head, y + long - 1.6 * head, x, y + long, 0.5),
        Line(x + head, y + long - 1.6 * head, x, y + long, 0.5),
    ]


def _mm(metres: float) -> str:
    """Format metres as millimetres, with one decimal unless it is 0."""
    return f"{round(metres * 1e3, 1) + 0.0:.1f}".removesuffix(".0")


def _deg(angle: float) -> str:
    return f"{round(math.degrees(angle), 1) + 0.0:.1f}".removesuffix(".0")


def _above(metres: float) -> str:
    return f"{_mm(abs(metres))} mm {'above' if metres >= 0 else 'below'}"


# The page of instructions


def _first_page(markers: Printed, wall: Sequence[Marker], pages: Sequence[Page], paper: str) -> Page:
    width, height = PAPERS[paper]
    left, right, y = EDGE + BAND, width - EDGE - BAND, height - EDGE - HEADER - 4.0
    words: list[Words] = []
    for title, text in _advice(markers, pages, paper):
        words.append(Words(left, y, title, 9.5))
        for line in wrap(text, 8.5, right - left - 22.0):
            words.append(Words(left + 22.0, y, line, 8.5))
            y -= 4.2
        y -= 2.0
    lines: tuple[Line, ...] = ()
    if wall and isinstance(markers, MarkerMap):
        bottom = EDGE + FOOTER + 6.0
        drawn, names = _plan(markers, wall, (left, bottom, right, y - 2.0))
        lines, words = tuple(drawn), words + names
    return Page("print, cut, place", width, height, "", (), (), lines, tuple(words))


def _advice(markers: Printed, pages: Sequence[Page], paper: str) -> list[tuple[str, str]]:
    """Return the text of the first page, as pairs of title and paragraph."""
    tiled = any(page.note for page in pages)
    advice = [
        (
            "Print",
            (
                f"on {paper} paper, one-sided, at 100 % (“actual size”), without fitting or scaling. "
                "Use matt paper: on glossy paper the reflection of a lamp can hide the code."
            ),
        ),
        (
            "Check",
            (
                "the ruler on every page, and a black square from edge to edge. A code printed 1 % too large "
                "appears 1 % too close. If your printer cannot print to scale, enter the size you measured "
                "in the file."
            ),
        ),
        (
            "Cut",
            (
                "along the marks at the corners. The white margin is part of the code: on a dark wall, a "
                "code without at least one module of white (an eighth of its side) is not detected."
            ),
        ),
    ]
    if tiled:
        advice.append(
            (
                "Glue",
                (
                    "sheets larger than a page: cut out each page along the marks, then glue it over the "
                    "strips of its left and upper neighbours, up to their dashed lines, so that the edges "
                    "of the code meet. Measure the whole code again."
                ),
            )
        )
    if isinstance(markers, CalibrationTarget):
        x, y, z = markers.position
        advice += [
            (
                "Place",
                (
                    "flat on a board: a bent target looks like lens distortion. Hang it upright on the wall, "
                    f"its centre at x {_mm(x)} mm, y {_mm(y)} mm, {_mm(z)} mm above the floor. Keep 0.8 m of "
                    "floor in front of it free."
                ),
            ),
            (
                "Measure",
                (
                    f"across all squares: {_mm(markers.width)} by {_mm(markers.height)} mm. If its size or "
                    "place differs, enter the real values in the file. A target in one piece, on A1 or "
                    "larger, is better than a glued one."
                ),
            ),
        ]
    elif isinstance(markers, CarrierMarkers):
        under = markers.underside
        advice += [
            (
                "Sides",
                (
                    "each carrier has its own id, the same on its four sides. Put one sheet in the middle of "
                    "each side, upright, at the height given on the sheet."
                ),
            ),
            (
                "Underside",
                (
                    "one for each carrier, all alike: flat, facing down, in the middle of the tray. "
                    "The +x arrows point to the carrier's front, the +x of its pose. The codes' centres "
                    f"are {_mm(under.pitch)} mm apart: from the first to the last of a row measure "
                    f"{_mm(under.pitch * (under.columns - 1))} mm."
                ),
            ),
        ]
    else:
        advice += [
            (
                "Place",
                (
                    "each flat and upright, the arrow up, where its sheet and the plan show. Right and left "
                    "are as seen when you face the marker. Do not cover it with film or glass."
                ),
            ),
            (
                "Measure",
                (
                    "the position of each code's centre, to a millimetre or two, and enter it in the file: "
                    "position in metres in the map's frame, yaw in radians, the direction it faces. An error "
                    "in the file becomes an error in the pose of every robot that sees the marker."
                ),
            ),
        ]
    return [*advice, ("Pages", _contents(pages))]


def _contents(pages: Sequence[Page]) -> str:
    """Return the table of contents: page numbers with titles."""
    entries: list[tuple[str, int, int]] = []
    for number, page in enumerate(pages, 2):
        if entries and entries[-1][0] == page.title:
            entries[-1] = (page.title, entries[-1][1], number)
        else:
            entries.append((page.title, number, number))
    texts = [
        f"{first}-{last}: {title}" if last > first else f"{first}: {title}" for title, first, last in entries
    ]
    if len(texts) > LISTED:
        texts = [*texts[: LISTED - 1], "…", texts[-1]]
    return "; ".join(texts) + "."


def _plan(
    markers: MarkerMap, wall: Sequence[Marker], room: tuple[float, float, float, float]
) -> tuple[list[Line], list[Words]]:
    """Return a plan view of the area, the map's axes, and each marker with its id in front of it."""
    left, bottom, right, top = room
    corners = markers.corners().reshape(-1, 3)
    xs, ys = [*corners[:, 0].tolist(), 0.0], [*corners[:, 1].tolist(), 0.0]
    area = markers.area
    ring: list[tuple[float, float]] = []
    if area is not None and None not in (bounds := (area.x_min, area.x_max, area.y_min, area.y_max)):
        x_min, x_max, y_min, y_max = (float(bound or 0.0) for bound in bounds)
        ring = [(x_min, y_min), (x_max, y_min), (x_max, y_max), (x_min, y_max)]
        xs, ys = [*xs, x_min, x_max], [*ys, y_min, y_max]
    span = max(max(xs) - min(xs), 0.5), max(max(ys) - min(ys), 0.5)
    if top - bottom < 40.0:
        return [], []
    top -= 6.0
    scale = min((right - left - 20.0) / span[0], (top - bottom - 12.0) / span[1])
    middle = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2

    def at(x: float, y: float) -> tuple[float, float]:
        return (left + right) / 2 + (x - middle[0]) * scale, (top + bottom) / 2 + (y - middle[1]) * scale

    edges = zip(ring, [*ring[1:], *ring[:1]], strict=True)
    lines = [Line(*at(*start), *at(*end), 0.2, 0.6) for start, end in edges]
    x, y = at(0.0, 0.0)
    lines += _arrow(x, y, 10.0)
    lines += [
        Line(x + line.y0 - y, y + line.x0 - x, x + line.y1 - y, y + line.x1 - x, 0.5) for line in lines[-3:]
    ]
    words = [
        Words(x + 11.0, y - 1.0, "x", 8.0),
        Words(x, y + 11.5, "y", 8.0, "center"),
        Words(x - 1.5, y - 4.0, "map's origin", 7.0, "center", 0.3),
        Words(
            (left + right) / 2,
            top + 2.0,
            "Plan view: each number is an id, in front of its code.",
            8.0,
            "center",
        ),
    ]
    for marker in wall:
        a, b, c, _ = marker.corners()
        ends = (a, b) if abs(marker.pitch) < math.pi / 4 else (a, c)
        lines.append(Line(*at(*ends[0][:2]), *at(*ends[1][:2]), 1.0))
        x, y = at(*marker.position[:2])
        x, y = x + 4.5 * math.cos(marker.yaw), y + 4.5 * math.sin(marker.yaw)
        words.append(Words(x, y - 1.0, str(marker.id), 8.0, "center"))
    return lines, words


# The command


def print_markers(name: str, out: Path | None, paper: str = "A4", ids: str | None = None) -> list[str]:
    """Write markers to a PDF, and return the lines to print about it.

    Args:
        name: of a file of markers.
        out: PDF to write; None for one in the current directory, named after the file of markers.
        paper: one of `sheets.PAPERS`.
        ids: in the syntax of `parse_ids`; None for all.

    Raises:
        ConfigError: the file of markers is missing or invalid.
        MarkerError: the ids or the name of the PDF are invalid.
        RunError: the PDF cannot be written.
    """
    try:
        chosen = None if ids is None else parse_ids(ids)
    except MarkerError as error:
        message = f"--ids {error}"
        raise MarkerError(message) from None
    if out is not None and out.suffix.lower() not in ("", ".pdf"):
        message = f"--out {out}: the output is a PDF; use a name that ends in .pdf"
        raise MarkerError(message)
    markers, source = read_markers(name)
    file = Path(source.stem) if out is None else out
    file = file if out is not None and out.suffix else file.with_name(f"{file.name}.pdf")
    pages = marker_pages(markers, source, paper, chosen)
    write_pdf(pages, file, f"Markers of {source.stem}")
    said = [f"{file}: {len(pages)} pages, {paper}; page 1 explains how to print, cut and place them"]
    if isinstance(markers, CarrierMarkers):
        under = [number for number, page in enumerate(pages, 1) if page.title == UNDERSIDE]
        said.append(f"carriers' sides, four of each id: {_pages(2, under[0] - 1)}")
        said.append(f"underside, to print once for each carrier: {_pages(under[0], under[-1])}")
    elif isinstance(markers, CalibrationTarget):
        said.append(f"target: {_pages(2, len(pages))}")
    else:
        count = len(markers.markers if chosen is None else chosen)
        said.append(f"{count} marker{'s' if count > 1 else ''}: {_pages(2, len(pages))}")
    return said


def _pages(first: int, last: int) -> str:
    return f"pages {first}-{last}" if last > first else f"page {first}"
