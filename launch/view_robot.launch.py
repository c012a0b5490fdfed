"""Look at a robot: `ros2 launch swarmbed_bringup view_robot.launch.py robot:=dots`.

Makes the robot's URDF from its file in config/robots and shows it in rviz2, its wheels and lifter on sliders.
It needs a full ROS 2; only `describe`, which makes the URDF, does without.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from swarmbed_core.config import share_dir
from swarmbed_core.errors import ConfigError
from swarmbed_robot.description import describe

if TYPE_CHECKING:
    from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity


def generate_launch_description() -> LaunchDescription:
    """Return what `ros2 launch` runs."""
    from launch.actions import DeclareLaunchArgument, OpaqueFunction

    from launch import LaunchDescription

    yes_no = ["true", "false"]
    arguments = [
        ("robot", "dots", None, "a kind of config/robots, or the path of such a file"),
        ("prefix", "", None, "put before the name of every frame, such as dots1_"),
        ("rviz", "true", yes_no, "show it in rviz2"),
        ("gui", "true", yes_no, "put wheels and lifter on sliders"),
    ]
    declared = [
        DeclareLaunchArgument(name, default_value=default, choices=choices, description=text)
        for name, default, choices, text in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return the nodes that the arguments ask for; closing rviz2 ends them all."""
    from launch.actions import LogInfo, Shutdown
    from launch_ros.actions import Node
    from launch_ros.parameter_descriptions import ParameterValue

    argument = context.launch_configurations
    prefix = argument["prefix"]
    urdf = describe(argument["robot"], prefix)
    with_rviz = argument["rviz"] == "true"
    sliders = "joint_state_publisher_gui" if argument["gui"] == "true" else "joint_state_publisher"
    needed = ["robot_state_publisher", "rviz2"] if with_rviz else ["robot_state_publisher"]
    missing = [package for package in needed if not _installed(package)]
    if missing:
        message = f"{' and '.join(missing)} not found: {_install(missing)}"
        raise ConfigError(message)

    publisher = "robot_state_publisher"
    description = {"robot_description": ParameterValue(urdf, value_type=str)}
    actions = [Node(package=publisher, executable=publisher, parameters=[description])]
    joints = next((package for package in (sliders, "joint_state_publisher") if _installed(package)), None)
    if joints is None:
        actions.append(LogInfo(msg=f"no {sliders}, so wheels and lifter have no pose: {_install([sliders])}"))
    else:
        actions.append(Node(package=joints, executable=joints))
    if with_rviz:
        look = ["-d", str(share_dir() / "config" / "rviz" / "robot.rviz"), "-f", f"{prefix}base_link"]
        actions.append(Node(package="rviz2", executable="rviz2", arguments=look, on_exit=Shutdown()))
    return actions


def _installed(package: str) -> bool:
    """Return whether ROS knows a package."""
    from ament_index_python.packages import PackageNotFoundError, get_package_prefix

    try:
        get_package_prefix(package)
    except PackageNotFoundError:
        return False
    return True


def _install(packages: list[str]) -> str:
    """Return the command that installs ROS packages."""
    distro = os.environ.get("ROS_DISTRO", "jazzy")
    return "apt install " + " ".join(f"ros-{distro}-{package.replace('_', '-')}" for package in packages)
