"""Studies: their runs are sweeps that go on where they were, and their figures come out of them."""

import json
import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.cli import app
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs import sweep
from swarmbed_experiments.runs.results import row_of
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_experiments.runs.sweep import run_task
from swarmbed_experiments.studies import Study, convoy, epuck2, find_study, transport
from swarmbed_experiments.studies.cells import Cell, Found, work
from typer.testing import CliRunner

pytestmark = pytest.mark.slow

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


def test_a_convoy_that_loses_a_robot_stands():
    few = ("robots.0.count=6", "frame.acceptors=[{name: elapsed}]")
    death = '{"name": "robot_death", "count": 1, "after": 20}'
    (whole, _), (broken, _) = run_convoy(*few), run_convoy(*few, f"frame.generators=[{death}]")
    assert broken["metrics"]["convoy_rounds"] < 20
    assert broken["metrics"]["convoy_rounds"] < whole["metrics"]["convoy_rounds"] / 2
    assert broken["metrics"]["convoy_speed"] < whole["metrics"]["convoy_speed"] / 2


@pytest.mark.parametrize("way", convoy.WAYS)
def test_a_convoy_of_devs_models_does_what_the_crowds_program_does(way):
    """To the last bit, through messages that are lost."""
    pytest.importorskip("xdevs", reason="needs xdevs: scripts/setup --devs")
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
    pytest.importorskip("xdevs", reason="needs xdevs: scripts/setup --devs")
    few = ("robots.0.count=3", "frame.transducers=[{name: travel}]", "frame.acceptors=[{name: elapsed}]")
    fast, poses = run_convoy(*few, name="convoy_devs", seconds=6)
    paced, same = run_convoy(*few, name="convoy_devs", seconds=6, speed=5.0)
    assert paced["wall_seconds"] >= 1.15
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
    files = convoy.make(tmp_path, seeds=2, workers=None, console=QUIET)
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
    monkeypatch.setattr(sweep, "work", lambda _, __, tasks, **___: (pytest.fail("again") for _ in tasks))
    (second,) = work([Cell("few", "convoy", sets, 2)], QUIET, 1)
    assert first.rows == second.rows
    assert second.accepted == 1.0
    assert second.mean("convoy_error") == pytest.approx(float(second.values("convoy_error").mean()))
    assert len(second.series("convoy_errors")) == 2
    assert np.isnan(second.mean("nothing"))
    assert second.spread("nothing") == 0.0


def test_a_study_that_is_stopped_says_so_and_goes_on_at_its_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sets = ("robots.0.count=3", "frame.transducers.0.settling=1")
    plan = [Cell(name, "convoy", (*sets, f"time_limit={k}"), 2) for k, name in enumerate("abc", start=3)]
    lists = []

    def here(_, __, tasks, **___):
        lists.append(len(tasks))
        for k, task in enumerate(tasks):
            if len(lists) == 1 and k == 3:
                raise KeyboardInterrupt
            yield task, run_task(task)

    monkeypatch.setattr(sweep, "work", here)
    console = Console(record=True, width=200)
    with pytest.raises(KeyboardInterrupt):
        work(plan, console, 1)
    said = console.export_text()
    assert "1 of 3 cells are done" in said
    assert "3 of 6 runs are saved; the same command runs the other 3" in said
    again = Console(record=True, width=200)
    assert [item.cell.name for item in work(plan, again, 1)] == ["a", "b", "c"]
    # All cells are one list of work.
    assert lists == [6, 3]
    assert "3 of 6 runs are already done" in again.export_text()


def test_a_study_does_not_begin_whose_figures_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(convoy, "work", lambda *_: pytest.fail("it has begun"))
    for where, what in (("/proc", "choose another --out"), ("a/figures", "start it in another directory")):
        (tmp_path / "runs").touch()
        with pytest.raises(RunError, match=what):
            CliRunner().invoke(app, ["study", "convoy", "--out", where], catch_exceptions=False)


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
    files = epuck2.make(tmp_path, seeds=3, workers=2, console=QUIET)
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
            own = run.world.crowd().senses().readings
            assert (getattr(own, what) is not None) == (setting not in {"off", "none"})
            run.close()


