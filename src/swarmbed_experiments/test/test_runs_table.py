"""The list of runs: what is known of each, filters, order, and runs of which little is left."""

import csv
import datetime as dt
import io
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.journal import Journal
from swarmbed_experiments.tools import runs_table as tables

SUMMARY = {
    "scenario": "walk", "world": "planar", "controller": "random_walk", "robots": 5, "seed": 7,
    "verdict": "accepted", "sim_seconds": 60.0,
    "metrics": {"collisions": 4, "energy_wh": 1.5, "distances": {"dots1": 3.5}, "goal": "left", "none": None},
}  # fmt: skip


@pytest.fixture
def put(tmp_path):
    """Return what makes the directory of a run."""

    def put(name, *, below="runs", **changes):
        directory = tmp_path / below / name
        directory.mkdir(parents=True)
        data = {**SUMMARY, **changes}
        data["metrics"] = {**SUMMARY["metrics"], **changes.get("metrics", {})}
        (directory / "summary.json").write_text(json.dumps(data))
        return directory

    return put


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


def names(entries):
    return [entry.run for entry in entries]


def test_runs_are_found_anywhere_below_and_nothing_else_is(put, runs):
    put("walk-20260101-120000-7")
    put("study/cell/walk-20260102-120000-7")
    inner = put("walk-20260103-120000-7") / "walk-20260104-120000-7"
    inner.mkdir()
    put(".hidden/walk-20260105-120000-7")
    (runs / "sweep-walk-0a1b2c3d").mkdir()
    (runs / "sweep-walk-0a1b2c3d" / "sweep.json").write_text("{}")
    (runs / "sweep-walk-0a1b2c3d" / "scenario.yaml").write_text("{}")
    (runs / "recording.mcap").touch()
    (runs / "loop").symlink_to(runs, target_is_directory=True)
    found = tables.find_runs(runs)
    assert names(found) == [
        "walk-20260101-120000-7",
        "study/cell/walk-20260102-120000-7",
        "walk-20260103-120000-7",
    ]
    assert names(tables.find_runs(runs / "walk-20260101-120000-7")) == ["walk-20260101-120000-7"]
    with pytest.raises(RunError, match="nowhere: no such directory"):
        tables.find_runs(runs / "nowhere")


def test_an_entry_has_what_the_files_say(put):
    directory = put("walk-20260101-120000-7", robots=3)
    (directory / "track.npz").write_bytes(bytes(1000))
    entry = tables.read_entry(directory, "x")
    assert (entry.scenario, entry.world, entry.controller, entry.robots, entry.seed) == (
        "walk", "planar", "random_walk", 3, 7
    )  # fmt: skip
    assert (entry.verdict, entry.sim_seconds, entry.problem) == ("accepted", 60.0, "")
    assert entry.date == dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    assert entry.size == 1000 + (directory / "summary.json").stat().st_size
    assert entry.value("distances.dots1") == 3.5
    assert entry.value("metrics.collisions") == entry.value("collisions") == 4
    assert entry.value("nothing") is None


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"verdict": "accepted"}', '"' * 99, "[" * 100_000, "null", "\0"]
)
def test_a_broken_summary_is_no_end(put, runs, broken):
    (put("walk-20260101-120000-7") / "summary.json").write_text(broken)
    (put("walk-20260102-120000-7") / "manifest.json").write_text(broken)
    broken_one, whole = tables.find_runs(runs)
    assert (broken_one.verdict, broken_one.scenario, broken_one.seed) == ("unreadable", "walk", 7)
    assert "summary.json" in broken_one.problem
    assert whole.verdict == "accepted"
    for width in (40, 80, 200):
        text(tables.table([broken_one, whole], width), width)


