"""Locations of the simulators and their plugins, as scripts/setup found or installed them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from swarmbed_core.config import prefixes

from swarmbed_gazebo.errors import GazeboError
from swarmbed_gazebo.sdf import GAZEBO11, HARMONIC, PLUGINS

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "swarmbed_gazebo_plugin"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
NAMES: Final = {GAZEBO11: "Gazebo 11", HARMONIC: "gz-sim 8"}
ADVICE: Final = {
    GAZEBO11: "Run scripts/setup --gazebo, which installs both without root",
    HARMONIC: (
        "Install Gazebo Harmonic (on Ubuntu 24.04 with ros-jazzy-ros-gz), or set SWARMBED_HARMONIC to the "
        "directory of an installed one, and run scripts/setup"
    ),
}


@dataclass(frozen=True, slots=True)
class Simulator:
    """A simulator and the plugin built for it.

    Attributes:
        kind: `GAZEBO11` or `HARMONIC`.
        plugin: the plugin's directory.
        prefix: of the simulator; None if it is installed in the system.
    """

    kind: str
    plugin: Path
    prefix: Path | None

    @property
    def server(self) -> str:
        """Return the simulator's program."""
        name = "gzserver" if self.kind == GAZEBO11 else "gz"
        if self.prefix is None:
            return name
        return str(self.prefix / ("usr/bin" if self.kind == GAZEBO11 else "bin") / name)

    def command(self, seed: int, file: Path) -> Sequence[str]:
        """Return the command line that starts a server."""
        if self.kind == GAZEBO11:
            # Paused until the plugin has loaded, so that nothing moves before.
            options = ("--verbose", "--minimal_comms", "--pause")
            return [self.server, *options, "--seed", str(seed), str(file)]
        return [self.server, "sim", "-s", "-r", "-v", "1", "--seed", str(seed), str(file)]

    @property
    def screen(self) -> str | None:
        """Return the Xvfb program; None if it is not installed."""
        if self.prefix is None:
            return shutil.which("Xvfb")
        program = self.prefix / "usr/bin/Xvfb"
        return str(program) if program.is_file() else None

    def environment(self, port: int, home: Path) -> dict[str, str]:
        """Return the environment variables of a server.

        Args:
            port: of its topics, on this machine only.
            home: home directory, for its logs.
        """
        made = dict(os.environ) | {"HOME": str(home)}
        # It must not use the user's screen.
        made.pop("DISPLAY", None)
        return made | (self._gazebo11(port) if self.kind == GAZEBO11 else self._harmonic(home))

    def _gazebo11(self, port: int) -> dict[str, str]:
        made = {
            "GAZEBO_MASTER_URI": f"http://127.0.0.1:{port}",
            # No requests to the network, and no announcements there.
            "GAZEBO_MODEL_DATABASE_URI": "",
            "GAZEBO_IP": "127.0.0.1",
            "IGN_IP": "127.0.0.1",
        }
        plugins = [str(self.plugin)]
        if self.prefix is not None:
            libraries = self.prefix / LIBRARIES
            plugins.append(str(libraries / "gazebo-11/plugins"))
            parts = ("", "pulseaudio", "lapack", "blas", "gazebo-11/plugins")
            # Only its own libraries: those of the workspace are of other versions.
            made["LD_LIBRARY_PATH"] = os.pathsep.join(
                [
                    *(str(libraries / part) for part in parts),
                    str(self.prefix / "usr/lib"),
                    str(self.prefix / "lib/x86_64-linux-gnu"),
                ]
            )
            made["GAZEBO_RESOURCE_PATH"] = str(self.prefix / "usr/share/gazebo-11")
            made["OGRE_RESOURCE_PATH"] = str(libraries / "OGRE-1.9.0")
            made["LIBGL_DRIVERS_PATH"] = str(libraries / "dri")
            # The libraries in the prefix support only Mesa, whatever the machine has.
            made["__GLX_VENDOR_LIBRARY_NAME"] = "mesa"
        made["GAZEBO_PLUGIN_PATH"] = os.pathsep.join(plugins)
        return made

    def _harmonic(self, home: Path) -> dict[str, str]:
        ours = os.environ.get("VIRTUAL_ENV", "")
        libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        # The libraries in the ROS wheels are for Swarmbed's own programs.
        libraries = [path for path in libraries if path and not (ours and path.startswith(ours))]
        if self.prefix is not None:
            libraries.insert(0, str(self.prefix / "lib"))
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
            "GZ_SIM_SYSTEM_PLUGIN_PATH": os.pathsep.join(
                path for path in (str(self.plugin), os.environ.get("GZ_SIM_SYSTEM_PLUGIN_PATH", "")) if path
            ),
            # Its topics stay on this machine, and separate from other servers'.
            "GZ_IP": "127.0.0.1",
            "GZ_PARTITION": home.name,
        }


def find(kind: str = "") -> Simulator:
    """Return the location of a simulator; without a kind, of any, Gazebo 11 first.

    Raises:
        GazeboError: it is not installed, or has no plugin.
    """
    for one in (kind,) if kind else (GAZEBO11, HARMONIC):
        for prefix in prefixes():
            said, plugin = prefix / "share" / PACKAGE / f"{one}.prefix", prefix / "lib" / PLUGINS[one]
            if said.is_file() and plugin.is_file():
                where = said.read_text(encoding="utf-8").strip()
                place = Simulator(one, plugin.parent, Path(where) if where else None)
                if place.prefix is not None and not Path(place.server).is_file():
                    message = f"{place.server} no longer exists: run scripts/setup --gazebo"
                    raise GazeboError(message)
                return place
    one = kind or GAZEBO11
    message = (
        f"world {kind or 'gazebo'}: there is no {NAMES[one]} here, or no plugin for it. {ADVICE[one]}, "
        "or use world: mujoco"
    )
    raise GazeboError(message)


def missing(kind: str = "") -> str:
    """Return why a simulator is not available here; empty if it is."""
    try:
        find(kind)
    except GazeboError as error:
        return str(error)
    return ""
