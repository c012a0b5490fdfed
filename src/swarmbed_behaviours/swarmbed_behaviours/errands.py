"""Tree nodes of the cooperative controller: find, deliver, and stop for robots in the way.

All its other nodes are the toolkit's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from py_trees.common import Status as Result
from py_trees.decorators import Decorator
from swarmbed_core.device import Zone

from swarmbed_behaviours.talk import State, Status
from swarmbed_behaviours.toolkit import Leaf

if TYPE_CHECKING:
    from py_trees.behaviour import Behaviour

    from swarmbed_behaviours.cooperative import Cooperative
    from swarmbed_behaviours.knowledge import Carrier

BAN_SECONDS: Final = 15.0
"""Seconds for which a place in the drop zone that could not be reached is not tried again."""
WISH: Final = 0.2
"""Speed in m/s for which a waiting robot checks whether it could continue."""
KEEP: Final = 0.6
"""Metres by which another place in the drop zone must be better to be chosen instead."""
WALL_SLACK: Final = 0.08
"""Metres by which a wall may be nearer to the chosen place than first measured."""
PATIENCE: Final = 10.0
"""Seconds in front of the drop zone after which a robot accepts less room."""
SHIFTED: Final = 0.02
"""A return this many metres within the circle of the load is from the load itself, which has shifted."""
HELD: Final = 15
"""Ticks for which the way may be blocked before a robot gives up a carrier."""
FRESH_GOAL: Final = 0.4
"""Metres by which a goal must move to count as a new one."""


class Guarded(Decorator):
    """Run the child, but stand while another robot is in the way."""

    def __init__(self, robot: Cooperative, child: Behaviour, state: State, name: str = "pick up") -> None:
        """Guard `child`, and report `state` meanwhile."""
        super().__init__(name, child)
        self._robot = robot
        self._state = state
        self._held = 0
        self._wish: tuple[float, float] | None = None

    def initialise(self) -> None:
        """Start over."""
        self._held = 0
        self._wish = None

    def update(self) -> Result:
        """Return the child's status; fail if the way stays blocked or another robot has a better claim."""
        robot = self._robot
        robot.state = self._state
        robot.aim = (robot.knowledge.x, robot.knowledge.y)
        result: Result = self.decorated.status
        if result is Result.RUNNING and not robot.board.carrying:
            if self._must_stand():
                robot.board.stop()
                self._held += 1
                if self._held > HELD:
                    robot.docking.why = "in the way"
                    if robot.docking.target is not None:
                        robot.docking.leave(robot.board)
                    robot.target = None
                    return Result.FAILURE
            if self._state is State.DOCK:
                target = robot.docking.target
                carrier = None if target is None else robot.knowledge.carriers.get(target)
                if carrier is not None and target != robot.target:
                    robot.target = target
                below = robot.board.overhead is not None
                if carrier is not None and not below and robot.loses(carrier):
                    robot.docking.why = "claimed"
                    return Result.FAILURE
        if result is Result.FAILURE:
            robot.target = None
        return result

    def _must_stand(self) -> bool:
        """Return whether an obstacle is in the way, also of the motion that was stopped before."""
        robot, knowledge = self._robot, self._robot.knowledge
        if self._wish is not None:
            if robot.threatened(*self._wish):
                return True
            self._wish = None
        vx, vy = knowledge.vx, knowledge.vy
        if not robot.threatened(vx, vy):
            return False
        share = WISH / max(math.hypot(vx, vy), 1e-6)
        self._wish = (share * vx, share * vy)
        return True


