"""Compile all kernels by running the start of some scenarios: `python -m swarmbed_experiments.runs.warm`.

`scripts/setup` calls it once, so that the first run after an installation does not have to compile. Studies
name the scenarios with their kernels (`Study.starts`).
"""

from __future__ import annotations

import contextlib

from swarmbed_core.errors import NotInstalledError
from swarmbed_core.plugins import STUDIES, known

from swarmbed_core import navigation
from swarmbed_experiments.runs.run import warm_up
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_experiments.studies import Start, find_study

CASES: tuple[Start, ...] = (
    ("intralogistics_cooperative", ("robots.0.localised=true",)),
    ("intralogistics_cooperative", ("world=planar",)),
    ("random_walk_1000", ("robots.0.count=20",)),
)
SECONDS = 3.0
"""Seconds of the world's time per scenario: long enough for robots to see carriers and receive messages."""


def cases() -> list[Start]:
    """Return the scenarios to run, each with its changes."""
    return [*CASES, *(start for name in known(STUDIES) for start in find_study(name).starts)]


def main() -> None:
    """Run the start of each scenario."""
    for name, sets in cases():
        scenario, source = load_scenario(name, sets)
        # Without an optional library nobody can run the scenario.
        with contextlib.suppress(NotInstalledError):
            warm_up(scenario, source, SECONDS)
    navigation.warm_up()


if __name__ == "__main__":
    main()
