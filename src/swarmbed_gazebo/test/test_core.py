"""A core for two: each pair has its own, and what was allowed before is allowed after."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from swarmbed_gazebo.core import SharedCore


@pytest.fixture
def sleepers():
    made = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(2)]
    yield [process.pid for process in made]
    for process in made:
        process.kill()
        process.wait()


def test_two_pairs_have_different_cores_and_give_them_back(sleepers):
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one core is here")
    first = SharedCore(sleepers[0])
    mine = os.sched_getaffinity(0)
    assert len(mine) == 1
    assert os.sched_getaffinity(sleepers[0]) == mine
    found = []

    def another():
        os.sched_setaffinity(0, before)
        second = SharedCore(sleepers[1])
        found.append(os.sched_getaffinity(0))
        second.close()
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=another)
    thread.start()
    thread.join()
    assert found[0].isdisjoint(mine)
    assert found[1] == before
    first.close()
    assert os.sched_getaffinity(0) == before


def test_without_a_free_core_all_stays_as_it_was(sleepers):
    before = os.sched_getaffinity(sleepers[1])
    first = SharedCore(sleepers[0])
    mine, found = os.sched_getaffinity(0), []

    def another():
        # It may be on one core only, and that is taken.
        os.sched_setaffinity(0, mine)
        second = SharedCore(sleepers[1])
        found.append((os.sched_getaffinity(0), os.sched_getaffinity(sleepers[1])))
        second.close()
        found.append((os.sched_getaffinity(0), os.sched_getaffinity(sleepers[1])))

    thread = threading.Thread(target=another)
    thread.start()
    thread.join()
    assert found == [(mine, before)] * 2
    first.close()


def test_a_world_that_follows_another_is_on_its_core_too(sleepers):
    before = os.sched_getaffinity(0)
    first = SharedCore(sleepers[0])
    mine = os.sched_getaffinity(0)
    second = SharedCore(sleepers[1])
    assert os.sched_getaffinity(sleepers[1]) == mine
    first.close()
    assert os.sched_getaffinity(0) == mine
    second.close()
    second.close()
    assert os.sched_getaffinity(0) == before
