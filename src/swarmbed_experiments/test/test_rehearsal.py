"""Before a sweep: what its runs depend on, and programs of others only in processes of their own."""

import os
import sys

import pytest
from swarmbed_core.config import share_dir
from swarmbed_core.errors import ConfigError
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs.hang import Limits
from swarmbed_experiments.runs.identity import differences, identity_of
from swarmbed_experiments.runs.rehearsal import IDLE, Case, is_world_ours, rehearsal_by, tame
from swarmbed_experiments.runs.replay import replay
from swarmbed_experiments.runs.run import Run, warm_up
from swarmbed_experiments.runs.scan import columns_of
from swarmbed_experiments.runs.scenarios import load_scenario
from swarmbed_experiments.runs.sweep import sweep
from swarmbed_experiments.runs.workers import Workers
from swarmbed_reality.remote import Remote
from typer.testing import CliRunner

from swarmbed_experiments import cli

pytestmark = pytest.mark.slow

SCENARIO = """
version: 1
title: of half a second
world: planar
arena: my_arena.yaml
time_limit: 0.5
robots: [{count: 2, kind: my_robot.yaml, place: {zone: anywhere}}]
controller: {name: "my_program:Mine"}
frame: {transducers: [{name: "my_frame:Counter"}]}
"""

PROGRAM = """
import os
import random
from pathlib import Path

import my_parameters
import numpy as np

made = 0

class Mine:
    Parameters = my_parameters.Parameters
    doing = "mine"

    def __init__(self, robot, parameters, rng):
        global made
        made += 1
        self.what = os.environ.get("MINE", "") if parameters.what is None else parameters.what
        self.table = Path("my_table.txt").read_text()

    def tick(self):
        import my_later
        if self.what == "spin":
            while True:
                pass
        if self.what == "exit":
            os._exit(5)
"""

FRAME = """
import random
import my_program
import numpy as np
from swarmbed_core.config import Part

class Counter:
    class Parameters(Part):
        pass

    def __init__(self, parameters, setting):
        pass

    def tick(self, look):
        pass

    def row(self):
        return {}

    def metrics(self):
        return {"made": my_program.made, "chance": random.random(), "more": float(np.random.rand())}
"""

PARAMETERS = """
from swarmbed_core.config import Part

class Parameters(Part):
    what: str | None = None
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scenario whose arena, robot, program and transducer are a user's."""
    made = tmp_path_factory.mktemp("mine")
    for name, text in {
        "mine.yaml": SCENARIO,
        "my_arena.yaml": "version: 1\ntitle: a square\nsize: [4.0, 4.0]\n",
        "my_robot.yaml": (share_dir() / "config/robots/dots.yaml").read_text(),
        "my_program.py": PROGRAM,
        "my_parameters.py": PARAMETERS,
        "my_later.py": "",
        "my_frame.py": FRAME,
        "my_table.txt": "1 2 3",
    }.items():
        (made / name).write_text(text)
        os.utime(made / name, (1, 1))
    return made


@pytest.fixture(scope="module")
def crew(folder):
    """Workers in its directory."""
    with Workers(2, directory=folder, path=[str(folder)]) as workers:
        yield workers


@pytest.fixture
def mine(folder, monkeypatch):
    monkeypatch.chdir(folder)
    # Other tests of this process may have modules of these names.
    for name in [name for name in sys.modules if name.startswith("my_")]:
        monkeypatch.delitem(sys.modules, name)
    yield folder
    assert not [name for name in sys.modules if name.startswith("my_")]


def case_of(mine, **changes):  # noqa: ARG001 - it has to be there
    from swarmbed_experiments.runs.scenarios import load_scenario

    scenario, source = load_scenario("mine.yaml", [f"{field}={value}" for field, value in changes.items()])
    return scenario, Case(scenario.model_dump_json(), source)


def test_everything_that_decides_a_run_is_in_its_identity(mine, crew):
    scenario, case = case_of(mine)
    before = identity_of(scenario, rehearsal_by(crew, case, Limits()))
    names = [
        "my_arena.yaml",
        "my_frame.py",
        "my_later.py",
        "my_parameters.py",
        "my_program.py",
        "my_robot.yaml",
        "my_table.txt",
    ]
    for file in (mine / name for name in names):
        file.write_text(f"{file.read_text()}\n")
        os.utime(file, (1, 1))
    after = identity_of(scenario, rehearsal_by(crew, case, Limits()))
    assert differences(before, after) == [f"file {name} has changed" for name in names]
    assert "config/robots/epuck2.yaml" not in before["files"]


def test_nothing_leaks_from_seed_to_seed_or_from_the_rehearsal(mine, crew, tmp_path):
    result = sweep("mine.yaml", seeds=3, out=tmp_path / "out", crew=crew)
    assert [row["made"] for row in result.rows] == [2, 2, 2]
    # Chance that is not the run's own differs from seed to seed, and is the same again.
    assert len({row["chance"] for row in result.rows}) == len({row["more"] for row in result.rows}) == 3
    # The same command does one that was lost again.
    for seed in (1, 2):
        (tmp_path / f"out/parts/{seed}.json").unlink()
    again = sweep("mine.yaml", seeds=3, out=tmp_path / "out", crew=crew)
    assert [row["chance"] for row in again.rows] == [row["chance"] for row in result.rows]
    assert [row["more"] for row in again.rows] == [row["more"] for row in result.rows]
    (mine / "my_later.py").write_text("speed = 2")
    os.utime(mine / "my_later.py", (1, 1))
    with pytest.raises(
        RunError, match=r"out holds runs of something else: file my_later.py has changed; choo"
    ):
        sweep("mine.yaml", seeds=3, out=tmp_path / "out", crew=crew)


