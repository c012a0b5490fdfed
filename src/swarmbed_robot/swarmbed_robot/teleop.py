"""Drives one robot with the keyboard of a terminal.

    w s  forward, back     r f  lifter up, down
    a d  left, right       + -  faster, slower
    q e  turn left, right  space  stop          Ctrl-C  end

The robot moves while a key is held, and stops 0.6 s after its last repetition. Nothing is sent while no key
is pressed, so that the robot's own program can drive it.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import sys
import termios
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from geometry_msgs.msg import Twist
from rclpy.exceptions import InvalidTopicNameException
from rclpy.validate_full_topic_name import validate_full_topic_name
from std_msgs.msg import Bool

from swarmbed_robot import qos
from swarmbed_robot.errors import RobotError
from swarmbed_robot.nodes import Spinner, run
from swarmbed_robot.options import Option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rclpy.node import Node

OPTIONS = (
    Option("robot", "dots1", "name of the robot", positional=True),
    Option("speed", 0.3, "initial speed, m/s", low=0.0, high=2.0),
    Option("turn", 1.0, "initial rate of turn, rad/s", low=0.0, high=10.0),
    Option("keys", "", "keys to play instead of reading the keyboard, one every 0.1 s"),
)

PERIOD = 0.1
"""Seconds between commands, and between played keys."""
HELD = 0.6
"""Seconds for which a key counts as held: longer than the delay before a keyboard repeats it."""
STEP = 1.1
"""Factor of `+` and `-`."""
LISTENERS = 5.0
"""Seconds that played keys wait for the robot to subscribe."""
STOPS = 3
"""Number of stop commands at the end, as the robot's input is best effort and the node exits right after."""
GLANCE = 0.02
"""Longest wait in one call while waiting for keys or the robot, in seconds."""

MOTIONS = {
    "w": (1.0, 0.0, 0.0),
    "s": (-1.0, 0.0, 0.0),
    "a": (0.0, 1.0, 0.0),
    "d": (0.0, -1.0, 0.0),
    "q": (0.0, 0.0, 1.0),
    "e": (0.0, 0.0, -1.0),
}
"""Directions along x, along y and of rotation, by key."""
LIFTS = {"r": True, "f": False}
STOP = " "
PACES = {"+": STEP, "=": STEP, "-": 1 / STEP, "_": 1 / STEP}
"""Factors of the speeds, by key; also by the unshifted or shifted character of the same key."""
KEYS = frozenset({*MOTIONS, *LIFTS, *PACES, STOP})

# Sequences sent by arrows and other special keys, whose last letter must not count as a key.
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)


@dataclass
class Teleop:
    """Turns pressed keys into commands for a robot.

    Attributes:
        speed: in m/s.
        turn: rate of turn, in rad/s.
        lift: last command to the lifter; None before the first.
    """

    speed: float
    turn: float
    lift: bool | None = None
    _direction: tuple[float, float, float] = (0.0, 0.0, 0.0)
    _moved: float | None = None
    _lifted: float | None = None

    def press(self, key: str, now: float) -> None:
        """Process a key; unknown keys have no effect.

        Args:
            key: one character, in lower or upper case.
            now: time of this machine's clock, in seconds.
        """
        key = key.lower()
        if key in MOTIONS:
            self._direction, self._moved = MOTIONS[key], now
        elif key == STOP:
            self._direction, self._moved = (0.0, 0.0, 0.0), now
        elif key in LIFTS:
            self.lift, self._lifted = LIFTS[key], now
        elif key in PACES:
            speeds = OPTIONS[1].high, OPTIONS[2].high
            self.speed = min(self.speed * PACES[key], speeds[0])
            self.turn = min(self.turn * PACES[key], speeds[1])

    def release(self) -> None:
        """Release all keys, so that the next motion is a stop."""
        if self._moved is not None:
            self._moved = -math.inf
        self._lifted = None

    def motion(self, now: float) -> tuple[float, float, float] | None:
        """Return the velocity to command: zero once after the last key, then None, which sends nothing."""
        if self._moved is None:
            return None
        if now - self._moved > HELD:
            self._direction, self._moved = (0.0, 0.0, 0.0), None
        x, y, turning = self._direction
        return x * self.speed, y * self.speed, turning * self.turn

    def lifting(self, now: float) -> bool | None:
        """Return whether to command the lifter up or down; None when nothing is to be sent."""
        if self._lifted is None or now - self._lifted > HELD:
            return None
        return self.lift

    def status(self) -> str:
        """Return the current command in one line."""
        x, y, turning = self._direction
        names = (("forward", "back"), ("left", "right"), ("turning left", "turning right"))
        going = [name[value < 0] for name, value in zip(names, (x, y, turning), strict=True) if value]
        lifter = {None: "", True: ", lifter up", False: ", lifter down"}[self.lift]
        return f"{going[0] if going else 'stopped'} ({self.speed:.2f} m/s, {self.turn:.2f} rad/s){lifter}"


