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
from swarmbed_experiments.identity import Inputs, our_inputs
from swarmbed_experiments.scan import Grid, scan
from swarmbed_experiments.scan_results import redraw
from swarmbed_experiments.workers import JobError
from typer.testing import CliRunner

from swarmbed_experiments import cli, sweep

pytestmark = pytest.mark.slow

SCENARIO = """
version: 1
title: to be scanned
world: planar
time_limit: 1
robots: [{count: 2, place: {zone: drop}}]
controller: {name: random_walk, speed: 0.1}
"""

# What workers import: tests themselves cannot be imported there.
JOBS = """
import json, os

def quick(task):
    scenario = json.loads(task.scenario)
    speed, count = scenario["controller"]["speed"], scenario["robots"][0]["count"]
    with open(os.environ["SCANNED"], "a") as file:
        file.write(f"{speed} {count} {task.seed} {os.getpid()}\\n")
    row = {"seed": task.seed, "verdict": "accepted", "goal_error": speed * 10 + task.seed, "robots": count,
           "collisions": task.seed, "hit": task.seed == 1}
    if speed > 0.35 and task.seed == 2:
        row = {"seed": task.seed, "verdict": "failed", "reason": "too fast"}
    return row
"""


@pytest.fixture
def case(tmp_path, monkeypatch):
    """A scenario's file, a job that stands for runs, and a note of what was run."""
    file = tmp_path / "scanned.yaml"
    file.write_text(SCENARIO)
    (tmp_path / "scan_jobs.py").write_text(JOBS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    # Somebody may edit the sources between two scans of a test.
    monkeypatch.setattr(sweep, "our_inputs", lambda: Inputs({}, {}))
    note = tmp_path / "note"
    monkeypatch.setenv("SCANNED", str(note))
    import scan_jobs

    class Case:
        name, out, job = str(file), tmp_path / "scan", staticmethod(scan_jobs.quick)

        @staticmethod
        def done():
            return [line.split() for line in note.read_text().splitlines()] if note.exists() else []

    return Case


@pytest.fixture
def inline(monkeypatch):
    """Do the jobs in this process; return in which lists they came."""
    lists = []

    def work(crew, job, tasks, **_):  # noqa: ARG001
        lists.append(len(tasks))
        for task in tasks:
            yield task, job(task)

    monkeypatch.setattr(sweep, "work", work)
    return lists


HUNDRED = ",".join(map(str, range(1, 101)))
GRIDS = ("controller.speed=0.1,0.2,0.4", "robots.0.count=2,3")


def test_every_combination_is_a_cell_with_all_seeds(case, inline):
    found = scan(case.name, GRIDS, seeds=3, out=case.out, job=case.job)
    assert len(found.results) == 6
    # One list of work over all cells.
    assert inline == [18]
    rows = pq.read_table(case.out / "scan.parquet").to_pylist()
    assert [(row["controller.speed"], row["robots.0.count"]) for row in rows] == [
        (0.1, 2), (0.1, 3), (0.2, 2), (0.2, 3), (0.4, 2), (0.4, 3),
    ]  # fmt: skip
    assert rows[0]["goal_error"] == pytest.approx(3.0)
    assert rows[0]["goal_error_low"] == pytest.approx(3.0 - 2.4841, abs=1e-3)
    assert (rows[0]["runs"], rows[0]["accepted"], rows[0]["goal_error_runs"]) == (3, 1.0, 3)
    assert (rows[4]["accepted"], rows[4]["goal_error_runs"]) == (pytest.approx(2 / 3), 2)
    assert rows[0]["hit"] == pytest.approx(1 / 3)
    runs = pq.read_table(case.out / "runs.parquet").to_pylist()
    assert len(runs) == 18
    assert runs[-1]["controller.speed"] == 0.4
    assert runs[-1]["seed"] == 3
    about = json.loads((case.out / "scan.json").read_text())
    assert about["grids"][0] == {"field": "controller.speed", "values": [0.1, 0.2, 0.4]}
    assert about["cells"][3]["values"] == [0.2, 3]
    assert about["cells"][3]["metrics"]["goal_error"]["mean"] == pytest.approx(4.0)
    # Each cell is a sweep.
    assert (case.out / about["cells"][3]["directory"] / "sweep.parquet").is_file()
    assert found.metrics == ("goal_error",)
    assert found.pictures == (case.out / "goal_error.png",)
    assert found.pictures[0].stat().st_size > 5000


@pytest.mark.usefixtures("inline")
def test_the_same_command_again_runs_nothing_and_more_values_only_what_is_new(case):
    first = scan(case.name, GRIDS, seeds=2, out=case.out, job=case.job)
    again = scan(case.name, GRIDS, seeds=2, out=case.out, job=case.job)
    assert len(case.done()) == 12
    assert [result.rows for result in again.results] == [result.rows for result in first.results]
    more = scan(case.name, ["controller.speed=0.2,0.3", GRIDS[1]], seeds=3, out=case.out, job=case.job)
    assert len(case.done()) == 12 + 2 * 1 + 2 * 3
    assert len(more.results) == 4


@pytest.mark.usefixtures("inline")
def test_without_out_the_directory_depends_on_the_fields_only(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = scan(case.name, ["controller.speed=0.1"], seeds=1, job=case.job)
    two = scan(case.name, ["controller.speed=0.2"], seeds=1, job=case.job)
    other = scan(case.name, ["robots.0.count=2"], seeds=1, job=case.job)
    assert one.directory.match("runs/scan-scanned-*")
    assert one.directory == two.directory != other.directory


@pytest.mark.usefixtures("inline")
def test_runs_of_earlier_programs_are_done_again(case, monkeypatch):
    scan(case.name, ["controller.speed=0.1"], seeds=1, out=case.out, job=case.job)
    monkeypatch.setattr(sweep, "our_inputs", lambda: Inputs({"program.py": "changed"}, {}))
    scan(case.name, ["controller.speed=0.1"], seeds=1, out=case.out, job=case.job)
    assert len(case.done()) == 2


@pytest.mark.parametrize("interrupt", [True, False])
def test_what_was_stopped_is_told_kept_and_continued(case, monkeypatch, interrupt):
    def work(crew, job, tasks, **_):  # noqa: ARG001
        for k, task in enumerate(tasks):
            if k == 4 and interrupt:
                raise KeyboardInterrupt
            yield task, JobError("died") if k == 4 else job(task)

    monkeypatch.setattr(sweep, "work", work)
    console = Console(file=io.StringIO(), width=100)
    settings = {"seeds": 3, "out": case.out, "job": case.job, "console": console}
    with pytest.raises(
        KeyboardInterrupt if interrupt else RunError,
        match=None if interrupt else r"1 runs were lost.*speed=0.1, robots.0.count=3, seed 2: died",
    ):
        scan(case.name, GRIDS, **settings)
    if interrupt:
        assert "4 of 18 runs are saved; the same command runs the other 14" in console.file.getvalue()
    assert len(pq.read_table(case.out / "runs.parquet")) == (4 if interrupt else 17)
    monkeypatch.undo()


def test_workers_take_runs_of_all_cells(case):
    found = scan(case.name, GRIDS, seeds=1, workers=2, out=case.out, job=case.job)
    assert [result.aggregates["runs"] for result in found.results] == [1] * 6
    assert len({worker for *_, worker in case.done()}) <= 2
    assert len(case.done()) == 6


def test_a_dask_cluster_takes_runs_of_all_cells(case, monkeypatch):
    distributed = pytest.importorskip("distributed")
    # The cluster compares programs.
    monkeypatch.setattr(sweep, "our_inputs", our_inputs)
    # More cells at a time than a Dask worker keeps processes for.
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=4, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        address = cluster.scheduler_address
        there = scan(case.name, GRIDS, seeds=1, dask=address, out=case.out, job=case.job)
    assert [result.aggregates["runs"] for result in there.results] == [1] * 6
    assert {(speed, count) for speed, count, *_ in case.done()} == {
        (speed, count) for speed in ("0.1", "0.2", "0.4") for count in ("2", "3")
    }


@pytest.mark.usefixtures("inline")
def test_the_table_says_what_was_run_in_80_columns(case):
    console = Console(file=io.StringIO(), width=80)
    metrics = ["goal_error", "accepted"]
    scan(case.name, GRIDS, seeds=3, out=case.out, job=case.job, console=console, metrics=metrics)
    said = console.file.getvalue()
    assert "6 cells with 3 seeds each: 18 runs" in said
    assert "random_walk, planar, 3 seeds a cell" in said
    assert "distance from the goal (m)" in " ".join(said.split())
    lines = said.splitlines()
    start = next(k for k, line in enumerate(lines) if "──" in line)
    assert all(len(line) <= 80 for line in lines[: start + 8])
    assert lines[start + 5].split() == ["0.4", "2", "2", "of", "3", "6", "(2", "runs)", "13"]
    assert "seed 2 failed: too fast" in said
    assert f"picture: {case.out / 'accepted.png'}" in said


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
        ({"grids": [f"robots.0.count={HUNDRED}", f"time_limit={HUNDRED},101"]}, r"10,100 cells; at most"),
        ({"grids": ["time_limit=1,2"], "metrics": ["spede"]}, r"--metric spede: runs have no such metric"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_before_anything_runs(case, monkeypatch, settings, message):
    monkeypatch.setattr(sweep, "work", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(ConfigError, match=message):
        scan(case.name, settings.pop("grids"), seeds=1, out=case.out, **settings)
    assert not case.out.exists()


def test_a_directory_of_something_else_is_left_alone(case, tmp_path):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RunError, match=r"is not a scan's: it contains .*; choose another --out"):
        scan(case.name, ["time_limit=1"], seeds=1, out=tmp_path, job=case.job)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("inline")
def test_a_scan_is_drawn_again_with_another_metric(case):
    scan(case.name, GRIDS, seeds=2, out=case.out, job=case.job)
    runner = CliRunner()
    drawn = runner.invoke(
        cli.app, ["plot", str(case.out), "--metric", "collisions", "--style", "paper", "--format", "pdf,svg"]
    )
    assert drawn.exit_code == 0, drawn.output
    assert {"collisions.pdf", "collisions.svg"} <= {file.name for file in case.out.iterdir()}
    with pytest.raises(
        ConfigError, match="no run has such a number; metrics are accepted, goal_error, hit, coll"
    ):
        redraw(case.out, ["nothing"])
    (case.out / "scan.json").write_text("{}")
    with pytest.raises(RunError, match="not a scan's result"):
        redraw(case.out)


def test_the_command_scans_real_runs(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["sweep", case.name, "--seeds", "1", "--workers", "1", "--grid", "controller.speed=0.1,0.3"]
    words += ["--metric", "distance_per_robot", "--out", "here"]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    rows = pq.read_table("here/scan.parquet").to_pylist()
    assert rows[1]["distance_per_robot"] > rows[0]["distance_per_robot"] > 0
    assert Path("here/distance_per_robot.png").exists()
    refused = CliRunner().invoke(cli.app, ["sweep", case.name, "--metric", "x"])
    assert refused.exit_code == 2
    assert "only with --grid" in refused.output


def test_four_grids_have_a_table_and_no_picture(case, inline):
    grids = ["controller.speed=0.1", "robots.0.count=2", "time_limit=1", "noise=true"]
    console = Console(file=io.StringIO(), width=200)
    found = scan(case.name, grids, seeds=1, out=case.out, job=case.job, console=console)
    assert inline == [1]
    assert found.pictures == ()
    assert "cannot be drawn; scan.parquet has all cells" in console.file.getvalue()
