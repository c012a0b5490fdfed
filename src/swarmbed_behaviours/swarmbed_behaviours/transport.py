"""Transport of items from a source to an unknown destination: the transport study's robots.

In "Investigating Transportation Efficiency in Swarm Robotics with High-Fidelity Simulation" each robot runs
algorithm 1: search for the destination at random (algorithm 2), record the way there, shuttle on it, shorten
it by shortcuts within view (algorithm 4), and exchange it with robots that it meets (5 to 7). A robot has a
compass, a position sensor, sonars, of which it uses the front ones, and a radio with a reach of 2 m.

A robot avoids obstacles ahead. It passes a robot, recognised by its WAIT, with a slight turn to the left and
a short move ahead, as in the study. It goes around anything else along its side, and remembers that way.

`traffic` adds our own rules of the road, each based on what a robot sees and receives within 2 m: `lanes`,
keep to the right of the route; `swerve`, share positions and velocities, and avoid predicted collisions
(`swarmbed_behaviours.swerve`); `driving`, talk without standing still.

This module does not depend on a simulator: senses come in, speeds and messages go out.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import numpy as np
from pydantic import Field, model_validator
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.radio import BEACONS
from swarmbed_core.robot import Command

from swarmbed_behaviours.handshake import AGAIN, PIECE, SILENCE, Doing, Handshake, Kind, Message
from swarmbed_behaviours.letters import HEADER, PLACE, Letterbox, unpacked
from swarmbed_behaviours.routes import Trail, nearest_index, respaced, shared, smoothed, thinned
from swarmbed_behaviours.swerve import swerve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from swarmbed_core.controller import CrowdSenses
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Robot
    from swarmbed_core.spec import RobotSpec

Point = tuple[float, float]
Return = tuple[float, float, float]
"""A sonar return: direction in the robot's frame, metres from its centre, uncertainty of the direction."""

SEES: Final = 4.0
"""Metres within which source and destination are seen (2.2)."""
ARRIVED: Final = 1.0
"""Metres from source or destination within which a robot has arrived: assumed."""
NEXT: Final = 0.6
"""Metres from a place of the route within which a robot heads for the next one: assumed."""
STRIDE: Final = 1.0
"""Metres to a new location to explore: the spacing of places of a route."""
WANDER: Final = 0.5
WIDER: Final = 0.25
"""Half angle, in radians around its heading, from which a robot draws its next direction, and its increase
after each blocked direction (algorithm 2): assumed."""
CLEAR: Final = 0.45
"""Metres from a robot's rim within which an obstacle blocks its way: assumed."""
ASIDE: Final = 0.6
PAST: Final = 0.8
"""Turn in radians and move in metres that let another robot pass: "slight", "short" (3.2)."""
TURN_FIRST: Final = 0.5
"""Heading error in radians from which a robot turns on the spot."""
STEER: Final = 3.0
"""Gain from heading error to rate of turn, 1/s."""
STILL: Final = 0.15
STUCK: Final = 4.0
"""A robot is stuck if it moves less than `STILL` metres in `STUCK` seconds."""
SAVES: Final = 0.3
"""Metres that a shortcut must save: assumed."""
REJOIN: Final = 6
"""How many places ahead on its route a robot may rejoin it after a detour."""
FRONT: Final = 1.6
"""Largest angle from straight ahead, in radians, of front sonars (2.4)."""
LANE: Final = 0.7
"""Metres that a robot keeps to the right of the route, so that two robots can pass each other."""
ROOM: Final = 2 * HEADER.size + PLACE * PIECE
"""Bytes of a packet that holds a piece of a route, and END."""
RECENT: Final = 0.35
"""Seconds for which a robot counts as near after its WAIT."""


