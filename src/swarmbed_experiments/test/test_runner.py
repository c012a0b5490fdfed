"""The loop: what is ticked when, how it ends, and what it leaves whatever happens."""

import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from swarmbed_core.config import check, share_dir
from swarmbed_core.controller import NoParameters
from swarmbed_core.errors import ConfigError
from swarmbed_core.observing import Event
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.frame import Judgement, Stand
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.output import redraw
from swarmbed_experiments.runs.run import Run, warm_up
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_experiments.runs.track import Track, Tracker

pytestmark = pytest.mark.slow


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
        "scenario.yaml", "files", "summary.json", "manifest.json", "metrics.parquet", "track.npz",
        "tracks.png", "timeline.png"
    }  # fmt: skip
    assert json.loads((directory / "summary.json").read_text())["verdict"] == summary["verdict"]
    packed = Scenario.load(str(directory / "scenario.yaml"))
    files = directory / "files"
    assert packed.arena == str(files / "worlds" / "dots_arena.yaml")
    named = {"name": "t", "arena": packed.arena, "carrier_markers": packed.carrier_markers}
    kind = {"kind": str(files / "robots" / "dots.yaml")}
    robots = tuple(group.model_copy(update=kind) for group in run.scenario.robots)
    assert packed == run.scenario.model_copy(update={**named, "robots": robots})
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


def test_a_program_that_does_not_return_fails_the_run_with_its_line(scenario_data, tmp_path, monkeypatch):
    drives = sys.modules["fake_controllers"].Drives

    class Loops(drives):
        def tick(self):
            while self.robot:
                pass

    monkeypatch.setattr(sys.modules["fake_controllers"], "Loops", Loops, raising=False)
    run = run_of(scenario_data, controller={"name": "fake_controllers:Loops"})
    summary = run.go(tmp_path, limits=Limits(tick=1.0))
    assert summary["verdict"] == "failed"
    who = "dots1: controller fake_controllers:Loops"
    assert summary["reason"].startswith(f"{who} has not returned for 1 s (test_runner.py, line ")
    assert (run.directory / "failure.txt").exists()


def test_pacing_is_no_hanging(scenario_data):
    summary = run_of(scenario_data, time_limit=0.2).go(speed=0.1, limits=Limits(tick=0.3))
    assert summary["verdict"] == "accepted"


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
        ("summary.json", b"[]", "not a run's summary"),
        ("summary.json", b"{}", "not a run's summary"),
        ("scenario.yaml", None, "are from different runs"),
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
    assert "Ctrl-C after 1.0 s" in summary["reason"]
    assert run.interrupts.status == 130
    assert (run.directory / "summary.json").exists()
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_sigterm_ends_a_run_likewise_where_it_is_asked_for(scenario_data, tmp_path, each_tick):
    def end(snapshot):
        if snapshot.time > 0.95:
            signal.raise_signal(signal.SIGTERM)

    run = run_of(scenario_data)
    each_tick(run, end)
    summary = run.go(tmp_path, record=False, terminate=True)
    assert (summary["verdict"], summary["reason"]) == ("interrupted", "stopped by SIGTERM after 1.0 s")
    assert run.interrupts.status == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert len(run.track.times) == 10


def test_an_interrupt_that_a_program_raises_itself_is_its_failure(scenario_data, tmp_path, monkeypatch):
    def end(*_):
        raise KeyboardInterrupt

    run = run_of(scenario_data)
    monkeypatch.setattr(run.controllers[0], "tick", end)
    summary = run.go(tmp_path, record=False)
    assert summary["verdict"] == "failed"
    assert "controller fake_controllers:Drives: KeyboardInterrupt" in summary["reason"]


def test_an_interrupt_that_a_program_swallows_ends_the_run_all_the_same(scenario_data, each_tick):
    def end(snapshot):
        if snapshot.time > 0.45:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    run = run_of(scenario_data)
    each_tick(run, end)
    summary = run.go()
    assert (summary["verdict"], summary["sim_seconds"]) == ("interrupted", pytest.approx(0.5))


class Odd:
    """A transducer that returns what no file holds, beside what files hold."""

    Parameters = NoParameters

    def __init__(self, parameters, setting):  # noqa: ARG002 - as all are made
        self.setting, self.time = setting, 0.0

    def tick(self, look):
        self.time = look.time
        if round(look.time * 10) == 5:
            self.setting.tell(np.float32(look.time), np.str_("odd"), 7, {"any": "thing"})
            self.setting.events.append(Event(None, "no", "time", "at all"))

    def row(self):
        row = {"mixed": 1 if self.time < 1 else "one", "array": np.arange(2), "gap": math.nan, "time": "mine"}
        return row if self.time < 1.2 else {**row, "new": np.float32(0.5), "nested": {"a": [1, {2}]}}

    def metrics(self):
        return {
            "scalar": np.float32(0.5),
            "array": np.eye(2),
            "set": {2, 1},
            "nothing": math.nan,
            "seed": "mine",
            "verdict": np.int64(3),
            "lock": threading.Lock(),
            7: "seven",
        }


