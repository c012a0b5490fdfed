"""Random walk for thousands of robots at once: straight on until something is near, then another way.

The crowd's form of the `random_walk` controller: one compiled call for all robots. A robot drives straight
ahead, and slows down with the room it has before it. When half of the room that it brakes in is gone, it
chooses a new direction at random among those that are clear, or else the clearest, turns to it on the spot,
and drives on. It uses nothing but its ranges, so that it works for holonomic robots and for those with two
wheels.
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
MARGIN = 0.04
"""Metres that a robot keeps from what is beside its way and before it."""
RECEDING = 0.5
"""Share of its own speed at which a robot believes that what is near goes away."""
DIRECTIONS = 32
"""Directions that a robot chooses from."""
STRIDE = 13
"""From one direction to the next that is tried: prime to their number, so that all are."""
ALIGNED = 0.1
"""Radians off its direction at which a robot has turned far enough."""
LATENCY = 0.05
"""Seconds from a sweep to the drives' answer, over a tick: a sweep's age and the ramp of the acceleration."""

# What `numbers` holds.
_SPEED, _BRAKE, _RADIUS, _REACT, _YAW_RATE, _YAW_ACCEL, _TICK, _REACH = 0, 1, 2, 3, 4, 5, 6, 7


@kernel
def _room_k(direction: float, gaps: FloatArray, angles: FloatArray, reach: float) -> float:
    """Return how far a robot may go in a direction of its frame.

    A gap g that it sees at an angle off its way closes by cos(off) for each metre that it goes, so it may
    go g / cos(off): also for what it would just pass, for that may be a robot on its way to the same place.

    Args:
        direction: in radians.
        gaps: of the body to what each sensor sees.
        angles: of the sensors.
        reach: the most that is of interest.
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
        ranges: rows of distances from the sensors' faces, inf for nothing.
        angles: of the sensors.
        mounts: distances of their faces from the robots' centre.
        draws: a number from [0, 1) for each robot.
        gaps: rows of the gaps between the robots and what their sensors saw lately; written.
        turns: how far each still has to turn, 0 for those that drive on; written.
        numbers: see `CrowdWalk`.
        v_body: what each shall do; written.
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
            # Near returns often seem farther away than they are (Figure 7), or do not come at all.
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
        # As fast as it may be to stop in time, while another comes towards it at full speed all along:
        # v^2 / 2a + v t for its own way, u (t + v / a) for the other's.
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
        """Make one.

        Args:
            spec: of all robots.
            speed: in m/s; robots that cannot go as fast go as fast as they can.
            count: how many there are.
            rng: of the directions they choose.
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
        """Write the body velocities that all robots shall have."""
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
