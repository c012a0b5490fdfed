"""Data by robot, while robots join and leave: every robot keeps its column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class Roster:
    """The robots that were ever there, in columns.

    Attributes:
        names: of the robots, by column.
        here: columns of the robots that are there now, in the order of their rows; all, as a slice, while
            these are the same.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Begin with the robots that are there at the start."""
        self.names = list(names)
        self.here: slice | NDArray[np.int64] = slice(None)
        self._columns = {name: column for column, name in enumerate(self.names)}
        self._seen: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.names)

    def look(self, names: Sequence[str]) -> bool:
        """Take note of who is there now; return whether a robot came that was never there."""
        if names is self._seen:
            return False
        self._seen = names
        before = len(self.names)
        for name in names:
            if name not in self._columns:
                self._columns[name] = len(self.names)
                self.names.append(name)
        here = np.array([self._columns[name] for name in names], dtype=np.int64)
        same = len(here) == len(self.names) and bool((here == np.arange(len(here))).all())
        self.here = slice(None) if same else here
        return len(self.names) > before

    def columns(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns for rows of robots that are there now; -1 stays -1."""
        if isinstance(self.here, slice):
            return rows
        return np.where(rows < 0, -1, self.here[rows])

    def spread(self, values: NDArray[Any], fill: float) -> NDArray[Any]:
        """Return values of the robots that are there now by column; `fill` for the others."""
        if isinstance(self.here, slice):
            return values
        made = np.full((len(self.names), *values.shape[1:]), fill, dtype=values.dtype)
        made[self.here] = values
        return made

    def widened(self, array: NDArray[Any], fill: float = 0.0) -> NDArray[Any]:
        """Return an array with a row for each column, those of new robots filled."""
        made = np.full((len(self.names), *array.shape[1:]), fill, dtype=array.dtype)
        made[: len(array)] = array
        return made
