"""Plans of processes: what `swarmbed up` and the launch files start to run a scenario on ROS 2.

A plan is made before anything starts. It writes the final scenario into the run's directory, where the world
process reads it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from swarmbed_core.arena import Arena
from swarmbed_core.config import share_dir
from swarmbed_core.controller import find_controller
from swarmbed_core.plugins import DEVICES, WORLDS, find_plugin
from swarmbed_core.scene import make_scene
from swarmbed_core.spec import RobotSpec

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import new_directory, write_text
from swarmbed_experiments.runs.scenarios import load_scenario, make_plan, name_of, to_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_experiments.runs.scenarios import Plan

WORLD = "world"


@dataclass(frozen=True)
class Process:
    """One process of a plan.

    Attributes:
        name: unique in its plan.
        package: ROS package of the executable.
        executable: name of the executable.
        arguments: without those for ROS.
        namespace: of its node.
        needed: whether the end of this process ends the whole plan.
        domain: offset of its ROS domain from the plan's.
        robot: the robot it is the program of; empty for other processes.
        again: its arguments after a restart, if they differ.
        parameters: its ROS parameter file.
        clock: whether to set `use_sim_time`; programs and worlds use the world's clock anyway.
    """

    name: str
    package: str
    executable: str
    arguments: tuple[str, ...] = ()
    namespace: str = ""
    needed: bool = False
    domain: int = 0
    robot: str = ""
    again: tuple[str, ...] = ()
    parameters: Path | None = None
    clock: bool = False

    def ros_arguments(self, *, again: bool = False) -> tuple[str, ...]:
        """Return all arguments, including those for ROS."""
        own, ros = self.again or self.arguments if again else self.arguments, self.told_ros()
        return (*own, "--ros-args", *ros) if ros else own

    def told_ros(self) -> tuple[str, ...]:
        """Return the arguments that follow `--ros-args`."""
        ros: list[str] = []
        if self.namespace:
            ros += ["-r", f"__ns:={self.namespace}"]
        if self.clock:
            ros += ["-p", "use_sim_time:=true"]
        if self.parameters is not None:
            ros += ["--params-file", str(self.parameters.resolve())]
        return tuple(ros)


@dataclass(frozen=True)
class ProcessPlan:
    """The processes of a scenario.

    Attributes:
        processes: in the order in which they are started; the world is the first.
        robots: those with a program; empty if no programs are started.
        directory: for the results of the run.
    """

    processes: tuple[Process, ...]
    robots: tuple[str, ...]
    directory: Path
    title: str = ""


def make_processes(
    scenario: str = "intralogistics",
    *,
    world: str | None = None,
    robots: int | None = None,
    controller: str | None = None,
    seed: int | None = None,
    sets: Sequence[str] = (),
    speed: str | None = None,
    duration: float | None = None,
    record: bool = False,
    rviz: bool = False,
    isolate: int | None = None,
    programs: bool = True,
    out: Path = Path("runs"),
    parameters: Path | None = None,
) -> ProcessPlan:
    """Make the plan of a scenario, and write the final scenario into the run's directory.

    Args:
        scenario: a name from config/scenarios, or a file.
        world: replaces the scenario's.
        robots: number of robots in the first group; replaces the scenario's.
        controller: replaces the scenario's, with default parameters.
        seed: replaces the scenario's.
        sets: further changes, such as `frame.acceptors.0.count=5`.
        speed: factor of real time, or `max`; by default the one in `parameters`, or else real time.
        duration: time limit in seconds of the world's time; replaces the scenario's.
        record: whether to record all topics to rosbag.mcap.
        rviz: whether to start rviz2.
        programs: whether to start the robots' programs. Without them, navigators accept goals and people
            drive.
        isolate: the world's ROS domain. If given, each robot and its program share one of the following
            domains.
        out: directory that gets a new directory for the run.
        parameters: ROS parameter file for all nodes.

    Raises:
        ConfigError: the scenario is invalid.
        RunError: the directory cannot be made, or the scenario has a crowd.
    """
    changes = list(sets)
    if robots is not None:
        changes.append(f"robots.0.count={robots}")
    if controller is not None:
        changes.append(f"controller={{name: '{controller}'}}")
    if duration is not None:
        changes.append(f"time_limit={duration}")
    case, source = load_scenario(scenario, changes, world=world, seed=seed)
    if controller is not None and not programs:
        message = (
            f"controller {controller}: given, but no programs are started; leave out one of the two options"
        )
        raise RunError(message)
    if controller is not None and not any(
        group.driver == "program" and group.controller is None for group in case.robots
    ):
        message = (
            f"{source}: controller {controller}: every group of robots has a program of its own or is driven "
            "from elsewhere; use --set, such as robots.0.controller.name"
        )
        raise RunError(message)
    # Report all faults here, once, and not from each of the processes.
    found = make_plan(case, source)
    if found.scene.crowd:
        message = f"{source}: robots: a crowd has no programs of its own; use `swarmbed run`"
        raise RunError(message)
    _let_programs_be_found_beside(Path(source))
    _check(parameters, [placement.name for placement in found.scene.robots])
    name = name_of(case, source)
    directory = new_directory(out, name, case.seed).resolve()
    file = directory / "scenario.yaml"
    write_text(file, to_yaml(case.model_copy(update={"name": name})))
    options: tuple[str, ...] = () if isolate is None else ("--robot-domains", str(isolate + 1))
    options += ("--recorder",) if record else ()
    world_process = Process(
        WORLD,
        "swarmbed_experiments",
        "trial",
        (
            str(file),
            "--name",
            name,
            "--directory",
            str(directory),
            "--out",
            str(out.resolve()),
            *_speed(speed),
            *(() if programs else ("--no-wait",)),
            *options,
        ),
        needed=True,
        parameters=parameters,
    )
    names = tuple(placement.name for placement in found.scene.robots)
    if programs:
        drivers = _controllers(found, isolate, parameters)
    else:
        drivers = _navigators(names, parameters, apart=isolate is not None)
    more = []
    if record:
        more.append(
            Process(
                "recorder",
                "swarmbed_robot",
                "recorder",
                ("--out", str(directory / "rosbag.mcap")),
                # A new file in the same directory: the first recording is kept.
                again=("--out", str(directory)),
                parameters=parameters,
                clock=True,
            )
        )
    if rviz:
        more.append(_rviz())
    driven = tuple(process.robot for process in drivers if process.robot)
    return ProcessPlan((world_process, *drivers, *more), driven if programs else (), directory, case.title)


def _controllers(found: Plan, isolate: int | None, parameters: Path | None) -> tuple[Process, ...]:
    """Return a program for each robot, except those that are driven from elsewhere."""
    case = found.scenario
    made = []
    for k, placement in enumerate(found.scene.robots, start=1):
        group = case.robots[placement.group]
        if group.driver == "elsewhere":
            continue
        program = group.controller or case.controller
        told = yaml.safe_dump(dict(program.parameters), default_flow_style=True, width=10_000).strip()
        made.append(
            Process(
                f"{placement.name}_controller",
                "swarmbed_robot",
                "controller",
                (placement.name, "--controller", program.name, "--parameters", told),
                namespace=f"/{placement.name}",
                domain=0 if isolate is None else k,
                robot=placement.name,
                parameters=parameters,
            )
        )
    return tuple(made)


def _navigators(names: Sequence[str], parameters: Path | None, *, apart: bool) -> tuple[Process, ...]:
    """Return the navigators, which accept goals: one for all robots, or one per robot in its ROS domain."""
    if not apart:
        arguments = ("--robots", *names)
        return (Process("navigator", "swarmbed_robot", "navigator", arguments, parameters=parameters),)
    return tuple(
        Process(
            f"{name}_navigator",
            "swarmbed_robot",
            "navigator",
            ("--robots", name),
            domain=k,
            parameters=parameters,
        )
        for k, name in enumerate(names, start=1)
    )


def host_processes(
    scenario: str = "intralogistics",
    *,
    world: str | None = None,
    robots: int | None = None,
    speed: str | None = None,
    paused: bool = False,
    rviz: bool = False,
    navigate: bool = False,
    parameters: Path | None = None,
) -> tuple[Process, ...]:
    """Return the processes of a world without programs and experimental frame.

    With `navigate`, a navigator accepts goals for the robots.

    Raises:
        ConfigError: the scenario is invalid.
    """
    changes = [] if robots is None else [f"robots.0.count={robots}"]
    case, source = load_scenario(scenario, changes, world=world)
    find_plugin(WORLDS, case.world)
    scene = make_scene(case, case.seed, source)
    _check(parameters, [placement.name for placement in scene.robots])
    options = [scenario, *_speed(speed)]
    if robots is not None:
        options += ["--robots", str(robots)]
    if world is not None:
        options += ["--world", world]
    if paused:
        options.append("--paused")
    made: tuple[Process, ...]
    made = (Process(WORLD, "swarmbed_robot", "world", tuple(options), needed=True, parameters=parameters),)
    if navigate:
        made += _navigators([robot.name for robot in scene.robots], parameters, apart=False)
    return (*made, _rviz()) if rviz else made


def _let_programs_be_found_beside(file: Path) -> None:
    """Add a scenario's directory to PYTHONPATH: child processes load `module:Class` from there."""
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    beside = os.path.abspath(file.parent)  # noqa: PTH100 - without following links
    if beside not in folders:
        os.environ["PYTHONPATH"] = os.pathsep.join([*folders, beside])


