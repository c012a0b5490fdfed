"""Images rendered by Gazebo: a `Stage` for `swarmbed_sim.render`.

The plugin moves all visuals to their bodies' poses before each image, so there is nothing to place from here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from swarmbed_gazebo.display import WHAT_TO_DO
from swarmbed_gazebo.errors import GazeboError

if TYPE_CHECKING:
    from swarmbed_sim.stage import ByteArray, Places, View

    from swarmbed_gazebo.server import Server

SHOOT: Final = 16
"""The request; followed by place, forward, up, left, right, bottom, top, near, far, width and height."""
_VIEW = struct.Struct("<I15dII")


class GazeboStage:
    """A server's scene."""

    def __init__(self, server: Server) -> None:
        """Use a server that was started with rendering on."""
        self._server = server

    def place(self, physics: Places) -> None:
        """Do nothing: images show the current poses of the server's bodies."""

    def shoot(self, view: View) -> ByteArray:
        """Return a grey image, its first row at the bottom.

        Raises:
            GazeboError: the server cannot render it.
        """
        edges = view.left, view.right, view.bottom, view.top
        axes = (*view.forward.tolist(), *view.up.tolist())
        width, height = view.size
        depths = view.near, view.far
        answer = self._server.ask(_VIEW.pack(SHOOT, *view.place, *axes, *edges, *depths, width, height))
        if len(answer) != width * height:
            message = f"gzserver cannot render images ({answer.decode(errors='replace')}): {WHAT_TO_DO}"
            raise GazeboError(message)
        return np.frombuffer(answer, dtype=np.uint8).reshape(height, width)

    def close(self) -> None:
        """Do nothing: the world owns the server."""
