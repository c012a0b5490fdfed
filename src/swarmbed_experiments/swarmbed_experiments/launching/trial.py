"""Host a scenario's world on ROS 2 and judge it: the world process of `swarmbed up` and of the launch files.

The robots' programs run in processes of their own; the experimental frame runs here. The results are the same
as those of `swarmbed run`.
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarmbed_core.errors import SwarmbedError
from swarmbed_robot.host import OPTIONS as HOST_OPTIONS
from swarmbed_robot.host import WorldHost
from swarmbed_robot.middleware import send_beside
from swarmbed_robot.nodes import Spinner, run
from swarmbed_robot.options import Option

from swarmbed_experiments.errors import RunError, cause_of
from swarmbed_experiments.files import new_directory
from swarmbed_experiments.runs import manifest
from swarmbed_experiments.runs.run import Run, warm_up
from swarmbed_experiments.runs.scenarios import load_scenario, make_plan, name_of

if TYPE_CHECKING:
    from rclpy.node import Node
    from swarmbed_core.scenario import Scenario

OPTIONS = (
    Option(
        "scenario",
        "intralogistics",
        "a name that `swarmbed scenarios` lists, or a file",
        positional=True,
    ),
    Option("seed", -1, "random seed; -1 takes the scenario's", -1, 2**32 - 1),
    Option("directory", "", "directory for the results; a new one in `out`, if not given"),
    Option("name", "", "name of the run; the scenario file's, if not given"),
    Option("out", "runs", "directory in which each run gets a directory"),
    Option("record", True, "write recording.mcap too"),
    *(option for option in HOST_OPTIONS if option.name != "wait"),
    Option("wait", True, "wait until every robot has a program before starting"),
)
LATER = "later_runs.txt"
"""File in the first run's directory that lists the directories of runs after a reset, one per line."""
STATUS = {"accepted": 0, "interrupted": 130}
REJECTED = 1
FIXED = (
    "robots cannot be added to or removed from this judged run: set `open: true` in its scenario, "
    "or start the `world` node"
)


class HostedRun(Run):
    """A run whose programs run in other processes, hosted on ROS.

    Attributes:
        seed: seed of all random numbers.
        summary: of the run, once it is closed.
    """

    def __init__(self, case: Scenario, source: str, directory: Path, *, record: bool) -> None:
        """Make the run.

        Raises:
            SwarmbedError: the scenario is invalid, or the results cannot be written.
        """
        super().__init__(case, source, remote=True)
        self.seed = case.seed
        self.fixed = "" if case.open else FIXED
        self.begin(directory, record=record)
        self._started: float | None = None
        self._failure: str | None = None
        self.summary: dict[str, Any] | None = None

    def step(self) -> None:
        """Advance the world by one time step; an error ends the run."""
        if self._started is None:
            self._started = time.perf_counter()
        if self.decided is not None:
            return
        try:
            super().step()
        except Exception as error:  # noqa: BLE001 - the data so far is kept in any case
            self.fail(error)

    def think(self) -> bool:
        """Run the experimental frame; return whether the run is decided. An error ends it."""
        if self.decided is None:
            try:
                return super().think()
            except Exception as error:  # noqa: BLE001 - as above
                self.fail(error)
        return True

    def fail(self, error: Exception) -> None:
        """End the run with the verdict `failed`."""
        self._failure = "".join(traceback.format_exception(error))
        self.decided = "failed", f"{self.now}: {cause_of(error)}"

    def verdict(self) -> tuple[str, str]:
        """Return verdict and reason; an empty verdict and the current state while the run is open."""
        return self.decided or ("", self.standing)

    def close(self) -> None:
        """Write the results and close the world."""
        if self.summary is not None:
            return
        verdict, reason = self.decided or ("interrupted", f"stopped after {self.time:.1f} s")
        wall = 0.0 if self._started is None else time.perf_counter() - self._started
        try:
            self.summary = self.finish(verdict, reason, wall, self._failure)
        finally:
            super().close()


def enter_later_run(first: Path, directory: Path) -> None:
    """Enter the results directory of a run after a reset into the first run's list.

    Raises:
        RunError: the list cannot be written.
    """
    try:
        with (first / LATER).open("a", encoding="utf-8") as stream:
            stream.write(f"{directory.resolve()}\n")
    except OSError as error:
        message = f"{first / LATER}: cannot be written ({error.strerror or error})"
        raise RunError(message) from None


def run_directories(first: Path) -> list[Path]:
    """Return the directories of a world's runs: the first run's, and those of runs after a reset."""
    try:
        later = (first / LATER).read_text(encoding="utf-8").splitlines()
    except OSError:
        later = []
    return [first, *map(Path, later)]


def start(spinner: Spinner, node: Node, options: dict[str, Any]) -> int:
    """Host the run until it is decided or the process is asked to end."""
    manifest.listen()
    seed = None if options["seed"] < 0 else options["seed"]
    case, source = load_scenario(options["scenario"], seed=seed)
    # Find faults before anything is written. The warm-up would not find them: it leaves out users' programs.
    make_plan(case, source)
    warm_up(case, source, remote=True)
    first, began = True, Path()

    def make(again: int | None) -> HostedRun:
        nonlocal first, began
        scenario = case if again is None else case.model_copy(update={"seed": again})
        if first and options["directory"]:
            directory = Path(options["directory"])
            try:
                directory.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                message = f"{directory}: cannot be made ({error.strerror}); choose another --directory"
                raise RunError(message) from None
        else:
            directory = new_directory(
                Path(options["out"]), options["name"] or name_of(scenario, source), scenario.seed
            )
        stage = HostedRun(scenario, source, directory, record=options["record"])
        stage.name = options["name"] or stage.name
        if first:
            first, began = False, directory
        else:
            enter_later_run(began, directory)
        return stage

    host = WorldHost(spinner, node, make, options)
    try:
        domain = node.context.get_domain_id()
        node.get_logger().info(f"{len(host.apis)} robots in ROS domain {domain}: {', '.join(host.apis)}")
        host.run()
    except Exception as error:
        if isinstance(host.stage, HostedRun):
            host.stage.fail(error)
        raise
    finally:
        try:
            host.close()
        except SwarmbedError as error:
            node.get_logger().error(str(error))
    stage = host.stage
    summary = stage.summary if isinstance(stage, HostedRun) else None
    if summary is None:
        return REJECTED
    for fault in summary.get("faults", ()):
        node.get_logger().error(fault)
    where = stage.directory if isinstance(stage, HostedRun) else None
    node.get_logger().info(f"{summary['verdict']}: {summary['reason']} ({where})")
    status = STATUS.get(summary["verdict"], REJECTED)
    return REJECTED if status == 0 and summary.get("faults") else status


def main() -> int:
    """Run the node."""
    send_beside()
    return run("world", __doc__, OPTIONS, start)


if __name__ == "__main__":
    sys.exit(main())
