"""A `Robot` over ROS 2, for programs written against `sense()` and `act()`.

The protocol has two topics: `senses` carries everything that the robot knows, once per tick, and `command`
everything that the program requests, together with its heartbeat. A tick over ROS is therefore the same as in
one process: sense once, command once.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from swarmbed_core.errors import ConfigError
from swarmbed_core.robot import Command

from swarmbed_interfaces import msg
from swarmbed_robot import qos, wire
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import Spinner, check_name

if TYPE_CHECKING:
    from rclpy.node import Node
    from swarmbed_core.device import RadioPacket
    from swarmbed_core.robot import Senses
    from swarmbed_core.spec import RobotSpec

PATIENCE = 30.0
"""Wall-clock seconds that a program waits for its robot to appear."""
HEARD_MAX = 1000
"""Maximum number of unread packets kept per radio."""


class RosRobot:
    """One robot over ROS.

    The caller must spin the node; a robot from `connect` spins its own.

    Attributes:
        doing: what the program is doing, in a word or two; it is sent with each command.
        begins: number of starts of the robot: with its world, with each reset and with each later world.
        refused: number of commands that could not be sent, and the latest reason.
    """

    def __init__(self, node: Node, name: str) -> None:
        """Subscribe to a robot.

        Args:
            node: node of the topics.
            name: name of the robot.

        Raises:
            RobotError: the name is not a valid robot name.
        """
        check_name(name)
        self._node = node
        self._name = name
        self.doing = ""
        self.begins = 0
        self._held: list[Command] | None = None
        self.refused: tuple[int, str] = (0, "")
        self._spec: RobotSpec | None = None
        self._info: msg.RobotInfo | None = None
        self._senses: msg.Senses | None = None
        self._heard: dict[str, list[RadioPacket]] = {}
        self._arrived = math.nan
        self._spinner: Spinner | None = None
        self._listening = [
            node.create_subscription(msg.RobotInfo, f"/{name}/info", self._on_info, qos.LATCHED),
            node.create_subscription(msg.Senses, f"/{name}/senses", self._on_senses, qos.LATCHED),
        ]
        self._commands = node.create_publisher(msg.Command, f"/{name}/command", qos.COMMAND)

    @classmethod
    def connect(cls, name: str, *, patience: float = PATIENCE, domain: int | None = None) -> Self:
        """Wait for a robot's senses and return the robot, with its own node: for scripts without a node.

        Args:
            name: name of the robot.
            patience: wall-clock seconds to wait for the robot.
            domain: ROS domain; None: ROS_DOMAIN_ID.

        Raises:
            RobotError: the robot did not appear in time.
        """
        check_name(name)
        spinner = Spinner(domain=domain)
        robot = cls(spinner.node(f"{name}_program"), name)
        robot._spinner = spinner
        try:
            robot.wait(patience)
        except RobotError:
            spinner.close()
            raise
        return robot

    def __enter__(self) -> Self:
        """Return this robot."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the robot."""
        self.close()

    def close(self) -> None:
        """Destroy the topics, and the node that `connect` created."""
        if self._spinner is not None:
            self._spinner.close()
            self._spinner = None
            return
        for subscription in self._listening:
            self._node.destroy_subscription(subscription)
        self._node.destroy_publisher(self._commands)

    def wait(self, patience: float = PATIENCE) -> Senses:
        """Spin until the next senses arrive and return them; only for robots from `connect`.

        Args:
            patience: wall-clock seconds to wait.

        Raises:
            RobotError: no senses arrived in time, or the robot is not from `connect`.
        """
        if self._spinner is None:
            message = f"{self._name}: wait() needs a robot from RosRobot.connect; spin the node instead"
            raise RobotError(message)
        before, end = self.time, time.monotonic() + patience
        while not self.ready or self.time == before:
            left = end - time.monotonic()
            if left <= 0:
                raise RobotError(self.silence(patience))
            self._spinner.once(min(left, 0.1))
        return self.sense()

    def silence(self, seconds: float) -> str:
        """Return an error text for a robot that has been silent for some seconds."""
        what = "senses" if self._info is not None else "robot"
        return (
            f"no {what} '{self._name}' for {seconds:g} s in ROS domain {self._node.context.get_domain_id()}: "
            "check that its world or onboard node is running, with the same ROS_DOMAIN_ID"
        )

    @property
    def ready(self) -> bool:
        """Return whether the robot's kind and senses have been received."""
        return self._spec is not None and self._senses is not None and self._senses.run == self.info.run

    @property
    def name(self) -> str:
        """Return the robot's name."""
        return self._name

    @property
    def spec(self) -> RobotSpec:
        """Return the robot's kind.

        Raises:
            RobotError: it has not been received yet.
        """
        if self._spec is None:
            raise RobotError(self.silence(0.0))
        return self._spec

    @property
    def info(self) -> msg.RobotInfo:
        """Return the robot's latest info message.

        Raises:
            RobotError: it has not been received yet.
        """
        if self._info is None:
            raise RobotError(self.silence(0.0))
        return self._info

    @property
    def time(self) -> float:
        """Return the time of the newest senses, in seconds of the robot's clock; NaN before the first."""
        return math.nan if self._senses is None else self._senses.time

    @property
    def run(self) -> int:
        """Return the run of the newest senses, which changes when the world is reset."""
        return 0 if self._senses is None else int(self._senses.run)

    @property
    def age(self) -> float:
        """Return the wall-clock seconds since the newest senses arrived; infinity before the first."""
        return math.inf if math.isnan(self._arrived) else time.monotonic() - self._arrived

    def sense(self) -> Senses:
        """Return the robot's senses of its latest tick; each packet of its radios is returned once.

        Raises:
            RobotError: no senses have been received yet.
            WireError: the message is invalid.
        """
        if self._senses is None:
            raise RobotError(self.silence(0.0))
        senses = wire.senses_from_msg(self._senses, self.spec)
        heard = {name: tuple(packets) for name, packets in self._heard.items()}
        for packets in self._heard.values():
            packets.clear()
        return replace(senses, heard=heard)

    def hold(self) -> None:
        """Collect commands until `release`, so that they are sent at the end of a tick."""
        self._held = []

    def release(self) -> None:
        """Send the commands collected since `hold`, or an empty one as a heartbeat, with `doing`."""
        held, self._held = self._held or [Command()], None
        for command in held:
            self.act(command)

    def forget(self) -> None:
        """Drop the commands collected since `hold`, because the tick has failed."""
        self._held = None

    def act(self, command: Command) -> None:
        """Send a command; an invalid one is rejected and counted, and raises nothing."""
        if self._held is not None:
            self._held.append(command)
            return
        try:
            made = wire.command_to_msg(command, time=self.time, run=self.run, doing=self.doing)
        except wire.WireError as error:
            self.refused = (self.refused[0] + 1, str(error))
            self._node.get_logger().warning(f"{self._name}: {error}")
            # Still a heartbeat; and the robot rejects and counts it in place of the original.
            made = msg.Command(run=self.run, time=self.time, doing=self.doing, lift=REFUSED)
        self._commands.publish(made)

    def hello(self) -> None:
        """Announce the program with an empty command, before its first tick."""
        self._commands.publish(wire.command_to_msg(Command(), time=self.time, run=self.run, doing=self.doing))

    @property
    def listeners(self) -> int:
        """Return the number of subscribers of `command`: 0 while the robot is missing."""
        return int(self._commands.get_subscription_count())

    def _on_info(self, sent: msg.RobotInfo) -> None:
        try:
            self._spec = wire.spec_from_text(sent.spec)
        except ConfigError as error:
            self._node.get_logger().error(f"{self._name}: {error}")
            return
        if self._info is not None:
            # A new world, or a reset one: the old senses are no longer valid.
            self._senses = None
            self._heard.clear()
        self._info = sent
        self.begins += 1

    def _on_senses(self, sent: msg.Senses) -> None:
        self._arrived = time.monotonic()
        before, self._senses = self._senses, sent
        if before is not None and (sent.run, sent.time) == (before.run, before.time):
            # A repetition, sent as a sign of life while the world stands still.
            return
        if before is not None and sent.run != before.run:
            self._heard.clear()
        for radio, packets in wire.heard_from_msg(sent).items():
            kept = self._heard.setdefault(radio, [])
            kept.extend(packets)
            del kept[:-HEARD_MAX]


REFUSED = -2
"""An invalid value of a switch, so that the robot rejects and counts the command."""
