"""What programs hand over, as values that files can hold: the types of JSON, and nothing else.

Metrics and rows come from transducers, acceptors and controllers of users, who return what is at hand:
numpy's numbers and arrays, sets, dates, objects of their own. Here each becomes null, a truth value, a
number, a text, a list, or a mapping with texts as keys. What cannot becomes null, and is named.

| what | becomes |
|---|---|
| numpy's scalars, decimals and fractions | the number |
| NaN, inf | null in a summary; what they are in a time series |
| arrays, tuples, ranges, queues | lists |
| sets | sorted lists |
| members of enumerations | their values |
| dataclasses | mappings of their fields |
| paths, dates, times, UUIDs | texts |
| texts with halves of characters | texts with `?` there |
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
"""Levels of lists within lists, or mappings, that are written."""
NAMED = 5
"""Faults of one value that are named one by one."""
SIMPLE = frozenset({type(None), bool, int, float, str})
"""Types whose values are plain already, but for texts and numbers that JSON lacks."""
INT64 = 2**63
TEXTS = (PurePath, dt.date, dt.time, dt.timedelta, uuid.UUID)


def plain(value: object, *, finite: bool = True) -> tuple[Any, list[str]]:
    """Return a value that files can hold, and what of it they cannot, by place and type.

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
    """One value on its way to plain types."""

    def __init__(self, *, finite: bool) -> None:
        self._finite = finite
        self.faults: list[str] = []

    def of(self, value: Any, where: str, within: tuple[int, ...]) -> Any:
        """Return a value in plain types.

        Args:
            value: anything.
            where: its place, for messages.
            within: the identities of what it is in.
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
        except BaseException as error:  # noqa: BLE001 - users' types may raise anything at any question
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
            return self._cannot(where, f"is {type(value).__name__}, which no file of a run holds")
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return self._mapping(fields, where, within)
        if callable(getattr(value, "tolist", None)):
            # Arrays and columns of other libraries.
            return self.of(value.tolist(), where, within)
        if callable(getattr(value, "to_dict", None)):
            return self.of(value.to_dict(), where, within)
        if isinstance(value, Collection):
            return self._list(value, where, within)
        return self._cannot(where, f"is of type {type(value).__name__}, which no file of a run holds")

    def _list(self, values: Collection[Any], where: str, within: tuple[int, ...]) -> list[Any]:
        made: list[Any] = []
        for k, item in enumerate(values):
            kind = type(item)
            # Courses of a whole run have millions of these.
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
                self._cannot(here, "is there more than once, and the last one counts")
            made[name] = self.of(item, here, within)
        return made

    def _key(self, key: Any, where: str) -> str | None:
        """Return a mapping's key as a text, None if it has none."""
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
        self._cannot(where, f"has a key of type {type(key).__name__}, which is no text")
        return None

    def _cannot(self, where: str, what: str) -> None:
        self.faults.append(f"{where or 'it'} {what}")


def writable(text: str) -> str:
    """Return a text as files can hold it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _order(value: Any) -> tuple[str, Any]:
    """Return what plain values of any types are sorted by: numbers by size, the rest by its text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "0", value
    return "1", json.dumps(value, sort_keys=True)


def column(values: Sequence[Any]) -> list[Any]:
    """Return plain values as ones of one type, which is what a column of a table has; None stays.

    Truth values, whole numbers, numbers, texts, and lists of numbers or texts stay what they are; anything
    else, and any mixture, becomes JSON.
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
    """Return numbers of one type: whole ones if they fit, else floats, else JSON."""
    if all(value is None or (isinstance(value, int) and -INT64 <= value < INT64) for value in values):
        return list(values)
    try:
        return [None if value is None else float(value) for value in values]
    except OverflowError:
        return [_json(value) for value in values]
