"""What the middleware below ROS is told, where nobody has told it anything.

All of it concerns Fast DDS, the middleware of Jazzy unless RMW_IMPLEMENTATION names another one.
"""

from __future__ import annotations

import os
from pathlib import Path

from rclpy.utilities import get_rmw_implementation_identifier

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
"""Where Fast DDS 2 and 3 look for a profile."""
LOOPBACK = Path(__file__).with_name("loopback.xml")


def keep_apart() -> None:
    """Let nothing leave this machine unless somebody says so, and nobody's death stop others' messages.

    In Fast DDS' shared memory whoever is killed while it holds a lock stops all who send to it for ever. So
    what nodes on one machine say goes over the loopback.
    """
    reach = os.environ.setdefault(RANGE, "LOCALHOST")
    profile = str(LOOPBACK)
    if "fastrtps" not in get_rmw_implementation_identifier() or any(
        os.environ.get(name, profile) != profile for name in PROFILES
    ):
        return
    if reach == "LOCALHOST" and not os.environ.get("ROS_STATIC_PEERS"):
        # With LOCALHOST rmw_fastrtps adds shared memory, whatever a profile says.
        os.environ[RANGE] = "SYSTEM_DEFAULT"
        os.environ.update(dict.fromkeys(PROFILES, profile))
    elif reach != "SYSTEM_DEFAULT" or PROFILES[0] not in os.environ:
        for name in PROFILES:
            os.environ.pop(name, None)
        os.environ.setdefault("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4?sockets_size=4MB")


def send_beside() -> None:
    """Let a thread of its own send what this process publishes: DDS does not hold up a loop that has a pace.

    `run` applies it. A user who has set rmw_fastrtps' own variable overrides it.
    """
    os.environ.setdefault("RMW_FASTRTPS_PUBLICATION_MODE", "ASYNCHRONOUS")
