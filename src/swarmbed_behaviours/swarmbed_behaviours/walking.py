"""Helpers of the demonstration behaviours: surroundings, free distance, and safe speed.

They work from `Senses`, for holonomic and for differential robots. A direction is an angle in the robot's
frame, counter-clockwise from its +x.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import rotate, wrap

from swarmbed_behaviours.toolkit.conditions import Leaf

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_trees.common import Status
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Senses
    from swarmbed_core.spec import RobotSpec

    from swarmbed_behaviours.toolkit.board import Board

Velocity = tuple[float, float, float]

STILL: Velocity = (0.0, 0.0, 0.0)
REACTION = 1.0
"""Time constant in seconds: a robot approaches an obstacle at most at the gap divided by this."""
TURN_GAIN = 2.0
"""Gain from heading error to rate of turn, 1/s."""
TURN_RATE = 1.5
"""Largest rate of turn, in rad/s."""
MEMORY = 0.4
"""Seconds for which a return is kept: near ones often read two or three times too far (Figure 7)."""


class Act(Leaf):
    """A leaf that calls one function of the blackboard in every tick."""

    def __init__(self, name: str, board: Board, deed: Callable[[Board], Status]) -> None:
        """Call `deed` until it returns success or failure."""
        super().__init__(name, board)
        self._deed = deed

    def update(self) -> Status:
        """Return what the function returns."""
        return self._deed(self.board)


def cruise(spec: RobotSpec, speed: float) -> float:
    """Return a speed, capped at 80 % of the robot's limit."""
    return min(speed, 0.8 * spec.limits.speed)


def sees(spec: RobotSpec, direction: float, within: float) -> bool:
    """Return whether a distance sensor points within an angle of a direction."""
    return any(
        abs(float(wrap(angle - direction))) <= within + 1e-9 for ring in spec.ranges for angle in ring.angles
    )


def need_sight(spec: RobotSpec, what: str, direction: float, within: float, side: str) -> None:
    """Require a distance sensor in a direction.

    Raises:
        ConfigError: this kind of robot has none there.
    """
    if not sees(spec, direction, within):
        message = (
            f"{what}: a robot of kind '{spec.kind}' has no distance sensor that looks {side} "
            f"(within {math.degrees(within):.0f} deg of {math.degrees(direction):.0f} deg)"
        )
        raise ConfigError(message)


def all_round(spec: RobotSpec) -> bool:
    """Return whether distance sensors cover all sides, with no gap above 90 degrees."""
    return all(sees(spec, math.radians(at), math.radians(45)) for at in range(0, 360, 15))


class Surroundings:
    """Recent returns of the distance sensors, relative to the robot's current pose.

    Attributes:
        points: rows of x, y in the robot's frame.
    """

    def __init__(self, spec: RobotSpec, margin: float) -> None:
        """Start without returns.

        Args:
            spec: the kind of robot.
            margin: metres that the body keeps from everything.
        """
        body = spec.body
        self._core = body.radius if body.shape == "disc" else min(body.length, body.width) / 2
        self._room = spec.body.bounding_radius + margin
        self._time = -math.inf
        self._sweeps: deque[tuple[float, FloatArray]] = deque()
        self.points: FloatArray = np.empty((0, 2))

    def look(self, senses: Senses) -> None:
        """Add the newest returns and drop the old ones; a second call in one tick has no effect."""
        if senses.time == self._time:
            return
        self._time = senses.time
        pose = senses.pose_odom
        if senses.points_body is not None:
            self._sweeps.append((senses.time, rotate(senses.points_body, float(pose[2])) + pose[:2]))
        while self._sweeps and not 0.0 <= senses.time - self._sweeps[0][0] <= MEMORY:
            self._sweeps.popleft()
        if self._sweeps:
            points_odom = np.concatenate([points for _, points in self._sweeps])
            self.points = rotate(points_odom - pose[:2], -float(pose[2]))
        else:
            self.points = np.empty((0, 2))

    def clearance(self, direction: float) -> float:
        """Return how far the body can go until a return is within its margin; inf if there is none ahead."""
        if not len(self.points):
            return math.inf
        ahead = self.points @ np.array([math.cos(direction), math.sin(direction)])
        aside = self.points @ np.array([-math.sin(direction), math.cos(direction)])
        room = self._kept()
        hit = (ahead > 0.0) & (np.abs(aside) < room)
        if not hit.any():
            return math.inf
        free = ahead[hit] - np.sqrt(room**2 - aside[hit] ** 2)
        return max(float(free.min()), 0.0)

    def pace(self, direction: float) -> float:
        """Return how fast the body may go: it approaches no return faster than `REACTION` allows.

        This includes returns beside the way, because they may be robots that come closer too.
        """
        if not len(self.points):
            return math.inf
        distances = np.hypot(*self.points.T)
        closing = self.points @ np.array([math.cos(direction), math.sin(direction)]) / distances
        nearer = closing > 1e-3
        if not nearer.any():
            return math.inf
        gaps = np.maximum(distances[nearer] - self._kept(), 0.0)
        return float((gaps / closing[nearer]).min()) / REACTION

    def _kept(self) -> float:
        """Return the distance to keep between the body's centre and returns.

        A return already within the margin must not trap the robot: it may pass it, or move away.
        """
        nearest = float(np.hypot(*self.points.T).min())
        return min(self._room, max(0.95 * nearest, self._core))


def steer(
    spec: RobotSpec, around: Surroundings, direction: float, speed: float, *, face: bool = True
) -> Velocity:
    """Return the velocity in a direction, as fast as its surroundings allow.

    A differential robot turns to the direction first, and goes faster the better it is aligned.

    Args:
        spec: the kind of robot.
        around: its surroundings.
        direction: direction of motion.
        speed: speed limit, in m/s.
        face: whether a holonomic robot turns to the direction of motion too.
    """
    direction = float(wrap(direction))
    most = min(TURN_RATE, spec.limits.yaw_rate / 2)
    turn = min(max(TURN_GAIN * direction, -most), most)
    if spec.holonomic:
        speed = min(speed, spec.limits.speed, around.pace(direction))
        turn = turn if face else 0.0
        # The body turns until the next tick: aim so that the direction is right half-way there.
        direction -= turn / TICK_RATE / 2
        return speed * math.cos(direction), speed * math.sin(direction), turn
    speed = min(speed, spec.limits.speed, around.pace(0.0))
    # From 60 degrees off it only turns.
    return speed * max(0.0, 2.0 * math.cos(direction) - 1.0), 0.0, turn
