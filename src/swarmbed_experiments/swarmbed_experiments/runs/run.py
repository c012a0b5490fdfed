"""One run of a scenario: the loop of world, Onboards, controllers and experimental frame, and its results.

Everything in the loop uses the world's clock; pacing only sleeps. A run leaves a directory with the final
scenario, the summary, the time series, the track and the recording. Each is written independently: a file
that cannot be written is listed in the summary's `faults` and does not affect the others.
"""

from __future__ import annotations

import contextlib
import itertools
import time
import traceback
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numba.core.event import install_timer
from swarmbed_core.chance import Stream, stream
from swarmbed_core.controller import TICK_RATE, NoParameters, find_controller
from swarmbed_core.ensemble import Ensemble
from swarmbed_core.errors import ConfigError, SwarmbedError, message_of
from swarmbed_core.observing import Event
from swarmbed_core.scene import make_scene

from swarmbed_experiments.errors import RunError, cause_of, make, unwritable
from swarmbed_experiments.files import as_json, new_directory, replace_text, write_text
from swarmbed_experiments.frame import Look, Setting, Stand
from swarmbed_experiments.frame.tracking import Tracking
from swarmbed_experiments.runs import manifest
from swarmbed_experiments.runs.hang import Limits, Stuck, attend, limited
from swarmbed_experiments.runs.interrupts import Interrupts
from swarmbed_experiments.runs.journal import NAME as JOURNAL
from swarmbed_experiments.runs.journal import Journal
from swarmbed_experiments.runs.order_log import NAME as ORDERS
from swarmbed_experiments.runs.order_log import OrderLog
from swarmbed_experiments.runs.plain import column, plain, writable
from swarmbed_experiments.runs.rehearsal import is_world_ours, tame
from swarmbed_experiments.runs.scenarios import load_scenario, make_plan, name_of, pack
from swarmbed_experiments.runs.summary import Summary
from swarmbed_experiments.runs.track import Track, Tracker, events_as_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from swarmbed_core.config import Part
    from swarmbed_core.controller import CrowdControllerType, CrowdProgram
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.observing import Observer, Source
    from swarmbed_core.orders import Join, Order
    from swarmbed_core.scenario import Scenario
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import CarrierTruth, Crowd, TaskWorld

    from swarmbed_experiments.frame import Acceptor, Generator, Transducer
    from swarmbed_experiments.runs.manifest import Manifest
    from swarmbed_experiments.runs.recording import Recorder, Watched
    from swarmbed_experiments.runs.scenarios import Plan
    from swarmbed_experiments.runs.summary import Verdict

ROW_PERIOD = 0.5
"""Seconds between two rows of the time series."""
KEPT = 2.0
"""Seconds of wall time between two saves to the journal, which limit what a kill loses ..."""
COST = 0.005
"""... and the maximum share of a run's time that saving may take."""
FAULTS = 50
"""Maximum number of faults in a summary."""
NUMBERS = frozenset({type(None), bool, int, float})


class _Samples:
    """Looks on and takes the samples of the track."""

    def __init__(self, run: Run, tracker: Tracker) -> None:
        self._run = run
        self._tracker = tracker
        self.rate = tracker.rate

    def look(self, source: Source) -> None:  # noqa: ARG002 - it takes what the frame saw
        """Take a sample."""
        if self._run.look is not None:
            self._tracker.add(self._run.look)


class _Rows:
    """Looks on and takes the rows of the time series."""

    rate = 1.0 / ROW_PERIOD

    def __init__(self, run: Run) -> None:
        self._run = run

    def look(self, source: Source) -> None:
        """Take a row."""
        self._run.take_row(source.time)


class _Keeper:
    """Looks on, records the run, and saves what is new to the journal from time to time."""

    def __init__(self, run: Run, rate: float) -> None:
        self._run = run
        self.rate = rate

    def look(self, source: Source) -> None:
        """Record and save."""
        self._run.keep(source.time)


