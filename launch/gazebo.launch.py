"""Run intralogistics.launch.py in Gazebo: `ros2 launch swarmbed_bringup gazebo.launch.py`.

It takes the same arguments and starts the same programs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Return the launch description."""
    from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
    from launch.launch_description_sources import PythonLaunchDescriptionSource

    from launch import LaunchDescription

    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "world",
                default_value="gazebo",
                choices=["gazebo", "gazebo11", "harmonic"],
                description="gazebo: the installed version; gazebo11 or harmonic: this version",
            ),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(
                    str(Path(__file__).resolve().parent / "intralogistics.launch.py")
                )
            ),
        ]
    )
