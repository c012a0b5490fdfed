"""Run a world without controllers: `ros2 launch swarmbed_bringup world.launch.py scenario:=intralogistics`.

It has the clock, the API of all robots and the world's services (reset, pause, step, spawn, remove).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))

if TYPE_CHECKING:
    from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    from _swarmbed import YES_NO, declared
    from launch.actions import OpaqueFunction

    from launch import LaunchDescription

    arguments = [
        ("scenario", "intralogistics", None, "name from config/scenarios, or a .yaml file"),
        ("world", "", None, "mujoco, planar or gazebo; empty: the scenario's world"),
        ("robots", "", None, "number of robots; empty: the scenario's"),
        ("speed", "", None, "multiple of real time, or max: as fast as the programs answer; empty: 1"),
        ("paused", "false", YES_NO, "start paused"),
        ("navigate", "false", YES_NO, "start a navigator, so that the robots take goals, such as from rviz2"),
        ("rviz", "false", YES_NO, "show the world in rviz2"),
        ("params", "", None, "YAML file of ROS parameters"),
    ]
    return LaunchDescription([*declared(arguments), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    from _swarmbed import actions_of, file, speed, whole
    from swarmbed_experiments.launching.processes import host_processes

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