def test_runs_without_a_summary_have_a_state_and_a_remedy(runs):
    for name in ("a-20260101-120000-1", "b-20260101-120001-2", "c-20260101-120002-3"):
        (runs / name).mkdir(parents=True)
    killed = Journal(runs / "b-20260101-120001-2" / "unfinished.journal", {})
    killed.close(remove=False)
    running = Journal(runs / "c-20260101-120002-3" / "unfinished.journal", {})
    empty, killed, alive = tables.find_runs(runs)
    assert (empty.verdict, killed.verdict, alive.verdict) == ("unfinished", "unfinished", "running")
    assert "delete it" in empty.problem
    assert f"swarmbed mend {runs / 'b-20260101-120001-2'}" in killed.problem
    assert "still writing" in alive.problem
    assert (killed.scenario, killed.seed) == ("b", 2)
    running.close(remove=True)


def test_files_that_vanish_or_may_not_be_read_are_no_end(put, runs, monkeypatch):
    put("walk-20260101-120000-7")
    stat = os.lstat

    def gone(path, *more, **options):
        if str(path).endswith("summary.json"):
            raise FileNotFoundError(path)
        return stat(path, *more, **options)

    monkeypatch.setattr(os, "lstat", gone)
    [entry] = tables.find_runs(runs)
    assert entry.size == 0


@pytest.fixture
def several(put, runs):
    put("walk-20260101-120000-1", seed=1, metrics={"collisions": 0})
    put("walk-20260102-120000-2", seed=2, verdict="rejected", metrics={"collisions": 7, "goal": "right"})
    put("fetch-20260103-120000-3", scenario="fetch", seed=3, world="mujoco", metrics={"energy_wh": None})
    return tables.find_runs(runs)


@pytest.mark.parametrize(
    ("filters", "seeds"),
    [
        ({}, [1, 2, 3]),
        ({"scenario": "walk"}, [1, 2]),
        ({"scenario": "?etch"}, [3]),
        ({"world": "m*"}, [3]),
        ({"controller": "nobody"}, []),
        ({"verdicts": ["rejected", "failed"]}, [2]),
        ({"seed": 3}, [3]),
        ({"after": dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)}, [2, 3]),
        ({"where": ["collisions>3"]}, [2, 3]),
        ({"where": ["collisions >= 4", "collisions<5"]}, [3]),
        ({"where": ["collisions=0"]}, [1]),
        ({"where": ["collisions != 0"]}, [2, 3]),
        ({"where": ["energy_wh<9e99"]}, [1, 2]),
        ({"where": ["goal=r*"]}, [2]),
        ({"where": ["goal!=right"]}, [1, 3]),
        ({"where": ["goal>1"]}, []),
        ({"where": ["distances.dots1<=3.5", "seed<3"]}, [1, 2]),
        ({"where": ["size>0"]}, [1, 2, 3]),
    ],
)
def test_filters(several, filters, seeds):
    assert [entry.seed for entry in tables.select(several, **filters)] == seeds


@pytest.mark.parametrize("text", ["", "collisions", "collisions>", ">3", "a b>3", "goal>left", "nothing>1"])
def test_a_condition_that_is_none_is_told(several, text):
    with pytest.raises(RunError, match="--where"):
        tables.select(several, where=[text])


def test_order(several):
    def seeds(*how, **options):
        return [entry.seed for entry in tables.in_order(several, *how, **options)]

    assert seeds("collisions") == [1, 3, 2]
    assert seeds("date", reverse=True) == [3, 2, 1]
    assert seeds("scenario") == [3, 1, 2]
    # Those without a value come last in any case.
    assert seeds("energy_wh", reverse=True)[-1] == seeds("energy_wh")[-1] == 3
    with pytest.raises(RunError, match="no run has a field or metric 'beauty': there are run, scenario"):
        seeds("beauty")


