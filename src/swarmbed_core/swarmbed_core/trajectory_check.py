"""Randomised tests of the path player: how close its trajectories come to the limits.

No trajectory may ever exceed a limit, for any waypoints and at any time of replacement. `random_case` runs
one test case: paths with random waypoints, velocities and limits, replaced and cancelled at random times.
The tests run hundreds of them, `scripts/bench` runs ten thousand.

Everything is measured on the set-points from outside. When a path with lower limits takes over, the limits of
the previous path still hold for as long as slowing down may take.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from swarmbed_core.errors import PathError
from swarmbed_core.kernel import kernel
from swarmbed_core.trajectory import Path, PathPlayer, PlayerState, Waypoint

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Limits

# Most set-points of one case; most cases end earlier.
MAX_TICKS = 600


class Worst(NamedTuple):
    """The largest values of one case or of many, as shares of the limits: at most 1, except for rounding."""

    speed: float = 0.0
    acceleration: float = 0.0
    jerk: float = 0.0
    yaw_rate: float = 0.0
    yaw_acceleration: float = 0.0
    yaw_jerk: float = 0.0
    jump: float = 0.0
    """Change of pose or velocity between two set-points, relative to what the limits allow in that time."""
    unfinished: float = 0.0
    """2 if the robot was not at rest in time after the last cancel."""
    refused: float = 0.0
    """2 if a path within all limits was refused because Ruckig found no trajectory."""

    def merge(self, other: Worst) -> Worst:
        """Return the larger of each pair of values; NaN counts as largest."""
        return Worst(*(float(np.maximum(one, two)) for one, two in zip(self, other, strict=True)))

    @property
    def worst(self) -> float:
        """Return the largest of all values; infinity if any is NaN."""
        worst = float(np.max(self))
        return math.inf if math.isnan(worst) else worst


def random_path(rng: np.random.Generator, limits: Limits, *, holonomic: bool = True) -> Path:
    """Return a path of one to five waypoints near the origin, with velocities up to the limit."""
    speed = limits.speed * (rng.uniform(0.1, 1.2) if rng.random() < 0.4 else 1.0)
    max_speed = min(speed, limits.speed)
    spread = rng.choice([0.05, 0.5, 3.0]) * limits.speed
    waypoints = []
    for _ in range(rng.integers(1, 6)):
        pose = (*rng.normal(0.0, spread, 2), rng.uniform(-4.0, 4.0))
        velocity = (0.0, 0.0, 0.0)
        if holonomic and rng.random() < 0.6:
            # Exactly the limit is allowed, and is the hardest case.
            size = max_speed * (1.0 if rng.random() < 0.2 else rng.random())
            angle = rng.uniform(-math.pi, math.pi)
            omega = limits.yaw_rate * rng.uniform(-1.0, 1.0) if rng.random() < 0.3 else 0.0
            velocity = (size * math.cos(angle), size * math.sin(angle), omega)
        waypoints.append(Waypoint(pose, velocity))
    share = rng.uniform(0.125, 1.0) if rng.random() < 0.6 else None
    acceleration = None if share is None else share * limits.acceleration_available
    return Path(tuple(waypoints), "odom", speed, acceleration)


def random_case(rng: np.random.Generator, limits: Limits, *, holonomic: bool = True) -> Worst:
    """Run one random case and return its largest values, as shares of the limits.

    Args:
        rng: source of all random choices.
        limits: limits of the robot.
        holonomic: whether the robot can move sideways.
    """
    player = PathPlayer(limits, holonomic=holonomic)
    dt = 0.01 if rng.random() < 0.7 else float(rng.uniform(0.0005, 0.03))
    usual = (limits.speed, limits.acceleration)
    now = usual
    # Limits of earlier paths that may still apply, and until when.
    earlier: list[tuple[float, float, float]] = []
    rows: list[tuple[float, ...]] = []
    tick = 0
    refused = False
    actions = int(rng.integers(1, 7))
    if holonomic and rng.random() < 0.2:
        angle = rng.uniform(-math.pi, math.pi)
        speed = limits.speed * rng.random()
        omega = limits.yaw_rate * rng.uniform(-1.0, 1.0)
        player.start_moving((0.0, 0.0, angle), (speed * math.cos(angle), speed * math.sin(angle), omega))
    for action in range(actions):
        if action and rng.random() < 0.15:
            if player.state is PlayerState.FOLLOWING:
                # From here on it may brake at the robot's own limit, even if the path's was lower.
                now = (limits.speed, max(now[1], limits.acceleration))
            player.cancel()
        else:
            path = random_path(rng, limits, holonomic=holonomic)
            time = tick * dt
            speed, acceleration = now
            slack = 2 * (limits.speed / acceleration + 2 * acceleration / limits.jerk) + 2 * dt
            earlier = [(time + slack, s, a) for until, s, a in earlier if until >= time]
            earlier.append((time + slack, speed, acceleration))
            try:
                player.follow(path, player.setpoint.pose)
            except PathError:
                refused = True
                continue
            now = (
                min(path.max_speed or math.inf, limits.speed),
                path.max_acceleration or limits.acceleration,
            )
        for _ in range(min(int(rng.exponential(0.6) / dt) + 1, MAX_TICKS // actions)):
            tick += 1
            time = tick * dt
            top_speed, top_acceleration = now
            for until, s, a in earlier:
                if until >= time:
                    top_speed, top_acceleration = max(s, top_speed), max(a, top_acceleration)
            pose, velocity, acceleration_ = player.advance(dt)
            rows.append((*pose, *velocity, *acceleration_, top_speed, top_acceleration))
    player.cancel()
    slowest = min(now[1], *(acceleration for _, _, acceleration in earlier))
    ramps = limits.speed / slowest + 2 * limits.acceleration_available / limits.jerk
    yaw = (limits.yaw_rate, limits.yaw_acceleration, limits.yaw_jerk)
    player.advance(2 * ramps + 2 * (yaw[0] / yaw[1] + yaw[1] / yaw[2]))
    worst = _measure(np.array(rows).reshape(-1, 11), dt, limits.jerk, *yaw)
    return Worst(*worst, unfinished=2.0 * player.active, refused=2.0 * refused)


@kernel
def _measure(
    rows: FloatArray, dt: float, jerk: float, yaw_rate: float, yaw_acceleration: float, yaw_jerk: float
) -> tuple[float, float, float, float, float, float, float]:
    """Return the largest values, as shares of the limits, of set-points `dt` apart."""
    worst = np.zeros(7)
    for i in range(rows.shape[0]):
        row = rows[i]
        speed, acceleration = row[9], row[10]
        worst[0] = np.maximum(worst[0], np.hypot(row[3], row[4]) / speed)
        worst[1] = np.maximum(worst[1], np.hypot(row[6], row[7]) / acceleration)
        worst[3] = np.maximum(worst[3], abs(row[5]) / yaw_rate)
        worst[4] = np.maximum(worst[4], abs(row[8]) / yaw_acceleration)
        if i == 0:
            continue
        old = rows[i - 1]
        worst[2] = np.maximum(worst[2], np.hypot(row[6] - old[6], row[7] - old[7]) / (jerk * dt))
        worst[5] = np.maximum(worst[5], abs(row[8] - old[8]) / (yaw_jerk * dt))
        # A limit applies from the tick after its path arrived, so the motion before that counts too.
        speed, acceleration = max(speed, old[9]), max(acceleration, old[10])
        moved = np.hypot(row[0] - old[0], row[1] - old[1]) / (speed * dt)
        changed = np.hypot(row[3] - old[3], row[4] - old[4]) / (acceleration * dt)
        turned = abs(row[2] - old[2]) / (yaw_rate * dt)
        spun = abs(row[5] - old[5]) / (yaw_acceleration * dt)
        # np.maximum propagates NaN; max does not.
        worst[6] = np.maximum(worst[6], np.maximum(np.maximum(moved, changed), np.maximum(turned, spun)))
    return worst[0], worst[1], worst[2], worst[3], worst[4], worst[5], worst[6]
