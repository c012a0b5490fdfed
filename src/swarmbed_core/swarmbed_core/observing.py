"""Observers look on while a run is computed: recorders, progress bars, live views, bridges.

An observer gets snapshots that never change, at the rate of the world's time that it asks for. It runs in a
thread of its own. A backlog of snapshots is kept for it; when that is full, the oldest are missed. An
observer that raises, or that takes too long over one snapshot, is dropped and named in the summary. Neither
its errors nor its waits reach the run.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

from swarmbed_core.errors import ConfigError, described
from swarmbed_core.world import CarrierTruth

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.scene import Scene


BACKLOG = 256
"""Most snapshots that wait for an observer ..."""
BACKLOG_VALUES = 4_000_000
"""... and most numbers in them."""
SLOW = 2.0
"""Seconds of wall time for one snapshot after which an observer is dropped."""
SHARE = 0.05
"""Most of the computing time that an observer may take from a run that has no time to spare."""
NAP = 0.02
"""Seconds of rest that an observer owes before it takes them."""
SPELL = 0.001
"""Seconds for which it sees one snapshot after the other before it looks whether it owes a rest."""
LULL = 0.05
"""Seconds for which an observer of such a run then lets snapshots come together."""
ENDING = 2.0
"""Seconds that an observer has at the end of a run to see what waits for it, and to end."""
EPSILON = 1e-9

A = TypeVar("A", bound="NDArray[np.float64] | NDArray[np.int64]")


@dataclass(frozen=True, slots=True)
class Event:
    """An event for the timeline.

    Attributes:
        time: the world's time in seconds.
        kind: one word: `lifted`, `lowered`, `retrieved`, `contact`, or a generator's name.
        who: the robot or carrier concerned; empty if it concerns all.
        text: description for people.
    """

    time: float
    kind: str
    who: str
    text: str


class Events(Sequence[Event]):
    """The events of a run up to some time: the start of a list that grows."""

    __slots__ = ("_count", "_list")

    def __init__(self, events: list[Event]) -> None:
        self._list = events
        self._count = len(events)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        if isinstance(index, slice):
            return [self._list[k] for k in range(*index.indices(self._count))]
        return self._list[range(self._count)[index]]


class Source(Protocol):
    """What snapshots are made of: a run."""

    @property
    def time(self) -> float:
        """Return the world's time."""
        ...

    def see_names(self) -> tuple[str, ...]:
        """Return the names of the robots that are in the world now."""
        ...

    def see_robots(self) -> FloatArray:
        """Return a row of x, y, yaw, vx, vy, omega for each robot; the array may be the world's own."""
        ...

    def see_carriers(self) -> CarrierTruth:
        """Return the true state of the carriers, in arrays that may be the world's own."""
        ...

    def see_lifts(self) -> FloatArray:
        """Return a new array: the height of each robot's lifting platform, NaN without one."""
        ...

    def see_leds(self) -> tuple[tuple[int, ...], ...]:
        """Return the packed colours of each robot's lights."""
        ...

    def see_doing(self) -> tuple[str, ...]:
        """Return the robots' activities; empty if none are reported."""
        ...

    def see_events(self) -> list[Event]:
        """Return the list of all events, to which more are only appended."""
        ...

    def see_standing(self) -> str:
        """Return the state of the run in words."""
        ...

    def see_metrics(self) -> Mapping[str, Any]:
        """Return the latest row of the time series, which does not change anymore."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The state of a run at one time. It never changes, and may be kept.

    Attributes:
        time: [s] the world's time.
        step: number of steps that the world has made.
        state: `running` or `paused`.
        names: of the robots, in the order of the other parts.
        robots: a row of x, y, yaw in `map`; vx, vy in the robot's own frame; omega for each robot.
        carriers: the state of the carriers.
        lifts: [m] height of each robot's lifting platform above the floor; NaN without one.
        leds: packed colours of each robot's lights, as `swarmbed_core.leds.unpack` reads them.
        doing: the activity that each robot's program reports; empty if none are.
        events: the events so far.
        standing: the state of the run in words.
        metrics: the latest row of the time series, taken twice a second.
    """

    time: float
    step: int
    state: str
    names: tuple[str, ...]
    robots: FloatArray
    carriers: CarrierTruth
    lifts: FloatArray
    leds: tuple[tuple[int, ...], ...]
    doing: tuple[str, ...]
    events: Sequence[Event]
    standing: str
    metrics: Mapping[str, Any]

    @classmethod
    def of(cls, source: Source, step: int, state: str) -> Self:
        """Copy the state of a run."""
        carriers = source.see_carriers()
        return cls(
            time=source.time,
            step=step,
            state=state,
            names=source.see_names(),
            robots=_frozen(source.see_robots().copy()),
            carriers=CarrierTruth(
                carriers.names,
                carriers.markers,
                _frozen(carriers.poses.copy()),
                _frozen(carriers.lifts.copy()),
                _frozen(carriers.carried_by.copy()),
            ),
            lifts=_frozen(source.see_lifts()),
            leds=source.see_leds(),
            doing=source.see_doing(),
            events=Events(source.see_events()),
            standing=source.see_standing(),
            metrics=MappingProxyType(source.see_metrics()),
        )

    @property
    def poses(self) -> FloatArray:
        """Return a row of x, y, yaw in `map` for each robot."""
        poses: FloatArray = self.robots[:, :3]
        return poses

    @property
    def twists(self) -> FloatArray:
        """Return a row of vx, vy in the robot's own frame and omega for each robot."""
        twists: FloatArray = self.robots[:, 3:]
        return twists


