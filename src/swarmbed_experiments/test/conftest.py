"""A world for tests of the loop: robots of core's MemoryWorld and carriers that tests move by hand.

Scenarios name it `fake_world:make`; its controllers are `fake_controllers:...`.
"""

import signal
import sys
import types

import numpy as np
import pytest
from swarmbed_core.config import Part, check
from swarmbed_core.memory import MemoryWorld, Placement
from swarmbed_core.robot import Command
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.world import CarrierTruth
from swarmbed_experiments.frame import Look, Setting


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

    def look(self, time, robots=None, contacts=(), doing=()):
        truth = self.world.truth() if robots is None else np.array(robots, dtype=np.float64)
        return Look(time, truth, self.world.carriers(), contacts, doing)


@pytest.fixture
def stage(scenario_data):
    """Return what makes a Stage of a scenario with some changes."""
    return lambda **changes: Stage(check({**scenario_data, **changes}, Scenario, "t.yaml"))
