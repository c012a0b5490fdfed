"""The command: help that teaches, errors that say what to do, exit codes that scripts can use."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest
import yaml
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.errors import FailedError, RunError
from swarmbed_gazebo.errors import GazeboError
from swarmbed_sim.errors import MachineError
from typer.testing import CliRunner

from swarmbed_experiments import cli

pytestmark = pytest.mark.slow

runner = CliRunner()
COMMANDS = (
    "run",
    "up",
    "sweep",
    "study",
    "plot",
    "mend",
    "runs",
    "scenarios",
    "check",
    "tree",
    "calibrate",
    "markers",
    "sdf",
    "bench",
    "robots",
    "doctor",
    "arenas",
    "new",
)
PROGRAM = [sys.executable, "-c", "from swarmbed_experiments.cli import main; main()"]


@pytest.fixture
def scenario(tmp_path, scenario_data):
    """Return a scenario file."""
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({**scenario_data, "time_limit": 0.5}))
    return str(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches(name):
    result = runner.invoke(cli.app, [name, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 5
    assert "Exit status: 0" in result.output


def test_without_arguments_it_shows_what_there_is():
    output = runner.invoke(cli.app, []).output
    assert all(name in output for name in COMMANDS)


def test_a_run_ends_with_its_table_and_where_the_pictures_are(scenario, tmp_path):
    result = runner.invoke(cli.app, ["run", scenario, "--seed", "5", "--out", str(tmp_path / "here")])
    assert result.exit_code == 0, result.output
    (directory,) = (tmp_path / "here").iterdir()
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["scenario"], summary["seed"], summary["verdict"]) == ("s", 5, "accepted")
    assert "accepted" in result.output
    assert f"picture: {directory / 'tracks.png'}" in result.output
    assert (directory / "recording.mcap").exists()
    again = runner.invoke(cli.app, ["plot", str(directory)])
    assert again.exit_code == 0
    assert "tracks.png" in again.output


def test_options_reach_the_run(scenario, tmp_path):
    words = ["run", scenario, "--out", str(tmp_path / "here"), "--no-record", "--speed", "2"]
    words += ["--set", "robots.0.count=3", "--world", "fake_world:make"]
    result = runner.invoke(cli.app, words)
    assert result.exit_code == 0, result.output
    (directory,) = (tmp_path / "here").iterdir()
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["robots"] == 3
    assert summary["real_time_factor"] < 3
    assert not (directory / "recording.mcap").exists()


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ("frame.acceptors.0.name=retrieved", "rejected"),
        ("controller.fails_at=0.3", "failed"),
    ],
)
def test_what_is_not_accepted_is_exit_1(scenario, tmp_path, change, verdict):
    result = runner.invoke(cli.app, ["run", scenario, "--out", str(tmp_path / "here"), "--set", change])
    assert result.exit_code == 1, result.output
    (file,) = (tmp_path / "here").glob("*/summary.json")
    assert json.loads(file.read_text())["verdict"] == verdict


@pytest.fixture
def started(tmp_path):
    """Return what starts a run in a process of its own, and waits until something is kept of it."""
    processes = []

    def start(*options):
        out = tmp_path / "here"
        # What a shell runs in the background ignores Ctrl-C, and so would all that is started from there.
        words = ["env", "--default-signal=INT", *PROGRAM, "run", "random_walk", "--speed", "1", *options]
        processes.append(
            subprocess.Popen(
                [*words, "--out", str(out)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=tmp_path,
            )
        )
        process, deadline = processes[-1], time.monotonic() + 100
        while not any(file.stat().st_size > 2000 for file in out.glob("*/unfinished.journal")):
            assert time.monotonic() < deadline
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        return process, out

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "status", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_a_run_that_is_ended_by_a_signal_writes_its_summary(started, number, status, name):
    process, out = started()
    process.send_signal(number)
    # As `timeout` does.
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == status, output
    (directory,) = out.glob("*")
    summary = json.loads((directory / "summary.json").read_text())
    assert summary["verdict"] == "interrupted"
    assert f"stopped by {name}" in summary["reason"]
    assert 0 < summary["sim_seconds"] < 60
    assert "interrupted" in output
    assert "Traceback" not in output
    with (directory / "recording.mcap").open("rb") as stream:
        assert make_reader(stream).get_summary().statistics.message_count > 0
    assert (directory / "tracks.png").exists()
    assert not (directory / "unfinished.journal").exists()


def test_a_run_that_is_killed_is_mended_by_one_command(started, tmp_path):
    process, out = started()
    process.kill()
    process.communicate(timeout=60)
    (directory,) = out.glob("*")
    assert not (directory / "summary.json").exists()
    result = runner.invoke(cli.app, ["mend", str(directory)])
    assert result.exit_code == 0, result.output
    assert json.loads((directory / "summary.json").read_text())["verdict"] == "killed"
    with AnyReader([directory / "recording.mcap"]) as reader:
        assert reader.message_count > 0
    assert (directory / "tracks.png").exists()
    assert "nothing to repair" in runner.invoke(cli.app, ["mend", str(directory)]).output
    assert runner.invoke(cli.app, ["plot", str(directory)]).exit_code == 0
    assert runner.invoke(cli.app, ["mend", str(tmp_path)]).exception is not None


def test_threads_that_a_program_leaves_do_not_keep_the_process(tmp_path):
    (tmp_path / "leaves.py").write_text(LEAVES)
    case = {
        "version": 1,
        "title": "leaves a thread",
        "world": "planar",
        "time_limit": 0.5,
        "robots": [{"count": 1, "place": {"zone": "drop"}}],
        "controller": {"name": "leaves:Leaves"},
    }
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(case))
    words = [*PROGRAM, "run", str(tmp_path / "case.yaml"), "--out", str(tmp_path / "here"), "--no-record"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "ended threads that a program left running: for ever" in done.stdout
    assert list((tmp_path / "here").glob("*/summary.json"))


LEAVES = """
import threading
from swarmbed_core.controller import NoParameters

