"""Scenario files: loading with changes from the command line, full validation, and packing."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import yaml
from swarmbed_core.arena import Arena
from swarmbed_core.config import check, find, names
from swarmbed_core.controller import ControllerType, find_controller
from swarmbed_core.errors import ConfigError, NotInstalledError
from swarmbed_core.imaging import Imaging
from swarmbed_core.local import LocalSwarm
from swarmbed_core.markers import CarrierMarkers, MarkerMap
from swarmbed_core.memory import MemoryWorld
from swarmbed_core.outfit import find_maker
from swarmbed_core.plugins import ACCEPTORS, GENERATORS, TRANSDUCERS, WORLDS, find_plugin, look_in
from swarmbed_core.safe_yaml import MOST_DEPTH, parse, read, short
from swarmbed_core.scenario import Scenario, names_file
from swarmbed_core.scene import Scene, make_scene
from swarmbed_core.spec import RobotSpec

from swarmbed_experiments.errors import RunError, make
from swarmbed_experiments.files import replace_text, write_text
from swarmbed_experiments.frame import find_part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from py_trees.behaviour import Behaviour
    from swarmbed_core.config import Part
    from swarmbed_core.outfit import DeviceMaker
    from swarmbed_core.scenario import Named, Robots

FILES = "files"
"""Directory next to a packed scenario with copies of the files it names."""


def load_scenario(
    name: str, sets: Sequence[str] = (), *, world: str | None = None, seed: int | None = None
) -> tuple[Scenario, str]:
    """Load a scenario. Return it and the path of its file.

    Args:
        name: from config/scenarios, or a path to a .yaml file.
        sets: changes such as `robots.0.count=7`; the value is YAML. Paths in changes are relative to the
            current directory, paths in the file to the file's directory.
        world: replaces the file's.
        seed: replaces the file's.

    Raises:
        ConfigError: the file or a change is invalid.
    """
    path = find(name, Scenario.FOLDER)
    data = read(path)
    Scenario.anchor(data, path.parent)
    for item in sets:
        apply_set(data, item)
    Scenario.anchor(data, Path.cwd())
    for field, value in (("world", world), ("seed", seed)):
        if value is not None and isinstance(data, dict):
            data[field] = value
    return check(data, Scenario, str(path)), str(path)


def name_of(scenario: Scenario, source: str) -> str:
    """Return the name of a scenario's runs."""
    return scenario.name or Path(source).stem


def apply_set(data: Any, change: str) -> None:
    """Change one field of a file's data, in place.

    Args:
        data: content of the YAML file.
        change: `field.field=value`; numbers are indices of lists, from 0.

    Raises:
        ConfigError: the syntax is wrong, or the path leads through a value without fields.
    """
    where, equals, text = change.partition("=")
    keys = where.strip().split(".")
    shown = short(change, 120)
    if not equals or not all(keys) or len(keys) > MOST_DEPTH:
        message = f"--set {shown}: write field=value, such as robots.0.count=7"
        raise ConfigError(message)
    try:
        value = parse(text, f"--set {shown}")
    except ConfigError as error:
        message = f"{error}; put texts with special characters in quotes"
        raise ConfigError(message) from None
    here = data
    for i, key in enumerate(keys):
        last = i == len(keys) - 1
        at = ".".join(keys[:i]) or "the scenario"
        if isinstance(here, list):
            if not key.isdecimal() or len(key) > 9 or int(key) >= len(here):
                what = f"{short(at)} is a list of {len(here)}"
                message = f"--set {shown}: {what}; '{short(key)}' is not one of its indices, which start at 0"
                raise ConfigError(message)
            step: Any = int(key)
        elif isinstance(here, dict):
            step = key
            if not last:
                here.setdefault(key, {})
        else:
            message = f"--set {shown}: {short(at)} is {short(repr(here))} and has no field '{short(key)}'"
            raise ConfigError(message)
        if last:
            here[step] = value
        else:
            here = here[step]


