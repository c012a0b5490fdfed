"""Markers on paper: whole, to scale, found by a detector, with what one must know to hang them."""

import math
import re
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from swarmbed_core.errors import ConfigError, MarkerError
from swarmbed_core.markers import CarrierMarkers, Marker, MarkerMap
from swarmbed_experiments.tools.marker_sheets import (
    TARGET,
    UNDERSIDE,
    ids_as_text,
    marker_pages,
    parse_ids,
    read_markers,
    side_sheet,
    underside_sheet,
    wall_sheet,
)
from swarmbed_experiments.tools.sheets import EDGE, figure_of
from typer.testing import CliRunner

from swarmbed_experiments import cli

DPI = 127
PX = DPI / 25.4
"""Pixels a millimetre: five."""
ARENA = MarkerMap.load("dots_arena")
CARRIER = CarrierMarkers.load("dots_carrier_40")
DETECTOR = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_ARUCO_MIP_36h12))


def picture_of(page):
    """Return a page as a camera would see it from far in front: grey, 0 to 255."""
    canvas = FigureCanvasAgg(figure_of(page))
    canvas.figure.set_dpi(DPI)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., 0]


def glued(pages, name):
    """Return the pieces of a name, cut out and put together: of each its picture."""
    done = {}
    for page in pages:
        if all(placed.piece.name != name for placed in page.placed):
            continue
        picture = picture_of(page)
        for number, placed in enumerate(page.placed):
            if placed.piece.name != name:
                continue
            key = "tiles" if page.note else (id(page), number)
            piece = placed.piece
            shape = round(piece.height * PX), round(piece.width * PX)
            sheet = done.setdefault(key, np.full(shape, 128, np.uint8))
            wide = round((placed.right - placed.left) * PX)
            high = round((placed.top - placed.bottom) * PX)
            x, y = round((placed.x + placed.left) * PX), round((page.height - placed.y - placed.top) * PX)
            u, v = round(placed.left * PX), round((piece.height - placed.top) * PX)
            cut = picture[y : y + high, x : x + wide]
            cut = cut[: shape[0] - v, : shape[1] - u]
            sheet[v : v + cut.shape[0], u : u + cut.shape[1]] = cut
    return list(done.values())


def detect(picture):
    """Return the markers of a picture: of each id the corners in millimetres from the lower left corner."""
    corners, ids, _ = DETECTOR.detectMarkers(picture)
    found = {}
    for quad, number in zip(corners, np.ravel(ids) if ids is not None else (), strict=True):
        assert int(number) not in found
        # The middle of the first pixel is half a pixel inside.
        u, v = (quad.reshape(4, 2).astype(float) + 0.5).T
        found[int(number)] = np.stack([u, picture.shape[0] - v], axis=1) / PX
    return found


def assert_square(corners, size, centre):
    """Assert that corners are those of an upright square, top left first, within half a millimetre."""
    half = size / 2
    square = np.array([[-half, half], [half, half], [half, -half], [-half, -half]]) + centre
    np.testing.assert_allclose(corners, square, atol=0.5)


@pytest.mark.parametrize(("paper", "count"), [("A4", 4), ("A3", 2), ("A2", 1)])
def test_a_wall_marker_is_whole_when_its_pages_are_glued(paper, count):
    pages = marker_pages(ARENA, Path("dots_arena.yaml"), paper, [4])
    assert len(pages) == 1 + count
    (sheet,) = glued(pages, "marker 4")
    found = detect(sheet)
    assert set(found) == {4}
    assert_square(found[4], 240.0, (150.0, 150.0))
    # The white margin of a module is white all around.
    ring = np.full(sheet.shape, True)
    high = sheet.shape[0]
    ring[high - round(271 * PX) : high - round(29 * PX), round(29 * PX) : round(271 * PX)] = False
    ring[: high - round(300 * PX)] = False
    assert (sheet[ring] > 250).all()


@pytest.mark.parametrize(("paper", "count"), [("A1", 1), ("A3", 6)])
def test_the_target_is_what_a_calibration_expects(paper, count):
    target, source = read_markers("dots_wall")
    pages = marker_pages(target, source, paper)
    assert len(pages) == 1 + count
    (sheet,) = glued(pages, TARGET)
    corners, ids, _, _ = cv2.aruco.CharucoDetector(target.board()).detectBoard(sheet)
    assert np.ravel(ids).tolist() == list(range(14 * 9))
    # From the top left of the board, whose bottom is the sheet's.
    expected = target.corners() - target.place([[0.0, 0.0]])
    found = (np.reshape(corners, (-1, 2)) + 0.5) / PX - [0.0, sheet.shape[0] / PX - 1e3 * target.height]
    # It hangs on the +x wall: right is -y of the map.
    np.testing.assert_allclose(found, 1e3 * np.stack([-expected[:, 1], -expected[:, 2]], axis=1), atol=0.5)


