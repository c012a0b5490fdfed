"""One source, several independent readers: each gets all items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class Feed(Generic[T]):
    """Passes items to all its readers; without readers, items are dropped."""

    __slots__ = ("_readers",)

    def __init__(self) -> None:
        """Start without readers."""
        self._readers: list[Reader[T]] = []

    def __bool__(self) -> bool:
        """Return whether there are readers."""
        return bool(self._readers)

    def reader(self) -> Reader[T]:
        """Return a new reader of all items put from now on."""
        reader = Reader(self)
        self._readers.append(reader)
        return reader

    def put(self, items: Iterable[T]) -> None:
        """Pass items to all readers."""
        items = tuple(items)
        for reader in self._readers:
            reader.unread.extend(items)

    def drop(self, reader: Reader[T]) -> None:
        """Remove a reader; it gets no further items."""
        if reader in self._readers:
            self._readers.remove(reader)


class Reader(Generic[T]):
    """One reader of a `Feed`.

    Attributes:
        unread: items since the latest `read`.
    """

    __slots__ = ("_feed", "unread")

    def __init__(self, feed: Feed[T]) -> None:
        """Create a reader without registering it; use `Feed.reader`."""
        self._feed = feed
        self.unread: list[T] = []

    def read(self) -> list[T]:
        """Return the items since the previous call, oldest first."""
        unread, self.unread = self.unread, []
        return unread

    def close(self) -> None:
        """Stop reading and drop unread items."""
        self._feed.drop(self)
        self.unread = []
