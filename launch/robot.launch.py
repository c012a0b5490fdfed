"""Run one robot: `ros2 launch swarmbed_bringup robot.launch.py robot:=dots1 device:=virtual`.

It starts the on-board software with its API, the relay of the frames to /tf and, if given, a controller. On a
real robot, set ROS_DOMAIN_ID to the robot's own domain.
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
        ("robot", "dots1", None, "name of the robot: its namespace and the prefix of its frames"),
        ("kind", "dots", None, "kind of robot, from config/robots, or the path of such a file"),
        (
            "device",
            "virtual",
            None,
            "makers of the robot's parts: virtual, or your own module:Class; + joins several",
        ),
        ("arena", "dots_arena", None, "name of the arena that the robot is in"),
        ("localise", "false", YES_NO, "localise by the markers on the arena's walls"),
        ("controller", "", None, "controller to start, such as random_walk; empty: none"),
        ("relay", "true", YES_NO, "republish the robot's frames on /tf"),
        ("params", "", None, "YAML file of ROS parameters"),
    ]
    return LaunchDescription([*declared(arguments), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    from _swarmbed import actions_of, file
    from swarmbed_experiments.launching.processes import robot_processes

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
