"""world, robot and intralogistics.launch.py start what the plans say; stand-ins are started."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from swarmbed_core.config import share_dir
from swarmbed_experiments.launching import processes

# Not `launch` itself: where that is missing, the workspace's own directory of that name can answer for it.
pytest.importorskip(
    "launch_ros.actions", reason="launch_ros is not installed: it comes with a full ROS 2, not from PyPI"
)

from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from launch import LaunchDescription, LaunchService

pytestmark = pytest.mark.usefixtures("launch_logs")

PROGRAMS = {
    "swarmbed_robot": ("world", "onboard", "tf_relay", "controller", "recorder", "navigator"),
    "swarmbed_experiments": ("trial",),
    "rviz2": ("rviz2",),
}
DEFAULTS = {
    "world": {
        "scenario": "intralogistics",
        "world": "",
        "robots": "",
        "speed": "",
        "paused": "false",
        "navigate": "false",
        "rviz": "false",
        "params": "",
    },
    "robot": {
        "robot": "dots1",
        "kind": "dots",
        "device": "virtual",
        "arena": "dots_arena",
        "localise": "false",
        "controller": "",
        "relay": "true",
        "params": "",
    },
    "intralogistics": {
        "scenario": "intralogistics",
        "world": "",
        "robots": "",
        "controller": "",
        "seed": "",
        "speed": "",
        "duration": "",
        "programs": "true",
        "rviz": "false",
        "record": "false",
        "params": "",
        "out": "runs",
    },
}

PARAMETERS = "/**: {ros__parameters: {scan_rate: 20.0}}"

# Notes what it was started with. What is needed ends when all {count} are there, the others when told to.
STAND_IN = """#!/bin/sh
name=$(basename "$0")
for argument; do printf '%s\\n' "$argument"; done >"{notes}/$name.$$.part"
mv "{notes}/$name.$$.part" "{notes}/$name.$$"
case $name in
  world | onboard | trial) until [ "$(ls "{notes}" | grep -vc part)" -ge {count} ]; do sleep 0.02; done ;;
  *) exec sleep 100 ;;
esac
"""


class StandIns:
    """A prefix with stand-ins for the programs that launch files start."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.notes = prefix / "notes"
        self.notes.mkdir()
        index = prefix / "share" / "ament_index" / "resource_index" / "packages"
        index.mkdir(parents=True)
        for package in PROGRAMS:
            (index / package).touch()
            (prefix / "lib" / package).mkdir(parents=True)

    def launch(self, root, name, count=1, **arguments):
        """Run a launch file to its end; return its exit code and the command lines that it started."""
        for package, programs in PROGRAMS.items():
            for program in programs:
                path = self.prefix / "lib" / package / program
                path.write_text(STAND_IN.format(notes=self.notes, count=count), encoding="utf-8")
                path.chmod(0o755)
        source = PythonLaunchDescriptionSource(str(root / "launch" / f"{name}.launch.py"))
        service = LaunchService(noninteractive=True)
        given = {key: str(value) for key, value in arguments.items()}
        included = IncludeLaunchDescription(source, launch_arguments=given.items())
        service.include_launch_description(LaunchDescription([included]))
        code = service.run()
        lines = [(path.stem, *path.read_text().splitlines()) for path in self.notes.iterdir()]
        return code, Counter(map(split, lines))


def split(line):
    """Return program and own arguments of a command line, and what it says to ROS without its order."""
    own, ros, target = [], [], None
    for word in line:
        if word == "--ros-args":
            target = ros
        elif target is None:
            own.append(word)
        else:
            target.append(word)
    return tuple(own), tuple(sorted(ros))


