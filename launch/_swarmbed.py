"""Code shared by the launch files: turns a process plan of swarmbed_experiments into launch_ros actions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from launch.actions import DeclareLaunchArgument, EmitEvent, LogInfo
from launch.events import Shutdown
from launch_ros.actions import Node
from swarmbed_core.errors import ConfigError
from swarmbed_experiments.launching.up import program_of
from swarmbed_robot.host import speed_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from swarmbed_experiments.launching.processes import Process

    from launch import LaunchDescriptionEntity

Argument = tuple[str, str, list[str] | None, str]
YES_NO = ["true", "false"]
WITH_LAUNCH = "setpriv --pdeathsig TERM" if shutil.which("setpriv") else None


def declared(arguments: Iterable[Argument]) -> list[LaunchDescriptionEntity]:
    """Return launch arguments made from tuples of name, default, choices and description."""
    return [
        DeclareLaunchArgument(name, default_value=default, choices=choices, description=text)
        for name, default, choices, text in arguments
    ]


def actions_of(processes: Sequence[Process]) -> list[LaunchDescriptionEntity]:
    """Return actions that start the processes of a plan; when a needed process ends, all end.

    Raises:
        RunError: a program is not installed. Launch itself would notice only after starting others, and leave
            them running.
    """
    for process in processes:
        program_of(process)
    return [action_of(process) for process in processes]


def action_of(process: Process) -> Node:
    """Return the action that starts one process."""
    over = [
        LogInfo(msg=f"{process.name} has ended"),
        EmitEvent(event=Shutdown(reason=f"{process.name} ended")),
    ]
    return Node(
        package=process.package,
        executable=process.executable,
        # Prefix of the process's lines in launch's output.
        exec_name=process.name,
        arguments=list(process.arguments),
        ros_arguments=list(process.told_ros()),
        additional_env={"ROS_DOMAIN_ID": str(domain_of(process))} if process.domain else None,
        output="screen",
        on_exit=over if process.needed else None,
        # The process must end if launch itself is killed.
        prefix=WITH_LAUNCH,
        sigterm_timeout="10",
        # At its end the world writes pictures, which takes time; further signals do not hurry it.
        sigkill_timeout="120" if process.needed else "5",
    )


# Argument values. Errors are reported in one line, before anything starts.


def whole(argument: Mapping[str, str], name: str) -> int | None:
    """Return an argument as a whole number; None if it is empty."""
    text = argument[name]
    try:
        return int(text) if text else None
    except ValueError:
        message = f"{name} is '{text}': expected a whole number, such as 3"
        raise ConfigError(message) from None


def seconds(argument: Mapping[str, str], name: str) -> float | None:
    """Return an argument in seconds; None if it is empty."""
    text = argument[name]
    try:
        return float(text) if text else None
    except ValueError:
        message = f"{name} is '{text}': expected seconds, such as 60"
        raise ConfigError(message) from None


def speed(argument: Mapping[str, str]) -> str | None:
    """Return the checked argument `speed`; None if it is empty."""
    if not argument["speed"]:
        return None
    speed_of(argument["speed"])
    return argument["speed"]


def file(argument: Mapping[str, str], name: str) -> Path | None:
    """Return the absolute path of the file that an argument names; None if it is empty."""
    if not argument[name]:
        return None
    path = Path(argument[name]).expanduser()
    if not path.is_file():
        message = f"{name} is '{path}': file not found"
        raise ConfigError(message)
    return path.resolve()


def out_directory(text: str) -> Path:
    """Return the directory for runs, relative to the directory in which `ros2 launch` was called."""
    return Path(text).expanduser()


def domain_of(process: Process) -> int:
    """Return the ROS domain that a process runs in."""
    return int(os.environ.get("ROS_DOMAIN_ID") or 0) + process.domain
