"""A YAML reader for untrusted files: size, depth and number of nodes are checked before data is built.

A few lines of anchors, aliases and merge keys can expand to billions of nodes ("billion laughs"). So the
parser's events are counted first, each alias with its full expansion, and only a text within the bounds is
loaded. The result has only JSON's types: mappings, lists, strings, numbers, true, false and null. Dates
stay strings, and tags are rejected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from swarmbed_core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 2**20
"""Largest file or text, in bytes."""
MOST_NODES = 100_000
"""Most keys, values, lists and mappings; an alias counts with its full expansion."""
MOST_DEPTH = 40
"""Deepest nesting of lists and mappings."""
MOST_CHARACTERS = 65_536
"""Longest key or value, in characters."""
MOST_DIGITS = 19
"""Most digits of an integer; 64 bits hold no more."""

_TAG_DIRECTIVE = re.compile("(?:^|[\r\n\x85\u2028\u2029])%TAG")
_INT = "tag:yaml.org,2002:int"
_JSON = {f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "merge", "null")}


class _Loader(yaml.CSafeLoader):
    """YAML's safe loader, restricted to JSON's types."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - a table of the base class
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _JSON]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_int(self, node: yaml.ScalarNode) -> int:
        """Return an integer of at most 64 bits."""
        # Digits are counted first: parsing millions of them takes minutes.
        few = len(node.value) <= 4 * MOST_DIGITS
        value = self.construct_yaml_int(node) if few else None
        if value is None or not -(2**63) <= value < 2**64:
            problem = "a whole number of more than 64 bits; put it in quotes if it is a text"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value


_Loader.add_constructor(_INT, _Loader.construct_int)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been reached.

    Attributes:
        anchor: the name by which aliases refer to it.
        keys: keys of a mapping so far, None for a list.
        children: number of its keys and values.
        nodes: number of nodes in it, itself included.
        height: depth of the nesting in it.
    """

    anchor: str | None
    keys: set[str] | None
    children: int = 0
    nodes: int = 1
    height: int = 1


class _RejectedError(Exception):
    """A text exceeds a limit or breaks a rule."""

    def __init__(self, problem: str, event: yaml.Event) -> None:
        super().__init__(f"{_place(event.start_mark)}: {problem}")


@dataclass(slots=True)
class _Survey:
    """Counts the nodes that a text expands to.

    Attributes:
        shared: whether the text has aliases, so that parts of the data are the same object.
    """

    shared: bool = False
    _open: list[_Open] = field(default_factory=list)
    _known: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take_all(self, text: str) -> None:
        """Count the nodes of a text.

        Raises:
            _RejectedError: it exceeds a limit or breaks a rule.
            yaml.YAMLError: it is not YAML.
        """
        loader = _Loader(text)
        try:
            while (event := loader.get_event()) is not None:
                self.take(event)
        finally:
            loader.dispose()

    def take(self, event: yaml.Event) -> None:
        """Count an event.

        Raises:
            _RejectedError: the text exceeds a limit or breaks a rule.
        """
        if isinstance(event, yaml.AliasEvent):
            known = self._known.get(event.anchor or "")
            if known is None:
                problem = f"alias *{short(event.anchor)}: no complete anchor &{short(event.anchor)} before it"
                raise _RejectedError(problem, event)
            self.shared = True
            self._add(*known, event)
        elif isinstance(event, yaml.ScalarEvent):
            self._check_tag(event)
            if len(event.value) > MOST_CHARACTERS:
                problem = (
                    f"a text of {len(event.value):,} characters: at most {MOST_CHARACTERS:,} are accepted"
                )
                raise _RejectedError(problem, event)
            self._check_key(event)
            self._finish(event.anchor, 1, 0, event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._check_tag(event)
            self._open.append(
                _Open(event.anchor, set() if isinstance(event, yaml.MappingStartEvent) else None)
            )
            self._check_depth(0, event)
        elif isinstance(event, yaml.CollectionEndEvent):
            done = self._open.pop()
            self._finish(done.anchor, done.nodes, done.height, event)

    def _finish(self, anchor: str | None, nodes: int, height: int, event: yaml.Event) -> None:
        if anchor is not None:
            self._known[anchor] = (nodes, height)
        self._add(nodes, height, event)

    def _add(self, nodes: int, height: int, event: yaml.Event) -> None:
        """Add a finished node to the list or mapping it is in."""
        if not self._open:
            return
        self._check_depth(height, event)
        parent = self._open[-1]
        parent.children += 1
        parent.nodes += nodes
        parent.height = max(parent.height, height + 1)
        if parent.nodes + len(self._open) > MOST_NODES:
            problem = f"more than {MOST_NODES:,} keys and values, aliases written out"
            raise _RejectedError(problem, event)

    def _check_depth(self, height: int, event: yaml.Event) -> None:
        if len(self._open) + height > MOST_DEPTH:
            problem = f"lists and mappings nested more than {MOST_DEPTH} deep"
            raise _RejectedError(problem, event)

    def _check_key(self, event: yaml.ScalarEvent) -> None:
        """Reject a duplicate key: one of its values would be lost."""
        parent = self._open[-1] if self._open else None
        if parent is None or parent.keys is None or parent.children % 2 or event.value == "<<":
            return
        if event.value in parent.keys:
            problem = f"{short(event.value)}: duplicate key"
            raise _RejectedError(problem, event)
        parent.keys.add(event.value)

    @staticmethod
    def _check_tag(event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag is not None:
            problem = f"tag {short(event.tag)}: tags are not supported; put a text in quotes"
            raise _RejectedError(problem, event)


def read(path: Path) -> Any:
    """Return the data in a YAML file.

    Raises:
        ConfigError: it cannot be read, exceeds a limit, or is not valid YAML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        _check_size(len(data), str(path))
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"{path}: cannot be read: {error}"
        raise ConfigError(message) from None
    return parse(text, str(path))


def parse(text: str, source: str) -> Any:
    """Return the data in a YAML text.

    Args:
        text: YAML.
        source: name of the source, for messages.

    Raises:
        ConfigError: it exceeds a limit, or is not valid YAML.
    """
    _check_size(len(text), source)
    if _TAG_DIRECTIVE.search(text):
        # The parser takes minutes for thousands of %TAG directives.
        message = f"{source}: not valid YAML: tags are not supported; remove %TAG"
        raise ConfigError(message)
    survey = _Survey()
    try:
        survey.take_all(text)
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from the safe one
    except _RejectedError as error:
        message = f"{source}: {error}"
        raise ConfigError(message) from None
    except yaml.MarkedYAMLError as error:
        mark, said = error.problem_mark or error.context_mark, error.problem or error.context
        message = f"{source}: not valid YAML: {_place(mark)}: {said}"
        raise ConfigError(message) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # ValueError: invalid characters; OverflowError: the base-60 float 1:1:...:1.0.
        message = f"{source}: not valid YAML: {' '.join(str(error).split())}"
        raise ConfigError(message) from None
    return _copied(data) if survey.shared else data


def short(text: object, most: int = 60) -> str:
    """Shorten a text for a message."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[: most - 3]}..."


def _check_size(size: int, source: str) -> None:
    if size > MOST_BYTES:
        message = f"{source}: larger than {MOST_BYTES:,} bytes, the limit for YAML; is it the right file?"
        raise ConfigError(message)


def _copied(data: Any) -> Any:
    """Return a copy without shared objects: a change in one place must not appear in another."""
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_copied(item) for item in data]
    return data


def _place(mark: Any) -> str:
    """Return a position in a text as line and column, counted from 1."""
    return "somewhere" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"
