"""What `swarmbed new` writes runs as it is, with the commands that it names."""

import json
import shlex
import subprocess
import sys

import pytest
from swarmbed_experiments.tools import new
from typer.testing import CliRunner

from swarmbed_experiments import cli

runner = CliRunner()


def written(kind, name, *options):
    """The lines that the command prints: files and the commands to try next."""
    result = runner.invoke(cli.app, ["new", kind, name, *options])
    assert result.exit_code == 0, result.output
    lines = [line.split(": ", 1) for line in result.output.splitlines()]
    return [what for head, what in lines if head == "written"], [
        what for head, what in lines if head == "next"
    ]


@pytest.mark.parametrize("kind", new.Kind)
def test_every_template_runs_with_the_commands_that_are_named(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = f"tried_{kind}"
    files, commands = written(kind, name)
    assert {tmp_path / file for file in files} == set(tmp_path.iterdir())
    assert all("my" not in (tmp_path / file).read_text().replace("--", "").split() for file in files)
    assert commands
    for command in commands:
        words = shlex.split(command)
        if words[0] == "python":
            result = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=False)
            assert result.returncode == 0, result.stdout + result.stderr
            continue
        assert words[0] == "swarmbed"
        if words[1] == "run":
            # Shorter, and in the world that takes the least to start.
            words += ["--set", "time_limit=2", "--world", "planar", "--no-record"]
        result = runner.invoke(cli.app, words[1:])
        assert result.exit_code == 0, f"{command}\n{result.output}"
    [summary] = (json.loads(file.read_text()) for file in tmp_path.glob("runs/*/summary.json"))
    assert summary["verdict"] == "accepted"
    assert summary["metrics"]["distance_per_robot"] > 0.05


def test_the_class_is_called_after_the_file(tmp_path):
    files, commands = written("controller", "shy_robots", "--out", str(tmp_path / "a"))
    assert [file.removeprefix(f"{tmp_path}/a/") for file in files] == ["shy_robots.py", "test_shy_robots.py"]
    assert commands[0] == f"cd {tmp_path / 'a'}"
    assert commands[1].endswith("controller.name=shy_robots:ShyRobots")
    text = (tmp_path / "a" / "shy_robots.py").read_text()
    assert "class ShyRobots(TreeController)" in text
    assert text.startswith('"""Shy robots: ')


@pytest.mark.parametrize("kind", new.Kind)
def test_nothing_is_overwritten(kind, tmp_path, monkeypatch, capsys):
    last = list(new.TEMPLATES[kind].files)[-1].replace(new.TEMPLATES[kind].placeholder, "mine")
    (tmp_path / last).write_text("work of weeks")
    monkeypatch.setattr(sys, "argv", ["swarmbed", "new", kind, "mine", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == 2
    assert f"{last} exists already" in " ".join(capsys.readouterr().err.split())
    assert [file.name for file in tmp_path.iterdir()] == [last]
    assert (tmp_path / last).read_text() == "work of weeks"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("robot", "Big", "'Big' is not a valid name"),
        ("robot", "../up", "'../up' is not a valid name"),
        ("scenario", "a" * 60, "is not a valid name"),
        ("controller", "class", "'class' is not a valid name"),
        ("controller", "json", "'json' is an installed Python module"),
    ],
)
def test_names_that_cannot_be_are_rejected(kind, name, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["swarmbed", "new", kind, name])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "argv", ["swarmbed", "new", "arena", "hall2", "--out", str(tmp_path / "file")])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == 2
    assert "cannot be written" in " ".join(capsys.readouterr().err.split())
