"""Random walk for thousands of robots at once: straight on until something is near, then a new direction.

The crowd's form of the `random_walk` controller: one compiled call for all robots. A robot drives straight
ahead, and slows down as the free distance ahead shrinks. When less than half of its braking reach is free, it
picks a random clear direction, or else the clearest, turns to it on the spot and drives on. It uses only its
ranges, so it works for holonomic and for two-wheeled robots.
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
"""Default speed in m/s: the paper's robots explore at this speed (IV-B)."""
MARGIN = 0.04
"""Metres that a robot keeps from obstacles ahead and beside its path."""
RECEDING = 0.5
"""Fastest growth that is believed of a gap, as a share of the robot's own speed."""
DIRECTIONS = 32
"""Directions that a robot chooses from."""
STRIDE = 13
"""Step between the directions tried; coprime to `DIRECTIONS`, so that all are tried."""
ALIGNED = 0.1
"""Radians within which a robot has reached its new direction."""
LATENCY = 0.05
"""Seconds from a sweep to the drives' response, besides a tick: age of the sweep and acceleration ramp."""

# Indices into `numbers`.
_SPEED, _BRAKE, _RADIUS, _REACT, _YAW_RATE, _YAW_ACCEL, _TICK, _REACH = 0, 1, 2, 3, 4, 5, 6, 7


@kernel
def _room_k(direction: float, gaps: FloatArray, angles: FloatArray, reach: float) -> float:
    """Return how far a robot may move in a direction of its frame.

    A gap g at an angle `off` from the direction closes by cos(off) for each metre, so the robot may move
    g / cos(off). This includes obstacles that it would pass, because they may be robots heading for the same
    place.

    Args:
        direction: in radians.
        gaps: gap between the body and each sensor's return.
        angles: of the sensors.
        reach: upper bound of the result.
    """
    room = reach
    for k in range(angles.shape[0]):
        if gaps[k] < room:
            share = math.cos(angles[k] - direction)
            if gaps[k] < room * share:
                room = gaps[k] / share
    return room


@kernel
def walk_k(
    ranges: FloatArray,
    angles: FloatArray,
    mounts: FloatArray,
    draws: FloatArray,
    gaps: FloatArray,
    turns: FloatArray,
    numbers: FloatArray,
    v_body: FloatArray,
) -> None:
    """Write the velocities of all robots; see the module's text.

    Args:
        ranges: rows of distances from the sensors' faces, inf for no return.
        angles: of the sensors.
        mounts: distances of the sensors' faces from the robots' centre.
        draws: a random number from [0, 1) for each robot.
        gaps: rows of the gaps between the robots and their sensors' recent returns; updated.
        turns: angle each robot still has to turn, 0 for those that drive on; updated.
        numbers: see `CrowdWalk`.
        v_body: commanded velocities; written.
    """
    speed, brake, tick, react, reach = (
        numbers[_SPEED],
        numbers[_BRAKE],
        numbers[_TICK],
        numbers[_REACT],
        numbers[_REACH],
    )
    away = RECEDING * speed * tick
    width = numbers[_RADIUS] + MARGIN
    for i in range(ranges.shape[0]):
        for k in range(angles.shape[0]):
            # Near returns often read too far (Figure 7) or are missing, so gaps may only grow slowly.
            gaps[i, k] = min(gaps[i, k] + away, max(ranges[i, k] + mounts[k] - width, 0.0))
        room = _room_k(0.0, gaps[i], angles, reach)
        turn = turns[i]
        if turn == 0.0 and room < 0.5 * reach:
            clearest = -1.0
            start = int(draws[i] * DIRECTIONS)
            for k in range(DIRECTIONS):
                place = (start + k * STRIDE) % DIRECTIONS
                direction = (place + 0.5) * (2.0 * math.pi / DIRECTIONS) - math.pi
                clear = _room_k(direction, gaps[i], angles, reach)
                if clear > clearest:
                    clearest, turn = clear, direction
                if clear >= reach:
                    break
        # Highest speed from which it stops in time while another robot approaches at full speed throughout:
        # v^2 / 2a + v t for its own distance, u (t + v / a) for the other's.
        late = react + speed / brake
        safe = brake * (math.sqrt(max(late * late + 2.0 * (room - speed * react) / brake, 0.0)) - late)
        safe = max(safe, 0.0)
        omega = 0.0
        if turn != 0.0:
            fastest = min(numbers[_YAW_RATE], math.sqrt(numbers[_YAW_ACCEL] * abs(turn)), abs(turn) / tick)
            omega = math.copysign(fastest, turn)
            turn -= omega * tick
            turn = 0.0 if abs(turn) < ALIGNED else turn
            safe = 0.0
        turns[i] = turn
        v_body[i, 0] = min(speed, safe)
        v_body[i, 1] = 0.0
        v_body[i, 2] = omega


class CrowdWalk:
    """A random walk for all robots of a crowd; a `CrowdProgram`."""

    def __init__(self, spec: RobotSpec, speed: float, count: int, rng: np.random.Generator) -> None:
        """Set up the walk.

        Args:
            spec: of all robots.
            speed: in m/s; capped at the robots' limit.
            count: number of robots.
            rng: random generator for the directions.
        """
        limits = spec.limits
        speed = min(speed, limits.speed)
        brake, tick = limits.acceleration, 1.0 / TICK_RATE
        react = tick + LATENCY
        self._rng = rng
        self._draws = np.empty(count)
        sensors = [ring.mount_radius for ring in spec.ranges for _ in ring.angles]
        self._mounts = np.array(sensors, dtype=np.float64)
        self._gaps = np.full((count, len(sensors)), math.inf)
        self._turns = np.zeros(count)
        self._numbers = np.zeros(8)
        self._numbers[_SPEED] = speed
        self._numbers[_BRAKE] = brake
        self._numbers[_RADIUS] = spec.body.bounding_radius
        self._numbers[_REACT] = react
        self._numbers[_YAW_RATE] = limits.yaw_rate
        self._numbers[_YAW_ACCEL] = limits.yaw_acceleration
        self._numbers[_TICK] = tick
        self._numbers[_REACH] = 1.5 * speed * speed / brake + 2.0 * speed * react

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Write the commanded body velocities of all robots."""
        self._rng.random(out=self._draws)
        walk_k(
            senses.ranges,
            senses.angles,
            self._mounts,
            self._draws,
            self._gaps,
            self._turns,
            self._numbers,
            v_body,
        )
