"""Processes left behind: ours are known, others' are left alone, and what has to end ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from swarmbed_experiments.tools import leftovers

SLEEPER = """
import signal, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start stand-ins for programs of a workspace of its own."""
    monkeypatch.setattr(leftovers, "_lib", lambda package: tmp_path / "install" / package / "lib" / package)
    started = []

    def start(name, *arguments, package="swarmbed_robot", **environment):
        program = tmp_path / "install" / package / "lib" / package / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(SLEEPER, encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, str(program), *arguments],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_ours_are_found_with_what_they_run_and_in_which_domain(start):
    world = start("world", "intralogistics", ROS_DOMAIN_ID="7")
    trial = start("trial", package="swarmbed_experiments", ROS_DOMAIN_ID="")
    start("swarmbed", "run", package="swarmbed_experiments")
    start("elsewhere", package="swarmbed_robot")
    found = {one.pid: one for one in leftovers.find()}
    assert found.keys() == {world.pid, trial.pid}
    assert (found[world.pid].what, found[world.pid].domain) == ("world intralogistics", "7")
    assert found[trial.pid].domain == "0"
    assert not found[world.pid].orphaned, "this test has started it, and is still there"


def test_another_workspace_s_processes_are_not_ours(start, monkeypatch, tmp_path):
    start("world")
    monkeypatch.setattr(leftovers, "_lib", lambda package: tmp_path / "other" / package / "lib" / package)
    assert leftovers.find() == []


def test_a_simulator_is_ours_if_it_has_our_plugin(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "_lib", lambda package: tmp_path / package / "lib" / package)
    words = ["/usr/bin/gzserver", "--pause", f"{tmp_path}/swarmbed-gazebo-x1/swarmbed.world"]
    ours = [f"GAZEBO_PLUGIN_PATH={tmp_path}/swarmbed_gazebo_plugin/lib"]
    assert leftovers._what(words, ours) == "gzserver (of a Gazebo world)"
    assert leftovers._what(words, ["GAZEBO_PLUGIN_PATH=/elsewhere"]) is None
    assert leftovers._what(["/usr/bin/gzserver", "my.world"], ours) is None


def test_who_is_an_orphan():
    assert leftovers._is_orphan(1, 4242)
    assert not leftovers._is_orphan(1, 1), "a job of the shell that is a container's first process"
    assert not leftovers._is_orphan(os.getpid(), 4242)
    assert leftovers._is_orphan(2**22 + 5, 4242), "no such process"


@pytest.mark.parametrize("how", [(), ("stubborn",)])
def test_what_has_to_end_ends(start, monkeypatch, how):
    monkeypatch.setattr(leftovers, "GRACE", tuple((number, 1.0) for number, _ in leftovers.GRACE))
    other, one = start("recorder"), start("world", *how)
    [found] = [each for each in leftovers.find() if each.pid == one.pid]
    began = time.monotonic()
    assert list(leftovers.end([found])) == [(found, True)]
    assert one.wait(5) < 0
    assert (time.monotonic() - began > 1.9) == bool(how)
    assert other.poll() is None, "nothing else is ended"
    assert list(leftovers.end([found])) == [(found, True)], "it has gone already"


def test_a_number_that_another_process_has_now_is_left_alone(start):
    process = start("world")
    [found] = [each for each in leftovers.find() if each.pid == process.pid]
    earlier = leftovers.Found(found.pid, found.started - 1, found.what, found.domain, orphaned=True)
    assert list(leftovers.end([earlier])) == [(earlier, True)]
    assert process.poll() is None
