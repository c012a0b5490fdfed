"""Reserves ROS domains: a world holds its domain exclusively; tests and benchmarks take free ones."""

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
"""Base port: a domain is locked by binding the loopback port with this number plus the domain's."""
FEWEST, MOST = 1, 99
"""Range of domains for `own_domain`: higher ones use ports that the system assigns dynamically."""
DISCOVERY = 0.7
"""Seconds in which another world is discovered."""
WAY = "end it, or choose another domain with ROS_DOMAIN_ID"


def hold(domain: int) -> socket.socket:
    """Lock a domain for a world on this machine; closing the returned socket releases it.

    Raises:
        RobotError: another world holds the domain.
    """
    # The kernel releases an abstract socket name when the process ends.
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0swarmbed-world-{domain}")
    except OSError:
        lock.close()
        message = f"another world runs in ROS domain {domain} on this machine: {WAY}"
        raise RobotError(message) from None
    return lock


def check_free(domains: Iterable[int]) -> None:
    """Check that no world on this machine holds one of the domains, as programs would drive its robots.

    Raises:
        RobotError: a domain is taken.
    """
    for domain in sorted(set(domains)):
        hold(domain).close()


def hold_for_world(spinner: Spinner, node: Node) -> socket.socket:
    """Lock the domain of a world's node; closing the returned socket releases it.

    Raises:
        RobotError: another world holds the domain, on this machine or another one.
    """
    domain = node.context.get_domain_id()
    lock = hold(domain)
    # Worlds on other machines have to be discovered.
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
    """Lock a domain, or `count` consecutive ones, that no other process holds, and yield the first.

    Raises:
        RobotError: all domains are taken.
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
