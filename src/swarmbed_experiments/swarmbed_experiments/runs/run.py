"""One run of a scenario: the loop of world, Onboards, controllers and experimental frame, and its results.

Everything in the loop uses the world's clock; pacing only sleeps. A run leaves a directory with the final
scenario, the summary, the time series, the track and the recording. Each is written independently: a file
that cannot be written is listed in the summary's `faults` and does not affect the others.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
import traceback
import zlib
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from zipfile import BadZipFile

import numpy as np
from numba.core.event import install_timer
from swarmbed_core.chance import Stream, stream
from swarmbed_core.controller import TICK_RATE
from swarmbed_core.errors import ConfigError, SwarmbedError, message_of
from swarmbed_core.local import LocalSwarm
from swarmbed_core.scene import make_scene

from swarmbed_experiments.errors import RunError, cause_of, make, unwritable
from swarmbed_experiments.files import as_json, new_directory, replace_text, write_text
from swarmbed_experiments.frame import Event, Look, Setting, Stand
from swarmbed_experiments.runs import manifest
from swarmbed_experiments.runs.hang import Limits, Stuck, attend, limited
from swarmbed_experiments.runs.interrupts import Interrupts
from swarmbed_experiments.runs.journal import NAME as JOURNAL
from swarmbed_experiments.runs.journal import Journal
from swarmbed_experiments.runs.plain import column, plain, writable
from swarmbed_experiments.runs.rehearsal import is_world_ours, tame
from swarmbed_experiments.runs.scenarios import load_scenario, make_plan, name_of, pack
from swarmbed_experiments.runs.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from swarmbed_core.controller import Controller, CrowdControllerType, CrowdProgram
    from swarmbed_core.geometry import FloatArray
    from swarmbed_core.local import LocalRobot
    from swarmbed_core.scenario import Scenario
    from swarmbed_core.scene import Scene
    from swarmbed_core.world import Crowd, TaskWorld

    from swarmbed_experiments.frame import Acceptor, Generator, Transducer
    from swarmbed_experiments.runs.recording import Recorder, Watched
    from swarmbed_experiments.runs.manifest import Manifest
    from swarmbed_experiments.runs.scenarios import Plan
    from swarmbed_experiments.runs.summary import Verdict

ROW_PERIOD = 0.5
"""Seconds between two rows of the time series."""
FEW = 100
"""Maximum number of robots that are tracked at every tick. More are tracked once per second ..."""
POSES = 1_000_000
"""... as are all robots of a run that would have more poses than these."""
KEPT = 2.0
"""Seconds of wall time between two saves to the journal, which limit what a kill loses ..."""
COST = 0.005
"""... and the maximum share of a run's time that saving may take."""
FAULTS = 50
"""Maximum number of faults in a summary."""
NUMBERS = frozenset({type(None), bool, int, float})


