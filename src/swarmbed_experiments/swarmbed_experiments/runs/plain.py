"""Conversion of users' values to JSON types.

Metrics and rows come from users' transducers, acceptors and controllers, which may return anything: numpy
numbers and arrays, sets, dates, objects of their own. This module converts each value to null, a boolean, a
number, a string, a list, or a mapping with string keys. A value that cannot be converted becomes null and is
reported.

| value | becomes |
|---|---|
| numpy scalars, decimals and fractions | the number |
| NaN, inf | null in a summary, unchanged in a time series |
| arrays, tuples, ranges, queues | lists |
| sets | sorted lists |
| enum members | their values |
| dataclasses | mappings of their fields |
| paths, dates, times, UUIDs | strings |
| strings with lone surrogates | strings with `?` in their place |
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import fractions
import json
import math
import uuid
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np
from swarmbed_core.errors import message_of

DEEPEST = 32
"""Maximum nesting depth of lists and mappings."""
NAMED = 5
"""Maximum number of faults listed for one value."""
SIMPLE = frozenset({type(None), bool, int, float, str})
"""Types whose values are plain already, except non-finite numbers and strings that UTF-8 cannot encode."""
INT64 = 2**63
TEXTS = (PurePath, dt.date, dt.time, dt.timedelta, uuid.UUID)


def plain(value: object, *, finite: bool = True) -> tuple[Any, list[str]]:
    """Convert a value to JSON types. Return it, and the parts that cannot be converted, with place and type.

    Args:
        value: anything.
        finite: whether NaN and inf become null.
    """
    found = _Plain(finite=finite)
    made = found.of(value, "", ())
    faults = found.faults
    if len(faults) > NAMED:
        faults = [*faults[:NAMED], f"and {len(faults) - NAMED} more"]
    return made, faults


class _Plain:
    """Converts one value and collects its faults."""

    def __init__(self, *, finite: bool) -> None:
        self._finite = finite
        self.faults: list[str] = []

    def of(self, value: Any, where: str, within: tuple[int, ...]) -> Any:
        """Return a value in plain types.

        Args:
            value: anything.
            where: its place, for messages.
            within: `id()` of the containers around it, to detect cycles.
        """
        kind = type(value)
        if kind is float:
            return value if not self._finite or math.isfinite(value) else None
        if kind in SIMPLE:
            return writable(value) if kind is str else value
        if len(within) > DEEPEST:
            return self._cannot(where, "is nested too deeply")
        if id(value) in within:
            return self._cannot(where, "contains itself")
        try:
            return self._made(value, where, (*within, id(value)))
        except BaseException as error:  # noqa: BLE001 - users' types may raise anything
            return self._cannot(
                where, f"({kind.__name__}) raises {type(error).__name__}: {message_of(error)}"
            )

    def _made(self, value: Any, where: str, within: tuple[int, ...]) -> Any:
        if isinstance(value, Enum):
            return self.of(value.value, where, within)
        if isinstance(value, str):
            return writable(str.__str__(value))
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float | decimal.Decimal | fractions.Fraction):
            return self.of(float(value), where, within)
        if isinstance(value, np.generic | np.ndarray):
            return self._numpy(value, where, within)
        if isinstance(value, TEXTS):
            return writable(str(value))
        if isinstance(value, Mapping):
            return self._mapping(value, where, within)
        if isinstance(value, AbstractSet):
            return sorted(self._list(value, where, within), key=_order)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._cannot(where, f"is {type(value).__name__}, which JSON cannot hold")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self._mapping(fields, where, within)
        if callable(getattr(value, "tolist", None)):
            # Arrays and columns of third-party libraries.
            return self.of(value.tolist(), where, within)
        if callable(getattr(value, "to_dict", None)):
            return self.of(value.to_dict(), where, within)
        if isinstance(value, Collection):
            return self._list(value, where, within)
        return self._cannot(where, f"is of type {type(value).__name__}, which JSON cannot hold")

    def _list(self, values: Collection[Any], where: str, within: tuple[int, ...]) -> list[Any]:
        made: list[Any] = []
        for k, item in enumerate(values):
            kind = type(item)
            # Fast path: the time series of a whole run has millions of these.
            if kind is float and (not self._finite or math.isfinite(item)):
                made.append(item)
            else:
                made.append(item if kind is int else self.of(item, f"{where}[{k}]", within))
        return made

    def _numpy(self, value: Any, where: str, within: tuple[int, ...]) -> Any:
        if value.dtype.kind in "mM":
            return value.astype(str).tolist()
        if value.dtype.kind == "f" and value.dtype.itemsize > 8:
            value = value.astype(np.float64)
        return self.of(value.tolist(), where, within)

    def _mapping(self, value: Mapping[Any, Any], where: str, within: tuple[int, ...]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in value.items():
            name = self._key(key, where)
            if name is None:
                continue
            here = f"{where}.{name}" if where else name
            if name in made:
                self._cannot(here, "occurs more than once; the last one is kept")
            made[name] = self.of(item, here, within)
        return made

    def _key(self, key: Any, where: str) -> str | None:
        """Return a mapping's key as a string, None if it cannot be converted."""
        if isinstance(key, str):
            return writable(str.__str__(key))
        if isinstance(key, Enum):
            return self._key(key.value, where)
        if isinstance(key, np.generic):
            key = key.item()
        if key is None or isinstance(key, bool | int | float):
            return str(key)
        if isinstance(key, tuple):
            parts = [self._key(part, where) for part in key]
            return None if None in parts else ",".join(part or "" for part in parts)
        if isinstance(key, TEXTS):
            return writable(str(key))
        self._cannot(where, f"has a key of type {type(key).__name__}, which is not a string")
        return None

    def _cannot(self, where: str, what: str) -> None:
        self.faults.append(f"{where or 'it'} {what}")


def writable(text: str) -> str:
    """Return a string that UTF-8 can encode, with `?` for lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _order(value: Any) -> tuple[str, Any]:
    """Return the sort key of a plain value: numbers come first, by size; the rest is sorted by its JSON."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "0", value
    return "1", json.dumps(value, sort_keys=True)


def column(values: Sequence[Any]) -> list[Any]:
    """Convert plain values to a single type, as a table's column needs it. None is kept.

    Booleans, integers, floats, strings, and lists of numbers or strings keep their type. Anything else, and
    any mixture, becomes JSON.
    """
    given = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in given) or all(isinstance(value, str) for value in given):
        return list(values)
    if all(_is_number(value) for value in given):
        return _numbers(values)
    if all(isinstance(value, list) for value in given):
        items = [item for value in given for item in value]
        if all(_is_number(item) for item in items) and (flat := _numbers(items)) and type(flat[0]) is not str:
            left = iter(flat)
            return [None if value is None else [next(left) for _ in value] for value in values]
        if all(isinstance(item, str) for item in items):
            return list(values)
    return [_json(value) for value in values]


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(plain(value)[0])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(values: Sequence[Any]) -> list[Any]:
    """Convert numbers to a single type: int if all fit into 64 bits, else float, else JSON."""
    if all(value is None or (isinstance(value, int) and -INT64 <= value < INT64) for value in values):
        return list(values)
    try:
        return [None if value is None else float(value) for value in values]
    except OverflowError:
        return [_json(value) for value in values]
