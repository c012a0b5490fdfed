"""Plugins: worlds, controllers, devices, readings, studies, metrics and the parts of frames, found by name.

A package adds a plugin through an entry point (`swarmbed.worlds`, `swarmbed.controllers`,
`swarmbed.generators`, `swarmbed.transducers`, `swarmbed.acceptors`, `swarmbed.observers`,
`swarmbed.devices`, `swarmbed.readings`, `swarmbed.crowd_readings`, `swarmbed.studies`,
`swarmbed.metrics`). No change is needed here.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from swarmbed_core.errors import FOREIGN, ConfigError, described

WORLDS = "swarmbed.worlds"
CONTROLLERS = "swarmbed.controllers"
GENERATORS = "swarmbed.generators"
TRANSDUCERS = "swarmbed.transducers"
ACCEPTORS = "swarmbed.acceptors"
DEVICES = "swarmbed.devices"
READINGS = "swarmbed.readings"
CROWD_READINGS = "swarmbed.crowd_readings"
STUDIES = "swarmbed.studies"
METRICS = "swarmbed.metrics"
OBSERVERS = "swarmbed.observers"


def known(group: str) -> list[str]:
    """Return the names registered in a group, sorted."""
    return sorted({point.name for point in entry_points(group=group)})


def look_in(directory: Path) -> None:
    """Append a directory to Python's path, so that `module:attribute` finds modules beside a scenario."""
    here = os.path.abspath(directory)  # noqa: PTH100 - without following links
    if here not in sys.path:
        sys.path.append(here)


def find_plugin(group: str, name: str) -> Any:
    """Return the plugin registered as `name`, or the object that `module:attribute` names.

    The second form is for programs outside any package. The module's file is beside the scenario that names
    it, in the current directory, or elsewhere on Python's path.

    Raises:
        ConfigError: there is no such plugin, or more than one, or it cannot be imported.
    """
    what = group.rpartition(".")[2].removesuffix("s").replace("studie", "study")
    points = [point for point in entry_points(group=group) if point.name == name]
    if not points and ":" in name:
        look_in(Path.cwd())
        points = [EntryPoint(name, name, group)]
    if not points:
        message = f"no {what} '{name}': there are {', '.join(known(group)) or 'none'}; module:Name works too"
        raise ConfigError(message)
    programs = sorted({point.value for point in points})
    if len(programs) > 1:
        message = f"{what} '{name}' is registered more than once: write {' or '.join(programs)}"
        raise ConfigError(message)
    try:
        return points[0].load()
    except FOREIGN as error:
        message = f"{what} '{name}' ({points[0].value}) cannot be imported: {described(error)}"
        raise ConfigError(message) from error
