"""Thousands of mutated scenarios and parts: each is run or rejected, none raises, hangs or takes all memory.

By default a few hundred, with a fixed seed; SWARMBED_FUZZ=10 is ten times as many, as CONTRIBUTING.md says.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import math
import os
import resource
import signal
import sys
import traceback
import types
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml
from swarmbed_core.arena import Arena
from swarmbed_core.config import names, share_dir
from swarmbed_core.controller import NoParameters
from swarmbed_core.errors import ConfigError, SwarmbedError
from swarmbed_core.markers import MarkerMap
from swarmbed_core.scenario import Scenario
from swarmbed_core.spec import RobotSpec
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.frame import Judgement, Stand
from swarmbed_experiments.pictures import plots
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import load_scenario

from swarmbed_experiments import report, streams

TIMES = float(os.environ.get("SWARMBED_FUZZ", "1"))
SCENARIOS, FRAMES_TRIED, MISBEHAVING = round(200 * TIMES), round(60 * TIMES), round(40 * TIMES)
TICKS = 3
SECONDS = 100.0
"""Of the processor for one case; more is a hang."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(round(600 * max(1.0, TIMES)))]
MEMORY = 4 * 2**30
"""Bytes that may come to those that the process has already."""
SEED = 18

ODD = (
    *(
        None,
        True,
        False,
        "",
        "x",
        "[red]x[/wrong]",
        "ünï 日本 \u202e",
        "a/../b.yaml",
        "1e5",
        "nan",
        "yes",
        ":",
        "a:b",
    ),
    *(0, 1, -1, 2, 7, 255, 10**4, 10**6, 10**9, 2**31, 2**63, -(2**63), 2**64 - 1),
    *(0.0, -0.0, 0.5, 1.5, -1.5, 1e-12, 1e-300, 1e6, 1e12, 1e300, math.inf, -math.inf, math.nan, math.pi),
    *(
        [],
        {},
        [[]],
        [0],
        [0, 0],
        [0, 0, 0],
        [1e9, 1e9],
        [[0, 0]],
        {"a": {"b": []}},
        ["x"],
        [None],
        [1, [2, [3]]],
    ),
)


ODDER = (
    *(
        object(),
        ConfigError,
        {1, 2},
        b"x",
        1j,
        np.float32(1.5),
        np.int64(3),
        np.bool_(True),
        np.float64("nan"),
    ),
    *(
        np.arange(3),
        np.zeros((2, 2, 2)),
        np.array(["a", "b"]),
        np.array([None]),
        "x" * 10**6,
        10**400,
        range(3),
    ),
    *({1: {2: {3: 4}}}, [[1.0, np.nan], [None]], iter(()), float, lambda: 1),
)
"""What programs return beside what a file can hold."""


class HangError(BaseException):
    """A case took too long."""


def places(tree, path=()):
    """Return the paths of all that is in a tree, but of the tree itself."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = []
    for key, value in list(items):
        found += [(*path, key), *places(value, (*path, key))]
    return found


def at(tree, path):
    """Return what is at a path."""
    for key in path:
        tree = tree[key]
    return tree


def mutate(tree, rng):
    """Return a tree in which one or two things are not as they were."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 3))):
        found = places(tree)
        numbers = [path for path in found if type(at(tree, path)) in {int, float}]
        if numbers and rng.random() < 0.6:
            path = numbers[int(rng.integers(len(numbers)))]
            at(tree, path[:-1])[path[-1]] = other_number(at(tree, path), rng)
        elif found:
            rebuild(tree, found, found[int(rng.integers(len(found)))], rng)
    return tree


def other_number(value, rng):
    """Return a number instead of another one."""
    factors = (-1, 0, 0.5, 0.9, 1.1, 2, 3, 10, 100, 1e4, 1e7, 1e12, 1e-3, 1e-9)
    changed = value * factors[int(rng.integers(len(factors)))] + int(rng.integers(-1, 2)) * (
        rng.random() < 0.2
    )
    if isinstance(value, int) and rng.random() < 0.8:
        return int(changed)
    return ODD[int(rng.integers(len(ODD)))] if rng.random() < 0.1 else changed


