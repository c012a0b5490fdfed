"""Where code comes from: this workspace, an installed library, or a user."""

from __future__ import annotations

import os
import site
import sysconfig
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

OURS = (
    "swarmbed_core",
    "swarmbed_sim",
    "swarmbed_gazebo",
    "swarmbed_behaviours",
    "swarmbed_experiments",
    "swarmbed_robot",
    "swarmbed_reality",
)
"""Packages of this workspace."""
PREFIX = "swarmbed."
"""Of all groups of entry points that name plugins."""
INSTALLED = frozenset({"site-packages", "dist-packages"})


@cache
def our_folders() -> dict[str, Path]:
    """Return the directories of the packages of this workspace that are installed."""
    found = {name: find_spec(name) for name in OURS}
    return {name: Path(spec.origin).parent for name, spec in found.items() if spec and spec.origin}


@cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages(), "/opt/ros"}
    return tuple(f"{folder}{os.sep}" for folder in sorted(folders))


def is_ours(file: str) -> bool:
    """Return whether a file belongs to a package of this workspace."""
    return file.startswith(tuple(f"{folder}{os.sep}" for folder in our_folders().values()))


def is_library(file: str) -> bool:
    """Return whether a file belongs to Python itself or to an installed package."""
    # Other environments' packages too, which PYTHONPATH may name.
    return file.startswith(("<", *_library_folders())) or not INSTALLED.isdisjoint(Path(file).parts)


def is_our_name(module: str) -> bool:
    """Return whether a module belongs to this workspace, judging by its name."""
    return module.partition(".")[0] in OURS


@cache
def plugin_names() -> frozenset[str]:
    """Return the top-level packages of third-party plugins: worlds, controllers and so on."""
    points = entry_points()
    tops = {
        point.module.partition(".")[0]
        for group in points.groups
        if group.startswith(PREFIX)
        for point in points.select(group=group)
    }
    return frozenset(tops - set(OURS))
