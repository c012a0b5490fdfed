"""Picking carriers up and coming out from under them (DOTS paper, IV-B1b, IV-B2, Figure 13).

`pick_up` is the paper's behaviour, in its order of priority: centre under the markermap if it is seen, else
drive in to `dock` if the robot stands right before a side, else go to `predock` if a side is seen. What the
paper leaves open is decided here:

- A robot that drives in sees neither the side (its camera is too close) nor the markermap (it is not yet
  below it) for about 0.2 m. It goes on by odometry; the carrier is lost only if the markermap does not
  appear at the end.
- There is a centimetre to spare on either side between the legs. So the sights are fused
  (`CarrierEstimate`), and the robot drives in only when place and direction are sure enough.
- Far sides may tell no direction: then the robot first goes nearer, where they do.
- A carrier with something between its legs is taken: another robot is below it. Where two got under it at
  once, neither reaches the centre: both give up for a while, of random length, and come out.
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
"""A robot keeps to the side it has chosen until it is this far round the carrier from it."""
LOST_SECONDS = 2.0
BLIND_SECONDS = 4.0
"""A carrier is lost when no side was seen for so long; the second while driving in."""
BEAM_OFF = math.sin(math.radians(5.0))
BEAM_ASIDE = 0.15
BEAM_REACH = 0.05
"""A distance sensor looks between the legs if the centre is this near to its axis, and the robot this near to
the side's normal (as a share of its distance) and to predock."""
OFF_CENTRE = 0.03
"""A robot that is further off the centre than this, in metres, comes out by the nearest side."""
CENTRED = 0.002
"""Metres off the line out below which it need not go there first."""
PATIENCE = 2.0
"""Seconds to wait for somebody to get out of the way."""
LIFT_SECONDS = 5.0
"""Seconds within which a carrier must have come up: full travel takes one."""
APPEAR_SECONDS = 0.7
"""Seconds after which the markermap must have been seen, from where it can be."""


class DockingParameters(Part):
    """How carriers are picked up.

    Attributes:
        markers: what carriers look like, a name from config/markermaps: it holds predock and dock.
        approach_speed: on the way to predock, in m/s.
        dock_speed: on the way in.
        centre_speed: under the carrier.
        near: distance from a side at which its direction should be known, in metres.
        close: distance from a side that is tried where there is no room for predock.
        line: how far off the normal of a side a robot may be that drives in, in metres.
        line_yaw: how far off its direction, in radians.
        sure: how sure the carrier's centre must be by then, one sigma in metres.
        sure_yaw: and its direction, in radians.
        centred: how far off the carrier's centre it is lifted, in metres.
        centred_yaw: how askew, in radians.
        blocked: likelihood of a collision above which a way is not free.
        time_limit: seconds for the way to the centre.
        give_up: seconds, about, for which a carrier is left alone that could not be picked up.
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
    """Return the carriers that a kind of robot picks up.

    Raises:
        ConfigError: it cannot.
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
    """What the nodes of `pick_up` share: the carrier the robot is after, and which side of it.

    Attributes:
        target: the id of the carrier the robot is after.
        why: what went wrong last, in a word or two.
        over: whether this attempt cannot succeed any more.
    """

    def __init__(self, board: Board, parameters: DockingParameters, accept: Accept) -> None:
        """Prepare.

        Args:
            board: the robot's.
            parameters: how carriers are picked up.
            accept: whether a carrier that stands at a place in odom is to be picked up.

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
        """Return where the carrier is that the robot is after."""
        return None if self.target is None else self.board.carriers.get(self.target)

    def wants_overhead(self) -> bool:
        """Return whether the carrier above is to be picked up."""
        above = self.board.overhead
        if above is None or above.pose_odom is None or self.board.time < self._rests_until:
            return False
        return self._accept(self.board, above.pose_odom)

    def wants_side(self) -> bool:
        """Return whether a carrier is in sight that is to be picked up; if so, the robot is after it now."""
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
        """Return whether the robot knows where its carrier is."""
        known = self.estimate
        if known is None:
            return False
        blind = self.board.distance_to(known.pose_odom) < self.half + self.parameters.close
        return self.board.time - known.stamp < (BLIND_SECONDS if blind else LOST_SECONDS)

    def taken(self, known: CarrierEstimate) -> bool:
        """Return whether something is between the legs of a carrier, as far as the robot can tell.

        It can from before a side, if a distance sensor looks at the centre: the cone of that one passes
        between the legs. From elsewhere the legs are in the way, and the map smears them over the gap.
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
        """Return the side of the carrier that the robot goes for."""
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
        """Remember why this attempt has failed."""
        self.why = why
        self.over = True
        return Status.FAILURE

    def begin(self, _: Board) -> None:
        """Start an attempt, of which nothing has gone wrong yet."""
        self.why = ""

    def leave(self, _: Board) -> None:
        """Take no interest in the carrier for a while, unless it was only lost from sight."""
        board = self.board
        if board.carrying:
            # It could not be lifted: whatever is on the platform stands on its legs again.
            board.carry(False)
            board.lift(False)
        if self.why != "lost":
            # At random, or two robots that are in each other's way would be so again.
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
        """Return whether there is one."""
        return self._docking.wants_overhead() or self._docking.wants_side()


