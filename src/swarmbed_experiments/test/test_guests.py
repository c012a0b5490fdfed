"""Robots come and go at random: whoever looks sees the right ones, and nothing of them stays behind."""

import gc
import os
import weakref

import numpy as np
import pytest
from swarmbed_core.config import check
from swarmbed_core.observing import Snapshot
from swarmbed_core.orders import Join, Leave
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.runs.run import Run

pytestmark = pytest.mark.slow

SHARE = float(os.environ.get("SWARMBED_GUESTS", "0.1"))
"""Share of a thousand guests in ten minutes."""
KINDS = ("dots", "epuck2", "pioneer3dx")


def case(world, seconds):
    data = {
        "version": 1,
        "title": "guests",
        "world": world,
        "arena": "dots_arena",
        "time_limit": seconds,
        "robots": [{"count": 2, "place": {"zone": "drop"}}],
        "carriers": [{"count": 1, "place": {"zone": "search"}}],
        "controller": {"name": "random_walk"},
        "frame": {
            "generators": [{"name": "wheel_slip", "share": 0.05}, {"name": "motion_noise", "angle": 0.0}],
            "transducers": [
                {"name": name} for name in ("carriers", "travel", "contacts", "energy", "messages")
            ],
            "acceptors": [{"name": "elapsed"}],
        },
    }
    return check(data, Scenario, "guests")


class Host:
    """Invites and sees off at random at each tick, and knows who should be there."""

    rate = 10.0

    def __init__(self, run, rng, joins):
        self.run, self.rng = run, rng
        self.left_to_join = joins
        self.joined = 0
        self.asked = []
        self.here = list(run.world.names)
        self.places = {}
        self.gone = []

    def look(self, source):
        snapshot = Snapshot.of(source, 0, "running")
        for order, result in self.asked:
            if isinstance(order, Leave):
                assert result.result(0) is None
                self.here.remove(order.robot)
                self.places.pop(order.robot, None)
            elif result.exception(0) is None:
                self.here.append(result.result(0))
                self.joined += 1
        self.asked = []
        assert list(snapshot.names) == self.here
        assert len(snapshot.doing) == len(snapshot.robots) == len(snapshot.leds) == len(self.here)
        assert np.isfinite(snapshot.robots).all()
        for name, pose in zip(snapshot.names, snapshot.poses, strict=True):
            # Nobody gets another one's row: that would be a jump.
            if name in self.places:
                assert np.hypot(*(pose[:2] - self.places[name])) < 0.25, (name, snapshot.time)
            self.places[name] = pose[:2]
        if self.left_to_join > self.joined and self.rng.random() < 0.3:
            x, y = self.rng.uniform(-1.4, 1.4, 2)
            walks = "random_walk" if self.rng.random() < 0.5 else ""
            kind = KINDS[self.rng.integers(len(KINDS))]
            order = Join(kind, (float(x), float(y), float(self.rng.uniform(-3, 3))), controller=walks)
            self.asked.append((order, self.run.orders.put(order)))
        if len(self.here) > 3 and self.rng.random() < 0.15 * (len(self.here) - 3):
            name = self.here[self.rng.integers(len(self.here))]
            robot = next(robot for robot in self.run.robots if robot.name == name)
            self.gone.append(weakref.ref(robot.onboard))
            order = Leave(name)
            self.asked.append((order, self.run.orders.put(order)))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", ["planar", "mujoco"])
def test_a_thousand_guests_in_ten_minutes(world):
    share = SHARE if world == "planar" else 0.3 * SHARE
    run = Run(case(world, 600.0 * share))
    host = Host(run, np.random.default_rng(5), round(1000 * share))
    run.audience.add_inline(host)
    summary = run.go()
    assert summary["verdict"] == "accepted", summary["reason"]
    assert host.joined >= 0.8 * 1000 * share
    track = run.track
    assert len(track.robots) == len(set(track.robots))
    there = np.isfinite(track.poses[:, :, 0]).sum(axis=1)
    assert there[-1] == len(run.world.names)
    assert set(summary["metrics"]["distances"]) == set(track.robots) or len(track.robots) > 100
    kinds = [event.kind for event in track.events]
    assert kinds.count("joined") == host.joined
    gc.collect()
    # The last few may still be held by what was seen last.
    assert sum(gone() is not None for gone in host.gone) <= 2
    run.close()