class Mute(Exception):  # noqa: N818 - a user's
    def __str__(self):
        raise RuntimeError


class Raises(Odd):
    """A transducer whose metrics are an error that cannot even be told."""

    def row(self):
        return None

    def metrics(self):
        raise Mute


class Exits(Odd):
    """An acceptor that judges, and then leaves."""

    def judge(self, look, *, over):
        return Judgement(Stand.ACCEPTED if over else Stand.OPEN, f"half \ud800 at {look.time:.1f} s")

    def metrics(self):
        raise GeneratorExit


class Listed(Odd):
    """A transducer of the same names as another, and one that returns no mapping."""

    def row(self):
        return {"mixed": 5}

    def metrics(self):
        return ["no", "mapping"]


@pytest.fixture
def odd(monkeypatch):
    """Let scenarios name what is above."""
    module = types.ModuleType("odd_parts")
    module.Odd, module.Raises, module.Exits, module.Listed = Odd, Raises, Exits, Listed
    monkeypatch.setitem(sys.modules, "odd_parts", module)


@pytest.mark.usefixtures("odd")
def test_what_can_be_written_is_and_what_cannot_is_named(scenario_data, tmp_path):
    names = ("travel", "odd_parts:Raises", "odd_parts:Odd", "odd_parts:Listed", "odd_parts:Odd")
    frame = {
        "transducers": [{"name": name} for name in names],
        "acceptors": [{"name": "odd_parts:Exits"}],
    }
    run = run_of(scenario_data, frame=frame)
    summary = run.go(tmp_path)
    assert summary["verdict"] == "accepted"
    written = json.loads((run.directory / "summary.json").read_text())
    assert written["faults"] == summary["faults"] == run.faults
    assert summary["reason"] == "half ? at 2.0 s"
    metrics = summary["metrics"]
    assert metrics["distance_per_robot"] > 0
    assert metrics["scalar"] == 0.5
    assert metrics["array"] == [[1, 0], [0, 1]]
    assert (metrics["set"], metrics["nothing"], metrics["lock"], metrics["7"]) == (
        [1, 2],
        None,
        None,
        "seven",
    )
    assert (metrics["seed"], metrics["verdict"], metrics["Odd.seed"]) == ("mine", 3, "mine")
    assert (written["seed"], written["verdict"]) == (1, "accepted")
    named = "\n".join(run.faults)
    for fault in (
        "transducer Odd: metrics(): lock is of type lock",
        "transducer Raises: metrics(): Mute: (its message cannot be shown: ",
        "transducer Raises: row(): returned NoneType",
        "transducer Listed: metrics(): returned list",
        "acceptor Exits: metrics(): GeneratorExit",
        "an event: TypeError",
    ):
        assert fault in named
    rows = pq.read_table(run.directory / "metrics.parquet").to_pylist()
    assert [row["time"] for row in rows] == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert [row["mixed"] for row in rows] == ["1", '"one"', '"one"', '"one"']
    assert rows[0]["Listed.mixed"] == 5
    assert (rows[0]["array"], rows[0]["Odd.time"]) == ([0, 1], "mine")
    assert [row["new"] for row in rows] == [None, None, 0.5, 0.5]
    assert rows[3]["nested"] == '{"a": [1, [2]]}'
    assert math.isnan(rows[0]["gap"])
    event = Track.load(run.directory / "track.npz").events[0]
    assert (event.kind, event.who, event.text) == ("odd", "7", "{'any': 'thing'}")
    assert (run.directory / "timeline.png").exists()
    assert not (run.directory / "unfinished.journal").exists()


@pytest.mark.usefixtures("odd")
def test_metrics_of_crowds_and_controllers_are_mended_alike(scenario_data, monkeypatch):
    robots = [{"count": 3, "crowd": True, "place": {"zone": "drop"}}]
    made = type(run_of(scenario_data, world="fake_world:make_crowd", robots=robots).crowd[1])
    monkeypatch.setattr(made, "metrics", lambda _: {"a": np.int8(3), "b": object()}, raising=False)
    summary = run_of(scenario_data, world="fake_world:make_crowd", robots=robots).go()
    assert (summary["metrics"]["a"], summary["metrics"]["b"]) == (3, None)
    assert "controller fake_controllers:Drives: metrics(): b is of type object" in summary["faults"][0]


