"""Compile all kernels by running the start of some scenarios: `python -m swarmbed_experiments.runs.warm`.

`scripts/setup` calls it once, so that the first run after an installation does not have to compile.
"""

from __future__ import annotations

from swarmbed_core import navigation
from swarmbed_experiments.runs.run import warm_up
from swarmbed_experiments.runs.scenarios import load_scenario

CASES = (
    ("intralogistics_cooperative", ["robots.0.localised=true"]),
    ("intralogistics_cooperative", ["world=planar"]),
    ("random_walk_1000", ["robots.0.count=20"]),
    ("convoy", ["robots.0.count=3"]),
    ("convoy_devs", ["robots.0.count=3"]),
    ("transport", ["robots.0.count=6", "controller.silence=0", "controller.traffic=[swerve, driving]"]),
    ("epuck2_50", ["robots.0.count=3", "robots.0.crowd.senses=null", "robots.0.crowd.battery=cubic"]),
)
SECONDS = 3.0
"""Seconds of the world's time per scenario: long enough for robots to see carriers and receive messages."""


def main() -> None:
    """Run the start of each scenario."""
    for name, sets in CASES:
        scenario, source = load_scenario(name, sets)
        warm_up(scenario, source, SECONDS)
    navigation.warm_up()


if __name__ == "__main__":
    main()
