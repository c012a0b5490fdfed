"""Messages as bytes: what ROS reads in them is what was written into their places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from hypothesis import given, settings
from hypothesis import strategies as st
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import Imu, PointCloud2, PointField
from sensor_msgs_py import point_cloud2
from swarmbed_core.spec import RobotSpec
from swarmbed_robot.api import _imu_message
from swarmbed_robot.templates import (
    SLOT,
    OdometryTemplate,
    Template,
    cloud,
    grid_template,
    message,
    pose_slots,
    stamped,
    transforms,
    types,
)

from tf2_msgs.msg import TFMessage
