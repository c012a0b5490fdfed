"""The cooperative controller: robots that share what they find (cf. DOTS paper, IV).

Each robot still acts on its own senses, without a map of the arena and without central planning. But it
remembers where carriers are and which areas were searched, in a frame of its own (`knowledge`). It shares
this with the others in 24 bytes ten times a second (`talk`), localises them by radio ranging
(`neighbours`), and never moves faster than it and an oncoming robot can brake (`steering`). Without any
messages it still searches carefully and does not search the same area twice.

The tree is the paper's (Figure 12): find, pick up, deliver, come out; a failure leads back to the start.

- *Find*: go for the nearest carrier that is known to be free and that no closer robot claims. If there is
  none, go where no robot has searched yet and no other is going.
- *Pick up*: the toolkit's.
- *Deliver*: straight to the drop zone, and into it where there is room for this carrier and the next ones. A
  load that has shifted, so that its own legs look like obstacles, is put down and picked up again.
- *Right of way*: robots that dock come first, then those that carry, then by name. The others keep clear.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import numpy as np
from py_trees.composites import Selector, Sequence
from py_trees.decorators import SuccessIsFailure
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.device import Zone
from swarmbed_core.geometry import wrap
from swarmbed_core.spec import NotNegative, Positive

from swarmbed_behaviours.errands import Deliver, Find, Guarded
from swarmbed_behaviours.knowledge import EDGE_INSIDE, SILENT, Carrier, Knowledge, Neighbour
from swarmbed_behaviours.steering import (
    ANSWER,
    OBSTACLE,
    closing_k,
    endangered_k,
    notice_k,
    recall_k,
    steer_k,
)
from swarmbed_behaviours.talk import State, Status, encode
from swarmbed_behaviours.toolkit import (
    Check,
    ComeOut,
    Do,
    Docking,
    DockingParameters,
    Lower,
    TreeController,
    Wait,
    pick_up,
    tray_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py_trees.behaviour import Behaviour
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot

    from swarmbed_behaviours.toolkit import Board, CarrierEstimate

TO_SEARCH_ZONE: Final = math.pi
SWEEPS_KEPT: Final = 5
TAKE_OVER: Final = 0.5
"""Metres by which a robot must be nearer to a carrier to take it over from another that approaches it."""
STANDING: Final = 0.03
"""Speeds below this count as standing, in m/s."""
COS_AHEAD: Final = math.cos(math.radians(12.0))
QUARTER: Final = math.pi / 2
LEG_AHEAD: Final = math.radians(25.0)
"""Angle between load and direction of travel from which a leg blocks the sensors that look ahead."""
BLINDFOLD: Final = 0.15
"""Speed limit in m/s while a leg blocks the view ahead."""
LEG_BLUR: Final = 0.11
"""Radius in metres around a leg within which returns of distance sensors may be from that leg."""
NEAR: Final = 3.0
"""Metres beyond which known obstacles are ignored in steering."""


class CooperativeParameters(Part):
    """What a scenario may set.

    Attributes:
        search_speed: in m/s, where the way is clear.
        approach_speed: in m/s, to a known carrier.
        carry_speed: in m/s, with a carrier.
        brake: deceleration assumed when approaching an obstacle, in m/s².
        delay: seconds until brakes act, including sensing and ticks.
        margin: metres to keep from everything.
        respect: additional metres to keep from robots with the right of way.
        sight: metres within which a carrier is certainly detected.
        again: seconds after which an area is worth searching again.
        depth: metres into the drop zone where the last row of carriers is put down.
        row: carriers in a row; the more carriers are known, the deeper the first ones are put down.
        least_depth: metres into the drop zone where carriers are put down when there is no more room.
        apart: metres between the centres of carriers put down side by side.
        least_apart: the same where there is no more room.
        stuck: seconds without progress after which a robot tries something else.
        docking: how carriers are picked up.
    """

    search_speed: Positive = 0.8
    approach_speed: Positive = 0.6
    carry_speed: Positive = 0.5
    brake: Positive = 1.5
    delay: Positive = 0.25
    margin: NotNegative = 0.03
    respect: NotNegative = 0.12
    sight: Positive = 0.7
    again: Positive = 25.0
    depth: Annotated[float, Field(ge=0.2, le=5.0)] = 0.6
    row: Annotated[int, Field(ge=1)] = 8
    least_depth: Annotated[float, Field(ge=0.17, le=5.0)] = 0.22
    apart: Positive = 0.55
    least_apart: Positive = 0.48
    stuck: Positive = 4.0
    docking: DockingParameters = DockingParameters(approach_speed=0.4)


class Cooperative(TreeController):
    """One robot of a cooperating swarm.

    Attributes:
        knowledge: what it knows of itself, the others, the carriers and the searched ground.
        state: the state that it reports to the others.
        target: id of the carrier it claims.
        obstacles: obstacles nearby, in the format of `steering`.
    """

    Parameters: ClassVar[type[Part]] = CooperativeParameters
    parameters: CooperativeParameters

    def __init__(self, robot: Robot, parameters: CooperativeParameters, rng: np.random.Generator) -> None:
        """Start without knowledge."""
        spec = robot.spec
        ring = spec.ranges[0] if spec.ranges else None
        self._angles = np.array(ring.angles if ring else ())
        self._mount = ring.mount_radius if ring else 0.0
        self._ring = ring.name if ring else ""
        self._blind = np.zeros(len(self._angles))
        self._load_yaw = 0.0
        self._loaded = False
        self._memory = np.full((max(SWEEPS_KEPT * len(self._angles), 1), 3), -1e9)
        self._head = 0
        self.obstacles = np.zeros((256, OBSTACLE))
        self._answer = np.zeros(ANSWER)
        self._count = 0
        self._gathered = -math.inf
        self._last = (0.0, 0.0)
        self._radio = next((radio.name for radio in spec.radios if radio.kind == "ble"), "")
        body = spec.body.bounding_radius
        self.body = body
        self.tray = tray_of(spec)
        self.load = math.hypot(self.tray.length, self.tray.width) / 2
        self.knowledge = Knowledge(robot.name, self._angles, self._mount)
        self.state = State.IDLE
        self.target: int | None = None
        self.aim = (0.0, 0.0)
        super().__init__(robot, parameters, rng)

    def make_tree(self) -> Behaviour:
        """Return the tree: find, pick up, deliver, come out."""
        board = self.board
        self.docking = SharedDocking(self)
        out = ComeOut(self.docking, lambda _: TO_SEARCH_ZONE)
        again = ComeOut(self.docking, lambda _: TO_SEARCH_ZONE)
        clear = Check("nothing above that stays", board, self._clear)
        bring = Sequence(
            "bring",
            memory=True,
            children=[
                Do("carries", board, self.taken),
                Deliver(self),
                Lower(board),
                Do("delivered", board, self.delivered),
            ],
        )
        let_go = Sequence(
            "let go",
            memory=True,
            # The upward camera has latency, and must see the carrier before it can be picked up again.
            children=[Lower(board), Do("put down", board, self.put_down), Wait(board, 0.5)],
        )
        return Sequence(
            "cooperative",
            memory=True,
            children=[
                Selector("get clear", memory=True, children=[clear, Guarded(self, again, State.LEAVE)]),
                Find(self),
                Guarded(self, pick_up(self.docking), State.DOCK),
                Selector("deliver", memory=True, children=[bring, SuccessIsFailure("take anew", let_go)]),
                Guarded(self, out, State.LEAVE, "come out"),
            ],
        )

    def _clear(self, board: Board) -> bool:
        """Return whether there is no carrier above the robot, or one that is to be picked up."""
        return board.overhead is None or self.docking.wants_overhead()

    def before_tree(self) -> None:
        """Update knowledge and obstacles from the senses."""
        board = self.board
        if not board.carrying and self._loaded:
            self.put_down(board)
        self.knowledge.update(board.senses, board.carriers)
        self._look_around()

    def after_tree(self) -> None:
        """Send this robot's message."""
        knowledge = self.knowledge
        if self._radio:
            cost = 0.0
            if self.target is not None and self.state in {State.SEARCH, State.APPROACH, State.DOCK}:
                cost = self.cost(knowledge.carriers.get(self.target))
            said = encode(knowledge.message(self.state, self.aim, self.target, cost))
            self.board.say(self._radio, said)

    # Queries of the tree's nodes

    @property
    def radius(self) -> float:
        """Return the radius, in metres, of the robot with its load, including the margin."""
        return (self.load if self.board.carrying else self.body) + self.parameters.margin

    def cost(self, carrier: Carrier | None) -> float:
        """Return the distance to a carrier in metres; 0 if its place is unknown."""
        if carrier is None or not carrier.placed:
            return 0.0
        return math.hypot(carrier.x - self.knowledge.x, carrier.y - self.knowledge.y)

    def rank(self, other: Neighbour) -> bool:
        """Return whether another robot has the right of way."""
        message = other.message
        if message is None:
            return False
        mine = _RANK[self.state], self.knowledge.name
        return (_RANK[message.state], other.name) < mine

    def wanted(self, board: Board, place_odom: FloatArray) -> bool:
        """Return whether a carrier at this place is to be picked up."""
        del board
        knowledge = self.knowledge
        x, y = knowledge.from_odom(float(place_odom[0]), float(place_odom[1]))
        if knowledge.edge_known:
            if x > EDGE_INSIDE:
                return False
        elif knowledge.zone is not Zone.SEARCH:
            return False
        nearest = min(
            (carrier for carrier in knowledge.carriers.values() if carrier.placed),
            key=lambda carrier: math.hypot(carrier.x - x, carrier.y - y),
            default=None,
        )
        if nearest is None or math.hypot(nearest.x - x, nearest.y - y) > 0.2:
            return True
        return nearest.status in {Status.FREE, Status.GONE} or nearest.holder == knowledge.name

    def loses(self, carrier: Carrier) -> bool:
        """Return whether another robot has a better claim to a carrier."""
        knowledge = self.knowledge
        holds = self.target == carrier.id
        docks = holds and self.state is State.DOCK
        # Rounded as in messages, so that both robots come to the same result.
        mine = round(self.cost(carrier) + (0.0 if holds else TAKE_OVER), 1)
        for other in knowledge.rivals(carrier.id):
            message = other.message
            if message is None:
                continue
            if message.loaded:
                return True
            if docks and message.state is not State.DOCK:
                continue
            if message.state is State.DOCK and not docks:
                return True
            if (round(message.cost, 1), other.name) < (mine, knowledge.name):
                return True
        return False

    def choose(self) -> Carrier | None:
        """Return the carrier to go for, None if no free one is known."""
        board = self.board
        best, least = None, math.inf
        for carrier in self.knowledge.carriers.values():
            if carrier.status is not Status.FREE or not carrier.placed or board.is_given_up(carrier.id):
                continue
            cost = self.cost(carrier) - (0.3 if carrier.id == self.target else 0.0)
            if cost < least and not self.loses(carrier):
                best, least = carrier, cost
        return best

    def taken(self, board: Board) -> None:
        """Handle a lifted carrier: identify it, and claim it."""
        if self.target is not None:
            self.knowledge.carriers.setdefault(self.target, Carrier(self.target, Status.TAKEN, board.time))
        self.own_up()
        self.state = State.CARRY
        self._learn_legs()

    def own_up(self) -> None:
        """Claim the carrier on the platform, even if the robot started below it and has not seen its id.

        Other robots see the id and report it. The centres of two carriers are never closer than one length.
        """
        knowledge = self.knowledge
        if self.target is None:
            near = [
                carrier
                for carrier in knowledge.carriers.values()
                if carrier.placed
                and (carrier.status is Status.FREE or (carrier.status is Status.TAKEN and not carrier.holder))
                and self.cost(carrier) < self.tray.length
            ]
            self.target = min(near, key=self.cost).id if near else None
        carrier = None if self.target is None else knowledge.carriers.get(self.target)
        if carrier is not None:
            carrier.status, carrier.holder = Status.TAKEN, knowledge.name
            self._loaded = True

    def delivered(self, board: Board) -> None:
        """Record that the carrier stands in the drop zone."""
        self._part(board, Status.DELIVERED)

    def put_down(self, board: Board) -> None:
        """Record that the carrier stands here, to be picked up again."""
        self._part(board, Status.FREE)

    def _part(self, board: Board, status: Status) -> None:
        """Record that the carrier stands where the robot is, and drop the claim."""
        knowledge = self.knowledge
        carrier = None if self.target is None else knowledge.carriers.get(self.target)
        if carrier is not None:
            carrier.status, carrier.holder = status, ""
            carrier.x, carrier.y, carrier.stamp = knowledge.x, knowledge.y, board.time
            carrier.seen = board.time
        self.target = None
        self._loaded = False
        self._blind[:] = 0.0

    def _learn_legs(self) -> None:
        """Determine which sensors look at the legs of the load."""
        above, carrier = self.board.overhead, self.tray
        self._blind[:] = 0.0
        x = y = yaw = 0.0
        if above is not None:
            x, y, yaw = above.pose_body.tolist()
        self._load_yaw = yaw
        far = math.hypot(carrier.length, carrier.width) / 2 - carrier.leg_radius
        half = self.board.spec.ranges[0].field_of_view / 2
        for k in range(4):
            angle = yaw + math.pi / 4 + k * math.pi / 2
            leg_x, leg_y = x + far * math.cos(angle), y + far * math.sin(angle)
            for i, sensor in enumerate(self._angles.tolist()):
                to_x = leg_x - self._mount * math.cos(sensor)
                to_y = leg_y - self._mount * math.sin(sensor)
                distance = math.hypot(to_x, to_y)
                off = abs(float(wrap(math.atan2(to_y, to_x) - sensor)))
                if off < half + math.asin(min(2.0 * carrier.leg_radius / distance, 1.0)):
                    # Multipath between leg and robot can double the measured distance.
                    self._blind[i] = 2.0 * distance + 0.1

    def nearest(self) -> float:
        """Return the distance from the robot's centre to the nearest return, ignoring those of the load."""
        sweep = self.board.senses.ranges.get(self._ring)
        if sweep is None:
            return math.inf
        seen = sweep[sweep > self._blind]
        return self._mount + float(seen.min(initial=math.inf))

    # Motion

    def _look_around(self) -> None:
        """Record the returns of the distance sensors, and the ground that was searched."""
        knowledge, senses = self.knowledge, self.board.senses
        now = knowledge.time
        sweep = senses.ranges.get(self._ring)
        if sweep is not None:
            self._head = notice_k(
                sweep, self._angles, self._blind, self._mount, knowledge.x, knowledge.y, knowledge.yaw, now,
                self._memory, self._head,
            )  # fmt: skip
            if not self.board.carrying:
                knowledge.ground.clear(
                    knowledge.x, knowledge.y, knowledge.yaw, sweep, self._angles, self._mount, 2.5
                )
        asked = self.parameters
        if not self.board.carrying:
            knowledge.ground.see(knowledge.x, knowledge.y, asked.sight, now)
        for other in knowledge.neighbours.values():
            if other.located and not other.carrying and now - other.stamp < 1.0:
                knowledge.ground.see(other.x, other.y, 0.8 * asked.sight, now)

    def gather(self) -> int:
        """Collect nearby obstacles in coordinates relative to the robot, and return their number."""
        knowledge = self.knowledge
        if self._gathered == knowledge.time:
            return self._count
        self._gathered = knowledge.time
        rows = self.obstacles
        x, y, now = knowledge.x, knowledge.y, knowledge.time
        count = recall_k(self._memory, x, y, now, 0.35, rows)
        asked = self.parameters
        for carrier in knowledge.carriers.values():
            if carrier.id == self.target or not carrier.placed or carrier.status is Status.GONE:
                continue
            if carrier.status is Status.TAKEN and now - carrier.stamp > 0.5 and carrier.holder == "":
                continue
            dx, dy = carrier.x - x, carrier.y - y
            if abs(dx) + abs(dy) < NEAR and count < len(rows):
                rows[count] = (dx, dy, self.load, 1.0)
                count += 1
        for other in self.others():
            message = other.message
            if message is None:
                continue
            dx, dy = other.x - x, other.y - y
            if abs(dx) + abs(dy) > NEAR or count + 3 > len(rows):
                continue
            size = self.load if other.carrying else self.body
            first = self.rank(other) and now - other.stamp < 1.0
            if first:
                # Avoid its predicted positions too.
                size += asked.respect
                for ahead in (0.4, 0.8):
                    rows[count] = (dx + ahead * message.vx, dy + ahead * message.vy, size, 1.0)
                    count += 1
            rows[count] = (dx, dy, size, 1.0)
            count += 1
        self._count = count
        return count

    def steer(self, wish_x: float, wish_y: float, face: float | None = None) -> float:
        """Drive at the safe velocity closest to the wanted one; return the achieved share of its speed.

        Args:
            wish_x: wanted velocity along the compass's axes.
            wish_y: likewise.
            face: the heading to turn to meanwhile.
        """
        knowledge, asked = self.knowledge, self.parameters
        count = self.gather()
        for other in knowledge.neighbours.values():
            # A loaded robot without a known place is near, and its thin legs are hard to detect: slow down.
            if not other.located and other.carrying and knowledge.time - other.ranged < 0.5:
                cap = max(closing_k(other.distance - self.radius - self.load, asked.brake, asked.delay), 0.05)
                speed = math.hypot(wish_x, wish_y)
                if speed > cap:
                    wish_x, wish_y = wish_x * cap / speed, wish_y * cap / speed
        steer_k(
            wish_x, wish_y, self._last[0], self._last[1], self.radius, asked.brake, asked.delay, 1.0,
            self.obstacles, count, self._answer,
        )  # fmt: skip
        vx, vy, _, share = self._answer.tolist()
        if self.board.carrying and face is None:
            vx, vy, face = self._look_past_the_legs(vx, vy)
        self._last = (vx, vy)
        self.go(vx, vy, face)
        return float(share)

    def _look_past_the_legs(self, vx: float, vy: float) -> tuple[float, float, float | None]:
        """Return a velocity and a heading that turn the load's legs away from the direction of travel.

        The sensors that look at the legs see nothing else. So the robot moves with a side of the load ahead,
        and moves slowly until it has turned that far.
        """
        speed = math.hypot(vx, vy)
        if speed < STANDING:
            return vx, vy, None
        turn = float(wrap(math.atan2(vy, vx) - self.knowledge.yaw - self._load_yaw))
        turn -= QUARTER * round(turn / QUARTER)
        if abs(turn) > LEG_AHEAD:
            scale = min(1.0, BLINDFOLD / speed)
            vx, vy = scale * vx, scale * vy
        return vx, vy, self.board.heading + turn

    def go(self, vx: float, vy: float, face: float | None = None) -> None:
        """Drive at a velocity given along the compass's axes."""
        speed = math.hypot(vx, vy)
        if speed < 1e-3 and face is None:
            self.board.drive((0.0, 0.0, 0.0))
        else:
            self.board.drive_towards(math.atan2(vy, vx), speed, face)

    def towards(self, x: float, y: float, speed: float) -> tuple[float, float]:
        """Return the velocity towards a place in the robot's frame, slower close to it."""
        dx, dy = x - self.knowledge.x, y - self.knowledge.y
        way = math.hypot(dx, dy)
        if way < 1e-3:
            return 0.0, 0.0
        pace = min(speed, 1.5 * way)
        return pace * dx / way, pace * dy / way

    def threatened(self, vx: float, vy: float) -> bool:
        """Return whether an obstacle is so close that continuing at a velocity is not safe."""
        knowledge, asked = self.knowledge, self.parameters
        speed = math.hypot(vx, vy)
        if speed < STANDING:
            return False
        for other in self.others():
            size = self.load if other.carrying else self.body
            dx, dy = other.x - knowledge.x, other.y - knowledge.y
            distance = max(math.hypot(dx, dy), 1e-6)
            gap = distance - self.body - size
            closing = (vx * dx + vy * dy) / distance
            if gap < NEAR and closing > max(closing_k(gap, asked.brake, asked.delay), STANDING):
                return True
        sweep = self.board.senses.ranges.get(self._ring)
        if sweep is None:
            return False
        # Between the legs of a carrier only the sensors straight ahead are relevant.
        ahead = math.atan2(vy, vx) - knowledge.yaw
        if any(
            speed > max(closing_k(gap - asked.margin, asked.brake, asked.delay), STANDING)
            for gap, angle in zip(sweep.tolist(), self._angles.tolist(), strict=True)
            if gap < 1.0 and math.cos(angle - ahead) > COS_AHEAD
        ):
            return True
        if any(knowledge.time - other.stamp < SILENT for other in knowledge.neighbours.values()):
            return False
        # No messages are received: any near return that is not a leg of the carrier may be a robot.
        count = recall_k(self._memory, knowledge.x, knowledge.y, knowledge.time, 0.15, self.obstacles)
        self._gathered = -math.inf
        return bool(
            endangered_k(vx, vy, self.body, asked.brake, asked.delay, self.obstacles, count, self._legs())
        )

    def _legs(self) -> FloatArray:
        """Return discs around the legs of the target carrier, relative to the robot."""
        known, tray = self.docking.estimate, self.tray
        if known is None:
            return np.empty((0, 3))
        x, y, yaw = known.pose_odom.tolist()
        x, y = self.knowledge.from_odom(x, y)
        x, y, yaw = x - self.knowledge.x, y - self.knowledge.y, yaw + (self.knowledge.turn or 0.0)
        far = math.hypot(tray.length, tray.width) / 2 - tray.leg_radius
        angles = [yaw + math.pi / 4 + k * math.pi / 2 for k in range(4)]
        return np.array([(x + far * math.cos(a), y + far * math.sin(a), LEG_BLUR) for a in angles])

    def others(self) -> Iterator[Neighbour]:
        """Return the robots whose places are known and still valid.

        A silent robot may be dead. The sensors can see its body but not a carrier that it holds up, so a
        silent robot with a carrier stays valid.
        """
        knowledge = self.knowledge
        for other in knowledge.neighbours.values():
            if other.located and (other.carrying or knowledge.time - other.stamp < SILENT):
                yield other


class SharedDocking(Docking):
    """Docking that uses the other robots' messages, and not the distance sensors, to see a carrier is taken.

    A sensor's view is 22 degrees wide, so from a distance a leg's return looks as if it came from between the
    legs.
    """

    def __init__(self, robot: Cooperative) -> None:
        """Dock with `robot`."""
        super().__init__(robot.board, robot.parameters.docking, robot.wanted)
        self._robot = robot

    def taken(self, known: CarrierEstimate) -> bool:
        """Return whether another robot is below a carrier."""
        knowledge = self._robot.knowledge
        x, y = knowledge.from_odom(float(known.pose_odom[0]), float(known.pose_odom[1]))
        return any(math.hypot(other.x - x, other.y - y) < self._robot.load for other in self._robot.others())


_ORDER: Final = (
    State.DOCK, State.LEAVE, State.DEPOSIT, State.CARRY, State.APPROACH, State.SEARCH, State.IDLE,
)  # fmt: skip
_RANK: Final = tuple(_ORDER.index(state) for state in State)
"""Priority of each state, indexed by its number: lower values have the right of way."""
