"""After a kill: what is on the disk becomes what a run leaves, and others can open it."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from swarmbed_core.config import check
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs import output
from swarmbed_experiments.runs.mending import is_whole, mend
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.track import Track


@pytest.fixture
def killed(scenario_data, tmp_path, monkeypatch, advance):
    """Return the directory of a run that was killed at 1.5 s, and the run."""
    monkeypatch.setattr(output, "KEPT", 0.0)
    monkeypatch.setattr(output, "COST", 1e9)
    data = {**scenario_data, "frame": {"acceptors": [{"name": "elapsed"}]}}
    run = Run(check(data, Scenario, "t.yaml"), "t.yaml")
    directory = tmp_path / "killed"
    directory.mkdir()
    run.begin(directory)
    run.setting.tell(0.3, "odd", "dots1", "is odd")
    assert not advance(run, 15)
    with (directory / "recording.mcap").open("rb") as stream:
        there = stream.read()
    # As a kill leaves it: locks are gone, and a part is half written.
    run.output.journal.close(remove=False)
    run.output.recorder._stream.close()
    (directory / "recording.mcap").write_bytes(there + there[200:400])
    with (directory / output.JOURNAL).open("ab") as stream:
        stream.write(b"swarmbed\x10")
    return directory, run


def messages(file):
    with AnyReader([file]) as reader:
        return [
            (connection.topic, time, bytes(raw))
            for connection, time, raw in reader.messages()
            if reader.deserialize(raw, connection.msgtype)
        ]


def test_a_killed_run_is_mended(killed):
    directory, run = killed
    assert not is_whole(directory / "recording.mcap")
    with pytest.raises(Exception):  # noqa: B017 - others cannot open it before
        messages(directory / "recording.mcap")
    lines = mend(directory)
    assert len(lines) == 5
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["verdict"], summary["scenario"], summary["seed"]) == ("killed", "t", 1)
    assert summary["sim_seconds"] == 1.5
    assert summary["last_row"]["distance_per_robot"] > 0
    track = Track.load(directory / "track.npz")
    assert (track.poses == run.track.poses.astype(np.float32)).all()
    assert track.times == pytest.approx(np.arange(1, 16) / 10)
    assert (track.robots, track.deeds, track.doing.shape) == (run.track.robots, ("drive",), (15, 2))
    assert [event.kind for event in track.events] == ["odd"]
    rows = pq.read_table(directory / "metrics.parquet")
    assert rows["time"].to_pylist() == pytest.approx([0.5, 1.0, 1.5])
    recorded = messages(directory / "recording.mcap")
    assert sum(topic == "/tf" for topic, *_ in recorded) == 15
    with (directory / "recording.mcap").open("rb") as stream:
        assert make_reader(stream, validate_crcs=True).get_summary().statistics.message_count == len(recorded)
    assert (directory / "tracks.png").exists()
    assert {file.name for file in directory.iterdir()} >= {"scenario.yaml", "files", "timeline.png"}
    assert not (directory / output.JOURNAL).exists()
    assert mend(directory) == []


def test_a_summary_that_is_there_stays(killed):
    directory, _ = killed
    (directory / "summary.json").write_text(json.dumps({"verdict": "accepted"}))
    mend(directory)
    assert json.loads((directory / "summary.json").read_text()) == {"verdict": "accepted"}


@pytest.mark.parametrize("length", [0, 5, 8, 60, 1000])
def test_a_recording_of_any_length_is_mended(killed, length):
    directory, _ = killed
    file = directory / "recording.mcap"
    file.write_bytes(file.read_bytes()[:length])
    mend(file)
    assert is_whole(file)
    with file.open("rb") as stream:
        assert make_reader(stream).get_summary() is not None


def test_what_somebody_writes_is_left_alone(scenario_data, tmp_path, advance):
    run = Run(check(scenario_data, Scenario, "t.yaml"), "t.yaml")
    run.begin(tmp_path)
    advance(run)
    for place in (tmp_path, tmp_path / "recording.mcap"):
        with pytest.raises(RunError, match="a process is still writing it"):
            mend(place)
    run.finish("interrupted", "by hand", 1.0)
    assert mend(tmp_path) == []


def test_what_is_no_run_is_told(tmp_path):
    with pytest.raises(RunError, match="neither a run's directory nor a recording"):
        mend(tmp_path)
    with pytest.raises(RunError, match="neither a run's directory nor a recording"):
        mend(tmp_path / "nowhere")
    (tmp_path / "x.mcap").write_text("something else")
    with pytest.raises(RunError, match=r"x\.mcap: not an MCAP file"):
        mend(tmp_path / "x.mcap")