class Find(Leaf):
    """Find a carrier; succeed next to a free one in sight, or below one."""

    def __init__(self, robot: Cooperative, name: str = "find") -> None:
        """Search with `robot`."""
        super().__init__(name, robot.board)
        self._robot = robot
        self._goal: tuple[float, float] | None = None
        self._chosen = -math.inf
        self._progress = Progress()
        self._doubt = 0.0

    def initialise(self) -> None:
        """Start over."""
        self._goal = None
        self._chosen = -math.inf
        self._progress.start(self._robot.knowledge.time)
        self._doubt = 0.0

    def update(self) -> Result:
        """Approach a known free carrier, or search."""
        robot, board = self._robot, self.board
        if not board.platform_down:
            board.lift(False)
            if board.carrying:
                board.carry(False)
        if robot.docking.wants_overhead() and board.platform_down:
            robot.target = None
            return Result.SUCCESS
        carrier = robot.choose()
        if carrier is not None:
            return self._approach(carrier)
        robot.target = None
        robot.state = State.SEARCH
        self._search()
        return Result.RUNNING

    def _approach(self, carrier: Carrier) -> Result:
        """Go to a known carrier; succeed as soon as it is in sight nearby."""
        robot, board = self._robot, self.board
        knowledge, asked = robot.knowledge, robot.parameters
        if robot.target != carrier.id:
            robot.target = carrier.id
            self._doubt = 0.0
            self._progress.start(knowledge.time)
        robot.state = State.APPROACH
        robot.aim = (carrier.x, carrier.y)
        distance = robot.cost(carrier)
        seen = board.carriers.get(carrier.id)
        if seen is not None and knowledge.time - seen.stamp < 0.6 and distance < 0.9:
            robot.docking.target = carrier.id
            return Result.SUCCESS
        if distance < 0.55:
            self._doubt += 0.1
            if self._doubt > 1.5:
                carrier.status, carrier.stamp = Status.GONE, knowledge.time
                robot.target = None
        if self._progress.stuck(
            knowledge.time, knowledge.x, knowledge.y, (carrier.x, carrier.y), asked.stuck
        ):
            board.give_up(carrier.id, 3.0)
            self._progress.start(knowledge.time)
        robot.steer(*robot.towards(carrier.x, carrier.y, asked.approach_speed))
        return Result.RUNNING

    def _search(self) -> None:
        """Go to where no robot has searched."""
        robot = self._robot
        knowledge, asked = robot.knowledge, robot.parameters
        now = knowledge.time
        way = self._goal or (-5.0, knowledge.y)
        if self._progress.stuck(now, knowledge.x, knowledge.y, way, asked.stuck):
            angle = robot.board.rng.uniform(-math.pi, math.pi)
            self._goal = (knowledge.x + math.cos(angle), knowledge.y + math.sin(angle))
            self._chosen = now + 1.0
            self._progress.start(knowledge.time)
        far = self._goal is None or math.hypot(self._goal[0] - knowledge.x, self._goal[1] - knowledge.y) > 0.3
        if now - self._chosen > 0.5 or not far:
            self._chosen = now
            self._goal = self._next()
        goal = self._goal
        if goal is None:
            # Towards the search zone, and spread out on the way.
            wish_x, wish_y = -asked.search_speed, self._apart()
        else:
            wish_x, wish_y = robot.towards(*goal, asked.search_speed)
        robot.aim = goal or (knowledge.x - 1.0, knowledge.y)
        robot.steer(wish_x, wish_y)

    def _next(self) -> tuple[float, float] | None:
        """Return the place to search next, None on the way to the search zone."""
        robot = self._robot
        knowledge, asked = robot.knowledge, robot.parameters
        if knowledge.zone is not Zone.SEARCH and knowledge.search_edge is None:
            return None
        edge = knowledge.search_edge if knowledge.search_edge is not None else knowledge.x + 2.0
        others: list[tuple[float, float]] = []
        for other in knowledge.neighbours.values():
            message = other.message
            if message is not None and other.located and knowledge.time - other.stamp < 3.0:
                others.append((other.x, other.y))
                if message.state is State.SEARCH:
                    others.append((other.x + message.aim_x, other.y + message.aim_y))
        place = None
        for again in (asked.again, 0.3 * asked.again):
            place = knowledge.ground.explore(
                knowledge.x, knowledge.y, knowledge.time, edge, others, self._goal, again
            )
            if place is not None:
                return place
        # Everything was searched lately: a carrier may have moved, or stand between the zones.
        return knowledge.ground.explore(
            knowledge.x,
            knowledge.y,
            knowledge.time,
            -0.1 if knowledge.edge_known else edge,
            others,
            None,
            5.0,
        )

    def _apart(self) -> float:
        """Return the sideways speed, in m/s, away from robots that move alongside."""
        knowledge = self._robot.knowledge
        push = 0.0
        for other in knowledge.neighbours.values():
            if other.located:
                dx, dy = knowledge.x - other.x, knowledge.y - other.y
                if abs(dx) < 0.8 and 0.0 < abs(dy) < 1.0:
                    push += math.copysign(0.25 * (1.0 - abs(dy)), dy)
        return max(-0.4, min(0.4, push))


