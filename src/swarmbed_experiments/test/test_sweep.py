"""Sweeps: nothing is lost, nothing is done twice, and the sums are right."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs import sweep as sweeps
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.identity import Inputs
from swarmbed_experiments.runs.sweep import (
    Task,
    run_task,
    sweep,
)

pytestmark = pytest.mark.slow

SCENARIO = """
version: 1
title: to be swept
world: planar
time_limit: 5
robots: [{count: 5, place: {zone: drop}}]
carriers: [{count: 5, place: {zone: search}}]
controller: {name: nobody}
frame: {acceptors: [{name: retrieved}]}
"""

JOBS = """
import os, time
from pathlib import Path

def note(task):
    with open(os.environ["JOB_NOTE"], "a") as file:
        file.write(f"{task.seed} {os.getpid()} {os.environ['NUMBA_NUM_THREADS']}\\n")

def quick(task):
    note(task)
    verdict = "rejected" if task.seed % 5 == 0 else "accepted"
    done = None if verdict == "rejected" else 100.0 + task.seed
    return {"seed": task.seed, "verdict": verdict, "reason": "because", "completion_seconds": done,
            "sim_seconds": 120.0, "collisions": task.seed % 2, "distances.dots1": 1.5}

def slow(task):
    if task.seed > 3:
        time.sleep(60)
    return quick(task)

def deadly(task):
    if task.seed == 3:
        os._exit(3)
    return quick(task)