@dataclass(frozen=True, eq=False)
class Track:
    """Poses over time: T samples of R robots and C carriers, at 10 Hz, or at 1 Hz if there are too many.

    Attributes:
        robots: names, in the order of the columns of `poses` and `doing`.
        carriers: names, in the order of the columns of `carrier_poses` and `carried_by`.
        times: T seconds.
        poses: T x R x 3: x, y, yaw in `map`.
        doing: T x R: indices into `deeds`; all 0 for a crowd whose program reports no activities.
        deeds: names of activities that controllers reported.
        carrier_poses: T x C x 3.
        carried_by: T x C: the index of the robot that carries it, -1 if none does.
        events: in order of time.
    """

    robots: tuple[str, ...]
    carriers: tuple[str, ...]
    times: FloatArray
    poses: FloatArray
    doing: NDArray[np.int64]
    deeds: tuple[str, ...]
    carrier_poses: FloatArray
    carried_by: NDArray[np.int64]
    events: tuple[Event, ...]

    def save(self, file: Path) -> None:
        """Write the track to an .npz file.

        Raises:
            RunError: the file cannot be written.
        """
        texts = {
            "robots": self.robots,
            "carriers": self.carriers,
            "deeds": self.deeds,
            "events": events_as_lists(self.events),
        }
        try:
            np.savez_compressed(file, texts=np.array(json.dumps(texts)), **self.arrays())
        except OSError as error:
            raise unwritable(file, error) from None

    def arrays(self) -> dict[str, Any]:
        """Return the arrays in the types they are saved in."""
        few = len(self.deeds) < 2**15
        return {
            "times": self.times,
            "poses": self.poses.astype(np.float32),
            "doing": self.doing.astype(np.int16 if few else np.int32),
            "carrier_poses": self.carrier_poses.astype(np.float32),
            "carried_by": self.carried_by.astype(np.int32),
        }

    @classmethod
    def load(cls, file: Path) -> Track:
        """Read a track that `save` wrote.

        Raises:
            RunError: the file cannot be read as a track.
        """
        try:
            with np.load(file, allow_pickle=False) as data:
                return cls.of(json.loads(str(data["texts"])), data)
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error) as error:
            message = f"{file}: cannot be read as a run's track ({error})"
            raise RunError(message) from None

    @classmethod
    def of(cls, texts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Track:
        """Return a track from the content of its file."""
        return cls(
            robots=tuple(texts["robots"]),
            carriers=tuple(texts["carriers"]),
            times=arrays["times"],
            poses=arrays["poses"].astype(np.float64),
            doing=arrays["doing"].astype(np.int64),
            deeds=tuple(texts["deeds"]),
            carrier_poses=arrays["carrier_poses"].astype(np.float64),
            carried_by=arrays["carried_by"].astype(np.int64),
            events=tuple(Event(*item) for item in texts["events"]),
        )


def events_as_lists(events: Sequence[Event]) -> list[list[Any]]:
    """Return events as lists for JSON."""
    return [[event.time, event.kind, event.who, event.text] for event in events]


class _Tracker:
    """Collects a track."""

    def __init__(self, robots: Sequence[str], carriers: Sequence[str], seconds: float) -> None:
        self.robots = tuple(robots)
        self.carriers = tuple(carriers)
        few = len(robots) <= FEW and len(robots) * seconds * TICK_RATE <= POSES
        self.every = 1 if few else round(TICK_RATE)
        self._deeds: dict[str, int] = {}
        self._times: list[float] = []
        self._poses: list[FloatArray] = []
        self._doing: list[list[int]] = []
        self._carrier_poses: list[FloatArray] = []
        self._carried_by: list[NDArray[np.int64]] = []

    def add(self, look: Look) -> None:
        """Add a sample. Its time is appended last, so an interrupted call leaves no half sample."""
        deeds = self._deeds
        if look.doing or self._doing:
            said = look.doing or ("",) * len(self.robots)
            while len(self._doing) < len(self._times):
                # A crowd that reports activities for the first time.
                self._doing.append([deeds.setdefault("", len(deeds))] * len(self.robots))
            self._doing.append([deeds.setdefault(deed, len(deeds)) for deed in said])
        self._poses.append(look.robots[:, :3].copy())
        if self.carriers:
            self._carrier_poses.append(look.carriers.poses.copy())
            self._carried_by.append(look.carriers.carried_by.copy())
        self._times.append(look.time)

    @property
    def size(self) -> tuple[int, int]:
        """Return the number of samples and of deeds."""
        return len(self._times), len(self._deeds)

    def track(self, events: Sequence[Event]) -> Track:
        """Return the whole track."""
        track = self.since((0, 0), sorted(events, key=lambda event: event.time))
        return track if track.deeds else replace(track, deeds=("",))

    def since(self, size: tuple[int, int], events: Sequence[Event]) -> Track:
        """Return the track since an earlier `size`, with only the deeds added since then."""
        first, end = size[0], len(self._times)
        samples, robots, carriers = end - first, len(self.robots), len(self.carriers)
        doing = np.array(self._doing[first:end], dtype=np.int64)
        return Track(
            robots=self.robots,
            carriers=self.carriers,
            times=np.array(self._times[first:]),
            poses=np.array(self._poses[first:end]).reshape(samples, robots, 3),
            doing=doing if doing.size else np.zeros((samples, robots), dtype=np.int64),
            deeds=tuple(itertools.islice(self._deeds, size[1], None)),
            carrier_poses=np.array(self._carrier_poses[first:end]).reshape(samples, carriers, 3),
            carried_by=np.array(self._carried_by[first:end], dtype=np.int64).reshape(samples, carriers),
            events=tuple(events),
        )


class Remote:
    """Placeholder for a program that runs in another process.

    Attributes:
        doing: the activity it reports.
    """

    def __init__(self) -> None:
        self.doing = ""

    def tick(self) -> None:
        """Do nothing: the program is ticked in its own process."""


class Run:
    """One run of a scenario, ready to start.

    Attributes:
        swarm: the robots' Onboards, None for a crowd.
        now: the part being computed, for error messages.
        standing: current state of the run, as reported by the first acceptor.
        directory: of the results, None if none are written.
        manifest: what the run is computed from, None if no results are written.
        interrupts: the signals received.
        faults: results that were lost, with the reasons.
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
        self.scene = plan.scene
        self.now = f"world {scenario.world}"
        attend(self)
        self.standing = ""
        self.directory: Path | None = None
        self.manifest: Manifest | None = None
        self.interrupts = Interrupts()
        self.faults: list[str] = []
        self.world: TaskWorld = make(
            self.now, plan.make_world, plan.scene, stream(scenario.seed, Stream.WORLD)
        )
        self._contacts = self.world.watch_contacts()
        self.controllers: list[Controller] = []
        self._crowd: tuple[Crowd, CrowdProgram] | None = None
        self.swarm: LocalSwarm | None = None
        self._recorder: Recorder | None = None
        self._journal: Journal | None = None
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
            self._make_robots(plan, remote=remote)
        self.robots: Sequence[LocalRobot] = () if self.swarm is None else self.swarm.robots
        self.setting = Setting(plan.scene, self.world, self.robots)
        streams = stream(scenario.seed, Stream.GENERATORS).spawn(len(plan.generators))
        self.generators: list[Generator] = [
            make(f"generator {made.__name__}", made, parameters, self.setting, np.random.default_rng(source))
            for (made, parameters), source in zip(plan.generators, streams, strict=True)
        ]
        self.transducers: list[Transducer] = [
            make(f"transducer {made.__name__}", made, parameters, self.setting)
            for made, parameters in plan.transducers
        ]
        self.acceptors: list[Acceptor] = [
            make(f"acceptor {made.__name__}", made, parameters, self.setting)
            for made, parameters in plan.acceptors
        ]
        names = [placement.name for placement in plan.scene.robots]
        carriers = [placement.name for placement in plan.scene.carriers]
        self._tracker = _Tracker(names, carriers, scenario.time_limit)
        self._rows: list[dict[str, Any]] = []
        self._steps = round(1.0 / (TICK_RATE * self.world.timestep))
        self._labels = [f"{name}: controller {scenario.controller.name}" for name in names]
        self._world_label = f"world {scenario.world}"
        self._crowd_label = f"crowd: controller {scenario.controller.name}"
        self._time_limit = scenario.time_limit

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

    def _make_robots(self, plan: Plan, *, remote: bool) -> None:
        """Give each robot an Onboard and a program."""
        scene = plan.scene
        self.swarm = LocalSwarm.of_scene(scene, self.world)
        if remote:
            self.controllers = [Remote() for _ in self.swarm.robots]
            return
        streams = stream(self.scenario.seed, Stream.PROGRAMS).spawn(len(scene.robots))
        for robot, source in zip(self.swarm.robots, streams, strict=True):
            rng = np.random.default_rng(source)
            who = f"{robot.name}: controller {self.scenario.controller.name}"
            self.controllers.append(make(who, plan.controller, robot, plan.parameters, rng))

    @property
    def time(self) -> float:
        """Return the world's time."""
        return self.world.time

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
        progress: Callable[[Run], None] | None = None,
        terminate: bool = False,
        limits: Limits | None = None,
    ) -> dict[str, Any]:
        """Run to the end and return the summary.

        Args:
            out: gets a new directory for this run, `self.directory`; None writes no files.
            record: whether to write recording.mcap too.
            images: cameras whose images to record, such as `dots1/cam0`.
            speed: factor of real time, None for as fast as possible.
            progress: called after each tick.
            terminate: whether SIGTERM ends the run like Ctrl-C; `self.interrupts` tells them apart.
            limits: maximum wall time of a tick and of the run; by default there is none.

        Raises:
            RunError: the directory cannot be written, or a camera does not exist.
        """
        from swarmbed_experiments.runs.recording import watch

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
                    verdict, reason = self._loop(speed, progress)
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
            return
        pack(self.scenario, self.source, directory)
        self._attempt(manifest.NAME, self._begin_manifest)
        self._recorder = self._open_recorder(directory, images) if record else None
        tracked = {"robots_named": self._tracker.robots, "carriers_named": self._tracker.carriers}
        self._journal = Journal(directory / JOURNAL, {**self._about(), **tracked})
        self._due = time.perf_counter() + KEPT

    def _begin_manifest(self) -> None:
        if self.directory is not None:
            self.manifest = manifest.begin(self.directory, self.scenario, self.name, self.source)

    def _end_manifest(self) -> None:
        if self.directory is not None and self.manifest is not None:
            self.manifest = manifest.complete(self.directory, self.manifest)

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
        self._attempt("recording.mcap", self._close_recorder)
        summary = self._summary = self._sum_up(verdict, reason, wall)
        if self.directory is not None:
            self._write(self.directory, summary, failure)
        return summary

    def close(self) -> None:
        """Release the world's resources."""
        self._attempt(f"{self._world_label}: close()", self.world.close)
        if self._summary is not None and self.faults:
            self._summary["faults"] = self.faults
            if self.directory is not None:
                self._attempt("summary.json", self._write_summary)

    # The loop

    def _loop(self, speed: float | None, progress: Callable[[Run], None] | None) -> tuple[Verdict, str]:
        """Tick until the acceptors decide; return verdict and reason."""
        started = time.perf_counter()
        signals = self.interrupts
        for tick in itertools.count(1):
            decided = self.take(self.tick())
            if progress is not None:
                self.now = "progress"
                try:
                    progress(self)
                except OSError:
                    # The output is closed, which is no reason to stop the run.
                    progress = None
            if decided is not None:
                return decided
            if signals.received is not None:
                raise KeyboardInterrupt
            if speed is not None:
                ahead = started + tick / (TICK_RATE * speed) - time.perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
        raise AssertionError

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

    def take(self, look: Look) -> tuple[Verdict, str] | None:
        """Record a tick and judge it; return verdict and reason once the acceptors decide."""
        if self._recorder is not None:
            self._record(self._recorder, look)
        if self._journal is not None and time.perf_counter() > self._due:
            self._keep(self._journal)
        return self._judge(look)

    def _record(self, recorder: Recorder, look: Look) -> None:
        """Record a tick. An error ends the recording, but not the run."""
        self.now = "recording"
        signals = self.interrupts
        held, signals.held = signals.held, True
        try:
            recorder.tick(look.time, self.robots, self.controllers)
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
            }
            journal.add(track.arrays(), texts)
            self._kept = self._tracker.size, len(self._rows), len(self.setting.events)
            if self._recorder is not None:
                self._recorder.flush()
        except Exception as error:  # noqa: BLE001 - the run does not need the journal
            self._note("journal", error)
            self._journal = None
            with contextlib.suppress(OSError):
                journal.close(remove=True)
        finally:
            signals.held = held
        now = time.perf_counter()
        self._due = now + max(KEPT, (now - started) / COST)

    def tick(self) -> Look:
        """Advance by 0.1 s: world and Onboards, controllers, generators, transducers."""
        for _ in range(self._steps):
            self.step()
        if self._crowd is not None:
            crowd, program = self._crowd
            self.now = self._crowd_label
            program.tick(crowd.senses(), crowd.v_body)
        dead = self.setting.dead
        for label, robot, controller in zip(self._labels, self.robots, self.controllers, strict=False):
            if robot.name not in dead:
                self.now = label
                controller.tick()
        return self.frame()

    def step(self) -> None:
        """Advance the world by one time step, and run the Onboards that are due."""
        self.now = self._world_label
        if self.swarm is None:
            self.world.step()
        else:
            self.swarm.step()

    def frame(self) -> Look:
        """Run the experimental frame's part of a tick, after the programs."""
        look = self._look()
        for generator in self.generators:
            self.now = f"generator {type(generator).__name__}"
            generator.tick(look)
        for transducer in self.transducers:
            self.now = f"transducer {type(transducer).__name__}"
            transducer.tick(look)
        self._collect(look)
        return look

    def _look(self) -> Look:
        """Return the true state of the world, with the robots' activities."""
        self.now = self._world_label
        dead = self.setting.dead
        world, doing = self.world, []
        for label, robot, controller in zip(self._labels, self.robots, self.controllers, strict=False):
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
        return Look(world.time, world.truth(), world.carriers(), self._contacts.read(), doing)

    def _crowd_doing(self, program: CrowdProgram, dead: set[str]) -> list[str]:
        """Return the activities of a crowd's robots, empty if their program reports none."""
        said = list(getattr(program, "doing", ()))
        names = [placement.name for placement in self.scene.robots]
        if said and (len(said) != len(names) or not all(isinstance(word, str) for word in said)):
            message = (
                f"controller {self.scenario.controller.name}: `doing` must hold one string for each robot"
            )
            raise RunError(message)
        return ["dead" if name in dead else word for name, word in zip(names, said, strict=False)]

    def _collect(self, look: Look) -> None:
        """Add to the track and the time series, when a sample is due."""
        tick = round(look.time * TICK_RATE)
        if tick % self._tracker.every == 0:
            self._tracker.add(look)
        if tick % round(ROW_PERIOD * TICK_RATE) == 0:
            row: dict[str, Any] = {"time": look.time}
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
    if (track.robots, track.carriers) != (robots, carriers):
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
            for _ in range(round(min(seconds, scenario.time_limit) * TICK_RATE)):
                run.tick()
        except BaseException as error:
            # The run will raise the same error, report it and keep its data.
            if isinstance(error, KeyboardInterrupt) and signals.possible:
                raise
    run.close()
