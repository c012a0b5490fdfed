"""DEVS models without the library xdevs: what is said, and what needs nothing of it but its interface."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from swarmbed_core.controller import find_controller
from swarmbed_core.errors import NotInstalledError

from swarmbed_behaviours import devs

HERE = Path(__file__).parent
FAKE = HERE / "fake"

WITH_FAKE = f"""
import sys, pytest, xdevs
assert xdevs.__file__.startswith({str(FAKE)!r}), xdevs.__file__
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""

ABSENT = """
import sys
sys.modules["xdevs"] = None
from swarmbed_core.controller import find_controller
from swarmbed_core.errors import NotInstalledError
try:
    find_controller("devs", {"model": "convoy"}, "my.yaml")
except NotInstalledError as error:
    print(error)
"""


def test_all_tests_of_devs_models_pass_with_a_fake_of_the_library():
    """So that they run on machines without it too. With it they run twice, and keep the fake honest."""
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    env["PYTHONPATH"] = os.pathsep.join([str(FAKE), env.get("PYTHONPATH", "")])
    files = [str(HERE / "test_devs.py"), str(HERE / "test_convoy_devs.py")]
    done = subprocess.run(
        [sys.executable, "-c", WITH_FAKE, *files], env=env, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.parametrize("model", ["convoy", "my_models:Mine"])
def test_who_lacks_the_library_reads_how_to_get_it(monkeypatch, model):
    monkeypatch.setattr(devs, "find_spec", lambda name: None if name == "xdevs" else pytest.fail(name))
    with pytest.raises(NotInstalledError) as told:
        find_controller("devs", {"model": model}, "my.yaml")
    assert "scripts/setup --devs" in str(told.value)
    assert "\n" not in str(told.value)


def test_the_controller_is_known_without_the_library():
    done = subprocess.run([sys.executable, "-c", ABSENT], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("controller 'devs' needs xdevs")
