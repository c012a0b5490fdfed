"""Printing to scale: pieces to cut out and, if they are larger than a page, to glue together from tiles.

`lay_out` places pieces on pages, in millimetres from a page's lower left corner; `write_pdf` draws the pages.
Everything is vector graphics (lines, text and black boxes), so that nothing blurs.
"""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

import matplotlib as mpl
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

from swarmbed_experiments.errors import RunError, unwritable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAPERS = {
    "A4": (210.0, 297.0),
    "A3": (297.0, 420.0),
    "A2": (420.0, 594.0),
    "A1": (594.0, 841.0),
    "letter": (215.9, 279.4),
}
"""Width and height, upright, in millimetres."""
RULER = 100.0
EDGE = 6.0
"""Unprintable margin of a page, in millimetres."""
HEADER, FOOTER = 14.0, 14.0
BAND = 4.0
"""Space around a piece for the cutting marks at its corners, in millimetres."""
MARK, MARK_GAP = 3.0, 1.0
GAP = 2 * BAND
OVERLAP = 10.0
"""Width in millimetres of the strip that the neighbouring tile is glued over."""
MM = 72 / 25.4
"""Points in a millimetre."""
FONT = "DejaVu Sans"
FAINT = 0.55
"""Grey level of lines and text that the neighbouring tile will cover."""
_EPS = 1e-6


@dataclass(frozen=True, slots=True)
class Box:
    """A black rectangle; `x`, `y` is its lower left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Line:
    """A thin line; `grey` 0 is black."""

    x0: float
    y0: float
    x1: float
    y1: float
    width: float = 0.2
    grey: float = 0.0
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """One line of text; `x`, `y` is the start, centre or end of its baseline, depending on `align`."""

    x: float
    y: float
    text: str
    points: float
    align: Literal["left", "center", "right"] = "left"
    grey: float = 0.0
    upwards: bool = False

    def bounds(self) -> tuple[float, float, float, float]:
        """Return left, bottom, right, top."""
        length = width_of(self.text, self.points)
        ahead = {"left": 0.0, "center": length / 2, "right": length}[self.align]
        down, up = 0.25 * self.points / MM, 0.8 * self.points / MM
        if self.upwards:
            return self.x - up, self.y - ahead, self.x + down, self.y - ahead + length
        return self.x - ahead, self.y - down, self.x - ahead + length, self.y + up


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece to cut out, in millimetres from its lower left corner.

    `breaks_x` and `breaks_y` are the preferred places of seams, if the piece needs any.
    """

    name: str
    width: float
    height: float
    boxes: tuple[Box, ...] = ()
    lines: tuple[Line, ...] = ()
    words: tuple[Words, ...] = ()
    breaks_x: tuple[float, ...] = ()
    breaks_y: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """A piece, or a tile of one, on a page; `x`, `y` is the piece's lower left corner in page coordinates.

    That corner can be off the page. The tile is the part of the piece between `left`, `bottom`, `right` and
    `top`, in the piece's coordinates. Other tiles are glued over its strips, which are `strip_right` and
    `strip_bottom` wide.
    """

    piece: Piece
    x: float
    y: float
    left: float
    bottom: float
    right: float
    top: float
    strip_right: float = 0.0
    strip_bottom: float = 0.0


