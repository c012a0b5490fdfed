"""A run's manifest says what it was computed from, from its first second on, and costs it nothing."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
import yaml
from swarmbed_core.config import check, share_dir
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.errors import RunError
from swarmbed_experiments.runs import manifest
from swarmbed_experiments.runs.identity import digest
from swarmbed_experiments.runs.manifest import Manifest, commit_of, digest_of, orders_of
from swarmbed_experiments.runs.run import Run
from swarmbed_experiments.runs.scenarios import pack

pytestmark = pytest.mark.slow


@pytest.fixture
def run(scenario_data):
    return Run(check({**scenario_data, "time_limit": 0.5}, Scenario, "t.yaml"), "t.yaml")


def test_a_manifest_names_what_took_part(run, tmp_path):
    run.go(tmp_path, record=False)
    found = Manifest.load(run.directory)
    assert found == run.manifest
    assert (found.scenario, found.source, found.seed) == ("t", "t.yaml", 1)
    assert {"swarmbed", "python", "numpy", "numba", "mujoco"} <= found.versions.keys()
    assert found.machine.cores >= 1
    assert found.machine.memory_gib > 0.1
    assert found.machine.cpu
    assert found.started < found.ended
    assert found.directory == str(manifest.Path.cwd())
    by_kind = {(each.kind, each.name): each for each in found.plugins}
    assert by_kind["worlds", "fake_world:make"].made_by == "fake_world:make"
    elapsed = by_kind["acceptors", "elapsed"]
    assert elapsed.file == "swarmbed_experiments/frame/acceptors.py"
    ours = share_dir() / "src" / "swarmbed_experiments" / elapsed.file
    assert found.files[elapsed.file] == digest(ours)
    assert {kind for kind, _ in by_kind} == {"worlds", "controllers", "transducers", "acceptors"}
    assert found.orders is None


def test_a_run_that_has_not_ended_has_a_manifest(run, tmp_path):
    run.begin(tmp_path)
    found = Manifest.load(tmp_path)
    assert found.ended is None
    assert found.digest == digest_of(tmp_path)
    (tmp_path / "orders.jsonl").write_text('{"step": 1, "order": "pause"}\n{"step": 5, "order": "resume"}\n')
    run.finish("interrupted", "by hand", 1.0)
    found = Manifest.load(tmp_path)
    assert found.ended is not None
    assert (found.orders.count, found.orders.digest) == (2, digest(tmp_path / "orders.jsonl"))


def test_a_manifest_that_cannot_be_written_is_a_fault_and_no_more(run, tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "machine", lambda: 1 / 0)
    summary = run.go(tmp_path, record=False)
    assert summary["verdict"] == "accepted"
    (fault,) = summary["faults"]
    assert fault.startswith("manifest.json: ZeroDivisionError: division by zero (test_manifest.py")
    assert not (run.directory / "manifest.json").exists()


def test_the_hash_of_a_scenario_is_of_all_but_the_seed(scenario_data, tmp_path):
    def hashed(name, **changes):
        directory = tmp_path / name
        directory.mkdir()
        pack(check({**scenario_data, **changes}, Scenario, "t.yaml"), "t.yaml", directory)
        return digest_of(directory)

    one = hashed("one", seed=1)
    assert one == hashed("two", seed=2)
    assert one != hashed("three", time_limit=3.0)
    with (tmp_path / "two" / "files" / "robots" / "dots.yaml").open("a") as stream:
        stream.write("# changed\n")
    assert digest_of(tmp_path / "two") != one


PROGRAM = """
    from pathlib import Path
    import helper

    class Reader:
        from swarmbed_core.controller import NoParameters as Parameters
        doing = "read"
        def __init__(self, robot, parameters, rng):
            Path("weights.csv").read_text()
        def tick(self):
            Path("late.csv").read_text()
            Path("mine.txt").write_text("x")