class Run(Ensemble):
    """One run of a scenario, ready to start.

    Attributes:
        now: the part being computed, for error messages.
        standing: current state of the run, as reported by the first acceptor.
        directory: of the results, None if none are written.
        manifest: what the run is computed from, None if no results are written.
        interrupts: the signals received.
        faults: results that were lost, with the reasons.
        decided: verdict and reason, None while the run goes on.
        look: what the frame saw at the latest tick, None before the first.
    """

    def __init__(self, scenario: Scenario, source: str = "scenario", *, remote: bool = False) -> None:
        """Make the world, the robots, their controllers and the frame.

        Args:
            scenario: to run.
            source: its file, for messages; the run is named after it if the scenario has no name.
            remote: whether the robots' programs run in other processes, with `Remote` in their place.

        Raises:
            ConfigError: the scenario is invalid.
        """
        plan = make_plan(scenario, source)
        self.scenario = scenario
        self.source = source
        self.name = name_of(scenario, source)
        self._world_label = self.now = f"world {scenario.world}"
        attend(self)
        self.standing = ""
        self.directory: Path | None = None
        self.manifest: Manifest | None = None
        self.interrupts = Interrupts()
        self.faults: list[str] = []
        world: TaskWorld = make(self.now, plan.make_world, plan.scene, stream(scenario.seed, Stream.WORLD))
        self._contacts = world.watch_contacts()
        super().__init__(plan.scene, world)
        self._crowd: tuple[Crowd, CrowdProgram] | None = None
        self._chance = stream(scenario.seed, Stream.PROGRAMS)
        self._remote = remote
        self._real = plan.real_time_only
        self._recorder: Recorder | None = None
        self._journal: Journal | None = None
        self._log: OrderLog | None = None
        self._kept = (0, 0), 0, 0
        self._due = 0.0
        self._summary: dict[str, Any] | None = None
        self._cpu: float | None = None
        if plan.scene.crowd and remote:
            message = f"{plan.source}: robots: a crowd has no programs of its own; leave out `crowd`"
            raise ConfigError(message)
        if plan.scene.crowd:
            self._make_crowd(plan)
        else:
            self._make_programs(plan, remote=remote)
        self.setting = Setting(plan.scene, self.world, self.robots)
        self.setting.specs = self.specs
        streams = stream(scenario.seed, Stream.GENERATORS).spawn(len(plan.generators))
        self.generators: list[Generator] = [
            make(f"generator {made.__name__}", made, parameters, self.setting, np.random.default_rng(source))
            for (made, parameters), source in zip(plan.generators, streams, strict=True)
        ]
        self.transducers: list[Transducer] = [
            make(f"transducer {made.__name__}", made, parameters, self.setting)
            for made, parameters in plan.transducers
        ]
        if any(group.tracked for group in scenario.robots) and Tracking not in map(type, self.transducers):
            self.transducers.append(Tracking(NoParameters(), self.setting))
        self.acceptors: list[Acceptor] = [
            make(f"acceptor {made.__name__}", made, parameters, self.setting)
            for made, parameters in plan.acceptors
        ]
        carriers = [placement.name for placement in plan.scene.carriers]
        self._tracker = Tracker(self.world.names, carriers, scenario.time_limit)
        self._rows: list[dict[str, Any]] = []
        self._crowd_label = f"crowd: controller {scenario.controller.name}"
        self._time_limit = scenario.time_limit
        self.decided: tuple[Verdict, str] | None = None
        self.look: Look | None = None
        self.audience.add_inline(_Samples(self, self._tracker))
        self.audience.add_inline(_Rows(self))
        self.audience.add_inline(_Keeper(self, 2.0 if plan.scene.crowd else TICK_RATE))
        self.runner.log = self._write_down

    def _make_crowd(self, plan: Plan) -> None:
        """Make the single program that drives all robots."""
        crowd_of = getattr(self.world, "crowd", None)
        if crowd_of is None:
            message = f"{plan.source}: world {self.scenario.world} does not support crowds; use world planar"
            raise ConfigError(message)
        crowd: Crowd = crowd_of()
        who = self.now = f"crowd: controller {self.scenario.controller.name}"
        rng = np.random.default_rng(stream(self.scenario.seed, Stream.PROGRAMS))
        maker = cast("CrowdControllerType", plan.controller)
        self._crowd = crowd, make(who, maker.crowd, crowd.spec, plan.parameters, crowd.count, rng)

    def _make_programs(self, plan: Plan, *, remote: bool) -> None:
        """Give each robot a program."""
        streams = self._chance.spawn(len(plan.scene.robots))
        for robot, placement, source in zip(self.robots, plan.scene.robots, streams, strict=True):
            program = plan.programs[placement.group]
            if remote or program is None:
                self.drive_from_elsewhere()
            else:
                self._make_program(robot, *program, source)

    def _make_program(
        self, robot: LocalRobot, name: str, maker: Any, parameters: Part, source: np.random.SeedSequence
    ) -> None:
        """Give a robot a program of its own."""
        who = f"{robot.name}: controller {name}"
        self.drive(make(who, maker, robot, parameters, np.random.default_rng(source)), who)

    @property
    def track(self) -> Track:
        """Return the track up to now."""
        return self._tracker.track(self._events())

    def go(
        self,
        out: Path | None = None,
        *,
        record: bool = True,
        images: Sequence[str] = (),
        speed: float | None = None,
        observers: Sequence[Observer] = (),
        terminate: bool = False,
        limits: Limits | None = None,
    ) -> dict[str, Any]:
        """Run to the end and return the summary.

        Args:
            out: gets a new directory for this run, `self.directory`; None writes no files.
            record: whether to write recording.mcap too.
            images: cameras whose images to record, such as `dots1/cam0`.
            speed: factor of real time, None for as fast as possible.
            observers: who looks on, each in a thread of its own.
            terminate: whether SIGTERM ends the run like Ctrl-C; `self.interrupts` tells them apart.
            limits: maximum wall time of a tick and of the run; by default there is none.

        Raises:
            ConfigError: parts of robots run in real time, but no speed is given.
            RunError: the directory cannot be written, or a camera does not exist.
        """
        from swarmbed_experiments.runs.recording import watch

        if speed is None and self._real:
            raise ConfigError(self._real)
        for observer in observers:
            self.audience.add(observer)
        watched = watch(images, self.robots) if images and record and out is not None else ()
        directory = None if out is None else new_directory(out, self.name, self.scenario.seed)
        self.begin(directory, record=record, images=watched)
        verdict: Verdict
        failure = None
        started, worked = time.perf_counter(), time.process_time()
        compiling = contextlib.ExitStack()
        compiler = compiling.enter_context(install_timer("numba:compiler_lock", lambda _: None))
        self.interrupts = Interrupts(terminate=terminate)
        with self.interrupts as signals:
            try:
                with limited(self._limits(limits, speed)):
                    verdict, reason = self._loop(speed)
            except BaseException as error:  # noqa: BLE001 - the data so far is kept in any case
                signals.held = True
                verdict, reason, failure = self._ended_by(error)
            signals.held = signals.writing = True
            compiling.close()
            # Compiling kernels, or loading them from the cache, is not a cost of this run.
            compiled = compiler.duration if compiler.done else 0.0
            wall = time.perf_counter() - started - compiled
            self._cpu = time.process_time() - worked - compiled
            return self.finish(verdict, reason, wall, failure)

    def begin(self, directory: Path | None, *, record: bool = True, images: Sequence[Watched] = ()) -> None:
        """Open the files of the run in an existing directory; with None, write no files.

        Raises:
            RunError: the directory cannot be written.
        """
        self.directory = directory
        if directory is None:
            self.audience.begin(self.scene, self._about())
            return
        pack(self.scenario, self.source, directory)
        self._attempt(manifest.NAME, self._begin_manifest)
        self._recorder = self._open_recorder(directory, images) if record else None
        tracked = {"robots_named": self._tracker.robots, "carriers_named": self._tracker.carriers}
        self._journal = Journal(directory / JOURNAL, {**self._about(), **tracked})
        self._log = OrderLog(directory / ORDERS)
        self._due = time.perf_counter() + KEPT
        told = {} if self.manifest is None else self.manifest.model_dump(mode="json")
        self.audience.begin(self.scene, {**told, **self._about()})

    def _begin_manifest(self) -> None:
        if self.directory is not None:
            self.manifest = manifest.begin(self.directory, self.scenario, self.name, self.source)

    def _end_manifest(self) -> None:
        if self.directory is not None and self.manifest is not None:
            self.manifest = manifest.complete(self.directory, self.manifest, self.end)

    @property
    def end(self) -> manifest.End | None:
        """Return the state in which the run is now; None after a signal, which may come within a step."""
        if self.interrupts.received is not None:
            return None
        world = self.world
        state = manifest.state_of(self.time, world.names, world.truth(), world.carriers())
        return manifest.End(steps=self.runner.number, state=state)

    def finish(
        self, verdict: Verdict, reason: str, wall: float, failure: str | None = None
    ) -> dict[str, Any]:
        """Write the results, and return the summary. Files that cannot be written are listed in its faults.

        Args:
            verdict: of the run.
            reason: for the verdict.
            wall: wall time of the run in seconds.
            failure: a traceback, if the run failed.
        """
        self.orders.close()
        self._attempt("recording.mcap", self._close_recorder)
        if self._log is not None:
            self._attempt(ORDERS, self._log.close)
        summary = self._summary = self._sum_up(verdict, reason, wall)
        self.audience.end(summary)
        if told := self.audience.told():
            summary["observers"] = told
        if self.directory is not None:
            self._write(self.directory, summary, failure)
        return summary

    def close(self) -> None:
        """Close the robots' devices, and release the world's resources."""
        if self.swarm is not None:
            self._attempt("devices: close()", self.swarm.close)
        self._attempt(f"{self._world_label}: close()", super().close)
        if self._summary is not None and self.faults:
            self._summary["faults"] = self.faults
            if self.directory is not None:
                self._attempt("summary.json", self._write_summary)

    # The loop

    def _loop(self, speed: float | None) -> tuple[Verdict, str]:
        """Run until the acceptors decide; return verdict and reason."""
        runner, signals = self.runner, self.interrupts
        runner.pace(speed)
        while not runner.over:
            runner.go_on()
            if signals.received is not None:
                raise KeyboardInterrupt
        if self.decided is not None:
            return self.decided
        told = f" ({runner.stopped})" if runner.stopped else ""
        return "interrupted", f"stopped by an order after {self.time:.1f} s{told}"

    def _limits(self, limits: Limits | None, speed: float | None) -> Limits:
        """Return the limits, with enough time per tick for pacing."""
        if limits is None or limits.tick is None or speed is None:
            return limits or Limits(None)
        return Limits(max(limits.tick, 2.0 / (TICK_RATE * speed)), limits.run)

    def _ended_by(self, error: BaseException) -> tuple[Verdict, str, str | None]:
        """Return verdict, reason and traceback of a run that an exception ended."""
        signals = self.interrupts
        if signals.received is not None or (isinstance(error, KeyboardInterrupt) and signals.possible):
            return "interrupted", f"stopped by {signals.name} after {self.time:.1f} s", None
        if isinstance(error, Stuck):
            return "failed", str(error), "".join(traceback.format_exception(error))
        return "failed", f"{self.now}: {cause_of(error)}", "".join(traceback.format_exception(error))

    def keep(self, now: float) -> None:
        """Record the current state, and save to the journal when that is due."""
        if self._recorder is not None:
            self._record(self._recorder, now)
        if self._journal is not None and time.perf_counter() > self._due:
            self._keep(self._journal)

    def _record(self, recorder: Recorder, now: float) -> None:
        """Record a tick. An error ends the recording, but not the run."""
        self.now = "recording"
        signals = self.interrupts
        held, signals.held = signals.held, True
        try:
            recorder.tick(now, self.robots, self.controllers)
        except Exception as error:  # noqa: BLE001 - it also reads users' trees
            self._note("recording.mcap", error)
            self._attempt("recording.mcap", self._close_recorder)
        finally:
            signals.held = held

    def _keep(self, journal: Journal) -> None:
        """Save the data since the last save to the journal."""
        signals = self.interrupts
        held, signals.held = signals.held, True
        started = time.perf_counter()
        try:
            size, rows, events = self._kept
            track = self._tracker.since(size, self._events(events))
            texts = {
                "deeds": track.deeds,
                "events": events_as_lists(track.events),
                "rows": self._rows[rows:],
                "robots": track.robots,
            }
            journal.add(track.arrays(), texts)
            self._kept = self._tracker.size, len(self._rows), len(self.setting.events)
            if self._recorder is not None:
                self._recorder.flush()
            if self._log is not None:
                self._log.flush()
        except Exception as error:  # noqa: BLE001 - the run does not need the journal
            self._note("journal", error)
            self._journal = None
            with contextlib.suppress(OSError):
                journal.close(remove=True)
        finally:
            signals.held = held
        now = time.perf_counter()
        self._due = now + max(KEPT, (now - started) / COST)

    def think(self) -> bool:
        """Tick the programs and the experimental frame; return whether the frame has decided."""
        if self._crowd is not None:
            crowd, program = self._crowd
            self.now = self._crowd_label
            program.tick(crowd.senses(), crowd.v_body)
        dead = self.setting.dead
        for label, robot, controller in zip(self.labels, self.robots, self.controllers, strict=False):
            if robot.name not in dead:
                self.now = label
                controller.tick()
        self.decided = self._judge(self._frame())
        return self.decided is not None

    def tick(self) -> Look:
        """Advance by 0.1 s, and return what the frame saw: for programs that step a run themselves.

        What is decided is in `decided`; a run goes on when it is stepped further.
        """
        before = self.look
        while self.look is before or self.look is None:
            self.runner.burst()
        return self.look

    def step(self) -> None:
        """Advance the world by one time step, and run the Onboards that are due."""
        self.stepper()

    @property
    def stepper(self) -> Callable[[], None]:
        """Return what `step` calls, for many steps in a row."""
        self.now = self._world_label
        return self.world.step if self.swarm is None else self.swarm.step

    def _frame(self) -> Look:
        """Let generators and transducers work, after the programs."""
        look = self.look = self._look_now()
        for generator in self.generators:
            self.now = f"generator {type(generator).__name__}"
            generator.tick(look)
        for transducer in self.transducers:
            self.now = f"transducer {type(transducer).__name__}"
            transducer.tick(look)
        return look

    def _look_now(self) -> Look:
        """Return the true state of the world, with the robots' activities."""
        self.now = self._world_label
        dead = self.setting.dead
        world, doing = self.world, []
        for label, robot, controller in zip(self.labels, self.robots, self.controllers, strict=False):
            if robot.name in dead:
                doing.append("dead")
                continue
            said = getattr(controller, "doing", None)
            if not isinstance(said, str):
                self.now = label
                message = f"its `doing` is {said!r}; set it to a short string that names the current activity"
                raise RunError(message)
            doing.append(said)
        if self._crowd is not None:
            doing = self._crowd_doing(self._crowd[1], dead)
        return Look(world.time, world.truth(), world.carriers(), self._contacts.read(), doing, world.names)

    def _crowd_doing(self, program: CrowdProgram, dead: set[str]) -> list[str]:
        """Return the activities of a crowd's robots, empty if their program reports none."""
        said = list(getattr(program, "doing", ()))
        names = self.world.names
        count = len(names) if self._crowd is None else self._crowd[0].count
        if said and (len(said) != count or not all(isinstance(word, str) for word in said)):
            message = (
                f"controller {self.scenario.controller.name}: `doing` must hold one string for each robot"
            )
            raise RunError(message)
        if said:
            # Tracked robots beside a crowd run no program.
            said += [""] * (len(names) - count)
        return ["dead" if name in dead else word for name, word in zip(names, said, strict=False)]

    # What observers see

    def see_robots(self) -> FloatArray:
        """Return the robots' poses and twists; at a tick, those that the frame saw."""
        look = self.look
        return look.robots if look is not None and look.time == self.world.time else self.world.truth()

    def see_carriers(self) -> CarrierTruth:
        """Return the carriers; at a tick, as the frame saw them."""
        look = self.look
        return look.carriers if look is not None and look.time == self.world.time else self.world.carriers()

    def see_doing(self) -> tuple[str, ...]:
        """Return the activities at the latest tick; empty if none are reported."""
        return () if self.look is None else tuple(self.look.doing)

    def see_events(self) -> list[Event]:
        """Return the events, to which more are only appended."""
        return self.setting.events

    def see_standing(self) -> str:
        """Return the state of the run in words."""
        return self.standing

    def see_metrics(self) -> Mapping[str, Any]:
        """Return the latest row of the time series."""
        return self._rows[-1] if self._rows else {}

    # Orders

    def _write_down(self, order: Order, failure: str) -> None:
        """Write down an order with the step before or in which it was carried out."""
        if self._log is None:
            return
        runner = self.runner
        try:
            self._log.add(runner.number, order, in_tick=runner.in_tick, failure=failure)
        except OSError as error:
            self._note(ORDERS, error)
            self._log = None

    @property
    def dead(self) -> AbstractSet[str]:
        """Return the names of the robots that a generator has killed."""
        return self.setting.dead

    def employ(self, robot: LocalRobot, order: Join) -> None:
        """Give a robot that joins its program.

        Raises:
            SwarmbedError: the program cannot be made.
        """
        if not order.controller:
            self.drive_from_elsewhere()
            return
        found = find_controller(order.controller, order.parameters or {}, "join")
        (source,) = self._chance.spawn(1)
        self._make_program(robot, order.controller, *found, source)

    def leave(self, name: str) -> None:
        """Remove a robot; the energy that it has drawn stays in the sum.

        Raises:
            SwarmbedError: there is none of this name.
        """
        names = list(self.world.names)
        spent = float(self.world.energy_wh()[names.index(name)]) if name in names else 0.0
        super().leave(name)
        self.setting.spent_wh += spent
        self.setting.dead.discard(name)

    def met(self, name: str) -> None:
        """Tell the timeline of a robot that has joined or left.

        Raises:
            SwarmbedError: it cannot stay.
        """
        super().met(name)
        here = name in self.world.names
        kind, text = ("joined", "joins the run") if here else ("left", "leaves the run")
        self.setting.tell(self.time, kind, name, text)

    def take_row(self, now: float) -> None:
        """Take a row of the time series."""
        row: dict[str, Any] = {"time": now}
        for transducer in self.transducers:
            self._enter(row, transducer)
        self._rows.append(row)

    def _enter(self, row: dict[str, Any], transducer: Transducer) -> None:
        """Add the numbers of a transducer to a row."""
        self.now = f"transducer {type(transducer).__name__}"
        found = transducer.row()
        usual = type(found) is dict and row.keys().isdisjoint(found)
        if usual and all(type(value) in NUMBERS for value in found.values()):
            row.update(found)
            return
        made = self._plain(f"{self.now}: row()", found, finite=False)
        row.update({self._free(row, self.now, key): value for key, value in made.items()})

    def _judge(self, look: Look) -> tuple[Verdict, str] | None:
        """Return verdict and reason once the acceptors decide.

        One rejection is enough to reject the run. It is accepted once an acceptor accepts and none is open.
        At the time limit, open counts as rejected and content as accepted.
        """
        over = look.time >= self._time_limit - 1e-9
        judgements = []
        for acceptor in self.acceptors:
            self.now = f"acceptor {type(acceptor).__name__}"
            judgements.append(acceptor.judge(look, over=over))
        self.standing = judgements[0].reason
        stands = [judgement.stand for judgement in judgements]
        if not over and Stand.OPEN in stands and Stand.REJECTED not in stands:
            return None
        for stand in (Stand.REJECTED, Stand.OPEN):
            reasons = [judgement.reason for judgement in judgements if judgement.stand is stand]
            if reasons and (over or stand is Stand.REJECTED):
                return "rejected", "; ".join(reasons)
            if reasons:
                return None
        if over or any(judgement.stand is Stand.ACCEPTED for judgement in judgements):
            return "accepted", "; ".join(judgement.reason for judgement in judgements)
        return None

    # Results

    def _open_recorder(self, directory: Path, images: Sequence[Watched]) -> Recorder:
        from swarmbed_experiments.runs.recording import Recorder

        return Recorder(directory / "recording.mcap", self.scene, self.world, self.robots, images)

    def _close_recorder(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close()

    def _attempt(self, what: str, call: Callable[[], object]) -> bool:
        """Call a function, and note its error as a fault; return whether there was none."""
        try:
            call()
        except BaseException as error:
            # While signals are held, a KeyboardInterrupt comes from a user's program.
            if isinstance(error, KeyboardInterrupt) and not self.interrupts.held:
                raise
            self._note(what, error)
            return False
        return True

    def _note(self, what: str, fault: BaseException | str) -> None:
        """Note a fault: what was lost, and why. Repeated faults are noted once."""
        if isinstance(fault, BaseException):
            # Our own errors name the file already.
            fault = message_of(fault) if isinstance(fault, SwarmbedError) else cause_of(fault)
        text = writable(fault if what in fault else f"{what}: {fault}")
        if text not in self.faults and len(self.faults) < FAULTS:
            self.faults.append(text)

    def _plain(self, what: str, found: object, *, finite: bool = True) -> dict[str, Any]:
        """Convert a mapping from a user's program to plain types; note the parts that cannot be converted."""
        made, faults = plain(found, finite=finite)
        for fault in faults:
            self._note(what, fault)
        if isinstance(made, dict):
            return made
        if not faults:
            self._note(what, f"returned {type(found).__name__}; return a mapping of names to values")
        return {}

    def _free(self, taken: Mapping[str, Any], who: str, key: str) -> str:
        """Return a free name: `key`, or if that is taken, `key` with the part's name in front."""
        if key not in taken:
            return key
        whose = f"{who.rpartition(' ')[2]}.{key}"
        names = itertools.chain([whose], (f"{whose}.{k}" for k in itertools.count(2)))
        return next(name for name in names if name not in taken)

    def _events(self, first: int = 0) -> list[Event]:
        """Return the events from index `first` on, in types that files can hold."""
        made = []
        for event in self.setting.events[first:]:
            try:
                time_, texts = float(event.time), (str(event.kind), str(event.who), str(event.text))
            except Exception as error:  # noqa: BLE001 - users' frame parts may put anything there
                self._note("an event", error)
                continue
            made.append(Event(time_, *map(writable, texts)))
        return made

    def _metrics(self) -> dict[str, Any]:
        """Return the metrics of all parts. A part that raises is noted as a fault."""
        metrics: dict[str, Any] = {}
        asked: list[tuple[str, Any]] = [
            *((f"transducer {type(part).__name__}", part) for part in self.transducers),
            *((f"acceptor {type(part).__name__}", part) for part in self.acceptors),
        ]
        if self._crowd is not None and getattr(self._crowd[1], "metrics", None) is not None:
            asked.append((f"controller {self.scenario.controller.name}", self._crowd[1]))
        for who, part in asked:
            for key, value in self._metrics_of(f"{who}: metrics()", part).items():
                metrics[self._free(metrics, who, key)] = value
        return metrics

    def _metrics_of(self, who: str, part: Any) -> dict[str, Any]:
        """Return the metrics of one part of the frame, or of a crowd's program."""
        found: list[object] = []

        def ask() -> None:
            found.append(part.metrics())

        return self._plain(who, found[0]) if self._attempt(who, ask) else {}

    def _about(self) -> dict[str, Any]:
        """Return the fields of a summary that describe what is run."""
        return {
            "scenario": self.name,
            "title": self.scenario.title,
            "world": self.scenario.world,
            "controller": self.scenario.controller.name,
            "robots": len(self.scene.robots),
            "seed": self.scenario.seed,
            **({"programs": "elsewhere"} if self._remote else {}),
        }

    def _sum_up(self, verdict: Verdict, reason: str, wall: float) -> dict[str, Any]:
        metrics = self._metrics()
        return Summary(
            **self._about(),
            verdict=verdict,
            reason=writable(reason),
            sim_seconds=self.time,
            wall_seconds=wall,
            cpu_seconds=self._cpu,
            real_time_factor=self.time / wall if wall > 0 else None,
            refused=self._refused(),
            faults=self.faults,
            metrics=metrics,
        ).as_data()

    def _refused(self) -> dict[str, int]:
        """Return the number of rejected commands by reason. They reveal faulty programs that do not raise."""
        counts: Counter[str] = Counter()
        for robot in self.robots:
            if robot.name not in self.setting.dead:
                counts.update(robot.onboard.health.counts)
        return {reason: counts[reason] for reason in sorted(counts) if reason.startswith("command.")}

    def _write(self, directory: Path, summary: dict[str, Any], failure: str | None) -> None:
        """Write all results except the recording, each independently, the summary first."""
        self._attempt("summary.json", self._write_summary)
        if failure is not None:
            self._attempt("failure.txt", lambda: write_text(directory / "failure.txt", writable(failure)))
        rows, track = directory / "metrics.parquet", self.track
        kept = self._attempt(rows.name, lambda: write_rows(rows, self._rows))
        kept &= self._attempt("track.npz", lambda: track.save(directory / "track.npz"))
        self._attempt(manifest.NAME, self._end_manifest)
        draw(directory, self.scene, track, summary, self._attempt)
        if self.faults and summary.get("faults") is not self.faults:
            summary["faults"] = self.faults
        if self.faults:
            self._attempt("summary.json", self._write_summary)
        journal, self._journal = self._journal, None
        if journal is not None:
            # If a file could not be written, `swarmbed mend` can try again from the journal.
            self._attempt(JOURNAL, lambda: journal.close(remove=kept))

    def _write_summary(self) -> None:
        if self.directory is not None and self._summary is not None:
            replace_text(self.directory / "summary.json", as_json(self._summary))


def write_rows(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows of plain values as a Parquet file. Missing values are null.

    Raises:
        RunError: it cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = dict.fromkeys(key for row in rows for key in row)
    columns = {writable(str(name)): column([row.get(name) for row in rows]) for name in names}
    try:
        # pyarrow rejects file names that the locale cannot encode.
        with file.open("wb") as stream:
            pq.write_table(pa.table(columns), stream)
    except OSError as error:
        raise unwritable(file, error) from None


def draw(
    directory: Path,
    scene: Scene,
    track: Track,
    summary: Mapping[str, Any],
    attempt: Callable[[str, Callable[[], None]], object] = lambda _, draw: draw(),
) -> list[Path]:
    """Draw a run's pictures into its directory, and return their files.

    Args:
        directory: gets the files.
        scene: the initial state.
        track: of the run.
        summary: of the run.
        attempt: called with the name of each picture and the function that draws it.

    Raises:
        RunError: a picture cannot be written.
    """
    from swarmbed_experiments.pictures import plots

    if not len(track.times):
        return []
    drawn = {"tracks.png": plots.draw_tracks}
    if not scene.crowd or any(track.deeds):
        drawn["timeline.png"] = plots.draw_timeline
    for name, picture in drawn.items():
        attempt(name, partial(picture, directory / name, scene, track, summary))
    return [directory / name for name in drawn]


def redraw(directory: Path) -> list[Path]:
    """Draw the pictures of a run again from its files, and return the pictures' files.

    Raises:
        ConfigError: scenario.yaml is missing or invalid.
        RunError: another file is missing or invalid, or a picture cannot be written.
    """
    summary = Summary.load(directory).as_data()
    scenario, source = load_scenario(str(directory / "scenario.yaml"))
    scene, track = make_scene(scenario, source=source), Track.load(directory / "track.npz")
    robots = tuple(placement.name for placement in scene.robots)
    carriers = tuple(placement.name for placement in scene.carriers)
    # Robots that joined come after those of the start.
    if (track.robots[: len(robots)], track.carriers) != (robots, carriers):
        message = (
            f"{directory}: scenario.yaml and track.npz are from different runs: robots or carriers differ"
        )
        raise RunError(message)
    return draw(directory, scene, track, summary)


def warm_up(scenario: Scenario, source: str, seconds: float = 1.0, *, remote: bool = False) -> None:
    """Run the start of a scenario and discard it, so that everything is compiled, or loaded from the cache.

    Users' programs are left out, because their global state would leak into the run.
    """
    if not is_world_ours(scenario):
        return
    run = Run(tame(scenario), source, remote=remote)
    with Interrupts() as signals:
        try:
            for _ in range(round(min(seconds, scenario.time_limit) / run.timestep)):
                run.runner.cycle()
        except BaseException as error:
            # The run will raise the same error, report it and keep its data.
            if isinstance(error, KeyboardInterrupt) and signals.possible:
                raise
    run.close()
