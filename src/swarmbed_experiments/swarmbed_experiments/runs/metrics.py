"""Names, units and order of metrics.

`METRICS` holds the built-in ones. A user's transducer, acceptor or controller declares the units of its
metrics in a class attribute, `UNITS = {"clusters": "", "nearest": "m"}`; names with an ending such as
`_seconds` need no declaration.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from swarmbed_core.errors import SwarmbedError
from swarmbed_core.plugins import ACCEPTORS, CONTROLLERS, TRANSDUCERS, find_plugin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from swarmbed_core.scenario import Scenario

OWN_RANK = 15
"""Rank of users' metrics: after the results of tasks, before details."""
ENDINGS = {
    "_seconds": "s",
    "_minutes": "min",
    "_speed": "m/s",
    "_wh": "Wh",
    "_percent": "%",
    "_deg": "°",
    "_rad": "rad",
    "_cm": "cm",
    "_mm": "mm",
    "_m": "m",
    "_hz": "Hz",
}
"""Units by the ending of a metric's name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        text: the name shown to users.
        unit: empty for counts and shares.
        rank: lower is shown first; None for metrics that only files hold.
    """

    text: str
    unit: str = ""
    rank: int | None = None


METRICS: Mapping[str, Metric] = {
    "completion_seconds": Metric("done after", "s", 0),
    "carriers_retrieved": Metric("carriers retrieved", "", 1),
    "items": Metric("items delivered", "", 2),
    "seconds_per_item": Metric("round trip with an item, mean", "s", 3),
    "convoy_error": Metric("error of the convoy, mean", "m", 4),
    "formation_error_max": Metric("formation error, worst", "m", 5),
    "goal_error": Metric("distance from the goal", "m", 6),
    "escaped_seconds": Metric("drop zone left after", "s", 20),
    "formation_turn_max": Metric("formation turned by at most", "rad", 21),
    "convoy_error_worst": Metric("error of the convoy, worst robot", "m", 22),
    "convoy_speed": Metric("speed of the convoy", "m/s", 23),
    "convoy_adjustments_per_robot": Metric("adjustments of a robot", "", 24),
    "convoy_lost": Metric("robots lost by the convoy", "", 25),
    "convoy_rounds": Metric("rounds of the convoy", "", 26),
    "routes_found": Metric("routes found", "", 27),
    "routes_given": Metric("routes received", "", 28),
    "talks_begun": Metric("talks", "", 29),
    "talk_seconds": Metric("a talk, mean", "s", 30),
    "jam_robots": Metric("robots in the worst jam", "", 31),
    "jam_seconds": Metric("worst jam after", "s"),
    "localisation_error_mean": Metric("localisation error, mean", "m", 35),
    "localisation_error_max": Metric("localisation error, worst", "m", 36),
    "collisions": Metric("collisions between robots", "", 40),
    "max_approach_speed": Metric("fastest approach of two robots", "m/s", 41),
    "distance_per_robot": Metric("distance per robot", "m", 42),
    "energy_wh": Metric("energy, all robots", "Wh", 43),
    "messages": Metric("messages sent", "", 44),
    "messages_lost": Metric("messages lost", "", 45),
    "messages_heard": Metric("messages received"),
    "carriers": Metric("carriers"),
    "lifts": Metric("carriers lifted, times"),
    "contacts_with_carriers": Metric("contacts with carriers"),
    "contacts_with_walls": Metric("contacts with walls and obstacles"),
    "max_contact_speed": Metric("fastest contact", "m/s"),
    "max_speed": Metric("fastest robot", "m/s"),
    "distances": Metric("distance of each robot", "m"),
    "convoy_errors": Metric("error of the convoy over time", "m"),
    "convoy_error_along": Metric("error of the convoy along its length", "m"),
    "items_by_robot": Metric("items of each robot"),
    "items_when": Metric("when items were delivered", "s"),
    "with_route_when": Metric("when robots got a route", "s"),
    "slow_robots": Metric("robots standing still, each minute"),
    "jam_poses": Metric("where robots stood in the worst jam"),
    "routes": Metric("routes"),
    "talks": Metric("when robots talked", "s"),
    "sim_seconds": Metric("simulated time", "s"),
    "wall_seconds": Metric("computed in", "s"),
    "cpu_seconds": Metric("CPU time", "s"),
    "real_time_factor": Metric("times real time"),
}
SENSES = ("proximity", "light", "ground", "tof", "encoders", "camera", "imu", "battery")
"""Names that `readings` records, each also with `_times` and `_poses`."""
COSTS = ("sim_seconds", "wall_seconds", "cpu_seconds", "real_time_factor")
"""Cost of a run; tables show these last."""


def in_words(name: str) -> str:
    """Return a metric's name for users: text for built-in metrics, the plain name for others."""
    return METRICS[name].text if name in METRICS else name


def unit_of(name: str, declared: Mapping[str, str] | None = None) -> str:
    """Return the unit of a metric, empty if it has none or none is known.

    Args:
        name: such as `completion_seconds`. For a dotted name such as `distances.dots1`, the part before the
            dot decides if the whole name is unknown.
        declared: the result of `units_of`.
    """
    for part in (name.removeprefix("metrics."), name.partition(".")[0]):
        if declared and part in declared:
            return declared[part]
        if part in METRICS:
            return METRICS[part].unit
        for end, unit in ENDINGS.items():
            if part.endswith(end):
                return unit
    return ""


def label_of(name: str, declared: Mapping[str, str] | None = None) -> str:
    """Return the label of an axis: the metric's name with its unit."""
    unit = unit_of(name, declared)
    return f"{in_words(name)} ({unit})" if unit else in_words(name)


def rank_of(name: str) -> int | None:
    """Return a metric's rank: lower is shown first, None for metrics that only files hold."""
    if name in METRICS:
        return METRICS[name].rank
    if any(name == sense or name in {f"{sense}_times", f"{sense}_poses"} for sense in SENSES):
        return None
    return OWN_RANK


def by_rank(names: Iterable[str]) -> list[str]:
    """Return the metrics that have a rank, most important first."""
    ranked = [(rank, name) for name in names if (rank := rank_of(name)) is not None]
    return [name for _, name in sorted(ranked, key=lambda item: item[0])]


def units_of(scenario: Scenario) -> dict[str, str]:
    """Return the units that a scenario's transducers, acceptors and controller declare in `UNITS`."""
    found: dict[str, str] = {}
    parts = [(TRANSDUCERS, part.name) for part in scenario.frame.transducers]
    parts += [(ACCEPTORS, part.name) for part in scenario.frame.acceptors]
    for group, name in [*parts, (CONTROLLERS, scenario.controller.name)]:
        with contextlib.suppress(SwarmbedError):
            found.update(_declared(find_plugin(group, name)))
    return found


def _declared(made: object) -> dict[str, str]:
    units = getattr(made, "UNITS", None)
    return {str(name): str(unit) for name, unit in units.items()} if isinstance(units, dict) else {}
