"""A simulator that crashes while it starts is started again; stand-ins for it do what the tests need."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import pytest
from swarmbed_core.scenario import Scenario
from swarmbed_core.scene import make_scene
from swarmbed_gazebo.errors import CrashError, GazeboError
from swarmbed_gazebo.sdf import GAZEBO11
from swarmbed_gazebo.world import STARTS, GazeboPhysics

from swarmbed_gazebo import server as server_module

if TYPE_CHECKING:
    from pathlib import Path

# Counts its starts in a file, ends as it is told the first times, and then answers with one robot's state.
STAND_IN = """
import os, pathlib, socket, struct, sys
ending, times, when, counter, world = sys.argv[1:]
counter = pathlib.Path(counter)
count = counter.stat().st_size + 1 if counter.exists() else 1
counter.write_text("x" * count)
def end():
    if count <= int(times):
        sys.exit(int(ending)) if int(ending) >= 0 else os.kill(os.getpid(), -int(ending))
if when == "loading":
    end()
line = socket.socket(socket.AF_UNIX)
line.connect(str(pathlib.Path(world).parent / "socket"))
while size := line.recv(4):
    request = line.recv(struct.unpack("<I", size)[0])
    end()
    answer = struct.pack("<8d", *struct.unpack("<IIddd", request)[2:], *[0.0] * 5)
    line.sendall(struct.pack("<I", len(answer)) + answer)
"""


class StandIn:
    """A place whose server is a script."""

    kind, server = GAZEBO11, "/here/gzserver"

    def __init__(self, folder: Path, ending: int, times: int, when: str) -> None:
        self.script, self.starts = folder / "gzserver.py", folder / "starts"
        self.script.write_text(STAND_IN, encoding="utf-8")
        self.how = (str(ending), str(times), when, str(self.starts))

    def command(self, _seed, file):
        return [sys.executable, "-S", str(self.script), *self.how, str(file)]

    def environment(self, _port, _home):
        return {}

    @property
    def started(self) -> int:
        return self.starts.stat().st_size


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Return a way to put a stand-in in the simulator's place."""

    def put(ending, times, when="loading"):
        place = StandIn(tmp_path, ending, times, when)
        monkeypatch.setattr(server_module, "find", lambda _kind: place)
        return place

    return put


def physics():
    scenario = {
        "version": 1,
        "title": "test",
        "time_limit": 10,
        "robots": [{"place": {"poses": [[0.3, 0.2, 0.1]]}}],
        "controller": {"name": "random_walk"},
    }
    return GazeboPhysics(make_scene(Scenario.model_validate(scenario)))


@pytest.mark.parametrize("when", ["loading", "answering"])
def test_a_simulator_that_crashes_before_its_world_stands_is_started_again(stand_in, caplog, when):
    place = stand_in(-11, STARTS - 1, when)
    with caplog.at_level(logging.WARNING):
        made = physics()
    try:
        assert made.poses[0] == pytest.approx([0.3, 0.2, 0.1])
    finally:
        made.close()
    assert place.started == STARTS
    told = [record.message for record in caplog.records]
    assert len(told) == STARTS - 1
    assert all("SIGSEGV" in line for line in told)
    assert told[-1].endswith(f"starting it again ({STARTS} of {STARTS} starts)")


@pytest.mark.parametrize("when", ["loading", "answering"])
def test_one_that_crashes_each_time_is_given_up(stand_in, when):
    place = stand_in(-6, 100, when)
    with pytest.raises(CrashError, match="SIGABRT"):
        physics()
    assert place.started == STARTS


@pytest.mark.parametrize(("ending", "how"), [(3, "exit status 3"), (-15, "SIGTERM")])
def test_one_that_ends_otherwise_is_not_started_again(stand_in, ending, how):
    place = stand_in(ending, 100)
    with pytest.raises(GazeboError, match=how) as told:
        physics()
    assert not isinstance(told.value, CrashError)
    assert place.started == 1
