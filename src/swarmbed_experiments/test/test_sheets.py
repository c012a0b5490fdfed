"""Paper: all pieces are there once, whole, to scale and on the page; the PDF is what was laid out."""

import os
import re
import subprocess
import sys
import zlib
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.tools import sheets
from swarmbed_experiments.tools.sheets import (
    EDGE,
    OVERLAP,
    PAPERS,
    Box,
    Line,
    Page,
    Piece,
    Words,
    figure_of,
    furnish,
    lay_out,
    tiles_along,
    write_pdf,
)

property_test = settings(deadline=None, max_examples=60, derandomize=True)
lengths = st.floats(1.0, 900.0)


def square(name, width, height=None):
    """Return a black piece."""
    high = width if height is None else height
    return Piece(name, width, high, (Box(0, 0, width, high),))


def contents(file):
    """Return the streams of a PDF that draw, and the sizes of its pages in millimetres."""
    data = file.read_bytes()
    packed = re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL)
    streams = [zlib.decompressobj().decompress(item).decode("latin-1") for item in packed if item[:1] == b"x"]
    sizes = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", data)
    return [item for item in streams if " cs\n" in item], [
        (float(wide) / 72 * 25.4, float(high) / 72 * 25.4) for wide, high in sizes
    ]


@property_test
@given(length=lengths, room=st.floats(100.0, 400.0), breaks=st.lists(lengths, max_size=5))
def test_tiles_cover_all_overlap_and_fit(length, room, breaks):
    tiles = tiles_along(length, room, breaks)
    assert tiles[0][0] == 0.0
    assert tiles[-1][1] == pytest.approx(length)
    assert all(end - start <= room + 1e-5 for start, end in tiles)
    assert all(end - after == pytest.approx(OVERLAP) for (_, end), (after, _) in pairwise(tiles))
    # As few as there can be.
    assert (len(tiles) - 1) * (room - OVERLAP) < max(length - OVERLAP, 1e-3) + 1e-3


def test_a_seam_is_where_it_harms_least_if_it_can_be():
    assert tiles_along(300.0, 190.0, [20.0, 140.0, 280.0])[1][0] == 140.0
    # 20 would leave a tile that is too long.
    assert tiles_along(300.0, 190.0, [20.0])[1][0] == pytest.approx(145.0)


@property_test
@given(
    sizes=st.lists(st.tuples(st.floats(5.0, 500.0), st.floats(5.0, 500.0)), min_size=1, max_size=8),
    paper=st.sampled_from(sorted(PAPERS)),
)
def test_every_piece_is_there_whole_and_beside_the_others(sizes, paper):
    pieces = [square(str(i), *size) for i, size in enumerate(sizes)]
    pages = furnish(lay_out([pieces], paper, first=1), "t")
    order = [placed.piece.name for page in pages for placed in page.placed]
    assert list(dict.fromkeys(order)) == [piece.name for piece in pieces]
    for page in pages:
        assert sorted((page.width, page.height)) == sorted(PAPERS[paper])
        for box in page.boxes:
            assert EDGE < box.x + 1e-6 < box.x + box.width < page.width - EDGE + 1e-6
            assert EDGE < box.y + 1e-6 < box.y + box.height < page.height - EDGE + 1e-6
        areas = [
            (one.x + one.left, one.y + one.bottom, one.x + one.right, one.y + one.top) for one in page.placed
        ]
        for i, (left, bottom, right, top) in enumerate(areas):
            # Nothing else is printed where something is cut out.
            assert top < page.height - EDGE - sheets.HEADER + 1e-6
            assert bottom > EDGE + sheets.FOOTER - 1e-6
            for other in areas[:i]:
                assert right < other[0] or other[2] < left or top < other[1] or other[3] < bottom
    for piece in pieces:
        tiles = [one for page in pages for one in page.placed if one.piece is piece]
        seen = sum(
            (one.right - one.strip_right - one.left) * (one.top - one.bottom - one.strip_bottom)
            for one in tiles
        )
        assert seen == pytest.approx(piece.width * piece.height)