@pytest.mark.usefixtures("mine")
def test_a_program_that_hangs_in_its_first_second_is_reported(crew, tmp_path):
    who = "dots1: controller my_program:Mine"
    where = r"my_program.py, line 24, in tick"
    text = rf"mine.yaml: in its first second, {who} has not returned for 5 s \({where}\)"
    with pytest.raises(RunError, match=text):
        sweep(
            "mine.yaml", seeds=3, out=tmp_path / "out", crew=crew, limits=Limits(tick=5.0),
            sets=["controller.what=spin"],
        )  # fmt: skip
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("mine")
def test_a_program_that_exits_its_process_fails_each_run_for_itself(crew, tmp_path):
    result = sweep("mine.yaml", seeds=1, out=tmp_path / "out", crew=crew, sets=["controller.what=exit"])
    assert [row["verdict"] for row in result.rows] == ["failed"]
    assert {row["reason"] for row in result.rows} == {"its process exited with status 5, 2 times"}


def test_faults_are_found(mine, crew):
    _, case = case_of(mine, **{"controller.speed": 3})
    with pytest.raises(ConfigError, match="speed: unknown field"):
        rehearsal_by(crew, case, Limits())


def test_what_is_not_ours_is_left_out(mine):
    scenario, _ = case_of(mine)
    kept = tame(scenario)
    assert kept.controller.name == IDLE
    assert kept.frame.transducers == ()
    assert [part.name for part in kept.frame.acceptors] == ["elapsed"]
    assert is_world_ours(scenario)


@pytest.mark.parametrize(
    ("controller", "ours"),
    [
        ({"name": "reference"}, True),
        ({"name": "devs", "model": "swarmbed_behaviours.convoy_devs:Follower"}, True),
        ({"name": "devs", "model": "my_models:Mine"}, False),
        ({"name": "my_program:Mine"}, False),
        ({"name": "nobody"}, False),
    ],
)
def test_whose_a_controller_is(controller, ours):
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "t",
            "time_limit": 1,
            "robots": [{"count": 1, "place": {"zone": "anywhere"}}],
            "controller": controller,
        }
    )
    assert (tame(scenario).controller == scenario.controller) is ours
    assert tame(scenario, programs=False).controller.name == IDLE


def test_worlds_of_others_are_not_ours(mine):
    assert not is_world_ours(case_of(mine, world='"my_world:make"')[0])


def test_warming_up_for_a_run_executes_nobody_elses_program(mine):
    scenario, case = case_of(mine)
    warm_up(scenario, case.source)
    assert "my_program" not in sys.modules


def test_a_crowd_stands_in_for_a_crowd():
    from swarmbed_experiments.runs.scenarios import load_scenario

    scenario, source = load_scenario("random_walk_1000", ["robots.0.count=5", "time_limit=0.5"])
    run = Run(tame(scenario, programs=False), source)
    assert run.go(record=False)["verdict"] == "accepted"
    run.close()


def test_rehearsals_move_no_real_robot(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(Remote, "make", staticmethod(lambda *arguments: opened.append(arguments)))
    case, source = load_scenario("remote_motors", ["robots.0.device.0.lockstep=false"])
    assert not any(group.device for group in tame(case).robots)
    warm_up(case, source, seconds=0.1)
    with pytest.raises(ConfigError, match=r"robots\.0\.device\.0 \(remote\): real parts run in real time"):
        sweep("remote_motors", seeds=2, out=tmp_path / "s", sets=["robots.0.device.0.lockstep=false"])
    assert opened == []


def test_a_run_closes_the_devices_of_its_robots():
    run = Run(*load_scenario("remote_motors", ["robots.0.count=1", "carriers.0.count=1", "time_limit=1"]))
    [link] = run.robots[0].onboard.device.outside
    run.tick()
    assert link.there
    run.close()
    assert not link.there


def test_programs_of_groups_are_tamed_too():
    changes = ["robots.0.controller.name=nowhere:Program"]
    case, _ = load_scenario("mixed_kinds", changes)
    names = [group.controller and group.controller.name for group in tame(case).robots]
    assert names == [IDLE, "random_walk", None]
    assert [group.controller.name for group in tame(case, programs=False).robots[:2]] == [IDLE, IDLE]


REAL = """
version: 1
title: a robot with a real part
world: planar
time_limit: 0.5
robots:
  - kind: dots
    count: 1
    place: {zone: anywhere}
    device: [{name: remote, parts: [motors], address: "udp://127.0.0.1:7499", key_file: "keys/{name}.key"}]
controller: {name: random_walk}
"""


def test_what_must_run_in_real_time_connects_to_no_robot_before(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(Remote, "make", staticmethod(lambda *arguments: opened.append(arguments)))
    file = tmp_path / "scenario.yaml"
    file.write_text(REAL)
    runner = CliRunner()
    ran = runner.invoke(cli.app, ["check", str(file)])
    assert (ran.exit_code, "valid (1 robots" in ran.output) == (0, True)
    ran = runner.invoke(cli.app, ["run", str(file)])
    assert "use --speed 1" in str(ran.exception)
    case, source = load_scenario(str(file))
    assert "distance_per_robot" in columns_of(Case(case.model_dump_json(), source, True, True))
    run = Run(case.all_virtual(), source)
    run.go(tmp_path / "runs")
    run.close()
    (run.directory / "scenario.yaml").write_text(REAL)
    with pytest.raises(RunError, match="a run with real parts cannot be played again"):
        replay(run.directory)
    assert opened == []
