"""Rehearsal: a scenario's first second, run before a sweep.

It compiles the kernels, finds faults early, and finds the files that the runs depend on. A full rehearsal
executes users' programs, so it belongs in a separate process. `tame` replaces those programs.
"""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, cast

from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import ConfigError, SwarmbedError
from swarmbed_core.idle import IDLE
from swarmbed_core.plugins import ACCEPTORS, CONTROLLERS, GENERATORS, TRANSDUCERS, WORLDS
from swarmbed_core.scenario import Frame, Named, Scenario

from swarmbed_experiments.errors import FailedError
from swarmbed_experiments.runs.identity import Inputs, Reads, all_inputs
from swarmbed_experiments.runs.origins import is_our_name
from swarmbed_experiments.runs.workers import JobError, Lost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmbed_experiments.runs.hang import Limits
    from swarmbed_experiments.runs.workers import Workers

SECONDS = 1.0
SEED = 1
"""Seed of all rehearsals: the files that runs depend on are the same for all seeds."""
FORKABLE = ("planar", "mujoco")
"""Worlds that leave no threads or windows behind, so that a process may fork after running them."""
_PROGRAM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Rehearsal:
    """Result of a rehearsal.

    Attributes:
        fault: error text for the scenario's author; empty if there is none.
        inputs: what the runs depend on; None if there is a fault.
    """

    fault: str
    inputs: Inputs | None


@dataclass(frozen=True)
class Case:
    """A scenario to rehearse.

    Attributes:
        scenario: as JSON.
        source: its file, for messages.
        ticks: whether to run it; otherwise world, robots and programs are only created.
        programs: for `warm`: whether to run the controller if it belongs to this workspace.
    """

    scenario: str
    source: str
    ticks: bool = True
    programs: bool = True

    def read(self) -> Scenario:
        """Return the scenario, with the seed of all rehearsals."""
        return Scenario.model_validate_json(self.scenario).model_copy(update={"seed": SEED})


def rehearse(case: Case) -> Rehearsal:
    """Run a scenario's first second with all programs."""
    since = time.time_ns()
    reads = Reads()
    from swarmbed_experiments.runs.metrics import units_of
    from swarmbed_experiments.runs.run import Run
    from swarmbed_experiments.runs.scenarios import make_plan

    scenario = case.read()
    try:
        plan = make_plan(scenario, case.source)
    except SwarmbedError as error:
        return Rehearsal(str(error), None)
    if plan.real:
        return Rehearsal(plan.real_time_only, None)
    try:
        run = Run(scenario, case.source)
    except SwarmbedError as error:
        return Rehearsal(str(error), None)
    except Exception:  # noqa: BLE001 - the runs fail the same way, each in its row
        run = None
    # Errors in a tick occur in the runs as well, which report them.
    with contextlib.suppress(BaseException):
        for _ in range(_ticks(scenario) if case.ticks and run is not None else 0):
            run.tick()  # type: ignore[union-attr]
    if run is not None:
        with contextlib.suppress(Exception):
            run.close()
    parts = (*plan.generators, *plan.transducers, *plan.acceptors, *plan.devices)
    made = (plan.make_world, plan.controller, *(part for part, _ in parts))
    roots = {name for one in made if isinstance(name := getattr(one, "__module__", None), str)}
    # Not earlier: looking up a user's parts imports them.
    units = units_of(scenario)
    return Rehearsal("", replace(all_inputs(sorted(roots), list(reads.found), since), units=units))


def rehearsal_by(workers: Workers, case: Case, limits: Limits) -> Inputs:
    """Rehearse a scenario in a worker, and return what its runs depend on.

    Raises:
        ConfigError: the scenario is invalid.
        FailedError: a program hangs, or ends its process before the first tick.
    """
    try:
        found = workers.submit(rehearse, case, limits=limits).result()
        if isinstance(found, Lost) and not found.stuck:
            # It died during a tick. That may be due to this seed, so the sweep goes on if setup works.
            found = workers.submit(rehearse, replace(case, ticks=False), limits=limits).result()
    except JobError as error:
        message = f"{case.source}: the rehearsal failed: {error}"
        raise FailedError(message) from None
    if isinstance(found, Lost):
        when = "in its first second" if found.stuck else "during setup"
        message = f"{case.source}: {when}, {found.reason}"
        raise FailedError(message)
    if found.inputs is None:
        raise ConfigError(found.fault)
    return cast("Inputs", found.inputs)


def warm(case: Case) -> None:
    """Load what a scenario's runs need into this process, without executing users' programs."""
    from swarmbed_experiments.runs.run import Run

    scenario = case.read()
    if scenario.world not in FORKABLE or scenario.vision != "corners":
        return
    with contextlib.suppress(Exception):
        run = Run(tame(scenario, programs=case.programs), case.source)
        for _ in range(_ticks(scenario)):
            run.tick()
        run.close()


def _ticks(scenario: Scenario) -> int:
    return round(min(SECONDS, scenario.time_limit) * TICK_RATE)


def tame(scenario: Scenario, *, programs: bool = True) -> Scenario:
    """Return a scenario without users' programs and with virtual parts only. The world is kept.

    Args:
        scenario: any.
        programs: whether to keep controllers that belong to this workspace.
    """
    frame, idle = scenario.frame, {"controller": Named(name=IDLE)}

    def is_kept(named: Named | None) -> bool:
        return named is None or (programs and _is_ours(CONTROLLERS, named))

    change: dict[str, Any] = {} if is_kept(scenario.controller) else dict(idle)
    if not all(is_kept(group.controller) for group in scenario.robots):
        change["robots"] = tuple(
            group if is_kept(group.controller) else group.model_copy(update=idle) for group in scenario.robots
        )
    parts: dict[str, Sequence[Named]] = {
        "generators": _ours(GENERATORS, frame.generators),
        "transducers": _ours(TRANSDUCERS, frame.transducers),
        "acceptors": _ours(ACCEPTORS, frame.acceptors) or (Named(name="elapsed"),),
    }
    if any(tuple(kept) != getattr(frame, name) for name, kept in parts.items()):
        change["frame"] = Frame(**parts)
    return (scenario.model_copy(update=change) if change else scenario).all_virtual()


def is_world_ours(scenario: Scenario) -> bool:
    """Return whether a scenario's world belongs to this workspace."""
    return _is_ours(WORLDS, Named(name=scenario.world))


def _ours(group: str, parts: Sequence[Named]) -> tuple[Named, ...]:
    return tuple(named for named in parts if _is_ours(group, named))


def _is_ours(group: str, named: Named) -> bool:
    """Return whether a part and all programs that its parameters name belong to this workspace."""
    points = [point for point in entry_points(group=group) if point.name == named.name]
    module = points[0].module if points else named.name.partition(":")[0]
    others = [
        value for value in named.parameters.values() if isinstance(value, str) and _PROGRAM.fullmatch(value)
    ]
    return is_our_name(module) and all(is_our_name(name) for name in others)