def test_a_target_is_printed_whole():
    result = CliRunner().invoke(cli.app, ["markers", "dots_wall", "--ids", "3"])
    assert isinstance(result.exception, MarkerError)
    assert "is a single sheet without ids; leave --ids out" in str(result.exception)


def test_all_wall_markers_are_there_and_each_is_its_own():
    pages = marker_pages(ARENA, Path("dots_arena.yaml"), "A2")
    assert len(pages) == 13
    for number in range(12):
        (sheet,) = glued(pages, f"marker {number}")
        assert set(detect(sheet)) == {number}


@pytest.mark.parametrize(("paper", "count"), [("A4", 4), ("A3", 2), ("A2", 1)])
def test_the_underside_is_what_the_camera_below_expects(paper, count):
    pages = marker_pages(CARRIER, Path("dots_carrier.yaml"), paper, [100])
    assert sum(page.title == UNDERSIDE for page in pages) == count
    (sheet,) = glued(pages, UNDERSIDE)
    found = detect(sheet)
    assert sorted(found) == list(range(200, 249))
    middle = np.array([sheet.shape[1], sheet.shape[0]]) / PX / 2
    # On the page right is the carrier's +y and up its +x.
    expected = CARRIER.underside_map(0.0)
    for number, corners in zip(expected.ids.tolist(), expected.corners(), strict=True):
        np.testing.assert_allclose(found[number], corners[:, [1, 0]] * 1e3 + middle, atol=0.5)


@pytest.mark.parametrize("paper", ["A4", "A3", "A2", "letter"])
def test_no_seam_of_the_underside_goes_through_a_code(paper):
    pages = marker_pages(CARRIER, Path("dots_carrier.yaml"), paper, [100])
    tiles = [page.placed[0] for page in pages if page.title == UNDERSIDE]
    boxes = underside_sheet(CARRIER).boxes
    for tile in tiles:
        seam_x, seam_y = tile.right - tile.strip_right, tile.bottom + tile.strip_bottom
        for box in boxes:
            assert not box.x < seam_x < box.x + box.width
            assert not box.y < seam_y < box.y + box.height


def test_where_the_front_of_the_carrier_is_can_be_read_on_every_upper_page():
    for paper in ("A4", "A3", "A2"):
        pages = marker_pages(CARRIER, Path("dots_carrier.yaml"), paper, [100])
        upper = [page for page in pages if page.title == UNDERSIDE and page.placed[0].top > 300.0]
        assert upper
        for page in upper:
            said = [words for words in page.words if words.text == "+x"]
            shafts = [line for line in page.lines if line.x0 == line.x1 and line.width == 0.5]
            assert said
            # Each with its arrow, on the same page.
            assert len(shafts) == len(said)
            assert all(any(0 < words.x - line.x0 < 5 for line in shafts) for words in said)
        said = [words.text for page in pages for words in page.words]
        assert said.count("+x") == 6
        assert said.count("underside, ids 200-248, codes 23.4 mm") == 1


def test_each_carrier_has_four_sheets_of_its_id():
    pages = marker_pages(CARRIER, Path("dots_carrier.yaml"), "A4", [100, 101, 119])
    # Twelve sheets; nine fit on a page.
    assert sum(page.title != UNDERSIDE for page in pages) == 1 + 2
    for number in (100, 101, 119):
        sheets = glued(pages, f"carrier {number}")
        assert len(sheets) == 4
        for sheet in sheets:
            (corners,) = detect(sheet).values()
            assert_square(corners, 40.0, (25.0, 25.0))
            assert set(detect(sheet)) == {number}


def test_a_page_of_sides_holds_what_its_title_says():
    pages = marker_pages(CARRIER, Path("dots_carrier.yaml"))
    assert len(pages) == 14
    codes = [placed.piece.name for page in pages for placed in page.placed if page.title != UNDERSIDE]
    assert codes == [f"carrier {number}" for number in range(100, 120) for _ in range(4)]
    corners, ids, _ = DETECTOR.detectMarkers(picture_of(pages[1]))
    assert sorted(np.ravel(ids).tolist()) == [100] * 4 + [101] * 4 + [102]
    assert len(corners) == 9


@pytest.mark.parametrize("paper", ["A4", "A2", "letter"])
@pytest.mark.parametrize("markers", [ARENA, CARRIER], ids=["arena", "carrier"])
def test_all_ink_is_on_the_page_and_every_page_has_its_ruler(markers, paper):
    for page in marker_pages(markers, Path("x.yaml"), paper):
        level = [line for line in page.lines if line.y0 == line.y1 and line.x1 - line.x0 == 100.0]
        assert len(level) == 1
        assert level[0].x0 == EDGE
        for words in page.words:
            left, bottom, right, top = words.bounds()
            assert left > EDGE - 0.5
            assert right < page.width - EDGE + 0.5, words.text
            assert bottom > EDGE - 1.0
            assert top < page.height - EDGE + 1.0


