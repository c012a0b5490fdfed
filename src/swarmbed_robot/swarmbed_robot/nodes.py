"""How every node of this package starts, spins and ends.

A node spins in its main thread: an events executor, so that hundreds of topics cost nothing while they are
silent. SIGINT and SIGTERM end it in order; what is wrong with its options is one line and exit status 2.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from pathlib import Path
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
"""Seconds after which a node that waits looks whether it shall end."""
CLOSING = 20.0
"""Seconds that a node is given to leave ROS; then it ends all the same."""


class Spinner:
    """The context and the executor of one process, and whether it shall end.

    Attributes:
        stopping: whether somebody asked the process to end.
        closing: what else is done when it is closed.
    """

    def __init__(self, arguments: Sequence[str] = (), domain: int | None = None) -> None:
        """Begin.

        Args:
            arguments: what the command line says to ROS.
            domain: instead of ROS_DOMAIN_ID.

        Raises:
            RobotError: the arguments make no sense, or the environment's settings of ROS do not.
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
            # All that rcl raises is one, and its text ends with places in its own source.
            said = str(error).partition(", at /")[0]
            remedy = "; set ROS_LOG_DIR to a directory that you can write" if "log directory" in said else ""
            message = f"ROS does not start: {said}{remedy}"
            raise RobotError(message) from None
        self.executor = EventsExecutor(context=self.context)
        self.nodes: list[Node] = []
        self.closing: list[Callable[[], object]] = []
        self.stopping = False

    def node(self, name: str, **how: Any) -> Node:
        """Return a new node of this process."""
        node = Node(name, context=self.context, **how)
        self.executor.add_node(node)
        self.nodes.append(node)
        return node

    def drop(self, node: Node) -> None:
        """Let go of a node that somebody else destroys."""
        self.executor.remove_node(node)
        self.nodes.remove(node)

    def obey_signals(self) -> None:
        """End in order on SIGINT and SIGTERM, even where the shell has told us to ignore them."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stopping = True

    def once(self, timeout: float) -> None:
        """Wait for something to do for some seconds at most, and do it."""
        self.executor.spin_once(timeout_sec=timeout)

    def spin(self) -> None:
        """Do what comes until the process shall end."""
        while not self.stopping:
            self.once(LISTEN)

    def close(self) -> None:
        """Give everything back."""
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
        name: of the node and of the program.
        description: of the program, for `--help`.
        options: what it can be told.
        start: does the node's work; returns the exit status, None for 0.
        arguments: the command line, if not this process's.
    """
    spinner = None
    try:
        given, ros = parse(name, (description or "").strip(), options, _arguments(arguments))
        spinner = Spinner(ros)
        spinner.obey_signals()
        node = spinner.node(name, parameter_overrides=overrides(given))
        return start(spinner, node, declare(node, options)) or 0
    except SwarmbedError as error:
        print(f"{name}: {error}", file=sys.stderr)  # noqa: T201 - there may be no node to log with
        return error.status
    finally:
        if spinner is not None:
            # Fast DDS of the wheels may wait for ever for a thread that it starves (its issue 6513).
            faulthandler.dump_traceback_later(CLOSING, exit=True)
            spinner.close()
            faulthandler.cancel_dump_traceback_later()


def check_name(robot: str) -> None:
    """Accept what can be the name of a robot: its topics have it.

    Raises:
        RobotError: it cannot.
    """
    try:
        validate_full_topic_name(f"/{robot}/info")
    except InvalidTopicNameException:
        message = f"'{robot}' is no robot's name: letters, digits and _ are right, such as dots1"
        raise RobotError(message) from None


def _arguments(arguments: Sequence[str] | None) -> Sequence[str]:
    return sys.argv[1:] if arguments is None else arguments


def program() -> str:
    """Return the name by which this process was started."""
    return Path(sys.argv[0]).name
