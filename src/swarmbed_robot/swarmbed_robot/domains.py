"""ROS domains of one's own: a world holds its domain alone; tests and benchmarks take free ones."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import TYPE_CHECKING

from swarmbed_robot.errors import RobotError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rclpy.node import Node

    from swarmbed_robot.nodes import Spinner

PORT = 22000
"""A bound port of the loopback, this and the domain's number, is the lock of a domain."""
FEWEST, MOST = 1, 99
"""Domains that are given away: higher ones use ports that systems hand out to anybody."""
DISCOVERY = 0.7
"""Seconds in which another world is found."""
WAY = "end it, or take another domain with ROS_DOMAIN_ID"


def hold(domain: int) -> socket.socket:
    """Hold a domain for a world on this machine; to be closed in the end.

    Raises:
        RobotError: another world has it.
    """
    # A name that the kernel takes back when the process ends.
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0swarmbed-world-{domain}")
    except OSError:
        lock.close()
        message = f"another world runs in ROS domain {domain} on this machine: {WAY}"
        raise RobotError(message) from None
    return lock


def check_free(domains: Iterable[int]) -> None:
    """Accept domains that no world on this machine has: programs would drive its robots.

    Raises:
        RobotError: one is taken.
    """
    for domain in sorted(set(domains)):
        hold(domain).close()


def hold_for_world(spinner: Spinner, node: Node) -> socket.socket:
    """Hold the domain of a node that will publish the clock; to be closed in the end.

    Raises:
        RobotError: another world has it.
    """
    domain = node.context.get_domain_id()
    lock = hold(domain)
    # Those of other machines have to be discovered.
    end = time.monotonic() + DISCOVERY
    while time.monotonic() < end:
        spinner.once(0.05)
        for found in node.get_publishers_info_by_topic("/clock"):
            lock.close()
            name = f"{found.node_namespace.rstrip('/')}/{found.node_name}"
            message = f"another world publishes /clock in ROS domain {domain} (node {name}): {WAY}"
            raise RobotError(message)
    return lock


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
