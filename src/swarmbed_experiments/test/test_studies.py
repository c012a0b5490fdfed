"""Studies: their runs are sweeps that go on where they were, and their figures come out of them."""

import json

import numpy as np
import pytest
from rich.console import Console
from swarmbed_experiments.cli import app
from swarmbed_experiments.runner import Run
from swarmbed_experiments.scenarios import load_scenario
from swarmbed_experiments.studies import cells, convoy, epuck2
from swarmbed_experiments.studies.cells import Cell, Found, work
from swarmbed_experiments.sweep import row_of
from typer.testing import CliRunner

QUIET = Console(quiet=True)


def run_convoy(*sets, seed=1, seconds=240):
    scenario, source = load_scenario("convoy", [f"time_limit={seconds}", *sets], seed=seed)
    run = Run(scenario, source)
    try:
        return run.go(record=False), run.world.truth().copy()
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


def test_the_figures_of_the_epuck2(tmp_path, monkeypatch):
    """The experiments are real runs, but for shorter batteries; times are made up."""
    monkeypatch.chdir(tmp_path)
    experiments = epuck2.experiments()
    short = {
        name: Cell(cell.name, cell.scenario, (*cell.sets, "time_limit=1200"), 1)
        if name.startswith("battery")
        else cell
        for name, cell in experiments.items()
    }
    monkeypatch.setattr(epuck2, "experiments", lambda: short)
    asked = []

    def fake(plan, console, workers):  # noqa: ARG001 - no progress here
        if plan[0].scenario != "epuck2_timing":
            return [Found(cell, [run_once(cell)]) for cell in plan]
        asked.append((workers, {cell.seeds for cell in plan}))
        rng = np.random.default_rng(1)
        return [Found(cell, [{"cpu_seconds": float(rng.uniform(1, 2))} for _ in range(3)]) for cell in plan]

    monkeypatch.setattr(epuck2, "work", fake)
    files = epuck2.study(tmp_path, seeds=3, workers=2, console=QUIET)
    assert asked == [(1, {3})], "times are measured one run at a time"
    assert len(files) == 9
    assert all(file.stat().st_size > 5000 for file in files)
    found = json.loads(files[-1].read_text())
    assert found["proximity"]["most_off_equation_1"] <= 1
    assert found["light"]["most_off_equation_2"] <= 1
    assert found["tof"]["most_off_the_true_distance_mm"] <= 0.51
    assert found["encoders"]["most_off_the_true_way_steps"] <= 1
    assert found["ground"]["share_of_time_the_three_differ_crossing"] == 0
    assert found["ground"]["share_of_time_the_three_differ_turning"] > 0.2
    angles = found["camera"]["aperture_degrees"]
    assert angles["263 mm"] == pytest.approx(30, abs=0.5)
    assert angles["1010 mm"] == 0
    assert set(found["battery"]) == set(epuck2.TABLE5)
    assert len(found["times"]) == 5 * (6 * 2 + 5)


def run_once(cell):
    scenario, source = load_scenario(cell.scenario, cell.sets, seed=1)
    run = Run(scenario, source)
    try:
        return row_of(run.go(record=False))
    finally:
        run.close()


def test_every_execution_time_is_of_a_scenario_that_can_be_run():
    for (what, setting, count), cell in epuck2.timings(30).items():
        if count in {1, 50}:
            scenario, source = load_scenario(cell.scenario, cell.sets)
            assert scenario.robots[0].number == count
            run = Run(scenario, source)
            run.tick()
            own = run.world.crowd().senses().epuck2
            assert (getattr(own, what) is not None) == (setting not in {"off", "none"})
            run.close()


def test_the_command_says_which_studies_there_are():
    shown = CliRunner().invoke(app, ["study", "--help"])
    assert shown.exit_code == 0
    assert "convoy" in shown.output
    assert "epuck2" in shown.output
    assert CliRunner().invoke(app, ["study", "nothing"]).exit_code == 2
