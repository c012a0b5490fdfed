"""Routes from a source to a destination: recording, shortening, and merging two of them.

In the transport study ("Investigating Transportation Efficiency in Swarm Robotics with High-Fidelity
Simulation") robots record their way (one place per metre), take shortcuts within view (algorithm 4), and
adopt the shorter sections of another robot's route (algorithm 7). A route is an array of N x 2 places, the
source first.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from swarmbed_core.kernel import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from swarmbed_core.geometry import FloatArray

SPACING = 1.0
"""Metres from one place of a route to the next (4)."""
SAME = 1e-9
"""Metres within which two places count as the same."""


def length(route: FloatArray) -> float:
    """Return the length of a route in metres."""
    return float(np.hypot(*np.diff(route, axis=0).T).sum())


def straight(start: FloatArray, end: FloatArray, spacing: float = SPACING) -> FloatArray:
    """Return a straight route with places that are at most `spacing` apart."""
    steps = max(math.ceil(math.dist(start, end) / spacing - SAME), 1)
    made = start + np.linspace(0.0, 1.0, steps + 1)[:, None] * (end - start)
    made[-1] = end
    return made


def respaced(route: FloatArray, spacing: float = SPACING) -> FloatArray:
    """Return the same route with places inserted where they are farther apart than `spacing`."""
    ways = np.diff(route, axis=0)
    steps = np.maximum(np.ceil(np.hypot(ways[:, 0], ways[:, 1]) / spacing - SAME), 1).astype(np.int64)
    # Number of steps from the start of its section to each new place.
    nth = 1 + np.arange(steps.sum()) - np.repeat(np.cumsum(steps) - steps, steps)
    share = (nth / np.repeat(steps, steps))[:, None]
    made = np.repeat(route[:-1], steps, axis=0) + share * np.repeat(ways, steps, axis=0)
    # Keep the original places exactly.
    made[np.cumsum(steps) - 1] = route[1:]
    return np.vstack([route[:1], made])


@kernel
def thin_k(route: FloatArray, spacing: float, made: FloatArray) -> int:
    """Write the places that `thinned` keeps; return their number."""
    made[0] = route[0]
    count = 1
    last = route.shape[0] - 1
    for k in range(1, last):
        if math.hypot(route[k, 0] - made[count - 1, 0], route[k, 1] - made[count - 1, 1]) >= spacing:
            made[count] = route[k]
            count += 1
    if (
        count > 1
        and math.hypot(route[last, 0] - made[count - 1, 0], route[last, 1] - made[count - 1, 1]) < spacing
    ):
        count -= 1
    made[count] = route[last]
    return count + 1


def thinned(route: FloatArray, spacing: float = SPACING / 2) -> FloatArray:
    """Return a route without places nearer than `spacing` to the previous one; both ends stay."""
    made = np.empty_like(route)
    return made[: thin_k(route, spacing, made)].copy()


class Trail:
    """The recorded way of a robot that looks for the destination."""

    def __init__(self, source: Sequence[float] | FloatArray, spacing: float = SPACING) -> None:
        """Start at the source."""
        self._spacing = spacing
        self._places = [(float(source[0]), float(source[1]))]

    def add(self, place: Sequence[float] | FloatArray) -> None:
        """Record a place, if it is far enough from the last."""
        x, y = self._places[-1]
        if math.hypot(place[0] - x, place[1] - y) >= self._spacing:
            self._places.append((float(place[0]), float(place[1])))

    def ended(self, destination: Sequence[float] | FloatArray) -> FloatArray:
        """Return the route to the destination, which is reached."""
        return np.array([*self._places, (destination[0], destination[1])], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A shortened route, and the index of the place from which the robot continues."""

    route: FloatArray
    index: int


def smoothed(
    route: FloatArray,
    index: int,
    here: FloatArray,
    *,
    outward: bool,
    vision: float,
    is_free: Callable[[FloatArray], bool],
    least: float = SAME,
) -> Smoothed | None:
    """Return a route with the best shortcut within view, None if there is none (algorithm 4).

    Args:
        route: the robot's route.
        index: index of its current or next place.
        here: position of the robot.
        outward: whether it is on the way to the destination, and not back.
        vision: range of its view, in metres.
        is_free: whether the straight way to a place is free, as far as the robot can see.
        least: metres that a shortcut must save at least.
    """
    ways = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(route, axis=0).T))])
    candidates = np.arange(index + 1, len(route)) if outward else np.arange(index - 1, -1, -1)
    off = route[candidates] - here
    apart = np.hypot(off[:, 0], off[:, 1])
    gains = math.dist(here, route[index]) + np.abs(ways[candidates] - ways[index]) - apart
    worth = np.flatnonzero((apart <= vision) & (gains > least))
    # `is_free` is expensive: check the best candidates first.
    best = next(
        (
            int(candidates[k])
            for k in worth[np.argsort(-gains[worth], kind="stable")]
            if is_free(route[candidates[k]])
        ),
        -1,
    )
    if best < 0:
        return None
    shortcut = straight(here, route[best])
    if outward:
        made = np.vstack([route[:index], shortcut, route[best + 1 :]])
        return _joined(made, index, route[0], route[-1])
    made = np.vstack([route[:best], shortcut[::-1], route[index + 1 :]])
    return _joined(made, best + len(shortcut) - 1, route[0], route[-1])


