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
        ("world", "", None, "instead of the scenario's world: mujoco, planar"),
        ("robots", "0", None, "how many, instead of the scenario's; 0 leaves it"),
        ("speed", "1", None, "times real time, or max"),
        ("paused", "false", YES_NO, "start standing still"),
        ("rviz", "false", YES_NO, "show it in rviz2"),
        ("params", "", None, "a YAML file of ROS parameters"),
    ]
    return LaunchDescription([*declared(arguments), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    from _swarmbed import actions_of
    from swarmbed_core.config import share_dir
    from swarmbed_experiments.processes import Process

    argument = context.launch_configurations
    options = [argument["scenario"], "--speed", argument["speed"], "--robots", argument["robots"]]
    if argument["world"]:
        options += ["--world", argument["world"]]
    if argument["paused"] == "true":
        options.append("--paused")
    if argument["params"]:
        options += ["--ros-args", "--params-file", argument["params"]]
    processes = [Process("world", "swarmbed_robot", "world", tuple(options), needed=True)]
    if argument["rviz"] == "true":
        look = share_dir() / "config" / "rviz" / "swarm.rviz"
        processes.append(Process("rviz", "rviz2", "rviz2", ("-d", str(look))))
    return actions_of(processes)
