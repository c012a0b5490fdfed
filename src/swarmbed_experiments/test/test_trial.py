"""The world of a run whose programs are elsewhere: judged, recorded, and kept whatever happens."""

from __future__ import annotations

import json
import math

import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")
pytest.importorskip("swarmbed_interfaces", reason="the workspace is not built; run scripts/setup")

from swarmbed_core.config import check
from swarmbed_core.errors import ConfigError
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.launching.trial import OPTIONS, REJECTED, HostedRun, start
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.track import Track
from swarmbed_robot.domains import own_domain
from swarmbed_robot.nodes import Spinner

pytestmark = pytest.mark.slow

DEFAULTS = {option.name: option.default for option in OPTIONS}


@pytest.fixture
def pictures():
    """Ask for pictures, which take longer than all the rest."""


@pytest.fixture(autouse=True)
def _no_pictures(request, monkeypatch):
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr("swarmbed_experiments.runs.output.draw", lambda *_: [])


@pytest.fixture
def stage(scenario_data, tmp_path):
    """Return what makes a stage of a scenario with some changes, in an empty directory."""
    made = []

    def make(*, record=False, **changes) -> HostedRun:
        case = check({**scenario_data, **changes}, Scenario, "t.yaml")
        directory = tmp_path / f"run{len(made)}"
        directory.mkdir()
        made.append(HostedRun(case, "folder/t.yaml", directory, record=record))
        return made[-1]

    return make


def ticks(stage: HostedRun, count: int, **doing: str) -> bool:
    """Let ticks pass as a host does; return whether it was over at the last."""
    for _ in range(count):
        stage.say(doing)
        for _ in range(10):
            stage.runner.cycle()
    return stage.runner.over


def left(stage: HostedRun) -> dict:
    return json.loads((stage.directory / "summary.json").read_text())


def test_a_stage_is_a_run_with_places_for_programs(stage):
    here = stage()
    assert [robot.name for robot in here.robots] == ["dots1", "dots2"]
    assert here.seed == here.scenario.seed
    assert "set `open: true`" in here.fixed
    here.close()
    there = stage(open=True)
    assert there.fixed == ""
    there.close()


def test_it_is_over_when_its_frame_has_decided(stage):
    here = stage()
    assert not ticks(here, 19)
    assert here.verdict()[0] == ""
    assert ticks(here, 1)
    assert here.verdict()[0] == "accepted"
    # From then on nothing moves any more.
    before = here.world.time
    assert ticks(here, 3)
    assert here.world.time == before == pytest.approx(2.0)
    here.close()
    assert left(here)["verdict"] == "accepted"
    assert here.world.closed


def test_what_programs_say_is_in_the_track_and_the_missing_say_nothing(stage):
    here = stage()
    ticks(here, 2, dots1="sweep")
    ticks(here, 2, dots1="dock", dots2="wait")
    here.close()
    track = Track.load(here.directory / "track.npz")
    said = [[track.deeds[k] for k in row] for row in track.doing]
    assert said == [["sweep", ""]] * 2 + [["dock", "wait"]] * 2


def test_commands_move_its_robots_as_in_a_run_of_one_process(stage, scenario_data):
    changes = {"controller": {"name": "fake_controllers:Drives"}, "time_limit": 1.0}
    run = Run(check({**scenario_data, **changes}, Scenario, "t.yaml"), "folder/t.yaml")
    run.go()
    here = stage(**changes)
    turns = [controller.turn for controller in run.controllers]

    def answer():
        for robot, turn in zip(here.robots, turns, strict=True):
            robot.sense()
            robot.act(Command(velocity_body=(0.2, 0.0, turn)))
        return True

    here.runner.before_tick = answer
    here.runner.run()
    assert here.track.poses.tolist() == run.track.poses.tolist()
    here.close()


def test_how_it_stands_is_told_while_it_goes_on(stage):
    here = stage(frame={"acceptors": [{"name": "retrieved"}]})
    ticks(here, 1)
    verdict, reason = here.verdict()
    assert verdict == ""
    assert "0 of 2" in reason
    here.close()


@pytest.mark.usefixtures("pictures")
def test_what_ends_early_is_kept_as_interrupted(stage):
    here = stage()
    ticks(here, 7)
    here.close()
    summary = left(here)
    assert (summary["verdict"], summary["scenario"]) == ("interrupted", "t")
    assert summary["reason"] == "stopped after 0.7 s"
    assert summary["sim_seconds"] == pytest.approx(0.7)
    assert summary["wall_seconds"] > 0
    assert {path.name for path in here.directory.iterdir()} >= {
        *("scenario.yaml", "summary.json", "metrics.parquet", "track.npz", "tracks.png", "timeline.png"),
    }


def test_what_never_began_is_kept_too(stage):
    here = stage()
    here.close()
    assert left(here)["wall_seconds"] == 0.0


def test_closing_again_writes_nothing_again(stage):
    here = stage()
    ticks(here, 1)
    here.close()
    file = here.directory / "summary.json"
    file.unlink()
    here.close()
    assert not file.exists()


@pytest.mark.parametrize("record", [True, False])
def test_it_is_recorded_if_asked(stage, record):
    here = stage(record=record)
    ticks(here, 2)
    here.close()
    assert (here.directory / "recording.mcap").exists() == record


