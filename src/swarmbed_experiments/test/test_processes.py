"""Plans of processes: what runs, with which arguments, and that all that is wrong is told before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")
pytest.importorskip("swarmbed_interfaces", reason="the workspace is not built; run scripts/setup")

from swarmbed_core.config import find
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.launching import trial
from swarmbed_experiments.launching.processes import Process, host_processes, make_processes, robot_processes
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_robot.options import parse

from swarmbed_robot import controller, navigator, onboard, recorder, tf_relay, world

TABLES = {
    "trial": trial.OPTIONS,
    "controller": controller.OPTIONS,
    "recorder": recorder.OPTIONS,
    "world": world.OPTIONS,
    "onboard": onboard.OPTIONS,
    "tf_relay": tf_relay.OPTIONS,
    "navigator": navigator.OPTIONS,
}


def told(process: Process) -> dict:
    """Return what a process is told, as it will read it itself."""
    return parse(process.executable, "", TABLES[process.executable], process.ros_arguments())[0]


def test_a_plan_is_a_world_and_a_program_for_each_robot(tmp_path):
    plan = make_processes("intralogistics", robots=3, seed=4, speed="2", record=True, out=tmp_path)
    assert plan.robots == ("dots1", "dots2", "dots3")
    assert [process.name for process in plan.processes] == [
        "world",
        *(f"dots{k}_controller" for k in (1, 2, 3)),
        "recorder",
    ]
    first = plan.processes[0]
    assert first.needed
    assert not any(process.needed for process in plan.processes[1:])
    assert plan.title == load_scenario("intralogistics")[0].title
    case, _ = load_scenario(first.arguments[0])
    assert (case.seed, case.robots[0].count) == (4, 3)
    program = plan.processes[1]
    assert program.ros_arguments()[-3:] == ("--ros-args", "-r", "__ns:=/dots1")
    assert program.arguments[:3] == ("dots1", "--controller", "reference")
    assert {process.domain for process in plan.processes} == {0}


def test_processes_find_programs_beside_the_scenario_and_know_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/some/where")
    case = tmp_path / "beside"
    case.mkdir()
    (case / "own_acceptor.py").write_text(
        "from swarmbed_experiments.frame.acceptors import Elapsed\nclass Own(Elapsed): ...\n"
    )
    data = yaml.safe_load(find("random_walk", Scenario.FOLDER).read_text())
    data["frame"] = {"acceptors": [{"name": "own_acceptor:Own"}]}
    (case / "my case.yaml").write_text(yaml.safe_dump(data))
    plan = make_processes(str(case / "my case.yaml"), out=tmp_path)
    assert os.environ["PYTHONPATH"] == f"/some/where{os.pathsep}{case}"
    scenario, _ = load_scenario(plan.processes[0].arguments[0])
    assert (scenario.name, plan.directory.name[:8]) == ("my case", "my case-")
    make_processes(str(case / "my case.yaml"), out=tmp_path)
    assert os.environ["PYTHONPATH"] == f"/some/where{os.pathsep}{case}"


def test_every_process_understands_its_arguments(tmp_path):
    plan = make_processes("intralogistics", robots=2, speed="max", record=True, out=tmp_path)
    host, one, two, recording = map(told, plan.processes)
    assert host == {
        "scenario": str(plan.directory / "scenario.yaml"),
        "name": "intralogistics",
        "directory": str(plan.directory),
        "out": str(tmp_path),
        "speed": "max",
        "recorder": True,
    }
    assert (one["robot"], two["robot"]) == ("dots1", "dots2")
    parameters = load_scenario("intralogistics")[0].controller.parameters
    assert yaml.safe_load(one["parameters"]) == dict(parameters)
    assert recording == {"out": str(plan.directory / "rosbag.mcap")}


def test_without_programs_the_world_waits_for_nobody_and_robots_take_goals(tmp_path):
    plan = make_processes("intralogistics", robots=2, programs=False, record=True, out=tmp_path)
    assert [process.name for process in plan.processes] == ["world", "navigator", "recorder"]
    assert plan.robots == ()
    host, navigation, _ = map(told, plan.processes)
    assert host["wait"] is False
    assert navigation == {"robots": ["dots1", "dots2"]}
    assert not plan.processes[1].needed

    apart = make_processes("intralogistics", robots=2, programs=False, isolate=20, out=tmp_path)
    assert [(process.name, process.domain) for process in apart.processes] == [
        ("world", 0),
        ("dots1_navigator", 1),
        ("dots2_navigator", 2),
    ]
    assert told(apart.processes[2]) == {"robots": ["dots2"]}
    with pytest.raises(RunError, match="random_walk"):
        make_processes("intralogistics", programs=False, controller="random_walk", out=tmp_path)


def test_a_world_may_let_its_robots_take_goals():
    _, navigation = host_processes(robots=2, navigate=True)
    assert told(navigation) == {"robots": ["dots1", "dots2"]}


def test_the_scenario_as_it_is_run_is_in_the_run_s_directory(tmp_path):
    plan = make_processes(
        "intralogistics",
        world="planar",
        duration=12.5,
        sets=["frame.acceptors.0.linger=3", "robots.0.count=2"],
        out=tmp_path / "new",
    )
    assert plan.directory.parent == tmp_path / "new"
    assert plan.directory.is_absolute()
    case, _ = load_scenario(str(plan.directory / "scenario.yaml"))
    assert (case.world, case.time_limit, case.robots[0].count) == ("planar", 12.5, 2)
    assert case.frame.acceptors[0].model_dump()["linger"] == 3


def test_another_controller_gets_its_own_parameters(tmp_path):
    plan = make_processes("intralogistics", controller="random_walk", robots=1, out=tmp_path)
    program = told(plan.processes[1])
    assert (program["controller"], yaml.safe_load(program["parameters"])) == ("random_walk", {})


def test_parameters_of_a_controller_survive_the_command_line(tmp_path):
    plan = make_processes("path_following", out=tmp_path)
    case = load_scenario("path_following")[0]
    assert case.controller.parameters
    assert yaml.safe_load(told(plan.processes[1])["parameters"]) == dict(case.controller.parameters)


def test_a_file_of_parameters_is_for_all_nodes(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("/**: {ros__parameters: {scan_rate: 20.0}}", encoding="utf-8")
    plan = make_processes("intralogistics", robots=1, parameters=file, record=True, out=tmp_path)
    robot = robot_processes("dots1", controller="random_walk", parameters=file)
    for process in (*plan.processes, *host_processes(parameters=file), *robot):
        arguments = process.ros_arguments()
        assert arguments[-2:] == ("--params-file", str(file))
        assert arguments.count("--ros-args") == 1
    assert plan.processes[1].ros_arguments()[-5:-2] == ("--ros-args", "-r", "__ns:=/dots1")


def test_a_speed_that_nobody_asks_for_is_left_to_the_parameters(tmp_path):
    plan = make_processes("intralogistics", robots=1, out=tmp_path)
    for host in (plan.processes[0], *host_processes()):
        assert "speed" not in told(host)


def test_a_recorder_that_is_started_again_overwrites_nothing(tmp_path):
    recorder = make_processes("intralogistics", robots=1, record=True, out=tmp_path).processes[-1]
    assert recorder.ros_arguments()[1].endswith("rosbag.mcap")
    assert "use_sim_time:=true" in recorder.ros_arguments()
    assert Path(recorder.ros_arguments(again=True)[1]).is_dir()


def test_rviz_is_shown_what_there_is(tmp_path):
    plan = make_processes("intralogistics", robots=1, rviz=True, out=tmp_path)
    rviz = plan.processes[-1]
    assert (rviz.package, rviz.executable, rviz.needed) == ("rviz2", "rviz2", False)
    assert Path(rviz.arguments[-1]).is_file()
    assert rviz.ros_arguments()[-3:] == ("--ros-args", "-p", "use_sim_time:=true")


def test_each_robot_may_have_a_domain_of_its_own(tmp_path):
    plan = make_processes("intralogistics", robots=3, isolate=20, record=True, out=tmp_path)
    domains = {process.name: process.domain for process in plan.processes}
    assert domains == {
        "world": 0,
        "dots1_controller": 1,
        "dots2_controller": 2,
        "dots3_controller": 3,
        "recorder": 0,
    }
    assert 21 in told(plan.processes[0]).values()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"scenario": "nonsense"}, ConfigError, "'nonsense' is not in config/scenarios"),
        ({"world": "moon"}, ConfigError, "no world 'moon'"),
        ({"controller": "nobodys"}, ConfigError, "no controller 'nobodys'"),
        ({"sets": ["robots.0.count=x"]}, ConfigError, "robots.0.count"),
        ({"sets": ["nonsense"]}, ConfigError, "write field=value"),
        ({"robots": 0}, ConfigError, "count"),
        ({"duration": -1.0}, ConfigError, "time_limit"),
        ({"scenario": "random_walk_1000"}, RunError, "a crowd has no programs of its own"),
        (
            {"scenario": "mixed_kinds", "controller": "random_walk"},
            RunError,
            "controller random_walk: every group of robots has a program of its own or is driven",
        ),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_written(tmp_path, options, error, said):
    with pytest.raises(error, match=said):
        make_processes(**({"scenario": "intralogistics", "out": tmp_path / "runs"} | options))
    assert not (tmp_path / "runs").exists()


def test_a_file_in_the_way_of_the_results_is_told(tmp_path):
    (tmp_path / "runs").write_text("", encoding="utf-8")
    with pytest.raises(RunError, match="cannot be made"):
        make_processes("intralogistics", robots=1, out=tmp_path / "runs")


# A world alone


def test_a_world_without_programs():
    [host] = host_processes("intralogistics", world="planar", robots=2, speed="4", paused=True)
    assert host.needed
    assert told(host) == {
        "scenario": "intralogistics",
        "world": "planar",
        "robots": 2,
        "speed": "4",
        "paused": True,
    }
    assert [process.name for process in host_processes(rviz=True)] == ["world", "rviz"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scenario": "nonsense"}, "'nonsense' is not in"),
        ({"world": "moon"}, "no world 'moon'"),
        ({"robots": 500}, "no room"),
    ],
)
def test_a_world_that_cannot_be_is_told(options, said):
    with pytest.raises(ConfigError, match=said):
        host_processes(**options)


# One robot


def test_a_robot_is_its_software_its_frames_and_a_program():
    robot, relay, program = robot_processes("dots4", controller="random_walk", localise=True)
    assert [process.needed for process in (robot, relay, program)] == [True, False, False]
    assert told(robot) == {
        "robot": "dots4",
        "kind": "dots",
        "device": "virtual",
        "arena": "dots_arena",
        "localise": True,
    }
    assert told(relay) == {"robots": ["dots4"]}
    assert told(program) == {"robot": "dots4", "controller": "random_walk"}
    assert program.namespace == "/dots4"
    assert [process.name for process in robot_processes("dots4", relay=False)] == ["onboard"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"robot": "bad name"}, "'bad name' is not a valid robot name"),
        ({"robot": "7up"}, "is not a valid robot name"),
        ({"kind": "tank"}, "'tank' is not in config/robots"),
        ({"arena": "moon"}, "'moon' is not in worlds"),
        ({"device": "lidar"}, "no device 'lidar'"),
        ({"controller": "nobodys"}, "no controller 'nobodys'"),
    ],
)
def test_a_robot_that_cannot_be_is_told(options, said):
    with pytest.raises((ConfigError, RunError), match=said):
        robot_processes(**({"robot": "dots1"} | options))


def test_a_namespace_is_told_to_ros():
    assert Process("a", "p", "a", ("x",)).ros_arguments() == ("x",)
    assert Process("a", "p", "a", ("x",), namespace="/n").ros_arguments() == (
        *("x", "--ros-args", "-r", "__ns:=/n"),
    )
