"""Run a scenario on ROS 2: `ros2 launch swarmbed_bringup intralogistics.launch.py`.

Like `swarmbed up`, it starts a world, a controller for each robot and the experimental frame that judges the
run. By default five robots fetch five carriers; `scenario:=path_following` selects another scenario.
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
        ("controller", "", None, "name of a controller, or your own module:Class; empty: the scenario's"),
        ("seed", "", None, "seed of all random numbers; empty: the scenario's"),
        ("speed", "", None, "multiple of real time, or max: as fast as the programs answer; empty: 1"),
        ("duration", "", None, "time limit, in seconds of the world's clock; empty: the scenario's"),
        ("programs", "true", YES_NO, "start the robots' programs; false: the robots take goals from rviz2"),
        ("rviz", "false", YES_NO, "show the run in rviz2"),
        ("record", "false", YES_NO, "record all topics to rosbag.mcap"),
        ("params", "", None, "YAML file of ROS parameters, such as config/ros/nodes.yaml"),
        ("out", "runs", None, "directory in which the run's directory is created"),
    ]
    return LaunchDescription([*declared(arguments), OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    from _swarmbed import actions_of, domain_of, file, out_directory, seconds, speed, whole
    from launch.actions import LogInfo
    from swarmbed_experiments.launching.processes import make_processes
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