def test_seams_and_marks_are_where_the_next_tile_begins():
    pages = lay_out([[square("big", 300.0)]], "A4", first=7)
    assert len(pages) == 4
    tiles = [page.placed[0] for page in pages]
    dashed = [[line for line in page.lines if line.dashed] for page in pages]
    down, across = dashed[0]
    assert down.x0 == down.x1 == pytest.approx(tiles[0].x + tiles[1].left, abs=0.31)
    assert across.y0 == across.y1 == pytest.approx(tiles[0].y + tiles[2].top, abs=0.31)
    assert [len(lines) for lines in dashed] == [2, 1, 1, 0]
    said = [" ".join(words.text for words in page.words) for page in pages]
    assert "glue page 8" in said[0]
    assert "glue page 9" in said[0]
    assert "glue page 10" in said[1]
    assert "glue page 10" in said[2]
    assert "glue" not in said[3]
    for page, tile in zip(pages, tiles, strict=True):
        marks = {(line.x0, line.x1) for line in page.lines if line.x0 == line.x1 and not line.dashed}
        assert {(tile.x + edge, tile.x + edge) for edge in (tile.left, tile.right)} <= marks


def test_half_a_text_is_on_no_page_and_a_whole_one_on_one():
    words = tuple(Words(at, 100.0, f"word {at}", 10.0) for at in range(0, 280, 20))
    pages = lay_out([[Piece("text", 300.0, 200.0, words=words)]], "A4", first=1)
    said = [item.text for page in pages for item in page.words if item.text.startswith("word")]
    assert len(said) == len(set(said))
    assert len(words) - 1 <= len(said) < len(words) + 1
    for page in pages:
        tile = page.placed[0]
        for item in page.words:
            left, _, right, _ = item.bounds()
            assert tile.x + tile.left <= left
            assert right <= tile.x + tile.right


def test_small_pieces_share_pages_and_groups_do_not():
    small = [square(f"s{i}", 50.0) for i in range(10)]
    assert len(lay_out([small], "A4", first=1)) == 1
    assert len(lay_out([small[:5], small[5:]], "A4", first=1)) == 2


def test_the_page_lies_on_its_side_if_that_saves_paper():
    (page,) = lay_out([[square("wide", 250.0, 100.0)]], "A4", first=1)
    assert (page.width, page.height) == (297.0, 210.0)


def test_pages_of_the_pdf_have_the_papers_size(tmp_path):
    for paper, (width, height) in PAPERS.items():
        pages = [Page("t", width, height), Page("t", height, width)]
        write_pdf(furnish(pages, "d"), tmp_path / "s.pdf", "t")
        _, found = contents(tmp_path / "s.pdf")
        assert np.allclose(found, [(width, height), (height, width)], atol=1e-6), paper


def test_the_ruler_of_the_pdf_is_100_mm(tmp_path):
    write_pdf(furnish([Page("t", 210.0, 297.0)], "d"), tmp_path / "s.pdf", "t")
    (stream,), _ = contents(tmp_path / "s.pdf")
    paths = re.findall(r"([\d.]+) ([\d.]+) m\n([\d.]+) ([\d.]+) l\n+S", stream)
    level = [
        (float(x1) - float(x0)) / 72 * 25.4
        for x0, y0, x1, y1 in paths
        if float(y0) == pytest.approx(float(y1))
    ]
    assert level == [pytest.approx(100.0, abs=1e-3)]
    upright = sorted(float(x0) / 72 * 25.4 for x0, y0, x1, y1 in paths if x0 == x1 and y0 != y1)
    assert np.diff(upright) == pytest.approx([10.0] * 10, abs=1e-3)


def test_boxes_of_the_pdf_are_vectors_to_scale(tmp_path):
    (page,) = lay_out([[square("box", 123.4, 56.7)]], "A4", first=1)
    write_pdf([page], tmp_path / "s.pdf", "t")
    (stream,), _ = contents(tmp_path / "s.pdf")
    # The last path that is filled; the first is the paper.
    filled = re.findall(r"((?:[\d.]+ [\d.]+ [ml]\n)+)h\n\nf", stream)[-1]
    points = np.array([[float(item) for item in row.split()[:2]] for row in filled.splitlines()]) / 72 * 25.4
    assert np.ptp(points, axis=0) == pytest.approx([123.4, 56.7], abs=1e-3)
    assert b"/Subtype /Image" not in (tmp_path / "s.pdf").read_bytes()


def test_boxes_that_touch_show_no_line_between_them():
    boxes = tuple(Box(20 + 7.3 * i, 20 + 7.3 * k, 7.3, 7.3) for i in range(9) for k in range(9))
    canvas = FigureCanvasAgg(figure_of(Page("t", 100.0, 100.0, boxes=boxes)))
    canvas.figure.set_dpi(127)
    canvas.draw()
    inner = np.asarray(canvas.buffer_rgba())[-420:-105, 105:420, 0]
    assert inner.max() <= 2


