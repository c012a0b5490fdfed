"""The command: help that teaches, errors that say what to do, exit codes that scripts can use."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from swarmbed_experiments import cli

runner = CliRunner()


@pytest.mark.parametrize("name", ["run", "bench", "robots"])
def test_help_teaches(name):
    result = runner.invoke(cli.app, [name, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 5


def test_without_arguments_it_shows_what_there_is():
    assert "run" in runner.invoke(cli.app, []).output


def test_a_run_in_a_process_of_its_own_leaves_its_directory(tmp_path):
    (tmp_path / "p.yaml").write_text(
        "version: 1\ntitle: t\nstart: [0, 0, 0]\nwaypoints: [{pose: [0.3, 0, 0]}]\n"
    )
    program = "from swarmbed_experiments.cli import main; main()"
    words = [sys.executable, "-c", program, "run", "--path", "p.yaml", "--out", "here"]
    result = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=110, check=False)
    assert result.returncode == 0, result.stderr
    (summary,) = (tmp_path / "here").glob("*/summary.json")
    assert json.loads(summary.read_text())["verdict"] == "accepted"
    assert "picture" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--robot", "r2d2"], "'r2d2' is not in config/robots: there are convoy_car, dots"),
        (["run", "--path", "nowhere"], "'nowhere' is not in config/paths"),
        (["run", "--arena", "moon.yaml"], "moon.yaml: no such file"),
        (["run", "--robot", "epuck2", "--path", "slalom"], "epuck2 cannot drive slalom"),
        (["run", "--path", "[red]x[/nope]"], "[red]x[/nope]: no such file"),
        (["run", "--out", "a" * 5000], "choose another --out"),
        (["run", "--seed", "-1"], "--seed"),
        (["run", "--nonsense"], "No such option"),
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


def test_robots_are_listed():
    result = runner.invoke(cli.app, ["robots"])
    assert result.exit_code == 0
    for kind in ("dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"):
        assert kind in result.output
