"""Arenas: what is shipped, and what is refused."""

import numpy as np
import pytest
from swarmbed_core.arena import Arena
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
        ("version: 1\ntitle: t\nwalls: [[1, 1, 1, 1]]\n", "ends where it starts"),
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
