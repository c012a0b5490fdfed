"""Arenas: what is shipped, and what is refused."""

import numpy as np
import pytest
from swarmbed_core.arena import Arena, Floor, Patch
from swarmbed_core.config import names
from swarmbed_core.errors import ConfigError


@pytest.mark.parametrize("name", names("worlds"))
def test_the_shipped_ones_load(name):
    arena = Arena.load(name)
    assert arena.segments().shape[1] == 4
    arena.markers()


def test_the_dots_arena_is_five_metres_square_with_twelve_markers():
    arena = Arena.load("dots_arena")
    walls = arena.segments()
    assert len(walls) == 4
    assert np.abs(walls).max() == 2.5
    assert len(arena.markers().ids) == 12
    assert np.abs(np.abs(arena.markers().corners()[:, :, :2]).max(axis=(1, 2))).max() <= 2.5


def test_inner_walls_join_the_outer_ones():
    arena = Arena(version=1, title="t", size=(2, 2), walls=((0, 0, 1, 0),))
    assert len(arena.segments()) == 5
    assert arena.markers() is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1\ntitle: t\nsize: [0, 5]\n", "size.0"),
        ("version: 2\ntitle: t\n", "version"),
        ("version: 1\ntitle: t\nwalls: [[1, 1, 1, 1]]\n", "its two ends must differ"),
        ("version: 1\ntitle: t\ncolour: red\n", "colour: unknown field"),
        ("version: 1\ntitle: t\nsize: [.nan, 5]\n", "size.0"),
        ("- 1\n", "expected a mapping"),
        ("{", "not valid YAML"),
    ],
)
def test_a_wrong_file_is_told_with_its_field(tmp_path, text, message):
    file = tmp_path / "arena.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        Arena.load(str(file))
    assert str(file) in str(raised.value)


def test_an_unknown_arena_lists_those_there_are():
    with pytest.raises(ConfigError, match="dots_arena"):
        Arena.load("nowhere")


def test_a_floor_is_white_but_for_its_patches():
    assert Arena.load("empty").floor.grey == 1.0
    assert not len(Arena.load("empty").floor.rows())
    disc = {"grey": 0.2, "pose": (1, 2, 0), "radius": 0.1}
    box = {"grey": 0.4, "pose": (0, 0, np.pi / 2), "size": (0.4, 0.2)}
    floor = Floor.model_validate({"grey": 0.9, "patches": [disc, box]})
    assert floor.rows()[0].tolist() == [1, 2, 1, 0, 0, 0, 0.1, 0.2]
    assert floor.rows()[1] == pytest.approx([0, 0, 0, 1, 0.2, 0.1, 0, 0.4])


@pytest.mark.parametrize("shape", [{}, {"size": (1, 1), "radius": 0.5}])
def test_a_patch_has_one_shape(shape):
    with pytest.raises(ValueError, match="size, for a rectangle, or a radius"):
        Patch(grey=0.5, **shape)
