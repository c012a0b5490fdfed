"""Picking carriers up and coming out from under them (DOTS paper, IV-B1b, IV-B2, Figure 13).

`pick_up` is the paper's behaviour, in its order of priority: centre under the markermap if it is in sight,
else drive in to `dock` if the robot stands in front of a side, else go to `predock` if a side is in sight.
Where the paper leaves details open, this module decides as follows:

- While driving in, for about 0.2 m, a robot sees neither the side (its camera is too close) nor the markermap
  (it is not yet below it). It continues by odometry; the carrier is lost only if the markermap does not
  appear at the end.
- The clearance to the legs is one centimetre on either side. So sightings are fused (`CarrierEstimate`), and
  the robot drives in only when position and direction are accurate enough.
- The direction of a distant side may be ambiguous. Then the robot first goes closer.
- A carrier with something between its legs is taken: another robot is below it. If two robots got under it at
  the same time, neither reaches the centre. Both give up for a random time and come out.
- Where a wall leaves no room for `predock`, the robot stands closer to the side.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

from py_trees.common import Status
from py_trees.composites import Selector, Sequence
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.geometry import between, compose, wrap
from swarmbed_core.markers import CarrierMarkers
from swarmbed_core.onboard import CARRIER_MARKERS
from swarmbed_core.spec import Positive

from swarmbed_behaviours.toolkit.actions import Do, Lift, way_likelihood
from swarmbed_behaviours.toolkit.conditions import Condition, Leaf
from swarmbed_behaviours.toolkit.decorators import OnFailure, TimeLimit
from swarmbed_behaviours.toolkit.estimate import QUARTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from py_trees.behaviour import Behaviour
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.spec import Carrier, RobotSpec

    from swarmbed_behaviours.toolkit.board import Board
    from swarmbed_behaviours.toolkit.estimate import CarrierEstimate

    Accept = Callable[[Board, FloatArray], bool]

STICK = math.radians(55.0)
"""Bearing difference, around the carrier, up to which a robot keeps the side it has chosen."""
LOST_SECONDS = 2.0
BLIND_SECONDS = 4.0
"""Seconds without a sighting after which a carrier is lost; `BLIND_SECONDS` applies while driving in."""
BEAM_OFF = math.sin(math.radians(5.0))
BEAM_ASIDE = 0.15
BEAM_REACH = 0.05
"""When a distance sensor looks between the legs: sine of the largest angle between its axis and the centre,
largest offset of the robot from the side's normal (as a share of its distance), and margin beyond predock."""
OFF_CENTRE = 0.03
"""Distance from the centre, in metres, beyond which a robot comes out by the nearest side."""
CENTRED = 0.002
"""Metres off the centre line of the exit below which the robot need not go there first."""
PATIENCE = 2.0
"""Seconds to wait for an obstacle to get out of the way."""
LIFT_SECONDS = 5.0
"""Time limit for lifting a carrier, in seconds: full travel takes one."""
APPEAR_SECONDS = 0.7
"""Seconds after which the markermap must be in sight, from where it can be seen."""


class DockingParameters(Part):
    """How carriers are picked up.

    Attributes:
        markers: marker set of the carriers, a name from config/markermaps; it defines predock and dock.
        approach_speed: on the way to predock, in m/s.
        dock_speed: on the way in, in m/s.
        centre_speed: under the carrier, in m/s.
        near: distance from a side at which its direction should be known, in metres.
        close: distance from a side that is tried where there is no room for predock, in metres.
        line: largest offset from the normal of a side when driving in, in metres.
        line_yaw: largest heading error when driving in, in radians.
        sure: largest standard deviation of the carrier's centre when driving in, in metres.
        sure_yaw: largest standard deviation of its direction, in radians.
        centred: largest offset from the carrier's centre when lifting, in metres.
        centred_yaw: largest heading error when lifting, in radians.
        blocked: likelihood of a collision above which a way is blocked.
        time_limit: seconds for the way to the centre.
        give_up: mean time in seconds for which a carrier that could not be picked up is ignored.
    """

    markers: str = CARRIER_MARKERS
    approach_speed: Positive = 0.3
    dock_speed: Positive = 0.2
    centre_speed: Positive = 0.15
    near: Positive = 0.42
    close: Positive = 0.26
    line: Positive = 0.008
    line_yaw: Positive = 0.08
    sure: Positive = 0.006
    sure_yaw: Positive = 0.03
    centred: Positive = 0.004
    centred_yaw: Positive = 0.012
    blocked: Annotated[float, Field(ge=0, le=1)] = 0.05
    time_limit: Positive = 30.0
    give_up: Positive = 10.0


