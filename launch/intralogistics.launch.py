"""Five robots fetch five carriers: `ros2 launch swarmbed_bringup intralogistics.launch.py`.

A world, a controller for each robot and the experimental frame that judges them: what `swarmbed up` runs. Any
other scenario does too: `scenario:=path_following`.
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
        ("controller", "", None, "instead of the scenario's: a name, or module:Class of your own"),
        ("seed", "", None, "of everything random, instead of the scenario's"),
        ("speed", "", None, "times real time (1, if not given), or max: as fast as the programs answer"),
        ("duration", "", None, "seconds of the world's time, instead of the scenario's"),
        ("programs", "true", YES_NO, "start the robots' programs; false: robots take goals from rviz2"),
        ("rviz", "false", YES_NO, "show it in rviz2"),
        ("record", "false", YES_NO, "record all topics to rosbag.mcap"),
        ("params", "", None, "a YAML file of ROS parameters, such as config/ros/nodes.yaml"),
        ("out", "runs", None, "directory that gets a directory for the run"),
    ]
    return LaunchDescription([*declared(arguments), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    from _swarmbed import actions_of, domain_of, file, out_directory, seconds, speed, whole
    from launch.actions import LogInfo
    from swarmbed_experiments.processes import make_processes
    from swarmbed_robot.domains import check_free

    argument = context.launch_configurations
    plan = make_processes(
        argument["scenario"],
        world=argument["world"] or None,
        robots=whole(argument, "robots"),
        controller=argument["controller"] or None,
        seed=whole(argument, "seed"),
        speed=speed(argument),
        duration=seconds(argument, "duration"),
        record=argument["record"] == "true",
        rviz=argument["rviz"] == "true",
        programs=argument["programs"] == "true",
        out=out_directory(argument["out"]),
        parameters=file(argument, "params"),
    )
    check_free(domain_of(process) for process in plan.processes)
    return [LogInfo(msg=f"results: {plan.directory}"), *actions_of(plan.processes)]