"""


def test_programs_with_their_modules_and_data_are_in_it(tmp_path):
    """Also what a program opens in its run; not what it writes."""
    (tmp_path / "reader.py").write_text(textwrap.dedent(PROGRAM))
    (tmp_path / "helper.py").write_text("VALUE = 1\n")
    (tmp_path / "weights.csv").write_text("1,2\n")
    (tmp_path / "late.csv").write_text("3,4\n")
    scenario = {
        "version": 1,
        "title": "reads",
        "world": "planar",
        "time_limit": 0.3,
        "robots": [{"count": 1, "place": {"zone": "drop"}}],
        "controller": {"name": "reader:Reader"},
    }
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(scenario))
    code = "from swarmbed_experiments.cli import main; main()"
    words = [sys.executable, "-c", code, "run", "case.yaml", "--no-record"]
    subprocess.run(words, cwd=tmp_path, env=os.environ, check=True, capture_output=True, timeout=300)
    [directory] = (tmp_path / "runs").iterdir()
    found = Manifest.load(directory)
    mine = {name for name in found.files if not name.startswith(("swarmbed_", "config/", "worlds/"))}
    assert mine == {"reader.py", "helper.py", "weights.csv", "late.csv", "case.yaml"}
    assert found.files["late.csv"] == digest(tmp_path / "late.csv")
    assert {"config/robots/dots.yaml", "worlds/dots_arena.yaml"} <= found.files.keys()
    [controller] = [each for each in found.plugins if each.kind == "controllers"]
    assert (controller.name, controller.file) == ("reader:Reader", "reader.py")
    assert found.command[1:] == ("run", "case.yaml", "--no-record")


def test_programs_of_groups_and_makers_of_devices_are_plugins():
    group = {"place": {"zone": "drop"}, "count": 1}
    scenario = Scenario.model_validate(
        {
            "version": 1,
            "title": "mixed",
            "time_limit": 1,
            "robots": [
                {**group, "controller": {"name": "random_walk"}},
                {**group, "device": [{"name": "mine:Device", "program": "other:Thing"}]},
            ],
            "controller": {"name": "reference"},
        }
    )
    found = {(group.rpartition(".")[2], point.value) for group, point in manifest._points(scenario)}
    assert ("controllers", "swarmbed_behaviours.random_walk:RandomWalk") in found
    assert ("controllers", "swarmbed_behaviours.reference:Reference") in found
    assert {("devices", "mine:Device"), ("devices", "other:Thing")} <= found


def test_commits_are_found(tmp_path):
    assert commit_of(tmp_path) is None
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    assert commit_of(tmp_path) is None
    (git / "packed-refs").write_text("# pack-refs\nabc refs/heads/other\ndef refs/heads/main\n")
    assert commit_of(tmp_path) == "def"
    (git / "refs" / "heads" / "main").write_text("012\n")
    assert commit_of(tmp_path) == "012"
    (git / "HEAD").write_text("345\n")
    assert commit_of(tmp_path) == "345"
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {git / 'worktrees' / 'tree'}\n")
    (git / "worktrees" / "tree").mkdir(parents=True)
    (git / "worktrees" / "tree" / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "worktrees" / "tree" / "commondir").write_text("../..\n")
    assert commit_of(tree) == "012"


def test_what_is_no_manifest_is_told(tmp_path):
    with pytest.raises(RunError, match=r"manifest\.json: cannot be read"):
        Manifest.load(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(RunError, match=r"manifest\.json: not a run's manifest .format: Input should be 1"):
        Manifest.load(tmp_path)
    assert orders_of(tmp_path) is None


def test_names_that_utf8_cannot_encode_cost_no_manifest(scenario_data, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["swarmbed", "run", "t\udce4.yaml"])
    made = Run(check({**scenario_data, "time_limit": 0.2}, Scenario, "t"), "t\udce4.yaml")
    assert "faults" not in made.go(tmp_path, record=False)
    made.close()
    found = Manifest.load(made.directory)
    assert (found.source, found.command[-1]) == ("t?.yaml", "t?.yaml")
