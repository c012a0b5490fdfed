"""`swarmbed replay`: plays a run again with the orders that it took, and compares the two."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.orders import Stop

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.files import as_json
from swarmbed_experiments.runs.manifest import NAME as MANIFEST
from swarmbed_experiments.runs.manifest import Manifest, changes_since
from swarmbed_experiments.runs.order_log import NAME as ORDERS
from swarmbed_experiments.runs.order_log import Playback
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario, make_plan
from swarmbed_experiments.runs.summary import Summary
from swarmbed_experiments.runs.track import Track, events_as_lists

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from swarmbed_core.observing import Observer
    from swarmbed_core.orders import Order


@dataclass
class Replay:
    """What came of playing a run again.

    Attributes:
        orders: number of orders that the run took.
        seconds: the world's time at its end.
        differences: what came out differently, in words; empty if nothing did.
        reasons: what has changed since the run that may be why.
    """

    orders: int
    seconds: float
    differences: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Return whether it came out the same, to the bit."""
        return not self.differences


class _Until:
    """The orders of a run, and its end where it was stopped."""

    def __init__(self, orders: Playback, last: int) -> None:
        self._orders = orders
        self._last = last
        self.done = orders.done

    def take(self, step: int, *, in_tick: bool) -> list[Order]:
        """Return the orders that were carried out here."""
        taken = self._orders.take(step, in_tick=in_tick)
        if step >= self._last and not in_tick and not any(isinstance(order, Stop) for order in taken):
            taken.append(Stop("here the first run ended"))
        return taken


def replay(directory: Path, observers: Sequence[Observer] = ()) -> Replay:
    """Play a run again, and compare it with what its directory holds.

    Args:
        directory: of the run.
        observers: who looks on.

    Raises:
        ConfigError: its scenario is missing or invalid.
        RunError: another file is missing or invalid, or the run had real parts.
    """
    summary = Summary.load(directory).as_data()
    before = Track.load(directory / "track.npz")
    scenario, source = load_scenario(str(directory / "scenario.yaml"))
    if real := make_plan(scenario, source).real if scenario.has_devices else ():
        message = f"{directory}: {', '.join(real)}: a run with real parts cannot be played again"
        raise RunError(message)
    orders = Playback(directory / ORDERS)
    told = Manifest.load(directory) if (directory / MANIFEST).exists() else None
    run = Run(scenario, source, remote=summary.get("programs") == "elsewhere")
    try:
        end = None if told is None else told.end
        steps = round(float(summary["sim_seconds"]) / run.timestep) if end is None else end.steps
        run.runner.script = _Until(orders, steps)
        again = run.go(observers=observers)
        found = _compare(before, run.track, summary, again, run.timestep) + orders.differences
        if end is not None and summary["verdict"] != "failed" and end != run.output.state():
            found = found or [f"state at the end, after {run.runner.number:,} steps: the last bits differ"]
        reasons = changes_since(told, scenario) if found and told is not None else []
        return Replay(len(orders), run.time, found, reasons)
    finally:
        run.close()


def _compare(
    before: Track, after: Track, summary: dict[str, Any], again: dict[str, Any], timestep: float
) -> list[str]:
    """Return what differs between a run and its replay: first the first difference in time."""
    found: list[str] = []
    ended = summary["verdict"] in {"interrupted", "killed"}
    count = len(before.times)
    if ended:
        # A signal may have come between a step and its sample.
        count = min(count, len(after.times))
    found += _compare_tracks(before, after, count, timestep)
    if not ended and again["verdict"] != summary["verdict"]:
        found.append(f"verdict: {summary['verdict']}, then {again['verdict']} ({again['reason']})")
    was, now = (json.loads(json.dumps(events_as_lists(track.events))) for track in (before, after))
    if not ended and was != now:
        k = next((k for k, (one, other) in enumerate(zip(was, now, strict=False)) if one != other), None)
        k = min(len(was), len(now)) if k is None else k
        pair = [str(events[k]) if k < len(events) else "none" for events in (was, now)]
        found.append(f"event {k + 1}: {pair[0]}, then {pair[1]}")
    metrics = json.loads(as_json(again["metrics"]))
    if not ended and metrics != summary["metrics"]:
        names = sorted(
            name
            for name in metrics.keys() | summary["metrics"].keys()
            if metrics.get(name) != summary["metrics"].get(name)
        )
        found.append(f"metrics: {', '.join(names)}")
    return found


def _compare_tracks(before: Track, after: Track, count: int, timestep: float) -> list[str]:
    """Return where two tracks begin to differ, and in what."""
    if (before.robots, before.carriers) != (after.robots, after.carriers):
        return ["robots or carriers: other names"]
    if len(after.times) < count or not np.array_equal(before.times[:count], after.times[:count]):
        return [f"times: {len(before.times)} samples, then {len(after.times)}"]
    first: dict[str, int] = {}
    for name, array in before.arrays().items():
        if name == "doing":
            one = np.array(before.deeds)[before.doing[:count]]
            other = np.array(after.deeds)[after.doing[:count]]
            same = one == other
        else:
            one, other = array[:count], after.arrays()[name][:count]
            same = (one == other) | ((one != one) & (other != other))  # noqa: PLR0124 - NaN
        if not same.all():
            first[name] = int(np.flatnonzero(~same.reshape(count, -1).all(axis=1))[0])
    if not first:
        return []
    sample = min(first.values())
    now = float(before.times[sample])
    what = ", ".join(name for name, at in first.items() if at == sample)
    last = 0 if sample == 0 else round(float(before.times[sample - 1]) / timestep)
    return [
        f"{what}: the first difference is between step {last:,} and {round(now / timestep):,} ({now:.1f} s)"
    ]
