import math

import numpy as np
import pytest
from swarmbed_behaviours.collective import Collective, CollectiveParameters, FormationPose, index_of, radio_of
from swarmbed_behaviours.toolkit import Board
from swarmbed_core.errors import ConfigError
from swarmbed_core.local import LocalSwarm
from swarmbed_core.markers import UndersideSight
from swarmbed_core.plugins import WORLDS, find_plugin, known
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_core.spec import RobotSpec

SQUARE = ((0, 0), (1, 0), (0, 1), (1, 1))
LINE = ((0, 0), (1, 0), (2, 0))
START = (-1.0, -0.7, 0.3)
TURN = ((0.5, 0.0, 0.0), (0.5, 0.0, math.pi / 2), (0.5, 0.4, math.pi / 2))


def parameters(**changes):
    return CollectiveParameters(**{"cells": SQUARE, "waypoints": TURN, **changes})


def places(cells, aside=0.01):
    """Return places under the carriers, a little off their middles and turned."""
    middle = np.mean(cells, axis=0)
    made = []
    for k, cell in enumerate(cells):
        x, y = 0.33 * (np.array(cell) - middle)
        c, s = math.cos(START[2]), math.sin(START[2])
        off = aside * (-1) ** k
        made.append((START[0] + c * x - s * y + off, START[1] + s * x + c * y, START[2] + 5 * off))
    return made


class Run:
    """A team in the mujoco world."""

    def __init__(self, cells, loss=None, seed=1, **changes):
        if "mujoco" not in known(WORLDS):
            pytest.skip("world 'mujoco' (package swarmbed_sim) is not installed")
        scenario = Scenario.model_validate(
            {
                "version": 1,
                "title": "team",
                "time_limit": 100,
                "robots": [{"kind": "dots", "place": {"poses": places(cells)}}],
                "carriers": [{"joined": cells, "payload": 0.5, "place": {"poses": [START]}}],
                "controller": {"name": "collective"},
                "radio": {"loss": loss},
            }
        )
        world_seed, *seeds = np.random.SeedSequence(seed).spawn(1 + len(cells))
        make = find_plugin(WORLDS, "mujoco")
        self.world = getattr(make, "make", make)(make_scene(scenario, seed), world_seed)
        self.contacts = self.world.watch_contacts()
        self.swarm = LocalSwarm(self.world)
        asked = parameters(cells=cells, **changes)
        self.programs = [
            Collective(robot, asked, np.random.default_rng(child))
            for robot, child in zip(self.swarm.robots, seeds, strict=True)
        ]
        self.doing = []
        self.poses = []
        self.carriers = []

    def tick(self):
        for program in self.programs:
            program.tick()
        self.swarm.run(0.1)
        self.doing.append([program.doing for program in self.programs])
        self.poses.append(self.world.truth()[:, :2])
        self.carriers.append(self.world.carriers().poses.copy())

    def until(self, *ends, seconds=90):
        while len(self.doing) < seconds * 10 and not (self.doing and set(self.doing[-1]) <= set(ends)):
            self.tick()
        return self


def distances(poses):
    i, j = np.triu_indices(len(poses), 1)
    return np.hypot(*(poses[i] - poses[j]).T)


@pytest.mark.parametrize(("cells", "loss"), [(SQUARE, 0.3), (LINE, None)], ids=["2x2, 30% lost", "line"])
def test_a_team_carries_in_a_fixed_geometry(cells, loss):
    run = Run(cells, loss).until("done", "failed")
    assert set(run.doing[-1]) == {"done"}
    carried = [k for k, doing in enumerate(run.doing) if "carry" in doing]
    held = [distances(run.poses[k]) for k in carried]
    assert np.abs(np.array(held) - held[0]).max() < 0.005
    # All lift, and all set off, in one tick.
    for what in ("lift", "carry"):
        assert (
            len({next(k for k, doing in enumerate(run.doing) if doing[i] == what) for i in range(len(cells))})
            == 1
        )
    c, s = math.cos(START[2]), math.sin(START[2])
    goal = START[0] + c * 0.5 - s * 0.4, START[1] + s * 0.5 + c * 0.4
    assert run.carriers[-1][:, :2].mean(axis=0) == pytest.approx(goal, abs=0.015)
    assert run.carriers[-1][:, 2] == pytest.approx(START[2] + math.pi / 2, abs=0.02)
    assert run.world.carriers().lifts.max() < 0.002
    assert max((touch.speed for touch in run.contacts.read()), default=0.0) < 0.1