def tray_of(spec: RobotSpec) -> Carrier:
    """Return the specification of the carriers that a kind of robot picks up.

    Raises:
        ConfigError: it lacks a part for that.
    """
    needed = {"cameras": spec.cameras, "lifter": spec.lifter, "carrier": spec.carrier}
    missing = [what for what, part in needed.items() if not part]
    if spec.carrier is None or missing:
        message = (
            f"a {spec.kind} cannot pick up carriers: its file has no {', '.join(missing)}; dots has them"
        )
        raise ConfigError(message)
    return spec.carrier


class Docking:
    """State shared by the nodes of `pick_up`: the target carrier, and the chosen side.

    Attributes:
        target: id of the target carrier.
        why: reason of the latest failure, in a word or two.
        over: whether the current attempt has failed.
    """

    def __init__(self, board: Board, parameters: DockingParameters, accept: Accept) -> None:
        """Start without a target.

        Args:
            board: the robot's.
            parameters: how carriers are picked up.
            accept: returns whether a carrier at a place in odom is to be picked up.

        Raises:
            ConfigError: there are no such markers, or this kind of robot cannot pick up carriers.
        """
        self.board = board
        self.parameters = parameters
        self.docking = CarrierMarkers.load(parameters.markers).docking
        self.half = tray_of(board.spec).length / 2
        self.target: int | None = None
        self.why = ""
        self.over = False
        self._accept = accept
        self._outwards: float | None = None
        self._rests_until = -math.inf

    @property
    def estimate(self) -> CarrierEstimate | None:
        """Return the estimate of the target carrier, None without one."""
        return None if self.target is None else self.board.carriers.get(self.target)

    def wants_overhead(self) -> bool:
        """Return whether the carrier above is to be picked up."""
        above = self.board.overhead
        if above is None or above.pose_odom is None or self.board.time < self._rests_until:
            return False
        return self._accept(self.board, above.pose_odom)

    def wants_side(self) -> bool:
        """Return whether a carrier that is to be picked up is in sight; if so, make it the target."""
        board = self.board
        seen = board.carrier
        if seen is None or board.is_given_up(seen.id) or not self._accept(board, seen.pose_odom):
            return False
        if self.taken(seen):
            self.why = "taken"
            board.give_up(seen.id, self.parameters.give_up)
            return False
        if self.target != seen.id:
            self.target = seen.id
            self._outwards = None
        return True

    def in_sight(self) -> bool:
        """Return whether the target carrier was seen recently enough."""
        known = self.estimate
        if known is None:
            return False
        blind = self.board.distance_to(known.pose_odom) < self.half + self.parameters.close
        return self.board.time - known.stamp < (BLIND_SECONDS if blind else LOST_SECONDS)

    def taken(self, known: CarrierEstimate) -> bool:
        """Return whether something is seen between the legs of a carrier.

        This is only visible from in front of a side, if a distance sensor points at the centre and its cone
        passes between the legs. From elsewhere the legs are in the way, and the map blurs them over the gap.
        """
        board = self.board
        points = board.senses.points_body
        if points is None or known.yaw_sigma > 0.1:
            return False
        out, aside, _ = between(known.side(board.pose), board.pose).tolist()
        near = board.spec.body.bounding_radius < out < self.docking.predock + BEAM_REACH
        if not near or abs(aside) > BEAM_ASIDE * out:
            return False
        x, y, _ = between(board.pose, known.pose_odom).tolist()
        far = math.hypot(x, y)
        for px, py in points.tolist():
            # The sine of the angle between the sensor's axis and the centre.
            reach = math.hypot(px, py)
            if x * px + y * py > 0 and abs(x * py - y * px) < BEAM_OFF * far * reach and reach < far:
                return True
        return False

    def side(self, known: CarrierEstimate) -> FloatArray:
        """Return the pose of the side that the robot approaches, and remember the choice."""
        pose, centre = self.board.pose, known.pose_odom
        bearing = math.atan2(pose[1] - centre[1], pose[0] - centre[0])
        chosen = self._outwards
        far = self.board.distance_to(centre) > self.half
        if chosen is None or (far and abs(wrap(bearing - chosen)) > STICK):
            chosen = bearing
        yaw = float(centre[2])
        self._outwards = yaw + QUARTER * round((chosen - yaw) / QUARTER)
        return known.sides_at(self._outwards)

    def fail(self, why: str) -> Status:
        """Record why this attempt has failed, and return failure."""
        self.why = why
        self.over = True
        return Status.FAILURE

    def begin(self, _: Board) -> None:
        """Start an attempt."""
        self.why = ""

    def leave(self, _: Board) -> None:
        """End an attempt: ignore the carrier for a while, unless it was only lost from sight."""
        board = self.board
        if board.carrying:
            # Lifting failed: put down whatever is on the platform.
            board.carry(False)
            board.lift(False)
        if self.why != "lost":
            # A random time, so that two robots that block each other do not retry at the same moment.
            seconds = self.parameters.give_up * float(board.rng.uniform(0.5, 1.5))
            if self.target is not None:
                board.give_up(self.target, seconds)
            if board.overhead is not None:
                self._rests_until = board.time + seconds
        self.target = None
        self.over = False