"""


@pytest.fixture
def case(jobs_case):
    """Return a scenario to sweep, with jobs in place of runs."""
    return jobs_case("swept", SCENARIO, JOBS)


@pytest.mark.usefixtures("inline")
def test_one_row_a_run_in_order_of_the_seeds(case):
    result = sweep(case.name, seeds=6, first_seed=3, workers=2, out=case.out, job=case.jobs.quick)
    assert [row["seed"] for row in result.rows] == [3, 4, 5, 6, 7, 8]
    assert sorted(int(seed) for seed, *_ in case.done()) == [3, 4, 5, 6, 7, 8]
    table = pq.read_table(result.directory / "sweep.parquet").to_pylist()
    assert [row["completion_seconds"] for row in table] == [103.0, 104.0, None, 106.0, 107.0, 108.0]
    assert [row["verdict"] for row in table].count("rejected") == 1
    assert {file.name for file in result.directory.iterdir()} == {
        "identity.json", "parts", "scenario.yaml", "sweep.json", "sweep.parquet", "sweep.png",
    }  # fmt: skip
    found = json.loads((result.directory / "sweep.json").read_text())
    assert (found["scenario"], found["runs"], found["wanted"], found["first_seed"]) == ("swept", 6, 6, 3)
    assert found["verdicts"] == {"accepted": 5, "rejected": 1}
    assert found["accepted"]["share"] == pytest.approx(5 / 6, abs=1e-6)
    assert found["metrics"]["completion_seconds"]["mean"] == pytest.approx(105.6)
    assert found["not_accepted"] == [{"seed": 5, "verdict": "rejected", "reason": "because"}]


def test_workers_have_one_thread_each_and_are_used_again(case):
    threads = os.environ.get("NUMBA_NUM_THREADS")
    sweep(case.name, seeds=8, workers=2, out=case.out, job=case.jobs.quick)
    done = case.done()
    assert len({worker for _, worker, _ in done}) <= 2
    assert {count for *_, count in done} == {"1"}
    assert os.environ.get("NUMBA_NUM_THREADS") == threads


@pytest.mark.usefixtures("inline")
def test_the_same_command_again_does_nothing_again(case):
    first = sweep(case.name, seeds=3, workers=1, out=case.out, job=case.jobs.quick)
    again = sweep(case.name, seeds=3, workers=1, out=case.out, job=case.jobs.quick)
    assert len(case.done()) == 3
    assert again.rows == first.rows
    assert again.aggregates == first.aggregates


@pytest.mark.usefixtures("inline")
def test_more_seeds_go_on_where_fewer_ended(case):
    sweep(case.name, seeds=2, workers=1, out=case.out, job=case.jobs.quick)
    result = sweep(case.name, seeds=4, workers=1, out=case.out, job=case.jobs.quick)
    assert [int(seed) for seed, *_ in case.done()] == [1, 2, 3, 4]
    assert result.aggregates["runs"] == 4


@pytest.mark.usefixtures("inline")
def test_a_half_written_part_is_done_again(case):
    first = sweep(case.name, seeds=2, workers=1, out=case.out, job=case.jobs.quick)
    (first.directory / "parts" / "2.json").write_text('{"seed": 2, "verd')
    (first.directory / "parts" / "1.new").write_text("left over")
    again = sweep(case.name, seeds=2, workers=1, out=case.out, job=case.jobs.quick)
    assert [int(seed) for seed, *_ in case.done()] == [1, 2, 2]
    assert again.rows == first.rows


@pytest.mark.usefixtures("inline")
def test_another_scenario_has_another_directory(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = sweep(case.name, seeds=1, workers=1, job=case.jobs.quick)
    two = sweep(case.name, seeds=1, workers=1, job=case.jobs.quick, sets=["time_limit=6"])
    again = sweep(case.name, seeds=1, workers=1, job=case.jobs.quick)
    assert one.directory.match("runs/sweep-swept-*")
    assert one.directory == again.directory != two.directory
    assert len(case.done()) == 2


@pytest.mark.usefixtures("inline")
def test_the_directory_that_was_asked_for_holds_the_files_itself(case):
    result = sweep(case.name, seeds=1, workers=1, out=case.out, job=case.jobs.quick)
    assert result.directory == case.out
    assert {"sweep.json", "sweep.parquet", "sweep.png"} <= {file.name for file in case.out.iterdir()}


@pytest.mark.usefixtures("inline")
def test_a_directory_of_other_settings_is_refused(case):
    sweep(case.name, seeds=1, workers=1, out=case.out, job=case.jobs.quick)
    before = (case.out / "scenario.yaml").read_text()
    with pytest.raises(
        RunError, match=r"holds runs of something else: setting time_limit 5\.0 is now 6\.0; choose another"
    ):
        sweep(case.name, seeds=2, workers=1, out=case.out, job=case.jobs.quick, sets=["time_limit=6"])
    assert (case.out / "scenario.yaml").read_text() == before
    assert len(case.done()) == 1


@pytest.mark.usefixtures("inline")
def test_a_directory_of_earlier_programs_is_refused(case, monkeypatch):
    sweep(case.name, seeds=1, workers=1, out=case.out, job=case.jobs.quick)
    monkeypatch.setattr(sweeps, "our_inputs", lambda: Inputs({"program.py": "2"}, {}))
    with pytest.raises(RunError, match=r"file program\.py is new; choose another --out"):
        sweep(case.name, seeds=2, workers=1, out=case.out, job=case.jobs.quick)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("text", ["", "{", "[]", '{"settings": "1", "programs": "2"}', '{"version": 2}'])
def test_a_directory_whose_identity_is_damaged_is_refused(case, text):
    sweep(case.name, seeds=1, workers=1, out=case.out, job=case.jobs.quick)
    (case.out / "identity.json").write_text(text)
    with pytest.raises(RunError, match=r"identity\.json: damaged, or from an earlier version.*or delete"):
        sweep(case.name, seeds=2, workers=1, out=case.out, job=case.jobs.quick)


@pytest.mark.usefixtures("inline")
def test_a_directory_of_something_else_is_left_alone(case, tmp_path):
    mine = tmp_path / "scenario.yaml"
    mine.write_text(SCENARIO)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RunError, match=r"is not a sweep's: it contains .*; choose another --out"):
        sweep(str(mine), seeds=1, workers=1, out=tmp_path, job=case.jobs.quick)
    assert mine.read_text() == SCENARIO
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.usefixtures("inline")
def test_a_sweep_killed_at_its_first_file_goes_on(case):
    case.out.mkdir()
    (case.out / "identity.new").write_text("{")
    assert sweep(case.name, seeds=1, workers=1, out=case.out, job=case.jobs.quick).aggregates["runs"] == 1


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_in_the_way_is_told(case, tmp_path, out):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot be made .*choose another --out"):
        sweep(case.name, seeds=1, workers=1, out=tmp_path / out, job=case.jobs.quick)


def test_a_killed_sweep_goes_on_and_leaves_no_worker(case, tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nimport swept_jobs\n"
        "from swarmbed_experiments.runs import sweep as sweeps\n"
        "if __name__ == '__main__':\n"
        f"    sys.path.insert(0, {str(tmp_path)!r})\n"
        "    sweeps.our_inputs = lambda: sweeps.Inputs({}, {})\n"
        f"    out = Path({str(case.out)!r})\n"
        f"    sweeps.sweep({case.name!r}, seeds=6, workers=2, out=out, job=swept_jobs.slow)\n"
    )
    process = subprocess.Popen([sys.executable, script])
    wait_for(lambda: len(list(case.out.glob("parts/*.json"))) == 3)
    process.kill()
    process.wait()
    workers = {int(worker) for _, worker, _ in case.done()}
    wait_for(lambda: not any(is_alive(worker) for worker in workers))
    result = sweep(case.name, seeds=6, workers=2, out=case.out, job=case.jobs.quick)
    assert sorted(int(seed) for seed, *_ in case.done()) == [1, 2, 3, 4, 5, 6]
    assert [row["seed"] for row in result.rows] == [1, 2, 3, 4, 5, 6]


def started(case, tmp_path, begin=""):
    """Start a sweep in a process of its own; what its workers' server shall do first can be given."""
    (tmp_path / "sitecustomize.py").write_text(begin)
    script = tmp_path / "stopped.py"
    script.write_text(
        "from pathlib import Path\nfrom rich.console import Console\nimport swept_jobs\n"
        "from swarmbed_experiments.runs.sweep import sweep\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        f"        sweep({case.name!r}, seeds=6, workers=2, out=Path({str(case.out)!r}),\n"
        "              job=swept_jobs.slow, console=Console(width=200))\n"
        "    except KeyboardInterrupt:\n"
        "        print('stopped')\n"
    )
    # A group of its own: a terminal sends Ctrl-C to the workers as well. What a shell runs in the
    # background ignores it, and so would all that is started from there.
    return subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, script],
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def stopped(process):
    """Press Ctrl-C; return what was said, and what about errors."""
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    said, errors = process.communicate(timeout=30)
    assert time.monotonic() - begun < 20
    assert said.rstrip().endswith("stopped")
    assert "Traceback" not in errors
    return said


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(case, tmp_path):
    process = started(case, tmp_path)
    wait_for(lambda: len(list(case.out.glob("parts/*.json"))) == 3)
    said = stopped(process)
    assert "3 of 6 runs are saved in" in said
    assert "the same command runs the other 3" in said
    found = case.out / "sweep.json"
    assert json.loads(found.read_text())["runs"] == 3