def rebuild(tree, found, path, rng):
    """Change what is at a path: another value, nothing, several, or what is at one of the other paths."""
    parent, key = at(tree, path[:-1]), path[-1]
    value = parent[key]
    how = rng.choice(["odd", "remove", "repeat", "swap", "copy", "add"])
    if how == "odd":
        parent[key] = copy.deepcopy(ODD[int(rng.integers(len(ODD)))])
    elif how == "remove":
        del parent[key]
    elif how == "repeat" and isinstance(parent, list):
        parent += [copy.deepcopy(value) for _ in range(int(rng.choice([1, 2, 60])))]
    elif how == "add" and isinstance(parent, dict):
        parent[str(rng.choice(["x", "name", "count", "zone", "version", "ünï"]))] = copy.deepcopy(value)
    else:
        other = found[int(rng.integers(len(found)))]
        taken = copy.deepcopy(at(tree, other))
        if how == "swap" and other[: len(path)] != path and path[: len(other)] != other:
            at(tree, other[:-1])[other[-1]] = value
        parent[key] = taken


def tamed(data):
    """Return a scenario in the planar world, with few robots."""
    data = {**data, "world": "planar", "vision": "corners"}
    for group in data["robots"]:
        group["count"] = (
            min(group.get("count", 6), 6) if "poses" not in group["place"] else len(group["place"]["poses"])
        )
    return data


def read(folder, name):
    """Return the data of a file below config/ or worlds/."""
    return yaml.safe_load((share_dir() / folder / f"{name}.yaml").read_text("utf-8"))


def mutated(rng, directory):
    """Write a scenario that is mutated, or names a file that is; return its file and what to report."""
    data = tamed(read(Scenario.FOLDER, rng.choice(names(Scenario.FOLDER))))
    target = str(rng.choice(["scenario", "scenario", "scenario", "robot", "robot", "arena", "markers"]))
    told = {}
    if target == "robot":
        kind = data["robots"][0].get("kind", "dots")
        told = mutate(read(RobotSpec.FOLDER, kind), rng)
        data["robots"][0]["kind"] = str(directory / "robot.yaml")
    elif target == "arena":
        told = mutate(read(Arena.FOLDER, data.get("arena", "dots_arena")), rng)
        data["arena"] = str(directory / "arena.yaml")
    elif target == "markers":
        name = "carrier_markers" if rng.integers(2) else "marker_map"
        if name == "carrier_markers":
            told = mutate(read(MarkerMap.FOLDER, "dots_carrier"), rng)
            data[name] = str(directory / "markers.yaml")
        else:
            told = mutate(read(MarkerMap.FOLDER, "dots_arena"), rng)
            arena = {**read(Arena.FOLDER, "dots_arena"), "marker_map": str(directory / "markers.yaml")}
            write(directory / "arena.yaml", arena)
            data["arena"] = str(directory / "arena.yaml")
            for group in data["robots"]:
                group["localised"] = True
    else:
        data = mutate(data, rng)
    if told:
        write(directory / f"{target}.yaml", told)
    file = directory / "scenario.yaml"
    write(file, data)
    return file, {"scenario": data, target: told} if told else data


def write(file, data):
    """Write a YAML file."""
    file.write_text(yaml.safe_dump(data, allow_unicode=True), "utf-8")


