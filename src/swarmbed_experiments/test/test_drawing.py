"""How pictures are drawn: formats, the style for papers, and curves that can be told apart."""

import itertools

import matplotlib as mpl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.pictures import drawing
from swarmbed_experiments.pictures.drawing import (
    bar,
    drawn,
    files_of,
    formats_of,
    head,
    legend_below,
    line,
    new_figure,
    save,
)


def picture(width=8.0, height=4.5):
    figure = new_figure(width, height)
    axes = figure.subplots()
    for k in range(3):
        axes.plot([0, 1], [0, k], label=f"curve {k}", **line(k))
    axes.set(xlabel="time (s)", ylabel="error (m)")
    legend_below(figure, 3)
    head(axes, "A title")
    return figure


def test_a_picture_is_written_in_all_formats(tmp_path):
    with drawn("screen", ("png", "pdf", "svg", "png")):
        files = save(picture(), tmp_path / "a.b.png")
    assert [file.name for file in files] == ["a.b.png", "a.b.pdf", "a.b.svg"]
    assert files[1].read_bytes().startswith(b"%PDF")
    assert "<svg" in files[2].read_text()
    assert files_of(tmp_path / "a.png") == [tmp_path / "a.png"]


def test_a_papers_picture_fits_a_column_without_title(tmp_path):
    with drawn("paper", ("png", "svg")):
        narrow, wide = picture(), picture(11.0, 4.0)
        assert [figure.get_size_inches()[0] for figure in (narrow, wide)] == [3.5, 7.16]
        assert narrow.axes[0].get_title() == ""
        sizes = [text.get_fontsize() for text in narrow.findobj(mpl.text.Text) if text.get_text()]
        assert sizes
        assert all(8 <= size <= 9 for size in sizes)
        png, svg = save(narrow, tmp_path / "a.png")
    # To the pixel, so that it stands in the column as it is.
    assert imread(png).shape[1] == round(3.5 * drawing.PAPER.dpi)
    assert 'width="252pt"' in svg.read_text()
    # Afterwards all is as it was.
    assert picture().axes[0].get_title() == "A title"
    assert mpl.rcParams["font.size"] == 10.0


def test_a_legend_takes_no_more_columns_than_there_is_room_for():
    def rows(words):
        figure = new_figure(8.0, 4.5)
        axes = figure.subplots()
        for k in range(4):
            axes.plot([0, 1], [0, k], label=f"{words} {k}")
        legend_below(figure, 4)
        (legend,) = figure.legends
        figure.draw_without_rendering()
        assert legend.get_window_extent().width <= figure.bbox.width
        # It is below the axes, whose height it does not take in a paper.
        assert legend.get_window_extent().y1 <= axes.get_tightbbox().y0
        return len({round(text.get_window_extent().y0) for text in legend.get_texts()}), axes.bbox.height

    with drawn("paper"):
        (one, high), (four, higher) = rows("a"), rows("a very long label of a curve that is drawn")
    assert (one, four) == (1, 4)
    assert higher == pytest.approx(high, rel=0.05)


def test_a_paper_gets_vectors_unless_asked_otherwise(tmp_path):
    with drawn("paper"):
        assert files_of(tmp_path / "a.png") == [tmp_path / "a.pdf"]


def test_the_same_picture_is_the_same_file(tmp_path):
    with drawn("paper", ("pdf", "svg")):
        one, two = save(picture(), tmp_path / "a.png"), save(picture(), tmp_path / "b.png")
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]


def test_what_is_unknown_is_refused_before_anything_is_drawn():
    with pytest.raises(ConfigError, match="format 'gif' does not exist; choose"), drawn("screen", ("gif",)):
        pytest.fail("drawn")
    with pytest.raises(ConfigError, match="style 'poster' does not exist; choose screen"), drawn("poster"):
        pytest.fail("drawn")
    assert formats_of(" PNG, pdf,") == ("png", "pdf")
    assert formats_of(None) == ()


def grey(colour):
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), to_rgb(colour), strict=True))


def test_curves_and_bars_differ_without_colour():
    for k, other in itertools.combinations(range(7), 2):
        one, two = line(k), line(other)
        differ = one["marker"] != two["marker"] or one["linestyle"] != two["linestyle"]
        assert differ or abs(grey(one["color"]) - grey(two["color"])) > 0.2
        assert bar(k)["hatch"] != bar(other)["hatch"]
