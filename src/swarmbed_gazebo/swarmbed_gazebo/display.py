"""A virtual X screen in memory (Xvfb), because Gazebo 11 renders only with an X server.

Each simulator has its own screen with a unique display number. Access requires its cookie, and it does not
listen on the network. Its parent is a shell that ends it when the pipe to this process closes, however this
process ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import subprocess
import time
from typing import TYPE_CHECKING, Final

from swarmbed_gazebo.errors import GazeboError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from swarmbed_gazebo.place import Simulator

START: Final = 60.0
"""Timeout in seconds for starting a screen: it takes half a second, but machines may be busy."""
END: Final = 5.0
"""Timeout in seconds for ending it."""
WHAT_TO_DO: Final = (
    "run scripts/setup --gazebo again (for an installed Gazebo: apt-get install xvfb libgl1-mesa-dri), or "
    "use vision: corners, which needs no images"
)
_GUARD: Final = '"$@" & screen=$!; exec >/dev/null; read -r _; kill "$screen" 2>/dev/null; wait "$screen"'
_ANY_DISPLAY: Final = b"\xff\xff" + b"\x00\x00" * 2
"""Start of an authority file's record whose cookie is valid for every address and display number."""
_COOKIE: Final = b"MIT-MAGIC-COOKIE-1"


class Display:
    """One virtual screen.

    Attributes:
        environment: environment variables for programs that use it.
    """

    def __init__(self, place: Simulator, folder: Path, environment: Mapping[str, str]) -> None:
        """Start it.

        Args:
            place: the Gazebo it is for.
            folder: directory for its log and its cookie.
            environment: the Gazebo's environment variables.

        Raises:
            GazeboError: Xvfb is not installed or does not start.
        """
        program = place.screen
        if program is None:
            message = f"Gazebo renders images on a virtual screen, but there is no Xvfb here: {WHAT_TO_DO}"
            raise GazeboError(message)
        authority = folder / "authority"
        authority.touch(mode=0o600)
        cookie = secrets.token_bytes(16)
        parts = (_COOKIE, cookie)
        authority.write_bytes(_ANY_DISPLAY + b"".join(len(part).to_bytes(2, "big") + part for part in parts))
        command = [program, "-displayfd", "1", "-auth", str(authority), "-screen", "0", "64x64x24"]
        command += ["-nolisten", "tcp", "-noreset", "-fp", "built-ins"]
        if place.prefix is not None:
            command += ["-xkbdir", str(place.prefix / "usr/share/X11/xkb")]
        log = folder / "screen.log"
        with log.open("wb") as said:
            self._guard = subprocess.Popen(  # noqa: S603 - the paths are ours
                ["/bin/sh", "-c", _GUARD, "sh", *command],
                # It looks for its keyboard compiler there (see scripts/gazebo).
                cwd=place.prefix,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                # Ctrl-C must not reach it: this process ends it.
                start_new_session=True,
            )
        name = _read_number(self._guard)
        if not name:
            self.close()
            last = log.read_text(errors="replace").strip().splitlines()[-2:]
            message = (
                f"the virtual screen for Gazebo's images does not start ({' / '.join(last)}): {WHAT_TO_DO}"
            )
            raise GazeboError(message)
        self.environment = {
            "DISPLAY": f":{name}",
            "XAUTHORITY": str(authority),
            # Software rendering, so that images do not depend on a graphics card.
            "LIBGL_ALWAYS_SOFTWARE": "1",
        }

    def close(self) -> None:
        """End it; kill it after `END` seconds."""
        guard = self._guard
        if guard.stdin is not None:
            with contextlib.suppress(OSError):
                guard.stdin.close()
        try:
            guard.wait(END)
        except subprocess.TimeoutExpired:
            os.killpg(guard.pid, 9)
            guard.wait()


def _read_number(guard: subprocess.Popen[bytes]) -> str:
    """Return the display number that a screen prints when it is ready; empty if it prints none in time."""
    end, said = time.monotonic() + START, b""
    if guard.stdout is None:
        return ""
    with guard.stdout as pipe:
        while not said.endswith(b"\n"):
            ready, _, _ = select.select([pipe], [], [], max(end - time.monotonic(), 0.0))
            part = os.read(pipe.fileno(), 64) if ready else b""
            if not part:
                return ""
            said += part
    return said.decode().strip()