FRAMES = {
    "generators": [
        {"name": "radio_loss", "share": 0.3},
        {"name": "dead_sensor", "count": 1, "after": 0.1},
        {"name": "robot_death", "count": 2, "while_carrying": 1, "after": 0.1},
        {"name": "moved_carrier", "count": 1, "after": 0.1, "zone": "search", "gap": 0.2},
        {"name": "wheel_slip", "share": 0.1},
        {"name": "motion_noise", "distance": 0.1, "angle": 0.08},
        {"name": "blocked_zone", "zone": "drop", "after": 0.1, "seconds": 0.1},
    ],
    "transducers": [
        {"name": "carriers"},
        {"name": "travel"},
        {"name": "contacts"},
        {"name": "energy"},
        {"name": "messages"},
        {"name": "localisation"},
        {"name": "convoy", "distance": 0.4, "settling": 0.1, "period": 0.1},
        {"name": "deliveries", "source": [0.0, 0.0], "destination": [1.0, 1.0], "within": 1.2},
        {"name": "formation"},
        {"name": "readings", "sense": "proximity", "every": 1, "poses": True},
    ],
    "acceptors": [
        {"name": "retrieved", "of": 1, "linger": 0.1},
        {
            "name": "arrived",
            "what": "robots",
            "places": [[0.0, 0.0, 0.0]],
            "tolerance": 0.05,
            "at_rest": True,
        },
        {"name": "elapsed"},
        {"name": "delivered", "source": [0.0, 0.0], "destination": [1.0, 1.0], "items": 1},
        {"name": "coherent", "distance": 0.4, "limit": 1.0, "seconds": 0.1},
        {"name": "safe", "speed": 0.1, "between": "anything"},
    ],
}


def framed(rng, directory):
    """Write a scenario with a few parts of a frame, one mutated; return its file and what to report."""
    base = rng.choice(
        ["intralogistics", "fault_robot_death", "convoy", "epuck2_50", "transport", "random_walk"]
    )
    data = tamed(read(Scenario.FOLDER, base))
    some = {
        group: [parts[i] for i in rng.choice(len(parts), int(rng.integers(1, 4)), replace=False)]
        for group, parts in FRAMES.items()
    }
    group = str(rng.choice(list(some)))
    # Of most parts the parameters are mutated, of some the list or the name.
    part = int(rng.integers(len(some[group])))
    name = some[group][part]["name"]
    if rng.random() < 0.8:
        some[group][part] = {**mutate(some[group][part], rng), "name": name}
    else:
        some = mutate(some, rng)
    data["frame"] = some
    write(directory / "scenario.yaml", data)
    return directory / "scenario.yaml", some


def run_briefly(file):
    """Run the beginning of a scenario as `swarmbed run` does, and sum it up."""
    run = Run(*load_scenario(str(file)))
    try:
        run.begin(None)
        for _ in range(TICKS * round(0.1 / run.timestep)):
            run.runner.once()
            if run.runner.over:
                break
        json.dumps(run.finish("interrupted", "enough", 1.0), default=str)
    finally:
        run.close()


@contextlib.contextmanager
def bounded():
    """Let the block take no more than some seconds of the processor and some memory."""

    def stop(*_):
        raise HangError

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, limits[1]))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def attempt(call):
    """Return what became of a call: `right`, `rejected`, or where it raised what is not ours."""
    try:
        with bounded():
            call()
    except SwarmbedError as error:
        said = str(error)
        return "rejected" if said and len(said) < 10_000 else f"an error of {len(said)} letters"
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        return "".join(traceback.format_exception(error, limit=-4))
    return "right"


def expect_no_faults(count, case, directory, run=run_briefly):
    """Try so many cases; fail with all that raised what is not ours."""
    outcomes, faults = Counter(), {}
    for number in range(count):
        file, data = case(np.random.default_rng((SEED, number)), directory)
        outcome = attempt(lambda file=file: run(file))
        outcomes[outcome] += 1
        if outcome not in {"right", "rejected"}:
            faults.setdefault(outcome, (number, data))
    told = "\n".join(f"{outcome}\ncase {number}: {data}"[:6000] for outcome, (number, data) in faults.items())
    assert not faults, f"{len(faults)} kinds of fault\n{told}"
    assert outcomes["right"] > 0.1 * count, "mutations that are always rejected try nothing"
    assert outcomes["rejected"] > 0.1 * count or run is not run_briefly


def test_mutated_scenarios_are_run_or_rejected(tmp_path):
    expect_no_faults(SCENARIOS, mutated, tmp_path)


