"""Run the program of one robot over ROS 2: a controller of Swarmbed, or your own module:Class.

The program is ticked at each `senses` message, ten times a second of the robot's clock. With py_trees_ros
installed, a controller's behaviour tree is a py_trees_ros tree, which its viewers can show: node
`/<robot>/tree`.
"""

from __future__ import annotations

import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np
from std_msgs.msg import String
from swarmbed_core.chance import Stream, stream
from swarmbed_core.controller import find_controller
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.safe_yaml import parse, short

from swarmbed_robot import qos
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import LISTEN, Spinner, run
from swarmbed_robot.options import Option
from swarmbed_robot.ros_robot import RosRobot
from swarmbed_robot.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rclpy.node import Node
    from swarmbed_core.controller import Controller

OPTIONS = (
    Option("robot", "dots1", "name of the robot", positional=True),
    Option("controller", "cooperative", "name of a controller, or your own module:Class"),
    Option("parameters", "{}", "parameters of the controller, as YAML: {search_speed: 0.5}"),
    Option("seed", -1, "seed of the program's random numbers; -1: the world's seed", -1, 2**32 - 1),
    Option("silence", 3.0, "seconds without senses after which the robot counts as gone", 0.1, 600.0),
    Option("patience", 60.0, "seconds to wait for a missing robot before the node exits", 0.1, 1e6),
)

FAILED = 1


class Program:
    """A controller and its robot, connected through ROS."""

    def __init__(self, spinner: Spinner, node: Node, options: dict[str, Any]) -> None:
        """Look up the controller; it is created once the robot is available.

        Raises:
            SwarmbedError: the controller or one of its parameters is unknown or invalid.
        """
        self._spinner = spinner
        self._node = node
        self._options = options
        parameters = parse(options["parameters"], "parameters") or {}
        if not isinstance(parameters, dict):
            given = short(options["parameters"])
            message = f"parameters '{given}': expected a YAML mapping, such as {{search_speed: 0.5}}"
            raise RobotError(message)
        self._found = find_controller(options["controller"], parameters, "controller")
        self.robot = RosRobot(node, options["robot"])
        self._controller: Controller | None = None
        self._tree: Any = None
        self._begins = 0
        self._ticked = 0.0
        self._doing = node.create_publisher(String, f"/{options['robot']}/doing", qos.LATCHED)

    def step(self) -> None:
        """Tick the program if there are new senses; restart it if its world was reset."""
        robot = self.robot
        if not robot.ready or not robot.listeners:
            return
        if self._controller is None or robot.begins != self._begins:
            self._begin()
            return
        if robot.time == self._ticked:
            return
        self._ticked = robot.time
        # `doing` is sent with the commands of the same tick, so that a run's frame sees both at once.
        robot.hold()
        try:
            self._controller.tick()
            self._say(self._controller.doing)
        except BaseException:
            robot.forget()
            raise
        robot.release()

    def _begin(self) -> None:
        robot, (made, parameters) = self.robot, self._found
        self._begins = robot.begins
        seed = self._options["seed"]
        entropy = int(robot.info.seed) if seed < 0 else seed
        # The same stream as in a run in a single process, for the robot with this index.
        source = stream(entropy, Stream.PROGRAMS, int(robot.info.index))
        self._controller = made(robot, parameters, np.random.default_rng(source))
        self._ticked = robot.time
        self._show_tree()
        self._say(self._controller.doing)
        robot.hello()
        said = f"{self._options['controller']} drives {robot.name}, a {robot.spec.kind}"
        self._node.get_logger().info(f"{said}, from {robot.time:.1f} s on")

    def _say(self, doing: str) -> None:
        if not isinstance(doing, str):
            message = f"the controller's `doing` is {doing!r}: expected a string of a word or two"
            raise RobotError(message)
        if doing != self.robot.doing:
            self._doing.publish(String(data=doing))
        self.robot.doing = doing

    def _show_tree(self) -> None:
        """Publish the controller's behaviour tree, if it has one and py_trees_ros is installed."""
        self._end_tree()
        root = getattr(self._controller, "root", None)
        trees = _py_trees_ros()
        if trees is None or root is None or not hasattr(self._controller, "tick_root"):
            return
        self._tree = trees.BehaviourTree(root=root, unicode_tree_debug=False)
        # The tree needs its own node: it destroys the node at its end, and declares its parameters on it.
        node = self._spinner.node("tree", namespace=f"/{self.robot.name}")
        self._tree.setup(node=node, timeout=15.0)
        self._controller.tick_root = self._tree.tick  # type: ignore[union-attr] # checked above

    def _end_tree(self) -> None:
        if self._tree is not None:
            self._spinner.drop(self._tree.node)
            self._tree.shutdown()
            self._tree = None
            # The executor holds the node, and so its name, until it spins once more.
            self._spinner.once(0.0)

    def close(self) -> None:
        """Stop the robot if it is available, and end the tree."""
        from swarmbed_core.robot import Command

        if self._controller is not None and self.robot.listeners:
            self.robot.act(Command(cancel=True))
        self._end_tree()


def _py_trees_ros() -> Any:
    """Return the module py_trees_ros.trees; None if it is not installed."""
    try:
        from py_trees_ros import trees
    except ImportError:
        return None
    return trees


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> int:
    """Run the program until its robot is gone or the process is asked to end."""
    program = Program(spinner, node, options)
    robot, log = program.robot, node.get_logger()
    gone: float | None = None
    wait = _Waiting(options["patience"])
    listening = time.monotonic()
    while not spinner.stopping:
        spinner.once(LISTEN)
        before = time.monotonic()
        try:
            program.step()
        except WireError as error:
            log.warning(f"{robot.name}: ignored: {error}", throttle_duration_sec=5.0)
        except SwarmbedError as error:
            log.error(f"{robot.name}: {error}")  # noqa: TRY400 - the message needs no traceback
            program.close()
            return FAILED
        except Exception:  # noqa: BLE001 - a program of the user's may raise anything
            said = f"{robot.name}: the program failed; the robot is stopped"
            log.error(f"{said}\n{traceback.format_exc()}")  # noqa: TRY400 - ROS's logger is not Python's
            program.close()
            return FAILED
        now = time.monotonic()
        if now - before > LISTEN:
            # During a long tick the node receives nothing: do not count that as the robot's silence.
            listening = now
        if robot.ready and min(robot.age, now - listening) < options["silence"]:
            if gone is not None:
                log.info(f"{robot.name} is back")
            gone = None
            wait.reset()
            continue
        if gone is None and robot.ready:
            gone = robot.time
            log.error(
                f"{robot.name} is gone: no senses for {options['silence']:g} s, the last at {gone:.1f} s; "
                "the program waits for it"
            )
        if wait.over():
            log.error(robot.silence(options["patience"]))
            return FAILED
    program.close()
    return 0


class _Waiting:
    """A timeout on this machine's clock."""

    def __init__(self, patience: float, clock: Callable[[], float] | None = None) -> None:
        import time

        self._clock = time.monotonic if clock is None else clock
        self._patience = patience
        self.reset()

    def reset(self) -> None:
        """Restart the timeout."""
        self._since = self._clock()

    def over(self) -> bool:
        """Return whether the timeout has passed."""
        return self._clock() - self._since > self._patience


def main() -> int:
    """Run the node."""
    return run("controller", __doc__, OPTIONS, start)


if __name__ == "__main__":
    sys.exit(main())
