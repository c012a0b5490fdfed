"""Drives one robot by the keyboard of a terminal.

    w s  forward, back     r f  lifter up, down
    a d  left, right       + -  faster, slower
    q e  turn left, right  space  stop          Ctrl-C  end

A robot moves while a key is held, for a held key repeats: 0.6 s after the last one it is stopped. Nothing
is sent while no key is pressed, so that its own program can drive it too.
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
    Option("robot", "dots1", "the robot's name", positional=True),
    Option("speed", 0.3, "to begin with, m/s", low=0.0, high=2.0),
    Option("turn", 1.0, "rate to begin with, rad/s", low=0.0, high=10.0),
    Option("keys", "", "keys to play instead of reading them, one each 0.1 s"),
)

PERIOD = 0.1
"""Seconds from command to command, and from key to key that is played."""
HELD = 0.6
"""Seconds for which a key counts as held: longer than a keyboard takes to begin to repeat it."""
STEP = 1.1
"""Factor of `+` and `-`."""
LISTENERS = 5.0
"""Seconds for which played keys wait until somebody listens."""
STOPS = 3
"""Times that a robot is told to stop in the end: its input is best effort, and we are gone soon after."""
GLANCE = 0.02
"""Seconds after which one who waits looks at the rest of the world."""

MOTIONS = {
    "w": (1.0, 0.0, 0.0),
    "s": (-1.0, 0.0, 0.0),
    "a": (0.0, 1.0, 0.0),
    "d": (0.0, -1.0, 0.0),
    "q": (0.0, 0.0, 1.0),
    "e": (0.0, 0.0, -1.0),
}
"""Along x, along y, and turning."""
LIFTS = {"r": True, "f": False}
STOP = " "
PACES = {"+": STEP, "=": STEP, "-": 1 / STEP, "_": 1 / STEP}
"""Also without shift, where that is another key."""
KEYS = frozenset({*MOTIONS, *LIFTS, *PACES, STOP})

# What arrows and other keys without a letter send: their last letter is no key of ours.
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)


@dataclass
class Teleop:
    """What the keys pressed so far want of a robot, at a time.

    Attributes:
        speed: in m/s.
        turn: rate of turning, in rad/s.
        lift: what the lifter was told last.
    """

    speed: float
    turn: float
    lift: bool | None = None
    _direction: tuple[float, float, float] = (0.0, 0.0, 0.0)
    _moved: float | None = None
    _lifted: float | None = None

    def press(self, key: str, now: float) -> None:
        """Take a key; others than ours do nothing.

        Args:
            key: one character; capitals are the same.
            now: in seconds.
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
        """Let go of all keys."""
        if self._moved is not None:
            self._moved = -math.inf
        self._lifted = None

    def motion(self, now: float) -> tuple[float, float, float] | None:
        """Return the velocity to command, once zero after the last key; None if there is nothing to say."""
        if self._moved is None:
            return None
        if now - self._moved > HELD:
            self._direction, self._moved = (0.0, 0.0, 0.0), None
        x, y, turning = self._direction
        return x * self.speed, y * self.speed, turning * self.turn

    def lifting(self, now: float) -> bool | None:
        """Return whether to command the lifter up or down; None if there is nothing to say."""
        if self._lifted is None or now - self._lifted > HELD:
            return None
        return self.lift

    def status(self) -> str:
        """Return one line that tells what is commanded."""
        x, y, turning = self._direction
        names = (("forward", "back"), ("left", "right"), ("turning left", "turning right"))
        going = [name[value < 0] for name, value in zip(names, (x, y, turning), strict=True) if value]
        lifter = {None: "", True: ", lifter up", False: ", lifter down"}[self.lift]
        return f"{going[0] if going else 'stopped'} ({self.speed:.2f} m/s, {self.turn:.2f} rad/s){lifter}"


class _Driver:
    """Says to a robot what the keys want."""

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
        """Return whether somebody hears the commands."""
        return bool(self._velocity.get_subscription_count())

    def press(self, keys: str) -> None:
        """Take keys, and obey at once."""
        now = time.monotonic()
        for key in keys:
            self.teleop.press(key, now)
        if keys:
            self._due = now

    def serve(self, seconds: float) -> None:
        """Send what is due and do what comes, for some time."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + PERIOD
            self._send(now)
        self._show()
        self._spinner.once(seconds)

    def stop(self) -> None:
        """Stop the robot, if it was told to move."""
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
        """Write the status line over the last one, if there is a terminal to show it."""
        line = f"{self.robot}: {self.teleop.status()}{'' if self.has_listener else ', nobody listens'}"
        if line != self._shown and sys.stdout.isatty():
            self._shown = line
            sys.stdout.write(f"\r{line}\x1b[K")
            sys.stdout.flush()


@contextlib.contextmanager
def keyboard(terminal: int) -> Iterator[None]:
    """Have a terminal tell each key at once and show none; as it was before when this ends.

    Only Ctrl-C is still obeyed by the terminal: stopped or killed by its other keys, nobody would restore it.
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
        with contextlib.suppress(termios.error):  # it has gone
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)


def typed(terminal: int) -> str | None:
    """Wait a moment for keys and return what has been typed; None if the terminal has gone."""
    if not select.select([terminal], [], [], GLANCE)[0]:
        return ""
    try:
        read = os.read(terminal, 1024)
    except OSError:
        return None
    return _ESCAPE.sub("", read.decode(errors="replace")) if read else None


def _terminal() -> int:
    """Return the terminal whose keys are read."""
    try:
        terminal = sys.stdin.fileno()
        if os.isatty(terminal):
            return terminal
    except (AttributeError, OSError, ValueError):
        pass
    problem = "standard input is no terminal, so there are no keys to read; --keys plays some"
    raise RobotError(problem)


def _play(spinner: Spinner, driver: _Driver, keys: str) -> None:
    """Play keys."""
    unknown = sorted(set(keys.lower()) - KEYS)
    if unknown:
        problem = f"keys has {unknown[0]!r}: {''.join(sorted(KEYS))!r} are right"
        raise RobotError(problem)
    end = time.monotonic() + LISTENERS
    while not driver.has_listener and not spinner.stopping:
        if time.monotonic() > end:
            problem = (
                f"nobody has listened to /{driver.robot}/cmd_vel for {LISTENERS:g} s: is there such a robot?"
            )
            raise RobotError(problem)
        spinner.once(GLANCE)
    for key in keys:
        until = time.monotonic() + PERIOD
        driver.press(key)
        while not spinner.stopping and (left := until - time.monotonic()) > 0:
            driver.serve(left)


def _listen(spinner: Spinner, driver: _Driver, terminal: int) -> None:
    """Obey a terminal's keys until the process shall end."""
    with keyboard(terminal):
        while not spinner.stopping:
            keys = typed(terminal)
            if keys is None:
                return
            driver.press(keys)
            driver.serve(0.0)


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> int | None:
    """Drive until the process shall end, or the keys have been played."""
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
