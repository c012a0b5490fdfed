"""One source, several readers: each gets everything, and nobody takes from the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class Feed(Generic[T]):
    """Hands what happens to all who read it; what nobody reads is not kept."""

    __slots__ = ("_readers",)

    def __init__(self) -> None:
        """Start without readers."""
        self._readers: list[Reader[T]] = []

    def __bool__(self) -> bool:
        """Return whether anybody reads."""
        return bool(self._readers)

    def reader(self) -> Reader[T]:
        """Return a reader of what is put in from now on."""
        reader = Reader(self)
        self._readers.append(reader)
        return reader

    def put(self, items: Iterable[T]) -> None:
        """Hand items to all readers."""
        items = tuple(items)
        for reader in self._readers:
            reader.unread.extend(items)

    def drop(self, reader: Reader[T]) -> None:
        """Hand nothing to a reader from now on."""
        if reader in self._readers:
            self._readers.remove(reader)


class Reader(Generic[T]):
    """One reader of a `Feed`.

    Attributes:
        unread: what came since the latest `read`.
    """

    __slots__ = ("_feed", "unread")

    def __init__(self, feed: Feed[T]) -> None:
        """Read `feed`, which knows its readers."""
        self._feed = feed
        self.unread: list[T] = []

    def read(self) -> list[T]:
        """Return what came since the call before this one, oldest first."""
        unread, self.unread = self.unread, []
        return unread

    def close(self) -> None:
        """Read no more."""
        self._feed.drop(self)
        self.unread = []