def test_the_ruler_is_100_mm_in_the_picture_too():
    picture = picture_of(marker_pages(ARENA, Path("x.yaml"), "A4", [0])[1])
    base = round((297.0 - EDGE - 3.5) * PX)
    ink = np.flatnonzero((picture[base - 2 : base + 3, : round(110 * PX)] < 200).any(axis=0))
    # From the middle of the first mark to that of the last; they are 0.2 mm wide.
    assert (ink.max() + 1 - ink.min()) / PX - 0.2 == pytest.approx(100.0, abs=0.3)


def test_a_wall_sheet_says_where_it_belongs():
    said = [words.text for words in wall_sheet(ARENA.markers[0]).words]
    assert said == [
        "id 0, code 240 mm, this side up",
        "code's centre 250 mm above the floor",
        "this paper's lower edge 100 mm above it",
        "facing it: 1600 mm right of the map's origin",
        "x 2500 mm, y -1600 mm, face to yaw 180°",
    ]


@pytest.mark.parametrize(("number", "where"), [(1, "at"), (2, "1600 mm left of"), (3, "1600 mm right of")])
def test_left_and_right_are_those_of_one_who_faces_the_marker(number, where):
    assert f"facing it: {where} the map's origin" in [
        words.text for words in wall_sheet(ARENA.markers[number]).words
    ]


def test_markers_that_do_not_hang_upright_say_so():
    turned = Marker(id=1, size=0.1, position=(1, 0, 0.5), yaw=0.0, pitch=-0.1, roll=0.2)
    said = [words.text for words in wall_sheet(turned).words]
    assert "face 5.7° below the horizon" in said
    assert "then turned 11.5° anticlockwise" in said
    assert not any("lower edge" in text for text in said)
    # On the floor, the top of the code to the east: yaw is where it was before it was laid down.
    lying = Marker(id=1, size=0.1, position=(1, 0, 0), yaw=math.pi, pitch=math.pi / 2)
    said = [words.text for words in wall_sheet(lying).words]
    assert "x 1000 mm, y 0 mm, face up" in said
    assert "top of the code to yaw 0°" in said
    assert "id 1, code 100 mm" in said


def test_a_side_says_how_high_it_is():
    told = {
        "dots_carrier_40": ("code 40 mm", "centre 20 mm above", "paper's edge 5 mm below it"),
        "dots_carrier": ("code 100 mm", "centre 65 mm above", "paper's edge 2.5 mm above it"),
    }
    for name, (code, centre, edge) in told.items():
        said = [words.text for words in side_sheet(CarrierMarkers.load(name), 107, 3).words]
        assert said[:3] == [f"id 107, {code}, side 3 of 4", f"{centre} the underside", edge]


def test_a_tiny_code_has_a_sheet_that_can_be_read():
    piece = wall_sheet(Marker(id=9, size=0.004, position=(12.345, -6.789, 0.2505), yaw=1.234))
    assert all(words.points >= 4.5 for words in piece.words)
    assert all(words.bounds()[2] <= piece.width for words in piece.words)
    code = piece.boxes
    assert min(box.x for box in code) >= 0.5
    assert max(box.y + box.height for box in code) <= 5.0 < min(words.bounds()[1] for words in piece.words)


def test_codes_close_together_have_their_front_on_a_strip():
    data = CARRIER.model_dump()
    data["underside"] |= {"size": 0.03, "pitch": 0.035, "rows": 2, "columns": 2}
    piece = underside_sheet(CarrierMarkers.model_validate(data))
    assert any("+x" in words.text for words in piece.words)
    assert max(box.y + box.height for box in piece.boxes) < min(words.bounds()[1] for words in piece.words)


def test_the_first_page_explains_and_shows_the_plan():
    first = marker_pages(ARENA, Path("dots_arena.yaml"))[0]
    said = " ".join(words.text for words in first.words)
    for what in ("100 %", "matt", "Cut", "Glue", "Measure", "page 1 of 49", "2-5: marker 0"):
        assert what in said
    places = {
        words.text: (words.x, words.y)
        for words in first.words
        if words.text.isdigit() and words.points == 8.0
    }
    assert set(places) == {str(number) for number in range(12)}
    # Marker 0 is on the +x wall, which is right, and below 2; 4 is on the upper wall.
    assert places["7"][0] < places["0"][0] == pytest.approx(places["2"][0])
    assert places["0"][1] < places["2"][1] < places["4"][1]
    assert "Glue" not in " ".join(w.text for w in marker_pages(ARENA, Path("x"), "A2")[0].words)