class _Driver:
    """Sends the commands to a robot, and shows them."""

    def __init__(self, spinner: Spinner, node: Node, robot: str, teleop: Teleop) -> None:
        self.robot = robot.strip("/")
        self.teleop = teleop
        self._spinner = spinner
        self._shown = ""
        self._due = 0.0
        try:
            validate_full_topic_name(f"/{self.robot}/cmd_vel")
            self._velocity = node.create_publisher(Twist, f"/{self.robot}/cmd_vel", qos.OUTPUT)
            self._lifter = node.create_publisher(Bool, f"/{self.robot}/lifter", qos.OUTPUT)
        except InvalidTopicNameException:
            problem = f"'{robot}' is not a valid robot name: expected letters, digits and _, such as dots1"
            raise RobotError(problem) from None

    @property
    def has_listener(self) -> bool:
        """Return whether the commands have a subscriber."""
        return bool(self._velocity.get_subscription_count())

    def press(self, keys: str) -> None:
        """Process keys, and send their command without delay."""
        now = time.monotonic()
        for key in keys:
            self.teleop.press(key, now)
        if keys:
            self._due = now

    def serve(self, seconds: float) -> None:
        """Send the commands that are due, and spin once for at most `seconds`."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + PERIOD
            self._send(now)
        self._show()
        self._spinner.once(seconds)

    def stop(self) -> None:
        """Stop the robot if it has been commanded to move."""
        self.teleop.release()
        if self.teleop.motion(time.monotonic()) is not None:
            for _ in range(STOPS):
                self._velocity.publish(Twist())
                time.sleep(PERIOD)
        self._show()
        if self._shown:
            sys.stdout.write("\n")

    def _send(self, now: float) -> None:
        motion = self.teleop.motion(now)
        if motion is not None:
            twist = Twist()
            twist.linear.x, twist.linear.y, twist.angular.z = motion
            self._velocity.publish(twist)
        lifting = self.teleop.lifting(now)
        if lifting is not None:
            self._lifter.publish(Bool(data=lifting))

    def _show(self) -> None:
        """Overwrite the status line, if the output is a terminal."""
        line = f"{self.robot}: {self.teleop.status()}{'' if self.has_listener else ', no subscriber'}"
        if line != self._shown and sys.stdout.isatty():
            self._shown = line
            sys.stdout.write(f"\r{line}\x1b[K")
            sys.stdout.flush()


@contextlib.contextmanager
def keyboard(terminal: int) -> Iterator[None]:
    """Let a terminal deliver each key at once, without echo; restore it at the end.

    Of the keys that send signals only Ctrl-C stays active: after the others the terminal is not restored.
    """
    before = termios.tcgetattr(terminal)
    settings = termios.tcgetattr(terminal)
    settings[3] &= ~(termios.ICANON | termios.ECHO)
    characters = settings[6]
    characters[termios.VMIN], characters[termios.VTIME] = 1, 0
    for name in ("VSUSP", "VQUIT"):
        characters[getattr(termios, name)] = b"\0"
    try:
        termios.tcsetattr(terminal, termios.TCSADRAIN, settings)
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def typed(terminal: int) -> str | None:
    """Wait briefly for keys and return them; None if the terminal is gone."""
    if not select.select([terminal], [], [], GLANCE)[0]:
        return ""
    try:
        read = os.read(terminal, 1024)
    except OSError:
        return None
    return _ESCAPE.sub("", read.decode(errors="replace")) if read else None


def _terminal() -> int:
    """Return the file descriptor of the terminal on standard input.

    Raises:
        RobotError: standard input is not a terminal.
    """
    try:
        terminal = sys.stdin.fileno()
        if os.isatty(terminal):
            return terminal
    except (AttributeError, OSError, ValueError):
        pass
    problem = "standard input is not a terminal: run it in one, or play keys with --keys"
    raise RobotError(problem)


def _play(spinner: Spinner, driver: _Driver, keys: str) -> None:
    """Play keys.

    Raises:
        RobotError: a key is unknown, or the robot does not subscribe.
    """
    unknown = sorted(set(keys.lower()) - KEYS)
    if unknown:
        problem = f"keys has {unknown[0]!r}: expected characters of {''.join(sorted(KEYS))!r}"
        raise RobotError(problem)
    end = time.monotonic() + LISTENERS
    while not driver.has_listener and not spinner.stopping:
        if time.monotonic() > end:
            problem = f"no subscriber of /{driver.robot}/cmd_vel for {LISTENERS:g} s: check the robot's name"
            raise RobotError(problem)
        spinner.once(GLANCE)
    for key in keys:
        until = time.monotonic() + PERIOD
        driver.press(key)
        while not spinner.stopping and (left := until - time.monotonic()) > 0:
            driver.serve(left)


def _listen(spinner: Spinner, driver: _Driver, terminal: int) -> None:
    """Drive by a terminal's keys until the process is asked to end."""
    with keyboard(terminal):
        while not spinner.stopping:
            keys = typed(terminal)
            if keys is None:
                return
            driver.press(keys)
            driver.serve(0.0)


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> int | None:
    """Drive until the process is asked to end, or the keys have been played."""
    keys = options["keys"]
    terminal = None if keys else _terminal()
    driver = _Driver(spinner, node, options["robot"], Teleop(options["speed"], options["turn"]))
    try:
        if terminal is None:
            _play(spinner, driver, keys)
        else:
            _listen(spinner, driver, terminal)
    finally:
        driver.stop()
    return None


def main() -> int:
    """Run the node; return its exit status."""
    return run("teleop", __doc__, OPTIONS, start)
