"""Host a world: `ros2 launch swarmbed_bringup world.launch.py scenario:=intralogistics`.

Its clock, the API of all its robots and its services (reset, pause, step, spawn, remove); no controllers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))

if TYPE_CHECKING:
    from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity


def generate_launch_description() -> LaunchDescription:
    """Return what `ros2 launch` runs."""
    from _swarmbed import YES_NO, declared
    from launch.actions import OpaqueFunction

    from launch import LaunchDescription

    arguments = [
        ("scenario", "intralogistics", None, "a name from config/scenarios, or a .yaml file"),
        ("world", "", None, "instead of the scenario's world: mujoco, planar, gazebo"),
        ("robots", "", None, "how many, instead of the scenario's"),
        ("speed", "", None, "times real time (1, if not given), or max"),
        ("paused", "false", YES_NO, "start standing still"),
        ("navigate", "false", YES_NO, "let the robots take goals, such as from rviz2"),
        ("rviz", "false", YES_NO, "show it in rviz2"),
        ("params", "", None, "a YAML file of ROS parameters"),
    ]
    return LaunchDescription([*declared(arguments), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    from _swarmbed import actions_of, file, speed, whole
    from swarmbed_experiments.processes import host_processes

    argument = context.launch_configurations
    processes = host_processes(
        argument["scenario"],
        world=argument["world"] or None,
        robots=whole(argument, "robots"),
        speed=speed(argument),
        paused=argument["paused"] == "true",
        rviz=argument["rviz"] == "true",
        navigate=argument["navigate"] == "true",
        parameters=file(argument, "params"),
    )
    return actions_of(processes)
