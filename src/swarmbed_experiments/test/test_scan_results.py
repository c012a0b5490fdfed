"""Results of parameter scans: the table says what was run, and pictures can be drawn again."""

import io

import pytest
from rich.console import Console
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.scan import scan
from swarmbed_experiments.runs.scan_results import redraw
from typer.testing import CliRunner

from swarmbed_experiments import cli

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("inline")
def test_the_table_says_what_was_run_in_80_columns(scanned):
    console = Console(file=io.StringIO(), width=80)
    metrics = ["goal_error", "accepted"]
    scan(
        scanned.name,
        scanned.grids,
        seeds=3,
        out=scanned.out,
        job=scanned.job,
        console=console,
        metrics=metrics,
    )
    said = console.file.getvalue()
    assert "6 cells with 3 seeds each: 18 runs" in said
    assert "random_walk, planar, 3 seeds a cell" in said
    assert "distance from the goal (m)" in " ".join(said.split())
    lines = said.splitlines()
    start = next(k for k, line in enumerate(lines) if "──" in line)
    assert all(len(line) <= 80 for line in lines[: start + 8])
    assert lines[start + 5].split() == ["0.4", "2", "2", "of", "3", "6", "(2", "runs)", "13"]
    assert "seed 2 failed: too fast" in said
    assert f"picture: {scanned.out / 'accepted.png'}" in said


@pytest.mark.usefixtures("inline")
def test_a_scan_is_drawn_again_with_another_metric(scanned):
    scan(scanned.name, scanned.grids, seeds=2, out=scanned.out, job=scanned.job)
    runner = CliRunner()
    drawn = runner.invoke(
        cli.app,
        ["plot", str(scanned.out), "--metric", "collisions", "--style", "paper", "--format", "pdf,svg"],
    )
    assert drawn.exit_code == 0, drawn.output
    assert {"collisions.pdf", "collisions.svg"} <= {file.name for file in scanned.out.iterdir()}
    with pytest.raises(
        ConfigError, match="no run has such a number; metrics are accepted, goal_error, hit, coll"
    ):
        redraw(scanned.out, ["nothing"])
    (scanned.out / "scan.json").write_text("{}")
    with pytest.raises(RunError, match="not a scan's result"):
        redraw(scanned.out)


def test_four_grids_have_a_table_and_no_picture(scanned, inline):
    grids = ["controller.speed=0.1", "robots.0.count=2", "time_limit=1", "noise=true"]
    console = Console(file=io.StringIO(), width=200)
    found = scan(scanned.name, grids, seeds=1, out=scanned.out, job=scanned.job, console=console)
    assert inline == [1]
    assert found.pictures == ()
    assert "cannot be drawn; scan.parquet has all cells" in console.file.getvalue()
