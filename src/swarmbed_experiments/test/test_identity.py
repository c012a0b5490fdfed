"""What decides a run is noticed, by name."""

import os
import subprocess
import sys
import textwrap

import pytest
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.runs.identity import (
    Inputs,
    all_inputs,
    differences,
    digest_of,
    identity_of,
    is_identity,
    listed,
    our_inputs,
)

pytestmark = pytest.mark.slow

SCENARIO = {
    "version": 1,
    "title": "of one second",
    "time_limit": 1,
    "robots": [{"count": 1, "place": {"zone": "anywhere"}}],
    "controller": {"name": "reference"},
}


def scenario_of(**changes):
    return Scenario.model_validate(SCENARIO | changes)


@pytest.fixture(scope="module")
def ours():
    return our_inputs()


def test_identity_is_of_all_but_the_seed(ours):
    one, two = (identity_of(scenario_of(seed=seed), ours) for seed in (1, 2))
    assert one == two
    assert is_identity(one)
    assert digest_of(one) == digest_of(two) != digest_of(identity_of(scenario_of(time_limit=2), ours))


def test_our_code_and_what_it_stands_on_are_in_it(ours):
    assert {"swarmbed_core/onboard.py", "swarmbed_behaviours/toolkit/board.py"} <= ours.files.keys()
    assert {"python", "numpy", "numba"} <= ours.packages.keys()
    assert not ours.theirs


def test_differences_are_named():
    then = identity_of(
        scenario_of(), Inputs({"a.py": "1", "swarmbed_core/b.py": "1", "gone.csv": "1"}, {"numpy": "1.0"})
    )
    now = identity_of(
        scenario_of(time_limit=3, controller={"name": "reference", "speed": 2}),
        Inputs({"a.py": "2", "swarmbed_core/b.py": "2", "new.csv": "1"}, {"numpy": "2.0", "torch": "3"}),
    )
    found = differences(then, now)
    assert found == [
        "setting time_limit 1.0 is now 3.0",
        "setting controller.speed null is now 2",
        "file a.py has changed",
        "file gone.csv is no longer used",
        "file new.csv is new",
        "file swarmbed_core/b.py has changed",
        "package numpy 1.0 is now 2.0",
        "package torch none is now 3",
    ]
    assert listed(found).endswith("; file new.csv is new; and 3 more")
    assert differences(then, then) == []


@pytest.mark.parametrize("found", [None, [], {}, {"version": 1}, {"version": 2, "settings": {}, "files": []}])
def test_what_is_no_identity_is_known(found):
    assert not is_identity(found)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A directory with a program of several files."""
    (tmp_path / "parts").mkdir()
    for name, text in {
        "my_program.py": "import parts.wheel\nfrom parts import lamp as light\nimport yaml\n",
        "parts/__init__.py": "",
        "parts/wheel.py": "def turn():\n    from . import bell\n    import my_late\n",
        "parts/lamp.py": "",
        "parts/bell.py": "",
        "parts/unused.py": "",
        "my_late.py": "import not_there\n",
        "my_dynamic.py": "",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(("my_", "parts"))]:
        del sys.modules[name]


def test_modules_of_a_program_are_found_with_all_that_they_import(mine):  # noqa: ARG001
    __import__("my_dynamic")
    found = all_inputs(["my_program"], [], 0)
    assert set(found.theirs) >= {
        "my_program.py", "parts/__init__.py", "parts/wheel.py", "parts/lamp.py", "parts/bell.py",
        "my_late.py", "my_dynamic.py",
    }  # fmt: skip
    assert "parts/unused.py" not in found.theirs
    assert found.modules
    assert found.packages["PyYAML"]
    assert set(found.theirs) <= set(found.files)
    # What was only looked for was not executed.
    assert "parts.wheel" not in sys.modules


def test_a_changed_module_is_another_identity(mine):
    before = identity_of(scenario_of(), all_inputs(["my_program"], [], 0))
    (mine / "parts/bell.py").write_text("loud = True\n")
    after = identity_of(scenario_of(), all_inputs(["my_program"], [], 0))
    assert differences(before, after) == ["file parts/bell.py has changed"]


READS = """
    import io, json, os, sys, time
    from pathlib import Path
    from swarmbed_core.config import share_dir
    from swarmbed_experiments.runs.identity import Reads, all_inputs
    since = time.time_ns()
    reads = Reads()
    Path("arena.yaml").read_text()
    open("weights.bin", "rb").close()
    os.close(os.open("raw", os.O_RDONLY))
    Path("log").write_text("mine"); Path("log").read_text()
    with open("both", "r+") as file: file.read()
    open("/proc/self/stat").close()
    open(json.__file__).close()
    open(share_dir() / "config/robots/dots.yaml").close()
    import mine
    found = all_inputs(["mine"], list(reads.found), since)
    theirs = {name for name in found.files if not name.startswith("swarmbed_")}
    print(json.dumps(sorted(theirs)))
"""


def test_what_a_run_reads_is_in_it_and_what_it_writes_is_not(tmp_path):
    for name in ("arena.yaml", "weights.bin", "raw", "both", "mine.py"):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1, 1))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READS)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    names = ["arena.yaml", "config/robots/dots.yaml", "mine.py", "raw", "weights.bin"]
    assert done.stdout.strip() == str(names).replace("'", '"')


def test_a_file_that_is_gone_is_left_out(tmp_path):
    found = all_inputs([], [tmp_path / "gone"], 0)
    assert str(tmp_path / "gone") not in found.files
