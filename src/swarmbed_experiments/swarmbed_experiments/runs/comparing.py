"""What differs between two runs: what went into them, and what came out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from swarmbed_core.errors import SwarmbedError
from swarmbed_core.safe_yaml import read

from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.identity import digest
from swarmbed_experiments.runs.manifest import Manifest, orders_of
from swarmbed_experiments.runs.metrics import by_rank
from swarmbed_experiments.runs.origins import is_our_name
from swarmbed_experiments.runs.results import number
from swarmbed_experiments.runs.summary import Summary
from swarmbed_experiments.runs.track import Track

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Difference:
    """Something that two runs do not share; None stands for what one of them lacks."""

    name: str
    one: Any
    other: Any


@dataclass(frozen=True)
class Comparison:
    """What differs between two runs.

    Attributes:
        one: directory of the first run.
        other: directory of the second one.
        settings: of the scenarios, with those in files that they name.
        versions: of packages, the commit, and the machine.
        files: hashes of code and data that took part.
        orders: what was ordered from outside.
        results: verdict, times and metrics of both, also those that are the same.
        track: where the tracks part, in words; empty if they are the same to the bit.
        problems: what could not be compared, and why.
    """

    one: Path
    other: Path
    settings: list[Difference] = field(default_factory=list)
    versions: list[Difference] = field(default_factory=list)
    files: list[Difference] = field(default_factory=list)
    orders: list[Difference] = field(default_factory=list)
    results: list[Difference] = field(default_factory=list)
    track: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Return whether the tracks are the same to the bit."""
        return not self.track

    def as_data(self) -> dict[str, Any]:
        """Return the comparison as JSON data."""
        kinds = ("settings", "versions", "files", "orders", "results")
        return {
            "one": str(self.one),
            "other": str(self.other),
            **{kind: [vars(each) for each in getattr(self, kind)] for kind in kinds},
            "same_track": self.same,
            "track": self.track,
            "problems": self.problems,
        }


def compare(one: Path, other: Path) -> Comparison:
    """Compare two runs. What one of them lacks is a problem of the comparison, not an error."""
    found = Comparison(one, other)
    both = (one, other)

    def ask(call: Callable[[Path], Any]) -> tuple[Any, Any]:
        """Return what both runs have; after a problem, None and None."""
        made = []
        for place in both:
            try:
                made.append(call(place))
            except SwarmbedError as error:
                found.problems.append(str(error))
        return (made[0], made[1]) if len(made) == 2 else (None, None)

    settings = ask(_settings)
    if settings[0] is not None:
        found.settings.extend(changes("", *settings))
    manifests = ask(Manifest.load)
    if manifests[0] is not None:
        found.versions.extend(changes("", *map(_surroundings, manifests)))
        found.files.extend(_files(*manifests))
    found.orders.extend(changes("", *map(_orders, both)))
    summaries = ask(Summary.load)
    if summaries[0] is not None:
        found.results.extend(_results(*summaries))
    tracks = ask(lambda place: Track.load(place / "track.npz"))
    where = "one of the runs has no track" if tracks[0] is None else parting(*tracks)
    return Comparison(**{**vars(found), "track": where})


def changes(where: str, one: Any, other: Any) -> Iterator[Difference]:
    """Yield what differs between two trees of settings."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            yield from changes(f"{where}.{key}" if where else str(key), one.get(key), other.get(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from changes(f"{where}.{i}", mine, theirs)
    elif one != other:
        yield Difference(where, one, other)


def _settings(directory: Path) -> dict[str, Any]:
    """Return the packed scenario, with the contents of the files that it names in their place."""
    scenario = read(directory / "scenario.yaml")
    if not isinstance(scenario, dict):
        message = f"{directory / 'scenario.yaml'}: not a scenario"
        raise RunError(message)
    contents: dict[str, Any] = {}
    for file in sorted((directory / "files").rglob("*.yaml")):
        try:
            contents[file.relative_to(directory).as_posix()] = read(file)
        except SwarmbedError:
            contents[file.relative_to(directory).as_posix()] = digest(file)
    settings = {str(key): _unpacked(value, contents) for key, value in scenario.items()}
    named = {value for value in _texts(scenario) if value in contents}
    return {**settings, **{name: content for name, content in contents.items() if name not in named}}


def _unpacked(value: Any, contents: Mapping[str, Any]) -> Any:
    """Return a setting in which the name of a packed file is replaced by the file's content."""
    if isinstance(value, dict):
        return {str(key): _unpacked(each, contents) for key, each in value.items()}
    if isinstance(value, list):
        return [_unpacked(each, contents) for each in value]
    if isinstance(value, str) and value in contents:
        return {"file": value, "content": contents[value]}
    return value


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in a tree of settings."""
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(each)


def _surroundings(manifest: Manifest) -> dict[str, Any]:
    """Return versions and machine of a run."""
    machine = {f"machine.{name}": value for name, value in manifest.machine.model_dump().items()}
    return {**manifest.versions, "commit": manifest.commit, **machine}


def _files(one: Manifest, other: Manifest) -> list[Difference]:
    """Return the files whose hashes differ, users' own first."""
    names = sorted(one.files.keys() | other.files.keys())
    names.sort(key=lambda name: is_our_name(name.partition("/")[0]))
    both = ((name, one.files.get(name), other.files.get(name)) for name in names)
    return [Difference(*each) for each in both if each[1] != each[2]]


