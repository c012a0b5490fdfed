"""A `Robot` behind ROS 2: what a program written against `sense()` and `act()` uses there.

Two topics are the whole protocol: `senses` brings everything that the robot knows, once a tick, and `command`
takes everything that the program wants, and says that it is alive. So a tick over ROS is what it is in one
process: sense once, command once.
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
"""Seconds of this machine that a program waits for its robot to appear."""
HEARD_MAX = 1000
"""Packets kept for a program that does not read them."""


class RosRobot:
    """One robot over ROS.

    Somebody has to spin the node; `connect` gives a robot that does so itself.

    Attributes:
        doing: what the program does, in a word or two: it goes out with each command.
        begins: how often the robot has begun: with its world, with each reset, with the world after that.
        refused: how many commands no message could hold, and the latest explanation.
    """

    def __init__(self, node: Node, name: str) -> None:
        """Listen to a robot.

        Args:
            node: that has the topics.
            name: of the robot.

        Raises:
            RobotError: no robot can have that name.
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
        """Return a robot with a node of its own, when its senses come: for a script that has no node.

        Args:
            name: of the robot.
            patience: seconds of this machine to wait for it.
            domain: instead of ROS_DOMAIN_ID.

        Raises:
            RobotError: there is none of this name.
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
        """Stop listening."""
        self.close()

    def close(self) -> None:
        """Stop listening, and give back what `connect` made."""
        if self._spinner is not None:
            self._spinner.close()
            self._spinner = None
            return
        for subscription in self._listening:
            self._node.destroy_subscription(subscription)
        self._node.destroy_publisher(self._commands)

    def wait(self, patience: float = PATIENCE) -> Senses:
        """Wait for the next senses, spinning, and return them; only for a robot that `connect` gave.

        Raises:
            RobotError: none came.
        """
        if self._spinner is None:
            message = f"{self._name}: wait() is for robots of RosRobot.connect; spin the node instead"
            raise RobotError(message)
        before, end = self.time, time.monotonic() + patience
        while not self.ready or self.time == before:
            left = end - time.monotonic()
            if left <= 0:
                raise RobotError(self.silence(patience))
            self._spinner.once(min(left, 0.1))
        return self.sense()

    def silence(self, seconds: float) -> str:
        """Return what to say when nothing came of a robot for some seconds."""
        what = "senses" if self._info is not None else "robot"
        return (
            f"no {what} '{self._name}' for {seconds:g} s in ROS domain {self._node.context.get_domain_id()}: "
            "is its world or its onboard node running, and ROS_DOMAIN_ID the same?"
        )

    @property
    def ready(self) -> bool:
        """Return whether the robot's kind and its senses are known."""
        return self._spec is not None and self._senses is not None and self._senses.run == self.info.run

    @property
    def name(self) -> str:
        """Return the robot's unique name."""
        return self._name

    @property
    def spec(self) -> RobotSpec:
        """Return what kind of robot it is.

        Raises:
            RobotError: nothing came of it as yet.
        """
        if self._spec is None:
            raise RobotError(self.silence(0.0))
        return self._spec

    @property
    def info(self) -> msg.RobotInfo:
        """Return what the robot tells of itself.

        Raises:
            RobotError: nothing came of it as yet.
        """
        if self._info is None:
            raise RobotError(self.silence(0.0))
        return self._info

    @property
    def time(self) -> float:
        """Return the time of the newest senses, NaN before the first."""
        return math.nan if self._senses is None else self._senses.time

    @property
    def run(self) -> int:
        """Return the run of the newest senses: it changes when the world is reset."""
        return 0 if self._senses is None else int(self._senses.run)

    @property
    def age(self) -> float:
        """Return how many seconds of this machine ago the newest senses came, infinity before the first."""
        return math.inf if math.isnan(self._arrived) else time.monotonic() - self._arrived

    def sense(self) -> Senses:
        """Return what the robot knew at its latest tick; what its radios heard is handed out once.

        Raises:
            RobotError: nothing came of it as yet.
            WireError: what came makes no sense.
        """
        if self._senses is None:
            raise RobotError(self.silence(0.0))
        senses = wire.senses_from_msg(self._senses, self.spec)
        heard = {name: tuple(packets) for name, packets in self._heard.items()}
        for packets in self._heard.values():
            packets.clear()
        return replace(senses, heard=heard)

    def hold(self) -> None:
        """Keep what the program asks for until `release`: a program's tick is sent when it is over."""
        self._held = []

    def release(self) -> None:
        """Send what the program has asked for since `hold`, or a sign of life, with what it does now."""
        held, self._held = self._held or [Command()], None
        for command in held:
            self.act(command)

    def forget(self) -> None:
        """Drop what the program has asked for since `hold`: it has failed in the middle of its tick."""
        self._held = None

    def act(self, command: Command) -> None:
        """Ask the robot for something; what cannot be done is refused and counted, not raised."""
        if self._held is not None:
            self._held.append(command)
            return
        try:
            made = wire.command_to_msg(command, time=self.time, run=self.run, doing=self.doing)
        except wire.WireError as error:
            self.refused = (self.refused[0] + 1, str(error))
            self._node.get_logger().warning(f"{self._name}: {error}")
            # It is still there; and the robot counts what its program could not say.
            made = msg.Command(run=self.run, time=self.time, doing=self.doing, lift=REFUSED)
        self._commands.publish(made)

    def hello(self) -> None:
        """Say that a program is there, before it has anything to say."""
        self._commands.publish(wire.command_to_msg(Command(), time=self.time, run=self.run, doing=self.doing))

    @property
    def listeners(self) -> int:
        """Return how many take the commands: none while the robot is not there."""
        return int(self._commands.get_subscription_count())

    def _on_info(self, sent: msg.RobotInfo) -> None:
        try:
            self._spec = wire.spec_from_text(sent.spec)
        except ConfigError as error:
            self._node.get_logger().error(f"{self._name}: {error}")
            return
        if self._info is not None:
            # Another world, or the same one anew: what the old one sensed is no more.
            self._senses = None
            self._heard.clear()
        self._info = sent
        self.begins += 1

    def _on_senses(self, sent: msg.Senses) -> None:
        self._arrived = time.monotonic()
        before, self._senses = self._senses, sent
        if before is not None and (sent.run, sent.time) == (before.run, before.time):
            # A sign of life from a world that stands still.
            return
        if before is not None and sent.run != before.run:
            self._heard.clear()
        for radio, packets in wire.heard_from_msg(sent).items():
            kept = self._heard.setdefault(radio, [])
            kept.extend(packets)
            del kept[:-HEARD_MAX]


REFUSED = -2
"""What no switch means: a robot refuses such a command and counts it."""
