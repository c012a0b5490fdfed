"""Templates of `swarmbed new`: complete files that run unchanged.

The tests run the templates as they are. A new file is a template with its name replaced.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING

from swarmbed_core.plugins import CONTROLLERS, STUDIES, known

from swarmbed_experiments.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")


class Kind(StrEnum):
    """What `swarmbed new` writes."""

    scenario = "scenario"
    controller = "controller"
    robot = "robot"
    arena = "arena"
    package = "package"


@dataclass(frozen=True)
class Template:
    """Files to write, and commands that use them.

    Attributes:
        placeholder: the name to replace in them, such as `my_arena`.
        files: template files by the name of the file to write.
        commands: to try next.
        inside: another template's placeholder, and its replacement before the name's.
    """

    placeholder: str
    files: Mapping[str, str]
    commands: tuple[str, ...]
    inside: tuple[str, str] | None = None


TEMPLATES = {
    Kind.scenario: Template(
        "my_scenario",
        {"my_scenario.yaml": "my_scenario.yaml"},
        ("swarmbed check my_scenario.yaml", "swarmbed run my_scenario.yaml"),
    ),
    Kind.controller: Template(
        "my_controller",
        # pytest would collect a template named test_*.py.
        {"my_controller.py": "my_controller.py", "test_my_controller.py": "test_my_controller.py.txt"},
        (
            "swarmbed run random_walk --set controller.name=my_controller:MyController",
            "python -m pytest test_my_controller.py",
        ),
    ),
    Kind.robot: Template(
        "my_robot",
        {"my_robot.yaml": "my_robot.yaml"},
        ("swarmbed run random_walk --set robots.0.kind=my_robot.yaml",),
    ),
    Kind.arena: Template(
        "my_arena",
        {"my_arena.yaml": "my_arena.yaml"},
        (
            "swarmbed arenas my_arena.yaml --picture my_arena.png",
            "swarmbed run random_walk --set arena=my_arena.yaml",
        ),
    ),
    Kind.package: Template(
        "my_package",
        {
            "my_package/README.md": "package/README.md",
            "my_package/package.xml": "package/package.xml",
            "my_package/pyproject.toml": "package/pyproject.toml",
            "my_package/setup.cfg": "package/setup.cfg",
            "my_package/setup.py": "package/setup.py.txt",
            "my_package/resource/my_package": "package/resource",
            "my_package/src/my_package/__init__.py": "package/init.py",
            "my_package/src/my_package/controller.py": "package/controller.py",
            "my_package/src/my_package/metric.py": "package/metric.py",
            "my_package/src/my_package/study.py": "package/study.py",
            "my_package/src/my_package/robots/my_package_bot.yaml": "my_robot.yaml",
            "my_package/src/my_package/scenarios/my_package.yaml": "package/my_package.yaml",
            "my_package/test/test_my_package.py": "package/test_my_package.py.txt",
        },
        (
            "pip install --no-build-isolation --no-deps -e my_package",
            "swarmbed run package://my_package/scenarios/my_package.yaml",
            "swarmbed sweep package://my_package/scenarios/my_package.yaml --seeds 10",
            "swarmbed study my_package",
            "python -m pytest my_package/test",
        ),
        inside=("my_robot", "my_package_bot"),
    ),
}


def write(kind: Kind, name: str, out: Path) -> tuple[list[Path], list[str]]:
    """Write the files of a template; return their paths, and the commands to try next.

    Args:
        kind: of the template.
        name: replaces the template's: lower-case letters, digits and underscores.
        out: directory of the files.

    Raises:
        RunError: the name is invalid, a file exists already, or one cannot be written.
    """
    template = TEMPLATES[kind]
    _check(name, kind)
    texts = {}
    for called, source in template.files.items():
        text = (files(__package__) / "templates" / source).read_text(encoding="utf-8")
        if template.inside is not None:
            text = _renamed(text, *template.inside)
        texts[out / _renamed(called, template.placeholder, name)] = _renamed(text, template.placeholder, name)
    for file in texts:
        if file.exists():
            message = f"{file} exists already: choose another name, or remove it"
            raise RunError(message)
    try:
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
    except OSError as error:
        message = f"{error.filename or out}: cannot be written ({error.strerror})"
        raise RunError(message) from None
    return list(texts), [_renamed(command, template.placeholder, name) for command in template.commands]


def _check(name: str, kind: Kind) -> None:
    """Check that a name is valid for files, robots and modules.

    Raises:
        RunError: it is not.
    """
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        message = (
            f"'{name}' is not a valid name: use lower-case letters, digits and underscores, such as {kind}_1"
        )
        raise RunError(message)
    if kind in {Kind.controller, Kind.package} and importlib.util.find_spec(name) is not None:
        message = (
            f"'{name}' is an installed Python module, which `import {name}` would find; choose another name"
        )
        raise RunError(message)
    if kind is Kind.package:
        for group, what in ((CONTROLLERS, "controller"), (STUDIES, "study")):
            if name in known(group):
                message = f"there is a {what} '{name}' already; choose another name"
                raise RunError(message)


def _renamed(text: str, old: str, new: str) -> str:
    """Replace a name in a text, in its three forms: snake_case, CamelCase and words."""

    def camel(name: str) -> str:
        return "".join(part[:1].upper() + part[1:] for part in name.split("_"))

    def words(name: str) -> str:
        return name.replace("_", " ").strip()

    text = text.replace(old, new).replace(camel(old), camel(new)).replace(words(old), words(new))
    return text.replace(words(old).capitalize(), words(new).capitalize())
