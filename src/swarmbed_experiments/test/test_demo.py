"""The demonstration: what it leaves, and what it says to bad input."""

import io
import json

import numpy as np
import pytest
from rich.console import Console
from swarmbed_core.config import find
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.errors import RunError

from swarmbed_experiments import demo


def setup(**changes) -> demo.Setup:
    options = {"robot": "dots", "path": "square", "arena": "dots_arena", "seed": 1, "noise": True}
    return demo.Setup.load(**{**options, **changes})


def quiet() -> Console:
    return Console(file=io.StringIO(), width=120)


def short_path(tmp_path, goal="[0.5, 0.2, 0.0]", more=""):
    file = tmp_path / "short.yaml"
    file.write_text(f"version: 1\ntitle: short\nstart: [0, 0, 0]\n{more}waypoints:\n  - {{pose: {goal}}}\n")
    return str(file)


@pytest.mark.parametrize("kind", ["dots", "epuck2", "pera_swarm", "pioneer3dx", "convoy_car"])
def test_every_kind_of_robot_drives_a_short_path(kind, tmp_path):
    result = demo.run(setup(robot=kind, path=short_path(tmp_path)), tmp_path / "runs", quiet())
    summary = json.loads((result.directory / "summary.json").read_text())
    assert summary["verdict"] == "accepted"
    assert summary["robot"] == kind
    assert summary["seed"] == 1
    assert summary["metrics"]["goal_error"] < 0.05
    picture = (result.directory / "tracks.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000


def test_the_default_is_driven_and_localised(tmp_path):
    console = quiet()
    result = demo.run(setup(), tmp_path, console)
    assert result.summary["verdict"] == "accepted"
    metrics = result.summary["metrics"]
    assert metrics["goal_error"] < 0.02
    # The paper's robot was off by up to 62 mm (Figure 6).
    assert metrics["localisation_error_max"] < 0.062
    assert metrics["max_speed"] < 0.55
    demo.report(result, console)
    assert "accepted" in console.file.getvalue()
    assert "tracks.png" in console.file.getvalue()


def test_a_seed_gives_the_same_result(tmp_path):
    path = short_path(tmp_path)
    one, two, other = (
        demo.run(setup(path=path, seed=seed), tmp_path, quiet()).summary["metrics"] for seed in (5, 5, 6)
    )
    assert one == two
    assert one != other


def test_every_run_has_its_own_directory(tmp_path):
    path = short_path(tmp_path)
    made = {demo.run(setup(path=path), tmp_path / "runs", quiet()).directory for _ in range(3)}
    assert len(made) == 3


def test_what_a_robot_cannot_drive_is_told(tmp_path):
    with pytest.raises(RunError, match="epuck2 cannot drive slalom"):
        demo.run(setup(robot="epuck2", path="slalom"), tmp_path, quiet())


def test_a_robot_that_never_arrives_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "TIME_FACTOR", 0.0)
    monkeypatch.setattr(demo, "LEAST_SECONDS", 1.0)
    result = demo.run(setup(), tmp_path, quiet())
    assert result.summary["verdict"] == "rejected"
    assert result.summary["sim_seconds"] == pytest.approx(1.0, abs=0.2)


def test_ctrl_c_keeps_what_was_run(tmp_path, monkeypatch):
    calls = 0

    def interrupt(*_args):
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(demo, "record", lambda *args, inner=demo.record: (inner(*args), interrupt())[0])
    result = demo.run(setup(), tmp_path, quiet())
    assert result.summary["verdict"] == "interrupted"
    assert (result.directory / "tracks.png").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1\ntitle: t\nstart: [0, 0, 0]\nwaypoints: []\n", "waypoints"),
        ("version: 1\ntitle: t\nstart: [0, 0]\nwaypoints: [{pose: [1, 0, 0]}]\n", "start"),
        (
            "version: 1\ntitle: t\nstart: [0, 0, 0]\nmax_speed: -1\nwaypoints: [{pose: [1, 0, 0]}]\n",
            "max_speed",
        ),
        ("version: 1\ntitle: t\nstart: [0, 0, 0]\nwaypoints: [{pose: [1e6, 0, 0]}]\n", "waypoints.0.pose.0"),
        ("version: 1\ntitle: t\nstart: [0, 0, 0]\nwaypoints: [{pose: [.nan, 0, 0]}]\n", "waypoints.0.pose.0"),
        (
            "version: 1\ntitle: t\nspeed: 3\nstart: [0, 0, 0]\nwaypoints: [{pose: [1, 0, 0]}]\n",
            "speed: unknown field",
        ),
        ("version: 1\ntitle: t\nstart: [1e308, 0, 0]\nwaypoints: [{pose: [1, 0, 0]}]\n", "start.0"),
        ("title: [", "not valid YAML"),
    ],
)
def test_a_wrong_path_file_is_told_with_its_field(tmp_path, text, message):
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        setup(path=str(file))
    assert str(file) in str(raised.value)


def test_the_length_of_a_path():
    square = setup().path
    assert demo.path_length(square) == pytest.approx(12.8)
    assert np.isfinite(demo.expected_seconds(setup(), 12.8))


def test_a_robot_that_never_moved_is_not_accepted_although_it_stands_at_the_goal(tmp_path):
    robot = tmp_path / "asleep.yaml"
    text = find("dots", "config/robots").read_text()
    assert "jerk: 20.0 " in text
    robot.write_text(text.replace("jerk: 20.0 ", "jerk: 1.0e-9 "))
    result = demo.run(setup(robot=str(robot)), tmp_path, quiet())
    assert result.summary["verdict"] == "rejected"


def test_titles_are_texts_and_not_markup(tmp_path):
    path = tmp_path / "odd[b].yaml"
    path.write_text(
        "version: 1\ntitle: 'a $x_{ b[/red] $'\nstart: [0, 0, 0]\nwaypoints: [{pose: [0.2, 0, 0]}]\n"
    )
    console = quiet()
    result = demo.run(setup(path=str(path)), tmp_path / "r[x]", console)
    demo.report(result, console)
    assert "odd[b]" in console.file.getvalue()
    assert "r[x]" in console.file.getvalue()


def test_a_picture_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(
        demo.plots.plt.Figure,
        "savefig",
        lambda *_args, **_options: (_ for _ in ()).throw(OSError(28, "full")),
    )
    with pytest.raises(RunError, match=r"tracks.png: cannot be written \(full\)"):
        demo.run(setup(path=short_path(tmp_path)), tmp_path, quiet())
