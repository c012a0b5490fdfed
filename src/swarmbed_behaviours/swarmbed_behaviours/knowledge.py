"""Knowledge of one robot of a cooperating swarm: its pose, the others, the carriers, the searched ground.

Everything is in the robot's own frame: the origin is where it started, the axes are the compass's, and its
pose comes from dead reckoning. When the robot crosses the edge of the drop zone it moves the origin so that x
is 0 there. Positions in messages are converted to this frame if the shift between the frames is known
(`neighbours`). Otherwise only the rest of a message is used, such as which carrier a robot claims or has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from swarmbed_core.device import Zone
from swarmbed_core.geometry import wrap
from swarmbed_core.kernel import kernel

from swarmbed_behaviours.neighbours import Shift
from swarmbed_behaviours.talk import Item, Message, State, Status, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from swarmbed_core.device import RadioPacket
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.robot import Senses

    from swarmbed_behaviours.toolkit.estimate import CarrierEstimate

USABLE: Final = 0.35
"""Largest uncertainty, in metres, at which another robot's frame is accurate enough to use its positions."""
SILENT: Final = 3.0
"""Seconds without a message after which a robot's intentions are no longer valid."""
RANGE_SIGMA: Final = 0.12
"""Standard deviation, in metres, of a range between two robots whose messages are a tick old."""
EDGE_SIGMA: Final = 0.1
"""Metres to which two robots agree on the edge of the drop zone: half a tick's travel each."""
SIGHT_SIGMA: Final = 0.15
"""Metres to which two robots agree on the place of a carrier that both saw."""
SHARED: Final = 20.0
"""Seconds for which sightings of a carrier by two robots can be compared; beyond, dead reckoning drifts."""
COMPASS_SHARE: Final = 0.05
"""Weight of a new heading in the filtered rotation from odometry to compass."""
BESIDE: Final = 0.45
"""Metres within which a carrier still counts as held by a robot that has fallen silent."""
EDGE_INSIDE: Final = 0.05
"""Metres inside the drop zone from which a carrier counts as delivered."""


@dataclass(slots=True)
class Carrier:
    """A robot's knowledge of a carrier.

    Attributes:
        id: id of its markers.
        status: free, taken, delivered or gone.
        stamp: time of this knowledge, on the robot's clock.
        x: position of its centre in the robot's frame, NaN if unknown.
        y: likewise.
        seen: when the robot itself saw it last.
        holder: name of the robot that has taken it, empty for none.
    """

    id: int
    status: Status
    stamp: float
    x: float = math.nan
    y: float = math.nan
    seen: float = -math.inf
    holder: str = ""

    @property
    def placed(self) -> bool:
        """Return whether its place is known."""
        return not math.isnan(self.x)


class Neighbour:
    """Another robot, from its messages and the measured ranges.

    Attributes:
        name: its name.
        shift: shift from its frame to the robot's.
        message: its latest message.
        stamp: when that was received.
        distance: smoothed range in metres; NaN before the first.
        ranged: when the latest range was measured.
        x: its position in the robot's frame, valid if `located`.
        y: likewise.
    """

    __slots__ = ("_moved", "_noted", "distance", "message", "name", "ranged", "shift", "stamp", "x", "y")

    def __init__(self, name: str) -> None:
        """Start with its name alone."""
        self.name = name
        self.shift = Shift()
        self.message: Message | None = None
        self.stamp = -math.inf
        self.distance = math.nan
        self.ranged = -math.inf
        self.x = self.y = math.nan
        self._moved = 0.0
        self._noted = 0

    @property
    def located(self) -> bool:
        """Return whether its position is known accurately enough to be used."""
        return self.shift.sigma < USABLE

    @property
    def carrying(self) -> bool:
        """Return whether it reports a carrier on its platform."""
        return self.message is not None and self.message.loaded


