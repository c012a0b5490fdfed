"""One run of a scenario: the loop of world, Onboards, controllers and experimental frame.

Everything in the loop uses the world's clock; pacing only sleeps. What a run measures is in `measures`, and
the files that it leaves are written by `output`.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numba.core.event import install_timer
from swarmbed_core.chance import Stream, stream
from swarmbed_core.controller import TICK_RATE, NoParameters, find_controller
from swarmbed_core.ensemble import Ensemble
from swarmbed_core.errors import ConfigError
from swarmbed_core.world import HasCrowd

from swarmbed_experiments.errors import RunError, cause_of, make
from swarmbed_experiments.files import new_directory
from swarmbed_experiments.frame import Look, Setting, Stand
from swarmbed_experiments.frame.tracking import Tracking
from swarmbed_experiments.runs.faults import Faults
from swarmbed_experiments.runs.hang import Limits, Stuck, attend, limited
from swarmbed_experiments.runs.interrupts import Interrupts
from swarmbed_experiments.runs.measures import Measures
from swarmbed_experiments.runs.output import Output
from swarmbed_experiments.runs.plain import writable
from swarmbed_experiments.runs.rehearsal import is_world_ours, tame
from swarmbed_experiments.runs.scenarios import make_plan, name_of
from swarmbed_experiments.runs.summary import Summary
from swarmbed_experiments.runs.track import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from swarmbed_core.config import Part
    from swarmbed_core.controller import CrowdControllerType, CrowdProgram
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.observing import Event, Observer, Source
    from swarmbed_core.orders import Join
    from swarmbed_core.scenario import Scenario
    from swarmbed_core.world import CarrierTruth, Crowd, TaskWorld

    from swarmbed_experiments.frame import Acceptor, Generator, Transducer
    from swarmbed_experiments.runs.manifest import Manifest
    from swarmbed_experiments.runs.recording import Watched
    from swarmbed_experiments.runs.scenarios import Plan
    from swarmbed_experiments.runs.summary import Verdict
    from swarmbed_experiments.runs.track import Track


class _Samples:
    """Looks on and takes the samples of the track."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.rate = run.tracker.rate

    def look(self, source: Source) -> None:  # noqa: ARG002 - it takes what the frame saw
        """Take a sample."""
        if self._run.look is not None:
            self._run.tracker.add(self._run.look)


class Run(Ensemble):
    """One run of a scenario, ready to start.

    Attributes:
        now: the part being computed, for error messages.
        standing: current state of the run, as reported by the first acceptor.
        interrupts: the signals received.
        faults: results that were lost, with the reasons.
        decided: verdict and reason, None while the run goes on.
        look: what the frame saw at the latest tick, None before the first.
        crowd: the robots of a crowd and the program that drives them, None without one.
        tracker: takes the track.
        measures: takes the rows of the time series, and the metrics.
        output: writes the files.
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
        self.interrupts = Interrupts()
        self.faults = Faults(self.interrupts)
        world: TaskWorld = make(self.now, plan.make_world, plan.scene, stream(scenario.seed, Stream.WORLD))
        self._contacts = world.watch_contacts()
        super().__init__(plan.scene, world)
        self.crowd: tuple[Crowd, CrowdProgram] | None = None
        self._chance = stream(scenario.seed, Stream.PROGRAMS)
        self._remote = remote
        self._real = plan.real_time_only
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
        self.tracker = Tracker(self.world.names, carriers, scenario.time_limit)
        self._crowd_label = f"crowd: controller {scenario.controller.name}"
        self._time_limit = scenario.time_limit
        self.decided: tuple[Verdict, str] | None = None
        self.look: Look | None = None
        self.measures = Measures(self)
        self.output = Output(self)
        for part in (_Samples(self), self.measures, self.output):
            self.audience.add_inline(part)
        self.runner.log = self.output.write_down

    def _make_crowd(self, plan: Plan) -> None:
        """Make the single program that drives all robots."""
        if not isinstance(self.world, HasCrowd):
            message = f"{plan.source}: world {self.scenario.world} does not support crowds; use world planar"
            raise ConfigError(message)
        crowd = self.world.crowd()
        who = self.now = f"crowd: controller {self.scenario.controller.name}"
        rng = np.random.default_rng(stream(self.scenario.seed, Stream.PROGRAMS))
        maker = cast("CrowdControllerType", plan.controller)
        self.crowd = crowd, make(who, maker.crowd, crowd.spec, plan.parameters, crowd.count, rng)

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
    def directory(self) -> Path | None:
        """Return the directory of the results, None if none are written."""
        return self.output.directory

    @property
    def manifest(self) -> Manifest | None:
        """Return what the run is computed from, None if no results are written."""
        return self.output.manifest

    @property
    def track(self) -> Track:
        """Return the track up to now."""
        return self.tracker.track(self.measures.events())

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
        self.interrupts = self.faults.interrupts = Interrupts(terminate=terminate)
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
        if directory is None:
            self.audience.begin(self.scene, self._about())
            return
        self.output.open(directory, self._about(), images if record else None)
        told = {} if self.manifest is None else self.manifest.model_dump(mode="json")
        self.audience.begin(self.scene, {**told, **self._about()})

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
        self.output.close()
        summary = self._summary = self._sum_up(verdict, reason, wall)
        self.audience.end(summary)
        if told := self.audience.told():
            summary["observers"] = told
        self.output.write(summary, failure)
        return summary

    def close(self) -> None:
        """Close the robots' devices, and release the world's resources."""
        if self.swarm is not None:
            self.faults.attempt("devices: close()", self.swarm.close)
        self.faults.attempt(f"{self._world_label}: close()", super().close)
        if self._summary is not None and self.faults:
            summary = self._summary
            summary["faults"] = self.faults
            self.faults.attempt("summary.json", lambda: self.output.write_summary(summary))

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

    def think(self) -> bool:
        """Tick the programs and the experimental frame; return whether the frame has decided."""
        if self.crowd is not None:
            crowd, program = self.crowd
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
        if self.crowd is not None:
            doing = self._crowd_doing(self.crowd[1], dead)
        return Look(world.time, world.truth(), world.carriers(), self._contacts.read(), doing, world.names)

    def _crowd_doing(self, program: CrowdProgram, dead: set[str]) -> list[str]:
        """Return the activities of a crowd's robots, empty if their program reports none."""
        said = list(getattr(program, "doing", ()))
        names = self.world.names
        count = len(names) if self.crowd is None else self.crowd[0].count
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
        return self.measures.rows[-1] if self.measures.rows else {}

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

    def join(self, order: Join) -> str:
        """Add a robot to the world, and return its name; with the first tracked one, losses are watched.

        Raises:
            SwarmbedError: it cannot join.
        """
        name = super().join(order)
        if self.tracked and not any(isinstance(item, Tracking) for item in self.transducers):
            self.transducers.append(Tracking(NoParameters(), self.setting))
        return name

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
        return Summary(
            **self._about(),
            verdict=verdict,
            reason=writable(reason),
            sim_seconds=self.time,
            wall_seconds=wall,
            cpu_seconds=self._cpu,
            real_time_factor=self.time / wall if wall > 0 else None,
            refused=self.measures.refused(),
            faults=self.faults,
            metrics=self.measures.metrics(),
        ).as_data()


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
