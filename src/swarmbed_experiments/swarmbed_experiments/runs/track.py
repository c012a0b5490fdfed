"""The track of a run: where its robots and carriers were, and what they were doing."""

from __future__ import annotations

import itertools
import json
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.observing import Event

from swarmbed_experiments.errors import RunError, unwritable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from swarmbed_core.geometry import FloatArray

    from swarmbed_experiments.frame import Look

FEW = 100
"""Maximum number of robots that are tracked at every tick. More are tracked once per second ..."""
POSES = 1_000_000
"""... as are all robots of a run that would have more poses than these."""


@dataclass(frozen=True, eq=False)
class Track:
    """Poses over time: T samples of R robots and C carriers, at 10 Hz, or at 1 Hz if there are too many.

    Robots that join get columns after those of the start. While a robot is not there, its poses are NaN.

    Attributes:
        robots: names, in the order of the columns of `poses` and `doing`.
        carriers: names, in the order of the columns of `carrier_poses` and `carried_by`.
        times: T seconds.
        poses: T x R x 3: x, y, yaw in `map`.
        doing: T x R: indices into `deeds`; all 0 for a crowd whose program reports no activities.
        deeds: names of activities that controllers reported.
        carrier_poses: T x C x 3.
        carried_by: T x C: the index of the robot that carries it, -1 if none does.
        events: in order of time.
    """

    robots: tuple[str, ...]
    carriers: tuple[str, ...]
    times: FloatArray
    poses: FloatArray
    doing: NDArray[np.int64]
    deeds: tuple[str, ...]
    carrier_poses: FloatArray
    carried_by: NDArray[np.int64]
    events: tuple[Event, ...]

    def save(self, file: Path) -> None:
        """Write the track to an .npz file.

        Raises:
            RunError: the file cannot be written.
        """
        texts = {
            "robots": self.robots,
            "carriers": self.carriers,
            "deeds": self.deeds,
            "events": events_as_lists(self.events),
        }
        try:
            np.savez_compressed(file, texts=np.array(json.dumps(texts)), **self.arrays())
        except OSError as error:
            raise unwritable(file, error) from None

    def arrays(self) -> dict[str, Any]:
        """Return the arrays in the types they are saved in."""
        few = len(self.deeds) < 2**15
        return {
            "times": self.times,
            "poses": self.poses.astype(np.float32),
            "doing": self.doing.astype(np.int16 if few else np.int32),
            "carrier_poses": self.carrier_poses.astype(np.float32),
            "carried_by": self.carried_by.astype(np.int32),
        }

    @classmethod
    def load(cls, file: Path) -> Track:
        """Read a track that `save` wrote.

        Raises:
            RunError: the file cannot be read as a track.
        """
        try:
            with np.load(file, allow_pickle=False) as data:
                return cls.of(json.loads(str(data["texts"])), data)
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error) as error:
            message = f"{file}: cannot be read as a run's track ({error})"
            raise RunError(message) from None

    @classmethod
    def of(cls, texts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Track:
        """Return a track from the content of its file."""
        return cls(
            robots=tuple(texts["robots"]),
            carriers=tuple(texts["carriers"]),
            times=arrays["times"],
            poses=arrays["poses"].astype(np.float64),
            doing=arrays["doing"].astype(np.int64),
            deeds=tuple(texts["deeds"]),
            carrier_poses=arrays["carrier_poses"].astype(np.float64),
            carried_by=arrays["carried_by"].astype(np.int64),
            events=tuple(Event(*item) for item in texts["events"]),
        )


def events_as_lists(events: Sequence[Event]) -> list[list[Any]]:
    """Return events as lists for JSON."""
    return [[event.time, event.kind, event.who, event.text] for event in events]


class Tracker:
    """Collects the track of a run.

    Attributes:
        rate: [Hz] rate at which it wants samples.
        carriers: their names.
    """

    def __init__(self, robots: Sequence[str], carriers: Sequence[str], seconds: float) -> None:
        """Prepare.

        Args:
            robots: names of the robots at the start.
            carriers: names of the carriers.
            seconds: longest duration of the run.
        """
        few = len(robots) <= FEW and len(robots) * seconds * TICK_RATE <= POSES
        self.rate = TICK_RATE if few else 1.0
        self.carriers = tuple(carriers)
        self._columns = {name: column for column, name in enumerate(robots)}
        self._names: Sequence[str] = tuple(robots)
        self._here: NDArray[np.int64] | None = None
        self._deeds: dict[str, int] = {}
        self._times: list[float] = []
        self._poses: list[FloatArray] = []
        self._doing: list[list[int]] = []
        self._carrier_poses: list[FloatArray] = []
        self._carried_by: list[NDArray[np.int64]] = []

    def add(self, look: Look) -> None:
        """Add a sample. Its time is appended last, so an interrupted call leaves no half sample."""
        doing = look.doing
        if look.names is not self._names:
            self._meet(look.names)
        deeds = self._deeds
        if doing or self._doing:
            said = doing if doing and self._here is None else self._spread(doing)
            while len(self._doing) < len(self._times):
                # A crowd that reports activities for the first time.
                self._doing.append([deeds.setdefault("", len(deeds))] * len(self._columns))
            self._doing.append([deeds.setdefault(deed, len(deeds)) for deed in said])
        carried_by = look.carriers.carried_by.copy() if self.carriers else None
        if self._here is None:
            poses = look.robots[:, :3].copy()
        else:
            poses = np.full((len(self._columns), 3), np.nan)
            poses[self._here] = look.robots[:, :3]
            if carried_by is not None and len(self._here):
                carried_by = np.where(carried_by < 0, -1, self._here[carried_by])
        self._poses.append(poses)
        if carried_by is not None:
            self._carrier_poses.append(look.carriers.poses.copy())
            self._carried_by.append(carried_by)
        self._times.append(look.time)

    def _meet(self, names: Sequence[str]) -> None:
        """Give robots that joined columns of their own; one that comes back gets its old one."""
        for name in names:
            self._columns.setdefault(name, len(self._columns))
        self._names = names
        here = np.array([self._columns[name] for name in names], dtype=np.int64)
        same = len(here) == len(self._columns) and bool((here == np.arange(len(here))).all())
        self._here = None if same else here

    def _spread(self, doing: Sequence[str]) -> Sequence[str]:
        """Return the activities by column; those of robots that are not there are empty."""
        if not doing:
            return ("",) * len(self._columns)
        if self._here is None:
            return doing
        spread = [""] * len(self._columns)
        for column, said in zip(self._here.tolist(), doing, strict=True):
            spread[column] = said
        return spread

    @property
    def robots(self) -> tuple[str, ...]:
        """Return the names of all robots that were there so far."""
        return tuple(self._columns)

    @property
    def size(self) -> tuple[int, int]:
        """Return the number of samples and of deeds."""
        return len(self._times), len(self._deeds)

    def track(self, events: Sequence[Event]) -> Track:
        """Return the whole track."""
        if len(self._columns) > min(map(len, self._poses), default=len(self._columns)):
            self._deeds.setdefault("", len(self._deeds))
        track = self.since((0, 0), sorted(events, key=lambda event: event.time))
        return track if track.deeds else replace(track, deeds=("",))

    def since(self, size: tuple[int, int], events: Sequence[Event]) -> Track:
        """Return the track since an earlier `size`, with only the deeds added since then."""
        first, end = size[0], len(self._times)
        samples, robots, carriers = end - first, len(self._columns), len(self.carriers)
        doing = widened(self._doing[first:end], robots, self._deeds.get("", 0))
        return Track(
            robots=self.robots,
            carriers=self.carriers,
            times=np.array(self._times[first:]),
            poses=widened(self._poses[first:end], robots, np.nan).reshape(samples, robots, 3),
            doing=doing.astype(np.int64) if doing.size else np.zeros((samples, robots), dtype=np.int64),
            deeds=tuple(itertools.islice(self._deeds, size[1], None)),
            carrier_poses=np.array(self._carrier_poses[first:end]).reshape(samples, carriers, 3),
            carried_by=np.array(self._carried_by[first:end], dtype=np.int64).reshape(samples, carriers),
            events=tuple(events),
        )


def widened(rows: Sequence[Any], width: int, fill: float) -> NDArray[Any]:
    """Return rows of different lengths as one array, with `fill` where they are short."""
    if all(len(row) == width for row in rows):
        return np.array(rows)
    shape = (len(rows), width, *np.shape(rows[0])[1:])
    made = np.full(shape, fill, dtype=np.asarray(rows[0]).dtype)
    for k, row in enumerate(rows):
        made[k, : len(row)] = row
    return made
