"""Where Gazebo and the plugin are: what `scripts/setup --gazebo` has left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from swarmbed_core.config import prefixes

from swarmbed_gazebo.errors import GazeboError
from swarmbed_gazebo.sdf import PLUGIN

PACKAGE = "swarmbed_gazebo_plugin"
LIBRARIES = "usr/lib/x86_64-linux-gnu"


@dataclass(frozen=True, slots=True)
class Place:
    """A Gazebo 11 and the plugin that was built for it.

    Attributes:
        plugin: the directory that it is in.
        prefix: of the Gazebo; None for one that the system has.
    """

    plugin: Path
    prefix: Path | None

    @property
    def server(self) -> str:
        """Return the program that simulates."""
        return "gzserver" if self.prefix is None else str(self.prefix / "usr/bin/gzserver")

    def environment(self, port: int, home: Path) -> dict[str, str]:
        """Return what a server's environment is.

        Args:
            port: on which its own topics are, on this machine only.
            home: where it may leave its logs.
        """
        made = dict(os.environ)
        made |= {
            "HOME": str(home),
            "GAZEBO_MASTER_URI": f"http://127.0.0.1:{port}",
            # Nothing is asked for on the network, and nobody there hears of it.
            "GAZEBO_MODEL_DATABASE_URI": "",
            "GAZEBO_IP": "127.0.0.1",
            "IGN_IP": "127.0.0.1",
        }
        plugins = [str(self.plugin)]
        if self.prefix is not None:
            libraries = self.prefix / LIBRARIES
            plugins.append(str(libraries / "gazebo-11/plugins"))
            parts = ("", "pulseaudio", "lapack", "blas", "gazebo-11/plugins")
            # Its own only: what the workspace stands on is of another age.
            made["LD_LIBRARY_PATH"] = os.pathsep.join(
                [
                    *(str(libraries / part) for part in parts),
                    str(self.prefix / "usr/lib"),
                    str(self.prefix / "lib/x86_64-linux-gnu"),
                ]
            )
            made["GAZEBO_RESOURCE_PATH"] = str(self.prefix / "usr/share/gazebo-11")
            made["OGRE_RESOURCE_PATH"] = str(libraries / "OGRE-1.9.0")
        made["GAZEBO_PLUGIN_PATH"] = os.pathsep.join(plugins)
        return made


def find() -> Place:
    """Return where Gazebo is.

    Raises:
        GazeboError: there is none, or no plugin for it.
    """
    for prefix in prefixes():
        said, plugin = prefix / "share" / PACKAGE / "gazebo11.prefix", prefix / "lib" / PLUGIN
        if said.is_file() and plugin.is_file():
            where = said.read_text(encoding="utf-8").strip()
            place = Place(plugin.parent, Path(where) if where else None)
            if place.prefix is not None and not Path(place.server).is_file():
                message = f"there is no {place.server} any more: run scripts/setup --gazebo"
                raise GazeboError(message)
            return place
    message = (
        "world gazebo: there is no Gazebo 11 here, or no plugin for it. Run scripts/setup --gazebo, "
        "which brings both without root, or take world: mujoco"
    )
    raise GazeboError(message)


def missing() -> str:
    """Return why no world can be in Gazebo here; nothing if one can."""
    try:
        find()
    except GazeboError as error:
        return str(error)
    return ""