def _check(parameters: Path | None, robots: Sequence[str]) -> None:
    """Check the ROS parameter file, if one is given.

    Raises:
        ConfigError: it cannot be read or is not YAML.
        RunError: it is not a parameter file, or a name in it does not exist.
    """
    if parameters is not None:
        from swarmbed_experiments.launching.parameter_files import check_parameters

        check_parameters(parameters, robots)


def _speed(speed: str | None) -> tuple[str, ...]:
    """Return the world's arguments for its speed; none for the default."""
    return () if speed is None else ("--speed", speed)


def _rviz() -> Process:
    look = share_dir() / "config" / "rviz" / "swarm.rviz"
    return Process("rviz", "rviz2", "rviz2", ("-d", str(look)), clock=True)


def robot_processes(
    robot: str,
    *,
    kind: str = "dots",
    device: str = "virtual",
    arena: str = "dots_arena",
    localise: bool = False,
    controller: str | None = None,
    relay: bool = True,
    parameters: Path | None = None,
) -> tuple[Process, ...]:
    """Return the processes of one robot: its on-board software, the relay of its frames, its program.

    Raises:
        ConfigError: the kind, device, arena or controller does not exist.
        RunError: the name is not valid.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", robot, re.ASCII):
        message = f"'{robot}' is not a valid robot name: use letters, digits and _, such as dots1"
        raise RunError(message)
    RobotSpec.load(kind)
    Arena.load(arena)
    for maker in device.split("+"):
        find_plugin(DEVICES, maker)
    if controller is not None:
        find_controller(controller, {}, "controller")
    _check(parameters, [robot])
    options = [robot, "--kind", kind, "--device", device, "--arena", arena]
    if localise:
        options.append("--localise")
    made = [
        Process("onboard", "swarmbed_robot", "onboard", tuple(options), needed=True, parameters=parameters)
    ]
    if relay:
        arguments: tuple[str, ...] = ("--robots", robot)
        made.append(Process("tf_relay", "swarmbed_robot", "tf_relay", arguments, parameters=parameters))
    if controller is not None:
        arguments = (robot, "--controller", controller)
        made.append(
            Process(
                "controller",
                "swarmbed_robot",
                "controller",
                arguments,
                namespace=f"/{robot}",
                robot=robot,
                parameters=parameters,
            )
        )
    return tuple(made)