class TransportParameters(Part):
    """What a scenario may set.

    Attributes:
        source: where items are.
        destination: where they go; robots do not know it before they see it.
        mode: `full`: any two robots that meet exchange routes; `partial`: only robots without a route get
            one; `none`: robots do not talk.
        traffic: our own rules of the road, see the module's text; without any, the study's.
        speed: of the robots, in m/s.
        vision: metres within which they look for shortcuts.
        silence: seconds at the start in which no robot talks.
        again: seconds before the same two robots talk again.
    """

    source: Point
    destination: Point
    mode: Literal["full", "partial", "none"] = "full"
    traffic: tuple[Literal["lanes", "swerve", "driving"], ...] = ()
    speed: Annotated[float, Field(gt=0, le=2)] = 0.5
    vision: Annotated[float, Field(gt=0, le=50)] = 6.0
    silence: Annotated[float, Field(ge=0)] = SILENCE
    again: Annotated[float, Field(ge=0)] = AGAIN

    @model_validator(mode="after")
    def _there_is_a_way(self) -> TransportParameters:
        away = math.dist(self.source, self.destination)
        if away < 4 * ARRIVED:
            message = f"source and destination are {away:g} m apart: at least {4 * ARRIVED:g} m are required"
            raise ValueError(message)
        return self


@dataclass(frozen=True)
class Eyes:
    """Geometry of the front sonars of a robot.

    Attributes:
        sensors: their indices.
        angles: their angles in the robot's frame.
        mount: metres from the robot's centre to their faces.
        half_view: half of each one's field of view, in radians.
        reach: their range in metres.
        radius: of the robot.
    """

    sensors: tuple[int, ...]
    angles: tuple[float, ...]
    mount: float
    half_view: float
    reach: float
    radius: float

    @classmethod
    def of(cls, spec: RobotSpec) -> Eyes:
        """Return the front sonars of a kind of robot.

        Raises:
            ConfigError: it has none, or no compass or position sensor.
        """
        for name in ("compass", "positioning"):
            if getattr(spec, name) is None:
                message = f"controller transport: a {spec.kind} has no {name}"
                raise ConfigError(message)
        front = [
            (k, angle)
            for k, angle in enumerate(spec.ranges[0].angles if spec.ranges else ())
            if abs(angle) < FRONT
        ]
        if not front:
            message = f"controller transport: no distance sensor of a {spec.kind} looks ahead"
            raise ConfigError(message)
        ring = spec.ranges[0]
        return cls(
            tuple(k for k, _ in front),
            tuple(angle for _, angle in front),
            ring.mount_radius,
            ring.field_of_view / 2,
            ring.range_max,
            spec.body.bounding_radius,
        )


def number_of(name: str) -> int:
    """Return the number of a robot outside a crowd, from its name, which is all that it knows of itself."""
    return zlib.crc32(name.encode())


