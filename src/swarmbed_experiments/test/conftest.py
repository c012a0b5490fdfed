"""Fixtures: a world for tests of the loop, saved figures, and sweeps and scans of jobs in place of runs.

The world has robots of core's MemoryWorld, and carriers that tests move by hand.

Scenarios name it `fake_world:make`; its controllers are `fake_controllers:...`.
"""

import importlib
import signal
import sys
import types

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from swarmbed_core.config import Part, check
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.observing import Snapshot
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.world import CarrierTruth
from swarmbed_experiments.frame import Look, Setting
from swarmbed_experiments.runs.identity import Inputs


class FakeWorld(MemoryWorld):
    """A TaskWorld without physics."""

    def __init__(self, scene, seed):
        super().__init__(
            [Placement(item.name, item.spec, item.pose) for item in scene.robots],
            scene.arena,
            seed=int(seed.generate_state(1)[0]),
            noise=scene.scenario.noise,
        )
        self.scene = scene
        self.told = []
        self.boxes = {}
        self.touched = []
        self.closed = False
        self.carrier_poses = np.array([item.pose for item in scene.carriers]).reshape(-1, 3)
        self.lifts = np.zeros(len(scene.carriers))
        self.carried_by = np.full(len(scene.carriers), -1, dtype=np.int64)

    def carriers(self):
        for i, row in enumerate(self.carried_by):
            if row >= 0:
                self.carrier_poses[i] = self.truth()[row, :3]
        return CarrierTruth(
            [item.name for item in self.scene.carriers],
            [item.marker for item in self.scene.carriers],
            self.carrier_poses,
            self.lifts,
            self.carried_by,
        )

    def watch_contacts(self):
        return types.SimpleNamespace(read=self._touches)

    def _touches(self):
        touched, self.touched = self.touched, []
        return touched

    def energy_wh(self):
        return np.full(len(self.names), self.time / 3600)

    def messages(self):
        return {"sent": 3, "heard": 2, "lost": 1}

    def teleport(self, name, pose):
        for i, item in enumerate(self.scene.carriers):
            if item.name == name:
                self.carrier_poses[i] = pose
                return
        super().teleport(name, pose)

    def kill(self, name):
        self.told.append(("kill", name))

    def kill_sensor(self, name, ring, sensor):
        self.told.append(("kill_sensor", name, ring, sensor))

    def set_slip(self, name, share):
        self.told.append(("set_slip", name, share))

    def set_drift(self, name, stretch, veer):
        self.told.append(("set_drift", name, stretch, veer))

    def set_radio_loss(self, share):
        self.told.append(("set_radio_loss", share))

    @property
    def obstacles(self):
        return self.scene.obstacles

    def add_obstacle(self, name, pose, size):
        assert name not in self.boxes
        self.boxes[name] = (pose, size)

    def remove_obstacle(self, name):
        del self.boxes[name]

    def close(self):
        self.closed = True


class FakeCrowd:
    """All robots of a FakeWorld as arrays; nothing moves them."""

    def __init__(self, world):
        self.spec = world.scene.robots[0].spec
        self.count = len(world.names)
        self.v_body = np.zeros((self.count, 3))

    def senses(self):
        return None


class FakeCrowdWorld(FakeWorld):
    """A FakeWorld that drives crowds."""

    def crowd(self):
        self.made = FakeCrowd(self)
        return self.made


class Drives:
    """Drives ahead; `fails_at` raises, as a student's program would."""

    class Parameters(Part):
        speed: float = 0.2
        fails_at: float | None = None
        interrupts_at: float | None = None

    def __init__(self, robot, parameters, rng):
        self.robot, self.parameters = robot, parameters
        self.doing = "drive"
        self.turn = float(rng.uniform(-1, 1))

    def tick(self):
        now = self.robot.sense().time
        if self.parameters.fails_at is not None and now >= self.parameters.fails_at - 1e-9:
            message = "by hand"
            raise ZeroDivisionError(message)
        if self.parameters.interrupts_at is not None and now >= self.parameters.interrupts_at - 1e-9:
            signal.raise_signal(signal.SIGINT)
        self.robot.act(Command(velocity_body=(self.parameters.speed, 0.0, self.turn)))

    @classmethod
    def crowd(cls, spec, parameters, count, rng):  # noqa: ARG003 - it needs no more
        return DrivesAll(parameters, count)


class DrivesAll:
    """The same for a crowd."""

    def __init__(self, parameters, count):
        self.parameters, self.count = parameters, count

    def tick(self, senses, v_body):  # noqa: ARG002 - it is blind
        assert v_body.shape == (self.count, 3)
        v_body[:, 0] = self.parameters.speed


class Broken:
    """A controller that cannot be made."""

    Parameters = Drives.Parameters

    def __init__(self, robot, parameters, rng):  # noqa: ARG002 - it gets no further
        int("one")


class NotForCrowds:
    """A controller without a crowd's form."""

    Parameters = Drives.Parameters


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    """Let scenarios name what is in this file."""
    worlds = types.ModuleType("fake_world")
    worlds.make, worlds.make_crowd = FakeWorld, FakeCrowdWorld
    programs = types.ModuleType("fake_controllers")
    programs.Drives, programs.NotForCrowds, programs.Broken = Drives, NotForCrowds, Broken
    programs.Nothing = object
    monkeypatch.setitem(sys.modules, "fake_world", worlds)
    monkeypatch.setitem(sys.modules, "fake_controllers", programs)