def test_ctrl_c_is_quiet_while_workers_start(case, tmp_path, monkeypatch):
    there = tmp_path / "begun"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    begin = (
        "import sys, time\nif sys.argv[:1] == ['-c']:\n"
        f"    open({str(there)!r}, 'w').close(); time.sleep(3)\n"
    )
    process = started(case, tmp_path, begin)
    wait_for(there.exists)
    stopped(process)


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_run_that_dies_fails_alone_and_is_repeated_by_the_same_command(case):
    console = Console(record=True, width=200, file=io.StringIO())
    result = sweep(case.name, seeds=4, workers=1, out=case.out, job=case.jobs.deadly, console=console)
    assert [(row["seed"], row["verdict"]) for row in result.rows] == [
        (1, "accepted"), (2, "accepted"), (3, "failed"), (4, "accepted"),
    ]  # fmt: skip
    assert result.rows[2]["reason"] == "its process exited with status 3, 2 times"
    assert result.aggregates["verdicts"] == {"accepted": 3, "failed": 1}
    assert "1 runs died or took too long; the same command repeats them" in console.export_text()
    again = sweep(case.name, seeds=4, workers=1, out=case.out, job=case.jobs.quick)
    assert again.aggregates["verdicts"] == {"accepted": 4}
    assert [int(seed) for seed, *_ in case.done()] == [1, 2, 4, 3]
    assert not list(case.out.glob("parts/*lost*"))


def test_a_run_that_takes_too_long_is_a_failed_one(case):
    result = sweep(
        case.name, seeds=2, first_seed=3, workers=2, out=case.out, job=case.jobs.slow,
        limits=Limits(run=10.0),
    )  # fmt: skip
    assert [row["verdict"] for row in result.rows] == ["accepted", "failed"]
    assert result.rows[1]["reason"].startswith("the run was not over after 10 s")


@pytest.mark.usefixtures("inline")
def test_the_result_is_told(case):
    console = Console(record=True, width=120, file=io.StringIO())
    result = sweep(case.name, seeds=6, workers=2, out=case.out, job=case.jobs.quick, console=console)
    said = console.export_text()
    assert "83.3%" in said
    assert "completion_seconds" in said
    assert "distances.dots1" not in said
    assert "seed 5 rejected: because" in said
    assert f"picture: {result.directory / 'sweep.png'}" in said


def test_a_sweep_that_has_no_runs_yet_has_no_picture(case):
    def never(_):
        raise AssertionError

    # What a worker cannot even be sent is lost, not a crash.
    with pytest.raises(RunError, match="1 runs were lost"):
        sweep(case.name, seeds=1, workers=1, out=case.out, job=never)
    found = case.out / "sweep.json"
    assert json.loads(found.read_text())["runs"] == 0


def test_faults_of_the_scenario_are_faults_of_the_command(case):
    with pytest.raises(ConfigError, match="no controller 'nobody'"):
        sweep(case.name, seeds=2, out=case.out)
    assert not case.out.exists()


def test_a_run_that_cannot_start_is_a_failed_one():
    scenario = Scenario.model_validate_json(
        json.dumps(
            {
                "version": 1,
                "title": "too many",
                "time_limit": 1,
                "robots": [{"count": 4000, "place": {"zone": "drop"}}],
                "controller": {"name": "random_walk"},
            }
        )
    )
    row = run_task(Task(scenario.model_dump_json(), "many.yaml", 3))
    assert (row["seed"], row["verdict"]) == (3, "failed")
    assert "do not fit" in row["reason"]


def test_seeds_beyond_the_last_are_refused_before_anything_runs(case):
    with pytest.raises(
        ConfigError, match="2 seeds from 4294967295 on: the largest possible seed is 4294967295"
    ):
        sweep(case.name, seeds=2, first_seed=2**32 - 1, out=case.out, job=case.jobs.quick)
