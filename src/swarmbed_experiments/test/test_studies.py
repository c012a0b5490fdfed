"""Studies: their runs are sweeps that go on where they were, and their figures come out of them."""

import json
import math

import numpy as np
import pytest
from rich.console import Console
from swarmbed_experiments.cli import app
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runner import Run
from swarmbed_experiments.scenarios import load_scenario
from swarmbed_experiments.studies import cells, convoy
from swarmbed_experiments.studies.cells import Cell, Found, work
from typer.testing import CliRunner

QUIET = Console(quiet=True)


def run_convoy(*sets, seed=1, seconds=240, name="convoy", speed=None):
    scenario, source = load_scenario(name, [f"time_limit={seconds}", *sets], seed=seed)
    run = Run(scenario, source)
    try:
        return run.go(record=False, speed=speed), run.world.truth().copy()
    finally:
        run.close()


def test_a_convoy_keeps_its_line_and_repeats_itself():
    few = ("robots.0.count=8", "frame.transducers.0.settling=80")
    (summary, poses), (_, again) = run_convoy(*few), run_convoy(*few)
    found = summary["metrics"]
    assert summary["verdict"] == "accepted"
    assert poses.tobytes() == again.tobytes()
    assert found["convoy_rounds"] > 20
    assert found["convoy_error"] < 0.2
    assert found["convoy_lost"] == found["collisions"] == 0
    other, _ = run_convoy(*few, seed=2)
    assert other["metrics"]["convoy_error"] != found["convoy_error"]


@pytest.mark.parametrize("seed", [1, 2])
def test_whole_robots_by_themselves_keep_their_line(seed):
    """With wheels, odometry and packets of their own, a program each."""
    summary, poses = run_convoy(
        "robots.0.count=5", "robots.0.crowd=false", "frame.transducers.0.settling=60", seed=seed
    )
    found = summary["metrics"]
    assert summary["verdict"] == "accepted"
    assert summary["refused"] == {}
    assert found["convoy_error"] < 0.15
    assert found["convoy_speed"] > 0.02
    assert found["messages_heard"] > 10_000
    assert found["collisions"] == 0
    gaps = np.hypot(*(poses[1:, :2] - poses[:-1, :2]).T)
    assert np.all((gaps > 0.25) & (gaps < 0.75))


def test_a_convoy_goes_on_though_messages_are_lost():
    summary, _ = run_convoy("robots.0.count=6", "radio.loss=0.5")
    assert summary["verdict"] == "accepted"
    assert summary["metrics"]["convoy_rounds"] > 10
    assert summary["metrics"]["messages_lost"] > 1000


def test_a_convoy_that_loses_a_robot_stands_and_is_rejected():
    death = '{"name": "robot_death", "count": 1, "after": 20}'
    summary, _ = run_convoy(
        "robots.0.count=6", f"frame.generators=[{death}]", "frame.acceptors=[{name: elapsed}]"
    )
    before = summary["metrics"]["convoy_rounds"]
    assert before < 20


@pytest.mark.parametrize("way", convoy.WAYS)
def test_a_convoy_of_devs_models_does_what_the_crowds_program_does(way):
    """To the last bit, through messages that are lost."""
    few, found = ("robots.0.count=7", "radio.loss=0.2"), []
    for form in (convoy.COMPILED, convoy.DEVS):
        summary, poses = run_convoy(*few, *form.sets(way), name=form.scenario, seconds=120)
        metrics = {
            key: value
            for key, value in summary["metrics"].items()
            if not (isinstance(value, float) and math.isnan(value))
        }
        found.append((poses.tobytes(), metrics))
    assert found[0] == found[1]
    assert found[0][1]["convoy_rounds"] > 8


def test_devs_models_do_in_real_time_what_they_do_in_simulated_time():
    few = ("robots.0.count=3", "frame.transducers=[{name: travel}]", "frame.acceptors=[{name: elapsed}]")
    fast, poses = run_convoy(*few, name="convoy_devs", seconds=6)
    paced, same = run_convoy(*few, name="convoy_devs", seconds=6, speed=5.0)
    assert paced["wall_seconds"] >= 1.15
    assert fast["wall_seconds"] < paced["wall_seconds"]
    assert poses.tobytes() == same.tobytes()
    assert fast["metrics"]["distance_per_robot"] > 0.05


