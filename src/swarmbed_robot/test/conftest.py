"""A ROS 2 context for each test, alone in a domain of its own, and spins that end."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")
pytest.importorskip("swarmbed_interfaces", reason="the workspace is not built; run scripts/setup")

from swarmbed_robot.nodes import Spinner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 30.0  # s; what is waited for takes milliseconds, a busy machine some seconds


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
        self.spinner = Spinner(domain=domain)
        self.domain = domain

    def node(self, name: str, **how):
        return self.spinner.node(name, **how)

    def spin_until(self, done: Callable[[], object], what: str = "what was waited for") -> None:
        """Spin until `done()`; fail after PATIENCE."""
        end = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > end:
                pytest.fail(f"no sign of {what} after {PATIENCE} s of spinning")
            self.spinner.once(0.02)

    def spin_for(self, seconds: float) -> None:
        """Spin for some time of this machine."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.spinner.once(min(left, 0.02))

    def close(self) -> None:
        self.spinner.close()


@pytest.fixture
def ros(domain: int) -> Iterator[Ros]:
    ros = Ros(domain)
    yield ros
    ros.close()
