"""A screen that is only memory (Xvfb): Gazebo 11 draws on none but an X server's.

Each server has one of its own, with a number that nobody else has. Only who has its cookie gets in, and it
listens on no network. A shell is its parent and ends it when its line to this process is cut, whatever ends
this process.
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

    from swarmbed_gazebo.place import Place

START: Final = 60.0
"""Seconds that a screen is given to start: it takes half a second, but machines may be busy."""
END: Final = 5.0
"""Seconds that it is given to end."""
WHAT_TO_DO: Final = (
    "run scripts/setup --gazebo again (for an installed Gazebo: apt-get install xvfb libgl1-mesa-dri), or "
    "take vision: corners, which needs no images"
)
_GUARD: Final = '"$@" & screen=$!; exec >/dev/null; read -r _; kill "$screen" 2>/dev/null; wait "$screen"'
_ANY_DISPLAY: Final = b"\xff\xff" + b"\x00\x00" * 2
"""How a cookie's record in an authority file begins that is for every address and every number."""
_COOKIE: Final = b"MIT-MAGIC-COOKIE-1"


class Display:
    """One virtual screen.

    Attributes:
        environment: what programs that draw on it need.
    """

    def __init__(self, place: Place, folder: Path, environment: Mapping[str, str]) -> None:
        """Start it.

        Args:
            place: which Gazebo it is for.
            folder: gets its log and its cookie.
            environment: of the Gazebo.

        Raises:
            GazeboError: there is none, or it does not start.
        """
        program = place.screen
        if program is None:
            message = f"Gazebo draws images on a virtual screen, and there is no Xvfb here: {WHAT_TO_DO}"
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
                # It looks for what reads keyboards' layouts there (see scripts/gazebo).
                cwd=place.prefix,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                # Ctrl-C is for whoever started it.
                start_new_session=True,
            )
        name = _read_number(self._guard)
        if not name:
            self.close()
            last = log.read_text(errors="replace").strip().splitlines()[-2:]
            message = (
                f"the virtual screen that Gazebo draws on does not start ({' / '.join(last)}): {WHAT_TO_DO}"
            )
            raise GazeboError(message)
        self.environment = {
            "DISPLAY": f":{name}",
            "XAUTHORITY": str(authority),
            # No graphics card has a part in what robots see.
            "LIBGL_ALWAYS_SOFTWARE": "1",
        }

    def close(self) -> None:
        """End it."""
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
    """Return the number that a screen tells when it is ready; nothing if it tells none."""
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
