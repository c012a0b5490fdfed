"""Avoidance of moving robots: the cheapest of many sampled velocities, by time to collision and other costs.

Robots within a few metres share their positions and velocities. Each picks, from a fan of directions and a
few speeds, the velocity with the least cost. The costs are: deviation from its way, lost speed, turning away
from its heading, and an early collision with a robot or an obstacle (a sampled velocity obstacle). Of two
ways that cost the same all robots prefer the right one, so that two robots that meet do not block each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.geometry import FloatArray

DIRECTIONS: Final = 31
WIDEST: Final = 2.2
"""Number of directions in the fan, and its half angle in radians around the wanted direction."""
SPEEDS: Final = 4
"""Number of speeds above zero, evenly spaced up to the top speed."""
HORIZON: Final = 2.5
"""Seconds ahead within which a collision counts."""
MARGIN: Final = 0.08
"""Metres that robots keep from each other."""
# Costs: per radian off the wanted direction, for the share of speed lost, per radian of turn, for a direction
# to the left, and for a collision one second ahead.
OFF: Final = 0.6
SLOW: Final = 1.0
TURN: Final = 0.15
LEFT: Final = 0.12
HIT: Final = 0.8


@kernel
def time_to_hit_k(dx: float, dy: float, wx: float, wy: float, reach: float) -> float:
    """Return the seconds until an object at (dx, dy) is within reach, at the relative velocity (wx, wy)."""
    closing = dx * wx + dy * wy
    away2 = dx * dx + dy * dy - reach * reach
    if away2 <= 0.0:
        # Already within reach: velocities that do not approach it are still allowed.
        return 0.0 if closing > 0.0 else math.inf
    fast2 = wx * wx + wy * wy
    inside = closing * closing - fast2 * away2
    if closing <= 0.0 or inside < 0.0:
        return math.inf
    return away2 / (closing + math.sqrt(inside))


@kernel
def swerve_k(
    wanted: float,
    heading: float,
    top: float,
    others: FloatArray,
    things: FloatArray,
    radius: float,
    out: FloatArray,
) -> None:
    """Write the direction and the speed to take.

    Args:
        wanted: the wanted direction.
        heading: of the robot.
        top: the wanted speed.
        others: a row for each robot: its relative position and its velocity.
        things: a row for each static obstacle: direction, distance, and uncertainty of the direction.
        radius: of all robots.
        out: direction and speed; written.
    """
    best = math.inf
    out[0], out[1] = heading, 0.0
    keep = radius * 0.97
    for n in range(DIRECTIONS):
        off = WIDEST * (2.0 * n / (DIRECTIONS - 1) - 1.0)
        direction = wanted + off
        c, s = math.cos(direction), math.sin(direction)
        room = math.inf
        for k in range(things.shape[0]):
            aside = direction - things[k, 0]
            aside = abs(aside - 2.0 * math.pi * math.floor(aside / (2.0 * math.pi) + 0.5))
            aside = max(aside - things[k, 2], 0.0)
            if aside < 1.5 and things[k, 1] * math.sin(aside) < keep:
                room = min(room, max(things[k, 1] * math.cos(aside) - radius, 0.0))
        turn = direction - heading
        turn = abs(turn - 2.0 * math.pi * math.floor(turn / (2.0 * math.pi) + 0.5))
        for m in range(SPEEDS + 1):
            speed = top * m / SPEEDS
            cost = OFF * abs(off) + SLOW * (1.0 - m / SPEEDS) + TURN * turn + (LEFT if off > 0.0 else 0.0)
            hit = room / speed if speed > 0.0 else math.inf
            for k in range(others.shape[0]):
                hit = min(
                    hit,
                    time_to_hit_k(
                        others[k, 0],
                        others[k, 1],
                        speed * c - others[k, 2],
                        speed * s - others[k, 3],
                        2.0 * radius + MARGIN,
                    ),
                )
            if hit < HORIZON:
                cost += HIT * (1.0 / max(hit, 0.05) - 1.0 / HORIZON)
            if cost < best:
                best = cost
                out[0], out[1] = direction, speed


def swerve(
    wanted: float,
    heading: float,
    top: float,
    others: list[tuple[float, float, float, float]],
    things: list[tuple[float, float, float]],
    radius: float,
) -> tuple[float, float]:
    """Return the direction and the speed to take; see `swerve_k`."""
    out = np.empty(2)
    swerve_k(
        wanted,
        heading,
        top,
        np.array(others, dtype=np.float64).reshape(-1, 4),
        np.array(things, dtype=np.float64).reshape(-1, 3),
        radius,
        out,
    )
    return float(out[0]), float(out[1])