class NoticesCarrier(Condition):
    """A carrier that is to be picked up is in sight, from the side or from below."""

    def __init__(self, docking: Docking, name: str = "notices carrier") -> None:
        """Look with all cameras."""
        super().__init__(name, docking.board)
        self._docking = docking

    def holds(self) -> bool:
        """Return whether there is such a carrier."""
        return self._docking.wants_overhead() or self._docking.wants_side()


class BelowCarrier(Condition):
    """The markermap of a carrier that is to be picked up is in sight."""

    def __init__(self, docking: Docking, name: str = "sees markermap") -> None:
        """Look with the upward camera."""
        super().__init__(name, docking.board)
        self._docking = docking

    def holds(self) -> bool:
        """Return whether it is in sight."""
        return self._docking.wants_overhead()


class CarrierInSight(Condition):
    """The target carrier was seen recently, and nothing is seen below it."""

    def __init__(self, docking: Docking, name: str = "sees id") -> None:
        """Look with the perimeter cameras."""
        super().__init__(name, docking.board)
        self._docking = docking

    def holds(self) -> bool:
        """Return whether the target is still valid; if not, record the reason."""
        docking = self._docking
        if docking.over:
            return False
        known = docking.estimate
        if known is None or not docking.in_sight():
            docking.why = "lost"
            return False
        if docking.taken(known):
            docking.fail("taken")
            return False
        return True


class NearPredock(Condition):
    """The robot is on the normal of a side, faces it, and the estimate is accurate enough.

    This holds all the way in.
    """

    def __init__(self, docking: Docking, name: str = "near predock") -> None:
        """Compare position and heading."""
        super().__init__(name, docking.board)
        self._docking = docking

    def holds(self) -> bool:
        """Return whether the robot may drive in."""
        docking, asked = self._docking, self._docking.parameters
        known = docking.estimate
        if known is None or not known.yaw_known:
            return False
        if known.place_sigma > asked.sure or known.yaw_sigma > asked.sure_yaw:
            return False
        out, aside, yaw = between(docking.side(known), self.board.pose)
        return bool(
            out < docking.docking.predock + 2 * asked.line
            and abs(aside) < asked.line
            and abs(wrap(yaw - math.pi)) < asked.line_yaw
        )


class _Step(Leaf):
    """A step on the way below a carrier, with a timer for conditions."""

    def __init__(self, docking: Docking, name: str) -> None:
        """Take the step for `docking`."""
        super().__init__(name, docking.board)
        self._docking = docking
        self._since: float | None = None

    def initialise(self) -> None:
        """Reset the timer."""
        self._since = None

    def _lasts(self, holds: bool, seconds: float) -> bool:
        """Return whether a condition has held for longer than `seconds`."""
        if not holds:
            self._since = None
        elif self._since is None:
            self._since = self.board.time
        return self._since is not None and self.board.time - self._since > seconds


