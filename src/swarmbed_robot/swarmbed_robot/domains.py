"""ROS domains that nobody else on this machine has, for tests and benchmarks."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

from swarmbed_robot.errors import RobotError

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT = 22000
"""A bound port of the loopback, this and the domain's number, is the lock of a domain."""
FEWEST, MOST = 1, 99
"""Domains that are given away: higher ones use ports that systems hand out to anybody."""


@contextlib.contextmanager
def own_domain(count: int = 1) -> Iterator[int]:
    """Hold a domain, or the first of some in a row, that no other process holds.

    Raises:
        RobotError: all are taken.
    """
    for first in range(FEWEST, MOST + 2 - count):
        with contextlib.ExitStack() as held:
            try:
                for number in range(first, first + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", PORT + number))
            except OSError:
                continue
            yield first
            return
    message = f"all ROS domains from {FEWEST} to {MOST} are taken on this machine"
    raise RobotError(message)
