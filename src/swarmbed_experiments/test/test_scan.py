"""Parameter scans: every combination is run, what is wrong is named before, and the tables say it all."""

import io
import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs import sweep
from swarmbed_experiments.runs.identity import Inputs, our_inputs
from swarmbed_experiments.runs.scan import Grid, scan
from swarmbed_experiments.runs.workers import JobError
from typer.testing import CliRunner

from swarmbed_experiments import cli

pytestmark = pytest.mark.slow

HUNDRED = ",".join(map(str, range(1, 101)))


def test_every_combination_is_a_cell_with_all_seeds(scanned, inline):
    found = scan(scanned.name, scanned.grids, seeds=3, out=scanned.out, job=scanned.job)
    assert len(found.results) == 6
    # One list of work over all cells.
    assert inline == [18]
    rows = pq.read_table(scanned.out / "scan.parquet").to_pylist()
    assert [(row["controller.speed"], row["robots.0.count"]) for row in rows] == [
        (0.1, 2), (0.1, 3), (0.2, 2), (0.2, 3), (0.4, 2), (0.4, 3),
    ]  # fmt: skip
    assert rows[0]["goal_error"] == pytest.approx(3.0)
    assert rows[0]["goal_error_low"] == pytest.approx(3.0 - 2.4841, abs=1e-3)
    assert (rows[0]["runs"], rows[0]["accepted"], rows[0]["goal_error_runs"]) == (3, 1.0, 3)
    assert (rows[4]["accepted"], rows[4]["goal_error_runs"]) == (pytest.approx(2 / 3), 2)
    assert rows[0]["hit"] == pytest.approx(1 / 3)
    runs = pq.read_table(scanned.out / "runs.parquet").to_pylist()
    assert len(runs) == 18
    assert runs[-1]["controller.speed"] == 0.4
    assert runs[-1]["seed"] == 3
    about = json.loads((scanned.out / "scan.json").read_text())
    assert about["grids"][0] == {"field": "controller.speed", "values": [0.1, 0.2, 0.4]}
    assert about["cells"][3]["values"] == [0.2, 3]
    assert about["cells"][3]["metrics"]["goal_error"]["mean"] == pytest.approx(4.0)
    # Each cell is a sweep.
    assert (scanned.out / about["cells"][3]["directory"] / "sweep.parquet").is_file()
    assert found.metrics == ("goal_error",)
    assert found.pictures == (scanned.out / "goal_error.png",)
    assert found.pictures[0].stat().st_size > 5000


@pytest.mark.usefixtures("inline")
def test_the_same_command_again_runs_nothing_and_more_values_only_what_is_new(scanned):
    first = scan(scanned.name, scanned.grids, seeds=2, out=scanned.out, job=scanned.job)
    again = scan(scanned.name, scanned.grids, seeds=2, out=scanned.out, job=scanned.job)
    assert len(scanned.done()) == 12
    assert [result.rows for result in again.results] == [result.rows for result in first.results]
    more = scan(
        scanned.name,
        ["controller.speed=0.2,0.3", scanned.grids[1]],
        seeds=3,
        out=scanned.out,
        job=scanned.job,
    )
    assert len(scanned.done()) == 12 + 2 * 1 + 2 * 3
    assert len(more.results) == 4