class GoToPredock(_Step):
    """Go in front of the side of the carrier; first closer, if its direction is not known from here."""

    def __init__(self, docking: Docking, name: str = "to predock") -> None:
        """Go."""
        super().__init__(docking, name)

    def update(self) -> Status:
        """Go there, and stand until the estimate is accurate enough."""
        board, docking = self.board, self._docking
        known = docking.estimate
        if known is None:
            return docking.fail("lost")
        asked = docking.parameters
        side = docking.side(known)
        sure = known.yaw_known and known.yaw_sigma < 0.1
        goal = self._before(side) if sure else self._nearer(side)
        blocked = way_likelihood(board, goal, asked.approach_speed) > asked.blocked
        if self._lasts(blocked, PATIENCE):
            return docking.fail("blocked")
        if blocked:
            board.stop()
            return Status.RUNNING
        if board.go_to(goal, asked.approach_speed) is Status.FAILURE:
            return docking.fail("path")
        return Status.RUNNING

    def _before(self, side: FloatArray) -> FloatArray:
        """Return predock, or a place closer to the side if predock is blocked."""
        docking = self._docking
        goal = docking.docking.predock_pose(side)
        x, y, _ = between(self.board.pose, goal)
        if math.hypot(x, y) > 0.02 and self.board.likelihood_at(x, y) > docking.parameters.blocked:
            return compose(side, (docking.parameters.close, 0.0, math.pi))
        return goal

    def _nearer(self, side: FloatArray) -> FloatArray:
        """Return a place near the side, facing it, on the way from here."""
        x, y = self.board.pose[0] - side[0], self.board.pose[1] - side[1]
        return compose((side[0], side[1], math.atan2(y, x)), (self._docking.parameters.near, 0.0, math.pi))


class Dock(_Step):
    """Drive in between the legs to dock, where the upward camera must see the markermap."""

    def __init__(self, docking: Docking, name: str = "to dock") -> None:
        """Drive in."""
        super().__init__(docking, name)

    def update(self) -> Status:
        """Drive in; at dock, wait a moment for the markermap to come into sight."""
        board, docking = self.board, self._docking
        known = docking.estimate
        if known is None:
            return docking.fail("lost")
        status = board.go_to(docking.docking.dock_pose(docking.side(known)), docking.parameters.dock_speed)
        if status is Status.FAILURE:
            return docking.fail("stuck")
        if self._lasts(status is Status.SUCCESS, APPEAR_SECONDS):
            return docking.fail("no markermap")
        return Status.RUNNING


class CentreUnder(_Step):
    """Go to the centre below the carrier, parallel to its sides."""

    def __init__(self, docking: Docking, name: str = "centre under carrier") -> None:
        """Go."""
        super().__init__(docking, name)

    def update(self) -> Status:
        """Go to the centre; succeed when the robot stands there."""
        board, asked = self.board, self._docking.parameters
        above = board.overhead
        if above is None or above.pose_odom is None:
            self._docking.why = "lost"
            return Status.FAILURE
        x, y, yaw = above.pose_odom.tolist()
        mine = float(board.pose[2])
        goal = (x, y, yaw + QUARTER * round((mine - yaw) / QUARTER))
        vx, vy, omega = board.senses.twist_body.tolist()
        still = math.hypot(vx, vy) < 0.02 and abs(omega) < 0.05
        if (
            still
            and board.distance_to(goal) < asked.centred
            and abs(wrap(goal[2] - mine)) < asked.centred_yaw
        ):
            board.stop()
            return Status.SUCCESS
        status = board.go_to(goal, asked.centre_speed)
        # The path may succeed short of the centre, for example if something is in the way.
        held = self._lasts(status is Status.SUCCESS, APPEAR_SECONDS)
        return self._docking.fail("stuck") if held or status is Status.FAILURE else Status.RUNNING