def _frozen(array: A) -> A:
    array.setflags(write=False)
    return array


class Observer(Protocol):
    """Looks on while a run is computed.

    Attributes:
        rate: [Hz] rate of the world's time at which it wants to see.
    """

    rate: float

    def begin(self, scene: Scene, manifest: Mapping[str, Any]) -> None:
        """Prepare for a run."""
        ...

    def see(self, snapshot: Snapshot) -> None:
        """Look at the run."""
        ...

    def end(self, summary: Mapping[str, Any]) -> None:
        """Finish: the run is over."""
        ...


class Onlooker(Protocol):
    """A part of ours that looks on in the run's own thread, without snapshots: it costs next to nothing.

    Attributes:
        rate: [Hz] rate of the world's time at which it wants to look: at ticks, and no more often.
    """

    rate: float

    def look(self, source: Source) -> None:
        """Look at the run, and copy what is kept; what it raises, the run raises."""
        ...


class _Seat:
    """The place in the audience of somebody who looks on.

    Attributes:
        rate: [Hz] rate of the world's time at which it wants to see.
        due: time of the world at which it wants to see next.
    """

    def __init__(self, rate: float, name: str) -> None:
        self.name = name
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            message = f"observer {name}: rate is {rate!r}; expected a number of Hz above 0"
            raise ConfigError(message)
        self.rate = float(rate)
        self.due = 0.0
        self.next(0.0)

    def next(self, now: float) -> None:
        """Set the next time at which it is due."""
        self.due = (math.floor((now + EPSILON) * self.rate) + 1) / self.rate - EPSILON


class _Inline(_Seat):
    """The place of an onlooker."""

    def __init__(self, onlooker: Onlooker) -> None:
        super().__init__(onlooker.rate, type(onlooker).__name__)
        self.onlooker = onlooker
        self.look = onlooker.look


