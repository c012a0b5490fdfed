"""The list of arenas, and their pictures."""

import pytest
from rich.console import Console
from swarmbed_core.arena import Arena
from swarmbed_core.config import names
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.tools import arenas
from typer.testing import CliRunner

from swarmbed_experiments import cli

runner = CliRunner()


def shown(table, width=80):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_all_arenas_are_listed_within_80_columns():
    text = shown(arenas.arena_table(arenas.load_arenas(()), most=arenas.NAMED))
    for name in names(Arena.FOLDER):
        assert name in text
    assert "…" not in text
    assert "5 x 5 m, search and drop" in text
    assert "12 markers" in text
    assert max(map(len, text.splitlines())) <= 80


def test_an_arena_names_all_scenarios_that_use_it():
    used = [name for name in names(Scenario.FOLDER) if Scenario.load(name).arena == "dots_arena"]
    text = shown(arenas.arena_table(arenas.load_arenas(["dots_arena"])))
    assert len(used) > arenas.NAMED
    assert all(name in text for name in used)
    few = shown(arenas.arena_table(arenas.load_arenas(["dots_arena"]), most=2))
    assert f"and {len(used) - 2} more" in few


@pytest.fixture
def own(tmp_path):
    """An arena of one's own, with all that there can be."""
    file = tmp_path / "own.yaml"
    file.write_text(
        "version: 1\ntitle: own $x$\nsize: [2, 1]\nwalls: [[0, 0, 1, 0], [0, 0, 0, 0.4]]\nzones: {}\n"
        "floor: {patches: [{grey: 0.5, size: [0.2, 0.1], pose: [0, 0, 0.3]}, {grey: 0, radius: 0.1}]}\n"
    )
    return str(file)


def test_pictures_side_by_side_and_one_by_one(own, tmp_path):
    result = runner.invoke(cli.app, ["arenas", "dots_arena", own, "--picture", str(tmp_path / "both.png")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "both.png").stat().st_size > 10_000
    assert f"picture: {tmp_path / 'both.png'}" in result.output
    made = arenas.draw(arenas.load_arenas([own, "empty"]), tmp_path / "pictures")
    assert made == [tmp_path / "pictures" / "own.png", tmp_path / "pictures" / "empty.png"]
    [vector] = arenas.draw(arenas.load_arenas([own]), tmp_path / "own.svg")
    assert vector.read_text().startswith("<?xml")
    assert all(file.stat().st_size > 5_000 for file in made)


def test_what_is_in_an_arena_is_told(own):
    text = shown(arenas.arena_table(arenas.load_arenas([own])), width=200)
    assert "2 x 1 m, 2 inner walls, search and drop zones, painted floor" in text


def test_what_cannot_be_drawn_is_named(own, tmp_path):
    found = arenas.load_arenas([own])
    with pytest.raises(ConfigError, match="format 'abc' does not exist; choose from png, pdf, svg"):
        arenas.draw(found, tmp_path / "arena.abc")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="choose another --picture"):
        arenas.draw(found, tmp_path / "file")
    with pytest.raises(ConfigError, match="'moon' is not in worlds"):
        arenas.load_arenas(["moon"])
