"""A simulator process that runs in lock-step with this one, and exits with it."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from swarmbed_gazebo.core import SharedCore
from swarmbed_gazebo.display import Display
from swarmbed_gazebo.errors import CrashError, GazeboError
from swarmbed_gazebo.place import find
from swarmbed_gazebo.sdf import GAZEBO11

if TYPE_CHECKING:
    from collections.abc import Callable

START: Final = 120.0
"""Timeout in seconds for starting a server: it takes two, but machines may be busy."""
ANSWER: Final = 60.0
"""Timeout in seconds for an answer; it takes milliseconds."""
END: Final = 5.0
"""Timeout in seconds for ending it."""
LOOK: Final = 0.1
TRIES: Final = 3
"""Attempts to start if another program takes the port in between."""
CRASHES: Final = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}
)
"""Signals that a crashing program raises itself, rather than receiving them from another process."""
LAST_WORDS: Final = 4
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CHATTER = re.compile(
    r"\[(Msg|Wrn)\]|ALSA|^AL lib|OpenAL|audio|open display|^(Gazebo multi|Copyright|Released|http)"
)
"""Log lines that every server without a screen and audio prints."""
FATAL = re.compile(r"Error (parsing|Code)|Error: +Could not|Unable to read|Failed to load (system )?plugin")
_SIZE = struct.Struct("<I")


class Server:
    """A gzserver or `gz sim` with one world, which advances only on request.

    Attributes:
        kind: `GAZEBO11` or `HARMONIC`.
        draws: whether it renders images.
    """

    def __init__(
        self, world: Callable[[str, str], str], seed: int, kind: str = "", *, draws: bool = False
    ) -> None:
        """Start it and wait until it has loaded the world.

        Args:
            world: returns the text of the world file, from the path at which the proxy listens and the kind
                of simulator.
            seed: of Gazebo's own random numbers.
            kind: of the simulator; empty for any.
            draws: whether to render images; only Gazebo 11 can.

        Raises:
            CrashError: it crashes.
            GazeboError: it does not start.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="swarmbed-gazebo-")
        folder = Path(self._folder.name)
        self._log = folder / "log"
        self._program = "the simulator"
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._display: Display | None = None
        self._core: SharedCore | None = None
        screen: dict[str, str] = {}
        try:
            place = find(kind)
            self.kind = place.kind
            self.draws = draws and place.kind == GAZEBO11
            if self.draws:
                self._display = Display(place, folder, place.environment(0, folder))
                screen = self._display.environment
            self._program = Path(place.server).name
            path = folder / "socket"
            file = folder / "swarmbed.world"
            file.write_text(world(str(path), place.kind), encoding="utf-8")
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(str(path))
                door.listen(1)
                door.settimeout(LOOK)
                for left in range(TRIES - 1, -1, -1):
                    with self._log.open("wb") as log:
                        self._process = subprocess.Popen(  # noqa: S603 - the path is ours
                            place.command(seed, file),
                            env=place.environment(_free_port(), folder) | screen,
                            stdin=subprocess.DEVNULL,
                            stdout=log,
                            stderr=subprocess.STDOUT,
                            # Ctrl-C must not reach it: this process ends it.
                            start_new_session=True,
                        )
                    self._line = self._wait(door, again=left > 0)
                    if self._line is not None:
                        break
            if self._process is not None and not self.draws:
                # Rendering uses all cores, so a server that renders is not pinned.
                self._core = SharedCore(self._process.pid)
        except OSError as error:
            self.close()
            message = f"{self._program} does not start: {error}"
            raise GazeboError(message) from None
        except BaseException:
            self.close()
            raise

    def _wait(self, door: socket.socket, *, again: bool) -> socket.socket | None:
        """Wait until the world is loaded; return the connection to it, None to try again."""
        end = time.monotonic() + START
        while time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                line, _ = door.accept()
                line.settimeout(ANSWER)
                return line
            if self._process is not None and self._process.poll() is not None:
                if again and "address already in use" in self._said().lower():
                    return None
                self._give_up("did not start")
            if FATAL.search(said := self._said()):
                # It would continue with an empty world.
                message = f"{self._program} rejects the world; its last output: {said}"
                raise GazeboError(message)
        message = (
            f"{self._program} has not loaded the world within {START:.0f} s; its last output: {self._said()}"
        )
        raise GazeboError(message)

    def ask(self, request: bytes) -> bytes:
        """Send a request and return the answer.

        Raises:
            CrashError: the server has crashed.
            GazeboError: it has ended, or does not answer in time.
        """
        line = self._line
        if line is None:
            message = f"{self._program} was closed"
            raise GazeboError(message)
        try:
            line.sendall(_SIZE.pack(len(request)) + request)
            (size,) = _SIZE.unpack(_receive(line, _SIZE.size))
            return _receive(line, size)
        except TimeoutError:
            message = f"{self._program} has not answered within {ANSWER:.0f} s"
            raise GazeboError(message) from None
        except OSError:
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(END)
            self._give_up("is gone")

    def _give_up(self, what: str) -> NoReturn:
        """Raise an error that says how the program ended.

        Raises:
            CrashError: it has crashed.
            GazeboError: it has ended otherwise.
        """
        status = None if self._process is None else self._process.poll()
        how = "it closed the connection" if status is None else f"exit status {status}"
        if status is not None and status < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-status).name
        kind = CrashError if status is not None and -status in CRASHES else GazeboError
        message = f"{self._program} {what} ({how}); its last output: {self._said()}"
        raise kind(message) from None

    def _said(self) -> str:
        """Return the last relevant lines of its log, without colours."""
        text = self._log.read_bytes()[-8000:].decode(errors="replace") if self._log.is_file() else ""
        lines = [line.strip() for line in COLOUR.sub("", text).splitlines()]
        return (
            " / ".join([line for line in lines if line and not CHATTER.search(line)][-LAST_WORDS:]) or "none"
        )

    def close(self) -> None:
        """End the process, forcibly if necessary."""
        core, self._core = self._core, None
        if core is not None:
            core.close()
        line, self._line = self._line, None
        if line is not None:
            line.close()
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                # The plugin ends it when the connection closes.
                process.wait(END if line is not None else 0.0)
            process.kill()
            process.wait()
        display, self._display = self._display, None
        if display is not None:
            display.close()
        self._folder.cleanup()


def _receive(line: socket.socket, size: int) -> bytes:
    """Receive exactly `size` bytes.

    Raises:
        ConnectionError: the connection closed before.
    """
    parts: list[bytes] = []
    while size:
        part = line.recv(size)
        if not part:
            raise ConnectionError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _free_port() -> int:
    """Return a port that is free now; another program may still take it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