class ComeOut(Leaf):
    """Come out from under a carrier by the best free side; succeed at once if there is no carrier above."""

    def __init__(
        self,
        docking: Docking,
        prefer: Callable[[Board], float],
        *,
        speed: float = 0.25,
        margin: float = 0.1,
        name: str = "come out",
    ) -> None:
        """Come out.

        Args:
            docking: the robot's docking state.
            prefer: returns the preferred direction of the arena if several sides are free.
            speed: in m/s.
            margin: metres between the robot and the side at the end.
            name: of the node.
        """
        super().__init__(name, docking.board)
        self._docking = docking
        self._prefer = prefer
        self._speed, self._margin = speed, margin
        self._since = 0.0
        self._way: list[FloatArray] | None = None

    def initialise(self) -> None:
        """Clear the way; a side is chosen when the markermap is in sight."""
        self._since = self.board.time
        self._way = None

    def update(self) -> Status:
        """Come out."""
        board = self.board
        if self._way is None:
            above = board.overhead
            waited = board.time - self._since
            board.stop()
            if above is None or above.pose_odom is None:
                # The camera has latency, and must be lowered first.
                return Status.RUNNING if waited < APPEAR_SECONDS else Status.SUCCESS
            self._way = self._choose(above.pose_odom, last=waited > 5 * PATIENCE)
            if self._way is None:
                return Status.RUNNING
        status = board.go_along(self._way, self._speed)
        if status is Status.FAILURE:
            self._docking.why = "stuck"
        return status

    def _choose(self, centre: FloatArray, *, last: bool) -> list[FloatArray] | None:
        """Return the way out, None if all sides are blocked and there is time to wait."""
        board, docking = self.board, self._docking
        yaw = float(board.pose[2])
        prefer = self._prefer(board)
        reach = docking.half + board.spec.body.bounding_radius + self._margin
        off = board.distance_to(centre)
        bearing = math.atan2(board.pose[1] - centre[1], board.pose[0] - centre[0])
        ways = []
        for k in range(4):
            out = float(wrap(centre[2] + k * QUARTER))
            if off > OFF_CENTRE and abs(wrap(out - bearing)) > QUARTER / 2:
                # A robot that is off centre leaves by the side it came from.
                continue
            goal = compose((centre[0], centre[1], out), (reach, 0.0, yaw - out))
            x, y, _ = between(board.pose, goal)
            likelihood = board.likelihood_at(x, y, board.spec.body.bounding_radius)
            free = likelihood <= docking.parameters.blocked
            turned = abs(wrap(board.from_odom(out) - prefer))
            ways.append((not free, turned if free else likelihood, k, goal))
        blocked, _, k, goal = min(ways, key=lambda way: way[:3])
        if blocked and not last:
            return None
        # First move to the centre line between the legs: there is no room to come out at an angle.
        out = float(centre[2]) + k * QUARTER
        depth, aside, _ = between((centre[0], centre[1], out), board.pose).tolist()
        line = compose((centre[0], centre[1], out), (max(depth, 0.0), 0.0, yaw - out))
        return [goal] if abs(aside) < CENTRED else [line, goal]


def pick_up(docking: Docking, name: str = "pick up") -> Behaviour:
    """Return the behaviour that gets the robot under a carrier in sight and lifts it.

    It fails if the carrier is lost from sight, taken by another robot, or cannot be reached.
    """
    asked = docking.parameters
    centre = Sequence("centre", memory=False, children=[BelowCarrier(docking), CentreUnder(docking)])
    dock = Sequence(
        "dock", memory=False, children=[CarrierInSight(docking), NearPredock(docking), Dock(docking)]
    )
    predock = Sequence("predock", memory=False, children=[CarrierInSight(docking), GoToPredock(docking)])
    under = Selector("get under", memory=False, children=[centre, dock, predock])
    limited = TimeLimit(docking.board, under, asked.time_limit)
    # A load that is too heavy, or held by other robots, cannot be lifted.
    lift = TimeLimit(docking.board, Lift(docking.board), LIFT_SECONDS)
    begin = Do("begin", docking.board, docking.begin)
    both = Sequence(name, memory=True, children=[begin, limited, lift])
    return OnFailure(docking.board, both, docking.leave, name)
