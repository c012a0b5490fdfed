"""Host a world on ROS 2: its clock, and the API of all its robots.

Robots, arena and carriers come from a scenario; its controller and its frame are left to others: start a
controller for each robot with `controller`, or all of it with `swarmbed up`.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from swarmbed_core.chance import Stream, stream
from swarmbed_core.config import check, find
from swarmbed_core.local import LocalSwarm
from swarmbed_core.plugins import WORLDS, find_plugin
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import Scene, make_scene

from swarmbed_robot.host import OPTIONS as HOST_OPTIONS
from swarmbed_robot.host import WorldHost
from swarmbed_robot.middleware import send_beside
from swarmbed_robot.nodes import Spinner, run
from swarmbed_robot.options import Option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rclpy.node import Node

OPTIONS = (
    Option(
        "scenario",
        "intralogistics",
        "a name from config/scenarios, or a .yaml file",
        positional=True,
    ),
    Option("world", "", "instead of the scenario's world: mujoco, planar, gazebo"),
    Option("robots", 0, "how many, instead of the scenario's first group", 0, 1000),
    Option("seed", -1, "of all chance, instead of the scenario's", -1, 2**32 - 1),
    *HOST_OPTIONS,
)


WARM = 30
"""Steps after which all parts have had their turn."""


class PlainStage:
    """A scenario's world and robots, and nothing around them."""

    fixed = ""
    silent: frozenset[str] = frozenset()

    def __init__(self, scenario: Scenario, source: str, seed: int) -> None:
        """Make them.

        Raises:
            ConfigError: something in the scenario is wrong.
        """
        self.seed = seed
        self.scene: Scene = make_scene(scenario, seed, source)
        maker = find_plugin(WORLDS, scenario.world)
        self.world = maker(self.scene, stream(seed, Stream.WORLD))
        self.swarm = LocalSwarm.of_scene(self.scene, self.world)

    def step(self) -> None:
        """Let one time step pass."""
        self.swarm.step()

    def tick(self, doing: Mapping[str, str]) -> bool:
        """Go on."""
        del doing
        return False

    def verdict(self) -> tuple[str, str]:
        """Return nothing: nobody judges."""
        return "", ""

    def close(self) -> None:
        """Give back what the world holds."""
        self.world.close()


def warm_up(scenario: Scenario, source: str) -> None:
    """Run a scenario's beginning for nothing, so that all of it is compiled, or loaded from the cache."""
    stage = PlainStage(scenario, source, scenario.seed)
    # What raises here will raise in the world, which tells of it.
    with contextlib.suppress(Exception):
        for _ in range(WARM):
            stage.step()
    stage.close()


def load(options: Mapping[str, Any]) -> tuple[Scenario, str]:
    """Return the scenario that the options ask for, and its file.

    Raises:
        ConfigError: there is none, or it is not what it should be.
    """
    path = find(options["scenario"], Scenario.FOLDER)
    scenario = Scenario.load(str(path))
    change: dict[str, Any] = {}
    if options["world"]:
        change["world"] = options["world"]
    if options["robots"]:
        first, *others = scenario.robots
        change["robots"] = (first.model_copy(update={"count": options["robots"]}), *others)
    if options["seed"] >= 0:
        change["seed"] = options["seed"]
    return check(scenario.model_dump() | change, Scenario, str(path)), str(path)


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> int:
    """Host the world until the process shall end."""
    scenario, source = load(options)
    # Who is told that the world runs need not wait until it is compiled.
    warm_up(scenario, source)

    def make(seed: int | None) -> PlainStage:
        return PlainStage(scenario, source, scenario.seed if seed is None else seed)

    host = WorldHost(spinner, node, make, options)
    try:
        domain = node.context.get_domain_id()
        node.get_logger().info(f"{len(host.apis)} robots in ROS domain {domain}: {', '.join(host.apis)}")
        host.run()
    finally:
        host.close()
    return 0


def main() -> int:
    """Run the node."""
    send_beside()
    return run("world", __doc__, OPTIONS, start)


if __name__ == "__main__":
    sys.exit(main())
