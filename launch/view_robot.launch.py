"""Show a robot's model: `ros2 launch swarmbed_bringup view_robot.launch.py robot:=dots`.

It makes the robot's URDF from its file in config/robots and shows it in rviz2, with sliders for wheels and
lifter. It needs a full ROS 2 installation; `describe`, which makes the URDF, does not.
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
    """Return the launch description."""
    from launch.actions import DeclareLaunchArgument, OpaqueFunction

    from launch import LaunchDescription

    yes_no = ["true", "false"]
    arguments = [
        ("robot", "dots", None, "kind of robot, from config/robots, or the path of such a file"),
        ("prefix", "", None, "prefix of all frame names, such as dots1_"),
        ("rviz", "true", yes_no, "show the robot in rviz2"),
        ("gui", "true", yes_no, "show sliders for wheels and lifter"),
    ]
    declared = [
        DeclareLaunchArgument(name, default_value=default, choices=choices, description=text)
        for name, default, choices, text in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=_start)])


def _start(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """Return the nodes selected by the arguments; closing rviz2 ends all of them."""
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
    """Return whether a ROS package is installed."""
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
