"""Start, spin and shutdown of all nodes of this package.

A node spins an events executor in its main thread, so that hundreds of silent topics cost nothing. SIGINT and
SIGTERM shut it down cleanly. An error in its options is reported in one line, with exit status 2.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from typing import TYPE_CHECKING, Any

import rclpy
from rclpy.context import Context
from rclpy.exceptions import InvalidTopicNameException
from rclpy.experimental import EventsExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.validate_full_topic_name import validate_full_topic_name
from swarmbed_core.errors import SwarmbedError

from swarmbed_robot.errors import RobotError
from swarmbed_robot.middleware import keep_apart
from swarmbed_robot.options import Option, declare, overrides, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

BAD_INPUT = 2
LISTEN = 0.1
"""Longest wait of a node before it checks whether it was asked to end, in seconds."""
CLOSING = 20.0
"""Time limit for the shutdown of ROS, in seconds; after that the process exits with a traceback."""


class Spinner:
    """The context, the executor and the nodes of one process.

    Attributes:
        stopping: whether the process was asked to end.
        closing: further functions that `close` calls.
    """

    def __init__(self, arguments: Sequence[str] = (), domain: int | None = None) -> None:
        """Initialise ROS.

        Args:
            arguments: the ROS arguments of the command line.
            domain: ROS domain; None: ROS_DOMAIN_ID.

        Raises:
            RobotError: the arguments or the ROS settings in the environment are invalid.
        """
        keep_apart()
        self.context = Context()
        try:
            rclpy.init(
                args=list(arguments) or None,
                context=self.context,
                domain_id=domain,
                signal_handler_options=SignalHandlerOptions.NO,
            )
        except RuntimeError as error:
            # rcl raises nothing else; its text ends with locations in its own source.
            said = str(error).partition(", at /")[0]
            remedy = "; set ROS_LOG_DIR to a writable directory" if "log directory" in said else ""
            message = f"ROS does not start: {said}{remedy}"
            raise RobotError(message) from None
        self.executor = EventsExecutor(context=self.context)
        self.nodes: list[Node] = []
        self.closing: list[Callable[[], object]] = []
        self.stopping = False

    def node(self, name: str, **how: Any) -> Node:
        """Create a node and add it to the executor.

        Args:
            name: name of the node.
            **how: further arguments of `Node`.
        """
        node = Node(name, context=self.context, **how)
        self.executor.add_node(node)
        self.nodes.append(node)
        return node

    def drop(self, node: Node) -> None:
        """Remove a node from the executor; the caller destroys it."""
        self.executor.remove_node(node)
        self.nodes.remove(node)

    def obey_signals(self) -> None:
        """Shut down cleanly on SIGINT and SIGTERM, even if the shell has set them to be ignored."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def once(self, timeout: float) -> None:
        """Wait for a callback, for at most `timeout` seconds, and run it."""
        self.executor.spin_once(timeout_sec=timeout)

    def spin(self) -> None:
        """Run callbacks until the process is asked to end."""
        while not self.stopping:
            self.once(LISTEN)

    def close(self) -> None:
        """Destroy the nodes, shut ROS down and call the functions in `closing`."""
        for node in self.nodes:
            node.destroy_node()
        self.nodes.clear()
        self.executor.shutdown()
        self.context.try_shutdown()
        for end in self.closing:
            end()


def run(
    name: str,
    description: str | None,
    options: Sequence[Option],
    start: Callable[[Spinner, Node, dict[str, Any]], int | None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a node to its end and return the exit status.

    Args:
        name: name of the node and of the program.
        description: description of the program, for `--help`.
        options: the node's options.
        start: runs the node and returns the exit status; None stands for 0.
        arguments: the command line; None: that of this process.
    """
    spinner = None
    try:
        given, ros = parse(name, (description or "").strip(), options, _arguments(arguments))
        spinner = Spinner(ros)
        spinner.obey_signals()
        node = spinner.node(name, parameter_overrides=overrides(given))
        return start(spinner, node, declare(node, options)) or 0
    except SwarmbedError as error:
        print(f"{name}: {error}", file=sys.stderr)  # noqa: T201 - there may be no node for logging
        return error.status
    finally:
        if spinner is not None:
            # Fast DDS of the wheels may wait for ever on a thread that it starves (Fast DDS issue 6513).
            faulthandler.dump_traceback_later(CLOSING, exit=True)
            spinner.close()
            faulthandler.cancel_dump_traceback_later()


def check_name(robot: str) -> None:
    """Check that a robot's name is valid as part of topic names.

    Raises:
        RobotError: the name is invalid.
    """
    try:
        validate_full_topic_name(f"/{robot}/info")
    except InvalidTopicNameException:
        message = f"'{robot}' is not a valid robot name: expected letters, digits and _, such as dots1"
        raise RobotError(message) from None


def _arguments(arguments: Sequence[str] | None) -> Sequence[str]:
    return sys.argv[1:] if arguments is None else arguments