class _Own(_Seat):
    """An observer with a thread of its own.

    Attributes:
        seen: number of snapshots that it saw.
        missed: number of those that it was too late for.
        dropped: why it was dropped; empty if it was not.
        hurried: whether the run has no time to spare, so that the observer must leave it the processor.
    """

    def __init__(self, observer: Observer, name: str) -> None:
        super().__init__(observer.rate, name)
        self.observer = observer
        self.seen = self.missed = 0
        self.dropped = ""
        self.hurried = True
        self._backlog: deque[Snapshot] = deque()
        self._here = threading.Condition()
        self._summary: Mapping[str, Any] | None = None
        self._since: float | None = None
        self._owed = 0.0
        self._idle = False
        self._thread: threading.Thread | None = None

    def begin(self, scene: Scene, manifest: Mapping[str, Any]) -> None:
        """Start the thread, and let the observer prepare in it."""
        self._since = time.monotonic()
        self._thread = threading.Thread(
            target=self._work, args=(scene, manifest), name=f"observer {self.name}", daemon=True
        )
        self._thread.start()

    @property
    def works(self) -> bool:
        """Return whether it still works; drop it if it has been busy for too long."""
        since = self._since
        if since is not None and time.monotonic() - since > SLOW:
            self._drop(f"too slow: more than {SLOW:g} s for one snapshot")
        return not self.dropped

    def show(self, snapshot: Snapshot) -> None:
        """Put a snapshot into the backlog."""
        with self._here:
            room = max(min(BACKLOG, BACKLOG_VALUES // max(snapshot.robots.size, 1)), 1)
            while len(self._backlog) >= room:
                self._backlog.popleft()
                self.missed += 1
            self._backlog.append(snapshot)
            if self._idle:
                self._here.notify()

    def end(self, summary: Mapping[str, Any]) -> None:
        """Let the observer see what waits, and end."""
        with self._here:
            self._summary = summary
            self._here.notify()

    def join(self, until: float) -> None:
        """Wait for the end of its thread, at most until a time of this machine's clock."""
        if self._thread is None:
            return
        self._thread.join(max(until - time.monotonic(), 0.0))
        if self._thread.is_alive():
            self._drop(f"too slow: not done {ENDING:g} s after the end of the run")

    def _drop(self, why: str) -> None:
        with self._here:
            self.dropped = self.dropped or why
            self.missed += len(self._backlog)
            self._backlog.clear()
            self._here.notify()

    def _work(self, scene: Scene, manifest: Mapping[str, Any]) -> None:
        """Begin, see and end. The observer's errors end its own work only."""
        try:
            self.observer.begin(scene, manifest)
            self._since = None
            see = self.observer.see
            while self._wait():
                started, until = time.thread_time(), time.monotonic() + SPELL
                while (now := time.monotonic()) < until and (snapshot := self._take()) is not None:
                    self._since = now
                    see(snapshot)
                    self._since = None
                    self.seen += 1
                self._rest(time.thread_time() - started)
            if self._summary is not None and not self.dropped:
                self.observer.end(self._summary)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is its own matter
            self._drop(described(error))

    def _take(self) -> Snapshot | None:
        """Return the oldest snapshot that waits, if there is one."""
        with self._here:
            return self._backlog.popleft() if self._backlog and not self.dropped else None

    def _wait(self) -> bool:
        """Wait for snapshots; return False once there are no more."""
        with self._here:
            if not self._backlog and self.hurried and self.seen and self._summary is None:
                # To be woken for each snapshot would cost a hurried run more than the observer does.
                self._here.wait_for(lambda: self._summary is not None or bool(self.dropped), LULL)
            self._idle = True
            self._here.wait_for(lambda: self._backlog or self._summary is not None or self.dropped)
            self._idle = False
            return bool(self._backlog) and not self.dropped

    def _rest(self, spent: float) -> None:
        """Leave the processor to a run that has no time to spare."""
        if not self.hurried or self._summary is not None:
            return
        self._owed += spent * (1.0 / SHARE - 1.0)
        if self._owed > NAP:
            owed, self._owed = min(self._owed, 1.0), 0.0
            with self._here:
                self._here.wait_for(lambda: self._summary is not None or bool(self.dropped), owed)


class Audience:
    """All who look on at a run.

    Attributes:
        due: the world's time from which an onlooker wants to look.
        due_own: the world's time from which an observer wants to see.
    """

    def __init__(self) -> None:
        self.due = self.due_own = math.inf
        self._inline: list[_Inline] = []
        self._own: list[_Own] = []

    def add(self, observer: Observer, name: str = "") -> None:
        """Add an observer, which gets a thread of its own.

        Raises:
            ConfigError: its rate is not a number above 0.
        """
        name = name or type(observer).__name__
        taken = {seat.name for seat in self._own}
        names = (name, *(f"{name} {k}" for k in range(2, len(taken) + 3)))
        seat = _Own(observer, next(each for each in names if each not in taken))
        self._own.append(seat)
        self.due_own = min(self.due_own, seat.due)

    def add_inline(self, onlooker: Onlooker) -> None:
        """Add a part of ours that looks on in the run's thread."""
        seat = _Inline(onlooker)
        self._inline = [*self._inline, seat]
        self.due = min(self.due, seat.due)

    def drop_inline(self, onlooker: Onlooker) -> None:
        """Take a part of ours away."""
        self._inline = [seat for seat in self._inline if seat.onlooker is not onlooker]

    def begin(self, scene: Scene, manifest: Mapping[str, Any]) -> None:
        """Let all observers prepare."""
        for seat in self._own:
            seat.begin(scene, manifest)

    def look(self, source: Source, now: float) -> None:
        """Let the onlookers look that are due."""
        seats, due = self._inline, math.inf
        for seat in seats:
            if seat.due <= now:
                seat.due = (math.floor((now + EPSILON) * seat.rate) + 1) / seat.rate - EPSILON
                seat.look(source)
            due = min(due, seat.due)
        # One that was added meanwhile may be due before.
        self.due = due if seats is self._inline else now

    def show(
        self,
        source: Source,
        step: int,
        *,
        state: str = "running",
        hurried: bool = True,
        anyway: bool = False,
    ) -> None:
        """Show the run to the observers that are due.

        Args:
            source: the run.
            step: number of its steps so far.
            state: `running` or `paused`.
            hurried: whether the run has no time to spare.
            anyway: whether to show it to all.
        """
        now = source.time
        due = [seat for seat in self._own if seat.due <= now or (anyway and not seat.dropped)]
        works = [seat for seat in due if seat.works]
        if works:
            snapshot = Snapshot.of(source, step, state)
            for seat in works:
                seat.hurried = hurried
                seat.next(now)
                seat.show(snapshot)
        for seat in due:
            if seat.dropped:
                seat.due = math.inf
        self.due_own = min((seat.due for seat in self._own), default=math.inf)

    def end(self, summary: Mapping[str, Any]) -> None:
        """Let all of those with threads of their own see what waits for them, and end."""
        for seat in self._own:
            seat.end(summary)
        until = time.monotonic() + ENDING
        for seat in self._own:
            seat.join(until)

    def told(self) -> dict[str, dict[str, Any]]:
        """Return what became of each observer with a thread of its own, by name, for the summary."""
        return {
            seat.name: {"seen": seat.seen, "missed": seat.missed}
            | ({"dropped": seat.dropped} if seat.dropped else {})
            for seat in self._own
        }
