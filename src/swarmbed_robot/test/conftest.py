"""A ROS 2 context for each test, alone in a domain of its own, and spins that end."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("rclpy", reason="rclpy is not here; source scripts/env.sh")
pytest.importorskip("swarmbed_interfaces", reason="the workspace is not built; run scripts/setup")

from ament_index_python.packages import get_package_prefix
from geometry_msgs.msg import PoseStamped
from rclpy.action import ActionClient
from swarmbed_core.arena import Arena
from swarmbed_core.local import LocalRobot, LocalSwarm
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.onboard import Onboard
from swarmbed_robot.api import OPTIONS, RobotApi
from swarmbed_robot.domains import own_domain
from swarmbed_robot.nodes import Spinner

from swarmbed_interfaces.action import FollowPath
from swarmbed_interfaces.msg import Waypoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 30.0  # s; what is waited for takes milliseconds, a busy machine some seconds


@pytest.fixture
def goal_at() -> Callable[..., PoseStamped]:
    """Makes poses with stamps, such as those that rviz sends."""

    def make(x: float, y: float, yaw: float = 0.0, frame: str = "map") -> PoseStamped:
        made = PoseStamped()
        made.header.frame_id = frame
        made.pose.position.x, made.pose.position.y = x, y
        made.pose.orientation.z, made.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
        return made

    return make


@pytest.fixture(scope="session")
def domain() -> Iterator[int]:
    """A domain that no other process uses."""
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    with own_domain() as number:
        yield number


class Ros:
    """Nodes and the executor that spins them."""

    def __init__(self, domain: int) -> None:
        self.spinner = Spinner(domain=domain)
        self.domain = domain
        self._clients: list[ActionClient] = []

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

    def far_goal(self, node, robot: str):
        """Send a robot far away; return the future of how that ends."""
        client = ActionClient(node, FollowPath, f"/{robot}/follow_path")
        # As long as the test: without it no answer comes.
        self._clients.append(client)
        self.spin_until(client.server_is_ready, "the action")
        goal = FollowPath.Goal(waypoints=[Waypoint(x=5.0)], max_speed=0.1)
        goal.header.frame_id = "odom"
        sent = client.send_goal_async(goal)
        self.spin_until(sent.done, "acceptance")
        return sent.result().get_result_async()

    def close(self) -> None:
        self.spinner.close()


@pytest.fixture
def ros(domain: int) -> Iterator[Ros]:
    ros = Ros(domain)
    yield ros
    ros.close()


class Processes:
    """Nodes as processes of their own, and an end for all of them."""

    def __init__(self, tmp_path: Path, domain: int) -> None:
        self.tmp_path = tmp_path
        self.environment = os.environ | {
            "ROS_DOMAIN_ID": str(domain),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "PYTHONUNBUFFERED": "1",
        }
        self.started: list[subprocess.Popen] = []

    def start(self, *command: str, domain: int | None = None) -> Started:
        """Start a node of this package by its name, or any other program by its path."""
        program = command[0]
        if "/" not in program:
            program = f"{get_package_prefix('swarmbed_robot')}/lib/swarmbed_robot/{program}"
        environment = self.environment
        if domain is not None:
            environment = environment | {"ROS_DOMAIN_ID": str(domain)}
        log = self.tmp_path / f"{len(self.started)}-{Path(program).name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                ["env", "--default-signal=INT", program, *command[1:]],
                env=environment,
                cwd=self.tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return Started(process, log)

    def close(self) -> None:
        for number, patience in ((signal.SIGINT, 10.0), (signal.SIGKILL, 5.0)):
            for process in self.started:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, number)
            end = time.monotonic() + patience
            while time.monotonic() < end and any(process.poll() is None for process in self.started):
                time.sleep(0.02)


class Started:
    """One process that was started, and what it printed."""

    def __init__(self, process: subprocess.Popen, log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def send(self, number: int) -> None:
        os.killpg(self.process.pid, number)


@pytest.fixture
def processes(tmp_path: Path, domain: int) -> Iterator[Processes]:
    made = Processes(tmp_path, domain)
    yield made
    made.close()


DEFAULTS = {option.name: option.default for option in OPTIONS}


class ApiRig:
    """One robot of a world in this process behind its API, and an outsider who speaks only ROS with it."""

    def __init__(
        self,
        ros: Ros,
        kind: str = "dots",
        arena: str = "empty",
        *,
        localised=True,
        walls=None,
        device=None,
        **options,
    ) -> None:
        self.ros = ros
        self.world = MemoryWorld.of([kind], arena=arena, seed=3)
        self.swarm = LocalSwarm(self.world, Arena.load(arena).markers() if localised else None)
        self.robot = self.swarm.robots[0]
        if device is not None:
            # Parts that a world in memory does not have.
            self.robot = LocalRobot(Onboard(device(self.robot.onboard.device)))
            self.swarm.robots[0] = self.robot
        self.onboard = self.robot.onboard
        self.name = self.robot.name
        self.api = RobotApi(ros.node("world"), self.robot, DEFAULTS | options, walls=walls)
        self.outsider = ros.node("outsider")
        self.heard: dict[str, list] = {}

    def listen(self, topic: str, kind, profile=10) -> list:
        """Subscribe, wait until the robot knows, and return where messages are collected."""
        got = self.heard[topic] = []
        self.outsider.create_subscription(kind, f"/{self.name}/{topic}", got.append, profile)
        output = self.api.outputs[topic]
        self.ros.spin_until(output.publisher.get_subscription_count, f"a listener of {topic}")
        self.api.look()
        return got

    def publisher(self, topic: str, kind, profile=10):
        made = self.outsider.create_publisher(kind, f"/{self.name}/{topic}", profile)
        self.ros.spin_until(made.get_subscription_count, f"the robot on {topic}")
        return made

    def say(self, publisher, message) -> None:
        """Publish and wait until the robot has it."""
        topic = publisher.topic_name.removeprefix(f"/{self.name}/")
        before = self.api.inputs[topic]
        publisher.publish(message)
        self.ros.spin_until(lambda: self.api.inputs[topic] > before, f"{topic} at the robot")

    def run(self, seconds: float) -> None:
        """Let the world's time pass; what comes in and goes out meanwhile is taken."""
        for _ in range(round(seconds / self.world.timestep)):
            self.swarm.step()
            self.api.cycle(self.world.time)
            for _ in range(4):
                self.ros.spinner.once(0.0)
        self.ros.spin_for(0.02)

    def run_until(self, done: Callable[[], object], seconds: float = 20.0) -> None:
        """Let time pass until `done()`; fail after so many seconds of the world."""
        end = self.world.time + seconds
        while not done():
            assert self.world.time < end, f"nothing after {seconds} s of the world"
            self.run(0.05)
            self.ros.spinner.once(0.001)

    @property
    def truth(self):
        return self.world.truth()[0]

    @property
    def refused(self):
        return self.onboard.health.counts


@pytest.fixture
def make_rig(ros: Ros) -> Iterator[Callable[..., ApiRig]]:
    made = []

    def make(kind: str = "dots", **options) -> ApiRig:
        made.append(ApiRig(ros, kind, **options))
        return made[-1]

    yield make
    for rig in made:
        rig.api.close()


@pytest.fixture
def dots(make_rig) -> ApiRig:
    return make_rig()
