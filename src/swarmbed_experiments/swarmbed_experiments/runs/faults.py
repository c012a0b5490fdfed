"""Faults of a run: results that were lost, with the reasons. They never end the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from swarmbed_core.errors import SwarmbedError, message_of

from swarmbed_experiments.errors import cause_of
from swarmbed_experiments.runs.plain import plain, writable

if TYPE_CHECKING:
    from collections.abc import Callable

    from swarmbed_experiments.runs.interrupts import Interrupts

MOST = 50
"""Maximum number of faults in a summary."""


class Faults(list[str]):
    """The faults of a run.

    Attributes:
        interrupts: the signals that the run received.
    """

    def __init__(self, interrupts: Interrupts) -> None:
        super().__init__()
        self.interrupts = interrupts

    def attempt(self, what: str, call: Callable[[], object]) -> bool:
        """Call a function, and note its error as a fault; return whether there was none."""
        try:
            call()
        except BaseException as error:
            # While signals are held, a KeyboardInterrupt comes from a user's program.
            if isinstance(error, KeyboardInterrupt) and not self.interrupts.held:
                raise
            self.note(what, error)
            return False
        return True

    def note(self, what: str, fault: BaseException | str) -> None:
        """Note a fault: what was lost, and why. Repeated faults are noted once."""
        if isinstance(fault, BaseException):
            # Our own errors name the file already.
            fault = message_of(fault) if isinstance(fault, SwarmbedError) else cause_of(fault)
        text = writable(fault if what in fault else f"{what}: {fault}")
        if text not in self and len(self) < MOST:
            self.append(text)

    def plain(self, what: str, found: object, *, finite: bool = True) -> dict[str, Any]:
        """Convert a mapping from a user's program to plain types; note the parts that cannot be converted."""
        made, faults = plain(found, finite=finite)
        for fault in faults:
            self.note(what, fault)
        if isinstance(made, dict):
            return made
        if not faults:
            self.note(what, f"returned {type(found).__name__}; return a mapping of names to values")
        return {}
