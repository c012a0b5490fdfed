"""Host a world on ROS 2: its clock, and the API of all its robots.

Robots, arena and carriers come from a scenario; its controller and its frame are not used. Start a controller
for each robot with `controller`, or everything with `swarmbed up`.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from swarmbed_core.chance import Stream, stream
from swarmbed_core.config import check, find
from swarmbed_core.ensemble import Ensemble
from swarmbed_core.plugins import WORLDS, find_plugin
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene

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
        "name from config/scenarios, or a .yaml file",
        positional=True,
    ),
    Option("world", "", "mujoco, planar or gazebo; none: the scenario's world"),
    Option("robots", 0, "number of robots in the scenario's first group; 0: the scenario's", 0, 1000),
    Option("seed", -1, "seed of all random numbers; -1: the scenario's", -1, 2**32 - 1),
    *HOST_OPTIONS,
)


WARM = 30
"""Number of steps in which all parts run at least once."""


class PlainWorld(Ensemble):
    """A scenario's world and robots, without programs and without an experimental frame.

    Attributes:
        seed: seed of all random numbers.
    """

    fixed = ""

    def __init__(self, scenario: Scenario, source: str, seed: int) -> None:
        """Create the world and the robots.

        Args:
            scenario: the scenario.
            source: its file, for errors.
            seed: seed of all random numbers.

        Raises:
            ConfigError: the scenario is invalid.
        """
        self.seed = seed
        scene = make_scene(scenario, seed, source)
        maker = find_plugin(WORLDS, scenario.world)
        super().__init__(scene, maker(scene, stream(seed, Stream.WORLD)))
        for _ in self.robots:
            self.drive_from_elsewhere()

    def verdict(self) -> tuple[str, str]:
        """Return empty texts: the run is not judged."""
        return "", ""


def warm_up(scenario: Scenario, source: str) -> None:
    """Run the first steps of a scenario, so that all kernels are compiled or loaded from the cache."""
    stage = PlainWorld(scenario.all_virtual(), source, scenario.seed)
    # An error here will occur again in the hosted world, which reports it.
    with contextlib.suppress(Exception):
        for _ in range(WARM):
            stage.step()
    stage.close()


def load(options: Mapping[str, Any]) -> tuple[Scenario, str]:
    """Return the scenario that the options select, and its file.

    Raises:
        ConfigError: the scenario is missing or invalid.
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
    """Host the world until the process is asked to end."""
    scenario, source = load(options)
    # Compile first, so that the world does not stall after it is announced.
    warm_up(scenario, source)

    def make(seed: int | None) -> PlainWorld:
        return PlainWorld(scenario, source, scenario.seed if seed is None else seed)

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
