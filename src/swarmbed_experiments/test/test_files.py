"""Files that runs leave, and those that cannot be written."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import make_ready, new_directory, replace_text, write_json


def test_directories_carry_name_and_seed_and_never_collide(tmp_path):
    made = [new_directory(tmp_path, "square-dots", 7) for _ in range(5)]
    assert len(set(made)) == 5
    assert all(directory.is_dir() and directory.name.startswith("square-dots-") for directory in made)
    assert made[0].name.endswith("-7")


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(RunError, match="choose another --out"):
        new_directory(tmp_path / "runs", "x", 1)


def test_json_is_short_and_always_valid(tmp_path):
    file = tmp_path / "a.json"
    write_json(
        file, {"pi": math.pi, "nan": math.nan, "list": [np.float64(1 / 3), math.inf], "n": 3, "s": "x"}
    )
    assert json.loads(file.read_text()) == {
        "pi": 3.14159,
        "nan": None,
        "list": [0.333333, None],
        "n": 3,
        "s": "x",
    }


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "summary.json"
    replace_text(file, "first")
    replace_text(file, "second")
    assert [each.name for each in tmp_path.iterdir()] == ["summary.json"]
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(RunError, match=r"summary\.json: cannot be written \(Input/output error"):
        replace_text(file, "third")
    assert file.read_text() == "second"


def test_a_directory_that_is_not_there_is_told(tmp_path):
    with pytest.raises(RunError, match="cannot be written"):
        write_json(tmp_path / "no" / "a.json", {})


def test_a_directory_is_made_ready_and_left_as_it_was(tmp_path):
    make_ready(tmp_path / "a" / "b", "choose another")
    make_ready(tmp_path / "a" / "b", "choose another")
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("where", ["file", "file/below", "/proc", "/proc/new"])
def test_a_directory_that_cannot_be_written_is_told_with_what_to_do(tmp_path, where):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=rf"{where}: cannot be written \(.*\); choose another --out"):
        make_ready(tmp_path / where, "choose another --out")
