"""What a person sees of a run."""

import io
import math

import numpy as np
from rich.console import Console
from swarmbed_core.config import check
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.report import RunProgress, result_table, scenario_table, show_files
from swarmbed_experiments.runs.run import Run


def shown(what):
    console = Console(file=io.StringIO(), width=120)
    console.print(what)
    return console.file.getvalue()


def summary(**metrics):
    return {
        "scenario": "s",
        "world": "mujoco",
        "seed": 3,
        "verdict": "accepted",
        "reason": "all [of] them",
        "sim_seconds": 61.2,
        "wall_seconds": 2.0,
        "real_time_factor": 30.6,
        "metrics": metrics,
    }


def test_the_table_says_how_it_went():
    metrics = {"carriers_retrieved": 4, "carriers": 5, "completion_seconds": None, "energy_wh": math.nan}
    text = shown(result_table(summary(**metrics, max_approach_speed=0.0765, messages=1234)))
    for part in (
        "s in mujoco, seed 3: accepted",
        "all [of] them",
        "4 of 5",
        "31 x real time",
        "0.0765 m/s",
        "1,234",
    ):
        assert part in text
    assert "done after" not in text
    assert "Wh" not in text


def test_metrics_of_a_users_own_are_in_the_table_with_their_units():
    own = {
        "clusters": 3,
        "nearest": np.float64(0.12345),
        "steady": True,
        "winner": "dots [1] " * 20,
        "by_kind": {f"k{k}": k for k in range(8)},
        "course": list(range(50)),
        "pair": [1, 2],
        "unknown": None,
        "huge": 10**400,
        "wait_seconds": 12.5,
    }
    # Details of ours are in summary.json only.
    text = shown(result_table(summary(**own, max_speed=1.0), {"nearest": "m", "by_kind": "W"}))
    lines = {" ".join(line.replace("│", " ").split()) for line in text.splitlines()}
    assert {"clusters 3", "nearest 0.123 m", "steady yes", "wait_seconds 12.5 s", "pair [1, 2]"} <= lines
    assert "by_kind k0 0 W, k1 1 W, k2 2 W, k3 3 W, k4 4 W, k5 5 W, and 2 more" in lines
    assert "course 50 items, in summary.json" in lines
    assert "huge a number with hundreds of digits" in lines
    assert any(line.startswith("winner dots [1] dots [1]") and line.endswith("…") for line in lines)
    assert "unknown" not in text
    assert "fastest robot" not in text


def test_no_carriers_no_line():
    assert "retrieved" not in shown(result_table(summary(carriers_retrieved=0, carriers=0)))


def test_files_are_named_if_they_are_there(tmp_path):
    (tmp_path / "tracks.png").touch()
    (tmp_path / "tracks.pdf").touch()
    console = Console(file=io.StringIO(), width=20)
    show_files(console, tmp_path)
    assert console.file.getvalue() == "".join(
        f"picture: {tmp_path / f'tracks.{kind}'}\n" for kind in ("png", "pdf")
    )


def test_scenarios_are_listed():
    text = shown(scenario_table())
    for name in (
        "intralogistics_cooperative",
        "collective_transport",
        "random_walk_1000",
        "fault_wheel_slip",
    ):
        assert name in text


def test_progress_does_not_get_in_the_way(scenario_data):
    run = Run(check(scenario_data, Scenario, "t"))
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with RunProgress(console, 2.0) as progress:
        run.audience.add_inline(progress)
        run.go()
        progress._progress.refresh()
    assert "2 of 2 s" in console.file.getvalue()


def test_what_robots_refused_is_told():
    text = shown(result_table({**summary(), "refused": {"command.type": 1200}}))
    assert "command.type, 1,200 times" in text


def test_progress_fits_into_80_columns():
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    progress = RunProgress(console, 600.0)
    progress._progress.update(progress._task, completed=128.0, description="4 of 20 carriers " * 4)
    line = shown_by(console, progress._progress.get_renderable())
    assert line.startswith("4 of 20")
    assert "128 of 600 s 0:00:0" in line
    assert line.rstrip().endswith("more")


def shown_by(console, what):
    console.print(what)
    (line,) = console.file.getvalue().splitlines()
    return line