def turn_of(angle: float) -> float:
    """Wrap an angle to within half a turn of 0."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


class Porter:
    """One robot's program.

    Attributes:
        doing: its activity: `explore`, `to source`, `to destination`.
        route: the route from source to destination; empty while it has none.
        got: how it got its first route: `found` or `given`.
        talks: times of its completed talks with robots of higher numbers, so that each talk counts once.
        handshake: its side of talks.
    """

    def __init__(
        self, me: int, eyes: Eyes, parameters: TransportParameters, rng: np.random.Generator
    ) -> None:
        """Start at the source, without a route.

        Args:
            me: unique number of the robot.
            eyes: its sonars.
            parameters: parameters of the controller.
            rng: its random generator.
        """
        self.doing = "explore"
        self.route: FloatArray = np.empty((0, 2))
        self.got = ""
        self.talks: list[float] = []
        self.handshake = Handshake(
            me,
            silence=parameters.silence,
            again=parameters.again,
            takes=parameters.mode != "none",
            both=parameters.mode == "full",
        )
        self._parameters = parameters
        self._swerves = "swerve" in parameters.traffic
        self._eyes = eyes
        self._rng = rng
        self._trail = Trail(parameters.source)
        self._index = 0
        self._target: Point | None = None
        self._moves: list[tuple[str, float]] = []
        # Of the current manoeuvre: its goal, its start, and its timeout.
        self._goal, self._from, self._until = 0.0, (0.0, 0.0), 0.0
        # Of a detour: its way, the index on the route where it started, and its side.
        self._detour: Trail | None = None
        self._left = 0
        self._side = 0.0
        self._heard: dict[int, tuple[float, tuple[float, float, float, float] | None]] = {}
        self._now = 0.0
        self._speed = 0.0
        self._place = (0.0, 0.0)
        self._heading = 0.0
        self._ranges: Sequence[float] = ()
        self._seen: list[Return] | None = None
        self._bumps: list[Point] = []
        self._anchor: tuple[float, Point] = (0.0, (math.inf, math.inf))

    @property
    def knows(self) -> bool:
        """Return whether it has a route."""
        return len(self.route) > 0

    def tick(
        self, now: float, place: Point, heading: float, ranges: Sequence[float], heard: Sequence[Message]
    ) -> tuple[float, float, list[Message]]:
        """Return speed and rate of turn for the next tick, and the messages to send.

        Args:
            now: the time.
            place: position by the position sensor.
            heading: heading by the compass.
            ranges: distances of all its sonars.
            heard: messages received since the last tick.
        """
        self._now, self._place, self._heading, self._ranges, self._seen = now, place, heading, ranges, None
        for message in heard:
            if message.kind is Kind.WAIT:
                self._heard[message.sender] = now, message.moves
            self.handshake.hear(message, self.route if self.knows else None, now)
        rules = self._parameters.traffic
        if self._swerves:
            going = self._speed
            self.handshake.moves = (*place, going * math.cos(heading), going * math.sin(heading))
        out, outcome = self.handshake.tick(now)
        if outcome is not None:
            if self.handshake.me < outcome.partner:
                self.talks.append(now)
            self._take(outcome.route)
        if self.handshake.doing is not Doing.FREE and "driving" not in rules:
            self._anchor = (now, place)
            self._speed = 0.0
            return 0.0, 0.0, out
        self._speed, rate = self._move()
        return self._speed, rate, out

    # Routes

    def _take(self, route: FloatArray | None) -> None:
        """Adopt or merge another robot's route (algorithm 7)."""
        if route is None:
            return
        if not self.knows:
            self._adopt(route, "given")
            self._index = nearest_index(self.route, np.array(self._place))
            self.doing = "to source"
        elif self._parameters.mode == "full":
            self._drop_detour()
            self._take_up(shared(self.route, route))

    def _adopt(self, route: FloatArray, got: str) -> None:
        self.route, self.got = respaced(route), got
        self.handshake.knows = True
        self._moves.clear()
        self._drop_detour()

    def _drop_detour(self) -> None:
        self._detour, self._side, self._target = None, 0.0, None

    # Where to go

    def _move(self) -> tuple[float, float]:
        """Return speed and rate of turn."""
        if self._moves:
            return self._manoeuvre()
        if self._is_stuck():
            return self._back_off()
        return self._follow() if self.knows else self._explore()

    def _back_off(self) -> tuple[float, float]:
        """Back off from an obstacle that no sonar sees, and remember it unless it is a robot."""
        x, y = self._place
        if self._speed > 0.0 and not self._is_touched():
            away = self._eyes.radius
            self._bumps.append((x + away * math.cos(self._heading), y + away * math.sin(self._heading)))
        side = 1.0 if self._rng.random() < 0.5 else -1.0
        self._begin(("go", -0.3), ("turn", side * (0.6 + 0.9 * self._rng.random())), ("go", PAST))
        return self._manoeuvre()

    def _is_touched(self) -> bool:
        """Return whether the obstacle may be a robot."""
        if not self._swerves:
            return self._robot_near()
        close = 2.0 * self._eyes.radius + 0.2
        return any(math.hypot(dx, dy) < close for dx, dy, _, _ in self._others())

    def _explore(self) -> tuple[float, float]:
        """Search for the destination (algorithms 1 and 2)."""
        x, y = self._place
        self._trail.add(self._place)
        to_x, to_y = self._parameters.destination
        away = math.hypot(to_x - x, to_y - y)
        if away < ARRIVED:
            self._adopt(self._trail.ended(self._parameters.destination), "found")
            return self._arrive("to source")
        if away < SEES and self._clear(math.atan2(to_y - y, to_x - x)) > min(away, STRIDE):
            self._target = self._parameters.destination
        if self._target is None or math.dist(self._place, self._target) < 0.2:
            self._target = self._new_location()
        target = self._target
        if self._in_the_way(target):
            self._target = None
            if self._robot_near() and not self._swerves:
                return self._let_pass()
            return 0.0, 0.0
        return self._go(target)

    def _new_location(self) -> Point:
        """Return a place to explore, in a random direction around the heading, ever wider (algorithm 2)."""
        wide = WANDER
        while True:
            turn = wide * (2.0 * self._rng.random() - 1.0)
            direction = self._heading + turn
            # A direction outside the front sonars' view is checked again after the robot has turned to it.
            if abs(turn) > FRONT or self._clear(direction) > STRIDE:
                x, y = self._place
                return x + STRIDE * math.cos(direction), y + STRIDE * math.sin(direction)
            wide = min(wide + WIDER, math.pi)

    def _arrive(self, then: str) -> tuple[float, float]:
        """Turn back at one end of the route."""
        self.doing = then
        self._index = len(self.route) - 1 if then == "to source" else 0
        self._drop_detour()
        return self._follow()

    def _follow(self) -> tuple[float, float]:
        """Follow the route."""
        outward = self.doing == "to destination"
        end = self._parameters.destination if outward else self._parameters.source
        if math.dist(self._place, end) < ARRIVED:
            return self._arrive("to source" if outward else "to destination")
        step, last = (1, len(self.route) - 1) if outward else (-1, 0)
        before = self._index
        while self._index != last and self._has_passed(self._index, step):
            self._index += step
        if self._index != before and self._detour is None:
            self._smooth(outward=outward)
        target = self._to_next(step)
        if self._detour is None:
            if not self._in_the_way(target):
                return self._go(target)
            if self._robot_near() and not self._swerves:
                return self._let_pass()
            self._detour, self._left = Trail(self._place), self._index
            self._side, self._target = 0.0, None
        return self._go_round(self._detour, step)

    def _to_next(self, step: int) -> Point:
        """Return the next place of the route; with `lanes`, to its right if a robot is near."""
        x, y = float(self.route[self._index, 0]), float(self.route[self._index, 1])
        came = self._index - step
        keeps = "lanes" in self._parameters.traffic and self._robot_near()
        if not keeps or not 0 <= came < len(self.route):
            return x, y
        dx, dy = x - float(self.route[came, 0]), y - float(self.route[came, 1])
        size = math.hypot(dx, dy)
        if size < 0.01:
            return x, y
        for lane in (LANE, LANE / 2):
            beside = x + lane * dy / size, y - lane * dx / size
            way = math.dist(self._place, beside)
            direction = math.atan2(beside[1] - self._place[1], beside[0] - self._place[0])
            if self._clear(direction) > min(way, STRIDE):
                return beside
        return x, y

    def _others(self) -> list[tuple[float, float, float, float]]:
        """Return relative position and velocity of the robots that have just sent them."""
        x, y = self._place
        return [
            (moves[0] - x, moves[1] - y, moves[2], moves[3])
            for when, moves in self._heard.values()
            if moves is not None and self._now - when < RECENT
        ]

    def _go(self, target: Point) -> tuple[float, float]:
        """Go towards a place, with `swerve` around robots nearby."""
        if self._swerves and self._robot_near():
            return self._swerve(target)
        return self._towards(target)

    def _swerve(self, target: Point) -> tuple[float, float]:
        """Go towards a place among robots that share their positions."""
        x, y = self._place
        things = [(self._heading + angle, away, unsure) for angle, away, unsure in self._returns()]
        wanted = math.atan2(target[1] - y, target[0] - x)
        direction, speed = swerve(
            wanted, self._heading, self._parameters.speed, self._others(), things, self._eyes.radius
        )
        off = turn_of(direction - self._heading)
        return (speed * math.cos(off) if abs(off) < TURN_FIRST else 0.0), STEER * off

    def _has_passed(self, index: int, step: int) -> bool:
        """Return whether a place of the route has been reached or passed."""
        x, y = self._place
        place_x, place_y = float(self.route[index, 0]), float(self.route[index, 1])
        dx, dy = place_x - x, place_y - y
        if dx * dx + dy * dy < NEXT * NEXT:
            return True
        on_x = float(self.route[index + step, 0]) - place_x
        on_y = float(self.route[index + step, 1]) - place_y
        return dx * dx + dy * dy < 4.0 and dx * on_x + dy * on_y < 0.0

    def _smooth(self, *, outward: bool) -> None:
        """Take a shortcut, if one is seen (algorithm 4)."""
        found = smoothed(
            self.route,
            self._index,
            np.array(self._place),
            outward=outward,
            vision=self._parameters.vision,
            is_free=self._sees_free,
            least=SAVES,
        )
        if found is not None:
            self._take_up(found.route)

    def _take_up(self, route: FloatArray) -> None:
        """Continue on a changed route from its place nearest to the robot."""
        self.route = respaced(thinned(route))
        self._index = nearest_index(self.route, np.array(self._place))

    def _sees_free(self, place: FloatArray) -> bool:
        """Return whether the straight way to a place is free, as far as the sonars see."""
        x, y = self._place
        dx, dy = float(place[0]) - x, float(place[1]) - y
        direction, away = math.atan2(dy, dx), math.hypot(dx, dy)
        if abs(turn_of(direction - self._heading)) > FRONT:
            return False
        return self._clear(direction) >= min(away, self._eyes.reach - 1.0)

    # Obstacles

    def _returns(self) -> list[Return]:
        """Return obstacles seen or remembered nearby, without the robots that share their positions."""
        if self._seen is None:
            eyes, (x, y) = self._eyes, self._place
            self._seen = [
                (angle, self._ranges[sensor] + eyes.mount, eyes.half_view)
                for sensor, angle in zip(eyes.sensors, eyes.angles, strict=True)
                if self._ranges[sensor] < eyes.reach
            ]
            others = self._others() if self._swerves and self._seen else []
            if others:
                near = 1.6 * eyes.radius
                self._seen = [item for item in self._seen if not self._is_one_of(others, item, near)]
            for at_x, at_y in self._bumps:
                dx, dy = at_x - x, at_y - y
                if dx * dx + dy * dy < 16.0:
                    self._seen.append((math.atan2(dy, dx) - self._heading, math.hypot(dx, dy), 0.0))
        return self._seen

    def _is_one_of(self, others: Sequence[tuple[float, ...]], seen: Return, near: float) -> bool:
        """Return whether a sonar return is from one of these robots."""
        at_x = seen[1] * math.cos(self._heading + seen[0])
        at_y = seen[1] * math.sin(self._heading + seen[0])
        return any(math.hypot(at_x - other[0], at_y - other[1]) < near for other in others)

    def _clear(self, direction: float) -> float:
        """Return the free distance in a direction, in metres, as far as the robot knows."""
        eyes = self._eyes
        turn = direction - self._heading
        # An obstacle that it touches at its side does not block it, wherever it is in a sonar's view.
        keep = eyes.radius * math.cos(eyes.half_view)
        room = eyes.reach
        for angle, away, unsure in self._returns():
            # The obstacle may be anywhere across the sensor's view.
            off = max(abs(turn_of(turn - angle)) - unsure, 0.0)
            if off < 1.5 and away * math.sin(off) < keep:
                room = min(room, max(away * math.cos(off) - eyes.radius, 0.0))
        return room

    def _in_the_way(self, target: Point) -> bool:
        """Return whether an obstacle is in the way to a place that the robot faces."""
        x, y = self._place
        dx, dy = target[0] - x, target[1] - y
        turn = turn_of(math.atan2(dy, dx) - self._heading)
        if abs(turn) > TURN_FIRST:
            return False
        return self._clear(self._heading + turn) < min(CLEAR, max(math.hypot(dx, dy), 0.1))

    def _robot_near(self) -> bool:
        """Return whether a WAIT was received within the last `RECENT` seconds."""
        return any(self._now - when < RECENT for when, _ in self._heard.values())

    def _let_pass(self) -> tuple[float, float]:
        """Turn slightly to the left, or as far as necessary, and move on from there (3.2)."""
        turn = ASIDE
        while turn < FRONT and self._clear(self._heading + turn) < CLEAR:
            turn += 0.2
        if turn < FRONT:
            self._begin(("turn", turn), ("go", PAST))
        else:
            self._begin(("go", -0.4), ("turn", turn))
        return self._manoeuvre()

    def _go_round(self, detour: Trail, step: int) -> tuple[float, float]:
        """Go along an obstacle until the way to a later place of the route is free, and record the way.

        Args:
            detour: the detour so far.
            step: 1 on the way to the destination, -1 on the way back.
        """
        detour.add(self._place)
        x, y = self._place
        ahead = range(self._index, self._index + (REJOIN + 1) * step, step)
        farther = [k for k in ahead if 0 <= k < len(self.route)]
        for k in reversed(farther):
            if self._sees_free(self.route[k]):
                place = float(self.route[k, 0]), float(self.route[k, 1])
                self._end_detour(detour, k)
                return self._go(place)
        goal = self.route[farther[-1]]
        wanted = math.atan2(float(goal[1]) - y, float(goal[0]) - x)
        if abs(turn_of(wanted - self._heading)) > FRONT and not self._side:
            return self._turn_to(wanted)
        if self._target is not None and math.dist(self._place, self._target) > 0.2:
            if not self._in_the_way(self._target):
                return self._go(self._target)
            if self._robot_near() and not self._swerves:
                self._target = None
                return self._let_pass()
        self._target = None
        for k in range(13):
            for side in (self._side,) if self._side else (1.0, -1.0):
                direction = wanted + side * 0.25 * k
                if abs(turn_of(direction - self._heading)) > FRONT:
                    # Outside the sonars' view: turn there and look.
                    self._side = side
                    return self._turn_to(direction)
                if self._clear(direction) > STRIDE:
                    self._side = side
                    self._target = (x + STRIDE * math.cos(direction), y + STRIDE * math.sin(direction))
                    return self._go(self._target)
        self._side = -self._side
        return self._turn_to(self._heading + 1.0)

    def _end_detour(self, detour: Trail, k: int) -> None:
        """Insert the detour into the route in place of the blocked part, up to place `k`."""
        self._drop_detour()
        way = detour.ended(self._place)
        if self.doing == "to destination":
            made = np.vstack([self.route[: self._left], way, self.route[k:]])
        else:
            made = np.vstack([self.route[: k + 1], way[::-1], self.route[self._left + 1 :]])
        made[0], made[-1] = self.route[0], self.route[-1]
        self._take_up(made)

    # How to move

    def _towards(self, target: Point) -> tuple[float, float]:
        x, y = self._place
        off = turn_of(math.atan2(target[1] - y, target[0] - x) - self._heading)
        if abs(off) > TURN_FIRST:
            return 0.0, STEER * off
        return self._parameters.speed * math.cos(off), STEER * off

    def _turn_to(self, direction: float) -> tuple[float, float]:
        return 0.0, STEER * turn_of(direction - self._heading)

    def _begin(self, *moves: tuple[str, float]) -> None:
        """Start a sequence of moves, which has priority over everything else."""
        self._moves = list(moves)
        self._start_move()

    def _start_move(self) -> None:
        if self._moves:
            kind, amount = self._moves[0]
            self._goal = turn_of(self._heading + amount) if kind == "turn" else abs(amount)
            self._from = self._place
            self._until = self._now + 4.0

    def _manoeuvre(self) -> tuple[float, float]:
        """Continue the sequence of moves."""
        while self._moves:
            kind, amount = self._moves[0]
            if kind == "turn":
                off = turn_of(self._goal - self._heading)
                if abs(off) > 0.08 and self._now < self._until:
                    return 0.0, STEER * off
            else:
                ahead = amount > 0.0
                near = ahead and self._clear(self._heading) < 0.15
                if math.dist(self._place, self._from) < self._goal and not near and self._now < self._until:
                    return math.copysign(self._parameters.speed, amount), 0.0
            del self._moves[0]
            self._start_move()
        self._anchor = (self._now, self._place)
        return 0.0, 0.0

    def _is_stuck(self) -> bool:
        """Return whether the robot has hardly moved for `STUCK` seconds, other than during a talk."""
        since, place = self._anchor
        if math.dist(self._place, place) > STILL:
            self._anchor = (self._now, self._place)
            return False
        if self._now - since < STUCK:
            return False
        self._anchor = (self._now, self._place)
        return True