def test_the_command_says_which_studies_there_are():
    shown = CliRunner().invoke(app, ["study", "--help"])
    assert shown.exit_code == 0
    assert "convoy" in shown.output
    with pytest.raises(ConfigError, match="no study 'nothing'"):
        CliRunner().invoke(app, ["study", "nothing"], catch_exceptions=False)
    for wrong in (
        ["convoy", "--seeds", "0"],
        ["convoy", "--workers", "x"],
        ["convoy", "more"],
    ):
        refused = CliRunner().invoke(app, ["study", *wrong])
        assert refused.exit_code == 2
        assert "Traceback" not in refused.output


def test_studies_are_found_by_name_and_by_module(monkeypatch):
    listed = CliRunner().invoke(app, ["study"])
    assert listed.exit_code == 0
    assert all(name in listed.output for name in ("convoy", "epuck2", "transport"))
    mine = Study("mine", 3, lambda *_, **__: [])
    monkeypatch.setitem(sys.modules, "a_study_of_a_test", SimpleNamespace(MINE=mine, WRONG=3))
    assert find_study("a_study_of_a_test:MINE") is mine
    with pytest.raises(ConfigError, match="no study 'convoi': there are convoy, epuck2, transport"):
        find_study("convoi")
    with pytest.raises(ConfigError, match="is a int; expected"):
        find_study("a_study_of_a_test:WRONG")


def run_transport(*sets, seed=1, seconds=150):
    few = ("robots.0.count=6", "controller.silence=20", "controller.again=5", f"time_limit={seconds}")
    scenario, source = load_scenario("transport", [*few, *sets], seed=seed)
    run = Run(scenario, source)
    try:
        return run.go(record=False), run.world.truth().copy()
    finally:
        run.close()


def test_transport_carries_and_repeats_itself():
    near = ("controller.destination=[-12.0, -21.5]",)
    done = ("frame.acceptors=[{name: elapsed}]", "controller.traffic=[swerve, driving]")
    (summary, poses), (again, same) = run_transport(*near, *done), run_transport(*near, *done)
    found = summary["metrics"]
    assert poses.tobytes() == same.tobytes()
    assert found == again["metrics"]
    assert found["items"] == sum(found["items_by_robot"]) > 5
    assert found["routes_found"] + found["routes_given"] == len(found["with_route_when"]) > 2
    assert found["talks"]
    assert all(when > 20 for when in found["talks"])
    other, _ = run_transport(*near, *done, seed=2)
    assert other["metrics"]["items_when"] != found["items_when"]


def fake_transport(cell):
    rng = np.random.default_rng(len(cell.name))
    route = [[-20.0, -20.0], [0.0, float(rng.uniform(-9, 9))], [21.0, 0.0]]
    lists = {
        "items_by_robot": rng.integers(0, 13, 15).tolist(),
        "items_when": np.sort(rng.uniform(900, 2400, 100)).tolist(),
        "with_route_when": [300.0, 900.0],
        "talks": [] if "none" in cell.name else [1000.0, 1300.0],
        "routes": [route, []],
        "slow_robots": [0.0, 2.0, 3.0],
        "jam_poses": [[0.0, 0.0, 1.0], [1.0, 2.0, 0.0]],
    }
    numbers = {
        "completion_seconds": 2400.0,
        "seconds_per_item": 200.0,
        "routes_found": 9,
        "routes_given": 5,
        "talk_seconds": 0.7,
        "jam_robots": 3.0,
        "jam_seconds": 1300.0,
        "collisions": 1,
    }
    row = {"verdict": "accepted", **numbers, **{name: json.dumps(value) for name, value in lists.items()}}
    return [{"seed": cell.first + k, **row} for k in range(cell.seeds)]


def test_the_figures_of_the_transport(tmp_path, monkeypatch):
    plans = []

    def fake(plan, *_):
        plans.extend(plan)
        return [Found(cell, fake_transport(cell)) for cell in plan]

    monkeypatch.setattr(transport, "work", fake)
    files = transport.make(tmp_path, seeds=2, workers=None, console=QUIET)
    figures = [f"figure{number}.png" for number in range(8, 14)]
    assert [file.name for file in files] == [*figures, "times.png", "results.json"]
    assert all(file.stat().st_size > 5000 for file in files[:-1])
    # The seeds that the program was written with are others than those that judge it.
    ways, rules = plans[:4], plans[4:]
    assert all(cell.first > 100 for cell in ways)
    assert all(cell.first == 1 and cell.seeds <= 4 for cell in rules)
    rows = {row["way"]: row for row in json.loads(files[-1].read_text())}
    assert rows["full"]["talks"] == 2.0
    assert rows["ours"]["minutes"] == pytest.approx(40.0)
    assert rows["full"]["paper"]["minutes"] == 70
