"""Who looks on sees a run that never changes, at its own rate, and harms nobody."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from swarmbed_core.config import check
from swarmbed_core.errors import ConfigError
from swarmbed_core.orders import Leave, Pause
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.runs.run import Run

from swarmbed_core import observing

pytestmark = pytest.mark.slow

CASE = {
    "version": 1,
    "title": "seen",
    "world": "planar",
    "arena": "dots_arena",
    "time_limit": 3.0,
    "robots": [{"count": 2, "place": {"zone": "drop"}}],
    "carriers": [{"count": 1, "place": {"zone": "search"}}],
    "controller": {"name": "random_walk"},
}


def run_of(**changes):
    return Run(check({**CASE, **changes}, Scenario, "t.yaml"), "t.yaml")


class Watcher:
    def __init__(self, rate=10.0):
        self.rate = rate
        self.began = self.ended = None
        self.seen = []

    def begin(self, scene, manifest):
        self.began = (scene, dict(manifest))

    def see(self, snapshot):
        self.seen.append(snapshot)

    def end(self, summary):
        self.ended = summary["verdict"]


@pytest.mark.parametrize(("rate", "count"), [(30.0, 90), (10.0, 30), (4.0, 12), (0.5, 1), (1000.0, 300)])
def test_each_sees_at_the_rate_it_asks_for(rate, count):
    watcher = Watcher(rate)
    run = run_of()
    summary = run.go(observers=[watcher])
    times = [snapshot.time for snapshot in watcher.seen]
    told = summary["observers"]["Watcher"]
    assert len(times) + told["missed"] == count
    assert times == sorted(set(times))
    assert (watcher.ended, watcher.began[1]["seed"]) == ("accepted", 1)


def test_what_is_seen_is_what_was_and_never_changes():
    watcher = Watcher()
    run = run_of()
    run.go(observers=[watcher])
    track = run.track
    for snapshot in watcher.seen:
        k = int(np.argmin(np.abs(track.times - snapshot.time)))
        assert (snapshot.poses == track.poses[k]).all()
        assert (snapshot.carriers.poses == track.carrier_poses[k]).all()
        assert snapshot.doing == tuple(track.deeds[d] for d in track.doing[k])
        assert (snapshot.names, snapshot.state) == (track.robots, "running")
        assert len(snapshot.leds) == len(snapshot.lifts) == 2
        with pytest.raises(ValueError, match="read-only"):
            snapshot.poses[0, 0] = 1.0
        with pytest.raises(AttributeError, match="cannot assign to field"):
            snapshot.time = 1.0
    assert watcher.seen[-1].metrics["time"] == pytest.approx(3.0)


def test_nobody_changes_the_run_by_looking():
    poses = []
    for observers in ([], [Watcher(1000.0)]):
        run = run_of()
        run.go(observers=observers)
        poses.append(run.track.poses)
    assert (poses[0] == poses[1]).all()


class Raises(Watcher):
    def see(self, snapshot):
        if snapshot.time > 1.0:
            message = "I cannot look"
            raise RuntimeError(message)


class Sleeps(Watcher):
    def see(self, _):
        time.sleep(60)


def test_one_that_raises_is_dropped_with_a_word_and_harms_nobody():
    good, bad = Watcher(), Raises()
    summary = run_of().go(observers=[bad, good])
    assert summary["verdict"] == "accepted"
    assert summary["observers"]["Raises"]["dropped"] == "RuntimeError: I cannot look"
    assert "dropped" not in summary["observers"]["Watcher"]
    assert (bad.ended, good.ended) == (None, "accepted")


def test_one_that_sleeps_is_dropped_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(observing, "ENDING", 0.2)
    run = run_of()
    summary = run.go(observers=[Sleeps()])
    assert summary["verdict"] == "accepted"
    assert "too slow" in summary["observers"]["Sleeps"]["dropped"]


def test_a_paced_run_drops_one_that_sleeps_while_it_goes_on(monkeypatch):
    monkeypatch.setattr(observing, "SLOW", 0.2)
    summary = run_of(time_limit=1.0).go(observers=[Sleeps()], speed=1.0)
    assert summary["observers"]["Sleeps"]["dropped"] == "too slow: more than 0.2 s for one snapshot"


def test_two_of_a_kind_have_names_of_their_own():
    assert set(run_of(time_limit=0.2).go(observers=[Watcher(), Watcher()])["observers"]) == {
        "Watcher",
        "Watcher 2",
    }


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), "fast", None])
def test_a_rate_that_there_is_not_is_told(rate):
    with pytest.raises(ConfigError, match="expected a number of Hz above 0"):
        run_of().go(observers=[Watcher(rate)])


class Greedy(Watcher):
    """Computes for a millisecond a snapshot, as often as it is let."""

    spent = 0.0

    def see(self, _):
        began = time.thread_time()
        while time.thread_time() - began < 0.001:
            pass
        self.spent += 0.001


def test_a_hungry_one_misses_snapshots_and_not_the_run():
    greedy = Greedy(1000.0)
    run = run_of(time_limit=60.0, robots=[{"count": 5, "place": {"zone": "anywhere"}}])
    summary = run.go(observers=[greedy])
    told = summary["observers"]["Greedy"]
    assert told["seen"] + told["missed"] == 6000
    # Its share, what was in the backlog at the end, and a nap that was under way.
    assert greedy.spent < 0.1 * summary["wall_seconds"] + 0.001 * observing.BACKLOG + 0.1


def test_a_pause_is_seen_at_once():
    watcher, run = Watcher(), run_of()
    run.orders.put(Pause())
    thread = threading.Thread(target=run.go, kwargs={"observers": [watcher]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not watcher.seen and time.monotonic() < deadline:
        time.sleep(0.01)
    run.orders.put(Pause(paused=False)).result(60)
    thread.join(60)
    assert [(snapshot.time, snapshot.state) for snapshot in watcher.seen[:2]] == [
        (0.0, "paused"),
        (0.0, "running"),
    ]
    assert watcher.seen[-1].state == "running"


class RaisesAt(Watcher):
    def __init__(self, where):
        super().__init__()
        self.where = where

    def begin(self, *_):
        assert self.where != "begin"

    def end(self, _):
        assert self.where != "end"


@pytest.mark.parametrize("where", ["begin", "end"])
def test_one_that_cannot_begin_or_end_is_named(where):
    summary = run_of(time_limit=0.3).go(observers=[RaisesAt(where)])
    assert summary["verdict"] == "accepted"
    assert summary["observers"]["RaisesAt"]["dropped"].startswith("AssertionError")


def test_nothing_keeps_a_run_that_is_over(tmp_path):
    run = run_of(time_limit=0.5)
    run.orders.put(Leave("dots1"))
    run.go(tmp_path, observers=[Watcher()])
    run.close()
    kept = [weakref.ref(run), weakref.ref(run.world), *(weakref.ref(robot.onboard) for robot in run.robots)]
    del run
    gc.collect()
    assert [ref() for ref in kept] == [None] * len(kept)