class Transport:
    """The transport study's controller.

    Attributes:
        doing: its activity.
        carrier: the program.
    """

    Parameters: ClassVar[type[Part]] = TransportParameters

    def __init__(self, robot: Robot, parameters: TransportParameters, rng: np.random.Generator) -> None:
        """Drive one robot.

        Raises:
            ConfigError: it lacks one of the sensors, or has no packet radio with room for a piece of a route.
        """
        spec = robot.spec
        self.carrier = Porter(number_of(robot.name), Eyes.of(spec), parameters, rng)
        self.doing = self.carrier.doing
        self._robot = robot
        self._ring = spec.ranges[0].name
        radio = next((radio for radio in spec.radios if radio.kind not in BEACONS), None)
        if radio is None or radio.payload_bytes < ROOM:
            message = f"controller transport: a {spec.kind} has no packet radio for {ROOM} bytes"
            raise ConfigError(message)
        self._radio = radio.name
        self._box = Letterbox(radio.payload_bytes)

    def tick(self) -> None:
        """Read the robot's senses and command it."""
        robot, carrier = self._robot, self.carrier
        senses = robot.sense()
        if senses.position is None or senses.heading is None:
            robot.act(Command(velocity_body=(0.0, 0.0, 0.0)))
            return
        channel = carrier.handshake.channel
        heard = [
            message
            for packet in senses.heard.get(self._radio, ())
            for message in unpacked(packet.payload)
            if message.channel == channel
        ]
        # As a crowd hears them: of several robots, each chooses the first, and in another order robots that
        # choose each other in a circle would wait forever.
        heard.sort(key=lambda message: message.sender)
        x, y = senses.position.tolist()
        ranges = senses.ranges[self._ring].tolist()
        speed, rate, out = carrier.tick(senses.time, (x, y), senses.heading, ranges, heard)
        self.doing = carrier.doing
        packet = self._box.packet(out)
        send = {self._radio: packet} if packet else None
        robot.act(Command(velocity_body=(speed, 0.0, rate), send=send))

    @staticmethod
    def crowd(
        spec: RobotSpec, parameters: TransportParameters, count: int, rng: np.random.Generator
    ) -> TransportCrowd:
        """Return the programs of `count` robots."""
        return TransportCrowd(spec, parameters, count, rng)