class Deliver(Leaf):
    """Take the carrier on the platform to a free place in the drop zone."""

    def __init__(self, robot: Cooperative, name: str = "take to drop zone") -> None:
        """Carry with `robot`."""
        super().__init__(name, robot.board)
        self._robot = robot
        self._progress = Progress()
        self._slot: tuple[float, float] | None = None
        self._chosen = -math.inf
        self._aside = 0.0
        self._aside_until = -math.inf
        self._waited = 0.0
        self._banned: list[tuple[float, float]] = []
        self._near = 0.0

    def initialise(self) -> None:
        """Start over."""
        self._progress.start(self._robot.knowledge.time)
        self._slot = None
        self._chosen = -math.inf
        self._waited = 0.0
        self._banned.clear()
        self._near = self._robot.knowledge.time

    def update(self) -> Result:
        """Drive to the chosen place; succeed there, fail if the load has shifted."""
        robot = self._robot
        knowledge, asked = robot.knowledge, robot.parameters
        robot.own_up()
        now = knowledge.time
        depth = knowledge.depth
        inside = knowledge.zone is Zone.DROP
        robot.state = State.DEPOSIT if inside else State.CARRY
        if inside and depth is not None:
            wanted = self._depth() if self._slot is None else self._slot[0]
            off = 0.0 if self._slot is None else abs(self._slot[1] - knowledge.y)
            if depth >= wanted - 0.04 and off < 0.15:
                self.board.stop()
                return Result.SUCCESS
            if depth >= asked.least_depth and self._waited > 1.5:
                self.board.stop()
                return Result.SUCCESS
        way = self._slot or (5.0, knowledge.y)
        if self._progress.stuck(now, knowledge.x, knowledge.y, way, asked.stuck):
            self._progress.start(knowledge.time)
            if robot.nearest() < robot.load - SHIFTED:
                # The load's legs are where the sensors do not expect them, and look like obstacles.
                self.board.stop()
                return Result.FAILURE
            if self._slot is not None:
                self._banned.append((self._slot[1], now + BAN_SECONDS))
                self._slot = None
            self._chosen = now
            self._aside = robot.board.rng.uniform(-1.0, 1.0)
            self._aside_until = now + robot.board.rng.uniform(0.5, 2.0)
        if now - self._chosen > 0.5:
            self._chosen = now
            self._slot = self._find_slot()
        if now < self._aside_until:
            wish_x, wish_y = -0.15, math.copysign(0.3, self._aside)
        elif self._slot is not None:
            gap_x, gap_y = self._slot[0] - knowledge.x, self._slot[1] - knowledge.y
            # First align sideways, then drive in: rows fill up from the back.
            wish_y = max(-asked.carry_speed, min(asked.carry_speed, 1.5 * gap_y))
            wish_x = max(-0.2, min(asked.carry_speed, 1.5 * gap_x))
            if abs(gap_y) > 0.2 and knowledge.x > -0.3:
                wish_x = min(wish_x, 1.0 * (-0.15 - knowledge.x))
            scale = asked.carry_speed / max(math.hypot(wish_x, wish_y), asked.carry_speed)
            wish_x, wish_y = scale * wish_x, scale * wish_y
        else:
            wish_x, wish_y = asked.carry_speed, 0.0
        robot.aim = self._slot or (knowledge.x + 1.0, knowledge.y)
        share = robot.steer(wish_x, wish_y)
        self._waited = self._waited + 0.1 if inside and share < 0.3 else 0.0
        return Result.RUNNING

    def _depth(self) -> float:
        """Return the depth in metres for the carrier in a free zone, so that all known carriers have room."""
        asked = self._robot.parameters
        return asked.depth + asked.apart * (max(len(self._robot.knowledge.carriers) - 1, 0) // asked.row)

    def _walls(self, known: list[tuple[float, float]]) -> tuple[float, float]:
        """Return the range of y in which the drop zone can be entered from here, between the walls seen."""
        robot = self._robot
        knowledge = robot.knowledge
        others = [(other.x, other.y) for other in knowledge.neighbours.values() if other.located]
        low, high = -math.inf, math.inf
        for x, y, size, _ in robot.obstacles[: robot.gather()].tolist():
            at_x, at_y = x + knowledge.x, y + knowledge.y
            if size > 0.0 or not -0.2 < at_x < robot.parameters.depth:
                continue
            if any(math.hypot(at_x - px, at_y - py) < robot.load + 0.1 for px, py in (*known, *others)):
                continue
            if y > 0.0:
                high = min(high, at_y - robot.radius)
            else:
                low = max(low, at_y + robot.radius)
        return low, high

    def _find_slot(self) -> tuple[float, float] | None:
        """Return the place in the drop zone for the carrier, None while the zone is far or unknown."""
        robot = self._robot
        knowledge, asked = robot.knowledge, robot.parameters
        if not knowledge.edge_known or knowledge.x < -1.0:
            self._near = knowledge.time
            return None
        occupied = [
            (carrier.x, carrier.y)
            for carrier in knowledge.carriers.values()
            if carrier.placed
            and carrier.x > -0.2
            and carrier.id != robot.target
            and carrier.status is not Status.GONE
        ]
        for other in robot.others():
            message = other.message
            if message is None:
                continue
            if other.carrying and robot.rank(other) and other.x > -0.7:
                # Keep the place free that it is heading for.
                occupied.append((max(other.x + message.aim_x, other.x), other.y + message.aim_y))
        low, high = self._walls(occupied)
        deepest = self._depth()
        self._banned = [(y, until) for y, until in self._banned if knowledge.time < until]
        best, least = None, math.inf
        old = None if self._slot is None else self._slot[1]
        # A robot that finds no place for long accepts less room.
        apart = asked.apart if knowledge.time - self._near < PATIENCE else asked.least_apart
        for k in range(-30, 31):
            y = 0.1 * (round(10.0 * knowledge.y) + k)
            kept = old is not None and abs(y - old) < 0.06
            slack = WALL_SLACK if kept else 0.0
            if not low - slack < y < high + slack:
                continue
            if any(abs(y - other) < robot.body for other, _ in self._banned):
                continue
            room = deepest
            for ox, oy in occupied:
                if abs(oy - y) < apart:
                    room = min(room, ox - apart)
            if room < asked.least_depth:
                continue
            cost = abs(y - knowledge.y) + 0.5 * (deepest - room) - (KEEP if kept else 0.0)
            if cost < least:
                best, least = (room, y), cost
        if old is not None and (best is None or abs(best[1] - old) > 0.3):
            # Do not switch back and forth between two places of similar cost.
            self._banned.append((old, knowledge.time + BAN_SECONDS))
        return best


class Progress:
    """Monitors a robot's progress towards a goal."""

    __slots__ = ("_best", "_goal", "_since")

    def __init__(self) -> None:
        """Start without a goal."""
        self._since = 0.0
        self._best = math.inf
        self._goal = (math.inf, math.inf)

    def start(self, now: float) -> None:
        """Restart the timer."""
        self._since, self._best = now, math.inf

    def stuck(self, now: float, x: float, y: float, goal: tuple[float, float], seconds: float) -> bool:
        """Return whether the distance to a goal has not shrunk by 0.1 m within `seconds`."""
        way = math.hypot(goal[0] - x, goal[1] - y)
        if math.hypot(goal[0] - self._goal[0], goal[1] - self._goal[1]) > FRESH_GOAL:
            # A new goal alone is not progress.
            self._goal, self._best = goal, way
        if way < self._best - 0.1:
            self._best, self._since = way, now
        return now - self._since > seconds
