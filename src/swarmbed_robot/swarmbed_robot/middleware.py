"""Default settings of the ROS middleware; settings of the user override them.

All of them concern Fast DDS, Jazzy's middleware unless RMW_IMPLEMENTATION names another one.
"""

from __future__ import annotations

import os
from pathlib import Path

from rclpy.utilities import get_rmw_implementation_identifier

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
"""Environment variables with the profile of Fast DDS 2 and 3."""
LOOPBACK = Path(__file__).with_name("loopback.xml")


def keep_apart() -> None:
    """Limit traffic to this machine by default, and disable Fast DDS' shared memory.

    In shared memory, a process that is killed while it holds a lock blocks all senders to it for ever. So
    nodes on one machine communicate over the loopback.
    """
    reach = os.environ.setdefault(RANGE, "LOCALHOST")
    profile = str(LOOPBACK)
    if "fastrtps" not in get_rmw_implementation_identifier() or any(
        os.environ.get(name, profile) != profile for name in PROFILES
    ):
        return
    if reach == "LOCALHOST" and not os.environ.get("ROS_STATIC_PEERS"):
        # With LOCALHOST, rmw_fastrtps adds shared memory whatever the profile says.
        os.environ[RANGE] = "SYSTEM_DEFAULT"
        os.environ.update(dict.fromkeys(PROFILES, profile))
    elif reach != "SYSTEM_DEFAULT" or PROFILES[0] not in os.environ:
        for name in PROFILES:
            os.environ.pop(name, None)
        os.environ.setdefault("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4?sockets_size=4MB")


def send_beside() -> None:
    """Publish from a separate thread by default, so that DDS does not delay a real-time loop.

    Call it before `run`. The user can override it with the same environment variable.
    """
    os.environ.setdefault("RMW_FASTRTPS_PUBLICATION_MODE", "ASYNCHRONOUS")
