"""Motion of the robot: follows a path, follows a velocity command, or brakes to rest.

`Motion` implements the DOTS paper's Figure 9: the path player generates set-points at 100 Hz, the PIDs turn
them into wheel speeds. The latest command takes effect: a path replaces a velocity and a velocity a path,
without a jump in velocity.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from swarmbed_core.control import Mode, MotionController
from swarmbed_core.errors import PathError
from swarmbed_core.geometry import wrap
from swarmbed_core.health import Health
from swarmbed_core.trajectory import PathPlayer, PlayerState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec
    from swarmbed_core.trajectory import Path

ARRIVED = 0.05
"""[m] A path that ends further from its last set-point than this has failed; a radian counts as 0.2 m."""
SETTLE_SECONDS = 1.0
"""[s] A path ends at the latest this long after its last set-point, wherever the robot is."""
SETTLED = 0.002
"""[m] A path ends as soon as the robot is this close to the last set-point; a radian counts as 0.2 m."""
LONGEST_STEP = 0.1
"""[s] One cycle advances the set-point by at most this, however long the loop was delayed."""


class Outcome(IntEnum):
    """The state or result of the latest path."""

    NONE = 0
    RUNNING = 1
    SUCCEEDED = 2
    CANCELLED = 3
    FAILED = 4


class Motion:
    """One robot's motion: follows paths and velocity commands, brakes, and reports its state.

    Attributes:
        paths: number of paths accepted so far.
        path: the latest of them, in odom, with the latest correction.
        outcome: its state or result.
    """

    def __init__(self, spec: RobotSpec, health: Health | None = None) -> None:
        """Start at rest.

        Args:
            spec: the kind of robot.
            health: counts rejected inputs; by default a new one.
        """
        self.health = Health() if health is None else health
        self.player = PathPlayer(spec.limits, holonomic=spec.holonomic, health=self.health)
        self.controller = MotionController(spec, self.health)
        self.paths = 0
        self.outcome = Outcome.NONE
        self.path: Path | None = None
        self._passed = 0
        self._count = 0
        self._enabled = True
        self._latest: float | None = None
        self._settling: float | None = None
        self._still = np.zeros(self.controller.kinematics.count)

    @property
    def mode(self) -> Mode:
        """Return the source of the wheel speeds."""
        if self.player.active or self._settling is not None:
            return Mode.PATH
        return Mode.IDLE if self.controller.mode is Mode.PATH else self.controller.mode

    @property
    def waypoint(self) -> int:
        """Return the index of the next waypoint; after the last one, the number of waypoints."""
        return self._passed + self.player.waypoint

    @property
    def progress(self) -> float:
        """Return the completed share of the latest path, from 0 to 1, counted in waypoints."""
        left = self._count - self._passed
        return (self._passed + self.player.progress * left) / max(self._count, 1)

    @property
    def distance_remaining(self) -> float:
        """Return the distance in metres from the set-point along the latest path's remaining waypoints."""
        left = () if self.path is None else self.path.waypoints[self.waypoint :]
        x, y, _ = self.player.setpoint.pose
        total = 0.0
        for point in left:
            total += math.hypot(point.pose[0] - x, point.pose[1] - y)
            x, y, _ = point.pose
        return total

    def off_end(self, pose_odom: Sequence[float] | FloatArray) -> tuple[float, float]:
        """Return the distance of a pose from the end of the latest path, in m and rad; NaN without one."""
        if self.path is None:
            return math.nan, math.nan
        x, y, yaw = self.path.waypoints[-1].pose
        return math.hypot(x - pose_odom[0], y - pose_odom[1]), abs(float(wrap(yaw - pose_odom[2])))

    def enable(self, on: bool) -> None:
        """Enable the wheels, or stop them and cancel everything."""
        self._enabled = on
        if not on:
            self.stop_hard()

    def stop_hard(self) -> None:
        """Cancel everything and assume wheels at rest."""
        self.ramp_down()
        self.controller.reset()
        self._latest = None

    def ramp_down(self) -> None:
        """Cancel everything and ramp down to rest from the current velocity."""
        self._end(Outcome.CANCELLED)
        self.player.stop_hard()
        self.controller.stop()

    def command(self, v_body: Sequence[float], now: float) -> bool:
        """Follow a body velocity until it expires; return whether it was accepted."""
        if not self._enabled:
            self.health.refuse("command.drives_off", f"velocity {tuple(v_body)}: the drives are off")
            return False
        if not self.controller.command(v_body, now):
            return False
        self._end(Outcome.CANCELLED)
        if self.player.active:
            self.player.stop_hard()
        return True

    def follow(self, path_odom: Path, pose_odom: FloatArray) -> None:
        """Follow a path from now on, without stopping a moving robot first.

        Raises:
            PathError: the robot cannot follow the path; then its motion continues unchanged.
        """
        if not self._enabled:
            message = "path rejected: the drives are off; switch motors and power on first"
            raise PathError(message)
        vx, vy, omega = self.controller.v_body
        obeying = not self.player.active and self._settling is None
        if obeying and (abs(vx) + abs(vy) + abs(omega)) > 0:
            # The old player does not know the commanded velocity: a new one starts from it.
            c, s = math.cos(pose_odom[2]), math.sin(pose_odom[2])
            taken = PathPlayer(self.player.limits, holonomic=self.player.holonomic, health=self.health)
            taken.start_moving(pose_odom, (c * vx - s * vy, s * vx + c * vy, omega))
            taken.follow(path_odom, pose_odom)
            self.player = taken
        else:
            self.player.follow(path_odom, pose_odom)
        self._settling = None
        self.outcome = Outcome.RUNNING
        self.path = path_odom
        self._passed = 0
        self._count = len(path_odom.waypoints)
        self.paths += 1

    def correct(self, path_odom: Path) -> bool:
        """Replace the rest of the current path after a correction of the robot's pose estimate.

        Returns:
            Whether it was possible; if not, the path continues unchanged.
        """
        waypoint = self.waypoint
        left = path_odom.waypoints[waypoint:]
        if not left or self.player.state is not PlayerState.FOLLOWING:
            return False
        try:
            self.player.follow(replace(path_odom, waypoints=left), self.player.setpoint.pose)
        except PathError:
            return False
        self.path = path_odom
        self._passed = waypoint
        return True

    def cancel(self) -> None:
        """Cancel the path and brake to rest at the maximum deceleration."""
        self._end(Outcome.CANCELLED)
        self.player.cancel()
        if not self.player.active:
            self.controller.stop()

    def step(
        self, now: float, pose_odom: Sequence[float] | FloatArray, v_body: Sequence[float] | FloatArray
    ) -> FloatArray:
        """Return the wheel speeds of this cycle.

        Args:
            now: the clock's time.
            pose_odom: the odometry's estimate.
            v_body: its velocity along the body's axes.
        """
        dt = 0.0 if self._latest is None else min(max(now - self._latest, 0.0), LONGEST_STEP)
        self._latest = now
        if not self._enabled:
            return self._still
        if self.player.active:
            setpoint = self.player.advance(dt)
            if not self.player.active and self.outcome is Outcome.RUNNING:
                self._settling = now
            return self.controller.track(now, pose_odom, v_body, setpoint)
        if self._settling is not None:
            if not self._settled(now, pose_odom):
                return self.controller.track(now, pose_odom, v_body, self.player.setpoint)
            arrived = self._off(pose_odom) < ARRIVED and self.waypoint == self._count
            if not arrived:
                explanation = (
                    f"{self._off(pose_odom):.3f} m off the end of the path, {self.waypoint} waypoints passed"
                )
                self.health.refuse("motion.not_arrived", explanation)
            self._end(Outcome.SUCCEEDED if arrived else Outcome.FAILED)
            self.controller.stop()
        return self.controller.drive(now)

    def _end(self, outcome: Outcome) -> None:
        """End the current path, if there is one, with an outcome."""
        self._settling = None
        if self.outcome is Outcome.RUNNING:
            self.outcome = outcome

    def _settled(self, now: float, pose_odom: Sequence[float] | FloatArray) -> bool:
        """Return whether the robot has reached the end of its path, or the time for settling is over."""
        return (
            self._off(pose_odom) < SETTLED or self._settling is None or now - self._settling > SETTLE_SECONDS
        )

    def _off(self, pose_odom: Sequence[float] | FloatArray) -> float:
        """Return the distance from the robot to its set-point, in metres; a radian counts as 0.2 m."""
        x, y, yaw = self.player.setpoint.pose
        return math.hypot(x - pose_odom[0], y - pose_odom[1]) + abs(wrap(yaw - pose_odom[2])) / 5
