"""Acceptors: task done (DOTS paper, IV-C), place reached, time over, no hard contact, no broken line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from swarmbed_core.config import Part
from swarmbed_core.controller import NoParameters
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Count, Pose
from swarmbed_core.spec import NotNegative, Positive

from swarmbed_experiments.frame import Judgement, Stand
from swarmbed_experiments.frame.roster import Roster
from swarmbed_experiments.frame.transducers import off_places, retrieved, turns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from swarmbed_core.geometry import FloatArray

    from swarmbed_experiments.frame import Look, Setting

AT_REST = 0.02
"""m/s and rad/s below which a robot counts as standing."""


class RetrievedParameters(Part):
    """When the retrieval task is done.

    Attributes:
        of: number of carriers to retrieve; by default all.
        linger: [s] time for which the run then waits for all robots to leave the drop zone.
    """

    of: Count | None = None
    linger: NotNegative = 0.0


class Retrieved:
    """Accepts when the carriers stand on the floor with their centres in the drop zone.

    Metrics:
        completion_seconds: [s] time at which the last carrier was retrieved; null if some are missing.
        escaped_seconds: [s] time after that at which all robots had left the drop zone; null if they did not.
    """

    Parameters: ClassVar[type[Part]] = RetrievedParameters

    def __init__(self, parameters: RetrievedParameters, setting: Setting) -> None:
        """Find the drop zone.

        Raises:
            ConfigError: the arena has no drop zone, or the scenario has fewer carriers than `of`.
        """
        scene = setting.scene
        if scene.zones is None:
            message = f"acceptor retrieved: arena {scene.scenario.arena} has no drop zone"
            raise ConfigError(message)
        count = len(scene.carriers)
        self._of = count if parameters.of is None else parameters.of
        if not 0 < self._of <= count:
            message = (
                f"acceptor retrieved: {self._of} of {count} carriers; ask for 1 or more that the scenario has"
            )
            raise ConfigError(message)
        self._drop = scene.zones.drop
        self._linger = parameters.linger
        self._setting = setting
        self._done: float | None = None
        self._escaped: float | None = None

    def judge(self, look: Look, *, over: bool) -> Judgement:
        """Count the retrieved carriers; after the last one, wait for the robots to leave."""
        there = int(retrieved(look.carriers, self._drop).sum())
        if there < self._of:
            self._done = self._escaped = None
            return Judgement(Stand.OPEN, f"{there} of {self._of} carriers retrieved in {look.time:.1f} s")
        if self._done is None:
            self._done = look.time
        dead = self._setting.dead
        left = not any(
            self._drop.contains(float(x), float(y))
            for name, (x, y) in zip(look.names, look.robots[:, :2], strict=True)
            if name not in dead
        )
        if left and self._escaped is None:
            self._escaped = look.time
        if self._escaped is not None or look.time >= self._done + self._linger - 1e-9 or over:
            return Judgement(
                Stand.ACCEPTED, f"{there} of {self._of} carriers retrieved in {self._done:.1f} s"
            )
        return Judgement(Stand.OPEN, "robots are still in the drop zone")

    def metrics(self) -> Mapping[str, Any]:
        """Return the completion and escape times; None if not reached."""
        return {"completion_seconds": self._done, "escaped_seconds": self._escaped}


class ArrivedParameters(Part):
    """What has to be where.

    Attributes:
        what: robots, carriers, or load: the centre of all carriers and their turn since the start.
        places: target poses x, y, yaw: one for each in order, or one for all.
        tolerance: [m] largest position error.
        yaw_tolerance: [rad] largest yaw error; by default any.
        at_rest: whether the robots must also stand still.
        doing: what all controllers must report in `doing`, such as `done`; by default anything.
    """

    what: Literal["robots", "carriers", "load"] = "robots"
    places: tuple[Pose, ...]
    tolerance: Positive = 0.05
    yaw_tolerance: Positive | None = None
    at_rest: bool = False
    doing: str | None = None


class Arrived:
    """Accepts when robots or carriers are at their places.

    Metrics:
        completion_seconds: [s] time of arrival; null if they did not arrive.
        goal_error: [m] largest distance of one from its place.
    """

    Parameters: ClassVar[type[Part]] = ArrivedParameters

    def __init__(self, parameters: ArrivedParameters, setting: Setting) -> None:
        """Match robots or carriers with places.

        Raises:
            ConfigError: the number of places is neither 1 nor that of the robots or carriers.
        """
        scene = setting.scene
        self._parameters = parameters
        self._start = np.array([placement.pose for placement in scene.carriers]).reshape(-1, 3)
        counts = {
            "robots": len(scene.robots),
            "carriers": len(scene.carriers),
            "load": min(1, len(scene.carriers)),
        }
        count, given = counts[parameters.what], len(parameters.places)
        if not count or given not in {1, count}:
            message = (
                f"acceptor arrived: {given} places for {count} {parameters.what}; give one, or one for each"
            )
            raise ConfigError(message)
        self._places = np.array(parameters.places)
        self._roster = Roster(placement.name for placement in scene.robots)
        self._count = len(self._roster)
        self._when: float | None = None
        self._off = math.nan

    def judge(self, look: Look, *, over: bool) -> Judgement:
        """Compare the position and yaw errors with the tolerances."""
        parameters = self._parameters
        off = self._poses(look) - self._places
        self._off = float(np.hypot(off[:, 0], off[:, 1]).max())
        turned = float(turns(off[:, 2]).max())
        there = self._off <= parameters.tolerance
        if parameters.yaw_tolerance is not None:
            there = there and turned <= parameters.yaw_tolerance
        if parameters.at_rest:
            there = there and bool((np.abs(look.robots[:, 3:6]) < AT_REST).all())
        if parameters.doing is not None:
            there = there and all(doing == parameters.doing for doing in look.doing)
        if there:
            self._when = look.time
            return Judgement(Stand.ACCEPTED, f"{parameters.what} arrived after {look.time:.1f} s")
        late = f" after {look.time:.1f} s" if over else ""
        return Judgement(
            Stand.OPEN, f"{parameters.what} are {self._off:.3f} m and {turned:.2f} rad off{late}"
        )

    def _poses(self, look: Look) -> FloatArray:
        """Return the poses to compare with the places."""
        if self._parameters.what == "robots":
            self._roster.look(look.names)
            # Robots that have left are nowhere; those that joined have no places.
            return self._roster.spread(look.robots[:, :3], math.nan)[: self._count]
        poses = look.carriers.poses
        if self._parameters.what == "carriers":
            return poses
        return np.array([[*poses[:, :2].mean(axis=0), poses[0, 2] - self._start[0, 2]]])

    def metrics(self) -> Mapping[str, Any]:
        """Return the arrival time and the largest position error."""
        return {"completion_seconds": self._when, "goal_error": self._off}


class Elapsed:
    """Accepts when the time is up: for runs to watch or to measure."""

    Parameters: ClassVar[type[Part]] = NoParameters

    def __init__(self, parameters: NoParameters, setting: Setting) -> None:
        """There is nothing to prepare."""

    def judge(self, look: Look, *, over: bool) -> Judgement:
        """Accept once the time is up."""
        return Judgement(Stand.ACCEPTED if over else Stand.OPEN, f"{look.time:.1f} s passed")

    def metrics(self) -> Mapping[str, Any]:
        """Return nothing."""
        return {}


class SafeParameters(Part):
    """Which contacts are too hard.

    Attributes:
        speed: [m/s] highest approach speed that is allowed at a contact.
        between: `robots` to judge only contacts between robots, `anything` to judge all contacts.
    """

    speed: NotNegative = 0.1
    between: Literal["robots", "anything"] = "robots"


class Safe:
    """Rejects at the first contact above a speed; without one it has no objection."""

    Parameters: ClassVar[type[Part]] = SafeParameters

    def __init__(self, parameters: SafeParameters, setting: Setting) -> None:  # noqa: ARG002 - not needed
        """Begin without contacts."""
        self._parameters = parameters
        self._robots: AbstractSet[str] = frozenset()
        self._seen: Sequence[str] = ()

    def judge(self, look: Look, *, over: bool) -> Judgement:  # noqa: ARG002 - it never waits
        """Check the contacts that began in this tick."""
        if look.names is not self._seen:
            self._robots, self._seen = self._robots | set(look.names), look.names
        for contact in look.contacts:
            counts = self._parameters.between == "anything" or {contact.one, contact.other} <= self._robots
            if counts and contact.speed > self._parameters.speed:
                what = f"{contact.one} touched {contact.other} at {contact.speed:.2f} m/s"
                more = f"more than {self._parameters.speed:g}, after {contact.time:.1f} s"
                return Judgement(Stand.REJECTED, f"{what}: {more}")
        return Judgement(Stand.CONTENT, f"no contact above {self._parameters.speed:g} m/s")

    def metrics(self) -> Mapping[str, Any]:
        """Return nothing: the transducer of contacts measures them."""
        return {}


class CoherentParameters(Part):
    """When a line of robots counts as broken.

    Attributes:
        distance: [m] nominal distance between the centres of a robot and the next.
        limit: [m] position error beyond which a robot is off its place.
        seconds: [s] time for which a robot may be off its place; the line is broken after that.
    """

    distance: Positive = 0.4
    limit: Positive = 1.0
    seconds: NotNegative = 60.0


class Coherent:
    """Rejects when a line of robots breaks; until then it has no objection."""

    Parameters: ClassVar[type[Part]] = CoherentParameters

    def __init__(self, parameters: CoherentParameters, setting: Setting) -> None:
        """Begin with all robots at their places."""
        self._parameters = parameters
        self._roster = Roster(placement.name for placement in setting.scene.robots)
        self._since = np.full(len(self._roster), math.inf)

    def judge(self, look: Look, *, over: bool) -> Judgement:  # noqa: ARG002 - it never waits
        """Reject if a robot has been off its place for too long."""
        roster = self._roster
        if roster.look(look.names):
            self._since = roster.widened(self._since, math.inf)
        off = off_places(look.robots, self._parameters.distance) > self._parameters.limit
        off = roster.spread(off, fill=False)
        self._since = np.where(off, np.minimum(self._since, look.time), math.inf)
        lost = int(np.argmin(self._since))
        if look.time - self._since[lost] > self._parameters.seconds:
            limit, seconds = self._parameters.limit, self._parameters.seconds
            what = f"{roster.names[lost]} was off its place by more than {limit:g} m for {seconds:g} s"
            return Judgement(Stand.REJECTED, f"the line broke after {look.time:.0f} s: {what}")
        return Judgement(Stand.CONTENT, "the line holds")

    def metrics(self) -> Mapping[str, Any]:
        """Return nothing: the transducer of convoys measures them."""
        return {}
