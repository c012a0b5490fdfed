"""Names, units and order of metrics.

Packages declare theirs in the entry point group `swarmbed.metrics`. A class in a file beside the scenario
declares the units of its metrics in an attribute, `UNITS = {"clusters": "", "nearest": "m"}`; names with an
ending such as `_seconds` need no declaration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from swarmbed_core.errors import SwarmbedError
from swarmbed_core.metric import Metric
from swarmbed_core.plugins import ACCEPTORS, CONTROLLERS, METRICS, TRANSDUCERS, find_plugin, known

if TYPE_CHECKING:
    from collections.abc import Iterable

    from swarmbed_core.scenario import Scenario

OURS = "swarmbed_"
"""Start of the names in the group of this workspace's packages."""
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


COSTS = ("sim_seconds", "wall_seconds", "cpu_seconds", "real_time_factor")
"""Cost of a run; tables show these last."""


@cache
def declared() -> Mapping[str, Metric]:
    """Return the metrics that packages declare. What cannot be loaded is left out."""
    found: dict[str, Metric] = {}
    # Nobody renames our own.
    for group in sorted(known(METRICS), key=lambda name: name.startswith(OURS), reverse=True):
        with contextlib.suppress(SwarmbedError):
            made = find_plugin(METRICS, group)
            if isinstance(made, Mapping):
                metrics = {str(name): each for name, each in made.items() if isinstance(each, Metric)}
                found = metrics | found
    return found


def in_words(name: str) -> str:
    """Return a metric's name for users: its text if it is declared, else the plain name."""
    return declared()[name].text if name in declared() else name


def unit_of(name: str, own: Mapping[str, str] | None = None) -> str:
    """Return the unit of a metric, empty if it has none or none is known.

    Args:
        name: such as `completion_seconds`. For a dotted name such as `distances.dots1`, the part before the
            dot decides if the whole name is unknown.
        own: the result of `units_of`.
    """
    for part in (name.removeprefix("metrics."), name.partition(".")[0]):
        if own and part in own:
            return own[part]
        if part in declared():
            return declared()[part].unit
        for end, unit in ENDINGS.items():
            if part.endswith(end):
                return unit
    return ""


def label_of(name: str, own: Mapping[str, str] | None = None) -> str:
    """Return the label of an axis: the metric's name with its unit."""
    unit = unit_of(name, own)
    return f"{in_words(name)} ({unit})" if unit else in_words(name)


def rank_of(name: str) -> int | None:
    """Return a metric's rank: lower is shown first, None for metrics that only files hold."""
    return declared()[name].rank if name in declared() else OWN_RANK


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
