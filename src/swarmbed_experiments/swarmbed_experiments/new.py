"""What `swarmbed new` writes: files to start from, which run as they are.

The templates are whole files that the tests run: a new file is a template with another name in it.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import TYPE_CHECKING

from swarmbed_experiments.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")


class Kind(StrEnum):
    """What `swarmbed new` can write."""

    scenario = "scenario"
    controller = "controller"
    robot = "robot"
    arena = "arena"


@dataclass(frozen=True)
class Template:
    """Files to write, and what to do with them.

    Attributes:
        placeholder: the name that stands in them: `my_arena`.
        files: templates by what they are to be called.
        commands: that use them.
    """

    placeholder: str
    files: Mapping[str, str]
    commands: tuple[str, ...]


TEMPLATES = {
    Kind.scenario: Template(
        "my_scenario",
        {"my_scenario.yaml": "my_scenario.yaml"},
        ("swarmbed check my_scenario.yaml", "swarmbed run my_scenario.yaml"),
    ),
    Kind.controller: Template(
        "my_controller",
        # pytest would run a template that is called as a test.
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
}


def write(kind: Kind, name: str, out: Path) -> tuple[list[Path], list[str]]:
    """Write the files of a template; return them, and the commands to try next.

    Args:
        kind: of the template.
        name: instead of the template's: letters, digits and underscores.
        out: directory of the files.

    Raises:
        RunError: the name cannot be used, a file is there already, or one cannot be written.
    """
    template = TEMPLATES[kind]
    _check(name, kind)
    texts = {
        out / _renamed(called, template.placeholder, name): _renamed(
            (files(__package__) / "templates" / source).read_text(encoding="utf-8"),
            template.placeholder,
            name,
        )
        for called, source in template.files.items()
    }
    for file in texts:
        if file.exists():
            message = f"{file} exists already: choose another name, or remove it"
            raise RunError(message)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            with file.open("x", encoding="utf-8") as stream:
                stream.write(text)
    except OSError as error:
        message = f"{error.filename or out}: cannot be written ({error.strerror})"
        raise RunError(message) from None
    return list(texts), [_renamed(command, template.placeholder, name) for command in template.commands]


def _check(name: str, kind: Kind) -> None:
    """Make sure that files, robots and modules can have a name.

    Raises:
        RunError: they cannot.
    """
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        message = (
            f"'{name}' cannot be a name: use lower-case letters, digits and underscores, such as {kind}_1"
        )
        raise RunError(message)
    if kind is Kind.controller and importlib.util.find_spec(name) is not None:
        message = (
            f"a Python module '{name}' is installed: `import {name}` would find that one; choose another name"
        )
        raise RunError(message)


def _renamed(text: str, old: str, new: str) -> str:
    """Return a text with another name: as a module's, a class's, and in words."""

    def camel(name: str) -> str:
        return "".join(part[:1].upper() + part[1:] for part in name.split("_"))

    def words(name: str) -> str:
        return name.replace("_", " ").strip()

    text = text.replace(old, new).replace(camel(old), camel(new)).replace(words(old), words(new))
    return text.replace(words(old).capitalize(), words(new).capitalize())
