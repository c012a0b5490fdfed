"""Parts of a frame about tracked robots: how well they are told where they are, and whether one is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from swarmbed_core.config import Part
from swarmbed_core.controller import NoParameters
from swarmbed_core.errors import ConfigError
from swarmbed_core.led import BLOCKED
from swarmbed_core.spec import NotNegative

from swarmbed_experiments.frame import Judgement, Stand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from swarmbed_core.led import LedState

    from swarmbed_experiments.frame import Look, Setting


class Tracking:
    """Counts tellings of tracked robots, and how often and how long they are lost; events for the timeline.

    A run whose scenario has tracked robots has it even if the scenario does not name it.

    Columns:
        tracked_lost: robots that are lost.

    Metrics:
        tracked: number of tracked robots at the end of the run.
        tracked_losses: how often a robot was lost.
        tracked_lost_seconds: [s] time for which robots were lost, summed over the robots.
        tellings: number of tellings that were accepted.
        tellings_blocked: of these, those that walls or obstacles kept from being followed.
        tellings_refused: number of rejected tellings, by reason.
    """

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:  # noqa: ARG002 - there are none
        """Start without losses.

        Raises:
            ConfigError: the world, one of another package, has no tracked robots.
        """
        if not hasattr(setting.world, "led"):
            world = setting.scene.scenario.world
            message = f"world {world} has no tracked robots: leave out `body`, or use world planar"
            raise ConfigError(message)
        self._setting = setting
        self._lost: dict[str, float] = {}
        self._seconds = 0.0
        self._time = 0.0
        # Losses and tellings of the robots at the last tick, and of those that had left.
        self._names: tuple[str, ...] = ()
        self._losses = self._taken = np.zeros(0, dtype=np.int64)
        self._gone = np.zeros(2, dtype=np.int64)

    def tick(self, look: Look) -> None:
        """Detect robots that are lost or found."""
        state = self._setting.world.led()
        passed, self._time = look.time - self._time, look.time
        if state.names is not self._names:
            self._meet(state)
        before, self._losses, self._taken = self._losses, state.losses, state.taken
        if not self._lost and np.array_equal(before, state.losses):
            return
        more = (state.losses > before).tolist()
        for name, lost, lost_for, again in zip(
            state.names, state.lost.tolist(), state.lost_for.tolist(), more, strict=True
        ):
            if lost and name not in self._lost:
                self._seconds += min(lost_for, passed)
                self._setting.tell(look.time, "lost", name, "lost: it stands until it is told where it is")
            elif lost:
                self._seconds += passed
            elif name in self._lost:
                since = self._lost.pop(name)
                self._setting.tell(look.time, "found", name, f"found after {look.time - since:.1f} s")
            elif again:
                self._setting.tell(look.time, "lost", name, "lost for less than a tick")
                self._setting.tell(look.time, "found", name, "found at once")
            if lost:
                self._lost[name] = look.time - lost_for

    def _meet(self, state: LedState) -> None:
        """Take note of robots that have joined and left; the counts of those that left are kept."""
        here = dict(zip(state.names, state.taken.tolist(), strict=True))
        stayed: dict[str, int] = {}
        for name, losses, taken in zip(self._names, self._losses.tolist(), self._taken.tolist(), strict=True):
            # Another robot may have this name now.
            if here.get(name, -1) < taken:
                self._gone += losses, taken
                self._lost.pop(name, None)
            else:
                stayed[name] = losses
        self._names = state.names
        self._losses = np.array([stayed.get(name, 0) for name in state.names], dtype=np.int64)

    def row(self) -> Mapping[str, float]:
        """Return the number of robots that are lost."""
        return {"tracked_lost": float(len(self._lost))}

    def metrics(self) -> Mapping[str, Any]:
        """Return the counts."""
        state = self._setting.world.led()
        losses, taken = (self._gone + np.array([self._losses.sum(), self._taken.sum()])).tolist()
        refused = {reason: sum(counts.values()) for reason, counts in state.refused.items()}
        blocked = refused.pop(BLOCKED, 0)
        return {
            "tracked": len(state.names),
            "tracked_losses": losses,
            "tracked_lost_seconds": self._seconds,
            "tellings": taken,
            "tellings_blocked": blocked,
            "tellings_refused": {
                reason.partition(".")[2]: count for reason, count in sorted(refused.items())
            },
        }


class TrackedParameters(Part):
    """When tracking counts as failed.

    Attributes:
        seconds: [s] longest time for which a robot may be lost.
    """

    seconds: NotNegative = 0.0


class Tracked:
    """Rejects when a tracked robot is lost for too long; until then it has no objection."""

    Parameters: ClassVar[type[Part]] = TrackedParameters

    def __init__(self, parameters: TrackedParameters, setting: Setting) -> None:
        """Check that there is something to judge.

        Raises:
            ConfigError: no group of robots is tracked, and none can join.
        """
        scenario = setting.scene.scenario
        if not (scenario.open or any(group.tracked for group in scenario.robots)):
            message = (
                "acceptor tracked: no group of robots has `body: tracked`; set it, or leave this acceptor out"
            )
            raise ConfigError(message)
        self._seconds = parameters.seconds
        self._world = setting.world

    def judge(self, look: Look, *, over: bool) -> Judgement:  # noqa: ARG002 - it never waits
        """Reject if a robot has been lost for too long."""
        state = self._world.led()
        if self._seconds == 0 and state.losses.any():
            # It may be found again already.
            name = state.names[int(np.argmax(state.losses > 0))]
            return Judgement(Stand.REJECTED, f"{name} was lost, after {look.time:.1f} s")
        late = np.flatnonzero(state.lost & (state.lost_for > self._seconds))
        if len(late):
            row = int(late[np.argmax(state.lost_for[late])])
            what = f"{state.names[row]} has been lost for {state.lost_for[row]:.2f} s"
            return Judgement(
                Stand.REJECTED, f"{what}: more than {self._seconds:g} s, after {look.time:.1f} s"
            )
        return Judgement(Stand.CONTENT, f"no tracked robot lost for more than {self._seconds:g} s")

    def metrics(self) -> Mapping[str, Any]:
        """Return nothing: the transducer of tracking measures."""
        return {}