NOW = dt.datetime(2026, 1, 31, 12, 30, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("90s", (2026, 1, 31, 12, 28, 30)),
        ("30min", (2026, 1, 31, 12, 0)),
        ("2h", (2026, 1, 31, 10, 30)),
        ("1.5d", (2026, 1, 30, 0, 30)),
        ("1w", (2026, 1, 24, 12, 30)),
        ("99999999999w", (1, 1, 1)),
        ("today", (2026, 1, 31)),
        ("2026-01-30", (2026, 1, 30)),
        ("2026-01-30T06:00", (2026, 1, 30, 6)),
        ("2026-01-30T06:00+02:00", (2026, 1, 30, 4)),
    ],
)
def test_since(said, moment):
    assert tables.since(said, NOW) == dt.datetime(*moment, tzinfo=dt.UTC)


@pytest.mark.parametrize("said", ["", "yesterday", "2", "-1h", "2026-13-01"])
def test_a_moment_that_is_none_is_told(said):
    with pytest.raises(RunError, match="--since"):
        tables.since(said, NOW)


def text(table, width):
    console = Console(width=width, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


def test_the_table_fits_80_columns_and_shows_what_matters(put, runs):
    name, most = "intralogistics_cooperative", {"completion_seconds": 142.34, "carriers_retrieved": 3}
    put(f"{name}-20260101-120000-7", scenario=name, controller="cooperative", metrics=most)
    put("a" * 200 + "-20260101-120000-7")
    (runs / "killed-20260101-120000-7").mkdir()
    shown = text(tables.table(tables.find_runs(runs), 80), 80)
    assert max(map(len, shown.splitlines())) <= 80
    for piece in (
        "20260101-120000-7",
        "cooperative",
        "accepted",
        "60 s",
        "done after",
        "142 s",
        "unfinished",
    ):
        assert piece in shown
    wide = text(tables.table(tables.find_runs(runs), 300), 300)
    assert "intralogistics_cooperative-20260101-120000-7" in wide
    assert "done after: 142 s" in wide
    assert "2026-01-01 12:00" in wide
    other = text(tables.table(tables.find_runs(runs), 300, "goal"), 300)
    assert "goal: left" in other


@settings(derandomize=True, deadline=None, max_examples=30)
@given(width=st.integers(60, 129), length=st.integers(1, 120))
def test_no_width_breaks_the_table(width, length):
    entry = tables.Entry("n" * length + "-20260101-120000-7", tables.Path(), controller="c" * length)
    assert max(map(len, text(tables.table([entry], width), width).splitlines())) <= width


def test_json_and_csv_hold_everything(several):
    data = json.loads(tables.as_json(several))
    assert [each["seed"] for each in data] == [1, 2, 3]
    assert data[0]["metrics"]["distances"] == {"dots1": 3.5}
    assert data[0]["date"] == "2026-01-01T12:00:00+00:00"
    assert (data[1]["metric"], data[1]["value"]) == ("collisions", 7) or data[1]["metric"] == "goal"
    rows = list(csv.DictReader(io.StringIO(tables.as_csv(several))))
    assert [row["metrics.collisions"] for row in rows] == ["0", "7", "4"]
    assert rows[2]["metrics.energy_wh"] == ""
    assert "metrics.distances" not in rows[0]


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.2 kB"),
        (123456, "123 kB"),
        (2e12, "2 TB"),
        (3e16, "30000 TB"),
    ],
)
def test_sizes(size, shown):
    assert tables.size_text(size) == shown


def test_runs_are_named_by_a_part_of_their_name(put, runs):
    one = put("walk-20260101-120000-7")
    two = put("walk-20260101-120500-7")
    assert tables.named_run("120000", runs) == one
    assert tables.named_run(str(two), runs) == two
    three = put("walk-20260101-120500-7.2")
    assert tables.named_run("walk-20260101-120500-7", runs) == two
    assert tables.named_run("7.2", runs) == three
    with pytest.raises(RunError, match=r"12: 3 runs below .* such as walk-20260101-120000-7; add more of it"):
        tables.named_run("12", runs)
    with pytest.raises(RunError, match=r"no run below .* has this in its name"):
        tables.named_run("fly", runs)
    with pytest.raises(RunError, match="not the directory of a run"):
        tables.named_run(str(runs), runs)
