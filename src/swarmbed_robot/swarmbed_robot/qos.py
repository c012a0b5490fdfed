"""Qualities of service of the robot API.

Inputs are taken best effort: that matches every publisher, and within a machine nothing is lost. Outputs are
reliable, which suits every subscriber, but the distance sensors' returns and the drop zone, as the DOTS
robots have them.
"""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


def _profile(
    depth: int,
    reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE,
    durability: DurabilityPolicy = DurabilityPolicy.VOLATILE,
) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability, durability=durability
    )


SENSOR = _profile(5, ReliabilityPolicy.BEST_EFFORT)
"""Of `sensor/scan` and `sensor/dropzone`."""
OUTPUT = _profile(10)
TF = _profile(100)
LATCHED = _profile(1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Who comes later gets the last message at once."""
IMAGE = _profile(5)
"""Of images: who is slow gets the newest."""
INPUT = _profile(10, ReliabilityPolicy.BEST_EFFORT)
COMMAND = _profile(10)
"""Of what is sent once and must not be lost, such as a program's commands and goals."""
CLOCK = _profile(1, ReliabilityPolicy.BEST_EFFORT)
