"""ROS parameter files, checked before anything starts because rcl ignores names it does not know.

A file has one entry per node, with the node's full name or with the wildcards `*` (one part of a name) and
`**` (any number of parts): `/**/controller: {ros__parameters: {silence: 5.0}}`.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from swarmbed_core.safe_yaml import read

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.launching import trial
from swarmbed_robot import controller, detector, navigator, onboard, recorder, teleop, tf_relay, world

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from swarmbed_robot.options import Option

OPTIONS: dict[str, tuple[Option, ...]] = {
    "world": (*world.OPTIONS, *trial.OPTIONS),
    "onboard": onboard.OPTIONS,
    "controller": controller.OPTIONS,
    "tf_relay": tf_relay.OPTIONS,
    "recorder": recorder.OPTIONS,
    "detector": detector.OPTIONS,
    "teleop": teleop.OPTIONS,
    "navigator": navigator.OPTIONS,
}
"""Options of the nodes that read a parameter file. The node of `trial` is called `world` too."""
IN_ROBOTS = {"controller"}
"""Nodes in their robot's namespace."""
EVERYWHERE = {"use_sim_time", "start_type_description_service"}
"""Parameters of every node."""
PARAMETERS = "ros__parameters"
EXAMPLE = "/**: {ros__parameters: {scan_rate: 20.0}}"


def check_parameters(file: Path, robots: Sequence[str]) -> None:
    """Check that all nodes and parameters that a file names exist.

    Args:
        file: to check.
        robots: names of the robots that have programs.

    Raises:
        ConfigError: the file cannot be read or is not YAML.
        RunError: it is not a parameter file, or a name in it does not exist.
    """
    data = read(file)
    if not isinstance(data, dict) or not data:
        message = f"{file}: no parameters; write entries such as {EXAMPLE}"
        raise RunError(message)
    nodes = {
        full: name
        for name in OPTIONS
        for full in (
            [f"/{robot}/{name}" for robot in robots] if name in IN_ROBOTS else _anywhere(name, robots)
        )
    }
    for pattern, parameters in _entries(file, "", data):
        matched = {name for full, name in nodes.items() if _pattern(pattern).fullmatch(full)}
        if not matched:
            there = [full for full in nodes if full.count("/") == 1 or full.endswith("/controller")]
            message = f"{file}: no node '{pattern}': nodes are {', '.join(there)}; /** matches all"
            raise RunError(message)
        known = {option.name for name in matched for option in OPTIONS[name]} | EVERYWHERE
        for name in _names("", parameters):
            if name not in known and not name.startswith("qos_overrides."):
                close = difflib.get_close_matches(name, known, 3) or sorted(known)
                message = f"{file}: {pattern} has no parameter '{name}': parameters are {', '.join(close)}"
                raise RunError(message)


def _anywhere(name: str, robots: Sequence[str]) -> list[str]:
    return [f"/{name}", *(f"/{robot}/{name}" for robot in robots)]


def _entries(file: Path, above: str, data: dict[Any, Any]) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield the full name and the parameters of each entry."""
    for key, value in data.items():
        if not isinstance(value, dict):
            where = f"{above}/{key}".removeprefix("//")
            message = (
                f"{file}: {where} is {value!r:.60}, not an entry of a node; write entries such as {EXAMPLE}"
            )
            raise RunError(message)
        if key == PARAMETERS:
            if not above:
                message = f"{file}: {PARAMETERS} without a node; write entries such as {EXAMPLE}"
                raise RunError(message)
            yield above, value
        else:
            yield from _entries(file, f"{above}/{str(key).strip('/')}", value)


def _pattern(name: str) -> re.Pattern[str]:
    """Return a regex for the names of nodes: `*` matches one part of a name, `**` any number of parts."""
    made = ""
    for part in name.strip("/").split("/"):
        made += r"(/\w+)*" if part == "**" else r"/\w+" if part == "*" else f"/{re.escape(part)}"
    return re.compile(made)


def _names(above: str, parameters: dict[Any, Any]) -> Iterator[str]:
    """Yield the names of parameters, with dots for nested ones."""
    for key, value in parameters.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _names(f"{name}.", value)
        else:
            yield name
