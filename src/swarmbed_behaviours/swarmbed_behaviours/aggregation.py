"""Aggregation: robots gather without knowing where the others are.

Radios measure the distance to other robots, by ranging (UWB) or by received power (BLE), but not the
direction. Short-range radios only show that another robot is near. So the robots search as bacteria do: run
for a while; if the others have come closer, keep the direction, otherwise tumble into another one. Robots
close to the others stop, and the cluster grows around them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

from py_trees.common import Status
from py_trees.composites import Selector
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import wrap
from swarmbed_core.radio import distance_from_rssi

from swarmbed_behaviours.toolkit.board import TreeController
from swarmbed_behaviours.walking import Act, Surroundings, cruise, need_sight, steer

if TYPE_CHECKING:
    import numpy as np
    from py_trees.behaviour import Behaviour
    from swarmbed_core.robot import Robot, Senses
    from swarmbed_core.spec import Radio, RobotSpec

    from swarmbed_behaviours.toolkit.board import Board

HELLO = b"swarmbed"
"""Payload sent by robots whose radio does not advertise by itself."""
SMOOTH = 0.5
"""Seconds over which distances are averaged."""
FAR = 25.0
"""Largest reach, in radii of the body, at which a radio without distance measurement is useful."""
FORGOTTEN = 2.0
"""Seconds without a packet after which a robot no longer counts as a neighbour."""


def finder_of(spec: RobotSpec, what: str) -> Radio:
    """Return the radio that best shows how far others are: by ranging, by power, or by reception alone.

    Raises:
        ConfigError: this kind of robot has no radio, or none that is suitable.
    """
    kinds = ("uwb", "ble", "packet", "infrared")
    if not spec.radios:
        message = f"{what}: a robot of kind '{spec.kind}' has no radio; one of {', '.join(kinds)} is needed"
        raise ConfigError(message)
    radio = min(spec.radios, key=lambda radio: kinds.index(radio.kind))
    if not measures(radio) and radio.range_max > FAR * spec.body.bounding_radius:
        message = (
            f"{what}: radio '{radio.name}' of a robot of kind '{spec.kind}' measures no distance, and its "
            f"{radio.range_max} m reach is too large to show proximity; use UWB, BLE or a short-range radio"
        )
        raise ConfigError(message)
    return radio


def measures(radio: Radio) -> bool:
    """Return whether a radio measures distances, and does not only show that another robot is near."""
    return radio.range_sigma is not None or radio.rssi_at_1m is not None


class Neighbourhood:
    """Distances to the other robots, measured by one radio."""

    def __init__(self, radio: Radio) -> None:
        """Start without neighbours."""
        self.radio = radio
        self._known: dict[str, tuple[float, float]] = {}

    @property
    def measures(self) -> bool:
        """Return whether the radio measures distances, and does not only show that another robot is near."""
        return measures(self.radio)

    def listen(self, senses: Senses) -> None:
        """Process the packets received since the last call."""
        for packet in senses.heard.get(self.radio.name, ()):
            distance = packet.distance
            if distance is None and packet.rssi is not None:
                distance = distance_from_rssi(packet.rssi, self.radio)
            if distance is None:
                distance = self.radio.range_max / 2
            old, stamp = self._known.get(packet.sender, (distance, packet.stamp))
            # Average logarithms, because the noise of a received power is symmetric in them.
            share = min(1.0, max(packet.stamp - stamp, 0.0) / SMOOTH)
            mixed = math.exp((1 - share) * math.log(max(old, 0.01)) + share * math.log(max(distance, 0.01)))
            self._known[packet.sender] = (mixed, packet.stamp)
        self._known = {
            name: known for name, known in self._known.items() if senses.time - known[1] < FORGOTTEN
        }

    def distances(self) -> list[float]:
        """Return the distances of all robots heard lately, in metres, the nearest first."""
        return sorted(distance for distance, _ in self._known.values())

    def mean(self) -> float:
        """Return the mean distance of the others; inf if there are none."""
        known = self.distances()
        return sum(known) / len(known) if known else math.inf


class RunAndTumble:
    """Chooses directions that reduce a quantity which can be measured but has no direction."""

    def __init__(self, rng: np.random.Generator, seconds: float, heading: float) -> None:
        """Start in a random direction.

        Args:
            rng: random generator.
            seconds: duration of one run.
            heading: direction to which the first random turn is added, in radians.
        """
        self._rng = rng
        self._seconds = seconds
        self._since = -math.inf
        self._felt = math.inf
        self.direction = float(wrap(heading + rng.uniform(-math.pi, math.pi)))

    def update(self, now: float, felt: float, *, blocked: bool) -> float:
        """Return the direction of motion.

        Args:
            now: the clock's time.
            felt: the quantity to reduce.
            blocked: whether the current direction is blocked.
        """
        if blocked or now - self._since >= self._seconds:
            if blocked or felt >= self._felt:
                # Turn back rather than aside, because the value was better there.
                self.direction = float(wrap(self.direction + math.pi + self._rng.normal(0.0, 1.0)))
            self._since = now
            self._felt = felt
        return self.direction


class AggregationParameters(Part):
    """What a scenario may set.

    Attributes:
        near: mean distance of the others at which a robot stops; by their number and size, if not given.
        speed: in m/s.
        run: duration of one run in seconds.
        margin: metres that the body keeps from everything.
    """

    near: Annotated[float, Field(gt=0, le=100)] | None = None
    speed: Annotated[float, Field(gt=0, le=2)] = 0.3
    run: Annotated[float, Field(gt=0, le=60)] = 1.5
    margin: Annotated[float, Field(ge=0, le=1)] = 0.04


class Aggregation(TreeController):
    """One robot of a swarm that gathers."""

    Parameters: ClassVar[type[Part]] = AggregationParameters
    parameters: AggregationParameters

    def __init__(self, robot: Robot, parameters: AggregationParameters, rng: np.random.Generator) -> None:
        """Start looking for the others.

        Raises:
            ConfigError: this kind of robot has no radio, or cannot see what is ahead.
        """
        spec = robot.spec
        need_sight(spec, "aggregation", 0.0, math.radians(25), "ahead")
        self._others = Neighbourhood(finder_of(spec, "aggregation"))
        self._around = Surroundings(spec, parameters.margin)
        self._speed = cruise(spec, parameters.speed)
        self._runs = RunAndTumble(rng, parameters.run, 0.0)
        self._gathered = False
        super().__init__(robot, parameters, rng)

    def make_tree(self) -> Behaviour:
        """Return the tree: stay close to the others; otherwise look for them."""
        board = self.board
        leaves = [Act("gathered", board, self.stay), Act("approach", board, self.approach)]
        return Selector("aggregation", memory=False, children=leaves)

    def near(self, board: Board) -> float:
        """Return the mean distance of the others, in metres, within which a robot has joined them."""
        if self.parameters.near is not None:
            return float(self.parameters.near)
        if not self._others.measures:
            return self._others.radio.range_max
        count = 1 + len(self._others.distances())
        return 2 * board.spec.body.bounding_radius * (1.0 + math.sqrt(count))

    def stay(self, board: Board) -> Status:
        """Stop among the others; fail if they are too far away."""
        self._around.look(board.senses)
        self._others.listen(board.senses)
        if not self._others.measures:
            board.say(self._others.radio.name, HELLO)
        # Hysteresis: a robot that has stopped stays unless the others move away.
        self._gathered = self._others.mean() < self.near(board) * (1.25 if self._gathered else 1.0)
        if not self._gathered:
            return Status.FAILURE
        board.stop()
        return Status.RUNNING

    def approach(self, board: Board) -> Status:
        """Run or tumble."""
        ahead = board.to_body(self._runs.direction)
        blocked = self._around.clearance(ahead) < self.parameters.margin
        direction = self._runs.update(board.time, self._others.mean(), blocked=blocked)
        board.drive(steer(board.spec, self._around, board.to_body(direction), self._speed))
        return Status.RUNNING
