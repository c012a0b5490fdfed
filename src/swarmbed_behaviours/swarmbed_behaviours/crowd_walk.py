"""Random walk for thousands of robots at once: straight on until something is near, then another way.

The crowd's form of the `random_walk` controller: one compiled call for all robots. A robot drives straight
ahead. What is within its way's width and nearer than it can brake slows it down; when
that leaves little speed it chooses a new direction, at random among those that are clear, and goes there.
Holonomic robots turn on the way; those with two wheels turn on the spot first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from swarmbed_core.controller import CrowdSenses
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import RobotSpec

SPEED = 0.5
"""Metres a second unless the caller says otherwise: the paper's robots explore at this speed (IV-B)."""
MARGIN = 0.03
"""Metres that a robot keeps from what is near."""
SECTORS = 32
"""Directions that a robot chooses from."""
GAIN = 3.0
"""Rate of turn in rad/s for each radian off the chosen direction."""

# Columns of `state`: the chosen direction in the body's frame, or nothing of it left when it is 0; whether it turns.
_TURN, _AHEAD = 0, 1


@kernel
def _clearance_k(
    direction: float, ranges: FloatArray, angles: FloatArray, mount: float, width: float, reach: float
) -> float:
    """Return how far a robot can go in a direction of its frame before its body meets a range's return.

    Returns lie at their sensors' angles; what is within `width` beside the way counts. It is `reach` at most.
    """
    free = reach
    for k in range(angles.shape[0]):
        if ranges[k] >= reach + width:
            continue
        distance = ranges[k] + mount
        off = angles[k] - direction
        ahead = distance * math.cos(off)
        if ahead <= 0.0:
            continue
        beside = abs(distance * math.sin(off))
        if beside < width:
            free = min(free, ahead - math.sqrt(width * width - beside * beside))
    return max(free, 0.0)


@kernel
def walk_k(
    ranges: FloatArray,
    angles: FloatArray,
    draws: FloatArray,
    state: FloatArray,
    numbers: FloatArray,
    v_body: FloatArray,
) -> None:
    """Write the velocities of all robots; see the module's text."""
    speed, brake, radius, mount, yaw_rate, yaw_accel, holonomic, tick = (
        numbers[0],
        numbers[1],
        numbers[2],
        numbers[3],
        numbers[4],
        numbers[5],
        numbers[6],
        numbers[7],
    )
    width = radius + MARGIN
    # Others come towards it as fast: half of what is free is for them.
    reach = speed * speed / brake + 2.0 * speed * tick + MARGIN
    for i in range(ranges.shape[0]):
        free = _clearance_k(0.0, ranges[i], angles, mount, width, reach)
        turn = state[i, 0]
        if turn == 0.0 and free < 0.5 * reach:
            best = -1.0
            start = int(draws[i] * SECTORS)
            for k in range(SECTORS):
                sector = (start + k * 13) % SECTORS
                direction = (sector + 0.5) * (2.0 * math.pi / SECTORS) - math.pi
                clear = _clearance_k(direction, ranges[i], angles, mount, width, reach)
                if clear > best + 1e-9:
                    best, turn = clear, direction
                if clear >= reach:
                    break
        omega = 0.0
        if turn != 0.0:
            # So fast that it can stop turning in time, and never further than asked within a tick.
            fastest = min(yaw_rate, math.sqrt(yaw_accel * abs(turn)), abs(turn) / tick)
            omega = math.copysign(fastest, turn)
            left = turn - omega * tick
            state[i, 0] = 0.0 if abs(left) < 0.1 else left
        safe = min(speed, 0.5 * math.sqrt(2.0 * brake * free), 0.5 * free / tick)
        if turn != 0.0 and abs(turn) > 0.3:
            safe = 0.0
        v_body[i, 0] = safe
        v_body[i, 1] = 0.0
        v_body[i, 2] = omega


class CrowdWalk:
    """A random walk for all robots of a crowd; a `CrowdProgram`."""

    def __init__(self, spec: RobotSpec, speed: float, count: int, rng: np.random.Generator) -> None:
        """Make one.

        Args:
            spec: of all robots.
            speed: in m/s; no faster than the robots can go.
            count: how many there are.
            rng: of the directions they choose.
        """
        self._rng = rng
        self._draws = np.empty(count)
        self._state = np.zeros((count, 1))
        limits = spec.limits
        mount = spec.ranges[0].mount_radius if spec.ranges else 0.0
        self._numbers = np.array(
            (
                min(speed, limits.speed),
                limits.acceleration,
                spec.body.bounding_radius,
                mount,
                limits.yaw_rate,
                limits.yaw_acceleration,
                float(spec.holonomic),
                1.0 / TICK_RATE,
            )
        )

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the body velocities that all robots shall have."""
        self._rng.random(out=self._draws)
        walk_k(senses.ranges, senses.angles, self._draws, self._state, self._numbers, v_body)