def test_ids_are_read_and_written():
    assert parse_ids("100-104") == (100, 101, 102, 103, 104)
    assert parse_ids(" 9,0, 3-4,3") == (0, 3, 4, 9)
    assert ids_as_text([4, 0, 3, 9]) == "0, 3-4, 9"
    assert parse_ids(ids_as_text(range(250))) == tuple(range(250))


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "1,,2", "5-3", "250", "0-99999999", "1-2-3", "²"])
def test_wrong_ids_are_told(text):
    with pytest.raises(MarkerError, match=re.escape(f"'{text}'")):
        parse_ids(text)


def test_files_of_both_kinds_are_known_by_what_they_hold():
    assert isinstance(read_markers("dots_arena")[0], MarkerMap)
    assert isinstance(read_markers("dots_carrier")[0], CarrierMarkers)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"markers": None}, r"my\.yaml: markers: "),
        (
            {"markers": [{"id": 300, "size": 0.1, "position": [0, 0, 0], "yaw": 0}]},
            r"my\.yaml: markers\.0\.id",
        ),
        ({"sides": {}}, r"my\.yaml: sides\.first_id: missing"),
        ({}, r"my\.yaml: not a file of markers"),
    ],
)
def test_wrong_files_are_told_with_their_field(tmp_path, change, fault):
    file = tmp_path / "my.yaml"
    file.write_text(yaml.safe_dump({"version": 1, "dictionary": "ARUCO_MIP_36h12", **change}))
    with pytest.raises(ConfigError, match=fault):
        read_markers(str(file))


# The command


def call(monkeypatch, capsys, *words):
    """Return exit status, output and errors of `swarmbed markers` with some words."""
    monkeypatch.setattr(sys, "argv", ["swarmbed", "markers", *words])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    said = capsys.readouterr()
    return raised.value.code, said.out, said.err


def test_the_command_writes_beside_and_says_what(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    status, out, _ = call(monkeypatch, capsys, "dots_carrier_40", "--ids", "100-101")
    assert status == 0
    assert out.splitlines() == [
        "dots_carrier_40.pdf: 6 pages, A4; page 1 explains how to print, cut and place them",
        "carriers' sides, four of each id: page 2",
        "underside, to print once for each carrier: pages 3-6",
    ]
    first = Path("dots_carrier_40.pdf").read_bytes()
    assert first.count(b"/Type /Page ") == 6
    status, out, _ = call(monkeypatch, capsys, "dots_carrier_40", "--ids", "100,101", "--out", "again")
    assert status == 0
    assert Path("again.pdf").read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.pdf", "dots_carrier_40.pdf"]


def test_a_file_of_ones_own_is_printed_on_the_paper_asked_for(tmp_path, monkeypatch, capsys):
    marker = {"id": 17, "size": 0.24, "position": [0, 0, 1], "yaw": 0}
    file = tmp_path / "走.yaml"
    file.write_text(yaml.safe_dump({"version": 1, "dictionary": "ARUCO_MIP_36h12", "markers": [marker]}))
    monkeypatch.chdir(tmp_path)
    status, out, _ = call(monkeypatch, capsys, str(file), "--paper", "a2")
    assert status == 0
    assert out.splitlines()[0].startswith("走.pdf: 2 pages, A2;")
    assert out.splitlines()[1] == "1 marker: page 2"
    assert (tmp_path / "走.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--paper", "A5"], "--paper"),
        (["--ids", "x"], "--ids 'x' is not a list of ids: write 100-104 or"),
        (["--ids", "3-100"], "dots_arena.yaml has no id 12-100: the markers have ids 0-11"),
        (
            ["dots_carrier", "--ids", "99"],
            "dots_carrier.yaml has no id 99: the carriers' sides have ids 100-119",
        ),
        (["nobodys"], "'nobodys' is not in config/markermaps: there are dots_arena"),
        (["--out", "x.png"], "--out x.png: the output is a PDF"),
        (["--out", "none/x.pdf", "--ids", "0"], "none/x.pdf: cannot be written (No such file or directory)"),
    ],
)
def test_bad_input_is_exit_2_and_leaves_nothing(tmp_path, monkeypatch, capsys, words, complaint):
    monkeypatch.chdir(tmp_path)
    status, _, err = call(monkeypatch, capsys, *words)
    assert status == 2
    assert complaint in err
    assert list(tmp_path.iterdir()) == []


def test_its_help_teaches():
    result = CliRunner().invoke(cli.app, ["markers", "--help"])
    assert result.exit_code == 0
    for what in ("--paper", "--ids", "--out", "swarmbed markers dots_carrier --ids 100-104"):
        assert what in result.output
