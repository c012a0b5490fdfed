"""Quality-of-service profiles of the robot API.

Inputs are best effort, which is compatible with every publisher; within one machine nothing is lost. Outputs
are reliable, which is compatible with every subscriber; only the returns of the distance sensors and the drop
zone are best effort, as on the DOTS robots.
"""

from __future__ import annotations

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

from swarmbed_robot.topics import Quality


def _profile(
    depth: int,
    reliability: ReliabilityPolicy = ReliabilityPolicy.RELIABLE,
    durability: DurabilityPolicy = DurabilityPolicy.VOLATILE,
) -> QoSProfile:
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability, durability=durability
    )


SENSOR = _profile(5, ReliabilityPolicy.BEST_EFFORT)
"""For `sensor/scan`, `sensor/laser/*` and `sensor/dropzone`."""
OUTPUT = _profile(10)
TF = _profile(100)
LATCHED = _profile(1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Late subscribers get the last message."""
IMAGE = _profile(5)
"""For images: slow subscribers get the newest."""
PROFILES = {
    Quality.SENSOR: SENSOR,
    Quality.OUTPUT: OUTPUT,
    Quality.FRAMES: TF,
    Quality.LATCHED: LATCHED,
    Quality.IMAGE: IMAGE,
}
"""Profiles of the outputs that `topics` declares."""
INPUT = _profile(10, ReliabilityPolicy.BEST_EFFORT)
COMMAND = _profile(10)
"""For messages that are sent once and must not be lost, such as a program's commands and goals."""
CLOCK = _profile(1, ReliabilityPolicy.BEST_EFFORT)