@pytest.mark.parametrize(
    "broken", ["metrics.parquet", "track.npz", "tracks.png", "recording.mcap", "manifest.json"]
)
def test_a_file_that_cannot_be_written_costs_no_other(scenario_data, tmp_path, monkeypatch, broken):
    begin = Run.begin

    def obstructed(run, directory, **options):
        begin(run, directory, **options)
        (directory / "manifest.json").unlink()
        if broken == "recording.mcap":
            monkeypatch.setattr(run.output.recorder, "tick", lambda *_: 1 / 0)
        else:
            (directory / broken).mkdir()

    monkeypatch.setattr(Run, "begin", obstructed)
    run = run_of(scenario_data, time_limit=0.5)
    summary = run.go(tmp_path)
    assert (summary["verdict"], summary["sim_seconds"]) == ("accepted", pytest.approx(0.5))
    (fault,) = json.loads((run.directory / "summary.json").read_text())["faults"]
    assert broken in fault
    files = {"metrics.parquet", "track.npz", "tracks.png", "timeline.png", "recording.mcap", "manifest.json"}
    assert all((run.directory / name).is_file() for name in files - {broken} | {"summary.json"})
    # What is in no other file is kept.
    kept = broken in {"metrics.parquet", "track.npz"}
    assert (run.directory / "unfinished.journal").exists() is kept


@pytest.mark.parametrize("raised", [GeneratorExit, KeyboardInterrupt, Mute, SystemExit(3)])
def test_whatever_a_program_raises_is_its_failure(scenario_data, tmp_path, monkeypatch, raised):
    def tick(_):
        raise raised

    drives = sys.modules["fake_controllers"].Drives
    monkeypatch.setattr(drives, "tick", tick)
    scenario = check(scenario_data, Scenario, "t.yaml")
    warm_up(scenario, "t.yaml")
    run = Run(scenario, "t.yaml")
    summary = run.go(tmp_path, record=False)
    name = getattr(raised, "__name__", type(raised).__name__)
    assert (summary["verdict"], run.faults) == ("failed", [])
    assert summary["reason"].startswith(f"dots1: controller fake_controllers:Drives: {name}")
    assert name in (run.directory / "failure.txt").read_text()


def test_a_world_that_cannot_be_closed_is_named_and_costs_nothing(scenario_data, tmp_path):
    run = run_of(scenario_data, time_limit=0.5)
    run.world.close = lambda: 1 / 0
    run.go(tmp_path, record=False)
    run.close()
    (fault,) = json.loads((run.directory / "summary.json").read_text())["faults"]
    assert fault.startswith("world fake_world:make: close(): ZeroDivisionError")


def test_any_number_of_different_deeds_is_tracked(tmp_path):
    count = 2**15 + 2
    track = Track(
        robots=("a",),
        carriers=(),
        times=np.arange(count) / 10,
        poses=np.zeros((count, 1, 3)),
        doing=np.arange(count)[:, None],
        deeds=tuple(map(str, range(count))),
        carrier_poses=np.zeros((count, 0, 3)),
        carried_by=np.zeros((count, 0), dtype=np.int64),
        events=(),
    )
    track.save(tmp_path / "track.npz")
    assert (Track.load(tmp_path / "track.npz").doing == track.doing).all()


def snapshot(time, names, robots, doing=(), carriers=None):
    return types.SimpleNamespace(
        time=time, names=names, robots=robots, poses=robots[:, :3], doing=doing, carriers=carriers
    )


def test_robots_that_join_and_leave_keep_their_columns():
    tracker = Tracker(("a", "b"), ("c",), 1.0)
    here = [("a", "b"), ("a", "b", "d"), ("a", "d"), ("d", "b"), ("a", "b", "d")]
    poses = {name: np.full(6, float(k)) for k, name in enumerate("abd")}
    for k, names in enumerate(here):
        carriers = types.SimpleNamespace(poses=np.zeros((1, 3)), carried_by=np.array([len(names) - 1]))
        tracker.add(snapshot(k / 10, names, np.array([poses[name] for name in names]), names, carriers))
    track = tracker.track(())
    assert track.robots == ("a", "b", "d")
    for k, names in enumerate(here):
        for column, name in enumerate(track.robots):
            x = track.poses[k, column, 0]
            assert x == column if name in names else np.isnan(x)
            assert track.deeds[track.doing[k, column]] == (name if name in names else "")
        assert track.robots[track.carried_by[k, 0]] == names[-1]


