"""Which way to go among others that move: the best of many velocities, by when each would end in a collision.

Robots tell each other within a few metres where they are and how they move. Each then takes, from a fan of
directions and a few speeds, the velocity that costs least: off its way, slower than it could, turned away
from where it looks, or soon in somebody's or something's way (a velocity obstacle, sampled). All prefer the
right of two ways that cost the same, so that two who meet do not dance.
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
"""Directions of the fan, and radians to both sides of the way to go."""
SPEEDS: Final = 4
"""From standing to the top."""
HORIZON: Final = 2.5
"""Seconds ahead within which a collision counts."""
MARGIN: Final = 0.08
"""Metres that robots keep from each other."""
# What costs how much: radians off the way, share of the speed lost, radians of turn, to the left, and a
# collision a second ahead.
OFF: Final = 0.6
SLOW: Final = 1.0
TURN: Final = 0.15
LEFT: Final = 0.12
HIT: Final = 0.8


@kernel
def time_to_hit_k(dx: float, dy: float, wx: float, wy: float, reach: float) -> float:
    """Return after how many seconds something at (dx, dy) is in reach, if (wx, wy) a second lead to it."""
    closing = dx * wx + dy * wy
    away2 = dx * dx + dy * dy - reach * reach
    if away2 <= 0.0:
        # As good as there: whoever does not come nearer still gets away.
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
        wanted: the direction of the way.
        heading: of the robot.
        top: the speed that it would take.
        others: a row for each robot: where it is from here, and its velocity.
        things: a row for each thing that stands: its direction, how far it is, and how unsure the first is.
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