class BelowCarrier(Condition):
    """The markermap of a carrier that is to be picked up is in sight."""

    def __init__(self, docking: Docking, name: str = "sees markermap") -> None:
        """Look with the upward camera."""
        super().__init__(name, docking.board)
        self._docking = docking

    def holds(self) -> bool:
        """Return whether it is."""
        return self._docking.wants_overhead()


class CarrierInSight(Condition):
    """The robot knows where its carrier is, and that nothing else is below it."""

    def __init__(self, docking: Docking, name: str = "sees id") -> None:
        """Look with the perimeter cameras."""
        super().__init__(name, docking.board)
        self._docking = docking

    def holds(self) -> bool:
        """Return whether it does."""
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
    """The robot stands on the normal of a side, looks along it, and knows well enough where it is.

    It holds all the way in.
    """

    def __init__(self, docking: Docking, name: str = "near predock") -> None:
        """Compare place and direction."""
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
    """A step on the way below a carrier, that notices when it has lasted too long."""

    def __init__(self, docking: Docking, name: str) -> None:
        """Take the step for `docking`."""
        super().__init__(name, docking.board)
        self._docking = docking
        self._since: float | None = None

    def initialise(self) -> None:
        """Begin anew."""
        self._since = None

    def _lasts(self, holds: bool, seconds: float) -> bool:
        """Return whether something holds for longer than so many seconds."""
        if not holds:
            self._since = None
        elif self._since is None:
            self._since = self.board.time
        return self._since is not None and self.board.time - self._since > seconds


class GoToPredock(_Step):
    """Go before the side of the carrier, at first nearer if its direction is not known from here."""

    def __init__(self, docking: Docking, name: str = "to predock") -> None:
        """Go."""
        super().__init__(docking, name)

    def update(self) -> Status:
        """Go on; stand there until the robot knows well enough where it is."""
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
        """Return predock, or a place closer to the side where something is in the way."""
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
        """Drive on; where dock is reached, wait a moment for the sight of the markermap."""
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
        """Go on; succeed when the robot stands there."""
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
        # A path is over near its end already, and something may be in the way.
        held = self._lasts(status is Status.SUCCESS, APPEAR_SECONDS)
        return self._docking.fail("stuck") if held or status is Status.FAILURE else Status.RUNNING


class ComeOut(Leaf):
    """Come out from under a carrier, where a side is free and lies best; done where there is none."""

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
            docking: for what the robot knows of carriers.
            prefer: returns the direction of the arena to come out in, where sides are free alike.
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
        """Choose a side when the markermap is seen."""
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
                # The camera is late, and must be down first.
                return Status.RUNNING if waited < APPEAR_SECONDS else Status.SUCCESS
            self._way = self._choose(above.pose_odom, last=waited > 5 * PATIENCE)
            if self._way is None:
                return Status.RUNNING
        status = board.go_along(self._way, self._speed)
        if status is Status.FAILURE:
            self._docking.why = "stuck"
        return status

    def _choose(self, centre: FloatArray, *, last: bool) -> list[FloatArray] | None:
        """Return the way out, None if something is in all ways and there is time to wait."""
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
                # What is half way out, or could not get in, goes back to where it came from.
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
        # Between the legs first: there is no room to come out askew.
        out = float(centre[2]) + k * QUARTER
        depth, aside, _ = between((centre[0], centre[1], out), board.pose).tolist()
        line = compose((centre[0], centre[1], out), (max(depth, 0.0), 0.0, yaw - out))
        return [goal] if abs(aside) < CENTRED else [line, goal]


def pick_up(docking: Docking, name: str = "pick up") -> Behaviour:
    """Return the behaviour that gets the robot under a carrier in sight and lifts it.

    It fails when the carrier is lost from sight, taken by another, or cannot be reached.
    """
    asked = docking.parameters
    centre = Sequence("centre", memory=False, children=[BelowCarrier(docking), CentreUnder(docking)])
    dock = Sequence(
        "dock", memory=False, children=[CarrierInSight(docking), NearPredock(docking), Dock(docking)]
    )
    predock = Sequence("predock", memory=False, children=[CarrierInSight(docking), GoToPredock(docking)])
    under = Selector("get under", memory=False, children=[centre, dock, predock])
    limited = TimeLimit(docking.board, under, asked.time_limit)
    # A load that is too heavy, or held by others, never comes up.
    lift = TimeLimit(docking.board, Lift(docking.board), LIFT_SECONDS)
    begin = Do("begin", docking.board, docking.begin)
    both = Sequence(name, memory=True, children=[begin, limited, lift])
    return OnFailure(docking.board, both, docking.leave, name)