def _orders(directory: Path) -> dict[str, Any]:
    """Return the orders that a run took, empty if there were none."""
    try:
        found = orders_of(directory)
    except RunError as error:
        return {"orders": str(error)}
    return {} if found is None else {"number of orders": found.count, "orders": found.digest}


def _results(one: Summary, other: Summary) -> Iterator[Difference]:
    """Yield verdict, times and metrics of both runs."""
    for name in ("verdict", "reason", "sim_seconds", "wall_seconds"):
        yield Difference(name, getattr(one, name), getattr(other, name))
    for name in by_rank(dict.fromkeys([*one.metrics, *other.metrics])):
        yield Difference(name, one.metrics.get(name), other.metrics.get(name))


# Tracks


def parting(one: Track, other: Track) -> str:
    """Return when and how two tracks part, in words; empty if they are the same to the bit."""
    gone = sorted(set(one.robots) ^ set(other.robots))
    if gone:
        return f"{gone[0]} is a robot of one run only"
    if set(one.carriers) != set(other.carriers):
        return "the runs have different carriers"
    columns = [other.robots.index(name) for name in one.robots]
    trays = [other.carriers.index(name) for name in one.carriers]
    rows = min(len(one.times), len(other.times))
    found: list[tuple[int, int, str]] = []

    def look(what: int, mine: NDArray[Any], theirs: NDArray[Any], told: Callable[[int, int], str]) -> None:
        """Note the first sample that differs, and its first column."""
        differs = _differ(mine[:rows], theirs[:rows])
        if differs.ndim > 2:
            differs = np.logical_or.reduce(differs, axis=2)
        samples = np.flatnonzero(differs.any(axis=1))
        if len(samples):
            first = int(samples[0])
            found.append((first, what, told(first, int(differs[first].argmax()))))

    times = np.flatnonzero(_differ(one.times[:rows], other.times[:rows]))
    if len(times):
        at = int(times[0])
        early, late = sorted((float(one.times[at]), float(other.times[at])))
        found.append((at, 0, f"the same sample is from {early:g} s and {late:g} s"))
    theirs = other.poses[:, columns]
    look(1, one.poses, theirs, lambda row, i: f"{one.robots[i]} {_apart(one.poses[row, i], theirs[row, i])}")
    look(
        2,
        _words(one.deeds, one.doing),
        _words(other.deeds, other.doing[:, columns]),
        lambda _, i: f"{one.robots[i]} does something else",
    )
    loads = other.carrier_poses[:, trays]
    look(
        3,
        one.carrier_poses,
        loads,
        lambda row, i: f"{one.carriers[i]} {_apart(one.carrier_poses[row, i], loads[row, i])}",
    )
    look(
        4,
        _carrying(one, range(len(trays))),
        _carrying(other, trays),
        lambda _, i: f"{one.carriers[i]} is lifted by another robot, or by none",
    )
    if found:
        row, _, what = min(found)
        return f"from {min(one.times[row], other.times[row]):.1f} s on: {what}"
    if len(one.times) != len(other.times):
        shorter = min(one, other, key=lambda track: len(track.times))
        end = f"{shorter.times[-1]:.1f} s" if rows else "its start"
        return f"the same to {end}, where one of the runs ends"
    for mine, yours in zip(one.events, other.events, strict=False):
        if mine != yours:
            return f"from {min(mine.time, yours.time):.1f} s on: the events differ"
    return "" if len(one.events) == len(other.events) else "one of the runs has more events"


def _differ(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where arrays differ in their bits; NaN is the same as NaN, 0 is not -0."""
    if one.dtype.kind == "f":
        one, other = one.astype(np.float64).view(np.int64), other.astype(np.float64).view(np.int64)
    return np.asarray(one != other)


def _words(deeds: Sequence[str], doing: NDArray[np.int64]) -> NDArray[Any]:
    """Return what robots do as texts, because each run numbers its activities anew."""
    return np.array(deeds or ("",), dtype=object)[doing]


def _carrying(track: Track, columns: Sequence[int]) -> NDArray[Any]:
    """Return the names of the robots that carry the carriers, empty for none."""
    names = np.array([*track.robots, ""], dtype=object)
    carrying: NDArray[Any] = names[track.carried_by[:, list(columns)]]
    return carrying


def _apart(one: NDArray[np.float64], other: NDArray[np.float64]) -> str:
    """Return how far apart two poses are, in words."""
    gap = math.hypot(*(one[:2] - other[:2]))
    if not math.isfinite(gap):
        return "is there in one run only"
    turn = abs(math.remainder(float(one[2] - other[2]), math.tau))
    return f"is {number(gap, 3)} m and {number(turn, 3)} rad away from its pose in the other run"
