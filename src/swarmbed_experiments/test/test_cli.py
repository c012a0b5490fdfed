"""The command: help that teaches, errors that say what to do, exit codes that scripts can use."""

import json
import signal
import subprocess
import sys
import time

import pytest
import yaml
from typer.testing import CliRunner

from swarmbed_experiments import cli

runner = CliRunner()
COMMANDS = (
    "run",
    "sweep",
    "plot",
    "scenarios",
    "check",
    "tree",
    "calibrate",
    "markers",
    "sdf",
    "bench",
    "robots",
    "doctor",
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


def test_ctrl_c_in_a_process_of_its_own_is_130_and_writes_the_summary(tmp_path):
    # What a shell runs in the background ignores Ctrl-C, and so would all that is started from there.
    words = ["env", "--default-signal=INT", *PROGRAM, "run", "random_walk", "--speed", "1", "--no-record"]
    words += ["--out", str(tmp_path / "here")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 100
    while not list((tmp_path / "here").glob("*")):
        assert time.monotonic() < deadline
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    (file,) = (tmp_path / "here").glob("*/summary.json")
    summary = json.loads(file.read_text())
    assert summary["verdict"] == "interrupted"
    assert 0 < summary["sim_seconds"] < 60
    assert "interrupted" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nowhere"], "'nowhere' is not in config/scenarios: there are"),
        (["run", "moon.yaml"], "moon.yaml: no such file"),
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
        (["run", "--set", "title=2024-13-45"], "'2024-13-45' is not a YAML value"),
        (["run", "--out", "a" * 5000], "choose another --out"),
        (["run", "--seed", "-1"], "--seed"),
        (["run", "--speed", "fast"], "neither max nor a number above 0"),
        (["run", "--speed", "0"], "neither max nor a number above 0"),
        (["run", "--speed", "nan"], "neither max nor a number above 0"),
        (["run", "--nonsense"], "No such option"),
        (["run", "--images", "dots9/cam0"], "a robot and a camera are right, such as dots1/cam0"),
        (["run", "--images", "dots1"], "a robot and a camera are right, such as dots1/cam0"),
        (["run", "--images", "dots1/cam9"], "its cameras are cam0, cam1, cam2, cam3, cam4"),
        (["plot", "nowhere"], "summary.json: cannot be read"),
        (["sweep", "--workers", "2", "--dask", "tcp://h:1"], "not with --dask"),
        (
            ["tree", "fake_controllers:Broken"],
            "fake_controllers:Broken cannot be made: ValueError",
        ),
        (["tree", "nobody"], "no controller 'nobody'"),
        (["tree", "random_walk", "--out", "no/such/tree.png"], "no/such/tree.png: cannot be drawn"),
        (["check", "moon.yaml"], "moon.yaml: no such file"),
        (["bench", "--only", "nothing"], "there are cycle"),
        (["bench", "--json", "no/such/place.json"], "no directory"),
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
    assert f"{scenario}: right" in said.out
    assert f"{deadly}: generator robot_death: 9 shall die of 2 robots" in said.err


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