def root_of(controller: str, sets: Sequence[str], kind: str) -> Behaviour:
    """Return the behaviour tree of a controller, made for one robot.

    Args:
        controller: its name.
        sets: changes of its parameters, such as `speed=0.3`. The defaults are those of the first scenario
            that uses the controller.
        kind: of the robot.

    Raises:
        ConfigError: the controller or kind does not exist, or the controller has no tree.
        RunError: the controller cannot be made.
    """
    cases = (Scenario.load(name) for name in names(Scenario.FOLDER))
    parameters: dict[str, Any] = next(
        (dict(case.controller.parameters) for case in cases if case.controller.name == controller), {}
    )
    for item in sets:
        apply_set(parameters, item)
    made, checked = find_controller(controller, parameters, "tree")
    robot = LocalSwarm(MemoryWorld.of([kind])).robots[0]
    program = make(f"controller {controller}", made, robot, checked, np.random.default_rng(0))
    root = getattr(program, "root", None)
    if root is None:
        message = f"controller '{controller}' has no behaviour tree: `root` must be a py_trees behaviour"
        raise ConfigError(message)
    return cast("Behaviour", root)


def to_yaml(scenario: Scenario) -> str:
    """Return a scenario as YAML that loads as the same scenario."""
    return _as_text(scenario.model_dump(mode="json", exclude_none=True))


def pack(scenario: Scenario, source: str, directory: Path) -> None:
    """Write a scenario with copies of all files that it names, as a directory that can be moved.

    Args:
        scenario: with all changes applied.
        source: its file, which names it.
        directory: gets scenario.yaml and files/.

    Raises:
        ConfigError: a file has disappeared since the scenario was checked.
        RunError: the files cannot be written.
    """
    copies = _Copies(directory)
    arena = find(scenario.arena, Arena.FOLDER)
    packed: dict[str, Any] = {
        "name": name_of(scenario, source),
        "arena": copies.add(arena, "worlds", _with_its_markers(arena, copies)),
        "carrier_markers": copies.add(find(scenario.carrier_markers, CarrierMarkers.FOLDER), "markermaps"),
    }
    data = scenario.model_copy(update=packed).model_dump(mode="json", exclude_none=True)
    for group in data["robots"]:
        group["kind"] = copies.add(find(group["kind"], RobotSpec.FOLDER), "robots")
    for named in (data["controller"], *(part for parts in data["frame"].values() for part in parts)):
        for field, value in named.items():
            if field != "name" and isinstance(value, str) and names_file(value, Path()):
                named[field] = copies.add(Path(value), "parameters")
    if scenario.vision == "pixels":
        from swarmbed_sim.pixels import IMAGING

        # Documents the run. Scenarios cannot choose this file.
        copies.add(find(IMAGING, Imaging.FOLDER), "imaging")
    replace_text(directory / "scenario.yaml", _as_text(data))


class _Copies:
    """Copies of files in a directory, one copy of each file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._made: dict[Path, str] = {}

    def add(self, file: Path, folder: str, text: str | None = None) -> str:
        """Copy a file, or write `text` in its place; return the path relative to the scenario's file."""
        known = Path(os.path.realpath(file))
        if known in self._made:
            return self._made[known]
        taken = set(self._made.values())
        number, name = 1, f"{FILES}/{folder}/{file.stem}.yaml"
        while name in taken:
            number += 1
            name = f"{FILES}/{folder}/{file.stem}_{number}.yaml"
        self._made[known] = name
        copy = self._directory / name
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                shutil.copyfile(file, copy)
        except OSError as error:
            message = f"{copy}: cannot be written ({error.strerror or error})"
            raise RunError(message) from None
        if text is not None:
            write_text(copy, text)
        return name


def _with_its_markers(arena: Path, copies: _Copies) -> str | None:
    """Return an arena's file as text that names a copy of its marker map; None if it has no marker map."""
    data = read(arena)
    Arena.anchor(data, arena.parent)
    name = data.get("marker_map") if isinstance(data, dict) else None
    if name is None:
        return None
    copy = copies.add(find(name, MarkerMap.FOLDER), "markermaps")
    # Both copies are in subdirectories of files/.
    data["marker_map"] = f"../{Path(copy).relative_to(FILES)}"
    return _as_text(data)


def _as_text(data: Any) -> str:
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100)