def _joined(made: FloatArray, index: int, source: FloatArray, destination: FloatArray) -> Smoothed:
    """Make a route start at the source and end at the destination."""
    if math.dist(made[0], source) > SAME:
        made, index = np.vstack([source, made]), index + 1
    if math.dist(made[-1], destination) > SAME:
        made = np.vstack([made, destination])
    made[0], made[-1] = source, destination
    return Smoothed(made, index)


# Two routes


@dataclass(frozen=True)
class Crossing:
    """A crossing of two routes: the distance along each, and the place."""

    along_one: float
    along_other: float
    place: tuple[float, float]


def crossings(one: FloatArray, other: FloatArray) -> list[Crossing]:
    """Return the crossings and contacts of two routes, in the order of the first."""
    along_one = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(one, axis=0).T))])
    along_other = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(other, axis=0).T))])
    found: dict[tuple[int, int], Crossing] = {}

    def note(a: float, b: float, place: FloatArray) -> None:
        key = (round(a / 1e-6), round(b / 1e-6))
        found.setdefault(key, Crossing(float(a), float(b), (float(place[0]), float(place[1]))))

    p, r = one[:-1], np.diff(one, axis=0)
    for j in range(len(other) - 1):
        q, s = other[j], other[j + 1] - other[j]
        across = r[:, 0] * s[1] - r[:, 1] * s[0]
        away = q - p
        with np.errstate(all="ignore"):
            t = (away[:, 0] * s[1] - away[:, 1] * s[0]) / across
            u = (away[:, 0] * r[:, 1] - away[:, 1] * r[:, 0]) / across
        meets = (np.abs(across) > SAME) & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
        for i in np.flatnonzero(meets).tolist():
            ways = along_one[i] + t[i] * math.hypot(*r[i]), along_other[j] + u[i] * math.hypot(*s)
            note(*ways, p[i] + t[i] * r[i])
    # Common places: of overlapping lines, only the ends are crossings.
    for j, place in enumerate(other):
        for i in np.flatnonzero(np.hypot(*(one - place).T) <= SAME).tolist():
            note(along_one[i], along_other[j], place)
    return sorted(found.values(), key=lambda item: (item.along_one, item.along_other))


def _section(route: FloatArray, start: float, end: float) -> FloatArray:
    """Return the section of a route between two distances along it, reversed if `start` is the larger."""
    if start > end:
        return _section(route, end, start)[::-1]
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(route, axis=0).T))])
    ends = [[np.interp(way, along, route[:, axis]) for axis in (0, 1)] for way in (start, end)]
    return np.vstack([ends[0], route[(along > start + SAME) & (along < end - SAME)], ends[1]])


def shared(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the shortest route that can be merged from sections of two (algorithm 7).

    Both start at the source and end at the destination. Between crossings, each section is taken from one or
    the other. If the crossings are in the same order on both, this is the algorithm's result; if not, a loop
    is left out as well.
    """
    routes = (one, other)
    lengths = (length(one), length(other))
    # Nodes of the graph: the common source and destination, and all crossings.
    nodes = [(0.0, 0.0), lengths, *((item.along_one, item.along_other) for item in crossings(one, other))]
    edges: list[list[tuple[int, int, float]]] = [[] for _ in nodes]
    for which in (0, 1):
        order = sorted(range(len(nodes)), key=lambda k: nodes[k][which])
        for a, b in pairwise(order):
            way = nodes[b][which] - nodes[a][which]
            edges[a].append((b, which, way))
            edges[b].append((a, which, way))
    best = {0: 0.0}
    before: dict[int, tuple[int, int]] = {}
    queue = [(0.0, 0)]
    while queue:
        way, node = heapq.heappop(queue)
        if node == 1:
            break
        if way > best[node]:
            continue
        for to, which, more in edges[node]:
            if way + more < best.get(to, math.inf) - SAME:
                best[to] = way + more
                before[to] = (node, which)
                heapq.heappush(queue, (best[to], to))
    parts, node = [], 1
    while node:
        came, which = before[node]
        parts.append(_section(routes[which], nodes[came][which], nodes[node][which]))
        node = came
    made = np.vstack(parts[::-1])
    keep = np.concatenate([[True], np.hypot(*np.diff(made, axis=0).T) > SAME])
    found: FloatArray = made[keep]
    found[0], found[-1] = one[0], one[-1]
    return found


def nearest_index(route: FloatArray, here: FloatArray) -> int:
    """Return the index of the nearest place of a route: where a robot joins a route that it received."""
    return int(np.argmin(np.hypot(*(route - here).T)))