@pytest.fixture
def scenario_data():
    """Return a scenario as a YAML file would hold it."""
    return {
        "version": 1,
        "title": "a test",
        "world": "fake_world:make",
        "arena": "dots_arena",
        "time_limit": 2.0,
        "robots": [{"count": 2, "place": {"zone": "drop"}}],
        "carriers": [{"count": 2, "place": {"zone": "search"}}],
        "controller": {"name": "fake_controllers:Drives"},
        "frame": {"acceptors": [{"name": "elapsed"}]},
    }


class Stage:
    """A Setting over a FakeWorld, and looks at it at any time."""

    def __init__(self, scenario):
        scene = make_scene(scenario)
        self.world = FakeWorld(scene, np.random.SeedSequence(1))
        self.setting = Setting(scene, self.world, ())

    def look(self, time, robots=None, contacts=(), doing=(), names=None):
        truth = self.world.truth() if robots is None else np.array(robots, dtype=np.float64)
        names = tuple(self.world.names) if names is None else names
        return Look(time, truth, self.world.carriers(), contacts, doing, names)


@pytest.fixture
def stage(scenario_data):
    """Return what makes a Stage of a scenario with some changes."""
    return lambda **changes: Stage(check({**scenario_data, **changes}, Scenario, "t.yaml"))


class _EachTick:
    rate = 10.0

    def __init__(self, call):
        self.call = call

    def look(self, source):
        self.call(Snapshot.of(source, 0, "running"))


@pytest.fixture
def each_tick():
    """Return what lets a run call a function after each tick, in its own thread."""
    return lambda run, call: run.audience.add_inline(_EachTick(call))


@pytest.fixture
def advance():
    """Return what lets a run go on for some ticks; whether it was over then."""

    def advance(run, ticks=1):
        for _ in range(ticks * round(0.1 / run.timestep)):
            run.runner.cycle()
        return run.runner.over

    return advance


class Figures(list):
    """The figures that were saved, in order."""

    def labels(self, k):
        """Return the texts of all legends of a figure."""
        legends = [axes.get_legend() for axes in self[k].axes if axes.get_legend()] + self[k].legends
        return [text.get_text() for legend in legends for text in legend.get_texts()]

    @staticmethod
    def texts(axes):
        return [text.get_text() for text in axes.texts]


@pytest.fixture
def figures(monkeypatch):
    """Return the figures that are saved from now on."""
    saved = Figures()
    save = Figure.savefig

    def keep(figure, *arguments, **settings):
        saved.append(figure)
        return save(figure, *arguments, **settings)

    monkeypatch.setattr(Figure, "savefig", keep)
    return saved


@pytest.fixture
def is_drawn():
    """Return a check that a file is a picture with something on it, sharp enough for print."""

    def check_picture(file):
        pixels = imread(file)
        return pixels.shape[0] > 500 and pixels.shape[1] > 700 and pixels[..., :3].std() > 0.05

    return check_picture


@pytest.fixture
def jobs_case(tmp_path, monkeypatch):
    """Return what prepares a sweep or scan with jobs in place of runs.

    The jobs are functions of a module, because workers cannot import tests. They may append lines to the file
    $JOB_NOTE, which `done` returns as lists of words.
    """
    modules = []

    def make(name, scenario, jobs):
        (tmp_path / f"{name}.yaml").write_text(scenario)
        (tmp_path / f"{name}_jobs.py").write_text(jobs)
        modules.append(f"{name}_jobs")
        sys.modules.pop(modules[-1], None)
        note = tmp_path / "note"
        monkeypatch.setenv("JOB_NOTE", str(note))
        monkeypatch.syspath_prepend(tmp_path)
        # Somebody may edit the sources between two commands of a test.
        monkeypatch.setattr("swarmbed_experiments.runs.sweep.our_inputs", lambda: Inputs({}, {}))
        return types.SimpleNamespace(
            name=str(tmp_path / f"{name}.yaml"),
            out=tmp_path / "out",
            jobs=importlib.import_module(modules[-1]),
            done=lambda: [line.split() for line in note.read_text().splitlines()] if note.exists() else [],
        )

    yield make
    for module in modules:
        sys.modules.pop(module, None)


@pytest.fixture
def inline(monkeypatch):
    """Execute the jobs of sweeps and scans in this process; return the lengths of the lists of tasks."""
    lengths = []

    def work(crew, job, tasks, **_):  # noqa: ARG001
        lengths.append(len(tasks))
        for task in tasks:
            yield task, job(task)

    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    monkeypatch.setattr("swarmbed_experiments.runs.sweep.work", work)
    return lengths


SCANNED = """
version: 1
title: to be scanned
world: planar
time_limit: 1
robots: [{count: 2, place: {zone: drop}}]
controller: {name: random_walk, speed: 0.1}
"""
SCAN_JOBS = """
import json, os

def quick(task):
    scenario = json.loads(task.scenario)
    speed, count = scenario["controller"]["speed"], scenario["robots"][0]["count"]
    with open(os.environ["JOB_NOTE"], "a") as file:
        file.write(f"{speed} {count} {task.seed} {os.getpid()}\\n")
    row = {"seed": task.seed, "verdict": "accepted", "goal_error": speed * 10 + task.seed, "robots": count,
           "collisions": task.seed, "hit": task.seed == 1}
    if speed > 0.35 and task.seed == 2:
        row = {"seed": task.seed, "verdict": "failed", "reason": "too fast"}
    return row
"""


@pytest.fixture
def scanned(jobs_case):
    """Return a scenario to scan, with grids of six cells."""
    case = jobs_case("scanned", SCANNED, SCAN_JOBS)
    case.job = case.jobs.quick
    case.grids = ("controller.speed=0.1,0.2,0.4", "robots.0.count=2,3")
    return case
