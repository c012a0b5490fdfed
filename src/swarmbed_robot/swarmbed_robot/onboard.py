"""Run one robot: its parts, its on-board software and its API on ROS 2. Each robot runs one such node.

The parts come from makers that packages register by name in the entry point group `swarmbed.devices`. The
device `virtual` simulates them, for use without a robot; `virtual+mine` has those that `mine` replaces.
"""

from __future__ import annotations

import gc
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from diagnostic_msgs.msg import DiagnosticArray
from swarmbed_core.arena import Arena
from swarmbed_core.local import LocalRobot
from swarmbed_core.onboard import Onboard
from swarmbed_core.outfit import outfit
from swarmbed_core.pacing import Pacer
from swarmbed_core.plugins import DEVICES, find_plugin
from swarmbed_core.scenario import Named
from swarmbed_core.scene import RobotPlacement
from swarmbed_core.spec import RobotSpec

from swarmbed_robot import qos
from swarmbed_robot.actions import see_off
from swarmbed_robot.api import OPTIONS as API_OPTIONS
from swarmbed_robot.api import RobotApi
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import Spinner, check_name, run
from swarmbed_robot.options import Option
from swarmbed_robot.pacing import DRAINED, pace_status

if TYPE_CHECKING:
    from rclpy.node import Node

OPTIONS = (
    Option(
        "robot", "dots1", "name of the robot: its namespace and the prefix of its frames", positional=True
    ),
    Option("kind", "dots", "kind of robot, from config/robots, or the path of such a file"),
    Option(
        "device", "virtual", "makers of the robot's parts: virtual, or your own module:Class; + joins several"
    ),
    Option("arena", "dots_arena", "arena, with the markers for localisation and a virtual robot's walls"),
    Option("localise", False, "localise by the markers on the arena's walls"),
    # Everybody must be able to stop a real robot by its power watchdog: a program must not lock them out.
    *(replace(option, default=False) if option.name == "program_owns" else option for option in API_OPTIONS),
)

CLOCK_SET = 0.1
"""Jump of the ROS clock from which stamps follow it, in seconds."""


class MachineClock:
    """This machine's monotonic clock."""

    @property
    def time(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.monotonic()


def makers_of(device: str, arena: str) -> tuple[Named, ...]:
    """Return the device makers that an option names; those that know arenas get this one.

    Raises:
        ConfigError: there is no such maker.
    """
    made = []
    for name in device.split("+"):
        known = getattr(getattr(find_plugin(DEVICES, name), "Parameters", None), "model_fields", {})
        made.append(Named.model_validate({"name": name, **({"arena": arena} if "arena" in known else {})}))
    return tuple(made)


def make_robot(options: dict[str, Any]) -> LocalRobot:
    """Return the robot that the options select.

    Raises:
        SwarmbedError: the kind, the device or the arena is unknown, or the arena lacks markers.
    """
    check_name(options["robot"])
    spec = RobotSpec.load(options["kind"])
    arena = Arena.load(options["arena"])
    walls = arena.markers() if options["localise"] else None
    if options["localise"] and walls is None:
        message = f"arena {options['arena']} has no markers for localisation: set localise to false"
        raise RobotError(message)
    makers = makers_of(options["device"], options["arena"])
    placement = RobotPlacement(options["robot"], spec, (0.0, 0.0, 0.0), device=makers)
    device = outfit(placement, None, MachineClock())
    return LocalRobot(Onboard(device, walls, zones=arena.zones))


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> None:
    """Run the robot until the process is asked to end; then disable its motors."""
    robot = make_robot(options)
    onboard, spec = robot.onboard, robot.spec
    # Compile or load kernels now, so that they do not delay the loop.
    onboard.step()
    epoch = node.get_clock().now().nanoseconds * 1e-9 - onboard.device.clock.time
    walls = Arena.load(options["arena"]).markers()
    api = RobotApi(node, robot, options, epoch=epoch, walls=walls)
    diagnostics = node.create_publisher(DiagnosticArray, "/diagnostics", qos.OUTPUT)
    sense_every = max(round(spec.control.rate / float(options["senses_rate"])), 1)
    tell_every = max(round(spec.control.rate), 1)
    node.get_logger().info(f"{robot.name}, a {spec.kind}, at {spec.control.rate:g} Hz")
    gc.collect()
    gc.freeze()
    pacer = Pacer()
    pacer.restart(time.monotonic(), 1.0 / spec.control.rate)
    try:
        while not spinner.stopping:
            now = time.monotonic()
            if (left := pacer.left(now)) > 0:
                spinner.once(left)
                continue
            pacer.begin(now)
            cycle = pacer.cycles
            # A loop that is behind must still handle its input.
            for _ in range(DRAINED):
                spinner.once(0.0)
            onboard.step()
            clock = onboard.device.clock.time
            api.cycle(clock)
            if cycle % sense_every == 0:
                api.sense(clock, anyway=cycle == sense_every)
            if cycle % tell_every == 0:
                shown = node.get_clock().now().nanoseconds * 1e-9 - clock
                if abs(shown - api.epoch) > CLOCK_SET:
                    api.anchor(shown)
                made = DiagnosticArray(status=[pace_status(pacer, api.name), *api.diagnostics()])
                made.header.stamp = node.get_clock().now().to_msg()
                diagnostics.publish(made)
    finally:
        gc.unfreeze()
        onboard.device.motors.enable(False)
        onboard.device.close()
        see_off([api], spinner.once)


def main() -> int:
    """Run the node."""
    return run("onboard", __doc__, OPTIONS, start)


if __name__ == "__main__":
    sys.exit(main())
