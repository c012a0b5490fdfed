"""Collective transport: N robots under N joined carriers move them as one rigid formation.

This needs holonomic drives: each robot moves like a point of a rigid body, whatever its own heading (DOTS
paper, III-A7, III-A9). There is no leader and no common map:

1. Each robot docks under its own carrier, found by the marker id on its sides, and centres itself below the
   markermap. Then it knows the pose of the formation: its carrier's place in it is given, and the carrier's
   direction is measured.
2. All agree by radio that they are centred, and lift at the same moment (`swarmbed_behaviours.accord`).
3. All follow the same path of the formation at the same time. While the platform is up, the camera cannot see
   the carrier, so each robot tracks the formation by dead reckoning with the compass
   (`swarmbed_behaviours.formation`). Friction between platform and tray evens out small differences. A robot
   that is late or off course slows down all.
4. All lower at the same moment. If a robot gives up, or is silent for too long, all put their carriers down.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from py_trees.common import Status
from py_trees.composites import Selector, Sequence
from pydantic import Field, model_validator
from swarmbed_core.config import Part
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import between, compose, invert, wrap
from swarmbed_core.markers import CarrierMarkers
from swarmbed_core.spec import Positive

from swarmbed_behaviours.accord import PAYLOAD_BYTES, Accord
from swarmbed_behaviours.follow_path import PathFile
from swarmbed_behaviours.formation import Course, Reckoning, slots_of
from swarmbed_behaviours.toolkit import (
    CarrierInSight,
    CentreUnder,
    Dock,
    Docking,
    DockingParameters,
    GoToPredock,
    Leaf,
    Lift,
    Lower,
    NearPredock,
    SeesUnderside,
    TimeLimit,
    TreeController,
    Wait,
)

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

    from swarmbed_behaviours.toolkit import Board

Vector = tuple[float, float, float]

CENTRED, LIFTED, ARRIVED, LOWERED = 1, 2, 3, 4
"""Stages that all robots must have reached before any of them continues."""
GAIN = 1.0
TURN_GAIN = 2.0
"""Gains, in 1/s, from the formation's errors in position and yaw to speed and rate of turn."""
SLOT_SLACK = 0.02
SLOT_LOST = 0.06
"""Position errors in metres at which a robot starts to slow the formation, and at which it stops it."""
LEAD_SLACK = 0.03
"""Seconds of the course by which a robot may be ahead of the last one: the clocks' differences."""
SILENT = 1.5
LOST = 10.0
"""Seconds without a message of another robot after which a robot stops, and after which it gives up."""
SETTLED = 0.006
SETTLE_SECONDS = 1.0
"""A robot has arrived within `SETTLED` metres of its place, or `SETTLE_SECONDS` after the course's end."""
SIGHTS = 10
"""Least number of sightings of the markermap that are averaged for a carrier's place."""


class CollectiveParameters(Part):
    """What a scenario may set.

    Attributes:
        cells: column and row of each robot's carrier, as in the scenario's `joined`, in the team's order.
        team: the robots' names; if not given, robot `<kind><n>` has the n-th of the cells.
        first_marker: marker id of the first cell's carrier; the following cells have consecutive ids. If not
            given, the lowest id of the carriers' marker set.
        path: a name from config/paths, or a file; its waypoints are taken relative to its start.
        waypoints: of the formation's centre, relative to where it is lifted, instead of a path.
        speed: of the centre in m/s; in a turn the outermost carrier moves at most as much faster again.
        acceleration: likewise, in m/s².
        countdown: seconds from the first proposal of a common moment to that moment.
        patience: seconds that a robot waits for the others before it gives up.
        docking: how the robots get under the carriers.
    """

    cells: Annotated[tuple[tuple[int, int], ...], Field(min_length=1, max_length=100)]
    team: tuple[str, ...] | None = None
    first_marker: int | None = None
    path: str | None = None
    waypoints: Annotated[tuple[Vector, ...], Field(min_length=1, max_length=1000)] | None = None
    speed: Annotated[float, Field(gt=0, le=0.5)] = 0.15
    acceleration: Annotated[float, Field(gt=0, le=1)] = 0.1
    countdown: Annotated[float, Field(ge=0.5, le=10)] = 1.5
    patience: Positive = 60.0
    docking: DockingParameters = DockingParameters(centred=0.003)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.path is None) == (self.waypoints is None):
            message = "give one of path and waypoints"
            raise ValueError(message)
        if len(set(self.cells)) != len(self.cells):
            message = "cells: two are the same; expected one cell per robot"
            raise ValueError(message)
        if self.team is not None and (
            len(self.team) != len(self.cells) or len(set(self.team)) < len(self.team)
        ):
            message = f"team: expected {len(self.cells)} different names, one for each cell"
            raise ValueError(message)
        return self

    def way(self) -> tuple[Vector, ...]:
        """Return the waypoints relative to where the formation starts.

        Raises:
            ConfigError: there is no such path.
        """
        if self.waypoints is not None:
            return self.waypoints
        file = PathFile.load(str(self.path))
        points = (between(file.start, point.pose).tolist() for point in file.waypoints)
        return tuple((x, y, yaw) for x, y, yaw in points)


