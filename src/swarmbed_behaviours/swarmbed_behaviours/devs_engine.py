"""Models of the library xdevs on an external clock.

xdevs is GPL-3: only this module, which is imported when a model is to run, and models import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from xdevs.models import Component, Coupled
from xdevs.sim import Coordinator, SimulationClock

from swarmbed_behaviours.devs import DevsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdevs.models import Port

ROUNDS: Final = 10_000
"""Most events of one tick; with more, the model's time is assumed to stand still."""


def is_model(thing: object) -> bool:
    """Return whether `thing` is a model, atomic or coupled."""
    return isinstance(thing, Component)


class _World(Coupled):  # type: ignore[misc] # xdevs has no type hints
    """All models side by side, without couplings."""

    def __init__(self, models: Sequence[Component]) -> None:
        super().__init__("world")
        for model in models:
            self.add_component(model)


class Engine:
    """DEVS models on an external clock."""

    def __init__(self, models: Sequence[Component], start: float) -> None:
        """Start the models at a time."""
        self._clock = SimulationClock(start)
        self._coordinator = Coordinator(_World(models), self._clock)
        self._coordinator.initialize()

    def advance(
        self, now: float, given: Sequence[tuple[Port, Any]], watched: Sequence[Port]
    ) -> list[tuple[Port, Any]]:
        """Execute all events up to `now`, with input at that time; return the output, in order.

        Args:
            now: the time; not before that of the last call.
            given: input ports and their values at `now`.
            watched: output ports.

        Raises:
            DevsError: more than `ROUNDS` events occur, because a model's time advance stays 0.
        """
        said: list[tuple[Port, Any]] = []
        for _ in range(ROUNDS):
            if not self._coordinator.time_next < now:
                break
            self._happen(self._coordinator.time_next, watched, said)
        for port, value in given:
            port.add(value)
        self._happen(now, watched, said)
        for _ in range(ROUNDS):
            if self._coordinator.time_next > now:
                return said
            self._happen(self._coordinator.time_next, watched, said)
        message = f"more than {ROUNDS} events up to {now:g} s: does a model's time advance stay 0?"
        raise DevsError(message)

    def _happen(self, time: float, watched: Sequence[Port], said: list[tuple[Port, Any]]) -> None:
        """Execute the events of one time."""
        coordinator = self._coordinator
        self._clock.time = time
        if time == coordinator.time_next:
            coordinator.lambdaf()
            said.extend((port, value) for port in watched if port for value in port.values)
        coordinator.deltfcn()
        coordinator.clear()
