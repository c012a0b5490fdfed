"""The loop that every run goes through: one process or ROS, any pace, with orders and observers.

A `Runner` steps a `Play`: a world with its robots, their programs and, for a run, the experimental frame. It
knows nothing else of it. All orders pass through it, and all observers look on through it.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Protocol

from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import SwarmbedError, described
from swarmbed_core.observing import Audience, Source
from swarmbed_core.orders import Order, OrderError, Orders, Pause, Speed, Step, Stop, check
from swarmbed_core.pacing import Pacer

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE = 0.05
"""Longest wait in seconds while the world stands still ..."""
LONGEST = 0.25
"""... and for the next step."""


class Play(Source, Protocol):
    """What a runner runs.

    Attributes:
        timestep: the world's time step in seconds.
    """

    timestep: float

    def step(self) -> None:
        """Advance the world by one time step, with the Onboards that are due."""
        ...

    @property
    def stepper(self) -> Callable[[], None]:
        """Return what `step` calls, for many steps in a row."""
        ...

    def think(self) -> bool:
        """Tick the programs and the frame, ten times a second; return whether that was the last tick."""
        ...

    def obey(self, order: Order) -> Any:
        """Carry out an order about robots, and return its result.

        Raises:
            SwarmbedError: it cannot be carried out.
        """
        ...


class Script(Protocol):
    """The orders of an earlier run, to be played again."""

    def take(self, step: int, *, in_tick: bool) -> list[Order]:
        """Return the orders that were taken after some number of steps, before or in the tick."""
        ...

    def done(self, order: Order, failure: SwarmbedError | None) -> None:
        """Take note that an order was taken again, and why it could not be carried out."""
        ...


class Runner:
    """Steps a play until it is over or stopped.

    Attributes:
        orders: the way in, for any thread.
        audience: the observers.
        pacer: when steps are due.
        paused: whether the clock stands, except for the steps that are `allowed`.
        allowed: steps that a paused run may still make.
        number: of steps made.
        in_tick: whether a tick is being worked on, after the step that it belongs to.
        waits: whether it waits: for orders, or until the next step is due.
        over: whether the play has ended.
        stopped: the reason of the order that stopped it; None if none did.
        log: called with each order that was carried out, and with those that failed on the way, as these may
            have left traces; with the reason, empty if there is none.
        script: orders of an earlier run, to be taken at the same steps.
        idle: waits for at most some seconds; by default until an order comes.
        before_cycle: called before each step, with whether there was no time to wait before it.
        after_step: called after each step of the world.
        before_tick: called before each tick; returns False if there is none, because the play was replaced.
    """

    def __init__(
        self,
        play: Play,
        *,
        speed: float | None = None,
        paused: bool = False,
        orders: Orders | None = None,
        audience: Audience | None = None,
    ) -> None:
        """Prepare.

        Args:
            play: to run.
            speed: multiple of real time; None: as fast as possible.
            paused: whether to start paused.
            orders: a queue that orders may be in already.
            audience: observers that are there already.
        """
        self.play = play
        self.orders = Orders() if orders is None else orders
        self.audience = Audience() if audience is None else audience
        self.pacer = Pacer(speed)
        self.paused = paused
        self.allowed = 0
        self.number = 0
        self.in_tick = False
        self.waits = False
        self.over = False
        self.stopped: str | None = None
        self.log: Callable[[Order, str], None] | None = None
        self.script: Script | None = None
        self.idle: Callable[[float], None] = self.orders.wait
        self.before_cycle: Callable[[bool], None] | None = None
        self.after_step: Callable[[], None] | None = None
        self.before_tick: Callable[[], bool] | None = None
        self._every = max(round(1.0 / (TICK_RATE * play.timestep)), 1)
        self.pacer.restart(time.monotonic(), play.timestep)

    def run(self) -> None:
        """Run until the play is over or an order stops it."""
        while not self.over:
            self.once()

    def pace(self, speed: float | None) -> None:
        """Set the pace: a multiple of real time; None: as fast as possible."""
        self.pacer.speed = speed
        self.pacer.restart(time.monotonic())

    def once(self) -> None:
        """Make a step if one is due; otherwise wait."""
        if self.orders.waiting:
            self.drain()
            if self.over:
                return
        if self.paused and not self.allowed:
            self._rest(IDLE)
            self.pacer.restart(time.monotonic())
            return
        pacer = self.pacer
        if pacer.speed is not None:
            now = time.monotonic()
            if (left := pacer.left(now)) > 0:
                # Orders may come meanwhile.
                self._rest(min(left, LONGEST))
                return
            behind = pacer.begin(now)
        elif self.before_cycle is not None:
            behind = pacer.begin(time.monotonic())
        if self.before_cycle is not None:
            self.before_cycle(behind)
            if self.stands or self.over:
                return
        self.cycle()

    def _rest(self, seconds: float) -> None:
        """Wait for orders."""
        self.waits = True
        try:
            self.idle(seconds)
        finally:
            self.waits = False

    @property
    def stands(self) -> bool:
        """Return whether the clock stands."""
        return self.paused and not self.allowed

    def go_on(self) -> None:
        """Make the steps up to the next tick, if nothing has to happen between them; otherwise as `once`."""
        paced = self.pacer.speed is not None or self.before_cycle is not None
        if paced or self.paused or self.orders.waiting:
            self.once()
        else:
            self.burst()

    def burst(self) -> None:
        """Make the steps up to and including the next tick, without a wait, unless orders come meanwhile."""
        if self.script is not None or self.after_step is not None:
            self.cycle()
            return
        play, audience, waiting = self.play, self.audience, self.orders.waiting
        step = play.stepper
        for left in range(self._every - 1 - self.number % self._every, -1, -1):
            step()
            self.number += 1
            if not left:
                self._tick()
            if audience.due_own < math.inf and audience.due_own <= play.time:
                self._show()
            if waiting:
                return

    def cycle(self) -> None:
        """Make one step, and the tick if one is due."""
        play = self.play
        if self.script is not None:
            self._follow(self.script, in_tick=False)
            if self.over:
                return
        play.step()
        self.number += 1
        if self.after_step is not None:
            self.after_step()
        if self.number % self._every == 0:
            self._tick()
        if self.audience.due_own <= play.time:
            self._show()
        if self.allowed:
            self.allowed -= 1

    def _tick(self) -> None:
        """Let the programs and the frame work, and the onlookers look."""
        play, audience = self.play, self.audience
        self.in_tick = True
        try:
            if self.script is not None:
                self._follow(self.script, in_tick=True)
            if (self.before_tick is None or self.before_tick()) and play.think():
                self.over = True
        finally:
            self.in_tick = False
        now = play.time
        if audience.due <= now:
            audience.look(play, now)

    def _show(self, *, anyway: bool = False) -> None:
        """Show the play to the observers that are due, or to all of them."""
        hurried = self.pacer.speed is None or self.pacer.left(time.monotonic()) < 0
        state = "paused" if self.paused else "running"
        self.audience.show(self.play, self.number, state=state, hurried=hurried, anyway=anyway)

    def drain(self) -> None:
        """Carry out the orders that have come."""
        for order, result in self.orders.take():
            try:
                result.set_result(self.obey(order))
            except SwarmbedError as error:
                result.set_exception(error)
            except BaseException as error:
                # An order harms nobody but its sender, who does not wait in vain even if the run ends here.
                result.set_exception(OrderError(f"{type(order).__name__}: {described(error)}"))
                if not isinstance(error, Exception):
                    raise

    def obey(self, order: Order) -> Any:
        """Carry out an order now, write it down, and return its result.

        Raises:
            SwarmbedError: it cannot be carried out.
        """
        check(order)
        match order:
            case Pause(paused):
                changed = self.paused != paused
                self.paused, self.allowed = paused, 0
                self.pacer.restart(time.monotonic())
                if changed:
                    self._show(anyway=True)
                found: Any = None
            case Step(steps):
                if not self.paused:
                    message = "the run is not paused: pause it first"
                    raise OrderError(message)
                self.allowed += steps
                found = None
            case Speed(speed):
                self.pace(speed)
                found = None
            case Stop(reason):
                self.stopped, self.over = reason, True
                found = None
            case _:
                found = self._pass_on(order)
        self.note(order)
        return found

    def _pass_on(self, order: Order) -> Any:
        """Let the play carry out an order."""
        try:
            return self.play.obey(order)
        except OrderError:
            # It was refused before anything happened.
            raise
        except Exception as error:
            self.note(order, described(error))
            raise

    def note(self, order: Order, failure: str = "") -> None:
        """Write down an order that was carried out, or that failed on the way."""
        if self.log is not None:
            self.log(order, failure)

    def _follow(self, script: Script, *, in_tick: bool) -> None:
        """Carry out the orders that an earlier run took here."""
        for order in script.take(self.number, in_tick=in_tick):
            if isinstance(order, Stop):
                self.obey(order)
            elif not isinstance(order, Pause | Step | Speed):
                try:
                    self.obey(order)
                except SwarmbedError as error:
                    script.done(order, error)
                except Exception as error:  # noqa: BLE001 - as for those that come from outside
                    script.done(order, OrderError(described(error)))
                else:
                    script.done(order, None)