@pytest.mark.parametrize("part", ["step", "_frame"])
def test_what_fails_is_told_and_kept(stage, part):
    here = stage()
    ticks(here, 3)

    def fails(*_):
        message = "the floor gave way"
        raise ZeroDivisionError(message)

    where = {"step": here.swarm, "_frame": here}[part]
    sound = getattr(where, part)
    setattr(where, part, fails)
    assert ticks(here, 1)
    verdict, reason = here.verdict()
    assert verdict == "failed"
    assert "the floor gave way" in reason
    before = here.world.time
    setattr(where, part, sound)
    assert ticks(here, 2)
    assert here.world.time == before
    here.close()
    assert left(here)["verdict"] == "failed"
    text = (here.directory / "failure.txt").read_text()
    assert text.startswith("Traceback")
    assert "ZeroDivisionError: the floor gave way" in text


def test_the_dead_are_silent(stage):
    here = stage(frame={"acceptors": [{"name": "elapsed"}]})
    assert here.dead == set()
    here.setting.dead.add("dots2")
    assert here.dead == {"dots2"}
    ticks(here, 1, dots1="go", dots2="go")
    here.close()
    track = Track.load(here.directory / "track.npz")
    assert [track.deeds[k] for k in track.doing[0]] == ["go", "dead"]


def test_results_that_cannot_be_written_are_told_and_the_world_is_given_back(stage):
    here = stage()
    ticks(here, 1)
    here.output.directory = here.directory / "gone"
    here.close()
    assert any(
        fault.endswith("summary.json: cannot be written (No such file or directory)")
        for fault in here.summary["faults"]
    )
    assert here.world.closed


def test_a_crowd_has_no_programs_elsewhere(stage):
    crowd = [{"count": 5, "crowd": True, "place": {"zone": "anywhere"}}]
    with pytest.raises(ConfigError, match="a crowd has no programs of its own"):
        stage(world="fake_world:make_crowd", robots=crowd, carriers=[])


# The node


@pytest.fixture
def domain():
    """A domain that no other process uses."""
    with own_domain() as number:
        yield number


@pytest.fixture
def node(domain, monkeypatch, scenario_data, tmp_path):
    """Return what runs the node to its end on a scenario with some changes, and returns its status."""
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    monkeypatch.setattr("swarmbed_robot.domains.DISCOVERY", 0.05)
    monkeypatch.chdir(tmp_path)
    spinner = Spinner(domain=domain)

    def run(changes: dict, call=None, **options) -> int:
        file = tmp_path / "t.yaml"
        file.write_text(yaml.safe_dump({**scenario_data, **changes}), encoding="utf-8")
        made = spinner.node("world")
        if call is not None:
            made.create_timer(0.01, lambda: call(spinner))
        told = DEFAULTS | {"scenario": str(file), "speed": "max", "wait": False} | options
        return start(spinner, made, told)

    yield run
    spinner.close()


def test_the_status_is_0_for_what_is_accepted(node, tmp_path, capfd):
    assert node({}, seed=77) == 0
    [directory] = (tmp_path / "runs").iterdir()
    assert directory.name.startswith("t-")
    summary = json.loads((directory / "summary.json").read_text())
    assert (summary["verdict"], summary["seed"], summary["scenario"]) == ("accepted", 77, "t")
    assert (directory / "recording.mcap").exists()
    said = capfd.readouterr().err
    assert "2 robots in ROS domain" in said
    assert f"accepted: {summary['reason']}" in said


def test_the_status_is_1_for_what_is_rejected(node):
    assert node({"frame": {"acceptors": [{"name": "retrieved"}]}, "time_limit": 0.5}) == REJECTED == 1


def test_the_status_is_130_for_what_is_interrupted(node):
    def stop(spinner):
        spinner.stopping = True

    assert node({"time_limit": 1000.0}, stop, speed="1") == 130


def test_where_and_under_which_name_the_results_are_can_be_told(node, tmp_path):
    there = tmp_path / "deep" / "there"
    assert node({"time_limit": 0.5}, directory=str(there), name="mine", record=False) == 0
    assert json.loads((there / "summary.json").read_text())["scenario"] == "mine"
    assert not (there / "recording.mcap").exists()
    assert not (tmp_path / "runs").exists()


def test_a_file_in_the_way_of_the_results_is_told(node, tmp_path):
    (tmp_path / "there").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match=r"there: cannot be made \(File exists\); choose another --directory"):
        node({}, directory=str(tmp_path / "there"))


def test_a_reset_is_a_run_of_its_own(node, tmp_path):
    hosts = []
    from swarmbed_experiments.launching import trial as module

    inner = module.WorldHost

    class Host(inner):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            hosts.append(self)

    asked = []

    def reset(_spinner):
        if hosts and not asked and hosts[0].stage.world.time > 0.2:
            asked.append(hosts[0].stage.time)
            hosts[0].reset(5)

    module.WorldHost = Host
    try:
        assert node({"seed": 4, "time_limit": 3.0}, reset, speed="4", directory=str(tmp_path / "first")) == 0
    finally:
        module.WorldHost = inner
    assert asked
    first = json.loads((tmp_path / "first" / "summary.json").read_text())
    assert (first["verdict"], first["seed"]) == ("interrupted", 4)
    [again] = (tmp_path / "runs").iterdir()
    second = json.loads((again / "summary.json").read_text())
    assert (second["verdict"], second["seed"]) == ("accepted", 5)
    assert math.isclose(second["sim_seconds"], 3.0)


def test_a_scenario_that_is_wrong_is_told_before_anything_is_written(node, tmp_path):
    with pytest.raises(ConfigError, match="no controller 'nobodys'"):
        node({"controller": {"name": "nobodys"}})
    assert not (tmp_path / "runs").exists()