def test_mutated_parts_of_frames_are_run_or_rejected(tmp_path):
    expect_no_faults(FRAMES_TRIED, framed, tmp_path)


class OddError(Exception):
    """An error whose text is one too."""

    def __str__(self):
        raise ZeroDivisionError


def deep(levels=0):
    """Call itself for ever."""
    return deep(levels + 1)


def fail(kind, *arguments):
    """Return what raises."""

    def raises():
        raise kind(*arguments)

    return raises


DEEDS = (
    *(fail(kind) for kind in (OddError, GeneratorExit, MemoryError, StopIteration, NotImplementedError)),
    *(fail(kind, "by hand") for kind in (ValueError, KeyError, SystemExit, ConfigError, RunError)),
    *(fail(SystemExit, 3), fail(OSError, 28, "No space left on device")),
    deep,
    lambda: 1 / 0,
    lambda: np.linalg.inv(np.zeros((2, 2))),
    *(lambda value=value: value for value in (*ODD, *ODDER)),
    *(lambda value=value: {"measured": value} for value in (*ODD, *ODDER)),
    *(
        lambda key=key: {key: 1.0}
        for key in (1, None, ("a", "b"), "seed", "verdict", "time", "", "a.b", "ünï\n", 1.5)
    ),
)


def part_of(rng):
    """Return a class of a frame's part that does odd things, once or always."""
    deeds = {
        name: (DEEDS[int(rng.integers(len(DEEDS)))], int(rng.integers(0, 3)))
        for name in ("__init__", "tick", "row", "metrics", "judge")
        if rng.random() < 0.4
    }
    usual = {"row": dict, "metrics": dict, "judge": lambda: Judgement(Stand.OPEN, "open")}

    def method(name):
        calls = itertools.count()
        deed, start = deeds.get(name, (usual.get(name, lambda: None), 0))

        def does(*_, **__):
            if next(calls) >= start:
                value = deed()
                return None if name == "__init__" else value
            return usual.get(name, lambda: None)()

        return does

    methods = {name: method(name) for name in ("__init__", "tick", "row", "metrics", "judge")}
    return type("Part", (), {"Parameters": NoParameters, **methods})


def misbehaving(rng, directory):
    """Write a scenario with parts of a user's own; return its file and what to report."""
    data = tamed(read(Scenario.FOLDER, rng.choice(["intralogistics", "convoy", "random_walk"])))
    data["time_limit"] = 0.1 * TICKS
    module = types.ModuleType("fuzzed_parts")
    sys.modules["fuzzed_parts"] = module
    frame = {"generators": [], "transducers": [{"name": "travel"}], "acceptors": [{"name": "elapsed"}]}
    for group, parts in frame.items():
        if rng.random() < 0.5:
            setattr(module, group, part_of(rng))
            parts.append({"name": f"fuzzed_parts:{group}"})
    data["frame"] = frame
    write(directory / "scenario.yaml", data)
    return directory / "scenario.yaml", frame


def run_to_its_end(file):
    """Run a scenario as `swarmbed run` does, and leave its files."""
    run = Run(*load_scenario(str(file)))
    try:
        summary = run.go(file.parent / "runs", record=False)
    finally:
        run.close()
    assert summary["verdict"] in {"accepted", "rejected", "failed"}
    found = json.loads((run.directory / "summary.json").read_text("utf-8"))
    assert found["verdict"] == summary["verdict"]
    assert (run.directory / "track.npz").exists()
    assert (run.directory / "metrics.parquet").exists()
    streams.Console().print(report.result_table(summary))


def test_parts_that_misbehave_are_named_and_harm_nothing_else(tmp_path, monkeypatch, capsys):
    # Pictures take longer than all the rest.
    for name in ("draw_tracks", "draw_timeline"):
        monkeypatch.setattr(plots, name, lambda *_, **__: None)
    expect_no_faults(MISBEHAVING, misbehaving, tmp_path, run_to_its_end)
    capsys.readouterr()