@dataclass(frozen=True)
class Plan:
    """A scenario with all its names resolved.

    Attributes:
        programs: name, class and parameters of the program of each group of robots; None for a group that is
            driven from elsewhere.
        real: which parts of robots run in real time, so that the world can neither hurry nor be reset; empty
            if there are none.
    """

    scenario: Scenario
    source: str
    scene: Scene
    make_world: Any
    controller: ControllerType
    parameters: Part
    generators: tuple[tuple[Any, Part], ...]
    transducers: tuple[tuple[Any, Part], ...]
    acceptors: tuple[tuple[Any, Part], ...]
    programs: tuple[tuple[str, ControllerType, Part] | None, ...]
    devices: tuple[tuple[DeviceMaker, Part], ...]
    real: tuple[str, ...]

    @property
    def real_time_only(self) -> str:
        """Return why the world must run in real time, and what to do; empty if it need not."""
        if not self.real:
            return ""
        return (
            f"{self.source}: {', '.join(self.real)}: real parts run in real time; the world cannot hurry "
            "or be reset; use --speed 1, or `lockstep: true` if they are simulated"
        )


def make_plan(scenario: Scenario, source: str) -> Plan:
    """Resolve a scenario's names, and place its robots, carriers and obstacles.

    Raises:
        NotInstalledError: the scenario is valid, but needs a package that is not installed.
        ConfigError: the scenario is invalid; the message lists every fault, one per line.
    """
    faults: list[str] = []
    kinds: set[type[ConfigError]] = set()

    def ask(field: str, call: Callable[[], Any]) -> Any:
        """Return the result of a call, or None after collecting its faults."""
        try:
            return call()
        except ConfigError as error:
            kinds.add(type(error))
            where = f"{source}: {field}: " if field else f"{source}: "
            faults.extend(
                line if line.startswith(source) else f"{where}{line}" for line in str(error).splitlines()
            )
            return None

    def parts(group: str, field: str, named: Sequence[Named]) -> tuple[Any, ...]:
        return tuple(
            ask(f"{field}.{i}", lambda i=i, one=one: find_part(group, one, f"{source}: {field}.{i}"))  # type: ignore[misc]
            for i, one in enumerate(named)
        )

    def program(group: Robots) -> tuple[str, Any, Any] | None:
        """Return the program of a group; that of the scenario is found below."""
        own = group.controller
        return None if own is None else (own.name, *find_controller(own.name, own.parameters, source))

    look_in(Path(source).parent)
    named, frame = scenario.controller, scenario.frame
    world = ask("world", lambda: find_plugin(WORLDS, scenario.world))
    found = ask("controller", lambda: find_controller(named.name, named.parameters, source))
    programs = tuple(
        None if group.driver == "elsewhere" else ask(f"robots.{i}", lambda group=group: program(group))  # type: ignore[misc]
        for i, group in enumerate(scenario.robots)
    )
    generators = parts(GENERATORS, "frame.generators", frame.generators)
    transducers = parts(TRANSDUCERS, "frame.transducers", frame.transducers)
    acceptors = parts(ACCEPTORS, "frame.acceptors", frame.acceptors)
    real: list[str] = []
    devices = []
    for i, group in enumerate(scenario.robots):
        for k, one in enumerate(group.device):
            field = f"robots.{i}.device.{k}"
            made = ask(field, lambda one=one, field=field: find_maker(one, f"{source}: {field}"))  # type: ignore[misc]
            if made is not None:
                devices.append(made)
                real += [f"{field} ({one.name})"] if made[0].is_real(made[1]) else []
    before = len(faults)
    ask("arena", lambda: Arena.load(scenario.arena))
    for i, group in enumerate(scenario.robots):
        ask(f"robots.{i}.kind", lambda group=group: RobotSpec.load(group.kind))  # type: ignore[misc]
    scene = ask("", lambda: make_scene(scenario, source=source)) if len(faults) == before else None
    if scene is not None and scene.crowd and found is not None and not hasattr(found[0], "crowd"):
        faults.append(f"{source}: robots: controller {named.name} does not support crowds; leave out `crowd`")
    if faults or scene is None:
        lacking = kinds == {NotInstalledError}
        raise (NotInstalledError if lacking else ConfigError)("\n".join(faults))
    controller, parameters = found
    usual = (named.name, controller, parameters)
    of_groups = tuple(
        (own or usual) if group.driver == "program" else None
        for group, own in zip(scenario.robots, programs, strict=True)
    )
    return Plan(
        scenario,
        source,
        scene,
        world,
        controller,
        parameters,
        generators,
        transducers,
        acceptors,
        of_groups,
        tuple(devices),
        tuple(real),
    )
