"""The loop: what is ticked when, how it ends, and what it leaves whatever happens."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from swarmbed_core.config import check
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.frame import Event
from swarmbed_experiments.runner import Run, Track, redraw, warm_up
from swarmbed_experiments.scenarios import load_scenario


def run_of(data, **changes):
    return Run(check({**data, **changes}, Scenario, "t.yaml"), "some/t.yaml")


def test_a_run_lasts_until_its_acceptor_decides(scenario_data):
    run = run_of(scenario_data)
    summary = run.go()
    assert summary["verdict"] == "accepted"
    assert summary["scenario"] == "t"
    assert summary["sim_seconds"] == pytest.approx(2.0)
    assert summary["metrics"]["distance_per_robot"] == pytest.approx(0.4, rel=0.2)
    assert summary["metrics"]["messages"] == 3
    assert summary["real_time_factor"] == pytest.approx(2.0 / summary["wall_seconds"])
    assert run.track.poses.shape == (20, 2, 3)
    assert run.track.times == pytest.approx(np.arange(1, 21) / 10)
    run.close()
    assert run.world.closed


def test_what_a_run_leaves(scenario_data, tmp_path):
    run = run_of(scenario_data)
    summary = run.go(tmp_path / "out", record=False)
    directory = run.directory
    assert directory.parent == tmp_path / "out"
    assert directory.name.startswith("t-")
    assert directory.name.endswith("-1")
    assert {file.name for file in directory.iterdir()} == {
        "scenario.yaml", "summary.json", "metrics.parquet", "track.npz", "tracks.png", "timeline.png"
    }  # fmt: skip
    assert json.loads((directory / "summary.json").read_text())["verdict"] == summary["verdict"]
    assert Scenario.load(str(directory / "scenario.yaml")) == run.scenario
    table = pq.read_table(directory / "metrics.parquet")
    assert table["time"].to_pylist() == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert {"carriers_retrieved", "distance_per_robot", "collisions", "energy_wh"} <= set(table.column_names)
    before = (directory / "tracks.png").stat().st_mtime_ns
    redraw(directory)
    assert (directory / "tracks.png").stat().st_mtime_ns > before


def test_a_recording_is_written_when_wanted(scenario_data, tmp_path):
    run = run_of(scenario_data, time_limit=0.5)
    run.go(tmp_path)
    assert (run.directory / "recording.mcap").stat().st_size > 1000


def test_a_controller_that_raises_fails_the_run_and_keeps_what_was_recorded(scenario_data, tmp_path):
    controller = {"name": "fake_controllers:Drives", "fails_at": 1.0}
    run = run_of(scenario_data, controller=controller)
    summary = run.go(tmp_path)
    assert summary["verdict"] == "failed"
    assert summary["reason"].startswith(
        "dots1: controller fake_controllers:Drives: ZeroDivisionError: by hand"
    )
    assert "conftest.py, line" in summary["reason"]
    assert summary["sim_seconds"] == pytest.approx(1.0)
    assert len(run.track.times) == 9
    assert "by hand" in (run.directory / "failure.txt").read_text()
    for name in ("summary.json", "recording.mcap", "metrics.parquet", "tracks.png"):
        assert (run.directory / name).exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Exits", "dots1: controller fake_controllers:Exits: SystemExit: 0 (test_runner.py"),
        ("Silent", "dots1: controller fake_controllers:Silent: RunError: its `doing` is None"),
    ],
)
def test_a_program_that_misbehaves_is_named(scenario_data, tmp_path, monkeypatch, name, reason):
    drives = sys.modules["fake_controllers"].Drives

    class Exits(drives):
        def tick(self):
            sys.exit(0)

    class Silent(drives):
        def tick(self):
            self.doing = None

    for made in (Exits, Silent):
        monkeypatch.setattr(sys.modules["fake_controllers"], made.__name__, made, raising=False)
    scenario = check(
        {**scenario_data, "controller": {"name": f"fake_controllers:{name}"}}, Scenario, "t.yaml"
    )
    warm_up(scenario, "t.yaml")
    run = Run(scenario, "t.yaml")
    summary = run.go(tmp_path)
    assert summary["verdict"] == "failed"
    assert summary["reason"].startswith(reason)
    assert (run.directory / "summary.json").exists()


def test_commands_that_robots_refuse_are_counted(scenario_data, monkeypatch):
    drives = sys.modules["fake_controllers"].Drives

    class Mistaken(drives):
        def tick(self):
            self.robot.act(None)

    monkeypatch.setattr(sys.modules["fake_controllers"], "Mistaken", Mistaken, raising=False)
    summary = run_of(scenario_data, controller={"name": "fake_controllers:Mistaken"}).go()
    assert summary["refused"] == {"command.type": 40}
    assert run_of(scenario_data).go()["refused"] == {}


def test_a_world_that_cannot_be_made_is_named(scenario_data, monkeypatch):
    def broken(scene, seed):  # noqa: ARG001 - it gets no further
        int("one")

    monkeypatch.setattr(sys.modules["fake_world"], "broken", broken, raising=False)
    with pytest.raises(RunError, match=r"world fake_world:broken cannot be made: ValueError.*test_runner"):
        run_of(scenario_data, world="fake_world:broken")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("track.npz", b"", "cannot be read as a run's track"),
        ("track.npz", b"PK but no more", "cannot be read as a run's track"),
        ("summary.json", b"[]", "is no run's summary"),
        ("summary.json", b"{}", "is no run's summary"),
        ("scenario.yaml", None, "not of the same run"),
    ],
)
def test_damaged_runs_are_told(scenario_data, tmp_path, file, content, message):
    run = run_of(scenario_data, time_limit=0.5)
    run.go(tmp_path, record=False)
    damaged = run.directory / file
    text = damaged.read_bytes().replace(b"count: 2", b"count: 1")
    damaged.write_bytes(text if content is None else content)
    with pytest.raises(RunError, match=message):
        redraw(run.directory)


def test_ctrl_c_writes_the_summary_of_what_was_run(scenario_data, tmp_path):
    controller = {"name": "fake_controllers:Drives", "interrupts_at": 1.0}
    run = run_of(scenario_data, controller=controller)
    summary = run.go(tmp_path, record=False)
    assert summary["verdict"] == "interrupted"
    assert "1.0 s" in summary["reason"]
    assert (run.directory / "summary.json").exists()


def test_a_run_that_fails_at_once_has_no_picture_but_a_summary(scenario_data, tmp_path):
    controller = {"name": "fake_controllers:Drives", "fails_at": 0.0}
    run = run_of(scenario_data, controller=controller)
    assert run.go(tmp_path, record=False)["verdict"] == "failed"
    assert (run.directory / "summary.json").exists()


def test_one_seed_gives_one_run(scenario_data):
    def metrics(seed):
        run = run_of(scenario_data, seed=seed, controller={"name": "fake_controllers:Drives"})
        return run.go()["metrics"], run.track.poses

    (first, poses), (again, same) = metrics(5), metrics(5)
    assert first == again
    assert (poses == same).all()
    assert not (metrics(6)[1] == poses).all()


def test_the_seed_is_that_of_the_controllers_too(scenario_data):
    robots = [{"place": {"poses": [[1, 0, 0]]}}]
    turns = [run_of(scenario_data, robots=robots, seed=seed).controllers[0].turn for seed in (5, 5, 6)]
    assert turns[0] == turns[1] != turns[2]


@pytest.mark.parametrize("bound", ["FEW", "POSES"])
def test_of_many_robots_or_poses_one_a_second_is_kept(scenario_data, monkeypatch, bound):
    monkeypatch.setattr(f"swarmbed_experiments.runner.{bound}", 1)
    run = run_of(scenario_data)
    run.go()
    assert run.track.times == pytest.approx([1.0, 2.0])


def test_pacing_takes_its_time_and_changes_nothing(scenario_data):
    fast = run_of(scenario_data, time_limit=0.5)
    paced = run_of(scenario_data, time_limit=0.5)
    fast.go()
    assert paced.go(speed=2.0)["wall_seconds"] >= 0.2
    assert (fast.track.poses == paced.track.poses).all()


def test_a_devs_model_of_ones_own_is_a_program_in_simulated_and_in_real_time(tmp_path, monkeypatch):
    """The one of docs/devs.md, as it stands there, on whole robots."""
    page = (Path(__file__).parents[3] / "docs" / "devs.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^swarm = ", page, re.MULTILINE | re.DOTALL)
    (controller,) = re.findall(r"^controller: (\{.*)$", page, re.MULTILINE)
    (tmp_path / "my_models.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    data = {
        "version": 1,
        "title": "patrol",
        "world": "planar",
        "time_limit": 20,
        "robots": [{"count": 2, "place": {"poses": [[1.0, 0.0, 0.0], [-1.0, 0.5, 2.0]]}}],
        "controller": yaml.safe_load(controller),
    }
    fast, paced = run_of(data), run_of(data)
    summary = fast.go()
    assert summary["verdict"] == "accepted"
    assert summary["metrics"]["distance_per_robot"] > 1.0
    assert {"driving", "turning"} <= set(fast.track.deeds)
    assert paced.go(speed=10.0)["wall_seconds"] >= 1.9
    assert (fast.track.poses == paced.track.poses).all()


def test_progress_is_told_at_every_tick(scenario_data):
    times = []
    run_of(scenario_data, time_limit=0.5).go(progress=lambda run: times.append(run.time))
    assert times == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])


def test_one_that_rejects_ends_the_run(scenario_data):
    from swarmbed_core.world import Contact

    run = run_of(scenario_data, frame={"acceptors": [{"name": "elapsed"}, {"name": "safe"}]})
    run.world.touched = [Contact(0.05, "dots1", "dots2", 0.3)]
    summary = run.go()
    assert (summary["verdict"], summary["sim_seconds"]) == ("rejected", pytest.approx(0.1))
    assert "dots1 touched dots2 at 0.30 m/s" in summary["reason"]


def test_what_is_open_when_time_is_up_rejects(scenario_data):
    run = run_of(scenario_data, frame={"acceptors": [{"name": "safe"}, {"name": "retrieved"}]})
    summary = run.go()
    assert (summary["verdict"], summary["reason"]) == ("rejected", "0 of 2 carriers retrieved in 2.0 s")


def test_content_ones_do_not_end_a_run_but_let_it_be_accepted(scenario_data):
    summary = run_of(scenario_data, frame={"acceptors": [{"name": "safe"}]}).go()
    assert (summary["verdict"], summary["sim_seconds"]) == ("accepted", pytest.approx(2.0))


def test_a_crowd_is_driven_by_one_program(scenario_data):
    robots = [{"count": 3, "crowd": True, "place": {"zone": "drop"}}]
    run = run_of(scenario_data, world="fake_world:make_crowd", robots=robots)
    assert run.go()["verdict"] == "accepted"
    assert run.world.made.v_body[:, 0] == pytest.approx([0.2] * 3)
    assert run.track.doing.shape == (20, 3)


def test_a_crowd_needs_a_world_for_crowds(scenario_data):
    robots = [{"count": 3, "crowd": True, "place": {"zone": "drop"}}]
    with pytest.raises(ConfigError, match="drives no crowds"):
        run_of(scenario_data, robots=robots)


def test_a_controller_that_cannot_be_made_is_named(scenario_data):
    with pytest.raises(RunError, match=r"dots1: controller fake_controllers:Broken cannot be made"):
        run_of(scenario_data, controller={"name": "fake_controllers:Broken"})


def test_localised_robots_are_told_where_they_start(scenario_data):
    robots = [{"localised": True, "place": {"poses": [[1.0, 0.5, 0.2]]}}]
    run = run_of(scenario_data, robots=robots)
    assert run.robots[0].onboard.filter.pose == pytest.approx([1.0, 0.5, 0.2])
    strangers = run_of(scenario_data)
    assert not strangers.robots[0].onboard.filter.localised


def test_the_dead_are_not_ticked(scenario_data):
    run = run_of(scenario_data, controller={"name": "fake_controllers:Drives", "fails_at": 0.5})
    run.setting.dead |= {"dots1", "dots2"}
    assert run.go()["verdict"] == "accepted"
    assert set(run.track.deeds) == {"dead"}


def test_a_track_survives_its_file(tmp_path):
    track = Track(
        robots=("a", "b"),
        carriers=("c",),
        times=np.array([0.1, 0.2]),
        poses=np.arange(12.0).reshape(2, 2, 3),
        doing=np.array([[0, 1], [1, 0]]),
        deeds=("explore", "carry"),
        carrier_poses=np.ones((2, 1, 3)),
        carried_by=np.array([[-1], [1]]),
        events=(Event(0.2, "lifted", "b", "lifts c"),),
    )
    track.save(tmp_path / "track.npz")
    again = Track.load(tmp_path / "track.npz")
    for name in ("robots", "carriers", "deeds", "events"):
        assert getattr(again, name) == getattr(track, name)
    for name in ("times", "poses", "doing", "carrier_poses", "carried_by"):
        assert (getattr(again, name) == getattr(track, name)).all()


@pytest.mark.parametrize("content", [None, b"nonsense"])
def test_what_is_no_track_is_told(tmp_path, content):
    file = tmp_path / "track.npz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(RunError, match=r"track\.npz"):
        Track.load(file)


def test_warming_up_leaves_nothing(scenario_data):
    warm_up(check(scenario_data, Scenario, "t"), "t", 0.2)


HASH = """
import hashlib, sys
from swarmbed_experiments.runner import Run
from swarmbed_experiments.scenarios import load_scenario
case = load_scenario("intralogistics_cooperative", ["time_limit=4"], world=sys.argv[1], seed=77)
run = Run(*case)
run.go()
track = run.track
print(hashlib.sha256(track.poses.tobytes() + track.carrier_poses.tobytes()).hexdigest())
"""


@pytest.mark.parametrize("world", ["mujoco", "planar"])
def test_two_processes_give_the_same_bits(world):
    words = [sys.executable, "-c", HASH, world]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    first, second = (
        subprocess.run(words, capture_output=True, text=True, env=environment, timeout=100, check=True)
        for environment in environments
    )
    assert len(first.stdout.strip()) == 64
    assert first.stdout == second.stdout


@pytest.mark.parametrize("world", ["mujoco", "planar"])
def test_a_second_run_in_one_process_gives_the_same_bits(world):
    case = load_scenario("intralogistics_cooperative", ["time_limit=4"], world=world, seed=78)
    tracks = []
    for _ in range(2):
        run = Run(*case)
        run.go()
        run.close()
        tracks.append(run.track)
    assert (tracks[0].poses == tracks[1].poses).all()
    assert tracks[0].deeds == tracks[1].deeds


def test_a_load_that_shifts_on_its_platform_is_set_down_and_taken_anew():
    sets = ["robots.0.count=1", "carriers.0.count=1", "time_limit=120"]
    scenario, source = load_scenario("intralogistics_cooperative", sets, seed=1)
    run = Run(scenario, source)
    physics, decided, shifted = run.world.physics, None, False
    while decided is None:
        look = run.tick()
        if not shifted and look.carriers.carried_by[0] == 0 and look.robots[0, 0] > -0.3:
            shifted = True
            # By a hit that nobody noticed: its legs are now where the sensors do not expect them.
            at, _ = physics._indices.bodies[0]
            yaw = look.carriers.poses[0, 2] + math.radians(25.0)
            physics._qpos[at + 3 : at + 7] = math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
        decided = run._judge(look)
    assert decided[0] == "accepted"
    found = {name: value for part in run.transducers for name, value in part.metrics().items()}
    assert found["lifts"] == 2
    run.close()