def index_of(name: str, parameters: CollectiveParameters) -> int:
    """Return the index of a robot's cell.

    Raises:
        ConfigError: it has none.
    """
    if parameters.team is not None:
        if name in parameters.team:
            return parameters.team.index(name)
        message = f"collective: '{name}' is not in the team {', '.join(parameters.team)}"
        raise ConfigError(message)
    number = re.search(r"(\d+)$", name)
    index = int(number.group(1)) - 1 if number else -1
    if 0 <= index < len(parameters.cells):
        return index
    message = f"collective: none of the {len(parameters.cells)} cells is for '{name}'; set `team`"
    raise ConfigError(message)


def radio_of(spec: RobotSpec) -> str:
    """Return the name of the radio that the team uses.

    Raises:
        ConfigError: this kind of robot lacks a part that the task needs.
    """
    missing = [
        what
        for what, there in (
            ("holonomic drive", spec.holonomic),
            ("lifter", spec.lifter is not None),
            ("compass", spec.compass is not None),
            ("camera on the lifter", any(camera.on_lifter for camera in spec.cameras)),
            ("carrier in its file", spec.carrier is not None),
        )
        if not there
    ]
    radio = next((radio for radio in spec.radios if radio.payload_bytes >= PAYLOAD_BYTES), None)
    if radio is None:
        missing.append(f"radio for {PAYLOAD_BYTES} bytes")
    if missing or radio is None:
        message = f"collective: a robot of kind '{spec.kind}' has no {', no '.join(missing)}"
        raise ConfigError(message)
    return radio.name


class FormationPose:
    """Pose of one robot and of the formation, relative to the robot's pose when the carriers were lifted.

    Attributes:
        reckoning: estimate of the robot's pose.
        slot: pose of its carrier in the formation.
        sights: number of sightings averaged for the carrier's place.
    """

    def __init__(self, board: Board, slot: Vector) -> None:
        """Start with the slot alone."""
        self.reckoning = Reckoning(board.spec)
        self.slot = slot
        self.sights = 0
        self._first = np.zeros(3)
        self._sum = np.zeros(3)
        self._stamp = -math.inf
        self._start: FloatArray | None = None
        self._grip = np.zeros(3)

    def begin_to_stand(self, board: Board) -> None:
        """Start over after the robot has moved; only images from now on count."""
        self.reckoning.begin_to_stand()
        self.sights = 0
        self._sum[:] = 0.0
        self._stamp = board.time
        self._start = None

    def stand(self, board: Board) -> None:
        """Average the sightings of the carrier above, and the compass, while the robot stands still."""
        self.reckoning.stand(board.senses)
        sight = board.overhead
        if sight is None or sight.stamp <= self._stamp:
            return
        self._stamp = sight.stamp
        if self.sights == 0:
            self._first = sight.pose_body.copy()
        off = sight.pose_body - self._first
        off[2] = wrap(off[2])
        self._sum += off
        self.sights += 1

    def set_off(self, board: Board) -> None:
        """Set the start pose of the formation; from now on the robot is fixed below its carrier."""
        carrier = self._first + self._sum / max(self.sights, 1)
        self._start = compose(carrier, invert(self.slot))
        self._grip = invert(self._start)
        self.reckoning.set_off(board.senses)

    def sense(self, board: Board) -> None:
        """Update the robot's pose with the senses of this tick."""
        if self._start is not None:
            self.reckoning.update(board.senses)

    def formation(self) -> Vector:
        """Return this robot's estimate of the formation's pose, relative to where it was lifted."""
        if self._start is None:
            return 0.0, 0.0, 0.0
        x, y, yaw = compose(self._grip, compose(self.reckoning.pose, self._start)).tolist()
        return x, y, yaw

    def velocity(self, twist: Vector) -> Vector:
        """Return the velocity of this robot's body in a moving formation.

        Args:
            twist: twist of the formation's centre, along the formation's own axes.
        """
        vx, vy, omega = twist
        x, y, yaw = self._grip.tolist()
        vx, vy = vx - omega * y, vy + omega * x
        c, s = math.cos(yaw), math.sin(yaw)
        return c * vx + s * vy, c * vy - s * vx, omega


