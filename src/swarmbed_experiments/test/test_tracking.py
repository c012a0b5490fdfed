"""Tracked robots in runs: losses in the timeline, what was refused, verdicts."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from rosbags.highlevel import AnyReader
from swarmbed_core.config import check
from swarmbed_core.errors import ConfigError
from swarmbed_core.led import TOLD, Led, Telling, Tellings
from swarmbed_core.orders import Join, Told
from swarmbed_core.scenario import Scenario, TrackedBody
from swarmbed_core.spec import RobotSpec
from swarmbed_experiments.frame import Look, Setting, Stand
from swarmbed_experiments.frame.tracking import Tracked, Tracking
from swarmbed_experiments.runs.run import Run

DOTS = RobotSpec.load("dots")
PATIENCE = 0.5


class World:
    """As much of a world as these parts need: a clock and led robots."""

    def __init__(self, *names):
        self.time = 0.0
        self.made = Led(0.1)
        for name in names:
            self.join(name)

    def join(self, name):
        self.made.add(name, DOTS, (0.0, 0.0, 0.0), TrackedBody(patience=PATIENCE), self.time)

    def led(self):
        return self.made.state(self.time)

    def go(self, *names):
        """Advance by 0.1 s and tell where some robots are."""
        self.time += 0.1
        count = len(self.made.names)
        self.made.tell(Tellings.of(Telling(name, self.time, (0.0, 0.0, 0.0)) for name in names), self.time)
        poses, nothing = np.zeros((count, 3)), np.empty((0, 4))
        self.made.follow(
            self.time, np.arange(count), poses, nothing, np.empty((0, 3)), np.zeros((count, TOLD))
        )

    def look(self):
        return Look(self.time, np.zeros((0, 6)), None, (), (), ())


def setting_of(world, body="tracked"):
    group = {"place": {"poses": [[0, 0, 0]]}, "body": body}
    fields = {"version": 1, "title": "t", "time_limit": 5, "robots": [group], "controller": {"name": "x"}}
    return Setting(SimpleNamespace(scenario=Scenario.model_validate(fields), robots=()), world, ())


def test_losses_are_events_and_are_counted():
    world = World("led1", "led2")
    setting = setting_of(world)
    part = Tracking(check({}, Tracking.Parameters, "t"), setting)
    for step in range(30):
        # From 1 s to 2 s, nobody sees the second one.
        world.go(*(("led1",) if 10 <= step < 20 else ("led1", "led2")))
        part.tick(world.look())
        if step == 18:
            assert part.row() == {"tracked_lost": 1.0}
    assert part.row() == {"tracked_lost": 0.0}
    assert [(event.kind, event.who) for event in setting.events] == [("lost", "led2"), ("found", "led2")]
    lost, found = (event.time for event in setting.events)
    assert lost == pytest.approx(1.6)
    assert found == pytest.approx(2.1)
    metrics = part.metrics()
    assert metrics["tracked_losses"] == 1
    assert metrics["tracked_lost_seconds"] == pytest.approx(0.5, abs=0.11)
    assert metrics["tellings"] == 50
    assert metrics["tellings_refused"] == {}


def test_counts_of_robots_that_leave_are_kept():
    world = World("led1", "led2")
    part = Tracking(check({}, Tracking.Parameters, "t"), setting_of(world))
    for _ in range(10):
        world.go("led1")
        part.tick(world.look())
    world.made.remove("led2")
    part.tick(world.look())
    assert part.row() == {"tracked_lost": 0.0}
    world.join("led2")
    for _ in range(10):
        world.go("led2", "nobody")
        part.tick(world.look())
    metrics = part.metrics()
    assert (metrics["tracked"], metrics["tracked_losses"], metrics["tellings"]) == (2, 2, 20)
    assert metrics["tellings_refused"] == {"unknown": 10}


def test_counts_of_a_robot_that_leaves_and_comes_again_between_two_ticks_are_kept():
    world = World("led1")
    part = Tracking(check({}, Tracking.Parameters, "t"), setting_of(world))
    for k in range(10):
        world.go("led1")
        if k == 4:
            world.made.remove("led1")
            world.join("led1")
        part.tick(world.look())
    assert part.metrics()["tellings"] == 9


def test_a_robot_that_is_lost_for_too_long_is_rejected():
    world = World("led1", "led2")
    part = Tracked(check({"seconds": 0.4}, Tracked.Parameters, "t"), setting_of(world))
    for _ in range(5):
        world.go("led1")
        assert part.judge(world.look(), over=False).stand is Stand.CONTENT
    for _ in range(4):
        world.go("led1")
        assert part.judge(world.look(), over=False).stand is Stand.CONTENT
    world.go("led1")
    judgement = part.judge(world.look(), over=False)
    assert judgement.stand is Stand.REJECTED
    assert judgement.reason == "led2 has been lost for 0.50 s: more than 0.4 s, after 1.0 s"


def test_losses_between_two_ticks_are_events_and_are_judged():
    world = World("led1")
    setting = setting_of(world)
    tracking = Tracking(check({}, Tracking.Parameters, "t"), setting)
    strict, lenient = (
        Tracked(check({"seconds": seconds}, Tracked.Parameters, "t"), setting) for seconds in (0, 0.2)
    )
    world.go("led1")
    tracking.tick(world.look())
    assert strict.judge(world.look(), over=False).stand is Stand.CONTENT
    for _ in range(6):
        world.go()
    world.go("led1")
    world.go("led1")
    tracking.tick(world.look())
    assert [event.kind for event in setting.events] == ["lost", "found"]
    assert strict.judge(world.look(), over=False).stand is Stand.REJECTED
    assert lenient.judge(world.look(), over=False).stand is Stand.CONTENT


def test_without_tracked_robots_there_is_nothing_to_judge():
    with pytest.raises(ConfigError, match="acceptor tracked: no group of robots has `body: tracked`"):
        Tracked(check({}, Tracked.Parameters, "t"), setting_of(World(), body="simulated"))


def test_tracked_robots_that_may_still_join_are_judged():
    world = World()
    setting = setting_of(world, body="simulated")
    setting.scene.scenario = setting.scene.scenario.model_copy(update={"open": True})
    part = Tracked(check({}, Tracked.Parameters, "t"), setting)
    assert part.judge(world.look(), over=False).stand is Stand.CONTENT
    world.join("led1")
    for _ in range(7):
        world.go()
    assert part.judge(world.look(), over=False).stand is Stand.REJECTED


def test_worlds_that_cannot_lead_bodies_are_named():
    with pytest.raises(ConfigError, match="world fake_world:make has no tracked robots"):
        Run(scenario("fake_world:make"), "t")


def scenario(world, acceptors=(), **more):
    fields = {
        "version": 1,
        "title": "a robot that is led beside one that walks",
        "world": world,
        "time_limit": 3.0,
        "robots": [
            {"place": {"poses": [[0.8, 0.8, 0.0]]}},
            {
                "name": "led",
                "place": {"poses": [[-0.8, 0.0, 0.0]]},
                "body": {"patience": 0.3},
                "driver": "elsewhere",
            },
        ],
        "controller": {"name": "random_walk"},
        "frame": {"acceptors": [{"name": "elapsed"}, *acceptors]},
        **more,
    }
    return Scenario.model_validate(fields)


def lead(run, until=math.inf):
    """Run to the end; tell where the robot is at 10 Hz, on a straight line, until a time."""
    while run.decided is None:
        now = run.world.time
        if now < until:
            told = Telling("led1", now, (-0.8 + 0.4 * now, 0.0, 0.0), (0.4, 0.0, 0.0))
            run.orders.put(Told(Tellings.of([told])))
        for _ in range(round(0.1 / run.timestep)):
            run.runner.once()
    return run.decided


@pytest.mark.parametrize("world", ["planar", "mujoco"])
def test_a_run_with_a_tracked_robot(world):
    run = Run(scenario(world, [{"name": "tracked"}]), "t")
    verdict, _ = lead(run)
    assert verdict == "accepted"
    assert run.world.truth()[1, 0] == pytest.approx(-0.8 + 0.4 * 3.0, abs=1e-6)
    # Its Onboard has followed it by its wheels, though no program drives it.
    pose = run.robots[1].sense().pose_odom
    assert pose[0] == pytest.approx(0.4 * 3.0, abs=0.05)
    metrics = run.measures.metrics()
    assert metrics["tracked_losses"] == 0
    assert metrics["tellings"] == 30
    run.close()


def test_a_run_whose_robot_is_lost_is_rejected():
    run = Run(scenario("planar", [{"name": "tracked", "seconds": 0.2}]), "t")
    verdict, reason = lead(run, until=1.0)
    assert verdict == "rejected"
    assert "led1 has been lost" in reason
    assert run.time < 2.0
    assert [(event.kind, event.who) for event in run.setting.events] == [("lost", "led1")]
    run.close()


def test_a_tracked_robot_that_joins_may_be_lost_like_any_other():
    case = scenario("planar")
    run = Run(case.model_copy(update={"robots": case.robots[:1]}), "t")
    run.orders.put(Join("dots", (-0.8, 0.0, 0.0), "led1", tracked={"patience": 0.3}))
    lead(run, until=1.0)
    assert [event.kind for event in run.setting.events] == ["joined", "lost"]
    assert run.measures.metrics()["tracked_losses"] == 1
    run.close()


def test_a_tracked_robot_that_joins_a_crowd_is_recorded(tmp_path):
    group = {"count": 5, "crowd": True, "kind": "epuck2", "place": {"zone": "anywhere"}}
    run = Run(scenario("planar", robots=[group], time_limit=0.5), "t")
    run.orders.put(Join("dots", (0.0, 0.0, 0.0), "led1", tracked=True))
    summary = run.go(tmp_path)
    run.close()
    assert "faults" not in summary
    with AnyReader([run.directory / "recording.mcap"]) as reader:
        crowds = [
            reader.deserialize(raw, of.msgtype) for of, _, raw in reader.messages() if of.topic == "/crowd"
        ]
    assert len(crowds[-1].poses) == 6


def test_a_crowd_with_tracked_robots_beside_it():
    groups = [
        {"count": 20, "crowd": True, "place": {"zone": "anywhere"}},
        {"name": "led", "place": {"poses": [[0.0, 0.0, 0.0]]}, "body": "tracked"},
    ]
    run = Run(scenario("planar", robots=groups), "t")
    verdict, _ = lead(run)
    assert verdict == "accepted"
    assert run.track.poses.shape[1] == 21
    assert run.track.robots[-1] == "led1"
    run.close()
