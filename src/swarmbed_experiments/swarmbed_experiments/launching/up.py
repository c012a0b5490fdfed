"""Run a plan's processes: start them, wait until they are ready, show their states, and end them in order.

Each process is the leader of its own session, so that Ctrl-C reaches only this process, which then ends the
others with SIGINT, followed by SIGTERM and SIGKILL if they do not exit. If this process is killed, the kernel
ends them. The output of each process goes to a file in the run's directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from rich.live import Live
from rich.table import Table
from rich.text import Text
from swarmbed_robot.domains import check_free
from swarmbed_robot.nodes import BAD_INPUT, Spinner

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.launching.trial import run_directories
from swarmbed_interfaces.msg import WorldStatus
from swarmbed_robot import qos

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from swarmbed_experiments.launching.processes import Process, ProcessPlan

READY_SECONDS = 120.0
"""Seconds until all processes must be ready. The first start compiles kernels, which takes long."""
GRACE = ((signal.SIGINT, 8.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0))
"""Signals that end processes, in order, each with the seconds to wait for it to take effect."""
WRITING = 120.0
"""Seconds that the world has to write its results. A second Ctrl-C ends the wait."""
RESTARTS = 5
"""Maximum number of restarts of a process."""
TAIL = 15
"""Number of lines of a failed process's output that are shown."""
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LIBC = ctypes.CDLL(None)
PAUSE = 0.1


