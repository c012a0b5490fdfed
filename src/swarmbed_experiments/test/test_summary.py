"""The summary's file: old and new ones are read, others are named with their fault."""

import json

import pytest
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.summary import Summary

OLD = {
    "scenario": "s", "world": "planar", "controller": "c", "seed": 3, "verdict": "accepted",
    "sim_seconds": 2.0,
    "metrics": {"collisions": 1},
}  # fmt: skip


def test_a_file_has_only_what_there_is_to_say():
    summary = Summary(**OLD)
    assert summary.as_data().keys() >= OLD.keys()
    assert not {"faults", "last_row"} & summary.as_data().keys()
    assert list(Summary(**OLD, faults=["lost"]).as_data())[-2:] == ["faults", "metrics"]
    assert Summary(**OLD, last_row={"time": 1.0}).as_data()["last_row"] == {"time": 1.0}


def test_what_is_written_is_read(tmp_path):
    summary = Summary(**OLD, title="t", robots=3, refused={"command.type": 2}, faults=("lost",))
    (tmp_path / "summary.json").write_text(json.dumps(summary.as_data()))
    assert Summary.load(tmp_path).as_data() == {**summary.as_data(), "faults": ["lost"]}


def test_files_of_other_versions_are_read():
    assert Summary.of({**OLD, "added_later": [1, 2]}, "x").as_data() == Summary(**OLD).as_data()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"verdict": "fine"}, "verdict: Input should be 'accepted', 'rejected', 'failed'"),
        ({"metrics": 3}, "metrics: "),
        ({"sim_seconds": None}, "sim_seconds: "),
    ],
)
def test_what_is_none_is_told(tmp_path, change, told):
    (tmp_path / "summary.json").write_text(json.dumps({**OLD, **change}))
    with pytest.raises(RunError, match=f"summary.json: not a run's summary .{told}"):
        Summary.load(tmp_path)
