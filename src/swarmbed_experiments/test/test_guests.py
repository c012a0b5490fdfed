"""Robots come and go at random: whoever looks sees the right ones, and nothing of them stays behind."""

import gc
import os
import weakref

import numpy as np
import pytest
from rosbags.highlevel import AnyReader
from swarmbed_core.config import check
from swarmbed_core.led import Telling, Tellings
from swarmbed_core.observing import Snapshot
from swarmbed_core.orders import Join, Leave, Told
from swarmbed_core.scenario import Scenario
from swarmbed_experiments.runs.run import Run

pytestmark = pytest.mark.slow

SHARE = float(os.environ.get("SWARMBED_GUESTS", "0.07"))
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


def frames_of(file):
    """Return the names of the robots whose frames a recording has."""
    with AnyReader([file]) as reader:
        sent = (reader.deserialize(raw, of.msgtype) for of, _, raw in reader.messages() if of.topic == "/tf")
        frames = {item.header.frame_id for message in sent for item in message.transforms}
    return {frame.removesuffix("_odom") for frame in frames if frame.endswith("_odom")}


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
        self.seen = {}
        self.tracked = {}
        self.gone = []

    def look(self, source):
        snapshot = Snapshot.of(source, 0, "running")
        for order, result in self.asked:
            if isinstance(order, Leave):
                assert result.result(0) is None
                self.here.remove(order.robot)
                self.places.pop(order.robot, None)
                self.tracked.pop(order.robot, None)
            elif result.exception(0) is None:
                self.here.append(result.result(0))
                self.joined += 1
                if order.tracked:
                    self.tracked[result.result(0)] = order.pose
        self.asked = []
        assert list(snapshot.names) == self.here
        assert len(snapshot.doing) == len(snapshot.robots) == len(snapshot.leds) == len(self.here)
        assert np.isfinite(snapshot.robots).all()
        for name, pose in zip(snapshot.names, snapshot.poses, strict=True):
            # Nobody gets another one's row: that would be a jump.
            if name in self.places:
                assert np.hypot(*(pose[:2] - self.places[name])) < 0.25, (name, snapshot.time)
            self.places[name] = pose[:2]
            self.seen.setdefault(name, {})[snapshot.time] = pose
            if name in self.tracked:
                assert pose == pytest.approx(self.tracked[name], abs=0.02), (name, snapshot.time)
        if self.tracked:
            self.tracked = {name: (x, y, yaw + 0.01) for name, (x, y, yaw) in self.tracked.items()}
            told = (Telling(name, snapshot.time, pose) for name, pose in self.tracked.items())
            self.run.orders.put(Told(Tellings.of(told)))
        if self.left_to_join > self.joined and self.rng.random() < 0.3:
            x, y = self.rng.uniform(-1.4, 1.4, 2)
            walks = "random_walk" if self.rng.random() < 0.5 else ""
            kind = KINDS[self.rng.integers(len(KINDS))]
            pose = float(x), float(y), float(self.rng.uniform(-2, 2))
            # A third of them is led from outside.
            order = Join(kind, pose, controller=walks, tracked=self.rng.random() < 0.33)
            self.asked.append((order, self.run.orders.put(order)))
        if len(self.here) > 3 and self.rng.random() < 0.15 * (len(self.here) - 3):
            name = self.here[self.rng.integers(len(self.here))]
            robot = next(robot for robot in self.run.robots if robot.name == name)
            self.gone.append(weakref.ref(robot.onboard))
            order = Leave(name)
            self.asked.append((order, self.run.orders.put(order)))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", ["planar", "mujoco"])
def test_a_thousand_guests_in_ten_minutes(world, tmp_path):
    share = SHARE if world == "planar" else 0.3 * SHARE
    run = Run(case(world, 600.0 * share))
    host = Host(run, np.random.default_rng(5), round(1000 * share))
    run.audience.add_inline(host)
    summary = run.go(tmp_path)
    assert summary["verdict"] == "accepted", summary["reason"]
    assert "faults" not in summary
    assert host.joined >= 0.8 * 1000 * share
    track = run.track
    assert len(track.robots) == len(set(track.robots))
    there = np.isfinite(track.poses[:, :, 0])
    assert there[-1].sum() == len(run.world.names)
    for name, poses, here in zip(track.robots, track.poses.swapaxes(0, 1), there.T, strict=True):
        seen = host.seen[name]
        assert [round(time, 6) for time in seen] == pytest.approx(track.times[here])
        assert poses[here] == pytest.approx(np.array(list(seen.values())), abs=1e-5)
    frames = frames_of(run.directory / "recording.mcap")
    assert {name for name in track.robots if len(host.seen[name]) > 3} <= frames <= set(track.robots)
    metrics = summary["metrics"]
    assert metrics["tracked"] == len(host.tracked)
    assert metrics["tellings"] > 0
    assert set(metrics["tellings_refused"]) <= {"unknown"}
    assert set(summary["metrics"]["distances"]) == set(track.robots) or len(track.robots) > 100
    kinds = [event.kind for event in track.events]
    assert kinds.count("joined") == host.joined
    gc.collect()
    # The last few may still be held by what was seen last.
    assert sum(gone() is not None for gone in host.gone) <= 2
    run.close()