class TransportCrowd:
    """The programs of all robots, one after the other; a `CrowdProgram`.

    Attributes:
        carriers: the programs.
        doing: activity of each robot.
    """

    def __init__(
        self, spec: RobotSpec, parameters: TransportParameters, count: int, rng: np.random.Generator
    ) -> None:
        """Give each robot its own program and random generator."""
        eyes = Eyes.of(spec)
        self.carriers = [
            Porter(k + 1, eyes, parameters, np.random.default_rng(seed))
            for k, seed in enumerate(rng.bit_generator.seed_seq.spawn(count))  # type: ignore[attr-defined]
        ]
        self.doing = ["explore"] * count
        self._sensors = spec.ranges[0].count

    def tick(self, senses: CrowdSenses, v_body: FloatArray) -> None:
        """Run each robot's tick."""
        now, post = senses.time, senses.air.post
        if senses.ranges.shape[1] < self._sensors:
            text = (
                f"controller transport: robots need all {self._sensors} distance sensors of their first ring"
            )
            raise ConfigError(text)
        ranges, headings = senses.ranges.tolist(), senses.headings.tolist()
        for k, (carrier, (x, y)) in enumerate(zip(self.carriers, senses.positions.tolist(), strict=True)):
            speed, rate, out = carrier.tick(now, (x, y), headings[k], ranges[k], post.take(k))
            v_body[k] = speed, 0.0, rate
            for message in out:
                post.send(k, message, message.channel)
            post.tune(k, carrier.handshake.channel)
            self.doing[k] = carrier.doing

    def metrics(self) -> Mapping[str, Any]:
        """Return how the robots got their routes, the routes, and statistics of the talks."""
        counts = [carrier.handshake.counts for carrier in self.carriers]
        talks = sorted(when for carrier in self.carriers for when in carrier.talks)
        seconds, begun = sum(item.seconds for item in counts), sum(item.begun for item in counts)
        return {
            "routes_found": sum(carrier.got == "found" for carrier in self.carriers),
            "routes_given": sum(carrier.got == "given" for carrier in self.carriers),
            "routes": [np.round(carrier.route, 2).tolist() for carrier in self.carriers],
            "talks": talks,
            "talks_begun": begun,
            "talk_seconds": seconds / begun if begun else 0.0,
        }