class Look(Leaf):
    """Stand and look for the robot's own carrier; always running."""

    def __init__(self, docking: Docking, name: str = "look for carrier") -> None:
        """Look with all cameras."""
        super().__init__(name, docking.board)
        self._docking = docking

    def update(self) -> Status:
        """Stand, and select the carrier as the target as soon as it is in sight."""
        self.board.stop()
        self._docking.wants_side()
        return Status.RUNNING


class Barrier(Leaf):
    """Stand until all are ready for a stage and its agreed start has come."""

    def __init__(
        self, board: Board, accord: Accord, place: FormationPose, stage: int, patience: float, name: str
    ) -> None:
        """Wait for a stage."""
        super().__init__(name, board)
        self._place = place
        self._accord = accord
        self._stage = stage
        self._patience = patience
        self._since = 0.0

    def initialise(self) -> None:
        """Start the timeout."""
        self._since = self.board.time

    def update(self) -> Status:
        """Report this robot ready and wait; fail if a robot gives up or patience ends."""
        board, accord = self.board, self._accord
        board.stop()
        if self._stage in {CENTRED, LIFTED}:
            self._place.stand(board)
        accord.ready(self._stage, board.time)
        start = accord.start(self._stage)
        if start is not None and board.time >= start - 0.5 / TICK_RATE:
            return Status.SUCCESS
        late = board.time - self._since > self._patience
        return Status.FAILURE if accord.given_up or late else Status.RUNNING


class Measure(Leaf):
    """Stand and measure the place of the carrier above."""

    def __init__(self, board: Board, place: FormationPose, name: str = "measure") -> None:
        """Measure for `place`."""
        super().__init__(name, board)
        self._place = place
        self._until = 0.0

    def initialise(self) -> None:
        """Start over."""
        self._place.begin_to_stand(self.board)
        self._until = self.board.time + 5.0

    def update(self) -> Status:
        """Measure; fail if there are too few sightings within 5 s."""
        self.board.stop()
        self._place.stand(self.board)
        if self._place.sights >= SIGHTS:
            return Status.SUCCESS
        return Status.RUNNING if self.board.time < self._until else Status.FAILURE


class Carry(Leaf):
    """Move the formation along its course, together with the others."""

    def __init__(
        self, board: Board, accord: Accord, place: FormationPose, course: Course, name: str = "carry"
    ) -> None:
        """Follow the course."""
        super().__init__(name, board)
        self._accord, self._place, self._course = accord, place, course
        self._seconds = self._rate = self._latest = self._ended = 0.0

    def initialise(self) -> None:
        """Start at the common moment."""
        self._place.set_off(self.board)
        start = self._accord.start(LIFTED)
        self._latest = self.board.time if start is None else start
        self._seconds, self._rate = 0.0, 1.0
        self._ended = math.inf
        self._accord.set_off(self._latest)

    def update(self) -> Status:
        """Follow the course; fail if a robot gives up or is silent for too long."""
        board, accord, course = self.board, self._accord, self._course
        now = board.time
        self._seconds = min(self._seconds + self._rate * (now - self._latest), course.duration)
        self._latest = now
        off = self._off()
        far = math.hypot(off[0], off[1])
        self._rate = self._pace(now, far)
        accord.progress(now, self._seconds, self._rate)
        silence = accord.silence(now)
        if accord.given_up or silence > LOST:
            return Status.FAILURE
        if self._seconds >= course.duration:
            self._ended = min(self._ended, now)
            if far < SETTLED or now - self._ended > SETTLE_SECONDS:
                board.stop()
                return Status.SUCCESS
        self._drive(off)
        return Status.RUNNING

    def _off(self) -> Vector:
        """Return the formation's pose error, along its own axes."""
        x, y, yaw = between(self._place.formation(), self._course.at(self._seconds)).tolist()
        return x, y, yaw

    def _pace(self, now: float, far: float) -> float:
        """Return the rate of the course: 1 is on time, less if a robot cannot keep up."""
        accord = self._accord
        if self._seconds >= self._course.duration or accord.silence(now) > SILENT:
            return 0.0
        lost = (far - SLOT_SLACK) / (SLOT_LOST - SLOT_SLACK)
        ahead = self._seconds - min(accord.behind(now), self._course.duration)
        return min(max(1.0 - max(lost, 2.0 * (ahead - LEAD_SLACK)), 0.0), 1.0)

    def _drive(self, off: Vector) -> None:
        """Move with the formation until the next tick, and correct its error.

        Each robot corrects the pose of the whole formation and not that of its own slot. Where the robots'
        estimates differ, friction averages the corrections.
        """
        tick = 1.0 / TICK_RATE
        here = self._course.at(self._seconds)
        there = self._course.at(self._seconds + self._rate * tick)
        x, y, turn = between(here, there).tolist()
        # The formation turns meanwhile: use its axes in the middle of the tick.
        c, s = math.cos(turn / 2), math.sin(turn / 2)
        ahead, left = (c * x + s * y) / tick, (c * y - s * x) / tick
        twist = (ahead + GAIN * off[0], left + GAIN * off[1], turn / tick + TURN_GAIN * off[2])
        self.board.drive(self._place.velocity(twist))