def test_somebodys_settings_of_matplotlib_change_nothing(tmp_path):
    pages = furnish([Page("t", 210.0, 297.0, words=(Words(50, 50, "$a_b$ and Å", 9),))], "d")
    write_pdf(pages, tmp_path / "a.pdf", "t")
    with mpl.rc_context({"savefig.bbox": "tight", "pdf.fonttype": 42, "lines.antialiased": False}):
        write_pdf(pages, tmp_path / "b.pdf", "t")
        assert mpl.rcParams["savefig.bbox"] == "tight"
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


PROGRAM = """
import sys, pathlib
from swarmbed_experiments.tools.sheets import *
piece = Piece("a", 400.0, 90.0, (Box(0, 0, 300, 80),), (Line(0, 0, 9, 9),),
              (Words(1, 85, "Quäntchen 100 %", 9),))
write_pdf(furnish(lay_out([[piece]], "A4", 1), "d"), pathlib.Path(sys.argv[1]), "t")
"""


def test_the_same_pages_are_the_same_bytes_in_any_process(tmp_path):
    files = [tmp_path / f"{seed}.pdf" for seed in (1, 2)]
    for seed, file in enumerate(files, 1):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "TZ": f"UTC{seed}"}
        subprocess.run([sys.executable, "-c", PROGRAM, str(file)], check=True, env=environment, timeout=60)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert b"CreationDate" not in files[0].read_bytes()


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path, monkeypatch):
    file = tmp_path / "s.pdf"
    pages = [Page("t", 210.0, 297.0)] * 2
    write_pdf(pages, file, "t")
    before = file.read_bytes()
    done = []

    def fails(page):
        if done:
            raise OSError(28, "No space left on device")
        done.append(page)
        return figure_of(page)

    monkeypatch.setattr(sheets, "figure_of", fails)
    with pytest.raises(RunError, match=r"s\.pdf: cannot be written \(No space left on device\)"):
        write_pdf(pages, file, "u")
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_bytes() == before


def test_where_no_file_can_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "d.pdf").mkdir()
    for file in (tmp_path / "none" / "s.pdf", tmp_path / "file" / "s.pdf", tmp_path / "d.pdf"):
        with pytest.raises(RunError, match="cannot be written") as raised:
            write_pdf([Page("t", 210.0, 297.0)], file, "t")
        assert str(file) in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.pdf", "file"]


def test_texts_are_as_long_as_they_are_drawn():
    page = Page("t", 210.0, 297.0, words=(Words(20.0, 100.0, "Measure this: 100 % (“size”)", 12.0),))
    canvas = FigureCanvasAgg(figure_of(page))
    canvas.figure.set_dpi(254)
    canvas.draw()
    ink = np.flatnonzero((np.asarray(canvas.buffer_rgba())[..., 0] < 128).any(axis=0)) / 10
    left, _, right, _ = page.words[0].bounds()
    assert left <= ink.min() + 0.1
    assert ink.max() == pytest.approx(right, abs=1.0)


def test_texts_are_shortened_wrapped_and_made_printable():
    assert sheets.shorten("short", 9, 100) == "short"
    long = sheets.shorten("long " * 50, 9, 60)
    assert long.endswith("…")
    assert sheets.width_of(long, 9) <= 60
    lines = sheets.wrap("one two three " * 9, 9, 60)
    assert " ".join(lines).split() == ("one two three " * 9).split()
    assert all(sheets.width_of(line, 9) <= 60 for line in lines)
    assert sheets.printable("aß\n走") == "aß??"
    assert sheets.wrap("", 9, 60) == []


def test_lines_upright_and_level_are_drawn_where_they_are():
    page = Page("t", 210.0, 297.0, lines=(Line(30.0, 40.0, 130.0, 40.0, 0.4),))
    canvas = FigureCanvasAgg(figure_of(page))
    canvas.figure.set_dpi(254)
    canvas.draw()
    rows, columns = np.nonzero(np.asarray(canvas.buffer_rgba())[..., 0] < 128)
    assert (columns.min() / 10, (columns.max() + 1) / 10) == pytest.approx((30.0, 130.0), abs=0.1)
    assert 297.0 - (rows.mean() + 0.5) / 10 == pytest.approx(40.0, abs=0.1)
