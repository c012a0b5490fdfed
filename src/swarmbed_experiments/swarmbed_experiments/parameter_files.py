"""Files of ROS parameters, checked before anything starts: rcl ignores names that it does not know.

A file has an entry for each node, by name, with its namespace or with the wildcards `*` (one part of a name)
and `**` (any number of them): `/**/controller: {ros__parameters: {silence: 5.0}}`.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from swarmbed_core.safe_yaml import read

from swarmbed_experiments import trial
from swarmbed_experiments.errors import RunError
from swarmbed_robot import controller, detector, onboard, recorder, teleop, tf_relay, world

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
}
"""Of the nodes that read such a file; the world of a run that is judged, `trial`, is called `world` too."""
IN_ROBOTS = {"controller"}
"""Nodes in the namespace of their robot."""
EVERYWHERE = {"use_sim_time", "start_type_description_service"}
"""Parameters that every node has."""
PARAMETERS = "ros__parameters"
EXAMPLE = "/**: {ros__parameters: {scan_rate: 20.0}}"


def check_parameters(file: Path, robots: Sequence[str]) -> None:
    """Accept a file whose entries are of nodes that there are and of parameters that they have.

    Args:
        file: to be read.
        robots: that have programs.

    Raises:
        ConfigError: it cannot be read or is not YAML.
        RunError: it is no file of parameters, or a name in it does not exist.
    """
    data = read(file)
    if not isinstance(data, dict) or not data:
        message = f"{file}: no parameters in it; entries such as {EXAMPLE} are right"
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
            message = f"{file}: no node '{pattern}': there are {', '.join(there)}, and /** for all"
            raise RunError(message)
        known = {option.name for name in matched for option in OPTIONS[name]} | EVERYWHERE
        for name in _names("", parameters):
            if name not in known and not name.startswith("qos_overrides."):
                close = difflib.get_close_matches(name, known, 3) or sorted(known)
                message = f"{file}: {pattern} has no parameter '{name}': there are {', '.join(close)}"
                raise RunError(message)


def _anywhere(name: str, robots: Sequence[str]) -> list[str]:
    return [f"/{name}", *(f"/{robot}/{name}" for robot in robots)]


def _entries(file: Path, above: str, data: dict[Any, Any]) -> Iterator[tuple[str, dict[Any, Any]]]:
    """Yield the full name of each entry, and its parameters."""
    for key, value in data.items():
        if not isinstance(value, dict):
            where = f"{above}/{key}".removeprefix("//")
            message = (
                f"{file}: {where} is {value!r:.60}, which is no entry of a node; "
                f"entries such as {EXAMPLE} are right"
            )
            raise RunError(message)
        if key == PARAMETERS:
            if not above:
                message = f"{file}: {PARAMETERS} of no node; entries such as {EXAMPLE} are right"
                raise RunError(message)
            yield above, value
        else:
            yield from _entries(file, f"{above}/{str(key).strip('/')}", value)


def _pattern(name: str) -> re.Pattern[str]:
    """Return what the names of nodes have to match: `*` is one part of a name, `**` any number of them."""
    made = ""
    for part in name.strip("/").split("/"):
        made += r"(/\w+)*" if part == "**" else r"/\w+" if part == "*" else f"/{re.escape(part)}"
    return re.compile(made)


def _names(above: str, parameters: dict[Any, Any]) -> Iterator[str]:
    """Yield the names of parameters, those of nested ones with dots."""
    for key, value in parameters.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _names(f"{name}.", value)
        else:
            yield name