def test_a_crowd_that_says_late_what_it_does_is_tracked():
    names = ("a", "b")
    tracker = Tracker(names, (), 1.0)
    for k, doing in enumerate([(), ("x", "y"), (), ("x", "x")]):
        tracker.add(snapshot(k / 10, names, np.zeros((2, 6)), doing))
    track = tracker.track(())
    assert [[track.deeds[deed] for deed in row] for row in track.doing] == [
        ["", ""], ["x", "y"], ["", ""], ["x", "x"]
    ]  # fmt: skip


def test_a_sample_that_is_interrupted_does_not_count():
    names = ("a",)
    tracker = Tracker(names, ("c",), 1.0)
    carriers = types.SimpleNamespace(poses=np.zeros((1, 3)), carried_by=np.zeros(1, dtype=np.int64))
    tracker.add(snapshot(0.1, names, np.zeros((1, 6)), ("x",), carriers))
    with pytest.raises(AttributeError):
        tracker.add(snapshot(0.2, names, np.ones((1, 6)), ("y",)))
    track = tracker.track(())
    assert (track.times.tolist(), track.poses.shape, track.doing.shape) == ([0.1], (1, 1, 3), (1, 1))


def test_a_run_is_drawn_again_from_anywhere_whatever_became_of_its_files(
    scenario_data, tmp_path, monkeypatch
):
    """By paths relative to the scenario, on another machine, where arenas and robots are gone or others."""
    mine = tmp_path / "mine"
    mine.mkdir()
    share = share_dir()
    for kind, name in (
        ("worlds", "dots_arena"),
        ("config/robots", "dots"),
        ("config/markermaps", "dots_arena"),
    ):
        text = (share / kind / f"{name}.yaml").read_text()
        text = text.replace("marker_map: dots_arena", "marker_map: sub/walls.yaml")
        target = mine / {"worlds": "lab.yaml", "config/robots": "dots.yaml"}.get(kind, "sub/walls.yaml")
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    robots = [{"kind": "dots.yaml", "count": 2, "place": {"zone": "drop"}}]
    data = {**scenario_data, "arena": "lab.yaml", "robots": robots, "time_limit": 0.5}
    (mine / "case.yaml").write_text(yaml.safe_dump(data))
    monkeypatch.chdir(tmp_path)
    run = Run(*load_scenario("mine/case.yaml"))
    run.go(Path("out"), record=False)
    assert run.directory.name.startswith("case-")
    away = tmp_path / "away"
    run.directory.rename(away)
    shutil.rmtree(mine)
    monkeypatch.chdir("/")
    pictures = redraw(away)
    assert [file.name for file in pictures] == ["tracks.png", "timeline.png"]
    again, source = load_scenario(str(away / "scenario.yaml"))
    rerun = Run(again, source)
    assert rerun.name == "case"
    rerun.go()
    assert (rerun.track.poses == run.track.poses).all()


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
    monkeypatch.setattr(f"swarmbed_experiments.runs.track.{bound}", 1)
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
    pytest.importorskip("xdevs", reason="needs xdevs: scripts/setup --devs")
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


def test_who_asks_for_every_tick_sees_every_tick(scenario_data, each_tick):
    times = []
    run = run_of(scenario_data, time_limit=0.5)
    each_tick(run, lambda snapshot: times.append(snapshot.time))
    run.go()
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
    with pytest.raises(ConfigError, match="does not support crowds"):
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
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario
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


def test_a_load_that_shifts_on_its_platform_is_set_down_and_taken_anew(each_tick):
    sets = ["robots.0.count=1", "carriers.0.count=1", "time_limit=120"]
    scenario, source = load_scenario("intralogistics_cooperative", sets, seed=1)
    run = Run(scenario, source)
    shifted = []

    def shift(snapshot):
        if not shifted and snapshot.carriers.carried_by[0] == 0 and snapshot.poses[0, 0] > -0.3:
            shifted.append(snapshot.time)
            # By a hit that nobody noticed: its legs are now where the sensors do not expect them.
            x, y, yaw = snapshot.carriers.poses[0]
            run.world.physics.move_carrier(0, (x, y, yaw + math.radians(25.0)))

    each_tick(run, shift)
    summary = run.go()
    assert summary["verdict"] == "accepted"
    assert shifted
    # Once by the robot, once by the platform below the shifted load, and once more by the robot.
    assert summary["metrics"]["lifts"] == 3
    run.close()