@dataclass
class _Child:
    """A process of the plan, with its state."""

    process: Process
    program: list[str]
    log: Path
    popen: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    stream: IO[bytes] | None = None
    seen: bool = field(default=False)

    @property
    def code(self) -> int | None:
        """Return its exit status, None while it runs."""
        return None if self.popen is None else self.popen.poll()

    def start(self) -> None:
        """Start or restart the process."""
        if self.stream is None:
            self.stream = self.log.open("ab")
        parent = os.getpid()
        domain = int(os.environ.get("ROS_DOMAIN_ID") or 0) + self.process.domain
        command = [*self.program, *self.process.ros_arguments(again=self.restarts > 0)]
        self.popen = subprocess.Popen(  # noqa: S603 - programs of the plan
            command,
            env=os.environ | {"ROS_DOMAIN_ID": str(domain)},
            stdin=subprocess.DEVNULL,
            stdout=self.stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509 - two system calls, no lock is taken
        )

    def tail(self) -> str:
        """Return the last lines of its output."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            return "\n".join(lines[-TAIL:])
        return ""

    def close(self) -> None:
        """Close its log."""
        if self.stream is not None:
            self.stream.close()
            self.stream = None


def _die_with(parent: int) -> None:
    """Let the kernel end this process when its parent exits."""
    _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


def command_of(process: Process) -> list[str]:
    """Return a process's command line.

    Raises:
        RunError: its package is not installed.
    """
    return [*program_of(process), *process.ros_arguments()]


def program_of(process: Process) -> list[str]:
    """Return the path of a process's executable, as the start of a command line.

    Raises:
        RunError: its package is not installed.
    """
    try:
        prefix = get_package_prefix(process.package)
    except PackageNotFoundError:
        found = shutil.which(process.executable)
        if found is None:
            message = (
                f"{process.name}: package '{process.package}' not found; source scripts/env.sh, "
                "or install it (it is part of a full ROS 2)"
            )
            raise RunError(message) from None
        return [found]
    return [f"{prefix}/lib/{process.package}/{process.executable}"]


class Up:
    """The processes of one plan.

    Attributes:
        status: the world's latest status.
        bad_input: whether the process that ended the plan rejected its input.
    """

    def __init__(
        self, plan: ProcessPlan, console: Console, *, restart: bool = False, domain: int | None = None
    ) -> None:
        """Find the executables.

        Args:
            plan: to run.
            console: for states and messages.
            restart: whether to restart processes that die.
            domain: ROS domain; by default the environment's.

        Raises:
            RunError: an executable is not installed.
            RobotError: another world uses a ROS domain of the plan.
        """
        self.plan = plan
        self.status: WorldStatus | None = None
        self._console = console
        self._restart = restart
        self.bad_input = False
        if domain is not None:
            os.environ["ROS_DOMAIN_ID"] = str(domain)
        first = int(os.environ.get("ROS_DOMAIN_ID") or 0)
        check_free({first + process.domain for process in plan.processes})
        logs = plan.directory / "log"
        logs.mkdir(exist_ok=True)
        self._children = [
            _Child(process, program_of(process), logs / f"{process.name}.log") for process in plan.processes
        ]
        self._told = 0

    def run(self) -> str:
        """Run until the world ends; return an error text, empty if there was no error.

        Raises:
            KeyboardInterrupt: SIGINT or SIGTERM was received; all processes have ended by then.
        """
        spinner = Spinner()
        stop = _Stop()
        try:
            node = spinner.node("swarmbed_up")
            topic = f"/{self.plan.processes[0].name}/status"
            node.create_subscription(WorldStatus, topic, self._hear, qos.LATCHED)
            for child in self._children:
                child.start()
            with Live(console=self._console, refresh_per_second=4, transient=True) as live:
                problem = self._watch(spinner, stop, live)
        finally:
            self.end(stop)
            spinner.close()
            stop.close()
        if stop.asked:
            raise KeyboardInterrupt
        return problem

    def _hear(self, status: WorldStatus) -> None:
        self.status = status

    def _watch(self, spinner: Spinner, stop: _Stop, live: Live) -> str:
        """Watch the processes until the end of the run; return an error text, empty if there was no error."""
        started, shown = time.monotonic(), 0.0
        ready = False
        while not stop.asked:
            spinner.once(PAUSE)
            now = time.monotonic()
            if now - shown > 0.25:
                shown = now
                live.update(self._table())
            for child in self._children:
                code = child.code
                if code is None:
                    continue
                problem = self._ended(child, code)
                if problem is not None:
                    return problem
            if self.status is not None and self.status.state in {"running", "paused", "over"}:
                ready = True
            if not ready and now - started > READY_SECONDS:
                return f"not ready after {READY_SECONDS:g} s: {self._waits_for()}"
        return ""

    def _waits_for(self) -> str:
        if self.status is None:
            return "no status from the world\n" + self._children[0].tail()
        return f"the world waits for {', '.join(self.status.waiting_for)}"

    def _ended(self, child: _Child, code: int) -> str | None:
        """Handle the end of a process; if it ends the plan, return an error text, empty for success."""
        # A non-zero status may mean a rejected run. Only a run that could not write lacks a summary.
        last = run_directories(self.plan.directory)[-1]
        judged = code != BAD_INPUT and (last / "summary.json").is_file()
        if child.process.needed and (code == 0 or judged):
            if code < 0:
                # The results are complete, so the plan has succeeded despite the signal.
                self._console.print(
                    f"swarmbed: {child.process.name} ended with {_said(code)}", soft_wrap=True
                )
            return ""
        # No restart after success, nor after bad input, which would be rejected again.
        if self._restart and child.restarts < RESTARTS and code not in {0, BAD_INPUT}:
            child.restarts += 1
            child.start()
            return None
        self.bad_input = code == BAD_INPUT
        if child.process.needed:
            return f"{child.process.name} ended with {_said(code)}:\n{child.tail()}"
        if not child.seen:
            child.seen = True
            text = f"{child.process.name} ended with {_said(code)} ({child.log})"
            self._console.print(Text.assemble(("swarmbed: ", "red"), text), soft_wrap=True)
            if child.process.robot and (self.status is None or self.status.state == "waiting"):
                return f"{child.process.name} ended before the start:\n{child.tail()}"
        return None

    def _table(self) -> Table:
        """Return a table of the processes' states."""
        status = self.status
        table = Table("process", "state", title=self.plan.title, title_justify="left")
        for child in self._children:
            name, code = child.process.name, child.code
            if code is not None:
                state = f"ended with {_said(code)}"
            elif child.process.needed:
                state = "starting" if status is None else self._world_state(status)
            elif status is None or {child.process.robot, child.process.name} & set(status.waiting_for):
                state = "starting"
            else:
                state = "runs"
            if child.restarts:
                state += f", restarted {child.restarts} times"
            table.add_row(name, state)
        return table

    @staticmethod
    def _world_state(status: WorldStatus) -> str:
        state = f"{status.state}, {status.time:.1f} s"
        if status.state == "running":
            state += f", {status.speed:.1f} times real time"
        if status.state == "waiting":
            state += f", for {len(status.waiting_for)} processes"
        return f"{state}; {status.reason}" if status.reason else state

    def end(self, stop: _Stop | None = None) -> None:
        """End all processes and wait for them, the world last because it writes the results."""
        groups = (
            [child for child in self._children if not child.process.needed],
            [child for child in self._children if child.process.needed],
        )
        for children, needed in zip(groups, (False, True), strict=True):
            for number, seconds in GRACE:
                there = [child for child in children if child.code is None and child.popen is not None]
                if not there:
                    break
                for child in there:
                    _signal(child, number)
                first = number == GRACE[0][0]
                end = time.monotonic() + (WRITING if needed and first else seconds)
                asked = 0 if stop is None else stop.asked
                while time.monotonic() < end and any(child.code is None for child in there):
                    if stop is not None and stop.asked > asked:
                        break
                    time.sleep(0.02)
        for child in self._children:
            # Processes that it started are in its session.
            _signal(child, signal.SIGKILL)
            child.close()


class _Stop:
    """Counts SIGINT and SIGTERM, even if the shell has set them to be ignored."""

    def __init__(self) -> None:
        self.asked = 0
        self._before = {
            number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)
        }

    def _ask(self, *_: object) -> None:
        self.asked += 1

    def close(self) -> None:
        """Restore the previous signal handlers."""
        for number, before in self._before.items():
            signal.signal(number, before)


def _signal(child: _Child, number: int) -> None:
    """Send a signal to a process and its descendants."""
    if child.popen is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.popen.pid, number)


def _said(code: int) -> str:
    """Return an exit status in words."""
    # A shell or launcher in between reports a signal as 128 plus its number.
    number = -code if code < 0 else code - 128
    try:
        name = f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"status {code}" if code >= 0 else f"signal {-code}"
    return name if code < 0 else f"status {code}, {name}"
