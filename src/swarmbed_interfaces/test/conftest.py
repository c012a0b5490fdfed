"""A ROS 2 context for each test, alone in a domain of its own, and spins that end."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

rclpy = pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")
pytest.importorskip("swarmbed_interfaces", reason="the workspace is not built; run scripts/setup")

from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 20.0  # s; what is waited for takes milliseconds, a busy machine some seconds


@pytest.fixture(scope="session")
def domain() -> Iterator[int]:
    """A domain that no other test process uses: a bound port of the loopback is its lock."""
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    for number in range(1, 100):
        with socket.socket() as lock:
            try:
                lock.bind(("127.0.0.1", 22000 + number))
            except OSError:
                continue
            yield number
            return
    pytest.fail("all 99 domains are in use")


class Ros:
    """Nodes and the executor that spins them."""

    def __init__(self, domain: int) -> None:
        self.context = Context()
        rclpy.init(context=self.context, domain_id=domain)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.nodes: list[Node] = []

    def node(self, name: str) -> Node:
        node = Node(name, context=self.context)
        self.executor.add_node(node)
        self.nodes.append(node)
        return node

    def spin_until(self, done: Callable[[], object]) -> None:
        """Spin until `done()`; fail after PATIENCE."""
        clock = self.nodes[0].get_clock()
        end = clock.now().nanoseconds + int(PATIENCE * 1e9)
        while not done():
            if clock.now().nanoseconds > end:
                pytest.fail(f"nothing after {PATIENCE} s of spinning")
            self.executor.spin_once(timeout_sec=0.1)

    def close(self) -> None:
        for node in self.nodes:
            node.destroy_node()
        self.executor.shutdown()
        self.context.try_shutdown()


@pytest.fixture
def ros(domain: int) -> Iterator[Ros]:
    ros = Ros(domain)
    yield ros
    ros.close()