def fake_rows(cell):
    rng = np.random.default_rng(len(cell.name))
    rows = []
    for seed in range(cell.seeds):
        error = float(rng.uniform(0.1, 0.2))
        verdict = "accepted" if seed else "rejected"
        rows.append(
            {
                "seed": seed,
                "verdict": verdict,
                "convoy_error": error,
                "convoy_errors": json.dumps([0.0, error]),
            }
        )
    return rows


def test_the_figures_of_the_convoy(tmp_path, monkeypatch):
    monkeypatch.setattr(convoy, "work", lambda plan, *_: [Found(cell, fake_rows(cell)) for cell in plan])
    files = convoy.study(tmp_path, seeds=2, workers=None, console=QUIET)
    assert [file.name for file in files] == ["figure9.png", "figure10.png", "figure11.png", "results.json"]
    assert all(file.stat().st_size > 5000 for file in files[:3])
    rows = json.loads(files[3].read_text())
    assert {(row["way"], row["robots"]) for row in rows} >= {("study", 10), ("ours", 1000)}
    assert all(row["held"] == 0.5 for row in rows)


def test_every_cell_is_a_scenario_that_can_be_run():
    for way in convoy.WAYS:
        for count in (10, 1000):
            cell = convoy.cell(way, count, 1, 10)
            scenario, source = load_scenario(cell.scenario, cell.sets)
            assert scenario.robots[0].number == count
            run = Run(scenario, source)
            run.tick()
            run.close()
    assert convoy.cell("ours", 1000, 1, 10).seeds == 3


def test_a_study_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = ("robots.0.count=3", "time_limit=5", "frame.transducers.0.settling=1")
    (first,) = work([Cell("few", "convoy", sets, 2)], QUIET, 1)
    told = []
    real = cells.sweep
    monkeypatch.setattr(cells, "sweep", lambda *a, **k: told.append(k) or real(*a, **k))
    (second,) = work([Cell("few", "convoy", sets, 2)], QUIET, 1)
    assert first.rows == second.rows
    assert told[0]["table"] is False
    assert second.accepted == 1.0
    assert second.mean("convoy_error") == pytest.approx(float(second.values("convoy_error").mean()))
    assert len(second.series("convoy_errors")) == 2
    assert np.isnan(second.mean("nothing"))
    assert second.spread("nothing") == 0.0


def test_a_study_that_is_stopped_says_so_and_goes_on_at_its_cell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = ("robots.0.count=3", "frame.transducers.0.settling=1")
    plan = [Cell(name, "convoy", (*sets, f"time_limit={k}"), 1) for k, name in enumerate("abc", start=3)]
    real = cells.sweep

    def stopped(*given, **named):
        if "time_limit=4" in named["sets"]:
            raise KeyboardInterrupt
        return real(*given, **named)

    monkeypatch.setattr(cells, "sweep", stopped)
    console = Console(record=True, width=200)
    with pytest.raises(KeyboardInterrupt):
        work(plan, console, 1)
    assert "stopped with 1 of 3 cells done; the same command goes on from there" in console.export_text()
    monkeypatch.setattr(cells, "sweep", real)
    again = Console(record=True, width=200)
    assert [item.cell.name for item in work(plan, again, 1)] == ["a", "b", "c"]
    assert again.export_text().count("1 of 1 runs are done already") == 1


def test_a_study_does_not_begin_whose_figures_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(convoy, "work", lambda *_: pytest.fail("it has begun"))
    for where, what in (("/proc", "choose another --out"), ("a/figures", "start it in another directory")):
        (tmp_path / "runs").touch()
        with pytest.raises(RunError, match=what):
            CliRunner().invoke(app, ["study", "convoy", "--out", where], catch_exceptions=False)


def test_the_command_says_which_studies_there_are():
    shown = CliRunner().invoke(app, ["study", "--help"])
    assert shown.exit_code == 0
    assert "convoy" in shown.output
    for wrong in (
        ["nothing"],
        [],
        ["convoy", "--seeds", "0"],
        ["convoy", "--workers", "x"],
        ["convoy", "more"],
    ):
        refused = CliRunner().invoke(app, ["study", *wrong])
        assert refused.exit_code == 2
        assert "Traceback" not in refused.output