class Knowledge:
    """Knowledge of one robot; see the module."""

    def __init__(self, name: str, angles: FloatArray, reach: float) -> None:
        """Start without knowledge.

        Args:
            name: name of the robot.
            angles: angles of its distance sensors.
            reach: metres from its centre to a distance sensor.
        """
        self.name = name
        self.time = 0.0
        self.x = self.y = 0.0
        self.vx = self.vy = 0.0
        self.yaw = 0.0
        self.turn: float | None = None
        self.edge_known = False
        self.search_edge: float | None = None
        self.zone = Zone.NEITHER
        self.neighbours: dict[str, Neighbour] = {}
        self.carriers: dict[int, Carrier] = {}
        self.ground = Ground()
        self._angles = angles
        self._reach = reach
        self._odom = (0.0, 0.0)
        self._old_zone: Zone | None = None
        self._way = 0.0
        self._round = 0
        self._counter = 0
        self._ticks = 0

    # Conversions between frames

    def from_odom(self, x: float, y: float) -> tuple[float, float]:
        """Convert a point from odom to the robot's frame."""
        turn = self.turn or 0.0
        c, s = math.cos(turn), math.sin(turn)
        dx, dy = x - self._odom[0], y - self._odom[1]
        return self.x + c * dx - s * dy, self.y + s * dx + c * dy

    @property
    def depth(self) -> float | None:
        """Return how far the robot is inside the drop zone, None if it has never been at its edge."""
        return self.x if self.edge_known else None

    # Input

    def update(self, senses: Senses, sights: Mapping[int, CarrierEstimate]) -> None:
        """Process the robot's senses and received messages."""
        self.time = senses.time
        self._ticks += 1
        self._reckon(senses)
        self._look(sights)
        self._listen(senses)

    def _reckon(self, senses: Senses) -> None:
        ox, oy, yaw = senses.pose_odom.tolist()
        vx, vy, _ = senses.twist_body.tolist()
        heading = yaw if senses.heading is None else senses.heading
        if self.turn is None:
            self.turn = float(wrap(heading - yaw))
            self._odom = (ox, oy)
        else:
            self.turn = float(wrap(self.turn + COMPASS_SHARE * float(wrap(heading - yaw - self.turn))))
        self.yaw = float(wrap(yaw + self.turn))
        c, s = math.cos(self.turn), math.sin(self.turn)
        dx, dy = ox - self._odom[0], oy - self._odom[1]
        step_x, step_y = c * dx - s * dy, s * dx + c * dy
        self._odom = (ox, oy)
        self.x += step_x
        self.y += step_y
        self._way = math.hypot(step_x, step_y)
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        self.vx, self.vy = c * vx - s * vy, s * vx + c * vy
        self._cross(senses.zone, step_x)

    def _cross(self, zone: Zone, step_x: float) -> None:
        """Set x to 0 at the edge of the drop zone; remember the edge of the search zone."""
        old, self._old_zone, self.zone = self._old_zone, zone, zone
        if old is None or old is zone:
            return
        if Zone.DROP in (old, zone):
            # The edge was crossed during this tick; assume half-way.
            error = self.x - 0.5 * step_x
            self.x -= error
            if not self.edge_known:
                self.edge_known = True
                self._shift_all(-error)
        elif Zone.SEARCH in (old, zone) and self.edge_known:
            self.search_edge = self.x - 0.5 * step_x

    def _shift_all(self, x: float) -> None:
        """Shift everything known along x, because the frame has a new origin."""
        self.ground.shift(x)
        for carrier in self.carriers.values():
            carrier.x += x
        for other in self.neighbours.values():
            other.shift.restart(x, 0.0)
        if self.search_edge is not None:
            self.search_edge += x

    def _look(self, sights: Mapping[int, CarrierEstimate]) -> None:
        """Process the carriers in sight."""
        for number, sight in sights.items():
            known = self.carriers.get(number)
            if known is not None and sight.stamp <= known.seen:
                continue
            x, y = self.from_odom(float(sight.pose_odom[0]), float(sight.pose_odom[1]))
            if known is None:
                known = self.carriers[number] = Carrier(number, Status.FREE, self.time)
            known.seen = sight.stamp
            self.judge(known, x, y)

    def judge(self, carrier: Carrier, x: float, y: float) -> None:
        """Update a carrier's position, and its status accordingly; a carried one stays taken."""
        moved = not carrier.placed or math.hypot(x - carrier.x, y - carrier.y) > 0.3
        inside = self.edge_known and x > EDGE_INSIDE
        carrier.x, carrier.y, carrier.stamp = x, y, self.time
        taken = carrier.status is Status.TAKEN
        if taken and (self._holds(carrier) or (not moved and self._claims(carrier))):
            return
        if carrier.status is Status.DELIVERED and not (moved or self.edge_known):
            # The robot that reported the delivery knew the edge of the drop zone.
            return
        carrier.status = Status.DELIVERED if inside else Status.FREE
        carrier.holder = ""

    def _holds(self, carrier: Carrier) -> bool:
        """Return whether the robot that took a carrier probably still has it."""
        if carrier.holder == self.name:
            return True
        other = self.neighbours.get(carrier.holder)
        if other is None or not self._claims(carrier):
            return False
        # A robot that has fallen silent may stand there with it indefinitely.
        beside = other.located and math.hypot(carrier.x - other.x, carrier.y - other.y) < BESIDE
        return beside or self.time - other.stamp < SILENT

    def _claims(self, carrier: Carrier) -> bool:
        """Return whether the robot that took a carrier has it according to its latest message."""
        other = self.neighbours.get(carrier.holder)
        message = None if other is None else other.message
        return message is not None and message.loaded and message.claim == carrier.id

    def _listen(self, senses: Senses) -> None:
        """Process received packets."""
        for packet in senses.heard.get("ble", ()):
            message = decode(packet.payload)
            if message is not None:
                self._hear(packet.sender, message, packet.stamp)
        newest: dict[str, RadioPacket] = {}
        for packet in senses.heard.get("uwb", ()):
            if packet.distance is not None:
                newest[packet.sender] = packet
        for name, packet in newest.items():
            self._measure(self._neighbour(name), float(packet.distance or 0.0), senses)
        for other in self.neighbours.values():
            if other.located and other.message is not None:
                ago = min(max(self.time - other.stamp, 0.0), 0.5)
                message = other.message
                other.x = other.shift.x + message.x + message.vx * ago
                other.y = other.shift.y + message.y + message.vy * ago

    def _neighbour(self, name: str) -> Neighbour:
        other = self.neighbours.get(name)
        if other is None:
            other = self.neighbours[name] = Neighbour(name)
        return other

    def _hear(self, sender: str, message: Message, stamp: float) -> None:
        other = self._neighbour(sender)
        before = other.message
        if before is not None and before.anchored != message.anchored:
            # Its frame has a new origin.
            other.shift.forget()
        elif before is not None:
            other.shift.move(math.hypot(message.x - before.x, message.y - before.y))
        other.message, other.stamp = message, stamp
        claim = message.claim
        if before is not None and before.loaded and not (message.loaded and before.claim == claim):
            left = None if before.claim is None else self.carriers.get(before.claim)
            if left is not None and left.holder == sender:
                # It was put down somewhere; the next sighting shows where.
                left.holder = ""
        if claim is not None and message.loaded:
            known = self.carriers.get(claim)
            if known is None:
                known = self.carriers[claim] = Carrier(claim, Status.TAKEN, self.time)
            known.status, known.holder, known.stamp = Status.TAKEN, sender, self.time
            if other.located:
                known.x, known.y = other.shift.x + message.x, other.shift.y + message.y
        item = message.item
        if item is not None:
            self._learn(item, other, stamp)

    def _learn(self, item: Item, other: Neighbour, stamp: float) -> None:
        """Process another robot's knowledge of a carrier, if it is newer."""
        when = stamp - item.age
        known = self.carriers.get(item.id)
        if known is None:
            known = self.carriers[item.id] = Carrier(item.id, item.status, -math.inf)
        if known.status is Status.TAKEN and known.holder == self.name:
            return
        x, y = item.x + other.shift.x, item.y + other.shift.y
        standing = item.status is Status.FREE or item.status is Status.DELIVERED
        both = item.own and known.status is item.status and standing
        fresh = item.age < SHARED and self.time - known.seen < SHARED
        if both and fresh and other.shift.known and self._ticks % 5 == 0:
            # Both have seen it standing, so the difference of the positions is the shift of the frames.
            other.shift.add_place(known.x - item.x, known.y - item.y, SIGHT_SIGMA, 0.2)
        hearsay = item.status is Status.TAKEN and other.message is not None and other.message.claim != item.id
        if hearsay and known.status is not Status.TAKEN and self.time - known.seen < SILENT:
            # A robot that takes a carrier which this one has just seen standing will report that itself.
            return
        # A delivery overrides older knowledge that it is taken, unless its holder still has it.
        over = known.status is Status.TAKEN and item.status is Status.DELIVERED and not self._holds(known)
        if not over and when <= known.stamp + 0.6:
            if not known.placed and item.status is known.status and other.located:
                known.x, known.y = x, y
            return
        status = item.status
        if status is Status.FREE and self.edge_known and other.message and not other.message.anchored:
            # The sender was never at the edge of the drop zone: it cannot tell what is delivered.
            inside = x if other.located else known.x
            status = Status.DELIVERED if inside > EDGE_INSIDE else status
        known.status, known.stamp = status, when
        if status is not Status.TAKEN:
            known.holder = ""
        # Own sightings are more accurate than reported positions.
        if other.located and not (known.placed and math.hypot(x - known.x, y - known.y) < 0.4):
            known.x, known.y = x, y
        elif not other.located and item.status is Status.FREE and known.placed and known.seen < when - 5.0:
            known.x = known.y = math.nan

    def _measure(self, other: Neighbour, distance: float, senses: Senses) -> None:
        """Process a range to a robot."""
        smooth = other.distance
        fresh = self.time - other.ranged < 1.0
        other.distance = smooth + 0.3 * (distance - smooth) if fresh else distance
        other.ranged = self.time
        message = other.message
        if message is None or self.time - other.stamp > 1.0:
            return
        ago = self.time - other.stamp
        dx = self.x - message.x - message.vx * ago
        dy = self.y - message.y - message.vy * ago
        shift = other.shift
        shift.move(self._way)
        shift.add_range(dx, dy, distance, RANGE_SIGMA)
        if self.edge_known and message.anchored and self._ticks % 10 == 0:
            shift.add_place(0.0, None, EDGE_SIGMA, 0.02)
        if shift.sigma > USABLE and distance < 1.5 and self._ticks % 3 == 0 and self._angles.size:
            sweep = next(iter(senses.ranges.values()))
            shift.add_view(dx, dy, self.yaw, sweep, self._angles, 2.0 * self._reach)

    # Output

    def next_item(self) -> Item | None:
        """Return the carrier to report next: all in turn, the newest more often."""
        known = [
            carrier
            for carrier in self.carriers.values()
            if carrier.placed or carrier.status is not Status.FREE
        ]
        if not known:
            return None
        self._round += 1
        if self._round % 2:
            carrier = max(known, key=lambda one: (one.stamp, -one.id))
        else:
            carrier = known[self._round // 2 % len(known)]
        if not carrier.placed:
            return None
        age = max(self.time - carrier.stamp, 0.0)
        own = carrier.stamp - carrier.seen < 0.5
        return Item(carrier.id, carrier.status, age, carrier.x, carrier.y, own)

    def message(self, state: State, aim: tuple[float, float], claim: int | None, cost: float) -> Message:
        """Return the message to send now."""
        self._counter += 1
        return Message(
            state=state,
            anchored=self.edge_known,
            counter=self._counter,
            x=self.x,
            y=self.y,
            vx=self.vx,
            vy=self.vy,
            aim_x=aim[0] - self.x,
            aim_y=aim[1] - self.y,
            claim=claim,
            cost=cost,
            item=self.next_item(),
        )

    # Queries

    def rivals(self, carrier_id: int) -> Iterable[Neighbour]:
        """Return the other robots that claim a carrier."""
        return (
            other
            for other in self.neighbours.values()
            if other.message is not None
            and other.message.claim == carrier_id
            and self.time - other.stamp < SILENT
        )


# Grid of the ground: edge of a cell in metres, and cells along each side, centred on the robot's start.
CELL: Final = 0.25
CELLS: Final = 96


@kernel
def _index_k(x: float, y: float, cells: int) -> tuple[int, int]:
    i = math.floor(x / CELL) + cells // 2
    j = math.floor(y / CELL) + cells // 2
    return i, j


@kernel
def see_k(seen: FloatArray, x: float, y: float, radius: float, now: float) -> None:
    """Mark a disc as seen by the cameras."""
    n = seen.shape[0]
    i0, j0 = _index_k(x - radius, y - radius, n)
    i1, j1 = _index_k(x + radius, y + radius, n)
    for i in range(max(i0, 0), min(i1, n - 1) + 1):
        for j in range(max(j0, 0), min(j1, n - 1) + 1):
            cx, cy = (i - n // 2 + 0.5) * CELL - x, (j - n // 2 + 0.5) * CELL - y
            if cx * cx + cy * cy <= radius * radius:
                seen[i, j] = now


@kernel
def clear_k(
    free: FloatArray,
    x: float,
    y: float,
    yaw: float,
    sweep: FloatArray,
    angles: FloatArray,
    reach: float,
    most: float,
) -> None:
    """Mark the cells that the distance sensors see to be free."""
    n = free.shape[0]
    for k in range(angles.shape[0]):
        distance = sweep[k]
        if not math.isfinite(distance):
            continue
        for part in range(-1, 2):
            angle = yaw + angles[k] + 0.12 * part
            c, s = math.cos(angle), math.sin(angle)
            way = reach
            end = min(distance + reach - 0.3, most)
            while way < end:
                i, j = _index_k(x + c * way, y + s * way, n)
                if 0 <= i < n and 0 <= j < n:
                    free[i, j] = 1.0
                way += 0.2


@kernel
def explore_k(
    seen: FloatArray,
    free: FloatArray,
    x: float,
    y: float,
    now: float,
    edge: float,
    others: FloatArray,
    count: int,
    last_x: float,
    last_y: float,
    again: float,
    out: FloatArray,
) -> None:
    """Choose a place to search: near, not seen for long, and far from where others search.

    Args:
        seen: when each cell was last seen.
        free: 1 for cells known to be free of walls.
        x: position of the robot.
        y: likewise.
        now: the time.
        edge: only places with x up to this are searched.
        others: rows x, y: where others are or are going.
        count: how many rows are valid.
        last_x: the place chosen before, NaN if none.
        last_y: likewise.
        again: seconds after which a cell is worth searching again.
        out: x, y and the gain of the place, 0 if there is none.
    """
    n = seen.shape[0]
    out[0], out[1], out[2] = x, y, 0.0
    best = -1e9
    for i in range(2, n - 2):
        cx = (i - n // 2 + 0.5) * CELL
        if cx > edge:
            break
        for j in range(2, n - 2):
            if free[i, j] == 0.0:
                continue
            age = now - seen[i, j]
            if age < again:
                continue
            cy = (j - n // 2 + 0.5) * CELL
            gain = 0.0
            for a in range(-2, 3):
                for b in range(-2, 3):
                    if free[i + a, j + b] > 0.0:
                        gain += min(max(now - seen[i + a, j + b] - again, 0.0) / 60.0, 1.0)
            way = math.hypot(cx - x, cy - y)
            worth = 0.08 * gain - way
            for k in range(count):
                near = math.hypot(cx - others[k, 0], cy - others[k, 1])
                # Another robot would be there sooner.
                if near < way:
                    worth -= min(way - near, 2.0) * 0.7
                worth -= 0.5 * max(1.2 - near, 0.0)
            if not math.isnan(last_x):
                worth += 0.6 * max(1.0 - math.hypot(cx - last_x, cy - last_y), 0.0)
            if worth > best:
                best = worth
                out[0], out[1], out[2] = cx, cy, gain


class Ground:
    """A coarse grid map of the ground, in the robot's own frame."""

    __slots__ = ("_out", "free", "others", "seen")

    NEVER: Final = -1e6

    def __init__(self) -> None:
        """Start with an empty map."""
        self.seen = np.full((CELLS, CELLS), self.NEVER)
        self.free = np.zeros((CELLS, CELLS))
        self.others = np.zeros((64, 2))
        self._out = np.zeros(3)

    def shift(self, x: float) -> None:
        """Shift the map along x with the frame, by whole cells."""
        cells = round(x / CELL)
        if not -CELLS < cells < CELLS:
            self.seen[:] = self.NEVER
            self.free[:] = 0.0
            return
        for grid, empty in ((self.seen, self.NEVER), (self.free, 0.0)):
            moved = np.roll(grid, cells, axis=0)
            if cells > 0:
                moved[:cells] = empty
            elif cells < 0:
                moved[cells:] = empty
            grid[:] = moved

    def see(self, x: float, y: float, radius: float, now: float) -> None:
        """Mark the surroundings of a robot as seen."""
        see_k(self.seen, x, y, radius, now)

    def clear(
        self, x: float, y: float, yaw: float, sweep: FloatArray, angles: FloatArray, reach: float, most: float
    ) -> None:
        """Mark the cells that the distance sensors see to be free, up to `most` metres."""
        clear_k(self.free, x, y, yaw, sweep, angles, reach, most)

    def explore(
        self,
        x: float,
        y: float,
        now: float,
        edge: float,
        others: Iterable[tuple[float, float]],
        last: tuple[float, float] | None,
        again: float,
    ) -> tuple[float, float] | None:
        """Return the place to search next, None if there is none worth it; see `explore_k`."""
        count = 0
        for place in others:
            if count < len(self.others):
                self.others[count] = place
                count += 1
        last_x, last_y = last or (math.nan, math.nan)
        explore_k(self.seen, self.free, x, y, now, edge, self.others, count, last_x, last_y, again, self._out)
        px, py, worth = self._out.tolist()
        return (px, py) if worth > 0.0 else None
