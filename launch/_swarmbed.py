"""What the launch files share: the process plan of swarmbed_experiments as actions of launch_ros."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from launch.actions import DeclareLaunchArgument, EmitEvent, LogInfo
from launch.events import Shutdown
from launch_ros.actions import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from swarmbed_experiments.processes import Process

    from launch import LaunchDescriptionEntity

Argument = tuple[str, str, list[str] | None, str]
YES_NO = ["true", "false"]


def declared(arguments: Iterable[Argument]) -> list[LaunchDescriptionEntity]:
    """Return launch arguments, each from name, default, choices and one line of text."""
    return [
        DeclareLaunchArgument(name, default_value=default, choices=choices, description=text)
        for name, default, choices, text in arguments
    ]


def actions_of(processes: Sequence[Process]) -> list[LaunchDescriptionEntity]:
    """Return what starts the processes of a plan; all end when one does that is needed."""
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
        namespace=process.namespace or None,
        arguments=list(process.arguments),
        output="screen",
        on_exit=over if process.needed else None,
        # The world writes pictures at the end.
        sigterm_timeout="10",
    )


def out_directory(text: str) -> Path:
    """Return the directory that runs go to: from where `ros2 launch` was called."""
    return Path(text).expanduser()