@pytest.mark.usefixtures("inline")
def test_without_out_the_directory_depends_on_the_fields_only(scanned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = scan(scanned.name, ["controller.speed=0.1"], seeds=1, job=scanned.job)
    two = scan(scanned.name, ["controller.speed=0.2"], seeds=1, job=scanned.job)
    other = scan(scanned.name, ["robots.0.count=2"], seeds=1, job=scanned.job)
    assert one.directory.match("runs/scan-scanned-*")
    assert one.directory == two.directory != other.directory


@pytest.mark.usefixtures("inline")
def test_runs_of_earlier_programs_are_done_again(scanned, monkeypatch):
    scan(scanned.name, ["controller.speed=0.1"], seeds=1, out=scanned.out, job=scanned.job)
    monkeypatch.setattr(sweep, "our_inputs", lambda: Inputs({"program.py": "changed"}, {}))
    scan(scanned.name, ["controller.speed=0.1"], seeds=1, out=scanned.out, job=scanned.job)
    assert len(scanned.done()) == 2


@pytest.mark.parametrize("interrupt", [True, False])
def test_what_was_stopped_is_told_kept_and_continued(scanned, monkeypatch, interrupt):
    def work(crew, job, tasks, **_):  # noqa: ARG001
        for k, task in enumerate(tasks):
            if k == 4 and interrupt:
                raise KeyboardInterrupt
            yield task, JobError("died") if k == 4 else job(task)

    monkeypatch.setattr(sweep, "work", work)
    console = Console(file=io.StringIO(), width=100)
    settings = {"seeds": 3, "out": scanned.out, "job": scanned.job, "console": console}
    with pytest.raises(
        KeyboardInterrupt if interrupt else RunError,
        match=None if interrupt else r"1 runs were lost.*speed=0.1, robots.0.count=3, seed 2: died",
    ):
        scan(scanned.name, scanned.grids, **settings)
    if interrupt:
        assert "4 of 18 runs are saved; the same command runs the other 14" in console.file.getvalue()
    assert len(pq.read_table(scanned.out / "runs.parquet")) == (4 if interrupt else 17)
    monkeypatch.undo()


def test_workers_take_runs_of_all_cells(scanned):
    found = scan(scanned.name, scanned.grids, seeds=1, workers=2, out=scanned.out, job=scanned.job)
    assert [result.aggregates["runs"] for result in found.results] == [1] * 6
    assert len({worker for *_, worker in scanned.done()}) <= 2
    assert len(scanned.done()) == 6


def test_a_dask_cluster_takes_runs_of_all_cells(scanned, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    # The cluster compares programs.
    monkeypatch.setattr(sweep, "our_inputs", our_inputs)
    # More cells at a time than a Dask worker keeps processes for.
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=4, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address
        there = scan(scanned.name, scanned.grids, seeds=1, dask=address, out=scanned.out, job=scanned.job)
    assert [result.aggregates["runs"] for result in there.results] == [1] * 6
    assert {(speed, count) for speed, count, *_ in scanned.done()} == {
        (speed, count) for speed in ("0.1", "0.2", "0.4") for count in ("2", "3")
    }


def test_commas_in_brackets_and_quotes_belong_to_the_value():
    grid = Grid.parse("controller.traffic=[swerve, on],[lanes],{a: [1,2], b: 'x,y'}, none,'a,b',it's,1e-1")
    assert grid.values == (
        ["swerve", True], ["lanes"], {"a": [1, 2], "b": "x,y"}, "none", "a,b", "it's", "1e-1",
    )  # fmt: skip
    assert Grid.parse("a=''").values == ("",)
    assert Grid.parse("a=1,1.0,true,'1'").values == (1, 1.0, True, "1")


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("speed", "write FIELD=VALUE,VALUE, such as controller.speed=0.2,0.4"),
        ("=1", "write FIELD=VALUE,VALUE"),
        ("a..b=1", "write FIELD=VALUE,VALUE"),
        ("a=", "there is no value"),
        ("a=1,,2", "value 2 is empty"),
        ("a=1,", "value 2 is empty"),
        ("a=[1,2", "a bracket is unbalanced"),
        ("a=1],2", "a bracket is unbalanced"),
        ("a='x,2", "a quote is unbalanced"),
        ("a=!!int x", "is not a YAML value"),
        (f"a={'[' * 50}{']' * 50}", "nested more than 40 deep"),
        ("a=1,2,1", "value 1 occurs twice"),
    ],
)
def test_a_grid_that_cannot_be_understood_is_refused(grid, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Grid.parse(grid)
    assert str(caught.value).startswith(f"--grid {grid}: ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"grids": ["controler.speed=1"]}, r"cell controler.speed=1: .*controler: unknown field"),
        ({"grids": ["robots.7.count=1,2"]}, r"cell robots.7.count=1: .*robots is a list"),
        ({"grids": ["robots.0.count=1,-2"]}, r"cell robots.0.count=-2: .*Input should be greater"),
        ({"grids": ["controller.speed=0.1,fast"]}, r"cell controller.speed=fast: .*speed"),
        ({"grids": ["controller.pace=0.1"]}, r"cell controller.pace=0.1: .*pace: unknown field"),
        ({"grids": ["arena=dots_arena,moon"]}, r"cell arena=moon: .*'moon' is not in worlds"),
        ({"grids": ["robots.0.count=2,4000"]}, r"cell robots.0.count=4000: .*do not fit"),
        ({"grids": ["seed=1,2"]}, r"--grid seed: .*use --seeds"),
        ({"grids": ["time_limit=1", "time_limit=2"]}, r"--grid time_limit: given twice"),
        ({"grids": ["time_limit=1"], "sets": ["time_limit=2"]}, r"--set sets the same field"),
        ({"grids": ["world=planar,mujoco"], "world": "planar"}, r"--world sets the same field"),
        ({"grids": ["time_limit=1,1.0"]}, r"cell time_limit=1.0: the same scenario as cell time_limit=1;"),
        ({"grids": [f"robots.0.count={HUNDRED}", f"time_limit={HUNDRED},101"]}, r"10,100 cells, at most"),
        ({"grids": ["time_limit=1,2"], "metrics": ["spede"]}, r"--metric spede: runs have no such metric"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_before_anything_runs(scanned, monkeypatch, settings, message):
    monkeypatch.setattr(sweep, "work", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(ConfigError, match=message):
        scan(scanned.name, settings.pop("grids"), seeds=1, out=scanned.out, **settings)
    assert not scanned.out.exists()


def test_a_directory_of_something_else_is_left_alone(scanned, tmp_path):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RunError, match=r"is not a scan's: it contains .*; choose another --out"):
        scan(scanned.name, ["time_limit=1"], seeds=1, out=tmp_path, job=scanned.job)
    assert sorted(tmp_path.iterdir()) == before


def test_the_command_scans_real_runs(scanned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["sweep", scanned.name, "--seeds", "1", "--workers", "1", "--grid", "controller.speed=0.1,0.3"]
    words += ["--metric", "distance_per_robot", "--out", "here"]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    rows = pq.read_table("here/scan.parquet").to_pylist()
    assert rows[1]["distance_per_robot"] > rows[0]["distance_per_robot"] > 0
    assert Path("here/distance_per_robot.png").exists()
    refused = CliRunner().invoke(cli.app, ["sweep", scanned.name, "--metric", "x"])
    assert refused.exit_code == 2
    assert "only with --grid" in refused.output