@dataclass(frozen=True, slots=True)
class Page:
    """One side of paper."""

    title: str
    width: float
    height: float
    note: str = ""
    placed: tuple[Placed, ...] = ()
    boxes: tuple[Box, ...] = ()
    lines: tuple[Line, ...] = ()
    words: tuple[Words, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A page in the making."""

    placed: list[Placed] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)

    def page(self, title: str, width: float, height: float, note: str = "") -> Page:
        return Page(
            title,
            width,
            height,
            note,
            tuple(self.placed),
            tuple(self.boxes),
            tuple(self.lines),
            tuple(self.words),
        )

    def put(self, placed: Placed) -> None:
        """Add a piece or a tile, with cutting marks at its corners."""
        self.placed.append(placed)
        piece, x, y = placed.piece, placed.x, placed.y
        for box in piece.boxes:
            x0, x1 = max(box.x, placed.left), min(box.x + box.width, placed.right)
            y0, y1 = max(box.y, placed.bottom), min(box.y + box.height, placed.top)
            if x1 - x0 > _EPS and y1 - y0 > _EPS:
                self.boxes.append(Box(x + x0, y + y0, x1 - x0, y1 - y0))
        for line in piece.lines:
            ends = sorted((line.x0, line.x1)), sorted((line.y0, line.y1))
            if _inside((ends[0][0], ends[1][0], ends[0][1], ends[1][1]), placed):
                self.lines.append(
                    replace(line, x0=x + line.x0, y0=y + line.y0, x1=x + line.x1, y1=y + line.y1)
                )
        for words in piece.words:
            if _inside(words.bounds(), placed):
                self.words.append(replace(words, x=x + words.x, y=y + words.y))
        for edge, away in ((x + placed.left, -1), (x + placed.right, 1)):
            for level, out in ((y + placed.bottom, -1), (y + placed.top, 1)):
                near, far = MARK_GAP, MARK_GAP + MARK
                self.lines.append(Line(edge + away * near, level, edge + away * far, level))
                self.lines.append(Line(edge, level + out * near, edge, level + out * far))


# Layout


def width_of(text: str, points: float) -> float:
    """Return the length of a text in millimetres."""
    return _width(text) * points


@cache
def _width(text: str) -> float:
    """Return the length of a text in millimetres per point of font size."""
    width, _, _ = text_to_path.get_text_width_height_descent(
        text, FontProperties(family=FONT, size=10.0), ismath=False
    )
    return float(width) / 10.0 / MM


def printable(text: str) -> str:
    """Return a text with question marks in place of characters that the font lacks."""
    known = get_font(findfont(FontProperties(family=FONT))).get_charmap()
    return "".join(letter if ord(letter) in known else "?" for letter in text)


def shorten(text: str, points: float, room: float) -> str:
    """Cut a text to the room, in millimetres, with an ellipsis at the end."""
    if width_of(text, points) <= room:
        return text
    while text and width_of(f"{text}…", points) > room:
        text = text[:-1]
    return f"{text.rstrip()}…"


def wrap(text: str, points: float, room: float) -> list[str]:
    """Break a text into lines that fit into the room, in millimetres."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and width_of(longer, points) <= room:
            lines[-1] = longer
        else:
            lines.append(shorten(word, points, room))
    return lines


def room_on(width: float, height: float) -> tuple[float, float]:
    """Return the width and height available for pieces on a page of this size."""
    return width - 2 * (EDGE + BAND), height - 2 * (EDGE + BAND) - HEADER - FOOTER


def lay_out(groups: Sequence[Sequence[Piece]], paper: str, first: int) -> list[Page]:
    """Place pieces, in their order, on few pages. Pieces larger than a page are tiled.

    Args:
        groups: of pieces; each group starts a new page.
        paper: one of PAPERS; pages may be in landscape format.
        first: number of the first page.
    """
    width, height = PAPERS[paper]
    sizes = ((width, height), (height, width))
    pages: list[Page] = []
    for group in groups:
        waiting: list[Piece] = []
        for piece in group:
            if any(_fits(piece, size) for size in sizes):
                waiting.append(piece)
                continue
            pages += _packed(waiting, sizes)
            waiting = []
            pages += _tiled(piece, sizes, first + len(pages))
        pages += _packed(waiting, sizes)
    return pages


def _fits(piece: Piece, size: tuple[float, float]) -> bool:
    wide, high = room_on(*size)
    return piece.width <= wide + _EPS and piece.height <= high + _EPS


def _inside(bounds: tuple[float, float, float, float], placed: Placed) -> bool:
    """Return whether bounds will be fully visible on a tile. Partly covered text is left out."""
    left, bottom, right, top = bounds
    return (
        left >= placed.left - _EPS
        and right <= placed.right - placed.strip_right + _EPS
        and bottom >= placed.bottom + placed.strip_bottom - _EPS
        and top <= placed.top + _EPS
    )


def _packed(pieces: Sequence[Piece], sizes: Sequence[tuple[float, float]]) -> list[Page]:
    """Return pages of pieces that each fit on one page, in rows from the top, portrait or landscape."""
    ways = [_rows(pieces, size) for size in sizes if all(_fits(piece, size) for piece in pieces)]
    if not ways and pieces:
        # Some pieces need portrait and others landscape: one piece per page.
        return [page for piece in pieces for page in _packed([piece], sizes)]
    return min(ways, key=len, default=[])


def _rows(pieces: Sequence[Piece], size: tuple[float, float]) -> list[Page]:
    wide, high = room_on(*size)
    left, top = EDGE + BAND, size[1] - EDGE - HEADER - BAND
    drafts: list[_Draft] = []
    x = y = row = 0.0
    for piece in pieces:
        if x + piece.width > wide + _EPS:
            x, y, row = 0.0, y + row + GAP, 0.0
        if not drafts or y + piece.height > high + _EPS:
            drafts.append(_Draft())
            x = y = row = 0.0
        place = Placed(
            piece, left + x, top - y - piece.height, left=0.0, bottom=0.0, right=piece.width, top=piece.height
        )
        drafts[-1].put(place)
        x, row = x + piece.width + GAP, max(row, piece.height)
    return [draft.page(_names(draft), *size) for draft in drafts]


def _names(draft: _Draft) -> str:
    return ", ".join(dict.fromkeys(placed.piece.name for placed in draft.placed))


def tiles_along(length: float, room: float, breaks: Sequence[float]) -> list[tuple[float, float]]:
    """Return start and end of each tile along one side: few tiles, with seams at `breaks` where they fit.

    Each tile reaches OVERLAP beyond the start of the next.
    """
    count = 1 if length <= room + _EPS else math.ceil((length - OVERLAP) / (room - OVERLAP) - _EPS)
    step = (length - OVERLAP) / count
    even = [k * step for k in range(count)]
    starts = [0.0, *(min(breaks, key=lambda at: abs(at - start), default=start) for start in even[1:])]
    for at in (starts, even):
        ends = [*(start + OVERLAP for start in at[1:]), length]
        if all(2 * OVERLAP < end - start <= room + _EPS for start, end in zip(at, ends, strict=True)):
            break
    return list(zip(at, ends, strict=True))


def _tiled(piece: Piece, sizes: Sequence[tuple[float, float]], first: int) -> list[Page]:
    """Return the pages of a piece that is larger than a page, row by row from the upper left."""
    # Rows count from the top, y from the bottom.
    downwards = [piece.height - at for at in piece.breaks_y]
    ways = []
    for size in sizes:
        wide, high = room_on(*size)
        columns = tiles_along(piece.width, wide, piece.breaks_x)
        ways.append((size, columns, tiles_along(piece.height, high, downwards)))
    size, columns, rows = min(ways, key=lambda way: len(way[1]) * len(way[2]))
    pages = []
    for row, (start, end) in enumerate(rows):
        for column, (left, right) in enumerate(columns):
            top, bottom = piece.height - start, piece.height - end
            x = EDGE + BAND - left
            y = size[1] - EDGE - HEADER - BAND - top
            draft = _Draft()
            strips = OVERLAP * (column + 1 < len(columns)), OVERLAP * (row + 1 < len(rows))
            draft.put(Placed(piece, x, y, left, bottom, right, top, *strips))
            number = first + row * len(columns) + column
            over = []
            if strips[0]:
                seam = x + right - OVERLAP
                # On the side that the neighbour will cover.
                draft.lines.append(Line(seam + 0.3, y + bottom, seam + 0.3, y + top, 0.3, FAINT, dashed=True))
                middle = y + (bottom + top) / 2
                draft.words.append(_strip(seam + OVERLAP / 2, middle, number + 1, upwards=True))
                over.append(number + 1)
            if strips[1]:
                seam = y + bottom + OVERLAP
                draft.lines.append(Line(x + left, seam - 0.3, x + right, seam - 0.3, 0.3, FAINT, dashed=True))
                middle = x + (left + right - OVERLAP) / 2
                draft.words.append(_strip(middle, seam - OVERLAP / 2, number + len(columns), upwards=False))
                over.append(number + len(columns))
            place = f"Row {row + 1} of {len(rows)}, column {column + 1} of {len(columns)}. "
            note = place + "Cut along the marks at the corners. " + _gluing(over)
            _draw_key(draft, size, (len(rows), len(columns)), (row, column))
            pages.append(draft.page(piece.name, *size, note))
    return pages


def _strip(x: float, y: float, number: int, *, upwards: bool) -> Words:
    """Return the text on a strip that another page is glued over."""
    down = 0.35 * 8.0 / MM
    at = (x + down, y) if upwards else (x, y - down)
    return Words(*at, f"glue page {number} over this, up to the line", 8.0, "center", FAINT, upwards)


def _gluing(over: Sequence[int]) -> str:
    if not over:
        return "Glue it on top."
    which = f"page {over[0]}" if len(over) == 1 else f"pages {over[0]} and {over[1]}"
    return f"Glue {which} over its strip{'s' if len(over) > 1 else ''}."


def _draw_key(
    draft: _Draft, size: tuple[float, float], tiles: tuple[int, int], here: tuple[int, int]
) -> None:
    """Draw a key of all tiles with this one filled, at the right end of the header."""
    rows, columns = tiles
    cell = min(3.5, 7.0 / rows, 30.0 / columns)
    left, top = size[0] - EDGE - columns * cell, size[1] - EDGE - 6.0
    for row in range(rows + 1):
        y = top - row * cell
        draft.lines.append(Line(left, y, left + columns * cell, y))
    for column in range(columns + 1):
        x = left + column * cell
        draft.lines.append(Line(x, top, x, top - rows * cell))
    draft.boxes.append(Box(left + here[1] * cell, top - (here[0] + 1) * cell, cell, cell))


def furnish(pages: Sequence[Page], document: str) -> list[Page]:
    """Add titles, page numbers from 1 on and the ruler of 100 mm to all pages of a document."""
    return [_furnished(page, document, number, len(pages)) for number, page in enumerate(pages, 1)]


def _furnished(page: Page, document: str, number: int, total: int) -> Page:
    right, top = page.width - EDGE, page.height - EDGE
    count = f"page {number} of {total}"
    room = right - EDGE - width_of(count, 10.0) - 8.0
    title = shorten(f"{document}: {page.title}", 12.0, room)
    words = [Words(EDGE, top - 4.5, title, 12.0), Words(right, top - 4.5, count, 10.0, "right")]
    if page.note:
        words.append(Words(EDGE, top - 10.5, shorten(page.note, 8.0, right - EDGE - 34.0), 8.0))
    base = EDGE + 3.5
    lines = [Line(EDGE, base, EDGE + RULER, base)]
    for at in range(0, 101, 10):
        high = 5.0 if at % 50 == 0 else 3.0
        lines.append(Line(EDGE + at, base, EDGE + at, base + high))
    words += [
        Words(EDGE + 0.8, base + 5.8, "0", 7.0, "left"),
        Words(EDGE + 50, base + 5.8, "50", 7.0, "center"),
        Words(EDGE + RULER - 0.8, base + 5.8, "100 mm", 7.0, "right"),
        Words(EDGE + RULER + 6, base + 3.2, "Measure this ruler. If it is not 100 mm long, the", 7.5),
        Words(EDGE + RULER + 6, base - 0.4, "page was scaled: print again at 100 %, not fitted.", 7.5),
    ]
    return replace(page, lines=(*page.lines, *lines), words=(*page.words, *words))


# Drawing


def figure_of(page: Page) -> Figure:
    """Return a page as a figure to scale, for any of matplotlib's formats."""
    figure = Figure(figsize=(page.width / 25.4, page.height / 25.4), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0.0, page.width)
    axes.set_ylim(0.0, page.height)
    if page.boxes:
        # A single path, so that no hairlines show between adjacent boxes.
        corners: list[tuple[float, float]] = []
        for box in page.boxes:
            x0, y0, x1, y1 = box.x, box.y, box.x + box.width, box.y + box.height
            corners += [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]
        codes = [Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY] * len(page.boxes)
        axes.add_patch(
            PathPatch(Outline(corners, codes), facecolor="black", edgecolor="none", linewidth=0, snap=False)
        )
    for line in page.lines:
        artist = Line2D(
            (line.x0, line.x1),
            (line.y0, line.y1),
            linewidth=line.width * MM,
            color=str(line.grey),
            linestyle=(0, (5, 4)) if line.dashed else "-",
            solid_capstyle="butt",
            dash_capstyle="butt",
            snap=False,
        )
        axes.add_line(artist)
    for words in page.words:
        text = Text(
            words.x,
            words.y,
            words.text,
            color=str(words.grey),
            fontproperties=FontProperties(family=FONT, size=words.points),
            horizontalalignment=words.align,
            verticalalignment="baseline",
            rotation=90.0 if words.upwards else 0.0,
            rotation_mode="anchor",
            parse_math=False,
        )
        axes.add_artist(text)
    return figure


def write_pdf(pages: Sequence[Page], file: Path, title: str) -> None:
    """Write pages as a PDF file. The output is reproducible: the same pages give the same bytes.

    An existing file is only replaced once the new one is complete.

    Raises:
        RunError: the file cannot be written.
    """
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    if file.is_dir():
        message = f"{file}: cannot be written (it is a directory)"
        raise RunError(message)
    about = {"Title": title, "Creator": "Swarmbed", "CreationDate": None}
    try:
        with mpl.rc_context():
            # A user's matplotlibrc would change sizes.
            mpl.rcdefaults()
            # Opened first, so that an unwritable path fails before the work.
            with part.open("wb") as stream, PdfPages(stream, metadata=about) as pdf:
                for page in pages:
                    pdf.savefig(figure_of(page))
            part.replace(file)
    except OSError as error:
        raise unwritable(file, error) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