def test_if_one_dies_the_others_put_down():
    run = Run(LINE, waypoints=((1.5, 0.0, 0.0),))
    run.until("carry")
    for _ in range(20):
        run.tick()
    run.world.kill("dots2")
    run.until("failed", seconds=5)
    for _ in range(140):
        run.tick()
    assert [doing for k, doing in enumerate(run.doing[-1]) if k != 1] == ["failed", "failed"]
    assert np.abs(run.world.truth()[:, 3:]).max() < 0.01


def test_alone_a_member_waits_and_then_gives_up(fake):
    fake.set(underside=UndersideSight(0.0, np.zeros(3), np.eye(3) * 1e-8, 9, np.zeros(3)))
    program = Collective(fake, parameters(patience=3.0), np.random.default_rng(1))
    doing = []
    for k in range(90):
        sight = UndersideSight(0.1 * k, np.zeros(3), np.eye(3) * 1e-8, 9, np.zeros(3))
        fake.set(time=0.1 * k, underside=sight)
        program.tick()
        doing.append(program.doing)
    assert "wait: centred" in doing
    assert doing[-1] == "failed"
    assert all(command.lift is not True for command in fake.commands)
    assert all(command.send for command in fake.commands[1:])


def test_the_formation_is_where_the_carriers_are(fake):
    """A robot that stands aside of its carrier's middle knows the formation all the same."""
    place = FormationPose(Board(fake, np.random.default_rng(0)), (0.165, -0.165, 0.0))
    board = Board(fake, np.random.default_rng(0))
    place.begin_to_stand(board)
    carrier = np.array([0.01, 0.02, 0.5])
    for k in range(1, 5):
        fake.set(time=0.1 * k, underside=UndersideSight(0.1 * k, carrier, np.eye(3), 9, carrier))
        board.begin()
        place.stand(board)
    assert place.sights == 4
    place.set_off(board)
    assert place.formation() == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)
    # The formation goes ahead along the carrier's +x: so does the robot, seen from its own axes.
    vx, vy, omega = place.velocity((0.1, 0.0, 0.0))
    assert (vx, vy, omega) == pytest.approx((0.1 * math.cos(0.5), 0.1 * math.sin(0.5), 0.0))
    # In a turn about the middle all parts of a rigid body are as fast as they are far from it.
    vx, vy, _ = place.velocity((0.0, 0.0, 1.0))
    assert math.hypot(vx, vy) == pytest.approx(math.hypot(*place._grip[:2]))
    assert math.hypot(*place._grip[:2]) == pytest.approx(0.165 * math.sqrt(2), abs=0.03)


def test_who_belongs_where():
    assert index_of("dots3", parameters()) == 2
    named = parameters(team=("a", "b", "c", "d"))
    assert index_of("d", named) == 3
    for name, asked in (("dots5", parameters()), ("dots", parameters()), ("dots1", named)):
        with pytest.raises(ConfigError, match=name):
            index_of(name, asked)


def test_who_cannot_take_part_is_told_why():
    assert radio_of(RobotSpec.load("dots")) == "ble"
    with pytest.raises(ConfigError, match="'epuck2' has no holonomic drive, no lifter"):
        radio_of(RobotSpec.load("epuck2"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "square"}, "one of path and waypoints"),
        ({"waypoints": None}, "one of path and waypoints"),
        ({"cells": ((0, 0), (0, 0))}, "two are the same"),
        ({"team": ("a",)}, "4 different names"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        parameters(**changes)


def test_a_path_is_taken_from_its_start():
    way = parameters(waypoints=None, path="square").way()
    assert way[0] == pytest.approx((1.6, 0.0, 0.0))
    assert way[2] == pytest.approx((0.0, 1.6, 0.0))
    with pytest.raises(ConfigError, match="nowhere"):
        parameters(waypoints=None, path="nowhere").way()
