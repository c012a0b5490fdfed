"""The same in Gazebo: `ros2 launch swarmbed_bringup gazebo.launch.py`.

All arguments are those of intralogistics.launch.py, as are the programs that run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launch import LaunchDescription


def generate_launch_description() -> LaunchDescription:
    """Return what `ros2 launch` runs."""
    from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
    from launch.launch_description_sources import PythonLaunchDescriptionSource

    from launch import LaunchDescription

    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "world",
                default_value="gazebo",
                choices=["gazebo", "gazebo11", "harmonic"],
                description="the Gazebo that is installed, or one of the two",
            ),
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(
                    str(Path(__file__).resolve().parent / "intralogistics.launch.py")
                )
            ),
        ]
    )
