"""Writes the orders that a run took: orders.jsonl, one JSON object per line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from swarmbed_core.errors import SwarmbedError
from swarmbed_core.orders import as_json, from_json

from swarmbed_experiments.errors import RunError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from swarmbed_core.orders import Order

NAME = "orders.jsonl"


class OrderLog:
    """Writes orders; the file appears with the first one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stream: IO[str] | None = None

    def add(self, step: int, order: Order, *, in_tick: bool, failure: str = "") -> None:
        """Write an order.

        Args:
            step: number of steps that the world had made.
            order: that was carried out.
            in_tick: whether this was in the tick after that step, and not before the next step.
            failure: why it could not be carried out to its end; empty if it was.

        Raises:
            OSError: the file cannot be written.
        """
        if self._stream is None:
            self._stream = self._file.open("w", encoding="utf-8")
        told: dict[str, Any] = {"step": step, "in_tick": in_tick, **as_json(order)}
        if failure:
            told["failed"] = failure
        self._stream.write(json.dumps(told) + "\n")

    def flush(self) -> None:
        """Write to disk what was added so far."""
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()


class Playback:
    """The orders of an earlier run, at the steps at which it took them.

    Attributes:
        differences: orders that could be carried out only in one of the two runs, in words.
    """

    def __init__(self, file: Path) -> None:
        """Read the orders; there are none without a file.

        Raises:
            RunError: the file cannot be read.
        """
        self._orders: list[tuple[tuple[int, bool], Order]] = []
        self._failed: dict[int, str] = {}
        self._next = self._done = 0
        self.differences: list[str] = []
        try:
            lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        except (OSError, UnicodeDecodeError) as error:
            message = f"{file}: cannot be read ({error})"
            raise RunError(message) from None
        for number, line in enumerate(lines, start=1):
            try:
                told = json.loads(line)
                when = int(told["step"]), bool(told["in_tick"])
                if self._orders and when < self._orders[-1][0]:
                    raise ValueError("earlier than the order before it")  # noqa: TRY003, TRY301, EM101
                if failure := str(told.get("failed", "")):
                    self._failed[len(self._orders)] = failure
                self._orders.append((when, from_json(told)))
            except (ValueError, KeyError, TypeError, AttributeError, SwarmbedError) as error:
                message = f"{file}, line {number}: not an order ({error})"
                raise RunError(message) from None

    def __len__(self) -> int:
        return len(self._orders)

    def take(self, step: int, *, in_tick: bool) -> list[Order]:
        """Return the orders that were carried out here."""
        taken: list[Order] = []
        orders = self._orders
        while self._next < len(orders) and orders[self._next][0] == (step, in_tick):
            taken.append(orders[self._next][1])
            self._next += 1
        return taken

    def done(self, order: Order, failure: SwarmbedError | None) -> None:
        """Take note that an order was taken again, and why it could not be carried out."""
        # Those about the loop are passed over.
        while self._orders[self._done][1] is not order:
            self._done += 1
        step, before = self._orders[self._done][0][0], self._failed.get(self._done, "")
        self._done += 1
        if bool(before) != (failure is not None):
            was, now = (told or "carried out" for told in (before, "" if failure is None else str(failure)))
            self.differences.append(
                f"order {self._done} ({type(order).__name__.lower()}, step {step}): {was}; now {now}"
            )
