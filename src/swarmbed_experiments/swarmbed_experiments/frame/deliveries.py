"""Measures of transport: virtual items that robots carry from a source to a destination.

A robot that no longer explores takes an item on arrival at the source and delivers it on arrival at the
destination. Items have no bodies, as in the transport study (3.1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from swarmbed_core.config import Part
from swarmbed_core.errors import ConfigError
from swarmbed_core.spec import Positive

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.frame import Judgement, Stand
from swarmbed_experiments.frame.roster import Roster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmbed_experiments.frame import Look, Setting

SLOW = 0.05
"""Speed in m/s below which a robot with a route counts as slow: it waits in traffic, or talks."""
PERIOD = 60.0
"""Seconds between samples of the series in the summary."""


class DeliveriesParameters(Part):
    """Where items are taken and delivered.

    Attributes:
        source: [m, m; map] place where robots take items; by default that of the controller.
        destination: [m, m; map] place where robots deliver items; by default that of the controller.
        within: [m] distance at which a robot is at such a place.
    """

    source: tuple[float, float] | None = None
    destination: tuple[float, float] | None = None
    within: Positive = 1.2


class Ledger:
    """Records which robots took and delivered items, and when."""

    def __init__(self, parameters: DeliveriesParameters, setting: Setting) -> None:
        """Begin without items.

        Raises:
            ConfigError: neither the parameters nor the controller give the source or the destination.
        """
        self.roster = Roster(placement.name for placement in setting.scene.robots)
        count = len(self.roster)
        self._within2 = parameters.within**2
        self._source = _place("source", parameters.source, setting)
        self._destination = _place("destination", parameters.destination, setting)
        self.taken = np.full(count, math.nan)
        self.items = np.zeros(count, dtype=np.int64)
        self.trips: list[float] = []
        self.when: list[float] = []
        self.knows = np.zeros(count, dtype=np.bool_)
        self.knew: list[float] = []
        self._last = np.full(count, math.nan)

    def tick(self, look: Look) -> None:
        """Record the robots at the source and at the destination.

        Raises:
            RunError: the controller reports no `doing` for each robot.
        """
        if len(look.doing) != len(look.names):
            message = (
                "deliveries: the controller does not say what each robot is doing; "
                "give it a list `doing`, with `explore` for robots without a route"
            )
            raise RunError(message)
        roster = self.roster
        if roster.look(look.names):
            self.taken, self._last = (
                roster.widened(self.taken, math.nan),
                roster.widened(self._last, math.nan),
            )
            self.items, self.knows = roster.widened(self.items), roster.widened(self.knows)
        knows = np.zeros(len(roster), dtype=np.bool_)
        knows[roster.here] = [doing not in {"explore", "dead"} for doing in look.doing]
        self.knew += [look.time] * int((knows & ~self.knows).sum())
        self.knows |= knows
        at_source = knows & self._at(look, self._source)
        for row in np.flatnonzero(at_source & np.isnan(self.taken)).tolist():
            self.taken[row] = look.time
            if math.isfinite(self._last[row]):
                self.trips.append(look.time - self._last[row])
            self._last[row] = look.time
        for row in np.flatnonzero(self._at(look, self._destination) & np.isfinite(self.taken)).tolist():
            self.taken[row] = math.nan
            self.items[row] += 1
            self.when.append(look.time)

    def _at(self, look: Look, place: tuple[float, float]) -> Any:
        off = look.robots[:, :2] - np.array(place)
        at = np.zeros(len(self.roster), dtype=np.bool_)
        at[self.roster.here] = off[:, 0] ** 2 + off[:, 1] ** 2 <= self._within2
        return at


def _place(name: str, given: tuple[float, float] | None, setting: Setting) -> tuple[float, float]:
    """Return a given place, or else that of the controller.

    Raises:
        ConfigError: neither exists.
    """
    place = given or setting.scene.scenario.controller.parameters.get(name)
    if place is None:
        message = f"deliveries: {name}: missing, and the controller has none either; set it"
        raise ConfigError(message)
    return float(place[0]), float(place[1])


class Deliveries:
    """Counts deliveries, robots with a route, and robots in traffic jams.

    Columns:
        items: items delivered so far.
        with_route: robots that know a route, which means that they no longer explore.

    Metrics:
        items: items delivered.
        items_by_robot: items that each robot delivered.
        items_when: [s] times of the deliveries.
        with_route_when: [s] times at which robots learnt a route.
        seconds_per_item: [s] mean time between two items that a robot takes; null if none took two.
        slow_robots: robots with a route that stand or talk, one sample per minute.
        jam_robots: number of slow robots in the worst traffic jam.
        jam_seconds: [s] time of the worst jam.
        jam_poses: poses of all robots at that time.
    """

    Parameters: ClassVar[type[Part]] = DeliveriesParameters

    def __init__(self, parameters: DeliveriesParameters, setting: Setting) -> None:
        """Begin."""
        self._ledger = Ledger(parameters, setting)
        self._slow: list[float] = []
        self._jam: tuple[float, float, list[list[float]]] = (-1.0, 0.0, [])
        self._slow_now = np.zeros(len(setting.scene.robots))

    def tick(self, look: Look) -> None:
        """Record deliveries, and count the slow robots."""
        ledger = self._ledger
        ledger.tick(look)
        roster = ledger.roster
        if len(self._slow_now) < len(roster):
            self._slow_now = roster.widened(self._slow_now)
        speed = np.full(len(roster), math.inf)
        speed[roster.here] = np.abs(look.robots[:, 3])
        # Averaged over the last half minute, so that short waits are not a jam.
        self._slow_now += (((speed < SLOW) & ledger.knows) - self._slow_now) / 300.0
        slow = float(self._slow_now.sum())
        if slow > self._jam[0]:
            self._jam = (slow, look.time, np.round(look.robots[:, :3], 2).tolist())
        if int(look.time / PERIOD) > len(self._slow) - 1:
            self._slow.append(slow)

    def row(self) -> Mapping[str, float]:
        """Return the numbers of delivered items and of robots with a route so far."""
        return {"items": float(self._ledger.items.sum()), "with_route": float(self._ledger.knows.sum())}

    def metrics(self) -> Mapping[str, Any]:
        """Return the numbers of the whole run."""
        ledger = self._ledger
        trips = np.array(ledger.trips)
        return {
            "items": int(ledger.items.sum()),
            "items_by_robot": ledger.items.tolist(),
            "items_when": [round(when, 1) for when in ledger.when],
            "with_route_when": [round(when, 1) for when in ledger.knew],
            "seconds_per_item": float(trips.mean()) if len(trips) else math.nan,
            "slow_robots": [round(value, 3) for value in self._slow],
            "jam_robots": self._jam[0],
            "jam_seconds": self._jam[1],
            "jam_poses": self._jam[2],
        }


class DeliveredParameters(DeliveriesParameters):
    """How many items to deliver.

    Attributes:
        items: number of items to deliver.
    """

    items: Annotated[int, Field(ge=1)] = 100


class Delivered:
    """Accepts when enough items are delivered.

    Metrics:
        completion_seconds: [s] time of the delivery that completed the task; null if there was none.
    """

    Parameters: ClassVar[type[Part]] = DeliveredParameters

    def __init__(self, parameters: DeliveredParameters, setting: Setting) -> None:
        """Begin."""
        self._ledger = Ledger(parameters, setting)
        self._wanted = parameters.items
        self._when: float | None = None

    def judge(self, look: Look, *, over: bool) -> Judgement:  # noqa: ARG002 - it only waits
        """Count the deliveries."""
        self._ledger.tick(look)
        done = int(self._ledger.items.sum())
        if done >= self._wanted:
            self._when = look.time
            return Judgement(Stand.ACCEPTED, f"{done} items delivered in {look.time / 60:.1f} min")
        return Judgement(Stand.OPEN, f"{done} of {self._wanted} items delivered in {look.time / 60:.1f} min")

    def metrics(self) -> Mapping[str, Any]:
        """Return the completion time; None if not reached."""
        return {"completion_seconds": self._when}
