"""The cooperative controller: robots that tell each other what they find (cf. DOTS paper, IV).

Each robot still acts on its own senses, without a map of the arena and without anyone who plans for all. But
it remembers where carriers are and which ground was looked at, in a frame of its own (`knowledge`), tells it
to the others in 24 bytes ten times a second (`talk`), finds out by radio ranges where the others are
(`neighbours`), and never moves faster than it and whoever comes towards it can brake (`steering`). Where no
message arrives it is a careful searcher that does not look twice where it has been.

The tree is the paper's (Figure 12): find, pick up, deliver, come out; what fails leads back to the beginning.

- *Find*: go for the nearest carrier that is known to stand free and that nobody nearer claims; if there is
  none, to where nobody looked yet and nobody else is going.
- *Pick up*: the toolkit's.
- *Deliver*: straight to the drop zone, and into it where there is room for this carrier and those after it. A
  load that has shifted, so that its own legs look as if they were in the way, is put down and taken anew.
- *Right of way*: who docks, then who carries, then by name. The others keep out of the way.
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
"""Metres by which a robot must be nearer to a carrier to take it from another that goes for it."""
STANDING: Final = 0.03
"""Speeds below this count as none, in m/s."""
COS_AHEAD: Final = math.cos(math.radians(12.0))
QUARTER: Final = math.pi / 2
LEG_AHEAD: Final = math.radians(25.0)
"""A load that is turned further from the way it goes than this has a leg where the robot has to look."""
BLINDFOLD: Final = 0.15
"""Metres a second at which a robot goes then."""
LEG_BLUR: Final = 0.11
"""Metres about a leg within which a distance sensor may believe it to be."""
NEAR: Final = 3.0
"""Metres beyond which nothing known needs to be steered around."""


class CooperativeParameters(Part):
    """What a scenario may set.

    Attributes:
        search_speed: in m/s, where the way is clear.
        approach_speed: to a carrier that is known.
        carry_speed: with a carrier.
        brake: deceleration that robots count with when they approach something, in m/s2.
        delay: seconds until brakes act, senses' and ticks' included.
        margin: metres to keep from everything.
        respect: metres more to keep from whoever has the right of way.
        sight: metres within which a carrier is surely seen.
        again: seconds after which it is worth looking again at the same ground.
        depth: metres into the drop zone where the last row of carriers is put down.
        row: how many carriers make a row: the more are known, the deeper in the first ones are put down.
        least_depth: metres into it where they are put down when there is no more room.
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
        knowledge: what it knows of itself, the others, the carriers and the ground.
        state: what it tells the others it does.
        target: the carrier it claims.
        obstacles: what is near, as `steering` has it.
    """

    Parameters: ClassVar[type[Part]] = CooperativeParameters
    parameters: CooperativeParameters

    def __init__(self, robot: Robot, parameters: CooperativeParameters, rng: np.random.Generator) -> None:
        """Begin with nothing known."""
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
            # The camera that looks up is late, and has to see the carrier for it to be taken anew.
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
        """Return whether the robot stands below no carrier, or below one that is to be picked up."""
        return board.overhead is None or self.docking.wants_overhead()

    def before_tree(self) -> None:
        """Learn from what was sensed."""
        board = self.board
        if not board.carrying and self._loaded:
            self.put_down(board)
        self.knowledge.update(board.senses, board.carriers)
        self._look_around()

    def after_tree(self) -> None:
        """Tell the others."""
        knowledge = self.knowledge
        if self._radio:
            cost = 0.0
            if self.target is not None and self.state in {State.SEARCH, State.APPROACH, State.DOCK}:
                cost = self.cost(knowledge.carriers.get(self.target))
            said = encode(knowledge.message(self.state, self.aim, self.target, cost))
            self.board.say(self._radio, said)

    # What the nodes need to know

    @property
    def radius(self) -> float:
        """Return the radius of the robot and what it carries."""
        return (self.load if self.board.carrying else self.body) + self.parameters.margin

    def cost(self, carrier: Carrier | None) -> float:
        """Return how far the robot is from a carrier."""
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
        """Return whether a carrier that stands there is to be picked up."""
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
        """Return whether somebody else has the better claim to a carrier."""
        knowledge = self.knowledge
        holds = self.target == carrier.id
        docks = holds and self.state is State.DOCK
        # As it is told, so that both come to the same result.
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
        """Return the carrier to go for, None if none is known that is free."""
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
        """The robot has lifted a carrier: find out which, and tell."""
        if self.target is not None:
            self.knowledge.carriers.setdefault(self.target, Carrier(self.target, Status.TAKEN, board.time))
        self.own_up()
        self.state = State.CARRY
        self._learn_legs()

    def own_up(self) -> None:
        """Claim what is on the platform: who started below a carrier has not seen which it is.

        But others see it, and tell. No two carriers have their centres nearer together than one is long.
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
        """The carrier stands in the drop zone."""
        self._part(board, Status.DELIVERED)

    def put_down(self, board: Board) -> None:
        """The carrier stands here, to be taken again."""
        self._part(board, Status.FREE)

    def _part(self, board: Board, status: Status) -> None:
        """Know that the carrier stands where the robot is, and claim it no more."""
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
        """Find out which sensors look at the legs of the load."""
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
                    # Echoes between leg and robot come from up to twice as far.
                    self._blind[i] = 2.0 * distance + 0.1

    def nearest(self) -> float:
        """Return how far from the robot's centre the nearest thing is that its distance sensors see now."""
        sweep = self.board.senses.ranges.get(self._ring)
        if sweep is None:
            return math.inf
        seen = sweep[sweep > self._blind]
        return self._mount + float(seen.min(initial=math.inf))

    # Motion

    def _look_around(self) -> None:
        """Note what the distance sensors and the cameras see."""
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
        """Collect what is near, seen from here, and return how much it is."""
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
                # Not only it, but where it will be.
                size += asked.respect
                for ahead in (0.4, 0.8):
                    rows[count] = (dx + ahead * message.vx, dy + ahead * message.vy, size, 1.0)
                    count += 1
            rows[count] = (dx, dy, size, 1.0)
            count += 1
        self._count = count
        return count

    def steer(self, wish_x: float, wish_y: float, face: float | None = None) -> float:
        """Drive as near to a velocity along the compass's axes as is safe; return the share of it.

        Args:
            wish_x: the velocity.
            wish_y: the velocity.
            face: the heading to turn to meanwhile.
        """
        knowledge, asked = self.knowledge, self.parameters
        count = self.gather()
        for other in knowledge.neighbours.values():
            # Somebody with a load is near, and the legs are thin.
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
        """Return a velocity and a heading such that no leg of the load is where the robot goes.

        The sensors that look at the legs see nothing else. So a side of the load goes first, and until it
        does the robot goes slowly.
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
        """Drive with a velocity along the compass's axes."""
        speed = math.hypot(vx, vy)
        if speed < 1e-3 and face is None:
            self.board.drive((0.0, 0.0, 0.0))
        else:
            self.board.drive_towards(math.atan2(vy, vx), speed, face)

    def towards(self, x: float, y: float, speed: float) -> tuple[float, float]:
        """Return the velocity to a place in the robot's frame, slower near it."""
        dx, dy = x - self.knowledge.x, y - self.knowledge.y
        way = math.hypot(dx, dy)
        if way < 1e-3:
            return 0.0, 0.0
        pace = min(speed, 1.5 * way)
        return pace * dx / way, pace * dy / way

    def threatened(self, vx: float, vy: float) -> bool:
        """Return whether something is so near that going on with a velocity is not safe."""
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
        # Between the legs of a carrier only the sensors straight ahead look at what matters.
        ahead = math.atan2(vy, vx) - knowledge.yaw
        if any(
            speed > max(closing_k(gap - asked.margin, asked.brake, asked.delay), STANDING)
            for gap, angle in zip(sweep.tolist(), self._angles.tolist(), strict=True)
            if gap < 1.0 and math.cos(angle - ahead) > COS_AHEAD
        ):
            return True
        if any(knowledge.time - other.stamp < SILENT for other in knowledge.neighbours.values()):
            return False
        # Nobody tells where he is: whatever is near and no leg of the carrier may be somebody.
        count = recall_k(self._memory, knowledge.x, knowledge.y, knowledge.time, 0.15, self.obstacles)
        self._gathered = -math.inf
        return bool(
            endangered_k(vx, vy, self.body, asked.brake, asked.delay, self.obstacles, count, self._legs())
        )

    def _legs(self) -> FloatArray:
        """Return discs about the legs of the carrier that the robot goes for, seen from here."""
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
        """Return the robots whose places are known and still count.

        A robot that is silent may be dead. Its body can be seen, but not what it holds up: that counts on.
        """
        knowledge = self.knowledge
        for other in knowledge.neighbours.values():
            if other.located and (other.carrying or knowledge.time - other.stamp < SILENT):
                yield other


class SharedDocking(Docking):
    """Docking that asks the others, and not the distance sensors, whether a carrier is taken.

    From a distance the legs look as if they were between the legs: a sensor's view is 22 degrees wide.
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
"""By state, which is a number: the lower comes first."""