class Leaves:
    Parameters = NoParameters
    doing = "nothing"

    def __init__(self, robot, parameters, rng):
        threading.Thread(target=threading.Event().wait, name="for ever").start()

    def tick(self):
        pass
"""


def test_what_is_lost_of_the_results_is_told_and_no_success(scenario, tmp_path, monkeypatch):
    monkeypatch.setattr("swarmbed_experiments.pictures.plots.draw_timeline", lambda *_: 1 / 0)
    result = runner.invoke(cli.app, ["run", scenario, "--out", str(tmp_path / "here")])
    assert result.exit_code == 1
    assert "accepted" in result.output
    assert "lost: timeline.png: ZeroDivisionError" in result.output


@pytest.mark.parametrize("command", [["run", "convoy_devs"], ["sweep", "convoy_devs"], ["study", "convoy"]])
def test_who_lacks_an_optional_library_reads_how_to_get_it(command, tmp_path):
    # Hidden from workers, too.
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['xdevs'] = None\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    program = [sys.executable, "-c", "from swarmbed_experiments.cli import main; main()"]
    done = subprocess.run(
        [*program, *command, "--out", tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.endswith("run scripts/setup --devs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere"], "'nowhere' is not in config/scenarios: there are"),
        (["part-server", "--parts", "wings"], "dots1, a dots, has no part 'wings': it has motors, imu"),
        (["part-server", "tank"], "'tank' is not in config/robots"),
        (["run", "moon.yaml"], "moon.yaml: no such file"),
        (["run", "/usr/"], "/usr/: is a directory; name a .yaml file"),
        (["run", "[red]x[/nope]"], "[red]x[/nope]: no such file"),
        (
            ["run", "--world", "atlantis"],
            "world: no world 'atlantis': there are gazebo, gazebo11, harmonic, mujoco, planar",
        ),
        (
            ["run", "--set", "robots.0.kind=r2d2"],
            "robots.0.kind: 'r2d2' is not in config/robots: there are convoy_car, dots",
        ),
        (["run", "--set", "robots.0.count=300"], "robots.0.count: 300 do not fit"),
        (["run", "--set", "time_limit=-1"], "time_limit: Input should be greater than 0"),
        (["run", "--set", "controller.name=nobody"], "no controller 'nobody': there are"),
        (["run", "--set", "nonsense"], "write field=value"),
        (["run", "--set", "arena=moon"], "intralogistics_cooperative.yaml: arena: 'moon' is not in worlds"),
        (["run", "--set", "title=["], "--set title=[: not valid YAML"),
        (["run", "--out", "a" * 5000], "choose another --out"),
        (["run", "--seed", "-1"], "--seed"),
        (["run", "--speed", "fast"], "expected max"),
        (["run", "--speed", "0"], "expected max"),
        (["run", "--speed", "nan"], "expected max"),
        (["run", "--nonsense"], "No such option"),
        (["run", "--images", "dots9/cam0"], "write ROBOT/CAMERA, such as dots1/cam0"),
        (["run", "--images", "dots1"], "write ROBOT/CAMERA, such as dots1/cam0"),
        (["run", "--images", "dots1/cam9"], "its cameras are cam0, cam1, cam2, cam3, cam4"),
        (["plot", "nowhere"], "summary.json: cannot be read"),
        (["mend", "nowhere"], "nowhere: neither a run's directory nor a recording"),
        (["sweep", "--workers", "2", "--dask", "tcp://h:1"], "not with --dask"),
        (
            ["tree", "fake_controllers:Broken"],
            "fake_controllers:Broken cannot be made: ValueError",
        ),
        (["tree", "nobody"], "no controller 'nobody'"),
        (["tree", "random_walk", "--out", "no/such/tree.png"], "no/such/tree.png: cannot be drawn"),
        (["check", "moon.yaml"], "moon.yaml: no such file"),
        (["bench", "--only", "nothing"], "there are cycle"),
        (["bench", "--json", "no/such/place.json"], "no such directory no/such"),
    ],
)
def test_bad_input_is_one_message_and_exit_2(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["swarmbed", *arguments])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == 2
    complaint = " ".join(capsys.readouterr().err.split())
    assert message in complaint
    assert "Traceback" not in complaint
    assert list(tmp_path.iterdir()) == []


def test_a_right_file_is_told_so(scenario):
    result = runner.invoke(cli.app, ["check", scenario, "intralogistics"])
    assert result.exit_code == 0
    assert "2 robots, 2 carriers" in result.output
    assert "5 robots, 5 carriers" in result.output


def test_all_faults_of_a_file_are_told(tmp_path, monkeypatch, capsys, scenario_data):
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({**scenario_data, "sed": 1, "time_limit": "long"}))
    monkeypatch.setattr(sys, "argv", ["swarmbed", "check", str(tmp_path / "s.yaml")])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == 2
    complaint = capsys.readouterr().err
    assert "sed: unknown field" in complaint
    assert "time_limit: Input should be a valid number" in complaint


def test_what_cannot_be_made_is_a_fault_of_its_file(scenario, tmp_path, monkeypatch, capsys, scenario_data):
    deadly = tmp_path / "deadly.yaml"
    frame = {"generators": [{"name": "robot_death", "count": 9}]}
    deadly.write_text(yaml.safe_dump({**scenario_data, "frame": frame}))
    monkeypatch.setattr(sys, "argv", ["swarmbed", "check", scenario, str(deadly)])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == 2
    said = capsys.readouterr()
    assert f"{scenario}: valid" in said.out
    assert f"{deadly}: generator robot_death: count is 9, with 2 robots" in said.err


def test_the_tree_is_shown_and_drawn(tmp_path):
    result = runner.invoke(cli.app, ["tree", "random_walk", "--out", str(tmp_path / "t.png")])
    assert result.exit_code == 0
    assert "random walk" in result.output
    assert (tmp_path / "t.png").stat().st_size > 1000
    result = runner.invoke(cli.app, ["tree", "random_walk", "--out", str(tmp_path / "u")])
    assert result.output.splitlines()[-1] == f"picture: {tmp_path / 'u.png'}"
    assert (tmp_path / "u.png").exists()


def test_scenarios_are_listed():
    result = runner.invoke(cli.app, ["scenarios"])
    assert result.exit_code == 0
    assert "intralogistics" in result.output


def test_robots_are_listed():
    result = runner.invoke(cli.app, ["robots"])
    assert result.exit_code == 0
    for kind in ("dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"):
        assert kind in result.output


class OddError(Exception):
    """An error whose text is one too."""

    def __str__(self):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("raised", "status", "said"),
    [
        (ConfigError("no such robot"), 2, "swarmbed: no such robot"),
        (RunError("[red]x[/wrong]"), 2, "swarmbed: [red]x[/wrong]"),
        (FailedError("the world died"), 1, "swarmbed: the world died"),
        (GazeboError("no gzserver"), 1, "swarmbed: no gzserver"),
        (MachineError("no EGL"), 1, "swarmbed: no EGL"),
        (OSError(28, "No space left on device", "a.mcap"), 1, "swarmbed: a.mcap: No space left on device"),
        (MemoryError(), 1, "swarmbed: out of memory"),
        (KeyError("x"), 1, "KeyError: 'x' (test_cli.py, line"),
        (OddError(), 1, "OddError: (its message cannot be shown"),
        (GeneratorExit(), 1, "GeneratorExit (test_cli.py, line"),
        (KeyboardInterrupt(), 130, ""),
        (SystemExit("with a text"), 1, "swarmbed: with a text"),
        (SystemExit(3), 3, ""),
        (SystemExit(), 0, ""),
    ],
)
def test_whatever_is_raised_is_a_line_and_a_status(raised, status, said, monkeypatch, capsys):
    def fail():
        raise raised

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.delenv("SWARMBED_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == status
    complaint = capsys.readouterr().err
    assert said in complaint
    assert "Traceback" not in complaint
    assert len(complaint.splitlines()) == bool(said)


def test_a_defect_shows_its_traceback_when_asked(monkeypatch):
    monkeypatch.setattr(cli, "app", lambda: 1 / 0)
    monkeypatch.setenv("SWARMBED_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main()


@pytest.mark.parametrize(
    ("redirected", "status", "said"),
    [
        ("| head -n 1; exit ${PIPESTATUS[0]}", 0, ""),
        (">&-", 0, ""),
        (">&- 2>&-", 0, ""),
        (">/dev/full", 1, "standard output cannot be written (No space left on device)"),
        (">/dev/full 2>/dev/full", 1, ""),
    ],
)
def test_output_may_go_anywhere(redirected, status, said):
    command = f"{shlex.join([*PROGRAM, 'robots'])} {redirected}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == status
    assert done.stderr.strip().removeprefix("swarmbed: ") == said


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"LC_ALL": "POSIX", "PYTHONIOENCODING": "iso-8859-1"},
    ],
)
def test_titles_and_paths_of_any_language_are_said_in_any_locale(env, scenario_data, tmp_path):
    file = tmp_path / "[b]ünï 日本[red].yaml"
    data = {**scenario_data, "world": "planar", "controller": {"name": "random_walk"}, "time_limit": 0.2}
    data["title"] = "[red]ü 日本[/wrong] :smile:"
    data["frame"] = {"acceptors": [{"name": "elapsed"}]}
    file.write_text(yaml.safe_dump(data))
    command = [*PROGRAM, "run", str(file), "--no-record", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, env=os.environ | env, check=False, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert b"accepted" in done.stdout
    assert b"[b]" in done.stdout
