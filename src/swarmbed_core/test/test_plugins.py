"""Worlds, controllers and frames are found by name, wherever they come from."""

from __future__ import annotations

import sys

import pytest
from swarmbed_core.errors import ConfigError

from swarmbed_core import plugins


@pytest.fixture(autouse=True)
def _own(tmp_path, monkeypatch):
    """A package of a user's with an entry point, as pip leaves it."""
    (tmp_path / "my_program.py").write_text("class Program: ...\n\nNUMBER = 1\n")
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[swarmbed.controllers]\nmine = my_program:Program\nbroken = my_program:Nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_program", None)


def test_another_package_adds_one_by_an_entry_point():
    assert "mine" in plugins.known(plugins.CONTROLLERS)
    assert plugins.find_plugin(plugins.CONTROLLERS, "mine").__name__ == "Program"


def test_two_of_one_name_are_told(tmp_path):
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[swarmbed.controllers]\nmine = their_program:Program\n")
    with pytest.raises(
        ConfigError, match="more than once: write my_program:Program or their_program:Program"
    ):
        plugins.find_plugin(plugins.CONTROLLERS, "mine")
    assert plugins.find_plugin(plugins.CONTROLLERS, "my_program:Program").__name__ == "Program"


def test_a_module_and_a_name_will_do():
    assert plugins.find_plugin(plugins.CONTROLLERS, "my_program:Program").__name__ == "Program"


def test_a_module_in_the_current_directory_will_do(tmp_path, monkeypatch):
    (tmp_path / "program_right_here.py").write_text("NUMBER = 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert plugins.find_plugin(plugins.CONTROLLERS, "program_right_here:NUMBER") == 7


def test_a_module_beside_the_file_that_names_it_will_do(tmp_path, monkeypatch):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "program_beside.py").write_text("NUMBER = 8\n")
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", list(sys.path))
    plugins.look_in(tmp_path / "beside")
    assert plugins.find_plugin(plugins.CONTROLLERS, "program_beside:NUMBER") == 8


MUTE = "class Mute(Exception):\n    def __str__(self):\n        raise OSError\nraise Mute"


@pytest.mark.parametrize(
    "source",
    ["1 / 0", "def broken(:", "raise SystemError('no')", "raise SystemExit", "raise GeneratorExit", MUTE],
)
def test_a_module_that_raises_is_told(source, tmp_path):
    (tmp_path / "raises_at_import.py").write_text(source)
    with pytest.raises(
        ConfigError, match=r"raises_at_import:Program.* cannot be imported: .*(Error|Exit|Mute)"
    ):
        plugins.find_plugin(plugins.CONTROLLERS, "raises_at_import:Program")
    with pytest.raises(ConfigError, match="cannot be imported"):
        plugins.find_plugin(plugins.CONTROLLERS, "..where:Program")


def test_what_is_not_there_is_told_with_what_is():
    with pytest.raises(ConfigError, match=r"no controller 'yours': there are .*mine"):
        plugins.find_plugin(plugins.CONTROLLERS, "yours")


@pytest.mark.parametrize("name", ["broken", "my_program:Missing", "no_such_module:Program"])
def test_what_cannot_be_imported_is_told_with_the_cause(name):
    with pytest.raises(
        ConfigError, match=f"controller '{name}'.* cannot be imported: .*(Nothing|Missing|module)"
    ):
        plugins.find_plugin(plugins.CONTROLLERS, name)