class Collective(TreeController):
    """One robot of a team that carries joined carriers."""

    Parameters: ClassVar[type[Part]] = CollectiveParameters
    parameters: CollectiveParameters

    def __init__(self, robot: Robot, parameters: CollectiveParameters, rng: np.random.Generator) -> None:
        """Join the team.

        Raises:
            ConfigError: this robot lacks a part or a cell, or the path cannot be driven.
        """
        spec = robot.spec
        self._radio = radio_of(spec)
        self._index = index_of(robot.name, parameters)
        self._accord = Accord(self._index, len(parameters.cells), parameters.countdown)
        super().__init__(robot, parameters, rng)

    def make_tree(self) -> Behaviour:
        """Return the tree: the whole task; if it fails, put the carrier down."""
        board, asked, accord = self.board, self.parameters, self._accord
        spec = board.spec
        carrier = spec.carrier
        length, width = (0.0, 0.0) if carrier is None else (carrier.length, carrier.width)
        slots = slots_of(asked.cells, length, width)
        reach = max(math.hypot(*slot) for slot in slots)
        self._place = place = FormationPose(board, (*slots[self._index], 0.0))
        course = Course.plan(asked.way(), spec, reach, asked.speed, asked.acceleration)

        def barrier(stage: int, name: str) -> Barrier:
            return Barrier(board, accord, place, stage, asked.patience, f"wait: {name}")

        work = [
            TimeLimit(board, self._get_under(), asked.patience, "get under"),
            Measure(board, place),
            barrier(CENTRED, "centred"),
            Lift(board),
            barrier(LIFTED, "lifted"),
            Carry(board, accord, place, course),
            barrier(ARRIVED, "arrived"),
            Lower(board),
            barrier(LOWERED, "lowered"),
            Wait(board, math.inf, "done"),
        ]
        put_down = [GiveUp(board, accord), Lower(board, "put down"), Wait(board, math.inf, "failed")]
        return Selector(
            "collective",
            memory=True,
            children=[
                Sequence("together", memory=True, children=work),
                Sequence("alone", memory=True, children=put_down),
            ],
        )

    def _get_under(self) -> Behaviour:
        """Return the behaviour that docks the robot and centres it below its own carrier."""
        board, asked = self.board, self.parameters
        first = asked.first_marker
        if first is None:
            first = CarrierMarkers.load(asked.docking.markers).sides.first_id
        mine = first + self._index

        def is_mine(board: Board, _: FloatArray) -> bool:
            return board.overhead is not None or (board.carrier is not None and board.carrier.id == mine)

        docking = Docking(board, asked.docking, is_mine)
        centre = Sequence("below", memory=False, children=[SeesUnderside(board), CentreUnder(docking)])
        dock = [CarrierInSight(docking), NearPredock(docking), Dock(docking)]
        ways = [
            centre,
            Sequence("dock", memory=False, children=dock),
            Sequence("predock", memory=False, children=[CarrierInSight(docking), GoToPredock(docking)]),
            Look(docking),
        ]
        return Selector("get under", memory=False, children=ways)

    def before_tree(self) -> None:
        """Update the pose, and process received messages."""
        self._place.sense(self.board)
        for packet in self.board.senses.heard.get(self._radio, ()):
            self._accord.hear(packet.payload, packet.stamp)

    def after_tree(self) -> None:
        """Send this robot's message."""
        self.board.say(self._radio, self._accord.message())

    def activity(self) -> str:
        """Return the name of the running leaf."""
        tip = self.root.tip()
        return self.root.name if tip is None else str(tip.name)


class GiveUp(Leaf):
    """Tell the others that this robot puts its carrier down; succeeds at once."""

    def __init__(self, board: Board, accord: Accord, name: str = "give up") -> None:
        """Give up."""
        super().__init__(name, board)
        self._accord = accord

    def update(self) -> Status:
        """Give up."""
        self._accord.give_up()
        return Status.SUCCESS
