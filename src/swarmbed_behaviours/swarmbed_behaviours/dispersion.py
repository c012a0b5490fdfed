"""Dispersion: robots spread out until each has room around it.

A robot with distance sensors on all sides is repelled by everything nearer than the room it wants, the nearer
the stronger. It cannot tell robots from walls. A robot that sees only ahead uses its radio: it runs while the
distance to the nearest robot grows, and tumbles when it does not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from py_trees.common import Status
from py_trees.composites import Selector
from pydantic import Field
from swarmbed_core.config import Part

from swarmbed_behaviours.aggregation import HELLO, Neighbourhood, RunAndTumble, finder_of
from swarmbed_behaviours.toolkit.board import TreeController
from swarmbed_behaviours.walking import Act, Surroundings, all_round, cruise, need_sight, steer

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

    from swarmbed_behaviours.toolkit.board import Board

SECTORS = 16
"""Number of sectors; only the nearest return of each one repels."""
CALM = 0.08
"""Repulsion below which a robot rests."""


class DispersionParameters(Part):
    """What a scenario may set.

    Attributes:
        room: metres around the body that must be free; as far as the sensors see well, if not given.
        speed: in m/s.
        run: duration in seconds of one run of a robot that uses its radio.
        margin: metres that the body keeps from everything.
    """

    room: Annotated[float, Field(gt=0, le=100)] | None = None
    speed: Annotated[float, Field(gt=0, le=2)] = 0.3
    run: Annotated[float, Field(gt=0, le=60)] = 1.5
    margin: Annotated[float, Field(ge=0, le=1)] = 0.04


def push(points_body: FloatArray, radius: float, room: float) -> tuple[float, float]:
    """Return strength and direction of the repulsion by all returns nearer than `room` to the body.

    Strength 1 is that of a single return at the body itself.
    """
    if not len(points_body):
        return 0.0, 0.0
    gaps = np.hypot(*points_body.T) - radius
    angles = np.arctan2(points_body[:, 1], points_body[:, 0])
    sectors = np.floor(angles / (2 * math.pi) * SECTORS).astype(int) % SECTORS
    x = y = 0.0
    for sector in np.unique(sectors).tolist():
        there = sectors == sector
        nearest = int(np.argmin(np.where(there, gaps, math.inf)))
        strength = max(0.0, 1.0 - float(gaps[nearest]) / room) ** 2
        x -= strength * math.cos(angles[nearest])
        y -= strength * math.sin(angles[nearest])
    return math.hypot(x, y), math.atan2(y, x)


def room_of(spec: RobotSpec) -> float:
    """Return the range in metres that the sensors can monitor, at most 1 m."""
    return min(1.0, 0.8 * max(ring.range_max for ring in spec.ranges if ring.count > 1))


class Dispersion(TreeController):
    """One robot of a swarm that spreads out."""

    Parameters: ClassVar[type[Part]] = DispersionParameters
    parameters: DispersionParameters

    def __init__(self, robot: Robot, parameters: DispersionParameters, rng: np.random.Generator) -> None:
        """Start spreading out.

        Raises:
            ConfigError: this kind of robot has no sensor ahead, or neither sensors all round nor a radio.
        """
        spec = robot.spec
        need_sight(spec, "dispersion", 0.0, math.radians(25), "ahead")
        self._by_sight = all_round(spec)
        self._around = Surroundings(spec, parameters.margin)
        self._speed = cruise(spec, parameters.speed)
        self._calm = False
        self._others: Neighbourhood | None = None
        if self._by_sight:
            self._room = parameters.room or room_of(spec)
        else:
            radio = finder_of(spec, "dispersion of robots without distance sensors all round")
            self._others = Neighbourhood(radio)
            self._room = parameters.room or min(1.0, radio.range_max)
        self._runs = RunAndTumble(rng, parameters.run, 0.0)
        super().__init__(robot, parameters, rng)

    def make_tree(self) -> Behaviour:
        """Return the tree: rest where there is room; otherwise go where there is more."""
        board = self.board
        go = Act("pushed away", board, self.give_way) if self._by_sight else Act("run", board, self.run)
        return Selector("dispersion", memory=False, children=[Act("spread", board, self.rest), go])

    def rest(self, board: Board) -> Status:
        """Stand; fail if a robot or a wall is too near."""
        self._around.look(board.senses)
        if self._others is None:
            strength = self._push(board)[0]
            # Hysteresis: small changes do not start a resting robot.
            self._calm = strength < CALM * (2.0 if self._calm else 1.0)
        else:
            self._others.listen(board.senses)
            if not self._others.measures:
                board.say(self._others.radio.name, HELLO)
            nearest = min(self._others.distances(), default=math.inf)
            self._calm = nearest > self._room or (not self._others.measures and nearest == math.inf)
        if not self._calm:
            return Status.FAILURE
        board.stop()
        return Status.RUNNING

    def give_way(self, board: Board) -> Status:
        """Move in the direction of the repulsion."""
        strength, direction = self._push(board)
        speed = self._speed * min(1.0, max(strength, 0.2))
        board.drive(steer(board.spec, self._around, direction, speed, face=False))
        return Status.RUNNING

    def run(self, board: Board) -> Status:
        """Run or tumble."""
        nearest = math.inf if self._others is None else min(self._others.distances(), default=math.inf)
        blocked = self._around.clearance(board.to_body(self._runs.direction)) < self.parameters.margin
        direction = self._runs.update(board.time, -nearest, blocked=blocked)
        board.drive(steer(board.spec, self._around, board.to_body(direction), self._speed))
        return Status.RUNNING

    def _push(self, board: Board) -> tuple[float, float]:
        return push(self._around.points, board.spec.body.bounding_radius, self._room)
