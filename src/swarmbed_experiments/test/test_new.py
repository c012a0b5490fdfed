"""What `swarmbed new` writes runs as it is, with the commands that it names."""

import json
import os
import shlex
import shutil
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


@pytest.mark.parametrize("kind", [kind for kind in new.Kind if kind is not new.Kind.package])
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
    files, commands = written("controller", "shy_robots", "--out", str(tmp_path / "a b"))
    assert files == [str(tmp_path / "a b" / name) for name in ("shy_robots.py", "test_shy_robots.py")]
    assert shlex.split(commands[0]) == ["cd", f"{tmp_path}/a b"]
    assert commands[1].endswith("controller.name=shy_robots:ShyRobots")
    text = (tmp_path / "a b" / "shy_robots.py").read_text()
    assert "class ShyRobots(TreeController)" in text
    assert text.startswith('"""Shy robots: ')


@pytest.mark.parametrize("kind", new.Kind)
def test_nothing_is_overwritten(kind, tmp_path, monkeypatch, capsys):
    last = list(new.TEMPLATES[kind].files)[-1].replace(new.TEMPLATES[kind].placeholder, "mine")
    (tmp_path / last).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / last).write_text("work of weeks")
    monkeypatch.setattr(sys, "argv", ["swarmbed", "new", kind, "mine", "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as raised:
        cli.main()
    assert raised.value.code == 2
    assert f"{last} exists already" in " ".join(capsys.readouterr().err.split())
    assert tree(tmp_path) == {tmp_path / last}
    assert (tmp_path / last).read_text() == "work of weeks"


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("robot", "Big", "'Big' is not a valid name"),
        ("robot", "../up", "'../up' is not a valid name"),
        ("scenario", "a" * 60, "is not a valid name"),
        ("controller", "class", "'class' is not a valid name"),
        ("controller", "json", "'json' is an installed Python module"),
        ("package", "numpy", "'numpy' is an installed Python module"),
        ("package", "convoy", "there is a controller 'convoy' already"),
        ("package", "my swarm", "'my swarm' is not a valid name"),
        ("package", "schön", "'schön' is not a valid name"),
        ("package", "", "'' is not a valid name"),
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


def tree(place):
    """The files below a directory."""
    return {file for file in place.rglob("*") if file.is_file() and "__pycache__" not in file.parts}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_package_is_made_installed_used_and_removed(tmp_path, monkeypatch):
    """With the commands that are named, in a virtualenv of its own and without a network."""
    monkeypatch.chdir(tmp_path)
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python, [site] = venv / "bin" / "python", venv.glob("lib/python3*/site-packages")
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    # The environment of these tests has everything else.
    ours = [place for place in sys.path if place.endswith("site-packages")]
    env |= {"PYTHONPATH": os.pathsep.join([env.get("PYTHONPATH", ""), *ours]), "PIP_NO_INDEX": "1"}

    def call(*words, status=0):
        done = subprocess.run(words, env=env, check=False, capture_output=True, text=True)
        assert done.returncode == status, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    swarmbed = [python, "-c", "from swarmbed_experiments.cli import main; main()"]
    before = tree(venv)
    _, commands = written("package", "shy_swarm")
    pip, run, sweep, study, tests = map(shlex.split, commands)
    assert pip[:2] == ["pip", "install"]
    call(sys.executable, "-m", "pip", "--python", python, *pip[1:])
    assert {file.parent for file in tree(venv) - before} >= {site}

    assert "distance to the nearest robot, mean" in call(*swarmbed, *run[1:], "--no-record")
    [summary] = (json.loads(file.read_text()) for file in tmp_path.glob("runs/*/summary.json"))
    assert (summary["scenario"], summary["controller"]) == ("shy_swarm", "shy_swarm")
    assert summary["verdict"] == "accepted"
    assert summary["metrics"]["spacing"] > summary["metrics"]["spacing_least"] > 0.15
    assert "spacing" in call(*swarmbed, *sweep[1:-1], "2", "--workers", "1")
    assert "shy_swarm" in call(*swarmbed, "study")
    call(*swarmbed, *study[1:], "--seeds", "1", "--workers", "1")
    made = tmp_path / "runs" / "study-shy_swarm"
    assert (made / "spacing.png").stat().st_size > 5000
    assert set(json.loads((made / "results.json").read_text())) == {"0.1", "0.2", "0.4"}
    call(python, *tests[1:])

    call(sys.executable, "-m", "pip", "--python", python, "uninstall", "-y", "shy_swarm")
    # The same in a ROS 2 workspace.
    call(sys.executable, "-m", "colcon", "build", "--base-paths", "shy_swarm")
    [share] = (tmp_path / "install").glob("shy_swarm/lib/python3*/site-packages/shy_swarm")
    assert {file.name for file in tree(share)} >= {"study.py", "shy_swarm.yaml", "shy_swarm_bot.yaml"}
    assert tree(venv) == before
    shutil.rmtree(tmp_path / "shy_swarm")
    assert "no study 'shy_swarm'" in call(*swarmbed, *study[1:], status=2)
    assert "no package 'shy_swarm'" in call(*swarmbed, *run[1:], status=2)
