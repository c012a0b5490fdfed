"""Run one robot: `ros2 launch swarmbed_bringup robot.launch.py robot:=dots1 device:=virtual`.

Its on-board software and API, the relay of its frames to /tf and, if asked for, a controller. On a robot, set
ROS_DOMAIN_ID to the robot's own domain.
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
        ("robot", "dots1", None, "its name: the namespace, and the prefix of its frames"),
        ("kind", "dots", None, "a kind of config/robots, or the path of such a file"),
        ("device", "virtual", None, "where its parts come from: a name, or module:function"),
        ("arena", "dots_arena", None, "where it is"),
        ("localise", "false", YES_NO, "find its pose by the markers on the arena's walls"),
        ("controller", "", None, "a program for it, such as random_walk; none, if not given"),
        ("relay", "true", YES_NO, "republish its frames on /tf"),
        ("params", "", None, "a YAML file of ROS parameters"),
    ]
    return LaunchDescription([*declared(arguments), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    from _swarmbed import actions_of, file
    from swarmbed_experiments.processes import robot_processes

    argument = context.launch_configurations
    processes = robot_processes(
        argument["robot"],
        kind=argument["kind"],
        device=argument["device"],
        arena=argument["arena"],
        localise=argument["localise"] == "true",
        controller=argument["controller"] or None,
        relay=argument["relay"] == "true",
        parameters=file(argument, "params"),
    )
    return actions_of(processes)
