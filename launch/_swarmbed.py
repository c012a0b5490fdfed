"""What the launch files share: the process plan of swarmbed_experiments as actions of launch_ros."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from launch.actions import DeclareLaunchArgument, EmitEvent, LogInfo
from launch.events import Shutdown
from launch_ros.actions import Node
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.up import program_of
from swarmbed_robot.host import speed_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from swarmbed_experiments.processes import Process

    from launch import LaunchDescriptionEntity

Argument = tuple[str, str, list[str] | None, str]
YES_NO = ["true", "false"]
WITH_LAUNCH = "setpriv --pdeathsig TERM" if shutil.which("setpriv") else None


def declared(arguments: Iterable[Argument]) -> list[LaunchDescriptionEntity]:
    """Return launch arguments, each from name, default, choices and one line of text."""
    return [
        DeclareLaunchArgument(name, default_value=default, choices=choices, description=text)
        for name, default, choices, text in arguments
    ]


def actions_of(processes: Sequence[Process]) -> list[LaunchDescriptionEntity]:
    """Return what starts the processes of a plan; all end when one does that is needed.

    Raises:
        RunError: a program is not here; launch would find out when others run already, and leave them.
    """
    for process in processes:
        program_of(process)
    return [action_of(process) for process in processes]


def action_of(process: Process) -> Node:
    """Return what starts one process."""
    over = [
        LogInfo(msg=f"{process.name} has ended"),
        EmitEvent(event=Shutdown(reason=f"{process.name} ended")),
    ]
    return Node(
        package=process.package,
        executable=process.executable,
        # What it prints begins with it.
        exec_name=process.name,
        arguments=list(process.arguments),
        ros_arguments=list(process.told_ros()),
        additional_env={"ROS_DOMAIN_ID": str(domain_of(process))} if process.domain else None,
        output="screen",
        on_exit=over if process.needed else None,
        # Where launch itself is killed, nobody else would end it.
        prefix=WITH_LAUNCH,
        sigterm_timeout="10",
        # The world writes pictures at the end, whatever else it is sent.
        sigkill_timeout="120" if process.needed else "5",
    )


# The values of arguments. What is wrong with them is told before anything starts, in one line.


def whole(argument: Mapping[str, str], name: str) -> int | None:
    """Return an argument's whole number, None if it was not given."""
    text = argument[name]
    try:
        return int(text) if text else None
    except ValueError:
        message = f"{name} is '{text}': a whole number such as 3 is right"
        raise ConfigError(message) from None


def seconds(argument: Mapping[str, str], name: str) -> float | None:
    """Return an argument's seconds, None if it was not given."""
    text = argument[name]
    try:
        return float(text) if text else None
    except ValueError:
        message = f"{name} is '{text}': seconds such as 60 are right"
        raise ConfigError(message) from None


def speed(argument: Mapping[str, str]) -> str | None:
    """Return how fast the world shall be, None if it was not given."""
    if not argument["speed"]:
        return None
    speed_of(argument["speed"])
    return argument["speed"]


def file(argument: Mapping[str, str], name: str) -> Path | None:
    """Return the file that an argument names, None if it was not given."""
    if not argument[name]:
        return None
    path = Path(argument[name]).expanduser()
    if not path.is_file():
        message = f"{name} is '{path}': there is no such file"
        raise ConfigError(message)
    return path.resolve()


def out_directory(text: str) -> Path:
    """Return the directory that runs go to: from where `ros2 launch` was called."""
    return Path(text).expanduser()


def domain_of(process: Process) -> int:
    """Return the ROS domain that a process runs in."""
    return int(os.environ.get("ROS_DOMAIN_ID") or 0) + process.domain