def expected(planned):
    """Return what the processes of a plan look like when they are started."""
    return Counter(split((process.executable, *process.ros_arguments())) for process in planned)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Return stand-ins for all programs, and run in an empty directory."""
    prefix, here = tmp_path / "prefix", tmp_path / "here"
    prefix.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(prefix))
    return StandIns(prefix)


@pytest.fixture
def plans(monkeypatch):
    """Return the list of the plans that launch files make: of their processes."""
    made = []

    def spied(name):
        real = getattr(processes, name)

        def spy(*arguments, **how):
            plan = real(*arguments, **how)
            made.append(plan)
            return plan

        monkeypatch.setattr(processes, name, spy)

    for name in ("make_processes", "host_processes", "robot_processes"):
        spied(name)
    return made


@pytest.mark.parametrize("name", DEFAULTS)
def test_arguments(root, module_of, name):
    description = module_of(root / "launch" / f"{name}.launch.py").generate_launch_description()
    declared = description.get_launch_arguments()
    defaults = {argument.name: argument.default_value for argument in declared}
    assert {key: value[0].text if value else "" for key, value in defaults.items()} == DEFAULTS[name]
    for argument in declared:
        assert argument.description
        assert (argument.choices == ["true", "false"]) == (
            argument.default_value[0].text in {"true", "false"}
        )


def test_a_scenario_is_started_as_planned(programs, root, plans, tmp_path):
    parameters = tmp_path / "nodes.yaml"
    parameters.write_text(PARAMETERS, encoding="utf-8")
    code, started = programs.launch(
        root,
        "intralogistics",
        count=5,
        robots=2,
        world="planar",
        controller="random_walk",
        seed=7,
        speed="max",
        duration=30,
        record="true",
        rviz="true",
        params=parameters,
        out=tmp_path / "out",
    )
    (plan,) = plans
    assert code == 0
    assert started == expected(plan.processes)
    assert plan.directory.parent == tmp_path / "out"
    case = yaml.safe_load((plan.directory / "scenario.yaml").read_text(encoding="utf-8"))
    assert (case["world"], case["seed"], case["time_limit"]) == ("planar", 7, 30.0)
    assert (case["robots"][0]["count"], case["controller"]) == (2, {"name": "random_walk"})
    (trial,) = (own for own, ros in started if own[0] == "trial" and str(parameters) in ros)
    assert trial[1:] == (
        *(str(plan.directory / "scenario.yaml"), "--name", "intralogistics"),
        *("--directory", str(plan.directory), "--out", str(tmp_path / "out"), "--speed", "max", "--recorder"),
    )
    programs_of = [own[1] for own, ros in sorted(started) if f"__ns:=/{own[1]}" in ros]
    assert programs_of == ["dots1", "dots2"]
    assert all(str(parameters) in ros for own, ros in started if own[0] != "rviz2")
    assert ("rviz2", "-d", str(share_dir() / "config" / "rviz" / "swarm.rviz")) in {own for own, _ in started}


def test_without_programs_robots_take_goals(programs, root, plans):
    arguments = {"scenario": "random_walk", "robots": 2, "programs": "false"}
    code, started = programs.launch(root, "intralogistics", count=2, **arguments)
    assert code == 0
    assert started == expected(plans[0].processes)
    assert started[("navigator", "--robots", "dots1", "dots2"), ()] == 1
    assert not any(own[0] == "controller" for own, _ in started)


def test_results_go_below_the_directory_of_the_call(programs, root, plans):
    code, started = programs.launch(root, "intralogistics", count=2, scenario="random_walk", robots=1)
    assert code == 0
    assert started == expected(plans[0].processes)
    assert plans[0].directory.parent == Path.cwd() / "runs"


@pytest.mark.parametrize(("given", "world"), [({}, "gazebo"), ({"world": "harmonic"}, "harmonic")])
def test_gazebo_is_the_same_in_gazebo(programs, root, plans, given, world):
    code, started = programs.launch(root, "gazebo", count=2, scenario="random_walk", robots=1, **given)
    assert code == 0
    assert started == expected(plans[0].processes)
    case = yaml.safe_load((plans[0].directory / "scenario.yaml").read_text(encoding="utf-8"))
    assert (case["world"], case["robots"][0]["count"]) == (world, 1)


def test_a_world_without_programs(programs, root, plans):
    code, started = programs.launch(root, "world")
    assert code == 0
    assert started == {(("world", "intralogistics"), ()): 1}
    assert started == expected(plans[0])


def test_a_world_as_it_is_asked_for(programs, root, plans, tmp_path):
    parameters = tmp_path / "nodes.yaml"
    parameters.write_text(PARAMETERS, encoding="utf-8")
    code, started = programs.launch(
        root,
        "world",
        count=3,
        scenario="random_walk",
        world="planar",
        robots=3,
        speed=2,
        paused="true",
        navigate="true",
        rviz="true",
        params=parameters,
    )
    assert code == 0
    assert started == expected(plans[0])
    wanted = ("world", "random_walk", "--speed", "2", "--robots", "3", "--world", "planar", "--paused")
    told = tuple(sorted(("--params-file", str(parameters))))
    assert started[wanted, told] == 1
    assert started[("navigator", "--robots", "dots1", "dots2", "dots3"), told] == 1


def test_a_robot(programs, root, plans):
    code, started = programs.launch(root, "robot", count=2)
    assert code == 0
    assert started == expected(plans[0])
    assert {own[0] for own, _ in started} == {"onboard", "tf_relay"}


def test_a_robot_with_a_program_and_without_a_relay(programs, root, plans, tmp_path):
    parameters = tmp_path / "nodes.yaml"
    parameters.write_text(PARAMETERS, encoding="utf-8")
    code, started = programs.launch(
        root,
        "robot",
        count=2,
        robot="e1",
        kind="epuck2",
        arena="field",
        controller="random_walk",
        relay="false",
        params=parameters,
    )
    assert code == 0
    assert started == expected(plans[0])
    wanted = ("controller", "e1", "--controller", "random_walk")
    told = tuple(sorted(("-r", "__ns:=/e1", "--params-file", str(parameters))))
    assert started[wanted, told] == 1
    assert {own[0] for own, _ in started} == {"onboard", "controller"}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("world", {"scenario": "dance"}, "'dance' is not in config/scenarios: there are aggregation,"),
        ("world", {"world": "flat"}, "no world 'flat': there are gazebo, gazebo11, harmonic, mujoco, planar"),
        ("world", {"robots": "three"}, "robots is 'three': expected a whole number, such as 3"),
        ("world", {"robots": "-1"}, "robots.0.count: Input should be greater than or equal to 0, found -1"),
        ("world", {"speed": "fast"}, "speed is 'fast': expected max, or a number above 0"),
        ("world", {"params": "none.yaml"}, "params is 'none.yaml': file not found"),
        ("world", {"paused": "perhaps"}, "paused"),
        ("robot", {"robot": "9x"}, "'9x' is not a valid robot name"),
        ("robot", {"kind": "dotz"}, "'dotz' is not in config/robots: there are convoy_car, dots"),
        ("robot", {"device": "real"}, "no device 'real': there are remote, virtual"),
        ("robot", {"arena": "moon"}, "'moon' is not in worlds"),
        ("robot", {"controller": "dance"}, "no controller 'dance'"),
        ("robot", {"params": "none.yaml"}, "params is 'none.yaml': file not found"),
        ("intralogistics", {"scenario": "dance"}, "'dance' is not in config/scenarios"),
        ("intralogistics", {"scenario": "random_walk_1000"}, "a crowd has no programs of its own"),
        ("intralogistics", {"world": "flat"}, "no world 'flat'"),
        ("intralogistics", {"robots": "0"}, "the scenario has no robots"),
        ("intralogistics", {"robots": "many"}, "robots is 'many': expected a whole number"),
        ("intralogistics", {"controller": "dance"}, "no controller 'dance'"),
        ("intralogistics", {"seed": "1.5"}, "seed is '1.5': expected a whole number, such as 3"),
        ("intralogistics", {"speed": "-1"}, "speed is '-1': expected max, or a number above 0"),
        ("intralogistics", {"duration": "long"}, "duration is 'long': expected seconds, such as 60"),
        ("intralogistics", {"duration": "0"}, "time_limit: Input should be greater than 0"),
        ("intralogistics", {"params": "none.yaml"}, "params is 'none.yaml': file not found"),
        ("intralogistics", {"rviz": "perhaps"}, "rviz"),
    ],
)
def test_a_wrong_argument_is_said_and_starts_nothing(programs, root, caplog, name, arguments, said):
    code, started = programs.launch(root, name, **arguments)
    assert code != 0
    assert not started
    assert said in caplog.text
    assert "Traceback" not in caplog.text
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize("name", ["world", "intralogistics"])
def test_without_rviz2_nothing_is_started(programs, root, caplog, name):
    (programs.prefix / "share/ament_index/resource_index/packages/rviz2").unlink()
    code, started = programs.launch(root, name, rviz="true")
    assert code != 0
    assert not started
    assert "package 'rviz2' not found" in caplog.text
